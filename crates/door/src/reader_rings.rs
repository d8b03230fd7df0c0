//! The rings between a door and the agent that serves order state: requests one way, pages the
//! other.
//!
//! Each ring has one producer and one consumer (`rtrb`). The number of its entries is limited, and
//! for pages the number of bytes too.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use weir_runtime::Wake;
use weir_wire::delivery::{AddCredit, FetchOrders};

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
    /// Cancels the connection's fetch with this number.
    Cancel(ConnectionId, u64),
    /// Adds credit to a fetch.
    AddCredit(ConnectionId, AddCredit),
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
}

/// The delivery store's end of the rings.
#[derive(Debug)]
pub struct GatewayPort {
    requests: Consumer<DeliveryRequest>,
    pages: Producer<Pages>,
    pages_len: Arc<AtomicUsize>,
    empties: Consumer<Vec<u8>>,
    wake: Wake,
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
    };
    let delivery_end = GatewayPort {
        requests: from_gateway,
        pages: to_gateway,
        pages_len,
        empties: recycled,
        wake: gateway,
    };
    (gateway_end, delivery_end)
}

impl DeliveryPort {
    /// Sends a request; returns false if there is no room.
    #[must_use]
    pub fn ask(&mut self, request: DeliveryRequest) -> bool {
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

    /// Notifies the store that a connection is gone. Never lost.
    pub fn connection_is_gone(&mut self, connection: ConnectionId) {
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

    /// Takes the next pages to write to a connection.
    pub fn next_pages(&mut self) -> Option<Pages> {
        self.send_waiting();
        let pages = self.pages.pop().ok()?;
        self.pages_len.fetch_sub(pages.bytes.len(), Ordering::Relaxed);
        Some(pages)
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
        self.requests.pop().ok()
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

    /// Sends frames; returns false if there is no room.
    #[must_use]
    pub fn send(&mut self, pages: Pages) -> bool {
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
mod tests {
    use super::*;

    fn pages(len: usize) -> Pages {
        Pages { connection: ConnectionId(1), bytes: vec![0; len] }
    }

    #[test]
    fn pages_wait_up_to_a_number_of_bytes_and_what_is_taken_makes_room() {
        let (mut gateway, mut store) = gateway_to_delivery(Wake::new(), Wake::new());
        assert!(store.send(pages(PAGES_BYTES_MAX - 1)) && store.has_room());
        assert!(store.send(pages(1)), "one more finds room");
        assert!(!store.has_room());
        let first = gateway.next_pages().expect("it was sent");
        assert!(store.has_room());
        drop(first);
        assert_eq!(gateway.next_pages().map(|pages| pages.bytes.len()), Some(1));
        assert_eq!(store.pages_len.load(Ordering::Relaxed), 0);
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
