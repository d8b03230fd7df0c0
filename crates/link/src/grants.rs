//! The control partition's grants: the gateway that may bind each session.
//!
//! | the session's holder | the claim | answer |
//! | --- | --- | --- |
//! | none, or its link is down | any | granted |
//! | the gateway that claims | any | granted, with a later generation |
//! | another gateway | a takeover, by a newer connection, a second after the last one | granted |
//! | another gateway | else | `AlreadyLoggedOn` |
//!
//! A connection is newer if it was accepted after the holder's logon. Stamps are control's own: a
//! gateway returns the newest that it had heard when it accepted the client's connection.
//!
//! INVARIANT: generations only increase, also over starts.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::{Nanos, Reason, SessionId, Switch};

use crate::message::{ClaimSession, Seal};

/// The least time between two takeovers of a session.
const TAKEOVER_INTERVAL: Nanos = Nanos(1_000_000_000);
/// The bits of a generation that count the grants of one start.
const COUNT_BITS: u32 = 40;
/// The number that those of starts are below: a higher one has no place in a generation.
pub const STARTS_MAX: u64 = 1 << (64 - COUNT_BITS);

/// The permission of a gateway's process to bind a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The session.
    pub session_id: SessionId,
    /// The gateway's session.
    pub gateway: SessionId,
    /// The number of the gateway's process.
    pub incarnation: u64,
    /// The grant's generation.
    pub generation: u64,
    /// The seal over the rest.
    pub seal: Seal,
}

/// A gateway that claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// The gateway's session.
    pub gateway: SessionId,
    /// The number of its process.
    pub incarnation: u64,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    claimant: Claimant,
    generation: u64,
    granted_at: Nanos,
    taken_over_at: Option<Nanos>,
}

/// A claim, as control takes it.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// The gateway.
    pub from: Claimant,
    /// Its message.
    pub message: ClaimSession,
    /// The time by control's clock.
    pub at: Nanos,
}

/// A grant that takes the session from another gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The generation of the grant, still without a seal.
    pub generation: u64,
    /// The gateway that has lost the session.
    pub taken_from: Option<Claimant>,
}

/// The holders of all sessions.
#[derive(Debug)]
pub struct Grants {
    holders: BTreeMap<SessionId, Holder>,
    /// The newest generation of each session that this start has granted or restored.
    newest: BTreeMap<SessionId, u64>,
    next_generation: u64,
}

impl Grants {
    /// Returns the grants of a start of control that has this number, which no start had before.
    ///
    /// # Panics
    /// When the number is not below [`STARTS_MAX`].
    #[must_use]
    pub fn of_start(start: u64) -> Grants {
        assert!(start < STARTS_MAX, "the number of a start has {} bits", 64 - COUNT_BITS);
        Grants {
            holders: BTreeMap::new(),
            newest: BTreeMap::new(),
            next_generation: (start << COUNT_BITS) + 1,
        }
    }

    /// Returns the generation of the next grant: all earlier ones are below it.
    #[must_use]
    pub fn next_generation(&self) -> u64 {
        self.next_generation
    }

    /// Grants a session, or refuses it with the reason. `is_up` tells if a gateway's link is open.
    ///
    /// # Errors
    /// [`Reason::AlreadyLoggedOn`].
    pub fn claim(
        &mut self,
        claim: &Claim,
        is_up: impl Fn(Claimant) -> bool,
    ) -> Result<Granted, Reason> {
        let Claim { from, message: claim, at: now } = *claim;
        let id = claim.bound_session_id;
        let holder = self.holders.get(&id).copied().filter(|one| is_up(one.claimant));
        let elsewhere = holder.filter(|one| one.claimant != from);
        if let Some(holder) = elsewhere {
            let last = holder.taken_over_at;
            let is_pause_over = last.is_none_or(|at| now.since(at) >= TAKEOVER_INTERVAL);
            let is_newer = claim.heard > holder.granted_at;
            if claim.takeover == Switch::Off || !is_newer || !is_pause_over {
                return Err(Reason::AlreadyLoggedOn);
            }
        }
        let generation = self.next_generation;
        self.next_generation += 1;
        let taken_over_at = match elsewhere {
            Some(_) => Some(now),
            None => holder.and_then(|one| one.taken_over_at),
        };
        let granted = Holder { claimant: from, generation, granted_at: now, taken_over_at };
        self.holders.insert(id, granted);
        self.newest.insert(id, generation);
        Ok(Granted { generation, taken_from: elsewhere.map(|one| one.claimant) })
    }

    /// Restores a grant that a gateway holds since before this start; its seal is good. Later
    /// generations are above it, also where a backup has brought an earlier start's number back.
    pub fn restore(&mut self, grant: &Grant, now: Nanos) {
        self.next_generation = self.next_generation.max(grant.generation.saturating_add(1));
        let Grant { session_id, gateway, incarnation, generation, .. } = *grant;
        let claimant = Claimant { gateway, incarnation };
        let restored = Holder { claimant, generation, granted_at: now, taken_over_at: None };
        // An older one than one that was released is none any more.
        let newest = self.newest.entry(session_id).or_insert(0);
        let is_known =
            self.holders.get(&session_id).is_some_and(|one| one.generation >= generation);
        if generation >= *newest && !is_known {
            *newest = generation;
            self.holders.insert(session_id, restored);
        }
    }

    /// The session has ended at its gateway. The generation is the newest that the gateway was
    /// granted, and may be above the one that it named after a start of control.
    pub fn release(&mut self, by: Claimant, session_id: SessionId, generation: u64) {
        let is_its = |one: &Holder| one.claimant == by && one.generation <= generation;
        if self.holders.get(&session_id).is_some_and(is_its) {
            self.holders.remove(&session_id);
        }
    }

