//! The sides: the store, a plain store of one map and four trees, and Tarantool in a process of its
//! own. All do the same work; the first two in this thread.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use weir_delivery::page::{PageHead, put_page};
use weir_delivery::{
    Filter, Kinds, OrderStore, PageLimits, ROW_LEN, RawRow, Selection, StoreConfig, row_len,
};
use weir_types::{ChangeId, Epoch, FirmId, Nanos, Rec, Seq, SessionId};

use super::super::support::SOURCE;
use super::work::{FIRMS, Pattern, Random, RowMaker, keys_of};
use crate::rounds::{Spent, spent};

/// Rows of a page.
pub(crate) const PAGE_ROWS: u32 = 50;

/// Changes of a batch.
const BATCH: u64 = 50;

/// A store under test.
pub(crate) trait Side {
    /// Inserts orders 1 to `orders`.
    fn load(&mut self, orders: u64) -> Spent;
    /// Changes `count` orders.
    fn update(&mut self, pattern: Pattern, count: u64, seed: u64) -> Spent;
    /// Reads pages from random places, of all orders or of one firm; counts rows.
    fn page(&mut self, of_firm: bool, count: u64, seed: u64) -> Spent;
    /// Polls for changes after the newest one.
    fn poll(&mut self, count: u64) -> Spent;
    /// Returns the bytes used, if the side knows them.
    fn memory(&mut self) -> u64;
}

pub(crate) struct Ours {
    store: OrderStore,
    rows: RowMaker,
    /// Rows as a core sends them.
    batch: Vec<u8>,
    seq: u64,
    orders: u64,
    selection: Selection,
    out: Vec<u8>,
}

impl Ours {
    pub(crate) fn new(attributes_len: usize) -> Ours {
        Ours::with_kinds(attributes_len, Kinds::SINGLE)
    }

    /// Returns a store with other keys, as of a replica.
    pub(crate) fn with_kinds(attributes_len: usize, kinds: Kinds) -> Ours {
        let config = StoreConfig { kinds, ..StoreConfig::new(SOURCE, Epoch(1)) };
        Ours {
            store: OrderStore::new(config),
            rows: RowMaker::new(attributes_len),
            batch: Vec::new(),
            seq: 0,
            orders: 0,
            selection: Selection::default(),
            out: Vec::new(),
        }
    }

    /// Applies `count` changes in batches; `pick` selects the orders.
    fn put_all(&mut self, count: u64, mut pick: impl FnMut() -> u64) {
        let mut left = count;
        while left > 0 {
            let in_batch = left.min(BATCH);
            left -= in_batch;
            self.batch.clear();
            for _ in 0..in_batch {
                self.seq += 1;
                let (block, attributes) = self.rows.row(self.seq, pick());
                self.batch.extend_from_slice(block);
                self.batch.extend_from_slice(attributes);
            }
            let rows: Vec<RawRow<'_>> = self
                .batch
                .chunks(self.batch.len() / in_batch as usize)
                .map(|row| row.split_at(ROW_LEN))
                .map(|(block, attributes)| RawRow { block, attributes })
                .collect();
            let taken = self.store.ingest_rows(&rows);
            assert_eq!((taken.count as u64, taken.error), (in_batch, None), "rows are in order");
        }
    }

    fn read(&mut self, after: ChangeId, filter: &Filter) -> u64 {
        let limits = PageLimits { rows_max: PAGE_ROWS, bytes_max: u32::MAX, scan_max: 4_096 };
        let page = self.store.select(after, filter, &limits, &mut self.selection);
        let head = PageHead {
            correlation_id: 1,
            session_id: SessionId(1),
            asked_time: Nanos(1),
            served_time: Nanos(2),
            credit_left: 0,
        };
        self.out.clear();
        put_page(&self.store, &self.selection, &head, &page, &[0; 54], &mut self.out);
        black_box(&self.out);
        u64::from(page.row_count)
    }

