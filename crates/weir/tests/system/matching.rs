//! The rules of `docs/matching.md` through the whole system: calls, stops, icebergs, expiries,
//! collars, schedules, busts and rates, over TCP and the command line. The engine's own tests cover
//! each rule's cases; these tests check that clients and operators meet the rules.

use std::process::Command;

use serde_json::Value;
use weir_client::ClientError;
use weir_client::clock::unix_time;
use weir_client::session::SessionEvent;
use weir_types::{
    Cash, ClOrdId, ExecType, Liquidity, Nanos, OrdStatus, OrdType, Phase, Price, Qty, Reason,
    RequestNo, Side, Switch, TimeInForce,
};
use weir_wire::Request;
use weir_wire::event::{OrderEvent, TradeBusted};
use weir_wire::order_entry::NewOrder;
use weir_wire::reference::{DefineInstrument, DefineSession};

use crate::support::trader::Trader;
use crate::support::{
    ALICE, BOB, Home, INSTRUMENT, Node, OPERATOR, TRADING, Who, definition_of, instrument,
    open_market, trader_of, until,
};

const CAROL: Who = trader_of(13);
const SOON: Nanos = Nanos(400_000_000);

fn market() -> (Home, Node) {
    let home = Home::new("os");
    let node = home.start();
    open_market(&node, &[ALICE, BOB, CAROL]);
    // The status page, where the command line finds instruments, lags a little.
    row_when(&node, |row| !row.is_null());
    (home, node)
}

fn soon() -> Nanos {
    Nanos(unix_time().0 + SOON.0)
}

fn row_when(node: &Node, is_there: impl Fn(&Value) -> bool) -> Value {
    until("the instrument's row", || {
        let row = node.status()["instruments"][0].clone();
        is_there(&row).then_some(row)
    })
}

/// Returns a day order as a base for other order types.
fn special(who: Who, number: u64, side: Side, price: i64, qty: u64) -> NewOrder {
    who.order(number, side, price, qty).new_order()
}

fn is_trade_of(number: u64) -> impl Fn(&OrderEvent) -> bool {
    let name = ClOrdId::from_number(number);
    move |event| event.exec_type == ExecType::Trade && event.cl_ord_id == name
}

