//! Files written and read back, whole, cut off, compressed; day files; real captures where there
//! are any.

use std::fs;
use std::io::{Cursor, Read, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use weir_market::capture::{CaptureError, Datagram};
use weir_types::Nanos;

use super::super::{Datagrams, analysis::Analysis};
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

/// The numbers of the datagrams that can be read, and what ended it.
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
fn a_day_file_is_known_by_how_it_begins_and_has_the_times_of_its_messages() {
    let mut bytes = Vec::new();
    for (kind, second) in [(b'S', 1_u64), (b'A', 2), (b'A', 4)] {
        let time = second * 1_000_000_000;
        let message = [&[kind, 0, 1, 0, 0], &time.to_be_bytes()[2..], b"rest"].concat();
        bytes.extend_from_slice(&(message.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&message);
    }
    let mut file = of_bytes(&bytes);
    assert_eq!(file.kind(), FileKind::Records);
    let (analysis, error) = Analysis::of(&mut file, None);
    assert!(error.is_none());
    assert_eq!((analysis.first, analysis.last), (Some(Nanos(1_000_000_000)), Nanos(4_000_000_000)));
    assert_eq!((analysis.kinds[&b"A"[..]].messages, analysis.kinds[&b"S"[..]].messages), (2, 1));
    assert_eq!((analysis.unit(), analysis.rates.total()), ("messages", 3));

    let (analysis, error) = Analysis::of(&mut of_bytes(&bytes[..bytes.len() - 1]), None);
    let at = CaptureError::Truncated { offset: 34, len: 16 };
    assert!(matches!(error, Some(FileError::Capture(error)) if error == at), "{error:?}");
    assert_eq!(analysis.rates.total(), 2);
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

#[test]
fn a_real_capture_has_each_datagram_that_its_frames_hold() {
    let Some(path) = weir_skip::recorded("iex/TOPS16.pcapng.gz") else { return };
    let mut file = CaptureFile::open(&path).expect("it is there");
    let (analysis, error) = Analysis::of(&mut file, None);
    assert!(error.is_none(), "{error:?}");
    assert_eq!((file.counts().frames, file.counts().datagrams), (13_022, 13_022));
    let group = "224.67.0.199:16642".parse().expect("an address");
    assert_eq!(analysis.groups.keys().collect::<Vec<_>>(), [&group]);
    // Counted without any of this: the file's length is its header and each frame with its own.
    let mut whole = Vec::new();
    let compressed = fs::File::open(&path).expect("it is there");
    flate2::read::GzDecoder::new(compressed).read_to_end(&mut whole).expect("it is gzip");
    let bytes = analysis.groups[&group].bytes;
    assert_eq!(bytes + 13_022 * (16 + 14 + 20 + 8) + 24, whole.len() as u64);
}

#[test]
fn every_captured_frame_of_every_venue_is_read() {
    let Some(frames_of_venues) = weir_skip::recorded("omi") else { return };
    let (mut files, mut frames, mut damaged) = (0_u64, 0, 0);
    let mut folders = vec![frames_of_venues];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "pcap") {
                let mut file = CaptureFile::open(&path).expect("it opens");
                let (_, error) = Analysis::of(&mut file, None);
                assert!(error.is_none(), "{}: {error:?}", path.display());
                files += 1;
                frames += file.counts().frames;
                damaged += file.counts().damaged;
            }
        }
    }
    assert!(files > 300 && frames >= files, "{files} files, {frames} frames");
    assert_eq!(damaged, 0);
}
