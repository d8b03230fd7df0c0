//! A non-blocking connection to a node, plain or with TLS: frames in, frames out, both buffers
//! bounded.
//!
//! It blocks only in [`Connection::open`], never interprets a message and never drops a byte: a
//! reader that falls behind stops reading (TCP back-pressure), a writer over its limit gets an
//! error.
//!
//! INVARIANT: `head <= tail <= inbox.len()`, `sent <= outbox.len()`.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use weir_tls::link::SCRATCH_LEN;
use weir_tls::{ClientTls, Link, LinkError};
use weir_wire::dialogue::NodeMessage;
use weir_wire::frame::{FRAME_HEADER_LEN, Framing, RawMessage, next_frame};

use crate::error::{AddressFailure, ClientError};
use crate::wait::wait_for;

/// The limits of a connection's buffers.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest frame accepted from the node, in bytes; also the size of the receive buffer.
    pub frame_len_max: usize,
    /// The most bytes that may wait to be sent.
    pub outbox_len_max: usize,
    /// The timeout for connecting.
    pub connect_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            frame_len_max: 4 << 20,
            outbox_len_max: 8 << 20,
            connect_timeout: Duration::from_secs(5),
        }
    }
}

/// The addresses of a node, or of several doors to the same partitions, and their transport. An
/// address alone means without TLS.
///
/// | the first address | afterwards |
/// | --- | --- |
/// | does not answer | the next one is tried, and comes first |
/// | answers and opens no session in time, or refuses it for now | the next one comes first |
/// | refuses the session for good, as with a wrong key | it stays the first: all would refuse |
#[derive(Clone, Debug)]
pub struct Target {
    /// INVARIANT: one at least. The first is tried first.
    addresses: VecDeque<SocketAddr>,
    tls: Option<ClientTls>,
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Target {
        Target::of(address, None)
    }
}

impl Target {
    /// Returns the target of one address; `tls` if the node uses TLS.
    #[must_use]
    pub fn of(address: SocketAddr, tls: Option<ClientTls>) -> Target {
        Target { addresses: VecDeque::from([address]), tls }
    }

    /// Adds an address that is tried when those before it do not answer.
    #[must_use]
    pub fn or(mut self, address: SocketAddr) -> Target {
        self.addresses.push_back(address);
        self
    }

    /// Returns the address that is tried first: the one that answered last, or the next one behind
    /// those that were passed over since.
    ///
    /// # Panics
    /// Never: there is one at least.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        *self.addresses.front().expect("one at least")
    }

    /// Replaces all addresses by one: a restarted node may listen elsewhere.
    pub fn set_address(&mut self, address: SocketAddr) {
        self.addresses = VecDeque::from([address]);
    }

    /// Tries the next address first from now on: the one so far answers, and does not serve.
    pub fn pass_over(&mut self) {
        self.addresses.rotate_left(1);
    }

    /// Passes over the first address if its error may be another one's success, or later its own.
    pub(crate) fn pass_over_after(&mut self, error: &ClientError) {
        if error.is_passing() {
            self.pass_over();
        }
    }

    /// Connects to the first address that answers, and tries it first from now on.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub fn connect(&mut self, limits: Limits) -> Result<Connection, ClientError> {
        self.connect_after(&mut Vec::new(), limits)
    }

    /// As [`Target::connect`], if some of the addresses have failed: these are behind the others.
    /// Adds the failures of those that it tries, and returns all if none is left.
    pub(crate) fn connect_after(
        &mut self,
        failed: &mut Vec<AddressFailure>,
        limits: Limits,
    ) -> Result<Connection, ClientError> {
        while failed.len() < self.addresses.len() {
            let address = self.address();
            match Connection::open_at(address, self.tls.as_ref(), limits) {
                Ok(connection) => return Ok(connection),
                Err(error) => failed.push(AddressFailure { address, error }),
            }
            self.pass_over();
        }
        Err(ClientError::of_addresses(std::mem::take(failed)))
    }
}

/// The transport of the frames.
#[derive(Debug)]
enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsTransport>),
}

