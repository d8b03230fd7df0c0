//! Tests: files written and read back, whole, cut off and compressed.

use std::fs;
use std::io::{Cursor, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use weir_feed::capture::{CaptureError, Datagram};
use weir_types::Nanos;

use super::super::Datagrams;
use super::*;

fn written(path: &Path, count: u32) {
    let mut writer = CaptureWriter::create(path).expect("a new file");
    for number in 0..count {
        let payload = number.to_le_bytes().repeat(number as usize % 300);
        writer
            .write(&Datagram {
                ts_recv: Nanos(1_000_000_000 + u64::from(number)),
                src: "10.0.0.1:9".parse().expect("an address"),
                dst: "239.1.2.3:4567".parse().expect("an address"),
                payload: &payload,
            })
            .expect("it is written");
    }
    writer.finish().expect("it ends");
}

/// Returns the number of datagrams that can be read, and the error that ended the reading.
fn read(file: &mut CaptureFile) -> (u32, Option<FileError>) {
    let mut count = 0_u32;
    loop {
        let more = file.next(&mut |item| {
            let Item::Datagram(datagram) = item else { panic!("{item:?}") };
            assert_eq!(datagram.ts_recv, Nanos(1_000_000_000 + u64::from(count)));
            assert_eq!(datagram.payload, count.to_le_bytes().repeat(count as usize % 300));
            count += 1;
        });
        match more {
            Ok(true) => {}
            Ok(false) => return (count, None),
            Err(error) => return (count, Some(error)),
        }
    }
}

fn of_bytes(bytes: &[u8]) -> CaptureFile {
    CaptureFile::new(Box::new(Cursor::new(bytes.to_vec()))).expect("it begins")
}

#[test]
fn what_was_written_is_read_back_compressed_or_not() {
    let dir = tempfile::tempdir().expect("a directory");
    for name in ["a.pcap", "a.pcap.gz"] {
        let path = dir.path().join(name);
        written(&path, 5_000);
        let mut file = CaptureFile::open(&path).expect("it is there");
        assert_eq!(file.kind(), FileKind::Capture);
        let (count, error) = read(&mut file);
        assert!(error.is_none(), "{error:?}");
        assert_eq!((count, file.counts().datagrams), (5_000, 5_000));
        assert!(CaptureWriter::create(&path).is_err(), "a file that is there is not written over");
    }
    let sizes =
        ["a.pcap", "a.pcap.gz"].map(|name| fs::metadata(dir.path().join(name)).unwrap().len());
    assert!(sizes[1] < sizes[0] / 2, "{sizes:?}");
}

#[test]
fn metadata_of_dbn_beyond_the_limit_is_refused_before_room_is_taken() {
    let too_long = (1_u32 << 28) + 1;
    let head = [&b"DBN\x03"[..], &too_long.to_le_bytes()].concat();
    let refused = CaptureFile::new(Box::new(Cursor::new(head))).expect_err("it is too long");
    assert_eq!(refused.to_string(), format!("metadata of {too_long} bytes"));
}

#[test]
fn a_file_that_was_cut_off_gives_what_is_whole_and_the_place_where_it_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.pcap");
    written(&path, 1_000);
    let bytes = fs::read(&path).expect("it was written");
    let (count, error) = read(&mut of_bytes(&bytes[..bytes.len() - 1]));
    assert_eq!(count, 999);
    let Some(FileError::Capture(CaptureError::Truncated { offset, len })) = error else {
        panic!("{error:?}")
    };
    assert_eq!(offset + len as u64, bytes.len() as u64 - 1);

    let mut compressed = GzEncoder::new(Vec::new(), Compression::fast());
    compressed.write_all(&bytes).expect("to memory");
    let compressed = compressed.finish().expect("to memory");
    let (count, error) = read(&mut of_bytes(&compressed[..compressed.len() / 2]));
    assert!((100..1_000).contains(&count), "{count}");
    assert!(matches!(error, Some(FileError::Io { offset, .. }) if offset > 10_000), "{error:?}");
}

#[test]
fn a_capture_is_a_source_of_datagrams_that_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.pcap");
    written(&path, 10);
    let mut source = CaptureReplay::new(CaptureFile::open(&path).expect("it is there"));
    let mut received = 0;
    while !source.is_over() {
        received += source.receive(&mut |_| ()).expect("it reads");
    }
    assert_eq!((received, source.counts().datagrams), (10, 10));
}
