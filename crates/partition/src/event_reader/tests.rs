//! Readers of a log that ends epochs while they read and restarts in between, compared with the
//! events that were written: a small ring laps slow readers, so that they read the files too.

use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use weir_io::ThreadDisk;
use weir_log::{EventAppend, EventLog, EventLogConfig, TailConfig, TailWriter, tail_in};
use weir_types::{Nanos, PartitionId, Rec, Seq};
use weir_wire::event::Checkpoint;
use weir_wire::{Event, PlainEvent};

use super::*;

/// A unique event: its epoch, and a count over all events.
type EventKey = (Epoch, u64);

/// An operation on a log and its readers.
#[derive(Clone, Debug)]
enum Op {
    /// A command with this many events.
    Command(u8),
    /// The last commands are lost to an epoch that begins that many after the current one.
    End(usize, u32),
    /// The process starts again, with its readers.
    Restart,
    /// A reader reads at most this many times.
    Read(usize, usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..4_u8).prop_map(Op::Command),
        3 => (0..9_usize, 1..4_u32).prop_map(|(lost, skipped)| Op::End(lost, skipped)),
        1 => Just(Op::Restart),
        5 => (0..2_usize, 1..12_usize).prop_map(|(who, times)| Op::Read(who, times)),
    ]
}

fn record_of(position: u64, count: u64) -> Vec<u8> {
    let mut record = Vec::new();
    let event = Checkpoint {
        position: Position(position),
        transact_time: Nanos(1),
        digest: count,
        seq: Seq(0),
        rec: Rec(0),
        partition_id: PartitionId(1),
    };
    Event::Plain(PlainEvent::Checkpoint(event)).encode(&mut record);
    record
}

fn digest_of(record: &[u8]) -> u64 {
    match Event::decode(record) {
        Ok(Event::Plain(PlainEvent::Checkpoint(event))) => event.digest,
        other => panic!("{other:?} was never written"),
    }
}

/// A log with its files, and the written-out history.
struct World {
    dir: tempfile::TempDir,
    files: Option<EventLog<ThreadDisk>>,
    writer: TailWriter,
    handle: TailHandle,
    /// The surviving commands, each with its events.
    commands: Vec<Vec<EventKey>>,
    /// All recorded ends, oldest first.
    ended: Vec<(Epoch, Position)>,
    epoch: Epoch,
    count: u64,
}

fn tail_of(epochs: Epochs<Position>, first_record: u64) -> (TailWriter, TailHandle) {
    tail_in(TailConfig { segment_words: 32, segments: 3, first_record }, epochs)
}

fn open_files(dir: &Path) -> EventLog<ThreadDisk> {
    let mut config = EventLogConfig::new(PartitionId(1), 7);
    config.segment_bytes = 16 << 10;
    let disk = ThreadDisk::open(dir, None).unwrap();
    EventLog::open(config, Position(1), disk).unwrap().0
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let (writer, handle) = tail_of(Epochs::new(Epoch(1)), 1);
        World {
            files: Some(open_files(dir.path())),
            dir,
            writer,
            handle,
            commands: Vec::new(),
            ended: Vec::new(),
            epoch: Epoch(1),
            count: 0,
        }
    }

    fn events(&self) -> Vec<EventKey> {
        self.commands.concat()
    }

    fn reader(&self) -> Reader {
        let events = EventReader::new(&self.handle, self.dir.path().to_owned(), 1);
        Reader { epoch: events.epoch(), past: events.past(), events, have: Vec::new() }
    }

    fn command(&mut self, events: u8) {
        let position = self.commands.len() as u64 + 1;
        let mut told = Vec::new();
        let files = self.files.as_mut().expect("they are open");
        for _ in 0..events {
            self.count += 1;
            told.push((self.epoch, self.count));
            let record = record_of(position, self.count);
            let number = self.writer.append(&record);
            assert_eq!(files.append(Position(number), &record), EventAppend::Taken);
        }
        self.writer.publish();
        self.commands.push(told);
    }

    /// Writes all events to the files, as a shadow does before a reader may be lapped.
    fn flush(&mut self) {
        self.files.as_mut().expect("they are open").flush_blocking().unwrap();
    }

    fn end(&mut self, lost: usize, skipped: u32) {
        self.commands.truncate(self.commands.len().saturating_sub(lost));
        let last_valid = Position(self.commands.len() as u64);
        let kept = self.events().len() as u64;
        let files = self.files.take().expect("they are open");
        self.files = Some(files.cut_after(Position(kept)).unwrap());
        self.ended.push((self.epoch, last_valid));
        self.epoch = Epoch(self.epoch.0 + skipped);
        self.writer.end_epoch(last_valid, self.epoch, kept + 1);
    }

    fn restart(&mut self) {
        self.files.take().expect("they are open").close().unwrap();
        self.files = Some(open_files(self.dir.path()));
        let first = self.events().len() as u64 + 1;
        let epochs = Epochs::with_ended(self.epoch, self.ended.iter().copied());
        (self.writer, self.handle) = tail_of(epochs, first);
    }
}

