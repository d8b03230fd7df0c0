//! The index: one ring of everything, and one per value of each indexed key.
//!
//! Knows slots, places and keys, and nothing of orders. All rings are of one type; a slot
//! remembers where in which ring its entry is, so that a change costs the same however many
//! orders there are. No balanced tree is touched unless a slot's keys are new to it.

use std::collections::BTreeMap;

use crate::chunk::Chunked;
use crate::filter::{Filter, Keys};
use crate::ring::{Entry, Place, Ring};

/// A key that has rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No key: the ring of everything.
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

/// How many kinds there are.
const KIND_COUNT: usize = 6;
const NO_RING: u32 = u32::MAX;
/// The ring of everything is the first.
const RING_ALL: u32 = 0;

impl Kind {
    const EVERY: [Kind; KIND_COUNT] = [
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

    /// The value of this key as one number.
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

    /// True when a filter names all of this key.
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

/// Which keys have rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// None: a replica for readers of everything; filters scan.
    pub const NONE: Kinds = Kinds(0);
    /// Firm, account and instrument.
    pub const SINGLE: Kinds = Kinds::NONE.and(Kind::Firm).and(Kind::Account).and(Kind::Instrument);
    /// The single keys and both pairs.
    pub const FULL: Kinds = Kinds::SINGLE.and(Kind::FirmInstrument).and(Kind::AccountInstrument);

    /// These and `kind`.
    #[must_use]
    pub const fn and(self, kind: Kind) -> Kinds {
        Kinds(self.0 | 1 << kind as u8)
    }

    /// True when `kind` has rings.
    #[must_use]
    pub const fn contains(self, kind: Kind) -> bool {
        self.0 >> kind as u8 & 1 == 1
    }
}

/// Where a slot's entries are.
#[derive(Clone, Copy, Debug)]
struct Links {
    rings: [u32; KIND_COUNT],
    positions: [u32; KIND_COUNT],
}

const UNLINKED: Links = Links { rings: [NO_RING; KIND_COUNT], positions: [0; KIND_COUNT] };

/// Where a filter's rows are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// In this ring.
    Ring(u32),
    /// Nowhere: no order ever had the key, or all that had it are below the floor.
    Nothing,
}

/// The rings, and where each slot is in them.
#[derive(Clone, Debug)]
pub struct Index {
    kinds: Kinds,
    links: Chunked<Links>,
    rings: Vec<Ring>,
    /// The key's value of each ring.
    values: Vec<u64>,
    /// Emptied rings of pairs, to be used again.
    free_rings: Vec<u32>,
    by_value: [BTreeMap<u64, u32>; KIND_COUNT],
}

impl Index {
    /// An empty index over these keys.
    #[must_use]
    pub fn new(kinds: Kinds) -> Index {
        Index {
            kinds,
            links: Chunked::new(),
            rings: vec![Ring::new(Place::START)],
            values: vec![0],
            free_rings: Vec::new(),
            by_value: Default::default(),
        }
    }

    /// Enters a slot; slots are numbered from zero without gaps and used again once removed.
    ///
    /// # Panics
    /// When `place` is before an earlier one.
    pub fn insert(&mut self, slot: u32, place: Place, keys: &Keys) {
        self.unlink_new(slot);
        self.append(slot, Kind::All, RING_ALL, place);
        for kind in Kind::KEYED {
            if self.kinds.contains(kind) {
                let ring = self.ring_or_new(kind, keys);
                self.append(slot, kind, ring, place);
            }
        }
    }

    /// Moves a slot whose keys are the same to a new place.
    ///
    /// # Panics
    /// When `place` is before an earlier one.
    #[inline]
    pub fn touch(&mut self, slot: u32, place: Place) {
        let links = *self.links.get(slot);
        for kind in 0..KIND_COUNT {
            let ring = links.rings[kind];
            if ring == NO_RING {
                continue;
            }
            let ring = &mut self.rings[ring as usize];
            ring.kill(links.positions[kind]);
            self.links.get_mut(slot).positions[kind] = ring.append(place, slot);
            let all_links = &mut self.links;
            ring.sweep(|slot, position| all_links.get_mut(slot).positions[kind] = position);
        }
    }

    /// Moves a slot to a new place and new keys. Rings that it leaves keep no trace of it: whoever
    /// has readers there inserts a mark with the old keys at the same place.
    ///
    /// # Panics
    /// When `place` is before an earlier one.
    pub fn rekey(&mut self, slot: u32, place: Place, keys: &Keys) {
        self.kill(slot, Kind::All);
        self.append(slot, Kind::All, RING_ALL, place);
        for kind in Kind::KEYED {
            if self.kinds.contains(kind) {
                self.kill(slot, kind);
                let ring = self.ring_or_new(kind, keys);
                self.append(slot, kind, ring, place);
            }
        }
    }

