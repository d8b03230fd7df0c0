//! The rules for clients' messages, from the partition's own events.
//!
//! A session's reports are the events addressed to it, in order, with their bytes. A firm's copies
//! are those of its sessions. A client that has received lost events is refused, with the first of
//! them, as `docs/protocols/order-entry.md` says: an ended epoch is left up to the least last valid
//! position of it and all later ones.

use std::collections::BTreeMap;

use weir_log::EpochEnd;
use weir_types::{CopyNo, Epoch, EventNo, OrderId, Position, Reason, SessionId};
use weir_wire::frame::parse_message;
use weir_wire::{Event, PlainEvent};

use crate::oracle::{Violation, ensure};
use crate::window::Window;
use crate::workload::COPIED;

/// An event addressed to a session, as its report must have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its record in the event log.
    pub record: u64,
    /// The position of the command that caused it.
    pub position: Position,
    /// Its template.
    pub template_id: u16,
    /// Its block.
    pub block: Vec<u8>,
}

/// A report as a client received it.
#[derive(Clone, Debug)]
pub struct ReceivedReport<'a> {
    /// Its template.
    pub template_id: u16,
    /// Its block, with the stage times where it has them.
    pub block: &'a [u8],
}

impl Report {
    /// True if the client received this report; stage times are not part of it.
    #[must_use]
    pub fn is(&self, heard: &ReceivedReport<'_>) -> bool {
        self.template_id == heard.template_id && heard.block.starts_with(&self.block)
    }
}

/// The reports of a session without any.
static NO_REPORTS: Window<Report> = Window::EMPTY;

/// Notes an order as its owner's if the event says that it is live.
fn know_live(live: &mut BTreeMap<OrderId, SessionId>, event: &Event) {
    match event {
        Event::Plain(PlainEvent::OrderEvent(e)) if e.rec.is_none() => {}
        Event::Plain(PlainEvent::OrderEvent(e)) if e.ord_status.is_live() => {
            live.insert(e.order_id, e.session_id);
        }
        Event::Plain(PlainEvent::OrderEvent(e)) => drop(live.remove(&e.order_id)),
        _ => {}
    }
}

/// The events by their addressees.
#[derive(Default)]
pub struct AddressedEvents {
    sessions: BTreeMap<SessionId, Window<Report>>,
    /// The reports of the firm that is copied: the owner and its index in `sessions`.
    copied: Window<(SessionId, usize)>,
    live: BTreeMap<OrderId, SessionId>,
    /// The same before the first record that is kept.
    live_before: BTreeMap<OrderId, SessionId>,
    /// The number of times that events were lost.
    pub loss_count: u64,
    /// The current epoch.
    pub current: Epoch,
    /// The epochs before it.
    pub ended: Vec<EpochEnd>,
    /// The first record that no process has removed; a power loss may have brought some back.
    pub retained_from: u64,
    /// True if the node began with all events, or with a checkpoint of a life that did: it can tell
    /// what a client of an ended epoch has received that is lost.
    pub is_past_known: bool,
    /// The oldest command of whose events a node that cannot tell was left one, or a later one. It
    /// can tell of epochs that are left up to there.
    pub known_from: Position,
    /// Orders cancelled because their session was lost.
    pub lost_orders: u64,
}

impl AddressedEvents {
    /// Records an event that the partition published.
    pub fn note(&mut self, record: u64, event: &Event, bytes: &[u8]) {
        let Some((session_id, event_no)) = event.address() else { return };
        if event_no == EventNo::NONE {
            return;
        }
        let raw = parse_message(bytes).expect("it was decoded when it was seen");
        let report = Report {
            record,
            position: event.position(),
            template_id: raw.template_id,
            block: raw.block().to_vec(),
        };
        let reports = self.sessions.entry(session_id).or_default();
        reports.push(report);
        if COPIED.contains(&session_id) {
            self.copied.push((session_id, reports.len() - 1));
        }
        if let Event::Plain(PlainEvent::OrderEvent(e)) = event
            && !e.rec.is_none()
        {
            self.lost_orders += u64::from(e.reason == Reason::SessionLost);
        }
        know_live(&mut self.live, event);
    }

