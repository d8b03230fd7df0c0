//! Groups of instruments, and changes of the phase of a group, or of all instruments of the
//! partition, by one command.
//!
//! A change of many is one entry, however many instruments it covers. It is a timer of each of
//! them, due at the time of its command, or at that for which it was filed:
//!
//! | the change is made | in |
//! | --- | --- |
//! | before any command and in ticks, behind all earlier timers | the next by identifier |
//! | before a command of an instrument | that instrument |
//! | before a sweep ends an order | the order's instrument |
//!
//! So the bounds of timers hold for it, and no command of an instrument sees it from before a
//! change: for order entry all instruments change at once.
//!
//! INVARIANT: a change covers those of its instruments whose `changed_by` is below its key. An
//! instrument that comes to a group takes no part in the group's changes that were due before:
//! these are not above its `joined_at`.

use core::ops::Bound;
use std::collections::{BTreeMap, BTreeSet};

use weir_types::{
    ClOrdId, GroupId, InstrumentId, Nanos, Phase, Position, Reason, RequestNo, SessionId, Switch,
};
use weir_wire::event::RequestDone;
use weir_wire::reference::ChangePhases;
use weir_wire::{Message, PlainEvent};

use crate::config::EventSink;
use crate::digest::{GroupChangeParts, group_change_word};
use crate::emit::{NamedIds, Requester};
use crate::engine::Engine;
use crate::index::Slot;
use crate::phases::Cause;
use crate::plant::{self, Plant};

/// The number of an operator's first change, behind all identifiers of groups.
const ASKED_FIRST: u64 = 1 << 16;

/// The place of a change among all changes of many instruments: its time, and its number at that
/// time. A filed change has the number of its group, an operator's that of its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChangeKey {
    pub(crate) at: Nanos,
    pub(crate) number: u64,
}

impl ChangeKey {
    /// Behind all changes.
    pub(crate) const LAST: ChangeKey = ChangeKey::last_at(Nanos(u64::MAX));

    pub(crate) fn filed(at: Nanos, group_id: GroupId) -> ChangeKey {
        ChangeKey { at, number: group_id.0.into() }
    }

    pub(crate) fn asked(at: Nanos, position: Position) -> ChangeKey {
        ChangeKey { at, number: ASKED_FIRST.saturating_add(position.0) }
    }

    /// Returns true for an operator's change.
    pub(crate) fn is_asked(self) -> bool {
        self.number >= ASKED_FIRST
    }

    /// Returns a key behind all changes of a time.
    pub(crate) const fn last_at(at: Nanos) -> ChangeKey {
        ChangeKey { at, number: u64::MAX }
    }
}

/// An instrument's group, the key from which on it is in the group, and the last change of many
/// that was made in it.
#[derive(Clone, Copy)]
pub(crate) struct Membership {
    pub(crate) group_id: GroupId,
    pub(crate) joined_at: ChangeKey,
    pub(crate) changed_by: ChangeKey,
}

impl Membership {
    /// Returns the groups whose changes cover the instrument, and the key behind which they do:
    /// none stands for all instruments.
    fn groups(self) -> impl Iterator<Item = (GroupId, ChangeKey)> {
        let own = Some((self.group_id, self.changed_by.max(self.joined_at)));
        let own = own.filter(|(group_id, _)| !group_id.is_none());
        core::iter::once((GroupId::NONE, self.changed_by)).chain(own)
    }

    fn is_covered_by(self, key: ChangeKey, group_id: GroupId) -> bool {
        self.groups().any(|(of, behind)| of == group_id && behind < key)
    }
}

/// The effect of a change on each instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupAction {
    /// Sets the phase.
    Set { phase: Phase, overrides_collars: bool },
    /// Lifts the halt.
    Resume { is_through_call: bool },
}

/// The code of no phase, which stands for the end of halts.
const NO_PHASE: u8 = u8::MAX;

impl GroupAction {
    fn is_halt(self) -> bool {
        matches!(self, GroupAction::Set { phase: Phase::Halted, .. })
    }

    /// Returns its codes: the phase, and the switch.
    pub(crate) fn codes(self) -> (u8, bool) {
        match self {
            GroupAction::Set { phase, overrides_collars } => (phase.code(), overrides_collars),
            GroupAction::Resume { is_through_call } => (NO_PHASE, is_through_call),
        }
    }

