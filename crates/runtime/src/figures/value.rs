//! The types of figures: numbers, flags, limits, and counts with a label.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A figure's value in a report.
pub trait Value: Sized {
    /// Passes each number to `row`, with the value of its label; without a label that is empty.
    fn rows(&self, row: &mut dyn FnMut(&str, u64));

    /// Returns the sum of two values.
    #[must_use]
    fn plus(&self, other: &Self) -> Self;

    /// Sets the value to a number of the metrics page.
    fn set(&mut self, value: u64);
}

/// Returns the sum of all `values`; the greatest number if it is larger.
pub fn total(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0, |sum, value| sum.plus(&value))
}

/// A value whose figure one thread changes and others read.
pub trait Shared: Value {
    /// The atomic behind the value.
    type Atomic;

    /// Returns the current value.
    fn load(atomic: &Self::Atomic) -> Self;
}

impl Value for u64 {
    fn rows(&self, row: &mut dyn FnMut(&str, u64)) {
        row("", *self);
    }

    /// A sum has no more than the greatest number: some figures are a stranger's, as the messages
    /// that a sequence number says are lost.
    fn plus(&self, other: &u64) -> u64 {
        self.saturating_add(*other)
    }

    fn set(&mut self, value: u64) {
        *self = value;
    }
}

impl Shared for u64 {
    type Atomic = AtomicU64;

    fn load(atomic: &AtomicU64) -> u64 {
        // SYNC: a figure stands for itself; a reader orders nothing by it.
        atomic.load(Ordering::Relaxed)
    }
}

impl Value for bool {
    fn rows(&self, row: &mut dyn FnMut(&str, u64)) {
        row("", u64::from(*self));
    }

    /// A sum is true if one of the two is.
    fn plus(&self, other: &bool) -> bool {
        *self || *other
    }

    fn set(&mut self, value: u64) {
        *self = value != 0;
    }
}

impl Shared for bool {
    type Atomic = AtomicBool;

    fn load(atomic: &AtomicBool) -> bool {
        // SYNC: a figure stands for itself; a reader orders nothing by it.
        atomic.load(Ordering::Relaxed)
    }
}

impl Value for Option<u64> {
    fn rows(&self, row: &mut dyn FnMut(&str, u64)) {
        row("", self.unwrap_or_default());
    }

    /// Without one of the two limits, the sum has none.
    fn plus(&self, other: &Option<u64>) -> Option<u64> {
        self.zip(*other).map(|(one, other)| one.plus(&other))
    }

    fn set(&mut self, value: u64) {
        *self = Some(value);
    }
}
