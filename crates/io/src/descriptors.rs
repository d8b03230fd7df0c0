//! The descriptors that connections leave to the node's files.
//!
//! A process may have a limited number of descriptors, and a connection that finds the last one
//! takes it from the log, which then cannot open its next segment. The system gives a new socket
//! the lowest free number. So a socket with a high number says, without any count, that at least
//! as many descriptors are in use; and while no door keeps one beyond a number, those beyond it are
//! free for files:
//!
//! | the socket's number | room | the door |
//! | --- | --- | --- |
//! | below the limit less the reserve | plenty | admits it |
//! | in the first half of the reserve | short | admits it; strangers, if there are any, leave |
//! | beyond | none | closes it; strangers, if there are any, leave too |
//!
//! INVARIANT: while every door goes by this table, half of the reserve has no connection of a door.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, getrlimit};

/// The most descriptors that are kept from connections, where no more were asked for.
pub const RESERVE_MAX: u64 = 256;
/// The largest part of all descriptors that is kept from connections.
const RESERVE_SHARE: u64 = 4;
/// The most that are kept now.
static RESERVE: AtomicU64 = AtomicU64::new(RESERVE_MAX);

/// Keeps up to this many descriptors from connections from now on, in the whole process: one with
/// many logs has more files.
pub fn keep_reserve(descriptors: u64) {
    // SYNC: it guards no other memory, and is set before a door accepts connections.
    RESERVE.store(descriptors, Ordering::Relaxed);
}

/// The room that is left beside an accepted socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorRoom {
    /// There is room for more connections.
    Plenty,
    /// The reserve is reached.
    Short,
    /// Half of the reserve is used.
    None,
}

/// Returns the room that is left beside a socket that was just accepted.
#[must_use]
pub fn room_beside(socket: BorrowedFd<'_>) -> DescriptorRoom {
    let number = u64::try_from(socket.as_raw_fd()).unwrap_or(0);
    room_at(number, getrlimit(Resource::Nofile).current)
}

/// Returns the number of descriptors that are kept from connections where the process may have
/// `limit`.
#[must_use]
pub fn reserve_of(limit: u64) -> u64 {
    // SYNC: pairs with that of `keep_reserve`.
    reserve_up_to(limit, RESERVE.load(Ordering::Relaxed))
}

fn reserve_up_to(limit: u64, most: u64) -> u64 {
    (limit / RESERVE_SHARE).min(most)
}

fn room_at(number: u64, limit: Option<u64>) -> DescriptorRoom {
    let Some(limit) = limit else { return DescriptorRoom::Plenty };
    let left = limit.saturating_sub(number + 1);
    let reserve = reserve_of(limit);
    if left >= reserve {
        DescriptorRoom::Plenty
    } else if left >= reserve / 2 {
        DescriptorRoom::Short
    } else {
        DescriptorRoom::None
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn connections_leave_a_quarter_of_few_descriptors_and_some_of_many() {
        use DescriptorRoom::{None as NoRoom, Plenty, Short};
        let cases = [
            (512, [(0, Plenty), (383, Plenty), (384, Short), (447, Short), (448, NoRoom)]),
            (512, [(511, NoRoom), (512, NoRoom), (9_999, NoRoom), (3, Plenty), (100, Plenty)]),
            (
                10_256,
                [(0, Plenty), (9_999, Plenty), (10_000, Short), (10_127, Short), (10_128, NoRoom)],
            ),
        ];
        for (limit, rooms) in cases {
            for (number, room) in rooms {
                assert_eq!(room_at(number, Some(limit)), room, "{number} of {limit}");
            }
        }
        assert_eq!(room_at(u64::from(u32::MAX), None), Plenty);
    }

    #[test]
    fn more_files_keep_more_from_connections_up_to_a_quarter() {
        for (limit, most, want) in [(512, 256, 128), (10_256, 256, 256), (10_256, 1_000, 1_000)] {
            assert_eq!(reserve_up_to(limit, most), want, "{limit} {most}");
        }
    }

    #[test]
    fn a_socket_of_this_process_has_room_beside_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(room_beside(listener.as_fd()), DescriptorRoom::Plenty);
    }
}
