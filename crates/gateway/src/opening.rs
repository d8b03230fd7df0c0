//! Opens a proved session: checks its resume points against its streams, then attaches its
//! connection, in the place of another one if the logon takes the session over.
//!
//! | the session is on  | the logon ([`weir_door::takeover`]) | answer                         |
//! | ------------------ | ----------------------------------- | ------------------------------ |
//! | no connection      | any                                 | opened                         |
//! | this connection    | any                                 | `AlreadyLoggedOn`              |
//! | another connection | takes over                          | opened; the other one loses it |
//! | another connection | does not                            | `AlreadyLoggedOn`              |
//!
//! A connection with other sessions is judged like any other: it takes a session back only if it is
//! newer than the logon by which it lost the session, so its client makes another connection.
//!
//! INVARIANT: a session gets a connection only here, and is on one at most: the caller ends it on
//! the connection from which it is taken over. A refused logon changes nothing.

use weir_door::ConnectionId;
use weir_door::directory::KnownSession;
use weir_door::reception::{LogonRequest, MessageOrigin, heartbeat_granted, refusal};
use weir_door::takeover::{is_asked_for, logon_time};
use weir_partition::lineage::Lineage;
use weir_types::{EventNo, Nanos, PartitionId, Reason, Switch};
use weir_wire::session::{LogonReject, ResumePoint};

use crate::plant::{self, Plant};
use crate::sessions::{Session, Sessions};

/// Opens a session whose identity is proved. `lineage_of` returns a partition's index among the
/// session's streams, and its epochs. Returns the connection from which the session is taken over,
/// if it is.
///
/// # Errors
/// [`Reason::AlreadyLoggedOn`], or the fault of a resume point; nothing has changed then.
pub fn open<'a, P: Iterator<Item = Option<ResumePoint>>>(
    sessions: &mut Sessions,
    known: &KnownSession,
    asked: LogonRequest<P>,
    via: MessageOrigin,
    lineage_of: &dyn Fn(PartitionId) -> Option<(usize, &'a Lineage)>,
) -> Result<Option<ConnectionId>, LogonReject> {
    let refused = |reason| refusal(asked.session_id, reason);
    let session = sessions.entry(asked.session_id);
    if session.connection.is_some() && !takes_over(session, asked.takeover, via) {
        return Err(refused(Reason::AlreadyLoggedOn));
    }
    // All points are checked before any is applied: a refused logon changes nothing.
    let mut starts = vec![EventNo::NONE; session.streams.len()];
    for point in asked.points {
        let Some(point) = point else { return Err(refused(Reason::FieldOutOfRange)) };
        let Some((port, lineage)) = lineage_of(point.partition_id) else {
            return Err(refused(Reason::WrongPartition));
        };
        let stream = &session.streams[port];
        stream.check_resume(point.next_event_no, point.epoch, lineage).map_err(|cannot| {
            LogonReject {
                oldest_event_no: cannot.oldest,
                next_event_no: cannot.next,
                epoch: lineage.current(),
                partition_id: point.partition_id,
                ..refused(cannot.reason)
            }
        })?;
        starts[port] = point.next_event_no;
    }
    for (stream, start) in session.streams.iter_mut().zip(starts) {
        stream.resume(start);
    }
    let heartbeat_ms = heartbeat_granted(asked.heartbeat_interval_ms);
    session.heartbeat_interval = Nanos(u64::from(heartbeat_ms) * 1_000_000);
    session.cancel_on_disconnect = asked.cancel_on_disconnect;
    session.firm_id = known.firm_id;
    session.role = known.role;
    session.valid_until = known.valid_until;
    session.in_flight_max = known.in_flight_max;
    session.order_rate_max = known.order_rate_max;
    // A pending end belongs to the previous logon.
    session.ending = None;
    session.heard_at = via.now;
    session.said_at = via.now;
    session.logged_on_at = logon_time(via);
    let taken_from = session.connection;
    if taken_from.is_some() {
        session.last_takeover.note(via.now);
    }
    sessions.attach(asked.session_id, via.connection);
    Ok(taken_from)
}

/// Returns true if a logon takes a session over that is on a connection.
fn takes_over(session: &Session, takeover: Switch, via: MessageOrigin) -> bool {
    if plant::is(Plant::TakeoverKeepsOldConnection) {
        return true;
    }
    let logged_on_at = match plant::is(Plant::TakeoverByOldConnection) {
        true => Nanos(0),
        false => session.logged_on_at,
    };
    let is_permitted =
        session.last_takeover.permits(via.now) || plant::is(Plant::TakeoverUnbounded);
    session.connection != Some(via.connection)
        && is_asked_for(takeover, via, logged_on_at)
        && is_permitted
}
