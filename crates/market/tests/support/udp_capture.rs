//! The UDP payloads of a whole capture, for tests of codecs.

use weir_feed::capture::{Decoded, Decoder, datagram};

/// Returns the payloads in the order of the file.
///
/// # Panics
/// Panics at damage, and at a frame that is no UDP datagram.
pub fn payloads(file: &[u8]) -> Vec<&[u8]> {
    let (mut decoder, mut rest, mut found) = (Decoder::new(), file, Vec::new());
    loop {
        match decoder.next(rest, true).expect("the capture is whole") {
            Decoded::Frame { used, frame } => {
                found.push(datagram(&frame).expect("a datagram").payload);
                rest = &rest[used..];
            }
            Decoded::Other { used } => rest = &rest[used..],
            Decoded::More { .. } | Decoded::End => return found,
        }
    }
}
