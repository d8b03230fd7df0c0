//! The archive: the segments of one source in one directory, and the changes that are not in a
//! segment yet.
//!
//! Fed with changes in the order of their places, it closes a segment per interval of the log's
//! time or per size, merges small segments into larger ones, retires old ones, and serves readers
//! (`reader.rs`). It has no thread and no clock; its disk blocks. The directory is its manifest:
//! the names say which range each file covers, and show the leftovers of an interrupted merge or
//! removal.
//!
//! INVARIANT: the segments cover one range of places without a hole, from the floor to the end. The
//! latest state of each record that changed in the range is in the segment of its last change, or
//! among the changes that are not in a segment yet. No place outside the range is served.

use std::collections::{BTreeMap, VecDeque};

use weir_io::{Disk, DiskError, DiskErrorKind};
use weir_types::{ChangeId, Epoch, Epochs, Nanos, PartitionId, Reason, Rec, Survival};

use crate::block::Block;
use crate::entry::{Batch, Change, ChangeError, IMAGE_LEN, Image};
use crate::merge_progress::Merge;
use crate::newest::NewestSegments;
use crate::open::Open;
use crate::plant::{self, Plant};
use crate::segment::{BLOCK_ENTRIES_MAX, Header, PART_SUFFIX, Segment, parse_name};
use crate::served;
use crate::writer::{SegmentError, SegmentWriter, open_segment, visit_keys};

/// The configuration of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColdConfig {
    /// The source of the records.
    pub source: PartitionId,
    /// The source's epoch.
    pub epoch: Epoch,
    /// The source's earlier epochs with the last valid place of each, oldest first.
    pub past_epochs: Vec<(Epoch, ChangeId)>,
    /// The log's time that a segment covers.
    pub interval: Nanos,
    /// The bytes of changes at which a segment is closed early.
    pub segment_bytes_max: u64,
    /// Entries of a block, 1 to [`BLOCK_ENTRIES_MAX`].
    pub block_entries: u32,
    /// The number of adjacent segments that are merged into one, at least 2.
    pub merge_count: usize,
    /// The largest file that a merge may make, by the sum of its inputs.
    pub merge_bytes_max: u64,
    /// The age of a segment at which it is retired, from its closing; `Nanos(u64::MAX)` for never.
    pub keep_for: Nanos,
    /// The bytes of files that are kept.
    pub keep_bytes: u64,
    /// The number of blocks that are cached unpacked, at least 1.
    pub cached_blocks: usize,
}

impl ColdConfig {
    /// Returns the configuration of an archive of a day in segments of ten seconds, up to 64 GiB.
    #[must_use]
    pub fn new(source: PartitionId, epoch: Epoch) -> ColdConfig {
        ColdConfig {
            source,
            epoch,
            past_epochs: Vec::new(),
            interval: Nanos(10_000_000_000),
            segment_bytes_max: 256 << 20,
            block_entries: 2_048,
            merge_count: 8,
            merge_bytes_max: 2 << 30,
            keep_for: Nanos(86_400_000_000_000),
            keep_bytes: 64 << 30,
            cached_blocks: 8,
        }
    }
}

/// An error of an archive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColdError {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A file is damaged; the range that it and older files cover is given up.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The change is invalid.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The change is not after the last one taken.
    #[error("a change at {got:?} after {last:?} was taken")]
    OutOfOrder {
        /// The change's place.
        got: ChangeId,
        /// The last place taken.
        last: ChangeId,
    },
    /// Epochs only grow.
    #[error("epoch {0} is not after the archive's")]
    EpochRepeated(Epoch),
    /// The archive has files of a later epoch: its configuration is older than its files.
    #[error("{file} is of epoch {epoch}: the archive cannot be opened in epoch {asked}")]
    EpochBehind {
        /// The file.
        file: String,
        /// Its epoch.
        epoch: Epoch,
        /// The epoch in which the archive was to be opened.
        asked: Epoch,
    },
}

/// The reason that a reader cannot go on from a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Resync {
    /// The place is beyond the end of its epoch, or its epoch is not known here.
    #[error("the place is beyond its epoch's end")]
    Epoch,
    /// The changes after the place are not all kept.
    #[error("the place is older than what is kept")]
    Floor,
}

impl Resync {
    /// Returns the reason code of the wire format.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Resync::Epoch => Reason::ResyncEpoch,
            Resync::Floor => Reason::ResyncFloor,
        }
    }
}

