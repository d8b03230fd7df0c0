//! The optional parts of a partition: the digest, remembered answers, pre-trade risk.

mod support;

use support::*;
use weir_engine::EngineConfig;
use weir_types::*;
use weir_wire::order_entry::{CancelOrder, NewOrder};
use weir_wire::{Command, Event, Request};

fn desk(config: EngineConfig) -> Desk {
    let mut desk = Desk::with_config(config);
    desk.furnish();
    desk
}

/// Plays a morning of one firm's orders: rests, trades, a replace, cancels, refusals.
fn play(desk: &mut Desk) -> Vec<Event> {
    desk.order(sell(100, 5, "a"));
    desk.order(sell(101, 5, "b"));
    desk.order(bob(buy(101, 7, "x")));
    desk.order(buy(90, 3, "c"));
    desk.cancel("b");
    desk.cancel("b");
    desk.order(buy(90, 0, "d"));
    desk.phase(Phase::Halted);
    desk.events.clone()
}

#[test]
fn without_digest_and_answers_the_events_are_the_same() {
    let mut full = desk(EngineConfig::new(HERE));
    let bare = EngineConfig { is_digested: false, outcomes_max: 0, ..EngineConfig::new(HERE) };
    let mut bare = desk(bare);
    assert_eq!(play(&mut full), play(&mut bare));
    assert_ne!(full.engine.digest(), 0);
    assert_eq!(bare.engine.digest(), 0);
}

#[test]
fn answers_are_remembered_as_far_as_configured() {
    let config = EngineConfig { outcomes_max: 2, ..EngineConfig::new(HERE) };
    let mut desk = desk(config);
    let first = desk.request_no + 1;
    for name in ["a", "b", "c"] {
        desk.order(buy(90, 1, name));
    }
    let mut again = |at: u64, name: &str| {
        let request = numbered(Request::NewOrder(buy(90, 1, name)), first + at);
        desk.apply(&Command::Request(request))
    };
    assert_eq!(rejected_of(&again(0, "a")[0]).reason, Reason::TooOld);
    assert_eq!(told(&orders(&again(1, "b"))), ["b New 1"]);
    assert_eq!(told(&orders(&again(2, "c"))), ["c New 1"]);
}

#[test]
fn without_risk_no_account_is_too_poor_and_trades_move_nothing() {
    let buy_it = || NewOrder { account_id: POOR, ..buy(100, 900_000, "x") };
    let mut full = desk(EngineConfig::new(HERE));
    full.order(bob(sell(100, 900_000, "a")));
    assert_eq!(full.order(buy_it())[0].reason, Reason::InsufficientCash);
    let mut free = desk(EngineConfig { has_risk: false, ..EngineConfig::new(HERE) });
    free.order(bob(sell(100, 900_000, "a")));
    let before = free.engine.totals();
    assert_eq!(told(&free.order(buy_it()))[2], "x Trade 900000@100 0");
    assert_eq!(free.engine.totals(), before);
}

#[test]
fn an_order_older_than_the_window_of_records_is_found_by_its_number() {
    let mut desk = desk(EngineConfig { orders_max: 8, ..EngineConfig::new(HERE) });
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let numbers: Vec<OrderId> =
        names.iter().map(|name| desk.order(buy(90, 1, name))[0].order_id).collect();
    for (number, name) in numbers.iter().zip(names) {
        let by_number =
            CancelOrder { order_id: *number, orig_cl_ord_id: ClOrdId::NONE, ..cancel(name) };
        let events = orders(&desk.ask(Request::CancelOrder(by_number)));
        assert_eq!(told(&events), [format!("{name} Canceled None")]);
    }
    assert_eq!(desk.engine.live_order_count(), 0);
}
