//! The agent that writes the published market's checkpoints: a publisher of its own that sends
//! nothing, on the idle thread of the gateway's.
//!
//! It is no further than the event files are, so that a checkpoint outlives no event, and it holds
//! no event when its disk fails.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_io::{Disk, DiskError};
use weir_log::SnapshotStore;
use weir_partition::PartitionFigures;
use weir_partition::holds::Hold;
use weir_runtime::Agent;
use weir_types::{Nanos, Position};

use super::checkpoint::{Behind, KEEP, PublishCheckpoint, put_state};
use super::event_publisher::{EventPublisher, EventPublisherParts, ReadOutcome};
use super::figures::PublishFigures;
use super::numbers::Numbers;
use crate::plant::{self, Plant};

/// The maximum number of events of one duty cycle.
const EVENTS_MAX: usize = 512;
/// The pause between looks for events, in nanoseconds: 100 ms.
const LOOK_INTERVAL: u64 = 100_000_000;
/// The pause after a failure, in nanoseconds: 10 s.
const RETRY_INTERVAL: u64 = 10_000_000_000;

/// The parts of a [`PublishCheckpoints`].
pub struct PublishCheckpointParts<D> {
    /// The store of the checkpoints.
    pub store: SnapshotStore<D>,
    /// The partition and its events.
    pub events: EventPublisherParts,
    /// The number of events between checkpoints.
    pub every: u64,
    /// The partition's figures.
    pub partition: Arc<PartitionFigures>,
    /// The publisher's figures.
    pub figures: Arc<PublishFigures>,
}

/// The agent that writes a market's checkpoints.
pub struct PublishCheckpoints<D> {
    store: SnapshotStore<D>,
    events: EventPublisher,
    numbers: Numbers,
    every: u64,
    partition: Arc<PartitionFigures>,
    figures: Arc<PublishFigures>,
    /// The events of the checkpoints that the next start may begin with, oldest first.
    written: VecDeque<u64>,
    /// The event of the newest of them, or of the beginning.
    newest: u64,
    /// Keeps the events since the oldest of them.
    kept: Hold,
    due: Nanos,
    /// After a failure, the time of the next try.
    retry: Option<Nanos>,
}

impl<D: Disk> PublishCheckpoints<D> {
    /// Creates the agent, which goes on from the checkpoint with which the publisher began.
    #[must_use]
    pub fn new(parts: PublishCheckpointParts<D>) -> PublishCheckpoints<D> {
        let PublishCheckpointParts { store, events, every, partition, figures } = parts;
        // One that began with the engine's book is not on disk yet.
        let begun = events.begins_with.as_ref().filter(|begun| begun.numbers.session.is_some());
        let written: VecDeque<u64> = begun.map(PublishCheckpoint::event).into_iter().collect();
        let (events, numbers) = EventPublisher::new(events);
        let kept = events.events().hold("market publisher", events.next_record());
        let newest = events.next_record() - 1;
        figures.counters.checkpoint_event.store(newest, Ordering::Relaxed);
        PublishCheckpoints {
            store,
            events,
            numbers,
            every,
            partition,
            figures,
            written,
            newest,
            kept,
            due: Nanos(0),
            retry: None,
        }
    }

    /// Takes events that are in files; returns their number. Goes on after a failure, so that it
    /// keeps no event from being removed.
    fn take(&mut self, now: Nanos) -> usize {
        let in_files = self.partition.counters.event_in_files.load(Ordering::Relaxed);
        for count in 0..EVENTS_MAX {
            let has_next = self.events.next_record() <= in_files && !self.is_due(now);
            if !has_next || self.events.publish_next(&mut self.numbers) == ReadOutcome::UpToDate {
                return count;
            }
        }
        EVENTS_MAX
    }

