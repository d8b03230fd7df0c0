//! Export to HdrHistogram's V2 interval logs, for its plotters and `HistogramLogProcessor`.
//!
//! Off every hot path. Buckets are written as their highest value with three significant digits, so
//! values read back are never below the recorded ones and at most 1 % above them.

use std::io::{self, Write};
use std::time::Duration;

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use thiserror::Error;

use crate::drain::Latencies;
use crate::histogram::{Snapshot, VALUE_MAX};
use crate::point::Measure;

/// The reason that an export failed.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The file failed.
    #[error("histogram log: {0}")]
    Io(#[from] io::Error),
    /// The histogram could not be encoded.
    #[error("histogram log: {0}")]
    Encode(String),
}

/// Converts a snapshot to an HdrHistogram of nanoseconds, 1 ns to 18 minutes. Zeros stay zeros.
#[must_use]
pub fn to_hdr(snapshot: &Snapshot) -> hdrhistogram::Histogram<u64> {
    let mut hdr = hdrhistogram::Histogram::new_with_bounds(1, VALUE_MAX, 3)
        .expect("the bounds and digits are constants that it accepts");
    for (_, high_ns, count) in snapshot.buckets() {
        let value_ns = high_ns.min(snapshot.max_ns()).min(VALUE_MAX);
        hdr.record_n(value_ns, count).expect("the value is within the bounds");
    }
    hdr
}

/// Writes one interval: a line for each measure that has values, tagged with its name.
///
/// `start_unix_ns` is the start of the interval, ns since the Unix epoch, and `length_ns` its
/// length.
///
/// # Errors
///
/// Returns [`ExportError`].
pub fn write_log(
    out: &mut impl Write,
    latencies: &Latencies,
    start_unix_ns: u64,
    length_ns: u64,
) -> Result<(), ExportError> {
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .with_max_value_divisor(1_000_000.0)
        .begin_log_with(out, &mut serializer)?;
    let (start, length) = (Duration::from_nanos(start_unix_ns), Duration::from_nanos(length_ns));
    for measure in Measure::ALL {
        let snapshot = latencies.of(measure);
        if !snapshot.is_empty() {
            let tag = Tag::new(measure.name());
            log.write_histogram(&to_hdr(snapshot), start, length, tag)
                .map_err(|error| ExportError::Encode(error.to_string()))?;
        }
    }
    Ok(())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::clock::{ClockWriter, Tsc};
    use crate::drain::{Drain, DrainOptions};
    use crate::histogram::Histogram;
    use crate::point::Point;
    use crate::ring::{Record, TraceId, heap_ring};

    #[test]
    fn quantiles_survive_the_conversion() {
        let mut histogram = Histogram::new();
        let mut value = 1_u64;
        for _ in 0..20_000 {
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            histogram.record(value >> 40);
        }
        histogram.record(u64::MAX);
        let snapshot = histogram.snapshot();
        let hdr = to_hdr(&snapshot);
        assert_eq!(hdr.len(), snapshot.count());
        for quantile in [0.0, 0.1, 0.5, 0.9, 0.99, 0.999] {
            let (ours, theirs) = (snapshot.quantile_ns(quantile), hdr.value_at_quantile(quantile));
            assert!(theirs >= ours && (theirs - ours) * 500 <= ours, "{ours} became {theirs}");
        }
    }

    #[test]
    fn a_log_is_read_back_by_the_reference_reader() {
        let options = DrainOptions { traces_max: 64, ..DrainOptions::default() };
        let mut drain = Drain::new(ClockWriter::simulated(1_000_000_000, 0), options);
        let (mut producer, consumer) = heap_ring(64).unwrap();
        drain.add_ring("all", consumer);
        for point in Point::ALL {
            let tsc = Tsc(1_000_000 + 1_000 * point.index() as u64);
            producer.push(Record::at(TraceId::new(1).unwrap(), point, tsc));
        }
        let report = drain.finish();
        let mut log = Vec::new();
        write_log(&mut log, &report.total, 1_700_000_000_000_000_000, 5_000_000_000).unwrap();
        let mut tags = Vec::new();
        for entry in IntervalLogIterator::new(&log) {
            let Ok(LogEntry::Interval(interval)) = entry else { continue };
            tags.push(interval.tag().unwrap().as_str().to_owned());
            assert_eq!(interval.start_timestamp(), Duration::from_secs(1_700_000_000));
            assert_eq!(interval.duration(), Duration::from_secs(5));
            let bytes = base64_decode(interval.encoded_histogram());
            let hdr: hdrhistogram::Histogram<u64> =
                Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            assert_eq!(hdr.len(), 1);
            if tags.last().unwrap() == "server" {
                assert_eq!(hdr.max() / 10, 900);
            }
        }
        assert_eq!(tags, Measure::ALL.map(Measure::name));
    }

    fn base64_decode(text: &str) -> Vec<u8> {
        let digit = |byte: u8| match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let (mut bits, mut held, mut bytes) = (0_u32, 0, Vec::new());
        for byte in text.bytes().filter(|byte| *byte != b'=') {
            bits = bits << 6 | u32::from(digit(byte));
            held += 6;
            if held >= 8 {
                held -= 8;
                bytes.push((bits >> held) as u8);
                bits &= (1 << held) - 1;
            }
        }
        bytes
    }
}
