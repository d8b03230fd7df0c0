//! A venue with two lossy lines and a retransmission server, and a simple model of the output that
//! a channel must produce.
//!
//! Time is simulated, with one seed. The model tracks for each message whether it ever arrived. The
//! checks run at every message and event, so a completed run was correct throughout.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_feed::line::{
    Channel, ChannelCounts, Event, Handler, LateJoin, Line, LineConfig, RequestConfig, Run,
    StaleReason, State,
};
use weir_feed::{Packet, PacketKind};
use weir_types::Nanos;

const SESSION: u64 = 77;
const MILLION: u64 = 1_000_000;
const MICROSECOND: u64 = 1_000;

/// The faults of a run. Shares are in millionths of packets.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub seed: u64,
    pub message_count: u64,
    /// The share lost on each line.
    pub loss: [u64; 2],
    /// The longest burst of lost packets.
    pub burst_max: u64,
    /// The share sent twice on each line.
    pub duplication: u64,
    /// The largest delay of a packet, in microseconds.
    pub delay_max: u64,
    /// The share of answers lost; `None` without a server.
    pub answer_loss: Option<u64>,
    /// True when snapshots repair lost messages.
    pub has_snapshots: bool,
    pub held_packets_max: u32,
    /// Messages sent before the channel started to listen.
    pub missed: u64,
    pub late_join: LateJoin,
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub counts: ChannelCounts,
    pub snapshots: u64,
    pub skipped_by_snapshots: u64,
    pub state: State,
}

/// The splitmix64 generator.
struct Chance(u64);

impl Chance {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    fn happens(&mut self, millionths: u64) -> bool {
        self.below(MILLION) < millionths
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Coming {
    /// Messages `from..to` on a line.
    Packet { line: u8, from: u64, to: u64 },
    /// The end of the session, at this number.
    End { line: u8, next: u64 },
    /// A snapshot of all messages before this number.
    Snapshot { next: u64 },
}

/// The model: the next message to deliver, and the messages that arrived so far.
struct Model {
    next: u64,
    has_come: Vec<bool>,
    /// True while no packet was dropped for lack of room; messages of such packets may be lost.
    is_strict: bool,
    state: State,
    requests: Vec<(u64, u64)>,
    lost: u64,
    skipped: u64,
    is_stale_told: bool,
    ended_at: Option<u64>,
}

impl Handler for Model {
    fn deliver(&mut self, run: &Run<'_>) {
        assert_eq!(run.session, SESSION);
        assert_eq!(run.sequence, self.next, "handed on out of turn or twice");
        let messages = run.messages.chunks_exact(8).skip(run.skip as usize);
        for message in messages.take(run.count as usize) {
            let number = u64::from_le_bytes(message.try_into().expect("8 bytes"));
            assert_eq!(number, self.next, "another message than its number says");
            self.next += 1;
        }
        assert_eq!(self.next, run.sequence + u64::from(run.count), "fewer messages than said");
    }

