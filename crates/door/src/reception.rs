//! Logon decisions: authentication by API key or signature, challenges, and the terms granted.
//!
//! Every decision about a logon is made here, and nothing else of a connection is here: no socket,
//! no output, no clock. So the fuzz target `node_logon` can drive any bytes through it.
//!
//! The gateway opens a session only after [`Reception`] has returned its [`KnownSession`].

use weir_io::Rng;
use weir_types::{Epoch, EventNo, Nanos, PartitionId, Reason, SessionId, Switch};
use weir_wire::challenge::signed_text;
use weir_wire::frame::RawMessage;
use weir_wire::session::{Challenge, Logon, LogonReject, NodeId, Nonce, SignedLogon};

use super::ConnectionId;
use super::challenges::{Challenges, OpenChallenges};
use super::directory::{Directory, KnownSession, Proof};
use super::keys::Lock;
use super::seeded_map::MapOrder;

/// The longest heartbeat interval granted, in milliseconds.
const HEARTBEAT_MAX_MS: u32 = 60_000;
/// The shortest heartbeat interval granted, in milliseconds.
const HEARTBEAT_MIN_MS: u32 = 100;
/// The average time between verifications of signatures, in nanoseconds. A verification takes
/// some 60 µs on a core that orders use too; this rate limits unauthenticated clients to about a
/// fifteenth of one core.
const VERIFICATION_INTERVAL: u64 = 1_000_000;
/// Verifications allowed in a burst.
const VERIFICATION_BURST: u64 = 64;

/// The connection and the time of a received message. Times are of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct MessageOrigin {
    /// The connection.
    pub connection: ConnectionId,
    /// The time at which the connection was accepted.
    pub accepted_at: Nanos,
    /// The time.
    pub now: Nanos,
}

/// The request of a logon, of either kind, with its resume points in the form of its protocol.
#[derive(Clone, Debug)]
pub struct LogonRequest<P> {
    /// The session.
    pub session_id: SessionId,
    /// The heartbeat interval asked for, in milliseconds.
    pub heartbeat_interval_ms: u32,
    /// On if live orders are cancelled when the connection is lost.
    pub cancel_on_disconnect: Switch,
    /// On if the session is to be taken over from another connection.
    pub takeover: Switch,
    /// The event from which the session wants to resume, for each partition.
    pub points: P,
}

impl<P> LogonRequest<P> {
    /// Returns the request without its resume points, and those.
    #[must_use]
    pub fn split(self) -> (LogonRequest<()>, P) {
        let request = LogonRequest {
            session_id: self.session_id,
            heartbeat_interval_ms: self.heartbeat_interval_ms,
            cancel_on_disconnect: self.cancel_on_disconnect,
            takeover: self.takeover,
            points: (),
        };
        (request, self.points)
    }

    /// Returns the request of a logon by API key.
    #[must_use]
    pub fn of_logon(logon: &Logon, points: P) -> LogonRequest<P> {
        LogonRequest {
            session_id: logon.session_id,
            heartbeat_interval_ms: logon.heartbeat_interval_ms,
            cancel_on_disconnect: logon.cancel_on_disconnect,
            takeover: logon.takeover,
            points,
        }
    }

    /// Returns the request of a logon by signature.
    #[must_use]
    pub fn of_signed(logon: &SignedLogon, points: P) -> LogonRequest<P> {
        LogonRequest {
            session_id: logon.session_id,
            heartbeat_interval_ms: logon.heartbeat_interval_ms,
            cancel_on_disconnect: logon.cancel_on_disconnect,
            takeover: logon.takeover,
            points,
        }
    }
}

/// The rate limit of signature verifications: the generic cell rate algorithm.
#[derive(Debug, Default)]
struct VerificationRate {
    arrival: u64,
}

impl VerificationRate {
    /// Takes one verification; returns false if the limit is reached.
    fn take(&mut self, now: Nanos) -> bool {
        let arrival = self.arrival.max(now.0) + VERIFICATION_INTERVAL;
        if arrival > now.0 + VERIFICATION_BURST * VERIFICATION_INTERVAL {
            return false;
        }
        self.arrival = arrival;
        true
    }
}

/// Authenticates sessions and tracks their open challenges.
pub struct Reception {
    /// The defined sessions.
    pub directory: Directory,
    challenges: Challenges,
    order: MapOrder,
    verification_rate: VerificationRate,
    node_id: NodeId,
    rng: Box<dyn Rng + Send>,
}

impl Reception {
    /// Creates a reception without sessions; `rng` draws nonces.
    #[must_use]
    pub fn new(node_id: NodeId, mut rng: Box<dyn Rng + Send>) -> Reception {
        let order = MapOrder::draw(&mut *rng);
        Reception {
            directory: Directory::new(&mut *rng),
            challenges: Challenges::new(&order),
            order,
            verification_rate: VerificationRate::default(),
            node_id,
            rng,
        }
    }

    /// Returns the order of maps that its random numbers decided, for the maps beside it.
    #[must_use]
    pub fn map_order(&self) -> &MapOrder {
        &self.order
    }

    /// Opens a challenge for a session, whether or not the session exists, so that the answer does
    /// not reveal it.
    ///
    /// # Errors
    /// [`Reason::TooManyChallenges`] if the connection has the maximum open.
    pub fn challenge(
        &mut self,
        session_id: SessionId,
        via: MessageOrigin,
    ) -> Result<Challenge, LogonReject> {
        let mut nonce = Nonce([0; 32]);
        self.rng.fill(&mut nonce.0);
        if self.challenges.open(via.connection, session_id, nonce, via.now) {
            Ok(Challenge { nonce, node_id: self.node_id, session_id })
        } else {
            Err(refusal(session_id, Reason::TooManyChallenges))
        }
    }

