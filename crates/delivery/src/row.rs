//! A slot's content: an order's row in wire format, and the metadata that pages need.
//!
//! A row is the fixed fields and up to 600 bytes of attributes that only an outside core and its
//! clients understand. It is encoded at most once, when it changes; each page copies it and sets
//! one field.

use weir_types::{
    AccountId, ChangeId, ClOrdId, ExecInst, ExecType, FirmId, InstrumentId, Nanos, OrdStatus,
    OrdType, OrderId, PartitionId, Price, Qty, Reason, Rec, Seq, SessionId, Side, TimeInForce,
};
use weir_wire::Message;
use weir_wire::delivery::{OrderRow, RowFlags, row_offset_of};
use weir_wire::event::OrderEvent;

use crate::filter::Keys;
use crate::heap::Block;
use crate::plant::{self, Plant};

/// Bytes of a row's fixed fields.
pub const ROW_LEN: usize = OrderRow::BLOCK_LENGTH;

const MERGED_COUNT_AT: usize = row_offset_of("merged_count");
const REC_AT: usize = row_offset_of("rec");
const SEQ_AT: usize = row_offset_of("seq");
const FLAGS_AT: usize = row_offset_of("flags");
const TRANSACT_TIME_AT: usize = row_offset_of("transact_time");
const ORDER_ID_AT: usize = row_offset_of("order_id");

/// Bytes of the length before a row's attributes.
const LEN_LEN: usize = 2;

/// Bytes of a row with `attributes_len` bytes of attributes.
#[must_use]
pub const fn row_len(attributes_len: usize) -> usize {
    ROW_LEN + LEN_LEN + attributes_len
}

/// Returns the record number of a block, if the block is long enough to hold one.
#[inline]
pub(crate) fn rec_of(block: &[u8]) -> Option<Rec> {
    let bytes = block.get(REC_AT..)?.first_chunk()?;
    Some(Rec(u64::from_le_bytes(*bytes)))
}

/// A row in wire format: the fixed fields, then the attributes after their length. Its merged count
/// is zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a>(pub(crate) &'a [u8]);

impl<'a> Row<'a> {
    pub(crate) fn transact_time(self) -> Nanos {
        Nanos(self.word_at(TRANSACT_TIME_AT))
    }

    pub(crate) fn order_id(self) -> OrderId {
        OrderId(self.word_at(ORDER_ID_AT))
    }

    fn word_at(self, at: usize) -> u64 {
        u64::from_le_bytes(*self.0[at..].first_chunk().expect("the field is inside the row"))
    }

    pub(crate) fn attributes(self) -> &'a [u8] {
        &self.0[ROW_LEN + LEN_LEN..]
    }

    /// Appends the row with its merged count.
    #[inline]
    pub(crate) fn put(self, merged_count: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(self.0);
        out[start + MERGED_COUNT_AT..start + MERGED_COUNT_AT + 4]
            .copy_from_slice(&merged_count.to_le_bytes());
    }

    /// The fixed fields as values.
    pub(crate) fn decode(self) -> OrderRow {
        OrderRow::decode_block(self.0).expect("the store checked it")
    }

    /// Returns the row's contribution to a digest: its XXH3-64.
    #[inline]
    pub(crate) fn hash(self) -> u64 {
        xxhash_rust::xxh3::xxh3_64(self.0)
    }
}

/// Writes a row to its bytes in the heap, [`row_len`] of them.
#[inline]
pub(crate) fn write_row(block: &[u8], attributes: &[u8], to: &mut [u8]) {
    let len = u16::try_from(attributes.len()).expect("attributes are short");
    to[..ROW_LEN].copy_from_slice(&block[..ROW_LEN]);
    to[MERGED_COUNT_AT..MERGED_COUNT_AT + 4].fill(0);
    to[ROW_LEN..ROW_LEN + LEN_LEN].copy_from_slice(&len.to_le_bytes());
    to[ROW_LEN + LEN_LEN..].copy_from_slice(attributes);
}

