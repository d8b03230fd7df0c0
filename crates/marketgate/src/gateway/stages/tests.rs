//! Tests of the probes with messages of known times.

use std::cell::Cell;

use weir_market::conflate::{Bbo, Stamp};

use super::*;

thread_local! {
    static CLOCK: Cell<u64> = const { Cell::new(0) };
    /// The distance of the wall clock.
    static WALL: Cell<i64> = const { Cell::new(0) };
}

fn now() -> Nanos {
    Nanos(CLOCK.get())
}

fn wall() -> Nanos {
    Nanos(CLOCK.get().saturating_add_signed(WALL.get()))
}

fn set(at: u64) {
    CLOCK.set(at);
}

fn sampler(has_kernel_time: bool) -> Sampler {
    Sampler { now, wall, ..Sampler::new(has_kernel_time) }
}

fn quote(id: u32, sequence: u64) -> Entry {
    let stamp = Stamp { sequence, ..Stamp::default() };
    Entry::change(InstrumentId(id), stamp, Body::Bbo(Bbo::default()))
}

fn gap(id: u32, sequence: u64) -> Entry {
    let stamp = Stamp { sequence, ..Stamp::default() };
    Entry::change(InstrumentId(id), stamp, Body::Gap(Kind::Bbo))
}

/// The probes of one path, and their measurements.
struct Way {
    update: UpdateProbe,
    flush: FlushProbe,
}

impl Way {
    fn new() -> Way {
        let update = UpdateProbe { now, ..UpdateProbe::default() };
        Way { update, flush: FlushProbe { now, ..FlushProbe::default() } }
    }

    /// Times an update from 1,000, in the book at 1,300, then offered.
    fn begin(&mut self, in_kernel: Option<u64>, entry: &Entry, outcome: Outcome) {
        let in_kernel = in_kernel.map(Nanos);
        self.update.begin(TimedMessage { in_kernel, received: Nanos(1_000) });
        set(1_300);
        self.update.updated();
        self.update.offered(entry, outcome);
        self.update.end_of_update();
    }

    fn report(&self, has_kernel_time: bool) -> Vec<(String, u64, Option<u64>)> {
        let readers = StageReaders {
            has_kernel_time,
            receive: Histogram::new().reader(),
            update: self.update.readers(),
            flush: vec![self.flush.readers()],
        };
        let stages = readers.report().stages.into_iter();
        stages.map(|one| (one.stage, one.count, one.max_ns)).collect()
    }

    fn of(&self, stage: &str) -> Option<u64> {
        let report = self.report(true);
        report.into_iter().find(|(name, ..)| name == stage).expect("it is there").2
    }
}

#[test]
fn a_message_is_timed_at_each_point_and_the_whole_is_the_sum() {
    let mut way = Way::new();
    let entry = quote(7, 5);
    way.begin(Some(600), &entry, Outcome::Queued);
    set(1_350);
    assert_eq!(way.update.told(&quote(8, 6)), None, "of another instrument");
    let trace = way.update.told(&entry).expect("it is the one");
    assert_eq!(way.update.told(&entry), None, "once");
    set(1_850);
    way.flush.heard(&entry, &trace);
    way.flush.written(3, &quote(8, 6));
    way.flush.written(3, &entry);
    way.flush.written(4, &entry);
    way.flush.end_of_telling(false);
    set(4_850);
    way.flush.flushed(4, true);
    way.flush.flushed(3, true);
    let want = [
        ("receive", None),
        ("update", Some(300)),
        ("queue", Some(50)),
        ("held", None),
        ("flush", Some(500)),
        ("socket", Some(3_000)),
        ("inside", Some(3_850)),
        ("total", Some(4_450)),
    ];
    let got = way.report(true);
    for ((stage, _, max), (name, ns)) in got.iter().zip(want) {
        assert_eq!((stage.as_str(), *max), (name, ns));
    }
    assert_eq!(got.len(), want.len());
}

#[test]
fn what_was_held_on_purpose_is_told_apart_and_is_in_no_sum() {
    let mut way = Way::new();
    let entry = quote(7, 5);
    way.begin(Some(600), &entry, Outcome::Waiting);
    set(16_300);
    // Merged with others meanwhile.
    let mut merged = quote(7, 4);
    (merged.merged.change_count, merged.merged.last_sequence) = (3, 9);
    let trace = way.update.told(&merged).expect("it says what is timed");
    way.flush.heard(&merged, &trace);
    way.flush.written(1, &merged);
    set(16_800);
    way.flush.flushed(1, true);
    assert_eq!((way.of("held"), way.of("queue")), (Some(15_000), None));
    assert_eq!((way.of("inside"), way.of("total")), (Some(800), Some(1_400)));
}

#[test]
fn what_goes_at_once_is_timed_though_something_of_the_same_update_is_held() {
    let mut way = Way::new();
    let waits = quote(7, 5);
    way.update.begin(TimedMessage::default());
    set(10);
    way.update.updated();
    way.update.offered(&waits, Outcome::Waiting);
    let goes = Entry { body: Body::Book, ..waits };
    way.update.offered(&goes, Outcome::Queued);
    way.update.end_of_update();
    let late = Entry { body: Body::Statistics, ..waits };
    way.update.offered(&late, Outcome::Queued);
    assert_eq!(way.update.told(&late), None, "it was not begun");
    assert!(way.update.told(&goes).is_some());
    assert!(way.update.told(&waits).is_some());
    assert_eq!((way.of("held"), way.of("queue")), (Some(0), Some(0)));
}

