//! The cost of the probes themselves, measured on this machine.
//!
//! A report about nanoseconds must state the share that the probes add. Each figure is sorted over
//! batches of 1,000 operations, including the loop; rings are emptied between batches, untimed. The
//! figures describe a warm loop on one thread. The cost of probes to an order comes from comparing
//! two builds, one of them with the feature `off`.

use std::hint::black_box;
use std::io;
use std::path::Path;
use std::time::Instant;

use crate::clock::{ClockWriter, Tsc};
use crate::drain::{Drain, DrainOptions};
use crate::histogram::Histogram;
use crate::point::Point;
use crate::recorder::Recorder;
use crate::ring::{
    Consumer, Producer, RING_RECORDS_DEFAULT, Record, RingError, TraceIds, heap_ring,
};
use crate::ring_dir::RingDir;

/// The number of operations in a batch.
pub const BATCH_OPERATIONS: usize = 1_000;

/// Nanoseconds per operation, one figure per batch, in ascending order.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures(Vec<f64>);

impl Figures {
    fn sorted(mut figures: Vec<f64>) -> Figures {
        figures.sort_by(f64::total_cmp);
        Figures(figures)
    }

    /// Returns the figure that a share (0 to 1) of the batches did not exceed, ns.
    #[must_use]
    pub fn at(&self, share: f64) -> f64 {
        let index = ((self.0.len() - 1) as f64 * share.clamp(0.0, 1.0)) as usize;
        self.0[index]
    }
}

/// The cost of each part of the probes.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeCost {
    /// One bare read of the counter.
    pub tsc_read: Figures,
    /// One point into a ring on the heap.
    pub point_heap: Figures,
    /// One point into a ring in a shared file.
    pub point_shm: Figures,
    /// One point of a disabled recorder.
    pub point_disabled: Figures,
    /// One value into a histogram.
    pub histogram_record: Figures,
    /// One record taken by the drain, over orders of ten points from three rings.
    pub drain_record: Figures,
}

/// Measures the costs; 4,000 batches take a third of a second. Ring files go to a separate
/// directory in `shm_base`, usually `/dev/shm`.
///
/// # Errors
///
/// Returns [`RingError`] if there is no room for a ring.
///
/// # Panics
///
/// Panics if `batches` is 0, or if a record is lost, which would make the figures meaningless.
pub fn measure(batches: usize, shm_base: &Path) -> Result<ProbeCost, RingError> {
    assert!(batches > 0, "no batch, no figure");
    let (producer, consumer) = heap_ring(RING_RECORDS_DEFAULT)?;
    let point_heap = point(batches, Recorder::new(producer), Some(consumer));
    let mut rings = RingDir::create_in(shm_base)?;
    let (producer, consumer) = rings.ring("cost", RING_RECORDS_DEFAULT)?;
    let point_shm = point(batches, Recorder::new(producer), Some(consumer));
    Ok(ProbeCost {
        tsc_read: timed(batches, &mut (), |()| _ = black_box(Tsc::now()), |()| ()),
        point_heap,
        point_shm,
        point_disabled: point(batches, Recorder::disabled(), None),
        histogram_record: histogram(batches),
        drain_record: drain(batches)?,
    })
}

impl ProbeCost {
    /// Returns the figures as one JSON object: minimum, 10th percentile and median of each, ns.
    #[must_use]
    pub fn to_json(&self) -> String {
        let figures = [
            ("tsc_read_ns", &self.tsc_read),
            ("point_heap_ns", &self.point_heap),
            ("point_shm_ns", &self.point_shm),
            ("point_disabled_ns", &self.point_disabled),
            ("histogram_record_ns", &self.histogram_record),
            ("drain_record_ns", &self.drain_record),
        ];
        let figures = figures.map(|(name, figures)| {
            let (min, p10, p50) = (figures.at(0.0), figures.at(0.1), figures.at(0.5));
            format!("\"{name}\":{{\"min\":{min:.2},\"p10\":{p10:.2},\"p50\":{p50:.2}}}")
        });
        format!("{{{}}}", figures.join(","))
    }
}

/// Times `operation`; `between` runs after each batch, untimed.
fn timed<S>(
    batches: usize,
    state: &mut S,
    mut operation: impl FnMut(&mut S),
    mut between: impl FnMut(&mut S),
) -> Figures {
    let mut figures = Vec::with_capacity(batches);
    for _ in 0..batches {
        let began = Instant::now();
        for _ in 0..BATCH_OPERATIONS {
            operation(state);
        }
        figures.push(began.elapsed().as_nanos() as f64 / BATCH_OPERATIONS as f64);
        between(state);
    }
    Figures::sorted(figures)
}

