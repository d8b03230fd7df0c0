//! A log's records reach a replica as batches: for any division into batches, any overlap and any
//! repetition, the replica's store equals the one that took in the records.

#![allow(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

mod support;

use proptest::prelude::*;
use support::{SOURCE, event, keys};
use weir_delivery::replay::{ReplayError, STREAM_STATE_LEN};
use weir_delivery::stream::{SourceStream, Window};
use weir_delivery::{
    ChunkOutcome, Filter, Kinds, OrderStore, PageLimits, Restore, Retention, Selection,
    StoreConfig, row_of,
};
use weir_types::{BatchNo, ChangeId, Epoch, FirmId, Nanos, OrdStatus, Reason, SessionId};
use weir_wire::Message;
use weir_wire::delivery::OrderRow;
use weir_wire::dialogue::put_source_batch;
use weir_wire::event::OrderEvent;
use weir_wire::ingest::{BatchFlags, SourceBatch};

const EPOCH: Epoch = Epoch(3);
const WINDOW: Window = Window { batches: 256, bytes: 4 << 20 };
const CONFIG: StoreConfig = StoreConfig {
    retention: Retention { count_max: 40, bytes_max: u64::MAX },
    ..StoreConfig::new(SOURCE, EPOCH)
};

/// A record's content: an order (its number, its firm, whether it ends), or none.
type Record = Option<(u8, u8, bool)>;

fn events(records: &[Record]) -> Vec<Option<OrderEvent>> {
    let of = |(seq, record): (usize, &Record)| {
        let (rec, firm, ends) = (*record)?;
        let status = if ends { OrdStatus::Filled } else { OrdStatus::New };
        let firm = keys(u32::from(firm % 3) + 1, 1, 1);
        Some(event(seq as u64 + 1, u64::from(rec % 60) + 1, firm, status))
    };
    records.iter().enumerate().map(of).collect()
}

/// Encodes the records from `from` to `to`, both included, as a batch.
fn batch(events: &[Option<OrderEvent>], from: usize, to: usize) -> Vec<u8> {
    let of = |event: &OrderEvent| (row_of(event), &[][..]);
    let rows: Vec<(OrderRow, &[u8])> = events[from - 1..to].iter().flatten().map(of).collect();
    let head = SourceBatch {
        batch_no: BatchNo(to as u64),
        sending_time: Nanos(1),
        session_id: SessionId::NONE,
        epoch: EPOCH,
        source_id: SOURCE,
        flags: BatchFlags::default(),
    };
    let mut frame = Vec::new();
    put_source_batch(&head, rows, &mut frame);
    frame
}

/// Returns a master that took in the first `count` records.
fn master(events: &[Option<OrderEvent>], count: usize) -> (OrderStore, SourceStream) {
    let mut store = OrderStore::new(CONFIG);
    let mut stream = SourceStream::of_log(SOURCE, EPOCH, BatchNo(1));
    for (number, event) in (1..).zip(&events[..count]) {
        let _ = stream.take_record(BatchNo(number), event.as_ref(), &mut store).unwrap();
    }
    (store, stream)
}

/// Returns a replica made from the master's snapshot.
fn copy(store: &mut OrderStore, stream: &SourceStream, kinds: Kinds) -> (OrderStore, SourceStream) {
    let mut state = Vec::new();
    stream.put_state(&mut state);
    assert_eq!(state.len(), STREAM_STATE_LEN);
    let copied = SourceStream::from_state(SOURCE, WINDOW, &state).expect("its own state");
    assert!(copied.is_log() && copied.is_whole());
    let mut bytes = Vec::new();
    store.begin_snapshot();
    while store.snapshot_chunk(4_096, &mut bytes) == Ok(ChunkOutcome::More) {}
    let mut restore = Restore::new(StoreConfig { kinds, ..CONFIG });
    let mut chunks = &bytes[..];
    while !chunks.is_empty() {
        chunks = &chunks[restore.take(chunks).unwrap()..];
    }
    (restore.finish().unwrap(), copied)
}

