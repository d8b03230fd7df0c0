//! A node with two trading partitions: the orders of each are matched in it, and all that crosses
//! partitions works over both.

use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use weir_client::SessionConfig;
use weir_client::request::LimitOrder;
use weir_client::session::SessionEvent;
use weir_client::subscription::{NewSubscription, Seen, Subscription, WaitOutcome};
use weir_types::{
    AccountId, ClOrdId, CopyNo, FirmId, InstrumentId, MassCancelScope, Nanos, OrdStatus,
    PartitionId, Reason, RequestNo, SessionId, Side, SubscriptionKind, Switch, Symbol,
};
use weir_wire::Request;
use weir_wire::event::OrderEvent;
use weir_wire::frame::parse_message;
use weir_wire::order_entry::MassCancel;
use weir_wire::reference::DefineInstrument;
use weir_wire::report::ExecutionReport;

use crate::own_replica::replica_of_sources;
use crate::publish::free_port;
use crate::subscriptions::{BACK_OFFICE, address, make, take};
use crate::support::address::free_address;
use crate::support::copying::{Desk, desk_of};
use crate::support::following::{Following, latest_states};
use crate::support::trader::Trader;
use crate::support::{
    ALICE, BOB, Home, INSTRUMENT, Node, SUPERVISOR, Who, definition_of, instrument, open_market,
    until,
};
use crate::tools::{weir, weir_at};

/// The partitions, whose numbers leave a gap, and their instruments.
const PARTITIONS: [PartitionId; 2] = [PartitionId(3), PartitionId(7)];
const INSTRUMENTS: [InstrumentId; 2] = [INSTRUMENT, InstrumentId(2)];
const CONFIG: &str = "[[partition]]\nid = 7\n[[partition]]\nid = 3\n";

fn market(durability: &'static str) -> (Home, Node) {
    let home = Home::with_config(durability, CONFIG);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    (home, node)
}

/// Returns an order for the instrument of a partition.
fn order(who: Who, number: u64, side: Side, price: i64) -> impl Fn(usize) -> Request {
    move |index| {
        let order = who.order(number, side, price, 1);
        LimitOrder { instrument_id: INSTRUMENTS[index], ..order }.request()
    }
}

/// Sends a request to each partition; returns their first reports.
fn enter(trader: &mut Trader, request: impl Fn(usize) -> Request) -> [OrderEvent; 2] {
    [0, 1].map(|index| {
        let request_no = trader.send_to(PARTITIONS[index], request(index));
        match trader.answer(request_no) {
            SessionEvent::Report { report, .. } => report.event,
            other => panic!("partition {} said {other:?}", PARTITIONS[index]),
        }
    })
}

/// Waits until each partition has this number of live orders.
fn live_orders(node: &Node, count: u64) {
    for partition_id in PARTITIONS {
        node.partition_when(partition_id, |row| row["live_orders"] == count);
    }
}