    /// Authenticates a logon by API key and returns its session.
    ///
    /// # Errors
    /// As for [`Directory::authenticate`].
    pub fn prove_by_key(
        &mut self,
        logon: &Logon,
        via: MessageOrigin,
    ) -> Result<KnownSession, LogonReject> {
        let proof = Proof::ApiKey(&logon.api_key);
        let known = self.directory.authenticate(logon.session_id, proof, via.now);
        known.map_err(|reason| refusal(logon.session_id, reason))
    }

    /// Authenticates a logon by a signature of its challenge and returns its session. The challenge
    /// is used up. Returns `None`, and uses up nothing, while the rate limit of verifications is
    /// reached.
    ///
    /// # Errors
    /// The inner result's errors are those of [`Directory::authenticate`].
    ///
    /// # Panics
    /// If `logon` was not decoded from `raw`.
    pub fn prove_by_signature(
        &mut self,
        raw: &RawMessage<'_>,
        logon: &SignedLogon,
        via: MessageOrigin,
    ) -> Option<Result<KnownSession, LogonReject>> {
        let text = |node_id, nonce| signed_text(node_id, nonce, raw).expect("it was decoded");
        self.prove_by_signed_text(logon, text, via)
    }

    /// Authenticates as [`Reception::prove_by_signature`] does, for a protocol that makes the
    /// `text` of a node's nonce itself.
    ///
    /// # Errors
    /// The inner result's errors are those of [`Directory::authenticate`].
    pub fn prove_by_signed_text(
        &mut self,
        logon: &SignedLogon,
        text: impl FnOnce(NodeId, Nonce) -> Vec<u8>,
        via: MessageOrigin,
    ) -> Option<Result<KnownSession, LogonReject>> {
        if !self.verification_rate.take(via.now) {
            return None;
        }
        let nonce = self.challenges.take(via.connection, logon.session_id, via.now);
        // Without a challenge the same work is done and the logon refused in any case.
        let text = text(self.node_id, nonce.unwrap_or(Nonce([0; 32])));
        let (signature, is_challenged) = (&logon.signature, nonce.is_some());
        let proof = Proof::Signature { text: &text, signature, is_challenged };
        let known = self.directory.authenticate(logon.session_id, proof, via.now);
        Some(known.map_err(|reason| refusal(logon.session_id, reason)))
    }

    /// Creates another reception with the same sessions, for another thread; `rng` draws its
    /// nonces.
    #[must_use]
    pub fn beside(&self, mut rng: Box<dyn Rng + Send>) -> Reception {
        let directory = self.directory.of_same_sessions(&mut *rng);
        Reception { directory, ..Reception::new(self.node_id, rng) }
    }

    /// Returns a directory of the sessions alone, for a door of readers; `rng` draws its stand-ins
    /// for keys.
    #[must_use]
    pub fn directory_beside(&self, rng: &mut dyn Rng) -> Directory {
        self.directory.of_same_sessions(rng)
    }

    /// Returns the session of a logon that was authenticated on another thread with `lock`.
    ///
    /// # Errors
    /// [`Reason::UnknownKey`] if the session's key was replaced since, or the session is unknown.
    pub fn accept_proof(&self, id: SessionId, lock: &Lock) -> Result<KnownSession, LogonReject> {
        self.directory.known_by(id, lock).ok_or_else(|| refusal(id, Reason::UnknownKey))
    }

    /// Removes and returns a connection's open challenges, for the thread that takes it over.
    pub fn take_challenges(&mut self, connection: ConnectionId) -> OpenChallenges {
        self.challenges.take_all(connection)
    }

    /// Takes over the open challenges of a connection from another thread.
    pub fn take_over(&mut self, connection: ConnectionId, open: OpenChallenges) {
        self.challenges.take_over(connection, open);
    }

    /// Removes a closed connection's challenges.
    pub fn forget(&mut self, connection: ConnectionId) {
        self.challenges.forget(connection);
    }
}

/// Returns the heartbeat interval granted for a requested one, both in milliseconds.
#[must_use]
pub fn heartbeat_granted(asked_ms: u32) -> u32 {
    asked_ms.clamp(HEARTBEAT_MIN_MS, HEARTBEAT_MAX_MS)
}

/// Returns a refusal that carries no partition's event numbers.
pub fn refusal(session_id: SessionId, reason: Reason) -> LogonReject {
    LogonReject {
        oldest_event_no: EventNo::NONE,
        next_event_no: EventNo::NONE,
        session_id,
        epoch: Epoch::NONE,
        partition_id: PartitionId(0),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_signatures_is_verified_at_once_and_then_one_a_millisecond() {
        let mut rate = VerificationRate::default();
        let begin = 1_000_000_000;
        let taken =
            |rate: &mut VerificationRate, at| (0..200).take_while(|_| rate.take(Nanos(at))).count();
        assert_eq!(taken(&mut rate, begin), 64);
        assert_eq!(taken(&mut rate, begin + 999_999), 0);
        assert_eq!(taken(&mut rate, begin + 1_000_000), 1);
        assert_eq!(taken(&mut rate, begin + 4_000_000), 3);
        // Unused verifications accumulate up to the burst.
        assert_eq!(taken(&mut rate, begin + 60_000_000_000), 64);
    }
}
