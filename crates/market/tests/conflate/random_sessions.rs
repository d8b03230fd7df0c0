//! Random sessions with budgets against a slow model of their slots: subscriptions begin, end, are
//! refused and grow while instruments are defined anew, in steps at any pace.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use weir_market::conflate::{
    AccountId, Body, Content, Fanout, Pattern, Poll, PollOutcome, SubscribeError, SubscriberId,
    Subscription, SubscriptionId,
};
use weir_types::{InstrumentId, Nanos};

use crate::books::{Books, definition, quote};

const SYMBOLS: [&str; 7] = ["A", "AA", "AAB", "B", "BA", "C", "CAA"];
const SESSION_SLOTS_MAX: u64 = 9;
const SLOTS_MAX: u64 = 14;
const SUBSCRIPTIONS_MAX: usize = 5;
const INSTRUMENTS: u32 = 5;

#[derive(Clone, Debug)]
enum Op {
    /// Give a number a symbol.
    Define {
        id: u32,
        symbol: usize,
    },
    Enter(usize),
    Leave(usize),
    Subscribe {
        connection: usize,
        pattern: &'static str,
    },
    Unsubscribe {
        connection: usize,
        nth: usize,
    },
    Change {
        id: u32,
        size: u64,
    },
    Poll {
        connection: usize,
        room: usize,
    },
    Advance(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let pattern = proptest::sample::select(vec!["*", "A*", "AA*", "B*", "A", "C", "CAA"]);
    prop_oneof![
        3 => (1..=INSTRUMENTS, 0..SYMBOLS.len()).prop_map(|(id, symbol)| Op::Define { id, symbol }),
        1 => (0..2_usize).prop_map(Op::Enter),
        1 => (0..6_usize).prop_map(Op::Leave),
        6 => (0..4_usize, pattern)
            .prop_map(|(connection, pattern)| Op::Subscribe { connection, pattern }),
        3 => (0..4_usize, 0..4_usize)
            .prop_map(|(connection, nth)| Op::Unsubscribe { connection, nth }),
        8 => (1..=INSTRUMENTS, 1..9_u64).prop_map(|(id, size)| Op::Change { id, size }),
        4 => (0..4_usize, 0..4_usize).prop_map(|(connection, room)| Op::Poll { connection, room }),
        6 => (0..6_usize).prop_map(Op::Advance),
    ]
}

#[derive(Clone, Debug)]
struct Held {
    id: SubscriptionId,
    pattern: Pattern,
    /// The last quotes.
    quotes: BTreeMap<InstrumentId, Body>,
}

#[derive(Clone, Debug)]
struct Reader {
    id: SubscriberId,
    session: usize,
    held: Vec<Held>,
}

struct World {
    fanout: Fanout,
    books: Books,
    accounts: [AccountId; 2],
    readers: Vec<Reader>,
    symbols: BTreeMap<InstrumentId, &'static str>,
    now: Nanos,
}

impl World {
    fn new() -> World {
        let mut fanout = Fanout::new(InstrumentId(INSTRUMENTS), SUBSCRIPTIONS_MAX as u32)
            .with_slots_max(SLOTS_MAX);
        let accounts = [(); 2].map(|()| fanout.add_account(Some(SESSION_SLOTS_MAX)));
        let (books, symbols) = (Books::default(), BTreeMap::new());
        let (readers, now) = (Vec::new(), Nanos(0));
        let mut world = World { fanout, books, accounts, readers, symbols, now };
        [0, 1].into_iter().for_each(|session| world.enter(session));
        world
    }

