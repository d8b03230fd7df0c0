//! TLS handshakes, on a thread of their own. Each costs a signature, and a slow peer can delay its
//! own; neither delays an order.
//!
//! The agent owns the listening socket. A connection that completes its handshake goes through a
//! ring to the thread of its door. One that fails or times out is closed, counted by kind and
//! logged. At most [`HandshakeLimits::pending_max`] handshakes are under way; a further one ends
//! the oldest of the host that has most, so that silent connections keep nobody out.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rtrb::Producer;
use weir_io::descriptors::DescriptorRoom;
use weir_io::monotonic_now;
use weir_io::net::{Events, Listener, Net, Poll, Stream, Token, Waker};
use weir_runtime::figures::{self, Value};
use weir_runtime::{Agent, LineLimit, Poller, Wake};
use weir_tls::link::SCRATCH_LEN;
use weir_tls::{Failure, Link, ServerFiles, ServerTls, TlsError};
use weir_types::Nanos;

use super::strangers::Strangers;
use super::transport::{TlsTransport, Transport};

const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);
/// Connections accepted in one cycle.
const ACCEPTS_MAX: usize = 16;
/// Handshakes advanced in one cycle; between cycles other threads can have the core.
const STEPS_MAX: usize = 4;
/// The time between two checks of deadlines, in nanoseconds.
const TIMER_INTERVAL: u64 = 20_000_000;
/// The capacity of the ring of connections from the handshake thread to a door.
pub const SECURED_MAX: usize = 256;

/// The limits on handshakes.
#[derive(Clone, Copy, Debug)]
pub struct HandshakeLimits {
    /// Handshakes at the same time.
    pub pending_max: usize,
    /// The time that one handshake may take.
    pub time_max: Nanos,
}

/// The node's certificates, and the counters and log rate limit of its handshakes. Shared by the
/// agent, the thread that reloads certificates and the status page.
#[derive(Debug)]
pub struct TlsDoor {
    files: ServerFiles,
    tls: Mutex<ServerTls>,
    figures: TlsFigures,
    lines: Mutex<LineLimit>,
}

weir_runtime::figures! {
    /// The figures of handshakes.
    pub struct TlsReport in TlsFigures {
        /// Handshakes completed.
        counter completed as "handshakes_total{outcome=\"completed\"}",
        /// Handshakes that failed, by kind.
        counts failed: FailureCounts as "handshakes_total{outcome}",
        /// Handshakes under way.
        gauge pending as "handshakes_pending",
        /// Successful reloads of the certificates.
        counter reloads as "reloads_total{outcome=\"read\"}",
        /// Failed reloads; the old certificates stayed in use.
        counter reloads_failed as "reloads_total{outcome=\"refused\"}",
    }
}

/// Failed handshakes by the name of the failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct FailureCounts(BTreeMap<&'static str, u64>);

impl Value for FailureCounts {
    fn rows(&self, row: &mut dyn FnMut(&str, u64)) {
        self.0.iter().for_each(|(failure, count)| row(failure, *count));
    }

    fn plus(&self, other: &FailureCounts) -> FailureCounts {
        let mut sum = self.clone();
        other.0.iter().for_each(|(failure, count)| *sum.0.entry(failure).or_default() += count);
        sum
    }

    fn set(&mut self, value: u64) {
        self.0.insert(Failure::TimedOut.name(), value);
    }
}

impl figures::Shared for FailureCounts {
    type Atomic = [AtomicU64; Failure::ALL.len()];

    fn load(atomics: &Self::Atomic) -> FailureCounts {
        let failures = Failure::ALL.into_iter().zip(atomics);
        FailureCounts(
            failures.map(|(failure, of)| (failure.name(), of.load(Ordering::Relaxed))).collect(),
        )
    }
}

impl TlsDoor {
    /// Reads the certificates.
    ///
    /// # Errors
    /// [`TlsError`], naming the file.
    pub fn open(files: ServerFiles) -> Result<TlsDoor, TlsError> {
        let tls = Mutex::new(ServerTls::load(&files)?);
        Ok(TlsDoor { files, tls, figures: TlsFigures::default(), lines: Mutex::default() })
    }

