//! Backup and restore: a node is backed up while it trades, lost and restored. The restored state
//! equals the state at the backup, and resume points and tokens from after the backup are refused.

use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use weir_client::ClientError;
use weir_client::subscription::{NewSubscription, Seen, Subscription};
use weir_engine::RULES_VERSION;
use weir_types::{EventNo, PartitionId, Reason, SubscriptionKind};

use crate::ingest::core::{Core, Random};
use crate::ingest::{Fed, ingest_address, node_with, reader};
use crate::restart::{append_by_other_rules, snapshots_of};
use crate::subscriptions::{self, BACK_OFFICE, address, make, take};
use crate::support::following::Following;
use crate::support::trader::Trader;
use crate::support::{
    ALICE, BOB, Home, Node, SUPERVISOR, TRADING, definition_of, open_market, until,
};
use crate::tools::{SMALL, weir};

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(text).unwrap()
}

pub fn back_up(home: &Home) -> Value {
    let output =
        weir(&["backup", "--json"], &[("--dir", &home.data()), ("--to", &home.path("backup"))]);
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub fn restore(from: &Home, to: &Home) -> Value {
    let paths = [("--from", &*from.path("backup")), ("--dir", &*to.data())];
    let output = weir(&["restore", "--json"], &paths);
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the output of `weir log verify` up to a position, without its list of snapshots.
fn verified_to(home: &Home, partition_id: PartitionId, last: u64) -> Value {
    let (partition, last) = (partition_id.to_string(), last.to_string());
    let words = ["log", "verify", "--json", "--partition", &partition, "--to", &last];
    let output = weir(&words, &[("--dir", &home.data())]);
    assert!(output.status.success(), "{}", said(&output));
    let mut value: Value = serde_json::from_slice(&output.stdout).unwrap();
    value.as_object_mut().unwrap().remove("snapshots");
    value
}

fn trade(node: &Node, from: u64, count: u64) {
    let mut alice = Trader::log_on(node, ALICE);
    for number in from..from + count {
        alice.ask_for_report(ALICE.sell(number, 100, 1));
    }
}

struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_node_that_is_backed_up_under_load_can_be_made_again_as_it_was() {
    let home = Home::with_config("disk", SMALL);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    trade(&node, 1, 1_500);
    let done = AtomicBool::new(false);
    let (first, second) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut bob = Trader::log_on(&node, BOB);
            for number in (1..).take_while(|_| !done.load(Ordering::Relaxed)) {
                bob.ask_for_report(BOB.buy(number, 100, 2));
            }
        });
        // A backup that fails ends the trading too: the scope waits for it.
        let _ends_trading = SetAtEnd(&done);
        (back_up(&home), back_up(&home))
    });
    let last_of = |taken: &Value, row: usize| taken["partitions"][row]["last"].as_u64().unwrap();
    assert!(last_of(&second, 1) >= last_of(&first, 1) && last_of(&first, 1) > 1_500);
    assert!(second["files_kept"].as_u64() > Some(0), "what did not change is not copied again");
    assert!(node.terminate().success());

    let again = Home::with_config("disk", SMALL);
    let restored = restore(&home, &again);
    for (row, partition_id) in [PartitionId(0), TRADING].into_iter().enumerate() {
        let last = last_of(&second, row);
        assert_eq!(restored["partitions"][row]["last"], last);
        let whole = verified_to(&again, partition_id, u64::MAX);
        assert_eq!(whole, verified_to(&home, partition_id, last), "partition {partition_id}");
        assert_eq!(whole["position"], last);
    }
    let node = again.start();
    let row = node.partition_when(TRADING, |_| true);
    assert_eq!(row["position"], last_of(&second, 1));
    trade(&node, 100_000, 20);
    assert!(node.terminate().success());
    again.verify(TRADING);
}

