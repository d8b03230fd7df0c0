//! The cost of an ITCH 5.0 message from its bytes to its book's best bid and offer: decoded,
//! applied to the book, the change read. One at a time, and 64 decoded and then applied together.
//!
//! Messages are generated between stretches of 65,536, so that generation is not timed. A stretch
//! is timed as a whole, then one in batches of 64, then, one at a time, single messages (less the
//! cost of the clock).

use std::hint::black_box;
use std::time::Instant;

use weir_feed::itch::Itch;
use weir_feed::moldudp64::next_message;
use weir_feed::{Context, Definition, Feed, UpdateSink, Update};
use weir_market::{Books, BooksConfig};
use weir_types::{InstrumentId, Nanos};

use crate::day::Stream;
use crate::memory::allocation_count;

const STRETCH: usize = 1 << 16;
const BATCH: usize = 64;

/// The way in which messages are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Each by itself.
    OneByOne,
    /// Decoded into a batch, then applied together.
    Batches,
}

/// Nanoseconds per message.
pub struct Figures {
    /// Over whole stretches.
    pub mean: f64,
    /// The best stretch.
    pub best: f64,
    /// At 50, 99 and 99.9 %: batches of 64 timed together.
    pub batch: [f64; 3],
    /// At 50, 99 and 99.9 %: single messages; zero for batches.
    pub single: [f64; 3],
    /// The number of resting orders at the end.
    pub live_orders: u32,
    /// The share of messages that changed a best bid or offer, in per cent.
    pub best_changes_percent: f64,
    /// The number of allocations during the measurement.
    pub allocations: u64,
}

/// Books that apply updates as they are decoded.
struct Direct<'a> {
    books: &'a mut Books,
    changed: u64,
}

impl UpdateSink for Direct<'_> {
    fn define(&mut self, _: &Definition) {}

    #[inline]
    fn update(&mut self, update: Update) {
        self.changed += u64::from(black_box(self.books.apply(&update)).best.is_some());
    }
}

/// Collects updates for a batch.
struct Kept<'a>(&'a mut Vec<Update>);

impl UpdateSink for Kept<'_> {
    fn define(&mut self, _: &Definition) {}

    #[inline]
    fn update(&mut self, update: Update) {
        self.0.push(update);
    }
}

struct Side {
    books: Books,
    itch: Itch,
    sequence: u64,
    updates: Vec<Update>,
    changed: u64,
}

impl Side {
    /// Applies the next `count` messages of `bytes`; returns the bytes after them.
    #[inline]
    fn play<'a>(&mut self, mut bytes: &'a [u8], count: usize, how: How) -> &'a [u8] {
        let mut left = count;
        while left > 0 {
            let batch = if how == How::OneByOne { left } else { left.min(BATCH) };
            bytes = self.play_batch(bytes, batch, how);
            left -= batch;
        }
        bytes
    }

    #[inline]
    fn play_batch<'a>(&mut self, mut bytes: &'a [u8], count: usize, how: How) -> &'a [u8] {
        let Side { books, itch, sequence, updates, changed } = self;
        for _ in 0..count {
            let (message, rest) = next_message(bytes).expect("a whole message");
            bytes = rest;
            *sequence += 1;
            let context = Context { sequence: *sequence, channel: 0, ts_send: Nanos(0) };
            if how == How::OneByOne {
                let mut sink = Direct { books, changed: 0 };
                itch.decode(&context, message, &mut sink).expect("a good message");
                *changed += sink.changed;
            } else {
                itch.decode(&context, message, &mut Kept(updates)).expect("a good message");
            }
        }
        if how == How::Batches {
            books.apply_all(updates, |_, change| {
                *changed += u64::from(black_box(change).best.is_some());
            });
            updates.clear();
        }
        bytes
    }
}

fn nanos(start: Instant) -> u32 {
    u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX)
}

fn clock_cost() -> u32 {
    let mut samples: Vec<u32> = (0..10_000).map(|_| nanos(Instant::now())).collect();
    samples.sort_unstable();
    samples[samples.len() / 2]
}

fn percentiles(samples: &mut [u32], divisor: f64, less: u32) -> [f64; 3] {
    samples.sort_unstable();
    if samples.is_empty() {
        return [0.0; 3];
    }
    [500, 990, 999].map(|per_mille| {
        let at = (samples.len() * per_mille / 1_000).min(samples.len() - 1);
        f64::from(samples[at].saturating_sub(less)) / divisor
    })
}

fn made(stream: &mut dyn Stream, bytes: &mut Vec<u8>) {
    bytes.clear();
    (0..STRETCH).for_each(|_| stream.next(bytes));
}

/// Measures this many stretches of each kind.
pub fn measure(stream: &mut dyn Stream, how: How, stretches: usize) -> Figures {
    let mut bytes = Vec::new();
    stream.begin(&mut bytes);
    let config = BooksConfig {
        orders: 1_400_000,
        instruments: stream.instruments() + 1,
        levels_per_side: 256,
        ..BooksConfig::default()
    };
    let mut side = Side {
        books: Books::new(&config),
        itch: Itch::new(Nanos(0)),
        sequence: 0,
        updates: Vec::with_capacity(BATCH * 2),
        changed: 0,
    };
    for instrument in 1..=stream.instruments() {
        assert!(side.books.define(InstrumentId(instrument)), "there is room");
    }
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        rest = side.play_batch(rest, 1, How::OneByOne);
    }
    bytes.reserve(STRETCH * 64);
    for _ in 0..stretches.div_ceil(2) {
        made(stream, &mut bytes);
        side.play(&bytes, STRETCH, how);
    }
    let mut totals = Vec::with_capacity(stretches);
    let mut batches = Vec::with_capacity(stretches * STRETCH / BATCH);
    let mut singles = Vec::with_capacity(stretches * STRETCH);
    let mut allocations = 0;
    side.changed = 0;
    for _ in 0..stretches {
        made(stream, &mut bytes);
        let (before, start) = (allocation_count(), Instant::now());
        side.play(&bytes, STRETCH, how);
        totals.push(f64::from(nanos(start)) / STRETCH as f64);
        allocations += allocation_count() - before;
        made(stream, &mut bytes);
        let mut rest = &bytes[..];
        for _ in 0..STRETCH / BATCH {
            let start = Instant::now();
            rest = side.play(rest, BATCH, how);
            batches.push(nanos(start));
        }
        if how == How::OneByOne {
            made(stream, &mut bytes);
            let mut rest = &bytes[..];
            for _ in 0..STRETCH {
                let start = Instant::now();
                rest = side.play(rest, 1, how);
                singles.push(nanos(start));
            }
        }
    }
    assert_eq!(side.books.anomalies().total(), 0, "the messages fit together");
    let timed = stretches * STRETCH * if how == How::OneByOne { 3 } else { 2 };
    Figures {
        mean: totals.iter().sum::<f64>() / totals.len() as f64,
        best: totals.iter().copied().fold(f64::INFINITY, f64::min),
        batch: percentiles(&mut batches, BATCH as f64, 0),
        single: percentiles(&mut singles, 1.0, clock_cost()),
        live_orders: side.books.order_count(),
        best_changes_percent: side.changed as f64 * 100.0 / timed as f64,
        allocations,
    }
}
