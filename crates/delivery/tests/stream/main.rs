//! A source's stream against a simple model, over a network that loses, repeats and reorders, with
//! crashes of either side: the store holds the rows of the batches that it took, in order and once
//! each, and readers end with the core's state.
//!
//! `WEIR_STREAM_STEPS` sets the number of steps of each of the eight seeds.

mod core;
mod lies;
mod numbers;
#[cfg(feature = "planted")]
mod plants;
mod room;
mod world;

use std::collections::BTreeMap;

use weir_delivery::replay::ReplayError;
use weir_delivery::stream::{BatchOutcome, GAP_INTERVAL, SourceStream};
use weir_delivery::{Filter, OrderStore, PageLimits, Selection};
use weir_types::{
    BatchNo, ChangeId, Epoch, Nanos, OrdStatus, OrderId, PartitionId, Reason, Rec, Seq, Switch,
};
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::ingest::{BatchFlags, OpenSource, SourceBatch};

use crate::core::{Record, SOURCE, rows_of};
use crate::world::{SESSION, WINDOW, World, store};

fn steps() -> u64 {
    let text = std::env::var("WEIR_STREAM_STEPS").unwrap_or_default();
    text.parse().unwrap_or(16_000)
}

#[test]
fn any_interleaving_leaves_store_and_readers_with_what_the_core_has() {
    let mut met: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in 0..8 {
        let mut world = World::new(seed);
        for step in 0..steps() {
            world.step();
            if step % 512 == 0 {
                world.check_all();
            }
            if step % 4_096 == 4_095 {
                world.settle();
            }
        }
        world.settle();
        let resyncs: u64 = world.readers.iter().map(|reader| reader.resyncs).sum();
        world.met.insert("resync", resyncs);
        for (what, count) in world.met {
            *met.entry(what).or_insert(0) += count;
        }
    }
    let wanted = [
        "lost",
        "repeated",
        "overtaken",
        "gap",
        "reminded",
        "open already",
        "reconnect",
        "core crash",
        "store crash",
        "resend",
        "resend needed",
        "swept",
        "settled",
        "resync",
    ];
    let missing: Vec<_> = wanted.iter().filter(|what| !met.contains_key(*what)).collect();
    assert!(missing.is_empty(), "never met {missing:?}: {met:?}");
}

/// Returns a stream that is open in epoch 1 and has no records.
fn opened() -> (SourceStream, OrderStore) {
    let mut stream = SourceStream::new(SOURCE, WINDOW);
    let mut store = store();
    let open = open_of(1, ChangeId::START, Switch::On);
    let _ = stream.open(&open, 1, &mut store).expect("nothing is known");
    let both = BatchFlags::RESEND_BEGIN.with(BatchFlags::RESEND_END);
    let _ = offer(&mut stream, &mut store, 1, 1, both, &[]);
    assert!(stream.sweep(100, &mut store).is_some());
    (stream, store)
}

fn open_of(epoch: u32, valid: ChangeId, full_resend: Switch) -> OpenSource {
    OpenSource {
        valid_seq: valid.seq,
        valid_rec: valid.rec,
        session_id: SESSION,
        epoch: Epoch(epoch),
        valid_epoch: Epoch(1),
        source_id: SOURCE,
        full_resend,
    }
}

fn offer(
    stream: &mut SourceStream,
    store: &mut OrderStore,
    number: u64,
    epoch: u32,
    flags: BatchFlags,
    records: &[Record],
) -> BatchOutcome {
    let head = SourceBatch {
        batch_no: BatchNo(number),
        sending_time: Nanos(1),
        session_id: SESSION,
        epoch: Epoch(epoch),
        source_id: SOURCE,
        flags,
    };
    let bytes = rows_of(records);
    let rows = weir_wire::rows::take_rows(&bytes).expect("whole rows").0;
    stream.offer(&head, rows, 1, store, Nanos(1))
}

fn record(seq: u64, rec: u64) -> Record {
    Record::new(ChangeId::new(Seq(seq), Rec(rec)), 1, b"some".to_vec())
}

