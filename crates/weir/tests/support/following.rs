//! A follower of order state by token: the orders it has received, and the refusals on the way.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use weir_client::follower::{Follower, FollowerConfig, PageEvent};
use weir_client::session::SessionEvent;
use weir_client::{Client, ClientError, Incoming, Limits, Target};
use weir_types::{
    AccountId, ClOrdId, ExecType, FirmId, Nanos, OrdStatus, OrderId, Price, Qty, Reason, Rec, Seq,
    SessionId, Side,
};
use weir_wire::delivery::OrderRow;
use weir_wire::event::OrderEvent;

use super::{HANG, Node, Who, until_free};

pub struct Following {
    pub who: Who,
    pub follower: Follower,
    client: Client,
    /// The reason of each RESYNC.
    pub resyncs: Vec<Reason>,
    /// The reasons of queries refused for good.
    pub refusals: Vec<Reason>,
    /// The reasons of fetches rejected for a time, which the follower repeats.
    pub rejects: Vec<Reason>,
    /// The number of rows received.
    pub row_count: usize,
    /// True if the follower returns credit for the rows it takes.
    pub give_credit: bool,
}

impl Following {
    /// Logs on as `who` and follows everything it is entitled to, from `token` on.
    pub fn start(node: &Node, who: Who, token: Vec<u8>) -> Following {
        let config = FollowerConfig { keep_orders: true, ..FollowerConfig::new(who.session_id) };
        Following::start_as(node, who, Follower::new(config, token))
    }

    pub fn start_as(node: &Node, who: Who, follower: Follower) -> Following {
        let mut following = Following::start_unasked(node, who, follower);
        following.ask();
        following
    }

    /// As [`Following::start_as`], without sending a query.
    pub fn start_unasked(node: &Node, who: Who, follower: Follower) -> Following {
        Following::start_at(node.address(), who, follower)
    }

    /// As [`Following::start_unasked`], at any address, with or without TLS.
    pub fn start_at(target: impl Into<Target>, who: Who, follower: Follower) -> Following {
        let target = target.into();
        let client = until_free(|| {
            let mut client = Client::connect(target.clone(), Limits::default())?;
            client.log_on(who.patient_config(), HANG)?;
            Ok(client)
        });
        let client = client.unwrap();
        Following {
            who,
            follower,
            client,
            resyncs: Vec::new(),
            refusals: Vec::new(),
            rejects: Vec::new(),
            row_count: 0,
            give_credit: true,
        }
    }

    /// Sends the first query.
    pub fn ask(&mut self) {
        self.follower.ask(self.client.outbox());
    }

    fn log_on(&mut self) -> Result<(), ClientError> {
        self.client.log_on(self.who.patient_config(), HANG)?;
        self.ask();
        Ok(())
    }

    /// Reconnects to a restarted node with the token of the rows already taken.
    pub fn go_on(&mut self, address: SocketAddr) -> Result<(), ClientError> {
        self.client = Client::connect(address, Limits::default())?;
        self.log_on()
    }

    /// Handles incoming messages for at most `timeout`.
    pub fn poll(&mut self, timeout: Duration) -> Result<usize, ClientError> {
        if self.give_credit {
            self.follower.add_credit(self.client.outbox());
        }
        let clock = self.client.clock();
        let Following { follower, resyncs, refusals, row_count, rejects, .. } = self;
        follower.ask_when_due(clock.now(), self.client.outbox());
        self.client.poll(timeout, |incoming, out| match incoming {
            Incoming::Page(page, token) => match follower.on_page(&page, token, out) {
                Ok(PageEvent::Resync(reason)) => resyncs.push(reason),
                Err(ClientError::Refused { reason, .. }) => refusals.push(reason),
                outcome => drop(outcome.unwrap()),
            },
            Incoming::Rows(body, rows) => {
                follower.on_rows(&body, rows, |_| *row_count += 1).unwrap();
            }
            Incoming::Sources(states, sources) => {
                let _ = follower.on_sources(&states, sources).unwrap();
            }
            Incoming::Session(_, SessionEvent::Refused { reject, .. }) => {
                rejects.push(reject.reason);
                // One that would be refused again is not repeated.
                let _ = follower.on_reject(&reject, clock.now());
            }
            Incoming::Session(..)
            | Incoming::CopyState(_)
            | Incoming::Copy(..)
            | Incoming::CopyMark(_)
            | Incoming::Source(_)
            | Incoming::Broker(_)
            | Incoming::Market(_) => {}
        })
    }

