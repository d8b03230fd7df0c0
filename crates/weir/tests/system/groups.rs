//! Groups of instruments: one request of an operator to each partition, by the command line.

use std::process::{Command, Output};

use serde_json::Value;
use weir_client::ClientError;
use weir_client::admin::ScheduleOwner;
use weir_types::{GroupId, InstrumentId, Nanos, Phase, Reason};

use crate::support::trader::Trader;
use crate::support::{ALICE, Home, Node, OPERATOR, TRADING, open_market, until};

/// Runs `weir admin WORDS` as the first operator.
fn try_admin(node: &Node, words: &[&str]) -> Output {
    let key: String = OPERATOR.key().0.iter().map(|byte| format!("{byte:02x}")).collect();
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["admin", "--node", &node.address().to_string(), "--http", node.http(), "--json"])
        .args(["--key", &key, "--yes"])
        .args(words)
        .output()
        .unwrap()
}

fn admin(node: &Node, words: &[&str]) -> Value {
    let output = try_admin(node, words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(node: &Node, words: &[&str]) -> String {
    let output = try_admin(node, words);
    assert!(!output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Starts a node with WEIR1 and WEIR2 in group 7, and WEIR3 in none.
fn market() -> (Home, Node) {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE]);
    let rows = |count: usize| {
        until("the instruments", || {
            let status = node.status();
            let rows = status["instruments"].as_array()?;
            let of_group = rows.iter().filter(|row| row["group"] == 7).count();
            (rows.len() == count && of_group == count.min(2)).then_some(())
        });
    };
    until("the instrument", || {
        (node.status()["instruments"][0]["symbol"] == "WEIR1").then_some(())
    });
    admin(&node, &["instrument", "--id", "1", "--group", "7"]);
    rows(1);
    admin(&node, &["instrument", "--id", "2", "--symbol", "WEIR2", "--group", "7"]);
    rows(2);
    admin(&node, &["instrument", "--id", "3", "--symbol", "WEIR3"]);
    rows(3);
    (home, node)
}

fn phases(node: &Node) -> Vec<String> {
    let status = node.status();
    let rows = status["instruments"].as_array().unwrap();
    rows.iter().map(|row| row["phase"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_group_is_halted_and_resumed_by_one_request_and_the_others_trade_on() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    let halted = admin(&node, &["halt", "group:7"]);
    assert_eq!(halted["done"], "group 7: halted; 2 changed");
    let refused_order = alice.ask_for_report(ALICE.buy(1, 51, 1));
    assert_eq!(refused_order.reason, Reason::WrongPhase);
    until("the phases", || (phases(&node) == ["halted", "halted", "continuous"]).then_some(()));
    assert_eq!(admin(&node, &["halt", "all"])["changed"], 1);
    assert_eq!(admin(&node, &["resume", "group:7"])["changed"], 2);
    assert_eq!(alice.ask_for_report(ALICE.buy(2, 51, 1)).reason, Reason::None);
    until("the phases", || (phases(&node) == ["continuous", "continuous", "halted"]).then_some(()));
}

#[test]
fn instruments_that_a_change_skips_make_the_command_fail_and_are_counted() {
    let (_home, node) = market();
    admin(&node, &["phase", "WEIR3", "closed"]);
    let said = refused(&node, &["phase", "all", "closing-call"]);
    assert!(said.contains("all instruments: closing-call; 2 changed, 1 skipped"), "{said}");
    let said = refused(&node, &["halt", "group:8"]);
    assert!(said.contains("the node has no instruments of group 8"), "{said}");
    let said = refused(&node, &["halt", "group:x"]);
    assert!(said.contains("group:x: want group:1 to group:65535"), "{said}");
}

/// A calendar of all instruments was cleared first and then filed for 725 of 4,001.
#[test]
fn a_calendar_belongs_to_its_group_and_is_replaced_whole() {
    let (home, node) = market();
    let file = home.path("calendar.toml");
    let calendar = r#"
        utc_offset = "Z"
        days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
        phase = [{ at = "08:00", name = "continuous" }, { at = "16:00", name = "closed" }]
    "#;
    std::fs::write(&file, calendar).unwrap();
    let file = file.to_str().unwrap();
    let of_group = ["calendar", file, "--from", "2100-01-01", "--instruments", "group:7"];
    admin(&node, &[&of_group[..], &["--days", "3"]].concat());
    node.partition_when(TRADING, |row| row["filed_changes"] == 6);
    admin(&node, &[&of_group[..], &["--days", "2", "--replace"]].concat());
    node.partition_when(TRADING, |row| row["filed_changes"] == 4);
    admin(&node, &["schedule", "WEIR3", "closed", "--at", "2100-01-01T16:00:00Z"]);
    admin(&node, &["schedule", "all", "halted", "--at", "2100-01-01T12:00:00Z"]);
    node.partition_when(TRADING, |row| row["filed_changes"] == 6);
    assert_eq!(admin(&node, &["schedule", "group:7", "--clear"])["cleared"], 4);
    assert_eq!(admin(&node, &["schedule", "all", "--clear"])["cleared"], 2);
}

/// The node refused the 4,097th change of a calendar, without a word of the limit.
#[test]
fn a_calendar_of_more_changes_than_a_list_holds_is_filed_in_parts_and_replaces_nothing() {
    let (home, node) = market();
    let file = home.path("calendar.toml");
    let opening = |hour: u32| format!("{{ at = '{hour:02}:00', name = 'continuous' }}");
    let close = |hour: u32| format!("{{ at = '{hour:02}:30', name = 'closed' }}");
    let phases: Vec<_> = (8..14).flat_map(|hour| [opening(hour), close(hour)]).collect();
    let calendar = format!(
        "utc_offset = 'Z'\n\
         days = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']\n\
         phase = [{}]\n",
        phases.join(", ")
    );
    std::fs::write(&file, calendar).unwrap();
    let file = file.to_str().unwrap();
    let year = ["calendar", file, "--from", "2100-01-01", "--days", "366"];
    let filed = admin(&node, &year);
    assert_eq!(filed["changes"].as_array().unwrap().len(), 4_392);
    node.partition_when(TRADING, |row| row["filed_changes"] == 4_392);
    // Each change is there once, whichever part it was in.
    admin(&node, &year);
    let said = refused(&node, &[&year[..], &["--replace"]].concat());
    let want = "--replace: 4392 changes, and at most 4096 replace others: give fewer --days";
    assert!(said.contains(want), "{said}");
    node.partition_when(TRADING, |row| row["filed_changes"] == 4_392);
    let replace = [&year[..4], &["--days", "1", "--replace"]].concat();
    admin(&node, &replace);
    node.partition_when(TRADING, |row| row["filed_changes"] == 12);

    let (group_id, instrument_id) = (GroupId(7), InstrumentId::NONE);
    let owner = ScheduleOwner { partition_id: TRADING, group_id, instrument_id };
    let at = |count: u64| (Nanos(4_200_000_000_000_000_000 + count), Phase::Closed);
    let changes: Vec<_> = (0..4_097).map(at).collect();
    let error = node.admin().schedule_phases(owner, &changes, false).unwrap_err();
    let ClientError::Refused { reason, subject, .. } = &error else { panic!("{error}") };
    assert_eq!(*reason, Reason::LimitReached);
    assert_eq!(subject, "4097 changes, at most 4096 are filed at once");
}
