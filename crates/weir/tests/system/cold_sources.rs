//! Cold order state of an outside core: the orders that its store has dropped are served from the
//! source's own files, through kills of the node and new epochs of the core, to the sessions
//! entitled to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_client::clock::unix_time;
use weir_client::follower::{Follower, FollowerConfig};
use weir_types::{FirmId, OrderId, PartitionId, Reason, RequestNo, Seq, SessionId, Symbol};
use weir_wire::delivery::OrderRow;
use weir_wire::reference::DefineFirm;

use super::ingest::core::{Core, Random, SOURCE};
use super::ingest::{Fed, STRANGER, ingest_address, mirror, node_with, row_of};
use super::service::{SmallDisk, fill};
use super::web;
use crate::support::following::Following;
use crate::support::{ALICE, HANG, Home, Node, SUPERVISOR, Who, definition_of, until};

/// The smallest store that can be configured, and files that close soon.
const COLD: &str = "[web]\nlisten = \"127.0.0.1:0\"\n[delivery]\nended_orders_max = 4096\n\
                    [delivery.cold]\ninterval_ms = 500\nsegment_bytes = 65536\n";
/// More orders than the store keeps.
const MANY: usize = 5_000;

/// A session of one of the core's firms.
const FIRM: Who = Who { session_id: SessionId(13), firm_id: FirmId(1), ..ALICE };

type Orders = BTreeMap<OrderId, OrderRow>;

fn cold(node: &Node) -> Value {
    node.status()["cold_sources"][0].clone()
}

fn count(node: &Node, figure: &str) -> u64 {
    cold(node)[figure].as_u64().expect("a figure")
}

fn config_of(who: Who) -> FollowerConfig {
    FollowerConfig { source_id: SOURCE, keep_orders: true, ..FollowerConfig::new(who.session_id) }
}

/// Starts a reader from a token, with small pages.
fn resume(node: &Node, who: Who, token: &[u8]) -> Following {
    let config = FollowerConfig { rows_max: 90, ..config_of(who) };
    Following::start_as(node, who, Follower::new(config, token.to_vec()))
}

/// A core with some orders, and a supervisor's token from that time.
struct Morning {
    home: Home,
    node: Node,
    fed: Fed,
    random: Random,
    before: Orders,
    token: Vec<u8>,
    /// Ended orders that the core no longer has; its store may have sent their deletions.
    forgotten: Orders,
    /// The number of ended orders that the store keeps.
    ended_max: u64,
}

fn morning(settings: &str) -> Morning {
    let (home, node) = node_with(&format!("{settings}{COLD}"));
    morning_at(home, node)
}

fn morning_at(home: Home, node: Node) -> Morning {
    let mut random = Random(5);
    let mut core = Core::new();
    (core.attributes_len, core.begun_at) = (Some(40), Some(unix_time()));
    let mut fed = Fed::new(&node, core);
    fed.until_fed();
    (0..60).for_each(|_| fed.core.trade(&mut random));
    fed.until_fed();
    let mut m = Morning {
        home,
        node,
        fed,
        random,
        before: Orders::new(),
        token: Vec::new(),
        forgotten: Orders::new(),
        ended_max: 4_096,
    };
    (m.before, m.token) = (m.orders(), m.token_now(SUPERVISOR));
    m
}

impl Morning {
    /// Returns the current rows of all orders.
    fn orders(&self) -> Orders {
        let records = self.fed.core.records.values().chain(self.fed.core.passed.values());
        records.map(|record| (record.row.order_id, record.row)).collect()
    }

    fn token_now(&self, who: Who) -> Vec<u8> {
        let mut following =
            Following::start_as(&self.node, who, Follower::new(config_of(who), Vec::new()));
        following.until_online();
        let token = following.follower.token().to_vec();
        following.log_out();
        token
    }

    /// Passes orders through until the store has dropped those that ended first.
    fn pass(&mut self) {
        self.pass_some(MANY);
    }

    fn pass_some(&mut self, count: usize) {
        for _ in 0..count / 100 {
            (0..100).for_each(|_| self.fed.core.pass(&mut self.random));
            (0..3).for_each(|_| self.fed.core.touch(&mut self.random));
            self.fed.push();
        }
        self.fed.until_fed();
    }

