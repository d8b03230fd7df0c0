//! One instrument, one session and one account of the real engine, driven by the interface's
//! messages. It keeps no book and no orders of its own: every report and answer comes from the
//! engine.
//!
//! The interface's order numbers become the orders' client identifiers. Its modify removes an order
//! and re-enters it with a new open quantity; our replace has the total quantity and keeps the
//! priority of an order that only shrinks, so that case is sent as a cancel and a new order.

use weir_engine::{Engine, EngineConfig, EventSink, OrderState};
use weir_types::{
    AccountId, ClOrdId, Credential, CredentialKind, ExecInst, ExecType, FirmId, GroupId,
    InstrumentId, Liquidity, Nanos, OrdType, OrderId, PartitionId, Phase, Position, Price, Qty,
    Reason, RequestNo, Role, SelfTradePrevention, SessionId, Side, Switch, Symbol, TimeInForce,
};
use weir_wire::event::OrderEvent;
use weir_wire::order_entry::{CancelOrder, NewOrder, ReplaceOrder};
use weir_wire::reference::{DefineAccount, DefineFirm, DefineInstrument, DefineSession};
use weir_wire::{Command, Definition, Event, Message, PlainEvent, Request};

use crate::message::{CancelMessage, ModifyMessage, NewMessage, Report, ReportKind};

const OPERATOR: SessionId = SessionId(1);
const TRADER: SessionId = SessionId(2);
const FIRM: FirmId = FirmId(1);
const ACCOUNT: AccountId = AccountId(1);
const INSTRUMENT: InstrumentId = InstrumentId(1);
/// The limit of live orders: the benchmark's workloads reach 42,284 at most, even without fills.
const ORDERS_MAX: u32 = 45_056;
/// The highest price in 64-bit ticks whose cash sums do not overflow.
const PRICE_MAX: Price = Price(1 << 40);

/// A sink of reports.
pub trait Reports {
    /// Delivers a report.
    fn report(&mut self, report: &Report);
}

impl Reports for Vec<Report> {
    fn report(&mut self, report: &Report) {
        self.push(*report);
    }
}

/// The engine and the numbers that the interface lacks: positions and request numbers.
pub struct Venue {
    engine: Engine,
    position: u64,
    request_no: u64,
}

/// The events of a message that become reports.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reported {
    All,
    /// Trades only: the removal and re-entry of an order that the interface reports as changed.
    OnlyTrades,
}

impl Default for Venue {
    fn default() -> Venue {
        Venue::new()
    }
}

fn config() -> EngineConfig {
    EngineConfig {
        orders_max: ORDERS_MAX,
        accounts_max: 1,
        sessions_max: 2,
        firms_max: 1,
        instruments_max: 1,
        positions_max: 1,
        is_digested: false,
        outcomes_max: 0,
        has_risk: false,
        ..EngineConfig::new(PartitionId(1))
    }
}

impl Venue {
    /// Creates a venue with an empty book, open for trading.
    #[must_use]
    pub fn new() -> Venue {
        let mut venue = Venue { engine: Engine::new(config()), position: 0, request_no: 0 };
        for (at, definition) in (1..).zip(reference_data()) {
            let command = Command::Import(Position(at), definition);
            venue.apply(&command, &mut |_: &Event| {});
        }
        venue
    }

    #[inline]
    fn apply<S: EventSink>(&mut self, command: &Command, out: &mut S) {
        self.position += 1;
        self.engine.apply(Position(self.position), Nanos(self.position), command, out);
    }

    #[inline]
    fn next_request_no(&mut self) -> RequestNo {
        self.request_no += 1;
        RequestNo(self.request_no)
    }

    /// Handles a new order.
    #[inline]
    pub fn new_order<R: Reports>(&mut self, message: &NewMessage, out: &mut R) {
        let order = Entry {
            name: ClOrdId::from_number(message.order_id),
            side: side_of(message.side),
            price: Price(message.price),
            qty: Qty(u64::from(message.quantity)),
            is_ioc: message.is_ioc == 1,
        };
        self.enter(&order, Telling::new(message.order_id, message.sequence_number, out));
    }

