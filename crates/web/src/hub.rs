//! The bridge between HTTP and the delivery store: checks readers' keys and routes their pages.
//!
//! The agent follows the control log itself, so that a newly defined session can query at once. It
//! checks keys like the gateway: the same answer after the same work for any fault. To the store, a
//! reader is a connection, whose number names the door of the web.
//!
//! A reader ends with its key, as a session of the gateway does: when the key expires or is
//! replaced, or the session has another firm or role. From then on it gets no page, not even one
//! that was made before; its place is free when its connection has ended too ([`super::seats`]).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use weir_delivery::Entitlement;
use weir_door::directory::{Directory, KnownSession, Proof, SessionChange};
use weir_door::entitlement::entitlement_of;
use weir_door::reader_rings::{DeliveryPort, Fetch};
use weir_door::{ConnectionId, DoorNo};
use weir_partition::event_reader::EventReader;
use weir_runtime::{Agent, Wake};
use weir_types::{Nanos, Reason, SessionId, WallOffset};
use weir_wire::reference::DefineInstrument;
use weir_wire::session::ApiKey;
use weir_wire::{Definition, Event};

use super::ending::takes_rights;
use super::http::HttpFigures;
use super::scales::Scales;
use super::seats::{ReaderLimits, Seat, Seats};
use super::{WebFigures, add_one};
use crate::plant::{self, Plant};

/// The maximum number of subscriptions of one WebSocket, and so of a reader's queries at the store.
pub const SUBSCRIPTIONS_MAX: usize = 16;
/// The capacity of the channel to the agent, in requests.
const REQUESTS_MAX: usize = 1_024;
/// The number of requests taken in one cycle.
const TAKE_MAX: usize = 256;
/// The interval in nanoseconds at which the control log is polled without requests, and at which
/// readers whose key has expired are ended.
const LOOK_INTERVAL: u64 = 20_000_000;

enum Request {
    Enter { session_id: SessionId, key: ApiKey, reply: oneshot::Sender<Result<Reader, Reason>> },
    Ask(Box<Fetch>),
}

/// A handle to the agent; may be cloned freely.
#[derive(Clone)]
pub struct Hub {
    requests: mpsc::Sender<Request>,
    /// Readers that were dropped. This has no limit of its own: each reader says it once.
    left: mpsc::UnboundedSender<ConnectionId>,
    wake: Wake,
    /// The counters.
    pub figures: Arc<WebFigures>,
    /// Its HTTP connections.
    pub http: Arc<HttpFigures>,
    /// The bounds of readers.
    pub(super) limits: ReaderLimits,
    /// The scales of prices and quantities.
    pub scales: Arc<Scales>,
}

/// An authenticated session that may query. The store forgets it when it is dropped.
pub struct Reader {
    /// The session.
    pub session_id: SessionId,
    connection: ConnectionId,
    entitlement: Entitlement,
    pages: mpsc::Receiver<Vec<u8>>,
    /// The reason for its end, set before the channel of pages is closed.
    end: watch::Receiver<Option<Reason>>,
    place: Seat,
    hub: Hub,
}

impl Hub {
    /// Authenticates a reader by a session's key.
    ///
    /// # Errors
    /// [`Reason::UnknownKey`], [`Reason::KeyExpired`], [`Reason::NotEntitled`] for a session
    /// without entitlement, [`Reason::LimitReached`] when the session has too many readers,
    /// [`Reason::Overloaded`] when there are too many or the agent does not answer in time,
    /// [`Reason::Stopping`].
    pub async fn enter(&self, session_id: SessionId, key: ApiKey) -> Result<Reader, Reason> {
        let (reply, answer) = oneshot::channel();
        let entered = async {
            self.send(Request::Enter { session_id, key, reply }).await?;
            answer.await.unwrap_or(Err(Reason::Stopping))
        };
        in_time(self.limits.entry_max, entered).await
    }

    async fn send(&self, request: Request) -> Result<(), Reason> {
        self.requests.send(request).await.map_err(|_| Reason::Stopping)?;
        self.wake.wake();
        Ok(())
    }
}

/// The end of a WebSocket without a subscription that made place for a newcomer.
const MADE_PLACE: Reason = Reason::Overloaded;

