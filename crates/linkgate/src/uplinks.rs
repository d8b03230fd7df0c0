//! The agent of a gateway process: the connections to all partitions, and the traffic between
//! each of them and the gateway.
//!
//! Its cycle, for each partition: bytes from the socket, requests and questions of the gateway,
//! requests for old records, credit and pulses, bytes to the socket.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mio::{Events, Poll, Token};
use weir_gateway::linked::{LinkAnswer, LinkAsk};
use weir_gateway::{OldRecordsAsk, OldRecordsEnd};
use weir_link::codec::next_message;
use weir_link::gateway_end::HandOver;
use weir_link::kept::LinkCommand;
use weir_link::message::{
    AskRecords, ClaimSession, EventBatch, KeepClaims, RecordNo, ReleaseSession,
};
use weir_link::partition_end::RequestName;
use weir_link::{Arrived, GatewayEnd, GatewayTerms, LinkFault};
use weir_partition::history::Lacking;
use weir_runtime::{Agent, Poller};
use weir_types::{Nanos, PartitionId, Reason, SessionId, Switch};
use weir_wire::dialogue::NodeMessage;
use weir_wire::frame::RawMessage;
use weir_wire::message::Message;
use weir_wire::session::Heartbeat;
use weir_wire::{Command, Request};

use crate::connection::{Connection, ConnectionEnd, Phase, Scratch};
use crate::figures::{UplinkReport, UplinksBoard};
use crate::linked_port::LinkedPort;

const WAKER: Token = Token(0);
/// The token of the first connection.
const FIRST: usize = 1;
/// The requests for old records that a partition may have open.
const ASKS_MAX: usize = 64;
/// The grants in one frame.
const GRANTS_MAX: usize = 1_024;
/// The time between two lines of the log about a link that stays away, in nanoseconds.
const TELL_AWAY_INTERVAL: u64 = 30_000_000_000;
/// The time until a full ring is looked at again, in nanoseconds.
const RETRY_INTERVAL: u64 = 500_000;
/// The longest time between two cycles, in nanoseconds.
const CARE_INTERVAL: u64 = 50_000_000;
/// The bytes of events that may be unused at a partition's link.
pub const WINDOW_BYTES: u32 = 4 << 20;

/// A link to a partition.
pub struct Uplink {
    connection: Connection,
    end: GatewayEnd,
    port: LinkedPort,
    session_id: SessionId,
    partition_id: PartitionId,
    /// True while the gateway knows the link as open.
    is_told: bool,
    /// True while input waits for the gateway to read.
    is_full: bool,
    /// The time at which the log was told that the link is away; `None` while it is not.
    away_told_at: Option<Nanos>,
    /// The times that the link was opened, the times that a connection was lost, and the reason for
    /// the last one.
    opened: u64,
    losses: u64,
    last_loss: Option<String>,
    /// The load that the gateway knows, in thousandths.
    load: u16,
    /// Requests for old records: those that are sent, by number, and those that wait.
    asked: BTreeMap<u64, OldRecordsAsk>,
    unasked: VecDeque<OldRecordsAsk>,
}

/// The process of a gateway.
#[derive(Clone, Copy, Debug)]
pub struct GatewayProcess {
    /// The gateway's session.
    pub session_id: SessionId,
    /// The number of this start, drawn at random.
    pub incarnation: u64,
}

impl Uplink {
    /// Returns a link that is not made yet.
    #[must_use]
    pub fn new(connection: Connection, port: LinkedPort, process: GatewayProcess) -> Uplink {
        let GatewayProcess { session_id, incarnation } = process;
        let partition_id = PartitionId(connection.partition().id);
        let window_bytes = WINDOW_BYTES;
        let terms = GatewayTerms { session_id, partition_id, incarnation, window_bytes };
        Uplink {
            connection,
            end: GatewayEnd::new(terms),
            port,
            session_id,
            partition_id,
            is_told: false,
            is_full: false,
            away_told_at: None,
            opened: 0,
            losses: 0,
            last_loss: None,
            load: 0,
            asked: BTreeMap::new(),
            unasked: VecDeque::new(),
        }
    }

    /// Reads the socket and takes messages; returns their number.
    fn read(&mut self, scratch: &mut Scratch, now: Nanos) -> Result<usize, ConnectionEnd> {
        self.connection.settle(now)?;
        if self.is_full && !self.port.has_room() {
            self.end.held_back(now);
            return Ok(0);
        }
        let was_full = std::mem::take(&mut self.is_full);
        let came = self.connection.fill(scratch)?;
        if !came && !was_full {
            return Ok(0);
        }
        let input = std::mem::take(&mut self.connection.input);
        let (mut used, mut count) = (0, 0);
        let taken = loop {
            if !self.port.has_room() {
                self.is_full = true;
                break Ok(());
            }
            match next_message(&input[used..], now) {
                Ok(None) => break Ok(()),
                Err(fault) => break Err(fault.into()),
                Ok(Some(arrived)) => {
                    (used, count) = (used + arrived.len, count + 1);
                    if let Err(why) = self.take(arrived) {
                        break Err(why);
                    }
                }
            }
        };
        self.connection.input = input;
        self.connection.input.drain(..used);
        taken.map(|()| count)
    }