/// Runs `weir ARGS` as the operator, requires success and returns the output.
fn weir(node: &Node, args: &[&str]) -> Value {
    let key: String = OPERATOR.key().0.iter().map(|byte| format!("{byte:02x}")).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .arg(args[0])
        .args(["--node", &node.address().to_string(), "--http", node.http(), "--json"])
        .args(&args[1..])
        .env("WEIR_API_KEY", key)
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn an_opening_call_outlives_a_restart_and_trades_at_one_price() {
    let (home, node) = market();
    weir(&node, &["admin", "--yes", "halt", "all"]);
    weir(&node, &["admin", "phase", "WEIR1", "opening-call"]);
    let mut alice = Trader::log_on(&node, ALICE);
    let mut bob = Trader::log_on(&node, BOB);
    for (number, price) in [(1, 202), (2, 201)] {
        assert_eq!(alice.ask_for_report(ALICE.buy(number, price, 100)).ord_status, OrdStatus::New);
    }
    for (number, price, qty) in [(1, 200, 150), (2, 201, 100)] {
        let entered = bob.ask_for_report(BOB.sell(number, price, qty));
        assert_eq!((entered.ord_status, entered.cum_qty), (OrdStatus::New, Qty::ZERO));
    }
    row_when(&node, |row| row["phase"] == "opening-call");
    let book = weir(&node, &["book", "WEIR1", "--once"]);
    assert_eq!(book["phase"], "opening-call");
    assert_eq!(book["indicative"]["price"], "2.01");
    assert_eq!(book["indicative"]["volume"], "200");
    assert_eq!(book["indicative"]["surplus"], "-50");
    assert!(node.terminate().success());

    let node = home.start();
    let mut alice = Trader::log_on(&node, ALICE);
    let mut bob = Trader::log_on(&node, BOB);
    row_when(&node, |row| row["phase"] == "opening-call");
    weir(&node, &["admin", "phase", "WEIR1", "continuous"]);
    let mut sold = Qty::ZERO;
    while sold < Qty(200) {
        let report = bob.report_where(|event| event.exec_type == ExecType::Trade);
        assert_eq!((report.last_px, report.liquidity), (Price(201), Liquidity::Auction));
        sold += report.last_qty;
    }
    let first = alice.report_where(is_trade_of(1));
    assert_eq!((first.last_px, first.request_no), (Price(201), RequestNo::NONE));
    let row = row_when(&node, |row| row["phase"] == "continuous");
    assert_eq!((&row["opening_price"], &row["opening_qty"]), (&"2.01".into(), &"200".into()));
    assert_eq!((&row["static_reference"], &row["last_price"]), (&"2.01".into(), &"2.01".into()));
}

#[test]
fn orders_at_the_close_wait_beside_the_book_and_meet_in_the_closing_call() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    let mut bob = Trader::log_on(&node, BOB);
    bob.ask_for_report(BOB.sell(1, 60, 5));
    let mut order = special(ALICE, 1, Side::Buy, 0, 5);
    (order.ord_type, order.time_in_force) = (OrdType::Market, TimeInForce::AtTheClose);
    let parked = alice.ask_for_report(Request::NewOrder(order));
    assert_eq!((parked.ord_status, parked.leaves_qty), (OrdStatus::New, Qty(5)));
    let book = weir(&node, &["book", "WEIR1", "--once"]);
    assert_eq!((&book["parked"], &book["market_buy_qty"]), (&1.into(), &"0".into()));
    weir(&node, &["admin", "phase", "all", "closing-call"]);
    row_when(&node, |row| row["phase"] == "closing-call");
    let book = weir(&node, &["book", "WEIR1", "--once"]);
    assert_eq!((&book["parked"], &book["market_buy_qty"]), (&0.into(), &"5".into()));
    assert_eq!(book["indicative"]["price"], "0.60");
    weir(&node, &["admin", "--yes", "phase", "all", "closed"]);
    let bought = alice.report_where(is_trade_of(1));
    assert_eq!((bought.last_px, bought.ord_status), (Price(60), OrdStatus::Filled));
    let row = row_when(&node, |row| row["phase"] == "closed");
    assert_eq!((&row["closing_price"], &row["closing_qty"]), (&"0.60".into(), &"5".into()));
}

#[test]
fn a_stop_is_triggered_by_a_trade_at_its_price() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    let mut bob = Trader::log_on(&node, BOB);
    let mut carol = Trader::log_on(&node, CAROL);
    let mut stop = special(CAROL, 1, Side::Buy, 0, 3);
    (stop.ord_type, stop.stop_px) = (OrdType::Stop, Price(55));
    assert_eq!(carol.ask_for_report(Request::NewOrder(stop)).ord_type, OrdType::Stop);
    bob.ask_for_report(BOB.sell(1, 55, 1));
    bob.ask_for_report(BOB.sell(2, 56, 3));
    assert_eq!(weir(&node, &["book", "WEIR1", "--once"])["stops"], 1);
    alice.ask_for_report(ALICE.buy(1, 55, 1));
    let triggered = carol.report_where(|event| event.exec_type == ExecType::Triggered);
    let told = (triggered.ord_type, triggered.stop_px, triggered.request_no);
    assert_eq!(told, (OrdType::Market, Price(55), RequestNo::NONE));
    let bought = carol.report_where(is_trade_of(1));
    assert_eq!((bought.last_px, bought.ord_status), (Price(56), OrdStatus::Filled));
}

