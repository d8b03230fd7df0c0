//! The heads of events that are addressed to a session, read in place: nothing else of the event is
//! decoded, and one of a later version is read as well.

use weir_types::{EventNo, RequestNo, SessionId};

use crate::event::{OrderEvent, RequestDone, RequestRejected, TradeBusted};
use crate::frame::RawMessage;
use crate::message::Message;

/// The offsets of an addressed event's head fields, by template.
struct HeadOffsets {
    /// The shortest that the block has been in any version: it ends behind these fields.
    block_length_min: usize,
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

const fn shortest<M: Message>() -> usize {
    match M::BLOCK_LENGTHS_BEFORE {
        [oldest, ..] => *oldest,
        [] => M::BLOCK_LENGTH,
    }
}

const fn heads_of<M: Message>() -> HeadOffsets {
    HeadOffsets {
        block_length_min: shortest::<M>(),
        session_id: offset_of::<M>("session_id"),
        event_no: offset_of::<M>("event_no"),
        request_no: Some(offset_of::<M>("request_no")),
        reason: None,
    }
}

const fn with_reason<M: Message>() -> HeadOffsets {
    HeadOffsets { reason: Some(offset_of::<M>("reason")), ..heads_of::<M>() }
}

/// Checks that the fields are in each version of the block.
const fn checked(heads: HeadOffsets) -> HeadOffsets {
    let end = heads.block_length_min;
    assert!(heads.session_id + 4 <= end && heads.event_no + 8 <= end);
    if let Some(at) = heads.request_no {
        assert!(at + 8 <= end);
    }
    if let Some(at) = heads.reason {
        assert!(at + 2 <= end);
    }
    heads
}

const ORDER_EVENT: HeadOffsets = checked(with_reason::<OrderEvent>());
const REQUEST_REJECTED: HeadOffsets = checked(with_reason::<RequestRejected>());
const REQUEST_DONE: HeadOffsets = checked(heads_of::<RequestDone>());
/// No client's request caused it: an operator's did.
const TRADE_BUSTED: HeadOffsets = checked(HeadOffsets {
    block_length_min: shortest::<TradeBusted>(),
    session_id: offset_of::<TradeBusted>("session_id"),
    event_no: offset_of::<TradeBusted>("event_no"),
    request_no: None,
    reason: None,
});

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
    if block.len() < heads.block_length_min {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::parse_message;
    use crate::{SCHEMA_ID, SCHEMA_VERSION};

    /// Reads the head of an event of this length, whose bytes count up.
    fn head_of(template_id: u16, block_length: usize) -> Option<Address> {
        let mut record = Vec::new();
        for word in [block_length as u16, template_id, SCHEMA_ID, SCHEMA_VERSION] {
            record.extend_from_slice(&word.to_le_bytes());
        }
        record.extend((0..block_length).map(|at| at as u8));
        address(&parse_message(&record).expect("a message"))
    }

    /// Streams of events from before fields were appended had no addressee behind an upgrade, and
    /// their sessions could not go on.
    #[test]
    fn the_head_of_an_event_is_that_of_each_version_of_its_block() {
        fn check<M: Message>() {
            let now = head_of(M::TEMPLATE_ID, M::BLOCK_LENGTH);
            assert!(now.is_some_and(|head| head.event_no == EventNo(0x0f0e_0d0c_0b0a_0908)));
            for before in M::BLOCK_LENGTHS_BEFORE {
                assert_eq!(head_of(M::TEMPLATE_ID, *before), now, "{} of {before}", M::NAME);
            }
            let oldest = M::BLOCK_LENGTHS_BEFORE.first().unwrap_or(&M::BLOCK_LENGTH);
            assert_eq!(head_of(M::TEMPLATE_ID, oldest - 1), None, "{}", M::NAME);
            assert_eq!(head_of(M::TEMPLATE_ID, M::BLOCK_LENGTH + 3), now, "a later version");
        }
        check::<OrderEvent>();
        check::<RequestRejected>();
        check::<RequestDone>();
        check::<TradeBusted>();
    }
}