#[derive(Debug)]
struct TlsTransport {
    stream: TcpStream,
    link: Link,
    scratch: Vec<u8>,
    /// True if bytes may be available without waiting: poll does not see bytes held by the link.
    more: bool,
}

/// A connection to a node.
#[derive(Debug)]
pub struct Connection {
    transport: Transport,
    inbox: Vec<u8>,
    head: usize,
    tail: usize,
    outbox: Vec<u8>,
    sent: usize,
    limits: Limits,
}

/// Resolves `HOST:PORT`.
///
/// # Errors
/// [`ClientError::Address`].
pub fn resolve(address: &str) -> Result<SocketAddr, ClientError> {
    let found: Vec<_> = address.to_socket_addrs().into_iter().flatten().collect();
    preferred(&found).ok_or_else(|| ClientError::Address(address.to_owned()))
}

/// Returns the address of a host to connect to: the first of IPv4, since a node listens on
/// 127.0.0.1 by default and `localhost` is also `::1`.
#[must_use]
pub fn preferred(found: &[SocketAddr]) -> Option<SocketAddr> {
    found.iter().find(|address| address.is_ipv4()).or(found.first()).copied()
}

impl Connection {
    /// Connects to the first of the target's addresses that answers, and completes the TLS
    /// handshake if the target has TLS.
    ///
    /// # Errors
    /// [`ClientError::Connect`], [`ClientError::Handshake`]; of several addresses
    /// [`ClientError::Addresses`].
    ///
    /// # Panics
    /// When a limit is shorter than a frame's header.
    pub fn open(target: impl Into<Target>, limits: Limits) -> Result<Connection, ClientError> {
        target.into().connect(limits)
    }

    fn open_at(
        address: SocketAddr,
        tls: Option<&ClientTls>,
        limits: Limits,
    ) -> Result<Connection, ClientError> {
        assert!(limits.frame_len_max > FRAME_HEADER_LEN, "frames have a header");
        let refuse = |source| ClientError::Connect { address, source };
        let deadline = Instant::now() + limits.connect_timeout;
        let stream =
            TcpStream::connect_timeout(&address, limits.connect_timeout).map_err(refuse)?;
        stream.set_nodelay(true).map_err(refuse)?;
        match tls {
            None => Connection::of(stream, limits).map_err(refuse),
            Some(tls) => {
                let link = tls.connect().map_err(LinkError::Tls);
                let transport = link
                    .and_then(|link| shake_hands(stream, link, deadline, limits))
                    .map_err(|source| ClientError::Handshake { address, source })?;
                Ok(Connection::over(Transport::Tls(Box::new(transport)), limits))
            }
        }
    }

