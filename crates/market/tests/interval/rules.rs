//! Tests of single rules.

use weir_feed::{Action, TradeFlags, TradingState, Update, Venue};
use weir_market::interval::{
    Activity, BookStatement, ChannelReset, IntervalStatistics, OrderAct, QuoteChange, StateChange,
};
use weir_market::{Books, BooksConfig, Change};
use weir_types::{InstrumentId, Nanos, PhaseCause, Price, Qty, Side};

use crate::{CollectedRows, added, called, config, quote, quoted};

fn starts(rows: &[IntervalStatistics]) -> Vec<(u32, u64)> {
    rows.iter().map(|row| (row.instrument_id.0, row.start.0)).collect()
}

#[test]
fn a_quote_that_rests_makes_a_row_of_each_interval_and_an_empty_book_none() {
    let mut told = CollectedRows::new(&config(10));
    told.quote(&quoted(1, 2, quote(100, 3, 104, 5)));
    told.quote(&quoted(2, 3, quote(0, 0, 0, 0)));
    told.act(&added(3, 45, 1));
    assert_eq!(starts(&told.rows), [(1, 0), (1, 10), (1, 20), (1, 30), (2, 0)]);
    let [first, second, ..] = told.rows[..] else { panic!("{:?}", told.rows) };
    assert_eq!((first.two_sided, first.spread_time, first.quote_changes), (8, 8 * 4, 1));
    assert_eq!((second.two_sided, second.spread_time, second.quote_changes), (10, 10 * 4, 0));
    assert_eq!((second.sum_time, second.ask_size_time), (10 * 204, 10 * 5));
    // 4 / 102 is slightly more than 0.039215686.
    assert_eq!(second.relative_time, Some(10 * 39_215_686));
    assert_eq!((second.first, second.last), (first.last, Some(quote(100, 3, 104, 5))));
    assert_eq!((first.sequences, second.sequences), (Some((2, 2)), None));
    let rows = told.end();
    assert_eq!(starts(&rows[5..]), [(1, 40), (3, 40)], "as they are");
    assert!(rows[..5].iter().all(|row| row.is_complete));
    assert!(rows[5..].iter().all(|row| !row.is_complete));
    assert_eq!(rows[5].two_sided, 5, "up to what was heard last");
}

#[test]
fn a_halt_makes_rows_of_an_instrument_that_nobody_quotes() {
    let mut told = CollectedRows::new(&config(10));
    told.call(&called(1, 4, TradingState::Halted));
    told.call(&called(1, 25, TradingState::Trading));
    told.act(&added(2, 60, 1));
    let rows = told.end();
    assert_eq!(starts(&rows), [(1, 0), (1, 10), (1, 20), (2, 60)]);
    let times: Vec<_> = rows.iter().map(|row| (row.halted, row.trading)).collect();
    assert_eq!(times, [(6, 0), (10, 0), (5, 5), (0, 0)]);
}

#[test]
fn a_halt_of_all_is_one_of_each_instrument_that_is_known() {
    let mut told = CollectedRows::new(&config(10));
    told.quote(&quoted(1, 1, quote(1, 1, 2, 1)));
    told.act(&added(2, 2, 1));
    told.call(&called(0, 4, TradingState::Halted));
    told.act(&added(3, 9, 1));
    let halted: Vec<_> = told.end().iter().map(|row| (row.instrument_id.0, row.halted)).collect();
    assert_eq!(halted, [(1, 5), (2, 5), (3, 0)]);
}

#[test]
fn crossed_locked_one_sided_and_empty_times_are_apart() {
    let mut told = CollectedRows::new(&config(100));
    for (ts, quote) in [
        (0, quote(10, 1, 12, 1)),
        (10, quote(12, 1, 12, 1)),
        (13, quote(13, 1, 12, 1)),
        (20, quote(13, 1, 0, 0)),
        (31, quote(0, 0, 0, 0)),
        (50, quote(10, 1, 11, 1)),
    ] {
        told.quote(&quoted(1, ts, quote));
    }
    told.act(&added(2, 60, 1));
    let row = told.end()[0];
    assert_eq!((row.two_sided, row.locked, row.crossed), (23, 3, 7));
    assert_eq!((row.one_sided, row.empty), (11, 19));
    assert_eq!(row.spread_time, 10 * 2 + 10);
    assert_eq!((row.spread_min, row.spread_max), (Some(0), Some(2)));
    assert_eq!((row.quote_changes, row.price_changes), (6, 6));
    // The mid prices are 11, 12 and, after the crossed market, 10.5.
    assert_eq!((row.mid_changes, row.sum_moves_squared), (2, Some(2 * 2 + 3 * 3)));
}

