//! Groups of instruments: one request of an operator to each partition, by the command line, also
//! where the status page lags or is not there.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use weir_client::admin::ScheduleOwner;
use weir_client::clock::unix_time;
use weir_client::request::LimitOrder;
use weir_client::status::StatusPage;
use weir_client::{Admin, ClientError};
use weir_types::{GroupId, InstrumentId, Nanos, Phase, Reason, SessionId, Side};

use crate::support::machine::Machine;
use crate::support::trader::Trader;
use crate::support::{
    ALICE, BOB, HANG, Home, Node, OPERATOR, TRADING, Who, days_around_today, definition_of,
    open_market, until,
};

/// An address at which nobody listens.
const NOBODY: &str = "127.0.0.1:1";

/// Runs `weir admin WORDS` as the first operator, without a terminal, with the status page of this
/// address.
fn run(node: &Node, http: &str, words: &[&str]) -> Output {
    let key: String = OPERATOR.key().0.iter().map(|byte| format!("{byte:02x}")).collect();
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["admin", "--node", &node.address().to_string(), "--http", http, "--json"])
        .args(["--key", &key])
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn try_admin(node: &Node, words: &[&str]) -> Output {
    run(node, node.http(), &[&["--yes"], words].concat())
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"))
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn admin(node: &Node, words: &[&str]) -> Value {
    let output = try_admin(node, words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    json_of(&output)
}

fn refused(node: &Node, words: &[&str]) -> String {
    let output = try_admin(node, words);
    assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
    said(&output)
}

/// Waits until the partition has imported all definitions that the node has acknowledged.
fn imported(node: &Node) {
    until("the imports", || {
        let status = node.status();
        let rows = status["partitions"].as_array()?;
        let of = |id: u16| rows.iter().find(|row| row["id"] == id)?["imported_to"].as_u64();
        (of(TRADING.0)? >= of(0)?).then_some(())
    });
}

/// Starts a node with WEIR1 and WEIR2 in group 7, and WEIR3 in none.
fn market() -> (Home, Node) {
    let home = Home::new("memory");
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    until("the instrument", || {
        (node.status()["instruments"][0]["symbol"] == "WEIR1").then_some(())
    });
    admin(&node, &["instrument", "--id", "1", "--group", "7"]);
    admin(&node, &["instrument", "--id", "2", "--symbol", "WEIR2", "--group", "7"]);
    admin(&node, &["instrument", "--id", "3", "--symbol", "WEIR3"]);
    until("the instruments", || {
        let status = node.status();
        let rows = status["instruments"].as_array()?;
        let of_group = rows.iter().filter(|row| row["group"] == 7).count();
        (rows.len() == 3 && of_group == 2).then_some(())
    });
    imported(&node);
    (home, node)
}

fn phases(node: &Node) -> Vec<String> {
    let status = node.status();
    let rows = status["instruments"].as_array().unwrap();
    rows.iter().map(|row| row["phase"].as_str().unwrap_or_default().to_owned()).collect()
}

fn phases_when(node: &Node, want: [&str; 3]) {
    until("the phases", || (phases(node) == want).then_some(()));
}

fn filed_when(node: &Node, count: u64) {
    node.partition_when(TRADING, |row| row["filed_changes"] == count);
}

/// Writes a calendar with two changes a day.
fn calendar(home: &Home) -> String {
    let phases = "{ at = '08:00', name = 'continuous' }, { at = '16:00', name = 'closed' }";
    write_calendar(home, phases)
}

/// Writes a calendar with these phases on each day but the days around today: none is open now.
fn write_calendar(home: &Home, phases: &str) -> String {
    let file = home.path("calendar.toml");
    let calendar = format!(
        "utc_offset = 'Z'\n\
         days = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']\n\
         holidays = [{}]\n\
         phase = [{phases}]\n",
        days_around_today()
    );
    std::fs::write(&file, calendar).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_group_is_halted_and_resumed_by_one_request_and_the_others_trade_on() {
    let (_home, node) = market();
    let mut alice = Trader::log_on(&node, ALICE);
    let halted = admin(&node, &["halt", "group:7"]);
    assert_eq!(halted["done"], "group 7: 2 halted; 2 changed");
    assert_eq!(halted["phases"], json!({ "halted": ["WEIR1", "WEIR2"] }));
    let refused_order = alice.ask_for_report(ALICE.buy(1, 51, 1));
    assert_eq!(refused_order.reason, Reason::WrongPhase);
    assert_eq!(phases(&node), ["halted", "halted", "continuous"], "the page shows the answer");
    assert_eq!(admin(&node, &["halt", "all"])["changed"], 1);
    let resumed = admin(&node, &["resume", "group:7"]);
    assert_eq!(resumed["done"], "group 7: 2 continuous; 2 changed");
    assert_eq!(alice.ask_for_report(ALICE.buy(2, 51, 1)).reason, Reason::None);
    phases_when(&node, ["continuous", "continuous", "halted"]);
    let resumed = admin(&node, &["resume", "group:7", "--call"]);
    assert_eq!(resumed["done"], "group 7: 2 continuous (WEIR1, WEIR2); 0 changed", "no halt");
}

#[test]
fn a_group_is_resumed_through_a_call_and_closed_now_and_later() {
    let (_home, node) = market();
    admin(&node, &["halt", "group:7"]);
    let resumed = admin(&node, &["resume", "group:7", "--call"]);
    assert_eq!(resumed["done"], "group 7: 2 volatility-call; 2 changed");
    let closed = admin(&node, &["phase", "group:7", "closed"]);
    assert_eq!(closed["done"], "group 7: 2 closed; 2 changed");
    admin(&node, &["instrument", "--id", "1", "--group", "0"]);
    admin(&node, &["schedule", "group:7", "continuous", "--at", "+3s"]);
    phases_when(&node, ["closed", "continuous", "continuous"]);
    let halted = admin(&node, &["halt", "group:7"]);
    assert_eq!(halted["phases"], json!({ "halted": ["WEIR2"] }), "WEIR1 is in no group");
}

#[test]
fn instruments_that_a_change_skips_make_the_command_fail_and_are_named() {
    let (_home, node) = market();
    admin(&node, &["phase", "WEIR3", "closed"]);
    let output = try_admin(&node, &["phase", "all", "closing-call"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let want = "all instruments: 2 closing-call, 1 closed (WEIR3); 2 changed, 1 skipped";
    let told = json_of(&output);
    assert_eq!((&told["done"], &told["skipped"]), (&want.into(), &1.into()));
    assert_eq!(told["phases"]["closed"], json!(["WEIR3"]));
    let why = "refused for 1 instruments, which are as they were: 2 closing-call, 1 closed (WEIR3)";
    assert!(said(&output).contains(why), "{output:?}");
    for (words, want) in [
        (&["halt", "group:8"][..], "the node has no instruments of group 8"),
        (&["resume", "group:8"], "the node has no instruments of group 8"),
        (&["schedule", "group:8", "--clear"], "the node has no instruments of group 8"),
        (&["halt", "group:x"], "group:x: want group:1 to group:65535"),
        (&["phase", "group:0", "closed"], "group:0: want group:1 to group:65535"),
        (&["phase", "group:7", "closed", "--override-collars"], "FieldOutOfRange"),
        (&["schedule", "group:7", "closed", "--at", "1970-01-02T00:00:00Z"], "FieldOutOfRange"),
    ] {
        let said = refused(&node, words);
        assert!(said.contains(want), "{words:?}: {said}");
    }
    assert!(
        refused(&node, &["phase", "group:7", "closed", "--override-collars"])
            .contains("; nothing was changed")
    );
}

/// The command said continuous of an instrument that had begun a volatility call.
#[test]
fn the_phases_that_instruments_reached_are_told_with_those_of_a_collar() {
    let (_home, node) = market();
    let of_call =
        ["--reference-price", "1000", "--static-collar", "500", "--phase", "opening-call"];
    admin(&node, &[&["instrument", "--id", "4", "--symbol", "WEIR4"], &of_call[..]].concat());
    imported(&node);
    let (mut alice, mut bob) = (Trader::log_on(&node, ALICE), Trader::log_on(&node, BOB));
    let of = |order: LimitOrder| LimitOrder { instrument_id: InstrumentId(4), ..order }.request();
    let bought = alice.ask_for_report(of(ALICE.order(1, Side::Buy, 1_100, 5)));
    let sold = bob.ask_for_report(of(BOB.order(1, Side::Sell, 1_100, 5)));
    assert_eq!((bought.reason, sold.reason), (Reason::None, Reason::None));
    let opened = admin(&node, &["phase", "all", "continuous"]);
    let want = "all instruments: 3 continuous, 1 volatility-call (WEIR4); 1 changed";
    assert_eq!((&opened["done"], &opened["asked"]), (&want.into(), &"continuous".into()));
    assert_eq!(opened["phases"]["volatility-call"], json!(["WEIR4"]));
    // The call ends at a price within the collar only, or by an operator's word.
    let said = refused(&node, &["phase", "all", "continuous"]);
    assert!(said.contains("refused for 1 instruments") && said.contains("(WEIR4)"), "{said}");
    let opened = admin(&node, &["phase", "all", "continuous", "--override-collars"]);
    assert_eq!(opened["done"], "all instruments: 4 continuous; 1 changed");
}

/// A calendar of all instruments was cleared first and then filed for 725 of 4,001.
#[test]
fn a_calendar_belongs_to_its_group_and_is_replaced_whole() {
    let (home, node) = market();
    let file = calendar(&home);
    let of_days = ["calendar", &file, "--from", "2100-01-01"];
    let of_group = [&of_days[..], &["--instruments", "group:7"]].concat();
    admin(&node, &[&of_group[..], &["--days", "3"]].concat());
    filed_when(&node, 6);
    // Without a word nothing is removed, also not the third day.
    admin(&node, &[&of_group[..], &["--days", "2"]].concat());
    filed_when(&node, 6);
    admin(&node, &[&of_group[..], &["--days", "2", "--replace"]].concat());
    filed_when(&node, 4);
    admin(&node, &["schedule", "WEIR3", "closed", "--at", "2100-01-01T16:00:00Z"]);
    admin(&node, &["schedule", "all", "halted", "--at", "2100-01-01T12:00:00Z"]);
    filed_when(&node, 6);
    assert_eq!(admin(&node, &["schedule", "group:7", "--clear"])["cleared"], 4);
    assert_eq!(admin(&node, &["schedule", "all", "--clear"])["cleared"], 2);
    // Of all, the changes of each group and each instrument go too.
    admin(&node, &[&of_group[..], &["--days", "2"]].concat());
    admin(&node, &["schedule", "WEIR3", "closed", "--at", "2100-01-01T16:00:00Z"]);
    filed_when(&node, 5);
    let of_all = ["--instruments", "all", "--days", "1", "--replace"];
    admin(&node, &[&of_days[..], &of_all].concat());
    filed_when(&node, 2);
}

/// A command whose clock was ahead of log time cleared a close and did not file it again.
#[test]
fn a_calendar_that_takes_the_place_of_another_leaves_the_changes_that_are_past_for_its_sender() {
    let (_home, node) = market();
    let mut operator = node.admin();
    let (group_id, instrument_id) = (GroupId(7), InstrumentId::NONE);
    let owner = ScheduleOwner { partition_id: TRADING, group_id, instrument_id };
    let at = |seconds: u64| Nanos(unix_time().0 + seconds * 1_000_000_000);
    let times = [1_000, 2_000, 3_000].map(at);
    for time in times {
        operator.file_phase(owner, time, Phase::Closed).unwrap();
    }
    let later = [(at(4_000), Phase::Closed)];
    assert_eq!(operator.schedule_phases(owner, &later, Some(times[1])).unwrap(), 1);
    filed_when(&node, 3);
    assert_eq!(operator.schedule_phases(owner, &later, Some(Nanos(0))).unwrap(), 3);
    filed_when(&node, 1);
}

#[test]
fn a_calendar_replaces_nothing_while_log_time_is_far_from_the_clock_of_the_command() {
    let home = Home::new("memory");
    let machine = Machine::new(&home);
    let node = machine.start(&home);
    open_market(&node, &[ALICE]);
    until("the instrument", || {
        (node.status()["instruments"][0]["symbol"] == "WEIR1").then_some(())
    });
    let file = calendar(&home);
    let replace = ["calendar", &file, "--from", "2100-01-01", "--days", "2", "--replace"];
    admin(&node, &replace);
    filed_when(&node, 4);
    machine.set_wall_clock(120);
    let refused = until("the node's clock", || {
        let output = try_admin(&node, &replace);
        (!output.status.success()).then_some(output)
    });
    let said = said(&refused);
    let want = "--replace: the log time of partition 1 is ";
    let is_told = said.contains(want) && said.contains(" s ahead of this machine's clock");
    assert!(is_told, "{refused:?}");
    filed_when(&node, 4);
    // These take nothing away.
    admin(&node, &replace[..6]);
}

/// A file that had lost the end of today removed the close that was filed, without a word.
#[test]
fn a_calendar_that_removes_the_close_of_an_open_market_says_so() {
    let (home, node) = market();
    let file = calendar(&home);
    let replace = ["calendar", &file, "--from", "2100-01-01", "--days", "2", "--replace"];
    let want = "not closed while no day of this calendar is under way: WEIR1 and 2 more; a close \
                that was filed before 2100-01-01T16:00:00+00:00 is removed";
    let asked = said(&run(&node, node.http(), &replace));
    assert!(asked.contains(want) && asked.contains("give --yes"), "{asked}");
    let output = try_admin(&node, &replace);
    assert!(output.status.success() && said(&output).contains(want), "{output:?}");
    filed_when(&node, 4);
    admin(&node, &["phase", "all", "closed"]);
    phases_when(&node, ["closed", "closed", "closed"]);
    let output = try_admin(&node, &replace);
    assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()), "{output:?}");
    // Nothing is removed.
    admin(&node, &["phase", "all", "continuous"]);
    phases_when(&node, ["continuous", "continuous", "continuous"]);
    assert_eq!(said(&try_admin(&node, &replace[..6])), "");
}

/// The operator's page promised that these forget all that is filed for the instrument.
#[test]
fn changes_filed_for_all_stay_behind_those_of_one_instrument_and_the_command_says_so() {
    let (home, node) = market();
    let file = calendar(&home);
    let of_days = ["calendar", &file, "--from", "2100-01-01", "--days", "2"];
    admin(&node, &of_days);
    filed_when(&node, 4);
    for name in ["WEIR1", "group:7"] {
        let output = try_admin(&node, &["schedule", name, "--clear"]);
        assert_eq!(json_of(&output)["cleared"], 0);
        let want = format!("no change was filed for {name} itself; the node has 4, filed for all");
        assert!(said(&output).contains(&want), "{output:?}");
    }
    let of_several = ["--instruments", "WEIR1,WEIR3", "--replace"];
    admin(&node, &[&of_days[..], &of_several].concat());
    filed_when(&node, 12);
    let output = try_admin(&node, &["schedule", "WEIR1", "--clear"]);
    assert_eq!((json_of(&output)["cleared"].as_u64(), said(&output)), (Some(4), String::new()));
    filed_when(&node, 8);
}

/// The nearest has the last word: so one instrument is left out of a change of all.
#[test]
fn an_instruments_own_change_is_made_behind_that_of_all_at_the_same_time() {
    let (_home, node) = market();
    let mut operator = node.admin();
    let at = Nanos(unix_time().0 + 3_000_000_000);
    let of = |instrument_id| {
        let (partition_id, group_id) = (TRADING, GroupId::NONE);
        ScheduleOwner { partition_id, group_id, instrument_id }
    };
    operator.file_phase(of(InstrumentId(3)), at, Phase::Continuous).unwrap();
    operator.file_phase(of(InstrumentId::NONE), at, Phase::Closed).unwrap();
    operator.close().unwrap();
    phases_when(&node, ["closed", "closed", "continuous"]);
    let history = node.status()["instruments"][2]["phases"].clone();
    assert_eq!(history, "continuous closed continuous", "both are made");
}

#[test]
fn commands_that_stop_a_group_or_forget_its_changes_are_refused_without_a_terminal() {
    let (home, node) = market();
    let file = calendar(&home);
    let of_group = ["calendar", &file, "--days", "1", "--from", "2100-01-01", "--instruments"];
    let of_group = [&of_group[..], &["group:7"]].concat();
    admin(&node, &of_group);
    filed_when(&node, 2);
    let stops = "this makes all 2 instruments of group 7";
    let forgets = "this forgets the changes of phase filed for group:7 itself, of the 2 that the \
                   node has (those of all and of single instruments stay)";
    let replace = [&of_group[..], &["--replace"]].concat();
    for (words, want) in [
        (&["halt", "group:7"][..], format!("{stops} halted: WEIR1, WEIR2")),
        (&["phase", "group:7", "closed"], format!("{stops} closed: WEIR1, WEIR2")),
        (
            &["schedule", "group:7", "closed", "--at", "2100-01-01T12:00:00Z"],
            format!("{stops} closed: WEIR1, WEIR2, at 2100-01-01T12:00:00Z"),
        ),
        (&["schedule", "group:7", "--clear"], forgets.to_owned()),
        (&replace[..], format!("{forgets}; then it files 2 for each")),
    ] {
        let output = run(&node, node.http(), words);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains(&want) && said.contains("give --yes"), "{words:?}: {said}");
    }
    filed_when(&node, 2);
    assert_eq!(phases(&node), ["continuous", "continuous", "continuous"]);
}

/// Serves a status page so many times, the n-th one to the n-th request, from zero. Returns its
/// address, and the number of requests.
fn serve_pages(
    times: usize,
    page: impl Fn(usize) -> Value + Send + 'static,
) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let count = Arc::new(AtomicUsize::new(0));
    let served = count.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(times) {
            let mut stream = stream.unwrap();
            let _asked = stream.read(&mut [0; 1_024]).unwrap();
            let body = page(served.fetch_add(1, Ordering::SeqCst)).to_string();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).unwrap();
        }
    });
    (address, count)
}

