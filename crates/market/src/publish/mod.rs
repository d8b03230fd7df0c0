//! Publication of an engine's own market as ITCH 5.0: turns the engine's events into messages,
//! numbered and stored for retransmission.
//!
//! [`Publication`] tracks every order of a partition and publishes its public part: the shown
//! quantity, price and priority, never the owner. [`Channel`] numbers the messages, fills packets
//! and stores messages for [`RequestServer`]. The output is a function of the events: equal events
//! yield equal messages with equal numbers in a session of the same name.
//!
//! It opens no socket and reads no clock. The page `docs/protocols/market-itch.md` lists the
//! messages of each event, and the omissions with their reasons.
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
mod snapshot;
mod state;
mod store;
#[cfg(test)]
mod tests;

pub use channel::{Channel, ChannelSink};
pub use fit::{UnfitReason, unfit_reason};
pub use publication::{Publication, PublishCounts};
pub use requests::{Refusal, RequestServer};
pub use snapshot::put_snapshot;
pub use state::{StandingOrder, StandingPlace, StateFault, fuzz_state};
pub use store::{MESSAGE_LEN_MAX, SLOT_LEN, Store};

use weir_feed::moldudp64::MoldSession;
use weir_types::{
    ExecType, InstrumentId, Liquidity, MatchId, Nanos, OrdType, Phase, PhaseCause, Price, Qty, Rec,
    SelfTradePrevention, Side, Symbol, TimeInForce,
};

/// A receiver of the messages of a [`Publication`].
pub trait PublishSink {
    /// Begins a session: sequence numbers restart. A previous open session is not continued.
    fn session(&mut self, session: MoldSession);
    /// Takes the session's next message.
    fn message(&mut self, message: &[u8]);
    /// Ends the session after its last message.
    fn end(&mut self);
}

/// The definition of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The symbol.
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
    /// The initial phase; ignored in a later definition.
    pub phase: Phase,
}

/// The phase of an instrument, and the cause of the change to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseNow {
    /// The phase.
    pub phase: Phase,
    /// The cause; unknown while the phase is the definition's.
    pub cause: PhaseCause,
}

impl PhaseNow {
    /// Returns the first phase of an instrument.
    fn defined(listing: &Listing) -> PhaseNow {
        PhaseNow { phase: listing.phase, cause: PhaseCause::Unknown }
    }
}

/// A change of an order and its state after it, without its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderChange {
    /// The log's time.
    pub time: Nanos,
    /// The order, by a number that is never published; zero when nothing changed.
    pub rec: Rec,
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The side.
    pub side: Side,
    /// The current type.
    pub ord_type: OrdType,
    /// The time in force.
    pub time_in_force: TimeInForce,
    /// The self-trade prevention of the order.
    pub self_trade_prevention: SelfTradePrevention,
    /// The kind of change.
    pub exec_type: ExecType,
    /// The limit price; zero without one.
    pub price: Price,
    /// The total quantity ordered.
    pub order_qty: Qty,
    /// The quantity that may still trade; zero when the order has ended.
    pub leaves_qty: Qty,
    /// The largest quantity shown at a time; zero for all.
    pub display_qty: Qty,
    /// The price of the trade, for a trade.
    pub last_px: Price,
    /// The quantity of the trade, for a trade.
    pub last_qty: Qty,
    /// The number of the trade, for a trade.
    pub match_id: MatchId,
    /// The order's side of the trade (resting, incoming or in an auction), for a trade.
    pub liquidity: Liquidity,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncross {
    /// The log's time.
    pub time: Nanos,
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The price of all trades; zero when there was none.
    pub price: Price,
    /// The volume traded.
    pub qty: Qty,
    /// Demand minus supply at the price.
    pub surplus: i64,
}