#[test]
fn a_quantity_alone_is_a_change_of_the_quote_and_of_no_price() {
    let mut told = CollectedRows::new(&config(100));
    for (ts, size) in [(1, 5), (2, 6), (3, 6)] {
        told.quote(&quoted(1, ts, quote(10, size, 12, 1)));
    }
    let row = told.end()[0];
    assert_eq!((row.quote_changes, row.price_changes, row.mid_changes), (2, 1, 0));
    assert_eq!(row.first, Some(quote(10, 5, 12, 1)));
}

#[test]
fn what_comes_late_counts_where_the_instrument_is_and_time_does_not_go_back() {
    let mut told = CollectedRows::new(&config(10));
    told.quote(&quoted(1, 5, quote(10, 1, 12, 1)));
    told.quote(&quoted(2, 17, quote(10, 1, 12, 1)));
    // The first interval is over for all instruments.
    told.quote(&quoted(1, 8, quote(10, 1, 14, 1)));
    told.quote(&quoted(2, 16, quote(10, 1, 15, 1)));
    told.act(&added(1, 20, 1));
    let rows = told.end();
    let of = |instrument, start| {
        let found =
            rows.iter().find(|row| (row.instrument_id.0, row.start.0) == (instrument, start));
        *found.expect("it is there")
    };
    assert_eq!((of(1, 0).spread_time, of(1, 0).late_count), (5 * 2, 0));
    assert_eq!((of(1, 10).spread_time, of(1, 10).late_count), (10 * 4, 1));
    assert_eq!((of(2, 10).spread_time, of(2, 10).late_count), (3 * 5, 0));
}

#[test]
fn lateness_keeps_the_interval_of_who_rests_open() {
    let mut told =
        CollectedRows::new(&weir_market::interval::IntervalConfig { lateness: 4, ..config(10) });
    told.quote(&quoted(1, 5, quote(10, 1, 12, 1)));
    told.act(&added(2, 13, 1));
    told.quote(&quoted(1, 8, quote(10, 1, 14, 1)));
    assert!(told.rows.is_empty());
    told.act(&added(2, 14, 1));
    assert_eq!(starts(&told.rows), [(1, 0)]);
    assert_eq!((told.rows[0].spread_time, told.rows[0].late_count), (3 * 2 + 2 * 4, 0));
}

#[test]
fn a_silence_that_is_too_long_is_no_time_for_anybody() {
    let silence = weir_market::interval::IntervalConfig { silence: 30, ..config(10) };
    let mut told = CollectedRows::new(&silence);
    told.quote(&quoted(1, 2, quote(10, 1, 12, 1)));
    told.act(&added(2, 6, 1));
    told.act(&added(2, 1_000_007, 1));
    let rows = told.end();
    assert_eq!(starts(&rows), [(1, 0), (2, 0), (2, 1_000_000)]);
    assert_eq!((rows[0].two_sided, rows[0].is_complete), (4, false));
}

#[test]
fn a_gap_of_a_channel_leaves_its_quotes_in_doubt_until_they_are_had_anew() {
    let mut told = CollectedRows::new(&config(10));
    let of = |row: &IntervalStatistics| (row.start.0, row.has_gap, row.is_certain);
    told.quote(&quoted(1, 2, quote(10, 1, 12, 1)));
    let mut other = quoted(2, 2, quote(10, 1, 12, 1));
    other.channel = 1;
    told.quote(&other);
    told.builder.miss(0);
    told.quote(&quoted(1, 12, quote(10, 1, 13, 1)));
    told.quote(&quoted(1, 22, quote(10, 1, 12, 1)));
    let anew = BookStatement {
        instrument_id: InstrumentId(1),
        channel: 0,
        state: None,
        quote: quote(10, 1, 12, 1),
    };
    told.builder.state_book(&anew, &mut |row| told.rows.push(*row));
    told.quote(&quoted(1, 42, quote(10, 1, 13, 1)));
    let (ones, others): (Vec<_>, Vec<_>) =
        told.end().into_iter().partition(|row| row.instrument_id.0 == 1);
    let marks: Vec<_> = ones.iter().map(of).collect();
    assert_eq!(
        marks,
        [
            (0, true, false),
            (10, false, false),
            (20, false, false),
            (30, false, true),
            (40, false, true)
        ]
    );
    assert!(others.iter().all(|row| !row.has_gap && row.is_certain), "it is another channel's");
}

