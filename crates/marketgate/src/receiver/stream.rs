//! A feed over a connection: ITCH over SoupBinTCP, one ordered stream without lines.
//!
//! A lost connection is re-established with the session and the next sequence number, so that no
//! message is lost unless the server no longer has it. Until then the channel is SILENT.

use std::io;

use weir_feed::line::Line;
use weir_feed::moldudp64::MoldSession;
use weir_feed::soupbin::{
    HEARTBEAT_INTERVAL_NS, Login, Reject, SESSION_LEN, SILENCE_MAX_NS, SoupError, SoupPacket,
};
use weir_feed::{Packet, PacketKind};
use weir_types::Nanos;

use super::config::StreamSettings;
use super::counts::StreamCounts;
use super::handler::Decoding;
use super::inlet::Inlet;
use super::output::Output;
use super::soup::{Connection, ReadOutcome};

/// The maximum number of reads of one poll.
const READS_MAX: usize = 4;
/// The poll interval of a connection for a caller that sleeps in between.
const LOOK_EVERY: Nanos = Nanos(1_000_000);

/// The reason a connection that carries a feed ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Connection(io::ErrorKind),
    /// The server closed it.
    #[error("the server ended the connection")]
    Closed,
    /// The login was refused.
    #[error("the login was refused: {0:?}")]
    Refused(Reject),
    /// The bytes received are not a valid packet.
    #[error(transparent)]
    Packet(#[from] SoupError),
    /// A packet that is not allowed in this state.
    #[error("a packet that may not come now")]
    OutOfPlace,
    /// The server sent nothing for too long.
    #[error("the server said nothing for too long")]
    Silence,
    /// The session is over.
    #[error("the session is over")]
    EndOfSession,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Down,
    Connecting,
    Asked,
    Flowing { sequence: u64 },
}

/// The connection that carries a feed in place of a pair of lines.
#[derive(Debug)]
pub(super) struct Stream {
    settings: StreamSettings,
    stage: Stage,
    connection: Option<Connection>,
    /// The session to resume; `None` for the server's current one.
    name: Option<MoldSession>,
    framed: Framed,
    not_before: Nanos,
    failures: u32,
    heard: Nanos,
    said: Nanos,
    looked_at: Nanos,
    pub counts: StreamCounts,
}

impl Stream {
    pub fn new(settings: StreamSettings) -> Stream {
        Stream {
            settings,
            stage: Stage::Down,
            connection: None,
            name: None,
            framed: Framed::default(),
            not_before: Nanos(0),
            failures: 0,
            heard: Nanos(0),
            said: Nanos(0),
            looked_at: Nanos(0),
            counts: StreamCounts::default(),
        }
    }

    /// Does the work that is possible now; returns its amount.
    pub fn poll<O: Output>(
        &mut self,
        now: Nanos,
        inlet: &mut Inlet,
        decoding: &mut Decoding,
        out: &mut O,
    ) -> usize {
        self.looked_at = now;
        match self.step(now, inlet, decoding, out) {
            Ok(done) => done,
            Err(error) => {
                self.end(error, now);
                inlet.fall_silent(out);
                1
            }
        }
    }

    /// The time of the next poll that is due even if nothing else happens.
    pub fn deadline(&self) -> Option<Nanos> {
        match self.stage {
            Stage::Down => Some(self.not_before),
            _ => Some(Nanos(self.looked_at.0.saturating_add(LOOK_EVERY.0))),
        }
    }

    fn step<O: Output>(
        &mut self,
        now: Nanos,
        inlet: &mut Inlet,
        decoding: &mut Decoding,
        out: &mut O,
    ) -> Result<usize, StreamError> {
        match self.stage {
            Stage::Down if now < self.not_before => return Ok(0),
            Stage::Down => {
                self.counts.attempts += 1;
                (self.stage, self.heard, self.said) = (Stage::Connecting, now, now);
                self.connection = Some(Connection::open(self.settings.address).map_err(failed)?);
                return Ok(1);
            }
            _ if now.since(self.heard).0 >= SILENCE_MAX_NS => return Err(StreamError::Silence),
            Stage::Connecting => return self.log_in(now, inlet),
            Stage::Asked | Stage::Flowing { .. } => {}
        }
        let mut done = 0;
        for _ in 0..READS_MAX {
            let Some(connection) = &mut self.connection else { return Err(StreamError::Closed) };
            match connection.receive().map_err(failed)? {
                ReadOutcome::Some => done += 1,
                ReadOutcome::Nothing => break,
                ReadOutcome::Closed => return Err(StreamError::Closed),
            }
            self.heard = now;
            self.take_all(now, inlet, decoding, out)?;
            inlet.end_of_packet(0, inlet.times_at(now), out);
        }
        self.say(now)?;
        Ok(done)
    }