    /// Returns the orders that differ from `before`.
    fn changed(&self) -> Orders {
        let mut orders = self.orders();
        orders.retain(|id, row| self.before.get(id) != Some(row));
        orders
    }

    fn check(&self, reader: &mut Following) {
        let wanted = self.changed();
        let begun = Instant::now();
        let known = |reader: &Following| {
            let mut has = mirror(reader);
            has.retain(|id, row| self.forgotten.get(id) != Some(row));
            has
        };
        while known(reader) != wanted {
            if begun.elapsed() > HANG {
                let has = known(reader);
                let wrong = wanted.iter().find(|(id, row)| has.get(id) != Some(row));
                let more = has.iter().find(|(id, _)| !wanted.contains_key(id));
                let told = (&reader.resyncs, &reader.refusals, cold(&self.node));
                let counts = (has.len(), wanted.len());
                panic!("{counts:?} known and wanted, {told:?}, {wrong:?}, {more:?}");
            }
            reader.poll(Duration::from_millis(5)).unwrap();
        }
        let core = &self.fed.core;
        for record in core.records.values().chain(core.passed.values()) {
            let id = record.row.order_id;
            if wanted.contains_key(&id) {
                assert_eq!(reader.follower.attributes(id), record.attributes, "{id}");
            }
        }
    }

    /// Waits until the store keeps no more ended orders than its limit: after a start it holds all
    /// that its log has, and drops them gradually.
    fn until_let_go(&self) {
        let ended = || super::ingest::source_figure(&self.node, "ended_orders");
        until("what is to go", || (ended() <= self.ended_max).then_some(()));
    }

    fn last_seq(&self) -> u64 {
        self.orders().values().map(|row| row.seq.0).max().expect("orders")
    }

    fn until_in_files(&self, seq: u64) {
        let last = || files_of(&self.home, 40).last().is_some_and(|file| last_seq_of(file) >= seq);
        until("the files", || last().then_some(()));
    }

    /// Asserts that a reader with the morning's token receives all later changes, from files.
    fn check_token(&self) {
        self.until_let_go();
        let pages = count(&self.node, "pages");
        let mut reader = resume(&self.node, SUPERVISOR, &self.token);
        self.check(&mut reader);
        let told = (&reader.resyncs[..], &reader.refusals[..]);
        assert_eq!(told, (&[][..], &[][..]), "{}", cold(&self.node));
        reader.log_out();
        assert!(count(&self.node, "pages") > pages, "{}", cold(&self.node));
    }

    fn kill(&mut self) {
        self.node.kill();
        self.start();
    }

    fn start(&mut self) {
        self.node = self.home.start();
        self.fed.writer.set_target(ingest_address(&self.node));
        // A change to send, so that the writer receives the store's position.
        self.fed.core.pass(&mut self.random);
    }
}

