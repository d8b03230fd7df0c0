//! A connection's bytes in and out, both bounded, and the times of the last bytes in each
//! direction.
//!
//! It moves bytes and knows no protocol. It never blocks, and it produces no output by itself but
//! heartbeats and the farewell.

use weir_io::net::{Event, Registry, Token};
use weir_tls::link::SCRATCH_LEN;
use weir_types::{Nanos, Reason, SessionId};
use weir_wire::frame::put_frame;
use weir_wire::session::{Heartbeat, Logout};

use crate::transport::{Ending, Transport};

/// The time that a closed connection has to take its farewell, in nanoseconds.
pub const CLOSING_TIME: u64 = 1_000_000_000;
/// Silence after which a connection is lost, in tenths of its heartbeat interval.
pub const SILENCE_TENTHS: u64 = 25;
/// The number of malformed messages and refused logons at which a connection is ended.
pub const ERRORS_MAX: u32 = 16;

/// The limits of one connection's buffers.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes read and not yet parsed: an incomplete frame, and some of the next.
    pub input_len_max: usize,
    /// Bytes of unsent output at which no more is produced.
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
    /// Bytes for the peer. The first `sent` of them are sent.
    pub output: Vec<u8>,
    sent: usize,
    readable: bool,
    /// The peer has ended its side: the end follows the bytes that are still there, and the poll
    /// does not report it again.
    has_hung_up: bool,
    writable: bool,
    error_count: u32,
    accepted_at: Nanos,
    heard_at: Nanos,
    said_at: Nanos,
    closing_by: Option<Nanos>,
    is_gone: bool,
    ending: Option<Ending>,
}

impl Socket {
    /// A connection accepted at `now`, registered with a poll under `token`.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn open(
        mut transport: Transport,
        limits: Limits,
        (registry, token): (Registry<'_>, Token),
        now: Nanos,
    ) -> std::io::Result<Socket> {
        let accepted_at = transport.accepted_at().unwrap_or(now);
        transport.stream().set_nodelay()?;
        registry.register(transport.stream(), token)?;
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
            accepted_at,
            heard_at: now,
            said_at: now,
            closing_by: None,
            is_gone: false,
            ending: None,
        })
    }

    /// Returns the time at which it was accepted.
    pub fn accepted_at(&self) -> Nanos {
        self.accepted_at
    }

    /// Takes in an event of the poll.
    pub fn note(&mut self, event: Event) {
        self.has_hung_up |= event.is_read_closed;
        self.readable |= event.is_readable || event.is_read_closed;
        self.writable |= event.is_writable;
    }

    /// Removes it from the poll.
    pub fn leave(&mut self, registry: Registry<'_>) {
        // A socket that the poll no longer knows is closed all the same.
        let _ = registry.deregister(self.transport.stream());
    }

    /// Reads until the socket is empty or the input is full.
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
                Err(ending) => self.ends(ending),
            }
        }
    }

    fn ends(&mut self, ending: Ending) {
        self.is_gone = true;
        self.ending.get_or_insert(ending);
    }

    /// Returns the kind of the connection's end, once the peer or the system has ended it.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// Takes the bytes that were read, so that they can be parsed while the output grows.
    pub fn take_input(&mut self) -> Vec<u8> {
        self.compact();
        std::mem::take(&mut self.input)
    }

    /// Gives back the bytes that were taken; the first `consumed` of them have been parsed.
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

    /// Returns true if there is unconsumed input.
    pub fn has_input(&self) -> bool {
        self.input.len() > self.consumed
    }

    /// Returns true if a read may return bytes.
    pub fn is_readable(&self) -> bool {
        self.readable
    }

    /// Writes until the socket takes no more; after the output of a closed connection, its
    /// transport's farewell.
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
                Err(ending) => self.ends(ending),
            }
        }
    }

    /// Returns true if the system has taken all output.
    pub fn is_sent(&self) -> bool {
        self.unsent_len() == 0
    }

    fn unsent_len(&self) -> usize {
        self.output.len() - self.sent + self.transport.unsent_len()
    }

    /// Returns true if there is room for more output.
    pub fn has_room(&self) -> bool {
        self.unsent_len() < self.limits.output_len_max
    }

    /// Appends a `Logout` with the reason. Nothing more is read from it.
    pub fn close(&mut self, session_id: SessionId, reason: Reason, now: Nanos) {
        put_frame(&Logout { session_id, reason }, &mut self.output);
        self.closing_by = Some(Nanos(now.0 + CLOSING_TIME));
    }

    /// Returns true if this end closed it.
    pub fn is_closing(&self) -> bool {
        self.closing_by.is_some()
    }

    /// Returns true if it has ended: the peer is gone, or the farewell is sent.
    pub fn has_ended(&self) -> bool {
        self.is_gone || (self.is_closing() && self.is_sent())
    }

    /// Returns true if neither end has closed it.
    pub fn is_open(&self) -> bool {
        !self.is_gone && !self.is_closing()
    }

    /// Drops a peer that did not take its farewell in time; true when it did so now.
    pub fn give_up(&mut self, now: Nanos) -> bool {
        let is_late = !self.is_gone && self.closing_by.is_some_and(|by| now >= by);
        self.is_gone |= is_late;
        is_late
    }

    /// Counts a malformed or misplaced message or a refused logon; true at the limit.
    pub fn count_error(&mut self) -> bool {
        self.error_count += 1;
        self.error_count >= ERRORS_MAX
    }

    /// The reason to end a session's connection now, if there is one: its key has expired, or it
    /// was silent for 2.5 times `interval`, its time between heartbeats in nanoseconds. A
    /// connection that is not read (`is_heard` is false) is not silent: its silence counts from
    /// the last call before it is read again.
    pub fn lapse(
        &mut self,
        (interval, expires_at): (u64, Option<Nanos>),
        is_heard: bool,
        now: Nanos,
    ) -> Option<Reason> {
        if expires_at.is_some_and(|at| now >= at) {
            return Some(Reason::KeyExpired);
        }
        if !is_heard {
            self.heard_at = now;
        }
        let is_silent = now.since(self.heard_at).0 * 10 > interval * SILENCE_TENTHS;
        is_silent.then_some(Reason::HeartbeatLost)
    }

    /// Appends a heartbeat when nothing was sent for `interval` nanoseconds; true when it did so.
    pub fn keep_alive(&mut self, beat: &Heartbeat, interval: u64, now: Nanos) -> bool {
        let is_due = self.is_open() && self.is_sent() && now.since(self.said_at).0 >= interval;
        if is_due {
            put_frame(beat, &mut self.output);
        }
        is_due
    }
}
