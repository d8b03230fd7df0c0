//! Arbitrary bytes as frames to the gateway from strangers and participants: challenges, logons by
//! key and by signature, resume points, replayed frames, on several connections, while time passes,
//! keys change and events are emitted.
//!
//! The gateway's own code decides, without its sockets. The target asserts against a plain second
//! implementation of the rules: each session's key, the open challenges, the valid part of each
//! epoch. Checks that a session is opened exactly when it proves its identity, is logged on nowhere
//! else or may be taken over from there, and requests available events; that every refusal has the
//! right reason; that no session is on two connections; that streams begin at the requested event;
//! that the lobby counts correctly.
#![no_main]

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};

use libfuzzer_sys::fuzz_target;
use weir_client::{Key, SigningKey};
use weir_door::ConnectionId;
use weir_door::lobby::LobbyLimits;
use weir_fuzz::{Recipe, shaped_message};
use weir_gateway::fuzzing::{
    KnownSession, Lobby, LogonRequest, MessageOrigin, Noted, Reception, Sessions, open,
};
use weir_io::SeededRng;
use weir_log::{EpochCursor, EpochEnd};
use weir_partition::lineage::Lineage;
use weir_types::{
    Credential, CredentialKind, Epoch, Epochs, EventNo, FirmId, Nanos, PartitionId, Position,
    Reason, RequestNo, Role, SessionId, Switch,
};
use weir_wire::challenge::{CHALLENGE_COUNT_MAX, CHALLENGE_LIFETIME, put_answer, signed_text};
use weir_wire::dialogue::put_logon;
use weir_wire::frame::{
    CLIENT_FRAME_LEN_MAX, Framing, RawMessage, next_frame, put_frame, put_frame_with,
};
use weir_wire::group::Group;
use weir_wire::reference::DefineSession;
use weir_wire::session::{
    ApiKey, Challenge, ChallengeRequest, Logon, LogonReject, NodeId, Nonce, ResumePoint, Signature,
    SignedLogon,
};
use weir_wire::{ClientMessage, Definition};

const NODE: NodeId = NodeId([7; 16]);
const CURRENT: Epoch = Epoch(9);
const PORTS: u16 = 2;
const SESSIONS: u32 = 6;
const CONNECTIONS: usize = 4;
/// A session of another role than the others; its takeovers have the same rules.
const OPERATOR: SessionId = SessionId(1);
/// The least time between two takeovers of a session.
const SECOND: u64 = 1_000_000_000;
const LIMITS: LobbyLimits =
    LobbyLimits { logon_time_max: Nanos(10_000_000_000), per_address_max: 2 };

/// A connection in the target's own model.
#[derive(Default)]
struct Peer {
    /// The gateway's identifier, while it is open.
    id: Option<ConnectionId>,
    address: u8,
    sessions: Vec<SessionId>,
    challenges: Vec<(Challenge, Nanos)>,
    accepted_at: Nanos,
    /// The time since which it has had no session.
    alone_since: Option<Nanos>,
}

struct World {
    reception: Reception,
    sessions: Sessions,
    lobby: Lobby,
    /// By port: the epochs as the events told them, and the cursor that tells them.
    lineages: Vec<Lineage>,
    cursors: Vec<EpochCursor>,
    now: Nanos,
    next_connection: u64,
    peers: [Peer; CONNECTIONS],
    /// Each session's current key and expiry; `None` if no key can open it.
    keys: BTreeMap<SessionId, (Option<Key>, Nanos)>,
    /// By port: the epochs that ended, and the positions of each session's events.
    ended: Vec<Vec<EpochEnd>>,
    told: Vec<BTreeMap<SessionId, Vec<u64>>>,
    heads: Vec<u64>,
    /// The last logon and the last takeover of each session.
    logged_on_at: BTreeMap<SessionId, Nanos>,
    taken_at: BTreeMap<SessionId, Nanos>,
    /// All frames sent.
    sent: Vec<Vec<u8>>,
}

fuzz_target!(|bytes: &[u8]| {
    let mut recipe = Recipe::new(bytes);
    let mut world = World::new(&mut recipe);
    while !recipe.is_empty() {
        world.step(&mut recipe);
        world.check();
    }
});

fn api_key(number: u8) -> Key {
    Key::Api(ApiKey([number; 32]))
}

fn signing_key(number: u8) -> Key {
    Key::Signing(SigningKey::from_seed([number; 32]))
}

