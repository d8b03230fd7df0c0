//! Recordings of each feed, as datagrams or as messages of a file, and the places of the fields in
//! their headers.

use std::ops::Range;

use dbn::encode::dbn::Encoder;
use dbn::{MappingInterval, Metadata, SType, Schema, SymbolMapping};
use weir_feed::capture::Datagram;
use weir_feed::cta::MessageHeader as CtaHeader;
use weir_feed::cta::trade::LongTrade;
use weir_feed::dbn::record::rtype;
use weir_feed::itch::encode::{
    AddOrder, Header, OrderCancel, OrderDelete, OrderExecuted, StockDirectory, stock,
};
use weir_feed::moldudp64::{MoldSession, PacketWriter};
use weir_feed::opra::{MessageHeader, message::LongQuote};
use weir_feed::session_name::{Calendar, session_name};
use weir_types::{Epoch, Nanos, PartitionId};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
/// Packets of a recording.
const PACKETS: u64 = 30;

/// A feed with its framing.
#[derive(Debug)]
pub struct MutatedFeed {
    pub name: &'static str,
    pub framing: &'static Framing,
    /// The packets of a session with this number, or the messages of a file of one.
    pub session: fn(u64) -> Vec<Vec<u8>>,
    /// Makes a file of them.
    pub file: fn(&[Vec<u8>]) -> Vec<u8>,
    /// True if they are packets, which a running gateway takes.
    pub is_live: bool,
}

/// A feed that comes in datagrams.
const fn live(
    name: &'static str,
    framing: &'static Framing,
    session: fn(u64) -> Vec<Vec<u8>>,
) -> MutatedFeed {
    MutatedFeed { name, framing, session, file: capture, is_live: true }
}

/// The header of a framing.
#[derive(Debug)]
pub struct Framing {
    /// Fields of numbers: sequences, counts, lengths, times, sessions.
    pub fields: &'static [Range<usize>],
    /// The places of the length of the whole datagram and of its checksum, if it has one.
    pub seal: Option<(Range<usize>, Range<usize>)>,
}

const MOLD: Framing = Framing { fields: &[0..10, 10..18, 18..20, 20..22], seal: None };
const IEX_TP: Framing =
    Framing { fields: &[4..8, 8..12, 12..14, 14..16, 16..24, 24..32, 32..40, 40..42], seal: None };
const OPRA: Framing =
    Framing { fields: &[1..3, 4..5, 6..10, 10..11, 11..15, 15..19], seal: Some((1..3, 19..21)) };
const CTA: Framing =
    Framing { fields: &[1..3, 4..5, 5..9, 9..10, 10..14, 14..18], seal: Some((1..3, 18..20)) };

/// A message of ITCH behind its length.
const DAY_FILE: Framing =
    Framing { fields: &[0..2, 2..3, 3..5, 7..13, 13..21, 21..22, 22..26], seal: None };
/// A record of DBN with an order.
const RECORD: Framing = Framing {
    fields: &[0..1, 1..2, 2..4, 4..8, 8..16, 16..24, 24..32, 32..36, 36..38, 38..40, 40..48],
    seal: None,
};

/// All feeds, and the files of messages that commands read.
pub const FEEDS: &[MutatedFeed] = &[
    live("itch", &MOLD, itch),
    live("iex-deep", &IEX_TP, deep),
    live("iex-deep-plus", &IEX_TP, deep_plus),
    live("iex-tops", &IEX_TP, tops),
    live("weir", &MOLD, own),
    live("opra", &OPRA, opra),
    live("cqs", &CTA, cqs),
    live("cts", &CTA, cts),
    MutatedFeed {
        name: "itch",
        framing: &DAY_FILE,
        session: day_file,
        file: joined,
        is_live: false,
    },
    MutatedFeed { name: "dbn", framing: &RECORD, session: records, file: dbn_file, is_live: false },
];

/// Fixes a datagram's length and checksum after a change.
pub fn seal(framing: &Framing, datagram: &mut [u8]) {
    let Some((size, sum)) = framing.seal.clone().filter(|(_, sum)| sum.end <= datagram.len())
    else {
        return;
    };
    let len = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
    datagram[size].copy_from_slice(&len.to_be_bytes());
    datagram[sum.clone()].fill(0);
    let total = datagram.iter().fold(0_u16, |sum, byte| sum.wrapping_add(u16::from(*byte)));
    datagram[sum].copy_from_slice(&total.to_be_bytes());
}