    /// Returns the action with these codes.
    pub(crate) fn from_codes(phase: u8, switch: bool) -> Option<GroupAction> {
        if phase == NO_PHASE {
            return Some(GroupAction::Resume { is_through_call: switch });
        }
        let phase = Phase::from_code(phase)?;
        let is_fine = !switch || phase == Phase::Continuous;
        is_fine.then_some(GroupAction::Set { phase, overrides_collars: switch })
    }
}

/// A change of many instruments, to come or in progress.
#[derive(Clone, Copy)]
pub(crate) struct GroupChange {
    /// The group; none for all instruments.
    pub(crate) group_id: GroupId,
    pub(crate) action: GroupAction,
    /// The session that asked for it, and the request; `None` for one that was filed. INVARIANT:
    /// its key says the same.
    pub(crate) asker: Option<(Slot, RequestNo)>,
    /// The instrument behind which the next one is looked for.
    pub(crate) behind: InstrumentId,
    pub(crate) ended_count: u64,
    pub(crate) changed_count: u32,
    pub(crate) skipped_count: u32,
}

impl GroupChange {
    pub(crate) fn new(
        group_id: GroupId,
        action: GroupAction,
        asker: Option<(Slot, RequestNo)>,
    ) -> GroupChange {
        let behind = InstrumentId::NONE;
        let (ended_count, changed_count, skipped_count) = (0, 0, 0);
        GroupChange { group_id, action, asker, behind, ended_count, changed_count, skipped_count }
    }
}

/// The groups, and the changes of many instruments that are filed or in progress.
#[derive(Default)]
pub(crate) struct Groups {
    /// The instruments that this partition trades, under their group, and all under none.
    members: BTreeSet<(GroupId, InstrumentId)>,
    changes: BTreeMap<ChangeKey, GroupChange>,
    /// The same by group.
    by_group: BTreeSet<(GroupId, ChangeKey)>,
    /// Those that sessions asked for. INVARIANT: a session has at most one.
    by_session: BTreeMap<Slot, ChangeKey>,
}

impl Groups {
    /// Adds an instrument to a group, and takes it out of the one before.
    fn join(&mut self, id: InstrumentId, before: GroupId, group_id: GroupId) {
        self.members.remove(&(before, id));
        self.members.extend([(GroupId::NONE, id), (group_id, id)]);
    }

    fn member_behind(&self, group_id: GroupId, behind: InstrumentId) -> Option<InstrumentId> {
        let behind = Bound::Excluded((group_id, behind));
        let (of, id) = *self.members.range((behind, Bound::Unbounded)).next()?;
        (of == group_id).then_some(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Returns the number of filed changes, to come or in progress.
    pub(crate) fn filed_count(&self) -> usize {
        self.changes.len() - self.by_session.len()
    }

    pub(crate) fn contains(&self, key: ChangeKey) -> bool {
        self.changes.contains_key(&key)
    }

    /// Returns the filed changes of a group behind a time, of none those of all groups.
    pub(crate) fn later_of(&self, group_id: GroupId, now: Nanos) -> Vec<ChangeKey> {
        let later = ChangeKey::last_at(now);
        if group_id.is_none() {
            return self.changes.range(later..).map(|(key, _)| *key).collect();
        }
        let of_group = (group_id, later)..=(group_id, ChangeKey::LAST);
        self.by_group.range(of_group).map(|(_, key)| *key).collect()
    }

    /// Returns the changes, in order.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (ChangeKey, &GroupChange)> {
        self.changes.iter().map(|(key, change)| (*key, change))
    }

    pub(crate) fn add(&mut self, key: ChangeKey, change: GroupChange) {
        self.by_group.insert((change.group_id, key));
        self.by_session.extend(change.asker.map(|(session, _)| (session, key)));
        self.changes.insert(key, change);
    }

    pub(crate) fn take(&mut self, key: ChangeKey) -> GroupChange {
        let change = self.changes.remove(&key).expect("it is in progress");
        self.by_group.remove(&(change.group_id, key));
        if let Some((session, _)) = change.asker {
            self.by_session.remove(&session);
        }
        change
    }

    fn change(&mut self, key: ChangeKey) -> &mut GroupChange {
        self.changes.get_mut(&key).expect("it is in progress")
    }

    /// Returns the request of the session's change in progress.
    pub(crate) fn request_of(&self, session: Slot) -> Option<RequestNo> {
        let (_, request_no) = self.changes[self.by_session.get(&session)?].asker?;
        Some(request_no)
    }

    /// Returns the first change of all.
    pub(crate) fn next(&self) -> Option<ChangeKey> {
        self.changes.first_key_value().map(|(key, _)| *key)
    }

    /// Returns the first change that covers an instrument.
    pub(crate) fn next_of(&self, of: Membership) -> Option<ChangeKey> {
        let first = |(group_id, behind)| self.range(group_id, behind, ChangeKey::LAST).next();
        of.groups().filter_map(first).min()
    }

    /// Returns the changes that cover an instrument and are due by `now`.
    pub(crate) fn due_of(&self, of: Membership, now: Nanos) -> impl Iterator<Item = ChangeKey> {
        let last = ChangeKey::last_at(now);
        of.groups().flat_map(move |(group_id, behind)| self.range(group_id, behind, last))
    }

    /// Returns true if a change that an operator asked for, and that is still to be made in the
    /// instrument, would end a halt. Looks at a change of each operator's session.
    pub(crate) fn undoes_halt(&self, of: Membership) -> bool {
        self.by_session.values().any(|key| {
            let change = &self.changes[key];
            of.is_covered_by(*key, change.group_id) && !change.action.is_halt()
        })
    }

    fn range(
        &self,
        group_id: GroupId,
        behind: ChangeKey,
        last: ChangeKey,
    ) -> impl Iterator<Item = ChangeKey> {
        let first = Bound::Excluded((group_id, behind));
        let last = Bound::Included((group_id, last.max(behind)));
        self.by_group.range((first, last)).map(|(_, key)| *key)
    }
}

impl Engine {
    pub(crate) fn membership(&self, instrument: Slot) -> Membership {
        let row = &self.instruments[instrument];
        let (joined_at, changed_by) = (row.joined_at, row.changed_by);
        Membership { group_id: row.definition.group_id, joined_at, changed_by }
    }

