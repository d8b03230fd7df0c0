//! The number of a connection: the door that accepted it, and its slot and generation there.

/// The number of a door whose connections ask for order state. It is the index of the door's ring
/// to the answering agent ([`crate::reader_ports`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorNo(pub u8);

impl DoorNo {
    /// The gateway.
    pub const GATEWAY: DoorNo = DoorNo(0);
    /// Readers over HTTP and WebSocket.
    pub const WEB: DoorNo = DoorNo(1);

    /// Returns the index of its ring.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The number of bits below the door's number.
const NUMBER_BITS: u32 = 56;

/// A connection's door (upper 8 bits), generation (next 24) and slot (lower 32). The generation
/// keeps a late answer to a closed connection from its slot's next connection; it repeats after
/// 2^24 connections of the slot. Only readers' doors have numbers of their own; every table gives
/// its connections those of [`DoorNo::GATEWAY`], since their ids never leave their door otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    /// Creates the id of a slot's connection, from the lower 24 bits of the generation.
    #[must_use]
    pub fn new(slot: u32, generation: u32) -> ConnectionId {
        ConnectionId::at(DoorNo::GATEWAY, u64::from(generation) << 32 | u64::from(slot))
    }

    /// Creates the id of connection `number` at a door, from the lower 56 bits of the number.
    #[must_use]
    pub fn at(door: DoorNo, number: u64) -> ConnectionId {
        ConnectionId(u64::from(door.0) << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1))
    }

    /// Returns the door that accepted the connection.
    #[must_use]
    pub fn door(self) -> DoorNo {
        DoorNo(self.0.to_be_bytes()[0])
    }

    /// Returns the connection's slot in the door's table.
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
