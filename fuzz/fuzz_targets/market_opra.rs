//! Any bytes as a datagram of OPRA, and as the messages of a block whose header is right.
//!
//! Holds that nothing panics, that taking messages off a packet ends, that a message that is
//! refused says nothing, and that what instruments are told of was defined before.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::market::{block, check};
use weir_market::feed::opra::Opra;

fuzz_target!(|bytes: &[u8]| {
    check(&mut Opra::new(), bytes);
    let datagram = block(&[6, 0, 0, b'O', b' ', 0], bytes);
    assert!(check(&mut Opra::new(), &datagram), "the header is right");
});
