//! Any bytes from the other end: no panic, and a message that is read is written as it was.

use proptest::collection::vec;
use proptest::prelude::*;
use weir_link::codec::fuzz_bytes;
use weir_wire::frame::put_frame_with;
use weir_wire::{SCHEMA_ID, SCHEMA_VERSION};

/// Returns a frame of a template of the link with any body; the block's length may be any.
fn framed(template_id: u16, block_length: u16, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    put_frame_with(&mut frame, |out| {
        for word in [block_length, template_id, SCHEMA_ID, SCHEMA_VERSION] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(body);
    });
    frame
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..200)) {
        fuzz_bytes(&bytes);
    }

    #[test]
    fn any_body_of_any_template_is_read_without_a_panic(
        template_id in prop_oneof![130u16..160, 0u16..260],
        block_length in prop_oneof![0u16..80, any::<u16>()],
        body in vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..160),
    ) {
        fuzz_bytes(&framed(template_id, block_length, &body));
    }
}
