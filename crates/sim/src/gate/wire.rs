//! The clients' connections: each carries several sessions, is lost and made again, and is
//! disturbed as the seed decides.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

use weir_io::net::Stream;
use weir_io::net::sim::{SimNet, SimStream};
use weir_io::{Rng, SeededRng};
use weir_types::{Nanos, Reason, SessionId};
use weir_wire::dialogue::{NodeMessage, peek_session_and_request};
use weir_wire::frame::{Framing, RawMessage, next_frame};
use weir_wire::session::{ApiKey, Logon, Logout};

use super::addressed_events::{AddressedEvents, ReceivedReport};
use super::client::{AskTimes, Choices, Client, Next, ReceivedMessage};
use super::node::address;
use super::rival::Rival;
use super::strangers::Strangers;
use super::{GatePlan, GateTally};
use crate::crowd::Crowd;
use crate::oracle::{Violation, ensure};
use crate::plan::Plan;
use crate::workload::{COPY_DESK, OPERATOR, TRADERS};

/// The longest frame of a node.
pub(super) const FRAME_MAX: usize = 1 << 20;
/// The silence after which a client makes another connection.
const SILENCE_MAX: Nanos = Nanos(2_000_000_000);
/// The ports of a client's address.
const PORTS: u16 = 60_000;
/// Clients move to another connection in one of this many steps, and leave the one before open for
/// so many steps at most.
const MOVES_IN: u64 = 200;
const LEFT_STEPS: u64 = 300;
/// The lives for which a connection's clients stay away, at most.
const ABSENT_LIVES: u64 = 3;
/// Bytes that a client reads in one step.
pub(super) const READ_MAX: usize = 4_096;

/// A step's surroundings.
pub struct Context<'a> {
    /// The network.
    pub net: &'a SimNet,
    /// The clients' chance.
    pub rng: &'a mut SeededRng,
    /// The rules of what clients are told.
    pub told: &'a AddressedEvents,
    /// The record of all requests.
    pub crowd: &'a mut Crowd,
    /// The plan of the run.
    pub plan: &'a Plan,
    /// The plan of the life.
    pub gate: GatePlan,
    /// The number of processes so far.
    pub life: u64,
    /// The time.
    pub now: Nanos,
    /// The step.
    pub tick: u64,
    /// True while clients make new requests.
    pub asks: bool,
    /// True while the sessions with cancel-on-disconnect stay away.
    pub is_away: bool,
    /// The time by which a session must return after the start to keep its orders.
    pub return_by: Nanos,
    /// The last time at which the command log's disk stood, or descriptors were short.
    pub withheld_at: Nanos,
    /// The last time at which a second process had a connection for the operator's session.
    pub kept_at: Nanos,
    /// The time by which the times in requests are later than those of a run's beginning.
    pub since_beginning: Nanos,
}

/// A connection and its sessions.
struct Wire {
    clients: Vec<Client>,
    host: u8,
    stream: Option<Stream>,
    /// Connections so far: each has a port of its own.
    connection_count: u16,
    /// The process that it was made to.
    life: u64,
    connects_at: u64,
    reads_from: u64,
    input: Vec<u8>,
    output: Vec<u8>,
    heard_at: Nanos,
    /// True once the node has told the reason for its end.
    is_told: bool,
    /// True once its session was taken over: it is older than that logon, and cannot take it back.
    is_superseded: bool,
    /// The connection before, which its clients left and that goes on.
    left: Option<LeftConnection>,
}

/// A connection that clients have left for another one, without an end: their logons there take the
/// sessions over.
struct LeftConnection {
    stream: Stream,
    /// The process that it was made to.
    life: u64,
    /// The step at which it is closed.
    until: u64,
    input: Vec<u8>,
    ended: BTreeSet<SessionId>,
}

/// All connections.
pub struct Wires {
    wires: Vec<Wire>,
    rogue: Option<Stream>,
    rival: Rival,
    /// The random stream of moves to other connections.
    moves: SeededRng,
    /// The random stream of absences, if there are any.
    absences: Option<SeededRng>,
    /// The connection whose clients stay away, and the life before which they do not return.
    absent: Option<(usize, u64)>,
    strangers: Strangers,
    life: u64,
    /// The figures.
    pub tally: GateTally,
    is_calm: bool,
}

