//! Tests: statistics written to a table and read back, losses of a full ring and of a full disk.

use std::collections::HashSet;
use std::path::Path;

use weir_feed::Definition;
use weir_market::interval::{
    Activity, BookStatement, ChannelReset, OrderAct, QuoteChange, StateChange,
};
use weir_types::{InstrumentId, Price, Qty, TradingState};

use super::super::processor::{PostProcessor, PostSenders};
use super::super::storage::FileSystem;
use super::super::storage::full::LimitedStorage;
use super::super::tests::{columns, files, of_schema, on_page, read_all};
use super::super::{EventSelection, PostSection};
use super::*;
use crate::post::audit::SendOutcome;

const SECOND: u64 = 1_000_000_000;
/// The beginning of a day.
const START: u64 = 20_700 * 86_400 * SECOND;

fn config(dir: &Path) -> StatisticsSection {
    StatisticsSection { dir: dir.to_owned(), lateness_ms: 0, ..StatisticsSection::default() }
}

fn quoted(instrument: u32, ts: u64, bid: i64, ask: i64, number: u64) -> PostEvent {
    let (bid_sz, ask_sz) = (Qty(1 + number % 9), Qty(number % 11));
    let ask_px = Price(if ask_sz.is_zero() { 0 } else { ask });
    PostEvent::Quote(QuoteChange {
        instrument_id: InstrumentId(instrument),
        channel: (instrument % 2) as u16,
        is_whole: number.is_multiple_of(5),
        state: None,
        sequence: number,
        ts_event: Nanos(ts),
        quote: Quote { bid_px: Price(bid), bid_sz, ask_px, ask_sz },
    })
}

fn acted(instrument: u32, ts: u64, number: u64) -> PostEvent {
    use OrderAct::{Add, Delete, Execute, Modify, Reduce, Replace};
    let acts = [Add, Execute, Reduce, Delete, Replace, Modify];
    PostEvent::Act(Activity {
        instrument_id: InstrumentId(instrument),
        channel: (instrument % 2) as u16,
        order: Some(acts[number as usize % acts.len()]),
        is_trade: number.is_multiple_of(3),
        is_break: number.is_multiple_of(17),
        sequence: number,
        ts_event: Nanos(ts),
        added: Qty(number % 7),
        removed: Qty(number % 5),
        traded: Qty(number % 13),
    })
}

/// An hour of three instruments with every kind of event.
fn events() -> Vec<PostEvent> {
    let symbol = SymbolText::new(b"AMZN").expect("a symbol");
    let mut events = vec![PostEvent::Define(Definition {
        instrument_id: InstrumentId(1),
        symbol,
        round_lot: Qty(100),
        previous_close: None,
    })];
    let mut chance = 29_u64;
    for number in 1..=5_000 {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let draw = chance >> 33;
        let (instrument, ts) = (1 + (draw % 3) as u32, START + number * 700_000_001);
        let bid = (draw % 2_000) as i64 * 10_000_000 - 3_000_000_000;
        let ask = bid + (draw % 40) as i64 * 10_000_000 - 20_000_000;
        events.push(quoted(instrument, ts, bid, ask, number));
        events.push(acted(instrument, ts, number));
        let (instrument_id, channel) = (InstrumentId(instrument), (instrument % 2) as u16);
        if number % 500 == 0 {
            let states = [TradingState::Halted, TradingState::Trading, TradingState::Paused];
            let (state, sequence, ts_event) =
                (states[number as usize / 500 % 3], number, Nanos(ts));
            let called = StateChange { instrument_id, channel, state, sequence, ts_event };
            events.push(PostEvent::Call(called));
        }
        match number {
            1_200 => events.push(PostEvent::Gap(0)),
            1_900 => events.push(PostEvent::Untold),
            2_500 => events.push(PostEvent::Void(1, ChannelReset::GivenUp)),
            2_600 => {
                let (state, quote) = (Some(TradingState::Trading), Quote::default());
                let stated = BookStatement { instrument_id, channel: 1, state, quote };
                events.push(PostEvent::Book(stated));
            }
            3_900 => events.push(PostEvent::EndSession(0)),
            _ => {}
        }
    }
    events
}

fn quoted_columns(quote: Option<Quote>) -> [Option<(Price, Qty)>; 2] {
    [quote.as_ref().and_then(Quote::bid), quote.as_ref().and_then(Quote::ask)]
}

