//! Sessions: the trading day of a time, and the name of a session.
//!
//! A session is one day in one epoch of a partition's log. Its name holds all three, and the
//! version of the rules that made its messages, so that one name and sequence number never identify
//! two different messages: a server of another partition's channel refuses the name.

use weir_types::{Epoch, Nanos, PartitionId};

use crate::moldudp64::{MoldSession, SESSION_LEN};

/// The version of the rules that turn events into messages. Raise it with every change of the
/// messages of an event: otherwise a session that continues after a program's restart would have
/// other bytes under old numbers.
pub const MAPPING: u8 = 4;
/// The first version whose names tell the partition; those before had only the epoch there.
const MAPPING_WITH_PARTITION: u8 = 4;
/// Partitions that a name distinguishes: all.
const PARTITIONS: u64 = 1 << 16;
/// Epochs that a name with a partition distinguishes: as many as six digits in base 36 hold.
const EPOCHS: u64 = 36_u64.pow(6) / PARTITIONS;

const HOUR: u64 = 3_600_000_000_000;
const DAY: u64 = 24 * HOUR;

/// The sessions of a partition: the rule for the start of days, and the partition in their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    partition_id: PartitionId,
    begins_hour: u8,
}

impl Calendar {
    /// Creates a partition's calendar whose days begin at this hour of UTC, 0 to 23; larger values
    /// wrap modulo 24.
    #[must_use]
    pub fn new(partition_id: PartitionId, begins_hour: u8) -> Calendar {
        Calendar { partition_id, begins_hour: begins_hour % 24 }
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

/// Returns the name of a day's session: the mapping, the hour, the day, the epoch with the
/// partition.
#[must_use]
pub fn session_name(calendar: Calendar, midnight: Nanos, epoch: Epoch) -> MoldSession {
    let mut name = [b'0'; SESSION_LEN];
    put_base36(u64::from(MAPPING), &mut name[..1]);
    put_base36(u64::from(calendar.begins_hour), &mut name[1..2]);
    put_base36(midnight.0 / DAY, &mut name[2..4]);
    let epoch = u64::from(epoch.0) % EPOCHS;
    put_base36(epoch * PARTITIONS + u64::from(calendar.partition_id.0), &mut name[4..]);
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
    /// The epoch of the log, modulo 33,215; before version 4 modulo 36^6.
    pub epoch: u32,
    /// The partition; none before version 4, whose names do not tell it.
    pub partition_id: PartitionId,
}

impl SessionName {
    /// Parses a name; `None` for one that [`session_name`] does not produce.
    #[must_use]
    pub fn read(session: MoldSession) -> Option<SessionName> {
        let name = session.0;
        let begins_hour = u8::try_from(base36(&name[1..2])?).ok().filter(|hour| *hour < 24)?;
        let mapping = u8::try_from(base36(&name[..1])?).ok()?;
        let number = base36(&name[4..])?;
        let (epoch, partition) = match mapping {
            ..MAPPING_WITH_PARTITION => (number, 0),
            _ => (number / PARTITIONS, number % PARTITIONS),
        };
        Some(SessionName {
            mapping,
            begins_hour,
            day: u16::try_from(base36(&name[2..4])?).ok()?,
            epoch: u32::try_from(epoch).ok()?,
            partition_id: PartitionId(u16::try_from(partition).ok()?),
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
            let found = Calendar::new(PartitionId(1), hour).midnight(Nanos(time));
            assert_eq!(found, Nanos(midnight), "{hour} {time}");
        }
        let name = |partition, hour, epoch| {
            let calendar = Calendar::new(PartitionId(partition), hour);
            let name = session_name(calendar, Nanos(37 * 24 * HOUR), Epoch(epoch));
            String::from_utf8(name.0.to_vec()).expect("digits")
        };
        assert_eq!(name(1, 0, 36), "401101EKG1");
        assert_eq!(name(2, 0, 36), "401101EKG2");
        assert_eq!(name(u16::MAX, 23, 33_214), "4N11ZZZWU7");
        assert_eq!(name(7, 23, 33_215), name(7, 23, 0), "it is modulo that");
    }

    #[test]
    fn names_of_versions_without_a_partition_are_read_as_before() {
        for (text, mapping, epoch) in [("1011000010", 1, 36), ("3N11Z141Z3", 3, 2_118_184_959)] {
            let name = SessionName::read(MoldSession::new(text).expect("ten letters"));
            let name = name.expect("it is a name");
            assert_eq!((name.mapping, name.day), (mapping, 37), "{text}");
            assert_eq!((u64::from(name.epoch), name.partition_id), (epoch, PartitionId::NONE));
        }
    }

    #[test]
    fn a_sessions_name_says_its_day_again_to_who_hears_it_near_the_day() {
        const DAY: u64 = 86_400_000_000_000;
        for (hour, day, epoch) in
            [(0, 20_416, 1), (22, 20_415, 36), (23, 1_296, u32::MAX), (5, 700, 0)]
        {
            let calendar = Calendar::new(PartitionId(7), hour);
            let midnight = Nanos(day * DAY + u64::from(hour) * 3_600_000_000_000);
            assert_eq!(calendar.midnight(midnight), midnight);
            let name = SessionName::read(session_name(calendar, midnight, Epoch(epoch)));
            let name = name.expect("it is a name");
            let want = ((MAPPING, 7, hour), day % 1_296, u64::from(epoch) % EPOCHS);
            let found = (name.mapping, name.partition_id.0, name.begins_hour);
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
