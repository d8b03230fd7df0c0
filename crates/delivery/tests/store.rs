//! The store alone: rows of outside cores, its limits of work and memory, its snapshots, and the
//! known traps of delivery by token.

mod support;

use support::{SOURCE, block, encoded, event, keys, tombstone};
use weir_delivery::{
    ChunkOutcome, Filter, HeldOrders, IngestError, IngestOutcome, Kind, Kinds, OrderStore, Page,
    PageLimits, RawRow, Restore, RestoreError, Resync, Retention, Selection, SnapshotError,
    StoreConfig, TakenRows, memory, row_len, row_of,
};
use weir_types::{ChangeId, Epoch, FirmId, Nanos, OrdStatus, PartitionId, Qty, Rec, Seq};
use weir_wire::delivery::{OrderRow, RowFlags};
use weir_wire::{DecodeError, Message};

const CONFIG: StoreConfig = StoreConfig::new(SOURCE, Epoch(1));
const WIDE: PageLimits = PageLimits { rows_max: 60_000, bytes_max: u32::MAX, scan_max: u32::MAX };

fn of_firm(firm: u32) -> Filter {
    Filter { firm_id: FirmId(firm), ..Filter::ALL }
}

fn change_id(seq: u64, rec: u64) -> ChangeId {
    ChangeId::new(Seq(seq), Rec(rec))
}

fn say(store: &mut OrderStore, seq: u64, rec: u64, firm: u32, status: OrdStatus) {
    let _ = store.ingest(&event(seq, rec, keys(firm, 1, 1), status)).expect("in order");
}

/// Returns a page's rows by (`seq`, `rec`), and the page.
fn page(
    store: &OrderStore,
    after: ChangeId,
    filter: &Filter,
    limits: PageLimits,
) -> (Vec<(u64, u64)>, Page) {
    let mut selection = Selection::default();
    let page = store.select(after, filter, &limits, &mut selection);
    let rows = store.rows(&selection);
    (rows.iter().map(|row| (row.seq.0, row.rec.0)).collect(), page)
}

fn with_field(bytes: &[u8], name: &str, value: &[u8]) -> Vec<u8> {
    let field = OrderRow::FIELDS.iter().find(|field| field.name == name).expect("a field");
    let mut bytes = bytes.to_vec();
    bytes[field.offset..field.offset + value.len()].copy_from_slice(value);
    bytes
}

// ---------------------------------------------------------------- rows of outside cores

#[test]
fn a_row_comes_out_as_it_came_in_with_its_attributes() {
    let mut store = OrderStore::new(CONFIG);
    let attributes: Vec<u8> = (0..600u16).map(|at| at as u8).collect();
    let bytes = block(7, 3, keys(1, 2, 3), OrdStatus::New);
    assert_eq!(store.ingest_row(&bytes, &attributes), Ok(IngestOutcome::Inserted));
    assert_eq!(store.attributes(Rec(3)), Some(&attributes[..]));
    assert_eq!(encoded(&store.get(Rec(3)).unwrap()), bytes);
    // A longer block, of a later version, is read up to the fields that this version knows.
    let longer = [&block(8, 3, keys(1, 2, 3), OrdStatus::Filled)[..], b"later"].concat();
    assert_eq!(store.ingest_row(&longer, b"short"), Ok(IngestOutcome::Updated));
    assert_eq!(store.attributes(Rec(3)), Some(&b"short"[..]));
    assert_eq!((store.live_count(), store.ended_count()), (0, 1));
}

#[test]
fn a_row_that_cannot_be_is_refused_by_its_field_and_changes_nothing() {
    let mut store = OrderStore::new(CONFIG);
    say(&mut store, 5, 1, 1, OrdStatus::New);
    let good = block(6, 2, keys(1, 1, 1), OrdStatus::New);
    let field = |bytes: &[u8]| match OrderRow::decode_block(bytes) {
        Err(error) => IngestError::Row(error),
        Ok(_) => panic!("it decodes"),
    };
    let jump = block(6, 1 << 40, keys(1, 1, 1), OrdStatus::New);
    let cases = [
        (with_field(&good, "side", &[9]), "side"),
        (with_field(&good, "ord_status", &[250]), "ord_status"),
        (with_field(&good, "flags", &[8]), "flags"),
    ];
    for (bytes, name) in cases {
        let error = store.ingest_row(&bytes, &[]).unwrap_err();
        assert_eq!(error, field(&bytes));
        assert!(error.to_string().contains(name), "{error} names {name}");
    }
    let long = store.ingest_row(&good, &[0; 601]).unwrap_err();
    assert!(long.to_string().contains("attributes"), "{long}");
    let short = store.ingest_row(&good[1..], &[]);
    assert!(matches!(short, Err(IngestError::Row(DecodeError::BlockTooShort { .. }))));
    let leave = with_field(&good, "flags", &[RowFlags::LEAVE.0]);
    assert_eq!(store.ingest_row(&leave, &[]), Err(IngestError::LeaveFlag));
    let other = with_field(&good, "partition_id", &2u16.to_le_bytes());
    let wrong = IngestError::WrongSource { got: PartitionId(2), want: SOURCE };
    assert_eq!(store.ingest_row(&other, &[]), Err(wrong));
    let none = with_field(&good, "rec", &0u64.to_le_bytes());
    assert_eq!(store.ingest_row(&none, &[]), Err(IngestError::NoRecord));
    assert_eq!(store.ingest_row(&jump, &[]), Err(IngestError::RecJump(Rec(1 << 40))));
    assert_eq!((store.head(), store.live_count()), (change_id(5, 1), 1));
    assert_eq!(store.ingest_row(&good, &[1; 600]), Ok(IngestOutcome::Inserted));
}

