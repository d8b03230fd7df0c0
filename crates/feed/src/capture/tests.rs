//! Captures built here, cut at each byte and damaged; frames of each link layer.

use core::net::SocketAddr;

use proptest::prelude::*;
use weir_types::Nanos;

use super::*;

/// The time, data and original length of each frame, then the result of reading the file.
type Read = (Vec<(u64, Vec<u8>, u32)>, Result<u64, CaptureError>);

/// Reads a file in pieces of `piece` bytes.
fn read_all(file: &[u8], piece: usize) -> Read {
    let (mut decoder, mut frames) = (Decoder::new(), Vec::new());
    let (mut start, mut end) = (0, 0);
    loop {
        match decoder.next(&file[start..end], end == file.len()) {
            Ok(Decoded::Frame { used, frame }) => {
                frames.push((frame.ts_recv.0, frame.data.to_vec(), frame.original_len));
                start += used;
            }
            Ok(Decoded::Other { used }) => start += used,
            Ok(Decoded::More { len }) => {
                assert!(len > end - start, "asks for no more than it has");
                end = (end + piece).min(file.len());
            }
            Ok(Decoded::End) => return (frames, Ok(decoder.offset())),
            Err(error) => return (frames, Err(error)),
        }
    }
}

fn words(is_big_endian: bool, words: &[u32]) -> Vec<u8> {
    let bytes = |word: &u32| if is_big_endian { word.to_be_bytes() } else { word.to_le_bytes() };
    words.iter().flat_map(bytes).collect()
}

fn pcap(is_big_endian: bool, magic: u32, fraction: u32) -> Vec<u8> {
    let version = if is_big_endian { 0x0002_0004 } else { 0x0004_0002 };
    let mut file = words(is_big_endian, &[magic, version, 0, 0, 65_535, 1]);
    for (index, data) in [&b"first"[..], b"second frame"].into_iter().enumerate() {
        let len = data.len() as u32;
        file.extend(words(is_big_endian, &[7 + index as u32, fraction, len, len + 1]));
        file.extend_from_slice(data);
    }
    file
}

fn block(is_big_endian: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let len = body.len() as u32 + 12;
    let mut block = words(is_big_endian, &[kind, len]);
    block.extend_from_slice(&body);
    block.extend(words(is_big_endian, &[len]));
    block
}

/// Returns a section with one interface, two enhanced packets, a simple one, and a block of an
/// unknown type. With a `resolution`, the interface has this `if_tsresol` and a time offset of 2 s.
fn pcapng(is_big_endian: bool, resolution: Option<u8>, ticks: u64) -> Vec<u8> {
    let short = |a: u16, b: u16| match is_big_endian {
        true => [a.to_be_bytes(), b.to_be_bytes()].concat(),
        false => [a.to_le_bytes(), b.to_le_bytes()].concat(),
    };
    let version = short(1, 0);
    let offset = if is_big_endian { 2_i64.to_be_bytes() } else { 2_i64.to_le_bytes() };
    let mut section = words(is_big_endian, &[0x1a2b_3c4d]);
    section.extend_from_slice(&version);
    section.extend_from_slice(&[0xff; 8]);
    let mut file = block(is_big_endian, 0x0a0d_0d0a, &section);
    let mut interface = short(1, 0);
    interface.extend(words(is_big_endian, &[0]));
    if let Some(resolution) = resolution {
        interface.extend(short(9, 1));
        interface.extend_from_slice(&[resolution, 0, 0, 0]);
        interface.extend(short(14, 8));
        interface.extend_from_slice(&offset);
        interface.extend(short(0, 0));
    }
    file.extend(block(is_big_endian, 1, &interface));
    for data in [&b"first"[..], b"second frame"] {
        let (high, low, len) = ((ticks >> 32) as u32, ticks as u32, data.len() as u32);
        let mut packet = words(is_big_endian, &[0, high, low, len, len + 1]);
        packet.extend_from_slice(data);
        file.extend(block(is_big_endian, 6, &packet));
    }
    file.extend(block(is_big_endian, 0x0bad_beef, b"passed over"));
    let mut simple = words(is_big_endian, &[3]);
    simple.extend_from_slice(b"abc");
    file.extend(block(is_big_endian, 3, &simple));
    file
}