/// Waits for a part of the node; [`Reason::Overloaded`] if it does not answer in time.
pub(super) async fn in_time<T>(
    time_max: Duration,
    answer: impl Future<Output = Result<T, Reason>>,
) -> Result<T, Reason> {
    tokio::time::timeout(time_max, answer).await.unwrap_or(Err(Reason::Overloaded))
}

impl Reader {
    /// Notes whether it is a WebSocket without a subscription, which makes place for newcomers.
    pub fn set_idle(&self, is_idle: bool) {
        self.place.set_idle(is_idle);
    }

    /// Sends a query. At most [`SUBSCRIPTIONS_MAX`] queries may be without a page.
    ///
    /// # Errors
    /// The reason for the reader's end, as [`Reader::next_page`]; [`Reason::Overloaded`].
    pub async fn ask(
        &self,
        fetch: weir_wire::delivery::FetchOrders,
        token: Vec<u8>,
        min_token: Vec<u8>,
    ) -> Result<(), Reason> {
        if let Some(reason) = self.end() {
            return Err(reason);
        }
        let (connection, entitlement) = (self.connection, self.entitlement);
        let fetch = Box::new(Fetch { connection, fetch, token, min_token, entitlement });
        in_time(self.hub.limits.entry_max, self.hub.send(Request::Ask(fetch))).await
    }

    /// Returns the next page's frames. Cancel-safe.
    ///
    /// # Errors
    /// The reason for the reader's end: [`Reason::KeyExpired`], [`Reason::KeyReplaced`],
    /// [`Reason::NotEntitled`] when its session has another firm or role, [`Reason::Stopping`].
    pub async fn next_page(&mut self) -> Result<Vec<u8>, Reason> {
        let page = self.pages.recv().await;
        // A page that was made before the end is not the reader's any more.
        match self.end() {
            Some(reason) => Err(reason),
            None => page.ok_or(Reason::Stopping),
        }
    }

    /// Returns true when [`Reader::next_page`] would return at once.
    pub fn has_page(&self) -> bool {
        !self.pages.is_empty()
    }

    /// Returns the reason for its end, once it has ended.
    pub fn end(&self) -> Option<Reason> {
        *self.end.borrow()
    }

    /// Waits until its key or its rights are taken, or its place, so that it counts no more: a
    /// message that is half written is not completed then. Cancel-safe.
    pub async fn is_cut_off(&mut self) {
        let cuts = |reason| takes_rights(reason) || reason == MADE_PLACE;
        let is_cut = self.end.wait_for(|end| end.is_some_and(cuts)).await.is_ok();
        if !is_cut {
            // The agent has dropped it for another reason, which is no end of its data.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // It fails when the agent has ended, and all places with it.
        let _ = self.hub.left.send(self.connection);
        self.hub.wake.wake();
    }
}

/// The parts of the agent.
pub struct HubParts {
    /// The store's rings.
    pub delivery: DeliveryPort,
    /// The control partition's events, from the oldest.
    pub control: EventReader,
    /// Returns all instruments whenever one of them has changed: later changes of an instrument are
    /// not in the control log.
    pub instruments: Box<dyn FnMut() -> Option<Vec<DefineInstrument>> + Send>,
    /// The directory of sessions; the gateway's, as of the start.
    pub directory: Directory,
    /// Wakes the agent's thread.
    pub wake: Wake,
    /// The bounds of readers.
    pub limits: ReaderLimits,
}

struct Guest {
    session_id: SessionId,
    /// The definition of its session by which it was let in, with the key's newest expiry.
    known: KnownSession,
    pages: mpsc::Sender<Vec<u8>>,
    end: watch::Sender<Option<Reason>>,
}

impl Guest {
    /// Tells the reader of its end. The first reason stands.
    fn end(&self, reason: Reason) {
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            end.get_or_insert(reason);
            is_first
        });
    }
}

/// The agent between HTTP and the delivery store.
pub struct HubAgent {
    requests: mpsc::Receiver<Request>,
    left: mpsc::UnboundedReceiver<ConnectionId>,
    hub: Hub,
    guests: HashMap<ConnectionId, Guest>,
    /// The expiry of the guests' keys, of those that expire.
    expiries: BTreeSet<(Nanos, ConnectionId)>,
    next_reader: u64,
    places: Arc<Seats>,
    delivery: DeliveryPort,
    control: EventReader,
    instruments: Box<dyn FnMut() -> Option<Vec<DefineInstrument>> + Send>,
    record: Vec<u8>,
    directory: Directory,
    /// A query for which the store had no room.
    waiting: Option<Box<Fetch>>,
}

