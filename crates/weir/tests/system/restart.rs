//! SIGTERM and the clean start after it: no answered request is missing, and no log is cut.

use std::path::PathBuf;
use std::process::Command as Process;

use weir_client::session::{SessionConfig, SessionEvent};
use weir_client::{Admin, ClientError};
use weir_engine::RULES_VERSION;
use weir_io::{Disk, ThreadDisk};
use weir_log::snapshot::SnapshotStore;
use weir_log::{Append, EmbeddedLog, LogConfig, LogReader, Push, SegmentKind, SequencedLog};
use weir_types::{EventNo, Nanos, OrdStatus, PartitionId, Position, Reason, SessionId};
use weir_wire::Command;
use weir_wire::event::OrderEvent;

use crate::support::trader::Trader;
use crate::support::wire::{Wire, logon_of};
use crate::support::{ALICE, BOB, Home, SUPERVISOR, TRADING, open_market};

fn events_of(trader: &Trader) -> Vec<OrderEvent> {
    trader.reports().iter().map(|report| report.event).collect()
}

/// Alice offers 30 orders, and Bob takes some of them.
fn trade(alice: &mut Trader, bob: &mut Trader) {
    for number in 1..=30_u64 {
        alice.ask_for_report(ALICE.sell(number, 100 + number.cast_signed(), 5));
    }
    for number in 1..=10 {
        bob.ask_for_report(BOB.buy(number, 120, 7));
    }
    alice.settle();
    bob.settle();
    assert_eq!(events_of(bob).last().unwrap().ord_status, OrdStatus::Filled);
}

#[test]
fn a_node_that_is_stopped_starts_again_with_all_that_it_answered() {
    for durability in ["disk", "memory"] {
        stop_and_start(durability);
    }
}

fn stop_and_start(durability: &'static str) {
    let home = Home::new(durability);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    // A session's orders stay when the operator stops the node, whatever the session chose.
    let config = SessionConfig { cancel_on_disconnect: true, ..ALICE.config() };
    let mut alice = Trader::log_on_as(&node, ALICE, config);
    let mut bob = Trader::log_on(&node, BOB);
    trade(&mut alice, &mut bob);
    let heard = [events_of(&alice), events_of(&bob)];
    assert!(node.terminate().success());

    let verified = [PartitionId(0), TRADING].map(|partition_id| home.verify(partition_id));
    let node = home.start();
    let said = home.said_at_start();
    assert!(!said.contains("cut"), "a clean log needs no cut: {said}");
    for (partition_id, verified) in [PartitionId(0), TRADING].into_iter().zip(verified) {
        let row = node.partition_when(partition_id, |_| true);
        for figure in ["position", "digest", "events", "live_orders"] {
            assert_eq!(row[figure], verified[figure], "{figure} of partition {partition_id}");
        }
        assert_eq!(row["epoch"], 1, "a clean end is not the end of an epoch");
    }
    for (who, heard) in [ALICE, BOB].into_iter().zip(heard) {
        let mut trader = Trader::resume(&node, who, EventNo(1)).unwrap();
        trader.settle();
        assert_eq!(events_of(&trader), heard, "of {who:?}");
    }
}

#[test]
fn a_snapshot_that_differs_in_one_bit_from_what_the_log_says_is_found() {
    let home = Home::with_config("os", "[snapshots]\nevery_commands = 1000\n");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let mut alice = Trader::log_on(&node, ALICE);
    let mut bob = Trader::log_on(&node, BOB);
    trade(&mut alice, &mut bob);
    for number in 100..1_100 {
        alice.ask_for_report(ALICE.sell(number, 500, 1));
    }
    let row = node.partition_when(TRADING, |row| row["snapshot_position"].is_u64());
    assert_eq!(row["snapshot_state"].as_str().map(str::len), Some(16));
    assert!(node.terminate().success());
    assert!(home.verify(TRADING)["snapshots"].as_u64() > Some(0));

    let dir = home.data().join("partition-1");
    let commands = ThreadDisk::open(&dir.join("commands"), None).unwrap();
    let log = LogReader::open(commands, SegmentKind::Command, Position(1)).unwrap();
    let disk = ThreadDisk::open(&dir.join("snapshots"), None).unwrap();
    let mut store = SnapshotStore::new(disk, log.segment().log_id, TRADING);
    let position = *store.list().unwrap().last().unwrap();
    let mut state = store.load(position).unwrap().unwrap();
    let middle = state.len() / 2;
    state[middle] ^= 4;
    store.write(position, &state).unwrap();
    let output = home.try_verify(TRADING);
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("the snapshot at position {position} is not what")), "{said}");
    // Without that snapshot the node starts.
    let name = format!("{:020}.wsnap", position.0);
    std::fs::remove_file(dir.join("snapshots").join(name)).unwrap();
    let verified = home.verify(TRADING);
    let node = home.start();
    let row = node.partition_when(TRADING, |_| true);
    assert_eq!(row["digest"], verified["digest"]);
}