#[test]
fn a_batch_is_what_its_rows_are_one_by_one_and_ends_at_the_first_that_is_refused() {
    let blocks: Vec<Vec<u8>> = (1..=200)
        .map(|seq| block(seq, seq * 7 % 90 + 1, keys(1 + seq as u32 % 3, 1, 1), OrdStatus::New))
        .collect();
    let row = |block| RawRow { block, attributes: b"batched" };
    let mut rows: Vec<RawRow<'_>> = blocks.iter().map(|block| row(&block[..])).collect();
    let (mut whole, mut single) = (OrderStore::new(CONFIG), OrderStore::new(CONFIG));
    for row in &rows {
        let _ = single.ingest_row(row.block, row.attributes).unwrap();
    }
    let all = TakenRows { count: 200, repeated_count: 0, error: None };
    assert_eq!(whole.ingest_rows(&rows), all);
    assert_eq!(whole.ingest_rows(&rows), TakenRows { repeated_count: 200, ..all }, "sent again");
    let rows_of = |store: &OrderStore| page(store, ChangeId::START, &Filter::ALL, WIDE).0;
    assert_eq!(rows_of(&whole), rows_of(&single));
    assert_eq!(whole.digest(&of_firm(2)), single.digest(&of_firm(2)));
    let wrong = with_field(&blocks[150], "side", &[77]);
    rows[150] = row(&wrong);
    rows[40] = row(&blocks[40][..3]);
    let mut store = OrderStore::new(CONFIG);
    let taken = store.ingest_rows(&rows);
    assert!(taken.count == 40 && matches!(taken.error, Some(IngestError::Row(_))), "{taken:?}");
    assert_eq!(store.head().seq, Seq(40));
    assert_eq!(store.ingest_rows(&rows[41..]).count, 109);
}

#[test]
fn a_tombstone_takes_a_record_away_and_one_of_an_unknown_record_only_moves_the_head() {
    let mut store = OrderStore::new(CONFIG);
    let live = block(1, 1, keys(4, 1, 1), OrdStatus::New);
    assert_eq!(store.ingest_row(&live, b"seen"), Ok(IngestOutcome::Inserted));
    assert_eq!(store.ingest_row(&tombstone(2, 1), &[]), Ok(IngestOutcome::Updated));
    assert_eq!((store.get(Rec(1)), store.memory().attributes), (None, 0));
    let mut selection = Selection::default();
    store.select(ChangeId::START, &of_firm(4), &WIDE, &mut selection);
    let rows = store.rows(&selection);
    assert_eq!(rows.len(), 1, "readers of the old key hear of it");
    assert!(rows[0].flags == RowFlags::TOMBSTONE && rows[0].order_id == event_order_id(1));
    assert_eq!(store.ingest_row(&tombstone(3, 9), &[]), Ok(IngestOutcome::Unknown));
    assert_eq!(store.head(), change_id(3, 9));
}

fn event_order_id(rec: u64) -> weir_types::OrderId {
    row_of(&event(1, rec, keys(1, 1, 1), OrdStatus::New)).order_id
}

// ---------------------------------------------------------------- pages

#[test]
fn a_page_has_no_more_bytes_than_asked_for_unless_its_only_row_has() {
    let mut store = OrderStore::new(CONFIG);
    for rec in 1..=20 {
        let bytes = block(rec, rec, keys(1, 1, 1), OrdStatus::New);
        let _ = store.ingest_row(&bytes, &vec![7; rec as usize * 30]).unwrap();
    }
    let (mut after, mut seen) = (ChangeId::START, Vec::new());
    for bytes_max in [1u32, 200, 1_000, 1_001, 2_000, 700, 1, 10_000, 10_000] {
        let limits = PageLimits { bytes_max, ..WIDE };
        let (rows, page) = page(&store, after, &Filter::ALL, limits);
        let bytes: usize = rows.iter().map(|(_, rec)| row_len(*rec as usize * 30)).sum();
        assert_eq!(page.byte_count as usize, bytes);
        assert!(bytes <= bytes_max as usize || rows.len() == 1, "{bytes} of {bytes_max}");
        let next = rows.last().map_or(21, |(_, rec)| rec + 1);
        let is_full = next > 20 || bytes + row_len(next as usize * 30) > bytes_max as usize;
        assert!(is_full, "no smaller than it must be");
        seen.extend(rows);
        after = page.next;
    }
    assert_eq!(seen, (1..=20).map(|rec| (rec, rec)).collect::<Vec<_>>());
}

#[test]
fn a_filter_without_a_ring_of_its_own_scans_within_its_budget_and_says_so() {
    let single = StoreConfig { kinds: Kinds::NONE.and(Kind::Instrument), ..CONFIG };
    let mut store = OrderStore::new(single);
    for rec in 1..=100 {
        say(&mut store, rec, rec, if rec == 100 { 2 } else { 1 }, OrdStatus::New);
    }
    let limits = PageLimits { scan_max: 40, ..WIDE };
    assert!(!store.is_indexed(&of_firm(2)) && store.digest(&of_firm(2)).is_none());
    let (rows, first) = page(&store, ChangeId::START, &of_firm(2), limits);
    assert!(rows.is_empty() && first.is_scan && first.is_cut && first.scan_count == 40);
    assert_eq!(first.next, change_id(40, 40), "its reader moves on all the same");
    let (_, second) = page(&store, first.next, &of_firm(2), limits);
    assert_eq!(page(&store, second.next, &of_firm(2), limits).0, [(100, 100)]);
    let instrument = Filter { instrument_id: keys(1, 1, 1).instrument_id, ..Filter::ALL };
    assert!(store.is_indexed(&instrument) && store.is_indexed(&Filter::ALL));
    assert!(!page(&store, ChangeId::START, &instrument, WIDE).1.is_scan);
}

