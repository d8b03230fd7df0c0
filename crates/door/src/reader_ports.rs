//! The answering agent's ends of the rings to all doors whose connections ask for order state. The
//! agent is a node's delivery agent, or a router. A connection's id contains its door's number,
//! which is the index of the door's ring.

use weir_delivery::PageSink;
use weir_types::{Reason, RequestNo, SessionId};
use weir_wire::Message;
use weir_wire::delivery::FetchOrders;
use weir_wire::frame::put_frame;
use weir_wire::session::{Label, Reject};

use crate::ConnectionId;
use crate::reader_rings::{DeliveryRequest, Fetch, GatewayPort};

/// The rings, by door number. INVARIANT: every door that can send requests has one.
pub struct ReaderPorts(Vec<GatewayPort>);

impl ReaderPorts {
    /// Combines the rings of the gateway and of further doors, in the order of their numbers.
    #[must_use]
    pub fn new(gateway: GatewayPort, others: impl IntoIterator<Item = GatewayPort>) -> ReaderPorts {
        ReaderPorts([gateway].into_iter().chain(others).collect())
    }

    /// Returns the ring for a connection's pages.
    fn of(&mut self, connection: ConnectionId) -> &mut GatewayPort {
        &mut self.0[connection.door().index()]
    }

    fn all(&mut self) -> impl Iterator<Item = &mut GatewayPort> {
        self.0.iter_mut()
    }

    /// Takes the next request of any door.
    pub fn next_request(&mut self) -> Option<DeliveryRequest> {
        self.all().find_map(GatewayPort::next_request)
    }

    /// Returns true if the ring of the connection's door has room for pages.
    pub fn has_room(&mut self, connection: ConnectionId) -> bool {
        self.of(connection).has_room()
    }

    /// Wakes the threads of all doors.
    pub fn wake_all(&mut self) {
        self.all().for_each(|port| port.wake());
    }

    /// Answers a fetch with a `Reject`, such as for lack of room or of a store.
    pub fn refuse(&mut self, fetch: &Fetch, reason: Reason) {
        let port = self.of(fetch.connection);
        let mut bytes = port.empty();
        let reject = Reject {
            request_no: RequestNo(fetch.fetch.correlation_id),
            field: Label::new(""),
            session_id: fetch.fetch.session_id,
            ref_template_id: FetchOrders::TEMPLATE_ID,
            reason,
        };
        put_frame(&reject, &mut bytes);
        // A full ring drops the `Reject`: its gateway has pages to send already.
        let _ = port.send(fetch.connection, fetch.fetch.session_id, bytes);
        port.wake();
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
