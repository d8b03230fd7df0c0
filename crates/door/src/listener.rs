//! A listener: the sockets of one door, and everything about them that does not depend on the
//! messages of its sessions.
//!
//! It owns the poll, the entrance and the connections. It accepts within limits, takes logons,
//! reads frames, answers malformed frames and those without a place, sends output and heartbeats,
//! and ends connections: those that do not log on, fall silent or do not read, and sessions whose
//! key expires or is replaced. A [`Protocol`] acts on the messages of a session and produces the
//! output; it is known at compile time.
//!
//! The gateway has connections of its own: see the head of its `newcomers.rs`.
//!
//! INVARIANT: a cycle accepts at most [`ACCEPTS_MAX`] connections, reads at most [`TURNS_MAX`] of
//! them, and takes at most [`FRAMES_MAX`] frames, and no more than its input buffer holds, from
//! each. A connection's input, and its output but for the additions of one turn of the protocol,
//! are bounded by the [`Terms`](crate::Terms).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_io::Rng;
use weir_io::descriptors::DescriptorRoom;
use weir_io::net::{Events, Net, Poll, Token, Waker};
use weir_runtime::{Agent, Poller};
use weir_types::{Nanos, Reason, SessionId, WallOffset};
use weir_wire::dialogue::peek_session_and_request;
use weir_wire::frame::{Framing, RawMessage, next_frame, put_frame};
use weir_wire::session::NodeId;
use weir_wire::{ClientMessage, DecodeError, Definition, Event};

use crate::directory::{Directory, SessionChange};
use crate::figures::{DoorFigures, add};
use crate::links::{Link, Links, Origin};
use crate::lobby::{LEAVE_WHEN_SHORT, Lobby, LobbyLimits};
use crate::plant::{self, Plant};
use crate::protocol::{Intake, OwnMessage, Protocol, SessionMessage};
use crate::reception::{MessageOrigin, Reception};
use crate::takeover::{Takeovers, is_asked_for, logon_time};
use crate::transport::{Ending, Transport};
use crate::words::heartbeat;
use crate::{
    ConnectionId, Door, Entrance, LoggedOn, LogonOutcome, ProvedLogon, Scratch, Socket, reason_of,
    reject, take_logon,
};

const WAKER: Token = Token(usize::MAX);
const LISTENER: Token = Token(usize::MAX - 1);
/// The token of a socket that the protocol registers itself.
const OWN: Token = Token(usize::MAX - 2);
/// Connections accepted in one cycle.
const ACCEPTS_MAX: usize = 16;
/// Connections read in one cycle.
const TURNS_MAX: usize = 256;
/// The number of them that may be turns of connections whose frames wait.
const WAITING_MAX: usize = TURNS_MAX / 2;
/// Frames taken from one connection in one cycle.
const FRAMES_MAX: usize = 1_024;
/// Definitions taken in one cycle.
const DEFINITIONS_MAX: usize = 256;
/// The time between two looks at deadlines, in nanoseconds.
const CARE_INTERVAL: u64 = 50_000_000;
/// The time until a frame that found no room is tried again, in nanoseconds.
const WAIT_INTERVAL: u64 = 500_000;

/// A door's limits on connections.
#[derive(Clone, Copy, Debug)]
pub struct DoorLimits {
    /// Connections at the same time.
    pub connections_max: usize,
    /// The limits on connections without a session.
    pub lobby: LobbyLimits,
}

/// The parts of a listener that do not depend on its protocol.
pub struct ListenerParts {
    /// The source of connections.
    pub door: Door,
    /// The node's identity, for challenges.
    pub node_id: NodeId,
    /// Draws nonces.
    pub rng: Box<dyn Rng + Send>,
    /// The limits.
    pub limits: DoorLimits,
    /// Set when the node stops: no connection is accepted any more.
    pub draining: Arc<AtomicBool>,
    /// Figures for other threads.
    pub figures: Arc<DoorFigures>,
}

/// A listener and its protocol: the agent of a door.
pub struct Listener<P: Protocol> {
    poll: Poll,
    events: Events,
    entrance: Entrance,
    lobby: Lobby,
    reception: Reception,
    record: Vec<u8>,
    scratch: Scratch,
    links: Links<P::State>,
    takeovers: Takeovers,
    protocol: P,
    connections_max: usize,
    next_care: Nanos,
    draining: Arc<AtomicBool>,
    figures: Arc<DoorFigures>,
}

