//! `weir-bench probe-cost`: the cost of a probe point alone, in ns per operation (see
//! `weir_probe::cost`).

use std::path::Path;

use weir_probe::thread::{pin_to_core, usable_cores};
use weir_probe::{ClockWriter, cost};

const BATCHES: usize = 4_000;

/// Runs the benchmark.
///
/// # Errors
/// The time-stamp counter or shared memory cannot be used.
pub fn run() -> anyhow::Result<()> {
    let mut clock = ClockWriter::start()?;
    let cores = cost::cores_json(&clock)?;
    // The last core, because the first one serves most interrupts.
    let pinned = usable_cores().last().is_some_and(|core| pin_to_core(*core).is_ok());
    let cost = cost::measure(BATCHES, Path::new("/dev/shm"))?;
    let _ = clock.reanchor();
    println!(
        "{{\"bench\":\"probe_cost\",\"pinned\":{pinned},\"tsc_hz\":{},\
         \"anchor_error_ns\":{},\"cores\":{cores},\"batches\":{BATCHES},\"operations\":{},\
         \"figures\":{}}}",
        clock.calibration().hz(),
        clock.health().error_ns,
        cost::BATCH_OPERATIONS,
        cost.to_json()
    );
    Ok(())
}
