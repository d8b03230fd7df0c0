//! The market, pure: the books that follow from a feed's updates, and their conflated delivery.
//!
//! Updates and time come in as arguments, values go out: no socket, no file, no clock, no thread.
//! `crates/feed` makes the updates; the node moves the bytes (`crates/marketgate`).
//!
//! ```text
//! update ─► book ─► conflation ─► subscriber
//!         BBO, levels  throttle, priority
//! ```
//! * [`book`]: books built from updates, best prices, statistics.
//! * [`bar`]: trades by interval, number of trades or volume.
//! * [`interval`]: statistics of quotes, orders and trades by interval.
//! * [`conflate`]: conflation and fan-out to subscribers.
//! * [`publish`]: an engine's own market as ITCH 5.0.

pub mod bar;
pub mod book;
pub mod conflate;
pub mod interval;
pub mod plant;
pub mod publish;

pub use book::{Books, BooksConfig, Change};
