//! A connection to a node: connecting, logging on, bytes in and out, and a pause after a failure.
//!
//! It never blocks. The router interprets pages; a link only maps each query to its backend, so
//! that one connection serves all sources of its node. INVARIANT: while it is not up, it holds no
//! socket's bytes and no queries.

use std::collections::HashMap;
use std::io::ErrorKind;

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use weir_client::Key;
use weir_client::source::Backoff;
use weir_delivery::BackendId;
use weir_delivery::router::BackendFault;
use weir_door::transport::{Ending, Transport};
use weir_io::net::Stream;
use weir_tls::ClientTls;
use weir_types::{EventNo, Nanos, PartitionId, Reason, SessionId, Switch};
use weir_wire::DecodeError;
use weir_wire::challenge::put_answer;
use weir_wire::dialogue::put_logon;
use weir_wire::frame::{BrokenFrame, put_frame};
use weir_wire::session::{
    Challenge, ChallengeRequest, Heartbeat, Logon, LogonAck, Logout, Signature, SignedLogon,
};

use super::config::BackendSection;

/// The number of bytes read in one cycle.
const READ_MAX: usize = 1 << 20;
/// The time limit in nanoseconds of a connection and logon together.
const LOGON_TIME_MAX: u64 = 5_000_000_000;
/// The silence after which a node is lost, in tenths of its heartbeat interval.
const SILENCE_TENTHS: u64 = 25;
/// The number of bytes of queries that a node may leave unread.
const OUTPUT_LEN_MAX: usize = 4 << 20;

/// The reason why a link is down.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LinkEnd {
    /// No connection was established.
    #[error("cannot connect: {0}")]
    Connect(ErrorKind),
    /// The node or the network closed it.
    #[error("the connection is gone")]
    Gone,
    /// TLS failed, or the certificate is not the node's.
    #[error("TLS failed")]
    Tls,
    /// Connecting and logging on took too long.
    #[error("no logon in time")]
    Late,
    /// The node was silent for too long.
    #[error("nothing was heard for too long")]
    Silent,
    /// The node refused the logon.
    #[error("the logon is refused: {0:?}")]
    Refused(Reason),
    /// The node closed the session.
    #[error("the session is closed: {0:?}")]
    Closed(Reason),
    /// A message breaks the protocol.
    #[error("{0}")]
    Fault(#[from] BackendFault),
    /// The bytes are not frames.
    #[error("not a frame: {0}")]
    Broken(#[from] BrokenFrame),
    /// A message cannot be decoded.
    #[error("a message that cannot be read: {0}")]
    Malformed(#[from] DecodeError),
    /// It is no longer in the configuration.
    #[error("it is not configured any more")]
    Removed,
}

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// There is no connection.
    Resting,
    /// A connection is being established.
    Connecting,
    /// The logon is sent.
    LoggingOn,
    /// Queries can be sent.
    Up,
}

impl Phase {
    /// Returns its name, for people and scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Resting => "resting",
            Phase::Connecting => "connecting",
            Phase::LoggingOn => "logging-on",
            Phase::Up => "up",
        }
    }
}

/// A connection to a node.
pub(super) struct Link {
    pub(super) section: BackendSection,
    /// The node's stores, as the router knows them.
    pub(super) stores: Vec<(PartitionId, BackendId)>,
    key: Key,
    tls: Option<ClientTls>,
    heartbeat_ms: u32,
    transport: Option<Transport>,
    pub(super) phase: Phase,
    pub(super) input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    readable: bool,
    writable: bool,
    /// The backend of each query that has no answer yet.
    pub(super) asked: HashMap<u64, BackendId>,
    /// The query whose header has arrived and whose rows have not.
    pub(super) body_due: Option<u64>,
    /// The heartbeat interval that the node granted, in nanoseconds.
    heartbeat_interval: u64,
    since: Nanos,
    heard_at: Nanos,
    said_at: Nanos,
    rest: Backoff,
    /// The number of times that it came up.
    pub(super) up_count: u64,
    /// The number of times that it ended, or failed to come up.
    pub(super) end_count: u64,
    pub(super) last_end: Option<LinkEnd>,
}

