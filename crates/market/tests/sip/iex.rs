//! Tests of IEX: every real frame field by field, and a capture whose sequence numbers have no gap.

use std::collections::BTreeMap;

use weir_feed::iex::{Header, Iex, Message, Protocol, parse};
use weir_feed::{
    Action, CollectedUpdates, Context, Feed, Packet, PacketKind, SystemEvent, TradeFlags,
    TradingState, Update,
};
use weir_types::{InstrumentId, Nanos, PhaseCause, Price, Qty, Side};

use crate::capture::data;
use crate::oracle::{Listing, compare};
use crate::udp_capture::payloads;

/// Builds a datagram of one message in IEX-TP framing.
pub(crate) fn framed(protocol: Protocol, message: &[u8]) -> Vec<u8> {
    let mut datagram = vec![1, 0];
    datagram.extend(protocol.id().to_le_bytes());
    datagram.extend([1, 0, 0, 0, 7, 0, 0, 0]);
    let len = u16::try_from(message.len()).expect("a short message");
    datagram.extend((len + 2).to_le_bytes());
    datagram.extend([1, 0]);
    datagram.extend([0; 8]);
    datagram.extend(9_u64.to_le_bytes());
    datagram.extend(11_u64.to_le_bytes());
    datagram.extend(len.to_le_bytes());
    datagram.extend(message);
    datagram
}

/// Returns the updates of a message, whose sequence number is 9.
fn decoded(feed: &mut Iex, message: &[u8]) -> Vec<Update> {
    let mut told = CollectedUpdates::default();
    let context = Context { sequence: 9, channel: 1, ts_send: Nanos(11) };
    feed.decode(&context, message, &mut told).expect("a sound message");
    told.updates
}

fn listing(datagram: &[u8]) -> Listing {
    let protocol = Protocol::of(u16::from_le_bytes([datagram[2], datagram[3]])).expect("known");
    let feed = Iex::new(protocol);
    let mut listing = Listing { decimals: 4, ..Listing::default() };
    let header = Header::read(datagram).expect("it is long enough");
    header.fields(&mut |name, value| listing.add(name, value));
    let packet = feed.packet(datagram).expect("a real packet");
    let mut rest = packet.messages;
    while !rest.is_empty() {
        let (message, tail) = feed.next_message(rest).expect("a real message");
        rest = tail;
        listing.message();
        let len = message.len() as u64;
        listing.add("message_length", weir_feed::layout::Value::Unsigned(len));
        let message = parse(message).expect("a real message");
        message.fields(&mut |name, value| listing.add(name, value));
    }
    listing
}

#[test]
fn each_field_of_real_frames_is_what_another_decoder_reads() {
    let counts = compare(include_str!("../oracle/iex.txt"), |_, datagram| listing(datagram));
    assert!(matches!(counts, (0, 0) | (26, 513)), "{counts:?}");
}

/// Returns iex-parser's name of a message.
fn name_of(message: &Message) -> &'static str {
    match message {
        Message::SystemEvent(_) => "system_event",
        Message::SecurityDirectory(_) => "security_directive",
        Message::TradingStatus(_) => "trading_status",
        Message::OperationalHaltStatus(_) => "operational_halt",
        Message::ShortSalePriceTestStatus(_) => "short_sale_price_test_status",
        Message::QuoteUpdate(_) => "quote_update",
        Message::TradeReport(_) => "trade_report",
        Message::TradeBreak(_) => "trade_break",
        Message::AuctionInformation(_) => "auction_information",
        other => other.name(),
    }
}

