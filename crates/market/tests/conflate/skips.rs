//! Skips of full queues: their work does not grow with other queues of the subscriber, and their
//! messages are those of a model with one list, searched each time.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use weir_market::conflate::{
    Body, Content, Entry, Fanout, Kind, MergedChanges, Pattern, Policy, Poll, PollOutcome,
    SubscriberId, Subscription, SubscriptionId,
};
use weir_types::{InstrumentId, Nanos};

use crate::books::{Books, definition};

const SYMBOLS: [&str; 3] = ["A", "AA", "B"];
/// The most queued events of a subscription, by default.
const QUEUE_LEN_MAX: u32 = 65_536;

fn terms(pattern: &str, content: Content, policy: Policy, queue_len_max: u32) -> Subscription {
    let pattern = Pattern::parse(pattern.as_bytes()).unwrap();
    Subscription { policy, queue_len_max, ..Subscription::new(pattern, content) }
}

struct Rig {
    fanout: Fanout,
    books: Books,
    id: SubscriberId,
}

impl Rig {
    fn new(subscriptions: &[Subscription]) -> Rig {
        let mut fanout = Fanout::new(InstrumentId(9), 9);
        for (id, symbol) in (0..).map(InstrumentId).zip(SYMBOLS) {
            fanout.define(&definition(id, symbol));
        }
        let id = fanout.add_subscriber();
        for terms in subscriptions {
            fanout.subscribe(Nanos(0), id, terms).unwrap();
            fanout.settle(Nanos(0));
        }
        Rig { fanout, books: Books::default(), id }
    }

    fn says(&mut self, id: u32, kind: Kind, number: u64) -> Entry {
        let entry = self.books.next_of(InstrumentId(id), Nanos(0), kind, number);
        self.fanout.apply(Nanos(0), &entry);
        entry
    }

    fn polled(&mut self, room: usize) -> Vec<(SubscriptionId, Entry)> {
        let mut got = Vec::new();
        let poll = Poll { subscriber: self.id, now: Nanos(0), room };
        let polled = self.fanout.poll(poll, &self.books, &mut |message, _| {
            got.push((message.subscription, message.entry));
        });
        assert!(matches!(polled, PollOutcome::Sent { .. }), "{polled:?}");
        got
    }
}

/// Each event of the short queue skips one, beside trades that are kept and quotes that are frozen
/// ahead of both, all of them unread, until the long queue is full and beyond.
#[test]
fn a_skip_beside_a_long_queue_looks_at_few_of_its_places() {
    const ROUNDS: u64 = QUEUE_LEN_MAX as u64 + 10_000;
    for content in [Content::Trades, Content::Status, Content::Levels] {
        let mut rig = Rig::new(&[
            terms("A", content, Policy::SkipAndNotify, 1),
            terms("A", Content::Trades, Policy::None, QUEUE_LEN_MAX),
            terms("A", Content::Bbo, Policy::Conflate, 1),
        ]);
        for number in 1..=ROUNDS {
            for kind in [Kind::Bbo, Kind::Trades, Kind::Status, Kind::Book] {
                rig.says(0, kind, number);
            }
        }
        let standing = rig.fanout.standing(rig.id).unwrap();
        let places = u64::from(QUEUE_LEN_MAX);
        assert!(standing.queue_len as u64 > places, "{content:?}: {standing:?}");
        assert!(standing.looks <= 16 * ROUNDS, "{content:?}: {standing:?}");
        // The queue holds a trade, the quote ahead of it, and at most a third of that in orphans.
        assert!(standing.queue_len as u64 <= 3 * places, "{content:?}: {standing:?}");
    }
}

/// A subscription and an instrument.
type Key = (usize, InstrumentId);

#[derive(Clone, Copy, Debug)]
struct Item {
    key: Key,
    /// The event; `None` for the state or the gap of its key.
    event: Option<Body>,
    merged: MergedChanges,
}

/// The obvious model of a queue without quotes ahead of trades.
struct Model {
    kind: Kind,
    subscriptions: Vec<Subscription>,
    queue: Vec<Item>,
    /// The keys whose next message is a snapshot.
    due: BTreeSet<Key>,
    latest: BTreeMap<InstrumentId, Body>,
}

impl Model {
    fn new(kind: Kind, subscriptions: &[Subscription]) -> Model {
        let ids = (0..SYMBOLS.len() as u32).map(InstrumentId);
        let keys = ids.flat_map(|id| (0..subscriptions.len()).map(move |nth| (nth, id)));
        Model {
            kind,
            subscriptions: subscriptions.to_vec(),
            queue: Vec::new(),
            due: keys.filter(|_| kind.is_state()).collect(),
            latest: BTreeMap::new(),
        }
    }

    fn is_skipping(&self, nth: usize) -> bool {
        self.subscriptions[nth].policy == Policy::SkipAndNotify
    }

