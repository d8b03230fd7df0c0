//! Tests of the second stage's guarantees, one by one.

use weir_market::conflate::{
    Body, Content, Disconnect, Entry, Fanout, Interest, Kind, Message, Pattern, Policy, Poll,
    PollOutcome, SubscribeError, SubscriberId, Subscription, SubscriptionId, Urgency,
};
use weir_types::{InstrumentId, Nanos};

use crate::books::{Books, definition, quote, status, trade};

const A: InstrumentId = InstrumentId(1);
const B: InstrumentId = InstrumentId(2);

struct Rig {
    fanout: Fanout,
    books: Books,
    id: SubscriberId,
}

impl Rig {
    /// Creates a desk with instruments A and B, and one subscriber.
    fn new() -> Rig {
        let mut fanout = Fanout::new(InstrumentId(10), 4);
        fanout.define(&definition(A, "AAPL"));
        fanout.define(&definition(B, "BAC"));
        let id = fanout.add_subscriber();
        Rig { fanout, books: Books::default(), id }
    }

    fn subscribe(&mut self, pattern: &str, terms: impl Fn(&mut Subscription)) -> SubscriptionId {
        let mut subscription =
            Subscription::new(Pattern::parse(pattern.as_bytes()).unwrap(), Content::Bbo);
        terms(&mut subscription);
        if !subscription.content.kind().is_state() && subscription.policy == Policy::Conflate {
            subscription.policy = Policy::SkipAndNotify;
        }
        let subscribed = self.fanout.subscribe(Nanos(0), self.id, &subscription);
        self.fanout.settle(Nanos(0));
        subscribed.unwrap()
    }

    fn says(&mut self, now: u64, id: InstrumentId, body: Body) {
        let entry = self.books.next(id, Nanos(now), body);
        self.fanout.apply(Nanos(now), &entry);
    }

    fn polled(&mut self, now: u64, room: usize) -> (Vec<Message>, PollOutcome) {
        let mut got = Vec::new();
        let poll = Poll { subscriber: self.id, now: Nanos(now), room };
        let polled = self.fanout.poll(poll, &self.books, &mut |message, _| got.push(*message));
        (got, polled)
    }

    fn bodies(&mut self, now: u64, room: usize) -> Vec<Body> {
        self.polled(now, room).0.iter().map(|message| message.entry.body).collect()
    }

    fn interest(&mut self) -> Vec<(InstrumentId, Kind, bool)> {
        self.fanout.settle(Nanos(0));
        let all = self.fanout.take_interest();
        all.map(|Interest { instrument_id, kind, is_wanted }| (instrument_id, kind, is_wanted))
            .collect()
    }
}

fn bbo(cents: i64, size: u64) -> Body {
    Body::Bbo(quote(cents, size))
}

#[test]
fn a_slow_subscriber_gets_the_latest_state_of_each_instrument_once() {
    let mut desk = Rig::new();
    desk.subscribe("*", |_| {});
    for round in 1..=1_000 {
        desk.says(round, A, bbo(1_000, round));
        desk.says(round, B, bbo(2_000, round));
    }
    let (got, polled) = desk.polled(2_000, 1);
    assert_eq!(polled, PollOutcome::Sent { count: 1, left: 1 });
    assert_eq!((got[0].entry.body, got[0].entry.merged.change_count), (bbo(1_000, 1_000), 1_000));
    assert!(got[0].entry.is_snapshot, "the first of an instrument is marked");
    desk.says(2_001, B, bbo(2_000, 1_001));
    let (got, polled) = desk.polled(2_002, 9);
    assert_eq!(polled, PollOutcome::Sent { count: 1, left: 0 });
    assert_eq!((got[0].entry.body, got[0].entry.merged.change_count), (bbo(2_000, 1_001), 1_001));
    let standing = desk.fanout.standing(desk.id).unwrap();
    assert_eq!((standing.sent_count, standing.merged_count, standing.lost_count), (2, 1_999, 0));
}

