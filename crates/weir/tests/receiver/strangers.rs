//! Datagrams that are not packets of the feed, belong to another session, or have wrong lengths.

use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use weir_feed::FeedError;
use weir_feed::line::{Line, State};
use weir_feed::moldudp64::{MoldSession, PacketWriter, PushOutcome};
use weir_marketgate::receiver::{ChannelEvent, FeedSection, Receiver};
use weir_marketgate::udp::{Listen, listen, sender};
use weir_types::Nanos;

use crate::day::Day;
use crate::market::Market;
use crate::rig::{MILLISECOND, Parts, Rig, address_of, own_group};
use crate::venue::Faults;

/// The real-time limit of every wait.
const LIMIT: Duration = Duration::from_secs(60);

fn rig(parts: Parts) -> Rig {
    let mut rig = Rig::new(Day::made_up(1, 1_000, 2), Faults::default(), parts);
    rig.publish(500);
    rig
}

/// Returns a packet with these messages, numbered as the session's next.
fn packet(rig: &Rig, messages: &[&[u8]]) -> Vec<u8> {
    let next = rig.venue.published as u64 + 1;
    let mut writer = PacketWriter::new(rig.venue.session, next, 1_400);
    messages.iter().for_each(|message| assert_eq!(writer.push(message), PushOutcome::Added));
    writer.take(<[u8]>::to_vec).expect("a message")
}

#[test]
fn trash_is_counted_and_changes_nothing() {
    let mut rig = rig(Parts::default());
    for trash in [&b""[..], b"x", &[0; 19]] {
        rig.venue.send(0, trash);
        rig.venue.send(1, trash);
    }
    rig.drain();
    let strangers: u64 = rig.receiver.sockets().map(|(_, socket)| socket.counts.strangers).sum();
    assert_eq!((strangers, rig.receiver.decode_counts().header), (6, 6));
    assert!(matches!(rig.receiver.last_error(), Some(FeedError::ShortPacket { len: 19, .. })));
    // Sequence numbers at the end of their range are malformed too.
    let mut wild = rig.venue.session.0.to_vec();
    wild.extend_from_slice(&[0xff; 8]);
    wild.extend_from_slice(&[0, 9]);
    rig.venue.send(0, &wild);
    rig.drain();
    assert_eq!(rig.channel().counts.malformed_packets, 1);
    rig.publish_all();
    rig.assert_equal();
}

#[test]
fn late_packets_of_a_session_that_is_over_change_nothing() {
    let mut rig = rig(Parts::default());
    let old = packet(&rig, &[b"?late"]);
    rig.venue.restart("DAY2");
    rig.publish(300);
    rig.venue.send(0, &old);
    rig.publish(300);
    assert_eq!(rig.channel().counts.old_session_packets, 1);
    assert_eq!(rig.market.state, State::Live);
    rig.publish_all();
    rig.assert_equal();
}

#[test]
fn a_stranger_to_the_answers_begins_no_session() {
    let mut rig = rig(Parts { requests: true, ..Parts::default() });
    rig.venue.is_dead = [true; 2];
    rig.publish(20);
    rig.venue.is_dead = [false; 2];
    // An answer of another session arrives before the venue's own.
    let session = rig.venue.session;
    rig.venue.session = MoldSession::new("OTHER").expect("a name");
    rig.publish(20);
    rig.pass(2 * MILLISECOND);
    rig.venue.session = session;
    rig.pass(60 * MILLISECOND);
    assert_eq!(rig.channel().counts.sessions, 1);
    rig.publish_all();
    rig.assert_equal();
}

#[test]
fn lengths_and_types_that_lie_mark_the_books_where_these_need_the_message() {
    let add = [b'A'; 35];
    let short = packet(&rig(Parts::default()), &[&add]);
    let (mut cut, mut trailing) = (short.clone(), short.clone());
    cut.truncate(cut.len() - 1);
    trailing.push(0);
    let mut more = short.clone();
    more[19] = 2;
    let unknown = packet(&rig(Parts::default()), &[b"?what"]);
    // A type that no book needs: `N`, retail interest.
    let unneeded = packet(&rig(Parts::default()), &[b"N"]);
    for (datagram, is_marked, want) in [
        (&short, true, "length"),
        (&cut, true, "truncated"),
        (&more, true, "truncated"),
        (&trailing, true, "length"),
        (&unknown, false, "type"),
        (&unneeded, false, "length"),
    ] {
        let mut rig = rig(Parts::default());
        rig.venue.send(0, datagram);
        rig.drain();
        let counts = *rig.receiver.decode_counts();
        let count = match want {
            "length" => counts.length,
            "truncated" => counts.truncated,
            _ => counts.unknown_type,
        };
        assert!(count >= 1, "{want}: {counts:?}");
        assert!(!rig.market.refused.is_empty());
        let damaged = rig.market.count(|event| *event == ChannelEvent::Damaged);
        assert_eq!((rig.market.is_marked, damaged > 0), (is_marked, is_marked), "{want}");
        let want = if is_marked { State::Stale } else { State::Live };
        assert_eq!(rig.market.state, want);
        assert!(rig.market.is_whole());
    }
}

#[test]
fn what_a_snapshot_can_heal_it_does_when_a_message_was_not_understood() {
    let mut rig = rig(Parts { snapshots: true, ..Parts::default() });
    let forged = packet(&rig, &[&[b'A'; 35]]);
    rig.venue.send(0, &forged);
    rig.publish(100);
    rig.until("the snapshot joins", |rig| rig.snapshots().joined == 1);
    rig.publish_all();
    rig.assert_equal();
}

#[test]
fn a_line_takes_what_its_source_sends_and_nothing_else() {
    for (source, is_heard) in [("127.0.0.1", true), ("127.0.0.9", false)] {
        for address in ["127.0.0.1:0".to_owned(), own_group()] {
            let text =
                format!("name = \"itch\"\n[[lines]]\na = \"{address}\"\na_source = \"{source}\"");
            let section = FeedSection::parse(&text).expect("it is right");
            let mut receiver = Receiver::open(&section).expect("it opens");
            let to = address_of(&receiver, Line::A);
            let mut market = Market::new(Rc::new(Day::default()));
            let heartbeat = PacketWriter::new(MoldSession::new("DAY1").expect("a name"), 1, 100)
                .heartbeat()
                .to_vec();
            let socket = sender(Ipv4Addr::LOCALHOST, 0).expect("a sender");
            // Another listener of the group shows that the datagram has arrived.
            let SocketAddr::V4(address) = to else { panic!("{to}") };
            let (interface, wait) = (Ipv4Addr::LOCALHOST, Some(LIMIT));
            let other = address.ip().is_multicast().then(|| {
                let to = Listen { address, interface, receive_buffer: 1 << 16, wait };
                listen(&to).expect("it listens")
            });
            socket.send_to(&heartbeat, to).expect("it sends");
            if let Some(other) = &other {
                other.recv(&mut [0; 100]).expect("it came");
            }
            let is_taken = |receiver: &Receiver| {
                let counts = receiver.sockets().next().expect("one").1.counts;
                counts.received.datagrams > 0 || (other.is_some() && !is_heard)
            };
            let limit = Instant::now() + LIMIT;
            receiver.poll(Nanos(1), &mut market);
            while !is_taken(&receiver) {
                receiver.poll(Nanos(1), &mut market);
                assert!(Instant::now() < limit, "nothing came: {text}");
            }
            assert_eq!(receiver.channels().next().is_some(), is_heard, "{text}");
        }
    }
}
