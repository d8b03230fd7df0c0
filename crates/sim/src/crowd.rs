//! The clients and the control importer: they outlive every crash, and send unanswered requests
//! again.
//!
//! A client numbers its requests densely and keeps each until an event answers it. After a crash it
//! sends all unanswered ones again, in order, under their old numbers. Each order has a name that
//! is never reused, by which an order executed twice is detected.

use std::collections::{BTreeMap, BTreeSet};

use weir_io::{Rng, SeededRng};
use weir_partition::handoff::{Feedback, PartitionPort, Submission};
use weir_types::{ClOrdId, OrderId, Position, Reason, RequestNo, SessionId, Switch};
use weir_wire::event::OrderEvent;
use weir_wire::reference::{SessionChoice, SessionLost};
use weir_wire::{Command, Definition, Event, PlainEvent, Request};

use crate::plan::Plan;
use crate::plant::Plant;
use crate::window::Window;
use crate::workload::{
    KnownOrder, OPERATOR, TRADERS, definitions, definitions_with_keys, operate, trade,
};

/// The names per session: more than any run uses.
const NAMES_MAX: u64 = 1_000_000;

/// The most requests of a client in flight: the batch of a cycle must fit in a small segment.
const IN_FLIGHT_MAX: usize = 12;

/// One session's client.
struct Client {
    session_id: SessionId,
    /// All requests ever made, by number.
    sent: BTreeMap<RequestNo, Command>,
    unanswered: BTreeSet<RequestNo>,
    /// The unanswered requests that the node has received, as far as the client knows.
    in_flight: BTreeSet<RequestNo>,
    live: BTreeMap<OrderId, KnownOrder>,
    names: u64,
}

impl Client {
    fn new(session_id: SessionId) -> Client {
        Client {
            session_id,
            sent: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            live: BTreeMap::new(),
            names: 0,
        }
    }

    fn next_no(&self) -> RequestNo {
        self.sent.last_key_value().map_or(RequestNo(1), |(no, _)| no.next())
    }

    fn ask(&mut self, rng: &mut SeededRng) {
        let request_no = self.next_no();
        let request = if self.session_id == OPERATOR {
            operate(rng, request_no)
        } else {
            self.names += 1;
            let number = u64::from(self.session_id.0) * NAMES_MAX + self.names;
            let index = rng.below(self.live.len().max(1) as u64);
            let known = self.live.values().nth(usize::try_from(index).expect("few orders"));
            trade(rng, self.session_id, request_no, ClOrdId::from_number(number), known.copied())
        };
        self.sent.insert(request_no, Command::Request(request));
        self.unanswered.insert(request_no);
    }

    /// Sends a request again under a new number, as a broken client would.
    fn renumber(&mut self, old: RequestNo) {
        let new = self.next_no();
        if let Some(Command::Request(Request::NewOrder(order))) = self.sent.get(&old).copied() {
            let again =
                Request::NewOrder(weir_wire::order_entry::NewOrder { request_no: new, ..order });
            self.sent.insert(new, Command::Request(again));
            self.unanswered.insert(new);
        }
    }

    fn hear(&mut self, event: &Event, request_no: RequestNo) {
        self.unanswered.remove(&request_no);
        self.in_flight.remove(&request_no);
        let Event::Plain(PlainEvent::OrderEvent(e)) = event else { return };
        if e.rec.is_none() {
            return;
        }
        let OrderEvent { order_id, cl_ord_id, instrument_id, .. } = *e;
        if e.ord_status.is_live() {
            self.live.insert(order_id, KnownOrder { order_id, cl_ord_id, instrument_id });
        } else {
            self.live.remove(&order_id);
        }
    }
}

/// All clients, and the control importer.
pub struct Crowd {
    rng: SeededRng,
    clients: Vec<Client>,
    feed: Vec<(Position, Definition)>,
    fed: usize,
    plant: Option<Plant>,
    /// The number of requests refused because the node's log was full.
    pub refused: u64,
}

impl Crowd {
    /// Creates the crowd of `seed`.
    #[must_use]
    pub fn new(seed: u64, plant: Option<Plant>) -> Crowd {
        let mut rng = SeededRng::new(seed, "workload");
        let feed = definitions(&mut rng);
        let sessions = std::iter::once(OPERATOR).chain(TRADERS);
        let clients = sessions.map(Client::new).collect();
        Crowd { rng, clients, feed, fed: 0, plant, refused: 0 }
    }

    /// Creates the record of requests and the control importer of `seed` for clients that are not
    /// the crowd's own.
    #[must_use]
    pub fn beside(seed: u64) -> Crowd {
        let mut crowd = Crowd::new(seed, None);
        let mut rng = SeededRng::new(seed, "definitions");
        crowd.feed = definitions_with_keys(&mut rng);
        crowd
    }

    /// Records a request that another client made.
    pub fn record(&mut self, session_id: SessionId, request_no: RequestNo, command: Command) {
        if let Some(client) = self.clients.iter_mut().find(|c| c.session_id == session_id) {
            client.sent.insert(request_no, command);
        }
    }

    /// Forgets a session's requests up to one that no log holds any more.
    pub fn forget_upto(&mut self, session_id: SessionId, request_no: RequestNo) {
        if let Some(client) = self.clients.iter_mut().find(|c| c.session_id == session_id) {
            client.sent = client.sent.split_off(&request_no.next());
        }
    }

    /// Handles the end of the process: unanswered requests must be sent again.
    pub fn disconnect(&mut self) {
        for client in &mut self.clients {
            client.in_flight.clear();
        }
    }

