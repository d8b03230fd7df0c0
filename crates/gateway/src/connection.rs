//! A client connection: its socket, its buffers, and the sessions that it carries.
//!
//! It moves bytes; its protocol reads and writes them. Both buffers are limited: input by its fixed
//! size, output by the gateway, which stops producing for a connection that does not read
//! ([`Connection::has_room`]). An idle connection holds neither: it reads into a borrowed buffer
//! and keeps only unconsumed bytes.

use weir_door::ConnectionId;
use weir_door::reception::MessageOrigin;
use weir_door::transport::{Ending, Transport};
use weir_io::net::Event;
use weir_probe::{TraceId, Tsc};
use weir_tls::link::SCRATCH_LEN;
use weir_types::{Nanos, SessionId};
use weir_wire::report::StageTimes;

use crate::protocol::{Answer, EventRecord, InputState, Protocol};
use crate::traced_answers::TracedAnswers;

/// The input buffer's size in bytes: many small messages, or one of the longest.
const INPUT_LEN: usize = 64 * 1024;
/// The most bytes of one write: the system copies them in some ten microseconds.
const WRITE_MAX: usize = 64 * 1024;
/// The number of unconsumed bytes up to which a connection copies them to a buffer of its own; with
/// more it keeps the borrowed one.
const REST_MAX: usize = 2 * 1024;
/// The number of input buffers kept for the next read.
const SPARE_MAX: usize = 4;
/// The capacity in bytes beyond which an output buffer is freed once it is empty and nothing was
/// sent for [`OUTPUT_IDLE`].
const OUTPUT_KEPT: usize = 4 * 1024;
/// The time in nanoseconds for which an empty output buffer is kept.
const OUTPUT_IDLE: u64 = 1_000_000_000;

/// Buffers that connections borrow while they read.
#[derive(Debug)]
pub struct ReadBuffers {
    spare: Vec<Box<[u8]>>,
    /// The encrypted bytes of a TLS connection before they are opened.
    pub(super) sealed: Box<[u8]>,
}

impl Default for ReadBuffers {
    fn default() -> ReadBuffers {
        ReadBuffers { spare: Vec::new(), sealed: vec![0; SCRATCH_LEN].into_boxed_slice() }
    }
}

impl ReadBuffers {
    fn lend(&mut self) -> Box<[u8]> {
        self.spare.pop().unwrap_or_else(|| vec![0; INPUT_LEN].into_boxed_slice())
    }

    fn take_back(&mut self, buffer: Box<[u8]>) {
        if buffer.len() == INPUT_LEN && self.spare.len() < SPARE_MAX {
            self.spare.push(buffer);
        }
    }
}

/// Bytes read and not yet consumed. The gateway moves it out of the connection while it takes
/// messages, so that they can borrow it while the connection's output grows.
///
/// INVARIANT: either `lent` is present, and the bytes are its `start..end`, or it is empty, and
/// they are `rest[start..end]`.
#[derive(Debug, Default)]
pub struct Input {
    lent: Box<[u8]>,
    rest: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    /// Reads the next message; its bytes are consumed by [`Input::consume`].
    #[inline]
    pub(crate) fn next(&self, protocol: Protocol) -> InputState<'_> {
        protocol.next(self.bytes())
    }

    /// Returns the bytes not yet consumed.
    fn bytes(&self) -> &[u8] {
        let all = if self.lent.is_empty() { &self.rest[..] } else { &self.lent[..] };
        &all[self.start..self.end]
    }

    /// Consumes a message.
    pub fn consume(&mut self, len: usize) {
        self.start += len;
        assert!(self.start <= self.end, "consumed more than was read");
    }

    /// Returns true when all bytes are consumed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns the free space behind the unconsumed bytes.
    fn room(&mut self, buffers: &mut ReadBuffers) -> &mut [u8] {
        let len = self.end - self.start;
        if self.lent.is_empty() {
            let mut lent = buffers.lend();
            lent[..len].copy_from_slice(self.bytes());
            (self.lent, self.start, self.end) = (lent, 0, len);
            self.rest.clear();
        } else if self.start > 0 {
            self.lent.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, len);
        }
        &mut self.lent[self.end..]
    }

    /// Returns the buffer unless many of its bytes are unconsumed.
    fn give_back(&mut self, buffers: &mut ReadBuffers) {
        let len = self.end - self.start;
        if self.lent.is_empty() || len > REST_MAX {
            return;
        }
        self.rest.clear();
        self.rest.extend_from_slice(&self.lent[self.start..self.end]);
        (self.start, self.end) = (0, len);
        buffers.take_back(std::mem::take(&mut self.lent));
    }
}

/// A connection's state after a read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// The connection is open, with or without new bytes.
    Open,
    /// The peer closed or the connection broke; [`Connection::ending`] distinguishes them.
    Gone,
}

