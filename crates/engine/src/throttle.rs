//! The rate limit on a session's new orders and replaces: the generic cell rate algorithm of ITU-T
//! I.371, by log time, with a burst of one second's worth.

use weir_types::{Nanos, Reason};

use crate::plant::{self, Plant};
use crate::session::Session;

pub(crate) const RATE_PERIOD: u64 = 1_000_000_000;

impl Session {
    /// Accepts a request at `now`, or refuses it as exceeding the rate.
    #[inline]
    pub(crate) fn throttle(&mut self, now: Nanos) -> Result<(), Reason> {
        if self.order_rate_max == 0 {
            return Ok(());
        }
        let interval = RATE_PERIOD / u64::from(self.order_rate_max);
        // Saturates at the end of the time range, 585 years after the epoch.
        let arrival = self.arrival_time.0.max(now.0).saturating_add(interval);
        if arrival > now.0.saturating_add(RATE_PERIOD) {
            if plant::is(Plant::ThrottleChargesRefused) {
                self.arrival_time = Nanos(arrival);
            }
            return Err(Reason::Throttled);
        }
        self.arrival_time = Nanos(arrival);
        Ok(())
    }
}
