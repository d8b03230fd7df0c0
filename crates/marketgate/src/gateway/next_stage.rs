//! The interface of the stage that takes the receiver's output.

use weir_types::{Nanos, WallOffset};

use crate::receiver::Output;

/// The stage after the receiver on its thread.
pub trait Stage: Output + Send {
    /// Does the work between packets; returns its amount.
    fn turn(&mut self, now: Nanos) -> usize;
    /// Returns true while there is room for the receiver's output.
    fn has_room(&mut self) -> bool;
    /// The time of the next work that is due even if nothing arrives.
    fn next_due(&self) -> Option<Nanos>;
    /// Notes the distance of the wall clock, as in [`weir_runtime::Agent::wall_clock_moved`].
    fn wall_clock_moved(&mut self, wall: WallOffset) {
        let _ = wall;
    }
}