    /// Returns true when a checkpoint is to be written.
    fn is_due(&self, now: Nanos) -> bool {
        let is_far = self.events.next_record() > self.newest.saturating_add(self.every);
        is_far && self.retry.is_none_or(|retry| now >= retry)
    }

    fn write(&mut self) -> Result<(), DiskError> {
        let event = self.events.next_record() - 1;
        let mut state = Vec::new();
        let behind = Behind {
            next: self.events.next_record(),
            position: self.events.position(),
            next_sequence: self.numbers.next,
        };
        put_state(behind, self.events.publication(), &mut state);
        self.store.write(Position(event), &state)?;
        self.store.prune(KEEP)?;
        self.written.push_back(event);
        self.newest = event;
        while self.written.len() > KEEP {
            self.written.pop_front();
        }
        let oldest = self.written.front().copied();
        let oldest = oldest.filter(|_| !plant::is(Plant::MarketHoldsSinceNewest));
        self.kept.set(oldest.unwrap_or(event) + 1);
        self.figures.counters.checkpoint_event.store(event, Ordering::Relaxed);
        tracing::info!(event, bytes = state.len(), "market checkpoint written");
        if self.retry.take().is_some() {
            tracing::info!(event, "market checkpoints are written again");
        }
        Ok(())
    }

    /// Tells a failure, the first of several with a line. The events are let go: a market whose
    /// checkpoints are too old begins anew with the engine's book.
    fn failed(&mut self, error: &DiskError, now: Nanos) {
        if !plant::is(Plant::FailedMarketHoldsEvents) {
            self.kept.set(u64::MAX);
            self.written.clear();
        }
        self.figures.counters.checkpoint_failures.fetch_add(1, Ordering::Relaxed);
        if self.retry.replace(Nanos(now.0 + RETRY_INTERVAL)).is_none() {
            tracing::error!(%error, "no market checkpoint is written until this ends");
        }
    }
}