impl<P: Protocol> Listener<P> {
    /// A listener that knows all sessions that the control log has defined.
    ///
    /// # Errors
    /// When the operating system refuses a poll or the listening socket.
    pub fn new(parts: ListenerParts, mut protocol: P) -> std::io::Result<Listener<P>> {
        let poll = Net::System.poll()?;
        let entrance = parts.door.open(poll.registry(), LISTENER)?;
        protocol.begin(poll.registry(), OWN)?;
        let reception = Reception::new(parts.node_id, parts.rng);
        let order = reception.map_order();
        let mut listener = Listener {
            poll,
            events: Events::with_capacity(1_024),
            entrance,
            lobby: Lobby::new(parts.limits.lobby, order),
            record: Vec::with_capacity(512),
            scratch: Scratch::new(P::TERMS.read_len),
            links: Links::new(P::TERMS.section, parts.figures.clone(), order),
            takeovers: Takeovers::new(order),
            reception,
            protocol,
            connections_max: parts.limits.connections_max,
            next_care: Nanos(0),
            draining: parts.draining,
            figures: parts.figures,
        };
        // Those of before the start take nobody's rights away: nobody is logged on.
        while listener.protocol.next_control_event(&mut listener.record) {
            if let Ok(Event::Defined(_, definition)) = Event::decode(&listener.record) {
                listener.reception.directory.define(&definition);
            }
        }
        Ok(listener)
    }

    /// Takes in definitions of sessions.
    fn take_definitions(&mut self, now: Nanos) -> usize {
        let mut count = 0;
        while count < DEFINITIONS_MAX && self.protocol.next_control_event(&mut self.record) {
            count += 1;
            if let Ok(Event::Defined(_, definition)) = Event::decode(&self.record) {
                self.define(&definition, now);
            }
        }
        count
    }

    /// Takes in a definition and ends the session that it takes the key or its rights from, by the
    /// table of [`SessionChange::reason_to_end`].
    fn define(&mut self, definition: &Definition, now: Nanos) {
        let Some(redefined) = self.reception.directory.define(definition) else { return };
        self.protocol.redefined(&redefined);
        let SessionChange { session_id, known, .. } = redefined;
        if !self.links.has_session(session_id) {
            return;
        }
        let reason_for = |link: &mut Link<P::State>| {
            let session = link.session.as_mut().filter(|s| s.session_id == session_id)?;
            session.valid_until = known.valid_until;
            redefined.reason_to_end(session.firm_id, session.role)
        };
        self.links.end_where(reason_for, now);
    }

    fn accept(&mut self, now: Nanos) -> usize {
        let is_draining = self.draining.load(Ordering::Relaxed);
        let mut count = 0;
        while count < ACCEPTS_MAX
            && !is_draining
            && let Some((transport, peer)) = self.entrance.accept()
        {
            count += 1;
            self.admit(transport, peer, now);
        }
        // Those from inside have a number of their own: a crowd at the door does not keep them out.
        let mut inside_count = 0;
        while inside_count < ACCEPTS_MAX
            && let Some(stream) = self.protocol.next_inside()
        {
            inside_count += 1;
            if !is_draining {
                self.admit(Transport::Plain(stream), None, now);
            }
        }
        count + inside_count
    }

    fn admit(&mut self, mut transport: Transport, peer: Option<SocketAddr>, now: Nanos) {
        if !self.protocol.is_serving() {
            return self.turn_away(peer, "the door does not serve", now);
        }
        let address = peer.map(|peer| peer.ip());
        let room = transport.stream().descriptor_room();
        let is_full = self.links.count() >= self.connections_max;
        match self.lobby.place_for(address, is_full || room != DescriptorRoom::Plenty) {
            Some(stranger) => self.links.end(stranger, Reason::TooManyConnections, now),
            None if is_full => return self.turn_away(peer, "sessions have all places", now),
            None => {}
        }
        if room != DescriptorRoom::Plenty {
            for _ in 1..LEAVE_WHEN_SHORT {
                let Some(stranger) = self.lobby.place_for(None, true) else { break };
                self.links.end(stranger, Reason::TooManyConnections, now);
            }
        }
        if room == DescriptorRoom::None {
            return self.turn_away(peer, "no descriptor is left for connections", now);
        }
        let is_inside = transport.stream().is_local();
        let limits = if is_inside { P::TERMS.inside_limits } else { P::TERMS.limits };
        let id = self.links.reserve();
        let Ok(socket) = Socket::open(transport, limits, (self.poll.registry(), token(id)), now)
        else {
            self.links.release(id);
            return;
        };
        add(&self.figures.accepted, 1);
        self.links.insert(id, socket, Origin { peer, is_inside });
        self.lobby.enter(id, address, now);
    }

