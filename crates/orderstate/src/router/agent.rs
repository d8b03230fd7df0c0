//! The router's agent: readers on one side, nodes on the other, the router between them.
//!
//! Its cycle: the nodes' messages, the readers' queries, deadlines, output. It rests in `epoll`;
//! the sockets of its nodes, the gateway and the web server wake it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mio::{Events, Poll, Token};
use weir_delivery::{FetchOutcome, Question, Router, RouterConfig, TokenSealer};
use weir_door::ConnectionId;
use weir_door::reader_ports::{PageSender, ReaderPorts};
use weir_door::reader_rings::{DeliveryRequest, Fetch};
use weir_io::{OsRng, Rng};
use weir_runtime::{Agent, Poller, Wake};
use weir_types::{Nanos, WallOffset};

use super::config::RouterSection;
use super::figures::{BackendReport, RouterBoard, RouterReport, names_of};
use super::links::Links;
use crate::figures::DeliveryFigures;

const WAKER: Token = Token(0);
/// The token of the first node.
const FIRST: usize = 1;
/// The number of queries taken in one cycle.
const ASK_MAX: usize = 256;
/// The interval at which figures are published, in nanoseconds.
const SHOW_INTERVAL: u64 = 100_000_000;

/// The longest time that a store is not queried after faults. A store in a full resend refuses
/// queries until it is complete, and should be queried soon after.
const ASIDE_MAX: Nanos = Nanos(2_000_000_000);

/// A new configuration for the agent.
#[derive(Clone, Default)]
pub struct Reload {
    section: Arc<Mutex<Option<RouterSection>>>,
    wake: Wake,
}

impl Reload {
    /// Returns a channel to an agent whose thread `wake` wakes.
    #[must_use]
    pub fn new(wake: Wake) -> Reload {
        Reload { section: Arc::default(), wake }
    }

    /// Sends the agent another configuration.
    pub fn send(&self, section: RouterSection) {
        *self.section.lock().unwrap_or_else(PoisonError::into_inner) = Some(section);
        self.wake.wake();
    }

