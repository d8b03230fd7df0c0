//! Cash between the trading partitions of a node: an order can use the cash of its own one.

use std::process::Output;

use serde_json::Value;
use weir_client::request::LimitOrder;
use weir_client::session::SessionEvent;
use weir_types::{InstrumentId, OrdStatus, PartitionId, Reason, Side};

use crate::support::trader::Trader;
use crate::support::{ALICE, Home, INSTRUMENT, Node, open_market};
use crate::tools::weir_at;

const PARTITIONS: [PartitionId; 2] = [PartitionId(3), PartitionId(7)];
const INSTRUMENTS: [InstrumentId; 2] = [INSTRUMENT, InstrumentId(2)];

fn try_admin(node: &Node, words: &[&str]) -> Output {
    weir_at(node, &["admin"]).args(["--json", "--yes"]).args(words).output().unwrap()
}

fn admin(node: &Node, words: &[&str]) -> Value {
    let output = try_admin(node, words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn try_move_between(node: &Node, ends: [&str; 2], cash: &str, transfer_id: &str) -> Output {
    let [from, to] = ends;
    let words = ["cash", "move", "--account", "11", "--from", from, "--to", to, "--cash", cash];
    try_admin(node, &[&words[..], &["--transfer-id", transfer_id]].concat())
}

/// Moves cash of the account from partition 3 to 7.
fn try_move(node: &Node, cash: &str, transfer_id: &str) -> Output {
    try_move_between(node, ["3", "7"], cash, transfer_id)
}

/// As [`try_move`]; returns whether it left the one and entered the other partition now.
fn move_cash(node: &Node, cash: &str, transfer_id: &str) -> [bool; 2] {
    let output = try_move(node, cash, transfer_id);
    assert!(output.status.success(), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    [&said["moved_out"], &said["moved_in"]].map(|moved| moved.as_bool().unwrap())
}

fn refusal(output: Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Enters an order to buy a lot in a partition; returns the reason of a refusal.
fn buy(alice: &mut Trader, index: usize, number: u64, price: i64) -> Option<Reason> {
    let order = ALICE.order(number, Side::Buy, price, 1);
    let order = LimitOrder { instrument_id: INSTRUMENTS[index], ..order };
    let request_no = alice.send_to(PARTITIONS[index], order.request());
    match alice.answer(request_no) {
        SessionEvent::Report { report, .. } => {
            let is_refused = report.event.ord_status == OrdStatus::Rejected;
            is_refused.then_some(report.event.reason)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn cash_moves_between_partitions_once_and_from_wherever_it_was_interrupted() {
    let home = Home::with_config("disk", "[[partition]]\nid = 3\n[[partition]]\nid = 7\n");
    let mut node = home.start();
    open_market(&node, &[ALICE]);
    // Partition 7 has next to nothing.
    let much = ["deposit", "--account", "11", "--partition", "3", "--cash", "100000"];
    admin(&node, &[&much[..], &["--transfer-id", "4000"]].concat());
    admin(&node, &["account", "--id", "11", "--limited"]);
    let mut alice = Trader::log_on(&node, ALICE);
    assert_eq!(buy(&mut alice, 1, 1, 400), Some(Reason::InsufficientCash));
    assert_eq!(move_cash(&node, "500", "4711"), [true, true]);
    assert_eq!(buy(&mut alice, 1, 2, 400), None);
    assert_eq!(move_cash(&node, "500", "4711"), [false, false], "once");
    assert_eq!(buy(&mut alice, 1, 3, 400), Some(Reason::InsufficientCash));

    // Interrupted behind the first transfer, by a kill of the node.
    let first = ["deposit", "--account", "11", "--partition", "3", "--cash", "-300"];
    admin(&node, &[&first[..], &["--peer", "7", "--transfer-id", "4712"]].concat());
    node.kill();
    let node = home.start();
    assert_eq!(move_cash(&node, "300", "4712"), [false, true]);
    let mut alice = Trader::log_on(&node, ALICE);
    assert_eq!(buy(&mut alice, 1, 4, 400), None);

    // More than there is: nothing moves.
    let said = refusal(try_move(&node, "100000000", "4713"));
    assert!(said.contains("nothing was moved") && said.contains("InsufficientCash"), "{said}");
    // The other partition had a later number: the way out is told, and goes.
    let later = ["deposit", "--account", "11", "--partition", "7", "--cash", "1"];
    admin(&node, &[&later[..], &["--transfer-id", "9999"]].concat());
    let said = refusal(try_move(&node, "100", "4714"));
    assert!(said.contains("are out of partition 3 and not in 7"), "{said}");
    let back = said.split_once("give them back: weir admin ").unwrap().1.trim();
    let back: Vec<_> = back.split(' ').chain(["--transfer-id", "4715"]).collect();
    admin(&node, &back);
    // Finished, and then another transfer of the account: whether it is in is not known by that.
    assert_eq!(move_cash(&node, "10", "10000"), [true, true]);
    let later = ["deposit", "--account", "11", "--partition", "7", "--cash", "1"];
    admin(&node, &[&later[..], &["--transfer-id", "10001"]].concat());
    let said = refusal(try_move(&node, "10", "10000"));
    assert!(said.contains("may be in 7") && !said.contains("give them back"), "{said}");
    // Nor whether it is out, where the first partition has a later one.
    let later = ["deposit", "--account", "11", "--partition", "3", "--cash", "1"];
    admin(&node, &[&later[..], &["--transfer-id", "10002"]].concat());
    let said = refusal(try_move(&node, "10", "10000"));
    assert!(said.contains("does not tell") && !said.contains("nothing was moved:"), "{said}");
    for (cash, from, to) in [("0", "3", "7"), ("1", "3", "3"), ("1", "3", "8")] {
        let words = ["cash", "move", "--account", "11", "--from", from, "--to", to];
        refusal(try_admin(&node, &[&words[..], &["--cash", cash]].concat()));
    }
    assert!(node.terminate().success());
}

/// A number that has moved cash to one partition moves none to another, and none from a third: the
/// sum of an account's cash over all partitions stays what was paid in.
#[test]
fn a_move_repeated_with_another_end_creates_and_destroys_no_cash() {
    let config = "[[partition]]\nid = 3\n[[partition]]\nid = 7\n[[partition]]\nid = 9\n";
    let home = Home::with_config("disk", config);
    let node = home.start();
    open_market(&node, &[ALICE]);
    for partition in ["3", "9"] {
        let much = ["deposit", "--account", "11", "--partition", partition, "--cash", "1000"];
        admin(&node, &[&much[..], &["--transfer-id", "4000"]].concat());
    }
    admin(&node, &["account", "--id", "11", "--limited"]);
    assert_eq!(move_cash(&node, "500", "4711"), [true, true]);

    let said = refusal(try_move_between(&node, ["3", "9"], "500", "4711"));
    assert!(said.contains("does not tell") && said.contains("partition 9 at its other end"), "{said}");
    let said = refusal(try_move_between(&node, ["9", "7"], "500", "4711"));
    assert!(said.contains("are out of partition 9 and not in 7"), "{said}");
    let back = said.split_once("give them back: weir admin ").unwrap().1.trim();
    let back: Vec<_> = back.split(' ').chain(["--transfer-id", "4712"]).collect();
    admin(&node, &back);

    // One came with the market, in each.
    for (partition, all) in [("3", "-501"), ("7", "-501"), ("9", "-1001")] {
        let take = |cash: &str, id: &str| {
            let words = ["deposit", "--account", "11", "--partition", partition, "--cash", cash];
            try_admin(&node, &[&words[..], &["--transfer-id", id]].concat())
        };
        assert!(take(all, "5000").status.success(), "partition {partition} lacks cash");
        assert!(refusal(take("-1", "5001")).contains("InsufficientCash"), "{partition}");
    }
    assert!(node.terminate().success());
}
