//! Tests of the ring against a model, with real threads, and under loom.

use super::*;

/// A ring in this process's memory.
struct Area {
    intent: AtomicU64,
    tail: AtomicU64,
    words: Vec<AtomicU64>,
}

impl Area {
    fn new(words: usize) -> Area {
        let words = (0..words).map(|_| AtomicU64::new(0)).collect();
        Area { intent: AtomicU64::new(0), tail: AtomicU64::new(0), words }
    }

    fn cells(&self) -> Cells<'_> {
        Cells { intent: &self.intent, tail: &self.tail, words: &self.words }
    }
}

/// Explores a ring of 16 words that holds six records of two words each, without bytes; three more
/// are written while a reader at position `at` reads.
#[cfg(loom)]
fn explore(at: u64) {
    use loom::sync::Arc;

    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let area = Arc::new(Area::new(16));
        let mut writer = RingWriter::default();
        for _ in 0..6 {
            writer.write(area.cells(), &[]).expect("it fits");
        }
        let mut expected = at / 2;
        let mut reader = RingReader { at, next: Some(expected), is_behind: false, lost: 0 };
        let writing = {
            let area = Arc::clone(&area);
            loom::thread::spawn(move || {
                for _ in 0..3 {
                    writer.write(area.cells(), &[]).expect("it fits");
                }
            })
        };
        let mut out = Vec::new();
        for _ in 0..4 {
            match reader.read(area.cells(), &mut out) {
                Read::Record(sequence) => {
                    assert_eq!(sequence, expected);
                    expected += 1;
                }
                Read::Nothing | Read::Lost => break,
                Read::Broken => panic!("a torn record was not noticed"),
            }
        }
        writing.join().expect("it writes");
    });
}

#[cfg(loom)]
#[test]
fn loom_a_record_that_is_written_over_is_told_as_lost() {
    explore(0);
}

#[cfg(loom)]
#[test]
fn loom_a_record_that_is_new_is_whole() {
    explore(12);
}

#[cfg(not(loom))]
mod in_one_process {
    use std::collections::VecDeque;
    use std::sync::atomic::AtomicBool;

    use proptest::prelude::*;

    use super::*;

