//! Tests of hand-made records. Files from the format's own encoder are tested with the node.

use weir_feed::dbn::Dbn;
use weir_feed::dbn::record::{RecordHeader, UNDEF_PRICE, flag, rtype};
use weir_feed::update::Action;
use weir_feed::{CollectedUpdates, Context, Feed, FeedError};
use weir_market::book::{Books, BooksConfig, OrderIds};
use weir_types::{InstrumentId, Nanos, Price, Qty, Side, TradingState};

const CONTEXT: Context = Context { sequence: 7, channel: 0, ts_send: Nanos(0) };
const PX: i64 = 1_000_000_000;

fn header(kind: u8, publisher: u16, instrument: u32) -> Vec<u8> {
    let mut record = vec![0, kind];
    record.extend(publisher.to_le_bytes());
    record.extend(instrument.to_le_bytes());
    record.extend(99_u64.to_le_bytes());
    assert_eq!(record.len(), RecordHeader::LEN);
    record
}

/// Builds an order record from number, price, size, action, side and flags.
fn mbo(order: u64, px: i64, size: u32, action: u8, side: u8, flags: u8) -> Vec<u8> {
    let mut record = header(rtype::MBO, 1, 5_000);
    record.extend(order.to_le_bytes());
    record.extend(px.to_le_bytes());
    record.extend(size.to_le_bytes());
    record.extend([flags, 0, action, side]);
    record.extend([0; 16]);
    record
}

/// Builds a record of price, size and action, followed by one or ten levels.
fn levels(kind: u8, px: i64, size: u32, action: u8, rows: &[[i64; 4]]) -> Vec<u8> {
    let mut record = header(kind, 1, 5_000);
    record.extend(px.to_le_bytes());
    record.extend(size.to_le_bytes());
    record.extend([action, b'A', 0, 0]);
    record.extend([0; 16]);
    for [bid, bid_sz, ask, ask_sz] in rows {
        record.extend(bid.to_le_bytes());
        record.extend(ask.to_le_bytes());
        for number in [bid_sz, ask_sz, &1, &2] {
            record.extend((*number as u32).to_le_bytes());
        }
    }
    record
}

fn ten(rows: &[[i64; 4]]) -> Vec<[i64; 4]> {
    let none = [UNDEF_PRICE, 0, UNDEF_PRICE, 0];
    rows.iter().copied().chain(std::iter::repeat(none)).take(10).collect()
}

struct Follower {
    feed: Dbn,
    told: CollectedUpdates,
    books: Books,
}

impl Follower {
    fn new() -> Follower {
        let config = BooksConfig { order_ids: OrderIds::OfInstrument, ..BooksConfig::default() };
        Follower { feed: Dbn::new(), told: CollectedUpdates::default(), books: Books::new(&config) }
    }

    fn take(&mut self, record: &[u8]) -> Result<(), FeedError> {
        let before = self.told.clone();
        let taken = self.feed.decode(&CONTEXT, record, &mut self.told);
        if taken.is_err() {
            assert_eq!(self.told.updates, before.updates, "nothing of a refused record is told");
            assert_eq!(self.told.definitions, before.definitions);
        }
        for update in &self.told.updates[before.updates.len()..] {
            let change = self.books.apply(update);
            assert!(change.anomalies.is_empty(), "{update:?}: {:?}", change.anomalies);
        }
        taken
    }

    fn queue(&self, side: Side) -> Vec<(u64, i64, u64)> {
        let orders = self.books.orders(InstrumentId(1), side);
        orders.map(|order| (order.order_id, order.price.0 / PX, order.size.0)).collect()
    }

    fn depth(&self, side: Side) -> Vec<(i64, u64)> {
        let levels = self.books.levels(InstrumentId(1), side, 20);
        levels.map(|level| (level.price.0 / PX, level.size.0)).collect()
    }
}

