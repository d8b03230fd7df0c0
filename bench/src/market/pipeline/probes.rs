//! The cost of timing, for messages that are timed and for those that are not.

use std::hint::black_box;

use serde_json::{Value, json};
use weir_io::{Clock as _, SystemClock};
use weir_market::conflate::{Bbo, Body, Entry, Outcome, Stamp};
use weir_marketgate::gateway::stages::{FlushProbe, Sampler, UpdateProbe};
use weir_types::{InstrumentId, Nanos};

/// The number of messages between two clock readings.
const BATCH: u64 = 1_000;
const BATCHES: u64 = 4_000;

/// Passes messages through all probe points, at a rate at which few are timed and at one at which
/// each is; returns nanoseconds per message of the median batch and of the fastest, which was not
/// preempted.
pub fn probes() -> Value {
    // The first interval is so short that hardly any message is timed, the second so long that each
    // is.
    let rows = [("hardly any timed", 1), ("each timed", 200_000_000)].map(|(name, apart)| {
        let mut times: Vec<f64> = batches(apart).collect();
        times.sort_by(f64::total_cmp);
        json!({"messages": name, "median_ns": times[times.len() / 2], "least_ns": times[0]})
    });
    json!({"bench": "market-probes", "rows": rows})
}

fn batches(apart: u64) -> impl Iterator<Item = f64> {
    let mut sampler = Sampler::new(true);
    let (mut update, mut flush) = (UpdateProbe::default(), FlushProbe::default());
    let mut number = 0;
    let begin = SystemClock.now().0;
    (0..BATCHES).map(move |_| {
        let begun = SystemClock.now();
        for _ in 0..BATCH {
            number += 1;
            // The feed's time advances independently of the clock.
            let at = Nanos(begin + number * apart);
            sampler.datagram(black_box(at), at);
            let stamp = Stamp { sequence: number, ..Stamp::default() };
            let entry = Entry::change(InstrumentId(1), stamp, Body::Bbo(Bbo::default()));
            if let Some(begun) = sampler.update(at) {
                update.begin(begun);
            }
            update.updated();
            update.offered(black_box(&entry), Outcome::Queued);
            update.end_of_update();
            sampler.end_of_packet();
            if let Some(trace) = update.told(&entry) {
                flush.heard(&entry, &trace);
            }
            flush.written(7, &entry);
            flush.end_of_telling(false);
            flush.flushed(7, true);
        }
        SystemClock.now().since(begun).0 as f64 / BATCH as f64
    })
}
