//! The restart of a source's store: arbitrary bytes as entries of its log, as the stream's state
//! and as a snapshot; and a real snapshot with a mutation.
//!
//! Checks that nothing panics, that a store after any entries gives a snapshot from which an equal
//! store is restored, that a mutated byte is refused, and that a mutated chunk with a recomputed
//! checksum is refused or restores a store that serves.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_delivery::replay::STREAM_STATE_LEN;
use weir_delivery::snapshot::{CHUNK_HEADER_LEN, ChunkOutcome, Restore};
use weir_delivery::stream::{SourceStream, Window};
use weir_delivery::{Filter, OrderStore, StoreConfig};
use weir_fuzz::Recipe;
use weir_types::{
    AccountId, BatchNo, ClOrdId, Epoch, ExecInst, ExecType, FirmId, InstrumentId, Nanos, OrdStatus,
    OrdType, OrderId, PartitionId, Price, Qty, Reason, Rec, Seq, SessionId, Side, Switch,
    TimeInForce,
};
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::dialogue::put_source_batch;
use weir_wire::frame::put_frame;
use weir_wire::ingest::{BatchFlags, OpenSource, SourceBatch};

const SOURCE: PartitionId = PartitionId(40);
const SESSION: SessionId = SessionId(30);
const CONFIG: StoreConfig = StoreConfig::new(SOURCE, Epoch::NONE);
const WINDOW: Window = Window { batches: 16, bytes: 1 << 20 };
/// The length of a snapshot's chunk in bytes.
const CHUNK_LEN: usize = 2_000;
/// The offset of a chunk's checksum; it covers everything else.
const CRC_AT: usize = 20;

fuzz_target!(|bytes: &[u8]| {
    drop(OrderStore::restore(CONFIG, bytes));
    drop(SourceStream::from_state(SOURCE, WINDOW, bytes));
    let mut recipe = Recipe::new(bytes);
    let mut stream = SourceStream::new(SOURCE, WINDOW);
    let mut store = OrderStore::new(CONFIG);
    let mut next = BatchNo(1);
    for _ in 0..recipe.byte() % 32 {
        let entry = entry(&mut recipe, &mut next);
        // A real restart stops at a refused entry; continuing shows that it is harmless.
        let _ = stream.replay(&entry, &mut store);
    }
    let mut state = Vec::new();
    stream.put_state(&mut state);
    assert_eq!(state.len(), STREAM_STATE_LEN);
    assert!(SourceStream::from_state(SOURCE, WINDOW, &state).is_some(), "its own state");
    let chunks = snapshot_of(&mut store);
    let whole = chunks.concat();
    let restored = OrderStore::restore(CONFIG, &whole).expect("its own snapshot");
    let of = |store: &OrderStore| {
        (store.head(), store.floor(), store.epoch(), store.digest(&Filter::ALL))
    };
    assert_eq!(of(&restored), of(&store));
    damage(&mut recipe, &chunks);
});

/// Makes an opening, a batch, or arbitrary bytes.
fn entry(recipe: &mut Recipe<'_>, next: &mut BatchNo) -> Vec<u8> {
    let mut frame = Vec::new();
    match recipe.byte() % 8 {
        0 => frame = weir_fuzz::shaped_stream(recipe.bytes_up_to(255)),
        1 | 2 => {
            let open = OpenSource {
                valid_seq: Seq(u64::from(recipe.short())),
                valid_rec: Rec(u64::from(recipe.byte())),
                session_id: SESSION,
                epoch: Epoch(u32::from(recipe.byte() % 4)),
                valid_epoch: Epoch(u32::from(recipe.byte() % 4)),
                source_id: SOURCE,
                full_resend: if recipe.one_in(2) { Switch::On } else { Switch::Off },
            };
            put_frame(&open, &mut frame);
            *next = BatchNo(1);
        }
        _ => {
            let rows: Vec<_> =
                (0..recipe.byte() % 6).map(|_| (row(recipe), recipe.bytes_up_to(40))).collect();
            let batch = SourceBatch {
                batch_no: if recipe.one_in(9) { BatchNo(recipe.number()) } else { *next },
                sending_time: Nanos(1),
                session_id: SESSION,
                epoch: Epoch(u32::from(recipe.byte() % 4)),
                source_id: SOURCE,
                flags: if recipe.one_in(4) {
                    BatchFlags::RESEND_END
                } else {
                    BatchFlags::default()
                },
            };
            put_source_batch(&batch, rows, &mut frame);
            *next = BatchNo(next.0 + 1);
        }
    }
    frame
}

