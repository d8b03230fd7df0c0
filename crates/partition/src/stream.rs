//! A session's events of one partition, and the part of them already sent.
//!
//! Each event addressed to a session has a dense number there. The stream keeps the event log
//! record of each, so that a session that resumes, or reads too slowly, is served from the log and
//! not from a buffer of its own. It also keeps the points at which the session's numbers pass the
//! ends of epochs, so that a session that received lost events does not continue in another
//! history.
//!
//! A gateway process has the events of a session from the point at which it was bound: the
//! partition lists the records of older ones, and sends the later ones ([`Stream::listed`]).
//!
//! INVARIANT: `oldest <= next_to_send <= next_event_no()` while the session is logged on.

use std::collections::VecDeque;

use weir_types::state_bytes::{StateBytes, put_ascending, put_number};
use weir_types::{Epoch, EventNo, Reason, RequestNo};
use weir_wire::event_head::Address;

use crate::lineage::{Lineage, PassedEnds, ReaderPosition, Verdict};
use crate::plant::{self, Plant};

/// The maximum number of events per session and partition that can be requested again.
pub const RETAINED_EVENTS_MAX: usize = 1 << 18;

/// The number that those of events and requests are below: more than there can be.
const NUMBER_MAX: u64 = 1 << 62;

/// An event of a session, as added to its stream.
#[derive(Clone, Copy, Debug)]
pub struct Noted {
    /// The event's number.
    pub event_no: EventNo,
    /// The request that it answers; none for an unsolicited event.
    pub request_no: RequestNo,
    /// The record of the event log that holds it.
    pub record: u64,
}

impl Noted {
    /// Returns the entry of an event that a record holds.
    #[inline]
    #[must_use]
    pub fn of(address: &Address, record: u64) -> Noted {
        let Address { event_no, request_no, .. } = *address;
        Noted { event_no, request_no, record }
    }
}

/// The reason why a stream cannot resume at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CannotResume {
    /// [`Reason::ResumeOutOfRange`] or [`Reason::ResumeOtherHistory`].
    pub reason: Reason,
    /// The oldest event that can be requested.
    pub oldest: EventNo,
    /// The number of the next event; with [`Reason::ResumeOtherHistory`] the number of the first
    /// event that differs from the session's.
    pub next: EventNo,
}

/// A session's events of one partition.
#[derive(Debug)]
pub struct Stream {
    records: VecDeque<u64>,
    trail: PassedEnds,
    oldest: EventNo,
    next_to_send: EventNo,
    last_request_no: RequestNo,
    /// True while it is in the gateway's list of streams that are behind.
    pub is_listed: bool,
    /// The number of the request that the history has for it.
    pub history_request: Option<u64>,
    /// True when `oldest` is known: for a log whose beginning is deleted, only the first event
    /// shows it.
    started: bool,
    /// The first record whose event is not in a list; zero without a list.
    live_from: u64,
    /// The oldest event that can be requested from the partition that listed the events.
    offered_from: Option<EventNo>,
    /// True while the session is not bound at the partition, or its logon is not done: none of its
    /// events is sent.
    pub is_away: bool,
}

/// A session's events as a partition lists them when it binds the session.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// The number of the first one.
    pub first: EventNo,
    /// The records of all of them, in order.
    pub records: &'a [u64],
    /// The record from which on later ones come by themselves.
    pub live_from: u64,
    /// The oldest event that can be requested.
    pub oldest: EventNo,
    /// The highest request number that the partition has received.
    pub last_request_no: RequestNo,
}

impl Stream {
    /// Returns an unknown stream: it begins with the first event that is added.
    #[must_use]
    pub fn unknown() -> Stream {
        Stream { started: false, ..Stream::starting_at(EventNo(1), RequestNo::NONE) }
    }

    /// Returns a stream whose next event is `next_event_no`; older ones cannot be requested.
    #[must_use]
    pub fn starting_at(next_event_no: EventNo, last_request_no: RequestNo) -> Stream {
        Stream {
            records: VecDeque::new(),
            trail: PassedEnds::starting_at(next_event_no.0),
            oldest: next_event_no,
            next_to_send: next_event_no,
            last_request_no,
            is_listed: false,
            history_request: None,
            started: true,
            live_from: 0,
            offered_from: None,
            is_away: false,
        }
    }

