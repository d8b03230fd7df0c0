//! Order state by token: the question, the page's header and its rows.
//!
//! The header comes as a frame of its own before the rows and holds all that is needed to ask for
//! the next page, so that a client can ask before it decodes.

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
    /// A source behind the service did not answer; the page holds what the others had.
    pub const SOURCE_AWAY: PageFlags = PageFlags(4);

    /// True when `self` has all flags of `other`.
    #[must_use]
    pub const fn contains(self, other: PageFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: PageFlags) -> PageFlags {
        PageFlags(self.0 | other.0)
    }
}

/// Flags of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowFlags(pub u8);

impl RowFlags {
    /// The record is gone: forget it.
    pub const TOMBSTONE: RowFlags = RowFlags(1);
    /// The record no longer matches the filter: forget it. The row has no other fields than
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
    /// Asks for what is new since a token. The token follows as a data field, an empty one asks
    /// from the beginning; then a second one, which the store is to have reached before it answers.
    FetchOrders = 50 {
        /// The client's number for this question; pages carry it.
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
        /// A page waits until it has as many, or `wait_max_us` is over.
        rows_min: u32,
        /// The most bytes of a page's rows; zero for the server's own limit.
        bytes_max: u32,
        /// How long a page may wait to fill, in microseconds.
        wait_max_us: u32,
        /// How many pages may be sent in answer, each when it is due; at least one.
        credit: u32,
        /// Only live orders (and the ends of those seen live).
        live_only: Switch,
        /// Whose orders; zero for the node's own.
        source_id: PartitionId,
        /// How long the store may take to reach the data field `min_token`, in microseconds; zero
        /// for the server's own time.
        min_wait_us: u32,
        /// How many rows may be sent in answer, until [`AddCredit`] gives more; zero for no bound.
        credit_rows: u32,
        /// How many bytes of rows may be; zero for no bound.
        credit_bytes: u32,
    }

    /// A page's header. The next token follows as a data field.
    OrderPage = 51 {
        /// The question's number.
        correlation_id: u64,
        /// The creation time of the oldest change in the page; zero when empty.
        oldest_transact_time: Nanos,
        /// When the question reached the store, since the Unix epoch.
        asked_time: Nanos,
        /// When the page was made, since the Unix epoch.
        served_time: Nanos,
        /// The session.
        session_id: SessionId,
        /// Rows in the body.
        row_count: u32,
        /// Changes that are not in the page because a later one of the same order is.
        merged_count: u32,
        /// Pages that may still come in answer to this question.
        credit_left: u32,
        /// Why the question is refused; the token is then the oldest legal one.
        reason: Reason,
        /// ONLINE, PARTIAL.
        flags: PageFlags,
    }

    /// A page's rows: a group of [`OrderRow`]s follows. Absent when the header says no rows.
    OrderPageBody = 52 {
        /// The question's number.
        correlation_id: u64,
        /// The session.
        session_id: SessionId,
    }

    /// How the sources of a page stand: a group of [`SourceState`]s follows. Comes right behind the
    /// header of a page that says SOURCE_AWAY, and of the next one that does not.
    SourceStates = 53 {
        /// The question's number.
        correlation_id: u64,
        /// The session.
        session_id: SessionId,
    }

    /// Takes a question back. Nothing answers it; a page that was made already comes all the same.
    CancelFetch = 54 {
        /// The question's number.
        correlation_id: u64,
        /// The session that asked.
        session_id: SessionId,
    }

    /// Gives more credit to a question: what it had is added to. Nothing answers it, and nothing
    /// happens when the question has had its last page.
    AddCredit = 55 {
        /// The question's number.
        correlation_id: u64,
        /// The session that asked.
        session_id: SessionId,
        /// Pages; with those that may still come, no more than the server's own limit.
        pages: u32,
        /// Rows; nothing where rows are not bounded.
        rows: u32,
        /// Bytes of rows; nothing where they are not bounded.
        bytes: u32,
    }

    /// An entry of `SourceStates`' group.
    SourceState = 0 {
        /// The source.
        source_id: PartitionId,
        /// How it stands.
        status: SourceStatus,
    }

    /// An entry of `OrderPageBody`'s group: an order as it is now.
    OrderRow = 0 {
        /// Its record number.
        rec: Rec,
        /// Its latest change.
        seq: Seq,
        /// The order.
        order_id: OrderId,
        /// When it last changed.
        transact_time: Nanos,
        /// When it was created.
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
        /// What can still trade.
        leaves_qty: Qty,
        /// What has traded.
        cum_qty: Qty,
        /// When it expires.
        expire_time: Nanos,
        /// How many changes are merged into this row, itself not counted.
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
        /// Why it ended.
        reason: Reason,
        /// Buy or sell.
        side: Side,
        /// Limit, market, ...
        ord_type: OrdType,
        /// How long it stands.
        time_in_force: TimeInForce,
        /// Flags of the order.
        exec_inst: ExecInst,
        /// What last happened.
        exec_type: ExecType,
        /// The state it is in.
        ord_status: OrdStatus,
        /// Tombstone, leave.
        flags: RowFlags,
        /// The most that it shows at a time; zero shows all.
        display_qty: Qty,
    }
}

/// Where a field of [`OrderRow`] lies in its block, by the field's name: for those that keep rows
/// as bytes. Evaluated when it is compiled.
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