#[test]
fn after_a_restore_nobody_is_believed_who_was_told_of_what_came_after_the_backup() {
    let home = Home::with_config("disk", SMALL);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    trade(&node, 1, 1_200);
    let mut before = Following::start(&node, SUPERVISOR, Vec::new());
    before.until_online();
    let known = before.states();
    let token_before = before.follower.token().to_vec();
    before.log_out();
    let told_before = Trader::log_on(&node, ALICE).mark();
    back_up(&home);
    trade(&node, 5_000, 30);
    let mut after = Following::start(&node, SUPERVISOR, token_before.clone());
    after.until_online();
    let token_after = after.follower.token().to_vec();
    after.log_out();
    let told = {
        let mut alice = Trader::resume(&node, ALICE, EventNo(1)).unwrap();
        alice.settle();
        alice.mark()
    };
    assert!(node.terminate().success());

    let again = Home::with_config("disk", SMALL);
    restore(&home, &again);
    let node = again.start();
    let other_from = |node: &Node| match Trader::go_on(node, ALICE, told) {
        Err(ClientError::OtherHistory { other_from, .. }) => other_from,
        other => panic!("{}", other.map_or_else(|e| e.to_string(), |_| "believed".to_owned())),
    };
    assert_eq!(other_from(&node), told_before.0.next());
    assert_eq!(Trader::go_on(&node, ALICE, told_before).unwrap().last_event_no(), told_before.0);
    // The control log's epoch ended with the restore too, and no event of it says so.
    let epochs = [PartitionId(0), TRADING].map(|id| {
        let told = Trader::log_on(&node, ALICE).mark_in(id).1;
        (Value::from(told.0), node.partition_when(id, |_| true)["epoch"].clone())
    });
    epochs.iter().for_each(|(told, epoch)| assert_eq!(told, epoch, "{epochs:?}"));
    // The backup holds no events, yet those from before the snapshot are served too.
    let mut alice = Trader::resume(&node, ALICE, EventNo(1)).unwrap();
    alice.settle();
    assert!(alice.reports().len() >= 1_200);
    drop(alice);
    let mut lost = Following::start(&node, SUPERVISOR, token_after);
    lost.until_online();
    assert_eq!(lost.resyncs, [Reason::ResyncEpoch]);
    assert_eq!(lost.states(), known, "what came later is gone, what came before is all there");
    lost.log_out();
    let mut kept = Following::start(&node, SUPERVISOR, token_before);
    kept.until_online();
    assert_eq!(kept.resyncs, [], "a token of before the backup still holds");
    kept.log_out();

    // Event numbers are assigned again. No session mistakes the new events for the old ones, not
    // even after a restart.
    trade(&node, 9_000, 60);
    assert!(Trader::log_on(&node, ALICE).last_event_no() > told.0);
    assert_eq!(other_from(&node), told_before.0.next());
    assert!(node.terminate().success());
    let node = again.start();
    assert_eq!(other_from(&node), told_before.0.next());
    let mut alice = Trader::go_on(&node, ALICE, told_before).unwrap();
    alice.settle();
    assert!(alice.reports().len() >= 60, "and who was told no more goes on");
}

#[test]
fn a_damaged_backup_is_refused_by_file_and_place_and_an_interrupted_restore_does_not_start() {
    let home = Home::with_config("disk", SMALL);
    let node = home.start();
    open_market(&node, &[ALICE]);
    trade(&node, 1, 50);
    assert!(node.terminate().success());
    back_up(&home);
    let backup = home.path("backup");
    let check = || weir(&["restore", "--check"], &[("--from", &backup)]);
    assert!(check().status.success(), "{}", said(&check()));
    let mut names: Vec<_> =
        std::fs::read_dir(&backup).unwrap().map(|entry| entry.unwrap().path()).collect();
    let is_segment = |name: &str| name.contains("partition-1.") && name.contains(".wlog.");
    names.retain(|path| is_segment(&path.to_string_lossy()));
    let path = &names[0];
    let mut bytes = std::fs::read(path).unwrap();
    bytes[4096 + 70] ^= 4;
    std::fs::write(path, bytes).unwrap();
    let output = check();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    assert!(!output.status.success());
    assert!(said(&output).contains(&name) && said(&output).contains("offset 4096"), "{output:?}");

    let again = Home::new("disk");
    let paths = [("--from", &*backup), ("--dir", &*again.data())];
    assert!(!weir(&["restore"], &paths).status.success());
    assert!(!again.data().exists(), "nothing is begun that cannot be finished");
    std::fs::create_dir(again.data()).unwrap();
    std::fs::write(again.data().join("RESTORING"), "").unwrap();
    let output = again.fail_to_start();
    assert!(said(&output).contains("interrupted"), "{output:?}");
}

#[test]
fn keys_in_a_backup_are_for_the_owner_only_and_the_operators_only_by_choice() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::with_config("disk", SMALL);
    let node = home.start_without_key();
    // The status page answers only once the node handles signals.
    node.status();
    assert!(node.terminate().success());
    let keys = |words: &[&str], to: &str| {
        let output = weir(words, &[("--dir", &home.data()), ("--to", &home.path(to))]);
        assert!(output.status.success(), "{}", said(&output));
        let entries = std::fs::read_dir(home.path(to)).unwrap().map(|entry| entry.unwrap());
        let mut names = Vec::new();
        for entry in entries {
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{entry:?}");
            let name = entry.file_name().into_string().unwrap();
            names.extend(name.contains(".key.").then_some(name));
        }
        names
    };
    let without = keys(&["backup"], "without");
    assert!(without.len() == 1 && without[0].starts_with("node.token.key."), "{without:?}");
    assert_eq!(keys(&["backup", "--with-operator-key"], "with").len(), 2);
}

