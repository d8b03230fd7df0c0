//! The answering agent's ends of the rings to all doors whose connections ask for order state. The
//! agent is a node's delivery agent, or a router. A connection's id contains its door's number,
//! which is the index of the door's ring.

use std::collections::VecDeque;

use weir_delivery::PageSink;
use weir_types::{Reason, RequestNo, SessionId};
use weir_wire::Message;
use weir_wire::delivery::FetchOrders;
use weir_wire::frame::put_frame;
use weir_wire::session::{Label, Reject};

use crate::ConnectionId;
use crate::reader_rings::{DeliveryRequest, Fetch, GatewayPort};

/// The rings, by door number. INVARIANT: every door that can send requests has one.
pub struct ReaderPorts {
    doors: Vec<DoorPort>,
    /// The door that is looked at first for the next request: each in turn, so that no door's
    /// requests wait behind all of another's.
    turn: usize,
}

struct DoorPort {
    ring: GatewayPort,
    /// Answers that found the ring full. A reader without an answer waits for ever, so none is
    /// dropped; and no request is taken from the door until they are sent, so that they are few.
    refusals: VecDeque<Refusal>,
}

struct Refusal {
    connection: ConnectionId,
    session_id: SessionId,
    bytes: Vec<u8>,
}

impl DoorPort {
    /// Sends the waiting refusals; returns false if some still wait.
    fn send_refusals(&mut self) -> bool {
        while let Some(Refusal { connection, session_id, bytes }) = self.refusals.pop_front() {
            if !self.ring.has_room() {
                self.refusals.push_front(Refusal { connection, session_id, bytes });
                return false;
            }
            let is_sent = self.ring.send(connection, session_id, bytes);
            assert!(is_sent, "there was room");
            self.ring.wake();
        }
        true
    }

    fn next_request(&mut self) -> Option<DeliveryRequest> {
        if self.send_refusals() { self.ring.next_request() } else { None }
    }
}

impl ReaderPorts {
    /// Combines the rings of the gateway and of further doors, in the order of their numbers.
    #[must_use]
    pub fn new(gateway: GatewayPort, others: impl IntoIterator<Item = GatewayPort>) -> ReaderPorts {
        let rings = [gateway].into_iter().chain(others);
        let doors = rings.map(|ring| DoorPort { ring, refusals: VecDeque::new() }).collect();
        ReaderPorts { doors, turn: 0 }
    }

    /// Returns the ring for a connection's pages.
    fn of(&mut self, connection: ConnectionId) -> &mut GatewayPort {
        &mut self.doors[connection.door().index()].ring
    }

    /// Takes the next request of any door.
    pub fn next_request(&mut self) -> Option<DeliveryRequest> {
        for _ in 0..self.doors.len() {
            self.turn = (self.turn + 1) % self.doors.len();
            if let Some(request) = self.doors[self.turn].next_request() {
                return Some(request);
            }
        }
        None
    }

    /// Returns true if answers wait for room: their door tells nobody when it has some.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        self.doors.iter().any(|door| !door.refusals.is_empty())
    }

    /// Returns true if the ring of the connection's door has room for pages.
    pub fn has_room(&mut self, connection: ConnectionId) -> bool {
        self.of(connection).has_room()
    }

    /// Wakes the threads of all doors.
    pub fn wake_all(&mut self) {
        self.doors.iter().for_each(|door| door.ring.wake());
    }

    /// Answers a fetch with a `Reject`, such as for lack of room or of a store.
    pub fn refuse(&mut self, fetch: &Fetch, reason: Reason) {
        let door = &mut self.doors[fetch.connection.door().index()];
        let mut bytes = door.ring.empty();
        let reject = Reject {
            request_no: RequestNo(fetch.fetch.correlation_id),
            field: Label::new(""),
            session_id: fetch.fetch.session_id,
            ref_template_id: FetchOrders::TEMPLATE_ID,
            reason,
        };
        put_frame(&reject, &mut bytes);
        let (connection, session_id) = (fetch.connection, fetch.fetch.session_id);
        door.refusals.push_back(Refusal { connection, session_id, bytes });
        door.send_refusals();
    }
}

