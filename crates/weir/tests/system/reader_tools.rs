//! The command line's tools for readers of order state: a cursor kept in a file or by the node, a
//! read that waits for changes seen elsewhere, and a decoded token.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Output, Stdio};

use serde_json::Value;
use weir_client::SessionConfig;
use weir_client::subscription::{BrokerClient, NewSubscription};
use weir_types::{FirmId, Reason, SubscriptionAction, SubscriptionKind};

use crate::support::trader::Trader;
use crate::support::{ALICE, Home, Node, OPERATOR, open_market, until};
use crate::tools::{weir, weir_at};

fn market() -> (Home, Node, Trader) {
    let home = Home::with_config("os", "[subscriptions]\nlisten = \"127.0.0.1:0\"\n");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let alice = Trader::log_on(&node, ALICE);
    (home, node, alice)
}

/// Runs `weir orders --once` with these arguments.
fn orders(node: &Node, words: &[&str]) -> Output {
    let words = [&["orders", "--once", "--json"], words].concat();
    weir_at(node, &words).output().unwrap()
}

/// Returns the prices of the printed orders as ticks.
fn prices(node: &Node, words: &[&str]) -> Vec<i64> {
    let output = orders(node, words);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let price = |line| {
        let row: Value = serde_json::from_str(line).unwrap();
        let (whole, cents) = row["price"].as_str().unwrap().split_once('.').expect("two places");
        format!("{whole}{cents}").parse().unwrap()
    };
    text.lines().map(price).collect()
}