#[test]
fn a_capture_of_tops_has_no_gap_and_as_many_messages_of_each_type_as_another_decoder_counts() {
    let Some(capture) = data("iex/TOPS16.pcapng.gz") else { return };
    let mut feed = Iex::new(Protocol::Tops);
    let (mut counts, mut packets, mut told) = (BTreeMap::new(), 0, CollectedUpdates::default());
    let mut next = None;
    for datagram in payloads(&capture) {
        let packet = feed.packet(datagram).expect("a real packet");
        assert_eq!(packet.sequence, next.unwrap_or(packet.sequence), "packet {packets}");
        next = Some(packet.sequence + u64::from(packet.count));
        packets += 1;
        assert_eq!(each_message(&mut feed, &packet, &mut counts, &mut told), packet.count);
    }
    let want: BTreeMap<&str, usize> = include_str!("../oracle/tops_counts.txt")
        .lines()
        .map(|line| line.split_once('\t').expect("a name and a count"))
        .map(|(name, count)| (name, count.parse().expect("a count")))
        .collect();
    assert_eq!((packets, counts), (13_022, want));
    let quotes = told.updates.iter().filter(|it| matches!(it.action, Action::Quote { .. }));
    assert_eq!(quotes.count(), 27_217);
    let is_named = |update: &&Update| feed.symbols().name_of(update.instrument_id).is_some();
    let unnamed = told.updates.iter().filter(|it| !is_named(it)).count();
    assert_eq!(unnamed, 6, "only the events of the system have no instrument");
}

/// Decodes a packet's messages and counts them by name; returns their number.
fn each_message(
    feed: &mut Iex,
    packet: &Packet<'_>,
    counts: &mut BTreeMap<&'static str, usize>,
    told: &mut CollectedUpdates,
) -> u32 {
    let (mut rest, mut count) = (packet.messages, 0);
    while !rest.is_empty() {
        let (message, tail) = feed.next_message(rest).expect("a real message");
        rest = tail;
        let sequence = packet.sequence + u64::from(count);
        count += 1;
        *counts.entry(name_of(&parse(message).expect("a known message"))).or_default() += 1;
        let context = Context { sequence, channel: packet.channel, ts_send: packet.ts_send };
        feed.decode(&context, message, told).expect("a sound message");
    }
    count
}

/// Builds a message: its type, its first field, then the time 5, the symbol `ZIEXT` and the rest.
fn message(kind: u8, first: u8, rest: &[&[u8]]) -> Vec<u8> {
    let mut message = vec![kind, first];
    message.extend(5_u64.to_le_bytes());
    message.extend(b"ZIEXT   ");
    message.extend(rest.concat());
    message
}

const PRICE: [u8; 8] = 990_500_i64.to_le_bytes();
const SIZE: [u8; 4] = 100_u32.to_le_bytes();
const ID: [u8; 8] = 42_u64.to_le_bytes();

#[test]
fn each_message_of_the_book_says_what_it_does() {
    let (price, size) = (Price(99_050_000_000), Qty(100));
    let level = |side, is_last| Action::Level { side, price, size, order_count: 0, is_last };
    let modify = |keeps_priority| Action::Modify { order_id: 42, price, size, keeps_priority };
    for (message, want) in [
        (message(b'8', 0, &[&SIZE, &PRICE]), level(Side::Buy, false)),
        (message(b'5', 1, &[&SIZE, &PRICE]), level(Side::Sell, true)),
        (
            message(b'a', b'5', &[&ID, &SIZE, &PRICE]),
            Action::Add { order_id: 42, side: Side::Sell, price, size },
        ),
        (message(b'M', 0, &[&ID, &SIZE, &PRICE]), modify(false)),
        (message(b'M', 1, &[&ID, &SIZE, &PRICE]), modify(true)),
        (message(b'R', 0, &[&ID]), Action::Delete { order_id: 42 }),
        (
            message(b'L', 0, &[&ID, &SIZE, &PRICE, &7_u64.to_le_bytes()]),
            Action::Execute {
                order_id: 42,
                size,
                price: Some(price),
                match_id: 7,
                is_printable: true,
            },
        ),
        (message(b'C', 0, &[]), Action::Clear),
        (message(b'B', 0, &[&SIZE, &PRICE, &ID]), Action::TradeBreak { match_id: 42, size, price }),
    ] {
        let got = decoded(&mut Iex::new(Protocol::DeepPlus), &message);
        let (instrument_id, ts_event) = (InstrumentId(1), Nanos(5));
        assert_eq!(got, [Update { instrument_id, sequence: 9, ts_event, action: want }]);
    }
}

