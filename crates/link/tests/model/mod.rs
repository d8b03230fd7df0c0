//! A slow model of gateways, a partition and their network around the two ends of the link.
//!
//! The partition's log, its engine and its events are plain lists, made anew after each start. The
//! network delivers bytes late and in pieces, and loses those under way when a connection is cut.
//! Gateways and the partition are killed; a partition may lose the end of its log, which ends its
//! epoch. Each step checks the rules of `docs/protocols/link.md`.

mod node;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_link::codec::next_message;
use weir_link::gateway_end::{Defined, HandOver, SessionPoint, WantedBinding};
use weir_link::grants::{Claim, Claimant, Grants};
use weir_link::kept::LinkCommand;
use weir_link::message::{
    ClaimSession, CommandRefused, EpochEnded, LogId, Seal, SessionBound, SessionUnbound, StageSpans,
};
use weir_link::partition_end::{RequestName, Revocation};
use weir_link::{
    GatewayEnd, GatewayTerms, GatewayView, LinkFault, PartitionEnd, PartitionTerms, ToGateway,
};
use weir_types::{
    ClOrdId, Epoch, EventNo, Nanos, PartitionId, Reason, RequestNo, SessionId, Switch,
};
use weir_wire::order_entry::CancelOrder;
use weir_wire::{Command, Request};

use node::Node;

pub const PARTITION: PartitionId = PartitionId(1);
const MS: u64 = 1_000_000;
const LEASE: Nanos = Nanos(400 * MS);
const PULSE: Nanos = Nanos(40 * MS);
const GATEWAYS: u32 = 2;
const SESSIONS: u32 = 4;

/// A sequence of pseudo-random numbers.
pub struct Random(u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

fn seal(session: SessionId, by: Claimant, generation: u64) -> Seal {
    let mut mixed = Random(generation ^ by.incarnation << 20 ^ u64::from(session.0) << 50);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&mixed.below(u64::MAX).to_le_bytes());
    bytes[8..12].copy_from_slice(&by.gateway.0.to_le_bytes());
    Seal(bytes)
}

fn request(session: SessionId, request_no: u64) -> Request {
    Request::CancelOrder(CancelOrder {
        request_no: RequestNo(request_no),
        order_id: weir_types::OrderId(0),
        cl_ord_id: ClOrdId::NONE,
        orig_cl_ord_id: ClOrdId::NONE,
        sending_time: Nanos(0),
        session_id: session,
        instrument_id: weir_types::InstrumentId(1),
    })
}

/// True for sessions that chose cancel-on-disconnect.
fn chose(session: SessionId) -> bool {
    session.0 % 2 == 1
}

/// A session at a gateway.
#[derive(Default)]
struct AtGateway {
    /// The next event for the client, and the epoch of the one before.
    next: u64,
    epoch: u32,
    /// Records before those of the link that the client still lacks.
    past: VecDeque<u64>,
    /// Events of the link behind them.
    live: VecDeque<Vec<u8>>,
    is_bound: bool,
}

/// The gateway's side of the link, as the end tells it.
#[derive(Default)]
struct Desk {
    sessions: BTreeMap<SessionId, AtGateway>,
    epoch: u32,
    next_record: u64,
    refused: Vec<(SessionId, u64, Reason)>,
    ended: Vec<(SessionId, Reason)>,
    opened: Vec<(SessionId, u64)>,
    begun_anew: bool,
}

impl GatewayView for Desk {
    fn begin_anew(&mut self, next_record: u64, epoch: Epoch) {
        (self.next_record, self.epoch, self.begun_anew) = (next_record, epoch.0, true);
    }

    fn resume_point(&mut self, session_id: SessionId) -> SessionPoint {
        let session = self.sessions.get_mut(&session_id).expect("it is held");
        (session.past, session.live) = Default::default();
        SessionPoint { next_event_no: EventNo(session.next), epoch: Epoch(session.epoch) }
    }

