//! Orders, cancels, trades and positions by symbol and decimals.

use serde_json::Value;

use crate::support::{ALICE, BOB, Home, Node, OPERATOR, Who, open_market};
use crate::{fail, hex, succeed, weir_at};

/// The JSON lines of a command of a trader.
fn ask(node: &Node, who: Who, words: &[&str]) -> Vec<Value> {
    let (session, key) = (who.session_id.to_string(), hex(who.key().0));
    let text = succeed(weir_at(node, words).args(["--session", &session, "--key", &key, "--json"]));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn field<'a>(lines: &'a [Value], name: &str) -> Vec<&'a str> {
    lines.iter().map(|line| line[name].as_str().unwrap_or("-")).collect()
}

#[test]
fn orders_are_entered_and_cancelled_by_symbol_and_decimal_prices() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let sold = ask(&node, ALICE, &["order", "sell", "100", "WEIR1", "10.05"]);
    assert_eq!(field(&sold, "exec_type"), ["New"]);
    assert_eq!((&sold[0]["symbol"], &sold[0]["price"]), (&"WEIR1".into(), &"10.05".into()));
    let words = ["order", "buy", "40", "WEIR1", "10.10", "--cl-ord-id", "first"];
    let bought = ask(&node, BOB, &words);
    assert_eq!(field(&bought, "exec_type"), ["New", "Trade"]);
    assert_eq!((&bought[1]["last_px"], &bought[1]["last_qty"]), (&"10.05".into(), &"40".into()));
    let market = ask(&node, BOB, &["order", "buy", "10", "WEIR1", "--time-in-force", "ioc"]);
    assert_eq!(field(&market, "exec_type"), ["New", "Trade"], "a market order: {market:?}");
    let second = ["order", "buy", "5", "WEIR1", "9.99", "--cl-ord-id", "second"];
    ask(&node, BOB, &second);
    let cancelled = ask(&node, BOB, &["cancel", "second"]);
    assert_eq!(field(&cancelled, "exec_type"), ["Canceled"]);
    ask(&node, ALICE, &["order", "sell", "1", "WEIR1", "11"]);
    let all = ask(&node, ALICE, &["mass-cancel"]);
    assert_eq!(all.last().unwrap()["cancelled"], 2, "{all:?}");
}

#[test]
fn trades_and_positions_are_added_up_for_an_operator() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    ask(&node, ALICE, &["order", "sell", "100", "WEIR1", "10.05"]);
    ask(&node, BOB, &["order", "buy", "40", "WEIR1", "10.10"]);
    ask(&node, BOB, &["order", "buy", "20", "WEIR1", "10.05"]);
    let trades = ask(&node, OPERATOR, &["trades"]);
    assert_eq!(field(&trades, "last_qty"), ["40", "40", "20", "20"]);
    let alices = ask(&node, OPERATOR, &["trades", "--account", "11", "--instrument", "WEIR1"]);
    assert_eq!(field(&alices, "side"), ["Sell", "Sell"]);
    let positions = ask(&node, OPERATOR, &["positions"]);
    assert_eq!(field(&positions, "net_qty"), ["-60", "60"]);
    assert_eq!(field(&positions, "bought_avg_px"), ["-", "10.0500"]);
}

#[test]
fn a_refused_order_is_an_error_with_the_reasons_name() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let key = hex(ALICE.key().0);
    let order = |words: &[&str]| {
        let words = [&["order"], words, &["--session", "11", "--key", &key]].concat();
        fail(&mut weir_at(&node, &words))
    };
    for (words, want) in [
        (&["buy", "1", "WEIR1", "10.001"][..], "no multiple of 0.01"),
        (&["buy", "1", "WEIR1", "999999"], "InvalidPrice"),
        (&["buy", "1", "NONE", "10"], "no instrument \"NONE\"; it has WEIR1"),
        (&["buy", "1", "WEIR1", "10", "--account", "12"], "Account"),
        (&["buy", "1", "WEIR1", "10", "--until", "+1m"], "gtd"),
        (&["long", "1", "WEIR1", "10"], "want buy, sell"),
    ] {
        let said = order(words);
        assert!(said.contains(want), "{words:?}: {said}");
    }
    let cancel = ["cancel", "none", "--session", "11", "--key", &key];
    let said = fail(&mut weir_at(&node, &cancel));
    assert!(said.contains("no live order \"none\"; it has none"), "{said}");
    let said = fail(&mut weir_at(&node, &["order", "buy", "1", "WEIR1", "10"]));
    assert!(said.contains("--session"), "session 1 is an operator: {said}");
}
