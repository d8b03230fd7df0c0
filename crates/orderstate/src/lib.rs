//! Order state at work: the agent that serves it, the stores that hold it, and the parts that feed
//! them.
//!
//! * [`agent`]: the delivery agent, which owns the stores and answers their readers;
//!   [`waiting_queries`]: queries that wait for older events; [`reader_list`]: its readers, listed
//!   for an operator.
//! * [`stores`]: the stores' logs and snapshots, kept over a restart. [`markets`]: the state of
//!   each instrument, kept next to the store of the node's own orders.
//! * [`ingest`]: outside cores that feed stores. [`replica`]: sources followed from another node.
//! * [`cold`]: archives of the orders that stores discard.
//! * [`router`]: order state of many nodes as one service.
//! * [`token_keys`]: the keys that seal tokens. [`plant`]: bugs to plant on purpose.
//!
//! INVARIANT: ingest comes first in the duty cycle of a store, so that readers cannot starve it.

pub mod agent;
pub mod cold;
pub mod figures;
pub mod ingest;
pub mod markets;
pub mod merged;
mod panic_text;
pub mod plant;
pub mod reader_list;
mod reader_lister;
pub mod replica;
pub mod router;
#[cfg(test)]
mod simulated_core;
pub mod stores;
pub mod token_keys;
pub mod waiting_queries;
