//! Random tests of both stages, checked against the feed and the messages that each subscriber
//! received: subscribers come and go, read slowly in any pattern, with any policy.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use weir_feed::Action;
use weir_market::conflate::{
    Body, BookView, Conflator, ConflatorConfig, Content, Entry, Fanout, Kind, Message, OnFull,
    Pattern, Policy, Poll, PollOutcome, SubscribeError, SubscriberId, Subscription, SubscriptionId,
    Urgency,
};
use weir_types::{InstrumentId, Nanos};

use crate::books::{Books, definition};

const SYMBOLS: [&str; 4] = ["AAPL", "AAP", "BAC", "Z"];
const CONTENTS: [Content; 7] = [
    Content::Bbo,
    Content::Depth(5),
    Content::Levels,
    Content::Orders,
    Content::Trades,
    Content::Statistics,
    Content::Status,
];
const POLICIES: [Policy; 4] =
    [Policy::None, Policy::Conflate, Policy::SkipAndNotify, Policy::Disconnect];

#[derive(Clone, Debug)]
enum Op {
    Change {
        id: u32,
        kind: Kind,
        number: u64,
    },
    Advance(u64),
    Tick,
    /// Pass this many entries of the first stage's queue on.
    Flush(usize),
    Poll {
        subscriber: usize,
        room: usize,
    },
    Subscribe {
        subscriber: usize,
        terms: Subscription,
    },
    Unsubscribe {
        subscriber: usize,
        nth: usize,
    },
    Interval {
        subscriber: usize,
        nth: usize,
        interval: u64,
    },
    DefineLast,
    Leave {
        subscriber: usize,
    },
}