    /// Logs in once the connection is established, from the next sequence number.
    fn log_in(&mut self, now: Nanos, inlet: &Inlet) -> Result<usize, StreamError> {
        let Some(connection) = &mut self.connection else { return Err(StreamError::Closed) };
        if !connection.is_made().map_err(failed)? {
            return Ok(0);
        }
        let next = inlet.only_channel().map_or(1, |channel| channel.next());
        let (session, sequence) = match self.name {
            Some(name) => (name.0, next),
            None => ([b' '; SESSION_LEN], 1),
        };
        let login = Login { session, sequence, ..self.settings.login };
        self.stage = Stage::Asked;
        (self.heard, self.said) = (now, now);
        connection.send(&SoupPacket::LoginRequest(login)).map_err(failed)?;
        Ok(1)
    }

    fn say(&mut self, now: Nanos) -> Result<(), StreamError> {
        let Some(connection) = &mut self.connection else { return Err(StreamError::Closed) };
        let is_logged_in = matches!(self.stage, Stage::Flowing { .. });
        if is_logged_in && now.since(self.said).0 >= HEARTBEAT_INTERVAL_NS {
            self.said = now;
            connection.send(&SoupPacket::ClientHeartbeat).map_err(failed)?;
        }
        connection.flush().map_err(failed)
    }

    /// Takes the packets of one read.
    fn take_all<O: Output>(
        &mut self,
        now: Nanos,
        inlet: &mut Inlet,
        decoding: &mut Decoding,
        out: &mut O,
    ) -> Result<(), StreamError> {
        let Stream { stage, connection, name, framed, failures, counts, .. } = self;
        let Some(connection) = connection else { return Err(StreamError::Closed) };
        while let Some(packet) = connection.next_packet() {
            let mut give = |session, sequence, kind, messages: &[u8]| {
                let packet = packet_of(session, sequence, kind, messages);
                inlet.notes.coming = Some(session);
                inlet.packet(Line::A, &packet, inlet.times_at(now), decoding, out);
            };
            match (*stage, SoupPacket::read(packet)?, *name) {
                (_, SoupPacket::ServerHeartbeat | SoupPacket::Debug(_), _) => {}
                (Stage::Asked, SoupPacket::LoginAccepted { session, sequence }, _) => {
                    *name = Some(MoldSession(session));
                    *stage = Stage::Flowing { sequence };
                    (*failures, counts.logins) = (0, counts.logins + 1);
                    give(MoldSession(session), sequence, PacketKind::Heartbeat, &[]);
                }
                (Stage::Asked, SoupPacket::LoginRejected(reject), _) => {
                    // The server no longer has the session: it is over.
                    *name = None;
                    return Err(StreamError::Refused(reject));
                }
                (Stage::Flowing { sequence }, SoupPacket::Sequenced(message), Some(session)) => {
                    counts.messages += 1;
                    *stage = Stage::Flowing { sequence: sequence.saturating_add(1) };
                    give(session, sequence, PacketKind::Data, framed.of(message));
                }
                (Stage::Flowing { sequence }, SoupPacket::EndOfSession, Some(session)) => {
                    give(session, sequence, PacketKind::EndOfSession, &[]);
                    *name = None;
                    return Err(StreamError::EndOfSession);
                }
                _ => return Err(StreamError::OutOfPlace),
            }
        }
        Ok(())
    }

    fn end(&mut self, error: StreamError, now: Nanos) {
        (self.stage, self.connection) = (Stage::Down, None);
        self.counts.failed += 1;
        self.counts.last_error = Some(error);
        let StreamSettings { retry_min, retry_max, .. } = self.settings;
        let pause = match error {
            // A login that was just refused stays refused, and no session begins right after
            // another.
            StreamError::Refused(Reject::NotAuthorized) | StreamError::EndOfSession => retry_max.0,
            _ => retry_min.0.saturating_mul(1 << self.failures.min(30)).min(retry_max.0),
        };
        self.failures = self.failures.saturating_add(1);
        self.not_before = Nanos(now.0.saturating_add(pause));
    }
}

/// Prefixes a message with its length, as MoldUDP64 does, because the codec splits messages that
/// way.
#[derive(Debug, Default)]
pub(super) struct Framed {
    bytes: Vec<u8>,
}

impl Framed {
    /// Returns the message prefixed with its length. A message of SoupBinTCP or of a day file has
    /// at most 65,535 bytes; a longer one would be truncated.
    pub fn of(&mut self, message: &[u8]) -> &[u8] {
        let len = u16::try_from(message.len()).unwrap_or(u16::MAX);
        self.bytes.clear();
        self.bytes.extend_from_slice(&len.to_be_bytes());
        self.bytes.extend_from_slice(&message[..usize::from(len)]);
        &self.bytes
    }
}

/// Builds a packet of the only channel with one message or none.
pub(super) fn packet_of(
    session: MoldSession,
    sequence: u64,
    kind: PacketKind,
    messages: &[u8],
) -> Packet<'_> {
    Packet {
        channel: 0,
        session: session.number(),
        sequence,
        count: u32::from(kind == PacketKind::Data),
        kind,
        ts_send: Nanos(0),
        stream_offset: None,
        messages,
    }
}

fn failed(error: io::Error) -> StreamError {
    StreamError::Connection(error.kind())
}
