//! Durable subscriptions over TCP: who subscribes, who publishes, and what is between them.
//!
//! A thread of its own has the sockets ([`agent`], [`link`]), the queues (`weir-broker`) and the
//! place in the partition's events ([`feed`]); a second one does its writes. What is said is taken
//! in by [`intake`], outside cores' executions by [`executions`], subscriptions are managed by
//! [`manage`], messages go out by [`serve`].
//! INVARIANT: what a connection may make the node keep is bounded: one frame that is not whole,
//! its output, its subscriptions' quotas.

pub mod agent;
mod executions;
mod feed;
pub mod figures;
mod intake;
mod link;
mod manage;
mod serve;

pub use self::agent::{BrokerAgent, BrokerLimits, BrokerParts};
pub use self::feed::FeedParts;
pub use self::figures::{BrokerFigures, BrokerReport};