impl Wires {
    /// Creates the clients, without connections, and the second process with the operator's key.
    /// That one, the clients' moves to other connections and their absences have random streams of
    /// their own.
    #[must_use]
    pub fn new(
        rng: &mut SeededRng,
        rivals: SeededRng,
        moves: SeededRng,
        absences: SeededRng,
    ) -> Wires {
        let [first, second, third, fourth, _] = TRADERS;
        let sessions: [&[SessionId]; 4] =
            [&[OPERATOR], &[first, second], &[third], &[fourth, COPY_DESK]];
        let wires = (1..).zip(sessions).map(|(host, sessions)| {
            let client = |id: &SessionId| {
                let choices = match *id {
                    id if id == first => Choices::On,
                    id if id == fourth => Choices::Changing,
                    _ => Choices::Off,
                };
                Client::new(*id, choices)
            };
            Wire {
                clients: sessions.iter().map(client).collect(),
                host,
                stream: None,
                connection_count: 0,
                life: 0,
                connects_at: rng.below(20),
                reads_from: 0,
                input: Vec::new(),
                output: Vec::new(),
                heard_at: Nanos(0),
                is_told: false,
                is_superseded: false,
                left: None,
            }
        });
        Wires {
            wires: wires.collect(),
            rogue: None,
            rival: Rival::new(rivals),
            moves,
            absences: Some(absences),
            absent: None,
            strangers: Strangers::default(),
            life: 0,
            tally: GateTally::default(),
            is_calm: false,
        }
    }

    /// Lets no client stay away for a whole life.
    pub fn are_never_absent(&mut self) {
        self.absences = None;
    }

    /// A new process begins.
    pub fn begin_life(&mut self, plan: GatePlan, told: &AddressedEvents) {
        self.is_calm = plan.is_calm;
        self.life += 1;
        self.rival.begin_life();
        self.begin_absence(told);
    }

    /// Lets the clients of a connection, but not the operator's, stay away from now on, by chance:
    /// meanwhile the log may forget all of their events. Mostly they have received lost ones.
    fn begin_absence(&mut self, told: &AddressedEvents) {
        if self.is_calm {
            self.absent = None;
        }
        let goes_on = self.absent.is_some_and(|(_, until)| self.life < until);
        let Some(absences) = self.absences.as_mut().filter(|_| !self.is_calm && !goes_on) else {
            return;
        };
        let has_lost = |wire: &Wire| wire.clients.iter().any(|client| client.has_lost(told));
        let losers: Vec<_> =
            (1..self.wires.len()).filter(|at| has_lost(&self.wires[*at])).collect();
        let (candidates, chance) = match losers.len() {
            0 => ((1..self.wires.len()).collect(), (1, 6)),
            _ => (losers, (2, 3)),
        };
        let index = absences.below(candidates.len() as u64);
        let index = candidates[usize::try_from(index).expect("few connections")];
        let until = self.life + 1 + absences.below(ABSENT_LIVES);
        self.absent = absences.chance(chance.0, chance.1).then_some((index, until));
        if self.absent.is_some() {
            self.wires[index].leave();
        }
    }

    /// A process has started, and awaits the return of the sessions `absent`.
    pub fn process_has_started(&mut self, absent: &[SessionId]) {
        let clients = self.wires.iter_mut().flat_map(|wire| &mut wire.clients);
        clients.for_each(|client| client.begin_life(absent));
    }

    /// The control log has a definition of a session.
    pub fn session_defined(&mut self, session_id: SessionId) {
        let clients = self.wires.iter_mut().flat_map(|wire| &mut wire.clients);
        clients.filter(|client| client.session_id == session_id).for_each(Client::defined);
    }

    /// All clients.
    pub fn clients(&self) -> impl Iterator<Item = &Client> {
        self.wires.iter().flat_map(|wire| &wire.clients)
    }

    /// Forgets what clients received of records before this one.
    pub fn forget_before(&mut self, record: u64) {
        let clients = self.wires.iter_mut().flat_map(|wire| &mut wire.clients);
        clients.for_each(|client| client.forget_before(record));
    }

