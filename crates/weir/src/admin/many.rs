//! Changes of the phase of a group of instruments, or of all, now and filed for later: one request
//! to each partition, carried out whole or not at all.

use anyhow::Context;
use weir_client::admin::{PhasesChanged, ScheduleOwner};
use weir_client::status::{InstrumentStatus, phase_name};
use weir_client::{Admin, ClientError};
use weir_types::{GroupId, InstrumentId, Nanos, PartitionId, Phase, RequestNo, SessionId, Switch};
use weir_wire::reference::{ChangePhases, SCHEDULE_LIST_MAX};

use super::{AdminArgs, Outcome, with_name};

/// Returns the group that a name stands for, none for `all`; `None` for an instrument's name.
pub(super) fn group_of(name: &str) -> anyhow::Result<Option<GroupId>> {
    if name == "all" {
        return Ok(Some(GroupId::NONE));
    }
    let Some(number) = name.strip_prefix("group:") else { return Ok(None) };
    let group_id = number.parse::<u16>().ok().filter(|id| *id > 0).map(GroupId);
    let group_id = group_id.with_context(|| format!("{name}: want group:1 to group:{}", u16::MAX));
    group_id.map(Some)
}

/// Returns the instruments of a group, of none all.
pub(super) fn members(
    args: &AdminArgs,
    group_id: GroupId,
) -> anyhow::Result<Vec<InstrumentStatus>> {
    let mut all = args.login.endpoint.status()?.instruments;
    all.retain(|row| group_id.is_none() || row.group == group_id.0);
    let of = if group_id.is_none() { String::new() } else { format!(" of group {group_id}") };
    anyhow::ensure!(!all.is_empty(), "the node has no instruments{of}");
    Ok(all)
}

/// The instruments that a command names, and the owners of their filed changes: each instrument, or
/// their groups in each partition.
pub(super) struct Named {
    pub(super) instruments: Vec<InstrumentStatus>,
    /// Each with the words for it.
    owners: Vec<(String, ScheduleOwner)>,
}

/// Returns the instruments of these names: symbols, identifiers, groups or `all`, these in each of
/// the partitions.
pub(super) fn named(
    args: &AdminArgs,
    names: &[String],
    partitions: &[PartitionId],
) -> anyhow::Result<Named> {
    let all = ["all".to_owned()];
    let names = if names.contains(&all[0]) { &all[..] } else { names };
    let mut named = Named { instruments: Vec::new(), owners: Vec::new() };
    for name in names {
        let Some(group_id) = group_of(name)? else {
            let instrument = args.login.endpoint.instrument(name)?;
            let owner = ScheduleOwner {
                partition_id: instrument.partition_id(),
                group_id: GroupId::NONE,
                instrument_id: instrument.instrument_id(),
            };
            named.owners.push((instrument.symbol.clone(), owner));
            named.instruments.push(instrument);
            continue;
        };
        named.owners.extend(partitions.iter().map(|partition_id| {
            let (partition_id, instrument_id) = (*partition_id, InstrumentId::NONE);
            let owner = ScheduleOwner { partition_id, group_id, instrument_id };
            (format!("{name} in partition {partition_id}"), owner)
        }));
        named.instruments.extend(members(args, group_id)?);
    }
    Ok(named)
}

impl Named {
    /// Asks for each owner, up to the first that is refused; then says for which it was done.
    pub(super) fn for_each(
        &self,
        mut ask: impl FnMut(ScheduleOwner) -> Result<(), ClientError>,
    ) -> anyhow::Result<()> {
        self.in_parts(1, |owner, _| ask(owner))
    }

    /// Files changes for each owner, in as many lists as they need: one takes the place of all that
    /// is filed if `replaces` says so.
    ///
    /// # Panics
    /// When more than [`SCHEDULE_LIST_MAX`] replace others: the second list would replace the
    /// first.
    pub(super) fn file(
        &self,
        admin: &mut Admin,
        changes: &[(Nanos, Phase)],
        replaces: bool,
    ) -> anyhow::Result<()> {
        // Without a change there is one list too, which takes the place of others.
        let count = changes.len().div_ceil(SCHEDULE_LIST_MAX).max(1);
        assert!(count == 1 || !replaces, "{} changes replace others", changes.len());
        self.in_parts(count, |owner, part| {
            let list = changes.chunks(SCHEDULE_LIST_MAX).nth(part).unwrap_or_default();
            admin.schedule_phases(owner, list, replaces).map(drop)
        })
    }

