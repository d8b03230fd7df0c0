//! A connection's bytes in and out, both bounded, and when it was last heard.

use mio::event::Event;
use mio::{Interest, Registry, Token};
use weir_tls::link::SCRATCH_LEN;
use weir_types::{Nanos, Reason, SessionId};
use weir_wire::frame::put_frame;
use weir_wire::session::Logout;

use super::words::heartbeat;
use crate::directory::KnownSession;
use crate::transport::Transport;

/// How long a connection that is closed may take to read why, in nanoseconds.
const CLOSING_TIME: u64 = 1_000_000_000;
/// Silence after which a connection is lost, in tenths of its heartbeat interval.
const SILENCE_TENTHS: u64 = 25;
/// Malformed messages after which a connection is ended.
const ERRORS_MAX: u32 = 16;

/// What one connection may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes read and not looked at: a frame that is not whole, and some of the next.
    pub input_len_max: usize,
    /// Bytes of output in front of which nothing more is made.
    pub output_len_max: usize,
}

/// Buffers for one read, shared by an agent's connections.
#[derive(Debug)]
pub struct Scratch {
    plain: Vec<u8>,
    sealed: Vec<u8>,
}

impl Scratch {
    /// Buffers for reads of up to `len` bytes.
    pub fn new(len: usize) -> Scratch {
        Scratch { plain: vec![0; len], sealed: vec![0; SCRATCH_LEN] }
    }
}

/// A connection.
#[derive(Debug)]
pub struct Socket {
    transport: Transport,
    limits: Limits,
    input: Vec<u8>,
    consumed: usize,
    /// Bytes for the peer; what is in front of it is sent already.
    pub output: Vec<u8>,
    sent: usize,
    readable: bool,
    /// The peer has ended its side: the end is behind the bytes that are still there, and the poll
    /// does not tell of it again.
    has_hung_up: bool,
    writable: bool,
    error_count: u32,
    accepted_at: Nanos,
    heard_at: Nanos,
    said_at: Nanos,
    closing_by: Option<Nanos>,
    is_gone: bool,
}

