//! The index: one ring of all slots, and one per value of each indexed key.
//!
//! It knows slots, places and keys, and nothing of orders. All rings have one type; a slot
//! remembers the position of its entry in each ring, so that a change costs the same regardless of
//! the number of orders. A balanced tree is touched only when a slot gets keys that are new to it.
//! Each ring has the sum of its live orders' hashes, the digest that a reader of its key checks
//! against.

use std::collections::BTreeMap;
use weir_types::ChangeId;

use crate::chunk::{CHUNK_LEN, ChunkedArray};
use crate::filter::{Filter, Keys};
use crate::ring::{Entry, Ring, SWEEP_STEPS};

/// A key that has rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No key: the ring of all slots.
    All = 0,
    /// The firm.
    Firm = 1,
    /// The account.
    Account = 2,
    /// The instrument.
    Instrument = 3,
    /// The firm and the instrument.
    FirmInstrument = 4,
    /// The account and the instrument.
    AccountInstrument = 5,
}

/// The number of kinds.
pub(crate) const KIND_COUNT: usize = 6;
const NO_RING: u32 = u32::MAX;
/// Bytes of a ring's chunk.
const CHUNK_BYTES: u64 = (CHUNK_LEN * size_of::<Entry>()) as u64;
/// The ring of all slots is the first.
const RING_ALL: u32 = 0;

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const EVERY: [Kind; KIND_COUNT] = [
        Kind::All,
        Kind::Firm,
        Kind::Account,
        Kind::Instrument,
        Kind::FirmInstrument,
        Kind::AccountInstrument,
    ];

    const KEYED: [Kind; KIND_COUNT - 1] = [
        Kind::Firm,
        Kind::Account,
        Kind::Instrument,
        Kind::FirmInstrument,
        Kind::AccountInstrument,
    ];

    /// Kinds in the order in which a filter prefers them: the fewest rows first.
    const BY_SELECTIVITY: [Kind; KIND_COUNT - 1] = [
        Kind::AccountInstrument,
        Kind::Account,
        Kind::FirmInstrument,
        Kind::Instrument,
        Kind::Firm,
    ];

    /// Returns the value of this key as one number.
    fn value(self, keys: &Keys) -> u64 {
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        match self {
            Kind::All => 0,
            Kind::Firm => u64::from(keys.firm_id.0),
            Kind::Account => u64::from(keys.account_id.0),
            Kind::Instrument => u64::from(keys.instrument_id.0),
            Kind::FirmInstrument => pair(keys.firm_id.0, keys.instrument_id.0),
            Kind::AccountInstrument => pair(keys.account_id.0, keys.instrument_id.0),
        }
    }

    /// True when a filter names this key and nothing else.
    fn is_all_of(self, filter: &Filter) -> bool {
        let (firm, account) = (!filter.firm_id.is_none(), !filter.account_id.is_none());
        let named = (firm, account, !filter.instrument_id.is_none());
        match self {
            Kind::All => named == (false, false, false),
            Kind::Firm => named == (true, false, false),
            Kind::Account => named == (false, true, false),
            Kind::Instrument => named == (false, false, true),
            Kind::FirmInstrument => named == (true, false, true),
            Kind::AccountInstrument => named == (false, true, true),
        }
    }

    /// True when a filter names all parts of this key.
    fn is_named_by(self, filter: &Filter) -> bool {
        let (firm, account) = (!filter.firm_id.is_none(), !filter.account_id.is_none());
        let instrument = !filter.instrument_id.is_none();
        match self {
            Kind::All => true,
            Kind::Firm => firm,
            Kind::Account => account,
            Kind::Instrument => instrument,
            Kind::FirmInstrument => firm && instrument,
            Kind::AccountInstrument => account && instrument,
        }
    }
}

