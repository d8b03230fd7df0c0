//! A store at its limit of memory takes a batch as a whole or not at all, and stays below the
//! limit.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

use weir_delivery::OrderStore;
use weir_delivery::memory::EVENT_GROWTH_MAX;
use weir_delivery::stream::{BatchOutcome, SourceStream};
use weir_types::{ChangeId, FirmId, Nanos, OrdStatus, Reason, Rec, Seq, Switch};
use weir_wire::delivery::OrderRow;
use weir_wire::ingest::BatchFlags;

use crate::core::{Random, Record};
use crate::{offer, open_of, opened, refusal};

const PLAIN: BatchFlags = BatchFlags(0);

fn row(seq: u64, rec: u64, len: usize) -> Record {
    Record::new(ChangeId::new(Seq(seq), Rec(rec)), 1, vec![1; len])
}

fn reopen(stream: &mut SourceStream, store: &mut OrderStore) {
    let _ = stream.open(&open_of(1, ChangeId::START, Switch::Off), 1, store).unwrap();
}

/// Returns a stream and its store, which has room for some hundred rows of 600 bytes more.
fn nearly_full() -> (SourceStream, OrderStore) {
    let (stream, mut store) = opened();
    store.set_bytes_max(store.memory().total + EVENT_GROWTH_MAX + 400_000);
    (stream, store)
}

/// A batch was taken up to the first row for which there was no room: readers saw these rows, and
/// the core could send others under their places.
#[test]
pub fn a_batch_without_room_for_all_of_its_rows_changes_nothing() {
    for flags in [PLAIN, BatchFlags::RESEND_BEGIN] {
        let (mut stream, mut store) = nearly_full();
        let (mut number, mut epoch) = (2, 1);
        if flags == BatchFlags::RESEND_BEGIN {
            let _ = stream.open(&open_of(2, store.head(), Switch::On), 1, &mut store).unwrap();
            (number, epoch) = (1, 2);
        }
        let rows: Vec<Record> = (1..1_000).map(|rec| row(9, rec, 600)).collect();
        let before = (store.head(), stream.is_whole());
        let taken = offer(&mut stream, &mut store, number, epoch, flags, &rows);
        let (reason, batch_no, row_no) = refusal(taken);
        assert_eq!((reason, batch_no), (Reason::StoreFull, number));
        assert!((10..990).contains(&row_no), "{row_no}");
        assert_eq!((store.head(), stream.is_whole()), before);
        assert_eq!((store.live_count(), store.get(Rec(1))), (0, None));
        // The rows before the named one have room, and may be others.
        let _ = stream.open(&open_of(epoch, ChangeId::START, Switch::Off), 1, &mut store).unwrap();
        let mut fewer = rows[..row_no as usize - 1].to_vec();
        fewer[0].row.firm_id = FirmId(2);
        let taken = offer(&mut stream, &mut store, number, epoch, flags, &fewer);
        assert!(matches!(taken, BatchOutcome::Stands(_)), "{taken:?}");
        assert_eq!(store.live_count(), row_no - 1);
        assert!(store.memory().total <= store.bytes_max());
    }
}

#[test]
fn a_full_store_takes_changes_that_need_no_room_and_makes_room_by_removing_ends() {
    let (mut stream, mut store) = nearly_full();
    let (mut number, mut rec) = (2, 0);
    loop {
        let rows: Vec<Record> = (1..=12).map(|at| row(number, rec + at, 600)).collect();
        if let BatchOutcome::Rejected(reject) =
            offer(&mut stream, &mut store, number, 1, PLAIN, &rows)
        {
            assert_eq!(reject.reason, Reason::StoreFull);
            reopen(&mut stream, &mut store);
            break;
        }
        (number, rec) = (number + 1, rec + 12);
    }
    let touched: Vec<Record> = (1..=rec).map(|rec| row(number, rec, 600)).collect();
    let taken = offer(&mut stream, &mut store, number, 1, PLAIN, &touched);
    assert!(matches!(taken, BatchOutcome::Stands(_)), "in place: {taken:?}");
    // A third of the orders end.
    let mut ends: Vec<Record> = (1..=rec / 3).map(|rec| row(number + 1, rec, 600)).collect();
    ends.iter_mut().for_each(|record| record.row.ord_status = OrdStatus::Filled);
    let taken = offer(&mut stream, &mut store, number + 1, 1, PLAIN, &ends);
    assert!(matches!(taken, BatchOutcome::Stands(_)), "in place: {taken:?}");
    let fresh: Vec<Record> = (1..=rec / 4).map(|at| row(number + 2, rec + at, 600)).collect();
    let taken = offer(&mut stream, &mut store, number + 2, 1, PLAIN, &fresh);
    assert!(matches!(taken, BatchOutcome::Stands(_)), "in the place of ends: {taken:?}");
    assert!(store.early_count() > 0);
    assert!(store.memory().total <= store.bytes_max());
}

/// Batches of any kind, at a limit that the store reaches: each is taken as a whole or not at all.
#[test]
fn no_row_of_a_refused_batch_is_ever_in_the_store() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let (mut stream, mut store) = nearly_full();
        let (mut number, mut full_count) = (2, 0);
        for seq in 2..200 {
            let count = 1 + random.below(80);
            let mut rows: Vec<Record> = Vec::new();
            for _ in 0..count {
                let rec = rows.last().map_or(0, |row| row.row.rec.0) + 1 + random.below(12);
                let mut row = row(seq, rec, random.below(2) as usize * 576);
                row.row.firm_id = FirmId(1 + random.below(3) as u32);
                row.row.transact_time = Nanos(seq);
                if random.below(3) == 0 {
                    row.row.ord_status = OrdStatus::Filled;
                }
                rows.push(row);
            }
            let head = store.head();
            match offer(&mut stream, &mut store, number, 1, PLAIN, &rows) {
                BatchOutcome::Stands(_) => number += 1,
                BatchOutcome::Rejected(reject) => {
                    assert_eq!(reject.reason, Reason::StoreFull);
                    assert!(reject.row_no >= 1 && u64::from(reject.row_no) <= count);
                    assert_eq!(store.head(), head);
                    let is_new = |row: OrderRow| row.seq == Seq(seq);
                    let mut recs = rows.iter().map(|row| row.row.rec);
                    assert!(!recs.any(|rec| store.get(rec).is_some_and(is_new)));
                    full_count += 1;
                    reopen(&mut stream, &mut store);
                }
                other => panic!("{other:?}"),
            }
            assert!(store.memory().total <= store.bytes_max(), "seed {seed} at {seq}");
        }
        assert!(full_count > 0 && number > 10, "seed {seed}: {full_count} of {number}");
    }
}