    fn take(&mut self, arrived: Arrived<'_>) -> Result<(), ConnectionEnd> {
        let (raw, now) = (arrived.raw, arrived.at);
        if self.connection.phase != Phase::Up {
            return self.take_logon(&raw, now);
        }
        if raw.template_id == Heartbeat::TEMPLATE_ID {
            return Ok(());
        }
        let is_batch = raw.template_id == EventBatch::TEMPLATE_ID;
        self.end.take(arrived, &mut self.port)?;
        if is_batch {
            self.port.batch_taken(self.end.next_record(), arrived.len as u64);
        }
        if self.port.has_begun_anew() {
            self.begin_anew();
        }
        if self.end.is_linked() && !std::mem::replace(&mut self.is_told, true) {
            self.is_opened();
        }
        if self.end.is_open() {
            self.connection.is_well();
        }
        Ok(())
    }

    fn take_logon(&mut self, raw: &RawMessage<'_>, now: Nanos) -> Result<(), ConnectionEnd> {
        match NodeMessage::decode(raw).map_err(LinkFault::from)? {
            NodeMessage::Challenge(challenge) => self.connection.answer_challenge(&challenge),
            NodeMessage::LogonAck(..) => {
                self.connection.is_let_in();
                self.end.connected(now);
            }
            NodeMessage::LogonReject(reject) => return Err(ConnectionEnd::Refused(reject.reason)),
            NodeMessage::Logout(logout) => return Err(LinkFault::Closed(logout.reason).into()),
            _ => return Err(LinkFault::OutOfPlace("a message before the logon").into()),
        }
        Ok(())
    }

    /// The events before are gone: sessions log on again.
    fn begin_anew(&mut self) {
        self.end.unbind_all();
        self.asked.clear();
        self.unasked.clear();
    }

    /// The link is open: control is told the grants, and open requests are made again.
    fn is_opened(&mut self) {
        tracing::info!(partition = self.partition_id.0, "a link is open");
        self.away_told_at = None;
        self.opened += 1;
        if self.partition_id.is_none() {
            let grants = self.end.grants();
            for part in grants.chunks(GRANTS_MAX) {
                let head = KeepClaims { session_id: self.session_id, is_last: Switch::Off };
                self.end.put_with_group(&head, part);
            }
            let head = KeepClaims { session_id: self.session_id, is_last: Switch::On };
            self.end.put_with_group::<_, weir_link::message::HeldGrant>(&head, &[]);
        }
        let again = std::mem::take(&mut self.asked);
        again.into_values().rev().for_each(|ask| self.unasked.push_front(ask));
        self.port.tell(LinkAnswer::Opened(self.end.end_record()));
    }

    /// The connection is lost, or given up.
    fn end(&mut self, why: &ConnectionEnd, now: Nanos) {
        let address = self.connection.partition().address;
        let is_long_ago = |at| now.since(at).0 >= TELL_AWAY_INTERVAL;
        let partition = self.partition_id.0;
        if matches!(why, ConnectionEnd::Fault(LinkFault::Closed(Reason::TakenOver))) {
            let session = self.session_id.0;
            tracing::error!(partition, session, "another process runs as this gateway's session");
            self.connection.is_taken_over(now);
        } else if self.is_told || self.away_told_at.is_none_or(is_long_ago) {
            self.away_told_at = Some(now);
            tracing::warn!(partition, %address, %why, "a link is away");
        }
        self.losses += 1;
        self.last_loss = Some(why.to_string());
        self.connection.end(now);
        self.end.disconnected();
        self.is_full = false;
        if std::mem::take(&mut self.is_told) {
            self.port.tell(LinkAnswer::Away);
        }
    }

    /// Takes the gateway's requests; false while one has to wait, and those behind it.
    fn take_requests(&mut self, now: Nanos) -> bool {
        while let Ok(submission) = self.port.source.submissions.peek() {
            let command = submission.command;
            if let Command::Request(request) = command
                && !self.take_request(request, now)
            {
                return false;
            }
            // A linked port has no other commands.
            let _ = self.port.source.submissions.pop();
        }
        true
    }

