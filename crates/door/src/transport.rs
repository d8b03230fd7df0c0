//! What carries a connection's bytes: TCP alone, TLS over it, or a pair of sockets inside the node.
//! The one place where they differ.
//!
//! For who is connected to, the handshake is over before a transport is made:
//! [`super::handshakes`] does it elsewhere. Who connects does it by the way.

use std::io::{ErrorKind, Read, Write};

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use weir_tls::{Link, LinkError};

/// Bytes in and out of a socket.
#[derive(Debug)]
pub enum Transport {
    /// The socket's own bytes.
    Plain(TcpStream),
    /// Bytes in records.
    Tls(Box<TlsTransport>),
    /// One end of a pair: who is at the other is a part of this node.
    Local(UnixStream),
}

/// A socket and the records on it.
#[derive(Debug)]
pub struct TlsTransport {
    /// The socket.
    pub stream: TcpStream,
    /// The TLS state between it and the frames.
    pub link: Link,
}

/// What a read gave.
#[derive(Clone, Copy, Debug)]
pub struct Got {
    /// Bytes read.
    pub len: usize,
    /// Whether another read may give more before the socket's next event.
    pub more: bool,
    /// Whether the socket gave anything.
    pub moved: bool,
}

/// What a write did.
#[derive(Clone, Copy, Debug)]
pub struct Put {
    /// Bytes taken.
    pub len: usize,
    /// Whether the socket took anything.
    pub moved: bool,
    /// Whether it takes no more now.
    pub blocked: bool,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The peer closed it, or the socket failed.
    Closed,
    /// TLS without its farewell: somebody may have cut it.
    Truncated,
    /// TLS with bytes that are not the peer's.
    Broken,
}

impl Transport {
    /// The client's end of TLS over a socket; its handshake goes on as it is read and written.
    #[must_use]
    pub fn client(stream: TcpStream, link: Link) -> Transport {
        Transport::Tls(Box::new(TlsTransport { stream, link }))
    }

    /// Reads once, as much as fits; `sealed` takes the bytes of TLS before they are opened.
    ///
    /// # Errors
    /// The end of the connection, once all that came before it was read.
    pub fn read(&mut self, room: &mut [u8], sealed: &mut [u8]) -> Result<Got, Ending> {
        match self {
            Transport::Plain(stream) => read_plain(stream, room),
            Transport::Local(stream) => read_plain(stream, room),
            Transport::Tls(tls) => tls.read(room, sealed),
        }
    }

    /// Writes until the socket takes no more.
    ///
    /// # Errors
    /// The end of the connection.
    pub fn write(&mut self, bytes: &[u8]) -> Result<Put, Ending> {
        match self {
            Transport::Plain(stream) => write_plain(stream, bytes),
            Transport::Local(stream) => write_plain(stream, bytes),
            Transport::Tls(tls) => {
                let put = tls.link.write(&mut tls.stream, bytes).map_err(|_| Ending::Closed)?;
                Ok(Put { len: put.len, moved: put.moved, blocked: put.blocked })
            }
        }
    }

    /// Bytes that were taken and that the socket may not have yet.
    #[must_use]
    pub fn unsent_len(&self) -> usize {
        match self {
            Transport::Plain(_) | Transport::Local(_) => 0,
            Transport::Tls(tls) => tls.link.unsent_len(),
        }
    }

    /// Says, where there is a word for it, that nothing more comes; the next write sends it.
    pub fn say_farewell(&mut self) {
        if let Transport::Tls(tls) = self {
            tls.link.say_farewell();
        }
    }

    /// The socket, for the poll.
    pub fn socket(&mut self) -> &mut dyn Source {
        match self {
            Transport::Plain(stream) => stream,
            Transport::Tls(tls) => &mut tls.stream,
            Transport::Local(stream) => stream,
        }
    }

    /// The socket, where it is one of TCP's.
    pub fn tcp(&mut self) -> Option<&mut TcpStream> {
        match self {
            Transport::Plain(stream) => Some(stream),
            Transport::Tls(tls) => Some(&mut tls.stream),
            Transport::Local(_) => None,
        }
    }

    /// What is written goes at once, also where it is little.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn set_nodelay(&mut self) -> std::io::Result<()> {
        self.tcp().map_or(Ok(()), |stream| stream.set_nodelay(true))
    }
}

fn read_plain(stream: &mut impl Read, room: &mut [u8]) -> Result<Got, Ending> {
    match stream.read(room) {
        Ok(0) => Err(Ending::Closed),
        // Edge-triggered: a short read emptied the socket, the next bytes bring an event.
        Ok(len) => Ok(Got { len, more: len == room.len(), moved: true }),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            Ok(Got { len: 0, more: false, moved: false })
        }
        Err(error) if error.kind() == ErrorKind::Interrupted => {
            Ok(Got { len: 0, more: true, moved: false })
        }
        Err(_) => Err(Ending::Closed),
    }
}

fn write_plain(stream: &mut impl Write, bytes: &[u8]) -> Result<Put, Ending> {
    let mut put = Put { len: 0, moved: false, blocked: false };
    while put.len < bytes.len() {
        match stream.write(&bytes[put.len..]) {
            Ok(0) => return Err(Ending::Closed),
            Ok(len) => {
                put.len += len;
                put.moved = true;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                put.blocked = true;
                break;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(Ending::Closed),
        }
    }
    Ok(put)
}

impl TlsTransport {
    fn read(&mut self, room: &mut [u8], sealed: &mut [u8]) -> Result<Got, Ending> {
        match self.link.read(&mut self.stream, room, sealed) {
            Ok(taken) => Ok(Got { len: taken.len, more: taken.more, moved: taken.moved }),
            Err(LinkError::Closed | LinkError::Io(_)) => Err(Ending::Closed),
            Err(LinkError::Truncated) => Err(Ending::Truncated),
            Err(LinkError::Tls(_)) => {
                // The alert that says so; a peer that does not take it goes without.
                let _ = self.link.write(&mut self.stream, &[]);
                Err(Ending::Broken)
            }
        }
    }
}
