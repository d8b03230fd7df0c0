//! A thousand subscribers to thousands of instruments: once their queues have reached their peak
//! nothing allocates, and the memory of a subscription is the figure on the market data page.

#[path = "support/memory.rs"]
mod memory;

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

use memory::{Counting, allocation_count};
use weir_feed::{Definition, SymbolText, TradeFlags, Venue};
use weir_market::conflate::{
    Bbo, Body, BookView, Content, DayStatistics, Entry, Fanout, Pattern, Poll, PollOutcome, Stamp,
    Status, SubscriberId, Subscription, Trade,
};
use weir_types::{InstrumentId, Nanos, Price, Qty, Side};

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// An allocator that also counts the bytes held by a thread.
struct Weighing;

fn weigh(more: usize, less: usize) {
    _ = HELD.try_with(|held| held.set(held.get().wrapping_add(more).wrapping_sub(less)));
}

// SAFETY: every call goes to the counting allocator unchanged; weighing touches a thread-local cell
// that needs no allocation.
unsafe impl GlobalAlloc for Weighing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        weigh(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { Counting.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        weigh(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`, which is the same.
        unsafe { Counting.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        weigh(size, layout.size());
        // SAFETY: the caller keeps the contract of `realloc`, which is the same.
        unsafe { Counting.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        weigh(0, layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`, which is the same.
        unsafe { Counting.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Weighing = Weighing;

const SUBSCRIBERS: u32 = 1_000;
/// Slightly more than a power of two, so that growth by doubling shows.
const INSTRUMENTS: u32 = 2_100;
/// Instruments with trades.
const TRADED: u32 = 50;
/// The memory of a subscription for each of its instruments, in bytes, as stated in
/// `docs/market.md`.
const BYTES_PER_INSTRUMENT_MAX: usize = 300;

/// Empty books: every state in this test comes with its change.
struct NoBooks;

impl BookView for NoBooks {
    fn best(&self, _: InstrumentId) -> Bbo {
        Bbo::default()
    }
    fn levels(&self, _: InstrumentId, _: Side, _: usize, _: &mut dyn FnMut(Price, Qty, u32)) {}
    fn statistics(&self, _: InstrumentId) -> DayStatistics {
        DayStatistics::default()
    }
    fn status(&self, _: InstrumentId) -> Option<Status> {
        None
    }
    fn last_change(&self, _: InstrumentId) -> Stamp {
        Stamp::default()
    }
}

/// A flush thread's fan-out, its clock, and counters of messages.
struct Crowd {
    fanout: Fanout,
    subscribers: Vec<SubscriberId>,
    clock: u64,
    told: u64,
    gaps: u64,
}

impl Crowd {
    fn new() -> Crowd {
        let mut fanout = Fanout::new(InstrumentId(INSTRUMENTS), 4);
        for id in 1..=INSTRUMENTS {
            let group = if id <= TRADED { 'A' } else { 'Z' };
            let symbol = SymbolText::new(format!("{group}{id}").as_bytes()).expect("a symbol");
            let (instrument_id, round_lot) = (InstrumentId(id), Qty(100));
            let definition = Definition { instrument_id, symbol, round_lot, previous_close: None };
            fanout.define(&definition);
        }
        let subscribers = (0..SUBSCRIBERS).map(|_| fanout.add_subscriber()).collect();
        Crowd { fanout, subscribers, clock: 0, told: 0, gaps: 0 }
    }

    fn subscribe(&mut self, terms: &Subscription) {
        for id in &self.subscribers {
            self.fanout.subscribe(Nanos(self.clock), *id, terms).expect("it may");
        }
        self.fanout.settle(Nanos(self.clock));
    }

    fn say(&mut self, id: u32, body: Body) {
        self.clock += 1_000;
        let at = Nanos(self.clock);
        let stamp = Stamp { sequence: self.clock, ts_event: at, ts_recv: at };
        self.fanout.apply(at, &Entry::change(InstrumentId(id), stamp, body));
    }

    /// Changes every instrument's quote, with some trades; polls all subscribers after every
    /// `poll_every`.
    fn round(&mut self, number: u64, poll_every: u32) {
        for id in 1..=INSTRUMENTS {
            let (price, size) = (Price(1_000_000_000 * i64::from(id)), Qty(number + 1));
            let quote = Bbo { bid_px: price, bid_sz: size, ask_px: price, ask_sz: size };
            self.say(id, Body::Bbo(quote));
            if id.is_multiple_of(20) {
                let id = id / 20 % TRADED + 1;
                self.say(id, trade(self.clock));
            }
            if id.is_multiple_of(poll_every) {
                self.poll_all(50);
            }
        }
    }

    fn poll_all(&mut self, room: usize) {
        let Crowd { fanout, subscribers, clock, told, gaps } = self;
        for subscriber in subscribers.iter().copied() {
            let poll = Poll { subscriber, now: Nanos(*clock), room };
            let polled = fanout.poll(poll, &NoBooks, &mut |message, _: &NoBooks| {
                *told += 1;
                *gaps += u64::from(matches!(message.entry.body, Body::Gap(_)));
            });
            assert!(matches!(polled, PollOutcome::Sent { .. }), "{polled:?}");
        }
        fanout.take_ready(|_| ());
        fanout.take_interest().for_each(drop);
    }

    fn poll_until_empty(&mut self) {
        let mut told = None;
        while told.replace(self.told) != Some(self.told) {
            self.poll_all(200);
        }
    }
}

fn trade(match_id: u64) -> Body {
    Body::Trade(Trade {
        price: Price(1_000_000_000),
        size: Qty(100),
        match_id,
        venue: Venue(0),
        aggressor: None,
        flags: TradeFlags::default(),
        is_break: false,
    })
}

fn quotes() -> Subscription {
    let interval = Nanos(500_000);
    Subscription { interval, ..Subscription::new(Pattern::All, Content::Bbo) }
}

/// Trades, of which a round has more than a queue holds.
fn trades() -> Subscription {
    let pattern = Pattern::parse(b"A*").expect("a pattern");
    Subscription { queue_len_max: 32, ..Subscription::new(pattern, Content::Trades) }
}

#[test]
fn a_thousand_subscribers_to_all_instruments_take_nothing_from_the_heap_in_steady_state() {
    let mut crowd = Crowd::new();
    crowd.subscribe(&quotes());
    crowd.subscribe(&trades());
    // Fill the queues to their peak: everything changes, and no subscriber reads.
    for number in 0..2 {
        crowd.round(number, INSTRUMENTS + 1);
        crowd.poll_until_empty();
    }
    let (told, gaps, allocations) = (crowd.told, crowd.gaps, allocation_count());
    crowd.round(2, 100);
    crowd.round(3, INSTRUMENTS + 1);
    crowd.poll_until_empty();
    assert_eq!(allocation_count() - allocations, 0, "allocations");
    let (told, gaps) = (crowd.told - told, crowd.gaps - gaps);
    let all = u64::from(SUBSCRIBERS) * u64::from(INSTRUMENTS);
    assert!(told > all, "{told} messages of two rounds of {all} quotes, and trades");
    assert!(gaps > 0, "queues of trades were full");
}

#[test]
fn a_subscription_takes_what_the_page_says_for_each_instrument_and_gives_it_back() {
    let mut crowd = Crowd::new();
    // The first subscriber pays for the fan-out's own memory of an instrument.
    crowd.fanout.subscribe(Nanos(0), crowd.subscribers[0], &quotes()).expect("it may");
    crowd.fanout.settle(Nanos(0));
    let before = HELD.get();
    for id in &crowd.subscribers[1..] {
        crowd.fanout.subscribe(Nanos(0), *id, &quotes()).expect("it may");
    }
    crowd.fanout.settle(Nanos(0));
    crowd.round(0, INSTRUMENTS + 1);
    crowd.poll_until_empty();
    let places = ((SUBSCRIBERS - 1) * INSTRUMENTS) as usize;
    let bytes = (HELD.get() - before).div_ceil(places);
    println!("{bytes} bytes for an instrument of a subscription");
    assert!(bytes <= BYTES_PER_INSTRUMENT_MAX, "{bytes} bytes for an instrument");
    for id in std::mem::take(&mut crowd.subscribers) {
        crowd.fanout.remove_subscriber(id);
    }
    crowd.fanout.settle(Nanos(0));
    let kept = HELD.get().saturating_sub(before) / places;
    assert!(kept <= 40, "{kept} bytes for an instrument stay when all have gone");
}
