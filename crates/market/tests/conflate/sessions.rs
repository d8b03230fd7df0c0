//! Tests of the limits of sessions and of the steps in which they subscribe and leave, one by one.
//! Work is counted, not timed.

use weir_market::conflate::{
    AccountId, Body, Conflator, ConflatorConfig, Content, EndedSubscription, Fanout, Interest,
    Kind, Message, Outcome, Pattern, Policy, Poll, PollOutcome, SubscribeError, SubscriberId,
    Subscription, SubscriptionId,
};
use weir_types::{InstrumentId, Nanos};

use crate::books::{Books, definition, quote, trade};

/// As many as the venue of the reproduction has.
const INSTRUMENTS: u32 = 7_802;
/// Steps of one cycle.
const STEPS: usize = 256;

struct Rig {
    fanout: Fanout,
    books: Books,
    now: Nanos,
}

/// Half of the instruments are called A and their number, the others B.
fn symbol_of(id: u32) -> String {
    format!("{}{id}", if id.is_multiple_of(2) { 'A' } else { 'B' })
}

fn all(content: Content) -> Subscription {
    Subscription::new(Pattern::All, content)
}

fn of(pattern: &str, content: Content) -> Subscription {
    Subscription::new(Pattern::parse(pattern.as_bytes()).unwrap(), content)
}

impl Rig {
    fn new(instruments: u32) -> Rig {
        let fanout = Fanout::new(InstrumentId(u32::MAX - 1), 1_024).with_slots_max(1_000_000);
        let mut rig = Rig { fanout, books: Books::default(), now: Nanos(0) };
        (1..=instruments).for_each(|id| rig.define(id));
        rig
    }

    fn define(&mut self, id: u32) {
        self.fanout.define(&definition(InstrumentId(id), &symbol_of(id)));
    }

    fn enter(&mut self, slots_max: u64) -> (AccountId, SubscriberId) {
        let account = self.fanout.add_account(Some(slots_max));
        (account, self.fanout.add_subscriber_of(account))
    }

    fn subscribe(
        &mut self,
        id: SubscriberId,
        terms: &Subscription,
    ) -> Result<SubscriptionId, SubscribeError> {
        self.fanout.subscribe(Nanos(0), id, terms)
    }

    fn advance(&mut self, steps: usize) -> usize {
        self.fanout.advance(self.now, steps)
    }

    /// Lets time pass until the next steps; false when there are none.
    fn wait(&mut self) -> bool {
        let next = self.fanout.next_steps(self.now);
        self.now = next.unwrap_or(self.now);
        next.is_some()
    }

    fn settle(&mut self) {
        self.fanout.settle(Nanos(0));
        self.fanout.take_interest().for_each(drop);
    }

    /// Cycles of `STEPS` until nothing is left, each of which begins and ends interest in no more
    /// instruments than it has steps.
    fn cycles(&mut self) -> usize {
        let mut cycles = 0;
        while self.wait() {
            let steps = self.advance(STEPS);
            let interests = self.fanout.take_interest().count();
            assert!(steps <= STEPS && interests <= steps, "{interests} in {steps} steps");
            cycles += 1;
        }
        cycles
    }

    fn slots(&self, account: AccountId) -> u64 {
        self.fanout.account(account).unwrap().slots
    }

    fn says(&mut self, id: u32, body: Body) {
        let entry = self.books.next(InstrumentId(id), Nanos(0), body);
        self.fanout.apply(Nanos(0), &entry);
    }

    fn polled(&mut self, subscriber: SubscriberId, room: usize) -> Vec<Message> {
        let mut got = Vec::new();
        let poll = Poll { subscriber, now: Nanos(0), room };
        let polled = self.fanout.poll(poll, &self.books, &mut |message, _| got.push(*message));
        assert!(matches!(polled, PollOutcome::Sent { .. }), "{polled:?}");
        got
    }

    fn ended(&mut self) -> Vec<EndedSubscription> {
        self.fanout.take_ended().collect()
    }
}

