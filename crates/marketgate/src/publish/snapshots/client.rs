//! One client of the snapshot server: its socket, what it said, what it is still to get.
//!
//! It never blocks and holds little of its own: a login's bytes, and where it is in a snapshot.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use weir_feed::moldudp64::Session;
use weir_feed::soupbin::{Access, Ending, Inbox, SnapshotServer, SoupPacket};
use weir_types::Nanos;

/// Bytes of one read: a client says little.
const READ_LEN: usize = 512;
/// Reads of one cycle.
const READS_MAX: usize = 8;
/// Bytes that may wait of a packet that is not whole: no packet of a client is longer.
const PACKET_LEN_MAX: usize = 256;
/// Bytes sent in one cycle.
const SENT_MAX: usize = 1 << 20;
/// Bytes of one write.
const WRITE_LEN: usize = 64 << 10;
/// How long a client may take none of what waits for it, in nanoseconds.
const STALL_MAX_NS: u64 = 10_000_000_000;
/// How long who was refused, or whose session is over, may take to hear so, in nanoseconds.
const FAREWELL_MAX_NS: u64 = 1_000_000_000;

/// Why a client is there no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// The session is over; of a refusal the client was told, as far as it listened.
    Ended(Ending),
    /// It had all of its snapshot and has closed the connection.
    Served,
    /// It has closed the connection before it had all.
    Closed,
    /// It did not take what waits for it, or took too long for all.
    Slow,
    /// Another session began while it was served.
    CutOff,
    /// There were as many clients as there may be.
    NoRoom,
}

/// What a cycle came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// So much was done.
    Did(usize),
    /// It has logged in, and is to be given a snapshot.
    LoggedIn,
}

/// What is to be sent: a few bytes, a snapshot, a few bytes.
#[derive(Default)]
struct Outgoing {
    before: Vec<u8>,
    snapshot: Arc<Vec<u8>>,
    /// So much of the snapshot is to be sent.
    end: usize,
    after: Vec<u8>,
    /// So much of each was sent.
    sent: [usize; 3],
}

impl Outgoing {
    fn parts(&self) -> [&[u8]; 3] {
        let whole = [&self.before[..], &self.snapshot[..self.end], &self.after[..]];
        [0, 1, 2].map(|at| &whole[at][self.sent[at]..])
    }

    fn is_empty(&self) -> bool {
        self.parts().iter().all(|part| part.is_empty())
    }

