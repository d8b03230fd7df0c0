//! Writes bars of a feed's trades to table files, one table for each kind of bar.
//!
//! `docs/protocols/bars.md` documents the columns.

use std::io;

use parquet::errors::ParquetError;
use weir_feed::{Definition, SymbolText};
use weir_market::bar::{
    Bar, BarBreak, BarBuilder, BarCounts, BarEvent, BarKind, BarTrade, Correction,
};
use weir_types::{Cash, Nanos, Price, WallOffset};

use super::config::BarsSection;
use super::names::Names;
use super::storage::Storage;
use super::table::{Group, Row, TableConfig, TableFigures, TableWriter, as_io};

const MILLI: u64 = 1_000_000;
/// The lengths in bytes of a price of 19 digits and an amount of money of 38.
const PRICE_LEN: usize = 9;
const CASH_LEN: usize = 16;
/// The maximum number of corrections in a row group: they are rare.
const CORRECTIONS_MAX: u32 = 1_024;
const CASH_MAX: u128 = 10_u128.pow(38);

/// Counters of trades and bars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BarsFigures {
    /// The counters of all kinds of bars together.
    pub bars: BarCounts,
    /// Bars in files.
    pub bar_files: TableFigures,
    /// Corrections in files.
    pub correction_files: TableFigures,
}

#[derive(Clone, Copy)]
struct BarRow {
    bar: Bar,
    symbol: Option<SymbolText>,
}

#[derive(Clone, Copy)]
struct CorrectionRow {
    correction: Correction,
    symbol: Option<SymbolText>,
}

fn price(price: Option<Price>) -> Option<i128> {
    price.map(|price| i128::from(price.0))
}

/// An amount of more than 38 digits does not fit the table and is null.
fn cash(cash: Cash) -> Option<i128> {
    (cash.0.unsigned_abs() < CASH_MAX).then_some(cash.0)
}

impl Row for BarRow {
    const SCHEMA: &'static str = "message bar {
        required int64 start (TIMESTAMP(NANOS,true));
        required int32 instrument_id (INTEGER(32,false));
        optional binary symbol (STRING);
        required int64 number (INTEGER(64,false));
        required int64 ts_first (TIMESTAMP(NANOS,true));
        required int64 ts_last (TIMESTAMP(NANOS,true));
        required int64 first_sequence (INTEGER(64,false));
        required int64 last_sequence (INTEGER(64,false));
        optional fixed_len_byte_array(9) open (DECIMAL(19,9));
        optional fixed_len_byte_array(9) high (DECIMAL(19,9));
        optional fixed_len_byte_array(9) low (DECIMAL(19,9));
        optional fixed_len_byte_array(9) close (DECIMAL(19,9));
        required int64 volume (INTEGER(64,false));
        optional fixed_len_byte_array(16) turnover (DECIMAL(38,9));
        optional fixed_len_byte_array(9) vwap (DECIMAL(19,9));
        required int64 trade_count (INTEGER(64,false));
        required int64 late_count (INTEGER(64,false));
        required int64 broken_count (INTEGER(64,false));
        required boolean is_complete;
        required boolean is_range_certain;
        required boolean has_gap;
    }";
    const SORTED_BY: &'static [i32] = &[0, 1, 3];

    fn key(&self) -> (u64, u64, u64) {
        (self.bar.start.0, u64::from(self.bar.instrument_id.0), self.bar.number)
    }

    fn put(rows: &[BarRow], group: &mut Group<'_>) -> Result<(), ParquetError> {
        let bars = || rows.iter().map(|row| &row.bar);
        group.times(bars().map(|bar| bar.start))?;
        group.small(bars().map(|bar| bar.instrument_id.0))?;
        group.texts(rows.iter().map(|row| row.symbol.as_ref().map(SymbolText::as_str)))?;
        group.numbers(bars().map(|bar| bar.number))?;
        group.times(bars().map(|bar| bar.ts_first))?;
        group.times(bars().map(|bar| bar.ts_last))?;
        group.numbers(bars().map(|bar| bar.first_sequence))?;
        group.numbers(bars().map(|bar| bar.last_sequence))?;
        let columns: [fn(&Bar) -> Option<Price>; 4] =
            [|bar| bar.open, |bar| bar.high, |bar| bar.low, |bar| bar.close];
        for column in columns {
            group.decimals::<PRICE_LEN>(bars().map(|bar| price(column(bar))))?;
        }
        group.numbers(bars().map(|bar| bar.volume.0))?;
        group.decimals::<CASH_LEN>(bars().map(|bar| cash(bar.turnover)))?;
        group.decimals::<PRICE_LEN>(bars().map(|bar| price(bar.vwap())))?;
        group.numbers(bars().map(|bar| bar.trade_count))?;
        group.numbers(bars().map(|bar| bar.late_count))?;
        group.numbers(bars().map(|bar| bar.broken_count))?;
        group.flags(bars().map(|bar| bar.is_complete))?;
        group.flags(bars().map(|bar| bar.is_range_certain))?;
        group.flags(bars().map(|bar| bar.has_gap))
    }
}

