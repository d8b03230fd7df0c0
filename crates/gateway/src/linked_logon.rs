//! Logons of a gateway process, which asks the partitions and control before it opens a session.
//!
//! ```text
//! judged here ─► each partition in reach: could it be bound? ─► control: may it be? ─► bound there
//!                                  │ no                             │ no                  │ no
//!                                  ▼                                ▼                     ▼
//!                               refused                          refused     refused, and given up
//! ```
//!
//! The connection's further input waits meanwhile. A logon that is refused before the last step has
//! changed nothing.
//!
//! INVARIANT: a session has at most one logon under way, and a binding of a logon that came to
//! nothing is given up.

use std::collections::BTreeMap;

use weir_door::ConnectionId;
use weir_door::directory::{KnownSession, SessionChange};
use weir_door::reception::{LogonRequest, MessageOrigin, refusal};
use weir_link::gateway_end::{SessionPoint, WantedBinding};
use weir_link::message::{Seal, SessionClaimed};
use weir_partition::stream::{Listed, Stream};
use weir_types::{Epoch, EventNo, Nanos, Reason, SessionId, Switch};
use weir_wire::session::LogonReject;

use super::Gateway;
use super::connection::Connection;
use super::linked::{BindAsk, LinkAsk, ListedBinding};
use super::linked_return::ReturnTerms;
use super::opening::{attach, judge_owner};
use super::protocol::ResumePoints;

/// The most logons under way.
const PENDING_MAX: usize = 1_024;
/// The time that a logon has.
const LOGON_TIME: u64 = 5_000_000_000;
/// The time within which a partition has to know a session that control knows.
const DEFINED_WITHIN: u64 = 1_000_000_000;
/// The pause before a partition is asked again.
const ASK_AGAIN_AFTER: u64 = 10_000_000;

/// The stage of a logon under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogonStage {
    Checking,
    Claiming,
    Binding,
}

/// The state of a partition in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// Nothing is due: it has answered, or is out of reach.
    Nothing,
    Answer,
    /// It does not know the session yet, and is asked again at this time.
    AskAgain(Nanos),
}

/// A logon whose session has proved its identity.
pub(super) struct ProvenLogon<'a> {
    /// The session.
    pub(super) known: KnownSession,
    /// The logon.
    pub(super) asked: LogonRequest<ResumePoints<'a>>,
}

/// A logon under way.
#[derive(Debug)]
struct PendingLogon {
    connection: ConnectionId,
    known: KnownSession,
    asked: LogonRequest<()>,
    via: MessageOrigin,
    /// The resume point of each port.
    points: Vec<SessionPoint>,
    stage: LogonStage,
    due: Vec<Due>,
    generation: u64,
    /// The newest generation that control has granted, where that is another one.
    claimed: u64,
    seal: Seal,
    /// The number of the question that binds it, of each port.
    bind_nos: Vec<u64>,
    /// True for the ports at which it is bound.
    is_bound: Vec<bool>,
}

impl PendingLogon {
    fn is_step_done(&self) -> bool {
        self.due.iter().all(|due| *due == Due::Nothing)
    }

    /// Returns the question of its step to a port.
    fn question(&self, port: usize) -> LinkAsk {
        let (id, point) = (self.asked.session_id, self.points[port]);
        if self.stage == LogonStage::Checking {
            return LinkAsk::Check(id, point);
        }
        let wanted = WantedBinding {
            session_id: id,
            generation: self.generation,
            seal: self.seal,
            cancel_on_disconnect: self.asked.cancel_on_disconnect,
        };
        LinkAsk::Bind(BindAsk { wanted, point, number: self.bind_nos[port] })
    }
}

/// The logons under way, by session.
#[derive(Debug, Default)]
pub(super) struct PendingLogons(BTreeMap<SessionId, PendingLogon>);

impl PendingLogons {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn of_connection(&self, connection: ConnectionId) -> Option<SessionId> {
        let mut pending = self.0.iter();
        pending.find(|(_, one)| one.connection == connection).map(|(id, _)| *id)
    }
}

