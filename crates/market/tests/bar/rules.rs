//! Tests of single rules.

use weir_feed::{Action, TradeFlags, Update, Venue};
use weir_market::bar::{Bar, BarBuilder, BarBuilderConfig, BarEvent, BarTrade};
use weir_market::{Books, BooksConfig};
use weir_types::{InstrumentId, Nanos, Price, Qty};

use crate::{trade, undone};

fn builder(kind: &str) -> BarBuilder {
    let kind = kind.parse().expect("a kind");
    BarBuilder::new(&BarBuilderConfig::new(kind))
}

/// Returns all bars of these trades, including open ones.
fn bars(kind: &str, trades: &[BarTrade]) -> Vec<Bar> {
    let (mut builder, mut bars) = (builder(kind), Vec::new());
    let mut tell = |event: &BarEvent| {
        let BarEvent::Closed(bar) = event else { panic!("{event:?}") };
        bars.push(*bar);
    };
    for trade in trades {
        builder.trade(trade, &mut tell);
    }
    builder.end_session(&mut tell);
    bars
}

#[test]
fn a_bar_by_ticks_ends_with_its_last_trade_and_one_that_does_not_count_is_no_tick() {
    let mut trades: Vec<_> = (1..=7).map(|n| trade(1, n * 10, n as i64, 1, n)).collect();
    trades[1].print.flags = TradeFlags::NOT_VOLUME;
    trades[2].print.flags = TradeFlags(7);
    let bars = bars("ticks-3", &trades);
    let told: Vec<_> = (bars.iter())
        .map(|bar| (bar.first_sequence, bar.last_sequence, bar.trade_count, bar.is_complete))
        .collect();
    assert_eq!(told, [(1, 5, 3, true), (6, 7, 2, false)]);
    assert_eq!((bars[0].high, bars[0].volume), (Some(Price(5)), Qty(3)));
}

#[test]
fn a_trade_larger_than_bars_by_volume_closes_one_and_belongs_to_it_whole() {
    let sizes = [(1, 60), (2, 1_000_000), (3, 99), (4, 1), (5, 5)];
    let trades: Vec<_> = sizes.iter().map(|(n, size)| trade(1, *n, 10, *size, *n)).collect();
    let bars = bars("volume-100", &trades);
    let told: Vec<_> = bars.iter().map(|bar| (bar.volume.0, bar.trade_count)).collect();
    assert_eq!(told, [(1_000_060, 2), (100, 2), (5, 1)]);
}

#[test]
fn an_interval_without_trades_makes_no_bar_and_a_late_trade_counts_in_the_first_open_one() {
    let minute = 60_000_000_000;
    let trades =
        [trade(1, minute, 1, 1, 1), trade(1, 5 * minute + 1, 2, 1, 2), trade(1, minute, 3, 1, 3)];
    let bars = bars("time-60s", &trades);
    let told: Vec<_> =
        bars.iter().map(|bar| (bar.start.0 / minute, bar.trade_count, bar.late_count)).collect();
    assert_eq!(told, [(1, 1, 0), (5, 2, 1)]);
}

#[test]
fn time_that_has_passed_closes_bars_of_instruments_that_rest() {
    let (mut builder, mut told) = (builder("time-10ns"), Vec::new());
    let mut tell = |event: &BarEvent| told.push(*event);
    builder.trade(&trade(1, 5, 1, 1, 1), &mut tell);
    builder.trade(&trade(2, 12, 1, 1, 2), &mut tell);
    builder.advance(Nanos(9), &mut tell);
    builder.advance(Nanos(10), &mut tell);
    // A trade of the closed interval is late in the next one.
    builder.trade(&trade(1, 6, 4, 1, 3), &mut tell);
    builder.advance(Nanos(20), &mut tell);
    let told: Vec<_> = (told.iter())
        .map(|event| {
            let BarEvent::Closed(bar) = event else { panic!("{event:?}") };
            (bar.instrument_id.0, bar.start.0, bar.late_count)
        })
        .collect();
    assert_eq!(told, [(1, 0, 0), (1, 10, 1), (2, 10, 0)]);
}

