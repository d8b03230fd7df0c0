//! Cold order state: a token from before the store's oldest change is served from files, with the
//! same pages and entitlements, and continues at the store. Otherwise it is refused with a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Value, json};
use weir_client::follower::{Follower, FollowerConfig};
use weir_types::{EventNo, OrderId, PartitionId, Reason, Seq, SessionId, Side, TimeInForce};
use weir_wire::Request;

use super::service::{SmallDisk, fill};
use super::web;
use crate::support::following::{Following, OrderState, latest_states};
use crate::support::trader::Trader;
use crate::support::{ALICE, BOB, Home, Node, SUPERVISOR, Who, definition_of, open_market, until};

/// A store that keeps few ended orders, and files that close soon.
const CONFIG: &str = "[web]\nlisten = \"127.0.0.1:0\"\n\
                      [delivery]\nended_orders_max = 1024\n\
                      [delivery.cold]\ninterval_ms = 20\nsegment_bytes = 65536\n";
/// More orders than the store keeps.
const MANY: u64 = 1_200;

/// A second session of Alice's firm, which only reads.
const DESK: Who = Who { session_id: SessionId(13), ..ALICE };

/// A second session of Bob's firm, which only reads.
const BOBS_DESK: Who = Who { session_id: SessionId(14), ..BOB };

type States = BTreeMap<OrderId, OrderState>;

/// Returns an IOC order that trades with no other and ends at once.
fn passing(who: Who, number: u64) -> Request {
    let order = who.order(number, Side::Buy, 40, 1);
    weir_client::request::LimitOrder { time_in_force: TimeInForce::Ioc, ..order }.request()
}

/// Enters `count` orders that end at once.
fn pass(trader: &mut Trader, numbers: std::ops::Range<u64>) {
    for (sent, number) in numbers.enumerate() {
        trader.send(passing(trader.who, number));
        if sent % 200 == 199 {
            trader.settle();
            trader.forget();
        }
    }
    trader.settle();
    trader.forget();
}

fn states_of(traders: &[&Trader]) -> States {
    let reports = traders.iter().flat_map(|trader| trader.reports());
    latest_states(reports.map(|report| &report.event))
}

/// Returns the states in `after` that differ from `before`.
fn changed(before: &States, after: &States) -> States {
    let changed = after.iter().filter(|(id, state)| before.get(id) != Some(state));
    changed.map(|(id, state)| (*id, *state)).collect()
}

fn cold(node: &Node) -> Value {
    node.status()["cold"][0].clone()
}

fn count(node: &Node, figure: &str) -> u64 {
    cold(node)[figure].as_u64().expect("a figure")
}

/// Returns the token of a session that has received `states` and logs out.
fn token_now(node: &Node, who: Who, states: &States) -> Vec<u8> {
    let mut following = Following::start(node, who, Vec::new());
    following.until(states);
    following.until_online();
    let token = following.follower.token().to_vec();
    following.log_out();
    token
}

fn files(home: &Home) -> Vec<PathBuf> {
    let logs = std::fs::read_dir(home.data().join("cold")).unwrap();
    let files = logs.flat_map(|log| std::fs::read_dir(log.unwrap().path()).unwrap());
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "wcold"));
    files.sort();
    files
}

/// A market with some live orders, and a supervisor's token from that time.
struct Morning {
    home: Home,
    node: Node,
    alice: Trader,
    bob: Trader,
    before: States,
    token: Vec<u8>,
}

fn morning(durability: &'static str, config: &str) -> Morning {
    let home = Home::with_config(durability, config);
    let node = home.start();
    open_market(&node, &[ALICE, BOB]);
    for who in [DESK, BOBS_DESK] {
        node.admin().define_session(definition_of(&who)).unwrap();
    }
    // Each session is silent while the other trades.
    let patient = |who: Who| Trader::log_on_as(&node, who, who.patient_config());
    let (mut alice, mut bob) = (patient(ALICE), patient(BOB));
    for number in 1..=20 {
        alice.ask_for_report(ALICE.sell(number, 60, 10));
        bob.ask_for_report(BOB.buy(number, 45, 3));
    }
    // The orders that this fills end before the token is taken; the other resting orders stay live.
    bob.ask_for_report(BOB.buy(21, 60, 25));
    alice.settle();
    bob.settle();
    let before = states_of(&[&alice, &bob]);
    let token = token_now(&node, SUPERVISOR, &before);
    Morning { home, node, alice, bob, before, token }
}

impl Morning {
    fn states(&self) -> States {
        states_of(&[&self.alice, &self.bob])
    }

