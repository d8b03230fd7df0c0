//! Where connections come from: a socket that listens, or the thread of TLS's handshakes.

use std::net::SocketAddr;

use mio::net::TcpListener;
use mio::{Interest, Registry, Token};
use rtrb::Consumer;

use crate::handshakes::Secured;
use crate::transport::Transport;

/// Where connections come from.
pub enum Door {
    /// A socket that listens: connections are taken in as they come.
    Plain(std::net::TcpListener),
    /// Connections whose handshake is done, from [`crate::handshakes`].
    Tls(Consumer<Secured>),
}

/// A door that is open: a socket of it is registered with a poll.
pub enum Entrance {
    /// A socket, and whether a connection may wait there.
    Plain(TcpListener, bool),
    /// Connections whose handshake is done.
    Tls(Consumer<Secured>),
}

impl Door {
    /// Opens it; `token` is what the poll says when a connection waits at a socket.
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
    /// The poll said that a connection waits.
    pub fn is_ready(&mut self) {
        if let Entrance::Plain(_, may_accept) = self {
            *may_accept = true;
        }
    }

    /// The next connection, and who it is where the system knows.
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
                    // Otherwise the peer gave up, or descriptors ran out: it is tried again.
                    *may_accept = error.kind() != std::io::ErrorKind::WouldBlock;
                    None
                }
            },
        }
    }
}