#[test]
fn orders_keep_and_lose_their_places_as_the_venue_has_it() {
    let mut follower = Follower::new();
    let (add, modify, cancel) = (b'A', b'M', b'C');
    for (order, px, size, action) in [
        (1, 10, 5, add),
        (2, 10, 5, add),
        (3, 10, 5, add),
        (4, 11, 5, add),
        // A smaller size keeps priority; a larger one or another price loses it.
        (1, 10, 4, modify),
        (2, 10, 6, modify),
        (4, 10, 5, modify),
        (3, 10, 2, cancel),
    ] {
        follower.take(&mbo(order, px * PX, size, action, b'B', 0)).expect("it is understood");
    }
    let want = [(1, 10, 4), (3, 10, 3), (2, 10, 6), (4, 10, 5)];
    assert_eq!(follower.queue(Side::Buy), want);
    // Priority also depends on the size left after a partial cancel.
    for (order, px, size, action) in [(2, 10, 3, cancel), (2, 10, 5, modify), (3, 10, 3, cancel)] {
        follower.take(&mbo(order, px * PX, size, action, b'B', 0)).expect("it is understood");
    }
    assert_eq!(follower.queue(Side::Buy), [(1, 10, 4), (4, 10, 5), (2, 10, 5)]);
    follower.take(&mbo(0, UNDEF_PRICE, 0, b'R', b'N', 0)).expect("it is understood");
    assert_eq!(follower.queue(Side::Buy), []);
    follower.take(&mbo(2, 10 * PX, 5, add, b'A', 0)).expect("numbers may come again");
    assert_eq!(follower.queue(Side::Sell), [(2, 10, 5)]);
}

#[test]
fn a_trade_counts_once_and_a_fill_changes_nothing_by_itself() {
    let mut follower = Follower::new();
    follower.take(&mbo(1, 10 * PX, 5, b'A', b'A', 0)).expect("it is understood");
    follower.take(&mbo(9, 10 * PX, 2, b'T', b'B', 0)).expect("it is understood");
    follower.take(&mbo(1, 10 * PX, 2, b'F', b'A', 0)).expect("it is understood");
    follower.take(&mbo(1, 10 * PX, 2, b'C', b'A', 0)).expect("it is understood");
    assert_eq!(follower.queue(Side::Sell), [(1, 10, 3)]);
    let day = follower.books.statistics(InstrumentId(1));
    assert_eq!((day.volume.0, day.trade_count, day.last), (2, 1, Some(Price(10 * PX))));
    let aggressors: Vec<_> = (follower.told.updates.iter())
        .filter_map(|update| match update.action {
            Action::Trade { aggressor, .. } => Some(aggressor),
            _ => None,
        })
        .collect();
    assert_eq!(aggressors, [Some(Side::Buy)]);
}

#[test]
fn a_book_of_ten_levels_is_what_the_last_record_shows() {
    let mut follower = Follower::new();
    let three =
        [[10, 5, 11, 6], [9, 4, 12, 7], [8, 3, 13, 8]].map(|[b, n, a, m]| [b * PX, n, a * PX, m]);
    follower.take(&levels(rtype::MBP_10, 0, 0, b'A', &ten(&three))).expect("it is understood");
    assert_eq!(follower.depth(Side::Buy), [(10, 5), (9, 4), (8, 3)]);
    let moved = [[9 * PX, 4, 12 * PX, 1], [8 * PX, 9, UNDEF_PRICE, 0]];
    follower.take(&levels(rtype::MBP_10, 9 * PX, 2, b'T', &ten(&moved))).expect("understood");
    assert_eq!(follower.depth(Side::Buy), [(9, 4), (8, 9)]);
    assert_eq!(follower.depth(Side::Sell), [(12, 1)]);
    let lasts = follower
        .told
        .updates
        .iter()
        .filter(|update| matches!(update.action, Action::Level { is_last: true, .. }));
    assert_eq!(lasts.count(), 2, "one a record");
    let same = follower.told.updates.len();
    follower.take(&levels(rtype::MBP_10, 0, 0, b'A', &ten(&moved))).expect("it is understood");
    assert_eq!(follower.told.updates.len(), same, "nothing changed");
    assert_eq!(follower.books.statistics(InstrumentId(1)).volume, Qty(2));
}