fn terms() -> impl Strategy<Value = Subscription> {
    let pattern = proptest::sample::select(vec!["AAPL", "AAP*", "*", "Z", "BAC"]);
    let content = prop_oneof![
        2 => Just(Content::Bbo),
        2 => Just(Content::Trades),
        2 => proptest::sample::select(&CONTENTS[..]),
    ];
    let policy = proptest::sample::select(&POLICIES[..]);
    let interval = proptest::sample::select(vec![0, 2_000, 20_000]);
    (pattern, content, policy, interval, 1..6_u32).prop_map(
        |(pattern, content, policy, interval, queue_len_max)| {
            let pattern = Pattern::parse(pattern.as_bytes()).unwrap();
            let mut terms = Subscription::new(pattern, content);
            if policy != Policy::Conflate || content.kind().is_state() {
                terms.policy = policy;
            }
            if terms.policy == Policy::Conflate && content.kind().may_wait() {
                terms.interval = Nanos(interval);
            }
            Subscription { queue_len_max, ..terms }
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let kind = prop_oneof![
        3 => Just(Kind::Bbo),
        2 => Just(Kind::Trades),
        2 => proptest::sample::select(&Kind::ALL[..]),
    ];
    prop_oneof![
        16 => (0..4_u32, kind, 0..64_u64)
            .prop_map(|(id, kind, number)| Op::Change { id, kind, number }),
        4 => (0..4_000_u64).prop_map(Op::Advance),
        3 => Just(Op::Tick),
        6 => (1..12_usize).prop_map(Op::Flush),
        6 => (0..3_usize, 0..8_usize).prop_map(|(subscriber, room)| Op::Poll { subscriber, room }),
        2 => (0..3_usize, terms())
            .prop_map(|(subscriber, terms)| Op::Subscribe { subscriber, terms }),
        1 => (0..3_usize, 0..8_usize)
            .prop_map(|(subscriber, nth)| Op::Unsubscribe { subscriber, nth }),
        1 => (0..3_usize, 0..8_usize, proptest::sample::select(vec![0, 500, 2_000, 50_000]))
            .prop_map(|(subscriber, nth, interval)| Op::Interval { subscriber, nth, interval }),
        1 => Just(Op::DefineLast),
        1 => (0..30_usize).prop_map(|subscriber| Op::Leave { subscriber }),
    ]
}

/// The quotes that must precede a trade, for each of the subscriber's subscriptions.
type QuoteBefore = Vec<(u64, Body)>;

/// The state of one subscription for one instrument.
#[derive(Clone, Debug, Default)]
struct Track {
    heard: u64,
    told: u64,
    /// The latest body received by the fan-out, and the latest sent.
    latest: Option<Body>,
    last: Option<Body>,
    last_sequence: u64,
    quotes_before: BTreeMap<u64, QuoteBefore>,
    /// The number of the last change of an order since the snapshot; `None` without a snapshot.
    orders: Option<u64>,
}

#[derive(Clone, Debug)]
struct Held {
    id: SubscriptionId,
    /// A number that is never reused.
    number: u64,
    terms: Subscription,
    tracks: BTreeMap<InstrumentId, Track>,
}

#[derive(Clone, Debug)]
struct Reader {
    id: SubscriberId,
    held: Vec<Held>,
    is_closed: bool,
    had_disconnect: bool,
}

/// The steps that the fan-out takes behind each step of a run.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// All that there are.
    All,
    /// This many at most.
    Few(usize),
}

struct World {
    pace: Pace,
    conflator: Conflator,
    fanout: Fanout,
    books: Books,
    now: Nanos,
    defined: usize,
    numbers: u64,
    order_numbers: BTreeMap<InstrumentId, u64>,
    readers: Vec<Reader>,
}

impl World {
    fn new(pace: Pace) -> World {
        let config = ConflatorConfig {
            bbo_interval: Nanos(3_000),
            book_interval: Nanos(3_000),
            statistics_interval: Nanos(9_000),
            events_max: 12,
            on_full: OnFull::Gap,
            urgency: Urgency::ONE_PERCENT,
            instrument_id_max: InstrumentId(3),
        };
        let mut world = World {
            pace,
            conflator: Conflator::new(&config),
            fanout: Fanout::new(InstrumentId(3), 100),
            books: Books::default(),
            now: Nanos(0),
            defined: 0,
            numbers: 0,
            order_numbers: BTreeMap::new(),
            readers: Vec::new(),
        };
        (0..3).for_each(|_| world.define());
        world.fanout.settle(Nanos(0));
        for _ in 0..3 {
            let id = world.fanout.add_subscriber();
            world.readers.push(Reader {
                id,
                held: Vec::new(),
                is_closed: false,
                had_disconnect: false,
            });
        }
        world
    }

    fn define(&mut self) {
        let Some(symbol) = SYMBOLS.get(self.defined) else { return };
        let id = InstrumentId(self.defined as u32);
        self.fanout.define(&definition(id, symbol));
        self.defined += 1;
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Change { id, kind, number } => self.change(InstrumentId(id), kind, number),
            Op::Advance(span) => self.now.0 += span,
            Op::Tick => self.conflator.tick(self.now),
            Op::Flush(count) => self.flush(count),
            Op::Poll { subscriber, room } => {
                self.poll(subscriber, room);
            }
            Op::Subscribe { subscriber, terms } => self.subscribe(subscriber, &terms),
            Op::Unsubscribe { subscriber, nth } => {
                let reader = &mut self.readers[subscriber];
                if nth < reader.held.len() {
                    let held = reader.held.remove(nth);
                    self.fanout.unsubscribe(reader.id, held.id).unwrap();
                }
            }
            Op::Interval { subscriber, nth, interval } => {
                let reader = &self.readers[subscriber];
                let held = reader.held.get(nth).filter(|_| !reader.is_closed);
                if let Some(held) = held {
                    let is_throttled = held.terms.policy == Policy::Conflate
                        && held.terms.content.kind().may_wait();
                    let (now, interval_ns) = (self.now, Nanos(interval));
                    let given = self.fanout.set_interval(now, reader.id, held.id, interval_ns);
                    let is_behind = given == Err(SubscribeError::Disconnected);
                    assert!(!is_behind || reader.may_be_disconnected());
                    assert!(is_behind || given.is_ok() == (is_throttled || interval == 0));
                }
            }
            Op::DefineLast => self.define(),
            Op::Leave { subscriber } => {
                if subscriber < self.readers.len() {
                    self.fanout.remove_subscriber(self.readers[subscriber].id);
                    let id = self.fanout.add_subscriber();
                    self.readers[subscriber] =
                        Reader { id, held: Vec::new(), is_closed: false, had_disconnect: false };
                }
            }
        }
        self.advance(self.pace);
        self.check_bounds();
    }

    fn advance(&mut self, pace: Pace) {
        match pace {
            Pace::All => self.fanout.settle(self.now),
            Pace::Few(steps) => assert!(self.fanout.advance(self.now, steps) <= steps),
        }
        for interest in self.fanout.take_interest() {
            self.conflator.interest(self.now, &interest, &self.books);
        }
    }

    fn change(&mut self, id: InstrumentId, kind: Kind, number: u64) {
        let mut number = number;
        if kind == Kind::Orders {
            let orders = self.order_numbers.entry(id).or_default();
            *orders += 1;
            number = *orders;
        }
        let entry = self.books.next_of(id, self.now, kind, number);
        self.conflator.apply(self.now, &entry);
    }

    fn subscribe(&mut self, index: usize, terms: &Subscription) {
        let reader = &mut self.readers[index];
        if reader.is_closed {
            return;
        }
        match self.fanout.subscribe(self.now, reader.id, terms) {
            Ok(id) => {
                self.numbers += 1;
                reader.had_disconnect |= terms.policy == Policy::Disconnect;
                let tracks = BTreeMap::new();
                reader.held.push(Held { id, number: self.numbers, terms: *terms, tracks });
            }
            // A subscription that has ended leaves its instruments.
            Err(SubscribeError::Pending) => assert!(matches!(self.pace, Pace::Few(_))),
            // The subscriber is behind and not disconnected yet.
            Err(refused) => {
                assert_eq!(refused, SubscribeError::Disconnected);
                assert!(reader.may_be_disconnected());
            }
        }
    }

    fn flush(&mut self, count: usize) {
        for _ in 0..count {
            let Some(entry) = self.conflator.pop(self.now) else { break };
            let id = entry.instrument_id;
            let fanout = &self.fanout;
            let includes =
                |reader: SubscriberId, subscription| fanout.includes(reader, subscription, id);
            for reader in &mut self.readers {
                reader.note_included(id, includes);
            }
            self.fanout.apply(self.now, &entry);
            let Some(symbol) = SYMBOLS[..self.defined].get(entry.instrument_id.0 as usize) else {
                continue;
            };
            let symbol = definition(entry.instrument_id, symbol).symbol;
            for reader in &mut self.readers {
                reader.hear(&entry, &symbol);
            }
        }
    }

    fn poll(&mut self, index: usize, room: usize) -> usize {
        let mut got = Vec::new();
        let poll = Poll { subscriber: self.readers[index].id, now: self.now, room };
        let polled = self.fanout.poll(poll, &self.books, &mut |message, _| got.push(*message));
        let reader = &mut self.readers[index];
        match polled {
            PollOutcome::Sent { count, .. } => assert!(count == got.len() && count <= room),
            PollOutcome::Disconnect(why) => {
                let held = reader.held.iter().find(|held| held.id == why.subscription);
                // The subscription may have ended since.
                assert!(held.is_none_or(|held| held.terms.policy == Policy::Disconnect));
                assert_eq!(got, []);
                reader.is_closed = true;
            }
            PollOutcome::Unknown => panic!("{index} is there"),
        }
        for message in &got {
            reader.tell(message, &self.order_numbers);
        }
        got.len()
    }

    fn check_bounds(&self) {
        for reader in &self.readers {
            let standing = self.fanout.standing(reader.id).unwrap();
            if self.fanout.has_steps() {
                continue;
            }
            let count = reader.held.len();
            let queues: usize =
                reader.held.iter().map(|held| held.terms.queue_len_max as usize).sum();
            let most = count * SYMBOLS.len() + queues * (1 + count);
            assert!(standing.queue_len <= most, "{standing:?} with {count}: {most}");
        }
    }

    /// Lets every subscriber read everything, then checks that none misses anything.
    fn settle(&mut self) {
        self.advance(Pace::All);
        self.now.0 += 10_000_000;
        self.step(&Op::Tick);
        self.step(&Op::Flush(usize::MAX));
        for index in 0..self.readers.len() {
            self.poll(index, 0);
            self.now.0 += 10_000_000;
            while self.poll(index, 3) > 0 {
                self.now.0 += 10_000_000;
            }
            if !self.readers[index].is_closed {
                self.readers[index].settle(&self.books, self.defined, &self.order_numbers);
            }
        }
    }
}

