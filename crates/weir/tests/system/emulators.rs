//! Emulated cores and clients at a real node: readers receive the orders that the cores create.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_client::Target;
use weir_client::clock::unix_time;
use weir_client::emulate::setup::define_sessions;
use weir_client::emulate::{CoreDriver, CorePlan, DrivePlan, EmulatedCore};
use weir_client::follower::{Follower, FollowerConfig};
use weir_client::load::{Arrivals, Verdict};
use weir_types::{Nanos, OrderId, PartitionId, Role};
use weir_wire::delivery::OrderRow;

use crate::support::following::Following;
use crate::support::{HANG, Home, Node, SUPERVISOR, definition_of};
use crate::tools::weir_at;

const SOURCES: [PartitionId; 2] = [PartitionId(40), PartitionId(41)];

fn node() -> (Home, Node) {
    let config = "[ingest]\nlisten = \"127.0.0.1:0\"\n\
                  [[ingest.source]]\nid = 40\nsession = 30\n\
                  [[ingest.source]]\nid = 41\nsession = 31\n";
    let home = Home::with_config("os", config);
    let node = home.start();
    let mut admin = node.admin();
    admin.define_session(definition_of(&SUPERVISOR)).unwrap();
    admin.close().unwrap();
    (home, node)
}

fn driver(node: &Node) -> CoreDriver {
    let mut admin = node.admin();
    let sessions = define_sessions(&mut admin, Role::Source, 30, 2).unwrap();
    admin.close().unwrap();
    let plan = |source| CorePlan { order_count: 300, ..CorePlan::new(source) };
    let core = |source| EmulatedCore::new(plan(source), unix_time());
    let address: SocketAddr = node.status()["ingest"]["address"].as_str().unwrap().parse().unwrap();
    CoreDriver::new(&Target::from(address), SOURCES.map(core).into_iter().zip(sessions).collect())
}

/// Asserts that a reader of the source receives all of the core's orders.
fn all_of(node: &Node, core: &EmulatedCore) {
    let config = FollowerConfig {
        source_id: core.source_id(),
        keep_orders: true,
        ..FollowerConfig::new(SUPERVISOR.session_id)
    };
    let mut reader = Following::start_as(node, SUPERVISOR, Follower::new(config, Vec::new()));
    let wanted: BTreeMap<OrderId, OrderRow> =
        core.live().iter().map(|row| (row.order_id, *row)).collect();
    let begun = Instant::now();
    loop {
        let known: BTreeMap<OrderId, OrderRow> = reader.follower.orders().clone();
        let known: BTreeMap<OrderId, OrderRow> =
            known.into_iter().map(|(id, row)| (id, OrderRow { merged_count: 0, ..row })).collect();
        if known == wanted {
            break;
        }
        assert!(begun.elapsed() < HANG, "{} known, {} wanted", known.len(), wanted.len());
        reader.poll(Duration::from_millis(5)).unwrap();
    }
    for row in core.live() {
        let attributes = reader.follower.attributes(row.order_id);
        assert_eq!(attributes, core.attributes(row.rec), "{}", row.order_id);
    }
    reader.log_out();
}

#[test]
fn what_emulated_cores_create_is_what_readers_are_told() {
    let (_home, node) = node();
    let mut driver = driver(&node);
    driver.fill().unwrap();
    let plan = DrivePlan {
        arrivals: Arrivals::Poisson,
        rate: 5_000.0,
        seed: 7,
        warm_up: Duration::from_millis(100),
        duration: Duration::from_millis(400),
        batch_rows_max: 20,
        batch_wait: Duration::from_millis(1),
        late_after: Nanos(1_000_000),
        // The test checks content, not timing, whatever else the machine runs.
        late_share_max: 1.0,
    };
    let report = driver.run(&plan, &mut |_| {}).unwrap();
    assert_eq!((report.verdict, report.unacknowledged), (Verdict::Valid, 0));
    assert_eq!((report.resends, report.losses), (2, 0));
    assert!(report.changes > 1_000 && report.batches > 50, "{report:?}");
    driver.cores().for_each(|core| all_of(&node, core));

    // New cores replace the first: all orders are sent again, in the next epoch.
    drop(driver);
    let mut driver = self::driver(&node);
    driver.fill().unwrap();
    driver.cores().for_each(|core| all_of(&node, core));
    let sources = node.status()["ingest"]["sources"].clone();
    assert!(sources.as_array().unwrap().iter().all(|source| source["resends"] == 2), "{sources}");
}

#[test]
fn the_emulators_of_the_command_line_tell_delays_and_page_sizes() {
    let (_home, node) = node();
    let core =
        weir_at(&node, &["emulate", "core", "--json", "--orders", "500", "--warm-up", "0.1"])
            .args(["--cores", "2", "--rate", "500", "--duration", "5"])
            .args(["--metrics", "127.0.0.1:0", "--late-percent", "100"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
    let words =
        ["emulate", "clients", "--json", "--source", "40", "--mix", "all:2,firm:3,account:4"];
    // Clients are admitted and served whether the cores have begun or not.
    let mut clients = weir_at(&node, &words);
    clients.args([
        "--duration",
        "1",
        "--warm-up",
        "0.2",
        "--rows-min",
        "5",
        "--wait-max-us",
        "2000",
    ]);
    let clients = clients.output().unwrap();
    let said = String::from_utf8_lossy(&clients.stdout).into_owned();
    let why = String::from_utf8_lossy(&clients.stderr);
    let report: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said:?} {why}"));
    let class = |name: &str| {
        let classes = report["report"]["classes"].as_array().unwrap();
        classes.iter().find(|class| class["class"] == name).unwrap().clone()
    };
    assert_eq!(report["report"]["lost"], 0, "{report}");
    let (all, firm) = (class("all"), class("firm"));
    assert_eq!((&all["members"], &firm["members"]), (&Value::from(2), &Value::from(3)));
    assert!(all["rows"].as_u64() > Some(100), "{all}");
    assert!(all["delay"]["count"].as_u64() > Some(100), "{all}");
    assert!(firm["rows"].as_u64() < all["rows"].as_u64(), "a firm's are fewer: {firm}");
    let core = core.wait_with_output().unwrap();
    let said: Value = serde_json::from_slice(&core.stdout).unwrap();
    assert_eq!(said["report"]["verdict"], "valid", "{said}");
    assert_eq!(said["report"]["resends"], 2);
}