/// Makes a row with places and keys close to each other, and any status.
fn row(recipe: &mut Recipe<'_>) -> OrderRow {
    let rec = Rec(1 + u64::from(recipe.byte()));
    let keys = recipe.byte();
    let (ord_status, exec_type) = match recipe.byte() % 4 {
        0 => (OrdStatus::New, ExecType::New),
        1 => (OrdStatus::Filled, ExecType::Trade),
        2 => (OrdStatus::Canceled, ExecType::Canceled),
        _ => (OrdStatus::PartiallyFilled, ExecType::Trade),
    };
    OrderRow {
        rec,
        seq: Seq(u64::from(recipe.short())),
        order_id: OrderId::new(SOURCE, rec),
        transact_time: Nanos(recipe.number()),
        created_time: Nanos(1),
        cl_ord_id: ClOrdId::NONE,
        price: Price(100),
        stop_px: Price(0),
        last_px: Price(0),
        last_qty: Qty::ZERO,
        order_qty: Qty(10),
        leaves_qty: Qty(u64::from(recipe.byte())),
        cum_qty: Qty::ZERO,
        expire_time: Nanos(0),
        merged_count: u32::from(recipe.byte()),
        session_id: SessionId(1),
        firm_id: FirmId(u32::from(keys % 3)),
        account_id: AccountId(u32::from(keys / 3 % 3)),
        instrument_id: InstrumentId(u32::from(keys / 9 % 3)),
        partition_id: SOURCE,
        reason: Reason::None,
        side: Side::Buy,
        ord_type: OrdType::Limit,
        time_in_force: TimeInForce::Day,
        exec_inst: ExecInst::NONE,
        exec_type,
        ord_status,
        flags: RowFlags(recipe.byte() % 8),
        display_qty: Qty::ZERO,
    }
}

fn snapshot_of(store: &mut OrderStore) -> Vec<Vec<u8>> {
    store.begin_snapshot();
    let mut chunks = Vec::new();
    loop {
        let mut chunk = Vec::new();
        let step = store.snapshot_chunk(CHUNK_LEN, &mut chunk).expect("it was begun");
        chunks.push(chunk);
        if step == ChunkOutcome::Done {
            return chunks;
        }
    }
}

/// Mutates one byte, once without and once with a recomputed checksum.
fn damage(recipe: &mut Recipe<'_>, chunks: &[Vec<u8>]) {
    let which = usize::from(recipe.short()) % chunks.len();
    let (at, flip) = (usize::from(recipe.short()) % chunks[which].len(), recipe.byte());
    let mut damaged = chunks.to_vec();
    damaged[which][at] ^= flip;
    let refused = OrderStore::restore(CONFIG, &damaged.concat()).is_err();
    assert_eq!(refused, flip != 0, "chunk {which}, byte {at}");
    let chunk = &mut damaged[which];
    let crc = crc32c::crc32c_append(crc32c::crc32c(&chunk[..CRC_AT]), &chunk[CHUNK_HEADER_LEN..]);
    chunk[CRC_AT..CHUNK_HEADER_LEN].copy_from_slice(&crc.to_le_bytes());
    let mut restore = Restore::new(CONFIG);
    if damaged.iter().all(|chunk| restore.take(chunk).is_ok())
        && let Ok(mut store) = restore.finish()
    {
        let _ = snapshot_of(&mut store);
    }
}
