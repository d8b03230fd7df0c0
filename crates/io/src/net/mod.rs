//! The network seam: a poll with readiness events, a waker, listening sockets and streams.
//!
//! Each type is an enum of the system's kind, over mio, and the simulated kind of [`sim`]. It is no
//! type parameter, because that would stand on every connection, list and agent above it, while an
//! enum costs one predictable branch beside a system call: no allocation, no copy and no further
//! call. A simulated kind comes only from a [`sim::SimNet`]: a node has none, and is all real.
//!
//! Readiness is edge-triggered, as `epoll`'s: an event says that something has changed, and the
//! owner reads or writes until `WouldBlock` before it waits for the next. `tests/net.rs` runs the
//! same scripts on both kinds.
//!
//! Datagrams and multicast are not here: market data's receivers and publishers use mio and the
//! system's sockets directly. They can share a poll with streams by [`Registry::register_other`].

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, RawFd};
use std::time::Duration;

use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Interest, Token as SystemToken};

pub mod sim;

use crate::descriptors::{DescriptorRoom, room_beside};
use sim::{SimListener, SimNet, SimPoll, SimStream, SimWaker};

/// A registration's number, returned with its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(pub usize);

/// A change of a registered socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The token of the socket's registration.
    pub token: Token,
    /// A read, or an accept, may succeed.
    pub is_readable: bool,
    /// A write may succeed.
    pub is_writable: bool,
    /// The peer sends nothing more: the end follows the bytes that are still there.
    pub is_read_closed: bool,
}

impl From<&mio::event::Event> for Event {
    fn from(event: &mio::event::Event) -> Event {
        Event {
            token: Token(event.token().0),
            is_readable: event.is_readable(),
            is_writable: event.is_writable(),
            is_read_closed: event.is_read_closed(),
        }
    }
}

/// The events of one poll; their memory is used again by the next.
#[derive(Debug)]
pub struct Events {
    system: mio::Events,
    simulated: Vec<Event>,
    count_max: usize,
}

impl Events {
    /// Creates a list with room for `count` events; more wait for the next poll.
    #[must_use]
    pub fn with_capacity(count: usize) -> Events {
        let system = mio::Events::with_capacity(count);
        Events { system, simulated: Vec::new(), count_max: count }
    }

    /// Returns the events of the last poll.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        self.system.iter().map(Event::from).chain(self.simulated.iter().copied())
    }
}

/// The network that a part uses: its source of polls.
#[derive(Clone, Debug)]
pub enum Net {
    /// The operating system's.
    System,
    /// A simulated one.
    Simulated(SimNet),
}

impl Net {
    /// Creates a poll without registrations.
    ///
    /// # Errors
    /// Returns the operating system's error if it refuses.
    pub fn poll(&self) -> Result<Poll> {
        Ok(match self {
            Net::System => Poll::System(mio::Poll::new()?),
            Net::Simulated(net) => Poll::Simulated(net.poll()),
        })
    }
}

/// A poll over registered sockets.
#[derive(Debug)]
pub enum Poll {
    /// The operating system's.
    System(mio::Poll),
    /// A simulated one.
    Simulated(SimPoll),
}

impl Poll {
    /// Waits for events for at most `timeout`, for ever without one. A simulated poll never waits.
    ///
    /// # Errors
    /// Returns the operating system's error; `Interrupted` is none of the poll's own.
    pub fn poll(&mut self, events: &mut Events, timeout: Option<Duration>) -> Result<()> {
        match self {
            Poll::System(poll) => poll.poll(&mut events.system, timeout),
            Poll::Simulated(poll) => {
                poll.poll(&mut events.simulated, events.count_max);
                Ok(())
            }
        }
    }

