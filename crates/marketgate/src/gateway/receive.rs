//! The threads of receiving and updating: one agent that does both, or one each with a ring
//! between them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use weir_feed::capture::Datagram;
use weir_feed::line::Line;
use weir_feed::{Definition, Update};
use weir_runtime::{Agent, Poller, Wake};
use weir_types::Nanos;

use crate::receiver::{ChannelEvent, ChannelKey, Origin, Output, Receiver};
use super::figures::{ReceiveFigures, UpdateFigures};
use super::ring::{RingReader, RingWriter, Slots as _};
use super::stages::{Begun, Sampler};
use super::update::UpdateStage;

const WAKER: Token = Token(0);
const LINE: Token = Token(1);
/// Figures are shown so often.
const SHOW_INTERVAL: u64 = 50_000_000;
/// What was received and is taken from the ring in one cycle.
const TAKE_MAX: u64 = 1_024;

/// What is done while the updating thread does not keep up and the ring towards it is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReceiveWhenFull {
    /// Datagrams stay in the kernel's buffers, which count those that they have no room for. The
    /// default.
    #[default]
    Wait,
    /// Datagrams are read and dropped: what is handed on afterwards is new, and what is missing is
    /// asked for again.
    Drop,
}

/// What crosses from the receiving thread to the updating one.
#[derive(Clone, Copy, Debug, Default)]
pub enum Received {
    /// Nothing yet.
    #[default]
    Nothing,
    /// The update that follows is timed.
    Trace(Begun),
    /// An instrument became known.
    Define(Origin, Definition),
    /// Something happened to one.
    Update(Origin, Update),
    /// Something happened to a channel.
    Channel(ChannelKey, ChannelEvent),
    /// All that a packet came to was said.
    EndOfPacket,
}

/// What follows the receiver on its thread.
pub trait Stage: Output + Send {
    /// Does what is to be done between packets; how much it was.
    fn turn(&mut self, now: Nanos) -> usize;
    /// Whether what a receiver says next has room.
    fn has_room(&mut self) -> bool;
    /// When there is something to do although nothing came.
    fn next_due(&self) -> Option<Nanos>;
}

/// Receives, and hands on to what follows.
pub struct ReceiveAgent<S> {
    poll: Poll,
    events: Events,
    receiver: Receiver,
    stage: S,
    next_show: Nanos,
    figures: Arc<ReceiveFigures>,
}

impl<S: Stage> ReceiveAgent<S> {
    /// An agent that waits for the receiver's sockets.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn new(
        receiver: Receiver,
        stage: S,
        figures: Arc<ReceiveFigures>,
    ) -> std::io::Result<ReceiveAgent<S>> {
        let poll = Poll::new()?;
        for descriptor in receiver.descriptors() {
            poll.registry().register(&mut SourceFd(&descriptor), LINE, Interest::READABLE)?;
        }
        let events = Events::with_capacity(64);
        Ok(ReceiveAgent { poll, events, receiver, stage, next_show: Nanos(0), figures })
    }
}

impl<S: Stage> Agent for ReceiveAgent<S> {
    fn name(&self) -> &'static str {
        "market-receive"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        let mut done = 0;
        // Without room datagrams wait in the kernel's buffer, which counts those that it drops.
        if self.stage.has_room() {
            done += self.receiver.poll(now, &mut self.stage);
        }
        done += self.stage.turn(now);
        if now >= self.next_show {
            self.next_show = Nanos(now.0 + SHOW_INTERVAL);
            self.figures.show(&self.receiver);
        }
        done
    }

    fn next_deadline(&self, _now: Nanos) -> Option<Nanos> {
        let due = [self.receiver.deadline(), self.stage.next_due(), Some(self.next_show)];
        due.into_iter().flatten().min()
    }
}

impl<S: Stage> Poller for ReceiveAgent<S> {
    fn poll(&mut self, timeout: Option<Duration>) {
        if let Err(error) = self.poll.poll(&mut self.events, timeout) {
            let interrupted = error.kind() == std::io::ErrorKind::Interrupted;
            assert!(interrupted, "the poll of the receiving thread failed: {error}");
        }
    }

    fn waker(&self) -> std::io::Result<mio::Waker> {
        mio::Waker::new(self.poll.registry(), WAKER)
    }
}

/// The update stage where it runs on the receiving thread.
pub struct Fused {
    stage: UpdateStage,
    sampler: Sampler,
    next_show: Nanos,
    figures: Arc<UpdateFigures>,
}

impl Fused {
    /// The stage, which shows what it counts.
    #[must_use]
    pub fn new(stage: UpdateStage, sampler: Sampler, figures: Arc<UpdateFigures>) -> Fused {
        Fused { stage, sampler, next_show: Nanos(0), figures }
    }

    fn show(&mut self, now: Nanos) {
        if now >= self.next_show {
            self.next_show = Nanos(now.0 + SHOW_INTERVAL);
            self.figures.show(&self.stage);
        }
    }
}

impl Output for Fused {
    fn datagram(&mut self, _pair: u32, _line: Line, datagram: &Datagram<'_>, ts_poll: Nanos) {
        self.sampler.datagram(datagram.ts_recv, ts_poll);
    }

    fn define(&mut self, origin: &Origin, definition: &Definition) {
        self.stage.define(origin, definition);
    }