/// The expected row of the table, column by column as on the page.
fn row_of(it: &Interval) -> Vec<String> {
    fn text<T: ToString>(value: Option<T>) -> String {
        value.map_or("-".to_owned(), |value| value.to_string())
    }
    let symbol = if it.instrument_id.0 == 1 { "AMZN" } else { "-" };
    let [first_bid, first_ask] = quoted_columns(it.first);
    let [last_bid, last_ask] = quoted_columns(it.last);
    let sides = [first_bid, first_ask, last_bid, last_ask];
    let mut row = vec![it.start.to_string(), it.instrument_id.0.to_string(), symbol.to_owned()];
    row.extend([text(it.sequences.map(|of| of.0)), text(it.sequences.map(|of| of.1))]);
    row.extend(sides.map(|side| text(side.map(|it| it.0))));
    row.extend(sides.map(|side| text(side.map(|it| it.1))));
    let counts = [it.quote_changes, it.price_changes, it.two_sided, it.locked, it.crossed];
    row.extend(counts.map(|count| count.to_string()));
    row.extend([it.one_sided.to_string(), it.empty.to_string()]);
    row.extend([text(it.spread_min), text(it.spread_max), it.spread_time.to_string()]);
    // The mid price is half the sum of bid and offer: five tenths.
    row.extend([text(it.relative_time), (it.sum_time * 5).to_string()]);
    row.extend([it.bid_size_time.to_string(), it.ask_size_time.to_string()]);
    row.push(it.mid_changes.to_string());
    // Its square is a quarter: 25 hundredths.
    row.push(text(it.sum_moves_squared.map(|sum| sum * 25)));
    let states = [it.trading, it.auction, it.paused, it.halted, it.closed];
    row.extend(states.map(|count| count.to_string()));
    let orders = [it.adds, it.executions, it.reductions, it.deletions];
    row.extend(orders.map(|count| count.to_string()));
    row.extend([it.replacements.to_string(), it.modifications.to_string()]);
    row.extend([it.added, it.executed, it.cancelled].map(|size| size.to_string()));
    row.extend([it.trades.to_string(), it.volume.to_string(), it.breaks.to_string()]);
    row.push(it.late_count.to_string());
    row.extend([it.is_complete, it.is_certain, it.has_gap].map(|flag| flag.to_string()));
    row
}

/// The builder's output for these events.
fn told(config: &StatisticsSection, events: &[PostEvent]) -> Vec<Interval> {
    let mut rows = Vec::new();
    let mut builder = IntervalBuilder::new(&config.builder());
    let tell = &mut |row: &Interval| rows.push(*row);
    for event in events {
        match event {
            PostEvent::Act(it) => builder.act(it, tell),
            PostEvent::Quote(it) => builder.quote(it, tell),
            PostEvent::Call(it) => builder.call(it, tell),
            PostEvent::Book(it) => builder.state_book(it, tell),
            PostEvent::Void(channel, it) => builder.void(*channel, *it, tell),
            PostEvent::Gap(channel) => builder.miss(*channel),
            PostEvent::Untold => builder.mark_untold(),
            PostEvent::EndSession(channel) => builder.end_session(*channel, tell),
            _ => {}
        }
    }
    builder.end_all(tell);
    rows
}

fn column_names() -> Vec<String> {
    of_schema(schema()).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_table_has_each_interval_with_all_that_was_told() {
    for group_rows in [7, 10_000] {
        let dir = tempfile::tempdir().expect("a directory");
        let config = StatisticsSection { group_rows, ..config(dir.path()) };
        let mut statistics =
            Statistics::new(&config, &mut || Box::new(FileSystem)).expect("it begins");
        for event in &events() {
            statistics.take(event, Nanos(START + 5));
        }
        statistics.finish(Nanos(START + 6));
        let want: Vec<Vec<String>> = told(&config, &events()).iter().map(row_of).collect();
        assert!(want.len() > 150, "{} rows", want.len());
        let names = column_names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(names.len(), want[0].len());
        for (at, name) in names.iter().enumerate() {
            let values: HashSet<&String> = want.iter().map(|row| &row[at]).collect();
            let is_rare =
                matches!(*name, "is_complete" | "closed_ns" | "auction_ns" | "late_count");
            assert!(values.len() > 1 || is_rare, "{name} is always {values:?}");
        }
        let rows = read_all(dir.path(), "statistics-60s");
        let got = columns(&rows, &names);
        if group_rows > 1_000 {
            let key = |row: &Vec<String>| (row[0].clone(), row[1].clone());
            assert!(got.is_sorted_by_key(key), "one group, sorted by time and instrument");
        }
        let sorted = |mut rows: Vec<Vec<String>>| {
            rows.sort();
            rows
        };
        let figures = statistics.figures();
        assert_eq!((figures.files.rows, figures.files.open_rows), (want.len() as u64, 0));
        assert_eq!((figures.intervals.told, figures.files.lost), (want.len() as u64, 0));
        assert_eq!(sorted(got), sorted(want));
    }
}

#[test]
fn sums_beyond_a_columns_digits_are_none_and_the_widest_that_fit_are_exact() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = StatisticsSection { silence_s: 86_400, interval_s: 86_400, ..config(dir.path()) };
    let mut statistics = Statistics::new(&config, &mut || Box::new(FileSystem)).expect("it begins");
    let quote = |instrument, ts, bid, ask, size| {
        PostEvent::Quote(QuoteChange {
            instrument_id: InstrumentId(instrument),
            channel: 0,
            is_whole: false,
            state: None,
            sequence: 1,
            ts_event: Nanos(ts),
            quote: Quote { bid_px: Price(bid), bid_sz: size, ask_px: Price(ask), ask_sz: size },
        })
    };
    for event in [
        quote(1, START, i64::MIN, i64::MAX, Qty(u64::MAX)),
        quote(1, START + 80_000 * SECOND, i64::MAX - 1, i64::MAX, Qty(1)),
        quote(2, START + 80_000 * SECOND, 10, 14, Qty(1)),
        quote(2, START + 80_000 * SECOND, 10, 15, Qty(1)),
    ] {
        statistics.take(&event, Nanos(START));
    }
    statistics.finish(Nanos(START));
    let rows = read_all(dir.path(), "statistics-86400s");
    let wide = u128::from(u64::MAX) * u128::from(80_000 * SECOND);
    assert_eq!(rows[0]["spread_time"], wide.to_string());
    assert_eq!(rows[0]["bid_size_time"], wide.to_string());
    assert_eq!(rows[0]["spread_max"], u64::MAX.to_string());
    assert_eq!(rows[0]["first_bid_size"], u64::MAX.to_string());
    assert_eq!(rows[0]["mid_moves_squared"], "-", "a square of 2^64");
    assert_eq!(rows[1]["mid_moves_squared"], "25", "half of 10^-9, squared, to 20 places");
}