#[test]
fn a_pcap_file_of_either_byte_order_and_resolution_is_read_whatever_its_pieces() {
    let nanos = 1_000_000_000;
    for (is_big_endian, magic, fraction, ns) in [
        (false, 0xa1b2_c3d4, 123_456, 123_456_000),
        (true, 0xa1b2_c3d4, 123_456, 123_456_000),
        (false, 0xa1b2_3c4d, 123_456_789, 123_456_789),
        (true, 0xa1b2_3c4d, 123_456_789, 123_456_789),
    ] {
        let file = pcap(is_big_endian, magic, fraction);
        let want = vec![
            (7 * nanos + ns, b"first".to_vec(), 6),
            (8 * nanos + ns, b"second frame".to_vec(), 13),
        ];
        for piece in [1, 7, 1_000] {
            let read = read_all(&file, piece);
            assert_eq!(read, (want.clone(), Ok(file.len() as u64)), "{magic:x} {is_big_endian}");
        }
    }
}

#[test]
fn a_pcapng_file_has_the_time_that_its_interface_says() {
    let second = 1_000_000_000;
    for (resolution, ticks, want) in [
        (None, 5_000_001, 5 * second + 1_000),
        (Some(6), 5_000_001, 7 * second + 1_000),
        (Some(9), 5_000_000_001, 7 * second + 1),
        (Some(3), 5_001, 7 * second + 1_000_000),
        (Some(0x80 | 10), 5 * 1_024 + 512, 7 * second + second / 2),
        (Some(0), u64::MAX, u64::MAX),
    ] {
        for is_big_endian in [false, true] {
            let file = pcapng(is_big_endian, resolution, ticks);
            let (frames, end) = read_all(&file, 5);
            let times: Vec<u64> = frames.iter().map(|frame| frame.0).collect();
            assert_eq!(times, [want, want, 0], "{resolution:?} {is_big_endian}");
            let texts: Vec<&[u8]> = frames.iter().map(|frame| frame.1.as_slice()).collect();
            assert_eq!(texts, [&b"first"[..], b"second frame", b"abc"]);
            assert_eq!(end, Ok(file.len() as u64));
        }
    }
}

#[test]
fn sections_of_both_byte_orders_in_one_file_are_read() {
    let mut file = pcapng(false, Some(9), 1);
    file.extend(pcapng(true, Some(3), 2));
    let (frames, end) = read_all(&file, 100);
    let times: Vec<u64> = frames.iter().map(|frame| frame.0 % 1_000_000_000).collect();
    assert_eq!(times, [1, 1, 0, 2_000_000, 2_000_000, 0], "each section has its own interfaces");
    assert_eq!(end, Ok(file.len() as u64));
}

#[test]
fn a_file_cut_at_any_byte_gives_all_whole_frames_and_says_where_it_ends() {
    for file in [pcap(false, 0xa1b2_c3d4, 1), pcap(true, 0xa1b2_3c4d, 1), pcapng(false, None, 1)] {
        let whole = read_all(&file, 1_000).0;
        for cut in 0..file.len() {
            let (frames, end) = read_all(&file[..cut], 1_000);
            assert_eq!(frames[..], whole[..frames.len()], "cut at {cut}");
            match end {
                Ok(offset) => assert_eq!(offset, cut as u64),
                Err(CaptureError::Truncated { offset, len }) => {
                    assert_eq!(offset + len as u64, cut as u64);
                }
                Err(error) => panic!("cut at {cut}: {error}"),
            }
        }
    }
}