impl Link {
    /// Returns a link that is not connected.
    ///
    /// # Errors
    /// When the session's key or the authorities of the node cannot be read.
    pub(super) fn new(section: BackendSection, heartbeat_ms: u32) -> anyhow::Result<Link> {
        Ok(Link {
            key: section.key()?,
            tls: section.tls()?,
            section,
            stores: Vec::new(),
            heartbeat_ms,
            transport: None,
            phase: Phase::Resting,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            readable: false,
            writable: false,
            asked: HashMap::new(),
            body_due: None,
            heartbeat_interval: u64::from(heartbeat_ms) * 1_000_000,
            since: Nanos(0),
            heard_at: Nanos(0),
            said_at: Nanos(0),
            rest: Backoff::new(Backoff::seed()),
            up_count: 0,
            end_count: 0,
            last_end: None,
        })
    }

    /// Takes the newly read keys of another link, for the next connection.
    pub(super) fn take_keys_of(&mut self, other: Link) {
        (self.key, self.tls) = (other.key, other.tls);
    }

    pub(super) fn session_id(&self) -> SessionId {
        SessionId(self.section.session)
    }

    /// Returns true when a connection may be tried now.
    pub(super) fn is_rested(&self, now: Nanos) -> bool {
        self.phase == Phase::Resting && self.rest.left(now).is_none()
    }