/// A processor with statistics only, and a ring of `events` events.
fn processor(dir: &Path, events: u32) -> (PostProcessor, PostSenders) {
    let statistics = Some(StatisticsSection { events, ..config(dir) });
    let section = PostSection { statistics, ..PostSection::default() };
    section.check().expect("it is in range");
    PostProcessor::new(&section, &[]).expect("it begins")
}

#[test]
fn a_full_ring_stops_nobody_and_what_it_leaves_out_marks_the_rows_that_may_lack_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut processor, mut senders) = processor(dir.path(), 1_024);
    let sender = senders.events.as_mut().expect("it is configured");
    assert_eq!(sender.wants(), EventSelection { bars: false, statistics: true });
    let minute = |nth: u64| START + nth * 60 * SECOND;
    let mut send = |event: &PostEvent| sender.send(event);
    for instrument in 1..=2 {
        let _sent = send(&quoted(instrument, minute(0), 10, 12, 1));
    }
    processor.poll(Nanos(START));
    // The ring is not read.
    let mut dropped = 0;
    for number in 2..3_000 {
        let handed = send(&quoted(1, minute(1) + number, 10, 12 + number as i64, number));
        dropped += u64::from(handed == SendOutcome::Dropped);
    }
    assert!(dropped > 1_500, "{dropped}");
    let figures = processor.figures().events;
    assert_eq!((figures.dropped, figures.waiting), (dropped, 1_025));
    assert_eq!(figures.behind, Nanos(minute(1) + 1_026 - minute(0)));
    while processor.poll(Nanos(START)) > 0 {}
    // An instrument that is quoted again is certain from its next interval on; the other is not.
    for nth in 2..5 {
        let _sent = send(&quoted(1, minute(nth), 10, 12, nth));
    }
    let figures = processor.finish(Nanos(START));
    assert_eq!(figures.statistics.files.lost, 0);
    let rows = read_all(dir.path(), "statistics-60s");
    let marks = |instrument: &str| {
        let of = rows.iter().filter(|row| row["instrument_id"] == instrument);
        let marks = of.map(|row| (row["has_gap"] == "true", row["is_certain"] == "true"));
        marks.collect::<Vec<_>>()
    };
    let ones = marks("1");
    assert_eq!(ones[..3], [(false, true), (true, false), (false, false)]);
    assert_eq!(ones[3..], [(false, true), (false, true)]);
    assert_eq!(marks("2")[..3], [(false, true), (true, false), (false, false)]);
}

#[test]
fn a_full_disk_loses_rows_that_are_counted_and_stops_nobody() {
    let dir = tempfile::tempdir().expect("a directory");
    let disk = LimitedStorage::with(u64::MAX);
    let config = StatisticsSection { group_rows: 4, ..config(dir.path()) };
    let mut statistics =
        Statistics::new(&config, &mut || Box::new(disk.clone())).expect("it begins");
    let mut number = 0;
    let mut push = |statistics: &mut Statistics, count: u64| {
        for _ in 0..count {
            number += 1;
            let ts = START + number * 60 * SECOND;
            statistics.take(&quoted(1, ts, 10, 12, number), Nanos(START));
        }
    };
    push(&mut statistics, 10);
    disk.set(100);
    push(&mut statistics, 5);
    let figures = statistics.figures().files;
    assert_eq!((figures.failures, figures.rows), (1, 0));
    assert!(figures.lost >= 8, "{figures:?}");
    assert_eq!(files(dir.path()).len(), 0);
    disk.set(u64::MAX);
    push(&mut statistics, 5);
    statistics.finish(Nanos(START));
    let after = statistics.figures();
    assert_eq!(after.files.lost + after.files.rows, after.intervals.told);
    assert_eq!(read_all(dir.path(), "statistics-60s").len() as u64, after.files.rows);
}

#[test]
fn the_page_of_statistics_has_each_column_with_its_type() {
    const PAGE: &str = include_str!("../../../../../docs/protocols/statistics.md");
    assert_eq!(on_page(PAGE, "## Columns\n"), of_schema(schema()));
}
