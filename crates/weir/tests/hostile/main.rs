//! A thousand hostile connections next to ten good sessions of the real client.
//!
//! In alternating phases the crowd is present or absent. At any action of it every good request is
//! answered exactly once, no event for a good session is lost, and every connection is accounted
//! for. The added latency of the good sessions is measured in pairs of phases of one run and
//! printed; it is not asserted, since it depends on the machine.
//!
//! `WEIR_HOSTILE` sets the size of the crowd (130), `WEIR_PAIRS` the pairs of phases (1),
//! `WEIR_PHASE_MS` their length (1500), `WEIR_LEVEL` the durability (`memory`).

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "every test program takes a part of it")]
mod support;

#[allow(dead_code, reason = "nobody here comes back to less than it heard")]
#[path = "../kill9/audit.rs"]
mod audit;
mod crowd;
mod figures;
mod good;
#[path = "../kill9/ledger.rs"]
#[allow(dead_code, reason = "nothing is lost or resumed here")]
mod ledger;

use std::time::Duration;

use crowd::{Crowd, INSIDERS};
use figures::{Pair, Phase};
use good::{GOOD, Good, RATE};
use serde_json::Value;
use support::{Home, Node, Who, open_market, until};
use weir_bench::isolation::hostile::Tallies;

fn number_from(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// Returns a configuration with short deadlines, so that each expires within a phase, and a lobby
/// smaller than the crowd.
fn config(crowd_size: u64) -> String {
    format!(
        "[gateway]\nlogon_timeout_ms = 1000\nstall_max_ms = 1000\noutput_bytes_max = 65536\n\
         lobby_per_address_max = {}\n",
        crowd_size / 8
    )
}

fn gateway(node: &Node) -> Value {
    node.status()["gateway"].clone()
}

/// Waits until only the good sessions' connections are left.
fn wait_for_quiet(node: &Node) {
    until("the end of the crowd's connections", || {
        (gateway(node)["connections"] == GOOD.len() as u64).then_some(())
    });
}

fn phase(good: &mut Good, crowd: &Crowd, node: &Node, is_hostile: bool) -> Phase {
    crowd.set_on(is_hostile);
    let rounds = crowd.rounds();
    until("the crowd's change", || (crowd.rounds() > rounds + 2).then_some(()));
    if !is_hostile {
        wait_for_quiet(node);
    }
    let length = Duration::from_millis(number_from("WEIR_PHASE_MS", 1500));
    Phase::of(good.trade(length))
}

#[test]
fn good_sessions_lose_nothing_beside_hostile_connections_and_each_of_those_is_accounted_for() {
    let crowd_size = number_from("WEIR_HOSTILE", 130);
    let level = std::env::var("WEIR_LEVEL").unwrap_or_else(|_| "memory".to_owned());
    let home = Home::with_config(String::leak(level), &config(crowd_size));
    let node = home.start();
    let traders: Vec<Who> = GOOD.into_iter().chain(INSIDERS).collect();
    open_market(&node, &traders);
    let mut good = Good::log_on(&node);
    let crowd = Crowd::gather(node.address(), crowd_size as usize, GOOD[0]);
    good.trade(Duration::from_millis(500));
    let mut pairs = Vec::new();
    for number in 0..number_from("WEIR_PAIRS", 1) {
        // The order of the phases alternates, so that a drift of the machine favours neither.
        let is_first = !number.is_multiple_of(2);
        let first = phase(&mut good, &crowd, &node, is_first);
        let second = phase(&mut good, &crowd, &node, !is_first);
        let (off, on) = if is_first { (second, first) } else { (first, second) };
        pairs.push(Pair { off, on });
    }
    let tallies = crowd.disperse();
    wait_for_quiet(&node);
    good.settle();
    let counters = account_for(&node, &tallies);
    let ledgers: Vec<_> = good.traders.iter().map(|trader| &trader.ledger).collect();
    audit::check_against_log(&home, &ledgers);
    audit::check_fills(&ledgers);
    println!("hostile: {crowd_size} hostile connections beside 10 sessions, {RATE} requests/s");
    figures::tell(&pairs);
    crowd_figures(&tallies, &counters);
    let requests: usize = ledgers.iter().map(|ledger| ledger.sent.len()).sum();
    println!("hostile: {requests} good requests, all of them answered once; 0 events lost");
    assert!(node.terminate().success());
}

/// Asserts that every accepted connection was cut, left or is open, and that the node counts no
/// more than were opened.
fn account_for(node: &Node, tallies: &Tallies) -> Value {
    let counters = gateway(node);
    let count = |name: &str| counters[name].as_u64().unwrap_or_else(|| panic!("no {name}"));
    let ended = count("connections_cut") + count("connections_closed_by_peer");
    assert_eq!(count("accepted"), ended + count("connections"), "{counters}");
    // The operator's connection, which opened the market, and the good sessions'.
    let others = 1 + GOOD.len() as u64;
    let opened: u64 = tallies.values().map(|tally| tally.opened).sum();
    assert!(count("accepted") + count("connections_refused") <= opened + others, "{counters}");
    for tally in tallies.values() {
        assert_eq!(tally.opened, tally.cut + tally.left, "{tallies:?}");
    }
    for name in ["strangers_evicted", "logon_timeouts", "broken_streams", "logons_refused"] {
        assert!(count(name) > 0, "the crowd met no {name}: {counters}");
    }
    counters
}

fn crowd_figures(tallies: &Tallies, counters: &Value) {
    for (kind, tally) in tallies {
        let reasons: Vec<_> =
            tally.reasons.iter().map(|(reason, count)| format!("{reason:?} {count}")).collect();
        println!(
            "hostile:   {kind:?}: {} opened, {} cut, {} left; heard {}",
            tally.opened,
            tally.cut,
            tally.left,
            reasons.join(", ")
        );
    }
    let opened: u64 = tallies.values().map(|tally| tally.opened).sum();
    println!("hostile: {opened} opened by the crowd; the node's counters: {counters}");
}
