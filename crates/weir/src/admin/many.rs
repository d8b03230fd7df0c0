//! The instruments that a command names: symbols, groups, all. And one request to several
//! partitions, or about several owners of filed changes.
//!
//! A refusal changed nothing, and the others are asked behind it. Behind any other error, of time
//! or of the connection, the request may be in the log.

use anyhow::{Context, bail};
use weir_client::admin::{PartitionOutcome, ScheduleOwner};
use weir_client::status::{InstrumentStatus, StatusPage};
use weir_client::{Admin, ClientError};
use weir_types::{GroupId, InstrumentId, Nanos, PartitionId, Phase, Reason};
use weir_wire::Request;
use weir_wire::event::RequestDone;
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

/// Returns the instruments of a group, of none all, as the status page has them a moment later;
/// `None` if there are none.
pub(super) fn members_if_any(
    args: &AdminArgs,
    group_id: GroupId,
) -> anyhow::Result<Option<Vec<InstrumentStatus>>> {
    let is_member = |row: &&InstrumentStatus| group_id.is_none() || row.group == group_id.0;
    let (_, found) = args.login.endpoint.status_until(|page| {
        let rows: Vec<_> = page.instruments.iter().filter(is_member).cloned().collect();
        (!rows.is_empty()).then_some(rows)
    })?;
    Ok(found)
}

/// As [`members_if_any`]; none are an error.
pub(super) fn members(
    args: &AdminArgs,
    group_id: GroupId,
) -> anyhow::Result<Vec<InstrumentStatus>> {
    members_if_any(args, group_id)?.with_context(|| no_instruments(group_id))
}

/// Returns the words for a group without instruments, which is most likely mistyped.
pub(super) fn no_instruments(group_id: GroupId) -> String {
    format!("the node has no instruments{}", of_group(group_id))
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
    /// are filed behind the time of `replaces_behind`, if that is given.
    ///
    /// # Panics
    /// When more than [`SCHEDULE_LIST_MAX`] replace others: the second list would replace the
    /// first.
    pub(super) fn file(
        &self,
        admin: &mut Admin,
        changes: &[(Nanos, Phase)],
        replaces_behind: Option<Nanos>,
    ) -> anyhow::Result<()> {
        let lists = lists_of(changes);
        let count = lists.len();
        assert!(
            count == 1 || replaces_behind.is_none(),
            "{} changes replace others",
            changes.len()
        );
        self.in_parts(count, |owner, part| {
            admin.schedule_phases(owner, lists[part], replaces_behind).map(drop)
        })
    }

    /// Asks for each of `count` parts of each owner, as [`NamedInstruments::for_each`], until one
    /// of the owner's is refused.
    fn in_parts(
        &self,
        count: usize,
        mut ask: impl FnMut(ScheduleOwner, usize) -> Result<(), ClientError>,
    ) -> anyhow::Result<()> {
        let mut outcomes = Outcomes::default();
        for (words, owner) in &self.owners {
            let mut is_whole = true;
            for part in 0..count {
                let words = match count {
                    1 => words.clone(),
                    _ => format!("{words} (part {} of {count})", part + 1),
                };
                if is_whole {
                    is_whole = outcomes.ask(&words, || ask(*owner, part)).is_some();
                } else {
                    outcomes.not_asked.push(words);
                }
            }
        }
        match outcomes.failure() {
            Some(failure) => bail!(failure),
            None => Ok(()),
        }
    }
}

/// Returns the lists in which changes are filed: as few as may be, each but the last ending with a
/// close where one is among so many changes. So a list that is refused leaves no day without its
/// end. Without a change there is one list too, which takes the place of others.
fn lists_of(changes: &[(Nanos, Phase)]) -> Vec<&[(Nanos, Phase)]> {
    let (mut lists, mut rest) = (Vec::new(), changes);
    while rest.len() > SCHEDULE_LIST_MAX {
        let within = &rest[..SCHEDULE_LIST_MAX];
        let close = within.iter().rposition(|(_, phase)| *phase == Phase::Closed);
        let (list, left) = rest.split_at(close.map_or(SCHEDULE_LIST_MAX, |at| at + 1));
        lists.push(list);
        rest = left;
    }
    lists.push(rest);
    lists
}

/// Sends one request to each of these partitions, all before an answer is waited for. Partitions
/// that are late are told on standard error.
pub(super) fn ask_each(
    admin: &mut Admin,
    partitions: &[PartitionId],
    request: impl Fn(PartitionId) -> Request,
) -> Answers {
    let requests: Vec<_> = partitions.iter().map(|id| (*id, request(*id))).collect();
    let (outcomes, lost) = admin.request_each(&requests, |partition_id| {
        eprintln!("weir: partition {partition_id} has not answered yet: its answer is waited for");
    });
    let lost = lost.map(|error| format!("{:#}", with_name(error.into())));
    let mut answers = Answers::default();
    for (partition_id, outcome) in partitions.iter().zip(outcomes) {
        answers.take(*partition_id, outcome, lost.as_deref());
    }
    answers
}

/// The answers of several partitions to one request.
#[derive(Default)]
pub(super) struct Answers {
    pub(super) done: Vec<(PartitionId, RequestDone)>,
    outcomes: Outcomes,
}

