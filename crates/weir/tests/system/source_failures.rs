//! Outside cores that lie, and logs of sources that fail: the node starts, trades, serves no row of
//! a refused batch, and tells its operator.
//!
//! `WEIR_LIE_SEEDS` sets the number of seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};

use weir_client::Client;
use weir_client::session::SessionEvent;
use weir_client::source::{SourceMessage, reset_source};
use weir_types::{
    BatchNo, ChangeId, ClOrdId, Epoch, Nanos, OrdStatus, OrderId, Reason, Rec, Seq, Switch,
};
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::dialogue::put_source_batch;
use weir_wire::frame::put_frame;
use weir_wire::ingest::{BatchFlags, OpenSource, SourceBatch};

use crate::ingest::core::{Core, Random, Record, SOURCE};
use crate::ingest::{CORE, Fed, ingest_address, log_on, mirror, node_with, reader, say};
use crate::support::trader::Trader;
use crate::support::{ALICE, HANG, Home, Node, OPERATOR, open_market, until};
use crate::tools::weir_at;

fn ready(node: &Node) -> String {
    let (code, text) = node.get("/ready");
    assert_eq!(code, 200, "it takes orders: {text}");
    text
}

fn is_whole(node: &Node) -> Option<()> {
    (node.status()["ingest"]["sources"][0]["is_whole"] == true).then_some(())
}

/// A damaged log of one source ended each start of the node.
#[test]
fn a_source_whose_log_is_damaged_is_quarantined_at_a_start_and_told() {
    let (home, node) = node_with("durability = \"disk\"\n");
    open_market(&node, &[ALICE]);
    let mut random = Random(5);
    let mut fed = Fed::new(&node, Core::new());
    (0..30).for_each(|_| fed.core.trade(&mut random));
    fed.until_fed();
    assert_eq!(ready(&node), "ready\n");
    assert!(node.terminate().success());
    for file in std::fs::read_dir(home.data().join("source-40").join("batches")).unwrap() {
        let path = file.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.iter_mut().take(64).for_each(|byte| *byte = 0xff);
        std::fs::write(&path, bytes).unwrap();
    }
    let node = home.start();
    let told = "source 40 is quarantined: ";
    assert!(ready(&node).starts_with(&format!("ready\n{told}")), "{}", ready(&node));
    let status = weir_at(&node, &["status"]).output().unwrap();
    assert!(String::from_utf8(status.stdout).unwrap().contains(told));
    assert!(node.get("/metrics").1.contains("weir_source_quarantined{source=\"40\"} 1"));
    assert!(home.data().join("source-40.failed-1").is_dir());
    trade(&node, 1);
    // The core sends all again, and readers get it.
    fed.writer.set_target(ingest_address(&node));
    (0..5).for_each(|_| fed.core.trade(&mut random));
    fed.until_fed();
    fed.check(&mut reader(&node));
    until("no warning", || (ready(&node) == "ready\n").then_some(()));
}

/// Runs `weir admin WORDS` as the first operator.
fn admin(node: &Node, words: &[&str]) -> Output {
    let key: String = OPERATOR.key().0.iter().map(|byte| format!("{byte:02x}")).collect();
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["admin", "--node", &node.address().to_string(), "--http", node.http()])
        .args(words)
        .env("WEIR_API_KEY", key)
        .output()
        .unwrap()
}

