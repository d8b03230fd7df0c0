//! A capture of MoldUDP64 packets with known holes.

use std::net::SocketAddr;

use weir_feed::capture::{put_datagram, put_file_header};
use weir_feed::feed_by_name;

use super::*;

fn mold(session: u8, sequence: u64, messages: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![b' '; 9];
    bytes.push(session);
    bytes.extend_from_slice(&sequence.to_be_bytes());
    bytes.extend_from_slice(&(messages.len() as u16).to_be_bytes());
    for message in messages {
        bytes.extend_from_slice(&(message.len() as u16).to_be_bytes());
        bytes.extend_from_slice(message);
    }
    bytes
}

fn capture(datagrams: &[(u64, &str, Vec<u8>)]) -> CaptureFile {
    let mut file = Vec::new();
    put_file_header(&mut file);
    for (at, dst, payload) in datagrams {
        let (src, dst) = ("10.0.0.1:9", dst);
        let [src, dst]: [SocketAddr; 2] = [src, dst].map(|text| text.parse().expect("an address"));
        let datagram = Datagram { ts_recv: Nanos(*at), src, dst, payload };
        put_datagram(&mut file, &datagram).expect("it fits");
    }
    CaptureFile::new(Box::new(std::io::Cursor::new(file))).expect("a capture")
}

const A: &str = "239.1.2.3:1000";
const B: &str = "239.1.2.4:1000";

fn file() -> CaptureFile {
    let second = 1_000_000_000;
    capture(&[
        (second, A, mold(1, 1, &[b"Sx", b"Axxx"])),
        (second + 1, B, mold(1, 1, &[b"Sx", b"Axxx"])),
        (second + 2, A, mold(1, 5, &[b"Axxx"])),
        (second + 3, A, mold(1, 5, &[b"Axxx", b"\x01\x02"])),
        (second + 4, A, b"not of this feed".to_vec()),
        (3 * second, A, mold(2, 1, &[b"Dx"])),
        (3 * second, A, mold(2, 9, &[])),
        (3 * second, B, mold(1, 3, &[b"Axxx"])[..21].to_vec()),
    ])
}

#[test]
fn groups_channels_gaps_and_types_are_those_of_the_packets() {
    let (analysis, error) = Analysis::of(&mut file(), feed_by_name("itch"));
    assert!(error.is_none());
    let group = |text: &str| &analysis.groups[&text.parse().expect("an address")];
    let (a, b) = (group(A), group(B));
    assert_eq!((a.packets, a.strangers, b.packets), (6, 1, 2));
    let numbers = &a.channels[&0];
    assert_eq!((numbers.sessions, numbers.messages), (2, 6));
    assert_eq!((numbers.gaps, numbers.missing), (2, 2 + 7), "3 and 4, then 2 to 8 of the next");
    assert_eq!(numbers.repeated, 1);
    assert_eq!((b.channels[&0].gaps, analysis.gaps()), (0, (2, 9)));
    let kinds: Vec<_> = analysis
        .kinds
        .iter()
        .map(|(kind, counts)| (kind_text(kind), counts.messages, counts.bytes))
        .collect();
    let want = [("0x01", 1, 2), ("A", 4, 16), ("D", 1, 2), ("S", 2, 4)];
    assert_eq!(kinds, want.map(|(kind, messages, bytes)| (kind.to_owned(), messages, bytes)));
    assert_eq!((analysis.damaged_packets, analysis.rates.total()), (1, 8));
    assert_eq!(analysis.unit(), "messages");
    assert_eq!(analysis.rates.rows()[2].peak, 7);
}

#[test]
fn without_a_feed_datagrams_are_counted() {
    let (analysis, error) = Analysis::of(&mut file(), None);
    assert!(error.is_none());
    assert_eq!((analysis.unit(), analysis.rates.total()), ("datagrams", 8));
    assert!(analysis.kinds.is_empty() && analysis.groups.values().all(|g| g.channels.is_empty()));
    let json = analysis.json();
    assert_eq!((&json["packets"], &json["span_ns"]), (&json!(8), &json!(2_000_000_000_u64)));
    assert_eq!(json["groups"][0]["group"], A);
    assert_eq!(json["windows"][2]["peak"], 5);
}