    /// Replaces all events after a loss.
    pub fn rebuild(&mut self, events: &Window<Vec<u8>>) {
        self.sessions.values_mut().for_each(|reports| drop(reports.take_kept()));
        self.copied.take_kept();
        self.live.clone_from(&self.live_before);
        self.loss_count += 1;
        self.retained_from = self.retained_from.min(events.len() as u64 + 1);
        for (record, bytes) in (events.begin() as u64 + 1..).zip(events.kept()) {
            let event = Event::decode(bytes).expect("it was decoded when it was seen");
            self.note(record, &event, bytes);
        }
    }

    /// Forgets the events before a record, which all clients have received.
    pub fn forget_before(&mut self, record: u64, events: &[Vec<u8>]) {
        for bytes in events {
            let event = Event::decode(bytes).expect("it was decoded when it was seen");
            know_live(&mut self.live_before, &event);
        }
        let is_before = |copy: &(SessionId, usize)| {
            self.of(copy.0).get(copy.1).is_none_or(|report| report.record < record)
        };
        let copies = self.copied.begin() + self.copied.kept().partition_point(is_before);
        self.copied.forget_before(copies);
        for reports in self.sessions.values_mut() {
            let count = reports.kept().partition_point(|report| report.record < record);
            reports.forget_before(reports.begin() + count);
        }
    }

    /// A session's reports so far.
    #[must_use]
    pub fn of(&self, session_id: SessionId) -> &Window<Report> {
        self.sessions.get(&session_id).unwrap_or(&NO_REPORTS)
    }

    /// The number of copies so far.
    #[must_use]
    pub fn copy_count(&self) -> usize {
        self.copied.len()
    }

    /// A copied report by its index, with its owner.
    #[must_use]
    pub fn copy(&self, index: usize) -> Option<(SessionId, &Report)> {
        let (owner, at) = *self.copied.get(index)?;
        Some((owner, self.sessions[&owner].get(at)?))
    }

