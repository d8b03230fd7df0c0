//! Bytes that no market ever sent: readers report the error, and never panic.

use weir_client::flow::{
    FlowEvent, FlowHeader, FlowItem, FlowKind, FlowRow, FlowToOrders, Level, LobsterFlow, Oracle,
    RowLevel, Survey, TimeBase, UnpackError, bitstamp, bitstamp_flow, decode, encode, lobster,
    unpack,
};
use weir_types::{Nanos, Price, Qty, Side};

use crate::slow_book::SlowBook;

/// A small generator with a fixed seed, so that every run tries the same bytes.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    /// Changes a few bytes, inserts one or cuts the end.
    fn spoil(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.roll(3) {
            let at = self.roll(bytes.len() as u64 + 1) as usize;
            match self.roll(8) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, b"0,.-\n e\xff"[self.roll(8) as usize]),
                _ if at < bytes.len() => bytes[at] = self.roll(256) as u8,
                _ => {}
            }
        }
        bytes
    }
}

fn event(ts: u64, id: u64, kind: FlowKind, side: Side, price: i64, qty: u64) -> FlowItem {
    let (ts, price, qty) = (Nanos(ts), Price(price), Qty(qty));
    FlowItem::Event(FlowEvent { ts, source_order_id: id, kind, side, price, qty })
}

/// A stream with every kind of event in it.
fn every_kind() -> (FlowHeader, Vec<FlowItem>) {
    use FlowKind::{
        Add, Delete, ExecuteVisible, Fill, Halt, HiddenExecution, PartialCancel, QuoteResume, Seed,
        TradeResume, Vanish,
    };
    let row_level = |price, qty, seeded| RowLevel {
        level: Level { price: Price(price), qty: Qty(qty) },
        seeded,
    };
    let header = FlowHeader {
        source: "made up".to_owned(),
        instrument: "XYZ".to_owned(),
        price_exponent: -2,
        qty_exponent: 0,
        time_base: TimeBase::Midnight,
    };
    let items = vec![
        event(5, 1 << 63, Seed, Side::Buy, -5, 10),
        event(6, 2, Add, Side::Sell, 7, 20),
        event(6, u64::MAX, Seed, Side::Sell, i64::MAX, 1),
        event(7, 2, ExecuteVisible, Side::Sell, 7, 3),
        event(7, 2, PartialCancel, Side::Sell, 7, 4),
        FlowItem::Row(FlowRow {
            ts: Nanos(7),
            bids: vec![row_level(-5, 10, true), row_level(-6, 1, false)],
            asks: vec![row_level(7, 13, false)],
            contradicts_events: true,
        }),
        event(8, 3, Add, Side::Buy, 7, 13),
        event(8, 2, Fill, Side::Sell, 7, 13),
        event(9, 0, HiddenExecution, Side::Buy, 3, 1),
        event(9, 0, Halt, Side::Sell, -1, 0),
        event(9, 0, QuoteResume, Side::Sell, 0, 0),
        event(9, 0, TradeResume, Side::Sell, 1, 0),
        event(10, 1 << 63, Vanish, Side::Buy, -5, 4),
        event(11, 1 << 63, Delete, Side::Buy, -5, 6),
        FlowItem::Row(FlowRow {
            ts: Nanos(12),
            bids: vec![],
            asks: vec![row_level(i64::MAX, 1, false)],
            contradicts_events: false,
        }),
    ];
    (header, items)
}

#[test]
fn every_kind_of_event_packs_and_unpacks_to_itself() {
    let (header, items) = every_kind();
    let bytes = encode(&header, &items).unwrap();
    let got = decode(&bytes).unwrap();
    assert_eq!((got.header, got.items), (header, items));
}

#[test]
fn a_stream_that_does_not_fit_itself_is_not_packed() {
    let (header, items) = every_kind();
    let ghost = event(13, 77, FlowKind::Delete, Side::Buy, 1, 1);
    let error = encode(&header, &[items[0].clone(), ghost]).unwrap_err();
    assert_eq!(error.to_string(), "item 1: the order does not stand");
    let back = [items[1].clone(), items[0].clone()];
    assert_eq!(encode(&header, &back).unwrap_err().to_string(), "item 1: time runs back");
}

