//! Calendar dates, times of day and Unix time: the proleptic Gregorian calendar, UTC and fixed
//! offsets from it, whole seconds. No time zone's rules are known here.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use weir_types::Nanos;

const DAY_S: i64 = 86_400;
const SECOND_NS: u64 = 1_000_000_000;

/// A day, as the number of days since 1970-01-01; from 1970 to 2199.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Date(u32);

/// A time of day in whole seconds, before 24:00.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct TimeOfDay(u32);

/// The offset of local time from UTC, in seconds; positive when it is ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct UtcOffset(i32);

const YEARS: std::ops::Range<u32> = 1970..2200;

fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of_year(year: u32) -> u32 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_of_month(year: u32, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Date {
    /// Returns the day of a year, month and day; `None` for one that no calendar has, or out of
    /// range.
    #[must_use]
    pub fn new(year: u32, month: u32, day: u32) -> Option<Date> {
        if !YEARS.contains(&year) || !(1..=12).contains(&month) {
            return None;
        }
        if !(1..=days_of_month(year, month)).contains(&day) {
            return None;
        }
        let years: u32 = (YEARS.start..year).map(days_of_year).sum();
        let months: u32 = (1..month).map(|month| days_of_month(year, month)).sum();
        Some(Date(years + months + day - 1))
    }

    /// Returns the day `count` days later.
    #[must_use]
    pub fn plus(self, count: u32) -> Date {
        Date(self.0.saturating_add(count))
    }

    /// Returns the day `count` days earlier, at least 1970-01-01.
    #[must_use]
    pub fn minus(self, count: u32) -> Date {
        Date(self.0.saturating_sub(count))
    }

    /// Returns the day of the week, Monday 0.
    #[must_use]
    pub fn weekday(self) -> usize {
        // 1970-01-01 was a Thursday.
        (self.0 as usize + 3) % 7
    }

    /// Returns the local day of a moment, with local time `offset` from UTC.
    #[must_use]
    pub fn at(moment: Nanos, offset: UtcOffset) -> Date {
        let seconds = i64::try_from(moment.0 / SECOND_NS).expect("2^64 ns are 2^34 s");
        let days = (seconds + i64::from(offset.0)).div_euclid(DAY_S);
        Date(u32::try_from(days).unwrap_or(0))
    }

    /// Returns the moment of a time on this day; `None` before 1970 or beyond Unix time in
    /// nanoseconds.
    #[must_use]
    pub fn moment(self, time: TimeOfDay, offset: UtcOffset) -> Option<Nanos> {
        let seconds = i64::from(self.0) * DAY_S + i64::from(time.0) - i64::from(offset.0);
        u64::try_from(seconds).ok()?.checked_mul(SECOND_NS).map(Nanos)
    }

    fn year_month_day(self) -> (u32, u32, u32) {
        let (mut year, mut left) = (YEARS.start, self.0);
        while left >= days_of_year(year) {
            left -= days_of_year(year);
            year += 1;
        }
        let mut month = 1;
        while left >= days_of_month(year, month) {
            left -= days_of_month(year, month);
            month += 1;
        }
        (year, month, left + 1)
    }
}

impl UtcOffset {
    /// Returns the offset of local time that is `seconds` ahead of UTC; behind it if negative.
    #[must_use]
    pub fn from_seconds(seconds: i32) -> UtcOffset {
        UtcOffset(seconds)
    }
}

/// Parses `text` as a number of exactly `count` digits.
fn digits(text: &str, count: usize) -> Option<u32> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

impl FromStr for Date {
    type Err = String;

    fn from_str(text: &str) -> Result<Date, String> {
        let mut parts = text.split('-');
        let mut part = |count| parts.next().and_then(|part| digits(part, count));
        let date = (part(4), part(2), part(2));
        let (date, rest) = (date, parts.next());
        match (date, rest) {
            ((Some(year), Some(month), Some(day)), None) => Date::new(year, month, day),
            _ => None,
        }
        .ok_or_else(|| format!("{text:?} is no date: want YYYY-MM-DD from 1970 to 2199"))
    }
}

impl FromStr for TimeOfDay {
    type Err = String;

    fn from_str(text: &str) -> Result<TimeOfDay, String> {
        let parts: Option<Vec<u32>> = text.split(':').map(|part| digits(part, 2)).collect();
        let (hour, minute, second) = match parts.as_deref() {
            Some(&[hour, minute]) => (hour, minute, 0),
            Some(&[hour, minute, second]) => (hour, minute, second),
            _ => (99, 0, 0),
        };
        if hour > 23 || minute > 59 || second > 59 {
            return Err(format!("{text:?} is no time of day: want HH:MM or HH:MM:SS"));
        }
        Ok(TimeOfDay(hour * 3_600 + minute * 60 + second))
    }
}

impl FromStr for UtcOffset {
    type Err = String;

    fn from_str(text: &str) -> Result<UtcOffset, String> {
        let wrong = || format!("{text:?} is no offset: want Z, +HH:MM or -HH:MM up to 14 hours");
        if text == "Z" {
            return Ok(UtcOffset(0));
        }
        let (sign, time) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
            (Some(time), _) => (1, time),
            (_, Some(time)) => (-1, time),
            _ => return Err(wrong()),
        };
        let is_short = time.len() == 5;
        let time: TimeOfDay = time.parse().map_err(|_| wrong())?;
        let seconds = i32::try_from(time.0).expect("a day has fewer seconds");
        if !is_short || seconds > 14 * 3_600 {
            return Err(wrong());
        }
        Ok(UtcOffset(sign * seconds))
    }
}

