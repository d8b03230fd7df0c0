//! The partition's end of all its links: bindings of sessions, checks of commands, the queue to the
//! partition's ring, and each gateway's part of the events.
//!
//! ```text
//! a gateway:  unknown ── OpenLink ──► naming ── BindingsNamed ──► open
//!                                       ▲                          │ connection lost
//!                                       └── the same incarnation ── absent ── lease ──► unknown
//! ```
//!
//! It alone makes the commands that record the choice and the loss of a session, and they enter the
//! queue in the order of the gateways' acts, with the requests between them.
//!
//! INVARIANT: a session is bound to one gateway at most, by the highest generation that asked; a
//! command leaves the queue only if its session was bound to the gateway that sent it; the log's
//! choice of a session is the last one in log and queue.

mod figures;
mod leases;
mod old_records;
mod pump;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_types::{
    Epoch, EventNo, Nanos, PartitionId, Position, Reason, RequestNo, SessionId, Switch,
};
use weir_wire::frame::put_frame;
use weir_wire::message::Message;
use weir_wire::reference::SessionChoice;
use weir_wire::session::Logout;
use weir_wire::{Command, Destination, Request};

use crate::codec::{
    Arrived, COMMANDS_MAX, Entries, LinkFault, RECORD_NUMBERS_MAX, ToPartition, put_with_group,
};
use crate::grants::Grant;
use crate::message::{
    BindSession, CommandRefused, LinkOpened, LinkPulse, LinkReady, LinkedCommand, LogId, OpenLink,
    RecordNo, SessionBound, SessionRecords, SessionUnbound, UnbindSession,
};
use crate::plant::{self, Plant};
use crate::records::addressed;
pub use figures::{EndFigures, LinkFigures};
pub use leases::Revocation;
use old_records::OldAsk;

/// The bytes of output beyond which no batch is made for a link.
const OUTPUT_LEN_MAX: usize = 256 * 1024;
/// The choices and losses in the queue beyond which no gateway is heard.
const NOTICES_MAX: usize = 65_536;
/// The largest window of events that a gateway can ask for.
pub const WINDOW_MAX: u32 = 4 << 20;

/// The terms of a partition's links.
#[derive(Clone, Copy, Debug)]
pub struct PartitionTerms {
    /// The partition.
    pub partition_id: PartitionId,
    /// Its log.
    pub log_id: LogId,
    /// The number of this run of the process.
    pub incarnation: u64,
    /// The time after which absent sessions are lost.
    pub lease: Nanos,
    /// The interval of pulses.
    pub pulse: Nanos,
    /// The commands of a gateway that may be unanswered.
    pub commands_max: u32,
}

/// A session's position at a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionPosition {
    /// The highest request number that has an event.
    pub last_request_no: RequestNo,
    /// The number of the next event.
    pub next_event_no: EventNo,
    /// The oldest event that is still available.
    pub oldest_event_no: EventNo,
    /// `None` if the session can go on at the wanted event.
    pub refusal: Option<Reason>,
}

/// The place of an old record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum OldRecordRead {
    /// In the buffer.
    Found,
    /// Not in the files yet.
    NotYet,
    /// Deleted.
    Deleted,
}

/// The name of a request, by which a refusal is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestName {
    /// The client's session.
    pub session_id: SessionId,
    /// The request's number.
    pub request_no: RequestNo,
    /// The request's template.
    pub template_id: u16,
}

impl RequestName {
    /// Returns the name of a request.
    #[must_use]
    pub fn of(request: &Request) -> RequestName {
        RequestName {
            session_id: request.session_id(),
            request_no: request.request_no(),
            template_id: request.template_id(),
        }
    }
}

