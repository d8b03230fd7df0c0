//! Reports never wait for the leftovers of others: a shadow that cannot work, and a session that
//! needs old events. Everybody who keeps pace is served meanwhile, and the node says so.

use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_types::{EventNo, OrdStatus};

use crate::slow_reader::{TRADES, take_all};
use crate::support::trader::Trader;
use crate::support::{ALICE, BOB, HANG, Home, Who, open_market, trader_of, until};

const CAROL: Who = trader_of(13);
/// Alice's events in all, each with many of others around it.
const SPARSE: u64 = 40;

fn newest_segment(dir: &Path) -> PathBuf {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "wlog");
    names.filter(is_segment).max().expect("a log has a segment")
}

#[test]
fn old_reports_wait_for_a_shadow_that_fails_and_new_ones_do_not() {
    let home = Home::with_config("memory", "[events]\nmemory_bytes = 8388608\n");
    // The first start ends with a snapshot of all definitions, so the second has no command yet.
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    assert!(node.terminate().success());
    let node = home.start();
    // The shadow opens the log at its first command, and finds another file in the segment's place.
    // The log has the segment open and does not look it up by its name.
    let segment = newest_segment(&home.data().join("partition-1/commands"));
    let (away, other) = (home.data().join("away"), home.data().join("other"));
    std::fs::hard_link(&segment, &away).unwrap();
    std::fs::write(&other, "in the way").unwrap();
    std::fs::rename(&other, &segment).unwrap();
    let mut alice = Trader::log_on(&node, ALICE);
    alice.ask_for_report(ALICE.sell(1, 50, TRADES));
    alice.client.log_out(HANG).unwrap();
    let mut bob = Trader::log_on(&node, BOB);
    // More events than the node keeps in memory.
    take_all(&mut bob);
    let mut alice = Trader::resume(&node, ALICE, EventNo(1)).unwrap();
    let lacking = |row: &serde_json::Value| row["event_wanted_in_files"].as_u64() > Some(0);
    node.partition_when(crate::support::TRADING, lacking);
    // Alice has hurried the shadow: without that it would have what a busy machine leaves.
    let said = until("the shadow to fail", || {
        let (code, said) = node.get("/ready");
        (code == 503).then_some(said)
    });
    assert!(said.contains("the shadow of partition 1"), "{said}");
    // Bob is answered while Alice's first events are nowhere but in the log.
    bob.settle();
    while alice.poll(Duration::from_millis(300)).unwrap() > 0 {}
    assert_eq!(alice.reports().len(), 0, "her events are not in memory any more");

    std::fs::rename(&away, &segment).unwrap();
    let last = alice.report_where(|report| report.ord_status == OrdStatus::Filled);
    assert_eq!(last.event_no, EventNo(TRADES + 1));
    let numbers = alice.reports().iter().map(|report| report.event.event_no.0);
    assert!(numbers.eq(1..=TRADES + 1), "dense and in order");
    until("the node to be ready", || (node.get("/ready").0 == 200).then_some(()));
    drop((alice, bob));
    assert!(node.terminate().success());
    home.verify(crate::support::TRADING);
}

#[test]
fn a_resume_of_sparse_events_takes_a_few_pages_and_holds_up_nobody() {
    let home = Home::with_config("memory", "[events]\nmemory_bytes = 8388608\n");
    let node = home.start();
    open_market(&node, &[ALICE, BOB, CAROL]);
    let mut carol = Trader::log_on(&node, CAROL);
    carol.ask_for_report(CAROL.sell(1, 50, TRADES));
    carol.client.log_out(HANG).unwrap();
    let mut alice = Trader::log_on_as(&node, ALICE, ALICE.patient_config());
    let mut bob = Trader::log_on(&node, BOB);
    // More events in all than the node keeps in memory.
    let each = TRADES / SPARSE;
    for number in 1..=SPARSE {
        alice.ask_for_report(ALICE.buy(number, 10, 1));
        for taken in 1..=each {
            bob.send(BOB.buy(number * each + taken, 50, 1));
        }
        bob.settle();
        bob.forget();
    }
    alice.client.log_out(HANG).unwrap();
    // The page of figures is told at intervals: each phase waits for its number of sessions, so
    // that the figures of one are those behind the phase before.
    let told = |sessions: u64| {
        let gateway = || node.status()["gateway"].clone();
        let page = || Some(gateway()).filter(|page| page["sessions"] == sessions);
        until("the sessions", page)["history_requests"].as_u64().expect("a counter")
    };
    let mut resume = || {
        let mut alice = Trader::resume(&node, ALICE, EventNo(1)).unwrap();
        bob.settle();
        alice.report_where(|report| report.event_no == EventNo(SPARSE));
        told(2);
        alice
    };
    told(1);
    // A page has the events that are in the files by then, and the shadow, which gets idle time,
    // writes them when somebody wants them: the first resume does.
    resume().client.log_out(HANG).unwrap();
    let before = told(1);
    let alice = resume();
    let numbers = alice.reports().iter().map(|report| report.event.event_no.0);
    assert!(numbers.eq(1..=SPARSE), "dense and in order");
    alice.client.log_out(HANG).unwrap();
    // The gateway reads no file itself, and asks for all of her events at once.
    let pages = told(1) - before;
    assert!((1..=SPARSE / 8).contains(&pages), "{pages} pages");
}
