//! Sessions that come and go: they trade and log out, or drop their connection with orders in the
//! book and requests on the way, or have a wrong key, or send no frames at all.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::thread::Scope;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use serde_json::{Value, json};
use weir_client::load::Trader;
use weir_client::request::{LimitOrder, cancel, cancel_all};
use weir_client::session::{Submit, Times};
use weir_client::{Client, ClientError, Limits, SessionConfig};
use weir_types::{ClOrdId, InstrumentId, PartitionId, Price, Qty, Reason, Side, TimeInForce};
use weir_wire::Request;
use weir_wire::session::ApiKey;

use super::market::Market;
use super::node::Node;
use super::{Life, TIMEOUT};

/// The pause between two visits.
const PAUSE: Duration = Duration::from_millis(50);
const LOGON_RETRY: Duration = Duration::from_millis(5);
/// The orders of a visit.
const ORDERS: u64 = 10;
/// A price at which nobody sells.
const PRICE: Price = Price(1);

/// The kinds of visits, in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visit {
    /// Enters and cancels orders, and logs out.
    Trade,
    /// Enters orders and drops the connection before their answers.
    Drop,
    /// The same with cancel-on-disconnect.
    DropAndCancel,
    /// Logs on with a key of no session.
    WrongKey,
    /// Sends bytes that are no frames.
    Garbage,
    /// Connects and leaves.
    HangUp,
}

const VISITS: [Visit; 7] = [
    Visit::Trade,
    Visit::Drop,
    Visit::WrongKey,
    Visit::Trade,
    Visit::DropAndCancel,
    Visit::Garbage,
    Visit::HangUp,
];

/// The sessions that come and go.
pub(super) struct Visitors {
    sessions: Vec<Trader>,
    instrument_id: InstrumentId,
    partition_id: PartitionId,
    visits: u64,
    answered: u64,
    refused: u64,
}

impl Visitors {
    pub(super) fn new(market: &Market) -> Visitors {
        let listing = market.listings[0];
        Visitors {
            sessions: market.visitors.clone(),
            instrument_id: listing.instrument_id,
            partition_id: listing.partition_id,
            visits: 0,
            answered: 0,
            refused: 0,
        }
    }

    pub(super) fn counts(&self) -> Value {
        json!({ "visits": self.visits, "answered": self.answered, "wrong_keys": self.refused })
    }

    /// Begins the visits on a thread of their own, until the parties are to stop.
    pub(super) fn start<'scope, 'env>(
        &'env mut self,
        scope: &'scope Scope<'scope, 'env>,
        Life { node, errors, .. }: Life<'env>,
    ) {
        scope.spawn(move || {
            while !node.stop_parties().load(Ordering::Relaxed) {
                let turn = usize::try_from(self.visits).expect("fewer visits");
                let visit = VISITS[turn % VISITS.len()];
                let outcome = self.visit(node, visit, turn % self.sessions.len());
                self.visits += 1;
                if errors.note(&format!("visitor ({visit:?})"), outcome).is_none() {
                    return;
                }
                std::thread::sleep(PAUSE);
            }
        });
    }

    fn visit(&mut self, node: &Node, visit: Visit, place: usize) -> anyhow::Result<()> {
        match visit {
            Visit::Trade => self.trade(node, place),
            Visit::Drop | Visit::DropAndCancel => {
                let cancel_on_disconnect = visit == Visit::DropAndCancel;
                let session = self.sessions[place].session;
                let config = SessionConfig { cancel_on_disconnect, ..session };
                let mut client = log_on(node, config)?;
                for number in 0..ORDERS {
                    self.submit(&mut client, place, self.order(place, number))?;
                }
                client.flush()?;
                Ok(())
            }
            Visit::WrongKey => self.knock(node, place),
            Visit::Garbage => {
                TcpStream::connect(node.order_entry())?.write_all(&[0xee; 64])?;
                Ok(())
            }
            Visit::HangUp => {
                TcpStream::connect(node.order_entry())?;
                Ok(())
            }
        }
    }

    /// Cancels the orders that earlier visits left, enters new ones, cancels half of them, and logs
    /// out when all is answered.
    fn trade(&mut self, node: &Node, place: usize) -> anyhow::Result<()> {
        let mut client = log_on(node, self.sessions[place].session)?;
        self.submit(&mut client, place, cancel_all(self.partition_id))?;
        let mut sent = 1;
        for number in 0..ORDERS {
            let order = self.order(place, number);
            let Request::NewOrder(new) = order else { bail!("{order:?} is no new order") };
            self.submit(&mut client, place, order)?;
            sent += 1;
            if number % 2 == 0 {
                let cancelled = cancel(new.cl_ord_id, new.cl_ord_id, self.instrument_id);
                self.submit(&mut client, place, cancelled)?;
                sent += 1;
            }
        }
        let begun = Instant::now();
        while client.sessions()[0].unanswered_count() > 0 {
            let left = client.sessions()[0].unanswered_count();
            ensure!(begun.elapsed() < TIMEOUT, "{left} of {sent} requests are not answered");
            client.poll(TIMEOUT, |_, _| {})?;
        }
        self.answered += sent;
        client.log_out(TIMEOUT)?;
        Ok(())
    }

    /// Tries a wrong key, which must be refused by its reason.
    fn knock(&mut self, node: &Node, place: usize) -> anyhow::Result<()> {
        let session_id = self.sessions[place].session.session_id;
        let wrong = SessionConfig::new(session_id, ApiKey([0xee; 32]));
        let mut client = Client::connect(node.order_entry(), Limits::default())?;
        match client.log_on(wrong, TIMEOUT) {
            Err(ClientError::LogonRejected { reason: Reason::UnknownKey, .. }) => {
                self.refused += 1;
                Ok(())
            }
            other => bail!("a wrong key: {other:?}"),
        }
    }

    fn submit(&self, client: &mut Client, place: usize, request: Request) -> anyhow::Result<()> {
        let session_id = self.sessions[place].session.session_id;
        match client.submit(session_id, self.partition_id, request, Times::default()) {
            Submit::Sent(_) => Ok(()),
            other => bail!("a request was not sent: {other:?}"),
        }
    }

    fn order(&self, place: usize, number: u64) -> Request {
        let order = LimitOrder {
            // Unique in the session as long as a visit is longer than its number of orders in ns.
            cl_ord_id: ClOrdId::from_number(weir_client::clock::unix_time().0 + number),
            instrument_id: self.instrument_id,
            account_id: self.sessions[place].account_id,
            side: Side::Buy,
            price: PRICE,
            order_qty: Qty(1),
            time_in_force: TimeInForce::Gtc,
        };
        order.request()
    }
}

/// Logs on as soon as the session's previous connection counts as gone.
fn log_on(node: &Node, config: SessionConfig) -> anyhow::Result<Client> {
    let begun = Instant::now();
    loop {
        let mut client = Client::connect(node.order_entry(), Limits::default())?;
        match client.log_on(config, TIMEOUT) {
            Ok(()) => return Ok(client),
            Err(ClientError::LogonRejected { reason: Reason::AlreadyLoggedOn, .. }) => {
                ensure!(begun.elapsed() < TIMEOUT, "the session's place does not become free");
                std::thread::sleep(LOGON_RETRY);
            }
            Err(error) => return Err(error.into()),
        }
    }
}
