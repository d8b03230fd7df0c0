//! Brings the control log's definitions to the partitions.
//!
//! Each partition records its imports in its own log, so that the log alone rebuilds it. The engine
//! ignores a definition that it already has, so repeating one after a restart is harmless.
//!
//! An order is never refused for want of a definition that an operator was told of, on whichever
//! threads the partitions run. [`ImportProgress`] says how far the importer has come:
//!
//! | the gateway | waits for |
//! | --- | --- |
//! | reads an event of the control log | the importer to have followed it |
//! | hands a partition a request | all definitions that the gateway has read to be in its ring |
//!
//! The importer follows past a partition whose ring is full: operators, the other partitions and
//! all readers go on, and the requests to that one wait, as they do where their own ring is full. A
//! partition empties the importer's ring first (`take_order`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_runtime::{Agent, Wake};
use weir_types::{Nanos, Position};
use weir_wire::{Command, Definition, Event};

use crate::event_reader::EventReader;
use crate::handoff::{PartitionPort, Submission};
use crate::plant::{self, Plant};

/// The number of definitions taken from the control log in one cycle.
const TAKE_MAX: usize = 256;

/// The records of the control log that the importer has dealt with, for the gateway's thread.
/// Clones share them.
#[derive(Clone, Debug)]
pub struct ImportProgress(Arc<Numbers>);

#[derive(Debug)]
struct Numbers {
    /// The newest record that the importer has followed.
    followed: AtomicU64,
    /// For each partition the newest record up to which it has all definitions in its ring.
    handed: Box<[AtomicU64]>,
}

impl ImportProgress {
    /// Returns the progress of a node without an importer: nothing waits for it.
    #[must_use]
    pub fn unbounded() -> ImportProgress {
        ImportProgress::new(0, u64::MAX)
    }

    /// Returns the progress at the start: the gateway may read the records up to `followed`, which
    /// are those from before, and none of the definitions is in a ring.
    fn new(partition_count: usize, followed: u64) -> ImportProgress {
        let handed = (0..partition_count).map(|_| AtomicU64::new(0)).collect();
        ImportProgress(Arc::new(Numbers { followed: AtomicU64::new(followed), handed }))
    }

    /// Returns the newest record of the control log that the gateway may read.
    #[must_use]
    pub fn followed(&self) -> u64 {
        // SYNC: pairs with the store in `ControlImporter::tell`: the definitions up to this record
        // were pushed before, and `handed` was stored.
        self.0.followed.load(Ordering::Acquire)
    }

    /// Returns true when a partition has all definitions up to a record in its ring; the first
    /// partition that imports has the index 0.
    #[must_use]
    pub fn has_handed(&self, index: usize, record: u64) -> bool {
        let Some(handed) = self.0.handed.get(index) else { return true };
        // SYNC: pairs with the store in `ControlImporter::tell`: they were pushed before.
        handed.load(Ordering::Acquire) >= record
    }

    /// Returns the newest record up to which a partition has all definitions in its ring.
    #[must_use]
    pub fn handed(&self, index: usize) -> u64 {
        let handed = self.0.handed.get(index);
        handed.map_or(u64::MAX, |handed| handed.load(Ordering::Relaxed))
    }

    fn tell(&self, index: usize, record: u64) {
        // SYNC: pairs with the load in `has_handed`.
        self.0.handed[index].store(record, Ordering::Release);
    }

    fn tell_followed(&self, record: u64) {
        // SYNC: pairs with the load in `followed`.
        self.0.followed.store(record, Ordering::Release);
    }
}

/// A definition on its way to a partition.
#[derive(Clone, Copy, Debug)]
struct Due {
    /// Its record among the control log's events.
    record: u64,
    position: Position,
    definition: Definition,
}

/// A partition that receives definitions.
pub struct ImportingPartition {
    /// The ring to the partition.
    pub port: PartitionPort,
    /// The last definition that it had when it was recovered.
    pub since: Position,
    due: VecDeque<Due>,
}

impl ImportingPartition {
    /// Returns a partition that has all definitions up to `since`.
    #[must_use]
    pub fn new(port: PartitionPort, since: Position) -> ImportingPartition {
        ImportingPartition { port, since, due: VecDeque::new() }
    }

    /// Puts definitions into the ring while it has room; returns their number.
    fn send(&mut self) -> usize {
        let mut fed = 0;
        while let Some(Due { position, definition, .. }) = self.due.front() {
            let submission = Submission::internal(Command::Import(*position, *definition));
            if self.port.submissions.push(submission).is_err() {
                break;
            }
            self.due.pop_front();
            fed += 1;
        }
        if fed > 0 {
            self.port.wake.wake();
        }
        fed
    }
}

/// Sends the control log's definitions to the partitions.
pub struct ControlImporter {
    events: EventReader,
    partitions: Vec<ImportingPartition>,
    progress: ImportProgress,
    /// The gateway's thread, which waits for the progress.
    gateway: Wake,
    record: Vec<u8>,
}

impl ControlImporter {
    /// Returns an importer that follows the control partition's events from the first one. The
    /// gateway has those that there are when its thread starts.
    #[must_use]
    pub fn new(
        events: EventReader,
        partitions: Vec<ImportingPartition>,
        gateway: Wake,
    ) -> ControlImporter {
        let progress = ImportProgress::new(partitions.len(), events.end() - 1);
        ControlImporter { events, partitions, progress, gateway, record: Vec::with_capacity(512) }
    }

