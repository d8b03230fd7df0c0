//! The publisher's agent: the partition's events in, packets and answers out.
//!
//! It reads at its own pace and stops nobody: what a socket does not take is not sent again by
//! itself, it can be asked for. After a start all events of before are heard again, so that numbers
//! go on where they were; nothing is sent until then.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_log::EpochEnd;
use weir_market::publish::{Calendar, Channel, Publication, RequestServer};
use weir_types::{Epoch, InstrumentId, Nanos, PartitionId};
use weir_wire::{Definition, Event};

use super::figures::{MarketNow, PublishFigures};
use super::publish_event;
use crate::agent::Agent;
use crate::event_reader::{EventReader, ReadEvent};

/// Events heard in one cycle.
const EVENTS_MAX: usize = 512;
/// Requests answered in one cycle.
const REQUESTS_MAX: usize = 64;
/// Heartbeats are sent so often when nothing else is.
const HEARTBEAT_INTERVAL: u64 = 1_000_000_000;
/// Bytes of a request that are looked at; it has twenty.
const REQUEST_LEN_MAX: usize = 64;

/// What the agent is made of.
pub struct PublishParts {
    /// The partition.
    pub partition_id: PartitionId,
    /// Its events, from its first.
    pub events: EventReader,
    /// How many there are at the start.
    pub event_count: u64,
    /// Its epoch.
    pub epoch: Epoch,
    /// Its epochs before, each with its last valid position.
    pub ended: Vec<EpochEnd>,
    /// When days begin.
    pub calendar: Calendar,
    /// Numbers, packs and keeps messages.
    pub channel: Channel,
    /// Answers requests.
    pub server: RequestServer,
    /// What sends, without waiting.
    pub sender: UdpSocket,
    /// Where to: line A and, where there is one, line B.
    pub lines: Vec<SocketAddrV4>,
    /// Where requests come in, without waiting.
    pub requests: UdpSocket,
    /// How often events are looked for when there were none.
    pub look_interval: Nanos,
    /// Figures for others to read.
    pub figures: Arc<PublishFigures>,
}

/// See the module's documentation.
pub struct PublishAgent {
    parts: PublishParts,
    publication: Publication,
    /// Ended epochs that are not passed, each with where it ends to live on.
    ends: VecDeque<EpochEnd>,
    record: Vec<u8>,
    /// When a heartbeat is due.
    next_heartbeat: Nanos,
    left_out: Vec<(InstrumentId, String)>,
}

impl PublishAgent {
    /// An agent that has heard nothing yet.
    #[must_use]
    pub fn new(mut parts: PublishParts) -> PublishAgent {
        let ends = lived_on(std::mem::take(&mut parts.ended));
        let first = ends.front().map_or(parts.epoch, |end| end.epoch);
        PublishAgent {
            publication: Publication::new(parts.calendar, first),
            ends,
            record: Vec::with_capacity(512),
            next_heartbeat: Nanos(0),
            left_out: Vec::new(),
            parts,
        }
    }

    /// Hears at most [`EVENTS_MAX`] events, and says what they come to.
    fn hear(&mut self, now: Nanos) -> usize {
        for count in 0..EVENTS_MAX {
            match self.parts.events.next(&mut self.record) {
                ReadEvent::Record(_) => self.take(now),
                ReadEvent::UpToDate => {
                    self.is_up_to_date(now);
                    self.tell(count);
                    return count;
                }
            }
        }
        self.tell(EVENTS_MAX);
        EVENTS_MAX
    }

    fn take(&mut self, now: Nanos) {
        let event = Event::decode(&self.record).expect("the event log holds our own messages");
        while self.ends.front().is_some_and(|end| end.last_valid < event.position()) {
            self.ends.pop_front();
            let epoch = self.ends.front().map_or(self.parts.epoch, |end| end.epoch);
            self.enter_epoch(epoch, now);
        }
        let is_definition = matches!(event, Event::Defined(_, Definition::DefineInstrument(_)));
        let PublishParts { partition_id, channel, sender, lines, figures, .. } = &mut self.parts;
        let session = channel.session();
        let mut sink = channel.sink(|packet| {
            self.next_heartbeat = Nanos(now.0 + HEARTBEAT_INTERVAL);
            send(sender, lines, figures, packet);
        });
        publish_event(&mut self.publication, *partition_id, &event, &mut sink);
        if channel.is_live() && (is_definition || channel.session() != session) {
            self.show_market();
        }
    }

    fn enter_epoch(&mut self, epoch: Epoch, now: Nanos) {
        let PublishParts { channel, sender, lines, figures, .. } = &mut self.parts;
        let mut sink = channel.sink(|packet| {
            self.next_heartbeat = Nanos(now.0 + HEARTBEAT_INTERVAL);
            send(sender, lines, figures, packet);
        });
        self.publication.enter_epoch(epoch, &mut sink);
    }

