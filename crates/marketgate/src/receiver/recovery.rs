//! Snapshot recovery: restores a channel that lost messages from a GLIMPSE snapshot over TCP.
//!
//! | stage | condition | action and next stage |
//! | --- | --- | --- |
//! | idle | messages are lost, and the pause is over | connecting |
//! | connecting | the connection is established | the channel starts to hold packets: leading |
//! | leading | longer than the server may lag behind the lines | log in: coming |
//! | coming | the login is accepted | books are cleared; each message is an update |
//! | coming | the snapshot is complete | reaching |
//! | reaching | the lines have reached the snapshot's sequence number | joined: idle |
//! | any | failure or timeout | held packets are delivered, STALE; idle, with a pause |
//! | any | another session begins on the lines | idle: its books were cleared with the session |
//!
//! The snapshot's sequence number is trusted only after the lines have reached it: a wrong number
//! would make them skip messages that no snapshot contains.

use std::io;

use weir_feed::FeedError;
use weir_feed::line::Lines;
use weir_feed::moldudp64::MoldSession;
use weir_feed::soupbin::{Glimpse, GlimpseError, Outcome, SoupPacket};
use weir_types::Nanos;

use super::config::SnapshotRecovery;
use super::counts::SnapshotCounts;
use super::handler::Decoding;
use super::inlet::{Inlet, Times};
use super::output::{ChannelEvent, ChannelKey, ClearReason, Origin, Output};
use super::soup::{Connection, ReadOutcome};

/// The one channel of MoldUDP64's lines.
const CHANNEL: u32 = 0;
/// The maximum number of reads of one poll.
const READS_MAX: usize = 4;
/// The poll interval of a connection for a caller that sleeps in between.
const LOOK_EVERY: Nanos = Nanos(1_000_000);
/// The time after a snapshot from which new losses no longer count as a failure of it.
const CALM: Nanos = Nanos(30_000_000_000);

/// The reason a snapshot failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Connection(io::ErrorKind),
    /// The server ended the connection before the snapshot was whole.
    #[error("the server ended the connection before the snapshot was whole")]
    Closed,
    /// The server's packets are not a valid snapshot.
    #[error(transparent)]
    Glimpse(#[from] GlimpseError),
    /// The snapshot is of another session than the lines.
    #[error("a snapshot of session `{theirs}`, and the lines are in `{ours}`",
        theirs = .theirs.0.escape_ascii(), ours = .ours.0.escape_ascii())]
    OtherSession {
        /// The snapshot's session.
        theirs: MoldSession,
        /// The lines' session.
        ours: MoldSession,
    },
    /// A message that the books need was not decoded.
    #[error("a message of the snapshot was not understood{}",
        .0.map(|error| format!(": {error}")).unwrap_or_default())]
    NotUnderstood(Option<FeedError>),
    /// The time limit expired.
    #[error("not whole after {0} ns")]
    TooSlow(u64),
    /// The lines did not reach the snapshot's sequence number in time.
    #[error("the snapshot goes on with message {next}, and the lines came to {heard_to}")]
    NotReached {
        /// The sequence number after the snapshot.
        next: u64,
        /// The sequence number that the lines reached.
        heard_to: u64,
    },
    /// Another session began on the lines.
    #[error("another session began")]
    NewSession,
}

#[derive(Debug)]
enum Stage {
    Idle,
    Connecting,
    Leading { since: Nanos },
    Coming { glimpse: Glimpse, has_begun: bool },
    Reaching { next: u64 },
}

/// The result of a step: the amount of work done, or the snapshot's sequence number.
enum RecoveryOutcome {
    Stay(usize),
    Whole(u64),
}

/// The snapshot recovery of one pair of lines.
#[derive(Debug)]
pub(super) struct Recovery {
    settings: SnapshotRecovery,
    stage: Stage,
    connection: Option<Connection>,
    since: Nanos,
    not_before: Nanos,
    /// Consecutive attempts that failed or did not last.
    failures: u32,
    joined_at: Option<Nanos>,
    looked_at: Nanos,
    pub counts: SnapshotCounts,
}