#[test]
fn a_streams_state_reads_back_and_no_other_bytes_do() {
    let (mut stream, mut store) = opened();
    let state_of = |stream: &SourceStream| {
        let mut state = Vec::new();
        stream.put_state(&mut state);
        state
    };
    let mut states = vec![state_of(&SourceStream::new(SOURCE, WINDOW)), state_of(&stream)];
    let open = open_of(2, ChangeId::START, Switch::On);
    let _ = stream.open(&open, 1, &mut store).expect("a later epoch");
    states.push(state_of(&stream));
    let _ = offer(&mut stream, &mut store, 1, 2, BatchFlags::RESEND_BEGIN, &[record(9, 1)]);
    states.push(state_of(&stream));
    let _ = offer(&mut stream, &mut store, 2, 2, BatchFlags::RESEND_END, &[record(9, 2)]);
    assert!(stream.is_sweeping());
    states.push(state_of(&stream));
    let (mut stream, mut store) = opened();
    let _ = offer(&mut stream, &mut store, 2, 1, BatchFlags::default(), &[record(9, 1)]);
    let _ = stream.open(&open, 1, &mut store).expect("a later epoch");
    assert!(stream.is_voiding());
    states.push(state_of(&stream));
    let _ = stream.fail(&store);
    states.push(state_of(&stream));
    for state in &states {
        let back = SourceStream::from_state(SOURCE, WINDOW, state).expect("its own bytes");
        assert_eq!(&state_of(&back), state);
        for len in 0..state.len() {
            assert!(SourceStream::from_state(SOURCE, WINDOW, &state[..len]).is_none());
        }
        let longer = [&state[..], &[0]].concat();
        assert!(SourceStream::from_state(SOURCE, WINDOW, &longer).is_none());
        // The version, and the code of the resend.
        for at in [0, 17] {
            let mut other = state.clone();
            other[at] = 9;
            assert!(SourceStream::from_state(SOURCE, WINDOW, &other).is_none(), "byte {at}");
        }
    }
    let different: std::collections::BTreeSet<_> = states.iter().collect();
    assert_eq!(different.len(), states.len(), "each says something else");
}

