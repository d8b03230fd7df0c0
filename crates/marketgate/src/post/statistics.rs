//! Writes statistics by interval to the files of a table.
//!
//! `docs/protocols/statistics.md` documents the columns.

use std::io;

use parquet::errors::ParquetError;
use weir_feed::SymbolText;
use weir_market::interval::{
    IntervalBuilder, IntervalCounts, IntervalStatistics as Interval, Quote,
};
use weir_types::{Nanos, WallOffset};

use super::config::StatisticsSection;
use super::events::PostEvent;
use super::names::Names;
use super::storage::Storage;
use super::table::{Group, Row, TableConfig, TableFigures, TableWriter, as_io};

/// The lengths in bytes of a price or spread of up to 20 digits and a sum over time of 38.
const PRICE_LEN: usize = 9;
const SUM_LEN: usize = 16;
const SUM_MAX: u128 = 10_u128.pow(38);
/// A half with one more decimal place is five times the number; a quarter with two more is 25
/// times.
const HALF: i128 = 5;
const QUARTER: u128 = 25;

/// Counters of intervals and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatisticsFigures {
    /// The counters of intervals.
    pub intervals: IntervalCounts,
    /// Intervals in files.
    pub files: TableFigures,
}

#[derive(Clone, Copy)]
struct StatisticsRow {
    of: Interval,
    symbol: Option<SymbolText>,
}

/// A sum of more than 38 digits does not fit the table and is null.
fn signed(sum: Option<i128>) -> Option<i128> {
    sum.filter(|sum| sum.unsigned_abs() < SUM_MAX)
}

fn unsigned(sum: Option<u128>) -> Option<i128> {
    signed(sum.and_then(|sum| i128::try_from(sum).ok()))
}

/// The prices and quantities, four each, of the first and the last quote.
type OfQuote = fn(&Quote) -> Option<(weir_types::Price, weir_types::Qty)>;
type OfInterval = fn(&Interval) -> Option<Quote>;
const QUOTED: [(OfInterval, OfQuote); 4] = [
    (|it| it.first, Quote::bid),
    (|it| it.first, Quote::ask),
    (|it| it.last, Quote::bid),
    (|it| it.last, Quote::ask),
];

type Counted = fn(&Interval) -> u64;
const CHANGES_AND_TIMES: [Counted; 7] = [
    |it| it.quote_changes,
    |it| it.price_changes,
    |it| it.two_sided,
    |it| it.locked,
    |it| it.crossed,
    |it| it.one_sided,
    |it| it.empty,
];
const STATES_AND_ORDERS: [Counted; 18] = [
    |it| it.trading,
    |it| it.auction,
    |it| it.paused,
    |it| it.halted,
    |it| it.closed,
    |it| it.adds,
    |it| it.executions,
    |it| it.reductions,
    |it| it.deletions,
    |it| it.replacements,
    |it| it.modifications,
    |it| it.added.0,
    |it| it.executed.0,
    |it| it.cancelled.0,
    |it| it.trades,
    |it| it.volume.0,
    |it| it.breaks,
    |it| it.late_count,
];

