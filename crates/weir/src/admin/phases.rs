//! Changes of the phase of a group of instruments, or of all, now: one request to each partition,
//! carried out whole or refused whole.
//!
//! The answers count the instruments. The status page says the phases reached, which collars may
//! have made others than the one asked for.
//!
//! | change | is sent | without the status page |
//! | --- | --- | --- |
//! | a halt | at once, and again when the partitions have all definitions | at once alone |
//! | any other, of all | when they have, or after a time | at once |
//! | any other, of a group | when they have, or after a time | not at all |
//!
//! A halt is legal in every phase, so it may be sent twice, and no fault of the page holds it up. A
//! page with all instruments halted would not do in place of the second one: for a moment it lacks
//! an instrument whose definition the node has acknowledged.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use weir_client::Admin;
use weir_client::admin::PhasesChanged;
use weir_client::status::{StatusPage, phase_name};
use weir_types::{GroupId, PartitionId, Phase, Position, RequestNo, SessionId, Switch};
use weir_wire::Request;
use weir_wire::reference::ChangePhases;

use super::{AdminArgs, Outcome, define, many};

/// The longest time for the partitions to import the definitions that the node has acknowledged.
const IMPORT_LAG_MAX: Duration = Duration::from_secs(5);
/// The longest time until a change is on the status page.
const PHASES_LAG_MAX: Duration = Duration::from_secs(5);
/// The instruments that are named because they are in another phase than the one asked for.
const SYMBOLS_MAX: usize = 20;

/// The symbols of instruments, by the names of their phases.
type Phases = BTreeMap<String, Vec<String>>;

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

/// Sends a change to each partition, and tells the phases reached. Instruments that were skipped,
/// and partitions that refuse it, make the command fail.
pub(super) fn change(
    admin: &mut Admin,
    args: &AdminArgs,
    change: ChangePhases,
) -> anyhow::Result<Outcome> {
    let partitions = admin.partitions();
    ensure!(!partitions.is_empty(), "the node has no trading partition");
    let (sent, phases) = if is_halt(&change) {
        halt(admin, args, change, &partitions)?
    } else {
        prepare(args, &change)?;
        let sent = Sent::to(admin, change, &partitions)?;
        let phases = phases_behind(args, change.group_id, &sent.positions);
        (sent, phases)
    };
    let outcome = told(&change, &sent.sum, phases);
    let failures: Vec<_> = sent.failure.into_iter().chain(outcome.failure).collect();
    let failure = (!failures.is_empty()).then(|| failures.join("; "));
    Ok(Outcome { failure, ..outcome })
}

/// A change that at least one partition has made.
struct Sent {
    sum: PhasesChanged,
    /// Those of the change in the logs of the partitions that made it.
    positions: Vec<(PartitionId, Position)>,
    failure: Option<String>,
}

impl Sent {
    /// Sends a change to these partitions.
    fn to(
        admin: &mut Admin,
        change: ChangePhases,
        partitions: &[PartitionId],
    ) -> anyhow::Result<Sent> {
        let answers = many::ask_each(admin, partitions, |partition_id| {
            Request::ChangePhases(ChangePhases { partition_id, ..change })
        })
        .in_some()?;
        let mut sent = Sent {
            sum: PhasesChanged::default(),
            positions: Vec::new(),
            failure: answers.failure(),
        };
        for (partition_id, done) in &answers.done {
            sent.add(*partition_id, &PhasesChanged::from(done));
        }
        Ok(sent)
    }

    fn add(&mut self, partition_id: PartitionId, told: &PhasesChanged) {
        self.sum.changed += told.changed;
        self.sum.skipped += told.skipped;
        self.sum.ended += told.ended;
        self.positions.push((partition_id, told.position));
    }

    /// Sends the change once more to the partitions that have made it.
    fn again(mut self, admin: &mut Admin, change: ChangePhases) -> Sent {
        let partitions: Vec<_> = self.positions.iter().map(|(id, _)| *id).collect();
        self.add_second(Sent::to(admin, change, &partitions));
        self
    }

