//! Who is let in: what a logon has to prove, and where its session goes on.
//!
//! Every decision about a logon is here, and nothing else of a connection: no socket, no output, no
//! clock. So any bytes can be driven through it, as the fuzz target `node_logon` does.
//!
//! The gateway opens a session only after [`Reception`] has returned its [`KnownSession`].

use weir_io::Rng;
use weir_types::{Epoch, EventNo, Nanos, PartitionId, Reason, SessionId, Switch};
use weir_wire::challenge::signed_text;
use weir_wire::frame::RawMessage;
use weir_wire::group::Group;
use weir_wire::session::{Challenge, Logon, LogonReject, NodeId, Nonce, ResumePoint, SignedLogon};

use super::ConnectionId;
use super::challenges::{Challenges, OpenChallenges};
use super::directory::{Directory, KnownSession, Proof};
use super::keys::Lock;

/// The longest heartbeat interval that is granted, in milliseconds.
const HEARTBEAT_MAX_MS: u32 = 60_000;
/// The shortest.
const HEARTBEAT_MIN_MS: u32 = 100;
/// A verification takes some 60 µs, on cores that orders wait for too: on average one in this time,
/// so that strangers take no more than a fifteenth of one.
const VERIFICATION_INTERVAL: u64 = 1_000_000;
/// Verifications that may come at once.
const VERIFICATION_BURST: u64 = 64;

/// Where and when something comes in.
#[derive(Clone, Copy, Debug)]
pub struct Via {
    /// The connection.
    pub connection: ConnectionId,
    /// The time.
    pub now: Nanos,
}

/// What every kind of logon asks for.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// The session.
    pub session_id: SessionId,
    /// The heartbeat interval asked for, in milliseconds.
    pub heartbeat_interval_ms: u32,
    /// Whether live orders are cancelled when the connection is lost.
    pub cancel_on_disconnect: Switch,
    /// The events from which the session wants to go on, by partition.
    pub points: Group<'a, ResumePoint>,
}

