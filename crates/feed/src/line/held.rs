//! Held packets: packets ahead of their turn, sorted by sequence number, bounded, with reused
//! memory.

use std::collections::VecDeque;

use weir_types::Nanos;

use super::Line;

/// The largest buffer, in bytes, that is reused for another packet: no feed's datagrams need more.
const SPARE_BYTES_MAX: usize = 16 << 10;

/// A held packet.
#[derive(Clone, Debug)]
pub(super) struct HeldPacket {
    pub sequence: u64,
    /// The number after its last message.
    pub end: u64,
    pub ts_send: Nanos,
    /// The receive time.
    pub arrived: Nanos,
    pub line: Line,
    pub messages: Vec<u8>,
}

/// A received packet, before it is held or delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceivedPacket<'a> {
    pub sequence: u64,
    pub end: u64,
    pub ts_send: Nanos,
    pub arrived: Nanos,
    pub line: Line,
    pub messages: &'a [u8],
}

/// A range of messages that no held packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MissingRange {
    pub from: u64,
    pub to: u64,
    /// The receive time of the packet that ends it, if there is one.
    pub arrived: Option<Nanos>,
}

/// The held packets of a channel.
// INVARIANT: `packets` is sorted by `sequence`; `bytes` is the sum of their messages' lengths and
// never over `bytes_max`.
#[derive(Clone, Debug)]
pub(super) struct HeldPackets {
    packets: VecDeque<HeldPacket>,
    spare: Vec<Vec<u8>>,
    packets_max: usize,
    bytes: usize,
    bytes_max: usize,
    /// No held packet ends after this number.
    end: u64,
}

impl HeldPackets {
    pub(super) fn new(packets_max: u32, bytes_max: usize) -> HeldPackets {
        let packets_max = (packets_max as usize).max(1);
        HeldPackets {
            packets: VecDeque::with_capacity(packets_max.min(4_096)),
            spare: Vec::new(),
            packets_max,
            bytes: 0,
            bytes_max,
            end: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn front(&self) -> Option<&HeldPacket> {
        self.packets.front()
    }

    /// Returns the receive time of the packet that was received first.
    pub(super) fn earliest(&self) -> Option<Nanos> {
        self.packets.iter().map(|packet| packet.arrived).min()
    }

    pub(super) fn has_room(&self, len: usize) -> bool {
        let bytes = self.bytes.checked_add(len);
        self.packets.len() < self.packets_max && bytes.is_some_and(|bytes| bytes <= self.bytes_max)
    }

    /// Returns how many of the numbers `from..to` are in no held packet.
    pub(super) fn missing_count(&self, from: u64, to: u64) -> u64 {
        if from >= self.end {
            return to.saturating_sub(from);
        }
        let (mut cursor, mut missing) = (from, 0);
        for packet in &self.packets {
            if packet.sequence >= to {
                break;
            }
            missing += packet.sequence.saturating_sub(cursor);
            cursor = cursor.max(packet.end);
        }
        missing + to.saturating_sub(cursor)
    }

    /// Returns the first missing range at or after `from` and before `to`.
    pub(super) fn first_missing(&self, from: u64, to: u64) -> Option<MissingRange> {
        let mut cursor = from;
        for packet in &self.packets {
            if packet.sequence > cursor {
                let (to, arrived) = (packet.sequence.min(to), Some(packet.arrived));
                return (cursor < to).then_some(MissingRange { from: cursor, to, arrived });
            }
            cursor = cursor.max(packet.end);
        }
        (cursor < to).then_some(MissingRange { from: cursor, to, arrived: None })
    }

    /// Adds a packet; the caller has checked `has_room`.
    pub(super) fn insert(&mut self, coming: &ReceivedPacket<'_>) {
        debug_assert!(self.has_room(coming.messages.len()));
        let mut messages = self.spare.pop().unwrap_or_default();
        messages.clear();
        messages.extend_from_slice(coming.messages);
        self.bytes += messages.len();
        self.end = self.end.max(coming.end);
        let at = self.packets.partition_point(|packet| packet.sequence <= coming.sequence);
        let &ReceivedPacket { sequence, end, ts_send, arrived, line, .. } = coming;
        self.packets.insert(at, HeldPacket { sequence, end, ts_send, arrived, line, messages });
    }

    /// Removes the first packet; [`HeldPackets::recycle`] reuses its memory.
    pub(super) fn pop(&mut self) -> Option<HeldPacket> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.messages.len();
        if self.packets.is_empty() {
            self.end = 0;
        }
        Some(packet)
    }

    pub(super) fn recycle(&mut self, packet: HeldPacket) {
        if packet.messages.capacity() <= SPARE_BYTES_MAX {
            self.spare.push(packet.messages);
        }
    }

    pub(super) fn clear(&mut self) {
        while let Some(packet) = self.pop() {
            self.recycle(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coming(sequence: u64, count: u64, messages: &[u8]) -> ReceivedPacket<'_> {
        let (ts_send, arrived) = (Nanos(0), Nanos(sequence));
        ReceivedPacket {
            sequence,
            end: sequence + count,
            ts_send,
            arrived,
            line: Line::A,
            messages,
        }
    }

    #[test]
    fn holes_between_what_waits_are_found_in_their_order() {
        let mut held = HeldPackets::new(10, 100);
        for (sequence, count) in [(20, 5), (10, 5), (13, 4)] {
            held.insert(&coming(sequence, count, b"x"));
        }
        for (from, to, want) in [
            (5, 30, Some((5, 10, Some(Nanos(10))))),
            (5, 8, Some((5, 8, Some(Nanos(10))))),
            (10, 30, Some((17, 20, Some(Nanos(20))))),
            (20, 30, Some((25, 30, None))),
            (20, 25, None),
            (11, 16, None),
        ] {
            let want = want.map(|(from, to, arrived)| MissingRange { from, to, arrived });
            assert_eq!(held.first_missing(from, to), want, "{from}..{to}");
        }
        for (from, to, want) in [(5, 30, 13), (10, 17, 0), (16, 21, 3), (40, 50, 10)] {
            assert_eq!(held.missing_count(from, to), want, "{from}..{to}");
        }
        assert_eq!((held.end, held.earliest()), (25, Some(Nanos(10))));
    }

    #[test]
    fn neither_packets_nor_bytes_go_over_their_bounds_and_memory_comes_back() {
        let mut held = HeldPackets::new(2, 10);
        assert!(held.has_room(10) && !held.has_room(11) && !held.has_room(usize::MAX));
        held.insert(&coming(3, 1, b"12345"));
        assert!(held.has_room(5) && !held.has_room(6));
        held.insert(&coming(2, 1, b"1"));
        assert!(!held.has_room(0), "two packets wait");
        let first = held.pop().expect("two wait");
        assert_eq!((first.sequence, first.messages.as_slice()), (2, &b"1"[..]));
        let memory = first.messages.as_ptr();
        held.recycle(first);
        held.insert(&coming(9, 1, b"7"));
        held.clear();
        assert!(held.has_room(10) && held.front().is_none());
        assert!(held.spare.iter().any(|spare| spare.as_ptr() == memory));
    }
}
