//! One channel of a feed: arbitration of its lines, holes, requests, sessions, recovery.
//!
//! INVARIANT: messages are handed on by rising number without a hole, but for the ranges that an
//! [`Event::Stale`] names and for what [`Event::Joined`] and [`Event::Session`] say is void.

use weir_types::Nanos;

use super::held::{Coming, Held, Waiting};
use super::ranges::{GivenUp, PastSessions};
use super::seen::Seen;
use super::{ChannelCounts, Event, Handler, LateJoin, Line, LineConfig, Run, StaleReason, State};
use crate::feed::{Packet, PacketKind};

/// The number of a session's first message.
const FIRST: u64 = 1;
/// Two resets so close together by the venue's clock are one, on two lines.
const SAME_RESET: Nanos = Nanos(1_000_000_000);

/// The first hole.
#[derive(Clone, Copy, Debug)]
struct Gap {
    from: u64,
    to: u64,
    /// When it was noticed.
    since: Nanos,
}

/// Where asking stands.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    /// All that is missing before this number was asked for.
    to: u64,
    /// So often since the first hole is the first one.
    attempts: u32,
    /// When the last request went out or the last answer came.
    last: Option<Nanos>,
    /// When the first hole was last asked for or a part of it came.
    first: Option<Nanos>,
}

/// One channel.
#[derive(Clone, Debug)]
pub struct Channel {
    channel: u32,
    config: LineConfig,
    session: Option<u64>,
    /// True once `next` means something.
    is_joined: bool,
    /// What is handed on next.
    next: u64,
    /// All messages before this number exist.
    horizon: u64,
    /// When the horizon was last moved.
    horizon_at: Nanos,
    held: Held,
    gap: Option<Gap>,
    asked: Asked,
    is_stale: bool,
    is_recovering: bool,
    /// The number after the session's last message, once it was said.
    end: Option<u64>,
    is_ended: bool,
    state: State,
    past: PastSessions,
    /// When the numbers last began anew within a session, by the venue's clock.
    reset_at: Option<Nanos>,
    given_up: GivenUp,
    /// What came on each line in this session.
    seen: [Seen; 3],
    counts: ChannelCounts,
}

