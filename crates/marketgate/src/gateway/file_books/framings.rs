//! Tests: recordings of MoldUDP64, the own feed, OPRA and CQS in which numbers go back. A sender
//! that begins again, a repetition and a contradiction are told apart by each framing's evidence.

use weir_feed::moldudp64::{MoldSession, PacketWriter, PushOutcome};
use weir_feed::session_name::{Calendar, session_name};
use weir_types::{Epoch, PartitionId, Side};

use super::restarts::books;
use super::tests::{add, directory};
use super::*;

const WEIR: InstrumentId = InstrumentId(7);
/// The day of all senders, in seconds and in nanoseconds since the Unix epoch.
const DAY: u32 = 1_700_000_000;
const DAY_NS: Nanos = Nanos(1_700_000_000_000_000_000);

/// Asserts the counters of numbers that go back: restarts, old packets, contradictions, messages
/// repeated, messages lost.
fn assert_numbers(market: &FileBooks, want: [u64; 5]) {
    let counts = market.counts();
    let FileBooksCounts { restarts, old_packets, contradictions, repeated, lost, .. } = counts;
    assert_eq!([restarts, old_packets, contradictions, repeated, lost], want, "{counts:?}");
    assert_eq!((counts.strangers, counts.refused), (0, 0), "{:?}", market.last_error());
}

/// The feeds over MoldUDP64, each with the names of two sessions.
fn mold_feeds() -> [(&'static str, [MoldSession; 2]); 2] {
    let calendar = Calendar::new(PartitionId(1), 22);
    [
        ("itch", [1, 2].map(|day| MoldSession([b'0' + day; 10]))),
        ("weir", [1, 2].map(|epoch| session_name(calendar, DAY_NS, Epoch(epoch)))),
    ]
}

/// A packet for each message, numbered from 1.
fn mold(session: MoldSession, messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut writer = PacketWriter::new(session, 1, 1_400);
    let packet = |message: &Vec<u8>| {
        assert_eq!(writer.push(message), PushOutcome::Added);
        writer.take(<[u8]>::to_vec).expect("it has a message")
    };
    messages.iter().map(packet).collect()
}

/// A packet with a number of its own.
fn mold_at(session: MoldSession, sequence: u64, message: &[u8]) -> Vec<u8> {
    let mut writer = PacketWriter::new(session, sequence, 1_400);
    assert_eq!(writer.push(message), PushOutcome::Added);
    writer.take(<[u8]>::to_vec).expect("it has a message")
}

/// The first session's messages: an instrument, a bid and an offer.
fn morning() -> Vec<Vec<u8>> {
    vec![directory(), add(1, b'B', 100_0000, 300), add(2, b'S', 101_0000, 200)]
}

/// Bids and offers, each as price in whole units and quantity.
fn levels(market: &FileBooks) -> [Vec<(i64, u64)>; 2] {
    [Side::Buy, Side::Sell].map(|side| {
        let levels = market.books().levels(WEIR, side, 10);
        levels.map(|level| (level.price.0 / 1_000_000_000, level.size.0)).collect()
    })
}

#[test]
fn the_next_session_of_moldudp64_clears_the_book_and_a_late_packet_of_the_last_is_old() {
    for (feed, [first, next]) in mold_feeds() {
        let mut sent = mold(first, &morning());
        let late = sent[2].clone();
        sent.extend(mold(next, &[directory(), add(1, b'B', 99_0000, 70)]));
        sent.push(late);
        let market = books(feed, &sent);
        assert_eq!(levels(&market), [vec![(99, 70)], vec![]], "{feed}");
        assert_numbers(&market, [0, 1, 0, 0, 0]);
        assert_eq!(market.counts().messages, 5);
        assert!(!market.is_stale(WEIR), "{feed}");
    }
}

#[test]
fn a_repetition_in_moldudp64_changes_nothing_and_is_counted() {
    for (feed, [session, _]) in mold_feeds() {
        let mut sent = mold(session, &morning());
        sent.extend_from_within(1..);
        let market = books(feed, &sent);
        assert_eq!(levels(&market), [vec![(100, 300)], vec![(101, 200)]], "{feed}");
        assert_numbers(&market, [0, 0, 0, 2, 0]);
        assert!(!market.is_stale(WEIR), "{feed}");
    }
}

#[test]
fn other_content_under_a_number_of_moldudp64_makes_the_book_stale() {
    for (feed, [session, _]) in mold_feeds() {
        let mut sent = mold(session, &morning());
        sent.push(mold_at(session, 2, &add(9, b'B', 500_0000, 1)));
        sent.push(mold_at(session, 4, &add(3, b'B', 100_0000, 50)));
        let market = books(feed, &sent);
        assert_eq!(levels(&market), [vec![(100, 350)], vec![(101, 200)]], "{feed}");
        assert_numbers(&market, [0, 0, 1, 0, 0]);
        assert!(market.is_stale(WEIR), "{feed}");
    }
}

#[test]
fn a_sender_of_moldudp64_that_begins_again_in_its_session_is_followed_and_stale() {
    for (feed, [session, _]) in mold_feeds() {
        let mut sent = mold(session, &morning());
        let again = [(11, 98_0000), (12, 97_0000), (13, 96_0000), (14, 95_0000)];
        sent.extend(mold(session, &again.map(|(id, price)| add(id, b'B', price, 5))));
        let market = books(feed, &sent);
        // Two packets contradict, the third shows the sender, whose first two messages are lost.
        assert_eq!(levels(&market), [vec![(96, 5), (95, 5)], vec![]], "{feed}");
        assert_numbers(&market, [1, 0, 2, 0, 2]);
        assert!(market.is_stale(WEIR), "{feed}");
    }
}

/// An aggregator's feed: its framing, a quote and a reset.
struct Aggregator {
    name: &'static str,
    /// The bytes of a block's header before its number, with room for its size.
    head: &'static [u8],
    /// A quote in cents that is the best on both sides, or of the offer alone.
    quote: fn(Best, u32, u32) -> Vec<u8>,
    /// The message with which numbers begin anew.
    reset: Vec<u8>,
}

/// The sides on which a quote is the best.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Best {
    Both,
    Offer,
}

