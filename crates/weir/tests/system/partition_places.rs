//! Partitions with directories and durability levels of their own: every tool finds them there, and
//! nothing is begun anew where a disk is not mounted.

use std::path::{Path, PathBuf};

use weir_client::request::LimitOrder;
use weir_client::session::SessionEvent;
use weir_types::{InstrumentId, OrdStatus, PartitionId, Side};

use crate::backup::{back_up, restore};
use crate::support::trader::{Mark, Trader};
use crate::support::{ALICE, Home, INSTRUMENT, Node, open_market};
use crate::tools::weir;

const PARTITIONS: [PartitionId; 2] = [PartitionId(3), PartitionId(7)];
const INSTRUMENTS: [InstrumentId; 2] = [INSTRUMENT, InstrumentId(2)];

/// Writes the configuration: partition 7 in a directory, if one is given, and at `disk`.
fn configure(home: &Home, dir: Option<&Path>) {
    let dir = dir.map(|dir| format!("dir = '{}'\n", dir.display())).unwrap_or_default();
    let text = format!(
        "[[partition]]\nid = 3\n\
         [[partition]]\nid = 7\nthread = 'fast'\ndurability = 'disk'\n{dir}"
    );
    std::fs::write(home.path("weir.toml"), text).unwrap();
}

/// Returns a home whose partition 7 is in a directory elsewhere, with a node in which both
/// partitions have an order, and the directory.
fn market() -> (Home, Node, PathBuf) {
    let home = Home::new("os");
    let fast = home.path("fast");
    configure(&home, Some(&fast));
    let node = home.start();
    open_market(&node, &[ALICE]);
    let mut alice = Trader::log_on(&node, ALICE);
    enter(&mut alice, 1);
    (home, node, fast)
}

/// Enters an order in each partition; returns the marks behind them.
fn enter(alice: &mut Trader, number: u64) -> [(PartitionId, Mark); 2] {
    [0, 1].map(|index| {
        let order = ALICE.order(number, Side::Sell, 100, 1);
        let order = LimitOrder { instrument_id: INSTRUMENTS[index], ..order };
        let request_no = alice.send_to(PARTITIONS[index], order.request());
        match alice.answer(request_no) {
            SessionEvent::Report { report, .. } => {
                assert_eq!(report.event.ord_status, OrdStatus::New);
            }
            other => panic!("{other:?}"),
        }
        (PARTITIONS[index], alice.mark_in(PARTITIONS[index]))
    })
}

/// Waits until each partition has this number of live orders.
fn live_orders(node: &Node, count: u64) {
    for id in PARTITIONS {
        node.partition_when(id, |row| row["live_orders"] == count);
    }
}

/// Returns the bytes of all files below a directory.
fn file_bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let bytes = entries.map(|entry| match entry.metadata().unwrap() {
        found if found.is_dir() => file_bytes(&entry.path()),
        found => found.len(),
    });
    bytes.sum()
}

/// Returns the words with which a start is refused.
fn refusal(home: &Home) -> String {
    String::from_utf8(home.fail_to_start().stderr).unwrap()
}

#[test]
fn a_partition_in_a_directory_elsewhere_is_found_there_by_all() {
    let (home, mut node, fast) = market();
    let levels = PARTITIONS.map(|id| node.partition_when(id, |_| true)["durability"].clone());
    assert_eq!(levels, ["os", "disk"]);
    assert!(fast.join("commands").is_dir() && !home.data().join("partition-7").exists());
    let noted = std::fs::read_to_string(home.data().join("partition-7.at")).unwrap();
    assert_eq!(noted.lines().next(), Some(fast.to_str().unwrap()));
    let mut alice = Trader::log_on(&node, ALICE);
    let marks = enter(&mut alice, 2);
    node.kill();

    let node = home.start();
    live_orders(&node, 2);
    let mut alice = Trader::go_on_in(&node, ALICE, &marks).unwrap();
    enter(&mut alice, 3);
    let bytes = file_bytes(&home.data()) + file_bytes(&fast);
    assert!(node.status()["log_bytes"].as_u64() >= Some(bytes), "{bytes}");
    back_up(&home);
    assert!(node.terminate().success());
    for id in PARTITIONS {
        assert_eq!(home.verify(id)["live_orders"], 3);
    }
    let inspected = weir(&["log", "inspect"], &[("--dir", &home.data())]);
    assert!(inspected.status.success(), "{inspected:?}");

    // A restore puts it below the node's directory.
    let other = Home::new("os");
    restore(&home, &other);
    configure(&other, None);
    let node = other.start();
    live_orders(&node, 3);
    assert!(other.data().join("partition-7/commands").is_dir());
    assert!(node.terminate().success());
}

