//! The archive of logs: segments are stored before retention removes them, and archive and log are
//! one log, however the node ended.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use weir_io::ThreadDisk;
use weir_log::{SegmentKind, inspect};

use super::retention::{SMALL, market, trade_and_leave, trade_past_the_retention};
use crate::support::machine::Machine;
use crate::support::trader::Trader;
use crate::support::{ALICE, BOB, Home, Node, TRADING, open_market, until};

/// Runs `weir log` on the trading partition of a node that is not running.
fn weir_log(home: &Home, archive: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .arg("log")
        .args(words)
        .args(["--json", "--partition", "1"])
        .args(["--dir".into(), home.data()])
        .args(["--archive".as_ref(), archive.as_os_str()])
        .output()
        .unwrap()
}

fn json_of(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Verifies archive and log up to a position.
fn verified(home: &Home, archive: &Path, to: u64) -> Value {
    json_of(&weir_log(home, archive, &["verify", "--to", &to.to_string()]))
}

fn refused(home: &Home, archive: &Path) -> String {
    let output = weir_log(home, archive, &["verify"]);
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn figures(node: &Node) -> Value {
    node.partition_when(TRADING, |_| true)
}

/// Returns the stored segments of the command log, oldest first.
fn stored_commands(archive: &Path) -> Vec<PathBuf> {
    let logs = std::fs::read_dir(archive).unwrap().map(|entry| entry.unwrap().path());
    let files = logs.flat_map(|log| std::fs::read_dir(log).unwrap());
    let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.to_string_lossy().contains(".wlog."));
    files.sort();
    files
}

#[test]
fn an_archive_and_its_log_are_whole_after_kills_and_replay_to_the_nodes_digest() {
    let archive = tempfile::tempdir().unwrap();
    let archive = archive.path();
    let (home, mut node) = market("os", &format!("{SMALL}archive = {archive:?}\n"));
    let mut next = trade_past_the_retention(&node, 1);
    for _ in 0..3 {
        trade_and_leave(&node, next..next + 2_000);
        let (mut alice, mut bob) = (Trader::log_on(&node, ALICE), Trader::log_on(&node, BOB));
        for number in next + 2_000..next + 2_300 {
            alice.send(ALICE.sell(number, 100, 5));
            bob.send(BOB.buy(number, 100, 5));
        }
        next += 2_300;
        node.kill();
        let whole = verified(&home, archive, u64::MAX);
        assert_eq!(whole["from_snapshot"], 0, "{whole}");
        assert_eq!(whole["events_from"], 1, "{whole}");
        node = home.start();
    }
    let row = figures(&node);
    assert_eq!(row["archive_lost_bytes"], 0, "{row}");
    node.kill();
    let position = row["position"].as_u64().unwrap();
    let whole = verified(&home, archive, position);
    assert_eq!(whole["digest"], row["digest"], "{whole}");
    assert!(whole["archived_segments"].as_u64().unwrap() > 2, "{whole}");
    assert!(whole["snapshots"].as_u64().unwrap() >= 1, "{whole}");

    check_faults(&home, archive);
    let restored = json_of(&weir_log(&home, archive, &["restore"]));
    assert!(restored["segments"].as_u64().unwrap() >= 1, "{restored}");
    let again = home.verify(TRADING);
    assert_eq!(again["from_snapshot"], 0, "without the archive: {again}");
    // A node without snapshots and event log executes all of it, and has all events again.
    for dir in ["partition-1/snapshots", "partition-1/events"] {
        std::fs::remove_dir_all(home.data().join(dir)).unwrap();
    }
    let all_is_kept = SMALL.split("[retention]").next().unwrap();
    std::fs::write(home.path("weir.toml"), all_is_kept).unwrap();
    let node = home.start();
    let replayed = figures(&node);
    for name in ["digest", "position", "events"] {
        assert_eq!(replayed[name], again[name], "{name}");
    }
    until("all events in files", || {
        let row = figures(&node);
        Some(()).filter(|()| row["events_from"] == 1 && row["event_in_files"] == row["events"])
    });
}

/// A file of the archive that is damaged or missing is named.
fn check_faults(home: &Home, archive: &Path) {
    let oldest = &stored_commands(archive)[0];
    let sound = std::fs::read(oldest).unwrap();
    let mut damaged = sound.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(oldest, damaged).unwrap();
    let said = refused(home, archive);
    let name = oldest.file_name().unwrap().to_string_lossy();
    assert!(said.contains("damaged") && said.contains(&*name), "{said}");
    std::fs::remove_file(oldest).unwrap();
    let said = refused(home, archive);
    assert!(said.contains("the archive has a gap: entries up to position"), "{said}");
    std::fs::write(oldest, sound).unwrap();
}

#[test]
fn an_archive_that_cannot_be_written_holds_segments_and_is_told_until_it_can() {
    let dir = tempfile::tempdir().unwrap();
    // A directory that is not there: its disk is not mounted.
    let archive = dir.path().join("archive");
    let (home, node) = market("os", &format!("{SMALL}archive = {archive:?}\n"));
    let mut next = 1;
    let is_held = |row: &Value| row["is_archive_failing"] == true && row["held_by"] == "archive";
    while !is_held(&figures(&node)) {
        assert!(next < 100_000, "{}", figures(&node));
        trade_and_leave(&node, next..next + 2_000);
        next += 2_000;
        // The shadow may be behind: it asks the archive for segments.
        let _row = node.partition_when(TRADING, |row| {
            let number = |key: &str| row[key].as_u64().unwrap_or(0);
            number("snapshot_position") + 2_000 > number("position")
        });
    }
    let row = figures(&node);
    assert_eq!(row["commands_from"], 1, "{row}");
    assert_eq!(row["events_from"], 1, "{row}");
    assert!(row["archive_wait_bytes"].as_u64().unwrap() > 0, "{row}");
    let (_, metrics) = node.get("/metrics");
    assert!(metrics.contains("weir_partition_archive_failing{partition=\"1\"} 1"), "{metrics}");
    assert_eq!(node.get("/ready").0, 200, "nothing is lost, and orders are taken");
    assert!(!archive.exists(), "nothing is stored below the place where a disk is mounted");
    std::fs::create_dir(&archive).unwrap();
    let row = node.partition_when(TRADING, |row| {
        row["is_archive_failing"] == false && row["events_from"].as_u64() > Some(1)
    });
    assert!(row["archived_bytes"].as_u64().unwrap() > 0, "{row}");
    let said = home.said();
    for line in ["cannot be stored in the archive", "are stored in the archive again"] {
        assert_eq!(said.matches(line).count(), 1, "{line}: {said}");
    }
}

/// Returns the file that the archive's thread is writing.
fn part_in(archive: &Path) -> Option<PathBuf> {
    let logs = std::fs::read_dir(archive).unwrap().map(|entry| entry.unwrap().path());
    logs.map(|log| log.join("archive.part")).find(|part| part.is_file())
}

#[test]
fn a_stop_does_not_wait_for_ever_for_an_archive_whose_disk_stalls() {
    let archive = tempfile::tempdir().unwrap();
    let archive = archive.path().canonicalize().unwrap();
    let home = Home::with_config("os", &format!("{SMALL}archive = {archive:?}\n"));
    let machine = Machine::new(&home).stalling_in(archive.clone());
    machine.stall_disk(true);
    let node = machine.start(&home);
    open_market(&node, &[ALICE, BOB]);
    let mut next = 1;
    while part_in(&archive).is_none() {
        assert!(next < 100_000, "{}", figures(&node));
        trade_and_leave(&node, next..next + 2_000);
        next += 2_000;
        // The shadow may be behind: it asks the archive for segments.
        let _row = node.partition_when(TRADING, |row| {
            let number = |key: &str| row[key].as_u64().unwrap_or(0);
            number("snapshot_position") + 2_000 > number("position")
        });
    }
    assert!(node.terminate().success());
    let said = home.said();
    assert!(
        said.contains("the stop goes on without a thread") && said.contains("archive"),
        "{said}"
    );
    assert!(stored_commands(&archive).is_empty(), "it was stalled at its first segment");
    // The logs are closed, and the next start stores the segments.
    let mut disk = ThreadDisk::open(&home.data().join("partition-1/commands"), None).unwrap();
    assert!(inspect(&mut disk, SegmentKind::Command).unwrap().unwrap().clean);
    home.verify(TRADING);
    machine.stall_disk(false);
    let mut node = machine.start(&home);
    node.partition_when(TRADING, |row| row["archived_bytes"].as_u64() > Some(0));
    trade_past_the_retention(&node, next);
    node.kill();
    let whole = verified(&home, &archive, u64::MAX);
    assert_eq!(whole["from_snapshot"], 0, "{whole}");
}