fn opra(head: [u8; 3], body: &[u8]) -> Vec<u8> {
    [b"C", &head[..], &[0; 8], body].concat()
}

fn opra_quote(best: Best, bid: u32, offer: u32) -> Vec<u8> {
    let mut body = b"SPY  \0A\x02\x18B\0\0\x11\x94B".to_vec();
    for number in [bid, 5, offer, 7] {
        body.extend(number.to_be_bytes());
    }
    let indicator = if best == Best::Both { b'F' } else { b'B' };
    opra([b'k', b' ', indicator], &body)
}

fn cta(kind: &[u8; 2], body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(2 + 24 + body.len()).expect("a short message");
    [&len.to_be_bytes()[..], kind, b"N", &[0; 21], body].concat()
}

fn cqs_quote(best: Best, bid: u32, offer: u32) -> Vec<u8> {
    let mut body = b"WEIR       0R ".to_vec();
    for (price, size) in [(bid, 5_u32), (offer, 7)] {
        body.extend((i64::from(price) * 10_000).to_be_bytes());
        body.extend(size.to_be_bytes());
    }
    body.extend(b"        ");
    body.extend([0; 8]);
    body.extend(b"      ");
    body.push(if best == Best::Both { b'G' } else { b'B' });
    cta(b"QL", &body)
}

fn aggregators() -> [Aggregator; 2] {
    let (opra_reset, cta_reset) = (opra(*b"HK ", &[]), cta(b"CL", &[]));
    [
        Aggregator { name: "opra", head: b"\x06\0\0O \0", quote: opra_quote, reset: opra_reset },
        Aggregator { name: "cqs", head: b"\x02\0\0QO", quote: cqs_quote, reset: cta_reset },
    ]
}