    /// Puts a defined instrument into its group.
    pub(crate) fn join_group(&mut self, instrument: Slot, before: GroupId) {
        let key = ChangeKey::asked(self.time, self.position);
        let row = &mut self.instruments[instrument];
        let (id, group_id) = (row.definition.instrument_id, row.definition.group_id);
        if row.definition.partition_id == self.config.partition_id {
            if row.changed_by == ChangeKey::LAST {
                (row.changed_by, row.joined_at) = (key, key);
            } else if !plant::is(Plant::NewMemberTakesPart) {
                row.joined_at = key;
            }
            self.timers.groups_mut().join(id, before, group_id);
        }
    }

    /// Changes the phase of many instruments: of the first ones now, so many as timers may before a
    /// command, of the others by ticks and before their next commands.
    pub(crate) fn change_phases<S: EventSink>(
        &mut self,
        asker: Requester,
        m: &ChangePhases,
        out: &mut S,
    ) {
        if let Err(reason) = self.check_change_phases(asker, m) {
            return self.reject(asker, NamedIds::NOTHING, reason, out);
        }
        let action = match m.resumes {
            Switch::On => GroupAction::Resume { is_through_call: m.through_call == Switch::On },
            Switch::Off => GroupAction::Set {
                phase: m.phase,
                overrides_collars: m.override_collars == Switch::On,
            },
        };
        let asked_by = Some((asker.session, asker.request_no));
        let change = GroupChange::new(m.group_id, action, asked_by);
        if !S::IS_ONLY_HEARER {
            self.remember_begun(asker, ClOrdId::NONE);
        }
        self.timers.add_group_change(ChangeKey::asked(self.time, self.position), change);
        self.fire_first(out);
    }

    fn check_change_phases(&self, asker: Requester, m: &ChangePhases) -> Result<(), Reason> {
        self.check_operator(asker, m.partition_id)?;
        let (overrides, goes_through_call) =
            (m.override_collars == Switch::On, m.through_call == Switch::On);
        let is_fine = match m.resumes {
            Switch::On => m.phase == Phase::Closed && !overrides,
            Switch::Off => !goes_through_call && (!overrides || m.phase == Phase::Continuous),
        };
        if !is_fine {
            return Err(Reason::FieldOutOfRange);
        }
        let is_busy = self.timers.groups().request_of(asker.session).is_some();
        if is_busy { Err(Reason::TooManyMassCancels) } else { Ok(()) }
    }

