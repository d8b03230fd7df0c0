//! The queue of datagrams from the receiver to the audit writer: a ring of bytes that never blocks
//! the sender.
//!
//! A datagram goes in whole or not at all. A datagram without room is counted and recorded as a gap
//! of its line before the next one that finds room, so that the audit names every hole. One sender,
//! one receiver; nothing is allocated after the start.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rtrb::{Consumer, Producer, RingBuffer};
use weir_feed::capture::Datagram;
use weir_feed::capture::audit::{AuditDatagram, AuditGap, LineNo};
use weir_types::{Nanos, WallOffset};

/// The length of the header of each record in the ring.
const HEAD_LEN: usize = 72;
const KIND_DATAGRAM: u8 = 1;
const KIND_GAP: u8 = 2;
/// Flags of IP version 6 addresses.
const SRC_IS_V6: u8 = 1;
const DST_IS_V6: u8 = 2;

/// The outcome of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum SendOutcome {
    /// The item is in the ring.
    Taken,
    /// There was no room: the item is part of a gap.
    Dropped,
}

/// A record read from the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditRecord<'a> {
    /// A datagram.
    Datagram(AuditDatagram<'a>),
    /// Datagrams dropped for lack of room.
    Gap(AuditGap),
}

/// The backlog and losses of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueFigures {
    /// Datagrams taken into the ring.
    pub taken: u64,
    /// Datagrams dropped for lack of room.
    pub dropped: u64,
    /// Datagrams in the ring.
    pub waiting: u64,
    /// Bytes in the ring.
    pub waiting_bytes: u64,
    /// The time from the poll of the last datagram read to that of the newest in the ring, by the
    /// poller's clock, which never steps.
    pub behind: Nanos,
}

/// The state shared by both ends.
#[derive(Debug, Default)]
struct Shared {
    /// SYNC: written by the sender alone, read for figures; nothing depends on their order.
    taken: AtomicU64,
    dropped: AtomicU64,
    newest_polled: AtomicU64,
    /// Gaps not sent when the sender was dropped.
    left: Mutex<Vec<AuditGap>>,
}

/// The sending end, which never blocks.
#[derive(Debug)]
pub struct AuditSender {
    ring: Producer<u8>,
    shared: Arc<Shared>,
    /// The unsent gap of each line.
    gaps: Vec<AuditGap>,
    /// The number of lines with an unsent gap.
    gap_count: usize,
    /// The distance of the wall clock from the time of polls.
    wall: WallOffset,
}

/// The receiving end, for the writer.
#[derive(Debug)]
pub struct AuditReceiver {
    ring: Consumer<u8>,
    shared: Arc<Shared>,
    /// Assembles a datagram that wraps around the ring's end.
    scratch: Vec<u8>,
    datagrams: u64,
    last_polled: Nanos,
}

/// Creates a ring of `bytes` bytes for datagrams of `lines` lines.
#[must_use]
pub fn audit_queue(bytes: usize, lines: u16) -> (AuditSender, AuditReceiver) {
    let (producer, consumer) = RingBuffer::new(bytes);
    let shared = Arc::new(Shared::default());
    let gaps = (0..lines).map(|line| AuditGap { line: LineNo(line), ..AuditGap::default() });
    let sender = AuditSender {
        ring: producer,
        shared: Arc::clone(&shared),
        gaps: gaps.collect(),
        gap_count: 0,
        wall: WallOffset::default(),
    };
    let scratch = Vec::with_capacity(usize::from(u16::MAX));
    let (datagrams, last_polled) = (0, Nanos(0));
    (sender, AuditReceiver { ring: consumer, shared, scratch, datagrams, last_polled })
}

