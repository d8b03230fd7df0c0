//! Messages of a feed that have no update are parsed, so that the next message is found, and are
//! counted.

use std::net::SocketAddr;
use std::rc::Rc;

use weir_feed::capture::Datagram;
use weir_marketgate::capture::CaptureWriter;
use weir_marketgate::receiver::{FeedSection, Receiver};
use weir_types::Nanos;

use crate::day::Day;
use crate::market::Market;
use crate::rig::SECOND;

/// Returns an OPRA message: venue `C`, then category, type and indicator, then the body.
fn message(head: [u8; 3], body: &[u8]) -> Vec<u8> {
    [b"C", &head[..], &[0; 8], body].concat()
}

/// Returns a long quote in cents that is the best on both sides.
fn quote() -> Vec<u8> {
    let mut body = b"SPY  \0A\x02\x18B\0\0\x11\x94B".to_vec();
    for number in [100_u32, 5, 110, 7] {
        body.extend(number.to_be_bytes());
    }
    message(*b"k F", &body)
}

/// Returns a block with its size and checksum.
fn block(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut block = vec![6, 0, 0, b'O', b' ', 0];
    block.extend(1_u32.to_be_bytes());
    block.push(u8::try_from(messages.len()).expect("few"));
    block.extend([0; 10]);
    messages.iter().for_each(|message| block.extend(message));
    if !block.len().is_multiple_of(2) {
        block.push(0);
    }
    let size = u16::try_from(block.len()).expect("it is short").to_be_bytes();
    block[1..3].copy_from_slice(&size);
    let sum = block.iter().fold(0_u16, |sum, byte| sum.wrapping_add(u16::from(*byte)));
    block[19..21].copy_from_slice(&sum.to_be_bytes());
    block
}

#[test]
fn what_updates_do_not_have_is_passed_over_to_the_byte_and_counted() {
    // An index by its last sale and by bid and offer, open interest, a series' line assignment, and
    // an administrative text.
    let passed_over = [
        message(*b"Y  ", b"SPX  \0B\0\0\x11\x94\0\0\0\0"),
        message(*b"YI ", b"SPX  \0B\0\0\x11\x94\0\0\x11\x95"),
        message(*b"d  ", b"SPY  \0A\x02\x18B\0\0\x11\x94\0\0\x10\0"),
        message(*b"R  ", &[&b"SPY  A\x02\x18B\0\0\x11\x94\0\x01"[..], &[0; 128]].concat()),
        message(*b"C  ", b"\0\x05hello"),
    ];
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("opra.pcap");
    let mut writer = CaptureWriter::create(&path).expect("a new file");
    let [src, dst] = ["10.0.0.1:9", "239.77.20.9:45000"]
        .map(|text| text.parse::<SocketAddr>().expect("an address"));
    let payload = block(&[&passed_over[..], &[quote()]].concat());
    writer.write(&Datagram { ts_recv: Nanos(SECOND), src, dst, payload: &payload }).expect("room");
    writer.finish().expect("it ends");
    let text = format!("name = \"opra\"\n[capture]\nfile = {path:?}\n");
    let section = FeedSection::parse(&text).expect("a configuration");
    let mut receiver = Receiver::open(&section).expect("it opens");
    let mut market = Market::new(Rc::new(Day::default()));
    while !receiver.is_over() {
        receiver.poll(Nanos(SECOND), &mut market);
    }
    let counts = receiver.decode_counts();
    // The quote after them is the venue's and the best of all.
    assert_eq!((counts.messages, counts.updates, counts.refused()), (6, 2, 0), "{counts:?}");
    assert_eq!(counts.without_update, passed_over.len() as u64);
}