    /// Wraps a connected stream, without TLS.
    ///
    /// # Errors
    /// Those of the system, when the stream cannot be made non-blocking.
    pub fn of(stream: TcpStream, limits: Limits) -> std::io::Result<Connection> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Connection::over(Transport::Plain(stream), limits))
    }

    /// Wraps a connected stream with TLS; the handshake proceeds as bytes come.
    ///
    /// # Errors
    /// As [`Connection::of`].
    pub fn with_link(stream: TcpStream, link: Link, limits: Limits) -> std::io::Result<Connection> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let transport = TlsTransport::new(stream, link, limits);
        Ok(Connection::over(Transport::Tls(Box::new(transport)), limits))
    }

    fn over(transport: Transport, limits: Limits) -> Connection {
        Connection {
            transport,
            // The system maps zeroed pages on first use: a large limit costs nothing until then.
            inbox: vec![0; limits.frame_len_max],
            head: 0,
            tail: 0,
            outbox: Vec::with_capacity(16 << 10),
            sent: 0,
            limits,
        }
    }

    /// The buffer to which frames are appended; [`Connection::flush`] sends them, in one write.
    pub fn outbox(&mut self) -> &mut Vec<u8> {
        &mut self.outbox
    }

    /// The number of bytes not sent yet.
    #[must_use]
    pub fn backlog_len(&self) -> usize {
        let in_records = match &self.transport {
            Transport::Plain(_) => 0,
            Transport::Tls(tls) => tls.link.unsent_len(),
        };
        self.outbox.len() - self.sent + in_records
    }

    /// Sends until the socket would block; the rest stays queued.
    ///
    /// # Errors
    /// [`ClientError::Io`], [`ClientError::Closed`], [`ClientError::OutboxFull`].
    pub fn flush(&mut self) -> Result<(), ClientError> {
        let waiting = &self.outbox[self.sent..];
        self.sent += match &mut self.transport {
            Transport::Plain(stream) => write_plain(stream, waiting),
            Transport::Tls(tls) => tls.write(waiting),
        }
        .map_err(|error| match error.kind() {
            kind if is_peer_gone(kind) => ClientError::Closed,
            _ => ClientError::io("sending", error),
        })?;
        if self.sent == self.outbox.len() {
            self.outbox.clear();
            self.sent = 0;
        } else if self.sent >= self.limits.outbox_len_max / 2 {
            self.outbox.drain(..self.sent);
            self.sent = 0;
        }
        let (len, max) = (self.backlog_len(), self.limits.outbox_len_max);
        if len > max {
            return Err(ClientError::OutboxFull { len, max });
        }
        Ok(())
    }

    /// Reads the socket once; returns the number of bytes.
    ///
    /// # Errors
    /// [`ClientError::Io`], [`ClientError::Closed`], and with TLS [`ClientError::Cut`],
    /// [`ClientError::Tls`].
    pub fn receive(&mut self) -> Result<usize, ClientError> {
        self.make_room();
        let room = &mut self.inbox[self.tail..];
        let len = match &mut self.transport {
            Transport::Plain(stream) => read_plain(stream, room),
            Transport::Tls(tls) => tls.read(room),
        }?;
        self.tail += len;
        Ok(len)
    }

    /// True if [`Connection::receive`] may return bytes that a wait on the socket would not see.
    #[must_use]
    pub fn has_more(&self) -> bool {
        match &self.transport {
            Transport::Plain(_) => false,
            Transport::Tls(tls) => tls.more,
        }
    }

    fn make_room(&mut self) {
        if self.head == self.tail {
            (self.head, self.tail) = (0, 0);
        } else if self.tail == self.inbox.len() {
            self.inbox.copy_within(self.head..self.tail, 0);
            self.tail -= self.head;
            self.head = 0;
        }
    }

    /// Returns the next frame's message, undecoded, and the outbox. `None` when more bytes are
    /// needed.
    ///
    /// # Errors
    /// [`ClientError::Broken`]; [`ClientError::Decode`] for an error in the header.
    pub fn next_raw(&mut self) -> Result<Option<(RawMessage<'_>, &mut Vec<u8>)>, ClientError> {
        match next_frame(&self.inbox[self.head..self.tail], self.limits.frame_len_max) {
            Framing::Incomplete => Ok(None),
            Framing::Broken(broken) => Err(broken.into()),
            Framing::Frame { len, message } => {
                self.head += len;
                Ok(Some((message?, &mut self.outbox)))
            }
        }
    }

    /// Returns the next complete frame as bytes. `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`ClientError::Broken`].
    pub fn next_whole_frame(&mut self) -> Result<Option<&[u8]>, ClientError> {
        match next_frame(&self.inbox[self.head..self.tail], self.limits.frame_len_max) {
            Framing::Incomplete => Ok(None),
            Framing::Broken(broken) => Err(broken.into()),
            Framing::Frame { len, .. } => {
                let start = self.head;
                self.head += len;
                Ok(Some(&self.inbox[start..start + len]))
            }
        }
    }

    /// Sends queued bytes and waits up to `timeout` for bytes; returns the number received.
    ///
    /// # Errors
    /// As [`Connection::flush`] and [`Connection::receive`].
    pub fn exchange(&mut self, timeout: Duration) -> Result<usize, ClientError> {
        let deadline = Instant::now() + timeout;
        loop {
            self.flush()?;
            let len = self.receive()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if len > 0 || left.is_zero() {
                return Ok(len);
            }
            if !self.has_more() {
                wait_for(self.as_fd(), self.backlog_len() > 0, left)
                    .map_err(|error| ClientError::io("waiting", error))?;
            }
        }
    }

    /// Returns the next complete message, and the outbox, so that it can be answered before its
    /// group is decoded. `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`ClientError::Broken`], [`ClientError::Decode`].
    pub fn next_message(&mut self) -> Result<Option<(NodeMessage<'_>, &mut Vec<u8>)>, ClientError> {
        match self.next_raw()? {
            None => Ok(None),
            Some((raw, outbox)) => Ok(Some((NodeMessage::decode(&raw)?, outbox))),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.transport {
            Transport::Plain(stream) => stream.as_fd(),
            Transport::Tls(tls) => tls.stream.as_fd(),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Sends close_notify if the socket takes it: without it the node sees a cut connection.
        if let Transport::Tls(tls) = &mut self.transport {
            tls.link.say_farewell();
            let _ = tls.link.write(&mut tls.stream, &[]);
        }
    }
}

impl TlsTransport {
    fn new(stream: TcpStream, link: Link, limits: Limits) -> TlsTransport {
        let scratch = vec![0; SCRATCH_LEN.min(limits.frame_len_max)];
        TlsTransport { stream, link, scratch, more: false }
    }

    /// Encrypts bytes and sends what the stream accepts; returns the number of bytes encrypted.
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.link.is_handshaking() {
            // Before the handshake ends, bytes would go to an unauthenticated peer.
            return Ok(0);
        }
        self.link.write(&mut self.stream, bytes).map(|written| written.len)
    }

    /// Reads the stream once; returns the number of decrypted bytes.
    fn read(&mut self, room: &mut [u8]) -> Result<usize, ClientError> {
        self.more = false;
        if self.link.is_handshaking()
            && !self.link.handshake(&mut self.stream, &mut self.scratch)?
        {
            return Ok(0);
        }
        let taken = self.link.read(&mut self.stream, room, &mut self.scratch)?;
        self.more = taken.more;
        Ok(taken.len)
    }
}

