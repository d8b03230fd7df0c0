//! A connection of a gateway process to a link listener: connecting, logging on, bytes in and out,
//! and a pause after a failure. It never blocks.

use std::io::ErrorKind;

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use weir_client::Key;
use weir_client::source::Backoff;
use weir_door::transport::{Ending, Transport};
use weir_io::net::Stream;
use weir_link::LinkFault;
use weir_tls::ClientTls;
use weir_types::{Nanos, Reason, SessionId, Switch};
use weir_wire::challenge::put_answer;
use weir_wire::dialogue::put_logon;
use weir_wire::frame::put_frame;
use weir_wire::session::{Challenge, ChallengeRequest, Logon, Logout, Signature, SignedLogon};

use crate::config::UplinkPartition;

/// The number of bytes read in one cycle.
const READ_MAX: usize = 1 << 20;
/// The time limit in nanoseconds of a connection and its logon together.
const LOGON_TIME_MAX: u64 = 5_000_000_000;
/// The longest pause in nanoseconds after a failure: control waits a second after its start for the
/// sessions that gateways hold.
const REST_MAX: u64 = 500_000_000;
/// The pause in nanoseconds after another process has taken the link: two that run as the same
/// gateway would take it from each other without end.
const TAKEN_OVER_REST: u64 = 10_000_000_000;
/// The heartbeat interval asked for, in milliseconds: pulses are more frequent.
const HEARTBEAT_MS: u32 = 60_000;

/// The reason why a connection is down.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectionEnd {
    /// No connection was established.
    #[error("cannot connect: {0}")]
    Connect(ErrorKind),
    /// The other end or the network closed it.
    #[error("the connection is gone")]
    Gone,
    /// TLS failed, or the certificate is not the listener's.
    #[error("TLS failed")]
    Tls,
    /// Connecting and logging on took too long.
    #[error("no logon in time")]
    Late,
    /// The listener refused the logon.
    #[error("the logon is refused: {0:?}")]
    Refused(Reason),
    /// The link broke.
    #[error("{0}")]
    Fault(#[from] LinkFault),
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// There is none.
    Resting,
    /// It is being established.
    Connecting,
    /// The logon is sent.
    LoggingOn,
    /// The session is open.
    Up,
}

/// A connection to a link listener.
pub struct Connection {
    at: UplinkPartition,
    session_id: SessionId,
    key: Key,
    tls: Option<ClientTls>,
    transport: Option<Transport>,
    /// Its state.
    pub phase: Phase,
    /// Bytes received and not yet taken.
    pub input: Vec<u8>,
    /// Bytes to be sent.
    pub output: Vec<u8>,
    sent: usize,
    readable: bool,
    writable: bool,
    since: Nanos,
    rest: Backoff,
    /// The time before which no connection is tried.
    rests_until: Nanos,
}

impl Connection {
    /// Returns a connection that is not made yet; plain without `tls`.
    #[must_use]
    pub fn new(
        at: UplinkPartition,
        session_id: SessionId,
        key: Key,
        tls: Option<ClientTls>,
    ) -> Connection {
        Connection {
            tls,
            at,
            session_id,
            key,
            transport: None,
            phase: Phase::Resting,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            readable: false,
            writable: false,
            since: Nanos(0),
            rest: Backoff::new(Backoff::seed()),
            rests_until: Nanos(0),
        }
    }

    /// Returns the partition at its other end.
    #[must_use]
    pub fn partition(&self) -> &UplinkPartition {
        &self.at
    }

    /// Returns true when a connection may be tried now.
    #[must_use]
    pub fn is_rested(&self, now: Nanos) -> bool {
        self.phase == Phase::Resting && self.rest_left(now) == 0
    }

    /// Returns what is left of the pause, in nanoseconds.
    fn rest_left(&self, now: Nanos) -> u64 {
        let left = self.rest.left(now).map_or(0, |left| left.as_nanos() as u64);
        let left = left.min(REST_MAX.saturating_sub(now.since(self.since).0));
        left.max(self.rests_until.since(now).0)
    }

