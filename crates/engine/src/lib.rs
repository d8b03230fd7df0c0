//! The engine of one partition: a pure function of its command log.
//!
//! `(state, command, log time) -> (state, events)`, one thread, no clock, no chance, no I/O, no
//! floating point, no iteration over a hash table. Every replica that applies the same log is in
//! the same state and has said the same events; [`Engine::digest`] and
//! [`Engine::state_hash`] are how they compare.
//!
//! * [`Engine`]: the fast one. [`Engine::apply`] is the only way to change it.
//! * [`EngineConfig`]: its partition and its limits; equal on all replicas of a partition.
//! * [`EventSink`]: where its events go.
//! * [`uncrossing_price`]: the price that a call's book would trade at.
//! * [`naive`]: the same rules over maps, slow and obvious: the oracle.
//! * [`plant`]: bugs to put in on purpose, in programs made with the feature `planted` alone.
//! * [`script`]: bytes to plausible commands, for property tests, fuzzing and campaigns.
//!
//! The rules themselves (which check comes first, which event comes first) are written down in
//! `docs/matching.md`, the layout in `docs/adr/0003-engine-layout.md`.

mod account;
mod admin;
mod ahead;
mod book;
mod bust;
mod cancel;
mod checkpoint;
mod collar;
mod config;
mod define;
mod digest;
mod emit;
mod engine;
mod entry;
mod fillable;
mod index;
mod instrument;
mod matching;
pub mod naive;
mod order;
mod outcomes;
mod phases;
pub mod plant;
mod position;
mod replace;
pub mod script;
mod session;
mod snapshot;
mod stops;
mod throttle;
mod timers;
mod transfer;
mod uncross;

pub use config::{EngineConfig, EventSink, Memory};
pub use engine::{Engine, Level, OrderState, PositionTotals, SessionState, Totals};
pub use script::fuzz_commands;
pub use snapshot::SnapshotError;
pub use uncross::{CallLevel, Uncrossing, uncrossing_price};
