//! Several sources on one ring: one that waits holds up nobody else's requests or updates.

use weir_delivery::stream::SourceStream;
use weir_delivery::{Desk, DeskConfig, NonceCounter, StoreConfig, TokenKey, TokenSealer};
use weir_runtime::Wake;
use weir_types::{BatchNo, Epoch, OrderId, Position, Rec, Seq, SessionId, Switch};
use weir_wire::delivery::OrderRow;
use weir_wire::dialogue::{NodeMessage, put_source_batch};
use weir_wire::frame::put_frame;
use weir_wire::ingest::{BatchFlags, OpenSource};
use weir_wire::replica::FollowState;

use super::*;
use crate::ingest::handoff::StorePort;
use crate::ingest::ingest_to_store;
use crate::replica::{FollowPort, Update, UpdateData, UpdateTicket, follow_to_store};
use crate::stores::WINDOW;
use crate::stores::tail::EntryTail;

mod failures;

const SESSION: SessionId = SessionId(30);
const SLOW: PartitionId = PartitionId(40);
const QUICK: PartitionId = PartitionId(41);
/// A full resend of so many orders takes several cycles to end.
const ORDERS: u64 = 10_000;
/// The number of orders in a batch.
const BATCH: u64 = 500;

fn desk(source: PartitionId) -> Desk {
    desk_with(OrderStore::new(StoreConfig::new(source, Epoch::NONE)))
}

fn desk_with(store: OrderStore) -> Desk {
    let sealer = TokenSealer::new(TokenKey::new(1, &[7; 32]), NonceCounter::new(1, Nanos(1)));
    Desk::new(DeskConfig::default(), store, sealer)
}

fn fed(source: PartitionId) -> SourceStoreParts {
    SourceStoreParts {
        desk: desk(source),
        stream: SourceStream::new(source, WINDOW),
        journal: None,
        tail: EntryTail::new(Position::NONE),
        is_replica: false,
        own: None,
        snapshot_every: u64::MAX,
        cold: None,
        failure: None,
    }
}

fn open(source: PartitionId, epoch: u32) -> IngestRequest {
    let what = StoreRequest::Open(OpenSource {
        valid_seq: Seq(0),
        valid_rec: Rec(0),
        session_id: SESSION,
        epoch: Epoch(epoch),
        valid_epoch: Epoch::NONE,
        source_id: source,
        full_resend: Switch::On,
    });
    IngestRequest { connection: u64::from(source.0), what }
}

/// A batch of orders, each changed at the time that the batch's number gives.
struct Orders {
    source: PartitionId,
    epoch: u32,
    number: u64,
    flags: BatchFlags,
    recs: std::ops::Range<u64>,
}

impl Orders {
    fn frame(self) -> Vec<u8> {
        let head = SourceBatch {
            batch_no: BatchNo(self.number),
            sending_time: Nanos(1),
            session_id: SESSION,
            epoch: Epoch(self.epoch),
            source_id: self.source,
            flags: self.flags,
        };
        let row = |rec: u64| OrderRow {
            rec: Rec(rec),
            // The end of a resend takes a number too.
            seq: Seq(u64::from(self.epoch) * 1_000 + 2 * self.number),
            order_id: OrderId::new(self.source, Rec(rec)),
            partition_id: self.source,
            ..crate::cold::ended_row()
        };
        let rows: Vec<_> = self.recs.map(|rec| (row(rec), &[][..])).collect();
        let mut frame = Vec::new();
        put_source_batch(&head, rows, &mut frame);
        frame
    }

    fn request(self) -> IngestRequest {
        let connection = u64::from(self.source.0);
        IngestRequest { connection, what: StoreRequest::Batch(self.frame()) }
    }
}