    /// Lets every client act once.
    ///
    /// # Errors
    /// A violation of a rule.
    pub fn step(&mut self, context: &mut Context<'_>) -> Result<(), Violation> {
        context.kept_at = self.rival.here_at();
        let absent = self.absent.map(|(index, _)| index);
        for (index, wire) in self.wires.iter_mut().enumerate() {
            if context.is_away && wire.leaves() || absent == Some(index) {
                continue;
            }
            wire.step(context, &mut self.tally)?;
            if !self.is_calm && self.moves.chance(1, MOVES_IN * context.plan.rarity()) {
                wire.moves(context);
            }
        }
        if !self.is_calm {
            self.be_rogue(context)?;
            let Wires { wires, rival, tally, .. } = self;
            let mut clients = wires.iter().flat_map(|wire| &wire.clients);
            let operator = clients.find(|client| client.session_id == OPERATOR);
            rival.step(operator.expect("it is on a connection"), context, tally)?;
        }
        self.tally.evicted += self.strangers.step(context.net, context.gate.stranger_count);
        Ok(())
    }

    /// Takes away the connections of sessions with cancel-on-disconnect.
    pub fn leave(&mut self) {
        self.wires.iter_mut().filter(|wire| wire.leaves()).for_each(Wire::leave);
    }

    /// The sessions whose every order is preceded by their choice of cancel-on-disconnect.
    #[must_use]
    pub fn always_cancelling(&self) -> Vec<SessionId> {
        let clients = self.wires.iter().flat_map(|wire| &wire.clients);
        let always = clients.filter(|client| client.choices == Choices::On);
        always.map(|client| client.session_id).collect()
    }

    /// The sessions that logged on last with cancel-on-disconnect.
    #[must_use]
    pub fn leaving(&self) -> Vec<SessionId> {
        let clients = self.wires.iter().flat_map(|wire| &wire.clients);
        let leaving = clients.filter(|client| client.cancels_on_disconnect);
        leaving.map(|client| client.session_id).collect()
    }

    /// True if all clients have received everything and every request is answered; without those of
    /// connections that are away, if some are.
    #[must_use]
    pub fn is_quiet(&self, told: &AddressedEvents, are_some_away: bool) -> bool {
        let mut here = self.wires.iter().filter(|wire| !are_some_away || !wire.leaves());
        // A client may not have noticed yet that the process at the other end has ended.
        here.all(|wire| {
            wire.life == self.life && wire.clients.iter().all(|client| client.is_quiet(told))
        })
    }

    /// Names the clients that lack something.
    #[must_use]
    pub fn left(&self, told: &AddressedEvents) -> String {
        let clients = self.wires.iter().flat_map(|wire| &wire.clients);
        let lacking = clients.filter(|client| !client.is_quiet(told));
        lacking.map(Client::state).collect::<Vec<_>>().join("; ")
    }

    /// A stranger tries a session's name with a wrong key, or sends rubbish.
    fn be_rogue(&mut self, context: &mut Context<'_>) -> Result<(), Violation> {
        let Some(stream) = &mut self.rogue else {
            if context.rng.chance(1, 40) {
                let from = SocketAddr::from(([10, 0, 9, 9], 1_000));
                self.rogue = context.net.connect(from, address()).ok().map(Stream::Simulated);
            }
            return Ok(());
        };
        let mut bytes = Vec::new();
        if context.rng.chance(1, 3) {
            let logon = Logon {
                api_key: ApiKey([0xee; 32]),
                session_id: TRADERS[0],
                heartbeat_interval_ms: 1_000,
                cancel_on_disconnect: weir_types::Switch::On,
                takeover: weir_types::Switch::Off,
            };
            weir_wire::dialogue::put_logon(&logon, &[], &mut bytes);
        } else if context.rng.chance(1, 10) {
            bytes.extend([0xff; 20]);
        }
        let mut room = [0; READ_MAX];
        let has_ended = stream.write(&bytes).is_err_and(|e| e.kind() != ErrorKind::WouldBlock);
        match stream.read(&mut room) {
            Ok(len) if len > 0 => {
                ensure(!has_report(&room[..len]), "a stranger is told a report", || {
                    "by a wrong key".to_owned()
                })?
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock && !has_ended => {}
            _ => self.rogue = None,
        }
        Ok(())
    }
}

/// True if a stranger's input begins with anything but a refusal.
fn has_report(input: &[u8]) -> bool {
    let Framing::Frame { message: Ok(raw), .. } = next_frame(input, FRAME_MAX) else {
        return false;
    };
    let message = NodeMessage::decode(&raw);
    !matches!(
        message,
        Ok(NodeMessage::LogonReject(_) | NodeMessage::Logout(_) | NodeMessage::Reject(_)) | Err(_)
    )
}

impl Wire {
    fn leaves(&self) -> bool {
        self.clients.iter().any(|client| client.choices != Choices::Off)
    }

