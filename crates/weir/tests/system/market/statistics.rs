//! A gateway that records statistics: its table equals the statistics computed from the venue's
//! messages.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::Path;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use weir_market::interval::{
    Activity, IntervalBuilder, IntervalConfig, IntervalStatistics, QuoteChange, StateChange,
};

use super::*;

const SECOND: u64 = 1_000_000_000;
/// Half past nine.
const OPEN: u64 = 34_200 * SECOND;
/// The time between two messages.
const STEP_NS: u64 = 97_000_001;

/// Returns a day's messages with increasing times; one instrument is halted and resumed repeatedly.
fn messages() -> Vec<Vec<u8>> {
    let mut venue = Venue::new(free_udp(), "MADE");
    venue.kept = Some(vec![]);
    (1..=INSTRUMENTS).for_each(|locate| venue.directory(locate, &symbol_of(locate)));
    let mut day = Day { random: 0x9e37_79b9_7f4a_7c15, ..Day::default() };
    for number in 0..4_000_u64 {
        day.step(&mut venue, INSTRUMENTS);
        if number.is_multiple_of(500) {
            let action = StockTradingAction {
                stock: stock(&symbol_of(3)).unwrap(),
                trading_state: if number.is_multiple_of(1_000) { b'H' } else { b'T' },
                reserved: b' ',
                reason: *b"    ",
            };
            venue.say(&action.to_bytes(&header(3)));
        }
    }
    let mut messages = venue.kept.take().unwrap();
    for (number, message) in (0..).zip(&mut messages) {
        let ts: u64 = OPEN + number * STEP_NS;
        message[5..11].copy_from_slice(&ts.to_be_bytes()[2..]);
    }
    messages
}

/// Returns the statistics of the messages, computed without a gateway.
fn wanted(messages: &[Vec<u8>]) -> Vec<IntervalStatistics> {
    let interval = NonZeroU64::new(60 * SECOND).unwrap();
    let mut builder = IntervalBuilder::new(&IntervalConfig::new(interval));
    let (mut codec, mut books) = (Itch::new(Nanos(0)), Books::new(&BooksConfig::default()));
    let mut rows = vec![];
    let tell = &mut |row: &IntervalStatistics| rows.push(*row);
    for (sequence, message) in (1..).zip(messages) {
        let mut said = CollectedUpdates::default();
        let context = Context { sequence, channel: 0, ts_send: Nanos(0) };
        codec.decode(&context, message, &mut said).unwrap();
        for update in &said.updates {
            let change = books.apply(update);
            Activity::of(0, update, &change).iter().for_each(|it| builder.act(it, tell));
            StateChange::of(0, update, &change).iter().for_each(|it| builder.call(it, tell));
            let quoted = QuoteChange::of(0, None, update, &change);
            quoted.iter().for_each(|it| builder.quote(it, tell));
        }
    }
    builder.end_all(tell);
    rows
}

const COLUMNS: [&str; 17] = [
    "start",
    "instrument_id",
    "symbol",
    "first_sequence",
    "last_sequence",
    "quote_changes",
    "price_changes",
    "two_sided_ns",
    "one_sided_ns",
    "spread_time",
    "mid_changes",
    "halted_ns",
    "add_count",
    "cancelled",
    "volume",
    "is_certain",
    "has_gap",
];

fn row_of(it: &IntervalStatistics) -> Vec<String> {
    let sequence = |number: Option<u64>| number.map_or("null".to_owned(), |it| it.to_string());
    let mut row = vec![it.start.to_string(), it.instrument_id.0.to_string()];
    row.push(symbol_of(it.instrument_id.0 as u16));
    row.extend([it.sequences.map(|of| of.0), it.sequences.map(|of| of.1)].map(sequence));
    let counts = [it.quote_changes, it.price_changes, it.two_sided, it.one_sided];
    row.extend(counts.map(|count| count.to_string()));
    row.extend([it.spread_time.to_string(), it.mid_changes.to_string(), it.halted.to_string()]);
    row.extend([it.adds.to_string(), it.cancelled.to_string(), it.volume.to_string()]);
    row.extend([it.is_certain, it.has_gap].map(|flag| flag.to_string()));
    row
}

fn text(field: &Field) -> String {
    match field {
        Field::Null => "null".to_owned(),
        Field::Str(text) => text.clone(),
        Field::Bool(flag) => flag.to_string(),
        Field::UInt(number) => number.to_string(),
        Field::Long(number) | Field::TimestampMicros(number) => number.to_string(),
        Field::ULong(number) => number.to_string(),
        Field::Decimal(decimal) => {
            let bytes: [u8; 16] = decimal.data().try_into().unwrap();
            i128::from_be_bytes(bytes).to_string()
        }
        other => panic!("{other:?}"),
    }
}

fn read(path: &Path) -> Vec<Vec<String>> {
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| {
        let row = row.unwrap();
        let fields: HashMap<&String, &Field> = row.get_column_iter().collect();
        COLUMNS.iter().map(|name| text(fields[&(*name).to_owned()])).collect()
    })
    .collect()
}

#[test]
fn statistics_are_in_their_table_as_the_venues_messages_come_to_and_bars_beside_them() {
    let kept = tempfile::tempdir().unwrap();
    let (dir, bars) = (kept.path().join("statistics"), kept.path().join("bars"));
    let (node, _home, feed) = start(&format!(
        "[market_gateway.post.statistics]\ndir = {dir:?}\n\
         [market_gateway.post.bars]\ndir = {bars:?}\n"
    ));
    let messages = messages();
    let mut venue = Venue::new(feed, "STATISTICS");
    for message in &messages {
        venue.say(message);
        if venue.sent.is_multiple_of(AHEAD_MAX) {
            settle(&mut venue, &node);
        }
    }
    settle(&mut venue, &node);
    let want = wanted(&messages);
    until("all is taken", || {
        let post = &node.status()["market"]["post"];
        let is_taken = post["trades_waiting"] == 0 && post["intervals"].as_u64() >= Some(100);
        is_taken.then_some(())
    });
    let post = node.status()["market"]["post"].clone();
    assert_eq!((&post["trades_dropped"], &post["intervals_lost"]), (&0.into(), &0.into()));
    assert!(node.get("/metrics").1.contains("weir_market_intervals_total"));
    let top = weir_at(&node, &["market", "top", "--once"]).output().unwrap();
    let shown = String::from_utf8(top.stdout).unwrap();
    assert!(shown.contains(" intervals, 0 lost"), "{shown}");
    assert!(node.terminate().success());
    let paths = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let got: BTreeSet<Vec<String>> = paths.flat_map(|path| read(&path)).collect();
    let rows: BTreeSet<Vec<String>> = want.iter().map(row_of).collect();
    assert!(want.len() > 100 && want.iter().any(|row| row.halted > 0), "{} rows", want.len());
    assert_eq!(got, rows);
    assert!(std::fs::read_dir(&bars).unwrap().count() > 0);
}
