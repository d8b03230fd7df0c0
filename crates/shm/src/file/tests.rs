//! Tests of both ends over a file.

use super::*;

const OPTIONS: Options = Options { len: 1 << 12, mode: 0o640 };

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("ring");
    (dir, path)
}

#[test]
fn what_is_written_is_read_by_every_reader_and_the_end_is_told() {
    let (_dir, path) = place();
    let mut writer = Writer::create(&path, &OPTIONS).unwrap();
    let mut readers = [Reader::open(&path).unwrap(), Reader::open(&path).unwrap()];
    let mut record = vec![];
    for number in 0..1_000_u64 {
        writer.write(&number.to_le_bytes()).unwrap();
        for reader in &mut readers {
            assert_eq!(reader.read(&mut record), Read::Record(number));
            assert_eq!(record, number.to_le_bytes());
        }
    }
    assert!(readers[0].has_writer() && readers[1].has_writer());
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!((writer.written(), mode & 0o777), (1_000, 0o640));
    writer.write(b"the last").unwrap();
    drop(writer);
    assert!(!readers[0].has_writer());
    assert_eq!(readers[0].read(&mut record), Read::Record(1_000));
    assert_eq!(readers[0].read(&mut record), Read::Nothing);
    assert!(!path.exists() && !with_suffix(&path, ".new").exists());
}

#[test]
fn who_does_not_read_in_time_is_told_how_much_was_lost() {
    let (_dir, path) = place();
    let mut writer = Writer::create(&path, &OPTIONS).unwrap();
    let mut reader = Reader::open(&path).unwrap();
    let mut record = vec![];
    writer.write(b"first").unwrap();
    assert_eq!(reader.read(&mut record), Read::Record(0));
    for _ in 0..10_000 {
        writer.write(b"lost").unwrap();
    }
    assert_eq!(reader.read(&mut record), Read::Lost);
    assert_eq!(reader.read(&mut record), Read::Nothing);
    writer.write(b"newest").unwrap();
    assert_eq!(reader.read(&mut record), Read::Record(10_001));
    assert_eq!((record.as_slice(), reader.lost()), (&b"newest"[..], 10_000));
}

#[test]
fn one_process_writes_and_what_a_dead_one_left_is_replaced() {
    let (_dir, path) = place();
    let writer = Writer::create(&path, &OPTIONS).unwrap();
    assert!(matches!(Writer::create(&path, &OPTIONS), Err(ShmError::InUse(_))));
    let reader = Reader::open(&path).unwrap();
    // As `kill -9` leaves it: the locks are released, the files remain.
    let Writer { _locked: locked, .. } = &*std::mem::ManuallyDrop::new(writer);
    for file in locked {
        flock(file, FlockOperation::Unlock).unwrap();
    }
    assert!(path.exists());
    assert!(!reader.has_writer());
    fs::write(with_suffix(&path, ".new"), "half made").unwrap();
    let mut next = Writer::create(&path, &OPTIONS).unwrap();
    next.write(b"anew").unwrap();
    assert!(Reader::open(&path).unwrap().has_writer());
    assert!(!reader.has_writer(), "it has the old file");
}

#[test]
fn a_file_of_others_is_neither_replaced_nor_removed() {
    let (_dir, path) = place();
    for bytes in [&b""[..], b"short", b"a thesis of more than eight bytes"] {
        fs::write(&path, bytes).unwrap();
        let refused = Writer::create(&path, &OPTIONS).map(drop);
        assert!(matches!(refused, Err(ShmError::NotARing(_))), "{refused:?}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    // A ring that a killed program of another version left.
    fs::write(&path, b"WEIRSHM9 and its records").unwrap();
    drop(Writer::create(&path, &OPTIONS).unwrap());
}

#[test]
fn what_is_no_ring_is_refused() {
    let (_dir, path) = place();
    assert!(matches!(Reader::open(&path), Err(ShmError::Io { .. })));
    drop(Writer::create(&path, &OPTIONS).unwrap());
    let whole = {
        let _writer = Writer::create(&path, &OPTIONS).unwrap();
        fs::read(&path).unwrap()
    };
    let mut other_magic = whole.clone();
    other_magic[0] ^= 1;
    let mut other_len = whole.clone();
    other_len[8] ^= 1;
    let cut = &whole[..whole.len() - 8];
    let all: [&[u8]; 6] = [b"", b"short", &whole[..4096], cut, &other_magic, &other_len];
    for bytes in all {
        fs::write(&path, bytes).unwrap();
        let opened = Reader::open(&path);
        assert!(matches!(opened, Err(ShmError::NotARing(_))), "{} bytes", bytes.len());
    }
    for len in [0, 1_000, 1_025, 1 << 37] {
        let options = Options { len, ..OPTIONS };
        assert!(matches!(Writer::create(&path, &options), Err(ShmError::Len(_))));
    }
}

#[test]
fn a_reader_s_mapping_cannot_be_written() {
    let (_dir, path) = place();
    let _writer = Writer::create(&path, &OPTIONS).unwrap();
    let reader = Reader::open(&path).unwrap();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let of_ring = || maps.lines().filter(|line| line.ends_with(path.to_str().unwrap()));
    assert!(of_ring().any(|line| line.contains(" r--s ")), "{maps}");
    drop(reader);
}
