//! `weir-bench market-conflation`: the cost of a change through conflation, by the first stage
//! alone and by both stages with 1, 10, 100 and 1,000 subscribers, each of which has all quotes and
//! trades.
//!
//! Changes are 1 µs apart on the arguments' clock, which is
//! a rate of 1 M/s; nine in ten are quotes, of which one in 200 moves by 1 %. Subscribers are
//! polled, with unlimited room, after each 100 changes. No socket and no book is involved.

use std::time::Instant;

use weir_feed::{Definition, SymbolText, TradeFlags, Venue};
use weir_market::conflate::{
    Bbo, Body, BookView, Conflator, ConflatorConfig, Content, DayStatistics, Entry, Fanout,
    Interest, Kind, Pattern, Poll, PollOutcome, Stamp, Status, Subscription, Trade,
};
use weir_types::{InstrumentId, Nanos, Price, Qty, Side};

const SUBSCRIBERS: [usize; 4] = [1, 10, 100, 1_000];
const PRICE: i64 = 10_000_000_000;

/// Options of `weir-bench market-conflation`.
#[derive(Debug, clap::Args)]
pub struct ConflationArgs {
    /// Changes of a run.
    #[arg(long, default_value_t = 2_000_000)]
    changes: u64,
    /// Instruments.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    instruments: u64,
    /// The interval of quotes, in nanoseconds.
    #[arg(long, default_value_t = 15_000)]
    interval: u64,
}

/// Empty books: every state in this benchmark comes with its change.
struct NoBooks;

impl BookView for NoBooks {
    fn best(&self, _: InstrumentId) -> Bbo {
        Bbo::default()
    }
    fn levels(&self, _: InstrumentId, _: Side, _: usize, _: &mut dyn FnMut(Price, Qty, u32)) {}
    fn statistics(&self, _: InstrumentId) -> DayStatistics {
        DayStatistics::default()
    }
    fn status(&self, _: InstrumentId) -> Option<Status> {
        None
    }
    fn last_change(&self, _: InstrumentId) -> Stamp {
        Stamp::default()
    }
}

/// Generates the changes, before the clock starts.
fn changes(count: u64, instruments: u64) -> Vec<Entry> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut prices = vec![PRICE; instruments as usize];
    (1..=count)
        .map(|sequence| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let index = (state >> 20) % instruments;
            let price = &mut prices[index as usize];
            if (state >> 40).is_multiple_of(200) {
                *price = if *price == PRICE { PRICE / 100 * 101 } else { PRICE };
            }
            let body = if state.is_multiple_of(10) {
                Body::Trade(Trade {
                    price: Price(*price),
                    size: Qty(100),
                    match_id: sequence,
                    venue: Venue(0),
                    aggressor: None,
                    flags: TradeFlags::default(),
                    is_break: false,
                })
            } else {
                let (bid_px, ask_px) = (Price(*price), Price(*price + 10_000_000));
                let size = Qty(sequence % 1_000 + 1);
                Body::Bbo(Bbo { bid_px, bid_sz: size, ask_px, ask_sz: size })
            };
            let at = Nanos(sequence * 1_000);
            let stamp = Stamp { sequence, ts_event: at, ts_recv: at };
            Entry::change(InstrumentId(index as u32), stamp, body)
        })
        .collect()
}

fn config(interval: u64) -> ConflatorConfig {
    ConflatorConfig { bbo_interval: Nanos(interval), ..ConflatorConfig::default() }
}

/// Returns nanoseconds per change, entries sent, and changes that waited.
fn first_stage(changes: &[Entry], instruments: u64, interval: u64) -> (f64, u64, u64) {
    let mut conflator = Conflator::new(&config(interval));
    for id in 0..instruments {
        for kind in [Kind::Bbo, Kind::Trades] {
            let instrument_id = InstrumentId(id as u32);
            let interest = Interest { instrument_id, kind, is_wanted: true };
            conflator.interest(Nanos(0), &interest, &NoBooks);
        }
    }
    let began = Instant::now();
    for entry in changes {
        let now = entry.merged.ts_recv;
        conflator.apply(now, entry);
        conflator.tick(now);
        while let Some(sent) = conflator.pop(now) {
            std::hint::black_box(&sent);
        }
    }
    let spent = began.elapsed().as_nanos() as f64 / changes.len() as f64;
    let counts = conflator.counts();
    (spent, counts.sent, counts.waiting)
}

