//! The archive on its thread: it serves the changes handed over, in order, from the place asked.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod support;

use std::sync::mpsc::sync_channel;

use support::*;
use weir_cold::service::{HandOverError, Read};
use weir_cold::{
    Archive, Batch, ColdService, Filter, Pace, PageLimits, PageRefusal, Resync, ServiceConfig,
};
use weir_io::{SimClock, SimDisk};
use weir_types::{ChangeId, Epoch, Nanos, OrdStatus, Rec, Seq};

const LIMITS: PageLimits =
    PageLimits { rows_max: 7, bytes_max: u32::MAX, scan_max: u32::MAX, blocks_max: u32::MAX };

fn batch(store: &weir_delivery::OrderStore, after: ChangeId) -> Batch {
    let mut batch = Batch::after(after);
    let to = store.export(after, u32::MAX, |entry| {
        batch.push(&change_of(entry)).unwrap();
    });
    batch.to = to;
    batch
}

fn read(after: ChangeId, hot_floor: ChangeId) -> Read {
    Read { epoch: Epoch(1), after, filter: Filter::default(), limits: LIMITS, hot_floor }
}

#[test]
fn a_reader_comes_to_the_stores_floor_through_what_is_in_no_segment_yet() {
    let (archive, _) = Archive::open(SimDisk::new(1), config()).unwrap();
    let mut hot = store(u32::MAX);
    let config = ServiceConfig { queue_len: 4, pace: Pace::unlimited(), niceness: 0 };
    let service = ColdService::start(archive, SimClock::new(Nanos(1)), config).unwrap();
    for seq in 1..=50 {
        let row = row(seq, seq, keys(1, 1, 1), OrdStatus::New);
        let _ = hot.ingest_row(&block_of(&row), &[]).unwrap();
    }
    let all = batch(&hot, ChangeId::START);
    assert_eq!((all.len(), all.is_empty()), (50, false));
    service.feed(all).map_err(|(error, _)| error).unwrap();
    let (answers, answered) = sync_channel(1);
    let (mut after, mut recs) = (ChangeId::START, Vec::new());
    let hot_floor = hot.head();
    while after < hot_floor {
        service.read(read(after, hot_floor), &answers).unwrap();
        let (page, rows) = answered.recv().unwrap().unwrap();
        recs.extend(rows_of(&rows, page.row_count).iter().map(|(row, _)| row.rec.0));
        assert!(page.next > after);
        after = page.next;
    }
    assert_eq!(recs, (1..=50).collect::<Vec<u64>>());
    let refused = Read { epoch: Epoch(2), ..read(after, hot_floor) };
    service.read(refused, &answers).unwrap();
    assert_eq!(answered.recv().unwrap(), Err(PageRefusal::Resync(Resync::Epoch)));
    let archive = service.stop().unwrap();
    assert_eq!(archive.end(), hot_floor);
}

#[test]
fn questions_beyond_the_pace_wait_and_beyond_the_queue_are_refused() {
    let (mut archive, _) = Archive::open(SimDisk::new(1), config()).unwrap();
    archive.begin_at(ChangeId::new(Seq(5), Rec(1))).unwrap();
    let clock = SimClock::new(Nanos(1));
    // One row in a hundred years: the first read is answered, the second waits for ever.
    let pace = Pace::new(1, Nanos(0));
    let config = ServiceConfig { queue_len: 1, pace, niceness: 0 };
    let service = ColdService::start(archive, clock, config).unwrap();
    let (answers, answered) = sync_channel(10);
    let at = ChangeId::new(Seq(5), Rec(1));
    service.read(read(at, at), &answers).unwrap();
    let (page, _) = answered.recv().unwrap().unwrap();
    assert_eq!(page.next, at);
    let mut overloaded = 0;
    while overloaded == 0 {
        match service.read(read(at, at), &answers) {
            Ok(()) | Err(HandOverError::Full) => {}
            Err(error) => panic!("{error}"),
        }
        overloaded +=
            answered.try_iter().filter(|answer| *answer == Err(PageRefusal::Overloaded)).count();
    }
    drop(service.stop().unwrap());
}

#[test]
fn a_batch_that_leaves_a_hole_begins_the_archive_anew() {
    let (mut archive, _) = Archive::open(SimDisk::new(1), config()).unwrap();
    let mut hot = store(u32::MAX);
    for seq in 1..=20 {
        let row = row(seq, seq, keys(1, 1, 1), OrdStatus::New);
        let _ = hot.ingest_row(&block_of(&row), &[]).unwrap();
        if seq == 5 {
            archive.take_batch(&batch(&hot, ChangeId::START)).unwrap();
            assert!(archive.close().unwrap());
        }
    }
    let from = ChangeId::new(Seq(10), Rec(10));
    archive.take_batch(&batch(&hot, from)).unwrap();
    assert_eq!(archive.figures().holes, 1);
    assert_eq!((archive.floor(), archive.fed().seq), (from, Seq(20)));
    assert_eq!(archive.check(Epoch(1), ChangeId::new(Seq(9), Rec(9))), Err(Resync::Floor));
    archive.close().unwrap();
    let mut out = Vec::new();
    let page = archive.page(from, &Filter::default(), &LIMITS, &mut out).unwrap();
    assert_eq!((page.row_count, page.next.seq), (7, Seq(17)));
}