    /// Returns a stream of listed events, none of which is sent, and of those that follow them.
    #[must_use]
    pub fn listed(listed: Listed<'_>) -> Stream {
        let begun = Stream::starting_at(listed.first, listed.last_request_no);
        Stream {
            records: listed.records.iter().copied().collect(),
            live_from: listed.live_from,
            offered_from: Some(listed.oldest),
            ..begun
        }
    }

    /// Returns true if the event of a record is in the list with which the stream began: it is not
    /// noted again.
    #[inline]
    #[must_use]
    pub fn has_listed(&self, record: u64) -> bool {
        record < self.live_from
    }

    /// Returns the record of an event; `None` if it is not retained, or does not exist yet.
    #[must_use]
    pub fn record_of(&self, event_no: EventNo) -> Option<u64> {
        let index = event_no.0.checked_sub(self.oldest.0)?;
        self.records.get(usize::try_from(index).ok()?).copied()
    }

    /// Returns the records of the retained events from `event_no` on.
    pub fn records_from(&self, event_no: EventNo) -> impl Iterator<Item = u64> + '_ {
        let skipped = event_no.0.saturating_sub(self.oldest.0);
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX).min(self.records.len());
        self.records.range(skipped..).copied()
    }

    /// Aligns the stream with the recovered engine's state of the session.
    ///
    /// # Panics
    /// When the events read differ from it: event log and command log contradict each other.
    pub fn agree(&mut self, next_event_no: EventNo, last_request_no: RequestNo) {
        // A stream that had events knows the ends of epochs among them, retained or not.
        let has_none = !self.started || plant::is(Plant::TrailDropped);
        if self.records.is_empty() && has_none {
            let begun = Stream::starting_at(next_event_no, last_request_no);
            let Stream { is_listed, history_request, is_away, .. } = *self;
            *self = Stream { is_listed, history_request, is_away, ..begun };
        }
        assert_eq!(self.next_event_no(), next_event_no, "the event log and the engine disagree");
        self.last_request_no = self.last_request_no.max(last_request_no);
    }

    /// Adds an event. Events must come in order, without a gap.
    ///
    /// # Panics
    /// When its number is not the next one: the event log contradicts itself.
    #[inline]
    pub fn note(&mut self, event: Noted, lineage: &Lineage) {
        let event_no = event.event_no;
        if !self.started {
            let begun = Stream::starting_at(event_no, self.last_request_no);
            let Stream { is_listed, history_request, is_away, .. } = *self;
            *self = Stream { is_listed, history_request, is_away, ..begun };
        }
        assert_eq!(event_no, self.next_event_no(), "an event's number is not the next one");
        if self.records.len() == RETAINED_EVENTS_MAX {
            self.records.pop_front();
            self.oldest = self.oldest.next();
        }
        self.records.push_back(event.record);
        self.trail.note(event_no.0, lineage);
        self.last_request_no = self.last_request_no.max(event.request_no);
    }

    /// Appends the stream's state: what it has of the log, not what is sent.
    pub fn put_state(&self, out: &mut Vec<u8>) {
        put_number(out, u64::from(self.started));
        put_number(out, self.oldest.0);
        put_number(out, self.last_request_no.0);
        self.trail.put_state(out);
        put_ascending(out, self.records.len(), self.records.iter().copied());
    }

    /// Reads the state of a stream of records before `next`; `None` when it is none.
    #[must_use]
    pub fn from_state(state: &mut StateBytes<'_>, lineage: &Lineage, next: u64) -> Option<Stream> {
        let started = state.number()? != 0;
        let (oldest, last_request_no) = (EventNo(state.number()?), RequestNo(state.number()?));
        let trail = PassedEnds::from_state(state, lineage)?;
        let mut records = VecDeque::new();
        let (mut ascends, mut last) = (true, 0);
        state.ascending(|record| {
            ascends &= record > last;
            last = record;
            records.push_back(record);
        })?;
        let is_within = records.len() <= RETAINED_EVENTS_MAX
            && ascends
            && last < next
            && (1..NUMBER_MAX).contains(&oldest.0)
            && last_request_no.0 < NUMBER_MAX
            && (started || records.is_empty() && oldest == EventNo(1));
        let begun = Stream::starting_at(oldest, last_request_no);
        let stream = Stream { records, trail, started, ..begun };
        (is_within && stream.trail.is_before(stream.next_event_no().0)).then_some(stream)
    }

    /// Returns true while the session is bound nowhere at a linked port: events of an earlier
    /// binding are none of its own, and those since come in a list.
    #[inline]
    #[must_use]
    pub fn is_unbound(&self) -> bool {
        self.is_away && !self.started
    }

    /// Returns true when an event can follow those of the stream.
    #[must_use]
    pub fn can_follow(&self, event_no: EventNo) -> bool {
        !self.started || event_no == self.next_event_no()
    }

    /// Returns true when `next` follows the stream's events; `None` when it has seen none.
    #[must_use]
    pub fn ends_before(&self, next: EventNo) -> Option<bool> {
        self.started.then(|| self.next_event_no() == next)
    }

    /// Returns the newest retained event and its record.
    #[must_use]
    pub fn newest(&self) -> Option<(EventNo, u64)> {
        let record = *self.records.back()?;
        Some((EventNo(self.next_event_no().0 - 1), record))
    }

    /// Drops the events whose records are before `first_record`: the log has removed them.
    pub fn forget_before(&mut self, first_record: u64) {
        let count = self.records.partition_point(|record| *record < first_record);
        self.records.drain(..count);
        self.oldest = EventNo(self.oldest.0 + count as u64);
    }

    /// Returns true when this event is the next to send.
    #[inline]
    #[must_use]
    pub fn is_next_to_send(&self, event_no: EventNo) -> bool {
        self.next_to_send == event_no
    }

    /// Counts one more event as sent.
    #[inline]
    pub fn sent_one(&mut self) {
        self.next_to_send = self.next_to_send.next();
        assert!(self.next_to_send <= self.next_event_no(), "sent an event that never was");
    }

    /// Returns the number of the first event that is not sent; none while no event is known.
    #[must_use]
    pub fn next_to_send(&self) -> EventNo {
        if self.started { self.next_to_send } else { EventNo::NONE }
    }

    /// Returns the record of the next event to send; `None` when all are sent, `Some(None)` when it
    /// is no longer retained.
    #[inline]
    #[must_use]
    pub fn next_record(&self) -> Option<Option<u64>> {
        if self.next_to_send == self.next_event_no() {
            return None;
        }
        let index = self.next_to_send.0.checked_sub(self.oldest.0);
        Some(index.and_then(|index| self.records.get(usize::try_from(index).ok()?).copied()))
    }

    /// Returns the records of the next events to send, at most `max` of them.
    #[must_use]
    pub fn next_records(&self, max: usize) -> Vec<u64> {
        let sent = self.next_to_send.0.saturating_sub(self.oldest.0);
        let sent = usize::try_from(sent).expect("as many as are retained");
        self.records.range(sent.min(self.records.len())..).take(max).copied().collect()
    }

    /// Checks that the stream can resume at `event_no` for a client that received the event before
    /// it in `epoch`.
    ///
    /// | the events received                     | and `event_no` is    | answer               |
    /// | --------------------------------------- | -------------------- | -------------------- |
    /// | the node's, as far as epochs show       | none, or retained    | yes                  |
    /// | the node's, as far as epochs show       | neither              | `ResumeOutOfRange`   |
    /// | others from a number on                 | any                  | `ResumeOtherHistory` |
    /// | of an epoch that the node does not know | any                  | `ResumeOtherHistory` |
    ///
    /// # Errors
    /// [`CannotResume`] with the range that can be requested. For an unknown epoch no event is
    /// certain: the first event that may differ is then the oldest retained.
    pub fn check_resume(
        &self,
        event_no: EventNo,
        epoch: Epoch,
        lineage: &Lineage,
    ) -> Result<(), CannotResume> {
        let (oldest, next) = (self.oldest, self.next_event_no());
        let other = |next| CannotResume { reason: Reason::ResumeOtherHistory, oldest, next };
        let epoch = if plant::is(Plant::LossUntold) { lineage.current() } else { epoch };
        match self.trail.judge(ReaderPosition { epoch, next: event_no.0 }, next.0, lineage) {
            Verdict::OtherFrom(number) => Err(other(EventNo(number))),
            Verdict::Unknown => Err(other(oldest)),
            Verdict::Same if event_no.is_none() || (oldest..=next).contains(&event_no) => Ok(()),
            Verdict::Same => Err(CannotResume { reason: Reason::ResumeOutOfRange, oldest, next }),
        }
    }

    /// Resumes at `event_no`, or at the next event for none.
    ///
    /// # Panics
    /// When `event_no` is not retained: [`Stream::check_resume`] must come first.
    pub fn resume(&mut self, event_no: EventNo) {
        let start = if event_no.is_none() { self.next_event_no() } else { event_no };
        assert!((self.oldest..=self.next_event_no()).contains(&start), "every start is checked");
        self.next_to_send = start;
        // A page for an earlier logon is not for this one.
        self.history_request = None;
        if plant::is(Plant::ResumeTooLate) {
            self.next_to_send = start.next().min(self.next_event_no());
        }
        if plant::is(Plant::ResumeTooEarly) {
            self.next_to_send = EventNo(start.0.saturating_sub(1)).max(self.oldest);
        }
    }

    /// Returns the number of the next event.
    #[inline]
    #[must_use]
    pub fn next_event_no(&self) -> EventNo {
        EventNo(self.oldest.0 + self.records.len() as u64)
    }

    /// Returns the oldest event that can be requested.
    #[must_use]
    pub fn oldest(&self) -> EventNo {
        self.offered_from.unwrap_or(self.oldest)
    }

    /// Returns the highest request number that has an event.
    #[must_use]
    pub fn last_request_no(&self) -> RequestNo {
        self.last_request_no
    }
}

