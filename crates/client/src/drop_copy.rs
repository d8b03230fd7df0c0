//! Drop copy: the reports to a firm's sessions, in order, without gaps, resumed automatically.
//!
//! [`DropCopy`] holds a stream of copies per partition: the request to send, the copies received,
//! the next one wanted. It does no I/O and reads no clock. Each copy names the one before it, and
//! the node names the one before the first; a mismatch is [`ClientError::CopyGap`], never skipped.
//! [`DropCopyReader`] runs it on a connection and resumes it after a loss.
//!
//! | message from the node                | result                                            |
//! | ------------------------------------ | ------------------------------------------------- |
//! | state On, the copy before is ours    | copies come                                       |
//! | state On, the copy before is another | [`ClientError::CopyGap`]                          |
//! | state Off, `SlowConsumer`            | requested again from the last copy received       |
//! | state Off, another reason            | [`ClientError::CopiesRefused`], with the range    |
//! | copy, the one before is our last     | accepted                                          |
//! | copy, the one before is another      | [`ClientError::CopyGap`]                          |
//!
//! INVARIANT: a point is a copy that was received, or a number that the node named; all copies up
//! to it were received.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use weir_types::{CopyNo, Epoch, FirmId, PartitionId, Reason, SessionId, Switch};
use weir_wire::drop_copy::{CopyMark, DropCopyRequest, DropCopyState, ReportCopy};
use weir_wire::frame::put_frame;

pub use crate::copied_report::CopiedReport;

use crate::client::{Client, Incoming};
use crate::connection::{Limits, Target};
use crate::error::ClientError;
use crate::session::{SessionConfig, SessionEvent};

/// A reader's position in a partition: all copies up to this one are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyPoint {
    /// The partition.
    pub partition_id: PartitionId,
    /// The partition's epoch when the point was received; none if the node named none.
    pub epoch: Epoch,
    /// The last copy received, or the last before the first wanted.
    pub copy_no: CopyNo,
}

/// The start of a partition without a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// The next new copy.
    Now,
    /// The oldest copy that the node has.
    Oldest,
}

/// The result of a node's message for a reader.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyOutcome {
    /// The message was accepted.
    Taken,
    /// The message belongs to another stream, or to this one before it was requested again.
    NotOurs,
    /// The stream has to be requested again.
    AskAgain(PartitionId),
}

/// The state of a stream.
#[derive(Debug)]
struct Progress {
    epoch: Epoch,
    /// The first copy wanted; none if unknown.
    from: CopyNo,
    /// The copy before `from`, if one was received or named. A node that names none may have lost
    /// sight of it, and a later one names it again.
    previous: Option<CopyNo>,
    /// The copy that the next head of the open stream names as the one before.
    expected: CopyNo,
    high_water: CopyNo,
    is_open: bool,
    asked_for_oldest: bool,
}

/// A firm's copies, per partition.
#[derive(Debug)]
pub struct DropCopy {
    session_id: SessionId,
    firm_id: FirmId,
    beginning: Beginning,
    partitions: BTreeMap<PartitionId, Progress>,
}

impl DropCopy {
    /// Creates the copies of a firm's reports for `session_id`; with no firm, of all that the
    /// session may copy. It starts from `points`, and in other partitions from `beginning`.
    #[must_use]
    pub fn new(
        session_id: SessionId,
        firm_id: FirmId,
        beginning: Beginning,
        points: &[CopyPoint],
    ) -> DropCopy {
        let progress = |point: &CopyPoint| {
            let progress = Progress {
                epoch: point.epoch,
                from: CopyNo(point.copy_no.0.saturating_add(1)),
                ..Progress::unknown()
            };
            (point.partition_id, progress)
        };
        let partitions = points.iter().map(progress).collect();
        DropCopy { session_id, firm_id, beginning, partitions }
    }

