//! `weir-bench delivery-filters`: the cost of a row by the selectivity of its filter, in pages of
//! 50 rows from places all over a store, the filters alternating.
//!
//! Orders have 600 bytes and are each changed three times on average after their creation, in
//! random order, so that the rings have dead entries everywhere.

use std::hint::black_box;

use weir_delivery::filter::Keys;
use weir_delivery::page::{PageHead, put_page};
use weir_delivery::{
    Filter, Kinds, OrderStore, PageLimits, Selection, StoreConfig, row_len, row_of,
};
use weir_types::{
    AccountId, ChangeId, Epoch, FirmId, InstrumentId, Nanos, OrdStatus, Rec, Seq, SessionId,
};
use weir_wire::Message;

use super::support::{SOURCE, event};
use crate::rounds::{Rounds, spent};

/// Rows of a page.
const PAGE_ROWS: u32 = 50;
/// The most that a row may cost, as a multiple of its cost without a filter.
const GOAL: f64 = 2.0;
/// One order in this many is of firm 1, of account 1, of instrument 1.
const ONE_IN: [u64; 3] = [10, 200, 10_000];

/// Options of `weir-bench delivery-filters`.
#[derive(Debug, clap::Args)]
pub struct FiltersArgs {
    /// Orders of the store: enough for pages of the rarest filter.
    #[arg(long, default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u64).range(1_000_000..))]
    orders: u64,
    /// Rounds, each with every filter.
    #[arg(long, default_value_t = 15)]
    rounds: u64,
    /// Pages of a filter in a round.
    #[arg(long, default_value_t = 400)]
    pages: u64,
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// Returns 1 for one record in `one_in`, spread evenly; one of a few thousand numbers for the
/// others.
fn key(rec: u64, one_in: u64) -> u32 {
    if rec.is_multiple_of(one_in) { 1 } else { 2 + (rec.wrapping_mul(0x9e37_79b9) % 5_000) as u32 }
}

fn keys_of(rec: u64) -> Keys {
    Keys {
        firm_id: FirmId(key(rec, ONE_IN[0])),
        account_id: AccountId(key(rec, ONE_IN[1])),
        instrument_id: InstrumentId(key(rec, ONE_IN[2])),
    }
}

fn filled(orders: u64) -> OrderStore {
    let config = StoreConfig { kinds: Kinds::SINGLE, ..StoreConfig::new(SOURCE, Epoch(1)) };
    let mut store = OrderStore::new(config);
    let attributes = vec![b'x'; 600 - row_len(0)];
    let mut block = Vec::new();
    let mut random = Random(1);
    for seq in 1..=4 * orders {
        let rec = if seq <= orders { seq } else { 1 + random.below(orders) };
        block.clear();
        let row = row_of(&event(seq, rec, keys_of(rec), OrdStatus::PartiallyFilled));
        row.encode_block(&mut block);
        let _ = store.ingest_row(&block, &attributes).expect("rows are in order");
    }
    store
}

/// Returns places after which a filter has a page's rows.
fn change_ids(
    store: &OrderStore,
    filter: &Filter,
    count: u64,
    random: &mut Random,
) -> Vec<ChangeId> {
    let mut selection = Selection::default();
    let limits = limits();
    let head = store.head().seq.0;
    let mut found = Vec::new();
    // The rows after a place are spread like the records that changed after it: for the rarest
    // filter only an early place has enough.
    let mut span = head;
    while (found.len() as u64) < count {
        let change_id = ChangeId::new(Seq(random.below(span)), Rec(0));
        if store.select(change_id, filter, &limits, &mut selection).row_count == PAGE_ROWS {
            found.push(change_id);
        } else {
            span = span.max(1_000) - span / 100;
        }
    }
    found
}

fn limits() -> PageLimits {
    PageLimits { rows_max: PAGE_ROWS, bytes_max: u32::MAX, scan_max: 4_096 }
}

/// Runs the benchmark.
pub fn run(config: &FiltersArgs) -> anyhow::Result<()> {
    eprintln!("{} orders of 600 bytes: loading", config.orders);
    let store = filled(config.orders);
    let filters = [
        ("100 %", Filter::ALL),
        ("10 %", Filter { firm_id: FirmId(1), ..Filter::ALL }),
        ("0.5 %", Filter { account_id: AccountId(1), ..Filter::ALL }),
        ("0.01 %", Filter { instrument_id: InstrumentId(1), ..Filter::ALL }),
    ];
    let mut random = Random(2);
    let mut costs = vec![Rounds::default(); filters.len()];
    let mut ratios = vec![Rounds::default(); filters.len()];
    let mut selection = Selection::default();
    let mut out = Vec::new();
    let head = PageHead {
        correlation_id: 1,
        session_id: SessionId(1),
        asked_time: Nanos(1),
        served_time: Nanos(2),
        credit_left: 0,
    };
    let mut worst = 0.0f64;
    for round in 0..config.rounds {
        let mut cost = [0.0; 4];
        for offset in 0..filters.len() {
            let which = (round as usize + offset) % filters.len();
            let filter = &filters[which].1;
            let change_ids = change_ids(&store, filter, config.pages, &mut random);
            let spent = spent(|| {
                for change_id in &change_ids {
                    let page = store.select(*change_id, filter, &limits(), &mut selection);
                    out.clear();
                    put_page(&store, &selection, &head, &page, &[0; 58], &mut out);
                    black_box(&out);
                }
                change_ids.len() as u64 * u64::from(PAGE_ROWS)
            });
            cost[which] = 1e9 / spent.rates()[1];
        }
        for which in 0..filters.len() {
            costs[which].push(cost[which]);
            ratios[which].push(cost[which] / cost[0]);
        }
    }
    let mut parts = Vec::new();
    for (which, (name, _)) in filters.iter().enumerate() {
        eprintln!("{name:>7}: {} ns a row, {} of all", costs[which].json(0), ratios[which].json(2));
        worst = worst.max(ratios[which].median());
        parts.push(format!(
            "{{\"selectivity\":\"{name}\",\"cpu_ns_per_row\":{},\"to_unfiltered\":{}}}",
            costs[which].json(1),
            ratios[which].json(2)
        ));
    }
    println!(
        "{{\"bench\":\"delivery-filters\",\"orders\":{},\"row_bytes\":600,\
         \"page_rows\":{PAGE_ROWS},\"rounds\":{},\"goal\":{GOAL},\"met\":{},\"filters\":[{}]}}",
        config.orders,
        config.rounds,
        worst <= GOAL,
        parts.join(",")
    );
    Ok(())
}