    /// Removes a slot for good: readers before `place`, its last, may have missed it.
    pub fn remove(&mut self, slot: u32, place: Place) {
        let links = *self.links.get(slot);
        self.rings[RING_ALL as usize].raise_floor(place);
        for kind in Kind::EVERY {
            let ring = links.rings[kind as usize];
            if ring == NO_RING {
                continue;
            }
            self.rings[ring as usize].raise_floor(place);
            self.kill(slot, kind);
            self.sweep(kind, ring);
            self.free_if_empty_pair(kind, ring);
        }
        *self.links.get_mut(slot) = UNLINKED;
    }

    fn unlink_new(&mut self, slot: u32) {
        if slot == self.links.len() {
            self.links.push(UNLINKED);
        }
        assert!(self.links.get(slot).rings == UNLINKED.rings, "slot {slot} is in use");
    }

    fn append(&mut self, slot: u32, kind: Kind, ring: u32, place: Place) {
        let links = self.links.get_mut(slot);
        links.rings[kind as usize] = ring;
        links.positions[kind as usize] = self.rings[ring as usize].append(place, slot);
        self.sweep(kind, ring);
    }

    fn kill(&mut self, slot: u32, kind: Kind) {
        let links = self.links.get(slot);
        let (ring, position) = (links.rings[kind as usize], links.positions[kind as usize]);
        self.rings[ring as usize].kill(position);
    }

    fn sweep(&mut self, kind: Kind, ring: u32) {
        let links = &mut self.links;
        self.rings[ring as usize]
            .sweep(|slot, position| links.get_mut(slot).positions[kind as usize] = position);
    }

    fn ring_or_new(&mut self, kind: Kind, keys: &Keys) -> u32 {
        let value = kind.value(keys);
        if let Some(ring) = self.by_value[kind as usize].get(&value) {
            return *ring;
        }
        // The key may have had a ring before: whatever is below the floor may have been in it.
        let new = Ring::new(self.floor());
        let ring = match self.free_rings.pop() {
            Some(ring) => {
                self.rings[ring as usize] = new;
                self.values[ring as usize] = value;
                ring
            }
            None => {
                self.rings.push(new);
                self.values.push(value);
                u32::try_from(self.rings.len() - 1).expect("fewer rings than slots")
            }
        };
        self.by_value[kind as usize].insert(value, ring);
        ring
    }

    /// Pairs are as many as traders make them; single keys are bounded by the reference data.
    fn free_if_empty_pair(&mut self, kind: Kind, ring: u32) {
        let is_pair = matches!(kind, Kind::FirmInstrument | Kind::AccountInstrument);
        if is_pair && self.rings[ring as usize].live_count() == 0 {
            self.by_value[kind as usize].remove(&self.values[ring as usize]);
            self.free_rings.push(ring);
        }
    }

    /// Where the rows of a filter are.
    pub(crate) fn find(&self, filter: &Filter) -> Found {
        let keys = Keys {
            firm_id: filter.firm_id,
            account_id: filter.account_id,
            instrument_id: filter.instrument_id,
        };
        let best = Kind::BY_SELECTIVITY
            .into_iter()
            .find(|kind| self.kinds.contains(*kind) && kind.is_named_by(filter));
        let Some(kind) = best else { return Found::Ring(RING_ALL) };
        match self.by_value[kind as usize].get(&kind.value(&keys)) {
            Some(ring) => Found::Ring(*ring),
            None => Found::Nothing,
        }
    }

    /// The floor over everything.
    #[must_use]
    pub fn floor(&self) -> Place {
        self.rings[RING_ALL as usize].floor()
    }

    /// The floor for readers of a filter.
    pub(crate) fn floor_of(&self, filter: &Filter) -> Place {
        match self.find(filter) {
            Found::Ring(ring) => self.rings[ring as usize].floor(),
            Found::Nothing => self.floor(),
        }
    }

    /// The newest place in a ring, live or not any more.
    pub(crate) fn newest(&self, ring: u32) -> Place {
        self.rings[ring as usize].newest()
    }

    pub(crate) fn position_after(&self, ring: u32, place: Place) -> u32 {
        self.rings[ring as usize].position_after(place)
    }

    #[inline]
    pub(crate) fn next_live(&mut self, ring: u32, position: u32) -> Option<(u32, Entry)> {
        self.rings[ring as usize].next_live(position)
    }

    /// The slots of a filter's ring that changed after `place`, in order; `visit` returns false to
    /// stop.
    pub fn visit_after(
        &mut self,
        filter: &Filter,
        place: Place,
        mut visit: impl FnMut(u32) -> bool,
    ) {
        let Found::Ring(ring) = self.find(filter) else { return };
        let mut position = self.position_after(ring, place);
        while let Some((at, entry)) = self.next_live(ring, position) {
            if !visit(entry.slot) {
                return;
            }
            position = at + 1;
        }
    }
}
