//! Audits round-trip, whole, in pieces, and cut at any byte; other captures are refused.

use core::net::SocketAddr;

use proptest::prelude::*;

use super::super::{CaptureError, Decoded, Decoder, datagram as datagram_of};
use super::*;

#[derive(Clone, Debug, PartialEq)]
enum AuditItem {
    Line(String),
    Datagram(u16, u64, u64, SocketAddr, SocketAddr, Vec<u8>),
    Gap(AuditGap),
    End(u16, LineTotals),
}

fn said(step: &DecodedAudit<'_>) -> Option<AuditItem> {
    match step {
        DecodedAudit::Line(name) => Some(AuditItem::Line((*name).to_owned())),
        DecodedAudit::Datagram(it) => {
            let Datagram { ts_recv, src, dst, payload } = it.datagram;
            Some(AuditItem::Datagram(it.line.0, it.polled.0, ts_recv.0, src, dst, payload.to_vec()))
        }
        DecodedAudit::Gap(gap) => Some(AuditItem::Gap(*gap)),
        DecodedAudit::End(line, totals) => Some(AuditItem::End(line.0, *totals)),
        DecodedAudit::Other => None,
    }
}

fn read_all(file: &[u8], piece: usize) -> (Vec<AuditItem>, Result<u64, CaptureError>) {
    let (mut decoder, mut all) = (AuditDecoder::new(), Vec::new());
    let (mut start, mut end) = (0, 0);
    loop {
        match decoder.next(&file[start..end], end == file.len()) {
            Ok(AuditNext::Decoded { used, step }) => {
                all.extend(said(&step));
                start += used;
            }
            Ok(AuditNext::More { len }) => {
                assert!(len > end - start, "asks for no more than it has");
                end = (end + piece).min(file.len());
            }
            Ok(AuditNext::End) => return (all, Ok(decoder.offset())),
            Err(error) => return (all, Err(error)),
        }
    }
}

fn put(out: &mut Vec<u8>, said: &AuditItem) {
    match said {
        AuditItem::Line(_) => {}
        AuditItem::Datagram(line, polled, ts, src, dst, payload) => {
            let datagram = Datagram { ts_recv: Nanos(*ts), src: *src, dst: *dst, payload };
            let (line, polled) = (LineNo(*line), Nanos(*polled));
            put_audit_datagram(out, &AuditDatagram { line, polled, datagram }).expect("it fits");
        }
        AuditItem::Gap(gap) => put_audit_gap(out, gap, 0),
        AuditItem::End(line, totals) => put_audit_end(out, LineNo(*line), totals, Nanos(9)),
    }
}

/// Writes a file of two lines, and returns it with the elements it should read back as; the missing
/// counts of gaps accumulate.
fn written(all: &[AuditItem]) -> (Vec<u8>, Vec<AuditItem>) {
    let (mut file, mut missing) = (Vec::new(), [0_u64; 2]);
    put_audit_head(&mut file, ["A 224.0.0.1:5", "B"].into_iter());
    let mut want =
        vec![AuditItem::Line("A 224.0.0.1:5".to_owned()), AuditItem::Line("B".to_owned())];
    for said in all {
        if let AuditItem::Gap(gap) = said {
            let missing = &mut missing[usize::from(gap.line.0)];
            *missing += gap.datagrams;
            put_audit_gap(&mut file, gap, *missing);
        } else {
            put(&mut file, said);
        }
        want.push(said.clone());
    }
    (file, want)
}

fn anything() -> impl Strategy<Value = AuditItem> {
    let time = prop_oneof![any::<u64>(), 0..5_u64, Just(u64::MAX), Just(1_700_000_000_000_000_000)];
    let addresses = prop_oneof![
        (any::<[u8; 4]>(), any::<[u8; 4]>())
            .prop_map(|(src, dst)| (std::net::IpAddr::from(src), std::net::IpAddr::from(dst))),
        (any::<[u8; 16]>(), any::<[u8; 16]>())
            .prop_map(|(src, dst)| (std::net::IpAddr::from(src), std::net::IpAddr::from(dst))),
    ];
    let payload = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        (any::<u8>(), 0_usize..=65_507)
            .prop_map(|(step, len)| (0..len).map(|at| (at as u8).wrapping_mul(step)).collect()),
    ];
    let ports = (any::<u16>(), any::<u16>());
    let datagram = (0_u16..2, time.clone(), time.clone(), addresses, ports, payload).prop_map(
        |(line, polled, ts, (src, dst), ports, payload)| {
            let (src, dst) = (SocketAddr::new(src, ports.0), SocketAddr::new(dst, ports.1));
            AuditItem::Datagram(line, polled, ts, src, dst, payload)
        },
    );
    let gap =
        (0_u16..2, 0_u64..1_000, time.clone(), time).prop_map(|(line, datagrams, from, to)| {
            AuditItem::Gap(AuditGap {
                line: LineNo(line),
                datagrams,
                from: Nanos(from),
                to: Nanos(to),
            })
        });
    let end = (0_u16..2, any::<u64>(), any::<u64>())
        .prop_map(|(line, written, missing)| AuditItem::End(line, LineTotals { written, missing }));
    prop_oneof![6 => datagram, 2 => gap, 1 => end]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_came_is_read_back_bit_for_bit_with_both_times_and_its_line(
        all in proptest::collection::vec(anything(), 0..12), piece in 1_usize..90_000,
    ) {
        let (file, want) = written(&all);
        prop_assert_eq!(read_all(&file, piece), (want, Ok(file.len() as u64)));
    }

    #[test]
    fn a_byte_that_is_changed_makes_it_neither_panic_nor_read_on_for_ever(
        all in proptest::collection::vec(anything(), 0..4), at: proptest::sample::Index, value: u8,
    ) {
        let (mut file, _) = written(&all);
        let at = at.index(file.len());
        file[at] = value;
        let (told, _) = read_all(&file, 70_000);
        prop_assert!(told.len() <= file.len() / 12);
    }
}

