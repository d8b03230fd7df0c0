//! Tests: bars written to tables and read back, complete files only, and all parts on a thread.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parquet::data_type::AsBytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use weir_feed::capture::Datagram;
use weir_feed::capture::audit::LineNo;
use weir_feed::{Definition, SymbolText, TradeFlags, Venue};
use weir_market::bar::{BarBreak, BarBuilder, BarEvent, BarTrade};
use weir_market::book::TradePrint;
use weir_types::{InstrumentId, Nanos, Price, Qty, WallOffset};

use super::audit::{AuditFile, AuditItem, SendOutcome};
use super::storage::full::LimitedStorage;
use super::*;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
/// The beginning of a day.
const START: u64 = 20_700 * DAY;

fn trade(instrument: u32, ts: u64, price: i64, size: u64, number: u64) -> BarTrade {
    BarTrade {
        instrument_id: InstrumentId(instrument),
        sequence: number,
        ts_event: Nanos(ts),
        print: TradePrint {
            price: Price(price),
            size: Qty(size),
            match_id: number,
            aggressor: None,
            venue: Venue(0),
            flags: TradeFlags::default(),
        },
    }
}

fn config(dir: &Path, kinds: &[&str]) -> BarsSection {
    let kind = |text: &&str| NamedKind(text.parse().expect("a kind"));
    BarsSection {
        dir: dir.to_owned(),
        kinds: kinds.iter().map(kind).collect(),
        lateness_ms: 0,
        ..BarsSection::default()
    }
}

fn bars(config: &BarsSection) -> Bars {
    Bars::new(config, &mut || Box::new(FileSystem)).expect("it begins")
}

pub(super) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

/// Formats a field as text; decimals as unscaled digits.
fn text(field: &Field) -> String {
    match field {
        Field::Null => "-".to_owned(),
        Field::Decimal(decimal) => {
            let bytes = decimal.data().as_bytes();
            let fill = if bytes[0] & 0x80 == 0 { 0 } else { 0xff };
            let mut all = [fill; 16];
            all[16 - bytes.len()..].copy_from_slice(bytes);
            i128::from_be_bytes(all).to_string()
        }
        Field::Str(text) => text.clone(),
        Field::Bool(flag) => flag.to_string(),
        Field::Int(number) => number.to_string(),
        Field::UInt(number) => number.to_string(),
        Field::Long(number) | Field::TimestampMicros(number) => number.to_string(),
        Field::ULong(number) => number.to_string(),
        other => panic!("{other:?}"),
    }
}

fn row(row: &Row) -> BTreeMap<String, String> {
    row.get_column_iter().map(|(name, field)| (name.clone(), text(field))).collect()
}

fn read(path: &Path) -> Vec<BTreeMap<String, String>> {
    let reader = SerializedFileReader::new(fs::File::open(path).expect("it is there"));
    let reader = reader.expect("it is a table");
    let rows = reader.get_row_iter(None).expect("it has rows");
    rows.map(|found| row(&found.expect("a row"))).collect()
}

/// Reads the rows of all complete files of a table.
pub(super) fn read_all(dir: &Path, table: &str) -> Vec<BTreeMap<String, String>> {
    let of_table = |path: &&PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(&format!("{table}-2")) && name.ends_with(".parquet")
    };
    files(dir).iter().filter(of_table).flat_map(|path| read(path)).collect()
}

pub(super) fn values(rows: &[BTreeMap<String, String>], column: &str) -> Vec<String> {
    rows.iter().map(|row| row[column].clone()).collect()
}