    fn defined(&mut self, _: &Defined<'_>) {}

    fn record(&mut self, number: u64, record: &[u8], is_bound: bool) {
        assert_eq!(number, self.next_record, "2: another record");
        self.next_record += 1;
        let id = Node::event_of(record).session_id;
        if let Some(session) = self.sessions.get_mut(&id).filter(|_| is_bound) {
            session.live.push_back(record.to_vec());
        }
    }

    fn skipped(&mut self, first: u64, count: u64) {
        assert_eq!(first, self.next_record, "2: another record");
        self.next_record += count;
    }

    fn epoch_ended(&mut self, ended: &EpochEnded) {
        self.epoch = ended.next.0;
        // A further `LogonAck` tells the clients.
        self.sessions.values_mut().for_each(|session| session.epoch = ended.next.0);
    }

    fn stages(&mut self, _: &StageSpans) {}

    fn bound(&mut self, bound: &SessionBound, _: bool) {
        let id = bound.bound_session_id;
        if bound.reason != Reason::None {
            self.ended.push((id, bound.reason));
        } else if let Some(session) = self.sessions.get_mut(&id) {
            session.is_bound = true;
            session.epoch = bound.epoch.0;
            self.opened.push((id, bound.last_request_no.0));
        }
    }

    fn past_records(&mut self, session_id: SessionId, records: &mut dyn Iterator<Item = u64>) {
        if let Some(session) = self.sessions.get_mut(&session_id) {
            session.past.extend(records);
        }
    }

    fn unbound(&mut self, unbound: &SessionUnbound) {
        self.ended.push((unbound.bound_session_id, unbound.reason));
    }

    fn refused(&mut self, refused: &CommandRefused) {
        self.refused.push((refused.bound_session_id, refused.request_no.0, refused.reason));
    }

    fn other(&mut self, message: &ToGateway<'_>) {
        panic!("an unexpected {}", message.name());
    }
}

/// A connection: the bytes under way in each direction.
#[derive(Default)]
struct Wire {
    there: Vec<u8>,
    back: Vec<u8>,
    /// Bytes that have arrived and are no whole frame.
    at_partition: Vec<u8>,
    at_gateway: Vec<u8>,
}

struct Gateway {
    id: SessionId,
    incarnation: u64,
    end: GatewayEnd,
    desk: Desk,
    wire: Option<Wire>,
    /// The time at which the partition heard its last bytes.
    heard_at: Nanos,
    /// The time before which no connection is made.
    rests_until: Nanos,
    /// The time since which there is no connection, and the end of the last absence that was longer
    /// than the lease: commands from before it are void.
    cut_at: Option<Nanos>,
    void_before: Nanos,
}

/// A request that a client gave to a gateway.
struct HandedOver {
    at: usize,
    then: Nanos,
    /// The generation by which the session was held there.
    generation: u64,
}

#[derive(Default)]
struct Client {
    at: Option<usize>,
    is_open: bool,
    /// True once a whole history was dropped: numbers begin anew.
    next_event: u64,
    epoch: u32,
    next_request: u64,
    unanswered: BTreeMap<u64, u64>,
    answered: BTreeSet<u64>,
    sent: BTreeMap<u64, u64>,
    /// The last hand-over of each request.
    handed: BTreeMap<u64, HandedOver>,
    /// The time until which a session that moves must not be lost.
    moves_until: Nanos,
}

/// The figures of a run.
#[derive(Debug, Default)]
pub struct Tally {
    pub answers: u64,
    pub cuts: u64,
    pub kills: u64,
    pub losses: u64,
    pub moves: u64,
    pub continued: u64,
    pub lapses: u64,
    pub epochs: u64,
    pub revoked: u64,
}

/// All of it.
pub struct World {
    random: Random,
    now: Nanos,
    node: Node,
    end: PartitionEnd,
    gateways: Vec<Gateway>,
    clients: BTreeMap<SessionId, Client>,
    grants: Grants,
    incarnations: u64,
    may_repeat: bool,
    generations: BTreeMap<SessionId, u64>,
    /// The generation of the first good grant of sessions whose rights were taken away since the
    /// partition's start, and those of them whose loss may wait for the ring.
    revoked: BTreeMap<SessionId, u64>,
    just_revoked: BTreeSet<SessionId>,
    /// The time at which the partition last had the session bound.
    named: BTreeMap<SessionId, Nanos>,
    /// The ring takes nothing until then.
    ring_full_until: Nanos,
    was_full: bool,
    is_traced: bool,
    pub tally: Tally,
}

fn short(command: &Command) -> String {
    match command {
        Command::Request(r) => format!("request {} of {}", r.request_no(), r.session_id()),
        other => format!("{other:?}"),
    }
}

fn terms(incarnation: u64) -> PartitionTerms {
    let (partition_id, commands_max) = (PARTITION, 64);
    let log_id = LogId([1; 16]);
    PartitionTerms { partition_id, log_id, incarnation, lease: LEASE, pulse: PULSE, commands_max }
}

fn gateway(index: u32, incarnation: u64) -> Gateway {
    let id = SessionId(501 + index);
    let terms =
        GatewayTerms { session_id: id, partition_id: PARTITION, incarnation, window_bytes: 256 };
    let (end, desk, heard_at) = (GatewayEnd::new(terms), Desk::default(), Nanos(0));
    Gateway {
        id,
        incarnation,
        end,
        desk,
        wire: None,
        heard_at,
        rests_until: Nanos(0),
        cut_at: None,
        void_before: Nanos(0),
    }
}

impl World {
    pub fn new(seed: u64) -> World {
        let now = Nanos(1_000 * MS);
        let node = Node {
            log: vec![],
            events: vec![],
            sessions: BTreeMap::new(),
            choices: BTreeSet::new(),
            ended: vec![],
            ring: VecDeque::new(),
            started_at: now,
        };
        let client = || Client { next_event: 1, epoch: 0, next_request: 1, ..Client::default() };
        World {
            random: Random(seed),
            now,
            node,
            end: PartitionEnd::new(terms(1), []),
            gateways: (0..GATEWAYS).map(|index| gateway(index, u64::from(index) + 1)).collect(),
            clients: (1..=SESSIONS).map(|id| (SessionId(id), client())).collect(),
            grants: Grants::of_start(1),
            incarnations: 10,
            may_repeat: false,
            generations: BTreeMap::new(),
            revoked: BTreeMap::new(),
            just_revoked: BTreeSet::new(),
            named: BTreeMap::new(),
            ring_full_until: Nanos(0),
            was_full: false,
            is_traced: std::env::var_os("WEIR_LINK_TRACE").is_some(),
            tally: Tally::default(),
        }
    }

