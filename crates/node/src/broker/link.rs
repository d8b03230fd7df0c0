//! One connection of subscribers and publishers: bytes in and out, both bounded, and what its
//! session is attached to.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};

use mio::net::TcpStream;
use weir_broker::{Attachment, MessageNo, Name};
use weir_types::{Epoch, FirmId, Nanos, Role, SessionId};
use weir_wire::subscription::SUBSCRIBER_FRAME_LEN_MAX;

/// Bytes read and not looked at: a frame that is not whole, and some of the next.
const INPUT_LEN_MAX: usize = 2 * SUBSCRIBER_FRAME_LEN_MAX;
/// Output in front of which nothing more is made.
const OUTPUT_LEN_MAX: usize = 256 * 1024;

/// The session that is logged on.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoggedOn {
    pub(super) session_id: SessionId,
    pub(super) firm_id: FirmId,
    pub(super) role: Role,
    /// In nanoseconds.
    pub(super) heartbeat_interval: u64,
    pub(super) valid_until: Nanos,
}

/// What a handle of a connection stands for.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) name: Name,
    /// Nothing for a named token.
    pub(super) queue: Option<HeldQueue>,
}

/// A queue that a connection is attached to.
#[derive(Clone, Debug)]
pub(super) struct HeldQueue {
    pub(super) attachment: Attachment,
    pub(super) topic: weir_broker::Topic,
    pub(super) credit_messages: u64,
    pub(super) credit_bytes: u64,
}

/// Messages of a publisher that are not acknowledged, and where it stands.
#[derive(Debug, Default)]
pub(super) struct Publishing {
    /// Its epoch and number, and the broker's number.
    pub(super) open: VecDeque<(Epoch, u64, MessageNo)>,
    /// The last one taken.
    pub(super) last: (Epoch, u64),
    /// The one that found no room: those behind it wait until it has come again.
    pub(super) refused: Option<(Epoch, u64)>,
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
    pub(super) held: BTreeMap<u32, Held>,
    pub(super) publishing: Publishing,
    /// Whether its next frame has to wait.
    pub(super) must_wait: bool,
    /// Whether a subscription has more than the output takes.
    pub(super) is_choked: bool,
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
            held: BTreeMap::new(),
            publishing: Publishing::default(),
            must_wait: false,
            is_choked: false,
            error_count: 0,
            accepted_at: now,
            heard_at: now,
            said_at: now,
            closing_by: None,
            is_gone: false,
        }
    }

    /// Reads what there is and fits, by way of `scratch`.
    pub(super) fn fill(&mut self, scratch: &mut [u8], now: Nanos) {
        self.compact();
        while self.readable && !self.is_gone && self.input.len() < INPUT_LEN_MAX {
            let room = scratch.len().min(INPUT_LEN_MAX - self.input.len());
            match self.stream.read(&mut scratch[..room]) {
                Ok(0) => self.is_gone = true,
                Ok(len) => {
                    self.input.extend_from_slice(&scratch[..len]);
                    self.heard_at = now;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.is_gone = true,
            }
        }
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
        if self.input.is_empty() && self.input.capacity() > INPUT_LEN_MAX / 2 {
            // An idle connection keeps no large buffer.
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

    /// Whether something more may be made for it.
    pub(super) fn has_room(&self) -> bool {
        self.output.len() - self.sent < OUTPUT_LEN_MAX
    }

    pub(super) fn is_writable_again(&mut self) {
        self.writable = true;
    }
}