/// A day of trades of three instruments; one trade is broken while its bar is open, one after.
fn events() -> Vec<PostEvent> {
    let mut events = Vec::new();
    let symbol = SymbolText::new(b"AMZN").expect("a symbol");
    events.push(PostEvent::Define(Definition {
        instrument_id: InstrumentId(1),
        symbol,
        round_lot: Qty(100),
        previous_close: None,
    }));
    let mut chance = 11_u64;
    for number in 1..=900 {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let draw = chance >> 33;
        let price = (draw % 2_000) as i64 * 10_000_000 - 3_000_000_000;
        let ts = START + number * 700_000_000;
        let mut trade = trade(1 + (draw % 3) as u32, ts, price, 1 + draw % 500, number);
        trade.print.flags = TradeFlags(if draw.is_multiple_of(20) { (draw % 7) as u8 } else { 0 });
        events.push(PostEvent::Trade(trade));
        if number % 100 == 0 {
            events.push(PostEvent::Break(BarBreak {
                instrument_id: trade.instrument_id,
                sequence: number,
                ts_event: Nanos(ts),
                match_id: if number % 200 == 0 { number } else { number / 2 },
                price: Price(0),
                size: Qty(0),
            }));
        }
        if number == 450 {
            events.push(PostEvent::Gap(0));
        }
    }
    events
}

fn play(bars: &mut Bars, events: &[PostEvent]) {
    for event in events {
        let now = Nanos(START + 5);
        match event {
            PostEvent::Define(definition) => bars.define(definition),
            PostEvent::Trade(trade) => bars.trade(trade, now),
            PostEvent::Break(undone) => bars.trade_break(undone, now),
            PostEvent::Gap(_) => bars.mark_gap(),
            other => panic!("{other:?}"),
        }
    }
}

/// The builders' output for these events, as expected rows of the tables.
fn told(config: &BarsSection, events: &[PostEvent]) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
    let (mut bars, mut corrections) = (Vec::new(), Vec::new());
    let config = config.builders().next().expect("one kind");
    let mut builder = BarBuilder::new(&config);
    let symbol = |id: InstrumentId| if id.0 == 1 { "AMZN" } else { "-" }.to_owned();
    let price = |price: Option<Price>| price.map_or("-".to_owned(), |it| it.to_string());
    let mut tell = |event: &BarEvent| match event {
        BarEvent::Closed(bar) => bars.push(vec![
            bar.start.to_string(),
            bar.instrument_id.0.to_string(),
            symbol(bar.instrument_id),
            bar.number.to_string(),
            bar.ts_first.to_string(),
            bar.ts_last.to_string(),
            bar.first_sequence.to_string(),
            bar.last_sequence.to_string(),
            price(bar.open),
            price(bar.high),
            price(bar.low),
            price(bar.close),
            bar.volume.to_string(),
            bar.turnover.to_string(),
            price(bar.vwap()),
            bar.trade_count.to_string(),
            bar.late_count.to_string(),
            bar.broken_count.to_string(),
            bar.is_complete.to_string(),
            bar.is_range_certain.to_string(),
            bar.has_gap.to_string(),
        ]),
        BarEvent::Corrected(it) => corrections.push(vec![
            it.ts_event.to_string(),
            it.instrument_id.0.to_string(),
            symbol(it.instrument_id),
            it.sequence.to_string(),
            it.bar.map_or("-".to_owned(), |bar| bar.0.to_string()),
            it.bar.map_or("-".to_owned(), |bar| bar.1.to_string()),
            it.match_id.to_string(),
            it.price.to_string(),
            it.size.to_string(),
            it.flags.0.to_string(),
        ]),
    };
    for event in events {
        match event {
            PostEvent::Trade(trade) => {
                builder.trade(trade, &mut tell);
                builder.advance(trade.ts_event, &mut tell);
            }
            PostEvent::Break(undone) => builder.trade_break(undone, &mut tell),
            PostEvent::Gap(_) => builder.mark_gap(),
            _ => {}
        }
    }
    builder.end_session(&mut tell);
    (bars, corrections)
}

const BAR_COLUMNS: [&str; 21] = [
    "start",
    "instrument_id",
    "symbol",
    "number",
    "ts_first",
    "ts_last",
    "first_sequence",
    "last_sequence",
    "open",
    "high",
    "low",
    "close",
    "volume",
    "turnover",
    "vwap",
    "trade_count",
    "late_count",
    "broken_count",
    "is_complete",
    "is_range_certain",
    "has_gap",
];
const CORRECTION_COLUMNS: [&str; 10] = [
    "ts",
    "instrument_id",
    "symbol",
    "sequence",
    "bar_number",
    "bar_start",
    "match_id",
    "price",
    "size",
    "flags",
];

