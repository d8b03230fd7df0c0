//! Each planted bug of the comparison of logs is found by the tests made for it. Needs the feature
//! `planted`.

use std::panic::catch_unwind;

use weir_delivery::plant::{self, Plant};

use crate::probes;

#[test]
fn every_planted_bug_of_compared_logs_is_found() {
    let tests: [(Plant, fn()); 4] = [
        (
            Plant::ForeignReplicaServes,
            probes::a_replica_of_another_log_is_set_aside_until_it_is_of_the_masters,
        ),
        (
            Plant::MasterJudgedByReplica,
            probes::a_reader_that_another_exchange_served_begins_again_when_the_master_is_heard_of,
        ),
        (
            Plant::ReplicasKeepFirstLog,
            probes::replicas_without_a_master_take_the_router_over_to_a_new_log,
        ),
        (Plant::NoLogIsAnother, probes::stores_of_no_log_are_not_compared),
    ];
    for (plant, test) in tests {
        plant::set(Some(plant));
        let found = catch_unwind(test);
        plant::set(None);
        assert!(found.is_err(), "{plant:?}");
    }
}
