//! `weir-bench cold-archive`: cold reads next to an order store that serves its readers.
//!
//! An archive of some million orders is written and merged in a directory of its own. A thread with
//! a store takes changes and serves pages at fixed times (open loop, latency from the time at which
//! each page was due). It does so alternately alone and next to a reader that goes through the
//! archive from its start, on a thread of the lowest priority at the given pace. Prints rows per
//! second by filter and compares the hot pages' percentiles; the last line is JSON.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use weir_cold::{
    Archive, Change, ColdConfig, ColdPage, EntryKind, Filter, Keys, Pace, PageLimits, WorkOutcome,
};
use weir_delivery::{OrderStore, Selection, StoreConfig};
use weir_io::{Clock, SystemClock, ThreadDisk};
use weir_types::*;
use weir_wire::Message;
use weir_wire::delivery::{OrderRow, RowFlags};

const SOURCE: PartitionId = PartitionId(1);
/// The time between two changes of the archive's day.
const CHANGE_NS: u64 = 20_000;
const FIRM_LARGE: u32 = 1;
const FIRM_SMALL: u32 = 77;

/// Options of `weir-bench cold-archive`.
#[derive(Debug, clap::Args)]
pub struct ArchiveArgs {
    /// Changes of the archive.
    #[arg(long, default_value_t = 10_000_000)]
    rows: u64,
    /// Bytes of attributes of an order.
    #[arg(long, default_value_t = 150)]
    attributes: usize,
    /// Pairs of the store alone and beside a reader of the archive.
    #[arg(long, default_value_t = 15)]
    pairs: u32,
    /// Seconds of each half of a pair.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Changes that the archive's thread passes in a second.
    #[arg(long, default_value_t = 1_200_000)]
    pace: u64,
    /// A new directory for the archive; a temporary one by default.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// A SplitMix64 generator.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn keys(chance: &mut Chance) -> Keys {
    let firm = match chance.below(1_000) {
        0..100 => FIRM_LARGE,
        100..105 => FIRM_SMALL,
        _ => 100 + chance.below(200) as u32,
    };
    Keys {
        firm_id: FirmId(firm),
        account_id: AccountId(firm * 100 + chance.below(100) as u32),
        instrument_id: InstrumentId(1 + chance.below(500) as u32),
    }
}

fn row(seq: u64, rec: u64, keys: &Keys, chance: &mut Chance) -> OrderRow {
    let time = 1_790_000_000_000_000_000 + seq * CHANGE_NS;
    OrderRow {
        rec: Rec(rec),
        seq: Seq(seq),
        order_id: OrderId::new(SOURCE, Rec(rec)),
        transact_time: Nanos(time),
        created_time: Nanos(time),
        cl_ord_id: ClOrdId::from_number(chance.next() >> 24),
        price: Price(100 * (50_000 + chance.below(4_000) as i64)),
        stop_px: Price(0),
        last_px: Price(0),
        last_qty: Qty(0),
        order_qty: Qty(100 * (1 + chance.below(50))),
        leaves_qty: Qty(0),
        cum_qty: Qty(0),
        expire_time: Nanos(0),
        merged_count: 0,
        session_id: SessionId(keys.firm_id.0 * 4),
        firm_id: keys.firm_id,
        account_id: keys.account_id,
        instrument_id: keys.instrument_id,
        partition_id: SOURCE,
        reason: Reason::None,
        side: if chance.below(2) == 0 { Side::Buy } else { Side::Sell },
        ord_type: OrdType::Limit,
        time_in_force: TimeInForce::Day,
        exec_inst: ExecInst::NONE,
        exec_type: ExecType::Canceled,
        ord_status: OrdStatus::Canceled,
        flags: RowFlags::default(),
        display_qty: Qty(0),
    }
}

fn attributes(len: usize, chance: &mut Chance, out: &mut Vec<u8>) {
    out.clear();
    while out.len() < len {
        let part = match chance.below(4) {
            0 => format!("11={:016x}|", chance.next()),
            1 => format!("58=client {} desk {}|", chance.below(5_000), chance.below(9)),
            2 => "581=3|44=0.0|9412=USR|".to_owned(),
            _ => format!("336=TQBR|376={}|", chance.below(4)),
        };
        out.extend_from_slice(part.as_bytes());
    }
    out.truncate(len);
}

/// Writes the archive's day and merges until nothing is due; returns rows per second.
fn write(archive: &mut Archive<ThreadDisk>, options: &ArchiveArgs) -> f64 {
    let mut chance = Chance(1);
    let (mut block, mut text) = (Vec::new(), Vec::new());
    let mut working = Duration::ZERO;
    for seq in 1..=options.rows {
        // Every tenth change is of an earlier order.
        let rec = if seq % 10 == 0 { 1 + chance.below(seq) } else { seq };
        let keys = keys(&mut chance);
        block.clear();
        row(seq, rec, &keys, &mut chance).encode_block(&mut block);
        attributes(options.attributes, &mut chance, &mut text);
        let change = Change {
            standing: EntryKind::Ended,
            first: Seq(rec.min(seq)),
            change_count: 1,
            history: [0; 7],
            keys,
            next_keys: Keys::default(),
            row: &block,
            attributes: &text,
        };
        let start = Instant::now();
        archive.take(&change).expect("it is a change");
        if seq % 10_000 == 0 {
            work(archive);
        }
        working += start.elapsed();
    }
    let start = Instant::now();
    archive.close().expect("the disk works");
    work(archive);
    options.rows as f64 / (working + start.elapsed()).as_secs_f64()
}

