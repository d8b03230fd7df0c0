//! Scenarios of each framing, random packets against the model, and honest senders.

#[cfg(feature = "planted")]
mod planted;

use proptest::prelude::*;

use super::model::{Model, Sent};
use super::*;

const SECOND: u64 = 1_000_000_000;

fn judge(numbering: &mut Numbering, sent: &Sent) -> Verdict {
    let messages = sent.messages();
    numbering.judge(&sent.packet(&messages), sent.arrival())
}

/// A sender that numbers its messages; each has two bytes.
#[derive(Clone, Copy, Debug)]
struct Sender {
    session: u64,
    next: u64,
    ts: u64,
    content: u8,
    has_offset: bool,
}

impl Sender {
    fn new(session: u64, ts: u64, content: u8, has_offset: bool) -> Sender {
        Sender { session, next: 1, ts, content, has_offset }
    }

    fn send(&mut self, count: u64) -> Sent {
        let sent = Sent {
            session: self.session,
            sequence: self.next,
            count,
            kind: if count == 0 { PacketKind::Heartbeat } else { PacketKind::Data },
            ts: self.ts,
            offset: self.has_offset.then(|| 2 * (self.next - 1)),
            content: self.content,
            is_again: false,
            at: 0,
        };
        self.next += count;
        self.ts += u64::from(self.ts > 0) * SECOND / 10;
        sent
    }
}

const OLD: Verdict = Verdict::Old { revealed: None };
const SESSION: Verdict = Verdict::Begins(Beginning::Session);
const RESTART: Verdict = Verdict::Begins(Beginning::Restart);
const FOUND: Verdict = Verdict::Begins(Beginning::Found);

#[test]
fn a_sender_that_begins_again_in_its_session_is_no_repetition() {
    let mut numbering = Numbering::new();
    let mut sender = Sender::new(7, SECOND, 1, true);
    let first = sender.send(3);
    assert_eq!(judge(&mut numbering, &first), SESSION);
    let second = sender.send(4);
    assert_eq!(judge(&mut numbering, &second), Verdict::Follows);
    let mut again = Sender { content: 2, ..Sender::new(7, sender.ts, 2, true) };
    let restart = again.send(2);
    assert_eq!(judge(&mut numbering, &restart), RESTART);
    assert_eq!(judge(&mut numbering, &restart), Verdict::Follows, "the same on the other line");
    assert_eq!(judge(&mut numbering, &second), OLD, "of before, and late");
    assert_eq!(judge(&mut numbering, &first), OLD);
    assert_eq!(judge(&mut numbering, &again.send(5)), Verdict::Follows);
}

#[test]
fn a_heartbeat_is_enough_for_a_restart_and_none_before_the_first_message_is_one() {
    let mut numbering = Numbering::new();
    let mut sender = Sender::new(7, SECOND, 1, true);
    assert_eq!(judge(&mut numbering, &sender.send(0)), SESSION);
    assert_eq!(judge(&mut numbering, &sender.send(0)), Verdict::Follows);
    assert_eq!(judge(&mut numbering, &sender.send(3)), Verdict::Follows);
    let mut again = Sender::new(7, sender.ts, 1, true);
    assert_eq!(judge(&mut numbering, &again.send(0)), RESTART);
    assert_eq!(judge(&mut numbering, &again.send(0)), Verdict::Follows);
}

#[test]
fn a_restart_whose_beginning_is_lost_contradicts_until_three_packets_show_it() {
    for (has_offset, ts) in [(true, SECOND), (false, SECOND), (false, 0)] {
        let mut numbering = Numbering::new();
        let mut sender = Sender::new(7, ts, 1, has_offset);
        for count in [4, 4, 4, 4] {
            judge(&mut numbering, &sender.send(count));
        }
        let later = if ts == 0 { 0 } else { sender.ts + 2 * SECOND };
        let mut again = Sender::new(7, later, 2, has_offset);
        if ts > 0 {
            again.send(1);
            again.send(3);
        }
        let verdicts = [4, 4, 4, 4].map(|count| judge(&mut numbering, &again.send(count)));
        let want = [Verdict::Contradicts, Verdict::Contradicts, FOUND, Verdict::Follows];
        assert_eq!(verdicts, want, "{has_offset} {ts}");
    }
}

