//! Delivery of order state by token: the fetch, the page's header and its rows.
//!
//! The header is a frame of its own ahead of the rows and holds everything needed to ask for the
//! next page, so that a client can ask before it decodes the rows.

use core::fmt;

use weir_types::{
    AccountId, ClOrdId, ExecInst, ExecType, FirmId, InstrumentId, Nanos, OrdStatus, OrdType,
    OrderId, PartitionId, Price, Qty, Reason, Rec, Seq, SessionId, Side, SourceStatus, Switch,
    TimeInForce,
};

use crate::field::{Field, write_flags};
use crate::message::messages;

/// Flags of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFlags(pub u8);

impl PageFlags {
    /// The page reaches the newest state: what follows is live.
    pub const ONLINE: PageFlags = PageFlags(1);
    /// The page ends inside the changes of one `seq`.
    pub const PARTIAL: PageFlags = PageFlags(2);
    /// A source behind the service did not answer; the page holds the other sources' rows.
    pub const SOURCE_AWAY: PageFlags = PageFlags(4);

    /// True when `self` has all flags of `other`.
    #[must_use]
    pub const fn contains(self, other: PageFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union of both sets of flags.
    #[must_use]
    pub const fn with(self, other: PageFlags) -> PageFlags {
        PageFlags(self.0 | other.0)
    }
}

/// Flags of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowFlags(pub u8);

impl RowFlags {
    /// The record is gone: the client removes it.
    pub const TOMBSTONE: RowFlags = RowFlags(1);
    /// The record no longer matches the filter: the client removes it. The row has no fields but
    /// `rec`, `seq` and `order_id`.
    pub const LEAVE: RowFlags = RowFlags(2);

