//! Each planted bug of subscribing and leaving is found by a test.

use std::panic::catch_unwind;

use weir_market::plant::{self, Plant};

use crate::{behaviour, policies, random_sessions, sessions};

/// The tests, by their names.
const TESTS: &[(&str, fn())] = &[
    (
        "begun and ended",
        sessions::a_subscription_to_everything_is_begun_and_ended_in_steps_of_one_instrument,
    ),
    ("gone", sessions::a_subscriber_that_goes_leaves_in_steps_and_gets_nothing_meanwhile),
    ("turns", sessions::sessions_take_turns_however_much_one_of_them_asks_for),
    (
        "session's",
        sessions::a_session_that_would_have_too_many_slots_is_told_the_budget_and_the_need,
    ),
    ("node's", sessions::all_sessions_together_have_no_more_slots_than_the_node),
    ("growth", sessions::a_subscription_that_grows_with_the_market_keeps_to_the_budget),
    ("later", sessions::an_instrument_that_appears_later_costs_a_step_for_each_subscription),
    ("meanwhile", sessions::a_definition_that_comes_while_a_subscription_begins_is_included_once),
    (
        "nothing follows",
        sessions::nothing_follows_the_end_of_a_subscription_whose_messages_are_queued,
    ),
    ("again", sessions::a_subscriber_that_comes_again_begins_behind_its_earlier_interest),
    ("rests", sessions::a_session_rests_after_work_that_could_not_be_divided),
    ("queue", sessions::a_queue_does_not_grow_with_subscriptions_that_end_unread),
    ("late", policies::a_second_subscriber_begins_with_the_latest_state),
    (
        "queued status",
        behaviour::a_status_that_is_queued_is_told_to_a_new_subscriber_once_and_as_it_is,
    ),
    ("random", random_sessions::from_one_seed),
];

#[test]
fn every_planted_bug_is_found() {
    // Failed assertions are the expected result.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found_by = |plant: Option<Plant>| -> Vec<&str> {
        plant::set(plant);
        let finds = |test: &&(&str, fn())| catch_unwind(test.1).is_err();
        let found = TESTS.iter().filter(finds).map(|test| test.0).collect();
        plant::set(None);
        found
    };
    let without = found_by(None);
    // The other one is of the publication, whose own tests find it.
    let of_conflation = Plant::ALL.iter().filter(|one| **one != Plant::CauseOfTheChangeBefore);
    let found: Vec<_> = of_conflation.map(|plant| (*plant, found_by(Some(*plant)))).collect();
    std::panic::set_hook(hook);
    println!("| planted | found by |\n| --- | --- |");
    for (plant, by) in &found {
        println!("| {plant:?} | {} |", by.join(", "));
    }
    assert!(without.is_empty(), "without a bug: {without:?}");
    let missed: Vec<Plant> =
        found.iter().filter(|found| found.1.is_empty()).map(|found| found.0).collect();
    assert!(missed.is_empty(), "{missed:?}");
}
