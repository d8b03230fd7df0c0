//! The rings between a door and the agent that serves order state: requests one way, pages the
//! other.
//!
//! Each ring has one producer and one consumer (`rtrb`). The number of its entries is limited, and
//! for pages the number of bytes too.
//!
//! INVARIANT: a session that has ended gets no page. The door's end notes each session that
//! fetches; [`DeliveryPort::end_session`] tells the agent, and from then on pages for the session
//! are dropped. A page tells how many ends its agent had taken when it sent it, so that a page of a
//! session's earlier logon is not taken for one of a later logon through the same connection:
//!
//! ```text
//! a page for a session that                                | is
//! ---------------------------------------------------------+-----------------------------------
//! has fetched since its logon, made after its last end     | returned
//! has fetched since its logon, made before its last end    | dropped: of an earlier logon
//! has not fetched since its logon, or is not logged on     | dropped: of an earlier logon
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use weir_runtime::Wake;
use weir_types::SessionId;
use weir_wire::delivery::{AddCredit, CancelFetch, FetchOrders};

use crate::ConnectionId;

/// Requests that may wait for the delivery store.
pub const FETCHES_MAX: usize = 4 * 1024;
/// Pages that may wait for a gateway.
pub const PAGES_MAX: usize = 4 * 1024;
/// Bytes of pages that may wait for a gateway, not counting the page being made. It limits the
/// memory that ten thousand readers who request everything at once can take.
pub const PAGES_BYTES_MAX: usize = 64 << 20;
/// Buffers of up to this capacity, in bytes, are always kept for reuse; larger ones only while
/// fewer than [`KEPT_LONG_MAX`] buffers are kept.
const KEPT_LEN: usize = 16 << 10;
const KEPT_LONG_MAX: usize = 32;

/// A fetch on its way to the delivery store.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// The connection that waits for the answer.
    pub connection: ConnectionId,
    /// The request.
    pub fetch: FetchOrders,
    /// Its token.
    pub token: Vec<u8>,
    /// The token of the position that the store must have reached; empty for none.
    pub min_token: Vec<u8>,
    /// The session's entitlement.
    pub entitlement: weir_delivery::Entitlement,
}

/// A message from a gateway to the delivery store.
#[derive(Clone, Debug)]
pub enum DeliveryRequest {
    /// A fetch.
    Fetch(Box<Fetch>),
    /// Cancels a fetch of the session that it names.
    Cancel(ConnectionId, CancelFetch),
    /// Adds credit to a fetch of the session that it names.
    AddCredit(ConnectionId, AddCredit),
    /// The session is no longer logged on through the connection: its fetches end.
    SessionEnded(ConnectionId, SessionId),
    /// The connection can take pages again (true), or cannot (false).
    Writable(ConnectionId, bool),
    /// The connection is gone.
    Gone(ConnectionId),
}

/// Pages on their way to a gateway: whole frames.
#[derive(Debug)]
pub struct Pages {
    /// The receiving connection.
    pub connection: ConnectionId,
    /// The receiving session.
    pub session_id: SessionId,
    /// The ends of sessions that the agent had taken from this ring when it sent them.
    ends_taken: u64,
    /// The frames.
    pub bytes: Vec<u8>,
}

/// The gateway's end of the rings.
#[derive(Debug)]
pub struct DeliveryPort {
    requests: Producer<DeliveryRequest>,
    pages: Consumer<Pages>,
    /// Bytes of the waiting pages.
    pages_len: Arc<AtomicUsize>,
    empties: Producer<Vec<u8>>,
    wake: Wake,
    asked: bool,
    /// Notices that had no room in the ring; they must not be lost.
    waiting: Vec<DeliveryRequest>,
    /// The sessions that have fetched since their logon, each with the number of ends told before
    /// its first fetch: pages that were sent before the agent had taken so many are not its own.
    readers: BTreeMap<(ConnectionId, SessionId), u64>,
    /// The ends of sessions told so far.
    ends_told: u64,
}

/// The delivery store's end of the rings.
#[derive(Debug)]
pub struct GatewayPort {
    requests: Consumer<DeliveryRequest>,
    pages: Producer<Pages>,
    pages_len: Arc<AtomicUsize>,
    empties: Consumer<Vec<u8>>,
    wake: Wake,
    /// The ends of sessions taken so far.
    ends_taken: u64,
}

