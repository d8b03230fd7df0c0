//! An outside core feeds a node over its ingest listener, and readers follow its orders by token,
//! through crashes of the core, gaps, epochs and full resends.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use weir_client::follower::{Follower, FollowerConfig};
use weir_client::source::{SourceConfig, SourceEvent, SourceMessage, SourceWriter};
use weir_client::{Client, ClientError, Incoming, Limits};
use weir_types::{
    AckLevel, BatchNo, ChangeId, Epoch, Nanos, OrderId, PartitionId, Reason, Role, SessionId,
    Switch,
};
use weir_wire::delivery::{FetchOrders, OrderRow};
use weir_wire::dialogue::{put_fetch_orders, put_source_batch};
use weir_wire::frame::put_frame;
use weir_wire::ingest::{OpenSource, SourceBatch};

use crate::retention::files;
use crate::support::following::Following;
use crate::support::{
    ALICE, HANG, Home, Node, OPERATOR, SUPERVISOR, Who, definition_of, open_market, until,
};
use crate::web::get;

#[path = "../../../delivery/tests/stream/core.rs"]
#[allow(dead_code, reason = "the stream's own test takes the rest")]
pub mod core;

use self::core::{Batch, Core, Random, SOURCE};

pub const CORE: Who = Who { session_id: SessionId(30), role: Role::Source, ..OPERATOR };
pub const STRANGER: Who = Who { session_id: SessionId(31), role: Role::Source, ..OPERATOR };
/// The length of attributes that, with block and length field, make a row of 600 bytes.
const ATTRIBUTES_LEN: u64 = 439;

fn node() -> (Home, Node) {
    node_with("")
}

/// Starts a node whose source has these additional settings.
pub fn node_with(settings: &str) -> (Home, Node) {
    let config = format!(
        "[ingest]\nlisten = \"127.0.0.1:0\"\nsnapshot_every_bytes = 20000\n\
         [[ingest.source]]\nid = 40\nsession = 30\n{settings}"
    );
    let home = Home::with_config("os", &config);
    let node = home.start();
    let mut admin = node.admin();
    for who in [SUPERVISOR, CORE, STRANGER] {
        admin.define_session(definition_of(&who)).unwrap();
    }
    admin.close().unwrap();
    (home, node)
}

pub fn ingest_address(node: &Node) -> SocketAddr {
    node.status()["ingest"]["address"].as_str().expect("it listens").parse().unwrap()
}

/// A core and the writer that feeds it to a node.
pub struct Fed {
    pub core: Core,
    /// The source number that replaces the one in the core's rows.
    source: PartitionId,
    who: Who,
    pub writer: SourceWriter,
    pushed: usize,
    pub refusals: Vec<Reason>,
    /// The durability level of the last acknowledgement.
    pub level: Option<AckLevel>,
}

impl Fed {
    pub fn new(node: &Node, core: Core) -> Fed {
        Fed::of(node, core, SOURCE, CORE)
    }

    /// As [`Fed::new`], for another source.
    pub fn of(node: &Node, core: Core, source: PartitionId, who: Who) -> Fed {
        let config = config_of(&core, source, who);
        let writer = SourceWriter::new(ingest_address(node), who.config(), config);
        Fed { core, source, who, writer, pushed: 0, refusals: Vec::new(), level: None }
    }

    pub fn push(&mut self) {
        self.core.cut_batch();
        for batch in &self.core.batches[self.pushed..] {
            self.writer.push(&rows(batch, self.source), batch.flags).unwrap();
            self.pushed += 1;
        }
    }

    /// Continues in the core's epoch and pushes all of its batches again.
    pub fn begin(&mut self) {
        self.pushed = 0;
        self.writer.begin(config_of(&self.core, self.source, self.who));
    }