/// The findings of opening an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Damaged files, with their faults; they stay where they are.
    pub damaged: Vec<SegmentError>,
    /// Files that were removed: unfinished ones, parts of a larger one, or ones of a voided
    /// history.
    pub removed: Vec<String>,
    /// Files of this source that a hole separates from the served range; they stay where they are.
    pub unreachable: Vec<String>,
    /// Files of epochs that are not known: of another history, or of an epoch so old that its end
    /// is forgotten. They are not served, and stay where they are.
    pub unknown: Vec<String>,
    /// Files of other sources.
    pub foreign: Vec<String>,
}

/// The suffix of segments of a history that their source no longer knows.
pub const ASIDE_SUFFIX: &str = ".unknown";

/// The number of the last segment found when opening; later ones have higher numbers. At one
/// segment per second the numbers last a hundred years.
const NUMBER_START: u32 = 1 << 20;

/// The most ended epochs that are known; places of older ones are refused.
const PAST_EPOCHS_MAX: usize = 1_024;

/// The time of work after which the archive's time is written although the archive was not stopped:
/// a crash takes no more of it. An hour.
const NOTE_EVERY: Nanos = Nanos(3_600 * 1_000_000_000);

/// A segment with its number in the order of history; a merged segment has that of its last input.
#[derive(Clone, Debug)]
pub(crate) struct NumberedSegment {
    pub(crate) segment: Segment,
    pub(crate) number: u32,
}

/// Removes all of a source's segments, if the source survives no restart. With `known`, the epoch
/// that a source has recovered, renames them if one has a later epoch, which the source no longer
/// knows: they are of no archive then, and an operator decides about them. Returns their number.
///
/// # Errors
/// [`DiskError`] if the disk fails.
pub fn set_aside_unknown<D: Disk>(
    disk: &mut D,
    source: PartitionId,
    known: Option<Epoch>,
) -> Result<usize, DiskError> {
    let mut names = disk.list()?;
    let epoch_of = |name: &String| match parse_name(name) {
        Some(name) if name.source == source => Some(name.epoch),
        _ => None,
    };
    names.retain(|name| epoch_of(name).is_some());
    if known.is_some_and(|known| names.iter().all(|name| epoch_of(name) <= Some(known))) {
        return Ok(0);
    }
    for name in &names {
        match known {
            Some(_) => disk.rename(name, &format!("{name}{ASIDE_SUFFIX}"))?,
            None => disk.remove(name)?,
        }
    }
    disk.sync_dir()?;
    Ok(names.len())
}

/// Returns true if a source has a segment of `epoch` or an earlier one.
///
/// # Errors
/// [`DiskError`] if the disk fails.
pub fn has_segments_upto<D: Disk>(
    disk: &mut D,
    source: PartitionId,
    epoch: Epoch,
) -> Result<bool, DiskError> {
    let names = disk.list()?;
    let of_source = names.iter().filter_map(|name| parse_name(name));
    let mut of_source = of_source.filter(|name| name.source == source);
    Ok(of_source.any(|name| name.epoch <= epoch))
}

/// The figures of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColdFigures {
    /// Files.
    pub segments: u64,
    /// Entries in them.
    pub entries: u64,
    /// Bytes of the files.
    pub file_bytes: u64,
    /// Bytes of memory: indexes, the records' segments, changes not in a segment, unpacked blocks.
    pub memory_bytes: u64,
    /// Bytes of changes that are in no segment yet.
    pub open_bytes: u64,
    /// Merges completed.
    pub merges: u64,
    /// Files retired for their age or for room.
    pub retired: u64,
    /// Holes: the archive was fed too late and began anew.
    pub holes: u64,
    /// Blocks that were read and unpacked for readers.
    pub blocks_read: u64,
    /// Blocks that an index ruled out.
    pub blocks_skipped: u64,
}

/// The result of a call of [`Archive::work`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum WorkOutcome {
    /// Nothing is due.
    Nothing,
    /// A segment was closed.
    Closed,
    /// A step of a merge was made.
    Merged,
    /// A file was retired.
    Retired,
}