impl Socket {
    /// A connection that came now; the poll says `token` of it.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn open(
        mut transport: Transport,
        limits: Limits,
        (registry, token): (&Registry, Token),
        now: Nanos,
    ) -> std::io::Result<Socket> {
        transport.set_nodelay()?;
        registry.register(transport.socket(), token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Socket {
            transport,
            limits,
            input: Vec::new(),
            consumed: 0,
            output: Vec::new(),
            sent: 0,
            readable: true,
            has_hung_up: false,
            writable: true,
            error_count: 0,
            accepted_at: now,
            heard_at: now,
            said_at: now,
            closing_by: None,
            is_gone: false,
        })
    }

    /// What the poll said of it.
    pub fn note(&mut self, event: &Event) {
        self.has_hung_up |= event.is_read_closed();
        self.readable |= event.is_readable() || event.is_read_closed();
        self.writable |= event.is_writable();
    }

    /// The poll forgets it.
    pub fn leave(&mut self, registry: &Registry) {
        // A socket that is not known to the poll any more is closed all the same.
        let _ = registry.deregister(self.transport.socket());
    }

    /// Reads what there is and fits.
    pub fn fill(&mut self, scratch: &mut Scratch, now: Nanos) {
        self.compact();
        while self.readable && !self.is_gone && self.input.len() < self.limits.input_len_max {
            let room = scratch.plain.len().min(self.limits.input_len_max - self.input.len());
            match self.transport.read(&mut scratch.plain[..room], &mut scratch.sealed) {
                Ok(got) => {
                    self.input.extend_from_slice(&scratch.plain[..got.len]);
                    self.readable = got.more || self.has_hung_up && got.moved;
                    if got.len > 0 {
                        self.heard_at = now;
                    }
                }
                Err(_) => self.is_gone = true,
            }
        }
    }

    /// Takes the bytes that were read, to look at them while the connection is changed.
    pub fn take_input(&mut self) -> Vec<u8> {
        self.compact();
        std::mem::take(&mut self.input)
    }

    /// Gives them back, but for the first `consumed`.
    pub fn return_input(&mut self, input: Vec<u8>, consumed: usize) {
        self.input = input;
        self.consumed = consumed;
    }

    fn compact(&mut self) {
        self.input.drain(..std::mem::take(&mut self.consumed));
        if self.input.is_empty() && self.input.capacity() > self.limits.input_len_max / 2 {
            // An idle connection keeps no large buffer.
            self.input = Vec::new();
        }
    }

    /// Whether there is input that was not looked at.
    pub fn has_input(&self) -> bool {
        self.input.len() > self.consumed
    }

    /// Whether a read may give something.
    pub fn is_readable(&self) -> bool {
        self.readable
    }

    /// Sends what the socket takes; of one that is closed, the farewell behind it.
    pub fn flush(&mut self, now: Nanos) {
        self.send(now);
        if self.is_closing() && self.sent == self.output.len() {
            self.transport.say_farewell();
            self.send(now);
        }
        if self.sent > self.output.len() / 2 || self.output.is_empty() {
            self.output.drain(..std::mem::take(&mut self.sent));
        }
    }

    fn send(&mut self, now: Nanos) {
        while self.writable && !self.is_gone && !self.is_sent() {
            match self.transport.write(&self.output[self.sent..]) {
                Ok(put) => {
                    self.sent += put.len;
                    self.writable = !put.blocked;
                    if put.moved {
                        self.said_at = now;
                    }
                }
                Err(_) => self.is_gone = true,
            }
        }
    }

    /// Whether the system has taken all output.
    pub fn is_sent(&self) -> bool {
        self.unsent_len() == 0
    }

    /// Bytes that the system has not taken.
    fn unsent_len(&self) -> usize {
        self.output.len() - self.sent + self.transport.unsent_len()
    }

    /// Whether something more may be made for it.
    pub fn has_room(&self) -> bool {
        self.unsent_len() < self.limits.output_len_max
    }

    /// Says why and reads nothing more.
    pub fn close(&mut self, session_id: SessionId, reason: Reason, now: Nanos) {
        put_frame(&Logout { session_id, reason }, &mut self.output);
        self.closing_by = Some(Nanos(now.0 + CLOSING_TIME));
    }

    /// Whether it was closed from here.
    pub fn is_closing(&self) -> bool {
        self.closing_by.is_some()
    }

    /// Whether there is nothing more to do for it: the peer is gone, or has been told why it is to
    /// go.
    pub fn has_ended(&self) -> bool {
        self.is_gone || (self.is_closing() && self.is_sent())
    }

    /// Whether another read or frame is worth while.
    pub fn is_open(&self) -> bool {
        !self.is_gone && !self.is_closing()
    }

    /// Gives up on a peer that does not read why it was closed; true when it just did.
    pub fn give_up(&mut self, now: Nanos) -> bool {
        let is_late = !self.is_gone && self.closing_by.is_some_and(|by| now >= by);
        self.is_gone |= is_late;
        is_late
    }

    /// Counts a message that could not be read or had no place; true when that was one too many.
    pub fn count_error(&mut self) -> bool {
        self.error_count += 1;
        self.error_count >= ERRORS_MAX
    }

    /// Whether it has been without a session for so long.
    pub fn is_late(&self, logon_time_max: Nanos, now: Nanos) -> bool {
        now.since(self.accepted_at) >= logon_time_max
    }

    /// Why a session's connection is to end now, if it is; `interval` between heartbeats in
    /// nanoseconds. `is_heard` is whether its bytes are read: who is not read is not silent.
    pub fn lapse(
        &self,
        (interval, valid_until): (u64, Nanos),
        is_heard: bool,
        now: Nanos,
    ) -> Option<Reason> {
        if KnownSession::is_over(valid_until, now) {
            return Some(Reason::KeyExpired);
        }
        let is_silent = is_heard && now.since(self.heard_at).0 * 10 > interval * SILENCE_TENTHS;
        is_silent.then_some(Reason::HeartbeatLost)
    }

    /// Says that somebody is there when nothing else was said for an interval, in nanoseconds; true
    /// when it did.
    pub fn keep_alive(&mut self, session_id: SessionId, interval: u64, now: Nanos) -> bool {
        let is_due = self.is_open() && self.is_sent() && now.since(self.said_at).0 >= interval;
        if is_due {
            put_frame(&heartbeat(session_id, now), &mut self.output);
        }
        is_due
    }
}
