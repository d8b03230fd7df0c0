//! Connections without a proof of identity, by host and by arrival.
//!
//! They are bounded in number, for each host and in all. A newcomer beyond a bound takes the place
//! of another stranger, the oldest of the host that has most of them: a crowd of silent connections
//! keeps no client out, since a client logs on soon after it has connected. Connections of one IPv6
//! network of 64 bits count as one host's: a host usually has all of its addresses (RFC 4291,
//! 2.5.4).
//!
//! INVARIANT: `crowds` has each host of `hosts` once, with the number of its connections, which is
//! never zero.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use crate::plant::{self, Plant};

/// The number of an arrival.
type Arrival = u64;

/// The strangers of a door.
#[derive(Debug)]
pub struct Strangers<K> {
    arrivals: Arrival,
    known: BTreeMap<K, (IpAddr, Arrival)>,
    hosts: BTreeMap<IpAddr, BTreeMap<Arrival, K>>,
    crowds: BTreeSet<(usize, IpAddr)>,
}

impl<K> Default for Strangers<K> {
    fn default() -> Strangers<K> {
        Strangers {
            arrivals: 0,
            known: BTreeMap::new(),
            hosts: BTreeMap::new(),
            crowds: BTreeSet::new(),
        }
    }
}

impl<K: Copy + Ord> Strangers<K> {
    /// Adds a stranger; does nothing if it is one already.
    pub fn enter(&mut self, key: K, address: IpAddr) {
        if self.known.contains_key(&key) {
            return;
        }
        let host = host_of(address);
        self.arrivals += 1;
        self.known.insert(key, (host, self.arrivals));
        let crowd = self.hosts.entry(host).or_default();
        self.crowds.remove(&(crowd.len(), host));
        crowd.insert(self.arrivals, key);
        self.crowds.insert((crowd.len(), host));
    }

    /// Removes a stranger, if it is one.
    pub fn leave(&mut self, key: K) {
        let Some((host, arrival)) = self.known.remove(&key) else { return };
        let crowd = self.hosts.get_mut(&host).expect("a stranger's host has strangers");
        self.crowds.remove(&(crowd.len(), host));
        crowd.remove(&arrival);
        if crowd.is_empty() {
            self.hosts.remove(&host);
        } else {
            self.crowds.insert((crowd.len(), host));
        }
    }

    /// Returns the number of strangers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// Returns the number of strangers of an address's host.
    #[must_use]
    pub fn count_of(&self, address: IpAddr) -> usize {
        self.hosts.get(&host_of(address)).map_or(0, BTreeMap::len)
    }

    /// Returns the oldest stranger of an address's host.
    #[must_use]
    pub fn oldest_of(&self, address: IpAddr) -> Option<K> {
        let mut crowd = self.hosts.get(&host_of(address))?.values();
        if plant::is(Plant::NewestMakesPlace) {
            return crowd.next_back().copied();
        }
        crowd.next().copied()
    }

    /// Returns the oldest stranger of the host that has most.
    #[must_use]
    pub fn oldest_of_the_largest_crowd(&self) -> Option<K> {
        let (_, host) = self.crowds.last()?;
        self.oldest_of(*host)
    }
}

/// Returns the address that stands for a host: an IPv6 address's network of 64 bits.
#[must_use]
pub fn host_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    fn host(number: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, number))
    }

    /// The slow model: a list in the order of arrival.
    #[derive(Default)]
    struct Model(Vec<(u8, IpAddr)>);

    impl Model {
        fn count_of(&self, host: IpAddr) -> usize {
            self.0.iter().filter(|(_, of)| *of == host).count()
        }

        fn oldest_of(&self, host: IpAddr) -> Option<u8> {
            self.0.iter().find(|(_, of)| *of == host).map(|(key, _)| *key)
        }

        fn oldest_of_the_largest_crowd(&self) -> Option<u8> {
            let largest = self.0.iter().max_by_key(|(_, host)| (self.count_of(*host), *host))?;
            self.oldest_of(largest.1)
        }
    }

    proptest! {
        #[test]
        fn strangers_equal_a_list(
            steps in prop::collection::vec((0..20_u8, 0..5_u8, 0..4_u8), 0..200),
        ) {
            let (mut strangers, mut model) = (Strangers::default(), Model::default());
            for (key, number, step) in steps {
                let victim = model.oldest_of_the_largest_crowd();
                prop_assert_eq!(strangers.oldest_of_the_largest_crowd(), victim);
                match step {
                    0 | 1 => {
                        strangers.enter(key, host(number));
                        if !model.0.iter().any(|(known, _)| *known == key) {
                            model.0.push((key, host(number)));
                        }
                    }
                    2 => {
                        strangers.leave(key);
                        model.0.retain(|(known, _)| *known != key);
                    }
                    _ => {
                        victim.into_iter().for_each(|victim| strangers.leave(victim));
                        model.0.retain(|(known, _)| Some(*known) != victim);
                    }
                }
                prop_assert_eq!(strangers.count(), model.0.len());
                for number in 0..5 {
                    let host = host(number);
                    prop_assert_eq!(strangers.count_of(host), model.count_of(host));
                    prop_assert_eq!(strangers.oldest_of(host), model.oldest_of(host));
                }
            }
        }
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_host() {
        let mut strangers = Strangers::default();
        let addresses = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "::ffff:10.0.0.1"];
        for (key, address) in addresses.into_iter().enumerate() {
            strangers.enter(key, address.parse().unwrap());
        }
        let counts = addresses.map(|address| strangers.count_of(address.parse().unwrap()));
        assert_eq!(counts, [2, 2, 1, 1]);
        assert_eq!(strangers.count_of(host(1)), 1, "a mapped address is the IPv4 one");
    }
}
