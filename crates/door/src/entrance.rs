//! A door's source of connections: a listening socket, or the thread of TLS handshakes.

use std::net::SocketAddr;

use mio::net::TcpListener;
use mio::{Interest, Registry, Token};
use rtrb::Consumer;

use crate::handshakes::Secured;
use crate::transport::Transport;

/// A source of connections that is not open yet.
pub enum Door {
    /// A listening socket, for connections without TLS.
    Plain(std::net::TcpListener),
    /// Connections that completed their handshake, from [`crate::handshakes`].
    Tls(Consumer<Secured>),
}

/// An open source of connections; a listening socket is registered with a poll.
pub enum Entrance {
    /// A listening socket, and a flag that is true while a connection may be waiting on it.
    Plain(TcpListener, bool),
    /// Connections that completed their handshake.
    Tls(Consumer<Secured>),
}

impl Door {
    /// Opens the source; the poll reports a waiting connection under `token`.
    ///
    /// # Errors
    /// Returns the operating system's error if it refuses.
    pub fn open(self, registry: &Registry, token: Token) -> std::io::Result<Entrance> {
        match self {
            Door::Plain(listener) => {
                listener.set_nonblocking(true)?;
                let mut listener = TcpListener::from_std(listener);
                registry.register(&mut listener, token, Interest::READABLE)?;
                Ok(Entrance::Plain(listener, true))
            }
            Door::Tls(secured) => Ok(Entrance::Tls(secured)),
        }
    }
}

impl Entrance {
    /// Notes that the poll reported a waiting connection.
    pub fn is_ready(&mut self) {
        if let Entrance::Plain(_, may_accept) = self {
            *may_accept = true;
        }
    }

    /// Returns the next connection, with the peer's address if the system knows it.
    pub fn accept(&mut self) -> Option<(Transport, Option<SocketAddr>)> {
        match self {
            Entrance::Tls(secured) => {
                let mut transport = secured.pop().ok()?.into_transport();
                let peer = transport.tcp().and_then(|stream| stream.peer_addr().ok());
                Some((transport, peer))
            }
            Entrance::Plain(_, false) => None,
            Entrance::Plain(listener, may_accept) => match listener.accept() {
                Ok((stream, peer)) => Some((Transport::Plain(stream), Some(peer))),
                Err(error) => {
                    // On other errors the peer gave up or descriptors ran out; the next call tries
                    // again.
                    *may_accept = error.kind() != std::io::ErrorKind::WouldBlock;
                    None
                }
            },
        }
    }
}
