//! Each planted bug of a source's stream is found by a named test.

use weir_delivery::plant::{self, Plant};

use crate::{lies, numbers, room};

#[test]
fn every_planted_bug_of_a_stream_is_found() {
    let cases: [(Plant, fn()); 15] = [
        (
            Plant::NumbersUnbounded,
            lies::numbers_at_the_ends_of_their_types_are_refused_by_their_field,
        ),
        (
            Plant::EpochUnbounded,
            lies::numbers_at_the_ends_of_their_types_are_refused_by_their_field,
        ),
        (Plant::RepeatsNotCompared, lies::a_batch_that_comes_again_with_other_rows_is_refused),
        (Plant::RoomForOneRow, room::a_batch_without_room_for_all_of_its_rows_changes_nothing),
        (
            Plant::JumpOfRowsMissed,
            crate::a_record_number_far_ahead_refuses_its_batch_and_changes_nothing,
        ),
        (
            Plant::PlacesForgotten,
            lies::a_store_that_failed_asks_for_a_resend_in_a_later_epoch_and_honours_no_token,
        ),
        (
            Plant::TokensHonoured,
            lies::a_store_that_failed_asks_for_a_resend_in_a_later_epoch_and_honours_no_token,
        ),
        (
            Plant::HighestForgotten,
            lies::a_store_that_failed_asks_for_a_resend_in_a_later_epoch_and_honours_no_token,
        ),
        (
            Plant::FailureNotKept,
            lies::a_start_honours_no_token_from_before_a_failure_and_the_resend_behind_it,
        ),
        (Plant::EndOfOtherOverwritten, numbers::an_end_stands_beside_a_row_of_another_order),
        (Plant::NumbersGivenAway, numbers::a_number_stays_its_orders_over_all_epochs),
        (Plant::NumbersOfDeletedFree, numbers::a_number_stays_its_orders_over_all_epochs),
        (Plant::VoidNumbersKept, numbers::a_number_of_the_disowned_history_may_go_to_another_order),
        (Plant::NumbersStayFree, numbers::a_number_of_the_disowned_history_may_go_to_another_order),
        (
            Plant::ValidPlaceForgotten,
            numbers::a_disowned_history_is_disowned_in_snapshots_and_after_a_torn_resend,
        ),
    ];
    let planted: Vec<Plant> = cases.iter().map(|(bug, _)| *bug).collect();
    // Those before are of routers and desks.
    assert_eq!(planted, Plant::ALL[Plant::NumbersUnbounded as usize..]);
    for (bug, test) in cases {
        test();
        plant::set(Some(bug));
        let found = std::panic::catch_unwind(test);
        plant::set(None);
        assert!(found.is_err(), "{bug:?} is not found");
    }
}
