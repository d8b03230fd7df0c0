//! A node whose disk stalls: requests wait, and no session is lost for it.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_client::session::{SessionConfig, SessionEvent, Submit, Times};
use weir_client::{Client, Incoming, Limits};
use weir_io::ThreadDisk;
use weir_log::{SegmentKind, inspect};
use weir_types::SessionId;

use crate::support::machine::Machine;
use crate::support::{ALICE, BOB, HANG, Home, TRADING, open_market, until};

/// Requests sent between two looks at the node's figures.
const CHUNK: u64 = 1_000;
/// The node's heartbeats to a session in six of its intervals: one for each of two partitions. A
/// session that was not heard for so long would be lost.
const HEARTBEATS: usize = 12;

/// Polls once and counts the node's heartbeats to each session.
fn poll(client: &mut Client, heard: &mut BTreeMap<SessionId, usize>) {
    let sink = |incoming: Incoming<'_>, _: &mut Vec<u8>| match incoming {
        Incoming::Session(id, SessionEvent::Heartbeat(_)) => *heard.entry(id).or_default() += 1,
        Incoming::Session(id, SessionEvent::LoggedOut(logout)) => panic!("{id}: {logout:?}"),
        _ => {}
    };
    client.poll(Duration::from_millis(20), sink).unwrap();
}

#[test]
fn a_stalled_disk_loses_no_session_of_a_connection_and_every_request_is_answered() {
    let home = Home::new("disk");
    let machine = Machine::new(&home);
    let node = machine.start(&home);
    open_market(&node, &[ALICE, BOB]);
    let mut client = Client::connect(node.address(), Limits::default()).unwrap();
    for who in [ALICE, BOB] {
        let config = SessionConfig {
            heartbeat_interval_ms: 1_000,
            unanswered_count_max: 1 << 20,
            ..who.config()
        };
        client.log_on(config, HANG).unwrap();
    }
    machine.stall_disk(true);
    // One session fills everything up to the connection; the other one only sends heartbeats, and
    // those wait behind the requests.
    let (mut number, mut heard) = (0, BTreeMap::new());
    until("requests that wait", || {
        for _ in 0..CHUNK {
            number += 1;
            let request = ALICE.buy(number, 50, 1);
            let sent = client.submit(ALICE.session_id, TRADING, request, Times::default());
            assert!(matches!(sent, Submit::Sent(_)), "{sent:?}");
        }
        poll(&mut client, &mut heard);
        (node.status()["gateway"]["back_pressure"].as_u64() > Some(0)).then_some(())
    });
    heard.clear();
    until("heartbeats to both", || {
        poll(&mut client, &mut heard);
        let is_served = |who: SessionId| heard.get(&who).is_some_and(|count| *count >= HEARTBEATS);
        (is_served(ALICE.session_id) && is_served(BOB.session_id)).then_some(())
    });
    assert_eq!(node.status()["gateway"]["sessions_lost"], 0);
    machine.stall_disk(false);
    until("the answers", || {
        poll(&mut client, &mut heard);
        let alice = client.session(ALICE.session_id).expect("it has logged on");
        (alice.unanswered_count() == 0).then_some(())
    });
    assert!(node.terminate().success());
    home.verify(TRADING);
}

#[test]
fn a_start_that_is_told_to_stop_closes_the_logs_that_it_has_opened() {
    let home = Home::new("memory");
    let machine = Machine::new(&home);
    let node = machine.start(&home);
    let epoch = node.partition_when(TRADING, |_| true)["epoch"].clone();
    assert!(node.terminate().success());
    let mut stopped_early = 0;
    for syncs in 0..12 {
        machine.stall_disk_after(syncs);
        let starting = machine.spawn(&home);
        let pid = starting.pid();
        let is_there = |what: &str| home.said().contains(what).then_some(());
        until("a start", || is_there(" starting ").or_else(|| is_there(" ready ")));
        // What syncs before the stall does so: the start stands at its place then, or is ready.
        std::thread::sleep(Duration::from_millis(200));
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        until("its answer", || is_there(" told to stop").or_else(|| is_there(" stopping")));
        machine.stall_disk(false);
        match starting.wait() {
            Ok(node) => assert!(node.wait_for_end().success()),
            Err(said) => {
                assert_eq!(said, "", "it is never ready");
                stopped_early += 1;
            }
        }
        let mut disk = ThreadDisk::open(&home.data().join("partition-1/commands"), None).unwrap();
        let found = inspect(&mut disk, SegmentKind::Command).unwrap().unwrap();
        assert!(found.clean, "stalled after {syncs} syncs");
    }
    assert!(stopped_early > 2, "{stopped_early}");
    let node = home.start();
    assert_eq!(node.partition_when(TRADING, |_| true)["epoch"], epoch);
    assert!(node.terminate().success());
}
