//! Whole files analysed: a day file, and recorded captures where there are any.

use std::fs;
use std::io::{Cursor, Read};

use weir_feed::capture::CaptureError;
use weir_types::Nanos;

use super::*;

fn of_bytes(bytes: &[u8]) -> CaptureFile {
    CaptureFile::new(Box::new(Cursor::new(bytes.to_vec()))).expect("it begins")
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
    let Some(FileProblem::Unreadable(FileError::Capture(error))) = error else {
        panic!("{error:?}")
    };
    assert_eq!(error, at);
    assert_eq!(analysis.rates.total(), 2);
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
