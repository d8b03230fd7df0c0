//! Scenarios: packets in, and the exact log of deliveries and events out.

use std::fmt::Write as _;

use weir_types::Nanos;

use super::*;
use crate::{Packet, PacketKind};

/// Logs each delivery and event as one word.
#[derive(Default)]
struct Log(String);

impl Handler for Log {
    fn deliver(&mut self, run: &Run<'_>) {
        let (from, to) = (run.sequence, run.sequence + u64::from(run.count));
        let first = usize::try_from(run.skip).expect("few");
        assert_eq!(u64::from(run.messages[first]), from % 251, "another message than said");
        let _ = write!(self.0, "{from}..{to} ");
    }

    fn event(&mut self, channel: u32, event: &Event) {
        assert_eq!(channel, 5);
        let _ = match event {
            Event::State { to, .. } => write!(self.0, "{to:?} "),
            Event::Gap { from, to } => write!(self.0, "gap:{from}..{to} "),
            Event::Request { sequence, count, session } => {
                write!(self.0, "ask:{session}:{sequence}+{count} ")
            }
            Event::Stale { from, to, reason, session } => {
                write!(self.0, "lost:{session}:{from}..{to}:{reason:?} ")
            }
            Event::Joined { next } => write!(self.0, "joined:{next} "),
            Event::Session { session } => write!(self.0, "session:{session} "),
            Event::EndOfSession { next, .. } => write!(self.0, "end:{next} "),
        };
    }
}

struct Scene {
    channel: Channel,
    log: Log,
    now: u64,
    session: u64,
    /// The send time by the venue's clock.
    sent: Nanos,
}

impl Scene {
    fn new(config: LineConfig) -> Scene {
        let (channel, sent) = (Channel::new(5, config), Nanos(0));
        Scene { channel, log: Log::default(), now: 0, session: 1, sent }
    }

    /// Returns the log since the last call.
    fn said(&mut self) -> String {
        std::mem::take(&mut self.log.0).trim_end().to_owned()
    }

    fn send(&mut self, line: Line, kind: PacketKind, from: u64, to: u64) -> String {
        let messages: Vec<u8> = (from..to).map(|number| (number % 251) as u8).collect();
        let packet = Packet {
            channel: 5,
            session: self.session,
            sequence: from,
            count: (to - from) as u32,
            kind,
            ts_send: self.sent,
            stream_offset: None,
            messages: &messages,
        };
        self.channel.packet(line, &packet, Nanos(self.now), &mut self.log);
        self.said()
    }

    fn a(&mut self, from: u64, to: u64) -> String {
        self.send(Line::A, PacketKind::Data, from, to)
    }

    fn b(&mut self, from: u64, to: u64) -> String {
        self.send(Line::B, PacketKind::Data, from, to)
    }

    fn again(&mut self, from: u64, to: u64) -> String {
        self.send(Line::Retransmission, PacketKind::Data, from, to)
    }

    fn heartbeat(&mut self, next: u64) -> String {
        self.send(Line::A, PacketKind::Heartbeat, next, next)
    }

    fn at(&mut self, now: u64) -> String {
        self.now = now;
        self.channel.tick(Nanos(now), &mut self.log);
        self.said()
    }
}

fn config() -> LineConfig {
    let request =
        RequestConfig { count_max: 4, interval: Nanos(10), timeout: Nanos(100), attempts_max: 2 };
    LineConfig {
        held_packets_max: 3,
        held_bytes_max: 20,
        reorder: Nanos(50),
        give_up: Nanos(1_000),
        request: Some(request),
        gap_messages_max: 100,
        late_join: LateJoin::FromStart,
    }
}

#[test]
fn the_first_copy_wins_on_whichever_line_it_comes() {
    let mut scene = Scene::new(config());
    assert_eq!(scene.a(1, 4), "session:1 1..4 Live");
    assert_eq!(scene.b(1, 4), "");
    assert_eq!(scene.b(3, 6), "4..6", "packets need not be cut alike");
    assert_eq!(scene.a(4, 6), "");
    let [a, b, _] = scene.channel.counts().lines;
    assert_eq!((a.first, a.duplicate, a.lost), (3, 2, 0));
    assert_eq!((b.first, b.duplicate, b.lost), (2, 4, 0));
    assert_eq!(scene.channel.counts().delivered, 5);
}

#[test]
fn what_one_line_lost_the_other_fills_before_anything_is_asked_for() {
    let mut scene = Scene::new(config());
    scene.a(1, 3);
    assert_eq!(scene.a(5, 7), "gap:3..5 Gap");
    assert_eq!(scene.at(49), "");
    assert_eq!(scene.b(3, 5), "3..5 5..7 Live");
    assert_eq!(scene.channel.counts().lines[0].lost, 2);
    assert_eq!(scene.channel.counts().gaps_filled, 1);
    assert_eq!(scene.channel.deadline(), None);
}