#[test]
fn an_outside_cores_store_and_what_subscribers_have_not_taken_come_back_with_a_backup() {
    let settings = "durability = \"disk\"\n[subscriptions]\nlisten = \"127.0.0.1:0\"\n";
    let (home, node) = node_with(settings);
    open_market(&node, &[ALICE, BOB]);
    let mut admin = node.admin();
    admin.define_session(definition_of(&BACK_OFFICE)).unwrap();
    admin.close().unwrap();
    let mut core = Core::new();
    core.attributes_len = Some(200);
    let (mut fed, mut random) = (Fed::new(&node, core), Random(3));
    (0..300).for_each(|_| fed.core.trade(&mut random));
    fed.until_fed();
    let mut following = reader(&node);
    fed.check(&mut following);
    let fills = NewSubscription::new("fills", SubscriptionKind::Executions);
    make(&node, BACK_OFFICE, &fills);
    subscriptions::trade(&node, 1..11);
    let mut away = Subscription::new(address(&node), BACK_OFFICE.config(), "fills", Seen::new());
    let first = take(&mut away, 4);
    let seen = away.seen().expect("it is attached").clone();
    drop(away);
    // The broker writes unclaimed messages to disk with a short delay.
    until("the messages on the disk", || {
        (node.status()["subscriptions"]["written"].as_u64() >= Some(6)).then_some(())
    });
    let taken = back_up(&home);
    assert_eq!(taken["sources"][0]["partition"], 40);
    assert!(taken["subscription_files"].as_u64() > Some(1), "{taken}");
    assert!(node.terminate().success());

    let (again, other) = node_with(settings);
    assert!(other.terminate().success());
    std::fs::remove_dir_all(again.data()).unwrap();
    let restored = restore(&home, &again);
    assert_eq!(restored["sources"][0]["last"], taken["sources"][0]["last"]);
    let node = again.start();
    following.go_on(node.address()).unwrap();
    fed.check(&mut following);
    // The core continues from the store's position.
    fed.writer.set_target(ingest_address(&node));
    (0..50).for_each(|_| fed.core.trade(&mut random));
    fed.until_fed();
    fed.check(&mut following);
    assert_eq!((&fed.refusals[..], &following.resyncs[..]), (&[][..], &[][..]));
    let mut back = Subscription::new(address(&node), BACK_OFFICE.config(), "fills", seen);
    let got = [first, take(&mut back, 6)].concat();
    let places = got.iter().map(|message| message.head.record).collect::<Vec<_>>();
    assert!(places.is_sorted_by(|one, other| one < other), "each once, in order: {places:?}");
}

#[test]
fn a_restore_tells_that_this_program_cannot_start_a_partition_for_its_rules() {
    let home = Home::new("os");
    let node = home.start();
    open_market(&node, &[ALICE]);
    trade(&node, 1, 20);
    assert!(node.terminate().success());
    let own = RULES_VERSION;
    // Takes a backup, restores it, and returns the words on standard error and the rules.
    let restored = |name: &str| {
        let (backup, to) = (home.path(name), Home::new("os"));
        let taken = weir(&["backup"], &[("--dir", &home.data()), ("--to", &backup)]);
        assert!(taken.status.success(), "{}", said(&taken));
        let output = weir(&["restore", "--json"], &[("--from", &backup), ("--dir", &to.data())]);
        assert!(output.status.success(), "{}", said(&output));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let rules = told["partitions"].as_array().unwrap().iter().map(|row| row["rules"].clone());
        let rules = rules.collect::<Vec<_>>();
        (String::from_utf8(output.stderr).unwrap(), rules, to)
    };
    let (told, rules, to) = restored("own");
    assert_eq!((&*told, rules), ("", vec![own.into(), own.into()]));
    drop(to.start());

    let last = append_by_other_rules(&home);
    let (told, rules, to) = restored("other");
    let note = format!(
        "weir: partition-1: the commands up to position {last} were executed by version {} of the \
         engine's rules, and this program has version {own}: start the directory with the program \
         that wrote the backup, and stop it in order\n",
        own + 1
    );
    assert_eq!((told, rules), (note, vec![own.into(), (own + 1).into()]));
    let refused = said(&to.fail_to_start());
    assert!(refused.contains(&format!("up to position {last} were executed by")), "{refused}");

    // With a snapshot at the end nothing is executed again.
    snapshots_of(&home).write(last, b"a state of that program").unwrap();
    let (told, rules, _) = restored("stopped");
    assert_eq!((&*told, rules), ("", vec![own.into(), (own + 1).into()]));
}

#[test]
fn an_exchange_of_another_number_comes_back_from_its_backup_and_under_no_other() {
    const CONFIG: &str = "[[partition]]\nid = 7\n";
    let home = Home::with_config("os", CONFIG);
    let node = home.start();
    open_market(&node, &[ALICE]);
    trade(&node, 1, 50);
    let states = |node: &Node| {
        let mut reader = Following::start(node, SUPERVISOR, Vec::new());
        reader.until_online();
        let states = reader.states();
        reader.log_out();
        states
    };
    let before = states(&node);
    let taken = back_up(&home);
    assert_eq!(taken["partitions"][1]["partition"], 7, "{taken}");
    assert!(node.terminate().success());
    let again = Home::with_config("os", CONFIG);
    restore(&home, &again);
    let node = again.start();
    assert_eq!(states(&node), before);
    assert!(before.len() == 50 && before.keys().all(|id| id.partition() == PartitionId(7)));
    trade(&node, 100, 5);
    assert!(node.terminate().success());
    again.verify(PartitionId(7));
    std::fs::write(again.path("weir.toml"), "").unwrap();
    let said = said(&again.fail_to_start());
    assert!(said.contains("has partition 7, which no [[partition]] names"), "{said}");
}