    fn turn_away(&mut self, peer: Option<SocketAddr>, why: &'static str, now: Nanos) {
        add(&self.figures.connections_refused, 1);
        self.links.lines().turned_away(peer, why, now);
    }

    /// Reads connections that have input, a bounded number; returns the number of frames.
    fn read(&mut self, now: Nanos) -> usize {
        let mut frames = 0;
        for _ in 0..self.links.begin_turns(WAITING_MAX).min(TURNS_MAX) {
            let Some(mut link) = self.links.next_turn() else { continue };
            if !link.socket.is_closing() && link.socket.has_room() {
                link.socket.fill(&mut self.scratch, now);
                frames += self.take_frames(&mut link, now);
                self.links.want_more(&mut link);
            }
            self.links.touch_taken(&mut link);
            self.links.put_back(link);
        }
        frames
    }

    /// Takes whole frames until one has to wait or the turn is over; returns their number.
    fn take_frames(&mut self, link: &mut Link<P::State>, now: Nanos) -> usize {
        let len_max = P::TERMS.frame_len_max;
        let input = link.socket.take_input();
        let (mut consumed, mut frames) = (0, 0);
        let has_waited = std::mem::take(&mut link.must_wait);
        link.has_frames = false;
        while !link.socket.is_closing() {
            if frames == FRAMES_MAX || !link.socket.has_room() {
                link.has_frames = true;
                break;
            }
            match next_frame(&input[consumed..], len_max) {
                Framing::Incomplete => break,
                Framing::Broken(broken) => {
                    add(&self.figures.malformed, 1);
                    self.links.close(link, reason_of(broken, len_max), now);
                }
                Framing::Frame { len, message } => {
                    let frame = &input[consumed..consumed + len];
                    if self.take_frame(link, frame, message, now) {
                        consumed += len;
                        frames += 1;
                    } else {
                        // A frame that is tried again in vain waits once.
                        add(&self.figures.back_pressure, u64::from(!has_waited || frames > 0));
                        link.must_wait = true;
                        break;
                    }
                }
            }
        }
        link.socket.return_input(input, consumed);
        frames
    }

    /// Takes a frame; false when it has to wait.
    fn take_frame(
        &mut self,
        link: &mut Link<P::State>,
        frame: &[u8],
        message: Result<RawMessage<'_>, DecodeError>,
        now: Nanos,
    ) -> bool {
        let (raw, intake) = match &message {
            Ok(raw) => (Some(raw), self.take_message(link, frame, raw, now)),
            Err(error) => (None, Intake::Refused(error.reason(), error.field())),
        };
        if let Intake::Refused(reason, field) = intake {
            put_frame(&reject(raw, reason, field), &mut link.socket.output);
            add(&self.figures.malformed, 1);
            if link.socket.count_error() {
                self.links.close(link, Reason::TooManyErrors, now);
            }
        }
        intake != Intake::Wait
    }

    fn take_message(
        &mut self,
        link: &mut Link<P::State>,
        frame: &[u8],
        raw: &RawMessage<'_>,
        now: Nanos,
    ) -> Intake {
        if let Some(session) = link.session {
            let said = OwnMessage { raw, len: frame.len(), session };
            if let Some(intake) = self.protocol.take_own(link, said, now) {
                return intake;
            }
        }
        let message = match ClientMessage::decode(raw) {
            Ok(message) => message,
            Err(error) => return Intake::Refused(error.reason(), error.field()),
        };
        match &message {
            ClientMessage::Heartbeat(_) => Intake::Done,
            ClientMessage::Logout(_) => {
                self.links.close(link, Reason::LogoutRequested, now);
                Intake::Done
            }
            ClientMessage::Logon(..)
            | ClientMessage::ChallengeRequest(_)
            | ClientMessage::SignedLogon(..) => self.take_logon(link, raw, &message, now),
            message if !P::serves(message) => Intake::Refused(Reason::NotServedHere, ""),
            message => match link.session {
                Some(session) if peek_session_and_request(raw).0 == session.session_id => {
                    self.protocol.take(link, SessionMessage { message, raw, frame, session }, now)
                }
                _ => Intake::Refused(Reason::NotLoggedOn, "session_id"),
            },
        }
    }

