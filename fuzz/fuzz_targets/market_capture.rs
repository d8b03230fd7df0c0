//! Arbitrary bytes as a capture, behind a valid header, and as a day file, in pieces of any size.
//!
//! Checks that nothing panics, that reading ends, that the decoder asks for more bytes than it has
//! and at most a block, and that a datagram reads back when it is written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_feed::capture::{
    BLOCK_LEN_MAX, Datagram, Decoded, Decoder, Record, datagram, next_record, put_datagram,
    put_file_header,
};
use weir_fuzz::Recipe;

/// Headers that blind bytes seldom produce: pcap in two forms, a pcapng section with an Ethernet
/// interface in each byte order.
const HEADS: [&[u8]; 5] = [
    b"",
    b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\0\0\0",
    b"\xa1\xb2\x3c\x4d\0\x02\0\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\0\0\0\x71",
    b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\
      \x1c\0\0\0\x01\0\0\0\x14\0\0\0\x01\0\0\0\0\0\0\0\x14\0\0\0",
    b"\x0a\x0d\x0d\x0a\0\0\0\x1c\x1a\x2b\x3c\x4d\0\x01\0\0\xff\xff\xff\xff\xff\xff\xff\xff\
      \0\0\0\x1c\0\0\0\x01\0\0\0\x14\0\x65\0\0\0\0\0\0\0\0\0\x14",
];

fn written_again(found: &Datagram<'_>) {
    let mut file = Vec::new();
    put_file_header(&mut file);
    let head_len = file.len();
    if put_datagram(&mut file, found).is_err() {
        return;
    }
    let mut decoder = Decoder::new();
    assert!(matches!(decoder.next(&file, true), Ok(Decoded::Other { used }) if used == head_len));
    let Ok(Decoded::Frame { frame, .. }) = decoder.next(&file[head_len..], true) else {
        panic!("it was written whole")
    };
    assert_eq!(datagram(&frame).as_ref(), Ok(found));
}

fn read_capture(file: &[u8], piece: usize) {
    let (mut decoder, mut start, mut end) = (Decoder::new(), 0, 0);
    for _ in 0..=2 * file.len() + 2 {
        match decoder.next(&file[start..end], end == file.len()) {
            Ok(Decoded::Frame { used, frame }) => {
                start += used;
                if let Ok(found) = datagram(&frame) {
                    written_again(&found);
                }
            }
            Ok(Decoded::Other { used }) => start += used,
            Ok(Decoded::More { len }) => {
                assert!(len > end - start && len <= BLOCK_LEN_MAX + 24);
                end = (end + piece).min(file.len());
            }
            Ok(Decoded::End) | Err(_) => return,
        }
        assert_eq!(decoder.offset(), start as u64);
    }
    panic!("it goes on for ever");
}

fn read_records(file: &[u8]) {
    let mut start = 0;
    loop {
        match next_record(&file[start..], start as u64, true) {
            Ok(Record::Message { used, message }) => {
                assert_eq!(message.len() + 2, used);
                start += used;
            }
            Ok(Record::EndOfSession { used }) => start += used,
            Ok(Record::More { .. }) => panic!("there is no more"),
            Ok(Record::End) | Err(_) => return,
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut recipe = Recipe::new(bytes);
    let head = HEADS[usize::from(recipe.byte()) % HEADS.len()];
    let piece = usize::from(recipe.byte()).max(1);
    let rest = recipe.rest();
    read_capture(&[head, rest].concat(), piece);
    read_records(rest);
});
