//! Tests of the consolidator against a simple model, and against a feed's own statements.

use proptest::prelude::*;
use weir_feed::consolidate::Consolidator;
use weir_feed::opra::Opra;
use weir_feed::{Action, CollectedUpdates, Context, Feed, Venue};
use weir_types::{InstrumentId, Nanos, Price, Qty};

const ORDER: [Venue; 3] = [Venue(b'N'), Venue(b'P'), Venue(b'Z')];

fn quote(venue: u8, bid: (i64, u64), ask: (i64, u64)) -> Action {
    Action::Quote {
        venue: Venue(venue),
        bid_px: Price(bid.0),
        bid_sz: Qty(bid.1),
        ask_px: Price(ask.0),
        ask_sz: Qty(ask.1),
    }
}

fn best(bid: (u8, i64, u64), ask: (u8, i64, u64)) -> Action {
    Action::Consolidated {
        bid_venue: Venue(bid.0),
        ask_venue: Venue(ask.0),
        bid_px: Price(bid.1),
        bid_sz: Qty(bid.2),
        ask_px: Price(ask.1),
        ask_sz: Qty(ask.2),
    }
}

#[test]
fn the_best_is_by_price_then_size_then_order_of_venues() {
    let mut it = Consolidator::new(&ORDER);
    let one = InstrumentId(1);
    for (quote, want) in [
        (quote(b'Z', (10, 1), (12, 1)), Some(best((b'Z', 10, 1), (b'Z', 12, 1)))),
        (quote(b'P', (9, 9), (13, 9)), None),
        (quote(b'P', (10, 1), (12, 2)), Some(best((b'P', 10, 1), (b'P', 12, 2)))),
        (quote(b'N', (10, 2), (12, 1)), Some(best((b'N', 10, 2), (b'P', 12, 2)))),
        // The best venue's quote gets worse, then disappears: the next one becomes the best.
        (quote(b'N', (8, 2), (12, 1)), Some(best((b'P', 10, 1), (b'P', 12, 2)))),
        (quote(b'P', (0, 0), (0, 0)), Some(best((b'Z', 10, 1), (b'N', 12, 1)))),
        // A venue outside the given order ranks after those in it.
        (quote(b'A', (10, 1), (12, 1)), None),
        (quote(b'A', (10, 1), (11, 1)), Some(best((b'Z', 10, 1), (b'A', 11, 1)))),
        (Action::Clear, Some(best((0, 0, 0), (0, 0, 0)))),
        (Action::Clear, None),
    ] {
        assert_eq!(it.update(one, &quote), want, "{quote:?}");
    }
}

#[test]
fn instruments_do_not_touch_each_other() {
    let mut it = Consolidator::new(&ORDER);
    it.update(InstrumentId(1), &quote(b'N', (10, 1), (12, 1)));
    it.update(InstrumentId(u32::MAX), &quote(b'N', (11, 1), (13, 1)));
    assert_eq!(it.best(InstrumentId(1)), best((b'N', 10, 1), (b'N', 12, 1)));
    it.update(InstrumentId(0), &Action::Clear);
    assert_eq!(it.best(InstrumentId(u32::MAX)), best((0, 0, 0), (0, 0, 0)));
}

/// Returns the best of one side, searched among all venues.
fn slow_best(quotes: &[(i64, u64); 4], is_bid: bool) -> (u8, i64, u64) {
    let venues = [b'N', b'P', b'Z', b'A'];
    let sign = if is_bid { 1 } else { -1 };
    let with = venues.iter().zip(quotes).filter(|(_, quote)| quote.1 > 0);
    with.rev()
        .max_by_key(|(_, quote)| (sign * quote.0, quote.1))
        .map_or((0, 0, 0), |(venue, quote)| (*venue, quote.0, quote.1))
}