impl Row for StatisticsRow {
    const SCHEMA: &'static str = "message statistics {
        required int64 start (TIMESTAMP(NANOS,true));
        required int32 instrument_id (INTEGER(32,false));
        optional binary symbol (STRING);
        optional int64 first_sequence (INTEGER(64,false));
        optional int64 last_sequence (INTEGER(64,false));
        optional fixed_len_byte_array(9) first_bid (DECIMAL(19,9));
        optional fixed_len_byte_array(9) first_ask (DECIMAL(19,9));
        optional fixed_len_byte_array(9) last_bid (DECIMAL(19,9));
        optional fixed_len_byte_array(9) last_ask (DECIMAL(19,9));
        optional int64 first_bid_size (INTEGER(64,false));
        optional int64 first_ask_size (INTEGER(64,false));
        optional int64 last_bid_size (INTEGER(64,false));
        optional int64 last_ask_size (INTEGER(64,false));
        required int64 quote_changes (INTEGER(64,false));
        required int64 price_changes (INTEGER(64,false));
        required int64 two_sided_ns (INTEGER(64,false));
        required int64 locked_ns (INTEGER(64,false));
        required int64 crossed_ns (INTEGER(64,false));
        required int64 one_sided_ns (INTEGER(64,false));
        required int64 empty_ns (INTEGER(64,false));
        optional fixed_len_byte_array(9) spread_min (DECIMAL(20,9));
        optional fixed_len_byte_array(9) spread_max (DECIMAL(20,9));
        optional fixed_len_byte_array(16) spread_time (DECIMAL(38,9));
        optional fixed_len_byte_array(16) relative_spread_time (DECIMAL(38,9));
        optional fixed_len_byte_array(16) mid_time (DECIMAL(38,10));
        optional fixed_len_byte_array(16) bid_size_time (DECIMAL(38,0));
        optional fixed_len_byte_array(16) ask_size_time (DECIMAL(38,0));
        required int64 mid_changes (INTEGER(64,false));
        optional fixed_len_byte_array(16) mid_moves_squared (DECIMAL(38,20));
        required int64 trading_ns (INTEGER(64,false));
        required int64 auction_ns (INTEGER(64,false));
        required int64 paused_ns (INTEGER(64,false));
        required int64 halted_ns (INTEGER(64,false));
        required int64 closed_ns (INTEGER(64,false));
        required int64 add_count (INTEGER(64,false));
        required int64 execute_count (INTEGER(64,false));
        required int64 reduce_count (INTEGER(64,false));
        required int64 delete_count (INTEGER(64,false));
        required int64 replace_count (INTEGER(64,false));
        required int64 modify_count (INTEGER(64,false));
        required int64 added (INTEGER(64,false));
        required int64 executed (INTEGER(64,false));
        required int64 cancelled (INTEGER(64,false));
        required int64 trade_count (INTEGER(64,false));
        required int64 volume (INTEGER(64,false));
        required int64 break_count (INTEGER(64,false));
        required int64 late_count (INTEGER(64,false));
        required boolean is_complete;
        required boolean is_certain;
        required boolean has_gap;
    }";
    const SORTED_BY: &'static [i32] = &[0, 1];

    fn key(&self) -> (u64, u64, u64) {
        (self.of.start.0, u64::from(self.of.instrument_id.0), 0)
    }

    fn put(rows: &[StatisticsRow], group: &mut Group<'_>) -> Result<(), ParquetError> {
        let all = || rows.iter().map(|row| &row.of);
        group.times(all().map(|it| it.start))?;
        group.small(all().map(|it| it.instrument_id.0))?;
        group.texts(rows.iter().map(|row| row.symbol.as_ref().map(SymbolText::as_str)))?;
        group.some_numbers(all().map(|it| it.sequences.map(|of| of.0)))?;
        group.some_numbers(all().map(|it| it.sequences.map(|of| of.1)))?;
        let side = |it: &Interval, (of_interval, of_quote): (OfInterval, OfQuote)| {
            of_interval(it).as_ref().and_then(of_quote)
        };
        for of in QUOTED {
            let prices = all().map(|it| side(it, of).map(|(price, _)| i128::from(price.0)));
            group.decimals::<PRICE_LEN>(prices)?;
        }
        for of in QUOTED {
            group.some_numbers(all().map(|it| side(it, of).map(|(_, size)| size.0)))?;
        }
        for of in CHANGES_AND_TIMES {
            group.numbers(all().map(of))?;
        }
        put_sums(all, group)?;
        for of in STATES_AND_ORDERS {
            group.numbers(all().map(of))?;
        }
        group.flags(all().map(|it| it.is_complete))?;
        group.flags(all().map(|it| it.is_certain))?;
        group.flags(all().map(|it| it.has_gap))
    }
}

