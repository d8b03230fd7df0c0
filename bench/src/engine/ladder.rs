//! `weir-bench engine-ladder`: two structures for the prices of a book side: the engine's sorted
//! vector with the best price at the end, and a balanced tree.
//!
//! For each number of standing levels it measures ns to find a price's level, and ns to remove one
//! level and insert another, with prices near the touch (three in four within eight ticks) and
//! anywhere. Both structures alternate for 50 rounds, and the minimum of each counts, which leaves
//! out disturbances by the machine.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 50;
const STEPS: usize = 5_000;
/// The engine's number of rungs searched linearly before the binary search.
const NEAR: usize = 8;

#[derive(Clone, Copy)]
struct Rung {
    key: i64,
    level: u32,
}

trait Ladder {
    fn level_at(&self, key: i64) -> Option<u32>;
    fn insert(&mut self, key: i64, level: u32);
    fn remove(&mut self, key: i64);
}

struct Sorted(Vec<Rung>);

impl Sorted {
    fn lower_bound(&self, key: i64) -> usize {
        let near = self.0.len().saturating_sub(NEAR);
        for at in (near..self.0.len()).rev() {
            if self.0[at].key < key {
                return at + 1;
            }
        }
        self.0[..near].partition_point(|rung| rung.key < key)
    }
}

impl Ladder for Sorted {
    fn level_at(&self, key: i64) -> Option<u32> {
        self.0.get(self.lower_bound(key)).filter(|rung| rung.key == key).map(|rung| rung.level)
    }

    fn insert(&mut self, key: i64, level: u32) {
        self.0.insert(self.lower_bound(key), Rung { key, level });
    }

    fn remove(&mut self, key: i64) {
        self.0.remove(self.lower_bound(key));
    }
}

impl Ladder for BTreeMap<i64, u32> {
    fn level_at(&self, key: i64) -> Option<u32> {
        self.get(&key).copied()
    }

    fn insert(&mut self, key: i64, level: u32) {
        BTreeMap::insert(self, key, level);
    }

    fn remove(&mut self, key: i64) {
        BTreeMap::remove(self, &key);
    }
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Returns the keys of `count` standing levels, from the best down.
fn keys(count: usize, is_near: bool, seed: u64) -> Vec<i64> {
    let mut state = seed;
    let mut one = || {
        let reach = if is_near && random(&mut state) % 4 < 3 { 8 } else { count as u64 };
        (count as u64 - 1 - random(&mut state) % reach.min(count as u64)) as i64
    };
    (0..STEPS).map(|_| one()).collect()
}

fn time(ladder: &mut impl Ladder, keys: &[i64]) -> (f64, f64) {
    let start = Instant::now();
    for key in keys {
        black_box(ladder.level_at(*key));
    }
    let find = start.elapsed().as_nanos() as f64 / keys.len() as f64;
    let start = Instant::now();
    for key in keys {
        ladder.remove(*key);
        ladder.insert(*key, 1);
    }
    (find, start.elapsed().as_nanos() as f64 / keys.len() as f64)
}

fn least(values: Vec<f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

/// Runs the benchmark.
pub fn run() -> anyhow::Result<()> {
    for count in [10, 100, 1_000, 10_000] {
        for is_near in [true, false] {
            let mut sorted = Sorted((0..count as i64).map(|key| Rung { key, level: 1 }).collect());
            let mut tree: BTreeMap<i64, u32> = (0..count as i64).map(|key| (key, 1)).collect();
            let mut times: [Vec<f64>; 4] = Default::default();
            for round in 0..ROUNDS {
                let keys = keys(count, is_near, round as u64 + 1);
                let (a, b) = time(&mut sorted, &keys);
                let (c, d) = time(&mut tree, &keys);
                for (all, one) in times.iter_mut().zip([a, b, c, d]) {
                    all.push(one);
                }
            }
            let [sorted_find, sorted_swap, tree_find, tree_swap] = times.map(least);
            println!(
                "{{\"bench\":\"ladder\",\"levels\":{count},\"near\":{is_near},\
                 \"sorted_find_ns\":{sorted_find:.1},\"sorted_swap_ns\":{sorted_swap:.1},\
                 \"tree_find_ns\":{tree_find:.1},\"tree_swap_ns\":{tree_swap:.1}}}"
            );
        }
    }
    Ok(())
}