/// The set of keys that have rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// No keys: a replica for readers of everything; filters scan.
    pub const NONE: Kinds = Kinds(0);
    /// Firm, account and instrument.
    pub const SINGLE: Kinds = Kinds::NONE.and(Kind::Firm).and(Kind::Account).and(Kind::Instrument);
    /// The single keys and both pairs.
    pub const FULL: Kinds = Kinds::SINGLE.and(Kind::FirmInstrument).and(Kind::AccountInstrument);

    /// Returns this set with `kind` added.
    #[must_use]
    pub const fn and(self, kind: Kind) -> Kinds {
        Kinds(self.0 | 1 << kind as u8)
    }

    /// Returns one bit for each kind, by its number.
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// True when `kind` has rings.
    #[must_use]
    pub const fn contains(self, kind: Kind) -> bool {
        self.0 >> kind as u8 & 1 == 1
    }
}

/// The positions of a slot's entries.
#[derive(Clone, Copy, Debug)]
struct Links {
    rings: [u32; KIND_COUNT],
    positions: [u32; KIND_COUNT],
}

const UNLINKED: Links = Links { rings: [NO_RING; KIND_COUNT], positions: [0; KIND_COUNT] };

/// The ring that holds a filter's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterRing {
    /// In this ring. `is_exact` if it holds no other rows, except ended orders, which a reader of
    /// live ones does not want.
    Ring {
        /// The ring's number.
        ring: u32,
        /// The ring has no rows of other keys.
        is_exact: bool,
    },
    /// Nowhere: no order ever had the key, or all that had it are below the floor.
    Nothing,
}

/// A ring and its key.
#[derive(Clone, Debug)]
struct KeyRing {
    ring: Ring,
    kind: Kind,
    value: u64,
    /// The place of the change that created the ring.
    born: ChangeId,
}

/// A change's effect on a digest: the hash of the state before, and that of the new one; zero for a
/// state that is not live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rehash {
    pub(crate) out: u64,
    pub(crate) into: u64,
}

/// The approximate cost of a key besides its ring: its part of a map.
const KEY_SIZE: u64 = 24;
/// Entries that are moved to make room in a ring when memory is short.
const EARLY_STEPS: u32 = 64;
/// The most bytes that an order's entries in a ring take while orders change: three and a half
/// entries.
const ENTRY_SIZE_MAX: u64 = 84;

/// The rings, and the positions of each slot in them.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    kinds: Kinds,
    links: ChunkedArray<Links>,
    rings: ChunkedArray<KeyRing>,
    /// Emptied rings, ready for reuse.
    free_rings: ChunkedArray<u32>,
    by_value: [BTreeMap<u64, u32>; KIND_COUNT],
    /// Bytes that the rings of each kind requested from the allocator.
    ring_bytes: [u64; KIND_COUNT],
    /// True when memory is short: rings are swept earlier.
    pub(crate) is_short: bool,
    /// The next ring that [`Index::sweep_idle`] visits.
    sweep_at: u32,
    /// Steps so far: entries appended, killed and moved, chunks freed.
    pub(crate) step_count: u64,
}

impl Index {
    /// Returns an empty index over these keys.
    #[must_use]
    pub(crate) fn new(kinds: Kinds) -> Index {
        let mut rings = ChunkedArray::new();
        rings.push(KeyRing {
            ring: Ring::new(ChangeId::START),
            kind: Kind::All,
            value: 0,
            born: ChangeId::START,
        });
        Index {
            kinds,
            links: ChunkedArray::new(),
            rings,
            free_rings: ChunkedArray::new(),
            by_value: Default::default(),
            ring_bytes: [0; KIND_COUNT],
            is_short: false,
            sweep_at: 0,
            step_count: 0,
        }
    }

    #[inline]
    fn ring(&self, ring: u32) -> &Ring {
        &self.rings.get(ring).ring
    }

