//! A partition that takes nothing: its ring stays full, or the importer's ring to it does.
//!
//! Requests wait for room on their connections, which are not read meanwhile: that is the
//! back-pressure, and the partition is usually back within a commit. But a connection has requests
//! for several partitions, and one whose disk stands would hold up those for the others. So in a
//! node with several trading partitions, requests to one that has taken nothing for
//! [`STANDS_AFTER`] are refused as `Overloaded`, which says that no log has them. A single
//! partition's wait on: there is nothing behind them that could go on.

use weir_types::Nanos;
use weir_wire::Request;

use super::plant::{self, Plant};
use super::{Gateway, Port};

/// The time without room after which a partition stands: 50 ms, longer than its cycles and the
/// syncs of a disk that works.
const STANDS_AFTER: u64 = 50_000_000;

/// The time since which a partition has had no room for what waits for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standstill {
    since: Option<Nanos>,
    /// The importer's place at that time, where its ring has room and definitions are awaited: a
    /// partition that takes definitions does not stand.
    handed: u64,
}

impl Standstill {
    /// Records that it had no room at `now`, and the importer's place.
    pub(super) fn found(&mut self, handed: u64, now: Nanos) {
        if self.since.is_none() || self.handed != handed {
            *self = Standstill { since: Some(now), handed };
        }
    }

    /// Records that it had room.
    pub(super) fn end(&mut self) {
        self.since = None;
    }

    fn is_long(&self, now: Nanos) -> bool {
        let stands = self.since.is_some_and(|since| now.since(since).0 >= STANDS_AFTER);
        stands && !plant::is(Plant::StandstillUnnoticed)
    }
}

impl Port {
    /// Returns true if its ring takes a request.
    pub(super) fn has_room(&self) -> bool {
        self.notices.is_empty() && !self.ring.submissions.is_full()
    }
}

impl Gateway {
    /// Ends the standstill of each port that has room again: it may be that nobody has tried since.
    pub(super) fn look_for_room(&mut self) {
        for port in 0..self.ports.len() {
            let is_standing = self.ports[port].standstill.since.is_some();
            if is_standing && self.ports[port].has_room() && self.has_definitions(port) {
                self.ports[port].standstill.end();
            }
        }
    }

    /// Returns true if a request that found no room is refused, because its partition stands. One
    /// that was received before waits: a refusal would say that no log has it.
    pub(super) fn is_refused_for_room(
        &mut self,
        port: usize,
        request: &Request,
        now: Nanos,
    ) -> bool {
        // Definitions go into another ring, which may have room for long while this one has none.
        let awaits_definitions = !self.ports[port].ring.submissions.is_full();
        let index = port.checked_sub(1).filter(|_| awaits_definitions);
        let handed = index.map_or(u64::MAX, |index| self.imports.handed(index));
        self.ports[port].standstill.found(handed, now);
        let has_others = self.ports.len() > 2;
        let session = self.sessions.get(request.session_id());
        let is_new = session.is_some_and(|s| request.request_no() > s.last_request_no(port));
        has_others && is_new && self.ports[port].standstill.is_long(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_stands_when_it_has_taken_nothing_for_a_while() {
        let mut standstill = Standstill::default();
        let mut finds = |handed, at| {
            standstill.found(handed, Nanos(at));
            standstill.is_long(Nanos(at))
        };
        assert!(!finds(1, 1_000));
        assert!(!finds(1, 999 + STANDS_AFTER));
        // It takes definitions.
        assert!(!finds(2, 1_000 + STANDS_AFTER));
        assert!(!finds(2, 2 * STANDS_AFTER));
        assert!(finds(2, 1_000 + 2 * STANDS_AFTER));
        standstill.end();
        assert!(!standstill.is_long(Nanos(3 * STANDS_AFTER)));
    }

    #[cfg(feature = "planted")]
    #[test]
    fn the_planted_bug_of_an_unnoticed_standstill_is_found() {
        let test = a_partition_stands_when_it_has_taken_nothing_for_a_while;
        assert!(plant::is_found(Plant::StandstillUnnoticed, test));
    }
}