    /// Feeds until the store has acknowledged every batch.
    pub fn until_fed(&mut self) {
        let begun = Instant::now();
        while !self.core.is_fed() {
            assert!(begun.elapsed() < HANG, "the store does not take all: {:?}", self.refusals);
            self.push();
            let mut events = Vec::new();
            self.writer.poll(Duration::from_millis(5), |event| events.push(event)).unwrap();
            events.into_iter().for_each(|event| self.hear(event));
        }
    }

    pub fn hear(&mut self, event: SourceEvent) {
        match event {
            SourceEvent::Opened { head, next, level } => {
                self.level = Some(level);
                self.core.opened(next, ChangeId::new(head.0, head.1));
                self.core.store_epoch = self.core.epoch;
            }
            SourceEvent::Acknowledged(batch_no) => {
                self.core.acked = self.core.acked.max(batch_no.0);
            }
            SourceEvent::Refused(reject) => {
                self.refusals.push(reject.reason);
                self.core.store_epoch = reject.epoch;
                assert_eq!(reject.reason, Reason::ResendNeeded, "{reject:?}");
                self.core.begin_resend();
                self.begin();
            }
            SourceEvent::SentAgain { .. } | SourceEvent::NotOurs => {}
        }
    }

    /// Trades, feeds the changes, and checks that a reader receives them.
    fn trade(&mut self, count: usize, random: &mut Random, reader: &mut Following) {
        (0..count).for_each(|_| self.core.trade(random));
        self.until_fed();
        self.check(reader);
    }

    pub fn check(&self, reader: &mut Following) {
        let records = self.core.records.values();
        let wanted: BTreeMap<OrderId, OrderRow> =
            records.map(|record| (record.row.order_id, record.row)).collect();
        let begun = Instant::now();
        while mirror(reader) != wanted {
            assert!(
                begun.elapsed() < HANG,
                "the reader does not come to know all: {:?} {:?} {:?}",
                reader.rejects,
                reader.refusals,
                differences(&mirror(reader), &wanted)
            );
            reader.poll(Duration::from_millis(5)).unwrap();
        }
        for record in self.core.records.values() {
            let attributes = reader.follower.attributes(record.row.order_id);
            assert_eq!(attributes, record.attributes, "{}", record.row.order_id);
        }
    }
}

/// The orders that are others in one than in the other, each as the one and the other have it.
type Differences = BTreeMap<OrderId, [Option<OrderRow>; 2]>;

fn differences(
    known: &BTreeMap<OrderId, OrderRow>,
    wanted: &BTreeMap<OrderId, OrderRow>,
) -> Differences {
    let orders = known.keys().chain(wanted.keys());
    let both = orders.map(|id| (*id, [known.get(id).copied(), wanted.get(id).copied()]));
    both.filter(|(_, [known, wanted])| known != wanted).collect()
}

pub fn mirror(reader: &Following) -> BTreeMap<OrderId, OrderRow> {
    let orders = reader.follower.orders().iter();
    orders.map(|(id, row)| (*id, OrderRow { merged_count: 0, ..*row })).collect()
}

fn rows(batch: &Batch, source: PartitionId) -> Vec<(OrderRow, &[u8])> {
    let records = batch.rows.iter();
    records.map(|record| (row_of(record.row, source), &record.attributes[..])).collect()
}

/// Returns the row with this source's number.
pub fn row_of(row: OrderRow, source: PartitionId) -> OrderRow {
    OrderRow { partition_id: source, order_id: OrderId::new(source, row.order_id.rec()), ..row }
}

fn config_of(core: &Core, source: PartitionId, who: Who) -> SourceConfig {
    let open = core.open(who.session_id);
    SourceConfig {
        full_resend: open.full_resend == Switch::On,
        valid_to: Some((open.valid_epoch, open.valid_seq, open.valid_rec)),
        ..SourceConfig::full(who.session_id, source, open.epoch)
    }
}

pub fn reader(node: &Node) -> Following {
    let config = FollowerConfig {
        source_id: SOURCE,
        keep_orders: true,
        ..FollowerConfig::new(SUPERVISOR.session_id)
    };
    Following::start_as(node, SUPERVISOR, Follower::new(config, Vec::new()))
}

