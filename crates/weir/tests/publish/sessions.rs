//! Sessions: a day's end, a loss of the log's end, a restart. A reader that joins a session at its
//! first message has the engine's book, and one name and number never stand for two messages. A
//! publication that is read from its state goes on as the one that wrote it, and one that begins
//! with the engine's book has it.

use std::collections::BTreeMap;

use weir_engine::script::Script;
use weir_engine::{Engine, EngineConfig};
use weir_feed::session_name::Calendar;
use weir_market::publish::{Publication, StateFault};
use weir_types::state_bytes::StateBytes;
use weir_types::{Epoch, InstrumentId, Nanos, PartitionId};
use weir_wire::{Event, PlainEvent};

use super::random::{random_bytes, with_short_symbol};
use super::reader::{HERE, Rig};

const DAY: u64 = 86_400_000_000_000;
const FIT: InstrumentId = InstrumentId(100);
const FIT_SYMBOL: &str = "64";

/// Moves an event's times by some days.
fn later(event: &mut Event, days: u64) {
    let add = |time: &mut Nanos| time.0 += days * DAY;
    match event {
        Event::Plain(PlainEvent::OrderEvent(e)) => add(&mut e.transact_time),
        Event::Plain(PlainEvent::PhaseChanged(e)) => add(&mut e.transact_time),
        Event::Plain(PlainEvent::Uncrossed(e)) => add(&mut e.transact_time),
        Event::Plain(PlainEvent::TradeBusted(e)) => add(&mut e.transact_time),
        Event::Defined(e, _) => add(&mut e.transact_time),
        Event::Plain(_) => {}
    }
}

/// The events of a script with frequent day ends and losses of the log's end, and each new epoch
/// with the number of events before it.
struct History {
    events: Vec<Event>,
    losses: Vec<(usize, Epoch)>,
}

/// The messages by session name and sequence number.
type SentMessages = BTreeMap<([u8; 10], usize), Vec<u8>>;

/// Records all messages of the open session; those recorded earlier must be the same.
fn take_down(rig: &Rig, sent: &mut SentMessages) {
    for (number, message) in rig.reader.messages.iter().enumerate() {
        let key = (rig.reader.session.0, number + 1);
        let before = sent.entry(key).or_insert_with(|| message.clone());
        assert_eq!(before, message, "{key:?}");
    }
}

fn live(bytes: &[u8], sent: &mut SentMessages) -> (History, Rig) {
    let mut script = Script::new(bytes);
    let mut engine = Engine::new(EngineConfig::new(HERE));
    let mut history = History { events: Vec::new(), losses: Vec::new() };
    let (mut rig, mut events) = (Rig::new(), Vec::new());
    let (mut commands, mut days, mut epoch) = (0_u64, 0, 1);
    while !script.is_over() {
        let command = script.command();
        commands += 1;
        events.clear();
        engine.apply(engine.position().next(), script.now(), &command, &mut events);
        script.hear(&events);
        with_short_symbol(&mut events);
        days += u64::from(commands % 97 == 0);
        events.iter_mut().for_each(|event| later(event, days));
        if commands % 151 == 0 {
            epoch += 1;
            history.losses.push((history.events.len(), Epoch(epoch)));
            take_down(&rig, sent);
            rig.publication.enter_epoch(Epoch(epoch), &mut rig.reader);
        }
        if commands % 97 == 0 {
            take_down(&rig, sent);
        }
        rig.publish(&events);
        history.events.extend_from_slice(&events);
        let differs = rig.differs(&engine, FIT, FIT_SYMBOL, -2, usize::MAX);
        assert_eq!(differs, None, "after {commands} commands");
    }
    take_down(&rig, sent);
    (history, rig)
}

