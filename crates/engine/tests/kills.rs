//! Kill switches: the orders that do not begin to trade, and the cancel of live orders in the same
//! request. Both engines play each test.

mod support;

use support::steps::*;
use support::*;
use weir_engine::EngineConfig;
use weir_types::*;
use weir_wire::reference::KillSwitch;
use weir_wire::{Command, Event, Message, PlainEvent, Request};

/// Returns a desk that both engines serve, with small steps.
fn twins() -> Desk {
    let mut desk = Desk::with_twin(EngineConfig {
        sweep_ends_max: 3,
        sweep_visits_max: 9,
        tick_changes_max: 3,
        sweeps_max: 2,
        ..EngineConfig::new(HERE)
    });
    desk.furnish();
    desk
}

fn kill(scope: KillScope, id: u32) -> Request {
    Request::KillSwitch(KillSwitch {
        request_no: RequestNo(0),
        session_id: OPERATOR,
        id,
        partition_id: HERE,
        scope,
        switch: Switch::On,
        cancel_orders: Switch::On,
    })
}

#[test]
fn a_stop_of_a_killed_firm_is_cancelled_when_others_reach_it_and_trades_nothing() {
    let mut desk = twins();
    for text in ["bob sell a 101 4", "buy s 0 4 stop=100", "buy t 102 4 stop=100"] {
        step(&mut desk, text);
    }
    desk.kill(KillScope::Firm, 1, Switch::On);
    check_on(
        &mut desk,
        &[
            ("bob sell x 100 1", &["x New 1"]),
            (
                "bob buy y 100 1",
                &[
                    "y New 1",
                    "x Trade 1@100 0",
                    "y Trade 1@100 0",
                    "s Canceled Killed",
                    "t Canceled Killed",
                ],
            ),
        ],
    );
    assert_eq!(desk.levels(Side::Sell), [(101, 4, 1)]);
    assert_eq!(desk.engine.totals().cash_reserved, Cash(0));
}

#[test]
fn a_killed_stop_waits_until_it_is_reached_and_triggers_if_the_switch_is_off_by_then() {
    let mut desk = twins();
    step(&mut desk, "buy s 101 1 stop=100");
    desk.kill(KillScope::Account, RICH.0, Switch::On);
    desk.kill(KillScope::Account, RICH.0, Switch::Off);
    step(&mut desk, "bob sell x 100 1");
    let told = step(&mut desk, "bob buy y 100 1");
    assert_eq!(told.last().unwrap(), "s Triggered None");
}

#[test]
fn a_parked_order_of_somebody_killed_does_not_enter_the_closing_call() {
    let mut desk = twins();
    for text in ["buy p 100 3 close", "bob buy q 99 3 close"] {
        step(&mut desk, text);
    }
    desk.kill(KillScope::Session, ALICE.0, Switch::On);
    check_on(
        &mut desk,
        &[("phase closing", &["phase ClosingCall", "p Canceled Killed", "done 1"])],
    );
    assert_eq!(desk.levels(Side::Buy), [(99, 3, 1)]);
}

#[test]
fn a_kill_cancels_all_live_orders_of_its_scope_and_answers_behind_the_last() {
    for (scope, id, count) in [
        (KillScope::Session, ALICE.0, 8),
        (KillScope::Account, RICH.0, 9),
        (KillScope::Firm, 1, 9),
        (KillScope::All, 0, 10),
    ] {
        let mut desk = twins();
        for number in 1..=8 {
            desk.order(buy(80 + number, 1, &format!("a{number}")));
        }
        let of_anna = |order| weir_wire::order_entry::NewOrder { session_id: ANNA, ..order };
        desk.order(of_anna(buy(80, 1, "n")));
        desk.order(bob(buy(80, 1, "b")));
        desk.request_no += 1;
        let request = numbered(kill(scope, id), desk.request_no);
        let mut events = desk.apply(&Command::Request(request));
        while desk.engine.next_deadline().is_some() {
            let again = desk.apply(&Command::Request(request));
            assert_eq!(rejected_of(&again[0]).reason, Reason::InProgress);
            desk.restart();
            events.extend(desk.apply(&Command::Tick));
        }
        let cancelled = orders(&events);
        assert_eq!(cancelled.len(), count, "{scope:?}");
        assert!(cancelled.iter().all(|e| e.reason == Reason::Killed));
        let done = done_of(events.last().unwrap());
        assert_eq!(done.affected_count, count as u64);
        assert_eq!(done.ref_template_id, KillSwitch::TEMPLATE_ID);
        assert_eq!(desk.order(buy(70, 1, "later"))[0].reason, Reason::Killed);
    }
}

#[test]
fn a_kill_that_cancels_is_refused_whole_or_carried_out_whole() {
    let mut desk = twins();
    for number in 1..=8 {
        desk.order(buy(80 + number, 1, &format!("a{number}")));
    }
    let reasons = |events: &[Event]| -> Vec<Reason> {
        let rejected = events.iter().filter_map(|event| match event {
            Event::Plain(PlainEvent::RequestRejected(e)) => Some(e.reason),
            _ => None,
        });
        rejected.collect()
    };
    let Request::KillSwitch(on) = kill(KillScope::Firm, 1) else { unreachable!() };
    let off = KillSwitch { switch: Switch::Off, ..on };
    assert_eq!(reasons(&desk.ask(Request::KillSwitch(off))), [Reason::FieldOutOfRange]);
    assert_eq!(reasons(&desk.ask(kill(KillScope::Firm, 4711))), [Reason::UnknownFirm]);
    desk.ask(kill(KillScope::Session, ALICE.0));
    let second = desk.ask(kill(KillScope::Firm, 1));
    assert_eq!(reasons(&second), [Reason::TooManyMassCancels]);
    let of_anna = weir_wire::order_entry::NewOrder { session_id: ANNA, ..buy(70, 1, "n") };
    assert_eq!(desk.order(of_anna)[0].reason, Reason::None, "her firm is not stopped");
}