#[test]
pub fn a_subscription_to_everything_is_begun_and_ended_in_steps_of_one_instrument() {
    let mut rig = Rig::new(INSTRUMENTS);
    let (account, id) = rig.enter(10_000);
    let subscription = rig.subscribe(id, &all(Content::Bbo)).unwrap();
    assert_eq!(rig.fanout.take_interest().count(), 0, "the request itself includes nothing");
    assert_eq!(rig.slots(account), u64::from(INSTRUMENTS), "and claims all slots");
    assert_eq!(rig.cycles(), (INSTRUMENTS as usize).div_ceil(STEPS), "of a step an instrument");
    assert!(rig.fanout.is_settled(id));
    rig.fanout.unsubscribe(id, subscription).unwrap();
    assert_eq!(rig.fanout.take_interest().count(), 0);
    let cycles = rig.cycles();
    // Behind the last instrument the subscription goes, and with it the memory of its slots: the
    // session rests for it, and has a last turn without a step.
    assert_eq!(cycles, (INSTRUMENTS as usize + 1).div_ceil(STEPS) + 1);
    assert_eq!((rig.slots(account), rig.fanout.slot_count()), (0, 0));
}

#[test]
pub fn a_subscriber_that_goes_leaves_in_steps_and_gets_nothing_meanwhile() {
    let mut rig = Rig::new(INSTRUMENTS);
    let (account, id) = rig.enter(100_000);
    for content in [Content::Bbo, Content::Trades, Content::Status] {
        rig.subscribe(id, &all(content)).unwrap();
    }
    rig.settle();
    rig.fanout.remove_subscriber(id);
    let poll = Poll { subscriber: id, now: Nanos(0), room: 1 };
    let polled = rig.fanout.poll(poll, &rig.books, &mut |_, _| panic!("it has gone"));
    assert_eq!(polled, PollOutcome::Unknown);
    rig.advance(STEPS);
    rig.fanout.take_interest().for_each(drop);
    rig.says(1, Body::Bbo(quote(1_000, 1)));
    rig.says(INSTRUMENTS, trade(1));
    rig.fanout.take_ready(|_| panic!("it has gone"));
    let other = rig.fanout.add_subscriber_of(account);
    assert_ne!(other, id, "its number is not used again yet");
    let cycles = rig.cycles();
    let slots = 3 * INSTRUMENTS as usize;
    assert!((slots / STEPS..=slots / STEPS + 1).contains(&cycles), "{cycles}");
    assert_eq!((rig.slots(account), rig.fanout.slot_count()), (0, 0));
    assert_eq!(rig.fanout.add_subscriber_of(account), id);
}

#[test]
pub fn sessions_take_turns_however_much_one_of_them_asks_for() {
    let mut rig = Rig::new(1_000);
    let (_, hostile) = rig.enter(100_000);
    let hostile_account = rig.fanout.add_account(Some(100_000));
    for _ in 0..16 {
        let connection = rig.fanout.add_subscriber_of(hostile_account);
        rig.subscribe(connection, &all(Content::Bbo)).unwrap();
    }
    for content in [Content::Bbo, Content::Trades, Content::Status, Content::Levels] {
        rig.subscribe(hostile, &all(content)).unwrap();
    }
    let (_, good) = rig.enter(1_000);
    rig.subscribe(good, &of("A*", Content::Bbo)).unwrap();
    // 500 instruments, a look at the 500 others, among three sessions.
    let mine = 500 + 500_usize.div_ceil(16);
    let mut steps = 0;
    while !rig.fanout.is_settled(good) && rig.wait() {
        steps += rig.advance(STEPS);
    }
    let most = 3 * (mine + 64) + STEPS;
    assert!(steps <= most, "{steps} steps until {mine} were taken");
}

#[test]
pub fn a_session_that_would_have_too_many_slots_is_told_the_budget_and_the_need() {
    let mut rig = Rig::new(100);
    let (account, id) = rig.enter(220);
    let other = rig.fanout.add_subscriber_of(account);
    let first = rig.subscribe(id, &all(Content::Bbo)).unwrap();
    rig.subscribe(other, &all(Content::Trades)).unwrap();
    // The connections of a session share its slots, before and behind the steps.
    let refused = Err(SubscribeError::SessionSlots { needed: 250, max: 220 });
    assert_eq!(rig.subscribe(id, &of("A*", Content::Bbo)), refused);
    rig.settle();
    assert_eq!(rig.subscribe(id, &of("A*", Content::Bbo)), refused);
    assert_eq!(rig.subscribe(other, &of("A1*", Content::Bbo)).map(drop), Ok(()));
    assert_eq!(rig.slots(account), 206, "A10, A12, A14, A16, A18 and A100");
    for number in 0..14 {
        let symbol = format!("UNKNOWN{number}");
        assert_eq!(rig.subscribe(id, &of(&symbol, Content::Bbo)).map(drop), Ok(()));
    }
    let one = Err(SubscribeError::SessionSlots { needed: 221, max: 220 });
    assert_eq!(rig.subscribe(id, &of("UNKNOWN", Content::Bbo)), one, "one of a symbol too");
    rig.fanout.unsubscribe(id, first).unwrap();
    assert_eq!(
        rig.subscribe(id, &of("A*", Content::Bbo)),
        Err(SubscribeError::Pending),
        "there will be room"
    );
    rig.settle();
    assert_eq!(rig.subscribe(id, &of("A*", Content::Bbo)).map(drop), Ok(()));
}