    /// Returns the store's memory by use, as JSON.
    pub(crate) fn memory_json(&self) -> String {
        let memory = self.store.memory();
        let rings: u64 = memory.rings.iter().sum();
        format!(
            "{{\"rows\":{},\"heap\":{},\"slots\":{},\"records\":{},\"links\":{},\"rings\":{rings},\
             \"total\":{},\"per_order\":{}}}",
            memory.rows,
            memory.heap,
            memory.slots,
            memory.records,
            memory.links,
            memory.total,
            memory.total / self.orders.max(1)
        )
    }
}

impl Side for Ours {
    fn load(&mut self, orders: u64) -> Spent {
        self.orders = orders;
        spent(|| {
            let mut recs = 1..=orders;
            self.put_all(orders, || recs.next().expect("as many as orders"));
            orders
        })
    }

    fn update(&mut self, pattern: Pattern, count: u64, seed: u64) -> Spent {
        let (mut random, orders) = (Random(seed), self.orders);
        spent(|| {
            self.put_all(count, || pattern.pick(orders, &mut random));
            count
        })
    }

    fn page(&mut self, of_firm: bool, count: u64, seed: u64) -> Spent {
        let mut random = Random(seed);
        spent(|| {
            let pages = (0..count).map(|_| {
                let after = ChangeId::new(Seq(self.seq - random.below(self.orders)), Rec(0));
                let firm_id = FirmId(random.below(FIRMS) as u32 + 1);
                let filter = if of_firm { Filter { firm_id, ..Filter::ALL } } else { Filter::ALL };
                self.read(after, &filter)
            });
            pages.sum()
        })
    }

    fn poll(&mut self, count: u64) -> Spent {
        let head = self.store.head();
        spent(|| {
            let rows: u64 = (0..count).map(|_| self.read(black_box(head), &Filter::ALL)).sum();
            assert_eq!(rows, 0, "nothing is newer than the newest");
            count
        })
    }

    fn memory(&mut self) -> u64 {
        self.store.memory().total
    }
}

struct PlainRow {
    seq: u64,
    bytes: Vec<u8>,
}

/// One map of rows and four trees, from the standard library.
pub(crate) struct Plain {
    map: HashMap<u64, PlainRow>,
    by_place: BTreeMap<(u64, u64), ()>,
    by_key: [BTreeMap<(u32, u64, u64), ()>; 3],
    rows: RowMaker,
    seq: u64,
    out: Vec<u8>,
}

impl Plain {
    pub(crate) fn new(attributes_len: usize) -> Plain {
        Plain {
            map: HashMap::new(),
            by_place: BTreeMap::new(),
            by_key: Default::default(),
            rows: RowMaker::new(attributes_len),
            seq: 0,
            out: Vec::new(),
        }
    }

    fn put(&mut self, rec: u64) {
        self.seq += 1;
        let keys = keys_of(rec);
        let keys = [keys.firm_id.0, keys.account_id.0, keys.instrument_id.0];
        let (block, attributes) = self.rows.row(self.seq, rec);
        let row = self.map.entry(rec).or_insert_with(|| PlainRow {
            seq: 0,
            bytes: Vec::with_capacity(row_len(attributes.len())),
        });
        if row.seq > 0 {
            self.by_place.remove(&(row.seq, rec));
            for (tree, key) in self.by_key.iter_mut().zip(keys) {
                tree.remove(&(key, row.seq, rec));
            }
        }
        row.seq = self.seq;
        row.bytes.clear();
        row.bytes.extend_from_slice(block);
        row.bytes.extend_from_slice(attributes);
        self.by_place.insert((self.seq, rec), ());
        for (tree, key) in self.by_key.iter_mut().zip(keys) {
            tree.insert((key, self.seq, rec), ());
        }
    }

    fn copy(
        map: &HashMap<u64, PlainRow>,
        out: &mut Vec<u8>,
        recs: impl Iterator<Item = u64>,
    ) -> u64 {
        out.clear();
        let mut count = 0;
        for rec in recs.take(PAGE_ROWS as usize) {
            out.extend_from_slice(&map[&rec].bytes);
            count += 1;
        }
        black_box(out);
        count
    }
}

