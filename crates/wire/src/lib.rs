//! Weir's wire format: messages as fixed layouts over bytes, their framing, and the log records.
//!
//! `schema/weir.xml` is the contract (SBE 1.0, little-endian, under FIX's Simple Open Framing
//! Header); a test compares every message here with it, offset by offset. The crate does no I/O and
//! never panics on bytes from outside: bytes that cannot be decoded are a [`DecodeError`] that
//! names the message and the field.
//!
//! * [`frame`]: the framing of messages in a byte stream.
//! * [`challenge`]: the text that a session with an Ed25519 key signs to log on.
//! * [`session`], [`order_entry`], [`reference`], [`delivery`], [`drop_copy`], [`ingest`],
//!   [`replica`], [`subscription`], [`market`]: the messages, by protocol.
//! * [`rows`]: orders with their attributes, on pages and in batches.
//! * [`event`], [`report`]: the engine's events, and the execution report made of them.
//! * [`dialogue`]: all messages of a client and all of a node, as one type each;
//!   [`market_dialogue`] is its market data part.
//! * [`record`]: commands and events as the logs hold them.
//! * [`catalogue`]: the list of all messages as data.

pub mod catalogue;
pub mod challenge;
pub mod delivery;
pub mod dialogue;
pub mod drop_copy;
pub mod event;
pub mod event_head;
pub mod field;
pub mod frame;
pub mod group;
pub mod ingest;
pub mod market;
pub mod market_dialogue;
pub mod message;
pub mod order_entry;
pub mod record;
pub mod reference;
pub mod replica;
pub mod report;
pub mod rows;
pub mod session;
pub mod subscription;

pub use catalogue::{MessageInfo, catalogue};
pub use dialogue::{ClientMessage, NodeMessage};
pub use message::{DecodeError, FieldInfo, Message};
pub use record::{Command, Definition, Destination, Event, PlainEvent, Request};

/// The schema's id: `WE` in ASCII.
pub const SCHEMA_ID: u16 = 0x5745;
/// The schema's version. Later versions append fields to blocks and messages to the schema.
pub const SCHEMA_VERSION: u16 = 1;
