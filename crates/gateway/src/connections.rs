//! The gateway's table of connections, and its lists of connections with pending work.

use std::collections::VecDeque;

use weir_door::ConnectionId;

use super::connection::Connection;

/// All connections, by slot. A slot is reused with a new generation.
#[derive(Debug, Default)]
pub struct Connections {
    slots: Vec<Slot>,
    free: Vec<u32>,
    count: usize,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    connection: Option<Box<Connection>>,
}

impl Connections {
    /// Reserves a slot and returns the id of its connection.
    pub fn reserve(&mut self) -> ConnectionId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).expect("far fewer connections than 2^32")
        });
        let generation = &mut self.slots[slot as usize].generation;
        *generation = generation.wrapping_add(1);
        self.count += 1;
        ConnectionId::new(slot, *generation)
    }

    /// Frees a reserved slot.
    pub fn release(&mut self, id: ConnectionId) {
        let slot = u32::try_from(id.slot()).expect("slots are 32-bit numbers");
        self.slots[id.slot()].connection = None;
        self.free.push(slot);
        self.count -= 1;
    }

    /// Puts a connection into its slot, for the first time or again.
    pub fn put_back(&mut self, connection: Box<Connection>) {
        let slot = connection.id.slot();
        self.slots[slot].connection = Some(connection);
    }

    /// Takes a connection out of its slot, so that it and the gateway can be borrowed separately.
    pub fn take(&mut self, id: ConnectionId) -> Option<Box<Connection>> {
        let slot = self.slots.get_mut(id.slot())?;
        slot.connection.take_if(|connection| connection.id == id)
    }

    /// Returns a connection in its slot.
    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let connection = self.slots.get_mut(id.slot())?.connection.as_deref_mut()?;
        (connection.id == id).then_some(connection)
    }

    /// Returns the connection in a slot, whatever its id.
    pub fn in_slot(&mut self, slot: usize) -> Option<&mut Connection> {
        self.slots.get_mut(slot)?.connection.as_deref_mut()
    }

    /// Returns the ids of all connections.
    #[must_use]
    pub fn ids(&self) -> Vec<ConnectionId> {
        let connections = self.slots.iter().filter_map(|slot| slot.connection.as_ref());
        connections.map(|connection| connection.id).collect()
    }

    /// Returns the number of connections.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }
}

/// Connections with output to write, each once.
#[derive(Debug, Default)]
pub struct FlushList {
    ids: Vec<ConnectionId>,
}

impl FlushList {
    /// Adds a connection unless it is in the list.
    pub fn add(&mut self, connection: &mut Connection) {
        if !connection.in_flush_list {
            connection.in_flush_list = true;
            self.ids.push(connection.id);
        }
    }

    /// Takes the list; the caller clears its connections' marks.
    pub fn take(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.ids)
    }
}

/// Connections with input to read or to take, each once.
#[derive(Debug, Default)]
pub struct ReadList {
    ids: VecDeque<ConnectionId>,
}

impl ReadList {
    /// Adds a connection unless it is in the list.
    pub fn add(&mut self, connection: &mut Connection) {
        if !connection.in_read_list {
            connection.in_read_list = true;
            self.ids.push_back(connection.id);
        }
    }

    /// Takes the connection that has waited longest; the caller clears its mark.
    pub fn pop_front(&mut self) -> Option<ConnectionId> {
        self.ids.pop_front()
    }

    /// Returns the number of connections in the list.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns true when the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}
