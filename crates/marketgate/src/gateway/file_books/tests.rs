//! A market made of packets that the tests make, and of a real capture where there is one.

use weir_feed::capture::Datagram;
use weir_feed::feed_by_name;
use weir_feed::itch::encode::{AddOrder, Header, OrderExecuted, StockDirectory, stock};
use weir_feed::moldudp64::{MoldSession, PacketWriter, PushOutcome};
use weir_market::book::BookLevel;
use weir_types::{Price, Qty, Side};

use super::*;
use crate::capture::CaptureWriter;

const A: &str = "233.54.12.111:26477";
const B: &str = "233.54.12.112:26477";

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn header(stock_locate: u16) -> Header {
    Header { stock_locate, tracking_number: 0, timestamp: 34_200_000_000_000 }
}

pub(super) fn add(order_id: u64, side: u8, price: u32, shares: u32) -> Vec<u8> {
    let stock = stock("WEIR").expect("a symbol");
    let order = AddOrder { order_reference: order_id, side, shares, stock, price };
    order.to_bytes(&header(7)).to_vec()
}

fn execute(order_id: u64, executed_shares: u32) -> Vec<u8> {
    let executed = OrderExecuted { order_reference: order_id, executed_shares, match_number: 1 };
    executed.to_bytes(&header(7)).to_vec()
}

