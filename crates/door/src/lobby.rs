//! The limits on connections without a session: their number per address, and their time.
//!
//! A connection that does not log on costs a descriptor and a buffer. So each has a deadline, which
//! restarts when its last session leaves, and the number per address is limited. Connections with
//! a session are neither counted nor timed here.
//!
//! INVARIANT: an address's count is the number of its connections without a session.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_types::{Nanos, Reason};

use super::ConnectionId;
use super::fixed_map::FixedMap;

/// The limits on connections without a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LobbyLimits {
    /// The time that a connection may be without a session.
    pub logon_time_max: Nanos,
    /// The number of such connections that an address may have at a time.
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

/// All connections of a door, and the number without a session for each address.
#[derive(Debug)]
pub struct Lobby {
    limits: LobbyLimits,
    guests: FixedMap<ConnectionId, Guest>,
    waiting: BTreeMap<IpAddr, u32>,
}

impl Lobby {
    /// Creates an empty lobby.
    #[must_use]
    pub fn new(limits: LobbyLimits) -> Lobby {
        Lobby { limits, guests: FixedMap::default(), waiting: BTreeMap::new() }
    }

    /// Admits a connection. One without a known address is timed but not counted.
    ///
    /// # Errors
    /// [`Reason::TooManyConnections`] if its address already has the maximum without a session.
    pub fn enter(
        &mut self,
        id: ConnectionId,
        address: Option<IpAddr>,
        now: Nanos,
    ) -> Result<(), Reason> {
        let waiting = address.and_then(|address| self.waiting.get(&address)).copied();
        if waiting.is_some_and(|count| count >= self.limits.per_address_max) {
            return Err(Reason::TooManyConnections);
        }
        self.guests.insert(id, Guest { address, since: None });
        self.left_alone(id, now);
        Ok(())
    }

    /// Notes that a connection has no session; does nothing if that was noted before.
    pub fn left_alone(&mut self, id: ConnectionId, now: Nanos) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        if guest.since.is_none() {
            guest.since = Some(now);
            if let Some(address) = guest.address {
                *self.waiting.entry(address).or_insert(0) += 1;
            }
        }
    }

    /// Notes that a connection has a session.
    pub fn logged_on(&mut self, id: ConnectionId) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        if guest.since.take().is_some()
            && let Some(address) = guest.address
        {
            self.release(address);
        }
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

    /// Moves all deadlines over a skip of the time, which no connection could use.
    pub fn time_skipped(&mut self, by: Nanos) {
        for since in self.guests.values_mut().filter_map(|guest| guest.since.as_mut()) {
            since.0 += by.0;
        }
    }

    fn release(&mut self, address: IpAddr) {
        let count = self.waiting.get_mut(&address).expect("a guest of the address was counted");
        *count -= 1;
        if *count == 0 {
            self.waiting.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));
    const THERE: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)));

    fn lobby() -> Lobby {
        Lobby::new(LobbyLimits { logon_time_max: Nanos(100), per_address_max: 2 })
    }

    #[test]
    fn an_address_has_so_many_connections_without_a_session_and_others_have_theirs() {
        let mut lobby = lobby();
        assert_eq!(lobby.enter(ConnectionId(1), HERE, Nanos(0)), Ok(()));
        assert_eq!(lobby.enter(ConnectionId(2), HERE, Nanos(0)), Ok(()));
        let refused = Err(Reason::TooManyConnections);
        assert_eq!(lobby.enter(ConnectionId(3), HERE, Nanos(0)), refused);
        assert_eq!(lobby.enter(ConnectionId(3), THERE, Nanos(0)), Ok(()));
        assert_eq!(lobby.enter(ConnectionId(4), None, Nanos(0)), Ok(()));
    }

    #[test]
    fn a_logon_and_a_departure_make_room_once() {
        let mut lobby = lobby();
        for id in 1..=2 {
            assert_eq!(lobby.enter(ConnectionId(id), HERE, Nanos(0)), Ok(()));
        }
        lobby.logged_on(ConnectionId(1));
        lobby.logged_on(ConnectionId(1));
        assert_eq!(lobby.enter(ConnectionId(3), HERE, Nanos(0)), Ok(()));
        assert!(lobby.enter(ConnectionId(4), HERE, Nanos(0)).is_err());
        lobby.gone(ConnectionId(1));
        assert!(lobby.enter(ConnectionId(4), HERE, Nanos(0)).is_err(), "it was not counted");
        lobby.gone(ConnectionId(2));
        assert_eq!(lobby.enter(ConnectionId(4), HERE, Nanos(0)), Ok(()));
    }

    #[test]
    fn time_runs_from_the_arrival_and_again_from_the_last_logout() {
        let mut lobby = lobby();
        let id = ConnectionId(1);
        assert_eq!(lobby.enter(id, HERE, Nanos(50)), Ok(()));
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