/// Feeds the same events to a program that starts after the last of them, or to several, each of
/// which begins with the state of the one before, after so many events.
fn again(history: &History, restart_every: usize, sent: &mut SentMessages) -> Rig {
    let mut rig = Rig::new();
    let mut losses = history.losses.iter().peekable();
    for (at, event) in history.events.iter().enumerate() {
        if at % restart_every == restart_every - 1 {
            rig.publication = from_its_state(&rig.publication);
        }
        while let Some((_, epoch)) = losses.next_if(|(after, _)| *after == at) {
            rig.publication.enter_epoch(*epoch, &mut rig.reader);
        }
        rig.publish(std::slice::from_ref(event));
        if at % 61 == 0 {
            take_down(&rig, sent);
        }
    }
    take_down(&rig, sent);
    rig
}

/// Returns the publication that is read from the state of another.
fn from_its_state(publication: &Publication) -> Publication {
    let (mut state, mut again) = (Vec::new(), Vec::new());
    publication.put_state(&mut state);
    let read =
        Publication::from_state(&mut StateBytes::new(&state), Calendar::new(PartitionId(1), 0))
            .unwrap();
    read.put_state(&mut again);
    assert_eq!(again, state, "what is read is what was written");
    assert_eq!(read.unfit().collect::<Vec<_>>(), publication.unfit().collect::<Vec<_>>());
    read
}

#[test]
fn days_and_losses_begin_sessions_that_are_whole_and_the_same_to_whoever_starts_again() {
    let mut sent = SentMessages::new();
    let (history, rig) = live(&random_bytes(60_000, 11), &mut sent);
    let ended = rig.reader.ended;
    assert!(ended > 10 && history.losses.len() > 10, "{ended} days test little");
    let count = sent.len();
    for restart_every in [usize::MAX, 1_000, 7, 1] {
        let restarted = again(&history, restart_every, &mut sent);
        assert_eq!(sent.len(), count, "nothing was said that was not said before");
        assert_eq!(restarted.reader.session, rig.reader.session);
        assert_eq!(restarted.reader.messages, rig.reader.messages);
        assert_eq!(restarted.reader.ended, ended);
        assert_eq!(restarted.publication.counts(), rig.publication.counts());
    }
    let out_of_turn = rig.reader.out_of_turn;
    assert_eq!(out_of_turn, 0, "in each session what stands is told in the order of its turn");
}

#[test]
fn a_session_begins_with_its_instruments_and_what_stands_and_ends_with_the_day() {
    let mut sent = SentMessages::new();
    let (_, rig) = live(&random_bytes(20_000, 3), &mut sent);
    let messages = &rig.reader.messages;
    let kinds: String = messages.iter().take(5).map(|m| char::from(m[0])).collect();
    assert!(kinds.starts_with("SRHS"), "{kinds}");
    assert_eq!((messages[0][11], messages[3][11]), (b'O', b'S'));
    assert!(rig.reader.ended > 0, "no day ended, which is looked at there");
}

#[test]
fn a_state_of_other_session_names_or_other_bytes_is_refused() {
    let mut sent = SentMessages::new();
    let (_, rig) = live(&random_bytes(3_000, 5), &mut sent);
    let mut state = Vec::new();
    rig.publication.put_state(&mut state);
    let read = |bytes: &[u8], hour| {
        Publication::from_state(&mut StateBytes::new(bytes), Calendar::new(PartitionId(1), hour))
            .map(|_| ())
    };
    assert_eq!(read(&state, 0), Ok(()));
    assert_eq!(read(&state, 1), Err(StateFault::OtherCalendar));
    let with = |at: usize, byte| {
        let mut bytes = state.clone();
        bytes[at] = byte;
        read(&bytes, 0)
    };
    assert_eq!(with(0, 9), Err(StateFault::Format));
    assert_eq!(with(1, 1), Err(StateFault::OtherRules));
    for len in 0..state.len() {
        assert_eq!(read(&state[..len], 0), Err(StateFault::Format), "{len} bytes");
    }
    assert_eq!(read(&[&state[..], &[0]].concat(), 0), Err(StateFault::Format));
}
