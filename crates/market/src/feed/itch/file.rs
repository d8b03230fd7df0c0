//! The framing of files of a day's messages: each has its length as u16 before it, big-endian, as
//! in a packet of MoldUDP64 but without header and end.
//!
//! Bytes come in pieces of any size and are borrowed; what is kept is the beginning of a message
//! that the next piece ends. Nothing is read here.
//!
//! Source: Nasdaq, BinaryFILE 1.00; the length zero that it ends a file with is the end here too.

/// Takes messages out of a file's bytes.
#[derive(Clone, Debug, Default)]
pub struct FileReader {
    /// The beginning of a message with its length: what the pieces so far ended with.
    begun: Vec<u8>,
    messages: u64,
    has_ended: bool,
}

impl FileReader {
    /// At the beginning of a file.
    #[must_use]
    pub fn new() -> FileReader {
        FileReader::default()
    }

    /// Gives each message that ends in the next piece of the file to `take`, with its number, from
    /// 1. What comes after the end that the file itself states is not looked at.
    pub fn push(&mut self, mut piece: &[u8], mut take: impl FnMut(u64, &[u8])) {
        while !self.has_ended && !self.begun.is_empty() && !piece.is_empty() {
            let missing = match self.begun.first_chunk() {
                None => 1,
                Some(len) => usize::from(u16::from_be_bytes(*len)) + 2 - self.begun.len(),
            };
            let (now, rest) = piece.split_at(missing.min(piece.len()));
            self.begun.extend_from_slice(now);
            piece = rest;
            let mut begun = std::mem::take(&mut self.begun);
            let is_whole = self.take_all(&begun, &mut take).is_empty();
            if is_whole {
                begun.clear();
            }
            self.begun = begun;
        }
        let rest = self.take_all(piece, &mut take);
        if !self.has_ended {
            self.begun.extend_from_slice(rest);
        }
    }

    /// Messages so far.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Bytes of a message whose end has not come. Not zero at the end of a file that was cut off.
    #[must_use]
    pub fn unfinished_len(&self) -> usize {
        self.begun.len()
    }

    /// Takes whole messages off `bytes` and gives back what is left.
    fn take_all<'a>(&mut self, bytes: &'a [u8], take: &mut impl FnMut(u64, &[u8])) -> &'a [u8] {
        let mut rest = bytes;
        while let Ok((message, after)) = crate::feed::moldudp64::next_message(rest) {
            if self.has_ended || message.is_empty() {
                self.has_ended = true;
                return &[];
            }
            self.messages += 1;
            take(self.messages, message);
            rest = after;
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> (Vec<(u64, Vec<u8>)>, usize) {
        let mut reader = FileReader::new();
        let mut got = Vec::new();
        for piece in pieces {
            reader.push(piece, |number, message| got.push((number, message.to_vec())));
        }
        assert_eq!(reader.messages(), got.len() as u64);
        (got, reader.unfinished_len())
    }

    #[test]
    fn a_file_ends_where_it_says_so() {
        let want = vec![(1, b"ab".to_vec())];
        assert_eq!(read(&[b"\0\x02ab\0\0\0\x01c"]), (want.clone(), 0));
        assert_eq!(read(&[b"\0\x02ab\0", b"\0", b"\0\x01c"]), (want, 0));
    }

    #[test]
    fn a_file_that_was_cut_off_says_how_much_of_a_message_it_has() {
        assert_eq!(read(&[b"\0\x02ab\0\x05xyz"]), (vec![(1, b"ab".to_vec())], 5));
        assert_eq!(read(&[b"\0"]), (vec![], 1));
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_make_the_same_messages(
            all in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..20),
            cuts in prop::collection::vec(0usize..400, 0..12),
        ) {
            let mut bytes = Vec::new();
            for message in &all {
                bytes.extend_from_slice(&(message.len() as u16).to_be_bytes());
                bytes.extend_from_slice(message);
            }
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            let want: Vec<(u64, Vec<u8>)> = (1..).zip(all).collect();
            prop_assert_eq!(read(&pieces), (want, 0));
        }
    }
}