#[cfg(test)]
mod tests {
    use weir_log::EpochCursor;
    use weir_types::{Epochs, Position};

    use super::*;

    fn one_epoch() -> Lineage {
        Lineage::new(Epoch(1))
    }

    fn noted(event_no: u64, request_no: u64, record: u64) -> Noted {
        Noted { event_no: EventNo(event_no), request_no: RequestNo(request_no), record }
    }

    fn stream_of(count: u64) -> Stream {
        let mut stream = Stream::starting_at(EventNo(1), RequestNo(0));
        for n in 1..=count {
            stream.note(noted(n, n * 2, 100 + n), &one_epoch());
        }
        stream
    }

    #[test]
    fn a_resumed_session_gets_exactly_what_it_missed() {
        let mut stream = stream_of(5);
        stream.resume(EventNo(4));
        let mut sent = Vec::new();
        while let Some(record) = stream.next_record() {
            sent.push(record.unwrap());
            stream.sent_one();
        }
        assert_eq!(sent, [104, 105]);
        assert_eq!(stream.last_request_no(), RequestNo(10));
    }

    #[test]
    fn resuming_outside_the_retained_range_is_refused_with_the_range() {
        let mut stream = Stream::starting_at(EventNo(7), RequestNo(3));
        stream.note(noted(7, 4, 1), &one_epoch());
        let check = |event_no| stream.check_resume(EventNo(event_no), Epoch(1), &one_epoch());
        let (oldest, next) = (EventNo(7), EventNo(8));
        let refused = CannotResume { reason: Reason::ResumeOutOfRange, oldest, next };
        assert_eq!(
            [6, 9, 7, 8, 0].map(check),
            [Err(refused), Err(refused), Ok(()), Ok(()), Ok(())]
        );
        stream.resume(EventNo(8));
        assert_eq!(stream.next_record(), None);
        stream.resume(EventNo(7));
        assert_eq!(stream.next_record(), Some(Some(1)));
        stream.resume(EventNo::NONE);
        assert_eq!(stream.next_record(), None);
    }