    /// Nothing new: what is in the packet goes. Once all of before the start was heard, sends.
    fn is_up_to_date(&mut self, now: Nanos) {
        if !self.parts.channel.is_live() {
            if self.parts.events.next_record() <= self.parts.event_count {
                // The files cannot be read just now; to go on without them would say wrong things.
                return;
            }
            self.ends.clear();
            self.enter_epoch(self.parts.epoch, now);
            self.parts.channel.go_live();
            self.parts.figures.is_live.store(true, Ordering::Relaxed);
            self.show_market();
            self.next_heartbeat = now;
        }
        let PublishParts { channel, sender, lines, figures, .. } = &mut self.parts;
        channel.flush(|packet| {
            self.next_heartbeat = Nanos(now.0 + HEARTBEAT_INTERVAL);
            send(sender, lines, figures, packet);
        });
        if now >= self.next_heartbeat
            && let Some(packet) = channel.heartbeat()
        {
            self.next_heartbeat = Nanos(now.0 + HEARTBEAT_INTERVAL);
            send(sender, lines, figures, packet);
        }
    }

    /// Answers what was asked; returns how much that was.
    fn answer(&mut self, now: Nanos) -> usize {
        let PublishParts { channel, server, requests, figures, .. } = &mut self.parts;
        let mut datagram = [0; REQUEST_LEN_MAX];
        for count in 0..REQUESTS_MAX {
            let (len, from) = match requests.recv_from(&mut datagram) {
                Ok(found) => found,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return count,
                // Who asked before is not there any more: the system tells it here.
                Err(_) => continue,
            };
            let SocketAddr::V4(from) = from else { continue };
            let mut is_sent = false;
            let answer = server.answer(channel, (*from.ip(), &datagram[..len]), now, |packet| {
                is_sent = requests.send_to(packet, from).is_ok();
            });
            match answer {
                Ok(messages) if is_sent => {
                    add(&figures.answered, 1);
                    add(&figures.resent, u64::from(messages));
                }
                Ok(_) => add(&figures.unsent, 1),
                Err(refusal) => add(&figures.refused[refusal.index()], 1),
            }
        }
        REQUESTS_MAX
    }

    /// Tells what was heard.
    fn tell(&self, count: usize) {
        if count == 0 {
            return;
        }
        let PublishParts { figures, channel, .. } = &self.parts;
        add(&figures.events, count as u64);
        figures.next_sequence.store(channel.next_sequence(), Ordering::Relaxed);
        figures.oldest.store(channel.oldest(), Ordering::Relaxed);
        let unsayable = self.publication.counts().unsayable_orders;
        figures.unsayable_orders.store(unsayable, Ordering::Relaxed);
    }

    /// Tells which instruments are published, and of each that is newly left out, why.
    fn show_market(&mut self) {
        let left_out: Vec<_> =
            self.publication.unfit().map(|(id, why)| (id, why.to_string())).collect();
        for (id, why) in left_out.iter().filter(|row| !self.left_out.contains(row)) {
            tracing::warn!(instrument = id.0, why, "an instrument is not published");
        }
        let session = self.parts.channel.session();
        let session = session.map(|s| String::from_utf8_lossy(&s.0).into_owned());
        self.parts.figures.show(MarketNow {
            session: session.unwrap_or_default(),
            published: self.publication.published_count() as u64,
            left_out: left_out.iter().map(|(id, why)| (id.0, why.clone())).collect(),
        });
        self.left_out = left_out;
    }
}

/// Ended epochs, each with the position up to which it lives on: a later loss may reach back into
/// an earlier epoch.
fn lived_on(mut ended: Vec<EpochEnd>) -> VecDeque<EpochEnd> {
    for at in (1..ended.len()).rev() {
        ended[at - 1].last_valid = ended[at - 1].last_valid.min(ended[at].last_valid);
    }
    ended.into()
}

fn add(figure: &AtomicU64, count: u64) {
    figure.fetch_add(count, Ordering::Relaxed);
}

fn send(sender: &UdpSocket, lines: &[SocketAddrV4], figures: &PublishFigures, packet: &[u8]) {
    for line in lines {
        match sender.send_to(packet, line) {
            Ok(len) => {
                add(&figures.packets, 1);
                add(&figures.bytes, len as u64);
            }
            Err(_) => add(&figures.unsent, 1),
        }
    }
}

impl Agent for PublishAgent {
    fn name(&self) -> &'static str {
        "publish"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        self.hear(now) + self.answer(now)
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        Some(Nanos(now.0 + self.parts.look_interval.0))
    }

    fn stop(&mut self, now: Nanos) -> bool {
        // Another call follows while there are more.
        self.hear(now) < EVENTS_MAX
    }
}

#[cfg(test)]
mod tests;
