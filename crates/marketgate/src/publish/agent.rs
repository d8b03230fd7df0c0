//! The publisher's agent: reads the partition's events, sends packets and answers requests.
//!
//! It reads at its own pace and never blocks the partition. A packet that the socket does not
//! accept is not repeated; receivers can request it. After a restart the agent replays the events
//! since a checkpoint, or all, so that sequence numbers continue; it sends nothing until then.

use std::io::ErrorKind;
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_market::publish::{Channel, RequestServer};
use weir_runtime::Agent;
use weir_types::{InstrumentId, Nanos};

use super::event_publisher::{EventPublisher, EventPublisherParts, ReadOutcome};
use super::figures::{PublishFigures, PublishedMarket};

/// The maximum number of events of one duty cycle.
const EVENTS_MAX: usize = 512;
/// The maximum number of requests answered in one duty cycle.
const REQUESTS_MAX: usize = 64;
/// The interval of heartbeats while nothing else is sent, in nanoseconds.
const HEARTBEAT_INTERVAL: u64 = 1_000_000_000;
/// The bytes read of a request, which has twenty.
const REQUEST_LEN_MAX: usize = 64;

/// The parts of a [`PublishAgent`].
pub struct PublishParts {
    /// The partition and its events.
    pub events: EventPublisherParts,
    /// Numbers, packs and retains messages.
    pub channel: Channel,
    /// Answers requests.
    pub server: RequestServer,
    /// The non-blocking socket that sends packets.
    pub sender: UdpSocket,
    /// The destinations: line A and, if configured, line B.
    pub lines: Vec<SocketAddrV4>,
    /// The non-blocking socket that receives requests.
    pub requests: UdpSocket,
    /// The interval at which an idle agent looks for events.
    pub look_interval: Nanos,
    /// Counters for other threads.
    pub figures: Arc<PublishFigures>,
}

/// Publishes a partition's market data and answers retransmission requests.
pub struct PublishAgent {
    events: EventPublisher,
    channel: Channel,
    server: RequestServer,
    out: Out,
    requests: UdpSocket,
    look_interval: Nanos,
    left_out: Vec<(InstrumentId, String)>,
}

/// The sending side: the socket and its destinations.
struct Out {
    sender: UdpSocket,
    lines: Vec<SocketAddrV4>,
    figures: Arc<PublishFigures>,
    /// The time at which a heartbeat is due.
    next_heartbeat: Nanos,
}

impl Out {
    fn send(&mut self, packet: &[u8], now: Nanos) {
        self.next_heartbeat = Nanos(now.0 + HEARTBEAT_INTERVAL);
        for line in &self.lines {
            match self.sender.send_to(packet, line) {
                Ok(len) => {
                    add(&self.figures.counters.packets, 1);
                    add(&self.figures.counters.bytes, len as u64);
                }
                Err(_) => add(&self.figures.counters.unsent, 1),
            }
        }
    }
}

impl PublishAgent {
    /// Creates an agent that has read no events yet.
    #[must_use]
    pub fn new(parts: PublishParts) -> PublishAgent {
        let PublishParts { mut channel, server, sender, lines, requests, figures, .. } = parts;
        let (events, numbers) = EventPublisher::new(parts.events);
        if let Some(session) = numbers.session {
            channel.continue_at(session, numbers.next);
        }
        PublishAgent {
            events,
            channel,
            server,
            out: Out { sender, lines, figures, next_heartbeat: Nanos(0) },
            requests,
            look_interval: parts.look_interval,
            left_out: Vec::new(),
        }
    }

    /// Publishes at most [`EVENTS_MAX`] events and returns their number.
    fn publish_next(&mut self, now: Nanos) -> usize {
        for count in 0..EVENTS_MAX {
            let session = self.channel.session();
            let PublishAgent { channel, out, events, .. } = self;
            match events.publish_next(&mut channel.sink(|packet| out.send(packet, now))) {
                ReadOutcome::Event { is_definition } => {
                    let is_other = is_definition || self.channel.session() != session;
                    if self.channel.is_live() && is_other {
                        self.show_market();
                    }
                }
                ReadOutcome::UpToDate => {
                    self.is_up_to_date(now);
                    self.tell(count);
                    return count;
                }
            }
        }
        self.tell(EVENTS_MAX);
        EVENTS_MAX
    }

