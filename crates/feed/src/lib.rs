//! Feeds of market data, pure: framings, codecs, captures, and two lines as one sequence.
//!
//! Bytes and times come in as arguments, updates go out: no socket, no file, no clock, no thread.
//!
//! ```text
//! datagram ─► packet ─► line ─► codec ─► update
//!            framing   A/B, gaps  ITCH…   one form
//! ```
//! * [`feed`]: the trait of every feed; [`profile`]: its properties; [`registry`]: all feeds by
//!   name. Codecs: [`itch`], [`iex`], [`opra`], [`cta`], [`dbn`] and
//!   [`weir`], a node's own market. Framings: [`moldudp64`], [`soupbin`].
//! * [`recognise`]: the feed that datagrams are of.
//! * [`line`]: lines A and B and retransmissions as one sequence; gaps, sessions, recovery.
//! * [`update`]: the one form of all feeds' messages. [`instrument`]: definitions and symbols.
//! * [`consolidate`]: the best quote over venues. [`layout`]: fixed layouts of big-endian messages.
//! * [`capture`]: datagrams in captures, messages in day files, audits.
//! * [`session_name`]: the names of sessions of a node's own market. [`phase_reason`]: the reasons
//!   of its trading states.

pub mod capture;
pub mod consolidate;
pub mod cta;
pub mod dbn;
pub mod feed;
pub mod iex;
pub mod instrument;
pub mod itch;
pub mod layout;
pub mod line;
pub mod moldudp64;
mod national;
pub mod opra;
pub mod phase_reason;
pub mod plant;
pub mod profile;
pub mod recognise;
pub mod registry;
pub mod session_name;
pub mod soupbin;
pub mod update;
pub mod weir;

pub use feed::{CollectedUpdates, Context, Feed, FeedError, Packet, PacketKind, UpdateSink};
pub use instrument::{Definition, SymbolText, Symbols};
pub use profile::{InstrumentIds, OrderIds, Profile, Transport};
pub use registry::{AnyFeed, FEEDS, FeedEntry, feed_by_name, feed_names, mold_feed_names};
pub use update::{
    Action, AuctionKind, PriceKind, SystemEvent, TradeFlags, TradingState, Update, Venue,
};

/// The exponent of every price in this crate: `Price(1_000_000_000)` is 1.0. The same as in
/// Databento's DBN: fine enough for every feed here, with a range of ±9.2 billion.
pub const PRICE_EXPONENT: i8 = -9;