    fn update(&mut self, origin: &Origin, update: Update) {
        if !origin.is_snapshot
            && let Some(begun) = self.sampler.update(origin.ts_poll)
        {
            self.stage.begin_trace(begun);
        }
        self.stage.update(origin, update);
    }

    fn channel(&mut self, channel: ChannelKey, event: &ChannelEvent) {
        self.stage.channel(channel, event);
    }

    fn end_of_packet(&mut self, origin: &Origin) {
        self.sampler.end_of_packet();
        self.stage.end_of_packet(origin);
    }
}

impl Stage for Fused {
    fn turn(&mut self, now: Nanos) -> usize {
        self.show(now);
        self.stage.turn(now)
    }

    fn has_room(&mut self) -> bool {
        true
    }

    fn next_due(&self) -> Option<Nanos> {
        self.stage.next_due()
    }
}

/// The ring towards the updating thread.
pub struct Staged {
    ring: RingWriter<Received>,
    when_full: ReceiveWhenFull,
    sampler: Sampler,
    wake: Wake,
    /// What one poll said and the ring had no room for.
    left: VecDeque<Received>,
    has_said: bool,
}

impl Staged {
    /// Hands on over this ring to the thread that `wake` wakes.
    #[must_use]
    pub fn new(
        ring: RingWriter<Received>,
        when_full: ReceiveWhenFull,
        sampler: Sampler,
        wake: Wake,
    ) -> Staged {
        Staged { ring, when_full, sampler, wake, left: VecDeque::new(), has_said: false }
    }

    /// Hands on what was left over, as far as there is room; how much it was.
    fn hand_on(&mut self) -> usize {
        let mut done = 0;
        while let Some(received) = self.left.front().copied()
            && self.ring.write(|slot| *slot = received)
        {
            self.left.pop_front();
            done += 1;
        }
        if std::mem::take(&mut self.has_said) || done > 0 {
            self.wake.wake();
        }
        done
    }

    fn say(&mut self, received: Received) {
        self.has_said = true;
        if !self.left.is_empty() || !self.ring.write(|slot| *slot = received) {
            self.left.push_back(received);
        }
    }
}

impl Output for Staged {
    fn drops_datagrams(&mut self) -> bool {
        if self.when_full == ReceiveWhenFull::Wait || self.left.is_empty() {
            return false;
        }
        self.hand_on();
        !self.left.is_empty()
    }

    fn datagram(&mut self, _pair: u32, _line: Line, datagram: &Datagram<'_>, ts_poll: Nanos) {
        self.sampler.datagram(datagram.ts_recv, ts_poll);
    }

    fn define(&mut self, origin: &Origin, definition: &Definition) {
        self.say(Received::Define(*origin, *definition));
    }

    fn update(&mut self, origin: &Origin, update: Update) {
        if !origin.is_snapshot
            && let Some(begun) = self.sampler.update(origin.ts_poll)
        {
            self.say(Received::Trace(begun));
        }
        self.say(Received::Update(*origin, update));
    }

    fn channel(&mut self, channel: ChannelKey, event: &ChannelEvent) {
        self.say(Received::Channel(channel, *event));
    }

    fn end_of_packet(&mut self, _origin: &Origin) {
        self.sampler.end_of_packet();
        self.say(Received::EndOfPacket);
    }
}

impl Stage for Staged {
    fn turn(&mut self, _now: Nanos) -> usize {
        self.hand_on()
    }

    fn has_room(&mut self) -> bool {
        // Who drops has room for every datagram.
        self.when_full == ReceiveWhenFull::Drop || self.left.is_empty()
    }

    fn next_due(&self) -> Option<Nanos> {
        // What is left over is tried again at once.
        (!self.left.is_empty()).then_some(Nanos(0))
    }
}

/// The updating thread's agent.
pub struct UpdateAgent {
    ring: RingReader<Received>,
    stage: UpdateStage,
    is_between_packets: bool,
    next_show: Nanos,
    figures: Arc<UpdateFigures>,
}

impl UpdateAgent {
    /// Takes from this ring.
    #[must_use]
    pub fn new(
        ring: RingReader<Received>,
        stage: UpdateStage,
        figures: Arc<UpdateFigures>,
    ) -> UpdateAgent {
        let next_show = Nanos(0);
        UpdateAgent { ring, stage, is_between_packets: true, next_show, figures }
    }
}

impl Agent for UpdateAgent {
    fn name(&self) -> &'static str {
        "market-update"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        let UpdateAgent { ring, stage, is_between_packets, .. } = self;
        let mut done = ring.take(TAKE_MAX, |received| {
            *is_between_packets = matches!(received, Received::EndOfPacket);
            match received {
                Received::Nothing | Received::EndOfPacket => {}
                Received::Trace(begun) => stage.begin_trace(*begun),
                Received::Define(origin, definition) => stage.define(origin, definition),
                Received::Update(origin, update) => stage.update(origin, *update),
                Received::Channel(channel, event) => {
                    stage.channel(*channel, event);
                    // A channel's state may change while nothing comes.
                    *is_between_packets = true;
                }
            }
        });
        if self.is_between_packets {
            done += self.stage.turn(now);
        }
        if now >= self.next_show {
            self.next_show = Nanos(now.0 + SHOW_INTERVAL);
            self.figures.show(&self.stage);
        }
        done
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        if self.ring.has_more() {
            return Some(now);
        }
        let due = self.stage.next_due();
        Some(due.map_or(self.next_show, |at| at.min(self.next_show)))
    }
}