#[test]
fn a_spoiled_packed_file_is_refused_with_its_reason() {
    let (header, items) = every_kind();
    let bytes = encode(&header, &items).unwrap();
    for len in 0..bytes.len() {
        assert!(decode(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
    }
    for at in 0..bytes.len() {
        let mut spoiled = bytes.clone();
        spoiled[at] ^= 0x10;
        assert!(decode(&spoiled).is_err(), "byte {at}");
    }
    let mut version = bytes.clone();
    version[8] = 9;
    assert_eq!(decode(&version), Err(UnpackError::Version(9)));
    assert_eq!(decode(b"PK"), Err(UnpackError::NotAFlow));
}

#[test]
fn no_bytes_make_the_unpacker_or_what_stands_behind_it_panic() {
    let (header, items) = every_kind();
    let bytes = encode(&header, &items).unwrap();
    let content = &bytes[9..bytes.len() - 4];
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut unpacked = 0;
    for _ in 0..20_000 {
        if let Ok(flow) = unpack(&dice.spoil(content)) {
            unpacked += 1;
            let mut oracle = Oracle::new(SlowBook::default());
            flow.items.iter().for_each(|item| oracle.apply(item));
        }
    }
    println!("{unpacked} of 20000 spoiled streams were still streams");
    assert_ne!(unpacked, 0, "the bytes were spoiled so much that nothing was tried");
}

#[test]
fn no_order_of_events_makes_the_orders_or_the_oracle_panic() {
    let (_, items) = every_kind();
    let mut dice = Dice(42);
    for _ in 0..2_000 {
        let mut orders = FlowToOrders::new();
        let mut oracle = Oracle::new(SlowBook::default());
        for _ in 0..60 {
            let mut item = items[dice.roll(items.len() as u64) as usize].clone();
            if let FlowItem::Event(event) = &mut item {
                event.source_order_id = 1 + dice.roll(4);
                event.price = Price(dice.roll(3) as i64);
                event.qty = Qty(dice.roll(12));
                event.side = [Side::Buy, Side::Sell][dice.roll(2) as usize];
                orders.apply(event);
            }
            oracle.apply(&item);
        }
        oracle.finish();
    }
}

#[test]
fn no_bytes_make_the_parsers_or_what_stands_behind_them_panic() {
    let messages = "34200.1,1,16,18,100,1\n34200.2,4,16,8,100,1\n34201,3,16,10,100,1\n\
                    34202,4,9,5,101,-1\n34203,7,0,0,-1,-1\n34204,2,11,1,99,1\n";
    let rows = "101,5,100,18\n101,5,100,10\n101,5,99,2\n102,1,99,2\n102,1,99,2\n102,1,99,1\n";
    let order = |ms, kind, price, amount, id, side| {
        format!(
            "{ms} order_{kind} {{\"price\": \"{price}\", \"amount\": \"{amount}\", \
             \"id\": {id}, \"order_type\": {side}}}\n"
        )
    };
    let log = [
        order(7, "created", "2.5", "1", 5, 0),
        order(8, "created", "2.4", "1", 6, 1),
        order(9, "deleted", "2.4", "0", 6, 1),
        order(9, "deleted", "2.5", "0", 5, 0),
        "9 trade {\"price\": 2.5, \"amount\": 1.0, \"id\": 1}\n".to_owned(),
        r#"10 order_book {"bids": [["2.00", "1.0"]], "asks": [["3", "0.5"]]}"#.to_owned(),
    ]
    .concat();
    let mut dice = Dice(7);
    for _ in 0..20_000 {
        let (one, two) = (dice.spoil(messages.as_bytes()), dice.spoil(rows.as_bytes()));
        let day = lobster::LobsterDay::new(&one[..], &two[..], "spoiled");
        let read: Vec<_> = day.map_while(Result::ok).collect();
        let mut flow = LobsterFlow::new(Survey::of(read.iter().map(|(message, _)| message)));
        let mut items = Vec::new();
        read.iter().for_each(|(message, row)| flow.push(message, row, &mut items));
        let text = dice.spoil(log.as_bytes());
        let records: Vec<_> =
            bitstamp::BitstampLog::new(&text[..], "spoiled").map_while(Result::ok).collect();
        items.extend(bitstamp_flow(&records).items);
        let mut oracle = Oracle::new(SlowBook::default());
        items.iter().for_each(|item| oracle.apply(item));
    }
}