/// Writes the columns of spreads, mid prices and quantities.
fn put_sums<'a, I: Iterator<Item = &'a Interval>>(
    all: impl Fn() -> I,
    group: &mut Group<'_>,
) -> Result<(), ParquetError> {
    group.decimals::<PRICE_LEN>(all().map(|it| it.spread_min.map(i128::from)))?;
    group.decimals::<PRICE_LEN>(all().map(|it| it.spread_max.map(i128::from)))?;
    group.decimals::<SUM_LEN>(all().map(|it| unsigned(Some(it.spread_time))))?;
    group.decimals::<SUM_LEN>(all().map(|it| unsigned(it.relative_time)))?;
    group.decimals::<SUM_LEN>(all().map(|it| signed(it.sum_time.checked_mul(HALF))))?;
    group.decimals::<SUM_LEN>(all().map(|it| unsigned(Some(it.bid_size_time))))?;
    group.decimals::<SUM_LEN>(all().map(|it| unsigned(Some(it.ask_size_time))))?;
    group.numbers(all().map(|it| it.mid_changes))?;
    let squares = |it: &Interval| it.sum_moves_squared.and_then(|sum| sum.checked_mul(QUARTER));
    group.decimals::<SUM_LEN>(all().map(|it| unsigned(squares(it))))
}

/// Builds statistics from events and writes them to files.
pub struct Statistics {
    builder: IntervalBuilder,
    table: TableWriter<StatisticsRow>,
    names: Names,
}

impl std::fmt::Debug for Statistics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Statistics").field("figures", &self.figures()).finish_non_exhaustive()
    }
}

impl Statistics {
    /// Uses a configuration whose values are in range. Removes unfinished files of a crash.
    ///
    /// # Errors
    /// An error of the directory.
    pub fn new(
        config: &StatisticsSection,
        storage: &mut dyn FnMut() -> Box<dyn Storage>,
    ) -> io::Result<Statistics> {
        let builder = config.builder();
        let table = TableConfig {
            dir: config.dir.clone(),
            name: format!("statistics-{}s", config.interval_s),
            group_rows: config.group_rows as usize,
            file_bytes: config.file_bytes,
            file_s: config.file_s,
            level: config.level,
            about: vec![
                ("weir.table", "statistics 1".to_owned()),
                ("weir.interval_ns", builder.interval.to_string()),
                ("weir.origin_ns", builder.origin.to_string()),
            ],
        };
        Ok(Statistics {
            builder: IntervalBuilder::new(&builder),
            table: TableWriter::new(table, storage()).map_err(as_io)?,
            names: Names::new(config.instruments_max),
        })
    }

    /// The counters of intervals and files.
    #[must_use]
    pub fn figures(&self) -> StatisticsFigures {
        StatisticsFigures { intervals: *self.builder.counts(), files: self.table.figures() }
    }

    /// Takes an event; ignores those for bars only.
    pub fn take(&mut self, event: &PostEvent, now: Nanos) {
        let Statistics { builder, table, names } = self;
        if let PostEvent::Define(definition) = event {
            return names.define(definition);
        }
        let tell = &mut |interval: &Interval| {
            let symbol = names.of(interval.instrument_id);
            table.push(StatisticsRow { of: *interval, symbol }, now);
        };
        match event {
            PostEvent::Act(activity) => builder.act(activity, tell),
            PostEvent::Quote(quoted) => builder.quote(quoted, tell),
            PostEvent::Call(called) => builder.call(called, tell),
            PostEvent::Book(stated) => builder.state_book(stated, tell),
            PostEvent::Void(channel, voided) => builder.void(*channel, *voided, tell),
            PostEvent::Gap(channel) => builder.miss(*channel),
            PostEvent::Untold => builder.mark_untold(),
            PostEvent::EndSession(channel) => {
                builder.end_session(*channel, tell);
                if builder.is_idle() {
                    table.close();
                }
            }
            // Definitions are handled above; trades and breaks are for bars.
            PostEvent::Define(_) | PostEvent::Trade(_) | PostEvent::Break(_) => {}
        }
    }

    /// Notes the distance of the wall clock, by which files are named and a day ends.
    pub fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.table.wall_clock_moved(wall);
    }

    /// Closes the file when its time has expired.
    pub fn tick(&mut self, now: Nanos) {
        self.table.tick(now);
    }

    /// Ends all open intervals and closes the file.
    pub fn finish(&mut self, now: Nanos) {
        let Statistics { builder, table, names } = self;
        builder.end_all(&mut |interval| {
            let symbol = names.of(interval.instrument_id);
            table.push(StatisticsRow { of: *interval, symbol }, now);
        });
        table.close();
    }
}

/// The columns.
#[cfg(test)]
pub(super) fn schema() -> &'static str {
    StatisticsRow::SCHEMA
}

#[cfg(test)]
mod tests;
