//! A pair of lines with its sockets, its retransmission requests and its snapshots.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, RawFd};

use weir_feed::line::Line;
use weir_types::Nanos;

use super::super::Datagrams;
use super::super::udp::{BATCH_MAX, BatchReceiver, Listen, listen, listen_to_source};
use super::config::LineAddress;
use super::counts::{SocketCounts, SocketStatus};
use super::handler::Decoding;
use super::inlet::{Inlet, Times};
use super::output::Output;
use super::recovery::Recovery;
use super::requests::Requester;
use super::stream::Stream;

/// The maximum number of consecutive polls that may find full batches before timers run anyway.
const BEHIND_MAX: u32 = 64;

/// The socket of one line.
#[derive(Debug)]
pub(super) struct Socket {
    line: Line,
    receiver: BatchReceiver,
    source: Option<Ipv4Addr>,
    strangers: u64,
    errors: u64,
    heard: Option<Nanos>,
}

impl Socket {
    pub fn open(
        line: Line,
        address: LineAddress,
        source: Option<Ipv4Addr>,
        receive_buffer: usize,
    ) -> io::Result<Socket> {
        let LineAddress { address, interface } = address;
        let to = Listen { address, interface, receive_buffer, wait: None };
        let socket = match source.filter(|_| address.ip().is_multicast()) {
            Some(source) => listen_to_source(&to, source)?,
            None => listen(&to)?,
        };
        Ok(Socket::of(line, BatchReceiver::of(socket)?, source))
    }

    fn of(line: Line, receiver: BatchReceiver, source: Option<Ipv4Addr>) -> Socket {
        Socket { line, receiver, source, strangers: 0, errors: 0, heard: None }
    }

    /// Takes pending datagrams, up to a limit; returns their number.
    fn poll<O: Output>(
        &mut self,
        now: Nanos,
        inlet: &mut Inlet,
        decoding: &mut Decoding,
        out: &mut O,
    ) -> usize {
        let Socket { line, receiver, source, strangers, errors, heard } = self;
        let received = receiver.receive(&mut |datagram| {
            let is_source = source.is_none_or(|source| datagram.src.ip() == IpAddr::V4(source));
            let times = Times::live(datagram.ts_recv, now);
            if !is_source || !inlet.datagram(*line, datagram, times, decoding, out) {
                *strangers += 1;
            }
        });
        match received {
            Ok(0) => 0,
            Ok(received) => {
                *heard = Some(now);
                received
            }
            Err(_) => {
                *errors += 1;
                0
            }
        }
    }

    fn status(&self) -> SocketStatus {
        let Socket { line, ref receiver, strangers, errors, heard, .. } = *self;
        let counts = SocketCounts { received: receiver.counts(), strangers, errors };
        SocketStatus { line, address: receiver.address(), counts, heard }
    }
}

/// A pair of lines and its sources.
#[derive(Debug)]
pub(super) struct Pair {
    pub inlet: Inlet,
    pub sockets: Vec<Socket>,
    pub requester: Option<Requester>,
    /// The counters of the requester's socket.
    pub answers: Answers,
    pub recovery: Option<Recovery>,
    pub stream: Option<Stream>,
    behind: u32,
}

/// Counters of the answers to requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    strangers: u64,
    errors: u64,
    heard: Option<Nanos>,
}

impl Pair {
    /// Creates a pair without sources.
    pub fn new(inlet: Inlet) -> Pair {
        Pair {
            inlet,
            sockets: Vec::new(),
            requester: None,
            answers: Answers::default(),
            recovery: None,
            stream: None,
            behind: 0,
        }
    }

    /// Takes pending input, up to a limit, and runs timers; returns the amount of work done.
    pub fn poll<O: Output>(&mut self, now: Nanos, decoding: &mut Decoding, out: &mut O) -> usize {
        let (mut done, mut most) = (0, 0);
        for socket in &mut self.sockets {
            let received = socket.poll(now, &mut self.inlet, decoding, out);
            (done, most) = (done + received, most.max(received));
        }
        let received = self.take_answers(now, decoding, out);
        (done, most) = (done + received, most.max(received));
        let has_room = !out.drops_datagrams();
        if let Some(stream) = self.stream.as_mut().filter(|_| has_room) {
            done += stream.poll(now, &mut self.inlet, decoding, out);
        }
        // A packet that fills a hole may still be in a socket, for example after a pause of this
        // thread: holes are given up only when the sockets are drained.
        self.behind = if most < BATCH_MAX { 0 } else { self.behind + 1 };
        if self.behind == 0 || self.behind >= BEHIND_MAX {
            self.behind = 0;
            self.inlet.tick(self.inlet.times_at(now), decoding, out);
        }
        if let Some(recovery) = self.recovery.as_mut().filter(|_| has_room) {
            done += recovery.poll(now, &mut self.inlet, decoding, out);
        }
        self.ask();
        done
    }

    fn take_answers<O: Output>(
        &mut self,
        now: Nanos,
        decoding: &mut Decoding,
        out: &mut O,
    ) -> usize {
        let Pair { inlet, requester: Some(requester), answers, .. } = self else { return 0 };
        let received = requester.receiver.receive(&mut |datagram| {
            let times = Times::live(datagram.ts_recv, now);
            if !inlet.datagram(Line::Retransmission, datagram, times, decoding, out) {
                answers.strangers += 1;
            }
        });
        match received {
            Ok(0) => 0,
            Ok(received) => {
                answers.heard = Some(now);
                received
            }
            Err(_) => {
                // The server is not reachable: the system reports it for an earlier request.
                answers.errors += 1;
                0
            }
        }
    }

    /// Sends the requests that are due.
    fn ask(&mut self) {
        let name = self.inlet.notes.name;
        let requests = self.inlet.notes.requests.drain(..);
        let Some(requester) = &mut self.requester else { return drop(requests) };
        requests.for_each(|(sequence, count)| requester.ask(name, sequence, count));
    }

    /// The time of the next poll that is due even if nothing arrives.
    pub fn deadline(&self) -> Option<Nanos> {
        let recovery = self.recovery.as_ref().and_then(|one| one.deadline(&self.inlet));
        let stream = self.stream.as_ref().map(Stream::deadline);
        let is_behind = (self.behind > 0).then_some(Nanos(0));
        let all = [self.inlet.deadline(), recovery, stream.flatten(), is_behind];
        all.into_iter().flatten().min()
    }

    /// The status of the sockets of lines and requests.
    pub fn sockets(&self) -> impl Iterator<Item = SocketStatus> {
        let asking = self.requester.as_ref().map(|requester| {
            let Answers { strangers, errors, heard } = self.answers;
            let received = requester.receiver.counts();
            let counts = SocketCounts { received, strangers, errors };
            let address = requester.receiver.address();
            SocketStatus { line: Line::Retransmission, address, counts, heard }
        });
        self.sockets.iter().map(Socket::status).chain(asking)
    }

    /// The descriptors of the sockets, for polling.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let requester = self.requester.iter().map(|requester| &requester.receiver);
        let receivers = self.sockets.iter().map(|socket| &socket.receiver).chain(requester);
        receivers.map(|receiver| receiver.socket().as_raw_fd())
    }
}
