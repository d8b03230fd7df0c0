//! What the updating thread takes of a feed that tells of each order, with a day's orders at rest:
//! updates taken into the books one by one, and those that came together taken together.

use std::time::Instant;

use serde_json::{Value, json};
use weir_feed::Update;
use weir_market::BooksConfig;
use weir_marketgate::gateway::update::BATCH_MAX;
use weir_marketgate::receiver::Output as _;
use weir_types::Nanos;

use super::lone::{LoneStage, origin, stage};

#[path = "../../../../crates/market/examples/bench_market/flow.rs"]
mod flow;

use flow::{Flow, Shape};

const INSTRUMENTS: u32 = 8_000;
/// Updates that are made, then taken.
const STRETCH: usize = 1 << 16;
/// Stretches that are timed in a round.
const STRETCHES: u32 = 16;
/// Updates in a packet.
const PACKET: usize = 15;
/// Packets that a poll brings: a feed that is slower than the thread, and one that has more.
const POLLS: [usize; 2] = [1, 8];

/// A stage whose books are filled, and the flow that goes on.
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

    /// Takes what was made in polls of so many updates; nanoseconds.
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

    /// Nanoseconds an update.
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

/// One by one and in batches in turn, in as many rounds as asked.
///
/// # Panics
/// When the books did not understand the flow: its figures would say nothing.
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