    /// Requests the copies of a partition, from its current point.
    pub fn ask(&mut self, partition_id: PartitionId, out: &mut Vec<u8>) {
        let beginning = self.beginning;
        let progress = self.partitions.entry(partition_id).or_insert_with(Progress::unknown);
        progress.is_open = false;
        let from_copy_no = match (progress.from, beginning) {
            (CopyNo::NONE, Beginning::Oldest) => CopyNo(1),
            (from, _) => from,
        };
        progress.asked_for_oldest = progress.from.is_none() && beginning == Beginning::Oldest;
        let request = DropCopyRequest {
            from_copy_no,
            session_id: self.session_id,
            firm_id: self.firm_id,
            epoch: progress.epoch,
            partition_id,
            wanted: Switch::On,
        };
        put_frame(&request, out);
    }

    /// Marks all streams closed after a lost connection; the points stay.
    pub fn connection_lost(&mut self) {
        self.partitions.values_mut().for_each(|progress| progress.is_open = false);
    }

    fn own(&mut self, session_id: SessionId, firm_id: FirmId) -> Option<&mut Self> {
        (session_id == self.session_id && firm_id == self.firm_id).then_some(self)
    }

    /// Handles the state of a stream.
    ///
    /// # Errors
    /// [`ClientError::CopyGap`], [`ClientError::CopiesRefused`].
    pub fn on_state(&mut self, state: &DropCopyState) -> Result<CopyOutcome, ClientError> {
        let partition_id = state.partition_id;
        let ours = self.own(state.session_id, state.firm_id);
        let progress = ours.and_then(|ours| ours.partitions.get_mut(&partition_id));
        let Some(progress) = progress else { return Ok(CopyOutcome::NotOurs) };
        progress.is_open = false;
        if state.wanted == Switch::Off {
            return match state.reason {
                Reason::SlowConsumer => Ok(CopyOutcome::AskAgain(partition_id)),
                Reason::ResumeOutOfRange if progress.asked_for_oldest => {
                    progress.from = state.oldest_copy_no;
                    Ok(CopyOutcome::AskAgain(partition_id))
                }
                reason => Err(ClientError::CopiesRefused {
                    partition_id,
                    reason,
                    oldest_copy_no: state.oldest_copy_no,
                    next_copy_no: state.next_copy_no,
                }),
            };
        }
        let got = state.previous_copy_no;
        // A node that has lost sight of what is past the retention names no copy before.
        let may_be = |last: CopyNo| got == last || got.is_none() && last < state.oldest_copy_no;
        if let Some(expected) = progress.previous.filter(|last| !may_be(*last)) {
            return Err(ClientError::CopyGap { partition_id, expected, got });
        }
        if got >= progress.from && !progress.from.is_none() {
            let expected = CopyNo(progress.from.0 - 1);
            return Err(ClientError::CopyGap { partition_id, expected, got });
        }
        if progress.from.is_none() {
            // Numbers in between belong to no copy of this stream, now or later.
            progress.from = CopyNo(got.0.saturating_add(1)).max(state.oldest_copy_no);
        }
        progress.previous = Some(got).filter(|got| !got.is_none()).or(progress.previous);
        progress.expected = got;
        progress.epoch = state.epoch;
        progress.high_water = state.high_water;
        progress.is_open = true;
        Ok(CopyOutcome::Taken)
    }

    /// Handles a copy's head; its report follows.
    ///
    /// # Errors
    /// [`ClientError::CopyGap`].
    pub fn on_copy(&mut self, head: &ReportCopy) -> Result<CopyOutcome, ClientError> {
        let partition_id = head.partition_id;
        let ours = self.own(head.session_id, head.firm_id);
        let progress = ours.and_then(|ours| ours.partitions.get_mut(&partition_id));
        let Some(progress) = progress.filter(|progress| progress.is_open) else {
            return Ok(CopyOutcome::NotOurs);
        };
        let expected = progress.expected;
        let got = head.previous_copy_no;
        if got != expected || head.copy_no < progress.from {
            return Err(ClientError::CopyGap { partition_id, expected, got });
        }
        (progress.previous, progress.expected) = (Some(head.copy_no), head.copy_no);
        progress.from = CopyNo(head.copy_no.0.saturating_add(1));
        progress.high_water = progress.high_water.max(head.copy_no);
        Ok(CopyOutcome::Taken)
    }

