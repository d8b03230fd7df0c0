//! A connection's transport: a stream, with or without TLS. No other module depends on which of the
//! two it is.
//!
//! On the server's side [`super::handshakes`] completes the TLS handshake before a transport
//! exists. On the client's side the handshake proceeds as the transport is read and written.

use std::io::{ErrorKind, Read, Write};

use weir_io::net::Stream;
use weir_tls::{Link, LinkError};
use weir_types::Nanos;

/// A stream, with or without TLS.
#[derive(Debug)]
pub enum Transport {
    /// A stream without TLS.
    Plain(Stream),
    /// TLS over a stream.
    Tls(Box<TlsTransport>),
}

/// A stream and its TLS state.
#[derive(Debug)]
pub struct TlsTransport {
    /// The stream.
    pub stream: Stream,
    /// The TLS state.
    pub link: Link,
    /// The time at which the node accepted the stream, before the handshake; `None` at the client's
    /// end.
    pub accepted_at: Option<Nanos>,
}

/// The result of a read.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Bytes read.
    pub len: usize,
    /// True if another read may return more before the socket's next event.
    pub more: bool,
    /// True if the socket returned any bytes.
    pub moved: bool,
}

/// The result of a write.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Bytes taken.
    pub len: usize,
    /// True if the socket took any bytes.
    pub moved: bool,
    /// True if the socket takes no more now.
    pub blocked: bool,
}

/// The kind of a connection's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The peer closed it, or the socket failed.
    Closed,
    /// TLS ended without `close_notify`: the stream may have been truncated.
    Truncated,
    /// The bytes received break TLS: they are not the peer's.
    Broken,
}

impl Transport {
    /// Creates the client's end of TLS over a socket; the handshake proceeds as it is read and
    /// written.
    #[must_use]
    pub fn client(stream: Stream, link: Link) -> Transport {
        Transport::Tls(Box::new(TlsTransport { stream, link, accepted_at: None }))
    }

    /// Returns the time at which the node accepted the stream if a handshake came between that and
    /// the transport.
    #[must_use]
    pub fn accepted_at(&self) -> Option<Nanos> {
        match self {
            Transport::Plain(_) => None,
            Transport::Tls(tls) => tls.accepted_at,
        }
    }

    /// Reads once, as much as fits into `room`; `sealed` is scratch for TLS records not yet
    /// decrypted.
    ///
    /// # Errors
    /// The end of the connection, after all bytes before it were read.
    pub fn read(&mut self, room: &mut [u8], sealed: &mut [u8]) -> Result<Received, Ending> {
        match self {
            Transport::Plain(stream) => read_plain(stream, room),
            Transport::Tls(tls) => tls.read(room, sealed),
        }
    }

    /// Writes until the socket takes no more.
    ///
    /// # Errors
    /// The end of the connection.
    pub fn write(&mut self, bytes: &[u8]) -> Result<Sent, Ending> {
        match self {
            Transport::Plain(stream) => write_plain(stream, bytes),
            Transport::Tls(tls) => {
                let put = tls.link.write(&mut tls.stream, bytes).map_err(|_| Ending::Closed)?;
                Ok(Sent { len: put.len, moved: put.moved, blocked: put.blocked })
            }
        }
    }

    /// Returns the number of bytes taken that the socket may not have yet.
    #[must_use]
    pub fn unsent_len(&self) -> usize {
        match self {
            Transport::Plain(_) => 0,
            Transport::Tls(tls) => tls.link.unsent_len(),
        }
    }

    /// Queues TLS's `close_notify`, which the next write sends; does nothing without TLS.
    pub fn say_farewell(&mut self) {
        if let Transport::Tls(tls) = self {
            tls.link.say_farewell();
        }
    }

    /// Returns the stream, for the poll and for its options.
    pub fn stream(&mut self) -> &mut Stream {
        match self {
            Transport::Plain(stream) => stream,
            Transport::Tls(tls) => &mut tls.stream,
        }
    }
}

fn read_plain(stream: &mut impl Read, room: &mut [u8]) -> Result<Received, Ending> {
    match stream.read(room) {
        Ok(0) => Err(Ending::Closed),
        // Edge-triggered: a short read emptied the socket, so the next bytes raise an event.
        Ok(len) => Ok(Received { len, more: len == room.len(), moved: true }),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            Ok(Received { len: 0, more: false, moved: false })
        }
        Err(error) if error.kind() == ErrorKind::Interrupted => {
            Ok(Received { len: 0, more: true, moved: false })
        }
        Err(_) => Err(Ending::Closed),
    }
}

fn write_plain(stream: &mut impl Write, bytes: &[u8]) -> Result<Sent, Ending> {
    let mut put = Sent { len: 0, moved: false, blocked: false };
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
    fn read(&mut self, room: &mut [u8], sealed: &mut [u8]) -> Result<Received, Ending> {
        match self.link.read(&mut self.stream, room, sealed) {
            Ok(taken) => Ok(Received { len: taken.len, more: taken.more, moved: taken.moved }),
            Err(LinkError::Closed | LinkError::Io(_)) => Err(Ending::Closed),
            Err(LinkError::Truncated) => Err(Ending::Truncated),
            Err(LinkError::Tls(_)) => {
                // Sends the TLS alert; if the socket does not take it, the peer gets none.
                let _ = self.link.write(&mut self.stream, &[]);
                Err(Ending::Broken)
            }
        }
    }
}