impl Reader {
    /// Returns true when any subscription, even an ended one, may disconnect the subscriber.
    fn may_be_disconnected(&self) -> bool {
        self.had_disconnect
    }

    /// Notes the subscriptions that include an instrument.
    fn note_included(
        &mut self,
        id: InstrumentId,
        includes: impl Fn(SubscriberId, SubscriptionId) -> bool,
    ) {
        for held in &mut self.held {
            if includes(self.id, held.id) {
                held.tracks.entry(id).or_default();
            }
        }
    }

    fn hear(&mut self, entry: &Entry, symbol: &weir_feed::SymbolText) {
        let (id, kind) = (entry.instrument_id, entry.body.kind());
        let quotes_before: QuoteBefore = self
            .held
            .iter()
            .filter(|held| held.terms.content == Content::Bbo)
            .filter(|held| matches!(held.terms.policy, Policy::Conflate | Policy::None))
            .filter_map(|held| Some((held.number, held.tracks.get(&id)?.latest?)))
            .collect();
        for held in &mut self.held {
            if held.terms.content.kind() != kind || !held.terms.pattern.matches(symbol) {
                continue;
            }
            // A subscription hears nothing of an instrument that it does not include yet.
            let Some(track) = held.tracks.get_mut(&id) else { continue };
            track.heard += u64::from(entry.merged.change_count);
            track.latest = Some(entry.body);
            if let Body::Trade(_) = entry.body {
                track.quotes_before.insert(entry.merged.last_sequence, quotes_before.clone());
            }
        }
    }