impl Row for CorrectionRow {
    const SCHEMA: &'static str = "message correction {
        required int64 ts (TIMESTAMP(NANOS,true));
        required int32 instrument_id (INTEGER(32,false));
        optional binary symbol (STRING);
        required int64 sequence (INTEGER(64,false));
        optional int64 bar_number (INTEGER(64,false));
        optional int64 bar_start (TIMESTAMP(NANOS,true));
        required int64 match_id (INTEGER(64,false));
        optional fixed_len_byte_array(9) price (DECIMAL(19,9));
        required int64 size (INTEGER(64,false));
        required int32 flags (INTEGER(32,false));
    }";
    const SORTED_BY: &'static [i32] = &[0, 1, 3];

    fn key(&self) -> (u64, u64, u64) {
        let it = &self.correction;
        (it.ts_event.0, u64::from(it.instrument_id.0), it.sequence)
    }

    fn put(rows: &[CorrectionRow], group: &mut Group<'_>) -> Result<(), ParquetError> {
        let all = || rows.iter().map(|row| &row.correction);
        group.times(all().map(|it| it.ts_event))?;
        group.small(all().map(|it| it.instrument_id.0))?;
        group.texts(rows.iter().map(|row| row.symbol.as_ref().map(SymbolText::as_str)))?;
        group.numbers(all().map(|it| it.sequence))?;
        group.some_numbers(all().map(|it| it.bar.map(|bar| bar.0)))?;
        group.some_times(all().map(|it| it.bar.map(|bar| bar.1)))?;
        group.numbers(all().map(|it| it.match_id))?;
        group.decimals::<PRICE_LEN>(all().map(|it| price(Some(it.price))))?;
        group.numbers(all().map(|it| it.size.0))?;
        group.small(all().map(|it| u32::from(it.flags.0)))
    }
}

/// The bars of one kind, with their tables.
struct OneKind {
    builder: BarBuilder,
    bars: TableWriter<BarRow>,
    corrections: TableWriter<CorrectionRow>,
}

/// Builds bars from trades and writes them to files.
pub struct Bars {
    kinds: Vec<OneKind>,
    names: Names,
    /// The latest time of a trade in the session.
    newest: Nanos,
    lateness: u64,
}

impl std::fmt::Debug for Bars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bars").field("figures", &self.figures()).finish_non_exhaustive()
    }
}

impl Bars {
    /// Uses a configuration whose values are in range. Removes unfinished files of a crash.
    ///
    /// # Errors
    /// An error of the directory.
    pub fn new(
        config: &BarsSection,
        storage: &mut dyn FnMut() -> Box<dyn Storage>,
    ) -> io::Result<Bars> {
        let mut kinds = Vec::new();
        let corrections = config.group_rows.min(CORRECTIONS_MAX);
        for builder in config.builders() {
            let table = |name: &str, group_rows: u32| TableConfig {
                dir: config.dir.clone(),
                name: format!("{name}-{}", builder.kind),
                group_rows: group_rows as usize,
                file_bytes: config.file_bytes,
                file_s: config.file_s,
                level: config.level,
                about: about(name, builder.kind),
            };
            kinds.push(OneKind {
                bars: TableWriter::new(table("bars", config.group_rows), storage())
                    .map_err(as_io)?,
                corrections: TableWriter::new(table("corrections", corrections), storage())
                    .map_err(as_io)?,
                builder: BarBuilder::new(&builder),
            });
        }
        Ok(Bars {
            kinds,
            names: Names::new(config.instruments_max),
            newest: Nanos(0),
            lateness: config.lateness_ms * MILLI,
        })
    }

