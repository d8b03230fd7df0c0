//! A client of a session: the state of `weir_client`, and everything that it has received.

use std::collections::{BTreeMap, BTreeSet};

use weir_client::ClientError;
use weir_client::session::{Session, SessionConfig, SessionEvent, Submit, Times};
use weir_io::{Rng, SeededRng};
use weir_types::{ClOrdId, EventNo, ExecType, Nanos, OrderId, Reason, RequestNo, SessionId};
use weir_wire::Command;
use weir_wire::dialogue::NodeMessage;
use weir_wire::event::OrderEvent;

use super::GateTally;
use super::addressed_events::{AddressedEvents, ReceivedReport, Report};
use super::copies::CopyReader;
use crate::oracle::{Violation, ensure};
use crate::window::Window;
use crate::workload::{
    COPY_DESK, HERE, KnownOrder, OPERATOR, THROTTLED_INTERVAL, key_of, later, operate, trade,
};

/// The heartbeat interval that clients ask for, in milliseconds.
const HEARTBEAT_MS: u32 = 500;
/// The time after which a session whose connection has gone must be able to log on: two and a half
/// heartbeat intervals, and more than as long again for the steps around them.
const TAKEN_TIME_MAX: Nanos = Nanos(4_000_000_000);
/// The names per session: more than any run uses.
const NAMES_MAX: u64 = 1_000_000;
/// The most unanswered requests of a client: as many as a batch of the partition may hold.
const UNANSWERED_MAX: usize = 6;

/// The requests whose times of sending are kept: more than are ever unanswered.
const SENT_MAX: usize = 1_000;

/// The consequence of a message for the session.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Stay,
    /// The session logs on again after some steps.
    LogOn,
}

/// The surroundings of a message.
pub struct ReceivedMessage<'a> {
    /// The rules of what clients are told.
    pub told: &'a AddressedEvents,
    /// The message's bytes.
    pub heard: ReceivedReport<'a>,
    /// The figures.
    pub tally: &'a mut GateTally,
    /// The time.
    pub now: Nanos,
    /// The time by which a session must return after the start to keep its orders.
    pub return_by: Nanos,
    /// The last time at which the command log's disk stood, or descriptors were short.
    pub withheld_at: Nanos,
    /// The last time at which another process had a connection for the session.
    pub kept_at: Nanos,
}

/// The times of a new request.
#[derive(Clone, Copy, Debug)]
pub struct AskTimes {
    /// The time.
    pub now: Nanos,
    /// The time by which the times in it are later than those of a run's beginning.
    pub since_beginning: Nanos,
}

/// A client's choices of cancel-on-disconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choices {
    /// Never.
    Off,
    /// At each logon.
    On,
    /// At two logons of three.
    Changing,
}

/// A client.
pub struct Client {
    /// Its state.
    pub session: Session,
    /// The session.
    pub session_id: SessionId,
    /// Its choices at its logons.
    pub choices: Choices,
    /// True if it logged on last, or will first, so that its orders go with its connection.
    pub cancels_on_disconnect: bool,
    /// True from its definition on.
    pub is_defined: bool,
    /// The step of its next logon; `None` while it is logged on or waits for an answer.
    pub logs_on_at: Option<u64>,
    /// The stream of copies, for a desk.
    pub copies: Option<CopyReader>,
    definitions: u8,
    received: Window<Report>,
    /// The number of losses for which the events that it keeps were compared.
    loss_count: u64,
    live: BTreeMap<OrderId, KnownOrder>,
    names: u64,
    logon_count: u64,
    /// Logons sent to this process.
    logons_sent: u64,
    /// The time of the last one.
    logon_sent_at: Nanos,
    /// The number of logons at which the session moved to another connection, until it is known how
    /// it ended on the one before.
    moved_at: Option<u64>,
    /// True until its first accepted logon to this process.
    is_new_process: bool,
    /// The times that it was told that its session was taken over.
    takeover_count: u64,
    /// Requests made since the logon.
    asked: BTreeSet<RequestNo>,
    /// Requests that were refused and have no place in the log.
    refused: BTreeSet<RequestNo>,
    /// The times at which requests were first sent.
    sent_at: BTreeMap<RequestNo, Nanos>,
    /// The time at which it last heard that a request was accepted.
    accepted_at: Nanos,
    /// Orders that no loss of the session may cancel while it stays logged on, or once it has left
    /// them by its choice.
    safe: BTreeSet<OrderId>,
    /// Those that were safe on the connection before.
    safe_before: BTreeSet<OrderId>,
    /// True if the session is not lost at the start of this process: its return keeps its orders.
    may_return: bool,
    /// The number from which no event may be a cancel by a loss: the session returned in time.
    in_time_from: Option<EventNo>,
    /// The time since which its logon is refused because it is on another connection.
    taken_since: Option<Nanos>,
}