#[test]
fn a_token_of_the_morning_is_served_from_a_sources_files_while_its_orders_flow() {
    let mut m = morning("");
    m.pass();
    let mut reader = resume(&m.node, SUPERVISOR, &m.token);
    for _ in 0..MANY / 100 {
        (0..100).for_each(|_| m.fed.core.pass(&mut m.random));
        m.fed.until_fed();
        reader.poll(Duration::from_millis(1)).unwrap();
    }
    m.check(&mut reader);
    assert_eq!((&reader.resyncs[..], &reader.refusals[..]), (&[][..], &[][..]));
    assert!(count(&m.node, "pages") > 0 && count(&m.node, "rows") > 0, "{}", cold(&m.node));
    assert_eq!((count(&m.node, "holes"), count(&m.node, "source")), (0, 40));
    // The reader has reached the store: later changes come from it, not from files.
    let pages = count(&m.node, "pages");
    (0..10).for_each(|_| m.fed.core.touch(&mut m.random));
    m.fed.until_fed();
    m.check(&mut reader);
    assert_eq!(count(&m.node, "pages"), pages);
    let metrics = m.node.get("/metrics").1;
    for source in [1, 40] {
        let line = format!("\nweir_cold_holes_total{{source=\"{source}\"}} 0\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[test]
fn kills_leave_no_hole_in_a_sources_files() {
    for durability in ["os", "disk"] {
        let mut m = morning(&format!("durability = \"{durability}\"\n"));
        for round in 0..3 {
            m.pass();
            if round > 0 {
                // Some changes are sent and not yet acknowledged.
                (0..500).for_each(|_| m.fed.core.pass(&mut m.random));
                m.fed.push();
                m.fed.writer.poll(Duration::from_millis(5), |_| {}).unwrap();
            }
            m.kill();
            m.fed.until_fed();
            m.check_token();
            assert_eq!(count(&m.node, "holes"), 0, "in round {round}: {}", cold(&m.node));
        }
        assert_eq!(super::ingest::source_figure(&m.node, "resends"), 0);
    }
}

/// Returns the name of the source's newest snapshot, which increases with its position.
fn snapshots(m: &Morning) -> Option<String> {
    let dir = m.home.data().join("source-40/snapshots");
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".wsnap")).max()
}

/// A snapshot replaces the log before it, and its store has dropped orders. Unless a closed file
/// holds these orders, a kill loses them.
#[test]
fn a_snapshot_waits_until_what_its_store_let_go_is_in_files() {
    let lazy = COLD.replace("interval_ms = 500", "interval_ms = 600000");
    let lazy = lazy.replace("segment_bytes = 65536", "segment_bytes = 67108864");
    let (home, node) = node_with(&format!("durability = \"os\"\n{lazy}"));
    let mut m = morning_at(home, node);
    for _ in 0..2 {
        m.pass();
        m.until_let_go();
        // The first snapshot may have begun before its store dropped any order.
        for _ in 0..2 {
            let before = snapshots(&m);
            m.pass_some(200);
            until("a snapshot", || snapshots(&m).is_some_and(|at| Some(at) > before).then_some(()));
        }
        m.kill();
        m.fed.until_fed();
        m.check_token();
        assert_eq!(count(&m.node, "holes"), 0, "{}", cold(&m.node));
    }
}

#[test]
fn a_source_that_survives_no_restart_begins_its_files_anew() {
    let mut m = morning("");
    m.pass();
    m.check_token();
    m.kill();
    assert_eq!(count(&m.node, "segments"), 0, "{}", cold(&m.node));
    m.fed.until_fed();
    assert_eq!(m.fed.refusals, [Reason::ResendNeeded]);
    // The store does not know the token's epoch.
    let mut reader = resume(&m.node, SUPERVISOR, &m.token);
    reader.until_online();
    assert_eq!(reader.resyncs, [Reason::ResyncEpoch]);
    reader.log_out();
    (m.before, m.token) = (m.orders(), m.token_now(SUPERVISOR));
    m.pass();
    m.check_token();
}

/// Restarts the core without the changes since it last saved its state.
fn lose(m: &mut Morning) {
    let epoch = m.fed.core.epoch;
    while m.fed.core.epoch == epoch {
        m.fed.core.crash(&mut m.random);
    }
    m.fed.begin();
    m.fed.until_fed();
}

#[test]
fn what_a_core_disowns_comes_from_no_file_and_what_stays_valid_does() {
    let (home, mut node) = node_with(&format!("durability = \"os\"\n{COLD}"));
    node.kill();
    // Few files, none of them merged, which close by their size.
    let config = home.path("weir.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let text = text.replace("snapshot_every_bytes = 20000", "snapshot_every_bytes = 100000000");
    let text = text.replace("= 4096", "= 11264").replace("= 500\n", "= 600000\n");
    std::fs::write(&config, text.replace("= 65536", "= 1048576")).unwrap();
    let node = home.start();
    let mut m = morning_at(home, node);
    m.ended_max = 11_264;
    m.pass();
    let half = m.last_seq();
    m.pass();
    // What the store will drop is in files without a disowned change, however slowly they close.
    m.until_in_files(half);
    // A file that mixes valid and disowned changes is dropped, and the store sends the valid ones
    // again.
    let valid = m.last_seq();
    let passed = std::mem::take(&mut m.fed.core.passed).into_values();
    m.forgotten = passed.map(|record| (record.row.order_id, record.row)).collect();
    m.fed.core.remember();
    // Files hold some of these changes, and the store still holds all of them.
    m.pass();
    m.until_in_files(valid + 1);
    let beyond = m.token_now(SUPERVISOR);
    lose(&mut m);
    // The full resend sends all orders again, at later positions.
    assert!(m.fed.refusals.contains(&Reason::ResendNeeded), "{:?}", m.fed.refusals);
    for _ in 0..2 {
        m.check_token();
        let mut reader = resume(&m.node, SUPERVISOR, &beyond);
        reader.until_online();
        assert_eq!(reader.resyncs, [Reason::ResyncEpoch]);
        reader.log_out();
        m.pass();
        m.check_token();
        assert_eq!(count(&m.node, "holes"), 0);
        // The next start finds the files of both epochs.
        m.kill();
        m.fed.until_fed();
    }
}

#[test]
fn what_a_core_disowns_after_its_store_let_it_go_costs_the_files() {
    let mut m = morning("durability = \"os\"\n");
    m.fed.core.remember();
    m.pass();
    m.pass();
    lose(&mut m);
    let mut reader = resume(&m.node, SUPERVISOR, &m.token);
    reader.until_online();
    assert_eq!(reader.resyncs, [Reason::ResyncFloor], "{}", cold(&m.node));
    let orders = m.orders();
    let never_was = mirror(&reader).into_iter().find(|(id, row)| orders.get(id) != Some(row));
    assert_eq!(never_was, None);
    reader.log_out();
    until("a hole", || (count(&m.node, "holes") > 0).then_some(()));
    // After the hole, changes go to files again.
    (m.before, m.token) = (m.orders(), m.token_now(SUPERVISOR));
    m.pass();
    m.check_token();
}

#[test]
fn an_epoch_that_loses_nothing_costs_no_file() {
    let mut m = morning("durability = \"os\"\n");
    m.pass();
    m.fed.core.remember();
    lose(&mut m);
    assert!(m.fed.refusals.is_empty(), "{:?}", m.fed.refusals);
    assert_eq!((count(&m.node, "holes"), m.fed.core.epoch.0), (0, 2));
    m.check_token();
    m.pass();
    m.check_token();
}

/// Returns a source's files, oldest first: their names increase with epoch and position.
fn files_of(home: &Home, source: u16) -> Vec<PathBuf> {
    let dirs = std::fs::read_dir(home.data().join("cold")).unwrap();
    let dirs = dirs.map(|dir| dir.unwrap().path());
    let is_its = |dir: &PathBuf| dir.to_string_lossy().contains(&format!("source-{source}-"));
    let files = dirs.filter(is_its).flat_map(|dir| std::fs::read_dir(dir).unwrap());
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|suffix| suffix == "wcold"));
    files.sort();
    files
}