impl World {
    fn new(recipe: &mut Recipe<'_>) -> World {
        let ended = (0..PORTS).map(|_| ended_epochs(recipe)).collect::<Vec<_>>();
        let cursors: Vec<_> = ended.iter().map(|ended| cursor_of(ended)).collect();
        let lineages = cursors.iter().map(|cursor| Lineage::new(cursor.epoch())).collect();
        let reception = Reception::new(NODE, Box::new(SeededRng::new(1, "nonces")));
        let order = reception.map_order();
        let mut world = World {
            sessions: Sessions::new(usize::from(PORTS), order),
            lobby: Lobby::new(LIMITS, order),
            reception,
            lineages,
            cursors,
            now: Nanos(1_000_000_000),
            next_connection: 0,
            peers: Default::default(),
            keys: BTreeMap::new(),
            told: vec![BTreeMap::new(); ended.len()],
            heads: vec![0; ended.len()],
            ended,
            logged_on_at: BTreeMap::new(),
            taken_at: BTreeMap::new(),
            sent: Vec::new(),
        };
        for id in 1..SESSIONS {
            world.define(SessionId(id), id as u8 % 3, id as u8);
            for port in 0..usize::from(PORTS) {
                for _ in 0..recipe.byte() % 6 {
                    world.tell(SessionId(id), port, recipe.byte() % 8);
                }
                let next = world.told_to(SessionId(id), port).len() as u64 + 1;
                world.sessions.agree(SessionId(id), port, EventNo(next), RequestNo::NONE);
            }
        }
        (0..usize::from(PORTS)).for_each(|port| world.end_past_epochs(port));
        world.connect(0, 0);
        world
    }

    /// Ends the epochs that no event has passed, as the gateway's reader does at the end of the
    /// past; later events lie behind all ends.
    fn end_past_epochs(&mut self, port: usize) {
        while let Some(change) = self.cursors[port].pass(u64::MAX) {
            self.lineages[port].pass(&change);
        }
        let behind = self.ended[port].iter().map(|end| end.last_valid.0 + 1).max();
        self.heads[port] = self.heads[port].max(behind.unwrap_or_default());
    }

    fn step(&mut self, recipe: &mut Recipe<'_>) {
        let who = usize::from(recipe.byte()) % CONNECTIONS;
        let session_id = SessionId(u32::from(recipe.byte()) % (SESSIONS + 1));
        match recipe.byte() % 12 {
            0 => self.connect(who, recipe.byte() % 3),
            1 => self.say(who, recipe.bytes_up_to(255).to_vec()),
            2 => {
                let mut frame = Vec::new();
                let message = shaped_message(recipe.bytes_up_to(255));
                put_frame_with(&mut frame, |out| out.extend_from_slice(&message));
                self.say(who, frame);
            }
            3 | 4 => self.say_logon(who, session_id, recipe),
            5 => {
                let mut frame = Vec::new();
                put_frame(&ChallengeRequest { session_id }, &mut frame);
                self.say(who, frame);
            }
            6 | 7 => self.say_signed_logon(who, session_id, recipe),
            8 => self.repeat(who, recipe),
            9 => self.now = Nanos(self.now.0 + u64::from(recipe.short()) * 1_000_000),
            10 if recipe.one_in(2) => self.disconnect(who),
            10 => self.define(session_id, recipe.byte() % 3, recipe.byte() % 8),
            _ => self.tell(session_id, usize::from(recipe.byte() % 2), recipe.byte() % 8),
        }
    }

    /// Redefines a session, with one of the kinds of key; sometimes about to expire.
    fn define(&mut self, session_id: SessionId, kind: u8, number: u8) {
        if session_id.is_none() || session_id.0 >= SESSIONS {
            return;
        }
        let (key, credential, credential_kind) = match kind {
            0 => (None, Credential([2; 32]), CredentialKind::Ed25519),
            1 => with_credential(api_key(number)),
            _ => with_credential(signing_key(number)),
        };
        let valid_until = Nanos(if number == 5 { self.now.0 + 1_000_000_000 } else { 0 });
        self.keys.insert(session_id, (key, valid_until));
        self.reception.directory.define(&Definition::DefineSession(DefineSession {
            request_no: RequestNo::NONE,
            valid_until,
            credential,
            session_id: SessionId(1),
            defined_session_id: session_id,
            firm_id: FirmId(session_id.0),
            order_rate_max: 0,
            in_flight_max: session_id.0,
            role: if session_id == OPERATOR { Role::Operator } else { Role::Trader },
            credential_kind,
            live_orders_max: 0,
            fields: 0,
        }));
    }

