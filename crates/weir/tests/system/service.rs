//! The node as a service: health over HTTP, a service manager's notices, diagnostic lines, and a
//! full disk.

use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_client::SessionConfig;
use weir_client::session::SessionEvent;
use weir_client::subscription::BrokerClient;
use weir_skip::{Need, skip};
use weir_types::{FirmId, OrdStatus, Phase, Reason, RequestNo, SessionId, Switch};
use weir_wire::Request;
use weir_wire::reference::SetPhase;
use weir_wire::session::{ApiKey, Logon};

use crate::support::address::free_address;
use crate::support::trader::Trader;
use crate::support::wire::{Wire, logon_of};
use crate::support::{
    ALICE, BOB, HANG, Home, INSTRUMENT, Node, OPERATOR, TRADING, open_market, until,
};

fn ready(node: &Node) -> bool {
    node.get("/ready") == (200, "ready\n".to_owned())
}

#[test]
fn a_node_that_recovers_is_live_and_not_ready() {
    let home = Home::new("memory");
    // The node reads its token key while it starts: a pipe blocks it there.
    std::fs::create_dir(home.data()).unwrap();
    let key = home.data().join("token.key");
    assert!(Command::new("mkfifo").arg(&key).status().unwrap().success());
    let http = free_address().to_string();
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--durability", "memory", "--listen", "127.0.0.1:0", "--http", &http])
        .args(["--dir".into(), home.data()])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let get = |path: &str| crate::support::try_get(&http, path);
    until("an answer over HTTP", || get("/live").filter(|answer| answer.0 == 200));
    assert_eq!(get("/ready"), Some((503, "it recovers\n".to_owned())));
    for path in ["/metrics", "/status"] {
        assert_eq!(get(path), Some((503, "it recovers\n".to_owned())), "{path}");
    }
    std::fs::write(&key, [7; 32]).unwrap();
    until("the node to be ready", || get("/ready").filter(|answer| answer.0 == 200));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_service_manager_is_told_of_start_life_and_stop() {
    let home = Home::new("memory");
    let path = home.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let (told, notices) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok(length) = socket.recv(&mut bytes) {
            let text = String::from_utf8(bytes[..length].to_vec()).unwrap();
            if told.send(text).is_err() {
                return;
            }
        }
    });
    let node = home.start_with(|serve| {
        serve.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000");
    });
    let expect = |wanted: &str| {
        loop {
            let text = notices.recv_timeout(HANG).unwrap_or_else(|_| panic!("no {wanted}"));
            if text.lines().any(|line| line == wanted) {
                return;
            }
        }
    };
    expect("READY=1");
    expect("WATCHDOG=1");
    expect("WATCHDOG=1");
    assert!(node.terminate().success());
    expect("STOPPING=1");
}

