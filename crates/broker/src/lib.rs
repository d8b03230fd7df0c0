//! Durable subscriptions: named queues of events and addressed messages, and named tokens.
//!
//! Memory first: a subscriber that keeps up is served from memory, and nothing is written for it.
//! Messages that a slow or absent subscriber has not taken go to disk: at the levels `os` and
//! `disk` before they are acknowledged to their producer, at `memory` in large blocks when memory
//! is half full. Messages that every subscriber has taken are dropped, and files without others are
//! removed.
//!
//! A producer never waits for a subscriber, nor one subscriber for another: a subscriber that is
//! too far behind is evicted and gets the marks to go on from. The crate has no socket, thread or
//! clock.
//!
//! * [`Broker`]: publish, subscribe, the duty cycle.
//! * [`Config`], [`Quota`]: limits.
//! * [`Topic`], [`OriginMark`], [`MessageNo`], [`OriginMarks`]: names and numbers.
//! * `block`, `table`: the file formats, specified in docs/protocols/broker-format.md.

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

pub use broker::{Broker, Counters, Holdings, Notice, PublishOutcome, PublishTimes};
pub use config::{Config, MESSAGE_BYTES_MAX, OnFull, Quota, Terms};
pub use deliver::{AttachOutcome, Attachment, Delivery};
pub use error::{BrokerError, EvictReason, OpenReport, PublishRefusal, SubscriptionError};
pub use name::{
    MessageNo, NAME_BYTES_MAX, Name, OriginMark, OriginMarks, Source, Topic, TopicKind,
};
pub use saver::Change;
pub use subscription::{Lag, ListedSubscription};
pub use table::{ATTACHED, Row, RowKind, Status, TOKEN_BYTES_MAX, Table, TableFault};
pub use weir_types::Durability;