#[test]
fn an_interval_can_be_changed_while_it_runs() {
    let mut desk = Rig::new();
    let subscription = desk.subscribe("AAPL", |terms| terms.interval = Nanos(1_000));
    desk.says(10_000, A, bbo(1_000, 1));
    assert_eq!(desk.bodies(10_000, 9), [bbo(1_000, 1)], "at once when idle");
    desk.says(10_100, A, bbo(1_000, 2));
    assert_eq!(desk.bodies(10_999, 9), []);
    assert_eq!(desk.fanout.next_due(desk.id), Some(Nanos(11_000)));
    assert_eq!(desk.bodies(11_000, 9), [bbo(1_000, 2)]);
    desk.says(11_001, A, bbo(1_000, 3));
    desk.fanout.set_interval(Nanos(11_500), desk.id, subscription, Nanos(10)).unwrap();
    assert_eq!(desk.bodies(11_509, 9), []);
    assert_eq!(desk.bodies(11_510, 9), [bbo(1_000, 3)]);
}

#[test]
fn urgency_is_judged_by_what_this_subscriber_was_sent() {
    let mut desk = Rig::new();
    desk.subscribe("AAPL", |terms| terms.interval = Nanos(1_000_000));
    let calm = desk.fanout.add_subscriber();
    let terms = Subscription {
        interval: Nanos(1_000_000),
        urgency: Urgency::NEVER,
        ..Subscription::new(Pattern::All, Content::Bbo)
    };
    desk.fanout.subscribe(Nanos(0), calm, &terms).unwrap();
    desk.fanout.settle(Nanos(0));
    let count_of = |desk: &mut Rig, now| {
        let poll = Poll { subscriber: calm, now: Nanos(now), room: 9 };
        let mut count = 0;
        let _ = desk.fanout.poll(poll, &desk.books, &mut |_, _| count += 1);
        (desk.bodies(now, 9), count)
    };
    desk.says(10, A, bbo(1_000, 1));
    assert_eq!(count_of(&mut desk, 10), (vec![bbo(1_000, 1)], 1));
    desk.says(20, A, bbo(1_005, 1));
    assert_eq!(count_of(&mut desk, 20), (vec![], 0));
    desk.says(30, A, bbo(1_010, 1));
    assert_eq!(count_of(&mut desk, 30), (vec![bbo(1_010, 1)], 0));
}

#[test]
fn a_slow_subscriber_gets_each_quote_that_goes_with_a_trade_before_it() {
    let mut desk = Rig::new();
    desk.subscribe("AAPL", |terms| terms.interval = Nanos(1_000));
    desk.subscribe("AAPL", |terms| {
        terms.content = Content::Trades;
        terms.policy = Policy::None;
    });
    for number in 1..4 {
        desk.says(number, A, bbo(1_000, number));
        desk.says(number, A, trade(number));
        desk.says(number, A, bbo(1_000, 10 + number));
    }
    let want = [
        (bbo(1_000, 1), 1),
        (trade(1), 1),
        (bbo(1_000, 2), 2),
        (trade(2), 1),
        (bbo(1_000, 3), 2),
        (trade(3), 1),
    ];
    let (got, _) = desk.polled(4, 99);
    let got: Vec<_> = got.iter().map(|m| (m.entry.body, m.entry.merged.change_count)).collect();
    assert_eq!(got, want);
    assert_eq!(desk.bodies(5_000, 99), [bbo(1_000, 13)]);
}

#[test]
fn a_quote_does_not_go_early_for_a_trade_that_the_subscriber_does_not_get() {
    let mut desk = Rig::new();
    desk.subscribe("AAPL", |terms| terms.interval = Nanos(1_000));
    desk.says(1, A, bbo(1_000, 1));
    assert_eq!(desk.bodies(1, 9).len(), 1);
    desk.says(2, A, bbo(1_000, 2));
    desk.says(2, A, trade(1));
    assert_eq!(desk.bodies(2, 9), []);
}

fn trades_with(policy: Policy) -> Rig {
    let mut desk = Rig::new();
    desk.subscribe("*", |terms| {
        terms.content = Content::Trades;
        terms.policy = policy;
        terms.queue_len_max = 2;
    });
    for number in 1..6 {
        desk.says(number, A, trade(number));
    }
    desk
}

