//! The event log on disk: the engine's events, in the command log's segment and frame format.
//!
//! The log is written in the background and synced when idle or on request. It is a function of the
//! command log. After a crash it is therefore cut back to its last sound frame, for any damage, and
//! continued as the engine replays its events. Positions are record numbers. No other part waits
//! for it: when the disk is full the log stops and the tail continues.
//!
//! Invariants: records are dense; an existing record is never written again. A snapshot of the
//! engine may be taken only after `flush_blocking`, or its events could be lost for good.

use weir_io::{Access, Disk, DiskAction, DiskError, DiskErrorKind};
use weir_types::{Durability, Nanos, PartitionId, Position};

use crate::api::{Append, SequencedLog};
use crate::batch::{Batch, Push};
use crate::embedded::open::{FoundLog, Purpose};
use crate::embedded::{EmbeddedLog, LogConfig};
use crate::error::LogError;
use crate::reader::{LogReader, RetainedSegment};
use crate::recovery::{CutTail, EpochReason, RecoveryReport, segment_names};
use crate::segment::SegmentKind;

/// The number of bytes of records at which a frame is written without waiting for more.
const BATCH_BYTES: usize = 64 * 1024;

/// The configuration of an event log.
#[derive(Clone, Debug)]
pub struct EventLogConfig {
    /// The partition whose engine's events it holds.
    pub partition: PartitionId,
    /// The identity of the log if this opening creates it: that of the command log.
    pub log_id_if_new: u128,
    /// The size of a segment file in bytes.
    pub segment_bytes: u64,
    /// The most bytes of records that wait for the disk; at least those of a segment.
    pub queue_bytes_max: usize,
    /// The time for which records may wait to share their frame with later ones.
    pub linger: Nanos,
}

impl EventLogConfig {
    /// Returns the defaults: segments of 64 MiB, the queue of a log, records wait up to 5 ms.
    #[must_use]
    pub fn new(partition: PartitionId, log_id_if_new: u128) -> EventLogConfig {
        let (segment_bytes, linger) = (64 << 20, Nanos(5_000_000));
        let queue_bytes_max = LogConfig::new(partition, log_id_if_new).queue_bytes_max;
        EventLogConfig { partition, log_id_if_new, segment_bytes, queue_bytes_max, linger }
    }

    fn log_config(&self) -> LogConfig {
        let mut config = LogConfig::new(self.partition, self.log_id_if_new);
        config.durability = Durability::Memory;
        config.segment_bytes = self.segment_bytes;
        config.queue_bytes_max = self.queue_bytes_max;
        config
    }
}

/// The state in which an event log was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLogReport {
    /// Its record numbers, from the first to one after the last.
    pub records: std::ops::Range<u64>,
    /// True when this opening created it: there was none, or its beginning was damaged.
    pub is_new: bool,
    /// The damage that was cut off.
    pub cut: Option<CutTail>,
    /// Records that are neither on disk nor replayed by the engine: the log begins after them, and
    /// all earlier records are removed.
    pub hole: Option<std::ops::Range<u64>>,
}

impl EventLogReport {
    fn of(report: RecoveryReport, hole: Option<std::ops::Range<u64>>) -> EventLogReport {
        let is_new = report.new_epoch == Some(EpochReason::Created);
        EventLogReport { records: report.positions, is_new, cut: report.cut, hole }
    }
}

/// An event log that was scanned and can be opened, or a directory without one. It is not changed
/// yet, so that a caller may refuse it.
pub struct FoundEvents<D> {
    log: FoundLog<D>,
    config: EventLogConfig,
}

impl<D: Disk> FoundEvents<D> {
    /// Returns the number of the record after the last sound one; `None` when there is no log with
    /// a sound beginning, and opening it creates it where the engine resumes.
    #[must_use]
    pub fn next_record(&self) -> Option<Position> {
        (!self.log.is_new()).then(|| self.log.positions().end)
    }

    /// Opens the event log, or creates it. `resume_at` is the highest record number with which the
    /// engine may begin in this run: the one after its snapshot's last. A log that ends before it
    /// lacks records that no engine will replay: it begins anew behind them, late rather than with
    /// a gap.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn open(self, resume_at: Position) -> Result<(EventLog<D>, EventLogReport), LogError> {
        let FoundEvents { log, config } = self;
        let (positions, is_new) = (log.positions(), log.is_new());
        if !is_new && positions.end < resume_at {
            return EventLog::begin_anew(config, positions.end..resume_at, log.into_disk());
        }
        let (log, report) = log.beginning_at(resume_at).open()?;
        Ok((EventLog::of_log(log, config), EventLogReport::of(report, None)))
    }
}

