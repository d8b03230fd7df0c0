//! What a core of a gateway carries, part by part, and how many cores a feed's peak wants then.
//!
//! The peak is that of the options' feed OPRA, 33.1 million messages a second over 96 lines. Its
//! parts are measured as fast as they go: datagrams of a multicast group received; its quotes
//! decoded and taken into books; updates conflated and handed to a flush thread that tells 1, 10
//! and 100 subscribers of what it can. What the parts do not say is in [`ASSUMED`]. Beside them:
//! what the updating thread takes of a feed of orders, whose books are bigger than any cache.

use serde_json::{Value, json};
use weir_bench::market_udp::receive_cost;

use super::opra::{Core, MESSAGE_LEN, PACKET, SERIES};
use super::run::{Cell, measure};

/// Messages a second of the peak.
const PEAK: f64 = 33.1e6;
/// Lines that it comes on.
const LINES: f64 = 96.0;
/// Of a core, so that what comes in bursts finds room.
const SHARE_OF_CORE: f64 = 0.5;

const ASSUMED: &str = "15 short quotes a datagram, of ten one moves both sides of the best bid and \
    offer and two one side; 1.5 million series, lines alike; both lines A and B received and one \
    decoded; what subscribers cost is that of as many quotes of 1,000 instruments; half of a core \
    used; the kernel's part of receiving on other cores; one core for each thread";

const ROUNDS: usize = 5;

/// The median with the lowest and the highest.
pub fn spread(mut values: Vec<f64>) -> (f64, Value) {
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    (median, json!({"median": median, "low": values[0], "high": values[values.len() - 1]}))
}

/// Measures all parts in turn, five times, and projects.
///
/// # Panics
/// When the machine has no multicast on its loopback interface.
pub fn capacity(seconds: u64) -> Value {
    let cells = [0, 1, 10, 100].map(|subscribers| Cell {
        subscribers,
        seconds,
        // More than anything takes: an update is always due.
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
        // What an update costs more than where nobody subscribes.
        let subscribed_ns = (1e9 / rate - bare_ns) * per_message;
        // Of both lines every datagram is received, of one each message decoded.
        let message_ns = 2.0 * receive_ns / PACKET as f64 + taken_ns + subscribed_ns;
        let per_core = 1e9 / message_ns;
        let lines_per_core = (per_core * SHARE_OF_CORE / (PEAK / LINES)).floor();
        json!({
            "subscribers": cell.subscribers, "updates_per_s": updated,
            "frames_per_s": spread(written).1, "message_ns": message_ns,
            "messages_per_core_s": per_core, "lines_per_core": lines_per_core,
            // A line is whole.
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
