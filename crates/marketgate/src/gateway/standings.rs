//! The sessions of a flush thread: their accounts in the second stage of conflation, their
//! connections and the rates of their requests.
//!
//! A session's connections share its account and its rate. Both outlive its last connection until
//! its slots are released and its rate is whole again, so that a session that reconnects gets no
//! more than one that stays.

use std::collections::BTreeMap;

use weir_market::conflate::{AccountId, Fanout};
use weir_types::{Nanos, SessionId};

const SECOND: u64 = 1_000_000_000;
/// The steps that a session's earlier requests may still cause when the next one is taken.
const BACKLOG_MAX: u64 = 1_024;

/// The limits of sessions at a flush thread.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// The slots of all sessions' subscriptions.
    pub slots_max: u64,
    /// The slots of one session's subscriptions.
    pub session_slots_max: u64,
    /// The connections of one session.
    pub session_connections_max: u32,
    /// The requests of one session in a second, at least one.
    pub session_requests_per_s: u32,
}

/// The rate of a session's requests: it may spend a second's requests at once.
#[derive(Clone, Copy, Debug, Default)]
struct RequestRate {
    /// The time at which all requests so far are paid for.
    paid_at: Nanos,
}

impl RequestRate {
    fn may_take(self, per_s: u32, now: Nanos) -> bool {
        self.paid_at.since(now).0 + SECOND / u64::from(per_s) <= SECOND
    }

    fn take(&mut self, per_s: u32, now: Nanos) {
        self.paid_at = Nanos(self.paid_at.max(now).0 + SECOND / u64::from(per_s));
    }
}

#[derive(Clone, Copy, Debug)]
struct Standing {
    account: AccountId,
    connection_count: u32,
    rate: RequestRate,
}

/// All sessions that are logged on, or were a moment ago.
#[derive(Debug)]
pub(super) struct Standings {
    limits: SessionLimits,
    by_session: BTreeMap<SessionId, Standing>,
}

impl Standings {
    pub(super) fn new(limits: SessionLimits) -> Standings {
        Standings { limits, by_session: BTreeMap::new() }
    }

    pub(super) fn limits(&self) -> &SessionLimits {
        &self.limits
    }

    /// Notes a connection of a session; returns the session's account.
    pub(super) fn enter(&mut self, session_id: SessionId, fanout: &mut Fanout) -> AccountId {
        let slots_max = self.limits.session_slots_max;
        let standing = self.by_session.entry(session_id).or_insert_with(|| Standing {
            account: fanout.add_account(Some(slots_max)),
            connection_count: 0,
            rate: RequestRate::default(),
        });
        standing.connection_count += 1;
        standing.account
    }

    /// Notes the end of a session's connection.
    pub(super) fn leave(&mut self, session_id: SessionId) {
        if let Some(standing) = self.by_session.get_mut(&session_id) {
            standing.connection_count -= 1;
        }
    }

    /// Returns true when a session's next request may be taken: it is within its rate, and its
    /// earlier requests have been carried out but for a bounded part.
    pub(super) fn may_request(&self, id: SessionId, fanout: &Fanout, now: Nanos) -> bool {
        let Some(standing) = self.by_session.get(&id) else { return false };
        let progress = fanout.account(standing.account).unwrap_or_default();
        let per_s = self.limits.session_requests_per_s;
        progress.backlog < BACKLOG_MAX && standing.rate.may_take(per_s, now)
    }

    /// Notes that a session's request was taken.
    pub(super) fn note_request(&mut self, id: SessionId, now: Nanos) {
        if let Some(standing) = self.by_session.get_mut(&id) {
            standing.rate.take(self.limits.session_requests_per_s, now);
        }
    }

    /// Returns a session's account and the number of its connections.
    pub(super) fn of(&self, id: SessionId) -> Option<(AccountId, u32)> {
        let standing = self.by_session.get(&id)?;
        Some((standing.account, standing.connection_count))
    }

    /// Forgets the sessions that are not logged on, have no slots and have paid for their requests.
    pub(super) fn forget_gone(&mut self, fanout: &mut Fanout, now: Nanos) {
        self.by_session.retain(|_, standing| {
            let progress = fanout.account(standing.account).unwrap_or_default();
            let is_over = standing.connection_count == 0
                && progress.slots == 0
                && progress.backlog == 0
                && standing.rate.paid_at <= now;
            if is_over {
                fanout.remove_account(standing.account);
            }
            !is_over
        });
    }
}

#[cfg(test)]
mod tests {
    use weir_market::conflate::{Content, Pattern, Subscription};
    use weir_types::InstrumentId;

    use super::*;

    const ID: SessionId = SessionId(7);
    const LIMITS: SessionLimits = SessionLimits {
        slots_max: 100,
        session_slots_max: 10,
        session_connections_max: 2,
        session_requests_per_s: 4,
    };

    /// Takes requests until one has to wait; returns their number.
    fn taken(standings: &mut Standings, fanout: &Fanout, now: Nanos) -> usize {
        let mut count = 0;
        while count < 100 && standings.may_request(ID, fanout, now) {
            standings.note_request(ID, now);
            count += 1;
        }
        count
    }

    #[test]
    fn a_session_has_a_seconds_requests_at_once_and_then_its_rate_over_all_connections() {
        let mut fanout = Fanout::new(InstrumentId(10), 8);
        let mut standings = Standings::new(LIMITS);
        let account = standings.enter(ID, &mut fanout);
        assert_eq!(standings.enter(ID, &mut fanout), account);
        assert_eq!(standings.of(ID), Some((account, 2)));
        let at = |quarters: u64| Nanos(quarters * SECOND / 4);
        let counts = [0, 0, 1, 3, 100].map(|quarters| taken(&mut standings, &fanout, at(quarters)));
        assert_eq!(counts, [4, 0, 1, 2, 4]);
    }

    #[test]
    fn a_session_that_reconnects_has_spent_its_requests_and_keeps_its_account() {
        let mut fanout = Fanout::new(InstrumentId(10), 8);
        let mut standings = Standings::new(LIMITS);
        let account = standings.enter(ID, &mut fanout);
        let subscriber = fanout.add_subscriber_of(account);
        let terms = Subscription::new(Pattern::parse(b"A").expect("a symbol"), Content::Bbo);
        fanout.subscribe(Nanos(0), subscriber, &terms).expect("it may");
        assert_eq!(taken(&mut standings, &fanout, Nanos(0)), 4);
        fanout.remove_subscriber(subscriber);
        standings.leave(ID);
        standings.forget_gone(&mut fanout, Nanos(2 * SECOND));
        assert_eq!(standings.of(ID), Some((account, 0)), "its slot is not released yet");
        fanout.settle(Nanos(0));
        standings.forget_gone(&mut fanout, Nanos(SECOND / 2));
        assert_eq!(standings.enter(ID, &mut fanout), account, "it has not paid yet");
        assert_eq!(taken(&mut standings, &fanout, Nanos(SECOND / 2)), 2);
        standings.leave(ID);
        standings.forget_gone(&mut fanout, Nanos(3 * SECOND));
        assert_eq!(standings.of(ID), None);
    }
}