    fn bytes_of(sequence: u64, len: usize) -> Vec<u8> {
        let mut state = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..len)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect()
    }

    #[test]
    fn a_record_of_any_length_comes_out_as_it_went_in() {
        let area = Area::new(1 << 10);
        let (mut writer, mut out) = (RingWriter::default(), vec![]);
        let mut reader = RingReader::new(area.cells());
        let max = area.cells().record_len_max();
        assert_eq!(max, (1 << 10) - 16);
        for len in 0..=max {
            let bytes = bytes_of(writer.sequence(), len);
            writer.write(area.cells(), &bytes).unwrap();
            let want = Read::Record(writer.sequence() - 1);
            assert_eq!(reader.read(area.cells(), &mut out), want);
            assert_eq!(out, bytes);
            assert_eq!(reader.read(area.cells(), &mut out), Read::Nothing);
        }
        let long = vec![0; max + 1];
        let refused = writer.write(area.cells(), &long);
        assert_eq!(refused, Err(TooLong { len: max + 1, max }));
        assert_eq!(reader.read(area.cells(), &mut out), Read::Nothing);
    }

    #[test]
    fn who_comes_late_reads_what_is_written_from_then_on() {
        let area = Area::new(64);
        let (mut writer, mut out) = (RingWriter::default(), vec![]);
        for _ in 0..100 {
            writer.write(area.cells(), b"before").unwrap();
        }
        let mut reader = RingReader::new(area.cells());
        assert_eq!(reader.read(area.cells(), &mut out), Read::Nothing);
        writer.write(area.cells(), b"after").unwrap();
        assert_eq!(reader.read(area.cells(), &mut out), Read::Record(100));
        assert_eq!((out.as_slice(), reader.lost()), (&b"after"[..], 0));
    }

    #[test]
    fn what_is_being_written_over_is_not_read() {
        let area = Area::new(64);
        let (mut writer, mut out) = (RingWriter::default(), vec![]);
        let mut reader = RingReader::new(area.cells());
        for _ in 0..16 {
            // Four words each: they fill the ring.
            writer.write(area.cells(), b"sixteen bytes 16").unwrap();
        }
        assert_eq!(area.intent.load(Ordering::Relaxed), 64);
        assert_eq!(area.tail.load(Ordering::Relaxed), 64);
        // The writer has announced the next record and not begun to write it.
        area.intent.store(68, Ordering::Relaxed);
        assert_eq!(reader.read(area.cells(), &mut out), Read::Lost);
        let mut late = RingReader { at: 4, next: Some(1), is_behind: false, lost: 0 };
        assert_eq!(late.read(area.cells(), &mut out), Read::Record(1), "that stands still");
    }

    #[test]
    fn a_fast_writer_and_a_reader_account_for_every_record() {
        const COUNT: u64 = 100_000;
        let area = Area::new(256);
        let is_over = AtomicBool::new(false);
        let (mut read, mut lost, mut last) = (0_u64, 0, None);
        std::thread::scope(|scope| {
            let mut reader = RingReader { at: 0, next: Some(0), is_behind: false, lost: 0 };
            scope.spawn(|| {
                let mut writer = RingWriter::default();
                for sequence in 0..COUNT {
                    let bytes = bytes_of(sequence, (sequence % 100) as usize);
                    writer.write(area.cells(), &bytes).unwrap();
                    // Provokes both cases: a reader that keeps up and one that is overtaken.
                    if sequence % 1_000 < 100 {
                        std::thread::yield_now();
                    }
                }
                is_over.store(true, Ordering::Release);
            });
            let mut out = vec![];
            loop {
                let is_last = is_over.load(Ordering::Acquire);
                match reader.read(area.cells(), &mut out) {
                    Read::Record(sequence) => {
                        assert_eq!(out, bytes_of(sequence, (sequence % 100) as usize));
                        (read, last) = (read + 1, Some(sequence));
                    }
                    Read::Nothing if is_last => break,
                    Read::Nothing => std::thread::yield_now(),
                    Read::Lost => {}
                    Read::Broken => panic!("at {last:?}"),
                }
            }
            lost = reader.lost();
        });
        assert_eq!(read + lost, last.map_or(0, |last| last + 1));
        assert!(read > 0);
    }

    proptest! {
        #[test]
        fn a_reader_gets_what_a_queue_of_the_newest_would_give(
            steps in prop::collection::vec((0_usize..140, 0_usize..6), 1..400),
            is_large in any::<bool>(),
        ) {
            let words = if is_large { 1 << 8 } else { 1 << 7 };
            let area = Area::new(words);
            let max = area.cells().record_len_max();
            let (mut writer, mut out) = (RingWriter::default(), vec![]);
            let mut reader = RingReader::new(area.cells());
            let mut unread: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
            let (mut got, mut lost) = (0, 0);
            for (len, reads) in steps {
                let bytes = bytes_of(writer.sequence(), len.min(max));
                unread.push_back((writer.sequence(), bytes.clone()));
                writer.write(area.cells(), &bytes).unwrap();
                for _ in 0..reads {
                    match reader.read(area.cells(), &mut out) {
                        Read::Nothing => prop_assert!(unread.is_empty()),
                        Read::Record(sequence) => {
                            let (want, bytes) = unread.pop_front().expect("there is one");
                            prop_assert_eq!((sequence, &out), (want, &bytes));
                            got += 1;
                        }
                        Read::Lost => {
                            // The unread records must have exceeded the ring.
                            let held: usize =
                                unread.iter().map(|(_, bytes)| 2 + bytes.len().div_ceil(8)).sum();
                            prop_assert!(held + max / 8 + 2 > words, "{} of {}", held, words);
                            lost += unread.len() as u64;
                            unread.clear();
                        }
                        Read::Broken => prop_assert!(false, "it is whole"),
                    }
                }
            }
            writer.write(area.cells(), &[]).unwrap();
            if unread.is_empty() {
                prop_assert_eq!(reader.read(area.cells(), &mut out), Read::Record(got + lost));
                // Losses before the first record do not count.
                prop_assert!(reader.lost() == lost || got == 0);
            }
        }

        #[test]
        fn no_memory_makes_a_reader_panic_or_read_outside(
            words in prop::collection::vec(
                prop_oneof![0_u64..40, any::<u64>(), Just(EMPTY)], 64),
            (intent, tail, at) in (0_u64..300, 0_u64..300, 0_u64..300),
            is_wild in any::<bool>(),
            wild in any::<[u64; 3]>(),
        ) {
            let [intent, tail, at] = if is_wild { wild } else { [intent, tail, at] };
            let area = Area {
                intent: AtomicU64::new(intent),
                tail: AtomicU64::new(tail),
                words: words.into_iter().map(AtomicU64::new).collect(),
            };
            let mut reader = RingReader { at, next: None, is_behind: false, lost: 0 };
            let mut out = vec![];
            for _ in 0..100 {
                if let Read::Record(_) = reader.read(area.cells(), &mut out) {
                    prop_assert!(out.len() <= area.cells().record_len_max());
                }
            }
        }
    }
}