/// The segments of one source, and its changes that are not in a segment yet.
pub struct Archive<D> {
    pub(crate) disk: D,
    pub(crate) config: ColdConfig,
    pub(crate) segments: VecDeque<NumberedSegment>,
    pub(crate) newest: NewestSegments,
    /// The last place taken, and the end of the last segment.
    fed: ChangeId,
    pub(crate) end: ChangeId,
    pub(crate) floor: ChangeId,
    epochs: Epochs<ChangeId>,
    open: Open,
    scratch: Vec<u8>,
    /// The time of the last call of [`Archive::work`], and of the first one since the opening.
    clock: Nanos,
    first_clock: Nanos,
    /// The time of this opening at which the archive's time was last written.
    noted_at: Nanos,
    /// The number of the last segment closed.
    last_number: u32,
    pub(crate) merge: Option<Merge>,
    holds: BTreeMap<u64, (ChangeId, Nanos)>,
    next_hold: u64,
    /// True when taken changes were dropped, and nothing was taken since.
    was_cut: bool,
    /// Segments given up since the last call of [`Archive::take_damaged`].
    damaged: Vec<SegmentError>,
    pub(crate) cache: VecDeque<(u32, usize, Block)>,
    pub(crate) figures: ColdFigures,
}

impl<D: Disk> Archive<D> {
    /// Opens the archive in `disk`'s directory. Without a file it begins at the first place taken,
    /// or at the one given to [`Archive::begin_at`].
    ///
    /// # Errors
    /// [`ColdError::Disk`]; [`ColdError::EpochBehind`], and then nothing was changed. Damaged files
    /// are listed in the report.
    ///
    /// # Panics
    /// If the configuration is out of its ranges.
    pub fn open(disk: D, config: ColdConfig) -> Result<(Archive<D>, OpenReport), ColdError> {
        assert!((1..=BLOCK_ENTRIES_MAX).contains(&config.block_entries), "entries of a block");
        assert!(config.merge_count >= 2 && config.cached_blocks >= 1, "merges and cached blocks");
        let mut archive = Archive {
            disk,
            segments: VecDeque::new(),
            newest: NewestSegments::default(),
            fed: ChangeId::START,
            end: ChangeId::START,
            floor: ChangeId::START,
            epochs: Epochs::with_ended(config.epoch, config.past_epochs.iter().copied()),
            open: Open::default(),
            scratch: Vec::new(),
            clock: Nanos(0),
            first_clock: Nanos(0),
            noted_at: Nanos(0),
            last_number: NUMBER_START,
            merge: None,
            holds: BTreeMap::new(),
            next_hold: 0,
            was_cut: false,
            damaged: Vec::new(),
            cache: VecDeque::new(),
            figures: ColdFigures::default(),
            config,
        };
        let mut report = OpenReport::default();
        let found = archive.list(&mut report)?;
        archive.chain(found, &mut report)?;
        let closed = archive.segments().map(|segment| segment.header.closed_at);
        let closed = closed.max().unwrap_or_default();
        archive.clock = closed.max(served::read(&mut archive.disk)?);
        archive.disk.sync_dir()?;
        Ok((archive, report))
    }

    /// Returns the valid segments of this source that no epoch voids. Nothing is removed before it
    /// is certain that none is of an epoch after the archive's. A segment of which it is not known
    /// that it is void stays.
    fn list(&mut self, report: &mut OpenReport) -> Result<Vec<Segment>, ColdError> {
        let (mut found, mut unneeded) = (Vec::new(), Vec::new());
        for name in self.disk.list()? {
            if name.ends_with(PART_SUFFIX) {
                unneeded.push(name);
                continue;
            }
            let Some(parsed) = parse_name(&name) else { continue };
            if parsed.source != self.config.source {
                report.foreign.push(name);
                continue;
            }
            match open_segment(&mut self.disk, &name) {
                Ok(segment) if segment.header.epoch > self.epoch() => {
                    let (epoch, asked) = (segment.header.epoch, self.epoch());
                    return Err(ColdError::EpochBehind { file: name, epoch, asked });
                }
                Ok(segment) => found.push(segment),
                Err(SegmentError::Disk(error)) => return Err(error.into()),
                Err(error) => report.damaged.push(error),
            }
        }
        let mut sound = Vec::new();
        for segment in found {
            let Header { epoch, to, .. } = segment.header;
            match self.epochs.survival(epoch) {
                Survival::Whole => sound.push(segment),
                Survival::UpTo(end) if to <= end => sound.push(segment),
                Survival::UpTo(_) => unneeded.push(segment.header.file_name()),
                Survival::Unknown => report.unknown.push(segment.header.file_name()),
            }
        }
        for name in unneeded {
            self.remove(name, report)?;
        }
        Ok(sound)
    }