    fn take_logon(
        &mut self,
        link: &mut Link<P::State>,
        raw: &RawMessage<'_>,
        message: &ClientMessage<'_>,
        now: Nanos,
    ) -> Intake {
        // A session whose connection ended in this cycle is free, and needs no takeover.
        self.tell_closed(now);
        let accepted_at = link.socket.accepted_at();
        let via = MessageOrigin { connection: link.id, accepted_at, now };
        let (links, protocol, takeovers) = (&self.links, &self.protocol, &self.takeovers);
        let is_taken = link.session.is_some();
        let may = |ProvedLogon { session_id, role, takeover }: ProvedLogon| {
            let elsewhere = links.logged_on_at(session_id).filter(|_| P::TERMS.is_exclusive);
            let is_refused = elsewhere.is_some_and(|logged_on_at| {
                let is_asked_for = is_asked_for(takeover, via, logged_on_at);
                !is_asked_for || !takeovers.permit(session_id, now)
            });
            if is_taken || is_refused {
                return Err(Reason::AlreadyLoggedOn);
            }
            if !protocol.may_enter(role) {
                return Err(Reason::NotEntitled);
            }
            if links.connections_of(session_id) >= protocol.session_connections_max() {
                return Err(Reason::TooManySessionConnections);
            }
            Ok(())
        };
        match take_logon(&mut self.reception, raw, message, via, may, &mut link.socket.output) {
            LogonOutcome::Open(session) => {
                if P::TERMS.is_exclusive {
                    self.end_elsewhere(session.session_id, now);
                }
                self.links.logged_on(link, session, logon_time(via));
                self.lobby.logged_on(link.id);
                self.protocol.logged_on(link, session, now);
            }
            LogonOutcome::Refused(reason) => {
                add(&self.figures.logons_refused, 1);
                let session_id = peek_session_and_request(raw).0;
                self.links.lines().refused_logon(link.peer, session_id, reason, now);
                let has_too_many = link.socket.count_error();
                // One connection gets one guess of a key or session.
                if reason == Reason::UnknownKey {
                    self.links.close(link, reason, now);
                } else if has_too_many {
                    self.links.close(link, Reason::TooManyErrors, now);
                }
            }
            LogonOutcome::Challenged | LogonOutcome::Other => {}
            LogonOutcome::Wait => return Intake::Wait,
        }
        Intake::Done
    }

    /// Ends the connection from which a session is taken over. Its peer is told so if its socket
    /// takes that; the session is free at once.
    fn end_elsewhere(&mut self, session_id: SessionId, now: Nanos) {
        if !self.links.has_session(session_id) {
            return;
        }
        let is_on = |link: &mut Link<P::State>| link.session_id() == session_id;
        self.links.end_where(|link| is_on(link).then_some(Reason::TakenOver), now);
        self.tell_closed(now);
        self.takeovers.note(session_id, now);
    }

    /// Sends heartbeats, and ends connections whose time is over.
    fn care(&mut self, now: Nanos) {
        if now < self.next_care {
            return;
        }
        self.next_care = Nanos(now.0 + CARE_INTERVAL);
        let Listener { links, lobby, reception, .. } = self;
        let (directory, full_time_max) = (&reception.directory, P::TERMS.full_time_max);
        let limits = CareLimits { full_time_max, lobby, directory };
        links.end_where(|link| reason_to_end(link, &limits, now), now);
        let wall = directory.wall_at(now);
        links.touch_where(|link| {
            let session = link.session.as_ref();
            let is_due = session.is_some_and(|session| {
                let LoggedOn { session_id, heartbeat_interval, .. } = *session;
                link.socket.keep_alive(&heartbeat(session_id, wall), heartbeat_interval, now)
            });
            is_due | link.socket.give_up(now)
        });
        links.show();
        self.protocol.show(links, now);
    }

    /// Sends output, and removes connections that have ended.
    fn flush(&mut self, now: Nanos) {
        let ids = self.links.begin_flush();
        for id in ids.iter().copied() {
            let Some(mut link) = self.links.next_flush(id) else { continue };
            let had_room = link.socket.has_room();
            link.socket.flush(now);
            self.protocol.flushed(&mut link, had_room);
            if link.socket.has_ended() {
                self.remove(link, now);
                continue;
            }
            if link.end_flush(now) && !had_room {
                self.links.want_more(&mut link);
            }
            self.links.put_back(link);
        }
        self.links.end_flush(ids);
    }

