//! The naive engine's filed changes of phase, one by one and as a list.

use std::collections::BTreeMap;

use weir_types::{GroupId, InstrumentId, Nanos, Phase, Reason, ScheduleStep, SessionId};
use weir_wire::Request;
use weir_wire::reference::{SchedulePhase, SchedulePhases};

use super::groups::{GroupChange, is_asked};
use super::{NaiveEngine, TradingRule};
use crate::config::{EventSink, LIST_MAX};
use crate::digest;

/// The maximum number of scheduled phase changes.
const SCHEDULE_MAX: usize = 1 << 16;

/// An instrument, or a group; neither for all instruments.
type Whose = (InstrumentId, GroupId);

impl NaiveEngine {
    pub(super) fn schedule_phase<S: EventSink>(
        &mut self,
        request: &Request,
        m: &SchedulePhase,
        out: &mut S,
    ) -> Result<(), Reason> {
        self.check_operator(request, self.config.partition_id)?;
        self.check_instrument_here(m.instrument_id)?;
        let whose = (m.instrument_id, GroupId(0));
        let count = match m.at {
            Nanos(0) => self.clear_behind(whose, self.time),
            at => self.file_one(whose, at, m.phase)?,
        };
        self.say_done(request, count, out);
        Ok(())
    }

    pub(super) fn schedule_phases<S: EventSink>(
        &mut self,
        request: &Request,
        m: &SchedulePhases,
        out: &mut S,
    ) -> Result<(), Reason> {
        self.check_operator(request, m.partition_id)?;
        if m.instrument_id.0 != 0 {
            if m.group_id.0 != 0 {
                return Err(Reason::FieldOutOfRange);
            }
            self.check_instrument_here(m.instrument_id)?;
        }
        let whose = (m.instrument_id, m.group_id);
        let count = match m.step {
            ScheduleStep::File => self.file_one(whose, m.at, m.phase)?,
            ScheduleStep::Clear => self.clear_behind(whose, self.time),
            ScheduleStep::Begin => {
                self.list = Some((m.session_id, BTreeMap::new()));
                0
            }
            ScheduleStep::Add => {
                let mut changes = self.list_of(m.session_id)?;
                changes.insert(m.at, m.phase);
                if m.at <= self.time {
                    return Err(Reason::FieldOutOfRange);
                }
                if changes.len() > LIST_MAX {
                    return Err(Reason::LimitReached);
                }
                self.list = Some((m.session_id, changes));
                1
            }
            ScheduleStep::Append | ScheduleStep::Replace => {
                let changes = self.list_of(m.session_id)?;
                if changes.len() != m.count as usize {
                    return Err(Reason::ListIncomplete);
                }
                let replaces = m.step == ScheduleStep::Replace;
                let behind = replaces.then_some(self.time.max(m.at));
                let count = self.file(whose, &changes, behind)?;
                self.rules.push(TradingRule::ListFiled);
                count
            }
        };
        self.say_done(request, count, out);
        Ok(())
    }

    /// Returns the list of changes if the session began it.
    fn list_of(&self, session_id: SessionId) -> Result<BTreeMap<Nanos, Phase>, Reason> {
        match &self.list {
            Some((of, changes)) if *of == session_id => Ok(changes.clone()),
            _ => Err(Reason::ListIncomplete),
        }
    }

    fn file_one(&mut self, whose: Whose, at: Nanos, phase: Phase) -> Result<u64, Reason> {
        self.file(whose, &BTreeMap::from([(at, phase)]), None)?;
        Ok(1)
    }

    /// Files changes, all or none; if they replace those behind a time these are cleared. Returns
    /// the number of changes added, or of those cleared.
    fn file(
        &mut self,
        whose: Whose,
        changes: &BTreeMap<Nanos, Phase>,
        replaces_behind: Option<Nanos>,
    ) -> Result<u64, Reason> {
        if changes.keys().any(|at| *at <= self.time) {
            return Err(Reason::FieldOutOfRange);
        }
        let mut with_them = NaiveEngine {
            schedule: self.schedule.clone(),
            group_changes: self.group_changes.clone(),
            ..NaiveEngine::new(self.config.clone())
        };
        let cleared_count =
            replaces_behind.map_or(0, |behind| with_them.clear_behind(whose, behind));
        let before = with_them.filed_count();
        for (at, phase) in changes {
            match whose {
                (InstrumentId(0), group_id) => {
                    let key = (*at, u64::from(group_id.0));
                    let change = GroupChange::filed(group_id, *phase);
                    with_them.group_changes.insert(key, change);
                }
                (id, _) => {
                    with_them.schedule.insert((id, *at), *phase);
                }
            }
        }
        let added_count = with_them.filed_count() - before;
        if added_count > 0 && with_them.filed_count() > SCHEDULE_MAX {
            return Err(Reason::LimitReached);
        }
        self.schedule = with_them.schedule;
        self.group_changes = with_them.group_changes;
        Ok(if replaces_behind.is_some() { cleared_count } else { added_count as u64 })
    }

    /// Returns the number of filed changes.
    pub(super) fn filed_count(&self) -> usize {
        let of_many = self.group_changes.keys().filter(|(_, number)| !is_asked(*number));
        self.schedule.len() + of_many.count()
    }

    /// Clears the changes behind a time, which is not before the own one; those of all instruments
    /// are of each and of each group too.
    fn clear_behind(&mut self, (instrument_id, group_id): Whose, behind: Nanos) -> u64 {
        let before = self.filed_count();
        let is_all = instrument_id.0 == 0 && group_id.0 == 0;
        self.schedule.retain(|(id, at), _| *at <= behind || !is_all && *id != instrument_id);
        self.group_changes.retain(|(at, _), change| {
            let is_its = is_all || instrument_id.0 == 0 && change.group_id() == group_id;
            *at <= behind || !is_its
        });
        (before - self.filed_count()) as u64
    }

    pub(super) fn list_word(&self) -> u64 {
        let Some((session_id, changes)) = &self.list else { return 0 };
        let words =
            changes.iter().map(|(at, phase)| digest::list_word(*session_id, *at, Some(*phase)));
        words.fold(digest::list_word(*session_id, Nanos(0), None), u64::wrapping_add)
    }
}
