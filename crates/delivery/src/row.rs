//! What a slot holds: an order's row as bytes of the wire, and what pages need to know of it.
//!
//! The row is encoded once, when it changes; each page copies it and sets two fields.

use weir_types::{
    AccountId, ClOrdId, ExecInst, ExecType, FirmId, InstrumentId, Nanos, OrdStatus, OrdType,
    OrderId, PartitionId, Price, Qty, Reason, SessionId, Side, TimeInForce,
};
use weir_wire::Message;
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::event::OrderEvent;
use weir_wire::rows::put_attributes;

use crate::filter::Keys;
use crate::ring::Place;

/// Bytes of a row's block.
pub const ROW_LEN: usize = OrderRow::BLOCK_LENGTH;
/// Bytes of a row on a page: its block and the length of its attributes, of which there are none.
pub(crate) const ROW_WIRE_LEN: usize = ROW_LEN + 2;

const MERGED_COUNT_AT: usize = offset_of("merged_count");
const TRANSACT_TIME_AT: usize = offset_of("transact_time");
const ORDER_ID_AT: usize = offset_of("order_id");

/// Where a field lies in a row, by its name in the wire's own list.
pub(crate) const fn offset_of(name: &str) -> usize {
    let mut index = 0;
    while index < OrderRow::FIELDS.len() {
        if is_same(OrderRow::FIELDS[index].name.as_bytes(), name.as_bytes()) {
            return OrderRow::FIELDS[index].offset;
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

/// A row as it goes on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body([u8; ROW_LEN]);

impl Body {
    pub(crate) const EMPTY: Body = Body([0; ROW_LEN]);

    /// Encodes `row` by way of `scratch`, which is left holding it.
    pub(crate) fn encode(row: &OrderRow, scratch: &mut Vec<u8>) -> Body {
        scratch.clear();
        row.encode_block(scratch);
        let mut body = Body::EMPTY;
        body.0.copy_from_slice(scratch);
        body
    }

    pub(crate) fn transact_time(&self) -> Nanos {
        Nanos(self.word_at(TRANSACT_TIME_AT))
    }

    pub(crate) fn order_id(&self) -> OrderId {
        OrderId(self.word_at(ORDER_ID_AT))
    }

    fn word_at(&self, at: usize) -> u64 {
        u64::from_le_bytes(*self.0[at..].first_chunk().expect("the field is inside the row"))
    }

    /// Appends the row with its merged count and no attributes.
    #[inline]
    pub(crate) fn put(&self, merged_count: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.0);
        out[start + MERGED_COUNT_AT..start + MERGED_COUNT_AT + 4]
            .copy_from_slice(&merged_count.to_le_bytes());
        put_attributes(&[], out);
    }

    /// The row as a value.
    pub(crate) fn decode(&self) -> OrderRow {
        OrderRow::decode_block(&self.0).expect("the store encoded it")
    }
}

/// The row of an order after an event.
pub(crate) fn row_of(event: &OrderEvent) -> OrderRow {
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

/// A row that only names a record: LEAVE or TOMBSTONE. Its enumerations hold some value, because
/// the wire has none for "nothing".
pub(crate) fn bodiless_row(place: Place, order_id: OrderId, flags: RowFlags) -> OrderRow {
    OrderRow {
        rec: place.rec,
        seq: place.seq,
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

/// What a slot stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing.
    Free,
    /// An order that can still change.
    Live,
    /// An order that ended, kept until the floor passes it.
    Ended,
    /// A record that is gone, kept until the floor passes it.
    Tombstone,
    /// The mark that a record had other keys before; kept until the floor passes it.
    Leave,
}

/// Changes before the latest whose distance is remembered.
const HISTORY_LEN: usize = 7;

/// What pages need to know of a slot beside its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta {
    pub(crate) place: Place,
    /// Where the record began.
    pub(crate) first: Place,
    /// Its keys; those before the change when it is a mark.
    pub(crate) keys: Keys,
    /// The keys after the change when it is a mark.
    pub(crate) next_keys: Keys,
    pub(crate) standing: Standing,
    /// All changes so far.
    change_count: u32,
    /// Distances in `seq` from each change to the one before, latest first; zero where there is
    /// none, `u32::MAX` where it does not fit.
    history: [u32; HISTORY_LEN],
    /// Neighbours among what waits for the floor.
    pub(crate) older: u32,
    pub(crate) newer: u32,
}

impl Meta {
    pub(crate) const FREE: Meta = Meta {
        place: Place::START,
        first: Place::START,
        keys: Keys::NONE,
        next_keys: Keys::NONE,
        standing: Standing::Free,
        change_count: 0,
        history: [0; HISTORY_LEN],
        older: u32::MAX,
        newer: u32::MAX,
    };

    pub(crate) fn new(place: Place, keys: Keys, standing: Standing) -> Meta {
        Meta { place, first: place, keys, standing, change_count: 1, ..Meta::FREE }
    }

    /// Moves to a later change.
    #[inline]
    pub(crate) fn advance(&mut self, place: Place) {
        let distance = place.seq.0 - self.place.seq.0;
        self.history.copy_within(..HISTORY_LEN - 1, 1);
        self.history[0] = u32::try_from(distance).unwrap_or(u32::MAX);
        self.change_count = self.change_count.saturating_add(1);
        self.place = place;
    }

    /// Changes after `after` that the latest one stands for: exact up to [`HISTORY_LEN`] and for
    /// readers that never saw the record, else at least as many.
    #[inline]
    pub(crate) fn merged_count(&self, after: Place) -> u32 {
        if self.first > after {
            return self.change_count - 1;
        }
        let mut seq = self.place.seq.0;
        let mut count = 0;
        for distance in self.history {
            if distance == 0 || distance == u32::MAX {
                break;
            }
            seq -= u64::from(distance);
            if Place::new(weir_types::Seq(seq), self.place.rec) <= after {
                break;
            }
            count += 1;
        }
        count
    }

    /// True when what waits for the floor holds this slot.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.standing, Standing::Ended | Standing::Tombstone | Standing::Leave)
    }
}
