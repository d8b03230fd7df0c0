//! A test's trader: the real client with one session, and an inbox of events not yet taken.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use weir_client::request::cancel;
use weir_client::session::{Session, SessionEvent, Submit, Times};
use weir_client::{Client, ClientError, Incoming, Limits, SessionConfig, Target};
use weir_types::{ClOrdId, Epoch, EventNo, PartitionId, RequestNo};
use weir_wire::Request;
use weir_wire::event::OrderEvent;
use weir_wire::report::ExecutionReport;

use super::{HANG, INSTRUMENT, Node, TRADING, Who, until_free};

pub struct Trader {
    pub who: Who,
    pub client: Client,
    heard: Heard,
}

/// A session's saved position: its last event and that event's epoch.
pub type Mark = (EventNo, Epoch);

#[derive(Default)]
struct Heard {
    /// Received events that no caller has taken.
    inbox: VecDeque<SessionEvent>,
    /// Every report received, taken or not.
    reports: Vec<ExecutionReport>,
}

impl Trader {
    /// Logs on without asking for old events.
    pub fn log_on(node: &Node, who: Who) -> Trader {
        Trader::log_on_as(node, who, who.config())
    }

    /// As [`Trader::log_on`], through a target other than the node's own address.
    pub fn log_on_at(target: Target, who: Who) -> Trader {
        Trader::open(&target, who, || Session::new(who.config())).unwrap()
    }

    pub fn log_on_as(node: &Node, who: Who, config: SessionConfig) -> Trader {
        Trader::open(&node.address().into(), who, || Session::new(config)).unwrap()
    }

    /// Logs on and asks for the partition's events from `from` on, without naming the epoch of the
    /// earlier ones.
    pub fn resume(node: &Node, who: Who, from: EventNo) -> Result<Trader, ClientError> {
        Trader::resume_at(node.address().into(), who, from)
    }

    /// As [`Trader::resume`], through a target other than the node's own address.
    pub fn resume_at(target: Target, who: Who, from: EventNo) -> Result<Trader, ClientError> {
        Trader::open(&target, who, || {
            let mut session = Session::new(who.config());
            session.resume_after(TRADING, EventNo(from.0 - 1), Epoch::NONE);
            session
        })
    }

    /// Logs on and resumes after event `last` of `epoch`.
    pub fn go_on(node: &Node, who: Who, mark: Mark) -> Result<Trader, ClientError> {
        Trader::go_on_in(node, who, &[(TRADING, mark)])
    }

    /// Logs on and resumes in each of these partitions after the event of its mark.
    pub fn go_on_in(
        node: &Node,
        who: Who,
        marks: &[(PartitionId, Mark)],
    ) -> Result<Trader, ClientError> {
        Trader::open(&node.address().into(), who, || {
            let mut session = Session::new(who.config());
            for (partition_id, (last, epoch)) in marks {
                session.resume_after(*partition_id, *last, *epoch);
            }
            session
        })
    }

    fn open(
        target: &Target,
        who: Who,
        session: impl Fn() -> Session,
    ) -> Result<Trader, ClientError> {
        until_free(|| {
            let mut client = Client::connect(target.clone(), Limits::default())?;
            client.start_logon(session());
            let mut heard = Heard::default();
            client.wait_until_open(HANG, &mut |incoming, _| heard.keep(incoming))?;
            Ok(Trader { who, client, heard })
        })
    }

    /// Returns the node's trading partition; [`TRADING`] where it has none.
    pub fn partition(&self) -> PartitionId {
        let session = self.client.session(self.who.session_id).expect("it is open");
        let mut trading = session.partitions().filter(|id| !id.is_none());
        trading.next().unwrap_or(TRADING)
    }

    /// Sends a request without waiting for its answer.
    pub fn send(&mut self, request: Request) -> RequestNo {
        self.send_to(self.partition(), request)
    }

    /// Sends a request to a partition without waiting for its answer.
    pub fn send_to(&mut self, partition_id: PartitionId, request: Request) -> RequestNo {
        let times = Times::default();
        match self.client.submit(self.who.session_id, partition_id, request, times) {
            Submit::Sent(request_no) => request_no,
            other => panic!("{request:?} was not sent: {other:?}"),
        }
    }

