//! A trader that keeps a window of requests in flight, loses its node and comes back.

use std::net::SocketAddr;

use weir_client::load::Rng;
use weir_client::request::{Replace, cancel, stamp};
use weir_client::session::{Session, SessionEvent, Submit, Times};
use weir_client::{Client, ClientError, Incoming, Limits};
use weir_types::{ClOrdId, Epoch, EventNo, ExecInst, Price, Qty, Side, TimeInForce};
use weir_wire::Request;
use weir_wire::dialogue::put_request;

use crate::ledger::Ledger;
use crate::support::{HANG, INSTRUMENT, Node, TRADING, Who};

/// The most requests in flight.
const WINDOW: usize = 48;
/// The most events by which a session rewinds its resume point.
const REWIND_MAX: u64 = 100;
/// The most answered requests that are sent again.
const REPEATS: usize = 20;

pub struct LoadedTrader {
    pub who: Who,
    pub ledger: Ledger,
    /// The number of requests sent again because they had no answer.
    pub resubmitted_count: u64,
    /// The number of requests sent again although they had one.
    pub repeated_count: u64,
    /// The number of refused resumes.
    pub refused_count: u64,
    /// The first received event that the node has lost, according to its log, before a reconnect.
    pub lost_from: Option<EventNo>,
    client: Option<Client>,
    is_connected: bool,
    rng: Rng,
    name: u64,
}

impl LoadedTrader {
    pub fn log_on(node: &Node, who: Who, rng: Rng) -> LoadedTrader {
        let mut trader = LoadedTrader {
            who,
            ledger: Ledger::new(who.session_id),
            resubmitted_count: 0,
            repeated_count: 0,
            refused_count: 0,
            lost_from: None,
            client: None,
            is_connected: false,
            rng,
            name: 0,
        };
        let client = Client::connect(node.address(), Limits::default()).unwrap();
        trader.open(client, Session::new(who.patient_config())).unwrap();
        trader
    }

    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    pub fn client(&self) -> &Client {
        self.client.as_ref().expect("a trader has had a connection")
    }

    pub fn unanswered_count(&self) -> usize {
        self.client().sessions()[0].unanswered_count()
    }

    fn open(&mut self, mut client: Client, session: Session) -> Result<(), ClientError> {
        client.start_logon(session);
        let (ledger, again) = (&mut self.ledger, &mut self.resubmitted_count);
        let opened = client.wait_until_open(HANG, &mut |incoming, _| hear(incoming, ledger, again));
        self.client = Some(client);
        self.is_connected = opened.is_ok();
        opened
    }

    /// Reconnects to a restarted node, resumes before the last known event, and sends again the
    /// requests without an answer and some of those with one. If the node is gone already, the
    /// trader stays away.
    pub fn come_back(&mut self, address: SocketAddr) {
        let client = match Client::connect(address, Limits::default()) {
            Ok(client) => client,
            Err(error) => return assert!(error.is_connection_lost(), "{error}"),
        };
        let before = self.client.take().expect("a trader has had a connection");
        let mut session = before.into_sessions().pop().expect("it carried one session");
        let last = session.last_event_no(TRADING).0;
        let back = self.rng.below(REWIND_MAX).min(last);
        session.resume_after(TRADING, EventNo(last - back), session.epoch(TRADING));
        match self.open(client, session) {
            Ok(()) => self.repeat_some(),
            Err(error) => assert!(error.is_connection_lost(), "{:?}: {error}", self.who),
        }
    }

    /// Reconnects to a node that may have lost answers, and repeats no request by itself: requests
    /// without an answer are dropped, since in a new history their numbers could mean something
    /// else. The resume is refused exactly if the trader received a lost event, and the refusal
    /// names that event.
    pub fn come_back_to_less(&mut self, address: SocketAddr) {
        self.ledger.forget_from(self.ledger.last_event_no().next());
        let epoch = self.client().sessions()[0].epoch(TRADING);
        match self.open_anew(address, epoch) {
            Ok(()) => assert_eq!(self.lost_from, None, "{:?} was led on", self.who),
            Err(ClientError::OtherHistory { partition_id: TRADING, other_from, epoch, .. }) => {
                assert_eq!(Some(other_from), self.lost_from, "what {:?} is told", self.who);
                self.refused_count += 1;
                self.ledger.forget_from(other_from);
                self.open_anew(address, epoch).unwrap();
            }
            Err(error) => panic!("{:?}: {error}", self.who),
        }
    }

