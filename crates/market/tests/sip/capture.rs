//! Captures: the payloads of the UDP datagrams in a pcap file, packed with gzip or not.

use std::io::Read;
use std::path::PathBuf;

/// A file of the sample data, by `WEIR_DATA`; says so, past the test harness, when there is none.
pub(crate) fn data(path: &str) -> Option<Vec<u8>> {
    use std::io::Write;
    let Some(root) = std::env::var_os("WEIR_DATA") else {
        let mut stderr = std::io::stderr();
        _ = writeln!(stderr, "NOT CHECKED: WEIR_DATA is not set, so {path} was not read");
        return None;
    };
    let path = PathBuf::from(root).join(path);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Some(bytes);
    }
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut unpacked).expect("it is gzip");
    Some(unpacked)
}

/// The datagrams of a capture of Ethernet frames with IPv4.
pub(crate) fn datagrams(capture: &[u8]) -> Vec<&[u8]> {
    let is_known = matches!(capture[..4], [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1]);
    assert!(is_known, "a pcap file, least significant byte first");
    let mut rest = &capture[24..];
    let mut datagrams = Vec::new();
    while let Some((header, tail)) = rest.split_first_chunk::<16>() {
        let len = u32::from_le_bytes(header[8..12].try_into().expect("four bytes")) as usize;
        let (frame, tail) = tail.split_at(len);
        rest = tail;
        let ip = &frame[14..];
        let udp = &ip[usize::from(ip[0] & 0xf) * 4..];
        let udp_len = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
        datagrams.push(&udp[8..udp_len]);
    }
    datagrams
}
