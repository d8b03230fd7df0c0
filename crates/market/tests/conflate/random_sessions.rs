//! Random sessions with budgets against a slow model of their slots: subscriptions begin, end, are
//! refused and grow while instruments are defined anew, in steps at any pace, behind a first stage
//! that takes wishes and changes at its own. Whenever everything has been taken and read, each
//! subscription has the books' states, without a change that would bring them.

use std::collections::{BTreeMap, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;
use weir_market::conflate::{
    AccountId, Body, BookView, Conflator, ConflatorConfig, Content, Entry, Fanout, Interest,
    Pattern, Policy, Poll, PollOutcome, SubscribeError, SubscriberId, Subscription, SubscriptionId,
};
use weir_types::{InstrumentId, Nanos};

use crate::books::{Books, definition, quote, status};

const SYMBOLS: [&str; 7] = ["A", "AA", "AAB", "B", "BA", "C", "CAA"];
const SESSION_SLOTS_MAX: u64 = 9;
const SLOTS_MAX: u64 = 14;
const SUBSCRIPTIONS_MAX: usize = 5;
const INSTRUMENTS: u32 = 5;
/// More than any interval of the first stage.
const DRAIN_SPAN: u64 = 1_000_000;

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
        shape: Shape,
    },
    Unsubscribe {
        connection: usize,
        nth: usize,
    },
    Change {
        id: u32,
        content: Content,
        size: u64,
    },
    Poll {
        connection: usize,
        room: usize,
    },
    Advance(usize),
    /// The first stage takes this many wishes.
    Wish(usize),
    /// The first stage sends this many entries.
    Flush(usize),
    /// The fan-out takes this many slots of the ring.
    Hear(usize),
    /// Everything is taken and read, and then compared.
    Drain,
}

/// The terms of a subscription besides its pattern.
#[derive(Clone, Copy, Debug)]
struct Shape {
    content: Content,
    policy: Policy,
    queue_len_max: u32,
}

/// A slot of the ring from the first stage.
#[derive(Clone, Copy, Debug)]
enum RingItem {
    Entry(Entry),
    /// So many wishes have been taken.
    Wished(u64),
}

fn content() -> impl Strategy<Value = Content> {
    proptest::sample::select(vec![Content::Bbo, Content::Status])
}

/// The policies that promise the latest state behind any loss.
fn shape() -> impl Strategy<Value = Shape> {
    let policies = vec![Policy::None, Policy::Conflate, Policy::SkipAndNotify];
    (content(), proptest::sample::select(policies), 1..4_u32)
        .prop_map(|(content, policy, queue_len_max)| Shape { content, policy, queue_len_max })
}

fn op() -> impl Strategy<Value = Op> {
    let pattern = proptest::sample::select(vec!["*", "A*", "AA*", "B*", "A", "C", "CAA"]);
    prop_oneof![
        3 => (1..=INSTRUMENTS, 0..SYMBOLS.len()).prop_map(|(id, symbol)| Op::Define { id, symbol }),
        1 => (0..2_usize).prop_map(Op::Enter),
        1 => (0..6_usize).prop_map(Op::Leave),
        6 => (0..4_usize, pattern, shape())
            .prop_map(|(connection, pattern, shape)| Op::Subscribe { connection, pattern, shape }),
        3 => (0..4_usize, 0..4_usize)
            .prop_map(|(connection, nth)| Op::Unsubscribe { connection, nth }),
        8 => (1..=INSTRUMENTS, content(), 1..9_u64)
            .prop_map(|(id, content, size)| Op::Change { id, content, size }),
        4 => (0..4_usize, 0..4_usize).prop_map(|(connection, room)| Op::Poll { connection, room }),
        6 => (0..6_usize).prop_map(Op::Advance),
        4 => (0..6_usize).prop_map(Op::Wish),
        4 => (0..6_usize).prop_map(Op::Flush),
        6 => (0..8_usize).prop_map(Op::Hear),
        1 => Just(Op::Drain),
    ]
}

#[derive(Clone, Debug)]
struct Held {
    id: SubscriptionId,
    pattern: Pattern,
    content: Content,
    /// The last states, none of an instrument whose last message was a gap.
    states: BTreeMap<InstrumentId, Body>,
}

#[derive(Clone, Debug)]
struct Reader {
    id: SubscriberId,
    session: usize,
    held: Vec<Held>,
}