#[test]
fn without_the_kernel_s_time_what_begins_with_it_is_absent_and_not_zero() {
    let mut way = Way::new();
    let entry = quote(7, 5);
    way.begin(None, &entry, Outcome::Queued);
    let trace = way.update.told(&entry).expect("it is the one");
    way.flush.heard(&entry, &trace);
    way.flush.written(1, &entry);
    way.flush.flushed(1, true);
    let names: Vec<_> = way.report(false).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["update", "queue", "held", "flush", "socket", "inside"]);
    assert_eq!(way.of("total"), None);
}

#[test]
fn after_a_step_of_the_clock_back_messages_are_timed_again() {
    const HOUR: i64 = 3_600_000_000_000;
    const BEGIN: u64 = 2 * HOUR.unsigned_abs();
    const SECOND: u64 = 1_000_000_000;
    for step in [-HOUR, 0, HOUR] {
        WALL.set(0);
        let mut sampler = sampler(true);
        // A million datagrams a second, each of which the kernel had 400 ns before.
        let mut timed_from = |begin: u64| {
            let one = |number: u64| {
                set(begin + number * 1_000);
                sampler.datagram(Nanos(wall().0 - 400), now());
                u64::from(sampler.update(now()).is_some())
            };
            (0..1_000_000).map(one).sum::<u64>()
        };
        let before = timed_from(BEGIN);
        WALL.set(step);
        let after = timed_from(BEGIN + SECOND);
        for count in [before, after] {
            assert!((5_000..40_000).contains(&count), "{step}: {before}, {after}");
        }
        let receive = sampler.reader().snapshot();
        assert_eq!((receive.count(), receive.max_ns()), (before + after, 400), "{step}");
    }
    WALL.set(0);
}

#[test]
fn what_is_lost_unwanted_held_by_a_subscription_or_not_taken_ends_and_makes_room() {
    let mut way = Way::new();
    let entry = quote(7, 5);
    way.begin(None, &entry, Outcome::Unwanted);
    assert_eq!(way.update.told(&entry), None);
    way.begin(None, &entry, Outcome::Queued);
    assert_eq!(way.update.told(&gap(7, 5)), None, "it is told as lost");
    assert_eq!(way.update.told(&entry), None);
    for (is_written, has_more, is_all) in
        [(false, false, true), (true, false, false), (false, true, true)]
    {
        way.begin(None, &entry, Outcome::Queued);
        let trace = way.update.told(&entry).expect("it is the one");
        way.flush.heard(&entry, &trace);
        if is_written {
            way.flush.written(1, &entry);
        }
        way.flush.end_of_telling(has_more);
        way.flush.flushed(1, is_all);
        assert_eq!(way.flush.heard.is_some(), has_more);
    }
    assert_eq!(way.of("socket"), None);
    // A message not sent in one cycle is sent in the next.
    way.flush.written(1, &entry);
    way.flush.flushed(1, true);
    assert!(way.of("socket").is_some());
}

#[test]
fn one_that_is_never_told_does_not_stay_for_ever() {
    let mut way = Way::new();
    way.begin(None, &quote(7, 5), Outcome::Queued);
    way.begin(None, &quote(8, 6), Outcome::Queued);
    assert!(way.update.told(&quote(8, 6)).is_none(), "one at a time");
    way.update.begin(TimedMessage::default());
    set(1_300 + PATIENCE + 1);
    way.update.updated();
    way.update.offered(&quote(9, 7), Outcome::Queued);
    assert!(way.update.told(&quote(9, 7)).is_some());
}

#[test]
fn a_datagram_s_first_update_is_timed_and_no_other_packet_s() {
    let mut sampler = sampler(true);
    set(1_000);
    sampler.datagram(Nanos(600), Nanos(900));
    let begun = TimedMessage { in_kernel: Some(Nanos(400)), received: Nanos(1_000) };
    assert_eq!(sampler.update(Nanos(900)), Some(begun));
    assert_eq!(sampler.update(Nanos(900)), None);
    sampler.datagram(Nanos(600), Nanos(900));
    sampler.end_of_packet();
    assert_eq!(sampler.update(Nanos(900)), None, "it had none of its own");
    assert_eq!(sampler.reader().snapshot().count(), 2);
    assert_eq!(sampler.reader().snapshot().max_ns(), 400);
}

/// Sends messages at intervals of `step` nanoseconds; returns the number of timed ones.
fn timed(sampler: &mut Sampler, begin: u64, step: u64, count: u64) -> u64 {
    let at = |number| begin + number * step;
    let one = |number| {
        set(at(number));
        u64::from(sampler.update(Nanos(at(number))).is_some())
    };
    (0..count).map(one).sum()
}

#[test]
fn few_of_a_fast_feed_are_timed_and_all_of_a_slow_one() {
    let mut sampler = sampler(false);
    // A million a second, for a second.
    let fast = timed(&mut sampler, 1_000_000_000, 1_000, 1_000_000);
    assert!((5_000..40_000).contains(&fast), "{fast}");
    // Ten a second after that: timed immediately, not after a period of the fast feed.
    let slow = timed(&mut sampler, 3_000_000_000, 100_000_000, 100);
    assert!(slow >= 99, "{slow}");
}

#[test]
fn every_place_in_a_batch_of_64_is_timed() {
    let mut sampler = sampler(false);
    let mut places = [0; 64];
    for number in 0..2_000_000_u64 {
        // A whole batch arrives at once, every 64 µs.
        let at = Nanos(1_000_000_000 + number / 64 * 64_000);
        set(at.0);
        places[(number % 64) as usize] += u32::from(sampler.update(at).is_some());
    }
    let (least, most) = (places.iter().min().expect("64"), places.iter().max().expect("64"));
    assert!(*least > 0 && most / least < 4, "{places:?}");
}
