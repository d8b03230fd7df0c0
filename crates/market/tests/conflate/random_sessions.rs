//! Random sessions with budgets against a slow model of their slots: subscriptions begin, end, are
//! refused and grow while instruments are defined anew, in steps at any pace, behind a first stage
//! that takes wishes and changes at its own and whose queue for events is nearly always full. One
//! or two fan-outs, as of so many flush threads, hear it, each at a pace of its own. Whenever
//! everything has been taken and read, each subscription has the books' states, without a change
//! that would bring them.

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
/// The connections of a fan-out.
const READERS_MAX: usize = 4;
/// The connections that steps name, of all fan-outs.
const NAMED_READERS: usize = 6;
/// More than any interval of the first stage.
const DRAIN_SPAN: u64 = 1_000_000;

#[derive(Clone, Debug)]
enum Op {
    /// Give a number a symbol.
    Define {
        id: u32,
        symbol: usize,
    },
    /// Connect to a fan-out, in one of two sessions.
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
    /// A fan-out takes steps.
    Advance {
        thread: usize,
        steps: usize,
    },
    /// The first stage takes this many wishes of a fan-out.
    Wish {
        thread: usize,
        count: usize,
    },
    /// The first stage sends this many entries.
    Flush(usize),
    /// A fan-out takes this many slots of the ring.
    Hear {
        thread: usize,
        count: usize,
    },
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
    /// So many wishes of this fan-out have been taken.
    Wished(usize, u64),
}

/// The threads and bounds of a run.
#[derive(Clone, Copy, Debug)]
struct Setup {
    /// The number of fan-outs.
    threads: usize,
    /// The first stage's limit of queued events.
    events_max: u32,
}

fn setup() -> impl Strategy<Value = Setup> {
    (1..=2_usize, 1..3_u32).prop_map(|(threads, events_max)| Setup { threads, events_max })
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
        1 => (0..4_usize).prop_map(Op::Enter),
        1 => (0..9_usize).prop_map(Op::Leave),
        6 => (0..NAMED_READERS, pattern, shape())
            .prop_map(|(connection, pattern, shape)| Op::Subscribe { connection, pattern, shape }),
        3 => (0..NAMED_READERS, 0..4_usize)
            .prop_map(|(connection, nth)| Op::Unsubscribe { connection, nth }),
        8 => (1..=INSTRUMENTS, content(), 1..9_u64)
            .prop_map(|(id, content, size)| Op::Change { id, content, size }),
        4 => (0..NAMED_READERS, 0..4_usize)
            .prop_map(|(connection, room)| Op::Poll { connection, room }),
        6 => (0..2_usize, 0..6_usize).prop_map(|(thread, steps)| Op::Advance { thread, steps }),
        4 => (0..2_usize, 0..6_usize).prop_map(|(thread, count)| Op::Wish { thread, count }),
        4 => (0..6_usize).prop_map(Op::Flush),
        6 => (0..2_usize, 0..8_usize).prop_map(|(thread, count)| Op::Hear { thread, count }),
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
    thread: usize,
    id: SubscriberId,
    session: usize,
    held: Vec<Held>,
}

/// A fan-out, with its ways from and to the first stage.
struct Thread {
    fanout: Fanout,
    accounts: [AccountId; 2],
    /// Wishes on their way to the first stage.
    wishes: VecDeque<Interest>,
    /// Wishes that it has taken.
    wished: u64,
    /// Its entries and answers that the fan-out has not heard yet.
    ring: VecDeque<RingItem>,
}

impl Thread {
    fn new() -> Thread {
        let mut fanout = Fanout::new(InstrumentId(INSTRUMENTS), SUBSCRIPTIONS_MAX as u32)
            .with_slots_max(SLOTS_MAX)
            .with_answers();
        let accounts = [(); 2].map(|()| fanout.add_account(Some(SESSION_SLOTS_MAX)));
        Thread { fanout, accounts, wishes: VecDeque::new(), wished: 0, ring: VecDeque::new() }
    }
}

struct World {
    conflator: Conflator,
    threads: Vec<Thread>,
    books: Books,
    readers: Vec<Reader>,
    symbols: BTreeMap<InstrumentId, &'static str>,
    now: Nanos,
}

