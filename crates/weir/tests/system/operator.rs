//! The troubles in `docs/operations.md` that begin with people and their keys. Every step uses the
//! command line.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use weir_client::session::SessionEvent;
use weir_client::{ClientError, SessionConfig};
use weir_types::{FirmId, OrdStatus, Reason, RequestNo, SessionId, Symbol};
use weir_wire::reference::DefineFirm;
use weir_wire::session::Logon;

use crate::support::trader::Trader;
use crate::support::wire::{Wire, logon_of};
use crate::support::{ALICE, BOB, HANG, Home, Node, OPERATOR, TRADING, open_market, until};

fn market() -> (Home, Node) {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    // The command line finds instruments on the status page, which lags a little.
    until("the instrument", || {
        (node.status()["instruments"][0]["symbol"] == "WEIR1").then_some(())
    });
    (home, node)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs `weir admin WORDS` with these login options.
fn try_admin(node: &Node, login: &[&str], words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["admin", "--node", &node.address().to_string(), "--http", node.http(), "--json"])
        .args(login)
        .args(words)
        .output()
        .unwrap()
}

/// As [`try_admin`], as the first operator; requires success and returns the output.
fn admin(node: &Node, words: &[&str]) -> Value {
    let output = try_admin(node, &["--key", &hex(&OPERATOR.key().0)], words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns a counter of `/metrics`.
fn counter(node: &Node, name: &str) -> u64 {
    let (_, text) = node.get("/metrics");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().unwrap())
}

#[test]
fn a_runaway_client_is_throttled_then_stopped_and_its_orders_are_taken_out() {
    let (_home, node) = market();
    let mut runaway = Trader::log_on(&node, ALICE);
    runaway.ask_for_report(ALICE.buy(1, 50, 1));
    // Its key stays, and with it its logon.
    let bounds = ["--order-rate", "5", "--in-flight", "100"];
    admin(&node, &[&["session", "--id", "11"], &bounds[..]].concat());
    let mut number = 1;
    let mut enter = |runaway: &mut Trader| {
        number += 1;
        runaway.ask_for_report(ALICE.buy(number, 50, 1)).reason
    };
    until("the bound", || (enter(&mut runaway) == Reason::Throttled).then_some(()));
    until("its count", || (counter(&node, "weir_gateway_throttled_total") > 0).then_some(()));
    // A session within its limits is not affected.
    let mut bob = Trader::log_on(&node, BOB);
    assert_eq!(bob.ask_for_report(BOB.buy(1, 40, 1)).reason, Reason::None);

    admin(&node, &["kill", "session", "11"]);
    until("the kill switch", || (enter(&mut runaway) == Reason::Killed).then_some(()));
    admin(&node, &["--yes", "cancel", "account", "11"]);
    node.partition_when(TRADING, |row| row["live_orders"] == 1);
    let told = "weir_gateway_engine_refusals_total{reason=\"Killed\"}";
    until("its count", || (counter(&node, told) > 0).then_some(()));
    // Once the client is repaired, the kill switch is taken back and the limits are lifted.
    admin(&node, &["kill", "session", "11", "--off"]);
    admin(&node, &["session", "--id", "11", "--order-rate", "0", "--in-flight", "0"]);
    until("entry again", || (enter(&mut runaway) == Reason::None).then_some(()));
}

#[test]
fn an_instrument_that_is_halted_is_emptied_by_one_word() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    let mut bob = Trader::log_on(&node, BOB);
    for number in 1..=5 {
        alice.ask_for_report(ALICE.buy(number, 50, 1));
        bob.ask_for_report(BOB.sell(number, 60, 1));
    }
    admin(&node, &["halt", "WEIR1"]);
    admin(&node, &["--yes", "cancel", "instrument", "WEIR1"]);
    node.partition_when(TRADING, |row| row["live_orders"] == 0);
    for trader in [&mut alice, &mut bob] {
        trader.report_where(|report| report.ord_status == OrdStatus::Canceled);
    }
    assert_eq!(alice.ask_for_report(ALICE.buy(6, 50, 1)).reason, Reason::WrongPhase);
    admin(&node, &["resume", "WEIR1"]);
    assert_eq!(alice.ask_for_report(ALICE.buy(7, 50, 1)).reason, Reason::None);
}

