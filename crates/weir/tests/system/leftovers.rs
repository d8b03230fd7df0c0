//! A node whose shadow cannot work: everybody who keeps pace is served, a session that needs old
//! events waits for them, and the node says so.

use std::time::Duration;

use weir_types::{EventNo, OrdStatus};

use crate::slow_reader::{TRADES, take_all};
use crate::support::trader::Trader;
use crate::support::{ALICE, BOB, HANG, Home, open_market, until};

#[test]
fn old_reports_wait_for_a_shadow_that_fails_and_new_ones_do_not() {
    let home = Home::with_config("memory", "[events]\nmemory_bytes = 8388608\n");
    let node = home.start();
    // The shadow opens the log at its first command, and finds a file in the directory's place.
    let (commands, away) = (home.data().join("partition-1/commands"), home.data().join("away"));
    // The log creates its spare segment by that name, also later than it says ready.
    until("the spare segment", || commands.join("spare-1.tmp").exists().then_some(()));
    std::fs::rename(&commands, &away).unwrap();
    std::fs::write(&commands, "in the way").unwrap();
    open_market(&node, &[ALICE, BOB]);
    let mut alice = Trader::log_on(&node, ALICE);
    alice.ask_for_report(ALICE.sell(1, 50, TRADES));
    alice.client.log_out(HANG).unwrap();
    let mut bob = Trader::log_on(&node, BOB);
    // More events than the node keeps in memory.
    take_all(&mut bob);
    // The shadow has what other threads leave of a busy machine.
    let said = until("the shadow to fail", || {
        let (code, said) = node.get("/ready");
        (code == 503).then_some(said)
    });
    assert!(said.contains("the shadow of partition 1"), "{said}");

    let mut alice = Trader::resume(&node, ALICE, EventNo(1)).unwrap();
    let lacking = |row: &serde_json::Value| row["event_wanted_in_files"].as_u64() > Some(0);
    node.partition_when(crate::support::TRADING, lacking);
    // Bob is answered while Alice's first events are nowhere but in the log.
    bob.settle();
    while alice.poll(Duration::from_millis(300)).unwrap() > 0 {}
    assert_eq!(alice.reports().len(), 0, "her events are not in memory any more");

    std::fs::remove_file(&commands).unwrap();
    std::fs::rename(&away, &commands).unwrap();
    let last = alice.report_where(|report| report.ord_status == OrdStatus::Filled);
    assert_eq!(last.event_no, EventNo(TRADES + 1));
    let numbers = alice.reports().iter().map(|report| report.event.event_no.0);
    assert!(numbers.eq(1..=TRADES + 1), "dense and in order");
    until("the node to be ready", || (node.get("/ready").0 == 200).then_some(()));
    drop((alice, bob));
    assert!(node.terminate().success());
    home.verify(crate::support::TRADING);
}