impl Client {
    /// Creates a client of a session that is not defined yet.
    #[must_use]
    pub fn new(session_id: SessionId, choices: Choices) -> Client {
        let cancels_on_disconnect = choices != Choices::Off;
        let config = SessionConfig {
            heartbeat_interval_ms: HEARTBEAT_MS,
            cancel_on_disconnect: cancels_on_disconnect,
            unanswered_count_max: UNANSWERED_MAX,
            ..SessionConfig::new(session_id, key_of(session_id, 0))
        };
        let mut session = Session::new(config);
        // From the first event on.
        session.resume_after(HERE, EventNo::NONE, weir_types::Epoch::NONE);
        Client {
            session,
            session_id,
            choices,
            cancels_on_disconnect,
            is_defined: false,
            logs_on_at: None,
            copies: (session_id == COPY_DESK).then(|| CopyReader::new(session_id)),
            definitions: 0,
            received: Window::default(),
            loss_count: 0,
            live: BTreeMap::new(),
            names: 0,
            logon_count: 0,
            logons_sent: 0,
            logon_sent_at: Nanos(0),
            moved_at: None,
            is_new_process: true,
            takeover_count: 0,
            asked: BTreeSet::new(),
            refused: BTreeSet::new(),
            sent_at: BTreeMap::new(),
            accepted_at: Nanos(0),
            safe: BTreeSet::new(),
            safe_before: BTreeSet::new(),
            may_return: false,
            in_time_from: None,
            taken_since: None,
        }
    }

    /// The session is defined, or defined again with another key.
    pub fn defined(&mut self) {
        if self.is_defined {
            self.definitions += 1;
            self.session.set_key(key_of(self.session_id, self.definitions));
        }
        self.is_defined = true;
    }

    /// Its connection is lost, or a new process begins.
    pub fn connection_lost(&mut self, logs_on_at: u64) {
        self.session.connection_lost();
        self.has_left();
        if self.logs_on_at.is_none() {
            // A logon without an answer may have been accepted: it is on a connection anew.
            self.taken_since = None;
        }
        self.logs_on_at = Some(logs_on_at);
        if let Some(copies) = &mut self.copies {
            copies.connection_lost();
        }
    }

    /// It has a connection, by which it logs on at this step.
    pub fn connected(&mut self, logs_on_at: u64) {
        self.logs_on_at = Some(logs_on_at);
    }

    /// It has left a connection that goes on, for another one: it takes its session over.
    pub fn moves(&mut self) {
        self.moved_at = Some(self.logon_count);
    }

    /// Its session was taken over from the connection that it left. The session has not ended, so
    /// no loss of it may cancel the orders of before, if its next logon, with the same choice, is
    /// the one that took it over.
    pub fn goes_on(&mut self) {
        if self.moved_at.take().is_some_and(|before| self.logon_count == before + 1) {
            self.safe.append(&mut self.safe_before);
        }
    }

    /// True if it may ask for a takeover.
    #[must_use]
    pub fn may_take_over(&self) -> bool {
        self.choices != Choices::Changing
    }

    /// A new process knows of no session on a connection. It awaits the return of `absent`.
    pub fn begin_life(&mut self, absent: &[SessionId]) {
        self.may_return = absent.contains(&self.session_id);
        self.taken_since = None;
        self.logons_sent = 0;
        self.is_new_process = true;
    }

    /// The logon has ended, if there was one: by its choice its orders go or stay.
    fn has_left(&mut self) {
        self.asked.clear();
        self.in_time_from = None;
        self.moved_at = None;
        self.safe_before.clear();
        if self.cancels_on_disconnect {
            self.safe_before = std::mem::take(&mut self.safe);
        }
    }