/// Creates the rings between a gateway and the delivery store, and returns both ends.
#[must_use]
pub fn gateway_to_delivery(gateway: Wake, delivery: Wake) -> (DeliveryPort, GatewayPort) {
    let (requests, from_gateway) = RingBuffer::new(FETCHES_MAX);
    let (to_gateway, pages) = RingBuffer::new(PAGES_MAX);
    let (empties, recycled) = RingBuffer::new(PAGES_MAX);
    let pages_len = Arc::new(AtomicUsize::new(0));
    let gateway_end = DeliveryPort {
        requests,
        pages,
        pages_len: Arc::clone(&pages_len),
        empties,
        wake: delivery,
        asked: false,
        waiting: Vec::new(),
        readers: BTreeMap::new(),
        ends_told: 0,
    };
    let delivery_end = GatewayPort {
        requests: from_gateway,
        pages: to_gateway,
        pages_len,
        empties: recycled,
        wake: gateway,
        ends_taken: 0,
    };
    (gateway_end, delivery_end)
}

impl DeliveryPort {
    /// Sends a fetch of a session that is logged on; returns false if there is no room.
    #[must_use]
    pub fn fetch(&mut self, fetch: Box<Fetch>) -> bool {
        let reader = (fetch.connection, fetch.fetch.session_id);
        let is_asked = self.ask(DeliveryRequest::Fetch(fetch));
        if is_asked {
            self.readers.entry(reader).or_insert(self.ends_told);
        }
        is_asked
    }

    /// Cancels a session's fetch; returns false if there is no room.
    #[must_use]
    pub fn cancel(&mut self, connection: ConnectionId, cancel: CancelFetch) -> bool {
        self.ask(DeliveryRequest::Cancel(connection, cancel))
    }

    /// Adds credit to a session's fetch; returns false if there is no room.
    #[must_use]
    pub fn add_credit(&mut self, connection: ConnectionId, more: AddCredit) -> bool {
        self.ask(DeliveryRequest::AddCredit(connection, more))
    }

    fn ask(&mut self, request: DeliveryRequest) -> bool {
        self.send_waiting();
        let asked = self.waiting.is_empty() && self.requests.push(request).is_ok();
        self.asked |= asked;
        asked
    }

    /// Returns true if there is room for one more request.
    #[must_use]
    pub fn has_room(&mut self) -> bool {
        self.send_waiting();
        self.waiting.is_empty() && self.requests.slots() > 0
    }

    /// Notifies the store that a connection can take pages, or cannot. Never lost.
    pub fn set_writable(&mut self, connection: ConnectionId, writable: bool) {
        self.waiting.push(DeliveryRequest::Writable(connection, writable));
        self.send_waiting();
    }

    /// Notifies the store that a session is no longer logged on through a connection. Never lost.
    /// No page for the session is returned from now on, until it fetches after a new logon.
    pub fn end_session(&mut self, connection: ConnectionId, session_id: SessionId) {
        if self.readers.remove(&(connection, session_id)).is_none() {
            return;
        }
        self.ends_told += 1;
        self.waiting.push(DeliveryRequest::SessionEnded(connection, session_id));
        self.send_waiting();
    }

    /// Notifies the store that a connection is gone, and so all of its sessions. Never lost.
    pub fn connection_is_gone(&mut self, connection: ConnectionId) {
        let its = (connection, SessionId(0))..=(connection, SessionId(u32::MAX));
        let readers: Vec<_> = self.readers.range(its).map(|(reader, _)| *reader).collect();
        for reader in readers {
            self.readers.remove(&reader);
        }
        self.waiting.push(DeliveryRequest::Gone(connection));
        self.send_waiting();
    }

    fn send_waiting(&mut self) {
        let room = self.requests.slots().min(self.waiting.len());
        for request in self.waiting.drain(..room) {
            assert!(self.requests.push(request).is_ok(), "a ring with room takes one more");
            self.asked = true;
        }
    }

