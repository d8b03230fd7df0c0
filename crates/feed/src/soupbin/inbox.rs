//! Splits the bytes of a stream, which arrive in pieces of any size, into packets.
//!
//! It buffers the bytes that were not taken: at most one piece and the beginning of one packet,
//! which has at most 65,537 bytes, provided that all packets are taken before the next push.

/// A buffer of the bytes of a SoupBinTCP stream.
#[derive(Clone, Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
    taken: usize,
}

impl Inbox {
    /// Creates an empty buffer.
    #[must_use]
    pub fn new() -> Inbox {
        Inbox::default()
    }

    /// Appends a piece of the stream.
    pub fn push(&mut self, piece: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(piece);
    }

    /// Takes the next whole packet, without its length; `None` until more bytes arrive.
    pub fn take(&mut self) -> Option<&[u8]> {
        let rest = &self.bytes[self.taken..];
        let (len, rest) = rest.split_first_chunk()?;
        let packet = rest.get(..usize::from(u16::from_be_bytes(*len)))?;
        self.taken += 2 + packet.len();
        Some(packet)
    }

    /// Returns the number of bytes that were not taken; at the end of a stream it is non-zero when
    /// the stream was cut off.
    #[must_use]
    pub fn waiting_len(&self) -> usize {
        self.bytes.len() - self.taken
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::soupbin::SoupPacket;

    proptest! {
        #[test]
        fn pieces_of_any_size_make_the_same_packets(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..20),
            piece_len in 1usize..50,
            more in prop::collection::vec(any::<u8>(), 0..2),
        ) {
            let mut stream = Vec::new();
            for message in &messages {
                prop_assert!(SoupPacket::Sequenced(message).write(&mut stream));
            }
            stream.extend_from_slice(&more);
            let mut inbox = Inbox::new();
            let mut got = Vec::new();
            for piece in stream.chunks(piece_len) {
                inbox.push(piece);
                while let Some(packet) = inbox.take() {
                    got.push(packet[1..].to_vec());
                }
            }
            prop_assert_eq!(got, messages);
            prop_assert_eq!(inbox.waiting_len(), more.len());
        }
    }
}
