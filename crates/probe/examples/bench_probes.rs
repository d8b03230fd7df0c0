//! What a probe costs: prints one JSON line with ns per operation.
//!
//! Each figure is the minimum, the 10th percentile and the median over 4,000 batches of 1,000
//! operations, the loop included. Rings are emptied between batches, outside the time. These are
//! figures of a warm loop; what probes cost an order is told by the A/B with the feature `off`.
//!
//! `cargo run --release -p weir-probe --example bench_probes`

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use weir_probe::clock::ClockHealth;
use weir_probe::cores::{self, CoreError};
use weir_probe::hiccup::{pin_to_core, usable_cores};
use weir_probe::ring::{RING_RECORDS_DEFAULT, heap_ring};
use weir_probe::{
    ClockWriter, Consumer, Drain, DrainOptions, Histogram, Point, Producer, Record, Recorder,
    RingDir, TraceIds, Tsc,
};

const BATCHES: usize = 4_000;
const OPERATIONS: usize = 1_000;

/// ns per operation of each batch, sorted.
struct Figures(Vec<f64>);

impl Figures {
    fn at(&self, share: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * share) as usize]
    }

    fn json(&self, name: &str) -> String {
        let (min, p10, p50) = (self.at(0.0), self.at(0.1), self.at(0.5));
        format!("\"{name}\":{{\"min\":{min:.2},\"p10\":{p10:.2},\"p50\":{p50:.2}}}")
    }
}

/// Times `operation`; `between` runs after each batch, outside the time.
fn measure<S>(
    state: &mut S,
    mut operation: impl FnMut(&mut S),
    mut between: impl FnMut(&mut S),
) -> Figures {
    let mut figures = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let began = Instant::now();
        for _ in 0..OPERATIONS {
            operation(state);
        }
        figures.push(began.elapsed().as_nanos() as f64 / OPERATIONS as f64);
        between(state);
    }
    figures.sort_by(f64::total_cmp);
    Figures(figures)
}

struct Probe {
    recorder: Recorder,
    consumer: Option<Consumer>,
    ids: TraceIds,
}

fn probe(recorder: Recorder, consumer: Option<Consumer>) -> Figures {
    let mut state = Probe { recorder, consumer, ids: TraceIds::new(1) };
    // The optimiser must not learn whether the recorder is enabled.
    state = black_box(state);
    measure(
        &mut state,
        |probe| {
            let trace = probe.ids.next();
            black_box(probe.recorder.record(black_box(trace), Point::T3));
        },
        |probe| {
            if let Some(consumer) = &mut probe.consumer {
                let stored = consumer.poll(usize::MAX, |record| {
                    black_box(record);
                });
                let expected = if probe.recorder.is_enabled() { OPERATIONS } else { 0 };
                assert!(stored == expected, "{stored} records of a batch were stored");
            }
        },
    )
}

fn histogram() -> Figures {
    let mut state = (Histogram::new(), 1_u64);
    measure(
        &mut state,
        |(histogram, value)| {
            *value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            histogram.record(*value >> 44);
        },
        |_| (),
    )
}

/// ns per record of a drain that reassembles orders from three rings, 100 orders under way.
fn drain(clock: ClockWriter) -> (Figures, ClockHealth) {
    let mut drain = Drain::new(clock, DrainOptions::default());
    let mut rings: Vec<Producer> = Vec::new();
    for name in ["gateway", "partition", "reply"] {
        let (producer, consumer) = heap_ring(RING_RECORDS_DEFAULT).expect("a power of two");
        drain.add_ring(name, consumer);
        rings.push(producer);
    }
    let mut figures = Vec::with_capacity(BATCHES);
    let mut ids = TraceIds::new(1);
    for _ in 0..BATCHES {
        let orders: Vec<_> = (0..OPERATIONS / Point::COUNT).map(|_| ids.next()).collect();
        for point in Point::ALL {
            let ring = match point {
                Point::Ingress | Point::T0 => 0,
                Point::T1 | Point::T2 | Point::T3 | Point::T4 | Point::T5 => 1,
                _ => 2,
            };
            for trace in &orders {
                rings[ring].push(Record::at(*trace, point, Tsc::now()));
            }
        }
        let began = Instant::now();
        let records = drain.do_work();
        figures.push(began.elapsed().as_nanos() as f64 / records as f64);
        assert!(records == OPERATIONS, "{records} records");
    }
    let report = drain.finish();
    assert!(report.counts.complete == (BATCHES * OPERATIONS / Point::COUNT) as u64);
    figures.sort_by(f64::total_cmp);
    (Figures(figures), report.clock)
}

/// The counters' greatest offset bound over the cores, ns, as JSON.
fn core_json(clock: &ClockWriter) -> String {
    match cores::compare(&usable_cores(), 2_000) {
        Ok(pairs) => {
            let worst = pairs.iter().map(|pair| pair.bound_ticks()).max().unwrap_or(0);
            let bound_ns = clock.calibration().ticks_to_ns(worst.unsigned_abs());
            format!("{{\"agree\":true,\"bound_ns\":{bound_ns}}}")
        }
        Err(error @ CoreError::Unsynchronised(_)) => {
            format!("{{\"agree\":false,\"why\":\"{error}\"}}")
        }
        Err(error) => format!("{{\"agree\":null,\"why\":\"{error}\"}}"),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut clock = ClockWriter::start()?;
    let cores = core_json(&clock);
    // On the last core: the first one serves most interrupts.
    let pinned = usable_cores().last().is_some_and(|core| pin_to_core(*core).is_ok());
    let _ = clock.reanchor();
    let hz = clock.calibration().hz();

    let tsc = measure(&mut (), |()| _ = black_box(Tsc::now()), |()| ());
    let (producer, consumer) = heap_ring(RING_RECORDS_DEFAULT)?;
    let heap = probe(Recorder::new(producer), Some(consumer));
    let mut rings = RingDir::create_in(Path::new("/dev/shm"))?;
    let (producer, consumer) = rings.ring("bench", RING_RECORDS_DEFAULT)?;
    let shared = probe(Recorder::new(producer), Some(consumer));
    drop(rings);
    let disabled = probe(Recorder::disabled(), None);
    let histogram = histogram();
    let (drain, health) = drain(clock);

    let figures = [
        tsc.json("tsc_read_ns"),
        heap.json("point_heap_ns"),
        shared.json("point_shm_ns"),
        disabled.json("point_disabled_ns"),
        histogram.json("histogram_record_ns"),
        drain.json("drain_record_ns"),
    ];
    let off = cfg!(feature = "off");
    println!(
        "{{\"bench\":\"probes\",\"off\":{off},\"pinned\":{pinned},\"tsc_hz\":{hz},\
         \"batches\":{BATCHES},\"operations\":{OPERATIONS},\"cores\":{cores},\
         \"anchor_error_ns\":{},{}}}",
        health.error_ns,
        figures.join(",")
    );
    Ok(())
}
