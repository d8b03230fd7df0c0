//! A bare relay: a process that copies bytes between each client's socket and one to a node.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

use anyhow::Context;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

/// The bytes read at once.
const READ_LEN: usize = 128 * 1024;
const LISTENER: Token = Token(0);

/// Options of `weir-bench relay`.
#[derive(Clone, Debug, clap::Args)]
pub struct RelayArgs {
    /// The address to which bytes are carried.
    #[arg(long)]
    to: SocketAddr,
}

/// One direction of a connection.
#[derive(Default)]
struct Way {
    /// Bytes that the other socket has not taken.
    waiting: Vec<u8>,
}

/// A connection: the client's socket and the node's, and the bytes towards each.
struct Relayed {
    sockets: [TcpStream; 2],
    towards: [Way; 2],
}

/// Relays until the process ends.
///
/// # Errors
/// The listener or the poll cannot be opened.
pub fn run_relay(args: &RelayArgs) -> anyhow::Result<()> {
    let mut listener = TcpListener::bind("127.0.0.1:0".parse()?)?;
    println!("weir ready order-entry={} http=none", listener.local_addr()?);
    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(256));
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut all: Vec<Option<Relayed>> = Vec::new();
    let mut room = vec![0; READ_LEN];
    loop {
        poll.poll(&mut events, None).context("the relay's poll")?;
        for event in &events {
            let Some(socket) = event.token().0.checked_sub(1) else {
                while let Ok((client, _)) = listener.accept() {
                    all.push(Some(Relayed::open(client, args.to, &poll, all.len())?));
                }
                continue;
            };
            let of = &mut all[socket / 2];
            let is_open = of.as_mut().is_none_or(|one| one.carry(socket % 2, &mut room).is_ok());
            if !is_open {
                *of = None;
            }
        }
    }
}

impl Relayed {
    fn open(
        client: TcpStream,
        to: SocketAddr,
        poll: &Poll,
        index: usize,
    ) -> anyhow::Result<Relayed> {
        let node = std::net::TcpStream::connect(to).context("the node")?;
        node.set_nonblocking(true)?;
        let mut sockets = [client, TcpStream::from_std(node)];
        for (side, socket) in sockets.iter_mut().enumerate() {
            socket.set_nodelay(true)?;
            let token = Token(1 + 2 * index + side);
            poll.registry().register(socket, token, Interest::READABLE | Interest::WRITABLE)?;
        }
        Ok(Relayed { sockets, towards: Default::default() })
    }

    /// Carries all bytes that a socket has, and those that wait for it.
    fn carry(&mut self, from: usize, room: &mut [u8]) -> std::io::Result<()> {
        self.put(from)?;
        let into = 1 - from;
        loop {
            match self.sockets[from].read(room) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => {
                    self.towards[into].waiting.extend_from_slice(&room[..len]);
                    self.put(into)?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn put(&mut self, into: usize) -> std::io::Result<()> {
        let waiting = &mut self.towards[into].waiting;
        while !waiting.is_empty() {
            match self.sockets[into].write(waiting) {
                Ok(len) => drop(waiting.drain(..len)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
