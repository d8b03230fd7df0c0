//! The backends of a router: each is one store of one source, here or on another host. This module
//! defines the interface between them and the router.
//!
//! A request goes out by [`BackendPort::ask`]; the answers are frames as a node sends them to any
//! client, passed to [`Router::take`](super::Router::take). A backend in the same process is a
//! [`Desk`](crate::Desk) ([`LocalBackends`](super::LocalBackends)), one on another host a
//! connection.

use weir_types::{ChangeId, Epoch, Nanos, PartitionId, Reason};
use weir_wire::DecodeError;
use weir_wire::delivery::FetchOrders;
use weir_wire::frame::BrokenFrame;

use crate::desk::FetchOutcome;
use crate::filter::Entitlement;
use crate::token::TokenError;

/// A backend's number at its router, assigned by
/// [`Router::add_backend`](super::Router::add_backend) and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendId(pub u32);

/// A backend's relation to its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BackendRole {
    /// Fed by the source itself. There is one; its answers about epochs are decisive.
    Master,
    /// Follows the source, and may lag behind it.
    Replica,
}

/// The properties of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendInfo {
    /// The source of its orders.
    pub source: PartitionId,
    /// Master or replica.
    pub role: BackendRole,
    /// It has secondary keys: a filter costs it the rows that match, not those that it skips.
    pub is_indexed: bool,
    /// The rights of the router's own session there; `None` if each request carries its reader's
    /// rights, as in one process.
    pub entitlement: Option<Entitlement>,
}

/// A request to a backend.
#[derive(Clone, Copy, Debug)]
pub struct BackendRequest<'a> {
    /// The backend.
    pub backend: BackendId,
    /// The fetch; its `correlation_id` is the router's number for it, which pages must carry.
    pub fetch: &'a FetchOrders,
    /// The token, of this source alone; empty to read from the beginning.
    pub token: &'a [u8],
    /// A token that the store must have reached before it answers; empty for none.
    pub min_token: &'a [u8],
    /// The rights that the token is sealed for.
    pub entitlement: Entitlement,
}

/// The destination of requests to backends.
pub trait BackendPort {
    /// Sends a request. [`FetchOutcome::Refused`] counts as the backend's failure,
    /// unless backends are of this process.
    fn ask(&mut self, ask: &BackendRequest<'_>, now: Nanos) -> FetchOutcome;

    /// Cancels a request. Its answer may still come.
    fn cancel(&mut self, backend: BackendId, correlation_id: u64);

    /// Notes that a reader is gone: the one in the upper half of the numbers of its requests.
    fn leave(&mut self, _reader: u32) {}
}

/// A page of a backend that breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPage {
    /// Its token cannot be opened with the router's key, or is not of the source alone.
    #[error("its token: {0}")]
    Token(#[from] TokenError),
    /// Its token is before the token of the request.
    #[error("its token goes back to {0:?}")]
    TokenGoesBack(ChangeId),
    /// A row has more attributes than allowed.
    #[error("a row has {0} bytes of attributes")]
    AttributesTooLong(usize),
    /// The number of its rows differs from its header's.
    #[error("{got} rows where the header says {want}")]
    RowCount {
        /// The number in the header.
        want: u32,
        /// The number of rows.
        got: u32,
    },
    /// A row is not after the one before, or is beyond the token.
    #[error("a row at {0:?} is out of order")]
    OutOfOrder(ChangeId),
    /// Rows without a header, or a header while rows are due.
    #[error("header and rows do not follow each other")]
    Sequence,
}

/// The reason that a backend is set aside for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackendFault {
    /// It did not answer in time.
    #[error("no answer in time")]
    Silent,
    /// It refused a request that a healthy backend would have taken.
    #[error("refused the question: {0:?}")]
    Refused(Reason),
    /// Its changes are of another log than those of the source's master: it serves another
    /// exchange's orders under the same number.
    #[error("its orders are of another log than the master's of its source")]
    OtherLog,
    /// A page breaks the protocol.
    #[error("a bad page: {0}")]
    Page(#[from] BadPage),
    /// A message cannot be decoded.
    #[error("a message that cannot be read: {0}")]
    Message(#[from] DecodeError),
    /// Its bytes are not frames.
    #[error("not a frame: {0}")]
    Frame(#[from] BrokenFrame),
}

/// The health of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// There is no connection to it.
    Down,
    /// It serves.
    Up,
    /// It failed, and is set aside for a while.
    Aside,
    /// It failed, its time aside is over, and one request tests it.
    Probing,
}

/// The state of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendState {
    /// Its properties.
    pub info: BackendInfo,
    /// Its health.
    pub health: Health,
    /// Its epoch, once it is known.
    pub epoch: Option<Epoch>,
    /// The newest place that it has reported.
    pub head: ChangeId,
    /// Changes (`seq`) that it is behind the newest known place of its source.
    pub lag: u64,
    /// Requests that it has not answered.
    pub asked_count: u32,
    /// Consecutive faults.
    pub fault_count: u32,
    /// The latest fault.
    pub last_fault: Option<BackendFault>,
}