#[test]
fn a_trade_undone_in_an_open_bar_never_was_and_in_a_closed_one_is_a_correction() {
    let (mut builder, mut told) = (builder("time-10ns"), Vec::new());
    let mut tell = |event: &BarEvent| told.push(*event);
    for (ts, price, number) in [(1, 5, 1), (2, 9, 2), (3, 6, 3)] {
        builder.trade(&trade(1, ts, price, 2, number), &mut tell);
    }
    builder.trade_break(&undone(1, 2), &mut tell);
    builder.trade(&trade(1, 11, 7, 1, 4), &mut tell);
    builder.trade_break(&undone(1, 3), &mut tell);
    builder.trade_break(&undone(1, 3), &mut tell);
    let [BarEvent::Closed(bar), BarEvent::Corrected(known), BarEvent::Corrected(twice)] = told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!((bar.high, bar.volume, bar.turnover.0), (Some(Price(6)), Qty(4), 22));
    assert_eq!((bar.trade_count, bar.broken_count, bar.vwap()), (2, 1, Some(Price(5))));
    assert_eq!((known.bar, known.price, known.size), (Some((1, Nanos(0))), Price(6), Qty(2)));
    assert_eq!(twice.bar, None, "it was undone already");
    assert_eq!((builder.counts().broken, builder.counts().unknown), (1, 1));
}

#[test]
fn a_gap_marks_the_open_bars_and_the_next_one_of_those_that_have_none() {
    let (mut builder, mut told) = (builder("ticks-1"), Vec::new());
    let mut tell = |event: &BarEvent| {
        let BarEvent::Closed(bar) = event else { panic!("{event:?}") };
        told.push((bar.instrument_id.0, bar.has_gap));
    };
    builder.trade(&trade(1, 1, 1, 1, 1), &mut tell);
    builder.mark_gap();
    for number in 2..=5 {
        builder.trade(&trade(1 + number as u32 % 2, 1, 1, 1, number), &mut tell);
    }
    assert_eq!(told, [(1, false), (1, true), (2, true), (1, false), (2, false)]);
}

#[test]
fn trades_of_too_many_instruments_are_refused_and_counted() {
    let kind = "ticks-1".parse().expect("a kind");
    let config = BarBuilderConfig { instruments_max: 1, ..BarBuilderConfig::new(kind) };
    let (mut builder, mut count) = (BarBuilder::new(&config), 0);
    for instrument in [0, 1, 2, 1] {
        builder.trade(&trade(instrument, 1, 1, 1, 1), &mut |_| count += 1);
    }
    assert_eq!((count, builder.counts().refused), (2, 2));
}

#[test]
fn trades_and_breaks_are_taken_as_books_tell_them() {
    let mut books = Books::new(&BooksConfig::default());
    let id = InstrumentId(7);
    let update = |sequence, action| Update {
        instrument_id: id,
        sequence,
        ts_event: Nanos(sequence),
        action,
    };
    let (price, size, match_id) = (Price(3), Qty(4), 9);
    let (venue, flags) = (Venue(b'Q'), TradeFlags::ODD_LOT);
    let action = Action::Trade { venue, aggressor: None, price, size, match_id, flags };
    let first = update(1, action);
    let taken = BarTrade::of(&first, &books.apply(&first)).expect("a trade");
    assert_eq!((taken.instrument_id, taken.sequence, taken.print.match_id), (id, 1, 9));
    let second = update(2, Action::TradeBreak { match_id, size, price });
    assert!(BarTrade::of(&second, &books.apply(&second)).is_none());
    let gone = weir_market::bar::BarBreak::of(&second).expect("a break");
    assert_eq!((gone.match_id, gone.price, gone.size), (9, price, size));
    assert!(weir_market::bar::BarBreak::of(&first).is_none());
}
