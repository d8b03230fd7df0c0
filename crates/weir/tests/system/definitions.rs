//! Definitions over the command line: an option that is not given leaves its field as it is, live
//! orders are not contradicted, and mistyped identifiers and unconfirmed commands reach no log.

use std::process::{Command, Output, Stdio};

use weir_client::session::{SessionEvent, Submit, Times};
use weir_types::{PartitionId, Reason, RequestNo, SessionId, Switch};
use weir_wire::Request;
use weir_wire::reference::DefineAccount;

use crate::support::trader::Trader;
use crate::support::{
    ALICE, BOB, HANG, Home, Node, OPERATOR, TRADING, days_around_today, definition_of, open_market,
    until,
};

const CONTROL: PartitionId = PartitionId(0);

/// Runs `weir admin WORDS` as the operator, without a terminal.
fn admin(node: &Node, words: &[&str]) -> Output {
    admin_with_page(node, node.http(), words)
}

/// Runs a command that looks for the status page at `http`.
fn admin_with_page(node: &Node, http: &str, words: &[&str]) -> Output {
    let key: String = OPERATOR.key().0.iter().map(|byte| format!("{byte:02x}")).collect();
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["admin", "--node", &node.address().to_string(), "--http", http])
        .args(["--key", &key])
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

pub fn succeed(node: &Node, words: &[&str]) -> String {
    let output = admin(node, words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn fail(node: &Node, words: &[&str]) -> String {
    let output = admin(node, words);
    assert!(!output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Returns the positions of both logs.
fn positions(node: &Node) -> [u64; 2] {
    [CONTROL, TRADING]
        .map(|id| node.partition_when(id, |_| true)["position"].as_u64().expect("a position"))
}

pub fn row(node: &Node, id: u32) -> serde_json::Value {
    let status = node.status();
    let mut rows = status["instruments"].as_array().expect("a list").iter();
    rows.find(|row| row["id"] == id).expect("the instrument is there").clone()
}

#[test]
fn an_instrument_keeps_everything_that_a_command_does_not_name() {
    let home = Home::new("disk");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let rules = ["--reference-price", "1000", "--static-collar", "500", "--dynamic-collar", "300"];
    let bounds = ["--lot", "10", "--qty-max", "5000", "--price-max", "9000", "--partition", "1"];
    let new = ["instrument", "--id", "30", "--symbol", "ABC"];
    succeed(&node, &[&new[..], &rules, &bounds].concat());
    let before = until("the instrument", || {
        let status = node.status();
        let rows = status["instruments"].as_array().expect("a list");
        rows.iter().find(|row| row["id"] == 30).cloned()
    });
    let said = succeed(&node, &["instrument", "--id", "30", "--tick", "5"]);
    assert_eq!(said.trim(), "instrument 30 is ABC in partition 1");
    let after = until("its tick", || {
        let row = row(&node, 30);
        (row["tick_size"] != before["tick_size"]).then_some(row)
    });
    assert_eq!(after["tick_size"], "0.05");
    let mut expected = before;
    expected["tick_size"] = after["tick_size"].clone();
    assert_eq!(after, expected);
    assert!(node.terminate().success());
    // The change is in the partition's log, and so is every view of it.
    let node = home.start();
    assert_eq!(until("the instrument", || Some(row(&node, 30)))["tick_size"], "0.05");
    succeed(&node, &["instrument", "--id", "30", "--lot", "20"]);
    let after = until("its lot", || Some(row(&node, 30)).filter(|row| row["lot_size"] == "20"));
    assert_eq!((&after["tick_size"], &after["symbol"]), (&"0.05".into(), &"ABC".into()));
    assert!(node.terminate().success());
    home.verify(TRADING);
}

#[test]
fn an_instrument_with_live_orders_is_not_renamed_and_keeps_its_tick() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let mut alice = Trader::log_on(&node, ALICE);
    assert_eq!(alice.ask_for_report(ALICE.buy(1, 51, 1)).reason, Reason::None);
    let rename = ["--yes", "instrument", "--id", "1", "--symbol", "EURUSD"];
    let said = fail(&node, &rename);
    assert!(said.contains("--symbol EURUSD: ") && said.contains("LiveOrdersNamed"), "{said}");
    let said = fail(&node, &["instrument", "--id", "1", "--tick", "2"]);
    assert!(said.contains("--tick 2: ") && said.contains("LiveOrdersOffTick"), "{said}");
    assert_eq!(alice.ask_for_report(ALICE.buy(2, 53, 1)).reason, Reason::None);
    succeed(&node, &["--yes", "cancel", "instrument", "1"]);
    node.partition_when(TRADING, |row| row["live_orders"] == 0);
    succeed(&node, &["instrument", "--id", "1", "--tick", "2"]);
    assert_eq!(alice.ask_for_report(ALICE.buy(3, 53, 1)).reason, Reason::InvalidPrice);
    succeed(&node, &rename);
    until("the new name", || (row(&node, 1)["symbol"] == "EURUSD").then_some(()));
    let said = fail(&node, &["instrument", "--id", "2", "--symbol", "EURUSD"]);
    assert!(said.contains("--symbol EURUSD is instrument 1's"), "{said}");
}

#[test]
fn a_session_a_firm_and_an_account_keep_what_a_command_does_not_name() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let mut alice = Trader::log_on(&node, ALICE);
    let said = succeed(&node, &["session", "--id", "11", "--order-rate", "9000"]);
    assert_eq!(said.trim(), "session 11 is changed and keeps its key");
    assert_eq!(alice.ask_for_report(ALICE.buy(1, 51, 1)).reason, Reason::None, "still logged on");
    succeed(&node, &["account", "--id", "11", "--live-orders-max", "2"]);
    succeed(&node, &["firm", "--id", "11", "--live-orders-max", "3"]);
    // The account is as unlimited as before, or the order would lack cash.
    let mut number = 1;
    let mut enter = |price| {
        number += 1;
        alice.ask_for_report(ALICE.buy(number, price, 1)).reason
    };
    assert_eq!(enter(51), Reason::None);
    until("the bound", || (enter(51) == Reason::TooManyAccountOrders).then_some(()));
    for (words, want) in [
        (&["firm", "--id", "77", "--live-orders-max", "1"][..], "give --name to define it"),
        (&["account", "--id", "77", "--unlimited"], "give --firm to define it"),
        (&["instrument", "--id", "77", "--tick", "1"], "give --symbol to define it"),
    ] {
        let said = fail(&node, words);
        assert!(said.contains(want), "{words:?}: {said}");
    }
}

/// Sends a definition as another client may, without a word about its fields.
fn define_as_others(operator: &mut Trader, definition: Request) {
    let times = Times::default();
    let sent = operator.client.submit(OPERATOR.session_id, CONTROL, definition, times);
    let Submit::Sent(number) = sent else { panic!("{sent:?}") };
    let answer = operator.answer(number);
    assert!(matches!(answer, SessionEvent::Done { .. }), "{answer:?}");
}

#[test]
fn a_definition_by_another_client_takes_no_limit_away_that_it_does_not_name() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE]);
    succeed(&node, &["account", "--id", "11", "--live-orders-max", "1"]);
    succeed(&node, &["session", "--id", "11", "--in-flight", "7"]);
    let mut operator = Trader::log_on(&node, OPERATOR);
    let (request_no, session_id) = (RequestNo::NONE, SessionId::NONE);
    let account = DefineAccount {
        request_no,
        session_id,
        account_id: ALICE.account_id,
        firm_id: ALICE.firm_id,
        unlimited: Switch::On,
        live_orders_max: 0,
        fields: 0,
    };
    define_as_others(&mut operator, Request::DefineAccount(account));
    let session = definition_of(&ALICE);
    define_as_others(&mut operator, Request::DefineSession(session));
    operator.client.log_out(HANG).unwrap();
    // The partition has these definitions, and then Bob's.
    open_market(&node, &[BOB]);
    let mut alice = Trader::log_on(&node, ALICE);
    let window = alice.client.session(ALICE.session_id).map(|session| session.in_flight_max());
    assert_eq!(window, Some(7));
    assert_eq!(alice.ask_for_report(ALICE.buy(1, 51, 1)).reason, Reason::None);
    let second = alice.ask_for_report(ALICE.buy(2, 51, 1)).reason;
    assert_eq!(second, Reason::TooManyAccountOrders);
}

