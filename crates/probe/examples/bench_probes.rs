//! Measures the cost of a probe: prints one JSON line, ns per operation (see `weir_probe::cost`).
//!
//! `cargo run --release -p weir-probe --example bench_probes`, with `--features off` for
//! comparison.

use std::path::Path;

use weir_probe::thread::{pin_to_core, usable_cores};
use weir_probe::{ClockWriter, cost};

const BATCHES: usize = 4_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut clock = ClockWriter::start()?;
    let cores = cost::cores_json(&clock)?;
    // The last core, because the first one serves most interrupts.
    let pinned = usable_cores().last().is_some_and(|core| pin_to_core(*core).is_ok());
    let cost = cost::measure(BATCHES, Path::new("/dev/shm"))?;
    let _ = clock.reanchor();
    println!(
        "{{\"bench\":\"probe_cost\",\"off\":{},\"pinned\":{pinned},\"tsc_hz\":{},\
         \"anchor_error_ns\":{},\"cores\":{cores},\"batches\":{BATCHES},\"operations\":{},\
         \"figures\":{}}}",
        cfg!(feature = "off"),
        clock.calibration().hz(),
        clock.health().error_ns,
        cost::BATCH_OPERATIONS,
        cost.to_json()
    );
    Ok(())
}