proptest! {
    #[test]
    fn the_best_is_the_one_that_looking_through_all_venues_finds(
        steps in prop::collection::vec(
            (0_usize..4, -3_i64..3, 0_u64..3, -3_i64..3, 0_u64..3), 1..200),
    ) {
        // The fourth venue is outside the given order: here it is seen first.
        let mut it = Consolidator::new(&ORDER);
        let one = InstrumentId(1);
        it.update(one, &quote(b'A', (0, 0), (0, 0)));
        let (mut bids, mut asks) = ([(0, 0); 4], [(0, 0); 4]);
        let mut last = it.best(one);
        for (place, bid, bid_size, ask, ask_size) in steps {
            bids[place] = (bid, bid_size);
            asks[place] = (ask, ask_size);
            let venue = [b'N', b'P', b'Z', b'A'][place];
            let told = it.update(one, &quote(venue, bids[place], asks[place]));
            let want = best(slow_best(&bids, true), slow_best(&asks, false));
            prop_assert_eq!(it.best(one), want);
            prop_assert_eq!(told, (want != last).then_some(want));
            last = want;
        }
    }
}

/// Builds a long quote of OPRA in cents, with the appendages that its indicator names.
fn opra_quote(
    venue: u8,
    quote: [(i64, u64); 2],
    before: [(u8, i64, u64); 2],
    after: [(u8, i64, u64); 2],
) -> Vec<u8> {
    let mut appendages = Vec::new();
    let mut change = |side: usize| {
        let (best_venue, price, size) = after[side];
        let is_same = before[side] == after[side];
        if !is_same && best_venue != 0 && best_venue != venue {
            appendages.extend([best_venue, b'B']);
            appendages.extend(i32::try_from(price).expect("small").to_be_bytes());
            appendages.extend(u32::try_from(size).expect("small").to_be_bytes());
        }
        match (is_same, best_venue) {
            (true, _) => 'S',
            (_, 0) => 'G',
            (_, best) if best == venue => 'Q',
            _ => 'A',
        }
    };
    let (bid, offer) = (change(0), change(1));
    let place = |order: &str, change| order.find(change).expect("one of four");
    let indicator = b'A' + u8::try_from(place("SQGA", bid) * 4 + place("SQAG", offer)).expect("16");
    let mut message = vec![venue, b'k', b' ', indicator, 0, 0, 0, 0, 0, 0, 0, 0];
    message.extend(b"SPY  \0A\x02\x18B\0\0\x11\x94B");
    for (price, size) in quote {
        message.extend(i32::try_from(price).expect("small").to_be_bytes());
        message.extend(u32::try_from(size).expect("small").to_be_bytes());
    }
    message.extend(appendages);
    message
}

proptest! {
    #[test]
    fn the_best_made_of_venues_quotes_is_the_one_that_the_feed_appends(
        steps in prop::collection::vec(
            (0_usize..3, 1_i64..5, 0_u64..3, 1_i64..5, 0_u64..3), 1..200),
    ) {
        let (mut feed, mut it) = (Opra::new(), Consolidator::new(&ORDER));
        let context = Context { sequence: 1, channel: 0, ts_send: Nanos(0) };
        let (mut bids, mut asks) = ([(0, 0); 4], [(0, 0); 4]);
        let mut before = [(0, 0, 0); 2];
        let mut stated = best((0, 0, 0), (0, 0, 0));
        for (place, bid, bid_size, ask, ask_size) in steps {
            (bids[place], asks[place]) = ((bid, bid_size), (ask, ask_size));
            let after = [slow_best(&bids, true), slow_best(&asks, false)];
            let quote = [bids[place], asks[place]];
            let message = opra_quote(ORDER[place].0, quote, before, after);
            before = after;
            let mut told = CollectedUpdates::default();
            feed.decode(&context, &message, &mut told).expect("a sound message");
            for update in told.updates {
                match update.action {
                    Action::Consolidated { .. } => stated = update.action,
                    quote => _ = it.update(update.instrument_id, &quote),
                }
                prop_assert_eq!(update.instrument_id, InstrumentId(1));
            }
            prop_assert_eq!(it.best(InstrumentId(1)), stated);
        }
    }
}