pub(super) fn columns(rows: &[BTreeMap<String, String>], names: &[&str]) -> Vec<Vec<String>> {
    rows.iter().map(|row| names.iter().map(|name| row[*name].clone()).collect()).collect()
}

#[test]
fn a_table_has_each_bar_and_each_correction_with_all_that_was_told() {
    for (kind, group_rows) in [("time-60s", 7), ("ticks-10", 1_000), ("volume-2000", 1)] {
        let dir = tempfile::tempdir().expect("a directory");
        let config = BarsSection { group_rows, ..config(dir.path(), &[kind]) };
        let mut bars = bars(&config);
        play(&mut bars, &events());
        bars.end_session(Nanos(START + 6));
        let (mut want, corrections) = told(&config, &events());
        let rows = read_all(dir.path(), &format!("bars-{kind}"));
        let mut got = columns(&rows, &BAR_COLUMNS);
        if group_rows > 500 {
            let key = |row: &Vec<String>| (row[0].clone(), row[1].clone(), row[3].clone());
            assert!(got.is_sorted_by_key(key), "one group, sorted by time: all digits are as many");
        }
        assert!(want.len() > 20 && corrections.len() > 3, "{kind}: {}", corrections.len());
        want.sort();
        got.sort();
        assert_eq!(got, want, "{kind}");
        let rows = read_all(dir.path(), &format!("corrections-{kind}"));
        assert_eq!(columns(&rows, &CORRECTION_COLUMNS), corrections, "{kind}");
        let figures = bars.figures();
        assert_eq!(figures.bar_files.rows, want.len() as u64);
        assert_eq!((figures.bar_files.open_rows, figures.bar_files.lost), (0, 0));
        assert_eq!(figures.bars.bars, want.len() as u64);
    }
}

#[test]
fn a_file_says_its_kind_its_order_and_is_compressed() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut bars = bars(&BarsSection { origin_s: 7, ..config(dir.path(), &["time-60s"]) });
    play(&mut bars, &events());
    bars.end_session(Nanos(START + 6));
    let path = files(dir.path()).into_iter().find(|path| path.to_string_lossy().contains("/bars-"));
    let path = path.expect("a file of bars");
    assert!(path.ends_with("bars-time-60s-20260904T000000.000000005Z.parquet"), "{path:?}");
    let reader = SerializedFileReader::new(fs::File::open(path).expect("it is there"));
    let reader = reader.expect("it is a table");
    let about = reader.metadata().file_metadata().key_value_metadata().expect("it says");
    let about: Vec<_> =
        about.iter().map(|it| (it.key.as_str(), it.value.as_deref().unwrap_or(""))).collect();
    assert_eq!(
        about,
        [("weir.table", "bars 1"), ("weir.kind", "time-60s"), ("weir.origin_ns", "7000000000"),]
    );
    let group = reader.metadata().row_group(0);
    let sorted = group.sorting_columns().expect("it is sorted");
    assert_eq!(sorted.iter().map(|by| by.column_idx).collect::<Vec<_>>(), [0, 1, 3]);
    let compressed = |at: usize| format!("{:?}", group.column(at).compression());
    assert!(compressed(0).starts_with("ZSTD"), "{}", compressed(0));
}

#[test]
fn a_number_beyond_a_columns_digits_is_none_and_the_widest_prices_are_exact() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut bars = bars(&config(dir.path(), &["ticks-1"]));
    for (number, price, size) in
        [(1, i64::MAX, 1), (2, i64::MIN, 1), (3, i64::MAX, u64::MAX), (4, -1, 3)]
    {
        bars.trade(&trade(1, START + number, price, size, number), Nanos(START));
    }
    bars.end_session(Nanos(START));
    let rows = read_all(dir.path(), "bars-ticks-1");
    let (min, max) = (i64::MIN.to_string(), i64::MAX.to_string());
    assert_eq!(values(&rows, "close"), [max.as_str(), &min, &max, "-1"]);
    assert_eq!(values(&rows, "vwap"), [max.as_str(), &min, &max, "-1"]);
    assert_eq!(values(&rows, "turnover"), [max.as_str(), &min, "-", "-3"]);
    assert_eq!(values(&rows, "volume")[2], u64::MAX.to_string());
}

