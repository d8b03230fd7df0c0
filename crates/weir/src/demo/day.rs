//! The demo's trading day around the recorded flow: the orders from before the recording are
//! collected in an opening call, where orders at the open meet; orders at the close meet in a
//! closing call; one instrument of the demo's own has stops, icebergs and orders that expire in its
//! flow. The orders at the open balance each other, so that the recorded book begins as it was.
//!
//! Changes of phase go out in the stream of orders, over the same connection, as an operator's
//! requests: the recording's orders stay before or after them.

use std::collections::VecDeque;
use std::time::Duration;

use weir_client::load::{
    Arrivals, Kinds, Listing, Mix, MixSource, OrderGenerator, PlaybackAccount, Schedule,
};
use weir_client::request::LimitOrder;
use weir_types::{
    AccountId, ClOrdId, GroupId, InstrumentId, Nanos, OrdType, PartitionId, Phase, Price, Qty,
    RequestNo, SessionId, Side, Switch, TimeInForce,
};
use weir_wire::Request;
use weir_wire::event::OrderEvent;
use weir_wire::reference::{DefineInstrument, SetPhase};

use super::recordings::RecordingSet;

/// The largest distance of a recorded instrument's trade from the one before, in basis points; no
/// recorded trade is further.
pub(super) const DYNAMIC_COLLAR: u32 = 5_000;
/// The duration of a volatility call.
pub(super) const VOLATILITY_CALL: Nanos = Nanos(200_000_000);
/// The number of sessions that trade the demo's own instrument.
pub(super) const OWN_TRADERS: u32 = 2;
/// The middle of its book.
const MIDDLE: Price = Price(10_000);
/// Its orders a second, and its seed.
const OWN_RATE: f64 = 200.0;
const OWN_SEED: u64 = 7;
/// The most live orders of each of its sessions.
const OWN_LIVE_MAX: usize = 500;
/// The duration of the closing call.
const CLOSING_CALL: Nanos = Nanos(300_000_000);

/// An instrument of the day.
#[derive(Clone, Copy, Debug)]
pub(super) struct DayInstrument {
    /// An instrument, its account and its trader.
    pub(super) stage: PlaybackAccount,
    /// Orders that the opening call collects; `None` where trading is continuous from the start.
    pub(super) seed_count: Option<usize>,
    /// Lots that are bought and sold at the open, and sold at the close; there twice as many are
    /// bought.
    pub(super) call_qty: Qty,
}

/// Requests sent before all others: due time, sender, partition, request.
type Sent = (Nanos, usize, PartitionId, Request);

/// The orders of a day, each when it is due.
pub(super) struct Day<'a> {
    flow: RecordingSet<'a>,
    own: MixSource,
    /// By trader; the demo's own instrument last.
    listed: Vec<DayInstrument>,
    /// The operator's place among the traders.
    operator: usize,
    queue: VecDeque<Sent>,
    end: Nanos,
    is_closing: bool,
}

/// The demo's own instrument.
pub(super) fn own_instrument(
    instrument_id: InstrumentId,
    partition_id: PartitionId,
) -> DefineInstrument {
    DefineInstrument {
        request_no: RequestNo::NONE,
        symbol: weir_types::Symbol::new("DEMO").expect("four letters are a symbol"),
        tick_size: Price(1),
        lot_size: Qty(1),
        order_qty_max: Qty(1_000_000),
        price_min: Price(1),
        price_max: Price(2 * MIDDLE.0),
        reference_price: MIDDLE,
        volatility_call: VOLATILITY_CALL,
        // The book is ten ticks deep on each side of the middle: nothing trades beyond.
        static_collar: 100,
        dynamic_collar: 100,
        session_id: SessionId::NONE,
        instrument_id,
        partition_id,
        price_exponent: -2,
        qty_exponent: 0,
        phase: Phase::Continuous,
        fields: 0,
        group_id: GroupId::NONE,
    }
}

/// Five whole units where a lot is a part of one, else five hundred lots.
pub(super) fn call_qty(qty_exponent: i8) -> Qty {
    let units = 10u64.checked_pow(u32::from(qty_exponent.unsigned_abs()));
    Qty(match units {
        Some(lots) if qty_exponent < 0 => lots.saturating_mul(5),
        _ => 500,
    })
}