    fn event(&mut self, _channel: u32, event: &Event) {
        match *event {
            Event::State { from, to } => {
                assert_eq!(from, self.state);
                self.state = to;
            }
            Event::Request { session, sequence, count } => {
                assert_eq!(session, SESSION);
                assert!(count > 0 && sequence >= self.next);
                self.requests.push((sequence, sequence + u64::from(count)));
            }
            Event::Stale { session, from, to, reason } => {
                assert_eq!((session, from), (SESSION, self.next));
                assert!(to > from);
                let came = (from..to).find(|number| self.has_come[*number as usize]);
                assert!(came.is_none() || !self.is_strict, "{came:?} came and is lost: {reason:?}");
                (self.next, self.is_stale_told) = (to, true);
                self.lost += to - from;
                if reason == StaleReason::JoinedLate {
                    self.is_stale_told = false;
                }
            }
            Event::Joined { next } => {
                assert!(next >= self.next, "this venue's snapshots are newer than what was read");
                self.skipped += next - self.next;
                self.next = next;
            }
            Event::EndOfSession { next, .. } => self.ended_at = Some(next),
            Event::Gap { from, to } => assert!(to > from && from == self.next),
            Event::Session { session } => assert_eq!(session, SESSION),
        }
    }
}

/// The venue, its lines, and the listening channel.
pub struct Rig {
    faults: Faults,
    chance: Chance,
    queue: BinaryHeap<Reverse<(u64, u64, Coming)>>,
    queued: u64,
    channel: Channel,
    model: Model,
    /// The packets still to be lost of the current burst, on each line.
    burst: [u64; 2],
    published: u64,
    snapshots: u64,
    clock: u64,
}

impl Rig {
    pub fn new(faults: Faults) -> Rig {
        let request = faults.answer_loss.map(|_| RequestConfig {
            count_max: 40,
            interval: Nanos(50 * MICROSECOND),
            timeout: Nanos(2_000 * MICROSECOND),
            attempts_max: 8,
        });
        // Without a server, waiting longer than the reordering of packets is useless.
        let give_up_ms = if request.is_some() { 50 } else { 3 };
        let config = LineConfig {
            held_packets_max: faults.held_packets_max,
            reorder: Nanos(300 * MICROSECOND),
            give_up: Nanos(give_up_ms * 1_000 * MICROSECOND),
            request,
            late_join: faults.late_join,
            ..LineConfig::default()
        };
        let model = Model {
            next: 1,
            has_come: vec![false; faults.message_count as usize + 2],
            is_strict: true,
            state: State::Waiting,
            requests: Vec::new(),
            lost: 0,
            skipped: 0,
            is_stale_told: false,
            ended_at: None,
        };
        Rig {
            faults,
            chance: Chance(faults.seed),
            queue: BinaryHeap::new(),
            queued: 0,
            channel: Channel::new(3, config),
            model,
            burst: [0; 2],
            published: 0,
            snapshots: 0,
            clock: 0,
        }
    }

    /// Sends the whole session and checks that every message was delivered or reported as lost.
    pub fn run(mut self) -> Outcome {
        let mut now = 0;
        while self.published < self.faults.message_count {
            now += 1 + self.chance.below(20 * MICROSECOND);
            self.arrive_until(now);
            self.publish(now);
        }
        // Venues repeat the end of a session, so it is not lost here.
        let next = self.published + 1;
        for line in [0, 1] {
            self.queue_at(now + 5_000 * MICROSECOND, Coming::End { line, next });
        }
        self.arrive_until(u64::MAX);
        let counts = *self.channel.counts();
        let Model { next, lost, skipped, ended_at, .. } = self.model;
        assert_eq!(next, self.published + 1, "all was handed on or said to be lost");
        assert_eq!(ended_at, Some(next));
        assert_eq!(counts.lost, lost);
        assert_eq!(counts.delivered + lost + skipped, self.published);
        assert_eq!(self.channel.held_len(), 0, "nothing waits for ever");
        let state = self.channel.state();
        let is_stale = lost > 0 && self.snapshots == 0;
        assert_eq!(state, if is_stale { State::Stale } else { State::Ended });
        Outcome { counts, snapshots: self.snapshots, skipped_by_snapshots: skipped, state }
    }

    fn publish(&mut self, now: u64) {
        let count = 1 + self.chance.below(12).min(self.faults.message_count - self.published - 1);
        let (from, to) = (self.published + 1, self.published + 1 + count);
        self.published += count;
        if from <= self.faults.missed {
            return;
        }
        for line in 0..2_u8 {
            let at = usize::from(line);
            if self.burst[at] == 0 && self.chance.happens(self.faults.loss[at]) {
                self.burst[at] = 1 + self.chance.below(self.faults.burst_max);
            }
            if self.burst[at] > 0 {
                self.burst[at] -= 1;
                continue;
            }
            let copies = 1 + u64::from(self.chance.happens(self.faults.duplication));
            for _ in 0..copies {
                let late = self.chance.below(self.faults.delay_max * MICROSECOND);
                self.queue_at(now + late, Coming::Packet { line, from, to });
            }
        }
    }

