//! The numbering of a channel: tells packets of the run that is followed from those of another.
//!
//! A *run* is a sequence that a sender numbers from a beginning: a session, or a part of one where
//! numbers begin anew. One machine judges the packets of every framing by the evidence that the
//! framing has: the session, the send time, the position in the session's bytes, and the content
//! under a number that came before.
//!
//! | packet | evidence | verdict |
//! | --- | --- | --- |
//! | of the run | numbers go on, or are repeated with the same content | follows |
//! | of a session that is not known | | begins a session |
//! | a reset of the venue, or number 1 at byte 0 with a later send time | | begins a restart |
//! | of a session that was left, or sent before the restart | | old |
//! | of the session, numbers go back | later, bytes do not fit, other content | contradicts |
//! | third in a row, old with new numbers or contradicting | each goes on | begins: found |
//! | sixteenth with messages over two seconds, old | none of the run came | begins: found |
//!
//! The last rows make up for an error in the others: a forged or foreign packet that began a
//! session, or a restart whose first packets were lost. A number of another session, or the time of
//! a reset, that only a forged packet had is no evidence against a sender for ever: it is followed
//! when no other is heard.
//!
//! INVARIANT: no packet changes the run that is followed unless its verdict says so.

use std::hash::Hasher as _;

use rustc_hash::FxHasher;
use weir_types::Nanos;

use crate::plant::{self, Plant};
use crate::{Packet, PacketKind};

/// The sequence number of a session's first message.
pub(super) const FIRST: u64 = 1;
/// Two resets within this time by the venue's clock are one reset, seen on two lines; and a packet
/// with earlier numbers is no repetition if it was sent so much later than all others.
const SAME_TIME: Nanos = Nanos(1_000_000_000);
/// Packets in a row that show another run.
const IN_A_ROW: u32 = 3;
/// Old packets with messages, while none of the followed run comes, that show that it is none.
const OLD_COUNT: u32 = 16;
/// The least time over which they come, by the receiver's clock: longer than a line is late.
const OLD_FOR: Nanos = Nanos(2_000_000_000);
/// The shortest message in a stream with byte positions: its length.
const MESSAGE_LEN_MIN: u128 = 2;
/// The number of past sessions remembered.
const SESSIONS_MAX: usize = 4;
/// The first numbers whose content is remembered as long as the run.
const FIRST_CONTENTS: usize = 16;
/// The last packets whose content is remembered.
const LAST_CONTENTS: usize = 64;
/// Bytes of a packet that are compared, besides its length.
const CONTENT_LEN: usize = 64;

/// The judgement of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is of the followed run.
    Follows,
    /// It begins a run, which is followed from now on.
    Begins(Beginning),
    /// It is of a run that was left.
    Old {
        /// Numbers of that run that it shows to exist, and that nothing showed before.
        revealed: Option<(u64, u64)>,
    },
    /// It is a retransmission of a session that is not followed.
    Foreign,
    /// It contradicts the followed run.
    Contradicts,
}

/// The way in which a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Another session.
    Session,
    /// The same session, whose numbers begin anew with this packet.
    Restart,
    /// Several packets in a row showed it, and this is the last of them.
    Found,
}

/// The arrival of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The number after its last message.
    pub end: u64,
    /// True for a retransmission.
    pub is_again: bool,
    /// The time at which it was received.
    pub now: Nanos,
}

/// The numbering of a channel.
#[derive(Clone, Debug, Default)]
pub struct Numbering {
    followed: Option<Run>,
    past: PastSessions,
    other: Option<OtherRun>,
    old: Option<OldRow>,
    contents: Contents,
}

/// The followed run.
#[derive(Clone, Copy, Debug)]
struct Run {
    session: u64,
    /// The send time of the restart that began it; `None` for a session's first run.
    began: Option<Nanos>,
    /// The number that the run before it in the same session reached, and its latest send time.
    left_at: Option<(u64, Nanos)>,
    /// All messages before this number exist.
    reached: u64,
    /// The latest send time; zero without one.
    newest: Nanos,
    /// A number, and the byte of the session's stream at which its message begins.
    position: Option<(u64, u64)>,
    is_ended: bool,
}

/// Packets in a row of a run that is not followed.
#[derive(Clone, Copy, Debug)]
struct OtherRun {
    session: u64,
    /// The number after the last one.
    next: u64,
    ts_send: Nanos,
    /// The send time of the first one.
    began: Nanos,
    count: u32,
}