    #[inline]
    fn enter<R: Reports>(&mut self, order: &Entry, mut telling: Telling<'_, R>) {
        let command = Command::Request(Request::NewOrder(NewOrder {
            request_no: self.next_request_no(),
            cl_ord_id: order.name,
            price: order.price,
            order_qty: order.qty,
            min_qty: Qty::ZERO,
            display_qty: Qty::ZERO,
            stop_px: Price(0),
            expire_time: Nanos(0),
            sending_time: Nanos(0),
            session_id: TRADER,
            instrument_id: INSTRUMENT,
            account_id: ACCOUNT,
            side: order.side,
            ord_type: OrdType::Limit,
            time_in_force: if order.is_ioc { TimeInForce::Ioc } else { TimeInForce::Gtc },
            exec_inst: ExecInst::default(),
            self_trade_prevention: SelfTradePrevention::None,
        }));
        self.apply(&command, &mut telling);
    }

    /// Handles a cancel.
    #[inline]
    pub fn cancel<R: Reports>(&mut self, message: &CancelMessage, out: &mut R) {
        let name = ClOrdId::from_number(message.order_id);
        self.take_out(name, Telling::new(message.order_id, message.sequence_number, out));
    }

    #[inline]
    fn take_out<R: Reports>(&mut self, name: ClOrdId, mut telling: Telling<'_, R>) {
        let command = Command::Request(Request::CancelOrder(CancelOrder {
            request_no: self.next_request_no(),
            cl_ord_id: name,
            orig_cl_ord_id: name,
            order_id: OrderId::NONE,
            sending_time: Nanos(0),
            session_id: TRADER,
            instrument_id: INSTRUMENT,
        }));
        self.apply(&command, &mut telling);
    }

    /// Handles a change of an order.
    #[inline]
    pub fn modify<R: Reports>(&mut self, message: &ModifyMessage, out: &mut R) {
        let name = ClOrdId::from_number(message.order_id);
        let state = self.engine.order_by_name(TRADER, name);
        let (price, open) = (Price(message.price), Qty(u64::from(message.quantity)));
        let cum_qty = state.map_or(Qty::ZERO, |o| o.order_qty - o.leaves_qty);
        let order_qty = open + cum_qty;
        if let Some(order) = state
            && order.price == price
            && order_qty <= order.order_qty
        {
            return self.reinsert(message, &order, out);
        }
        let command = Command::Request(Request::ReplaceOrder(ReplaceOrder {
            request_no: self.next_request_no(),
            cl_ord_id: name,
            orig_cl_ord_id: name,
            order_id: OrderId::NONE,
            price,
            order_qty,
            sending_time: Nanos(0),
            session_id: TRADER,
            instrument_id: INSTRUMENT,
        }));
        self.apply(&command, &mut Telling::new(message.order_id, message.sequence_number, out));
    }

    /// Handles a change for which our replace would keep the order's priority.
    #[cold]
    fn reinsert<R: Reports>(&mut self, message: &ModifyMessage, order: &OrderState, out: &mut R) {
        let name = ClOrdId::from_number(message.order_id);
        let entry = Entry {
            name,
            side: order.side,
            price: Price(message.price),
            qty: Qty(u64::from(message.quantity)),
            is_ioc: false,
        };
        let mut telling = Telling::new(message.order_id, message.sequence_number, out);
        telling.reported = Reported::OnlyTrades;
        self.take_out(name, telling);
        let mut telling = Telling::new(message.order_id, message.sequence_number, out);
        telling.reported = Reported::OnlyTrades;
        self.enter(&entry, telling);
        let telling = Telling::new(message.order_id, message.sequence_number, out);
        let report = Report {
            side: message.side,
            price: message.price,
            quantity: message.quantity,
            ..telling.report(ReportKind::ModifyAck)
        };
        out.report(&report);
    }

    /// The best price of a side; `None` when it is empty.
    #[must_use]
    pub fn best_price(&self, side: u8) -> Option<i64> {
        let mut levels = Vec::new();
        self.engine.book_levels(INSTRUMENT, side_of(side), 1, &mut levels);
        levels.first().map(|level| level.price.0)
    }

    /// The open lots at a price.
    #[must_use]
    pub fn depth_at(&self, price: i64, side: u8) -> u64 {
        let level = self.engine.level_at(INSTRUMENT, side_of(side), Price(price));
        level.map_or(0, |level| level.qty.0)
    }
}

/// An order to be entered.
struct Entry {
    name: ClOrdId,
    side: Side,
    price: Price,
    qty: Qty,
    is_ioc: bool,
}

/// Converts the events of one message to reports.
struct Telling<'a, R> {
    order_id: u64,
    sequence_number: u64,
    reported: Reported,
    out: &'a mut R,
}