    fn hear(&mut self, entry: &Entry) {
        let id = entry.instrument_id;
        self.latest.insert(id, entry.body);
        let symbol = definition(id, SYMBOLS[id.0 as usize]).symbol;
        for nth in 0..self.subscriptions.len() {
            if self.subscriptions[nth].pattern.matches(&symbol) {
                self.hear_one((nth, id), entry);
            }
        }
    }

    fn hear_one(&mut self, key: Key, entry: &Entry) {
        let (is_due, merged) = (self.due.contains(&key), entry.merged);
        let state = self.queue.iter().position(|item| item.key == key && item.event.is_none());
        if let Some(state) = state.filter(|_| is_due || !self.is_skipping(key.0)) {
            let state = &mut self.queue[state];
            state.merged = state.merged.and(merged);
            return;
        }
        let counted = self.queue.iter().filter(|item| item.key.0 == key.0 && item.event.is_some());
        let is_full = counted.count() >= self.subscriptions[key.0].queue_len_max as usize;
        if is_full && self.is_skipping(key.0) && !is_due {
            self.skip(key.0);
        }
        let is_event = !is_due && (!is_full || self.is_skipping(key.0));
        self.queue.push(Item { key, event: is_event.then_some(entry.body), merged });
    }

    fn skip(&mut self, nth: usize) {
        let mut index = 0;
        while index < self.queue.len() {
            let Item { key, event, merged } = self.queue[index];
            let is_out = key.0 == nth && event.is_some();
            let is_gap = |item: &Item| item.key == key && item.event.is_none();
            match self.queue[..index].iter().position(is_gap).filter(|_| is_out) {
                Some(gap) => {
                    self.queue[gap].merged = self.queue[gap].merged.and(merged);
                    self.queue.remove(index);
                }
                None if is_out => self.queue[index].event = None,
                None => index += 1,
            }
        }
    }

    fn pop(&mut self) -> Option<(SubscriptionId, Entry)> {
        if self.queue.is_empty() {
            return None;
        }
        let Item { key, event, merged } = self.queue.remove(0);
        let is_due = event.is_none() && self.due.contains(&key);
        let is_gap = !is_due && (self.is_skipping(key.0) || !self.kind.is_state());
        let body = match event {
            Some(body) => body,
            None if is_gap => Body::Gap(self.kind),
            None => self.latest[&key.1],
        };
        if is_due {
            self.due.remove(&key);
        }
        let is_last = self.queue.iter().all(|item| item.key != key);
        if body == Body::Gap(self.kind) && self.kind.is_state() && is_last {
            // The latest state follows the gap.
            let first_sequence = merged.last_sequence;
            let merged = MergedChanges { change_count: 0, first_sequence, ..merged };
            self.due.insert(key);
            self.queue.push(Item { key, event: None, merged });
        }
        let entry = Entry { instrument_id: key.1, is_snapshot: is_due, merged, body };
        Some((SubscriptionId(key.0 as u32), entry))
    }
}

#[derive(Clone, Debug)]
enum Op {
    Change { id: u32, number: u64 },
    Poll(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (0..SYMBOLS.len() as u32, 0..64_u64)
            .prop_map(|(id, number)| Op::Change { id, number }),
        1 => (1..5_usize).prop_map(Op::Poll),
    ]
}

/// Pattern, policy and length of a queue: short ones skip, and long ones may do either.
fn shape() -> impl Strategy<Value = (&'static str, Policy, u32)> {
    let pattern = proptest::sample::select(vec!["*", "A*", "B"]);
    let queue = prop_oneof![
        2 => (Just(Policy::SkipAndNotify), 1..4_u32),
        1 => (Just(Policy::SkipAndNotify), 4..40_u32),
        2 => (Just(Policy::None), 1..200_u32),
    ];
    (pattern, queue).prop_map(|(pattern, (policy, queue_len_max))| (pattern, policy, queue_len_max))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, ..ProptestConfig::default() })]

    /// 384 runs of 300 steps.
    #[test]
    fn a_queue_that_skips_sends_what_the_model_sends(
        ops in vec(op(), 300),
        shapes in vec(shape(), 1..5),
        is_of_trades in any::<bool>(),
    ) {
        let (content, kind) = match is_of_trades {
            true => (Content::Trades, Kind::Trades),
            false => (Content::Bbo, Kind::Bbo),
        };
        let subscriptions: Vec<Subscription> = shapes
            .into_iter()
            .map(|(pattern, policy, queue_len_max)| terms(pattern, content, policy, queue_len_max))
            .collect();
        let (mut rig, mut model) = (Rig::new(&subscriptions), Model::new(kind, &subscriptions));
        for op in ops.iter().chain([&Op::Poll(2_000)]) {
            match *op {
                Op::Change { id, number } => model.hear(&rig.says(id, kind, number)),
                Op::Poll(room) => {
                    let want: Vec<_> = (0..room).map_while(|_| model.pop()).collect();
                    assert_eq!(rig.polled(room), want, "{subscriptions:?}");
                }
            }
            let standing = rig.fanout.standing(rig.id).unwrap();
            assert_eq!(standing.queue_len, model.queue.len(), "after {op:?}");
        }
    }
}
