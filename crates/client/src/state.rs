//! Order state across losses of the connection: any number of followers on one session, together
//! with the session's own orders.
//!
//! [`StateClient::poll`] is its duty cycle and blocks no longer than its timeout, except to
//! connect. It starts no thread and reconnects automatically after a loss, with growing, randomised
//! pauses ([`Backoff`]); each follower then resumes from its token and the session from its last
//! event, so that nothing is skipped.
//!
//! A follower whose pages are not consumed is put on [`StateClient::hold`]: its next fetch waits
//! here, and the node keeps its place at no cost to others.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_types::{Nanos, PartitionId, Reason, SessionId};
use weir_wire::Request;
use weir_wire::delivery::{OrderPage, OrderPageBody, SourceState};
use weir_wire::rows::Rows;

use crate::client::{Client, Incoming};
use crate::clock::Clock;
use crate::connection::{Limits, Target};
use crate::error::ClientError;
use crate::follower::{Follower, FollowerConfig, PageEvent};
use crate::session::{Session, SessionConfig, SessionEvent, Submit, Times};
use crate::source::Backoff;

/// The timeout of a logon.
const LOGON_TIME: Duration = Duration::from_secs(5);

/// An event of a state client.
#[derive(Debug)]
pub enum StateEvent<'a> {
    /// The session is open on a connection, for the first time or again.
    Connected,
    /// A page whose rows are decoded; the next fetch is already sent, or held.
    Page {
        /// The follower's handle.
        handle: u32,
        /// Its header.
        head: &'a OrderPage,
        /// The next token.
        token: &'a [u8],
        /// Its rows, complete and in order.
        rows: Rows<'a>,
        /// The status of the sources, if a router reported it; empty when all answer.
        sources: &'a [SourceState],
    },
    /// The token was refused: all state is void, and comes again from `token` on.
    Resync {
        /// The follower's handle.
        handle: u32,
        /// The reason.
        reason: Reason,
        /// The oldest legal token.
        token: &'a [u8],
    },
    /// The follower has ended: its fetch would be refused again, or a page was invalid.
    Ended {
        /// The follower's handle.
        handle: u32,
        /// The cause.
        error: ClientError,
    },
    /// An event of the session's own orders.
    Session(Box<SessionEvent>),
}

#[derive(Debug)]
struct Following {
    follower: Follower,
    /// The header of the page whose rows are due.
    head: Option<OrderPage>,
    /// Fetches to be sent after the release.
    held: Vec<u8>,
    is_held: bool,
}

/// A client with one session, its followers and its orders.
#[derive(Debug)]
pub struct StateClient {
    target: Target,
    session: SessionConfig,
    client: Option<Client>,
    /// True when the connection of `client` has failed.
    is_lost: bool,
    /// True once another connection has taken the session over: no connection is made any more.
    is_taken_over: bool,
    followings: BTreeMap<u32, Following>,
    last_handle: u32,
    clock: Clock,
    backoff: Backoff,
    failure: Option<ClientError>,
    connection_count: u64,
}

impl StateClient {
    /// Creates a client without a connection; the first [`StateClient::poll`] connects.
    #[must_use]
    pub fn new(target: impl Into<Target>, session: SessionConfig) -> StateClient {
        StateClient {
            target: target.into(),
            session,
            client: None,
            is_lost: false,
            is_taken_over: false,
            followings: BTreeMap::new(),
            last_handle: 0,
            clock: Clock::default(),
            backoff: Backoff::new(Backoff::seed()),
            failure: None,
            connection_count: 0,
        }
    }