impl HubAgent {
    /// Returns an agent and a handle to it.
    #[must_use]
    pub fn new(parts: HubParts) -> (HubAgent, Hub) {
        let (to_agent, requests) = mpsc::channel(REQUESTS_MAX);
        let (leave, left) = mpsc::unbounded_channel();
        let figures = Arc::new(WebFigures::default());
        let scales = Arc::new(Scales::default());
        let hub = Hub {
            requests: to_agent,
            left: leave,
            wake: parts.wake,
            figures,
            http: Arc::new(HttpFigures::default()),
            limits: parts.limits,
            scales,
        };
        let agent = HubAgent {
            requests,
            left,
            hub: hub.clone(),
            guests: HashMap::new(),
            expiries: BTreeSet::new(),
            next_reader: 0,
            places: Seats::new(parts.limits),
            delivery: parts.delivery,
            control: parts.control,
            instruments: parts.instruments,
            record: Vec::with_capacity(512),
            directory: parts.directory,
            waiting: None,
        };
        (agent, hub)
    }

    /// Applies the control log's definitions of sessions and instruments, and changes of those;
    /// returns their number.
    fn follow(&mut self) -> usize {
        let mut taken = 0;
        while self.control.next_of_any_epoch(&mut self.record).is_some() {
            taken += 1;
            let event = Event::decode(&self.record).expect("the event log holds our own records");
            let Event::Defined(_, definition) = event else { continue };
            if let Definition::DefineInstrument(instrument) = &definition {
                self.hub.scales.define_new(instrument);
            }
            let Definition::DefineSession(_) = definition else { continue };
            if let Some(redefined) = self.directory.define(&definition) {
                self.redefine(&redefined);
            }
        }
        let changed = (self.instruments)().unwrap_or_default();
        changed.iter().for_each(|instrument| self.hub.scales.define(instrument));
        taken + changed.len()
    }

    /// Applies a session's new definition to its readers, and ends those that it takes the key or
    /// the rights from.
    fn redefine(&mut self, redefined: &SessionChange) {
        let SessionChange { session_id, known, .. } = *redefined;
        let of_session =
            |(id, guest): (&ConnectionId, &Guest)| (guest.session_id == session_id).then_some(*id);
        let ids: Vec<ConnectionId> = self.guests.iter().filter_map(of_session).collect();
        for id in ids {
            let guest = self.guests.get_mut(&id).expect("listed above");
            let before = guest.known;
            guest.known.valid_until = known.valid_until;
            self.expiries.remove(&(before.valid_until, id));
            if known.valid_until != Nanos(0) {
                self.expiries.insert((known.valid_until, id));
            }
            if let Some(reason) = redefined.reason_to_end(before.firm_id, before.role) {
                self.end(id, reason);
            }
        }
    }

    /// Ends the readers whose key has expired; returns their number.
    fn end_expired(&mut self, now: Nanos) -> usize {
        if plant::is(Plant::ReaderOutlivesItsKey) {
            return 0;
        }
        let (mut ended, wall) = (0, self.directory.wall_at(now));
        while let Some((valid_until, id)) = self.expiries.first().copied()
            && KnownSession::is_over(valid_until, wall)
        {
            self.end(id, Reason::KeyExpired);
            ended += 1;
        }
        ended
    }

    /// Ends a reader: it is told the reason, and gets no page from now on. Its place is its
    /// connection's until that has ended too.
    fn end(&mut self, id: ConnectionId, reason: Reason) {
        if let Some(guest) = self.guests.get(&id) {
            guest.end(reason);
        }
        if takes_rights(reason) {
            add_one(&self.hub.figures.keys_ended);
            if plant::is(Plant::PlaceLeftWithTheKey) {
                self.places.leave_early(id);
            }
        }
        self.forget(id);
    }

    fn forget(&mut self, id: ConnectionId) {
        if let Some(guest) = self.guests.remove(&id) {
            self.expiries.remove(&(guest.known.valid_until, id));
            self.delivery.connection_is_gone(id);
        }
    }