#[test]
fn a_full_queue_of_trades_does_what_its_policy_says() {
    let gap = Body::Gap(Kind::Trades);
    let got = |policy| {
        let (got, _) = trades_with(policy).polled(9, 9);
        let of =
            |Entry { merged, body, .. }: Entry| (body, merged.change_count, merged.last_sequence);
        got.iter().map(|message| of(message.entry)).collect::<Vec<_>>()
    };
    assert_eq!(got(Policy::None), [(trade(1), 1, 1), (trade(2), 1, 2), (gap, 3, 5)]);
    assert_eq!(got(Policy::SkipAndNotify), [(gap, 4, 4), (trade(5), 1, 5)]);
    let mut desk = trades_with(Policy::Disconnect);
    let why = Disconnect { subscription: SubscriptionId(0), queue_len_max: 2 };
    assert_eq!(desk.polled(9, 9), (vec![], PollOutcome::Disconnect(why)));
    let (now, again) = (Nanos(9), Subscription::new(Pattern::All, Content::Bbo));
    let refused = desk.fanout.subscribe(now, desk.id, &again);
    assert_eq!(refused, Err(SubscribeError::Disconnected));
    desk.interest();
    desk.fanout.remove_subscriber(desk.id);
    assert_eq!(desk.interest(), [(A, Kind::Trades, false), (B, Kind::Trades, false)]);
    assert_eq!(desk.polled(9, 9), (vec![], PollOutcome::Unknown));
}

#[test]
fn quotes_that_are_not_conflated_end_in_the_latest_state_however_many_were_lost() {
    for (policy, want) in [
        (Policy::None, vec![bbo(1_000, 1), bbo(1_000, 2), bbo(1_000, 5), bbo(2_000, 9)]),
        (
            Policy::SkipAndNotify,
            // A's state follows its gap, although nothing new changed it.
            vec![Body::Gap(Kind::Bbo), bbo(2_000, 9), bbo(1_000, 5)],
        ),
    ] {
        let mut desk = Rig::new();
        desk.subscribe("*", |terms| {
            terms.policy = policy;
            terms.queue_len_max = 2;
        });
        // Snapshots count as no changes.
        for (id, body) in [(A, bbo(1_000, 0)), (B, bbo(2_000, 0))] {
            desk.says(1, id, body);
        }
        assert_eq!(desk.bodies(1, 9).len(), 2);
        let sizes: &[u64] = if policy == Policy::None { &[1, 2, 3, 4, 5] } else { &[4, 5] };
        for size in sizes {
            desk.says(2, A, bbo(1_000, *size));
        }
        desk.says(3, B, bbo(2_000, 9));
        assert_eq!(desk.bodies(4, 9), want, "{policy:?}");
    }
}

#[test]
fn quotes_put_before_trades_that_are_skipped_do_not_pile_up() {
    let mut desk = Rig::new();
    desk.subscribe("AAPL", |terms| terms.interval = Nanos(1_000));
    desk.subscribe("AAPL", |terms| {
        terms.content = Content::Trades;
        terms.queue_len_max = 4;
    });
    for number in 1..10_000 {
        desk.says(number, A, bbo(1_000, number));
        desk.says(number, A, trade(number));
        let standing = desk.fanout.standing(desk.id).unwrap();
        assert!(standing.queue_len <= 4 * 2 + 2, "{standing:?} after {number} trades");
    }
    let (got, _) = desk.polled(20_000, 99);
    let changes: u64 = got.iter().map(|m| u64::from(m.entry.merged.change_count)).sum();
    assert_eq!(changes, 2 * 9_999);
    let quotes: Vec<_> = got.iter().filter(|m| m.entry.body.kind() == Kind::Bbo).collect();
    assert_eq!(quotes.last().unwrap().entry.body, bbo(1_000, 9_999));
    assert_eq!(quotes[0].entry.merged.first_sequence, 1, "nothing of the merged is forgotten");
}

#[test]
fn orders_are_told_anew_after_a_gap_and_never_twice() {
    let mut desk = Rig::new();
    desk.subscribe("AAPL", |terms| {
        terms.content = Content::Orders;
        terms.policy = Policy::None;
        terms.queue_len_max = 2;
    });
    let order = |desk: &mut Rig, is_heard: bool| {
        let entry = desk.books.next_of(A, Nanos(1), Kind::Orders, 1);
        if is_heard {
            desk.fanout.apply(Nanos(1), &entry);
        }
        entry
    };
    order(&mut desk, true);
    assert_eq!(desk.bodies(1, 9), [], "before the marker nothing is complete");
    let late = order(&mut desk, false);
    let marker = Entry { is_snapshot: true, body: Body::OrdersSnapshot, ..late };
    let merged = weir_market::conflate::MergedChanges { change_count: 0, ..late.merged };
    desk.fanout.apply(Nanos(1), &Entry { merged, ..marker });
    assert_eq!(desk.bodies(1, 9), [Body::OrdersSnapshot]);
    desk.fanout.apply(Nanos(1), &late);
    assert_eq!(desk.bodies(1, 9), [], "it is in the snapshot");
    let [first, second] = [order(&mut desk, true), order(&mut desk, true)];
    order(&mut desk, true);
    let want = [first.body, second.body, Body::Gap(Kind::Orders), Body::OrdersSnapshot];
    assert_eq!(desk.bodies(1, 9), want);
    // Sequence numbers restart with a new session.
    desk.fanout.new_session();
    desk.books.sequence = 0;
    let low = order(&mut desk, true);
    assert_eq!(desk.bodies(1, 9), [low.body]);
}

