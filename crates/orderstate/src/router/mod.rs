//! Order state of many nodes as one service, over the network.
//!
//! The rules are in [`weir_delivery::router`], which is pure; this module has the sockets. One
//! agent has a connection to each node behind it (`link`) with one session each, and sends the
//! queries of all its readers there (`links`); readers connect through the gateway and the web
//! server as at a node (`agent`). It keeps no state that a restart could lose.
//!
//! A query is sent in the router's own session, which is entitled to all rows, with the filter
//! already restricted to the rows that its reader may see. The node seals its answer for that
//! session, and the router seals the reader's page for the reader's own entitlement
//! (`docs/adr/0009-router-network.md`).

mod agent;
mod config;
mod figures;
mod link;
mod links;

pub use agent::{Reload, RouterAgent, RouterParts};
pub use config::{BackendSection, KeyKind, RouterSection, StoreRole};
pub use figures::{BackendReport, RouterBoard, RouterReport, SourceReport};
