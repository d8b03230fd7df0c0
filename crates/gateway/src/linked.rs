//! A port to a partition of another process: the rings between the gateway and the agent of its
//! links.
//!
//! Requests, refusals and events pass as at a partition of this process: the agent stands at the
//! other ends of the port's rings, and fills the tail that the port's reader reads. These rings
//! carry the rest: logons in one direction, and in the other their answers and the link's state.
//!
//! The agent takes all requests that were handed over before a question, and then the question. It
//! hands over an answer before the events behind it.
//!
//! INVARIANT: a session has requests on a linked port only while it is bound there.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use rtrb::{Consumer, Producer, RingBuffer};
use weir_link::gateway_end::{SessionPoint, WantedBinding};
use weir_link::message::{SessionBound, SessionClaimed};
use weir_partition::event_reader::EventReader;
use weir_partition::lineage::{Lineage, PassedEnds};
use weir_runtime::Wake;
use weir_types::{FirmId, Nanos, Reason, SessionId, Switch};
use weir_wire::Request;
use weir_wire::reference::DefineInstrument;

use super::sessions::Session;
use super::{Gateway, Port};

/// The capacity of both rings.
const RING_LEN: usize = 4_096;
/// The bytes of records after whose reading a link's agent is woken: a quarter of the window of its
/// events, as it tells the partition.
const WAKE_AFTER_LEN: usize = 1 << 20;
/// The time in nanoseconds that the other links have once the definitions of control have come.
const OTHERS_TIME: u64 = 6_000_000_000;

/// A question of the gateway to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkAsk {
    /// Could a session be bound with this resume point?
    Check(SessionId, SessionPoint),
    /// May the gateway bind a session? On to take it over from another gateway.
    Claim(SessionId, Switch),
    /// Binds a session.
    Bind(BindAsk),
    /// Ends a session's binding of this generation; On for the session's end.
    Unbind(SessionId, u64, Switch),
    /// Gives the grant of this generation back.
    Release(SessionId, u64),
}

/// A question that binds a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindAsk {
    /// The binding.
    pub wanted: WantedBinding,
    /// The resume point from which on it has the session's events.
    pub point: SessionPoint,
    /// The number of the question, which its answer repeats: those of before a break of the link
    /// have the same generation.
    pub number: u64,
}

/// A partition's answer to a check or a binding.
#[derive(Debug)]
pub struct ListedBinding {
    /// The answer.
    pub bound: SessionBound,
    /// The records of the wanted events so far.
    pub records: Vec<u64>,
    /// The number of the question by which the session is bound; zero for a check.
    pub number: u64,
}

impl ListedBinding {
    /// Returns an answer with its list.
    #[must_use]
    pub fn new(bound: SessionBound, records: Vec<u64>, number: u64) -> Box<ListedBinding> {
        Box::new(ListedBinding { bound, records, number })
    }
}

/// An answer or a notice of a link.
pub enum LinkAnswer {
    /// The link is open; the partition's next record at its opening.
    Opened(u64),
    /// The link is lost.
    Away,
    /// The link begins anew: the events before are dropped, and the sessions are bound no more.
    BeginsAnew(Box<EventReader>),
    /// A session of the partition belongs to this firm.
    Firm(SessionId, FirmId),
    /// An instrument of the partition.
    Instrument(Box<DefineInstrument>),
    /// The answer to a check or a binding.
    Bound(Box<ListedBinding>),
    /// The answer to a claim.
    Claimed(SessionClaimed),
    /// The session is bound no more: another gateway has it, or its events cannot go on.
    Ended(SessionId, Reason),
    /// The link has been away for the lease: its sessions are given up there, with their requests
    /// under way.
    Lapsed,
    /// The partition's load, in thousandths.
    Load(u16),
}

/// The gateway's end towards a link.
pub struct LinkPort {
    asks: Producer<LinkAsk>,
    /// Questions for which the ring had no room.
    waiting: VecDeque<LinkAsk>,
    answers: Consumer<LinkAnswer>,
    pub(super) is_open: bool,
    /// True from the lapse of the lease until the link is open again, and before it was open.
    is_lapsed: bool,
    /// The partition's load as it tells it, in thousandths.
    pub(super) load_permille: u16,
    /// The partition's next record at the first opening of the link.
    pub(super) complete_at: Option<u64>,
}

