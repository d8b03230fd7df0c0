//! Bounds of live orders per session, account and firm.

mod support;

use support::steps::asked_in;
use support::*;
use weir_engine::{Engine, EngineConfig};
use weir_types::*;
use weir_wire::Definition;
use weir_wire::order_entry::NewOrder;
use weir_wire::reference::{DefineAccount, DefineFirm, DefineSession};

fn desk(config: EngineConfig) -> Desk {
    let mut desk = Desk::with_config(config);
    desk.furnish();
    desk
}

/// Enters an order and returns its refusal.
fn refusal(desk: &mut Desk, order: NewOrder) -> Option<Reason> {
    let event = desk.order(order)[0];
    (event.exec_type == ExecType::Rejected).then_some(event.reason)
}

#[test]
fn a_session_an_account_and_a_firm_have_bounds_of_their_own() {
    let config = EngineConfig {
        orders_per_session_max: 3,
        orders_per_account_max: 4,
        orders_per_firm_max: 5,
        ..EngineConfig::new(HERE)
    };
    let mut desk = desk(config);
    let anna = |order: NewOrder| NewOrder { session_id: ANNA, ..order };
    let maker = |order: NewOrder| NewOrder { account_id: MAKER, ..order };
    for text in ["a1", "a2", "a3"] {
        assert_eq!(refusal(&mut desk, buy(90, 5, text)), None);
    }
    assert_eq!(refusal(&mut desk, buy(90, 5, "a4")), Some(Reason::TooManySessionOrders));
    assert_eq!(refusal(&mut desk, anna(buy(90, 5, "n1"))), None);
    assert_eq!(refusal(&mut desk, anna(buy(90, 5, "n2"))), Some(Reason::TooManyAccountOrders));
    assert_eq!(refusal(&mut desk, anna(maker(buy(90, 5, "n2")))), None);
    let third = || anna(maker(buy(90, 5, "n3")));
    assert_eq!(refusal(&mut desk, third()), Some(Reason::TooManyFirmOrders));
    // Another firm is not concerned.
    assert_eq!(refusal(&mut desk, bob(buy(80, 5, "b"))), None);
    desk.cancel("a1");
    assert_eq!(refusal(&mut desk, third()), None);
}

#[test]
fn orders_count_until_they_end_by_any_way() {
    let config = EngineConfig { orders_per_session_max: 1, ..EngineConfig::new(HERE) };
    let mut desk = desk(config);
    let full = Some(Reason::TooManySessionOrders);
    for round in 0..3 {
        let text = |what: &str| format!("{what}{round}");
        assert_eq!(refusal(&mut desk, buy(90, 5, &text("cancelled"))), None);
        assert_eq!(refusal(&mut desk, buy(90, 5, &text("x"))), full);
        desk.cancel(&text("cancelled"));
        assert_eq!(refusal(&mut desk, buy(90, 5, &text("filled"))), None);
        assert_eq!(refusal(&mut desk, bob(sell(90, 2, &text("part")))), None);
        assert_eq!(refusal(&mut desk, buy(90, 5, &text("x"))), full, "filled in part");
        assert_eq!(refusal(&mut desk, bob(sell(90, 3, &text("rest")))), None);
        // One that never rests takes no place.
        let ioc = NewOrder { time_in_force: TimeInForce::Ioc, ..buy(90, 5, &text("ioc")) };
        assert_eq!(refusal(&mut desk, ioc), None);
        assert_eq!(refusal(&mut desk, buy(90, 5, &text("replaced"))), None);
        let replace = replace(&text("replaced"), &text("again"), 91, 9);
        desk.ask(weir_wire::Request::ReplaceOrder(replace));
        assert_eq!(refusal(&mut desk, buy(90, 5, &text("x"))), full);
        desk.cancel(&text("again"));
    }
}

#[test]
fn a_definition_has_its_own_bound_and_a_snapshot_keeps_it() {
    let mut desk = desk(EngineConfig::new(HERE));
    let Definition::DefineSession(alice) = session(ALICE, 1, Role::Trader) else { unreachable!() };
    let Definition::DefineAccount(rich) = account(RICH, 1, Switch::Off) else { unreachable!() };
    let Definition::DefineFirm(first) = firm(1) else { unreachable!() };
    let rows = [
        (
            Definition::DefineSession(DefineSession { live_orders_max: 2, ..alice }),
            Definition::DefineSession(alice),
            Reason::TooManySessionOrders,
        ),
        (
            Definition::DefineAccount(DefineAccount { live_orders_max: 2, ..rich }),
            Definition::DefineAccount(rich),
            Reason::TooManyAccountOrders,
        ),
        (
            Definition::DefineFirm(DefineFirm { live_orders_max: 2, ..first }),
            Definition::DefineFirm(first),
            Reason::TooManyFirmOrders,
        ),
    ];
    for text in ["a", "b", "c"] {
        assert_eq!(refusal(&mut desk, buy(90, 5, text)), None);
    }
    for (bounded, default, reason) in rows {
        desk.import(bounded);
        assert_eq!(refusal(&mut desk, buy(90, 5, "d")), Some(reason), "{reason:?}");
        let mut bytes = Vec::new();
        desk.engine.snapshot(&mut bytes);
        desk.engine = Engine::restore(desk.engine.config().clone(), &bytes).unwrap();
        assert_eq!(refusal(&mut desk, buy(90, 5, "d")), Some(reason), "restored: {reason:?}");
        desk.import(default);
        assert_eq!(refusal(&mut desk, buy(90, 5, "d")), None, "{reason:?}");
        desk.cancel("d");
    }
}

#[test]
fn by_default_no_participant_can_fill_a_partition() {
    let config = EngineConfig::new(HERE);
    assert!(config.orders_per_session_max <= config.orders_max / 4);
    assert!(config.orders_per_account_max <= config.orders_max / 4);
    assert!(config.orders_per_firm_max <= config.orders_max / 4);
}

#[test]
fn the_engine_tells_each_live_order_as_its_last_event_did() {
    let mut desk = desk(EngineConfig::new(HERE));
    let mut last = std::collections::BTreeMap::new();
    for text in [
        "sell a 100 5",
        "sell b 101 9 show=2",
        "bob buy c 101 6",
        "buy d 90 3",
        "buy s 0 4 stop=150",
        "bob buy e 91 7",
        "cancel d",
        "replace b f 102 8",
    ] {
        let events = desk.ask(asked_in(text).expect(text));
        last.extend(orders(&events).into_iter().map(|event| (event.rec, event)));
    }
    last.retain(|_, event| event.ord_status.is_live());
    assert!(last.len() >= 3, "{last:?}");
    let told = desk.engine.live_orders();
    assert!(told.iter().all(|event| event.seq == desk.engine.last_seq()));
    let want: Vec<_> = last
        .into_values()
        .zip(&told)
        .map(|(event, told)| weir_wire::event::OrderEvent {
            position: told.position,
            event_no: EventNo::NONE,
            request_no: RequestNo::NONE,
            seq: told.seq,
            exec_id: ExecId::NONE,
            match_id: MatchId::NONE,
            transact_time: told.transact_time,
            orig_cl_ord_id: ClOrdId::NONE,
            last_px: Price(0),
            last_qty: Qty::ZERO,
            min_qty: Qty::ZERO,
            reason: Reason::None,
            exec_type: ExecType::New,
            liquidity: Liquidity::None,
            ..event
        })
        .collect();
    assert_eq!(told, want);
}