#[test]
fn a_limit_that_a_partition_leaves_out_for_an_accounts_debt_is_told() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let mut alice = Trader::log_on(&node, ALICE);
    assert_eq!(alice.ask_for_report(ALICE.buy(1, 51, 1)).reason, Reason::None);
    let limit = ["account", "--id", "11", "--limited"];
    for words in [&limit[..], &[&limit[..], &["--live-orders-max", "1"]].concat()] {
        let said = fail(&node, words);
        for want in ["partition 1 has refused", "account 11 is in debt there and stays unlimited"] {
            assert!(said.contains(want), "{words:?}: {said}");
        }
    }
    let second = alice.ask_for_report(ALICE.buy(2, 51, 1)).reason;
    assert_eq!(second, Reason::TooManyAccountOrders, "all else is done");
    succeed(&node, &["--yes", "cancel", "account", "11"]);
    node.partition_when(TRADING, |row| row["live_orders"] == 0);
    assert_eq!(succeed(&node, &limit).trim(), "account 11 is changed");
    assert_eq!(alice.ask_for_report(ALICE.buy(3, 51, 1)).reason, Reason::InsufficientCash);
}

/// A script saw the same exit status as of a limit that each partition has.
#[test]
fn a_limit_that_is_not_known_yet_has_an_exit_status_of_its_own() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE]);
    // Nobody listens there.
    let output = admin_with_page(&node, "127.0.0.1:1", &["account", "--id", "11", "--limited"]);
    let told = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (done, doubt) = (told(output.stdout), told(output.stderr));
    assert_eq!((output.status.code(), done.trim()), (Some(3), "account 11 is changed"));
    assert!(doubt.contains("not known yet"), "{doubt}");
    succeed(&node, &["account", "--id", "11", "--limited"]);
    assert_eq!(admin(&node, &["kill", "firm", "4711"]).status.code(), Some(1));
}

