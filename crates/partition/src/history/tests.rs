//! The history over a log whose shadow is late: pages come in order, a request whose records are
//! not written yet holds up no other, and deleted records are told as such.

use proptest::collection::vec;
use proptest::prelude::*;
use weir_io::ThreadDisk;
use weir_log::{EventAppend, EventLog, EventLogConfig, TailConfig, TailWriter, tail};
use weir_types::{PartitionId, Position};

use super::*;

/// A partition's events: a tail of a few records, and files that a shadow writes later.
struct World {
    dir: tempfile::TempDir,
    files: EventLog<ThreadDisk>,
    writer: TailWriter,
    reader: EventReader,
    published: u64,
    written: u64,
}

fn bytes_of(record: u64) -> Vec<u8> {
    record.to_le_bytes().repeat(1 + (record % 5) as usize)
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let (writer, handle) = tail(TailConfig { segment_words: 32, segments: 3, first_record: 1 });
        let mut config = EventLogConfig::new(PartitionId(1), 7);
        config.segment_bytes = 16 << 10;
        let disk = ThreadDisk::open(dir.path(), None).unwrap();
        let files = EventLog::open(config, Position(1), disk).unwrap().0;
        let reader = EventReader::new(&handle, dir.path().to_owned(), 1);
        World { dir, files, writer, reader, published: 0, written: 0 }
    }

    fn publish(&mut self, count: u64) {
        for _ in 0..count {
            self.published += 1;
            assert_eq!(self.writer.append(&bytes_of(self.published)), self.published);
        }
        self.writer.publish();
    }

    /// Writes the records up to `last` to the files.
    fn write(&mut self, last: u64) {
        while self.written < last.min(self.published) {
            self.written += 1;
            let taken = self.files.append(Position(self.written), &bytes_of(self.written));
            assert_eq!(taken, EventAppend::Taken);
        }
        self.files.flush_blocking().unwrap();
    }

    fn link(&self) -> (HistoryPort<u32>, History<u32>) {
        link([&self.reader], Wake::new(), Wake::new())
    }
}

fn request(reader: u32, lacking: Lacking) -> HistoryRequest<u32> {
    HistoryRequest { reader, port: 0, number: u64::from(reader), is_urgent: reader == 9, lacking }
}

/// Runs the agent until it has nothing to do; returns the pages' readers and record numbers.
fn pages(port: &mut HistoryPort<u32>, history: &mut History<u32>, at: u64) -> Vec<(u32, Vec<u64>)> {
    while history.do_work(Nanos(at)) > 0 {}
    let mut pages = Vec::new();
    while let Some(page) = port.next_page() {
        for (number, bytes) in page.records.iter() {
            assert_eq!(bytes, bytes_of(number));
        }
        pages.push((page.reader, page.records.iter().map(|(number, _)| number).collect()));
    }
    pages
}

#[test]
fn a_request_that_waits_for_the_shadow_holds_up_no_other() {
    let mut world = World::new();
    world.publish(500);
    world.write(100);
    let (mut port, mut history) = world.link();
    assert!(port.ask(request(1, Lacking::These(vec![150, 160]))));
    assert!(port.ask(request(2, Lacking::From(90))));
    assert!(port.ask(request(3, Lacking::These(vec![3, 77, 140]))));
    // Records 3 and 77 are a page of their own: a page ends before the first record that lacks.
    let got = pages(&mut port, &mut history, 1);
    assert_eq!(got, [(2, (90..=100).collect()), (3, vec![3, 77])]);
    assert_eq!(history.next_deadline(Nanos(1)), Some(Nanos(1 + RETRY_INTERVAL)));
    world.write(155);
    assert_eq!(pages(&mut port, &mut history, 2), [], "it is not tried in every cycle");
    let later = 1 + RETRY_INTERVAL;
    assert_eq!(pages(&mut port, &mut history, later), [(1, vec![150])]);
    assert_eq!(history.next_deadline(Nanos(later)), None);
}

#[test]
fn a_new_request_of_a_reader_takes_the_place_of_its_last_one_and_urgent_ones_go_first() {
    let mut world = World::new();
    world.publish(500);
    world.write(100);
    let (mut port, mut history) = world.link();
    for (reader, first) in [(1, 200), (2, 300), (1, 50), (9, 60)] {
        assert!(port.ask(request(reader, Lacking::These(vec![first]))));
    }
    assert_eq!(pages(&mut port, &mut history, 1), [(9, vec![60]), (1, vec![50])]);
    assert_eq!(history.waiting.len(), 1, "that of reader 2");
}