    fn take_request(&mut self, request: Request, now: Nanos) -> bool {
        match self.end.hand_over(LinkCommand { request, trace_id: 0, t0: now }) {
            HandOver::Taken | HandOver::UnderWay => return true,
            HandOver::NoRoom if self.end.is_linked() => return false,
            HandOver::NoRoom | HandOver::NotBound => {}
        }
        self.port.refuse(RequestName::of(&request), Reason::PartitionAway);
        true
    }

    /// Takes the gateway's questions, each behind the requests before it; returns their number.
    fn take_asks(&mut self, now: Nanos) -> usize {
        let mut count = 0;
        loop {
            let ask = self.port.next_ask();
            let waits = !self.take_requests(now);
            let Some(ask) = ask else { return count };
            // Requests that wait hold up no end of a session: they may be its own, and then they
            // are refused. A binding stays behind them, since they may be of the one before.
            if waits && matches!(ask, LinkAsk::Bind(..)) {
                return count;
            }
            self.port.ask_taken();
            count += 1;
            self.take_ask(ask);
        }
    }

    fn take_ask(&mut self, ask: LinkAsk) {
        let session_id = self.session_id;
        match ask {
            LinkAsk::Check(id, point) => {
                // Without a link the gateway knows that the partition is away.
                let _is_asked = self.end.check(id, point);
            }
            LinkAsk::Claim(id, takeover) => {
                let heard = Nanos(0);
                let claim = ClaimSession { heard, session_id, bound_session_id: id, takeover };
                self.end.put(&claim);
            }
            LinkAsk::Bind(ask) if self.end.is_linked() => {
                self.port.note_ask(&ask);
                self.end.bind(ask.wanted, &mut self.port);
            }
            LinkAsk::Bind(..) => {}
            LinkAsk::Unbind(id, generation, is_ended) => {
                if self.end.generation_of(id) == Some(generation) {
                    self.end.unbind(id, is_ended);
                }
            }
            LinkAsk::Release(id, generation) => {
                let release = ReleaseSession { generation, session_id, bound_session_id: id };
                self.end.put(&release);
            }
        }
    }

    /// Sends requests for old records, as many as may be open.
    fn ask_for_records(&mut self) {
        while self.end.is_linked()
            && self.asked.len() < ASKS_MAX
            && let Some(ask) = self.unasked.pop_front()
        {
            let (from_record, numbers) = match &ask.lacking {
                Lacking::From(first) => (*first, Vec::new()),
                Lacking::These(numbers) => (0, numbers.clone()),
            };
            let head = AskRecords {
                number: ask.number,
                from_record,
                session_id: self.session_id,
                partition_id: self.partition_id,
                is_urgent: Switch::Off,
            };
            let entry = |record| RecordNo { record };
            let entries: Vec<_> = numbers.into_iter().map(entry).collect();
            self.end.put_with_group(&head, &entries);
            self.asked.insert(ask.number, ask);
        }
    }

    /// Hands pages of old records to the gateway; returns their number.
    fn take_pages(&mut self, old: &mut OldRecordsEnd) -> usize {
        let mut count = 0;
        while let Some(page) = self.port.pages.pop_front() {
            count += 1;
            let Some(ask) = self.asked.remove(&page.head.number) else { continue };
            if page.head.epoch == self.end.epoch() {
                old.answer(ask.number, page.records, self.port.epoch_changes());
            } else {
                // An epoch has ended since, or its end is still to come.
                self.unasked.push_back(ask);
            }
        }
        count
    }

    fn serve(&mut self, old: &mut OldRecordsEnd, now: Nanos) -> Result<usize, ConnectionEnd> {
        let mut done = self.take_asks(now);
        done += self.take_pages(old);
        self.ask_for_records();
        self.port.publish();
        let read = self.port.take_read();
        if read > 0 {
            self.end.use_bytes(read, now);
        }
        self.end.flush(now);
        self.end.tick(now)?;
        if self.end.has_lapsed(now) {
            self.port.tell(LinkAnswer::Lapsed);
        }
        let load = self.end.load().permille;
        if std::mem::replace(&mut self.load, load) != load {
            self.port.tell(LinkAnswer::Load(load));
        }
        if self.connection.phase == Phase::Up {
            let output = self.end.take_output();
            done += usize::from(!output.is_empty());
            self.connection.output.extend_from_slice(&output);
        }
        self.connection.flush()?;
        Ok(done)
    }

    fn report(&self) -> UplinkReport {
        UplinkReport {
            open: self.is_told,
            unanswered: self.end.kept_count() as u64,
            load_permille: u64::from(self.end.load().permille),
            opened: self.opened,
            losses: self.losses,
            partition: self.partition_id.0,
            address: self.connection.partition().address.to_string(),
            last_loss: self.last_loss.clone(),
        }
    }