#[test]
pub fn all_sessions_together_have_no_more_slots_than_the_node() {
    let mut rig = Rig::new(100);
    rig.fanout = rig.fanout.clone().with_slots_max(250);
    let (_, first) = rig.enter(200);
    let (_, second) = rig.enter(200);
    rig.subscribe(first, &all(Content::Bbo)).unwrap();
    rig.subscribe(second, &all(Content::Bbo)).unwrap();
    let refused = Err(SubscribeError::AllSlots { needed: 300, max: 250 });
    assert_eq!(rig.subscribe(second, &all(Content::Trades)), refused);
    // The operator's own has no limit, and counts.
    let own = rig.fanout.add_subscriber();
    rig.subscribe(own, &all(Content::Trades)).unwrap();
    let refused = Err(SubscribeError::AllSlots { needed: 350, max: 250 });
    assert_eq!(rig.subscribe(second, &of("A*", Content::Trades)), refused);
    rig.fanout.remove_subscriber(own);
    rig.fanout.remove_subscriber(first);
    let pending = rig.subscribe(second, &of("A*", Content::Trades));
    assert_eq!(pending, Err(SubscribeError::Pending));
    rig.settle();
    assert_eq!(rig.subscribe(second, &of("A*", Content::Trades)).map(drop), Ok(()));
    assert_eq!(rig.fanout.slot_count(), 150);
}

#[test]
pub fn a_subscription_that_grows_with_the_market_keeps_to_the_budget() {
    // Subscribed before there is any instrument, everything costs nothing.
    let mut rig = Rig::new(0);
    let (account, id) = rig.enter(25);
    let subscriptions: Vec<_> =
        (0..3).map(|_| rig.subscribe(id, &all(Content::Bbo)).unwrap()).collect();
    assert_eq!(rig.slots(account), 0);
    (1..=10).for_each(|number| rig.define(number));
    assert_eq!(rig.fanout.take_interest().count(), 0, "a definition includes nothing itself");
    rig.settle();
    let error = SubscribeError::SessionSlots { needed: 26, max: 25 };
    let ended = EndedSubscription { subscriber: id, subscription: subscriptions[2], error };
    assert_eq!(rig.ended(), [ended], "the last one ends, and is told why");
    assert_eq!(rig.slots(account), 20, "and leaves what it had");
    (11..=13).for_each(|number| rig.define(number));
    rig.settle();
    assert_eq!(rig.slots(account), 13, "then the next one: 26 of 25");
    let ended: Vec<_> = rig.ended().iter().map(|ended| ended.subscription).collect();
    assert_eq!(ended, [subscriptions[1]]);
    let missing = Err(SubscribeError::NoSubscription(subscriptions[1]));
    assert_eq!(rig.fanout.unsubscribe(id, subscriptions[1]), missing);
}

#[test]
pub fn an_instrument_that_appears_later_costs_a_step_for_each_subscription() {
    let mut rig = Rig::new(0);
    let ids: Vec<_> = (0..300).map(|_| rig.enter(10).1).collect();
    for id in &ids {
        rig.subscribe(*id, &all(Content::Bbo)).unwrap();
        rig.subscribe(*id, &of("A2", Content::Trades)).unwrap();
    }
    rig.settle();
    rig.define(2);
    let mut steps = Vec::new();
    while rig.fanout.has_steps() {
        steps.push(rig.advance(STEPS));
    }
    assert_eq!(steps.iter().sum::<usize>(), 600, "{steps:?}");
    rig.says(2, Body::Bbo(quote(1_000, 5)));
    rig.says(2, trade(1));
    for id in ids {
        assert_eq!(rig.polled(id, 9).len(), 2);
    }
}