/// The partition behind the end: its events, their index, and its grants' key.
pub trait PartitionView {
    /// Returns the number of the next record.
    fn end_record(&self) -> u64;
    /// Returns the current epoch.
    fn epoch(&self) -> Epoch;
    /// Returns the epoch in which a link begins at a record: the current one, or an earlier one of
    /// which the record is.
    fn epoch_at(&self, record: u64) -> Epoch {
        let _ = record;
        self.epoch()
    }
    /// Returns the end of `epoch` if no surviving record of it is at or after `record`: its last
    /// valid position, and the next epoch.
    fn epoch_end(&self, epoch: Epoch, record: u64) -> Option<(Position, Epoch)>;
    /// Returns true if a reader whose last record before `next_record` was of `epoch` can go on.
    fn continues(&self, next_record: u64, epoch: Epoch) -> bool;
    /// Copies a record; false if it is not at hand now.
    fn record(&mut self, number: u64, into: &mut Vec<u8>) -> bool;
    /// Returns the position of a session that wants its events from `wanted` on; `None` if the
    /// partition does not know the session.
    fn session(&self, id: SessionId, wanted: EventNo, epoch: Epoch) -> Option<SessionPosition>;
    /// Returns the record of a session's event `wanted`; that after all records if it is none yet.
    fn record_of(&self, id: SessionId, wanted: EventNo) -> u64;
    /// Returns the records of a session's events from `wanted` on that are before `before`.
    fn past_records(&self, id: SessionId, wanted: EventNo, before: u64) -> Vec<u64>;
    /// Copies a record that a session lacks, from memory or the files.
    fn old_record(&mut self, number: u64, into: &mut Vec<u8>) -> OldRecordRead {
        if self.record(number, into) { OldRecordRead::Found } else { OldRecordRead::NotYet }
    }
    /// Appends the frames of the partition's definitions, for a gateway that has none.
    fn put_definitions(&self, gateway: SessionId, out: &mut Vec<u8>) {
        let _ = (gateway, out);
    }
    /// Returns true if control has made the grant.
    fn is_granted(&self, grant: &Grant) -> bool;
    /// Returns true if the log records choices and losses of the session: it is a trader's.
    fn is_trader(&self, id: SessionId) -> bool;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Naming,
    Open,
    Absent,
}

/// A gateway and its connection.
#[derive(Debug)]
struct GatewayLink {
    gateway: SessionId,
    partition_id: PartitionId,
    incarnation: u64,
    phase: Phase,
    cursor: u64,
    /// The skipped records before the cursor of which the gateway was not told, and the time of the
    /// last batch.
    untold: u64,
    told_at: Nanos,
    /// The epoch up to which the gateway was told.
    epoch: Epoch,
    window: u64,
    sent: u64,
    used: u64,
    /// The commands of the gateway in the queue.
    queued: u32,
    named: BTreeSet<SessionId>,
    /// Requests that were under way when the link was opened, and those of them that were settled
    /// since: the gateway may send a copy that it would not have sent a moment later.
    at_opening: BTreeSet<(SessionId, RequestNo)>,
    settled: BTreeSet<(SessionId, RequestNo)>,
    heard_at: Nanos,
    opened_at: Nanos,
    /// The time of the last pulse, or of the opening.
    pulsed_at: Nanos,
    heard: Option<(Nanos, Nanos)>,
    /// True once its next record is deleted.
    has_lost: bool,
    /// Requests for old records, the oldest first.
    asks: VecDeque<OldAsk>,
    output: Vec<u8>,
}

/// A session's binding.
#[derive(Clone, Copy, Debug)]
struct Binding {
    gateway: SessionId,
    incarnation: u64,
    generation: u64,
    /// The first record of the session that its link has.
    from_record: u64,
    /// The time since which it is absent although its gateway may be here.
    absent_since: Option<Nanos>,
}

/// A binding that has ended.
#[derive(Clone, Copy, Debug)]
struct EndedBinding {
    generation: u64,
    /// True if the session was lost with it.
    is_lost: bool,
    /// The reason for which grants up to its generation are void.
    revoked_for: Option<Reason>,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    command: Command,
    gateway: Option<SessionId>,
}

/// A command for the partition's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextCommand {
    /// The command.
    pub command: Command,
}

/// The fill level of the ring to the partition.
#[derive(Clone, Copy, Debug, Default)]
pub struct RingLoad {
    /// The commands in it.
    pub waiting: u32,
    /// The share of its room that they take, in thousandths.
    pub permille: u16,
}

/// The partition's end of its links.
#[derive(Debug)]
pub struct PartitionEnd {
    terms: PartitionTerms,
    links: BTreeMap<SessionId, GatewayLink>,
    bindings: BTreeMap<SessionId, Binding>,
    /// The last bindings of sessions that are bound no more, of this run.
    ended: BTreeMap<SessionId, EndedBinding>,
    /// The sessions whose loss cancels their orders, by log and queue.
    choices: BTreeSet<SessionId>,
    /// Requests handed to the partition without an answer, with the last copy.
    under_way: BTreeMap<(SessionId, RequestNo), LastCopy>,
    queue: VecDeque<Queued>,
    /// The choices and losses among them.
    notice_count: usize,
    record: Vec<u8>,
    /// True once gateways can come: the leases of recovered choices run from then on.
    has_begun: bool,
    ring: RingLoad,
    /// Sessions that were lost by a lapse, and bindings that were refused.
    lapsed: u64,
    refused: u64,
}