    /// Trades until the store has dropped the orders that ended first.
    fn trade(&mut self, from: u64) {
        pass(&mut self.alice, from..from + MANY);
        pass(&mut self.bob, from..from + MANY);
        // This ends one order from before the token and trades part of another.
        self.bob.ask_for_report(BOB.buy(from + MANY, 60, 7));
        self.alice.settle();
        self.bob.settle();
    }
}

#[test]
fn a_token_of_the_morning_is_served_from_files_while_orders_flow() {
    let mut m = morning("memory", CONFIG);
    m.trade(1_000);
    let config = FollowerConfig {
        keep_orders: true,
        rows_max: 70,
        ..FollowerConfig::new(SUPERVISOR.session_id)
    };
    let follower = Follower::new(config, m.token.clone());
    let mut following = Following::start_as(&m.node, SUPERVISOR, follower);
    std::thread::scope(|scope| {
        let (alice, bob) = (&mut m.alice, &mut m.bob);
        let flow = scope.spawn(|| pass(alice, 10_000..10_000 + MANY));
        pass(bob, 10_000..10_000 + MANY);
        while !flow.is_finished() {
            following.poll(std::time::Duration::from_millis(5)).unwrap();
        }
    });
    m.alice.settle();
    following.until(&changed(&m.before, &m.states()));
    assert_eq!(following.resyncs, [], "nothing was refused");
    assert!(count(&m.node, "pages") > 0 && count(&m.node, "rows") > 0, "{}", cold(&m.node));
    assert_eq!(count(&m.node, "holes"), 0);
    // The reader has reached the store: later changes come from it, not from files.
    let pages = count(&m.node, "pages");
    m.alice.ask_for_report(ALICE.sell(900, 61, 1));
    m.alice.settle();
    following.until(&changed(&m.before, &m.states()));
    assert_eq!(count(&m.node, "pages"), pages);
    let metrics = m.node.get("/metrics").1;
    assert!(metrics.contains("\nweir_cold_holes_total{source=\"1\"} 0\n"), "{metrics}");
}

#[test]
fn a_token_of_an_exchange_of_another_number_is_served_from_files_after_a_kill_too() {
    let mut m = morning("os", &format!("{CONFIG}[[partition]]\nid = 7\n"));
    m.trade(1_000);
    let wanted = changed(&m.before, &m.states());
    m.node.kill();
    m.node = m.home.start();
    let config = FollowerConfig { keep_orders: true, ..FollowerConfig::new(SUPERVISOR.session_id) };
    let follower = Follower::new(config, m.token.clone());
    let mut following = Following::start_as(&m.node, SUPERVISOR, follower);
    following.until(&wanted);
    assert_eq!(following.resyncs, [], "nothing was refused");
    assert!(wanted.keys().all(|id| id.partition() == PartitionId(7)));
    assert!(count(&m.node, "pages") > 0, "{}", cold(&m.node));
    let metrics = m.node.get("/metrics").1;
    assert!(metrics.contains("\nweir_cold_holes_total{source=\"7\"} 0\n"), "{metrics}");
}

#[test]
fn kills_in_between_leave_no_hole() {
    let mut m = morning("os", CONFIG);
    for round in 0..3 {
        m.trade(1_000 + 5_000 * round);
        m.node.kill();
        m.node = m.home.start();
        // The reports that the node sends from the first event on are the reference.
        let again = |who| Trader::resume(&m.node, who, EventNo(1)).unwrap();
        (m.alice, m.bob) = (again(ALICE), again(BOB));
        m.alice.settle();
        m.bob.settle();
        let mut following = Following::start(&m.node, SUPERVISOR, m.token.clone());
        following.until_online();
        assert_eq!(following.resyncs, [], "in round {round}: {}", cold(&m.node));
        following.until(&changed(&m.before, &m.states()));
        following.log_out();
        assert!(count(&m.node, "pages") > 0, "{}", cold(&m.node));
        assert_eq!(count(&m.node, "holes"), 0);
    }
}

#[test]
fn what_a_kill_took_back_comes_from_no_file() {
    // At level `memory` a kill may lose the end of the log, although files hold its changes.
    let mut m = morning("memory", CONFIG);
    m.trade(1_000);
    m.node.kill();
    m.node = m.home.start();
    // Definitions may be lost like anything else.
    open_market(&m.node, &[ALICE, BOB]);
    let again = |who| Trader::resume(&m.node, who, EventNo(1)).unwrap();
    (m.alice, m.bob) = (again(ALICE), again(BOB));
    m.trade(10_000);
    let after = m.states();
    let mut following = Following::start(&m.node, SUPERVISOR, m.token.clone());
    following.until_online();
    let has = following.states();
    let never_was = has.iter().find(|(id, state)| after.get(id) != Some(state));
    assert_eq!(never_was, None);
    if following.resyncs.is_empty() {
        following.until(&changed(&m.before, &after));
    }
}

