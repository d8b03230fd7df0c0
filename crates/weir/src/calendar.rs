//! A session calendar: on which days which phases begin when, as a file of TOML, and the changes
//! of phase that it makes of a range of days.
//!
//! Pure: it reads no clock and sends nothing; `weir admin calendar` files its result. It knows no
//! time zone's rules: an offset from UTC holds from a date on, and the file gives both.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use serde::Deserialize;
use weir_client::status::{phase_name, phase_named};
use weir_runtime::civil::{Date, TimeOfDay, UtcOffset};
use weir_types::{Nanos, Phase};

/// A calendar.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calendar {
    /// The offset of local time from UTC.
    utc_offset: UtcOffset,
    /// The same from a date on, until the next such date.
    #[serde(default)]
    utc_offset_from: BTreeMap<String, UtcOffset>,
    /// Days of the week with trading.
    days: Vec<Weekday>,
    /// Dates without trading.
    #[serde(default)]
    holidays: Vec<Date>,
    /// The phases of a day, in order of time.
    phase: Vec<PhaseAt>,
    /// Dates with phases of their own.
    #[serde(default)]
    special: Vec<Special>,
    /// `utc_offset_from` by date; made of it when the file is read.
    #[serde(skip)]
    offsets: BTreeMap<Date, UtcOffset>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Weekday {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PhaseAt {
    at: TimeOfDay,
    #[serde(rename = "name")]
    phase: PhaseName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct PhaseName(Phase);

impl TryFrom<String> for PhaseName {
    type Error = String;

    fn try_from(name: String) -> Result<PhaseName, String> {
        parse_phase(&name).map(PhaseName)
    }
}

/// The phase of a name.
///
/// # Errors
/// The names that there are.
pub(super) fn parse_phase(text: &str) -> Result<Phase, String> {
    phase_named(text).ok_or_else(|| {
        let names: Vec<_> = Phase::ALL.iter().map(|phase| phase_name(*phase)).collect();
        format!("want {}", names.join(", "))
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Special {
    date: Date,
    phase: Vec<PhaseAt>,
}

/// True for a change that `docs/matching.md` lets an instrument make.
fn is_legal(from: Phase, to: Phase) -> bool {
    use Phase::{Closed, ClosingCall, Continuous, Halted, OpeningCall, VolatilityCall};
    match to {
        Closed | Halted => true,
        OpeningCall => matches!(from, OpeningCall | Closed | Halted),
        Continuous => from != ClosingCall,
        VolatilityCall => matches!(from, VolatilityCall | Continuous | Halted),
        ClosingCall => from != Closed && from != OpeningCall,
    }
}

/// A day begins closed; each of its phases must be allowed after the one before it, and the last
/// must be closed, so that the next day begins so too.
fn check_day(key: &str, steps: &[PhaseAt]) -> anyhow::Result<()> {
    let mut phase = Phase::Closed;
    let mut before: Option<TimeOfDay> = None;
    for (index, step) in steps.iter().enumerate() {
        let (from, to) = (phase_name(phase), phase_name(step.phase.0));
        if before.is_some_and(|before| before >= step.at) {
            bail!("{key}[{index}].at: {} is not after the phase before it", step.at);
        }
        if step.phase.0 == phase {
            bail!("{key}[{index}].name: the phase is {to} already");
        }
        if !is_legal(phase, step.phase.0) {
            bail!("{key}[{index}].name: {to} cannot follow {from}");
        }
        (phase, before) = (step.phase.0, Some(step.at));
    }
    if phase != Phase::Closed {
        bail!("{key}: the day ends {}, not closed", phase_name(phase));
    }
    Ok(())
}

impl Calendar {
    /// A calendar from the text of its file.
    ///
    /// # Errors
    /// What is wrong, with its line or its key.
    pub fn parse(text: &str) -> anyhow::Result<Calendar> {
        let mut calendar: Calendar = toml::from_str(text)?;
        for (date, offset) in &calendar.utc_offset_from {
            let date: Date = date.parse().map_err(anyhow::Error::msg).context("utc_offset_from")?;
            calendar.offsets.insert(date, *offset);
        }
        check_day("phase", &calendar.phase)?;
        for (index, special) in calendar.special.iter().enumerate() {
            check_day(&format!("special[{index}].phase"), &special.phase)?;
            if calendar.special[..index].iter().any(|before| before.date == special.date) {
                bail!("special[{index}].date: {} is there twice", special.date);
            }
            if calendar.holidays.contains(&special.date) {
                bail!("special[{index}].date: {} is a holiday", special.date);
            }
        }
        Ok(calendar)
    }

    /// The offset of local time from UTC on a date.
    #[must_use]
    pub fn offset_on(&self, date: Date) -> UtcOffset {
        self.offsets.range(..=date).next_back().map_or(self.utc_offset, |(_, offset)| *offset)
    }

    /// The date of a moment here.
    #[must_use]
    pub fn date_of(&self, moment: Nanos) -> Date {
        let date = Date::at(moment, self.utc_offset);
        Date::at(moment, self.offset_on(date))
    }

    /// The changes of phase of `day_count` days from `first` on, in order of time.
    #[must_use]
    pub fn changes(&self, first: Date, day_count: u32) -> Vec<(Nanos, Phase)> {
        let dates = (0..day_count).map(|count| first.plus(count));
        let of_date = |date: Date| {
            let offset = self.offset_on(date);
            let steps = self.steps_on(date).iter();
            steps.filter_map(move |step| Some((date.moment(step.at, offset)?, step.phase.0)))
        };
        dates.flat_map(of_date).collect()
    }

    fn steps_on(&self, date: Date) -> &[PhaseAt] {
        const WEEK: [Weekday; 7] = {
            use Weekday::{Fri, Mon, Sat, Sun, Thu, Tue, Wed};
            [Mon, Tue, Wed, Thu, Fri, Sat, Sun]
        };
        if let Some(special) = self.special.iter().find(|special| special.date == date) {
            return &special.phase;
        }
        let is_open = self.days.contains(&WEEK[date.weekday()]) && !self.holidays.contains(&date);
        if is_open { &self.phase } else { &[] }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_client::status::phase_named;

    use super::*;
    use weir_runtime::civil::{parse_moment, utc};

    const WEEK: &str = r#"
        utc_offset = "+01:00"
        days = ["mon", "tue", "wed", "thu", "fri"]
        holidays = ["2026-12-25", "2027-01-01"]
        utc_offset_from = { "2027-03-28" = "+02:00" }
        phase = [
            { at = "08:50", name = "opening-call" },
            { at = "09:00", name = "continuous" },
            { at = "17:30", name = "closing-call" },
            { at = "17:35:30", name = "closed" },
        ]
        [[special]]
        date = "2026-12-24"
        phase = [{ at = "09:00", name = "continuous" }, { at = "14:00", name = "closed" }]
    "#;

    fn day(text: &str) -> Date {
        text.parse().unwrap()
    }

    #[test]
    fn a_day_has_its_phases_at_their_local_times() {
        let calendar = Calendar::parse(WEEK).unwrap();
        let changes = calendar.changes(day("2026-11-23"), 1);
        let told: Vec<_> = changes.iter().map(|(at, phase)| (utc(*at), *phase)).collect();
        let want = [
            ("2026-11-23T07:50:00Z", Phase::OpeningCall),
            ("2026-11-23T08:00:00Z", Phase::Continuous),
            ("2026-11-23T16:30:00Z", Phase::ClosingCall),
            ("2026-11-23T16:35:30Z", Phase::Closed),
        ];
        assert_eq!(told, want.map(|(at, phase)| (at.to_owned(), phase)));
    }

    #[test]
    fn holidays_weekends_special_days_and_summer_time_are_kept() {
        let calendar = Calendar::parse(WEEK).unwrap();
        let cases = [("2026-12-24", 2), ("2026-12-25", 0), ("2026-12-26", 0), ("2026-12-28", 4)];
        for (date, count) in cases {
            assert_eq!(calendar.changes(day(date), 1).len(), count, "{date}");
        }
        let summer = calendar.changes(day("2027-03-29"), 1)[1].0;
        assert_eq!(utc(summer), "2027-03-29T07:00:00Z");
        let late = parse_moment("2026-11-22T23:30:00Z", Nanos(0)).unwrap();
        assert_eq!(calendar.date_of(late), day("2026-11-23"));
    }

    proptest! {
        #[test]
        fn changes_ascend_and_ranges_add_up(
            start in 0u32..30_000, first in 0u32..60, second in 0u32..60,
        ) {
            let calendar = Calendar::parse(WEEK).unwrap();
            let start = day("1970-01-02").plus(start);
            let whole = calendar.changes(start, first + second);
            prop_assert!(whole.windows(2).all(|pair| pair[0].0 < pair[1].0));
            let mut parts = calendar.changes(start, first);
            parts.extend(calendar.changes(start.plus(first), second));
            prop_assert_eq!(&whole, &parts);
            // Each day that has changes ends closed, on a day that trades.
            for (at, phase) in whole {
                let date = calendar.date_of(at);
                prop_assert!(date >= start && date < start.plus(first + second));
                prop_assert!(date.weekday() < 5 || date == day("2026-12-24"));
                prop_assert!(!calendar.holidays.contains(&date));
                let last = calendar.changes(date, 1).last().copied();
                prop_assert_eq!(last.map(|last| last.1), Some(Phase::Closed));
                prop_assert!(phase_named(phase_name(phase)) == Some(phase));
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named_by_line_or_key() {
        let cases = [
            ("\"mon\"", "\"monday\"", "line 3"),
            ("\"+01:00\"", "\"CET\"", "line 2"),
            ("2026-12-25", "2026-13-25", "line 4"),
            ("2027-03-28", "soon", "utc_offset_from"),
            ("\"08:50\"", "\"8:50\"", "line 7"),
            ("\"opening-call\"", "\"opening\"", "want closed, continuous"),
            ("\"08:50\"", "\"09:30\"", "phase[1].at"),
            ("\"closing-call\"", "\"opening-call\"", "phase[2].name"),
            (
                "\"17:35:30\", name = \"closed\"",
                "\"17:35:30\", name = \"halted\"",
                "phase: the day",
            ),
            ("\"2026-12-24\"", "\"2026-12-25\"", "special[0].date"),
            ("\"14:00\"", "\"08:00\"", "special[0].phase[1].at"),
            ("days", "dayz", "dayz"),
        ];
        for (good, bad, named) in cases {
            let text = WEEK.replacen(good, bad, 1);
            assert_ne!(text, WEEK, "{good}");
            let error = format!("{:#}", Calendar::parse(&text).unwrap_err());
            assert!(error.contains(named), "{bad}: {error}");
        }
    }
}
