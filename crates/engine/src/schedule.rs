//! Filed changes of phase: of an instrument, of a group, of all instruments. A group's change is
//! one entry and belongs to the group: it is made in the instruments that are in it when it is due.
//!
//! A calendar takes the place of another by one command, with which a list of changes is filed. The
//! list is collected before, change by change, beside everything that is filed: a partition has one
//! list, of the session that began it last. Faults of the list are found before anything is
//! cleared.
//!
//! Changes that are due are not cleared: each is made, in its order among the timers. Nor are those
//! up to the time that a list names, which its sender left out because its clock was past them.

use std::collections::BTreeMap;

use weir_types::{ClOrdId, GroupId, InstrumentId, Nanos, Phase, Reason, ScheduleStep, SessionId};
use weir_wire::reference::{SchedulePhase, SchedulePhases};

use crate::config::{EventSink, LIST_MAX, SCHEDULE_MAX};
use crate::digest::list_word;
use crate::emit::{NamedIds, Requester};
use crate::engine::Engine;
use crate::index::Slot;
use crate::plant::{self, Plant};

/// The instruments that a filed change is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScheduleOwner {
    Instrument(InstrumentId),
    /// A group, or all instruments if it is none.
    Group(GroupId),
}

/// A list of changes to be filed together, and the session that began it.
pub(crate) struct ChangeList {
    pub(crate) session: Slot,
    /// INVARIANT: at most `LIST_MAX`.
    pub(crate) changes: BTreeMap<Nanos, Phase>,
}

impl Engine {
    pub(crate) fn schedule_phase<S: EventSink>(
        &mut self,
        asker: Requester,
        m: &SchedulePhase,
        out: &mut S,
    ) {
        let count = self.carry_out_schedule(asker, m);
        self.say_filed(asker, m.instrument_id, count, out);
    }

    fn carry_out_schedule(&mut self, asker: Requester, m: &SchedulePhase) -> Result<u64, Reason> {
        self.check_phase_request(asker, m.instrument_id)?;
        let owner = ScheduleOwner::Instrument(m.instrument_id);
        if m.at == Nanos(0) {
            return Ok(self.timers.clear_later(owner, self.time));
        }
        self.file_change(owner, m.at, m.phase)
    }

    fn file_change(
        &mut self,
        owner: ScheduleOwner,
        at: Nanos,
        phase: Phase,
    ) -> Result<u64, Reason> {
        if at <= self.time {
            return Err(Reason::FieldOutOfRange);
        }
        let has_room = self.timers.is_filed(owner, at) || self.timers.filed_count() < SCHEDULE_MAX;
        if !has_room {
            return Err(Reason::LimitReached);
        }
        self.timers.file(owner, at, phase);
        Ok(1)
    }

    /// Files changes of the phase of many instruments, or of one.
    pub(crate) fn schedule_phases<S: EventSink>(
        &mut self,
        asker: Requester,
        m: &SchedulePhases,
        out: &mut S,
    ) {
        let count = self.carry_out_schedules(asker, m);
        self.say_filed(asker, m.instrument_id, count, out);
    }

    fn say_filed<S: EventSink>(
        &mut self,
        asker: Requester,
        instrument_id: InstrumentId,
        count: Result<u64, Reason>,
        out: &mut S,
    ) {
        match count {
            Ok(count) => self.say_done(asker, ClOrdId::NONE, count, out),
            Err(reason) => {
                let named = NamedIds { instrument_id, ..NamedIds::NOTHING };
                self.reject(asker, named, reason, out);
            }
        }
    }

    fn carry_out_schedules(&mut self, asker: Requester, m: &SchedulePhases) -> Result<u64, Reason> {
        self.check_operator(asker, m.partition_id)?;
        let owner = match (m.instrument_id, m.group_id) {
            (InstrumentId::NONE, group_id) => ScheduleOwner::Group(group_id),
            (id, GroupId::NONE) => {
                self.check_phase_request(asker, id)?;
                ScheduleOwner::Instrument(id)
            }
            _ => return Err(Reason::FieldOutOfRange),
        };
        match m.step {
            ScheduleStep::File => self.file_change(owner, m.at, m.phase),
            ScheduleStep::Clear => Ok(self.timers.clear_later(owner, self.time)),
            ScheduleStep::Begin => {
                self.list = Some(ChangeList { session: asker.session, changes: BTreeMap::new() });
                Ok(0)
            }
            ScheduleStep::Add => self.add_to_list(asker.session, m.at, m.phase),
            ScheduleStep::Append => self.file_list(asker.session, m.count, owner, None),
            ScheduleStep::Replace => {
                let behind = self.time.max(m.at);
                self.file_list(asker.session, m.count, owner, Some(behind))
            }
        }
    }

    fn add_to_list(&mut self, session: Slot, at: Nanos, phase: Phase) -> Result<u64, Reason> {
        let list = self.list.as_mut().filter(|list| list.session == session);
        let list = list.ok_or(Reason::ListIncomplete)?;
        if at <= self.time {
            return Err(Reason::FieldOutOfRange);
        }
        if list.changes.len() >= LIST_MAX && !list.changes.contains_key(&at) {
            return Err(Reason::LimitReached);
        }
        list.changes.insert(at, phase);
        Ok(1)
    }

    /// Files the session's list, in the place of the changes behind a time if it replaces some, or
    /// does nothing; returns the number of changes added, or cleared.
    fn file_list(
        &mut self,
        session: Slot,
        count: u32,
        owner: ScheduleOwner,
        replaces_behind: Option<Nanos>,
    ) -> Result<u64, Reason> {
        let list = self.list.as_ref().filter(|list| list.session == session);
        let list = list.ok_or(Reason::ListIncomplete)?;
        if list.changes.len() != count as usize && !plant::is(Plant::ListUncounted) {
            return Err(Reason::ListIncomplete);
        }
        if list.changes.first_key_value().is_some_and(|(at, _)| *at <= self.time) {
            return Err(Reason::FieldOutOfRange);
        }
        let changes: Vec<_> = list.changes.iter().map(|(at, phase)| (*at, *phase)).collect();
        let cleared_count =
            replaces_behind.map_or(0, |behind| self.timers.later_count(owner, behind));
        let is_new = |at: Nanos| {
            let is_cleared = replaces_behind.is_some_and(|behind| at > behind);
            is_cleared || !self.timers.is_filed(owner, at)
        };
        let added_count = changes.iter().filter(|(at, _)| is_new(*at)).count();
        if self.timers.filed_count() - cleared_count + added_count > SCHEDULE_MAX {
            return Err(Reason::LimitReached);
        }
        if let Some(behind) = replaces_behind {
            self.timers.clear_later(owner, behind);
        }
        for (at, phase) in changes {
            self.timers.file(owner, at, phase);
        }
        Ok(if replaces_behind.is_some() { cleared_count } else { added_count } as u64)
    }

    /// Returns the list as one word, for the digest.
    pub(crate) fn list_word(&self) -> u64 {
        let Some(list) = &self.list else { return 0 };
        let session_id: SessionId = self.sessions[list.session].session_id;
        let words = list.changes.iter().map(|(at, phase)| list_word(session_id, *at, Some(*phase)));
        words.fold(list_word(session_id, Nanos(0), None), u64::wrapping_add)
    }
}
