//! A capture is sent over the loopback interface, recorded, and read again.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;

use weir_types::Nanos;

use super::super::record::{RecordPlan, record};
use super::*;
use weir_marketgate::capture::CaptureWriter;
use weir_marketgate::udp::{BatchReceiver, Listen, sender};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 77, 19, 5);
const COUNT: u32 = 200;

/// Datagrams a millisecond apart, every second one to another group.
fn write(path: &Path) {
    let mut writer = CaptureWriter::create(path).expect("a new file");
    for number in 0..COUNT {
        let dst = if number % 2 == 0 { "239.9.9.1:1" } else { "239.9.9.2:1" };
        writer
            .write(&Datagram {
                ts_recv: Nanos(1_000_000_000 + u64::from(number) * 1_000_000),
                src: "10.0.0.1:9".parse().expect("an address"),
                dst: dst.parse().expect("an address"),
                payload: &number.to_le_bytes(),
            })
            .expect("it is written");
    }
    writer.finish().expect("it ends");
}

fn numbers(path: &Path) -> Vec<u32> {
    let mut file = CaptureFile::open(path).expect("it is there");
    let mut numbers = Vec::new();
    while file
        .next(&mut |item| {
            let Item::Datagram(datagram) = item else { panic!("{item:?}") };
            assert_eq!(datagram.dst.ip(), GROUP);
            numbers.push(u32::from_le_bytes(datagram.payload.try_into().expect("4 bytes")));
        })
        .expect("it is whole")
    {}
    numbers
}

/// Sends and records; what was sent, and the numbers that were recorded.
fn round(change: impl FnOnce(&mut ReplayPlan)) -> (ReplayReport, Vec<u32>) {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("a.pcap"), dir.path().join("b.pcap.gz"));
    write(&from);
    let listen = Listen {
        address: SocketAddrV4::new(GROUP, 0),
        interface: Ipv4Addr::LOCALHOST,
        receive_buffer: 1 << 20,
        wait: Some(Duration::from_millis(50)),
    };
    let mut receiver = BatchReceiver::open(&listen).expect("it listens");
    let mut plan = ReplayPlan {
        to: receiver.address(),
        group: None,
        speed: Speed::Max,
        loss_millionths: 0,
        seed: 1,
    };
    change(&mut plan);
    let socket = sender(Ipv4Addr::LOCALHOST, 0).expect("a sender");
    let mut file = CaptureFile::open(&from).expect("it was written");
    let (report, error) = replay(&mut file, &socket, &plan);
    assert!(error.is_none(), "{error:?}");
    let writer = CaptureWriter::create(&to).expect("a new file");
    let record_plan = RecordPlan { packets_max: Some(report.sent), ..RecordPlan::default() };
    let limit = Instant::now() + Duration::from_secs(30);
    let is_stopped = || Instant::now() > limit;
    let (counts, written) =
        record(&mut receiver, writer, &record_plan, &is_stopped).expect("it records");
    assert_eq!((counts.datagrams, counts.kernel_drops), (report.sent, Some(0)));
    assert_eq!(written, report.sent);
    (report, numbers(&to))
}

#[test]
fn what_is_sent_again_and_recorded_is_the_capture() {
    let (report, numbers) = round(|_| ());
    assert_eq!((report.sent, report.refused, report.left_out), (200, 0, 0));
    assert_eq!(numbers, (0..COUNT).collect::<Vec<_>>());
}

#[test]
fn one_group_of_several_is_sent_alone() {
    let (_, numbers) = round(|plan| plan.group = Some("239.9.9.2:1".parse().expect("an address")));
    assert_eq!(numbers, (0..COUNT).filter(|number| number % 2 == 1).collect::<Vec<_>>());
}

#[test]
fn what_is_left_out_on_purpose_is_counted_and_the_same_each_time() {
    let lossy = |plan: &mut ReplayPlan| plan.loss_millionths = 250_000;
    let (report, first) = round(lossy);
    assert!((20..80).contains(&report.left_out), "{report:?}");
    assert_eq!(report.left_out + report.sent, 200);
    assert_eq!(round(lossy).1, first);
}

#[test]
fn a_capture_is_never_sent_faster_than_its_pace() {
    let (report, _) = round(|plan| plan.speed = Speed::Times(2.0));
    // The last one is due 199 ms after the first, at twice the speed.
    assert!(report.elapsed >= Duration::from_micros(99_500), "{report:?}");
}

#[test]
fn a_recording_ends_when_it_is_told_to() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.pcap");
    let listen = Listen {
        address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0),
        interface: Ipv4Addr::LOCALHOST,
        receive_buffer: 1 << 16,
        wait: Some(Duration::from_millis(5)),
    };
    let mut receiver = BatchReceiver::open(&listen).expect("it listens");
    let writer = CaptureWriter::create(&path).expect("a new file");
    let ended = record(&mut receiver, writer, &RecordPlan::default(), &|| true);
    assert_eq!(ended.expect("it ends").1, 0);
    assert_eq!(numbers(&path), [0; 0], "an empty capture is a capture");
}

#[test]
fn a_speed_is_a_number_above_zero_or_max() {
    for (text, want) in [("1", Some(Speed::Times(1.0))), ("0.5", Some(Speed::Times(0.5)))] {
        assert_eq!(text.parse().ok(), want);
    }
    assert_eq!("max".parse(), Ok(Speed::Max));
    for text in ["0", "-1", "nan", "inf", "fast", ""] {
        assert!(text.parse::<Speed>().is_err(), "{text}");
    }
}
