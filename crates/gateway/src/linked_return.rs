//! Partitions that come back under sessions which are logged on: without them, or in another
//! epoch.
//!
//! Such a session is bound there from the resume point of its logon, and its client gets a further
//! `LogonAck`: from then on the partition's events come and its requests are taken.

use weir_link::gateway_end::{SessionPoint, WantedBinding};
use weir_link::message::Seal;
use weir_partition::stream::{Listed, Stream};
use weir_types::{EventNo, Nanos, Reason, SessionId};

use super::Gateway;
use super::linked::{BindAsk, LinkAsk, ListedBinding};
use super::sessions::Behind;

/// The port of the control partition, whose link keeps the grants of sessions over its lapse.
const CONTROL: usize = 0;
/// The pause before a partition is asked again that does not know a session yet.
const ASK_AGAIN_AFTER: u64 = 10_000_000;
/// The number of such pauses; later ones are longer.
const SOON_COUNT: u32 = 100;
/// The pause after those.
const ASK_RARELY_AFTER: u64 = 1_000_000_000;

/// The terms of a logon, for bindings at partitions that were away.
#[derive(Debug)]
pub(super) struct ReturnTerms {
    /// The seal of the grant.
    pub(super) seal: Seal,
    /// The resume point of each port.
    pub(super) points: Vec<SessionPoint>,
    /// The number of times that a partition did not know the session.
    pub(super) unknown_count: u32,
}

/// A session that a partition, back again, did not know yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct LateSession {
    id: SessionId,
    port: usize,
    ask_at: Nanos,
}

impl Gateway {
    /// Binds the sessions at a partition that is back: those that are logged on without it.
    pub(super) fn bind_returned(&mut self, port: usize) {
        for id in self.sessions.logged_on_ids() {
            self.bind_returned_one(port, id);
        }
    }

    /// Binds a session at a port that is in reach, if it is logged on without that.
    pub(super) fn bind_returned_one(&mut self, port: usize, id: SessionId) {
        let is_in_reach = self.is_in_reach(port);
        let session = self.sessions.get_mut(id).filter(|session| session.streams[port].is_away);
        let Some(session) = session.filter(|_| is_in_reach) else { return };
        let (Some(generation), Some(terms)) = (session.generation, &session.return_terms) else {
            return;
        };
        let wanted = WantedBinding {
            session_id: id,
            generation,
            seal: terms.seal,
            cancel_on_disconnect: session.cancel_on_disconnect,
        };
        let point = terms.points[port];
        self.bind_count += 1;
        let number = self.bind_count;
        session.bind_nos[port] = number;
        self.ask_link(port, LinkAsk::Bind(BindAsk { wanted, point, number }));
    }

    /// Takes the answer to such a binding.
    ///
    /// | the answer | outcome |
    /// | --- | --- |
    /// | accepted | the session goes on there; a further `LogonAck` says so |
    /// | `UnknownSession` | asked again, for a second soon and then rarely: it is behind control |
    /// | another refusal | the session ends, with the reason |
    pub(super) fn take_return(&mut self, port: usize, listed: &ListedBinding, now: Nanos) {
        let ListedBinding { bound, records, .. } = listed;
        let id = bound.bound_session_id;
        match bound.reason {
            Reason::None => {}
            Reason::UnknownSession => {
                let terms = self.sessions.get_mut(id).and_then(|one| one.return_terms.as_mut());
                let Some(terms) = terms else { return };
                terms.unknown_count = terms.unknown_count.saturating_add(1);
                let is_soon = terms.unknown_count <= SOON_COUNT;
                let pause = if is_soon { ASK_AGAIN_AFTER } else { ASK_RARELY_AFTER };
                self.late_sessions.push(LateSession { id, port, ask_at: Nanos(now.0 + pause) });
                return;
            }
            reason => return self.end_soon(id, reason),
        }
        let session = self.sessions.entry(id);
        let point = session.return_terms.as_ref().map(|terms| terms.points[port].next_event_no);
        let wanted = point.unwrap_or(EventNo::NONE);
        let stream = Stream::listed(Listed {
            first: if wanted.is_none() { bound.next_event_no } else { wanted },
            records,
            live_from: bound.next_record,
            oldest: bound.oldest_event_no,
            last_request_no: bound.last_request_no,
        });
        session.begins_with(port, stream);
        session.streams[port].is_away = false;
        let Some(mut connection) = session.connection.and_then(|id| self.connections.take(id))
        else {
            return;
        };
        self.tell_states(&mut connection, id, now);
        let Some(session) = self.sessions.get_mut(id) else { return };
        self.behind.add(Behind { session_id: id, port }, &mut session.streams[port]);
        self.flush_list.add(&mut connection);
        self.connections.put_back(connection.id, connection);
    }

    /// Tells all sessions that are logged on at a partition the epoch that has begun there. Their
    /// clients would state the one before with events of the new one, and be refused: they are of
    /// no history that the partition knows.
    pub(super) fn tell_epoch(&mut self, port: usize, now: Nanos) {
        for id in self.sessions.logged_on_ids() {
            let session = self.sessions.get(id).filter(|session| !session.streams[port].is_away);
            let via = session.and_then(|session| session.connection);
            let Some(mut connection) = via.and_then(|via| self.connections.take(via)) else {
                continue;
            };
            self.tell_states(&mut connection, id, now);
            self.flush_list.add(&mut connection);
            self.connections.put_back(connection.id, connection);
        }
    }

    /// Asks partitions again that did not know a session yet.
    pub(super) fn ask_late(&mut self, now: Nanos) {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.late_sessions).into_iter().partition(|one| one.ask_at <= now);
        self.late_sessions = later;
        for LateSession { id, port, .. } in due {
            self.bind_returned_one(port, id);
        }
    }

    /// A link has been away for the lease: the partition takes its sessions as lost. Those with
    /// requests under way there end, since nobody knows what became of them; the others go on, and
    /// are bound anew when the partition is back.
    pub(super) fn leave_lapsed(&mut self, port: usize) {
        let epoch = self.ports[port].lineage.current();
        let is_cut_off = self.is_cut_off();
        for id in self.sessions.logged_on_ids() {
            let Some(session) = self.sessions.get_mut(id) else { continue };
            let is_bound = !session.streams[port].is_away;
            if is_cut_off || is_bound && session.has_under_way(port) {
                self.end_soon(id, Reason::PartitionAway);
            } else if is_bound && port != CONTROL {
                let next_event_no = session.streams[port].next_to_send();
                if let Some(terms) = &mut session.return_terms {
                    terms.points[port] = SessionPoint { next_event_no, epoch };
                }
                session.begins_with(port, Stream::unknown());
            }
        }
    }
}
