//! Records of a partition's event log, as both ends of a link read them: by their heads, so that an
//! event with values of a later version passes as any other.

use weir_types::{EventNo, Reason, RequestNo, SessionId};
use weir_wire::Event;
use weir_wire::event_head::address;
use weir_wire::frame::parse_message;
use weir_wire::message::DecodeError;

/// The bytes that each event has: the position of its command.
const EVENT_LEN_MIN: usize = 8;

/// The addressee of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addressed {
    /// The session.
    pub session_id: SessionId,
    /// The number of the event among the session's; zero for none.
    pub event_no: EventNo,
    /// The request of which this can be the first answer; zero for none.
    pub answers: RequestNo,
}

/// Returns the addressee of a record; `None` for a record without one. The reports of a mass
/// cancel's orders are no answers to it.
#[must_use]
pub fn addressed(record: &[u8]) -> Option<Addressed> {
    let head = address(&parse_message(record).ok()?)?;
    let is_answer = head.reason != Reason::MassCancel.code();
    Some(Addressed {
        session_id: head.session_id,
        event_no: head.event_no,
        answers: if is_answer { head.request_no } else { RequestNo::NONE },
    })
}

/// Checks that a record is an event, or one of a later version, with values or a template that this
/// version does not know.
///
/// # Errors
/// The fault of another record.
pub fn check_event(record: &[u8]) -> Result<(), DecodeError> {
    let is_later = |error: &DecodeError| {
        matches!(error, DecodeError::UnknownTemplate(_) | DecodeError::FieldOutOfRange { .. })
    };
    let raw = parse_message(record)?;
    match Event::decode(record) {
        Err(error) if !is_later(&error) => Err(error),
        _ if raw.block().len() < EVENT_LEN_MIN => Err(DecodeError::Truncated("block")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::Message;
    use weir_wire::event::OrderEvent;
    use weir_wire::frame::MESSAGE_HEADER_LEN;
    use weir_wire::{SCHEMA_ID, SCHEMA_VERSION};

    use super::*;

    fn put(record: &mut [u8], name: &str, bytes: &[u8]) {
        let field = OrderEvent::FIELDS.iter().find(|field| field.name == name).expect("it is one");
        let at = MESSAGE_HEADER_LEN + field.offset;
        record[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn with_reason(code: u16) -> Vec<u8> {
        let block_length = OrderEvent::BLOCK_LENGTH as u16;
        let head = [block_length, OrderEvent::TEMPLATE_ID, SCHEMA_ID, SCHEMA_VERSION];
        let mut record: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
        record.resize(MESSAGE_HEADER_LEN + OrderEvent::BLOCK_LENGTH, 0);
        put(&mut record, "session_id", &7_u32.to_le_bytes());
        put(&mut record, "event_no", &18_u64.to_le_bytes());
        put(&mut record, "request_no", &5_u64.to_le_bytes());
        put(&mut record, "reason", &code.to_le_bytes());
        record
    }

    /// An older gateway stopped at the next event of the session.
    #[test]
    fn an_event_with_a_value_of_a_later_version_has_its_addressee_and_answers() {
        let want =
            Addressed { session_id: SessionId(7), event_no: EventNo(18), answers: RequestNo(5) };
        for record in [with_reason(0), with_reason(65_000)] {
            assert_eq!((check_event(&record), addressed(&record)), (Ok(()), Some(want)));
        }
        let cancelled = with_reason(Reason::MassCancel.code());
        assert_eq!(addressed(&cancelled), Some(Addressed { answers: RequestNo::NONE, ..want }));
    }

    #[test]
    fn bytes_that_are_no_event_are_refused() {
        assert!(check_event(b"no event").is_err());
        // The head of an event, and a block without an addressee.
        let mut short = with_reason(0);
        short.truncate(16);
        short[..2].copy_from_slice(&8_u16.to_le_bytes());
        assert!(check_event(&short).is_err());
        assert_eq!(addressed(&short), None);
        let mut other = with_reason(0);
        other[2..4].copy_from_slice(&u16::MAX.to_le_bytes());
        assert_eq!(check_event(&other), Ok(()), "of a later version");
        assert_eq!(addressed(&other), None);
    }
}
