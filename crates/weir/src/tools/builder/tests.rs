//! A market made of packets that the tests make, and of a real capture where there is one.

use weir_feed::itch::encode::{AddOrder, Header, OrderExecuted, stock};
use weir_feed::moldudp64::{PacketWriter, Pushed, Session};
use weir_market::book::BookLevel;
use weir_marketgate::feeds::feed_by_name;
use weir_types::{Price, Qty, Side};

use super::*;

const A: &str = "233.54.12.111:26477";
const B: &str = "233.54.12.112:26477";

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn header(stock_locate: u16) -> Header {
    Header { stock_locate, tracking_number: 0, timestamp: 34_200_000_000_000 }
}

fn add(order_id: u64, side: u8, price: u32, shares: u32) -> Vec<u8> {
    let stock = stock("WEIR").expect("a symbol");
    let order = AddOrder { order_reference: order_id, side, shares, stock, price };
    order.to_bytes(&header(7)).to_vec()
}

fn execute(order_id: u64, executed_shares: u32) -> Vec<u8> {
    let executed = OrderExecuted { order_reference: order_id, executed_shares, match_number: 1 };
    executed.to_bytes(&header(7)).to_vec()
}

/// A packet for each message.
fn packets(messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut writer = PacketWriter::new(Session::new("0000000001").expect("a session"), 1, 1_400);
    let packet = |message: &Vec<u8>| {
        assert_eq!(writer.push(message), Pushed::Added);
        writer.take(<[u8]>::to_vec).expect("it has a message")
    };
    messages.iter().map(packet).collect()
}

fn take(builder: &mut Builder, packet: &[u8], dst: &str, at: u64) {
    let src = address("10.0.0.1:1");
    let ts_recv = Nanos(at);
    builder.datagram(&Datagram { ts_recv, src, dst: address(dst), payload: packet });
}

fn itch(pairs: &[(SocketAddr, SocketAddr)]) -> Builder {
    Builder::new((feed_by_name("itch").expect("it is known").feed)(), pairs)
}

fn day() -> Vec<Vec<u8>> {
    packets(&[
        add(1, b'B', 100_0000, 300),
        add(2, b'S', 100_5000, 200),
        add(3, b'B', 100_0000, 50),
        execute(1, 100),
    ])
}

const WEIR: InstrumentId = InstrumentId(7);

fn best(builder: &Builder, side: Side) -> Option<(Price, Qty, u32)> {
    let best = builder.books().best(WEIR).of(side);
    best.map(|BookLevel { price, size, order_count }| (price, size, order_count))
}

#[test]
fn what_packets_say_is_in_the_book() {
    let mut builder = itch(&[]);
    for (at, packet) in day().iter().enumerate() {
        take(&mut builder, packet, A, at as u64);
    }
    let bid = (Price(100_000_000_000), Qty(250), 2);
    assert_eq!(best(&builder, Side::Buy), Some(bid));
    assert_eq!(best(&builder, Side::Sell), Some((Price(100_500_000_000), Qty(200), 1)));
    assert_eq!(builder.books().statistics(WEIR).volume, Qty(100));
    assert!(!builder.books().is_stale(WEIR));
    assert_eq!(*builder.counts(), BuilderCounts { messages: 4, updates: 4, ..Default::default() });
}

#[test]
fn what_one_line_lost_comes_by_the_other_and_what_both_lost_makes_books_stale() {
    let (day, second) = (day(), 2_000_000_000);
    for (has_other_line, is_stale, lost) in [(true, false, 0), (false, true, 1)] {
        let mut builder = itch(&[(address(A), address(B))]);
        take(&mut builder, &day[0], A, 0);
        if has_other_line {
            take(&mut builder, &day[1], B, 1);
        }
        take(&mut builder, &day[2], A, 2);
        take(&mut builder, &day[3], A, second);
        assert_eq!(builder.books().is_stale(WEIR), is_stale);
        assert_eq!(builder.counts().lost, lost);
        assert_eq!(best(&builder, Side::Sell).is_some(), has_other_line);
        assert_eq!(best(&builder, Side::Buy).map(|best| best.1), Some(Qty(250)));
    }
}

#[test]
fn what_is_not_of_the_feed_or_not_understood_is_counted_and_passed_over() {
    let mut builder = itch(&[]);
    take(&mut builder, b"something else", A, 0);
    let unknown = packets(&[b"?what is this".to_vec(), add(1, b'B', 100_0000, 300)]);
    for packet in &unknown {
        take(&mut builder, packet, A, 1);
    }
    let counts = builder.counts();
    assert_eq!((counts.strangers, counts.refused, counts.updates), (1, 1, 1));
    assert!(matches!(builder.last_error(), Some(FeedError::UnknownType { .. })));
}

#[test]
fn a_real_capture_of_iex_is_understood_to_the_last_message() {
    let Some(path) = weir_skip::recorded("iex/TOPS16.pcapng.gz") else { return };
    let mut file = CaptureFile::open(&path).expect("it is there");
    let mut builder = Builder::new((feed_by_name("iex-tops").expect("known").feed)(), &[]);
    assert!(builder.read(&mut file).is_none());
    let counts = builder.counts();
    assert_eq!((counts.strangers, counts.refused), (0, 0), "{:?}", builder.last_error());
    assert!(counts.messages > 13_022 / 2 && counts.updates >= counts.messages / 2, "{counts:?}");
    assert_eq!(builder.books().anomalies().total(), 0);
    // As a few lines of Python count the trade reports of the same file.
    let day = |one: &Definition| builder.books().statistics(one.instrument_id);
    let traded = builder.definitions().filter(|one| day(one).volume > Qty(0)).count();
    assert_eq!(traded, 23);
    let aapl = builder.instrument("AAPL").expect("it trades");
    let day = builder.books().statistics(aapl);
    assert_eq!((day.volume, day.trade_count), (Qty(64_705), 268));
}