struct Probe {
    recorder: Recorder,
    consumer: Option<Consumer>,
    ids: TraceIds,
}

fn point(batches: usize, recorder: Recorder, consumer: Option<Consumer>) -> Figures {
    // Keeps the optimiser from knowing whether the recorder is enabled.
    let mut probe = black_box(Probe { recorder, consumer, ids: TraceIds::new(1) });
    let expected = if probe.recorder.is_enabled() { BATCH_OPERATIONS } else { 0 };
    timed(
        batches,
        &mut probe,
        |probe| {
            let trace = probe.ids.next();
            black_box(probe.recorder.record(black_box(trace), Point::T3));
        },
        |probe| {
            if let Some(consumer) = &mut probe.consumer {
                let stored = consumer.poll(usize::MAX, |record| _ = black_box(record));
                assert!(stored == expected, "{stored} records of a batch were stored");
            }
        },
    )
}

fn histogram(batches: usize) -> Figures {
    let mut state = (Histogram::new(), 1_u64);
    let record = |(histogram, value): &mut (Histogram, u64)| {
        *value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        histogram.record(*value >> 44);
    };
    timed(batches, &mut state, record, |_| ())
}

fn drain(batches: usize) -> Result<Figures, RingError> {
    let clock = ClockWriter::simulated(1_000_000_000, 0);
    let mut drain = Drain::new(clock, DrainOptions::default());
    let mut rings: Vec<Producer> = Vec::new();
    for name in ["gateway", "partition", "reply"] {
        let (producer, consumer) = heap_ring(RING_RECORDS_DEFAULT)?;
        drain.add_ring(name, consumer);
        rings.push(producer);
    }
    let mut ids = TraceIds::new(1);
    let mut figures = Vec::with_capacity(batches);
    for _ in 0..batches {
        stamp_orders(&mut rings, &mut ids);
        let began = Instant::now();
        let records = drain.do_work();
        figures.push(began.elapsed().as_nanos() as f64 / BATCH_OPERATIONS as f64);
        assert!(records == BATCH_OPERATIONS, "{records} records of a batch were drained");
    }
    let complete = drain.finish().counts.complete;
    let expected = (batches * BATCH_OPERATIONS / Point::COUNT) as u64;
    assert!(complete == expected, "{complete} orders of {expected} were complete");
    Ok(Figures::sorted(figures))
}

/// Stamps a batch of orders that pass the points in parallel, like the orders of a busy host.
fn stamp_orders(rings: &mut [Producer], ids: &mut TraceIds) {
    let orders = BATCH_OPERATIONS / Point::COUNT;
    let traces: Vec<_> = (0..orders).map(|_| ids.next()).collect();
    for point in Point::ALL {
        let ring = match point {
            Point::Ingress | Point::T0 => 0,
            Point::T1 | Point::T2 | Point::T3 | Point::T4 | Point::T5 => 1,
            Point::T6 | Point::T7 | Point::Egress => 2,
        };
        for trace in &traces {
            rings[ring].push(Record::at(*trace, point, Tsc::now()));
        }
    }
}

/// Returns the agreement of the usable cores' counters as JSON.
///
/// # Errors
///
/// Fails when a core available to this process cannot be used.
pub fn cores_json(clock: &ClockWriter) -> io::Result<String> {
    use crate::cores::{CoreError, compare};
    match compare(&crate::thread::usable_cores(), 2_000) {
        Ok(pairs) => {
            let worst = pairs.iter().map(|pair| pair.bound_ticks()).max().unwrap_or(0);
            let bound_ns = clock.calibration().ticks_to_ns(worst.unsigned_abs());
            Ok(format!("{{\"agree\":true,\"bound_ns\":{bound_ns}}}"))
        }
        Err(CoreError::Unsynchronised(pair)) => {
            let (first, second, ticks) = (pair.first, pair.second, pair.offset_ticks());
            Ok(format!("{{\"agree\":false,\"cores\":[{first},{second}],\"ticks\":{ticks}}}"))
        }
        Err(CoreError::Pin { source, .. }) => Err(source),
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_measured_and_figures_rise() {
        let cost = measure(3, &std::env::temp_dir()).unwrap();
        let parts = [
            &cost.tsc_read,
            &cost.point_heap,
            &cost.point_shm,
            &cost.histogram_record,
            &cost.drain_record,
        ];
        for part in parts {
            assert!(part.at(0.0) > 0.0 && part.at(0.0) <= part.at(0.5));
            assert!(part.at(0.5) <= part.at(1.0));
        }
        let json = cost.to_json();
        assert!(json.starts_with("{\"tsc_read_ns\":{\"min\":") && json.ends_with("}}"));
        assert_eq!(json.matches("\"p50\":").count(), 6);
    }
}