impl Side for Plain {
    fn load(&mut self, orders: u64) -> Spent {
        spent(|| {
            (1..=orders).for_each(|rec| self.put(rec));
            orders
        })
    }

    fn update(&mut self, pattern: Pattern, count: u64, seed: u64) -> Spent {
        let (mut random, orders) = (Random(seed), self.map.len() as u64);
        spent(|| {
            for _ in 0..count {
                let rec = pattern.pick(orders, &mut random);
                self.put(rec);
            }
            count
        })
    }

    fn page(&mut self, of_firm: bool, count: u64, seed: u64) -> Spent {
        let (mut random, orders) = (Random(seed), self.map.len() as u64);
        spent(|| {
            let pages = (0..count).map(|_| {
                let after = self.seq - random.below(orders);
                let firm = random.below(FIRMS) as u32 + 1;
                if of_firm {
                    let found = self.by_key[0].range((firm, after, 0)..=(firm, u64::MAX, 0));
                    Plain::copy(&self.map, &mut self.out, found.map(|((_, _, rec), ())| *rec))
                } else {
                    let found = self.by_place.range((after, 0)..);
                    Plain::copy(&self.map, &mut self.out, found.map(|((_, rec), ())| *rec))
                }
            });
            pages.sum()
        })
    }

    fn poll(&mut self, count: u64) -> Spent {
        let after = (self.seq, u64::MAX);
        spent(|| {
            let is_empty = || self.by_place.range(black_box(after)..).next().is_none();
            assert!((0..count).all(|_| is_empty()), "nothing is newer than the newest");
            count
        })
    }

    fn memory(&mut self) -> u64 {
        0
    }
}

/// Tarantool, driven line by line.
pub(crate) struct Tarantool {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    pad: usize,
    /// "table" to build orders from tables, "tuple" to insert prepared tuples.
    how: &'static str,
}

impl Tarantool {
    pub(crate) fn start(
        script: &str,
        dir: &str,
        pad: usize,
        memory: u64,
    ) -> std::io::Result<Tarantool> {
        let mut child = Command::new("tarantool")
            .args([script, dir, &memory.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let to = child.stdin.take().expect("it is piped");
        let from = BufReader::new(child.stdout.take().expect("it is piped"));
        Ok(Tarantool { child, to, from, pad, how: "table" })
    }

    pub(crate) fn with_tuples(&mut self, is_with: bool) -> &mut Tarantool {
        self.how = if is_with { "tuple" } else { "table" };
        self
    }

    fn ask(&mut self, question: &str) -> Spent {
        writeln!(self.to, "{question}").expect("Tarantool takes a question");
        let mut line = String::new();
        self.from.read_line(&mut line).expect("Tarantool answers");
        let mut numbers = line.split_whitespace().map(|word| word.parse().expect("a number"));
        let mut next = || numbers.next().unwrap_or_else(|| panic!("{question}: {line:?}"));
        Spent { wall: next(), cpu: next(), count: next() }
    }
}

impl Side for Tarantool {
    fn load(&mut self, orders: u64) -> Spent {
        let pad = self.pad;
        self.ask(&format!("load {orders} {pad}"))
    }

    fn update(&mut self, pattern: Pattern, count: u64, _seed: u64) -> Spent {
        let how = self.how;
        self.ask(&format!("update {} {count} {how}", pattern.name()))
    }

    fn page(&mut self, of_firm: bool, count: u64, _seed: u64) -> Spent {
        let which = if of_firm { "firm" } else { "all" };
        self.ask(&format!("page {which} {count} {PAGE_ROWS}"))
    }

    fn poll(&mut self, count: u64) -> Spent {
        self.ask(&format!("poll {count}"))
    }

    fn memory(&mut self) -> u64 {
        self.ask("memory").count as u64
    }
}

impl Drop for Tarantool {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