/// The outcome of appending a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum EventAppend {
    /// The record is queued for writing.
    Taken,
    /// The log has the record: the engine is replaying.
    AlreadyThere,
    /// The disk is full or slow; try again later.
    NotNow,
}

/// An event log in one directory, with this process as its writer.
pub struct EventLog<D> {
    log: EmbeddedLog<D>,
    config: EventLogConfig,
    batch: Batch,
    /// The arrival of the batch's first record, in the duty cycle's time.
    since: Nanos,
    now: Nanos,
    /// The log time of the newest record's command.
    log_time: Nanos,
}

impl<D: Disk> EventLog<D> {
    /// Opens the event log, or creates it. `resume_at` is the highest record number with which the
    /// engine may begin in this run: the one after its snapshot's last.
    ///
    /// # Errors
    /// Fails when another process has the log open, when files are newer or foreign, or when the
    /// disk fails.
    pub fn open(
        config: EventLogConfig,
        resume_at: Position,
        disk: D,
    ) -> Result<(EventLog<D>, EventLogReport), LogError> {
        EventLog::find(config, disk)?.open(resume_at)
    }

    /// Scans the event log in the disk's directory and changes nothing. Blocks.
    ///
    /// # Errors
    /// As [`EventLog::open`].
    pub fn find(config: EventLogConfig, mut disk: D) -> Result<FoundEvents<D>, LogError> {
        disk.lock()?;
        let log = FoundLog::scan(config.log_config(), disk, purpose(Position(1)))?;
        Ok(FoundEvents { log, config })
    }

    /// Begins a log after `hole`, the records that no engine will replay, in a directory that is
    /// already locked.
    fn begin_anew(
        config: EventLogConfig,
        hole: std::ops::Range<Position>,
        mut disk: D,
    ) -> Result<(EventLog<D>, EventLogReport), LogError> {
        remove_all(&mut disk)?;
        let (log, report) = open_log(&config, hole.end, disk)?;
        let report = EventLogReport::of(report, Some(hole.start.0..hole.end.0));
        Ok((EventLog::of_log(log, config), report))
    }

    fn of_log(log: EmbeddedLog<D>, config: EventLogConfig) -> EventLog<D> {
        let room = log_batch_room(&config);
        let (batch, time) = (Batch::with_limit(room), Nanos(0));
        EventLog { log, config, batch, since: time, now: time, log_time: time }
    }

    /// Sets the log time of the command whose records are appended next. A frame has the newest of
    /// its records'.
    pub fn stamp(&mut self, log_time: Nanos) {
        self.log_time = log_time;
    }

    /// Appends a record, unless the log has it already.
    ///
    /// # Panics
    /// Panics when a record is skipped: records are dense.
    pub fn append(&mut self, record: Position, bytes: &[u8]) -> EventAppend {
        let next = self.next_record();
        if record < next {
            return EventAppend::AlreadyThere;
        }
        assert_eq!(record, next, "events are numbered densely");
        if self.batch.is_empty() {
            self.since = self.now;
        }
        if self.batch.push(bytes) == Push::BatchFull {
            if !self.hand_over() {
                return EventAppend::NotNow;
            }
            self.since = self.now;
            let pushed = self.batch.push(bytes);
            assert_eq!(pushed, Push::Taken, "a record fits in a segment of the event log");
        }
        EventAppend::Taken
    }

    /// Writes records that have waited long enough, and does the log's I/O.
    ///
    /// # Errors
    /// As [`SequencedLog::do_work`]. The process must abort, as for the command log, because both
    /// are on the same disk.
    pub fn do_work(&mut self, now: Nanos) -> Result<usize, LogError> {
        self.now = now;
        let waited = now.0.saturating_sub(self.since.0) >= self.config.linger.0;
        let due = self.batch.bytes().len() >= BATCH_BYTES || waited;
        let handed = !self.batch.is_empty() && due && self.hand_over();
        Ok(self.log.do_work(now)? + usize::from(handed))
    }

    /// Blocks until all appended records are on the medium.
    ///
    /// # Errors
    /// As [`EventLog::do_work`], and when the disk is full.
    pub fn flush_blocking(&mut self) -> Result<(), LogError> {
        if !self.batch.is_empty() && !self.hand_over() {
            // The previous batch may have blocked it.
            self.log.flush_blocking()?;
            if !self.hand_over() {
                let (action, kind) = (DiskAction::Write, DiskErrorKind::Full);
                let reason = "no space for the newest events".to_owned();
                return Err(DiskError { action, name: String::new(), kind, reason }.into());
            }
        }
        self.log.flush_blocking()
    }

