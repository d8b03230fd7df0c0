//! Property test: any loss, duplication and reordering of two lines and of answers, against the
//! model.

mod lossy;

use lossy::{Faults, Outcome, Rig};
use proptest::prelude::*;
use weir_feed::line::{LateJoin, State};

const CALM: Faults = Faults {
    seed: 1,
    message_count: 200_000,
    loss: [10_000, 10_000],
    burst_max: 1,
    duplication: 10_000,
    delay_max: 200,
    answer_loss: Some(10_000),
    has_snapshots: false,
    held_packets_max: 4_096,
    missed: 0,
    late_join: LateJoin::FromStart,
};

fn run(faults: Faults) -> Outcome {
    Rig::new(faults).run()
}

#[test]
fn two_lossy_lines_with_a_server_lose_nothing_of_200_000_messages() {
    let outcome = run(CALM);
    assert_eq!((outcome.counts.lost, outcome.counts.delivered), (0, 200_000));
    assert_eq!(outcome.state, State::Ended);
    assert!(outcome.counts.requests > 0, "both lines lost the same at least once");
    let [a, b, again] = outcome.counts.lines;
    assert!(a.first > 0 && b.first > 0 && again.first > 0);
    for line in [a, b] {
        assert!((1_000..4_000).contains(&line.lost), "of 200,000 about one in a hundred: {line:?}");
    }
    assert_eq!(a.first + b.first + again.first, 200_000);
}

#[test]
fn without_a_server_what_both_lines_lost_is_told_and_all_else_handed_on() {
    let outcome = run(Faults { answer_loss: None, burst_max: 20, seed: 2, ..CALM });
    assert!(outcome.counts.lost > 0 && outcome.counts.gaps_given_up > 0);
    assert_eq!(outcome.counts.delivered + outcome.counts.lost, 200_000);
    assert_eq!(outcome.state, State::Stale);
}

#[test]
fn snapshots_heal_what_was_lost() {
    let faults = Faults { answer_loss: None, burst_max: 20, has_snapshots: true, ..CALM };
    let outcome = run(Faults { seed: 3, ..faults });
    assert!(outcome.snapshots > 0 && outcome.counts.recoveries == outcome.snapshots);
    assert!(outcome.counts.lost > 0 && outcome.skipped_by_snapshots > 0);
    assert_eq!(outcome.state, State::Ended);
}

#[test]
fn a_late_listener_gets_all_from_the_start_or_goes_on_from_here() {
    let late = Faults { missed: 3_000, message_count: 20_000, ..CALM };
    let from_start = run(late);
    assert_eq!((from_start.counts.lost, from_start.counts.delivered), (0, 20_000));
    let from_here = run(Faults { late_join: LateJoin::FromHere, ..late });
    assert!(from_here.counts.lost >= 3_000 - 12);
    assert_eq!(from_here.counts.delivered + from_here.counts.lost, 20_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_lost_doubled_or_late_nothing_is_handed_on_twice_or_left_out_in_silence(
        seed: u64,
        message_count in 1_u64..3_000,
        loss in [0_u64..500_000, 0_u64..1_000_000],
        burst_max in 1_u64..30,
        duplication in 0_u64..300_000,
        delay_max in 1_u64..2_000,
        answer_loss in proptest::option::of(0_u64..900_000),
        has_snapshots: bool,
        held_packets_max in 1_u32..200,
        missed in 0_u64..200,
        is_from_start: bool,
    ) {
        let late_join = if is_from_start { LateJoin::FromStart } else { LateJoin::FromHere };
        let missed = missed.min(message_count / 2);
        run(Faults {
            seed, message_count, loss, burst_max, duplication, delay_max, answer_loss,
            has_snapshots, held_packets_max, missed, late_join,
        });
    }
}