#[test]
pub fn a_definition_that_comes_while_a_subscription_begins_is_included_once() {
    let mut rig = Rig::new(100);
    let (account, id) = rig.enter(1_000);
    rig.subscribe(id, &all(Content::Bbo)).unwrap();
    rig.advance(50);
    rig.define(101);
    // Numbers of an included instrument and of one that is not are given to other symbols.
    for (number, symbol) in [(10, "NEW10"), (90, "NEW90")] {
        rig.fanout.define(&definition(InstrumentId(number), symbol));
    }
    rig.settle();
    assert_eq!(rig.slots(account), 101);
    for number in 1..=101 {
        rig.says(number, Body::Bbo(quote(1_000, 5)));
    }
    let mut got: Vec<u32> =
        rig.polled(id, 1_000).iter().map(|message| message.entry.instrument_id.0).collect();
    got.sort_unstable();
    assert_eq!(got, (1..=101).collect::<Vec<_>>());
}

#[test]
pub fn nothing_follows_the_end_of_a_subscription_whose_messages_are_queued() {
    let mut rig = Rig::new(2_000);
    let (_, id) = rig.enter(100_000);
    let quotes = rig.subscribe(id, &all(Content::Bbo)).unwrap();
    let trades = rig.subscribe(id, &all(Content::Trades)).unwrap();
    let kept = rig.subscribe(id, &of("A1000", Content::Bbo)).unwrap();
    rig.settle();
    for number in 1..=2_000 {
        rig.says(number, Body::Bbo(quote(1_000, 5)));
        rig.says(number, trade(u64::from(number)));
    }
    let got = rig.polled(id, 5);
    assert_eq!(got.len(), 5);
    rig.fanout.unsubscribe(id, trades).unwrap();
    rig.fanout.unsubscribe(id, quotes).unwrap();
    rig.advance(10);
    let mut of_kept = Vec::new();
    for _ in 0..20 {
        // A poll drops a bounded number of items of what has ended.
        of_kept.extend(rig.polled(id, 100));
        rig.advance(10);
    }
    rig.settle();
    of_kept.extend(rig.polled(id, 10_000));
    let subscriptions: Vec<_> = of_kept.iter().map(|message| message.subscription).collect();
    assert!(subscriptions.iter().all(|one| *one == kept), "{subscriptions:?}");
    let last = of_kept.iter().rev().find(|one| one.entry.body.kind() == Kind::Bbo);
    assert_eq!(last.map(|one| one.entry.body), Some(Body::Bbo(quote(1_000, 5))));
    assert_eq!(rig.fanout.standing(id).unwrap().queue_len, 0);
}

#[test]
pub fn a_queue_does_not_grow_with_subscriptions_that_end_unread() {
    let mut rig = Rig::new(50);
    let (_, id) = rig.enter(1_000);
    let other = rig.fanout.add_subscriber();
    for content in [Content::Bbo, Content::Trades] {
        rig.subscribe(other, &all(content)).unwrap();
    }
    rig.settle();
    for round in 0..100 {
        let quotes = rig.subscribe(id, &all(Content::Bbo)).unwrap();
        let terms = Subscription { policy: Policy::None, ..all(Content::Trades) };
        let trades = rig.subscribe(id, &terms).unwrap();
        rig.settle();
        for number in 1..=50 {
            rig.says(number, Body::Bbo(quote(1_000, round)));
            rig.says(number, trade(round * 50 + u64::from(number)));
        }
        assert!(rig.polled(id, 0).is_empty(), "it does not read");
        rig.fanout.unsubscribe(id, trades).unwrap();
        rig.fanout.unsubscribe(id, quotes).unwrap();
        rig.settle();
        assert_eq!(rig.fanout.standing(id).unwrap().queue_len, 0, "round {round}");
        rig.polled(other, 1_000);
    }
}

#[test]
pub fn a_subscriber_has_a_bounded_number_of_subscriptions_to_one_instrument() {
    let mut rig = Rig::new(10);
    let (_, id) = rig.enter(1_000);
    for _ in 0..31 {
        rig.subscribe(id, &of("A2", Content::Bbo)).unwrap();
    }
    let widest = rig.subscribe(id, &of("A*", Content::Bbo)).unwrap();
    rig.settle();
    let refused = Err(SubscribeError::TooManyOfInstrument(32));
    assert_eq!(rig.subscribe(id, &of("A2", Content::Trades)), refused);
    assert_eq!(rig.subscribe(id, &of("A4", Content::Trades)).map(drop), Ok(()));
    // What begins in steps ends when it comes to the instrument.
    let all_trades = rig.subscribe(id, &all(Content::Trades)).unwrap();
    rig.settle();
    let error = SubscribeError::TooManyOfInstrument(32);
    let ended = EndedSubscription { subscriber: id, subscription: all_trades, error };
    assert_eq!(rig.ended(), [ended]);
    rig.fanout.unsubscribe(id, widest).unwrap();
    let pending = Err(SubscribeError::Pending);
    assert_eq!(rig.subscribe(id, &of("A2", Content::Trades)), pending, "one is being left");
    rig.settle();
    assert_eq!(rig.subscribe(id, &of("A2", Content::Trades)).map(drop), Ok(()));
}