#[test]
fn each_partition_matches_its_own_orders_and_a_session_goes_on_in_both_after_a_kill() {
    let (home, mut node) = market("disk");
    let mut alice = Trader::log_on(&node, ALICE);
    let mut bob = Trader::log_on(&node, BOB);
    let resting = enter(&mut alice, order(ALICE, 1, Side::Sell, 100));
    assert_eq!(resting.map(|event| event.partition_id), PARTITIONS);
    assert_eq!(resting.map(|event| event.order_id.partition()), PARTITIONS);
    let marks = PARTITIONS.map(|id| (id, alice.mark_in(id)));
    let bought = enter(&mut bob, order(BOB, 1, Side::Buy, 100));
    assert!(bought.iter().all(|event| event.ord_status == OrdStatus::New), "{bought:?}");
    for index in [0, 1] {
        let sold = alice.report_where(|event| {
            event.ord_status == OrdStatus::Filled && event.order_id == resting[index].order_id
        });
        assert_eq!(sold.partition_id, PARTITIONS[index]);
    }
    node.kill();

    let node = home.start();
    let mut alice = Trader::go_on_in(&node, ALICE, &marks).unwrap();
    for resting in resting {
        let sold = alice.report_where(|event| event.order_id == resting.order_id);
        assert_eq!((sold.ord_status, sold.partition_id), (OrdStatus::Filled, resting.partition_id));
    }
    enter(&mut alice, order(ALICE, 2, Side::Sell, 101));
    live_orders(&node, 1);
    assert!(node.terminate().success());
    for partition_id in PARTITIONS {
        assert_eq!(home.verify(partition_id)["live_orders"], 1);
    }
    let verify = || weir(&["log", "verify", "--json"], &[("--dir", &home.data())]);
    let of_each = |output: &Output| {
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| line["partition"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let output = verify();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(of_each(&output), [3, 7]);
    // One that is damaged does not keep the others from being told.
    let commands = home.data().join("partition-3/commands");
    let log = std::fs::read_dir(commands).unwrap().map(|entry| entry.unwrap().path());
    let segment = log.filter(|path| path.extension().is_some()).min().unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[5_000] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let output = verify();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(!output.status.success() && said.contains("partition 3"), "{output:?}");
    assert_eq!(of_each(&output), [7]);
    // Nor from being restored.
    std::fs::remove_dir_all(home.data().join("partition-3/commands")).unwrap();
    let archive = home.path("archive");
    std::fs::create_dir(&archive).unwrap();
    let (data, archive) = (home.data(), archive.as_path());
    let paths: [(&str, &std::path::Path); 2] = [("--dir", &data), ("--archive", archive)];
    let output = weir(&["log", "restore", "--json"], &paths);
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(!output.status.success() && said.contains("partition 3"), "{output:?}");
    assert_eq!(of_each(&output), [7]);
}

#[test]
fn a_lost_session_and_the_mass_cancels_of_one_end_its_orders_in_both() {
    let (_home, node) = market("memory");
    let config = SessionConfig { cancel_on_disconnect: true, ..ALICE.config() };
    let mut alice = Trader::log_on_as(&node, ALICE, config);
    let mut bob = Trader::log_on(&node, BOB);
    enter(&mut alice, order(ALICE, 1, Side::Sell, 100));
    enter(&mut bob, order(BOB, 1, Side::Buy, 50));
    live_orders(&node, 2);
    drop(alice);
    live_orders(&node, 1);
    for partition_id in PARTITIONS {
        let all = MassCancel {
            request_no: RequestNo::NONE,
            cl_ord_id: ClOrdId::NONE,
            sending_time: Nanos(0),
            session_id: SessionId::NONE,
            instrument_id: InstrumentId::NONE,
            account_id: AccountId::NONE,
            firm_id: FirmId::NONE,
            partition_id,
            scope: MassCancelScope::Session,
        };
        let request_no = bob.send_to(partition_id, Request::MassCancel(all));
        assert!(matches!(bob.answer(request_no), SessionEvent::Done { .. }));
    }
    live_orders(&node, 0);
}

#[test]
fn followers_and_desks_have_the_orders_of_both() {
    let (home, node) = market("os");
    let desk = desk_of(31, ALICE.firm_id);
    let mut admin = node.admin();
    admin.define_session(definition_of(&desk)).unwrap();
    admin.close().unwrap();
    let mut alice = Trader::log_on(&node, ALICE);
    let mut following = Following::start(&node, SUPERVISOR, Vec::new());
    let first = enter(&mut alice, order(ALICE, 1, Side::Sell, 100));
    following.until(&latest_states([&first[0], &first[1]]));
    let token = following.follower.token().to_vec();
    let mut copies = Desk::log_on(&node, desk);
    for partition_id in PARTITIONS {
        copies.send_in(partition_id, FirmId::NONE, CopyNo(1), Switch::On);
    }
    copies.beat_until("both copies", |desk| desk.copies.len() == 2);
    drop((following, copies));
    assert!(node.terminate().success());

    // A token of both goes on in both.
    let node = home.start();
    let mut following = Following::start(&node, SUPERVISOR, token);
    let mut alice = Trader::log_on(&node, ALICE);
    let second = enter(&mut alice, order(ALICE, 2, Side::Sell, 100));
    following.until(&latest_states([&second[0], &second[1]]));
    assert_eq!(following.row_count, 2, "what it had does not come again");
    assert!(following.resyncs.is_empty(), "{:?}", following.resyncs);
}

/// Runs `weir admin` with these words; returns its output.
fn admin(node: &Node, words: &[&str]) -> Value {
    let output = weir_at(node, &["admin"]).args(["--json", "--yes"]).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn one_command_of_the_operator_reaches_both() {
    let (_home, node) = market("memory");
    let mut alice = Trader::log_on(&node, ALICE);
    enter(&mut alice, order(ALICE, 1, Side::Sell, 100));
    assert_eq!(admin(&node, &["halt", "all"])["changed"], 2);
    let refused = enter(&mut alice, order(ALICE, 2, Side::Sell, 100));
    assert_eq!(refused.map(|event| event.reason), [Reason::WrongPhase; 2]);
    admin(&node, &["resume", "all"]);
    admin(&node, &["kill", "firm", "11", "--cancel"]);
    live_orders(&node, 0);
    let refused = enter(&mut alice, order(ALICE, 3, Side::Sell, 100));
    assert!(refused.iter().all(|event| event.ord_status == OrdStatus::Rejected), "{refused:?}");
    let sources = node.status()["delivery"]["sources"].clone();
    let shown = sources.as_array().unwrap().iter().map(|own| own["source"].as_u64().unwrap());
    assert_eq!(shown.collect::<Vec<_>>(), [3, 7]);
}

#[test]
fn the_configuration_chooses_the_partition_of_a_new_instrument() {
    let config = "[[partition]]\nid = 3\ninstruments = ['*']\n\
                  [[partition]]\nid = 7\ninstruments = ['HOT*', '#30']\n";
    let home = Home::with_config("memory", config);
    let node = home.start();
    let define = |words: &[&str]| {
        let words = [&["instrument"], words].concat();
        let done = admin(&node, &words)["done"].as_str().unwrap().to_owned();
        done.split("partition ").nth(1).map(str::to_owned)
    };
    assert_eq!(define(&["--id", "1", "--symbol", "COLD"]).as_deref(), Some("3"));
    assert_eq!(define(&["--id", "2", "--symbol", "HOTEL"]).as_deref(), Some("7"));
    assert_eq!(define(&["--id", "30", "--symbol", "ICE"]).as_deref(), Some("7"));
    let given = ["--id", "4", "--symbol", "HOTTER", "--partition", "3"];
    assert_eq!(define(&given).as_deref(), Some("3"));
    // A definition that names no partition is for that in which the instrument stands.
    let (symbol, partition_id) = (Symbol::new("HOTTER").unwrap(), PartitionId::NONE);
    let again = DefineInstrument { symbol, partition_id, ..instrument(InstrumentId(4)) };
    let mut operator = node.admin();
    operator.define_instrument(again).unwrap();
    operator.close().unwrap();
    assert!(node.terminate().success());

    // Other patterns change nothing for those that have a partition.
    let path = home.path("weir.toml");
    std::fs::write(&path, config.replace("'HOT*', '#30'", "'COLD'").replace("'*'", "")).unwrap();
    let node = home.start();
    let rows = node.status()["instruments"].clone();
    let partition_of = |id: u64| {
        let row = rows.as_array().unwrap().iter().find(|row| row["id"] == id).unwrap();
        row["partition"].as_u64().unwrap()
    };
    assert_eq!([1, 2, 30, 4].map(partition_of), [3, 7, 7, 3]);
    let words = ["--json", "--yes", "instrument", "--id", "5", "--symbol", "NEW"];
    let refused = weir_at(&node, &["admin"]).args(words).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("give --partition"), "{said}");
}

#[test]
fn a_replica_follows_both_and_takes_the_tokens_of_its_master() {
    let listen = free_address();
    let home = Home::with_config("os", &format!("[ingest]\nlisten = \"{listen}\"\n{CONFIG}"));
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let mut alice = Trader::log_on(&node, ALICE);
    let mut following = Following::start(&node, SUPERVISOR, Vec::new());
    let first = enter(&mut alice, order(ALICE, 1, Side::Sell, 100));
    following.until(&latest_states([&first[0], &first[1]]));

    let sources = PARTITIONS.map(|id| id.0);
    let (_replica_home, replica) = replica_of_sources(&sources, listen, &home, CONFIG);
    let has = |count: u64| {
        until("the replica to have the orders of both", || {
            let rows = replica.status()["replica"]["sources"].clone();
            let is_even = |row: &Value| {
                row["is_whole"] == true && row["live_orders"] == count && row["lag_entries"] == 0
            };
            let rows = rows.as_array()?;
            (rows.len() == 2 && rows.iter().all(is_even)).then_some(())
        });
    };
    has(1);
    following.go_on(replica.address()).unwrap();
    let second = enter(&mut alice, order(ALICE, 2, Side::Sell, 101));
    let all = [&first[0], &first[1], &second[0], &second[1]];
    following.until(&latest_states(all));
    has(2);
    following.go_on(node.address()).unwrap();
    let third = enter(&mut alice, order(ALICE, 3, Side::Sell, 102));
    following.until(&latest_states(all.into_iter().chain(&third)));
    assert!(following.resyncs.is_empty(), "{:?}", following.resyncs);
}

/// A partition whose disk was not mounted was made anew, without its orders.
#[test]
fn a_partition_that_was_there_is_not_made_anew_and_one_is_dropped_on_purpose() {
    let (home, node) = market("disk");
    let mut alice = Trader::log_on(&node, ALICE);
    enter(&mut alice, order(ALICE, 1, Side::Sell, 100));
    assert!(node.terminate().success());
    let (dir, aside) = (home.data().join("partition-7"), home.path("aside"));
    std::fs::rename(&dir, &aside).unwrap();
    let refused = || {
        let said = String::from_utf8(home.fail_to_start().stderr).unwrap();
        assert!(said.contains("had partition 7"), "{said}");
        assert!(!dir.join("commands").exists(), "nothing was made");
    };
    refused();

    // It is dropped, and another one added.
    let configure = |text: &str| std::fs::write(home.path("weir.toml"), text).unwrap();
    let more = "[[partition]]\nid = 9\n";
    configure(&format!("[[partition]]\nid = 3\n{more}"));
    let node = home.start();
    let mut alice = Trader::log_on(&node, ALICE);
    let request_no = alice.send_to(PARTITIONS[0], order(ALICE, 2, Side::Sell, 101)(0));
    assert!(matches!(alice.answer(request_no), SessionEvent::Report { .. }));
    node.partition_when(PARTITIONS[0], |row| row["live_orders"] == 2);
    node.partition_when(PartitionId(9), |row| row["live_orders"] == 0);
    let request_no = alice.send_to(PARTITIONS[1], order(ALICE, 3, Side::Sell, 101)(1));
    let SessionEvent::Refused { reject, .. } = alice.answer(request_no) else { panic!("refused") };
    assert_eq!(reject.reason, Reason::WrongPartition);
    drop(alice);
    assert!(node.terminate().success());

    // Its number is no other's; with its directory it goes on.
    configure(&format!("{CONFIG}{more}"));
    refused();
    std::fs::rename(&aside, &dir).unwrap();
    let node = home.start();
    node.partition_when(PARTITIONS[1], |row| row["live_orders"] == 1);
    assert!(node.terminate().success());
}

/// Lets Bob buy from Alice in each partition, at a price that tells the trades apart.
fn trade(alice: &mut Trader, bob: &mut Trader, number: u64) {
    let price = 100 + i64::try_from(number).unwrap();
    enter(alice, order(ALICE, number, Side::Sell, price));
    enter(bob, order(BOB, number, Side::Buy, price));
}

#[test]
fn durable_subscribers_have_the_executions_of_both_once_through_a_kill() {
    let config = format!("[subscriptions]\nlisten = \"127.0.0.1:0\"\n{CONFIG}");
    let home = Home::with_config("disk", &config);
    let mut node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let mut admin = node.admin();
    admin.define_session(definition_of(&BACK_OFFICE)).unwrap();
    admin.close().unwrap();
    make(&node, BACK_OFFICE, &NewSubscription::new("fills", SubscriptionKind::Executions));
    let (mut seen, mut told) = (Seen::new(), Vec::new());
    for numbers in [1..=6, 7..=12] {
        let mut alice = Trader::log_on(&node, ALICE);
        let mut bob = Trader::log_on(&node, BOB);
        numbers.for_each(|number| trade(&mut alice, &mut bob, number));
        let mut fills = Subscription::new(address(&node), BACK_OFFICE.config(), "fills", seen);
        for message in take(&mut fills, 12) {
            let report: ExecutionReport =
                parse_message(&message.body).unwrap().decode_whole().unwrap();
            assert_eq!(message.head.source, u32::from(report.event.partition_id.0));
            told.push((report.event.partition_id, report.event.last_px.0));
        }
        seen = fills.seen().expect("it is attached").clone();
        drop((fills, alice, bob));
        node.kill();
        node = home.start();
    }
    for partition_id in PARTITIONS {
        let its = told.iter().filter(|(of, _)| *of == partition_id).map(|(_, price)| *price);
        assert_eq!(its.collect::<Vec<_>>(), (101..=112).collect::<Vec<_>>(), "{partition_id}");
    }
    let mut fills = Subscription::new(address(&node), BACK_OFFICE.config(), "fills", seen);
    let next = fills.next(Duration::from_millis(300));
    assert!(matches!(next, WaitOutcome::Nothing), "{next:?}");
}

#[test]
fn each_partition_is_published_in_a_channel_of_its_own() {
    let channel = |group: u8| {
        let ports = [free_port(), free_port()];
        format!(
            "[partition.market_publisher]\ngroup = \"239.255.41.{group}:{}\"\n\
             requests = \"127.0.0.1:{}\"\n",
            ports[0], ports[1]
        )
    };
    let config =
        format!("[[partition]]\nid = 7\n{}[[partition]]\nid = 3\n{}", channel(17), channel(13));
    let home = Home::with_config("disk", &config);
    let mut node = home.start();
    open_market(&node, &[ALICE, BOB]);
    let mut alice = Trader::log_on(&node, ALICE);
    for number in 1..=3 {
        let request_no = alice.send_to(PARTITIONS[1], order(ALICE, number, Side::Sell, 100)(1));
        alice.answer(request_no);
    }
    let shown = until("all events in their channels", || {
        let status = node.status();
        let partitions = status["partitions"].as_array()?;
        let made = partitions.iter().filter(|row| row["id"] != 0).map(|row| &row["events"]);
        let rows = status["publish"].as_array()?;
        made.eq(rows.iter().map(|row| &row["events"])).then(|| rows.clone())
    });
    let of = |name: &str| shown.iter().map(|row| row[name].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(of("partition"), [3, 7]);
    assert_eq!(of("published"), [1, 1]);
    let [quiet, busy] = of("next_sequence")[..] else { panic!("two channels") };
    assert!(quiet < busy, "{shown:?}");
    node.kill();
    node = home.start();
    let again = until("the channels", || {
        let rows = node.status()["publish"].as_array()?.clone();
        rows.iter().all(|row| row["is_live"] == true).then_some(rows)
    });
    let next = |row: &Value| row["next_sequence"].as_u64().unwrap();
    assert_eq!(again.iter().map(next).collect::<Vec<_>>(), [quiet, busy], "they go on");
    let sessions =
        |rows: &[Value]| rows.iter().map(|row| row["session"].clone()).collect::<Vec<_>>();
    assert_eq!(sessions(&again), sessions(&shown));
    assert_ne!(sessions(&shown)[0], sessions(&shown)[1], "a name is of one channel");
}