// ---------------------------------------------------------------- traps

#[test]
fn trap_b_a_page_that_ends_inside_a_group_of_one_seq_goes_on_with_the_rest_of_it() {
    let mut store = OrderStore::new(CONFIG);
    (1..=6).for_each(|rec| say(&mut store, 9, rec, 1, OrdStatus::New));
    let limits = PageLimits { rows_max: 4, ..WIDE };
    let (rows, first) = page(&store, ChangeId::START, &Filter::ALL, limits);
    assert_eq!(rows, [(9, 1), (9, 2), (9, 3), (9, 4)]);
    assert!(first.is_partial && !first.is_online);
    let (rows, second) = page(&store, first.next, &Filter::ALL, limits);
    assert_eq!(rows, [(9, 5), (9, 6)]);
    assert!(!second.is_partial && second.is_online);
}

#[test]
fn what_is_held_stays_until_it_may_go_and_no_more_than_its_limit() {
    let retention = Retention { count_max: 2, ..Retention::ALL };
    let mut store = OrderStore::new(StoreConfig { retention, ..CONFIG });
    store.set_held(Some(HeldOrders { after: change_id(5, 5), count_max: 10 }));
    (1..=10).for_each(|rec| say(&mut store, rec, rec, 1, OrdStatus::Filled));
    assert_eq!((store.floor(), store.ended_count()), (change_id(5, 5), 5));
    assert!(!store.has_to_retire());
    // All of it is held, up to ten more than are kept anyway.
    store.set_held(Some(HeldOrders { after: ChangeId::START, count_max: 10 }));
    (11..=40).for_each(|rec| say(&mut store, rec, rec, 1, OrdStatus::Filled));
    assert_eq!((store.floor(), store.ended_count()), (change_id(28, 28), 12));
    store.set_held(None);
    assert!(store.has_to_retire());
    while store.sweep(16) {}
    assert_eq!((store.floor(), store.ended_count()), (change_id(38, 38), 2));
}

#[test]
fn trap_c_a_quiet_filters_token_stays_good_while_others_orders_go_below_the_floor() {
    let retention = Retention { count_max: 2, ..Retention::ALL };
    let mut store = OrderStore::new(StoreConfig { retention, ..CONFIG });
    say(&mut store, 1, 1, 1, OrdStatus::New);
    let token = page(&store, ChangeId::START, &of_firm(1), WIDE).1.next;
    for seq in 2..=2_000 {
        say(&mut store, seq, seq / 2 + 1, 2, [OrdStatus::New, OrdStatus::Filled][seq as usize % 2]);
    }
    assert!(store.floor() > token, "the busy firm's orders went");
    assert_eq!(store.check(Epoch(1), token, &of_firm(1)), Ok(()));
    let (rows, quiet) = page(&store, token, &of_firm(1), WIDE);
    assert!(rows.is_empty() && quiet.next == store.head(), "and a page without rows renews it");
    assert_eq!(store.check(Epoch(1), token, &Filter::ALL), Err(Resync::Floor));
}

#[test]
fn trap_d_an_order_that_changes_while_pages_are_read_appears_once_and_later() {
    let mut store = OrderStore::new(CONFIG);
    (1..=10).for_each(|rec| say(&mut store, rec, rec, 1, OrdStatus::New));
    let limits = PageLimits { rows_max: 4, ..WIDE };
    let (mut seen, first) = page(&store, ChangeId::START, &Filter::ALL, limits);
    // One that is still to be read, one that was read, and one twice.
    for (seq, rec) in [(11, 7), (12, 2), (13, 9), (14, 9)] {
        say(&mut store, seq, rec, 1, OrdStatus::PartiallyFilled);
    }
    let mut after = first.next;
    loop {
        let (rows, page) = page(&store, after, &Filter::ALL, limits);
        (seen, after) = ([seen, rows].concat(), page.next);
        if page.is_online {
            break;
        }
    }
    let unchanged = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (8, 8), (10, 10)];
    assert_eq!(seen, [&unchanged[..], &[(11, 7), (12, 2), (14, 9)]].concat());
}

#[test]
fn trap_g_numbers_that_start_again_need_another_epoch_and_a_store_built_anew() {
    let mut store = OrderStore::new(CONFIG);
    (1..=10).for_each(|rec| say(&mut store, 100 + rec, rec, 1, OrdStatus::New));
    let token = store.head();
    let again = event(1, 1, keys(1, 1, 1), OrdStatus::New);
    assert_eq!(
        store.ingest(&again),
        Ok(IngestOutcome::Repeated),
        "the same epoch's numbers only grow"
    );
    let refused = IngestError::EpochBehindHead { epoch: Epoch(2), valid_to: ChangeId::START };
    assert_eq!(store.begin_epoch(Epoch(2), ChangeId::START), Err(refused));
    let mut anew = OrderStore::new(StoreConfig::new(SOURCE, Epoch(2)));
    anew.know_past_epoch(Epoch(1), ChangeId::START);
    (1..=500).for_each(|rec| say(&mut anew, rec, rec, 1, OrdStatus::New));
    assert_eq!(anew.check(Epoch(1), token, &Filter::ALL), Err(Resync::Epoch));
    assert_eq!(anew.check(Epoch(2), token, &Filter::ALL), Ok(()));
    assert_eq!(anew.check(Epoch(1), ChangeId::START, &Filter::ALL), Ok(()), "nothing seen");
}