    /// Closes the log with a closing mark.
    ///
    /// # Errors
    /// As [`EventLog::flush_blocking`].
    pub fn close(&mut self) -> Result<(), LogError> {
        self.flush_blocking()?;
        self.log.close()
    }

    /// Returns true while the disk has no room for the records that wait.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.log.is_full()
    }

    /// Returns true when all appended records are in the files.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.batch.is_empty() && self.log.is_idle()
    }

    /// Returns the number of the next record to append.
    #[must_use]
    pub fn next_record(&self) -> Position {
        Position(self.log.next_position().0 + u64::from(self.batch.count()))
    }

    /// Returns the oldest retained record.
    #[must_use]
    pub fn first_record(&self) -> Position {
        self.log.first_position()
    }

    /// Returns the retained segments, oldest first; their positions are record numbers.
    pub fn retained(&self) -> impl Iterator<Item = &RetainedSegment> {
        self.log.retained()
    }

    /// Allows the log to remove records before `before`.
    pub fn truncate(&mut self, before: Position) {
        self.log.truncate(before);
    }

    /// Removes the records after `last`. They belong to commands that the command log lost, and
    /// their numbers will be reused. Call it once the engine has replayed its log.
    ///
    /// # Errors
    /// Fails when the disk fails.
    pub fn cut_after(mut self, last: Position) -> Result<EventLog<D>, LogError> {
        if self.next_record().0 <= last.0 + 1 {
            return Ok(self);
        }
        if self.first_record().0 > last.0 + 1 {
            return self.begin_again(last.next());
        }
        self.flush_blocking()?;
        let mut disk = self.log.into_disk()?;
        let kept = cut_files_after(&mut disk, last)?;
        let (log, _) = open_log(&self.config, last.next(), disk)?;
        let mut cut = EventLog::of_log(log, self.config);
        for (record, log_time, bytes) in kept {
            cut.stamp(log_time);
            let appended = cut.append(record, &bytes);
            assert_eq!(appended, EventAppend::Taken, "a frame's records fit in a batch");
        }
        assert_eq!(cut.next_record(), last.next(), "the log ends at the last valid record");
        cut.flush_blocking()?;
        Ok(cut)
    }

    /// Removes all records; the next one to append is `first`. For a log of which no record is a
    /// valid one.
    ///
    /// # Errors
    /// Fails when the disk fails.
    pub fn begin_again(self, first: Position) -> Result<EventLog<D>, LogError> {
        let disk = self.log.into_disk()?;
        Ok(EventLog::begin_anew(self.config, first..first, disk)?.0)
    }

    /// Appends the batch to the log; returns false when the log refuses it.
    fn hand_over(&mut self) -> bool {
        let time = Nanos(self.log_time.0.max(self.log.last_log_time().0 + 1));
        match self.log.append(self.log.epoch(), time, &self.batch) {
            Append::At { .. } => {
                self.batch.clear();
                true
            }
            Append::Full | Append::Busy | Append::NotLeader => false,
        }
    }
}

/// Returns a reader of an event log's records from `from`; its positions are record numbers.
///
/// # Errors
/// As [`LogReader::open`].
pub fn read_events<D: Disk>(disk: D, from: Position) -> Result<LogReader<D>, LogError> {
    LogReader::open(disk, SegmentKind::Event, from)
}

fn log_batch_room(config: &EventLogConfig) -> usize {
    let room = config.log_config().batch();
    room.bytes_max().min(4 * BATCH_BYTES)
}

fn open_log<D: Disk>(
    config: &EventLogConfig,
    first_if_new: Position,
    disk: D,
) -> Result<(EmbeddedLog<D>, RecoveryReport), LogError> {
    EmbeddedLog::open_as(config.log_config(), disk, purpose(first_if_new))
}

fn purpose(first_if_new: Position) -> Purpose {
    Purpose { kind: SegmentKind::Event, regenerable: true, first_if_new, restored_as: None }
}

fn event_files<D: Disk>(disk: &mut D) -> Result<Vec<String>, LogError> {
    segment_names(disk, SegmentKind::Event)
}

fn remove_all<D: Disk>(disk: &mut D) -> Result<(), LogError> {
    for name in event_files(disk)?.iter().rev() {
        disk.remove(name)?;
        disk.sync_dir()?;
    }
    Ok(())
}