    #[test]
    fn who_was_told_what_is_lost_is_refused_with_the_first_event_that_is_another() {
        // Epoch 1 ended behind event 3; epoch 2 took event 3 too, and had none of its own.
        let epochs =
            Epochs::with_ended(Epoch(3), [(Epoch(1), Position(35)), (Epoch(2), Position(25))]);
        let mut cursor = EpochCursor::new(epochs, 5);
        let (mut lineage, mut stream) =
            (Lineage::new(Epoch(1)), Stream::starting_at(EventNo(1), RequestNo(0)));
        for n in 1..=4 {
            while let Some(change) = cursor.pass_before(n, Position(10 * n)) {
                lineage.pass(&change);
            }
            stream.note(noted(n, n, n), &lineage);
        }
        let check =
            |event_no, epoch| stream.check_resume(EventNo(event_no), Epoch(epoch), &lineage);
        assert_eq!(check(3, 1), Ok(()));
        let other = |next| {
            let (oldest, next) = (EventNo(1), EventNo(next));
            Err(CannotResume { reason: Reason::ResumeOtherHistory, oldest, next })
        };
        assert_eq!((check(4, 1), check(9, 1)), (other(3), other(3)));
        assert_eq!((check(4, 2), check(9, 2)), (other(3), other(3)));
        assert_eq!((check(4, 3), check(4, 0), check(1, 7)), (Ok(()), Ok(()), Ok(())));
        assert_eq!(check(2, 7), other(1), "of an epoch that nobody knows nothing is believed");
        let reason = check(9, 3).unwrap_err().reason;
        assert_eq!(reason, Reason::ResumeOutOfRange);
    }

