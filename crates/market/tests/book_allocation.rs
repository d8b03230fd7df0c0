//! Books with room for everything that rests do not allocate.

#[path = "support/flow.rs"]
mod flow;
#[path = "support/memory.rs"]
mod memory;

use flow::{Flow, Shape};
use memory::{Counting, allocation_count};
use weir_feed::Update;
use weir_market::{Books, BooksConfig};
use weir_types::InstrumentId;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Enough orders for batches to be prefetched.
const SHAPE: Shape = Shape { instruments: 50, live_orders: 20_000, recent_of_ten: 5 };

fn warm() -> (Books, Flow) {
    let config = BooksConfig {
        orders: 24_000,
        instruments: SHAPE.instruments,
        levels_per_side: 64,
        ..BooksConfig::default()
    };
    let (mut books, mut flow) = (Books::new(&config), Flow::new(SHAPE));
    for instrument in 1..=SHAPE.instruments {
        assert!(books.define(InstrumentId(instrument)));
    }
    let mut updates = Vec::new();
    flow.fill(&mut updates, usize::MAX);
    books.apply_all(&updates, |_, _| {});
    (books, flow)
}

#[test]
fn books_in_steady_state_allocate_nothing() {
    let (mut books, mut flow) = warm();
    let updates: Vec<Update> = (0..60_000).map(|_| flow.next()).collect();
    let (first, second) = updates.split_at(30_000);
    let before = allocation_count();
    let mut best_changes = 0_u32;
    for update in first {
        best_changes += u32::from(books.apply(update).best.is_some());
    }
    books.apply_all(second, |_, change| best_changes += u32::from(change.best.is_some()));
    assert_eq!(allocation_count() - before, 0, "allocations in {} updates", updates.len());
    assert!(best_changes > 1_000, "{best_changes} changes of the best price");
    assert_eq!(books.anomalies().total(), 0, "the flow fits together");
}

#[test]
fn a_batch_leads_to_the_same_books_and_changes_as_its_updates_one_by_one() {
    let (mut one, mut flow) = warm();
    let (mut all, _) = warm();
    let updates: Vec<Update> = (0..20_000).map(|_| flow.next()).collect();
    let want: Vec<_> = updates.iter().map(|update| one.apply(update)).collect();
    let mut told = Vec::new();
    all.apply_all(&updates, |_, change| told.push(*change));
    assert!(told == want);
    assert_eq!(all.digest_all(), one.digest_all());
    assert!(all.order_count() > 16_384, "{} orders rest", all.order_count());
}

#[test]
fn books_that_start_small_grow_to_the_same_state() {
    let small = BooksConfig { orders: 0, instruments: 0, levels_per_side: 0, ..Default::default() };
    let (mut books, mut flow) = (Books::new(&small), Flow::new(SHAPE));
    let mut updates = Vec::new();
    flow.fill(&mut updates, usize::MAX);
    books.apply_all(&updates, |_, _| {});
    let (mut large, mut flow) = warm();
    for _ in 0..10_000 {
        let update = flow.next();
        assert_eq!(books.apply(&update), large.apply(&update));
    }
    assert_eq!(books.digest_all(), large.digest_all());
    assert_eq!(books.anomalies().total(), 0);
}