    /// Enters a slot whose state has the hash `hash`; slots are numbered from zero without gaps and
    /// reused once removed.
    ///
    /// # Panics
    /// If `change_id` is before an earlier one.
    pub(crate) fn insert(&mut self, slot: u32, change_id: ChangeId, keys: &Keys, hash: u64) {
        self.unlink_new(slot);
        self.append(slot, RING_ALL, change_id, hash);
        for kind in Kind::KEYED {
            if self.kinds.contains(kind) {
                let ring = self.ring_or_new(kind, keys, change_id);
                self.append(slot, ring, change_id, hash);
            }
        }
    }

    /// Moves a slot whose keys are unchanged to a new place.
    ///
    /// # Panics
    /// If `change_id` is before an earlier one.
    #[inline]
    pub(crate) fn touch(&mut self, slot: u32, change_id: ChangeId, rehash: Rehash) {
        let links = *self.links.get(slot);
        for kind in 0..KIND_COUNT {
            let ring = links.rings[kind];
            if ring == NO_RING {
                continue;
            }
            let key_ring = &mut self.rings.get_mut(ring).ring;
            key_ring.kill(links.positions[kind]);
            key_ring.rehash(rehash.out, 0);
            self.append(slot, ring, change_id, rehash.into);
        }
    }

    /// Moves a slot to a new place and new keys. The rings that it leaves keep no trace of it: for
    /// their readers, the caller inserts a mark with the old keys at the same place.
    ///
    /// # Panics
    /// If `change_id` is before an earlier one.
    pub(crate) fn rekey(&mut self, slot: u32, change_id: ChangeId, keys: &Keys, rehash: Rehash) {
        for kind in Kind::EVERY {
            if kind == Kind::All || self.kinds.contains(kind) {
                self.kill(slot, kind, rehash.out);
                let ring = self.ring_or_new(kind, keys, change_id);
                self.append(slot, ring, change_id, rehash.into);
            }
        }
    }

    /// Removes a slot that is not live for good and raises its rings' floors to `change_id`, its
    /// last: readers before that may have missed it.
    pub(crate) fn remove(&mut self, slot: u32, change_id: ChangeId) {
        let links = *self.links.get(slot);
        for kind in Kind::EVERY {
            let ring = links.rings[kind as usize];
            if ring == NO_RING {
                continue;
            }
            self.rings.get_mut(ring).ring.raise_floor(change_id);
            self.kill(slot, kind, 0);
            self.sweep(ring);
            // There are as many pairs as traders make. A single key keeps its ring for its floor.
            let is_pair = matches!(kind, Kind::FirmInstrument | Kind::AccountInstrument);
            if is_pair {
                self.free_if_empty(ring);
            }
        }
        *self.links.get_mut(slot) = UNLINKED;
    }

    fn unlink_new(&mut self, slot: u32) {
        if slot == self.links.len() {
            self.links.push(UNLINKED);
        }
        assert!(self.links.get(slot).rings == UNLINKED.rings, "slot {slot} is in use");
    }

    #[inline]
    fn append(&mut self, slot: u32, ring: u32, change_id: ChangeId, hash: u64) {
        let KeyRing { ring: entries, kind, .. } = self.rings.get_mut(ring);
        let kind = *kind as usize;
        let had_room = entries.has_room(1);
        let before = if had_room { 0 } else { entries.reserved_bytes() };
        let position = entries.append(change_id, slot);
        entries.rehash(0, hash);
        if !had_room {
            self.ring_bytes[kind] += entries.reserved_bytes() - before;
        }
        let links = self.links.get_mut(slot);
        (links.rings[kind], links.positions[kind]) = (ring, position);
        self.step_count += 1;
        self.sweep(ring);
    }

    fn kill(&mut self, slot: u32, kind: Kind, hash: u64) {
        let links = self.links.get(slot);
        let (ring, position) = (links.rings[kind as usize], links.positions[kind as usize]);
        let entries = &mut self.rings.get_mut(ring).ring;
        entries.kill(position);
        entries.rehash(hash, 0);
        self.step_count += 1;
    }