    /// Asks for each of `count` parts of each owner, as [`Named::for_each`].
    fn in_parts(
        &self,
        count: usize,
        mut ask: impl FnMut(ScheduleOwner, usize) -> Result<(), ClientError>,
    ) -> anyhow::Result<()> {
        let mut done: Vec<String> = Vec::new();
        for (words, owner) in &self.owners {
            for part in 0..count {
                let words = match count {
                    1 => words.clone(),
                    _ => format!("{words} (part {} of {count})", part + 1),
                };
                let asked = ask(*owner, part).map_err(|error| with_name(error.into()));
                asked.with_context(|| match done.as_slice() {
                    [] => format!("{words}; nothing was changed"),
                    done => format!("{words}; done for {}", done.join(", ")),
                })?;
                done.push(words);
            }
        }
        Ok(())
    }
}

/// Returns the request that lifts the halts of a group.
pub(super) fn resume_of(group_id: GroupId) -> ChangePhases {
    ChangePhases {
        request_no: RequestNo::NONE,
        session_id: SessionId::NONE,
        group_id,
        partition_id: PartitionId::NONE,
        phase: Phase::Closed,
        resumes: Switch::On,
        override_collars: Switch::Off,
        through_call: Switch::Off,
    }
}

/// Sends a change to each partition. Fails if instruments were skipped: for these the change would
/// have been refused. For all instruments it works without the status page.
pub(super) fn change(
    admin: &mut Admin,
    args: &AdminArgs,
    change: ChangePhases,
) -> anyhow::Result<Outcome> {
    if !change.group_id.is_none() {
        // A group without instruments is most likely mistyped.
        members(args, change.group_id)?;
    }
    let (mut sum, mut done) = (PhasesChanged::default(), Vec::new());
    for partition_id in admin.partitions() {
        let told = admin.change_phases(ChangePhases { partition_id, ..change });
        let told = told.map_err(|error| with_name(error.into()));
        let told = told.with_context(|| match done.as_slice() {
            [] => format!("partition {partition_id}; nothing was changed"),
            done => format!("partition {partition_id}; done in partitions {}", done.join(", ")),
        })?;
        sum.changed += told.changed;
        sum.skipped += told.skipped;
        done.push(partition_id.to_string());
    }
    let of = match change.group_id {
        GroupId::NONE => "all instruments".to_owned(),
        group_id => format!("group {group_id}"),
    };
    let what = match change.resumes {
        Switch::On => "resumed",
        Switch::Off => phase_name(change.phase),
    };
    let changed = sum.changed;
    let text = format!("{of}: {what}; {changed} changed");
    anyhow::ensure!(sum.skipped == 0, "{text}, {} skipped: refused for these", sum.skipped);
    Ok(Outcome::of(text.clone(), serde_json::json!({ "done": text, "changed": changed })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_which_lists_were_filed_before_it() {
        let owner = |id| ScheduleOwner {
            partition_id: PartitionId(1),
            group_id: GroupId::NONE,
            instrument_id: InstrumentId(id),
        };
        let owners = vec![("A".to_owned(), owner(1)), ("B".to_owned(), owner(2))];
        let named = Named { instruments: Vec::new(), owners };
        let closed = "the node closed the connection";
        for (count, good, want) in [
            (1, 0, format!("A; nothing was changed: {closed}")),
            (1, 1, format!("B; done for A: {closed}")),
            (2, 0, format!("A (part 1 of 2); nothing was changed: {closed}")),
            (2, 1, format!("A (part 2 of 2); done for A (part 1 of 2): {closed}")),
            (
                2,
                3,
                format!(
                    "B (part 2 of 2); done for A (part 1 of 2), A (part 2 of 2), B (part 1 of 2): \
                     {closed}"
                ),
            ),
        ] {
            let mut asked = Vec::new();
            let error = named.in_parts(count, |owner, part| {
                asked.push((owner.instrument_id.0 as usize, part));
                if asked.len() > good { Err(ClientError::Closed) } else { Ok(()) }
            });
            assert_eq!(format!("{:#}", error.unwrap_err()), want);
            let all: Vec<_> = (0..=good).map(|at| (1 + at / count, at % count)).collect();
            assert_eq!(asked, all);
        }
    }

    #[test]
    fn a_name_is_a_group_or_an_instruments() {
        for (name, want) in [("all", Some(0)), ("group:7", Some(7)), ("ALL", None), ("7", None)] {
            assert_eq!(group_of(name).unwrap(), want.map(GroupId), "{name}");
        }
        for name in ["group:0", "group:", "group:65536", "group:-1", "group:x"] {
            let said = group_of(name).unwrap_err().to_string();
            assert_eq!(said, format!("{name}: want group:1 to group:65535"));
        }
    }
}
