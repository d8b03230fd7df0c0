//! Records of the event log: their heads are read in place, and nothing else is decoded.

use weir_types::{EventNo, RequestNo, SessionId};
use weir_wire::event::{OrderEvent, RequestDone, RequestRejected, TradeBusted};
use weir_wire::frame::{RawMessage, parse_message};
use weir_wire::{Event, Message};

use crate::stream::Noted;

/// The offsets of an addressed event's head fields, by template.
struct HeadOffsets {
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
    session_id: offset_of::<TradeBusted>("session_id"),
    event_no: offset_of::<TradeBusted>("event_no"),
    request_no: None,
    reason: None,
};

/// The head fields of an event that a gateway needs to forward it.
#[derive(Clone, Copy, Debug)]
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

impl Address {
    /// Returns the event's entry in its session's stream.
    #[inline]
    #[must_use]
    pub fn noted(&self, record: u64) -> Noted {
        let (event_no, request_no) = (self.event_no, self.request_no);
        Noted { event_no, request_no, record }
    }
}

/// A record of the event log.
#[derive(Clone, Copy, Debug)]
pub struct EventRecord<'a> {
    bytes: &'a [u8],
    raw: RawMessage<'a>,
}

impl<'a> EventRecord<'a> {
    /// Reads a record's header.
    ///
    /// # Panics
    /// If the record has none: it is not of an event log.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> EventRecord<'a> {
        let raw = parse_message(bytes).expect("the event log holds messages of our own");
        EventRecord { bytes, raw }
    }

    /// Returns the record as a message.
    #[inline]
    #[must_use]
    pub fn raw(&self) -> &RawMessage<'a> {
        &self.raw
    }

    /// Returns the event; `None` for one of a later version.
    #[inline]
    #[must_use]
    pub fn event(&self) -> Option<Event> {
        Event::decode(self.bytes).ok()
    }

    /// Returns true for a report of one order.
    #[inline]
    #[must_use]
    pub fn is_order_event(&self) -> bool {
        self.raw.template_id == OrderEvent::TEMPLATE_ID
    }

    /// Returns the position of the command that caused the event: every event begins with it.
    #[inline]
    #[must_use]
    pub fn position(&self) -> u64 {
        let (position, _) = self.raw.block().split_first_chunk().expect("no event is shorter");
        u64::from_le_bytes(*position)
    }

    /// Reads the head of an event that is addressed to a session.
    #[inline]
    #[must_use]
    pub fn address(&self) -> Option<Address> {
        let heads = match self.raw.template_id {
            OrderEvent::TEMPLATE_ID => &ORDER_EVENT,
            RequestRejected::TEMPLATE_ID => &REQUEST_REJECTED,
            RequestDone::TEMPLATE_ID => &REQUEST_DONE,
            TradeBusted::TEMPLATE_ID => &TRADE_BUSTED,
            _ => return None,
        };
        let block = self.raw.block();
        let long = |at: usize| {
            let bytes = block[at..at + 8].try_into().expect("eight bytes were taken");
            u64::from_le_bytes(bytes)
        };
        let short = |at: usize| {
            let bytes = block[at..at + 4].try_into().expect("four bytes were taken");
            u32::from_le_bytes(bytes)
        };
        Some(Address {
            position: self.position(),
            session_id: SessionId(short(heads.session_id)),
            event_no: EventNo(long(heads.event_no)),
            request_no: RequestNo(heads.request_no.map_or(0, long)),
            reason: heads.reason.map_or(0, |at| u16::from_le_bytes([block[at], block[at + 1]])),
        })
    }
}