impl Aggregator {
    /// A block of one message, sent so many seconds after the day's beginning.
    fn block(&self, sequence: u32, second: u32, message: &[u8]) -> Vec<u8> {
        let mut block = self.head.to_vec();
        block.extend(sequence.to_be_bytes());
        block.push(1);
        block.extend((DAY + second).to_be_bytes());
        block.extend([0; 4]);
        let checksum_at = block.len();
        block.extend([0; 2]);
        block.extend(message);
        if !block.len().is_multiple_of(2) {
            block.push(0);
        }
        let size = u16::try_from(block.len()).expect("it is short").to_be_bytes();
        block[1..3].copy_from_slice(&size);
        let sum = block.iter().fold(0_u16, |sum, byte| sum.wrapping_add(u16::from(*byte)));
        block[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
        block
    }

    /// Blocks of one quote each, a cent above the one before, numbered from 1.
    fn quotes(&self, count: u32) -> Vec<Vec<u8>> {
        let quote = |number: u32| {
            let message = (self.quote)(Best::Both, 100 + number, 110 + number);
            self.block(number, number, &message)
        };
        (1..=count).map(quote).collect()
    }
}

/// The instrument of a market of one.
fn only(market: &FileBooks) -> InstrumentId {
    market.definitions().next().expect("it was quoted").instrument_id
}

/// The best bid and offer, in cents.
fn best(market: &FileBooks) -> [Option<i64>; 2] {
    let best = market.books().best(only(market));
    [Side::Buy, Side::Sell].map(|side| best.of(side).map(|level| level.price.0 / 10_000_000))
}

#[test]
fn a_reset_of_an_aggregator_begins_numbers_anew_and_nothing_of_before_is_left() {
    for feed in aggregators() {
        let mut sent = feed.quotes(2);
        let late = sent[1].clone();
        let reset = feed.block(1, 10, &feed.reset);
        // The copy of the other line begins nothing.
        sent.extend([reset.clone(), reset]);
        sent.push(feed.block(2, 11, &(feed.quote)(Best::Offer, 1, 105)));
        sent.push(late);
        let market = books(feed.name, &sent);
        assert_eq!(best(&market), [None, Some(105)], "{}", feed.name);
        assert_numbers(&market, [1, 1, 0, 1, 0]);
        assert_eq!(market.counts().messages, 4);
        assert!(!market.is_stale(only(&market)), "{}", feed.name);
    }
}

#[test]
fn a_repetition_of_an_aggregator_changes_nothing_and_is_counted() {
    for feed in aggregators() {
        let mut sent = feed.quotes(2);
        sent.extend_from_within(..);
        let market = books(feed.name, &sent);
        assert_eq!(best(&market), [Some(102), Some(112)], "{}", feed.name);
        assert_numbers(&market, [0, 0, 0, 2, 0]);
        assert!(!market.is_stale(only(&market)), "{}", feed.name);
    }
}

#[test]
fn a_block_that_contradicts_an_aggregators_numbers_makes_the_book_stale() {
    for feed in aggregators() {
        let quotes = feed.quotes(2);
        // Other content under a number, and the same content with a much later send time.
        let other = feed.block(1, 1, &(feed.quote)(Best::Both, 1, 2));
        let later = feed.block(1, 30, &(feed.quote)(Best::Both, 101, 111));
        for lie in [other, later] {
            let market = books(feed.name, &[&quotes[..], &[lie]].concat());
            assert_eq!(best(&market), [Some(102), Some(112)], "{}", feed.name);
            assert_numbers(&market, [0, 0, 1, 0, 0]);
            assert!(market.is_stale(only(&market)), "{}", feed.name);
        }
    }
}

#[test]
fn an_aggregator_that_begins_again_without_a_reset_is_followed_and_stale() {
    for feed in aggregators() {
        let mut sent = feed.quotes(4);
        sent.extend((1..=3).map(|number| {
            let message = (feed.quote)(Best::Offer, 1, 200 + number);
            feed.block(number, 60 + number, &message)
        }));
        let market = books(feed.name, &sent);
        assert_eq!(best(&market), [None, Some(203)], "{}", feed.name);
        assert_numbers(&market, [1, 0, 2, 0, 2]);
        assert!(market.is_stale(only(&market)), "{}", feed.name);
    }
}