#[test]
fn an_operator_resets_a_source_with_consent_and_its_core_sends_all_again() {
    let (_home, node) = node_with("durability = \"os\"\n");
    let mut random = Random(6);
    let mut fed = Fed::new(&node, Core::new());
    (0..30).for_each(|_| fed.core.trade(&mut random));
    fed.until_fed();
    let refused = admin(&node, &["source", "reset", "40"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    let effect = "forgets all orders of source 40";
    assert!(!refused.status.success() && said.contains(effect), "{said}");
    assert!(is_whole(&node).is_some(), "without consent nothing was done");
    let done = admin(&node, &["--yes", "--json", "source", "reset", "40"]);
    assert!(done.status.success(), "{done:?}");
    let done: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&done["reset"], &done["epoch"]), (&40.into(), &1.into()));
    // The core is told, and sends all in its next epoch.
    until("a resend", || {
        let mut events = Vec::new();
        fed.writer.poll(std::time::Duration::from_millis(5), |event| events.push(event)).unwrap();
        events.into_iter().for_each(|event| fed.hear(event));
        (!fed.refusals.is_empty()).then_some(())
    });
    fed.until_fed();
    assert_eq!(fed.refusals, [Reason::ResendNeeded]);
    fed.check(&mut reader(&node));
    let unknown = admin(&node, &["--yes", "source", "reset", "41"]);
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert!(!unknown.status.success() && said.contains("UnknownSource"), "{said}");
}