impl PartitionEnd {
    /// Returns the end of a partition that has just started. `choices` are the sessions whose
    /// choice the log holds: those that are not bound when the lease has passed since the first
    /// [`PartitionEnd::tick`] are lost.
    #[must_use]
    pub fn new(
        terms: PartitionTerms,
        choices: impl IntoIterator<Item = SessionId>,
    ) -> PartitionEnd {
        let choices: BTreeSet<_> = choices.into_iter().collect();
        let absent = Binding {
            gateway: SessionId::NONE,
            incarnation: 0,
            generation: 0,
            from_record: 0,
            absent_since: Some(Nanos(0)),
        };
        PartitionEnd {
            terms,
            links: BTreeMap::new(),
            bindings: choices.iter().map(|id| (*id, absent)).collect(),
            ended: BTreeMap::new(),
            choices,
            under_way: BTreeMap::new(),
            queue: VecDeque::new(),
            notice_count: 0,
            record: Vec::with_capacity(1024),
            has_begun: false,
            ring: RingLoad::default(),
            lapsed: 0,
            refused: 0,
        }
    }

    /// Returns the gateway to which a session is bound, and the generation.
    #[must_use]
    pub fn bound_to(&self, session_id: SessionId) -> Option<(SessionId, u64)> {
        let binding = self.bindings.get(&session_id).filter(|one| one.absent_since.is_none())?;
        Some((binding.gateway, binding.generation))
    }

    /// Takes the bytes to be sent to a gateway.
    pub fn take_output(&mut self, gateway: SessionId) -> Vec<u8> {
        self.links
            .get_mut(&gateway)
            .map(|link| std::mem::take(&mut link.output))
            .unwrap_or_default()
    }

    /// Returns the next command for the ring.
    #[must_use]
    pub fn next_command(&self) -> Option<NextCommand> {
        self.queue.front().map(|queued| NextCommand { command: queued.command })
    }

    /// The ring has taken the next command.
    pub fn command_taken(&mut self) {
        let Some(queued) = self.queue.pop_front() else { return };
        self.notice_count -= usize::from(queued.gateway.is_none());
        if let Some(link) = queued.gateway.and_then(|id| self.links.get_mut(&id)) {
            link.queued = link.queued.saturating_sub(1);
        }
    }

    /// Notes a record of the partition, each once and in order: its request has its answer.
    pub fn note_record(&mut self, record: &[u8]) {
        if let Some(to) = addressed(record) {
            self.settle(to.session_id, to.answers);
        }
    }

    /// Records that a request is answered or refused; returns its last copy.
    fn settle(&mut self, id: SessionId, request_no: RequestNo) -> Option<LastCopy> {
        let key = (id, request_no);
        for link in self.links.values_mut() {
            if link.at_opening.remove(&key) && !plant::is(Plant::SettledForgotten) {
                link.settled.insert(key);
            }
        }
        self.under_way.remove(&key)
    }

    /// Returns the number of the process that is connected as a gateway.
    #[must_use]
    pub fn connected_as(&self, gateway: SessionId) -> Option<u64> {
        let link = self.links.get(&gateway).filter(|link| link.phase != Phase::Absent)?;
        Some(link.incarnation)
    }

    /// Returns the next record of a gateway's link.
    #[must_use]
    pub fn next_record_of(&self, gateway: SessionId) -> Option<u64> {
        self.links.get(&gateway).map(|link| link.cursor)
    }

    /// Returns true if a gateway is not to be heard now: it does not read its answers, or the ring
    /// has had no room for as many commands as it may have under way, or for very many choices and
    /// losses. A gateway that keeps the rules can have more in the queue: it forgets those of
    /// sessions that have ended.
    #[must_use]
    pub fn is_full(&self, gateway: SessionId) -> bool {
        let is_full = |link: &GatewayLink| {
            link.output.len() >= OUTPUT_LEN_MAX || link.queued >= self.terms.commands_max
        };
        self.notice_count >= NOTICES_MAX || self.links.get(&gateway).is_some_and(is_full)
    }

