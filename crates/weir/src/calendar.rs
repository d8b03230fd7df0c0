//! A session calendar: on which days which phases begin when, as a file of TOML, and the changes
//! of phase that it makes of a range of days.
//!
//! Times are local: of a zone of the time zone database, or at offsets from UTC that the file
//! gives. A day belongs to the date on which it begins, may end on the following date, ends closed
//! and before the next day begins. A time that its zone skips or repeats on a date is refused for
//! that date.
//!
//! Pure: it reads no clock and sends nothing; `weir admin calendar` files its result.

mod zone;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use weir_client::status::{phase_name, phase_named};
use weir_runtime::civil::{Date, TimeOfDay, UtcOffset, local, utc};
use weir_types::{Nanos, Phase};

use zone::Zone;
pub use zone::database_release;

/// The days for which the changes to come are checked, however few are asked for: a year has all
/// times that a zone's clock skips or repeats.
const CHECKED_DAYS: u32 = 366;

/// Two offsets of a file differ by at most 28 hours, so that changes of these many days before a
/// date, and of the date and the next day, may be out of order where another offset begins.
const DAYS_BEFORE_OFFSET: u32 = 3;

/// A calendar.
#[derive(Debug)]
pub struct Calendar {
    zone: Zone,
    /// Days of the week on which a day of trading begins.
    days: Vec<Weekday>,
    /// Dates on which none begins.
    holidays: Vec<Date>,
    /// The phases of a day, in order of time.
    phase: Vec<PhaseAt>,
    /// Dates with phases of their own.
    special: Vec<Special>,
}

/// A calendar as its file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CalendarFile {
    /// The name of the zone of all times.
    timezone: Option<String>,
    /// The offset of local time from UTC, in place of a zone.
    utc_offset: Option<UtcOffset>,
    /// The same from a date on, until the next such date.
    #[serde(default)]
    utc_offset_from: BTreeMap<String, UtcOffset>,
    days: Vec<Weekday>,
    #[serde(default)]
    holidays: Vec<Date>,
    phase: Vec<PhaseAt>,
    #[serde(default)]
    special: Vec<Special>,
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

/// The days of the week, by [`Date::weekday`].
const WEEK: [Weekday; 7] = {
    use Weekday::{Fri, Mon, Sat, Sun, Thu, Tue, Wed};
    [Mon, Tue, Wed, Thu, Fri, Sat, Sun]
};

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PhaseAt {
    at: DayTime,
    #[serde(rename = "name")]
    phase: PhaseName,
}

/// A time of a day of trading: on the date on which the day begins, `17:00`, or on the following
/// date, `+1 16:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct DayTime {
    /// 0 or 1.
    days_later: u32,
    time: TimeOfDay,
}

impl TryFrom<String> for DayTime {
    type Error = String;

    fn try_from(text: String) -> Result<DayTime, String> {
        let (days_later, time) = match text.strip_prefix("+1 ") {
            Some(time) => (1, time),
            None => (0, text.as_str()),
        };
        let time = time.parse::<TimeOfDay>().map_err(|_| {
            format!("{text:?} is no time: want HH:MM or HH:MM:SS, on the following date +1 HH:MM")
        })?;
        Ok(DayTime { days_later, time })
    }
}

impl fmt::Display for DayTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.days_later > 0 {
            write!(f, "+{} ", self.days_later)?;
        }
        write!(f, "{}", self.time)
    }
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

/// A change of phase that a calendar makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalendarChange {
    /// The date on which its day begins, which may be the one before its own.
    pub day: Date,
    /// The moment of the change.
    pub at: Nanos,
    /// The offset of local time at that moment.
    pub offset: UtcOffset,
    /// The phase from then on.
    pub phase: Phase,
}

impl CalendarChange {
    /// Returns the local time of the change, with its offset from UTC.
    #[must_use]
    pub fn local(&self) -> String {
        local(self.at, self.offset)
    }
}

impl fmt::Display for CalendarChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}  {}", self.local(), utc(self.at), phase_name(self.phase))
    }
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