    /// Connects now.
    ///
    /// # Errors
    /// Any error that keeps the session from being open, including temporary ones; a takeover as
    /// in [`StateClient::poll`].
    pub fn connect(&mut self, sink: &mut dyn FnMut(StateEvent<'_>)) -> Result<(), ClientError> {
        self.check_not_taken_over()?;
        self.open(sink).inspect_err(|error| {
            self.is_taken_over = error.is_taken_over();
            self.backoff.failed(self.clock.now());
        })
    }

    /// Follows order state from a token on, now and after each loss; returns the handle that
    /// identifies its events. Sets [`FollowerConfig::session_id`] and
    /// [`FollowerConfig::follower_no`].
    pub fn follow(&mut self, config: FollowerConfig, token: Vec<u8>) -> u32 {
        self.follow_from(config, token, Vec::new(), 0)
    }

    /// As [`StateClient::follow`], with a minimum token and the time allowed in microseconds: see
    /// [`Follower::require`].
    pub fn follow_from(
        &mut self,
        config: FollowerConfig,
        token: Vec<u8>,
        min_token: Vec<u8>,
        wait_us: u32,
    ) -> u32 {
        self.last_handle += 1;
        let handle = self.last_handle;
        let session_id = self.session.session_id;
        let config = FollowerConfig { session_id, follower_no: handle, ..config };
        let mut follower = Follower::new(config, token);
        follower.require(min_token, wait_us);
        if let (Some(client), false) = (&mut self.client, self.is_lost) {
            follower.ask(client.outbox());
        }
        let (head, held) = (None, Vec::new());
        self.followings.insert(handle, Following { follower, head, held, is_held: false });
        handle
    }

    /// Ends a follower and cancels its fetch.
    pub fn unfollow(&mut self, handle: u32) {
        let Some(following) = self.followings.remove(&handle) else { return };
        if let (Some(client), false) = (&mut self.client, self.is_lost) {
            following.follower.put_cancel(client.outbox());
        }
    }

    /// Holds a follower's fetches until [`StateClient::release`].
    pub fn hold(&mut self, handle: u32) {
        if let Some(following) = self.followings.get_mut(&handle) {
            following.is_held = true;
        }
    }

    /// Sends the fetches that were held.
    pub fn release(&mut self, handle: u32) {
        let Some(following) = self.followings.get_mut(&handle) else { return };
        following.is_held = false;
        if let (Some(client), false) = (&mut self.client, self.is_lost) {
            client.outbox().append(&mut following.held);
        }
    }

    /// The token of all rows that a follower has delivered.
    #[must_use]
    pub fn token(&self, handle: u32) -> Option<&[u8]> {
        self.followings.get(&handle).map(|following| following.follower.token())
    }

    /// Submits a request to the session; the next [`StateClient::poll`] sends it.
    pub fn submit(&mut self, partition_id: PartitionId, request: Request) -> Submit {
        match (&mut self.client, self.is_lost) {
            (Some(client), false) => {
                client.submit(self.session.session_id, partition_id, request, Times::default())
            }
            _ => Submit::NotOpen,
        }
    }

    /// Sends queued bytes until the socket would block. The next [`StateClient::poll`] handles an
    /// error, behind the messages that came before it.
    pub fn flush(&mut self) {
        if let (Some(client), false) = (&mut self.client, self.is_lost) {
            // Unsent bytes stay queued: the error recurs at the next poll.
            let _ = client.flush();
        }
    }

    /// The session's identifier.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.session.session_id
    }

    /// The session, once it has been open.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.client.as_ref().and_then(|client| client.session(self.session.session_id))
    }

    /// Returns the error that ended the last connection or prevented one; each is returned once.
    pub fn take_failure(&mut self) -> Option<ClientError> {
        self.failure.take()
    }

    /// The number of connections so far.
    #[must_use]
    pub fn connection_count(&self) -> u64 {
        self.connection_count
    }

    /// Connects if it is due, sends queued bytes, waits up to `timeout` for messages and passes
    /// events to `sink`. A lost connection is no error: the client reconnects, and
    /// [`StateClient::take_failure`] returns the cause.
    ///
    /// # Errors
    /// Errors that would recur: a refused logon, another history. [`ClientError::LoggedOut`] with
    /// [`Reason::TakenOver`], now and at each later call: another connection has the session, and
    /// this client makes none any more.
    pub fn poll(
        &mut self,
        timeout: Duration,
        sink: &mut dyn FnMut(StateEvent<'_>),
    ) -> Result<(), ClientError> {
        self.check_not_taken_over()?;
        let now = self.clock.now();
        if self.client.is_none() || self.is_lost {
            if let Some(left) = self.backoff.left(now) {
                std::thread::sleep(left.min(timeout));
                return Ok(());
            }
            if let Err(error) = self.open(sink) {
                return self.fail(error);
            }
        }
        let Some(client) = &mut self.client else { return Ok(()) };
        let followings = &mut self.followings;
        let mut rest = timeout;
        for following in followings.values_mut().filter(|following| !following.is_held) {
            following.follower.ask_when_due(now, client.outbox());
            rest = rest.min(following.follower.rest(now).unwrap_or(timeout));
        }
        let polled = client.poll(rest, |incoming, out| hear(followings, incoming, now, out, sink));
        match polled {
            Ok(0) => Ok(()),
            Ok(_) => {
                self.backoff.succeeded();
                Ok(())
            }
            Err(error) => self.fail(error),
        }
    }

    /// Closes the session and the connection; messages received meanwhile are dropped.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn close(&mut self, timeout: Duration) -> Result<(), ClientError> {
        self.followings.clear();
        match (self.client.take(), self.is_lost) {
            (Some(client), false) => client.log_out(timeout),
            _ => Ok(()),
        }
    }

    fn check_not_taken_over(&self) -> Result<(), ClientError> {
        match self.is_taken_over {
            true => Err(ClientError::taken_over(self.session.session_id)),
            false => Ok(()),
        }
    }

    fn open(&mut self, sink: &mut dyn FnMut(StateEvent<'_>)) -> Result<(), ClientError> {
        let mut others = |incoming: Incoming<'_>, _: &mut Vec<u8>| {
            if let Incoming::Session(_, event) = incoming {
                sink(StateEvent::Session(Box::new(event)));
            }
        };
        match &mut self.client {
            Some(client) => client.reconnect(LOGON_TIME, &mut others)?,
            None => {
                let limits = Limits { connect_timeout: LOGON_TIME, ..Limits::default() };
                let connection = self.target.connect(limits)?;
                let mut client = Client::over(connection, self.target.clone(), limits);
                client.start_logon(Session::new(self.session));
                let opened = client.wait_until_open(LOGON_TIME, &mut others);
                opened.inspect_err(|error| self.target.pass_over_after(error))?;
                self.client = Some(client);
            }
        }
        self.is_lost = false;
        self.connection_count += 1;
        let client = self.client.as_mut().expect("it was made above");
        for following in self.followings.values_mut() {
            following.head = None;
            following.held.clear();
            let held = following.is_held;
            let out = if held { &mut following.held } else { client.outbox() };
            following.follower.ask(out);
        }
        sink(StateEvent::Connected);
        Ok(())
    }

    fn fail(&mut self, error: ClientError) -> Result<(), ClientError> {
        self.is_lost = true;
        self.is_taken_over = error.is_taken_over();
        self.backoff.failed(self.clock.now());
        if !error.is_passing() {
            return Err(error);
        }
        self.failure = Some(error);
        Ok(())
    }
}

