//! Compares lineage and trails with fully written-out histories.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn end(epoch: u32, last_valid: u64) -> EpochEnd {
    EpochEnd { epoch: Epoch(epoch), last_valid: Position(last_valid) }
}

fn stand(epoch: u32, next: u64) -> Stand {
    Stand { epoch: Epoch(epoch), next }
}

/// Returns the trail of events at these positions, numbered from `first`.
fn trail_of(first: u64, positions: &[u64], lineage: &Lineage) -> Trail {
    let mut trail = Trail::starting_at(first);
    for (number, position) in (first..).zip(positions) {
        trail.note(number, Position(*position), lineage);
    }
    trail
}

#[test]
fn what_was_told_lives_on_to_the_least_end_of_its_epoch_and_all_later_ones() {
    let lineage = Lineage::new(Epoch(9), &[end(1, 40), end(2, 20), end(5, 30)]);
    let trail = trail_of(1, &[10, 20, 20, 25, 30, 31, 50], &lineage);
    let judge = |epoch, next| trail.judge(stand(epoch, next), 8, &lineage);
    // For epochs 1 and 2 the last surviving position is 20; three events are up to it.
    for epoch in [1, 2] {
        assert_eq!(judge(epoch, 4), Verdict::Same);
        assert_eq!(judge(epoch, 5), Verdict::OtherFrom(4));
        assert_eq!(judge(epoch, 99), Verdict::OtherFrom(4));
    }
    assert_eq!(judge(5, 6), Verdict::Same);
    assert_eq!(judge(5, 7), Verdict::OtherFrom(6));
    assert_eq!(judge(9, 99), Verdict::Same, "what the current epoch told is there");
}

#[test]
fn of_an_epoch_that_is_not_in_the_lineage_nothing_is_known() {
    let lineage = Lineage::new(Epoch(9), &[end(3, 40), end(5, 50)]);
    let trail = trail_of(1, &[10, 20], &lineage);
    for epoch in [1, 2, 4, 6, 8, 10, u32::MAX] {
        assert_eq!(trail.judge(stand(epoch, 2), 3, &lineage), Verdict::Unknown, "{epoch}");
        assert_eq!(trail.judge(stand(epoch, 1), 3, &lineage), Verdict::Same, "nothing was told");
    }
    assert_eq!(trail.judge(stand(0, 3), 3, &lineage), Verdict::Same, "nobody says when");
}

#[test]
fn behind_a_beginning_that_is_gone_an_end_is_known_only_after_the_oldest_event_left() {
    let mut lineage = Lineage::new(Epoch(3), &[end(1, 20), end(2, 35)]);
    lineage.begins_at(Position(30));
    let trail = trail_of(7, &[34, 36], &lineage);
    assert_eq!(trail.judge(stand(1, 7), 9, &lineage), Verdict::Unknown);
    assert_eq!(trail.judge(stand(2, 8), 9, &lineage), Verdict::Same);
    assert_eq!(trail.judge(stand(2, 9), 9, &lineage), Verdict::OtherFrom(8));
    // A sequence that begins with its first number has lost nothing.
    let whole = trail_of(1, &[34, 36], &lineage);
    assert_eq!(whole.judge(stand(1, 2), 3, &lineage), Verdict::OtherFrom(1));
}

/// An operation on a node and its clients.
#[derive(Clone, Debug)]
enum Op {
    /// A command that causes this many events of the session.
    Command(u8),
    /// A client receives this many more events.
    Hear(usize, usize),
    /// The last commands are lost, and an epoch begins that many after the last.
    Lose(usize, u32),
    /// A client reconnects.
    Resume(usize),
}

fn step() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..4_u8).prop_map(Op::Command),
        4 => (0..2_usize, 1..8_usize).prop_map(|(who, count)| Op::Hear(who, count)),
        2 => (0..8_usize, 1..4_u32).prop_map(|(lost, skipped)| Op::Lose(lost, skipped)),
        3 => (0..2_usize).prop_map(Op::Resume),
    ]
}

/// A unique event: its epoch, and a count over all events.
type Told = (u32, u32);