#[test]
fn a_position_that_messages_cannot_have_contradicts() {
    let mut numbering = Numbering::new();
    let mut sender = Sender::new(7, SECOND, 1, true);
    judge(&mut numbering, &sender.send(10));
    let next = sender.send(2);
    for offset in [19, 21, 0, u64::MAX] {
        let lie = Sent { offset: Some(offset), ..next };
        assert_eq!(judge(&mut numbering, &lie), Verdict::Contradicts, "{offset}");
    }
    let ahead = Sent { sequence: 20, offset: Some(37), ..next };
    assert_eq!(judge(&mut numbering, &ahead), Verdict::Contradicts, "nine messages in 17 bytes");
    let first = Sent { sequence: 1, offset: Some(4), content: 1, ..next };
    assert_eq!(judge(&mut numbering, &first), Verdict::Contradicts, "message 1 begins at 0");
    assert_eq!(judge(&mut numbering, &next), Verdict::Follows);
}

#[test]
fn a_foreign_session_does_not_shut_the_true_one_out() {
    let mut numbering = Numbering::new();
    let mut sender = Sender::new(7, 0, 1, false);
    judge(&mut numbering, &sender.send(3));
    let foreign = Sender::new(8, 0, 9, false).send(1);
    assert_eq!(judge(&mut numbering, &foreign), SESSION);
    let old = |from, to| Verdict::Old { revealed: Some((from, to)) };
    let verdicts = [1, 2, 1, 1].map(|count| judge(&mut numbering, &sender.send(count)));
    assert_eq!(verdicts, [old(4, 5), old(5, 7), FOUND, Verdict::Follows]);
    assert_eq!(judge(&mut numbering, &foreign), OLD, "it says nothing new");
}

#[test]
fn an_ended_session_does_not_come_back_and_late_packets_of_a_line_do_not_bring_one_back() {
    let mut numbering = Numbering::new();
    let mut sender = Sender::new(7, 0, 1, false);
    judge(&mut numbering, &sender.send(3));
    let end = Sent { kind: PacketKind::EndOfSession, ..sender.send(0) };
    judge(&mut numbering, &end);
    let mut next = Sender::new(8, 0, 1, false);
    assert_eq!(judge(&mut numbering, &next.send(3)), SESSION);
    for _ in 0..5 {
        assert!(matches!(judge(&mut numbering, &sender.send(1)), Verdict::Old { .. }));
    }
    // Of a session without an end, one packet between those of the next one.
    let mut after = Sender::new(9, 0, 1, false);
    assert_eq!(judge(&mut numbering, &after.send(1)), SESSION);
    for _ in 0..5 {
        assert!(matches!(judge(&mut numbering, &next.send(1)), Verdict::Old { .. }));
        assert_eq!(judge(&mut numbering, &after.send(1)), Verdict::Follows);
    }
}

#[test]
fn a_reset_far_in_the_future_does_not_freeze_the_channel() {
    for has_data_before in [true, false] {
        let mut numbering = Numbering::new();
        let mut sender = Sender::new(0, SECOND, 1, false);
        if has_data_before {
            judge(&mut numbering, &sender.send(3));
        }
        let lie = Sent { kind: PacketKind::Reset, ts: 99_999 * SECOND, ..sender.send(1) };
        assert_eq!(judge(&mut numbering, &lie), RESTART);
        let verdicts = [1, 1, 1, 1].map(|count| judge(&mut numbering, &sender.send(count)));
        assert_eq!(verdicts, [OLD, OLD, FOUND, Verdict::Follows], "{has_data_before}");
    }
}

/// Requires that a sender whose packets are old at first is followed after two seconds. It sends
/// ten packets a second, each with a heartbeat, over two lines of which the second is three packets
/// late; both lose some.
fn is_followed_in_the_end(numbering: &mut Numbering, sender: &mut Sender) {
    let (mut on_first, mut sent_before) = (Vec::new(), Vec::new());
    for number in 0..40 {
        let at = number * SECOND / 10;
        let sent = Sent { at, ..sender.send(1) };
        sent_before.push(sent);
        if let Some(late) = sent_before.iter().rev().nth(3).filter(|_| number % 5 != 0) {
            judge(numbering, &Sent { at, ..*late });
        }
        judge(numbering, &Sent { at, ..sender.send(0) });
        if number % 7 != 3 {
            on_first.push(judge(numbering, &sent));
        }
    }
    let old = on_first.iter().take_while(|verdict| **verdict == OLD).count();
    assert!((16..20).contains(&old), "{on_first:?}");
    // The packet by which it is found may be the second line's.
    let found = usize::from(on_first[old] == FOUND);
    let after = &on_first[old + found..];
    assert!(after.len() > 10 && after.iter().all(|v| *v == Verdict::Follows), "{on_first:?}");
}

