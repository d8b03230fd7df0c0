//! The naive engine's changes of many instruments: the instruments in which one is still to be made
//! are listed on every use.

use weir_types::{
    GroupId, InstrumentId, Nanos, PartitionId, Phase, Reason, RequestNo, SessionId, Switch,
};
use weir_wire::reference::ChangePhases;
use weir_wire::{PlainEvent, Request};

use super::phases::Why;
use super::{NaiveEngine, TradingRule};
use crate::config::EventSink;
use crate::digest::{GroupChangeParts, group_change_word};

/// The time of a change, and the number of its group; behind all groups that of its command.
pub(super) type ChangeKey = (Nanos, u64);

/// Returns true if an operator asked for the change with this number, and it was not filed.
pub(super) fn is_asked(number: u64) -> bool {
    number > u64::from(u16::MAX)
}

/// A change of many instruments, to come or in progress.
#[derive(Clone, Copy)]
pub(super) struct GroupChange {
    /// The request; of a filed change one that would have the same effect, of no session.
    asked: ChangePhases,
    ended_count: u64,
    changed_count: u32,
    skipped_count: u32,
}

impl GroupChange {
    fn of(asked: ChangePhases) -> GroupChange {
        GroupChange { asked, ended_count: 0, changed_count: 0, skipped_count: 0 }
    }

    /// Returns a filed change.
    pub(super) fn filed(group_id: GroupId, phase: Phase) -> GroupChange {
        GroupChange::of(ChangePhases {
            request_no: RequestNo(0),
            session_id: SessionId(0),
            group_id,
            partition_id: PartitionId(0),
            phase,
            resumes: Switch::Off,
            override_collars: Switch::Off,
            through_call: Switch::Off,
        })
    }

    fn is_of(&self, session_id: SessionId) -> bool {
        self.asked.session_id == session_id
    }

    pub(super) fn group_id(&self) -> GroupId {
        self.asked.group_id
    }
}

impl NaiveEngine {
    /// Returns the key of a change by the command.
    pub(super) fn key_now(&self) -> ChangeKey {
        (self.time, (1 << 16) + self.position.0)
    }

    pub(super) fn change_phases<S: EventSink>(
        &mut self,
        request: &Request,
        m: &ChangePhases,
        out: &mut S,
    ) -> Result<(), Reason> {
        self.check_operator(request, m.partition_id)?;
        let is_on = |switch: Switch| switch == Switch::On;
        let contradictions = [
            is_on(m.resumes) && (m.phase != Phase::Closed || is_on(m.override_collars)),
            !is_on(m.resumes) && is_on(m.through_call),
            is_on(m.override_collars) && m.phase != Phase::Continuous,
        ];
        if contradictions.contains(&true) {
            return Err(Reason::FieldOutOfRange);
        }
        if self.group_request_of(m.session_id).is_some() {
            return Err(Reason::TooManyMassCancels);
        }
        // Holds the answer's place.
        let event = PlainEvent::RequestDone(self.done_without_number(request, 0));
        self.remember(m.session_id, m.request_no, event);
        let key = self.key_now();
        self.group_changes.insert(key, GroupChange::of(*m));
        self.run_first(out);
        if self.group_changes.contains_key(&key) {
            self.rules.push(TradingRule::ManyGoOn);
        }
        Ok(())
    }

    /// Returns the instruments in which a change is still to be made.
    fn members_left(&self, key: ChangeKey) -> Vec<InstrumentId> {
        let group_id = self.group_changes[&key].asked.group_id;
        let is_left = |id: &InstrumentId| {
            let instrument = &self.instruments[id];
            let is_member = group_id == GroupId(0)
                || instrument.definition.group_id == group_id && instrument.joined_at < key;
            self.is_here(instrument) && is_member && instrument.changed_by < key
        };
        self.instruments.keys().copied().filter(is_left).collect()
    }

    /// Returns true if a change halts its instruments.
    pub(super) fn is_halt_of_many(&self, key: ChangeKey) -> bool {
        let asked = self.group_changes[&key].asked;
        asked.resumes == Switch::Off && asked.phase == Phase::Halted
    }

