//! Durable subscriptions over TCP: the door of subscribers and publishers, and the queues behind
//! it.
//!
//! A thread of its own has the sockets ([`agent`]), the queues (`weir-broker`) and a position in
//! the partition's events (`producer`, `unsettled`); a second thread does its writes. `intake`
//! takes messages, `executions` the executions of outside cores; `manage` carries out requests
//! about subscriptions within the `bounds` of one participant; `serve` sends messages; [`plant`]
//! has bugs to plant on purpose. INVARIANT: the memory that a connection can occupy is bounded: its
//! input buffer, its output, its subscriptions' quotas.

pub mod agent;
mod bounds;
mod executions;
pub mod figures;
mod intake;
mod link;
mod manage;
pub mod plant;
mod producer;
mod serve;
mod unsettled;

pub use self::agent::{SubscriptionsAgent, SubscriptionsParts, subscriptions_agent};
pub use self::bounds::Bounds;
pub use self::figures::{SubscriptionsFigures, SubscriptionsReport};
pub use self::producer::EventParts;
