//! Order state of many nodes as one service, over the network.
//!
//! The rules are [`weir_delivery::router`]'s, which is pure; here are the sockets. One agent has a
//! connection to each node behind it (`link`), one session on each, and puts the questions of all
//! its readers there (`links`); readers come and go by the gateway and the web as they do at a
//! node (`agent`). It keeps nothing that a restart could lose.
//!
//! A question goes out by the router's own session, which sees all, with the filter already cut
//! down to what its reader may see; the node's answer is sealed for that, and the reader's own page
//! by the router for the reader's own rights (`docs/adr/0009-router-network.md`).

mod agent;
mod config;
mod figures;
mod link;
mod links;

pub use agent::{Reload, RouterAgent, RouterParts};
pub use config::{BackendSection, KeyKind, RouterSection, StoreRole};
pub use figures::{BackendReport, RouterBoard, RouterReport, SourceReport};
