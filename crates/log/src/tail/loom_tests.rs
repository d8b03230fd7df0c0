//! Every interleaving of a reader and a writer that laps it, explored by loom: `RUSTFLAGS="--cfg
//! loom" cargo test --release -p weir-log --lib loom`.

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
