//! A trader with cancel-on-disconnect that leaves live orders at each end of the node and does not
//! return within the time for it: its orders must go after each kind of end.

use std::collections::BTreeMap;

use weir_client::SessionConfig;
use weir_types::{OrdStatus, OrderId, Reason};
use weir_wire::PlainEvent;
use weir_wire::event::OrderEvent;

use crate::audit;
use crate::support::trader::Trader;
use crate::support::{Home, Node, Who, trader_of, until};

pub const LEAVER: Who = trader_of(25);
/// Orders per life of the node.
const ORDERS: u64 = 3;
/// A price at which nobody sells.
const PRICE: i64 = 1;

#[derive(Default)]
pub struct Leaver {
    /// The connection to the present node.
    trader: Option<Trader>,
    order_count: u64,
}

impl Leaver {
    /// Logs on and enters orders.
    pub fn trade(&mut self, node: &Node) {
        let config = SessionConfig { cancel_on_disconnect: true, ..LEAVER.patient_config() };
        let mut trader = Trader::log_on_as(node, LEAVER, config);
        for _ in 0..ORDERS {
            self.order_count += 1;
            let entered = trader.ask_for_report(LEAVER.buy(self.order_count, PRICE, 1));
            assert_eq!(entered.ord_status, OrdStatus::New, "{entered:?}");
        }
        self.trader = Some(trader);
    }

    /// Waits until all orders of earlier lives have gone, and only because the session was lost.
    /// Returns their events by the log.
    pub fn check(&mut self, home: &Home) -> Vec<OrderEvent> {
        self.trader = None;
        let events = until("the end of the orders of a session that does not return", || {
            let events = events_of(home);
            let mut last = BTreeMap::new();
            last.extend(events.iter().map(|event| (event.order_id, event.ord_status)));
            let is_live = |status: &OrdStatus| status.is_live();
            let live: Vec<OrderId> =
                last.iter().filter(|(_, status)| is_live(status)).map(|(id, _)| *id).collect();
            live.is_empty().then_some(events)
        });
        let mut ends = events.iter().filter(|event| !event.ord_status.is_live());
        assert!(ends.all(|event| event.reason == Reason::SessionLost), "{events:?}");
        events
    }
}

fn events_of(home: &Home) -> Vec<OrderEvent> {
    let events = audit::history_of(home).remove(&LEAVER.session_id).unwrap_or_default();
    let orders = events.into_values().filter_map(|event| match event {
        PlainEvent::OrderEvent(event) => Some(event),
        _ => None,
    });
    orders.collect()
}
