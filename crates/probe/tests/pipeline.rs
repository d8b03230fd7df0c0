//! The probes as a node uses them: three threads pass orders on, a drain runs in its own thread,
//! and a capture goes to a file. The live figures and those decoded from the file must agree.

#![cfg(not(any(loom, miri, feature = "off")))]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::HashMap;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{fs, thread};

use weir_probe::capture::{CaptureDecoder, Frame};
use weir_probe::ring::RING_RECORDS_DEFAULT;
use weir_probe::thread::usable_cores;
use weir_probe::trace::Stamps;
use weir_probe::{
    ClockWriter, Drain, DrainOptions, DrainReport, Measure, Point, PointSet, Recorder, RingDir,
    TraceId, TraceIds, cores,
};

const ORDERS: u64 = 5_000;
const RECORDS: u64 = ORDERS * Point::COUNT as u64;

fn partition(mut recorder: Recorder, orders: &Receiver<TraceId>, reports: &Sender<TraceId>) {
    for trace in orders {
        for point in [Point::T1, Point::T2, Point::T3, Point::T4, Point::T5, Point::T6] {
            recorder.record(trace, point);
        }
        reports.send(trace).unwrap();
    }
}

fn reply(mut recorder: Recorder, reports: &Receiver<TraceId>) {
    for trace in reports {
        recorder.record(trace, Point::T7);
        recorder.record(trace, Point::Egress);
    }
}

fn gateway(mut recorder: Recorder, orders: &Sender<TraceId>) {
    let mut ids = TraceIds::new(9);
    for _ in 0..ORDERS {
        let ingress = recorder.now();
        let trace = ids.next();
        recorder.record_at(trace, Point::Ingress, ingress);
        recorder.record(trace, Point::T0);
        orders.send(trace).unwrap();
    }
}

/// Runs the whole pipeline; the capture goes to `file`.
fn run(clock: ClockWriter, file: &PathBuf) -> DrainReport {
    let mut rings = RingDir::create_in(&std::env::temp_dir()).unwrap();
    let mut drain = Drain::new(clock, DrainOptions::default());
    let mut recorder = |name: &str| {
        let (producer, consumer) = rings.ring(name, RING_RECORDS_DEFAULT).unwrap();
        drain.add_ring(name, consumer);
        Recorder::new(producer)
    };
    let recorders = ["gateway-0", "partition-0", "reply-0"].map(&mut recorder);
    drain.capture_to(Box::new(BufWriter::new(fs::File::create(file).unwrap()))).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let draining = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || {
            // SYNC: a plain flag; `finish` empties the rings after the joins below.
            while !stop.load(Ordering::Relaxed) {
                drain.do_work();
                thread::yield_now();
            }
            let report = drain.finish();
            drain.end_capture().unwrap();
            report
        })
    };
    let [at_gateway, at_partition, at_reply] = recorders;
    let (to_partition, orders) = channel();
    let (to_reply, reports) = channel();
    let threads = [
        thread::spawn(move || gateway(at_gateway, &to_partition)),
        thread::spawn(move || partition(at_partition, &orders, &to_reply)),
        thread::spawn(move || reply(at_reply, &reports)),
    ];
    for thread in threads {
        thread.join().unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    draining.join().unwrap()
}

#[test]
fn the_live_view_and_the_capture_file_tell_the_same() {
    let clock = match ClockWriter::start() {
        Ok(clock) => clock,
        Err(unfit) => return weir_skip::skip(weir_skip::Need::Counter, unfit),
    };
    let (slack, calibration) = (clock.calibration().ns_to_ticks(200), clock.calibration());
    let file = std::env::temp_dir().join(format!("weir-capture-{}", std::process::id()));
    let report = run(clock, &file);
    assert_eq!((report.counts.records, report.counts.dropped), (RECORDS, 0));
    assert_eq!(report.counts.complete + report.counts.disordered, ORDERS);
    if cores::compare(&usable_cores(), 500).is_ok() {
        assert!(report.counts.disordered * 100 <= ORDERS, "{:?}", report.counts);
    }
    let sum = |measure: &Measure| report.total.of(*measure).sum_ns();
    let segments: u64 = Measure::segments().iter().map(sum).sum();
    assert_eq!(segments, sum(&Measure::Server), "segments add up to the whole");

    let bytes = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let mut orders: HashMap<TraceId, Stamps> = HashMap::new();
    let (mut names, mut anchors) = (Vec::new(), 0);
    for frame in CaptureDecoder::new(&bytes).unwrap() {
        match frame.unwrap() {
            Frame::Ring { name, .. } => names.push(name),
            Frame::Anchor(_) => anchors += 1,
            Frame::Loss { dropped, .. } => assert_eq!(dropped, 0),
            Frame::Records { records, .. } => {
                for record in records {
                    let point = Point::from_code(record.code()).unwrap();
                    let _ = orders.entry(record.trace()).or_default().stamp(point, record.tsc);
                }
            }
        }
    }
    assert_eq!(names, ["gateway-0", "partition-0", "reply-0"]);
    assert!(anchors >= 2, "the capture begins and ends with an anchor");
    assert_eq!(orders.len() as u64, ORDERS);
    assert!(orders.values().all(|stamps| stamps.seen() == PointSet::ALL));
    let parts = |stamps: &Stamps| stamps.decompose(PointSet::ALL, slack, &calibration);
    let offline: Vec<_> = orders.values().filter_map(parts).collect();
    // The live view may have used a later calibration: the slack differs by less than a tick.
    assert!((offline.len() as u64).abs_diff(report.counts.complete) <= 1);
    let server: u64 = offline.iter().filter_map(|part| part.duration_ns(Measure::Server)).sum();
    let live = sum(&Measure::Server);
    assert!(server.abs_diff(live) <= live / 1_000, "{server} ns offline, {live} ns live");
}