#[test]
fn a_mistyped_identifier_is_refused_and_reaches_no_log() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let settled = || {
        let mut last = positions(&node);
        until("quiet logs", || {
            let now = positions(&node);
            (std::mem::replace(&mut last, now) == now).then_some(now)
        })
    };
    let before = settled();
    for (words, want) in [
        (&["kill", "firm", "4711"][..], "UnknownFirm"),
        (&["kill", "account", "4711"], "UnknownAccount"),
        (&["kill", "session", "4711", "--partition", "1"], "UnknownSession"),
        (&["cancel", "firm", "4711"], "UnknownFirm"),
        (&["cancel", "account", "4711"], "UnknownAccount"),
        (&["deposit", "--account", "4711", "--cash", "1"], "UnknownAccount"),
        (&["account", "--id", "5", "--firm", "4711"], "UnknownFirm"),
        (&["session", "--id", "5", "--firm", "4711"], "UnknownFirm"),
        (&["halt", "4711"], "no instrument"),
    ] {
        let said = fail(&node, &[&["--yes"], words].concat());
        assert!(said.contains(want), "{words:?}: {said}");
    }
    assert_eq!(settled(), before, "nothing was sequenced");
}

#[test]
fn a_dangerous_command_says_what_it_will_do_and_is_refused_without_a_terminal() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let mut alice = Trader::log_on(&node, ALICE);
    until("the instrument", || {
        (node.status()["instruments"][0]["symbol"] == "WEIR1").then_some(())
    });
    for (words, want) in [
        (&["kill", "all"][..], "this stops the entry of orders for everybody, in all partitions"),
        (&["halt", "all"], "this makes all 1 instruments halted: WEIR1"),
        (&["phase", "all", "closed"], "this makes all 1 instruments closed: WEIR1"),
        (&["bust", "1"], "this takes trade 1 back"),
        (&["cancel", "firm", "11"], "this cancels all live orders of firm 11, in all partitions"),
        (&["instrument", "--id", "1", "--symbol", "NEW"], "this renames WEIR1 to NEW"),
    ] {
        let said = fail(&node, words);
        let is_told = said.contains(want) && said.contains("give --yes");
        assert!(is_told, "{words:?}: {said}");
    }
    assert_eq!(alice.ask_for_report(ALICE.buy(1, 51, 1)).reason, Reason::None);
    succeed(&node, &["--yes", "halt", "all"]);
    assert_eq!(alice.ask_for_report(ALICE.buy(2, 51, 1)).reason, Reason::WrongPhase);
    // One participant or one instrument is stopped without a question.
    succeed(&node, &["resume", "WEIR1"]);
    succeed(&node, &["kill", "firm", "11"]);
    assert_eq!(alice.ask_for_report(ALICE.buy(3, 51, 1)).reason, Reason::Killed);
}