    /// Returns the registrations.
    #[must_use]
    pub fn registry(&self) -> Registry<'_> {
        match self {
            Poll::System(poll) => Registry::System(poll.registry()),
            Poll::Simulated(poll) => Registry::Simulated(poll),
        }
    }

    /// Creates the waker of a thread that waits in this poll. A poll has at most one.
    ///
    /// # Errors
    /// Returns the operating system's error if it refuses.
    pub fn waker(&self, token: Token) -> Result<Waker> {
        Ok(match self {
            Poll::System(poll) => {
                Waker::System(mio::Waker::new(poll.registry(), SystemToken(token.0))?)
            }
            Poll::Simulated(poll) => Waker::Simulated(poll.waker(token)),
        })
    }
}

/// The registrations of a poll.
#[derive(Clone, Copy, Debug)]
pub enum Registry<'a> {
    /// Those of a system's poll.
    System(&'a mio::Registry),
    /// Those of a simulated poll.
    Simulated(&'a SimPoll),
}

impl Registry<'_> {
    /// Registers a stream for reading and writing under `token`.
    ///
    /// # Errors
    /// Returns the operating system's error, or `Unsupported` for a stream of the other kind.
    pub fn register(self, stream: &mut Stream, token: Token) -> Result<()> {
        match (self, stream) {
            (Registry::Simulated(poll), Stream::Simulated(stream)) => {
                poll.register_stream(stream, token);
                Ok(())
            }
            (Registry::System(registry), stream) => {
                let interest = Interest::READABLE | Interest::WRITABLE;
                registry.register(stream, SystemToken(token.0), interest)
            }
            _ => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// Removes a stream.
    ///
    /// # Errors
    /// As for [`Registry::register`].
    pub fn deregister(self, stream: &mut Stream) -> Result<()> {
        match (self, stream) {
            (Registry::Simulated(poll), Stream::Simulated(stream)) => {
                poll.deregister_stream(stream);
                Ok(())
            }
            (Registry::System(registry), stream) => registry.deregister(stream),
            _ => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// Registers a listening socket under `token`.
    ///
    /// # Errors
    /// As for [`Registry::register`].
    pub fn register_listener(self, listener: &mut Listener, token: Token) -> Result<()> {
        match (self, listener) {
            (Registry::System(registry), Listener::System(listener)) => {
                registry.register(listener, SystemToken(token.0), Interest::READABLE)
            }
            (Registry::Simulated(poll), Listener::Simulated(listener)) => {
                poll.register_listener(listener, token);
                Ok(())
            }
            _ => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// Registers a descriptor of the system's under `token`, for reading: a disk's completions.
    ///
    /// # Errors
    /// Returns the operating system's error; `Unsupported` in a simulated poll.
    pub fn register_fd(self, fd: RawFd, token: Token) -> Result<()> {
        self.register_other(&mut SourceFd(&fd), token)
    }

    /// Registers another source of the system's under `token`, for reading: a datagram socket.
    ///
    /// # Errors
    /// Returns the operating system's error; `Unsupported` in a simulated poll.
    pub fn register_other(self, source: &mut dyn Source, token: Token) -> Result<()> {
        match self {
            Registry::System(registry) => {
                registry.register(source, SystemToken(token.0), Interest::READABLE)
            }
            Registry::Simulated(_) => Err(ErrorKind::Unsupported.into()),
        }
    }
}

/// Ends a poll's wait from another thread.
#[derive(Debug)]
pub enum Waker {
    /// Of a system's poll.
    System(mio::Waker),
    /// Of a simulated poll.
    Simulated(SimWaker),
}

impl Waker {
    /// Ends the wait, or the next one.
    ///
    /// # Errors
    /// Returns the operating system's error; a full counter is one, and wakes all the same.
    pub fn wake(&self) -> Result<()> {
        match self {
            Waker::System(waker) => waker.wake(),
            Waker::Simulated(waker) => {
                waker.wake();
                Ok(())
            }
        }
    }
}

impl From<mio::Waker> for Waker {
    fn from(waker: mio::Waker) -> Waker {
        Waker::System(waker)
    }
}

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// The operating system's.
    System(mio::net::TcpListener),
    /// A simulated one.
    Simulated(SimListener),
}

impl Listener {
    /// Takes over a listening socket of the system.
    ///
    /// # Errors
    /// Returns the operating system's error if the socket cannot be made non-blocking.
    pub fn from_std(listener: std::net::TcpListener) -> Result<Listener> {
        listener.set_nonblocking(true)?;
        Ok(Listener::System(mio::net::TcpListener::from_std(listener)))
    }

    /// Accepts the next connection, with the peer's address.
    ///
    /// # Errors
    /// `WouldBlock` if none waits, or the error of the connection that waited.
    pub fn accept(&self) -> Result<(Stream, SocketAddr)> {
        match self {
            Listener::System(listener) => {
                let (stream, peer) = listener.accept()?;
                Ok((Stream::Tcp(stream), peer))
            }
            Listener::Simulated(listener) => {
                let (stream, peer) = listener.accept()?;
                Ok((Stream::Simulated(stream), peer))
            }
        }
    }
}

/// A stream of bytes in both directions; neither a read nor a write blocks.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(mio::net::TcpStream),
    /// One end of a pair of sockets; the other end is a part of this process.
    Local(mio::net::UnixStream),
    /// A simulated stream.
    Simulated(SimStream),
}

impl Stream {
    /// Returns true for an end of a pair inside the process.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self, Stream::Local(_))
    }

    /// Returns the peer's address, if the system knows it.
    #[must_use]
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().ok(),
            Stream::Local(_) => None,
            Stream::Simulated(stream) => Some(stream.peer_addr()),
        }
    }

    /// Returns the room for further descriptors beside this stream, which was just accepted. One
    /// from inside the process counts with those that it serves.
    #[must_use]
    pub fn descriptor_room(&self) -> DescriptorRoom {
        match self {
            Stream::Tcp(stream) => room_beside(stream.as_fd()),
            Stream::Local(_) => DescriptorRoom::Plenty,
            Stream::Simulated(stream) => stream.descriptor_room(),
        }
    }

    /// Sets `TCP_NODELAY`, so that small writes are sent at once; does nothing without TCP.
    ///
    /// # Errors
    /// Returns the operating system's error if it refuses.
    pub fn set_nodelay(&self) -> Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nodelay(true),
            Stream::Local(_) | Stream::Simulated(_) => Ok(()),
        }
    }

    /// Ends this side: the peer reads the end of the stream after the bytes before it.
    ///
    /// # Errors
    /// Returns the operating system's error, `NotConnected` after a reset.
    pub fn shutdown_write(&self) -> Result<()> {
        match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Local(stream) => stream.shutdown(Shutdown::Write),
            Stream::Simulated(stream) => stream.shutdown_write(),
        }
    }
}

