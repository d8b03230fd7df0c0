//! The receiving side of a market-data gateway: sockets and captures in, updates out.
//!
//! A [`Receiver`] owns one feed: the sockets of its lines, requests for what was lost, snapshots,
//! and the codec. It has no thread and no book of its own: whoever polls it gets, by [`Output`],
//! definitions, updates with the times at which they came, and what became of each channel. It
//! never blocks and never fails for what a venue sends: what is not understood is counted.

mod output;

pub use output::{ChannelEvent, ChannelKey, ClearReason, Origin, Output};