/// Two forged resets: the second is later than the first, which is later than all true packets. So
/// a sender's packets are old by both, and no number of theirs is new.
#[test]
fn resets_far_in_the_future_one_after_the_other_do_not_freeze_the_channel() {
    let mut numbering = Numbering::new();
    let mut sender = Sender::new(0, SECOND, 1, false);
    judge(&mut numbering, &sender.send(3));
    for ts in [99_999 * SECOND, u64::MAX] {
        let lie = Sent { kind: PacketKind::Reset, sequence: 1_000, ts, ..sender.send(1) };
        assert_eq!(judge(&mut numbering, &lie), RESTART);
    }
    is_followed_in_the_end(&mut numbering, &mut sender);
}

/// A forged packet had the next day's session with a number that it never reaches.
#[test]
fn a_session_that_was_forged_before_it_began_is_followed_when_no_other_comes() {
    let mut numbering = Numbering::new();
    let mut today = Sender::new(1, 0, 1, false);
    let mut tomorrow = Sender::new(2, 0, 1, false);
    judge(&mut numbering, &today.send(40));
    let lie = Sent { sequence: 1 << 40, ..tomorrow.send(0) };
    assert_eq!(judge(&mut numbering, &lie), SESSION);
    judge(&mut numbering, &today.send(1));
    judge(&mut numbering, &today.send(1));
    assert_eq!(judge(&mut numbering, &today.send(1)), FOUND);
    // The end of today is told meanwhile.
    let end = Sent { kind: PacketKind::EndOfSession, ..today.send(0) };
    assert_eq!(judge(&mut numbering, &end), Verdict::Follows);
    for number in 0..10 {
        let sent = Sent { at: number * SECOND / 10, ..tomorrow.send(1) };
        assert_eq!(judge(&mut numbering, &sent), OLD);
        judge(&mut numbering, &Sent { at: sent.at, ..end });
    }
    is_followed_in_the_end(&mut numbering, &mut tomorrow);
    // A line that is late is not followed while the other one is heard.
    let mut late = Sender::new(1, 0, 1, false);
    for number in 0..40 {
        let late = Sent { at: number * SECOND, ..late.send(1) };
        assert_eq!(judge(&mut numbering, &late), OLD);
        let heard = Sent { at: number * SECOND, ..tomorrow.send(0) };
        assert_eq!(judge(&mut numbering, &heard), Verdict::Follows);
    }
    // Nor is an end that is told for long.
    for number in 0..100 {
        let kind = PacketKind::EndOfSession;
        let end = Sent { at: number * SECOND, kind, ..today.send(0) };
        assert!(matches!(judge(&mut numbering, &end), Verdict::Old { .. }));
    }
}

fn kinds() -> impl Strategy<Value = PacketKind> {
    prop_oneof![
        8 => Just(PacketKind::Data),
        1 => Just(PacketKind::Reset),
        1 => Just(PacketKind::EndOfSession),
    ]
}

prop_compose! {
    /// Any packet of a small world.
    fn any_sent()(
        session in 0_u64..7,
        sequence in 0_u64..30,
        count in 0_u64..4,
        kind in kinds(),
        ts in prop_oneof![Just(0), 0..8 * SECOND],
        offset in prop_oneof![Just(None), (0_u64..120).prop_map(Some)],
        content in 0_u8..2,
        is_again in prop::bool::weighted(0.1),
        at in prop_oneof![4 => Just(0), 1 => 0..3 * SECOND],
    ) -> Sent {
        let is_empty = count == 0 && kind == PacketKind::Data;
        let kind = if is_empty { PacketKind::Heartbeat } else { kind };
        let count = if kind == PacketKind::EndOfSession { 0 } else { count };
        Sent { session, sequence, count, kind, ts, offset, content, is_again, at }
    }
}

/// A step of a world with a few senders.
#[derive(Clone, Debug)]
enum Turn {
    /// A sender sends its next packet.
    Send(usize, u64),
    /// A sender's next packet is lost.
    Lose(usize, u64),
    /// A packet sent earlier comes again: how many before the newest.
    Repeat(usize),
    /// A sender begins anew, so many tenths of a second later.
    Restart(usize, u64),
    /// A sender sends many packets, so many milliseconds apart.
    Insist(usize, u64),
    /// A packet of anybody.
    Any(Sent),
}

