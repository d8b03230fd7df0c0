//! Random tests of the first stage: against the model, and against the feed itself.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use weir_market::conflate::{
    Body, BookView, Conflator, ConflatorConfig, Entry, Interest, Kind, OnFull, Outcome, Urgency,
};
use weir_types::{InstrumentId, Nanos};

use crate::books::Books;
use crate::model::Model;

type Key = (InstrumentId, Kind);

#[derive(Clone, Debug)]
enum Op {
    Change { id: u32, kind: Kind, number: u64 },
    Advance(u64),
    Tick,
    Pop(usize),
    Want { id: u32, kind: Kind, is_wanted: bool },
    Interval { kind: Kind, interval: u64 },
}

fn kind() -> impl Strategy<Value = Kind> {
    // Mostly quotes and trades, as in a market.
    prop_oneof![
        4 => Just(Kind::Bbo),
        3 => Just(Kind::Trades),
        1 => proptest::sample::select(&Kind::ALL[..]),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0..3_u32, kind(), 0..64_u64)
            .prop_map(|(id, kind, number)| Op::Change { id, kind, number }),
        5 => (0..6_000_u64).prop_map(Op::Advance),
        4 => Just(Op::Tick),
        4 => (1..6_usize).prop_map(Op::Pop),
        2 => (0..3_u32, kind(), prop::bool::weighted(0.6))
            .prop_map(|(id, kind, is_wanted)| Op::Want { id, kind, is_wanted }),
        1 => (kind(), proptest::sample::select(vec![0, 1_000, 5_000, 15_000]))
            .prop_map(|(kind, interval)| Op::Interval { kind, interval }),
    ]
}

/// Invariants that are independent of the model, checked from the feed and the sent entries alone.
#[derive(Default)]
struct Ledger {
    accepted: BTreeMap<Key, u64>,
    told: BTreeMap<Key, u64>,
    last: BTreeMap<Key, Entry>,
    /// For each queued trade, the quote at its time.
    quote_at: BTreeMap<u64, Body>,
    last_sequence: BTreeMap<InstrumentId, u64>,
    /// Merged changes of status: the latest takes the oldest one's place in the order.
    merged_status: BTreeSet<u64>,
}

impl Ledger {
    fn accept(&mut self, entry: &Entry, outcome: Outcome, books: &Books, has_quote: bool) {
        let key = (entry.instrument_id, entry.body.kind());
        if !matches!(outcome, Outcome::Unwanted | Outcome::Refused) {
            *self.accepted.entry(key).or_default() += 1;
        }
        if key.1 == Kind::Status && outcome == Outcome::Merged {
            self.merged_status.insert(entry.merged.last_sequence);
        }
        if key.1 == Kind::Trades && outcome == Outcome::Queued && has_quote {
            self.quote_at.insert(books.sequence, Body::Bbo(books.best(key.0)));
        }
    }

    fn forget(&mut self, key: Key) {
        self.accepted.remove(&key);
        self.told.remove(&key);
        self.last.remove(&key);
        // The order of quotes and trades is not checked across a renewed subscription.
        self.quote_at.clear();
    }

    fn tell(&mut self, entry: &Entry) {
        let key = (entry.instrument_id, entry.body.kind());
        *self.told.entry(key).or_default() += u64::from(entry.merged.change_count);
        if let Body::Trade(_) = entry.body
            && let Some(quote) = self.quote_at.remove(&entry.merged.last_sequence)
        {
            assert_eq!(self.last[&(key.0, Kind::Bbo)].body, quote, "the quote before {entry:?}");
        }
        let is_in_order = match entry.body {
            Body::Bbo(_) | Body::Trade(_) => true,
            Body::Status(_) => !self.merged_status.contains(&entry.merged.last_sequence),
            _ => false,
        };
        if is_in_order && entry.merged.change_count > 0 {
            let last = self.last_sequence.entry(key.0).or_default();
            assert!(*last <= entry.merged.last_sequence, "{entry:?} after {last}");
            *last = entry.merged.last_sequence;
        }
        assert!(entry.merged.first_sequence <= entry.merged.last_sequence);
        self.last.insert(key, *entry);
    }

