//! Market data, pure: decoding of feeds, the books built from them, and conflated delivery to
//! subscribers.
//!
//! Bytes and time come in as arguments, values go out: no socket, no file, no clock, no thread. The
//! node's binary moves the bytes (`crates/marketgate`).
//!
//! ```text
//! datagram ─► packet ─► line ─► codec ─► update ─► book ─► conflation ─► subscriber
//!            framing   A/B, gaps  ITCH…   one form    BBO, levels  throttle, priority
//! ```
//! * [`bar`]: trades by interval, number of trades or volume.
//! * [`capture`]: datagrams in captures, messages in day files.
//! * [`feed`]: the codecs, one module each, behind one trait.
//! * [`line`]: merges lines A and B and retransmissions into one sequence; gaps, sessions,
//!   recovery.
//! * [`update`]: the common form of every feed's messages.
//! * [`instrument`]: instrument definitions and the numbering of symbols.
//! * [`book`]: books built from updates, best prices, statistics.
//! * [`interval`]: statistics of quotes, orders and trades by interval.
//! * [`conflate`]: conflation and fan-out to subscribers.
//! * [`publish`]: an engine's own market as ITCH 5.0.

pub mod bar;
pub mod book;
pub mod capture;
pub mod conflate;
pub mod feed;
pub mod instrument;
pub mod interval;
pub mod line;
pub mod publish;
pub mod update;

pub use book::{Books, BooksConfig, Change};
pub use feed::{Context, Feed, FeedError, Packet, PacketKind, Sink};
pub use instrument::{Definition, SymbolText, Symbols};
pub use update::{
    Action, AuctionKind, PriceKind, SystemEvent, TradeFlags, TradingState, Update, Venue,
};

/// The exponent of every price in this crate: `Price(1_000_000_000)` is 1.0. The same as in
/// Databento's DBN: fine enough for every feed here, with a range of ±9.2 billion.
pub const PRICE_EXPONENT: i8 = -9;
