//! The filing of a calendar: the changes of its days, beside those that are filed or in their
//! place.
//!
//! Changes that are past by this machine's clock are left out. So the node is told its time: of the
//! filed changes it removes those behind it, and none that was left out. Clocks that are far apart
//! are refused, and so are days that leave the end of an open one out. An instrument that is open
//! while no day of the calendar is under way, by hand or by an earlier file, is warned of.

use anyhow::{Context, bail, ensure};
use weir_client::Admin;
use weir_client::clock::unix_time;
use weir_client::status::{InstrumentStatus, phase_name};
use weir_runtime::civil::utc;
use weir_types::{Nanos, PartitionId, Phase};
use weir_wire::reference::SCHEDULE_LIST_MAX;

use super::{AdminArgs, CalendarArgs, ChangeRow, Outcome, define, many, told};
use crate::calendar::{Calendar, CalendarChange, database_release};

/// The difference of log time and this machine's clock up to which filed changes are replaced: a
/// minute.
const CLOCKS_APART_MAX: u64 = 60_000_000_000;

/// The changes that a command files.
pub(super) struct Plan {
    calendar: Calendar,
    /// Those behind `as_of`, in order of time.
    pub(super) changes: Vec<CalendarChange>,
    /// The time by this machine's clock.
    as_of: Nanos,
}

impl Plan {
    /// Returns a warning of instruments that are open while no day of the calendar is under way: a
    /// close that is filed for today is removed with the changes that the plan replaces.
    pub(super) fn left_open(
        &self,
        instruments: &[InstrumentStatus],
    ) -> anyhow::Result<Option<String>> {
        if !self.calendar.rest_of_open_day(self.as_of)?.is_empty() {
            return Ok(None);
        }
        let is_open =
            |row: &&InstrumentStatus| row.phase().is_some_and(|phase| phase != Phase::Closed);
        let mut open = instruments.iter().filter(is_open);
        let Some(first) = open.next() else { return Ok(None) };
        let more = match open.count() {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        let close = self.changes.iter().find(|change| change.phase == Phase::Closed);
        let before = close.map_or_else(String::new, |close| format!(" before {}", close.local()));
        Ok(Some(format!(
            "not closed while no day of this calendar is under way: {}{more}; a close that was \
             filed{before} is removed",
            first.symbol
        )))
    }
}

impl From<&CalendarChange> for ChangeRow {
    fn from(change: &CalendarChange) -> ChangeRow {
        let json = serde_json::json!({
            "at": utc(change.at),
            "at_ns": change.at.0,
            "local": change.local(),
            "day": change.day.to_string(),
            "phase": phase_name(change.phase),
        });
        ChangeRow { line: change.to_string(), json }
    }
}

/// Files a calendar, or tells what it would file.
pub(super) fn file_calendar(
    admin: &mut Admin,
    args: &AdminArgs,
    of: &CalendarArgs,
) -> anyhow::Result<Outcome> {
    let plan = plan_of(of)?;
    let named = many::named(args, &of.instruments, &admin.partitions())?;
    // A question has told it before.
    if of.replace
        && (args.yes || of.dry_run)
        && let Some(warning) = plan.left_open(&named.instruments)?
    {
        eprintln!("weir: {warning}");
    }
    let Plan { calendar, changes, as_of } = plan;
    if !of.dry_run {
        if of.replace {
            check_clocks(admin, args)?;
        }
        let list: Vec<_> = changes.iter().map(|change| (change.at, change.phase)).collect();
        named.file(admin, &list, of.replace.then_some(as_of))?;
    }
    let rows = changes.iter().map(ChangeRow::from).collect();
    let mut outcome = told(&named.instruments, rows, of.dry_run);
    if let Some(zone) = calendar.timezone() {
        let release = database_release();
        outcome.text = format!("{}\nby {zone}, time zone database {release}", outcome.text);
        outcome.json["timezone"] = zone.into();
        outcome.json["timezone_database"] = release.into();
    }
    Ok(outcome)
}

/// Returns a calendar and the changes of phase to file by it.
pub(super) fn plan_of(of: &CalendarArgs) -> anyhow::Result<Plan> {
    let path = of.file.display();
    let text = std::fs::read_to_string(&of.file).with_context(|| format!("calendar {path}"))?;
    plan_at(of, &text, unix_time()).with_context(|| format!("calendar {path}"))
}

fn plan_at(of: &CalendarArgs, text: &str, now: Nanos) -> anyhow::Result<Plan> {
    let calendar = Calendar::parse(text)?;
    // The node takes only changes that are to come.
    let changes = calendar.changes_to_come(of.from, of.days, now)?;
    if of.replace {
        let count = changes.len();
        ensure!(
            count <= SCHEDULE_LIST_MAX,
            "--replace: {count} changes, and at most {SCHEDULE_LIST_MAX} replace others: give \
             fewer --days"
        );
        check_open_day(&calendar, of, &changes, now)?;
    }
    Ok(Plan { calendar, changes, as_of: now })
}

/// Refuses days that leave out the rest of one that has begun and is not over: the end of that one
/// would be removed with the changes filed for it. Without a first day they have it.
fn check_open_day(
    calendar: &Calendar,
    of: &CalendarArgs,
    changes: &[CalendarChange],
    now: Nanos,
) -> anyhow::Result<()> {
    let Some(from) = of.from else { return Ok(()) };
    let rest = calendar.rest_of_open_day(now)?;
    if let Some(change) = rest.iter().find(|change| !changes.contains(change)) {
        let (day, at, phase) = (change.day, change.local(), phase_name(change.phase));
        bail!(
            "--from {from} --replace: the day of {day} has begun, and its changes from {at} on \
             ({phase}) would be removed: give --from {day}, or none"
        );
    }
    Ok(())
}

/// Refuses clocks that are far apart: a change between log time and this machine's clock is to come
/// for one of them and past for the other.
fn check_clocks(admin: &Admin, args: &AdminArgs) -> anyhow::Result<()> {
    let page = args.login.endpoint.status()?;
    for partition_id in admin.partitions() {
        let apart = log_time_ahead(&page.json, partition_id, admin.clock_ahead_ns());
        let (seconds, by) = (apart.unsigned_abs() / 1_000_000_000, apart.unsigned_abs());
        let side = if apart < 0 { "behind" } else { "ahead of" };
        ensure!(
            by <= CLOCKS_APART_MAX,
            "--replace: the log time of partition {partition_id} is {seconds} s {side} this \
             machine's clock, and may be apart from it by {} s: changes of phase between both \
             times would be lost. Put the clock of this machine or of the node right",
            CLOCKS_APART_MAX / 1_000_000_000
        );
    }
    Ok(())
}

/// Returns the nanoseconds by which a partition's log time is ahead of this machine's clock, of
/// which the node's wall clock is ahead by so many.
fn log_time_ahead(page: &serde_json::Value, partition_id: PartitionId, clock_ahead_ns: i64) -> i64 {
    let figure = |name: &str| {
        let rows = define::trading(page, name);
        let its = rows.iter().find(|(id, _)| *id == u64::from(partition_id.0));
        its.map_or(0, |(_, nanos)| i64::try_from(*nanos).unwrap_or(i64::MAX))
    };
    let wall = clock_ahead_ns.saturating_add(figure("log_time_ahead_ns"));
    wall.saturating_sub(figure("log_time_behind_ns"))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use weir_runtime::civil::parse_moment;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        of: CalendarArgs,
    }