    fn has_session(&self) -> bool {
        self.clients.iter().any(|client| client.session.is_open())
    }

    /// Takes its connections away.
    fn leave(&mut self) {
        (self.stream, self.left) = (None, None);
        self.lose(0);
    }

    /// The connection is lost, with everything under way.
    fn lose(&mut self, connects_at: u64) {
        self.stream = None;
        self.input.clear();
        self.output.clear();
        self.is_superseded = false;
        self.connects_at = connects_at;
        self.clients.iter_mut().for_each(|client| client.connection_lost(connects_at));
    }

    fn step(&mut self, context: &mut Context<'_>, tally: &mut GateTally) -> Result<(), Violation> {
        if self.stream.is_none() {
            self.connect(context);
        }
        let whole = 10_000 * context.plan.rarity();
        if context.rng.chance(context.gate.disturbed_per_myriad, whole) {
            self.disturb(context);
        }
        self.read_left(context, tally)?;
        let is_lost = self.read(context);
        self.take_frames(context, tally)?;
        if self.is_superseded {
            self.lose(context.tick + 1 + context.rng.below(30));
            return Ok(());
        }
        if !is_lost {
            self.say(context, tally)?;
        }
        if is_lost || self.write() {
            // One without a session is turned away, or makes place; a reset may take the reason.
            let is_turned_away = context.gate.turns_away && !self.has_session();
            let is_untold = context.gate.is_calm
                && self.life == context.life
                && !self.is_told
                && !is_turned_away;
            ensure(!is_untold, "a connection ends without a reason", || format!("{}", self.host))?;
            tally.lost_connections += 1;
            let connects_at = context.tick + 1 + context.rng.below(30);
            self.lose(connects_at);
        }
        Ok(())
    }

    fn connect(&mut self, context: &mut Context<'_>) {
        if context.tick < self.connects_at {
            return;
        }
        self.connection_count = (self.connection_count + 1) % PORTS;
        let from = SocketAddr::from(([10, 0, 1, self.host], 1_000 + self.connection_count));
        match context.net.connect(from, address()) {
            Ok(stream) => {
                self.stream = Some(Stream::Simulated(stream));
                (self.heard_at, self.life, self.is_told) = (context.now, context.life, false);
                for client in &mut self.clients {
                    client.connected(context.tick + context.rng.below(10));
                }
            }
            Err(_) => self.connects_at = context.tick + 1 + context.rng.below(20),
        }
    }

    /// Leaves the connection, which goes on, for another one, if all sessions are open and may be
    /// taken over.
    fn moves(&mut self, context: &Context<'_>) {
        let may = |client: &Client| client.session.is_open() && client.may_take_over();
        if self.life != context.life || self.left.is_some() || !self.clients.iter().all(may) {
            return;
        }
        let Some(stream) = self.stream.take() else { return };
        self.left = Some(LeftConnection {
            stream,
            life: self.life,
            until: context.tick + LEFT_STEPS,
            input: std::mem::take(&mut self.input),
            ended: BTreeSet::new(),
        });
        self.lose(context.tick + 1);
        self.clients.iter_mut().for_each(Client::moves);
    }