#[test]
fn a_trade_counts_for_what_its_conditions_allow() {
    let not = TradeFlags::NOT_LAST.with(TradeFlags::NOT_HIGH_LOW);
    for (conditions, want) in [
        (0x00, TradeFlags::default()),
        (0x90, TradeFlags::default()),
        (0x40, not.with(TradeFlags::EXTENDED_HOURS)),
        (0x20, not.with(TradeFlags::ODD_LOT)),
        (0x08, TradeFlags::AUCTION),
        (0x68, not.with(TradeFlags(TradeFlags::EXTENDED_HOURS.0 | 32 | 8))),
    ] {
        let message = message(b'T', conditions, &[&SIZE, &PRICE, &ID]);
        let [update] = decoded(&mut Iex::new(Protocol::Tops), &message)[..] else { panic!() };
        let Action::Trade { flags, match_id: 42, .. } = update.action else { panic!() };
        assert_eq!(flags, want, "{conditions:#x}");
    }
}

#[test]
fn a_security_trades_only_when_neither_its_status_nor_the_venue_halts_it() {
    let mut feed = Iex::new(Protocol::Deep);
    let status = |state: u8| message(b'H', state, &[b"T1  "]);
    for (message, want) in [
        (message(b'O', b'N', &[]), None),
        (status(b'T'), Some((TradingState::Trading, *b"T1  "))),
        (message(b'O', b'O', &[]), Some((TradingState::Halted, *b"IEX "))),
        (status(b'T'), Some((TradingState::Halted, *b"IEX "))),
        (status(b'H'), Some((TradingState::Halted, *b"IEX "))),
        (message(b'O', b'N', &[]), Some((TradingState::Halted, *b"T1  "))),
        (status(b'O'), Some((TradingState::Auction, *b"T1  "))),
        (status(b'P'), Some((TradingState::Paused, *b"T1  "))),
    ] {
        let got = decoded(&mut feed, &message).first().map(|update| update.action);
        assert_eq!(
            got,
            want.map(|(state, reason)| Action::Status {
                state,
                reason,
                cause: PhaseCause::Unknown
            })
        );
    }
}

#[test]
fn a_packet_names_its_channel_session_and_numbers() {
    let mut event = vec![b'S', b'R'];
    event.extend(5_u64.to_le_bytes());
    let datagram = framed(Protocol::Deep, &event);
    let mut feed = Iex::new(Protocol::Deep);
    let packet = feed.packet(&datagram).expect("a sound packet");
    assert_eq!((packet.channel, packet.session, packet.sequence, packet.count), (1, 7, 9, 1));
    assert_eq!((packet.kind, packet.ts_send), (PacketKind::Data, Nanos(11)));
    let (message, rest) = feed.next_message(packet.messages).expect("one message");
    assert_eq!(rest, [] as [u8; 0]);
    let [update] = decoded(&mut feed, message)[..] else { panic!("one update") };
    assert_eq!(update.action, Action::System(SystemEvent::StartOfMarketHours));
    assert!(Iex::new(Protocol::Tops).packet(&datagram).is_err(), "it is another feed's");
}

#[test]
fn a_message_that_grew_at_its_end_is_understood() {
    let mut grown = message(b'R', 0, &[&ID]);
    grown.extend([1, 2, 3]);
    let [update] = decoded(&mut Iex::new(Protocol::DeepPlus), &grown)[..] else { panic!() };
    assert_eq!(update.action, Action::Delete { order_id: 42 });
}