#[test]
pub fn the_operators_own_subscriptions_to_an_instrument_have_no_bound() {
    let mut rig = Rig::new(10);
    let own = rig.fanout.add_subscriber();
    for _ in 0..40 {
        rig.subscribe(own, &of("A2", Content::Bbo)).unwrap();
    }
    rig.subscribe(own, &all(Content::Bbo)).unwrap();
    rig.settle();
    assert_eq!((rig.ended(), rig.fanout.is_settled(own)), (Vec::new(), true));
}

#[test]
pub fn a_session_rests_after_work_that_could_not_be_divided() {
    const QUEUED: u64 = 1_600;
    let mut rig = Rig::new(100);
    let (account, id) = rig.enter(10_000);
    let keep =
        |pattern: &str| Subscription { policy: Policy::None, ..of(pattern, Content::Trades) };
    rig.subscribe(id, &Subscription { queue_len_max: 10_000, ..keep("*") }).unwrap();
    let ending: Vec<SubscriptionId> =
        (1..=40).map(|number| rig.subscribe(id, &keep(&symbol_of(number))).unwrap()).collect();
    rig.settle();
    for number in 0..QUEUED {
        rig.says(1 + (number % 40) as u32, trade(number));
    }
    for subscription in ending {
        rig.fanout.unsubscribe(id, subscription).unwrap();
    }
    // Each end looks through the queue, which has the events of both.
    let sweeps = |rig: &Rig| rig.fanout.account(account).unwrap().backlog;
    let before = sweeps(&rig);
    let mut turns = 0;
    while rig.wait() {
        let steps = rig.advance(64);
        let most = 2 * QUEUED / 16 + 40;
        assert!(sweeps(&rig) <= before + most, "{} steps are owed", sweeps(&rig) - before);
        assert!(steps <= 2, "{steps} steps, each with a look at all of the queue");
        turns += 1;
    }
    assert!(turns >= 40, "{turns}");
    assert!(rig.now.0 >= 40 * QUEUED / 16 * 1_600, "the session has rested: {:?}", rig.now);
}

#[test]
pub fn a_subscriber_that_comes_again_begins_behind_its_earlier_interest() {
    let (mut fanout, mut books) =
        (Fanout::new(InstrumentId(9), 9).with_answers(), Books::default());
    let mut conflator = Conflator::new(&ConflatorConfig::default());
    fanout.define(&definition(InstrumentId(2), "A2"));
    let id = fanout.add_subscriber();
    let mut answered = 0;
    let first = fanout.subscribe(Nanos(0), id, &of("A*", Content::Bbo)).unwrap();
    fanout.settle(Nanos(0));
    let wishes: Vec<Interest> = fanout.take_interest().collect();
    wishes.iter().for_each(|wish| answer(&mut conflator, &books, wish, &mut answered));
    fanout.note_answered(answered);
    fanout.unsubscribe(id, first).unwrap();
    fanout.settle(Nanos(0));
    fanout.subscribe(Nanos(0), id, &of("A*", Content::Bbo)).unwrap();
    fanout.settle(Nanos(0));
    let wishes: Vec<Interest> = fanout.take_interest().collect();
    assert_eq!(wishes.iter().map(|wish| wish.is_wanted).collect::<Vec<_>>(), [false, true]);
    // The first stage still serves the earlier interest, and then none.
    conflator.apply(Nanos(1), &books.next(InstrumentId(2), Nanos(1), Body::Bbo(quote(1_000, 1))));
    while let Some(entry) = conflator.pop(Nanos(1)) {
        fanout.apply(Nanos(1), &entry);
    }
    answer(&mut conflator, &books, &wishes[0], &mut answered);
    fanout.note_answered(answered);
    let unseen = books.next(InstrumentId(2), Nanos(2), Body::Bbo(quote(1_000, 2)));
    assert_eq!(conflator.apply(Nanos(2), &unseen), Outcome::Unwanted);
    answer(&mut conflator, &books, &wishes[1], &mut answered);
    fanout.note_answered(answered);
    while let Some(entry) = conflator.pop(Nanos(3)) {
        fanout.apply(Nanos(3), &entry);
    }
    let mut got = Vec::new();
    let poll = Poll { subscriber: id, now: Nanos(100_000), room: 9 };
    let polled = fanout.poll(poll, &books, &mut |message, _| got.push(message.entry.body));
    assert_eq!(polled, PollOutcome::Sent { count: 1, left: 0 });
    assert_eq!(got, [Body::Bbo(quote(1_000, 2))], "the state as of the second beginning");
    assert_eq!(fanout.unanswered_count(), 0);
}

