//! All connections to nodes: queries out, pages in, and the links' states.
//!
//! ```text
//! a link                    | becomes when
//! --------------------------+---------------------------------------------------------------
//! resting                   | connecting, once its rest is over: it doubles with each failure
//! connecting, logging on    | up, when the node opens the session; resting after 5 s
//! up                        | resting, when the connection ends, is silent, or breaks the
//!                           | protocol; its stores are down then for the router
//! ```

use std::collections::{BTreeSet, HashMap};

use mio::event::Event;
use mio::{Registry, Token};
use weir_delivery::router::BackendFault;
use weir_delivery::token::TOKEN_SOURCES_MAX;
use weir_delivery::{
    BackendId, BackendInfo, BackendPort, BackendRequest, Entitlement, FetchOutcome, Router,
};
use weir_types::{Nanos, PartitionId, Reason, WallOffset};
use weir_wire::delivery::{CancelFetch, FetchOrders, OrderPage, OrderPageBody, SourceStates};
use weir_wire::dialogue::{Tokens, put_question};
use weir_wire::frame::{Framing, RawMessage, next_frame, put_frame};
use weir_wire::session::{Challenge, Heartbeat, LogonAck, LogonReject, Logout, Reject};
use weir_wire::{Message, NodeMessage};

use super::config::RouterSection;
use super::link::{Link, LinkEnd, Phase, Scratch};

/// The longest frame of a node: a page's rows.
const FRAME_LEN_MAX: usize = 16 << 20;
/// The interval at which deadlines are checked, in nanoseconds.
const CARE_INTERVAL: u64 = 20_000_000;

/// All links.
pub(super) struct Links {
    registry: Registry,
    /// The token of the first link.
    first_token: usize,
    slots: Vec<Option<Link>>,
    /// The slot of each store's link.
    by_backend: HashMap<BackendId, usize>,
    /// All sources that were ever behind the router.
    sources: BTreeSet<u16>,
    scratch: Scratch,
    probe_interval: u64,
    next_probe: Nanos,
    next_care: Nanos,
    /// The wall clock, for the times in messages.
    wall: WallOffset,
}

/// A frame that answers a query.
struct Answer<'a> {
    correlation_id: u64,
    /// True when no further frame answers the query.
    is_last: bool,
    frame: &'a [u8],
}

impl Links {
    pub(super) fn new(registry: Registry, first_token: usize) -> Links {
        Links {
            registry,
            first_token,
            slots: Vec::new(),
            by_backend: HashMap::new(),
            sources: BTreeSet::new(),
            scratch: Scratch::new(),
            probe_interval: 0,
            next_probe: Nanos(0),
            next_care: Nanos(0),
            wall: WallOffset::default(),
        }
    }

