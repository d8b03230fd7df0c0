//! Arbitrary bytes as a datagram of IEX's feeds, and as the messages of one with a valid header.
//!
//! Checks that nothing panics, that splitting a packet into messages ends, that a refused message
//! emits nothing, and that updates name only instruments defined before.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_feed::iex::{Iex, Protocol};
use weir_fuzz::market::check;

fuzz_target!(|bytes: &[u8]| {
    for protocol in [Protocol::Tops, Protocol::Deep, Protocol::DeepPlus] {
        check(&mut Iex::new(protocol), bytes);
        let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        let mut datagram = vec![1, 0];
        datagram.extend(protocol.id().to_le_bytes());
        datagram.extend([0; 8]);
        datagram.extend(len.to_le_bytes());
        datagram.extend([1, 0]);
        datagram.extend([0; 24]);
        datagram.extend(&bytes[..usize::from(len)]);
        assert!(check(&mut Iex::new(protocol), &datagram), "the header is right");
    }
});
