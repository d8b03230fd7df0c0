//! The receiving and updating threads: one agent for both, or one each with a ring between them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use weir_feed::capture::Datagram;
use weir_feed::line::Line;
use weir_feed::{Definition, Update};
use weir_runtime::{Agent, Poller, Wake};
use weir_types::{Nanos, WallOffset};

use super::figures::{ReceiveFigures, UpdateFigures};
use super::next_stage::Stage;
use super::ring::{RingReader, RingWriter, Slots as _};
use super::stages::{Sampler, TimedMessage};
use super::update::UpdateStage;
use crate::receiver::{ChannelEvent, ChannelKey, Origin, Output, Receiver};

const WAKER: Token = Token(0);
const LINE: Token = Token(1);
/// The interval at which figures are published, in nanoseconds.
const SHOW_INTERVAL: u64 = 50_000_000;
/// The maximum number of slots taken from the ring in one duty cycle.
const TAKE_MAX: u64 = 1_024;

/// The reaction when the ring to the updating thread is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReceiveWhenFull {
    /// Datagrams stay in the kernel's buffers, which count drops. The default.
    #[default]
    Wait,
    /// Datagrams are read and dropped: data passed on later is current, and the missing messages
    /// are requested again.
    Drop,
}

/// A slot of the ring from the receiving to the updating thread.
#[derive(Clone, Copy, Debug, Default)]
pub enum Received {
    /// An unused slot.
    #[default]
    Nothing,
    /// The start of timing of the update that follows.
    Trace(TimedMessage),
    /// The definition of an instrument.
    Define(Origin, Definition),
    /// An update of an instrument.
    Update(Origin, Update),
    /// An event of a channel.
    Channel(ChannelKey, ChannelEvent),
    /// The end of a packet's output.
    EndOfPacket,
}

/// The receiving agent: polls the receiver and passes its output to the next stage.
pub struct ReceiveAgent<S> {
    poll: Poll,
    events: Events,
    receiver: Receiver,
    stage: S,
    next_show: Nanos,
    figures: Arc<ReceiveFigures>,
    /// True once the end of a file was logged.
    is_end_told: bool,
}

impl<S: Stage> ReceiveAgent<S> {
    /// Creates an agent that polls the receiver's sockets.
    ///
    /// # Errors
    /// An error of the operating system.
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
        let (next_show, is_end_told) = (Nanos(0), false);
        Ok(ReceiveAgent { poll, events, receiver, stage, next_show, figures, is_end_told })
    }

    /// Logs the end of a file, once.
    fn tell_end(&mut self) {
        if self.is_end_told || !self.receiver.is_over() {
            return;
        }
        self.is_end_told = true;
        match self.receiver.file_problem() {
            Some(error) => tracing::error!(%error, "the capture was not read to its end"),
            None => tracing::info!("the capture is at its end"),
        }
    }
}

impl<S: Stage> Agent for ReceiveAgent<S> {
    fn name(&self) -> &'static str {
        "market-receive"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        let mut done = 0;
        // Without room, datagrams wait in the kernel's buffer, which counts those that it drops.
        if self.stage.has_room() {
            done += self.receiver.poll(now, &mut self.stage);
        }
        done += self.stage.turn(now);
        if now >= self.next_show {
            self.next_show = Nanos(now.0 + SHOW_INTERVAL);
            self.figures.show(&self.receiver);
            self.tell_end();
        }
        done
    }

    fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.receiver.wall_clock_moved(wall);
        self.stage.wall_clock_moved(wall);
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

    fn waker(&self) -> std::io::Result<weir_io::net::Waker> {
        Ok(mio::Waker::new(self.poll.registry(), WAKER)?.into())
    }
}

/// The update stage on the receiving thread.
pub struct Fused {
    stage: UpdateStage,
    sampler: Sampler,
    next_show: Nanos,
    figures: Arc<UpdateFigures>,
}

impl Fused {
    /// Wraps the stage and publishes its counters in `figures`.
    #[must_use]
    pub fn new(stage: UpdateStage, sampler: Sampler, figures: Arc<UpdateFigures>) -> Fused {
        Fused { stage, sampler, next_show: Nanos(0), figures }
    }

    fn show(&mut self, now: Nanos) {
        if now >= self.next_show {
            self.next_show = Nanos(now.0 + SHOW_INTERVAL);
            self.figures.show(self.stage.report());
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

/// The ring to the updating thread.
pub struct Staged {
    ring: RingWriter<Received>,
    when_full: ReceiveWhenFull,
    sampler: Sampler,
    wake: Wake,
    /// Output of the last poll for which the ring had no room.
    left: VecDeque<Received>,
    has_said: bool,
}

impl Staged {
    /// Passes output over this ring to the thread that `wake` wakes.
    #[must_use]
    pub fn new(
        ring: RingWriter<Received>,
        when_full: ReceiveWhenFull,
        sampler: Sampler,
        wake: Wake,
    ) -> Staged {
        Staged { ring, when_full, sampler, wake, left: VecDeque::new(), has_said: false }
    }

    /// Passes on the remaining output, as far as there is room; returns its amount.
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
        // A stage that drops has room for every datagram.
        self.when_full == ReceiveWhenFull::Drop || self.left.is_empty()
    }

    fn next_due(&self) -> Option<Nanos> {
        // Remaining output is retried immediately.
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
    /// Creates an agent that reads this ring.
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
                    // A channel's state may change while no packet arrives.
                    *is_between_packets = true;
                }
            }
        });
        if self.is_between_packets {
            done += self.stage.turn(now);
        }
        if now >= self.next_show {
            self.next_show = Nanos(now.0 + SHOW_INTERVAL);
            self.figures.show(self.stage.report());
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

#[cfg(test)]
mod tests;