/// Returns nanoseconds per change through both stages, and messages delivered.
fn both_stages(changes: &[Entry], instruments: u64, interval: u64, count: usize) -> (f64, u64) {
    let mut conflator = Conflator::new(&config(interval));
    let mut fanout = Fanout::new(InstrumentId(u32::MAX), 8);
    for id in 0..instruments as u32 {
        let symbol = SymbolText::new(format!("I{id}").as_bytes()).expect("a symbol");
        let instrument_id = InstrumentId(id);
        let definition =
            Definition { instrument_id, symbol, round_lot: Qty(100), previous_close: None };
        fanout.define(&definition);
    }
    let subscribers: Vec<_> = (0..count).map(|_| fanout.add_subscriber()).collect();
    for subscriber in &subscribers {
        for content in [Content::Bbo, Content::Trades] {
            let terms = Subscription::new(Pattern::All, content);
            fanout.subscribe(Nanos(0), *subscriber, &terms).expect("sound terms");
        }
    }
    fanout.settle(Nanos(0));
    for interest in fanout.take_interest() {
        conflator.interest(Nanos(0), &interest, &NoBooks);
    }
    let mut handed_out = 0;
    let began = Instant::now();
    for (index, entry) in changes.iter().enumerate() {
        let now = entry.merged.ts_recv;
        conflator.apply(now, entry);
        conflator.tick(now);
        while let Some(sent) = conflator.pop(now) {
            fanout.apply(now, &sent);
        }
        if index % 100 == 99 {
            for subscriber in &subscribers {
                let poll = Poll { subscriber: *subscriber, now, room: usize::MAX };
                let polled = fanout.poll(poll, &NoBooks, &mut |message, _| {
                    handed_out += 1;
                    std::hint::black_box(message);
                });
                assert!(matches!(polled, PollOutcome::Sent { left: 0, .. }), "{polled:?}");
            }
        }
    }
    (began.elapsed().as_nanos() as f64 / changes.len() as f64, handed_out)
}

/// Runs the benchmark.
pub fn run(args: &ConflationArgs) -> anyhow::Result<()> {
    let ConflationArgs { changes: count, instruments, interval } = *args;
    let all = changes(count, instruments);
    let (first_ns, sent, waiting) = first_stage(&all, instruments, interval);
    let (sent_share, waiting_share) = (sent as f64 / count as f64, waiting as f64 / count as f64);
    println!("first stage: {first_ns:.1} ns a change; {sent_share:.3} sent per change,");
    println!("  {waiting_share:.3} of all changes went through the throttle queue");
    let mut rows = Vec::new();
    for subscribers in SUBSCRIBERS {
        // Keeps the total number of messages the same for each count.
        let few = &all[..(all.len() / subscribers.min(100)).max(1)];
        let (both_ns, handed_out) = both_stages(few, instruments, interval, subscribers);
        let message_ns = both_ns * few.len() as f64 / handed_out.max(1) as f64;
        println!(
            "{subscribers:>5} subscribers: {both_ns:>9.1} ns a change, {message_ns:.1} a message"
        );
        rows.push(format!(
            "{{\"subscribers\":{subscribers},\"ns_per_change\":{both_ns:.1},\
             \"ns_per_message\":{message_ns:.1},\"messages\":{handed_out}}}"
        ));
    }
    println!(
        "{{\"bench\":\"market-conflation\",\"changes\":{count},\"instruments\":{instruments},\
         \"interval_ns\":{interval},\"first_stage_ns\":{first_ns:.1},\
         \"sent_share\":{sent_share:.4},\"throttled_share\":{waiting_share:.4},\
         \"both_stages\":[{}]}}",
        rows.join(",")
    );
    Ok(())
}
