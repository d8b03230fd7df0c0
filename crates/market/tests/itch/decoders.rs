//! Every field of every message, compared with independent decoders.

use std::collections::BTreeMap;
use std::fmt::Write;

use weir_feed::capture::{Record, next_record};
use weir_feed::itch::layout::{TYPES, Value};
use weir_feed::itch::{Message, encode};
use weir_feed::moldudp64::{Messages, read_packet};
use weir_feed::{FeedError, PacketKind};

use crate::data::data;
use crate::udp_capture::payloads;

const FRAMES: &str = include_str!("../oracle/itch/frames.txt");
const FILES: &str = include_str!("../oracle/itch/files.txt");
const OWN: &str = include_str!("../oracle/itch/own.txt");
const OWN_DAY: &[u8] = include_bytes!("../oracle/itch/own_day.itch");
const MADE: &str = include_str!("../oracle/itch/made.txt");

/// Formats a message like the oracle's script.
fn line(bytes: &[u8]) -> String {
    let message = Message::new(bytes).expect("a message");
    let mut line = char::from(bytes[0]).to_string();
    message.visit(|_, value| match value {
        Value::Number(number) => write!(line, " {number}").expect("a string takes any text"),
        Value::Text(text, len) => {
            let text = str::from_utf8(&text[..len]).expect("ASCII");
            write!(line, " \"{text}\"").expect("a string takes any text");
        }
    });
    line
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16).expect("hex"))
        .collect()
}

/// Iterates over the synthetic messages: bytes and formatted line.
fn made() -> impl Iterator<Item = (Vec<u8>, &'static str)> {
    MADE.lines().map(|row| {
        let (hex, want) = row.split_once(' ').expect("bytes and fields");
        (bytes_of(hex), want)
    })
}

#[test]
fn made_up_messages_of_every_type_are_read_as_itchfeed_reads_them() {
    let mut kinds = BTreeMap::new();
    for (bytes, want) in made() {
        assert_eq!(line(&bytes), want);
        *kinds.entry(bytes[0]).or_insert(0) += 1;
    }
    let all: BTreeMap<u8, i32> = TYPES.iter().map(|(kind, _)| (*kind, 3)).collect();
    assert_eq!(kinds, all, "each type three times");
}

#[test]
fn what_is_written_is_what_was_read_in_every_type() {
    for (bytes, want) in made() {
        let mut out = Vec::new();
        encode::rewrite(Message::new(&bytes).expect("a message"), &mut out);
        assert_eq!(out, bytes, "{want}");
    }
}

#[test]
fn a_message_of_another_length_is_refused_at_every_length() {
    for (bytes, _) in made() {
        for len in 1..bytes.len() {
            let want = FeedError::Length { kind: [bytes[0], 0], len, want: bytes.len() };
            assert_eq!(Message::new(&bytes[..len]), Err(want));
        }
        let longer = [&bytes[..], b"\0"].concat();
        let len = longer.len();
        let want = FeedError::Length { kind: [bytes[0], 0], len, want: bytes.len() };
        assert_eq!(Message::new(&longer), Err(want));
    }
    assert_eq!(Message::new(b""), Err(FeedError::Length { kind: [0, 0], len: 0, want: 1 }));
}

#[test]
fn every_other_letter_is_an_unknown_type() {
    for kind in 0..=u8::MAX {
        let message = [kind; 36];
        let got = Message::new(&message);
        if TYPES.iter().any(|(known, _)| *known == kind) {
            assert_ne!(got, Err(FeedError::UnknownType { kind: [kind, 0] }));
        } else {
            assert_eq!(got, Err(FeedError::UnknownType { kind: [kind, 0] }));
        }
    }
}

/// Returns the formatted lines of one capture.
fn capture_lines(file: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    for datagram in payloads(file) {
        let packet = read_packet(datagram, 0).expect("a packet");
        assert_eq!(packet.kind, PacketKind::Data);
        for message in Messages::new(&packet) {
            let (sequence, message) = message.expect("whole messages");
            lines.push(format!("{sequence} {}", line(message)));
        }
    }
    lines
}

#[test]
fn every_real_frame_is_read_as_tshark_reads_it() {
    let mut checked = 0;
    let captures = FRAMES.strip_prefix("= ").expect("a capture's name");
    for capture in captures.split("\n= ") {
        let (name, want) = capture.split_once('\n').expect("a name and its messages");
        let Some(path) = data(name) else { return };
        let file = std::fs::read(&path).expect("the capture reads");
        let got = capture_lines(&file);
        assert_eq!(got, want.lines().collect::<Vec<_>>(), "{name}");
        checked += got.len();
    }
    assert_eq!(checked, 227, "messages in the captures");
}

/// Returns a file's summary line, formatted like the oracle's script, when read in pieces of
/// `piece_len`.
fn file_line(name: &str, file: &[u8], piece_len: usize) -> String {
    let mut counts = BTreeMap::new();
    let mut digest = 0xCBF2_9CE4_8422_2325_u64;
    let (mut messages, mut start, mut end) = (0, 0, piece_len.min(file.len()));
    loop {
        match next_record(&file[start..end], start as u64, end == file.len()).expect("it is whole")
        {
            Record::Message { used, message } => {
                *counts.entry(message[0]).or_insert(0) += 1;
                for byte in line(message).bytes().chain([b'\n']) {
                    digest = (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
                }
                (messages, start) = (messages + 1, start + used);
            }
            Record::EndOfSession { used } => start += used,
            Record::More { .. } => end = (end + piece_len).min(file.len()),
            Record::End => break,
        }
    }
    let mut text = format!("{name} {messages} {digest:016x}");
    for (kind, count) in counts {
        write!(text, " {}:{count}", char::from(kind)).expect("a string takes any text");
    }
    text
}

#[test]
fn the_day_that_weir_publishes_is_read_as_itchfeed_reads_it() {
    assert_eq!(file_line("own_day.itch", OWN_DAY, OWN_DAY.len()), OWN.trim_end());
}

#[test]
fn files_of_a_day_are_read_as_itchfeed_reads_them() {
    for want in FILES.lines() {
        let name = want.split(' ').next().expect("a name");
        let Some(path) = data(name) else { return };
        let file = std::fs::read(&path).expect("the file reads");
        for piece_len in [7, 4096, file.len()] {
            assert_eq!(file_line(name, &file, piece_len), want, "in pieces of {piece_len}");
        }
    }
}