impl Channel {
    /// A channel of which nothing was heard.
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
            held: Held::new(config.held_packets_max, config.held_bytes_max),
            gap: None,
            asked: Asked::default(),
            is_stale: false,
            is_recovering: false,
            end: None,
            is_ended: false,
            state: State::Waiting,
            past: PastSessions::default(),
            reset_at: None,
            given_up: GivenUp::default(),
            seen: [Seen::NONE; 3],
            counts: ChannelCounts::default(),
        }
    }

    /// What it is in.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// What became of it so far.
    #[must_use]
    pub fn counts(&self) -> &ChannelCounts {
        &self.counts
    }

    /// The number of the message that is handed on next.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The session, once one was heard.
    #[must_use]
    pub fn session(&self) -> Option<u64> {
        self.session
    }

    /// Packets that wait.
    #[must_use]
    pub fn held_len(&self) -> usize {
        self.held.len()
    }

    /// Takes a packet that came at `now`; hands on what it makes complete.
    pub fn packet(&mut self, line: Line, packet: &Packet<'_>, now: Nanos, out: &mut impl Handler) {
        let counts = &mut self.counts.lines[line.index()];
        counts.packets = counts.packets.saturating_add(1);
        let end = packet.sequence.checked_add(u64::from(packet.count));
        let Some(end) = end.filter(|_| packet.sequence > 0 || packet.count == 0) else {
            self.counts.malformed_packets += 1;
            return;
        };
        let is_again = line == Line::Retransmission || packet.kind == PacketKind::Retransmission;
        if !self.enter_session(packet, end, is_again, out) || !self.follow_resets(packet, out) {
            return;
        }
        self.note_line(line, packet, end, is_again);
        // A number of zero is a heartbeat before the first message of some venues.
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
        self.tick(now, out);
    }

    /// Does what time alone demands: asks for what is missing, gives up. To be called when
    /// [`Channel::deadline`] is reached; more often does no harm.
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

    /// When [`Channel::tick`] has something to do next; `None` when only a packet can change
    /// anything.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        let gap = self.gap?;
        let give_up = after(gap.since, self.config.give_up);
        let Some(request) = self.config.request else { return Some(give_up) };
        let again = self.asked.first.map(|first| after(first, request.timeout));
        let unasked = self.held.first_missing(self.asked.to.max(self.next), self.horizon);
        let further = unasked.map(|(_, _, arrived)| {
            after(arrived.unwrap_or(self.horizon_at), self.config.reorder)
                .max(after(gap.since, self.config.reorder))
        });
        let due = again.into_iter().chain(further).min();
        let paced = self.asked.last.map_or(Nanos(0), |last| after(last, request.interval));
        Some(due.map_or(give_up, |due| due.max(paced).min(give_up)))
    }

    /// A snapshot is under way: from now on all that comes waits for [`Channel::join`]. When there
    /// is no room the oldest goes, which the snapshot most likely covers.
    pub fn begin_recovery(&mut self, out: &mut impl Handler) {
        self.is_recovering = true;
        self.gap = None;
        self.tell_state(out);
    }

    /// A snapshot of `session` took the place of all before `next`: what waited goes on from there.
    /// What is missing between the snapshot and the first packet that waited is a hole like any
    /// other. False, and nothing is done, when the channel is in another session.
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
        if self.next > self.horizon {
            (self.horizon, self.horizon_at) = (self.next, now);
        }
        self.gap = None;
        self.asked = Asked::default();
        self.given_up.clear();
        self.counts.recoveries += 1;
        out.event(self.channel, &Event::Joined { next: self.next });
        self.settle(now, out);
        self.tick(now, out);
        true
    }

    /// The snapshot failed: what waited is handed on, STALE.
    pub fn abandon_recovery(&mut self, now: Nanos, out: &mut impl Handler) {
        self.is_recovering = false;
        self.is_stale = true;
        self.settle(now, out);
        self.tick(now, out);
    }

    /// Somebody who looks at the messages found them to contradict each other.
    pub fn mark_stale(&mut self, out: &mut impl Handler) {
        self.is_stale = true;
        self.tell_state(out);
    }

    /// True when the packet is of the session that is followed, which it may begin.
    fn enter_session(
        &mut self,
        packet: &Packet<'_>,
        end: u64,
        is_again: bool,
        out: &mut impl Handler,
    ) -> bool {
        if self.session == Some(packet.session) {
            return true;
        }
        if let Some(reached) = self.past.reached(packet.session) {
            self.counts.old_session_packets += 1;
            if end > *reached {
                let from = std::mem::replace(reached, end);
                self.tell_stale(packet.session, from, end, StaleReason::SessionOver, out);
            }
            return false;
        }
        if is_again {
            self.counts.foreign_packets += 1;
            return false;
        }
        if let Some(old) = self.session {
            self.leave_session(old, out);
        }
        self.session = Some(packet.session);
        self.counts.sessions += 1;
        out.event(self.channel, &Event::Session { session: packet.session });
        true
    }

    /// Begins anew where the venue does; false for a packet that was sent before it did.
    fn follow_resets(&mut self, packet: &Packet<'_>, out: &mut impl Handler) -> bool {
        if self.reset_at.is_some_and(|at| packet.ts_send < at) {
            self.counts.old_session_packets += 1;
            return false;
        }
        let is_known = self.reset_at.is_some_and(|at| packet.ts_send.since(at) < SAME_RESET);
        if packet.kind != PacketKind::Reset || is_known {
            return true;
        }
        self.finish_session(out);
        self.reset_at = Some(packet.ts_send);
        self.is_joined = true;
        self.next = packet.sequence.max(FIRST);
        self.horizon = self.next;
        self.counts.sessions += 1;
        out.event(self.channel, &Event::Session { session: packet.session });
        true
    }

    /// Gives up what is missing of a session, hands on what waited for it, and forgets it.
    fn leave_session(&mut self, old: u64, out: &mut impl Handler) {
        let reached = self.finish_session(out);
        self.past.push(old, reached);
        self.reset_at = None;
    }

    /// The same, and does not forget its number; returns where it had come to.
    fn finish_session(&mut self, out: &mut impl Handler) -> u64 {
        self.is_recovering = false;
        self.drain(out);
        while self.next < self.horizon {
            self.give_up(u64::MAX, StaleReason::SessionOver, out);
            self.drain(out);
        }
        let reached = std::mem::replace(&mut self.next, FIRST);
        self.horizon = FIRST;
        self.held.clear();
        self.gap = None;
        self.asked = Asked::default();
        (self.is_stale, self.is_ended, self.end) = (false, false, None);
        self.given_up.clear();
        self.seen = [Seen::NONE; 3];
        reached
    }

    /// Decides where to begin when the first packet is not the first one.
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

    /// Counts what the packet says of its line.
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

    /// Counts which of a packet's messages are new, and hands it on or lets it wait.
    fn take(&mut self, coming: &Coming<'_>, is_again: bool, out: &mut impl Handler) {
        let &Coming { sequence, end, line, .. } = coming;
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

    fn hold(&mut self, coming: &Coming<'_>) {
        self.held.insert(coming);
        self.counts.held += 1;
        let len = u32::try_from(self.held.len()).unwrap_or(u32::MAX);
        self.counts.held_peak = self.counts.held_peak.max(len);
    }

    fn hold_for_snapshot(&mut self, coming: &Coming<'_>) {
        while !self.held.has_room(coming.messages.len()) {
            self.counts.dropped += 1;
            let Some(oldest) = self.held.pop() else { return };
            self.held.recycle(oldest);
        }
        self.hold(coming);
    }

    /// Hands on what of a packet is new; it begins at or before what is next.
    fn deliver(&mut self, coming: &Coming<'_>, out: &mut impl Handler) {
        let &Coming { sequence, end, ts_send, line, messages, .. } = coming;
        let fits = "a packet's messages are counted in 32 bits";
        let skip = u32::try_from(self.next - sequence).expect(fits);
        let count = u32::try_from(end - self.next).expect(fits);
        let (channel, session) = (self.channel, self.session.unwrap_or_default());
        let sequence = self.next;
        self.next = end;
        self.counts.delivered += u64::from(count);
        out.deliver(&Run { channel, session, sequence, count, skip, ts_send, messages, line });
    }

    /// Hands on those that wait and whose turn it is.
    fn drain(&mut self, out: &mut impl Handler) {
        while self.held.front().is_some_and(|first| first.sequence <= self.next) {
            let Some(waiting) = self.held.pop() else { return };
            if waiting.end > self.next {
                self.deliver(&coming_again(&waiting), out);
            }
            self.held.recycle(waiting);
        }
    }

    /// Hands on what can be, and finds what is missing now.
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
        let Some((from, to, _)) = missing else {
            self.counts.gaps_filled += u64::from(self.gap.is_some());
            self.gap = None;
            self.asked = Asked { last: self.asked.last, ..Asked::default() };
            return;
        };
        match &mut self.gap {
            // Its end comes nearer when a packet from within it comes.
            Some(gap) if gap.from == from => gap.to = to,
            Some(gap) if to <= gap.to => (gap.from, gap.to) = (from, to),
            other => {
                let is_next_one = other.is_some();
                let since = self.held.earliest().unwrap_or(self.horizon_at).min(now);
                *other = Some(Gap { from, to, since });
                self.counts.gaps += 1;
                self.counts.gaps_filled += u64::from(is_next_one);
                let was_asked = self.asked.to > from;
                self.asked.attempts = u32::from(was_asked);
                self.asked.first = was_asked.then_some(now);
                out.event(self.channel, &Event::Gap { from, to });
            }
        }
    }

    /// Gives up the first hole, as far as it lies before `before`.
    fn give_up(&mut self, before: u64, reason: StaleReason, out: &mut impl Handler) {
        let to = self.held.front().map_or(self.horizon, |first| first.sequence);
        let (from, session) = (self.next, self.session.unwrap_or_default());
        self.next = to.min(before).max(from);
        self.gap = None;
        self.is_stale = true;
        self.asked.attempts = 0;
        self.asked.first = None;
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
        self.counts.lost = self.counts.lost.saturating_add(to - from);
        out.event(self.channel, &Event::Stale { session, from, to, reason });
    }

    /// An answer that ends before all that was asked for may be all that there will be of it: what
    /// follows is asked for again.
    fn note_answer(&mut self, end: u64, now: Nanos) {
        self.asked.last = self.asked.last.map(|last| last.max(now));
        self.asked.first = self.asked.first.map(|first| first.max(now));
        self.asked.attempts = self.asked.attempts.min(1);
        if self.held.first_missing(end, end.saturating_add(1)).is_some() {
            self.asked.to = self.asked.to.min(end);
        }
    }

    /// Asks for the next of what is missing, if it is time to; true when the first hole was asked
    /// for as often as is allowed.
    fn ask(&mut self, now: Nanos, out: &mut impl Handler) -> bool {
        let (Some(request), Some(session)) = (self.config.request, self.session) else {
            return false;
        };
        if self.asked.last.is_some_and(|last| now.since(last) < request.interval) {
            return false;
        }
        let is_late = self.asked.first.is_some_and(|first| now.since(first) >= request.timeout);
        let is_retry = self.asked.to > self.next && is_late;
        if is_retry && self.asked.attempts >= request.attempts_max {
            return true;
        }
        let start = if is_retry { self.next } else { self.asked.to.max(self.next) };
        let missing = self.held.first_missing(start, self.horizon);
        let Some((from, to, arrived)) = missing else { return false };
        if now.since(arrived.unwrap_or(self.horizon_at)) < self.config.reorder {
            return false;
        }
        let count = (to - from).min(u64::from(request.count_max.max(1))) as u16;
        if from == self.next {
            self.asked.attempts = self.asked.attempts.saturating_add(1);
            self.asked.first = Some(now);
        }
        self.asked.to = self.asked.to.max(from + u64::from(count));
        self.asked.last = Some(now);
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

fn coming<'a>(line: Line, packet: &Packet<'a>, end: u64, now: Nanos) -> Coming<'a> {
    let &Packet { sequence, ts_send, messages, .. } = packet;
    Coming { sequence, end, ts_send, arrived: now, line, messages }
}

fn coming_again(waiting: &Waiting) -> Coming<'_> {
    let &Waiting { sequence, end, ts_send, arrived, line, ref messages } = waiting;
    Coming { sequence, end, ts_send, arrived, line, messages }
}