    /// Takes the next pages to write to a connection. Their session is logged on through it.
    pub fn next_pages(&mut self) -> Option<Pages> {
        self.send_waiting();
        loop {
            let pages = self.pages.pop().ok()?;
            self.pages_len.fetch_sub(pages.bytes.len(), Ordering::Relaxed);
            let since = self.readers.get(&(pages.connection, pages.session_id));
            if since.is_some_and(|ends_told| pages.ends_taken >= *ends_told) {
                return Some(pages);
            }
            self.recycle(pages.bytes);
        }
    }

    /// Returns a page's buffer for reuse.
    pub fn recycle(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        let kept = self.empties.buffer().capacity() - self.empties.slots();
        if bytes.capacity() <= KEPT_LEN || kept < KEPT_LONG_MAX {
            // A full ring holds enough empty buffers, so this one is freed.
            drop(self.empties.push(bytes));
        }
    }

    /// Wakes the store's thread if requests were sent since the last call.
    pub fn wake_if_asked(&mut self) {
        if std::mem::take(&mut self.asked) {
            self.wake.wake();
        }
    }
}

impl GatewayPort {
    /// Takes the next request.
    pub fn next_request(&mut self) -> Option<DeliveryRequest> {
        let request = self.requests.pop().ok()?;
        self.ends_taken += u64::from(matches!(request, DeliveryRequest::SessionEnded(..)));
        Some(request)
    }