/// A page on which the partition has imported the definitions up to this one, of nine.
fn page(imported_to: u64) -> Value {
    json!({
        "instruments": [{
            "id": 1, "symbol": "WEIR1", "price_exponent": -2, "partition": 1, "group": 7,
            "phase": "halted",
        }],
        "partitions": [{ "id": 0, "imported_to": 9 }, { "id": 1, "imported_to": imported_to }],
        "delivery": { "source": 1, "position": u64::MAX },
    })
}

/// A change of all missed an instrument that the partition had not imported yet.
#[test]
fn a_change_of_many_waits_until_the_partition_knows_all_instruments() {
    let (_home, node) = market();
    let http = node.http().to_owned();
    let (address, count) = serve_pages(usize::MAX, move |number| {
        let is_early = number < 3;
        if is_early {
            let now = StatusPage::fetch(&http).unwrap();
            let phase = now.instruments[0].phase();
            assert_eq!(phase, Some(Phase::Continuous), "the change came too early");
        }
        page(if is_early { 8 } else { 9 })
    });
    let output = run(&node, &address, &["--yes", "phase", "all", "closed"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!((json_of(&output)["changed"].as_u64(), said(&output)), (Some(3), String::new()));
    // Four until the definitions are there, and two with the phases reached.
    assert_eq!(count.load(Ordering::SeqCst), 6);
}

#[test]
fn a_change_of_many_is_sent_all_the_same_if_the_imports_do_not_come() {
    let (_home, node) = market();
    for words in [["--yes", "halt", "group:7"], ["--yes", "resume", "group:7"]] {
        let (address, _) = serve_pages(usize::MAX, |_| page(8));
        let output = run(&node, &address, &words);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(json_of(&output)["changed"], 2);
        let want = "a partition has not imported all definitions";
        assert!(said(&output).contains(want), "{output:?}");
    }
}

/// A second operator, who acts while a command of the first one is under way.
const SECOND: Who = Who { session_id: SessionId(91), ..OPERATOR };

fn all_halted_by(http: &str) {
    until("the halt", || {
        let now = StatusPage::fetch(http).unwrap();
        let mut phases = now.instruments.iter().map(|row| row.phase());
        phases.all(|phase| phase == Some(Phase::Halted)).then_some(())
    });
}

/// A halt waited up to 5 s for imports before it was sent. Where the page failed behind them, or
/// lacked the instrument, the halt missed that one and said that all are halted.
#[test]
fn a_halt_is_sent_at_once_and_again_behind_the_imports() {
    let (_home, node) = market();
    node.admin().define_session(definition_of(&SECOND)).unwrap();
    // The looks at which the partition lacks definitions, the phase on the page, and the looks that
    // succeed.
    for (late, phase, times) in [
        (3, "halted", usize::MAX),
        (0, "continuous", usize::MAX),
        (0, "halted", usize::MAX),
        (0, "halted", 1),
    ] {
        let (http, target) = (node.http().to_owned(), node.address());
        let (address, _) = serve_pages(times, move |number| {
            if number == 0 {
                all_halted_by(&http);
                // The third instrument is as one that the partition did not know.
                let key = SECOND.key();
                let mut second = Admin::connect(target, SECOND.session_id, key, HANG).unwrap();
                second.resume_trading(TRADING, InstrumentId(3), false).unwrap();
                second.close().unwrap();
            }
            if number == late + 1 {
                // No further look is waited for.
                all_halted_by(&http);
            }
            let mut page = page(if number < late { 8 } else { 9 });
            page["instruments"][0]["phase"] = phase.into();
            page
        });
        let output = run(&node, &address, &["--yes", "halt", "all"]);
        assert!(output.status.success(), "{output:?}");
        let told = json_of(&output);
        assert_eq!(told["changed"], 4, "the third one twice: {output:?}");
        let want = if times == 1 { Value::Null } else { json!(["WEIR1"]) };
        assert_eq!(told["phases"][phase], want, "{output:?}");
        phases_when(&node, ["halted", "halted", "halted"]);
        admin(&node, &["resume", "all"]);
        phases_when(&node, ["continuous", "continuous", "continuous"]);
    }
}

/// The halt was made, and the command said that there are no such instruments.
#[test]
fn a_halt_that_was_made_is_told_where_the_page_has_none_of_its_instruments() {
    let (_home, node) = market();
    let (address, _) = serve_pages(usize::MAX, |_| {
        let mut page = page(9);
        page["instruments"][0]["group"] = 8.into();
        page
    });
    let output = run(&node, &address, &["--yes", "halt", "group:7"]);
    assert!(output.status.success(), "{output:?}");
    let told = json_of(&output);
    assert_eq!(
        (&told["done"], &told["phases"]),
        (&"group 7: halted; 2 changed".into(), &Value::Null)
    );
    phases_when(&node, ["halted", "halted", "continuous"]);
}

/// The halt of a group failed if the page could be read once and then not.
#[test]
fn a_halt_is_done_whichever_look_at_the_status_page_fails() {
    let (_home, node) = market();
    for times in 0..5 {
        let (address, _) = serve_pages(times, |_| page(9));
        let output = run(&node, &address, &["--yes", "halt", "group:7"]);
        assert!(output.status.success(), "{times}: {output:?}");
        assert_eq!(json_of(&output)["changed"], 2, "{times}: {output:?}");
        phases_when(&node, ["halted", "halted", "continuous"]);
        admin(&node, &["resume", "group:7"]);
        phases_when(&node, ["continuous", "continuous", "continuous"]);
    }
}

/// The halt of a group failed if the page could not be read.
#[test]
fn a_halt_needs_no_status_page_and_other_phases_are_told_as_not_known() {
    let (_home, node) = market();
    let output = run(&node, NOBODY, &["--yes", "halt", "group:7"]);
    assert!(output.status.success(), "{output:?}");
    let told = json_of(&output);
    assert_eq!(
        (&told["done"], &told["phases"]),
        (&"group 7: halted; 2 changed".into(), &Value::Null)
    );
    let want = "no status page at 127.0.0.1:1";
    let warning = "an instrument that a partition did not know yet may not be halted";
    assert!(said(&output).contains(want) && said(&output).contains(warning), "{output:?}");
    phases_when(&node, ["halted", "halted", "continuous"]);
    let output = run(&node, NOBODY, &["resume", "group:7"]);
    assert_eq!(output.status.code(), Some(1), "the group may be mistyped: {output:?}");
    assert_eq!(phases(&node), ["halted", "halted", "continuous"]);
    let output = run(&node, NOBODY, &["resume", "all"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(json_of(&output)["done"], "all instruments: asked for resume; 2 changed");
    assert!(said(&output).contains("not known yet"), "{output:?}");
    phases_when(&node, ["continuous", "continuous", "continuous"]);
}

/// The node refused the 4,097th change of a calendar, without a word of the limit.
#[test]
fn a_calendar_of_more_changes_than_a_list_holds_is_filed_in_parts_and_replaces_nothing() {
    let (home, node) = market();
    let opening = |hour: u32| format!("{{ at = '{hour:02}:00', name = 'continuous' }}");
    let close = |hour: u32| format!("{{ at = '{hour:02}:30', name = 'closed' }}");
    let phases: Vec<_> = (8..14).flat_map(|hour| [opening(hour), close(hour)]).collect();
    let file = write_calendar(&home, &phases.join(", "));
    let year = ["calendar", &file, "--from", "2100-01-01", "--days", "366"];
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
    let error = node.admin().schedule_phases(owner, &changes, None).unwrap_err();
    let ClientError::Refused { reason, subject, .. } = &error else { panic!("{error}") };
    assert_eq!(*reason, Reason::LimitReached);
    assert_eq!(subject, "4097 changes, at most 4096 are filed at once");
}