    /// Returns its progress, for the gateway.
    #[must_use]
    pub fn progress(&self) -> ImportProgress {
        self.progress.clone()
    }

    fn follow(&mut self) -> usize {
        let mut taken = 0;
        while taken < TAKE_MAX {
            let Some(record) = self.events.next_of_any_epoch(&mut self.record) else { break };
            taken += 1;
            let event = Event::decode(&self.record).expect("the event log holds our own records");
            if let Event::Defined(defined, definition) = event {
                let position = defined.control_position;
                for partition in self.partitions.iter_mut().filter(|p| p.since < position) {
                    partition.due.push_back(Due { record, position, definition });
                }
            }
        }
        taken
    }

    /// Tells the gateway how far it is, behind the definitions themselves.
    fn tell(&self) {
        let followed = self.events.next_record() - 1;
        for (index, partition) in self.partitions.iter().enumerate() {
            let due = partition.due.front().filter(|_| !plant::is(Plant::DefinitionsToldEarly));
            let handed = due.map_or(followed, |due| due.record - 1);
            self.progress.tell(index, handed);
        }
        // At the start the gateway has read further.
        self.progress.tell_followed(followed.max(self.progress.followed()));
        self.gateway.wake();
    }
}

impl Agent for ControlImporter {
    fn name(&self) -> &'static str {
        "control-import"
    }

    fn do_work(&mut self, _now: Nanos) -> usize {
        let followed = self.follow();
        let fed: usize = self.partitions.iter_mut().map(ImportingPartition::send).sum();
        if followed + fed > 0 {
            self.tell();
        }
        followed + fed
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        let waiting = self.partitions.iter().any(|partition| !partition.due.is_empty());
        waiting.then_some(Nanos(now.0 + 1_000_000))
    }

    fn stop(&mut self, _now: Nanos) -> bool {
        // No more requests come, and the gateway sends the answers that it has not read.
        self.progress.tell_followed(u64::MAX);
        self.gateway.wake();
        true
    }
}

#[cfg(test)]
mod tests {
    use weir_log::tail::{TailConfig, TailWriter, tail};
    use weir_types::PartitionId;
    use weir_wire::event::Defined;

    use super::*;
    use crate::handoff::{SourcePort, gateway_to_partition_with};
    use crate::test_firm::firm;

    const RING: usize = 4;

    fn define(control: &mut TailWriter, numbers: std::ops::RangeInclusive<u32>) {
        for number in numbers {
            let position = Position(u64::from(number));
            let defined = Defined {
                position,
                transact_time: Nanos(0),
                control_position: position,
                partition_id: PartitionId(0),
            };
            let mut record = Vec::new();
            Event::Defined(defined, firm(number)).encode(&mut record);
            control.append(&record);
        }
        control.publish();
    }

    /// Returns an importer to two partitions, the control log's events, and the partitions' ends.
    fn importer() -> (ControlImporter, TailWriter, [SourcePort; 2]) {
        let (mut control, handle) = tail(TailConfig::new(1 << 20, 1));
        define(&mut control, 1..=2);
        let (mut fed, mut ends) = (Vec::new(), Vec::new());
        // The second one has both definitions from before.
        for (id, since) in [(1, 0), (2, 2)] {
            let (port, end) = gateway_to_partition_with(PartitionId(id), Wake::new(), RING);
            fed.push(ImportingPartition::new(port, Position(since)));
            ends.push(end);
        }
        let events = EventReader::new(&handle, "no-files".into(), 1);
        let ends = ends.try_into().unwrap_or_else(|_| unreachable!("two partitions"));
        (ControlImporter::new(events, fed, Wake::new()), control, ends)
    }

    #[test]
    fn the_progress_follows_the_definitions_and_passes_a_full_ring() {
        let (mut importer, mut control, [mut first, mut second]) = importer();
        let progress = importer.progress();
        let told = || (progress.followed(), [0, 1].map(|index| progress.handed(index)));
        assert_eq!(told(), (2, [0, 0]), "the gateway takes in the past, and requests wait");
        importer.do_work(Nanos(1));
        assert_eq!(told(), (2, [2, 2]));
        define(&mut control, 3..=7);
        assert_eq!(told(), (2, [2, 2]));
        importer.do_work(Nanos(2));
        assert_eq!(told(), (7, [4, 6]), "each up to its full ring");
        assert!(progress.has_handed(0, 4) && !progress.has_handed(0, 5));
        assert_eq!(importer.next_deadline(Nanos(2)), Some(Nanos(1_000_002)));
        while second.submissions.pop().is_ok() {}
        importer.do_work(Nanos(3));
        assert_eq!(told(), (7, [4, 7]), "the other one stands");
        while first.submissions.pop().is_ok() {}
        importer.do_work(Nanos(4));
        assert_eq!(told(), (7, [7, 7]));
        assert_eq!(importer.next_deadline(Nanos(4)), None);
        assert!(importer.stop(Nanos(5)));
        assert_eq!(progress.followed(), u64::MAX);
    }

    #[cfg(feature = "planted")]
    #[test]
    fn the_planted_bug_of_definitions_told_early_is_found() {
        let test = the_progress_follows_the_definitions_and_passes_a_full_ring;
        assert!(plant::is_found(Plant::DefinitionsToldEarly, test));
    }
}