#[test]
fn a_service_manager_that_does_not_read_holds_nothing_up_and_is_told_once_it_does() {
    let home = Home::new("memory");
    let path = home.path("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let filler = UnixDatagram::unbound().unwrap();
    filler.set_nonblocking(true).unwrap();
    while filler.send_to(b"FILLER=1", &path).is_ok() {}
    let node = home.start_with(|serve| {
        serve.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "20000");
    });
    assert!(ready(&node));
    until("signs of life that are dropped and counted", || {
        let (_, text) = node.get("/metrics");
        let mut lines = text.lines();
        let name = "weir_service_notices_dropped_total ";
        let count: u64 = lines.find_map(|line| line.strip_prefix(name))?.parse().unwrap();
        (count > 1).then_some(())
    });
    manager.set_read_timeout(Some(HANG)).unwrap();
    let mut bytes = [0; 512];
    let mut next = || {
        let length = manager.recv(&mut bytes).expect("a notice");
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    // The pending notice arrives, and then watchdog notices again.
    while !next().lines().any(|line| line == "READY=1") {}
    while next() != "WATCHDOG=1\n" {}
}

#[test]
fn a_node_without_a_free_descriptor_goes_on_giving_signs_of_life() {
    let home = Home::new("memory");
    let path = home.path("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(HANG)).unwrap();
    let node = home.start_with(|serve| {
        serve.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000");
    });
    let mut bytes = [0; 512];
    node.without_descriptors(|| {
        // Those of before.
        manager.set_nonblocking(true).unwrap();
        while manager.recv(&mut bytes).is_ok() {}
        manager.set_nonblocking(false).unwrap();
        let mut signs = 0;
        while signs < 3 {
            let length = manager.recv(&mut bytes).expect("a sign of life");
            signs += u32::from(&bytes[..length] == b"WATCHDOG=1\n");
        }
    });
    assert!(node.terminate().success());
}

#[test]
fn lines_as_json_tell_who_came_who_was_refused_and_who_was_cut() {
    let home = Home::new("memory");
    let node = home.start_with(|serve| {
        serve.args(["--log-format", "json"]);
    });
    open_market(&node, &[ALICE]);
    let wrong = Logon { api_key: ApiKey([0x5a; 32]), ..logon_of(&ALICE) };
    Wire::connect(&node).try_log_on(&wrong, &[]).unwrap_err();
    let alice = Trader::log_on(&node, ALICE);
    drop(alice);
    let is_line = |line: &Value, message: &str, name: &str, value: &Value| {
        line["message"] == message && &line[name] == value
    };
    let session = Value::from(ALICE.session_id.0);
    let wanted = [
        ("starting", "durability", Value::from("memory")),
        ("ready", "order_entry", Value::from(node.address().to_string())),
        ("logon refused", "reason", Value::from("UnknownKey")),
        ("connection cut", "reason", Value::from("UnknownKey")),
        ("session logged on", "session", session.clone()),
        ("session lost", "session", session),
    ];
    for (message, name, value) in wanted {
        let line = until(message, || {
            let said = home.said();
            // The last line may be half written.
            let whole = &said[..said.rfind('\n').map_or(0, |end| end + 1)];
            let mut lines = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            lines.find(|line| is_line(line, message, name, &value))
        });
        assert!(line["timestamp"].is_string() && line["level"].is_string(), "{line}");
    }
}

#[test]
fn stopped_is_said_when_every_address_is_free_again() {
    let config = "[web]\nlisten = \"127.0.0.1:0\"\n[ingest]\nlisten = \"127.0.0.1:0\"\n";
    for _ in 0..5 {
        let home = Home::with_config("memory", config);
        let node = home.start();
        let ingest = node.status()["ingest"]["address"].as_str().unwrap().to_owned();
        let addresses =
            [node.address().to_string(), node.http().to_owned(), node.web().to_owned(), ingest];
        rustix::process::kill_process(node.pid(), rustix::process::Signal::TERM).unwrap();
        while !home.said().contains("stopped") {
            std::thread::yield_now();
        }
        for address in addresses {
            let bound = std::net::TcpListener::bind(&address);
            assert!(bound.is_ok(), "{address}: {bound:?}");
        }
        assert!(node.wait_for_end().success());
    }
}

#[test]
fn a_start_says_where_it_is_from_which_snapshot_and_how_long_that_took() {
    let config = "[snapshots]\nevery_commands = 1000\n";
    let home = Home::with_config("os", config);
    let start = || {
        home.start_with(|serve| {
            serve.args(["--log-format", "json"]);
        })
    };
    let line_of = |message: &'static str| {
        until(message, || {
            let said = home.said();
            let whole = &said[..said.rfind('\n').map_or(0, |end| end + 1)];
            let lines = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let mut lines = lines.filter(|line| line["message"] == message);
            // The lines of recoveries are one a partition.
            lines.find(|line| line.get("partition").is_none_or(|id| *id == TRADING.0))
        })
    };
    let node = start();
    let line = line_of("recovered");
    assert_eq!((&line["position"], &line["snapshot"]), (&0.into(), &0.into()), "{line}");
    assert!(line["seconds"].is_f64() && line["commands_applied"] == 0, "{line}");
    open_market(&node, &[ALICE]);
    let mut alice = Trader::log_on(&node, ALICE);
    for number in 1..=1_100 {
        alice.ask_for_report(ALICE.buy(number, 50, 1));
    }
    node.partition_when(TRADING, |row| row["snapshot_position"].as_u64() > Some(0));
    let last = node.partition_when(TRADING, |_| true)["position"].as_u64().unwrap();
    drop(alice);
    assert!(node.terminate().success());
    let node = start();
    let line = line_of("recovered");
    let number = |name: &str| line[name].as_u64().unwrap();
    assert!(number("position") >= last && number("snapshot") > 0, "{line}");
    assert_eq!(number("position") - number("snapshot"), number("commands_applied"), "{line}");
    let recovery = line["seconds"].as_f64().unwrap();
    let line = line_of("views built");
    let seconds = |name: &str| line[name].as_f64().unwrap();
    let parts = recovery + seconds("gateway_seconds") + seconds("order_state_seconds");
    assert!(seconds("order_state_seconds") > 0.0 && parts < seconds("seconds"), "{line}");
    assert!(node.terminate().success());
}

#[test]
fn doors_of_subscribers_and_cores_tell_who_was_refused_and_cut() {
    let config = "[subscriptions]\nlisten = \"127.0.0.1:0\"\n[ingest]\nlisten = \"127.0.0.1:0\"\n";
    let home = Home::with_config("memory", config);
    let node = home.start_with(|serve| {
        serve.args(["--log-format", "json"]);
    });
    open_market(&node, &[ALICE]);
    for door in ["subscriptions", "ingest"] {
        let page = node.status();
        let address: SocketAddr = page[door]["address"].as_str().unwrap().parse().unwrap();
        let session = SessionConfig { key: ApiKey([0x5a; 32]).into(), ..ALICE.config() };
        let mut client = BrokerClient::new(address, session);
        assert!(client.list(FirmId::NONE).is_err(), "a wrong key");
        for message in ["logon refused", "connection cut"] {
            let line = until(message, || {
                let said = home.said();
                let whole = &said[..said.rfind('\n').map_or(0, |end| end + 1)];
                let lines = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
                lines.into_iter().find(|line| line["message"] == message && line["door"] == door)
            });
            assert_eq!(line["reason"], "UnknownKey", "{line}");
            assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
            assert!(line["suppressed"].is_u64(), "{line}");
            let session = if message == "logon refused" { ALICE.session_id.0 } else { 0 };
            assert_eq!(line["session"], session, "{line}");
        }
    }
}

#[test]
fn what_is_refused_and_cut_is_counted_by_reason() {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE]);
    for _ in 0..3 {
        let wrong = Logon { api_key: ApiKey([0x5a; 32]), ..logon_of(&ALICE) };
        Wire::connect(&node).try_log_on(&wrong, &[]).unwrap_err();
    }
    let mut alice = Trader::log_on(&node, ALICE);
    alice.ask(ALICE.buy(1, 50_000, 1));
    let wanted = [
        "weir_gateway_logons_refused_by_reason_total{reason=\"UnknownKey\"} 3",
        "weir_gateway_closed_by_reason_total{reason=\"UnknownKey\"} 3",
        "weir_gateway_engine_refusals_total{reason=\"InvalidPrice\"} 1",
    ];
    for wanted in wanted {
        until(wanted, || node.get("/metrics").1.lines().any(|line| line == wanted).then_some(()));
    }
}

