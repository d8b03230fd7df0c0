//! The rings of all doors whose connections ask for order state, as the agent that answers sees
//! them: the delivery agent of a node, or a router. A connection's id names its door, and a door's
//! number is the index of its ring.

use weir_delivery::PageSink;
use weir_types::{Reason, RequestNo};
use weir_wire::Message;
use weir_wire::delivery::FetchOrders;
use weir_wire::frame::put_frame;
use weir_wire::session::{Label, Reject};

use crate::ConnectionId;
use crate::reader_rings::{DeliveryRequest, Fetch, GatewayPort, Pages};

/// The rings, by the number of the door. INVARIANT: there is one for every door that can ask.
pub struct ReaderPorts(Vec<GatewayPort>);

impl ReaderPorts {
    /// The rings of the gateway and of further doors, in the order of their numbers.
    #[must_use]
    pub fn new(gateway: GatewayPort, others: impl IntoIterator<Item = GatewayPort>) -> ReaderPorts {
        ReaderPorts([gateway].into_iter().chain(others).collect())
    }

    /// The ring that a connection's pages go to.
    fn of(&mut self, connection: ConnectionId) -> &mut GatewayPort {
        &mut self.0[connection.door().index()]
    }

    fn all(&mut self) -> impl Iterator<Item = &mut GatewayPort> {
        self.0.iter_mut()
    }

    /// The next request.
    pub fn next_request(&mut self) -> Option<DeliveryRequest> {
        self.all().find_map(GatewayPort::next_request)
    }

    /// Whether a connection's pages find room in its ring.
    pub fn has_room(&mut self, connection: ConnectionId) -> bool {
        self.of(connection).has_room()
    }

    /// Wakes those that pages were made for.
    pub fn wake_all(&mut self) {
        self.all().for_each(|port| port.wake());
    }

    /// Answers a question that there is no room for, or no store.
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
        // A gateway whose ring is full of pages has what it needs to find that out itself.
        let _ = port.send(Pages { connection: fetch.connection, bytes });
        port.wake();
    }
}

/// Collects a connection's frames and hands them on.
pub struct PageSender<'a> {
    /// The rings.
    pub ports: &'a mut ReaderPorts,
    /// Connections that can take nothing.
    pub paused: &'a [ConnectionId],
    /// Connections whose pages found the ring full.
    pub blocked: &'a mut Vec<ConnectionId>,
    /// The frames of the connection that was served last.
    pub current: Option<Pages>,
}

impl PageSender<'_> {
    /// Hands on what is collected: to be called at the end.
    ///
    /// # Panics
    /// Never: room was found before the page was made.
    pub fn send_current(&mut self) {
        if let Some(pages) = self.current.take()
            && !pages.bytes.is_empty()
        {
            let port = self.ports.of(pages.connection);
            assert!(port.send(pages), "room was found before the page was made");
        }
    }
}

impl PageSink for PageSender<'_> {
    fn buffer(&mut self, connection: u64) -> Option<&mut Vec<u8>> {
        let connection = ConnectionId(connection);
        if self.paused.contains(&connection) {
            return None;
        }
        if self.current.as_ref().is_none_or(|pages| pages.connection != connection) {
            self.send_current();
            let port = self.ports.of(connection);
            if !port.has_room() {
                self.blocked.push(connection);
                return None;
            }
            self.current = Some(Pages { connection, bytes: port.empty() });
        }
        self.current.as_mut().map(|pages| &mut pages.bytes)
    }
}