impl AuditSender {
    /// Notes the distance of the wall clock, by which the audit says when datagrams were polled.
    pub fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.wall = wall;
    }

    /// Sends a datagram of a line, polled at `polled`, of the clock that never steps. Never blocks.
    ///
    /// # Panics
    /// If the line does not exist: lines are the caller's own.
    pub fn send(&mut self, line: LineNo, polled: Nanos, datagram: &Datagram<'_>) -> SendOutcome {
        assert!(usize::from(line.0) < self.gaps.len(), "{line:?} was not named");
        let len = datagram.payload.len();
        let needed = HEAD_LEN + len + self.gap_count * HEAD_LEN;
        if self.ring.cached_slots() < needed && self.ring.slots() < needed {
            return self.drop_one(line, datagram);
        }
        self.put_gaps();
        let mut head = [0; HEAD_LEN];
        head[0] = KIND_DATAGRAM;
        head[1] = put_address(&mut head, 24, 56, datagram.src, SRC_IS_V6)
            | put_address(&mut head, 40, 58, datagram.dst, DST_IS_V6);
        head[2..4].copy_from_slice(&line.0.to_le_bytes());
        // A ring that accepts the datagram is shorter than 2^32.
        head[4..8].copy_from_slice(&(len as u32).to_le_bytes());
        head[8..16].copy_from_slice(&datagram.ts_recv.0.to_le_bytes());
        head[16..24].copy_from_slice(&self.wall.wall_at(polled).0.to_le_bytes());
        head[64..72].copy_from_slice(&polled.0.to_le_bytes());
        self.push(&head);
        self.push(datagram.payload);
        self.shared.newest_polled.store(polled.0, Ordering::Relaxed);
        count(&self.shared.taken);
        SendOutcome::Taken
    }

    /// Sends the unsent gaps if there is room. A sender that has been idle for a while calls this,
    /// so that a gap at the end of a burst does not wait for the next datagram.
    pub fn tell_gaps(&mut self) {
        if self.ring.slots() >= self.gap_count * HEAD_LEN {
            self.put_gaps();
        }
    }

    /// The number of datagrams dropped for lack of room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    #[cold]
    fn drop_one(&mut self, line: LineNo, datagram: &Datagram<'_>) -> SendOutcome {
        let gap = &mut self.gaps[usize::from(line.0)];
        self.gap_count += usize::from(gap.datagrams == 0);
        gap.add(&AuditGap { line, datagrams: 1, from: datagram.ts_recv, to: datagram.ts_recv });
        count(&self.shared.dropped);
        SendOutcome::Dropped
    }

    /// Sends all gaps; there must be room.
    fn put_gaps(&mut self) {
        if self.gap_count == 0 {
            return;
        }
        for index in 0..self.gaps.len() {
            let gap = self.gaps[index];
            if gap.datagrams == 0 {
                continue;
            }
            let mut head = [0; HEAD_LEN];
            head[0] = KIND_GAP;
            head[2..4].copy_from_slice(&gap.line.0.to_le_bytes());
            head[8..16].copy_from_slice(&gap.from.0.to_le_bytes());
            head[16..24].copy_from_slice(&gap.to.0.to_le_bytes());
            head[24..32].copy_from_slice(&gap.datagrams.to_le_bytes());
            self.push(&head);
            self.gaps[index].datagrams = 0;
        }
        self.gap_count = 0;
    }

    fn push(&mut self, bytes: &[u8]) {
        self.ring.push_entire_slice(bytes).expect("there was room for all of it");
    }
}

impl Drop for AuditSender {
    fn drop(&mut self) {
        self.tell_gaps();
        let left = self.gaps.iter().filter(|gap| gap.datagrams > 0).copied();
        // SYNC: the ring is abandoned after this, and the receiver reads `left` only then.
        self.shared.left.lock().unwrap_or_else(PoisonError::into_inner).extend(left);
    }
}