#[test]
fn a_file_ends_by_time_day_and_size_and_is_there_whole_or_not_at_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = BarsSection {
        file_s: 60,
        file_bytes: 6_000,
        group_rows: 2,
        ..config(dir.path(), &["ticks-1"])
    };
    let whole = || {
        let names = files(dir.path());
        names.iter().filter(|path| path.extension().is_some_and(|end| end == "parquet")).count()
    };
    let mut bars = bars(&config);
    let late = START + DAY - 100 * SECOND;
    let mut number = 0;
    let mut push = |bars: &mut Bars, now: u64| {
        number += 1;
        bars.trade(&trade(1, START + number, 5, 1, number), Nanos(now));
    };
    push(&mut bars, late);
    push(&mut bars, late + 59 * SECOND);
    bars.tick(Nanos(late + 59 * SECOND));
    assert_eq!((whole(), files(dir.path()).len()), (0, 1), "only one with another name");
    bars.tick(Nanos(late + 60 * SECOND));
    assert_eq!((whole(), files(dir.path()).len()), (1, 1));
    push(&mut bars, late + 70 * SECOND);
    push(&mut bars, late + 100 * SECOND);
    assert_eq!(whole(), 2, "a day has its own file");
    for _ in 0..40 {
        push(&mut bars, late + 101 * SECOND);
    }
    assert!(whole() > 3, "by size: {}", whole());
    while files(dir.path()).len() == whole() {
        push(&mut bars, late + 101 * SECOND);
    }
    let before = read_all(dir.path(), "bars-ticks-1").len() as u64;
    // A crash: the open file is lost, and the next start removes it.
    let figures = bars.figures().bar_files;
    assert!(figures.open_rows > 0 && figures.rows == before);
    std::mem::forget(bars);
    assert_eq!(files(dir.path()).len(), whole() + 1);
    let again = super::tests::bars(&config);
    assert_eq!(files(dir.path()).len(), whole());
    drop(again);
    assert_eq!(read_all(dir.path(), "bars-ticks-1").len() as u64, before);
}

#[test]
fn a_file_has_the_day_and_the_name_of_the_wall_clock_and_its_age_by_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = BarsSection { file_s: 60, group_rows: 1, ..config(dir.path(), &["ticks-1"]) };
    let mut bars = bars(&config);
    let set = |bars: &mut Bars, wall: u64| {
        bars.wall_clock_moved(WallOffset::between(Nanos(START), Nanos(wall)));
    };
    // Ten seconds before midnight by the wall clock.
    let late = START + 3 * DAY - 10 * SECOND;
    set(&mut bars, late);
    bars.trade(&trade(1, START, 5, 1, 1), Nanos(START));
    let name = |at| format!("bars-ticks-1-{}.parquet", moment::moment(Nanos(at)));
    let names = || {
        let paths = files(dir.path()).into_iter();
        let names = paths.map(|path| path.file_name().expect("a file").to_owned().into_string());
        names.collect::<Result<Vec<_>, _>>().expect("text")
    };
    assert_eq!(names(), [name(late) + ".part"]);
    bars.tick(Nanos(START + 10 * SECOND - 1));
    assert_eq!(names(), [name(late) + ".part"]);
    bars.tick(Nanos(START + 10 * SECOND));
    assert_eq!(names(), [name(late)], "a day has its own file");
    // Set back and forth within the day, a file lives for its minute.
    let begun = Nanos(START + 20 * SECOND);
    bars.trade(&trade(1, START, 5, 1, 2), begun);
    let second = late + 20 * SECOND;
    for wall in [late + 3_600 * SECOND, late + 60 * SECOND] {
        set(&mut bars, wall);
        bars.tick(Nanos(begun.0 + 60 * SECOND - 1));
        assert_eq!(names(), [name(late), name(second) + ".part"]);
    }
    bars.tick(Nanos(begun.0 + 60 * SECOND));
    assert_eq!(names(), [name(late), name(second)]);
}

