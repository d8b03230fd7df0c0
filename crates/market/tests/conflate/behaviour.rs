//! Tests of the first stage's guarantees, one by one.

use weir_market::conflate::{
    Body, Conflator, ConflatorConfig, Entry, Interest, Kind, OnFull, Outcome,
};
use weir_types::{InstrumentId, Nanos};

use crate::books::{Books, quote, status, trade};

const ID: InstrumentId = InstrumentId(7);

struct Rig {
    conflator: Conflator,
    books: Books,
}

impl Rig {
    fn new(config: &ConflatorConfig, kinds: &[Kind]) -> Rig {
        let mut rig = Rig { conflator: Conflator::new(config), books: Books::default() };
        for kind in kinds {
            rig.want(*kind, true);
        }
        // The snapshots go out long before.
        rig.sent(Nanos(0));
        rig
    }

    fn want(&mut self, kind: Kind, is_wanted: bool) {
        let interest = Interest { instrument_id: ID, kind, is_wanted };
        self.conflator.interest(Nanos(0), &interest, &self.books);
    }

    fn says(&mut self, now: u64, body: Body) -> Outcome {
        let entry = self.books.next(ID, Nanos(now), body);
        self.conflator.apply(Nanos(now), &entry)
    }

    fn sent(&mut self, now: Nanos) -> Vec<Entry> {
        self.conflator.tick(now);
        std::iter::from_fn(|| self.conflator.pop(now)).collect()
    }
}

/// Returns the bodies sent, with the microsecond of each.
fn sent_of(quotes: &[(u64, i64, u64)]) -> Vec<(u64, Body)> {
    let mut rig = Rig::new(&ConflatorConfig::default(), &[Kind::Bbo]);
    let start = 1_000_000;
    let mut sent = Vec::new();
    // The timer runs every microsecond, after the changes of that microsecond.
    for micros in 0..60 {
        let now = Nanos(start + micros * 1_000);
        for (_, cents, size) in quotes.iter().filter(|(at, _, _)| *at == micros) {
            rig.says(now.0, Body::Bbo(quote(*cents, *size)));
        }
        sent.extend(rig.sent(now).into_iter().map(|entry| (micros, entry.body)));
    }
    sent
}

#[test]
fn the_cases_own_table_is_sent_at_the_first_quote_and_at_the_end_of_the_interval_only() {
    let quotes = [(0, 1_000, 100), (5, 1_005, 101), (10, 1_005, 102), (15, 1_000, 102)];
    let want = [(0, Body::Bbo(quote(1_000, 100))), (15, Body::Bbo(quote(1_000, 102)))];
    assert_eq!(sent_of(&quotes), want);
}

#[test]
fn a_move_of_one_per_cent_against_the_last_sent_price_goes_at_once() {
    // At +5 a move of 0.5 %, merged; at +10 of 1 % from the quote sent, although of 0.5 % from +5,
    // so it goes at once; at +12 of 0.2 % from that, so it waits until +25.
    let quotes = [(0, 1_000, 100), (5, 1_005, 101), (10, 1_010, 102), (12, 1_012, 103)];
    let want = [
        (0, Body::Bbo(quote(1_000, 100))),
        (10, Body::Bbo(quote(1_010, 102))),
        (25, Body::Bbo(quote(1_012, 103))),
    ];
    assert_eq!(sent_of(&quotes), want);
}

#[test]
fn what_is_sent_says_how_much_was_merged_and_how_old_it_is() {
    let mut rig = Rig::new(&ConflatorConfig::default(), &[Kind::Bbo]);
    let first = rig.says(100_000, Body::Bbo(quote(1_000, 1)));
    assert_eq!(first, Outcome::Queued, "at once when idle, without the timer");
    rig.sent(Nanos(100_000));
    for (at, size) in [(101_000, 2), (102_000, 3), (103_000, 4)] {
        assert_eq!(rig.says(at, Body::Bbo(quote(1_000, size))), Outcome::Waiting);
    }
    assert_eq!(rig.sent(Nanos(114_999)), []);
    assert_eq!(rig.conflator.next_due(), Some(Nanos(115_000)));
    let [sent] = rig.sent(Nanos(115_000)).try_into().unwrap();
    assert_eq!((sent.merged.change_count, sent.merged.merged_count()), (3, 2));
    assert_eq!((sent.merged.first_sequence, sent.merged.last_sequence), (2, 4));
    assert_eq!((sent.merged.ts_event, sent.merged.ts_recv), (Nanos(101_000), Nanos(101_001)));
}

