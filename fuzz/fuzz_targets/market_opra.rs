//! Arbitrary bytes as a datagram of OPRA, and as the messages of a block with a valid header.
//!
//! Checks that nothing panics, that splitting a packet into messages ends, that a refused message
//! emits nothing, and that updates name only instruments defined before.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_feed::opra::Opra;
use weir_fuzz::market::{block, check};

fuzz_target!(|bytes: &[u8]| {
    check(&mut Opra::new(), bytes);
    let datagram = block(&[6, 0, 0, b'O', b' ', 0], bytes);
    assert!(check(&mut Opra::new(), &datagram), "the header is right");
});
