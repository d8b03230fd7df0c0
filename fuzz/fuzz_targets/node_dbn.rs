//! Arbitrary bytes as a DBN file: as they are, and behind valid metadata.
//!
//! Checks that nothing panics, that reading ends, and that a truncated file yields a prefix of the
//! whole file's items.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use weir_marketgate::capture::{CaptureFile, Item};

/// Reads the items of a file, and the error at its end.
fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<String>) {
    let mut items = Vec::new();
    let mut file = match CaptureFile::new(Box::new(Cursor::new(bytes.to_vec()))) {
        Ok(file) => file,
        Err(error) => return (items, Some(error.to_string())),
    };
    loop {
        let more = file.next(&mut |item| {
            if let Item::Message { message, .. } = item {
                items.push(message.to_vec());
            }
        });
        match more {
            Ok(true) => {}
            Ok(false) => return (items, None),
            Err(error) => return (items, Some(error.to_string())),
        }
    }
}

/// Makes empty metadata of a version.
fn metadata(version: u8) -> Vec<u8> {
    let mut bytes = b"DBN".to_vec();
    bytes.push(version);
    let mut body = vec![0; 100];
    body[16..18].copy_from_slice(&0xffff_u16.to_le_bytes());
    body[42..44].copy_from_slice(&[0xff, 0]);
    body.resize(if version == 1 { 128 } else { 132 }, 0);
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend(body);
    bytes
}

fuzz_target!(|bytes: &[u8]| {
    let _ = read(bytes);
    let _ = read(&[b"DBN\x03", bytes].concat());
    for version in 1..=3 {
        let whole = [metadata(version), bytes.to_vec()].concat();
        let (items, _) = read(&whole);
        let (cut, _) = read(&whole[..whole.len() - bytes.len().min(5)]);
        assert!(items.starts_with(&cut));
    }
});