/// A day begins closed and on its own date; each of its phases must be allowed after the one before
/// it, and the last must be closed, so that the next day begins so too.
fn check_day(key: &str, steps: &[PhaseAt]) -> anyhow::Result<()> {
    let mut phase = Phase::Closed;
    let mut before: Option<DayTime> = None;
    for (index, step) in steps.iter().enumerate() {
        let (from, to) = (phase_name(phase), phase_name(step.phase.0));
        if index == 0 && step.at.days_later > 0 {
            bail!("{key}[0].at: {}: a day begins on its own date", step.at);
        }
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

/// The phases of a date.
#[derive(Clone, Copy)]
struct DayPhases<'a> {
    /// The place of the special day that they are of; `None` for those of each day.
    special: Option<usize>,
    steps: &'a [PhaseAt],
}

impl DayPhases<'_> {
    fn key(&self) -> String {
        match self.special {
            Some(index) => format!("special[{index}].phase"),
            None => "phase".to_owned(),
        }
    }

    /// Refuses a day that is not over when the next one begins.
    fn check_end(&self, next: DayPhases<'_>) -> anyhow::Result<()> {
        let Some(first) = next.steps.first() else { return Ok(()) };
        let is_late = |step: &PhaseAt| step.at.days_later > 0 && step.at.time >= first.at.time;
        let Some(index) = self.steps.iter().position(is_late) else { return Ok(()) };
        let (key, at, first) = (self.key(), self.steps[index].at, first.at);
        bail!("{key}[{index}].at: {at} is not before {first}, when the next day begins");
    }
}

impl CalendarFile {
    /// Returns the relation of local time to UTC, which is given by one of two keys.
    fn zone(&self) -> anyhow::Result<Zone> {
        let mut from = BTreeMap::new();
        for (date, offset) in &self.utc_offset_from {
            let date: Date = date.parse().map_err(anyhow::Error::msg).context("utc_offset_from")?;
            from.insert(date, *offset);
        }
        match (&self.timezone, self.utc_offset) {
            (Some(name), None) => {
                ensure!(from.is_empty(), "utc_offset_from: the timezone has offsets of its own");
                Zone::named(name).map_err(anyhow::Error::msg).context("timezone")
            }
            (None, Some(first)) => Ok(Zone::ByHand { first, from }),
            (Some(_), Some(_)) => bail!("utc_offset: give either it or timezone, not both"),
            (None, None) => bail!("timezone: give it, or utc_offset"),
        }
    }
}

impl Calendar {
    /// A calendar from the text of its file.
    ///
    /// # Errors
    /// The fault, with its line or its key.
    pub fn parse(text: &str) -> anyhow::Result<Calendar> {
        let file: CalendarFile = toml::from_str(text)?;
        let zone = file.zone()?;
        let CalendarFile { days, holidays, phase, special, .. } = file;
        let calendar = Calendar { zone, days, holidays, phase, special };
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
        calendar.check_ends()?;
        calendar.check_dates()?;
        Ok(calendar)
    }

    /// Refuses days that overlap by their local times.
    fn check_ends(&self) -> anyhow::Result<()> {
        let each = DayPhases { special: None, steps: &self.phase };
        let mut pairs = WEEK.iter().zip(WEEK.iter().cycle().skip(1));
        let pair = pairs.find(|(day, next)| self.days.contains(day) && self.days.contains(next));
        if let Some((day, next)) = pair {
            let dates = || format!("{day:?} and {next:?}").to_lowercase();
            each.check_end(each).with_context(dates)?;
        }
        for special in &self.special {
            for date in [special.date.minus(1), special.date] {
                let next = date.plus(1);
                let dates = || format!("{date} and {next}");
                self.phases_on(date).check_end(self.phases_on(next)).with_context(dates)?;
            }
        }
        Ok(())
    }

    /// Refuses faults on the dates that the file names.
    fn check_dates(&self) -> anyhow::Result<()> {
        for special in &self.special {
            self.changes(special.date, 1)?;
        }
        for date in self.zone.dates_by_hand() {
            self.changes(date.minus(DAYS_BEFORE_OFFSET), DAYS_BEFORE_OFFSET + 2)?;
        }
        Ok(())
    }

