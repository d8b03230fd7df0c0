//! The capacity of a gateway's core, part by part, and the resulting number of cores for a feed's
//! peak.
//!
//! The peak is that of the options feed OPRA, 33.1 million messages per second over 96 lines. The
//! parts are measured at full speed: multicast datagrams received; OPRA quotes decoded and applied
//! to books; updates conflated and passed to a flush thread that serves 1, 10 and 100 subscribers
//! as well as it can. [`ASSUMED`] states the rest. In addition: the updating thread's cost of an
//! order-by-order feed, whose books exceed any cache.

use serde_json::{Value, json};

use super::opra::{Core, MESSAGE_LEN, PACKET, SERIES};
use super::run::{Cell, measure};
use crate::market::udp::receive_cost;

/// Messages per second at the peak.
const PEAK: f64 = 33.1e6;
/// The number of lines that carry the feed.
const LINES: f64 = 96.0;
/// The share of a core to use, which leaves room for bursts.
const SHARE_OF_CORE: f64 = 0.5;

const ASSUMED: &str = "15 short quotes a datagram, of ten one moves both sides of the best bid and \
    offer and two one side; 1.5 million series, lines alike; both lines A and B received and one \
    decoded; what subscribers cost is that of as many quotes of 1,000 instruments; half of a core \
    used; the kernel's part of receiving on other cores; one core for each thread";

const ROUNDS: usize = 5;

/// Returns the median with the lowest and the highest value.
pub fn spread(mut values: Vec<f64>) -> (f64, Value) {
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    (median, json!({"median": median, "low": values[0], "high": values[values.len() - 1]}))
}

/// Measures all parts in rotation, five times, and projects the number of cores.
///
/// # Panics
/// If the machine has no multicast on its loopback interface.
pub fn capacity(seconds: u64) -> Value {
    let cells = [0, 1, 10, 100].map(|subscribers| Cell {
        subscribers,
        seconds,
        // More than the pipeline can process: an update is always due.
        rate: 1_000_000_000,
        interval_us: 1_000,
        ..Cell::default()
    });
    let mut core = Core::new();
    let (mut received, mut taken, mut per_message) = (Vec::new(), Vec::new(), 0.0);
    let mut updated: [Vec<f64>; 4] = Default::default();
    let mut written: [Vec<f64>; 4] = Default::default();
    for round in 0..ROUNDS {
        let payload = PACKET * MESSAGE_LEN + 21;
        received.push(receive_cost(payload, seconds * 1_000).expect("multicast on loopback"));
        let (ns, updates) = core.round();
        taken.push(ns);
        per_message = updates;
        for (at, cell) in cells.iter().enumerate() {
            let outcome = measure(cell);
            updated[at].push(outcome.offered_per_s);
            written[at].push(outcome.written_per_s);
        }
        eprintln!("round {round}: {received:?} {taken:?} {updated:?}");
    }
    let ((receive_ns, receive), (taken_ns, taken)) = (spread(received), spread(taken));
    let bare_ns = 1e9 / spread(updated[0].clone()).0;
    let rows = cells.iter().zip(updated).zip(written).map(|((cell, updated), written)| {
        let (rate, updated) = spread(updated);
        // The additional cost of an update compared with no subscribers.
        let subscribed_ns = (1e9 / rate - bare_ns) * per_message;
        // Each datagram is received on both lines; each message is decoded once.
        let message_ns = 2.0 * receive_ns / PACKET as f64 + taken_ns + subscribed_ns;
        let per_core = 1e9 / message_ns;
        let lines_per_core = (per_core * SHARE_OF_CORE / (PEAK / LINES)).floor();
        json!({
            "subscribers": cell.subscribers, "updates_per_s": updated,
            "frames_per_s": spread(written).1, "message_ns": message_ns,
            "messages_per_core_s": per_core, "lines_per_core": lines_per_core,
            // A line cannot be divided between cores.
            "cores_for_peak": (LINES / lines_per_core).ceil(),
            "cores_if_lines_could_be_parted": (PEAK / (per_core * SHARE_OF_CORE)).ceil(),
        })
    });
    json!({
        "bench": "market-capacity", "rounds": ROUNDS, "seconds": seconds,
        "receive_ns_per_datagram": receive, "decode_and_update_ns_per_message": taken,
        "updates_per_message": per_message, "series": SERIES,
        "order_by_order": super::orders::orders(ROUNDS),
        "peak_per_s": PEAK, "lines": LINES, "assumed": ASSUMED, "cells": rows.collect::<Vec<_>>(),
    })
}