fn work(archive: &mut Archive<ThreadDisk>) {
    while archive.work(Nanos(0)).expect("the disk works") != WorkOutcome::Nothing {}
}

const LIMITS: PageLimits =
    PageLimits { rows_max: 1_000, bytes_max: 1 << 20, scan_max: 65_536, blocks_max: 4 };

/// Reads all rows that pass a filter; returns the rows, and the changes passed per second.
fn read_through(archive: &mut Archive<ThreadDisk>, after: ChangeId, filter: &Filter) -> (u64, f64) {
    let (mut after, mut rows) = (after, 0u64);
    let from = after;
    let mut out = Vec::new();
    let start = Instant::now();
    loop {
        out.clear();
        let page = archive.page(after, filter, &LIMITS, &mut out).expect("the files are sound");
        rows += u64::from(page.row_count);
        after = page.next;
        if !page.is_cut {
            let passed = after.seq.0 - from.seq.0;
            return (rows, passed as f64 / start.elapsed().as_secs_f64());
        }
    }
}

/// The order store next to the archive, with its readers' state.
struct Hot {
    store: OrderStore,
    chance: Chance,
    seq: u64,
    selection: Selection,
}

impl Hot {
    fn new() -> Hot {
        let store = OrderStore::new(StoreConfig::new(SOURCE, Epoch(1)));
        let mut hot = Hot { store, chance: Chance(2), seq: 0, selection: Selection::default() };
        for rec in 1..=200_000 {
            hot.change(rec);
        }
        hot
    }

    fn change(&mut self, rec: u64) {
        self.seq += 1;
        let keys = keys(&mut self.chance);
        let row =
            OrderRow { ord_status: OrdStatus::New, ..row(self.seq, rec, &keys, &mut self.chance) };
        let mut block = Vec::new();
        row.encode_block(&mut block);
        let _ = self.store.ingest_row(&block, &[0; 150]).expect("it is a row");
    }

    /// Makes ten changes every 200 µs and serves the page of a reader that is fifty changes behind.
    fn serve(&mut self, seconds: f64) -> Histogram<u64> {
        let limits =
            weir_delivery::PageLimits { rows_max: 50, bytes_max: 1 << 20, scan_max: 5_000 };
        let mut latencies = Histogram::new(3).expect("three digits");
        let start = Instant::now();
        let count = (seconds * 5_000.0) as u32;
        for tick in 0..count {
            let due = Duration::from_micros(200) * tick;
            while let Some(rest) = due.checked_sub(start.elapsed()) {
                if rest > Duration::from_micros(80) {
                    std::thread::sleep(rest - Duration::from_micros(60));
                }
            }
            for _ in 0..10 {
                let rec = 1 + self.chance.below(200_000);
                self.change(rec);
            }
            let after = weir_types::ChangeId::new(Seq(self.seq - 50), Rec(0));
            let all = weir_delivery::Filter::ALL;
            let page = self.store.select(after, &all, &limits, &mut self.selection);
            assert!(page.row_count > 0, "fifty changes leave rows");
            let late = (start.elapsed() - due).as_nanos();
            latencies.record(u64::try_from(late).expect("seconds")).expect("it grows");
        }
        latencies
    }
}

/// An archive on a thread of the lowest priority, which answers one page after the other.
struct PacedArchive {
    change_ids: SyncSender<ChangeId>,
    pages: Receiver<ColdPage>,
    thread: JoinHandle<()>,
}

impl PacedArchive {
    /// Starts the thread; it passes `rows_per_second` changes on average.
    fn start(archive: Archive<ThreadDisk>, rows_per_second: u64) -> PacedArchive {
        let (change_ids, asked) = sync_channel(1);
        let (answers, pages) = sync_channel(1);
        let pace = Pace::new(rows_per_second, Nanos(10_000_000));
        let thread = std::thread::spawn(move || answer(archive, pace, &asked, &answers));
        PacedArchive { change_ids, pages, thread }
    }

    /// Returns the page after a place.
    fn page(&self, after: ChangeId) -> ColdPage {
        self.change_ids.send(after).expect("the thread runs");
        self.pages.recv().expect("the files are sound")
    }

    /// Ends the thread.
    fn stop(self) {
        drop(self.change_ids);
        self.thread.join().expect("the archive works");
    }
}