pub fn source_figure(node: &Node, name: &str) -> u64 {
    node.status()["ingest"]["sources"][0][name].as_u64().expect("a number")
}

#[test]
fn a_reader_follows_an_outside_core_through_crashes_gaps_epochs_and_full_resends() {
    let (_home, node) = node();
    let mut random = Random(1);
    let mut core = Core::new();
    core.attributes_len = Some(ATTRIBUTES_LEN);
    let mut fed = Fed::new(&node, core);
    fed.until_fed();
    let mut reader = reader(&node);
    fed.trade(300, &mut random, &mut reader);

    // The core's process is killed and comes back with its whole state.
    let Fed { core, writer, .. } = fed;
    drop(writer);
    let mut fed = Fed::new(&node, core);
    fed.trade(100, &mut random, &mut reader);
    assert_eq!(source_figure(&node, "duplicates"), 0, "it went on where the store stood");

    // The core comes back without the end of its history.
    fed.core.remember();
    fed.trade(100, &mut random, &mut reader);
    let epoch = fed.core.epoch;
    while fed.core.epoch == epoch {
        fed.core.crash(&mut random);
    }
    fed.begin();
    fed.trade(50, &mut random, &mut reader);
    assert_eq!(fed.refusals, [Reason::ResendNeeded], "the store had what the core had lost");
    assert_eq!(reader.resyncs, [Reason::ResyncEpoch], "so had the reader");
    assert!(source_figure(&node, "swept") > 0, "what was not sent again is gone");
    assert_eq!(source_figure(&node, "resends"), 2);
    assert!(node.get("/metrics").1.contains("weir_source_rows_total{source=\"40\"}"));
}

/// Logs a session on at the ingest listener, without a writer.
pub fn log_on(node: &Node, who: Who) -> Client {
    let address = ingest_address(node);
    until("a logon", || {
        let mut client = Client::connect(address, Limits::default()).unwrap();
        match client.log_on(who.patient_config(), HANG) {
            Ok(()) => Some(client),
            // The ingest agent does not know the session yet, or not the end of a connection.
            Err(ClientError::LogonRejected {
                reason: Reason::UnknownKey | Reason::AlreadyLoggedOn,
                ..
            }) => None,
            Err(error) => panic!("{error}"),
        }
    })
}

/// Sends a message and returns the store's answer.
pub fn say(client: &mut Client, put: impl FnOnce(&mut Vec<u8>)) -> SourceMessage {
    put(client.outbox());
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < HANG, "the store says nothing");
        let mut said = None;
        client
            .poll(Duration::from_millis(5), |incoming, _| {
                if let Incoming::Source(message) = incoming {
                    said = Some(message);
                }
            })
            .unwrap();
        if let Some(said) = said {
            return said;
        }
    }
}

fn open_of(session_id: SessionId, source_id: PartitionId, full_resend: Switch) -> OpenSource {
    OpenSource {
        valid_seq: weir_types::Seq(0),
        valid_rec: weir_types::Rec(0),
        session_id,
        epoch: Epoch(1),
        valid_epoch: Epoch::NONE,
        source_id,
        full_resend,
    }
}

fn put_batch(number: u64, batch: &Batch, out: &mut Vec<u8>) {
    let head = SourceBatch {
        batch_no: BatchNo(number),
        sending_time: Nanos(1),
        session_id: CORE.session_id,
        epoch: Epoch(1),
        source_id: SOURCE,
        flags: batch.flags,
    };
    put_source_batch(&head, rows(batch, SOURCE), out);
}

