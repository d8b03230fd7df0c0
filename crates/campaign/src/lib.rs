//! The campaigns that a test runs too, in a short form.

pub mod soak;