#[test]
fn trap_h_clocks_that_go_back_change_no_order() {
    let mut store = OrderStore::new(CONFIG);
    for rec in 1..=4 {
        let mut event = event(rec, rec, keys(1, 1, 1), OrdStatus::New);
        event.transact_time = Nanos(1_000 - rec);
        let _ = store.ingest(&event).unwrap();
    }
    let (rows, page) = page(&store, ChangeId::START, &Filter::ALL, WIDE);
    assert_eq!(rows, [(1, 1), (2, 2), (3, 3), (4, 4)]);
    assert_eq!(page.oldest_transact_time, Nanos(996));
}

// ---------------------------------------------------------------- bounds of work

/// Returns the most steps of one call.
fn steps_max(store: &mut OrderStore, mut calls: impl FnMut(&mut OrderStore) -> bool) -> u64 {
    let mut most = 0;
    loop {
        let before = store.step_count();
        let goes_on = calls(store);
        most = most.max(store.step_count() - before);
        if !goes_on {
            return most;
        }
    }
}

/// The steps that one event may take: six rings, each with an entry killed, appended, swept and a
/// chunk freed, twice when keys change and for each of four orders that are removed; with a margin
/// for rows.
const EVENT_STEPS_MAX: u64 = 6 * 7 * 6 + 16;

#[test]
fn no_event_and_no_call_of_sweep_takes_more_than_a_few_steps_in_the_worst_cases() {
    const ORDERS: u64 = 300_000;
    let retention = Retention { count_max: 1_000, ..Retention::ALL };
    let mut store = OrderStore::new(StoreConfig { retention, ..CONFIG });
    let mut seq = 0;
    let mut tell = |store: &mut OrderStore, rec: u64, firm: u32, status| {
        seq += 1;
        say(store, seq, rec, firm, status);
    };
    let mut rec = 0;
    let inserts = steps_max(&mut store, |store| {
        rec += 1;
        tell(store, rec, 1 + (rec % 3) as u32, OrdStatus::New);
        rec < ORDERS
    });
    // The last 2,000 change again and again while the earlier ones lie before them.
    let mut turn = 0;
    let hot = steps_max(&mut store, |store| {
        turn += 1;
        let rec = ORDERS - turn * 7_919 % 2_000;
        tell(store, rec, 1 + (rec % 3) as u32, OrdStatus::PartiallyFilled);
        turn < 3 * ORDERS
    });
    // All but the last end and are removed, each with another key than before.
    let mut rec = 0;
    let mass = steps_max(&mut store, |store| {
        rec += 1;
        tell(store, rec, 4, OrdStatus::Canceled);
        rec < ORDERS - 1
    });
    // Sweeps between changes, at every point of a sweep, and then until there is nothing to do.
    let mut idle = 0;
    for _ in 0..10_000 {
        tell(&mut store, ORDERS, 1, OrdStatus::PartiallyFilled);
        let before = store.step_count();
        let _ = store.sweep(1);
        idle = idle.max(store.step_count() - before);
    }
    let mut sweeps = 0;
    let last = steps_max(&mut store, |store| {
        sweeps += 1;
        store.sweep(1) && sweeps < 10_000_000
    });
    assert!(last <= idle && sweeps < 10_000_000, "{last} steps in the last of {sweeps} calls");
    for (what, steps) in [("insert", inserts), ("hot", hot), ("mass", mass), ("sweep", idle)] {
        assert!((1..=EVENT_STEPS_MAX).contains(&steps), "{what}: {steps} steps");
    }
    assert!(idle <= 32, "{idle} steps in a call that looks at one ring");
    assert_eq!((store.live_count(), store.ended_count()), (1, 1_000));
}

#[test]
fn a_page_costs_its_rows_whatever_dead_entries_lie_between_them() {
    const DEAD: u64 = 1_000_000;
    let config = StoreConfig { retention: Retention::ALL, kinds: Kinds::SINGLE, ..CONFIG };
    let mut store = OrderStore::new(config);
    // Firm 1 has the first and the last order, and between them a million go to firm 2. Each change
    // leaves a dead entry in the ring of all slots.
    say(&mut store, 1, 1, 1, OrdStatus::New);
    for rec in 2..=DEAD + 1 {
        say(&mut store, rec, rec, 2, OrdStatus::New);
    }
    say(&mut store, DEAD + 2, DEAD + 2, 1, OrdStatus::New);
    for rec in 2..=DEAD / 2 {
        say(&mut store, DEAD + 1 + rec, rec, 2, OrdStatus::PartiallyFilled);
    }
    for (filter, row_count) in [(Filter::ALL, 50), (of_firm(1), 2), (of_firm(2), 50)] {
        for after in [0, 1, 2, DEAD / 3, DEAD / 2, DEAD - 100] {
            let limits = PageLimits { rows_max: 50, ..WIDE };
            let (rows, page) = page(&store, change_id(after, u64::MAX), &filter, limits);
            let most = 25 * (rows.len() as u32 + 1) + 1;
            assert!(rows.len() <= row_count && page.step_count <= most, "{page:?}");
        }
    }
}

// ---------------------------------------------------------------- bounds of memory

