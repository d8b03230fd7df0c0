//! The snapshot server's agent: sends late joiners the whole market by GLIMPSE 5.0 over SoupBinTCP,
//! after which they continue on the lines.
//!
//! It reads the partition's events itself, on its own thread, so that even a large snapshot delays
//! neither orders nor the multicast lines. Messages are a function of the events, so its sequence
//! numbers equal those of the lines. It may be slightly behind or ahead of the lines, which its
//! clients allow for.
//!
//! Its memory is bounded: a limit of clients, in all and of a host, each with a snapshot as of its
//! login. Logins between two events share one. Clients that do not read are disconnected. A
//! newcomer beyond a limit takes the place of a client that has not logged in, by the rule of all
//! doors ([`weir_door::strangers`]); it is refused where there is none.

mod client;
mod figures;

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_door::strangers::{Strangers, host_of};
use weir_feed::moldudp64::MoldSession;
use weir_feed::soupbin::Access;
use weir_io::descriptors::{DescriptorRoom, room_beside};
use weir_market::publish::put_snapshot;
use weir_types::Nanos;

pub use figures::{SnapshotFigures, SnapshotReport};

use self::client::{Client, CycleOutcome, RemovalReason};
use super::event_publisher::{EventPublisher, EventPublisherParts, ReadOutcome};
use super::numbers::Numbers;
use weir_runtime::Agent;

/// The maximum number of events of one duty cycle.
const EVENTS_MAX: usize = 512;
/// The maximum number of connections accepted in one duty cycle.
const NEWCOMERS_MAX: usize = 16;
/// The poll interval of the sockets while there are clients.
const LOOK_INTERVAL: Nanos = Nanos(1_000_000);

/// The parts of a [`SnapshotAgent`].
pub struct SnapshotParts {
    /// The partition and its events.
    pub events: EventPublisherParts,
    /// The non-blocking listener for clients.
    pub listener: TcpListener,
    /// The accepted logins.
    pub access: Access,
    /// The limits on concurrent clients.
    pub limits: SnapshotLimits,
    /// The maximum duration of a client's connection.
    pub timeout: Nanos,
    /// The interval at which an idle agent looks for events.
    pub look_interval: Nanos,
    /// Counters for other threads.
    pub figures: Arc<SnapshotFigures>,
}

/// The limits on concurrent clients. Those of a host count whether or not they have logged in, as
/// a login proves nothing where every name is accepted.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotLimits {
    /// Clients in all.
    pub clients_max: usize,
    /// Clients of one host.
    pub per_address_max: usize,
}

/// A client, its number, and the address of its host.
struct Seat {
    number: u64,
    host: IpAddr,
    client: Client,
}

/// A snapshot as packets, with its session and next sequence number.
struct Taken {
    session: MoldSession,
    next: u64,
    packets: Arc<Vec<u8>>,
}

/// Serves snapshots of the market.
pub struct SnapshotAgent {
    events: EventPublisher,
    numbers: Numbers,
    is_live: bool,
    listener: TcpListener,
    access: Access,
    clients: Vec<Seat>,
    /// The number of the next client.
    next_client: u64,
    /// The clients that have not logged in.
    strangers: Strangers<u64>,
    limits: SnapshotLimits,
    timeout: Nanos,
    look_interval: Nanos,
    /// The last snapshot, kept while a client uses it.
    taken: Option<Taken>,
    figures: Arc<SnapshotFigures>,
}

impl SnapshotAgent {
    /// Creates an agent that has read no events yet.
    #[must_use]
    pub fn new(parts: SnapshotParts) -> SnapshotAgent {
        let SnapshotParts { listener, access, limits, timeout, figures, .. } = parts;
        let (events, numbers) = EventPublisher::new(parts.events);
        SnapshotAgent {
            events,
            numbers,
            is_live: false,
            listener,
            access,
            clients: Vec::with_capacity(limits.clients_max),
            next_client: 0,
            strangers: Strangers::default(),
            limits,
            timeout,
            look_interval: parts.look_interval.max(LOOK_INTERVAL),
            taken: None,
            figures,
        }
    }

    /// Reads at most [`EVENTS_MAX`] events.
    fn publish_next(&mut self, now: Nanos) -> usize {
        let session = self.numbers.session;
        let mut count = 0;
        while count < EVENTS_MAX {
            match self.events.publish_next(&mut self.numbers) {
                ReadOutcome::Event { .. } => count += 1,
                ReadOutcome::UpToDate => {
                    self.is_live = self.events.is_live();
                    break;
                }
            }
        }
        if self.numbers.session != session {
            // Their snapshots belong to a session that is over.
            self.clients.iter_mut().for_each(|seat| seat.client.cut_off(now));
        }
        self.figures.counters.is_live.store(self.is_live, Ordering::Relaxed);
        count
    }