impl Gateway {
    /// Begins the logon of a session that has proved its identity.
    ///
    /// # Errors
    /// A fault of the logon that this gateway can tell.
    pub(super) fn begin_logon(
        &mut self,
        connection: &mut Connection,
        proven: ProvenLogon<'_>,
        via: MessageOrigin,
    ) -> Result<(), LogonReject> {
        let ProvenLogon { known, asked } = proven;
        let (asked, points) = asked.split();
        let id = asked.session_id;
        let points = self.judge_logon(&asked, points, via)?;
        let pending = PendingLogon {
            connection: connection.id,
            known,
            asked,
            via,
            points,
            stage: LogonStage::Checking,
            due: vec![Due::Nothing; self.ports.len()],
            generation: 0,
            claimed: 0,
            seal: Seal::NONE,
            bind_nos: vec![0; self.ports.len()],
            is_bound: vec![false; self.ports.len()],
        };
        connection.logs_on = true;
        self.pending.0.insert(id, pending);
        self.ask_all(id);
        Ok(())
    }

    fn judge_logon(
        &mut self,
        asked: &LogonRequest<()>,
        points: ResumePoints<'_>,
        via: MessageOrigin,
    ) -> Result<Vec<SessionPoint>, LogonReject> {
        let id = asked.session_id;
        let refused = |reason| refusal(id, reason);
        if self.pending.0.contains_key(&id) {
            return Err(refused(Reason::AlreadyLoggedOn));
        }
        if self.pending.0.len() >= PENDING_MAX {
            return Err(refused(Reason::Overloaded));
        }
        if !self.is_in_reach(0) {
            return Err(refused(Reason::PartitionAway));
        }
        judge_owner(&mut self.sessions, asked, via)?;
        let none = SessionPoint { next_event_no: EventNo::NONE, epoch: Epoch::NONE };
        let mut wanted = vec![none; self.ports.len()];
        for point in points {
            let point = point.ok_or_else(|| refused(Reason::FieldOutOfRange))?;
            let mut ports = self.ports.iter();
            let port = ports.position(|port| port.ring.partition_id == point.partition_id);
            let port = port.ok_or_else(|| refused(Reason::WrongPartition))?;
            let (next_event_no, epoch) = (point.next_event_no, point.epoch);
            wanted[port] = SessionPoint { next_event_no, epoch };
        }
        Ok(wanted)
    }

    /// Asks all ports in reach the question of a logon's stage.
    fn ask_all(&mut self, id: SessionId) {
        for port in 0..self.ports.len() {
            let is_in_reach = self.is_in_reach(port);
            let Some(pending) = self.pending.0.get_mut(&id) else { return };
            pending.due[port] = if is_in_reach { Due::Answer } else { Due::Nothing };
            self.bind_count += 1;
            pending.bind_nos[port] = self.bind_count;
            let question = pending.question(port);
            if is_in_reach {
                self.ask_link(port, question);
            }
        }
    }

    /// Takes a partition's answer to a check, or to a binding.
    pub(super) fn take_bound(&mut self, port: usize, listed: &ListedBinding, now: Nanos) {
        let ListedBinding { bound, records, number } = listed;
        let id = bound.bound_session_id;
        let is_check = bound.is_check == Switch::On;
        let stage = if is_check { LogonStage::Checking } else { LogonStage::Binding };
        let pending = self.pending.0.get_mut(&id);
        let pending = pending.filter(|one| {
            let is_its = is_check || one.bind_nos[port] == *number;
            one.stage == stage && is_its && one.due[port] == Due::Answer
        });
        let Some(pending) = pending else {
            if !is_check {
                self.take_bound_again(port, listed, now);
            }
            return;
        };
        if bound.reason == Reason::UnknownSession && now.since(pending.via.now).0 < DEFINED_WITHIN {
            pending.due[port] = Due::AskAgain(Nanos(now.0 + ASK_AGAIN_AFTER));
            return;
        }
        if bound.reason != Reason::None {
            let reject = LogonReject {
                oldest_event_no: bound.oldest_event_no,
                next_event_no: bound.next_event_no,
                epoch: bound.epoch,
                partition_id: bound.partition_id,
                ..refusal(id, bound.reason)
            };
            return self.end_pending(id, &reject, now);
        }
        pending.due[port] = Due::Nothing;
        if !is_check {
            pending.is_bound[port] = true;
            let wanted = pending.points[port].next_event_no;
            // At once: the session's next events may come before the other partitions' answers.
            let stream = Stream::listed(Listed {
                first: if wanted.is_none() { bound.next_event_no } else { wanted },
                records,
                live_from: bound.next_record,
                oldest: bound.oldest_event_no,
                last_request_no: bound.last_request_no,
            });
            self.sessions.entry(id).begins_with(port, stream);
        }
        self.go_on(id, now);
    }

