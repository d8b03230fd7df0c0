//! A session in tests, and the acknowledgements that it gets.

use weir_types::{Epoch, EventNo, FirmId, Nanos, PartitionId, RequestNo, Role, SessionId};
use weir_wire::session::{ApiKey, LogonAck, PartitionState, ResumePoint};

use super::{Session, SessionConfig};

pub(super) const SECOND: u64 = 1_000_000_000;

/// Returns a session that has not logged on.
pub(super) fn session() -> Session {
    Session::new(SessionConfig::new(SessionId(5), ApiKey([1; 32])))
}

/// Returns a session whose acknowledgement has named no partition.
pub(super) fn open_session() -> Session {
    let mut session = session();
    let mut out = Vec::new();
    session.put_logon(Nanos(SECOND), &mut out);
    session.open(&ack(), &[], &mut out);
    session
}

pub(super) fn ack() -> LogonAck {
    LogonAck {
        server_time: Nanos(0),
        session_id: SessionId(5),
        firm_id: FirmId(1),
        heartbeat_interval_ms: 2_000,
        order_rate_max: 0,
        in_flight_max: 0,
        role: Role::Trader,
    }
}

/// Returns the state of a partition that has received no request of the session.
pub(super) fn state(partition_id: u16, next_event_no: u64, epoch: u32) -> PartitionState {
    PartitionState {
        last_request_no: RequestNo(0),
        next_event_no: EventNo(next_event_no),
        oldest_event_no: EventNo(1),
        epoch: Epoch(epoch),
        partition_id: PartitionId(partition_id),
    }
}

/// The resume points of a session's logon: (partition, next event, epoch).
pub(super) fn points_of(session: &Session) -> Vec<(u16, u64, u32)> {
    let point = |p: &ResumePoint| (p.partition_id.0, p.next_event_no.0, p.epoch.0);
    session.resume_points().iter().map(point).collect()
}
