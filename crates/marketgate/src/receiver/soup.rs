//! A non-blocking SoupBinTCP connection: splits received bytes into packets and sends packets.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use mio::net::TcpStream;
use weir_feed::soupbin::{Inbox, SoupPacket};

/// The size of one read in bytes.
const READ_LEN: usize = 64 << 10;
/// The limit of unsent bytes: a client sends little, so a server that leaves this much unread is
/// dead.
const UNSENT_MAX: usize = 4_096;

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// Bytes arrived: packets may be complete.
    Some,
    /// Nothing arrived yet.
    Nothing,
    /// The server closed the connection.
    Closed,
}

/// A connection, established or in progress.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    inbox: Inbox,
    buffer: Vec<u8>,
    unsent: Vec<u8>,
}

impl Connection {
    /// Starts to connect.
    pub fn open(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        let (inbox, buffer, unsent) = (Inbox::new(), vec![0; READ_LEN], Vec::new());
        Ok(Connection { stream, inbox, buffer, unsent })
    }

    /// Returns true once the connection is established; an error if it failed.
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

    /// Sends a packet, as far as the system accepts it now.
    pub fn send(&mut self, packet: &SoupPacket<'_>) -> io::Result<()> {
        if !packet.write(&mut self.unsent) || self.unsent.len() > UNSENT_MAX {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.flush()
    }

    /// Sends unsent bytes.
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

    /// Reads once. All packets of the previous read must have been taken.
    pub fn receive(&mut self) -> io::Result<ReadOutcome> {
        match self.stream.read(&mut self.buffer) {
            Ok(0) => Ok(ReadOutcome::Closed),
            Ok(len) => {
                self.inbox.push(&self.buffer[..len]);
                Ok(ReadOutcome::Some)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Ok(ReadOutcome::Nothing),
                _ => Err(error),
            },
        }
    }

    /// Returns the next complete packet received, without its length.
    pub fn next_packet(&mut self) -> Option<&[u8]> {
        self.inbox.take()
    }
}
