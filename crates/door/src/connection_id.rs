//! The number of a connection: the door that accepted it, and its slot and generation there.

/// The doors whose connections ask for order state. Each has a ring of its own to the agent that
/// answers ([`crate::reader_ports`]), at the index that is its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorNo(pub u8);

impl DoorNo {
    /// The gateway.
    pub const GATEWAY: DoorNo = DoorNo(0);
    /// Readers over HTTP and WebSocket.
    pub const WEB: DoorNo = DoorNo(1);

    /// The index of its ring.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Bits below a connection's door.
const NUMBER_BITS: u32 = 56;

/// A connection's door, slot and generation, so that a late answer to a closed connection is not
/// sent to its successor: the door in the upper 8 bits, the generation in the next 24, the slot in
/// the lower 32. A slot's generation repeats after 2^24 connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    /// The id of the `generation`-th user of `slot` at the gateway.
    #[must_use]
    pub fn new(slot: u32, generation: u32) -> ConnectionId {
        ConnectionId::at(DoorNo::GATEWAY, u64::from(generation) << 32 | u64::from(slot))
    }

    /// The id of connection `number` at a door; the lower 56 bits of the number count.
    #[must_use]
    pub fn at(door: DoorNo, number: u64) -> ConnectionId {
        ConnectionId(u64::from(door.0) << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1))
    }

    /// The door that accepted the connection.
    #[must_use]
    pub fn door(self) -> DoorNo {
        DoorNo(self.0.to_be_bytes()[0])
    }

    /// The place in the door's table.
    #[must_use]
    pub fn slot(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_knows_its_door_and_slot_in_every_generation() {
        for (slot, generation) in [(0, 0), (7, 1), (u32::MAX, u32::MAX)] {
            let id = ConnectionId::new(slot, generation);
            assert_eq!((id.door(), id.slot()), (DoorNo::GATEWAY, slot as usize));
        }
        assert_ne!(ConnectionId::new(7, 1), ConnectionId::new(7, 2));
        for number in [0, 1, u64::MAX] {
            assert_eq!(ConnectionId::at(DoorNo::WEB, number).door(), DoorNo::WEB);
        }
    }
}