    /// Bytes of a gateway are not read on purpose: it is not silent.
    pub fn held_back(&mut self, gateway: SessionId, now: Nanos) {
        if let Some(link) = self.links.get_mut(&gateway).filter(|l| l.phase != Phase::Absent) {
            link.heard_at = now;
        }
    }

    /// Returns true if the next record of a gateway's link is deleted: the link cannot go on.
    #[must_use]
    pub fn has_lost(&self, gateway: SessionId) -> bool {
        self.links.get(&gateway).is_some_and(|link| link.has_lost)
    }

    /// Sends a message of the control partition to a gateway that is connected.
    pub fn put<M: Message>(&mut self, gateway: SessionId, message: &M) {
        let link = self.links.get_mut(&gateway).filter(|link| link.phase != Phase::Absent);
        if let Some(link) = link {
            put_frame(message, &mut link.output);
        }
    }

    /// The log did not take a request. The process to which its session is bound is told, if a
    /// copy came from it: under this binding or an earlier one, since it keeps the request until
    /// its answer.
    pub fn refused(&mut self, request: RequestName, reason: Reason) {
        let id = request.session_id;
        let last = self.settle(id, request.request_no);
        let Some(binding) = self.bindings.get(&id) else { return };
        let Binding { gateway, incarnation, generation, .. } = *binding;
        let by = Claimed { gateway, incarnation };
        let last = match plant::is(Plant::RefusalPassedOn) {
            true => Some(LastCopy { by, generation }),
            false => last.filter(|last| last.by == by),
        };
        if let (Some(last), Some(link)) = (last, self.links.get_mut(&gateway)) {
            link.refuse(request, reason, last.generation);
        }
    }

    /// A gateway's connection is lost.
    pub fn disconnected(&mut self, gateway: SessionId) {
        if let Some(link) = self.links.get_mut(&gateway) {
            link.phase = Phase::Absent;
            link.output.clear();
        }
    }

    /// Takes a message of a gateway that is logged on.
    ///
    /// # Errors
    /// [`LinkFault`]: the connection is to be closed.
    pub fn take(
        &mut self,
        gateway: SessionId,
        arrived: Arrived<'_>,
        view: &mut impl PartitionView,
    ) -> Result<(), LinkFault> {
        let now = arrived.at;
        let message = ToPartition::decode(&arrived.raw)?;
        if let ToPartition::OpenLink(open) = &message {
            if open.partition_id != self.terms.partition_id {
                return Err(LinkFault::WrongPartition);
            }
            self.open(gateway, open, view);
            self.begin(gateway, now);
            return Ok(());
        }
        let link = self.links.get_mut(&gateway).filter(|link| link.phase != Phase::Absent);
        let Some(link) = link else { return Err(LinkFault::OutOfPlace(message.name())) };
        link.heard_at = now;
        match (&message, link.phase) {
            (ToPartition::Logout(logout), _) => return Err(LinkFault::Closed(logout.reason)),
            (ToPartition::LinkPulse(pulse), _) => {
                link.heard = Some((pulse.sent_at, now));
                link.used = pulse.bytes_used.clamp(link.used, link.sent);
            }
            (ToPartition::BindSession(bind), _) => self.bind(gateway, bind, view),
            (ToPartition::UnbindSession(unbind), _) => self.unbind(gateway, unbind, now),
            (ToPartition::BindingsNamed(_), Phase::Naming) => self.named(gateway),
            (ToPartition::AskRecords(ask, numbers), Phase::Naming | Phase::Open) => {
                return link.take_ask(ask, numbers.clone());
            }
            (ToPartition::CommandBatch(batch, _), Phase::Open)
                if batch.partition_id != self.terms.partition_id =>
            {
                return Err(LinkFault::WrongPartition);
            }
            (ToPartition::CommandBatch(batch, commands), Phase::Open) => {
                // Of another epoch: the gateway has not read the end of that one yet, and sends the
                // commands again behind it.
                if batch.epoch == view.epoch() || plant::is(Plant::EpochIgnored) {
                    return self.take_commands(gateway, batch.is_again, commands.clone());
                }
            }
            (other, _) => return Err(LinkFault::OutOfPlace(other.name())),
        }
        Ok(())
    }

