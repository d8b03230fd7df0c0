//! Phases and kill switches: the requests they stop, and cancels, which are always served.

use serde_json::Value;
use weir_client::admin::Admin;
use weir_client::request::{Replace, cancel};
use weir_client::session::SessionEvent;
use weir_types::{
    ClOrdId, KillScope, OrdStatus, Phase, Price, Qty, Reason, RequestNo, SessionId, Switch,
};
use weir_wire::reference::KillSwitch;

use crate::support::trader::Trader;
use crate::support::{ALICE, BOB, Home, INSTRUMENT, Node, TRADING, open_market, until};

fn market() -> (Home, Node) {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    (home, node)
}

/// Enters an order of Alice's; returns the reason if it is rejected.
fn enter(alice: &mut Trader, number: u64) -> Result<(), Reason> {
    let report = alice.ask_for_report(ALICE.buy(number, 50, 1));
    match report.ord_status {
        OrdStatus::New => Ok(()),
        OrdStatus::Rejected => Err(report.reason),
        other => panic!("an order that meets nobody is {other:?}"),
    }
}

fn replace(alice: &mut Trader, number: u64) -> Option<Reason> {
    let name = ClOrdId::from_number(number);
    let replace = Replace {
        cl_ord_id: name,
        orig_cl_ord_id: name,
        instrument_id: INSTRUMENT,
        price: Price(51),
        order_qty: Qty(2),
    };
    match alice.ask(replace.request()) {
        SessionEvent::Rejected { rejected, .. } => Some(rejected.reason),
        SessionEvent::Report { .. } => None,
        other => panic!("a replace was answered by {other:?}"),
    }
}

fn is_cancelled(alice: &mut Trader, number: u64) -> bool {
    let name = ClOrdId::from_number(number);
    let report = alice.ask_for_report(cancel(ClOrdId::from_number(900), name, INSTRUMENT));
    report.ord_status == OrdStatus::Canceled
}

#[test]
fn a_halt_refuses_entry_and_serves_cancels_until_it_is_lifted() {
    let (_home, node) = market();
    let mut admin = node.admin();
    let mut alice = Trader::log_on(&node, ALICE);
    assert_eq!(enter(&mut alice, 1), Ok(()));
    assert_eq!(enter(&mut alice, 2), Ok(()));
    admin.set_phase(TRADING, INSTRUMENT, Phase::Halted).unwrap();
    assert_eq!(enter(&mut alice, 3), Err(Reason::WrongPhase));
    assert_eq!(replace(&mut alice, 1), Some(Reason::WrongPhase));
    assert!(is_cancelled(&mut alice, 1));
    admin.set_phase(TRADING, INSTRUMENT, Phase::Continuous).unwrap();
    assert_eq!(enter(&mut alice, 3), Ok(()));
    assert_eq!(replace(&mut alice, 2), None);
}

#[test]
fn a_halt_outlives_a_restart() {
    let (home, node) = market();
    node.admin().set_phase(TRADING, INSTRUMENT, Phase::Halted).unwrap();
    assert!(node.terminate().success());
    let node = home.start();
    let mut alice = Trader::log_on(&node, ALICE);
    assert_eq!(enter(&mut alice, 1), Err(Reason::WrongPhase));
}

/// Waits until the instrument's row of the status page, which follows events, satisfies `is_there`.
fn row_when(node: &Node, is_there: impl Fn(&Value) -> bool) -> Value {
    until("the instrument's row", || {
        let row = node.status()["instruments"][0].clone();
        is_there(&row).then_some(row)
    })
}

#[test]
fn the_status_page_tells_phase_and_last_price_also_after_a_restart() {
    let (home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    let mut bob = Trader::log_on(&node, BOB);
    let row = row_when(&node, |row| row["phase"] == "continuous");
    assert_eq!((&row["last_price"], &row["phase_since_ns"]), (&Value::Null, &Value::Null));
    assert_eq!((&row["price_min"], &row["price_max"]), (&"0.01".into(), &"200.00".into()));
    alice.ask_for_report(ALICE.buy(1, 50, 1));
    bob.ask_for_report(BOB.sell(1, 50, 1));
    node.admin().set_phase(TRADING, INSTRUMENT, Phase::Halted).unwrap();
    let halted = row_when(&node, |row| row["phase"] == "halted" && row["last_price"] == "0.50");
    assert!(halted["phase_since_ns"].is_u64());
    assert!(node.terminate().success());
    let node = home.start();
    assert_eq!(row_when(&node, |row| !row.is_null()), halted);
}

fn kill(admin: &mut Admin, scope: KillScope, id: u32, switch: Switch) {
    let (request_no, session_id) = (RequestNo::NONE, SessionId::NONE);
    let kill = KillSwitch {
        request_no,
        session_id,
        id,
        partition_id: TRADING,
        scope,
        switch,
        cancel_orders: Switch::Off,
    };
    admin.kill_switch(kill).unwrap();
}

#[test]
fn a_kill_switch_stops_entry_of_those_it_names_and_serves_their_cancels() {
    let (_home, node) = market();
    let mut admin = node.admin();
    let mut alice = Trader::log_on(&node, ALICE);
    let mut bob = Trader::log_on(&node, BOB);
    let id = ALICE.session_id.0;
    let scopes = [
        (KillScope::All, 0),
        (KillScope::Firm, id),
        (KillScope::Account, id),
        (KillScope::Session, id),
    ];
    for (number, (scope, id)) in (1..).step_by(10).zip(scopes) {
        assert_eq!(enter(&mut alice, number), Ok(()));
        kill(&mut admin, scope, id, Switch::On);
        assert_eq!(enter(&mut alice, number + 1), Err(Reason::Killed), "{scope:?}");
        assert_eq!(replace(&mut alice, number), Some(Reason::Killed), "{scope:?}");
        assert!(is_cancelled(&mut alice, number), "{scope:?}");
        let of_bob = bob.ask_for_report(BOB.buy(number, 40, 1));
        assert_eq!(of_bob.reason == Reason::Killed, scope == KillScope::All, "{scope:?}");
        kill(&mut admin, scope, id, Switch::Off);
    }
    assert_eq!(enter(&mut alice, 800), Ok(()));
}
