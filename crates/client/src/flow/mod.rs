//! Real order flow: recorded markets transcoded to orders for a matching engine, and the oracle
//! that proves from the same files that the engine reproduces them.
//!
//! ```text
//! file ─► parser ─► normal form ─► orders ─► book under test
//!                       │                        │
//!                       └────────► oracle ◄──────┘   hits and top levels against the file's
//! ```
//!
//! Never reads the environment or a clock; files only where a function's argument names one.
//! `docs/real-flow.md` describes the limits of each source and the measured shares.

pub mod bitstamp;
mod bitstamp_flow;
mod error;
mod in_step;
mod ledger;
mod lines;
pub mod lobster;
mod lobster_flow;
mod model;
mod oracle;
mod orders;
mod packed;
mod packed_items;
mod pairing;
mod replay;
mod report;
mod source;

pub use bitstamp_flow::{BitstampFlow, BitstampNotes, bitstamp_flow};
pub use error::FlowError;
pub use in_step::STEPS_MAX;
pub use ledger::{ORDER_COUNT_MAX, ORDER_QTY_MAX};
pub use lines::{LINE_COUNT_MAX, LINE_LEN_MAX};
pub use lobster_flow::{LobsterFlow, Survey};
pub use model::{ANONYMOUS_ID_FIRST, FlowEvent, FlowItem, FlowKind, FlowRow, Level, RowLevel};
pub use oracle::{BookUnderTest, Deviation, Hit, Oracle, OracleReport, Outcome, Share};
pub use orders::{FlowToOrders, LocalId, OrderIntent, Planned};
pub use packed::{
    BODY_LEN_MAX, FlowHeader, ITEM_COUNT_MAX, PackError, PackedFlow, TimeBase, UnpackError, decode,
    encode, unpack,
};
pub use replay::{DueOrder, Plan, Replay, ReplayConfig};
pub use report::{FlowReport, report};
pub use source::{SourceKind, load, load_bitstamp};