    /// Takes the answer to a binding of no logon under way.
    ///
    /// | the session is logged on under this generation | the answer | outcome |
    /// | --- | --- | --- |
    /// | yes, and bound at this partition | accepted | bound again after a break of the link |
    /// | yes, and bound at this partition | refused | the session ends |
    /// | yes, and its logon was done without this partition | any | [`Gateway::take_return`] |
    /// | no | any | given up |
    fn take_bound_again(&mut self, port: usize, listed: &ListedBinding, now: Nanos) {
        let bound = &listed.bound;
        let (id, generation) = (bound.bound_session_id, bound.generation);
        let session = self.sessions.get(id).filter(|one| one.generation == Some(generation));
        let pending = self.pending.0.get(&id).filter(|one| one.generation == generation);
        if session.is_none_or(|session| session.bind_nos[port] != listed.number)
            && (session.is_some() || pending.is_some())
        {
            // The answer to the last question is still to come.
            return;
        }
        match (session.map(|session| session.streams[port].is_away), bound.reason) {
            (Some(false), Reason::None) => {}
            (Some(false), reason) => self.end_soon(id, reason),
            (Some(true), _) => self.take_return(port, listed, now),
            (None, Reason::None) => {
                self.ask_link(port, LinkAsk::Unbind(id, generation, Switch::Off));
            }
            (None, _) => {}
        }
    }

    /// Goes on with a logon whose step may be done.
    fn go_on(&mut self, id: SessionId, now: Nanos) {
        let Some(pending) = self.pending.0.get_mut(&id).filter(|one| one.is_step_done()) else {
            return;
        };
        match pending.stage {
            LogonStage::Checking => {
                pending.stage = LogonStage::Claiming;
                pending.due[0] = Due::Answer;
                let takeover = pending.asked.takeover;
                self.ask_link(0, LinkAsk::Claim(id, takeover));
            }
            LogonStage::Claiming => {
                pending.stage = LogonStage::Binding;
                self.ask_all(id);
            }
            LogonStage::Binding => self.finish_logon(id, now),
        }
    }

    /// Takes control's answer to a claim.
    pub(super) fn take_claimed(&mut self, claimed: &SessionClaimed, now: Nanos) {
        let id = claimed.bound_session_id;
        let pending = self.pending.0.get_mut(&id).filter(|one| one.stage == LogonStage::Claiming);
        match (pending, claimed.reason) {
            (Some(pending), Reason::None) => {
                (pending.generation, pending.seal) = (claimed.generation, claimed.seal);
                pending.due[0] = Due::Nothing;
                self.go_on(id, now);
            }
            (Some(_), reason) => self.end_pending(id, &refusal(id, reason), now),
            (None, Reason::None) => match self.pending.0.get_mut(&id) {
                // Of an earlier logon, whose answer was late: control knows us by this one.
                Some(pending) => pending.claimed = pending.claimed.max(claimed.generation),
                None => self.release(id, claimed.generation),
            },
            (None, _) => {}
        }
    }

    /// Opens the session of a logon that is bound at all partitions in reach.
    fn finish_logon(&mut self, id: SessionId, now: Nanos) {
        let Some(pending) = self.pending.0.remove(&id) else { return };
        let Some(mut connection) = self.connections.take(pending.connection) else {
            return self.give_up(&pending);
        };
        connection.logs_on = false;
        let wall = self.reception.directory.wall_at(now);
        let judged = match KnownSession::is_over(pending.known.valid_until, wall) {
            true => Err(refusal(id, Reason::KeyExpired)),
            false => judge_owner(&mut self.sessions, &pending.asked, pending.via),
        };
        match judged {
            _ if connection.closing_by.is_some() => self.give_up(&pending),
            Err(reject) => {
                self.give_up(&pending);
                self.refuse_logon(&mut connection, &reject, now);
            }
            Ok(()) => self.open_bound(&mut connection, pending, now),
        }
        self.want_read(&mut connection);
        self.connections.put_back(connection.id, connection);
    }

    fn open_bound(&mut self, connection: &mut Connection, pending: PendingLogon, now: Nanos) {
        let id = pending.asked.session_id;
        let via = MessageOrigin { now, ..pending.via };
        let taken_from = attach(&mut self.sessions, &pending.known, &pending.asked, via);
        let session = self.sessions.entry(id);
        let before = session.generation.replace(pending.generation);
        session.claimed = session.claimed.max(pending.claimed);
        session.bind_nos = pending.bind_nos;
        session.return_terms =
            Some(ReturnTerms { seal: pending.seal, points: pending.points, unknown_count: 0 });
        for (port, is_bound) in pending.is_bound.iter().copied().enumerate() {
            if is_bound {
                session.streams[port].is_away = false;
            } else {
                // Nothing of an earlier binding there is this session's: neither its events nor its
                // requests under way.
                session.begins_with(port, Stream::unknown());
            }
        }
        let unbound = pending.is_bound.iter().enumerate().filter(|(_, is_bound)| !**is_bound);
        for (port, _) in unbound {
            if let Some(before) = before {
                self.ask_link(port, LinkAsk::Unbind(id, before, Switch::Off));
            }
            // The partition may have come back since it was passed over.
            self.bind_returned_one(port, id);
        }
        if let Some(from) = taken_from {
            self.end_taken_over(id, from, now);
        }
        self.end_logon(connection, id, now);
    }

