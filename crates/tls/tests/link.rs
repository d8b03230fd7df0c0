//! Links over a stream in memory that moves as many bytes at a time as the test sets.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};

use proptest::prelude::*;
use weir_tls::authority::{Authority, Usage};
use weir_tls::client::Trust;
use weir_tls::link::{SCRATCH_LEN, UNSENT_MAX};
use weir_tls::{ClientTls, Failure, Link, LinkError, ServerFiles, ServerTls};

/// One end of a stream: the bytes to read, the bytes written, and its limits.
struct Pipe {
    to_read: VecDeque<u8>,
    written: VecDeque<u8>,
    /// The most bytes that one read or write moves.
    step: usize,
    /// The most bytes written that the other end has not read.
    room: usize,
    ended: bool,
}

impl Pipe {
    fn new(step: usize, room: usize) -> Pipe {
        Pipe { to_read: VecDeque::new(), written: VecDeque::new(), step, room, ended: false }
    }
}

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = into.len().min(self.step).min(self.to_read.len());
        if len == 0 && !into.is_empty() {
            return if self.ended { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
        }
        for byte in &mut into[..len] {
            *byte = self.to_read.pop_front().expect("so many are there");
        }
        Ok(len)
    }
}

impl Write for Pipe {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let len = from.len().min(self.step).min(self.room - self.written.len());
        if len == 0 && !from.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.written.extend(&from[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An end: its link and its stream.
struct End {
    link: Link,
    pipe: Pipe,
}

impl End {
    fn read(&mut self, into: &mut [u8]) -> Result<weir_tls::link::ReadOutcome, LinkError> {
        self.link.read(&mut self.pipe, into, &mut vec![0; SCRATCH_LEN])
    }

    /// Reads all available bytes in pieces of `room`, and the error at the end, if there is one.
    fn read_all(&mut self, room: usize) -> (Vec<u8>, Option<LinkError>) {
        let (mut all, mut into) = (Vec::new(), vec![0; room]);
        loop {
            match self.read(&mut into) {
                Ok(taken) => {
                    all.extend_from_slice(&into[..taken.len]);
                    // A stream that has ended reports it at the next read.
                    if !taken.more && !self.pipe.ended {
                        return (all, None);
                    }
                }
                Err(end) => return (all, Some(end)),
            }
        }
    }

    /// Moves the bytes written to the other end's stream.
    fn deliver(&mut self, to: &mut End) {
        to.pipe.to_read.extend(self.pipe.written.drain(..));
    }
}

fn ends(step: usize, room: usize) -> (End, End) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let authority = Authority::new("test").unwrap();
    let signed = authority.sign(&["weir.test"], Usage::Server).unwrap();
    std::fs::write(path("ca"), authority.certificate()).unwrap();
    std::fs::write(path("certificate"), signed.certificate).unwrap();
    std::fs::write(path("key"), signed.key).unwrap();
    let of_owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(path("key"), of_owner).unwrap();
    let server = ServerTls::load(&ServerFiles {
        certificate: path("certificate"),
        key: path("key"),
        client_ca: None,
        client_required: false,
    });
    let client = ClientTls::new(Trust::Authority(&path("ca")), "weir.test");
    let end = |link| End { link, pipe: Pipe::new(step, room) };
    (end(client.unwrap().connect().unwrap()), end(server.unwrap().accept().unwrap()))
}

/// Two ends after a complete handshake.
fn agreed(step: usize, room: usize) -> (End, End) {
    let (mut client, mut server) = ends(step, room);
    let mut scratch = vec![0; SCRATCH_LEN];
    loop {
        let ready = client.link.handshake(&mut client.pipe, &mut scratch).unwrap();
        client.deliver(&mut server);
        if server.link.handshake(&mut server.pipe, &mut scratch).unwrap() && ready {
            server.deliver(&mut client);
            return (client, server);
        }
        server.deliver(&mut client);
    }
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 % 251) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// For any step of the stream and any room of the reader.
    #[test]
    fn what_one_end_writes_the_other_reads(
        len in 0_usize..150_000,
        chunk in 1_usize..40_000,
        step in 1_usize..40_000,
        pipe_room in 64_usize..40_000,
        reader_room in 1_usize..70_000,
    ) {
        let (mut client, mut server) = agreed(step, pipe_room);
        let (sent, mut got) = (text(len), Vec::new());
        let mut at = 0;
        while got.len() < len || client.link.unsent_len() > 0 {
            let end = len.min(at + chunk);
            at += client.link.write(&mut client.pipe, &sent[at..end]).unwrap().len;
            client.deliver(&mut server);
            let (bytes, end) = server.read_all(reader_room);
            prop_assert!(end.is_none(), "{end:?}");
            got.extend_from_slice(&bytes);
        }
        prop_assert_eq!(got, sent);
    }
}

#[test]
fn a_stream_that_takes_nothing_leaves_a_bounded_number_of_bytes_in_records() {
    let (mut client, _) = agreed(1 << 20, 1 << 20);
    client.pipe.room = 0;
    let bytes = text(1 << 20);
    let mut taken = 0;
    for _ in 0..10 {
        let written = client.link.write(&mut client.pipe, &bytes[taken..]).unwrap();
        assert!(written.blocked && !written.moved);
        taken += written.len;
    }
    assert!(taken <= UNSENT_MAX && client.link.unsent_len() == taken, "{taken}");
}

#[test]
fn many_records_in_one_read_are_taken_by_as_many_reads_as_the_room_needs() {
    let (mut client, mut server) = agreed(1 << 20, 1 << 20);
    for _ in 0..1_000 {
        client.link.write(&mut client.pipe, b"frame").unwrap();
    }
    client.deliver(&mut server);
    let (bytes, end) = server.read_all(3);
    assert_eq!((bytes, end.is_none()), (b"frame".repeat(1_000), true));
}

#[test]
fn an_end_comes_behind_all_that_was_said_before_it() {
    // With close_notify, with a cut between records, with a cut inside a record.
    for (farewell, cut) in [(true, 0), (false, 0), (false, 1)] {
        let (mut client, mut server) = agreed(1 << 20, 1 << 20);
        client.link.write(&mut client.pipe, b"last words").unwrap();
        if farewell {
            client.link.say_farewell();
        }
        client.link.write(&mut client.pipe, if cut > 0 { b"and more" } else { b"" }).unwrap();
        for _ in 0..cut {
            client.pipe.written.pop_back();
        }
        client.deliver(&mut server);
        server.pipe.ended = true;
        let (bytes, end) = server.read_all(64);
        assert_eq!(bytes, b"last words");
        let end = end.expect("the stream has ended");
        assert_eq!(matches!(end, LinkError::Closed), farewell, "{end:?}");
        assert_eq!(matches!(end, LinkError::Truncated), !farewell, "{end:?}");
    }
}

#[test]
fn a_bit_that_was_turned_ends_the_link_behind_what_was_whole() {
    let (mut client, mut server) = agreed(1 << 20, 1 << 20);
    client.link.write(&mut client.pipe, b"whole").unwrap();
    client.link.write(&mut client.pipe, b"changed").unwrap();
    *client.pipe.written.back_mut().unwrap() ^= 1;
    client.deliver(&mut server);
    let (bytes, end) = server.read_all(64);
    assert_eq!(bytes, b"whole");
    assert!(matches!(end, Some(LinkError::Tls(_))), "{end:?}");
    // The other end receives the reason.
    server.link.write(&mut server.pipe, b"").unwrap();
    server.deliver(&mut client);
    let (_, end) = client.read_all(64);
    assert!(end.unwrap().to_string().contains("BadRecordMac"));
}

#[test]
fn what_is_no_tls_is_known_by_its_kind() {
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 64], &[0xff; 64], b"\0\0\0\x4e\xebP"] {
        let (_, mut server) = ends(1 << 20, 1 << 20);
        server.pipe.to_read.extend(bytes);
        let mut scratch = vec![0; SCRATCH_LEN];
        let error = server.link.handshake(&mut server.pipe, &mut scratch).unwrap_err();
        assert_eq!(Failure::of(&error), Failure::NotTls, "{bytes:?}: {error}");
    }
}

#[test]
fn a_reader_with_little_room_loses_nothing_of_a_full_read() {
    let (mut client, mut server) = agreed(1 << 20, 1 << 20);
    let sent = text(30_000);
    // Three records: decrypting the second exceeds the bytes that a link decrypts ahead.
    for record in sent.chunks(10_000) {
        client.link.write(&mut client.pipe, record).unwrap();
    }
    client.deliver(&mut server);
    let (got, end) = server.read_all(1_000);
    assert!(got == sent && end.is_none(), "{} bytes, then {end:?}", got.len());
}
