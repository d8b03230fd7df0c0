//! Each planted bug of the numbering is found by the tests.

use std::panic::catch_unwind;

use crate::plant::{self, Plant};

/// The tests, by their names.
const TESTS: &[(&str, fn())] = &[
    ("restart", super::a_sender_that_begins_again_in_its_session_is_no_repetition),
    (
        "heartbeat",
        super::a_heartbeat_is_enough_for_a_restart_and_none_before_the_first_message_is_one,
    ),
    (
        "lost start",
        super::a_restart_whose_beginning_is_lost_contradicts_until_three_packets_show_it,
    ),
    ("position", super::a_position_that_messages_cannot_have_contradicts),
    ("foreign", super::a_foreign_session_does_not_shut_the_true_one_out),
    (
        "ended",
        super::an_ended_session_does_not_come_back_and_late_packets_of_a_line_do_not_bring_one_back,
    ),
    ("reset", super::a_reset_far_in_the_future_does_not_freeze_the_channel),
    ("resets", super::resets_far_in_the_future_one_after_the_other_do_not_freeze_the_channel),
    ("forged", super::a_session_that_was_forged_before_it_began_is_followed_when_no_other_comes),
    ("any", super::verdicts_are_those_of_the_model_for_any_packets),
    ("senders", super::verdicts_are_those_of_the_model_for_senders_that_restart_lose_and_repeat),
    ("honest", super::an_honest_sender_on_two_lines_is_never_doubted_and_each_restart_is_told_once),
];

/// All but those of channels, recognition and codecs, which have their own tests.
fn of_numbering() -> impl Iterator<Item = Plant> {
    let others = [
        Plant::HeaderIsEnough,
        Plant::BestOutlivesRun,
        Plant::ConditionOutlivesRun,
        Plant::ChannelLostUnbounded,
    ];
    Plant::ALL.iter().copied().filter(move |plant| !others.contains(plant))
}

#[test]
fn every_planted_bug_is_found() {
    // Failed assertions are the expected result.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found_by = |plant: Plant| -> Vec<&str> {
        plant::set(Some(plant));
        let finds = |test: &&(&str, fn())| catch_unwind(test.1).is_err();
        let found = TESTS.iter().filter(finds).map(|test| test.0).collect();
        plant::set(None);
        found
    };
    let found: Vec<_> = of_numbering().map(|plant| (plant, found_by(plant))).collect();
    std::panic::set_hook(hook);
    println!("| planted | found by |\n| --- | --- |");
    for (plant, by) in &found {
        println!("| {plant:?} | {} |", by.join(", "));
    }
    let missed: Vec<Plant> =
        found.iter().filter(|found| found.1.is_empty()).map(|found| found.0).collect();
    assert!(missed.is_empty(), "{missed:?}");
}