    /// Runs a number of steps with faults, then without, and checks the end.
    pub fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            self.step(true);
        }
        for _ in 0..600 {
            self.step(false);
        }
        for (id, client) in &self.clients {
            assert!(client.is_open, "session {id} is not logged on");
            assert_eq!(
                client.unanswered.len(),
                0,
                "1: session {id} has requests without an answer"
            );
            let events = self.node.sessions.get(id).map_or(0, |state| state.events);
            assert_eq!(client.next_event, events + 1, "2: session {id} lacks events");
        }
        self.leave_while_cut(SessionId(1));
        // All leave: those with cancel-on-disconnect lose their orders when the lease has lapsed.
        for index in 0..self.gateways.len() {
            self.kill_gateway(index);
        }
        for _ in 0..80 {
            self.advance(10 * MS);
            self.serve_partition();
        }
        for (id, state) in &self.node.sessions {
            assert!(!chose(*id) || state.live == 0, "4: orders of session {id} are live");
        }
    }

    /// Lets a session with cancel-on-disconnect leave while the link is cut: it is not named when
    /// the link is made again.
    fn leave_while_cut(&mut self, id: SessionId) {
        let at = self.clients[&id].at.expect("all are logged on");
        self.disconnect(at);
        self.leave(at, id, Switch::On);
        self.is_away(id);
        for _ in 0..200 {
            self.advance(5 * MS);
            self.serve_gateways(false);
            self.deliver();
            self.serve_partition();
        }
        let live = self.node.sessions.get(&id).map_or(0, |state| state.live);
        assert_eq!(live, 0, "4: orders of session {id} are live");
    }

    fn trace(&self, text: &dyn std::fmt::Display) {
        if self.is_traced {
            eprintln!("{:>8} {text}", self.now.0 / 1_000 - 1_000_000);
        }
    }

    fn step(&mut self, has_faults: bool) {
        let by = 1 + self.random.below(5 * MS);
        self.advance(by);
        match self.random.below(if has_faults { 40 } else { 30 }) {
            0..8 => self.client_sends(has_faults),
            8..14 => self.client_comes(has_faults),
            30 => self.client_goes(),
            31..33 => self.cut(),
            33 => {
                let index = self.random.below(u64::from(GATEWAYS)) as usize;
                self.kill_gateway(index);
            }
            34 => self.kill_partition(),
            35 => self.refuse_some(),
            36 => {
                let by = self.random.below(200 * MS);
                self.advance(by);
            }
            37 if self.random.one_in(3) => self.revoke(),
            _ => {}
        }
        self.serve_gateways(has_faults);
        self.deliver();
        self.serve_partition();
        if self.end.next_command().is_none() {
            self.just_revoked.clear();
        }
        self.deliver_to_clients();
    }

    fn advance(&mut self, by: u64) {
        self.now = Nanos(self.now.0 + by);
    }

    fn client_sends(&mut self, has_faults: bool) {
        if !has_faults {
            return;
        }
        let id = SessionId(1 + self.random.below(u64::from(SESSIONS)) as u32);
        let client = self.clients.get_mut(&id).expect("all are there");
        if client.is_open {
            let number = client.next_request;
            client.next_request += 1;
            client.unanswered.insert(number, 0);
            self.hand_over(id, number);
        }
    }

    fn hand_over(&mut self, id: SessionId, number: u64) {
        let client = self.clients.get_mut(&id).expect("all are there");
        let Some(at) = client.at else { return };
        let command = LinkCommand { request: request(id, number), trace_id: 0, t0: self.now };
        let end = &mut self.gateways[at].end;
        let generation = end.generation_of(id).unwrap_or(0);
        let taken = end.hand_over(command);
        if self.is_traced {
            eprintln!("  session {id} request {number} at {at}: {taken:?}");
        }
        match taken {
            HandOver::Taken => {
                *client.sent.entry(number).or_default() += 1;
                client.handed.insert(number, HandedOver { at, then: self.now, generation });
            }
            HandOver::UnderWay | HandOver::NoRoom | HandOver::NotBound => {}
        }
    }

    fn client_comes(&mut self, may_move: bool) {
        let id = SessionId(1 + self.random.below(u64::from(SESSIONS)) as u32);
        let at = self.random.below(u64::from(GATEWAYS)) as usize;
        let (gateways, now) = (&self.gateways, self.now);
        let to = &gateways[at];
        let client = &self.clients[&id];
        let is_elsewhere = client.at.is_some();
        if client.at == Some(at)
            || is_elsewhere && !(may_move && self.random.one_in(3))
            || !to.end.is_open()
        {
            return;
        }
        let from = Claimant { gateway: to.id, incarnation: to.incarnation };
        let (session_id, bound_session_id) = (to.id, id);
        let message =
            ClaimSession { heard: now, session_id, bound_session_id, takeover: Switch::On };
        let is_up = |one: Claimant| {
            gateways.iter().any(|g| g.incarnation == one.incarnation && g.wire.is_some())
        };
        let Ok(granted) = self.grants.claim(&Claim { from, message, at: now }, is_up) else {
            return;
        };
        let (next, epoch) = (client.next_event, client.epoch);
        self.tally.moves += u64::from(is_elsewhere);
        // Control tells the gateway before, if it can. Else that one goes on with the session.
        if let Some(before) = client.at.filter(|before| gateways[*before].wire.is_some()) {
            self.leave(before, id, Switch::Off);
        }
        let heard = is_elsewhere.then(|| self.heard_of(id)).flatten();
        let client = self.clients.get_mut(&id).expect("all are there");
        client.moves_until = heard.map_or(Nanos(0), |heard| Nanos(heard.0 + LEASE.0));
        (client.at, client.is_open) = (Some(at), false);
        let to = &mut self.gateways[at];
        let session = AtGateway { next, epoch, ..AtGateway::default() };
        to.desk.sessions.insert(id, session);
        let (session_id, generation) = (id, granted.generation);
        let cancel_on_disconnect = if chose(id) { Switch::On } else { Switch::Off };
        let seal = seal(id, from, generation);
        if self.is_traced {
            eprintln!("  session {id} to {at}, generation {generation}, from {next}");
        }
        to.end.bind(
            WantedBinding { session_id, generation, seal, cancel_on_disconnect },
            &mut to.desk,
        );
    }

    fn client_goes(&mut self) {
        let id = SessionId(1 + self.random.below(u64::from(SESSIONS)) as u32);
        if let Some(at) = self.clients[&id].at {
            self.leave(at, id, Switch::On);
            self.is_away(id);
        }
    }

    fn leave(&mut self, at: usize, id: SessionId, is_ended: Switch) {
        let gateway = &mut self.gateways[at];
        gateway.desk.sessions.remove(&id);
        gateway.end.unbind(id, is_ended);
    }

    fn is_away(&mut self, id: SessionId) {
        let client = self.clients.get_mut(&id).expect("all are there");
        (client.at, client.is_open, client.moves_until) = (None, false, Nanos(0));
    }

    fn cut(&mut self) {
        let at = self.random.below(u64::from(GATEWAYS)) as usize;
        self.disconnect(at);
        self.tally.cuts += 1;
        if self.random.one_in(4) {
            self.gateways[at].rests_until = Nanos(self.now.0 + self.random.below(3 * LEASE.0));
        }
    }

    fn disconnect(&mut self, at: usize) {
        self.trace(&format!("disconnect {at}"));
        let gateway = &mut self.gateways[at];
        if gateway.wire.take().is_some() {
            gateway.end.disconnected();
            gateway.cut_at.get_or_insert(self.now);
            self.end.disconnected(gateway.id);
        }
    }

    fn kill_gateway(&mut self, at: usize) {
        self.trace(&format!("kill gateway {at}"));
        self.disconnect(at);
        self.tally.kills += 1;
        self.incarnations += 1;
        self.gateways[at] = gateway(at as u32, self.incarnations);
        let ids: Vec<_> = self.clients.keys().copied().collect();
        for id in ids.into_iter().filter(|id| self.clients[id].at == Some(at)).collect::<Vec<_>>() {
            self.is_away(id);
        }
    }

    fn kill_partition(&mut self) {
        self.trace(&"kill partition");
        self.tally.kills += 1;
        (0..self.gateways.len()).for_each(|at| self.disconnect(at));
        let len = self.node.log.len();
        let lost = if self.random.one_in(3) { self.random.below(4) as usize } else { 0 };
        let epochs = self.node.ended.len();
        self.node.restart(len.saturating_sub(lost), self.now);
        self.tally.epochs += (self.node.ended.len() - epochs) as u64;
        self.incarnations += 1;
        let choices: Vec<_> = self.node.choices.iter().copied().collect();
        self.end = PartitionEnd::new(terms(self.incarnations), choices);
        self.generations.clear();
        self.revoked.clear();
    }

    /// Control takes a session's rights away. The partition hears of it; the gateway, by the
    /// partition alone, or never if its link is cut.
    fn revoke(&mut self) {
        let session_id = SessionId(1 + self.random.below(u64::from(SESSIONS)) as u32);
        let good_from = self.grants.next_generation();
        self.trace(&format!("revoke {session_id}, good from {good_from}"));
        let reason = Reason::KeyReplaced;
        self.end.revoke(&Revocation { session_id, good_from, reason });
        self.revoked.insert(session_id, good_from);
        self.just_revoked.insert(session_id);
        self.tally.revoked += 1;
    }

    /// The log is full for the requests in the ring.
    fn refuse_some(&mut self) {
        let ring = std::mem::take(&mut self.node.ring);
        for command in ring {
            match &command {
                Command::Request(request)
                    if request.request_no().0
                        > self.node.sessions.get(&request.session_id()).map_or(0, |s| s.last) =>
                {
                    self.end.refused(RequestName::of(request), Reason::LogFull);
                }
                // Those that the partition has received before are kept for a later batch.
                _ => self.node.ring.push_back(command),
            }
        }
    }

    fn serve_gateways(&mut self, has_faults: bool) {
        for at in 0..self.gateways.len() {
            let is_rested = !has_faults || self.now >= self.gateways[at].rests_until;
            if self.gateways[at].wire.is_none() && is_rested && self.random.one_in(4) {
                let gateway = &mut self.gateways[at];
                gateway.wire = Some(Wire::default());
                gateway.end.connected(self.now);
                let was_long = |cut: Nanos| self.now.since(cut).0 > LEASE.0 + LEASE.0 / 2;
                if let Some(cut) = gateway.cut_at.take().filter(|cut| was_long(*cut)) {
                    gateway.void_before = cut;
                }
            }
            let now = self.now;
            if self.gateways[at].end.has_lapsed(now) {
                self.lapse(at);
            }
            let gateway = &mut self.gateways[at];
            gateway.end.flush(now);
            // Some are slow for a while.
            let is_slow = has_faults && (now.0 / (64 * MS) + at as u64).is_multiple_of(4);
            gateway.end.use_bytes(if is_slow { 0 } else { 1_000 }, now);
            if gateway.end.tick(now).is_err() {
                self.disconnect(at);
                continue;
            }
            let output = gateway.end.take_output();
            if let Some(wire) = &mut gateway.wire {
                wire.there.extend(output);
            }
        }
    }

    /// A gateway gives its sessions up: the partition takes them as lost.
    fn lapse(&mut self, at: usize) {
        self.tally.lapses += 1;
        let ids: Vec<_> = self.gateways[at].desk.sessions.keys().copied().collect();
        ids.into_iter().for_each(|id| self.is_ended(at, id, Reason::PartitionAway));
    }

    /// Delivers a part of the bytes under way.
    fn deliver(&mut self) {
        for at in 0..self.gateways.len() {
            let Some(wire) = self.gateways[at].wire.as_mut() else { continue };
            let (there, back) = (wire.there.len() as u64, wire.back.len() as u64);
            let count = self.random.below(there + 1).max(there.min(200)) as usize;
            wire.at_partition.extend(wire.there.drain(..count));
            let count = self.random.below(back + 1).max(back.min(400)) as usize;
            wire.at_gateway.extend(wire.back.drain(..count));
            if self.take_at_partition(at).is_err() || self.take_at_gateway(at).is_err() {
                self.disconnect(at);
            }
        }
    }

    fn take_at_partition(&mut self, at: usize) -> Result<(), LinkFault> {
        let gateway = &mut self.gateways[at];
        let Some(wire) = &mut gateway.wire else { return Ok(()) };
        let bytes = std::mem::take(&mut wire.at_partition);
        let (mut rest, mut result) = (&bytes[..], Ok(()));
        while let Some(arrived) = next_message(rest, self.now)? {
            gateway.heard_at = self.now;
            result = self.end.take(gateway.id, arrived, &mut self.node);
            assert!(result.is_ok(), "a gateway that keeps the rules is refused: {result:?}");
            rest = &rest[arrived.len..];
        }
        wire.at_partition = rest.to_vec();
        self.check_bindings();
        result
    }

    fn take_at_gateway(&mut self, at: usize) -> Result<(), LinkFault> {
        let gateway = &mut self.gateways[at];
        let Some(wire) = &mut gateway.wire else { return Ok(()) };
        let bytes = std::mem::take(&mut wire.at_gateway);
        let mut rest = &bytes[..];
        while let Some(arrived) = next_message(rest, self.now)? {
            let result = gateway.end.take(arrived, &mut gateway.desk);
            assert!(
                matches!(result, Ok(()) | Err(LinkFault::Closed(_))),
                "2: a partition that keeps the rules is refused: {result:?}"
            );
            result?;
            rest = &rest[arrived.len..];
        }
        wire.at_gateway = rest.to_vec();
        self.may_repeat |=
            std::mem::take(&mut gateway.desk.begun_anew) && gateway.end.kept_count() > 0;
        Ok(())
    }

    fn check_bindings(&mut self) {
        for id in self.clients.keys() {
            let Some((_, generation)) = self.end.bound_to(*id) else { continue };
            self.named.insert(*id, self.now);
            let before = self.generations.insert(*id, generation).unwrap_or(0);
            assert!(before <= generation, "5: a lower generation binds");
        }
    }

    fn serve_partition(&mut self) {
        for id in self.end.tick(self.now) {
            if let Some(at) = self.gateways.iter().position(|one| one.id == id) {
                self.disconnect(at);
            }
        }
        if self.now < self.ring_full_until {
            self.was_full = true;
        } else if self.random.one_in(30) {
            self.ring_full_until = Nanos(self.now.0 + self.random.below(60 * MS));
        }
        while self.now >= self.ring_full_until
            && let Some(next) = self.end.next_command()
        {
            self.end.command_taken();
            self.trace(&format!("handed on {}", short(&next.command)));
            self.check_handed_on(&next.command);
            self.node.ring.push_back(next.command);
        }
        self.was_full &= self.now < self.ring_full_until;
        let count = self.random.below(self.node.ring.len() as u64 + 1);
        for _ in 0..count {
            let Some(command) = self.node.ring.pop_front() else { break };
            self.trace(&format!("executed {}", short(&command)));
            let first = self.node.events.len();
            let is_again = self.node.apply(&command);
            if let Command::Request(request) = &command {
                let sent = &self.clients[&request.session_id()].sent;
                let times = sent.get(&request.request_no().0).copied().unwrap_or(0);
                assert!(
                    !is_again || times > 1 || self.may_repeat,
                    "1: request {} of session {} is sent again after its answer",
                    request.request_no(),
                    request.session_id()
                );
            }
            self.tally.losses += u64::from(matches!(command, Command::SessionLost(_)));
            for index in first..self.node.events.len() {
                self.end.note_record(&self.node.events[index]);
            }
        }
        for at in 0..self.gateways.len() {
            let gateway = &mut self.gateways[at];
            self.end.pump(gateway.id, &mut self.node, self.now);
            let output = self.end.take_output(gateway.id);
            if let Some(wire) = &mut gateway.wire {
                wire.back.extend(output);
            }
        }
    }

    /// Returns the time from which the lease of a session that is logged on counts.
    fn heard_of(&self, id: SessionId) -> Option<Nanos> {
        let client = &self.clients[&id];
        let at = client.at.filter(|_| client.is_open)?;
        // A start knows no bindings: the session's time began with it.
        let named = self.named.get(&id).copied().unwrap_or(Nanos(0));
        Some(match named > self.node.started_at {
            true => self.gateways[at].heard_at,
            false => self.node.started_at,
        })
    }

    fn check_handed_on(&mut self, command: &Command) {
        match command {
            Command::Request(request) => {
                let is_under_way = self.node.ring.iter().any(|other| match other {
                    Command::Request(other) => {
                        let key = |r: &Request| (r.session_id(), r.request_no());
                        key(other) == key(request)
                    }
                    _ => false,
                });
                assert!(!is_under_way, "1: a request under way is handed on again");
                let handed =
                    self.clients[&request.session_id()].handed.get(&request.request_no().0);
                let is_void =
                    handed.is_some_and(|one| one.then < self.gateways[one.at].void_before);
                assert!(!is_void, "9: a request is handed on behind the lapse of its lease");
                let good_from = self.revoked.get(&request.session_id()).copied().unwrap_or(0);
                let is_revoked = handed.is_some_and(|one| one.generation < good_from);
                assert!(!is_revoked, "10: a request without right is handed on");
            }
            Command::SessionLost(lost) => {
                let client = &self.clients[&lost.session_id];
                if self.was_full || self.just_revoked.contains(&lost.session_id) {
                    // The loss may be older than the session's logon, or have another cause.
                    return;
                }
                assert!(self.now >= client.moves_until, "4: a session that moves is lost");
                let heard = self.heard_of(lost.session_id).filter(|_| client.is_open);
                let Some(heard) = heard else { return };
                let is_lapsed = self.now.since(heard) >= LEASE;
                assert!(is_lapsed, "4: a session that is logged on is lost");
            }
            _ => {}
        }
    }

    /// Gives clients the events that their gateways have, and takes the ends of sessions.
    fn deliver_to_clients(&mut self) {
        for at in 0..self.gateways.len() {
            let desk = &mut self.gateways[at].desk;
            let refused = std::mem::take(&mut desk.refused);
            let (opened, ended) =
                (std::mem::take(&mut desk.opened), std::mem::take(&mut desk.ended));
            for (id, last) in opened {
                self.log_on(at, id, last);
            }
            for (id, number, reason) in refused {
                if self.clients[&id].at == Some(at) && self.clients[&id].is_open {
                    self.is_refused(id, number, reason);
                }
            }
            for (id, reason) in ended {
                self.is_ended(at, id, reason);
            }
            let ids: Vec<_> = self.gateways[at].desk.sessions.keys().copied().collect();
            for id in ids {
                self.deliver_events(at, id);
            }
        }
    }

    fn log_on(&mut self, at: usize, id: SessionId, last: u64) {
        let client = self.clients.get_mut(&id).expect("all are there");
        if self.is_traced {
            eprintln!("  session {id} bound at {at}, last {last}");
        }
        if client.at != Some(at) {
            return;
        }
        client.epoch = self.gateways[at].desk.sessions.get(&id).map_or(client.epoch, |s| s.epoch);
        if std::mem::replace(&mut client.is_open, true) {
            self.tally.continued += 1;
            return;
        }
        client.next_request = client.next_request.max(last + 1);
        let again: Vec<_> = client.unanswered.keys().copied().collect();
        again.into_iter().for_each(|number| self.hand_over(id, number));
    }

    fn is_refused(&mut self, id: SessionId, number: u64, reason: Reason) {
        if reason == Reason::LogFull {
            let state = self.node.sessions.get(&id);
            let is_executed = state.is_some_and(|state| state.executed.contains(&number));
            assert!(!is_executed, "1: request {number} of session {id} is refused and executed");
            let is_coming = self.node.ring.iter().any(|other| match other {
                Command::Request(r) => (r.session_id(), r.request_no().0) == (id, number),
                _ => false,
            });
            assert!(!is_coming, "1: request {number} of session {id} is refused and under way");
        }
        let client = self.clients.get_mut(&id).expect("all are there");
        client.unanswered.remove(&number);
    }

    fn is_ended(&mut self, at: usize, id: SessionId, reason: Reason) {
        self.trace(&format!("session {id} ended at {at}: {reason:?}"));
        if self.clients[&id].at != Some(at) {
            self.gateways[at].desk.sessions.remove(&id);
            return;
        }
        self.gateways[at].desk.sessions.remove(&id);
        self.is_away(id);
        if reason == Reason::ResumeOtherHistory {
            let client = self.clients.get_mut(&id).expect("all are there");
            // It drops its history and takes that of the node, from the beginning.
            (client.next_event, client.epoch) = (1, 0);
            client.unanswered.clear();
            client.answered.clear();
        }
    }

    fn deliver_events(&mut self, at: usize, id: SessionId) {
        let gateway = &mut self.gateways[at];
        let Some(session) = gateway.desk.sessions.get_mut(&id) else { return };
        let client = self.clients.get_mut(&id).expect("all are there");
        if client.at != Some(at) || !session.is_bound {
            return;
        }
        client.epoch = session.epoch;
        while let Some(record) = session.past.front() {
            if gateway.wire.is_none() {
                return;
            }
            let Some(record) = self.node.events.get(*record as usize - 1) else { return };
            session.past.pop_front();
            take_event(client, session, record, &mut self.tally);
        }
        while let Some(record) = session.live.pop_front() {
            take_event(client, session, &record, &mut self.tally);
        }
    }
}

fn take_event(client: &mut Client, session: &mut AtGateway, record: &[u8], tally: &mut Tally) {
    let event = Node::event_of(record);
    assert_eq!(
        event.event_no.0, client.next_event,
        "2: not the next event of {}",
        event.session_id
    );
    client.next_event += 1;
    session.next = client.next_event;
    if client.unanswered.remove(&event.request_no.0).is_some() {
        client.answered.insert(event.request_no.0);
        tally.answers += 1;
    }
}