#[test]
fn a_reader_goes_on_where_the_node_keeps_its_place_under_a_name() {
    let (_home, node, mut alice) = market();
    alice.ask_for_report(ALICE.sell(1, 60, 1));
    alice.ask_for_report(ALICE.sell(2, 61, 1));
    assert_eq!(prices(&node, &["--name", "desk"]), [60, 61]);
    assert_eq!(prices(&node, &["--name", "desk"]), [] as [i64; 0], "it has them");
    alice.ask_for_report(ALICE.sell(3, 62, 1));
    assert_eq!(prices(&node, &["--name", "other"]), [60, 61, 62], "a place of its own");
    assert_eq!(prices(&node, &["--name", "desk"]), [62]);
    let output = orders(&node, &["--name", "no name"]);
    assert!(!output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no name"), "{output:?}");
}

#[test]
fn a_token_is_taken_apart_and_a_read_waits_for_it() {
    let (home, node, mut alice) = market();
    alice.ask_for_report(ALICE.sell(1, 60, 1));
    let file = home.path("token");
    let file = file.to_str().unwrap();
    assert_eq!(prices(&node, &["--token-file", file]), [60]);
    let token = std::fs::read_to_string(file).unwrap();
    let token = token.trim();
    let decoded = weir(&["token", "decode", token, "--json"], &[("--dir", &home.data())]);
    assert!(decoded.status.success(), "{decoded:?}");
    let said: Value = serde_json::from_slice(&decoded.stdout).unwrap();
    let parts = ["version", "key_id", "scope_check", "maker", "count"];
    assert!(parts.iter().all(|part| said[part].is_u64()), "{said}");
    assert_eq!(said["version"], 4, "{said}");
    let [place] = said["sources"].as_array().unwrap().as_slice() else { panic!("{said}") };
    assert_eq!((&place["source"], &place["epoch"]), (&1.into(), &1.into()), "{said}");
    assert!(place["seen"].as_u64() >= place["seq"].as_u64() && place["seq"] != 0, "{said}");
    let text = weir(&["token", "decode", token], &[("--dir", &home.data())]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.starts_with("version 4  key ") && text.contains("seen "), "{text}");
    // The store has the token's changes already; a token of another filter is refused with its
    // reason.
    assert_eq!(prices(&node, &["--min-token", token, "--min-wait-ms", "1000"]), [60]);
    let output = orders(&node, &["--live", "--min-token", token]);
    assert!(!output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("min"), "{output:?}");
}

#[test]
fn top_lists_readers_of_order_state_with_their_filter_and_their_rates() {
    let (_home, node, mut alice) = market();
    let mut child = weir_at(&node, &["orders", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    alice.ask_for_report(ALICE.sell(1, 60, 2));
    lines.next().expect("the order is told").unwrap();
    let look = |words: &[&str]| {
        let words = [&["top"], words].concat();
        weir_at(&node, &words).stdout(Stdio::piped()).spawn().unwrap()
    };
    let said = until("a reader that was served", || {
        let output = look(&["--once", "--json"]).wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        (said["readers"][0]["rows"] == 1).then_some(said)
    });
    let reader = &said["readers"][0];
    assert_eq!(
        (&reader["source"], &reader["firm"], &reader["waits_for"]),
        (&1.into(), &0.into(), &"rows".into())
    );
    assert_eq!((&reader["lag_rows"], &reader["lag_is_more"]), (&0.into(), &false.into()), "{said}");
    assert_eq!(reader["pages_per_s"], Value::Null, "one look has no rates");
    let text = look(&["--once"]).wait_with_output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&text).contains("waits for"), "{text:?}");
    let mut top = look(&["--json", "--interval-ms", "50"]);
    let looks = BufReader::new(top.stdout.take().expect("stdout is piped")).lines().take(2);
    let second: Value = serde_json::from_str(&looks.last().unwrap().unwrap()).unwrap();
    top.kill().unwrap();
    top.wait().unwrap();
    assert!(second["readers"][0]["pages_per_s"].is_u64(), "{second}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn top_shows_who_is_behind_the_furthest_first_and_says_rates_from_the_second_look_on() {
    let (_home, node, mut alice) = market();
    let top = |words: &[&str]| {
        let words = [&["top"], words].concat();
        weir_at(&node, &words)
    };
    let address: SocketAddr =
        node.status()["subscriptions"]["address"].as_str().unwrap().parse().unwrap();
    let mut theirs = BrokerClient::new(address, ALICE.config());
    let mut make = |name, kind| theirs.create(&NewSubscription::new(name, kind)).unwrap();
    make("quiet", SubscriptionKind::State);
    make("trades", SubscriptionKind::Trades);
    alice.ask_for_report(ALICE.sell(1, 60, 2));
    for number in [2, 3] {
        alice.ask_for_report(ALICE.buy(number, 60, 1));
    }
    let names = |said: &Value| -> Vec<String> {
        let all = said["subscriptions"].as_array().unwrap().iter();
        all.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let said = until("two trades that nobody took", || {
        let output = top(&["--once", "--json"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        (said["subscriptions"][0]["lag_messages"] == 2).then_some(said)
    });
    assert_eq!(names(&said).len(), 2, "{said}");
    assert!(names(&said)[0].ends_with("trades"), "{said}");
    assert_eq!(said["rates"]["pages_per_s"], Value::Null, "one look has no rates");
    let output = top(&["--once", "--json", "--sort", "name", "--limit", "1"]).output().unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(names(&said)[0].ends_with("quiet") && names(&said).len() == 1, "{said}");
    let text = String::from_utf8(top(&["--once"]).output().unwrap().stdout).unwrap();
    assert!(text.contains("readers wait") && text.contains("trades") && text.contains("away"));
    let mut compact = weir_at(&node, &["subscriptions"]);
    let output = compact.arg("compact").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("wanted"), "{output:?}");
    let refused = theirs.act(SubscriptionAction::Compact, FirmId::NONE, "");
    assert!(format!("{refused:?}").contains("NotEntitled"), "{refused:?}");
    let mut child = top(&["--json", "--interval-ms", "50"]).stdout(Stdio::piped()).spawn().unwrap();
    let looks = BufReader::new(child.stdout.take().expect("stdout is piped")).lines().take(2);
    let second: Value = serde_json::from_str(&looks.last().unwrap().unwrap()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(second["rates"]["pages_per_s"].is_u64(), "{second}");
}

/// Takes the session of a command over, by which the command must end, and without coming back.
fn is_ended_by_a_takeover(address: SocketAddr, command: Child) {
    let takes_over = SessionConfig { takeover: true, ..OPERATOR.config() };
    // A session is taken over once a second.
    let mut other = until("the takeover", || {
        let mut other = BrokerClient::new(address, takes_over);
        other.list(FirmId::NONE).ok().map(|_| other)
    });
    let output = command.wait_with_output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(Reason::TakenOver.text()), "{said}");
    other.list(FirmId::NONE).unwrap();
}

#[test]
fn commands_end_when_another_connection_takes_their_session_over() {
    let (_home, node, _alice) = market();
    let address: SocketAddr =
        node.status()["subscriptions"]["address"].as_str().unwrap().parse().unwrap();
    let trades = NewSubscription::new("trades", SubscriptionKind::Trades);
    BrokerClient::new(address, OPERATOR.config()).create(&trades).unwrap();
    let start = |command: &str, words: &[&str]| {
        let mut command = weir_at(&node, &[command]);
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut top = start("top", &["--json", "--interval-ms", "50"]);
    // Its first look follows its logon.
    let stdout = top.stdout.as_mut().expect("stdout is piped");
    BufReader::new(stdout).read_line(&mut String::new()).unwrap();
    is_ended_by_a_takeover(address, top);
    let mut read = start("subscriptions", &["read", "trades"]);
    until("its subscription", || {
        if read.try_wait().unwrap().is_some() {
            let mut said = String::new();
            read.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("the reader has ended: {said}");
        }
        (node.status()["subscriptions"]["attached"] == 1).then_some(())
    });
    is_ended_by_a_takeover(address, read);
}