    /// Handles the high-water mark of a stream.
    pub fn on_mark(&mut self, mark: &CopyMark) -> CopyOutcome {
        let ours = self.own(mark.session_id, mark.firm_id);
        let progress = ours.and_then(|ours| ours.partitions.get_mut(&mark.partition_id));
        let Some(progress) = progress.filter(|progress| progress.is_open) else {
            return CopyOutcome::NotOurs;
        };
        progress.high_water = progress.high_water.max(mark.high_water);
        CopyOutcome::Taken
    }

    /// Returns the point of each partition, to be stored and resumed from. A partition without an
    /// answer of the node has none.
    #[must_use]
    pub fn points(&self) -> Vec<CopyPoint> {
        let point = |(partition_id, progress): (&PartitionId, &Progress)| {
            let copy_no = CopyNo(progress.from.0.checked_sub(1)?);
            Some(CopyPoint { partition_id: *partition_id, epoch: progress.epoch, copy_no })
        };
        self.partitions.iter().filter_map(point).collect()
    }

    /// True when every requested stream is open and has received all copies up to the node's last
    /// high-water mark.
    #[must_use]
    pub fn is_current(&self) -> bool {
        let is_current =
            |progress: &Progress| progress.is_open && progress.expected >= progress.high_water;
        !self.partitions.is_empty() && self.partitions.values().all(is_current)
    }
}

impl Progress {
    fn unknown() -> Progress {
        Progress {
            epoch: Epoch::NONE,
            from: CopyNo::NONE,
            previous: None,
            expected: CopyNo::NONE,
            high_water: CopyNo::NONE,
            is_open: false,
            asked_for_oldest: false,
        }
    }
}

/// A reader of copies on a connection of its own, which reconnects automatically.
#[derive(Debug)]
pub struct DropCopyReader {
    client: Client,
    copies: DropCopy,
    is_connected: bool,
    /// True once another connection has taken the session over: no connection is made any more.
    is_taken_over: bool,
    timeout: Duration,
}

/// The time between two attempts to reconnect.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

impl DropCopyReader {
    /// Connects, logs on and requests the copies of every partition.
    ///
    /// # Errors
    /// As [`Client::log_on`].
    pub fn connect(
        target: impl Into<Target>,
        session: SessionConfig,
        copies: DropCopy,
        timeout: Duration,
    ) -> Result<DropCopyReader, ClientError> {
        let mut client = Client::connect(target, Limits::default())?;
        client.log_on(session, timeout)?;
        let (is_connected, is_taken_over) = (true, false);
        let mut reader = DropCopyReader { client, copies, is_connected, is_taken_over, timeout };
        reader.ask_for_all();
        Ok(reader)
    }

    fn ask_for_all(&mut self) {
        let session = self.client.sessions().first().expect("it was begun with one");
        let partitions: Vec<PartitionId> = session.partitions().collect();
        for partition_id in partitions {
            self.copies.ask(partition_id, self.client.outbox());
        }
    }

    /// Processes messages for up to `timeout`; after a lost connection, tries once to reconnect.
    /// Passes each copy to `take` once, in order within its partition. Returns the number of
    /// copies.
    ///
    /// # Errors
    /// [`ClientError::CopiesRefused`], [`ClientError::CopyGap`], [`ClientError::LogonRejected`]:
    /// errors that reconnecting does not resolve. [`ClientError::LoggedOut`] with
    /// [`Reason::TakenOver`], now and at each later call: another connection has the session, and
    /// this reader makes none any more.
    pub fn poll(
        &mut self,
        timeout: Duration,
        mut take: impl FnMut(&ReportCopy, &CopiedReport),
    ) -> Result<usize, ClientError> {
        if self.is_taken_over {
            return Err(ClientError::taken_over(self.copies.session_id));
        }
        if !self.is_connected && !self.come_back(timeout)? {
            return Ok(0);
        }
        let DropCopyReader { client, copies, .. } = self;
        let mut outcome = Ok(());
        let mut count = 0;
        let polled = client.poll(timeout, |incoming, out| {
            if outcome.is_err() {
                return;
            }
            outcome = match incoming {
                Incoming::Copy(head, report) => copies.on_copy(&head).map(|taken| {
                    if taken == CopyOutcome::Taken {
                        take(&head, &report);
                        count += 1;
                    }
                }),
                Incoming::CopyState(state) => copies.on_state(&state).map(|outcome| {
                    if let CopyOutcome::AskAgain(partition_id) = outcome {
                        copies.ask(partition_id, out);
                    }
                }),
                Incoming::CopyMark(mark) => {
                    let _ = copies.on_mark(&mark);
                    Ok(())
                }
                Incoming::Session(_, SessionEvent::Refused { reject, .. }) => {
                    let (request, subject) = ("DropCopyRequest", reject.field.to_string());
                    Err(ClientError::Refused { request, reason: reject.reason, subject })
                }
                Incoming::Session(..)
                | Incoming::Page(..)
                | Incoming::Rows(..)
                | Incoming::Source(_)
                | Incoming::Broker(_)
                | Incoming::Market(_)
                | Incoming::Sources(..) => Ok(()),
            };
        });
        let failed = polled.map(drop).or_else(|error| self.fail(error));
        outcome?;
        failed?;
        Ok(count)
    }

