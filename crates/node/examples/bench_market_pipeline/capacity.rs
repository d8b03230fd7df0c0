//! What a core of a gateway carries, part by part, and how many cores a feed's peak wants then.
//!
//! The peak is that of the options' feed OPRA, 33.1 million messages a second over 96 lines. Its
//! parts are measured as fast as they go: datagrams of a multicast group received, messages
//! decoded, updates taken into books, conflated and handed to a flush thread that tells 1, 10 and
//! 100 subscribers of what it can. What the parts do not say is in [`ASSUMED`]. Beside them: what the
//! updating thread takes of a feed of orders, whose books are bigger than any cache.

use std::hint::black_box;
use std::time::Instant;

use serde_json::{Value, json};
use weir_market::feed::itch::Itch;
use weir_market::feed::itch::encode::{AddOrder, Header};
use weir_market::{Context, Definition, Feed as _, Sink, Update};
use weir_node::bench_market_udp::receive_cost;
use weir_types::Nanos;

use super::run::{Cell, measure};

/// Messages a second of the peak.
const PEAK: f64 = 33.1e6;
/// Lines that it comes on.
const LINES: f64 = 96.0;
/// Messages in a datagram at the peak.
const MESSAGES_PER_DATAGRAM: f64 = 15.0;
/// Of a core, so that what comes in bursts finds room.
const SHARE_OF_CORE: f64 = 0.5;

const ASSUMED: &str = "15 messages of 36 bytes a datagram; lines alike; both lines A and B \
    received and one decoded; half of a core used; the kernel's part of receiving on other cores; \
    one core for each thread; decoding of OPRA as that of ITCH";

const ROUNDS: usize = 5;
const DECODED: u64 = 4_000_000;

struct Counting(u64);

impl Sink for Counting {
    fn define(&mut self, _: &Definition) {}

    #[inline]
    fn update(&mut self, update: Update) {
        black_box(update);
        self.0 += 1;
    }
}

/// Nanoseconds to decode a message.
fn decode_ns() -> f64 {
    let header = Header { stock_locate: 7, tracking_number: 0, timestamp: 34_200_000_000_000 };
    let add = |number: u64| AddOrder {
        order_reference: number,
        side: b'B',
        shares: 100,
        stock: *b"WEIR    ",
        price: 1_000_000,
    };
    let messages: Vec<_> = (0..4_096).map(|number| add(number).to_bytes(&header)).collect();
    let (mut itch, mut sink) = (Itch::new(Nanos(0)), Counting(0));
    let begun = Instant::now();
    for sequence in 0..DECODED {
        let context = Context { sequence, channel: 0, ts_send: Nanos(0) };
        let message = black_box(&messages[sequence as usize % messages.len()]);
        itch.decode(&context, message, &mut sink).expect("a good message");
    }
    let spent = begun.elapsed().as_nanos() as f64;
    assert_eq!(sink.0, DECODED, "each message is an update");
    spent / DECODED as f64
}

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
    let (mut received, mut decoded) = (Vec::new(), Vec::new());
    let mut updated: [Vec<f64>; 4] = Default::default();
    let mut written: [Vec<f64>; 4] = Default::default();
    for round in 0..ROUNDS {
        received.push(receive_cost(15 * 38 + 20, seconds * 1_000).expect("multicast on loopback"));
        decoded.push(decode_ns());
        for (at, cell) in cells.iter().enumerate() {
            let outcome = measure(cell);
            updated[at].push(outcome.offered_per_s);
            written[at].push(outcome.written_per_s);
        }
        eprintln!("round {round}: {received:?} {decoded:?} {updated:?}");
    }
    let ((receive_ns, receive), (decode_ns, decode)) = (spread(received), spread(decoded));
    let rows = cells.iter().zip(updated).zip(written).map(|((cell, updated), written)| {
        let (rate, updated) = spread(updated);
        let update_ns = 1e9 / rate;
        // Of both lines every datagram is received, of one each message decoded.
        let message_ns = 2.0 * receive_ns / MESSAGES_PER_DATAGRAM + decode_ns + update_ns;
        let per_core = 1e9 / message_ns;
        let lines_per_core = (per_core * SHARE_OF_CORE / (PEAK / LINES)).floor();
        json!({
            "subscribers": cell.subscribers, "updates_per_s": updated,
            "frames_per_s": spread(written).1, "message_ns": message_ns,
            "messages_per_core_s": per_core, "lines_per_core": lines_per_core,
            "cores_for_peak": (PEAK / (per_core * SHARE_OF_CORE)).ceil(),
        })
    });
    json!({
        "bench": "market-capacity", "rounds": ROUNDS, "seconds": seconds,
        "receive_ns_per_datagram": receive, "decode_ns_per_message": decode,
        "order_by_order": super::orders::orders(ROUNDS),
        "peak_per_s": PEAK, "lines": LINES, "assumed": ASSUMED, "cells": rows.collect::<Vec<_>>(),
    })
}