/// Dispatches a message to its follower or the session.
fn hear(
    followings: &mut BTreeMap<u32, Following>,
    incoming: Incoming<'_>,
    now: Nanos,
    out: &mut Vec<u8>,
    sink: &mut dyn FnMut(StateEvent<'_>),
) {
    match incoming {
        Incoming::Page(page, token) => {
            let handle = handle_of(page.correlation_id);
            on_follower(followings, handle, sink, |following, sink| {
                following.page(handle, &page, token, out, sink)
            });
        }
        Incoming::Rows(body, rows) => {
            let handle = handle_of(body.correlation_id);
            on_follower(followings, handle, sink, |following, sink| {
                following.rows(handle, &body, rows, sink)
            });
        }
        Incoming::Sources(states, sources) => {
            let handle = handle_of(states.correlation_id);
            on_follower(followings, handle, sink, |following, _| {
                following.follower.on_sources(&states, sources).map(drop)
            });
        }
        Incoming::Session(_, SessionEvent::Refused { reject, answered: None }) => {
            let handle = handle_of(reject.request_no.0);
            let mut is_ours = false;
            on_follower(followings, handle, sink, |following, _| {
                is_ours = true;
                following.follower.on_reject(&reject, now).map(|ours| is_ours = ours)
            });
            if !is_ours {
                let refused = SessionEvent::Refused { reject, answered: None };
                sink(StateEvent::Session(Box::new(refused)));
            }
        }
        Incoming::Session(_, event) => sink(StateEvent::Session(Box::new(event))),
        Incoming::CopyState(_)
        | Incoming::Copy(..)
        | Incoming::CopyMark(_)
        | Incoming::Source(_)
        | Incoming::Broker(_)
        | Incoming::Market(_) => {}
    }
}

fn handle_of(correlation_id: u64) -> u32 {
    u32::try_from(correlation_id >> 32).expect("the upper half")
}

type Sink<'s> = dyn FnMut(StateEvent<'_>) + 's;

/// Handles a message for a follower; an error ends the follower.
fn on_follower(
    followings: &mut BTreeMap<u32, Following>,
    handle: u32,
    sink: &mut Sink<'_>,
    hear: impl FnOnce(&mut Following, &mut Sink<'_>) -> Result<(), ClientError>,
) {
    // A page may still come for a follower that was ended.
    let Some(following) = followings.get_mut(&handle) else { return };
    if let Err(error) = hear(following, sink) {
        followings.remove(&handle);
        sink(StateEvent::Ended { handle, error });
    }
}

impl Following {
    fn page(
        &mut self,
        handle: u32,
        page: &OrderPage,
        token: &[u8],
        out: &mut Vec<u8>,
        sink: &mut Sink<'_>,
    ) -> Result<(), ClientError> {
        let out = if self.is_held { &mut self.held } else { out };
        match self.follower.on_page(page, token, out)? {
            PageEvent::NotOurs => {}
            PageEvent::Resync(reason) => sink(StateEvent::Resync { handle, reason, token }),
            PageEvent::Page { row_count: 0, .. } => {
                let (rows, sources) = (Rows::default(), self.follower.sources());
                sink(StateEvent::Page { handle, head: page, token, rows, sources });
            }
            PageEvent::Page { .. } => self.head = Some(*page),
        }
        Ok(())
    }

    fn rows(
        &mut self,
        handle: u32,
        body: &OrderPageBody,
        rows: Rows<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), ClientError> {
        // All rows are checked before any is delivered: a page is accepted as a whole or not at
        // all.
        if !self.follower.on_rows(body, rows.clone(), |_| {})? {
            return Ok(());
        }
        let Some(head) = self.head.take() else { return Ok(()) };
        let (token, sources) = (self.follower.token(), self.follower.sources());
        sink(StateEvent::Page { handle, head: &head, token, rows, sources });
        Ok(())
    }
}