impl AuditReceiver {
    /// Passes up to `most` records to `take`, in order; returns their number.
    pub fn take(&mut self, most: usize, take: &mut dyn FnMut(&AuditRecord<'_>)) -> usize {
        let mut taken = 0;
        while taken < most && self.next(take) {
            taken += 1;
        }
        taken
    }

    fn next(&mut self, take: &mut dyn FnMut(&AuditRecord<'_>)) -> bool {
        let Some(head) = self.head() else { return self.next_left(take) };
        let line = LineNo(u16::from_le_bytes([head[2], head[3]]));
        if head[0] == KIND_GAP {
            let (from, to) = (Nanos(number(&head, 8)), Nanos(number(&head, 16)));
            let gap = AuditGap { line, datagrams: number(&head, 24), from, to };
            take(&AuditRecord::Gap(gap));
            return self.used(HEAD_LEN);
        }
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        // The header is pushed before the payload.
        let Ok(chunk) = self.ring.read_chunk(HEAD_LEN + len) else { return false };
        let (first, second) = chunk.as_slices();
        let payload = match first.get(HEAD_LEN..) {
            Some(start) if start.len() == len => start,
            Some(start) => {
                self.scratch.clear();
                self.scratch.extend_from_slice(start);
                self.scratch.extend_from_slice(second);
                &self.scratch
            }
            None => &second[HEAD_LEN - first.len()..],
        };
        let polled = Nanos(number(&head, 16));
        let src = address(&head, 24, 56, SRC_IS_V6);
        let dst = address(&head, 40, 58, DST_IS_V6);
        let datagram = Datagram { ts_recv: Nanos(number(&head, 8)), src, dst, payload };
        take(&AuditRecord::Datagram(AuditDatagram { line, polled, datagram }));
        chunk.commit_all();
        self.datagrams += 1;
        self.last_polled = Nanos(number(&head, 64));
        true
    }

    /// Returns the next record's header, which stays in the ring.
    fn head(&mut self) -> Option<[u8; HEAD_LEN]> {
        let chunk = self.ring.read_chunk(HEAD_LEN).ok()?;
        let (first, second) = chunk.as_slices();
        let mut head = [0; HEAD_LEN];
        head[..first.len()].copy_from_slice(first);
        head[first.len()..].copy_from_slice(second);
        Some(head)
    }

    fn used(&mut self, len: usize) -> bool {
        self.ring.read_chunk(len).map(|chunk| chunk.commit_all()).is_ok()
    }

    /// Takes a gap that found no room before the sender was dropped.
    fn next_left(&mut self, take: &mut dyn FnMut(&AuditRecord<'_>)) -> bool {
        let gap =
            self.when_given_up(|left, is_empty| if is_empty { left.pop() } else { None }).flatten();
        gap.inspect(|gap| take(&AuditRecord::Gap(*gap))).is_some()
    }

    /// Once the sender is dropped, calls `look` with the unsent gaps and true if the ring is empty.
    fn when_given_up<T>(&self, look: impl FnOnce(&mut Vec<AuditGap>, bool) -> T) -> Option<T> {
        if !self.ring.is_abandoned() {
            return None;
        }
        // SYNC: the sender locked this after its last push and before it abandoned the ring; so the
        // lock makes all of them visible here.
        let mut left = self.shared.left.lock().unwrap_or_else(PoisonError::into_inner);
        Some(look(&mut left, self.ring.is_empty()))
    }

    /// Returns true once the sender is dropped and everything is taken.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.when_given_up(|left, is_empty| is_empty && left.is_empty()).unwrap_or(false)
    }

    /// The backlog and losses of the queue.
    #[must_use]
    pub fn figures(&self) -> QueueFigures {
        let taken = self.shared.taken.load(Ordering::Relaxed);
        let waiting = taken.saturating_sub(self.datagrams);
        let newest = Nanos(self.shared.newest_polled.load(Ordering::Relaxed));
        let is_behind = waiting > 0 && self.datagrams > 0;
        QueueFigures {
            taken,
            dropped: self.shared.dropped.load(Ordering::Relaxed),
            waiting,
            waiting_bytes: self.ring.slots() as u64,
            behind: if is_behind { newest.since(self.last_polled) } else { Nanos(0) },
        }
    }
}

/// Increments a counter that only this thread writes.
fn count(to: &AtomicU64) {
    to.store(to.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

fn number(head: &[u8; HEAD_LEN], at: usize) -> u64 {
    u64::from_le_bytes(*head[at..].first_chunk().expect("the head has it"))
}

fn put_address(
    head: &mut [u8; HEAD_LEN],
    ip_at: usize,
    port_at: usize,
    address: SocketAddr,
    v6: u8,
) -> u8 {
    head[port_at..port_at + 2].copy_from_slice(&address.port().to_le_bytes());
    match address.ip() {
        IpAddr::V4(ip) => {
            head[ip_at..ip_at + 4].copy_from_slice(&ip.octets());
            0
        }
        IpAddr::V6(ip) => {
            head[ip_at..ip_at + 16].copy_from_slice(&ip.octets());
            v6
        }
    }
}

fn address(head: &[u8; HEAD_LEN], ip_at: usize, port_at: usize, v6: u8) -> SocketAddr {
    let port = u16::from_le_bytes([head[port_at], head[port_at + 1]]);
    let ip: [u8; 16] = *head[ip_at..].first_chunk().expect("the head has it");
    let ip = if head[1] & v6 == 0 {
        IpAddr::from([ip[0], ip[1], ip[2], ip[3]])
    } else {
        IpAddr::V6(Ipv6Addr::from(ip))
    };
    SocketAddr::new(ip, port)
}