#[test]
fn an_iceberg_shows_its_next_slice_behind_the_others() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    let mut bob = Trader::log_on(&node, BOB);
    let mut carol = Trader::log_on(&node, CAROL);
    let mut iceberg = special(ALICE, 1, Side::Sell, 50, 10);
    iceberg.display_qty = Qty(2);
    alice.ask_for_report(Request::NewOrder(iceberg));
    bob.ask_for_report(BOB.sell(1, 50, 5));
    carol.ask_for_report(CAROL.buy(1, 50, 9));
    carol.settle();
    let asks = until("the book after the trades", || {
        let book = weir(&node, &["book", "WEIR1", "--once"]);
        (book["asks"][0]["qty"] == "6").then(|| book["asks"][0].clone())
    });
    assert_eq!(asks["shown_qty_max"], "2");
    let orders = weir(&node, &["orders", "--live", "--once"]);
    assert_eq!((&orders["leaves_qty"], &orders["display_qty"]), (&"6".into(), &"2".into()));
    let trades = carol.reports().iter().filter(|r| r.event.exec_type == ExecType::Trade);
    let quantities: Vec<_> = trades.map(|report| report.event.last_qty.0).collect();
    assert_eq!(quantities, [2, 5, 2]);
}

#[test]
fn an_order_good_till_a_time_ends_then_without_a_command() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    let mut order = special(ALICE, 1, Side::Buy, 50, 1);
    (order.time_in_force, order.expire_time) = (TimeInForce::Gtd, soon());
    assert_eq!(alice.ask_for_report(Request::NewOrder(order)).ord_status, OrdStatus::New);
    let ended = alice.report_where(|event| event.exec_type == ExecType::Expired);
    assert_eq!(ended.ord_status, OrdStatus::Expired);
    assert!(ended.transact_time >= order.expire_time, "not before its time");
}

#[test]
fn a_trade_beyond_the_collar_begins_a_call_that_ends_by_itself() {
    let (_home, node) = market();
    let definition = DefineInstrument {
        reference_price: Price(1_000),
        static_collar: 500,
        volatility_call: SOON,
        ..instrument(INSTRUMENT)
    };
    node.admin().define_instrument(definition).unwrap();
    let mut alice = Trader::log_on(&node, ALICE);
    let mut bob = Trader::log_on(&node, BOB);
    row_when(&node, |row| row["static_reference"] == "10.00");
    bob.ask_for_report(BOB.sell(1, 1_100, 1));
    // A partition learns of a definition shortly after the control log has it.
    let mut number = 0;
    let stands = until("an interruption", || {
        number += 1;
        let entered = alice.ask_for_report(ALICE.buy(number, 1_100, 1));
        alice.settle();
        let ended = alice.reports().iter().any(|report| is_trade_of(number)(&report.event));
        if ended {
            bob.ask_for_report(BOB.sell(number + 1, 1_100, 1));
        }
        (!ended).then_some(entered)
    });
    assert_eq!((stands.ord_status, stands.cum_qty), (OrdStatus::New, Qty::ZERO));
    let bought = alice.report_where(is_trade_of(number));
    assert_eq!((bought.last_px, bought.liquidity), (Price(1_100), Liquidity::Auction));
    let row = row_when(&node, |row| row["phase"] == "continuous");
    assert!(row["phases"].as_str().unwrap().ends_with("volatility-call continuous"), "{row}");
}

#[test]
fn a_change_of_phase_is_made_when_it_is_due_and_what_is_cleared_is_not() {
    let (_home, node) = market();
    let mut admin = node.admin();
    let (halt, later) = (soon(), Nanos(unix_time().0 + 3_600_000_000_000));
    admin.schedule_phase(TRADING, INSTRUMENT, halt, Phase::Halted).unwrap();
    let row = row_when(&node, |row| row["phase"] == "halted");
    assert!(row["phase_since_ns"].as_u64().unwrap() >= halt.0, "not before its time");
    for at in [later, Nanos(later.0 + 1)] {
        admin.schedule_phase(TRADING, INSTRUMENT, at, Phase::Closed).unwrap();
    }
    assert_eq!(admin.clear_schedule(TRADING, INSTRUMENT).unwrap(), 2);
    let past = admin.schedule_phase(TRADING, INSTRUMENT, Nanos(1), Phase::Closed);
    let Err(ClientError::Refused { reason, .. }) = past else { panic!("{past:?}") };
    assert_eq!(reason, Reason::FieldOutOfRange);
}

