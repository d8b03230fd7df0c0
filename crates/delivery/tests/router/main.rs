//! The router in front of real desks and stores: the content of its pages and tokens, and the
//! outcome for readers when its backends fail, lag, move or appear.

#[path = "../support/mod.rs"]
mod support;

mod pages;
#[cfg(feature = "planted")]
mod plants;
mod probes;
mod property;
mod replicas;
mod slow;
mod tokens;
mod venue;