    /// Emits an event of a partition to a session, `later` commands later.
    fn tell(&mut self, session_id: SessionId, port: usize, later: u8) {
        if session_id.is_none() {
            return;
        }
        self.heads[port] += u64::from(later);
        let position = self.heads[port].max(1);
        let told = self.told[port].entry(session_id).or_default();
        told.push(position);
        let record = told.len() as u64;
        let (event_no, request_no) = (EventNo(record), RequestNo::NONE);
        while let Some(change) = self.cursors[port].pass_before(record, Position(position)) {
            self.lineages[port].pass(&change);
        }
        let noted = Noted { event_no, request_no, record };
        self.sessions.entry(session_id).streams[port].note(noted, &self.lineages[port]);
    }

    fn told_to(&self, session_id: SessionId, port: usize) -> &[u64] {
        self.told[port].get(&session_id).map_or(&[], Vec::as_slice)
    }

    fn connect(&mut self, who: usize, address: u8) {
        if self.peers[who].id.is_some() {
            return;
        }
        self.next_connection += 1;
        let id = ConnectionId(self.next_connection);
        let alone = self.peers.iter().filter(|peer| {
            peer.id.is_some() && peer.address == address && peer.alone_since.is_some()
        });
        let is_full = address > 0 && alone.count() >= LIMITS.per_address_max as usize;
        let ip = (address > 0).then_some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, address)));
        let leaves = self.lobby.place_for(ip, false);
        assert_eq!(leaves.is_some(), is_full, "a stranger of the address makes place");
        if let Some(leaves) = leaves {
            let peer = self.peers.iter().position(|peer| peer.id == Some(leaves));
            let peer = peer.expect("it is open");
            let Peer { address: of, alone_since, .. } = self.peers[peer];
            assert_eq!((of, alone_since.is_some()), (address, true));
            self.disconnect(peer);
        }
        self.lobby.enter(id, ip, self.now);
        let (accepted_at, alone_since) = (self.now, Some(self.now));
        self.peers[who] =
            Peer { id: Some(id), address, accepted_at, alone_since, ..Peer::default() };
    }

    fn disconnect(&mut self, who: usize) {
        let peer = std::mem::take(&mut self.peers[who]);
        let Some(id) = peer.id else { return };
        for session_id in peer.sessions {
            self.sessions.detach(session_id);
        }
        self.lobby.gone(id);
        self.reception.forget(id);
    }

    /// Sends a logon by key, often the right one.
    fn say_logon(&mut self, who: usize, session_id: SessionId, recipe: &mut Recipe<'_>) {
        let right = match self.keys.get(&session_id) {
            Some((Some(Key::Api(key)), _)) => *key,
            _ => ApiKey([0xee; 32]),
        };
        let api_key = if recipe.one_in(6) { ApiKey([recipe.byte(); 32]) } else { right };
        let logon = Logon {
            api_key,
            session_id,
            heartbeat_interval_ms: u32::from(recipe.short()),
            cancel_on_disconnect: Switch::Off,
            takeover: if recipe.one_in(3) { Switch::On } else { Switch::Off },
        };
        let mut frame = Vec::new();
        put_logon(&logon, &self.points(session_id, recipe), &mut frame);
        self.say(who, frame);
    }

    /// Sends the answer to a challenge that some connection received, with a key that is often
    /// right.
    fn say_signed_logon(&mut self, who: usize, session_id: SessionId, recipe: &mut Recipe<'_>) {
        let whose = if recipe.one_in(8) { recipe.byte() } else { who as u8 };
        let challenges = &self.peers[usize::from(whose) % CONNECTIONS].challenges;
        let challenge = challenges
            .iter()
            .map(|(challenge, _)| *challenge)
            .find(|challenge| challenge.session_id == session_id || recipe.one_in(8));
        let unasked = Challenge { nonce: Nonce([0; 32]), node_id: NODE, session_id };
        let key = match self.keys.get(&session_id) {
            Some((Some(Key::Signing(key)), _)) if !recipe.one_in(8) => *key,
            _ => SigningKey::from_seed([recipe.byte() % 8; 32]),
        };
        let logon = SignedLogon {
            signature: Signature([0; 64]),
            session_id,
            heartbeat_interval_ms: 1_000,
            cancel_on_disconnect: Switch::On,
            takeover: if recipe.one_in(3) { Switch::On } else { Switch::Off },
        };
        let points = self.points(session_id, recipe);
        let mut frame = Vec::new();
        let sign = |text: &[u8]| key.sign(text);
        put_answer(&challenge.unwrap_or(unasked), logon, &points, sign, &mut frame);
        self.say(who, frame);
    }

    fn points(&self, session_id: SessionId, recipe: &mut Recipe<'_>) -> Vec<ResumePoint> {
        let point = |recipe: &mut Recipe<'_>| {
            let partition = u16::from(recipe.byte()) % (PORTS + u16::from(recipe.one_in(8)));
            let port = usize::from(partition % PORTS);
            let next = self.told_to(session_id, port).len() as u64 + 3;
            ResumePoint {
                next_event_no: EventNo(u64::from(recipe.byte()) % next),
                epoch: Epoch(u32::from(recipe.byte()) % 11),
                partition_id: PartitionId(partition),
            }
        };
        (0..recipe.byte() % 4).map(|_| point(recipe)).collect()
    }

    /// Repeats an earlier frame, on this or another connection, mutated or unchanged.
    fn repeat(&mut self, who: usize, recipe: &mut Recipe<'_>) {
        if self.sent.is_empty() {
            return;
        }
        let mut frame = self.sent[usize::from(recipe.byte()) % self.sent.len()].clone();
        if recipe.one_in(2) && !frame.is_empty() {
            let at = usize::from(recipe.short()) % frame.len();
            frame[at] ^= recipe.byte();
        }
        self.say(who, frame);
    }

    /// Sends bytes on a connection; invalid frames and messages are dropped.
    fn say(&mut self, who: usize, bytes: Vec<u8>) {
        let Some(via) = self.origin(who) else { return };
        if let Framing::Frame { message: Ok(raw), .. } = next_frame(&bytes, CLIENT_FRAME_LEN_MAX) {
            match ClientMessage::decode(&raw) {
                Ok(ClientMessage::ChallengeRequest(ask)) => {
                    self.challenge(who, ask.session_id, via)
                }
                Ok(ClientMessage::Logon(logon, points)) => {
                    let due = self.key_opens(&logon);
                    let known = self.reception.prove_by_key(&logon, via);
                    let asked = LogonRequest::of_logon(&logon, points.clone().map(Result::ok));
                    self.answer(who, due, known, asked, points);
                }
                Ok(ClientMessage::SignedLogon(logon, points)) => {
                    self.signed(who, &raw, &logon, points, via);
                }
                Ok(ClientMessage::Logout(logout)) => self.log_out(who, logout.session_id),
                _ => {}
            }
        }
        if self.sent.len() < 64 {
            self.sent.push(bytes);
        }
    }

    /// The origin of a message on a connection, while that is open.
    fn origin(&self, who: usize) -> Option<MessageOrigin> {
        let Peer { id, accepted_at, .. } = self.peers[who];
        Some(MessageOrigin { connection: id?, accepted_at, now: self.now })
    }

    fn challenge(&mut self, who: usize, session_id: SessionId, via: MessageOrigin) {
        let open = &mut self.peers[who].challenges;
        let is_good = |given: Nanos| via.now.since(given) < CHALLENGE_LIFETIME;
        open.retain(|(other, given)| other.session_id != session_id && is_good(*given));
        match self.reception.challenge(session_id, via) {
            Ok(challenge) => {
                assert!(open.len() < CHALLENGE_COUNT_MAX, "one challenge too many");
                assert_eq!((challenge.node_id, challenge.session_id), (NODE, session_id));
                open.push((challenge, via.now));
            }
            Err(reject) => {
                assert_eq!(reject.reason, Reason::TooManyChallenges);
                assert_eq!(open.len(), CHALLENGE_COUNT_MAX);
            }
        }
    }

    fn signed(
        &mut self,
        who: usize,
        raw: &RawMessage<'_>,
        logon: &SignedLogon,
        points: Group<'_, ResumePoint>,
        via: MessageOrigin,
    ) {
        let Some(known) = self.reception.prove_by_signature(raw, logon, via) else { return };
        let due = self.signature_opens(who, raw, logon);
        let asked = LogonRequest::of_signed(logon, points.clone().map(Result::ok));
        self.answer(who, due, known, asked, points);
    }

    /// The expected result of a logon by key, resume points aside.
    fn key_opens(&self, logon: &Logon) -> Result<(), Reason> {
        match self.keys.get(&logon.session_id) {
            Some((Some(Key::Api(key)), until)) if *key == logon.api_key => self.in_time(*until),
            _ => Err(Reason::UnknownKey),
        }
    }

    /// The expected result of a logon by signature, resume points aside; uses up its challenge.
    fn signature_opens(
        &mut self,
        who: usize,
        raw: &RawMessage<'_>,
        logon: &SignedLogon,
    ) -> Result<(), Reason> {
        let open = &mut self.peers[who].challenges;
        let at = open.iter().position(|(challenge, _)| challenge.session_id == logon.session_id);
        let (challenge, given) = at.map(|at| open.remove(at)).ok_or(Reason::UnknownChallenge)?;
        if self.now.since(given) >= CHALLENGE_LIFETIME {
            return Err(Reason::UnknownChallenge);
        }
        let text = signed_text(NODE, challenge.nonce, raw).expect("it is a signed logon");
        match self.keys.get(&logon.session_id) {
            // Ed25519 is deterministic, so only the key's own signature of the text can be valid
            // here.
            Some((Some(Key::Signing(key)), until)) if key.sign(&text) == logon.signature => {
                self.in_time(*until)
            }
            _ => Err(Reason::UnknownKey),
        }
    }

    fn in_time(&self, until: Nanos) -> Result<(), Reason> {
        if until.0 > 0 && self.now >= until { Err(Reason::KeyExpired) } else { Ok(()) }
    }

    /// Opens the session as the gateway does, and compares the result with the expected one.
    fn answer(
        &mut self,
        who: usize,
        due: Result<(), Reason>,
        known: Result<KnownSession, LogonReject>,
        asked: LogonRequest<impl Iterator<Item = Option<ResumePoint>>>,
        points: Group<'_, ResumePoint>,
    ) {
        let session_id = asked.session_id;
        assert_eq!(known.as_ref().map(|_| ()).map_err(|reject| reject.reason), due);
        let Ok(known) = known else { return };
        assert_eq!((known.firm_id, known.in_flight_max), (FirmId(session_id.0), session_id.0));
        assert_eq!(known.role == Role::Operator, session_id == OPERATOR);
        let holder = self.holder_to_leave(who, session_id, asked.takeover);
        let due = match holder {
            Ok(_) => self.due(session_id, points),
            Err(reason) => Err((reason, 0)),
        };
        let via = self.origin(who).expect("it spoke");
        let lineages = &self.lineages;
        let lineage_of = |id: PartitionId| {
            (id.0 < PORTS).then(|| (usize::from(id.0), &lineages[usize::from(id.0)]))
        };
        let opened = open(&mut self.sessions, &known, asked, via, &lineage_of);
        match (opened, due) {
            (Ok(taken_from), Ok(starts)) => {
                let holder = holder.expect("nothing else was due");
                assert_eq!(taken_from, holder.and_then(|peer| self.peers[peer].id));
                if let Some(peer) = holder {
                    self.taken_at.insert(session_id, self.now);
                    self.leaves(peer, session_id);
                }
                let session = self.sessions.get(session_id).expect("it was opened");
                for (stream, start) in session.streams.iter().zip(starts) {
                    assert!(stream.is_next_to_send(EventNo(start)), "it begins elsewhere");
                }
                self.logged_on_at.insert(session_id, self.now);
                self.lobby.logged_on(via.connection);
                self.peers[who].sessions.push(session_id);
                self.peers[who].alone_since = None;
            }
            (Err(reject), Err((reason, next))) => {
                assert_eq!((reject.reason, reject.next_event_no.0), (reason, next));
            }
            (opened, due) => panic!("{opened:?} where {due:?} was due"),
        }
    }

    /// The peer from which a logon takes its session over, if the session is on one.
    fn holder_to_leave(
        &self,
        who: usize,
        session_id: SessionId,
        takeover: Switch,
    ) -> Result<Option<usize>, Reason> {
        let holder = self.peers.iter().position(|peer| peer.sessions.contains(&session_id));
        let Some(holder) = holder else { return Ok(None) };
        let last = self.taken_at.get(&session_id);
        let is_due = last.is_none_or(|last| self.now.0 >= last.0 + SECOND);
        let is_newer = self.peers[who].accepted_at > self.logged_on_at[&session_id];
        let is_taken = holder != who && is_newer && is_due && takeover == Switch::On;
        if is_taken { Ok(Some(holder)) } else { Err(Reason::AlreadyLoggedOn) }
    }

    /// A session is no longer on a peer's connection.
    fn leaves(&mut self, who: usize, session_id: SessionId) {
        let peer = &mut self.peers[who];
        peer.sessions.retain(|other| *other != session_id);
        if peer.sessions.is_empty() {
            self.lobby.left_alone(peer.id.expect("it had a session"), self.now);
            peer.alone_since = Some(self.now);
        }
    }

    /// The expected first event of each stream, or the expected reason and next event of a refusal.
    fn due(
        &self,
        session_id: SessionId,
        points: Group<'_, ResumePoint>,
    ) -> Result<Vec<u64>, (Reason, u64)> {
        let next = |port: u16| self.told_to(session_id, usize::from(port)).len() as u64 + 1;
        let mut starts: Vec<u64> = (0..PORTS).map(next).collect();
        for point in points {
            let Ok(point) = point else { return Err((Reason::FieldOutOfRange, 0)) };
            let port = point.partition_id.0;
            if port >= PORTS {
                return Err((Reason::WrongPartition, 0));
            }
            let asked = point.next_event_no.0;
            let told = self.told_to(session_id, usize::from(port));
            let shared = shared_count(told, point.epoch, &self.ended[usize::from(port)]);
            if asked > 1 && point.epoch.0 > 0 && point.epoch != CURRENT && asked > shared + 1 {
                return Err((Reason::ResumeOtherHistory, shared + 1));
            }
            if asked > next(port) {
                return Err((Reason::ResumeOutOfRange, next(port)));
            }
            starts[usize::from(port)] = if asked == 0 { next(port) } else { asked };
        }
        Ok(starts)
    }

    fn log_out(&mut self, who: usize, session_id: SessionId) {
        let peer = &self.peers[who];
        let id = peer.id.expect("it spoke");
        let is_here = self.sessions.logged_on(session_id, id).is_some();
        assert_eq!(is_here, peer.sessions.contains(&session_id));
        if is_here {
            self.sessions.detach(session_id);
            self.leaves(who, session_id);
        }
    }

    /// Checks the invariants that hold at any time.
    fn check(&self) {
        let mut on = HashSet::new();
        for peer in &self.peers {
            let Some(id) = peer.id else { continue };
            for session_id in &peer.sessions {
                assert!(on.insert(*session_id), "{session_id} is on two connections");
                let session = self.sessions.get(*session_id).expect("it was opened");
                assert_eq!(session.connection, Some(id));
            }
            let is_overdue =
                peer.alone_since.is_some_and(|since| self.now.since(since) > LIMITS.logon_time_max);
            assert_eq!(self.lobby.is_overdue(id, self.now), is_overdue);
        }
        assert_eq!(self.sessions.logged_on_count(), on.len());
    }
}

