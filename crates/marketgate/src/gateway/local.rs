//! Connections from inside the node: the HTTP door subscribes for each of its readers on one.
//!
//! A connection is a socket pair. The flush thread's end is a subscriber's connection like any
//! other: it logs on, its output is bounded, and messages without room stay in the second stage of
//! conflation. A slow HTTP reader therefore costs no more than any slow subscriber. The pair's
//! buffer is small, because messages in it are no longer merged.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use weir_io::descriptors::{DescriptorRoom, room_beside};
use weir_io::net::Stream;
use weir_runtime::Wake;

/// The maximum number of connections waiting for a flush thread.
const WAITING_MAX: usize = 64;
/// The size of a pair's buffer towards the reader, in bytes, as the system counts.
const BUFFER_LEN: usize = 64 * 1024;

/// Connects clients inside the node to the flush threads.
#[derive(Debug)]
pub struct LocalDoors {
    doors: Vec<LocalDoor>,
    next: AtomicUsize,
}

/// The queue of connections to one flush thread.
#[derive(Debug)]
pub(super) struct LocalDoor {
    to: SyncSender<UnixStream>,
    wake: Wake,
}

/// The flush thread's end of the queue of connections.
#[derive(Debug)]
pub struct LocalEntrance(Receiver<UnixStream>);

impl LocalDoor {
    /// Creates both ends of a queue; `wake` wakes the flush thread.
    pub fn new(wake: Wake) -> (LocalDoor, LocalEntrance) {
        let (to, from) = sync_channel(WAITING_MAX);
        (LocalDoor { to, wake }, LocalEntrance(from))
    }
}

impl LocalEntrance {
    /// The next waiting connection.
    pub(super) fn next(&self) -> Option<Stream> {
        let stream = self.0.try_recv().ok()?;
        Some(Stream::Local(mio::net::UnixStream::from_std(stream)))
    }
}

impl LocalDoors {
    pub(super) fn new(doors: Vec<LocalDoor>) -> LocalDoors {
        LocalDoors { doors, next: AtomicUsize::new(0) }
    }

    /// Connects to the flush threads in rotation; neither end blocks.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when the queue is full, or no descriptor is left for
    /// connections; [`io::ErrorKind::NotConnected`] when the thread has ended; the operating
    /// system's error when it cannot create a pair.
    pub fn connect(&self) -> io::Result<UnixStream> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.doors.len().max(1);
        let door = self.doors.get(turn).ok_or(io::ErrorKind::NotConnected)?;
        let (ours, theirs) = UnixStream::pair()?;
        if room_beside(theirs.as_fd()) == DescriptorRoom::None {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        rustix::net::sockopt::set_socket_send_buffer_size(&theirs, BUFFER_LEN)?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        door.to.try_send(theirs).map_err(|error| match error {
            TrySendError::Full(_) => io::ErrorKind::WouldBlock,
            TrySendError::Disconnected(_) => io::ErrorKind::NotConnected,
        })?;
        door.wake.wake();
        Ok(ours)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn each_flush_thread_has_its_turn_and_no_more_wait_than_may() {
        let (first, first_entrance) = LocalDoor::new(Wake::new());
        let (second, second_entrance) = LocalDoor::new(Wake::new());
        let doors = LocalDoors::new(vec![first, second]);
        let mut kept = Vec::new();
        for _ in 0..WAITING_MAX {
            kept.push(doors.connect().unwrap());
            kept.push(doors.connect().unwrap());
        }
        assert_eq!(doors.connect().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        for entrance in [&first_entrance, &second_entrance] {
            assert_eq!(std::iter::from_fn(|| entrance.next()).count(), WAITING_MAX);
        }
        drop(second_entrance);
        let kinds = [doors.connect(), doors.connect()].map(|one| one.err().map(|e| e.kind()));
        assert!(kinds.contains(&Some(io::ErrorKind::NotConnected)), "{kinds:?}");
    }

    #[test]
    fn what_nobody_reads_stays_with_who_writes() {
        let (door, entrance) = LocalDoor::new(Wake::new());
        let doors = LocalDoors::new(vec![door]);
        let mut reader = doors.connect().unwrap();
        let Some(Stream::Local(mut writer)) = entrance.next() else { panic!("none waits") };
        // The system doubles the requested size.
        let room = rustix::net::sockopt::socket_send_buffer_size(&writer).unwrap();
        assert!(room <= 2 * BUFFER_LEN, "{room}");
        let mut taken = 0;
        while let Ok(len) = writer.write(&[7; 1_024]) {
            taken += len;
            assert!(taken <= 4 * BUFFER_LEN, "the pair takes all that it is given");
        }
        let mut some = [0; 1_024];
        reader.read_exact(&mut some).unwrap();
        assert_eq!(some, [7; 1_024]);
    }
}