impl Recovery {
    pub fn new(settings: SnapshotRecovery) -> Recovery {
        Recovery {
            settings,
            stage: Stage::Idle,
            connection: None,
            since: Nanos(0),
            not_before: Nanos(0),
            failures: 0,
            joined_at: None,
            looked_at: Nanos(0),
            counts: SnapshotCounts::default(),
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
        if std::mem::take(&mut inlet.notes.has_new_session) {
            self.leave_session();
        }
        match self.step(now, inlet, decoding, out) {
            Ok(RecoveryOutcome::Stay(done)) => done,
            Ok(RecoveryOutcome::Whole(next)) => {
                self.connection = None;
                self.stage = Stage::Reaching { next };
                self.since = now;
                1
            }
            Err(error) => {
                self.fail(error, now, inlet, decoding, out);
                1
            }
        }
    }

    /// The time of the next poll that is due even if no line receives anything.
    pub fn deadline(&self, inlet: &Inlet) -> Option<Nanos> {
        match self.stage {
            Stage::Idle => inlet.notes.wants_snapshot.then_some(self.not_before),
            _ => Some(after(self.looked_at, LOOK_EVERY)),
        }
    }

    fn step<O: Output>(
        &mut self,
        now: Nanos,
        inlet: &mut Inlet,
        decoding: &mut Decoding,
        out: &mut O,
    ) -> Result<RecoveryOutcome, RecoveryError> {
        let spent = now.since(self.since);
        match &self.stage {
            Stage::Idle => {
                if inlet.notes.wants_snapshot && now >= self.not_before {
                    self.connect(now)?;
                    return Ok(RecoveryOutcome::Stay(1));
                }
                Ok(RecoveryOutcome::Stay(0))
            }
            _ if spent >= self.settings.timeout => Err(RecoveryError::TooSlow(spent.0)),
            Stage::Connecting => self.hold_back(now, inlet, decoding, out),
            Stage::Leading { since } => {
                if now.since(*since) < self.settings.lead {
                    Ok(RecoveryOutcome::Stay(0))
                } else {
                    self.log_in(now)
                }
            }
            Stage::Coming { .. } => self.take(now, inlet, decoding, out),
            Stage::Reaching { next } => {
                let next = *next;
                self.reach(next, now, inlet, decoding, out)
            }
        }
    }

    fn connect(&mut self, now: Nanos) -> Result<(), RecoveryError> {
        self.counts.attempts += 1;
        self.since = now;
        self.stage = Stage::Connecting;
        self.connection = Some(Connection::open(self.settings.address).map_err(failed)?);
        Ok(())
    }

    /// Starts to hold the lines' packets once the connection is established, before the snapshot
    /// can have been taken.
    fn hold_back<O: Output>(
        &mut self,
        now: Nanos,
        inlet: &mut Inlet,
        decoding: &mut Decoding,
        out: &mut O,
    ) -> Result<RecoveryOutcome, RecoveryError> {
        let Some(connection) = &self.connection else { return Err(RecoveryError::Closed) };
        if !connection.is_made().map_err(failed)? {
            return Ok(RecoveryOutcome::Stay(0));
        }
        self.stage = Stage::Leading { since: now };
        let (lines, mut handler) = inlet.handler(inlet.times_at(now), decoding, out);
        if let Ok(channel) = lines.channel_mut(CHANNEL) {
            channel.begin_recovery(&mut handler);
        }
        Ok(RecoveryOutcome::Stay(1))
    }

    fn log_in(&mut self, now: Nanos) -> Result<RecoveryOutcome, RecoveryError> {
        let Some(connection) = &mut self.connection else { return Err(RecoveryError::Closed) };
        let glimpse = Glimpse::new(self.settings.login, now);
        let login = glimpse.login();
        self.stage = Stage::Coming { glimpse, has_begun: false };
        connection.send(&login).map_err(failed)?;
        Ok(RecoveryOutcome::Stay(1))
    }

    fn take<O: Output>(
        &mut self,
        now: Nanos,
        inlet: &Inlet,
        decoding: &mut Decoding,
        out: &mut O,
    ) -> Result<RecoveryOutcome, RecoveryError> {
        let Recovery { stage: Stage::Coming { glimpse, has_begun }, .. } = self else {
            return Ok(RecoveryOutcome::Stay(0));
        };
        let Some(connection) = &mut self.connection else { return Err(RecoveryError::Closed) };
        let channel = ChannelKey { pair: inlet.pair, number: CHANNEL };
        let Times { ts_recv, ts_poll, .. } = inlet.times_at(now);
        let origin = Origin { channel, ts_recv, ts_poll, is_snapshot: true };
        let mut done = 0;
        for _ in 0..READS_MAX {
            match connection.receive().map_err(failed)? {
                ReadOutcome::Some => done += 1,
                ReadOutcome::Nothing => break,
                ReadOutcome::Closed => return Err(RecoveryError::Closed),
            }
            while let Some(packet) = connection.next_packet() {
                let ours = self.settings.is_same_session.then_some(inlet.notes.name);
                check_session(packet, ours)?;
                match glimpse.take(packet, now)? {
                    Outcome::Nothing => {}
                    Outcome::Accepted => {
                        *has_begun = true;
                        let reason = ClearReason::SnapshotBegins;
                        out.channel(channel, &ChannelEvent::Clear { reason });
                    }
                    Outcome::Message(_, message) => {
                        self.counts.messages += 1;
                        if !decoding.message(&origin, 0, Nanos(0), message, out) {
                            return Err(RecoveryError::NotUnderstood(decoding.last_error));
                        }
                    }
                    Outcome::Complete { next_sequence } => {
                        out.end_of_packet(&origin);
                        // The snapshot is complete whether or not the server receives the logout.
                        let _is_sent = connection.send(&SoupPacket::LogoutRequest);
                        return Ok(RecoveryOutcome::Whole(next_sequence));
                    }
                }
            }
            out.end_of_packet(&origin);
        }
        if glimpse.on_time(now)? {
            connection.send(&SoupPacket::ClientHeartbeat).map_err(failed)?;
        }
        connection.flush().map_err(failed)?;
        Ok(RecoveryOutcome::Stay(done))
    }

    fn reach<O: Output>(
        &mut self,
        next: u64,
        now: Nanos,
        inlet: &mut Inlet,
        decoding: &mut Decoding,
        out: &mut O,
    ) -> Result<RecoveryOutcome, RecoveryError> {
        let heard_to = inlet.only_channel().map_or(0, |channel| channel.heard_to());
        if next > heard_to {
            if now.since(self.since) >= self.settings.reach_timeout {
                return Err(RecoveryError::NotReached { next, heard_to });
            }
            return Ok(RecoveryOutcome::Stay(0));
        }
        let Some(session) = inlet.notes.session else { return Err(RecoveryError::NewSession) };
        inlet.notes.wants_snapshot = false;
        let times = inlet.times_at(now);
        let (lines, mut handler) = inlet.handler(times, decoding, out);
        let is_joined = lines
            .channel_mut(CHANNEL)
            .is_ok_and(|channel| channel.join(session, next, now, &mut handler));
        if !is_joined {
            return Err(RecoveryError::NewSession);
        }
        inlet.settle_damage(times, decoding, out);
        inlet.end_of_packet(CHANNEL, times, out);
        self.counts.joined += 1;
        self.stage = Stage::Idle;
        // A snapshot followed by losses at once did not help: each further attempt waits longer.
        let is_calm = self.joined_at.is_none_or(|last| now.since(last) >= CALM);
        self.failures = if is_calm { 0 } else { self.failures.saturating_add(1) };
        self.joined_at = Some(now);
        self.not_before = after(now, self.pause());
        Ok(RecoveryOutcome::Stay(1))
    }

    fn fail<O: Output>(
        &mut self,
        error: RecoveryError,
        now: Nanos,
        inlet: &mut Inlet,
        decoding: &mut Decoding,
        out: &mut O,
    ) {
        self.note_failure(error);
        self.failures = self.failures.saturating_add(1);
        self.not_before = after(now, self.pause());
        inlet.notes.wants_snapshot = true;
        let has_begun = match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle | Stage::Connecting => return,
            Stage::Leading { .. } => false,
            Stage::Coming { has_begun, .. } => has_begun,
            Stage::Reaching { .. } => true,
        };
        if has_begun {
            let channel = ChannelKey { pair: inlet.pair, number: CHANNEL };
            let reason = ClearReason::SnapshotFailed;
            out.channel(channel, &ChannelEvent::Clear { reason });
        }
        let times = inlet.times_at(now);
        let (lines, mut handler) = inlet.handler(times, decoding, out);
        abandon(lines, now, &mut handler);
        inlet.settle_damage(times, decoding, out);
        inlet.end_of_packet(CHANNEL, times, out);
    }

