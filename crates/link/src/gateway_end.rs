//! The gateway's end of a link.
//!
//! ```text
//! away ── connected ──► opening ── LinkReady ──► naming ── all named, all events ──► open
//!   ▲                                                                                 │
//!   └────────────────────── connection lost, a fault of the other end ────────────────┘
//! ```
//!
//! It keeps each command until its answer. When the link is open again it sends the kept ones
//! again, in their order, behind the last event that existed at the opening: an answered one is not
//! sent twice, and the partition drops one that it has under way.
//!
//! INVARIANT: records reach the gateway in order, without gap and repetition; after
//! [`GatewayView::begin_anew`] from another one on.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::{Epoch, EventNo, Nanos, PartitionId, Reason, SessionId, Switch};
use weir_wire::SCHEMA_VERSION;
use weir_wire::frame::{RawMessage, put_frame};
use weir_wire::group::Group;
use weir_wire::message::{DecodeError, Message};
use weir_wire::reference::DefineInstrument;

use crate::codec::{
    Arrived, BatchEntries, COMMANDS_MAX, EVENTS_MAX, Entries, LinkFault, SKIPPED_MAX, ToGateway,
    put_with_group,
};
use crate::kept::{Kept, LinkCommand};
use crate::message::{
    BindSession, BindingsNamed, CommandBatch, CommandRefused, EpochEnded, EventBatch, HeldGrant,
    LinkOpened, LinkPulse, LinkedCommand, LinkedEvent, LogId, OpenLink, Seal, SessionBound,
    SessionFirm, SessionRecords, SessionUnbound, StageSpans, UnbindSession,
};
use crate::plant::{self, Plant};
use crate::records::{addressed, check_event};

/// The share of the window after which the gateway tells the bytes that it has used.
const TELL_SHARE: u64 = 4;

/// The most commands without an answer that a partition can permit.
const KEPT_MAX: u32 = 8_192;

/// The number that those of records and events are below: more than there can be.
const NUMBER_MAX: u64 = 1 << 62;

/// The time within which the partition has to open the link.
const OPENED_WITHIN: Nanos = Nanos(5_000_000_000);

/// The terms of a link, as the gateway sets them.
#[derive(Clone, Copy, Debug)]
pub struct GatewayTerms {
    /// The gateway's session.
    pub session_id: SessionId,
    /// The partition.
    pub partition_id: PartitionId,
    /// The number of this run of the gateway.
    pub incarnation: u64,
    /// The bytes of event batches that may be unused.
    pub window_bytes: u32,
}

/// A session's resume point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionPoint {
    /// The first event wanted; zero for new events only.
    pub next_event_no: EventNo,
    /// The epoch in which the one before was received; zero if unknown.
    pub epoch: Epoch,
}

impl SessionPoint {
    /// The point of a session that wants new events only.
    pub const NONE: SessionPoint =
        SessionPoint { next_event_no: EventNo::NONE, epoch: Epoch::NONE };
}

/// The load of a partition, as its newest pulse tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionLoad {
    /// The gateway's commands that wait for the partition's ring.
    pub queued: u32,
    /// All commands that wait for the partition.
    pub waiting: u32,
    /// The share of what may wait, in thousandths.
    pub permille: u16,
}