#[test]
fn a_hole_is_asked_for_in_parts_with_pauses_and_again_and_then_given_up() {
    let mut scene = Scene::new(config());
    scene.a(1, 3);
    assert_eq!(scene.a(9, 10), "gap:3..9 Gap");
    assert_eq!(scene.channel.deadline(), Some(Nanos(50)));
    assert_eq!(scene.at(50), "ask:1:3+4");
    assert_eq!(scene.at(59), "", "a pause between requests");
    assert_eq!(scene.at(60), "ask:1:7+2");
    assert_eq!(scene.at(149), "");
    assert_eq!(scene.at(150), "ask:1:3+4", "no answer: the same again");
    assert_eq!(scene.again(3, 5), "3..5", "an answer may be a part");
    assert_eq!(scene.at(160), "ask:1:5+4", "the rest is asked for");
    assert_eq!(scene.channel.deadline(), Some(Nanos(260)));
    assert_eq!(
        scene.at(260),
        "ask:1:5+4".replace("ask", "lost").replace("5+4", "5..9:Unanswered") + " 9..10 Stale"
    );
    assert_eq!(scene.again(5, 9), "", "too late");
    assert_eq!(scene.channel.counts().lines[2].late, 4);
    assert_eq!(scene.channel.counts().lost, 4);
}

#[test]
fn two_holes_are_asked_for_without_waiting_for_the_first_answer() {
    let mut scene = Scene::new(config());
    scene.a(1, 2);
    scene.a(3, 4);
    assert_eq!(scene.a(6, 7), "");
    assert_eq!(scene.at(50), "ask:1:2+1");
    assert_eq!(scene.at(60), "ask:1:4+2");
    assert_eq!(scene.again(4, 6), "", "the second answer first");
    assert_eq!(scene.again(2, 3), "2..3 3..4 4..6 6..7 Live");
}

#[test]
fn a_heartbeat_and_the_end_of_a_session_show_what_is_missing_at_the_end() {
    let mut scene = Scene::new(config());
    scene.a(1, 3);
    assert_eq!(scene.heartbeat(5), "gap:3..5 Gap");
    assert_eq!(scene.b(3, 5), "3..5 Live");
    let end = scene.send(Line::A, PacketKind::EndOfSession, 6, 6);
    assert_eq!(end, "gap:5..6 Gap");
    assert_eq!(scene.b(5, 6), "5..6 Ended end:6");
    assert_eq!(scene.send(Line::B, PacketKind::EndOfSession, 6, 6), "", "told once");
}

#[test]
fn where_the_venue_begins_its_numbers_anew_both_lines_do_and_nothing_of_before_comes_back() {
    let mut scene = Scene::new(config());
    let mut send = |line, kind, (from, to), second: u64| {
        scene.sent = Nanos(second * 1_000_000_000);
        scene.send(line, kind, from, to)
    };
    send(Line::A, PacketKind::Data, (1, 4), 10);
    assert_eq!(send(Line::A, PacketKind::Data, (6, 7), 11), "gap:4..6 Gap");
    let reset = send(Line::A, PacketKind::Reset, (1, 2), 20);
    assert_eq!(reset, "lost:1:4..6:SessionOver 6..7 session:1 1..2 Live");
    assert_eq!(send(Line::B, PacketKind::Data, (4, 6), 10), "", "from before, and too late");
    assert_eq!(send(Line::B, PacketKind::Reset, (1, 2), 20), "", "the same on the other line");
    assert_eq!(send(Line::B, PacketKind::Data, (2, 5), 21), "2..5");
    assert_eq!(send(Line::A, PacketKind::Reset, (9, 10), 30), "session:1 9..10", "another day");
    assert_eq!(scene.channel.counts().old_session_packets, 1);
}

#[test]
fn without_a_server_time_alone_gives_a_hole_up() {
    let mut scene = Scene::new(LineConfig { request: None, ..config() });
    scene.a(1, 3);
    scene.a(5, 6);
    assert_eq!(scene.channel.deadline(), Some(Nanos(1_000)));
    assert_eq!(scene.at(999), "");
    assert_eq!(scene.at(1_000), "lost:1:3..5:Timeout 5..6 Stale");
    assert_eq!(scene.a(6, 7), "6..7", "newer ones go on, STALE");
}