pub(super) fn directory() -> Vec<u8> {
    let directory = StockDirectory {
        stock: stock("WEIR").expect("a symbol"),
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
    directory.to_bytes(&header(7)).to_vec()
}

/// A packet for each message.
fn packets(messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    packets_from(1, messages)
}

/// A packet for each message; the first has the number `first`.
fn packets_from(first: u64, messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut writer =
        PacketWriter::new(MoldSession::new("0000000001").expect("a session"), first, 1_400);
    let packet = |message: &Vec<u8>| {
        assert_eq!(writer.push(message), PushOutcome::Added);
        writer.take(<[u8]>::to_vec).expect("it has a message")
    };
    messages.iter().map(packet).collect()
}

/// Datagrams as they arrive: time, destination, bytes.
type Arrived<'a> = (u64, &'a str, &'a [u8]);

/// The books of a capture with these datagrams.
fn itch(arrived: &[Arrived<'_>], pairs: &[(SocketAddr, SocketAddr)]) -> FileBooks {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.pcap");
    let mut writer = CaptureWriter::create(&path).expect("a new file");
    for (at, dst, payload) in arrived {
        let (src, dst) = (address("10.0.0.1:1"), address(dst));
        writer.write(&Datagram { ts_recv: Nanos(*at), src, dst, payload }).expect("it is written");
    }
    writer.finish().expect("it ends");
    let file = CaptureFile::open(&path).expect("it is there");
    let entry = feed_by_name("itch").expect("it is known");
    let mut market = FileBooks::open(entry, file, pairs).expect("it has captures");
    assert!(market.read().is_none());
    market
}

fn day() -> Vec<Vec<u8>> {
    packets(&[
        directory(),
        add(1, b'B', 100_0000, 300),
        add(2, b'S', 100_5000, 200),
        add(3, b'B', 100_0000, 50),
        execute(1, 100),
    ])
}

const WEIR: InstrumentId = InstrumentId(7);

fn best(market: &FileBooks, side: Side) -> Option<(Price, Qty, u32)> {
    let best = market.books().best(WEIR).of(side);
    best.map(|BookLevel { price, size, order_count }| (price, size, order_count))
}

#[test]
fn orders_of_a_capture_are_in_the_book_at_its_end() {
    let day = day();
    let arrived: Vec<_> = (0..).zip(&day).map(|(at, packet)| (at, A, &packet[..])).collect();
    let market = itch(&arrived, &[]);
    let bid = (Price(100_000_000_000), Qty(250), 2);
    assert_eq!(best(&market, Side::Buy), Some(bid));
    assert_eq!(best(&market, Side::Sell), Some((Price(100_500_000_000), Qty(200), 1)));
    assert_eq!(market.books().statistics(WEIR).volume, Qty(100));
    assert_eq!(market.instrument("WEIR"), Some(WEIR));
    assert!(!market.is_stale(WEIR));
    let want = FileBooksCounts { messages: 5, updates: 4, ..Default::default() };
    assert_eq!(market.counts(), want);
}

#[test]
fn a_loss_on_one_line_comes_by_the_other_and_a_loss_on_both_makes_the_book_stale() {
    let (day, second) = (day(), 2_000_000_000);
    for (has_other_line, is_stale, lost) in [(true, false, 0), (false, true, 1)] {
        let mut arrived: Vec<Arrived<'_>> = vec![(0, A, &day[0]), (1, A, &day[1])];
        if has_other_line {
            arrived.push((1, B, &day[2]));
        }
        arrived.extend([(2, A, &day[3][..]), (second, A, &day[4])]);
        let market = itch(&arrived, &[(address(A), address(B))]);
        assert_eq!(market.is_stale(WEIR), is_stale);
        assert_eq!(market.counts().lost, lost);
        assert_eq!(best(&market, Side::Sell).is_some(), has_other_line);
        assert_eq!(best(&market, Side::Buy).map(|best| best.1), Some(Qty(250)));
    }
}

#[test]
fn numbers_at_their_ends_on_two_groups_have_a_sum() {
    let far = packets_from(u64::MAX - 1, &[directory()]);
    let market = itch(&[(0, A, &far[0]), (0, B, &far[0])], &[]);
    assert_eq!(market.counts().lost, u64::MAX);
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_of_an_unbounded_sum_is_found_in_a_file() {
    use crate::plant::{self, Plant};
    plant::set(Some(Plant::LostSumUnbounded));
    let is_found =
        std::panic::catch_unwind(numbers_at_their_ends_on_two_groups_have_a_sum).is_err();
    plant::set(None);
    assert!(is_found);
}

#[test]
fn other_datagrams_and_unknown_messages_are_counted_and_passed_over() {
    let unknown = packets(&[b"?an unknown type".to_vec(), add(1, b'B', 100_0000, 300)]);
    let market = itch(&[(0, A, b"something else"), (1, A, &unknown[0]), (1, A, &unknown[1])], &[]);
    let counts = market.counts();
    assert_eq!((counts.strangers, counts.refused, counts.updates), (1, 1, 1));
    assert!(matches!(market.last_error(), Some(FeedError::UnknownType { .. })));
}

#[test]
fn a_file_of_another_kind_is_refused_with_the_kind_that_the_feed_has() {
    let day_file = [b"\0\x13".as_slice(), &[b'S'; 19]].concat();
    let file = CaptureFile::new(Box::new(std::io::Cursor::new(day_file))).expect("a day file");
    let refused = FileBooks::open(feed_by_name("iex-deep").expect("it is known"), file, &[]);
    let refused = refused.err().expect("it has none").to_string();
    assert!(refused.contains("day file"), "{refused}");
}

#[test]
fn a_real_capture_of_iex_is_understood_to_the_last_message() {
    let Some(path) = weir_skip::recorded("iex/TOPS16.pcapng.gz") else { return };
    let file = CaptureFile::open(&path).expect("it is there");
    let entry = feed_by_name("iex-tops").expect("it is known");
    let mut market = FileBooks::open(entry, file, &[]).expect("it has captures");
    assert!(market.read().is_none());
    let counts = market.counts();
    assert_eq!((counts.strangers, counts.refused), (0, 0), "{:?}", market.last_error());
    assert!(counts.messages > 13_022 / 2 && counts.updates >= counts.messages / 2, "{counts:?}");
    assert_eq!(market.books().anomalies().total(), 0);
    // As a few lines of Python count the trade reports of the same file.
    let day = |one: &Definition| market.books().statistics(one.instrument_id);
    let traded = market.definitions().filter(|one| day(one).volume > Qty(0)).count();
    assert_eq!(traded, 23);
    let aapl = market.instrument("AAPL").expect("it trades");
    let day = market.books().statistics(aapl);
    assert_eq!((day.volume, day.trade_count), (Qty(64_705), 268));
}