    /// Notes the distance of the wall clock.
    pub(super) fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.wall = wall;
    }

    /// Applies a configuration. Links that it still has stay, and use the keys now on disk from the
    /// next connection on; others end or begin. A source without any store is then unavailable.
    ///
    /// # Errors
    /// When a key cannot be read or there are too many sources; nothing has changed then.
    pub(super) fn configure(
        &mut self,
        section: &RouterSection,
        router: &mut Router,
        now: Nanos,
    ) -> anyhow::Result<()> {
        let fresh = section.backends.iter();
        let fresh = fresh.map(|backend| Link::new(backend.clone(), section.heartbeat_ms));
        let fresh: Vec<Link> = fresh.collect::<anyhow::Result<_>>()?;
        // Sources are never removed: readers keep their cursors in them.
        let mut sources = self.sources.clone();
        sources.extend(section.backends.iter().flat_map(|backend| &backend.sources));
        anyhow::ensure!(
            sources.len() <= TOKEN_SOURCES_MAX,
            "{} sources with those since the start, where a token can name {TOKEN_SOURCES_MAX}",
            sources.len()
        );
        self.sources = sources;
        self.probe_interval = section.probe_ms * 1_000_000;
        for index in 0..self.slots.len() {
            let Some(link) = &self.slots[index] else { continue };
            if !section.backends.contains(&link.section) {
                self.remove(index, router, now);
            }
        }
        for link in fresh {
            let mut known = self.slots.iter_mut().flatten();
            match known.find(|known| known.section == link.section) {
                Some(known) => known.take_keys_of(link),
                None => self.add(link, router)?,
            }
        }
        Ok(())
    }

    fn remove(&mut self, index: usize, router: &mut Router, now: Nanos) {
        let link = self.link(index);
        link.say_farewell(now);
        tracing::info!(node = %link.section.address, "not asked any more");
        self.end(index, LinkEnd::Removed, router, now);
        let link = self.slots[index].take().expect("it is there");
        for (_, id) in link.stores {
            router.remove_backend(id);
            self.by_backend.remove(&id);
        }
    }

    fn add(&mut self, mut link: Link, router: &mut Router) -> anyhow::Result<()> {
        let slot = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        for source in &link.section.sources {
            let info = BackendInfo {
                source: PartitionId(*source),
                role: link.section.role.of_backend(),
                is_indexed: link.section.indexed,
                // The router's own session, which is entitled to all rows.
                entitlement: Some(Entitlement::all()),
            };
            let id = router.add_backend(info)?;
            link.stores.push((info.source, id));
            self.by_backend.insert(id, slot);
        }
        tracing::info!(node = %link.section.address, sources = ?link.section.sources, "asked");
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(link);
        Ok(())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.slots.iter().flatten()
    }

    /// Records a socket's readiness.
    pub(super) fn on_event(&mut self, event: &Event) {
        let slot = event.token().0 - self.first_token;
        if let Some(Some(link)) = self.slots.get_mut(slot) {
            link.on_event(event);
        }
    }

    /// Reads each link and passes its messages to the router; returns the amount of work done.
    pub(super) fn read(&mut self, router: &mut Router, now: Nanos) -> usize {
        let mut done = 0;
        for index in 0..self.slots.len() {
            let Some(link) = &mut self.slots[index] else { continue };
            let came = link.settle().and_then(|()| link.fill(&mut self.scratch, now));
            let taken = came
                .and_then(|came| if came { self.take_frames(index, router, now) } else { Ok(0) });
            match taken {
                Ok(count) => done += count,
                Err(why) => {
                    done += 1;
                    self.end(index, why, router, now);
                }
            }
        }
        done
    }

    fn take_frames(
        &mut self,
        index: usize,
        router: &mut Router,
        now: Nanos,
    ) -> Result<usize, LinkEnd> {
        // The input is moved out, so that frames can borrow it while the link changes.
        let mut input = std::mem::take(&mut self.link(index).input);
        let (mut used, mut count) = (0, 0);
        let taken = loop {
            match next_frame(&input[used..], FRAME_LEN_MAX) {
                Framing::Incomplete => break Ok(count),
                Framing::Broken(broken) => break Err(broken.into()),
                Framing::Frame { len, message } => {
                    let frame = &input[used..used + len];
                    used += len;
                    count += 1;
                    let taken = message
                        .map_err(LinkEnd::from)
                        .and_then(|raw| self.take_message(index, frame, &raw, router, now));
                    if let Err(why) = taken {
                        break Err(why);
                    }
                }
            }
        };
        input.drain(..used);
        if input.is_empty() && input.capacity() > FRAME_LEN_MAX {
            input = Vec::new();
        }
        self.link(index).input = input;
        taken
    }

    fn link(&mut self, index: usize) -> &mut Link {
        self.slots[index].as_mut().expect("whoever is worked on is there")
    }

    fn take_message(
        &mut self,
        index: usize,
        frame: &[u8],
        raw: &RawMessage<'_>,
        router: &mut Router,
        now: Nanos,
    ) -> Result<(), LinkEnd> {
        match raw.template_id {
            OrderPage::TEMPLATE_ID => {
                let page: OrderPage = raw.decode()?;
                let (correlation_id, is_last) = (page.correlation_id, page.row_count == 0);
                self.take_answer(index, &Answer { correlation_id, is_last, frame }, router, now)
            }
            OrderPageBody::TEMPLATE_ID => {
                let body: OrderPageBody = raw.decode()?;
                let correlation_id = body.correlation_id;
                let answer = Answer { correlation_id, is_last: true, frame };
                self.take_answer(index, &answer, router, now)
            }
            Reject::TEMPLATE_ID => {
                let reject: Reject = raw.decode_whole()?;
                let correlation_id = reject.request_no.0;
                let answer = Answer { correlation_id, is_last: true, frame };
                self.take_answer(index, &answer, router, now)
            }
            // From a router behind this one: its pages themselves show that sources are missing.
            Heartbeat::TEMPLATE_ID | SourceStates::TEMPLATE_ID => Ok(()),
            LogonAck::TEMPLATE_ID => {
                let ack: LogonAck = raw.decode()?;
                self.is_up(index, &ack, router, now);
                Ok(())
            }
            Challenge::TEMPLATE_ID => {
                let challenge: Challenge = raw.decode_whole()?;
                self.link(index).answer_challenge(&challenge);
                Ok(())
            }
            LogonReject::TEMPLATE_ID => {
                Err(LinkEnd::Refused(raw.decode_whole::<LogonReject>()?.reason))
            }
            Logout::TEMPLATE_ID => Err(LinkEnd::Closed(raw.decode_whole::<Logout>()?.reason)),
            _ => {
                // The error names a message of another kind.
                NodeMessage::decode(raw)?;
                let what = "a message for a client that trades";
                Err(weir_wire::DecodeError::Unexpected(what).into())
            }
        }
    }

    fn take_answer(
        &mut self,
        index: usize,
        answer: &Answer<'_>,
        router: &mut Router,
        now: Nanos,
    ) -> Result<(), LinkEnd> {
        let Answer { correlation_id, is_last, frame } = *answer;
        let link = self.link(index);
        let whose = match is_last {
            true => link.asked.remove(&correlation_id),
            false => link.asked.get(&correlation_id).copied(),
        };
        link.is_well();
        // The query was cancelled when its page had already been made.
        let Some(id) = whose else { return Ok(()) };
        link.body_due = (!is_last).then_some(correlation_id);
        match router.take(id, frame, now) {
            Ok(_) => Ok(()),
            // The store is put aside; the connection is not affected.
            Err(fault @ (BackendFault::Refused(_) | BackendFault::OtherLog)) => {
                tracing::warn!(node = %self.link(index).section.address, %fault, "put aside");
                Ok(())
            }
            Err(fault) => Err(fault.into()),
        }
    }

    fn is_up(&mut self, index: usize, ack: &LogonAck, router: &mut Router, now: Nanos) {
        let link = self.link(index);
        link.is_let_in(ack);
        tracing::info!(node = %link.section.address, session = ack.session_id.0, "up");
        let stores = link.stores.clone();
        for (_, id) in stores {
            router.backend_up(id);
            router.probe(id, now, self);
        }
    }

    /// Ends a link: its stores are down until it is up again.
    fn end(&mut self, index: usize, why: LinkEnd, router: &mut Router, now: Nanos) {
        let link = self.link(index);
        let address = link.section.address;
        match link.phase {
            Phase::Up => tracing::warn!(node = %address, %why, "lost"),
            _ => tracing::debug!(node = %address, %why, "not reached"),
        }
        link.end(why, now);
        let stores = link.stores.clone();
        stores.into_iter().for_each(|(_, id)| router.backend_down(id));
    }

    /// Connects, sends heartbeats, and probes stores, when due.
    pub(super) fn care(&mut self, router: &mut Router, now: Nanos) {
        if now < self.next_care {
            return;
        }
        self.next_care = Nanos(now.0 + CARE_INTERVAL);
        for index in 0..self.slots.len() {
            let Some(link) = &mut self.slots[index] else { continue };
            let cared = match link.is_rested(now) {
                true => link.connect(&self.registry, Token(self.first_token + index), now),
                false => link.care(now, self.wall.wall_at(now)),
            };
            if let Err(why) = cared {
                self.end(index, why, router, now);
            }
        }
        if now >= self.next_probe {
            self.next_probe = Nanos(now.0 + self.probe_interval);
            let stores: Vec<BackendId> =
                self.iter().flat_map(|link| link.stores.iter().map(|(_, id)| *id)).collect();
            stores.into_iter().for_each(|id| router.probe(id, now, self));
        }
    }

    pub(super) fn next_deadline(&self) -> Nanos {
        self.next_care
    }

    /// Sends the links' pending output.
    pub(super) fn flush(&mut self, router: &mut Router, now: Nanos) {
        for index in 0..self.slots.len() {
            let Some(link) = &mut self.slots[index] else { continue };
            if let Err(why) = link.flush(now) {
                self.end(index, why, router, now);
            }
        }
    }

    /// Logs out of all nodes when the router stops.
    pub(super) fn say_farewell(&mut self, now: Nanos) {
        self.slots.iter_mut().flatten().for_each(|link| link.say_farewell(now));
    }
}