    /// True when `self` has all flags of `other`.
    #[must_use]
    pub const fn contains(self, other: RowFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

macro_rules! flag_fields {
    ($($type:ident $schema:literal [$($name:literal),*];)*) => {$(
        impl Field for $type {
            type Wire = u8;
            const SCHEMA_TYPE: &'static str = $schema;

            fn from_wire(wire: u8) -> Option<Self> {
                let known = (1u8 << [$($name),*].len()) - 1;
                (wire & !known == 0).then_some($type(wire))
            }

            fn to_wire(self) -> u8 {
                self.0
            }

            fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_flags(self.0, &[$($name),*], f)
            }
        }
    )*};
}

flag_fields! {
    PageFlags "pageFlags" ["online", "partial", "sourceAway"];
    RowFlags "rowFlags" ["tombstone", "leave"];
}

messages! {
    /// Asks for the changes since a token. Two data fields follow: the token (empty: from the
    /// beginning) and the minimum token, which the store must reach before it answers.
    FetchOrders = 50 {
        /// The client's number for this fetch; pages carry it.
        correlation_id: u64,
        /// The session.
        session_id: SessionId,
        /// Only this firm's orders; zero for all that the session may see.
        firm_id: FirmId,
        /// Only this account's; zero for all.
        account_id: AccountId,
        /// Only this instrument's; zero for all.
        instrument_id: InstrumentId,
        /// The most rows of a page; zero for the server's own limit.
        rows_max: u32,
        /// A page waits until it has this many rows or `wait_max_us` has passed.
        rows_min: u32,
        /// The most bytes of a page's rows; zero for the server's own limit.
        bytes_max: u32,
        /// The longest time that a page may wait to fill, in microseconds.
        wait_max_us: u32,
        /// The number of pages that may be sent in answer, each when it is due; at least one.
        credit: u32,
        /// Only live orders (and the final change of orders that the client has seen live).
        live_only: Switch,
        /// The source of the orders; zero for the node's own.
        source_id: PartitionId,
        /// The time that the store may take to reach the data field `min_token`, in microseconds;
        /// zero for the server's own limit.
        min_wait_us: u32,
        /// The number of rows that may be sent in answer, until [`AddCredit`] grants more; zero for
        /// no limit.
        credit_rows: u32,
        /// The number of row bytes that may be sent in answer; zero for no limit.
        credit_bytes: u32,
    }

    /// A page's header. The next token follows as a data field.
    OrderPage = 51 {
        /// The fetch's `correlation_id`.
        correlation_id: u64,
        /// The creation time of the oldest change in the page; zero when empty.
        oldest_transact_time: Nanos,
        /// The time at which the fetch reached the store, since the Unix epoch.
        asked_time: Nanos,
        /// The time at which the page was made, since the Unix epoch.
        served_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// The number of rows in the body.
        row_count: u32,
        /// The number of changes left out because a later change of the same order is in the page.
        merged_count: u32,
        /// The number of pages that may still come in answer to this fetch.
        credit_left: u32,
        /// The reason of a refusal; the token is then the oldest legal one.
        reason: Reason,
        /// ONLINE, PARTIAL, SOURCE_AWAY.
        flags: PageFlags,
    }

    /// A page's rows: a group of [`OrderRow`]s follows. Not sent when the header's `row_count` is
    /// zero.
    OrderPageBody = 52 {
        /// The fetch's `correlation_id`.
        correlation_id: u64,
        /// The session.
        session_id: SessionId,
    }

    /// The status of a page's sources: a group of [`SourceState`]s follows. Sent right after the
    /// header of a page with SOURCE_AWAY, and of the first page without it again.
    SourceStates = 53 {
        /// The fetch's `correlation_id`.
        correlation_id: u64,
        /// The session.
        session_id: SessionId,
    }

    /// Cancels a fetch. There is no answer; a page that is already made still comes.
    CancelFetch = 54 {
        /// The fetch's `correlation_id`.
        correlation_id: u64,
        /// The session that sent the fetch.
        session_id: SessionId,
    }

    /// Adds credit to a fetch. There is no answer; it has no effect after the fetch's last page.
    AddCredit = 55 {
        /// The fetch's `correlation_id`.
        correlation_id: u64,
        /// The session that sent the fetch.
        session_id: SessionId,
        /// Pages to add; the total outstanding may not exceed the server's own limit.
        pages: u32,
        /// Rows to add; no effect if the fetch has no row limit.
        rows: u32,
        /// Bytes of rows to add; no effect if the fetch has no byte limit.
        bytes: u32,
    }

    /// An entry of `SourceStates`' group.
    SourceState = 0 {
        /// The source.
        source_id: PartitionId,
        /// The source's status.
        status: SourceStatus,
    }

    /// An entry of `OrderPageBody`'s group: an order's current state.
    OrderRow = 0 {
        /// Its record number.
        rec: Rec,
        /// Its latest change.
        seq: Seq,
        /// The order.
        order_id: OrderId,
        /// The time of its latest change.
        transact_time: Nanos,
        /// The time of its creation.
        created_time: Nanos,
        /// The client's name for it.
        cl_ord_id: ClOrdId,
        /// The limit price.
        price: Price,
        /// The stop price.
        stop_px: Price,
        /// Its last trade's price.
        last_px: Price,
        /// Its last trade's quantity.
        last_qty: Qty,
        /// Its total quantity.
        order_qty: Qty,
        /// The quantity that can still trade.
        leaves_qty: Qty,
        /// The quantity traded so far.
        cum_qty: Qty,
        /// The expiry time.
        expire_time: Nanos,
        /// The number of changes merged into this row, not counting the row's own.
        merged_count: u32,
        /// The session that entered it.
        session_id: SessionId,
        /// The firm.
        firm_id: FirmId,
        /// The account.
        account_id: AccountId,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The partition.
        partition_id: PartitionId,
        /// The reason why it ended.
        reason: Reason,
        /// Buy or sell.
        side: Side,
        /// Limit, market, ...
        ord_type: OrdType,
        /// The order's lifetime: day, GTC, IOC, FOK, ...
        time_in_force: TimeInForce,
        /// Flags of the order.
        exec_inst: ExecInst,
        /// The kind of the last change.
        exec_type: ExecType,
        /// The order's state.
        ord_status: OrdStatus,
        /// Tombstone, leave.
        flags: RowFlags,
        /// The most that it shows at a time; zero: all of it.
        display_qty: Qty,
    }
}

/// Returns the byte offset of a field of [`OrderRow`] in its block, by the field's name, for code
/// that keeps rows as bytes. Evaluated at compile time.
///
/// # Panics
/// When a row has no such field.
#[must_use]
pub const fn row_offset_of(name: &str) -> usize {
    let fields = <OrderRow as crate::message::Message>::FIELDS;
    let mut index = 0;
    while index < fields.len() {
        if is_same(fields[index].name.as_bytes(), name.as_bytes()) {
            return fields[index].offset;
        }
        index += 1;
    }
    panic!("a row has this field")
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut index = 0;
    while index < one.len() {
        if one[index] != other[index] {
            return false;
        }
        index += 1;
    }
    true
}
