//! Reads a partition's events and publishes them, epoch by epoch.
//!
//! The messages are a function of the events, so every reader derives the same messages under the
//! same sequence numbers: the multicast agent and the snapshot server each read at their own pace.
//! After a restart the events since a checkpoint are replayed, or all, so that sequence numbers
//! continue ([`super::checkpoint`]).

use weir_feed::session_name::Calendar;
use weir_market::publish::{Publication, PublishSink};
use weir_partition::event_reader::{EventReader, ReadEvent, assert_kept, position_of};
use weir_types::{PartitionId, Position};
use weir_wire::{Definition, Event};

use super::checkpoint::PublishCheckpoint;
use super::numbers::Numbers;
use super::publish_event;

/// The events to publish, with their partition, epochs and calendar.
pub struct EventPublisherParts {
    /// The partition.
    pub partition_id: PartitionId,
    /// The partition's events, from the first retained one.
    pub events: EventReader,
    /// The state with which to begin; without one, with the first event.
    pub begins_with: Option<PublishCheckpoint>,
    /// The number of events at the start.
    pub event_count: u64,
    /// The beginnings of trading days.
    pub calendar: Calendar,
}

/// The result of reading once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// An event, which may have defined an instrument.
    Event { is_definition: bool },
    /// No new event.
    UpToDate,
}

/// Publishes a partition's events into a sink.
pub(super) struct EventPublisher {
    parts: EventPublisherParts,
    publication: Publication,
    record: Vec<u8>,
    is_live: bool,
    /// True until the session of a market without its past has begun: with the epoch that begins at
    /// the start, or in one that began at an earlier start, which had no event since.
    must_begin: bool,
    /// The position of the command that caused the last event.
    position: Position,
}

impl EventPublisher {
    /// Creates a reader that has read no events but those of its beginning; returns it with the
    /// session and numbers at which it goes on.
    pub fn new(mut parts: EventPublisherParts) -> (EventPublisher, Numbers) {
        let (publication, numbers, position) = match parts.begins_with.take() {
            Some(PublishCheckpoint { next, position, numbers, publication }) => {
                parts.events.skip_to(next, publication.epoch());
                (publication, numbers, position)
            }
            None => {
                let publication = Publication::new(parts.calendar, parts.events.epoch());
                (publication, Numbers::new(), Position::NONE)
            }
        };
        let must_begin = numbers.session.is_none() && publication.session().is_some();
        let record = Vec::with_capacity(512);
        let is_live = false;
        (EventPublisher { publication, record, is_live, must_begin, position, parts }, numbers)
    }

    /// Reads the next event and publishes it to `out`.
    pub fn publish_next(&mut self, out: &mut impl PublishSink) -> ReadOutcome {
        loop {
            let read = self.parts.events.next(&mut self.record);
            if let ReadEvent::EpochEnded(change) = &read {
                assert_kept(change);
                self.must_begin = false;
                self.publication.enter_epoch(change.next, out);
                continue;
            }
            if std::mem::take(&mut self.must_begin) {
                self.publication.begin(out);
            }
            match read {
                ReadEvent::Record(_) => break,
                _ => return ReadOutcome::UpToDate,
            }
        }
        self.position = position_of(&self.record);
        let event = Event::decode(&self.record).expect("the event log holds our own messages");
        publish_event(&mut self.publication, self.parts.partition_id, &event, out);
        let is_definition = matches!(event, Event::Defined(_, Definition::DefineInstrument(_)));
        ReadOutcome::Event { is_definition }
    }

    /// Called when no event is pending; returns true once all events from before the start are
    /// replayed. Until then the files are temporarily unreadable, and continuing without them would
    /// publish wrong messages.
    pub fn is_live(&mut self) -> bool {
        self.is_live |= self.parts.events.next_record() > self.parts.event_count;
        self.is_live
    }

    /// Returns the number of the next event.
    pub fn next_record(&self) -> u64 {
        self.parts.events.next_record()
    }

    /// Returns the position of the command that caused the last event.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The partition's events.
    pub fn events(&self) -> &EventReader {
        &self.parts.events
    }

