//! The state of one session: its requests, the events received, the resume points after a loss.
//!
//! A session numbers its requests in one sequence over all partitions, since a gateway's refusal
//! does not name the partition, and keeps the unanswered ones; the node numbers the session's
//! events per partition, densely. The state outlives connections: after a loss it logs on with the
//! next event that it wants of each partition, receives the missed events, and sends the requests
//! that the node has not received again, under the same numbers. Nothing is executed twice, nothing
//! is missed. It does no I/O and reads no clock: frames go to a buffer, times are arguments.
//!
//! | message from the node                | result                                              |
//! | ------------------------------------ | --------------------------------------------------- |
//! | event number = last + 1              | accepted                                            |
//! | event number ≤ last                  | received before: dropped, reported as `Repeated`    |
//! | event number > last + 1              | [`ClientError::Gap`]: log on again                  |
//! | LogonAck, request ≤ its last request | waits for the resumed events                        |
//! | the events that LogonAck named       | unanswered still: under way or refused, sent again  |
//! | LogonAck, request > its last request | sent again under its number                         |
//! | LogonAck, the partition is away      | waits for the further LogonAck that names it        |
//! | `PartitionAway`, received before     | stays: an earlier copy may be under way             |
//! | LogonReject, other history           | [`ClientError::OtherHistory`]: some events are void |
//!
//! A number names one event only within one history, so the position in a partition is the last
//! number together with the node's epoch when the two last agreed.
//!
//! INVARIANT: `unanswered` is sorted by request number.

mod acknowledgement;
#[cfg(test)]
mod fixtures;
mod refusals;
mod resends;

use std::collections::VecDeque;
use std::time::Duration;

use weir_types::{Epoch, EventNo, FirmId, Nanos, PartitionId, Reason, RequestNo, Role, SessionId};
use weir_wire::challenge::put_answer;
use weir_wire::dialogue::{NodeMessage, put_logon, put_request};
use weir_wire::event::{RequestDone, RequestRejected, TradeBusted};
use weir_wire::frame::put_frame;
use weir_wire::replica::FollowState;
use weir_wire::report::ExecutionReport;
use weir_wire::session::{
    Challenge, ChallengeRequest, Heartbeat, Logon, LogonAck, LogonReject, Logout, NodeId,
    PartitionState, Reject, ResumePoint, Signature, SignedLogon,
};
use weir_wire::{DecodeError, Message, Request};

use crate::error::ClientError;
use crate::key::Key;
use crate::request::{stamp, switch};

/// The number of outcomes that an engine remembers per session: of more unanswered requests, not
/// all could be sent again safely.
pub const UNANSWERED_COUNT_MAX: usize = 1_024;

/// A session's identity and options.
#[derive(Clone, Copy, Debug)]
pub struct SessionConfig {
    /// The session.
    pub session_id: SessionId,
    /// Its key.
    pub key: Key,
    /// The expected node; a challenge of any other is not answered. None accepts every node. An API
    /// key is sent to any node.
    pub node_id: Option<NodeId>,
    /// The heartbeat interval of both sides in milliseconds, at least 1.
    pub heartbeat_interval_ms: u32,
    /// True: the loss of the connection cancels the session's live orders.
    pub cancel_on_disconnect: bool,
    /// True: takes the session over from the connection that it is on, where it ends with
    /// [`Reason::TakenOver`]. Only a connection made after the session's logon on the other one
    /// does so; an older one, and a second takeover within a second, are refused with
    /// [`Reason::AlreadyLoggedOn`].
    pub takeover: bool,
    /// The most unanswered requests per partition; beyond [`UNANSWERED_COUNT_MAX`] a request that
    /// is sent again may be refused as too old.
    pub unanswered_count_max: usize,
}

impl SessionConfig {
    /// Creates a configuration with heartbeats every 5 s; orders stay when the connection is lost.
    #[must_use]
    pub fn new(session_id: SessionId, key: impl Into<Key>) -> SessionConfig {
        SessionConfig {
            session_id,
            key: key.into(),
            node_id: None,
            heartbeat_interval_ms: 5_000,
            cancel_on_disconnect: false,
            takeover: false,
            unanswered_count_max: UNANSWERED_COUNT_MAX,
        }
    }
}