    fn tell(&mut self, message: &Message, order_numbers: &BTreeMap<InstrumentId, u64>) {
        let Message { subscription, entry, .. } = *message;
        let id = entry.instrument_id;
        let place = self.held.iter().position(|held| held.id == subscription);
        let held = &mut self.held[place.expect("nothing of an ended subscription")];
        let track = held.tracks.entry(id).or_default();
        assert_eq!(entry.body.kind(), held.terms.content.kind());
        let is_lost = matches!(entry.body, Body::Gap(_));
        let is_first = track.last.is_none() && !is_lost && entry.body.kind() != Kind::Trades;
        assert!(!is_first || entry.is_snapshot, "{entry:?} begins {:?}", held.terms);
        track.told += u64::from(entry.merged.change_count);
        if entry.merged.change_count > 0 {
            let (first, last) = (entry.merged.first_sequence, entry.merged.last_sequence);
            assert!(first <= last, "{entry:?}");
            assert!(track.last_sequence < last, "{entry:?} after {}", track.last_sequence);
            track.last_sequence = last;
        }
        let mut quotes_before = None;
        match entry.body {
            Body::Trade(_) => {
                quotes_before = track.quotes_before.remove(&entry.merged.last_sequence);
                assert!(quotes_before.is_some(), "{entry:?} twice");
            }
            Body::OrdersSnapshot => track.orders = order_numbers.get(&id).copied().or(Some(0)),
            Body::Gap(Kind::Orders) => track.orders = None,
            Body::Order(update) => {
                let Action::Delete { order_id } = update.action else { panic!("{update:?}") };
                if let Some(orders) = &mut track.orders {
                    *orders += 1;
                    assert_eq!(*orders, order_id, "orders come one after the other");
                }
            }
            _ => {}
        }
        if !is_lost {
            track.last = Some(entry.body);
        }
        for (number, quote) in quotes_before.unwrap_or_default() {
            let quotes = self.held.iter().find(|held| held.number == number);
            if let Some(quotes) = quotes {
                assert_eq!(quotes.tracks[&id].last, Some(quote), "before {entry:?}");
            }
        }
    }