#[test]
fn a_token_older_than_what_is_kept_is_refused_and_the_reader_begins_anew() {
    let mut m = morning("memory", &(CONFIG.to_owned() + "keep_bytes = 16384\n"));
    m.trade(1_000);
    m.trade(10_000);
    m.trade(20_000);
    let (mut from, mut taken) = (30_000, 0);
    until("files to be let go", || {
        let before = std::mem::replace(&mut taken, count(&m.node, "changes"));
        if before == taken {
            // The files hold everything so far: trade on, so that more come.
            m.trade(from);
            from += 10_000;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        (count(&m.node, "retired") > 2).then_some(())
    });
    let mut following = Following::start(&m.node, SUPERVISOR, m.token.clone());
    let mut live = m.states();
    live.retain(|_, state| state.ord_status.is_live());
    // From the refusal's token the reader receives all live orders and the recently ended ones.
    until("all live orders", || {
        following.poll(std::time::Duration::from_millis(5)).unwrap();
        let mut has = following.states();
        has.retain(|_, state| state.ord_status.is_live());
        (has == live && following.follower.is_online()).then_some(())
    });
    assert_eq!(following.resyncs, [Reason::ResyncFloor]);
    assert!(count(&m.node, "resyncs") >= 1);
}

/// Returns a supervisor's current token, although the store has dropped some orders.
fn token_now_of_all(m: &mut Morning) -> Vec<u8> {
    let mut following = Following::start(&m.node, SUPERVISOR, Vec::new());
    following.until_online();
    let token = following.follower.token().to_vec();
    following.log_out();
    token
}

#[test]
fn a_damaged_file_is_named_and_what_is_newer_is_served() {
    let mut m = morning("memory", CONFIG);
    m.trade(1_000);
    m.trade(10_000);
    // One is enough: a merge may make one of several, and remove some meanwhile.
    until("files", || (count(&m.node, "segments") > 0).then_some(()));
    let mut damaged: BTreeSet<PathBuf> = BTreeSet::new();
    let mut from = 10_000;
    let following = until("a damaged file", || {
        // Flips a bit in the first block of each file, once. A merge may have read them before, and
        // what it wrote is read and kept in memory: only files of later changes are damaged then.
        from += 10_000;
        m.trade(from);
        let new = files(&m.home).into_iter().filter(|file| !damaged.contains(file));
        let new: Vec<_> = new.filter(|file| flip(file).is_ok()).collect();
        damaged.extend(new);
        let mut following = Following::start(&m.node, SUPERVISOR, m.token.clone());
        following.until_online();
        if following.resyncs.is_empty() {
            following.log_out();
            return None;
        }
        Some(following)
    });
    assert_eq!(following.resyncs, [Reason::ResyncFloor]);
    following.log_out();
    assert!(count(&m.node, "damaged") > 0);
    let name_of = |file: &PathBuf| file.file_name().expect("a name").to_owned();
    let names: Vec<_> = damaged.iter().map(name_of).collect();
    until("the line that names a file", || {
        let said = m.home.said();
        let is_named = names.iter().any(|name| said.contains(name.to_str().expect("ASCII")));
        (said.contains("damaged") && is_named).then_some(())
    });
    // Later changes are served from files as before.
    let (token, known) = (token_now_of_all(&mut m), m.states());
    let pages = count(&m.node, "pages");
    m.trade(from + 10_000);
    let mut later = Following::start(&m.node, SUPERVISOR, token);
    later.until(&changed(&known, &m.states()));
    assert_eq!(later.resyncs, []);
    assert!(count(&m.node, "pages") > pages);
    assert_eq!(m.node.get("/live").0, 200);
}

fn flip(file: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().read(true).write(true).open(file)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, 140)?;
    file.write_all_at(&[byte[0] ^ 0x10], 140)
}