/// The due and sent times of a request, on the caller's clock: the base of its latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The time at which it was due.
    pub due: Nanos,
    /// The time at which it was sent.
    pub sent: Nanos,
}

/// A request that waits for its answer, or has just been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnansweredRequest {
    /// The request, with its number.
    pub request: Request,
    /// Its number.
    pub request_no: RequestNo,
    /// Its due and sent times.
    pub times: Times,
}

/// The outcome of [`Session::submit`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submit {
    /// Its frame is in the buffer, under this number.
    Sent(RequestNo),
    /// The session is not open.
    NotOpen,
    /// Too many requests are unanswered: of this partition, by the configuration, or of all
    /// partitions, by the node's limit.
    Full,
}

/// The meaning of a node's message for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// The session is open.
    Opened {
        /// The session's role, its firm, the node's clock.
        ack: LogonAck,
        /// The number of requests sent again.
        resubmitted_count: usize,
    },
    /// An order changed.
    Report {
        /// The change, the order after it, its stage times.
        report: ExecutionReport,
        /// The request, when this is its first answer.
        answered: Option<UnansweredRequest>,
    },
    /// The engine refused a request.
    Rejected {
        /// The refusal, with its reason.
        rejected: RequestRejected,
        /// The request, when this is its first answer.
        answered: Option<UnansweredRequest>,
    },
    /// A mass cancel or an operator's request was carried out.
    Done {
        /// The request's outcome.
        done: RequestDone,
        /// The request, when this is its first answer.
        answered: Option<UnansweredRequest>,
    },
    /// An operator busted a trade of the session.
    TradeBusted(TradeBusted),
    /// The gateway refused a message; no engine has seen it.
    Refused {
        /// The reject, with its reason.
        reject: Reject,
        /// The request, when it was one.
        answered: Option<UnansweredRequest>,
    },
    /// The node's challenge was answered.
    Challenged,
    /// A sign of life of the node.
    Heartbeat(Heartbeat),
    /// An event received before, or the notice that a request sent again is still in progress.
    Repeated,
    /// The session is closed.
    LoggedOut(Logout),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Closed,
    Challenging,
    LoggingOn,
    Open,
}

/// A session's state in one partition.
#[derive(Debug)]
struct Progress {
    partition_id: PartitionId,
    /// The last event received; `None` until the node or the program has set it.
    last_event_no: Option<EventNo>,
    /// The node's epoch when that event was received or last agreed on; zero if unknown.
    epoch: Epoch,
    unanswered: VecDeque<UnansweredRequest>,
    /// The highest request number that the node named at the logon, until all its answers must have
    /// come; else none.
    settles: RequestNo,
    /// The last event before that logon: by then they have come.
    settles_at: EventNo,
    /// The highest request number that the node named at the logon, as received.
    received_up_to: RequestNo,
    /// True once the node has named the partition since the logon, and not as away.
    is_open: bool,
}

/// A session's state.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    phase: Phase,
    firm_id: FirmId,
    role: Role,
    order_rate_max: u32,
    in_flight_max: u32,
    heartbeat_interval: Nanos,
    last_put: Nanos,
    /// Above the requests to all partitions, also the answered ones: a second copy of one may be
    /// refused behind its answer.
    next_request_no: RequestNo,
    /// Sorted by partition; a handful, for which a linear search beats a map.
    partitions: Vec<Progress>,
}

impl Session {
    /// Creates a session that is not open.
    ///
    /// # Panics
    /// When the heartbeat interval is zero.
    #[must_use]
    pub fn new(config: SessionConfig) -> Session {
        assert!(config.heartbeat_interval_ms > 0, "a session has heartbeats");
        Session {
            config,
            phase: Phase::Closed,
            firm_id: FirmId::NONE,
            role: Role::Trader,
            order_rate_max: 0,
            in_flight_max: 0,
            heartbeat_interval: Nanos(u64::from(config.heartbeat_interval_ms) * 1_000_000),
            last_put: Nanos(0),
            next_request_no: RequestNo(1),
            partitions: Vec::new(),
        }
    }

