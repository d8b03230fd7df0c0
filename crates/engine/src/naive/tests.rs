//! The naive engine against the tables of `docs/matching.md`.

use weir_types::{
    AccountId, ClOrdId, Credential, CredentialKind, ExecInst, ExecType, FirmId, GroupId,
    InstrumentId, Liquidity, Nanos, OrdType, PartitionId, Phase, Position, Price, Qty, Reason,
    RequestNo, Role, SelfTradePrevention, SessionId, Side, Switch, Symbol, TimeInForce,
};
use weir_wire::event::OrderEvent;
use weir_wire::order_entry::NewOrder;
use weir_wire::reference::{
    DefineAccount, DefineFirm, DefineInstrument, DefineSession, SchedulePhase, SetPhase,
};
use weir_wire::{Command, Definition, Event, PlainEvent, Request};

use super::NaiveEngine;
use crate::EngineConfig;

const OPERATOR: SessionId = SessionId(90);
const TRADER: SessionId = SessionId(1);
const IT: InstrumentId = InstrumentId(100);

/// An engine with one instrument, one unlimited account, one trader and one operator.
struct Rig {
    engine: NaiveEngine,
    time: u64,
    number: u64,
}

impl Rig {
    fn new(phase: Phase) -> Rig {
        Rig::with(phase, |_| {})
    }

    fn with(phase: Phase, change: impl Fn(&mut DefineInstrument)) -> Rig {
        let engine = NaiveEngine::new(EngineConfig::new(PartitionId(1)));
        let mut rig = Rig { engine, time: 1_000, number: 0 };
        let mut instrument = DefineInstrument {
            request_no: RequestNo(0),
            symbol: Symbol(ClOrdId::from_number(1).0),
            tick_size: Price(1),
            lot_size: Qty(10),
            order_qty_max: Qty(100_000),
            price_min: Price(1),
            price_max: Price(1_000),
            reference_price: Price(0),
            volatility_call: Nanos(0),
            session_id: OPERATOR,
            instrument_id: IT,
            static_collar: 0,
            dynamic_collar: 0,
            partition_id: PartitionId(1),
            price_exponent: -2,
            qty_exponent: 0,
            phase,
            fields: 0,
            group_id: GroupId::NONE,
        };
        change(&mut instrument);
        let session = |id, firm_id, role| {
            Definition::DefineSession(DefineSession {
                request_no: RequestNo(0),
                valid_until: Nanos(0),
                credential: Credential([0; 32]),
                session_id: OPERATOR,
                defined_session_id: id,
                firm_id: FirmId(firm_id),
                order_rate_max: 0,
                in_flight_max: 0,
                role,
                credential_kind: CredentialKind::ApiKey,
                live_orders_max: 0,
                fields: 0,
            })
        };
        let definitions = [
            Definition::DefineFirm(DefineFirm {
                request_no: RequestNo(0),
                name: Symbol(ClOrdId::from_number(1).0),
                session_id: OPERATOR,
                firm_id: FirmId(1),
                live_orders_max: 0,
                fields: 0,
            }),
            Definition::DefineAccount(DefineAccount {
                request_no: RequestNo(0),
                session_id: OPERATOR,
                account_id: AccountId(1),
                firm_id: FirmId(1),
                unlimited: Switch::On,
                live_orders_max: 0,
                fields: 0,
            }),
            session(OPERATOR, 0, Role::Operator),
            session(TRADER, 1, Role::Trader),
            Definition::DefineInstrument(instrument),
        ];
        for (at, definition) in (1..).zip(definitions) {
            rig.play(&Command::Import(Position(at), definition));
        }
        rig
    }

    fn play(&mut self, command: &Command) -> Vec<Event> {
        let mut events = Vec::new();
        let position = Position(self.engine.position().0 + 1);
        self.engine.apply(position, Nanos(self.time), command, &mut events);
        events
    }

    fn enter(&mut self, change: impl Fn(&mut NewOrder)) -> Vec<Event> {
        self.number += 1;
        let mut order = NewOrder {
            request_no: RequestNo(self.number),
            cl_ord_id: ClOrdId::from_number(self.number),
            price: Price(100),
            order_qty: Qty(100),
            min_qty: Qty(0),
            display_qty: Qty(0),
            stop_px: Price(0),
            expire_time: Nanos(0),
            sending_time: Nanos(0),
            session_id: TRADER,
            instrument_id: IT,
            account_id: AccountId(1),
            side: Side::Buy,
            ord_type: OrdType::Limit,
            time_in_force: TimeInForce::Gtc,
            exec_inst: ExecInst::NONE,
            self_trade_prevention: SelfTradePrevention::None,
        };
        change(&mut order);
        self.play(&Command::Request(Request::NewOrder(order)))
    }

