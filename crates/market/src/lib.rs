//! Market data, pure: what a feed's packets say, the books that follow, and what of it goes to whom
//! and when.
//!
//! Bytes and time come in as arguments, values go out: no socket, no file, no clock, no thread.
//! What moves the bytes is in the binary (`crates/marketgate`).
//!
//! ```text
//! datagram ─► packet ─► line ─► codec ─► update ─► book ─► conflation ─► subscriber
//!            framing   A/B, gaps  ITCH…   one form    BBO, levels  throttle, priority
//! ```
//! * [`bar`]: what traded over a time, a number of trades or a volume.
//! * [`capture`]: datagrams in captures, messages in day files.
//! * [`feed`]: the codecs, one module each, behind one trait.
//! * [`line`]: lines A and B and retransmissions as one sequence; gaps, sessions, recovery.
//! * [`update`]: the one form that every feed's messages take.
//! * [`instrument`]: what an instrument is, and symbols' numbers.
//! * [`book`]: the books that follow from updates, best prices, statistics.
//! * [`interval`]: how instruments were quoted and traded, interval by interval.
//! * [`conflate`]: what of it goes to whom and when.
//! * [`publish`]: an engine's own market as ITCH 5.0, for others to read.

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

/// The exponent of every price in this crate: `Price(1_000_000_000)` is 1.0. As Databento's DBN has
/// it: fine enough for every feed here, and up to 9.2 billion either way.
pub const PRICE_EXPONENT: i8 = -9;