    fn open(&mut self, gateway: SessionId, open: &OpenLink, view: &impl PartitionView) {
        if let Some(before) = self.links.remove(&gateway)
            && before.incarnation != open.incarnation
        {
            self.orphan(gateway, &before);
        }
        let epoch = if plant::is(Plant::EpochIgnored) { view.epoch() } else { open.epoch };
        // Epochs are numbers, and each log counts its own.
        let is_of_log = open.next_record != 0 && open.log_id == self.terms.log_id;
        let is_continued = is_of_log && view.continues(open.next_record, epoch);
        let begin = if self.is_control() { 1 } else { view.end_record() };
        let cursor = if is_continued { open.next_record } else { begin };
        let told = if is_continued { epoch } else { view.epoch_at(cursor) };
        let mut link = GatewayLink {
            incarnation: open.incarnation,
            phase: Phase::Naming,
            cursor: cursor + u64::from(is_continued && plant::is(Plant::BeginsLate)),
            untold: 0,
            told_at: Nanos(0),
            epoch: told,
            window: u64::from(open.window_bytes.min(WINDOW_MAX)),
            sent: 0,
            used: 0,
            queued: self.queue.iter().filter(|one| one.gateway == Some(gateway)).count() as u32,
            named: BTreeSet::new(),
            at_opening: self.under_way.keys().copied().collect(),
            settled: BTreeSet::new(),
            gateway,
            partition_id: self.terms.partition_id,
            heard_at: Nanos(0),
            opened_at: Nanos(0),
            pulsed_at: Nanos(0),
            heard: None,
            has_lost: false,
            asks: VecDeque::new(),
            output: Vec::new(),
        };
        let ms = |of: Nanos| u32::try_from(of.0 / 1_000_000).unwrap_or(u32::MAX);
        let opened = LinkOpened {
            incarnation: self.terms.incarnation,
            next_record: cursor,
            end_record: view.end_record(),
            session_id: gateway,
            epoch: told,
            lease_ms: ms(self.terms.lease),
            pulse_ms: ms(self.terms.pulse),
            commands_max: self.terms.commands_max,
            partition_id: self.terms.partition_id,
            is_continued: if is_continued { Switch::On } else { Switch::Off },
            log_id: self.terms.log_id,
        };
        put_frame(&opened, &mut link.output);
        if !is_continued {
            view.put_definitions(gateway, &mut link.output);
        }
        let partition_id = self.terms.partition_id;
        put_frame(&LinkReady { session_id: gateway, partition_id }, &mut link.output);
        self.links.insert(gateway, link);
    }

    /// The control partition carries each record, from the first one on.
    fn is_control(&self) -> bool {
        self.terms.partition_id.is_none()
    }

    /// The link is opened at this time.
    fn begin(&mut self, gateway: SessionId, now: Nanos) {
        if let Some(link) = self.links.get_mut(&gateway) {
            (link.heard_at, link.opened_at, link.pulsed_at) = (now, now, now);
        }
    }

    fn bind(&mut self, gateway: SessionId, bind: &BindSession, view: &impl PartitionView) {
        let id = bind.bound_session_id;
        let Some(link) = self.links.get(&gateway) else { return };
        let (incarnation, cursor) = (link.incarnation, link.cursor);
        let known = view.session(id, bind.next_event_no, bind.epoch);
        let refusal = match known {
            None => Some(Reason::UnknownSession),
            Some(position) => self
                .judge(Claimed { gateway, incarnation }, bind, view)
                .or(position.refusal.filter(|_| bind.is_again == Switch::Off)),
        };
        let binds = refusal.is_none() && bind.is_check == Switch::Off;
        let continues = bind.is_again == Switch::On;
        let records = match binds && !continues && !bind.next_event_no.is_none() {
            true => view.past_records(id, bind.next_event_no, cursor),
            false => Vec::new(),
        };
        // A link that is behind must not begin with events that the session has.
        let first =
            if continues { cursor } else { cursor.max(view.record_of(id, bind.next_event_no)) };
        let position = known.unwrap_or_default();
        let bound = SessionBound {
            generation: bind.generation,
            next_record: first,
            last_request_no: position.last_request_no.max(self.last_under_way(id)),
            next_event_no: position.next_event_no,
            oldest_event_no: position.oldest_event_no,
            session_id: gateway,
            bound_session_id: id,
            epoch: view.epoch(),
            record_count: records.len() as u32,
            partition_id: self.terms.partition_id,
            reason: refusal.unwrap_or(Reason::None),
            is_check: bind.is_check,
        };
        if binds {
            let late = u64::from(plant::is(Plant::BoundLate));
            let from_record = if continues { 0 } else { first + late };
            let generation = bind.generation;
            let binding =
                Binding { gateway, incarnation, generation, from_record, absent_since: None };
            let is_on = bind.cancel_on_disconnect == Switch::On && view.is_trader(id);
            self.put_binding(id, binding, is_on);
        } else if bind.is_check == Switch::Off {
            self.refused += 1;
            // Its gateway gives the session up; the client may come back by another point.
            self.leave(id, Claimed { gateway, incarnation });
        }
        let Some(link) = self.links.get_mut(&gateway) else { return };
        if link.phase == Phase::Naming && known.is_some() {
            link.named.insert(id);
        }
        put_frame(&bound, &mut link.output);
        put_records(&bound, bind.next_event_no, &records, &mut link.output);
    }