    fn remove(&mut self, name: String, report: &mut OpenReport) -> Result<(), ColdError> {
        self.disk.remove(&name)?;
        report.removed.push(name);
        Ok(())
    }

    /// Takes the widest segments that cover a range up to the latest place without a hole.
    fn chain(&mut self, mut found: Vec<Segment>, report: &mut OpenReport) -> Result<(), ColdError> {
        // Latest end first, the widest of each end first.
        found.sort_by_key(|segment| (core::cmp::Reverse(segment.header.to), segment.header.after));
        let mut number = NUMBER_START;
        for segment in found {
            let header = segment.header;
            let oldest = self.segments.front().map(|oldest| oldest.segment.header.after);
            if oldest.is_none_or(|oldest| header.to == oldest) {
                match self.read_recs(&segment) {
                    Ok(recs) => {
                        recs.into_iter().for_each(|rec| self.newest.set(rec, number));
                        self.segments.push_front(NumberedSegment { segment, number });
                        number -= 1;
                    }
                    Err(SegmentError::Disk(error)) => return Err(error.into()),
                    Err(error) => report.damaged.push(error),
                }
            } else if oldest.is_some_and(|oldest| header.after >= oldest) {
                self.remove(header.file_name(), report)?;
            } else {
                report.unreachable.push(header.file_name());
            }
        }
        if let (Some(oldest), Some(last)) = (self.segments.front(), self.segments.back()) {
            let to = last.segment.header.to;
            (self.floor, self.end, self.fed) = (oldest.segment.header.after, to, to);
        }
        Ok(())
    }

    /// Returns the records of a segment; the whole segment is read before any of them counts.
    fn read_recs(&mut self, segment: &Segment) -> Result<Vec<Rec>, SegmentError> {
        let mut recs = Vec::new();
        visit_keys(&mut self.disk, segment, |change_id, is_mark| {
            if !is_mark {
                recs.push(change_id.rec);
            }
        })?;
        Ok(recs)
    }

    /// Returns the last place taken: the next changes are those after it.
    #[must_use]
    pub fn fed(&self) -> ChangeId {
        self.fed
    }

    /// Returns the place up to which readers are served.
    #[must_use]
    pub fn end(&self) -> ChangeId {
        self.end
    }

    /// Returns the place after which all changes are kept.
    #[must_use]
    pub fn floor(&self) -> ChangeId {
        self.floor
    }