    /// Follows until ONLINE.
    pub fn until_online(&mut self) {
        let begun = Instant::now();
        while !self.follower.is_online() {
            assert!(begun.elapsed() < HANG, "the follower is never online");
            self.poll(Duration::from_millis(20)).unwrap();
        }
    }

    /// Logs out, so that the session can log on elsewhere.
    pub fn log_out(self) {
        self.client.log_out(HANG).unwrap();
    }

    /// Returns the known orders as states.
    pub fn states(&self) -> BTreeMap<OrderId, OrderState> {
        let orders = self.follower.orders();
        orders.iter().map(|(id, row)| (*id, OrderState::of_row(row))).collect()
    }

    /// Follows until the known orders equal `wanted`. They are compared when no rows come: that
    /// takes a second for a million, and after each message it would take longer than they do.
    pub fn until(&mut self, wanted: &BTreeMap<OrderId, OrderState>) {
        let (begun, mut row_count) = (Instant::now(), self.row_count);
        loop {
            let is_still = std::mem::replace(&mut row_count, self.row_count) == self.row_count;
            let has_all = is_still && self.follower.orders().len() == wanted.len();
            if has_all && self.states() == *wanted {
                return;
            }
            if begun.elapsed() > HANG {
                let known = self.states();
                let wrong = wanted.iter().filter(|(id, state)| known.get(id) != Some(state));
                let first = wrong.map(|(id, state)| (state, known.get(id))).next();
                panic!("{} known, {} wanted, first {first:?}", known.len(), wanted.len());
            }
            self.poll(Duration::from_millis(20)).unwrap();
        }
    }
}

/// The fields that an execution report and a row have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderState {
    pub order_id: OrderId,
    pub rec: Rec,
    pub seq: Seq,
    pub transact_time: Nanos,
    pub created_time: Nanos,
    pub cl_ord_id: ClOrdId,
    pub price: Price,
    pub order_qty: Qty,
    pub leaves_qty: Qty,
    pub cum_qty: Qty,
    pub session_id: SessionId,
    pub firm_id: FirmId,
    pub account_id: AccountId,
    pub reason: Reason,
    pub side: Side,
    pub exec_type: ExecType,
    pub ord_status: OrdStatus,
}

macro_rules! state_of {
    ($from:expr) => {
        OrderState {
            order_id: $from.order_id,
            rec: $from.rec,
            seq: $from.seq,
            transact_time: $from.transact_time,
            created_time: $from.created_time,
            cl_ord_id: $from.cl_ord_id,
            price: $from.price,
            order_qty: $from.order_qty,
            leaves_qty: $from.leaves_qty,
            cum_qty: $from.cum_qty,
            session_id: $from.session_id,
            firm_id: $from.firm_id,
            account_id: $from.account_id,
            reason: $from.reason,
            side: $from.side,
            exec_type: $from.exec_type,
            ord_status: $from.ord_status,
        }
    };
}

impl OrderState {
    pub fn of_row(row: &OrderRow) -> OrderState {
        state_of!(row)
    }

    pub fn of_event(event: &OrderEvent) -> OrderState {
        state_of!(event)
    }
}

/// Returns the latest state of each order from its reports. Rejects and repeated answers are
/// skipped: they change nothing.
pub fn latest_states<'a>(
    events: impl IntoIterator<Item = &'a OrderEvent>,
) -> BTreeMap<OrderId, OrderState> {
    let changes = events.into_iter().filter(|event| !event.seq.is_none());
    changes.map(|event| (event.order_id, OrderState::of_event(event))).collect()
}