/// The frames of one session that are being collected.
#[derive(Debug)]
pub struct Collected {
    connection: ConnectionId,
    session_id: SessionId,
    bytes: Vec<u8>,
}

/// Collects a session's frames and sends them to its connection's door.
pub struct PageSender<'a> {
    /// The rings.
    pub ports: &'a mut ReaderPorts,
    /// Connections without room for output.
    pub paused: &'a [ConnectionId],
    /// Connections whose pages had no room in the ring.
    pub blocked: &'a mut Vec<ConnectionId>,
    /// The frames of the session served last, not sent yet.
    pub current: Option<Collected>,
}

impl PageSender<'_> {
    /// Sends the collected frames. To be called after the last page.
    ///
    /// # Panics
    /// Never: [`PageSink::buffer`] checks for room before a page is made.
    pub fn send_current(&mut self) {
        if let Some(Collected { connection, session_id, bytes }) = self.current.take()
            && !bytes.is_empty()
        {
            let is_sent = self.ports.of(connection).send(connection, session_id, bytes);
            assert!(is_sent, "room was found before the page was made");
        }
    }
}

impl PageSink for PageSender<'_> {
    fn buffer(&mut self, connection: u64, session_id: SessionId) -> Option<&mut Vec<u8>> {
        let connection = ConnectionId(connection);
        if self.paused.contains(&connection) {
            return None;
        }
        let is_its =
            |pages: &Collected| (pages.connection, pages.session_id) == (connection, session_id);
        if !self.current.as_ref().is_some_and(is_its) {
            self.send_current();
            let port = self.ports.of(connection);
            if !port.has_room() {
                self.blocked.push(connection);
                return None;
            }
            self.current = Some(Collected { connection, session_id, bytes: port.empty() });
        }
        self.current.as_mut().map(|pages| &mut pages.bytes)
    }
}

#[cfg(test)]
mod tests {
    use weir_runtime::Wake;

    use super::*;
    use crate::DoorNo;
    use crate::reader_rings::tests::fetch;
    use crate::reader_rings::{DeliveryPort, PAGES_MAX, gateway_to_delivery};

    const ALICE: SessionId = SessionId(11);

    fn two_doors() -> (DeliveryPort, DeliveryPort, ReaderPorts) {
        let (gateway, first) = gateway_to_delivery(Wake::new(), Wake::new());
        let (web, second) = gateway_to_delivery(Wake::new(), Wake::new());
        (gateway, web, ReaderPorts::new(first, [second]))
    }

    fn next_fetch(ports: &mut ReaderPorts) -> Option<Box<Fetch>> {
        match ports.next_request()? {
            DeliveryRequest::Fetch(fetch) => Some(fetch),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_refusal_that_finds_its_ring_full_is_sent_when_there_is_room() {
        let (mut gateway, _web, mut ports) = two_doors();
        let connection = ConnectionId::new(1, 1);
        (0..3).for_each(|_| assert!(gateway.fetch(fetch(connection, ALICE))));
        let first = next_fetch(&mut ports).expect("it was asked");
        for _ in 0..PAGES_MAX {
            assert!(ports.of(connection).send(connection, ALICE, vec![0]));
        }
        ports.refuse(&first, Reason::Overloaded);
        assert!(ports.has_waiting());
        assert!(ports.next_request().is_none(), "no more of this door's until it is sent");
        assert_eq!(gateway.next_pages().map(|pages| pages.bytes), Some(vec![0]));
        assert!(next_fetch(&mut ports).is_some() && !ports.has_waiting());
        let last = std::iter::from_fn(|| gateway.next_pages()).last();
        assert!(last.is_some_and(|pages| pages.bytes.len() > 1), "the refusal comes behind them");
    }

    #[test]
    fn doors_take_turns() {
        let (mut gateway, mut web, mut ports) = two_doors();
        let (here, there) = (ConnectionId::new(1, 1), ConnectionId::at(DoorNo::WEB, 1));
        for _ in 0..10 {
            assert!(gateway.fetch(fetch(here, ALICE)) && web.fetch(fetch(there, ALICE)));
        }
        let first: Vec<_> = (0..4).map(|_| next_fetch(&mut ports).unwrap().connection).collect();
        assert!(first == [there, here, there, here], "{first:?}");
    }
}
