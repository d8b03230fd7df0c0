//! A hash map whose order a seed decides: SipHash with a key that a gateway or door draws once.
//!
//! A run is repeated by its seed, the order of its maps included, and runs of other seeds have
//! other orders, so that code that depends on one is found. In production the key is secret, as it
//! comes from the operating system's random numbers.
//!
//! The keys of these maps are numbers that the node or its operator assigns. A map by a stranger's
//! choice, such as an address, is a `BTreeMap`.

use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hasher};

use weir_io::Rng;

/// A hash map in an order of its [`MapOrder`].
pub type SeededMap<K, V> = HashMap<K, V, MapOrder>;

/// The order of the maps of one gateway or door. Maps of the same order, content and history
/// iterate alike.
#[derive(Clone, Debug)]
pub struct MapOrder {
    /// A hasher that has taken the key.
    keyed: DefaultHasher,
}

impl MapOrder {
    /// Draws an order.
    pub fn draw(rng: &mut dyn Rng) -> MapOrder {
        let mut keyed = DefaultHasher::new();
        keyed.write_u64(rng.next_u64());
        MapOrder { keyed }
    }

    /// Returns an empty map in this order.
    #[must_use]
    pub fn map<K, V>(&self) -> SeededMap<K, V> {
        SeededMap::with_hasher(self.clone())
    }
}

impl BuildHasher for MapOrder {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        self.keyed.clone()
    }
}

#[cfg(test)]
mod tests {
    use weir_io::SeededRng;

    use super::*;

    fn keys_in_the_order_of(seed: u64) -> Vec<u32> {
        let mut map = MapOrder::draw(&mut SeededRng::new(seed, "gateway")).map();
        map.extend((0..100_u32).map(|key| (key, ())));
        map.into_keys().collect()
    }

    #[test]
    fn a_seed_decides_the_order_of_a_map() {
        let orders: Vec<_> = (1..=3).map(keys_in_the_order_of).collect();
        assert_eq!(keys_in_the_order_of(1), orders[0]);
        assert!(orders[0] != orders[1] && orders[1] != orders[2] && orders[0] != orders[2]);
    }
}