    /// Returns the reason for which a gateway may not bind a session.
    fn judge(&self, by: Claimed, bind: &BindSession, view: &impl PartitionView) -> Option<Reason> {
        if bind.is_check == Switch::On {
            return None;
        }
        let grant = Grant {
            session_id: bind.bound_session_id,
            gateway: by.gateway,
            incarnation: by.incarnation,
            generation: bind.generation,
            seal: bind.seal,
        };
        if !view.is_granted(&grant) && !plant::is(Plant::SealIgnored) {
            return Some(Reason::NotEntitled);
        }
        let stands = self.bindings.get(&bind.bound_session_id);
        if stands.is_some_and(|stands| is_higher(stands, by, bind.generation)) {
            return Some(Reason::TakenOver);
        }
        let ended = self.ended.get(&bind.bound_session_id)?;
        match ended.generation.cmp(&bind.generation) {
            Ordering::Less => None,
            _ if ended.revoked_for.is_some() => ended.revoked_for,
            // Its gateway has to learn that its client's orders are cancelled, and the commands
            // that it has kept since are too old.
            Ordering::Equal => {
                let is_over = ended.is_lost || bind.is_again == Switch::On;
                is_over.then_some(Reason::PartitionAway)
            }
            Ordering::Greater => Some(Reason::TakenOver),
        }
    }

    fn last_under_way(&self, id: SessionId) -> RequestNo {
        let mut range = self.under_way.range((id, RequestNo(0))..=(id, RequestNo(u64::MAX)));
        range.next_back().map_or(RequestNo::NONE, |((_, request_no), _)| *request_no)
    }

    /// Puts a binding into the place of another one, and the choice into the queue.
    fn put_binding(&mut self, id: SessionId, binding: Binding, is_on: bool) {
        let before = self.bindings.insert(id, binding);
        self.ended.remove(&id);
        if let Some(before) = before.filter(|one| one.gateway != binding.gateway) {
            if plant::is(Plant::MoveLoses) {
                self.sequence_loss(id);
            }
            let (good_from, reason) = (binding.generation, Reason::TakenOver);
            self.tell_unbound(&before, &Revocation { session_id: id, good_from, reason });
        }
        if self.choices.contains(&id) != is_on {
            if is_on {
                self.choices.insert(id);
            } else {
                self.choices.remove(&id);
            }
            let cancel_on_disconnect = if is_on { Switch::On } else { Switch::Off };
            let choice = SessionChoice { session_id: id, cancel_on_disconnect };
            self.put_choice(id, Command::SessionChoice(choice));
        }
    }

    /// Tells the gateway of a binding, if that process is connected, that it has ended.
    fn tell_unbound(&mut self, before: &Binding, revoked: &Revocation) {
        let Revocation { session_id, good_from, reason } = *revoked;
        let unbound = SessionUnbound {
            generation: good_from,
            session_id: before.gateway,
            bound_session_id: session_id,
            partition_id: self.terms.partition_id,
            reason,
        };
        let link = self.links.get_mut(&before.gateway).filter(|l| l.phase != Phase::Absent);
        if let Some(link) = link.filter(|l| l.incarnation == before.incarnation) {
            put_frame(&unbound, &mut link.output);
        }
    }

