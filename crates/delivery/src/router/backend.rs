//! What stands behind a router: one store of one source, here or on another host, and how the
//! router talks to it.
//!
//! A question goes out by [`BackendPort::ask`]; what comes back are frames as a node sends them to
//! any client, handed to [`Router::take`](super::Router::take). A backend in the same process is a
//! [`Desk`](crate::Desk) ([`LocalBackends`](super::LocalBackends)), one on another host a
//! connection.

use weir_types::{Epoch, Nanos, PartitionId, Reason};
use weir_wire::DecodeError;
use weir_wire::delivery::FetchOrders;
use weir_wire::frame::BrokenFrame;

use crate::desk::Asked;
use crate::filter::Entitlement;
use crate::ring::Place;
use crate::token::TokenError;

/// A backend's number at its router, given by [`Router::add_backend`](super::Router::add_backend)
/// and never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendId(pub u32);

/// What a backend is to its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BackendRole {
    /// Fed by the source itself. There is one; what it says of epochs is decisive.
    Master,
    /// Follows the source, and may lag behind it.
    Replica,
}

/// What a backend serves, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendInfo {
    /// Whose orders.
    pub source: PartitionId,
    /// Master or replica.
    pub role: BackendRole,
    /// Has secondary keys: a filter costs it the rows that it finds and not those that it skips.
    pub is_indexed: bool,
    /// The rights of the session that the router asks by; `None` where each question carries its
    /// reader's own, as in one process.
    pub entitlement: Option<Entitlement>,
}

/// A question to a backend.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Who is asked.
    pub backend: BackendId,
    /// The question; its `correlation_id` is the router's number for it, which pages must carry.
    pub fetch: &'a FetchOrders,
    /// The token, of this source alone; empty to ask from the beginning.
    pub token: &'a [u8],
    /// A token that the store is to have reached before it answers; empty for none.
    pub min_token: &'a [u8],
    /// The rights that the token is sealed for.
    pub entitlement: Entitlement,
}

/// Where questions to backends go.
pub trait BackendPort {
    /// Sends a question. [`Asked::Refused`] counts as the backend's failure.
    fn ask(&mut self, ask: &Ask<'_>, now: Nanos) -> Asked;

    /// The answer to a question is not wanted any more. It may come all the same.
    fn cancel(&mut self, backend: BackendId, correlation_id: u64);
}

/// A page of a backend that breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPage {
    /// Its token cannot be opened with the router's key, or is not of the source alone.
    #[error("its token: {0}")]
    Token(#[from] TokenError),
    /// Its token is before the one that was asked with.
    #[error("its token goes back to {0:?}")]
    TokenGoesBack(Place),
    /// A row has more attributes than it may.
    #[error("a row has {0} bytes of attributes")]
    AttributesTooLong(usize),
    /// It has another number of rows than its header says.
    #[error("{got} rows where the header says {want}")]
    RowCount {
        /// As the header says.
        want: u32,
        /// As they are.
        got: u32,
    },
    /// A row is not after the one before, or beyond the token.
    #[error("a row at {0:?} is out of order")]
    OutOfOrder(Place),
    /// Rows without a header, or a header where rows are due.
    #[error("header and rows do not follow each other")]
    Sequence,
}

/// Why a backend is put aside for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackendFault {
    /// It did not answer in time.
    #[error("no answer in time")]
    Silent,
    /// It refused a question that a backend in order would have taken.
    #[error("refused the question: {0:?}")]
    Refused(Reason),
    /// A page breaks the protocol.
    #[error("a bad page: {0}")]
    Page(#[from] BadPage),
    /// A message cannot be read.
    #[error("a message that cannot be read: {0}")]
    Message(#[from] DecodeError),
    /// What it sends are not frames.
    #[error("not a frame: {0}")]
    Frame(#[from] BrokenFrame),
}

/// How a backend is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// There is no connection to it.
    Down,
    /// It serves.
    Up,
    /// It failed, and is left alone for a while.
    Aside,
    /// It failed, its time is over, and one question finds out how it is.
    Probing,
}

/// How a backend stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendState {
    /// What it is.
    pub info: BackendInfo,
    /// How it is.
    pub health: Health,
    /// Its epoch, once it was heard of.
    pub epoch: Option<Epoch>,
    /// The newest place that it was heard to have.
    pub head: Place,
    /// Changes (`seq`) that it is behind the newest place heard of its source.
    pub lag: u64,
    /// Questions that it has not answered.
    pub asked_count: u32,
    /// Faults in a row.
    pub fault_count: u32,
    /// The latest fault.
    pub last_fault: Option<BackendFault>,
}
