//! The readiness of many connections, by one system call.
//!
//! `epoll` keeps the list of watched connections, so that a wait costs in proportion to the ready
//! ones and not to the open ones. Its own timeouts are milliseconds, too coarse for a load
//! generator: the wait is `ppoll` on epoll's descriptor, in nanoseconds.
//!
//! INVARIANT: a connection is watched for room to write exactly while it has bytes to send.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::connection::Connection;
use crate::error::ClientError;
use crate::wait::wait_for;

/// The most connections reported per call; the others follow in the next.
const READY_MAX: usize = 256;
const NOT_AT_ALL: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Watched connections, each by its index.
pub struct Readiness {
    list: OwnedFd,
    events: [Event; READY_MAX],
    /// By index: true while epoll reports when the connection is writable.
    wants_out: Vec<bool>,
    /// Indices of connections that hold more bytes than the socket shows.
    more: Vec<usize>,
}

impl Readiness {
    /// Watches these connections; their indices are in the order given.
    ///
    /// # Errors
    /// [`ClientError::Io`] when the system has no descriptor left.
    pub fn of<'a>(
        connections: impl IntoIterator<Item = &'a Connection>,
    ) -> Result<Readiness, ClientError> {
        let list = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
        let empty = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let events = [empty; READY_MAX];
        let mut readiness = Readiness { list, events, wants_out: Vec::new(), more: Vec::new() };
        for (place, connection) in connections.into_iter().enumerate() {
            let data = EventData::new_u64(place as u64);
            epoll::add(&readiness.list, connection, data, EventFlags::IN).map_err(failed)?;
            readiness.wants_out.push(false);
            readiness.note(place, connection)?;
        }
        Ok(readiness)
    }

    /// Records the state of a connection after it was written or read: bytes to send, bytes that
    /// the socket does not show.
    ///
    /// # Errors
    /// [`ClientError::Io`].
    ///
    /// # Panics
    /// When no connection has this index.
    pub fn note(&mut self, place: usize, connection: &Connection) -> Result<(), ClientError> {
        if connection.has_more() && !self.more.contains(&place) {
            self.more.push(place);
        }
        let wants_out = connection.backlog_len() > 0;
        if wants_out != self.wants_out[place] {
            let out = if wants_out { EventFlags::OUT } else { EventFlags::empty() };
            let data = EventData::new_u64(place as u64);
            epoll::modify(&self.list, connection, data, EventFlags::IN | out).map_err(failed)?;
            self.wants_out[place] = wants_out;
        }
        Ok(())
    }

    /// Waits until one of the connections is ready or `timeout` has passed.
    ///
    /// # Errors
    /// [`ClientError::Io`]; an interrupted wait is no error.
    pub fn wait(&self, timeout: Duration) -> Result<(), ClientError> {
        if self.more.is_empty() {
            wait_for(self.list.as_fd(), false, timeout)
                .map_err(|error| ClientError::io("waiting for the node", error))?;
        }
        Ok(())
    }

    /// Writes the indices of the ready connections to `ready`, a bounded number at a time.
    ///
    /// # Errors
    /// [`ClientError::Io`].
    pub fn take(&mut self, ready: &mut Vec<usize>) -> Result<(), ClientError> {
        ready.clear();
        ready.append(&mut self.more);
        let count = match epoll::wait(&self.list, &mut self.events, Some(&NOT_AT_ALL)) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(failed(error)),
        };
        let known = ready.len();
        for event in &self.events[..count] {
            let place = usize::try_from(event.data.u64()).expect("places are indices");
            if !ready[..known].contains(&place) {
                ready.push(place);
            }
        }
        Ok(())
    }
}

fn failed(error: rustix::io::Errno) -> ClientError {
    ClientError::io("waiting for the node", error.into())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::connection::Limits;

    fn pairs(count: usize) -> (Vec<Connection>, Vec<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (0..count)
            .map(|_| {
                let connection = Connection::open(address, Limits::default()).unwrap();
                (connection, listener.accept().unwrap().0)
            })
            .unzip()
    }

    #[test]
    fn those_that_have_something_are_told_until_it_is_taken() {
        let (mut connections, mut peers) = pairs(5);
        let mut readiness = Readiness::of(&connections).unwrap();
        let mut ready = vec![7];
        readiness.take(&mut ready).unwrap();
        assert!(ready.is_empty(), "{ready:?}");
        for place in [3, 1] {
            peers[place].write_all(b"x").unwrap();
            // The byte has arrived when the peer's own end is readable.
            crate::clock::wait([&connections[place]], Duration::from_secs(60)).unwrap();
        }
        for _ in 0..2 {
            readiness.wait(Duration::from_secs(60)).unwrap();
            readiness.take(&mut ready).unwrap();
            ready.sort_unstable();
            assert_eq!(ready, [1, 3]);
        }
        assert_eq!(connections[1].receive().unwrap(), 1);
        readiness.note(1, &connections[1]).unwrap();
        readiness.take(&mut ready).unwrap();
        assert_eq!(ready, [3]);
    }

    #[test]
    fn room_to_write_is_told_only_to_who_has_bytes_to_send() {
        let (mut connections, mut peers) = pairs(2);
        let mut readiness = Readiness::of(&connections).unwrap();
        let mut ready = Vec::new();
        // More than the system buffers for a peer that does not read.
        while connections[0].backlog_len() == 0 {
            connections[0].outbox().extend_from_slice(&[7; 1 << 20]);
            connections[0].flush().unwrap();
        }
        readiness.note(0, &connections[0]).unwrap();
        readiness.take(&mut ready).unwrap();
        assert!(ready.is_empty(), "there is no room and nothing came: {ready:?}");
        let mut taken = vec![0; 1 << 20];
        while ready.is_empty() {
            assert!(peers[0].read(&mut taken).unwrap() > 0);
            readiness.take(&mut ready).unwrap();
        }
        assert_eq!(ready, [0]);
    }
}