#[test]
fn what_was_not_told_leaves_a_quote_in_doubt_until_the_next_one() {
    let mut told = CollectedRows::new(&config(10));
    told.quote(&quoted(1, 2, quote(10, 1, 12, 1)));
    told.quote(&quoted(2, 2, quote(10, 1, 12, 1)));
    told.call(&called(1, 3, TradingState::Trading));
    told.builder.mark_untold();
    let mut next = quoted(1, 14, quote(10, 1, 13, 1));
    next.state = Some(TradingState::Halted);
    told.quote(&next);
    told.act(&added(3, 30, 1));
    let rows = told.end();
    let marks = |instrument: u32| {
        let of = rows.iter().filter(|row| row.instrument_id.0 == instrument);
        of.map(|row| (row.has_gap, row.is_certain)).collect::<Vec<_>>()
    };
    assert_eq!(marks(1), [(true, false), (false, false), (false, true)]);
    assert_eq!(marks(2), [(true, false), (false, false), (false, false)]);
    assert_eq!(rows.iter().map(|row| row.halted).sum::<u64>(), 16, "the state comes with it");
}

#[test]
fn a_book_that_is_given_up_for_a_snapshot_is_not_known_and_what_lies_between_is_no_change() {
    let mut told = CollectedRows::new(&config(100));
    told.quote(&quoted(1, 10, quote(10, 1, 12, 1)));
    told.act(&added(2, 20, 1));
    told.builder.void(0, ChannelReset::GivenUp, &mut |row| told.rows.push(*row));
    told.act(&added(2, 50, 1));
    let anew = BookStatement {
        instrument_id: InstrumentId(1),
        channel: 0,
        state: Some(TradingState::Trading),
        quote: quote(20, 1, 22, 1),
    };
    told.builder.state_book(&anew, &mut |row| told.rows.push(*row));
    told.act(&added(2, 60, 1));
    let row = told.end()[0];
    assert_eq!((row.two_sided, row.trading), (10 + 10, 10), "known from 10 to 20, and from 50 on");
    assert_eq!((row.quote_changes, row.mid_changes, row.is_certain), (1, 0, false));
}

#[test]
fn a_session_ends_one_channel_and_the_next_begins_at_any_time() {
    let mut told = CollectedRows::new(&config(10));
    told.quote(&quoted(1, 105, quote(10, 1, 12, 1)));
    let mut other = quoted(2, 105, quote(10, 1, 12, 1));
    other.channel = 1;
    told.quote(&other);
    told.act(&added(1, 107, 1));
    told.builder.end_session(0, &mut |row| told.rows.push(*row));
    assert_eq!((starts(&told.rows), told.builder.is_idle()), (vec![(1, 100)], false));
    told.builder.end_session(1, &mut |row| told.rows.push(*row));
    assert!(told.builder.is_idle());
    told.act(&added(1, 3, 1));
    assert_eq!(told.builder.counts().late, 0, "a time of the day before is none of this one");
    assert_eq!(starts(&told.end()), [(1, 100), (2, 100), (1, 0)]);
}

#[test]
fn instruments_beyond_the_most_are_refused_and_counted() {
    let few = weir_market::interval::IntervalConfig { instruments_max: 1, ..config(10) };
    let mut told = CollectedRows::new(&few);
    for instrument in [0, 1, 2, 1] {
        told.act(&added(instrument, 1, 1));
    }
    assert_eq!((told.builder.counts().refused, told.builder.counts().events), (2, 2));
}

fn act_of(books: &mut Books, number: u64, action: Action) -> (Update, Change) {
    let (instrument_id, ts_event) = (InstrumentId(7), Nanos(number));
    let update = Update { instrument_id, sequence: number, ts_event, action };
    let change = books.apply(&update);
    (update, change)
}