/// The number of a session's events, by their positions, that are valid for a client of an ended
/// epoch.
fn shared_count(told: &[u64], epoch: Epoch, ended: &[EpochEnd]) -> u64 {
    if ended.iter().all(|end| end.epoch != epoch) {
        return 0;
    }
    let later = ended.iter().filter(|end| end.epoch >= epoch);
    let left = later.map(|end| end.last_valid.0).min().expect("the epoch itself is one");
    told.iter().filter(|position| **position <= left).count() as u64
}

fn cursor_of(ended: &[EpochEnd]) -> EpochCursor {
    let ended = ended.iter().map(|end| (end.epoch, end.last_valid));
    EpochCursor::new(Epochs::with_ended(CURRENT, ended), u64::MAX)
}

fn ended_epochs(recipe: &mut Recipe<'_>) -> Vec<EpochEnd> {
    let chosen = recipe.byte();
    let epochs = (1..CURRENT.0).filter(|epoch| chosen >> (epoch - 1) & 1 == 1);
    epochs
        .map(|epoch| EpochEnd {
            epoch: Epoch(epoch),
            last_valid: Position(u64::from(recipe.byte() % 64)),
        })
        .collect()
}

fn with_credential(key: Key) -> (Option<Key>, Credential, CredentialKind) {
    let (credential, kind) = key.credential();
    (Some(key), credential, kind)
}