#[test]
fn memory_is_counted_by_what_it_is_for_and_comes_back() {
    let retention = Retention { count_max: 0, ..Retention::ALL };
    let mut store = OrderStore::new(StoreConfig { retention, ..CONFIG });
    for rec in 1..=20_000 {
        let bytes = block(rec, rec, keys(1, rec as u32 % 100, 1), OrdStatus::New);
        let _ = store.ingest_row(&bytes, &[0; 441]).unwrap();
    }
    let full = store.memory();
    assert_eq!((full.rows, full.attributes), (20_000 * row_len(441) as u64, 20_000 * 441));
    assert!(
        full.blocks >= full.rows && full.heap >= full.blocks && full.heap < full.rows * 11 / 10
    );
    let parts = full.heap + full.slots + full.records + full.links + full.capture;
    assert_eq!(full.total, parts + full.rings.iter().sum::<u64>());
    assert!(full.rings.iter().all(|bytes| *bytes > 20_000 * 24), "{full:?}");
    for rec in 1..=20_000 {
        let bytes = block(20_000 + rec, rec, keys(1, rec as u32 % 100, 1), OrdStatus::Filled);
        let _ = store.ingest_row(&bytes, &[0; 441]).unwrap();
    }
    while store.sweep(100) {}
    let empty = store.memory();
    assert_eq!((empty.rows, empty.attributes, empty.blocks), (0, 0, 0));
    assert!(empty.heap < 5 << 20 && empty.rings.iter().sum::<u64>() < 1 << 20, "{empty:?}");
}

#[test]
fn a_store_at_its_limit_lets_ended_orders_go_early_then_refuses_and_recovers() {
    let bytes_max = 16 << 20;
    let retention = Retention::ALL;
    let mut store = OrderStore::new(StoreConfig { retention, bytes_max, ..CONFIG });
    let keys_of = |rec: u64| keys(1 + rec as u32 % 5, 1 + rec as u32 % 50, 1 + rec as u32 % 7);
    let (mut seq, mut growth) = (0, 0);
    let mut tell = |store: &mut OrderStore, rec: u64, status, len: usize| {
        seq += 1;
        let (before, head) = (store.memory().total, store.head());
        let told = store.ingest_row(&block(seq, rec, keys_of(rec), status), &vec![1; len]);
        let after = store.memory().total;
        assert!(after <= bytes_max, "{after} bytes of {bytes_max}");
        growth = growth.max(after.saturating_sub(before));
        if let Err(error) = told {
            assert!(matches!(error, IngestError::StoreFull { .. }), "{error}");
            assert_eq!(store.head(), head, "a refused row changes nothing");
        }
        told
    };
    // Half of them end: these are removed before anything is refused.
    let mut rec = 0;
    loop {
        if tell(&mut store, rec + 1, OrdStatus::New, 600 * (rec as usize % 2)).is_err() {
            // While ended orders are left to remove, a refused row is worth another try.
            if store.ended_count() == 0 {
                break;
            }
            continue;
        }
        rec += 1;
        if rec % 2 == 0 {
            assert_eq!(tell(&mut store, rec, OrdStatus::Filled, 10), Ok(IngestOutcome::Updated));
        }
    }
    assert!(store.early_count() > 1_000 && store.full_count() < 100, "{}", store.full_count());
    assert!(store.floor() > ChangeId::START, "who missed what went is told");
    let live = u64::from(store.live_count());
    assert!(live > 8_000, "{live} orders");
    // Existing orders can change within their blocks without limit.
    let of_live = |pick: u64| pick * 7_919 % live * 2 + 1;
    for pick in 0..4 * live {
        let told = tell(&mut store, of_live(pick), OrdStatus::PartiallyFilled, pick as usize % 8);
        assert_eq!(told, Ok(IngestOutcome::Updated));
    }
    // Longer rows are taken in or refused with an error, never silently.
    let longer = |pick: u64| (of_live(pick), OrdStatus::PartiallyFilled, pick as usize % 600);
    let told =
        (0..live).map(longer).map(|(rec, status, len)| tell(&mut store, rec, status, len).is_ok());
    assert!(told.filter(|is_taken| !is_taken).count() > 0, "there was no room for all");
    // Once some end, there is room again.
    for pick in 0..100 {
        assert!(tell(&mut store, of_live(pick), OrdStatus::Canceled, 0).is_ok());
    }
    assert!((1..50).all(|more| tell(&mut store, rec + 1 + more, OrdStatus::New, 0).is_ok()));
    assert!(growth <= memory::EVENT_GROWTH_MAX, "one event took {growth} bytes");
}

// ---------------------------------------------------------------- snapshots

fn snapshot_of(store: &mut OrderStore, bytes_max: usize) -> Vec<Vec<u8>> {
    store.begin_snapshot();
    let mut chunks = Vec::new();
    loop {
        let mut chunk = Vec::new();
        let step = store.snapshot_chunk(bytes_max, &mut chunk).expect("it is under way");
        chunks.push(chunk);
        if step == ChunkOutcome::Done {
            return chunks;
        }
    }
}

/// Returns a store with every kind of content: marks, tombstones, ended orders, epochs, a floor.
fn varied() -> OrderStore {
    let retention = Retention { count_max: 12, ..Retention::ALL };
    let mut store = OrderStore::new(StoreConfig { retention, ..CONFIG });
    let mut seq = 0;
    for turn in 0..200u64 {
        seq += 1;
        let rec = if turn % 3 == 0 { turn / 3 + 1 } else { turn * turn * 31 % (turn / 3 + 1) + 1 };
        let status = match turn % 7 {
            6 => OrdStatus::Filled,
            _ => OrdStatus::PartiallyFilled,
        };
        let keys = keys(1 + (turn % 2) as u32, 1 + (rec % 3) as u32, 1);
        let bytes = block(seq, rec, keys, status);
        let _ = store.ingest_row(&bytes, &vec![turn as u8; turn as usize % 90]).expect("sound");
        if turn == 100 {
            store.begin_epoch(Epoch(4), store.head()).expect("a later epoch");
        }
    }
    assert!(store.delete(change_id(seq + 1, 40)));
    store
}