/// Waits until the first instrument has this phase; returns its last phases.
fn phases_when(node: &Node, phase: &str) -> String {
    until("the phase", || {
        let row = &node.status()["instruments"][0];
        (row["phase"] == phase).then(|| row["phases"].as_str().unwrap().to_owned())
    })
}

#[test]
fn a_halt_holds_against_the_calendar_until_it_is_lifted() {
    let (_home, node) = market();
    for (phase, at) in [("continuous", "+1s"), ("closed", "+2s")] {
        admin(&node, &["schedule", "WEIR1", phase, "--at", at]);
    }
    let halted = admin(&node, &["halt", "WEIR1"]);
    assert_eq!(halted["done"], "WEIR1 is halted");
    assert_eq!(phases_when(&node, "closed"), "continuous halted closed");
    assert_eq!(admin(&node, &["resume", "WEIR1"])["done"], "WEIR1 is closed");
    assert_eq!(phases_when(&node, "closed"), "continuous halted closed");
    assert_eq!(admin(&node, &["phase", "WEIR1", "opening-call"])["done"], "WEIR1 is opening-call");
}

#[test]
fn what_was_closed_stays_closed_behind_a_halt_of_all() {
    let (_home, node) = market();
    admin(&node, &["phase", "WEIR1", "closed"]);
    let halted = admin(&node, &["--yes", "halt", "all"]);
    assert_eq!(halted["done"], "all instruments: 1 halted; 1 changed");
    let resumed = admin(&node, &["resume", "all"]);
    assert_eq!(resumed["done"], "all instruments: 1 closed (WEIR1); 1 changed");
    assert_eq!(resumed["phases"]["closed"][0], "WEIR1");
    assert_eq!(phases_when(&node, "closed"), "continuous closed halted closed");
}

#[test]
fn a_kill_cancels_the_live_orders_in_the_same_request() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    for number in 1..=5 {
        alice.ask_for_report(ALICE.buy(number, 50, 1));
    }
    let id = ALICE.session_id.0.to_string();
    let killed = admin(&node, &["--yes", "kill", "session", &id, "--cancel"]);
    assert_eq!(killed["cancelled"], 5);
    alice.report_where(|report| report.reason == Reason::Killed && !report.rec.is_none());
    assert_eq!(alice.ask_for_report(ALICE.buy(6, 50, 1)).reason, Reason::Killed);
}

#[test]
fn a_reference_that_an_operator_sets_is_told_on_the_status_page() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    let mut bob = Trader::log_on(&node, BOB);
    let last_price_when = |want: &str| {
        until("the last price", || {
            (node.status()["instruments"][0]["last_price"] == want).then_some(())
        });
    };
    alice.ask_for_report(ALICE.buy(1, 50, 1));
    let bought = bob.ask_for_report(BOB.sell(1, 50, 1));
    last_price_when("0.50");
    let set = admin(&node, &["reference", "WEIR1", "--last", "0.80", "--static", "none"]);
    assert_eq!(set["done"], "WEIR1: last price 0.80, static reference none");
    last_price_when("0.80");
    alice.ask_for_report(ALICE.buy(2, 60, 1));
    bob.ask_for_report(BOB.sell(2, 60, 1));
    last_price_when("0.60");
    // The trade is taken back, and the price that was set before it holds again.
    assert!(bought.match_id.is_none(), "the report of its entry is no trade");
    admin(&node, &["--yes", "bust", "2"]);
    last_price_when("0.80");
}

