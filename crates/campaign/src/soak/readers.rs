//! Readers beside the load: a follower of order state in the binary protocol and one by long polls,
//! a desk with drop copy, and a durable subscriber that is away now and then. Each goes on after a
//! restart where it was, and fails on a gap, a repetition or a refusal.

use std::sync::atomic::Ordering;
use std::thread::Scope;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use weir_client::drop_copy::{Beginning, CopyPoint, DropCopy, DropCopyReader};
use weir_client::follower::PageEvent;
use weir_client::session::SessionEvent;
use weir_client::subscription::{NewSubscription, Seen, Subscription, WaitOutcome};
use weir_client::{BrokerClient, Client, ClientError, Follower, FollowerConfig, Incoming, Limits};
use weir_types::{FirmId, SubscriptionKind};

use super::http::get;
use super::market::{Login, Market};
use super::node::Node;
use super::{Life, TIMEOUT};

/// The longest single wait.
const WAIT: Duration = Duration::from_millis(50);
/// The pause between two polls, each of which takes a port of the machine for a minute.
const PAUSE: Duration = Duration::from_millis(20);
/// The name of the durable subscription.
const TAPE: &str = "soak-tape";

/// The readers.
pub(super) struct Readers {
    following: Following,
    polling: Polling,
    desk: Desk,
    pub(super) subscriber: Subscriber,
}

fn is_over(node: &Node) -> bool {
    node.stop_parties().load(Ordering::Relaxed)
}

impl Readers {
    pub(super) fn new(market: &Market, node: &Node) -> anyhow::Result<Readers> {
        let [following, polling, tape] = market.supervisors;
        Ok(Readers {
            following: Following { login: following, token: Vec::new(), rows: 0, resyncs: 0 },
            polling: Polling { login: polling, token: String::new(), pages: 0, resyncs: 0 },
            desk: Desk {
                login: market.desk,
                firm_id: market.load_firm,
                points: Vec::new(),
                copies: 0,
            },
            subscriber: Subscriber::subscribe(tape, node)?,
        })
    }

    pub(super) fn counts(&self) -> Value {
        json!({
            "rows": self.following.rows,
            "resyncs": self.following.resyncs + self.polling.resyncs,
            "pages_over_http": self.polling.pages,
            "copies": self.desk.copies,
            "subscribed_trades": self.subscriber.taken,
            "subscriber_came": self.subscriber.came,
        })
    }

    /// Begins to read, each on a thread of its own, until the parties are to stop.
    pub(super) fn start<'scope, 'env>(
        &'env mut self,
        scope: &'scope Scope<'scope, 'env>,
        Life { node, errors, pace, .. }: Life<'env>,
    ) {
        let Readers { following, polling, desk, subscriber } = self;
        scope.spawn(move || errors.note("follower", following.follow(node)));
        scope.spawn(move || errors.note("long polls", polling.poll(node)));
        scope.spawn(move || errors.note("drop copy", desk.read(node)));
        scope.spawn(move || errors.note("durable subscriber", subscriber.come_and_go(node, pace)));
    }
}

/// Follows the state of all orders.
struct Following {
    login: Login,
    token: Vec<u8>,
    rows: u64,
    resyncs: u64,
}

impl Following {
    fn follow(&mut self, node: &Node) -> anyhow::Result<()> {
        let mut client = Client::connect(node.order_entry(), Limits::default())?;
        client.log_on(self.login.config(), TIMEOUT)?;
        let config = FollowerConfig::new(self.login.session_id);
        let mut follower = Follower::new(config, std::mem::take(&mut self.token));
        follower.ask(client.outbox());
        while !is_over(node) {
            let mut trouble = None;
            client.poll(WAIT, |incoming, out| {
                let heard = self.hear(&mut follower, incoming, out);
                trouble = trouble.take().or(heard.err());
            })?;
            trouble.map_or(Ok(()), Err)?;
        }
        self.token = follower.token().to_vec();
        client.log_out(TIMEOUT)?;
        Ok(())
    }