    /// Returns the changes that are still to be made in an instrument.
    pub(super) fn changes_left(&self, id: InstrumentId) -> Vec<ChangeKey> {
        let keys = self.group_changes.keys().copied();
        keys.filter(|key| self.members_left(*key).contains(&id)).collect()
    }

    /// Makes a change in the instrument, or in the first that is left; returns the orders at which
    /// it looked.
    pub(super) fn run_group_change<S: EventSink>(
        &mut self,
        key: ChangeKey,
        named: Option<InstrumentId>,
        out: &mut S,
    ) -> u64 {
        let id = named.or_else(|| self.members_left(key).first().copied());
        let looks = id.map_or(0, |id| self.change_one_of_many(key, id, out));
        if self.members_left(key).is_empty() {
            let change = self.group_changes.remove(&key).expect("it is in progress");
            if !is_asked(key.1) {
                self.rules.push(TradingRule::ManyFiled);
                return looks;
            }
            let request = Request::ChangePhases(change.asked);
            let (session_id, request_no) = (change.asked.session_id, change.asked.request_no);
            let mut done = self.done_without_number(&request, change.ended_count);
            (done.changed_count, done.skipped_count) = (change.changed_count, change.skipped_count);
            self.say_done_late(session_id, request_no, done, out);
        }
        looks
    }

    fn change_one_of_many<S: EventSink>(
        &mut self,
        key: ChangeKey,
        id: InstrumentId,
        out: &mut S,
    ) -> u64 {
        let asked = self.group_changes[&key].asked;
        let instrument = self.instruments.get_mut(&id).expect("it is a member");
        instrument.changed_by = key;
        let (before, halt) = (instrument.phase, instrument.halt);
        let whatever_the_price = asked.override_collars == Switch::On;
        let why = match is_asked(key.1) {
            true => Why::Asked { by: asked.session_id, whatever_the_price },
            false => Why::Scheduled,
        };
        let is_against_halt = !is_asked(key.1) && !self.obeys_schedule(id, asked.phase, key.0);
        let (mut looks, mut ended_count, mut is_skipped) = (0, 0, false);
        if asked.resumes == Switch::On {
            if let Some(halt) = halt {
                let to = self.resumed_phase(halt, asked.through_call);
                looks = self.looks_of(id, to);
                self.instruments.get_mut(&id).expect("it is a member").halt = None;
                ended_count = self.change_phase(id, to, why, out);
            }
        } else if is_against_halt || self.check_change(id, asked.phase).is_err() {
            is_skipped = true;
        } else {
            looks = self.looks_of(id, asked.phase);
            is_skipped = self.must_wait(id, asked.phase, why);
            if !is_skipped {
                if is_asked(key.1) {
                    self.take_over_halt(id, asked.phase);
                }
                ended_count = self.change_phase(id, asked.phase, why, out);
            }
        }
        if is_skipped {
            self.rules.push(TradingRule::ManySkip);
        }
        let is_changed = self.instruments[&id].phase != before;
        let change = self.group_changes.get_mut(&key).expect("it is in progress");
        change.ended_count += ended_count;
        change.changed_count += u32::from(is_changed);
        change.skipped_count += u32::from(is_skipped);
        looks
    }

    /// Returns the request of a session's change of many instruments in progress.
    pub(super) fn group_request_of(&self, session_id: SessionId) -> Option<RequestNo> {
        let asked = self.group_changes.iter().filter(|(key, _)| is_asked(key.1));
        let mut of_session = asked.filter(|(_, one)| one.is_of(session_id));
        of_session.next().map(|(_, one)| one.asked.request_no)
    }

    pub(super) fn group_changes_word(&self) -> u64 {
        let words = self.group_changes.iter().map(|((at, number), change)| {
            let m = change.asked;
            let action = match m.resumes {
                Switch::On => (u8::MAX, m.through_call == Switch::On),
                Switch::Off => (m.phase.code(), m.override_collars == Switch::On),
            };
            group_change_word(&GroupChangeParts {
                at: *at,
                number: *number,
                group_id: m.group_id,
                session_id: m.session_id,
                request_no: m.request_no,
                action,
                ended_count: change.ended_count,
                counts: [change.changed_count, change.skipped_count],
            })
        });
        words.fold(0, u64::wrapping_add)
    }
}