    fn limit(&mut self, side: Side, qty: u64, price: i64) -> Vec<Event> {
        self.enter(|m| (m.side, m.order_qty, m.price) = (side, Qty(qty), Price(price)))
    }

    fn stop(&mut self, side: Side, qty: u64, stop_px: i64) -> Vec<Event> {
        self.enter(|m| {
            (m.side, m.order_qty, m.price) = (side, Qty(qty), Price(0));
            (m.ord_type, m.stop_px) = (OrdType::Stop, Price(stop_px));
        })
    }

    fn phase(&mut self, phase: Phase) -> Vec<Event> {
        self.number += 1;
        self.play(&Command::Request(Request::SetPhase(SetPhase {
            request_no: RequestNo(self.number),
            session_id: OPERATOR,
            instrument_id: IT,
            phase,
            override_collars: Switch::Off,
        })))
    }
}

fn orders(events: &[Event]) -> Vec<OrderEvent> {
    let told = events.iter().filter_map(|event| match event {
        Event::Plain(PlainEvent::OrderEvent(e)) => Some(*e),
        _ => None,
    });
    told.collect()
}

/// Returns record, execution type, lots and price of each order event.
fn short(events: &[Event]) -> Vec<(u64, ExecType, u64, i64)> {
    orders(events).iter().map(|e| (e.rec.0, e.exec_type, e.last_qty.0, e.last_px.0)).collect()
}

fn uncrossed(events: &[Event]) -> (i64, u64, i64) {
    let told = events.iter().find_map(|event| match event {
        Event::Plain(PlainEvent::Uncrossed(e)) => Some((e.price.0, e.qty.0, e.surplus)),
        _ => None,
    });
    told.expect("an uncrossing is told")
}

#[test]
fn the_most_volume_decides_an_uncrossings_price() {
    let mut rig = Rig::new(Phase::OpeningCall);
    rig.limit(Side::Buy, 100, 202);
    rig.limit(Side::Buy, 100, 201);
    rig.limit(Side::Sell, 150, 200);
    rig.limit(Side::Sell, 100, 201);
    let events = rig.phase(Phase::Continuous);
    assert_eq!(uncrossed(&events), (201, 200, -50));
    assert!(orders(&events).iter().all(|e| e.liquidity == Liquidity::Auction));
}

#[test]
fn a_reference_between_the_best_limits_is_an_uncrossings_price() {
    let mut rig = Rig::with(Phase::OpeningCall, |d| d.reference_price = Price(201));
    rig.limit(Side::Buy, 100, 202);
    rig.limit(Side::Sell, 100, 200);
    assert_eq!(uncrossed(&rig.phase(Phase::Continuous)), (201, 100, 0));
}

#[test]
fn a_surplus_of_buys_takes_the_highest_of_the_best_prices_whatever_the_reference() {
    let mut rig = Rig::with(Phase::OpeningCall, |d| d.reference_price = Price(97));
    rig.enter(|m| (m.ord_type, m.price, m.order_qty) = (OrdType::Market, Price(0), Qty(50)));
    rig.limit(Side::Buy, 100, 99);
    rig.limit(Side::Sell, 100, 98);
    let events = rig.phase(Phase::Continuous);
    assert_eq!(uncrossed(&events), (99, 100, 50));
    let trades: Vec<_> = short(&events);
    assert_eq!(trades[0], (1, ExecType::Trade, 50, 99), "market orders trade first");
}

#[test]
fn an_iceberg_shows_its_next_slice_behind_the_others() {
    let mut rig = Rig::new(Phase::Continuous);
    rig.enter(|m| (m.side, m.display_qty) = (Side::Sell, Qty(30)));
    rig.limit(Side::Sell, 50, 100);
    let events = rig.limit(Side::Buy, 120, 100);
    let makers: Vec<_> = short(&events)
        .into_iter()
        .skip(1)
        .step_by(2)
        .map(|(rec, _, lots, _)| (rec, lots))
        .collect();
    assert_eq!(makers, [(1, 30), (2, 50), (1, 30), (1, 10)]);
}