impl From<mio::net::TcpStream> for Stream {
    fn from(stream: mio::net::TcpStream) -> Stream {
        Stream::Tcp(stream)
    }
}

impl From<mio::net::UnixStream> for Stream {
    fn from(stream: mio::net::UnixStream) -> Stream {
        Stream::Local(stream)
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(into),
            Stream::Local(stream) => stream.read(into),
            Stream::Simulated(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Local(stream) => stream.write(bytes),
            Stream::Simulated(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A stream of the system can also be registered with a poll of mio's.
impl Source for Stream {
    fn register(
        &mut self,
        registry: &mio::Registry,
        token: SystemToken,
        interests: Interest,
    ) -> Result<()> {
        self.of_system()?.register(registry, token, interests)
    }

    fn reregister(
        &mut self,
        registry: &mio::Registry,
        token: SystemToken,
        interests: Interest,
    ) -> Result<()> {
        self.of_system()?.reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &mio::Registry) -> Result<()> {
        self.of_system()?.deregister(registry)
    }
}

impl Stream {
    fn of_system(&mut self) -> Result<&mut dyn Source> {
        match self {
            Stream::Tcp(stream) => Ok(stream),
            Stream::Local(stream) => Ok(stream),
            Stream::Simulated(_) => Err(Error::from(ErrorKind::Unsupported)),
        }
    }
}