/// A client connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) id: ConnectionId,
    pub(super) transport: Transport,
    /// The protocol of both directions.
    pub(super) protocol: Protocol,
    pub(super) input: Input,
    output: Vec<u8>,
    output_sent: usize,
    pub(super) readable: bool,
    /// True when the socket reports that its peer sends nothing more.
    read_closed: bool,
    writable: bool,
    /// The counter when the newest input was read.
    pub(super) ingress: Tsc,
    /// The sessions logged on through it.
    pub(super) sessions: Vec<SessionId>,
    /// The number of malformed messages so far.
    pub(super) error_count: u32,
    /// The time at which it was accepted.
    accepted_at: Nanos,
    /// The times of the last receipt and the last sending of bytes.
    pub(super) received_at: Nanos,
    pub(super) sent_at: Nanos,
    /// The time since which output waits without progress.
    pub(super) stalled_since: Option<Nanos>,
    /// Set when the connection closes: after its output is sent, at this time at the latest.
    pub(super) closing_by: Option<Nanos>,
    /// Orders whose answers are in the output, for the egress point.
    pub(super) answered: TracedAnswers,
    /// True while it is in the gateway's list of connections with output.
    pub(super) in_flush_list: bool,
    /// True while sessions of it are behind and wait for room in its output.
    pub(super) catches_up_later: bool,
    /// True while the delivery store makes no pages for it.
    pub(super) pages_paused: bool,
    /// True when its next message's destination was full, or its share ended before its messages.
    pub(super) must_wait: bool,
    /// True while a logon of it waits for others' answers: nothing more is taken from it.
    pub(super) logs_on: bool,
    /// True while nothing more is taken from it until its output has room again.
    pub(super) waits_for_room: bool,
    /// The last span in which it sent something; see [`super::fairness`].
    pub(super) heard_in: u64,
    /// True while it is in the gateway's list of connections to read.
    pub(super) in_read_list: bool,
    /// The peer's address, for diagnostics.
    pub peer: Option<std::net::SocketAddr>,
    /// The way it ended, once it is gone.
    pub(super) ending: Option<Ending>,
}

impl Connection {
    /// Returns a newly accepted connection.
    #[must_use]
    pub fn new(
        id: ConnectionId,
        transport: Transport,
        protocol: Protocol,
        now: Nanos,
    ) -> Connection {
        let accepted_at = transport.accepted_at().unwrap_or(now);
        Connection {
            id,
            transport,
            protocol,
            input: Input::default(),
            output: Vec::new(),
            output_sent: 0,
            readable: true,
            read_closed: false,
            writable: true,
            ingress: Tsc::ZERO,
            sessions: Vec::new(),
            error_count: 0,
            accepted_at,
            received_at: now,
            sent_at: now,
            stalled_since: None,
            closing_by: None,
            answered: TracedAnswers::default(),
            in_flush_list: false,
            catches_up_later: false,
            pages_paused: false,
            must_wait: false,
            logs_on: false,
            waits_for_room: false,
            heard_in: 0,
            in_read_list: false,
            peer: None,
            ending: None,
        }
    }

    /// Returns the origin of a message that was received through it.
    #[must_use]
    pub fn origin(&self, now: Nanos) -> MessageOrigin {
        MessageOrigin { connection: self.id, accepted_at: self.accepted_at, now }
    }

    /// Moves it to another table and poll; the new poll reports the socket's readiness.
    pub fn moves_to(&mut self, id: ConnectionId) {
        self.id = id;
        (self.in_read_list, self.in_flush_list) = (false, false);
        (self.readable, self.writable) = (true, true);
    }

    /// Reads once, as much as fits and at most `len_max` bytes.
    pub fn fill(&mut self, now: Nanos, buffers: &mut ReadBuffers, len_max: usize) -> ReadOutcome {
        let mut sealed = std::mem::take(&mut buffers.sealed);
        let room = self.input.room(buffers);
        let len = room.len().min(len_max);
        let room = &mut room[..len];
        let outcome = if room.is_empty() {
            ReadOutcome::Open
        } else {
            match self.transport.read(room, &mut sealed) {
                Ok(got) => {
                    self.input.end += got.len;
                    // The end of stream that came with these bytes raises no event of its own.
                    self.readable = got.more || self.read_closed;
                    if got.moved {
                        self.received_at = now;
                    }
                    ReadOutcome::Open
                }
                Err(ending) => {
                    self.ending = Some(ending);
                    ReadOutcome::Gone
                }
            }
        };
        buffers.sealed = sealed;
        outcome
    }

    /// Returns the borrowed read buffer where possible.
    pub fn settle_input(&mut self, buffers: &mut ReadBuffers) {
        self.input.give_back(buffers);
    }

    /// Appends an answer to the output.
    pub(crate) fn put(&mut self, answer: &Answer<'_>) {
        self.protocol.put(answer, &mut self.output);
    }

    /// Appends the report of an event to the output.
    #[inline]
    pub(crate) fn put_report(&mut self, event: &EventRecord<'_>, stage_times: StageTimes) {
        self.protocol.put_report(event, stage_times, &mut self.output);
    }

    /// Appends pages of order state to the output.
    pub(crate) fn put_pages(&mut self, frames: &[u8]) {
        self.protocol.put_pages(frames, &mut self.output);
    }

