//! Leases of sessions whose choice the log held at the partition's start.

use weir_link::message::LogId;
use weir_link::{PartitionEnd, PartitionTerms};
use weir_types::{Nanos, PartitionId, SessionId, Switch};
use weir_wire::Command;
use weir_wire::reference::SessionLost;

const SECOND: u64 = 1_000_000_000;

/// A start that took longer than the lease lost all sessions at its first look.
#[test]
fn the_lease_of_a_recovered_choice_runs_from_the_first_cycle() {
    let terms = PartitionTerms {
        partition_id: PartitionId(1),
        log_id: LogId([1; 16]),
        incarnation: 1,
        lease: Nanos(10 * SECOND),
        pulse: Nanos(SECOND),
        commands_max: 4,
    };
    let session_id = SessionId(7);
    let mut end = PartitionEnd::new(terms, [session_id]);
    for (at, is_lost) in [(900, false), (909, false), (910, true)] {
        assert!(end.tick(Nanos(at * SECOND)).is_empty());
        let lost = SessionLost { session_id, cancel_on_disconnect: Switch::On };
        let lost = is_lost.then_some(Command::SessionLost(lost));
        assert_eq!(end.next_command().map(|next| next.command), lost, "at {at} s");
    }
}