#[test]
fn damage_is_told_with_its_place_after_all_that_comes_before_it() {
    let mut long = pcap(false, 0xa1b2_c3d4, 1);
    long[24 + 16 + 5 + 8..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
    let (frames, end) = read_all(&long, 9);
    let want = CaptureError::Length { offset: 45, len: u64::from(u32::MAX) };
    assert_eq!((frames.len(), end), (1, Err(want)));

    let stranger = block(false, 6, &words(false, &[9, 0, 0, 0, 0]));
    let mut file = pcapng(false, None, 1);
    let offset = file.len() as u64;
    file.extend(stranger);
    let (frames, end) = read_all(&file, 1_000);
    let what = "a packet of an interface that is not described";
    assert_eq!((frames.len(), end), (3, Err(CaptureError::Damaged { offset, what })));

    let (frames, end) = read_all(b"GIF89a and more", 100);
    assert_eq!((frames.len(), end), (0, Err(CaptureError::NotACapture { first: 0x4749_4638 })));
    assert_eq!(read_all(b"", 1).1, Err(CaptureError::Truncated { offset: 0, len: 0 }));
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn written(src: &str, dst: &str, payload: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    put_file_header(&mut file);
    let (src, dst) = (address(src), address(dst));
    let datagram = Datagram { ts_recv: Nanos(1_700_000_000_123_456_789), src, dst, payload };
    put_datagram(&mut file, &datagram).expect("it fits");
    file
}

#[test]
fn what_is_written_is_read_back() {
    for (src, dst) in [
        ("10.0.0.1:4000", "233.54.12.111:26477"),
        ("10.0.0.1:4000", "127.0.0.1:1"),
        ("[fe80::1]:4000", "[ff02::1:2]:26477"),
    ] {
        for payload in [&b""[..], b"x", &[7; 1_400]] {
            let file = written(src, dst, payload);
            let mut decoder = Decoder::new();
            let Ok(Decoded::Other { used }) = decoder.next(&file, true) else { panic!("a header") };
            let Ok(Decoded::Frame { frame, .. }) = decoder.next(&file[used..], true) else {
                panic!("a frame")
            };
            let got = datagram(&frame).expect("a datagram");
            assert_eq!((got.src, got.dst, got.payload), (address(src), address(dst), payload));
            assert_eq!(got.ts_recv, Nanos(1_700_000_000_123_456_789));
        }
    }
    let mixed = Datagram {
        ts_recv: Nanos(0),
        src: address("10.0.0.1:1"),
        dst: address("[::1]:1"),
        payload: b"",
    };
    let mut out = vec![1];
    assert!(matches!(put_datagram(&mut out, &mixed), Err(WriteError::Versions { .. })));
    let long = Datagram { payload: &[0; 65_530], dst: address("10.0.0.2:1"), ..mixed };
    assert!(matches!(put_datagram(&mut out, &long), Err(WriteError::TooLong { len: 65_530 })));
    assert_eq!(out, [1], "what is refused leaves nothing behind");
}

/// Extracts the datagram of a frame written by this module, with its link layer replaced by
/// another.
fn behind(link: LinkType, head: &[u8]) -> Result<Vec<u8>, FrameError> {
    let file = written("10.0.0.1:4000", "233.54.12.111:26477", b"payload");
    let data = [head, &file[24 + 16 + 14..]].concat();
    let frame = Frame { ts_recv: Nanos(0), link, data: &data, original_len: data.len() as u32 };
    datagram(&frame).map(|datagram| {
        assert_eq!(datagram.dst, address("233.54.12.111:26477"));
        datagram.payload.to_vec()
    })
}

#[test]
fn a_datagram_is_found_behind_each_link_layer() {
    let ethernet = [0; 12];
    let tag = [0x81, 0x00, 0x00, 0x05];
    let ip = [0x08, 0x00];
    for (link, head) in [
        (LinkType::ETHERNET, [&ethernet[..], &ip].concat()),
        (LinkType::ETHERNET, [&ethernet[..], &tag, &ip].concat()),
        (LinkType::ETHERNET, [&ethernet[..], &[0x88, 0xa8, 0, 1], &tag, &ip].concat()),
        (LinkType::LINUX_SLL, [&[0; 14][..], &ip].concat()),
        (LinkType::LINUX_SLL2, [&ip[..], &[0; 18]].concat()),
        (LinkType::RAW, Vec::new()),
        (LinkType::IPV4, Vec::new()),
        (LinkType::NULL, vec![2, 0, 0, 0]),
        (LinkType::LOOP, vec![0, 0, 0, 2]),
    ] {
        assert_eq!(behind(link, &head), Ok(b"payload".to_vec()), "{link:?} {head:x?}");
    }
    assert_eq!(behind(LinkType(105), &[]), Err(FrameError::Link(LinkType(105))));
}

#[test]
fn frames_that_hold_no_whole_datagram_say_why() {
    let file = written("10.0.0.1:4000", "10.0.0.2:5000", b"payload");
    let good = &file[24 + 16..];
    let check = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut data = good.to_vec();
        change(&mut data);
        let link = LinkType::ETHERNET;
        let frame = Frame { ts_recv: Nanos(0), link, data: &data, original_len: 0 };
        datagram(&frame).map(|datagram| datagram.payload.len())
    };
    assert_eq!(check(&|_| ()), Ok(7));
    assert_eq!(check(&|data| data.extend_from_slice(&[0; 9])), Ok(7), "padding of short frames");
    assert_eq!(check(&|data| data.truncate(45)), Err(FrameError::Cut { kept: 3, len: 7 }));
    assert_eq!(check(&|data| data.truncate(38)), Err(FrameError::Damaged));
    assert_eq!(check(&|data| data[14 + 6] = 0x20), Err(FrameError::Fragment));
    assert_eq!(check(&|data| data[14 + 9] = 6), Err(FrameError::Damaged), "too short for TCP");
    assert_eq!(check(&|data| data[14 + 9] = 47), Err(FrameError::NotUdp));
    assert_eq!(check(&|data| data[12] = 0x77), Err(FrameError::NotUdp));
    assert_eq!(check(&|data| data.truncate(3)), Err(FrameError::Damaged));
}

#[test]
fn a_day_file_gives_its_messages_and_says_where_it_is_cut() {
    let file = [0, 1, b'S', 0, 3, b'a', b'b', b'c', 0, 0, 0, 2, b'x'];
    assert_eq!(next_record(&file, 0, false), Ok(Record::Message { used: 3, message: b"S" }));
    assert_eq!(next_record(&file[3..], 3, false), Ok(Record::Message { used: 5, message: b"abc" }));
    assert_eq!(next_record(&file[8..], 8, false), Ok(Record::EndOfSession { used: 2 }));
    assert_eq!(next_record(&file[10..], 10, false), Ok(Record::More { len: 4 }));
    let cut = CaptureError::Truncated { offset: 10, len: 3 };
    assert_eq!(next_record(&file[10..], 10, true), Err(cut));
    assert_eq!(next_record(&file[..1], 0, false), Ok(Record::More { len: 2 }));
    assert_eq!(next_record(&[], 13, true), Ok(Record::End));
}

/// Found by the fuzz target: lengths of 9 to 11 are 12 when rounded up.
#[test]
fn a_block_shorter_than_its_own_frame_is_damage_at_its_place() {
    for len in 0_u8..12 {
        let mut file = pcapng(false, None, 1);
        let at = file.len() as u64;
        file.extend_from_slice(&[1, 0, 0, 128, len, 0, 0, 0, len, 0, 0, 0]);
        let (_, end) = read_all(&file, 64);
        assert_eq!(end, Err(CaptureError::Length { offset: at, len: u64::from(len) }));
    }
}

proptest! {
    #[test]
    fn no_byte_that_is_changed_makes_it_panic_or_read_on_forever(
        at in 0_usize..400, value: u8, kind in 0_usize..3, piece in 1_usize..40,
    ) {
        let pcaps = [pcap(false, 0xa1b2_c3d4, 1), pcap(true, 0xa1b2_3c4d, 1)];
        let files = [&pcaps[0], &pcaps[1], &pcapng(true, None, 1)];
        let mut file = files[kind].clone();
        let at = at % file.len();
        file[at] = value;
        let (frames, _) = read_all(&file, piece);
        prop_assert!(frames.len() <= file.len() / 12);
    }
}