/// Writes a capture of the datagrams, a millisecond apart.
pub fn capture(datagrams: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    weir_feed::capture::put_file_header(&mut file);
    for (number, payload) in (0..).zip(datagrams) {
        let (src, dst) = ("10.0.0.1:9".parse().unwrap(), "239.1.2.3:1000".parse().unwrap());
        let ts_recv = Nanos(1_700_000_000 * SECOND + number * 1_000_000);
        let datagram = Datagram { ts_recv, src, dst, payload };
        weir_feed::capture::put_datagram(&mut file, &datagram).expect("it fits a frame");
    }
    file
}

fn itch(session: u64) -> Vec<Vec<u8>> {
    let name = MoldSession::new(&format!("{session:010}")).expect("ten digits");
    mold(name)
}

fn own(session: u64) -> Vec<Vec<u8>> {
    let epoch = u32::try_from(session).expect("few sessions");
    mold(session_name(Calendar::new(PartitionId(1), 22), Nanos(20_000 * DAY), Epoch(epoch)))
}

fn mold(session: MoldSession) -> Vec<Vec<u8>> {
    let mut writer = PacketWriter::new(session, 1, 1_200);
    let mut packets = Vec::new();
    for number in 1..=PACKETS {
        let header = Header { stock_locate: 1, tracking_number: 0, timestamp: number * SECOND };
        for message in itch_messages(number, &header) {
            let _fits = writer.push(&message);
        }
        packets.extend(writer.take(<[u8]>::to_vec));
    }
    packets.push(writer.heartbeat().to_vec());
    packets
}

fn itch_messages(number: u64, header: &Header) -> Vec<Vec<u8>> {
    let symbol = stock("AAPL").expect("a symbol");
    if number == 1 {
        let directory = StockDirectory {
            stock: symbol,
            market_category: b'Q',
            financial_status: b'N',
            round_lot_size: 100,
            round_lots_only: b'N',
            issue_classification: b'C',
            issue_sub_type: *b"Z ",
            authenticity: b'P',
            short_sale_threshold: b'N',
            ipo_flag: b'N',
            luld_reference_price_tier: b'1',
            etp_flag: b'N',
            etp_leverage_factor: 0,
            inverse_indicator: b'N',
        };
        return vec![directory.to_bytes(header).to_vec()];
    }
    let add = AddOrder {
        order_reference: number,
        side: if number.is_multiple_of(2) { b'B' } else { b'S' },
        shares: 100,
        stock: symbol,
        price: 1_000_000 + 100 * u32::try_from(number % 7).expect("few"),
    };
    let mut messages = vec![add.to_bytes(header).to_vec()];
    let order_reference = number - 1;
    messages.push(match number % 3 {
        0 => OrderExecuted { order_reference, executed_shares: 40, match_number: number }
            .to_bytes(header)
            .to_vec(),
        1 => OrderCancel { order_reference, cancelled_shares: 10 }.to_bytes(header).to_vec(),
        _ => OrderDelete { order_reference }.to_bytes(header).to_vec(),
    });
    messages
}

fn joined(messages: &[Vec<u8>]) -> Vec<u8> {
    messages.concat()
}

/// The messages of a day file, each behind its length.
fn day_file(session: u64) -> Vec<Vec<u8>> {
    let framed = |message: Vec<u8>| {
        let len = u16::try_from(message.len()).expect("a short message");
        [&len.to_be_bytes()[..], &message].concat()
    };
    let of_number = |number: u64| {
        let timestamp = session * 3_600 * SECOND + number * SECOND;
        itch_messages(number, &Header { stock_locate: 1, tracking_number: 0, timestamp })
    };
    (1..=PACKETS).flat_map(of_number).map(framed).collect()
}