    #[inline]
    fn sweep(&mut self, ring: u32) {
        let KeyRing { ring: entries, kind, .. } = self.rings.get_mut(ring);
        let kind = *kind as usize;
        if entries.trim() {
            self.ring_bytes[kind] -= CHUNK_BYTES;
            self.step_count += 1;
        }
        if entries.is_due(self.is_short) {
            let links = &mut self.links;
            let moved = |slot, position| links.get_mut(slot).positions[kind] = position;
            self.step_count += u64::from(entries.sweep(SWEEP_STEPS, moved));
        }
    }

    /// Sweeps a few entries of a ring that has dead ones before a sweep is due, because its memory
    /// is needed.
    fn sweep_early(&mut self, ring: u32, steps_max: u32) {
        let KeyRing { ring: entries, kind, .. } = self.rings.get_mut(ring);
        let (kind, links) = (*kind as usize, &mut self.links);
        let moved = |slot, position| links.get_mut(slot).positions[kind] = position;
        self.step_count += u64::from(entries.sweep(steps_max, moved));
    }

    /// Sweeps rings in rotation, without waiting for their next change; visits `rings_max` of them.
    /// With `frees_keys` the rings of keys without orders are freed, together with their floors.
    /// Returns true if there was something to sweep.
    pub(crate) fn sweep_idle(&mut self, rings_max: u32, frees_keys: bool) -> bool {
        let before = self.step_count;
        for _ in 0..rings_max.min(self.rings.len()) {
            self.sweep_at = (self.sweep_at + 1) % self.rings.len();
            self.sweep(self.sweep_at);
            let KeyRing { ring: entries, kind, .. } = self.rings.get_mut(self.sweep_at);
            let before = entries.reserved_bytes();
            if entries.trim_empty() {
                self.ring_bytes[*kind as usize] -= before - entries.reserved_bytes();
                self.step_count += 1;
            }
            if frees_keys {
                self.free_if_empty(self.sweep_at);
            }
        }
        self.step_count > before
    }

    /// Makes room, by sweeping early, for `count` appends to every ring of these keys without an
    /// allocation; returns false if there is not enough.
    pub(crate) fn make_room(&mut self, keys: &Keys, count: u32) -> bool {
        Kind::EVERY.into_iter().all(|kind| {
            if kind != Kind::All && !self.kinds.contains(kind) {
                return true;
            }
            let ring = match kind {
                Kind::All => Some(RING_ALL),
                kind => self.by_value[kind as usize].get(&kind.value(keys)).copied(),
            };
            let Some(ring) = ring else { return false };
            if !self.ring(ring).has_room(count) {
                self.sweep_early(ring, EARLY_STEPS);
            }
            self.ring(ring).has_room(count)
        })
    }

    /// True when each of these keys has a ring.
    pub(crate) fn has_rings(&self, keys: &Keys) -> bool {
        Kind::KEYED
            .into_iter()
            .filter(|kind| self.kinds.contains(*kind))
            .all(|kind| self.by_value[kind as usize].contains_key(&kind.value(keys)))
    }

    /// Returns the bytes that the rings will still request when the `order_count` orders in them
    /// change, less the bytes that they have.
    pub(crate) fn growth_bytes(&self, order_count: u64) -> u64 {
        let growth = |kind: Kind| match kind == Kind::All || self.kinds.contains(kind) {
            true => (order_count * ENTRY_SIZE_MAX).saturating_sub(self.ring_bytes[kind as usize]),
            false => 0,
        };
        Kind::EVERY.into_iter().map(growth).sum()
    }

    /// Returns the bytes of a kind's rings and its map.
    pub(crate) fn bytes_of(&self, kind: Kind) -> u64 {
        let kind = kind as usize;
        self.ring_bytes[kind] + self.by_value[kind].len() as u64 * KEY_SIZE
    }