/// A definition of a partition, before its link is ready.
#[derive(Clone, Debug)]
pub enum Defined<'a> {
    /// An instrument.
    Instrument(&'a DefineInstrument),
    /// The firms of sessions.
    Firms(Group<'a, SessionFirm>),
}

/// A message of a partition: its own, or the definition of an instrument.
enum Decoded<'a> {
    Message(ToGateway<'a>),
    Instrument(DefineInstrument),
    /// One that this version does not know: it is passed over.
    OfLaterVersion,
}

impl<'a> Decoded<'a> {
    /// Decodes a message. One that does not decode is a fault in each state: a definition that was
    /// passed over would be missing until the gateway starts again.
    fn of(raw: &RawMessage<'a>) -> Result<Decoded<'a>, DecodeError> {
        let is_later = raw.version > SCHEMA_VERSION;
        if raw.template_id == DefineInstrument::TEMPLATE_ID {
            return match raw.decode_whole() {
                // Its orders are refused, and all others pass.
                Err(DecodeError::FieldOutOfRange { .. }) if is_later => Ok(Decoded::OfLaterVersion),
                decoded => decoded.map(Decoded::Instrument),
            };
        }
        match ToGateway::decode(raw) {
            Err(DecodeError::UnknownTemplate(_)) if is_later => Ok(Decoded::OfLaterVersion),
            decoded => decoded.map(Decoded::Message),
        }
    }
}

/// The gateway behind the end.
pub trait GatewayView {
    /// The link begins at another record than the one that was next: what was received before is
    /// dropped, and each session goes on from its own resume point.
    fn begin_anew(&mut self, next_record: u64, epoch: Epoch);
    /// Returns the resume point of a session that is bound anew: the first event that its client
    /// was not sent. Events that the gateway holds for it come again.
    fn resume_point(&mut self, session_id: SessionId) -> SessionPoint;
    /// A definition of the partition, or the firms of its sessions, before the link is ready.
    fn defined(&mut self, defined: &Defined<'_>);
    /// A record; `is_bound` if it is the next event of a session that is bound to the link. Others
    /// are definitions, or events for drop copy.
    fn record(&mut self, number: u64, record: &[u8], is_bound: bool);
    /// Records that do not concern the gateway.
    fn skipped(&mut self, first: u64, count: u64);
    /// An epoch ended before the next record.
    fn epoch_ended(&mut self, ended: &EpochEnded);
    /// The stage times of a command.
    fn stages(&mut self, stages: &StageSpans);
    /// A session is bound, or checked, or refused. `goes_on` if its events go on where they were
    /// when the link was lost.
    fn bound(&mut self, bound: &SessionBound, goes_on: bool);
    /// The records of a session's events before those of the link.
    fn past_records(&mut self, session_id: SessionId, records: &mut dyn Iterator<Item = u64>);
    /// The binding of a session has ended.
    fn unbound(&mut self, unbound: &SessionUnbound);
    /// The log did not take a command.
    fn refused(&mut self, refused: &CommandRefused);
    /// Any other message.
    fn other(&mut self, message: &ToGateway<'_>);
}

/// A session that the gateway binds at the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedBinding {
    /// The session.
    pub session_id: SessionId,
    /// The grant's generation.
    pub generation: u64,
    /// The grant's seal.
    pub seal: Seal,
    /// On if the session's loss is to cancel its live orders.
    pub cancel_on_disconnect: Switch,
}

#[derive(Clone, Copy, Debug)]
struct HeldSession {
    wanted: WantedBinding,
    /// True while the partition has bound it, for this connection.
    is_bound: bool,
    /// True once the partition has bound it: its commands are kept while it is bound again.
    was_bound: bool,
    /// The first record that the link has for the session.
    from_record: u64,
    /// True while the answer to a `BindSession` of this connection is due.
    is_asked: bool,
    /// True while that answer is due to a naming at the opening: the link is open after it.
    is_named: bool,
    /// The resume point of that question.
    point: SessionPoint,
    /// The number of the next event that the link has for the session.
    next_event_no: EventNo,
    /// The listed records that are still to come, and the last one that came.
    unlisted: u32,
    last_listed: u64,
}

impl HeldSession {
    fn new(wanted: WantedBinding) -> HeldSession {
        HeldSession {
            wanted,
            is_bound: false,
            was_bound: false,
            from_record: 0,
            is_asked: false,
            is_named: false,
            point: SessionPoint::NONE,
            next_event_no: EventNo::NONE,
            unlisted: 0,
            last_listed: 0,
        }
    }

    /// Takes the numbers of an answer by which the session is bound anew.
    fn begin(&mut self, bound: &SessionBound) -> Result<(), LinkFault> {
        let wanted = self.point.next_event_no;
        let listed = u64::from(bound.record_count);
        let is_right = (1..NUMBER_MAX).contains(&bound.next_event_no.0)
            && (1..NUMBER_MAX).contains(&bound.next_record)
            && (1..=bound.next_event_no.0).contains(&bound.oldest_event_no.0)
            && (!wanted.is_none() || listed == 0)
            && wanted.0.saturating_add(listed) <= bound.next_event_no.0;
        if !is_right {
            return Err(LinkFault::OutOfRange(SessionBound::NAME));
        }
        self.from_record = bound.next_record;
        self.next_event_no = match wanted.is_none() {
            true => bound.next_event_no,
            false => EventNo(wanted.0 + listed),
        };
        (self.unlisted, self.last_listed) = (bound.record_count, 0);
        Ok(())
    }

    /// Takes the records that a partition lists behind its answer.
    fn take_listed(&mut self, records: impl Iterator<Item = u64>) -> Result<(), LinkFault> {
        for record in records {
            let is_right =
                self.unlisted > 0 && record > self.last_listed && record < self.from_record;
            if !is_right {
                return Err(LinkFault::OutOfRange(SessionRecords::NAME));
            }
            (self.unlisted, self.last_listed) = (self.unlisted - 1, record);
        }
        Ok(())
    }

    /// Takes the number of an event that the link has for the session. One that was refused before
    /// the partition knew the session has none.
    fn take_event(&mut self, event_no: EventNo) -> Result<(), LinkFault> {
        if event_no.is_none() {
            return Ok(());
        }
        if event_no != self.next_event_no {
            let (session_id, wanted) = (self.wanted.session_id, self.next_event_no);
            return Err(LinkFault::EventGap { session_id, wanted, found: event_no });
        }
        self.next_event_no = event_no.next();
        Ok(())
    }
}

/// A session that has moved to another gateway.
#[derive(Clone, Copy, Debug)]
struct Moved {
    /// That of the binding here.
    generation: u64,
    /// The stamp of the last pulse before the partition was told. Once it has heard a later one, it
    /// has heard of the move: bytes of a link that is lost may be lost.
    told_behind: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Away,
    Opening,
    /// `LinkOpened` has come; definitions follow.
    Defining,
    Naming,
    Open,
}

/// The outcome of handing over a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum HandOver {
    /// It is kept, and sent as soon as the link is open.
    Taken,
    /// As many as permitted have no answer: later.
    NoRoom,
    /// It has no answer yet: the answer to the first is that to all.
    UnderWay,
    /// Its session is not bound here.
    NotBound,
}

/// The gateway's end of the link to one partition.
#[derive(Debug)]
pub struct GatewayEnd {
    terms: GatewayTerms,
    phase: Phase,
    /// The log of the records.
    log_id: LogId,
    next_record: u64,
    epoch: Epoch,
    /// The first record that did not exist when the link was opened.
    end_record: u64,
    is_continued: bool,
    commands_max: usize,
    held: BTreeMap<SessionId, HeldSession>,
    /// The answers to `BindSession` that this connection owes for a session: the last one counts.
    owed: BTreeMap<SessionId, u32>,
    /// Sessions whose last answer was for an earlier question: its list is none of theirs.
    passed_over: BTreeSet<SessionId>,
    /// Sessions that have moved, of which the partition may not have been told: they have not
    /// ended, and it is told so before all are named.
    moved: BTreeMap<SessionId, Moved>,
    /// The stamp of the last pulse, and the time since which the next one counts.
    pulsed_at: Nanos,
    pulse_since: Nanos,
    kept: Kept,
    /// The number of the next kept command to send.
    to_send: u64,
    batch: BatchEntries,
    output: Vec<u8>,
    /// Bytes of event batches since the opening: received, used, and told as used.
    received: u64,
    used: u64,
    told: u64,
    pulse: Nanos,
    heard: Option<(Nanos, Nanos)>,
    heard_at: Nanos,
    said_at: Nanos,
    /// The time after which the partition takes absent sessions as lost.
    lease: Nanos,
    /// The time of the last bytes before the link was lost; `None` while there is a link, or was
    /// none yet, or the lease has lapsed.
    away_since: Option<Nanos>,
    load: PartitionLoad,
}

impl GatewayEnd {
    /// Returns the end of a link that is away.
    #[must_use]
    pub fn new(terms: GatewayTerms) -> GatewayEnd {
        GatewayEnd {
            terms,
            phase: Phase::Away,
            log_id: LogId::NONE,
            next_record: 0,
            epoch: Epoch::NONE,
            end_record: 0,
            is_continued: false,
            commands_max: 1,
            held: BTreeMap::new(),
            owed: BTreeMap::new(),
            passed_over: BTreeSet::new(),
            moved: BTreeMap::new(),
            pulsed_at: Nanos(0),
            pulse_since: Nanos(0),
            kept: Kept::default(),
            to_send: 0,
            batch: BatchEntries::default(),
            output: Vec::new(),
            received: 0,
            used: 0,
            told: 0,
            pulse: Nanos(0),
            heard: None,
            heard_at: Nanos(0),
            said_at: Nanos(0),
            lease: Nanos(u64::MAX),
            away_since: None,
            load: PartitionLoad::default(),
        }
    }

    /// Returns true if commands are sent as they come.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Returns the number of kept commands.
    #[must_use]
    pub fn kept_count(&self) -> usize {
        self.kept.len()
    }

    /// Returns the next record.
    #[must_use]
    pub fn next_record(&self) -> u64 {
        self.next_record
    }

    /// Returns the partition's next record at the opening of the link.
    #[must_use]
    pub fn end_record(&self) -> u64 {
        self.end_record
    }

    /// Returns the epoch up to which the link has told the records.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the generation by which a session is held; `None` if it is not.
    #[must_use]
    pub fn generation_of(&self, session_id: SessionId) -> Option<u64> {
        self.held.get(&session_id).map(|held| held.wanted.generation)
    }

    /// Takes the bytes to be sent.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Begins a connection whose logon is accepted.
    pub fn connected(&mut self, now: Nanos) {
        self.phase = Phase::Opening;
        self.output.clear();
        (self.received, self.used, self.told) = (0, 0, 0);
        (self.heard_at, self.said_at, self.heard) = (now, now, None);
        self.pulse_since = now;
        let GatewayTerms { session_id, partition_id, incarnation, window_bytes } = self.terms;
        let (next_record, epoch, log_id) = (self.next_record, self.epoch, self.log_id);
        let open = OpenLink {
            incarnation,
            next_record,
            window_bytes,
            session_id,
            epoch,
            partition_id,
            log_id,
        };
        put_frame(&open, &mut self.output);
    }

    /// Returns the partition's load; that of its last pulse while the link is away.
    #[must_use]
    pub fn load(&self) -> PartitionLoad {
        self.load
    }

    /// The connection is lost.
    pub fn disconnected(&mut self) {
        if self.is_linked() {
            self.away_since = Some(self.heard_at);
        }
        self.phase = Phase::Away;
        self.output.clear();
        self.batch = BatchEntries::default();
        self.owed.clear();
        self.passed_over.clear();
        for held in self.held.values_mut() {
            (held.is_asked, held.is_named) = (false, false);
        }
        if plant::is(Plant::KeptDropped) {
            self.kept.clear();
        }
        self.to_send = self.kept.range().0;
    }

    /// Returns true, once, when the link has been away for the partition's lease. The commands
    /// without an answer are dropped then and the sessions given up: the partition takes them as
    /// lost, and none of their commands may be executed minutes later.
    pub fn has_lapsed(&mut self, now: Nanos) -> bool {
        let is_over = |since: Nanos| now.since(since) >= self.lease;
        if !self.away_since.is_some_and(is_over) {
            return false;
        }
        self.away_since = None;
        // Control's link has no commands of traders, and the gateway keeps its grants.
        if !self.terms.partition_id.is_none() && !plant::is(Plant::LapseUnnoticed) {
            self.unbind_all();
        }
        true
    }

    /// Asks to bind a session that control has granted. Without an open link it is bound when the
    /// link is open. Its commands under an earlier binding come before.
    pub fn bind(&mut self, wanted: WantedBinding, view: &mut impl GatewayView) {
        self.flush(self.said_at);
        self.held.insert(wanted.session_id, HeldSession::new(wanted));
        self.moved.remove(&wanted.session_id);
        if self.is_linked() {
            self.ask_to_bind(wanted.session_id, view);
        }
    }

    /// Asks if a session could be bound with this resume point; false without a link.
    pub fn check(&mut self, session_id: SessionId, point: SessionPoint) -> bool {
        if !self.is_linked() {
            return false;
        }
        let wanted = WantedBinding {
            session_id,
            generation: 0,
            seal: Seal::NONE,
            cancel_on_disconnect: Switch::Off,
        };
        let bind = self.bind_message(&wanted, point);
        put_frame(&BindSession { is_check: Switch::On, ..bind }, &mut self.output);
        true
    }

    /// Ends a session's binding. Its commands so far come before.
    pub fn unbind(&mut self, session_id: SessionId, is_ended: Switch) {
        self.flush(self.said_at);
        let Some(held) = self.held.remove(&session_id) else { return };
        self.kept.forget(session_id);
        self.to_send = self.to_send.max(self.kept.range().0);
        let generation = held.wanted.generation;
        if self.is_linked() {
            self.put_unbind(session_id, generation, is_ended);
        }
        if is_ended == Switch::Off && !plant::is(Plant::MoveForgotten) {
            self.moved.insert(session_id, Moved { generation, told_behind: self.pulsed_at });
        }
    }

    fn put_unbind(&mut self, session_id: SessionId, generation: u64, is_ended: Switch) {
        let unbind = UnbindSession {
            generation,
            session_id: self.terms.session_id,
            bound_session_id: session_id,
            partition_id: self.terms.partition_id,
            is_ended,
        };
        put_frame(&unbind, &mut self.output);
    }

    /// Gives all sessions up, which may come back by another binding.
    pub fn unbind_all(&mut self) {
        let ids: Vec<_> = self.held.keys().copied().collect();
        ids.into_iter().for_each(|id| self.unbind(id, Switch::Off));
    }

    /// Returns the grants of the sessions that the gateway holds.
    #[must_use]
    pub fn grants(&self) -> Vec<HeldGrant> {
        let grant = |held: &HeldSession| HeldGrant {
            generation: held.wanted.generation,
            seal: held.wanted.seal,
            bound_session_id: held.wanted.session_id,
        };
        self.held.values().map(grant).collect()
    }

    /// Returns true from the end of the definitions on, until the connection is lost.
    #[must_use]
    pub fn is_linked(&self) -> bool {
        matches!(self.phase, Phase::Naming | Phase::Open)
    }

    /// Sends a message that concerns no binding; false without a link.
    pub fn put<M: Message>(&mut self, message: &M) -> bool {
        if self.is_linked() {
            put_frame(message, &mut self.output);
        }
        self.is_linked()
    }

    /// Sends a message with a group that concerns no binding; false without a link.
    pub fn put_with_group<M: Message, E: Message>(&mut self, message: &M, entries: &[E]) -> bool {
        if self.is_linked() {
            put_with_group(message, entries, &mut self.output);
        }
        self.is_linked()
    }

    /// Takes a command of a bound session; [`GatewayEnd::flush`] sends it.
    pub fn hand_over(&mut self, command: LinkCommand) -> HandOver {
        let session_id = command.request.session_id();
        let held = self.held.get(&session_id).filter(|held| held.was_bound);
        let Some(held) = held else { return HandOver::NotBound };
        if self.kept.len() >= self.commands_max {
            return HandOver::NoRoom;
        }
        match self.kept.add(command, held.wanted.generation) {
            Some(_) => HandOver::Taken,
            None => HandOver::UnderWay,
        }
    }

    /// Makes batches of the commands that are to be sent.
    pub fn flush(&mut self, now: Nanos) {
        if self.phase != Phase::Open {
            return;
        }
        let (mut bytes, mut was_sent) = (Vec::new(), false);
        while let Some((number, kept)) = self.kept.unsent(self.to_send) {
            let kept = *kept;
            self.to_send = number + 1;
            let held = self.held.get(&kept.request.session_id());
            // That of a session that is being bound follows with the answer to that.
            let Some(held) = held.filter(|held| held.is_bound).copied() else { continue };
            if was_sent != self.kept.was_sent(number) && !self.batch.is_empty() {
                self.put_batch(now, was_sent);
            }
            was_sent = self.kept.was_sent(number);
            bytes.clear();
            kept.request.encode(&mut bytes);
            let entry = LinkedCommand {
                generation: held.wanted.generation,
                trace_id: kept.trace_id,
                t0_before: u32::try_from(now.since(kept.t0).0).unwrap_or(u32::MAX),
            };
            self.batch.push(&entry, &bytes);
            self.kept.sent(number);
            if self.batch.is_full(COMMANDS_MAX) {
                self.put_batch(now, was_sent);
            }
        }
        if !self.batch.is_empty() {
            self.put_batch(now, was_sent);
        }
    }

    fn put_batch(&mut self, now: Nanos, was_sent: bool) {
        self.said_at = now;
        let head = CommandBatch {
            sent_at: now,
            session_id: self.terms.session_id,
            epoch: self.epoch,
            partition_id: self.terms.partition_id,
            is_again: if was_sent { Switch::On } else { Switch::Off },
        };
        self.batch.put::<_, LinkedCommand>(&head, &mut self.output);
    }

    /// The gateway has used so many more bytes of event batches.
    pub fn use_bytes(&mut self, count: u64, now: Nanos) {
        self.used = (self.used + count).min(self.received);
        let due = u64::from(self.terms.window_bytes) / TELL_SHARE;
        if self.phase != Phase::Away && self.used - self.told >= due.max(1) {
            self.put_pulse(now);
        }
    }

    /// Returns the bytes of event batches that are not used yet.
    #[must_use]
    pub fn unused_bytes(&self) -> u64 {
        self.received - self.used
    }

    /// Sends a sign of life when it is due.
    ///
    /// # Errors
    /// [`LinkFault::Silent`].
    pub fn tick(&mut self, now: Nanos) -> Result<(), LinkFault> {
        if self.phase == Phase::Away {
            return Ok(());
        }
        let silence = now.since(self.heard_at);
        if self.phase == Phase::Opening {
            // A first opening has no pulse yet.
            return if silence > OPENED_WITHIN { Err(LinkFault::Silent) } else { Ok(()) };
        }
        if silence.0 * 2 > self.pulse.0 * 5 {
            return Err(LinkFault::Silent);
        }
        // By their own time: commands tell neither credit nor what was heard.
        let since = if plant::is(Plant::PulsesDeferred) { self.said_at } else { self.pulse_since };
        if now.since(since) >= self.pulse {
            self.put_pulse(now);
        }
        Ok(())
    }

    /// Bytes of the partition are not read on purpose: it is not silent.
    pub fn held_back(&mut self, now: Nanos) {
        self.heard_at = now;
    }

    fn put_pulse(&mut self, now: Nanos) {
        (self.said_at, self.pulsed_at, self.pulse_since) = (now, now, now);
        self.told = self.used;
        let (heard_sent_at, heard_at) = self.heard.unwrap_or_default();
        let pulse = LinkPulse {
            sent_at: now,
            heard_sent_at,
            heard_at,
            bytes_used: self.used,
            session_id: self.terms.session_id,
            queued: 0,
            waiting: 0,
            partition_id: self.terms.partition_id,
            load_permille: 0,
        };
        put_frame(&pulse, &mut self.output);
    }

    fn bind_message(&self, wanted: &WantedBinding, point: SessionPoint) -> BindSession {
        BindSession {
            generation: wanted.generation,
            next_event_no: point.next_event_no,
            seal: wanted.seal,
            session_id: self.terms.session_id,
            bound_session_id: wanted.session_id,
            epoch: point.epoch,
            partition_id: self.terms.partition_id,
            cancel_on_disconnect: wanted.cancel_on_disconnect,
            is_check: Switch::Off,
            is_again: Switch::Off,
        }
    }

    fn ask_to_bind(&mut self, session_id: SessionId, view: &mut impl GatewayView) {
        let Some(held) = self.held.get_mut(&session_id) else { return };
        // A binding goes on only with the link's records, from its own first one on: where the link
        // is behind that, the record may be another one now. Its list has to be complete.
        let has_all = held.unlisted == 0 && held.from_record <= self.next_record;
        held.is_bound &= self.is_continued && has_all;
        held.is_asked = true;
        let (wanted, is_bound) = (held.wanted, held.is_bound);
        let (is_again, point) = match is_bound {
            true => (Switch::On, SessionPoint { next_event_no: EventNo::NONE, epoch: self.epoch }),
            false => (Switch::Off, view.resume_point(session_id)),
        };
        held.point = point;
        *self.owed.entry(session_id).or_default() += 1;
        let bind = BindSession { is_again, ..self.bind_message(&wanted, point) };
        put_frame(&bind, &mut self.output);
    }

    /// Takes a message of the partition.
    ///
    /// # Errors
    /// [`LinkFault`]: the connection is to be closed.
    pub fn take(
        &mut self,
        arrived: Arrived<'_>,
        view: &mut impl GatewayView,
    ) -> Result<(), LinkFault> {
        let Arrived { raw, len, at: now } = arrived;
        let raw = &raw;
        self.heard_at = now;
        let message = match Decoded::of(raw)? {
            Decoded::Message(message) => message,
            Decoded::Instrument(definition) if self.phase == Phase::Defining => {
                view.defined(&Defined::Instrument(&definition));
                return Ok(());
            }
            Decoded::Instrument(_) => return Err(LinkFault::OutOfPlace(DefineInstrument::NAME)),
            Decoded::OfLaterVersion => return Ok(()),
        };
        match (&message, self.phase) {
            (ToGateway::Logout(logout), _) => return Err(LinkFault::Closed(logout.reason)),
            (ToGateway::LinkOpened(opened), Phase::Opening) => self.opened(opened, view)?,
            (ToGateway::SessionFirms(_, firms), Phase::Defining) => {
                view.defined(&Defined::Firms(firms.clone()));
            }
            (ToGateway::LinkReady(_), Phase::Defining) => self.ready(view),
            (ToGateway::LinkPulse(pulse), _) => {
                self.take_pulse(pulse, now);
            }
            (_, Phase::Away | Phase::Opening | Phase::Defining) => {
                return Err(LinkFault::OutOfPlace(message.name()));
            }
            (ToGateway::EventBatch(batch, events), _) => {
                if self.unused_bytes() >= u64::from(self.terms.window_bytes) {
                    return Err(LinkFault::WindowOverrun);
                }
                self.received += len as u64;
                self.take_events(batch, events.clone(), view)?;
            }
            (ToGateway::EpochEnded(ended), _) => self.take_end(ended, view)?,
            (ToGateway::StageBatch(_, stages), _) => {
                stages.clone().flatten().for_each(|stages| view.stages(&stages));
            }
            (ToGateway::CommandRefused(refused), _) => {
                // Of a session that has ended, or made up.
                let (id, request_no) = (refused.bound_session_id, refused.request_no);
                if self.kept.refuse(id, request_no, refused.generation) {
                    view.refused(refused);
                }
            }
            (ToGateway::SessionBound(bound), _) => self.take_bound(bound, view)?,
            (ToGateway::SessionRecords(head, records), _) => {
                let id = head.bound_session_id;
                let held = self.held.get_mut(&id).filter(|_| !self.passed_over.contains(&id));
                if let Some(held) = held.filter(|held| held.wanted.generation == head.generation) {
                    let mut numbers = records.clone().flatten().map(|one| one.record);
                    held.take_listed(numbers.clone())?;
                    view.past_records(head.bound_session_id, &mut numbers);
                }
            }
            (ToGateway::SessionUnbound(unbound), _) => {
                let held = self.held.get(&unbound.bound_session_id);
                if held.is_some_and(|held| held.wanted.generation < unbound.generation) {
                    self.drop_session(unbound.bound_session_id);
                    view.unbound(unbound);
                }
            }
            (other, _) => view.other(other),
        }
        self.open_if_due(now);
        Ok(())
    }

    fn take_pulse(&mut self, pulse: &LinkPulse, now: Nanos) {
        self.heard = Some((pulse.sent_at, now));
        self.load = PartitionLoad {
            queued: pulse.queued,
            waiting: pulse.waiting,
            permille: pulse.load_permille.min(1_000),
        };
        self.moved.retain(|_, moved| moved.told_behind >= pulse.heard_sent_at);
    }

    fn opened(
        &mut self,
        opened: &LinkOpened,
        view: &mut impl GatewayView,
    ) -> Result<(), LinkFault> {
        if opened.partition_id != self.terms.partition_id {
            return Err(LinkFault::WrongPartition);
        }
        self.is_continued = opened.is_continued == Switch::On;
        if self.is_continued && opened.next_record != self.next_record {
            let (wanted, found) = (self.next_record, opened.next_record);
            return Err(LinkFault::Gap { wanted, found });
        }
        if self.is_continued && (opened.log_id != self.log_id || self.log_id == LogId::NONE) {
            return Err(LinkFault::OutOfPlace(LinkOpened::NAME));
        }
        if !(1..NUMBER_MAX).contains(&opened.next_record) || opened.epoch == Epoch::NONE {
            return Err(LinkFault::OutOfRange(LinkOpened::NAME));
        }
        if !self.is_continued {
            (self.next_record, self.epoch) = (opened.next_record, opened.epoch);
            self.log_id = opened.log_id;
            view.begin_anew(opened.next_record, opened.epoch);
        }
        self.end_record = opened.end_record;
        self.commands_max = opened.commands_max.clamp(1, KEPT_MAX) as usize;
        self.lease = Nanos(u64::from(opened.lease_ms) * 1_000_000);
        self.pulse = Nanos(u64::from(opened.pulse_ms) * 1_000_000);
        self.phase = Phase::Defining;
        Ok(())
    }

    /// Names all held sessions.
    fn ready(&mut self, view: &mut impl GatewayView) {
        (self.phase, self.away_since) = (Phase::Naming, None);
        let ids: Vec<_> = self.held.keys().copied().collect();
        ids.iter().for_each(|id| self.ask_to_bind(*id, view));
        self.held.values_mut().for_each(|held| held.is_named = true);
        for (id, moved) in self.moved.clone() {
            self.put_unbind(id, moved.generation, Switch::Off);
            self.moved.insert(id, Moved { told_behind: self.pulsed_at, ..moved });
        }
        let named = BindingsNamed {
            session_id: self.terms.session_id,
            count: u32::try_from(ids.len()).unwrap_or(u32::MAX),
            partition_id: self.terms.partition_id,
        };
        put_frame(&named, &mut self.output);
    }

    fn take_events(
        &mut self,
        batch: &EventBatch,
        events: Entries<'_, LinkedEvent>,
        view: &mut impl GatewayView,
    ) -> Result<(), LinkFault> {
        if batch.first_record != self.next_record {
            let (wanted, found) = (self.next_record, batch.first_record);
            return Err(LinkFault::Gap { wanted, found });
        }
        let skips = events.clone().map(|(entry, _)| u64::from(entry.skipped_before));
        let skipped = skips.sum::<u64>() + u64::from(batch.skipped_after);
        if skipped > SKIPPED_MAX || events.clone().count() > EVENTS_MAX {
            return Err(LinkFault::WindowOverrun);
        }
        for (entry, record) in events {
            self.skip(entry.skipped_before, view)?;
            // Before it counts as received: another connection would go on behind it.
            check_event(record)?;
            let number = self.next_record;
            let to = addressed(record);
            let held = to.and_then(|to| self.held.get_mut(&to.session_id));
            let held = held.filter(|one| one.was_bound && number >= one.from_record);
            let is_bound = held.is_some();
            if let (Some(held), Some(to)) = (held, to) {
                held.take_event(to.event_no)?;
            }
            self.next_record = after(number, 1)?;
            if let Some(to) = to {
                self.kept.settle(to.session_id, to.answers);
            }
            view.record(number, record, is_bound);
        }
        self.skip(batch.skipped_after, view)?;
        self.to_send = self.to_send.max(self.kept.range().0);
        Ok(())
    }

    fn skip(&mut self, count: u32, view: &mut impl GatewayView) -> Result<(), LinkFault> {
        let (first, count) = (self.next_record, u64::from(count));
        self.next_record = after(first, count)?;
        if count > 0 {
            view.skipped(first, count);
        }
        Ok(())
    }

    fn take_end(
        &mut self,
        ended: &EpochEnded,
        view: &mut impl GatewayView,
    ) -> Result<(), LinkFault> {
        if ended.next_record != self.next_record || ended.next <= self.epoch {
            return Err(LinkFault::OutOfPlace(EpochEnded::NAME));
        }
        self.epoch = ended.next;
        view.epoch_ended(ended);
        // Batches of the ended epoch were dropped by the partition.
        self.kept.begin_again();
        self.to_send = self.kept.range().0;
        Ok(())
    }

    fn take_bound(
        &mut self,
        bound: &SessionBound,
        view: &mut impl GatewayView,
    ) -> Result<(), LinkFault> {
        let (mut bound, mut goes_on) = (*bound, false);
        if bound.is_check == Switch::Off {
            let id = bound.bound_session_id;
            if !self.is_last_answer(id) {
                return Ok(());
            }
            let held = self.held.get_mut(&id).filter(|held| held.is_asked);
            let held = held.filter(|held| held.wanted.generation == bound.generation);
            // An answer for a binding that was given up since concerns nobody.
            let Some(held) = held else { return Ok(()) };
            (held.is_asked, held.is_named) = (false, false);
            goes_on = held.is_bound && bound.reason == Reason::None;
            if bound.reason == Reason::None {
                if !goes_on {
                    held.begin(&bound)?;
                }
                (held.is_bound, held.was_bound) = (true, true);
                self.to_send = self.kept.range().0;
                // Commands that are still to be sent count as received: the client would give
                // their numbers to other requests.
                bound.last_request_no = bound.last_request_no.max(self.kept.highest_of(id));
            } else {
                self.drop_session(id);
            }
        }
        view.bound(&bound, goes_on);
        Ok(())
    }

    /// Counts an answer to a `BindSession`; true if it is that to the last one.
    fn is_last_answer(&mut self, id: SessionId) -> bool {
        let Some(owed) = self.owed.get_mut(&id) else { return false };
        *owed -= 1;
        if *owed > 0 {
            self.passed_over.insert(id);
            return false;
        }
        self.owed.remove(&id);
        self.passed_over.remove(&id);
        true
    }

    fn drop_session(&mut self, session_id: SessionId) {
        self.held.remove(&session_id);
        self.kept.forget(session_id);
        self.to_send = self.to_send.max(self.kept.range().0);
    }

    fn open_if_due(&mut self, now: Nanos) {
        // Sessions that log on meanwhile are not waited for: there may always be another one.
        if self.phase != Phase::Naming || self.held.values().any(|held| held.is_named) {
            return;
        }
        let has_all = !self.is_continued || self.next_record >= self.end_record;
        if has_all || plant::is(Plant::KeptSentEarly) {
            self.phase = Phase::Open;
            self.kept.begin_again();
            self.to_send = self.kept.range().0;
            self.flush(now);
        }
    }
}

fn after(record: u64, count: u64) -> Result<u64, LinkFault> {
    record.checked_add(count).ok_or(LinkFault::Gap { wanted: record, found: u64::MAX })
}