    fn add_second(&mut self, second: anyhow::Result<Sent>) {
        let failure = match second {
            Ok(sent) => {
                self.sum.changed += sent.sum.changed;
                self.sum.skipped += sent.sum.skipped;
                self.sum.ended += sent.sum.ended;
                // One that failed keeps the position of the first halt.
                for (partition_id, position) in &mut self.positions {
                    let again = sent.positions.iter().find(|(id, _)| id == partition_id);
                    *position = again.map_or(*position, |(_, again)| *again);
                }
                sent.failure
            }
            Err(error) => Some(format!("{error:#}")),
        };
        let Some(failure) = failure else { return };
        let told = format!(
            "the halt was made, and not a second time: an instrument that a partition did not \
             know yet may not be halted: {failure}"
        );
        let failures: Vec<_> = self.failure.take().into_iter().chain([told]).collect();
        self.failure = Some(failures.join("; "));
    }
}

/// Halts at once, and once more when the partitions have imported all definitions: one of them may
/// have lacked an instrument before. Returns the phases of the instruments too, as the page has
/// them.
fn halt(
    admin: &mut Admin,
    args: &AdminArgs,
    change: ChangePhases,
    partitions: &[PartitionId],
) -> anyhow::Result<(Sent, anyhow::Result<Phases>)> {
    let sent = Sent::to(admin, change, partitions)?;
    let imports = wait_for_imports(args, "instruments that it does not know yet are not halted");
    if let Err(error) = imports {
        eprintln!(
            "weir: {error:#}: an instrument that a partition did not know yet may not be halted"
        );
        return Ok((sent, Err(error)));
    }
    let sent = sent.again(admin, change);
    let is_told = sent.sum.changed > 0 || sent.failure.is_some();
    if !is_told
        && !change.group_id.is_none()
        && let Ok(None) = many::members_if_any(args, change.group_id)
    {
        bail!(many::no_instruments(change.group_id));
    }
    let phases = phases_behind(args, change.group_id, &sent.positions);
    Ok((sent, phases))
}

