//! The instruments that a command names: symbols, groups, all. And one request to several
//! partitions, or about several owners of filed changes.
//!
//! A refusal changed nothing, and the others are asked behind it. Behind any other error, of time
//! or of the connection, the request may be in the log.

use anyhow::{Context, bail};
use weir_client::admin::ScheduleOwner;
use weir_client::status::{InstrumentStatus, StatusPage};
use weir_client::{Admin, ClientError};
use weir_types::{GroupId, InstrumentId, Nanos, PartitionId, Phase, Reason};
use weir_wire::reference::SCHEDULE_LIST_MAX;

use super::{AdminArgs, define, with_name};

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

/// Returns the words for the group of some instruments; empty for all instruments.
pub(super) fn of_group(group_id: GroupId) -> String {
    if group_id.is_none() { String::new() } else { format!(" of group {group_id}") }
}

/// Returns the instruments of a group, of none all, as the status page has them a moment later.
pub(super) fn members(
    args: &AdminArgs,
    group_id: GroupId,
) -> anyhow::Result<Vec<InstrumentStatus>> {
    let is_member = |row: &&InstrumentStatus| group_id.is_none() || row.group == group_id.0;
    let (_, found) = args.login.endpoint.status_until(|page| {
        let rows: Vec<_> = page.instruments.iter().filter(is_member).cloned().collect();
        (!rows.is_empty()).then_some(rows)
    })?;
    found.with_context(|| format!("the node has no instruments{}", of_group(group_id)))
}

