//! The interface's plain data: messages in, reports out, the transport of the reports.
//!
//! Field for field as in the benchmark's public header, with our names. Sizes are asserted here
//! because a wrong one would read neighbouring bytes and still look plausible.

use core::ffi::c_void;

/// A new order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct NewMessage {
    /// The client's number for the order; reusable once the order is gone.
    pub order_id: u64,
    /// The message's number, carried by all reports that it causes.
    pub sequence_number: u64,
    /// The limit, in ticks.
    pub price: i64,
    /// The open quantity, in lots.
    pub quantity: u32,
    /// 0 buys, 1 sells.
    pub side: u8,
    /// 1 for immediate or cancel.
    pub is_ioc: u8,
    /// Zero.
    pub reserved: [u8; 2],
}

/// A cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct CancelMessage {
    /// The order to end.
    pub order_id: u64,
    /// The message's number.
    pub sequence_number: u64,
}

/// A change of an order's price and open quantity; the order loses its time priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ModifyMessage {
    /// The order to change.
    pub order_id: u64,
    /// The message's number.
    pub sequence_number: u64,
    /// The new limit, in ticks.
    pub price: i64,
    /// The new open quantity, in lots.
    pub quantity: u32,
    /// The order's side.
    pub side: u8,
    /// Zero.
    pub reserved: [u8; 3],
}

/// The kind of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReportKind {
    /// A new order was accepted.
    OrderAck = 0,
    /// A trade.
    Trade = 1,
    /// An order was cancelled, or the rest of an immediate one.
    CancelAck = 2,
    /// An order was changed.
    ModifyAck = 3,
    /// The order to cancel is unknown.
    CancelReject = 4,
    /// The order to change is unknown.
    ModifyReject = 5,
}

/// A report: one cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Report {
    /// Its kind.
    pub kind: ReportKind,
    /// The order's side; zero for trades and rejects.
    pub side: u8,
    /// Zero.
    pub reserved: [u8; 6],
    /// The number of the message that caused it.
    pub sequence_number: u64,
    /// The order; zero for trades.
    pub order_id: u64,
    /// The order's price, or the resting order's for a trade.
    pub price: i64,
    /// The order's open quantity, or the traded one.
    pub quantity: u32,
    /// Zero.
    pub reserved_quantity: u32,
    /// The resting order of a trade.
    pub maker_order_id: u64,
    /// The incoming order of a trade.
    pub taker_order_id: u64,
    /// Zero.
    pub padding: u64,
}

/// The transport of reports, provided by the harness.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Transport {
    /// Creates a queue for at least this many reports.
    // SAFETY: the harness's own function; callers keep to the contract above.
    pub create: unsafe extern "C" fn(u32) -> *mut c_void,
    /// Appends a report; 0 when the queue is full.
    // SAFETY: the harness's own function; callers keep to the contract above.
    pub push: unsafe extern "C" fn(*mut c_void, *const Report) -> i32,
    /// Removes up to this many reports.
    // SAFETY: the harness's own function; callers keep to the contract above.
    pub drain: unsafe extern "C" fn(*mut c_void, *mut Report, u32) -> u32,
    /// Makes buffered reports visible.
    // SAFETY: the harness's own function; callers keep to the contract above.
    pub flush: unsafe extern "C" fn(*mut c_void),
    /// Frees a queue.
    // SAFETY: the harness's own function; callers keep to the contract above.
    pub destroy: unsafe extern "C" fn(*mut c_void),
}

const _: () = assert!(size_of::<NewMessage>() == 32);
const _: () = assert!(size_of::<CancelMessage>() == 16);
const _: () = assert!(size_of::<ModifyMessage>() == 32);
const _: () = assert!(size_of::<Report>() == 64);