#[test]
fn a_best_bid_and_offer_is_a_quote_of_its_publisher_and_a_missing_side_is_none() {
    let mut follower = Follower::new();
    let row = [[10 * PX, 5, UNDEF_PRICE, 0]];
    follower.take(&levels(rtype::MBP_1, 10 * PX, 3, b'T', &row)).expect("it is understood");
    let best = follower.books.best(InstrumentId(1));
    assert_eq!((best.bid_px, best.bid_sz, best.ask_sz), (Price(10 * PX), Qty(5), Qty(0)));
    assert_eq!(follower.books.statistics(InstrumentId(1)).volume, Qty(3));
}

#[test]
fn what_is_shown_each_second_repeats_a_trade_and_trades_beside_it_count() {
    let mut follower = Follower::new();
    let row = [[10 * PX, 5, 11 * PX, 5]];
    follower.take(&levels(rtype::BBO_1S, 10 * PX, 3, b'T', &row)).expect("it is understood");
    assert_eq!(follower.books.statistics(InstrumentId(1)).volume, Qty(0));
    follower.take(&levels(rtype::MBP_0, 10 * PX, 3, b'T', &[])).expect("it is understood");
    assert_eq!(follower.books.statistics(InstrumentId(1)).volume, Qty(3));
    assert_eq!(follower.books.best(InstrumentId(1)).ask_px, Price(11 * PX));
}

#[test]
fn a_market_that_is_told_in_several_forms_is_taken_in_the_first() {
    let mut follower = Follower::new();
    follower.take(&mbo(1, 10 * PX, 5, b'A', b'A', 0)).expect("it is understood");
    let row = [[9 * PX, 5, 11 * PX, 5]];
    for kind in [rtype::MBP_1, rtype::BBO_1S] {
        follower.take(&levels(kind, 10 * PX, 3, b'T', &row)).expect("it is understood");
    }
    follower.take(&levels(rtype::MBP_10, 10 * PX, 3, b'T', &ten(&row))).expect("understood");
    follower.take(&levels(rtype::MBP_0, 10 * PX, 3, b'T', &[])).expect("it is understood");
    assert_eq!(follower.queue(Side::Sell), [(1, 10, 5)]);
    assert_eq!(follower.told.updates.len(), 1);
}

fn named(kind: u8, number: u32, at: usize, len: usize, name: &str) -> Vec<u8> {
    let mut record = header(kind, 1, number);
    record.resize(len, 0);
    record[at..at + name.len()].copy_from_slice(name.as_bytes());
    record
}

#[test]
fn instruments_get_numbers_as_they_come_and_are_called_what_they_are_called() {
    let mut follower = Follower::new();
    follower.take(&named(rtype::INSTRUMENT_DEF, 9, 238, 520, "ESH6")).expect("it is understood");
    follower.take(&mbo(1, PX, 5, b'A', b'A', 0)).expect("it is understood");
    follower.take(&named(rtype::SYMBOL_MAPPING, 5_000, 89, 176, "AAPL")).expect("understood");
    let told: Vec<_> = (follower.told.definitions.iter())
        .map(|one| (one.instrument_id.0, one.symbol.to_string()))
        .collect();
    let want = [(1, "ESH6"), (2, "5000"), (2, "AAPL")].map(|(id, name)| (id, name.to_owned()));
    assert_eq!(told, want);
}

