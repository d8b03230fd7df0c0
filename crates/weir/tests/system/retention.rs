//! Checkpoints and retention: a start reads the new events, the disk keeps the configured ones, and
//! requests for older ones are refused with the oldest that there is.

use std::path::PathBuf;

use serde_json::Value;
use weir_client::ClientError;
use weir_types::{CopyNo, Epoch, EventNo, FirmId, Reason, SessionId, Switch};
use weir_wire::drop_copy::DropCopyState;
use weir_wire::session::ResumePoint;

use crate::support::copying::{Copy, Desk, Frame, desk_of, told};
use crate::support::trader::Trader;
use crate::support::wire::{Wire, logon_of};
use crate::support::{
    ALICE, BOB, HANG, Home, Node, TRADING, Who, definition_of, open_market, until,
};

const DESK: Who = desk_of(31, ALICE.firm_id);
/// A second session of Alice's firm.
const ANNA: Who = Who { session_id: SessionId(13), ..ALICE };

pub fn market(durability: &'static str, config: &str) -> (Home, Node) {
    let home = Home::with_config(durability, config);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let mut admin = node.admin();
    for who in [ANNA, DESK] {
        admin.define_session(definition_of(&who)).unwrap();
    }
    admin.close().unwrap();
    (home, node)
}

/// Trades: each pair of orders has a sale of Alice's and a purchase of Bob's.
pub fn trade(alice: &mut Trader, bob: &mut Trader, pairs: std::ops::Range<u64>) {
    for number in pairs {
        alice.send(ALICE.sell(number, 100, 5));
        bob.send(BOB.buy(number, 100, 5));
        if number % 200 == 0 {
            for trader in [&mut *alice, &mut *bob] {
                trader.settle();
                trader.forget();
            }
        }
    }
    alice.settle();
    bob.settle();
}

pub fn trade_and_leave(node: &Node, pairs: std::ops::Range<u64>) {
    let (mut alice, mut bob) = (Trader::log_on(node, ALICE), Trader::log_on(node, BOB));
    trade(&mut alice, &mut bob, pairs);
    for trader in [alice, bob] {
        trader.client.log_out(HANG).unwrap();
    }
}

/// Asks for the copies of the desk's firm from `first` on; receives all, if they come.
fn ask_for_copies(desk: &mut Desk, first: CopyNo) -> DropCopyState {
    let state = desk.ask(FirmId::NONE, first);
    if state.wanted == Switch::On {
        desk.until("all copies", |desk| {
            desk.copies.last().is_some_and(|copy| copy.head.copy_no == state.high_water)
        });
        desk.check_chain(&state, &desk.copies);
    }
    state
}

/// Everything that clients can have of the past: the reports of two sessions, and a firm's copies.
fn past(node: &Node) -> (Vec<Frame>, Vec<Frame>, Vec<Copy>) {
    let (alice, bob) = (told(node, &ALICE), told(node, &BOB));
    let mut desk = Desk::log_on(node, DESK);
    ask_for_copies(&mut desk, CopyNo(1));
    (alice, bob, desk.copies)
}

pub fn files(home: &Home, dir: &str, suffix: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(home.data().join(dir)).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    files.filter(|path| path.to_string_lossy().ends_with(suffix)).collect()
}

fn figures(node: &Node) -> Value {
    node.partition_when(TRADING, |_| true)
}

pub fn checkpoint_of(node: &Node) -> u64 {
    figures(node)["checkpoint_event"].as_u64().unwrap()
}

#[test]
fn a_gateway_from_its_checkpoint_serves_the_past_that_one_from_all_events_serves() {
    let (home, mut node) = market("os", "[gateway]\ncheckpoint_every_events = 1000\n");
    trade_and_leave(&node, 1..400);
    until("a checkpoint", || Some(()).filter(|()| checkpoint_of(&node) >= 1_000));
    // Anna's firm is that of Alice; her first event comes after the checkpoint.
    let mut anna = Trader::log_on(&node, ANNA);
    anna.ask_for_report(ANNA.buy(1, 10, 1));
    anna.client.log_out(HANG).unwrap();
    trade_and_leave(&node, 1_000..1_050);
    let before = past(&node);
    node.kill();
    let started = |wanted: bool| {
        let node = home.start();
        let said = home.said_at_start();
        let begins = said.contains("gateway: it begins with the checkpoint of event");
        assert_eq!(begins, wanted, "{said}");
        assert_eq!(past(&node), before);
        node
    };
    // What was taken in after the start is in the next checkpoint too.
    let mut node = started(true);
    assert!(checkpoint_of(&node) >= 1_000);
    node.kill();
    let dir = "partition-1/gateway";
    let checkpoints = files(&home, dir, ".wsnap");
    assert!(!checkpoints.is_empty());
    for path in &checkpoints {
        let mut bytes = std::fs::read(path).unwrap();
        bytes[100] ^= 1;
        std::fs::write(path, bytes).unwrap();
    }
    let mut node = started(false);
    assert!(home.said_at_start().contains("is passed over: damaged at offset 64"));
    node.kill();
    files(&home, dir, ".wsnap").iter().for_each(|path| std::fs::remove_file(path).unwrap());
    started(false);
}

/// Returns the bytes that a thread of the node has written.
fn written_by(node: &Node, thread: &str) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", node.pid().as_raw_nonzero())).unwrap();
    let paths = tasks.map(|task| task.unwrap().path());
    let named = |path: &PathBuf| std::fs::read_to_string(path.join("comm")).unwrap();
    let of_name: Vec<_> = paths.filter(|path| named(path).trim() == thread).collect();
    assert_eq!(of_name.len(), 1, "one thread is named {thread}");
    let io = std::fs::read_to_string(of_name[0].join("io")).unwrap();
    let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap();
    written.parse().unwrap()
}

