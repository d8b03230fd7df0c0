//! Answers to faulty messages, and their cost to the peer: the same before and after logon.

use weir_door::socket::ERRORS_MAX;
use weir_types::{Nanos, Reason};
use weir_wire::session::LogonReject;

use super::connection::Connection;
use super::counters::GatewayCounters;
use super::lines::Lines;
use super::protocol::{Answer, Refusal};

/// Answers with a reject that has no event number.
pub(super) fn put_reject(
    to: &mut Connection,
    refusal: Refusal,
    reason: Reason,
    counters: &mut GatewayCounters,
) {
    to.put(&Answer::Reject(refusal, reason));
    counters.rejects += 1;
    counters.rejects_by.add(reason);
}

/// Answers a message with a fault; returns the reason if the connection must be closed.
pub(super) fn put_malformed(
    to: &mut Connection,
    refusal: Refusal,
    reason: Reason,
    counters: &mut GatewayCounters,
) -> Option<Reason> {
    put_reject(to, refusal, reason, counters);
    counters.malformed += 1;
    one_more_error(to)
}

/// Answers a refused logon; returns the reason if the connection must be closed.
pub(super) fn put_refused_logon(
    to: &mut Connection,
    reject: &LogonReject,
    counters: &mut GatewayCounters,
    lines: &mut Lines,
    now: Nanos,
) -> Option<Reason> {
    to.put(&Answer::LogonReject(reject));
    lines.refused_logon(counters, to, reject.session_id, reject.reason, now);
    let too_many = one_more_error(to);
    // One connection gets one guess of a key or session.
    if reject.reason == Reason::UnknownKey { Some(reject.reason) } else { too_many }
}

fn one_more_error(of: &mut Connection) -> Option<Reason> {
    of.error_count += 1;
    (of.error_count >= ERRORS_MAX).then_some(Reason::TooManyErrors)
}
