//! An index whose state was written and read back at any record, against one of all events.

use proptest::prelude::*;
use weir_log::tail::{TailConfig, TailHandle, tail_in};
use weir_types::{Credential, CredentialKind, Epochs, Role};
use weir_wire::event::Defined;
use weir_wire::reference::DefineSession;

use super::*;
use crate::checkpoint::EngineSession;

const HERE: PartitionId = PartitionId(1);
const RETAINED: Retained = Retained { of_firm: 1 << 20 };

/// An event of a partition's life.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LifeEvent {
    /// A session is defined, with this firm.
    Define(u32, u32),
    /// A session gets an event.
    Answer(u32),
    /// An epoch ends; all commands so far survive.
    EndEpoch,
}

pub(crate) fn step() -> impl Strategy<Value = LifeEvent> {
    prop_oneof![
        1 => (1..6_u32, 0..4_u32).prop_map(|(session, firm)| LifeEvent::Define(session, firm)),
        8 => (1..6_u32).prop_map(LifeEvent::Answer),
        1 => Just(LifeEvent::EndEpoch),
    ]
}

/// The events of a partition.
pub(crate) struct World {
    pub(crate) tail: TailHandle,
    writer: weir_log::TailWriter,
    position: u64,
    epoch: u32,
    /// The firm and the next event of each session.
    sessions: BTreeMap<u32, (u32, u64)>,
}

impl World {
    pub(crate) fn new(steps: &[LifeEvent]) -> World {
        World::with_epochs(steps, Epochs::new(Epoch(1)))
    }

    /// Returns a world in which epochs had ended before its first event was read.
    pub(crate) fn with_epochs(steps: &[LifeEvent], epochs: Epochs<Position>) -> World {
        let epoch = epochs.current().0;
        let (writer, tail) = tail_in(TailConfig::new(1 << 20, 1), epochs);
        let sessions = BTreeMap::new();
        let mut world = World { tail, writer, position: 0, epoch, sessions };
        steps.iter().for_each(|step| world.take(*step));
        world
    }

    pub(crate) fn take(&mut self, step: LifeEvent) {
        self.position += 1;
        let position = Position(self.position);
        let event = match step {
            LifeEvent::Define(session, firm) => {
                self.sessions.entry(session).or_insert((firm, 1)).0 = firm;
                definition(position, SessionId(session), FirmId(firm))
            }
            LifeEvent::Answer(session) => match self.sessions.get_mut(&session) {
                Some((_, next)) => {
                    *next += 1;
                    answer(position, SessionId(session), EventNo(*next - 1))
                }
                // A session that it does not know: its refusal has no number.
                None => answer(position, SessionId(session), EventNo::NONE),
            },
            LifeEvent::EndEpoch => {
                let (ended, next) = (Position(self.position - 1), self.tail.next_record());
                self.epoch += 1;
                self.writer.end_epoch(ended, Epoch(self.epoch), next);
                return;
            }
        };
        let mut record = Vec::new();
        event.encode(&mut record);
        self.writer.append(&record);
        self.writer.publish();
    }

    pub(crate) fn reader(&self) -> EventReader {
        self.reader_from(1)
    }

    /// Returns a reader of a log that has lost the records before `first`.
    pub(crate) fn reader_from(&self, first: u64) -> EventReader {
        EventReader::new(&self.tail, "no-files".into(), first)
    }

    /// Returns the number of events.
    pub(crate) fn event_count(&self) -> u64 {
        self.tail.next_record() - 1
    }

    /// Returns the sessions as the engine has them at the end.
    pub(crate) fn sessions(&self) -> Vec<EngineSession> {
        let sessions = self.sessions.iter().map(|(id, (firm, next))| EngineSession {
            id: SessionId(*id),
            firm_id: FirmId(*firm),
            next_event_no: EventNo(*next),
        });
        sessions.collect()
    }
}