#[test]
fn a_gap_is_told_and_closed_by_sending_again() {
    let (_home, node) = node();
    let mut client = log_on(&node, CORE);
    let open = open_of(CORE.session_id, SOURCE, Switch::On);
    let opened = say(&mut client, |out| put_frame(&open, out));
    assert!(matches!(opened, SourceMessage::Opened(o) if o.next_batch_no == BatchNo(1)));
    let mut core = Core::new();
    core.opened(BatchNo(1), ChangeId::START);
    core.trade(&mut Random(1));
    core.cut_batch();
    let [first, second] = &core.batches[..] else { panic!("the resend, and a batch") };
    let gap = say(&mut client, |out| put_batch(2, second, out));
    assert!(matches!(gap, SourceMessage::Gap(gap) if gap.next_batch_no == BatchNo(1)), "{gap:?}");
    let taken = say(&mut client, |out| put_batch(1, first, out));
    assert!(matches!(taken, SourceMessage::Ack(ack) if ack.batch_no == BatchNo(1)), "{taken:?}");
    let taken = say(&mut client, |out| put_batch(2, second, out));
    assert!(matches!(taken, SourceMessage::Ack(ack) if ack.batch_no == BatchNo(2)), "{taken:?}");
    let again = say(&mut client, |out| put_batch(1, first, out));
    assert!(matches!(again, SourceMessage::Ack(ack) if ack.batch_no == BatchNo(2)), "{again:?}");
    assert_eq!(["gaps", "duplicates"].map(|name| source_figure(&node, name)), [1, 1]);
}

#[test]
fn nobody_feeds_a_source_that_is_not_its_own() {
    let (_home, node) = node();
    let mut core = log_on(&node, CORE);
    let mut stranger = log_on(&node, STRANGER);
    let reason = |said| match said {
        SourceMessage::Reject(reject) => reject.reason,
        other => panic!("{other:?}"),
    };
    let not_its_own = open_of(STRANGER.session_id, SOURCE, Switch::On);
    let said = say(&mut stranger, |out| put_frame(&not_its_own, out));
    assert_eq!(reason(said), Reason::NotEntitled);
    let unknown = open_of(CORE.session_id, PartitionId(41), Switch::On);
    let said = say(&mut core, |out| put_frame(&unknown, out));
    assert_eq!(reason(said), Reason::UnknownSource);
    let nothing = open_of(CORE.session_id, SOURCE, Switch::Off);
    let said = say(&mut core, |out| put_frame(&nothing, out));
    assert_eq!(reason(said), Reason::ResendNeeded);
    open_market(&node, &[ALICE]);
    let refused = until("a refusal", || {
        let mut client = Client::connect(ingest_address(&node), Limits::default()).unwrap();
        match client.log_on(ALICE.config(), HANG).unwrap_err() {
            // The ingest agent does not know the session yet.
            ClientError::LogonRejected { reason: Reason::UnknownKey, .. } => None,
            refused => Some(refused),
        }
    });
    let is_role = matches!(refused, ClientError::LogonRejected { reason: Reason::NotEntitled, .. });
    assert!(is_role, "{refused}");
    assert_eq!(node.status()["ingest"]["refused"], 3);
}

#[test]
fn readers_are_told_which_sources_there_are_and_which_are_not_whole_yet() {
    let (_home, node) = node_with("[web]\nlisten = \"127.0.0.1:0\"\n");
    for (path, code, reason) in
        [("/orders?source=40", 503, "PartitionAway"), ("/orders?source=41", 400, "UnknownSource")]
    {
        let (told, refusal) = get(&node, &SUPERVISOR, path);
        assert_eq!((told, &refusal["error"]), (code, &reason.into()));
    }
    let mut client = Client::connect(node.address(), Limits::default()).unwrap();
    client.log_on(SUPERVISOR.config(), HANG).unwrap();
    for (source_id, reason) in
        [(SOURCE, Reason::PartitionAway), (PartitionId(41), Reason::UnknownSource)]
    {
        let fetch = FetchOrders {
            correlation_id: 1,
            session_id: SUPERVISOR.session_id,
            firm_id: weir_types::FirmId::NONE,
            account_id: weir_types::AccountId::NONE,
            instrument_id: weir_types::InstrumentId::NONE,
            rows_max: 0,
            rows_min: 0,
            bytes_max: 0,
            wait_max_us: 0,
            credit: 1,
            live_only: Switch::Off,
            source_id,
            min_wait_us: 0,
            credit_rows: 0,
            credit_bytes: 0,
        };
        put_fetch_orders(&fetch, &[], client.outbox());
        let told = until("a reject", || {
            let mut told = None;
            client
                .poll(Duration::from_millis(5), |incoming, _| {
                    use weir_client::SessionEvent::Refused;
                    if let Incoming::Session(_, Refused { reject, .. }) = incoming {
                        told = Some(reject.reason);
                    }
                })
                .unwrap();
            told
        });
        assert_eq!(told, reason);
    }
}

