//! A hash map whose order is the same in every run, for the simulation: SipHash with fixed keys.
//!
//! Its keys are numbers that the node or its operator assigns. A map by a stranger's choice, such
//! as an address, is a `BTreeMap`: strangers could fill one bucket of a hash map without secret
//! keys.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

/// A hash map with fixed keys.
pub type FixedMap<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;