#[test]
fn a_full_disk_loses_the_open_file_counts_its_rows_and_leaves_nothing_half_done() {
    let dir = tempfile::tempdir().expect("a directory");
    let disk = LimitedStorage::with(u64::MAX);
    let config = BarsSection { group_rows: 4, ..config(dir.path(), &["ticks-1"]) };
    let mut bars = Bars::new(&config, &mut || Box::new(disk.clone())).expect("it begins");
    let push = |bars: &mut Bars, count: u64| {
        for number in 1..=count {
            bars.trade(&trade(1, START + number, 5, 1, number), Nanos(START));
        }
    };
    push(&mut bars, 10);
    disk.set(100);
    push(&mut bars, 4);
    let figures = bars.figures().bar_files;
    assert_eq!((figures.failures, figures.rows), (1, 0));
    assert!(figures.lost >= 8, "{figures:?}");
    assert_eq!(files(dir.path()).len(), 0);
    disk.set(u64::MAX);
    push(&mut bars, 6);
    bars.end_session(Nanos(START));
    let after = bars.figures().bar_files;
    assert_eq!(after.lost + after.rows, 20);
    assert_eq!(read_all(dir.path(), "bars-ticks-1").len() as u64, after.rows);
}

/// Sends `count` datagrams and trades of a made-up feed.
fn feed(senders: &mut processor::PostSenders, count: u64) -> (u64, u64) {
    let (mut kept, mut dropped) = (0, 0);
    let address = |text: &str| text.parse().expect("an address");
    let (src, dst) = (address("10.0.0.1:4"), address("224.0.0.1:5"));
    for number in 1..=count {
        let payload = &number.to_le_bytes().repeat(20);
        let datagram = Datagram { ts_recv: Nanos(START + number), src, dst, payload };
        let audit = senders.audit.as_mut().expect("it is configured");
        match audit.send(LineNo(0), Nanos(START + number), &datagram) {
            SendOutcome::Taken => kept += 1,
            SendOutcome::Dropped => dropped += 1,
        }
        let events = senders.events.as_mut().expect("it is configured");
        let trade = trade(1, START + number, 7, 1, number);
        let _: SendOutcome = events.send(&PostEvent::Trade(trade));
    }
    (kept, dropped)
}

#[test]
fn on_its_thread_it_keeps_all_that_found_room_and_ends_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let (audit_dir, bars_dir) = (dir.path().join("audit"), dir.path().join("bars"));
    let section = PostSection {
        audit: Some(AuditSection { dir: audit_dir.clone(), ..AuditSection::default() }),
        bars: Some(config(&bars_dir, &["ticks-10"])),
        statistics: None,
    };
    section.check().expect("it is in range");
    let (processor, mut senders) =
        PostProcessor::new(&section, &["A".to_owned()]).expect("it begins");
    let (stop, watch) = (Arc::new(AtomicBool::new(false)), processor.watch());
    let running = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || processor.run(&stop)
    });
    let (kept, dropped) = feed(&mut senders, 30_000);
    let deadline = Instant::now() + Duration::from_secs(60);
    while watch.figures().queue.waiting > 0 || watch.figures().events.taken < 1 {
        assert!(Instant::now() < deadline, "{:?}", watch.figures());
        std::thread::sleep(Duration::from_millis(5));
    }
    stop.store(true, Ordering::Release);
    let figures = running.join().expect("it ends");
    assert_eq!((figures.queue.taken, figures.queue.dropped), (kept, dropped));
    assert_eq!((figures.queue.waiting, figures.events.waiting), (0, 0));
    assert_eq!((figures.audit.datagrams, figures.audit.lost), (kept, 0));
    let mut read = 0;
    for path in files(&audit_dir) {
        let mut file = AuditFile::open(&path).expect("it opens");
        while file
            .next(&mut |item| read += u64::from(matches!(item, AuditItem::Datagram(_))))
            .expect("it reads")
        {}
        assert!(file.has_end());
    }
    assert_eq!(read, kept);
    let rows = read_all(&bars_dir, "bars-ticks-10");
    let trades: u64 =
        values(&rows, "trade_count").iter().map(|count| count.parse::<u64>().expect("one")).sum();
    assert_eq!(trades, figures.events.taken);
    assert_eq!(figures.events.taken + figures.events.dropped, 30_000);
    assert_eq!(figures.bars.bar_files.rows, rows.len() as u64);
}

