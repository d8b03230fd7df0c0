//! A market of one's own as ITCH 5.0: from what an engine says of orders to messages that others
//! read, numbered and kept for those who missed some.
//!
//! [`Publication`] knows every order of a partition and says of it what is public: what is shown,
//! at which price, in whose place; never whose it is. [`Channel`] numbers its messages, fills
//! packets and keeps messages for [`RequestServer`]. All of it is a function of the events: the
//! same events give the same messages with the same numbers in a session of the same name.
//!
//! It opens no socket and reads no clock. What becomes of each event, and what is left out and
//! why, is on the page `docs/protocols/market-itch.md`.
//!
//! ```text
//! event ─► Publication ─► message ─► Channel ─┬─► packets, as they fill
//!          orders, phases  ITCH 5.0           └─► Store ─► RequestServer ─► packets asked for
//! ```

mod changes;
mod channel;
mod fit;
mod orders;
mod publication;
mod requests;
mod say;
mod session;
mod snapshot;
mod store;
#[cfg(test)]
mod tests;

pub use channel::{Channel, ChannelSink};
pub use fit::Unfit;
pub use publication::{Publication, PublishCounts};
pub use requests::{Refusal, RequestServer};
pub use session::{Calendar, MAPPING, SessionName, session_name};
pub use snapshot::put_snapshot;
pub use store::{MESSAGE_LEN_MAX, SLOT_LEN, Store};

use weir_types::{
    ExecType, InstrumentId, Liquidity, MatchId, Nanos, OrdType, Phase, Price, Qty, Rec,
    SelfTradePrevention, Side, Symbol, TimeInForce,
};

use crate::feed::moldudp64::Session;

/// Takes what a [`Publication`] says.
pub trait PublishSink {
    /// A session begins: numbers begin anew. The one before, if there was one, goes no further.
    fn session(&mut self, session: Session);
    /// The session's next message.
    fn message(&mut self, message: &[u8]);
    /// All of the session was said.
    fn end(&mut self);
}

/// An instrument as it is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// Its name.
    pub symbol: Symbol,
    /// Prices are multiples of this.
    pub tick_size: Price,
    /// Quantities are multiples of this.
    pub lot_size: Qty,
    /// The largest quantity of one order.
    pub order_qty_max: Qty,
    /// The lowest price accepted.
    pub price_min: Price,
    /// The highest price accepted.
    pub price_max: Price,
    /// A price of mantissa m is m times ten to this power.
    pub price_exponent: i8,
    /// The phase it begins in; of a later definition it is not looked at.
    pub phase: Phase,
}

/// A change of an order and what it is after it, without whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderChange {
    /// The log's time.
    pub time: Nanos,
    /// The order, by a number that is never published; none: nothing changed.
    pub rec: Rec,
    /// Its instrument.
    pub instrument_id: InstrumentId,
    /// Its side.
    pub side: Side,
    /// Its type now.
    pub ord_type: OrdType,
    /// How long it stands.
    pub time_in_force: TimeInForce,
    /// What is done when it meets its own account's orders.
    pub self_trade_prevention: SelfTradePrevention,
    /// What happened.
    pub exec_type: ExecType,
    /// Its limit; zero without one.
    pub price: Price,
    /// All that it asked for.
    pub order_qty: Qty,
    /// What may still trade; zero when it has ended.
    pub leaves_qty: Qty,
    /// The most that it shows at once; zero: all.
    pub display_qty: Qty,
    /// The trade's price, when it traded.
    pub last_px: Price,
    /// The trade's quantity, when it traded.
    pub last_qty: Qty,
    /// The trade, when it traded.
    pub match_id: MatchId,
    /// Whether it rested or came in, when it traded.
    pub liquidity: Liquidity,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncross {
    /// The log's time.
    pub time: Nanos,
    /// Its instrument.
    pub instrument_id: InstrumentId,
    /// The price of all trades; zero when there was none.
    pub price: Price,
    /// The volume traded.
    pub qty: Qty,
    /// Demand less supply at the price.
    pub surplus: i64,
}
