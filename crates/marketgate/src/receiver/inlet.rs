//! The packets of a pair of lines, from any source: a socket, a capture or a connection.

use weir_feed::capture::Datagram;
use weir_feed::line::{Channel, Line, LineConfig, Lines};
use weir_feed::moldudp64::{MoldSession, SESSION_LEN};
use weir_feed::{Feed, Packet};
use weir_types::{Nanos, WallOffset};

use super::counts::ChannelStatus;
use super::handler::{Decoding, LineHandler, Notes};
use super::output::{ChannelEvent, ChannelKey, Origin, Output};

/// The maximum number of channels on a pair of lines; more would be forged.
const CHANNELS_MAX: usize = 64;

/// The input side of one pair of lines.
#[derive(Debug)]
pub(super) struct Inlet {
    pub pair: u32,
    pub lines: Lines,
    pub notes: Notes,
    /// Datagrams for which the consumer had no room.
    pub dropped: u64,
    /// The distance of the wall clock, which stamps input that the kernel does not.
    pub wall: WallOffset,
    /// The time without packets after which the pair is silent; `None` without a limit.
    silence: Option<Nanos>,
    heard: Option<Nanos>,
    is_silent: bool,
}

/// The times of a packet: its arrival, its processing, and the clock of its channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// By the wall clock, as the kernel's stamps are, or of a file.
    pub ts_recv: Nanos,
    /// By the poller's clock, which never steps.
    pub ts_poll: Nanos,
    /// The time by which holes are given up: the poller's, or a file's.
    pub line: Nanos,
}

impl Times {
    /// The times of a packet that the kernel stamped with `ts_recv` and that is taken now.
    pub fn live(ts_recv: Nanos, now: Nanos) -> Times {
        Times { ts_recv, ts_poll: now, line: now }
    }
}

impl Inlet {
    pub fn new(pair: u32, config: LineConfig, silence: Option<Nanos>) -> Inlet {
        let lines = Lines::new(config, CHANNELS_MAX);
        let notes = Notes::new();
        let (wall, heard) = (WallOffset::default(), None);
        Inlet { pair, lines, notes, dropped: 0, wall, silence, heard, is_silent: false }
    }

    /// The times of a timer, or of a read of a connection, in the poll at `now`.
    pub fn times_at(&self, now: Nanos) -> Times {
        Times::live(self.wall.wall_at(now), now)
    }

    /// Takes a datagram; returns false if it is not of the feed. A dropped datagram still reaches
    /// [`Output::datagram`], because it arrived.
    pub fn datagram<O: Output>(
        &mut self,
        line: Line,
        datagram: &Datagram<'_>,
        times: Times,
        decoding: &mut Decoding,
        out: &mut O,
    ) -> bool {
        out.datagram(self.pair, line, datagram, times.ts_poll);
        if out.drops_datagrams() {
            self.dropped += 1;
            return true;
        }
        let packet = match decoding.codec(self.pair).packet(datagram.payload) {
            Ok(packet) => packet,
            Err(error) => {
                decoding.note(error);
                return false;
            }
        };
        if decoding.profile.is_mold() {
            self.notes.coming =
                datagram.payload.first_chunk::<SESSION_LEN>().copied().map(MoldSession);
        }
        let is_taken = self.packet(line, &packet, times, decoding, out);
        if is_taken {
            self.end_of_packet(packet.channel, times, out);
        }
        is_taken
    }

    /// Reports the end of a packet, or of a read, to `out`.
    pub fn end_of_packet<O: Output>(&self, number: u32, times: Times, out: &mut O) {
        let channel = ChannelKey { pair: self.pair, number };
        let Times { ts_recv, ts_poll, .. } = times;
        out.end_of_packet(&Origin { channel, ts_recv, ts_poll, is_snapshot: false });
    }