    /// A gateway holds these sessions and no others.
    pub fn keep_named(&mut self, by: Claimant, named: &BTreeSet<SessionId>) {
        self.holders.retain(|id, holder| holder.claimant != by || named.contains(id));
    }

    /// Returns the holder of a session.
    #[must_use]
    pub fn holder(&self, session_id: SessionId) -> Option<Claimant> {
        self.holders.get(&session_id).map(|one| one.claimant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const SESSION: SessionId = SessionId(7);

    fn gateway(id: u32) -> Claimant {
        Claimant { gateway: SessionId(id), incarnation: u64::from(id) }
    }

    fn claim(by: u32, heard: u64, takeover: Switch, at: u64) -> Claim {
        let (session_id, bound_session_id) = (SessionId(by), SESSION);
        let message = ClaimSession { heard: Nanos(heard), session_id, bound_session_id, takeover };
        Claim { from: gateway(by), message, at: Nanos(at) }
    }

    #[test]
    fn a_session_is_granted_by_the_table() {
        let (on, off) = (Switch::On, Switch::Off);
        let up = |_| true;
        for (heard, takeover, is_granted) in [
            (0, off, false),
            (9 * SECOND, off, false),
            (5 * SECOND, on, false),
            (5 * SECOND + 1, on, true),
        ] {
            let mut grants = Grants::of_start(1);
            let first = grants.claim(&claim(1, 0, off, 5 * SECOND), up).expect("it is free");
            let second = grants.claim(&claim(2, heard, takeover, 9 * SECOND), up);
            let generation = first.generation + 1;
            let want = Granted { generation, taken_from: Some(gateway(1)) };
            let want = if is_granted { Ok(want) } else { Err(Reason::AlreadyLoggedOn) };
            assert_eq!(second, want, "{heard} {takeover:?}");
        }
    }

    #[test]
    fn a_holder_without_a_link_holds_nothing_and_the_own_gateway_may_claim_again() {
        let mut grants = Grants::of_start(1);
        let off = |by, at| claim(by, 0, Switch::Off, at);
        let first = grants.claim(&off(1, 1), |_| true).expect("it is free");
        let again = grants.claim(&off(1, 2), |_| true).expect("it is its own");
        assert!(again.generation > first.generation && again.taken_from.is_none());
        let other = grants.claim(&off(2, 3), |_| false).expect("its holder is away");
        assert_eq!((other.taken_from, grants.holder(SESSION)), (None, Some(gateway(2))));
        grants.release(gateway(1), SESSION, first.generation);
        grants.release(gateway(1), SESSION, other.generation);
        assert_eq!(grants.holder(SESSION), Some(gateway(2)), "an old grant ends nothing");
    }

    /// The session stayed with a gateway at which it had ended.
    #[test]
    fn a_release_by_the_newest_generation_ends_the_one_that_was_named() {
        let (session_id, seal) = (SESSION, Seal::NONE);
        let Claimant { gateway, incarnation } = gateway(1);
        let mut grants = Grants::of_start(2);
        grants.restore(&Grant { session_id, gateway, incarnation, generation: 5, seal }, Nanos(2));
        grants.release(self::gateway(1), SESSION, 4);
        assert_eq!(grants.holder(SESSION), Some(self::gateway(1)));
        grants.release(self::gateway(1), SESSION, 9);
        assert_eq!(grants.holder(SESSION), None);
    }

    #[test]
    fn two_takeovers_are_a_second_apart() {
        let mut grants = Grants::of_start(1);
        let mut take = |by, heard, at| grants.claim(&claim(by, heard, Switch::On, at), |_| true);
        assert!(take(1, 0, SECOND).is_ok());
        assert!(take(2, SECOND + 1, 2 * SECOND).is_ok());
        let soon = take(1, 2 * SECOND + 1, 3 * SECOND - 1);
        assert_eq!(soon, Err(Reason::AlreadyLoggedOn));
        assert!(take(1, 2 * SECOND + 1, 3 * SECOND).is_ok());
    }

    /// A backup of the number of starts was restored: sessions that gateways held could be bound by
    /// no later grant.
    #[test]
    fn a_grant_is_above_all_that_gateways_have_named() {
        let (session_id, seal) = (SESSION, Seal::NONE);
        let Claimant { gateway, incarnation } = gateway(1);
        let mut grants = Grants::of_start(2);
        let generation = (7 << COUNT_BITS) + 9;
        grants.restore(&Grant { session_id, gateway, incarnation, generation, seal }, Nanos(2));
        let later = grants.claim(&claim(2, 0, Switch::Off, 3), |_| false).expect("it is free");
        assert!(later.generation > generation);
    }

    #[test]
    fn generations_increase_over_starts() {
        let off = |by| claim(by, 0, Switch::Off, 1);
        let old = Grants::of_start(1).claim(&off(1), |_| true).expect("it is free");
        let mut after = Grants::of_start(2);
        let new = after.claim(&off(2), |_| true).expect("it is free");
        assert!(new.generation > old.generation);
        let (session_id, generation, seal) = (SESSION, old.generation, Seal::NONE);
        let Claimant { gateway, incarnation } = gateway(1);
        after.restore(&Grant { session_id, gateway, incarnation, generation, seal }, Nanos(2));
        assert_eq!(after.holder(SESSION), Some(self::gateway(2)), "a later grant stands");
        after.release(self::gateway(2), SESSION, new.generation);
        after.restore(&Grant { session_id, gateway, incarnation, generation, seal }, Nanos(3));
        assert_eq!(after.holder(SESSION), None, "nor does it come back behind its end");
    }
}