    /// Makes a change in an instrument that it covers, or in the next one if none is named, and
    /// ends it behind the last. Returns the number of orders at which it looked.
    pub(crate) fn fire_group_change<S: EventSink>(
        &mut self,
        key: ChangeKey,
        named: InstrumentId,
        out: &mut S,
    ) -> u64 {
        let slot = match named {
            InstrumentId::NONE => self.next_member(key),
            id => self.instruments.find(id.0),
        };
        let look_count = slot.map_or(0, |slot| self.change_member(key, slot, out));
        if self.next_member(key).is_none() {
            self.end_group_change(key, out);
        }
        look_count
    }

    /// Returns the first instrument in which a change is still to be made. Each is passed once.
    fn next_member(&mut self, key: ChangeKey) -> Option<Slot> {
        let GroupChange { group_id, mut behind, .. } = *self.timers.groups_mut().change(key);
        let mut found = None;
        while let Some(id) = self.timers.groups().member_behind(group_id, behind) {
            let slot = self.instruments.find(id.0).expect("a member is defined");
            if self.membership(slot).is_covered_by(key, group_id) {
                found = Some(slot);
                break;
            }
            behind = id;
        }
        self.timers.groups_mut().change(key).behind = behind;
        found
    }

    fn change_member<S: EventSink>(&mut self, key: ChangeKey, slot: Slot, out: &mut S) -> u64 {
        self.instruments[slot].changed_by = key;
        let GroupChange { action, asker, .. } = *self.timers.groups_mut().change(key);
        let by_operator =
            |(session, _): (Slot, RequestNo)| Cause::operator(self.sessions[session].session_id);
        let mut cause = asker.map_or(Cause::SCHEDULE, by_operator);
        let before = self.instruments[slot].phase;
        let mut look_count = 0;
        let ended_count = match action {
            GroupAction::Set { phase, overrides_collars } => {
                cause.overrides_collars = overrides_collars;
                let is_legal = match asker {
                    Some(_) => self.check_change(slot, phase).is_ok(),
                    None => self.is_open_to_schedule(slot, phase, key.at),
                };
                if is_legal {
                    look_count = self.looks_of_change(slot, phase);
                }
                let is_refused =
                    !is_legal || !overrides_collars && self.ends_call_beyond_collar(slot, phase);
                match asker {
                    _ if is_refused => None,
                    Some(_) => Some(self.ask_phase(slot, phase, cause, out)),
                    None => Some(self.change_phase(slot, phase, cause, out)),
                }
            }
            GroupAction::Resume { is_through_call } => {
                let to = self.phase_to_resume(slot, is_through_call);
                look_count = to.map_or(0, |to| self.looks_of_change(slot, to));
                Some(to.map_or(0, |to| self.lift_halt(slot, to, cause, out)))
            }
        };
        let is_changed = self.instruments[slot].phase != before;
        let change = self.timers.groups_mut().change(key);
        change.ended_count += ended_count.unwrap_or(0);
        change.changed_count += u32::from(is_changed);
        let is_skipped = ended_count.is_none() && !plant::is(Plant::SkippedUncounted);
        change.skipped_count += u32::from(is_skipped);
        look_count
    }

    fn end_group_change<S: EventSink>(&mut self, key: ChangeKey, out: &mut S) {
        let change = self.timers.take_group_change(key);
        let Some((session, request_no)) = change.asker else { return };
        let asker = Requester { session, request_no, template_id: ChangePhases::TEMPLATE_ID };
        let PlainEvent::RequestDone(done) = self.done(asker, ClOrdId::NONE, change.ended_count)
        else {
            unreachable!("it reports that a request is done")
        };
        let (changed_count, skipped_count) = (change.changed_count, change.skipped_count);
        let done = RequestDone { changed_count, skipped_count, ..done };
        self.say_done_late(asker, PlainEvent::RequestDone(done), out);
    }

    /// Returns the changes as one word, for the digest.
    pub(crate) fn group_changes_word(&self) -> u64 {
        let words = self.timers.groups().in_order().map(|(key, change)| {
            let (session, request_no) = change.asker.unzip();
            group_change_word(&GroupChangeParts {
                at: key.at,
                number: key.number,
                group_id: change.group_id,
                session_id: session.map_or(SessionId::NONE, |slot| self.sessions[slot].session_id),
                request_no: request_no.unwrap_or(RequestNo::NONE),
                action: change.action.codes(),
                ended_count: change.ended_count,
                counts: [change.changed_count, change.skipped_count],
            })
        });
        words.fold(0, u64::wrapping_add)
    }
}