/// The end of a link's agent towards the gateway.
pub struct LinkAgentPort {
    /// Questions.
    pub asks: Consumer<LinkAsk>,
    /// Answers and notices.
    pub answers: Producer<LinkAnswer>,
    /// The gateway's thread.
    pub gateway: Wake,
}

/// Creates the two ends between a gateway and the agent of a link. `gateway` is the wake of the
/// gateway's thread; the port's ring has that of the agent's.
#[must_use]
pub fn gateway_to_link(gateway: Wake) -> (LinkPort, LinkAgentPort) {
    let (ask, asks) = RingBuffer::new(RING_LEN);
    let (answer, answers) = RingBuffer::new(RING_LEN);
    let waiting = VecDeque::new();
    let port = LinkPort {
        asks: ask,
        waiting,
        answers,
        is_open: false,
        is_lapsed: true,
        load_permille: 0,
        complete_at: None,
    };
    (port, LinkAgentPort { asks, answers: answer, gateway })
}

impl LinkPort {
    /// Takes the next answer.
    pub fn next_answer(&mut self) -> Option<LinkAnswer> {
        self.answers.pop().ok()
    }

    fn ask(&mut self, ask: LinkAsk) {
        self.waiting.push_back(ask);
        self.flush();
    }

    fn flush(&mut self) {
        while let Some(ask) = self.waiting.front().copied()
            && self.asks.push(ask).is_ok()
        {
            self.waiting.pop_front();
        }
    }
}

impl Port {
    /// Notes that a record was read, which gives a link's partition credit.
    #[inline]
    pub(super) fn has_read(&mut self, len: usize) {
        self.read_len += len;
        if self.read_len >= WAKE_AFTER_LEN {
            (self.read_len, self.handed_over) = (0, true);
        }
    }
}

impl Gateway {
    /// Asks the link of a port, if it has one.
    pub(super) fn ask_link(&mut self, port: usize, ask: LinkAsk) {
        let port = &mut self.ports[port];
        if let Some(link) = &mut port.link {
            link.ask(ask);
            port.handed_over = true;
        }
    }

    /// Returns true if the partition of a port is in another process, and its link is open.
    pub(super) fn is_in_reach(&self, port: usize) -> bool {
        self.ports[port].link.as_ref().is_some_and(|link| link.is_open)
    }

    /// Returns the reason for which a request does not go to a linked port.
    pub(super) fn refused_by_link(&self, port: usize, request: &Request) -> Option<Reason> {
        let link = self.ports[port].link.as_ref()?;
        match request {
            _ if !link.is_open => Some(Reason::PartitionAway),
            // Their names need one place that knows those under way.
            Request::DefineFirm(_)
            | Request::DefineAccount(_)
            | Request::DefineSession(_)
            | Request::DefineInstrument(_) => Some(Reason::NotServedHere),
            _ => None,
        }
    }

    /// Takes the answers of all links, and goes on with logons; returns the number of answers.
    pub(super) fn serve_links(&mut self, now: Nanos) -> usize {
        if !self.is_linked {
            return 0;
        }
        let mut count = 0;
        for port in 0..self.ports.len() {
            count += self.take_link_answers(port, now).count;
            if let Some(link) = &mut self.ports[port].link {
                link.flush();
            }
        }
        self.end_lost_sessions(now);
        self.serve_pending(now);
        self.ask_late(now);
        self.tell_complete(now);
        count
    }

    /// Takes the answers of a port's link.
    pub(super) fn take_link_answers(&mut self, port: usize, now: Nanos) -> Taken {
        let mut taken = Taken { count: 0, begins_anew: false };
        while let Some(link) = &mut self.ports[port].link
            && let Some(answer) = link.next_answer()
        {
            taken.count += 1;
            match answer {
                LinkAnswer::Opened(end_record) => {
                    (link.is_open, link.is_lapsed) = (true, false);
                    link.complete_at.get_or_insert(end_record);
                    self.bind_returned(port);
                }
                LinkAnswer::Away => {
                    link.is_open = false;
                    self.pending_without(port, now);
                }
                LinkAnswer::BeginsAnew(events) => {
                    taken.begins_anew = true;
                    self.begin_anew(port, *events, now);
                }
                LinkAnswer::Firm(id, firm_id) => self.know_firm(id, firm_id),
                LinkAnswer::Instrument(definition) => self.know_instrument(port, &definition),
                LinkAnswer::Bound(listed) => self.take_bound(port, &listed, now),
                LinkAnswer::Claimed(claimed) => self.take_claimed(&claimed, now),
                LinkAnswer::Ended(id, reason) => self.end_soon(id, reason),
                LinkAnswer::Lapsed => {
                    link.is_lapsed = true;
                    self.leave_lapsed(port);
                }
                LinkAnswer::Load(permille) => link.load_permille = permille,
            }
        }
        taken
    }