    fn remove(&mut self, mut link: Box<Link<P::State>>, now: Nanos) {
        match link.socket.ending() {
            Some(Ending::Truncated) => add(&self.figures.tls_truncated, 1),
            Some(Ending::Broken) => add(&self.figures.tls_broken, 1),
            Some(Ending::Closed) | None => {}
        }
        link.socket.leave(self.poll.registry());
        self.reception.forget(link.id);
        self.lobby.gone(link.id);
        self.tell_gone(&mut link, now);
        self.links.remove(&link);
    }

    /// Tells the protocol of a connection's end, once, and ends its session.
    fn tell_gone(&mut self, link: &mut Link<P::State>, now: Nanos) {
        if !std::mem::replace(&mut link.is_told_gone, true) {
            self.protocol.gone(link, now);
            self.links.free_session(link);
        }
    }

    /// Tells the protocol of the connections that this end has closed: nothing is produced for a
    /// session behind its farewell, however long the peer takes to read that.
    fn tell_closed(&mut self, now: Nanos) {
        if plant::is(Plant::EndUntold) {
            return;
        }
        while let Some(mut link) = self.links.next_ended() {
            self.tell_gone(&mut link, now);
            self.links.put_back(link);
        }
    }
}

/// The limits by which connections end.
struct CareLimits<'a> {
    full_time_max: Nanos,
    lobby: &'a Lobby,
    directory: &'a Directory,
}

/// The reason to end a connection now, if there is one.
fn reason_to_end<S>(link: &mut Link<S>, limits: &CareLimits<'_>, now: Nanos) -> Option<Reason> {
    if link.is_full_for(limits.full_time_max, now) {
        return Some(Reason::SlowConsumer);
    }
    let Some(session) = link.session else {
        return limits.lobby.is_overdue(link.id, now).then_some(Reason::LogonTimeout);
    };
    let until = (session.heartbeat_interval, limits.directory.expires_at(session.valid_until));
    link.socket.lapse(until, link.is_heard(), now)
}

/// The token of a connection; the listener's own tokens are above all of them.
fn token(id: ConnectionId) -> Token {
    Token(usize::try_from(id.0).expect("a usize has 64 bits"))
}

impl<P: Protocol> Agent for Listener<P> {
    fn name(&self) -> &'static str {
        P::TERMS.name
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        // A session that was just defined can log on, one whose key was replaced cannot.
        let mut done = self.take_definitions(now);
        self.tell_closed(now);
        done += self.protocol.hear(&mut self.links, now);
        done += self.accept(now);
        done += self.read(now);
        self.tell_closed(now);
        done += self.protocol.produce(&mut self.links, now);
        self.care(now);
        self.tell_closed(now);
        self.flush(now);
        done
    }

    fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.reception.directory.wall_clock_moved(wall);
        self.protocol.wall_clock_moved(wall);
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        if self.links.has_turns() {
            return Some(now);
        }
        let retry = self.links.has_waiting().then_some(Nanos(now.0 + WAIT_INTERVAL));
        let own = self.protocol.next_deadline(&self.links, now);
        [retry, own].into_iter().flatten().chain([self.next_care]).min()
    }

    fn stop(&mut self, now: Nanos) -> bool {
        self.links.end_all(Reason::Stopping, now);
        self.links.flush_all(now);
        self.protocol.stop();
        // A peer that does not read its farewell sees the end of the connection.
        true
    }
}

impl<P: Protocol> Poller for Listener<P> {
    fn poll(&mut self, timeout: Option<Duration>) {
        if let Err(error) = self.poll.poll(&mut self.events, timeout) {
            let is_interrupted = error.kind() == std::io::ErrorKind::Interrupted;
            assert!(is_interrupted, "the poll of {} failed: {error}", P::TERMS.name);
            return;
        }
        for event in self.events.iter() {
            match event.token {
                WAKER => {}
                LISTENER => self.entrance.is_ready(),
                OWN => self.protocol.own_is_ready(),
                Token(number) => self.links.note(ConnectionId(number as u64), event),
            }
        }
    }

    fn waker(&self) -> std::io::Result<Waker> {
        self.poll.waker(WAKER)
    }
}