#[test]
fn checkpoints_are_written_by_a_thread_for_which_no_reader_waits() {
    let (home, node) = market("os", "[gateway]\ncheckpoint_every_events = 1000\n");
    trade_and_leave(&node, 1..400);
    until("a checkpoint", || Some(()).filter(|()| checkpoint_of(&node) >= 1_000));
    let files = files(&home, "partition-1/gateway", ".wsnap");
    let bytes = files.iter().map(|path| path.metadata().unwrap().len()).max().unwrap();
    // The shadows, on which readers of events wait, have another.
    assert!(written_by(&node, "checkpoints") >= bytes);
}

const MIB: u64 = 1 << 20;

/// Small logs: the least segments, and three of them.
pub const SMALL: &str = "
[log]
segment_bytes = 1048576
[events]
memory_bytes = 8388608
segment_bytes = 1048576
[snapshots]
every_commands = 1000
[delivery]
snapshot_every_bytes = 200000
ended_orders_max = 300
[gateway]
checkpoint_every_events = 5000
[retention]
command_bytes = 3145728
event_bytes = 3145728
";

/// Trades until both logs have lost their beginning; returns the number of the next pair.
pub fn trade_past_the_retention(node: &Node, mut next: u64) -> u64 {
    loop {
        trade_and_leave(node, next..next + 2_000);
        next += 2_000;
        // The shadow may be behind: it takes the snapshots.
        let row = node.partition_when(TRADING, |row| {
            let number = |key: &str| row[key].as_u64().unwrap_or(0);
            number("snapshot_position") + 2_000 > number("position")
        });
        let is_past = |key: &str| row[key].as_u64().unwrap() > 1;
        if is_past("commands_from") && is_past("events_from") {
            return next;
        }
        assert!(next < 100_000, "nothing is past the retention: {row}");
    }
}

#[test]
fn what_is_past_the_retention_is_refused_with_the_oldest_that_there_is() {
    let (home, mut node) = market("os", SMALL);
    let next = trade_past_the_retention(&node, 1);
    check_past(&node);
    check_disk(&home, &node);
    node.kill();
    let verified = home.verify(TRADING);
    assert!(verified["from_snapshot"].as_u64().unwrap() > 1_000, "{verified}");
    assert!(verified["snapshots"].as_u64().unwrap() >= 1, "{verified}");
    let node = home.start();
    let said = home.said_at_start();
    assert!(said.contains("gateway: it begins with the checkpoint of event"), "{said}");
    check_past(&node);
    trade_and_leave(&node, next..next + 500);
}

/// Asks for the whole past, is refused with the oldest, and gets all from there.
fn check_past(node: &Node) {
    let mut wire = Wire::connect(node);
    let from_the_first =
        ResumePoint { next_event_no: EventNo(1), epoch: Epoch(1), partition_id: TRADING };
    let refused = wire.try_log_on(&logon_of(&ALICE), &[from_the_first]).unwrap_err();
    assert_eq!((refused.reason, refused.partition_id), (Reason::ResumeOutOfRange, TRADING));
    let (mut oldest, end) = (refused.oldest_event_no, refused.next_event_no);
    assert!(oldest > EventNo(1) && oldest < end, "{refused:?}");
    drop(wire);
    // More may be removed meanwhile; then the next refusal has a later oldest.
    let mut alice =
        until("a logon from the oldest", || match Trader::resume(node, ALICE, oldest) {
            Ok(alice) => Some(alice),
            Err(ClientError::LogonRejected { reason, oldest_event_no, .. }) => {
                assert_eq!(reason, Reason::ResumeOutOfRange);
                assert!(oldest_event_no > oldest);
                oldest = oldest_event_no;
                None
            }
            Err(other) => panic!("{other}"),
        });
    alice.settle();
    let numbers: Vec<u64> = alice.reports().iter().map(|report| report.event.event_no.0).collect();
    // Refusals, which are no reports, lie between. The client itself refuses a gap.
    assert!(numbers[0] >= oldest.0 && numbers.is_sorted(), "{refused:?}");
    assert!(numbers.len() > 1_000 && alice.last_event_no() >= end, "{refused:?}");
    alice.client.log_out(HANG).unwrap();

    let mut desk = Desk::log_on(node, DESK);
    let state = ask_for_copies(&mut desk, CopyNo(1));
    assert_eq!((state.wanted, state.reason), (Switch::Off, Reason::ResumeOutOfRange));
    assert!(state.oldest_copy_no > CopyNo(1) && desk.copies.is_empty(), "{state:?}");
    let mut oldest = state.oldest_copy_no;
    until("copies from the oldest", || {
        let state = ask_for_copies(&mut desk, oldest);
        let is_on = state.wanted == Switch::On;
        assert!(is_on || state.oldest_copy_no > oldest, "{state:?}");
        oldest = state.oldest_copy_no;
        is_on.then_some(())
    });
    assert!(desk.copies[0].head.copy_no >= oldest);
}

/// The logs are as large as they may be, and what is needed besides: two snapshots' commands, and
/// a segment in which those begin.
fn check_disk(home: &Home, node: &Node) {
    for (dir, suffix, first) in [
        ("partition-1/commands", ".wlog", "commands_from"),
        ("partition-1/events", ".wevt", "events_from"),
    ] {
        until("the removal of files", || {
            let first = figures(node)[first].as_u64().unwrap();
            let names = files(home, dir, suffix);
            let begins = names.iter().map(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                name.split_once('-').unwrap().0.parse::<u64>().unwrap()
            });
            Some(()).filter(|()| begins.min() == Some(first) && names.len() <= 6)
        });
    }
    let row = figures(node);
    assert!(row["command_bytes"].as_u64().unwrap() <= 6 * MIB, "{row}");
}
