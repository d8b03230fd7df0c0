//! Changes of definitions: fields that are not set stay, and live orders are not contradicted.

mod support;

use support::*;
use weir_types::{FirmId, PartitionId, Price, Qty, Reason, Role, Switch, Symbol};
use weir_wire::reference::{
    DefineAccount, DefineFirm, DefineInstrument, DefineSession, NEW, field_bit,
};
use weir_wire::{Definition, Event, Request};

fn bits(names: &[&str]) -> u32 {
    names.iter().map(|name| field_bit::<DefineInstrument>(name)).fold(0, |all, bit| all | bit)
}

/// Returns the definition that a request brought about, or the reason of its refusal.
fn outcome(events: &[Event]) -> Result<Definition, Reason> {
    match events {
        [Event::Defined(_, definition), ..] => Ok(*definition),
        [event, ..] => Err(rejected_of(event).reason),
        [] => panic!("a definition has an answer"),
    }
}

/// Changes fields of TULIP in its own partition.
fn change(desk: &mut Desk, names: &[&str], to: DefineInstrument) -> Result<Definition, Reason> {
    let d = DefineInstrument { fields: bits(names), ..to };
    outcome(&desk.ask(Request::DefineInstrument(d)))
}

#[test]
fn an_instrument_keeps_the_fields_that_a_change_does_not_set() {
    let mut desk = Desk::open();
    let rich = DefineInstrument {
        reference_price: Price(500),
        static_collar: 700,
        dynamic_collar: 300,
        order_qty_max: Qty(5_000),
        ..instrument(TULIP, HERE)
    };
    desk.import(Definition::DefineInstrument(rich));
    let bare = DefineInstrument { tick_size: Price(5), symbol: Symbol::NONE, ..rich };
    let bare = DefineInstrument { reference_price: Price(0), static_collar: 0, ..bare };
    let fields = bits(&["tick_size"]);
    let Ok(Definition::DefineInstrument(told)) = change(&mut desk, &["tick_size"], bare) else {
        panic!("refused")
    };
    let want = DefineInstrument { tick_size: Price(5), fields, ..rich };
    assert_eq!(DefineInstrument { request_no: want.request_no, ..told }, want);
    assert_eq!(desk.order(buy(52, 5, "off"))[0].reason, Reason::InvalidPrice);
    assert_eq!(desk.order(buy(50, 5, "on"))[0].reason, Reason::None);
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    desk.engine = weir_engine::Engine::restore(desk.engine.config().clone(), &bytes).unwrap();
    assert_eq!(desk.order(buy(52, 5, "off"))[0].reason, Reason::InvalidPrice, "restored");
}

#[test]
fn a_change_that_live_orders_do_not_fit_is_refused_by_field() {
    let mut desk = Desk::open();
    let now = instrument(TULIP, HERE);
    assert_eq!(desk.order(buy(7, 30, "a"))[0].reason, Reason::None);
    let symbol = Symbol::new("EURUSD").unwrap();
    let rows = [
        ("symbol", DefineInstrument { symbol, ..now }, Reason::LiveOrdersNamed),
        ("tick_size", DefineInstrument { tick_size: Price(2), ..now }, Reason::LiveOrdersOffTick),
        ("lot_size", DefineInstrument { lot_size: Qty(20), ..now }, Reason::LiveOrdersOffLot),
        (
            "price_min",
            DefineInstrument { price_min: Price(8), ..now },
            Reason::LiveOrdersOutOfRange,
        ),
        (
            "price_max",
            DefineInstrument { price_max: Price(6), ..now },
            Reason::LiveOrdersOutOfRange,
        ),
        (
            "order_qty_max",
            DefineInstrument { order_qty_max: Qty(29), ..now },
            Reason::LiveOrdersTooLarge,
        ),
    ];
    for (name, to, reason) in rows {
        assert_eq!(change(&mut desk, &[name], to), Err(reason), "{name}");
    }
    assert_eq!(desk.order(buy(9, 31, "b"))[0].reason, Reason::None, "nothing has changed");
    // The same values as before contradict no order, and fields that are not set are not looked at.
    let all = ["symbol", "tick_size", "lot_size", "price_min", "price_max", "order_qty_max"];
    assert!(change(&mut desk, &all, now).is_ok());
    assert!(change(&mut desk, &["static_collar"], rows[0].1).is_ok());
    for name in ["a", "b"] {
        desk.cancel(name);
    }
    for (name, to, _) in rows {
        assert!(change(&mut desk, &[name], to).is_ok(), "{name} without live orders");
        assert!(change(&mut desk, &all, now).is_ok());
    }
}

