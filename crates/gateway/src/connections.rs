//! The gateway's table of connections, and the lists of those with something to do.

use std::collections::VecDeque;

use weir_door::ConnectionId;
use weir_door::table::Table;

use super::connection::Connection;

/// All connections, by slot.
pub type Connections = Table<Connection>;

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

    /// The connection that has waited longest; the caller clears its mark.
    pub fn pop_front(&mut self) -> Option<ConnectionId> {
        self.ids.pop_front()
    }

    /// The number of connections in the list.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True if no connection waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}
