//! The UDP payloads of a small pcap file, for tests of codecs alone: little-endian, Ethernet with
//! or without VLAN tags, IPv4, nothing else. It panics at whatever is not that.

/// The payloads in the order of the file.
pub fn payloads(file: &[u8]) -> Vec<&[u8]> {
    let is_known = matches!(file[..4], [0x4D, 0x3C, 0xB2, 0xA1] | [0xD4, 0xC3, 0xB2, 0xA1]);
    assert!(is_known, "not a little-endian pcap file");
    let mut found = Vec::new();
    let mut rest = &file[24..];
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[8..12].try_into().expect("four bytes")) as usize;
        let (frame, after) = rest[16..].split_at(len);
        found.push(payload(frame));
        rest = after;
    }
    found
}

fn payload(frame: &[u8]) -> &[u8] {
    let mut at = 12;
    while frame[at..at + 2] == [0x81, 0x00] {
        at += 4;
    }
    assert_eq!(frame[at..at + 2], [0x08, 0x00], "not IPv4");
    let ip = &frame[at + 2..];
    assert_eq!(ip[9], 17, "not UDP");
    let udp = &ip[usize::from(ip[0] & 15) * 4..];
    let len = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
    &udp[8..len]
}