#[test]
fn damage_in_any_byte_of_a_snapshot_is_found_and_named() {
    let mut store = varied();
    let chunks = snapshot_of(&mut store, 1_500);
    assert!(chunks.len() > 5, "{} chunks", chunks.len());
    let whole = chunks.concat();
    let restored = OrderStore::restore(CONFIG, &whole).expect("sound");
    assert_eq!((restored.head(), restored.epoch()), (store.head(), Epoch(4)));
    let past = restored.check(Epoch(1), change_id(150, 1), &Filter::ALL);
    assert_eq!(past, Err(Resync::Epoch), "what its epoch's end was");
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        let error = OrderStore::restore(CONFIG, &damaged).expect_err("damage was not seen");
        assert!(error.to_string().contains("chunk"), "byte {at}: {error}");
    }
    for len in 0..whole.len() {
        assert!(OrderStore::restore(CONFIG, &whole[..len]).is_err(), "{len} bytes are not all");
    }
}

#[test]
fn chunks_that_are_missing_repeated_or_exchanged_are_no_snapshot() {
    let chunks = snapshot_of(&mut varied(), 1_500);
    let restore = |order: &[usize]| {
        let chunks: Vec<&[u8]> = order.iter().map(|at| &chunks[*at][..]).collect();
        OrderStore::restore(CONFIG, &chunks.concat()).map(|_| ())
    };
    let last = chunks.len() - 1;
    let all: Vec<usize> = (0..=last).collect();
    assert_eq!(restore(&all), Ok(()));
    let without =
        |gone: usize| -> Vec<usize> { all.iter().copied().filter(|at| *at != gone).collect() };
    assert_eq!(restore(&without(2)), Err(RestoreError::OutOfOrder { chunk: 2 }));
    assert_eq!(restore(&without(0)), Err(RestoreError::OutOfOrder { chunk: 0 }));
    assert_eq!(restore(&without(last)), Err(RestoreError::Truncated { chunk: last as u32 }));
    let twice = [&all[..], &[last]].concat();
    assert_eq!(restore(&twice), Err(RestoreError::OutOfOrder { chunk: last as u32 + 1 }));
    let exchanged = [&[0, 2, 1], &all[3..]].concat();
    assert_eq!(restore(&exchanged), Err(RestoreError::OutOfOrder { chunk: 1 }));
    // A chunk of another snapshot, valid by itself and with as many entries.
    let chunks_of = |attributes: &[u8]| {
        let mut store = OrderStore::new(CONFIG);
        for rec in 1..=30 {
            let bytes = block(rec, rec, keys(1, 1, 1), OrdStatus::New);
            let _ = store.ingest_row(&bytes, attributes).expect("sound");
        }
        snapshot_of(&mut store, 1_500)
    };
    let mut mixed = chunks_of(b"one");
    mixed[2].clone_from(&chunks_of(b"two")[2]);
    let mixed = OrderStore::restore(CONFIG, &mixed.concat()).map(|_| ());
    assert_eq!(mixed, Err(RestoreError::Incomplete { what: "the chain of chunks" }));
    let other = StoreConfig::new(PartitionId(9), Epoch(1));
    let refused = OrderStore::restore(other, &chunks.concat()).map(|_| ()).unwrap_err();
    assert_eq!(refused, RestoreError::WrongSource { got: SOURCE, want: PartitionId(9) });
}

#[test]
fn a_snapshot_is_of_the_moment_when_it_began_whatever_comes_in_meanwhile() {
    let mut store = varied();
    let then = store.clone();
    store.begin_snapshot();
    let (mut chunks, mut seq) = (Vec::new(), store.head().seq.0);
    loop {
        for rec in [3, 9, 30, 64, 100 + seq] {
            seq += 1;
            let status = [OrdStatus::Canceled, OrdStatus::New][seq as usize % 2];
            let keys = keys(2, 1 + (seq % 3) as u32, 1);
            let _ = store.ingest_row(&block(seq, rec, keys, status), &[1; 300]).unwrap();
        }
        if store.snapshot_chunk(1, &mut chunks).unwrap() == ChunkOutcome::Done {
            break;
        }
    }
    let restored = OrderStore::restore(CONFIG, &chunks).expect("sound");
    assert_eq!(
        (restored.head(), restored.digest(&Filter::ALL)),
        (then.head(), then.digest(&Filter::ALL))
    );
    for filter in [Filter::ALL, of_firm(1), of_firm(2)] {
        let rows = |store: &OrderStore| page(store, ChangeId::START, &filter, WIDE).0;
        assert_eq!(rows(&restored), rows(&then));
    }
    assert_eq!(restored.memory().rows, then.memory().rows);
    assert_eq!(store.snapshot_chunk(1, &mut chunks), Err(SnapshotError::NotBegun));
}