#[test]
fn the_partition_of_an_instrument_changes_it_and_the_control_log_defines_it_once() {
    let mut desk = Desk::open();
    let complete = |fields| DefineInstrument { fields, ..instrument(TULIP, HERE) };
    let far = DefineInstrument { fields: bits(&["phase"]), ..instrument(FAR, PartitionId(2)) };
    for (d, reason) in [
        (complete(0), Reason::WrongPartition),
        (complete(NEW), Reason::WrongPartition),
        (far, Reason::WrongPartition),
        (
            DefineInstrument { instrument_id: weir_types::InstrumentId(99), ..far },
            Reason::UnknownInstrument,
        ),
    ] {
        assert_eq!(outcome(&desk.ask(Request::DefineInstrument(d))), Err(reason), "{d:?}");
    }
    let mut control = Desk::empty(0);
    control.apply(&weir_wire::Command::Import(
        weir_types::Position(1),
        session(OPERATOR, 0, Role::Operator),
    ));
    let mut ask = |d: DefineInstrument| outcome(&control.ask(Request::DefineInstrument(d)));
    assert!(ask(complete(NEW)).is_ok());
    assert_eq!(ask(complete(NEW)), Err(Reason::AlreadyDefined));
    assert_eq!(ask(complete(bits(&["phase"]))), Err(Reason::WrongPartition));
    assert!(ask(complete(0)).is_ok(), "in a log from before changes existed");
}

#[test]
fn firms_accounts_and_sessions_keep_the_fields_that_a_change_does_not_set() {
    let mut desk = Desk::empty(0);
    desk.apply(&weir_wire::Command::Import(
        weir_types::Position(1),
        session(OPERATOR, 0, Role::Operator),
    ));
    let Definition::DefineFirm(one) = firm(1) else { unreachable!() };
    let Definition::DefineAccount(rich) = account(RICH, 1, Switch::On) else { unreachable!() };
    let Definition::DefineSession(alice) = session(ALICE, 1, Role::Trader) else { unreachable!() };
    let one = DefineFirm { live_orders_max: 7, fields: NEW, ..one };
    let rich = DefineAccount { live_orders_max: 8, fields: NEW, ..rich };
    let alice = DefineSession { live_orders_max: 9, order_rate_max: 25, fields: NEW, ..alice };
    let mut ask = |request: Request| outcome(&desk.ask(request));
    for request in
        [Request::DefineFirm(one), Request::DefineAccount(rich), Request::DefineSession(alice)]
    {
        assert!(ask(request).is_ok());
        assert_eq!(ask(request), Err(Reason::AlreadyDefined));
    }
    let fields = field_bit::<DefineFirm>("name");
    let told = ask(Request::DefineFirm(DefineFirm { live_orders_max: 0, fields, ..one }));
    assert!(matches!(told, Ok(Definition::DefineFirm(d)) if d.live_orders_max == 7), "{told:?}");
    let fields = field_bit::<DefineFirm>("live_orders_max");
    let nameless = DefineFirm { name: Symbol::NONE, live_orders_max: 6, fields, ..one };
    let told = ask(Request::DefineFirm(nameless));
    assert!(matches!(told, Ok(Definition::DefineFirm(d)) if d.live_orders_max == 6), "{told:?}");
    let fields = field_bit::<DefineAccount>("live_orders_max");
    let bare = DefineAccount { firm_id: FirmId::NONE, unlimited: Switch::Off, fields, ..rich };
    let told = ask(Request::DefineAccount(bare));
    let is_kept = |d: &DefineAccount| d.firm_id == FirmId(1) && d.unlimited == Switch::On;
    assert!(matches!(told, Ok(Definition::DefineAccount(d)) if is_kept(&d)), "{told:?}");
    let fields = field_bit::<DefineSession>("in_flight_max");
    let bare = DefineSession { firm_id: FirmId::NONE, role: Role::Source, fields, ..alice };
    let bare = DefineSession { live_orders_max: 0, order_rate_max: 0, ..bare };
    let told = ask(Request::DefineSession(bare));
    let is_kept = |d: &DefineSession| {
        (d.firm_id, d.role, d.live_orders_max, d.order_rate_max) == (FirmId(1), Role::Trader, 9, 25)
    };
    assert!(matches!(told, Ok(Definition::DefineSession(d)) if is_kept(&d)), "{told:?}");
    for (request, reason) in [
        (
            Request::DefineFirm(DefineFirm { firm_id: FirmId(9), fields: 1, ..one }),
            Reason::UnknownFirm,
        ),
        (
            Request::DefineAccount(DefineAccount { account_id: POOR, fields: 1, ..rich }),
            Reason::UnknownAccount,
        ),
        (
            Request::DefineSession(DefineSession { defined_session_id: BOB, fields: 1, ..alice }),
            Reason::UnknownSession,
        ),
    ] {
        assert_eq!(ask(request), Err(reason));
    }
}