/// A session over IEX-TP: a packet for each message, which is made of its number and its time.
fn iex(protocol: u16, session: u64, message: fn(u64, u64) -> Vec<u8>) -> Vec<Vec<u8>> {
    let (mut offset, mut packets) = (0_u64, Vec::new());
    for number in 1..=PACKETS {
        let time = 1_700_000_000 * SECOND + session * 3_600 * SECOND + number * SECOND;
        let message = if number == 1 { directory(time) } else { message(number, time) };
        let len = u16::try_from(message.len()).expect("a short message");
        let mut packet = vec![1, 0];
        packet.extend(protocol.to_le_bytes());
        packet.extend(1_u32.to_le_bytes());
        packet.extend(u32::try_from(session).expect("few sessions").to_le_bytes());
        packet.extend((len + 2).to_le_bytes());
        packet.extend(1_u16.to_le_bytes());
        packet.extend(offset.to_le_bytes());
        packet.extend(number.to_le_bytes());
        packet.extend(time.to_le_bytes());
        packet.extend(len.to_le_bytes());
        packet.extend(message);
        packets.push(packet);
        offset += u64::from(len) + 2;
    }
    packets
}

/// The beginning of a message of IEX, up to the symbol.
fn iex_message(kind: u8, code: u8, time: u64) -> Vec<u8> {
    let mut message = vec![kind, code];
    message.extend(time.to_le_bytes());
    message.extend(b"AAPL    ");
    message
}

fn directory(time: u64) -> Vec<u8> {
    let mut message = iex_message(b'D', 0, time);
    message.extend(100_u32.to_le_bytes());
    message.extend(1_000_000_i64.to_le_bytes());
    message.push(1);
    message
}

/// A price around a hundred dollars.
fn iex_price(number: u64) -> [u8; 8] {
    (1_000_000 + 100 * (number % 7)).to_le_bytes()
}

fn deep(session: u64) -> Vec<Vec<u8>> {
    iex(0x8004, session, |number, time| {
        let side = if number.is_multiple_of(2) { b'8' } else { b'5' };
        let mut message = iex_message(side, 1, time);
        message.extend(u32::try_from(100 * (number % 4)).expect("few").to_le_bytes());
        message.extend(iex_price(number));
        message
    })
}

/// Orders, each added, then changed, executed and deleted by the next three messages.
fn deep_plus(session: u64) -> Vec<Vec<u8>> {
    iex(0x8005, session, |number, time| {
        let (kind, code) = [(b'a', b'8'), (b'M', 1), (b'L', 0), (b'R', 0)][number as usize % 4];
        let mut message = iex_message(kind, code, time);
        message.extend((number / 4).to_le_bytes());
        if kind != b'R' {
            message.extend(100_u32.to_le_bytes());
            message.extend(iex_price(number / 4));
        }
        if kind == b'L' {
            message.extend(number.to_le_bytes());
        }
        message
    })
}

/// Quotes, and a trade behind each.
fn tops(session: u64) -> Vec<Vec<u8>> {
    iex(0x8003, session, |number, time| {
        if number.is_multiple_of(2) {
            let mut message = iex_message(b'Q', 0, time);
            message.extend(100_u32.to_le_bytes());
            message.extend(iex_price(number));
            message.extend(iex_price(number + 1));
            message.extend(200_u32.to_le_bytes());
            return message;
        }
        let mut message = iex_message(b'T', 0, time);
        message.extend(50_u32.to_le_bytes());
        message.extend(iex_price(number));
        message.extend(number.to_le_bytes());
        message
    })
}

/// The session and number of a block.
struct BlockNumber {
    session: u64,
    number: u64,
}

/// A block of an aggregator: `start` up to its number, then one message.
fn block(framing: &Framing, start: &[u8], at: BlockNumber, message: &[u8]) -> Vec<u8> {
    let BlockNumber { session, number } = at;
    let mut block = start.to_vec();
    block.extend(u32::try_from(number).expect("few").to_be_bytes());
    block.push(1);
    let seconds = 1_700_000_000 + session * 3_600 + number;
    block.extend(u32::try_from(seconds).expect("of this century").to_be_bytes());
    block.extend([0; 6]);
    block.extend(message);
    seal(framing, &mut block);
    block
}

/// A session of blocks: a reset of the numbers, then quotes.
fn opra(session: u64) -> Vec<Vec<u8>> {
    let packet = |number| {
        let mut message = vec![b'A', b'k', b' ', b' '];
        if number == 1 {
            message[1..3].copy_from_slice(b"HC");
            message.resize(MessageHeader::LEN, 0);
        } else {
            message.resize(MessageHeader::LEN, 0);
            message.extend(b"AAPL \0A\x0f\x18B");
            message.resize(MessageHeader::LEN + LongQuote::LEN, 0);
        }
        block(&OPRA, &[6, 0, 0, b'O', b' ', 0], BlockNumber { session, number }, &message)
    };
    (1..=PACKETS).map(packet).collect()
}

