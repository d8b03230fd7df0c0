//! What every door of a node has in common: where connections come from, a socket with bounded
//! bytes in and out and deadlines, how a session logs on, and the words that any may be told.
//!
//! The doors of outside cores ([`crate::ingest`]), of subscribers ([`crate::broker`]) and of market
//! data ([`crate::market::gateway`]) are made of these; the gateway's ([`crate::gateway`]), where
//! an order's time is counted, shares the first only.

mod entrance;
mod logon;
mod socket;
mod words;

pub use entrance::Door;
pub(crate) use entrance::Entrance;
pub(crate) use logon::{LoggedOn, Welcome, take_logon};
pub(crate) use socket::{Limits, Scratch, Socket};
pub(crate) use words::{reason_of, reject};