    fn take_requests(&mut self, now: Nanos) -> usize {
        let mut taken = 0;
        while let Ok(id) = self.left.try_recv() {
            self.forget(id);
            taken += 1;
        }
        while taken < TAKE_MAX {
            if let Some(fetch) = self.waiting.take()
                && !self.ask(fetch)
            {
                return taken;
            }
            let Ok(request) = self.requests.try_recv() else { break };
            taken += 1;
            match request {
                Request::Enter { session_id, key, reply } => {
                    let entered = self.enter(session_id, &key, now);
                    // If the requester has left meanwhile, the reader in the reply is dropped and
                    // so removed.
                    drop(reply.send(entered));
                }
                Request::Ask(fetch) => {
                    self.waiting = Some(fetch);
                }
            }
        }
        taken
    }

    /// Passes a query on; false when it has to wait.
    fn ask(&mut self, fetch: Box<Fetch>) -> bool {
        if !self.guests.contains_key(&fetch.connection) {
            return true;
        }
        if !self.delivery.has_room() {
            self.waiting = Some(fetch);
            return false;
        }
        self.delivery.fetch(fetch)
    }

    fn enter(&mut self, id: SessionId, key: &ApiKey, now: Nanos) -> Result<Reader, Reason> {
        // Definitions that precede this request are applied first.
        self.follow();
        let known = self.directory.authenticate(id, Proof::ApiKey(key), now);
        let figures = self.hub.figures.clone();
        let known = known.inspect_err(|_| add_one(&figures.keys_refused))?;
        let Some(entitlement) = entitlement_of(known.role, known.firm_id) else {
            add_one(&figures.asks_refused);
            return Err(Reason::NotEntitled);
        };
        let connection = ConnectionId::at(DoorNo::WEB, self.next_reader);
        self.next_reader += 1;
        let taken = self.places.take(connection, id).inspect_err(|reason| match reason {
            Reason::LimitReached => add_one(&figures.session_bounded),
            _ => add_one(&figures.turned_away),
        });
        let (place, leaving) = taken?;
        if let Some(leaving) = leaving {
            add_one(&figures.sockets_evicted);
            self.end(leaving, MADE_PLACE);
        }
        add_one(&figures.entered);
        let (to_reader, pages) = mpsc::channel(SUBSCRIPTIONS_MAX + 1);
        let (to_end, end) = watch::channel(None);
        let guest = Guest { session_id: id, known, pages: to_reader, end: to_end };
        self.guests.insert(connection, guest);
        if known.valid_until != Nanos(0) {
            self.expiries.insert((known.valid_until, connection));
        }
        let hub = self.hub.clone();
        Ok(Reader { session_id: id, connection, entitlement, pages, end, place, hub })
    }

    fn take_pages(&mut self) -> usize {
        let mut taken = 0;
        while let Some(pages) = self.delivery.next_pages() {
            taken += 1;
            // Definitions that precede a page's rows are applied first.
            self.follow();
            let Some(guest) = self.guests.get(&pages.connection) else { continue };
            // A reader has one page per query and room for as many: a full channel is of one that
            // takes nothing, a closed one of one that has gone.
            if guest.pages.try_send(pages.bytes).is_err() {
                self.end(pages.connection, Reason::SlowConsumer);
            } else {
                add_one(&self.hub.figures.pages);
            }
        }
        taken
    }
}

impl Agent for HubAgent {
    fn name(&self) -> &'static str {
        "web-readers"
    }

    fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.directory.wall_clock_moved(wall);
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        let mut done = self.follow() + self.end_expired(now);
        done += self.take_requests(now) + self.take_pages();
        self.delivery.wake_if_asked();
        self.hub.figures.readers.store(self.places.count() as u64, Ordering::Relaxed);
        done
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        // A query that waits for room is retried soon.
        let wait = if self.waiting.is_some() { 500_000 } else { LOOK_INTERVAL };
        Some(Nanos(now.0 + wait))
    }

    fn stop(&mut self, _now: Nanos) -> bool {
        for guest in self.guests.values() {
            guest.end(Reason::Stopping);
        }
        self.guests.clear();
        self.requests.close();
        true
    }
}

#[cfg(test)]
mod tests;