fn write_plain(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(0) => return Err(ErrorKind::BrokenPipe.into()),
            Ok(len) => sent += len,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

fn read_plain(stream: &mut TcpStream, room: &mut [u8]) -> Result<usize, ClientError> {
    loop {
        return match stream.read(room) {
            Ok(0) if !room.is_empty() => Err(ClientError::Closed),
            Ok(len) => Ok(len),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(error) if is_peer_gone(error.kind()) => Err(ClientError::Closed),
            Err(error) => Err(ClientError::io("receiving", error)),
        };
    }
}

/// Performs the handshake, until `deadline`.
fn shake_hands(
    stream: TcpStream,
    link: Link,
    deadline: Instant,
    limits: Limits,
) -> Result<TlsTransport, LinkError> {
    stream.set_nonblocking(true)?;
    let mut tls = TlsTransport::new(stream, link, limits);
    while !tls.link.handshake(&mut tls.stream, &mut tls.scratch)? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(LinkError::Io(ErrorKind::TimedOut.into()));
        }
        wait_for(tls.stream.as_fd(), tls.link.unsent_len() > 0, left)?;
    }
    // The link may hold bytes that came behind the handshake, which a wait on the socket does not
    // see.
    tls.more = true;
    Ok(tls)
}

fn is_peer_gone(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted
    )
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use weir_types::{EventNo, Nanos, PartitionId, SessionId};
    use weir_wire::frame::put_frame;
    use weir_wire::session::Heartbeat;

    use super::*;

    fn pair(limits: Limits) -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = Connection::open(listener.local_addr().unwrap(), limits).unwrap();
        (connection, listener.accept().unwrap().0)
    }

    fn heartbeat(high_water: u64) -> Heartbeat {
        Heartbeat {
            sending_time: Nanos(1),
            high_water: EventNo(high_water),
            session_id: SessionId(1),
            partition_id: PartitionId(1),
            load_permille: 0,
        }
    }

    fn receive_all(connection: &mut Connection, count: usize) -> Vec<u64> {
        let mut marks = Vec::new();
        while marks.len() < count {
            crate::clock::wait([&*connection], Duration::from_secs(5)).unwrap();
            connection.receive().unwrap();
            while let Some((message, _)) = connection.next_message().unwrap() {
                let NodeMessage::Heartbeat(heartbeat) = message else { panic!("{message:?}") };
                marks.push(heartbeat.high_water.0);
            }
        }
        marks
    }

    #[test]
    fn a_host_with_addresses_of_both_kinds_is_reached_by_ipv4() {
        let addresses = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        for (found, want) in [
            (&["[::1]:7080", "127.0.0.1:7080"][..], Some("127.0.0.1:7080")),
            (&["[::1]:7080"], Some("[::1]:7080")),
            (&[], None),
        ] {
            let want = want.map(|text| text.parse().unwrap());
            assert_eq!(preferred(&addresses(found)), want, "{found:?}");
        }
    }

    #[test]
    fn frames_that_arrive_in_pieces_are_put_together() {
        // The buffer holds two and a half frames, so every third frame wraps.
        let mut bytes = Vec::new();
        for mark in 0..50 {
            put_frame(&heartbeat(mark), &mut bytes);
        }
        let frame_len = bytes.len() / 50;
        let limits = Limits { frame_len_max: frame_len * 5 / 2, ..Limits::default() };
        let (mut connection, mut peer) = pair(limits);
        let writer = std::thread::spawn(move || {
            for piece in bytes.chunks(7) {
                peer.write_all(piece).unwrap();
            }
            peer
        });
        assert_eq!(receive_all(&mut connection, 50), (0..50).collect::<Vec<_>>());
        drop(writer.join().unwrap());
        crate::clock::wait([&connection], Duration::from_secs(5)).unwrap();
        assert!(matches!(connection.receive(), Err(ClientError::Closed)));
    }

    #[test]
    fn a_peer_that_does_not_read_fills_the_outbox_to_its_limit_only() {
        let limits = Limits { outbox_len_max: 1 << 20, ..Limits::default() };
        let (mut connection, _peer) = pair(limits);
        // More than any system buffers for a peer: 10,000 times about 400 KB.
        let full = (0..10_000).find_map(|mark| {
            (0..10_000).for_each(|_| put_frame(&heartbeat(mark), connection.outbox()));
            connection.flush().err()
        });
        assert!(matches!(full, Some(ClientError::OutboxFull { max: 1_048_576, .. })), "{full:?}");
    }

    #[test]
    fn a_frame_over_the_limit_breaks_the_connection() {
        let (mut connection, mut peer) = pair(Limits { frame_len_max: 20, ..Limits::default() });
        let mut bytes = Vec::new();
        put_frame(&heartbeat(1), &mut bytes);
        peer.write_all(&bytes).unwrap();
        crate::clock::wait([&connection], Duration::from_secs(5)).unwrap();
        connection.receive().unwrap();
        assert!(matches!(connection.next_message(), Err(ClientError::Broken(_))));
    }

    #[test]
    fn the_next_address_is_tried_and_the_one_that_answered_comes_first_from_then_on() {
        let closed = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let open = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = open.local_addr().unwrap();
        let mut target = Target::from(closed()).or(closed()).or(address);
        target.connect(Limits::default()).unwrap();
        assert_eq!(target.address(), address);
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut target = target.or(other.local_addr().unwrap());
        target.connect(Limits::default()).unwrap();
        assert_eq!(target.address(), address, "it answered before");
        target.pass_over();
        drop(open);
        target.connect(Limits::default()).unwrap();
        assert_eq!(target.address(), other.local_addr().unwrap());
        drop(other);
        let error = target.connect(Limits::default()).unwrap_err();
        let told = error.to_string();
        for address in &target.addresses {
            assert!(told.contains(&address.to_string()), "{told} names {address}");
        }
        assert!(error.is_connection_lost());
        let mut alone = Target::from(address);
        assert!(matches!(alone.connect(Limits::default()), Err(ClientError::Connect { .. })));
    }
}
