//! Compares lineage and trails with fully written-out histories, through the cursor with which an
//! event reader tells the ends of epochs.

use proptest::collection::vec;
use proptest::prelude::*;

use weir_log::EpochCursor;

use super::*;

fn end(epoch: u32, last_valid: u64) -> (Epoch, Position) {
    (Epoch(epoch), Position(last_valid))
}

fn position(epoch: u32, next: u64) -> ReaderPosition {
    ReaderPosition { epoch: Epoch(epoch), next }
}

fn epochs(current: u32, ended: &[(Epoch, Position)]) -> Epochs<Position> {
    Epochs::with_ended(Epoch(current), ended.iter().copied())
}

/// Returns the lineage and the trail of events at these positions, numbered from `first`, after a
/// recovery of a log with these epochs.
fn read(epochs: Epochs<Position>, first: u64, positions: &[u64]) -> (Lineage, PassedEnds) {
    let current = epochs.current();
    let next = first + positions.len() as u64;
    let mut cursor = EpochCursor::new(epochs, next);
    let (mut lineage, mut trail) = (Lineage::new(cursor.epoch()), PassedEnds::starting_at(first));
    for (number, position) in (first..).zip(positions) {
        while let Some(change) = cursor.pass_before(number, Position(*position)) {
            lineage.pass(&change);
        }
        trail.note(number, &lineage);
    }
    while let Some(change) = cursor.pass(next) {
        lineage.pass(&change);
    }
    assert!(cursor.is_done() && lineage.current() == current);
    (lineage, trail)
}

#[test]
fn what_was_told_lives_on_to_the_least_end_of_its_epoch_and_all_later_ones() {
    let ended = [end(1, 40), end(2, 20), end(5, 30)];
    let (lineage, trail) = read(epochs(9, &ended), 1, &[10, 20, 20, 25, 30, 31, 50]);
    let judge = |epoch, next| trail.judge(position(epoch, next), 8, &lineage);
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
    let (lineage, trail) = read(epochs(9, &[end(3, 40), end(5, 50)]), 1, &[10, 20]);
    for epoch in [1, 2, 4, 6, 8, 10, u32::MAX] {
        assert_eq!(trail.judge(position(epoch, 2), 3, &lineage), Verdict::Unknown, "{epoch}");
        assert_eq!(trail.judge(position(epoch, 1), 3, &lineage), Verdict::Same, "nothing was told");
    }
    assert_eq!(trail.judge(position(0, 3), 3, &lineage), Verdict::Same, "nobody says when");
}

#[test]
fn behind_a_beginning_that_is_gone_an_end_is_known_only_after_the_oldest_event_left() {
    let ended = [end(1, 20), end(2, 35)];
    let (mut lineage, trail) = read(epochs(3, &ended), 7, &[34, 36]);
    lineage.begins_at(Position(30));
    assert_eq!(trail.judge(position(1, 7), 9, &lineage), Verdict::Unknown);
    assert_eq!(trail.judge(position(2, 8), 9, &lineage), Verdict::Same);
    assert_eq!(trail.judge(position(2, 9), 9, &lineage), Verdict::OtherFrom(8));
    // A sequence that begins with its first number has lost nothing.
    let (_, whole) = read(epochs(3, &ended), 1, &[34, 36]);
    assert_eq!(whole.judge(position(1, 2), 3, &lineage), Verdict::OtherFrom(1));
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
type EventKey = (u32, u32);

/// A fully written-out history: the events of each command.
#[derive(Debug)]
struct Written {
    commands: Vec<Vec<EventKey>>,
    epoch: u32,
    ended: Vec<(Epoch, Position)>,
    said: u32,
}

/// A client that records its events.
#[derive(Debug, Default)]
struct Client {
    heard: Vec<EventKey>,
    epoch: u32,
    is_on: bool,
}

impl Written {
    fn command(&mut self, count: u8) {
        let events = (1..=u32::from(count)).map(|n| (self.epoch, self.said + n)).collect();
        self.said += u32::from(count);
        self.commands.push(events);
    }

    fn events(&self) -> Vec<EventKey> {
        self.commands.concat()
    }

    fn lose(&mut self, lost: usize, skipped: u32) {
        self.commands.truncate(self.commands.len().saturating_sub(lost));
        self.ended.push(end(self.epoch, self.commands.len() as u64));
        self.epoch += skipped;
    }

    /// Returns the lineage, and the trail of the remaining events when those of the first commands
    /// are deleted.
    fn read(&self, gone: usize) -> (Lineage, PassedEnds) {
        let gone_events: usize = self.commands[..gone].iter().map(Vec::len).sum();
        let left = (1..).zip(&self.commands).skip(gone);
        let positions: Vec<u64> =
            left.flat_map(|(position, events)| events.iter().map(move |_| position)).collect();
        let first = gone_events as u64 + 1;
        let (mut lineage, trail) = read(epochs(self.epoch, &self.ended), first, &positions);
        if gone_events > 0 {
            let oldest_left = positions.first().copied().unwrap_or(u64::MAX);
            lineage.begins_at(Position(oldest_left));
        }
        (lineage, trail)
    }
}

impl Client {
    fn position(&self) -> ReaderPosition {
        position(self.epoch, self.heard.len() as u64 + 1)
    }

    /// Returns the verdict from a comparison of the events themselves.
    fn verdict(&self, events: &[EventKey]) -> Verdict {
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
                    let (lineage, trail) = node.read(0);
                    let client = &mut clients[who];
                    let verdict = trail.judge(client.position(), next, &lineage);
                    prop_assert_eq!(verdict, client.verdict(&events), "{:?} of {:?}", client, node);
                    let gone = gone.min(node.commands.len());
                    let (lineage, trail) = node.read(gone);
                    let short = trail.judge(client.position(), next, &lineage);
                    prop_assert!(short == verdict || short == Verdict::Unknown, "{:?}", short);
                    client.agree(verdict, node.epoch);
                }
            }
        }
    }
}