    fn take(&self) -> Option<RouterSection> {
        // The writer holds the lock only for a move, so this does not block.
        self.section.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The parts of the agent.
pub struct RouterParts {
    /// The nodes behind the router.
    pub section: RouterSection,
    /// The sealer, with the nodes' shared key.
    pub sealer: TokenSealer,
    /// The rings of the gateway, and of readers over HTTP where there are any.
    pub ports: ReaderPorts,
    /// The channel for later changes of the nodes.
    pub reload: Reload,
    /// Figures in the form of a store's, for other threads to read.
    pub figures: Arc<DeliveryFigures>,
    /// Figures in the form of a router's.
    pub board: Arc<RouterBoard>,
}

/// The router's agent.
pub struct RouterAgent {
    poll: Poll,
    events: Events,
    router: Router,
    links: Links,
    ports: ReaderPorts,
    /// Connections that the gateway reported as unable to take output.
    paused: Vec<ConnectionId>,
    /// Connections whose pages found the gateway's ring full.
    blocked: Vec<ConnectionId>,
    reload: Reload,
    figures: Arc<DeliveryFigures>,
    board: Arc<RouterBoard>,
    show_at: Nanos,
}

impl RouterAgent {
    /// Returns an agent without connections.
    ///
    /// # Errors
    /// When the operating system refuses a poll, a key cannot be read, or there are too many
    /// sources.
    pub fn new(parts: RouterParts) -> anyhow::Result<RouterAgent> {
        let poll = Poll::new()?;
        let config = RouterConfig {
            jitter_seed: OsRng.next_u64(),
            lag_max: parts.section.lag_max,
            aside_max: ASIDE_MAX,
            ..RouterConfig::default()
        };
        let mut router = Router::new(config, parts.sealer);
        let mut links = Links::new(poll.registry().try_clone()?, FIRST);
        links.configure(&parts.section, &mut router, Nanos(0))?;
        parts.board.is_cut_off.store(true, Ordering::Relaxed);
        Ok(RouterAgent {
            poll,
            events: Events::with_capacity(256),
            router,
            links,
            ports: parts.ports,
            paused: Vec::new(),
            blocked: Vec::new(),
            reload: parts.reload,
            figures: parts.figures,
            board: parts.board,
            show_at: Nanos(0),
        })
    }

    fn take_reload(&mut self, now: Nanos) {
        let Some(section) = self.reload.take() else { return };
        match self.links.configure(&section, &mut self.router, now) {
            Ok(()) => tracing::info!("the nodes of the new configuration are asked"),
            Err(error) => tracing::error!(%error, "the nodes of before are asked on"),
        }
    }

    fn take_requests(&mut self, now: Nanos) -> usize {
        for taken in 0..ASK_MAX {
            match self.ports.next_request() {
                None => return taken,
                Some(DeliveryRequest::Fetch(fetch)) => self.ask(&fetch, now),
                Some(DeliveryRequest::Cancel(id, cancel)) => {
                    self.router.cancel(id.0, &cancel, &mut self.links);
                }
                Some(DeliveryRequest::AddCredit(id, more)) => {
                    self.router.add_credit(id.0, &more, now);
                }
                Some(DeliveryRequest::SessionEnded(id, session_id)) => {
                    self.router.end_session(id.0, session_id, &mut self.links);
                }
                Some(DeliveryRequest::Writable(id, true)) => {
                    self.paused.retain(|paused| *paused != id);
                    self.router.resume(id.0);
                }
                Some(DeliveryRequest::Writable(id, false)) => self.paused.push(id),
                Some(DeliveryRequest::Gone(id)) => {
                    self.paused.retain(|paused| *paused != id);
                    self.router.drop_connection(id.0, &mut self.links);
                }
            }
        }
        ASK_MAX
    }

    fn ask(&mut self, fetch: &Fetch, now: Nanos) {
        let question = Question {
            connection: fetch.connection.0,
            fetch: &fetch.fetch,
            token: &fetch.token,
            min_token: &fetch.min_token,
            entitlement: fetch.entitlement,
        };
        if let FetchOutcome::Refused(reason) = self.router.ask(&question, now) {
            self.figures.counters.refused.fetch_add(1, Ordering::Relaxed);
            self.ports.refuse(fetch, reason);
        }
    }

    /// Queries nodes and serves readers; returns the amount of work done.
    fn serve(&mut self, now: Nanos) -> usize {
        for connection in std::mem::take(&mut self.blocked) {
            if self.ports.has_room(connection) {
                self.router.resume(connection.0);
            } else {
                self.blocked.push(connection);
            }
        }
        let mut sink = PageSender {
            ports: &mut self.ports,
            paused: &self.paused,
            blocked: &mut self.blocked,
            current: None,
        };
        let polled = self.router.poll(now, &mut self.links, &mut sink);
        sink.send_current();
        if polled.page_count > 0 {
            self.ports.wake_all();
        }
        self.figures.counters.pages.fetch_add(u64::from(polled.page_count), Ordering::Relaxed);
        self.figures.counters.rows.fetch_add(u64::from(polled.row_count), Ordering::Relaxed);
        polled.page_count as usize + usize::from(polled.has_more)
    }

    fn show(&mut self, now: Nanos) {
        if now < self.show_at {
            return;
        }
        self.show_at = Nanos(now.0 + SHOW_INTERVAL);
        let reader_count = self.router.reader_count();
        self.figures.counters.parked.store(reader_count as u64, Ordering::Relaxed);
        let mut report = RouterReport::of(self.router.figures(), reader_count);
        for link in self.links.iter() {
            let states = self.router.backends();
            for (_, state) in states.filter(|(id, _)| link.stores.iter().any(|(_, own)| own == id))
            {
                let (role, health) = names_of(&state);
                report.add(BackendReport {
                    source: state.info.source.0,
                    address: link.section.address.to_string(),
                    role,
                    indexed: state.info.is_indexed,
                    link: link.phase.name(),
                    health,
                    epoch: state.epoch.map_or(0, |epoch| epoch.0),
                    head_seq: state.head.seq.0,
                    lag: if state.epoch.is_some() { state.lag } else { 0 },
                    asked: state.asked_count.into(),
                    faults: state.fault_count.into(),
                    last_fault: state.last_fault.map(|fault| fault.to_string()),
                    connects: link.up_count,
                    losses: link.end_count,
                    last_loss: link.last_end.as_ref().map(ToString::to_string),
                });
            }
        }
        report.sort();
        self.board.show(report);
    }
}

impl Agent for RouterAgent {
    fn name(&self) -> &'static str {
        "router"
    }

    fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.router.wall_clock_moved(wall);
        self.links.wall_clock_moved(wall);
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        self.take_reload(now);
        self.links.care(&mut self.router, now);
        let heard = self.links.read(&mut self.router, now);
        let asked = self.take_requests(now);
        let served = self.serve(now);
        self.links.flush(&mut self.router, now);
        self.show(now);
        heard + asked + served
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        let ours = self.links.next_deadline().min(self.show_at);
        let next = self.router.next_deadline().map_or(ours, |deadline| deadline.min(ours));
        let is_blocked = !self.blocked.is_empty() || self.ports.has_waiting();
        let blocked = if is_blocked { now.0 + 500_000 } else { u64::MAX };
        Some(next.min(Nanos(blocked)).max(now))
    }

    fn stop(&mut self, now: Nanos) -> bool {
        self.links.say_farewell(now);
        true
    }
}

impl Poller for RouterAgent {
    fn poll(&mut self, timeout: Option<Duration>) {
        if let Err(error) = self.poll.poll(&mut self.events, timeout) {
            let interrupted = error.kind() == std::io::ErrorKind::Interrupted;
            assert!(interrupted, "the router's poll failed: {error}");
            return;
        }
        for event in &self.events {
            if event.token() != WAKER {
                self.links.on_event(event);
            }
        }
    }

    fn waker(&self) -> std::io::Result<weir_io::net::Waker> {
        Ok(mio::Waker::new(self.poll.registry(), WAKER)?.into())
    }
}
