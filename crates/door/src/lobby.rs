//! The limits on connections without a session: their number per host, and their time.
//!
//! A connection that does not log on costs a descriptor and a buffer. So each has a deadline, which
//! restarts when its last session leaves, and the number per host is limited. Connections with
//! a session are neither counted nor timed here.
//!
//! A newcomer is never refused because of strangers: where it finds no place, the oldest of its own
//! host, or of the host that has most, leaves ([`Lobby::place_for`]).

use std::net::IpAddr;

use weir_types::Nanos;

use super::ConnectionId;
use super::seeded_map::{MapOrder, SeededMap};
use super::strangers::Strangers;

/// Strangers that leave for one newcomer where descriptors are short. Several, because the next
/// newcomers take the numbers that become free, and these do not tell that others are in use.
pub const LEAVE_WHEN_SHORT: usize = 16;

/// The limits on connections without a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LobbyLimits {
    /// The time that a connection may be without a session.
    pub logon_time_max: Nanos,
    /// The number of such connections that a host may have at a time.
    pub per_address_max: u32,
}

impl Default for LobbyLimits {
    fn default() -> Self {
        LobbyLimits { logon_time_max: Nanos(10_000_000_000), per_address_max: 1024 }
    }
}

/// The lobby's record of a connection.
#[derive(Clone, Copy, Debug)]
struct Guest {
    address: Option<IpAddr>,
    /// The time since which it has no session; `None` while it has one.
    since: Option<Nanos>,
}

/// All connections of a door, and those without a session for each host.
#[derive(Debug)]
pub struct Lobby {
    limits: LobbyLimits,
    guests: SeededMap<ConnectionId, Guest>,
    strangers: Strangers<ConnectionId>,
}

impl Lobby {
    /// Creates an empty lobby.
    #[must_use]
    pub fn new(limits: LobbyLimits, order: &MapOrder) -> Lobby {
        Lobby { limits, guests: order.map(), strangers: Strangers::default() }
    }

    /// Returns the stranger that must leave before a connection from `address` is admitted, and
    /// counts it no longer; `None` while there is a place. `is_full` says that the door has none.
    pub fn place_for(&mut self, address: Option<IpAddr>, is_full: bool) -> Option<ConnectionId> {
        let crowded = address.filter(|address| {
            self.strangers.count_of(*address) >= self.limits.per_address_max as usize
        });
        let leaves = match crowded {
            Some(address) => self.strangers.oldest_of(address),
            None if is_full => self.strangers.oldest_of_the_largest_crowd(),
            None => None,
        };
        leaves.inspect(|id| self.strangers.leave(*id))
    }

    /// Admits a connection. One without a known address is timed but not counted.
    pub fn enter(&mut self, id: ConnectionId, address: Option<IpAddr>, now: Nanos) {
        self.guests.insert(id, Guest { address, since: None });
        self.left_alone(id, now);
    }

    /// Notes that a connection has no session; does nothing if that was noted before.
    pub fn left_alone(&mut self, id: ConnectionId, now: Nanos) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        if guest.since.is_none() {
            guest.since = Some(now);
            if let Some(address) = guest.address {
                self.strangers.enter(id, address);
            }
        }
    }

    /// Notes that a connection has a session.
    pub fn logged_on(&mut self, id: ConnectionId) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        guest.since = None;
        self.strangers.leave(id);
    }

    /// Removes a closed connection.
    pub fn gone(&mut self, id: ConnectionId) {
        self.logged_on(id);
        self.guests.remove(&id);
    }

    /// Returns the time by which a connection without a session must log on.
    #[must_use]
    pub fn deadline_of(&self, id: ConnectionId) -> Option<Nanos> {
        let since = self.guests.get(&id).and_then(|guest| guest.since);
        since.map(|since| Nanos(since.0 + self.limits.logon_time_max.0))
    }

    /// Returns true if a connection has been without a session for too long.
    #[must_use]
    pub fn is_overdue(&self, id: ConnectionId, now: Nanos) -> bool {
        self.deadline_of(id).is_some_and(|deadline| now > deadline)
    }
}

#[cfg(test)]
mod tests {
    use weir_io::SeededRng;

    use super::*;

    const HERE: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));
    const THERE: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)));

    fn lobby() -> Lobby {
        let limits = LobbyLimits { logon_time_max: Nanos(100), per_address_max: 2 };
        Lobby::new(limits, &MapOrder::draw(&mut SeededRng::new(1, "lobby")))
    }

    #[test]
    fn a_host_has_so_many_strangers_and_its_oldest_makes_place() {
        let mut lobby = lobby();
        for id in 1..=2 {
            assert_eq!(lobby.place_for(HERE, false), None);
            lobby.enter(ConnectionId(id), HERE, Nanos(0));
        }
        assert_eq!(lobby.place_for(THERE, false), None, "another host has places of its own");
        assert_eq!(lobby.place_for(None, false), None);
        assert_eq!(lobby.place_for(HERE, false), Some(ConnectionId(1)));
        assert_eq!(lobby.place_for(HERE, false), None, "it leaves once");
        lobby.enter(ConnectionId(3), HERE, Nanos(0));
        lobby.gone(ConnectionId(1));
        assert_eq!(lobby.place_for(HERE, false), Some(ConnectionId(2)));
    }

    #[cfg(feature = "planted")]
    #[test]
    fn the_planted_bug_of_the_newest_that_makes_place_is_found() {
        use crate::plant::{self, Plant};

        plant::set(Some(Plant::NewestMakesPlace));
        let test = a_host_has_so_many_strangers_and_its_oldest_makes_place;
        let is_found = std::panic::catch_unwind(test).is_err();
        plant::set(None);
        assert!(is_found);
    }

    #[test]
    fn a_full_door_loses_a_stranger_of_the_largest_crowd_and_no_session() {
        let mut lobby = lobby();
        lobby.enter(ConnectionId(1), THERE, Nanos(0));
        lobby.enter(ConnectionId(2), HERE, Nanos(0));
        lobby.enter(ConnectionId(3), HERE, Nanos(0));
        lobby.logged_on(ConnectionId(2));
        lobby.enter(ConnectionId(4), HERE, Nanos(0));
        assert_eq!(lobby.place_for(None, true), Some(ConnectionId(3)));
        assert_eq!(lobby.place_for(THERE, false), None);
        lobby.logged_on(ConnectionId(1));
        assert_eq!(lobby.place_for(THERE, true), Some(ConnectionId(4)));
        assert_eq!(lobby.place_for(THERE, true), None, "only sessions are left");
        lobby.left_alone(ConnectionId(2), Nanos(0));
        assert_eq!(lobby.place_for(THERE, true), Some(ConnectionId(2)));
    }

    #[test]
    fn time_runs_from_the_arrival_and_again_from_the_last_logout() {
        let mut lobby = lobby();
        let id = ConnectionId(1);
        lobby.enter(id, HERE, Nanos(50));
        assert!(!lobby.is_overdue(id, Nanos(150)));
        assert!(lobby.is_overdue(id, Nanos(151)));
        lobby.logged_on(id);
        assert!(!lobby.is_overdue(id, Nanos(1000)));
        lobby.left_alone(id, Nanos(2000));
        lobby.left_alone(id, Nanos(2090));
        assert!(!lobby.is_overdue(id, Nanos(2100)));
        assert!(lobby.is_overdue(id, Nanos(2101)));
    }
}
