//! Arbitrary bytes as a datagram of CQS and CTS, and as the messages of a block with a valid
//! header.
//!
//! Checks that nothing panics, that splitting a packet into messages ends, that a refused message
//! emits nothing, and that updates name only instruments defined before.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_feed::cta::{Cta, CtaFeed};
use weir_fuzz::market::{block, check};

fuzz_target!(|bytes: &[u8]| {
    for (feed, indicator) in [(CtaFeed::Quotes, b'Q'), (CtaFeed::Trades, b'T')] {
        check(&mut Cta::new(feed), bytes);
        let datagram = block(&[2, 0, 0, indicator, b'O'], bytes);
        assert!(check(&mut Cta::new(feed), &datagram), "the header is right");
    }
});
