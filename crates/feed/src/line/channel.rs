//! One channel of a feed: line arbitration, gaps, retransmission requests, sessions, recovery.
//!
//! INVARIANT: messages are delivered by rising sequence number without a gap, except for the ranges
//! named by [`Event::Stale`] and the state voided by [`Event::Joined`] and [`Event::Session`].

use weir_types::Nanos;

use super::held::{HeldPacket, HeldPackets, MissingRange, ReceivedPacket};
use super::numbering::{Arrival, Beginning, FIRST, Numbering, Verdict};
use super::ranges::GivenUpRanges;
use super::seen::Seen;
use super::{ChannelCounts, Event, Handler, LateJoin, Line, LineConfig, Run, StaleReason, State};
use crate::plant::{self, Plant};
use crate::{Packet, PacketKind};

/// The first gap: messages from `from` up to, but excluding, `to`.
#[derive(Clone, Copy, Debug)]
struct Gap {
    from: u64,
    to: u64,
    /// The time at which it was detected.
    since: Nanos,
}

/// The progress of retransmission requests.
#[derive(Clone, Copy, Debug, Default)]
struct RequestProgress {
    /// All missing messages before this number were requested.
    to: u64,
    /// Requests since the first gap became the first one.
    attempts: u32,
    /// The time of the last request or answer.
    last: Option<Nanos>,
    /// The time at which the first gap was last requested or a part of it arrived.
    first: Option<Nanos>,
}

/// The state of one channel.
#[derive(Clone, Debug)]
pub struct Channel {
    channel: u32,
    config: LineConfig,
    session: Option<u64>,
    /// True once `next` is valid.
    is_joined: bool,
    /// The sequence number of the next message to deliver.
    next: u64,
    /// All messages before this number are known to exist.
    horizon: u64,
    /// The time at which the horizon last moved.
    horizon_at: Nanos,
    held: HeldPackets,
    gap: Option<Gap>,
    requested: RequestProgress,
    is_stale: bool,
    is_recovering: bool,
    /// The number after the session's last message, once announced.
    end: Option<u64>,
    is_ended: bool,
    state: State,
    numbering: Numbering,
    given_up: GivenUpRanges,
    /// The numbers seen on each line in this session.
    seen: [Seen; 3],
    counts: ChannelCounts,
}

impl Channel {
    /// Creates a channel without any input.
    #[must_use]
    pub fn new(channel: u32, config: LineConfig) -> Channel {
        Channel {
            channel,
            config,
            session: None,
            is_joined: false,
            next: FIRST,
            horizon: FIRST,
            horizon_at: Nanos(0),
            held: HeldPackets::new(config.held_packets_max, config.held_bytes_max),
            gap: None,
            requested: RequestProgress::default(),
            is_stale: false,
            is_recovering: false,
            end: None,
            is_ended: false,
            state: State::Waiting,
            numbering: Numbering::new(),
            given_up: GivenUpRanges::default(),
            seen: [Seen::NONE; 3],
            counts: ChannelCounts::default(),
        }
    }

    /// Returns the state of the channel.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the counters of the channel.
    #[must_use]
    pub fn counts(&self) -> &ChannelCounts {
        &self.counts
    }

    /// Returns the sequence number of the next message to deliver.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns the session; `None` before the first packet.
    #[must_use]
    pub fn session(&self) -> Option<u64> {
        self.session
    }

    /// Returns the number of held packets.
    #[must_use]
    pub fn held_len(&self) -> usize {
        self.held.len()
    }

    /// Returns the number before which all messages of this session are known to exist.
    #[must_use]
    pub fn heard_to(&self) -> u64 {
        self.horizon
    }

    /// Takes a packet received at `now`, delivers the messages that it completes, and runs the
    /// timers.
    pub fn packet(&mut self, line: Line, packet: &Packet<'_>, now: Nanos, out: &mut impl Handler) {
        if self.admit(line, packet, now, out) {
            self.tick(now, out);
        }
    }

    /// Takes a packet without running the timers: for a caller with more packets received before
    /// `now`, which it passes on before [`Channel::tick`], so that no gap is given up while the
    /// missing packet waits to be read.
    pub fn arrive(&mut self, line: Line, packet: &Packet<'_>, now: Nanos, out: &mut impl Handler) {
        if self.admit(line, packet, now, out) {
            self.tell_state(out);
        }
    }