fn steps() -> impl Strategy<Value = Vec<Turn>> {
    let step = prop_oneof![
        12 => (0_usize..3, 0_u64..4).prop_map(|(sender, count)| Turn::Send(sender, count)),
        2 => (0_usize..3, 0_u64..4).prop_map(|(sender, count)| Turn::Lose(sender, count)),
        3 => (0_usize..12).prop_map(Turn::Repeat),
        1 => (0_usize..3, 0_u64..40).prop_map(|(sender, tenths)| Turn::Restart(sender, tenths)),
        1 => (0_usize..3, 90_u64..160).prop_map(|(sender, ms)| Turn::Insist(sender, ms)),
        1 => any_sent().prop_map(Turn::Any),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    // Planted bugs make these tests fail, and leave no file behind.
    #![proptest_config(ProptestConfig {
        cases: 3_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn verdicts_are_those_of_the_model_for_any_packets(
        packets in prop::collection::vec(any_sent(), 1..60),
    ) {
        let (mut numbering, mut model) = (Numbering::new(), Model::default());
        for sent in &packets {
            // Clocks of recordings go back, too.
            prop_assert_eq!(judge(&mut numbering, sent), model.judge(sent), "{:?}", sent);
        }
    }

    #[test]
    fn verdicts_are_those_of_the_model_for_senders_that_restart_lose_and_repeat(
        steps in steps(),
        has_offset in any::<bool>(),
        has_time in any::<bool>(),
    ) {
        let (mut numbering, mut model) = (Numbering::new(), Model::default());
        let ts = if has_time { SECOND } else { 0 };
        // Two senders of one session, as one that restarts, and one of another.
        let sender = |session, content| Sender::new(session, ts, content, has_offset);
        let mut senders = [sender(1, 1), sender(1, 2), sender(2, 3)];
        let mut sent_before: Vec<Sent> = Vec::new();
        let mut at = 0;
        let insisted = |step| match step {
            Turn::Insist(sender, ms) => vec![(Turn::Send(sender, 1), ms); 20],
            step => vec![(step, 1)],
        };
        for (step, ms) in steps.into_iter().flat_map(insisted) {
            at += ms * 1_000_000;
            let sent = match step {
                // Contents are compared for the first numbers and the last ones.
                Turn::Send(by, _) | Turn::Lose(by, _) if senders[by].next > 60 => continue,
                Turn::Send(by, count) => senders[by].send(count),
                Turn::Lose(by, count) => {
                    senders[by].send(count);
                    continue;
                }
                Turn::Repeat(back) => match sent_before.iter().rev().nth(back) {
                    Some(sent) => *sent,
                    None => continue,
                },
                Turn::Restart(by, tenths) => {
                    let Sender { session, ts, content, .. } = senders[by];
                    let ts = if ts == 0 { 0 } else { ts + tenths * SECOND / 10 };
                    senders[by] = Sender::new(session, ts, content ^ 4, has_offset);
                    continue;
                }
                Turn::Insist(..) => unreachable!("it became many steps"),
                Turn::Any(sent) => sent,
            };
            let sent = Sent { at, ..sent };
            sent_before.push(sent);
            prop_assert_eq!(judge(&mut numbering, &sent), model.judge(&sent), "{:?}", sent);
        }
    }

    /// The promise itself: of an honest sender no packet contradicts, each restart is told once,
    /// and no packet of before a restart is taken for one of after it.
    #[test]
    fn an_honest_sender_on_two_lines_is_never_doubted_and_each_restart_is_told_once(
        runs in prop::collection::vec(prop::collection::vec(1_u64..5, 1..12), 1..6),
        delays in prop::collection::vec(0_usize..30, 200),
    ) {
        let mut sender = Sender::new(3, SECOND, 0, true);
        let mut packets: Vec<(usize, Sent)> = Vec::new();
        for (run, counts) in runs.iter().enumerate() {
            let content = u8::try_from(run).expect("few");
            sender = Sender { content, ..Sender::new(3, sender.ts, 0, true) };
            packets.extend(counts.iter().map(|count| (run, sender.send(*count))));
        }
        // Line A is in time; each copy on line B comes some packets later, within two seconds.
        let mut arrivals: Vec<(usize, usize, Sent)> = Vec::new();
        for (index, (run, sent)) in packets.iter().enumerate() {
            arrivals.push((2 * index, *run, *sent));
            arrivals.push((2 * (index + delays[index % delays.len()]) + 1, *run, *sent));
        }
        arrivals.sort_by_key(|(at, ..)| *at);
        let (mut numbering, mut restarts, mut current) = (Numbering::new(), 0, 0);
        for (at, run, sent) in arrivals {
            let sent = Sent { at: at as u64 * SECOND / 32, ..sent };
            match judge(&mut numbering, &sent) {
                Verdict::Follows => prop_assert_eq!(run, current),
                Verdict::Begins(Beginning::Session) => prop_assert_eq!((run, current), (0, 0)),
                Verdict::Begins(Beginning::Restart) => {
                    prop_assert_eq!(run, current + 1);
                    (restarts, current) = (restarts + 1, run);
                }
                Verdict::Old { .. } => prop_assert!(run < current),
                verdict => prop_assert!(false, "{:?} {:?}", verdict, sent),
            }
        }
        prop_assert_eq!(restarts, runs.len() - 1);
    }
}