/// Returns the row of an order after an event of our own engine.
#[must_use]
pub fn row_of(event: &OrderEvent) -> OrderRow {
    OrderRow {
        rec: event.rec,
        seq: event.seq,
        order_id: event.order_id,
        transact_time: event.transact_time,
        created_time: event.created_time,
        cl_ord_id: event.cl_ord_id,
        price: event.price,
        stop_px: event.stop_px,
        last_px: event.last_px,
        last_qty: event.last_qty,
        order_qty: event.order_qty,
        leaves_qty: event.leaves_qty,
        cum_qty: event.cum_qty,
        expire_time: event.expire_time,
        merged_count: 0,
        session_id: event.session_id,
        firm_id: event.firm_id,
        account_id: event.account_id,
        instrument_id: event.instrument_id,
        partition_id: event.partition_id,
        reason: event.reason,
        side: event.side,
        ord_type: event.ord_type,
        time_in_force: event.time_in_force,
        exec_inst: event.exec_inst,
        exec_type: event.exec_type,
        ord_status: event.ord_status,
        flags: RowFlags::default(),
        display_qty: event.display_qty,
    }
}

/// Returns a row that only names a record: LEAVE or TOMBSTONE. Its enumerations hold arbitrary
/// valid values, because the wire has none for "nothing".
pub(crate) fn bodiless_row(change_id: ChangeId, order_id: OrderId, flags: RowFlags) -> OrderRow {
    OrderRow {
        rec: change_id.rec,
        seq: change_id.seq,
        order_id,
        transact_time: Nanos(0),
        created_time: Nanos(0),
        cl_ord_id: ClOrdId::NONE,
        price: Price(0),
        stop_px: Price(0),
        last_px: Price(0),
        last_qty: Qty::ZERO,
        order_qty: Qty::ZERO,
        leaves_qty: Qty::ZERO,
        cum_qty: Qty::ZERO,
        expire_time: Nanos(0),
        merged_count: 0,
        session_id: SessionId::NONE,
        firm_id: FirmId::NONE,
        account_id: AccountId::NONE,
        instrument_id: InstrumentId::NONE,
        partition_id: PartitionId::NONE,
        reason: Reason::None,
        side: Side::Buy,
        ord_type: OrdType::Limit,
        time_in_force: TimeInForce::Day,
        exec_inst: ExecInst::NONE,
        exec_type: ExecType::Restated,
        ord_status: OrdStatus::Canceled,
        flags,
        display_qty: Qty::ZERO,
    }
}

/// The bytes of a row that only names a record.
#[derive(Clone, Debug)]
pub(crate) struct MarkRow([u8; ROW_LEN]);

impl MarkRow {
    pub(crate) fn new() -> MarkRow {
        let mut bytes = Vec::with_capacity(ROW_LEN);
        bodiless_row(ChangeId::START, OrderId(0), RowFlags::default()).encode_block(&mut bytes);
        MarkRow(bytes.try_into().expect("a row has its length"))
    }

    pub(crate) fn of(
        &self,
        change_id: ChangeId,
        order_id: OrderId,
        flags: RowFlags,
    ) -> [u8; ROW_LEN] {
        let mut row = self.0;
        row[REC_AT..REC_AT + 8].copy_from_slice(&change_id.rec.0.to_le_bytes());
        row[SEQ_AT..SEQ_AT + 8].copy_from_slice(&change_id.seq.0.to_le_bytes());
        row[ORDER_ID_AT..ORDER_ID_AT + 8].copy_from_slice(&order_id.0.to_le_bytes());
        row[FLAGS_AT] = flags.0;
        row
    }
}

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// Not in use.
    Free,
    /// An order that can still change.
    Live,
    /// An order that ended, kept until the floor passes its place.
    Ended,
    /// A deleted record, kept until the floor passes its place.
    Tombstone,
    /// The mark that a record had other keys before; kept until the floor passes its place.
    Leave,
}

impl SlotState {
    /// Returns the standing of a slot in use by its code.
    pub(crate) fn from_code(code: u8) -> Option<SlotState> {
        [SlotState::Live, SlotState::Ended, SlotState::Tombstone, SlotState::Leave]
            .into_iter()
            .find(|standing| *standing as u8 == code)
    }
}

/// The first place of a record that is disowned: behind each place that a reader can have.
const DISOWNED: ChangeId = ChangeId { seq: Seq(u64::MAX), rec: Rec(u64::MAX) };

/// The number of changes before the latest whose distances are remembered.
pub(crate) const HISTORY_LEN: usize = 7;

