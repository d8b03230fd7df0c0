//! A partition's events on their way into the event tail.
//!
//! A command may cause any number of events: an uncrossing trades with every order of a book. The
//! tail holds the newest events alone, and a view that keeps pace must not be overtaken by a single
//! command. So a cycle publishes at most a quarter of the tail, and the rest of a larger command's
//! events waits here for later cycles, one quarter per [`PART_INTERVAL`], while the partition
//! applies no further command.
//!
//! INVARIANT: events enter the tail in the order in which they happened.

use std::collections::VecDeque;

use weir_engine::EventSink;
use weir_log::tail::TailWriter;
use weir_types::{Epoch, Nanos, Position};
use weir_wire::Event;

use crate::plant::{self, Plant};

/// The time in nanoseconds between two parts of a command's events: 20 ms. Views read a quarter of
/// the usual 64 MiB meanwhile, and the four parts that the tail holds are there for 80 ms.
const PART_INTERVAL: u64 = 20_000_000;

/// Encodes events into the tail.
pub(crate) struct Outbox {
    tail: TailWriter,
    bytes: Vec<u8>,
    /// The bytes of a part.
    part_bytes: usize,
    /// The bytes that may still enter the tail before the next part is due.
    room: usize,
    /// Events that wait, by parts: each part's memory is freed when it has entered the tail.
    backlog: VecDeque<Part>,
    /// The time of the next part.
    next_part: Nanos,
}

/// Events that wait together.
#[derive(Default)]
struct Part {
    bytes: Vec<u8>,
    /// The end of each event in `bytes`.
    ends: Vec<usize>,
}

impl Outbox {
    /// Returns an outbox before its first event.
    pub(crate) fn new(tail: TailWriter) -> Outbox {
        let part_bytes = tail.size_bytes() / 4;
        Outbox {
            tail,
            bytes: Vec::with_capacity(1024),
            part_bytes,
            room: part_bytes,
            backlog: VecDeque::new(),
            next_part: Nanos(0),
        }
    }

    /// Begins a cycle: it has room for a part. A part that waits enters the tail when it is due;
    /// returns true if one did.
    pub(crate) fn begin_cycle(&mut self, now: Nanos) -> bool {
        if self.has_backlog() && now < self.next_part {
            return false;
        }
        self.room = self.part_bytes;
        self.next_part = Nanos(now.0 + PART_INTERVAL);
        let Some(part) = self.backlog.pop_front() else { return false };
        let mut start = 0;
        for end in part.ends {
            self.tail.append(&part.bytes[start..end]);
            start = end;
        }
        self.room = 0;
        true
    }

    /// Returns true, and counts it, when an event of this length has room in this cycle.
    fn takes(&mut self, length: usize) -> bool {
        let length = in_tail(length).min(self.part_bytes);
        let has_room = length <= self.room;
        self.room -= if has_room { length } else { 0 };
        has_room || plant::is(Plant::CommandUndivided)
    }

    /// Adds the encoded event to those that wait.
    fn put_back(&mut self) {
        let is_full = |part: &Part| {
            part.bytes.len() + in_tail(self.bytes.len()) + 16 * part.ends.len() > self.part_bytes
        };
        if self.backlog.back().is_none_or(is_full) {
            self.backlog.push_back(Part::default());
        }
        let part = self.backlog.back_mut().expect("there is one");
        part.bytes.extend_from_slice(&self.bytes);
        part.ends.push(part.bytes.len());
    }

    /// Returns true while events of the newest command wait.
    pub(crate) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Returns the time at which events that wait enter the tail.
    pub(crate) fn due(&self) -> Option<Nanos> {
        self.has_backlog().then_some(self.next_part)
    }

    /// Makes the events in the tail visible to the views.
    pub(crate) fn publish(&mut self) {
        self.tail.publish();
    }

    /// Returns the number of events in the tail since the log began.
    pub(crate) fn event_count(&self) -> u64 {
        self.tail.next_record() - 1
    }

    /// Ends the log's epoch behind the events in the tail.
    pub(crate) fn end_epoch(&mut self, last_valid: Position, next: Epoch) {
        assert!(!self.has_backlog(), "an epoch ends behind all events of its last command");
        let next_record = self.tail.next_record();
        self.tail.end_epoch(last_valid, next, next_record);
    }
}

impl EventSink for Outbox {
    fn event(&mut self, event: &Event) {
        self.bytes.clear();
        event.encode(&mut self.bytes);
        if !self.has_backlog() && self.takes(self.bytes.len()) {
            self.tail.append(&self.bytes);
            return;
        }
        self.put_back();
    }
}

/// Returns an upper bound of the bytes of a record in the tail: it has a header of eight bytes and
/// is padded.
fn in_tail(length: usize) -> usize {
    length + 16
}

#[cfg(test)]
mod tests {
    use weir_log::tail::{TailConfig, TailHandle, TailRead, tail};
    use weir_types::{PartitionId, Rec, Seq};
    use weir_wire::PlainEvent;
    use weir_wire::event::Checkpoint;

    use super::*;

    fn event(count: u64) -> Event {
        Event::Plain(PlainEvent::Checkpoint(Checkpoint {
            position: Position(1),
            transact_time: Nanos(1),
            digest: count,
            seq: Seq(0),
            rec: Rec(0),
            partition_id: PartitionId(1),
        }))
    }

    fn outbox() -> (Outbox, TailHandle) {
        let (writer, handle) =
            tail(TailConfig { segment_words: 512, segments: 4, first_record: 1 });
        (Outbox::new(writer), handle)
    }

    #[test]
    fn no_reader_that_keeps_pace_is_overtaken_by_a_single_command() {
        let (mut outbox, handle) = outbox();
        let (mut reader, mut record, mut read) = (handle.reader(), Vec::new(), 0);
        // Ten times as many events as the tail holds.
        let count = 10 * 4 * 512 * 8 / 64;
        assert!(!outbox.begin_cycle(Nanos(1)), "nothing waits yet");
        (0..count).for_each(|number| outbox.event(&event(number)));
        let mut cycles = 0;
        loop {
            outbox.publish();
            loop {
                match reader.next(&mut record) {
                    TailRead::Record(number) => {
                        read += 1;
                        assert_eq!(number, read);
                        let Ok(Event::Plain(PlainEvent::Checkpoint(event))) =
                            Event::decode(&record)
                        else {
                            panic!("another event than was written");
                        };
                        assert_eq!(event.digest, read - 1);
                    }
                    TailRead::Empty => break,
                    TailRead::Lapped { oldest } => panic!("lapped at {read}: {oldest}"),
                }
            }
            let Some(due) = outbox.due() else { break };
            cycles += 1;
            assert!(!outbox.begin_cycle(Nanos(due.0 - 1)), "a part waits for its time");
            assert_eq!(outbox.event_count(), read);
            assert!(outbox.begin_cycle(due));
        }
        assert_eq!(read, count);
        assert!(cycles >= 30, "{cycles} parts");
    }

    #[cfg(feature = "planted")]
    #[test]
    fn the_planted_bug_of_a_command_that_is_not_divided_is_found() {
        let test = no_reader_that_keeps_pace_is_overtaken_by_a_single_command;
        assert!(plant::is_found(Plant::CommandUndivided, test));
    }

    #[test]
    fn commands_with_few_events_wait_for_nothing() {
        let (mut outbox, _handle) = outbox();
        for now in 1..1_000 {
            assert!(!outbox.begin_cycle(Nanos(now)));
            (0..20).for_each(|number| outbox.event(&event(number)));
            assert_eq!((outbox.due(), outbox.event_count()), (None, now * 20));
        }
    }
}