/// The requests of a full resend of orders from 1 on.
fn full_resend(source: PartitionId, epoch: u32, count: u64) -> Vec<IngestRequest> {
    let batches = count.div_ceil(BATCH);
    let batch = |number: u64| {
        let begin = if number == 1 { BatchFlags::RESEND_BEGIN.0 } else { 0 };
        let end = if number == batches { BatchFlags::RESEND_END.0 } else { 0 };
        let last = (number * BATCH).min(count);
        let recs = (number - 1) * BATCH + 1..last + 1;
        Orders { source, epoch, number, flags: BatchFlags(begin | end), recs }.request()
    };
    std::iter::once(open(source, epoch)).chain((1..=batches).map(batch)).collect()
}

/// The stores of both sources and the ingest agent's end.
struct Rig {
    stores: SourceStores,
    port: StorePort,
}

impl Rig {
    fn new() -> Rig {
        let (port, from_ingest) = ingest_to_store(Wake::new(), Wake::new());
        let parts = [SLOW, QUICK].map(fed).into();
        let figures = Arc::new(IngestFigures::default());
        let stores = SourceStores::new(parts, Some(from_ingest), None, None, figures);
        Rig { stores, port }
    }

    fn ask(&mut self, requests: Vec<IngestRequest>) {
        for request in requests {
            self.port.requests.push(request).expect("the ring has room");
        }
    }

    /// Runs a cycle, and returns the batches acknowledged in it.
    fn cycle(&mut self) -> Vec<(PartitionId, u64)> {
        self.stores.work(Nanos(1));
        let mut acks = Vec::new();
        while let Ok(answer) = self.port.answers.pop() {
            let mut rest = &answer.bytes[..];
            while let Framing::Frame { len, message } = next_frame(rest, SOURCE_FRAME_LEN_MAX) {
                match NodeMessage::decode(&message.unwrap()).unwrap() {
                    NodeMessage::SourceAck(ack) => acks.push((ack.source_id, ack.batch_no.0)),
                    NodeMessage::SourceOpened(_) => {}
                    other => panic!("{other:?}"),
                }
                rest = &rest[len..];
            }
        }
        acks
    }

    /// Runs cycles until the slow source deletes the records that its resend left out.
    fn reach_the_end_of_the_resend_of_epoch_2(&mut self) {
        let is_there = |stream: &SourceStream| {
            (stream.epoch(), stream.next_batch_no()) == (Epoch(2), BatchNo(2))
        };
        while !is_there(&self.stores.feed(SLOW).stream) {
            self.cycle();
        }
        assert!(self.stores.feed(SLOW).stream.is_sweeping());
    }

    fn run(&mut self, requests: Vec<IngestRequest>) {
        self.ask(requests);
        for _ in 0..100 {
            self.cycle();
        }
    }
}

