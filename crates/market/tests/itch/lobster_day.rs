//! LOBSTER's days as ITCH over MoldUDP64: the decoded messages yield the book of every row.

use std::collections::{BTreeMap, HashMap};
use std::io::Cursor;

use weir_client::flow::lobster::LobsterDay;
use weir_client::flow::{FlowItem, FlowRow, LobsterFlow, RowLevel, Survey, load};
use weir_feed::itch::Itch;
use weir_feed::{Action, CollectedUpdates, Context, Feed, PacketKind};
use weir_types::{InstrumentId, Nanos, Price, Side};

use crate::data::data;
use crate::lobster_itch::{Datagrams, Transcoder};

/// The rows that the book must equal after a message, by its number.
type Rows = HashMap<u64, Vec<FlowRow>>;

/// A slow, simple book.
#[derive(Default)]
struct SlowBook {
    orders: HashMap<u64, (Side, Price, u64)>,
    levels: [BTreeMap<Price, u64>; 2],
    hidden: u64,
}

impl SlowBook {
    fn apply(&mut self, action: Action) {
        match action {
            Action::Add { order_id, side, price, size } => {
                let was = self.orders.insert(order_id, (side, price, 0));
                assert_eq!(was, None, "order {order_id} twice");
                self.change(order_id, size.0.cast_signed());
            }
            Action::Execute { order_id, size, price: None, .. }
            | Action::Reduce { order_id, size } => {
                self.change(order_id, -size.0.cast_signed());
            }
            Action::Delete { order_id } => {
                let left = self.orders[&order_id].2;
                self.change(order_id, -left.cast_signed());
            }
            Action::Trade { .. } => self.hidden += 1,
            Action::System(_) | Action::Status { .. } => {}
            other => panic!("no LOBSTER day has {other:?}"),
        }
    }

    fn change(&mut self, order_id: u64, by: i64) {
        let order = self.orders.get_mut(&order_id).expect("an order that stands");
        let (side, price, left) = order;
        *left = left.checked_add_signed(by).expect("no more than stands");
        let level = self.levels[usize::from(*side == Side::Sell)].entry(*price).or_default();
        *level = level.checked_add_signed(by).expect("no more than stands");
        if *level == 0 {
            self.levels[usize::from(*side == Side::Sell)].remove(&order.1);
        }
        if order.2 == 0 {
            self.orders.remove(&order_id);
        }
    }

    /// Returns true when the top of the book equals the row.
    fn is(&self, row: &FlowRow) -> bool {
        // LOBSTER's prices are in 10^-4, a feed's in 10^-9.
        let same = |level: &RowLevel, (price, size): (&Price, &u64)| {
            level.level.price.0 * 100_000 == price.0 && level.level.qty.0 == *size
        };
        let bids = self.levels[0].iter().rev();
        let asks = self.levels[1].iter();
        self.levels[0].len() >= row.bids.len()
            && self.levels[1].len() >= row.asks.len()
            && row.bids.iter().zip(bids).all(|(level, held)| same(level, held))
            && row.asks.iter().zip(asks).all(|(level, held)| same(level, held))
    }
}

/// Returns the day in datagrams, and the rows that hold after each message number.
fn sent(items: &[FlowItem]) -> (Vec<Vec<u8>>, Rows) {
    let mut transcoder = Transcoder::new("AMZN", 7);
    let mut datagrams = Datagrams::new("LOBSTER", 1_472);
    let mut rows = Rows::new();
    let mut count = 0;
    transcoder.begin(|message| {
        count += 1;
        datagrams.push(message);
    });
    for item in items {
        match item {
            FlowItem::Event(event) => transcoder.event(event, |message| {
                count += 1;
                datagrams.push(message);
            }),
            FlowItem::Row(row) => rows.entry(count).or_default().push(row.clone()),
        }
    }
    (datagrams.end(), rows)
}

/// Returns the number of rows that equal the decoded book, and of those that do not.
fn compared(items: &[FlowItem]) -> (usize, usize) {
    let (datagrams, rows) = sent(items);
    let mut itch = Itch::new(Nanos(0));
    let mut book = SlowBook::default();
    let (mut sequence, mut equal, mut unequal) = (0, 0, 0);
    for datagram in &datagrams {
        let packet = itch.packet(datagram).expect("a packet");
        assert_eq!(packet.sequence, sequence + 1);
        let mut messages = packet.messages;
        for _ in 0..packet.count {
            sequence += 1;
            let (message, rest) = itch.next_message(messages).expect("a whole message");
            messages = rest;
            let mut sink = CollectedUpdates::default();
            let context = Context { sequence, channel: 0, ts_send: Nanos(0) };
            itch.decode(&context, message, &mut sink).expect("a good message");
            for update in sink.updates {
                assert!(update.instrument_id == InstrumentId(7) || sequence == 1);
                book.apply(update.action);
            }
            for row in rows.get(&sequence).into_iter().flatten() {
                if book.is(row) { equal += 1 } else { unequal += 1 }
            }
        }
        assert!(messages.is_empty());
    }
    let last = itch.packet(datagrams.last().expect("datagrams")).expect("a packet");
    assert_eq!(last.kind, PacketKind::EndOfSession);
    (equal, unequal)
}

fn rows_in(items: &[FlowItem]) -> usize {
    items.iter().filter(|item| matches!(item, FlowItem::Row(_))).count()
}

#[test]
fn a_day_sent_as_itch_gives_the_book_of_every_row() {
    for (name, rows) in [("AMZN_2012-06-21_1", 57_515), ("AAPL_2012-06-21_1", 118_497)] {
        let Some(path) = data(&format!("lobster/LOBSTER_SampleFile_{name}.zip")) else { return };
        let flow = load(&path).expect("a vendor's file reads");
        assert_eq!((compared(&flow.items), rows_in(&flow.items)), ((rows, 0), rows), "{name}");
    }
}

/// A synthetic day: a seed on each side, a new order, a partial cancel, an execution, a hidden one,
/// a halt, and the end of an order.
const MESSAGES: &str = "\
34200.000000001,1,11,100,1000000,1
34200.000000002,2,11,40,1000000,1
34200.000000003,4,11,10,1000000,1
34200.000000004,5,0,5,1000500,-1
34200.000000005,7,0,0,-1,-1
34200.000000006,7,0,0,1,-1
34200.000000007,3,11,50,1000000,1
";
const ROWS: &str = "\
1001000,70,1000000,100
1001000,70,1000000,60
1001000,70,1000000,50
1001000,70,1000000,50
1001000,70,1000000,50
1001000,70,1000000,50
1001000,70,999000,30
";

#[test]
fn a_made_up_day_gives_the_book_of_every_row() {
    let day = LobsterDay::new(Cursor::new(MESSAGES), Cursor::new(ROWS), "made up");
    let lines: Vec<_> = day.collect::<Result<_, _>>().expect("good lines");
    let mut flow = LobsterFlow::new(Survey::of(lines.iter().map(|(message, _)| message)));
    let mut items = Vec::new();
    for (message, row) in &lines {
        flow.push(message, row, &mut items);
    }
    assert_eq!(compared(&items), (7, 0));
    // A wrongly decoded message shows in the rows.
    let event = items.iter_mut().find_map(|item| match item {
        FlowItem::Event(event) if event.source_order_id == 11 => Some(event),
        _ => None,
    });
    event.expect("order 11").price.0 += 100;
    assert_ne!(compared(&items).1, 0);
}
