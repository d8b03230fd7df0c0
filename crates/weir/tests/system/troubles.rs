//! The troubles in `docs/operations.md` that begin on the disk: their symptoms, and the page's
//! remedies, which bring the node back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use weir_client::ClientError;
use weir_types::{Epoch, EventNo, Reason, Rec};
use weir_wire::session::ResumePoint;

use crate::support::following::Following;
use crate::support::trader::Trader;
use crate::support::wire::{Wire, logon_of};
use crate::support::{ALICE, BOB, Home, Node, SUPERVISOR, TRADING, open_market};
use crate::tools::{SMALL, weir};

/// The length of a segment's header; its first frame follows.
const HEADER_LEN: usize = 4096;

fn errors_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the files of a directory whose names have this ending, sorted by name.
fn files(home: &Home, dir: &str, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(home.data().join(dir)).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(ending));
    paths.sort();
    paths
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Returns every byte of a node's directory.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.append(&mut contents(&path));
        } else {
            all.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    all
}

pub fn trade(node: &Node, from: u64, count: u64) {
    let mut alice = Trader::log_on(node, ALICE);
    for number in from..from + count {
        alice.ask_for_report(ALICE.sell(number, 100, 1));
    }
}

fn back_up(home: &Home) {
    let paths = [("--dir", &*home.data()), ("--to", &*home.path("backup"))];
    let output = weir(&["backup"], &paths);
    assert!(output.status.success(), "{}", errors_of(&output));
}

/// Changes a byte of the first command segment, far below the synced position. Returns the file's
/// name and the offset.
fn spoil(home: &Home) -> (String, usize) {
    let path = &files(home, "partition-1/commands", ".wlog")[0];
    let mut bytes = std::fs::read(path).unwrap();
    let at = HEADER_LEN + 20_000;
    bytes[at] ^= 8;
    std::fs::write(path, bytes).unwrap();
    (name_of(path), at)
}

fn position_of(line: &str) -> u64 {
    let entry: Value = serde_json::from_str(line).unwrap();
    entry["position"].as_u64().unwrap_or_else(|| panic!("{line} has a position"))
}

/// Returns the end of a segment's last frame; each frame begins with its length.
fn end_of_frames(segment: &[u8]) -> usize {
    let mut end = HEADER_LEN;
    loop {
        let length = u32::from_le_bytes(segment[end..end + 4].try_into().unwrap());
        if length == 0 {
            return end;
        }
        end += length as usize;
    }
}