#[test]
fn a_reader_that_waits_is_told_to_the_shadow() {
    let mut world = World::new();
    world.publish(500);
    let (mut port, mut history) = world.link();
    assert!(port.ask(request(1, Lacking::From(20))));
    assert_eq!(pages(&mut port, &mut history, 1), []);
    assert_eq!(world.reader.wanted_in_files(), 20);
}

#[test]
fn a_deleted_record_is_an_empty_page() {
    let mut world = World::new();
    world.publish(3_000);
    world.write(3_000);
    let mut names: Vec<_> = std::fs::read_dir(world.dir.path())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.ends_with(weir_log::SegmentKind::Event.suffix()))
        .collect();
    names.sort();
    let first_of = |name: &String| name.split_once('-').unwrap().0.parse::<u64>().unwrap();
    let first = names.iter().map(first_of).find(|first| *first > 1).expect("a second segment");
    for name in names.iter().filter(|name| first_of(name) < first) {
        std::fs::remove_file(world.dir.path().join(name)).unwrap();
    }
    let (mut port, mut history) = world.link();
    assert!(port.ask(request(1, Lacking::These(vec![1, first]))));
    assert!(port.ask(request(2, Lacking::These(vec![first]))));
    assert_eq!(pages(&mut port, &mut history, 1), [(1, vec![]), (2, vec![first])]);
}

#[test]
fn pages_are_bounded_in_records_bytes_and_span() {
    let mut world = World::new();
    world.publish(4_000);
    world.write(4_000);
    let (mut port, mut history) = world.link();
    assert!(port.ask(request(1, Lacking::From(1))));
    let got = pages(&mut port, &mut history, 1);
    assert_eq!(got, [(1, (1..=PAGE_RECORDS_MAX as u64).collect())]);
}

#[test]
fn files_that_cannot_be_opened_are_tried_again() {
    let mut world = World::new();
    world.publish(500);
    world.write(500);
    let hidden = world.dir.path().with_extension("hidden");
    std::fs::rename(world.dir.path(), &hidden).unwrap();
    let (mut port, mut history) = world.link();
    assert!(port.ask(request(1, Lacking::These(vec![9]))));
    assert_eq!(pages(&mut port, &mut history, 1), []);
    let _ = std::fs::remove_dir_all(world.dir.path());
    std::fs::rename(&hidden, world.dir.path()).unwrap();
    assert_eq!(pages(&mut port, &mut history, 1 + RETRY_INTERVAL), [(1, vec![9])]);
}

/// An operation on a log and a reader without files.
#[derive(Clone, Debug)]
enum Op {
    Publish(u64),
    Write(u64),
    /// The reader reads at most this many times, and asks for what is missing.
    Read(usize),
    /// The history runs.
    Run,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1..40_u64).prop_map(Op::Publish),
        3 => (1..60_u64).prop_map(Op::Write),
        6 => (1..60_usize).prop_map(Op::Read),
        3 => Just(Op::Run),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A reader without files gets each record once and in order, whatever the history's timing.
    #[test]
    fn a_reader_that_the_history_supplies_misses_nothing(ops in vec(op(), 1..80)) {
        use crate::event_reader::ReadEvent;

        let mut world = World::new();
        let (mut port, mut history) = world.link();
        world.reader.leave_files();
        let (mut have, mut is_asked, mut record) = (0, false, Vec::new());
        let ending = [Op::Write(u64::MAX), Op::Run, Op::Read(9_999)];
        let endings = std::iter::repeat_n(ending, 40).flatten();
        for (at, op) in (1..).zip(ops.into_iter().chain(endings)) {
            match op {
                Op::Publish(count) => world.publish(count),
                Op::Write(count) => world.write(world.written.saturating_add(count)),
                Op::Run => while history.do_work(Nanos(at * RETRY_INTERVAL)) > 0 {},
                Op::Read(times) => {
                    if let Some(page) = port.next_page() {
                        is_asked = false;
                        world.reader.supply(page.records);
                    }
                    for _ in 0..times {
                        match world.reader.next(&mut record) {
                            ReadEvent::Record(number) => {
                                have += 1;
                                prop_assert_eq!((number, &record), (have, &bytes_of(have)));
                            }
                            ReadEvent::Missing => {
                                let lacking = Lacking::From(world.reader.next_record());
                                is_asked = is_asked || port.ask(request(1, lacking));
                                break;
                            }
                            _ => break,
                        }
                    }
                }
            }
        }
        prop_assert_eq!(have, world.published);
    }
}
