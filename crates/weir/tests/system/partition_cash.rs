//! Cash between the trading partitions of a node: an order can use the cash of its own one.

use std::process::{Child, Output, Stdio};

use serde_json::Value;
use weir_client::clock::unix_time;
use weir_client::request::LimitOrder;
use weir_client::session::SessionEvent;
use weir_types::{InstrumentId, OrdStatus, PartitionId, Reason, Side};

use crate::publish::free_port;
use crate::support::trader::Trader;
use crate::support::{ALICE, Home, INSTRUMENT, Node, open_market, until};
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
    assert!(
        said.contains("does not tell") && said.contains("partition 9 at its other end"),
        "{said}"
    );
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

/// Returns the free cash of partitions 3 and 7, and the cash in transit.
fn shown(node: &Node) -> ([i64; 2], i64) {
    let said = admin(node, &["cash", "show", "--account", "11"]);
    let rows = said["partitions"].as_array().unwrap();
    assert_eq!(
        rows.iter().map(|row| row["partition"].as_u64()).collect::<Vec<_>>(),
        [Some(3), Some(7)]
    );
    let free = [0, 1].map(|at: usize| rows[at]["free"].as_i64().unwrap());
    let in_transit = said["in_transit"].as_array().unwrap().iter();
    (free, in_transit.map(|row| row["cash"].as_i64().unwrap()).sum())
}

#[test]
fn cash_is_shown_shared_and_topped_up_over_the_partitions() {
    let home = Home::with_config("disk", "[[partition]]\nid = 3\n[[partition]]\nid = 7\n");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let much = ["deposit", "--account", "11", "--partition", "3", "--cash", "999"];
    admin(&node, &[&much[..], &["--transfer-id", "4000"]].concat());
    admin(&node, &["account", "--id", "11", "--limited"]);
    assert_eq!(shown(&node), ([1_000, 1], 0));
    // What an order reserves stays.
    let mut alice = Trader::log_on(&node, ALICE);
    assert_eq!(buy(&mut alice, 0, 1, 400), None);
    assert_eq!(shown(&node), ([600, 1], 0));

    let said = admin(&node, &["cash", "rebalance", "--account", "11"]);
    assert_eq!((said["moves"].as_u64(), shown(&node)), (Some(1), ([301, 300], 0)));
    let again = admin(&node, &["cash", "rebalance", "--account", "11"]);
    assert_eq!(again["moves"].as_u64(), Some(0), "it is shared");
    let weighted = ["cash", "rebalance", "--account", "11", "--weight", "7=1"];
    admin(&node, &weighted);
    assert_eq!(shown(&node), ([0, 601], 0));
    assert_eq!(buy(&mut alice, 1, 2, 600), None, "it is there");
    assert_eq!(shown(&node), ([0, 1], 0));

    let top_up = ["cash", "top-up", "--account", "11", "--below", "50", "--fill-to", "200"];
    assert_eq!(admin(&node, &top_up)["moves"].as_u64(), Some(0), "nobody has enough");
    let much = ["deposit", "--account", "11", "--partition", "3", "--cash", "500"];
    admin(&node, &much);
    assert_eq!(admin(&node, &top_up)["moves"].as_u64(), Some(1));
    assert_eq!(shown(&node), ([301, 200], 0));
    assert_eq!(admin(&node, &top_up)["moves"].as_u64(), Some(0), "both have the mark");

    for (words, said) in [
        (&["show", "--account", "99"][..], "UnknownAccount"),
        (&["rebalance", "--account", "11", "--weight", "5=1"], "no trading partition 5"),
        (&["rebalance", "--account", "11", "--weight", "3=0"], "no partition has a weight"),
        (&["top-up", "--account", "11", "--below", "9", "--fill-to", "8"], "below the mark"),
        (&["top-up", "--account", "99", "--below", "1", "--fill-to", "8"], "account 99"),
    ] {
        let refused = refusal(try_admin(&node, &[&["cash"][..], words].concat()));
        assert!(refused.contains(said), "{refused}");
    }
    assert!(node.terminate().success());
}

#[test]
fn cash_that_an_interrupted_move_left_in_transit_is_settled() {
    let home = Home::with_config("disk", "[[partition]]\nid = 3\n[[partition]]\nid = 7\n");
    let mut node = home.start();
    open_market(&node, &[ALICE]);
    let much = ["deposit", "--account", "11", "--partition", "3", "--cash", "999"];
    admin(&node, &[&much[..], &["--transfer-id", "4000"]].concat());
    let settled = |node: &Node| {
        admin(node, &["cash", "settle", "--account", "11"])["settled"].as_u64().unwrap()
    };
    // A move takes cash out, and the node dies.
    let interrupt = |node: &mut Node, id: &str| {
        let half = ["deposit", "--account", "11", "--partition", "3", "--cash", "-300"];
        admin(node, &[&half[..], &["--peer", "7", "--transfer-id", id]].concat());
        node.kill();
        home.start()
    };
    node = interrupt(&mut node, "5000");
    assert_eq!(shown(&node), ([700, 1], 300));
    assert_eq!(settled(&node), 1);
    assert_eq!((settled(&node), shown(&node)), (0, ([700, 301], 0)));
    // A rebalancing settles first.
    node = interrupt(&mut node, "5001");
    let said = admin(&node, &["cash", "rebalance", "--account", "11"]);
    assert_eq!((said["moves"].as_u64(), shown(&node)), (Some(2), ([501, 500], 0)), "{said}");
    // Cash that went outside is in transit to nobody.
    let out = ["deposit", "--account", "11", "--partition", "3", "--cash", "-1"];
    admin(&node, &out);
    assert_eq!((settled(&node), shown(&node)), (0, ([500, 500], 0)));
    assert!(node.terminate().success());
}

/// A command that repeats itself until it is killed.
struct Keeper(Child);

impl Drop for Keeper {
    fn drop(&mut self) {
        // Both calls fail if it has already ended, which is the state wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_top_up_that_repeats_goes_on_over_a_restart_of_the_node() {
    let home = Home::with_config("disk", "[[partition]]\nid = 3\n[[partition]]\nid = 7\n");
    let home = home.listening_on(([127, 0, 0, 1], free_port()).into());
    let mut node = home.start();
    open_market(&node, &[ALICE]);
    let pay = |node: &Node, id: &str| {
        let much = ["deposit", "--account", "11", "--partition", "3", "--cash", "1000"];
        admin(node, &[&much[..], &["--transfer-id", id]].concat());
    };
    let take = |node: &Node, id: &str| {
        let out = ["deposit", "--account", "11", "--partition", "7", "--cash", "-100"];
        admin(node, &[&out[..], &["--transfer-id", id]].concat());
    };
    let is_filled = |node: &Node| until("a top-up", || (shown(node).0[1] >= 100).then_some(()));
    pay(&node, "4000");
    let top_up = ["cash", "top-up", "--account", "11", "--below", "50", "--fill-to", "100"];
    let mut keeper = weir_at(&node, &["admin"]);
    keeper.args(["--json", "--yes"]).args(top_up).args(["--every", "1"]);
    let mut keeper = Keeper(keeper.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    is_filled(&node);
    node.kill();
    let node = home.start();
    take(&node, &unix_time().0.to_string());
    is_filled(&node);
    assert!(keeper.0.try_wait().unwrap().is_none(), "it goes on");
    drop(keeper);
    assert!(node.terminate().success());
}