fn short() -> (Vec<u8>, Vec<AuditItem>) {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let (src, dst) = (address("10.0.0.1:4"), address("224.0.0.1:5"));
    let gap = AuditGap { line: LineNo(1), datagrams: 3, from: Nanos(7), to: Nanos(8) };
    written(&[
        AuditItem::Datagram(
            0,
            1_700_000_000_000_000_123,
            1_700_000_000_000_000_000,
            src,
            dst,
            vec![7; 9],
        ),
        AuditItem::Gap(gap),
        AuditItem::Gap(gap),
        AuditItem::Datagram(1, 5, 9, src, dst, vec![]),
        AuditItem::End(0, LineTotals { written: 1, missing: 0 }),
        AuditItem::End(1, LineTotals { written: 1, missing: 6 }),
    ])
}

#[test]
fn an_audit_cut_at_any_byte_gives_all_before_and_says_where_it_ends() {
    let (file, whole) = short();
    for cut in 0..file.len() {
        let (told, end) = read_all(&file[..cut], 1_000);
        assert_eq!(told[..], whole[..told.len()], "cut at {cut}");
        match end {
            Ok(offset) => assert_eq!(offset, cut as u64),
            Err(CaptureError::Truncated { offset, len }) => {
                assert_eq!(offset + len as u64, cut as u64);
            }
            Err(error) => panic!("cut at {cut}: {error}"),
        }
    }
}

#[test]
fn every_reader_of_captures_reads_an_audits_datagrams() {
    let (file, _) = short();
    let (mut decoder, mut start, mut payloads) = (Decoder::new(), 0, Vec::new());
    loop {
        match decoder.next(&file[start..], true).expect("it reads") {
            Decoded::Frame { used, frame } => {
                let found = datagram_of(&frame).expect("a datagram");
                payloads.push((found.ts_recv.0, found.payload.len()));
                start += used;
            }
            Decoded::Other { used } => start += used,
            Decoded::More { .. } => panic!("there is no more"),
            Decoded::End => break,
        }
    }
    assert_eq!(payloads, [(1_700_000_000_000_000_000, 9), (9, 0)]);
}

#[test]
fn a_capture_that_is_no_audit_and_one_without_poll_times_are_refused_by_name() {
    let mut pcap = Vec::new();
    super::super::put_file_header(&mut pcap);
    let what = "the capture is no audit of Weir's";
    assert_eq!(read_all(&pcap, 99).1, Err(CaptureError::Damaged { offset: 0, what }));
    let (mut file, _) = short();
    let at = file.windows(7).position(|text| text == b"polled ").expect("it says so");
    file[at] = b'P';
    let (told, end) = read_all(&file, 999);
    let Err(CaptureError::Damaged { what, .. }) = end else { panic!("{end:?}") };
    assert_eq!((told.len(), what), (2, "a packet that does not say when it was polled"));
}

#[test]
fn what_no_datagram_can_be_leaves_nothing_behind() {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let (src, dst) = (address("10.0.0.1:4"), address("[::1]:5"));
    let mut out = vec![1];
    for (dst, len) in [(dst, 0), (address("10.0.0.2:4"), 65_530)] {
        let payload = &vec![0; len];
        let datagram = Datagram { ts_recv: Nanos(0), src, dst, payload };
        let it = AuditDatagram { line: LineNo(0), polled: Nanos(0), datagram };
        assert!(put_audit_datagram(&mut out, &it).is_err());
        assert_eq!(out, [1]);
    }
}

const PAGE: &str = include_str!("../../../../../docs/protocols/audit.md");

/// Returns the bytes of the example on the page.
fn example() -> Vec<u8> {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let (src, dst) = (address("10.0.0.1:4"), address("224.0.0.1:5"));
    let (ts_recv, polled) = (Nanos(1_000_000_000), Nanos(1_000_000_250));
    let datagram = Datagram { ts_recv, src, dst, payload: b"hi" };
    let mut file = Vec::new();
    put_audit_head(&mut file, ["A"].into_iter());
    let it = AuditDatagram { line: LineNo(0), polled, datagram };
    put_audit_datagram(&mut file, &it).expect("it fits");
    let (from, to) = (Nanos(1_000_000_500), Nanos(1_000_000_700));
    put_audit_gap(&mut file, &AuditGap { line: LineNo(0), datagrams: 3, from, to }, 3);
    let totals = LineTotals { written: 1, missing: 3 };
    put_audit_end(&mut file, LineNo(0), &totals, Nanos(2_000_000_000));
    file
}

#[test]
fn the_example_of_the_page_is_what_is_written() {
    let text: String = (example().chunks(16).enumerate())
        .map(|(row, bytes)| {
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{:4}  {}\n", row * 16, bytes.join(" "))
        })
        .collect();
    let page = PAGE.split("```text\n").nth(1).and_then(|rest| rest.split("```").next());
    assert_eq!(page, Some(text.as_str()), "\n{text}");
}