    /// A market that trades over midnight from Sunday to Friday.
    const OVER_MIDNIGHT: &str = "\
        timezone = 'America/Chicago'\n\
        days = ['sun', 'mon', 'tue', 'wed', 'thu']\n\
        phase = [{ at = '17:00', name = 'continuous' }, { at = '+1 16:00', name = 'closed' }]\n";

    fn plan(words: &[&str], now: &str) -> Result<Plan, String> {
        plan_by(OVER_MIDNIGHT, words, now)
    }

    fn plan_by(calendar: &str, words: &[&str], now: &str) -> Result<Plan, String> {
        let line = Line::try_parse_from([&["x", "calendar.toml"], words].concat()).unwrap();
        let now = parse_moment(now, Nanos(0)).unwrap();
        plan_at(&line.of, calendar, now).map_err(|error| format!("{error:#}"))
    }

    /// The close of the session under way went with the changes that were replaced.
    #[test]
    fn a_calendar_that_would_remove_the_end_of_an_open_day_is_refused_with_day_and_time() {
        // A Tuesday, 02:00 at Chicago: Monday's session trades until 16:00.
        let open = "2026-11-24T08:00:00Z";
        let from = |day| ["--replace", "--days", "2", "--from", day];
        for day in ["2026-11-24", "2026-11-25"] {
            let want = format!(
                "--from {day} --replace: the day of 2026-11-23 has begun, and its changes from \
                 2026-11-24T16:00:00-06:00 on (closed) would be removed: give --from 2026-11-23, \
                 or none"
            );
            assert_eq!(plan(&from(day), open).err(), Some(want));
            assert!(plan(&from(day)[1..], open).is_ok(), "nothing is removed");
        }
        for words in [&from("2026-11-23")[..], &["--replace", "--days", "2"]] {
            let plan = plan(words, open).expect("its end is among them");
            assert_eq!(plan.changes[0].local(), "2026-11-24T16:00:00-06:00");
        }
        // Between two sessions, and on a Saturday.
        for closed in ["2026-11-24T22:30:00Z", "2026-11-28T12:00:00Z"] {
            assert!(plan(&from("2026-12-02"), closed).is_ok(), "{closed}");
        }
    }