#[test]
fn when_there_is_no_room_the_first_hole_is_given_up_and_nothing_that_came() {
    let mut scene = Scene::new(config());
    scene.a(1, 2);
    scene.a(3, 4);
    scene.a(5, 6);
    scene.a(7, 8);
    assert_eq!(scene.a(9, 10), "lost:1:2..3:NoRoom 3..4 gap:4..5");
    assert_eq!(scene.channel.held_len(), 3);
    let mut scene = Scene::new(config());
    scene.a(1, 2);
    assert_eq!(scene.a(10, 40), "lost:1:2..10:NoRoom 10..40 Stale", "longer than all room");
}

#[test]
fn a_hole_that_is_too_large_is_neither_waited_nor_asked_for() {
    let mut scene = Scene::new(config());
    scene.a(1, 2);
    assert_eq!(scene.a(200, 201), "gap:2..200 lost:1:2..200:TooMany 200..201 Stale");
}

#[test]
fn a_late_listener_begins_where_it_is_or_asks_for_all() {
    let mut scene = Scene::new(config());
    assert_eq!(scene.a(9, 10), "session:1 gap:1..9 Gap");
    let mut scene = Scene::new(LineConfig { late_join: LateJoin::FromHere, ..config() });
    assert_eq!(scene.a(9, 10), "session:1 lost:1:1..9:JoinedLate 9..10 Stale");
    let mut scene = Scene::new(LineConfig { late_join: LateJoin::FromHere, ..config() });
    assert_eq!(scene.heartbeat(1), "session:1 Live", "nothing was sent yet");
}

#[test]
fn a_snapshot_joins_what_waited_for_it() {
    let mut scene = Scene::new(LineConfig { late_join: LateJoin::FromHere, ..config() });
    scene.a(9, 10);
    scene.channel.begin_recovery(&mut scene.log);
    assert_eq!(scene.said(), "Recovering");
    assert_eq!(scene.a(10, 12), "");
    assert_eq!(scene.a(12, 15), "");
    let Scene { channel, log, .. } = &mut scene;
    assert!(!channel.join(2, 14, Nanos(0), log), "of another session");
    assert!(channel.join(1, 14, Nanos(0), log));
    assert_eq!(scene.said(), "joined:14 14..15 Live");
    assert_eq!(scene.a(15, 16), "15..16");
}

#[test]
fn what_is_missing_between_a_snapshot_and_what_waited_is_a_hole_like_any_other() {
    let mut scene = Scene::new(config());
    scene.a(1, 2);
    scene.channel.begin_recovery(&mut scene.log);
    scene.said();
    for from in [4, 5, 6, 7] {
        scene.a(from, from + 1);
    }
    assert_eq!(scene.channel.counts().dropped, 1, "the oldest goes when there is no room");
    assert!(scene.channel.join(1, 3, Nanos(0), &mut scene.log));
    assert_eq!(scene.said(), "joined:3 gap:3..5 Gap");
    assert_eq!(scene.b(3, 5), "3..5 5..6 6..7 7..8 Live");
}

#[test]
fn a_snapshot_before_the_first_packet_is_where_the_lines_join() {
    let mut scene = Scene::new(config());
    assert!(scene.channel.join(1, 8, Nanos(0), &mut scene.log));
    assert_eq!(scene.said(), "joined:8 Live");
    assert_eq!(scene.a(7, 9), "8..9");
}

#[test]
fn a_snapshot_that_failed_leaves_the_channel_stale_and_what_waited_goes_on() {
    let mut scene = Scene::new(config());
    scene.a(1, 2);
    scene.channel.begin_recovery(&mut scene.log);
    scene.a(2, 3);
    scene.said();
    scene.channel.abandon_recovery(Nanos(0), &mut scene.log);
    assert_eq!(scene.said(), "2..3 Stale");
    let mut scene = Scene::new(config());
    scene.a(1, 2);
    scene.channel.mark_stale(&mut scene.log);
    assert_eq!(scene.said(), "Stale");
}

#[test]
fn a_new_session_begins_anew_and_the_old_one_is_over() {
    let mut scene = Scene::new(config());
    scene.a(1, 3);
    scene.a(5, 6);
    scene.session = 2;
    let said = scene.a(1, 2);
    assert_eq!(said, "lost:1:3..5:SessionOver 5..6 session:2 1..2 Live");
    scene.session = 1;
    assert_eq!(scene.b(5, 6), "", "an old session's packet that says nothing new");
    assert_eq!(scene.b(7, 9), "lost:1:6..9:SessionOver", "what nobody will get is told");
    assert_eq!(scene.channel.counts().old_session_packets, 2);
    scene.session = 3;
    assert_eq!(scene.again(1, 2), "", "an answer begins no session");
    assert_eq!(scene.channel.counts().foreign_packets, 1);
    scene.session = 2;
    assert_eq!(scene.a(2, 3), "2..3");
}

