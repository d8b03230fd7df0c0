//! Updates and pages per second of the order store, beside a store of balanced trees doing the same
//! work in the same run. Prints one line of JSON.
//!
//! Both hold 200,000 live orders of 200 firms, 20,000 accounts and 500 instruments, with an index
//! by place and three secondary keys. Trees hold rows of 600 bytes. Of ours there are two: the
//! index with rows of 600 bytes beside it, and the store itself, which is handed events and keeps
//! rows as the wire has them. `rand` changes any order, `recent` one of the last 2,000.

#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::time::Instant;

use support::{SOURCE, event, keys};
use weir_delivery::filter::Keys;
use weir_delivery::index::Index;
use weir_delivery::page::{PageHead, put_page};
use weir_delivery::{
    Filter, Kinds, OrderStore, PageLimits, Place, ROW_LEN, Selection, StoreConfig,
};
use weir_types::{Epoch, FirmId, Nanos, OrdStatus, Rec, Seq, SessionId};

const ORDERS: u64 = 200_000;
const RECENT: u64 = 2_000;
const ROUND_UPDATES: u64 = 50_000;
const ROUNDS: usize = 15;
const PAGES: u64 = 4_000;
const BODY_LEN: usize = 600;

fn keys_of(rec: u64) -> Keys {
    let account = (rec.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32 % 20_000;
    let instrument = (rec.wrapping_mul(0xc2b2_ae3d_27d4_eb4f) >> 40) as u32 % 500;
    keys(account % 200 + 1, account + 1, instrument + 1)
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// A store that takes one change of one order.
trait Peer {
    fn update(&mut self, seq: u64, rec: u64);
}

impl Peer for OrderStore {
    fn update(&mut self, seq: u64, rec: u64) {
        let event = event(seq, rec, keys_of(rec), OrdStatus::PartiallyFilled);
        let _ = black_box(self.ingest(&event).expect("the events are in order"));
    }
}

/// Our index with rows of 600 bytes: record `n` is slot `n - 1`.
struct Ring {
    index: Index,
    bodies: Vec<[u8; BODY_LEN]>,
}

impl Peer for Ring {
    fn update(&mut self, seq: u64, rec: u64) {
        let (slot, place) = (rec as u32 - 1, Place::new(Seq(seq), Rec(rec)));
        if slot as usize == self.bodies.len() {
            self.bodies.push([0; BODY_LEN]);
            self.index.insert(slot, place, &keys_of(rec));
        } else {
            self.index.touch(slot, place);
        }
        self.bodies[slot as usize] = black_box([seq as u8; BODY_LEN]);
    }
}

struct TreeRow {
    seq: u64,
    keys: Keys,
    body: [u8; BODY_LEN],
}

#[derive(Default)]
struct Trees {
    rows: BTreeMap<u64, TreeRow>,
    by_place: BTreeSet<(u64, u64)>,
    by_key: [BTreeSet<(u32, u64, u64)>; 3],
}

impl Peer for Trees {
    fn update(&mut self, seq: u64, rec: u64) {
        let keys = keys_of(rec);
        let body = black_box([seq as u8; BODY_LEN]);
        let each = |keys: &Keys| [keys.firm_id.0, keys.account_id.0, keys.instrument_id.0];
        match self.rows.get_mut(&rec) {
            Some(row) => {
                self.by_place.remove(&(row.seq, rec));
                for (tree, key) in self.by_key.iter_mut().zip(each(&row.keys)) {
                    tree.remove(&(key, row.seq, rec));
                }
                (row.seq, row.keys, row.body) = (seq, keys, body);
            }
            None => {
                self.rows.insert(rec, TreeRow { seq, keys, body });
            }
        }
        self.by_place.insert((seq, rec));
        for (tree, key) in self.by_key.iter_mut().zip(each(&keys)) {
            tree.insert((key, seq, rec));
        }
    }
}

/// Updates per second of one round.
fn round(peer: &mut dyn Peer, seq: &mut u64, seed: u64, is_recent: bool) -> f64 {
    let mut random = Random(seed);
    let start = Instant::now();
    for _ in 0..ROUND_UPDATES {
        let rec = match is_recent {
            true => ORDERS - random.below(RECENT),
            false => random.below(ORDERS) + 1,
        };
        *seq += 1;
        peer.update(*seq, rec);
    }
    ROUND_UPDATES as f64 / start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Medians of a pattern: store, index, trees, and of the ratios to the trees in the same round.
fn updates(peers: &mut [Box<dyn Peer>; 3], seqs: &mut [u64; 3], is_recent: bool) -> String {
    let mut rates: [Vec<f64>; 5] = Default::default();
    for turn in 0..ROUNDS {
        let mut of_round = [0.0; 3];
        for offset in 0..3 {
            let which = (turn + offset) % 3;
            let seed = turn as u64 * 77 + u64::from(is_recent);
            of_round[which] = round(&mut *peers[which], &mut seqs[which], seed, is_recent);
        }
        let [store, index, trees] = of_round;
        let values = [store, index, trees, store / trees, index / trees];
        rates.iter_mut().zip(values).for_each(|(rates, value)| rates.push(value));
    }
    let [store, index, trees, store_ratio, index_ratio] = rates.map(median);
    format!(
        "{{\"store_per_s\":{store:.0},\"index600_per_s\":{index:.0},\"trees600_per_s\":{trees:.0},\
         \"store_to_trees\":{store_ratio:.2},\"index600_to_trees\":{index_ratio:.2}}}"
    )
}

/// Rows per second in pages of 50, from places all over the history.
fn pages(store: &mut OrderStore, filter_of: impl Fn(&mut Random) -> Filter) -> (f64, f64) {
    let limits = PageLimits { rows_max: 50, bytes_max: u32::MAX, scan_max: 4_096 };
    let head = PageHead {
        correlation_id: 1,
        session_id: SessionId(1),
        asked_time: Nanos(1),
        served_time: Nanos(2),
        credit_left: 0,
    };
    let (mut random, mut rows, mut out) = (Random(5), 0, Vec::new());
    let mut selection = Selection::default();
    let newest = store.head().seq.0;
    let start = Instant::now();
    for _ in 0..PAGES {
        let after = Place::new(Seq(newest - random.below(ORDERS)), Rec(0));
        let filter = filter_of(&mut random);
        let page = store.select(after, &filter, &limits, &mut selection);
        out.clear();
        put_page((store, &selection), (&head, &page), &[0; 58], &mut out);
        black_box(&out);
        rows += u64::from(page.row_count);
    }
    let seconds = start.elapsed().as_secs_f64();
    (rows as f64 / seconds, PAGES as f64 / seconds)
}

fn main() {
    let config = StoreConfig { kinds: Kinds::SINGLE, ..StoreConfig::new(SOURCE, Epoch(1)) };
    let mut peers: [Box<dyn Peer>; 3] = [
        Box::new(OrderStore::new(config)),
        Box::new(Ring { index: Index::new(Kinds::SINGLE), bodies: Vec::new() }),
        Box::new(Trees::default()),
    ];
    let mut seqs = [0; 3];
    for (peer, seq) in peers.iter_mut().zip(&mut seqs) {
        for rec in 1..=ORDERS {
            *seq += 1;
            peer.update(*seq, rec);
        }
    }
    let rand = updates(&mut peers, &mut seqs, false);
    let recent = updates(&mut peers, &mut seqs, true);
    drop(peers);

    let mut store = OrderStore::new(config);
    let (mut random, mut seq) = (Random(9), 0);
    for turn in 0..ORDERS * 4 {
        seq += 1;
        store.update(seq, if turn < ORDERS { turn + 1 } else { random.below(ORDERS) + 1 });
    }
    let all = pages(&mut store, |_| Filter::ALL);
    let firm = pages(&mut store, |random| Filter {
        firm_id: FirmId(random.below(200) as u32 + 1),
        ..Filter::ALL
    });
    println!(
        "{{\"orders\":{ORDERS},\"store_row_bytes\":{ROW_LEN},\"peer_row_bytes\":{BODY_LEN},\
         \"rounds\":{ROUNDS},\"round_updates\":{ROUND_UPDATES},\"rand\":{rand},\
         \"recent\":{recent},\"page_rows\":50,\"all_rows_per_s\":{:.0},\"all_pages_per_s\":{:.0},\
         \"firm_rows_per_s\":{:.0},\"firm_pages_per_s\":{:.0}}}",
        all.0, all.1, firm.0, firm.1
    );
}