    /// Logs on with a session that knows only the last event and its epoch.
    fn open_anew(&mut self, address: SocketAddr, epoch: Epoch) -> Result<(), ClientError> {
        let mut session = Session::new(self.who.patient_config());
        session.resume_after(TRADING, self.ledger.last_event_no(), epoch);
        let client = Client::connect(address, Limits::default()).unwrap();
        self.open(client, session)
    }

    /// Sends some answered requests again, as a client that lost its state does.
    fn repeat_some(&mut self) {
        if self.rng.below(2) == 0 {
            return;
        }
        let answered = self.ledger.answers.keys().rev().take(REPEATS);
        let requests: Vec<Request> = answered.map(|no| self.ledger.sent[no]).collect();
        let out = self.client.as_mut().expect("it is open").outbox();
        for request in requests.iter().rev() {
            put_request(request, out);
        }
        self.repeated_count += requests.len() as u64;
    }

    /// Sends requests until the window is full.
    pub fn fill_window(&mut self) {
        while self.unanswered_count() < WINDOW {
            let request = self.draw();
            self.submit(request);
        }
        let client = self.client.as_mut().expect("it is open");
        if let Err(error) = client.flush() {
            self.lose(&error);
        }
    }

    fn submit(&mut self, request: Request) {
        let client = self.client.as_mut().expect("it is open");
        match client.submit(self.who.session_id, TRADING, request, Times::default()) {
            Submit::Sent(request_no) => {
                let request = stamp(request, self.who.session_id, request_no);
                let before = self.ledger.sent.insert(request_no, request);
                assert_eq!(before, None, "a number is used once");
            }
            other => panic!("{:?} could not send: {other:?}", self.who),
        }
    }

    /// Sends a cancel that changes nothing; its answer comes after those of all earlier requests.
    pub fn send_fence(&mut self) {
        let nothing = ClOrdId::new("no-such-order").expect("a short name");
        self.submit(cancel(nothing, nothing, INSTRUMENT));
        let client = self.client.as_mut().expect("it is open");
        client.flush().unwrap();
    }

    /// Receives events.
    pub fn receive(&mut self) {
        let (ledger, again) = (&mut self.ledger, &mut self.resubmitted_count);
        let client = self.client.as_mut().expect("it is open");
        if let Err(error) = client.receive(|incoming, _| hear(incoming, ledger, again)) {
            self.lose(&error);
        }
    }

    fn lose(&mut self, error: &ClientError) {
        assert!(matches!(error, ClientError::Closed | ClientError::Io { .. }), "{error}");
        self.is_connected = false;
    }

    /// Returns a request of a random kind, about orders that sometimes cross.
    fn draw(&mut self) -> Request {
        self.name += 1;
        let name = self.name;
        let price = 90 + self.rng.below(20).cast_signed();
        let qty = 1 + self.rng.below(10);
        let live = self.ledger.live();
        let kind = self.rng.below(100);
        if kind < 40 && !live.is_empty() {
            let target = live[self.rng.below(live.len() as u64) as usize];
            if kind < 20 {
                return cancel(ClOrdId::from_number(name), target, INSTRUMENT);
            }
            let replace = Replace {
                cl_ord_id: target,
                orig_cl_ord_id: target,
                instrument_id: INSTRUMENT,
                price: Price(price),
                order_qty: Qty(qty),
            };
            return replace.request();
        }
        let side = if self.rng.below(2) == 0 { Side::Buy } else { Side::Sell };
        let mut order = self.who.order(name, side, price, qty);
        order.time_in_force = match self.rng.below(10) {
            0 | 1 => TimeInForce::Ioc,
            2 => TimeInForce::Fok,
            _ => TimeInForce::Day,
        };
        let mut request = order.request();
        if let Request::NewOrder(order) = &mut request
            && order.time_in_force == TimeInForce::Day
            && self.rng.below(10) == 0
        {
            order.exec_inst = ExecInst::POST_ONLY;
        }
        request
    }
}

fn hear(incoming: Incoming<'_>, ledger: &mut Ledger, resubmitted_count: &mut u64) {
    let Incoming::Session(_, event) = incoming else { return };
    if let SessionEvent::Opened { resubmitted_count: again, .. } = event {
        *resubmitted_count += again as u64;
    }
    ledger.hear(&event);
}