    /// Accepts new connections.
    fn welcome(&mut self, now: Nanos) -> usize {
        for count in 0..NEWCOMERS_MAX {
            let (stream, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return count,
                // The peer gave up, or descriptors ran out: retried in the next duty cycle.
                Err(_) => return count,
            };
            let room = room_beside(stream.as_fd());
            if !self.make_place(peer, room) || room == DescriptorRoom::None {
                self.figures.note(RemovalReason::NoRoom);
                continue;
            }
            if let Ok(client) = Client::new(stream, now) {
                let (number, host) = (self.next_client, host_of(peer.ip()));
                self.next_client += 1;
                self.strangers.enter(number, host);
                self.clients.push(Seat { number, host, client });
            }
        }
        NEWCOMERS_MAX
    }

    /// Makes place for a newcomer: a client that has not logged in leaves where a limit is reached
    /// or descriptors are short. Returns false if no client can leave for a limit.
    fn make_place(&mut self, peer: SocketAddr, room: DescriptorRoom) -> bool {
        let host = host_of(peer.ip());
        let of_host = self.clients.iter().filter(|seat| seat.host == host).count();
        let leaves = if of_host >= self.limits.per_address_max {
            self.strangers.oldest_of(host)
        } else if self.clients.len() >= self.limits.clients_max {
            self.strangers.oldest_of_the_largest_crowd()
        } else {
            let displaced = (room != DescriptorRoom::Plenty)
                .then(|| self.strangers.oldest_of_the_largest_crowd());
            let at = displaced.flatten().and_then(|stranger| self.seat_of(stranger));
            at.into_iter().for_each(|at| self.remove(at, RemovalReason::Displaced));
            return true;
        };
        let Some(at) = leaves.and_then(|leaves| self.seat_of(leaves)) else { return false };
        self.remove(at, RemovalReason::Displaced);
        true
    }

    fn seat_of(&self, number: u64) -> Option<usize> {
        self.clients.iter().position(|seat| seat.number == number)
    }

    fn remove(&mut self, at: usize, left: RemovalReason) {
        self.figures.note(left);
        let seat = self.clients.swap_remove(at);
        self.strangers.leave(seat.number);
    }

    /// Does the work that is possible for each client.
    fn serve(&mut self, now: Nanos) -> usize {
        let mut done = 0;
        let mut at = 0;
        while at < self.clients.len() {
            let session = self.numbers.session.filter(|_| self.is_live);
            let Seat { number, client, .. } = &mut self.clients[at];
            match client.work(&self.access, session, now, self.timeout) {
                Ok(CycleOutcome::Did(count)) => {
                    done += count;
                    at += 1;
                }
                Ok(CycleOutcome::LoggedIn) => {
                    done += 1;
                    self.strangers.leave(*number);
                    if let Some(session) = session {
                        let packets = self.take_snapshot(session);
                        self.clients[at].client.give(session, packets, now);
                    }
                }
                Err(left) => {
                    done += 1;
                    self.remove(at, left);
                }
            }
        }
        self.taken.take_if(|taken| Arc::strong_count(&taken.packets) == 1);
        self.figures.counters.clients.store(self.clients.len() as u64, Ordering::Relaxed);
        done
    }

    /// Takes a snapshot of the current state, or returns the last one if nothing has changed since.
    fn take_snapshot(&mut self, session: MoldSession) -> Arc<Vec<u8>> {
        let next = self.numbers.next;
        if let Some(taken) = &self.taken
            && (taken.session, taken.next) == (session, next)
        {
            return taken.packets.clone();
        }
        let mut packets = Vec::new();
        put_snapshot(self.events.publication(), next, &mut packets);
        self.figures.counters.taken.fetch_add(1, Ordering::Relaxed);
        self.figures.counters.last_bytes.store(packets.len() as u64, Ordering::Relaxed);
        let packets = Arc::new(packets);
        self.taken = Some(Taken { session, next, packets: packets.clone() });
        packets
    }
}

impl Agent for SnapshotAgent {
    fn name(&self) -> &'static str {
        "snapshots"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        self.publish_next(now) + self.welcome(now) + self.serve(now)
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        let interval = if self.clients.is_empty() { self.look_interval } else { LOOK_INTERVAL };
        Some(Nanos(now.0 + interval.0))
    }
}

#[cfg(test)]
mod tests;