    /// The session's identifier.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.config.session_id
    }

    /// The session's firm; none before the first logon.
    #[must_use]
    pub fn firm_id(&self) -> FirmId {
        self.firm_id
    }

    /// The session's role, from the last logon.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// The limit of new orders and replaces per second in each partition, from the last logon; zero
    /// for no limit.
    #[must_use]
    pub fn order_rate_max(&self) -> u32 {
        self.order_rate_max
    }

    /// The limit of unanswered requests, over all partitions, from the last logon; zero for no
    /// limit. [`Session::submit`] enforces it.
    #[must_use]
    pub fn in_flight_max(&self) -> u32 {
        self.in_flight_max
    }

    /// Replaces the key for the next logon: an operator has defined the session with another.
    pub fn set_key(&mut self, key: impl Into<Key>) {
        self.config.key = key.into();
    }

    /// Chooses cancel-on-disconnect, or not, for the next logon.
    pub fn set_cancel_on_disconnect(&mut self, is_on: bool) {
        self.config.cancel_on_disconnect = is_on;
    }

    /// Chooses a takeover, or none, for the next logon.
    pub fn set_takeover(&mut self, is_on: bool) {
        self.config.takeover = is_on;
    }

    /// True when the session logs on by a signature, which needs a challenge first.
    #[must_use]
    pub fn signs(&self) -> bool {
        matches!(self.config.key, Key::Signing(_))
    }

    /// True between logon and logout or loss.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// The partitions that the node named or requests went to, ascending.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.partitions.iter().map(|progress| progress.partition_id)
    }

    /// The number of unanswered requests, over all partitions.
    #[must_use]
    pub fn unanswered_count(&self) -> usize {
        self.partitions.iter().map(|progress| progress.unanswered.len()).sum()
    }

    /// The last event received of a partition; none before the first logon.
    #[must_use]
    pub fn last_event_no(&self, partition_id: PartitionId) -> EventNo {
        self.partitions
            .iter()
            .find(|progress| progress.partition_id == partition_id)
            .and_then(|progress| progress.last_event_no)
            .unwrap_or(EventNo::NONE)
    }

    /// The epoch of [`Session::last_event_no`]; zero before the first logon. A program that stores
    /// one must store both.
    #[must_use]
    pub fn epoch(&self, partition_id: PartitionId) -> Epoch {
        self.partitions
            .iter()
            .find(|progress| progress.partition_id == partition_id)
            .map_or(Epoch::NONE, |progress| progress.epoch)
    }

    /// Sets the last event received of a partition and its epoch: a program that stored them
    /// resumes by this. Without an epoch the node cannot tell whether the event is in its history.
    /// Call it before the first logon.
    pub fn resume_after(&mut self, partition_id: PartitionId, event_no: EventNo, epoch: Epoch) {
        let progress = self.progress(partition_id);
        progress.last_event_no = Some(event_no);
        progress.epoch = epoch;
    }

    /// Discards the events of a partition from `other_from` on, and accepts the node's history in
    /// `epoch`: the recovery from [`ClientError::OtherHistory`]. Unanswered requests are discarded
    /// too and returned, since in another history they may have another meaning.
    pub fn forget_from(
        &mut self,
        partition_id: PartitionId,
        other_from: EventNo,
        epoch: Epoch,
    ) -> Vec<UnansweredRequest> {
        let progress = self.progress(partition_id);
        progress.last_event_no = Some(EventNo(other_from.0.min(NUMBER_MAX).saturating_sub(1)));
        progress.epoch = epoch;
        std::mem::take(&mut progress.unanswered).into()
    }

    fn progress(&mut self, partition_id: PartitionId) -> &mut Progress {
        let place = self.partitions.partition_point(|p| p.partition_id < partition_id);
        let is_there = self.partitions.get(place).is_some_and(|p| p.partition_id == partition_id);
        if !is_there {
            let progress = Progress {
                partition_id,
                last_event_no: None,
                epoch: Epoch::NONE,
                unanswered: VecDeque::new(),
                settles: RequestNo::NONE,
                settles_at: EventNo::NONE,
                received_up_to: RequestNo::NONE,
                is_open: false,
            };
            self.partitions.insert(place, progress);
        }
        &mut self.partitions[place]
    }

    /// Sends the logon, with the resume points of its state; with an Ed25519 key, requests the
    /// challenge first.
    pub fn put_logon(&mut self, now: Nanos, out: &mut Vec<u8>) {
        let session_id = self.config.session_id;
        self.last_put = now;
        let Key::Api(api_key) = self.config.key else {
            put_frame(&ChallengeRequest { session_id }, out);
            self.phase = Phase::Challenging;
            return;
        };
        let logon = Logon {
            api_key,
            session_id,
            heartbeat_interval_ms: self.config.heartbeat_interval_ms,
            cancel_on_disconnect: switch(self.config.cancel_on_disconnect),
            takeover: switch(self.config.takeover),
        };
        put_logon(&logon, &self.resume_points(), out);
        self.phase = Phase::LoggingOn;
    }

    /// Signs a requested challenge; an unrequested one is an error.
    fn answer(&mut self, challenge: &Challenge, out: &mut Vec<u8>) -> Result<(), ClientError> {
        let (Key::Signing(key), Phase::Challenging) = (&self.config.key, self.phase) else {
            return Err(DecodeError::Unexpected(Challenge::NAME).into());
        };
        if let Some(expected) = self.config.node_id.filter(|id| *id != challenge.node_id) {
            return Err(ClientError::WrongNode { expected, got: challenge.node_id });
        }
        let logon = SignedLogon {
            signature: Signature([0; 64]),
            session_id: self.config.session_id,
            heartbeat_interval_ms: self.config.heartbeat_interval_ms,
            cancel_on_disconnect: switch(self.config.cancel_on_disconnect),
            takeover: switch(self.config.takeover),
        };
        put_answer(challenge, logon, &self.resume_points(), |text| key.sign(text), out);
        self.phase = Phase::LoggingOn;
        Ok(())
    }

    /// The first event wanted of each partition.
    fn resume_points(&self) -> Vec<ResumePoint> {
        let point = |progress: &Progress| {
            let next_event_no = progress.last_event_no?.next();
            let (epoch, partition_id) = (progress.epoch, progress.partition_id);
            Some(ResumePoint { next_event_no, epoch, partition_id })
        };
        self.partitions.iter().filter_map(point).collect()
    }

    /// Asks the node to close the session.
    pub fn put_logout(&mut self, out: &mut Vec<u8>) {
        let logout = Logout { session_id: self.config.session_id, reason: Reason::LogoutRequested };
        put_frame(&logout, out);
    }

    /// Closes the session after a lost connection; the state stays for the next logon.
    pub fn connection_lost(&mut self) {
        self.phase = Phase::Closed;
    }

    /// Numbers a request above all earlier ones of the session, keeps it until it is answered and
    /// appends its frame. The partition should be that of its instrument, to which the node routes
    /// it in any case: after a loss, its state decides what is sent again first.
    #[inline]
    pub fn submit(
        &mut self,
        partition_id: PartitionId,
        request: Request,
        times: Times,
        out: &mut Vec<u8>,
    ) -> Submit {
        if self.phase != Phase::Open {
            return Submit::NotOpen;
        }
        let session_id = self.config.session_id;
        let unanswered_count_max = self.config.unanswered_count_max;
        let has_window =
            self.in_flight_max == 0 || self.unanswered_count() < self.in_flight_max as usize;
        let request_no = self.next_request_no;
        let progress = self.progress(partition_id);
        if !has_window || progress.unanswered.len() >= unanswered_count_max {
            return Submit::Full;
        }
        let request = stamp(request, session_id, request_no);
        put_request(&request, out);
        progress.unanswered.push_back(UnansweredRequest { request, request_no, times });
        self.next_request_no = request_no.next();
        self.last_put = times.sent;
        Submit::Sent(request_no)
    }

    /// Sends a heartbeat when one is due; checks for silence of the node since `last_heard`.
    ///
    /// # Errors
    /// [`ClientError::HeartbeatLost`] after three intervals of silence.
    pub fn on_time(
        &mut self,
        now: Nanos,
        last_heard: Nanos,
        out: &mut Vec<u8>,
    ) -> Result<(), ClientError> {
        if self.phase != Phase::Open {
            return Ok(());
        }
        let silent = now.since(last_heard);
        if silent.0 > 3 * self.heartbeat_interval.0 {
            return Err(ClientError::HeartbeatLost {
                session_id: self.config.session_id,
                silent: Duration::from_nanos(silent.0),
            });
        }
        // Half the interval, so that a delay by a scheduler's time slice does not make it late.
        if now.since(self.last_put).0 >= self.heartbeat_interval.0 / 2 {
            // The mark is of one partition, the first with events; the others are settled at
            // resume.
            let (partition_id, high_water) = self
                .partitions
                .iter()
                .find_map(|progress| Some((progress.partition_id, progress.last_event_no?)))
                .unwrap_or((PartitionId(0), EventNo::NONE));
            let heartbeat = Heartbeat {
                sending_time: crate::clock::unix_time(),
                high_water,
                session_id: self.config.session_id,
                partition_id,
                load_permille: 0,
            };
            put_frame(&heartbeat, out);
            self.last_put = now;
        }
        Ok(())
    }

    /// Handles a message addressed to this session.
    ///
    /// # Errors
    /// [`ClientError::Gap`], [`ClientError::LogonRejected`], [`ClientError::OtherHistory`]; for a
    /// challenge, [`ClientError::WrongNode`], and [`ClientError::Decode`] when none was requested;
    /// the latter also for messages of no session: pages, copies, sources, subscriptions, market
    /// data.
    #[inline]
    pub fn on_message(
        &mut self,
        message: &NodeMessage<'_>,
        out: &mut Vec<u8>,
    ) -> Result<SessionEvent, ClientError> {
        Ok(match message {
            NodeMessage::ExecutionReport(report) => {
                let event = &report.event;
                let request_no = answered_by(event.request_no, event.reason);
                match self.take(event.partition_id, event.event_no, request_no, out)? {
                    None => SessionEvent::Repeated,
                    Some(answered) => SessionEvent::Report { report: *report, answered },
                }
            }
            NodeMessage::RequestRejected(r) => {
                let request_no = answered_by(r.request_no, r.reason);
                match self.take(r.partition_id, r.event_no, request_no, out)? {
                    None => SessionEvent::Repeated,
                    Some(_) if r.reason == Reason::InProgress => SessionEvent::Repeated,
                    Some(answered) => SessionEvent::Rejected { rejected: *r, answered },
                }
            }
            NodeMessage::RequestDone(d) => {
                match self.take(d.partition_id, d.event_no, d.request_no, out)? {
                    None => SessionEvent::Repeated,
                    Some(answered) => SessionEvent::Done { done: *d, answered },
                }
            }
            NodeMessage::TradeBusted(b) => {
                match self.take(b.partition_id, b.event_no, RequestNo::NONE, out)? {
                    None => SessionEvent::Repeated,
                    Some(_) => SessionEvent::TradeBusted(*b),
                }
            }
            NodeMessage::Reject(reject) => {
                SessionEvent::Refused { reject: *reject, answered: self.take_refused(reject) }
            }
            NodeMessage::Heartbeat(heartbeat) => SessionEvent::Heartbeat(*heartbeat),
            NodeMessage::LogonAck(ack, states) => {
                let states: Vec<PartitionState> = states.clone().collect::<Result<_, _>>()?;
                states.iter().try_for_each(check_state)?;
                let resubmitted_count = self.open(ack, &states, out);
                SessionEvent::Opened { ack: *ack, resubmitted_count }
            }
            NodeMessage::LogonReject(reject) => return Err(self.refuse_logon(reject)),
            NodeMessage::Challenge(challenge) => {
                self.answer(challenge, out)?;
                SessionEvent::Challenged
            }
            NodeMessage::Logout(logout) => {
                self.phase = Phase::Closed;
                SessionEvent::LoggedOut(*logout)
            }
            // Messages for a replica, which a session is not.
            NodeMessage::FollowState(_) | NodeMessage::SnapshotChunk(..) => {
                return Err(DecodeError::Unexpected(FollowState::NAME).into());
            }
            _ => return Err(DecodeError::Unexpected("a message of no session").into()),
        })
    }

    /// Checks an event's number: `None` when it was received before, else the request of which it
    /// is the first answer.
    fn take(
        &mut self,
        partition_id: PartitionId,
        event_no: EventNo,
        request_no: RequestNo,
        out: &mut Vec<u8>,
    ) -> Result<Option<Option<UnansweredRequest>>, ClientError> {
        let session_id = self.config.session_id;
        if event_no.is_none() {
            // A partition that does not know the session yet refuses without a number.
            return Ok(Some(self.take_answered(partition_id, request_no)));
        }
        // A partition that no logon has named begins at the first event received.
        let first = EventNo(event_no.0.min(NUMBER_MAX));
        let progress = self.progress(partition_id);
        let expected = progress.last_event_no.map_or(first, EventNo::next);
        if event_no < expected {
            return Ok(None);
        }
        if event_no > expected {
            return Err(ClientError::Gap { session_id, partition_id, expected, got: event_no });
        }
        progress.last_event_no = Some(event_no);
        let answered = self.take_answered(partition_id, request_no);
        let mut again = Vec::new();
        self.progress(partition_id).take_refused(&mut again);
        again.iter().for_each(|request| put_request(request, out));
        Ok(Some(answered))
    }

    /// Removes the request that a partition's event answers, wherever it is recorded.
    fn take_answered(
        &mut self,
        partition_id: PartitionId,
        request_no: RequestNo,
    ) -> Option<UnansweredRequest> {
        if request_no.is_none() {
            return None;
        }
        let answered = self.progress(partition_id).answer(request_no);
        answered.or_else(|| self.partitions.iter_mut().find_map(|one| one.answer(request_no)))
    }

    fn refuse_logon(&mut self, reject: &LogonReject) -> ClientError {
        self.phase = Phase::Closed;
        if reject.reason == Reason::ResumeOtherHistory {
            return ClientError::OtherHistory {
                session_id: reject.session_id,
                partition_id: reject.partition_id,
                other_from: reject.next_event_no,
                oldest_event_no: reject.oldest_event_no,
                epoch: reject.epoch,
            };
        }
        ClientError::LogonRejected {
            session_id: reject.session_id,
            reason: reject.reason,
            partition_id: reject.partition_id,
            oldest_event_no: reject.oldest_event_no,
            next_event_no: reject.next_event_no,
        }
    }
}