#[test]
fn patterns_have_what_is_defined_later_and_interest_is_told_once() {
    let mut desk = Rig::new();
    desk.subscribe("AA*", |_| {});
    desk.subscribe("AAL", |terms| terms.content = Content::Depth(5));
    let whole = desk.subscribe("*", |_| {});
    let bbo_of = |id, is_wanted| (id, Kind::Bbo, is_wanted);
    assert_eq!(desk.interest(), [bbo_of(A, true), bbo_of(B, true)]);
    let c = InstrumentId(3);
    desk.fanout.define(&definition(c, "AAL"));
    desk.fanout.define(&definition(c, "AAL"));
    let mut got = desk.interest();
    got.sort_by_key(|(_, kind, _)| *kind);
    assert_eq!(got, [bbo_of(c, true), (c, Kind::Book, true)]);
    desk.says(1, c, Body::Book);
    assert_eq!(desk.polled(1, 9).0[0].depth, 5);
    desk.fanout.unsubscribe(desk.id, whole).unwrap();
    assert_eq!(desk.interest(), [bbo_of(B, false)]);
    // The number is assigned to another symbol.
    desk.fanout.define(&definition(c, "ZZZ"));
    assert_eq!(desk.interest(), [bbo_of(c, false), (c, Kind::Book, false)]);
    desk.fanout.define(&definition(InstrumentId(11), "AAZ"));
    assert_eq!(desk.interest(), [], "beyond the highest number");
}

#[test]
fn nothing_of_an_ended_subscription_is_sent() {
    let mut desk = Rig::new();
    let quotes = desk.subscribe("*", |_| {});
    let trades = desk.subscribe("*", |terms| terms.content = Content::Trades);
    desk.says(1, A, bbo(1_000, 1));
    desk.says(2, A, trade(1));
    desk.says(3, B, bbo(2_000, 1));
    desk.fanout.unsubscribe(desk.id, trades).unwrap();
    desk.fanout.settle(Nanos(3));
    // The quote frozen ahead of the trade is an ordinary quote again.
    assert_eq!(desk.bodies(4, 9), [bbo(2_000, 1), bbo(1_000, 1)]);
    desk.fanout.unsubscribe(desk.id, quotes).unwrap();
    let missing = Err(SubscribeError::NoSubscription(quotes));
    assert_eq!(desk.fanout.unsubscribe(desk.id, quotes), missing);
    let nobody = SubscriberId(77);
    let missing = Err(SubscribeError::NoSubscriber(nobody));
    assert_eq!(desk.fanout.unsubscribe(nobody, quotes), missing);
}

#[test]
pub fn a_second_subscriber_begins_with_the_latest_state() {
    let mut desk = Rig::new();
    desk.subscribe("*", |_| {});
    desk.subscribe("*", |terms| terms.content = Content::Status);
    desk.says(1, A, bbo(1_000, 1));
    desk.says(2, A, Body::Status(status(true)));
    desk.id = desk.fanout.add_subscriber();
    desk.subscribe("AAPL", |terms| terms.content = Content::Status);
    desk.subscribe("AAPL", |_| {});
    let (got, _) = desk.polled(3, 9);
    let got: Vec<_> = got
        .iter()
        .map(|m| (m.entry.body, m.entry.is_snapshot, m.entry.merged.change_count))
        .collect();
    assert_eq!(got, [(Body::Status(status(true)), true, 0), (bbo(1_000, 1), true, 0)]);
}

#[test]
fn a_subscriber_has_no_more_subscriptions_than_it_may() {
    let mut desk = Rig::new();
    for _ in 0..4 {
        desk.subscribe("*", |_| {});
    }
    let terms = Subscription::new(Pattern::All, Content::Bbo);
    let refused = desk.fanout.subscribe(Nanos(0), desk.id, &terms);
    assert_eq!(refused, Err(SubscribeError::TooMany(4)));
}