/// Returns the last `seq` that a file covers; its name ends with `seq.rec.wcold`.
fn last_seq_of(file: &Path) -> u64 {
    let name = file.file_name().unwrap().to_string_lossy();
    let place = name.rsplit('-').next().expect("a name with places");
    place.split('.').next().and_then(|seq| seq.parse().ok()).expect("a number")
}

fn has_file_of(home: &Home, epoch: u32) -> bool {
    let start = format!("00040-{epoch:010}-");
    let name = |file: &PathBuf| file.file_name().unwrap().to_string_lossy().into_owned();
    files_of(home, 40).iter().any(|file| name(file).starts_with(&start))
}

#[test]
fn a_sources_directory_of_an_older_backup_begins_its_files_anew() {
    let mut m = morning("durability = \"os\"\n");
    m.pass();
    let (dir, older) = (m.home.data().join("source-40"), m.home.path("older"));
    let copy = |from: &Path, to: &Path| {
        assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    };
    m.node.kill();
    copy(&dir, &older);
    m.start();
    m.fed.core.remember();
    lose(&mut m);
    m.pass();
    until("a file of the epoch", || has_file_of(&m.home, 2).then_some(()));
    m.node.kill();
    std::fs::remove_dir_all(&dir).unwrap();
    copy(&older, &dir);
    m.fed.core.begin_resend();
    m.fed.begin();
    m.start();
    m.fed.until_fed();
    (m.before, m.token) = (m.orders(), m.token_now(SUPERVISOR));
    m.pass();
    m.check_token();
    assert!(m.home.said().contains("cold order state begins anew"));
}