#[test]
fn a_transfer_that_is_asked_for_again_moves_nothing_and_says_so() {
    let (_home, node) = market();
    let deposit = ["deposit", "--account", "11", "--cash", "500", "--transfer-id", "4711"];
    assert_eq!(admin(&node, &deposit)["moved"], true);
    assert_eq!(admin(&node, &deposit)["moved"], false);
    for other in
        [["--cash", "501", "--transfer-id", "4711"], ["--cash", "500", "--transfer-id", "7"]]
    {
        let words = [&["deposit", "--account", "11"], &other[..]].concat();
        let refused = try_admin(&node, &["--key", &hex(&OPERATOR.key().0)], &words);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(
            !refused.status.success() && said.contains(Reason::TransferIdUsed.text()),
            "{said}"
        );
    }
}

#[test]
fn a_key_that_was_lost_is_replaced_and_whoever_has_it_is_out() {
    let (_home, node) = market();
    let mut finder = Trader::log_on(&node, ALICE);
    finder.ask_for_report(ALICE.buy(1, 50, 1));
    let replaced = admin(&node, &["session", "--id", "11", "--new-key"]);
    let ended = until("the finder's end", || finder.poll(HANG).err());
    let is_it = matches!(ended, ClientError::LoggedOut { reason: Reason::KeyReplaced, .. });
    assert!(is_it, "{ended}");
    let refused = Wire::connect(&node).try_log_on(&logon_of(&ALICE), &[]).unwrap_err();
    assert_eq!(refused.reason, Reason::UnknownKey);
    // The session's orders stay until they are cancelled.
    node.partition_when(TRADING, |row| row["live_orders"] == 1);
    admin(&node, &["--yes", "cancel", "account", "11"]);
    node.partition_when(TRADING, |row| row["live_orders"] == 0);
    let key = replaced["api_key"].as_str().unwrap();
    Wire::connect(&node).log_on(&Logon { api_key: parse_key(key), ..logon_of(&ALICE) });
}

fn parse_key(text: &str) -> weir_wire::session::ApiKey {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..32).map(|index| byte(2 * index)).collect();
    weir_wire::session::ApiKey(bytes.try_into().unwrap())
}

#[test]
fn an_expired_key_is_good_again_once_its_session_is_defined_anew() {
    let (_home, node) = market();
    let define = ["session", "--id", "11"];
    admin(&node, &[&define[..], &["--expires", "2020-01-01T00:00:00Z"]].concat());
    let refused = Wire::connect(&node).try_log_on(&logon_of(&ALICE), &[]).unwrap_err();
    assert_eq!(refused.reason, Reason::KeyExpired);
    admin(&node, &[&define[..], &["--expires", "+8h"]].concat());
    let mut alice = Trader::log_on(&node, ALICE);
    let answer = alice.ask(ALICE.buy(1, 50, 1));
    assert!(matches!(answer, SessionEvent::Report { .. }), "{answer:?}");
}

#[test]
fn a_start_gives_the_operator_a_new_key_when_every_one_is_lost() {
    let home = Home::new("disk");
    let node = home.start_without_key();
    let key_file = home.data().join("operator.key");
    let login = ["--key-file", key_file.to_str().unwrap()];
    assert!(try_admin(&node, &login, &["firm", "--id", "7", "--name", "ONE"]).status.success());
    let old = std::fs::read_to_string(&key_file).unwrap();
    assert!(node.terminate().success());
    std::fs::remove_file(&key_file).unwrap();

    let node = home.start_with(|serve| {
        serve.env_remove("WEIR_BOOTSTRAP_KEY").arg("--new-operator-key");
    });
    // The old key no longer opens anything.
    let words = ["firm", "--id", "8", "--name", "TWO"];
    let refused = try_admin(&node, &["--key", old.trim()], &words);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains(Reason::UnknownKey.text()), "{said}");
    let admitted = try_admin(&node, &login, &words);
    assert!(admitted.status.success(), "{admitted:?}");
    assert!(node.terminate().success());
    // From then on the key is in the log.
    let node = home.start_without_key();
    let again = try_admin(&node, &login, &["firm", "--id", "9", "--name", "THREE"]);
    assert!(again.status.success(), "{again:?}");
    assert!(node.terminate().success());
    home.verify(weir_types::PartitionId(0));
}

