//! The times at which sessions' keys expire, by the node's wall clock.
//!
//! A gateway ends such sessions by its own clock. The partitions do not depend on that.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::{Nanos, Reason, SessionId, WallOffset};
use weir_wire::reference::{DefineSession, field_bit, is_change};

/// The expiries of all sessions whose key has one.
#[derive(Debug, Default)]
pub struct Expiries {
    by_session: BTreeMap<SessionId, Nanos>,
    by_time: BTreeSet<(Nanos, SessionId)>,
    wall: WallOffset,
    /// The wall clock at the last look: those up to then were taken.
    looked_at: Nanos,
    /// Sessions whose definition set an expiry of before the last look.
    late: BTreeSet<SessionId>,
}

impl Expiries {
    /// Notes a definition of a session.
    pub fn define(&mut self, d: &DefineSession) {
        let id = d.defined_session_id;
        let is_set = d.fields & field_bit::<DefineSession>("valid_until") != 0;
        if is_change(d.fields) && !is_set {
            return;
        }
        if let Some(before) = self.by_session.remove(&id) {
            self.by_time.remove(&(before, id));
        }
        self.late.remove(&id);
        let until = d.valid_until;
        if until != Nanos(0) {
            self.by_session.insert(id, until);
            self.by_time.insert((until, id));
            if until <= self.looked_at {
                self.late.insert(id);
            }
        }
    }

    /// Notes the distance of the wall clock.
    pub fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.wall = wall;
    }

    /// Returns the sessions whose key has expired since the last call. One of a clock that was set
    /// back expires again.
    pub fn take_due(&mut self, now: Nanos) -> BTreeSet<SessionId> {
        let wall = self.wall.wall_at(now);
        let mut due = std::mem::take(&mut self.late);
        due.retain(|id| self.by_session.get(id).is_some_and(|until| *until <= wall));
        if wall > self.looked_at {
            let first = (Nanos(self.looked_at.0 + 1), SessionId(0));
            let last = (wall, SessionId(u32::MAX));
            due.extend(self.by_time.range(first..=last).map(|(_, id)| *id));
        }
        self.looked_at = wall;
        due
    }

    /// Returns the reason for which a session gets no grant: its key has expired.
    #[must_use]
    pub fn refused(&self, id: SessionId, now: Nanos) -> Option<Reason> {
        let wall = self.wall.wall_at(now);
        let is_over = self.by_session.get(&id).is_some_and(|until| *until <= wall);
        is_over.then_some(Reason::KeyExpired)
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{Credential, CredentialKind, FirmId, RequestNo, Role};

    use super::*;

    const HOUR: u64 = 3_600_000_000_000;
    const BEGIN: u64 = 1_000 * HOUR;

    fn definition(id: u32, valid_until: u64, fields: u32) -> DefineSession {
        DefineSession {
            request_no: RequestNo(1),
            valid_until: Nanos(valid_until),
            credential: Credential([0; 32]),
            session_id: SessionId(1),
            defined_session_id: SessionId(id),
            firm_id: FirmId(3),
            order_rate_max: 0,
            in_flight_max: 0,
            role: Role::Trader,
            credential_kind: CredentialKind::ApiKey,
            live_orders_max: 0,
            fields,
        }
    }

    /// Returns the sessions that are due when the wall clock shows this hour.
    fn due(expiries: &mut Expiries, hour: u64) -> Vec<u32> {
        let now = Nanos(BEGIN);
        expiries.wall_clock_moved(WallOffset::between(now, Nanos(BEGIN + hour * HOUR)));
        expiries.take_due(now).into_iter().map(|id| id.0).collect()
    }

    #[test]
    fn each_expiry_is_told_once_and_again_by_a_clock_that_was_set_back() {
        let mut expiries = Expiries::default();
        for (id, hour) in [(1, 2), (2, 3), (3, 2)] {
            expiries.define(&definition(id, BEGIN + hour * HOUR, 0));
        }
        expiries.define(&definition(4, 0, 0));
        assert_eq!([0, 1, 2].map(|hour| due(&mut expiries, hour)), [vec![], vec![], vec![1, 3]]);
        assert!(due(&mut expiries, 2).is_empty());
        assert!(due(&mut expiries, 1).is_empty());
        assert_eq!([2, 9].map(|hour| due(&mut expiries, hour)), [vec![1, 3], vec![2]]);
        let now = Nanos(BEGIN);
        assert_eq!(expiries.refused(SessionId(2), now), Some(Reason::KeyExpired));
        assert_eq!(expiries.refused(SessionId(4), now), None);
        // Another definition gives a key more time, or takes it away at once.
        expiries.define(&definition(2, BEGIN + 20 * HOUR, 0));
        expiries.define(&definition(4, BEGIN, 0));
        assert_eq!(expiries.refused(SessionId(2), now), None);
        assert_eq!([9, 19, 20].map(|hour| due(&mut expiries, hour)), [vec![4], vec![], vec![2]]);
    }

    #[test]
    fn a_change_of_other_fields_keeps_the_expiry() {
        let mut expiries = Expiries::default();
        expiries.define(&definition(1, BEGIN + HOUR, 0));
        let role = field_bit::<DefineSession>("role");
        expiries.define(&DefineSession { fields: role, ..definition(1, 0, 0) });
        assert_eq!(due(&mut expiries, 1), [1]);
    }
}