#[test]
fn a_reader_gets_from_a_sources_files_what_it_may_see_and_nothing_else() {
    let mut m = morning("");
    let mut admin = m.node.admin();
    let (request_no, session_id) = (RequestNo::NONE, SessionId::NONE);
    let name = Symbol::new("FIRM1").expect("a short name");
    let firm = DefineFirm {
        request_no,
        name,
        session_id,
        firm_id: FIRM.firm_id,
        live_orders_max: 0,
        fields: 0,
    };
    admin.define_firm(firm).unwrap();
    admin.define_session(definition_of(&FIRM)).unwrap();
    admin.close().unwrap();
    let own = m.token_now(FIRM);
    m.pass();
    let mut reader = resume(&m.node, FIRM, &own);
    reader.until_online();
    assert_eq!(reader.resyncs, []);
    let mut wanted = m.changed();
    wanted.retain(|_, row| row.firm_id == FIRM.firm_id);
    let mut has = mirror(&reader);
    assert!(has.values().all(|row| row.firm_id == FIRM.firm_id));
    has.retain(|id, _| wanted.contains_key(id));
    assert!(has == wanted, "{} known, {} wanted", has.len(), wanted.len());
    reader.log_out();
    let pages = count(&m.node, "pages");
    assert!(pages > 0);
    // A supervisor's token is refused to this session, and so is a query for another firm's orders.
    let mut reader = resume(&m.node, FIRM, &m.token);
    reader.until_online();
    assert_eq!(reader.resyncs, [Reason::ResyncFilter]);
    reader.log_out();
    let other = FollowerConfig { firm_id: FirmId(2), ..config_of(FIRM) };
    let mut curious = Following::start_as(&m.node, FIRM, Follower::new(other, own));
    while curious.refusals.is_empty() {
        curious.poll(Duration::from_millis(20)).unwrap();
    }
    assert_eq!((&*curious.refusals, curious.row_count), (&[Reason::NotEntitled][..], 0));
    assert_eq!(count(&m.node, "pages"), pages, "no file was read for any of them");
}

#[test]
fn a_sources_token_of_the_morning_is_good_over_http_and_websocket_too() {
    let mut m = morning("");
    m.pass();
    let token: String = m.token.iter().map(|byte| format!("{byte:02x}")).collect();
    let wanted: BTreeMap<OrderId, Seq> =
        m.changed().into_iter().map(|(order_id, row)| (order_id, row.seq)).collect();
    let (mut seen, mut at) = (BTreeMap::new(), token.clone());
    loop {
        let path = format!("/orders?source=40&max_rows=300&token={at}");
        let page = web::page(&m.node, &SUPERVISOR, &path);
        web::note_rows(&page, &mut seen);
        at = web::token_of(&page).to_owned();
        if page["online"] == true {
            break;
        }
    }
    assert!(seen == wanted, "{} seen, {} wanted", seen.len(), wanted.len());
    let pages = count(&m.node, "pages");
    assert!(pages > 0);
    let mut socket = web::open(&m.node, &SUPERVISOR);
    web::say(&mut socket, &json!({"subscribe": 7, "source": 40, "token": token}));
    seen.clear();
    loop {
        let page = web::hear(&mut socket);
        assert_eq!(page["id"], 7, "{page}");
        web::note_rows(&page, &mut seen);
        if page["online"] == true {
            break;
        }
    }
    assert!(seen == wanted, "{} seen, {} wanted", seen.len(), wanted.len());
    assert!(count(&m.node, "pages") > pages);
}

#[test]
fn a_sources_token_older_than_what_is_kept_is_refused_and_the_reader_begins_anew() {
    let mut m = morning("");
    let config = m.home.path("weir.toml");
    let text = std::fs::read_to_string(&config).unwrap() + "keep_bytes = 65536\n";
    std::fs::write(&config, text).unwrap();
    m.kill();
    m.fed.until_fed();
    (m.before, m.token) = (m.orders(), m.token_now(SUPERVISOR));
    m.pass();
    m.pass();
    until("files to be let go", || (count(&m.node, "retired") > 2).then_some(()));
    let mut reader = resume(&m.node, SUPERVISOR, &m.token);
    reader.until_online();
    assert_eq!(reader.resyncs, [Reason::ResyncFloor]);
    let mut live = m.orders();
    live.retain(|_, row| row.ord_status.is_live());
    let mut has = mirror(&reader);
    has.retain(|_, row| row.ord_status.is_live());
    assert!(has == live, "{} known, {} wanted", has.len(), live.len());
    assert!(count(&m.node, "resyncs") >= 1);
}

