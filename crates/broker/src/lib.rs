//! Durable subscriptions: named queues of events and addressed messages, and named tokens.
//!
//! Memory first. A subscriber that keeps up is served from memory and nothing is ever written for
//! it. What a subscriber that is away or slow has not taken goes to disk: at the levels `os` and
//! `disk` before its producer is told that it is acknowledged, at `memory` in large blocks when
//! memory is half full. What everybody has taken is forgotten, files of it are removed.
//!
//! It never makes a producer wait for a subscriber, nor one subscriber for another: who is too far
//! behind is evicted, and told where to go on. It knows no socket, thread or clock.
//!
//! * [`Broker`]: publish, subscribe, the duty cycle.
//! * [`Config`], [`Quota`]: limits.
//! * [`Topic`], [`Place`], [`MessageNo`], [`Places`]: names and numbers.
//! * `block`, `table`: the bytes, as docs/protocols/broker-format.md has them.

mod block;
mod broker;
mod config;
mod deliver;
mod error;
pub mod fuzzing;
mod manage;
mod name;
mod open;
pub mod plant;
mod saver;
mod spill;
mod subscription;
mod table;
mod topic;
mod work;

pub use broker::{Broker, Counters, Holdings, Notice, Published};
pub use config::{Config, MESSAGE_BYTES_MAX, OnFull, Quota, Terms};
pub use deliver::{Attached, Attachment, Delivery};
pub use error::{BrokerError, EvictReason, OpenReport, Refused, SubscriptionError};
pub use name::{MessageNo, NAME_BYTES_MAX, Name, Place, Places, Source, Topic, TopicKind};
pub use saver::Change;
pub use subscription::{Lag, Listed};
pub use table::{ATTACHED, Row, RowKind, Status, TOKEN_BYTES_MAX, Table, TableFault};
pub use weir_types::Durability;
