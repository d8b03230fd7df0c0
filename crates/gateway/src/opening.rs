//! Opens a proved session: judges who has it and its resume points, then attaches its connection,
//! in the place of another one if the logon takes the session over. A gateway process asks others
//! between the two ([`crate::linked_logon`]).
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
use weir_types::{EventNo, Nanos, PartitionId, Reason, SessionId, Switch};
use weir_wire::session::{LogonReject, ResumePoint};

use crate::plant::{self, Plant};
use crate::sessions::{Session, Sessions};

/// Opens a session whose identity is proved, where all partitions are here: judges the logon, and
/// attaches the connection at once. `lineage_of` returns a partition's index among the session's
/// streams, and its epochs. Returns the connection from which the session is taken over, if it is.
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
    let (asked, points) = asked.split();
    judge_owner(sessions, &asked, via)?;
    let session = sessions.entry(asked.session_id);
    // All points are checked before any is applied: a refused logon changes nothing.
    let mut starts = vec![EventNo::NONE; session.streams.len()];
    for point in points {
        let point = point.ok_or_else(|| refusal(asked.session_id, Reason::FieldOutOfRange))?;
        let Some((port, lineage)) = lineage_of(point.partition_id) else {
            return Err(refusal(asked.session_id, Reason::WrongPartition));
        };
        judge_point(session, port, lineage, point)
            .map_err(|reject| LogonReject { session_id: asked.session_id, ..reject })?;
        starts[port] = point.next_event_no;
    }
    for (stream, start) in session.streams.iter_mut().zip(starts) {
        stream.resume(start);
    }
    Ok(attach(sessions, known, &asked, via))
}

/// Judges if a logon may have its session: by the table above.
///
/// # Errors
/// [`Reason::AlreadyLoggedOn`].
pub fn judge_owner(
    sessions: &mut Sessions,
    asked: &LogonRequest<()>,
    via: MessageOrigin,
) -> Result<(), LogonReject> {
    let session = sessions.entry(asked.session_id);
    if session.connection.is_some() && !takes_over(session, asked.takeover, via) {
        return Err(refusal(asked.session_id, Reason::AlreadyLoggedOn));
    }
    Ok(())
}

fn judge_point(
    session: &Session,
    port: usize,
    lineage: &Lineage,
    point: ResumePoint,
) -> Result<(), LogonReject> {
    let stream = &session.streams[port];
    stream.check_resume(point.next_event_no, point.epoch, lineage).map_err(|cannot| LogonReject {
        oldest_event_no: cannot.oldest,
        next_event_no: cannot.next,
        epoch: lineage.current(),
        partition_id: point.partition_id,
        ..refusal(SessionId::NONE, cannot.reason)
    })
}

/// Attaches the connection of a logon that was judged, and sets the session's terms. Returns the
/// connection from which the session is taken over, if it is.
pub fn attach(
    sessions: &mut Sessions,
    known: &KnownSession,
    asked: &LogonRequest<()>,
    via: MessageOrigin,
) -> Option<ConnectionId> {
    let session = sessions.entry(asked.session_id);
    let heartbeat_ms = heartbeat_granted(asked.heartbeat_interval_ms);
    session.heartbeat_interval = Nanos(u64::from(heartbeat_ms) * 1_000_000);
    session.cancel_on_disconnect = asked.cancel_on_disconnect;
    session.firm_id = known.firm_id;
    session.role = known.role;
    session.valid_until = known.valid_until;
    session.in_flight_max = known.in_flight_max;
    session.order_rate_max = known.order_rate_max;
    // A pending end belongs to the previous logon.
    session.leaves = false;
    session.ending = None;
    session.heard_at = via.now;
    session.said_at = via.now;
    session.logged_on_at = logon_time(via);
    let taken_from = session.connection;
    if taken_from.is_some() {
        session.last_takeover.note(via.now);
    }
    sessions.attach(asked.session_id, via.connection);
    taken_from
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
