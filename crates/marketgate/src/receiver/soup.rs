//! A connection of SoupBinTCP that never blocks: packets out of what comes, and packets sent.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use mio::net::TcpStream;
use weir_feed::soupbin::{Inbox, SoupPacket};

/// Bytes of one read.
const READ_LEN: usize = 64 << 10;
/// Bytes that may wait to be sent: a client says little, so a server that leaves this much unread
/// is not there.
const UNSENT_MAX: usize = 4_096;

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    /// Bytes: there may be packets.
    Some,
    /// Nothing yet.
    Nothing,
    /// The other side has ended the connection.
    Closed,
}

/// A connection, or one that is being made.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    inbox: Inbox,
    buffer: Vec<u8>,
    unsent: Vec<u8>,
}

impl Connection {
    /// Begins to connect.
    pub fn open(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        let (inbox, buffer, unsent) = (Inbox::new(), vec![0; READ_LEN], Vec::new());
        Ok(Connection { stream, inbox, buffer, unsent })
    }

    /// Whether the connection is made; an error when it will not be.
    pub fn is_made(&self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends a packet, as far as the system takes it now.
    pub fn send(&mut self, packet: &SoupPacket<'_>) -> io::Result<()> {
        if !packet.write(&mut self.unsent) || self.unsent.len() > UNSENT_MAX {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.flush()
    }

    /// Sends what waits.
    pub fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads once. All packets of the read before must have been taken.
    pub fn receive(&mut self) -> io::Result<Arrived> {
        match self.stream.read(&mut self.buffer) {
            Ok(0) => Ok(Arrived::Closed),
            Ok(len) => {
                self.inbox.push(&self.buffer[..len]);
                Ok(Arrived::Some)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Ok(Arrived::Nothing),
                _ => Err(error),
            },
        }
    }

    /// The next whole packet of what was read, without its length.
    pub fn next_packet(&mut self) -> Option<&[u8]> {
        self.inbox.take()
    }
}
