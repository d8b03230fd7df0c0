//! Property test: any sequence of updates, valid or not, leaves the books equal to the slow
//! model's.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_feed::{Action, SystemEvent, TradeFlags, TradingState, Update, Venue};
use weir_market::book::{BookKind, BookLevel, OrderIds, RestingOrder};
use weir_market::{Books, BooksConfig, Change};
use weir_types::{InstrumentId, Nanos, PhaseCause, Price, Qty, Side};

use crate::model::{Model, ModelBook, ids, index_of};
use crate::support::update;

/// About a hundred thousand steps in all.
const CASES: u32 = 150;
const STEPS: usize = 700;

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Buy), Just(Side::Sell)]
}

/// Mostly small, so that sums coincide; occasionally so large that sums overflow.
fn size() -> impl Strategy<Value = Qty> {
    prop_oneof![40 => 1..6_u64, 2 => Just(0), 1 => (u64::MAX - 3)..=u64::MAX].prop_map(Qty)
}

/// Bids and offers overlap slightly.
fn price(side: Side) -> impl Strategy<Value = Price> {
    let prices = match side {
        Side::Buy => -8..2_i64,
        Side::Sell => 0..10_i64,
    };
    prop_oneof![60 => prices, 1 => Just(i64::MIN), 1 => Just(i64::MAX)].prop_map(Price)
}

fn any_price() -> impl Strategy<Value = Price> {
    side().prop_flat_map(price)
}

/// Mostly few numbers, so that they collide.
fn order_id() -> impl Strategy<Value = u64> {
    prop_oneof![30 => 1..50_u64, 1 => any::<u64>()]
}

fn of_orders() -> impl Strategy<Value = Action> {
    let add = (order_id(), side().prop_flat_map(|side| (Just(side), price(side))), size());
    let add =
        add.prop_map(|(order_id, (side, price), size)| Action::Add { order_id, side, price, size });
    let traded_at = proptest::option::weighted(0.2, any_price());
    let execute = (order_id(), size(), traded_at, 0..30_u64, any::<bool>()).prop_map(
        |(order_id, size, price, match_id, is_printable)| Action::Execute {
            order_id,
            size,
            price,
            match_id,
            is_printable,
        },
    );
    let replace = (order_id(), order_id(), any_price(), size()).prop_map(
        |(order_id, new_order_id, price, size)| Action::Replace {
            order_id,
            new_order_id,
            price,
            size,
        },
    );
    let modify = (order_id(), any_price(), size(), any::<bool>()).prop_map(
        |(order_id, price, size, keeps_priority)| Action::Modify {
            order_id,
            price,
            size,
            keeps_priority,
        },
    );
    let reduce =
        (order_id(), size()).prop_map(|(order_id, size)| Action::Reduce { order_id, size });
    let delete = order_id().prop_map(|order_id| Action::Delete { order_id });
    prop_oneof![50 => add, 8 => execute, 12 => replace, 15 => modify, 6 => reduce, 10 => delete]
}

fn of_prices() -> impl Strategy<Value = Action> {
    let sized = prop_oneof![3 => size(), 1 => Just(Qty(0))];
    let level = (side().prop_flat_map(|side| (Just(side), price(side))), sized, 0..4_u32);
    (level, any::<bool>()).prop_map(|(((side, price), size, order_count), is_last)| Action::Level {
        side,
        price,
        size,
        order_count,
        is_last,
    })
}

fn of_quotes() -> impl Strategy<Value = Action> {
    let one_side = || (any_price(), prop_oneof![3 => size(), 1 => Just(Qty(0))]);
    (one_side(), one_side(), 0..3_u8).prop_map(|((bid_px, bid_sz), (ask_px, ask_sz), kind)| {
        match kind {
            0 => {
                let (bid_venue, ask_venue) = (Venue(b'N'), Venue(b'Q'));
                Action::Consolidated { bid_venue, ask_venue, bid_px, bid_sz, ask_px, ask_sz }
            }
            venue => Action::Quote { venue: Venue(venue - 1), bid_px, bid_sz, ask_px, ask_sz },
        }
    })
}