#[test]
fn a_calendar_is_filed_from_its_file_and_forgotten_by_a_word() {
    let (home, node) = market();
    let file = home.path("calendar.toml");
    let calendar = r#"
        utc_offset = "Z"
        days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
        phase = [{ at = "08:00", name = "continuous" }, { at = "16:00", name = "closed" }]
    "#;
    std::fs::write(&file, calendar).unwrap();
    let file = file.to_str().unwrap();
    let filed = weir(&node, &["admin", "calendar", file, "--days", "3", "--from", "2100-01-01"]);
    assert_eq!(filed["filed"], true);
    let changes = filed["changes"].as_array().unwrap();
    assert_eq!((changes.len(), &changes[0]["at"]), (6, &"2100-01-01T08:00:00Z".into()));
    assert_eq!(weir(&node, &["admin", "--yes", "schedule", "all", "--clear"])["cleared"], 6);
}

/// Offsets were written by hand, and nothing showed the local time of what would be filed.
#[test]
fn a_calendar_of_a_zone_prints_local_time_and_utc_of_each_change() {
    let (home, node) = market();
    let file = home.path("calendar.toml");
    let calendar = r#"
        timezone = "America/Chicago"
        days = ["sun", "mon", "tue", "wed", "thu"]
        phase = [{ at = "17:00", name = "continuous" }, { at = "+1 16:00", name = "closed" }]
    "#;
    std::fs::write(&file, calendar).unwrap();
    let file = file.to_str().unwrap();
    // From a Thursday on, over the end of daylight saving time.
    let words = ["admin", "calendar", file, "--days", "4", "--from", "2100-11-04"];
    let told = weir(&node, &[&words[..], &["--dry-run"]].concat());
    assert_eq!((&told["filed"], &told["timezone"]), (&false.into(), &"America/Chicago".into()));
    assert!(told["timezone_database"].as_str().unwrap().starts_with("20"), "{told}");
    let rows: Vec<_> = told["changes"].as_array().unwrap().iter().collect();
    let row = |index: usize| ["day", "local", "at"].map(|key| rows[index][key].as_str().unwrap());
    assert_eq!(rows.len(), 4);
    assert_eq!(row(0), ["2100-11-04", "2100-11-04T17:00:00-05:00", "2100-11-04T22:00:00Z"]);
    assert_eq!(row(1), ["2100-11-04", "2100-11-05T16:00:00-05:00", "2100-11-05T21:00:00Z"]);
    assert_eq!(row(2), ["2100-11-07", "2100-11-07T17:00:00-06:00", "2100-11-07T23:00:00Z"]);
    assert_eq!(row(3), ["2100-11-07", "2100-11-08T16:00:00-06:00", "2100-11-08T22:00:00Z"]);
    assert_eq!(weir(&node, &words)["filed"], true);
    assert_eq!(weir(&node, &["admin", "--yes", "schedule", "all", "--clear"])["cleared"], 4);
}

fn busted(trader: &mut Trader) -> TradeBusted {
    trader.next("a bust", |event| match event {
        SessionEvent::TradeBusted(bust) => Some(*bust),
        _ => None,
    })
}