#[test]
fn what_books_say_of_orders_adds_up_to_what_rests() {
    let mut books = Books::new(&BooksConfig::default());
    let (price, other) = (Price(10), Price(11));
    let add = |order_id, size| Action::Add { order_id, side: Side::Buy, price, size: Qty(size) };
    let execute =
        Action::Execute { order_id: 1, size: Qty(3), price: None, match_id: 0, is_printable: true };
    let replace = Action::Replace { order_id: 1, new_order_id: 3, price: other, size: Qty(9) };
    let modify = |size| Action::Modify { order_id: 3, price: other, size, keeps_priority: true };
    let acts = [
        (add(1, 10), OrderAct::Add, (10, 0, 0)),
        (add(2, 5), OrderAct::Add, (5, 0, 0)),
        (execute, OrderAct::Execute, (0, 3, 3)),
        (Action::Reduce { order_id: 1, size: Qty(2) }, OrderAct::Reduce, (0, 2, 0)),
        (replace, OrderAct::Replace, (9, 5, 0)),
        (modify(Qty(12)), OrderAct::Modify, (3, 0, 0)),
        (modify(Qty(4)), OrderAct::Modify, (0, 8, 0)),
        (Action::Delete { order_id: 2 }, OrderAct::Delete, (0, 5, 0)),
        (Action::Delete { order_id: 99 }, OrderAct::Delete, (0, 0, 0)),
    ];
    for (number, (action, act, (added, removed, traded))) in (1..).zip(acts) {
        let (update, change) = act_of(&mut books, number, action);
        let it = Activity::of(4, &update, &change).expect("it is of an order");
        assert_eq!((it.order, it.added.0, it.removed.0), (Some(act), added, removed), "{number}");
        assert_eq!((it.is_trade, it.traded.0, it.channel), (traded > 0, traded, 4), "{number}");
    }
    assert_eq!(books.best(InstrumentId(7)).bid_sz, Qty(4), "15 and 12 came, 3 and 20 went");
}

#[test]
fn quotes_states_and_trades_are_taken_as_books_tell_them() {
    let mut books = Books::new(&BooksConfig::default());
    let add = |order_id| Action::Add {
        order_id,
        side: Side::Sell,
        price: Price(10),
        size: Qty(order_id),
    };
    let (update, change) = act_of(&mut books, 1, add(5));
    let taken = QuoteChange::of(3, None, &update, &change).expect("the best offer");
    assert_eq!((taken.quote, taken.channel, taken.is_whole), (quote(0, 0, 10, 5), 3, false));
    let worse = Action::Add { order_id: 6, side: Side::Sell, price: Price(11), size: Qty(1) };
    let (update, change) = act_of(&mut books, 2, worse);
    assert!(QuoteChange::of(3, None, &update, &change).is_none(), "the best one is as it was");
    let (update, change) = act_of(&mut books, 3, Action::Clear);
    let taken = QuoteChange::of(3, None, &update, &change).expect("nothing is left");
    assert_eq!((taken.quote, taken.is_whole), (quote(0, 0, 0, 0), true));
    let state = TradingState::Paused;
    let (update, change) = act_of(
        &mut books,
        4,
        Action::Status { state, reason: *b"    ", cause: PhaseCause::Unknown },
    );
    assert_eq!(StateChange::of(3, &update, &change).map(|it| it.state), Some(state));
    for (number, flags) in [(5, TradeFlags::default()), (6, TradeFlags::NOT_VOLUME)] {
        let (price, size, match_id, venue) = (Price(9), Qty(2), number, Venue(0));
        let action = Action::Trade { venue, aggressor: None, price, size, match_id, flags };
        let (update, change) = act_of(&mut books, number, action);
        let taken = Activity::of(3, &update, &change);
        assert_eq!(taken.map(|it| (it.traded, it.order)), (number == 5).then_some((size, None)));
    }
    let (price, size) = (Price(9), Qty(2));
    let (update, change) = act_of(&mut books, 7, Action::TradeBreak { match_id: 5, size, price });
    let taken = Activity::of(3, &update, &change).expect("it is undone");
    assert_eq!((taken.is_break, taken.is_trade), (true, false));
}