impl<D: Disk + Send> Agent for PublishCheckpoints<D> {
    fn name(&self) -> &'static str {
        "publish-checkpoints"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        if now < self.due {
            return 0;
        }
        let count = self.take(now);
        if self.is_due(now) {
            if let Err(error) = self.write() {
                self.failed(&error, now);
            }
            return count + 1;
        }
        if count == 0 {
            self.due = Nanos(now.0 + LOOK_INTERVAL);
        }
        count
    }

    fn next_deadline(&self, _now: Nanos) -> Option<Nanos> {
        Some(self.due)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weir_feed::session_name::Calendar;
    use weir_io::ThreadDisk;
    use weir_log::tail::TailHandle;
    use weir_log::{EventAppend, EventLog, EventLogConfig, TailConfig, tail_in};
    use weir_partition::event_reader::EventReader;
    use weir_partition::holds::Holds;
    use weir_types::{
        Epoch, Epochs, InstrumentId, PartitionId, Phase, PhaseCause, PhaseHold, SessionId,
    };
    use weir_wire::event::PhaseChanged;
    use weir_wire::{Event, PlainEvent};

    use super::super::checkpoint::{PublishedLog, load};
    use super::*;

    const EVENTS: u64 = 20;
    const HERE: PartitionId = PartitionId(1);

    fn midnight() -> Calendar {
        Calendar::new(PartitionId(1), 0)
    }

    /// An event log with one event at each position, which changes a phase.
    struct Rig {
        dir: tempfile::TempDir,
        tail: TailHandle,
    }

    impl Rig {
        fn new(epochs: Epochs<Position>) -> Rig {
            let dir = tempfile::tempdir().unwrap();
            let disk = ThreadDisk::open(&dir.path().join("events"), None).unwrap();
            let config = EventLogConfig { segment_bytes: 64 << 10, ..EventLogConfig::new(HERE, 7) };
            let (mut log, _) = EventLog::open(config, Position(1), disk).unwrap();
            for position in (1..=EVENTS).map(Position) {
                let event = PhaseChanged {
                    position,
                    transact_time: Nanos(position.0),
                    instrument_id: InstrumentId(1),
                    partition_id: HERE,
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
            let (_writer, tail) = tail_in(TailConfig::new(1 << 20, EVENTS + 1), epochs);
            Rig { dir, tail }
        }

        fn path(&self, name: &str) -> std::path::PathBuf {
            self.dir.path().join(name)
        }

        fn events(&self, first: u64) -> EventReader {
            EventReader::new(&self.tail, self.path("events"), first)
        }

        fn store(&self) -> SnapshotStore<ThreadDisk> {
            let disk = ThreadDisk::open(&self.path("publisher"), None).unwrap();
            SnapshotStore::new(disk, 7, HERE)
        }

        fn agent(&self, begins_with: Option<PublishCheckpoint>) -> PublishCheckpoints<ThreadDisk> {
            self.agent_holding(begins_with, &Holds::default())
        }

        /// Takes the place of the store's temporary file, so that no checkpoint can be begun.
        fn fill_store(&self) {
            std::fs::create_dir(self.path("publisher").join("snapshot.part")).unwrap();
        }

        fn agent_holding(
            &self,
            begins_with: Option<PublishCheckpoint>,
            holds: &Holds,
        ) -> PublishCheckpoints<ThreadDisk> {
            let partition = Arc::new(PartitionFigures::default());
            partition.counters.event_in_files.store(EVENTS, Ordering::Relaxed);
            PublishCheckpoints::new(PublishCheckpointParts {
                store: self.store(),
                events: EventPublisherParts {
                    partition_id: HERE,
                    events: self.events(1).holding(holds, "publisher"),
                    begins_with,
                    event_count: EVENTS,
                    calendar: midnight(),
                },
                every: 6,
                partition,
                figures: Arc::default(),
            })
        }

        /// Loads a checkpoint of a log whose first retained event is `first`.
        fn load(&self, first: u64, hour: u8) -> (Option<u64>, String) {
            let mut notes = Vec::new();
            let log = PublishedLog {
                events: self.events(first),
                event_count: EVENTS,
                calendar: Calendar::new(PartitionId(1), hour),
            };
            let found = load(&mut self.store(), log, &mut notes);
            (found.unwrap().map(|found| found.event()), notes.join("\n"))
        }
    }

    fn work(agent: &mut PublishCheckpoints<ThreadDisk>) {
        let mut now = Nanos(1);
        while agent.do_work(now) > 0 {
            now.0 += 1;
        }
    }

    fn epochs(ended: &[(u32, u64)]) -> Epochs<Position> {
        let ended: Vec<_> =
            ended.iter().map(|(epoch, at)| (Epoch(*epoch), Position(*at))).collect();
        Epochs::with_ended(Epoch(ended.len() as u32 + 1), ended)
    }

    #[test]
    fn a_start_begins_with_the_older_of_two_checkpoints_and_the_next_are_the_same() {
        let rig = Rig::new(epochs(&[]));
        let mut agent = rig.agent(None);
        work(&mut agent);
        assert_eq!(rig.store().list().unwrap(), [Position(12), Position(18)]);
        assert_eq!(agent.events.events().retained_from(), 0);
        let bytes = rig.store().load(Position(18)).unwrap().unwrap();
        assert_eq!(rig.load(1, 0), (Some(12), String::new()));
        let log = PublishedLog { events: rig.events(1), event_count: EVENTS, calendar: midnight() };
        let begun = load(&mut rig.store(), log, &mut Vec::new());
        let mut agent = rig.agent(begun.unwrap());
        assert_eq!(agent.events.next_record(), 13);
        work(&mut agent);
        assert_eq!(rig.store().list().unwrap(), [Position(12), Position(18)]);
        assert_eq!(rig.store().load(Position(18)).unwrap().unwrap(), bytes);
    }

    #[test]
    fn the_events_since_the_older_of_two_checkpoints_are_kept_and_none_once_one_fails() {
        let rig = Rig::new(epochs(&[]));
        let holds = Holds::default();
        let mut agent = rig.agent_holding(None, &holds);
        let least = || holds.least().expect("a reader holds").from;
        let mut kept = vec![least()];
        while agent.do_work(Nanos(1)) > 0 {
            kept.push(least());
        }
        kept.dedup();
        assert_eq!(kept, [1, 7, 13], "all, then those behind the older of two");
        // Where none can be written, no event waits for one, but those that are to be read.
        rig.fill_store();
        let mut failing = rig.agent_holding(None, &holds);
        drop(agent);
        assert_eq!(least(), 1);
        assert!(failing.do_work(Nanos(1)) > 0);
        assert!(failing.retry.is_some(), "it has failed");
        assert_eq!(least(), 7);
    }

    #[cfg(feature = "planted")]
    #[test]
    fn every_planted_bug_of_market_checkpoints_is_found() {
        let tests = [
            a_checkpoint_with_events_that_its_epoch_lost_is_passed_over,
            a_start_begins_with_the_older_of_two_checkpoints_and_the_next_are_the_same,
            the_events_since_the_older_of_two_checkpoints_are_kept_and_none_once_one_fails,
        ];
        // The other one is of a gateway's figures, whose own tests find it.
        for plant in Plant::ALL.iter().copied().filter(|one| *one != Plant::LostSumUnbounded) {
            plant::set(Some(plant));
            let is_found = tests.iter().any(|test| std::panic::catch_unwind(test).is_err());
            plant::set(None);
            assert!(is_found, "{plant:?}");
        }
    }

    #[test]
    fn a_log_with_all_events_and_one_checkpoint_is_read_from_its_first_event() {
        let rig = Rig::new(epochs(&[]));
        work(&mut rig.agent(None));
        rig.store().remove_after(Position(12)).unwrap();
        assert_eq!(rig.load(1, 0), (None, String::new()));
        assert_eq!(rig.load(2, 0), (Some(12), String::new()));
    }

    #[test]
    fn a_checkpoint_that_does_not_fit_is_passed_over_with_the_reason() {
        let rig = Rig::new(epochs(&[]));
        work(&mut rig.agent(None));
        for (first, hour, event, said) in [
            (13, 0, Some(12), ""),
            (14, 0, Some(18), "event 12 is passed over: events 13 to 13 are past the retention"),
            (20, 0, None, "event 18 is passed over: events 19 to 19 are past the retention"),
            (2, 1, None, "event 12 is passed over: its days begin at another hour"),
        ] {
            let (found, notes) = rig.load(first, hour);
            assert_eq!(found, event, "{notes}");
            assert!(notes.contains(said), "{notes}");
        }
        std::fs::write(damage(&rig.path("publisher")), b"no checkpoint").unwrap();
        let (found, notes) = rig.load(2, 0);
        assert_eq!(found, Some(18), "{notes}");
    }

    /// Returns the oldest checkpoint's file.
    fn damage(dir: &Path) -> std::path::PathBuf {
        let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        files.min().unwrap()
    }

    #[test]
    fn a_checkpoint_with_events_that_its_epoch_lost_is_passed_over() {
        let rig = Rig::new(epochs(&[]));
        work(&mut rig.agent(None));
        // The epoch ended behind position 15, and the events after it are others.
        let lost = Rig { tail: Rig::new(epochs(&[(1, 15)])).tail, ..rig };
        assert_eq!(lost.load(2, 0), (Some(12), String::new()));
        let lost = Rig { tail: Rig::new(epochs(&[(1, 11)])).tail, ..lost };
        let (found, notes) = lost.load(2, 0);
        assert_eq!(found, None, "{notes}");
        assert!(
            notes.contains("event 12 is passed over: its epoch 1 has lost its last"),
            "{notes}"
        );
    }
}