#[test]
fn the_quote_that_goes_with_a_trade_is_sent_before_it_and_the_next_one_after() {
    let mut rig = Rig::new(&ConflatorConfig::default(), &[Kind::Bbo, Kind::Trades]);
    rig.says(100_000, Body::Bbo(quote(1_000, 1)));
    rig.sent(Nanos(100_000));
    rig.says(101_000, Body::Bbo(quote(1_000, 2)));
    rig.says(101_000, trade(1));
    rig.says(101_000, Body::Bbo(quote(1_000, 3)));
    rig.says(101_500, trade(2));
    // The quote is urgent, yet not merged into the one ahead of the trades.
    rig.says(101_600, Body::Bbo(quote(1_100, 4)));
    let sent: Vec<Body> = rig.sent(Nanos(101_600)).iter().map(|entry| entry.body).collect();
    let [before, between, last] =
        [(1_000, 2), (1_000, 3), (1_100, 4)].map(|(cents, size)| Body::Bbo(quote(cents, size)));
    assert_eq!(sent, [before, trade(1), between, trade(2), last]);
}

#[test]
fn while_flush_is_behind_an_urgent_quote_takes_the_place_of_the_one_before() {
    let mut rig = Rig::new(&ConflatorConfig::default(), &[Kind::Bbo]);
    for cents in [1_000, 1_100, 1_210, 1_400] {
        rig.says(100_000, Body::Bbo(quote(cents, 1)));
        assert_eq!(rig.conflator.queue_len(), 1);
    }
    let [sent] = rig.sent(Nanos(100_000)).try_into().unwrap();
    assert_eq!((sent.body, sent.merged.change_count), (Body::Bbo(quote(1_400, 1)), 4));
}

#[test]
fn a_halt_waits_for_nothing_and_no_status_is_merged() {
    let mut rig = Rig::new(&ConflatorConfig::default(), &[Kind::Bbo, Kind::Status]);
    rig.says(100_000, Body::Bbo(quote(1_000, 1)));
    rig.sent(Nanos(100_000));
    rig.says(100_001, Body::Bbo(quote(1_000, 2)));
    for is_halted in [true, false, true] {
        assert_eq!(rig.says(100_002, Body::Status(status(is_halted))), Outcome::Queued);
    }
    let sent: Vec<Body> = rig.sent(Nanos(100_002)).iter().map(|entry| entry.body).collect();
    let [halt, resume] = [true, false].map(|is_halted| Body::Status(status(is_halted)));
    assert_eq!(sent, [Body::Bbo(quote(1_000, 2)), halt, resume, halt]);
}

#[test]
fn nothing_is_queued_for_what_nobody_wants() {
    let mut rig = Rig::new(&ConflatorConfig::default(), &[]);
    for kind in Kind::ALL {
        let entry = rig.books.next_of(ID, Nanos(5), kind, 1);
        assert_eq!(rig.conflator.apply(Nanos(5), &entry), Outcome::Unwanted);
    }
    assert_eq!(rig.sent(Nanos(u64::MAX)), []);
    // After two requests and one withdrawal it is still subscribed, after two withdrawals not.
    rig.want(Kind::Trades, true);
    rig.want(Kind::Trades, true);
    rig.want(Kind::Trades, false);
    assert_eq!(rig.says(6, trade(1)), Outcome::Queued);
    rig.want(Kind::Trades, false);
    assert_eq!(rig.says(7, trade(2)), Outcome::Unwanted);
    assert_eq!(rig.sent(Nanos(u64::MAX)), [], "what was queued is gone with the last");
    rig.want(Kind::Trades, false);
}

#[test]
fn an_instrument_beyond_the_highest_number_is_wanted_by_nobody() {
    let config = ConflatorConfig { instrument_id_max: InstrumentId(6), ..Default::default() };
    let mut rig = Rig::new(&config, &[Kind::Bbo]);
    assert_eq!(rig.says(5, Body::Bbo(quote(1_000, 1))), Outcome::Unwanted);
}

