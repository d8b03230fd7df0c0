//! Holes between the archive and the changes that it is handed: it begins anew behind them.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod support;

use support::*;
use weir_cold::{Archive, Batch, Filter, PageLimits, Resync};
use weir_io::SimDisk;
use weir_types::{ChangeId, Epoch, OrdStatus, Rec, Seq};

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
