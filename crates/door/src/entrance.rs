//! A door's source of connections: a listening socket, or the thread of TLS handshakes.

use std::net::SocketAddr;

use rtrb::Consumer;
use weir_io::net::{Listener, Registry, Token};

use crate::handshakes::SecuredConnection;
use crate::plant::{self, Plant};
use crate::transport::Transport;

/// A source of connections that is not open yet.
pub enum Door {
    /// A listening socket, for connections without TLS.
    Plain(Listener),
    /// Connections that completed their handshake, from [`crate::handshakes`].
    Tls(Consumer<SecuredConnection>),
}

/// An open source of connections; a listening socket is registered with a poll.
pub enum Entrance {
    /// A listening socket, and a flag that is true while a connection may be waiting on it.
    Plain(Listener, bool),
    /// Connections that completed their handshake.
    Tls(Consumer<SecuredConnection>),
}

impl Door {
    /// Opens the source; the poll reports a waiting connection under `token`.
    ///
    /// # Errors
    /// Returns the operating system's error if it refuses.
    pub fn open(self, registry: Registry<'_>, token: Token) -> std::io::Result<Entrance> {
        match self {
            Door::Plain(mut listener) => {
                registry.register_listener(&mut listener, token)?;
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
                let peer = transport.stream().peer_addr();
                Some((transport, peer))
            }
            Entrance::Plain(_, false) => None,
            Entrance::Plain(listener, may_accept) => match listener.accept() {
                Ok((stream, peer)) => Some((Transport::Plain(stream), Some(peer))),
                Err(error) => {
                    // On other errors the peer gave up or descriptors ran out; the next call tries
                    // again.
                    *may_accept = error.kind() != std::io::ErrorKind::WouldBlock
                        && !plant::is(Plant::AcceptsEndWithoutDescriptors);
                    None
                }
            },
        }
    }
}