    /// Returns the bytes that all kinds share: the slots' positions, and the rings' heads.
    pub(crate) fn shared_bytes(&self) -> u64 {
        let heads = self.rings.reserved_bytes() + self.free_rings.reserved_bytes();
        heads + self.links.reserved_bytes()
    }

    fn ring_or_new(&mut self, kind: Kind, keys: &Keys, change_id: ChangeId) -> u32 {
        if kind == Kind::All {
            return RING_ALL;
        }
        let value = kind.value(keys);
        if let Some(ring) = self.by_value[kind as usize].get(&value) {
            return *ring;
        }
        // The key may have had a ring before, with any of the slots that the floor has passed.
        self.new_ring(kind, value, self.floor(), change_id)
    }

    fn new_ring(&mut self, kind: Kind, value: u64, floor: ChangeId, born: ChangeId) -> u32 {
        let free_count = self.free_rings.len();
        let ring = if free_count > 0 {
            let ring = *self.free_rings.get(free_count - 1);
            self.free_rings.truncate(free_count - 1);
            let key_ring = self.rings.get_mut(ring);
            key_ring.ring.reset(floor);
            // The ring takes its memory along.
            let bytes = key_ring.ring.reserved_bytes();
            self.ring_bytes[key_ring.kind as usize] -= bytes;
            self.ring_bytes[kind as usize] += bytes;
            (key_ring.kind, key_ring.value, key_ring.born) = (kind, value, born);
            ring
        } else {
            self.rings.push(KeyRing { ring: Ring::new(floor), kind, value, born })
        };
        self.by_value[kind as usize].insert(value, ring);
        self.step_count += 1;
        ring
    }

    fn free_if_empty(&mut self, ring: u32) {
        let KeyRing { ring: entries, kind, value, .. } = self.rings.get(ring);
        let map = &mut self.by_value[*kind as usize];
        // A ring that is free already no longer belongs to its key.
        if *kind != Kind::All && entries.live_count() == 0 && map.get(value) == Some(&ring) {
            map.remove(value);
            self.free_rings.push(ring);
            self.step_count += 1;
        }
    }

    /// Returns the ring that holds a filter's rows.
    pub(crate) fn find(&self, filter: &Filter) -> FilterRing {
        let keys = Keys {
            firm_id: filter.firm_id,
            account_id: filter.account_id,
            instrument_id: filter.instrument_id,
        };
        let best = Kind::BY_SELECTIVITY
            .into_iter()
            .find(|kind| self.kinds.contains(*kind) && kind.is_named_by(filter));
        let Some(kind) = best else {
            return FilterRing::Ring { ring: RING_ALL, is_exact: Kind::All.is_all_of(filter) };
        };
        match self.by_value[kind as usize].get(&kind.value(&keys)) {
            Some(ring) => FilterRing::Ring { ring: *ring, is_exact: kind.is_all_of(filter) },
            None => FilterRing::Nothing,
        }
    }

    /// Returns the floor over all rows.
    #[must_use]
    pub(crate) fn floor(&self) -> ChangeId {
        self.ring(RING_ALL).floor()
    }

    /// Returns the floor for readers of a filter.
    pub(crate) fn floor_of(&self, filter: &Filter) -> ChangeId {
        match self.find(filter) {
            FilterRing::Ring { ring, .. } => self.ring(ring).floor(),
            FilterRing::Nothing => self.floor(),
        }
    }

    /// Returns the digest of the live orders of a filter; `None` if no ring is exactly the
    /// filter's.
    pub(crate) fn digest_of(&self, filter: &Filter) -> Option<u64> {
        match self.find(filter) {
            FilterRing::Ring { ring, is_exact: true } => Some(self.ring(ring).digest()),
            FilterRing::Ring { .. } => None,
            FilterRing::Nothing => Some(0),
        }
    }

    /// Returns the digest of all live orders.
    pub(crate) fn digest(&self) -> u64 {
        self.ring(RING_ALL).digest()
    }