    /// Sends the packet under construction, or a heartbeat that is due. Goes live first once all
    /// events from before the start are replayed.
    fn is_up_to_date(&mut self, now: Nanos) {
        let PublishAgent { channel, out, events, .. } = self;
        if !channel.is_live() {
            if !events.is_live() {
                return;
            }
            channel.go_live();
            out.figures.counters.is_live.store(true, Ordering::Relaxed);
            out.next_heartbeat = now;
            self.show_market();
            self.show_numbers();
        }
        let PublishAgent { channel, out, .. } = self;
        channel.flush(|packet| out.send(packet, now));
        if now >= out.next_heartbeat
            && let Some(packet) = channel.heartbeat()
        {
            out.send(packet, now);
        }
    }

    /// Answers pending requests; returns their number.
    fn answer(&mut self, now: Nanos) -> usize {
        let PublishAgent { channel, server, requests, out, .. } = self;
        let figures = &out.figures;
        let mut datagram = [0; REQUEST_LEN_MAX];
        for count in 0..REQUESTS_MAX {
            let (len, from) = match requests.recv_from(&mut datagram) {
                Ok(found) => found,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return count,
                // The system reports here that an earlier requester's socket is gone.
                Err(_) => continue,
            };
            let SocketAddr::V4(from) = from else { continue };
            let mut is_sent = false;
            let answer = server.answer(channel, *from.ip(), &datagram[..len], now, |packet| {
                is_sent = requests.send_to(packet, from).is_ok();
            });
            match answer {
                Ok(messages) if is_sent => {
                    add(&figures.counters.answered, 1);
                    add(&figures.counters.resent, u64::from(messages));
                }
                Ok(_) => add(&figures.counters.unsent, 1),
                Err(refusal) => add(figures.counters.refused(refusal), 1),
            }
        }
        REQUESTS_MAX
    }

    /// Updates the counters after `count` events.
    fn tell(&self, count: usize) {
        if count == 0 {
            return;
        }
        add(&self.out.figures.counters.events, count as u64);
        self.show_numbers();
    }

    /// Updates the session's numbers.
    fn show_numbers(&self) {
        let (figures, channel) = (&self.out.figures, &self.channel);
        figures.counters.next_sequence.store(channel.next_sequence(), Ordering::Relaxed);
        figures.counters.oldest.store(channel.oldest(), Ordering::Relaxed);
        let unsayable = self.events.publication().counts().unsayable_orders;
        figures.counters.unsayable_orders.store(unsayable, Ordering::Relaxed);
    }

    /// Updates the published and omitted instruments, and logs each newly omitted one with its
    /// reason.
    fn show_market(&mut self) {
        let publication = self.events.publication();
        let left_out: Vec<_> = publication.unfit().map(|(id, why)| (id, why.to_string())).collect();
        for (id, why) in left_out.iter().filter(|row| !self.left_out.contains(row)) {
            tracing::warn!(instrument = id.0, why, "an instrument is not published");
        }
        let session = self.channel.session();
        let session = session.map(|s| String::from_utf8_lossy(&s.0).into_owned());
        let published = publication.published_count() as u64;
        self.out.figures.counters.published.store(published, Ordering::Relaxed);
        self.out.figures.show(PublishedMarket {
            session: session.unwrap_or_default(),
            left_out: left_out.iter().map(|(id, why)| (id.0, why.clone())).collect(),
        });
        self.left_out = left_out;
    }
}

fn add(figure: &AtomicU64, count: u64) {
    figure.fetch_add(count, Ordering::Relaxed);
}

impl Agent for PublishAgent {
    fn name(&self) -> &'static str {
        "publish"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        self.publish_next(now) + self.answer(now)
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        Some(Nanos(now.0 + self.look_interval.0))
    }

    fn stop(&mut self, now: Nanos) -> bool {
        // Called again while more events are pending.
        self.publish_next(now) < EVENTS_MAX
    }
}
