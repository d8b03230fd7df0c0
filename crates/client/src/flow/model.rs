//! The normal form of order flow: what happened to which order, whatever file it comes from.
//!
//! Sources differ: LOBSTER names the resting order of an execution but not the aggressor,
//! Bitstamp reports both but late. Their readers bring them to one form, so that everything
//! behind it (intents, oracle, packed sample, replay) exists once.
//!
//! INVARIANT: the events of a stream, applied by order id alone, give the book of its rows.

use weir_types::{Nanos, Price, Qty, Side};

/// Ids from here on are ours: seeded quantity whose orders the source does not name.
pub const ANONYMOUS_ID_FIRST: u64 = 1 << 63;

/// What happened to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FlowKind {
    /// Quantity that stood in the book before the source shows it: from before the file, or at
    /// a level that comes into sight at the file's depth.
    Seed = 1,
    /// A new order. It may trade at once; its `Fill`s follow it.
    Add = 2,
    /// `qty` of this resting order was executed against an order the source does not show.
    ExecuteVisible = 3,
    /// `qty` of this resting order was executed against the latest `Add`.
    Fill = 4,
    /// `qty` was taken off; the rest keeps its place in the queue.
    PartialCancel = 5,
    /// The order was cancelled; `qty` is what was left of it.
    Delete = 6,
    /// `qty` went while its level was out of the source's sight.
    Vanish = 7,
    /// An order that was never in the visible book was executed: nothing to do.
    HiddenExecution = 8,
    /// Trading stops.
    Halt = 9,
    /// Quoting resumes, trading does not.
    QuoteResume = 10,
    /// Trading resumes.
    TradeResume = 11,
}

impl FlowKind {
    /// The kind of a code of the packed form; `None` for a code that has none.
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

    /// True where an order enters the book.
    #[must_use]
    pub fn enters(self) -> bool {
        matches!(self, FlowKind::Seed | FlowKind::Add)
    }

    /// True where quantity of an order leaves the book.
    #[must_use]
    pub fn leaves(self) -> bool {
        use FlowKind::{Delete, ExecuteVisible, Fill, PartialCancel, Vanish};
        matches!(self, ExecuteVisible | Fill | PartialCancel | Delete | Vanish)
    }
}

/// One thing that happened to one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEvent {
    /// When, by the source's clock: LOBSTER counts from midnight of the day, Bitstamp from the
    /// Unix epoch.
    pub ts: Nanos,
    /// The source's id of the order; from [`ANONYMOUS_ID_FIRST`] on one of ours.
    pub source_order_id: u64,
    /// What happened.
    pub kind: FlowKind,
    /// The order's side.
    pub side: Side,
    /// The order's price, in the source's price exponent.
    pub price: Price,
    /// How much of it is concerned, in the source's lots.
    pub qty: Qty,
}

/// A price with all that is offered at it.
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
    /// True when this row is the first to show the level and so seeded it: the oracle must not
    /// count it.
    pub seeded: bool,
}

/// The top of the book as the source shows it after the events before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRow {
    /// When.
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
    /// Something happened.
    Event(FlowEvent),
    /// What the book looks like now.
    Row(FlowRow),
}

impl FlowItem {
    /// When.
    #[must_use]
    pub fn ts(&self) -> Nanos {
        match self {
            FlowItem::Event(event) => event.ts,
            FlowItem::Row(row) => row.ts,
        }
    }
}