/// The metadata of a slot that pages need besides its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotMeta {
    pub(crate) change_id: ChangeId,
    /// The place of the record's first change; behind all places if all of its changes are void.
    pub(crate) first: ChangeId,
    /// The record's keys; for a mark, those before the change.
    pub(crate) keys: Keys,
    /// For a mark, the keys after the change.
    pub(crate) next_keys: Keys,
    /// The row's hash while the order is live, else zero.
    pub(crate) hash: u64,
    /// The row's block in the heap.
    pub(crate) block: Block,
    pub(crate) row_len: u16,
    pub(crate) standing: SlotState,
    /// True if this store may have discarded the record before its first change here.
    pub(crate) is_older: bool,
    /// The number of changes so far.
    pub(crate) change_count: u32,
    /// Distances in `seq` from each change to the one before, latest first; zero if there is no
    /// earlier change, `u32::MAX` if the distance does not fit.
    pub(crate) history: [u32; HISTORY_LEN],
    /// Neighbours in the list of slots that wait for the floor; in a free slot, `older` is the next
    /// free slot.
    pub(crate) older: u32,
    pub(crate) newer: u32,
}

impl SlotMeta {
    /// Touches both ends of the metadata, to bring it into the cache.
    #[inline]
    pub(crate) fn look(&self) -> u64 {
        self.change_id.seq.0 ^ u64::from(self.newer) ^ u64::from(self.row_len)
    }

    pub(crate) const FREE: SlotMeta = SlotMeta {
        change_id: ChangeId::START,
        first: ChangeId::START,
        keys: Keys::NONE,
        next_keys: Keys::NONE,
        hash: 0,
        block: Block::NONE,
        row_len: 0,
        standing: SlotState::Free,
        is_older: false,
        change_count: 0,
        history: [0; HISTORY_LEN],
        older: u32::MAX,
        newer: u32::MAX,
    };

    pub(crate) fn new(change_id: ChangeId, keys: Keys, standing: SlotState) -> SlotMeta {
        SlotMeta { change_id, first: change_id, keys, standing, change_count: 1, ..SlotMeta::FREE }
    }

    /// Records that all changes of the record are void, or that no token is honoured. No reader
    /// whose token is knows it: those of before the valid place have not seen it, and until a
    /// resend has ended no reader is served.
    pub(crate) fn disown(&mut self) {
        (self.first, self.is_older) = (DISOWNED, false);
    }

    /// Returns the first place at which a reader may know the record.
    #[inline]
    pub(crate) fn known_from(&self) -> ChangeId {
        if self.is_older { ChangeId::START } else { self.first }
    }

    /// True when all changes of the record are void.
    pub(crate) fn is_disowned(&self) -> bool {
        self.first == DISOWNED
    }

    /// True when a change is the first one of its record: one that is disowned begins anew, unless
    /// the change deletes it.
    pub(crate) fn begins_with(&self, standing: SlotState) -> bool {
        self.is_disowned() && standing != SlotState::Tombstone && !plant::is(Plant::NumbersStayFree)
    }

    /// Moves to a later change, after which the slot has this standing.
    #[inline]
    pub(crate) fn advance(&mut self, change_id: ChangeId, standing: SlotState) {
        if self.begins_with(standing) {
            (self.first, self.change_count, self.history) = (change_id, 0, [0; HISTORY_LEN]);
            self.change_id = change_id;
        }
        self.standing = standing;
        let distance = change_id.seq.0 - self.change_id.seq.0;
        self.history.copy_within(..HISTORY_LEN - 1, 1);
        self.history[0] = u32::try_from(distance).unwrap_or(u32::MAX);
        self.change_count = self.change_count.saturating_add(1);
        self.change_id = change_id;
    }

    /// Returns the number of changes after `after` that the latest one stands for: exact up to
    /// [`HISTORY_LEN`] and for readers that never saw the record, otherwise a lower bound.
    #[inline]
    pub(crate) fn merged_count(&self, after: ChangeId) -> u32 {
        if self.known_from() > after {
            return self.change_count - 1;
        }
        let mut seq = self.change_id.seq.0;
        let mut count = 0;
        for distance in self.history {
            if distance == 0 || distance == u32::MAX {
                break;
            }
            seq -= u64::from(distance);
            if ChangeId::new(weir_types::Seq(seq), self.change_id.rec) <= after {
                break;
            }
            count += 1;
        }
        count
    }

    /// True when this slot is in the list that waits for the floor.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.standing, SlotState::Ended | SlotState::Tombstone | SlotState::Leave)
    }
}