    /// Returns the source's epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epochs.current()
    }

    /// Returns the bytes of changes that are in no segment yet.
    #[must_use]
    pub fn open_bytes(&self) -> u64 {
        self.open.bytes()
    }

    /// Returns the segments, oldest first.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().map(|numbered| &numbered.segment)
    }

    /// Returns the archive's figures.
    #[must_use]
    pub fn figures(&self) -> ColdFigures {
        let sum = |of: fn(&Segment) -> u64| self.segments().map(of).sum();
        let cached: u64 = self.cache.iter().map(|(_, _, block)| block.bytes()).sum();
        let open = (self.open.images.capacity() + self.open.attributes.capacity()) as u64;
        ColdFigures {
            segments: self.segments.len() as u64,
            entries: sum(|segment| segment.entry_count),
            file_bytes: sum(|segment| segment.file_len),
            memory_bytes: sum(|segment| segment.index_len() as u64)
                + self.newest.bytes()
                + cached
                + open,
            open_bytes: self.open_bytes(),
            ..self.figures
        }
    }

    /// Drops everything that is kept and begins at `change_id`: the changes between the last place
    /// taken and this one are no longer available.
    ///
    /// # Errors
    /// [`ColdError::Disk`].
    ///
    /// # Panics
    /// If `change_id` is before the last one taken.
    pub fn begin_at(&mut self, change_id: ChangeId) -> Result<(), ColdError> {
        assert!(change_id >= self.fed, "places only grow");
        self.stop_merge();
        while let Some(oldest) = self.segments.pop_front() {
            self.disk.remove(&oldest.segment.header.file_name())?;
        }
        self.disk.sync_dir()?;
        self.newest = NewestSegments::default();
        self.cache.clear();
        self.open = Open::default();
        (self.fed, self.end, self.floor) = (change_id, change_id, change_id);
        Ok(())
    }

    fn open_number(&self) -> u32 {
        self.last_number + 1
    }

    /// Takes a change. A record and the mark of its former keys share a place, the record first.
    ///
    /// # Errors
    /// [`ColdError::Change`], [`ColdError::OutOfOrder`]: the archive is unchanged.
    pub fn take(&mut self, change: &Change<'_>) -> Result<(), ColdError> {
        let mut image = core::mem::take(&mut self.scratch);
        image.clear();
        let taken = match change.put(&mut image) {
            Ok(_) => self.append(Image(&image), change.attributes),
            Err(error) => Err(error.into()),
        };
        self.scratch = image;
        taken
    }

    /// Takes a batch's changes, and records that there are no others up to its end. A batch that
    /// begins later than the last place taken leaves a hole: the archive begins anew with it.
    ///
    /// # Errors
    /// [`ColdError::OutOfOrder`]: the changes before the one that it names were taken.
    /// [`ColdError::Disk`] if the files before a hole cannot be removed.
    pub fn take_batch(&mut self, batch: &Batch) -> Result<(), ColdError> {
        if batch.from > self.fed && !plant::is(Plant::HoleNotNoted) {
            if self.fed > ChangeId::START || self.was_cut {
                self.figures.holes += 1;
            }
            self.begin_at(batch.from)?;
        }
        self.was_cut = false;
        let mut at = 0;
        for image in batch.images.chunks_exact(IMAGE_LEN).map(Image) {
            let end = at + image.attributes_len();
            self.append(image, &batch.attributes[at..end])?;
            at = end;
        }
        self.advance_to(batch.to);
        Ok(())
    }

    fn append(&mut self, image: Image<'_>, attributes: &[u8]) -> Result<(), ColdError> {
        let got = image.change_id();
        let last = self.open.images.rchunks_exact(IMAGE_LEN).next().map(Image);
        let is_its_mark = got == self.fed
            && image.is_mark()
            && last.is_some_and(|last| last.change_id() == got && !last.is_mark());
        if got <= self.fed && !is_its_mark {
            return Err(ColdError::OutOfOrder { got, last: self.fed });
        }
        self.open.note_time(image.transact_time());
        if !image.is_mark() {
            self.newest.set(got.rec, self.open_number());
        }
        self.open.images.extend_from_slice(image.0);
        self.open.attributes.extend_from_slice(attributes);
        self.fed = got;
        Ok(())
    }

    /// Records that there is no change up to `change_id` besides those taken. Optional: without it
    /// the next segment ends at its last change.
    pub fn advance_to(&mut self, change_id: ChangeId) {
        self.fed = self.fed.max(change_id);
    }

    fn is_close_due(&self) -> bool {
        let covered = self.open.last_time.0.saturating_sub(self.open.first_time.0);
        !self.open.images.is_empty()
            && (covered >= self.config.interval.0
                || self.open.bytes() >= self.config.segment_bytes_max)
    }

    /// Returns the time of the last call of [`Archive::work`]; after an opening the one that was
    /// written last, at the closing of a segment or by [`Archive::note_clock`], zero for unknown.
    #[must_use]
    pub fn clock(&self) -> Nanos {
        self.clock
    }

    /// Does a bounded part of the work that is due: closes a segment, merges a block, retires a
    /// file. `now` is the time by which segments grow old. It goes on from [`Archive::clock`] and
    /// has nothing to do with the times of changes, which are their sources' own and may be wrong.
    ///
    /// # Errors
    /// [`ColdError`]; the work that failed is still due.
    pub fn work(&mut self, now: Nanos) -> Result<WorkOutcome, ColdError> {
        match self.keep_up(now)? {
            WorkOutcome::Nothing if self.merge_step()? => Ok(WorkOutcome::Merged),
            worked => Ok(worked),
        }
    }

    /// Does the work of [`Archive::work`] except merging, which makes later reads cheaper and can
    /// wait while a reader is served.
    ///
    /// # Errors
    /// As [`Archive::work`].
    pub fn keep_up(&mut self, now: Nanos) -> Result<WorkOutcome, ColdError> {
        self.clock = self.clock.max(now);
        if self.first_clock == Nanos(0) {
            (self.first_clock, self.noted_at) = (self.clock, self.clock);
        }
        if self.is_close_due() {
            self.close()?;
            return Ok(WorkOutcome::Closed);
        }
        if self.retire(now)? {
            return Ok(WorkOutcome::Retired);
        }
        if self.clock.since(self.noted_at) >= NOTE_EVERY {
            self.note_clock(now)?;
        }
        Ok(WorkOutcome::Nothing)
    }

    /// Writes the archive's time, from which the next opening goes on: at a stop, and now and then
    /// by [`Archive::work`].
    ///
    /// # Errors
    /// [`ColdError::Disk`]; the next opening goes on from the time that was written before.
    pub fn note_clock(&mut self, now: Nanos) -> Result<(), ColdError> {
        self.clock = self.clock.max(now);
        served::write(&mut self.disk, self.clock)?;
        self.noted_at = self.clock;
        Ok(())
    }

    /// Writes the changes that are not in a segment into one; true if there were some. When it
    /// returns, they survive a power loss and are served.
    ///
    /// # Errors
    /// [`ColdError::Disk`]; the changes stay.
    pub fn close(&mut self) -> Result<bool, ColdError> {
        if self.open.images.is_empty() {
            return Ok(false);
        }
        let header = Header {
            source: self.config.source,
            epoch: self.epoch(),
            after: self.end,
            to: self.fed,
            first_time: self.open.first_time,
            last_time: self.open.last_time,
            closed_at: self.clock,
        };
        let number = self.open_number();
        let mut writer = SegmentWriter::create(&mut self.disk, header, self.config.block_entries)?;
        if let Err(error) = self.open.write(&mut writer, &mut self.disk) {
            writer.discard(&mut self.disk);
            return Err(error.into());
        }
        let segment = writer.finish(&mut self.disk)?;
        self.segments.push_back(NumberedSegment { segment, number });
        (self.end, self.last_number) = (self.fed, number);
        self.open.images.clear();
        self.open.attributes.clear();
        (self.open.first_time, self.open.last_time) = (Nanos(0), Nanos(0));
        Ok(true)
    }

    /// Keeps the changes after `change_id` until `until` for a reader that is on its way through
    /// them. Returns the number of the hold, for [`Archive::release`].
    pub fn hold(&mut self, change_id: ChangeId, until: Nanos) -> u64 {
        self.next_hold += 1;
        self.holds.insert(self.next_hold, (change_id, until));
        self.next_hold
    }

    /// Releases a hold.
    pub fn release(&mut self, hold: u64) {
        self.holds.remove(&hold);
    }

    /// Returns the time from which a segment's age counts. Where its closing is unknown, it is the
    /// time of its last change, and at the latest the first time of this opening.
    pub(crate) fn kept_from(&self, header: &Header) -> Nanos {
        let is_known = header.closed_at != Nanos(0) && !plant::is(Plant::AgedByChanges);
        match (is_known, header.last_time) {
            (true, _) => header.closed_at,
            (false, Nanos(0)) => self.first_clock,
            (false, last_time) => last_time.min(self.first_clock),
        }
    }

    /// Retires the oldest file if it is too old or there are too many bytes; true if it did.
    fn retire(&mut self, now: Nanos) -> Result<bool, ColdError> {
        let Some(oldest) = self.segments.front() else { return Ok(false) };
        let header = oldest.segment.header;
        // Where the closing is unknown, no later segment is older.
        let kept_from = self.segments().map(|segment| self.kept_from(&segment.header)).min();
        let kept_from = kept_from.expect("there is the oldest");
        let is_old = kept_from.0.saturating_add(self.config.keep_for.0) < now.0;
        let bytes: u64 = self.segments().map(|segment| segment.file_len).sum();
        if !is_old && bytes <= self.config.keep_bytes {
            return Ok(false);
        }
        self.holds.retain(|_, (_, until)| *until >= now);
        if self.holds.values().any(|(change_id, _)| *change_id < header.to) {
            return Ok(false);
        }
        if self.merge.as_ref().is_some_and(|merge| merge.reads(oldest.number)) {
            self.stop_merge();
        }
        self.disk.remove(&header.file_name())?;
        self.disk.sync_dir()?;
        let gone = self.segments.pop_front().expect("it was looked at");
        if !plant::is(Plant::FloorNotRaised) {
            self.floor = header.to;
        }
        self.newest.forget_up_to(gone.number);
        self.cache.retain(|(number, ..)| *number != gone.number);
        self.figures.retired += 1;
        Ok(true)
    }

    /// Starts an epoch with a new writer of the source: its changes after `valid_to` in epochs
    /// before `epoch` are void and are dropped here. Returns the place from which to feed the
    /// archive.
    ///
    /// # Errors
    /// [`ColdError::EpochRepeated`], [`ColdError::Disk`].
    pub fn begin_epoch(&mut self, epoch: Epoch, valid_to: ChangeId) -> Result<ChangeId, ColdError> {
        if epoch <= self.epoch() {
            return Err(ColdError::EpochRepeated(epoch));
        }
        self.forget_after(valid_to)?;
        // A segment has changes of one epoch only.
        self.close()?;
        self.epochs.end(valid_to, epoch);
        self.epochs.keep_newest(PAST_EPOCHS_MAX);
        Ok(self.fed)
    }

    /// Drops the changes after `change_id`, of any epoch, because they are void or will be sent
    /// again. Returns the place from which to feed the archive: whole segments are removed, so that
    /// it is `change_id` or before. The changes up to `change_id` that are in no segment yet stay.
    ///
    /// # Errors
    /// [`ColdError::Disk`]: call it again before anything else.
    pub fn forget_after(&mut self, change_id: ChangeId) -> Result<ChangeId, ColdError> {
        if change_id < self.fed {
            self.drop_after(change_id)?;
        }
        Ok(self.fed)
    }

    /// Returns the segments that [`Archive::begin_epoch`] or [`Archive::forget_after`] found
    /// damaged and gave up, together with the older ones.
    pub fn take_damaged(&mut self) -> Vec<SegmentError> {
        std::mem::take(&mut self.damaged)
    }

    /// INVARIANT: the last place taken stays unchanged until all is done, so that the call can be
    /// repeated after a failure.
    fn drop_after(&mut self, valid_to: ChangeId) -> Result<(), ColdError> {
        self.stop_merge();
        self.open.forget_after(valid_to);
        self.cache.clear();
        let before = self.end;
        while let Some(last) = self.segments.back()
            && last.segment.header.to > valid_to
        {
            match self.disk.remove(&last.segment.header.file_name()) {
                // The file was removed from outside.
                Err(error) if error.kind == DiskErrorKind::NotFound => {}
                removed => removed?,
            }
            self.segments.pop_back();
        }
        self.disk.sync_dir()?;
        self.newest = NewestSegments::default();
        let mut index = 0;
        while let Some(NumberedSegment { segment, number }) = self.segments.get(index).cloned() {
            match self.read_recs(&segment) {
                Ok(recs) => {
                    recs.into_iter().for_each(|rec| self.newest.set(rec, number));
                    index += 1;
                }
                Err(error) if error.is_lost() => {
                    self.damaged.push(error);
                    self.give_up(number);
                    index = 0;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let number = self.open_number();
        self.open.images().filter(|image| !image.is_mark()).for_each(|image| {
            self.newest.set(image.change_id().rec, number);
        });
        self.was_cut = true;
        let start = self.floor.min(valid_to);
        self.end = self.segments.back().map_or(start, |last| last.segment.header.to);
        // If no segment was removed, the changes in no segment yet go on from the last segment.
        self.fed = if self.end == before { self.fed.min(valid_to) } else { self.end };
        self.floor = self.floor.min(self.end);
        Ok(())
    }

    /// Checks that a reader can go on from `change_id` of `epoch` and miss nothing.
    ///
    /// # Errors
    /// [`Resync`], with the reason. Unlike in the order store, the start is legal only if all
    /// changes since then are kept: the archive lacks records that did not change since the floor.
    pub fn check(&self, epoch: Epoch, change_id: ChangeId) -> Result<(), Resync> {
        if !self.epochs.has(epoch, change_id) {
            return Err(Resync::Epoch);
        }
        if change_id < self.floor { Err(Resync::Floor) } else { Ok(()) }
    }

    /// Gives up a damaged segment and all older ones: readers before its end are refused. The files
    /// stay for the operator.
    pub(crate) fn give_up(&mut self, number: u32) {
        self.stop_merge();
        while let Some(oldest) = self.segments.front()
            && oldest.number <= number
        {
            if !plant::is(Plant::DamagePassedOver) {
                self.floor = oldest.segment.header.to;
            }
            self.segments.pop_front();
        }
        self.newest.forget_up_to(number);
        self.cache.clear();
    }

    /// Returns the disk, to open an archive on it again.
    pub fn into_disk(self) -> D {
        self.disk
    }
}
