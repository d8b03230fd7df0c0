//! Conflation: bounded delivery of a market that changes faster than subscribers can read.
//!
//! Two stages, both pure; time is an argument and never goes back (an earlier time counts as the
//! latest one seen).
//! 1. [`Conflator`], before fan-out: per instrument and [`Kind`] one slot with the latest state, a
//!    throttle queue that the timer empties, and the priority queue, the only path to flush.
//! 2. [`Fanout`], the same mechanism per subscriber: a slow reader gets fewer, newer messages and
//!    never a longer queue. One `Fanout` per flush thread, each with the same entries as input.
//!
//! INVARIANT: a state is in at most one place, the throttle queue or the priority queue, and only
//! once. Trades, changes of orders and of status are never merged while their bounded queue has
//! room. A quote that waits when a trade or status would overtake it is sent first, as it is at
//! that time.
//!
//! * [`entry`]: the entries of both stages.
//! * [`urgency`]: the rule for quotes that cannot wait.
//! * [`view`]: the interface through which conflation reads the books.
//! * [`conflator`]: the first stage. [`fanout`]: the second; `steps`: its work for subscribing and
//!   leaving, a bounded part at a time; `accounts`: the sessions' slots; `instruments`: the
//!   instruments in the order of their definitions.
//! * [`subscription`]: the terms of a subscription.

mod accounts;
pub mod conflator;
pub mod entry;
pub mod fanout;
mod fifo;
mod instruments;
mod lane;
mod outbox;
mod slot;
mod step;
mod steps;
pub mod subscription;
mod topic;
pub mod urgency;
pub mod view;

pub use accounts::{AccountId, AccountProgress};
pub use conflator::{Conflator, ConflatorConfig, Counts, Interest, OnFull};
pub use entry::{Bbo, Body, Entry, Kind, MergedChanges, Stamp, Status, Trade};
pub use fanout::{
    Disconnect, EndedSubscription, Fanout, Message, Poll, PollOutcome, SubscriberProgress,
};
pub use step::Outcome;
pub use subscription::{
    Content, Pattern, Policy, SubscribeError, SubscriberId, Subscription, SubscriptionId,
};
pub use urgency::Urgency;
pub use view::{BookView, DayStatistics};
