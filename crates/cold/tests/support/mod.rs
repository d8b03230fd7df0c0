//! Order stores that feed an archive, and a conversion of filters.
#![allow(dead_code)] // Each test uses a part of it.

use weir_cold::{Archive, Change, ColdConfig, ColdError, EntryKind, Filter, Keys};
use weir_delivery::{ExportedEntry, ExportedKind, Kinds, OrderStore, Retention, StoreConfig};
use weir_io::Disk;
use weir_types::*;
use weir_wire::Message;
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::rows::{put_row_count, take_rows};

pub(crate) const SOURCE: PartitionId = PartitionId(1);

pub(crate) fn keys(firm: u32, account: u32, instrument: u32) -> Keys {
    Keys {
        firm_id: FirmId(firm),
        account_id: AccountId(account),
        instrument_id: InstrumentId(instrument),
    }
}

pub(crate) fn hot_filter(filter: &Filter) -> weir_delivery::Filter {
    let Filter { firm_id, account_id, instrument_id, live_only } = *filter;
    weir_delivery::Filter { firm_id, account_id, instrument_id, live_only }
}

pub(crate) fn store(ended_max: u32) -> OrderStore {
    let retention = Retention { count_max: ended_max, bytes_max: u64::MAX };
    let config = StoreConfig::new(SOURCE, Epoch(1));
    OrderStore::new(StoreConfig { retention, kinds: Kinds::NONE, ..config })
}

pub(crate) fn config() -> ColdConfig {
    ColdConfig {
        interval: Nanos(20),
        block_entries: 3,
        merge_count: 2,
        cached_blocks: 2,
        keep_for: Nanos(u64::MAX),
        ..ColdConfig::new(SOURCE, Epoch(1))
    }
}

/// Returns the row of a change at `seq`, which is its time too.
pub(crate) fn row(seq: u64, rec: u64, keys: Keys, ord_status: OrdStatus) -> OrderRow {
    OrderRow {
        rec: Rec(rec),
        seq: Seq(seq),
        order_id: OrderId::new(SOURCE, Rec(rec)),
        transact_time: Nanos(1_000_000 + seq),
        created_time: Nanos(1_000_000),
        cl_ord_id: ClOrdId::from_number(rec),
        price: Price(100 + seq as i64 % 7),
        stop_px: Price(0),
        last_px: Price(0),
        last_qty: Qty(0),
        order_qty: Qty(10),
        leaves_qty: Qty(if ord_status.is_live() { 10 } else { 0 }),
        cum_qty: Qty(0),
        expire_time: Nanos(0),
        merged_count: 0,
        session_id: SessionId(1),
        firm_id: keys.firm_id,
        account_id: keys.account_id,
        instrument_id: keys.instrument_id,
        partition_id: SOURCE,
        reason: Reason::None,
        side: Side::Buy,
        ord_type: OrdType::Limit,
        time_in_force: TimeInForce::Day,
        exec_inst: ExecInst::NONE,
        exec_type: ExecType::New,
        ord_status,
        flags: RowFlags::default(),
        display_qty: Qty(0),
    }
}

pub(crate) fn block_of(row: &OrderRow) -> Vec<u8> {
    let mut block = Vec::new();
    row.encode_block(&mut block);
    block
}

/// Returns the attributes of this change.
pub(crate) fn attributes(seq: u64) -> Vec<u8> {
    format!("58=change {seq}|").repeat((seq % 4) as usize).into_bytes()
}

/// Feeds an archive with at most `entries_max` entries of a store, and begins anew if the store has
/// removed changes that the archive lacks; true when all were taken.
pub(crate) fn feed<D: Disk>(
    archive: &mut Archive<D>,
    store: &OrderStore,
    entries_max: u32,
) -> Result<bool, ColdError> {
    let floor = store.floor();
    if archive.fed() < floor {
        archive.begin_at(floor)?;
    }
    let mut taken = Ok(());
    let to = store.export(archive.fed(), entries_max, |entry| {
        if taken.is_ok() {
            taken = archive.take(&change_of(entry));
        }
    });
    taken?;
    archive.advance_to(to);
    Ok(to == store.head())
}

pub(crate) fn change_of<'a>(entry: &ExportedEntry<'a>) -> Change<'a> {
    let keys = |keys: weir_delivery::filter::Keys| Keys {
        firm_id: keys.firm_id,
        account_id: keys.account_id,
        instrument_id: keys.instrument_id,
    };
    Change {
        standing: match entry.exported_as {
            ExportedKind::Live => EntryKind::Live,
            ExportedKind::Ended => EntryKind::Ended,
            ExportedKind::Tombstone => EntryKind::Tombstone,
            ExportedKind::Leave => EntryKind::Leave,
        },
        first: entry.first,
        change_count: entry.change_count,
        history: entry.history,
        keys: keys(entry.keys),
        next_keys: keys(entry.next_keys),
        row: entry.block,
        attributes: entry.attributes,
    }
}

/// Returns the rows of a page, with their attributes.
pub(crate) fn rows_of(bytes: &[u8], count: u32) -> Vec<(OrderRow, Vec<u8>)> {
    let mut group = Vec::new();
    put_row_count(count as usize, &mut group);
    group.extend_from_slice(bytes);
    let (rows, rest) = take_rows(&group).expect("a page's rows are rows");
    assert!(rest.is_empty(), "a page has as many rows as it says");
    rows.map(|row| row.map(|(row, bytes)| (row, bytes.to_vec())).unwrap()).collect()
}

pub(crate) fn change_id_of(row: &OrderRow) -> ChangeId {
    ChangeId::new(row.seq, row.rec)
}

pub(crate) fn is_live(row: &OrderRow) -> bool {
    row.flags == RowFlags::default() && row.ord_status.is_live()
}
