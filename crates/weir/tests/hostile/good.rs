//! Ten sessions that trade on a fixed schedule, and the latency of each answer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weir_client::clock::wait;
use weir_client::request::{cancel, stamp};
use weir_client::session::{SessionEvent, Submit, Times};
use weir_client::{Client, Incoming, Limits};
use weir_types::{ClOrdId, RequestNo};
use weir_wire::Request;

use crate::ledger::Ledger;
use crate::support::{HANG, INSTRUMENT, Node, TRADING, Who, trader_of};

pub const GOOD: [Who; 10] = [
    trader_of(21),
    trader_of(22),
    trader_of(23),
    trader_of(24),
    trader_of(25),
    trader_of(26),
    trader_of(27),
    trader_of(28),
    trader_of(29),
    trader_of(30),
];
/// Requests per second, over all ten sessions.
pub const RATE: u64 = 500;

pub struct GoodTrader {
    who: Who,
    client: Client,
    pub ledger: Ledger,
    /// The time at which each unanswered request was due.
    due: BTreeMap<RequestNo, Instant>,
}

impl GoodTrader {
    fn log_on(node: &Node, who: Who) -> GoodTrader {
        let mut client = Client::connect(node.address(), Limits::default()).unwrap();
        client.log_on(who.patient_config(), HANG).unwrap();
        GoodTrader { who, client, ledger: Ledger::new(who.session_id), due: BTreeMap::new() }
    }

    fn send(&mut self, number: u64, due: Instant) {
        // Even sessions sell and odd ones buy, at one price: each order trades or rests, and is
        // answered.
        let request = match self.who.session_id.0 % 2 {
            0 => self.who.sell(number, 100, 1),
            _ => self.who.buy(number, 100, 1),
        };
        self.submit(request, due);
    }

    fn submit(&mut self, request: Request, due: Instant) {
        let sent = self.client.submit(self.who.session_id, TRADING, request, Times::default());
        let Submit::Sent(request_no) = sent else { panic!("{:?}: {sent:?}", self.who) };
        let request = stamp(request, self.who.session_id, request_no);
        self.ledger.sent.insert(request_no, request);
        self.due.insert(request_no, due);
        self.client.flush().expect("a good session is never cut");
    }

    fn receive(&mut self, latencies: &mut Vec<u64>) {
        let GoodTrader { client, ledger, due, .. } = self;
        let received = client.receive(|incoming, _| {
            let Incoming::Session(_, event) = incoming else { return };
            let answered = match &event {
                SessionEvent::Report { answered, .. }
                | SessionEvent::Rejected { answered, .. }
                | SessionEvent::Done { answered, .. } => answered.as_ref(),
                _ => None,
            };
            if let Some(answered) = answered {
                let due = due.remove(&answered.request_no).expect("an answer to a request");
                latencies.push(u64::try_from(due.elapsed().as_nanos()).expect("short"));
            }
            // A logout, a refusal or a gap in the numbers fails the test here.
            ledger.hear(&event);
        });
        received.expect("a good session is never cut");
    }
}

pub struct Good {
    pub traders: Vec<GoodTrader>,
    numbers: u64,
}

impl Good {
    pub fn log_on(node: &Node) -> Good {
        Good { traders: GOOD.map(|who| GoodTrader::log_on(node, who)).into(), numbers: 0 }
    }

    /// Receives everything reported so far: the answer to a cancel that changes nothing comes after
    /// the fills of resting orders.
    pub fn settle(&mut self) {
        let nothing = ClOrdId::new("no-such-order").expect("a short name");
        for trader in &mut self.traders {
            trader.submit(cancel(nothing, nothing, INSTRUMENT), Instant::now());
        }
        self.trade(Duration::ZERO);
    }

    /// Trades for `length`, each request at its due time regardless of earlier ones, and waits for
    /// the last answer. Returns the sorted times from due time to answer, in nanoseconds.
    pub fn trade(&mut self, length: Duration) -> Vec<u64> {
        let mut latencies = Vec::new();
        let begun = Instant::now();
        let interval = Duration::from_nanos(1_000_000_000 / RATE);
        let mut due = begun;
        loop {
            let now = Instant::now();
            while due <= now && due < begun + length {
                let trader = (self.numbers % self.traders.len() as u64) as usize;
                self.numbers += 1;
                self.traders[trader].send(self.numbers, due);
                due += interval;
            }
            for trader in &mut self.traders {
                trader.receive(&mut latencies);
            }
            if due >= begun + length && self.traders.iter().all(|trader| trader.due.is_empty()) {
                break;
            }
            assert!(begun.elapsed() < length + HANG, "a good request has no answer");
            let idle = due.saturating_duration_since(Instant::now()).min(Duration::from_millis(5));
            wait(self.traders.iter().map(|trader| trader.client.connection()), idle).unwrap();
        }
        latencies.sort_unstable();
        latencies
    }
}