#[test]
fn a_source_is_fed_while_the_disk_of_its_files_is_full() {
    let place = Home::with_config("memory", "");
    let small = place.path("small");
    let Some(_disk) = SmallDisk::mount(&small, "2m") else { return };
    let (home, node) = node_with(&format!("durability = \"os\"\n{COLD}dir = {small:?}\n"));
    let mut m = morning_at(home, node);
    fill(&small.join("ballast"));
    m.pass();
    until("the disk to be full", || (cold(&m.node)["is_full"] == true).then_some(()));
    // The core and the readers of its store continue.
    let mut fresh = resume(&m.node, SUPERVISOR, &[]);
    fresh.until_online();
    fresh.log_out();
    std::fs::remove_file(small.join("ballast")).unwrap();
    until("room", || (cold(&m.node)["is_full"] == false).then_some(()));
    m.check_token();
    assert_eq!(count(&m.node, "holes"), 0);
}

#[test]
fn two_sources_have_files_of_their_own_and_damage_of_one_is_nobody_elses() {
    const OTHER: PartitionId = PartitionId(41);
    let settings = "durability = \"os\"\n[[ingest.source]]\nid = 41\nsession = 31\n";
    let mut m = morning(&format!("{settings}durability = \"os\"\n"));
    let seq_of_token = m.before.values().map(|row| row.seq.0).max().expect("orders");
    let mut random = Random(6);
    let mut core = Core::new();
    (core.attributes_len, core.begun_at) = (Some(40), Some(unix_time()));
    let mut other = Fed::of(&m.node, core, OTHER, STRANGER);
    (0..60).for_each(|_| other.core.trade(&mut random));
    other.until_fed();
    let config = |token: Vec<u8>| {
        let config = FollowerConfig { source_id: OTHER, rows_max: 90, ..config_of(SUPERVISOR) };
        Follower::new(config, token)
    };
    let mut reader = Following::start_as(&m.node, SUPERVISOR, config(Vec::new()));
    reader.until_online();
    let token = reader.follower.token().to_vec();
    reader.log_out();
    let before = other.core.records.clone();
    for _ in 0..MANY / 100 {
        (0..100).for_each(|_| other.core.pass(&mut random));
        other.until_fed();
        m.pass_some(100);
    }
    m.check_token();
    // On a slow machine a file may close with nothing that came after the token.
    let mut files = files_of(&m.home, 40).into_iter();
    let file =
        files.find(|file| last_seq_of(file) > seq_of_token).expect("files of what came since");
    assert!(!files_of(&m.home, 41).is_empty());
    m.node.kill();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[3] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    m.start();
    m.fed.until_fed();
    other.writer.set_target(ingest_address(&m.node));
    other.core.pass(&mut random);
    other.until_fed();
    // A reader that needs the damaged file must start again.
    let mut damaged = resume(&m.node, SUPERVISOR, &m.token);
    damaged.until_online();
    assert_eq!(damaged.resyncs, [Reason::ResyncFloor], "{}", cold(&m.node));
    damaged.log_out();
    // Other readers continue.
    let passed = other.core.passed.values().chain(other.core.records.values());
    let changed = passed.filter(|record| before.get(&record.row.rec) != Some(record));
    let rows = changed.map(|record| row_of(record.row, OTHER));
    let wanted: Orders = rows.map(|row| (row.order_id, row)).collect();
    let mut reader = Following::start_as(&m.node, SUPERVISOR, config(token));
    let begun = Instant::now();
    while mirror(&reader) != wanted {
        let (has, wanted) = (mirror(&reader).len(), wanted.len());
        assert!(begun.elapsed() < HANG, "{has} known, {wanted} wanted, {:?}", reader.resyncs);
        reader.poll(Duration::from_millis(5)).unwrap();
    }
    assert_eq!((&reader.resyncs[..], &reader.refusals[..]), (&[][..], &[][..]));
    let metrics = m.node.get("/metrics").1;
    for (source, damaged) in [(1, 0), (40, 1), (41, 0)] {
        let line = format!("\nweir_cold_damaged_total{{source=\"{source}\"}} {damaged}\n");
        assert!(metrics.contains(&line), "{line} is not in {metrics}");
    }
}