#[test]
fn a_second_operator_gives_the_first_one_a_new_key() {
    let (home, node) = market();
    let second = admin(&node, &["session", "--id", "9", "--role", "operator"]);
    let key_file = home.path("second.key");
    std::fs::write(&key_file, second["api_key"].as_str().unwrap()).unwrap();
    std::fs::set_permissions(&key_file, Permissions::from_mode(0o600)).unwrap();
    let login = ["--session", "9", "--key-file", key_file.to_str().unwrap()];
    let words = ["session", "--id", "1", "--new-key"];
    let defined = try_admin(&node, &login, &words);
    assert!(defined.status.success(), "{defined:?}");
    let defined: Value = serde_json::from_slice(&defined.stdout).unwrap();
    let lost = try_admin(&node, &["--key", &hex(&OPERATOR.key().0)], &["halt", "WEIR1"]);
    let said = String::from_utf8(lost.stderr).unwrap();
    assert!(said.contains(Reason::UnknownKey.text()), "{said}");
    let new = defined["api_key"].as_str().unwrap();
    assert!(try_admin(&node, &["--key", new], &["halt", "WEIR1"]).status.success());
}

/// `weir orders` as the first operator.
struct Follower {
    child: Child,
}

impl Follower {
    fn start(node: &Node) -> Follower {
        let mut follower = Follower::start_without_logon(node);
        follower.is_logged_on();
        follower
    }

    fn start_without_logon(node: &Node) -> Follower {
        let child = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["orders", "--node", &node.address().to_string(), "--http", node.http()])
            .args(["--key", &hex(&OPERATOR.key().0)])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Follower { child }
    }

    /// Waits for the head of its table, which follows the logon.
    fn is_logged_on(&mut self) {
        let mut head = String::new();
        let stdout = self.child.stdout.as_mut().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut head).unwrap();
        assert!(!head.is_empty(), "it has ended");
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        kill_process(pid.expect("a child has an id"), signal).unwrap();
    }

    /// Waits for its failure and returns its standard error.
    fn fails(&mut self) -> String {
        let status = until("its end", || self.child.try_wait().unwrap());
        let mut said = String::new();
        let stderr = self.child.stderr.as_mut().expect("stderr is piped");
        stderr.read_to_string(&mut said).unwrap();
        assert!(!status.success(), "{said}");
        said
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // Both calls fail if it has already ended, which is the state wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_halt_takes_the_operators_session_from_a_process_that_hangs() {
    let (_home, node) = market();
    let mut hung = Follower::start(&node);
    hung.signal(Signal::STOP);
    assert_eq!(admin(&node, &["halt", "WEIR1"])["done"], "WEIR1 is halted");
    hung.signal(Signal::CONT);
    // Not for its silence, and it does not come back.
    let said = hung.fails();
    assert!(said.contains(Reason::TakenOver.text()), "{said}");
    let name = "weir_gateway_sessions_taken_over_total";
    until("its count", || (counter(&node, name) > 0).then_some(()));
}

#[test]
fn an_operators_connection_that_hangs_is_told_of_the_takeover_and_serves_no_request() {
    let (_home, node) = market();
    let mut hung = Wire::connect(&node);
    until("a free session", || {
        let logon = Logon { heartbeat_interval_ms: 60_000, ..logon_of(&OPERATOR) };
        hung.try_log_on(&logon, &[]).ok()
    });
    assert_eq!(admin(&node, &["halt", "WEIR1"])["done"], "WEIR1 is halted");
    assert_eq!(hung.logout(), (OPERATOR.session_id, Reason::TakenOver));
    let request =
        weir_client::request::stamp(ALICE.buy(1, 50, 1), OPERATOR.session_id, RequestNo(1));
    hung.request(&request);
    assert_eq!(hung.reject().reason, Reason::NotLoggedOn);
}

/// The definition of a firm by a request of an open session.
fn firm_seven() -> DefineFirm {
    DefineFirm {
        request_no: RequestNo::NONE,
        name: Symbol::new("SEVEN").unwrap(),
        session_id: SessionId::NONE,
        firm_id: FirmId(7),
        live_orders_max: 0,
        fields: 0,
    }
}

