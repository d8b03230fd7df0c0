//! Brings the control log's definitions to the partitions.
//!
//! Each partition records its imports in its own log, so that the log alone rebuilds it. The engine
//! ignores a definition that it already has, so repeating one after a restart is harmless.

use std::collections::VecDeque;

use weir_runtime::Agent;
use weir_types::{Nanos, Position};
use weir_wire::{Command, Definition, Event};

use crate::event_reader::EventReader;
use crate::handoff::{PartitionPort, Submission};

/// The number of definitions taken from the control log in one cycle.
const TAKE_MAX: usize = 256;

/// A partition that receives definitions.
pub struct ImportingPartition {
    /// The ring to the partition.
    pub port: PartitionPort,
    /// The last definition that it had when it was recovered.
    pub since: Position,
    due: VecDeque<(Position, Definition)>,
}

impl ImportingPartition {
    /// Returns a partition that has all definitions up to `since`.
    #[must_use]
    pub fn new(port: PartitionPort, since: Position) -> ImportingPartition {
        ImportingPartition { port, since, due: VecDeque::new() }
    }
}

/// Sends the control log's definitions to the partitions.
pub struct ControlImporter {
    events: EventReader,
    partitions: Vec<ImportingPartition>,
    record: Vec<u8>,
}

impl ControlImporter {
    /// Returns an importer that follows the control partition's events from the first one.
    #[must_use]
    pub fn new(events: EventReader, partitions: Vec<ImportingPartition>) -> ControlImporter {
        ControlImporter { events, partitions, record: Vec::with_capacity(512) }
    }

    fn follow(&mut self) -> usize {
        let mut taken = 0;
        while taken < TAKE_MAX {
            let Some(_) = self.events.next_of_any_epoch(&mut self.record) else { break };
            taken += 1;
            let event = Event::decode(&self.record).expect("the event log holds our own records");
            if let Event::Defined(defined, definition) = event {
                let at = defined.control_position;
                for partition in self.partitions.iter_mut().filter(|p| p.since < at) {
                    partition.due.push_back((at, definition));
                }
            }
        }
        taken
    }

    fn send(partition: &mut ImportingPartition) -> usize {
        let mut fed = 0;
        while let Some((position, definition)) = partition.due.front() {
            let submission = Submission::internal(Command::Import(*position, *definition));
            if partition.port.submissions.push(submission).is_err() {
                break;
            }
            partition.due.pop_front();
            fed += 1;
        }
        if fed > 0 {
            partition.port.wake.wake();
        }
        fed
    }
}

impl Agent for ControlImporter {
    fn name(&self) -> &'static str {
        "control-import"
    }

    fn do_work(&mut self, _now: Nanos) -> usize {
        let followed = self.follow();
        followed + self.partitions.iter_mut().map(ControlImporter::send).sum::<usize>()
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        let waiting = self.partitions.iter().any(|partition| !partition.due.is_empty());
        waiting.then_some(Nanos(now.0 + 1_000_000))
    }
}