    fn queue_at(&mut self, at: u64, coming: Coming) {
        self.queued += 1;
        self.queue.push(Reverse((at, self.queued, coming)));
    }

    /// Delivers everything due until `until`, and runs the timers at the channel's deadlines.
    fn arrive_until(&mut self, until: u64) {
        loop {
            let next = self.queue.peek().map(|Reverse((at, ..))| *at);
            let due = self.channel.deadline().map(|deadline| deadline.0);
            match (next, due) {
                (next, Some(due)) if due <= until && next.is_none_or(|next| due < next) => {
                    assert!(due >= self.clock, "a deadline that was over when it was set");
                    self.clock = due;
                    let before = (self.channel.deadline(), self.model.requests.len());
                    self.channel.tick(Nanos(due), &mut self.model);
                    let after = (self.channel.deadline(), self.model.requests.len());
                    assert_ne!(before, after, "a deadline that nothing came of");
                    self.react(due);
                }
                (Some(next), _) if next <= until => {
                    let Some(Reverse((at, _, coming))) = self.queue.pop() else { return };
                    self.clock = at;
                    self.arrive(at, coming);
                    self.react(at);
                }
                _ => return,
            }
        }
    }

    fn arrive(&mut self, now: u64, coming: Coming) {
        let (line, sequence, count, kind) = match coming {
            Coming::Packet { line, from, to } => (line, from, (to - from) as u32, PacketKind::Data),
            Coming::End { line, next } => (line, next, 0, PacketKind::EndOfSession),
            Coming::Snapshot { next } => {
                self.model.is_strict &= self.channel.counts().dropped == 0;
                assert!(self.channel.join(SESSION, next, Nanos(now), &mut self.model));
                return;
            }
        };
        let numbers = sequence..sequence + u64::from(count);
        let messages: Vec<u8> = numbers.clone().flat_map(u64::to_le_bytes).collect();
        let line = Line::ALL[usize::from(line)];
        let ts_send = Nanos(now);
        let (channel, session) = (3, SESSION);
        let messages = messages.as_slice();
        let stream_offset = None;
        let packet =
            Packet { channel, session, sequence, count, kind, ts_send, stream_offset, messages };
        // Messages that arrive with the packet that takes the last room may be lost with it.
        self.model.is_strict &= !self.is_full();
        self.channel.packet(line, &packet, Nanos(now), &mut self.model);
        numbers.for_each(|number| self.model.has_come[number as usize] = true);
    }

    fn is_full(&self) -> bool {
        self.channel.held_len() >= self.faults.held_packets_max as usize
    }

    /// Answers requests, and sends a snapshot when messages were lost.
    fn react(&mut self, now: u64) {
        while let Some((from, to)) = self.model.requests.pop() {
            let mut start = from;
            let to = to.min(self.published + 1);
            while start < to && !self.chance.happens(self.faults.answer_loss.unwrap_or(MILLION)) {
                let end = to.min(start + 1 + self.chance.below(30));
                let after = now + 100 * MICROSECOND + self.chance.below(400 * MICROSECOND);
                self.queue_at(after, Coming::Packet { line: 2, from: start, to: end });
                start = end;
            }
        }
        let is_needed = std::mem::take(&mut self.model.is_stale_told);
        let is_idle = self.channel.state() != State::Recovering;
        if is_needed && is_idle && self.faults.has_snapshots {
            self.snapshots += 1;
            let next = self.published + 1;
            let later = now + self.chance.below(3_000 * MICROSECOND);
            self.channel.begin_recovery(&mut self.model);
            self.queue_at(later, Coming::Snapshot { next });
        }
    }
}