macro_rules! from_text {
    ($($name:ident)*) => {$(
        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<$name, String> {
                text.parse()
            }
        }
    )*};
}

from_text!(Date TimeOfDay UtcOffset);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.year_month_day();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}:{:02}", self.0 / 3_600, self.0 / 60 % 60, self.0 % 60)
    }
}

impl fmt::Display for UtcOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { '-' } else { '+' };
        let seconds = self.0.unsigned_abs();
        write!(f, "{sign}{:02}:{:02}", seconds / 3_600, seconds / 60 % 60)?;
        if seconds.is_multiple_of(60) { Ok(()) } else { write!(f, ":{:02}", seconds % 60) }
    }
}

/// Parses a moment: `2026-11-23T08:50:00Z`, an offset instead of the Z, or a time after `now`:
/// `+90s`, `+10m`, `+2h`.
///
/// # Errors
/// A message with the expected form.
pub fn parse_moment(text: &str, now: Nanos) -> Result<Nanos, String> {
    let wrong = || {
        format!("{text:?} is no moment: want 2026-11-23T08:50:00Z, an offset for Z, or +90s, +10m")
    };
    if let Some(later) = text.strip_prefix('+') {
        let unit = later.chars().next_back().ok_or_else(wrong)?;
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            _ => return Err(wrong()),
        };
        let count: u64 = later[..later.len() - 1].parse().map_err(|_| wrong())?;
        let span = count.checked_mul(seconds * SECOND_NS).ok_or_else(wrong)?;
        return now.0.checked_add(span).map(Nanos).ok_or_else(wrong);
    }
    let (date, rest) = text.split_once('T').ok_or_else(wrong)?;
    let sign = rest.find(['Z', '+', '-']).ok_or_else(wrong)?;
    let (time, offset) = rest.split_at(sign);
    let parsed = (date.parse::<Date>(), time.parse::<TimeOfDay>(), offset.parse::<UtcOffset>());
    let (Ok(date), Ok(time), Ok(offset)) = parsed else { return Err(wrong()) };
    date.moment(time, offset).ok_or_else(wrong)
}

/// Formats a moment in UTC, to the second.
#[must_use]
pub fn utc(moment: Nanos) -> String {
    format!("{}Z", date_and_time(moment, UtcOffset::default()))
}

/// Formats a moment in local time with its offset from UTC, to the second. Local time begins at
/// 1970-01-01.
#[must_use]
pub fn local(moment: Nanos, offset: UtcOffset) -> String {
    format!("{}{offset}", date_and_time(moment, offset))
}

