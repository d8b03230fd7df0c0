//! Arbitrary bytes as a capture of probe records: as they are, and behind a valid header.
//!
//! Checks that reading ends, stops at the first error, and yields no more than the input holds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::Recipe;
use weir_probe::capture::{CaptureDecoder, Frame};

/// A header as written by `CaptureWriter`: magic, version, counter rate, start.
const HEADER: [u8; 32] = *b"WEIRCAP1\x01\0\0\0\0\0\0\0\x00\xca\x9a\x3b\0\0\0\0\0\0\0\0\0\0\0\0";

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    let mut capture = HEADER.to_vec();
    capture.extend_from_slice(bytes);
    assert!(CaptureDecoder::new(&capture).is_ok(), "the header is no longer a header");
    read(&capture);
    read(&shaped(&mut Recipe::new(bytes)));
});

/// Makes frames with valid lengths, of any kind and content.
fn shaped(recipe: &mut Recipe<'_>) -> Vec<u8> {
    let mut capture = HEADER.to_vec();
    while !recipe.is_empty() {
        let kind = u32::from(recipe.byte() % 6);
        let ring = u32::from(recipe.byte());
        let payload = recipe.bytes_up_to(64);
        for word in [kind, ring, payload.len() as u32, 0] {
            capture.extend_from_slice(&word.to_le_bytes());
        }
        capture.extend_from_slice(payload);
    }
    capture
}

fn read(bytes: &[u8]) {
    let Ok(mut capture) = CaptureDecoder::new(bytes) else { return };
    let mut record_count = 0;
    while let Some(frame) = capture.next() {
        match frame {
            Ok(Frame::Records { records, .. }) => record_count += records.count(),
            Ok(_) => {}
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert!(capture.next().is_none(), "reading went on after an error");
            }
        }
    }
    assert!(record_count * 16 <= bytes.len(), "more records than bytes");
}