    /// A port's events begin anew: sessions log on again, from their own resume points.
    fn begin_anew(&mut self, port: usize, events: EventReader, now: Nanos) {
        let own = &mut self.ports[port];
        own.lineage = Lineage::new(events.epoch());
        own.trail = PassedEnds::starting_at(events.next_record());
        (own.events, own.stamps, own.answered) = (events, None, 0);
        self.pending_without(port, now);
        for id in self.sessions.logged_on_ids() {
            // Those that logged on without the partition have nothing of it yet.
            let session = self.sessions.get(id);
            if session.is_some_and(|session| !session.streams[port].is_away) {
                self.end_soon(id, Reason::PartitionAway);
            }
        }
    }

    /// Returns true if no partition can be reached, and each has been away for the lease.
    pub(super) fn is_cut_off(&self) -> bool {
        let mut links = self.ports.iter().filter_map(|port| port.link.as_ref());
        self.is_linked && links.all(|link| link.is_lapsed)
    }

    /// Ends a session that is logged on, at the end of its ports' events so far. It is lost
    /// nowhere: it may come back, here or at another gateway.
    pub(super) fn end_soon(&mut self, id: SessionId, reason: Reason) {
        let session = self.sessions.get_mut(id).filter(|session| session.connection.is_some());
        if let Some(session) = session {
            (session.ending, session.leaves) = (Some(reason), true);
            self.lost_sessions.push(id);
        }
    }

    /// Gives a session's bindings up; On if the session has ended, and not only here.
    pub(super) fn unbind(&mut self, id: SessionId, is_ended: Switch) {
        if !self.is_linked {
            return;
        }
        let taken = self.sessions.get_mut(id).and_then(Session::take_generations);
        let Some((generation, newest)) = taken else { return };
        for port in 0..self.ports.len() {
            self.ask_link(port, LinkAsk::Unbind(id, generation, is_ended));
        }
        self.ask_link(0, LinkAsk::Release(id, newest));
    }

    /// Gives a grant back that no logon uses. That of a session which is logged on stays: control
    /// would give the session to another gateway.
    pub(super) fn release(&mut self, id: SessionId, generation: u64) {
        let session = self.sessions.get_mut(id).filter(|session| session.generation.is_some());
        match session {
            Some(session) => session.claimed = session.claimed.max(generation),
            None => self.ask_link(0, LinkAsk::Release(id, generation)),
        }
    }

    /// Says once that the definitions of the control log have come, and that sessions can be bound:
    /// the other links are open too, or have had their time.
    fn tell_complete(&mut self, now: Nanos) {
        if self.is_complete.is_none() {
            return;
        }
        let opened_at = |port: &Port| port.link.as_ref().and_then(|link| link.complete_at);
        let Some(control) = self.ports.first() else { return };
        let has_definitions =
            opened_at(control).is_some_and(|at| control.events.next_record() >= at);
        if !has_definitions {
            return;
        }
        let waits_since = *self.complete_since.get_or_insert(now);
        let are_open = self.ports.iter().all(|port| opened_at(port).is_some());
        if (are_open || now.since(waits_since).0 >= OTHERS_TIME)
            && let Some(is_complete) = self.is_complete.take()
        {
            // SYNC: pairs with the load in `Newcomers::is_open`: the definitions are in the ring.
            is_complete.store(true, Ordering::Release);
        }
    }
}

/// The answers taken from a link.
#[derive(Clone, Copy)]
pub(super) struct Taken {
    pub(super) count: usize,
    /// True if the port's reader is another one now.
    pub(super) begins_anew: bool,
}
