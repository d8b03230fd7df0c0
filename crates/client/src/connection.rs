//! A non-blocking TCP connection to a node: frames in, frames out, both bounded.
//!
//! It never blocks but in [`Connection::open`], never interprets a message and never drops a byte:
//! a reader that falls behind stops reading (TCP pushes back), a writer over its limit is told so.
//!
//! INVARIANT: `head <= tail <= inbox.len()`, `sent <= outbox.len()`.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use weir_wire::dialogue::NodeMessage;
use weir_wire::frame::{FRAME_HEADER_LEN, Framing, RawMessage, next_frame};

use crate::error::ClientError;

/// The bounds of a connection's buffers.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest frame taken from the node, in bytes; also the size of the receive buffer.
    pub frame_len_max: usize,
    /// The most bytes that may wait to be sent.
    pub outbox_len_max: usize,
    /// How long to wait for the connection to be made.
    pub connect_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            frame_len_max: 4 << 20,
            outbox_len_max: 8 << 20,
            connect_timeout: Duration::from_secs(5),
        }
    }
}

/// A connection to a node.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    inbox: Vec<u8>,
    head: usize,
    tail: usize,
    outbox: Vec<u8>,
    sent: usize,
    limits: Limits,
}

/// Resolves `HOST:PORT`.
///
/// # Errors
/// [`ClientError::Address`].
pub fn resolve(address: &str) -> Result<SocketAddr, ClientError> {
    address
        .to_socket_addrs()
        .ok()
        .and_then(|mut addresses| addresses.next())
        .ok_or_else(|| ClientError::Address(address.to_owned()))
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// [`ClientError::Connect`].
    ///
    /// # Panics
    /// When a limit is shorter than a frame's header.
    pub fn open(address: SocketAddr, limits: Limits) -> Result<Connection, ClientError> {
        assert!(limits.frame_len_max > FRAME_HEADER_LEN, "frames have a header");
        TcpStream::connect_timeout(&address, limits.connect_timeout)
            .and_then(|stream| Connection::of(stream, limits))
            .map_err(|source| ClientError::Connect { address, source })
    }

    /// Over a stream that is connected already.
    ///
    /// # Errors
    /// The system's, when the stream cannot be made non-blocking.
    pub fn of(stream: TcpStream, limits: Limits) -> std::io::Result<Connection> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Connection {
            stream,
            // Zeroed pages come from the system untouched: a large limit costs nothing until used.
            inbox: vec![0; limits.frame_len_max],
            head: 0,
            tail: 0,
            outbox: Vec::with_capacity(16 << 10),
            sent: 0,
            limits,
        })
    }

    /// Where frames to send are appended; [`Connection::flush`] sends them, in one write.
    pub fn outbox(&mut self) -> &mut Vec<u8> {
        &mut self.outbox
    }

    /// Bytes that wait to be sent.
    #[must_use]
    pub fn backlog_len(&self) -> usize {
        self.outbox.len() - self.sent
    }

    /// Sends what the system takes now; the rest stays.
    ///
    /// # Errors
    /// [`ClientError::Io`], [`ClientError::Closed`], [`ClientError::OutboxFull`].
    pub fn flush(&mut self) -> Result<(), ClientError> {
        while self.sent < self.outbox.len() {
            match self.stream.write(&self.outbox[self.sent..]) {
                Ok(0) => return Err(ClientError::Closed),
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if is_peer_gone(error.kind()) => return Err(ClientError::Closed),
                Err(error) => return Err(ClientError::io("sending", error)),
            }
        }
        if self.sent == self.outbox.len() {
            self.outbox.clear();
            self.sent = 0;
        } else if self.sent >= self.limits.outbox_len_max / 2 {
            self.outbox.drain(..self.sent);
            self.sent = 0;
        }
        let (len, max) = (self.backlog_len(), self.limits.outbox_len_max);
        if len > max {
            return Err(ClientError::OutboxFull { len, max });
        }
        Ok(())
    }

    /// Takes what has come, in one read; how many bytes.
    ///
    /// # Errors
    /// [`ClientError::Io`], [`ClientError::Closed`].
    pub fn receive(&mut self) -> Result<usize, ClientError> {
        self.make_room();
        loop {
            return match self.stream.read(&mut self.inbox[self.tail..]) {
                Ok(0) if self.tail < self.inbox.len() => Err(ClientError::Closed),
                Ok(len) => {
                    self.tail += len;
                    Ok(len)
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
                Err(error) if is_peer_gone(error.kind()) => Err(ClientError::Closed),
                Err(error) => Err(ClientError::io("receiving", error)),
            };
        }
    }

    fn make_room(&mut self) {
        if self.head == self.tail {
            (self.head, self.tail) = (0, 0);
        } else if self.tail == self.inbox.len() {
            self.inbox.copy_within(self.head..self.tail, 0);
            self.tail -= self.head;
            self.head = 0;
        }
    }

    /// The next frame's message, undecoded, and the outbox. `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`ClientError::Broken`], [`ClientError::Decode`] for what is wrong with the header.
    pub fn next_raw(&mut self) -> Result<Option<(RawMessage<'_>, &mut Vec<u8>)>, ClientError> {
        match next_frame(&self.inbox[self.head..self.tail], self.limits.frame_len_max) {
            Framing::Incomplete => Ok(None),
            Framing::Broken(broken) => Err(broken.into()),
            Framing::Frame { len, message } => {
                self.head += len;
                Ok(Some((message?, &mut self.outbox)))
            }
        }
    }

    /// The next message that is there in whole, and the outbox, so that it can be answered before
    /// it is decoded further. `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`ClientError::Broken`], [`ClientError::Decode`].
    pub fn next_message(&mut self) -> Result<Option<(NodeMessage<'_>, &mut Vec<u8>)>, ClientError> {
        match self.next_raw()? {
            None => Ok(None),
            Some((raw, outbox)) => Ok(Some((NodeMessage::decode(&raw)?, outbox))),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn is_peer_gone(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted
    )
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use weir_types::{EventNo, Nanos, PartitionId, SessionId};
    use weir_wire::frame::put_frame;
    use weir_wire::session::Heartbeat;

    use super::*;

    fn pair(limits: Limits) -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = Connection::open(listener.local_addr().unwrap(), limits).unwrap();
        (connection, listener.accept().unwrap().0)
    }

    fn heartbeat(high_water: u64) -> Heartbeat {
        Heartbeat {
            sending_time: Nanos(1),
            high_water: EventNo(high_water),
            session_id: SessionId(1),
            partition_id: PartitionId(1),
            load_permille: 0,
        }
    }

    fn receive_all(connection: &mut Connection, count: usize) -> Vec<u64> {
        let mut marks = Vec::new();
        while marks.len() < count {
            crate::clock::wait([&*connection], Duration::from_secs(5)).unwrap();
            connection.receive().unwrap();
            while let Some((message, _)) = connection.next_message().unwrap() {
                let NodeMessage::Heartbeat(heartbeat) = message else { panic!("{message:?}") };
                marks.push(heartbeat.high_water.0);
            }
        }
        marks
    }

    #[test]
    fn frames_that_arrive_in_pieces_are_put_together() {
        // A buffer of two and a half frames wraps within every third.
        let mut bytes = Vec::new();
        for mark in 0..50 {
            put_frame(&heartbeat(mark), &mut bytes);
        }
        let frame_len = bytes.len() / 50;
        let limits = Limits { frame_len_max: frame_len * 5 / 2, ..Limits::default() };
        let (mut connection, mut peer) = pair(limits);
        let writer = std::thread::spawn(move || {
            for piece in bytes.chunks(7) {
                peer.write_all(piece).unwrap();
            }
            peer
        });
        assert_eq!(receive_all(&mut connection, 50), (0..50).collect::<Vec<_>>());
        drop(writer.join().unwrap());
        crate::clock::wait([&connection], Duration::from_secs(5)).unwrap();
        assert!(matches!(connection.receive(), Err(ClientError::Closed)));
    }

    #[test]
    fn a_peer_that_does_not_read_fills_the_outbox_to_its_limit_only() {
        let limits = Limits { outbox_len_max: 1 << 20, ..Limits::default() };
        let (mut connection, _peer) = pair(limits);
        // More than any system buffers for a peer: 10,000 times about 400 KB.
        let full = (0..10_000).find_map(|mark| {
            (0..10_000).for_each(|_| put_frame(&heartbeat(mark), connection.outbox()));
            connection.flush().err()
        });
        assert!(matches!(full, Some(ClientError::OutboxFull { max: 1_048_576, .. })), "{full:?}");
    }

    #[test]
    fn a_frame_over_the_limit_breaks_the_connection() {
        let (mut connection, mut peer) = pair(Limits { frame_len_max: 20, ..Limits::default() });
        let mut bytes = Vec::new();
        put_frame(&heartbeat(1), &mut bytes);
        peer.write_all(&bytes).unwrap();
        crate::clock::wait([&connection], Duration::from_secs(5)).unwrap();
        connection.receive().unwrap();
        assert!(matches!(connection.next_message(), Err(ClientError::Broken(_))));
    }
}