#[test]
fn a_directory_moves_while_its_node_is_stopped() {
    let (home, node, fast) = market();
    assert!(node.terminate().success());
    let faster = home.path("faster");
    std::fs::rename(&fast, &faster).unwrap();
    let said = refusal(&home);
    assert!(said.contains("mount its disk") && said.contains(fast.to_str().unwrap()), "{said}");
    configure(&home, Some(&faster));
    // With the file of its place in the old directory too, both are named.
    std::fs::create_dir(&fast).unwrap();
    std::fs::copy(faster.join("partition"), fast.join("partition")).unwrap();
    let said = refusal(&home);
    let named = [&fast, &faster].map(|dir| said.contains(dir.to_str().unwrap()));
    assert_eq!(named, [true; 2], "{said}");
    std::fs::remove_dir_all(&fast).unwrap();
    let node = home.start();
    live_orders(&node, 1);
    assert!(node.terminate().success());
    assert_eq!(home.verify(PARTITIONS[1])["live_orders"], 1);

    configure(&home, None);
    let said = refusal(&home);
    assert!(said.contains(faster.to_str().unwrap()), "{said}");
    std::fs::rename(&faster, home.data().join("partition-7")).unwrap();
    let node = home.start();
    live_orders(&node, 1);
    assert!(!home.data().join("partition-7.at").exists());
    assert!(node.terminate().success());
}

#[test]
fn a_partition_whose_disk_is_not_mounted_is_refused_and_not_begun_anew() {
    let (home, node, fast) = market();
    assert!(node.terminate().success());
    let away = home.path("away");
    std::fs::rename(&fast, &away).unwrap();
    for has_mount_point in [false, true] {
        if has_mount_point {
            std::fs::create_dir(&fast).unwrap();
        }
        let said = refusal(&home);
        assert!(said.contains("mount its disk"), "{said}");
        let output = home.try_verify(PARTITIONS[1]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains("mount its disk"), "{said}");
    }
    assert_eq!(std::fs::read_dir(&fast).unwrap().count(), 0);
    // Nor without the place file, and also not on another disk.
    let (noted, aside) = (home.data().join("partition-7.at"), home.path("noted"));
    std::fs::rename(&noted, &aside).unwrap();
    let said = refusal(&home);
    assert!(said.contains("had partition 7") && said.contains("has no commands"), "{said}");
    std::fs::rename(&aside, &noted).unwrap();
    std::fs::remove_dir(&fast).unwrap();
    std::fs::rename(&away, &fast).unwrap();
    let node = home.start();
    live_orders(&node, 1);
    assert!(node.terminate().success());
}

/// The places were noted before the logs were looked at: the right configuration was refused then.
#[test]
fn directories_that_were_confused_are_refused_before_anything_is_noted() {
    let home = Home::new("os");
    configure(&home, None);
    let node = home.start();
    open_market(&node, &[ALICE]);
    enter(&mut Trader::log_on(&node, ALICE), 1);
    assert!(node.terminate().success());
    let [three, seven] = ["three", "seven"].map(|name| home.path(name));
    for (id, dir) in [("partition-3", &three), ("partition-7", &seven)] {
        std::fs::rename(home.data().join(id), dir).unwrap();
    }
    let configure = |three: &Path, seven: &Path| {
        let section =
            |id: u16, dir: &Path| format!("[[partition]]\nid = {id}\ndir = '{}'\n", dir.display());
        std::fs::write(home.path("weir.toml"), section(3, three) + &section(7, seven)).unwrap();
    };
    configure(&seven, &three);
    let said = refusal(&home);
    assert!(said.contains("is of partition 7, not 3"), "{said}");
    configure(&three, &seven);
    let node = home.start();
    live_orders(&node, 1);
    assert!(node.terminate().success());
}

#[test]
fn the_directory_of_another_node_is_refused() {
    let (home, node, fast) = market();
    assert!(node.terminate().success());
    let other = Home::new("os");
    configure(&other, None);
    assert!(other.start().terminate().success());
    std::fs::remove_dir_all(other.data().join("partition-7")).unwrap();
    configure(&other, Some(&fast));
    let said = refusal(&other);
    assert!(said.contains("is not the node that it belongs to"), "{said}");
    let node = home.start();
    live_orders(&node, 1);
    assert!(node.terminate().success());
}

#[test]
fn two_partitions_do_not_share_a_directory() {
    let home = Home::new("os");
    let dir = home.path("fast");
    let section = |id: u16| format!("[[partition]]\nid = {id}\ndir = '{}'\n", dir.display());
    std::fs::write(home.path("weir.toml"), section(3) + &section(7)).unwrap();
    let said = refusal(&home);
    assert!(said.contains("partition.dir") && !dir.exists(), "{said}");
}