    /// Reloads the certificates for new connections; existing connections are not affected.
    ///
    /// # Errors
    /// [`TlsError`]; the old certificates stay in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let read = ServerTls::load(&self.files);
        let TlsFigures { reloads, reloads_failed, .. } = &self.figures;
        let count = if read.is_ok() { reloads } else { reloads_failed };
        count.fetch_add(1, Ordering::Relaxed);
        *self.tls.lock().unwrap_or_else(PoisonError::into_inner) = read?;
        Ok(())
    }

    /// Returns the current figures.
    #[must_use]
    pub fn report(&self) -> TlsReport {
        self.figures.report()
    }

    fn accept(&self) -> Result<Link, weir_tls::LinkError> {
        let tls = self.tls.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(tls.accept()?)
    }

    fn count(&self, peer: SocketAddr, failure: Failure, why: &dyn std::fmt::Display) {
        self.figures.failed[failure as usize].fetch_add(1, Ordering::Relaxed);
        let mut limit = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(suppressed) = limit.permit(monotonic_now()) {
            let outcome = failure.name();
            tracing::warn!(%peer, outcome, %why, suppressed, "no TLS with a peer");
        }
    }
}

/// A connection that completed its handshake.
#[derive(Debug)]
pub struct SecuredConnection(Box<TlsTransport>);

impl SecuredConnection {
    /// Returns the connection, for the door that takes it over.
    #[must_use]
    pub fn into_transport(self) -> Transport {
        Transport::Tls(self.0)
    }
}

struct Handshake {
    transport: Box<TlsTransport>,
    peer: SocketAddr,
    deadline: Nanos,
    /// True while it is in the list of handshakes to advance.
    is_ready: bool,
}

/// The parts of the agent.
pub struct HandshakesParts {
    /// The listening socket.
    pub listener: std::net::TcpListener,
    /// The node's certificates and counters.
    pub door: Arc<TlsDoor>,
    /// The ring of connections to the door.
    pub secured: Producer<SecuredConnection>,
    /// Wakes the thread of the door.
    pub wake: Wake,
    /// The limits.
    pub limits: HandshakeLimits,
    /// Set when the node stops: no connection is accepted any more.
    pub draining: Arc<AtomicBool>,
}

/// The agent that does TLS handshakes.
pub struct Handshakes {
    poll: Poll,
    poll_events: Events,
    listener: Listener,
    accepting: bool,
    slots: Vec<Option<Handshake>>,
    free: Vec<usize>,
    /// The slots of the handshakes under way, by host.
    strangers: Strangers<usize>,
    ready: VecDeque<usize>,
    done: VecDeque<SecuredConnection>,
    parts: Shared,
    scratch: Vec<u8>,
    timers_at: Nanos,
}

struct Shared {
    door: Arc<TlsDoor>,
    secured: Producer<SecuredConnection>,
    wake: Wake,
    limits: HandshakeLimits,
    draining: Arc<AtomicBool>,
}

impl Handshakes {
    /// Creates an agent that accepts from the listening socket.
    ///
    /// # Errors
    /// If the operating system refuses a poll or the listener.
    pub fn new(parts: HandshakesParts) -> std::io::Result<Handshakes> {
        let poll = Net::System.poll()?;
        let mut listener = Listener::from_std(parts.listener)?;
        poll.registry().register_listener(&mut listener, LISTENER)?;
        Ok(Handshakes {
            poll,
            poll_events: Events::with_capacity(256),
            listener,
            accepting: true,
            slots: Vec::new(),
            free: Vec::new(),
            strangers: Strangers::default(),
            ready: VecDeque::new(),
            done: VecDeque::new(),
            parts: Shared {
                door: parts.door,
                secured: parts.secured,
                wake: parts.wake,
                limits: parts.limits,
                draining: parts.draining,
            },
            scratch: vec![0; SCRATCH_LEN],
            timers_at: Nanos(0),
        })
    }

    fn pending(&self) -> usize {
        self.slots.len() - self.free.len() + self.done.len()
    }