#[test]
fn whoever_begins_to_want_something_gets_the_state_marked_as_snapshot() {
    let mut rig = Rig::new(&ConflatorConfig::default(), &[]);
    rig.says(5, Body::Bbo(quote(1_000, 1)));
    rig.says(6, Body::Status(status(true)));
    for kind in Kind::ALL {
        rig.want(kind, true);
    }
    let sent = rig.sent(Nanos(10));
    let bodies: Vec<Body> = sent.iter().map(|entry| entry.body).collect();
    let halt = Body::Status(status(true));
    let quote = Body::Bbo(quote(1_000, 1));
    assert_eq!(bodies, [quote, Body::Book, Body::Statistics, halt, Body::OrdersSnapshot]);
    assert!(sent.iter().all(|entry| entry.is_snapshot && entry.merged.change_count == 0));
    assert!(sent.iter().all(|entry| entry.merged.last_sequence == 2));
}

#[test]
fn a_full_queue_is_told_as_a_gap_or_refuses_as_configured() {
    for (on_full, outcome) in [(OnFull::Gap, Outcome::Lost), (OnFull::Refuse, Outcome::Refused)] {
        let config = ConflatorConfig { events_max: 2, on_full, ..Default::default() };
        let mut rig = Rig::new(&config, &[Kind::Trades]);
        rig.says(1, trade(1));
        rig.says(2, trade(2));
        for number in 3..6 {
            assert_eq!(rig.says(number, trade(number)), outcome);
        }
        let sent = rig.sent(Nanos(9));
        assert_eq!((sent[0].body, sent[1].body), (trade(1), trade(2)));
        let gaps: Vec<_> = sent[2..]
            .iter()
            .map(|gap| (gap.body, gap.merged.change_count, gap.merged.last_sequence))
            .collect();
        match on_full {
            OnFull::Gap => assert_eq!(gaps, [(Body::Gap(Kind::Trades), 3, 5)]),
            OnFull::Refuse => assert_eq!(gaps, []),
        }
        assert_eq!(rig.says(10, trade(10)), Outcome::Queued, "there is room again");
    }
}

/// Another flush thread's subscribers began while a status was merged at the end of a full queue:
/// its next change went there too, and the marker behind it was older.
#[test]
pub fn a_status_that_is_queued_is_told_to_a_new_subscriber_once_and_as_it_is() {
    let config = ConflatorConfig { events_max: 1, ..Default::default() };
    let mut rig = Rig::new(&config, &[Kind::Status]);
    let [halted, trading] = [true, false].map(|is_halted| Body::Status(status(is_halted)));
    assert_eq!(rig.says(1, halted), Outcome::Queued);
    assert_eq!(rig.says(2, trading), Outcome::Merged);
    rig.want(Kind::Status, true);
    assert_eq!(rig.says(3, halted), Outcome::Merged);
    let sent = rig.sent(Nanos(9));
    let told: Vec<_> = sent.iter().map(|entry| (entry.body, entry.merged.change_count)).collect();
    assert_eq!(told, [(halted, 1), (halted, 2)]);
    // Nothing is queued now, so the next one gets a marker.
    rig.want(Kind::Status, true);
    let sent = rig.sent(Nanos(10));
    assert_eq!((sent.len(), sent[0].body, sent[0].is_snapshot), (1, halted, true));
}

#[test]
fn a_new_interval_holds_from_the_moment_it_is_given() {
    let mut rig = Rig::new(&ConflatorConfig::default(), &[Kind::Bbo]);
    rig.says(100_000, Body::Bbo(quote(1_000, 1)));
    rig.sent(Nanos(100_000));
    rig.says(101_000, Body::Bbo(quote(1_000, 2)));
    rig.conflator.set_interval(Nanos(102_000), Kind::Bbo, Nanos(50_000));
    assert_eq!(rig.sent(Nanos(151_999)), []);
    assert_eq!(rig.sent(Nanos(152_000)).len(), 1);
    rig.says(153_000, Body::Bbo(quote(1_000, 3)));
    rig.conflator.set_interval(Nanos(154_000), Kind::Bbo, Nanos(0));
    assert_eq!(rig.sent(Nanos(154_000)).len(), 1, "without an interval nothing waits");
}

#[test]
fn the_end_of_time_is_no_overflow() {
    let mut rig = Rig::new(&ConflatorConfig::default(), &[Kind::Bbo]);
    rig.conflator.set_interval(Nanos(0), Kind::Bbo, Nanos(u64::MAX));
    for _ in 0..3 {
        rig.says(u64::MAX - 1, Body::Bbo(quote(1_000, 1)));
        rig.sent(Nanos(u64::MAX - 1));
    }
    assert_eq!(rig.conflator.waiting_count(), 1);
}