    /// Checks a report: it is the session's, the next one, and has the event's bytes.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn check_report(
        &self,
        session_id: SessionId,
        event_no: EventNo,
        heard: &ReceivedReport<'_>,
    ) -> Result<Report, Violation> {
        let index = usize::try_from(event_no.0).unwrap_or(usize::MAX).wrapping_sub(1);
        let report = self.of(session_id).get(index);
        let is_right = report.is_some_and(|report| report.is(heard));
        ensure(is_right, "a report is not the session's event", || {
            format!("event {event_no} of session {session_id}, known: {}", report.is_some())
        })?;
        Ok(report.expect("it was compared").clone())
    }

    /// Returns the reports of a session between the `count` that a client has received and
    /// `oldest`, which a node names as the oldest one that it retains.
    ///
    /// # Errors
    /// When there are none, or they are not past the retention.
    pub fn past_retention(
        &self,
        session_id: SessionId,
        count: usize,
        oldest: EventNo,
    ) -> Result<&[Report], Violation> {
        let upto = usize::try_from(oldest.0).unwrap_or(usize::MAX).saturating_sub(1);
        let later = self.of(session_id).from(count);
        let gone = later.get(..upto.saturating_sub(count)).unwrap_or_default();
        let is_gone = gone.last().is_some_and(|last| last.record < self.retained_from);
        ensure(is_gone, "a retained event is refused", || {
            let records: Vec<u64> = gone.iter().map(|report| report.record).collect();
            format!(
                "event {} of session {session_id}: {oldest} is the oldest, but records {records:?} \
                 are, from {} on",
                count + 1,
                self.retained_from
            )
        })?;
        Ok(gone)
    }

    /// Returns the copies between the `count` that a reader has received and the first number of a
    /// stream.
    ///
    /// # Errors
    /// When one of them is retained.
    pub fn copies_past_retention(
        &self,
        count: usize,
        first: CopyNo,
    ) -> Result<Vec<(SessionId, Report)>, Violation> {
        let copies = (count..).map_while(|index| self.copy(index));
        let gone: Vec<_> = copies.take_while(|(_, report)| report.record < first.0).collect();
        let is_gone = gone.last().is_none_or(|(_, last)| last.record < self.retained_from);
        ensure(is_gone, "a retained copy is left out", || {
            let records: Vec<u64> = gone.iter().map(|(_, report)| report.record).collect();
            format!("{records:?} before {first}, after {count}, from {} on", self.retained_from)
        })?;
        Ok(gone.into_iter().map(|(owner, report)| (owner, report.clone())).collect())
    }

    /// True if the node may be unable to tell what a client has received that is lost, when the
    /// client names `epoch`.
    #[must_use]
    pub fn may_be_unknown(&self, epoch: Epoch) -> bool {
        let is_its = self.ended.iter().any(|end| end.epoch == epoch);
        let left = self.left_of(epoch).filter(|_| is_its);
        !self.is_past_known && left.is_none_or(|left| left < self.known_from)
    }

    /// The last position that is left of an epoch; `None` if it did not end.
    fn left_of(&self, epoch: Epoch) -> Option<Position> {
        let later = self.ended.iter().filter(|end| end.epoch >= epoch);
        later.map(|end| end.last_valid).min()
    }

    /// The node begins behind its past and cannot tell: of what it was left, notes the beginning.
    pub fn begins_unknown(&mut self, first_record: u64) {
        let of_session = |reports: &Window<Report>| {
            reports.kept().iter().find(|report| report.record >= first_record).map(|r| r.position)
        };
        let from = self.sessions.values().filter_map(of_session).min();
        self.known_from = self.known_from.max(from.unwrap_or(Position(u64::MAX)));
    }

    /// The first lost event of a client that has received the first `count` events of a session and
    /// names `epoch`; `None` if all of them are left.
    #[must_use]
    pub fn first_lost(&self, session_id: SessionId, count: u64, epoch: Epoch) -> Option<EventNo> {
        if count == 0 || epoch.is_none() || epoch == self.current {
            return None;
        }
        if !self.ended.iter().any(|end| end.epoch == epoch) {
            return Some(EventNo(1));
        }
        let left = self.left_of(epoch)?;
        // Those that are forgotten are before each loss that a client has not been told of.
        let reports = self.of(session_id);
        let later = reports.kept().iter().take_while(|report| report.position <= left);
        let left = (reports.begin() + later.count()) as u64;
        (count > left).then_some(EventNo(left + 1))
    }

    /// Checks that all that a client has received is what is true now.
    ///
    /// # Errors
    /// The first report that is not.
    pub fn check_received(
        &self,
        session_id: SessionId,
        received: &Window<Report>,
    ) -> Result<(), Violation> {
        let reports = self.of(session_id);
        let mut known = received.begin().max(reports.begin())..received.len();
        let wrong = known.find(|at| reports.get(*at) != received.get(*at));
        ensure(wrong.is_none(), "a client keeps what is lost", || {
            format!("event {} of session {session_id}", wrong.unwrap_or(0) + 1)
        })
    }

    /// Checks that sessions with cancel-on-disconnect that have left have no live order.
    ///
    /// # Errors
    /// An order that is live.
    pub fn check_left(&self, sessions: &[SessionId]) -> Result<(), Violation> {
        let left = self.live.iter().find(|(_, owner)| sessions.contains(owner));
        let Some((order_id, owner)) = left else { return Ok(()) };
        let last = self.of(*owner).last().map(|report| report.position);
        let detail =
            format!("order {order_id} of session {owner}, whose last event is of {last:?}");
        Err(Violation::new("an order outlives its session", detail))
    }
}