    /// Puts a choice into the queue, in the place of an earlier one of the session with nothing of
    /// the session behind it.
    fn put_choice(&mut self, id: SessionId, choice: Command) {
        let last = self.queue.iter_mut().rfind(|queued| session_of(&queued.command) == id);
        match last.map(|queued| &mut queued.command) {
            Some(last @ Command::SessionChoice(_)) => *last = choice,
            _ => self.put_notice(choice),
        }
    }

    fn put_notice(&mut self, command: Command) {
        self.queue.push_back(Queued { command, gateway: None });
        self.notice_count += 1;
    }

    fn unbind(&mut self, gateway: SessionId, unbind: &UnbindSession, now: Nanos) {
        let id = unbind.bound_session_id;
        let Some(link) = self.links.get(&gateway) else { return };
        let Some(binding) = self.bindings.get_mut(&id) else { return };
        let is_its = binding.gateway == gateway && binding.incarnation == link.incarnation;
        if !is_its || binding.generation != unbind.generation {
            return;
        }
        if unbind.is_ended == Switch::On {
            self.lose(id);
        } else {
            binding.absent_since.get_or_insert(now);
        }
    }

    fn take_commands(
        &mut self,
        gateway: SessionId,
        is_again: Switch,
        commands: Entries<'_, LinkedCommand>,
    ) -> Result<(), LinkFault> {
        // A batch is taken whole or not at all.
        let decoded = commands.map(|(entry, bytes)| Decoded::of(&entry, bytes));
        let decoded: Vec<_> = decoded.collect::<Result<_, _>>()?;
        for Decoded { generation, request } in decoded {
            self.take_command(gateway, Copied { generation, is_again }, &request)?;
        }
        Ok(())
    }

    fn take_command(
        &mut self,
        gateway: SessionId,
        copy: Copied,
        request: &Request,
    ) -> Result<(), LinkFault> {
        let (generation, is_control) = (copy.generation, self.is_control());
        let Some(link) = self.links.get_mut(&gateway) else { return Ok(()) };
        let by = Claimed { gateway, incarnation: link.incarnation };
        let last = LastCopy { by, generation };
        let id = request.session_id();
        let binding = self.bindings.get(&id);
        let is_bound = binding.is_some_and(|one| link.carries(one) && one.generation == generation);
        let is_here = match request.destination() {
            Destination::Control => is_control,
            Destination::Partition(partition_id) => partition_id == self.terms.partition_id,
            // The engine knows its instruments.
            Destination::Instrument(_) => !is_control,
        };
        let refusal = match () {
            () if request.request_no().is_none() => Some(Reason::FieldOutOfRange),
            () if !is_bound && !plant::is(Plant::UnboundCommandTaken) => Some(Reason::NotLoggedOn),
            () if !is_here => Some(Reason::WrongPartition),
            () => None,
        };
        if let Some(reason) = refusal {
            link.refuse(RequestName::of(request), reason, generation);
            return Ok(());
        }
        let is_settled = link.settled.contains(&(id, request.request_no()));
        if copy.is_again == Switch::On && is_settled {
            // The gateway has the answer, or it is on its way.
            return Ok(());
        }
        let key = (id, request.request_no());
        if self.under_way.contains_key(&key) && !plant::is(Plant::UnderWayHandedOn) {
            self.under_way.insert(key, last);
            return Ok(());
        }
        // A batch that was taken with room for one command of it has room.
        if link.queued >= self.terms.commands_max + COMMANDS_MAX as u32 {
            return Err(LinkFault::WindowOverrun);
        }
        self.under_way.insert(key, last);
        link.queued += 1;
        let queued = Queued { command: Command::Request(*request), gateway: Some(gateway) };
        match plant::is(Plant::ChoiceLate) && !self.queue.is_empty() {
            true => self.queue.push_front(queued),
            false => self.queue.push_back(queued),
        }
        Ok(())
    }

    /// Notes the fill level of the ring, which pulses tell.
    pub fn note_ring(&mut self, ring: RingLoad) {
        self.ring = ring;
    }