/// Trades of whole shares behind the start of the day.
fn cts(session: u64) -> Vec<Vec<u8>> {
    let packet = |number: u64| {
        let (kind, body) = if number == 1 { (b"CA", vec![]) } else { (b"TL", long_trade(number)) };
        let len = u16::try_from(2 + CtaHeader::LEN + body.len()).expect("a short message");
        let mut message = len.to_be_bytes().to_vec();
        message.extend(kind);
        message.push(b'N');
        message.resize(2 + CtaHeader::LEN, 0);
        message.extend(body);
        block(&CTA, &[1, 0, 0, b'T', b'O'], BlockNumber { session, number }, &message)
    };
    (1..=PACKETS).map(packet).collect()
}

fn long_trade(number: u64) -> Vec<u8> {
    let mut body = b"AAPL       0@   ".to_vec();
    body.extend((100_000_000 + 10_000 * number).to_be_bytes());
    body.extend(100_u32.to_be_bytes());
    body.resize(LongTrade::LEN, b' ');
    let last = body.len() - 2;
    body[last..].copy_from_slice(b"AA");
    body
}

/// Records of orders, and a mapping of their instrument.
fn records(session: u64) -> Vec<Vec<u8>> {
    let order = |number: u64| {
        let time = DAY_OF_RECORDS * DAY + session * 3_600 * SECOND + number * SECOND;
        let mut record = vec![14, rtype::MBO, 2, 0];
        record.extend(INSTRUMENT.to_le_bytes());
        record.extend(time.to_le_bytes());
        record.extend((number / 3).to_le_bytes());
        record.extend((100_000_000_000 + 10_000_000 * (number % 7)).to_le_bytes());
        record.extend(100_u32.to_le_bytes());
        let side = if (number / 3).is_multiple_of(2) { b'B' } else { b'A' };
        record.extend([0, 0, b"AMC"[number as usize % 3], side]);
        record.extend(time.to_le_bytes());
        record.extend([0; 8]);
        record
    };
    let mut mapping = vec![44, rtype::SYMBOL_MAPPING, 0, 0];
    mapping.extend(INSTRUMENT.to_le_bytes());
    mapping.resize(176, 0);
    mapping[89..93].copy_from_slice(b"AAPL");
    std::iter::once(mapping).chain((3..=PACKETS).map(order)).collect()
}

/// The day of the records, since the Unix epoch: 2026-01-05.
const DAY_OF_RECORDS: u64 = 20_458;
/// The dataset's number of the instrument.
const INSTRUMENT: u32 = 7;

/// Writes a file of DBN: the metadata with a mapping, then the records.
fn dbn_file(records: &[Vec<u8>]) -> Vec<u8> {
    let date = |day| time::Date::from_calendar_date(2026, time::Month::January, day).unwrap();
    let symbol = INSTRUMENT.to_string();
    let interval = MappingInterval { start_date: date(5), end_date: date(6), symbol };
    let mapping = SymbolMapping { raw_symbol: "AAPL".to_owned(), intervals: vec![interval] };
    let metadata = Metadata::builder()
        .version(3)
        .dataset("XNAS.ITCH")
        .schema(Some(Schema::Mbo))
        .start(DAY_OF_RECORDS * DAY)
        .stype_in(Some(SType::RawSymbol))
        .stype_out(SType::InstrumentId)
        .mappings(vec![mapping])
        .build();
    let encoder = Encoder::new(Vec::new(), &metadata).unwrap();
    [&encoder.get_ref()[..], &records.concat()].concat()
}

fn cqs(session: u64) -> Vec<Vec<u8>> {
    let packet = |number| {
        let len: u16 = 100;
        let mut message = len.to_be_bytes().to_vec();
        message.extend(if number == 1 { b"CA" } else { b"QQ" });
        message.resize(usize::from(len), b' ');
        block(&CTA, &[1, 0, 0, b'Q', b'O'], BlockNumber { session, number }, &message)
    };
    (1..=PACKETS).map(packet).collect()
}