fn of_any() -> impl Strategy<Value = Action> {
    let trade =
        (any_price(), size(), 0..30_u64, 0..16_u8).prop_map(|(price, size, match_id, flags)| {
            Action::Trade {
                venue: Venue(0),
                aggressor: None,
                price,
                size,
                match_id,
                flags: TradeFlags(flags),
            }
        });
    let broken = (0..30_u64).prop_map(|match_id| Action::TradeBreak {
        match_id,
        size: Qty(0),
        price: Price(0),
    });
    let states = [TradingState::Trading, TradingState::Halted, TradingState::Auction];
    let status = (0..3_usize).prop_map(move |at| Action::Status {
        state: states[at],
        reason: *b"T1  ",
        cause: PhaseCause::Unknown,
    });
    let new_day = Just(Action::System(SystemEvent::StartOfMessages));
    prop_oneof![12 => trade, 6 => broken, 6 => status, 1 => Just(Action::Clear), 1 => new_day]
}

/// Two instruments by order, one by price, one of quotes; occasionally an action of another kind.
fn step() -> impl Strategy<Value = Update> {
    let strange = prop_oneof![of_orders(), of_prices(), of_quotes()];
    prop_oneof![
        600 => (1..3_u32, of_orders()),
        120 => (3..4_u32, of_prices()),
        60 => (70_000..70_001_u32, of_quotes()),
        160 => (1..4_u32, of_any()),
        40 => (0..1_u32, of_orders()),
        2 => (0..1_u32, of_any()),
        10 => (0..5_u32, strange),
    ]
    .prop_map(|(instrument, action)| update(instrument, action))
}

/// Returns the model's level at a price.
fn stated(book: &ModelBook, side: Side, price: i64) -> BookLevel {
    let level = book.sides[index_of(side)].get(&price);
    let (size, order_count) = level.map_or((0, 0), |level| level.total());
    BookLevel { price: Price(price), size: Qty(size), order_count }
}

fn check_book(books: &Books, model: &Model, id: InstrumentId) -> Result<(), TestCaseError> {
    let book = &model.books[&id.0];
    prop_assert_eq!(books.best(id), book.best);
    prop_assert_eq!((books.kind(id), books.state(id)), (book.kind, book.state));
    prop_assert_eq!(books.is_suspect(id), book.is_suspect);
    for side in [Side::Buy, Side::Sell] {
        let want: Vec<BookLevel> =
            book.levels(side).iter().map(|(price, _)| stated(book, side, *price)).collect();
        prop_assert_eq!(books.levels(id, side, usize::MAX).collect::<Vec<_>>(), want);
        let mut want = Vec::new();
        for (price, level) in book.levels(side) {
            let price = Price(price);
            let order =
                |order: &(u64, u64)| RestingOrder { order_id: order.0, price, size: Qty(order.1) };
            want.extend(level.orders.iter().map(order));
        }
        prop_assert_eq!(books.orders(id, side).collect::<Vec<_>>(), want);
    }
    let statistics = books.statistics(id);
    let (volume, turnover, count, prices) = book.day();
    prop_assert_eq!((statistics.volume.0, statistics.turnover.0), (volume, turnover));
    prop_assert_eq!((statistics.trade_count, statistics.break_count), (count, book.break_count));
    let told = [statistics.open, statistics.high, statistics.low, statistics.last];
    prop_assert_eq!(told.map(|price| price.map(|price| price.0)), prices);
    prop_assert_eq!(statistics.is_range_certain, !book.is_range_uncertain);
    Ok(())
}

/// The levels as rebuilt from reported changes alone.
type Heard = BTreeMap<(u32, usize, i64), BookLevel>;

fn hear(heard: &mut Heard, change: &Change) {
    let id = change.instrument_id.0;
    if change.is_cleared {
        heard.retain(|key, _| id != 0 && key.0 != id);
    }
    for touched in change.levels() {
        let key = (id, index_of(touched.side), touched.level.price.0);
        match touched.level.size {
            Qty(0) => heard.remove(&key),
            _ => heard.insert(key, touched.level),
        };
    }
}

fn held(model: &Model) -> Heard {
    let mut held = Heard::new();
    for (id, book) in &model.books {
        for side in [Side::Buy, Side::Sell] {
            for (price, _) in book.levels(side) {
                held.insert((*id, index_of(side), price), stated(book, side, price));
            }
        }
    }
    held
}

