//! Messages that every door may send to any session: heartbeats and rejects.

use weir_types::{EventNo, Nanos, PartitionId, Reason, SessionId};
use weir_wire::dialogue::peek_session_and_request;
use weir_wire::frame::{BrokenFrame, RawMessage};
use weir_wire::session::{Heartbeat, Label, Reject};

/// Creates a heartbeat without an event number; `wall` is its stamp.
pub fn heartbeat(session_id: SessionId, wall: Nanos) -> Heartbeat {
    Heartbeat {
        sending_time: wall,
        high_water: EventNo::NONE,
        session_id,
        partition_id: PartitionId::NONE,
        load_permille: 0,
    }
}

/// Creates the answer to a message that is malformed or has no place here; `field` names the
/// wrong field, if known.
pub fn reject(raw: Option<&RawMessage<'_>>, reason: Reason, field: &str) -> Reject {
    let (session_id, request_no) = raw.map(peek_session_and_request).unwrap_or_default();
    Reject {
        request_no,
        field: Label::new(field),
        session_id,
        ref_template_id: raw.map_or(0, |raw| raw.template_id),
        reason,
    }
}

/// Returns the reason to reject a broken frame, at a door with frames of at most `len_max` bytes.
pub fn reason_of(broken: BrokenFrame, len_max: usize) -> Reason {
    match broken {
        BrokenFrame::Length(len) if len as usize > len_max => Reason::FrameTooLong,
        BrokenFrame::Length(_) | BrokenFrame::Encoding(_) => Reason::MalformedFrame,
    }
}
