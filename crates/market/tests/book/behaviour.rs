//! Single behaviours of books.

use weir_feed::{Action, TradingState, Venue};
use weir_market::book::{Anomaly, BestBidOffer, BookKind, OrderIds};
use weir_market::{Books, BooksConfig};
use weir_types::{InstrumentId, Nanos, PhaseCause, Price, Qty, Side};

use crate::support::{add, level, update};

const ONE: InstrumentId = InstrumentId(1);
const TWO: InstrumentId = InstrumentId(2);

fn books() -> Books {
    Books::new(&BooksConfig::default())
}

fn prices(best: BestBidOffer) -> (i64, u64, i64, u64) {
    (best.bid_px.0, best.bid_sz.0, best.ask_px.0, best.ask_sz.0)
}

#[test]
fn the_place_in_the_queue_is_known_and_a_modification_may_cost_it() {
    let mut books = books();
    for (order_id, size) in [(1, 10), (2, 20), (3, 30)] {
        _ = books.apply(&update(1, add(order_id, Side::Buy, 100, size)));
    }
    let ahead = |books: &Books, order_id| {
        let position = books.queue_position(ONE, order_id)?;
        Some((position.orders_ahead, position.size_ahead.0))
    };
    assert_eq!(ahead(&books, 3), Some((2, 30)));
    let modify = |size, keeps_priority| Action::Modify {
        order_id: 1,
        price: Price(100),
        size: Qty(size),
        keeps_priority,
    };
    _ = books.apply(&update(1, modify(4, true)));
    assert_eq!((ahead(&books, 1), ahead(&books, 3)), (Some((0, 0)), Some((2, 24))));
    _ = books.apply(&update(1, modify(40, false)));
    assert_eq!((ahead(&books, 1), ahead(&books, 3)), (Some((2, 50)), Some((1, 20))));
    assert_eq!((ahead(&books, 9), books.queue_position(TWO, 1)), (None, None));
}

#[test]
fn a_group_of_levels_tells_the_best_price_with_its_last() {
    let mut books = books();
    for (action, want) in [
        (level(Side::Buy, 10, 5, true), Some((10, 5, 0, 0))),
        // The bid reaches the old offer's price only after that offer is gone.
        (level(Side::Sell, 11, 7, true), Some((10, 5, 11, 7))),
        (level(Side::Buy, 11, 1, false), None),
        (level(Side::Sell, 11, 0, false), None),
        (level(Side::Sell, 12, 3, true), Some((11, 1, 12, 3))),
        (level(Side::Sell, 15, 3, true), None),
        (level(Side::Sell, 14, 0, true), None),
    ] {
        let change = books.apply(&update(1, action));
        assert_eq!(change.best.map(|best| prices(best.new)), want, "{action:?}");
    }
    assert_eq!(books.anomalies().total(), 0);
    assert_eq!(books.kind(ONE), BookKind::ByPrice);
}

#[test]
fn a_crossed_book_is_an_anomaly_only_while_trading_is_continuous() {
    for (state, want) in [
        (None, 0),
        (Some(TradingState::Quoting), 0),
        (Some(TradingState::Auction), 0),
        (Some(TradingState::Trading), 1),
    ] {
        let mut books = books();
        if let Some(state) = state {
            _ = books.apply(&update(
                1,
                Action::Status { state, reason: [b' '; 4], cause: PhaseCause::Unknown },
            ));
        }
        for (order_id, side, price) in [(1, Side::Buy, 9), (2, Side::Sell, 10), (3, Side::Buy, 10)]
        {
            _ = books.apply(&update(1, add(order_id, side, price, 1)));
        }
        // The book is still crossed, which is reported once.
        _ = books.apply(&update(1, add(4, Side::Buy, 11, 1)));
        assert_eq!(books.anomalies().of(Anomaly::Crossed), want, "{state:?}");
        assert_eq!(books.is_suspect(ONE), want == 1);
        _ = books.apply(&update(1, Action::Clear));
        assert!(!books.is_suspect(ONE), "cleared, it begins anew");
    }
}

#[test]
fn orders_of_a_feed_are_found_without_their_instrument() {
    let mut books = books();
    _ = books.apply(&update(1, add(7, Side::Buy, 100, 10)));
    let change = books.apply(&update(0, Action::Reduce { order_id: 7, size: Qty(4) }));
    assert_eq!(change.instrument_id, ONE);
    assert_eq!(prices(books.best(ONE)), (100, 6, 0, 0));
    let change = books.apply(&update(2, Action::Delete { order_id: 7 }));
    assert!(change.anomalies.contains(Anomaly::OtherInstrument));
    assert!(books.is_suspect(ONE) && books.is_suspect(TWO));
    assert_eq!(books.order_count(), 1);
}

#[test]
fn orders_of_instruments_may_bear_the_same_number() {
    let config = BooksConfig { order_ids: OrderIds::OfInstrument, ..BooksConfig::default() };
    let mut books = Books::new(&config);
    for instrument in 1..=3_000 {
        _ = books.apply(&update(instrument, add(1, Side::Sell, instrument.into(), 1)));
    }
    _ = books.apply(&update(2, Action::Delete { order_id: 1 }));
    assert_eq!((books.order_count(), books.level_count()), (2_999, 2_999));
    assert_eq!(prices(books.best(InstrumentId(3_000))), (0, 0, 3_000, 1));
    assert_eq!(books.best(TWO), BestBidOffer::default());
    assert_eq!(books.anomalies().total(), 0);
}