impl World {
    fn new(setup: Setup) -> World {
        let (instrument_id_max, events_max) = (InstrumentId(INSTRUMENTS), setup.events_max);
        let config = ConflatorConfig { instrument_id_max, events_max, ..Default::default() };
        let mut world = World {
            conflator: Conflator::new(&config),
            threads: (0..setup.threads).map(|_| Thread::new()).collect(),
            books: Books::default(),
            readers: Vec::new(),
            symbols: BTreeMap::new(),
            now: Nanos(0),
        };
        (0..2 * setup.threads).for_each(|place| world.enter(place));
        world
    }

    /// Connects to a fan-out in a session: so many places there are.
    fn enter(&mut self, place: usize) {
        let (thread, session) = (place / 2 % self.threads.len(), place % 2);
        if self.readers.iter().filter(|reader| reader.thread == thread).count() < READERS_MAX {
            let Thread { fanout, accounts, .. } = &mut self.threads[thread];
            let id = fanout.add_subscriber_of(accounts[session]);
            let is_other = |reader: &Reader| (reader.thread, reader.id) != (thread, id);
            assert!(self.readers.iter().all(is_other), "numbers are unique");
            self.readers.push(Reader { thread, id, session, held: Vec::new() });
        }
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Define { id, symbol } => self.define(InstrumentId(id), SYMBOLS[symbol]),
            Op::Enter(place) => self.enter(place),
            Op::Leave(connection) => {
                if connection < self.readers.len() {
                    let reader = self.readers.swap_remove(connection);
                    self.threads[reader.thread].fanout.remove_subscriber(reader.id);
                }
            }
            Op::Subscribe { connection, pattern, shape } => {
                self.subscribe(connection, pattern, shape);
            }
            Op::Unsubscribe { connection, nth } => self.unsubscribe(connection, nth),
            Op::Change { id, content, size } => self.change(InstrumentId(id), content, size),
            Op::Poll { connection, room } => self.poll(connection, room),
            Op::Advance { thread, steps } => self.advance(thread, steps),
            Op::Wish { thread, count } => self.take_wishes(thread, count),
            Op::Flush(count) => self.flush(count),
            Op::Hear { thread, count } => self.hear(thread, count),
            Op::Drain => self.drain(),
        }
        self.take_ended();
        self.collect_wishes();
        self.check();
    }

    fn collect_wishes(&mut self) {
        for Thread { fanout, wishes, .. } in &mut self.threads {
            wishes.extend(fanout.take_interest());
        }
    }

    fn advance(&mut self, thread: usize, steps: usize) {
        let count = self.threads.len();
        let fanout = &mut self.threads[thread % count].fanout;
        // The rests of the last steps are over.
        let next = fanout.next_steps(self.now).unwrap_or(self.now);
        self.now = self.now.max(next);
        let done = fanout.advance(self.now, steps);
        let next = fanout.next_steps(self.now);
        assert!(done == steps || done < steps && next.is_none_or(|next| next > self.now));
    }

    /// Has the first stage take wishes of a fan-out, and tell how many.
    fn take_wishes(&mut self, thread: usize, count: usize) {
        let thread = thread % self.threads.len();
        for _ in 0..count {
            let Thread { wishes, wished, .. } = &mut self.threads[thread];
            let Some(interest) = wishes.pop_front() else { break };
            *wished += 1;
            let told = RingItem::Wished(thread, *wished);
            self.conflator.interest(self.now, &interest, &self.books);
            self.tell(told);
        }
    }

    /// Puts a slot into the ring, which each fan-out hears.
    fn tell(&mut self, told: RingItem) {
        self.threads.iter_mut().for_each(|thread| thread.ring.push_back(told));
    }

    fn flush(&mut self, count: usize) {
        self.now.0 += 1_000;
        self.conflator.tick(self.now);
        for _ in 0..count {
            let Some(entry) = self.conflator.pop(self.now) else { break };
            self.tell(RingItem::Entry(entry));
        }
    }

    fn hear(&mut self, thread: usize, count: usize) {
        let thread = thread % self.threads.len();
        let Thread { fanout, ring, .. } = &mut self.threads[thread];
        let count = count.min(ring.len());
        for told in ring.drain(..count) {
            match told {
                RingItem::Entry(entry) => fanout.apply(self.now, &entry),
                RingItem::Wished(of, count) if of == thread => fanout.note_answered(count),
                RingItem::Wished(..) => {}
            }
        }
    }

    fn define(&mut self, id: InstrumentId, symbol: &'static str) {
        for thread in &mut self.threads {
            thread.fanout.define(&definition(id, symbol));
        }
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
        if self.threads.len() > 1 && !gone.is_empty() {
            // While one fan-out's interest in a number goes on, the first stage keeps the states of
            // the instrument that had it: here they are to be the books' alone.
            self.collect_wishes();
            (0..self.threads.len()).for_each(|thread| self.take_wishes(thread, usize::MAX));
        }
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

    /// The slots at a fan-out of a session's subscriptions, or of all, if all instruments are
    /// included.
    fn slots(&self, thread: usize, session: Option<usize>) -> u64 {
        let readers = self.readers.iter().filter(|one| one.thread == thread);
        let readers = readers.filter(|one| session.is_none_or(|session| one.session == session));
        readers.flat_map(|reader| &reader.held).map(|held| self.slots_of(&held.pattern)).sum()
    }

    fn subscribe(&mut self, connection: usize, pattern: &str, shape: Shape) {
        let Some(reader) = self.readers.get(connection) else { return };
        let (thread, id, session) = (reader.thread, reader.id, reader.session);
        let is_settled = !self.threads[thread].fanout.has_steps();
        let pattern = Pattern::parse(pattern.as_bytes()).unwrap();
        let Shape { content, policy, queue_len_max } = shape;
        let terms = Subscription { policy, queue_len_max, ..Subscription::new(pattern, content) };
        let need = self.slots_of(&pattern);
        let sums = [Some(session), None].map(|session| self.slots(thread, session) + need);
        let given = self.threads[thread].fanout.subscribe(self.now, id, &terms);
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
            self.threads[reader.thread].fanout.unsubscribe(reader.id, held.id).unwrap();
        }
    }

    fn take_ended(&mut self) {
        let mut ended = Vec::new();
        for (thread, of) in self.threads.iter_mut().enumerate() {
            ended.extend(of.fanout.take_ended().map(|one| (thread, one)));
        }
        for (thread, one) in ended {
            check_numbers(&one.error);
            let is_its =
                |reader: &&mut Reader| (reader.thread, reader.id) == (thread, one.subscriber);
            let reader = self.readers.iter_mut().find(is_its);
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
        let fanout = &mut self.threads[reader.thread].fanout;
        let polled = fanout.poll(poll, &self.books, &mut |message, _| {
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
        (0..self.threads.len()).for_each(|thread| self.check_thread(thread));
    }

    fn check_thread(&self, thread: usize) {
        let Thread { fanout, accounts, .. } = &self.threads[thread];
        for account in accounts {
            let account = fanout.account(*account).unwrap();
            assert!(account.slots <= SESSION_SLOTS_MAX + 4 * INSTRUMENTS as u64, "{account:?}");
        }
        if fanout.has_steps() {
            return;
        }
        for session in [0, 1] {
            let account = fanout.account(accounts[session]).unwrap();
            assert_eq!(account.slots, self.slots(thread, Some(session)));
            assert!(account.slots <= SESSION_SLOTS_MAX && account.backlog == 0, "{account:?}");
        }
        assert_eq!(fanout.slot_count(), self.slots(thread, None));
        assert!(fanout.slot_count() <= SLOTS_MAX);
    }

    /// Takes all steps, wishes and entries, and has everyone read. Changes nothing.
    fn drain(&mut self) {
        for thread in 0..self.threads.len() {
            while self.threads[thread].fanout.has_steps() {
                self.step(&Op::Advance { thread, steps: usize::MAX });
            }
        }
        self.now.0 += DRAIN_SPAN;
        (0..self.threads.len()).for_each(|thread| self.take_wishes(thread, usize::MAX));
        self.flush(usize::MAX);
        for thread in 0..self.threads.len() {
            self.hear(thread, usize::MAX);
            assert_eq!(self.threads[thread].fanout.unanswered_count(), 0);
        }
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
    let followed = runner.run(&(vec(op(), 200), setup()), |(ops, setup)| {
        follow(&ops, setup);
        Ok(())
    });
    followed.unwrap();
}

fn follow(ops: &[Op], setup: Setup) {
    let mut world = World::new(setup);
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
        setup in setup(),
    ) {
        follow(&ops, setup);
    }
}