    /// Ends a recovery whose session the lines have left; the held packets are gone with it.
    fn leave_session(&mut self) {
        if !matches!(self.stage, Stage::Idle) {
            self.note_failure(RecoveryError::NewSession);
            self.stage = Stage::Idle;
        }
        self.failures = 0;
        self.not_before = Nanos(0);
    }

    fn note_failure(&mut self, error: RecoveryError) {
        self.connection = None;
        self.counts.failed += 1;
        self.counts.last_error = Some(error);
    }

    /// The pause before the next attempt.
    fn pause(&self) -> Nanos {
        let SnapshotRecovery { retry_min, retry_max, .. } = self.settings;
        let doubled = retry_min.0.saturating_mul(1 << self.failures.saturating_sub(1).min(30));
        Nanos(doubled.min(retry_max.0))
    }
}

fn abandon(lines: &mut Lines, now: Nanos, handler: &mut impl weir_feed::line::Handler) {
    if let Ok(channel) = lines.channel_mut(CHANNEL) {
        channel.abandon_recovery(now, handler);
    }
}

/// Refuses an answer to the login that names another session than `ours`.
fn check_session(packet: &[u8], ours: Option<MoldSession>) -> Result<(), RecoveryError> {
    let (Some(b'A'), Some(ours)) = (packet.first(), ours) else { return Ok(()) };
    match SoupPacket::read(packet) {
        Ok(SoupPacket::LoginAccepted { session, .. })
            if MoldSession(session).number() != ours.number() =>
        {
            Err(RecoveryError::OtherSession { theirs: MoldSession(session), ours })
        }
        _ => Ok(()),
    }
}

fn after(moment: Nanos, span: Nanos) -> Nanos {
    Nanos(moment.0.saturating_add(span.0))
}

fn failed(error: io::Error) -> RecoveryError {
    RecoveryError::Connection(error.kind())
}