impl<R: Reports> EventSink for Telling<'_, R> {
    // Always inlined: an event of which only four fields are read is then never built in memory.
    #[inline(always)]
    fn event(&mut self, event: &Event) {
        match event {
            Event::Plain(PlainEvent::OrderEvent(e)) => self.order_event(e),
            Event::Plain(PlainEvent::RequestRejected(e)) => {
                assert!(e.reason == Reason::UnknownOrder, "refused for {:?}", e.reason);
                let is_cancel = e.ref_template_id == CancelOrder::TEMPLATE_ID;
                let kind =
                    if is_cancel { ReportKind::CancelReject } else { ReportKind::ModifyReject };
                self.out.report(&self.report(kind));
            }
            // The benchmark has no reports for digests and phases.
            _ => {}
        }
    }
}

impl<'a, R: Reports> Telling<'a, R> {
    #[inline]
    fn new(order_id: u64, sequence_number: u64, out: &'a mut R) -> Telling<'a, R> {
        Telling { order_id, sequence_number, reported: Reported::All, out }
    }

    #[inline(always)]
    fn order_event(&mut self, e: &OrderEvent) {
        let kind = match e.exec_type {
            ExecType::Trade => return self.trade(e),
            _ if self.reported == Reported::OnlyTrades => return,
            ExecType::New => ReportKind::OrderAck,
            ExecType::Replaced => ReportKind::ModifyAck,
            ExecType::Canceled => ReportKind::CancelAck,
            other => panic!("the engine said {other:?} for {:?}", e.reason),
        };
        let report = Report {
            side: e.side.code() - Side::Buy.code(),
            price: e.price.0,
            quantity: e.leaves_qty.0 as u32,
            ..self.report(kind)
        };
        self.out.report(&report);
    }

    /// Reports a trade from the resting order's event; the incoming order's event would repeat it.
    #[inline]
    fn trade(&mut self, e: &OrderEvent) {
        if e.liquidity != Liquidity::Maker {
            return;
        }
        let report = Report {
            order_id: 0,
            price: e.last_px.0,
            quantity: e.last_qty.0 as u32,
            maker_order_id: e.cl_ord_id.to_number().expect("every name was made of a number"),
            taker_order_id: self.order_id,
            ..self.report(ReportKind::Trade)
        };
        self.out.report(&report);
    }

    /// Makes a report about the message's order.
    #[inline]
    fn report(&self, kind: ReportKind) -> Report {
        Report {
            kind,
            side: 0,
            reserved: [0; 6],
            sequence_number: self.sequence_number,
            order_id: self.order_id,
            price: 0,
            quantity: 0,
            reserved_quantity: 0,
            maker_order_id: 0,
            taker_order_id: 0,
            padding: 0,
        }
    }
}

#[inline]
fn side_of(side: u8) -> Side {
    if side == 0 { Side::Buy } else { Side::Sell }
}

fn reference_data() -> [Definition; 5] {
    let request_no = RequestNo(0);
    let session = |defined_session_id, firm_id, role| {
        Definition::DefineSession(DefineSession {
            request_no,
            valid_until: Nanos(0),
            credential: Credential([0; 32]),
            session_id: OPERATOR,
            defined_session_id,
            firm_id,
            order_rate_max: 0,
            in_flight_max: 0,
            role,
            credential_kind: CredentialKind::ApiKey,
            live_orders_max: u32::MAX,
            fields: 0,
        })
    };
    [
        Definition::DefineFirm(DefineFirm {
            request_no,
            name: Symbol::new("FIRM").expect("a short text"),
            session_id: OPERATOR,
            firm_id: FIRM,
            live_orders_max: u32::MAX,
            fields: 0,
        }),
        Definition::DefineAccount(DefineAccount {
            request_no,
            session_id: OPERATOR,
            account_id: ACCOUNT,
            firm_id: FIRM,
            unlimited: Switch::On,
            live_orders_max: u32::MAX,
            fields: 0,
        }),
        session(OPERATOR, FirmId::NONE, Role::Operator),
        session(TRADER, FIRM, Role::Trader),
        Definition::DefineInstrument(DefineInstrument {
            request_no,
            symbol: Symbol::new("BENCH").expect("a short text"),
            tick_size: Price(1),
            lot_size: Qty(1),
            order_qty_max: Qty(1 << 40),
            price_min: Price(-PRICE_MAX.0),
            price_max: PRICE_MAX,
            reference_price: Price(0),
            volatility_call: Nanos(0),
            static_collar: 0,
            dynamic_collar: 0,
            session_id: OPERATOR,
            instrument_id: INSTRUMENT,
            partition_id: PartitionId(1),
            price_exponent: -3,
            qty_exponent: 0,
            phase: Phase::Continuous,
            fields: 0,
            group_id: GroupId::NONE,
        }),
    ]
}