struct World {
    conflator: Conflator,
    /// Wishes on their way to the first stage.
    wishes: VecDeque<Interest>,
    /// Wishes that it has taken.
    wished: u64,
    /// Its entries and answers on their way to the fan-out.
    ring: VecDeque<RingItem>,
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
            .with_slots_max(SLOTS_MAX)
            .with_answers();
        let accounts = [(); 2].map(|()| fanout.add_account(Some(SESSION_SLOTS_MAX)));
        let instrument_id_max = InstrumentId(INSTRUMENTS);
        let config = ConflatorConfig { instrument_id_max, ..ConflatorConfig::default() };
        let mut world = World {
            conflator: Conflator::new(&config),
            wishes: VecDeque::new(),
            wished: 0,
            ring: VecDeque::new(),
            fanout,
            books: Books::default(),
            accounts,
            readers: Vec::new(),
            symbols: BTreeMap::new(),
            now: Nanos(0),
        };
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
            Op::Subscribe { connection, pattern, shape } => {
                self.subscribe(connection, pattern, shape);
            }
            Op::Unsubscribe { connection, nth } => self.unsubscribe(connection, nth),
            Op::Change { id, content, size } => self.change(InstrumentId(id), content, size),
            Op::Poll { connection, room } => self.poll(connection, room),
            Op::Advance(steps) => self.advance(steps),
            Op::Wish(count) => self.take_wishes(count),
            Op::Flush(count) => self.flush(count),
            Op::Hear(count) => self.hear(count),
            Op::Drain => self.drain(),
        }
        self.take_ended();
        self.wishes.extend(self.fanout.take_interest());
        self.check();
    }

    fn advance(&mut self, steps: usize) {
        // The rests of the last steps are over.
        let next = self.fanout.next_steps(self.now).unwrap_or(self.now);
        self.now = self.now.max(next);
        let done = self.fanout.advance(self.now, steps);
        let next = self.fanout.next_steps(self.now);
        assert!(done == steps || done < steps && next.is_none_or(|next| next > self.now));
    }

    /// Has the first stage take wishes, and tell how many.
    fn take_wishes(&mut self, count: usize) {
        let count = count.min(self.wishes.len());
        for interest in self.wishes.drain(..count) {
            self.conflator.interest(self.now, &interest, &self.books);
            self.wished += 1;
            self.ring.push_back(RingItem::Wished(self.wished));
        }
    }

    fn flush(&mut self, count: usize) {
        self.now.0 += 1_000;
        self.conflator.tick(self.now);
        for _ in 0..count {
            let Some(entry) = self.conflator.pop(self.now) else { break };
            self.ring.push_back(RingItem::Entry(entry));
        }
    }

    fn hear(&mut self, count: usize) {
        let count = count.min(self.ring.len());
        for told in self.ring.drain(..count) {
            match told {
                RingItem::Entry(entry) => self.fanout.apply(self.now, &entry),
                RingItem::Wished(count) => self.fanout.note_answered(count),
            }
        }
    }

    fn define(&mut self, id: InstrumentId, symbol: &'static str) {
        self.fanout.define(&definition(id, symbol));
        if self.symbols.get(&id) == Some(&symbol) {
            return;
        }
        // The instruments that had the number or the symbol are gone, with their states.
        let gone: Vec<InstrumentId> = self
            .symbols
            .iter()
            .filter(|(other, had)| **other == id || **had == symbol)
            .map(|(other, _)| *other)
            .collect();
        for other in gone {
            self.symbols.remove(&other);
            self.books.best.remove(&other);
            self.books.status.remove(&other);
            for held in self.readers.iter_mut().flat_map(|reader| &mut reader.held) {
                held.states.remove(&other);
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

    fn subscribe(&mut self, connection: usize, pattern: &str, shape: Shape) {
        let Some(reader) = self.readers.get(connection) else { return };
        let (id, session) = (reader.id, reader.session);
        let is_settled = !self.fanout.has_steps();
        let pattern = Pattern::parse(pattern.as_bytes()).unwrap();
        let Shape { content, policy, queue_len_max } = shape;
        let terms = Subscription { policy, queue_len_max, ..Subscription::new(pattern, content) };
        let need = self.slots_of(&pattern);
        let sums = [self.slots(Some(session)) + need, self.slots(None) + need];
        let given = self.fanout.subscribe(self.now, id, &terms);
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
                let held = Held { id, pattern, content, states: BTreeMap::new() };
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

    fn change(&mut self, id: InstrumentId, content: Content, size: u64) {
        if self.symbols.contains_key(&id) {
            let body = match content {
                Content::Status => Body::Status(status(size % 2 == 1)),
                _ => Body::Bbo(quote(1_000, size)),
            };
            let entry = self.books.next(id, self.now, body);
            self.conflator.apply(self.now, &entry);
        }
    }

    fn poll(&mut self, connection: usize, room: usize) {
        let Some(reader) = self.readers.get_mut(connection) else { return };
        let poll = Poll { subscriber: reader.id, now: self.now, room };
        let polled = self.fanout.poll(poll, &self.books, &mut |message, _| {
            let held = reader.held.iter_mut().find(|held| held.id == message.subscription);
            let held = held.expect("nothing of a subscription that has ended");
            let id = message.entry.instrument_id;
            match message.entry.body {
                Body::Gap(_) => held.states.remove(&id),
                body => held.states.insert(id, body),
            };
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

    /// Takes all steps, wishes and entries, and has everyone read. Changes nothing.
    fn drain(&mut self) {
        while self.fanout.has_steps() {
            self.step(&Op::Advance(usize::MAX));
        }
        self.now.0 += DRAIN_SPAN;
        self.take_wishes(usize::MAX);
        self.flush(usize::MAX);
        self.hear(usize::MAX);
        assert_eq!(self.fanout.unanswered_count(), 0);
        for connection in 0..self.readers.len() {
            self.poll(connection, 1_000);
        }
        self.check_states();
    }

    /// Each subscription has the books' states of all instruments that it matches, of those too
    /// that have not changed since it began.
    fn check_states(&self) {
        for held in self.readers.iter().flat_map(|reader| &reader.held) {
            let matching = self
                .symbols
                .iter()
                .filter(|(id, symbol)| held.pattern.matches(&definition(**id, symbol).symbol));
            let states = matching.filter_map(|(id, _)| Some((*id, self.state(*id, held.content)?)));
            let want: BTreeMap<InstrumentId, Body> = states.collect();
            assert_eq!(held.states, want, "{:?} of {:?}", held.content, held.pattern);
        }
    }

    fn state(&self, id: InstrumentId, content: Content) -> Option<Body> {
        match content {
            Content::Status => self.books.status(id).map(Body::Status),
            _ => Some(Body::Bbo(self.books.best(id))),
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
    world.drain();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn subscriptions_have_the_slots_and_states_of_matching_instruments_at_any_pace(
        ops in vec(op(), 200),
    ) {
        follow(&ops);
    }
}