    fn next_deadline(&self, now: Nanos) -> Nanos {
        let retry = self.is_full || self.port.has_waiting() || self.connection.has_more();
        let own = self.connection.next_deadline(now).unwrap_or(Nanos(u64::MAX));
        let retry = if retry { Nanos(now.0 + RETRY_INTERVAL) } else { Nanos(u64::MAX) };
        own.min(retry).min(Nanos(now.0 + CARE_INTERVAL))
    }
}

/// The agent of all links of a gateway process.
pub struct UplinkAgent {
    poll: Poll,
    events: Events,
    scratch: Scratch,
    uplinks: Vec<Uplink>,
    old: OldRecordsEnd,
    /// True while control cannot be reached: no session can log on.
    is_cut_off: Arc<AtomicBool>,
    board: Arc<UplinksBoard>,
    next_show: Nanos,
}

impl UplinkAgent {
    /// Returns an agent without connections. The links are in the order of the gateway's ports,
    /// control's first. The flag is set while that one is away.
    ///
    /// # Errors
    /// When the operating system refuses a poll.
    pub fn new(
        uplinks: Vec<Uplink>,
        old: OldRecordsEnd,
        is_cut_off: Arc<AtomicBool>,
        board: Arc<UplinksBoard>,
    ) -> std::io::Result<UplinkAgent> {
        let (poll, events) = (Poll::new()?, Events::with_capacity(256));
        is_cut_off.store(true, Ordering::Relaxed);
        let (scratch, next_show) = (Scratch::new(), Nanos(0));
        Ok(UplinkAgent { poll, events, scratch, uplinks, old, is_cut_off, board, next_show })
    }

    /// Begins connections whose pause is over.
    fn connect(&mut self, now: Nanos) {
        for (index, uplink) in self.uplinks.iter_mut().enumerate() {
            if !uplink.connection.is_rested(now) {
                continue;
            }
            let (registry, token) = (self.poll.registry(), Token(FIRST + index));
            if let Err(why) = uplink.connection.connect(registry, token, now) {
                uplink.end(&why, now);
            }
        }
    }

    fn take_old_asks(&mut self) {
        while let Some(ask) = self.old.next_ask() {
            let uplink = &mut self.uplinks[ask.port];
            let is_listed = matches!(ask.lacking, Lacking::These(_));
            // The agent takes no batch while the gateway has much to read.
            assert!(is_listed, "the gateway's reader was overtaken: it restarts with the process");
            uplink.unasked.push_back(ask);
        }
    }
}

impl Agent for UplinkAgent {
    fn name(&self) -> &'static str {
        "uplinks"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        self.connect(now);
        self.take_old_asks();
        let mut done = 0;
        for (port, uplink) in self.uplinks.iter_mut().enumerate() {
            let read = uplink.read(&mut self.scratch, now);
            let served = read.and_then(|count| Ok(count + uplink.serve(&mut self.old, now)?));
            match served {
                Ok(count) => done += count,
                Err(why) => {
                    done += 1;
                    uplink.end(&why, now);
                    uplink.port.publish();
                }
            }
            if uplink.asked.is_empty() && uplink.unasked.is_empty() && !uplink.is_told {
                self.old.forget(port);
            }
        }
        let is_cut_off = self.uplinks.first().is_none_or(|control| !control.is_told);
        // SYNC: a flag alone, for the health page.
        self.is_cut_off.store(is_cut_off, Ordering::Relaxed);
        if now >= self.next_show {
            self.next_show = Nanos(now.0 + CARE_INTERVAL);
            self.board.show(self.uplinks.iter().map(Uplink::report).collect());
        }
        done
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        self.uplinks.iter().map(|uplink| uplink.next_deadline(now)).min()
    }

    fn stop(&mut self, _now: Nanos) -> bool {
        self.uplinks.iter_mut().for_each(|uplink| uplink.connection.say_farewell());
        true
    }
}

impl Poller for UplinkAgent {
    fn poll(&mut self, timeout: Option<Duration>) {
        if let Err(error) = self.poll.poll(&mut self.events, timeout) {
            let is_interrupted = error.kind() == std::io::ErrorKind::Interrupted;
            assert!(is_interrupted, "the poll of the links failed: {error}");
            return;
        }
        for event in &self.events {
            if let Some(index) = event.token().0.checked_sub(FIRST)
                && let Some(uplink) = self.uplinks.get_mut(index)
            {
                uplink.connection.on_event(event);
            }
        }
    }

    fn waker(&self) -> std::io::Result<weir_io::net::Waker> {
        Ok(mio::Waker::new(self.poll.registry(), WAKER)?.into())
    }
}