#[test]
fn an_operators_command_leaves_its_session_for_a_time_to_the_program_that_has_it() {
    /// The time after which the command takes its session over.
    const PATIENCE: Duration = Duration::from_secs(1);
    let (_home, node) = market();
    let mut at_work = node.admin();
    at_work.define_firm(firm_seven()).unwrap();
    let refusals = || counter(&node, "weir_gateway_logons_refused_total");
    let before = refusals();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| admin(&node, &["firm", "--id", "20", "--name", "FIRM20"]));
        until("its refusal", || (refusals() > before).then_some(()));
        let closed = at_work.close();
        // On a machine that needs longer the command has the session already.
        if begun.elapsed() < PATIENCE {
            closed.unwrap();
            assert_eq!(counter(&node, "weir_gateway_sessions_taken_over_total"), 0);
        }
    });
}

#[test]
fn a_reader_waits_for_the_operators_session_and_takes_nothing_over() {
    let (_home, node) = market();
    let mut at_work = node.admin();
    let mut reader = Follower::start_without_logon(&node);
    // Longer than a command of an operator waits before it takes the session over.
    std::thread::sleep(Duration::from_millis(1_500));
    at_work.define_firm(firm_seven()).unwrap();
    at_work.close().unwrap();
    reader.is_logged_on();
    assert_eq!(counter(&node, "weir_gateway_sessions_taken_over_total"), 0);
}

#[test]
fn a_trader_that_asks_for_it_takes_its_session_over_with_its_orders() {
    let (_home, node) = market();
    let config = SessionConfig { cancel_on_disconnect: true, ..ALICE.patient_config() };
    let mut old = Trader::log_on_as(&node, ALICE, config);
    old.ask_for_report(ALICE.buy(1, 50, 1));
    let config = SessionConfig { takeover: true, ..config };
    let mut new = Trader::log_on_as(&node, ALICE, config);
    let ended = until("its end", || old.poll(HANG).err());
    let is_it = matches!(ended, ClientError::LoggedOut { reason: Reason::TakenOver, .. });
    assert!(is_it && !ended.is_passing(), "{ended}");
    new.ask_for_report(ALICE.buy(2, 50, 1));
    drop(old);
    until("the end of the connection", || {
        (node.status()["gateway"]["connections"] == 1).then_some(())
    });
    new.ask_for_report(ALICE.buy(3, 50, 1));
    node.partition_when(TRADING, |row| row["live_orders"] == 3);
    drop(new);
    node.partition_when(TRADING, |row| row["live_orders"] == 0);
}

#[test]
fn each_operator_and_each_timer_has_a_session_of_its_own() {
    let (home, node) = market();
    let dir = home.data();
    let dir = dir.to_str().unwrap();
    let key = hex(&OPERATOR.key().0);
    let first = ["--key", key.as_str(), "--dir", dir];
    for id in ["9", "10"] {
        let words = ["session", "--id", id, "--role", "operator", "--keep-key"];
        let defined = try_admin(&node, &first, &words);
        assert!(defined.status.success(), "{defined:?}");
    }
    let mut at_work = node.admin();
    let calendar = home.path("calendar.toml");
    let days = r#"
        utc_offset = "+00:00"
        days = ["mon", "tue", "wed", "thu", "fri"]
        phase = [{ at = "08:00", name = "continuous" }, { at = "17:30", name = "closed" }]
    "#;
    std::fs::write(&calendar, days).unwrap();
    let calendar = calendar.to_str().unwrap();
    for (session, words) in [
        ("9", &["halt", "WEIR1"][..]),
        ("10", &["calendar", calendar, "--days", "14", "--from", "2100-01-04"]),
        ("9", &["resume", "WEIR1"]),
    ] {
        let done = try_admin(&node, &["--session", session, "--dir", dir], words);
        assert!(done.status.success(), "{words:?}: {done:?}");
    }
    // The first operator goes on.
    at_work.define_firm(firm_seven()).unwrap();
}
