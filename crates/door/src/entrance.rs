//! The source of a door's connections: a listening socket, or the thread of TLS handshakes.

use std::net::SocketAddr;

use mio::net::TcpListener;
use mio::{Interest, Registry, Token};
use rtrb::Consumer;

use crate::handshakes::Secured;
use crate::transport::Transport;

/// A source of connections that no poll knows yet.
pub enum Door {
    /// A listening socket.
    Plain(std::net::TcpListener),
    /// Connections with a completed handshake, from [`crate::handshakes`].
    Tls(Consumer<Secured>),
}

/// An open door: its socket, if it has one, is registered with a poll.
pub enum Entrance {
    /// A socket, and whether a connection may be pending there.
    Plain(TcpListener, bool),
    /// Connections with a completed handshake.
    Tls(Consumer<Secured>),
}

impl Door {
    /// Opens it. The poll reports pending connections under `token`.
    ///
    /// # Errors
    /// When the operating system refuses.
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
    /// The poll has reported a pending connection.
    pub fn is_ready(&mut self) {
        if let Entrance::Plain(_, may_accept) = self {
            *may_accept = true;
        }
    }

    /// The next connection, and its peer's address if the system knows it.
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
                    // Otherwise the peer gave up, or descriptors ran out: the next call tries it.
                    *may_accept = error.kind() != std::io::ErrorKind::WouldBlock;
                    None
                }
            },
        }
    }
}