    /// Returns the zone's name; `None` for a calendar with offsets.
    #[must_use]
    pub fn timezone(&self) -> Option<&str> {
        self.zone.name()
    }

    /// The date of a moment here.
    #[must_use]
    pub fn date_of(&self, moment: Nanos) -> Date {
        Date::at(moment, self.zone.offset_at(moment))
    }

    /// The changes of phase of `day_count` days from `first` on, in order of time.
    ///
    /// # Errors
    /// A time that the zone skips or repeats on its date, or that an offset puts before the change
    /// in front of it, with its key.
    pub fn changes(&self, first: Date, day_count: u32) -> anyhow::Result<Vec<CalendarChange>> {
        let mut changes: Vec<CalendarChange> = Vec::new();
        for day in (0..day_count).map(|count| first.plus(count)) {
            let phases = self.phases_on(day);
            for (index, step) in phases.steps.iter().enumerate() {
                let place = || format!("{}[{index}].at on {day}", phases.key());
                let Some(change) = self.change(day, *step).with_context(place)? else { continue };
                let before = changes.last().filter(|before| before.at >= change.at);
                if let Some(before) = before {
                    let (late, early) = (before.local(), change.local());
                    bail!("{}: {early} is not after {late}, the change before it", place());
                }
                changes.push(change);
            }
        }
        Ok(changes)
    }

    /// Returns a day's change of phase; `None` for one before 1970.
    fn change(&self, day: Date, step: PhaseAt) -> anyhow::Result<Option<CalendarChange>> {
        let date = day.plus(step.at.days_later);
        let offset = self.zone.offset_of(date, step.at.time).map_err(|fault| {
            anyhow::anyhow!(
                "{fault}: write another time, for this day alone in a [[special]] with date = \
                 \"{day}\""
            )
        })?;
        let at = date.moment(step.at.time, offset);
        Ok(at.map(|at| CalendarChange { day, at, offset, phase: step.phase.0 }))
    }

    /// Returns the changes after `now` of `day_count` days from `first` on, in order of time.
    /// Without `first` these are the days from today on, and the day that began yesterday, which
    /// may not be over.
    ///
    /// # Errors
    /// As [`Calendar::changes`], within a year from `first` on, so that a fault is found long
    /// before its date.
    pub fn changes_to_come(
        &self,
        first: Option<Date>,
        day_count: u32,
        now: Nanos,
    ) -> anyhow::Result<Vec<CalendarChange>> {
        let today = self.date_of(now);
        let end = first.unwrap_or(today).plus(day_count);
        let first = first.unwrap_or(today.minus(1));
        let mut changes = self.changes(first, CHECKED_DAYS.max(day_count + 1))?;
        changes.retain(|change| change.day < end && change.at > now);
        Ok(changes)
    }

    /// Returns the changes behind `now` of the day that has begun by then and is not over, in order
    /// of time; none if there is no such day.
    ///
    /// # Errors
    /// As [`Calendar::changes`].
    pub fn rest_of_open_day(&self, now: Nanos) -> anyhow::Result<Vec<CalendarChange>> {
        let today = self.date_of(now);
        // A day ends on the date behind its own at the latest.
        let mut changes = self.changes(today.minus(1), 2)?;
        let begun = changes.iter().rfind(|change| change.at <= now).map(|change| change.day);
        changes.retain(|change| change.at > now && Some(change.day) == begun);
        Ok(changes)
    }

    fn phases_on(&self, date: Date) -> DayPhases<'_> {
        if let Some(index) = self.special.iter().position(|special| special.date == date) {
            return DayPhases { special: Some(index), steps: &self.special[index].phase };
        }
        let is_open = self.days.contains(&WEEK[date.weekday()]) && !self.holidays.contains(&date);
        DayPhases { special: None, steps: if is_open { &self.phase } else { &[] } }
    }
}