#[test]
fn an_unindexed_replica_may_be_made_of_an_indexed_masters_snapshot_and_the_other_way() {
    let mut master = varied();
    let chunks = snapshot_of(&mut master, 4_096).concat();
    let bare = StoreConfig { kinds: Kinds::NONE, ..CONFIG };
    let mut replica = OrderStore::restore(bare, &chunks).expect("sound");
    assert_eq!(
        page(&replica, ChangeId::START, &Filter::ALL, WIDE).0,
        page(&master, ChangeId::START, &Filter::ALL, WIDE).0
    );
    assert!(!replica.is_indexed(&of_firm(1)));
    let back = snapshot_of(&mut replica, 4_096).concat();
    let again = OrderStore::restore(CONFIG, &back).expect("sound");
    assert_eq!(
        page(&again, ChangeId::START, &of_firm(1), WIDE).0,
        page(&master, ChangeId::START, &of_firm(1), WIDE).0
    );
    let below = change_id(master.floor().seq.0 - 1, 1);
    let legal = again.check(Epoch(4), below, &of_firm(1));
    assert_eq!(
        legal,
        Err(Resync::Floor),
        "keys that had no ring begin with the floor over everything"
    );
}

#[test]
fn a_snapshot_that_does_not_fit_is_refused_and_one_that_keeps_too_much_is_given_up() {
    let mut large = OrderStore::new(CONFIG);
    for rec in 1..=20_000 {
        let _ =
            large.ingest_row(&block(rec, rec, keys(1, 1, 1), OrdStatus::New), &[0; 600]).unwrap();
    }
    let chunks = snapshot_of(&mut large, 1 << 16);
    let bytes_max = 8 << 20;
    let small = StoreConfig { bytes_max, ..CONFIG };
    let mut restore = Restore::new(small);
    let refused = chunks.iter().find_map(|chunk| restore.take(chunk).err());
    assert_eq!(refused, Some(RestoreError::StoreFull { bytes_max }));

    let mut store = OrderStore::new(StoreConfig { bytes_max: 32 << 20, ..CONFIG });
    let keys = keys(1, 1, 1);
    for rec in 1..=16_000 {
        let _ = store.ingest_row(&block(rec, rec, keys, OrdStatus::New), &[0; 600]).unwrap();
    }
    store.begin_snapshot();
    for seq in 16_001..=64_000 {
        let rec = seq % 16_000 + 1;
        let told = store.ingest_row(&block(seq, rec, keys, OrdStatus::New), &[1; 600]);
        assert_eq!(told, Ok(IngestOutcome::Updated), "orders come before snapshots");
    }
    let given_up = (0..10_000).find_map(|_| store.snapshot_chunk(1, &mut Vec::new()).err());
    assert_eq!(given_up, Some(SnapshotError::GivenUp));
    while store.sweep(10) {}
    assert!(store.memory().capture < 100_000 && store.memory().total <= 32 << 20);
}

#[test]
fn a_digest_tells_a_difference_in_one_byte_and_none_in_the_way_to_a_state() {
    let row = |seq: u64, rec: u64| block(seq, rec, keys(1, 1, 1), OrdStatus::New);
    let store_of = |rows: &[(u64, u64, &[u8])]| {
        let mut store = OrderStore::new(CONFIG);
        for (seq, rec, attributes) in rows {
            let _ = store.ingest_row(&row(*seq, *rec), attributes).unwrap();
        }
        store.digest(&of_firm(1)).expect("firms have rings")
    };
    let way = store_of(&[(1, 1, b"a"), (2, 2, b"b"), (3, 1, b"c"), (4, 1, b"d")]);
    assert_eq!(way, store_of(&[(2, 2, b"b"), (4, 1, b"d")]));
    assert_ne!(way, store_of(&[(2, 2, b"b"), (4, 1, b"e")]));
    assert_ne!(way, store_of(&[(2, 2, b"b"), (5, 1, b"d")]));
    assert_eq!(store_of(&[]), 0);
    let mut store = OrderStore::new(CONFIG);
    let mut event = event(1, 1, keys(1, 1, 1), OrdStatus::New);
    let _ = store.ingest(&event).unwrap();
    let before = store.digest(&Filter::ALL);
    (event.seq, event.leaves_qty) = (Seq(2), Qty(9));
    let _ = store.ingest(&event).unwrap();
    assert_ne!(store.digest(&Filter::ALL), before);
    (event.seq, event.ord_status) = (Seq(3), OrdStatus::Filled);
    let _ = store.ingest(&event).unwrap();
    assert_eq!(store.digest(&Filter::ALL), Some(0), "ended orders are no part of it");
}

// ---------------------------------------------------------------- a store that begins late

/// Returns a store that begins after change 50 with the live orders 3 and 40, of the firms 1 and 2.
fn begun_late() -> OrderStore {
    let mut store = OrderStore::new(CONFIG);
    let state = |rec, firm| event(50, rec, keys(firm, 1, 1), OrdStatus::New);
    store.begin_in_the_middle(Seq(50), &[state(3, 1), state(40, 2)], Rec(45));
    store
}

#[test]
fn a_store_that_begins_late_refuses_places_from_before_for_every_filter() {
    let mut store = begun_late();
    // Later changes and a restart do not lift the floor.
    say(&mut store, 51, 46, 3, OrdStatus::New);
    let mut bytes = Vec::new();
    store.begin_snapshot();
    while store.snapshot_chunk(1 << 16, &mut bytes) == Ok(ChunkOutcome::More) {}
    let restored = OrderStore::restore(CONFIG, &bytes).unwrap();
    let other = Filter { instrument_id: weir_types::InstrumentId(9), ..Filter::ALL };
    for store in [&store, &restored] {
        for filter in [Filter::ALL, of_firm(1), of_firm(3), of_firm(99), other] {
            for before in [change_id(1, 1), change_id(49, 40)] {
                assert_eq!(
                    store.check(Epoch(1), before, &filter),
                    Err(Resync::Floor),
                    "{filter:?}"
                );
            }
            for legal in [ChangeId::START, change_id(50, 40), change_id(51, 46)] {
                assert_eq!(store.check(Epoch(1), legal, &filter), Ok(()), "{filter:?}");
            }
        }
    }
}

