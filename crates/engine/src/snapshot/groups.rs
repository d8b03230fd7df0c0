//! Changes of many instruments in a snapshot: the last one made in each instrument, those that are
//! filed or in progress, in order, and the list of changes to be filed together. The place at which
//! a change goes on follows from the instruments.

use std::collections::BTreeMap;

use weir_types::{GroupId, InstrumentId, Nanos, Phase, RequestNo, Role};

use super::bytes::{Reader, Writer};
use super::{SnapshotError, VERSION_UNGROUPED};
use crate::config::{LIST_MAX, SCHEDULE_MAX};
use crate::engine::Engine;
use crate::groups::{ChangeKey, GroupAction, GroupChange};
use crate::index::{NIL, Slot};
use crate::instrument::Instrument;
use crate::plant::{self, Plant};
use crate::schedule::ChangeList;
use crate::session::Session;

const INVALID: SnapshotError = SnapshotError::Invalid("change of many instruments");

fn write_key(key: ChangeKey, w: &mut Writer<'_>) {
    w.u64(key.at.0);
    w.u64(key.number);
}

/// Writes the last change of many that was made in an instrument, and since when it is in its
/// group.
pub(super) fn write_membership(row: &Instrument, w: &mut Writer<'_>) {
    let forgets = plant::is(Plant::SnapshotForgetsChanged);
    write_key(if forgets { row.joined_at } else { row.changed_by }, w);
    write_key(row.joined_at, w);
}

fn read_key(r: &mut Reader<'_>) -> Result<ChangeKey, SnapshotError> {
    Ok(ChangeKey { at: Nanos(r.u64()?), number: r.u64()? })
}

impl Engine {
    /// Reads what [`write_membership`] wrote: of an instrument that this partition trades, no key
    /// of a change to come, and of another one only keys behind all.
    pub(super) fn read_membership(
        &mut self,
        instrument: Slot,
        r: &mut Reader<'_>,
    ) -> Result<(), SnapshotError> {
        let (changed_by, joined_at) = (read_key(r)?, read_key(r)?);
        let last = ChangeKey::asked(self.time, self.position);
        let row = &mut self.instruments[instrument];
        let is_here = row.definition.partition_id == self.config.partition_id;
        let is_fine = |key| if is_here { key <= last } else { key == ChangeKey::LAST };
        if !is_fine(changed_by) || !is_fine(joined_at) {
            return Err(SnapshotError::Invalid("last change of many instruments"));
        }
        (row.changed_by, row.joined_at) = (changed_by, joined_at);
        Ok(())
    }

    pub(super) fn write_group_changes(&self, w: &mut Writer<'_>) {
        let groups = self.timers.groups();
        w.count(groups.len());
        for (key, change) in groups.in_order() {
            let (phase, switch) = change.action.codes();
            write_key(key, w);
            w.u16(change.group_id.0);
            w.u8(phase);
            w.flag(switch);
            let (session, request_no) = change.asker.unwrap_or((NIL, RequestNo::NONE));
            w.u32(session);
            w.u64(request_no.0);
            w.u64(change.ended_count);
            w.u32(change.changed_count);
            w.u32(change.skipped_count);
        }
    }

    pub(super) fn read_group_changes(
        &mut self,
        r: &mut Reader<'_>,
        version: u32,
    ) -> Result<(), SnapshotError> {
        if version <= VERSION_UNGROUPED {
            return Ok(());
        }
        let mut last = None;
        let count_max = self.config.sessions_max + SCHEDULE_MAX as u32;
        for _ in 0..r.count("changes of many instruments", count_max)? {
            let key = read_key(r)?;
            let change = self.read_group_change(r)?;
            let is_fine = match change.asker {
                Some((session, _)) => {
                    let is_first = self.timers.groups().request_of(session).is_none();
                    let last = ChangeKey::asked(self.time, self.position);
                    is_first && key.is_asked() && key.at <= last.at && key.number <= last.number
                }
                None => {
                    let has_room = self.timers.filed_count() < SCHEDULE_MAX;
                    has_room && key == ChangeKey::filed(key.at, change.group_id)
                }
            };
            if !is_fine || last >= Some(key) {
                return Err(INVALID);
            }
            self.timers.add_group_change(key, change);
            last = Some(key);
        }
        Ok(())
    }

    fn read_group_change(&self, r: &mut Reader<'_>) -> Result<GroupChange, SnapshotError> {
        let group_id = GroupId(r.u16()?);
        let action = GroupAction::from_codes(r.u8()?, r.flag()?).ok_or(INVALID)?;
        let asker = match (r.u32()?, RequestNo(r.u64()?)) {
            (NIL, _) => None,
            (slot, request_no) => {
                let session = self.operator_at(slot)?;
                if request_no.is_none() || request_no > session.last_request_no {
                    return Err(INVALID);
                }
                Some((slot, request_no))
            }
        };
        let is_of_schedule = matches!(action, GroupAction::Set { overrides_collars: false, .. });
        if asker.is_none() && !is_of_schedule {
            return Err(INVALID);
        }
        Ok(GroupChange {
            group_id,
            action,
            asker,
            behind: InstrumentId::NONE,
            ended_count: r.number()?,
            changed_count: self.read_count(r)?,
            skipped_count: self.read_count(r)?,
        })
    }

    fn operator_at(&self, slot: Slot) -> Result<&Session, SnapshotError> {
        let session = self.sessions.rows().get(slot as usize).ok_or(INVALID)?;
        if session.role == Role::Operator { Ok(session) } else { Err(INVALID) }
    }

    fn read_count(&self, r: &mut Reader<'_>) -> Result<u32, SnapshotError> {
        let count = r.u32()?;
        if count as usize <= self.instruments.rows().len() { Ok(count) } else { Err(INVALID) }
    }

    pub(super) fn write_list(&self, w: &mut Writer<'_>) {
        let list = self.list.as_ref().filter(|_| !plant::is(Plant::SnapshotForgetsList));
        w.u32(list.map_or(NIL, |list| list.session));
        let Some(list) = list else { return };
        w.count(list.changes.len());
        for (at, phase) in &list.changes {
            w.u64(at.0);
            w.u8(phase.code());
        }
    }

    pub(super) fn read_list(
        &mut self,
        r: &mut Reader<'_>,
        version: u32,
    ) -> Result<(), SnapshotError> {
        let session = if version > VERSION_UNGROUPED { r.u32()? } else { NIL };
        if session == NIL {
            return Ok(());
        }
        self.operator_at(session)?;
        let mut changes = BTreeMap::new();
        for _ in 0..r.count("changes of a list", LIST_MAX as u32)? {
            let at = Nanos(r.u64()?);
            if changes.last_key_value().is_some_and(|(last, _)| *last >= at) {
                return Err(INVALID);
            }
            changes.insert(at, Phase::from_code(r.u8()?).ok_or(INVALID)?);
        }
        self.list = Some(ChangeList { session, changes });
        Ok(())
    }
}
