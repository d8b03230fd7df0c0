//! The market-data gateway: receives a feed and serves subscribers.
//!
//! ```text
//!  receive ──ring──► update ──ring──► flush 0 ─► subscribers
//!  sockets, lines,   books, first  ├─► flush 1 ─► subscribers
//!  codec             conflation    └─► …
//!     │└─ one thread where fused ──┘│     ▲ interest: subscribers' instruments
//!     └─ datagrams, updates ────────┴─► post: audit, bars, statistics
//! ```
//! A client never gates a ring: a flush thread takes every slot and conflates for each of its
//! subscribers. While flush is behind, states merge in the priority queue.
//!
//! - [`config`]: the configuration. [`assembly`]: assembles the threads.
//! - [`receive`]: the receiving and the updating thread. [`update`]: books and the first stage of
//!   conflation; `batch`: updates applied together; `changes`: passes their changes to conflation;
//!   `instrument_state`: the state besides books. [`next_stage`]: the interface between the two.
//! - [`ring`], [`flush_slot`]: the rings between threads, and their slots.
//! - [`shm`]: the same messages in shared memory, for strategies on the same machine.
//! - [`flush`]: a flush thread. [`mirror`]: its books; `intake`: subscribers' requests;
//!   `standings`: the limits of sessions; [`writing`]: messages to subscribers; `link`: a
//!   connection; [`local`]: connections of readers over HTTP.
//! - [`file_books`]: receiver and update stage alone, for the books of a file.
//! - [`post`]: the post-processing thread. [`figures`]: counters; [`stages`]: latency by stage.

pub mod assembly;
mod batch;
mod changes;
pub mod config;
pub mod figures;
pub mod file_books;
pub mod flush;
pub mod flush_slot;
mod instrument_state;
mod intake;
mod levels;
mod link;
pub mod local;
pub mod mirror;
pub mod next_stage;
pub mod post;
pub mod receive;
pub mod ring;
pub mod shm;
pub mod stages;
pub mod standings;
pub mod update;
pub mod writing;

pub use config::MarketGatewaySection;
pub use figures::{MarketFigures, MarketReport};