fn answer(conflator: &mut Conflator, books: &Books, wish: &Interest, answered: &mut u64) {
    conflator.interest(Nanos(0), wish, books);
    *answered += 1;
}

#[test]
pub fn a_change_of_an_interval_is_worked_off_before_the_sessions_next_steps() {
    let mut rig = Rig::new(1_600);
    let (account, id) = rig.enter(10_000);
    let terms = Subscription { interval: Nanos(1_000), ..all(Content::Bbo) };
    let subscription = rig.subscribe(id, &terms).unwrap();
    rig.settle();
    assert_eq!(rig.fanout.account(account).unwrap().backlog, 0);
    rig.fanout.set_interval(Nanos(0), id, subscription, Nanos(7_000)).unwrap();
    assert_eq!(rig.fanout.account(account).unwrap().backlog, 100, "sixteen looks are a step");
    assert_eq!(rig.advance(STEPS), 0, "the session rests");
    assert!(rig.fanout.next_steps(rig.now).is_some_and(|next| next.0 == 100 * 1_600));
    while rig.wait() {
        assert_eq!(rig.advance(STEPS), 0);
    }
    assert_eq!(rig.fanout.account(account).unwrap().backlog, 0);
}

#[test]
pub fn connections_that_end_what_they_had_hold_a_bounded_amount_of_memory() {
    let mut rig = Rig::new(20_000);
    let account = rig.fanout.add_account(Some(25_000));
    let mut small = Vec::new();
    let mut take = |rig: &mut Rig| -> Result<(), SubscribeError> {
        let connection = rig.fanout.add_subscriber_of(account);
        let large = rig.subscribe(connection, &all(Content::Bbo))?;
        rig.settle();
        // The last slot is the small one's, so that those of the large one stay.
        small.push((connection, rig.subscribe(connection, &of("B1", Content::Trades))?));
        rig.fanout.unsubscribe(connection, large)?;
        rig.settle();
        Ok(())
    };
    assert_eq!([(); 3].map(|()| take(&mut rig)), [Ok(()); 3]);
    let refused = Err(SubscribeError::SessionSlots { needed: 80_003, max: 25_000 });
    assert_eq!(take(&mut rig), refused, "four times its slots");
    assert_eq!(rig.slots(account), 3);
    let (connection, last) = small[0];
    rig.fanout.unsubscribe(connection, last).unwrap();
    rig.settle();
    let subscribed = rig.subscribe(connection, &all(Content::Bbo)).map(drop);
    assert_eq!(subscribed, Ok(()), "the memory of what is not used any more is free");
}

#[test]
pub fn a_queue_skips_while_events_of_a_removed_slot_wait_for_their_sweep() {
    let mut rig = Rig::new(4);
    let (_, id) = rig.enter(1_000);
    let ended = rig.subscribe(id, &of("A2", Content::Trades)).unwrap();
    rig.subscribe(id, &of("A2", Content::Bbo)).unwrap();
    let short = Subscription { queue_len_max: 2, ..of("A2", Content::Trades) };
    let short = rig.subscribe(id, &short).unwrap();
    rig.says(2, trade(1));
    rig.fanout.unsubscribe(id, ended).unwrap();
    assert_eq!(rig.advance(1), 1, "it has left its instrument; its event is queued");
    // The third trade makes the first two a gap.
    for number in 2..=4 {
        rig.says(2, trade(number));
    }
    let got: Vec<_> =
        rig.polled(id, 9).iter().map(|one| (one.subscription, one.entry.body)).collect();
    let want = [Body::Gap(Kind::Trades), trade(3), trade(4)].map(|body| (short, body));
    assert_eq!(got, want);
    rig.settle();
    assert_eq!(rig.fanout.standing(id).unwrap().queue_len, 0);
}