#[test]
fn a_store_that_begins_late_is_paged_from_the_start_order_by_order() {
    let store = begun_late();
    let one = PageLimits { rows_max: 1, ..WIDE };
    let (mut after, mut all) = (ChangeId::START, Vec::new());
    loop {
        assert_eq!(store.check(Epoch(1), after, &Filter::ALL), Ok(()));
        let (rows, page) = page(&store, after, &Filter::ALL, one);
        all.extend(rows);
        after = page.next;
        if page.is_online {
            break;
        }
    }
    assert_eq!(all, [(50, 3), (50, 40)]);
    assert_eq!((store.head(), store.live_count()), (change_id(50, 45), 2));
}

#[test]
fn the_end_of_an_order_that_was_live_when_a_store_began_late_reaches_who_was_at_its_head() {
    let live_only = Filter { live_only: true, ..Filter::ALL };
    let mut store = begun_late();
    say(&mut store, 51, 40, 2, OrdStatus::Filled);
    // This reader was at the head, the change 50 of order 7, and has order 40 as live.
    let (rows, _) = page(&store, change_id(50, 7), &live_only, WIDE);
    assert_eq!(rows, [(51, 40)]);
    let (rows, _) = page(&store, ChangeId::START, &live_only, WIDE);
    assert_eq!(rows, [(50, 3)], "a new reader never had it");
}

#[test]
fn a_change_of_an_order_that_was_discarded_reaches_readers_of_live_orders() {
    let live_only = Filter { live_only: true, ..Filter::ALL };
    let retention = Retention { count_max: 1, ..Retention::ALL };
    let mut store = OrderStore::new(StoreConfig { retention, ..CONFIG });
    (1..4).for_each(|rec| say(&mut store, rec, rec, 1, OrdStatus::New));
    say(&mut store, 4, 1, 1, OrdStatus::Canceled);
    say(&mut store, 5, 2, 1, OrdStatus::Canceled);
    assert_eq!(store.floor(), change_id(4, 1), "the first is discarded");
    // A reader from a store that had the end of order 1 at a later place may have it live.
    say(&mut store, 6, 1, 1, OrdStatus::Filled);
    assert_eq!(page(&store, change_id(5, 2), &live_only, WIDE).0, [(6, 1)]);
    say(&mut store, 7, 4, 1, OrdStatus::Filled);
    assert_eq!(page(&store, change_id(6, 1), &live_only, WIDE).0, [], "nobody had it live");
}

#[test]
fn record_numbers_go_on_far_behind_the_live_orders_of_a_store_that_began_late() {
    let mut store = OrderStore::new(CONFIG);
    let (old, last) = (3, 1 << 30);
    let state = event(50, old, keys(1, 1, 1), OrdStatus::New);
    store.begin_in_the_middle(Seq(50), &[state], Rec(last));
    let mut bytes = Vec::new();
    store.begin_snapshot();
    while store.snapshot_chunk(1 << 16, &mut bytes) == Ok(ChunkOutcome::More) {}
    let mut restored = OrderStore::restore(CONFIG, &bytes).unwrap();
    for store in [&mut store, &mut restored] {
        say(store, 51, last + 1, 1, OrdStatus::New);
        assert_eq!(store.live_count(), 2);
    }
}

fn snapshot_and_back(store: &mut OrderStore) -> OrderStore {
    let mut bytes = Vec::new();
    store.begin_snapshot();
    while store.snapshot_chunk(1 << 16, &mut bytes) == Ok(ChunkOutcome::More) {}
    OrderStore::restore(CONFIG, &bytes).expect("the bytes are of a store")
}

/// The records with the highest numbers are gone, and the last change is an old record's.
#[test]
fn a_snapshot_remembers_how_far_record_numbers_had_come() {
    const JUMP: u64 = 1 << 24;
    let retention = Retention { count_max: 1, ..Retention::ALL };
    let mut store = OrderStore::new(StoreConfig { retention, ..CONFIG });
    say(&mut store, 1, 1, 1, OrdStatus::New);
    (1..5).for_each(|at| say(&mut store, 1 + at, at * JUMP, 1, OrdStatus::Filled));
    say(&mut store, 6, 2, 1, OrdStatus::Filled);
    say(&mut store, 7, 1, 1, OrdStatus::PartiallyFilled);
    let mut restored = snapshot_and_back(&mut store);
    for store in [&mut store, &mut restored] {
        say(store, 8, 5 * JUMP, 1, OrdStatus::New);
        let far = block(9, 12 * JUMP, keys(1, 1, 1), OrdStatus::New);
        let refused = IngestError::RecJump(Rec(12 * JUMP));
        assert_eq!(store.ingest_row(&far, &[]), Err(refused));
    }
}

/// Each number is a lawful jump above the one before.
#[test]
fn a_snapshot_of_records_spread_over_all_numbers_can_be_read() {
    let mut store = OrderStore::new(CONFIG);
    (0..5_000).for_each(|at| say(&mut store, at + 1, 1 + (at << 25), 1, OrdStatus::New));
    let restored = snapshot_and_back(&mut store);
    assert_eq!(restored.live_count(), 5_000);
    assert!(restored.memory().records < 5_000 * 17_000, "{}", restored.memory().records);
    for store in [&store, &restored] {
        assert!((0..5_000).all(|at| store.get(Rec(1 + (at << 25))).is_some()));
    }
}