    /// The state of the publication.
    pub fn publication(&self) -> &Publication {
        &self.publication
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the sessions in which events are published; the messages sent are tested on real
    //! nodes.

    use std::path::Path;

    use proptest::prelude::*;
    use weir_feed::moldudp64::MoldSession;
    use weir_feed::session_name::session_name;
    use weir_io::ThreadDisk;
    use weir_log::{EventAppend, EventLog, EventLogConfig, TailConfig, tail_in};
    use weir_types::{
        Epoch, Epochs, InstrumentId, Nanos, Phase, PhaseCause, PhaseHold, Position, SessionId,
    };
    use weir_wire::PlainEvent;
    use weir_wire::event::PhaseChanged;

    use super::*;

    const EVENTS: u64 = 20;

    /// Keeps the session that began last.
    #[derive(Default)]
    struct Sessions {
        current: Option<MoldSession>,
    }

    impl PublishSink for Sessions {
        fn session(&mut self, session: MoldSession) {
            self.current = Some(session);
        }
        fn message(&mut self, _message: &[u8]) {}
        fn end(&mut self) {}
    }

    /// Returns a reader of a log with these epochs and one event at each position.
    fn publisher(dir: &Path, epochs: Epochs<Position>) -> EventPublisher {
        let disk = ThreadDisk::open(dir, None).unwrap();
        let config =
            EventLogConfig { segment_bytes: 64 << 10, ..EventLogConfig::new(PartitionId(1), 7) };
        let (mut log, _) = EventLog::open(config, Position(1), disk).unwrap();
        for position in (1..=EVENTS).map(Position) {
            let event = PhaseChanged {
                position,
                transact_time: Nanos(position.0),
                instrument_id: InstrumentId(1),
                partition_id: PartitionId(1),
                phase: Phase::Continuous,
                cause: PhaseCause::Operator,
                session_id: SessionId(1),
                hold: PhaseHold::Free,
            };
            let mut record = Vec::new();
            Event::Plain(PlainEvent::PhaseChanged(event)).encode(&mut record);
            assert_eq!(log.append(position, &record), EventAppend::Taken);
        }
        log.close().unwrap();
        let (_writer, handle) = tail_in(TailConfig::new(1 << 20, EVENTS + 1), epochs);
        EventPublisher::new(EventPublisherParts {
            partition_id: PartitionId(1),
            events: EventReader::new(&handle, dir.to_owned(), 1),
            event_count: EVENTS,
            begins_with: None,
            calendar: Calendar::new(PartitionId(1), 0),
        })
        .0
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn an_event_is_published_in_the_epoch_that_it_survives_in(
            ends in proptest::collection::vec((1..3_u32, 0..=EVENTS), 0..5),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let (mut epoch, mut ended) = (Epoch(1), Vec::new());
            for (skipped, last_valid) in ends {
                ended.push((epoch, Position(last_valid)));
                epoch = Epoch(epoch.0 + skipped);
            }
            let mut publisher = publisher(dir.path(), Epochs::with_ended(epoch, ended.clone()));
            let mut sessions = Sessions::default();
            let calendar = Calendar::new(PartitionId(1), 0);
            let session = |epoch| Some(session_name(calendar, Nanos(0), epoch));
            for position in (1..=EVENTS).map(Position) {
                let heard = publisher.publish_next(&mut sessions);
                prop_assert_eq!(heard, ReadOutcome::Event { is_definition: false });
                // Of the epochs to whose least end since it belongs, the event is of the first.
                let survives = |since: &[_]| since.iter().all(|(_, end)| position <= *end);
                let first = (0..ended.len()).find(|from| survives(&ended[*from..]));
                let expected = first.map_or(epoch, |first| ended[first].0);
                prop_assert_eq!(sessions.current, session(expected), "at {}", position);
            }
            prop_assert_eq!(publisher.publish_next(&mut sessions), ReadOutcome::UpToDate);
            prop_assert!(publisher.is_live());
            prop_assert_eq!(sessions.current, session(epoch), "before the next event");
        }
    }
}