/// Enters an order, which the engine accepts.
fn trade(node: &Node, number: u64) {
    let mut trader = Trader::log_on(node, ALICE);
    let request_no = trader.send(ALICE.buy(number, 100, 1));
    let answer = trader.answer(request_no);
    let SessionEvent::Report { report, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(report.event.cl_ord_id, ClOrdId::from_number(number));
}

/// A core that lies, and the latest row of each record in the batches that were acknowledged.
struct Liar {
    random: Random,
    client: Client,
    epoch: Epoch,
    next: u64,
    head: ChangeId,
    is_open: bool,
    records: BTreeMap<Rec, OrderRow>,
    resent: Option<BTreeSet<Rec>>,
    /// The records that were given to other orders than those of the truth.
    given_away: BTreeSet<Rec>,
    /// The reason of the last refusal of a batch.
    refused: Option<Reason>,
}

impl Liar {
    fn new(node: &Node, seed: u64) -> Liar {
        Liar {
            random: Random(seed),
            client: log_on(node, CORE),
            epoch: Epoch::NONE,
            next: 1,
            head: ChangeId::START,
            is_open: false,
            records: BTreeMap::new(),
            resent: None,
            given_away: BTreeSet::new(),
            refused: None,
        }
    }

    /// Returns a number near `near`, or now and then at an end of its type.
    fn number(&mut self, near: u64, max: u64) -> u64 {
        let ends = [0, 1, max, max - 1, max / 2, max / 2 + 1];
        match self.random.below(40) {
            at @ 0..=5 => ends[at as usize].min(max),
            _ => near.saturating_add(self.random.below(3)).min(max),
        }
    }

    fn open(&mut self, epoch: Epoch, full_resend: Switch) {
        self.open_after(self.epoch, epoch, full_resend);
    }

    /// Opens an epoch with a valid place of another one.
    fn open_after(&mut self, valid_epoch: Epoch, epoch: Epoch, full_resend: Switch) {
        let open = OpenSource {
            valid_seq: Seq(self.number(self.head.seq.0, u64::MAX)),
            valid_rec: Rec(self.number(self.head.rec.0, u64::MAX)),
            session_id: CORE.session_id,
            epoch,
            valid_epoch,
            source_id: SOURCE,
            full_resend,
        };
        match say(&mut self.client, |out| put_frame(&open, out)) {
            SourceMessage::Opened(opened) => {
                if opened.epoch != self.epoch {
                    self.resent = None;
                }
                self.epoch = opened.epoch;
                self.next = opened.next_batch_no.0;
                self.head = ChangeId::new(opened.head_seq, opened.head_rec);
                self.is_open = true;
            }
            SourceMessage::Reject(reject) => {
                self.epoch = reject.epoch;
                self.head = ChangeId::new(reject.head_seq, reject.head_rec);
            }
            other => panic!("{other:?}"),
        }
    }

    fn row(&mut self, seq: u64) -> Record {
        let rec = 1 + self.random.below(12);
        let rec = self.number(rec, u64::MAX);
        let place = ChangeId::new(Seq(self.number(seq, u64::MAX)), Rec(rec & ((1 << 48) - 1)));
        let mut record = Record::new(place, 1 + self.random.below(3) as u32, vec![7; 40]);
        record.row.rec = Rec(rec);
        match self.random.below(20) {
            0 => record.row.transact_time = Nanos(self.number(1, u64::MAX)),
            1 => record.row.flags = RowFlags::TOMBSTONE,
            2 => record.row.order_id = OrderId::new(SOURCE, Rec(self.random.below(1 << 40))),
            3..=6 => record.row.ord_status = OrdStatus::Filled,
            _ => {}
        }
        record
    }

    /// Sends a batch and takes its answer.
    fn send(&mut self, number: u64, flags: BatchFlags, rows: &[Record]) {
        let head = SourceBatch {
            batch_no: BatchNo(number),
            sending_time: Nanos(1),
            session_id: CORE.session_id,
            epoch: self.epoch,
            source_id: SOURCE,
            flags,
        };
        let put = |out: &mut Vec<u8>| {
            let rows = rows.iter().map(|record| (record.row, &record.attributes[..]));
            put_source_batch(&head, rows, out);
        };
        match say(&mut self.client, put) {
            SourceMessage::Ack(_) if number == self.next => {
                self.next += 1;
                self.fold(flags, rows);
            }
            SourceMessage::Ack(ack) => assert_eq!(ack.batch_no.0, self.next - 1),
            SourceMessage::Reject(reject) => {
                self.is_open = false;
                self.head = ChangeId::new(reject.head_seq, reject.head_rec);
                self.refused = Some(reject.reason);
            }
            other => panic!("{other:?}"),
        }
    }

    fn fold(&mut self, flags: BatchFlags, rows: &[Record]) {
        if flags.contains(BatchFlags::RESEND_BEGIN) {
            self.resent = Some(BTreeSet::new());
        }
        for Record { row, .. } in rows {
            self.head = ChangeId::new(row.seq, row.rec);
            if row.order_id.rec() != row.rec {
                self.given_away.insert(row.rec);
            }
            match row.flags.contains(RowFlags::TOMBSTONE) {
                true => _ = self.records.remove(&row.rec),
                false => _ = self.records.insert(row.rec, *row),
            }
            self.resent.iter_mut().for_each(|resent| _ = resent.insert(row.rec));
        }
        if flags.contains(BatchFlags::RESEND_END)
            && let Some(resent) = self.resent.take()
        {
            self.records.retain(|rec, _| resent.contains(rec));
            // The end of a resend takes a number, too.
            self.head = ChangeId::new(Seq(self.head.seq.0 + 1), Rec(u64::MAX));
        }
    }

    /// Tells one lie, or the truth.
    fn step(&mut self) {
        if !self.is_open || self.random.below(12) == 0 {
            let near = u64::from(self.epoch.0) + self.random.below(2);
            let epoch = match self.number(near, u64::from(u32::MAX)) as u32 {
                // No other could follow.
                0xffff_fffe => u32::MAX,
                epoch => epoch,
            };
            let is_full = self.random.below(3) > 0;
            return self.open(Epoch(epoch), if is_full { Switch::On } else { Switch::Off });
        }
        let mut seq = self.head.seq.0;
        let mut rows = Vec::new();
        for _ in 0..self.random.below(4) {
            seq = seq.saturating_add(1);
            rows.push(self.row(seq));
        }
        let both = BatchFlags::RESEND_BEGIN.with(BatchFlags::RESEND_END);
        let kinds = [BatchFlags::RESEND_BEGIN, BatchFlags::RESEND_END, both, both];
        let flags = kinds.get(self.random.below(8) as usize).copied().unwrap_or_default();
        // A number that is a little above the next one gets an answer only once.
        let numbers = [0, 1, self.next - 1, self.next + 256, u64::MAX];
        let number = numbers.get(self.random.below(40) as usize).copied().unwrap_or(self.next);
        self.send(number, flags, &rows);
    }

    /// Ends with the truth: a full resend of a few orders, after a reset if the numbers are at
    /// their ends.
    fn tell_the_truth(&mut self, node: &Node) {
        self.open(self.epoch, Switch::Off);
        if self.head.seq.0 > u64::MAX >> 2 {
            let reset = reset_source(ingest_address(node), OPERATOR.config(), SOURCE, HANG);
            self.epoch = reset.expect("it is reset").epoch;
            if self.is_open {
                let told = say(&mut self.client, |_| {});
                assert!(matches!(told, SourceMessage::Reject(_)), "{told:?}");
            }
            self.head = ChangeId::START;
        }
        self.resend(self.epoch);
        if self.next != 2 {
            // The lies gave its numbers away: it disowns them all.
            assert_eq!(self.refused, Some(Reason::OrderIdChanged));
            assert!(self.given_away.iter().any(|rec| (1..5).contains(&rec.0)));
            self.resend(Epoch::NONE);
        }
        assert_eq!(self.next, 2, "the truth is taken");
    }

    /// Sends a few orders in the next epoch, with a valid place of this one.
    fn resend(&mut self, valid_epoch: Epoch) {
        self.open_after(valid_epoch, Epoch(self.epoch.0 + 1), Switch::On);
        assert!(self.is_open, "epoch {} follows", self.epoch);
        let seq = self.head.seq.0 + 1;
        let rows: Vec<Record> = (1..5)
            .map(|rec| Record::new(ChangeId::new(Seq(seq), Rec(rec)), 1, vec![rec as u8; 9]))
            .collect();
        let both = BatchFlags::RESEND_BEGIN.with(BatchFlags::RESEND_END);
        self.send(1, both, &rows);
    }

    /// Checks that readers get the live orders of the model.
    fn check(&self, node: &Node) {
        let mut reader = reader(node);
        reader.until_online();
        let live = self.records.values().filter(|row| row.ord_status.is_live());
        let live: BTreeMap<OrderId, OrderRow> = live.map(|row| (row.order_id, *row)).collect();
        assert_eq!(mirror(&reader), live);
    }
}

/// The node is killed and started again in one seed of so many, after each so many steps.
const KILLED_SEEDS: u64 = 2;
const KILLED_STEPS: u64 = 20;
const STEPS: u64 = 60;

fn lie(home: &Home, mut node: Node, seed: u64) -> Node {
    let mut liar = Liar::new(&node, seed);
    for step in 1..=STEPS {
        liar.step();
        if step.is_multiple_of(KILLED_STEPS) && seed.is_multiple_of(KILLED_SEEDS) {
            node.kill();
            node = home.start();
            liar.client = log_on(&node, CORE);
            liar.is_open = false;
        }
    }
    liar.is_open = false;
    liar.tell_the_truth(&node);
    liar.check(&node);
    trade(&node, seed + 1);
    assert_eq!(ready(&node), "ready\n", "it lied, and broke nothing");
    node
}

/// Prints the seed of a failure.
struct SeedOfFailure(u64);

impl Drop for SeedOfFailure {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

#[test]
fn a_core_that_lies_stops_no_trading_and_no_start_and_readers_see_the_truth() {
    let seeds = std::env::var("WEIR_LIE_SEEDS").ok().and_then(|text| text.parse().ok());
    let seeds: u64 = seeds.unwrap_or(6);
    let (home, mut node) = node_with("durability = \"os\"\n");
    open_market(&node, &[ALICE]);
    for seed in 0..seeds {
        let _seed = SeedOfFailure(seed);
        node = lie(&home, node, seed);
    }
    assert!(node.terminate().success());
    let kills = seeds.div_ceil(KILLED_SEEDS) * (STEPS / KILLED_STEPS);
    println!(
        "{{\"campaign\": \"lies\", \"of\": \"node\", \"seeds\": {seeds}, \"kills\": {kills}}}"
    );
}
