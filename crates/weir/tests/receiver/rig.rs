//! A venue, a receiver and books, in simulated time over real sockets.

use std::net::SocketAddr;
use std::rc::Rc;
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
        std::fs::write(&password, PASSWORD).expect("it is written");
        let (a, b) = if parts.unicast {
            ("127.0.0.1:0", "127.0.0.1:0")
        } else {
            ("239.77.20.1:0@127.0.0.1", "239.77.20.2:0@127.0.0.1")
        };
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
            assert!(Instant::now() < limit, "what was sent did not come");
        }
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