    /// Discards answers that were lost: the clients' state is rebuilt from `events` alone.
    pub fn forget(&mut self, events: &Window<Vec<u8>>) {
        for client in &mut self.clients {
            client.unanswered = client.sent.keys().copied().collect();
            client.in_flight.clear();
            client.live.clear();
        }
        for record in events.kept() {
            let event = Event::decode(record).expect("it was decoded when it was seen");
            self.hear(&event);
        }
    }

    /// Continues the feed after `position`, the partition's last imported definition.
    pub fn resume_feed(&mut self, position: Position) {
        self.fed = self.feed.iter().filter(|(at, _)| *at <= position).count();
    }

    /// True when the feed has sent everything.
    #[must_use]
    pub fn has_fed(&self) -> bool {
        self.fed == self.feed.len()
    }

    /// The definitions of the control log, in order.
    #[must_use]
    pub fn definitions(&self) -> &[(Position, Definition)] {
        &self.feed
    }

    /// The number of unanswered requests.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.clients.iter().map(|client| client.unanswered.len()).sum()
    }

    /// Returns a session's request by its number.
    #[must_use]
    pub fn asked(&self, session_id: SessionId, request_no: RequestNo) -> Option<&Command> {
        let client = self.clients.iter().find(|client| client.session_id == session_id)?;
        client.sent.get(&request_no)
    }

    /// Lets each client act: new requests, old ones again, and all that are due.
    pub fn act(&mut self, port: &mut PartitionPort, plan: &Plan) {
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            let may_ask = client.unanswered.len() < plan.window;
            if may_ask && self.rng.chance(plan.send_per_mille, 1000) {
                client.ask(&mut self.rng);
            }
            if self.rng.chance(plan.again_per_mille, 1000) && !client.sent.is_empty() {
                self.send_again(index, port);
            }
        }
        if self.rng.chance(1, 300) {
            let which = usize::try_from(self.rng.below(4)).expect("a trader");
            let cancel_on_disconnect = if self.rng.chance(1, 2) { Switch::On } else { Switch::Off };
            let lost = SessionLost { session_id: TRADERS[which], cancel_on_disconnect };
            push(port, Command::SessionLost(lost));
            // It returns at once.
            let choice = SessionChoice { session_id: lost.session_id, cancel_on_disconnect };
            push(port, Command::SessionChoice(choice));
        }
        self.send_due(port);
    }

    /// Sends the requests that are due, and no new ones.
    pub fn send_due(&mut self, port: &mut PartitionPort) {
        for client in &mut self.clients {
            for request_no in &client.unanswered {
                if client.in_flight.len() < IN_FLIGHT_MAX && client.in_flight.insert(*request_no) {
                    push(port, client.sent[request_no]);
                }
            }
        }
    }

    fn send_again(&mut self, index: usize, port: &mut PartitionPort) {
        let client = &mut self.clients[index];
        // Usually one of the latest: the engine remembers their outcomes.
        let back = self.rng.below(client.sent.len().min(20) as u64);
        let request_no = RequestNo(client.next_no().0 - 1 - back);
        if self.plant == Some(Plant::RequestRenumbered) {
            client.renumber(request_no);
        } else if let Some(command) = client.sent.get(&request_no) {
            push(port, *command);
        }
    }

    /// Sends a request that the log holds again under a new number, as a broken recovery would.
    pub fn repeat(&mut self, session_id: SessionId, request_no: RequestNo) {
        if let Some(client) = self.clients.iter_mut().find(|c| c.session_id == session_id) {
            client.renumber(request_no);
        }
    }

    /// Returns the index of the definition that the control importer sends in this step, if it
    /// does.
    pub fn next_to_feed(&mut self) -> Option<usize> {
        let sends = self.fed < self.feed.len() && (self.fed < 13 || self.rng.chance(1, 40));
        sends.then_some(self.fed)
    }

    /// Sends the next definition.
    pub fn feed(&mut self, port: &mut PartitionPort) {
        let (at, definition) = self.feed[self.fed];
        push(port, Command::Import(at, definition));
        self.fed += 1;
    }

    /// Handles the partition's feedback other than events.
    pub fn take_feedback(&mut self, port: &mut PartitionPort) {
        while let Ok(feedback) = port.feedback.pop() {
            let Feedback::Refused { session_id, request_no, reason, .. } = feedback else {
                continue;
            };
            assert_eq!(reason, Reason::LogFull, "a request is refused for want of space only");
            self.refused += 1;
            if let Some(client) = self.clients.iter_mut().find(|c| c.session_id == session_id) {
                client.in_flight.remove(&request_no);
            }
        }
    }

    /// Handles an event.
    pub fn hear(&mut self, event: &Event) {
        let Some((session_id, _)) = event.address() else { return };
        let request_no = match event {
            Event::Plain(PlainEvent::OrderEvent(e)) => e.request_no,
            Event::Plain(PlainEvent::RequestRejected(e)) => e.request_no,
            Event::Plain(PlainEvent::RequestDone(e)) => e.request_no,
            _ => return,
        };
        if let Some(client) = self.clients.iter_mut().find(|c| c.session_id == session_id) {
            client.hear(event, request_no);
        }
    }
}

fn push(port: &mut PartitionPort, command: Command) {
    let pushed = port.submissions.push(Submission::internal(command));
    assert!(pushed.is_ok(), "the ring holds far more than a crowd sends between two cycles");
}