impl BackendPort for Links {
    fn ask(&mut self, ask: &BackendRequest<'_>, _now: Nanos) -> FetchOutcome {
        let link = self.by_backend.get(&ask.backend).and_then(|slot| self.slots[*slot].as_mut());
        let Some(link) = link else { return FetchOutcome::Refused(Reason::Overloaded) };
        let session_id = link.session_id();
        let Some(out) = link.questions() else { return FetchOutcome::Refused(Reason::Overloaded) };
        // The node knows the router's session, not the reader's.
        let tokens = Tokens { token: ask.token, min_token: ask.min_token };
        put_question(&FetchOrders { session_id, ..*ask.fetch }, tokens, out);
        link.asked.insert(ask.fetch.correlation_id, ask.backend);
        FetchOutcome::Accepted
    }

    fn cancel(&mut self, backend: BackendId, correlation_id: u64) {
        let link = self.by_backend.get(&backend).and_then(|slot| self.slots[*slot].as_mut());
        let Some(link) = link else { return };
        // The router already has the header and waits for the rows.
        let is_under_way = link.body_due == Some(correlation_id);
        if is_under_way || link.asked.remove(&correlation_id).is_none() {
            return;
        }
        let session_id = link.session_id();
        // If the output is full, the node does not read: its answer is ignored.
        if let Some(out) = link.questions() {
            put_frame(&CancelFetch { correlation_id, session_id }, out);
        }
    }
}