    fn accept(&mut self, now: Nanos) -> usize {
        let mut accepted = 0;
        while self.accepting && accepted < ACCEPTS_MAX && self.done.len() < SECURED_MAX {
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    accepted += 1;
                    let room = stream.descriptor_room();
                    self.make_place(room);
                    match room {
                        DescriptorRoom::None => {
                            let why = &"no descriptor is left for connections";
                            self.parts.door.count(peer, Failure::Evicted, why);
                        }
                        _ => self.begin(stream, peer, now),
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.accepting = false;
                }
                // The peer gave up, or descriptors ran out: the next cycle tries again.
                Err(_) => break,
            }
        }
        accepted
    }

    /// Ends the oldest handshake of the largest crowd, if there are as many as there may be, or
    /// descriptors are short.
    fn make_place(&mut self, room: DescriptorRoom) {
        let is_full = self.strangers.count() >= self.parts.limits.pending_max;
        if (is_full || room != DescriptorRoom::Plenty)
            && let Some(slot) = self.strangers.oldest_of_the_largest_crowd()
        {
            self.fail(slot, Failure::Evicted, &"it made place for a newer one");
        }
    }

    fn begin(&mut self, mut stream: Stream, peer: SocketAddr, now: Nanos) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let registered = stream
            .set_nodelay()
            .and_then(|()| self.poll.registry().register(&mut stream, Token(slot)))
            .map_err(weir_tls::LinkError::Io)
            .and_then(|()| self.parts.door.accept());
        let link = match registered {
            Ok(link) => link,
            Err(error) => {
                self.parts.door.count(peer, Failure::of(&error), &error);
                self.free.push(slot);
                return;
            }
        };
        let deadline = Nanos(now.0 + self.parts.limits.time_max.0);
        let transport = Box::new(TlsTransport { stream, link, accepted_at: Some(now) });
        self.strangers.enter(slot, peer.ip());
        self.slots[slot] = Some(Handshake { transport, peer, deadline, is_ready: true });
        self.ready.push_back(slot);
    }

    /// Advances handshakes that are ready; returns their number.
    fn step(&mut self) -> usize {
        let mut steps = 0;
        while steps < STEPS_MAX
            && let Some(slot) = self.ready.pop_front()
        {
            let Some(handshake) = &mut self.slots[slot] else { continue };
            steps += 1;
            handshake.is_ready = false;
            let TlsTransport { stream, link, .. } = &mut *handshake.transport;
            match link.handshake(stream, &mut self.scratch) {
                Ok(false) => {}
                Ok(true) => self.complete(slot),
                Err(error) => self.fail(slot, Failure::of(&error), &error),
            }
        }
        steps
    }

    fn complete(&mut self, slot: usize) {
        let Some(mut handshake) = self.slots[slot].take() else { return };
        self.free.push(slot);
        self.strangers.leave(slot);
        let left = self.poll.registry().deregister(&mut handshake.transport.stream);
        if left.is_ok() {
            self.parts.door.figures.completed.fetch_add(1, Ordering::Relaxed);
            self.done.push_back(SecuredConnection(handshake.transport));
        }
    }

    fn fail(&mut self, slot: usize, failure: Failure, why: &dyn std::fmt::Display) {
        let Some(mut handshake) = self.slots[slot].take() else { return };
        self.free.push(slot);
        self.strangers.leave(slot);
        self.parts.door.count(handshake.peer, failure, why);
        // Closing a socket removes it from the poll anyway, so an error here does not matter.
        drop(self.poll.registry().deregister(&mut handshake.transport.stream));
    }

    /// Hands connections to the door while its ring has room; returns their number.
    fn hand_over(&mut self) -> usize {
        let mut count = 0;
        while let Some(secured) = self.done.pop_front() {
            if let Err(rtrb::PushError::Full(secured)) = self.parts.secured.push(secured) {
                self.done.push_front(secured);
                break;
            }
            count += 1;
        }
        if count > 0 {
            self.parts.wake.wake();
        }
        count
    }

    fn end_late_ones(&mut self, now: Nanos) {
        for slot in 0..self.slots.len() {
            let late = self.slots[slot].as_ref().is_some_and(|h| now >= h.deadline);
            if late {
                self.fail(slot, Failure::TimedOut, &"the handshake took too long");
            }
        }
    }
}

impl Poller for Handshakes {
    fn poll(&mut self, timeout: Option<Duration>) {
        if let Err(error) = self.poll.poll(&mut self.poll_events, timeout) {
            assert!(
                error.kind() == std::io::ErrorKind::Interrupted,
                "the poll of handshakes failed: {error}"
            );
            return;
        }
        for event in self.poll_events.iter() {
            match event.token {
                LISTENER => self.accepting = true,
                WAKER => {}
                Token(slot) => {
                    if let Some(Some(handshake)) = self.slots.get_mut(slot)
                        && !std::mem::replace(&mut handshake.is_ready, true)
                    {
                        self.ready.push_back(slot);
                    }
                }
            }
        }
    }

    fn waker(&self) -> std::io::Result<Waker> {
        self.poll.waker(WAKER)
    }
}

impl Agent for Handshakes {
    fn name(&self) -> &'static str {
        "handshakes"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        let mut done = self.step();
        if !self.parts.draining.load(Ordering::Relaxed) {
            done += self.accept(now);
        }
        done += self.hand_over();
        if now >= self.timers_at {
            self.timers_at = Nanos(now.0 + TIMER_INTERVAL);
            self.end_late_ones(now);
        }
        self.parts.door.figures.pending.store(self.pending() as u64, Ordering::Relaxed);
        done
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        if !self.done.is_empty() {
            return Some(Nanos(now.0 + 500_000));
        }
        (self.pending() > 0).then_some(self.timers_at)
    }

    fn stop(&mut self, _now: Nanos) -> bool {
        true
    }
}
