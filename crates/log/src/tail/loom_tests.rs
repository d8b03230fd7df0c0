//! Every interleaving of a reader with a writer that laps it or ends its epoch, explored by loom:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p weir-log --lib loom`.

use super::*;

/// Returns a ring of two segments with one record each, so that the third record overwrites the
/// first.
fn smallest() -> (TailWriter, TailHandle) {
    tail(TailConfig { segment_words: 2, segments: 2, first_record: 0 })
}

fn value(number: u64) -> [u8; 8] {
    (number * 11 + 1).to_le_bytes()
}

/// Reads once; the result must be the record of that number or nothing.
fn read_once(reader: &mut TailReader, buf: &mut Vec<u8>) {
    match reader.next(buf) {
        TailRead::Record(number) => assert_eq!(*buf, value(number)),
        TailRead::Empty => {}
        TailRead::Lapped { oldest } => {
            assert!(oldest > reader.next_record());
            let _ = reader.seek(oldest);
        }
    }
}

#[test]
fn loom_a_reader_never_sees_a_mixture_of_records() {
    // Limited to three preemptions, which all known bugs of this kind need at most, to run in
    // seconds.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (mut writer, handle) = smallest();
        writer.append(&value(0));
        writer.publish();
        let mut reader = handle.reader_from_oldest();
        let thread = loom::thread::spawn(move || {
            let mut buf = Vec::new();
            read_once(&mut reader, &mut buf);
            read_once(&mut reader, &mut buf);
        });
        for number in 1..3 {
            writer.append(&value(number));
            writer.publish();
        }
        thread.join().unwrap();
    });
}

#[test]
fn loom_a_new_reader_stands_at_a_records_beginning() {
    loom::model(|| {
        let (mut writer, handle) = smallest();
        let thread = loom::thread::spawn(move || {
            let mut reader = handle.reader();
            read_once(&mut reader, &mut Vec::new());
        });
        for number in 0..2 {
            writer.append(&value(number));
            writer.publish();
        }
        thread.join().unwrap();
    });
}

#[test]
fn loom_a_published_record_is_whole() {
    loom::model(|| {
        let (mut writer, handle) =
            tail(TailConfig { segment_words: 4, segments: 2, first_record: 0 });
        let mut reader = handle.reader();
        let thread = loom::thread::spawn(move || {
            let mut buf = Vec::new();
            if let TailRead::Record(number) = reader.next(&mut buf) {
                assert_eq!(number, 0);
                assert_eq!(buf, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
            }
        });
        writer.append(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        writer.publish();
        thread.join().unwrap();
    });
}

/// The records of a ring that never laps, without files behind it.
struct RingRecords {
    handle: TailHandle,
    tail: TailReader,
}

impl Records for RingRecords {
    fn read(&mut self, number: u64, into: &mut Vec<u8>) -> RecordRead {
        if self.tail.next_record() != number && self.tail.seek(number) != Seek::Done {
            return RecordRead::None;
        }
        match self.tail.next(into) {
            TailRead::Record(record) => {
                assert_eq!(record, number, "the numbers are dense");
                RecordRead::Found
            }
            TailRead::Empty => RecordRead::None,
            TailRead::Lapped { .. } => panic!("the ring never laps here"),
        }
    }

    /// The commands that the models lose have no positions of their own: ends are told by numbers.
    fn position_of(_record: &[u8]) -> Position {
        Position(0)
    }

    fn reopen(&mut self) {
        self.tail = self.handle.reader();
    }
}

/// A record that names its epoch and its number.
fn record_of(epoch: u32, number: u64) -> [u8; 8] {
    (u64::from(epoch) << 32 | number).to_le_bytes()
}

/// A view: the reader of events, and the records so far, without those that were taken back.
struct Follower {
    reader: EpochReader<RingRecords>,
    have: Vec<[u8; 8]>,
}

impl Follower {
    fn new(handle: TailHandle) -> Follower {
        let (tail, epochs) = handle.reader_with_epochs();
        let records = RingRecords { handle, tail };
        Follower { reader: EpochReader::new(records, epochs, 0), have: Vec::new() }
    }

    /// Takes one end of an epoch or one record, which must be of the epoch that the reader is in
    /// even if it is taken back later; false when there is neither.
    fn step(&mut self) -> bool {
        let mut buf = Vec::new();
        match self.reader.next(&mut buf) {
            ReadEvent::Record(number) => {
                assert_eq!(number, self.have.len() as u64, "the numbers are dense");
                assert_eq!(buf, record_of(self.reader.epoch().0, number), "of another epoch");
                self.have.push(buf.try_into().unwrap());
            }
            ReadEvent::EpochEnded(change) => {
                let next = self.have.len() as u64 - change.taken_back;
                self.have.truncate(usize::try_from(next).unwrap());
            }
            ReadEvent::UpToDate | ReadEvent::Missing => return false,
        }
        true
    }
}

/// Explores a follower that is created and reads twice while the writer ends an epoch of `count`
/// records behind record `first_again`, and that then reads the rest.
fn check_end(count: u64, first_again: u64) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let config = TailConfig { segment_words: 8, segments: 2, first_record: 0 };
        let (mut writer, handle) = tail(config);
        for number in 0..count {
            writer.append(&record_of(1, number));
        }
        writer.publish();
        let thread = loom::thread::spawn(move || {
            let mut follower = Follower::new(handle);
            for _ in 0..2 {
                let _ = follower.step();
            }
            follower
        });
        writer.end_epoch(Position(first_again), Epoch(2), first_again);
        assert_eq!(writer.append(&record_of(2, first_again)), first_again);
        writer.publish();
        let mut follower = thread.join().unwrap();
        while follower.step() {}
        let kept = (0..first_again).map(|number| record_of(1, number));
        let history: Vec<_> = kept.chain([record_of(2, first_again)]).collect();
        assert_eq!(follower.have, history);
    });
}

/// With one record the follower's second read may meet the first record of the next epoch while
/// the writer publishes it; with two it may not.
#[test]
fn loom_an_epochs_end_comes_before_the_first_record_of_the_next() {
    check_end(1, 1);
    check_end(2, 2);
}

#[test]
fn loom_records_that_an_end_takes_back_are_replaced_for_every_reader() {
    check_end(2, 1);
    check_end(2, 0);
}

/// A loss that reaches back behind the end of an epoch before: the earlier epoch ends there too.
/// The follower is created and reads once meanwhile, and then reads the rest.
#[test]
fn loom_a_later_loss_carries_the_end_of_an_earlier_epoch_back() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let config = TailConfig { segment_words: 8, segments: 2, first_record: 0 };
        let (mut writer, handle) = tail(config);
        writer.append(&record_of(1, 0));
        writer.publish();
        let thread = loom::thread::spawn(move || {
            let mut follower = Follower::new(handle);
            let _ = follower.step();
            follower
        });
        writer.end_epoch(Position(1), Epoch(2), 1);
        writer.append(&record_of(2, 1));
        writer.publish();
        writer.end_epoch(Position(0), Epoch(3), 0);
        assert_eq!(writer.append(&record_of(3, 0)), 0);
        writer.publish();
        let mut follower = thread.join().unwrap();
        while follower.step() {}
        assert_eq!(follower.have, [record_of(3, 0)]);
    });
}