    #[test]
    fn events_past_the_retention_are_dropped_oldest_first() {
        let stream = stream_of(RETAINED_EVENTS_MAX as u64 + 3);
        assert_eq!(stream.oldest(), EventNo(4));
        assert_eq!(stream.next_record(), Some(None));
    }

    #[test]
    fn a_log_whose_beginning_is_gone_says_where_it_begins() {
        let mut stream = Stream::unknown();
        stream.note(noted(41, 9, 7), &one_epoch());
        stream.agree(EventNo(42), RequestNo(9));
        assert_eq!((stream.oldest(), stream.next_event_no()), (EventNo(41), EventNo(42)));
    }

    #[test]
    fn events_that_the_log_has_removed_are_refused_and_the_oldest_that_is_left_is_told() {
        let mut stream = stream_of(5);
        stream.resume(EventNo(2));
        for (first_record, oldest) in [(0, 1), (101, 1), (103, 3), (102, 3), (900, 6)] {
            stream.forget_before(first_record);
            assert_eq!((stream.oldest(), stream.next_event_no()), (EventNo(oldest), EventNo(6)));
        }
        // A session that still lacked one of them is told that it is gone.
        assert_eq!(stream.next_record(), Some(None));
        let refused = stream.check_resume(EventNo(5), Epoch(1), &one_epoch()).unwrap_err();
        let (oldest, next) = (EventNo(6), EventNo(6));
        assert_eq!(refused, CannotResume { reason: Reason::ResumeOutOfRange, oldest, next });
        assert_eq!(stream.check_resume(EventNo(6), Epoch(1), &one_epoch()), Ok(()));
        stream.note(noted(6, 1, 901), &one_epoch());
        assert_eq!((stream.oldest(), stream.next_event_no()), (EventNo(6), EventNo(7)));
    }

    #[test]
    fn a_session_without_retained_events_that_received_lost_ones_is_not_believed() {
        // Epoch 1 ended behind event 3, so event 4 of epoch 1 is lost.
        let mut cursor =
            EpochCursor::new(Epochs::with_ended(Epoch(2), [(Epoch(1), Position(30))]), 9);
        let (mut lineage, mut stream) =
            (Lineage::new(Epoch(1)), Stream::starting_at(EventNo(1), RequestNo(0)));
        for n in 1..=8 {
            while let Some(change) = cursor.pass_before(n, Position(10 * n)) {
                lineage.pass(&change);
            }
            stream.note(noted(n, n, n), &lineage);
        }
        // All of it is past the retention when the next start loads it from a checkpoint.
        stream.forget_before(100);
        let mut state = Vec::new();
        stream.put_state(&mut state);
        let mut stream = Stream::from_state(&mut StateBytes::new(&state), &lineage, 100).unwrap();
        stream.agree(EventNo(9), RequestNo(8));
        let check = |next| stream.check_resume(EventNo(next), Epoch(1), &lineage);
        let (oldest, next) = (EventNo(9), EventNo(4));
        let other = Err(CannotResume { reason: Reason::ResumeOtherHistory, oldest, next });
        assert_eq!((check(5), check(9)), (other, other));
        assert_eq!(check(3).unwrap_err().reason, Reason::ResumeOutOfRange);
        assert_eq!(stream.check_resume(EventNo(9), Epoch(2), &lineage), Ok(()));
    }

    #[cfg(feature = "planted")]
    #[test]
    fn the_planted_bug_of_a_dropped_trail_is_found() {
        plant::set(Some(Plant::TrailDropped));
        let found = std::panic::catch_unwind(
            a_session_without_retained_events_that_received_lost_ones_is_not_believed,
        );
        plant::set(None);
        assert!(found.is_err());
    }

    #[test]
    fn a_session_without_retained_events_stands_where_the_engine_says() {
        let mut stream = Stream::unknown();
        stream.agree(EventNo(42), RequestNo(9));
        let refused = stream.check_resume(EventNo(41), Epoch(1), &one_epoch()).unwrap_err();
        assert_eq!((refused.oldest, refused.next), (EventNo(42), EventNo(42)));
    }

    #[test]
    #[should_panic(expected = "not the next one")]
    fn a_gap_in_a_sessions_events_is_never_passed_over() {
        stream_of(2).note(noted(4, 0, 1), &one_epoch());
    }
}
