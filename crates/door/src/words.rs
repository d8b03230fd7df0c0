//! Messages that every door sends: heartbeats and refusals.

use weir_types::{EventNo, Nanos, PartitionId, Reason, SessionId};
use weir_wire::dialogue::peek_session_and_request;
use weir_wire::frame::{BrokenFrame, RawMessage};
use weir_wire::session::{Heartbeat, Label, Reject};

/// A heartbeat without a mark of events.
pub fn heartbeat(session_id: SessionId, now: Nanos) -> Heartbeat {
    Heartbeat {
        sending_time: now,
        high_water: EventNo::NONE,
        session_id,
        partition_id: PartitionId::NONE,
        load_permille: 0,
    }
}

/// The answer to a malformed or misplaced message; `field` names the part at fault, if it is known.
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

/// The reason for which bytes are no frame, at a door whose frames have at most `len_max` bytes.
pub fn reason_of(broken: BrokenFrame, len_max: usize) -> Reason {
    match broken {
        BrokenFrame::Length(len) if len as usize > len_max => Reason::FrameTooLong,
        BrokenFrame::Length(_) | BrokenFrame::Encoding(_) => Reason::MalformedFrame,
    }
}