#[test]
fn one_that_stands_still_says_how_far_it_is_behind_and_marks_bars_that_may_lack_trades() {
    let dir = tempfile::tempdir().expect("a directory");
    let (audit_dir, bars_dir) = (dir.path().join("audit"), dir.path().join("bars"));
    let queue_bytes = 1 << 20;
    let section = PostSection {
        audit: Some(AuditSection { dir: audit_dir, queue_bytes, ..AuditSection::default() }),
        bars: Some(config(&bars_dir, &["ticks-1"])),
        statistics: None,
    };
    let (mut processor, mut senders) =
        PostProcessor::new(&section, &["A".to_owned()]).expect("it begins");
    feed(&mut senders, 1);
    assert_eq!(processor.poll(Nanos(START)), 2);
    let (kept, dropped) = feed(&mut senders, 70_000);
    assert!(dropped > 60_000 && kept > 1_000);
    let figures = processor.figures();
    assert_eq!((figures.queue.waiting, figures.queue.dropped), (kept, dropped));
    assert!(figures.queue.waiting_bytes > kept * 160, "{figures:?}");
    assert_eq!(figures.queue.behind, Nanos(kept - 1));
    assert_eq!(figures.events.dropped, 70_000 - figures.events.waiting);
    assert_eq!(figures.events.behind, Nanos(figures.events.waiting - 1));
    let mut taken = 0;
    while taken < 70_000 {
        let round = processor.poll(Nanos(START + 1));
        assert!(round > 0, "{:?}", processor.figures());
        taken += round;
        if processor.figures().events.waiting == 0 {
            break;
        }
    }
    feed(&mut senders, 1);
    drop(senders);
    let figures = processor.finish(Nanos(START + 2));
    assert_eq!(figures.audit.missing, dropped);
    let rows = read_all(&bars_dir, "bars-ticks-1");
    let gaps: Vec<String> = values(&rows, "has_gap");
    assert_eq!(gaps.iter().filter(|gap| *gap == "true").count(), 1);
    assert_eq!(gaps.len() as u64, figures.events.taken);
}

const PAGE: &str = include_str!("../../../../docs/protocols/bars.md");

/// Returns the column and type of each line of a schema: `start`, `TIMESTAMP(NANOS,true)`.
pub(super) fn of_schema(schema: &str) -> Vec<(String, String)> {
    let lines = schema.lines().map(str::trim).filter_map(|line| line.strip_suffix(';'));
    lines
        .map(|line| {
            let (head, logical) = line.split_once(" (").unwrap_or((line, ""));
            let words: Vec<&str> = head.split(' ').collect();
            let kind = match logical {
                "" => words[1].to_uppercase(),
                logical => logical.trim_end_matches(')').to_owned(),
            };
            let kind = if kind.contains('(') { format!("{kind})") } else { kind };
            let is_optional = words[0] == "optional";
            (words[2].to_owned(), format!("{kind}{}", if is_optional { ", optional" } else { "" }))
        })
        .collect()
}

/// Returns the column and type of each row of a page's section.
pub(super) fn on_page(page: &str, heading: &str) -> Vec<(String, String)> {
    let section = page.split(heading).nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows = section.expect("the section").lines().filter_map(|row| row.strip_prefix("| `"));
    rows.map(|row| {
        let mut cells = row.split(" | ");
        let name = cells.next().unwrap_or_default().trim_end_matches('`');
        (name.to_owned(), cells.next().unwrap_or_default().to_owned())
    })
    .collect()
}

#[test]
fn the_page_of_bars_has_each_column_with_its_type() {
    for (heading, schema) in [
        ("## Columns of bars\n", bars::bar_schema()),
        ("## Columns of corrections\n", bars::correction_schema()),
    ] {
        assert_eq!(on_page(PAGE, heading), of_schema(schema), "{heading}");
    }
}
