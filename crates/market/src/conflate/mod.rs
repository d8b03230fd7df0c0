//! Conflation: who gets what of a market that changes faster than it can be told.
//!
//! Two stages, both pure; time comes in as an argument and never runs backwards (an earlier one
//! counts as the latest seen).
//! 1. [`Conflator`], before fan-out: per instrument and [`Kind`] one slot with the latest state, a
//!    throttle queue that the timer empties, and the priority queue, the only door to flush.
//! 2. [`Fanout`], per subscriber the same machine again: a slow reader gets fewer, newer messages
//!    and never a longer queue. One `Fanout` per flush thread, each fed the same entries.
//!
//! INVARIANT: a state is in at most one place, the throttle queue or the priority queue, and there
//! once. Trades, orders and changes of status are never merged while their bounded queue has room.
//! What a trade or status overtakes (a quote that waits) goes out before it as it was then.
//!
//! * [`entry`]: what goes through both stages.
//! * [`urgency`]: when a quote cannot wait.
//! * [`view`]: what conflation reads of the books.
//! * [`conflator`]: the first stage. [`fanout`]: the second.
//! * [`subscription`]: what a subscriber asks for.

pub mod conflator;
pub mod entry;
pub mod fanout;
mod fifo;
mod lane;
mod outbox;
mod slot;
mod step;
pub mod subscription;
mod topic;
pub mod urgency;
pub mod view;

pub use conflator::{Conflator, ConflatorConfig, Counts, Interest, OnFull, Outcome};
pub use entry::{Bbo, Body, Entry, Kind, Merged, Stamp, Status, Trade};
pub use fanout::{Disconnect, Fanout, Message, Poll, Polled, Standing};
pub use subscription::{
    Content, Pattern, Policy, SubscribeError, SubscriberId, Subscription, SubscriptionId,
};
pub use urgency::Urgency;
pub use view::{BookView, DayStatistics};