    fn enter(&mut self, session: usize) {
        if self.readers.len() < 4 {
            let id = self.fanout.add_subscriber_of(self.accounts[session]);
            assert!(self.readers.iter().all(|reader| reader.id != id), "numbers are unique");
            self.readers.push(Reader { id, session, held: Vec::new() });
        }
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Define { id, symbol } => self.define(InstrumentId(id), SYMBOLS[symbol]),
            Op::Enter(session) => self.enter(session),
            Op::Leave(connection) => {
                if connection < self.readers.len() {
                    let reader = self.readers.swap_remove(connection);
                    self.fanout.remove_subscriber(reader.id);
                }
            }
            Op::Subscribe { connection, pattern } => self.subscribe(connection, pattern),
            Op::Unsubscribe { connection, nth } => self.unsubscribe(connection, nth),
            Op::Change { id, size } => self.change(InstrumentId(id), size),
            Op::Poll { connection, room } => self.poll(connection, room),
            Op::Advance(steps) => {
                // The rests of the last steps are over.
                self.now = self.fanout.next_steps(self.now).unwrap_or(self.now);
                let done = self.fanout.advance(self.now, steps);
                let next = self.fanout.next_steps(self.now);
                assert!(done == steps || done < steps && next.is_none_or(|next| next > self.now));
            }
        }
        self.take_ended();
        self.check();
    }

    fn define(&mut self, id: InstrumentId, symbol: &'static str) {
        self.fanout.define(&definition(id, symbol));
        if self.symbols.get(&id) == Some(&symbol) {
            return;
        }
        // Whoever had the number or the symbol is gone, with its quotes.
        let gone: Vec<InstrumentId> = self
            .symbols
            .iter()
            .filter(|(other, had)| **other == id || **had == symbol)
            .map(|(other, _)| *other)
            .collect();
        for other in gone {
            self.symbols.remove(&other);
            self.books.best.remove(&other);
            for held in self.readers.iter_mut().flat_map(|reader| &mut reader.held) {
                held.quotes.remove(&other);
            }
        }
        self.symbols.insert(id, symbol);
    }

    /// The slots that a pattern takes of all instruments.
    fn slots_of(&self, pattern: &Pattern) -> u64 {
        let matching = self
            .symbols
            .iter()
            .filter(|(id, symbol)| pattern.matches(&definition(**id, symbol).symbol));
        match pattern {
            Pattern::Symbol(_) => 1,
            Pattern::Prefix(_) | Pattern::All => matching.count() as u64,
        }
    }

    /// The slots of a session's subscriptions, or of all, if all instruments are included.
    fn slots(&self, session: Option<usize>) -> u64 {
        let readers =
            self.readers.iter().filter(|one| session.is_none_or(|session| one.session == session));
        readers.flat_map(|reader| &reader.held).map(|held| self.slots_of(&held.pattern)).sum()
    }

    fn subscribe(&mut self, connection: usize, pattern: &str) {
        let Some(reader) = self.readers.get(connection) else { return };
        let (id, session) = (reader.id, reader.session);
        let is_settled = !self.fanout.has_steps();
        let pattern = Pattern::parse(pattern.as_bytes()).unwrap();
        let terms = Subscription::new(pattern, Content::Bbo);
        let need = self.slots_of(&pattern);
        let sums = [self.slots(Some(session)) + need, self.slots(None) + need];
        let given = self.fanout.subscribe(Nanos(0), id, &terms);
        if is_settled {
            let want = match () {
                () if self.readers[connection].held.len() == SUBSCRIPTIONS_MAX => {
                    Err(SubscribeError::TooMany(SUBSCRIPTIONS_MAX as u32))
                }
                () if sums[0] > SESSION_SLOTS_MAX => {
                    Err(SubscribeError::SessionSlots { needed: sums[0], max: SESSION_SLOTS_MAX })
                }
                () if sums[1] > SLOTS_MAX => {
                    Err(SubscribeError::AllSlots { needed: sums[1], max: SLOTS_MAX })
                }
                () => Ok(()),
            };
            assert_eq!(given.map(drop), want, "{pattern:?}");
        }
        match given {
            Ok(id) => {
                let held = Held { id, pattern, quotes: BTreeMap::new() };
                self.readers[connection].held.push(held);
            }
            Err(SubscribeError::Pending) => assert!(!is_settled),
            Err(error) => check_numbers(&error),
        }
    }

    fn unsubscribe(&mut self, connection: usize, nth: usize) {
        let Some(reader) = self.readers.get_mut(connection) else { return };
        if nth < reader.held.len() {
            let held = reader.held.remove(nth);
            self.fanout.unsubscribe(reader.id, held.id).unwrap();
        }
    }

