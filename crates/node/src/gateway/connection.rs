//! One TCP connection: its buffers, and whose sessions it carries.
//!
//! It moves bytes and finds frames; what a frame means is the gateway's. Both buffers are
//! bounded: input by its fixed size, output by the gateway, which stops producing for a
//! connection that does not read ([`Connection::has_room`]).

use std::io::{ErrorKind, Read, Write};

use mio::net::TcpStream;
use weir_probe::{TraceId, Tsc};
use weir_types::{Nanos, SessionId};

/// Bytes of the input buffer: many small frames at once, or one of the longest.
const INPUT_LEN: usize = 64 * 1024;

/// A connection's place in the gateway's table and its generation, so that a late answer to a
/// closed connection is not sent to its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    /// The id of the `generation`-th user of `slot`.
    #[must_use]
    pub fn new(slot: u32, generation: u32) -> ConnectionId {
        ConnectionId(u64::from(generation) << 32 | u64::from(slot))
    }

    /// The place in the table.
    #[must_use]
    pub fn slot(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

/// Bytes read and not yet consumed. The gateway takes it out of the connection while it looks at
/// its frames, so that the frames can be lent while the connection's output grows.
#[derive(Debug, Default)]
pub struct Input {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Input {
    /// The bytes not yet consumed.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Consumes a frame.
    pub fn consume(&mut self, len: usize) {
        self.start += len;
        assert!(self.start <= self.end, "consumed more than was read");
    }

    /// True when nothing waits to be consumed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn make_room(&mut self) {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
    }
}

/// What reading gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// Bytes came, or none were there.
    Open,
    /// The peer closed or the connection broke.
    Gone,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) id: ConnectionId,
    pub(super) stream: TcpStream,
    pub(super) input: Input,
    pub(super) output: Vec<u8>,
    output_sent: usize,
    pub(super) readable: bool,
    writable: bool,
    /// The counter when the newest input was read.
    pub(super) ingress: Tsc,
    /// The sessions logged on through it.
    pub(super) sessions: Vec<SessionId>,
    /// Malformed messages so far.
    pub(super) error_count: u32,
    /// When something last came and went.
    pub(super) received_at: Nanos,
    pub(super) sent_at: Nanos,
    /// Since when output waits without progress.
    pub(super) stalled_since: Option<Nanos>,
    /// Close once the output is sent, at the latest then.
    pub(super) closing_by: Option<Nanos>,
    /// Orders whose answers are in the output, for the egress point.
    pub(super) answered: Vec<TraceId>,
    /// Whether it is in the gateway's list of connections with output.
    pub(super) in_flush_list: bool,
    /// Whether the delivery store was told to make no pages for it.
    pub(super) pages_paused: bool,
    /// Whether its next frame found no room where it goes, or its output is full.
    pub(super) must_wait: bool,
    /// Whether it is in the gateway's list of connections to read.
    pub(super) in_read_list: bool,
    /// Who is at the other end, for people.
    pub peer: Option<std::net::SocketAddr>,
}

impl Connection {
    /// A connection just accepted.
    #[must_use]
    pub fn new(id: ConnectionId, stream: TcpStream, now: Nanos) -> Connection {
        Connection {
            id,
            stream,
            input: Input { bytes: vec![0; INPUT_LEN].into_boxed_slice(), start: 0, end: 0 },
            output: Vec::with_capacity(16 * 1024),
            output_sent: 0,
            readable: true,
            writable: true,
            ingress: Tsc::ZERO,
            sessions: Vec::new(),
            error_count: 0,
            received_at: now,
            sent_at: now,
            stalled_since: None,
            closing_by: None,
            answered: Vec::new(),
            in_flush_list: false,
            pages_paused: false,
            must_wait: false,
            in_read_list: false,
            peer: None,
        }
    }

    /// Reads once, as much as fits.
    pub fn fill(&mut self, now: Nanos) -> ReadOutcome {
        self.input.make_room();
        let room = self.input.bytes.len() - self.input.end;
        if room == 0 {
            return ReadOutcome::Open;
        }
        match self.stream.read(&mut self.input.bytes[self.input.end..]) {
            Ok(0) => ReadOutcome::Gone,
            Ok(len) => {
                self.input.end += len;
                self.received_at = now;
                // Edge-triggered: a short read emptied the socket, the next bytes bring an event.
                self.readable = len == room;
                ReadOutcome::Open
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                ReadOutcome::Open
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => ReadOutcome::Open,
            Err(_) => ReadOutcome::Gone,
        }
    }

    /// Writes as much as the socket takes.
    pub fn flush(&mut self, now: Nanos) -> ReadOutcome {
        while self.writable && self.output_sent < self.output.len() {
            match self.stream.write(&self.output[self.output_sent..]) {
                Ok(0) => return ReadOutcome::Gone,
                Ok(len) => {
                    self.output_sent += len;
                    self.sent_at = now;
                    self.stalled_since = None;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.writable = false;
                    self.stalled_since.get_or_insert(now);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return ReadOutcome::Gone,
            }
        }
        if self.output_sent == self.output.len() {
            self.output.clear();
            self.output_sent = 0;
        } else if self.output_sent > self.output.len() / 2 {
            self.output.drain(..self.output_sent);
            self.output_sent = 0;
        }
        ReadOutcome::Open
    }

    /// Bytes waiting to be sent.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.output.len() - self.output_sent
    }

    /// Whether less than `len_max` bytes wait to be sent.
    #[must_use]
    pub fn has_room(&self, len_max: usize) -> bool {
        self.output_len() < len_max
    }

    /// The socket says that it can be read or written again.
    pub fn on_ready(&mut self, readable: bool, writable: bool) {
        self.readable |= readable;
        self.writable |= writable;
    }

    /// Whether it can be written at once.
    #[must_use]
    pub fn can_write(&self) -> bool {
        self.writable
    }
}