    /// Checks, after everything was sent, that nothing is missing and the states equal the books'.
    fn settle(&self, books: &Books) {
        assert_eq!(
            self.accepted.iter().filter(|(_, count)| **count > 0).collect::<Vec<_>>(),
            self.told.iter().filter(|(_, count)| **count > 0).collect::<Vec<_>>()
        );
        for ((id, kind), entry) in &self.last {
            match kind {
                Kind::Bbo => assert_eq!(entry.body, Body::Bbo(books.best(*id))),
                Kind::Status => assert_eq!(entry.body, Body::Status(books.status(*id).unwrap())),
                _ => {}
            }
        }
    }
}

struct Run {
    conflator: Conflator,
    model: Model,
    books: Books,
    ledger: Ledger,
    now: Nanos,
    events_max: usize,
}

impl Run {
    fn new(config: &ConflatorConfig) -> Run {
        Run {
            conflator: Conflator::new(config),
            model: Model::new(config),
            books: Books::default(),
            ledger: Ledger::default(),
            now: Nanos(0),
            events_max: config.events_max as usize,
        }
    }

    fn step(&mut self, op: &Op) {
        self.model.see(self.now);
        match *op {
            Op::Advance(span) => self.now.0 += span,
            Op::Change { id, kind, number } => {
                let id = InstrumentId(id);
                let entry = self.books.next_of(id, self.now, kind, number);
                let outcome = self.conflator.apply(self.now, &entry);
                assert_eq!(outcome, self.model.apply(&entry), "{entry:?}");
                let has_quote = self.model.is_wanted(id, Kind::Bbo);
                self.ledger.accept(&entry, outcome, &self.books, has_quote);
                if outcome == Outcome::Refused && kind == Kind::Status {
                    // A refused change was not sent, so nothing of it may be expected.
                    self.pop(usize::MAX);
                    let outcome = self.conflator.apply(self.now, &entry);
                    assert_eq!(outcome, self.model.apply(&entry), "{entry:?} again");
                    self.ledger.accept(&entry, outcome, &self.books, has_quote);
                }
            }
            Op::Tick => {
                self.conflator.tick(self.now);
                self.model.tick();
            }
            Op::Pop(count) => self.pop(count),
            Op::Want { id, kind, is_wanted } => {
                let id = InstrumentId(id);
                let interest = Interest { instrument_id: id, kind, is_wanted };
                self.conflator.interest(self.now, &interest, &self.books);
                self.model.interest((id, kind), is_wanted, &self.books);
                if !self.model.is_wanted(id, kind) {
                    self.ledger.forget((id, kind));
                }
            }
            Op::Interval { kind, interval } => {
                self.conflator.set_interval(self.now, kind, Nanos(interval));
                self.model.set_interval(kind, Nanos(interval));
            }
        }
        assert_eq!(self.conflator.queue_len(), self.model.queue_len(), "after {op:?}");
        assert_eq!(self.conflator.waiting_count(), self.model.waiting_count(), "after {op:?}");
        // States and markers, plus three kinds of events with two states ahead of each.
        assert!(self.conflator.queue_len() <= 3 * 6 * 2 + 3 * 3 * self.events_max);
    }

    fn pop(&mut self, count: usize) {
        for _ in 0..count {
            let Some(entry) = self.conflator.pop(self.now) else { break };
            self.model.popped(&entry);
            self.ledger.tell(&entry);
        }
    }

    fn settle(&mut self) {
        self.now.0 += 1_000_000;
        self.step(&Op::Tick);
        self.pop(usize::MAX);
        assert_eq!((self.conflator.queue_len(), self.conflator.waiting_count()), (0, 0));
        assert_eq!(self.conflator.next_due(), None);
        self.ledger.settle(&self.books);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, ..ProptestConfig::default() })]

    /// 384 runs of 400 steps.
    #[test]
    fn the_first_stage_does_what_the_model_does_and_the_feed_demands(
        ops in vec(op(), 400),
        events_max in 1..8_u32,
        is_refusing in any::<bool>(),
    ) {
        let on_full = if is_refusing { OnFull::Refuse } else { OnFull::Gap };
        let config = ConflatorConfig {
            bbo_interval: Nanos(15_000),
            book_interval: Nanos(5_000),
            statistics_interval: Nanos(5_000),
            urgency: Urgency::ONE_PERCENT,
            instrument_id_max: InstrumentId(2),
            events_max,
            on_full,
        };
        let mut run = Run::new(&config);
        for id in 0..2 {
            for kind in Kind::ALL {
                run.step(&Op::Want { id, kind, is_wanted: true });
            }
        }
        for op in &ops {
            run.step(op);
        }
        run.settle();
    }
}