    /// The counters of trades and bars.
    #[must_use]
    pub fn figures(&self) -> BarsFigures {
        let mut figures = BarsFigures::default();
        for kind in &self.kinds {
            add(&mut figures.bars, kind.builder.counts());
            figures.bar_files = figures.bar_files.plus(kind.bars.figures());
            figures.correction_files = figures.correction_files.plus(kind.corrections.figures());
        }
        figures
    }

    /// Sets the name of an instrument for its following rows.
    pub fn define(&mut self, definition: &Definition) {
        self.names.define(definition);
    }

    /// Takes a trade.
    pub fn trade(&mut self, trade: &BarTrade, now: Nanos) {
        self.newest = self.newest.max(trade.ts_event);
        let passed = Nanos(self.newest.0.saturating_sub(self.lateness));
        self.each(now, |builder, tell| {
            builder.trade(trade, tell);
            builder.advance(passed, tell);
        });
    }

    /// Applies a trade break.
    pub fn trade_break(&mut self, undone: &BarBreak, now: Nanos) {
        self.each(now, |builder, tell| builder.trade_break(undone, tell));
    }

    /// Records that messages were missed.
    pub fn mark_gap(&mut self) {
        self.kinds.iter_mut().for_each(|kind| kind.builder.mark_gap());
    }

    /// Ends the session: closes all bars and their files.
    pub fn end_session(&mut self, now: Nanos) {
        self.each(now, |builder, tell| builder.end_session(tell));
        self.newest = Nanos(0);
        for kind in &mut self.kinds {
            kind.bars.close();
            kind.corrections.close();
        }
    }

    /// Notes the distance of the wall clock, by which files are named and a day ends.
    pub fn wall_clock_moved(&mut self, wall: WallOffset) {
        for kind in &mut self.kinds {
            kind.bars.wall_clock_moved(wall);
            kind.corrections.wall_clock_moved(wall);
        }
    }

    /// Closes files whose time has expired.
    pub fn tick(&mut self, now: Nanos) {
        for kind in &mut self.kinds {
            kind.bars.tick(now);
            kind.corrections.tick(now);
        }
    }

    fn each(
        &mut self,
        now: Nanos,
        mut act: impl FnMut(&mut BarBuilder, &mut dyn FnMut(&BarEvent)),
    ) {
        for OneKind { builder, bars, corrections } in &mut self.kinds {
            let names = &self.names;
            act(builder, &mut |event| match event {
                BarEvent::Closed(bar) => {
                    let symbol = names.of(bar.instrument_id);
                    bars.push(BarRow { bar: *bar, symbol }, now);
                }
                BarEvent::Corrected(correction) => {
                    let symbol = names.of(correction.instrument_id);
                    corrections.push(CorrectionRow { correction: *correction, symbol }, now);
                }
            });
        }
    }
}

/// The metadata of a file.
fn about(table: &str, kind: BarKind) -> Vec<(&'static str, String)> {
    let mut about = vec![("weir.table", format!("{table} 1")), ("weir.kind", kind.to_string())];
    if let BarKind::Time { origin, .. } = kind {
        about.push(("weir.origin_ns", origin.to_string()));
    }
    about
}

fn add(sum: &mut BarCounts, counts: &BarCounts) {
    sum.trades += counts.trades;
    sum.passed_over += counts.passed_over;
    sum.refused += counts.refused;
    sum.late += counts.late;
    sum.broken += counts.broken;
    sum.corrections += counts.corrections;
    sum.unknown += counts.unknown;
    sum.bars += counts.bars;
}

/// The columns of bars.
#[cfg(test)]
pub(super) fn bar_schema() -> &'static str {
    BarRow::SCHEMA
}

/// The columns of corrections.
#[cfg(test)]
pub(super) fn correction_schema() -> &'static str {
    CorrectionRow::SCHEMA
}