impl<'a> Day<'a> {
    /// A day of `flow` that ends after `span`. Traders are dealt out by place: the recorded
    /// instruments', then the accounts `own` of the demo's own instrument, then the operator.
    pub(super) fn new(
        flow: RecordingSet<'a>,
        listed: Vec<DayInstrument>,
        own: &[AccountId],
        span: Duration,
    ) -> Day<'a> {
        let last = listed.last().expect("the demo's own instrument is listed").stage;
        let listing = Listing {
            instrument_id: last.instrument_id,
            partition_id: last.partition_id,
            tick_size: Price(1),
            lot_size: Qty(1),
            middle: MIDDLE,
        };
        let kinds = Kinds { stops: 10, icebergs: 20, gtd: 5, ioc: 0 };
        let mix = MixSource::new(Mix::default(), vec![listing], own, OWN_LIVE_MAX);
        let mut mix = mix.with_kinds(kinds);
        mix.begin(Schedule::new(Arrivals::Poisson, OWN_RATE, OWN_SEED), OWN_SEED);
        let operator = listed.len() - 1 + own.len();
        let end = Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
        let queue = VecDeque::new();
        Day { flow, own: mix, listed, operator, queue, end, is_closing: false }
    }

    /// The operator's place among the traders.
    #[cfg(test)]
    pub(super) fn operator(&self) -> usize {
        self.operator
    }

    fn recorded_count(&self) -> usize {
        self.listed.len() - 1
    }

    fn flow_due(&self) -> Option<Nanos> {
        self.flow.peek().filter(|due| *due < self.end)
    }

    fn own_due(&self) -> Option<Nanos> {
        self.own.peek().filter(|due| *due < self.end)
    }

    fn set_phase(&self, listed: &DayInstrument, phase: Phase, due: Nanos) -> Sent {
        let (request_no, session_id) = (RequestNo::NONE, SessionId::NONE);
        let instrument_id = listed.stage.instrument_id;
        let override_collars = Switch::Off;
        let set = SetPhase { request_no, session_id, instrument_id, phase, override_collars };
        (due, self.operator, listed.stage.partition_id, Request::SetPhase(set))
    }

    /// The next of the recording; the first behind the seeds of an instrument opens it.
    fn next_of_flow(&mut self, due: Nanos) -> Sent {
        let (trader, partition_id, request) = self.flow.next();
        let sent = (due, trader, partition_id, request);
        match self.listed[trader].seed_count {
            None => sent,
            Some(0) => {
                self.open(trader, due);
                self.queue.push_back(sent);
                self.queue.pop_front().expect("an opening has orders")
            }
            Some(left) => {
                self.listed[trader].seed_count = Some(left - 1);
                sent
            }
        }
    }

    /// Orders at the open for an instrument, and the end of its opening call.
    fn open(&mut self, place: usize, due: Nanos) {
        self.listed[place].seed_count = None;
        let qty = self.listed[place].call_qty;
        self.meet(place, TimeInForce::AtTheOpen, [qty, qty], due);
        self.queue.push_back(self.set_phase(&self.listed[place], Phase::Continuous, due));
    }

    /// A market buy and a market sell for a call. The seller trades another instrument too, so
    /// that two accounts meet.
    fn meet(&mut self, place: usize, in_force: TimeInForce, qty: [Qty; 2], due: Nanos) {
        let listed = self.listed[place];
        let seller = self.listed[(place + 1) % self.listed.len()].stage;
        let sides = [(listed.stage, Side::Buy), (seller, Side::Sell)];
        for ((of, side), qty) in sides.into_iter().zip(qty) {
            let request = market_order(&listed, of.account_id, side, qty, in_force);
            self.queue.push_back((due, of.trader, listed.stage.partition_id, request));
        }
    }

    /// Orders at the close for every instrument, its closing call, and its end.
    fn close(&mut self) {
        self.is_closing = true;
        for (place, listed) in self.listed.clone().into_iter().enumerate() {
            if listed.seed_count.is_some() {
                self.open(place, self.end);
            }
            let qty = listed.call_qty;
            let twice = Qty(qty.0.saturating_mul(2));
            self.meet(place, TimeInForce::AtTheClose, [twice, qty], self.end);
            self.queue.push_back(self.set_phase(&listed, Phase::ClosingCall, self.end));
        }
        let closed = Nanos(self.end.0.saturating_add(CLOSING_CALL.0));
        for listed in &self.listed {
            self.queue.push_back(self.set_phase(listed, Phase::Closed, closed));
        }
    }
}

/// A market order for a call.
fn market_order(
    listed: &DayInstrument,
    account_id: AccountId,
    side: Side,
    order_qty: Qty,
    time_in_force: TimeInForce,
) -> Request {
    let instrument_id = listed.stage.instrument_id;
    let call = if time_in_force == TimeInForce::AtTheOpen { 'O' } else { 'C' };
    let name = format!("{call}{}{instrument_id}", if side == Side::Buy { 'B' } else { 'S' });
    let order = LimitOrder {
        cl_ord_id: ClOrdId::new(&name).expect("a name of at most 12 letters"),
        instrument_id,
        account_id,
        side,
        price: Price(0),
        order_qty,
        time_in_force,
    };
    let mut order = order.new_order();
    order.ord_type = OrdType::Market;
    Request::NewOrder(order)
}

impl OrderGenerator for Day<'_> {
    fn peek(&self) -> Option<Nanos> {
        if let Some(sent) = self.queue.front() {
            return Some(sent.0);
        }
        let orders = self.flow_due().into_iter().chain(self.own_due()).min();
        orders.or_else(|| (!self.is_closing).then_some(self.end))
    }

    fn next(&mut self) -> (usize, PartitionId, Request) {
        let sent =
            self.queue.pop_front().unwrap_or_else(|| match (self.flow_due(), self.own_due()) {
                (Some(flow), own) if own.is_none_or(|own| flow <= own) => self.next_of_flow(flow),
                (_, Some(own)) => {
                    let (trader, partition_id, request) = self.own.next();
                    (own, self.recorded_count() + trader, partition_id, request)
                }
                (_, None) => {
                    self.close();
                    self.queue.pop_front().expect("a day has instruments")
                }
            });
        (sent.1, sent.2, sent.3)
    }

    fn on_report(&mut self, trader: usize, event: &OrderEvent) {
        let recorded = self.recorded_count();
        if trader < recorded {
            self.flow.on_report(trader, event);
        } else if trader < self.operator {
            self.own.on_report(trader - recorded, event);
        }
    }
}
