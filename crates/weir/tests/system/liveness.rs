//! Heartbeats in both directions, and timeouts on silence. Intervals are long where a timeout must
//! not happen, and the shortest that the protocol allows where it must happen.

use std::time::{Duration, Instant};

use weir_client::session::SessionConfig;
use weir_types::{EventNo, PartitionId, Reason};
use weir_wire::NodeMessage;
use weir_wire::session::Logon;

use crate::support::trader::Trader;
use crate::support::wire::{Wire, logon_of};
use crate::support::{ALICE, BOB, Home, TRADING, open_market};

#[test]
fn the_nodes_heartbeats_carry_the_mark_of_each_partition() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let mut alice = Trader::log_on(&node, ALICE);
    for number in 1..=3 {
        alice.ask_for_report(ALICE.buy(number, 50, 1));
    }
    drop(alice);
    crate::support::until("the end of the session", || {
        (node.status()["gateway"]["sessions"] == 0).then_some(())
    });
    let mut wire = Wire::connect(&node);
    let ack = wire.log_on(&Logon { heartbeat_interval_ms: 1_000, ..logon_of(&ALICE) });
    assert_eq!(ack.heartbeat_interval_ms, 1_000);
    let mut marks = Vec::new();
    while marks.len() < 2 {
        marks.push(wire.expect("a heartbeat", |message| match message {
            NodeMessage::Heartbeat(beat) => Some((beat.partition_id, beat.high_water)),
            _ => None,
        }));
    }
    assert_eq!(marks, [(PartitionId(0), EventNo(0)), (TRADING, EventNo(3))]);
}

#[test]
fn an_interval_out_of_range_is_answered_by_the_nearest_one() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    for (who, asked, granted) in [(ALICE, 1, 100), (BOB, u32::MAX, 60_000)] {
        let mut wire = Wire::connect(&node);
        let ack = wire.log_on(&Logon { heartbeat_interval_ms: asked, ..logon_of(&who) });
        assert_eq!(ack.heartbeat_interval_ms, granted);
    }
}

#[test]
fn a_silent_session_is_lost_and_one_that_beats_is_not() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let mut silent = Wire::connect(&node);
    silent.log_on(&Logon { heartbeat_interval_ms: 1_000, ..logon_of(&BOB) });
    let config = SessionConfig { heartbeat_interval_ms: 1_000, ..ALICE.config() };
    let mut alive = Trader::log_on_as(&node, ALICE, config);
    // The client sends only heartbeats here.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(3_500) {
        alive.poll(Duration::from_millis(100)).unwrap();
    }
    alive.ask_for_report(ALICE.buy(1, 50, 1));
    assert_eq!(silent.logout(), (BOB.session_id, Reason::HeartbeatLost));
    // The connection stays open, and the session may log on again.
    silent.log_on(&logon_of(&BOB));
}
