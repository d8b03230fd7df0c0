//! Load: trading sessions that send at predetermined times, and the measured outcome of each order.
//!
//! The generator is an open loop: the times at which orders are due do not depend on answers, and
//! latency counts from the time when an order was *due*. An order that the generator itself sent
//! late is counted, never left out; a run with too many of those gives no verdict. A closed loop
//! with a window of N exists too, to measure the cost of one order at a time.
//!
//! * [`arrivals`]: the due times of orders.
//! * [`mix`]: synthetic orders over a bounded book.
//! * [`measure`]: latencies, lag, stage times, and the report of a run.
//! * [`generator`]: the loop.
//! * [`playback`]: recorded flow as orders of a run.
//! * [`setup`]: instruments, accounts and sessions for a run, defined by an operator.

pub mod arrivals;
pub mod generator;
pub mod measure;
pub mod mix;
pub mod playback;
pub mod setup;

pub use arrivals::{Arrivals, Schedule};
pub use generator::{Generator, LoadPlan, OrderGenerator, Pace, Progress, Trader};
pub use measure::{LoadReport, Quantiles, Verdict};
pub use mix::{Kinds, Listing, Mix, MixSource};
pub use playback::{Playback, PlaybackAccount};
pub use setup::{SetupPlan, set_up};

/// A small random stream (SplitMix64): one seed, one run.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Creates the stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Rng {
        Rng { state: seed }
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Draws a number below `bound`, which is at least 1.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of a product's upper half is bound / 2^64: negligible at these bounds.
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Draws a number from the interval (0, 1].
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}
