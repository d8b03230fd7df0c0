//! The normal form of order flow: changes of orders, independent of the file format.
//!
//! Sources differ: LOBSTER names the resting order of an execution but not the aggressor, Bitstamp
//! reports both but late. Their readers transcode them to one form, so that everything behind it
//! (intents, oracle, packed sample, replay) exists once.
//!
//! INVARIANT: the events of a stream, applied by order id alone, give the book of its rows.

use weir_types::{Nanos, Price, Qty, Side};

/// The first id assigned by us: seeded quantity whose orders the source does not name.
pub const ANONYMOUS_ID_FIRST: u64 = 1 << 63;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FlowKind {
    /// Quantity that was in the book before the source shows it: from before the file, or at a
    /// level that comes into sight at the file's depth.
    Seed = 1,
    /// A new order. It may trade at once; its `Fill`s follow it.
    Add = 2,
    /// `qty` of this resting order was executed against an order the source does not show.
    ExecuteVisible = 3,
    /// `qty` of this resting order was executed against the latest `Add`.
    Fill = 4,
    /// `qty` was taken off; the rest keeps its position in the queue.
    PartialCancel = 5,
    /// The order was cancelled; `qty` is its remaining quantity.
    Delete = 6,
    /// `qty` left while its level was out of the source's sight.
    Vanish = 7,
    /// An order that was never in the visible book was executed: no change of the book.
    HiddenExecution = 8,
    /// Trading stops.
    Halt = 9,
    /// Quoting resumes, trading does not.
    QuoteResume = 10,
    /// Trading resumes.
    TradeResume = 11,
}

impl FlowKind {
    /// Returns the kind of a code in the packed form; `None` for an unknown code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<FlowKind> {
        use FlowKind::{
            Add, Delete, ExecuteVisible, Fill, Halt, HiddenExecution, PartialCancel, QuoteResume,
            Seed, TradeResume, Vanish,
        };
        let all = [
            Seed,
            Add,
            ExecuteVisible,
            Fill,
            PartialCancel,
            Delete,
            Vanish,
            HiddenExecution,
            Halt,
            QuoteResume,
            TradeResume,
        ];
        all.into_iter().find(|kind| *kind as u8 == code)
    }

    /// True if an order enters the book.
    #[must_use]
    pub fn enters(self) -> bool {
        matches!(self, FlowKind::Seed | FlowKind::Add)
    }

    /// True if quantity of an order leaves the book.
    #[must_use]
    pub fn leaves(self) -> bool {
        use FlowKind::{Delete, ExecuteVisible, Fill, PartialCancel, Vanish};
        matches!(self, ExecuteVisible | Fill | PartialCancel | Delete | Vanish)
    }
}

/// One event of one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEvent {
    /// The time, by the source's clock: LOBSTER counts from midnight of the day, Bitstamp from the
    /// Unix epoch.
    pub ts: Nanos,
    /// The source's id of the order; from [`ANONYMOUS_ID_FIRST`] on, one of ours.
    pub source_order_id: u64,
    /// The kind of event.
    pub kind: FlowKind,
    /// The order's side.
    pub side: Side,
    /// The order's price, in the source's price exponent.
    pub price: Price,
    /// The quantity concerned, in the source's lots.
    pub qty: Qty,
}

/// A price with the total quantity at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The price.
    pub price: Price,
    /// The sum of the orders there.
    pub qty: Qty,
}

/// A level as the source shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowLevel {
    /// Price and quantity.
    pub level: Level,
    /// True when this row is the first to show the level and seeded it: the oracle must not count
    /// it.
    pub seeded: bool,
}

/// The top of the book as the source shows it after the events before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRow {
    /// The time, by the source's clock.
    pub ts: Nanos,
    /// Bids, best first.
    pub bids: Vec<RowLevel>,
    /// Asks, best first.
    pub asks: Vec<RowLevel>,
    /// True when the source contradicts itself here: its events, applied by id without any
    /// matching, do not give this row.
    pub contradicts_events: bool,
}

/// An element of a normalised stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowItem {
    /// An event of an order.
    Event(FlowEvent),
    /// The book after the events before it.
    Row(FlowRow),
}

impl FlowItem {
    /// The item's time.
    #[must_use]
    pub fn ts(&self) -> Nanos {
        match self {
            FlowItem::Event(event) => event.ts,
            FlowItem::Row(row) => row.ts,
        }
    }
}