    fn hear(
        &mut self,
        follower: &mut Follower,
        incoming: Incoming<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ClientError> {
        match incoming {
            Incoming::Page(page, token) => {
                let event = follower.on_page(&page, token, out)?;
                self.resyncs += u64::from(matches!(event, PageEvent::Resync(_)));
            }
            Incoming::Rows(body, rows) => {
                follower.on_rows(&body, rows, |_| self.rows += 1)?;
            }
            Incoming::Session(_, SessionEvent::Refused { reject, .. }) => {
                let (request, subject) = ("FetchOrders", reject.field.to_string());
                return Err(ClientError::Refused { request, reason: reject.reason, subject });
            }
            _ => {}
        }
        Ok(())
    }
}

/// Follows the state of all orders by long polls, each on a connection of its own.
struct Polling {
    login: Login,
    token: String,
    pages: u64,
    resyncs: u64,
}

impl Polling {
    fn poll(&mut self, node: &Node) -> anyhow::Result<()> {
        let authorization = self.login.bearer();
        while !is_over(node) {
            let mut path = "/orders?wait_ms=200".to_owned();
            if !self.token.is_empty() {
                path = format!("{path}&token={}", self.token);
            }
            let (code, body) = get(node.web(), &path, &authorization)?;
            ensure!(matches!(code, 200 | 410), "{code}: {body}");
            let page: Value = serde_json::from_str(&body).with_context(|| body.clone())?;
            self.token = page["token"].as_str().context("a page without a token")?.to_owned();
            self.pages += u64::from(code == 200);
            // The token is behind the store: it begins again with the oldest.
            self.resyncs += u64::from(code == 410);
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// Reads the copies of a firm's reports.
struct Desk {
    login: Login,
    firm_id: FirmId,
    points: Vec<CopyPoint>,
    copies: u64,
}

impl Desk {
    fn read(&mut self, node: &Node) -> anyhow::Result<()> {
        let copies =
            DropCopy::new(self.login.session_id, self.firm_id, Beginning::Now, &self.points);
        let mut reader =
            DropCopyReader::connect(node.order_entry(), self.login.config(), copies, TIMEOUT)?;
        while !is_over(node) {
            self.copies += reader.poll(WAIT, |_, _| {})? as u64;
        }
        self.points = reader.points();
        reader.log_out(TIMEOUT)?;
        Ok(())
    }
}

/// Takes the trades of all instruments from a durable subscription, and is away now and then.
pub(super) struct Subscriber {
    login: Login,
    seen: Seen,
    /// The record of the last trade taken.
    last: u64,
    taken: u64,
    came: u64,
}

impl Subscriber {
    /// Makes the subscription at a node without trades.
    fn subscribe(login: Login, node: &Node) -> anyhow::Result<Subscriber> {
        let mut broker = BrokerClient::new(node.subscriptions(), login.config());
        broker.create(&NewSubscription::new(TAPE, SubscriptionKind::Trades))?;
        Ok(Subscriber { login, seen: Seen::new(), last: 0, taken: 0, came: 0 })
    }

    /// Is there for two thirds of the time, in turns of a `pace`.
    fn come_and_go(&mut self, node: &Node, pace: Duration) -> anyhow::Result<()> {
        while !is_over(node) {
            let came = Instant::now();
            self.attend(node, |_| came.elapsed() >= pace || is_over(node))?;
            let left = Instant::now();
            while left.elapsed() < pace / 2 && !is_over(node) {
                std::thread::sleep(WAIT);
            }
        }
        Ok(())
    }

    /// Takes the trades that are missing, of which clients have been told `reports`, one for each
    /// side.
    pub(super) fn catch_up(&mut self, node: &Node, reports: u64) -> anyhow::Result<()> {
        let came = Instant::now();
        self.attend(node, |taken| 2 * taken >= reports || came.elapsed() >= TIMEOUT)?;
        let taken = self.taken;
        ensure!(2 * taken >= reports, "{taken} trades came, clients were told {reports} sides");
        Ok(())
    }

    /// Attaches and takes trades until `is_enough` of the number taken.
    fn attend(&mut self, node: &Node, is_enough: impl Fn(u64) -> bool) -> anyhow::Result<()> {
        self.came += 1;
        let (login, seen) = (self.login.config(), self.seen.clone());
        let mut from = Subscription::new(node.subscriptions(), login, TAPE, seen);
        while !is_enough(self.taken) {
            match from.next(WAIT) {
                WaitOutcome::Nothing => {}
                WaitOutcome::Ended(reason, _) => bail!("the subscription ended: {reason}"),
                WaitOutcome::Message(message) => {
                    let record = message.head.record.0;
                    ensure!(record > self.last, "record {record} came after {}", self.last);
                    self.last = record;
                    self.taken += 1;
                    from.ack(&message);
                }
            }
        }
        from.flush();
        ensure!(!from.take_may_have_lost(), "messages may have been lost");
        if let Some(seen) = from.seen() {
            self.seen = seen.clone();
        }
        Ok(())
    }
}
