//! Power cuts of a machine under load: the real process on a simulated file system that loses
//! unsynced data.
//!
//! As in `kill9`, traders keep a ledger of all requests and received events, and after every full
//! life the test waits for quiet and compares. The difference: the disk freezes at a drawn
//! operation (in the change to a new segment, in a snapshot, in a sync, in a recovery), the process
//! is killed, and each unsynced sector and name is kept or lost at random. The machine then has a
//! new boot id.
//!
//! At level `disk` nothing may be lost. At `os` a power cut may lose entries; the loss begins an
//! epoch, and every client is informed. Planted faults prove that the check detects a loss.
//!
//! `WEIR_CUTS` sets how often the power is cut (5), `WEIR_SEED` the seed (1). Without `/dev/fuse`,
//! the right to mount or a mount namespace, the tests report themselves as skipped.

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "every test program takes a part of it")]
mod support;

#[path = "../kill9/audit.rs"]
mod audit;
mod campaign;
#[path = "../kill9/copies.rs"]
mod copies;
mod cutter;
#[path = "../kill9/leaver.rs"]
mod leaver;
#[path = "../kill9/ledger.rs"]
mod ledger;
mod machine;
#[path = "../kill9/party.rs"]
mod party;
#[path = "../kill9/trader.rs"]
mod trader;

use std::panic::{AssertUnwindSafe, catch_unwind};

use campaign::{Campaign, Promise};
use machine::Machine;
use party::number_from;
use support::trader::Trader;
use support::{ALICE, HANG, TRADING, open_market, until};
use weir_powercut::{Faults, PowerLoss};
use weir_types::EventNo;

fn cuts() -> u64 {
    number_from("WEIR_CUTS", 5)
}

#[test]
fn power_cuts_at_level_disk_lose_nothing_and_execute_nothing_twice() {
    let Some(machine) = Machine::build("disk") else { return };
    let mut campaign = Campaign::begin(machine, Promise::KeepsAll);
    while campaign.cut_count() < cuts() {
        campaign.live_on();
    }
    campaign.end();
    campaign.tell("disk");
    println!("disk: 0 answers lost, 0 requests executed twice");
}

#[test]
fn what_power_cuts_at_level_os_lose_begins_an_epoch_and_is_told() {
    let Some(machine) = Machine::build("os") else { return };
    let mut campaign = Campaign::begin(machine, Promise::TellsWhatIsLost);
    while campaign.cut_count() < cuts() {
        campaign.live_on();
    }
    campaign.end();
    campaign.tell("os");
}

/// Runs until an audit fails; returns the number of cuts by then.
fn cuts_until_found(durability: &'static str, faults: Faults) -> Option<u64> {
    const CUTS_MAX: u64 = 30;
    let machine = Machine::build(durability)?;
    let disk = machine.disk().clone();
    let mut campaign = Campaign::begin(machine, Promise::KeepsAll);
    disk.set_faults(faults);
    while campaign.cut_count() < CUTS_MAX {
        if catch_unwind(AssertUnwindSafe(|| campaign.live_on())).is_err() {
            return Some(campaign.cut_count());
        }
    }
    panic!("nobody noticed {faults:?} at {durability} in {CUTS_MAX} cuts");
}

#[test]
fn a_disk_that_ignores_syncs_is_noticed() {
    let faults = Faults { ignores_syncs: true, ignores_name_syncs: false };
    if let Some(cuts) = cuts_until_found("disk", faults) {
        println!("planted, syncs of files ignored: found after {cuts} cuts");
    }
}

#[test]
fn a_disk_that_ignores_syncs_of_names_is_noticed() {
    let faults = Faults { ignores_syncs: false, ignores_name_syncs: true };
    if let Some(cuts) = cuts_until_found("disk", faults) {
        println!("planted, syncs of directories ignored: found after {cuts} cuts");
    }
}

/// The medium fails and the process is not killed: it must end by itself.
#[test]
fn a_node_whose_disk_fails_ends_by_itself_and_the_next_start_has_all_that_was_answered() {
    let Some(mut machine) = Machine::build("disk") else { return };
    let node = machine.home.start();
    open_market(&node, &[ALICE]);
    let mut alice = Trader::log_on(&node, ALICE);
    for number in 1..=100 {
        alice.ask_for_report(ALICE.buy(number, 50, 1));
    }
    machine.disk().freeze();
    machine.disk().lose_power(PowerLoss::LoseAll);
    alice.send(ALICE.buy(101, 50, 1));
    let status = node.wait_for_end();
    assert!(!status.success(), "{status:?}");
    let said = machine.home.said();
    assert!(said.contains("log failed"), "{said}");
    assert!(until("the end of the connection", || alice.poll(HANG).err()).is_connection_lost());
    assert_eq!(alice.reports().len(), 100, "what is not on the disk is not answered");

    machine.boot();
    let node = machine.home.start();
    let mut again = Trader::resume(&node, ALICE, EventNo(1)).unwrap();
    again.settle();
    assert!(again.reports().len() >= 100);
    let pairs = alice.reports().iter().zip(again.reports());
    assert!(pairs.into_iter().all(|(had, has)| had.event == has.event));
    assert!(node.terminate().success());
    machine.home.verify(TRADING);
}

/// At level `os` a node acknowledges after the write. Held to the promise of `disk`, it stands for
/// a node that acknowledges before its sync.
#[test]
fn a_node_that_acknowledges_before_its_sync_is_noticed() {
    if let Some(cuts) = cuts_until_found("os", Faults::default()) {
        println!("planted, acknowledged before the sync: found after {cuts} cuts");
    }
}