    /// Begins to connect; the logon follows once the connection is established.
    pub(super) fn connect(
        &mut self,
        registry: &Registry,
        token: Token,
        now: Nanos,
    ) -> Result<(), LinkEnd> {
        let refuse = |error: std::io::Error| LinkEnd::Connect(error.kind());
        let mut stream = TcpStream::connect(self.section.address).map_err(refuse)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut stream, token, interest).map_err(refuse)?;
        let stream = Stream::Tcp(stream);
        self.transport = Some(match &self.tls {
            None => Transport::Plain(stream),
            Some(tls) => Transport::client(stream, tls.connect().map_err(|_| LinkEnd::Tls)?),
        });
        (self.phase, self.since, self.heard_at, self.said_at) = (Phase::Connecting, now, now, now);
        (self.readable, self.writable) = (false, false);
        Ok(())
    }

    fn ask_for_session(&mut self) {
        let session_id = self.session_id();
        match &self.key {
            Key::Api(api_key) => {
                let logon = Logon {
                    api_key: *api_key,
                    session_id,
                    heartbeat_interval_ms: self.heartbeat_ms,
                    cancel_on_disconnect: Switch::Off,
                    takeover: Switch::Off,
                };
                put_logon(&logon, &[], &mut self.output);
            }
            Key::Signing(_) => put_frame(&ChallengeRequest { session_id }, &mut self.output),
        }
        self.phase = Phase::LoggingOn;
    }

    /// Answers the node's challenge with a signature.
    pub(super) fn answer_challenge(&mut self, challenge: &Challenge) {
        let Key::Signing(key) = &self.key else { return };
        let logon = SignedLogon {
            signature: Signature([0; 64]),
            session_id: challenge.session_id,
            heartbeat_interval_ms: self.heartbeat_ms,
            cancel_on_disconnect: Switch::Off,
            takeover: Switch::Off,
        };
        put_answer(challenge, logon, &[], |text| key.sign(text), &mut self.output);
    }

    /// Records that the session is open.
    pub(super) fn is_let_in(&mut self, ack: &LogonAck) {
        self.heartbeat_interval = u64::from(ack.heartbeat_interval_ms) * 1_000_000;
        self.phase = Phase::Up;
        self.up_count += 1;
    }

    /// Resets the pause after failures to the shortest, since the node has answered.
    pub(super) fn is_well(&mut self) {
        self.rest.succeeded();
    }

    pub(super) fn on_event(&mut self, event: &Event) {
        self.readable |= event.is_readable() || event.is_read_closed();
        self.writable |= event.is_writable();
    }

    /// Checks whether a pending connection is established.
    pub(super) fn settle(&mut self) -> Result<(), LinkEnd> {
        let (Phase::Connecting, Some(transport)) = (self.phase, &mut self.transport) else {
            return Ok(());
        };
        let Stream::Tcp(socket) = transport.stream() else { return Ok(()) };
        if let Ok(Some(error)) = socket.take_error() {
            return Err(LinkEnd::Connect(error.kind()));
        }
        if !self.writable {
            return Ok(());
        }
        match socket.peer_addr() {
            Ok(_) => {
                // Disables Nagle's algorithm, which would delay small queries.
                let _ = socket.set_nodelay(true);
                self.ask_for_session();
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
            Err(error) => Err(LinkEnd::Connect(error.kind())),
        }
    }

    /// Reads up to a cycle's share; returns true when bytes arrived.
    pub(super) fn fill(&mut self, scratch: &mut Scratch, now: Nanos) -> Result<bool, LinkEnd> {
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
                // Bytes from before the end are processed first.
                Err(_) if len > 0 => break,
                Err(Ending::Closed) => return Err(LinkEnd::Gone),
                Err(Ending::Truncated | Ending::Broken) => return Err(LinkEnd::Tls),
            }
        }
        if len > 0 {
            self.heard_at = now;
        }
        Ok(len > 0)
    }

    /// Sends as much as the socket takes.
    pub(super) fn flush(&mut self, now: Nanos) -> Result<(), LinkEnd> {
        let Some(transport) = &mut self.transport else { return Ok(()) };
        if self.phase == Phase::Connecting || !self.writable {
            return Ok(());
        }
        if self.sent == self.output.len() && transport.unsent_len() == 0 {
            return Ok(());
        }
        let put = transport.write(&self.output[self.sent..]).map_err(|_| LinkEnd::Gone)?;
        self.sent += put.len;
        self.writable = !put.blocked;
        if put.moved {
            self.said_at = now;
        }
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        }
        Ok(())
    }

    /// Returns the buffer for queries; `None` while none can be sent.
    pub(super) fn questions(&mut self) -> Option<&mut Vec<u8>> {
        let has_room = self.output.len() - self.sent < OUTPUT_LEN_MAX;
        (self.phase == Phase::Up && has_room).then_some(&mut self.output)
    }

    /// Sends heartbeats, with the wall clock, and checks timeouts.
    pub(super) fn care(&mut self, now: Nanos, wall: Nanos) -> Result<(), LinkEnd> {
        match self.phase {
            Phase::Resting => {}
            Phase::Connecting | Phase::LoggingOn => {
                if now.since(self.since).0 >= LOGON_TIME_MAX {
                    return Err(LinkEnd::Late);
                }
            }
            Phase::Up => {
                if now.since(self.heard_at).0 * 10 > self.heartbeat_interval * SILENCE_TENTHS {
                    return Err(LinkEnd::Silent);
                }
                if now.since(self.said_at).0 >= self.heartbeat_interval {
                    let heartbeat = Heartbeat {
                        sending_time: wall,
                        high_water: EventNo::NONE,
                        session_id: self.session_id(),
                        partition_id: PartitionId::NONE,
                        load_permille: 0,
                    };
                    put_frame(&heartbeat, &mut self.output);
                }
            }
        }
        Ok(())
    }

    /// Sends a logout, if the socket takes it.
    pub(super) fn say_farewell(&mut self, now: Nanos) {
        if self.phase == Phase::Up {
            let (session_id, reason) = (SessionId::NONE, Reason::LogoutRequested);
            put_frame(&Logout { session_id, reason }, &mut self.output);
            // The end of the connection implies a logout too.
            let _ = self.flush(now);
        }
    }

    /// Drops the connection and its state; the next one is tried after a pause.
    pub(super) fn end(&mut self, why: LinkEnd, now: Nanos) {
        self.transport = None;
        self.phase = Phase::Resting;
        (self.input, self.output, self.sent) = (Vec::new(), Vec::new(), 0);
        self.asked.clear();
        self.body_due = None;
        self.rest.failed(now);
        self.end_count += 1;
        self.last_end = Some(why);
    }
}

/// Buffers for reading sockets, shared by all links.
pub(super) struct Scratch {
    room: Vec<u8>,
    sealed: Vec<u8>,
}

impl Scratch {
    pub(super) fn new() -> Scratch {
        Scratch { room: vec![0; 128 * 1024], sealed: vec![0; weir_tls::link::SCRATCH_LEN] }
    }
}