    /// Takes a packet; returns false for one that is not of the followed session. The caller
    /// reports the resulting state.
    fn admit(
        &mut self,
        line: Line,
        packet: &Packet<'_>,
        now: Nanos,
        out: &mut impl Handler,
    ) -> bool {
        let counts = &mut self.counts.lines[line.index()];
        counts.packets = counts.packets.saturating_add(1);
        let end = packet.sequence.checked_add(u64::from(packet.count));
        let Some(end) = end.filter(|_| packet.sequence > 0 || packet.count == 0) else {
            self.counts.malformed_packets += 1;
            return false;
        };
        let is_again = line == Line::Retransmission || packet.kind == PacketKind::Retransmission;
        if !self.follow(packet, Arrival { end, is_again, now }, out) {
            return false;
        }
        self.note_line(line, packet, end, is_again);
        // Some venues send heartbeats with number zero before the first message.
        let first = packet.sequence.max(FIRST);
        self.join_late(first, is_again, out);
        if end > self.horizon {
            (self.horizon, self.horizon_at) = (end, now);
        }
        if packet.kind == PacketKind::EndOfSession {
            self.end = Some(end.max(FIRST));
        }
        if packet.count > 0 {
            self.take(&coming(line, packet, end, now), is_again, out);
        }
        self.settle(now, out);
        true
    }

    /// Runs the timers: requests missing messages and gives gaps up. Call it when
    /// [`Channel::deadline`] is reached; more frequent calls are harmless.
    pub fn tick(&mut self, now: Nanos, out: &mut impl Handler) {
        while let Some(gap) = self.gap {
            let waited = now.since(gap.since);
            let reason = if gap.to - gap.from > self.config.gap_messages_max {
                StaleReason::TooMany
            } else if waited >= self.config.give_up {
                StaleReason::Timeout
            } else if waited >= self.config.reorder && self.ask(now, out) {
                StaleReason::Unanswered
            } else {
                break;
            };
            self.give_up(u64::MAX, reason, out);
            self.settle(now, out);
        }
        self.tell_state(out);
    }