#[test]
fn a_busted_trade_is_told_to_both_sides_once() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    let mut bob = Trader::log_on(&node, BOB);
    bob.ask_for_report(BOB.sell(1, 70, 4));
    alice.ask_for_report(ALICE.buy(1, 70, 4));
    let bought = alice.report_where(is_trade_of(1));
    let match_id = bought.match_id.to_string();
    weir(&node, &["admin", "--yes", "bust", &match_id]);
    let sides = [(busted(&mut alice), Side::Buy), (busted(&mut bob), Side::Sell)];
    for (bust, side) in sides {
        assert_eq!((bust.match_id, bust.side), (bought.match_id, side));
        assert_eq!((bust.last_px, bust.last_qty), (Price(70), Qty(4)));
    }
    let again = node.admin().bust_trade(TRADING, bought.match_id, Switch::Off);
    let Err(ClientError::Refused { reason, .. }) = again else { panic!("{again:?}") };
    assert_eq!(reason, Reason::UnknownTrade);
}

#[test]
fn a_forced_bust_leaves_a_debt_that_the_status_page_shows_until_it_is_paid() {
    let (_home, node) = market();
    let [mut alice, mut bob, mut carol] = [ALICE, BOB, CAROL].map(|who| Trader::log_on(&node, who));
    let account = CAROL.account_id.0.to_string();
    weir(&node, &["admin", "deposit", "--account", &account, "--cash", "279"]);
    weir(&node, &["admin", "account", "--id", &account, "--limited"]);
    // Carol buys with all that she has, and sells for less.
    bob.ask_for_report(BOB.sell(1, 70, 4));
    carol.ask_for_report(CAROL.buy(1, 70, 4));
    let match_id = carol.report_where(is_trade_of(1)).match_id;
    alice.ask_for_report(ALICE.buy(1, 50, 4));
    carol.ask_for_report(CAROL.sell(2, 50, 4));
    let refused = node.admin().bust_trade(TRADING, match_id, Switch::Off);
    let Err(ClientError::Refused { reason, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(reason, Reason::InsufficientPosition);
    weir(&node, &["admin", "--yes", "bust", &match_id.to_string(), "--force"]);
    let debts = [busted(&mut carol), busted(&mut bob)].map(|bust| (bust.debt_cash, bust.debt_qty));
    assert_eq!(debts, [(Cash(0), Qty(4)), (Cash(0), Qty(0))]);
    node.partition_when(TRADING, |row| row["accounts_in_debt"] == 1 && row["oldest_trade"] == 1);
    let debt = serde_json::json!({
        "partition": TRADING.0, "account": CAROL.account_id.0, "instrument": INSTRUMENT.0,
        "amount": "4",
    });
    assert_eq!(node.status()["debts"], serde_json::json!([debt]));
    let said = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["status", "--http", node.http()])
        .output()
        .unwrap();
    assert!(String::from_utf8(said.stdout).unwrap().contains("\ndebts\n"));
    let refused = carol.ask_for_report(CAROL.sell(3, 90, 1));
    assert_eq!(refused.reason, Reason::InsufficientPosition);
    bob.ask_for_report(BOB.sell(2, 60, 4));
    carol.ask_for_report(CAROL.buy(4, 60, 4));
    node.partition_when(TRADING, |row| row["accounts_in_debt"] == 0);
    assert_eq!(node.status()["debts"], serde_json::json!([]));
}

#[test]
fn a_session_beyond_its_rate_is_throttled_and_then_served_again() {
    let (_home, node) = market();
    let definition = DefineSession { order_rate_max: 2, ..definition_of(&ALICE) };
    node.admin().define_session(definition).unwrap();
    let mut alice = Trader::log_on(&node, ALICE);
    let (mut number, mut throttled) = (0, 0);
    let mut enter = |alice: &mut Trader| {
        number += 1;
        let reason = alice.ask_for_report(ALICE.buy(number, 50, 1)).reason;
        throttled += u64::from(reason == Reason::Throttled);
        reason
    };
    // A partition learns of the rate shortly after the control log has it.
    until("the bound", || (enter(&mut alice) == Reason::Throttled).then_some(()));
    until("room again", || (enter(&mut alice) == Reason::None).then_some(()));
    until("the operator's count", || {
        (node.status()["gateway"]["throttled"] == throttled).then_some(())
    });
}