fn definition(position: Position, id: SessionId, firm_id: FirmId) -> Event {
    let defined = Defined {
        position,
        transact_time: Nanos(position.0),
        control_position: position,
        partition_id: HERE,
    };
    let session = DefineSession {
        fields: 0,
        request_no: RequestNo::NONE,
        valid_until: Nanos(0),
        credential: Credential([0; 32]),
        session_id: SessionId(1),
        defined_session_id: id,
        firm_id,
        order_rate_max: 0,
        in_flight_max: 0,
        role: Role::Trader,
        credential_kind: CredentialKind::ApiKey,
        live_orders_max: 0,
    };
    Event::Defined(defined, Definition::DefineSession(session))
}

fn answer(position: Position, session_id: SessionId, event_no: EventNo) -> Event {
    Event::Plain(PlainEvent::RequestDone(RequestDone {
        position,
        event_no,
        request_no: RequestNo(event_no.0),
        transact_time: Nanos(position.0),
        cl_ord_id: ClOrdId::NONE,
        affected_count: 0,
        session_id,
        partition_id: HERE,
        ref_template_id: 0,
        ..RequestDone::NOTHING_TOLD
    }))
}

fn state_of(index: &EventIndex) -> Vec<u8> {
    let mut state = Vec::new();
    index.put_state(&mut state);
    state
}

/// Takes a number of events and ends of epochs, or all.
pub(crate) fn take(index: &mut EventIndex, events: &mut EventReader, count: usize) {
    let mut record = Vec::new();
    for _ in 0..count {
        if !index.take_next(events, &mut record).unwrap() {
            return;
        }
    }
}

pub(crate) fn whole_index(world: &World) -> EventIndex {
    let mut events = world.reader();
    let mut index = EventIndex::new(&mut events, &[], RETAINED);
    take(&mut index, &mut events, usize::MAX);
    index
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn an_index_goes_on_from_its_state_as_if_it_had_read_all(
        steps in prop::collection::vec(step(), 0..120),
        stops in prop::collection::vec(0..60_usize, 1..4),
        forgets in prop::option::of(0..80_u64),
    ) {
        let world = World::new(&steps);
        let mut whole = whole_index(&world);
        let mut events = world.reader();
        let mut index = EventIndex::new(&mut events, &[], RETAINED);
        for count in stops {
            take(&mut index, &mut events, count);
            let state = state_of(&index);
            index = EventIndex::from_state(&state, RETAINED).expect("its own state");
            prop_assert_eq!(&state_of(&index), &state);
            events = world.reader();
            events.skip_to(index.next, index.lineage.current());
            if let Some(first) = forgets.filter(|first| *first <= index.next) {
                index.forget_before(first);
            }
        }
        take(&mut index, &mut events, usize::MAX);
        if let Some(first) = forgets {
            whole.forget_before(first);
            index.forget_before(first);
        }
        prop_assert_eq!(state_of(&index), state_of(&whole));
    }

    #[test]
    fn a_state_that_was_changed_is_refused_or_read_without_a_panic(
        steps in prop::collection::vec(step(), 0..60),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut state = state_of(&whole_index(&World::new(&steps)));
        let end = cut.index(state.len());
        prop_assert!(EventIndex::from_state(&state[..end], RETAINED).is_none());
        state.push(0);
        prop_assert!(EventIndex::from_state(&state, RETAINED).is_none());
        state.pop();
        let at = at.index(state.len());
        state[at] = byte;
        let _ = EventIndex::from_state(&state, RETAINED);
    }
}

#[test]
fn a_state_is_some_bytes_for_each_event() {
    let steps: Vec<LifeEvent> = std::iter::once(LifeEvent::Define(1, 1))
        .chain((0..10_000).map(|_| LifeEvent::Answer(1)))
        .collect();
    let state = state_of(&whole_index(&World::new(&steps)));
    // One byte in each of three lists: the session's, its firm's, and that of all.
    assert!(state.len() < 30_200, "{} bytes", state.len());
}