#[test]
fn a_wave_of_stops_trades_in_order_of_rec_and_reaches_the_next() {
    let mut rig = Rig::new(Phase::Continuous);
    rig.limit(Side::Sell, 10, 100);
    rig.limit(Side::Sell, 10, 101);
    rig.limit(Side::Sell, 10, 102);
    rig.stop(Side::Buy, 10, 101);
    rig.stop(Side::Buy, 10, 100);
    let events = rig.limit(Side::Buy, 10, 100);
    let told: Vec<_> = short(&events);
    use ExecType::{New, Trade, Triggered};
    assert_eq!(
        told,
        [
            (6, New, 0, 0),
            (1, Trade, 10, 100),
            (6, Trade, 10, 100),
            (5, Triggered, 0, 0),
            (2, Trade, 10, 101),
            (5, Trade, 10, 101),
            (4, Triggered, 0, 0),
            (3, Trade, 10, 102),
            (4, Trade, 10, 102),
        ]
    );
}

#[test]
fn a_trade_beyond_a_collar_interrupts_and_the_call_ends_by_itself() {
    let mut rig = Rig::with(Phase::Continuous, |d| {
        (d.reference_price, d.static_collar) = (Price(100), 500);
        d.volatility_call = Nanos(50);
    });
    rig.limit(Side::Sell, 10, 105);
    rig.limit(Side::Sell, 10, 106);
    let events = rig.limit(Side::Buy, 30, 110);
    assert_eq!(short(&events).len(), 3, "the trade at the collar's edge happens, no other");
    assert_eq!(rig.engine.phase(IT), Some(Phase::VolatilityCall));
    assert_eq!(rig.engine.next_deadline(), Some(Nanos(1_050)));
    rig.time = 1_050;
    let events = rig.play(&Command::Tick);
    assert_eq!(uncrossed(&events), (110, 10, 10), "buys are left at 106 and at 110");
    assert_eq!(rig.engine.phase(IT), Some(Phase::Continuous));
    assert_eq!(rig.engine.next_deadline(), None);
}

#[test]
fn what_must_fill_asks_what_collars_let_trade() {
    let mut rig = Rig::with(Phase::Continuous, |d| {
        (d.reference_price, d.static_collar) = (Price(100), 500);
    });
    rig.limit(Side::Sell, 10, 105);
    rig.limit(Side::Sell, 10, 106);
    let events = rig.enter(|m| {
        (m.price, m.order_qty, m.time_in_force) = (Price(110), Qty(20), TimeInForce::Fok);
    });
    assert_eq!(orders(&events)[0].reason, Reason::CannotFill);
    assert_eq!(rig.engine.phase(IT), Some(Phase::Continuous));
}

#[test]
fn parked_orders_join_the_closing_call_and_end_with_the_day() {
    let mut rig = Rig::new(Phase::Continuous);
    let close = |m: &mut NewOrder| m.time_in_force = TimeInForce::AtTheClose;
    rig.enter(close);
    let events = rig.limit(Side::Sell, 50, 100);
    assert_eq!(short(&events).len(), 1, "nobody trades with a parked order");
    rig.phase(Phase::ClosingCall);
    let events = rig.phase(Phase::Closed);
    assert_eq!(uncrossed(&events), (100, 50, 50));
    let last = orders(&events).last().copied().expect("it expires");
    assert_eq!((last.rec.0, last.exec_type), (1, ExecType::Expired));
}

#[test]
fn timers_happen_in_order_of_time_before_a_command_is_looked_at() {
    let mut rig = Rig::new(Phase::Continuous);
    rig.enter(|m| (m.time_in_force, m.expire_time) = (TimeInForce::Gtd, Nanos(1_020)));
    rig.number += 1;
    rig.play(&Command::Request(Request::SchedulePhase(SchedulePhase {
        request_no: RequestNo(rig.number),
        at: Nanos(1_010),
        session_id: OPERATOR,
        instrument_id: IT,
        phase: Phase::Halted,
    })));
    assert_eq!(rig.engine.next_deadline(), Some(Nanos(1_010)));
    rig.time = 1_030;
    let events = rig.limit(Side::Buy, 10, 100);
    assert!(matches!(events[0], Event::Plain(PlainEvent::PhaseChanged(_))));
    let told = orders(&events);
    assert_eq!(told[0].exec_type, ExecType::Expired);
    assert_eq!(told[1].reason, Reason::WrongPhase);
}