    fn settle(&self, books: &Books, defined: usize, order_numbers: &BTreeMap<InstrumentId, u64>) {
        for held in &self.held {
            for (index, symbol) in SYMBOLS[..defined].iter().enumerate() {
                let id = InstrumentId(index as u32);
                if !held.terms.pattern.matches(&definition(id, symbol).symbol) {
                    continue;
                }
                let track = held.tracks.get(&id).cloned().unwrap_or_default();
                let what = format!("{id:?} of {:?}: {track:?}", held.terms);
                match held.terms.content.kind() {
                    Kind::Bbo => assert_eq!(track.last, Some(Body::Bbo(books.best(id))), "{what}"),
                    Kind::Status => {
                        assert_eq!(track.last, books.status(id).map(Body::Status), "{what}");
                    }
                    Kind::Orders => {
                        let last = order_numbers.get(&id).copied().unwrap_or(0);
                        assert_eq!(track.orders, Some(last), "{what}");
                        continue;
                    }
                    _ => {}
                }
                assert_eq!(track.heard, track.told, "{what}");
            }
        }
    }
}

/// Lengthens the queues of subscriptions that keep everything, and has subscribers read less.
fn with_long_queues(op: &Op) -> Op {
    match *op {
        Op::Subscribe { subscriber, terms } if terms.policy == Policy::None => {
            let terms = Subscription { queue_len_max: 100 * terms.queue_len_max, ..terms };
            Op::Subscribe { subscriber, terms }
        }
        Op::Poll { subscriber, room } => Op::Poll { subscriber, room: room / 4 },
        _ => op.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, ..ProptestConfig::default() })]

    /// 384 runs of 400 steps.
    #[test]
    fn whatever_subscribers_do_each_is_told_all_that_is_new_in_order_and_within_its_bounds(
        ops in vec(op(), 400),
    ) {
        let mut world = World::new(Pace::All);
        for op in &ops {
            world.step(op);
        }
        world.settle();
    }

    /// The same where subscribing and leaving go on for as long as the market changes.
    #[test]
    fn whatever_changes_while_subscribers_join_and_leave_in_steps_each_ends_with_the_venues_books(
        ops in vec(op(), 400),
        steps in 0..3_usize,
    ) {
        let mut world = World::new(Pace::Few(steps));
        for op in &ops {
            world.step(op);
        }
        world.settle();
    }

    /// The same where queues are so long that quotes stay frozen ahead of trades that were skipped.
    #[test]
    fn skips_beside_long_queues_lose_nothing_untold_and_keep_the_order(ops in vec(op(), 400)) {
        let mut world = World::new(Pace::All);
        for op in &ops {
            world.step(&with_long_queues(op));
        }
        world.settle();
    }
}

/// Orders' changes that are lost while the snapshot after an earlier gap waits: they come before
/// the changes that the snapshot has taken in.
#[test]
fn changes_lost_before_a_waiting_snapshot_are_its_oldest() {
    let all = Pattern::parse(b"*").unwrap();
    let terms = Subscription {
        policy: Policy::SkipAndNotify,
        queue_len_max: 2,
        ..Subscription::new(all, Content::Orders)
    };
    let order = |id| Op::Change { id, kind: Kind::Orders, number: 0 };
    let mut world = World::new(Pace::All);
    world.step(&Op::Subscribe { subscriber: 0, terms });
    world.step(&Op::Flush(usize::MAX));
    while world.poll(0, 8) > 0 {}
    // The third change makes the first two a gap, and stays itself.
    for op in [order(0), order(0), order(0), Op::Flush(usize::MAX)] {
        world.step(&op);
    }
    assert_eq!(world.poll(0, 1), 1, "the gap, behind which the snapshot waits");
    // The snapshot takes the next change in. Those of another instrument fill the queue.
    for op in [order(0), order(1), order(1), Op::Flush(usize::MAX)] {
        world.step(&op);
    }
    world.settle();
}