    /// The first day was before the one under way, whose close then went with those replaced.
    #[test]
    fn days_that_end_before_an_open_one_are_refused_with_its_day_and_time() {
        // A Tuesday, 18:00 at Chicago: Tuesday's session has traded for an hour.
        let open = "2026-11-25T00:00:00Z";
        let of = |days| ["--replace", "--from", "2026-11-23", "--days", days];
        let want = "--from 2026-11-23 --replace: the day of 2026-11-24 has begun, and its changes \
                    from 2026-11-25T16:00:00-06:00 on (closed) would be removed: give --from \
                    2026-11-24, or none";
        assert_eq!(plan(&of("1"), open).err().as_deref(), Some(want));
        assert!(plan(&of("1")[1..], open).is_ok(), "nothing is removed");
        for words in [&of("2")[..], &["--replace", "--days", "1"]] {
            let plan = plan(words, open).expect("its end is among them");
            assert_eq!(plan.changes[0].local(), "2026-11-25T16:00:00-06:00");
        }
        // Its own day is over, and the next one has not begun.
        assert!(plan(&of("1"), "2026-11-24T22:30:00Z").is_ok());
    }

    /// The close filed for today went without a word when the file had got an earlier one.
    #[test]
    fn instruments_that_are_open_outside_the_days_of_a_calendar_are_warned_of() {
        let days = |more: &str| {
            format!(
                "timezone = 'Europe/Berlin'\n\
                 days = ['mon', 'tue', 'wed', 'thu', 'fri']\n\
                 phase = [{{ at = '09:00', name = 'continuous' }}, {{ at = '17:30', name = \
                 'closed' }}]\n{more}"
            )
        };
        let short_day = "[[special]]\ndate = '2026-11-24'\n\
                         phase = [{ at = '09:00', name = 'continuous' }, { at = '13:00', name = \
                         'closed' }]\n";
        let holiday = days("holidays = ['2026-11-24']\n");
        let rows = |phases: &[&str]| -> Vec<InstrumentStatus> {
            let row = |phase: &&str| {
                serde_json::from_value(serde_json::json!({
                    "id": 1, "symbol": phase, "price_exponent": -2, "partition": 1, "phase": phase,
                }))
                .unwrap()
            };
            phases.iter().map(row).collect()
        };
        // A Tuesday, 13:30 at Berlin.
        let now = "2026-11-24T12:30:00Z";
        let of = |calendar: &str, count: &str, phases: &[&str]| {
            let plan = plan_by(calendar, &["--replace", "--days", count], now).unwrap();
            plan.left_open(&rows(phases)).unwrap()
        };
        let warning = |of: &str| {
            Some(format!("not closed while no day of this calendar is under way: {of} is removed"))
        };
        let one = "continuous; a close that was filed before 2026-11-25T17:30:00+01:00";
        for calendar in [&days(short_day), &holiday] {
            assert_eq!(of(calendar, "2", &["closed", "continuous"]), warning(one), "{calendar}");
            let more = "halted and 1 more; a close that was filed";
            assert_eq!(of(calendar, "1", &["halted", "continuous"]), warning(more), "{calendar}");
            assert_eq!(of(calendar, "2", &["closed"]), None, "{calendar}");
        }
        assert_eq!(of(&days(""), "2", &["continuous"]), None, "its own close is filed");
    }

    #[test]
    fn log_time_is_the_nodes_clock_and_its_distance_from_that() {
        let page = serde_json::json!({ "partitions": [
            { "id": 0, "log_time_ahead_ns": 1, "log_time_behind_ns": 0 },
            { "id": 1, "log_time_ahead_ns": 70, "log_time_behind_ns": 0 },
            { "id": 2, "log_time_ahead_ns": 0, "log_time_behind_ns": 30 },
        ]});
        for (id, clock_ahead_ns, want) in [(1, 0, 70), (1, -100, -30), (2, 20, -10), (3, 5, 5)] {
            assert_eq!(log_time_ahead(&page, PartitionId(id), clock_ahead_ns), want, "{id}");
        }
    }
}
