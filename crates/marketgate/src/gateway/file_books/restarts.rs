//! Tests: recordings of IEX-TP in which the sender begins again inside its session.

use weir_feed::capture::Datagram;
use weir_feed::feed_by_name;
use weir_feed::iex::Header;
use weir_types::Side;

use super::*;
use crate::capture::{CaptureWriter, Item};

const SECOND: u64 = 1_000_000_000;
const SENT: u64 = 1_700_000_000 * SECOND;

/// The books of a capture of these datagrams, a millisecond apart.
pub(super) fn books(feed: &str, datagrams: &[Vec<u8>]) -> FileBooks {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.pcap");
    let mut writer = CaptureWriter::create(&path).expect("a new file");
    for (number, payload) in (0..).zip(datagrams) {
        let (src, dst) = ("10.0.0.1:1".parse(), "233.215.21.4:10378".parse());
        let (src, dst) = (src.expect("an address"), dst.expect("an address"));
        let ts_recv = Nanos(SENT + number * 1_000_000);
        writer.write(&Datagram { ts_recv, src, dst, payload }).expect("it is written");
    }
    writer.finish().expect("it ends");
    let file = CaptureFile::open(&path).expect("it is there");
    let entry = feed_by_name(feed).expect("it is known");
    let mut market = FileBooks::open(entry, file, &[]).expect("it has captures");
    assert!(market.read().is_none());
    market
}

/// A datagram of IEX-TP with a new number, position and send time.
fn renumbered(datagram: &[u8], sequence: u64, offset: u64, sent: u64) -> Vec<u8> {
    let mut bytes = datagram.to_vec();
    for (at, value) in [(16, offset), (24, sequence), (32, sent)] {
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

/// A sender that numbers datagrams of IEX-TP.
struct Sender {
    next: u64,
    offset: u64,
    sent: u64,
}

impl Sender {
    fn at(sent: u64) -> Sender {
        Sender { next: 1, offset: 0, sent }
    }

    fn send(&mut self, datagram: &[u8]) -> Vec<u8> {
        let header = Header::read(datagram).expect("a datagram of IEX-TP");
        let bytes = renumbered(datagram, self.next, self.offset, self.sent);
        self.next += u64::from(header.message_count);
        self.offset += u64::from(header.payload_length);
        self.sent += SECOND / 1_000;
        bytes
    }
}

/// A datagram of DEEP with one level of a bid.
fn level(price: i64, size: u32) -> Vec<u8> {
    let mut message = vec![b'8', 1];
    message.extend(SENT.to_le_bytes());
    message.extend(b"WEIR    ");
    message.extend(size.to_le_bytes());
    message.extend(price.to_le_bytes());
    let len = u16::try_from(message.len()).expect("a short message");
    let mut datagram = vec![1, 0, 0x04, 0x80, 1, 0, 0, 0, 7, 0, 0, 0];
    datagram.extend((len + 2).to_le_bytes());
    datagram.extend(1_u16.to_le_bytes());
    datagram.extend([0; 24]);
    datagram.extend(len.to_le_bytes());
    datagram.extend(message);
    datagram
}

fn bids(market: &FileBooks) -> Vec<(i64, u64)> {
    let id = market.instrument("WEIR").expect("it has levels");
    let levels = market.books().levels(id, Side::Buy, 10);
    levels.map(|level| (level.price.0 / 100_000, level.size.0)).collect()
}

#[test]
fn a_sender_that_begins_again_clears_the_book_and_nothing_is_taken_for_repeated() {
    let mut sender = Sender::at(SENT);
    let mut sent = vec![sender.send(&level(1_000_000, 100)), sender.send(&level(990_000, 50))];
    let late = sent[1].clone();
    let mut again = Sender::at(sender.sent);
    sent.push(again.send(&level(1_010_000, 7)));
    sent.push(late);
    sent.push(again.send(&level(1_000_000, 8)));
    let market = books("iex-deep", &sent);
    assert_eq!(bids(&market), [(1_010_000, 7), (1_000_000, 8)], "nothing of the first run");
    let counts = market.counts();
    assert_eq!((counts.messages, counts.restarts, counts.old_packets), (4, 1, 1), "{counts:?}");
    assert_eq!((counts.lost, counts.contradictions, counts.repeated), (0, 0, 0), "{counts:?}");
    assert!(!market.is_stale(market.instrument("WEIR").expect("it is there")));
}

#[test]
fn a_packet_that_cannot_be_of_the_stream_makes_the_book_stale() {
    let mut sender = Sender::at(SENT);
    let first = sender.send(&level(1_000_000, 100));
    let next = sender.send(&level(990_000, 50));
    let lie = renumbered(&next, 2, 7, SENT + 5);
    let market = books("iex-deep", &[first, lie, next]);
    assert_eq!(bids(&market), [(1_000_000, 100), (990_000, 50)]);
    assert_eq!((market.counts().contradictions, market.counts().lost), (1, 0));
    assert!(market.is_stale(market.instrument("WEIR").expect("it is there")));
}

#[test]
fn a_real_recording_with_eleven_restarts_has_each_message_and_the_book_of_its_last_run() {
    let Some(path) = weir_skip::recorded("iex/TOPS16.pcapng.gz") else { return };
    let mut datagrams: Vec<Vec<u8>> = Vec::new();
    let mut file = CaptureFile::open(&path).expect("it is there");
    while file
        .next(&mut |item| {
            if let Item::Datagram(datagram) = item {
                datagrams.push(datagram.payload.to_vec());
            }
        })
        .expect("it is whole")
    {}
    let runs: Vec<&[Vec<u8>]> = datagrams.chunks(datagrams.len().div_ceil(12)).collect();
    let (mut sent, mut now, mut last) = (Vec::new(), SENT, Vec::new());
    for run in &runs {
        let mut sender = Sender::at(now);
        last = run.iter().map(|datagram| sender.send(datagram)).collect();
        sent.extend(last.iter().cloned());
        now = sender.sent;
    }
    let (market, alone) = (books("iex-tops", &sent), books("iex-tops", &last));
    let counts = market.counts();
    assert_eq!(counts.messages, books("iex-tops", &datagrams).counts().messages);
    assert_eq!((counts.restarts, counts.lost, counts.repeated), (11, 0, 0), "{counts:?}");
    assert_eq!((counts.old_packets, counts.contradictions), (0, 0), "{counts:?}");
    for one in alone.definitions() {
        let id = market.instrument(one.symbol.as_str()).expect("the last run has it");
        assert_eq!(market.books().best(id), alone.books().best(one.instrument_id));
        assert!(!market.is_stale(id));
    }
}