    fn take_ended(&mut self) {
        let ended: Vec<_> = self.fanout.take_ended().collect();
        for one in ended {
            check_numbers(&one.error);
            let reader = self.readers.iter_mut().find(|reader| reader.id == one.subscriber);
            let held = &mut reader.expect("a subscriber that has gone is told nothing").held;
            let place = held.iter().position(|held| held.id == one.subscription);
            held.remove(place.expect("it was there until now"));
        }
    }

    fn change(&mut self, id: InstrumentId, size: u64) {
        if self.symbols.contains_key(&id) {
            let entry = self.books.next(id, Nanos(0), Body::Bbo(quote(1_000, size)));
            self.fanout.apply(Nanos(0), &entry);
        }
    }

    fn poll(&mut self, connection: usize, room: usize) {
        let Some(reader) = self.readers.get_mut(connection) else { return };
        let poll = Poll { subscriber: reader.id, now: Nanos(0), room };
        let polled = self.fanout.poll(poll, &self.books, &mut |message, _| {
            let held = reader.held.iter_mut().find(|held| held.id == message.subscription);
            let held = held.expect("nothing of a subscription that has ended");
            held.quotes.insert(message.entry.instrument_id, message.entry.body);
        });
        assert!(matches!(polled, PollOutcome::Sent { count, .. } if count <= room), "{polled:?}");
    }

    /// The claims of slots: above the sums of what is held only while something is released, and
    /// never above the limits.
    fn check(&self) {
        for session in [0, 1] {
            let account = self.fanout.account(self.accounts[session]).unwrap();
            assert!(account.slots <= SESSION_SLOTS_MAX + 4 * INSTRUMENTS as u64, "{account:?}");
        }
        if self.fanout.has_steps() {
            return;
        }
        for session in [0, 1] {
            let account = self.fanout.account(self.accounts[session]).unwrap();
            assert_eq!(account.slots, self.slots(Some(session)));
            assert!(account.slots <= SESSION_SLOTS_MAX && account.backlog == 0, "{account:?}");
        }
        assert_eq!(self.fanout.slot_count(), self.slots(None));
        assert!(self.fanout.slot_count() <= SLOTS_MAX);
    }

    /// Takes all steps, changes every instrument once more as its first state, and lets everyone
    /// read: each subscription ends with the quotes of all instruments that it matches.
    fn settle(&mut self) {
        while self.fanout.has_steps() {
            self.step(&Op::Advance(usize::MAX));
        }
        let ids: Vec<InstrumentId> = self.symbols.keys().copied().collect();
        for id in ids {
            self.change(id, 99);
        }
        for connection in 0..self.readers.len() {
            self.poll(connection, 1_000);
        }
        for held in self.readers.iter().flat_map(|reader| &reader.held) {
            let matching = self
                .symbols
                .iter()
                .filter(|(id, symbol)| held.pattern.matches(&definition(**id, symbol).symbol));
            let want: BTreeMap<InstrumentId, Body> =
                matching.map(|(id, _)| (*id, Body::Bbo(self.books.best[id]))).collect();
            assert_eq!(held.quotes, want, "{:?}", held.pattern);
        }
    }
}

/// A refusal for want of slots names a need above the budget.
fn check_numbers(error: &SubscribeError) {
    match *error {
        SubscribeError::SessionSlots { needed, max } => {
            assert!(needed > max && max == SESSION_SLOTS_MAX, "{error}");
        }
        SubscribeError::AllSlots { needed, max } => {
            assert!(needed > max && max == SLOTS_MAX, "{error}");
        }
        SubscribeError::TooMany(_) => {}
        _ => panic!("{error}"),
    }
}

/// Follows random steps from the same seed each time.
#[cfg(feature = "planted")]
pub fn from_one_seed() {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let rng = proptest::test_runner::TestRng::deterministic_rng(config.rng_algorithm);
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(config, rng);
    let followed = runner.run(&vec(op(), 200), |ops| {
        follow(&ops);
        Ok(())
    });
    followed.unwrap();
}

fn follow(ops: &[Op]) {
    let mut world = World::new();
    for op in ops {
        world.step(op);
    }
    world.settle();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn slots_are_what_subscriptions_match_and_budgets_hold_at_any_pace(ops in vec(op(), 200)) {
        follow(&ops);
    }
}