fn date_and_time(moment: Nanos, offset: UtcOffset) -> String {
    let seconds = i64::try_from(moment.0 / SECOND_NS).expect("2^64 ns are 2^34 s");
    let second = (seconds + i64::from(offset.0)).rem_euclid(DAY_S);
    let time = TimeOfDay(u32::try_from(second).expect("a day has fewer seconds"));
    format!("{}T{time}", Date::at(moment, offset))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn dates_read_back_and_follow_each_other(day in 0u32..80_000) {
            let date = Date(day);
            prop_assert_eq!(date.to_string().parse::<Date>(), Ok(date));
            prop_assert_eq!(date.plus(1).weekday(), (date.weekday() + 1) % 7);
            prop_assert!(date.to_string() < date.plus(1).to_string());
            prop_assert_eq!(date.plus(1).minus(1), date);
        }

        #[test]
        fn moments_read_back(second in 0u64..7_000_000_000, offset in -50_400i32..=50_400) {
            let moment = Nanos(second * SECOND_NS);
            prop_assert_eq!(parse_moment(&utc(moment), Nanos(0)), Ok(moment));
            let offset = UtcOffset(offset);
            let local = (second as i64 + i64::from(offset.0)).rem_euclid(DAY_S);
            let time = TimeOfDay(local as u32);
            if second > 100_000 {
                prop_assert_eq!(Date::at(moment, offset).moment(time, offset), Some(moment));
                let (text, minute) = (super::local(moment, offset), UtcOffset(offset.0 / 60 * 60));
                prop_assert_eq!(&text, &format!("{}T{time}{offset}", Date::at(moment, offset)));
                let text = super::local(moment, minute);
                prop_assert_eq!(parse_moment(&text, Nanos(0)), Ok(moment), "{}", text);
            }
        }
    }

    #[test]
    fn known_days_are_where_they_are() {
        let cases = [
            ("1970-01-01", 0, 3),
            ("2000-02-29", 11_016, 1),
            ("2026-11-21", 20_778, 5),
            ("2100-03-01", 47_541, 0),
        ];
        for (text, day, weekday) in cases {
            let date: Date = text.parse().unwrap();
            assert_eq!((date, date.weekday()), (Date(day), weekday), "{text}");
        }
    }

    #[test]
    fn moments_have_a_date_a_time_and_an_offset_or_count_from_now() {
        let second = Nanos(SECOND_NS);
        let cases = [
            ("1970-01-01T00:00:01Z", second),
            ("1970-01-01T01:00:01+01:00", second),
            ("1969-12-31T23:30:01-00:30", Nanos(0)),
            ("+2m", Nanos(121 * SECOND_NS)),
        ];
        for (text, want) in cases {
            let got = parse_moment(text, second);
            assert!(got == Ok(want) || text.starts_with("1969") && got.is_err(), "{text}: {got:?}");
        }
        for text in ["", "now", "+", "+5", "+5d", "+é", "2026-11-23", "2026-11-23T08:50", "T"] {
            assert!(parse_moment(text, second).is_err(), "{text:?}");
        }
    }

    #[test]
    fn offsets_are_written_as_they_are_read() {
        for text in ["+00:00", "+01:00", "-05:00", "+05:45", "-09:30", "+14:00"] {
            assert_eq!(text.parse::<UtcOffset>().unwrap().to_string(), text);
        }
        // Liberia's until 1972.
        assert_eq!(UtcOffset::from_seconds(-2_670).to_string(), "-00:44:30");
        assert_eq!(UtcOffset::from_seconds(-18_000), "-05:00".parse().unwrap());
    }

    #[test]
    fn nonsense_is_no_date_time_or_offset() {
        for text in ["", "2026-02-29", "2026-13-01", "26-1-1", "2026-01-01-01", "1969-12-31"] {
            assert!(text.parse::<Date>().is_err(), "{text:?}");
        }
        for text in ["", "24:00", "9:00", "09:60", "09", "09:00:00:00", "ab:cd"] {
            assert!(text.parse::<TimeOfDay>().is_err(), "{text:?}");
        }
        for text in ["", "01:00", "+1:00", "+15:00", "+01:00:00", "z"] {
            assert!(text.parse::<UtcOffset>().is_err(), "{text:?}");
        }
    }
}