/// Returns the page of a filter after a place, or the refusal.
fn seen(store: &OrderStore, after: ChangeId, filter: &Filter) -> String {
    if let Err(resync) = store.check(EPOCH, after, filter) {
        return format!("{resync:?}");
    }
    let limits = PageLimits { rows_max: 60_000, bytes_max: u32::MAX, scan_max: u32::MAX };
    let mut selection = Selection::default();
    let page = store.select(after, filter, &limits, &mut selection);
    format!("{:?} {:?}", page.next, store.rows(&selection))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_replica_that_took_batches_of_records_is_the_store_that_took_the_records(
        records in prop::collection::vec(
            prop::option::weighted(0.8, (any::<u8>(), any::<u8>(), any::<bool>())), 1..200),
        base in any::<prop::sample::Index>(),
        cuts in prop::collection::vec((1usize..40, 0usize..30, any::<bool>()), 200),
    ) {
        let events = events(&records);
        let base = base.index(events.len());
        let (mut early, stream) = master(&events, base);
        let (mut store, mut stream) = copy(&mut early, &stream, Kinds::FULL);
        let mut at = base;
        for (len, overlap, repeats) in cuts {
            if at == events.len() {
                break;
            }
            let to = (at + len).min(events.len());
            let from = (at + 1).saturating_sub(overlap).max(1);
            let frame = batch(&events, from, to);
            stream.replay(&frame, &mut store).unwrap();
            at = to;
            prop_assert_eq!(stream.next_batch_no(), BatchNo(at as u64 + 1));
            if repeats {
                let again = stream.replay(&frame, &mut store);
                let (got, due) = (BatchNo(at as u64), BatchNo(at as u64 + 1));
                prop_assert_eq!(again, Err(ReplayError::OutOfTurn { got, due }));
            }
        }
        let (wanted, own) = master(&events, at);
        prop_assert_eq!(own.next_batch_no(), stream.next_batch_no());
        prop_assert_eq!(store.digest(&Filter::ALL), wanted.digest(&Filter::ALL));
        prop_assert_eq!(
            (store.head(), store.floor(), store.live_count(), store.ended_count()),
            (wanted.head(), wanted.floor(), wanted.live_count(), wanted.ended_count())
        );
        let filters = [Filter::ALL, Filter { firm_id: FirmId(1), ..Filter::ALL }];
        let change_ids = events.iter().flatten().map(|event| ChangeId::new(event.seq, event.rec));
        for change_id in change_ids.step_by(7).chain([ChangeId::START]) {
            for filter in &filters {
                prop_assert_eq!(seen(&store, change_id, filter), seen(&wanted, change_id, filter));
            }
        }
    }
}

#[test]
fn a_batch_of_another_epoch_or_of_what_is_there_is_not_taken() {
    let events = events(&[Some((1, 1, false)); 10]);
    let (mut store, stream) = master(&events, 5);
    let (mut store, mut stream) = copy(&mut store, &stream, Kinds::NONE);
    let due = BatchNo(6);
    for to in 1..=5 {
        let got = BatchNo(to as u64);
        let taken = stream.replay(&batch(&events, 1, to), &mut store);
        assert_eq!(taken, Err(ReplayError::OutOfTurn { got, due }));
    }
    let mut other = batch(&events, 6, 10);
    // The epoch comes after the number, the time and the session in the block.
    let at = other.len() - (4 + 5 * (OrderRow::BLOCK_LENGTH + 2)) - 7;
    assert_eq!(other[at..at + 4], EPOCH.0.to_le_bytes());
    other[at] += 1;
    let taken = stream.replay(&other, &mut store);
    assert_eq!(taken, Err(ReplayError::Refused(Reason::EpochNotOpen)));
    assert_eq!(stream.next_batch_no(), due);
    stream.replay(&batch(&events, 6, 10), &mut store).unwrap();
}

#[test]
fn a_store_without_room_takes_the_same_batch_again_when_there_is_some() {
    let records: Vec<Record> = (0..400).map(|_| None).collect();
    let mut events = events(&records);
    for (seq, event) in (1u64..).zip(&mut events) {
        *event = Some(support::event(seq, seq, keys(1, 1, 1), OrdStatus::New));
    }
    let (mut store, stream) = master(&events, 1);
    let (mut store, mut stream) = copy(&mut store, &stream, Kinds::FULL);
    store.set_bytes_max(1);
    let frame = batch(&events, 2, 400);
    let full = stream.replay(&frame, &mut store);
    assert_eq!(full, Err(ReplayError::Refused(Reason::StoreFull)));
    assert_eq!(stream.next_batch_no(), BatchNo(2), "it is still due");
    store.set_bytes_max(u64::MAX);
    stream.replay(&frame, &mut store).unwrap();
    assert_eq!(store.digest(&Filter::ALL), master(&events, 400).0.digest(&Filter::ALL));
}