    /// Writes as much as the socket takes, up to [`WRITE_MAX`] bytes: the rest is written in the
    /// next cycle, so that no order waits for a reader of much.
    pub fn flush(&mut self, now: Nanos) -> ReadOutcome {
        if !self.writable {
            return ReadOutcome::Open;
        }
        let unsent = &self.output[self.output_sent..];
        match self.transport.write(&unsent[..unsent.len().min(WRITE_MAX)]) {
            Ok(put) => {
                self.output_sent += put.len;
                self.answered.take(put.len);
                if put.moved {
                    self.sent_at = now;
                    self.stalled_since = None;
                }
                if put.blocked {
                    self.writable = false;
                    self.stalled_since.get_or_insert(now);
                }
            }
            Err(ending) => {
                self.ending = Some(ending);
                return ReadOutcome::Gone;
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

    /// Notes that the newest output answers a traced order.
    pub(super) fn note_answer(&mut self, trace: TraceId) {
        self.answered.note(self.output.len() - self.output_sent, trace);
    }

    /// Sends the transport's end-of-stream message, if it has one; true when that is sent.
    pub fn say_farewell(&mut self, now: Nanos) -> bool {
        self.transport.say_farewell();
        self.flush(now) == ReadOutcome::Gone || self.output_len() == 0
    }

    /// Frees the output buffer of an idle connection.
    pub fn tidy_output(&mut self, now: Nanos) {
        if self.output_idle_at().is_some_and(|at| now > at) {
            self.output = Vec::new();
        }
    }

    /// Returns the time at which the output's memory is freed if nothing more is sent.
    #[must_use]
    pub fn output_idle_at(&self) -> Option<Nanos> {
        let is_held = self.output.is_empty() && self.output.capacity() > OUTPUT_KEPT;
        is_held.then_some(Nanos(self.sent_at.0 + OUTPUT_IDLE))
    }

    /// Returns the number of bytes to be sent, including TLS records that the socket has not taken.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.output.len() - self.output_sent + self.transport.unsent_len()
    }

    /// Returns true when fewer than `len_max` bytes wait to be sent.
    #[must_use]
    pub fn has_room(&self, len_max: usize) -> bool {
        self.output_len() < len_max
    }

    /// Records the socket's readiness to be read or written, or its end of stream.
    pub fn on_ready(&mut self, event: Event) {
        self.readable |= event.is_readable || event.is_read_closed;
        self.read_closed |= event.is_read_closed;
        self.writable |= event.is_writable;
    }

    /// Returns true if nothing that it has sent waits to be taken: only then can it be silent.
    #[must_use]
    pub fn is_heard(&self) -> bool {
        !self.in_read_list && !self.must_wait && !self.waits_for_room && !self.logs_on
    }

    /// Returns true when it can be written at once.
    #[must_use]
    pub fn can_write(&self) -> bool {
        self.writable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `bytes` into an input like a connection.
    fn read(input: &mut Input, bytes: &[u8], buffers: &mut ReadBuffers) {
        input.room(buffers)[..bytes.len()].copy_from_slice(bytes);
        input.end += bytes.len();
    }

    #[test]
    fn what_was_not_consumed_stays_in_order_whoever_has_the_buffer() {
        let stream: Vec<u8> = (0..20_000_u32).map(|i| (i % 251) as u8).collect();
        let mut buffers = ReadBuffers::default();
        let mut input = Input::default();
        let (mut read_len, mut consumed) = (0, 0);
        // Reads and remainders of many lengths: none, small, larger than the copy limit.
        for step in [1, 100, REST_MAX, REST_MAX + 1, 3 * REST_MAX, 5].into_iter().cycle() {
            let len = step.min(stream.len() - read_len);
            read(&mut input, &stream[read_len..read_len + len], &mut buffers);
            read_len += len;
            let done = if step % 2 == 0 { input.bytes().len() } else { input.bytes().len() / 2 };
            assert_eq!(input.bytes(), &stream[consumed..read_len]);
            input.consume(done);
            consumed += done;
            input.give_back(&mut buffers);
            assert_eq!(input.bytes(), &stream[consumed..read_len]);
            let rest = read_len - consumed;
            assert_eq!(input.lent.is_empty(), rest <= REST_MAX, "with a rest of {rest}");
            if read_len == stream.len() {
                return;
            }
        }
    }

    #[test]
    fn connections_share_a_buffer_and_many_that_are_given_back_are_not_kept() {
        let mut buffers = ReadBuffers::default();
        let mut inputs: Vec<_> = (0..10).map(|_| Input::default()).collect();
        for input in &mut inputs {
            read(input, b"a frame", &mut buffers);
            input.consume(7);
            input.give_back(&mut buffers);
            assert!(input.is_empty() && input.lent.is_empty());
        }
        assert_eq!(buffers.spare.len(), 1);
        for input in &mut inputs {
            read(input, b"a frame", &mut buffers);
        }
        for input in &mut inputs {
            input.consume(7);
            input.give_back(&mut buffers);
        }
        assert_eq!(buffers.spare.len(), SPARE_MAX);
    }
}
