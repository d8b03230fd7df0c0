//! A venue, a receiver and books, in simulated time over real sockets.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use weir_feed::line::Line;
use weir_marketgate::receiver::{ChannelStatus, FeedSection, Receiver, SnapshotCounts};
use weir_types::Nanos;

use crate::day::Day;
use crate::market::Market;
use crate::snapshot::{NAME, PASSWORD};
use crate::venue::{Faults, Venue};

pub const MICROSECOND: u64 = 1_000;
pub const MILLISECOND: u64 = 1_000 * MICROSECOND;
pub const SECOND: u64 = 1_000 * MILLISECOND;

/// The real-time limit of every wait.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns a multicast group with a port, as a configuration names it, that no other test has: the
/// system may give one free port to two sockets that join groups, and each then has the other's
/// datagrams too.
pub fn own_group() -> String {
    static GROUPS: AtomicU32 = AtomicU32::new(0);
    // SYNC: the value guards no other memory.
    let number = (std::process::id() << 8) + GROUPS.fetch_add(1, Ordering::Relaxed);
    let [_, b, c, d] = number.to_be_bytes();
    format!("239.{}.{c}.{d}:0@127.0.0.1", 64 | b & 0x3f)
}

/// The parts that the receiver is configured with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    pub requests: bool,
    pub snapshots: bool,
    /// Unicast instead of multicast.
    pub unicast: bool,
    pub more: &'static str,
}

pub struct Rig {
    pub venue: Venue,
    pub receiver: Receiver,
    pub market: Market,
    pub clock: u64,
    _dir: tempfile::TempDir,
}

impl Rig {
    pub fn new(day: Day, faults: Faults, parts: Parts) -> Rig {
        let day = Rc::new(day);
        let mut venue = Venue::new(Rc::clone(&day), faults);
        let dir = tempfile::tempdir().expect("a directory");
        let password = dir.path().join("password");
        weir_io::durable::write_file(&password, PASSWORD.as_bytes(), 0o600).expect("it is written");
        let [a, b] = [(); 2].map(|()| match parts.unicast {
            true => "127.0.0.1:0".to_owned(),
            false => own_group(),
        });
        let mut text = format!("name = \"itch\"\n[[lines]]\na = \"{a}\"\nb = \"{b}\"\n");
        if parts.requests {
            text += &format!("request = \"{}\"\n", venue.request_address());
        }
        if parts.snapshots {
            text += &format!(
                "[lines.glimpse]\naddress = \"{}\"\nusername = \"{NAME}\"\npassword_file = {:?}\n\
                 lead_ms = 20\ntimeout_ms = 2000\nreach_timeout_ms = 500\n\
                 retry_min_ms = 10\nretry_max_ms = 80\n",
                venue.soup.address(),
                password
            );
        }
        text += parts.more;
        let section = FeedSection::parse(&text).expect("a configuration");
        let receiver = Receiver::open(&section).expect("it opens");
        venue.lines = receiver.sockets().take(2).map(|(_, socket)| socket.address).collect();
        let market = Market::new(day);
        Rig { venue, receiver, market, clock: 1_700_000_000 * SECOND, _dir: dir }
    }

    pub fn poll(&mut self) -> usize {
        self.receiver.poll(Nanos(self.clock), &mut self.market)
    }

    /// Polls until everything sent over UDP has been received, without advancing the clock.
    pub fn drain(&mut self) {
        let limit = Instant::now() + LIMIT;
        loop {
            self.venue.serve();
            self.poll();
            if self.is_drained() {
                return;
            }
            assert!(Instant::now() < limit, "what was sent did not come: {}", self.counts());
        }
    }

    /// Returns what was sent and received on each path, for a failure to be understood by.
    fn counts(&self) -> String {
        let received = self.receiver.sockets().map(|(_, socket)| {
            format!("{:?} at {}: {:?}", socket.line, socket.address, socket.counts.received)
        });
        let received: Vec<String> = received.collect();
        let Venue { sent, answers_sent, requests_seen, .. } = &self.venue;
        let requests = self.receiver.request_counts();
        format!(
            "sent {sent:?}, answers {answers_sent}, requests {requests_seen} of {requests:?}; {}",
            received.join("; ")
        )
    }

    fn is_drained(&self) -> bool {
        let mut is_drained = true;
        for (_, socket) in self.receiver.sockets() {
            let received = socket.counts.received;
            assert_eq!(received.kernel_drops, Some(0), "the test sends more than fits");
            let sent = match socket.line {
                Line::A => self.venue.sent[0],
                Line::B => self.venue.sent[1],
                Line::Retransmission => self.venue.answers_sent,
            };
            is_drained &= received.datagrams == sent;
        }
        let requests = self.receiver.request_counts();
        is_drained && requests.sent == self.venue.requests_seen
    }

    /// Publishes `count` messages and receives them.
    pub fn publish(&mut self, count: usize) {
        self.venue.publish(count);
        self.drain();
        self.clock += 50 * MICROSECOND;
    }

    /// Publishes all remaining messages, some at a time.
    pub fn publish_all(&mut self) {
        while !self.venue.is_over() {
            self.publish(15);
        }
    }

    /// Advances time, and receives meanwhile.
    pub fn pass(&mut self, time: u64) {
        let end = self.clock + time;
        while self.clock < end {
            self.clock = end.min(self.clock + 200 * MICROSECOND);
            self.drain();
        }
    }

    /// Advances in small steps until `is_so` holds.
    pub fn until(&mut self, what: &str, is_so: impl Fn(&Rig) -> bool) {
        let limit = Instant::now() + LIMIT;
        while !is_so(self) {
            self.clock += 20 * MICROSECOND;
            if self.venue.serve() + self.poll() == 0 {
                // Without work, time advances faster: a busy machine must not prolong the wait.
                self.clock += 180 * MICROSECOND;
                std::thread::yield_now();
            }
            assert!(Instant::now() < limit, "{what}: {:?}", self.receiver.channels().next());
        }
    }

    pub fn channel(&self) -> ChannelStatus {
        self.receiver.channels().next().expect("it was heard")
    }

    pub fn snapshots(&self) -> SnapshotCounts {
        self.receiver.snapshots().next().expect("there is a server").1
    }

    /// Asserts that the books equal those of all published messages and are not marked.
    pub fn assert_equal(&self) {
        assert_eq!(self.market.wrong, 0, "rows that books which were not marked did not equal");
        assert!(!self.market.is_marked);
        let reference = &self.venue.reference.books;
        assert_eq!(self.market.books.digest_all(), reference.digest_all());
        assert_eq!(self.market.books.order_count(), reference.order_count());
        assert!(self.market.is_whole());
    }
}

/// Returns the address of a receiver's line.
pub fn address_of(receiver: &Receiver, line: Line) -> SocketAddr {
    let found = receiver.sockets().find(|(_, socket)| socket.line == line);
    found.expect("there is such a line").1.address
}