/// Old packets of a session since the last packet of the followed run.
#[derive(Clone, Copy, Debug)]
struct OldRow {
    session: u64,
    /// The time at which the first one was received.
    since: Nanos,
    count: u32,
}

/// The last sessions that were left, the newest first.
#[derive(Clone, Copy, Debug, Default)]
struct PastSessions {
    sessions: [Option<PastSession>; SESSIONS_MAX],
}

#[derive(Clone, Copy, Debug)]
struct PastSession {
    session: u64,
    reached: u64,
    is_ended: bool,
}

impl PastSessions {
    fn push(&mut self, past: PastSession) {
        let free = self.sessions.iter().position(Option::is_none);
        self.sessions[..=free.unwrap_or(SESSIONS_MAX - 1)].rotate_right(1);
        self.sessions[0] = Some(past);
    }

    fn find(&mut self, session: u64) -> Option<&mut PastSession> {
        self.sessions.iter_mut().flatten().find(|past| past.session == session)
    }

    fn remove(&mut self, session: u64) {
        for place in &mut self.sessions {
            *place = place.filter(|past| past.session != session);
        }
    }
}

/// Digests of the content of a run's first and last packets.
#[derive(Clone, Debug)]
struct Contents {
    first: [Content; FIRST_CONTENTS],
    last: [Content; LAST_CONTENTS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Content {
    sequence: u64,
    end: u64,
    digest: u64,
}

impl Default for Contents {
    fn default() -> Contents {
        Contents {
            first: [Content::default(); FIRST_CONTENTS],
            last: [Content::default(); LAST_CONTENTS],
        }
    }
}

impl Contents {
    fn place(&mut self, sequence: u64) -> &mut Content {
        if sequence < FIRST_CONTENTS as u64 {
            return &mut self.first[sequence as usize];
        }
        &mut self.last[(sequence % LAST_CONTENTS as u64) as usize]
    }

    /// Returns true if the same numbers came with other content.
    fn contradict(&mut self, content: &Content) -> bool {
        let known = self.place(content.sequence);
        (known.sequence, known.end) == (content.sequence, content.end)
            && known.digest != content.digest
            && !plant::is(Plant::ContentUnread)
    }
}

impl Content {
    fn of(packet: &Packet<'_>, end: u64) -> Content {
        let mut hasher = FxHasher::default();
        hasher.write(&packet.messages[..packet.messages.len().min(CONTENT_LEN)]);
        hasher.write_u64(packet.messages.len() as u64);
        Content { sequence: packet.sequence, end, digest: hasher.finish() }
    }
}

impl Numbering {
    /// Creates the numbering of a channel that has received nothing.
    #[must_use]
    pub fn new() -> Numbering {
        Numbering::default()
    }

    /// The followed session; `None` before the first packet.
    #[must_use]
    pub fn session(&self) -> Option<u64> {
        self.followed.map(|run| run.session)
    }

    /// Notes that all messages of the followed run before `next` exist, by a snapshot.
    pub fn reach(&mut self, session: u64, next: u64) {
        let run = self.followed.get_or_insert(Run::of_session(session));
        run.reached = run.reached.max(next);
    }

    /// Judges a packet.
    pub fn judge(&mut self, packet: &Packet<'_>, arrival: Arrival) -> Verdict {
        let verdict = self.judge_alone(packet, arrival.end, arrival.is_again);
        if arrival.is_again {
            return verdict;
        }
        match verdict {
            Verdict::Old { .. } => self.note_old(packet, arrival, verdict),
            Verdict::Follows if packet.kind != PacketKind::EndOfSession => {
                self.old = None;
                verdict
            }
            _ => verdict,
        }
    }

    /// Notes an old packet; follows its run if it is the last of many. They come over two lines,
    /// and some are lost, so one need not go on where the one before ends.
    fn note_old(&mut self, packet: &Packet<'_>, arrival: Arrival, old: Verdict) -> Verdict {
        // A heartbeat, or the end of a session that is told for long, shows no living sender.
        if packet.kind != PacketKind::Data || packet.count == 0 {
            return old;
        }
        let (session, Arrival { end, now, .. }) = (packet.session, arrival);
        let row = self.old.filter(|row| row.session == session);
        let since = row.map_or(now, |row| row.since.min(now));
        let count = row.map_or(0, |row| row.count).saturating_add(1);
        if count < OLD_COUNT || now.since(since) < OLD_FOR || plant::is(Plant::OldForEver) {
            self.old = Some(OldRow { session, since, count });
            return old;
        }
        self.begin_found(packet, end, None)
    }

    fn judge_alone(&mut self, packet: &Packet<'_>, end: u64, is_again: bool) -> Verdict {
        let Some(mut run) = self.followed else {
            return self.begin_session(packet, end, is_again);
        };
        if packet.session != run.session {
            return self.of_other_session(packet, end, is_again);
        }
        if run.is_before(packet) {
            // The run before goes on if it was left wrongly; one before that is only late.
            let goes_on = |(reached, newest)| end > reached && packet.ts_send > newest;
            let is_new = run.left_at.is_some_and(goes_on);
            let old = Verdict::Old { revealed: None };
            return if is_new { self.note_other(packet, end, old) } else { old };
        }
        if !is_again && run.is_restarted_by(packet) {
            let began = Some(packet.ts_send);
            let next = Run {
                began,
                left_at: Some((run.reached, run.newest)),
                ..Run::of_session(run.session)
            };
            self.begin(next, packet, end);
            return Verdict::Begins(Beginning::Restart);
        }
        if !is_again {
            let is_same = packet.kind == PacketKind::Reset;
            let content = Content::of(packet, end);
            let is_repeated = packet.count > 0 && end <= run.reached;
            if !is_same && run.is_contradicted_by(packet, end)
                || is_repeated && self.contents.contradict(&content)
            {
                return self.note_other(packet, end, Verdict::Contradicts);
            }
            if packet.count > 0 {
                *self.contents.place(packet.sequence) = content;
            }
        }
        if end > run.reached && !is_again {
            self.other = None;
        }
        run.note(packet, end, is_again);
        self.followed = Some(run);
        Verdict::Follows
    }

    fn of_other_session(&mut self, packet: &Packet<'_>, end: u64, is_again: bool) -> Verdict {
        let Some(past) = self.past.find(packet.session) else {
            return self.begin_session(packet, end, is_again);
        };
        if end <= past.reached {
            return Verdict::Old { revealed: None };
        }
        let from = std::mem::replace(&mut past.reached, end);
        let old = Verdict::Old { revealed: Some((from, end)) };
        let is_over = past.is_ended && !plant::is(Plant::EndedComesBack);
        if is_over || is_again { old } else { self.note_other(packet, end, old) }
    }

    /// Follows the session of a packet that no other was of.
    fn begin_session(&mut self, packet: &Packet<'_>, end: u64, is_again: bool) -> Verdict {
        if is_again {
            return Verdict::Foreign;
        }
        let run = Run::of_session(packet.session);
        if packet.kind != PacketKind::Reset {
            self.begin(run, packet, end);
            return Verdict::Begins(Beginning::Session);
        }
        let run = Run { began: Some(packet.ts_send), left_at: Some((FIRST, Nanos(0))), ..run };
        self.begin(run, packet, end);
        Verdict::Begins(Beginning::Restart)
    }

    /// Follows `next`, which begins with this packet.
    fn begin(&mut self, mut next: Run, packet: &Packet<'_>, end: u64) {
        self.past.remove(next.session);
        if let Some(old) = self.followed.filter(|old| old.session != next.session) {
            let Run { session, reached, is_ended, .. } = old;
            self.past.push(PastSession { session, reached, is_ended });
        }
        self.contents = Contents::default();
        self.other = None;
        self.old = None;
        if packet.count > 0 {
            *self.contents.place(packet.sequence) = Content::of(packet, end);
        }
        next.note(packet, end, false);
        self.followed = Some(next);
    }

    /// Notes a packet of another run; follows that run if it is the last of several in a row.
    fn note_other(&mut self, packet: &Packet<'_>, end: u64, verdict: Verdict) -> Verdict {
        let &Packet { session, sequence, ts_send, .. } = packet;
        let goes_on = |other: &OtherRun| {
            let goes_on = other.next == sequence || plant::is(Plant::RowUnordered);
            other.session == session && goes_on && ts_send >= other.ts_send
        };
        let before = self.other.filter(goes_on);
        let count = before.map_or(0, |other| other.count) + 1;
        let began = before.map_or(ts_send, |other| other.began);
        let is_left = verdict != Verdict::Contradicts;
        let never = plant::is(Plant::LeftForGood) && is_left;
        let in_a_row = if plant::is(Plant::TwoInARow) { 2 } else { IN_A_ROW };
        if count < in_a_row || never {
            self.other = Some(OtherRun { session, next: end, ts_send, began, count });
            return verdict;
        }
        // A run that was left wrongly began before the one that was followed instead.
        let began = Some(began).filter(|at| !is_left && at.0 > 0);
        self.begin_found(packet, end, began)
    }

    /// Follows the run that several packets showed, of which this is the last.
    fn begin_found(&mut self, packet: &Packet<'_>, end: u64, began: Option<Nanos>) -> Verdict {
        let run = self.followed.filter(|run| run.session == packet.session);
        let left_at = run.map(|run| (run.reached, run.newest));
        self.begin(Run { began, left_at, ..Run::of_session(packet.session) }, packet, end);
        Verdict::Begins(Beginning::Found)
    }
}

impl Run {
    fn of_session(session: u64) -> Run {
        Run {
            session,
            began: None,
            left_at: None,
            reached: FIRST,
            newest: Nanos(0),
            position: None,
            is_ended: false,
        }
    }

    /// Returns true if a packet of the session was sent before the restart that began the run.
    fn is_before(&self, packet: &Packet<'_>) -> bool {
        self.began.is_some_and(|at| packet.ts_send < at) && !plant::is(Plant::OldFollowed)
    }

    /// Returns true if a packet of the session begins its numbers anew.
    fn is_restarted_by(&self, packet: &Packet<'_>) -> bool {
        if packet.kind == PacketKind::Reset {
            return self.began.is_none_or(|at| packet.ts_send.since(at) >= SAME_TIME);
        }
        let is_later = packet.ts_send > self.newest
            || plant::is(Plant::RestartByCopy) && packet.ts_send == self.newest;
        packet.stream_offset == Some(0)
            && packet.sequence <= FIRST
            && self.reached > FIRST
            && is_later
            && !plant::is(Plant::RestartRepeated)
    }

    /// Returns true if a packet cannot be of the run, by its numbers, send time and position.
    fn is_contradicted_by(&self, packet: &Packet<'_>, end: u64) -> bool {
        let sequence = packet.sequence.max(FIRST);
        let goes_back = if packet.count == 0 {
            // Only these framings' heartbeats are known to have the next number.
            packet.stream_offset.is_some() && sequence < self.reached
        } else {
            end <= self.reached
        };
        let is_later = self.newest > Nanos(0) && packet.ts_send.since(self.newest) > SAME_TIME;
        goes_back && is_later && !plant::is(Plant::TimeUnread)
            || !self.has_room_for(sequence, packet.stream_offset)
    }

    /// Returns true if the byte position of a number fits the known ones: each message between them
    /// has at least its length.
    fn has_room_for(&self, sequence: u64, offset: Option<u64>) -> bool {
        let Some(offset) = offset.filter(|_| !plant::is(Plant::PositionUnread)) else {
            return true;
        };
        let fits = |(low, low_offset): (u64, u64), (high, high_offset): (u64, u64)| {
            let bytes = u128::from(high_offset).checked_sub(u128::from(low_offset));
            let least = u128::from(high - low) * MESSAGE_LEN_MIN;
            bytes.is_some_and(|bytes| if high == low { bytes == 0 } else { bytes >= least })
        };
        let at = (sequence, offset);
        let known = self.position.is_none_or(|known| {
            if known.0 <= sequence { fits(known, at) } else { fits(at, known) }
        });
        known && fits((FIRST, 0), at)
    }

    fn note(&mut self, packet: &Packet<'_>, end: u64, is_again: bool) {
        let is_new = end >= self.reached;
        self.reached = self.reached.max(end);
        self.is_ended |= packet.kind == PacketKind::EndOfSession;
        if is_again {
            return;
        }
        self.newest = self.newest.max(packet.ts_send);
        if is_new && let Some(offset) = packet.stream_offset {
            let after = offset.checked_add(packet.messages.len() as u64);
            self.position = after.map(|after| (end.max(FIRST), after));
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