    /// The time of the last logon sent to this process of the node.
    #[must_use]
    pub fn logon_sent_at(&self) -> Nanos {
        self.logon_sent_at
    }

    /// The number of times that it was told that its session was taken over.
    #[must_use]
    pub fn takeover_count(&self) -> u64 {
        self.takeover_count
    }

    /// Sends the logon when it is due.
    pub fn log_on(&mut self, now: Nanos, tick: u64, out: &mut Vec<u8>) {
        if self.is_defined && self.logs_on_at.is_some_and(|at| tick >= at) {
            self.logs_on_at = None;
            if self.choices == Choices::Changing {
                self.cancels_on_disconnect = self.logon_count % 3 != 1;
                self.session.set_cancel_on_disconnect(self.cancels_on_disconnect);
            }
            // A logon that was refused is repeated as it was: a session that is lost is free in its
            // time, also for those that do not ask for it.
            if self.taken_since.is_none() {
                let asks = self.moved_at.is_some() || self.logon_count % 3 != 2;
                let takes_over = asks && self.may_take_over();
                self.session.set_takeover(takes_over);
            }
            self.logon_count += 1;
            self.logons_sent += 1;
            self.logon_sent_at = now;
            self.session.put_logon(now, out);
        }
    }

    /// Makes a request, with the way in which a crowd's clients do.
    pub fn ask(
        &mut self,
        rng: &mut SeededRng,
        times: AskTimes,
        out: &mut Vec<u8>,
    ) -> Option<(RequestNo, Command)> {
        let AskTimes { now, since_beginning } = times;
        self.names += 1;
        let request = if self.session_id == OPERATOR {
            operate(rng, RequestNo(self.names))
        } else {
            let number = u64::from(self.session_id.0) * NAMES_MAX + self.names;
            let index = rng.below(self.live.len().max(1) as u64);
            let known = self.live.values().nth(usize::try_from(index).expect("few orders"));
            let name = ClOrdId::from_number(number);
            trade(rng, self.session_id, RequestNo(0), name, known.copied())
        };
        let request = later(request, since_beginning);
        match self.session.submit(HERE, request, Times { due: now, sent: now }, out) {
            Submit::Sent(no) => {
                self.asked.insert(no);
                self.sent_at.insert(no, now);
                while self.sent_at.len() > SENT_MAX {
                    self.sent_at.pop_first();
                }
                let stamped = weir_client::request::stamp(request, self.session_id, no);
                Some((no, Command::Request(stamped)))
            }
            Submit::NotOpen | Submit::Full => None,
        }
    }