    /// Refuses a logon under way, and gives up its bindings.
    fn end_pending(&mut self, id: SessionId, reject: &LogonReject, now: Nanos) {
        let Some(pending) = self.pending.0.remove(&id) else { return };
        self.give_up(&pending);
        let Some(mut connection) = self.connections.take(pending.connection) else { return };
        connection.logs_on = false;
        if connection.closing_by.is_none() {
            self.refuse_logon(&mut connection, reject, now);
        }
        self.want_read(&mut connection);
        self.connections.put_back(connection.id, connection);
    }

    /// Gives up the bindings of a logon that came to nothing: the session may be bound elsewhere.
    fn give_up(&mut self, pending: &PendingLogon) {
        if pending.stage != LogonStage::Binding {
            return;
        }
        let (id, generation) = (pending.asked.session_id, pending.generation);
        for port in 0..self.ports.len() {
            self.ask_link(port, LinkAsk::Unbind(id, generation, Switch::Off));
        }
        self.release(id, generation.max(pending.claimed));
        // One that would have been taken over has lost its bindings to this logon.
        self.end_soon(id, Reason::PartitionAway);
    }

    /// Gives up the logon of a connection that is gone.
    pub(super) fn forget_pending(&mut self, connection: ConnectionId) {
        let pending = self.pending.of_connection(connection);
        if let Some(pending) = pending.and_then(|id| self.pending.0.remove(&id)) {
            self.give_up(&pending);
        }
    }

    /// Applies a new definition to the logon under way of its session, which has proved its
    /// identity by the one before.
    ///
    /// | firm or role | key | the logon |
    /// | --- | --- | --- |
    /// | other | any | refused with `NotEntitled` |
    /// | same | other | refused with `KeyReplaced` |
    /// | same | same | goes on, with the new limits and the new expiry |
    pub(super) fn redefine_pending(&mut self, change: &SessionChange, now: Nanos) {
        let id = change.session_id;
        let Some(pending) = self.pending.0.get_mut(&id) else { return };
        match change.reason_to_end(pending.known.firm_id, pending.known.role) {
            None => pending.known = change.known,
            Some(reason) => self.end_pending(id, &refusal(id, reason), now),
        }
    }

    /// Goes on with logons without a port whose link is lost.
    pub(super) fn pending_without(&mut self, port: usize, now: Nanos) {
        let ids: Vec<_> = self.pending.0.keys().copied().collect();
        for id in ids {
            let Some(pending) = self.pending.0.get_mut(&id) else { continue };
            if port == 0 {
                self.end_pending(id, &refusal(id, Reason::PartitionAway), now);
                continue;
            }
            pending.is_bound[port] = false;
            let was_due = std::mem::replace(&mut pending.due[port], Due::Nothing) != Due::Nothing;
            if was_due {
                self.go_on(id, now);
            }
        }
    }

    /// Asks partitions again that did not know a session, and refuses logons that are late.
    pub(super) fn serve_pending(&mut self, now: Nanos) {
        if self.pending.is_empty() {
            return;
        }
        let ids: Vec<_> = self.pending.0.keys().copied().collect();
        for id in ids {
            let Some(pending) = self.pending.0.get_mut(&id) else { continue };
            if now.since(pending.via.now).0 >= LOGON_TIME {
                self.end_pending(id, &refusal(id, Reason::PartitionAway), now);
                continue;
            }
            for port in 0..pending.due.len() {
                let Some(pending) = self.pending.0.get_mut(&id) else { break };
                let is_due = matches!(pending.due[port], Due::AskAgain(at) if now >= at);
                if is_due {
                    pending.due[port] = Due::Answer;
                    self.bind_count += 1;
                    pending.bind_nos[port] = self.bind_count;
                    let question = pending.question(port);
                    self.ask_link(port, question);
                }
            }
        }
    }
}
