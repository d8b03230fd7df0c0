//! Arbitrary bytes as either end of a link receives them, and frames that its decoders are likely
//! to read.
//!
//! Checks that nothing panics, and that a message that is read is written as bytes that read as it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::Recipe;
use weir_link::codec::fuzz_bytes;
use weir_wire::frame::put_frame_with;
use weir_wire::{SCHEMA_ID, SCHEMA_VERSION};

/// The templates of a link's messages.
const TEMPLATES: std::ops::Range<u16> = 130..156;
/// The longest block of a link's message, in bytes.
const BLOCK_LEN_MAX: u16 = 80;

fuzz_target!(|bytes: &[u8]| {
    fuzz_bytes(bytes);
    fuzz_bytes(&shaped(&mut Recipe::new(bytes)));
});

/// Returns frames of the link's templates. Their lengths and counts are mostly small, so that
/// groups and data fields are whole now and then.
fn shaped(recipe: &mut Recipe<'_>) -> Vec<u8> {
    let mut stream = Vec::new();
    while !recipe.is_empty() && stream.len() < 1 << 16 {
        let count = TEMPLATES.end - TEMPLATES.start;
        let template_id = TEMPLATES.start + u16::from(recipe.byte()) % count;
        let block_length = if recipe.one_in(8) {
            recipe.short()
        } else {
            u16::from(recipe.byte()) % BLOCK_LEN_MAX
        };
        let len = usize::from(recipe.byte());
        put_frame_with(&mut stream, |out| {
            for word in [block_length, template_id, SCHEMA_ID, SCHEMA_VERSION] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            let is_sparse = recipe.one_in(2);
            let byte = |recipe: &mut Recipe<'_>| {
                let byte = recipe.byte();
                if is_sparse && byte >= 32 { 0 } else { byte }
            };
            out.extend((0..len).map(|_| byte(recipe)));
        });
    }
    stream
}
