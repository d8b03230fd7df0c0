//! The heads of events that are addressed to a session, read in place: nothing else of the event is
//! decoded, and one of a later version is read as well.

use weir_types::{EventNo, RequestNo, SessionId};

use crate::event::{OrderEvent, RequestDone, RequestRejected, TradeBusted};
use crate::frame::RawMessage;
use crate::message::Message;

/// The offsets of an addressed event's head fields, by template.
struct HeadOffsets {
    block_length: usize,
    session_id: usize,
    event_no: usize,
    request_no: Option<usize>,
    reason: Option<usize>,
}

const fn offset_of<M: Message>(name: &str) -> usize {
    let mut i = 0;
    while i < M::FIELDS.len() {
        if same(M::FIELDS[i].name.as_bytes(), name.as_bytes()) {
            return M::FIELDS[i].offset;
        }
        i += 1;
    }
    panic!("no such field")
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

const fn heads_of<M: Message>() -> HeadOffsets {
    HeadOffsets {
        block_length: M::BLOCK_LENGTH,
        session_id: offset_of::<M>("session_id"),
        event_no: offset_of::<M>("event_no"),
        request_no: Some(offset_of::<M>("request_no")),
        reason: None,
    }
}

const fn with_reason<M: Message>() -> HeadOffsets {
    HeadOffsets { reason: Some(offset_of::<M>("reason")), ..heads_of::<M>() }
}

const ORDER_EVENT: HeadOffsets = with_reason::<OrderEvent>();
const REQUEST_REJECTED: HeadOffsets = with_reason::<RequestRejected>();
const REQUEST_DONE: HeadOffsets = heads_of::<RequestDone>();
/// No client's request caused it: an operator's did.
const TRADE_BUSTED: HeadOffsets = HeadOffsets {
    block_length: TradeBusted::BLOCK_LENGTH,
    session_id: offset_of::<TradeBusted>("session_id"),
    event_no: offset_of::<TradeBusted>("event_no"),
    request_no: None,
    reason: None,
};

/// The head fields of an event that a gateway needs to forward it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The position of the command that caused the event.
    pub position: u64,
    /// The addressee.
    pub session_id: SessionId,
    /// The number of the event among the addressee's; zero for none.
    pub event_no: EventNo,
    /// The request that it answers; zero for none.
    pub request_no: RequestNo,
    /// The code of its reason; zero for none.
    pub reason: u16,
}

/// Returns the head of an event that is addressed to a session; `None` for another message, and for
/// one that is too short.
#[inline]
#[must_use]
pub fn address(raw: &RawMessage<'_>) -> Option<Address> {
    let heads = match raw.template_id {
        OrderEvent::TEMPLATE_ID => &ORDER_EVENT,
        RequestRejected::TEMPLATE_ID => &REQUEST_REJECTED,
        RequestDone::TEMPLATE_ID => &REQUEST_DONE,
        TradeBusted::TEMPLATE_ID => &TRADE_BUSTED,
        _ => return None,
    };
    let block = raw.block();
    if block.len() < heads.block_length {
        return None;
    }
    let long = |at: usize| Some(u64::from_le_bytes(block.get(at..at + 8)?.try_into().ok()?));
    let short = |at: usize| Some(u32::from_le_bytes(block.get(at..at + 4)?.try_into().ok()?));
    Some(Address {
        // Every event begins with it.
        position: long(0)?,
        session_id: SessionId(short(heads.session_id)?),
        event_no: EventNo(long(heads.event_no)?),
        request_no: RequestNo(heads.request_no.map_or(Some(0), long)?),
        reason: heads.reason.map_or(0, |at| u16::from_le_bytes([block[at], block[at + 1]])),
    })
}