#[test]
fn a_reader_gets_from_files_what_it_may_see_and_nothing_else() {
    let mut m = morning("memory", CONFIG);
    let firm_of = |who: Who, states: &States| {
        let mut states = states.clone();
        states.retain(|_, state| state.firm_id == who.firm_id);
        states
    };
    let own = token_now(&m.node, DESK, &firm_of(DESK, &m.before));
    m.trade(1_000);
    let after = m.states();
    // The reader receives its own firm's rows and no other firm's.
    let mut following = Following::start(&m.node, DESK, own.clone());
    following.until(&changed(&firm_of(DESK, &m.before), &firm_of(DESK, &after)));
    assert_eq!(following.resyncs, []);
    following.log_out();
    assert!(count(&m.node, "pages") > 0);
    let pages = count(&m.node, "pages");
    // A supervisor's token is refused to this session, and so is a forged one.
    let mut forged = own.clone();
    *forged.last_mut().unwrap() ^= 1;
    for (token, why) in [(m.token.clone(), Reason::ResyncFilter), (forged, Reason::ResyncToken)] {
        let mut following = Following::start(&m.node, DESK, token);
        following.until_online();
        assert_eq!(following.resyncs, [why]);
        following.log_out();
    }
    let other = FollowerConfig { firm_id: BOB.firm_id, ..FollowerConfig::new(DESK.session_id) };
    let mut curious = Following::start_as(&m.node, DESK, Follower::new(other, own.clone()));
    while curious.refusals.is_empty() {
        curious.poll(std::time::Duration::from_millis(20)).unwrap();
    }
    assert_eq!((&*curious.refusals, curious.row_count), (&[Reason::NotEntitled][..], 0));
    curious.log_out();
    // The token is refused to another firm's session.
    let mut theirs = Following::start(&m.node, BOBS_DESK, own);
    theirs.until_online();
    assert!(theirs.states().values().all(|state| state.firm_id == BOB.firm_id));
    assert_eq!(theirs.resyncs, [Reason::ResyncFilter]);
    assert_eq!(count(&m.node, "pages"), pages, "no file was read for any of them");
}

#[test]
fn a_token_of_the_morning_is_good_over_http_and_websocket_too() {
    let mut m = morning("memory", CONFIG);
    m.trade(1_000);
    let morning: String = m.token.iter().map(|byte| format!("{byte:02x}")).collect();
    let wanted = changed(&m.before, &m.states());
    let wanted: BTreeMap<OrderId, Seq> =
        wanted.into_iter().map(|(order_id, state)| (order_id, state.seq)).collect();
    let (mut seen, mut token) = (BTreeMap::new(), morning.clone());
    loop {
        let page = web::page(&m.node, &SUPERVISOR, &format!("/orders?max_rows=300&token={token}"));
        web::note_rows(&page, &mut seen);
        token = web::token_of(&page).to_owned();
        if page["online"] == true {
            break;
        }
    }
    assert_eq!(seen, wanted);
    let pages = count(&m.node, "pages");
    assert!(pages > 0);
    let mut socket = web::open(&m.node, &SUPERVISOR);
    web::say(&mut socket, &json!({"subscribe": 7, "token": morning}));
    seen.clear();
    loop {
        let page = web::hear(&mut socket);
        assert_eq!(page["id"], 7, "{page}");
        web::note_rows(&page, &mut seen);
        if page["online"] == true {
            break;
        }
    }
    assert_eq!(seen, wanted);
    assert!(count(&m.node, "pages") > pages);
}

#[test]
fn orders_go_on_while_the_disk_of_files_is_full() {
    let home = Home::with_config("memory", "");
    let small = home.path("small");
    let Some(_disk) = SmallDisk::mount(&small, "1m") else { return };
    let config = CONFIG.to_owned() + &format!("dir = {small:?}\n");
    std::fs::write(home.path("weir.toml"), config).unwrap();
    let node = home.start();
    open_market(&node, &[ALICE]);
    let mut alice = Trader::log_on(&node, ALICE);
    alice.ask_for_report(ALICE.sell(1, 60, 10));
    alice.settle();
    let before = states_of(&[&alice]);
    let token = token_now(&node, SUPERVISOR, &before);
    fill(&small.join("ballast"));
    pass(&mut alice, 100..100 + MANY);
    until("the disk to be full", || (cold(&node)["is_full"] == true).then_some(()));
    // Trading and reads from the store continue; a read that needs unwritten files must wait.
    pass(&mut alice, 10_000..10_000 + MANY);
    let mut fresh = Following::start(&node, SUPERVISOR, Vec::new());
    fresh.until_online();
    fresh.log_out();
    // Lines are written by a thread of their own.
    until("a line about the disk", || home.said().contains("cold order state").then_some(()));
    std::fs::remove_file(small.join("ballast")).unwrap();
    until("room", || (cold(&node)["is_full"] == false).then_some(()));
    // The changes that waited in memory are on disk now, and none is missing.
    let mut following = Following::start(&node, SUPERVISOR, token);
    following.until(&changed(&before, &states_of(&[&alice])));
    assert_eq!(following.resyncs, []);
    assert_eq!(count(&node, "holes"), 0);
    assert!(node.terminate().success());
}
