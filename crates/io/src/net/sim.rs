//! A network in memory, with the faults of a real one.
//!
//! Fault model:
//! * Bytes arrive in order, each write after a drawn number of ticks; time passes only by
//!   [`SimNet::advance`]. A write takes as much as the buffers between the ends have room for, and
//!   by chance less; a read returns by chance less than there is, and the rest counts as come
//!   after it.
//! * A stream can be reset at any byte under way. A closed end resets the stream if it left bytes
//!   unread or is written to, as TCP does.
//! * An end can vanish: it says nothing more, and its peer's bytes pile up. Once its machine is
//!   back, the next of them is answered with a reset.
//! * A connection can be refused, by chance or because nothing listens.
//! * A listening socket can be short of descriptors, or have none: then an accept fails and the
//!   connection waits on. As in the system, no event says that there are descriptors again.
//! * Readiness is edge-triggered. A poll can return without an event, and an event can report a
//!   socket as readable that has nothing to read.
//!
//! The seed decides all of it. Not modelled: loss inside a stream, which TCP repairs or turns into
//! a reset, and the order of events within one poll, which is the order in which they occurred.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::{Event, Token};
use crate::descriptors::DescriptorRoom;
use crate::rng::{Rng, SeededRng};

/// The faults of a network, and its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetFaults {
    /// Bytes that fit between the two ends, in each direction.
    pub buffer_len_max: usize,
    /// The most ticks that bytes are under way.
    pub delay_ticks_max: u64,
    /// The number of reads in 1,000 that return less than there is.
    pub short_reads_per_mille: u64,
    /// The number of writes in 1,000 that take less than there is room for.
    pub short_writes_per_mille: u64,
    /// The number of arrivals in 10,000 at which the stream is reset, at any byte.
    pub resets_per_myriad: u64,
    /// The number of connections in 1,000 that are refused.
    pub refusals_per_mille: u64,
    /// The number of ticks in 1,000 with a spurious event.
    pub spurious_per_mille: u64,
}

impl Default for NetFaults {
    fn default() -> NetFaults {
        NetFaults {
            buffer_len_max: 64 * 1024,
            delay_ticks_max: 0,
            short_reads_per_mille: 0,
            short_writes_per_mille: 0,
            resets_per_myriad: 0,
            refusals_per_mille: 0,
            spurious_per_mille: 0,
        }
    }
}

/// The number of faults that occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetCounts {
    /// Streams reset by a fault.
    pub resets: u64,
    /// Connections refused by a fault.
    pub refusals: u64,
    /// Writes that found no room.
    pub blocked_writes: u64,
    /// Spurious events.
    pub spurious: u64,
    /// Accepts without a descriptor.
    pub failed_accepts: u64,
}

/// The descriptors that a listening socket's process has for connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimDescriptors {
    /// An accepted stream has this room beside it.
    Free(DescriptorRoom),
    /// None: accepts fail.
    Exhausted,
}

/// A simulated network. Clones are handles to the same one.
#[derive(Clone)]
pub struct SimNet {
    shared: Arc<Mutex<State>>,
}

impl std::fmt::Debug for SimNet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SimNet")
    }
}

/// A source of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    End(u64),
    Listener(SocketAddr),
}

#[derive(Debug)]
struct Registered {
    source: Source,
    /// True while an event is due.
    is_due: bool,
    /// True if the event reports input in any case.
    is_spurious: bool,
}

#[derive(Debug, Default)]
struct PollState {
    registered: BTreeMap<Token, Registered>,
    /// The tokens with an event due, in the order of its cause.
    due: VecDeque<Token>,
    waker: Option<Token>,
    is_woken: bool,
}

#[derive(Debug)]
enum Segment {
    Bytes(Vec<u8>),
    End,
    Reset,
}

/// One end of a stream. A closed one stays until its peer is closed too.
#[derive(Debug)]
struct End {
    peer: u64,
    peer_addr: SocketAddr,
    registered: Option<(usize, Token)>,
    inbox: VecDeque<u8>,
    /// Segments under way to this end, with the tick of their arrival.
    coming: VecDeque<(u64, Segment)>,
    /// Bytes among them.
    coming_len: usize,
    has_peer_ended: bool,
    has_ended: bool,
    is_reset: bool,
    /// The reset has not been returned by a call yet.
    owes_error: bool,
    is_closed: bool,
    /// It sends nothing and takes nothing.
    has_vanished: bool,
    /// A write found no room since the last event.
    wants_room: bool,
}