#[test]
fn a_gap_makes_all_stale_until_they_are_repaired_together_or_one_by_one() {
    let mut books = books();
    _ = books.apply(&update(1, add(1, Side::Buy, 100, 10)));
    assert!(!books.is_stale(ONE));
    books.mark_stale();
    _ = books.apply(&update(2, add(2, Side::Buy, 100, 10)));
    assert!(books.is_stale(ONE) && books.is_stale(TWO), "one that is new may be older");
    books.repair_instrument(ONE);
    assert_eq!((books.is_stale(ONE), books.is_stale(TWO)), (false, true));
    books.mark_stale();
    assert!(books.is_stale(ONE), "another gap");
    books.repair();
    assert!(!books.is_stale(ONE) && !books.is_stale(TWO));
}

#[test]
fn a_clear_of_the_channel_empties_every_book() {
    let mut books = books();
    for instrument in 1..=20_u32 {
        _ = books.apply(&update(instrument, add(instrument.into(), Side::Buy, 5, 1)));
    }
    let empty = Books::new(&BooksConfig::default());
    assert_ne!(books.digest_all(), empty.digest_all());
    assert!(books.apply(&update(0, Action::Clear)).is_cleared);
    assert_eq!((books.order_count(), books.level_count()), (0, 0));
    assert_eq!(books.digest_all(), empty.digest_all());
    let change = books.apply(&update(1, Action::Delete { order_id: 1 }));
    assert!(change.anomalies.contains(Anomaly::UnknownOrder));
}

#[test]
fn books_digest_alike_only_when_orders_stand_alike() {
    let digest = |actions: &[(u32, Action)]| {
        let mut books = books();
        for (instrument, action) in actions {
            _ = books.apply(&update(*instrument, *action));
        }
        books.digest_all()
    };
    let first = add(1, Side::Buy, 100, 10);
    let second = add(2, Side::Buy, 100, 10);
    let base = digest(&[(1, first), (2, add(3, Side::Buy, 1, 1)), (1, second)]);
    assert_eq!(base, digest(&[(2, add(3, Side::Buy, 1, 1)), (1, first), (1, second)]));
    for other in [
        [(1, second), (1, first), (2, add(3, Side::Buy, 1, 1))],
        [(1, first), (1, second), (2, add(3, Side::Buy, 1, 2))],
        [(1, first), (1, second), (3, add(3, Side::Buy, 1, 1))],
        [(1, first), (1, add(2, Side::Buy, 101, 10)), (2, add(3, Side::Buy, 1, 1))],
        [(1, first), (1, add(2, Side::Sell, 100, 10)), (2, add(3, Side::Buy, 1, 1))],
    ] {
        assert_ne!(digest(&other), base, "{other:?}");
    }
}

#[test]
fn a_venue_s_quote_stands_beside_what_the_feed_consolidates() {
    let mut books = books();
    let quote = |venue, bid, size| Action::Quote {
        venue: Venue(venue),
        bid_px: Price(bid),
        bid_sz: Qty(size),
        ask_px: Price(bid + 1),
        ask_sz: Qty(0),
    };
    for (venue, bid) in [(b'N', 10), (b'Q', 11), (b'N', 12)] {
        assert!(books.apply(&update(1, quote(venue, bid, 5))).best.is_none());
    }
    let quotes: Vec<_> =
        books.quotes(ONE).map(|quote| (quote.venue.0, quote.quote.bid_px.0)).collect();
    assert_eq!(quotes, [(b'N', 12), (b'Q', 11)]);
    // For a feed of one venue, its quote is the best one.
    _ = books.apply(&update(2, quote(0, 7, 5)));
    assert_eq!(prices(books.best(TWO)), (7, 5, 0, 0));
    let change = books.apply(&update(2, add(1, Side::Buy, 1, 1)));
    assert!(change.anomalies.contains(Anomaly::MixedKinds));
}

#[test]
fn an_export_says_the_number_as_of_which_it_stands() {
    let mut books = books();
    _ = books.apply(&update(1, add(1, Side::Buy, 100, 10)));
    let mut said = Vec::new();
    books.export(ONE, 77, Nanos(5), |update| said.push(update));
    assert_eq!(said.len(), 2);
    assert!(said.iter().all(|update| (update.sequence, update.ts_event) == (77, Nanos(5))));
    assert_eq!((said[0].action, said[1].action), (Action::Clear, add(1, Side::Buy, 100, 10)));
}

#[test]
fn limits_hold_and_are_told() {
    let config = BooksConfig { instruments_max: 2, levels_per_side_max: 1, ..Default::default() };
    let mut books = Books::new(&config);
    _ = books.apply(&update(1, add(1, Side::Buy, 1, 1)));
    for (instrument, action) in [(1, add(2, Side::Buy, 2, 1)), (1, add(2, Side::Buy, 0, 1))] {
        let change = books.apply(&update(instrument, action));
        assert!(change.anomalies.contains(Anomaly::LimitReached));
    }
    _ = books.apply(&update(2, add(2, Side::Buy, 2, 1)));
    let change = books.apply(&update(3, add(3, Side::Buy, 2, 1)));
    assert!(change.anomalies.contains(Anomaly::LimitReached));
    assert_eq!((books.order_count(), books.instruments().count()), (2, 2));
}