    /// Handles incoming messages for at most `timeout`.
    pub fn poll(&mut self, timeout: Duration) -> Result<usize, ClientError> {
        let heard = &mut self.heard;
        self.client.poll(timeout, |incoming, _| heard.keep(incoming))
    }

    /// Takes the first event that `pick` selects, already received or still to come, and leaves the
    /// others in the inbox.
    pub fn next<T>(&mut self, what: &str, mut pick: impl FnMut(&SessionEvent) -> Option<T>) -> T {
        let begun = Instant::now();
        let mut seen = 0;
        loop {
            while seen < self.heard.inbox.len() {
                if let Some(picked) = pick(&self.heard.inbox[seen]) {
                    self.heard.inbox.remove(seen);
                    return picked;
                }
                seen += 1;
            }
            assert!(begun.elapsed() < HANG, "{what} did not come: {:?}", self.heard.inbox);
            self.poll(Duration::from_millis(100)).unwrap();
        }
    }

    /// Takes the first event that `pick` selects among those received.
    pub fn take_if<T>(&mut self, mut pick: impl FnMut(&SessionEvent) -> Option<T>) -> Option<T> {
        let mut picked = None;
        let index = self.heard.inbox.iter().position(|event| {
            picked = pick(event);
            picked.is_some()
        });
        self.heard.inbox.remove(index?);
        picked
    }

    /// Returns the first answer to a request.
    pub fn answer(&mut self, request_no: RequestNo) -> SessionEvent {
        self.next("an answer", |event| {
            let answered = match event {
                SessionEvent::Report { answered, .. }
                | SessionEvent::Rejected { answered, .. }
                | SessionEvent::Done { answered, .. }
                | SessionEvent::Refused { answered, .. } => answered.as_ref(),
                _ => None,
            };
            answered.filter(|answered| answered.request_no == request_no).map(|_| event.clone())
        })
    }

    /// Sends a request and returns its first answer.
    pub fn ask(&mut self, request: Request) -> SessionEvent {
        let request_no = self.send(request);
        self.answer(request_no)
    }

    /// As [`Trader::ask`], for requests that are answered by a report.
    pub fn ask_for_report(&mut self, request: Request) -> OrderEvent {
        match self.ask(request) {
            SessionEvent::Report { report, .. } => report.event,
            other => panic!("{request:?} was answered by {other:?}"),
        }
    }

    /// Returns the next report that satisfies `is_wanted`.
    pub fn report_where(&mut self, is_wanted: impl Fn(&OrderEvent) -> bool) -> OrderEvent {
        self.next("a report", |event| match event {
            SessionEvent::Report { report, .. } if is_wanted(&report.event) => Some(report.event),
            _ => None,
        })
    }

    /// Returns every report so far, in order of arrival.
    pub fn reports(&self) -> &[ExecutionReport] {
        &self.heard.reports
    }

    /// Waits for all events that the partition has reported to this session so far: sends a cancel
    /// that changes nothing, and its reject comes after them.
    pub fn settle(&mut self) {
        let nothing = ClOrdId::new("no-such-order").expect("a short name");
        let answer = self.ask(cancel(nothing, nothing, INSTRUMENT));
        assert!(matches!(answer, SessionEvent::Rejected { .. }), "{answer:?}");
    }

    /// Clears the inbox; [`Trader::reports`] keeps the reports.
    pub fn forget(&mut self) {
        self.heard.inbox.clear();
    }

    /// Returns the number of the last event received.
    pub fn last_event_no(&self) -> EventNo {
        self.mark().0
    }

    /// Returns the number of the last event received, and its epoch.
    pub fn mark(&self) -> Mark {
        self.mark_in(TRADING)
    }

    /// Returns the number of the last event received of a partition, and its epoch.
    pub fn mark_in(&self, partition_id: PartitionId) -> Mark {
        let session = self.client.session(self.who.session_id).expect("it has logged on");
        (session.last_event_no(partition_id), session.epoch(partition_id))
    }
}

impl Heard {
    fn keep(&mut self, incoming: Incoming<'_>) {
        let Incoming::Session(_, event) = incoming else { return };
        match event {
            SessionEvent::Heartbeat(_) | SessionEvent::Challenged | SessionEvent::Opened { .. } => {
                return;
            }
            SessionEvent::Report { report, .. } => self.reports.push(report),
            _ => {}
        }
        self.inbox.push_back(event);
    }
}
