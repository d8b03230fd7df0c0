//! The engine of one partition: a pure function of its command log.
//!
//! `(state, command, log time) -> (state, events)`: one thread, no clock, no randomness, no I/O, no
//! floating point, no iteration over a hash table. All replicas that apply the same log reach the
//! same state and emit the same events; [`Engine::digest`] and [`Engine::state_hash`] compare them.
//!
//! * [`Engine`]: the fast engine. [`Engine::apply`] is the only way to change it.
//! * [`EngineConfig`]: its partition and its limits; equal on all replicas of a partition.
//! * [`EngineLimits`]: the limits of its tables, which a command changes.
//! * [`EventSink`]: the receiver of its events.
//! * [`RULES_VERSION`]: the version of the rules, which a log records with its commands.
//! * [`uncrossing_price`]: the price at which a call's book would trade.
//! * [`naive`]: the same rules over maps, slow and simple: the oracle.
//! * [`plant`]: planted bugs, only in programs built with the feature `planted`.
//! * [`script`]: plausible commands from bytes, for property tests, fuzzing and campaigns.
//!
//! `docs/matching.md` specifies the rules (the order of checks and of events),
//! `docs/adr/0003-engine-layout.md` the layout.

mod account;
mod admin;
mod agenda;
mod ahead;
mod book;
mod bust;
mod call_markets;
mod cancel;
mod checkpoint;
mod collar;
mod config;
mod debt;
mod define;
mod digest;
mod emit;
mod engine;
mod entry;
mod fillable;
mod groups;
mod index;
mod instrument;
mod limits;
mod live;
mod matching;
pub mod naive;
mod order;
mod outcomes;
mod phases;
pub mod plant;
mod position;
mod references;
mod replace;
mod schedule;
pub mod script;
mod session;
mod snapshot;
mod stops;
mod sweep;
mod sweeps;
mod symbols;
mod throttle;
mod timers;
mod transfer;
mod uncross;

/// The version of the engine's rules. Two programs with the same version turn the same commands
/// into the same events; `tests/profiles.rs` has the digests of each version and holds the newest
/// to it. A command log records the version by which its commands were executed, and a program of
/// another version does not execute them again (`docs/adr/0018-versions-of-rules.md`).
pub const RULES_VERSION: u32 = 10;

pub use bust::RetainedTrades;
pub use config::{EngineConfig, EventSink, Memory};
pub use debt::Debt;
pub use engine::{
    Engine, InstrumentState, Level, OrderQueue, OrderState, PositionTotals, QueuedOrder,
    SessionState, Totals,
};
pub use limits::{DefinitionCounts, EngineLimits, LimitError};
pub use script::fuzz_commands;
pub use snapshot::SnapshotError;
pub use uncross::{CallLevel, Uncrossing, uncrossing_price};