    /// Returns the number of rings, free ones included.
    pub(crate) fn ring_count(&self) -> u32 {
        self.rings.len()
    }

    /// Returns a ring's key and floor; `None` for the ring of all slots, for free rings and for
    /// those created after `head`.
    pub(crate) fn key_floor(&self, ring: u32, head: ChangeId) -> Option<(Kind, u64, ChangeId)> {
        let KeyRing { ring: entries, kind, value, born } = self.rings.get(ring);
        let is_in_use = self.by_value[*kind as usize].get(value) == Some(&ring);
        (is_in_use && *born <= head).then(|| (*kind, *value, entries.floor()))
    }

    /// Adds slots that will be entered in the order of their places, which is not the order of
    /// slots.
    pub(crate) fn add_slots(&mut self, count: u32) {
        for _ in 0..count {
            self.links.push(UNLINKED);
        }
    }

    /// Sets the floor over all rows, before any slot is entered.
    pub(crate) fn set_floor(&mut self, floor: ChangeId) {
        self.rings.get_mut(RING_ALL).ring.raise_floor(floor);
    }

    /// Sets the floor of a key, and creates its ring if there is none.
    pub(crate) fn set_key_floor(&mut self, kind: Kind, value: u64, floor: ChangeId) {
        if !self.kinds.contains(kind) {
            return;
        }
        let ring = match self.by_value[kind as usize].get(&value) {
            Some(ring) => *ring,
            None => self.new_ring(kind, value, floor, ChangeId::START),
        };
        self.rings.get_mut(ring).ring.set_floor(floor);
    }

    /// True when a filter's rows have a ring of their own, or would have one if there were any.
    pub(crate) fn is_indexed(&self, filter: &Filter) -> bool {
        Kind::EVERY
            .into_iter()
            .any(|kind| (kind == Kind::All || self.kinds.contains(kind)) && kind.is_all_of(filter))
    }

    /// Touches a slot's positions, to bring them into the cache.
    #[inline]
    pub(crate) fn look_at_links(&self, slot: u32) -> u64 {
        let links = self.links.get(slot);
        u64::from(links.rings[0] ^ links.positions[KIND_COUNT - 1])
    }

    /// Touches the heads of a slot's rings.
    #[inline]
    pub(crate) fn look_at_rings(&self, slot: u32) -> u64 {
        let rings = self.links.get(slot).rings.iter().filter(|ring| **ring != NO_RING);
        rings.fold(0, |seen, ring| {
            let KeyRing { ring, value, .. } = self.rings.get(*ring);
            seen ^ value ^ ring.digest()
        })
    }

    /// Touches the words and entries that a change of a slot will use in its rings.
    #[inline]
    pub(crate) fn look_at_entries(&self, slot: u32) -> u64 {
        let links = self.links.get(slot);
        let places = links.rings.iter().zip(links.positions).filter(|(ring, _)| **ring != NO_RING);
        places.fold(0, |seen, (ring, position)| seen ^ self.ring(*ring).look(position))
    }

    /// Returns the newest place in a ring, of a live entry or a dead one.
    pub(crate) fn newest(&self, ring: u32) -> ChangeId {
        self.ring(ring).newest()
    }

    pub(crate) fn position_after(&self, ring: u32, change_id: ChangeId) -> u32 {
        self.ring(ring).position_after(change_id)
    }

    #[inline]
    pub(crate) fn next_live(&self, ring: u32, position: u32) -> Option<(u32, Entry)> {
        self.ring(ring).next_live(position)
    }

    /// Fills `group` with a ring's next live entries at or after `position`; returns their number
    /// and the number of words read.
    #[inline]
    pub(crate) fn live_from(
        &self,
        ring: u32,
        position: u32,
        group: &mut [(u32, Entry)],
    ) -> (usize, u32) {
        self.ring(ring).live_from(position, group)
    }
}
