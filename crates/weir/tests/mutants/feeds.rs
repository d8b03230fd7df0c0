//! Recordings of each framing, as datagrams, and the places of the fields in their headers.

use std::ops::Range;

use weir_feed::capture::Datagram;
use weir_feed::itch::encode::{
    AddOrder, Header, OrderCancel, OrderDelete, OrderExecuted, StockDirectory, stock,
};
use weir_feed::moldudp64::{MoldSession, PacketWriter};
use weir_feed::opra::{MessageHeader, message::LongQuote};
use weir_feed::session_name::{Calendar, session_name};
use weir_types::{Epoch, Nanos};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
/// Packets of a recording.
const PACKETS: u64 = 30;

/// A feed with its framing.
#[derive(Debug)]
pub struct MutatedFeed {
    pub name: &'static str,
    pub framing: &'static Framing,
    /// The packets of a session with this number.
    pub session: fn(u64) -> Vec<Vec<u8>>,
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

/// All feeds that come in datagrams, one of each framing and sort of book.
pub const FEEDS: &[MutatedFeed] = &[
    MutatedFeed { name: "itch", framing: &MOLD, session: itch },
    MutatedFeed { name: "iex-deep", framing: &IEX_TP, session: deep },
    MutatedFeed { name: "weir", framing: &MOLD, session: own },
    MutatedFeed { name: "opra", framing: &OPRA, session: opra },
    MutatedFeed { name: "cqs", framing: &CTA, session: cqs },
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
    mold(session_name(Calendar::new(22), Nanos(20_000 * DAY), Epoch(epoch)))
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

fn deep(session: u64) -> Vec<Vec<u8>> {
    let (mut offset, mut packets) = (0_u64, Vec::new());
    for number in 1..=PACKETS {
        let time = 1_700_000_000 * SECOND + session * 3_600 * SECOND + number * SECOND;
        let message = if number == 1 {
            let mut message = vec![b'D', 0];
            message.extend(time.to_le_bytes());
            message.extend(b"AAPL    ");
            message.extend(100_u32.to_le_bytes());
            message.extend(1_000_000_i64.to_le_bytes());
            message.push(1);
            message
        } else {
            let mut message = vec![if number.is_multiple_of(2) { b'8' } else { b'5' }, 1];
            message.extend(time.to_le_bytes());
            message.extend(b"AAPL    ");
            message.extend(u32::try_from(100 * (number % 4)).expect("few").to_le_bytes());
            message.extend((1_000_000 + 100 * (number % 7).cast_signed()).to_le_bytes());
            message
        };
        let len = u16::try_from(message.len()).expect("a short message");
        let mut packet = vec![1, 0, 0x04, 0x80, 1, 0, 0, 0];
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