    /// Begins to connect; the logon follows once the connection is established.
    ///
    /// # Errors
    /// [`ConnectionEnd::Connect`] and [`ConnectionEnd::Tls`].
    pub fn connect(
        &mut self,
        registry: &Registry,
        token: Token,
        now: Nanos,
    ) -> Result<(), ConnectionEnd> {
        let refuse = |error: std::io::Error| ConnectionEnd::Connect(error.kind());
        let mut stream = TcpStream::connect(self.at.address).map_err(refuse)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut stream, token, interest).map_err(refuse)?;
        let stream = Stream::Tcp(stream);
        self.transport = Some(match &self.tls {
            None => Transport::Plain(stream),
            Some(tls) => Transport::client(stream, tls.connect().map_err(|_| ConnectionEnd::Tls)?),
        });
        (self.phase, self.since) = (Phase::Connecting, now);
        (self.readable, self.writable) = (false, false);
        Ok(())
    }

    fn log_on(&mut self) {
        let session_id = self.session_id;
        match &self.key {
            Key::Api(api_key) => {
                let logon = Logon {
                    api_key: *api_key,
                    session_id,
                    heartbeat_interval_ms: HEARTBEAT_MS,
                    cancel_on_disconnect: Switch::Off,
                    takeover: Switch::Off,
                };
                put_logon(&logon, &[], &mut self.output);
            }
            Key::Signing(_) => put_frame(&ChallengeRequest { session_id }, &mut self.output),
        }
        self.phase = Phase::LoggingOn;
    }

    /// Answers the listener's challenge with a signature.
    pub fn answer_challenge(&mut self, challenge: &Challenge) {
        let Key::Signing(key) = &self.key else { return };
        let logon = SignedLogon {
            signature: Signature([0; 64]),
            session_id: challenge.session_id,
            heartbeat_interval_ms: HEARTBEAT_MS,
            cancel_on_disconnect: Switch::Off,
            takeover: Switch::Off,
        };
        put_answer(challenge, logon, &[], |text| key.sign(text), &mut self.output);
    }

    /// The session is open.
    pub fn is_let_in(&mut self) {
        self.phase = Phase::Up;
    }

    /// Resets the pause after failures to the shortest, since the link is open.
    pub fn is_well(&mut self) {
        self.rest.succeeded();
    }

    /// Notes an event of the socket.
    pub fn on_event(&mut self, event: &Event) {
        self.readable |= event.is_readable() || event.is_read_closed();
        self.writable |= event.is_writable();
    }

    /// Goes on with a connection that is being established, within its time.
    ///
    /// # Errors
    /// [`ConnectionEnd::Connect`] and [`ConnectionEnd::Late`].
    pub fn settle(&mut self, now: Nanos) -> Result<(), ConnectionEnd> {
        let is_new = matches!(self.phase, Phase::Connecting | Phase::LoggingOn);
        if is_new && now.since(self.since).0 >= LOGON_TIME_MAX {
            return Err(ConnectionEnd::Late);
        }
        let (Phase::Connecting, Some(transport)) = (self.phase, &mut self.transport) else {
            return Ok(());
        };
        let Stream::Tcp(socket) = transport.stream() else { return Ok(()) };
        if let Ok(Some(error)) = socket.take_error() {
            return Err(ConnectionEnd::Connect(error.kind()));
        }
        if !self.writable {
            return Ok(());
        }
        match socket.peer_addr() {
            Ok(_) => {
                // Nagle's algorithm would delay small batches.
                let _ = socket.set_nodelay(true);
                self.log_on();
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
            Err(error) => Err(ConnectionEnd::Connect(error.kind())),
        }
    }

    /// Reads up to a cycle's share; returns true when bytes arrived.
    ///
    /// # Errors
    /// [`ConnectionEnd::Gone`] and [`ConnectionEnd::Tls`].
    pub fn fill(&mut self, scratch: &mut Scratch) -> Result<bool, ConnectionEnd> {
        let Some(transport) = &mut self.transport else { return Ok(false) };
        if !self.readable || self.phase == Phase::Connecting {
            return Ok(false);
        }
        let mut len = 0;
        while self.readable && len < READ_MAX {
            match transport.read(&mut scratch.room, &mut scratch.sealed) {
                Ok(got) => {
                    self.input.extend_from_slice(&scratch.room[..got.len]);
                    len += got.len;
                    self.readable = got.more;
                }
                // Bytes from before the end are taken first.
                Err(_) if len > 0 => break,
                Err(Ending::Closed) => return Err(ConnectionEnd::Gone),
                Err(Ending::Truncated | Ending::Broken) => return Err(ConnectionEnd::Tls),
            }
        }
        Ok(len > 0)
    }

    /// Sends as much as the socket takes.
    ///
    /// # Errors
    /// [`ConnectionEnd::Gone`].
    pub fn flush(&mut self) -> Result<(), ConnectionEnd> {
        let Some(transport) = &mut self.transport else { return Ok(()) };
        let is_sent = self.sent == self.output.len() && transport.unsent_len() == 0;
        if self.phase == Phase::Connecting || !self.writable || is_sent {
            return Ok(());
        }
        let put = transport.write(&self.output[self.sent..]).map_err(|_| ConnectionEnd::Gone)?;
        self.sent += put.len;
        self.writable = !put.blocked;
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        }
        Ok(())
    }

    /// Returns true if there is more to read than a cycle took.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.readable && self.phase != Phase::Connecting && self.transport.is_some()
    }

    /// Sends a logout, if the socket takes it.
    pub fn say_farewell(&mut self) {
        if self.phase == Phase::Up {
            let (session_id, reason) = (SessionId::NONE, Reason::LogoutRequested);
            put_frame(&Logout { session_id, reason }, &mut self.output);
            // The end of the connection says the same.
            let _ = self.flush();
        }
    }

    /// Another process has taken the link: the next connection is tried after a long pause.
    pub fn is_taken_over(&mut self, now: Nanos) {
        self.rests_until = Nanos(now.0 + TAKEN_OVER_REST);
    }

    /// Drops the connection and its bytes; the next one is tried after a pause.
    pub fn end(&mut self, now: Nanos) {
        self.transport = None;
        (self.phase, self.since) = (Phase::Resting, now);
        (self.input, self.output, self.sent) = (Vec::new(), Vec::new(), 0);
        self.rest.failed(now);
    }

    /// Returns the time of the next cycle that it needs.
    #[must_use]
    pub fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        match self.phase {
            Phase::Resting => Some(Nanos(now.0 + self.rest_left(now))),
            Phase::Connecting | Phase::LoggingOn => Some(Nanos(self.since.0 + LOGON_TIME_MAX)),
            Phase::Up => None,
        }
    }
}

/// Buffers for reading sockets, shared by all connections.
pub struct Scratch {
    room: Vec<u8>,
    sealed: Vec<u8>,
}

impl Scratch {
    /// Returns buffers for reads.
    #[must_use]
    pub fn new() -> Scratch {
        Scratch { room: vec![0; 128 * 1024], sealed: vec![0; weir_tls::link::SCRATCH_LEN] }
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::session::ApiKey;

    use super::*;

    /// Gateways that came back later than control waits for them had no holders there.
    #[test]
    fn a_link_that_fails_again_and_again_is_tried_within_half_a_second() {
        let address = "127.0.0.1:1".parse().expect("an address");
        let at = UplinkPartition { id: 0, address, tls_ca: None, tls_name: None };
        let key = Key::Api(ApiKey([7; 32]));
        let mut connection = Connection::new(at, SessionId(501), key, None);
        for second in 1..=20 {
            let now = Nanos(second * 1_000_000_000);
            assert!(connection.is_rested(now), "{second}");
            connection.end(now);
            assert!(!connection.is_rested(now));
            let next = connection.next_deadline(now).expect("it is tried again");
            assert!(next > now && next.0 <= now.0 + REST_MAX, "{second}: {next:?}");
        }
    }
}