/// Answers each place with the page after it as soon as the pace allows, until nobody asks.
fn answer(
    mut archive: Archive<ThreadDisk>,
    mut pace: Pace,
    asked: &Receiver<ChangeId>,
    answers: &SyncSender<ColdPage>,
) {
    // If the system refuses the lower priority, the thread still reads at its pace.
    let _ = rustix::process::nice(19);
    for after in asked {
        let mut now = SystemClock.now();
        while !pace.may_begin(now) {
            std::thread::sleep(Duration::from_nanos(pace.next_begin().since(now).0));
            now = SystemClock.now();
        }
        archive.check(Epoch(1), after).expect("the place is the archive's own");
        let mut rows = Vec::new();
        let page = archive.page(after, &Filter::default(), &LIMITS, &mut rows);
        let page = page.expect("the files are sound");
        pace.spend(now, u64::from(page.scan_count.max(1)));
        answers.send(page).expect("the reader waits for its page");
    }
}

/// Serves hot pages while a reader goes through the archive; also returns the reader's rate.
fn beside(
    hot: &mut Hot,
    cold: &mut PacedArchive,
    from: ChangeId,
    seconds: f64,
) -> (Histogram<u64>, f64) {
    std::thread::scope(|scope| {
        let (stop, stopped) = sync_channel::<()>(1);
        let reader = scope.spawn(move || {
            let (mut after, mut rows) = (from, 0u64);
            let start = Instant::now();
            while stopped.try_recv().is_err() {
                let page = cold.page(after);
                rows += u64::from(page.row_count);
                after = if page.is_cut { page.next } else { from };
            }
            rows as f64 / start.elapsed().as_secs_f64()
        });
        let latencies = hot.serve(seconds);
        stop.send(()).expect("the reader listens");
        (latencies, reader.join().expect("the reader ends well"))
    })
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs the benchmark.
///
/// # Panics
/// If the disk fails.
pub fn run(options: &ArchiveArgs) -> anyhow::Result<()> {
    let work = tempfile::tempdir().expect("a temporary directory");
    let dir = options.dir.clone().unwrap_or_else(|| work.path().join("archive"));
    let disk = ThreadDisk::open(&dir, None).expect("the directory can be made");
    let config = ColdConfig { keep_for: Nanos(u64::MAX), ..ColdConfig::new(SOURCE, Epoch(1)) };
    let (mut archive, _) = Archive::open(disk, config).expect("the directory is empty");
    let written = write(&mut archive, options);
    let figures = archive.figures();
    let bytes_a_row = figures.file_bytes as f64 / figures.entries as f64;
    println!("written and merged: {written:.0} rows/s; {figures:?}");
    let (start, end) = (archive.floor(), archive.end());
    let minute = 60_000_000_000 / CHANGE_NS;
    let minute_ago = ChangeId::new(Seq(end.seq.0.saturating_sub(minute)), Rec(0));
    let mut rates = Vec::new();
    for (name, from, firm) in [
        ("start of day, all", start, 0),
        ("a minute ago, all", minute_ago, 0),
        ("start of day, firm of 10 %", start, FIRM_LARGE),
        ("start of day, firm of 0.5 %", start, FIRM_SMALL),
        ("start of day, no firm's", start, 9_999),
    ] {
        let filter = Filter { firm_id: FirmId(firm), ..Filter::default() };
        let (rows, rate) = read_through(&mut archive, from, &filter);
        println!("{name}: {rows} rows, {rate:.0} changes passed a second");
        rates.push(format!("\"{name}\": {rate:.0}"));
    }
    let mut cold = PacedArchive::start(archive, options.pace);
    let mut hot = Hot::new();
    let (mut ratios, mut cold_rates) = (Vec::new(), Vec::new());
    for pair in 0..options.pairs {
        let alone_first = pair % 2 == 0;
        let alone = alone_first.then(|| hot.serve(options.seconds));
        let (with, rate) = beside(&mut hot, &mut cold, start, options.seconds);
        let alone = alone.unwrap_or_else(|| hot.serve(options.seconds));
        let p99 = |latencies: &Histogram<u64>| latencies.value_at_quantile(0.99) as f64;
        println!(
            "pair {pair}: p50 {} and {} ns, p99 {} and {} ns alone and beside; \
             cold {rate:.0} rows/s",
            alone.value_at_quantile(0.5),
            with.value_at_quantile(0.5),
            p99(&alone),
            p99(&with),
        );
        ratios.push(p99(&with) / p99(&alone));
        cold_rates.push(rate);
    }
    cold.stop();
    std::fs::remove_dir_all(&dir).expect("it was made");
    println!(
        "{{\"name\": \"delivery-cold\", \"rows\": {}, \"attributes\": {}, \"bytes_a_row\": \
         {bytes_a_row:.1}, \"written_per_s\": {written:.0}, \"passed_per_s\": {{{}}}, \
         \"pairs\": {}, \
         \"hot_p99_ratio_median\": {:.3}, \"cold_rows_per_s_median\": {:.0}}}",
        options.rows,
        options.attributes,
        rates.join(", "),
        options.pairs,
        median(&mut ratios),
        median(&mut cold_rates),
    );
    Ok(())
}
