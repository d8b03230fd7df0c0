//! A door's table of connections, by slot.
//!
//! A slot is used again under a new generation, so the id of a closed connection finds nothing.
//! An entry is boxed and can be taken out of its slot while the rest of the door is borrowed: that
//! moves a pointer. The table allocates only when it holds more connections than ever before, and
//! for each new connection.
//!
//! INVARIANT: `count` is the number of ids that are reserved and not released.

use crate::ConnectionId;

/// Connections by their ids.
#[derive(Debug)]
pub struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    count: usize,
}

#[derive(Debug)]
struct Slot<T> {
    id: ConnectionId,
    generation: u32,
    entry: Option<Box<T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { slots: Vec::new(), free: Vec::new(), count: 0 }
    }
}

impl<T> Table<T> {
    /// Reserves a slot and returns the id of its next connection.
    ///
    /// # Panics
    /// Never: a process has far fewer than 2^32 connections.
    pub fn reserve(&mut self) -> ConnectionId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { id: ConnectionId(0), generation: 0, entry: None });
            u32::try_from(self.slots.len() - 1).expect("far fewer connections than 2^32")
        });
        let entry = &mut self.slots[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.id = ConnectionId::new(slot, entry.generation);
        self.count += 1;
        entry.id
    }

    /// Frees a reserved slot and drops its entry, if it is there.
    ///
    /// # Panics
    /// If the id is not a reserved one.
    pub fn release(&mut self, id: ConnectionId) {
        let slot = &mut self.slots[id.slot()];
        assert_eq!(slot.id, id, "released twice");
        slot.entry = None;
        // No id has generation 0 in a slot that was used.
        slot.id = ConnectionId::new(u32::MAX, 0);
        self.free.push(u32::try_from(id.slot()).expect("slots are 32-bit numbers"));
        self.count -= 1;
    }

    /// Puts an entry into its slot, first or again.
    pub fn put_back(&mut self, id: ConnectionId, entry: Box<T>) {
        self.slots[id.slot()].entry = Some(entry);
    }

    /// Takes an entry out of its slot, which stays reserved.
    pub fn take(&mut self, id: ConnectionId) -> Option<Box<T>> {
        let slot = self.slots.get_mut(id.slot())?;
        if slot.id == id { slot.entry.take() } else { None }
    }

    /// The entry of a connection.
    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.slot())?;
        if slot.id == id { slot.entry.as_deref_mut() } else { None }
    }

    /// The entry in a slot, of any generation.
    pub fn in_slot(&mut self, slot: usize) -> Option<&mut T> {
        self.slots.get_mut(slot)?.entry.as_deref_mut()
    }

    /// All entries, in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.entry.as_deref())
    }

    /// All entries, in the order of their slots.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.entry.as_deref_mut())
    }

    /// The ids of all connections whose entries are in their slots.
    #[must_use]
    pub fn ids(&self) -> Vec<ConnectionId> {
        self.slots.iter().filter(|slot| slot.entry.is_some()).map(|slot| slot.id).collect()
    }

    /// The number of slots in use.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_released_slot_finds_nothing_and_its_successor_has_another() {
        let mut table = Table::default();
        let first = table.reserve();
        table.put_back(first, Box::new("first"));
        assert_eq!(table.get_mut(first), Some(&mut "first"));
        table.release(first);
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.count(), 0);
        let second = table.reserve();
        table.put_back(second, Box::new("second"));
        assert_eq!(second.slot(), first.slot());
        assert_ne!(second, first);
        assert_eq!(table.take(first), None);
        assert_eq!(table.get_mut(second), Some(&mut "second"));
    }

    #[test]
    fn an_entry_that_is_taken_keeps_its_slot() {
        let mut table = Table::default();
        let (one, other) = (table.reserve(), table.reserve());
        table.put_back(one, Box::new(1));
        table.put_back(other, Box::new(2));
        let taken = table.take(one).expect("it is there");
        assert_eq!(table.take(one), None);
        assert_eq!(table.count(), 2);
        assert_eq!(table.ids(), [other]);
        assert_ne!(table.reserve().slot(), one.slot());
        table.put_back(one, taken);
        assert_eq!(table.iter().copied().collect::<Vec<_>>(), [1, 2]);
        table.iter_mut().for_each(|entry| *entry *= 10);
        assert_eq!(table.in_slot(other.slot()), Some(&mut 20));
    }
}