/// Each of these took many filed changes away, or filed the end of trading, without a question.
#[test]
fn a_command_that_forgets_or_files_changes_of_all_says_them_and_is_refused_without_a_terminal() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE]);
    until("the instrument", || {
        (node.status()["instruments"][0]["symbol"] == "WEIR1").then_some(())
    });
    let file = home.path("calendar.toml");
    let days = format!(
        "utc_offset = '+00:00'\n\
         days = ['mon', 'tue', 'wed', 'thu', 'fri']\n\
         holidays = [{}]\n\
         phase = [{{ at = '08:00', name = 'continuous' }}, {{ at = '17:30', name = 'closed' }}]\n",
        days_around_today()
    );
    std::fs::write(&file, days).unwrap();
    let file = file.to_str().unwrap();
    let calendar = ["calendar", file, "--days", "3", "--from", "2100-01-04"];
    succeed(&node, &calendar);
    node.partition_when(TRADING, |row| row["filed_changes"] == 6);

    let replace = [&calendar[..], &["--replace"]].concat();
    let of_one = [&replace[..], &["--instruments", "WEIR1"]].concat();
    let end = "2100-01-05T17:30:00Z";
    for (words, want) in [
        (
            &replace[..],
            "this forgets all 6 filed changes of phase of all 1 instruments: WEIR1; then it files \
             6 for each, from 2100-01-04T08:00:00Z to 2100-01-06T17:30:00Z",
        ),
        (
            &of_one[..],
            "this forgets the changes of phase filed for WEIR1 itself, of the 6 that the node has \
             (those of all and of its group stay); then it files 6 for each",
        ),
        (&["schedule", "all", "--clear"], "this forgets all 6 filed changes of phase of all 1"),
        (
            &["schedule", "all", "closed", "--at", end],
            "this makes all 1 instruments closed: WEIR1, at 2100-01-05T17:30:00Z",
        ),
        (&["schedule", "all", "halted", "--at", "+9h"], "this makes all 1 instruments halted"),
    ] {
        let said = fail(&node, words);
        assert!(said.contains(want) && said.contains("give --yes"), "{words:?}: {said}");
    }
    node.partition_when(TRADING, |row| row["filed_changes"] == 6);
    // Nothing is taken away by these.
    succeed(&node, &[&replace[..], &["--dry-run"]].concat());
    succeed(&node, &["schedule", "all", "continuous", "--at", end]);
    succeed(&node, &[&["--yes"], &replace[..]].concat());
    node.partition_when(TRADING, |row| row["filed_changes"] == 6);
    // They are those of all, and not of the instrument itself.
    let said = succeed(&node, &["schedule", "WEIR1", "--clear"]);
    assert_eq!(said.trim(), "0 changes of WEIR1 are forgotten");
    succeed(&node, &["--yes", "schedule", "all", "--clear"]);
    node.partition_when(TRADING, |row| row["filed_changes"] == 0);
}

#[test]
fn a_bust_shows_the_trade_and_both_sides_before_it_is_done() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    until("the instrument", || {
        (node.status()["instruments"][0]["symbol"] == "WEIR1").then_some(())
    });
    let (mut alice, mut bob) = (Trader::log_on(&node, ALICE), Trader::log_on(&node, BOB));
    for (number, qty) in [(1, 4), (2, 7)] {
        bob.ask_for_report(BOB.sell(number, 70, qty));
        alice.ask_for_report(ALICE.buy(number, 70, qty));
    }
    alice.report_where(|report| report.match_id.0 == 2);
    let said = fail(&node, &["bust", "1"]);
    let wanted = [
        "this takes trade 1 back, 4 WEIR1 at 0.70, 2",
        "bought by account 11 of firm 11 (order ",
        "sold by account 12 of firm 12 (order ",
        "give --yes",
    ];
    assert!(wanted.iter().all(|part| said.contains(part)), "{said}");
    let said = fail(&node, &["bust", "2", "--partition", "1"]);
    assert!(said.contains("trade 2 of partition 1 back, 7 WEIR1 at 0.70"), "{said}");
    let said = fail(&node, &["bust", "3"]);
    assert!(said.contains("trade 3 back, of which the node retains no report"), "{said}");
}