    /// Takes a packet; returns false if it would exceed the limit of channels.
    pub fn packet<O: Output>(
        &mut self,
        line: Line,
        packet: &Packet<'_>,
        times: Times,
        decoding: &mut Decoding,
        out: &mut O,
    ) -> bool {
        if line != Line::Retransmission {
            self.hear(times.line, out);
        }
        let (lines, mut handler) = self.handler(times, decoding, out);
        if lines.arrive(line, packet, times.line, &mut handler).is_err() {
            return false;
        }
        self.settle_damage(times, decoding, out);
        true
    }

    /// Marks a channel STALE if a message that its books need was not decoded.
    pub fn settle_damage<O: Output>(&mut self, times: Times, decoding: &mut Decoding, out: &mut O) {
        let Some(number) = self.notes.damaged.take() else { return };
        let (lines, mut handler) = self.handler(times, decoding, out);
        if let Ok(channel) = lines.channel_mut(number) {
            channel.mark_stale(&mut handler);
        }
    }

    /// Marks all channels STALE: messages are lost that no number tells of.
    pub fn mark_all_stale<O: Output>(
        &mut self,
        times: Times,
        decoding: &mut Decoding,
        out: &mut O,
    ) {
        let (lines, mut handler) = self.handler(times, decoding, out);
        lines.iter_mut().for_each(|channel| channel.mark_stale(&mut handler));
    }

    /// Processes expired timers. Must be called after everything that arrived before `times.line`
    /// was taken.
    pub fn tick<O: Output>(&mut self, times: Times, decoding: &mut Decoding, out: &mut O) {
        let before = decoding.counts.messages;
        let (lines, mut handler) = self.handler(times, decoding, out);
        lines.tick(times.line, &mut handler);
        self.settle_damage(times, decoding, out);
        if decoding.counts.messages != before {
            self.end_of_packet(0, times, out);
        }
        let is_over = |limit: Nanos| {
            self.heard.is_some_and(|heard| times.line.since(heard) >= limit) && !self.is_silent
        };
        if self.silence.is_some_and(is_over) {
            self.fall_silent(out);
        }
    }

    /// Reports silence on all channels, once.
    pub fn fall_silent<O: Output>(&mut self, out: &mut O) {
        if !std::mem::replace(&mut self.is_silent, true) {
            self.tell_all(ChannelEvent::Silent, out);
        }
    }

    fn hear<O: Output>(&mut self, now: Nanos, out: &mut O) {
        self.heard = Some(now);
        if std::mem::replace(&mut self.is_silent, false) {
            self.tell_all(ChannelEvent::Heard, out);
        }
    }

    fn tell_all<O: Output>(&self, event: ChannelEvent, out: &mut O) {
        for (number, _) in self.lines.iter() {
            out.channel(ChannelKey { pair: self.pair, number }, &event);
        }
    }

    /// The time of the next [`Inlet::tick`] with work.
    pub fn deadline(&self) -> Option<Nanos> {
        let silence = self.silence.filter(|_| !self.is_silent).zip(self.heard);
        let silent_at = silence.map(|(limit, heard)| Nanos(heard.0.saturating_add(limit.0)));
        self.lines.deadline().into_iter().chain(silent_at).min()
    }

    /// Returns the lines together with the handler of their output.
    pub fn handler<'a, O: Output>(
        &'a mut self,
        times: Times,
        decoding: &'a mut Decoding,
        out: &'a mut O,
    ) -> (&'a mut Lines, LineHandler<'a, O>) {
        let Times { ts_recv, ts_poll, .. } = times;
        let Inlet { pair, lines, notes, .. } = self;
        (lines, LineHandler { decoding, notes, pair: *pair, ts_recv, ts_poll, out })
    }

    /// The first channel: the only one of MoldUDP64's lines, once received.
    pub fn only_channel(&self) -> Option<&Channel> {
        self.lines.iter().next().map(|(_, channel)| channel)
    }

    pub fn channels(&self) -> impl Iterator<Item = ChannelStatus> {
        self.lines.iter().map(|(number, channel)| ChannelStatus {
            key: ChannelKey { pair: self.pair, number },
            state: channel.state(),
            is_silent: self.is_silent,
            session: channel.session(),
            next: channel.next(),
            held: channel.held_len(),
            counts: *channel.counts(),
        })
    }
}