#[test]
fn sessions_are_told_that_the_node_stops() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let mut alice = Wire::connect(&node);
    alice.log_on(&logon_of(&ALICE));
    let mut nobody = Wire::connect(&node);
    // The answer to this logon shows that the node has accepted the second connection, too.
    nobody.log_on(&logon_of(&SUPERVISOR));
    assert!(node.terminate().success());
    for mut wire in [alice, nobody] {
        assert_eq!(wire.logout(), (SessionId::NONE, Reason::Stopping));
        wire.closed();
    }
}

#[test]
fn a_stop_under_load_loses_no_answer() {
    let home = Home::new("os");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let mut alice = Trader::log_on(&node, ALICE);
    for number in 1..=500 {
        alice.send(ALICE.buy(number, 50, 1));
    }
    alice.report_where(|report| report.request_no.0 == 100);
    let stopping = std::thread::spawn(move || node.terminate());
    let ended = loop {
        if let Err(error) = alice.poll(std::time::Duration::from_millis(100)) {
            break error;
        }
    };
    assert!(matches!(ended, ClientError::LoggedOut { reason: Reason::Stopping, .. }), "{ended}");
    assert!(stopping.join().unwrap().success());

    let node = home.start();
    let mut again = Trader::resume(&node, ALICE, EventNo(1)).unwrap();
    again.settle();
    let (had, has) = (events_of(&alice), events_of(&again));
    assert_eq!(had, has[..had.len()], "what was answered is the beginning of what there is");
}

#[test]
fn reference_data_outlives_a_restart_and_can_be_added_to() {
    let home = Home::new("disk");
    let node = home.start();
    open_market(&node, &[ALICE]);
    assert!(node.terminate().success());
    let node = home.start();
    crate::support::until("the instrument", || {
        (node.status()["instruments"].as_array().map(Vec::len) == Some(1)).then_some(())
    });
    let mut alice = Trader::log_on(&node, ALICE);
    alice.ask_for_report(ALICE.buy(1, 50, 1));
    let admin: Admin = node.admin();
    assert_eq!(admin.partitions(), [TRADING]);
    admin.close().unwrap();
    open_market(&node, &[ALICE, BOB]);
    let mut bob = Trader::log_on(&node, BOB);
    let answer = bob.ask(BOB.sell(1, 50, 1));
    assert!(matches!(answer, SessionEvent::Report { .. }), "{answer:?}");
    alice.report_where(|report| report.ord_status == OrdStatus::Filled);
}

/// Returns the snapshots of the trading partition of a stopped node.
pub fn snapshots_of(home: &Home) -> SnapshotStore<ThreadDisk> {
    let dir = home.data().join("partition-1");
    let commands = ThreadDisk::open(&dir.join("commands"), None).unwrap();
    let log = LogReader::open(commands, SegmentKind::Command, Position(1)).unwrap();
    let snapshots = ThreadDisk::open(&dir.join("snapshots"), None).unwrap();
    SnapshotStore::new(snapshots, log.segment().log_id, TRADING)
}

/// Rewrites the newest snapshot's state with another engine version.
fn change_snapshot_version(home: &Home, change: impl Fn(u32) -> u32) -> Position {
    let mut store = snapshots_of(home);
    let newest = *store.list().unwrap().last().unwrap();
    let mut state = store.load(newest).unwrap().unwrap();
    // The version follows the number of events and the engine's magic.
    let version = u32::from_le_bytes(state[16..20].try_into().unwrap());
    state[16..20].copy_from_slice(&change(version).to_le_bytes());
    store.write(newest, &state).unwrap();
    newest
}

#[test]
fn an_older_engines_snapshot_is_passed_over_and_a_newer_ones_is_refused_as_such() {
    let home = Home::with_config("os", "[snapshots]\nevery_commands = 1000\n");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let mut alice = Trader::log_on(&node, ALICE);
    for number in 1..1_300 {
        alice.ask_for_report(ALICE.sell(number, 500, 1));
    }
    node.partition_when(TRADING, |row| row["snapshot_position"].is_u64());
    assert!(node.terminate().success());
    let verified = home.verify(TRADING);

    let at = change_snapshot_version(&home, |_| 1);
    let node = home.start();
    let said = home.said_at_start();
    assert!(said.contains(&format!("snapshot at position {at} is passed over")), "{said}");
    let row = node.partition_when(TRADING, |_| true);
    assert_eq!(row["digest"], verified["digest"], "the log says it all again");
    assert!(node.terminate().success());

    // The stop left one of this version, at the end of the log.
    let at = change_snapshot_version(&home, |version| version + 1);
    let output = home.fail_to_start();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("snapshot at position {at}")), "{said}");
    let newer = weir_engine::Engine::SNAPSHOT_VERSION + 1;
    assert!(said.contains(&format!("version {newer}")), "{said}");
}