    /// Returns the next time at which [`Channel::tick`] has work; `None` when only a packet can
    /// change anything.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        let gap = self.gap?;
        let give_up = after(gap.since, self.config.give_up);
        let Some(request) = self.config.request else { return Some(give_up) };
        let again = self.requested.first.map(|first| after(first, request.timeout));
        let unasked = self.held.first_missing(self.requested.to.max(self.next), self.horizon);
        let further = unasked.map(|missing| {
            after(missing.arrived.unwrap_or(self.horizon_at), self.config.reorder)
                .max(after(gap.since, self.config.reorder))
        });
        let due = again.into_iter().chain(further).min();
        let paced = self.requested.last.map_or(Nanos(0), |last| after(last, request.interval));
        Some(due.map_or(give_up, |due| due.max(paced).min(give_up)))
    }

    /// Starts recovery from a snapshot: all packets are held until [`Channel::join`]. When there is
    /// no room, the oldest is dropped, which the snapshot most likely covers.
    pub fn begin_recovery(&mut self, out: &mut impl Handler) {
        self.is_recovering = true;
        self.gap = None;
        self.tell_state(out);
    }

    /// Continues after a snapshot of `session` that covers all messages before `next`, with the
    /// held packets. Messages missing between the snapshot and the first held packet are a gap like
    /// any other. Returns false, and changes nothing, when the channel is in another session.
    #[must_use]
    pub fn join(&mut self, session: u64, next: u64, now: Nanos, out: &mut impl Handler) -> bool {
        if *self.session.get_or_insert(session) != session {
            return false;
        }
        self.is_joined = true;
        self.is_recovering = false;
        self.is_stale = false;
        self.is_ended = false;
        self.next = next.max(FIRST);
        self.numbering.reach(session, self.next);
        if self.next > self.horizon {
            (self.horizon, self.horizon_at) = (self.next, now);
        }
        self.gap = None;
        self.requested = RequestProgress::default();
        self.given_up.clear();
        self.counts.recoveries += 1;
        out.event(self.channel, &Event::Joined { next: self.next });
        self.settle(now, out);
        self.tick(now, out);
        true
    }

    /// Abandons a failed recovery: delivers the held packets, STALE.
    pub fn abandon_recovery(&mut self, now: Nanos, out: &mut impl Handler) {
        self.is_recovering = false;
        self.is_stale = true;
        self.settle(now, out);
        self.tick(now, out);
    }

    /// Marks the channel STALE: a consumer found its messages to contradict each other.
    pub fn mark_stale(&mut self, out: &mut impl Handler) {
        self.is_stale = true;
        self.tell_state(out);
    }

    /// Returns true when the packet is of the followed run, which it may begin.
    fn follow(&mut self, packet: &Packet<'_>, arrival: Arrival, out: &mut impl Handler) -> bool {
        match self.numbering.judge(packet, arrival) {
            Verdict::Follows => return true,
            Verdict::Begins(how) => {
                self.begin(how, packet, out);
                return true;
            }
            Verdict::Old { revealed } => {
                self.counts.old_session_packets += 1;
                if let Some((from, to)) = revealed {
                    self.tell_stale(packet.session, from, to, StaleReason::SessionOver, out);
                }
            }
            Verdict::Foreign => self.counts.foreign_packets += 1,
            Verdict::Contradicts => self.contradict(packet.session, out),
        }
        false
    }

    /// Begins the run that a packet shows: the state of the one before is void.
    fn begin(&mut self, how: Beginning, packet: &Packet<'_>, out: &mut impl Handler) {
        let is_same = self.session == Some(packet.session);
        if self.session.is_some() {
            self.finish_session(out);
        }
        self.session = Some(packet.session);
        self.counts.sessions += 1;
        self.counts.restarts += u64::from(is_same);
        self.is_joined = match how {
            Beginning::Session => self.is_joined,
            Beginning::Restart => {
                self.next = packet.sequence.max(FIRST);
                self.horizon = self.next;
                true
            }
            // Its first packets were taken for another run's, and are lost.
            Beginning::Found => false,
        };
        out.event(self.channel, &Event::Session { session: packet.session });
    }

    /// Marks the channel STALE for a packet that contradicts it.
    fn contradict(&mut self, session: u64, out: &mut impl Handler) {
        self.counts.contradictions += 1;
        if self.is_stale || self.is_recovering {
            return;
        }
        self.is_stale = true;
        self.tell_stale(session, self.next, self.next, StaleReason::Contradicted, out);
        self.tell_state(out);
    }

    /// Gives up the gaps of the run and delivers its held packets.
    fn finish_session(&mut self, out: &mut impl Handler) {
        self.is_recovering = false;
        self.drain(out);
        while self.next < self.horizon {
            self.give_up(u64::MAX, StaleReason::SessionOver, out);
            self.drain(out);
        }
        (self.next, self.horizon) = (FIRST, FIRST);
        self.held.clear();
        self.gap = None;
        self.requested = RequestProgress::default();
        (self.is_stale, self.is_ended, self.end) = (false, false, None);
        self.given_up.clear();
        self.seen = [Seen::NONE; 3];
    }

    /// Decides the starting number when the first packet is not the session's first.
    fn join_late(&mut self, first: u64, is_again: bool, out: &mut impl Handler) {
        if self.is_joined || is_again {
            return;
        }
        self.is_joined = true;
        if first > FIRST && self.config.late_join == LateJoin::FromHere {
            self.horizon = self.horizon.max(first);
            let session = self.session.unwrap_or_default();
            self.tell_stale(session, FIRST, first, StaleReason::JoinedLate, out);
            self.is_stale = true;
            self.next = first;
        }
    }

    /// Counts the packet for its line.
    fn note_line(&mut self, line: Line, packet: &Packet<'_>, end: u64, is_again: bool) {
        let counts = &mut self.counts.lines[line.index()];
        counts.bytes = counts.bytes.saturating_add(packet.messages.len() as u64);
        counts.heartbeats += u64::from(packet.count == 0);
        if is_again {
            return;
        }
        let (skipped, filled) = self.seen[line.index()].note(packet.sequence.max(FIRST), end);
        counts.lost = counts.lost.saturating_add(skipped).saturating_sub(filled);
    }

    /// Counts a packet's new messages, and delivers or holds it.
    fn take(&mut self, coming: &ReceivedPacket<'_>, is_again: bool, out: &mut impl Handler) {
        let &ReceivedPacket { sequence, end, line, .. } = coming;
        let passed = end.min(self.next).saturating_sub(sequence);
        let late = self.given_up.count_in(sequence, sequence + passed);
        let first = self.held.missing_count(sequence.max(self.next), end);
        let counts = &mut self.counts.lines[line.index()];
        counts.first = counts.first.saturating_add(first);
        counts.late = counts.late.saturating_add(late);
        counts.duplicate = counts.duplicate.saturating_add(end - sequence - first - late);
        if first == 0 {
            return;
        }
        if is_again {
            self.note_answer(end, coming.arrived);
        }
        if self.is_recovering {
            self.hold_for_snapshot(coming);
            return;
        }
        while sequence > self.next && !self.held.has_room(coming.messages.len()) {
            self.give_up(sequence, StaleReason::NoRoom, out);
            self.drain(out);
        }
        if sequence > self.next {
            self.hold(coming);
        } else if end > self.next {
            self.deliver(coming, out);
        }
    }

    fn hold(&mut self, coming: &ReceivedPacket<'_>) {
        self.held.insert(coming);
        self.counts.held += 1;
        let len = u32::try_from(self.held.len()).unwrap_or(u32::MAX);
        self.counts.held_peak = self.counts.held_peak.max(len);
    }

    fn hold_for_snapshot(&mut self, coming: &ReceivedPacket<'_>) {
        while !self.held.has_room(coming.messages.len()) {
            self.counts.dropped += 1;
            let Some(oldest) = self.held.pop() else { return };
            self.held.recycle(oldest);
        }
        self.hold(coming);
    }

    /// Delivers the new messages of a packet that begins at or before `next`.
    fn deliver(&mut self, coming: &ReceivedPacket<'_>, out: &mut impl Handler) {
        let &ReceivedPacket { sequence, end, ts_send, line, messages, .. } = coming;
        let fits = "a packet's messages are counted in 32 bits";
        let skip = u32::try_from(self.next - sequence).expect(fits);
        let count = u32::try_from(end - self.next).expect(fits);
        let (channel, session) = (self.channel, self.session.unwrap_or_default());
        let sequence = self.next;
        self.next = end;
        self.counts.delivered += u64::from(count);
        let run = self.counts.sessions;
        out.deliver(&Run { channel, session, run, sequence, count, skip, ts_send, messages, line });
    }

    /// Delivers the held packets whose turn it is.
    fn drain(&mut self, out: &mut impl Handler) {
        while self.held.front().is_some_and(|first| first.sequence <= self.next) {
            let Some(waiting) = self.held.pop() else { return };
            if waiting.end > self.next {
                self.deliver(&coming_again(&waiting), out);
            }
            self.held.recycle(waiting);
        }
    }

    /// Delivers all that is possible, and finds the first gap.
    fn settle(&mut self, now: Nanos, out: &mut impl Handler) {
        if self.is_recovering || !self.is_joined {
            self.tell_state(out);
            return;
        }
        self.drain(out);
        self.find_gap(now, out);
        if self.end.is_some_and(|end| self.next >= end) && !self.is_ended {
            self.is_ended = true;
            let (session, next) = (self.session.unwrap_or_default(), self.next);
            self.tell_state(out);
            out.event(self.channel, &Event::EndOfSession { session, next });
        }
    }

    fn find_gap(&mut self, now: Nanos, out: &mut impl Handler) {
        let missing = self.held.first_missing(self.next, self.horizon);
        let Some(MissingRange { from, to, .. }) = missing else {
            self.counts.gaps_filled += u64::from(self.gap.is_some());
            self.gap = None;
            self.requested =
                RequestProgress { last: self.requested.last, ..RequestProgress::default() };
            return;
        };
        match &mut self.gap {
            // A packet from within the gap moves its end closer.
            Some(gap) if gap.from == from => gap.to = to,
            Some(gap) if to <= gap.to => (gap.from, gap.to) = (from, to),
            other => {
                let is_next_one = other.is_some();
                let since = self.held.earliest().unwrap_or(self.horizon_at).min(now);
                *other = Some(Gap { from, to, since });
                self.counts.gaps += 1;
                self.counts.gaps_filled += u64::from(is_next_one);
                let was_asked = self.requested.to > from;
                self.requested.attempts = u32::from(was_asked);
                self.requested.first = was_asked.then_some(now);
                out.event(self.channel, &Event::Gap { from, to });
            }
        }
    }

    /// Gives up the first gap, as far as it lies before `before`.
    fn give_up(&mut self, before: u64, reason: StaleReason, out: &mut impl Handler) {
        let to = self.held.front().map_or(self.horizon, |first| first.sequence);
        let (from, session) = (self.next, self.session.unwrap_or_default());
        self.next = to.min(before).max(from);
        self.gap = None;
        self.is_stale = true;
        self.requested.attempts = 0;
        self.requested.first = None;
        self.counts.gaps_given_up += 1;
        self.given_up.push(from, self.next);
        self.tell_stale(session, from, self.next, reason, out);
    }

    fn tell_stale(
        &mut self,
        session: u64,
        from: u64,
        to: u64,
        reason: StaleReason,
        out: &mut impl Handler,
    ) {
        let lost = self.counts.lost;
        self.counts.lost = match plant::is(Plant::ChannelLostUnbounded) {
            true => lost + (to - from),
            false => lost.saturating_add(to - from),
        };
        out.event(self.channel, &Event::Stale { session, from, to, reason });
    }

    /// Records an answer. One that ends before the end of its request may be all that the server
    /// sends, so the messages after it are requested again.
    fn note_answer(&mut self, end: u64, now: Nanos) {
        self.requested.last = self.requested.last.map(|last| last.max(now));
        self.requested.first = self.requested.first.map(|first| first.max(now));
        self.requested.attempts = self.requested.attempts.min(1);
        if self.held.first_missing(end, end.saturating_add(1)).is_some() {
            self.requested.to = self.requested.to.min(end);
        }
    }

    /// Requests the next missing messages when due; returns true when the first gap was requested
    /// as often as allowed.
    fn ask(&mut self, now: Nanos, out: &mut impl Handler) -> bool {
        let (Some(request), Some(session)) = (self.config.request, self.session) else {
            return false;
        };
        if self.requested.last.is_some_and(|last| now.since(last) < request.interval) {
            return false;
        }
        let is_late = self.requested.first.is_some_and(|first| now.since(first) >= request.timeout);
        let is_retry = self.requested.to > self.next && is_late;
        if is_retry && self.requested.attempts >= request.attempts_max {
            return true;
        }
        let start = if is_retry { self.next } else { self.requested.to.max(self.next) };
        let missing = self.held.first_missing(start, self.horizon);
        let Some(MissingRange { from, to, arrived }) = missing else { return false };
        if now.since(arrived.unwrap_or(self.horizon_at)) < self.config.reorder {
            return false;
        }
        let count = (to - from).min(u64::from(request.count_max.max(1))) as u16;
        if from == self.next {
            self.requested.attempts = self.requested.attempts.saturating_add(1);
            self.requested.first = Some(now);
        }
        self.requested.to = self.requested.to.max(from + u64::from(count));
        self.requested.last = Some(now);
        self.counts.requests += 1;
        self.counts.retries += u64::from(is_retry);
        out.event(self.channel, &Event::Request { session, sequence: from, count });
        false
    }

    fn tell_state(&mut self, out: &mut impl Handler) {
        let to = match () {
            () if self.is_recovering => State::Recovering,
            () if !self.is_joined => State::Waiting,
            () if self.gap.is_some() => State::Gap,
            () if self.is_stale => State::Stale,
            () if self.is_ended => State::Ended,
            () => State::Live,
        };
        let from = std::mem::replace(&mut self.state, to);
        if from != to {
            out.event(self.channel, &Event::State { from, to });
        }
    }
}

fn after(moment: Nanos, span: Nanos) -> Nanos {
    Nanos(moment.0.saturating_add(span.0))
}

fn coming<'a>(line: Line, packet: &Packet<'a>, end: u64, now: Nanos) -> ReceivedPacket<'a> {
    let &Packet { sequence, ts_send, messages, .. } = packet;
    ReceivedPacket { sequence, end, ts_send, arrived: now, line, messages }
}

fn coming_again(waiting: &HeldPacket) -> ReceivedPacket<'_> {
    let &HeldPacket { sequence, end, ts_send, arrived, line, ref messages } = waiting;
    ReceivedPacket { sequence, end, ts_send, arrived, line, messages }
}
