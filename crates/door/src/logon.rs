//! Logon at doors without resumable events: no partition sends the session anything, so a logon
//! with resume points is refused.

use weir_types::{FirmId, Nanos, Reason, Role, SessionId, Switch};
use weir_wire::ClientMessage;
use weir_wire::dialogue::put_logon_ack;
use weir_wire::frame::{RawMessage, put_frame};
use weir_wire::session::{LogonAck, LogonReject};

use crate::directory::KnownSession;
use crate::reception::{LogonRequest, MessageOrigin, Reception, heartbeat_granted, refusal};

/// A session that is logged on.
#[derive(Clone, Copy, Debug)]
pub struct LoggedOn {
    /// The session.
    pub session_id: SessionId,
    /// Its firm; zero for a session without a firm.
    pub firm_id: FirmId,
    /// Its role.
    pub role: Role,
    /// The granted heartbeat interval, in nanoseconds.
    pub heartbeat_interval: u64,
    /// The moment of the wall clock at which its key expires; zero for never.
    pub valid_until: Nanos,
}

/// A logon that has proved its session's identity.
#[derive(Clone, Copy, Debug)]
pub struct ProvedLogon {
    /// The session.
    pub session_id: SessionId,
    /// Its role.
    pub role: Role,
    /// On if the session is to be taken over from another connection.
    pub takeover: Switch,
}

/// The outcome of a message of a logon. Its answer, if any, is already in the output.
#[derive(Clone, Copy, Debug)]
pub enum LogonOutcome {
    /// The session is logged on.
    Open(LoggedOn),
    /// The logon was refused for this reason, and the refusal sent.
    Refused(Reason),
    /// A challenge was sent.
    Challenged,
    /// The rate of signature verifications is reached: take the message again later.
    Wait,
    /// The message is not part of a logon.
    Other,
}

/// Takes a message of a logon and appends the answer to `out`. `may` decides whether a logon that
/// is proved is admitted at this door.
pub fn take_logon(
    reception: &mut Reception,
    raw: &RawMessage<'_>,
    message: &ClientMessage<'_>,
    via: MessageOrigin,
    may: impl FnOnce(ProvedLogon) -> Result<(), Reason>,
    out: &mut Vec<u8>,
) -> LogonOutcome {
    let (known, asked) = match message {
        ClientMessage::Logon(logon, points) => {
            (reception.prove_by_key(logon, via), LogonRequest::of_logon(logon, points.len()))
        }
        ClientMessage::SignedLogon(logon, points) => {
            let Some(known) = reception.prove_by_signature(raw, logon, via) else {
                return LogonOutcome::Wait;
            };
            (known, LogonRequest::of_signed(logon, points.len()))
        }
        ClientMessage::ChallengeRequest(request) => {
            return match reception.challenge(request.session_id, via) {
                Ok(challenge) => {
                    put_frame(&challenge, out);
                    LogonOutcome::Challenged
                }
                Err(reject) => refuse(&reject, out),
            };
        }
        _ => return LogonOutcome::Other,
    };
    let LogonRequest { session_id, takeover, points: point_count, .. } = asked;
    let known = known.and_then(|known| {
        let refused = |reason| refusal(session_id, reason);
        may(ProvedLogon { session_id, role: known.role, takeover }).map_err(refused)?;
        if point_count > 0 { Err(refused(Reason::WrongPartition)) } else { Ok(known) }
    });
    match known {
        Ok(known) => {
            let wall = reception.directory.wall_at(via.now);
            LogonOutcome::Open(open(&known, session_id, asked.heartbeat_interval_ms, wall, out))
        }
        Err(reject) => refuse(&reject, out),
    }
}

fn refuse(reject: &LogonReject, out: &mut Vec<u8>) -> LogonOutcome {
    put_frame(reject, out);
    LogonOutcome::Refused(reject.reason)
}

fn open(
    known: &KnownSession,
    session_id: SessionId,
    asked_ms: u32,
    wall: Nanos,
    out: &mut Vec<u8>,
) -> LoggedOn {
    let KnownSession { firm_id, role, valid_until, in_flight_max, order_rate_max } = *known;
    let heartbeat_interval_ms = heartbeat_granted(asked_ms);
    let ack = LogonAck {
        server_time: wall,
        session_id,
        firm_id,
        heartbeat_interval_ms,
        order_rate_max,
        in_flight_max,
        role,
    };
    put_logon_ack(&ack, &[], out);
    let heartbeat_interval = u64::from(heartbeat_interval_ms) * 1_000_000;
    LoggedOn { session_id, firm_id, role, heartbeat_interval, valid_until }
}