impl Answers {
    /// Takes a partition's outcome; `lost` has the error that ended the connection.
    fn take(&mut self, partition_id: PartitionId, outcome: PartitionOutcome, lost: Option<&str>) {
        let words = format!("partition {partition_id}");
        let lost = lost.unwrap_or("too many requests of the session wait for their answers");
        match outcome {
            PartitionOutcome::Done(done) => {
                self.outcomes.done.push(words);
                self.done.push((partition_id, done));
            }
            PartitionOutcome::Failed(error) => self.outcomes.fail(&words, error),
            PartitionOutcome::Lost => {
                self.outcomes.failed.push(format!("{words}: {lost}; {NOT_KNOWN}"));
            }
            PartitionOutcome::NotSent => {
                self.outcomes.failed.push(format!("{words}: {lost}; {NOTHING_CHANGED}"));
            }
        }
    }

    /// Returns them if one partition at least carried the request out.
    pub(super) fn in_some(self) -> anyhow::Result<Answers> {
        if self.done.is_empty() {
            let failure = self.failure();
            bail!(failure.unwrap_or_else(|| "the node has no trading partition".to_owned()));
        }
        Ok(self)
    }

    /// Returns the words for the partitions in which it was done; empty if it was done in all.
    pub(super) fn within(&self) -> String {
        let ids: Vec<_> = self.done.iter().map(|(id, _)| id.to_string()).collect();
        match (self.failure(), &ids[..]) {
            (None, _) => String::new(),
            (Some(_), [id]) => format!(" in partition {id}"),
            (Some(_), _) => format!(" in partitions {}", ids.join(", ")),
        }
    }

    /// Returns the number of orders that it ended.
    pub(super) fn affected_count(&self) -> u64 {
        self.done.iter().map(|(_, done)| done.affected_count).sum()
    }

    /// As [`Outcomes::failure`].
    pub(super) fn failure(&self) -> Option<String> {
        self.outcomes.failure()
    }
}

/// The state behind a refusal.
const NOTHING_CHANGED: &str = "nothing was changed";
/// The state behind an answer that did not come.
const NOT_KNOWN: &str = "it is not known whether it was done: look at the status page";

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
            ClientError::Refused { .. } | ClientError::NotOpen(_) => NOTHING_CHANGED,
            _ => NOT_KNOWN,
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

    /// Returns two instruments, A and B.
    fn two() -> NamedInstruments {
        let owner = |id| ScheduleOwner {
            partition_id: PartitionId(1),
            group_id: GroupId::NONE,
            instrument_id: InstrumentId(id),
        };
        let owners = vec![("A".to_owned(), owner(1)), ("B".to_owned(), owner(2))];
        NamedInstruments { instruments: Vec::new(), owners }
    }

    /// A list ended inside a day: with the next one refused, the day had no end.
    #[test]
    fn a_long_calendar_is_cut_behind_a_close() {
        let day = [Phase::OpeningCall, Phase::Continuous, Phase::Closed];
        let days = (0..9_000).map(|at| (Nanos(at), day[at as usize % 3]));
        let changes: Vec<_> = days.collect();
        let lists = lists_of(&changes);
        let lens = |lists: &[&[(Nanos, Phase)]]| lists.iter().map(|list| list.len()).collect();
        let found: Vec<usize> = lens(&lists);
        assert_eq!(found, [4_095, 4_095, 810]);
        assert_eq!(lists.concat(), changes);
        for list in lists {
            assert_eq!(list.last().map(|(_, phase)| *phase), Some(Phase::Closed));
        }
        let open: Vec<_> = (0..5_000).map(|at| (Nanos(at), Phase::Continuous)).collect();
        let found: Vec<usize> = lens(&lists_of(&open));
        assert_eq!(found, [4_096, 904], "no close is among so many");
        let found: Vec<usize> = lens(&lists_of(&[]));
        assert_eq!(found, [0], "it takes the place of others");
    }

    #[test]
    fn behind_a_list_that_is_refused_no_more_are_filed_for_the_same() {
        let mut asked = Vec::new();
        let error = two().in_parts(3, |owner, part| {
            asked.push((owner.instrument_id.0, part));
            if asked.len() == 2 { Err(refused(Reason::LimitReached)) } else { Ok(()) }
        });
        assert_eq!(asked, [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]);
        let said = error.unwrap_err().to_string();
        assert!(said.starts_with("A (part 2 of 3): ChangePhases is refused: "), "{said}");
        let want = "; done for A (part 1 of 3), B (part 1 of 3), B (part 2 of 3), B (part 3 of 3); \
                    not asked for A (part 3 of 3)";
        assert!(said.ends_with(want), "{said}");
    }

    #[test]
    fn partitions_that_are_not_heard_of_are_told_each_with_its_state() {
        let mut answers = Answers::default();
        let lost = Some("the node closed the connection");
        answers.take(PartitionId(1), PartitionOutcome::Lost, lost);
        answers.take(PartitionId(2), PartitionOutcome::NotSent, lost);
        answers.take(PartitionId(3), PartitionOutcome::Failed(timeout()), lost);
        let said = answers.in_some().err().expect("none made it").to_string();
        let want = format!(
            "partition 1: the node closed the connection; {NOT_KNOWN}; partition 2: the node \
             closed the connection; {NOTHING_CHANGED}; partition 3: {}; {NOT_KNOWN}",
            timeout()
        );
        assert_eq!(said, want);
        let none = Answers::default().in_some().err().expect("there are no partitions");
        assert_eq!(none.to_string(), "the node has no trading partition");
    }

    #[test]
    fn an_error_says_which_lists_were_filed_before_it() {
        let named = two();
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