/// Waits until the partitions have imported all definitions, since a change reaches only the
/// instruments that they know, and checks that the group has instruments. A change of all
/// instruments does without the status page.
fn prepare(args: &AdminArgs, change: &ChangePhases) -> anyhow::Result<()> {
    let left_out =
        "the request is sent, and instruments that the partition does not know yet are left out";
    match wait_for_imports(args, left_out) {
        // A group without instruments is most likely mistyped.
        Ok(()) if !change.group_id.is_none() => many::members(args, change.group_id).map(drop),
        Ok(()) => Ok(()),
        Err(error) if change.group_id.is_none() => {
            eprintln!("weir: {error:#}: the request is sent all the same");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Waits until the partitions have imported all definitions, for a time, behind which the effect is
/// told.
fn wait_for_imports(args: &AdminArgs, effect: &str) -> anyhow::Result<()> {
    let have_all = |page: &StatusPage| define::has_imported(&page.json).then_some(());
    let (_, found) = args.login.endpoint.status_within(IMPORT_LAG_MAX, have_all)?;
    if found.is_none() {
        eprintln!(
            "weir: a partition has not imported all definitions within {IMPORT_LAG_MAX:?}: {effect}"
        );
    }
    Ok(())
}

fn is_halt(change: &ChangePhases) -> bool {
    change.resumes == Switch::Off && change.phase == Phase::Halted
}

/// Returns the phases of a group's instruments once the status page shows the changes that were
/// made at these positions.
fn phases_behind(
    args: &AdminArgs,
    group_id: GroupId,
    positions: &[(PartitionId, Position)],
) -> anyhow::Result<Phases> {
    let are_shown = |page: &StatusPage| {
        let mut all = positions.iter();
        all.all(|(partition_id, position)| shows(page, *partition_id, *position)).then_some(())
    };
    let (_, found) = args.login.endpoint.status_within(PHASES_LAG_MAX, are_shown)?;
    found.with_context(|| format!("the status page lags by more than {PHASES_LAG_MAX:?}"))?;
    // Once more: the page may have its instruments from before the position that it names.
    let mut phases = Phases::new();
    for row in many::members(args, group_id)? {
        let phase = row.phase.unwrap_or_else(|| "unknown".to_owned());
        phases.entry(phase).or_default().push(row.symbol);
    }
    Ok(phases)
}

/// Returns true if the page shows a partition's instruments as they are behind a position, or not
/// those of this partition.
fn shows(page: &StatusPage, partition_id: PartitionId, position: Position) -> bool {
    let sources = page.json["delivery"]["sources"].as_array();
    let is_its = |source: &&Value| source["source"].as_u64() == Some(partition_id.0.into());
    let shown = sources.and_then(|all| all.iter().find(is_its));
    shown.is_none_or(|own| own["position"].as_u64().is_some_and(|shown| shown >= position.0))
}

fn told(change: &ChangePhases, sum: &PhasesChanged, phases: anyhow::Result<Phases>) -> Outcome {
    let of = match change.group_id {
        GroupId::NONE => "all instruments".to_owned(),
        group_id => format!("group {group_id}"),
    };
    let (asked, goal) = match (change.resumes, change.through_call) {
        (Switch::On, Switch::On) => ("resume", Phase::VolatilityCall),
        (Switch::On, Switch::Off) => ("resume", Phase::Continuous),
        (Switch::Off, _) => (phase_name(change.phase), change.phase),
    };
    let reached = match &phases {
        Ok(phases) => in_words(phases, phase_name(goal)),
        // It is legal in every phase: none was skipped.
        Err(_) if is_halt(change) => asked.to_owned(),
        Err(_) => format!("asked for {asked}"),
    };
    let PhasesChanged { changed, skipped, ended, .. } = *sum;
    let mut text = format!("{of}: {reached}; {changed} changed");
    if skipped > 0 {
        text.push_str(&format!(", {skipped} skipped"));
    }
    if ended > 0 {
        text.push_str(&format!("; {ended} orders ended"));
    }
    let doubt = phases.as_ref().err().filter(|_| !is_halt(change)).map(|why| {
        format!(
            "the phases that the instruments reached are not known yet ({why:#}): see the status \
             page"
        )
    });
    let failure = (skipped > 0).then(|| {
        format!("{of}: refused for {skipped} instruments, which are as they were: {reached}")
    });
    let json = serde_json::json!({
        "done": text, "asked": asked, "changed": changed, "skipped": skipped,
        "orders_ended": ended, "phases": phases.ok(),
    });
    Outcome { doubt, failure, ..Outcome::of(text, json) }
}

/// Returns the number of instruments in each phase, that of the goal first; of the others some are
/// named.
fn in_words(phases: &Phases, goal: &str) -> String {
    let mut parts: Vec<_> =
        phases.get(goal).map(|symbols| format!("{} {goal}", symbols.len())).into_iter().collect();
    let mut left = SYMBOLS_MAX;
    for (phase, symbols) in phases.iter().filter(|(phase, _)| *phase != goal) {
        let named = symbols.len().min(left);
        left -= named;
        let mut list = symbols[..named].to_vec();
        if named < symbols.len() {
            list.push(format!("{} more", symbols.len() - named));
        }
        parts.push(format!("{} {phase} ({})", symbols.len(), list.join(", ")));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phases(of: &[(&str, &[&str])]) -> Phases {
        let symbols = |symbols: &[&str]| symbols.iter().map(|&symbol| symbol.to_owned()).collect();
        of.iter().map(|&(phase, list)| (phase.to_owned(), symbols(list))).collect()
    }

    fn to(phase: Phase) -> ChangePhases {
        ChangePhases { phase, resumes: Switch::Off, ..resume_of(GroupId(7)) }
    }

    const SUM: PhasesChanged =
        PhasesChanged { changed: 3, skipped: 0, ended: 0, position: Position::NONE };

    /// A partition that had been halted was told as one in which nothing was changed.
    #[test]
    fn a_second_halt_that_fails_is_told_as_the_second() {
        let of = |positions: &[(u16, u64)], failure: Option<&str>| Sent {
            sum: SUM,
            positions: positions.iter().map(|(id, at)| (PartitionId(*id), Position(*at))).collect(),
            failure: failure.map(str::to_owned),
        };
        let mut sent = of(&[(1, 10), (2, 20)], None);
        sent.add_second(Ok(of(&[(1, 11)], Some("partition 2: nothing was changed"))));
        assert_eq!(sent.positions, of(&[(1, 11), (2, 20)], None).positions);
        assert_eq!(sent.sum.changed, 6);
        let told = "the halt was made, and not a second time: an instrument that a partition did \
                    not know yet may not be halted: partition 2: nothing was changed";
        assert_eq!(sent.failure.as_deref(), Some(told));
        let mut sent = of(&[(1, 10)], Some("partition 2: no halt"));
        sent.add_second(Err(anyhow::anyhow!("lost")));
        let failure = sent.failure.expect("both failed");
        assert!(failure.starts_with("partition 2: no halt; the halt was made"), "{failure}");
        assert!(failure.ends_with("halted: lost"), "{failure}");
        assert_eq!(sent.sum.changed, 3);
    }

    /// A command said continuous of an instrument that had begun a volatility call.
    #[test]
    fn the_phases_that_were_reached_are_told_and_not_the_one_asked_for() {
        let found =
            phases(&[("closed", &["D"]), ("continuous", &["A", "B"]), ("volatility-call", &["C"])]);
        let of = told(&to(Phase::Continuous), &SUM, Ok(found));
        let want = "group 7: 2 continuous, 1 closed (D), 1 volatility-call (C); 3 changed";
        assert_eq!(of.text, want);
        assert_eq!((of.failure, of.doubt), (None, None));
        assert_eq!(of.json["asked"], "continuous");
        assert_eq!(of.json["phases"]["volatility-call"][0], "C");
        let skipped = PhasesChanged { skipped: 1, ended: 12, ..SUM };
        let of = told(&to(Phase::ClosingCall), &skipped, Ok(phases(&[("closed", &["A"])])));
        assert_eq!(of.text, "group 7: 1 closed (A); 3 changed, 1 skipped; 12 orders ended");
        let failure = of.failure.expect("an instrument was skipped");
        assert_eq!(
            failure,
            "group 7: refused for 1 instruments, which are as they were: 1 closed (A)"
        );
        assert_eq!((&of.json["skipped"], &of.json["orders_ended"]), (&1.into(), &12.into()));
        for (through_call, want) in [
            (Switch::Off, "all instruments: 2 continuous, 1 volatility-call (C); 3 changed"),
            (Switch::On, "all instruments: 1 volatility-call, 2 continuous (A, B); 3 changed"),
        ] {
            let resume = ChangePhases { through_call, ..resume_of(GroupId::NONE) };
            let found = phases(&[("continuous", &["A", "B"]), ("volatility-call", &["C"])]);
            let of = told(&resume, &SUM, Ok(found));
            assert_eq!((of.text, &of.json["asked"]), (want.to_owned(), &"resume".into()));
        }
    }

    #[test]
    fn twenty_instruments_in_other_phases_are_named_and_the_rest_is_counted() {
        let of = |count: usize| (0..count).map(|at| format!("S{at}")).collect::<Vec<_>>();
        let found: Phases =
            [("closed", 18), ("continuous", 40), ("halted", 5), ("opening-call", 3)]
                .map(|(phase, count)| (phase.to_owned(), of(count)))
                .into();
        let said = in_words(&found, "continuous");
        assert!(said.starts_with("40 continuous, 18 closed (S0, S1, "), "{said}");
        let want = "S17), 5 halted (S0, S1, 3 more), 3 opening-call (3 more)";
        assert!(said.ends_with(want), "{said}");
    }

    #[test]
    fn without_the_page_a_halt_is_known_and_any_other_phase_is_in_doubt() {
        let lost = || Err(anyhow::anyhow!("no status page"));
        let halt = told(&to(Phase::Halted), &SUM, lost());
        assert_eq!((halt.text, halt.doubt), ("group 7: halted; 3 changed".to_owned(), None));
        assert!(halt.json["phases"].is_null());
        for change in [to(Phase::Continuous), resume_of(GroupId(7))] {
            let of = told(&change, &SUM, lost());
            let doubt = of.doubt.expect("it is not known");
            assert!(doubt.contains("not known yet (no status page)"), "{doubt}");
            assert!(of.text.starts_with("group 7: asked for "), "{}", of.text);
        }
    }

    #[test]
    fn a_page_shows_a_change_once_its_instruments_are_behind_the_position() {
        let page = |position: serde_json::Value| StatusPage {
            instruments: Vec::new(),
            json: serde_json::json!({
                "delivery": { "sources": [{ "source": 1, "position": position }] },
            }),
        };
        let (here, elsewhere) = (PartitionId(1), PartitionId(2));
        for (position, want) in [(8, false), (9, true), (10, true)] {
            assert_eq!(shows(&page(position.into()), here, Position(9)), want, "{position}");
        }
        assert!(!shows(&page(serde_json::Value::Null), here, Position(9)));
        assert!(shows(&page(0.into()), elsewhere, Position(9)));
    }
}