    /// Ends the connection after an error that ends it; returns the error unless reconnecting may
    /// resolve it.
    fn fail(&mut self, error: ClientError) -> Result<(), ClientError> {
        self.is_taken_over = error.is_taken_over();
        if self.is_taken_over || error.is_passing() {
            self.is_connected = false;
            self.copies.connection_lost();
        }
        if error.is_passing() { Ok(()) } else { Err(error) }
    }

    /// Tries to log on again; false when the node is unreachable, has not noticed yet that the
    /// session was lost, or is busy or full.
    fn come_back(&mut self, timeout: Duration) -> Result<bool, ClientError> {
        match self.client.reconnect(self.timeout, &mut |_, _| {}) {
            Ok(()) => {
                self.is_connected = true;
                self.ask_for_all();
                Ok(true)
            }
            Err(error) if error.is_passing() => {
                std::thread::sleep(RETRY_INTERVAL.min(timeout));
                Ok(false)
            }
            Err(error) => self.fail(error).map(|()| false),
        }
    }

    /// Returns the points; see [`DropCopy::points`].
    #[must_use]
    pub fn points(&self) -> Vec<CopyPoint> {
        self.copies.points()
    }

    /// True when it is connected and has received all copies up to the node's last high-water
    /// marks.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.is_connected && self.copies.is_current()
    }

    /// True while the session is logged on.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Sets the address for the next reconnect: a restarted node may listen elsewhere.
    pub fn set_address(&mut self, address: SocketAddr) {
        self.client.set_address(address);
    }

    /// Asks the node to close the session.
    ///
    /// # Errors
    /// As [`Client::log_out`].
    pub fn log_out(self, timeout: Duration) -> Result<(), ClientError> {
        self.client.log_out(timeout)
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::Message;
    use weir_wire::frame::{CLIENT_FRAME_LEN_MAX, Framing, next_frame};

    use super::*;

    const ME: SessionId = SessionId(31);
    const FIRM: FirmId = FirmId(11);
    const HERE: PartitionId = PartitionId(1);

    fn state(previous: u64, next: u64) -> DropCopyState {
        DropCopyState {
            oldest_copy_no: CopyNo(1),
            previous_copy_no: CopyNo(previous),
            next_copy_no: CopyNo(next),
            high_water: CopyNo(previous),
            session_id: ME,
            firm_id: FIRM,
            epoch: Epoch(2),
            partition_id: HERE,
            wanted: Switch::On,
            reason: Reason::None,
        }
    }

    fn ended(reason: Reason) -> DropCopyState {
        let (wanted, oldest_copy_no) = (Switch::Off, CopyNo(40));
        DropCopyState { wanted, reason, oldest_copy_no, ..state(0, 90) }
    }

    fn head(previous: u64, copy_no: u64) -> ReportCopy {
        ReportCopy {
            copy_no: CopyNo(copy_no),
            previous_copy_no: CopyNo(previous),
            session_id: ME,
            firm_id: FIRM,
            owner_session_id: SessionId(12),
            owner_firm_id: FIRM,
            partition_id: HERE,
        }
    }

    /// The point of the request that it sends now.
    fn asked(copies: &mut DropCopy) -> (CopyNo, Epoch) {
        let mut out = Vec::new();
        copies.ask(HERE, &mut out);
        let Framing::Frame { message: Ok(raw), .. } = next_frame(&out, CLIENT_FRAME_LEN_MAX) else {
            panic!("a frame is due")
        };
        let request = DropCopyRequest::decode_block(raw.block()).unwrap();
        assert_eq!((request.session_id, request.firm_id), (ME, FIRM));
        (request.from_copy_no, request.epoch)
    }

    fn opened(beginning: Beginning, first: &DropCopyState) -> DropCopy {
        let mut copies = DropCopy::new(ME, FIRM, beginning, &[]);
        asked(&mut copies);
        assert_eq!(copies.on_state(first).unwrap(), CopyOutcome::Taken);
        copies
    }

    #[test]
    fn each_copy_must_name_the_one_before_it() {
        let mut copies = opened(Beginning::Now, &state(50, 60));
        assert_eq!(copies.on_copy(&head(50, 61)).unwrap(), CopyOutcome::Taken);
        assert_eq!(copies.on_copy(&head(61, 70)).unwrap(), CopyOutcome::Taken);
        for wrong in [head(61, 71), head(69, 71), head(71, 72), head(70, 70), head(70, 9)] {
            let gap = copies.on_copy(&wrong).unwrap_err();
            assert!(matches!(gap, ClientError::CopyGap { partition_id: HERE, .. }), "{gap}");
        }
        assert_eq!(copies.on_copy(&head(70, 71)).unwrap(), CopyOutcome::Taken, "it stayed there");
    }

    #[test]
    fn it_goes_on_behind_the_last_copy_had_in_the_epoch_that_it_was_told_in() {
        let mut copies = opened(Beginning::Now, &state(50, 60));
        // Copies between the newest one and the start are not part of the stream.
        assert_eq!(asked(&mut copies), (CopyNo(51), Epoch(2)));
        assert_eq!(copies.on_state(&state(50, 60)).unwrap(), CopyOutcome::Taken);
        assert_eq!(copies.on_copy(&head(50, 61)).unwrap(), CopyOutcome::Taken);
        copies.connection_lost();
        assert_eq!(copies.on_copy(&head(61, 62)).unwrap(), CopyOutcome::NotOurs);
        assert_eq!(asked(&mut copies), (CopyNo(62), Epoch(2)));
        let gap = copies.on_state(&state(60, 62)).unwrap_err();
        let ClientError::CopyGap { expected, got, .. } = gap else { panic!("{gap}") };
        // A node that does not know the last copy has another history.
        assert_eq!((expected, got), (CopyNo(61), CopyNo(60)));
    }

    #[test]
    fn points_kept_elsewhere_are_asked_from() {
        let copies = opened(Beginning::Now, &state(50, 60));
        let points = copies.points();
        let point = CopyPoint { partition_id: HERE, epoch: Epoch(2), copy_no: CopyNo(50) };
        assert_eq!(points, [point]);
        let mut again = DropCopy::new(ME, FIRM, Beginning::Now, &points);
        assert_eq!(asked(&mut again), (CopyNo(51), Epoch(2)));
        assert!(!again.is_current());
        assert_eq!(again.on_state(&state(50, 61)).unwrap(), CopyOutcome::Taken);
        assert!(again.is_current());
        let mark = CopyMark {
            sending_time: weir_types::Nanos(1),
            high_water: CopyNo(61),
            session_id: ME,
            firm_id: FIRM,
            partition_id: HERE,
        };
        assert_eq!(again.on_mark(&mark), CopyOutcome::Taken);
        assert!(!again.is_current(), "there is one more");
        assert_eq!(again.on_copy(&head(50, 61)).unwrap(), CopyOutcome::Taken);
        assert!(again.is_current());
    }

    #[test]
    fn the_oldest_is_asked_for_twice_when_the_first_are_gone() {
        let mut copies = DropCopy::new(ME, FIRM, Beginning::Oldest, &[]);
        assert_eq!(asked(&mut copies), (CopyNo(1), Epoch::NONE));
        let outcome = copies.on_state(&ended(Reason::ResumeOutOfRange)).unwrap();
        assert_eq!(outcome, CopyOutcome::AskAgain(HERE));
        assert_eq!(asked(&mut copies), (CopyNo(40), Epoch::NONE));
        let refused = copies.on_state(&ended(Reason::ResumeOutOfRange)).unwrap_err();
        assert!(
            matches!(refused, ClientError::CopiesRefused { oldest_copy_no: CopyNo(40), .. }),
            "a place that was asked for is not exchanged for another: {refused}"
        );
    }

    #[test]
    fn a_node_that_does_not_know_what_is_past_the_retention_makes_no_gap() {
        let unknown = DropCopyState { oldest_copy_no: CopyNo(40), ..state(0, 60) };
        for (last, is_gap) in [(30, false), (39, false), (40, true), (50, true)] {
            let mut copies = opened(Beginning::Now, &state(last, 60));
            copies.connection_lost();
            assert_eq!(asked(&mut copies).0, CopyNo(last + 1));
            assert_eq!(copies.on_state(&unknown).is_err(), is_gap, "{last}");
        }
        let mut copies = opened(Beginning::Now, &state(30, 60));
        assert_eq!(copies.on_state(&unknown).unwrap(), CopyOutcome::Taken);
        assert_eq!(copies.on_copy(&head(0, 61)).unwrap(), CopyOutcome::Taken);
    }

    #[test]
    fn a_node_that_knows_again_what_one_between_did_not_makes_no_gap() {
        let unknown = DropCopyState { oldest_copy_no: CopyNo(40), ..state(0, 60) };
        let again = |first: &DropCopyState, last: u64| {
            let mut copies = opened(Beginning::Oldest, first);
            copies.connection_lost();
            asked(&mut copies);
            assert_eq!(copies.on_state(&unknown).unwrap(), CopyOutcome::Taken);
            copies.connection_lost();
            asked(&mut copies);
            copies.on_state(&state(last, 60)).and_then(|_| copies.on_copy(&head(last, 61)))
        };
        assert_eq!(again(&state(30, 60), 30).unwrap(), CopyOutcome::Taken);
        assert!(again(&state(30, 60), 29).is_err(), "it had copy 30");
        // A reader that begins there has none before.
        assert_eq!(again(&unknown, 35).unwrap(), CopyOutcome::Taken);
        assert!(again(&unknown, 40).is_err(), "copy 40 is wanted");
    }

    #[test]
    fn a_stream_that_was_cut_is_asked_for_again_and_a_refused_one_is_not() {
        let mut copies = opened(Beginning::Now, &state(50, 60));
        let outcome = copies.on_state(&ended(Reason::SlowConsumer)).unwrap();
        assert_eq!(outcome, CopyOutcome::AskAgain(HERE));
        assert_eq!(asked(&mut copies), (CopyNo(51), Epoch(2)));
        for reason in [Reason::NotEntitled, Reason::ResumeOtherHistory, Reason::ResumeOutOfRange] {
            let refused = copies.on_state(&ended(reason)).unwrap_err();
            let is_it =
                matches!(refused, ClientError::CopiesRefused { reason: got, .. } if got == reason);
            assert!(is_it, "{refused}");
        }
    }

    #[test]
    fn what_is_another_streams_is_left_alone() {
        let mut copies = opened(Beginning::Now, &state(50, 60));
        let other_firm = ReportCopy { firm_id: FirmId(12), ..head(7, 8) };
        let other_session = ReportCopy { session_id: SessionId(1), ..head(7, 8) };
        let other_partition = ReportCopy { partition_id: PartitionId(2), ..head(7, 8) };
        for other in [other_firm, other_session, other_partition] {
            assert_eq!(copies.on_copy(&other).unwrap(), CopyOutcome::NotOurs);
        }
        let elsewhere = DropCopyState { firm_id: FirmId(12), ..ended(Reason::NotEntitled) };
        assert_eq!(copies.on_state(&elsewhere).unwrap(), CopyOutcome::NotOurs);
    }
}