#[derive(Debug)]
struct Listening {
    registered: Option<(usize, Token)>,
    waiting: VecDeque<(u64, SocketAddr)>,
    descriptors: SimDescriptors,
}

struct State {
    rng: SeededRng,
    faults: NetFaults,
    counts: NetCounts,
    tick: u64,
    ends: BTreeMap<u64, End>,
    end_count: u64,
    listeners: BTreeMap<SocketAddr, Listening>,
    polls: BTreeMap<usize, PollState>,
    poll_count: usize,
}

/// Connections that wait on a listening socket; further ones are refused.
const BACKLOG_MAX: usize = 128;

impl SimNet {
    /// Creates a network without faults; `seed` decides everything.
    #[must_use]
    pub fn new(seed: u64) -> SimNet {
        let state = State {
            rng: SeededRng::new(seed, "network"),
            faults: NetFaults::default(),
            counts: NetCounts::default(),
            tick: 0,
            ends: BTreeMap::new(),
            end_count: 0,
            listeners: BTreeMap::new(),
            polls: BTreeMap::new(),
            poll_count: 0,
        };
        SimNet { shared: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the faults from now on.
    pub fn set_faults(&self, faults: NetFaults) {
        self.state().faults = faults;
    }

    /// Returns the number of faults that occurred.
    #[must_use]
    pub fn counts(&self) -> NetCounts {
        self.state().counts
    }

    /// Lets one tick pass: what is due arrives.
    pub fn advance(&self) {
        let mut state = self.state();
        state.tick += 1;
        let ids: Vec<u64> = state.ends.keys().copied().collect();
        for id in ids {
            state.deliver(id);
        }
        state.spurious_event();
    }

    /// Listens on `address`; a machine that was off is back.
    ///
    /// # Panics
    /// If something listens there already.
    #[must_use]
    pub fn listen(&self, address: SocketAddr) -> SimListener {
        let descriptors = SimDescriptors::Free(DescriptorRoom::Plenty);
        let listening = Listening { registered: None, waiting: VecDeque::new(), descriptors };
        let mut state = self.state();
        let before = state.listeners.insert(address, listening);
        assert!(before.is_none(), "{address} is in use");
        for id in state.ends_at(address) {
            if let Some(end) = state.ends.get_mut(&id) {
                // The machine is back, and knows nothing of these streams.
                end.has_vanished &= !end.is_closed;
            }
        }
        drop(state);
        SimListener { net: self.clone(), address }
    }

    /// Sets the descriptors of the process that listens on `address`, if one does.
    pub fn set_descriptors(&self, address: SocketAddr, descriptors: SimDescriptors) {
        if let Some(listening) = self.state().listeners.get_mut(&address) {
            listening.descriptors = descriptors;
        }
    }

    /// Returns the number of connections made so far, in the whole network.
    #[must_use]
    pub fn connection_count(&self) -> u64 {
        self.state().end_count / 2
    }

    /// Returns the number of open streams of all listeners, those included that wait to be
    /// accepted.
    #[must_use]
    pub fn listener_stream_count(&self) -> u64 {
        // The second end of each connection is the listener's.
        self.state().ends.keys().filter(|id| **id % 2 == 1).count() as u64
    }

    /// Returns the number, from zero, of the first connection that waits to be accepted on
    /// `address`.
    #[must_use]
    pub fn first_waiting(&self, address: SocketAddr) -> Option<u64> {
        let state = self.state();
        let waiting = state.listeners.get(&address).and_then(|l| l.waiting.front());
        waiting.map(|(id, _)| id / 2)
    }

    /// Connects from `from` to `to`.
    ///
    /// # Errors
    /// `ConnectionRefused`.
    pub fn connect(&self, from: SocketAddr, to: SocketAddr) -> Result<SimStream> {
        let mut state = self.state();
        let refusals = state.faults.refusals_per_mille;
        if state.rng.chance(refusals, 1_000) {
            state.counts.refusals += 1;
            return Err(ErrorKind::ConnectionRefused.into());
        }
        let has_room = state.listeners.get(&to).is_some_and(|l| l.waiting.len() < BACKLOG_MAX);
        if !has_room {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        let (ours, theirs) = (state.end_count, state.end_count + 1);
        state.end_count += 2;
        state.ends.insert(ours, End::new(theirs, to));
        state.ends.insert(theirs, End::new(ours, from));
        if let Some(listening) = state.listeners.get_mut(&to) {
            listening.waiting.push_back((theirs, from));
        }
        state.changed(Source::Listener(to));
        drop(state);
        Ok(SimStream { net: self.clone(), id: ours })
    }

    pub(super) fn poll(&self) -> SimPoll {
        let mut state = self.state();
        state.poll_count += 1;
        let id = state.poll_count;
        state.polls.insert(id, PollState::default());
        drop(state);
        SimPoll { net: self.clone(), id }
    }

    /// Makes all streams that a listening socket has accepted, or has waiting, vanish: their
    /// machine is off, and the peers are told nothing.
    pub fn lose_machine(&self, at: SocketAddr) {
        let mut state = self.state();
        for id in state.ends_at(at) {
            if let Some(end) = state.ends.get_mut(&id) {
                end.has_vanished = true;
                (end.coming, end.coming_len) = (VecDeque::new(), 0);
            }
        }
    }
}

impl End {
    fn new(peer: u64, peer_addr: SocketAddr) -> End {
        End {
            peer,
            peer_addr,
            registered: None,
            inbox: VecDeque::new(),
            coming: VecDeque::new(),
            coming_len: 0,
            has_peer_ended: false,
            has_ended: false,
            is_reset: false,
            owes_error: false,
            is_closed: false,
            has_vanished: false,
            wants_room: false,
        }
    }

    fn take_error(&mut self) -> Option<Error> {
        std::mem::take(&mut self.owes_error).then(|| ErrorKind::ConnectionReset.into())
    }
}

impl State {
    /// Returns the room beside an end that was accepted.
    fn descriptor_room(&self, id: u64) -> DescriptorRoom {
        let peer = self.ends.get(&id).and_then(|end| self.ends.get(&end.peer));
        let listening = peer.and_then(|peer| self.listeners.get(&peer.peer_addr));
        match listening.map(|listening| listening.descriptors) {
            Some(SimDescriptors::Free(room)) => room,
            Some(SimDescriptors::Exhausted) => DescriptorRoom::None,
            None => DescriptorRoom::Plenty,
        }
    }

    /// Returns the ends of streams at an address: those whose peers are connected to it.
    fn ends_at(&self, at: SocketAddr) -> Vec<u64> {
        let is_there = |end: &End| self.ends.get(&end.peer).is_some_and(|to| to.peer_addr == at);
        self.ends.iter().filter(|(_, end)| is_there(end)).map(|(id, _)| *id).collect()
    }

    /// Records a change of a source: its poll reports it.
    fn changed(&mut self, source: Source) {
        let registered = match source {
            Source::End(id) => self.ends.get(&id).and_then(|end| end.registered),
            Source::Listener(at) => self.listeners.get(&at).and_then(|l| l.registered),
        };
        let Some((poll, token)) = registered else { return };
        let Some(poll) = self.polls.get_mut(&poll) else { return };
        if let Some(registered) = poll.registered.get_mut(&token)
            && !std::mem::replace(&mut registered.is_due, true)
        {
            poll.due.push_back(token);
        }
    }

    fn spurious_event(&mut self) {
        let per_mille = self.faults.spurious_per_mille;
        if !self.rng.chance(per_mille, 1_000) {
            return;
        }
        let count = self.polls.values().map(|poll| poll.registered.len() + 1).sum::<usize>();
        let mut at = usize::try_from(self.rng.below(count.max(1) as u64)).expect("an index");
        self.counts.spurious += 1;
        for poll in self.polls.values_mut() {
            if at == poll.registered.len() {
                poll.is_woken = true;
                return;
            }
            if let Some((token, registered)) = poll.registered.iter_mut().nth(at) {
                registered.is_spurious = true;
                if !std::mem::replace(&mut registered.is_due, true) {
                    poll.due.push_back(*token);
                }
                return;
            }
            at -= poll.registered.len() + 1;
        }
    }

    /// The room for bytes towards an end.
    fn room_to(&self, id: u64) -> usize {
        let Some(end) = self.ends.get(&id) else { return 0 };
        self.faults.buffer_len_max.saturating_sub(end.inbox.len() + end.coming_len)
    }

    fn send(&mut self, to: u64, segment: Segment) {
        let delay = self.faults.delay_ticks_max;
        let due = self.tick + self.rng.below(delay + 1);
        let Some(end) = self.ends.get_mut(&to) else { return };
        let due = end.coming.back().map_or(due, |(before, _)| due.max(*before));
        if let Segment::Bytes(bytes) = &segment {
            end.coming_len += bytes.len();
        }
        end.coming.push_back((due, segment));
        self.deliver(to);
    }

    /// Lets the segments that are due arrive at an end.
    fn deliver(&mut self, id: u64) {
        loop {
            let Some(end) = self.ends.get_mut(&id) else { return };
            if end.has_vanished || end.coming.front().is_none_or(|(due, _)| *due > self.tick) {
                return;
            }
            let Some((_, segment)) = end.coming.pop_front() else { return };
            if let Segment::Bytes(bytes) = &segment {
                end.coming_len -= bytes.len();
            }
            self.arrive(id, segment);
        }
    }

    fn arrive(&mut self, id: u64, segment: Segment) {
        let per_myriad = self.faults.resets_per_myriad;
        let is_cut = matches!(segment, Segment::Bytes(_)) && self.rng.chance(per_myriad, 10_000);
        let Some(end) = self.ends.get_mut(&id) else { return };
        let peer = end.peer;
        if end.is_reset {
            return;
        }
        match segment {
            Segment::Bytes(_) if end.is_closed => self.send(peer, Segment::Reset),
            Segment::Bytes(bytes) => {
                let kept = if is_cut { self.rng.below(bytes.len() as u64 + 1) } else { u64::MAX };
                end.inbox.extend(bytes.iter().zip(0..kept).map(|(byte, _)| byte));
                if is_cut {
                    self.counts.resets += 1;
                    self.reset(id);
                    self.reset(peer);
                } else {
                    self.changed(Source::End(id));
                }
            }
            Segment::End => {
                end.has_peer_ended = true;
                self.changed(Source::End(id));
            }
            Segment::Reset => self.reset(id),
        }
    }

    fn reset(&mut self, id: u64) {
        let Some(end) = self.ends.get_mut(&id) else { return };
        if end.has_vanished || std::mem::replace(&mut end.is_reset, true) {
            return;
        }
        end.owes_error = true;
        (end.coming, end.coming_len) = (VecDeque::new(), 0);
        self.changed(Source::End(id));
    }

    fn read(&mut self, id: u64, into: &mut [u8]) -> Result<usize> {
        let is_short = {
            let per_mille = self.faults.short_reads_per_mille;
            self.rng.chance(per_mille, 1_000)
        };
        let end = self.ends.get_mut(&id).expect("a stream's end exists until it is dropped");
        let mut len = end.inbox.len().min(into.len());
        if end.inbox.is_empty() {
            return match end.take_error() {
                Some(error) => Err(error),
                None if end.has_peer_ended || end.is_reset => Ok(0),
                None => Err(ErrorKind::WouldBlock.into()),
            };
        }
        let could = len;
        if is_short && len > 1 {
            len = usize::try_from(1 + self.rng.below(len as u64)).expect("at most the length");
        }
        for (byte, taken) in into.iter_mut().zip(end.inbox.drain(..len)) {
            *byte = taken;
        }
        let peer = end.peer;
        if len < could {
            // In the system a short read has emptied the stream, and what follows has come since.
            self.changed(Source::End(id));
        }
        // A third of the buffer, as in the system: not every byte read raises an event.
        if self.room_to(id) >= self.faults.buffer_len_max.div_ceil(3)
            && let Some(peer_end) = self.ends.get_mut(&peer)
            && std::mem::take(&mut peer_end.wants_room)
        {
            self.changed(Source::End(peer));
        }
        Ok(len)
    }

    fn write(&mut self, id: u64, bytes: &[u8]) -> Result<usize> {
        let end = self.ends.get_mut(&id).expect("a stream's end exists until it is dropped");
        if let Some(error) = end.take_error() {
            return Err(error);
        }
        if end.is_reset || end.has_ended {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let (peer, has_vanished) = (end.peer, end.has_vanished);
        let mut len = self.room_to(peer).min(bytes.len());
        if len == 0 && !bytes.is_empty() {
            self.counts.blocked_writes += 1;
            self.ends.get_mut(&id).expect("it was just there").wants_room = true;
            return Err(ErrorKind::WouldBlock.into());
        }
        let per_mille = self.faults.short_writes_per_mille;
        if len > 1 && self.rng.chance(per_mille, 1_000) {
            len = usize::try_from(1 + self.rng.below(len as u64)).expect("at most the length");
        }
        if len > 0 && !has_vanished {
            self.send(peer, Segment::Bytes(bytes[..len].to_vec()));
        }
        Ok(len)
    }

    fn end(&mut self, id: u64) -> Result<()> {
        let Some(end) = self.ends.get_mut(&id) else { return Ok(()) };
        if end.is_reset {
            return Err(ErrorKind::NotConnected.into());
        }
        let peer = end.peer;
        if !std::mem::replace(&mut end.has_ended, true) && !end.has_vanished {
            self.send(peer, Segment::End);
        }
        Ok(())
    }

    fn close(&mut self, id: u64) {
        self.deregister(Source::End(id));
        let Some(end) = self.ends.get_mut(&id) else { return };
        end.is_closed = true;
        let (peer, is_silent) = (end.peer, end.has_vanished || end.is_reset);
        let has_unread = !std::mem::take(&mut end.inbox).is_empty();
        if !is_silent && has_unread {
            self.send(peer, Segment::Reset);
        } else if !is_silent {
            // The state of an end that was never reset cannot refuse it.
            let _ = self.end(id);
        }
        if self.ends.get(&peer).is_none_or(|peer| peer.is_closed) {
            self.ends.remove(&id);
            self.ends.remove(&peer);
        }
    }

    fn registration(&mut self, source: Source) -> Option<&mut Option<(usize, Token)>> {
        match source {
            Source::End(id) => self.ends.get_mut(&id).map(|end| &mut end.registered),
            Source::Listener(at) => self.listeners.get_mut(&at).map(|l| &mut l.registered),
        }
    }

    fn register(&mut self, poll: usize, source: Source, token: Token) {
        let Some(registration) = self.registration(source) else { return };
        assert!(registration.replace((poll, token)).is_none(), "a socket is registered once");
        let poll = self.polls.get_mut(&poll).expect("a poll exists until it is dropped");
        let registered = Registered { source, is_due: false, is_spurious: false };
        let before = poll.registered.insert(token, registered);
        assert!(before.is_none(), "a token is a single socket's");
        self.changed(source);
    }

    fn deregister(&mut self, source: Source) {
        let taken = self.registration(source).and_then(Option::take);
        if let Some((poll, token)) = taken
            && let Some(poll) = self.polls.get_mut(&poll)
        {
            poll.registered.remove(&token);
            poll.due.retain(|due| *due != token);
        }
    }

    /// Returns the event of a source as it is now; `None` if there is nothing to report.
    fn event_of(&self, token: Token, registered: &Registered) -> Option<Event> {
        let event = match registered.source {
            Source::Listener(at) => Event {
                token,
                is_readable: registered.is_spurious
                    || self.listeners.get(&at).is_some_and(|l| !l.waiting.is_empty()),
                is_writable: false,
                is_read_closed: false,
            },
            Source::End(id) => {
                let end = self.ends.get(&id)?;
                let is_over = end.has_peer_ended || end.is_reset;
                Event {
                    token,
                    is_readable: registered.is_spurious || is_over || !end.inbox.is_empty(),
                    is_writable: end.is_reset || self.room_to(end.peer) > 0,
                    is_read_closed: is_over,
                }
            }
        };
        (event.is_readable || event.is_writable).then_some(event)
    }

    fn poll(&mut self, id: usize, into: &mut Vec<Event>, count_max: usize) {
        let poll = self.polls.get_mut(&id).expect("a poll exists until it is dropped");
        if std::mem::take(&mut poll.is_woken)
            && let Some(token) = poll.waker
        {
            let (is_readable, is_writable, is_read_closed) = (true, false, false);
            into.push(Event { token, is_readable, is_writable, is_read_closed });
        }
        while into.len() < count_max {
            let poll = self.polls.get_mut(&id).expect("it was just there");
            let Some(token) = poll.due.pop_front() else { return };
            let poll = self.polls.get(&id).expect("it was just there");
            let Some(registered) = poll.registered.get(&token) else { continue };
            into.extend(self.event_of(token, registered));
            let poll = self.polls.get_mut(&id).expect("it was just there");
            if let Some(registered) = poll.registered.get_mut(&token) {
                (registered.is_due, registered.is_spurious) = (false, false);
            }
        }
    }

    fn has_event(&self, id: usize) -> bool {
        let Some(poll) = self.polls.get(&id) else { return false };
        let is_event = |token: &Token| {
            let registered = poll.registered.get(token);
            registered.is_some_and(|registered| self.event_of(*token, registered).is_some())
        };
        poll.is_woken || poll.due.iter().any(is_event)
    }
}

/// A poll of a simulated network.
#[derive(Debug)]
pub struct SimPoll {
    net: SimNet,
    id: usize,
}

impl SimPoll {
    /// Replaces the events in `into` by those that are due, at most `count_max`.
    pub(super) fn poll(&self, into: &mut Vec<Event>, count_max: usize) {
        into.clear();
        self.net.state().poll(self.id, into, count_max);
    }

    pub(super) fn waker(&self, token: Token) -> SimWaker {
        let mut state = self.net.state();
        let poll = state.polls.get_mut(&self.id).expect("a poll exists until it is dropped");
        poll.waker = Some(token);
        drop(state);
        SimWaker { net: self.net.clone(), poll: self.id }
    }

    pub(super) fn register_stream(&self, stream: &SimStream, token: Token) {
        self.net.state().register(self.id, Source::End(stream.id), token);
    }

    pub(super) fn deregister_stream(&self, stream: &SimStream) {
        self.net.state().deregister(Source::End(stream.id));
    }

    pub(super) fn register_listener(&self, listener: &SimListener, token: Token) {
        self.net.state().register(self.id, Source::Listener(listener.address), token);
    }
}

impl Drop for SimPoll {
    fn drop(&mut self) {
        let mut state = self.net.state();
        if let Some(poll) = state.polls.remove(&self.id) {
            for registered in poll.registered.values() {
                if let Some(registration) = state.registration(registered.source) {
                    *registration = None;
                }
            }
        }
    }
}

/// The waker of a simulated poll.
#[derive(Debug)]
pub struct SimWaker {
    net: SimNet,
    poll: usize,
}

impl SimWaker {
    /// Ends the poll's wait, or the next one.
    pub fn wake(&self) {
        if let Some(poll) = self.net.state().polls.get_mut(&self.poll) {
            poll.is_woken = true;
        }
    }

    /// Returns true if a wait in the poll ends at once, because of an event or a wake-up.
    #[must_use]
    pub fn ends_wait(&self) -> bool {
        self.net.state().has_event(self.poll)
    }
}

/// A simulated listening socket; its drop closes it.
#[derive(Debug)]
pub struct SimListener {
    net: SimNet,
    address: SocketAddr,
}

impl SimListener {
    /// Accepts the next connection, with the peer's address.
    ///
    /// # Errors
    /// `WouldBlock` if none waits; the system's error of a process without a free descriptor.
    pub fn accept(&self) -> Result<(SimStream, SocketAddr)> {
        let mut state = self.net.state();
        let listening = state.listeners.get_mut(&self.address).expect("it listens until its drop");
        if listening.descriptors == SimDescriptors::Exhausted {
            state.counts.failed_accepts += 1;
            return Err(Errno::MFILE.into());
        }
        let (id, peer) = listening.waiting.pop_front().ok_or(ErrorKind::WouldBlock)?;
        drop(state);
        Ok((SimStream { net: self.net.clone(), id }, peer))
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut state = self.net.state();
        state.deregister(Source::Listener(self.address));
        let waiting = state.listeners.remove(&self.address).map(|listening| listening.waiting);
        for (id, _) in waiting.into_iter().flatten() {
            let Some(peer) = state.ends.get(&id).map(|end| end.peer) else { continue };
            state.reset(peer);
            state.close(id);
        }
    }
}

/// One end of a simulated stream; its drop closes it.
#[derive(Debug)]
pub struct SimStream {
    net: SimNet,
    id: u64,
}

impl SimStream {
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        self.net.state().read(self.id, into)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.net.state().write(self.id, bytes)
    }

    pub(super) fn shutdown_write(&self) -> Result<()> {
        self.net.state().end(self.id)
    }

    pub(super) fn peer_addr(&self) -> SocketAddr {
        let state = self.net.state();
        state.ends.get(&self.id).expect("a stream's end exists until it is dropped").peer_addr
    }

    pub(super) fn descriptor_room(&self) -> DescriptorRoom {
        self.net.state().descriptor_room(self.id)
    }

    /// Makes this end vanish: it sends nothing more, not even its end, and takes nothing.
    pub fn vanish(&self) {
        if let Some(end) = self.net.state().ends.get_mut(&self.id) {
            end.has_vanished = true;
        }
    }

    /// Resets the stream.
    pub fn reset(&self) {
        let mut state = self.net.state();
        if let Some(peer) = state.ends.get(&self.id).map(|end| end.peer) {
            state.reset(self.id);
            state.reset(peer);
        }
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.net.state().close(self.id);
    }
}