    /// Returns true if there is room for pages to the gateway.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.pages.slots() > 0 && self.pages_len.load(Ordering::Relaxed) < PAGES_BYTES_MAX
    }

    /// Returns an empty buffer for a page's frames, a reused one if there is one.
    pub fn empty(&mut self) -> Vec<u8> {
        self.empties.pop().unwrap_or_default()
    }

    /// Sends a session's frames; returns false if there is no room.
    #[must_use]
    pub fn send(
        &mut self,
        connection: ConnectionId,
        session_id: SessionId,
        bytes: Vec<u8>,
    ) -> bool {
        let pages = Pages { connection, session_id, ends_taken: self.ends_taken, bytes };
        let len = pages.bytes.len();
        // Counted before the consumer can subtract it.
        self.pages_len.fetch_add(len, Ordering::Relaxed);
        let sent = self.pages.push(pages).is_ok();
        if !sent {
            self.pages_len.fetch_sub(len, Ordering::Relaxed);
        }
        sent
    }

    /// Wakes the gateway's thread.
    pub fn wake(&self) {
        self.wake.wake();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use weir_types::{AccountId, FirmId, InstrumentId, PartitionId, Switch};

    use super::*;

    const HERE: ConnectionId = ConnectionId(1);
    const ALICE: SessionId = SessionId(11);
    const BOB: SessionId = SessionId(12);

    pub(crate) fn fetch(connection: ConnectionId, session_id: SessionId) -> Box<Fetch> {
        let fetch = FetchOrders {
            correlation_id: 9,
            session_id,
            firm_id: FirmId::NONE,
            account_id: AccountId::NONE,
            instrument_id: InstrumentId::NONE,
            rows_max: 0,
            rows_min: 0,
            bytes_max: 0,
            wait_max_us: 0,
            credit: 1,
            live_only: Switch::Off,
            source_id: PartitionId::NONE,
            min_wait_us: 0,
            credit_rows: 0,
            credit_bytes: 0,
        };
        let (token, min_token) = (Vec::new(), Vec::new());
        let entitlement = weir_delivery::Entitlement::all();
        Box::new(Fetch { connection, fetch, token, min_token, entitlement })
    }

    #[test]
    fn pages_wait_up_to_a_number_of_bytes_and_what_is_taken_makes_room() {
        let (mut gateway, mut store) = gateway_to_delivery(Wake::new(), Wake::new());
        assert!(gateway.fetch(fetch(HERE, ALICE)));
        assert!(store.send(HERE, ALICE, vec![0; PAGES_BYTES_MAX - 1]) && store.has_room());
        assert!(store.send(HERE, ALICE, vec![0]), "one more finds room");
        assert!(!store.has_room());
        let first = gateway.next_pages().expect("it was sent");
        assert!(store.has_room());
        drop(first);
        assert_eq!(gateway.next_pages().map(|pages| pages.bytes.len()), Some(1));
        assert_eq!(store.pages_len.load(Ordering::Relaxed), 0);
    }

    /// Sends a page of so many bytes to each session, and returns the sizes of those that arrive.
    fn arrived(gateway: &mut DeliveryPort, store: &mut GatewayPort) -> Vec<usize> {
        for (len, session_id) in [(1, ALICE), (2, BOB)] {
            assert!(store.send(HERE, session_id, vec![0; len]));
        }
        std::iter::from_fn(|| gateway.next_pages().map(|pages| pages.bytes.len())).collect()
    }

    #[test]
    fn a_session_that_has_ended_gets_no_page_and_its_neighbours_do() {
        let (mut gateway, mut store) = gateway_to_delivery(Wake::new(), Wake::new());
        assert!(arrived(&mut gateway, &mut store).is_empty(), "nobody has fetched");
        assert!(gateway.fetch(fetch(HERE, ALICE)) && gateway.fetch(fetch(HERE, BOB)));
        assert_eq!(arrived(&mut gateway, &mut store), [1, 2]);
        gateway.end_session(HERE, ALICE);
        assert_eq!(arrived(&mut gateway, &mut store), [2]);
        // The bytes of the dropped page count no more.
        assert_eq!(store.pages_len.load(Ordering::Relaxed), 0);
        gateway.connection_is_gone(HERE);
        assert!(arrived(&mut gateway, &mut store).is_empty());
        let ends = std::iter::from_fn(|| store.next_request())
            .filter(|request| !matches!(request, DeliveryRequest::Fetch(_)))
            .map(|request| format!("{request:?}"));
        let want = ["SessionEnded(ConnectionId(1), SessionId(11))", "Gone(ConnectionId(1))"];
        assert_eq!(ends.collect::<Vec<_>>(), want, "each end is told once");
    }

    #[test]
    fn a_page_of_an_earlier_logon_is_dropped_until_the_agent_knows_of_the_end() {
        let (mut gateway, mut store) = gateway_to_delivery(Wake::new(), Wake::new());
        assert!(gateway.fetch(fetch(HERE, ALICE)) && gateway.fetch(fetch(HERE, BOB)));
        gateway.end_session(HERE, ALICE);
        assert!(gateway.fetch(fetch(HERE, ALICE)), "after a new logon");
        // The agent takes the requests one by one: two fetches, the end, a fetch.
        for arrives in [&[2][..], &[2], &[2], &[1, 2], &[1, 2]] {
            assert_eq!(arrived(&mut gateway, &mut store), arrives);
            let _ = store.next_request();
        }
    }

    #[test]
    fn an_end_that_finds_the_ring_full_is_told_when_there_is_room() {
        let (mut gateway, mut store) = gateway_to_delivery(Wake::new(), Wake::new());
        while gateway.fetch(fetch(HERE, ALICE)) {}
        gateway.end_session(HERE, ALICE);
        assert!(!gateway.fetch(fetch(HERE, ALICE)), "behind the end, which waits for room");
        let taken = std::iter::from_fn(|| store.next_request()).count();
        assert_eq!(taken, FETCHES_MAX);
        assert!(gateway.next_pages().is_none());
        let end = store.next_request();
        assert!(matches!(end, Some(DeliveryRequest::SessionEnded(HERE, ALICE))), "{end:?}");
    }

    #[test]
    fn the_memory_of_many_long_pages_is_given_back() {
        let (mut gateway, mut store) = gateway_to_delivery(Wake::new(), Wake::new());
        for _ in 0..2 * KEPT_LONG_MAX {
            gateway.recycle(Vec::with_capacity(2 * KEPT_LEN));
        }
        for _ in 0..KEPT_LONG_MAX {
            assert!(store.empty().capacity() >= 2 * KEPT_LEN);
        }
        assert_eq!(store.empty().capacity(), 0, "the others are gone");
        for _ in 0..2 * KEPT_LONG_MAX {
            gateway.recycle(Vec::with_capacity(KEPT_LEN));
        }
        assert!((0..2 * KEPT_LONG_MAX).all(|_| store.empty().capacity() == KEPT_LEN));
    }
}
