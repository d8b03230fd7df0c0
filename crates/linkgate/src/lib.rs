//! Links at work: the agents around the two ends of a link between a gateway process and the
//! partitions ([`weir_link`], `docs/protocols/link.md`).
//!
//! * [`door`]: the listener of a node with `[link]`; [`partition`]: a partition of it, with the
//!   index of its events and its ring; [`control`]: the grants of sessions, under a [`seal`];
//!   [`expiries`]: those of their keys.
//! * [`uplinks`]: the agent of a gateway process, with a connection to each partition
//!   ([`connection`]) and the events of each in a tail of its own ([`linked_port`]). [`config`]:
//!   the section that names them. [`figures`]: those of both on status pages.
//!
//! INVARIANT: neither end waits for the other, and no partition for a gateway: a gateway that is
//! slow falls behind in the records.

pub mod config;
pub mod connection;
pub mod control;
pub mod door;
pub mod expiries;
pub mod figures;
pub mod linked_port;
pub mod partition;
pub mod seal;
pub mod uplinks;
