//! The rings between a door and the agent that serves order state: questions one way, pages the
//! other.
//!
//! Each ring has one producer and one consumer (`rtrb`) and is bounded, in number and, for pages,
//! in bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use weir_runtime::Wake;
use weir_wire::delivery::{AddCredit, FetchOrders};

use crate::ConnectionId;

/// Questions that may wait in front of the delivery store.
pub const FETCHES_MAX: usize = 4 * 1024;
/// Pages that may wait in front of a gateway.
pub const PAGES_MAX: usize = 4 * 1024;
/// Bytes of pages that may wait in front of a gateway, beyond the one that is made: ten thousand
/// readers that ask for everything at once wait their turn.
pub const PAGES_BYTES_MAX: usize = 64 << 20;
/// Memory of longer pages is kept for the next ones only while it is a few pieces; that of shorter
/// ones always.
const KEPT_LEN: usize = 16 << 10;
const KEPT_LONG_MAX: usize = 32;

/// A question on its way to the delivery store.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// Who waits for the answer.
    pub connection: ConnectionId,
    /// The question.
    pub fetch: FetchOrders,
    /// Its token.
    pub token: Vec<u8>,
    /// What the store is to have reached; empty for nothing.
    pub min_token: Vec<u8>,
    /// What the session may see.
    pub entitlement: weir_delivery::Entitlement,
}

/// What a gateway tells the delivery store.
#[derive(Clone, Debug)]
pub enum DeliveryRequest {
    /// A question.
    Fetch(Box<Fetch>),
    /// The question of this number is taken back.
    Cancel(ConnectionId, u64),
    /// A question is given more credit.
    AddCredit(ConnectionId, AddCredit),
    /// The connection can take pages again, or cannot.
    Writable(ConnectionId, bool),
    /// The connection is gone.
    Gone(ConnectionId),
}

/// Pages on their way to a gateway: whole frames.
#[derive(Debug)]
pub struct Pages {
    /// For whom.
    pub connection: ConnectionId,
    /// The frames.
    pub bytes: Vec<u8>,
}

/// The gateway's end towards the delivery store.
#[derive(Debug)]
pub struct DeliveryPort {
    requests: Producer<DeliveryRequest>,
    pages: Consumer<Pages>,
    /// Bytes of the pages that wait.
    pages_len: Arc<AtomicUsize>,
    empties: Producer<Vec<u8>>,
    wake: Wake,
    asked: bool,
    /// Notices that found no room: they must not be lost.
    waiting: Vec<DeliveryRequest>,
}

/// The delivery store's end towards the gateway.
#[derive(Debug)]
pub struct GatewayPort {
    requests: Consumer<DeliveryRequest>,
    pages: Producer<Pages>,
    pages_len: Arc<AtomicUsize>,
    empties: Consumer<Vec<u8>>,
    wake: Wake,
}

/// The two ends between a gateway and the delivery store.
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
    /// Hands a question on; false when there is no room.
    #[must_use]
    pub fn ask(&mut self, request: DeliveryRequest) -> bool {
        self.send_waiting();
        let asked = self.waiting.is_empty() && self.requests.push(request).is_ok();
        self.asked |= asked;
        asked
    }

    /// Whether one more question finds room.
    #[must_use]
    pub fn has_room(&mut self) -> bool {
        self.send_waiting();
        self.waiting.is_empty() && self.requests.slots() > 0
    }

    /// Tells whether a connection can take pages.
    pub fn set_writable(&mut self, connection: ConnectionId, writable: bool) {
        self.waiting.push(DeliveryRequest::Writable(connection, writable));
        self.send_waiting();
    }

    /// Tells that a connection is gone.
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

    /// The next pages to pass through.
    pub fn next_pages(&mut self) -> Option<Pages> {
        self.send_waiting();
        let pages = self.pages.pop().ok()?;
        self.pages_len.fetch_sub(pages.bytes.len(), Ordering::Relaxed);
        Some(pages)
    }

    /// Gives a page's memory back for the next one.
    pub fn recycle(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        let kept = self.empties.buffer().capacity() - self.empties.slots();
        if bytes.capacity() <= KEPT_LEN || kept < KEPT_LONG_MAX {
            // No room means that enough empties wait already: this one is freed.
            drop(self.empties.push(bytes));
        }
    }

    /// Wakes the store's thread when it was handed something.
    pub fn wake_if_asked(&mut self) {
        if std::mem::take(&mut self.asked) {
            self.wake.wake();
        }
    }
}

impl GatewayPort {
    /// The next request.
    pub fn next_request(&mut self) -> Option<DeliveryRequest> {
        self.requests.pop().ok()
    }

    /// Whether pages for the gateway find room.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.pages.slots() > 0 && self.pages_len.load(Ordering::Relaxed) < PAGES_BYTES_MAX
    }

    /// Memory for a page's frames.
    pub fn empty(&mut self) -> Vec<u8> {
        self.empties.pop().unwrap_or_default()
    }

    /// Hands frames on; false when there is no room.
    #[must_use]
    pub fn send(&mut self, pages: Pages) -> bool {
        let len = pages.bytes.len();
        // Counted before it can be taken out.
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
