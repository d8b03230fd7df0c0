//! Sessions: which day a time is of, and what a session is called.
//!
//! A session is a day of an epoch of the log. Its name says both, and by which rules messages were
//! made, so that one name and number never stand for two different messages.

use weir_types::{Epoch, Nanos};

use crate::feed::moldudp64::{SESSION_LEN, Session};

/// The version of the rules by which events become messages: raised with every change of what is
/// said of an event, since a session that goes on over a new program's start would say other bytes
/// under old numbers.
pub const MAPPING: u8 = 1;

const HOUR: u64 = 3_600_000_000_000;
const DAY: u64 = 24 * HOUR;

/// When days begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    begins_hour: u8,
}

impl Calendar {
    /// Days that begin at this hour of UTC, 0 to 23; beyond, it is taken modulo 24.
    #[must_use]
    pub fn new(begins_hour: u8) -> Calendar {
        Calendar { begins_hour: begins_hour % 24 }
    }

    /// The beginning of the day that a time is of.
    #[must_use]
    pub fn midnight(self, time: Nanos) -> Nanos {
        let offset = u64::from(self.begins_hour) * HOUR;
        // What is before the first such hour of all is of a first, shorter day.
        time.0.checked_sub(offset).map_or(Nanos(0), |since| Nanos(since - since % DAY + offset))
    }
}

/// The name of the session of a day: the mapping, the hour, the day, the epoch.
#[must_use]
pub fn session_name(calendar: Calendar, midnight: Nanos, epoch: Epoch) -> Session {
    let mut name = [b'0'; SESSION_LEN];
    put_base36(u64::from(MAPPING), &mut name[..1]);
    put_base36(u64::from(calendar.begins_hour), &mut name[1..2]);
    put_base36(midnight.0 / DAY, &mut name[2..4]);
    put_base36(u64::from(epoch.0), &mut name[4..]);
    Session(name)
}

/// The last digits of a number in base 36.
fn put_base36(mut number: u64, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[(number % 36) as usize];
        number /= 36;
    }
}
