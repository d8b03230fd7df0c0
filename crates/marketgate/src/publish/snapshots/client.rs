//! One client of the snapshot server: its socket, its session, and its unsent data.
//!
//! It never blocks and holds little memory of its own: the bytes of a login, and its position in a
//! snapshot.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use weir_feed::moldudp64::MoldSession;
use weir_feed::soupbin::{Access, Inbox, SessionEnd, SnapshotServer, SoupPacket};
use weir_types::Nanos;

/// The size of one read in bytes: a client sends little.
const READ_LEN: usize = 512;
/// The maximum number of reads of one duty cycle.
const READS_MAX: usize = 8;
/// The most bytes held of an incomplete packet: no packet of a client is longer.
const PACKET_LEN_MAX: usize = 256;
/// The most bytes sent in one duty cycle.
const SENT_MAX: usize = 1 << 20;
/// The most bytes of one write.
const WRITE_LEN: usize = 64 << 10;
/// The time for which a client may read nothing while data is pending, in nanoseconds.
const STALL_MAX_NS: u64 = 10_000_000_000;
/// The time to deliver the rejection of a login, in nanoseconds.
const FAREWELL_MAX_NS: u64 = 1_000_000_000;

/// The reason a client was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemovalReason {
    /// The session ended; the rejection of a login was sent as far as the client read it.
    Ended(SessionEnd),
    /// The client received its whole snapshot and closed the connection.
    Served,
    /// The client closed the connection before it had the whole snapshot.
    Closed,
    /// The client did not read pending data, or exceeded the total time limit.
    Slow,
    /// Another session began while the snapshot was being sent.
    CutOff,
    /// It had not logged in, and a newcomer took its place.
    Displaced,
    /// The limit of clients was reached, and all of them had logged in.
    NoRoom,
}

/// The result of a duty cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CycleOutcome {
    /// The amount of work done.
    Did(usize),
    /// The client has logged in and needs a snapshot.
    LoggedIn,
}

/// Unsent data: some bytes, a snapshot, some bytes.
#[derive(Default)]
struct Outgoing {
    before: Vec<u8>,
    snapshot: Arc<Vec<u8>>,
    /// The length of the snapshot to send.
    end: usize,
    after: Vec<u8>,
    /// The bytes sent of each part.
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

    /// Sends as much as the system accepts, up to a limit; returns the number of bytes.
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

    /// Appends a packet after all the others; drops it while too much is pending there.
    fn push(&mut self, packet: &SoupPacket<'_>) {
        if self.sent[2] == self.after.len() {
            self.after.clear();
            self.sent[2] = 0;
        }
        if self.after.len() < PACKET_LEN_MAX {
            let _is_written = packet.write(&mut self.after);
        }
    }

    /// Truncates the snapshot after the packet under way.
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

/// A client of the snapshot server.
pub(super) struct Client {
    stream: TcpStream,
    server: SnapshotServer,
    inbox: Inbox,
    out: Outgoing,
    /// The reason for removal and its deadline; the client goes once it has read the last packet.
    leaving: Option<(RemovalReason, Nanos)>,
    since: Nanos,
    /// The time at which it last read pending data.
    moved: Nanos,
    was_served: bool,
}

impl Client {
    /// Takes a new connection.
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

    /// Does the work that is possible now.
    ///
    /// # Errors
    /// [`RemovalReason`]: the client is to be removed.
    pub fn work(
        &mut self,
        access: &Access,
        session: Option<MoldSession>,
        now: Nanos,
        timeout: Nanos,
    ) -> Result<CycleOutcome, RemovalReason> {
        if self.leaving.is_none() {
            match self.listen(access, session, now) {
                Ok(true) => return Ok(CycleOutcome::LoggedIn),
                Ok(false) => {}
                Err(left) => self.leave(left, now)?,
            }
        }
        let sent = self.send(now)?;
        if let Some((left, until)) = self.leaving {
            let is_over = self.has_heard() || now >= until;
            return if is_over { Err(left) } else { Ok(CycleOutcome::Did(sent)) };
        }
        let is_waiting = !self.out.is_empty();
        let is_stalled = is_waiting && now.since(self.moved).0 >= STALL_MAX_NS;
        if is_stalled || now.since(self.since) >= timeout {
            return Err(if is_waiting { RemovalReason::Slow } else { self.gone() });
        }
        Ok(CycleOutcome::Did(sent))
    }

    /// Takes the client's packets; returns true when it has logged in.
    fn listen(
        &mut self,
        access: &Access,
        session: Option<MoldSession>,
        now: Nanos,
    ) -> Result<bool, RemovalReason> {
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
                has_logged_in |=
                    self.server.take(packet, access, session, now).map_err(|e| self.over(e))?;
            }
            if self.inbox.waiting_len() > PACKET_LEN_MAX {
                return Err(self.over(SessionEnd::OutOfPlace { kind: 0 }));
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

    /// Converts the end of the session; a logout is the normal end after a snapshot.
    fn over(&self, ending: SessionEnd) -> RemovalReason {
        if ending == SessionEnd::LoggedOut { self.gone() } else { RemovalReason::Ended(ending) }
    }

    /// The reason if the client closes the connection.
    fn gone(&self) -> RemovalReason {
        if self.was_served { RemovalReason::Served } else { RemovalReason::Closed }
    }

    /// Ends the session; a refused client is first sent the rejection.
    fn leave(&mut self, left: RemovalReason, now: Nanos) -> Result<(), RemovalReason> {
        let RemovalReason::Ended(SessionEnd::Refused(reject)) = left else { return Err(left) };
        self.out.push(&SoupPacket::LoginRejected(reject));
        self.leaving = Some((left, Nanos(now.0.saturating_add(FAREWELL_MAX_NS))));
        Ok(())
    }

    /// Returns true once a leaving client has read everything and closed its side: closing this
    /// side earlier would make the system discard data under way.
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

    fn send(&mut self, now: Nanos) -> Result<usize, RemovalReason> {
        let sent = self.out.send(&mut self.stream).map_err(|_| self.gone())?;
        if sent > 0 {
            self.moved = now;
            self.server.has_said(now);
        }
        let is_done = self.server.is_serving() && self.out.is_empty();
        if is_done && !self.out.snapshot.is_empty() && self.leaving.is_none() {
            self.was_served = true;
            // Releases the shared memory of the snapshot.
            (self.out.snapshot, self.out.end, self.out.sent[1]) = (Arc::default(), 0, 0);
        }
        Ok(sent)
    }

    /// Sends the answer to the login, followed by the snapshot.
    pub fn give(&mut self, session: MoldSession, snapshot: Arc<Vec<u8>>, now: Nanos) {
        let accepted = SoupPacket::LoginAccepted { session: session.0, sequence: 1 };
        let _is_written = accepted.write(&mut self.out.before);
        (self.out.end, self.out.snapshot) = (snapshot.len(), snapshot);
        self.moved = now;
    }

    /// Ends the session. A client that has its whole snapshot, or none yet, is not affected.
    pub fn cut_off(&mut self, now: Nanos) {
        if self.leaving.is_none() && !self.out.snapshot.is_empty() {
            self.out.cut();
            self.out.push(&SoupPacket::EndOfSession);
            self.leaving = Some((RemovalReason::CutOff, Nanos(now.0.saturating_add(STALL_MAX_NS))));
        }
    }
}
