//! The partition of the model: its log, and all that follows from it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_link::PartitionView;
use weir_link::grants::{Claimant, Grant};
use weir_link::partition_end::SessionPosition;
use weir_types::{ClOrdId, Epoch, EventNo, Nanos, Position, Reason, RequestNo, SessionId, Switch};
use weir_wire::event::RequestDone;
use weir_wire::{Command, Event, PlainEvent};

use super::{PARTITION, chose, seal};

/// The engine's state of a session.
#[derive(Default, Clone)]
pub struct EngineSession {
    pub(super) last: u64,
    pub(super) events: u64,
    /// Requests that were executed; each makes a live order.
    pub(super) executed: BTreeSet<u64>,
    pub(super) live: u64,
}

/// A partition's log, and all that follows from it.
pub struct Node {
    pub(super) log: Vec<Command>,
    pub(super) events: Vec<Vec<u8>>,
    pub(super) sessions: BTreeMap<SessionId, EngineSession>,
    pub(super) choices: BTreeSet<SessionId>,
    /// Each ended epoch with the number of events that survived it.
    pub(super) ended: Vec<u64>,
    /// Commands that are not in the log yet.
    pub(super) ring: VecDeque<Command>,
    pub(super) started_at: Nanos,
}

impl Node {
    pub(super) fn epoch(&self) -> u32 {
        self.ended.len() as u32 + 1
    }

    /// Returns the number of events that are left of an epoch.
    pub(super) fn survives(&self, epoch: u32) -> Option<u64> {
        let ended = self.ended.get((epoch as usize).checked_sub(1)?..)?;
        Some(ended.iter().copied().min().unwrap_or(u64::MAX))
    }

    pub(super) fn done(&mut self, session: SessionId, request_no: u64, is_again: bool) {
        let state = self.sessions.entry(session).or_default();
        state.events += 1;
        let done = RequestDone {
            position: Position(self.log.len() as u64),
            event_no: EventNo(state.events),
            request_no: RequestNo(request_no),
            transact_time: Nanos(0),
            cl_ord_id: ClOrdId::NONE,
            affected_count: u64::from(is_again),
            session_id: session,
            partition_id: PARTITION,
            ref_template_id: 0,
            ..RequestDone::NOTHING_TOLD
        };
        let mut record = Vec::new();
        Event::Plain(PlainEvent::RequestDone(done)).encode(&mut record);
        self.events.push(record);
    }

    /// Executes a command; true for a request that was executed before.
    pub(super) fn apply(&mut self, command: &Command) -> bool {
        self.log.push(*command);
        match command {
            Command::Request(request) => {
                let (id, number) = (request.session_id(), request.request_no().0);
                let state = self.sessions.entry(id).or_default();
                let (is_again, was_executed) =
                    (number <= state.last, state.executed.contains(&number));
                if !is_again {
                    assert!(
                        !chose(id) || self.choices.contains(&id),
                        "3: a request before its choice"
                    );
                    state.last = number;
                    state.executed.insert(number);
                    state.live += 1;
                }
                self.done(id, number, is_again);
                return was_executed;
            }
            Command::SessionChoice(choice) => match choice.cancel_on_disconnect {
                Switch::On => drop(self.choices.insert(choice.session_id)),
                Switch::Off => drop(self.choices.remove(&choice.session_id)),
            },
            Command::SessionLost(lost) => {
                self.choices.remove(&lost.session_id);
                for _ in
                    0..std::mem::take(&mut self.sessions.entry(lost.session_id).or_default().live)
                {
                    self.done(lost.session_id, 0, false);
                }
            }
            Command::Import(..) | Command::Tick | Command::SetLimits(_) => {
                panic!("6: no gateway may send it")
            }
        }
        false
    }

    /// Starts anew from the first commands of the log.
    pub(super) fn restart(&mut self, count: usize, now: Nanos) {
        let log = std::mem::take(&mut self.log);
        let before = self.events.len();
        (self.events, self.sessions, self.choices) = Default::default();
        self.ring.clear();
        log[..count].iter().for_each(|command| {
            let _ = self.apply(command);
        });
        if self.events.len() < before || count < log.len() {
            self.ended.push(self.events.len() as u64);
        }
        self.started_at = now;
    }

    pub(super) fn event_of(record: &[u8]) -> RequestDone {
        match Event::decode(record) {
            Ok(Event::Plain(PlainEvent::RequestDone(done))) => done,
            other => panic!("the model makes no other events: {other:?}"),
        }
    }

    pub(super) fn records_of(&self, id: SessionId) -> Vec<u64> {
        let numbered = (1..).zip(&self.events);
        numbered.filter(|(_, r)| Node::event_of(r).session_id == id).map(|(n, _)| n).collect()
    }
}

impl PartitionView for Node {
    fn end_record(&self) -> u64 {
        self.events.len() as u64 + 1
    }

    fn epoch(&self) -> Epoch {
        Epoch(self.epoch())
    }

    fn epoch_end(&self, epoch: Epoch, record: u64) -> Option<(Position, Epoch)> {
        // A later loss may reach behind the end.
        let end = *self.ended.get((epoch.0 as usize).checked_sub(1)?..)?.iter().min()?;
        (record > end).then_some((Position(0), Epoch(epoch.0 + 1)))
    }

    fn continues(&self, next_record: u64, epoch: Epoch) -> bool {
        self.survives(epoch.0).is_some_and(|end| next_record - 1 <= end)
            && next_record <= self.end_record()
    }

    fn record(&mut self, number: u64, into: &mut Vec<u8>) -> bool {
        let Some(record) = self.events.get(number as usize - 1) else { return false };
        into.clone_from(record);
        true
    }

    fn session(&self, id: SessionId, wanted: EventNo, epoch: Epoch) -> Option<SessionPosition> {
        let state = self.sessions.get(&id).cloned().unwrap_or_default();
        let records = self.records_of(id);
        let survives = self.survives(epoch.0).unwrap_or(0);
        let left = records.iter().filter(|record| **record <= survives).count() as u64;
        let is_other = wanted.0 > 1 && wanted.0 - 1 > left;
        Some(SessionPosition {
            last_request_no: RequestNo(state.last),
            next_event_no: EventNo(state.events + 1),
            oldest_event_no: EventNo(1),
            refusal: is_other.then_some(Reason::ResumeOtherHistory),
        })
    }

    fn record_of(&self, id: SessionId, wanted: EventNo) -> u64 {
        let index = (wanted.0 as usize).checked_sub(1);
        let record = index.and_then(|index| self.records_of(id).get(index).copied());
        record.unwrap_or(self.end_record())
    }

    fn past_records(&self, id: SessionId, wanted: EventNo, before: u64) -> Vec<u64> {
        let records = self.records_of(id);
        let from = records.get(wanted.0.max(1) as usize - 1..).unwrap_or_default();
        from.iter().copied().filter(|record| *record < before).collect()
    }

    fn is_granted(&self, grant: &Grant) -> bool {
        let by = Claimant { gateway: grant.gateway, incarnation: grant.incarnation };
        grant.seal == seal(grant.session_id, by, grant.generation)
    }

    fn is_trader(&self, _id: SessionId) -> bool {
        true
    }
}
