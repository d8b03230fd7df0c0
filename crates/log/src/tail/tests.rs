//! Tests of the tail on one thread and on several; sizes are small, so that Miri can run them.

use super::*;

fn small(segments: usize) -> (TailWriter, TailHandle) {
    tail(TailConfig { segment_words: 16, segments, first_record: 5 })
}

/// Returns the bytes of a record: its number, repeated to its length.
fn record(number: u64) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take((number * 7 % 60) as usize).collect()
}

#[test]
fn records_come_back_in_order_once_published() {
    let (mut writer, handle) = small(64);
    let mut reader = handle.reader();
    let mut buf = Vec::new();
    for number in 5..40 {
        assert_eq!(writer.append(&record(number)), number);
    }
    assert_eq!(reader.next(&mut buf), TailRead::Empty);
    writer.publish();
    assert_eq!(reader.lag(), 35);
    for number in 5..40 {
        assert_eq!(reader.next(&mut buf), TailRead::Record(number));
        assert_eq!(buf, record(number));
    }
    assert_eq!(reader.next(&mut buf), TailRead::Empty);
    assert_eq!((reader.lag(), reader.next_record()), (0, 40));
}

#[test]
fn a_lapped_reader_learns_where_it_can_go_on() {
    let (mut writer, handle) = small(3);
    let mut reader = handle.reader();
    for number in 5..200 {
        writer.append(&record(number));
        writer.publish();
    }
    let mut buf = Vec::new();
    let TailRead::Lapped { oldest } = reader.next(&mut buf) else { panic!("not lapped") };
    assert!(oldest > 5 && oldest < 200);
    assert_eq!(reader.next_record(), 5, "a lapped reader stays where it is");
    assert_eq!(reader.seek(oldest), Seek::Done);
    for number in oldest..200 {
        assert_eq!(reader.next(&mut buf), TailRead::Record(number));
        assert_eq!(buf, record(number));
    }
    assert_eq!(reader.next(&mut buf), TailRead::Empty);
}

#[test]
fn every_retained_record_can_be_sought_and_no_other() {
    let (mut writer, handle) = small(8);
    for number in 5..150 {
        writer.append(&record(number));
    }
    writer.publish();
    let mut reader = handle.reader_from_oldest();
    let oldest = reader.next_record();
    let mut buf = Vec::new();
    for number in (oldest..150).rev() {
        assert_eq!(reader.seek(number), Seek::Done);
        assert_eq!(reader.next(&mut buf), TailRead::Record(number));
        assert_eq!(buf, record(number));
    }
    assert_eq!(reader.seek(oldest - 1), Seek::Lapped { oldest });
    assert_eq!(reader.seek(151), Seek::Ahead { next: 150 });
    assert_eq!(reader.seek(150), Seek::Done);
    assert_eq!(reader.next(&mut buf), TailRead::Empty);
}

#[test]
fn a_seek_walks_over_one_block_wherever_the_record_is() {
    let (mut writer, handle) = tail(TailConfig { segment_words: 64, segments: 4, first_record: 5 });
    for number in 5..400 {
        writer.append(&record(number));
    }
    writer.publish();
    let oldest = handle.reader_from_oldest().next_record();
    for number in oldest..400 {
        let mut reader = handle.reader();
        let segment = reader.segment_of(number).expect("it is retained");
        assert_eq!(reader.seek_segment(segment), Seek::Done);
        reader.seek_block(segment, number);
        let mut words = 0;
        while reader.record < number {
            let HeaderRead::Header(header) = reader.next_header() else { panic!("it is retained") };
            assert_ne!(header, SKIP, "the block is in the record's segment");
            words += 1 + header.div_ceil(8);
            (reader.at, reader.record) = (reader.at + 1 + header.div_ceil(8), reader.record + 1);
        }
        // The block's own words, and those of its last record behind it.
        assert!(words <= BLOCK_WORDS + 8, "record {number}: {words} words walked over");
    }
}

#[test]
fn seekers_on_other_threads_find_the_record_or_learn_that_it_is_gone() {
    let records = if cfg!(miri) { 200 } else { 100_000 };
    let (mut writer, handle) = small(4);
    let seekers: Vec<_> = (1..3)
        .map(|stride| {
            let handle = handle.clone();
            std::thread::spawn(move || {
                let (mut reader, mut buf, mut found) = (handle.reader(), Vec::new(), 0u64);
                while handle.next_record() < records {
                    let wanted = handle.next_record().saturating_sub(found % (7 * stride)).max(5);
                    match reader.seek(wanted) {
                        Seek::Done => match reader.next(&mut buf) {
                            TailRead::Record(number) => {
                                assert_eq!((number, &buf), (wanted, &record(wanted)));
                                found += 1;
                            }
                            TailRead::Empty => std::thread::yield_now(),
                            TailRead::Lapped { oldest } => assert!(oldest > wanted),
                        },
                        Seek::Lapped { oldest } => assert!(oldest > wanted),
                        Seek::Ahead { next } => assert!(next <= wanted),
                    }
                }
            })
        })
        .collect();
    for number in 5..=records {
        writer.append(&record(number));
        writer.publish();
        if number % 100 == 0 {
            std::thread::yield_now();
        }
    }
    seekers.into_iter().for_each(|seeker| seeker.join().expect("it finds what is there"));
}

#[test]
fn records_as_long_as_a_segment_pass() {
    let (mut writer, handle) = small(2);
    let mut reader = handle.reader();
    let mut buf = Vec::new();
    for (number, length) in (5..).zip([120, 0, 120, 119, 113, 8, 1, 120]) {
        let bytes = vec![number as u8; length];
        writer.append(&bytes);
        writer.publish();
        assert_eq!(reader.next(&mut buf), TailRead::Record(number));
        assert_eq!(buf, bytes);
    }
}

#[test]
fn a_new_reader_sees_only_what_comes_after() {
    let (mut writer, handle) = small(4);
    writer.append(b"before");
    writer.publish();
    let mut reader = handle.reader();
    assert_eq!((reader.next_record(), handle.next_record()), (6, 6));
    writer.append(b"after");
    writer.publish();
    let mut buf = Vec::new();
    assert_eq!(reader.next(&mut buf), TailRead::Record(6));
    assert_eq!(buf, b"after");
}

#[test]
fn readers_on_other_threads_see_whole_records_or_are_lapped() {
    let records = if cfg!(miri) { 300 } else { 200_000 };
    let (mut writer, handle) = small(4);
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let mut reader = handle.reader();
            std::thread::spawn(move || {
                let mut buf = Vec::new();
                let (mut seen, mut lapped) = (0u64, 0u64);
                while reader.next_record() < records {
                    match reader.next(&mut buf) {
                        TailRead::Record(number) => {
                            assert_eq!(buf, record(number));
                            seen += 1;
                        }
                        TailRead::Empty => std::thread::yield_now(),
                        TailRead::Lapped { oldest } => {
                            assert!(oldest > reader.next_record());
                            lapped += 1;
                            let _ = reader.seek(oldest);
                        }
                    }
                }
                (seen, lapped)
            })
        })
        .collect();
    for number in 5..records {
        writer.append(&record(number));
        if number % 3 == 0 {
            writer.publish();
        }
        if number % 1_000 == 0 {
            std::thread::yield_now();
        }
    }
    writer.publish();
    for reader in readers {
        let (seen, _) = reader.join().unwrap();
        assert!(seen > 0);
    }
}