fn refusal(taken: BatchOutcome) -> (Reason, u64, u32) {
    match taken {
        BatchOutcome::Rejected(reject) => (reject.reason, reject.batch_no.0, reject.row_no),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_wrong_in_a_row_is_told_by_its_number_and_changes_nothing() {
    let plain = BatchFlags::default();
    let with = |seq, rec, change: fn(&mut Record)| {
        let mut record = record(seq, rec);
        change(&mut record);
        record
    };
    let cases = [
        (with(9, 1, |r| r.row.partition_id = PartitionId(2)), Reason::WrongSource),
        (
            with(9, 1, |r| r.row.order_id = OrderId::new(PartitionId(2), Rec(1))),
            Reason::WrongSource,
        ),
        (with(9, 0, |_| {}), Reason::RowMalformed),
        (with(9, 1, |r| r.row.flags = RowFlags::LEAVE), Reason::RowMalformed),
        (with(u64::MAX, 1, |_| {}), Reason::SeqOutOfRange),
        (with(3, 1, |_| {}), Reason::PlaceWentBack),
        (with(9, 1, |r| r.row.order_id = OrderId::new(SOURCE, Rec(99))), Reason::OrderIdChanged),
    ];
    for (wrong, reason) in cases {
        let (mut stream, mut store) = opened();
        let _ = offer(&mut stream, &mut store, 2, 1, plain, &[record(3, 1), record(3, 2)]);
        let before = store.head();
        let rows = [record(5, 3), wrong, record(20, 4)];
        let taken = offer(&mut stream, &mut store, 3, 1, plain, &rows);
        assert_eq!(refusal(taken), (reason, 3, 2));
        assert_eq!((store.head(), store.get(Rec(3))), (before, None), "{reason:?}");
        assert!(!stream.is_open(), "a refused batch closes its source");
        // The core corrects the batch and goes on with the same number.
        let opened = stream.open(&open_of(1, ChangeId::START, Switch::Off), 1, &mut store).unwrap();
        assert_eq!(opened.next_batch_no, BatchNo(3));
        let taken = offer(&mut stream, &mut store, 3, 1, plain, &[record(5, 3)]);
        assert!(
            matches!(taken, BatchOutcome::Stands(ack) if ack.batch_no == BatchNo(3)),
            "{taken:?}"
        );
    }
}

#[test]
fn a_batch_gives_a_new_record_to_one_order() {
    let plain = BatchFlags::default();
    let of_other = |seq, rec| {
        let mut record = record(seq, rec);
        record.row.order_id = OrderId::new(SOURCE, Rec(99));
        record
    };
    let cases = [
        (vec![record(10, 5), of_other(11, 5)], 2),
        (vec![record(10, 5), record(10, 6), of_other(11, 5)], 3),
        (vec![record(10, 6), record(11, 4), record(12, 5), of_other(13, 4)], 4),
    ];
    for (rows, row_no) in cases {
        let (mut stream, mut store) = opened();
        let taken = offer(&mut stream, &mut store, 2, 1, plain, &rows);
        assert_eq!(refusal(taken), (Reason::OrderIdChanged, 2, row_no));
        assert_eq!(store.head(), ChangeId::START);
        // A replay takes a batch that an earlier version took.
        let head = SourceBatch {
            batch_no: BatchNo(2),
            sending_time: Nanos(1),
            session_id: SESSION,
            epoch: Epoch(1),
            source_id: SOURCE,
            flags: plain,
        };
        let mut entry = Vec::new();
        let rows = rows.iter().map(|it| (it.row, &it.attributes[..]));
        weir_wire::dialogue::put_source_batch(&head, rows, &mut entry);
        assert_eq!(stream.replay(&entry, &mut store), Ok(()));
    }
    // The same order may change, and the tombstone of an unknown record gives it to nobody.
    let (mut stream, mut store) = opened();
    let mut tombstone = of_other(12, 7);
    tombstone.row.flags = RowFlags::TOMBSTONE;
    let rows = [record(10, 5), record(10, 6), record(11, 5), tombstone, record(13, 7)];
    let taken = offer(&mut stream, &mut store, 2, 1, plain, &rows);
    assert!(matches!(taken, BatchOutcome::Stands(_)), "{taken:?}");
}

#[test]
fn a_record_number_far_ahead_refuses_its_batch_and_changes_nothing() {
    let plain = BatchFlags::default();
    let (mut stream, mut store) = opened();
    let far = record(9, 1 << 40);
    let taken = offer(&mut stream, &mut store, 2, 1, plain, &[record(3, 1), far.clone()]);
    assert_eq!(refusal(taken), (Reason::RecTooFar, 2, 2));
    assert!(store.get(Rec(1)).is_none() && stream.is_whole());
    // A jump is also one within a batch.
    let _ = stream.open(&open_of(1, ChangeId::START, Switch::Off), 1, &mut store).unwrap();
    let rows = [record(3, 1), record(4, 1 << 24), record(5, 1 << 25), record(6, 1 << 27)];
    let taken = offer(&mut stream, &mut store, 2, 1, plain, &rows);
    assert_eq!(refusal(taken), (Reason::RecTooFar, 2, 4));
    let _ = stream.open(&open_of(1, ChangeId::START, Switch::Off), 1, &mut store).unwrap();
    let taken = offer(&mut stream, &mut store, 2, 1, plain, &[record(3, 1), record(9, 2)]);
    assert!(matches!(taken, BatchOutcome::Stands(ack) if ack.batch_no == BatchNo(2)), "{taken:?}");
    assert_eq!(store.head(), ChangeId::new(Seq(9), Rec(2)));
}

#[test]
fn a_source_opens_by_what_the_store_knows_of_it() {
    let (on, off) = (Switch::On, Switch::Off);
    let mut fresh = SourceStream::new(SOURCE, WINDOW);
    let refused = fresh.open(&open_of(5, ChangeId::START, off), 1, &mut store()).unwrap_err();
    assert_eq!(refused.reason, Reason::ResendNeeded);
    let head = ChangeId::new(Seq(3), Rec(1));
    let before = ChangeId::new(Seq(2), Rec(9));
    let cases = [
        (0, ChangeId::START, off, Err(Reason::EpochWentBack)),
        (1, ChangeId::START, off, Ok(3)),
        (1, ChangeId::START, on, Err(Reason::ResendNeedsEpoch)),
        (2, head, off, Ok(1)),
        (2, before, off, Err(Reason::ResendNeeded)),
        (2, before, on, Ok(1)),
        (3, head, off, Ok(1)),
        (3, head, on, Ok(1)),
    ];
    for (epoch, valid, full, want) in cases {
        let (mut stream, mut store) = opened();
        let _ = offer(&mut stream, &mut store, 2, 1, BatchFlags::default(), &[record(3, 1)]);
        let answer = stream.open(&open_of(epoch, valid, full), 1, &mut store);
        let answer = answer.map(|opened| opened.next_batch_no.0).map_err(|reject| reject.reason);
        assert_eq!(answer, want, "epoch {epoch} {full:?}");
    }
    let (mut stream, mut store) = opened();
    let of_another = OpenSource { valid_epoch: Epoch(7), ..open_of(8, head, off) };
    let answer = stream.open(&of_another, 1, &mut store).map_err(|reject| reject.reason);
    assert_eq!(answer, Err(Reason::ResendNeeded), "what came between is not known");
    let answer = stream.open(&open_of(2, head, off), 2, &mut store).map_err(|r| r.reason);
    assert_eq!(answer, Err(Reason::SourceAlreadyOpen));
    stream.close(1);
    let _ = stream.open(&open_of(2, head, off), 2, &mut store).unwrap();
    let again = stream.open(&open_of(2, head, on), 2, &mut store).map_err(|r| r.reason);
    assert_eq!(again, Err(Reason::ResendNeedsEpoch), "the epoch began without one");
    let _ = stream.open(&open_of(3, head, on), 2, &mut store).unwrap();
    let again = stream.open(&open_of(3, head, on), 2, &mut store).map(|o| o.next_batch_no);
    assert_eq!(again, Ok(BatchNo(1)), "the answer may have been lost");
}

#[test]
fn batches_out_of_turn_are_told_and_never_taken() {
    let plain = BatchFlags::default();
    let (mut stream, mut store) = opened();
    let told = offer(&mut stream, &mut store, 4, 1, plain, &[record(4, 1)]);
    assert!(matches!(told, BatchOutcome::Gap(gap) if gap.next_batch_no == BatchNo(2)), "{told:?}");
    assert_eq!(offer(&mut stream, &mut store, 5, 1, plain, &[record(5, 1)]), BatchOutcome::Early);
    assert_eq!(stream.remind(Nanos(1)), None, "told once, and again after a time");
    assert!(stream.remind(Nanos(1 + GAP_INTERVAL.0)).is_some());
    assert_eq!(store.head(), ChangeId::START);
    let both = BatchFlags::RESEND_BEGIN.with(BatchFlags::RESEND_END);
    let again = offer(&mut stream, &mut store, 1, 1, both, &[]);
    assert!(matches!(again, BatchOutcome::Stands(ack) if ack.batch_no == BatchNo(1)), "{again:?}");
    assert_eq!((store.head(), stream.counters().duplicates), (ChangeId::START, 1));
    let cases = [
        ((10, 1, plain), Reason::WindowOverrun),
        ((1, 1, plain), Reason::BatchChanged),
        ((2, 2, plain), Reason::EpochNotOpen),
        ((0, 1, plain), Reason::BatchOutOfRange),
        ((u64::MAX, 1, plain), Reason::BatchOutOfRange),
        ((2, 1, BatchFlags::RESEND_BEGIN), Reason::ResendMisplaced),
        ((2, 1, BatchFlags::RESEND_END), Reason::ResendMisplaced),
    ];
    for ((number, epoch, flags), reason) in cases {
        let (mut stream, mut store) = opened();
        let taken = offer(&mut stream, &mut store, number, epoch, flags, &[]);
        assert_eq!(refusal(taken), (reason, number, 0));
        let taken = offer(&mut stream, &mut store, 2, 1, plain, &[]);
        assert_eq!(refusal(taken).0, Reason::SourceNotOpen, "after {reason:?}");
    }
}

#[test]
fn what_a_full_resend_leaves_out_is_gone_and_tokens_beyond_the_valid_place_are_refused() {
    let plain = BatchFlags::default();
    let (mut stream, mut store) = opened();
    let rows = [record(3, 1), record(3, 2), record(4, 3)];
    let _ = offer(&mut stream, &mut store, 2, 1, plain, &rows);
    let _ = offer(&mut stream, &mut store, 3, 1, plain, &[record(7, 2)]);
    let valid = ChangeId::new(Seq(3), Rec(2));
    let answer = stream.open(&open_of(2, valid, Switch::On), 1, &mut store).unwrap();
    assert_eq!((answer.next_batch_no, answer.head_seq.0), (BatchNo(1), 7));
    assert_eq!((stream.sweep(9, &mut store), stream.is_sweeping()), (None, false));
    let _ = offer(&mut stream, &mut store, 1, 2, BatchFlags::RESEND_BEGIN, &[record(8, 1)]);
    assert!(!stream.is_whole());
    assert!(store.get(Rec(2)).is_some(), "what is not there yet may still come");
    let ends = offer(&mut stream, &mut store, 2, 2, BatchFlags::RESEND_END, &[record(8, 4)]);
    assert_eq!(ends, BatchOutcome::Sweeps);
    assert_eq!(stream.sweep(2, &mut store), None, "two records are looked at");
    assert!(stream.sweep(9, &mut store).is_some_and(|ack| ack.batch_no == BatchNo(2)));
    let left: Vec<u64> = (1..9).filter(|rec| store.get(Rec(*rec)).is_some()).collect();
    assert_eq!((left, stream.counters().swept), (vec![1, 4], 2));
    let at = |seq, rec| ChangeId::new(Seq(seq), Rec(rec));
    let legal = |change_id| store.check(Epoch(1), change_id, &Filter::ALL).is_ok();
    assert_eq!([at(3, 1), at(3, 2), at(3, 3), at(7, 2)].map(legal), [true, true, false, false]);
    // The end of the resend has taken the next `seq`, whether anything was deleted or not.
    let taken = offer(&mut stream, &mut store, 3, 2, plain, &[record(9, 5)]);
    assert_eq!(refusal(taken), (Reason::PlaceWentBack, 3, 1));
}

fn ended(seq: u64, rec: u64) -> Record {
    let mut record = record(seq, rec);
    record.row.ord_status = OrdStatus::Filled;
    record
}

/// Returns a store's rows after a place: `seq`, `rec` and whether it is a tombstone.
fn told(store: &OrderStore, after: ChangeId) -> Vec<(u64, u64, bool)> {
    let limits = PageLimits { rows_max: 100, bytes_max: 1 << 20, scan_max: 100 };
    let mut selection = Selection::default();
    let _ = store.select(after, &Filter::ALL, &limits, &mut selection);
    let row = |row: &OrderRow| (row.seq.0, row.rec.0, row.flags == RowFlags::TOMBSTONE);
    store.rows(&selection).iter().map(row).collect()
}

/// Each record is left out by the resend: 1 is live, 2 ended, 3 ended after the valid place.
#[test]
fn the_end_of_an_order_keeps_its_place_beside_a_tombstone() {
    let (mut stream, mut store) = opened();
    let rows = [record(3, 1), record(3, 2), record(3, 3), ended(4, 2), ended(5, 3)];
    let _ = offer(&mut stream, &mut store, 2, 1, BatchFlags::default(), &rows);
    let valid = ChangeId::new(Seq(4), Rec(2));
    let _ = stream.open(&open_of(2, valid, Switch::On), 1, &mut store).unwrap();
    assert!(stream.is_voiding());
    assert_eq!((stream.sweep(1, &mut store), stream.is_sweeping()), (None, false));
    assert_eq!(told(&store, ChangeId::START), [(3, 1, false), (4, 2, false), (5, 3, true)]);
    let both = BatchFlags::RESEND_BEGIN.with(BatchFlags::RESEND_END);
    let _ = offer(&mut stream, &mut store, 1, 2, both, &[record(6, 4)]);
    assert!(stream.sweep(9, &mut store).is_some());
    let end = [(4, 2, false), (5, 3, true), (6, 4, false), (7, 1, true), (7, 2, true)];
    assert_eq!(told(&store, ChangeId::START), end);
    assert_eq!((store.live_count(), store.ended_count()), (1, 4));
    // A deletion by the core is told in the same way, and a second one not at all.
    let tombstone = |seq| {
        let mut tombstone = record(seq, 4);
        tombstone.row.flags = RowFlags::TOMBSTONE;
        tombstone
    };
    let rows = [ended(8, 4), tombstone(9), tombstone(10)];
    let _ = offer(&mut stream, &mut store, 2, 2, BatchFlags::default(), &rows);
    let after = ChangeId::new(Seq(7), Rec(2));
    assert_eq!(told(&store, after), [(8, 4, false), (9, 4, true)]);
    assert_eq!(store.head(), ChangeId::new(Seq(10), Rec(4)));
}

/// A state from before ends of orders became void has no valid place: each end counts as void.
#[test]
fn voiding_goes_on_from_the_state_of_a_stream() {
    let rows: Vec<Record> = (1..6).map(|rec| record(3, rec)).collect();
    let ends: Vec<Record> = (1..6).map(|rec| ended(4, rec)).collect();
    let (mut stream, mut store) = opened();
    let _ = offer(&mut stream, &mut store, 2, 1, BatchFlags::default(), &rows);
    let _ = offer(&mut stream, &mut store, 3, 1, BatchFlags::default(), &ends);
    let valid = ChangeId::new(Seq(4), Rec(2));
    let _ = stream.open(&open_of(2, valid, Switch::On), 1, &mut store).unwrap();
    assert_eq!(stream.sweep(1, &mut store), None);
    assert!(stream.is_voiding(), "one of three is looked at");
    let mut state = Vec::new();
    stream.put_state(&mut state);
    for (has_place, want) in [(true, [false, false, true, true, true]), (false, [true; 5])] {
        let (mut state, mut store) = (state.clone(), store.clone());
        if !has_place {
            state[18..34].fill(0);
        }
        let mut stream = SourceStream::from_state(SOURCE, WINDOW, &state).unwrap();
        let _ = stream.end_replay(&mut store);
        assert!(!stream.is_sweeping());
        let told: Vec<bool> = told(&store, ChangeId::START).iter().map(|row| row.2).collect();
        assert_eq!(told, want);
    }
}

#[test]
fn a_replayed_opening_may_disown_a_resends_tombstones_and_no_row() {
    let (mut stream, mut store) = opened();
    let plain = BatchFlags::default();
    let _ = offer(&mut stream, &mut store, 2, 1, plain, &[record(3, 1), record(3, 2)]);
    let at = |seq, rec| ChangeId::new(Seq(seq), Rec(rec));
    let _ = stream.open(&open_of(2, at(3, 2), Switch::On), 1, &mut store).unwrap();
    let both = BatchFlags::RESEND_BEGIN.with(BatchFlags::RESEND_END);
    let _ = offer(&mut stream, &mut store, 1, 2, both, &[record(4, 1)]);
    assert!(stream.sweep(9, &mut store).is_some());
    assert_eq!(store.head(), at(5, 2), "the tombstone of the second record");
    let replayed = |valid_to, stream: &mut SourceStream, store: &mut OrderStore| {
        let mut entry = Vec::new();
        let open = open_of(stream.epoch().0 + 1, valid_to, Switch::Off);
        let open = OpenSource { valid_epoch: stream.epoch(), ..open };
        weir_wire::frame::put_frame(&open, &mut entry);
        stream.close(1);
        stream.replay(&entry, store)
    };
    // The original, which had discarded that record, ended with the row before.
    assert_eq!(replayed(at(4, 1), &mut stream, &mut store), Ok(()));
    let legal = |change_id| store.check(Epoch(2), change_id, &Filter::ALL).is_ok();
    assert_eq!([at(4, 1), at(5, 2), at(6, 1)].map(legal), [true, true, false]);
    let _ = stream.open(&open_of(3, at(0, 0), Switch::Off), 1, &mut store).unwrap();
    let _ = offer(&mut stream, &mut store, 1, 3, plain, &[record(7, 3)]);
    let disowns = replayed(at(6, 1), &mut stream, &mut store);
    assert_eq!(disowns, Err(ReplayError::Refused(Reason::ResendNeeded)));
}