/// The instruments that a command names, and the owners of their filed changes: each instrument, or
/// their groups in each partition.
pub(super) struct NamedInstruments {
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
) -> anyhow::Result<NamedInstruments> {
    let all = ["all".to_owned()];
    let names = if names.contains(&all[0]) { &all[..] } else { names };
    let mut named = NamedInstruments { instruments: Vec::new(), owners: Vec::new() };
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

impl NamedInstruments {
    /// Asks for each owner, also behind one that is refused. Fails with the reasons, and says for
    /// which it was done.
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

    /// Asks for each of `count` parts of each owner, as [`NamedInstruments::for_each`].
    fn in_parts(
        &self,
        count: usize,
        mut ask: impl FnMut(ScheduleOwner, usize) -> Result<(), ClientError>,
    ) -> anyhow::Result<()> {
        let mut outcomes = Outcomes::default();
        for (words, owner) in &self.owners {
            for part in 0..count {
                let words = match count {
                    1 => words.clone(),
                    _ => format!("{words} (part {} of {count})", part + 1),
                };
                outcomes.ask(&words, || ask(*owner, part));
            }
        }
        match outcomes.failure() {
            Some(failure) => bail!(failure),
            None => Ok(()),
        }
    }
}

/// The outcomes of one request to several partitions, or about several owners.
#[derive(Default)]
pub(super) struct Outcomes {
    done: Vec<String>,
    /// Each with the reason.
    failed: Vec<String>,
    not_asked: Vec<String>,
    /// True behind an error that every further request would meet too.
    is_over: bool,
}

impl Outcomes {
    /// Asks for the one of these words, unless the requests are over.
    pub(super) fn ask<T>(
        &mut self,
        words: &str,
        ask: impl FnOnce() -> Result<T, ClientError>,
    ) -> Option<T> {
        if self.is_over {
            self.not_asked.push(words.to_owned());
            return None;
        }
        match ask() {
            Ok(told) => {
                self.done.push(words.to_owned());
                Some(told)
            }
            Err(error) => {
                self.fail(words, error);
                None
            }
        }
    }

    fn fail(&mut self, words: &str, error: ClientError) {
        let effect = match error {
            ClientError::Refused { .. } | ClientError::NotOpen(_) => "nothing was changed",
            _ => "it is not known whether it was done: look at the status page",
        };
        self.is_over = match error {
            ClientError::Refused { reason, .. } => reason == Reason::UnknownTemplate,
            _ => true,
        };
        self.failed.push(format!("{words}: {:#}; {effect}", with_name(error.into())));
    }

    /// Returns the failures, with those for which it was done and those that were not asked; `None`
    /// if it was done for all.
    pub(super) fn failure(&self) -> Option<String> {
        if self.failed.is_empty() {
            return None;
        }
        let mut text = self.failed.join("; ");
        for (words, list) in [("done for", &self.done), ("not asked for", &self.not_asked)] {
            if !list.is_empty() {
                text.push_str(&format!("; {words} {}", list.join(", ")));
            }
        }
        Some(text)
    }
}

/// Returns the number of changes of phase that are filed in all partitions; `None` from an older
/// node, which does not report it.
pub(super) fn filed_count(page: &StatusPage) -> Option<u64> {
    let filed = define::trading(&page.json, "filed_changes").into_iter().map(|(_, count)| count);
    filed.reduce(u64::saturating_add)
}

/// Says that changes filed for others stay, behind a command that found none of one.
pub(super) fn note_that_others_stay(args: &AdminArgs, name: &str) {
    // A page that cannot be read leaves only the note out.
    let filed = args.login.endpoint.status().ok().and_then(|page| filed_count(&page));
    if let Some(filed) = filed.filter(|filed| *filed > 0) {
        eprintln!(
            "weir: no change was filed for {name} itself; the node has {filed}, filed for all, for \
             groups or for other instruments, which stay: `weir admin schedule all --clear` \
             forgets all of them"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_error_says_which_lists_were_filed_before_it() {
        let owner = |id| ScheduleOwner {
            partition_id: PartitionId(1),
            group_id: GroupId::NONE,
            instrument_id: InstrumentId(id),
        };
        let owners = vec![("A".to_owned(), owner(1)), ("B".to_owned(), owner(2))];
        let named = NamedInstruments { instruments: Vec::new(), owners };
        let lost = "the node closed the connection; it is not known whether it was done: look at \
                    the status page";
        for (count, good, want) in [
            (1, 0, format!("A: {lost}; not asked for B")),
            (1, 1, format!("B: {lost}; done for A")),
            (
                2,
                1,
                format!(
                    "A (part 2 of 2): {lost}; done for A (part 1 of 2); not asked for B (part 1 of \
                     2), B (part 2 of 2)"
                ),
            ),
        ] {
            let mut asked = Vec::new();
            let error = named.in_parts(count, |owner, part| {
                asked.push((owner.instrument_id.0 as usize, part));
                if asked.len() > good { Err(ClientError::Closed) } else { Ok(()) }
            });
            assert_eq!(error.unwrap_err().to_string(), want);
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

    fn refused(reason: Reason) -> ClientError {
        ClientError::Refused { request: "ChangePhases", reason, subject: String::new() }
    }

    fn timeout() -> ClientError {
        ClientError::Timeout { waiting_for: "ChangePhases", timeout: Duration::from_secs(10) }
    }

    /// Returns the failure of a request about A, B and C, of which these are the errors.
    fn failure(errors: [Option<ClientError>; 3]) -> Option<String> {
        let mut outcomes = Outcomes::default();
        for (words, error) in ["A", "B", "C"].into_iter().zip(errors) {
            let is_done = error.is_none();
            let told = outcomes.ask(words, || error.map_or(Ok(()), Err));
            assert!(is_done || told.is_none(), "{words}");
        }
        outcomes.failure()
    }

    /// Behind an answer that did not come, the command said that nothing was changed.
    #[test]
    fn only_a_refusal_is_told_as_a_request_that_changed_nothing() {
        assert_eq!(failure([None, None, None]), None);
        let full = || Some(refused(Reason::LimitReached));
        let reason = "ChangePhases is refused: LimitReached: ";
        let said = failure([None, full(), None]).unwrap();
        assert!(said.starts_with(&format!("B: {reason}")), "{said}");
        assert!(said.ends_with("; nothing was changed; done for A, C"), "{said}");
        let said = failure([full(), None, full()]).unwrap();
        assert!(said.starts_with(&format!("A: {reason}")), "{said}");
        assert!(said.contains(&format!("; nothing was changed; C: {reason}")), "{said}");
        assert!(said.ends_with("; done for B"), "{said}");
        for lost in [timeout(), ClientError::Closed] {
            let told = lost.to_string();
            let said = failure([None, Some(lost), None]).unwrap();
            assert!(said.starts_with(&format!("B: {told}; it is not known whether")), "{said}");
            assert!(said.ends_with("; done for A; not asked for C"), "{said}");
            assert!(!said.contains("nothing was changed"), "{said}");
        }
    }

    #[test]
    fn a_node_that_does_not_know_the_request_is_older_and_is_asked_once() {
        let said = failure([Some(refused(Reason::UnknownTemplate)), None, None]).unwrap();
        let want =
            "A: ChangePhases is refused: UnknownTemplate: the node is older than this command";
        assert!(said.starts_with(want), "{said}");
        assert!(said.ends_with("; nothing was changed; not asked for B, C"), "{said}");
    }
}
