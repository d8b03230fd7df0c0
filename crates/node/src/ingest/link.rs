//! One connection of an outside core: bytes in and out, both bounded, and its session.

use std::io::{ErrorKind, Read, Write};

use mio::net::TcpStream;
use weir_types::{Nanos, PartitionId, SessionId};
use weir_wire::ingest::SOURCE_FRAME_LEN_MAX;

/// Bytes read and not looked at: a frame that is not whole, and some of the next.
const INPUT_LEN_MAX: usize = 2 * SOURCE_FRAME_LEN_MAX;
/// Bytes read at once.
const READ_LEN: usize = 64 * 1024;
/// Output that a core may leave unread.
const OUTPUT_LEN_MAX: usize = 256 * 1024;

/// The session that is logged on.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoggedOn {
    pub(super) session_id: SessionId,
    /// In nanoseconds.
    pub(super) heartbeat_interval: u64,
    pub(super) valid_until: Nanos,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) stream: TcpStream,
    input: Vec<u8>,
    consumed: usize,
    pub(super) output: Vec<u8>,
    sent: usize,
    pub(super) readable: bool,
    writable: bool,
    pub(super) session: Option<LoggedOn>,
    /// The sources that it asked to open.
    pub(super) sources: Vec<PartitionId>,
    /// Bytes of batches that the store has not dealt with.
    pub(super) under_way: usize,
    /// Whether its next frame found no room where it goes.
    pub(super) must_wait: bool,
    pub(super) error_count: u32,
    pub(super) accepted_at: Nanos,
    pub(super) heard_at: Nanos,
    pub(super) said_at: Nanos,
    /// Nothing more is read; it goes when its output is sent, or at this time.
    pub(super) closing_by: Option<Nanos>,
    pub(super) is_gone: bool,
}

impl Link {
    pub(super) fn new(stream: TcpStream, now: Nanos) -> Link {
        Link {
            stream,
            input: Vec::new(),
            consumed: 0,
            output: Vec::new(),
            sent: 0,
            readable: true,
            writable: true,
            session: None,
            sources: Vec::new(),
            under_way: 0,
            must_wait: false,
            error_count: 0,
            accepted_at: now,
            heard_at: now,
            said_at: now,
            closing_by: None,
            is_gone: false,
        }
    }

    /// Reads what there is and fits; true when something came.
    pub(super) fn fill(&mut self, now: Nanos) -> bool {
        self.compact();
        let mut came = false;
        while self.readable && !self.is_gone && self.input.len() < INPUT_LEN_MAX {
            let start = self.input.len();
            self.input.resize(start + READ_LEN.min(INPUT_LEN_MAX - start), 0);
            let read = self.stream.read(&mut self.input[start..]);
            self.input.truncate(start + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => self.is_gone = true,
                Ok(_) => {
                    came = true;
                    self.heard_at = now;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.is_gone = true,
            }
        }
        came
    }

    /// Takes the bytes that were read, to look at them while the link is changed.
    pub(super) fn take_input(&mut self) -> Vec<u8> {
        self.compact();
        std::mem::take(&mut self.input)
    }

    /// Gives them back, but for the first `consumed`.
    pub(super) fn return_input(&mut self, input: Vec<u8>, consumed: usize) {
        self.input = input;
        self.consumed = consumed;
    }

    fn compact(&mut self) {
        self.input.drain(..std::mem::take(&mut self.consumed));
        if self.input.is_empty() {
            // An idle connection keeps no buffer.
            self.input = Vec::new();
        }
    }

    pub(super) fn has_input(&self) -> bool {
        self.input.len() > self.consumed
    }

    /// Sends what the socket takes.
    pub(super) fn flush(&mut self, now: Nanos) {
        while self.writable && self.sent < self.output.len() && !self.is_gone {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => self.is_gone = true,
                Ok(len) => {
                    self.sent += len;
                    self.said_at = now;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.is_gone = true,
            }
        }
        if self.is_sent() {
            self.output.clear();
            self.sent = 0;
        }
    }

    pub(super) fn is_sent(&self) -> bool {
        self.sent == self.output.len()
    }

    /// Whether it leaves more unread than it may.
    pub(super) fn is_behind(&self) -> bool {
        self.output.len() - self.sent > OUTPUT_LEN_MAX
    }

    pub(super) fn is_writable_again(&mut self) {
        self.writable = true;
    }
}
