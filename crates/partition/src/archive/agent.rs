//! The archive's duty cycle: one segment a cycle, oldest first, on a thread of low priority.
//!
//! A failure is told once and tried again: until it ends the segments stay in the log. The files
//! say how far the archive is, so a start begins with the oldest segment and finds those that it
//! has.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_io::{Disk, DiskError, ThreadDisk};
use weir_log::SegmentKind;
use weir_runtime::Agent;
use weir_types::{Nanos, PartitionId, Position};

use super::store::{SealedSegment, SegmentArchive, read_header, segment_names};
use super::{ArchiveError, ArchivePlaces};
use crate::PartitionFigures;
use crate::plant::{self, Plant};

/// The pause between looks for segments to store: 1 s.
const LOOK_INTERVAL: u64 = 1_000_000_000;
/// The pause after a failure before the next try: 5 s.
const RETRY_INTERVAL: u64 = 5_000_000_000;

/// Opens a directory.
pub type OpenDir<D> = Box<dyn FnMut() -> Result<D, DiskError> + Send>;

/// A log whose segments are stored.
struct FedLog<L> {
    kind: SegmentKind,
    open: OpenDir<L>,
    disk: Option<L>,
    /// The name of the newest segment that is stored; empty before the first.
    newest: String,
}

impl<L: Disk> FedLog<L> {
    fn new(kind: SegmentKind, open: OpenDir<L>) -> FedLog<L> {
        FedLog { kind, open, disk: None, newest: String::new() }
    }

    fn disk(&mut self) -> Result<&mut L, DiskError> {
        if self.disk.is_none() {
            self.disk = Some((self.open)()?);
        }
        Ok(self.disk.as_mut().expect("it was opened"))
    }

    /// Returns the names of the segments that are not stored, oldest first.
    fn unstored(&mut self) -> Result<Vec<String>, DiskError> {
        let kind = self.kind;
        let mut names = segment_names(self.disk()?, kind)?;
        names.retain(|name| *name > self.newest);
        Ok(names)
    }

    /// Reads the oldest segment that is not stored; `None` when it went without a copy meanwhile.
    fn read(&mut self, names: &[String]) -> Result<Option<SealedSegment>, ArchiveError> {
        let kind = self.kind;
        let disk = self.disk()?;
        let sealed = read_header(disk, &names[1], kind)
            .and_then(|next| SealedSegment::read(disk, &names[0], &next));
        match sealed {
            Ok(sealed) => Ok(Some(sealed)),
            Err(error) => {
                let is_listed = segment_names(disk, kind)?.contains(&names[0]);
                if is_listed { Err(ArchiveError::Log(error)) } else { Ok(None) }
            }
        }
    }
}

/// The archive's directory, opened when a segment is stored.
struct Target<A> {
    open: OpenDir<A>,
    archive: Option<SegmentArchive<A>>,
}

impl<A: Disk> Target<A> {
    fn store(&mut self, segment: &SealedSegment) -> Result<u64, ArchiveError> {
        if self.archive.is_none() {
            self.archive = Some(SegmentArchive::new((self.open)()?));
        }
        self.archive.as_mut().expect("it was opened").store(segment)
    }
}

/// The parts of an archive's agent.
pub struct ArchiveParts<L, A> {
    /// The partition.
    pub partition_id: PartitionId,
    /// Opens the command log's directory.
    pub commands: OpenDir<L>,
    /// Opens the event log's directory.
    pub events: OpenDir<L>,
    /// Opens the directory of this log in the archive, and locks it.
    pub archive: OpenDir<A>,
    /// The places that the shadow reads.
    pub places: ArchivePlaces,
    /// The partition's figures.
    pub figures: Arc<PartitionFigures>,
}

/// The agent that stores segments in an archive.
pub struct ArchiveAgent<L = ThreadDisk, A = ThreadDisk> {
    partition_id: PartitionId,
    logs: [FedLog<L>; 2],
    target: Target<A>,
    places: ArchivePlaces,
    figures: Arc<PartitionFigures>,
    due: Nanos,
}

impl<L: Disk, A: Disk> ArchiveAgent<L, A> {
    /// Returns the agent. It opens nothing yet: a node starts without its archive's disk.
    #[must_use]
    pub fn new(parts: ArchiveParts<L, A>) -> ArchiveAgent<L, A> {
        let ArchiveParts { partition_id, commands, events, archive, places, figures } = parts;
        ArchiveAgent {
            partition_id,
            logs: [
                FedLog::new(SegmentKind::Command, commands),
                FedLog::new(SegmentKind::Event, events),
            ],
            target: Target { open: archive, archive: None },
            places,
            figures,
            due: Nanos(0),
        }
    }

    /// Stores the oldest segment that is asked for, of the log that has one; false when none is.
    fn try_step(&mut self) -> Result<bool, ArchiveError> {
        for log in &mut self.logs {
            let kind = log.kind;
            let wanted = self.places.wanted(kind);
            // Where both are one, a segment with marks alone may begin there too.
            let stored = self.places.stored(kind);
            let is_passed = wanted == stored && plant::is(Plant::ArchiveMarksPassedOver);
            if wanted == Position::NONE || wanted < stored || is_passed {
                continue;
            }
            let names = log.unstored()?;
            let begins = |at: usize| names.get(at).and_then(|name| first_position_of(name));
            if begins(1).is_none_or(|next| next > wanted) {
                self.places.tell_stored(kind, begins(0).unwrap_or(Position::NONE));
                continue;
            }
            let Some(segment) = log.read(&names)? else { return Ok(true) };
            let written = self.target.store(&segment)?;
            self.figures.counters.archived_bytes.fetch_add(written, Ordering::Relaxed);
            log.newest.clone_from(&names[0]);
            self.places.tell_stored(kind, begins(1).unwrap_or(Position::NONE));
            return Ok(true);
        }
        Ok(false)
    }

    fn fail(&mut self, error: &ArchiveError) {
        let counters = &self.figures.counters;
        counters.archive_failures.fetch_add(1, Ordering::Relaxed);
        if !counters.is_archive_failing.swap(true, Ordering::Relaxed) {
            let partition = self.partition_id.0;
            tracing::error!(
                partition,
                %error,
                "segments cannot be stored in the archive: they stay until this ends"
            );
        }
        // Both are opened anew: the archive's disk may have been mounted again.
        self.target.archive = None;
        for log in &mut self.logs {
            log.disk = None;
        }
    }

    fn succeed(&mut self) {
        if self.figures.counters.is_archive_failing.swap(false, Ordering::Relaxed) {
            let partition = self.partition_id.0;
            tracing::info!(partition, "segments are stored in the archive again");
        }
    }
}

/// Returns the position in a segment's name.
fn first_position_of(name: &str) -> Option<Position> {
    name.split_once('-')?.0.parse().ok().map(Position)
}

impl<L: Disk + Send, A: Disk + Send> Agent for ArchiveAgent<L, A> {
    fn name(&self) -> &'static str {
        "archive"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        if now < self.due {
            return 0;
        }
        match self.try_step() {
            Ok(true) => {
                self.succeed();
                1
            }
            Ok(false) => {
                self.due = Nanos(now.0 + LOOK_INTERVAL);
                0
            }
            Err(error) => {
                self.fail(&error);
                self.due = Nanos(now.0 + RETRY_INTERVAL);
                0
            }
        }
    }

    fn next_deadline(&self, _now: Nanos) -> Option<Nanos> {
        Some(self.due)
    }

    fn stop(&mut self, _now: Nanos) -> bool {
        true
    }
}
