//! Recorded captures, gzipped or not.

use std::io::Read;

/// Returns a file of the sample data in `WEIR_DATA`; prints a warning and returns `None` without
/// it.
pub(crate) fn data(path: &str) -> Option<Vec<u8>> {
    let path = crate::data::data(path)?;
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Some(bytes);
    }
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut unpacked).expect("it is gzip");
    Some(unpacked)
}