impl<'a> Asked<'a> {
    /// What a logon by API key asks for.
    #[must_use]
    pub fn of_logon(logon: &Logon, points: Group<'a, ResumePoint>) -> Asked<'a> {
        Asked {
            session_id: logon.session_id,
            heartbeat_interval_ms: logon.heartbeat_interval_ms,
            cancel_on_disconnect: logon.cancel_on_disconnect,
            points,
        }
    }

    /// What a logon by signature asks for.
    #[must_use]
    pub fn of_signed(logon: &SignedLogon, points: Group<'a, ResumePoint>) -> Asked<'a> {
        Asked {
            session_id: logon.session_id,
            heartbeat_interval_ms: logon.heartbeat_interval_ms,
            cancel_on_disconnect: logon.cancel_on_disconnect,
            points,
        }
    }
}

/// When the next signature may be verified: the generic cell rate algorithm.
#[derive(Debug, Default)]
struct VerificationRate {
    arrival: u64,
}

impl VerificationRate {
    /// Takes one verification, if it may be now.
    fn take(&mut self, now: Nanos) -> bool {
        let arrival = self.arrival.max(now.0) + VERIFICATION_INTERVAL;
        if arrival > now.0 + VERIFICATION_BURST * VERIFICATION_INTERVAL {
            return false;
        }
        self.arrival = arrival;
        true
    }
}

/// Sessions' proofs and the challenges that they answer.
pub struct Reception {
    /// Who there is.
    pub directory: Directory,
    challenges: Challenges,
    verification_rate: VerificationRate,
    node_id: NodeId,
    rng: Box<dyn Rng + Send>,
}

impl Reception {
    /// The reception of a node that nobody is known to; `rng` draws nonces.
    #[must_use]
    pub fn new(node_id: NodeId, mut rng: Box<dyn Rng + Send>) -> Reception {
        Reception {
            directory: Directory::new(&mut *rng),
            challenges: Challenges::default(),
            verification_rate: VerificationRate::default(),
            node_id,
            rng,
        }
    }

    /// A challenge for whoever asks: whether there is such a session is not told.
    ///
    /// # Errors
    /// When the connection has as many open as it may.
    pub fn challenge(&mut self, session_id: SessionId, via: Via) -> Result<Challenge, LogonReject> {
        let mut nonce = Nonce([0; 32]);
        self.rng.fill(&mut nonce.0);
        if self.challenges.open(via.connection, session_id, nonce, via.now) {
            Ok(Challenge { nonce, node_id: self.node_id, session_id })
        } else {
            Err(refusal(session_id, Reason::TooManyChallenges))
        }
    }

    /// The session of a logon by API key.
    ///
    /// # Errors
    /// As [`Directory::authenticate`].
    pub fn prove_by_key(&mut self, logon: &Logon, via: Via) -> Result<KnownSession, LogonReject> {
        let proof = Proof::ApiKey(&logon.api_key);
        let known = self.directory.authenticate(logon.session_id, proof, via.now);
        known.map_err(|reason| refusal(logon.session_id, reason))
    }

    /// The session of a logon by a signature of its challenge, which is used up; nothing when more
    /// signatures came than are to be verified now, and nothing is used up then.
    ///
    /// # Errors
    /// Inside: as [`Directory::authenticate`].
    ///
    /// # Panics
    /// When `logon` is not what `raw` holds.
    pub fn prove_by_signature(
        &mut self,
        (raw, logon): (&RawMessage<'_>, &SignedLogon),
        via: Via,
    ) -> Option<Result<KnownSession, LogonReject>> {
        if !self.verification_rate.take(via.now) {
            return None;
        }
        let nonce = self.challenges.take(via.connection, logon.session_id, via.now);
        // Without a challenge the same work is done, and refused whatever comes of it.
        let text = signed_text(self.node_id, nonce.unwrap_or(Nonce([0; 32])), raw);
        let text = text.expect("a signed logon was decoded");
        let (signature, is_challenged) = (&logon.signature, nonce.is_some());
        let proof = Proof::Signature { text: &text, signature, is_challenged };
        let known = self.directory.authenticate(logon.session_id, proof, via.now);
        Some(known.map_err(|reason| refusal(logon.session_id, reason)))
    }

    /// Another one that knows the same sessions, for a thread of its own; `rng` draws its nonces.
    #[must_use]
    pub fn beside(&self, mut rng: Box<dyn Rng + Send>) -> Reception {
        let directory = self.directory.of_same_sessions(&mut *rng);
        Reception { directory, ..Reception::new(self.node_id, rng) }
    }

    /// The sessions alone, for somebody who lets readers in; `rng` draws stand-ins for keys.
    #[must_use]
    pub fn directory_beside(&self, rng: &mut dyn Rng) -> Directory {
        self.directory.of_same_sessions(rng)
    }

    /// The session of a logon that was proved elsewhere, by what it opened there.
    ///
    /// # Errors
    /// [`Reason::UnknownKey`] when it has another key by now.
    pub fn accept_proof(&self, id: SessionId, lock: &Lock) -> Result<KnownSession, LogonReject> {
        self.directory.known_by(id, lock).ok_or_else(|| refusal(id, Reason::UnknownKey))
    }

    /// Takes the challenges that a connection has open, for who sees to it from now on.
    pub fn take_challenges(&mut self, connection: ConnectionId) -> OpenChallenges {
        self.challenges.take_all(connection)
    }

    /// Sees to the challenges that a connection was given elsewhere.
    pub fn take_over(&mut self, connection: ConnectionId, open: OpenChallenges) {
        self.challenges.take_over(connection, open);
    }

    /// Forgets a connection that is gone.
    pub fn forget(&mut self, connection: ConnectionId) {
        self.challenges.forget(connection);
    }
}

/// The heartbeat interval that is granted to who asks for this one, in milliseconds.
#[must_use]
pub fn heartbeat_granted(asked_ms: u32) -> u32 {
    asked_ms.clamp(HEARTBEAT_MIN_MS, HEARTBEAT_MAX_MS)
}

/// The answer to a logon that no partition has anything to say of.
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
        // What was not used is kept up to the burst.
        assert_eq!(taken(&mut rate, begin + 60_000_000_000), 64);
    }
}