#[test]
fn who_asks_once_is_told_that_a_source_stays_away() {
    let (_home, node) = node();
    let key: String = SUPERVISOR.key().0.iter().map(|byte| format!("{byte:02x}")).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .env("WEIR_API_KEY", key)
        .args(["orders", "--once", "--source", "40", "--node", &node.address().to_string()])
        .args(["--http", node.http(), "--session", &SUPERVISOR.session_id.0.to_string()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("the partition is away") && said.contains("no page came"), "{said}");
}

#[test]
fn silent_connections_at_all_places_keep_no_core_out() {
    // They do not end by themselves while the test runs.
    let (_home, node) = node_with("[gateway]\nlogon_timeout_ms = 600000\n");
    let address = ingest_address(&node);
    let figure = |name: &str| node.status()["ingest"][name].as_u64().expect("a number");
    // By default the listener has as many places.
    let silent: Vec<_> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
    until("that all places are taken", || (figure("accepted") >= 64).then_some(()));
    let mut random = Random(6);
    let mut core = Core::new();
    core.attributes_len = Some(300);
    let mut fed = Fed::new(&node, core);
    fed.until_fed();
    let mut reader = reader(&node);
    fed.trade(30, &mut random, &mut reader);
    assert!(figure("strangers_evicted") > 0);
    assert_eq!(figure("connections_refused"), 0);
    drop(silent);
}

#[test]
fn an_outside_core_is_served_through_a_time_without_descriptors() {
    let (home, node) = node_with("durability = \"disk\"\n");
    let mut random = Random(5);
    let mut core = Core::new();
    core.attributes_len = Some(300);
    let mut fed = Fed::new(&node, core);
    fed.until_fed();
    let mut reader = reader(&node);
    fed.check(&mut reader);
    let address = ingest_address(&node);
    let mut newcomer = node.without_descriptors(|| {
        let newcomer = Client::connect(address, Limits::default()).unwrap();
        until("a snapshot that finds no descriptor", || {
            (0..30).for_each(|_| fed.core.trade(&mut random));
            fed.until_fed();
            home.said().contains("no snapshot of a store").then_some(())
        });
        fed.check(&mut reader);
        newcomer
    });
    newcomer.log_on(STRANGER.patient_config(), HANG).unwrap();
    // Their names sort by position.
    let newest = || files(&home, "source-40/snapshots", ".wsnap").into_iter().max();
    let before = newest();
    until("snapshots again", || {
        (0..30).for_each(|_| fed.core.trade(&mut random));
        fed.until_fed();
        (newest() > before).then_some(())
    });
    fed.check(&mut reader);
    let next = source_figure(&node, "next_batch_no");
    drop(newcomer);
    assert!(node.terminate().success());
    let node = home.start();
    assert_eq!(source_figure(&node, "next_batch_no"), next);
    reader.go_on(node.address()).unwrap();
    fed.writer.set_target(ingest_address(&node));
    fed.trade(30, &mut random, &mut reader);
    assert!(reader.resyncs.is_empty() && fed.refusals.is_empty(), "{:?}", reader.resyncs);
}
