//! A node that may have few descriptors, among connections that say nothing.

use std::net::TcpStream;

use crate::support::{ALICE, Home, TRADING, open_market};
use crate::tools::SMALL;
use crate::troubles::trade;

/// Starts a node under a limit of its open files.
const WITH_FEW: [&str; 3] = ["sh", "-c", "ulimit -n 512; exec \"$0\" \"$@\""];

#[test]
fn silent_connections_to_http_leave_the_log_its_descriptors_and_monitoring_its_place() {
    let config = format!("{SMALL}[web]\nlisten = \"127.0.0.1:0\"\n");
    let home = Home::with_config("disk", &config);
    let data = home.data();
    let home = home.elsewhere(data, WITH_FEW.map(Into::into).into());
    let node = home.start();
    open_market(&node, &[ALICE]);
    let silent: Vec<_> = [node.http(), node.web()]
        .into_iter()
        .flat_map(|address| (0..500).map(move |_| TcpStream::connect(address).unwrap()))
        .collect();
    let commands = home.data().join("partition-1/commands");
    let segments = || std::fs::read_dir(&commands).unwrap().count();
    let before = segments();
    for first in (1..).step_by(200).take_while(|_| segments() < before + 3) {
        trade(&node, first, 200);
    }
    assert_eq!(node.get("/live").0, 200);
    let evicted = |part: &str| node.status()[part]["http_evicted"].as_u64().unwrap();
    assert!(
        evicted("http") > 300 && evicted("web") > 300,
        "{} {}",
        evicted("http"),
        evicted("web")
    );
    drop(silent);
    assert!(node.terminate().success());
    home.verify(TRADING);
}