impl Progress {
    fn position(&self, request_no: RequestNo) -> Option<usize> {
        // Answers come in the order of the requests, except for a gateway's own rejects.
        match self.unanswered.front() {
            Some(front) if front.request_no == request_no => Some(0),
            _ => self.unanswered.binary_search_by_key(&request_no, |u| u.request_no).ok(),
        }
    }

    fn answer(&mut self, request_no: RequestNo) -> Option<UnansweredRequest> {
        let index = self.position(request_no)?;
        self.unanswered.remove(index)
    }
}

/// Returns the number of the request that an event with this number and reason can answer. A mass
/// cancel is answered by its count alone: neither by the reports of its orders, maybe many commands
/// earlier, nor by the notice that it is still in progress.
#[inline]
fn answered_by(request_no: RequestNo, reason: Reason) -> RequestNo {
    match reason {
        Reason::MassCancel | Reason::InProgress => RequestNo::NONE,
        _ => request_no,
    }
}

/// The limit of plausible numbers: counting on from higher ones could overflow 64 bits.
const NUMBER_MAX: u64 = u64::MAX >> 1;

/// Refuses a state with implausible numbers.
fn check_state(state: &PartitionState) -> Result<(), DecodeError> {
    let wrong = |field, index| {
        Err(DecodeError::FieldOutOfRange { message: PartitionState::NAME, field, index })
    };
    if state.last_request_no.0 > NUMBER_MAX {
        return wrong("last_request_no", 1);
    }
    if state.next_event_no.0 > NUMBER_MAX {
        return wrong("next_event_no", 2);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::fixtures::{SECOND, ack, open_session, points_of, state};
    use super::*;
    use weir_wire::frame::{CLIENT_FRAME_LEN_MAX, Framing, next_frame};
    use weir_wire::session::ApiKey;

    #[test]
    fn a_session_of_another_history_is_told_what_is_void_and_goes_on_without_it() {
        let mut session = open_session();
        session.open(&ack(), &[state(1, 8, 1)], &mut Vec::new());
        let cancel = crate::request::cancel(
            weir_types::ClOrdId::from_number(1),
            weir_types::ClOrdId::from_number(2),
            weir_types::InstrumentId(1),
        );
        let sent = session.submit(PartitionId(1), cancel, Times::default(), &mut Vec::new());
        assert_eq!(sent, Submit::Sent(RequestNo(1)));
        session.connection_lost();
        let reject = LogonReject {
            oldest_event_no: EventNo(2),
            next_event_no: EventNo(6),
            session_id: SessionId(5),
            epoch: Epoch(7),
            partition_id: PartitionId(1),
            reason: Reason::ResumeOtherHistory,
        };
        let message = NodeMessage::LogonReject(reject);
        let error = session.on_message(&message, &mut Vec::new()).unwrap_err();
        let ClientError::OtherHistory { other_from, oldest_event_no, epoch, .. } = error else {
            panic!("{error}")
        };
        assert_eq!((other_from, oldest_event_no, epoch), (EventNo(6), EventNo(2), Epoch(7)));
        let given_up = session.forget_from(PartitionId(1), other_from, epoch);
        assert_eq!(given_up.iter().map(|u| u.request_no).collect::<Vec<_>>(), [RequestNo(1)]);
        assert_eq!(session.unanswered_count(), 0);
        assert_eq!(points_of(&session), [(1, 6, 7)]);
    }

    #[test]
    fn a_mass_cancel_in_progress_is_answered_by_its_count_alone() {
        let mut session = open_session();
        let none = &mut Vec::new();
        session.open(&ack(), &[state(1, 8, 1)], none);
        let nothing = weir_types::ClOrdId::from_number(1);
        let request = crate::request::cancel(nothing, nothing, weir_types::InstrumentId(1));
        let sent = session.submit(PartitionId(1), request, Times::default(), none);
        assert_eq!(sent, Submit::Sent(RequestNo(1)));
        for reason in [Reason::MassCancel, Reason::InProgress] {
            assert_eq!(answered_by(RequestNo(1), reason), RequestNo::NONE);
        }
        let in_progress = RequestRejected {
            position: weir_types::Position(1),
            event_no: EventNo(8),
            request_no: RequestNo(1),
            order_id: weir_types::OrderId::NONE,
            transact_time: Nanos(0),
            cl_ord_id: nothing,
            orig_cl_ord_id: nothing,
            session_id: SessionId(5),
            instrument_id: weir_types::InstrumentId(1),
            partition_id: PartitionId(1),
            reason: Reason::InProgress,
            ref_template_id: 0,
        };
        let event = session.on_message(&NodeMessage::RequestRejected(in_progress), none).unwrap();
        assert!(matches!(event, SessionEvent::Repeated));
        assert_eq!(session.unanswered_count(), 1);
        let done = RequestDone {
            position: weir_types::Position(2),
            event_no: EventNo(9),
            request_no: RequestNo(1),
            transact_time: Nanos(0),
            cl_ord_id: nothing,
            affected_count: 9,
            session_id: SessionId(5),
            partition_id: PartitionId(1),
            ref_template_id: 0,
            ..RequestDone::NOTHING_TOLD
        };
        let event = session.on_message(&NodeMessage::RequestDone(done), none).unwrap();
        assert!(matches!(event, SessionEvent::Done { answered: Some(_), .. }));
    }

    #[test]
    fn a_session_keeps_to_the_window_that_the_node_tells_over_all_partitions() {
        let mut session = open_session();
        let bounded = LogonAck { in_flight_max: 2, order_rate_max: 9, ..ack() };
        session.open(&bounded, &[state(1, 1, 1), state(2, 1, 1)], &mut Vec::new());
        assert_eq!((session.in_flight_max(), session.order_rate_max()), (2, 9));
        let mut submit = |partition| {
            let nothing = weir_types::ClOrdId::from_number(1);
            let cancel = crate::request::cancel(nothing, nothing, weir_types::InstrumentId(1));
            session.submit(PartitionId(partition), cancel, Times::default(), &mut Vec::new())
        };
        assert_eq!(submit(1), Submit::Sent(RequestNo(1)));
        assert_eq!(submit(2), Submit::Sent(RequestNo(2)));
        assert_eq!((submit(1), submit(2)), (Submit::Full, Submit::Full));
        session.open(&ack(), &[], &mut Vec::new());
        assert_eq!(session.in_flight_max(), 0);
    }

    #[test]
    fn the_signed_logon_of_the_protocols_page_is_what_a_session_sends() {
        let seed = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb";
        let digits = |i: usize| u8::from_str_radix(&seed[2 * i..2 * i + 2], 16).unwrap();
        let key = crate::SigningKey::from_seed(std::array::from_fn(digits));
        let mut session = Session::new(SessionConfig::new(SessionId(5), key));
        let mut out = Vec::new();
        session.put_logon(Nanos(0), &mut out);
        out.clear();
        let challenge = Challenge {
            nonce: weir_wire::session::Nonce([0x20; 32]),
            node_id: NodeId(std::array::from_fn(|i| i as u8)),
            session_id: SessionId(5),
        };
        session.on_message(&NodeMessage::Challenge(challenge), &mut out).unwrap();
        let lines = out
            .chunks(32)
            .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n");
        let frame: String = lines.collect();
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocols/order-entry.md");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains(&frame), "the page has not\n{frame}");
    }

    #[test]
    fn heartbeats_go_out_at_half_the_interval_that_the_node_set_and_only_when_idle() {
        let mut session = open_session();
        let mut out = Vec::new();
        let cases = [(SECOND + 1, false), (2 * SECOND, true), (2 * SECOND + 1, false)];
        for (now, is_due) in cases {
            out.clear();
            session.on_time(Nanos(now), Nanos(now), &mut out).unwrap();
            assert_eq!(!out.is_empty(), is_due, "at {now}");
            if is_due {
                let Framing::Frame { message: Ok(raw), .. } =
                    next_frame(&out, CLIENT_FRAME_LEN_MAX)
                else {
                    panic!("a frame is due")
                };
                assert_eq!(raw.decode::<Heartbeat>().unwrap().session_id, SessionId(5));
            }
        }
    }

    #[test]
    fn a_node_silent_for_three_intervals_is_lost() {
        let mut session = open_session();
        let mut out = Vec::new();
        let heard = Nanos(SECOND);
        assert!(session.on_time(Nanos(7 * SECOND), heard, &mut out).is_ok());
        let lost = session.on_time(Nanos(7 * SECOND + 1), heard, &mut out).unwrap_err();
        assert!(matches!(lost, ClientError::HeartbeatLost { .. }));
        session.connection_lost();
        assert!(session.on_time(Nanos(9 * SECOND), heard, &mut out).is_ok());
    }

    #[test]
    fn a_mark_kept_elsewhere_is_the_resume_point_of_the_first_logon() {
        let mut session = Session::new(SessionConfig::new(SessionId(5), ApiKey([1; 32])));
        session.resume_after(PartitionId(2), EventNo(41), Epoch(3));
        let mut out = Vec::new();
        session.put_logon(Nanos(0), &mut out);
        let Framing::Frame { message: Ok(raw), .. } = next_frame(&out, CLIENT_FRAME_LEN_MAX) else {
            panic!("a frame is due")
        };
        let (points, _) = weir_wire::group::take_group::<ResumePoint>(raw.rest()).unwrap();
        let points: Vec<_> = points.map(Result::unwrap).collect();
        let (next_event_no, epoch) = (EventNo(42), Epoch(3));
        let want = ResumePoint { next_event_no, epoch, partition_id: PartitionId(2) };
        assert_eq!(points, [want]);
    }

    #[test]
    fn what_is_no_sessions_is_an_error_of_the_node() {
        let mut session = Session::new(SessionConfig::new(SessionId(5), ApiKey([1; 32])));
        let (session_id, reason) = (SessionId(5), Reason::NotAttached);
        let ended = weir_wire::market::MarketEnded {
            session_id,
            handle: 1,
            slots_needed: 0,
            slots_max: 0,
            reason,
        };
        let market = weir_wire::market_dialogue::MarketMessage::Ended(ended);
        let error = session.on_message(&NodeMessage::Market(market), &mut Vec::new()).unwrap_err();
        assert!(matches!(error, ClientError::Decode(DecodeError::Unexpected(_))), "{error}");
    }
}