/// The files of a node's partitions, with their bytes.
fn partition_files(home: &Home) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for partition in ["control", "partition-1"] {
        for dir in ["commands", "events", "snapshots"] {
            for entry in std::fs::read_dir(home.data().join(partition).join(dir)).unwrap() {
                let path = entry.unwrap().path();
                files.push((path.clone(), std::fs::read(path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

/// Appends a command to a stopped node's log as a program with other rules, which is then killed.
pub fn append_by_other_rules(home: &Home) -> Position {
    let disk = ThreadDisk::open(&home.data().join("partition-1").join("commands"), None).unwrap();
    let config = LogConfig { rules: RULES_VERSION + 1, ..LogConfig::new(TRADING, 0) };
    let (mut log, _) = EmbeddedLog::open(config, disk).unwrap();
    let (mut batch, mut entry) = (log.new_batch(), Vec::new());
    Command::Tick.encode(&mut entry);
    assert_eq!(batch.push(&entry), Push::Taken);
    let time = Nanos(log.last_log_time().0 + 1);
    let Append::At { first } = log.append(log.epoch(), time, &batch) else { panic!("taken") };
    log.flush_blocking().unwrap();
    first
}

#[test]
fn a_log_that_other_rules_executed_is_refused_and_a_stop_in_order_leaves_nothing_to_execute() {
    let home = Home::new("os");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let mut alice = Trader::log_on(&node, ALICE);
    alice.ask_for_report(ALICE.sell(1, 500, 1));
    drop(alice);
    assert!(node.terminate().success());
    let newest = |partition: &str| {
        let disk = ThreadDisk::open(&home.data().join(partition).join("snapshots"), None);
        let names = disk.unwrap().list().unwrap().into_iter();
        let snapshots = names.filter_map(|name| name.strip_suffix(".wsnap")?.parse().ok());
        snapshots.max().unwrap_or(0_u64)
    };
    for (partition, id) in [("control", PartitionId::NONE), ("partition-1", TRADING)] {
        let verified = home.verify(id);
        assert_eq!(verified["position"], newest(partition), "{partition}");
        assert_eq!(verified["snapshots"], 1, "{partition}");
    }
    let at = newest("partition-1");
    let last = append_by_other_rules(&home);
    assert_eq!(last, Position(at + 1));
    let before = partition_files(&home);
    let output = home.fail_to_start();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let (found, own) = (RULES_VERSION + 1, RULES_VERSION);
    for part in [
        format!("up to position {last} were executed by version {found} of the engine's rules"),
        format!("this program has version {own}"),
        format!("the newest snapshot that can be used is of position {at}"),
    ] {
        assert!(said.contains(&part), "{said}");
    }
    assert!(partition_files(&home) == before, "a refused start changes no file");
    let shown = Process::new(env!("CARGO_BIN_EXE_weir"))
        .args(["log".into(), "inspect".into(), "--dir".into(), home.data()])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains(&format!("rules {own}, from {last} on {found}")), "{shown}");
    let verified = home.try_verify(TRADING);
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(!verified.status.success() && said.contains("verify them with the program"), "{said}");
}

/// The directory of the control log is an older copy: the partition has imported what it lacks.
#[test]
fn a_control_log_that_lost_its_end_is_refused_and_no_retry_changes_a_file() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE]);
    assert!(node.terminate().success());
    let (control, older) = (home.data().join("control"), home.path("older"));
    let copied = Process::new("cp").arg("-a").args([&control, &older]).status();
    assert!(copied.unwrap().success());
    let node = home.start();
    open_market(&node, &[BOB]);
    let report = Trader::log_on(&node, BOB).ask_for_report(BOB.buy(1, 50, 1));
    assert_eq!(report.ord_status, OrdStatus::New);
    assert!(node.terminate().success());
    std::fs::remove_dir_all(&control).unwrap();
    std::fs::rename(&older, &control).unwrap();
    let before = partition_files(&home);
    for retry in 0..3 {
        let output = home.fail_to_start();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("the control log has lost its end"), "{said}");
        assert!(partition_files(&home) == before, "retry {retry}");
    }
}

#[test]
fn definitions_survive_a_kill_at_each_durability() {
    for durability in ["memory", "os", "disk"] {
        let home = Home::new(durability);
        let mut node = home.start();
        open_market(&node, &[ALICE]);
        node.kill();
        let node = home.start();
        // Alice was acknowledged; Bob's definition takes a position of its own.
        drop(Trader::log_on(&node, ALICE));
        open_market(&node, &[BOB]);
        let report = Trader::log_on(&node, BOB).ask_for_report(BOB.buy(1, 50, 1));
        assert_eq!(report.ord_status, OrdStatus::New, "at {durability}");
    }
}
