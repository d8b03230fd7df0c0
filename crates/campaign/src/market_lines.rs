//! `market-lines`: sends messages over two lines with random loss, duplication and reordering, and
//! compares every message with the model.

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../../market/tests/lossy/mod.rs"]
mod lossy;

use std::process::ExitCode;

use lossy::{Faults, Rig};
use weir_feed::line::{LateJoin, State};

/// Options of `weir-campaign market-lines`.
#[derive(Debug, clap::Args)]
pub(crate) struct LinesArgs {
    /// Messages to send.
    #[arg(default_value_t = 10_000_000)]
    message_count: u64,
    /// Seed of the faults.
    #[arg(default_value_t = 1)]
    seed: u64,
}

/// Runs the campaign; a difference from the model is a panic.
pub(crate) fn run(args: &LinesArgs) -> ExitCode {
    let LinesArgs { message_count, seed } = *args;
    let faults = Faults {
        seed,
        message_count,
        loss: [20_000, 20_000],
        burst_max: 8,
        duplication: 10_000,
        delay_max: 400,
        answer_loss: Some(100_000),
        has_snapshots: false,
        held_packets_max: 4_096,
        missed: 0,
        late_join: LateJoin::FromStart,
    };
    let with_server = Rig::new(faults).run();
    let without = Rig::new(Faults { answer_loss: None, has_snapshots: true, ..faults }).run();
    assert_eq!((with_server.state, without.state), (State::Ended, State::Ended), "all healed");
    let (first, second) = (with_server.counts, without.counts);
    println!(
        "{{\"bench\": \"market-lossy-lines\", \"messages\": {message_count}, \"seed\": {seed}, \
         \"with_server\": {{\"delivered\": {}, \"lost\": {}, \"gaps\": {}, \"requests\": {}, \
         \"retries\": {}, \"held_peak\": {}}}, \"with_snapshots\": {{\"delivered\": {}, \
         \"lost\": {}, \"skipped_by_snapshots\": {}, \"snapshots\": {}}}}}",
        first.delivered,
        first.lost,
        first.gaps,
        first.requests,
        first.retries,
        first.held_peak,
        second.delivered,
        second.lost,
        without.skipped_by_snapshots,
        without.snapshots,
    );
    ExitCode::SUCCESS
}
