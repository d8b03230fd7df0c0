//! Sessions: the trading day of a time, and the name of a session.
//!
//! A session is one day in one epoch of the log. Its name holds both, and the version of the rules
//! that made its messages, so that one name and sequence number never identify two different
//! messages.

use weir_types::{Epoch, Nanos};

use crate::moldudp64::{MoldSession, SESSION_LEN};

/// The version of the rules that turn events into messages. Raise it with every change of the
/// messages of an event: otherwise a session that continues after a program's restart would have
/// other bytes under old numbers.
pub const MAPPING: u8 = 3;

const HOUR: u64 = 3_600_000_000_000;
const DAY: u64 = 24 * HOUR;

/// The rule for the start of days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    begins_hour: u8,
}

impl Calendar {
    /// Creates a calendar whose days begin at this hour of UTC, 0 to 23; larger values wrap modulo
    /// 24.
    #[must_use]
    pub fn new(begins_hour: u8) -> Calendar {
        Calendar { begins_hour: begins_hour % 24 }
    }

    /// Returns the hour of UTC at which its days begin, 0 to 23.
    #[must_use]
    pub fn begins_hour(self) -> u8 {
        self.begins_hour
    }

    /// Returns the beginning of the day of a time.
    #[must_use]
    pub fn midnight(self, time: Nanos) -> Nanos {
        let offset = u64::from(self.begins_hour) * HOUR;
        // Times before the first such hour belong to a first, shorter day.
        time.0.checked_sub(offset).map_or(Nanos(0), |since| Nanos(since - since % DAY + offset))
    }
}

/// Returns the name of a day's session: the mapping, the hour, the day, the epoch.
#[must_use]
pub fn session_name(calendar: Calendar, midnight: Nanos, epoch: Epoch) -> MoldSession {
    let mut name = [b'0'; SESSION_LEN];
    put_base36(u64::from(MAPPING), &mut name[..1]);
    put_base36(u64::from(calendar.begins_hour), &mut name[1..2]);
    put_base36(midnight.0 / DAY, &mut name[2..4]);
    put_base36(u64::from(epoch.0), &mut name[4..]);
    MoldSession(name)
}

/// The contents of a session's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionName {
    /// The version of the rules that made its messages; [`MAPPING`] is the one known here.
    pub mapping: u8,
    /// The hour of UTC at which its day begins, 0 to 23.
    pub begins_hour: u8,
    /// The number of its day since 1970, modulo 1,296.
    pub day: u16,
    /// The epoch of the log, modulo 36^6.
    pub epoch: u32,
}

impl SessionName {
    /// Parses a name; `None` for one that [`session_name`] does not produce.
    #[must_use]
    pub fn read(session: MoldSession) -> Option<SessionName> {
        let name = session.0;
        let begins_hour = u8::try_from(base36(&name[1..2])?).ok().filter(|hour| *hour < 24)?;
        Some(SessionName {
            mapping: u8::try_from(base36(&name[..1])?).ok()?,
            begins_hour,
            day: u16::try_from(base36(&name[2..4])?).ok()?,
            epoch: u32::try_from(base36(&name[4..])?).ok()?,
        })
    }

    /// Returns the beginning of its day, since the Unix epoch: the possible day nearest to `near`,
    /// a time at which the session was received. Days repeat after three and a half years.
    #[must_use]
    pub fn midnight(self, near: Nanos) -> Nanos {
        let offset = u64::from(self.begins_hour) * HOUR;
        let today = near.0.saturating_sub(offset) / DAY;
        let (day, half) = (u64::from(self.day) % DAYS, DAYS / 2);
        // The days from half a cycle before today form a whole cycle, which contains the day.
        let first = today.saturating_sub(half);
        let ahead = (day + DAYS - first % DAYS) % DAYS;
        Nanos((first + ahead).saturating_mul(DAY).saturating_add(offset))
    }
}

/// Days that a name distinguishes: two digits in base 36.
const DAYS: u64 = 36 * 36;

/// Returns the number of at most twelve digits in base 36; `None` for any other character.
fn base36(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number: u64, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'A'..=b'Z' => digit - b'A' + 10,
            _ => return None,
        };
        number.checked_mul(36)?.checked_add(u64::from(digit))
    })
}

/// Writes the last digits of a number in base 36.
fn put_base36(mut number: u64, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[(number % 36) as usize];
        number /= 36;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_its_hour_and_a_session_is_named_for_both() {
        const HOUR: u64 = 3_600_000_000_000;
        for (hour, time, midnight) in [
            (0, 25 * HOUR, 24 * HOUR),
            (0, 24 * HOUR, 24 * HOUR),
            (22, 46 * HOUR - 1, 22 * HOUR),
            (22, 46 * HOUR, 46 * HOUR),
            (22, 5, 0),
        ] {
            let found = Calendar::new(hour).midnight(Nanos(time));
            assert_eq!(found, Nanos(midnight), "{hour} {time}");
        }
        let name = |hour, midnight, epoch| {
            String::from_utf8(session_name(Calendar::new(hour), midnight, Epoch(epoch)).0.to_vec())
        };
        let day = Nanos(37 * 24 * HOUR);
        assert_eq!(name(0, day, 36).as_deref(), Ok("3011000010"));
        assert_eq!(name(23, day, u32::MAX).as_deref(), Ok("3N11Z141Z3"));
    }

    #[test]
    fn a_sessions_name_says_its_day_again_to_who_hears_it_near_the_day() {
        const DAY: u64 = 86_400_000_000_000;
        for (hour, day, epoch) in
            [(0, 20_416, 1), (22, 20_415, 36), (23, 1_296, u32::MAX), (5, 700, 0)]
        {
            let calendar = Calendar::new(hour);
            let midnight = Nanos(day * DAY + u64::from(hour) * 3_600_000_000_000);
            assert_eq!(calendar.midnight(midnight), midnight);
            let name = SessionName::read(session_name(calendar, midnight, Epoch(epoch)));
            let name = name.expect("it is a name");
            let want = ((MAPPING, hour), day % 1_296, u64::from(epoch) % 36u64.pow(6));
            let found = (name.mapping, name.begins_hour);
            assert_eq!((found, u64::from(name.day), u64::from(name.epoch)), want);
            for near in [midnight.0, midnight.0 + 600 * DAY, midnight.0.saturating_sub(600 * DAY)] {
                assert_eq!(name.midnight(Nanos(near)), midnight, "{name:?} near {near}");
            }
        }
        for text in ["1011 00010", "1Z11000010", "10110a0010", "          "] {
            let session = MoldSession::new(text).expect("ten letters");
            assert_eq!(SessionName::read(session), None, "{text}");
        }
    }
}