#[test]
fn a_source_that_ends_a_full_resend_lets_its_own_batches_wait_and_no_other_sources() {
    let mut rig = Rig::new();
    rig.run(full_resend(SLOW, 1, ORDERS));
    rig.run(full_resend(QUICK, 1, 1));
    // The second resend has one order, so the end of it removes the others.
    let next = |source, epoch, number| {
        let flags = BatchFlags::default();
        Orders { source, epoch, number, flags, recs: 1..2 }.request()
    };
    rig.ask(full_resend(SLOW, 2, 1));
    rig.ask(vec![next(SLOW, 2, 2), next(QUICK, 1, 2), next(QUICK, 1, 3)]);
    let acks = rig.cycle();
    assert!(acks.contains(&(QUICK, 3)), "{acks:?}");
    assert!(!acks.iter().any(|(source, _)| *source == SLOW), "{acks:?}");
    let acks: Vec<_> = (0..100).flat_map(|_| rig.cycle()).collect();
    assert_eq!(acks, [(SLOW, 1), (SLOW, 2)], "in order, once the others are removed");
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_of_a_source_that_stops_the_others_is_found() {
    plant::set(Some(Plant::FullSourceStopsAll));
    let test = a_source_that_ends_a_full_resend_lets_its_own_batches_wait_and_no_other_sources;
    let is_found = std::panic::catch_unwind(test).is_err();
    plant::set(None);
    assert!(is_found);
}

#[test]
fn the_end_of_a_connection_takes_its_waiting_batches_along() {
    let mut rig = Rig::new();
    rig.run(full_resend(SLOW, 1, ORDERS));
    rig.ask(full_resend(SLOW, 2, 1));
    let flags = BatchFlags::default();
    rig.ask(vec![Orders { source: SLOW, epoch: 2, number: 2, flags, recs: 1..2 }.request()]);
    rig.reach_the_end_of_the_resend_of_epoch_2();
    let connection = u64::from(SLOW.0);
    rig.run(vec![IngestRequest { connection, what: StoreRequest::Gone }]);
    // A core that comes again learns that the batch was not taken, and sends it again.
    let sources = rig.stores.figures.sources.lock().unwrap();
    assert_eq!((sources[0].source, sources[0].next_batch_no), (SLOW.0, 2));
}

/// A start or a replica ends the resend before it takes the opening, and would refuse rows from
/// before that end.
#[test]
fn an_opening_waits_for_the_end_of_a_full_resend() {
    let mut rig = Rig::new();
    rig.run(full_resend(SLOW, 1, ORDERS));
    rig.ask(full_resend(SLOW, 2, 1));
    rig.reach_the_end_of_the_resend_of_epoch_2();
    rig.run(vec![open(SLOW, 3)]);
    let stream = &rig.stores.feed(SLOW).stream;
    assert_eq!((stream.epoch(), stream.counters().resends), (Epoch(3), 2));
}

fn followed() -> (FollowPort, SourceStores) {
    let (follower, port) = follow_to_store(Wake::new(), Wake::new());
    let parts = [SLOW, QUICK].map(|source| SourceStoreParts::replica(source, desk(source))).into();
    let figures = Arc::new(IngestFigures::default());
    let updates = Some((port, Arc::new(ReplicaFigures::default())));
    (follower, SourceStores::new(parts, None, updates, None, figures))
}

/// The master's entries: an opening with a full resend of one order.
fn entries(source: PartitionId, ticket: &UpdateTicket) -> Update {
    let mut frames = Vec::new();
    for request in full_resend(source, 1, 1) {
        match request.what {
            StoreRequest::Open(open) => put_frame(&open, &mut frames),
            StoreRequest::Batch(frame) => frames.extend_from_slice(&frame),
            _ => unreachable!("a resend has nothing else"),
        }
    }
    let state = FollowState {
        history_high: 1,
        history_low: 1,
        position: 2,
        head_position: 2,
        head_seq: Seq(1_003),
        head_rec: Rec(1),
        sending_time: Nanos(1),
        session_id: SESSION,
        entry_count: 2,
        source_id: source,
        is_snapshot: Switch::Off,
    };
    Update { state, what: UpdateData::Entries(frames), ticket: ticket.clone() }
}

#[test]
fn a_full_store_lets_its_own_updates_wait_and_no_other_sources() {
    let (mut follower, mut stores) = followed();
    let slow = stores.feed(SLOW).desk.store_mut();
    slow.set_bytes_max(1);
    let (full, other) = (UpdateTicket::default(), UpdateTicket::default());
    for update in [entries(SLOW, &full), entries(SLOW, &full), entries(QUICK, &other)] {
        follower.updates.push(update).expect("the ring has room");
    }
    stores.work(Nanos(1));
    let position = |stores: &SourceStores, source| {
        let store = stores.source_stores.iter().find(|store| store.source() == source);
        store.unwrap().follow_figures().unwrap().position
    };
    assert_eq!((position(&stores, SLOW), position(&stores, QUICK)), (1, 2));
    assert_eq!((full.others(), other.others()), (2, 0), "what is in the store is told");
    stores.feed(SLOW).desk.store_mut().set_bytes_max(u64::MAX);
    stores.work(Nanos(1));
    assert_eq!(position(&stores, SLOW), 2);
}
