//! Arbitrary bytes as an audit capture, and behind a valid header, in pieces of any size.
//!
//! Checks that nothing panics, that reading ends, that the decoder asks for more bytes than it has
//! and at most a block, and that a datagram or gap reads back when it is written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_feed::capture::BLOCK_LEN_MAX;
use weir_feed::capture::audit::{
    AuditDecoder, AuditNext, DecodedAudit, put_audit_datagram, put_audit_gap, put_audit_head,
};
use weir_fuzz::Recipe;

fn lines(count: u16) -> Vec<u8> {
    let mut head = Vec::new();
    put_audit_head(&mut head, (0..count).map(|_| "A"));
    head
}

/// Writes a step after a header of enough lines, and checks that it reads back the same.
fn written_again(step: &DecodedAudit<'_>) {
    let mut file = Vec::new();
    let line = match step {
        DecodedAudit::Datagram(it) => {
            if put_audit_datagram(&mut file, it).is_err() {
                return;
            }
            it.line.0
        }
        DecodedAudit::Gap(gap) => {
            put_audit_gap(&mut file, gap, gap.datagrams);
            gap.line.0
        }
        _ => return,
    };
    if line > 64 {
        return;
    }
    let file = [lines(line + 1), file].concat();
    let (mut decoder, mut start) = (AuditDecoder::new(), 0);
    loop {
        match decoder.next(&file[start..], true).expect("it was written") {
            AuditNext::Decoded { used, step: found } => {
                start += used;
                if matches!(found, DecodedAudit::Datagram(_) | DecodedAudit::Gap(_)) {
                    assert_eq!(&found, step);
                    return;
                }
            }
            other => panic!("it is not found: {other:?}"),
        }
    }
}

fn read(file: &[u8], piece: usize) {
    let (mut decoder, mut start, mut end) = (AuditDecoder::new(), 0, 0);
    for _ in 0..=2 * file.len() + 2 {
        match decoder.next(&file[start..end], end == file.len()) {
            Ok(AuditNext::Decoded { used, step }) => {
                written_again(&step);
                start += used;
            }
            Ok(AuditNext::More { len }) => {
                assert!(len > end - start && len <= BLOCK_LEN_MAX + 24);
                end = (end + piece).min(file.len());
            }
            Ok(AuditNext::End) | Err(_) => return,
        }
        assert_eq!(decoder.offset(), start as u64);
    }
    panic!("it goes on for ever");
}

/// Appends a block of a type around some bytes.
fn put_block(file: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let len = (body.len().next_multiple_of(4) + 12) as u32;
    file.extend_from_slice(&kind.to_le_bytes());
    file.extend_from_slice(&len.to_le_bytes());
    file.extend_from_slice(body);
    file.resize(file.len().next_multiple_of(4), 0);
    file.extend_from_slice(&len.to_le_bytes());
}

fuzz_target!(|bytes: &[u8]| {
    let mut recipe = Recipe::new(bytes);
    let is_shaped = recipe.one_in(2);
    let piece = usize::from(recipe.byte()).max(1);
    if !is_shaped {
        return read(recipe.rest(), piece);
    }
    let mut file = lines(u16::from(recipe.byte() % 4));
    while !recipe.is_empty() {
        let kind = [1, 5, 6, 6, 0x0bad][usize::from(recipe.byte()) % 5];
        let body = recipe.bytes_up_to(u8::MAX).to_vec();
        put_block(&mut file, kind, &body);
    }
    read(&file, piece);
});
