//! The updating thread's cost of an order-by-order feed, with a day's live orders: updates applied
//! to the books one by one, and in batches.

use std::time::Instant;

use serde_json::{Value, json};
use weir_feed::Update;
use weir_market::BooksConfig;
use weir_marketgate::gateway::update::BATCH_MAX;
use weir_marketgate::receiver::Output as _;
use weir_types::Nanos;

use super::super::flow::{Flow, Shape};
use super::lone::{LoneStage, origin, stage};

const INSTRUMENTS: u32 = 8_000;
/// The number of updates generated, then applied.
const STRETCH: usize = 1 << 16;
/// The number of stretches timed in a round.
const STRETCHES: u32 = 16;
/// The number of updates in a packet.
const PACKET: usize = 15;
/// The packets of one poll: of a feed slower than the thread, and of a faster one.
const POLLS: [usize; 2] = [1, 8];

/// A stage with filled books, and the flow that continues.
struct Day {
    stage: LoneStage,
    flow: Flow,
    updates: Vec<Update>,
}

impl Day {
    fn new(live_orders: usize, batch_max: usize) -> Day {
        let orders = u32::try_from(live_orders + live_orders / 8).expect("it fits");
        let (instruments, levels_per_side) = (INSTRUMENTS, 64);
        let books = BooksConfig { orders, instruments, levels_per_side, ..BooksConfig::default() };
        let mut stage = stage(books, batch_max);
        for id in 1..=INSTRUMENTS {
            stage.define(&origin(), &super::flow::definition(id));
        }
        let shape = Shape { instruments: INSTRUMENTS, live_orders, recent_of_ten: 7 };
        let mut day = Day { stage, flow: Flow::new(shape), updates: Vec::with_capacity(STRETCH) };
        loop {
            day.updates.clear();
            day.flow.fill(&mut day.updates, STRETCH);
            if day.updates.is_empty() {
                return day;
            }
            day.take(PACKET);
        }
    }

    /// Applies the generated updates in polls of `poll` updates; returns nanoseconds.
    fn take(&mut self, poll: usize) -> u64 {
        let begun = Instant::now();
        for updates in self.updates.chunks(poll) {
            for update in updates {
                self.stage.update(&origin(), *update);
            }
            self.stage.turn(Nanos(1));
        }
        u64::try_from(begun.elapsed().as_nanos()).expect("it ends")
    }

    /// Measures nanoseconds per update.
    fn round(&mut self, poll: usize) -> f64 {
        let mut spent = 0;
        for _ in 0..STRETCHES {
            self.updates.clear();
            let flow = &mut self.flow;
            self.updates.extend((0..STRETCH).map(|_| flow.next()));
            spent += self.take(poll);
        }
        spent as f64 / (f64::from(STRETCHES) * STRETCH as f64)
    }
}

/// Measures one by one and batched, alternately, in `rounds` rounds.
///
/// # Panics
/// If the books found anomalies in the flow: the figures would be meaningless.
pub fn orders(rounds: usize) -> Vec<Value> {
    let mut rows = Vec::new();
    for live_orders in [400_000, 1_000_000] {
        let mut days = [1, BATCH_MAX].map(|batch_max| Day::new(live_orders, batch_max));
        for packets in POLLS {
            let mut times = [Vec::new(), Vec::new()];
            for _ in 0..rounds {
                for (day, times) in days.iter_mut().zip(&mut times) {
                    times.push(day.round(packets * PACKET));
                }
            }
            let [one_by_one, batches] = times.map(super::capacity::spread);
            let row = json!({
                "live_orders": live_orders, "updates_per_poll": packets * PACKET,
                "one_by_one_ns": one_by_one.1, "batches_ns": batches.1,
                "ratio": batches.0 / one_by_one.0,
            });
            eprintln!("{row}");
            rows.push(row);
        }
        for day in &days {
            assert_eq!(day.stage.books().anomalies().total(), 0, "the flow fits together");
        }
    }
    rows
}