#[test]
fn numbers_that_make_no_sense_are_counted_and_change_nothing() {
    let mut scene = Scene::new(config());
    scene.a(1, 3);
    let mut packet = Packet {
        channel: 5,
        session: 1,
        sequence: u64::MAX,
        count: 2,
        kind: PacketKind::Data,
        ts_send: Nanos(0),
        stream_offset: None,
        messages: &[],
    };
    scene.channel.packet(Line::A, &packet, Nanos(0), &mut scene.log);
    (packet.sequence, packet.count) = (0, 1);
    scene.channel.packet(Line::A, &packet, Nanos(0), &mut scene.log);
    assert_eq!(scene.said(), "");
    assert_eq!(scene.channel.counts().malformed_packets, 2);
    assert_eq!(scene.a(3, 4), "3..4");
}

#[test]
fn sessions_that_lose_all_numbers_that_there_are_lose_the_greatest_number_together() {
    let mut scene = Scene::new(config());
    for session in [1, 2] {
        scene.session = session;
        scene.a(1, 2);
        let said = scene.heartbeat(u64::MAX);
        let lost = format!("lost:{session}:2..{}:TooMany", u64::MAX);
        assert!(said.contains(&lost), "{said}");
    }
    assert_eq!(scene.channel.counts().lost, u64::MAX);
    assert_eq!(scene.channel.counts().lines[0].lost, u64::MAX);
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_of_losses_without_a_bound_is_found() {
    use crate::plant::{self, Plant};
    plant::set(Some(Plant::ChannelLostUnbounded));
    let test = sessions_that_lose_all_numbers_that_there_are_lose_the_greatest_number_together;
    let is_found = std::panic::catch_unwind(test).is_err();
    plant::set(None);
    assert!(is_found);
}

#[test]
fn channels_are_apart_and_as_many_as_were_allowed() {
    struct Count(Vec<u32>);
    impl Handler for Count {
        fn deliver(&mut self, run: &Run<'_>) {
            self.0.push(run.channel);
        }
        fn event(&mut self, _: u32, _: &Event) {}
    }
    let mut lines = Lines::new(config(), 2);
    let mut count = Count(Vec::new());
    let packet = |channel, sequence| Packet {
        channel,
        session: 1,
        sequence,
        count: 1,
        kind: PacketKind::Data,
        ts_send: Nanos(0),
        stream_offset: None,
        messages: b"x",
    };
    for (channel, sequence) in [(7, 1), (9, 1), (7, 2), (9, 3)] {
        let taken = lines.packet(Line::A, &packet(channel, sequence), Nanos(0), &mut count);
        assert_eq!(taken, Ok(()));
    }
    assert_eq!(count.0, [7, 9, 7]);
    let one_more = LinesError::TooManyChannels { channel: 8, channels_max: 2 };
    assert_eq!(lines.packet(Line::A, &packet(8, 1), Nanos(0), &mut count), Err(one_more));
    let states: Vec<_> = lines.iter().map(|(number, channel)| (number, channel.state())).collect();
    assert_eq!(states, [(7, State::Live), (9, State::Gap)]);
    assert_eq!(lines.deadline(), Some(Nanos(50)));
    lines.tick(Nanos(2_000), &mut count);
    assert_eq!(count.0, [7, 9, 7, 9]);
}

#[test]
fn what_arrives_gives_nothing_up_before_time_is_looked_at() {
    let mut scene = Scene::new(LineConfig { request: None, ..config() });
    scene.a(1, 3);
    assert_eq!(scene.a(4, 5), "gap:3..4 Gap");
    // Much later, more packets arrive, and after them the missing one.
    scene.now = 5_000;
    for (from, to, want) in [(5, 6, ""), (3, 4, "3..4 4..5 5..6 Live")] {
        let messages: Vec<u8> = (from..to).map(|number| (number % 251) as u8).collect();
        let packet = Packet {
            channel: 5,
            session: 1,
            sequence: from,
            count: (to - from) as u32,
            kind: PacketKind::Data,
            ts_send: Nanos(0),
            stream_offset: None,
            messages: &messages,
        };
        scene.channel.arrive(Line::B, &packet, Nanos(scene.now), &mut scene.log);
        assert_eq!(scene.said(), want);
    }
    assert_eq!((scene.channel.heard_to(), scene.channel.next()), (6, 6));
    assert_eq!(scene.heartbeat(8), "gap:6..8 Gap");
    assert_eq!(scene.channel.heard_to(), 8);
}
