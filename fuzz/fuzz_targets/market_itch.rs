//! Arbitrary bytes as a datagram of MoldUDP64 with ITCH 5.0, as a file of messages, as requests,
//! and as either side of a GLIMPSE session; and the names of Weir's own sessions.
//!
//! Checks that nothing panics, that an error leaves the sink unchanged, that a decoded message
//! encodes to the same bytes, and that a file read in pieces equals the file read at once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_feed::itch::layout::TYPES;
use weir_feed::itch::{Itch, Message, encode};
use weir_feed::moldudp64::{Messages, MoldSession, Request, SESSION_LEN, read_packet};
use weir_feed::session_name::SessionName;
use weir_feed::soupbin::{Access, Glimpse, Inbox, Login, SnapshotServer, SoupPacket};
use weir_feed::weir::Weir;
use weir_feed::{CollectedUpdates, Context, Feed};
use weir_fuzz::Recipe;
use weir_types::Nanos;

fn decode(message: &[u8]) {
    let mut sink = CollectedUpdates::default();
    let context = Context { sequence: 1, channel: 0, ts_send: Nanos(0) };
    let decoded = Itch::new(Nanos(1)).decode(&context, message, &mut sink);
    if decoded.is_err() {
        assert!(sink.updates.is_empty() && sink.definitions.is_empty());
    }
    if let Ok(read) = Message::new(message) {
        read.visit(|_, _| ());
        let mut written = Vec::new();
        encode::rewrite(read, &mut written);
        assert_eq!(written, message);
    }
}

fn datagram(bytes: &[u8]) {
    let _ = Request::read(bytes);
    let Ok(packet) = read_packet(bytes, 0) else { return };
    for message in Messages::new(&packet) {
        let Ok((_, message)) = message else { break };
        decode(message);
    }
}

/// Decodes messages of known types and lengths with arbitrary content.
fn shaped(bytes: &[u8]) {
    let mut recipe = Recipe::new(bytes);
    while !recipe.is_empty() {
        let (kind, len) = TYPES[usize::from(recipe.byte()) % TYPES.len()];
        let mut message = vec![kind];
        message.extend((1..len).map(|_| recipe.byte()));
        decode(&message);
    }
}

fn session(bytes: &[u8]) {
    let login = Login::new("fuzz", "fuzz").expect("printable");
    let mut client = Glimpse::new(login, Nanos(0));
    let mut inbox = Inbox::new();
    for piece in bytes.chunks(11) {
        inbox.push(piece);
        while let Some(packet) = inbox.take() {
            if let Ok(read) = SoupPacket::read(packet) {
                let mut written = Vec::new();
                assert!(read.write(&mut written));
                assert_eq!(SoupPacket::read(&written[2..]), Ok(read));
            }
            let was_over = client.is_over();
            assert!(client.take(packet, Nanos(1)).is_ok() || !was_over);
        }
    }
}

/// Plays a client's bytes to a snapshot server.
fn client(bytes: &[u8]) {
    let access = Access::Only(Login::new("fuzz", "fuzz").expect("printable"));
    let mut server = SnapshotServer::new(Nanos(0));
    let (mut inbox, mut is_over) = (Inbox::new(), false);
    let ours = Some(MoldSession(*b"10SA000001"));
    for piece in bytes.chunks(11) {
        inbox.push(piece);
        while let Some(packet) = inbox.take() {
            let taken = server.take(packet, &access, ours, Nanos(1));
            assert!(!is_over || taken != Ok(true), "nobody is let in once it is over");
            assert!(!server.is_serving() || taken.is_ok());
            is_over |= taken.is_err();
        }
    }
}

fn own_session(bytes: &[u8]) {
    let Some(name) = bytes.first_chunk::<SESSION_LEN>().copied().map(MoldSession) else { return };
    let near = bytes[SESSION_LEN..].first_chunk().map_or(0, |near| u64::from_le_bytes(*near));
    if let Some(read) = SessionName::read(name) {
        let _ = read.midnight(Nanos(near));
    }
    let mut feed = Weir::new();
    feed.begin_session(name, Nanos(near));
    let _ = feed.packet(bytes);
}

fuzz_target!(|bytes: &[u8]| {
    datagram(bytes);
    shaped(bytes);
    session(bytes);
    // With a valid login, which blind mutation does not find.
    session(&[b"\0\x1fA         S                   1", bytes].concat());
    client(bytes);
    client(&[b"\0\x2fLfuzz  fuzz                                   1", bytes].concat());
    own_session(bytes);
});