    /// Lets leases lapse, and sends signs of life. Returns the gateways that were silent for too
    /// long: their connections are to be closed.
    pub fn tick(&mut self, now: Nanos) -> Vec<SessionId> {
        self.begin_leases(now);
        let (terms, mut silent) = (self.terms, Vec::new());
        let ring = self.ring;
        let waiting = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        let ring = RingLoad { waiting: waiting.saturating_add(ring.waiting), ..ring };
        for (id, link) in self.links.iter_mut().filter(|(_, link)| link.phase != Phase::Absent) {
            if now.since(link.heard_at).0 * 2 > terms.pulse.0 * 5 {
                let logout = Logout { session_id: *id, reason: Reason::HeartbeatLost };
                put_frame(&logout, &mut link.output);
                silent.push(*id);
            } else if now.since(link.pulsed_at) >= terms.pulse {
                // By their own time: batches of events tell no load, nor that a pulse was heard.
                link.put_pulse(&terms, ring, now);
            }
        }
        self.let_lapse(now);
        silent
    }
}

impl GatewayLink {
    /// Returns true if the link has the events of a binding.
    fn carries(&self, binding: &Binding) -> bool {
        binding.gateway == self.gateway
            && binding.incarnation == self.incarnation
            && binding.absent_since.is_none()
    }

    fn refuse(&mut self, request: RequestName, reason: Reason, generation: u64) {
        if self.phase == Phase::Absent {
            return;
        }
        let refused = CommandRefused {
            request_no: request.request_no,
            session_id: self.gateway,
            bound_session_id: request.session_id,
            partition_id: self.partition_id,
            ref_template_id: request.template_id,
            reason,
            generation,
        };
        put_frame(&refused, &mut self.output);
    }

    fn put_pulse(&mut self, terms: &PartitionTerms, ring: RingLoad, now: Nanos) {
        self.pulsed_at = now;
        let (heard_sent_at, heard_at) = self.heard.unwrap_or_default();
        let used = u64::from(self.queued) * 1_000 / u64::from(terms.commands_max.max(1));
        let pulse = LinkPulse {
            sent_at: now,
            heard_sent_at,
            heard_at,
            bytes_used: 0,
            session_id: self.gateway,
            queued: self.queued,
            waiting: ring.waiting,
            partition_id: terms.partition_id,
            load_permille: u16::try_from(used).unwrap_or(u16::MAX).max(ring.permille),
        };
        put_frame(&pulse, &mut self.output);
    }
}

/// A command of a batch that a gateway may send.
struct Decoded {
    generation: u64,
    request: Request,
}

impl Decoded {
    fn of(entry: &LinkedCommand, bytes: &[u8]) -> Result<Decoded, LinkFault> {
        match Command::decode(bytes)? {
            Command::Request(request) => Ok(Decoded { generation: entry.generation, request }),
            _ => Err(LinkFault::NotARequest),
        }
    }
}

/// A copy of a request.
#[derive(Clone, Copy)]
struct Copied {
    generation: u64,
    /// On if it may have been sent before.
    is_again: Switch,
}

/// The last copy of a request under way.
#[derive(Clone, Copy, Debug)]
struct LastCopy {
    by: Claimed,
    /// That of the binding under which it came.
    generation: u64,
}

/// The process of a gateway that asks for a binding, or sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claimed {
    gateway: SessionId,
    incarnation: u64,
}

/// Returns true if the standing binding excludes the one that is asked for.
fn is_higher(stands: &Binding, by: Claimed, generation: u64) -> bool {
    let is_its = stands.gateway == by.gateway && stands.incarnation == by.incarnation;
    match stands.generation.cmp(&generation) {
        Ordering::Less => false,
        Ordering::Equal => !is_its,
        Ordering::Greater => !plant::is(Plant::LowerGenerationBinds),
    }
}

/// Appends the records of a session's past events, in frames of limited length.
fn put_records(bound: &SessionBound, first_event_no: EventNo, records: &[u64], out: &mut Vec<u8>) {
    let mut first_event_no = first_event_no;
    for part in records.chunks(RECORD_NUMBERS_MAX) {
        let head = SessionRecords {
            generation: bound.generation,
            first_event_no,
            session_id: bound.session_id,
            bound_session_id: bound.bound_session_id,
            partition_id: bound.partition_id,
        };
        let entries: Vec<_> = part.iter().map(|record| RecordNo { record: *record }).collect();
        put_with_group(&head, &entries, out);
        first_event_no = EventNo(first_event_no.0 + part.len() as u64);
    }
}

/// Returns the session of a command; none for one that has none.
fn session_of(command: &Command) -> SessionId {
    match command {
        Command::Request(request) => request.session_id(),
        Command::SessionChoice(choice) => choice.session_id,
        Command::SessionLost(lost) => lost.session_id,
        _ => SessionId::NONE,
    }
}