/// Cuts the files at the frame that holds the record after `last`; returns that frame's records up
/// to `last`, which must be written again.
fn cut_files_after<D: Disk>(
    disk: &mut D,
    last: Position,
) -> Result<Vec<(Position, Nanos, Vec<u8>)>, LogError> {
    let mut kept = Vec::new();
    let mut place = None;
    let mut reader = LogReader::open(&mut *disk, SegmentKind::Event, Position(0))?;
    while let Some((header, name, offset)) = reader.next_header()? {
        if header.first_position.0 + u64::from(header.count) > last.0 + 1 {
            place = Some((name.to_owned(), offset, header.first_position));
            break;
        }
    }
    let Some((name, offset, first)) = place else { return Ok(kept) };
    if first <= last {
        reader.seek(first)?;
        while let Some(entry) = reader.next_entry()?.filter(|entry| entry.position <= last) {
            kept.push((entry.position, entry.log_time, entry.bytes.to_vec()));
        }
    }
    drop(reader);
    for later in event_files(disk)?.iter().rev().filter(|later| **later > name) {
        disk.remove(later)?;
        disk.sync_dir()?;
    }
    let file = disk.open(&name, Access::Write)?;
    let length = disk.len(file)? - offset;
    let zeros = vec![0; usize::try_from(length).expect("a segment is below 4 GiB")];
    let cut = disk.write_all(file, offset, &zeros).and_then(|()| disk.sync(file));
    disk.close(file);
    cut?;
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_io::SimDisk;
    use weir_io::disk::sim::CrashChoice;

    fn config() -> EventLogConfig {
        let mut config = EventLogConfig::new(PartitionId(1), 7);
        config.segment_bytes = 8192;
        config.linger = Nanos(10);
        config
    }

    fn open(disk: &SimDisk, resume_at: u64) -> (EventLog<SimDisk>, EventLogReport) {
        EventLog::open(config(), Position(resume_at), disk.clone()).unwrap()
    }

    fn record(number: u64) -> Vec<u8> {
        vec![number as u8; 10 + (number * 13 % 200) as usize]
    }

    fn say(log: &mut EventLog<SimDisk>, records: std::ops::Range<u64>) {
        for number in records {
            // The log time of a record is its number.
            log.stamp(Nanos(number));
            let said = log.append(Position(number), &record(number));
            assert_ne!(said, EventAppend::NotNow);
            log.do_work(Nanos(number * 7)).unwrap();
        }
    }

    fn check(disk: &SimDisk, records: std::ops::Range<u64>) {
        let mut reader = read_events(disk.clone(), Position(records.start)).unwrap();
        for number in records {
            let entry = reader.next_entry().unwrap().expect("a record");
            assert_eq!((entry.position.0, entry.bytes), (number, &record(number)[..]));
            assert!(entry.log_time >= Nanos(number), "{number} at {}", entry.log_time);
        }
        assert_eq!(reader.next_entry().unwrap(), None);
    }

    #[test]
    fn what_a_crash_left_is_kept_and_said_again_only_from_there() {
        let disk = SimDisk::new(1);
        let (mut log, _) = open(&disk, 1);
        say(&mut log, 1..200);
        log.flush_blocking().unwrap();
        say(&mut log, 200..260);
        let crashed = disk.after_power_loss(CrashChoice::LoseAll);
        let (mut log, report) = open(&crashed, 1);
        assert!(report.records.end >= 200 && report.records.end <= 260, "{report:?}");
        say(&mut log, 1..300);
        log.close().unwrap();
        check(&crashed, 1..300);
    }

    #[test]
    fn any_damage_is_cut_even_where_it_was_synced() {
        let disk = SimDisk::new(1);
        let (mut log, _) = open(&disk, 1);
        say(&mut log, 1..200);
        log.close().unwrap();
        let names = event_files(&mut disk.clone()).unwrap();
        assert!(names.len() > 2);
        for (name, bit) in [(&names[1], 5_000 * 8), (&names[1], 80 * 8), (&names[0], 9)] {
            let damaged = disk.after_process_crash();
            damaged.flip_bit(name, bit);
            let (mut log, report) = open(&damaged, 1);
            assert!(report.records.end < 200, "{report:?}");
            say(&mut log, 1..200);
            log.close().unwrap();
            check(&damaged, 1..200);
        }
    }

    #[test]
    fn records_of_lost_commands_are_cut_within_a_frame_too() {
        for last in [1, 2, 57, 100, 198, 199, 250] {
            let disk = SimDisk::new(1);
            let (mut log, _) = open(&disk, 1);
            say(&mut log, 1..200);
            let mut log = log.cut_after(Position(last)).unwrap();
            let kept = last.min(199);
            assert_eq!(log.next_record(), Position(kept + 1));
            say(&mut log, kept + 1..230);
            log.close().unwrap();
            check(&disk, 1..230);
        }
    }

    #[test]
    fn a_log_that_begins_behind_the_last_valid_record_begins_anew_after_it() {
        let disk = SimDisk::new(1);
        let (mut log, _) = open(&disk, 1);
        say(&mut log, 1..200);
        log.truncate(Position(150));
        log.close().unwrap();
        assert!(log.first_record() > Position(90));
        let mut log = log.cut_after(Position(60)).unwrap();
        assert_eq!((log.first_record(), log.next_record()), (Position(61), Position(61)));
        say(&mut log, 61..80);
        log.close().unwrap();
        check(&disk, 61..80);
    }

    #[test]
    fn a_reader_of_a_live_log_reaches_its_end_before_it_says_so() {
        let disk = SimDisk::new(1);
        let (mut log, _) = open(&disk, 1);
        let mut reader = None;
        let mut next = 1;
        for end in [3, 5, 40, 41, 90, 200] {
            say(&mut log, next..end);
            log.flush_blocking().unwrap();
            let reader =
                reader.get_or_insert_with(|| read_events(disk.clone(), Position(1)).unwrap());
            // The last record stays unread, so that the reader has read ahead to the end.
            while reader.next_position().0 < end - 1 {
                let entry = reader.next_entry().unwrap().expect("it was flushed");
                assert_eq!(entry.bytes, record(entry.position.0));
            }
            next = end;
        }
    }

    #[test]
    fn a_log_behind_the_snapshot_begins_anew_and_reports_the_hole() {
        let disk = SimDisk::new(1);
        let (mut log, _) = open(&disk, 1);
        say(&mut log, 1..50);
        log.close().unwrap();
        drop(log);
        let disk = disk.after_process_crash();
        let (mut log, report) = open(&disk, 80);
        assert_eq!((report.hole, report.records), (Some(50..80), 80..80));
        say(&mut log, 80..90);
        log.close().unwrap();
        check(&disk, 80..90);
    }

    #[test]
    fn any_record_can_be_sought_in_any_order() {
        let disk = SimDisk::new(1);
        let (mut log, _) = open(&disk, 1);
        say(&mut log, 1..400);
        log.close().unwrap();
        let mut reader = read_events(disk.clone(), Position(1)).unwrap();
        for step in 0..400 {
            let number = 1 + step * 173 % 399;
            reader.seek(Position(number)).unwrap();
            let entry = reader.next_entry().unwrap().expect("a record");
            assert_eq!((entry.position.0, entry.bytes), (number, &record(number)[..]));
        }
        let missing = reader.seek(Position(401)).unwrap_err();
        assert!(matches!(missing, LogError::NotRetained { .. }), "{missing}");
    }

    #[test]
    fn a_seek_in_a_frame_at_the_end_of_the_read_ahead_finds_its_entries() {
        let disk = SimDisk::new(1);
        let (mut log, _) = open(&disk, 1);
        // Frames that together are longer than the reader reads ahead.
        for first in (1..2_001).step_by(100) {
            for number in first..first + 100 {
                let said = log.append(Position(number), &[number as u8; 200]);
                assert_eq!(said, EventAppend::Taken);
            }
            log.flush_blocking().unwrap();
        }
        let mut reader = read_events(disk.clone(), Position(1)).unwrap();
        for number in (1..2_000).step_by(7) {
            reader.seek(Position(number)).unwrap();
            let entry = reader.next_entry().unwrap().expect("a record");
            assert_eq!((entry.position, entry.bytes), (Position(number), &[number as u8; 200][..]));
        }
    }

    #[test]
    fn a_seek_over_a_mark_leaves_the_unread_entries_before_it_behind() {
        let disk = SimDisk::new(1);
        let (mut log, _) = open(&disk, 1);
        for first in (1..400).step_by(20) {
            for number in first..first + 20 {
                let said = log.append(Position(number), &record(number));
                assert_eq!(said, EventAppend::Taken);
            }
            // One frame; syncs, and writes a mark behind the frame.
            log.flush_blocking().unwrap();
        }
        let mut reader = read_events(disk.clone(), Position(1)).unwrap();
        for first in (1..360).step_by(40) {
            let wanted = Position(first + 25);
            for number in [Position(first), wanted] {
                reader.seek(number).unwrap();
                let entry = reader.next_entry().unwrap().expect("a record");
                assert_eq!((entry.position, entry.bytes), (number, &record(number.0)[..]));
            }
        }
    }
}