#[test]
fn statuses_and_figures_of_the_day_are_told_and_others_passed_over() {
    let mut follower = Follower::new();
    let status = |action: u16| {
        let mut record = header(rtype::STATUS, 1, 5_000);
        record.extend([0; 8]);
        record.extend(action.to_le_bytes());
        record.extend(30_u16.to_le_bytes());
        record.extend([0; 12]);
        record
    };
    for (action, want) in [
        (7, TradingState::Trading),
        (9, TradingState::Paused),
        (3, TradingState::Quoting),
        (8, TradingState::Halted),
        (14, TradingState::Halted),
    ] {
        follower.take(&status(action)).expect("it is understood");
        assert_eq!(follower.books.state(InstrumentId(1)), Some(want), "{action}");
    }
    assert!(matches!(
        follower.told.updates[0].action,
        Action::Status { reason: [b'3', b'0', b' ', b' '], .. }
    ));
    assert!(follower.take(&status(99)).is_err());
    let figure = |kind: u16, price: i64, update: u8| {
        let mut record = header(rtype::STATISTICS, 1, 5_000);
        record.extend([0; 16]);
        record.extend(price.to_le_bytes());
        record.extend([0; 16]);
        record.extend(kind.to_le_bytes());
        record.extend([0, 0, update, 0]);
        record.extend([0; 18]);
        record
    };
    let before = follower.told.updates.len();
    for (kind, price, update) in
        [(1, PX, 1), (3, PX, 1), (1, UNDEF_PRICE, 1), (4, PX, 2), (11, 5, 1)]
    {
        follower.take(&figure(kind, price, update)).expect("it is understood");
    }
    assert_eq!(follower.told.updates.len(), before + 2, "the first and the last");
    for kind in rtype::PASSED_OVER {
        follower.take(&header(kind, 1, 5_000)).expect("it is known");
    }
    assert_eq!(follower.told.updates.len(), before + 2);
}

#[test]
fn what_is_no_order_or_no_record_is_refused_by_its_reason() {
    let mut follower = Follower::new();
    let field = |field, value| Err(FeedError::Field { kind: [rtype::MBO, 0], field, value });
    let flags = |flag: u8| field("flags", u64::from(flag));
    for (record, want) in [
        (mbo(1, PX, 5, b'A', b'A', flag::TOB), flags(flag::TOB)),
        (mbo(1, PX, 5, b'A', b'A', flag::MBP), flags(flag::MBP)),
        (mbo(1, PX, 5, b'A', b'A', flag::MAYBE_BAD_BOOK), flags(flag::MAYBE_BAD_BOOK)),
        (mbo(1, UNDEF_PRICE, 5, b'A', b'A', 0), field("price", i64::MAX as u64)),
        (mbo(1, PX, 5, b'A', b'N', 0), field("side", u64::from(b'N'))),
        (mbo(1, PX, 5, b'X', b'A', 0), field("action", u64::from(b'X'))),
        (header(0x77, 1, 1), Err(FeedError::UnknownType { kind: [0x77, 0] })),
        (
            header(rtype::MBO, 1, 1),
            Err(FeedError::Length { kind: [rtype::MBO, 0], len: 0, want: 32 }),
        ),
        (vec![4; 15], Err(FeedError::ShortPacket { len: 15, header_len: 16 })),
    ] {
        assert_eq!(follower.take(&record), want, "{record:?}");
    }
    follower.take(&mbo(1, PX, 5, b'A', b'A', 0)).expect("the first publisher's");
    let mut other = mbo(2, PX, 5, b'A', b'A', 0);
    other[2] = 9;
    assert_eq!(follower.take(&other), field("publisher_id", 9));
    let every = [
        mbo(1, PX, 5, b'A', b'A', 0),
        levels(rtype::MBP_10, 0, 0, b'A', &ten(&[])),
        levels(rtype::MBP_1, 0, 0, b'A', &[[PX, 1, PX, 1]]),
        named(rtype::INSTRUMENT_DEF, 9, 238, 309, "ESH6"),
        named(rtype::SYMBOL_MAPPING, 9, 89, 176, "ESH6"),
    ];
    for record in &every {
        for len in 0..record.len() {
            // A record may end anywhere after the last field that is read.
            let _ = Follower::new().take(&record[..len]);
        }
    }
}