/// Returns the total resting quantity of each instrument whose book is not by price.
fn resting(model: &Model) -> BTreeMap<u32, i128> {
    let books = model.books.iter().filter(|(_, book)| book.kind != BookKind::ByPrice);
    let total = |book: &ModelBook| {
        let levels = [Side::Buy, Side::Sell].into_iter().flat_map(|side| book.levels(side));
        levels.map(|(_, level)| i128::from(level.total().0)).sum()
    };
    books.map(|(id, book)| (*id, total(book))).collect()
}

fn check(updates: &[Update], order_ids: OrderIds) -> Result<(), TestCaseError> {
    let (orders_max, levels_per_side_max) = (30, 9);
    let config = BooksConfig {
        order_ids,
        orders: 4,
        orders_max,
        instruments: 1,
        levels_per_side: 1,
        levels_per_side_max,
        ..BooksConfig::default()
    };
    let mut books = Books::new(&config);
    let mut model = Model {
        books: BTreeMap::new(),
        order_ids,
        orders_max: orders_max as usize,
        levels_per_side_max: levels_per_side_max as usize,
    };
    let mut heard = Heard::new();
    let (mut told, mut anomaly_count) = (BTreeMap::new(), 0);
    for update in updates {
        let before = resting(&model);
        let change = books.apply(update);
        let anomalies = model.apply(update);
        prop_assert_eq!(change.anomalies.iter().collect::<Vec<_>>(), anomalies.clone());
        anomaly_count += anomalies.len() as u64;
        let id = change.instrument_id;
        if model.books.contains_key(&id.0) {
            check_book(&books, &model, id)?;
        }
        // Two of the largest sizes together saturate the sum.
        let fits = change.removed.0 < u64::MAX;
        if let Some(after) = resting(&model).get(&id.0).filter(|_| fits && !change.is_cleared) {
            let grown = i128::from(change.added.0) - i128::from(change.removed.0);
            prop_assert_eq!(before.get(&id.0).copied().unwrap_or(0) + grown, *after);
        }
        if let Some(best) = change.best {
            prop_assert_eq!(best.old, told.get(&id).copied().unwrap_or_default());
            prop_assert_eq!(best.new, books.best(id));
            told.insert(id, best.new);
        }
        hear(&mut heard, &change);
        // An order whose number is reused at another instrument is removed without a report.
        if anomalies.contains(&weir_market::book::Anomaly::DuplicateOrder)
            || change.is_cleared && id.0 == 0
        {
            heard = held(&model);
            told = ids(&model).map(|id| (id, books.best(id))).collect();
        }
        prop_assert_eq!(&heard, &held(&model));
    }
    prop_assert_eq!(books.anomalies().total(), anomaly_count);
    for id in ids(&model) {
        check_book(&books, &model, id)?;
    }
    check_copy(&books, &model, &config)
}

/// Checks that books loaded from an export equal the exported ones.
fn check_copy(books: &Books, model: &Model, config: &BooksConfig) -> Result<(), TestCaseError> {
    let mut copy = Books::new(config);
    let mut updates = Vec::new();
    books.export_all(7, Nanos(9), |update| updates.push(update));
    copy.apply_all(&updates, |_, _| {});
    prop_assert_eq!(copy.digest_all(), books.digest_all());
    prop_assert_eq!(copy.anomalies().total(), 0);
    for id in ids(model) {
        prop_assert_eq!(copy.digest(id), books.digest(id));
        prop_assert_eq!(copy.state(id), books.state(id));
        // Within a group of updates by price, the best price reported is older than the levels.
        if books.kind(id) != BookKind::ByPrice {
            prop_assert_eq!(copy.best(id), books.best(id));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: CASES,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn books_are_those_of_the_slow_model_whatever_comes(
        updates in proptest::collection::vec(step(), STEPS..=STEPS),
        is_of_feed in any::<bool>(),
    ) {
        let order_ids = if is_of_feed { OrderIds::OfFeed } else { OrderIds::OfInstrument };
        check(&updates, order_ids)?;
    }
}