/// A fully written-out history: the events of each command.
#[derive(Debug)]
struct Written {
    commands: Vec<Vec<Told>>,
    epoch: u32,
    ended: Vec<EpochEnd>,
    said: u32,
}

/// A client that records its events.
#[derive(Debug, Default)]
struct Client {
    heard: Vec<Told>,
    epoch: u32,
    is_on: bool,
}

impl Written {
    fn command(&mut self, count: u8) {
        let events = (1..=u32::from(count)).map(|n| (self.epoch, self.said + n)).collect();
        self.said += u32::from(count);
        self.commands.push(events);
    }

    fn events(&self) -> Vec<Told> {
        self.commands.concat()
    }

    fn lose(&mut self, lost: usize, skipped: u32) {
        self.commands.truncate(self.commands.len().saturating_sub(lost));
        self.ended.push(end(self.epoch, self.commands.len() as u64));
        self.epoch += skipped;
    }

    fn lineage(&self) -> Lineage {
        Lineage::new(Epoch(self.epoch), &self.ended)
    }

    /// Returns the trail of the remaining events when those of the first commands are deleted.
    fn trail(&self, gone: usize, lineage: &mut Lineage) -> Trail {
        let gone_events: usize = self.commands[..gone].iter().map(Vec::len).sum();
        let oldest_left = (gone..self.commands.len()).find(|at| !self.commands[*at].is_empty());
        if gone_events > 0 {
            lineage.begins_at(oldest_left.map_or(Position(u64::MAX), |at| Position(at as u64 + 1)));
        }
        let mut number = gone_events as u64 + 1;
        let mut trail = Trail::starting_at(number);
        for (position, events) in (1..).zip(&self.commands).skip(gone) {
            for _ in events {
                trail.note(number, Position(position), lineage);
                number += 1;
            }
        }
        trail
    }
}

impl Client {
    fn stand(&self) -> Stand {
        stand(self.epoch, self.heard.len() as u64 + 1)
    }

    /// Returns the verdict from a comparison of the events themselves.
    fn verdict(&self, events: &[Told]) -> Verdict {
        let same = self.heard.iter().zip(events).take_while(|(a, b)| a == b).count();
        if same == self.heard.len() { Verdict::Same } else { Verdict::OtherFrom(same as u64 + 1) }
    }

    /// Adopts a history from here on.
    fn agree(&mut self, verdict: Verdict, epoch: u32) {
        if let Verdict::OtherFrom(from) = verdict {
            self.heard.truncate(from as usize - 1);
        }
        (self.epoch, self.is_on) = (epoch, true);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_client_is_refused_exactly_when_it_was_told_something_else(
        steps in vec(step(), 1..60),
        gone in 0..20_usize,
    ) {
        let mut node = Written { commands: Vec::new(), epoch: 1, ended: Vec::new(), said: 0 };
        let mut clients = [Client::default(), Client::default()];
        for step in steps {
            match step {
                Op::Command(count) => node.command(count),
                Op::Lose(lost, skipped) => {
                    node.lose(lost, skipped);
                    clients.iter_mut().for_each(|client| client.is_on = false);
                }
                Op::Hear(who, count) => {
                    let client = &mut clients[who];
                    if client.is_on {
                        let events = node.events();
                        let news = events.iter().skip(client.heard.len()).take(count);
                        client.heard.extend(news);
                    }
                }
                Op::Resume(who) => {
                    let events = node.events();
                    let next = events.len() as u64 + 1;
                    let mut lineage = node.lineage();
                    let trail = node.trail(0, &mut lineage);
                    let client = &mut clients[who];
                    let verdict = trail.judge(client.stand(), next, &lineage);
                    prop_assert_eq!(verdict, client.verdict(&events), "{:?} of {:?}", client, node);
                    let gone = gone.min(node.commands.len());
                    let trail = node.trail(gone, &mut lineage);
                    let short = trail.judge(client.stand(), next, &lineage);
                    prop_assert!(short == verdict || short == Verdict::Unknown, "{:?}", short);
                    client.agree(verdict, node.epoch);
                }
            }
        }
    }
}