/// A small disk of a test's own. `None`, reported as a skip, without the right to mount one.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    pub fn mount(at: &Path, size: &str) -> Option<SmallDisk> {
        std::fs::create_dir(at).unwrap();
        let options = format!("size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at);
        let refused = match mount.output() {
            Ok(output) if output.status.success() => return Some(SmallDisk(at.to_owned())),
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => format!("mount: {error}"),
        };
        // Without the path, which is another one in each test.
        skip(Need::Mount, refused.replace(&*at.to_string_lossy(), "tmpfs"));
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A failing test does not leave a mount behind.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The requests that a full log refuses before anybody reads an answer.
const OUTSTANDING: u64 = 1_000;

fn to_phase(phase: Phase) -> Request {
    Request::SetPhase(SetPhase {
        request_no: RequestNo::NONE,
        session_id: SessionId::NONE,
        instrument_id: INSTRUMENT,
        phase,
        override_collars: Switch::Off,
    })
}

/// Sends requests until the full log refuses one; returns the number of the last.
fn send_until_refused(from: &mut Trader, request: impl Fn(u64) -> Request) -> u64 {
    for number in 2.. {
        match from.ask(request(number)) {
            SessionEvent::Refused { reject, .. } => {
                assert_eq!(reject.reason, Reason::LogFull);
                return number;
            }
            SessionEvent::Report { .. }
            | SessionEvent::Done { .. }
            | SessionEvent::Rejected { .. } => {}
            other => panic!("request {number} was answered by {other:?}"),
        }
    }
    unreachable!("the disk is full")
}

/// Asserts that a full log has refused a request.
fn assert_refused(of: &mut Trader, request_no: RequestNo) {
    let answer = of.answer(request_no);
    let is_full = matches!(
        &answer,
        SessionEvent::Refused { reject, .. } if reject.reason == Reason::LogFull
    );
    assert!(is_full, "{request_no:?}: {answer:?}");
}

/// Has orders and a halt refused by a full log, all before the first answer is read: each is
/// answered.
fn refuse_many(node: &Node, alice: &mut Trader, operator: &mut Trader, last: u64) {
    let refused = || node.partition_when(TRADING, |_| true)["refused"].as_u64().unwrap();
    let before = refused();
    let orders: Vec<RequestNo> =
        (1..=OUTSTANDING).map(|next| alice.send(ALICE.buy(last + next, 50, 1))).collect();
    let halt = operator.send(to_phase(Phase::Halted));
    until("that all are refused", || {
        alice.client.flush().unwrap();
        operator.client.flush().unwrap();
        (refused() > before + OUTSTANDING).then_some(())
    });
    assert_refused(operator, halt);
    for request_no in orders {
        assert_refused(alice, request_no);
    }
    assert_eq!(refused(), before + OUTSTANDING + 1, "each once");
}

#[test]
fn a_full_disk_refuses_requests_and_makes_the_node_unready_until_there_is_room() {
    let config = "[log]\nsegment_bytes = 1048576\n[events]\nsegment_bytes = 1048576\n";
    let home = Home::with_config("disk", config);
    let Some(_disk) = SmallDisk::mount(&home.data(), "24m") else { return };
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    assert!(ready(&node));
    let mut alice = Trader::log_on_as(&node, ALICE, ALICE.patient_config());
    let mut operator = Trader::log_on_as(&node, OPERATOR, OPERATOR.patient_config());
    alice.ask_for_report(ALICE.buy(1, 50, 1));
    let ballast = home.data().join("ballast");
    fill(&ballast);
    let last = send_until_refused(&mut alice, |number| ALICE.buy(number, 50, 1));
    // A shorter request may have found room behind that.
    send_until_refused(&mut operator, |_| to_phase(Phase::Continuous));
    let (code, why) = node.get("/ready");
    assert_eq!(code, 503);
    assert!(why.contains("partition 1 has no room"), "{why}");
    assert_eq!(node.get("/live").0, 200);
    refuse_many(&node, &mut alice, &mut operator, last);
    // Reads and logons continue.
    assert_eq!(node.get("/status").0, 200);
    Trader::log_on(&node, BOB);
    std::fs::remove_file(&ballast).unwrap();
    until("the node to be ready again", || ready(&node).then_some(()));
    // Requests that were refused are not carried out later: neither the halt nor the orders.
    let report = alice.ask_for_report(ALICE.buy(last, 50, 1));
    assert_eq!((report.ord_status, report.reason), (OrdStatus::New, Reason::None));
    alice.settle();
    let live = node.partition_when(TRADING, |_| true)["live_orders"].as_u64();
    assert_eq!(live, Some(alice.reports().len() as u64));
    assert!(node.terminate().success());
    // One line at each edge: it was full once.
    let said = home.said();
    let lines = |what: &str| said.lines().filter(|line| line.contains(what)).count();
    let told = (lines("command log has no room"), lines("command log has room again"));
    assert_eq!(told, (1, 1), "{said}");
}

#[test]
fn a_node_without_room_stops_and_loses_nothing_that_it_answered() {
    let config = "[log]\nsegment_bytes = 1048576\n[events]\nsegment_bytes = 1048576\n";
    let home = Home::with_config("disk", config);
    let Some(_disk) = SmallDisk::mount(&home.data(), "24m") else { return };
    let node = home.start();
    open_market(&node, &[ALICE]);
    let mut alice = Trader::log_on(&node, ALICE);
    let ballast = home.data().join("ballast");
    fill(&ballast);
    // More commands than the segments that are prepared have room for.
    let begun = Instant::now();
    let mut number = 0;
    while node.get("/ready").0 != 503 || number < 1_000 {
        assert!(begun.elapsed() < HANG, "{number} orders left room");
        let session = alice.client.session(ALICE.session_id).expect("it is open");
        if session.unanswered_count() < 100 {
            (1..=20).for_each(|next| _ = alice.send(ALICE.buy(number + next, 50, 1)));
            number += 20;
        }
        alice.poll(Duration::from_millis(1)).unwrap();
    }
    for round in 0..5 {
        (1..=10).for_each(|next| _ = alice.send(ALICE.buy(number + 10 * round + next, 50, 1)));
        alice.poll(Duration::from_millis(1)).unwrap();
    }
    let ended = node.terminate();
    assert!(ended.success(), "{ended}: {}", home.said());
    let accepted = alice.reports().len();
    std::fs::remove_file(&ballast).unwrap();
    let node = home.start();
    let live = node.partition_when(TRADING, |_| true)["live_orders"].as_u64().unwrap();
    assert!(live >= accepted as u64, "{live} of {accepted}");
}

/// Fills the disk.
pub fn fill(path: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
}