    /// Reads the connection that was left. Of its messages only the ends of sessions count: the
    /// others come again on the next connection.
    fn read_left(&mut self, context: &Context<'_>, tally: &mut GateTally) -> Result<(), Violation> {
        let Some(left) = &mut self.left else { return Ok(()) };
        let mut room = [0; READ_MAX];
        let is_over = left.life != context.life || context.tick >= left.until;
        match left.stream.read(&mut room) {
            _ if is_over => self.left = None,
            Ok(len) if len > 0 => left.input.extend_from_slice(&room[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => self.left = None,
        }
        let Some(left) = &mut self.left else { return Ok(()) };
        let input = std::mem::take(&mut left.input);
        let broken = |error| Violation::new("a node's frame does not decode", error);
        let mut at = 0;
        while let Framing::Frame { len, message } = next_frame(&input[at..], FRAME_MAX) {
            let raw = message.map_err(broken)?;
            let message = NodeMessage::decode(&raw).map_err(broken)?;
            let session_id = peek_session_and_request(&raw).0;
            // Requests that were under way to it are refused.
            let follows =
                left.ended.contains(&session_id) && !matches!(message, NodeMessage::Reject(_));
            ensure(!follows, "something follows the end of a session", || format!("{message:?}"))?;
            if let NodeMessage::Logout(Logout { session_id, reason: Reason::TakenOver }) = message {
                tally.moved += 1;
                left.ended.insert(session_id);
                let client = self.clients.iter_mut().find(|one| one.session_id == session_id);
                client.expect("it was on the connection").goes_on();
            }
            at += len;
        }
        left.input = input[at..].to_vec();
        Ok(())
    }

    fn disturb(&mut self, context: &mut Context<'_>) {
        let Some(Stream::Simulated(stream)) = &self.stream else { return };
        match context.rng.below(7) {
            0 => self.stream = None,
            1 => {
                SimStream::vanish(stream);
                self.stream = None;
            }
            2 => stream.reset(),
            // A failure shows at the next read.
            3 => drop(self.stream.as_ref().map(Stream::shutdown_write)),
            4 | 5 => self.reads_from = context.tick + 10 + context.rng.below(150),
            _ => {
                let index = context.rng.below(self.clients.len() as u64);
                let client = &mut self.clients[usize::try_from(index).expect("few sessions")];
                if client.session.is_open() {
                    client.session.put_logout(&mut self.output);
                }
            }
        }
        if self.stream.is_none() {
            self.lose(context.tick + 1 + context.rng.below(30));
        }
    }

    /// Reads; true if the connection has ended.
    fn read(&mut self, context: &mut Context<'_>) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        if context.tick < self.reads_from && !context.gate.is_calm {
            return false;
        }
        let mut room = [0; READ_MAX];
        match stream.read(&mut room) {
            Ok(0) => true,
            Ok(len) => {
                if self.life == context.life {
                    self.input.extend_from_slice(&room[..len]);
                }
                self.heard_at = context.now;
                false
            }
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }

    /// Handles all whole frames.
    fn take_frames(
        &mut self,
        context: &mut Context<'_>,
        tally: &mut GateTally,
    ) -> Result<(), Violation> {
        let input = std::mem::take(&mut self.input);
        if self.life != context.life {
            // The last words of a process that has ended: the next logon tells the truth of them.
            return Ok(());
        }
        let mut at = 0;
        while let Framing::Frame { len, message } = next_frame(&input[at..], FRAME_MAX) {
            let broken = |error| Violation::new("a node's frame does not decode", error);
            self.take_frame(&message.map_err(broken)?, context, tally)?;
            at += len;
        }
        self.input = input[at..].to_vec();
        Ok(())
    }

    fn take_frame(
        &mut self,
        raw: &RawMessage<'_>,
        context: &mut Context<'_>,
        tally: &mut GateTally,
    ) -> Result<(), Violation> {
        let broken = |error| Violation::new("a node's message does not decode", error);
        let message = NodeMessage::decode(raw).map_err(broken)?;
        let heard = ReceivedReport { template_id: raw.template_id, block: raw.block() };
        let mut desks = self.clients.iter_mut().filter_map(|client| client.copies.as_mut());
        if let Some(copies) = desks.next() {
            if copies.is_due() {
                tally.copies += 1;
                return copies.on_report(&heard, context.told);
            }
            if let NodeMessage::ReportCopy(head) = &message {
                copies.on_head(head);
                return Ok(());
            }
        }
        let (session_id, _) = peek_session_and_request(raw);
        if session_id.is_none() {
            self.is_told = true;
            return self.connection_ends(&message, context, tally);
        }
        let client = self.clients.iter_mut().find(|client| client.session_id == session_id);
        let Some(client) = client else {
            return Err(Violation::new("a message of another session", format!("{message:?}")));
        };
        let mut message_context = ReceivedMessage {
            told: context.told,
            heard,
            tally,
            now: context.now,
            return_by: context.return_by,
            withheld_at: context.withheld_at,
            kept_at: if session_id == OPERATOR { context.kept_at } else { Nanos(0) },
        };
        if client.hear(&message, &mut message_context, &mut self.output)? == Next::LogOn {
            client.logs_on_at = Some(context.tick + 3 + context.rng.below(30));
        }
        if let Some(copies) = &mut client.copies {
            tally.other_copies = copies.other_histories;
            tally.past_retention += std::mem::take(&mut copies.past_retention);
        }
        if let NodeMessage::Logout(logout) = &message {
            // No logon of a client's own takes over from its newest connection, however late it is
            // taken; a second process has the operator's key alone.
            let is_taken_over = logout.reason == Reason::TakenOver;
            let has_rival = session_id == OPERATOR && !context.gate.is_calm;
            ensure(!is_taken_over || has_rival, "a session is taken over by nobody", || {
                format!("{logout:?}")
            })?;
            self.is_superseded |= is_taken_over;
            // Behind for longer than events are retained: it logs on again and learns from where.
            let is_too_late =
                logout.reason == Reason::SlowConsumer && client.is_past_retention(context.told);
            if !is_too_late {
                check_reason(logout, context.gate)?;
            }
        }
        Ok(())
    }

    fn connection_ends(
        &mut self,
        message: &NodeMessage<'_>,
        context: &Context<'_>,
        tally: &mut GateTally,
    ) -> Result<(), Violation> {
        let NodeMessage::Logout(logout) = message else {
            return Err(Violation::new("a message of no session", format!("{message:?}")));
        };
        match logout.reason {
            Reason::SlowConsumer => tally.slow += 1,
            Reason::HeartbeatLost => tally.silent += 1,
            _ => {}
        }
        let makes_place = self.has_session() && logout.reason == Reason::TooManyConnections;
        ensure(!makes_place, "a session makes place for a stranger", || format!("{logout:?}"))?;
        for client in &mut self.clients {
            client.connection_lost(u64::MAX);
        }
        check_reason(logout, context.gate)
    }

    /// Sends logons, heartbeats and new requests.
    fn say(&mut self, context: &mut Context<'_>, tally: &mut GateTally) -> Result<(), Violation> {
        if self.stream.is_none() {
            return Ok(());
        }
        let mut is_silent = false;
        for client in &mut self.clients {
            client.log_on(context.now, context.tick, &mut self.output);
            let told = client.session.on_time(context.now, self.heard_at, &mut self.output);
            if let Err(error) = told {
                ensure(!context.gate.is_calm, "the node falls silent", || error.to_string())?;
                is_silent = true;
            }
            let may_ask = context.asks
                && client.session_id != COPY_DESK
                && client.session.unanswered_count() < context.plan.window;
            if may_ask && context.rng.chance(context.plan.send_per_mille, 1_000) {
                let (now, since_beginning) = (context.now, context.since_beginning);
                let times = AskTimes { now, since_beginning };
                let asked = client.ask(context.rng, times, &mut self.output);
                if let Some((request_no, command)) = asked {
                    context.crowd.record(client.session_id, request_no, command);
                }
            }
        }
        is_silent |= context.now.since(self.heard_at) > SILENCE_MAX;
        if is_silent {
            tally.lost_connections += 1;
            self.lose(context.tick + 1 + context.rng.below(30));
        }
        Ok(())
    }

    /// Writes; true if the connection has ended.
    fn write(&mut self) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        while !self.output.is_empty() {
            match stream.write(&self.output) {
                Ok(len) => drop(self.output.drain(..len)),
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
        false
    }
}

/// Checks the reason of a farewell: where nobody misbehaves, nobody is accused of it.
fn check_reason(logout: &Logout, plan: GatePlan) -> Result<(), Violation> {
    let is_fair = match logout.reason {
        Reason::LogoutRequested | Reason::Stopping | Reason::KeyReplaced | Reason::UnknownKey => {
            true
        }
        Reason::TooManyConnections => plan.turns_away,
        _ => false,
    };
    ensure(is_fair || !plan.is_calm, "a client is cut without a cause", || format!("{logout:?}"))
}