    /// Sends what the system takes, up to a bound; how much that was.
    fn send(&mut self, stream: &mut TcpStream) -> io::Result<usize> {
        let mut sent = 0;
        for at in 0..3 {
            loop {
                let part = self.parts()[at];
                if part.is_empty() {
                    break;
                }
                if sent >= SENT_MAX {
                    return Ok(sent);
                }
                match stream.write(&part[..part.len().min(WRITE_LEN)]) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(len) => {
                        self.sent[at] += len;
                        sent += len;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(sent),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(sent)
    }

    /// A packet behind all the others; nothing while too much waits there.
    fn push(&mut self, packet: &SoupPacket<'_>) {
        if self.sent[2] == self.after.len() {
            self.after.clear();
            self.sent[2] = 0;
        }
        if self.after.len() < PACKET_LEN_MAX {
            let _is_written = packet.write(&mut self.after);
        }
    }

    /// Nothing more of the snapshot but the packet under way.
    fn cut(&mut self) {
        let mut at = 0;
        while at < self.sent[1] {
            let Some(len) = self.snapshot[at..].first_chunk::<2>() else { break };
            at += 2 + usize::from(u16::from_be_bytes(*len));
        }
        self.end = at.min(self.end);
        self.after.clear();
        self.sent[2] = 0;
    }
}

/// See the module's documentation.
pub(super) struct Client {
    stream: TcpStream,
    server: SnapshotServer,
    inbox: Inbox,
    out: Outgoing,
    /// It is gone, for this reason, as soon as it has heard so.
    leaving: Option<(Left, Nanos)>,
    since: Nanos,
    /// When it last took something of what waits for it.
    moved: Nanos,
    was_served: bool,
}

impl Client {
    /// Who has just connected.
    pub fn new(stream: TcpStream, now: Nanos) -> io::Result<Client> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Client {
            stream,
            server: SnapshotServer::new(now),
            inbox: Inbox::new(),
            out: Outgoing::default(),
            leaving: None,
            since: now,
            moved: now,
            was_served: false,
        })
    }

    /// Does what can be done now.
    ///
    /// # Errors
    /// [`Left`]: it is to be forgotten.
    pub fn work(
        &mut self,
        to: (&Access, Option<Session>),
        (now, timeout): (Nanos, Nanos),
    ) -> Result<Step, Left> {
        if self.leaving.is_none() {
            match self.listen(to, now) {
                Ok(true) => return Ok(Step::LoggedIn),
                Ok(false) => {}
                Err(left) => self.leave(left, now)?,
            }
        }
        let sent = self.send(now)?;
        if let Some((left, until)) = self.leaving {
            let is_over = self.has_heard() || now >= until;
            return if is_over { Err(left) } else { Ok(Step::Did(sent)) };
        }
        let is_waiting = !self.out.is_empty();
        let is_stalled = is_waiting && now.since(self.moved).0 >= STALL_MAX_NS;
        if is_stalled || now.since(self.since) >= timeout {
            return Err(if is_waiting { Left::Slow } else { self.gone() });
        }
        Ok(Step::Did(sent))
    }

    /// Takes what it says; true when it has logged in.
    fn listen(&mut self, to: (&Access, Option<Session>), now: Nanos) -> Result<bool, Left> {
        let mut bytes = [0; READ_LEN];
        for _ in 0..READS_MAX {
            let len = match self.stream.read(&mut bytes) {
                Ok(0) => return Err(self.gone()),
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return Err(self.gone()),
            };
            self.inbox.push(&bytes[..len]);
            let mut has_logged_in = false;
            while let Some(packet) = self.inbox.take() {
                has_logged_in |= self.server.take(packet, to, now).map_err(|e| self.over(e))?;
            }
            if self.inbox.waiting_len() > PACKET_LEN_MAX {
                return Err(self.over(Ending::OutOfPlace { kind: 0 }));
            }
            if has_logged_in {
                return Ok(true);
            }
        }
        if self.server.on_time(now).map_err(|ending| self.over(ending))? && self.out.is_empty() {
            self.out.push(&SoupPacket::ServerHeartbeat);
        }
        Ok(false)
    }

    /// A logout is how who has all goes.
    fn over(&self, ending: Ending) -> Left {
        if ending == Ending::LoggedOut { self.gone() } else { Left::Ended(ending) }
    }

    /// What it means when it goes by itself.
    fn gone(&self) -> Left {
        if self.was_served { Left::Served } else { Left::Closed }
    }

    /// Its session is over: who was refused is told so first.
    fn leave(&mut self, left: Left, now: Nanos) -> Result<(), Left> {
        let Left::Ended(Ending::Refused(reject)) = left else { return Err(left) };
        self.out.push(&SoupPacket::LoginRejected(reject));
        self.leaving = Some((left, Nanos(now.0.saturating_add(FAREWELL_MAX_NS))));
        Ok(())
    }

    /// Whether who is leaving has all that was said to it and has closed its side: to close ours
    /// before would have the system throw away what is on the way.
    fn has_heard(&mut self) -> bool {
        if !self.out.is_empty() {
            return false;
        }
        if self.stream.shutdown(Shutdown::Write).is_err() {
            return true;
        }
        let mut bytes = [0; READ_LEN];
        for _ in 0..READS_MAX {
            match self.stream.read(&mut bytes) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
            }
        }
        false
    }

    fn send(&mut self, now: Nanos) -> Result<usize, Left> {
        let sent = self.out.send(&mut self.stream).map_err(|_| self.gone())?;
        if sent > 0 {
            self.moved = now;
            self.server.has_said(now);
        }
        let is_done = self.server.is_serving() && self.out.is_empty();
        if is_done && !self.out.snapshot.is_empty() && self.leaving.is_none() {
            self.was_served = true;
            // The memory is others'.
            (self.out.snapshot, self.out.end, self.out.sent[1]) = (Arc::default(), 0, 0);
        }
        Ok(sent)
    }

    /// The answer to its login, and the snapshot behind it.
    pub fn give(&mut self, session: Session, snapshot: Arc<Vec<u8>>, now: Nanos) {
        let accepted = SoupPacket::LoginAccepted { session: session.0, sequence: 1 };
        let _is_written = accepted.write(&mut self.out.before);
        (self.out.end, self.out.snapshot) = (snapshot.len(), snapshot);
        self.moved = now;
    }

    /// The session is over. Who has all of its snapshot, or none yet, is not concerned.
    pub fn cut_off(&mut self, now: Nanos) {
        if self.leaving.is_none() && !self.out.snapshot.is_empty() {
            self.out.cut();
            self.out.push(&SoupPacket::EndOfSession);
            self.leaving = Some((Left::CutOff, Nanos(now.0.saturating_add(STALL_MAX_NS))));
        }
    }
}