    /// Handles a message to this session.
    ///
    /// # Errors
    /// A violation of a rule.
    pub fn hear(
        &mut self,
        message: &NodeMessage<'_>,
        message_context: &mut ReceivedMessage<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Next, Violation> {
        let told = message_context.told;
        if let (NodeMessage::DropCopyState(state), Some(copies)) = (message, &mut self.copies) {
            copies.on_state(state, told, out)?;
            return Ok(Next::Stay);
        }
        if matches!(message, NodeMessage::CopyMark(_)) {
            return Ok(Next::Stay);
        }
        match self.session.on_message(message, out) {
            Ok(SessionEvent::Opened { .. }) => {
                self.opened(message, message_context, out).map(|()| Next::Stay)
            }
            Ok(SessionEvent::LoggedOut(logout)) => {
                self.logged_out(logout.reason, message_context.tally);
                Ok(Next::LogOn)
            }
            Ok(SessionEvent::Repeated) => self.repeated(message, message_context),
            Ok(event) => self.on_event(&event, message_context).map(|()| Next::Stay),
            Err(error) => self.refused(error, message_context),
        }
    }

    /// Handles a message that changes nothing for the session: the notice, once, that a mass cancel
    /// sent again is in progress.
    fn repeated(
        &mut self,
        message: &NodeMessage<'_>,
        message_context: &mut ReceivedMessage<'_>,
    ) -> Result<Next, Violation> {
        let ReceivedMessage { told, heard, tally, .. } = message_context;
        match message {
            NodeMessage::RequestRejected(r) if r.reason == Reason::InProgress => {
                self.take(r.event_no, heard, told)?;
                tally.reports += 1;
                Ok(Next::Stay)
            }
            _ => Err(Violation::new("a report came twice", format!("{message:?}"))),
        }
    }

    fn on_event(
        &mut self,
        event: &SessionEvent,
        message_context: &mut ReceivedMessage<'_>,
    ) -> Result<(), Violation> {
        let ReceivedMessage { told, heard, tally, now, .. } = message_context;
        match event {
            SessionEvent::Report { report, .. } => {
                self.take(report.event.event_no, heard, told)?;
                self.check_not_refused(report.event.request_no, report.event.reason)?;
                self.know(&report.event);
                tally.reports += 1;
                let (request_no, reason) = (report.event.request_no, report.event.reason);
                tally.throttled += self.check_rate(request_no, reason, *now)?;
                let is_safe = self.is_safe(&report.event);
                let is_lost = report.event.reason == Reason::SessionLost;
                ensure(!is_lost || !is_safe, "an order went with its session", || {
                    format!("{report:?}")
                })?;
            }
            SessionEvent::Rejected { rejected, .. } => {
                self.take(rejected.event_no, heard, told)?;
                self.check_not_refused(rejected.request_no, rejected.reason)?;
                tally.reports += 1;
                tally.throttled += self.check_rate(rejected.request_no, rejected.reason, *now)?;
            }
            SessionEvent::Done { done, .. } => {
                self.take(done.event_no, heard, told)?;
                self.check_not_refused(done.request_no, Reason::None)?;
                tally.reports += 1;
            }
            SessionEvent::TradeBusted(busted) => self.take(busted.event_no, heard, told)?,
            SessionEvent::Refused { reject, answered } => {
                let is_left_out = reject.reason == Reason::NotLoggedOn && self.session.is_open();
                ensure(!is_left_out, "a session ended and was not told", || format!("{reject:?}"))?;
                tally.refused += u64::from(reject.reason == Reason::LogFull);
                // Its caller hears that no log has it, also if it was sent again: no copy of it may
                // be done later.
                if answered.is_some() {
                    self.refused.insert(reject.request_no);
                }
            }
            SessionEvent::Challenged
            | SessionEvent::Opened { .. }
            | SessionEvent::Heartbeat(_)
            | SessionEvent::Repeated
            | SessionEvent::LoggedOut(_) => {}
        }
        Ok(())
    }

    /// Checks that the request of an event was not refused before. The reports of a mass cancel
    /// have the number of its sender's request.
    fn check_not_refused(&self, request_no: RequestNo, reason: Reason) -> Result<(), Violation> {
        let is_refused = reason != Reason::MassCancel && self.refused.contains(&request_no);
        ensure(!is_refused, "a request that was refused is done later", || {
            format!("request {request_no} of session {}", self.session_id)
        })
    }

    /// Checks that a rate recovers in its time, or in twice its time while log time is ahead of the
    /// wall clock, as one that is exceeded admits one request in each interval. Returns 1 for a
    /// throttled request, else 0.
    fn check_rate(
        &mut self,
        request_no: RequestNo,
        reason: Reason,
        now: Nanos,
    ) -> Result<u64, Violation> {
        if reason != Reason::Throttled {
            if !request_no.is_none() {
                self.accepted_at = now;
            }
            return Ok(0);
        }
        let sent_at = self.sent_at.get(&request_no).copied().unwrap_or_default();
        let waited = sent_at.since(self.accepted_at);
        ensure(waited.0 <= 2 * THROTTLED_INTERVAL.0, "a rate does not recover", || {
            format!("request {request_no} of session {}: {} ns", self.session_id, waited.0)
        })?;
        Ok(1)
    }

    fn opened(
        &mut self,
        ack: &NodeMessage<'_>,
        message_context: &mut ReceivedMessage<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Violation> {
        message_context.tally.logons += 1;
        self.taken_since = None;
        let NodeMessage::LogonAck(_, states) = ack else { unreachable!("it has opened") };
        let state = states.clone().flatten().find(|state| state.partition_id == HERE);
        if std::mem::replace(&mut self.is_new_process, false) {
            // A restart goes on after the log time of the last batch: what passed since is lost.
            self.accepted_at = message_context.now;
        }
        // An earlier logon to this process may have been accepted, and its loss be under way.
        let is_in_time = self.may_return
            && self.logons_sent == 1
            && message_context.now < message_context.return_by;
        self.in_time_from = state.filter(|_| is_in_time).map(|state| state.next_event_no);
        message_context.tally.in_time += u64::from(is_in_time && self.cancels_on_disconnect);
        self.check_opened(message_context.told)?;
        if let Some(copies) = &mut self.copies {
            copies.ask(out);
        }
        Ok(())
    }

    /// True if a loss of the session may not cancel the event's order.
    fn is_safe(&mut self, event: &OrderEvent) -> bool {
        let is_entry = event.exec_type == ExecType::New && !event.rec.is_none();
        if is_entry && self.choices != Choices::Off && self.asked.contains(&event.request_no) {
            self.safe.insert(event.order_id);
        }
        self.choices == Choices::Off
            || self.safe.contains(&event.order_id)
            || self.in_time_from.is_some_and(|from| event.event_no >= from)
    }

    fn logged_out(&mut self, reason: Reason, tally: &mut GateTally) {
        self.has_left();
        match reason {
            Reason::SlowConsumer => tally.slow += 1,
            Reason::HeartbeatLost => tally.silent += 1,
            Reason::KeyReplaced => tally.keys_replaced += 1,
            Reason::TakenOver => {
                tally.taken_over += 1;
                self.takeover_count += 1;
            }
            _ => {}
        }
        if let Some(copies) = &mut self.copies {
            copies.connection_lost();
        }
    }

    /// Checks an event and keeps it.
    fn take(
        &mut self,
        no: EventNo,
        heard: &ReceivedReport<'_>,
        told: &AddressedEvents,
    ) -> Result<(), Violation> {
        if no == EventNo::NONE {
            return Ok(());
        }
        let next = EventNo(self.received.len() as u64 + 1);
        ensure(no == next, "a session's reports are not in order", || {
            format!("{no} of session {} instead of {next}", self.session_id)
        })?;
        let report = told.check_report(self.session_id, no, heard)?;
        self.received.push(report);
        Ok(())
    }

    /// True if its next event may be past the retention.
    #[must_use]
    pub fn is_past_retention(&self, told: &AddressedEvents) -> bool {
        let next = told.of(self.session_id).get(self.received.len());
        next.is_some_and(|next| next.record < told.retained_from)
    }

    /// True if the session has events from this one on, and none of them is retained.
    fn has_bare_trail(&self, told: &AddressedEvents, first: EventNo) -> bool {
        let reports = told.of(self.session_id);
        let is_gone = reports.last().is_some_and(|last| last.record < told.retained_from);
        is_gone && reports.len() as u64 >= first.0
    }

    /// True if it has received events that are lost.
    #[must_use]
    pub fn has_lost(&self, told: &AddressedEvents) -> bool {
        self.received.len() > told.of(self.session_id).len()
            || told.check_received(self.session_id, &self.received).is_err()
    }

    fn know(&mut self, event: &OrderEvent) {
        let OrderEvent { order_id, cl_ord_id, instrument_id, .. } = *event;
        if event.rec.is_none() {
            return;
        }
        if event.ord_status.is_live() {
            self.live.insert(order_id, KnownOrder { order_id, cl_ord_id, instrument_id });
        } else {
            self.live.remove(&order_id);
        }
    }

    /// The first record that it may still be told of, if that is known.
    #[must_use]
    pub fn needs_from(&self, told: &AddressedEvents) -> Option<u64> {
        let own = told.of(self.session_id).get(self.received.len());
        let copies = self.copies.as_ref().and_then(|copies| copies.needs_from(told));
        own.map(|report| report.record).into_iter().chain(copies).min()
    }

    /// Forgets what it received of records before this one.
    pub fn forget_before(&mut self, record: u64) {
        let count = self.received.kept().partition_point(|report| report.record < record);
        self.received.forget_before(self.received.begin() + count);
        if let Some(copies) = &mut self.copies {
            copies.forget_before(record);
        }
    }

    fn check_opened(&mut self, told: &AddressedEvents) -> Result<(), Violation> {
        ensure(self.session.epoch(HERE) == told.current, "a logon names a wrong epoch", || {
            format!("{} instead of {}", self.session.epoch(HERE), told.current)
        })?;
        // An event was compared as it was received, and changes by a loss only.
        if std::mem::replace(&mut self.loss_count, told.loss_count) == told.loss_count {
            return Ok(());
        }
        told.check_received(self.session_id, &self.received)
    }

    fn check_lost(&self, other_from: EventNo, told: &AddressedEvents) -> Result<(), Violation> {
        let (count, epoch) = (self.received.len() as u64, self.session.epoch(HERE));
        let expected = told.first_lost(self.session_id, count, epoch);
        ensure(expected == Some(other_from), "a wrong event is named as lost", || {
            format!("{other_from} of {count}, expected {expected:?}")
        })
    }

    /// Checks the time for which the session was on another connection. One whose requests wait for
    /// the disk is not silent: it may be lost and seem alive for as long. One that waits for a
    /// descriptor is refused nothing, and behind it those that it gave up are accepted first.
    fn check_ended(&self, taken_for: Nanos) -> Result<(), Violation> {
        let is_late = taken_for > TAKEN_TIME_MAX;
        ensure(!is_late, "a lost session is never ended", || self.session_id.to_string())
    }

    fn refused(
        &mut self,
        error: ClientError,
        message_context: &mut ReceivedMessage<'_>,
    ) -> Result<Next, Violation> {
        let ReceivedMessage { told, tally, now, withheld_at, kept_at, .. } = message_context;
        match error {
            ClientError::OtherHistory {
                partition_id: HERE,
                other_from,
                oldest_event_no,
                epoch,
                ..
            } => {
                tally.other_histories += 1;
                // Where the events that would tell are gone, no event is confirmed.
                let named = self.session.epoch(HERE);
                let is_unknown = told.may_be_unknown(named) && other_from == oldest_event_no;
                if is_unknown {
                    self.received.truncate(self.received.begin());
                } else {
                    tally.bare_trails += u64::from(self.has_bare_trail(told, other_from));
                    self.check_lost(other_from, told)?;
                }
                let kept = usize::try_from(other_from.0 - 1).expect("few events");
                if kept > self.received.len() {
                    let gone =
                        told.past_retention(self.session_id, self.received.len(), other_from)?;
                    self.received.extend(gone.iter().cloned());
                }
                self.received.truncate(kept);
                self.live.clear();
                self.safe.clear();
                self.safe_before.clear();
                self.session.forget_from(HERE, other_from, epoch);
                Ok(Next::LogOn)
            }
            ClientError::LogonRejected {
                reason: Reason::ResumeOutOfRange,
                partition_id: HERE,
                oldest_event_no,
                ..
            } => {
                tally.past_retention += 1;
                let gone =
                    told.past_retention(self.session_id, self.received.len(), oldest_event_no)?;
                self.received.extend(gone.iter().cloned());
                let (last, epoch) = (EventNo(oldest_event_no.0 - 1), self.session.epoch(HERE));
                self.session.resume_after(HERE, last, epoch);
                Ok(Next::LogOn)
            }
            ClientError::LogonRejected { reason: Reason::AlreadyLoggedOn, .. } => {
                tally.taken += 1;
                let since = *self.taken_since.get_or_insert(*now);
                self.check_ended(now.since(since.max(*withheld_at).max(*kept_at)))?;
                Ok(Next::LogOn)
            }
            // A challenge is good for ten seconds, and the signature may have waited for longer
            // behind requests that wait for the disk.
            ClientError::LogonRejected { reason: Reason::UnknownChallenge, .. }
                if now.since(*withheld_at) <= TAKEN_TIME_MAX =>
            {
                Ok(Next::LogOn)
            }
            // The key was replaced a moment ago, or the newcomers have not heard of it yet.
            ClientError::LogonRejected { reason: Reason::UnknownKey, .. } => Ok(Next::LogOn),
            error => Err(Violation::new("a client is refused", error)),
        }
    }

    /// True if it has received everything and every request is answered.
    #[must_use]
    pub fn is_quiet(&self, told: &AddressedEvents) -> bool {
        let has_copies =
            self.copies.as_ref().is_none_or(|copies| copies.count() == told.copy_count());
        self.session.is_open()
            && self.session.unanswered_count() == 0
            && self.received.len() == told.of(self.session_id).len()
            && has_copies
    }

    /// The number of events received and unanswered requests, for a violation.
    #[must_use]
    pub fn state(&self) -> String {
        format!(
            "session {}: open {}, {} events, {} unanswered",
            self.session_id,
            self.session.is_open(),
            self.received.len(),
            self.session.unanswered_count()
        )
    }
}