/// Returns the number after "offset " in `said`.
fn offset_in(said: &str) -> usize {
    let (_, behind) = said.split_once("offset ").expect("an offset is named");
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

#[test]
fn a_changed_byte_in_what_was_synced_is_named_and_a_backup_brings_the_node_back() {
    let home = Home::with_config("disk", SMALL);
    let node = home.start();
    open_market(&node, &[ALICE]);
    trade(&node, 1, 300);
    back_up(&home);
    assert!(node.terminate().success());
    let (name, at) = spoil(&home);
    let damaged = home.data().join("partition-1");
    let before = contents(&damaged);
    for _ in 0..2 {
        let said = errors_of(&home.fail_to_start());
        assert!(said.contains(&name), "{said}");
        let named = offset_in(&said);
        assert!(named <= at && at - named < 1024, "{at} is in the frame at {named}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
    assert!(before == contents(&damaged), "a log that is refused is left as it is");
    // No tool takes the damage for the log's end, and everything before it can be read.
    for word in ["verify", "inspect"] {
        let output = weir(&["log", word], &[("--dir", &home.data())]);
        let said = errors_of(&output);
        assert!(!output.status.success() && said.contains(&name), "{word}: {said}");
    }
    let dumped = weir(&["log", "dump", "--json"], &[("--dir", &home.data())]);
    assert!(!dumped.status.success());
    let said = errors_of(&dumped);
    assert!(said.contains(&name), "{said}");
    let entries = String::from_utf8(dumped.stdout).unwrap();
    let positions: Vec<u64> = entries.lines().map(position_of).collect();
    assert!((20..300).contains(&positions.len()), "{positions:?} before {at}");
    assert!(positions.iter().copied().eq(1..=positions.len() as u64), "{positions:?}");

    let again = Home::with_config("disk", SMALL);
    let paths = [("--from", &*home.path("backup")), ("--dir", &*again.data())];
    let restored = weir(&["restore"], &paths);
    assert!(restored.status.success(), "{}", errors_of(&restored));
    let node = again.start();
    node.partition_when(TRADING, |row| row["live_orders"] == 300);
    trade(&node, 1_000, 20);
    assert!(node.terminate().success());
    again.verify(TRADING);
}

#[test]
fn a_torn_tail_is_cut_and_told_and_nothing_is_missing_that_was_answered() {
    let home = Home::with_config("disk", SMALL);
    let mut node = home.start();
    open_market(&node, &[ALICE]);
    let mut alice = Trader::log_on(&node, ALICE);
    for number in 1..=50 {
        alice.ask_for_report(ALICE.buy(number, 50, 1));
    }
    node.kill();
    let path = files(&home, "partition-1/commands", ".wlog").pop().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let end = end_of_frames(&bytes);
    bytes[end..end + 200].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();

    let mut node = home.start();
    let said = home.said_at_start();
    let place = format!("was cut at {} offset {end},", name_of(&path));
    assert!(said.contains("partition 1: a torn tail of") && said.contains(&place), "{said}");
    let mut again = Trader::resume(&node, ALICE, EventNo(1)).unwrap();
    again.settle();
    let events = |trader: &Trader| trader.reports().iter().map(|r| r.event).collect::<Vec<_>>();
    let (had, has) = (events(&alice), events(&again));
    assert_eq!(had, has[..had.len()]);
    again.ask_for_report(ALICE.buy(51, 50, 1));
    node.kill();
    // The cut is permanent: the next start has nothing to cut.
    let _node = home.start();
    assert!(!home.said_at_start().contains("was cut"));
}

#[test]
fn what_may_be_lost_of_a_directory_is_made_again() {
    let home = Home::with_config("disk", SMALL);
    let node = home.start();
    open_market(&node, &[ALICE]);
    trade(&node, 1, 1_200);
    node.partition_when(TRADING, |row| row["snapshot_position"].is_u64());
    let mut following = Following::start(&node, SUPERVISOR, Vec::new());
    following.until_online();
    let (token, known) = (following.follower.token().to_vec(), following.states());
    following.log_out();
    let heard = reports_from_the_first(&node);
    assert!(node.terminate().success());

    // First with a snapshot that is later than every event, then without one.
    for lost in [&["events"][..], &["snapshots"], &["events", "snapshots"]] {
        for dir in lost {
            std::fs::remove_dir_all(home.data().join("partition-1").join(dir)).unwrap();
        }
        let verified = home.verify(TRADING);
        let node = home.start();
        let row = node.partition_when(TRADING, |_| true);
        assert_eq!(row["digest"], verified["digest"], "without {lost:?}");
        assert_eq!(reports_from_the_first(&node), heard, "without {lost:?}");
        assert!(node.terminate().success());
    }
    std::fs::remove_dir_all(home.data().join("control/events")).unwrap();
    std::fs::remove_file(home.data().join("token.key")).unwrap();
    let node = home.start();
    let mut following = Following::start(&node, SUPERVISOR, token);
    following.until_online();
    assert_eq!(following.resyncs.len(), 1, "a follower begins again without the key");
    assert_eq!(following.states(), known);
}

fn reports_from_the_first(node: &Node) -> Vec<weir_wire::event::OrderEvent> {
    let mut alice = Trader::resume(node, ALICE, EventNo(1)).unwrap();
    alice.settle();
    alice.reports().iter().map(|report| report.event).collect()
}

/// Gives the newest segment a header of a future format version, valid otherwise.
fn renew(home: &Home) -> String {
    let path = files(home, "partition-1/commands", ".wlog").pop().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8..12].copy_from_slice(&2_u32.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..HEADER_LEN - 4]);
    bytes[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    name_of(&path)
}

#[test]
fn a_directory_of_a_newer_format_is_refused_by_its_version_and_left_as_it_was() {
    let home = Home::with_config("disk", SMALL);
    let node = home.start();
    open_market(&node, &[ALICE]);
    trade(&node, 1, 20);
    assert!(node.terminate().success());
    let name = renew(&home);
    let before = contents(&home.data());
    let said = errors_of(&home.fail_to_start());
    assert!(said.contains(&name) && said.contains("format version 2"), "{said}");
    assert!(before == contents(&home.data()), "nothing is changed");
}

/// An upgrade as clients see it: the program stops, and a copy of it under another name starts.
#[test]
fn over_an_upgrade_sessions_are_told_and_resume_where_they_were() {
    let home = Home::with_config("disk", SMALL);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let mut alice = Trader::log_on(&node, ALICE);
    let mut bob = Trader::log_on(&node, BOB);
    alice.ask_for_report(ALICE.sell(1, 70, 10));
    bob.ask_for_report(BOB.buy(1, 70, 3));
    alice.settle();
    let told = alice.last_event_no();
    assert!(node.terminate().success());
    let ended = loop {
        if let Err(error) = alice.poll(crate::support::HANG) {
            break error;
        }
    };
    assert!(matches!(ended, ClientError::LoggedOut { reason: Reason::Stopping, .. }), "{ended}");

    let program = home.path("weir-new");
    std::fs::copy(env!("CARGO_BIN_EXE_weir"), &program).unwrap();
    let home = home.with_program(program);
    let node = home.start();
    let mut alice = Trader::resume(&node, ALICE, EventNo(told.0 + 1)).unwrap();
    let mut bob = Trader::log_on(&node, BOB);
    bob.ask_for_report(BOB.buy(2, 70, 2));
    let event = alice.report_where(|_| true);
    assert_eq!((event.event_no, event.cum_qty.0), (EventNo(told.0 + 1), 5));
}

#[test]
fn an_event_log_without_its_beginning_is_told_as_what_is_left_of_it() {
    let home = Home::with_config("os", SMALL);
    let node = home.start();
    open_market(&node, &[ALICE]);
    let mut alice = Trader::log_on(&node, ALICE);
    let count = 6_000;
    for number in 1..=count {
        alice.send(ALICE.sell(number, 100, 1));
        if number % 500 == 0 {
            alice.settle();
        }
    }
    let last = alice.last_event_no();
    assert!(node.terminate().success());
    let segments = files(&home, "partition-1/events", ".wevt");
    assert!(segments.len() > 1, "{segments:?}");
    std::fs::remove_file(&segments[0]).unwrap();

    let node = home.start();
    let mut wire = Wire::connect(&node);
    let epoch = Epoch(1);
    let from_the_first = ResumePoint { next_event_no: EventNo(1), epoch, partition_id: TRADING };
    let refused = wire.try_log_on(&logon_of(&ALICE), &[from_the_first]).unwrap_err();
    assert_eq!(refused.reason, Reason::ResumeOutOfRange);
    assert!(refused.oldest_event_no > EventNo(1), "{refused:?}");
    assert_eq!(refused.next_event_no, EventNo(last.0 + 1));
    let mut alice = Trader::resume(&node, ALICE, refused.oldest_event_no).unwrap();
    alice.settle();
    let reports = alice.reports();
    let (oldest, newest) = (&reports[0].event, &reports[reports.len() - 1].event);
    assert_eq!(oldest.event_no, refused.oldest_event_no);
    // Each order made one record: none is missing between the oldest retained and the newest.
    assert_eq!(newest.rec, Rec(count));
    assert_eq!(reports.len() as u64, newest.rec.0 - oldest.rec.0 + 1);
    // New events are numbered after it.
    let next = alice.ask_for_report(ALICE.sell(9_999, 100, 1));
    assert!(next.event_no > last, "{next:?}");
}