/// A reader, and the history as it was told.
struct Reader {
    events: EventReader,
    past: PastEvents,
    epoch: Epoch,
    have: Vec<EventKey>,
}

impl Reader {
    /// Reads at most `times` times; returns true once there is nothing new.
    fn read(&mut self, times: usize) -> bool {
        let mut record = Vec::new();
        for _ in 0..times {
            match self.events.next(&mut record) {
                ReadEvent::Record(number) => {
                    assert_eq!(number, self.have.len() as u64 + 1, "the numbers are dense");
                    self.have.push((self.epoch, digest_of(&record)));
                }
                ReadEvent::EpochEnded(change) => {
                    assert_eq!(change.ended.epoch, self.epoch, "epochs end in order");
                    let kept = change.first_again as usize - 1;
                    let taken_back = self.have.len() as u64 - kept as u64;
                    assert_eq!(change.taken_back, taken_back, "{change:?}");
                    self.have.truncate(kept);
                    self.epoch = change.next;
                }
                ReadEvent::UpToDate => return true,
                ReadEvent::Missing => panic!("the files are flushed before a read"),
            }
        }
        false
    }

    fn check(&mut self, world: &World) {
        assert!(self.read(10_000), "it never ends");
        assert_eq!(self.have, world.events());
        assert!(self.events.has_told_ends());
        assert_eq!((self.epoch, self.events.epoch()), (world.epoch, world.epoch));
        let mut record = Vec::new();
        for (number, told) in (1..).zip(&self.have) {
            assert_eq!(self.past.read_at(number, &mut record), PastRead::Found);
            assert_eq!(digest_of(&record), told.1, "old record {number}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_reader_has_the_events_that_survive_each_in_its_epoch(ops in vec(op(), 1..60)) {
        let mut world = World::new();
        let mut readers = [world.reader(), world.reader()];
        for op in ops {
            match op {
                Op::Command(events) => world.command(events),
                Op::End(lost, skipped) => world.end(lost, skipped),
                Op::Read(who, times) => {
                    world.flush();
                    let _ = readers[who].read(times);
                }
                Op::Restart => {
                    world.restart();
                    readers = [world.reader(), world.reader()];
                }
            }
        }
        world.flush();
        for reader in &mut readers {
            reader.check(&world);
        }
        world.reader().check(&world);
    }
}

#[test]
fn ends_that_a_view_knows_are_not_told_again() {
    let mut world = World::new();
    for (commands, lost) in [(12, 2), (20, 22), (0, 0)] {
        (0..commands).for_each(|_| world.command(1));
        world.end(lost, 1);
    }
    (0..6).for_each(|_| world.command(1));
    world.restart();
    // A store's snapshot of record 5 knows no end, one of record 9 knows those of epochs 1 to 3.
    for (next, epoch, told) in [(6, 1, vec![9, 9, 9]), (10, 4, vec![])] {
        let mut reader = world.reader();
        reader.events.skip_to(next, Epoch(epoch));
        let mut record = Vec::new();
        let mut ends = Vec::new();
        loop {
            match reader.events.next(&mut record) {
                ReadEvent::EpochEnded(change) => ends.push(change.first_again),
                ReadEvent::Record(_) => {}
                ReadEvent::UpToDate | ReadEvent::Missing => break,
            }
        }
        assert_eq!((ends, reader.events.next_record()), (told, 15), "from record {next}");
    }
}

#[test]
#[should_panic(expected = "took back records")]
fn a_view_that_cannot_take_records_back_stops_the_process() {
    let mut world = World::new();
    (0..5).for_each(|_| world.command(1));
    world.flush();
    let (mut reader, mut record) = (world.reader(), Vec::new());
    while reader.events.next_of_any_epoch(&mut record).is_some() {}
    world.end(1, 1);
    let _ = reader.events.next_of_any_epoch(&mut record);
}

#[test]
fn a_record_that_is_neither_in_memory_nor_in_the_files_is_missing_and_not_the_end() {
    let mut world = World::new();
    let mut reader = world.reader();
    (0..100).for_each(|_| world.command(1));
    let mut record = Vec::new();
    // Nothing is written to the files yet, and the tail holds fewer than a hundred.
    assert_eq!(reader.events.next(&mut record), ReadEvent::Missing);
    assert_eq!(reader.past.read_at(1, &mut record), PastRead::Missing);
    assert_eq!(reader.past.read_at(0, &mut record), PastRead::Deleted, "there is none");
    assert_eq!((world.handle.wanted_in_files(), reader.events.next_record()), (1, 1));
    world.flush();
    reader.check(&world);
}
