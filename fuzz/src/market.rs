//! Shared code of the fuzz targets for market data feeds.

use weir_feed::{CollectedUpdates, Context, Feed};

/// Makes a block of an aggregator: `start` (version, two bytes for the size, the rest up to the
/// block's number), then number, count, times and checksum, then `messages`.
#[must_use]
pub fn block(start: &[u8], messages: &[u8]) -> Vec<u8> {
    let mut block = start.to_vec();
    block.extend([0, 0, 0, 1, 200]);
    block.extend([0; 8]);
    let place = block.len();
    block.extend([0, 0]);
    let room = usize::from(u16::MAX) - block.len();
    block.extend(&messages[..messages.len().min(room)]);
    let size = u16::try_from(block.len()).expect("it was cut to fit");
    block[1..3].copy_from_slice(&size.to_be_bytes());
    let sum = block.iter().fold(0_u16, |sum, byte| sum.wrapping_add(u16::from(*byte)));
    block[place..place + 2].copy_from_slice(&sum.to_be_bytes());
    block
}

/// Decodes a datagram and checks the feed's rules; returns false when its header is not of this
/// feed.
pub fn check(feed: &mut impl Feed, datagram: &[u8]) -> bool {
    let Ok(packet) = feed.packet(datagram) else { return false };
    let (mut rest, mut told) = (packet.messages, CollectedUpdates::default());
    feed.look_ahead(rest);
    let mut sequence = packet.sequence;
    while let Ok((message, tail)) = feed.next_message(rest) {
        assert!(tail.len() < rest.len(), "a message takes bytes");
        rest = tail;
        let before = (told.definitions.len(), told.updates.len());
        let context = Context { sequence, channel: packet.channel, ts_send: packet.ts_send };
        sequence = sequence.saturating_add(1);
        if feed.decode(&context, message, &mut told).is_err() {
            let after = (told.definitions.len(), told.updates.len());
            assert_eq!(before, after, "a refused message says nothing");
        }
    }
    for update in &told.updates {
        let is_defined = |it: &weir_feed::Definition| it.instrument_id == update.instrument_id;
        assert!(update.instrument_id.is_none() || told.definitions.iter().any(is_defined));
    }
    true
}
