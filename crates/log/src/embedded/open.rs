//! Opening the embedded log: scan, decide by the tables in `recovery`, repair, mark the opening.

use std::collections::VecDeque;

use weir_io::{Access, Disk};
use weir_types::{Durability, Epoch, Nanos, Position};

use super::work::RECYCLED_MAX;
use super::{Content, EmbeddedLog, LogConfig, LogEnd, Roll, Segment, Spare};
use crate::api::SequencedLog;
use crate::error::LogError;
use crate::frame::{Fault, FrameKind, first_link};
use crate::reader::{RetainedSegment, segment_header};
use crate::recovery::{
    CutTail, EpochReason, History, RecoveryReport, Scan, cut_tail, judge_epoch, judge_history,
    last_run, refuse_damage, rewrite_unproven, scan, scan_files, segment_names,
};
use crate::segment::{EPOCH_MAX, Opening, RulesSince, SEGMENT_HEADER, SegmentHeader, SegmentKind};

/// The purpose for which a log is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purpose {
    pub(crate) kind: SegmentKind,
    /// Damage may be cut off, synced or not, because the log can be regenerated.
    pub(crate) regenerable: bool,
    /// The first position of a newly created log.
    pub(crate) first_if_new: Position,
    /// Set for a log just restored: opening begins this epoch or a later one.
    pub(crate) restored_as: Option<Epoch>,
}

impl Purpose {
    const COMMANDS: Purpose = Purpose {
        kind: SegmentKind::Command,
        regenerable: false,
        first_if_new: Position(1),
        restored_as: None,
    };
}

/// The first epoch of every log.
const FIRST_EPOCH: Epoch = Epoch(1);

impl<D: Disk> EmbeddedLog<D> {
    /// Opens the log in the disk's directory, or creates it. Blocks. When it returns, all entries
    /// of the log are synced and committed, and an opening mark says so.
    ///
    /// # Errors
    /// Fails when another process has the log open, when it is damaged, newer or another
    /// partition's, or when the disk fails.
    pub fn open(config: LogConfig, disk: D) -> Result<(EmbeddedLog<D>, RecoveryReport), LogError> {
        EmbeddedLog::find(config, disk)?.open()
    }

    /// Opens a log that was just restored from a backup, and begins an epoch: `epoch`, or the one
    /// after the backup's last where that is later. Entries after the backup may have been seen in
    /// the epochs between, so no other copy of the log may ever have reached `epoch`.
    ///
    /// # Errors
    /// As [`EmbeddedLog::open`].
    ///
    /// # Panics
    /// Panics when `epoch` is out of range.
    pub fn open_restored(
        config: LogConfig,
        mut disk: D,
        epoch: Epoch,
    ) -> Result<(EmbeddedLog<D>, RecoveryReport), LogError> {
        config.check();
        assert!(epoch.0 < EPOCH_MAX, "an epoch is below 2^31");
        disk.lock()?;
        let purpose = Purpose { restored_as: Some(epoch), ..Purpose::COMMANDS };
        EmbeddedLog::open_as(config, disk, purpose)
    }

    /// Scans the log in the disk's directory and changes nothing, so that a caller may refuse it
    /// before [`FoundLog::open`] repairs it and marks an opening. Blocks.
    ///
    /// # Errors
    /// As [`EmbeddedLog::open`].
    pub fn find(config: LogConfig, mut disk: D) -> Result<FoundLog<D>, LogError> {
        config.check();
        disk.lock()?;
        FoundLog::scan(config, disk, Purpose::COMMANDS)
    }

    /// Opens a log for a purpose, in a directory that is already locked.
    pub(crate) fn open_as(
        config: LogConfig,
        disk: D,
        purpose: Purpose,
    ) -> Result<(EmbeddedLog<D>, RecoveryReport), LogError> {
        FoundLog::scan(config, disk, purpose)?.open()
    }

    fn of_scan(
        config: LogConfig,
        mut disk: D,
        kind: SegmentKind,
        found: Scan,
    ) -> Result<Self, LogError> {
        let newest = found.segments.last().expect("an opened log has a segment");
        let (write_offset, write_limit) = (newest.end, newest.len);
        let file = disk.open(&newest.name, Access::Write)?;
        let mut recycled = disk.list()?;
        recycled.retain(|name| name.starts_with("spare-") && name.ends_with(".tmp"));
        for name in recycled.split_off(recycled.len().min(RECYCLED_MAX)) {
            disk.remove(&name)?;
        }
        let segments = found.segments.iter().map(|segment| Segment {
            name: segment.name.clone(),
            retained: RetainedSegment {
                first_position: segment.header.first_position,
                bytes: segment.len,
                log_time_before: segment.header.log_time,
            },
        });
        let position = Position(found.head.position_next.0 - 1);
        let end = LogEnd { frame: found.head.frame_next - 1, position };
        Ok(EmbeddedLog {
            log_id: newest.header.log_id,
            segments: segments.collect(),
            file,
            write_offset,
            write_limit,
            chunks: VecDeque::with_capacity(4),
            sent: None,
            queued_bytes: 0,
            buffers: Vec::with_capacity(4),
            spare: Spare::None,
            roll: Roll::No,
            names_made: temporaries_made(&recycled),
            recycled,
            trimmed_name: None,
            retiring: None,
            trims: VecDeque::new(),
            trimming: false,
            proving: None,
            written: end,
            synced: end,
            committed: end.position,
            unmarked: false,
            stirred: false,
            active_at: Nanos(0),
            now: Nanos(0),
            full_until: None,
            lacks_room: false,
            lacks_spare: false,
            told_leading: false,
            closed: false,
            failed: None,
            reaped: Vec::with_capacity(8),
            head: found.head,
            disk,
            config,
            kind,
        })
    }

    /// Begins an epoch although nothing is lost: all entries so far survive. For a view of the log
    /// that gives other places to its contents from now on, so that nobody takes one of its places
    /// for one from before. Blocks until the epoch is on the medium.
    ///
    /// # Errors
    /// As [`SequencedLog::flush_blocking`].
    ///
    /// # Panics
    /// Panics after the first append of this run, or after the leadership was told: it is told
    /// once.
    pub fn begin_epoch(&mut self) -> Result<Epoch, LogError> {
        assert!(!self.told_leading && !self.unmarked, "an epoch begins before the first append");
        self.mark_opening(self.head.epoch.next())?;
        Ok(self.head.epoch)
    }

    /// Returns the epoch of this run: a new one when there is a reason for one.
    fn epoch_of_run(&self, new_epoch: Option<EpochReason>, at_least: Option<Epoch>) -> Epoch {
        let changes = !matches!(new_epoch, None | Some(EpochReason::Created));
        match (changes, at_least) {
            (true, Some(epoch)) => self.head.epoch.next().max(epoch),
            (true, None) => self.head.epoch.next(),
            (false, _) => self.head.epoch,
        }
    }

    /// Writes and syncs the opening mark of this run, in its epoch.
    fn mark_opening(&mut self, epoch: Epoch) -> Result<(), LogError> {
        let (kind, log_time, body) = (FrameKind::Open, self.head.log_time, self.opening().body());
        self.put_frame(&Content { kind, log_time, epoch, count: 0, body: &body });
        self.chunks.back_mut().expect("the mark was just put there").sync = true;
        self.flush_blocking()
    }
}

/// A log that was scanned and can be opened, or a directory without one. It is not changed yet.
pub struct FoundLog<D> {
    disk: D,
    config: LogConfig,
    purpose: Purpose,
    history: History,
    scan: Option<Scan>,
    /// The segments behind those that were scanned, of a log that can be regenerated: the first of
    /// them has a damaged header, and opening the log removes them.
    unsound: Vec<String>,
}

impl<D: Disk> FoundLog<D> {
    pub(crate) fn scan(config: LogConfig, mut disk: D, purpose: Purpose) -> Result<Self, LogError> {
        // An earlier start may have been killed between a change of the directory and its sync: the
        // state judged now must not revert at a power loss.
        disk.sync_dir()?;
        let mut names = segment_names(&mut disk, purpose.kind)?;
        let unsound = match purpose.regenerable {
            true => split_unsound(&mut disk, purpose.kind, &mut names)?,
            false => Vec::new(),
        };
        let scan = scan_files(&mut disk, purpose.kind, &names)?;
        let mut history = judge_history(scan.as_ref());
        if let Some(found) = &scan {
            if let (true, Some(broken)) = (purpose.regenerable, found.broken) {
                history = History::CutAt(broken);
            }
            refuse_damage(found, history)?;
            let partition = found.segments[0].header.partition;
            if partition != config.partition {
                let wanted = config.partition;
                return Err(LogError::OtherPartition { found: partition, wanted });
            }
        }
        Ok(FoundLog { disk, config, purpose, history, scan, unsound })
    }

    /// Returns the log's identity: that of a log to be created if there is none.
    #[must_use]
    pub fn log_id(&self) -> u128 {
        let first = self.scan.as_ref().map(|scan| &scan.segments[0].header);
        first.map_or(self.config.log_id_if_new, |header| header.log_id)
    }

    /// Returns the positions that the log will have, from the first to one after the last.
    #[must_use]
    pub fn positions(&self) -> std::ops::Range<Position> {
        match &self.scan {
            Some(scan) => scan.segments[0].header.first_position..scan.head.position_next,
            None => self.purpose.first_if_new..self.purpose.first_if_new,
        }
    }

    /// Returns true when there is no log, or none with a sound beginning, and opening creates it.
    #[must_use]
    pub(crate) fn is_new(&self) -> bool {
        self.scan.is_none()
    }

    /// Sets the first position of a log to be created.
    pub(crate) fn beginning_at(mut self, first_if_new: Position) -> FoundLog<D> {
        self.purpose.first_if_new = first_if_new;
        self
    }

    /// Returns the log's directory, for a caller that does not open the log.
    pub(crate) fn into_disk(self) -> D {
        self.disk
    }

    /// Returns the versions of the rules by which its entries were executed, oldest first.
    #[must_use]
    pub fn rules(&self) -> &[RulesSince] {
        self.scan.as_ref().map_or(&[], |scan| &scan.rules)
    }

    /// Opens the log, or creates it. Blocks. When it returns, all entries of the log are synced and
    /// committed, and an opening mark says so.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn open(self) -> Result<(EmbeddedLog<D>, RecoveryReport), LogError> {
        let FoundLog { mut disk, mut config, purpose, history, scan: mut found, unsound } = self;
        let unsound = remove_unsound(&mut disk, unsound)?;
        let run = found.as_ref().map(|found| last_run(found, disk.boot_id()));
        let mut cut = None;
        let mut rewritten_bytes = 0;
        if let Some(found) = &mut found {
            if let History::CutAt(broken) = history {
                cut = Some(cut_tail(&mut disk, found, broken)?);
            }
            rewritten_bytes = rewrite_unproven(&mut disk, found)?;
            // A name seen here may exist only in the page cache.
            disk.sync_dir()?;
        }
        let new_epoch = match run {
            None => Some(EpochReason::Created),
            Some(_) if purpose.restored_as.is_some() => Some(EpochReason::Restored),
            Some(run) => judge_epoch(run),
        };
        let mut found = match found {
            Some(found) => found,
            None => create(&mut disk, &config, purpose)?,
        };
        let rules = std::mem::take(&mut found.rules);
        if let (Some(_), Some(last)) = (purpose.restored_as, rules.last()) {
            // A restore executes nothing.
            config.rules = last.rules;
        }
        let mut log = EmbeddedLog::of_scan(config, disk, purpose.kind, found)?;
        log.mark_opening(log.epoch_of_run(new_epoch, purpose.restored_as))?;
        let report = RecoveryReport {
            log_id: log.log_id,
            segments: log.segments.len(),
            positions: log.first_position().0..log.head.position_next.0,
            epoch: log.head.epoch,
            new_epoch,
            ended: log.head.ended.clone(),
            rules,
            clean: run.is_some_and(|run| run.closed && !run.cut),
            cut: cut.or(unsound),
            rewritten_bytes,
        };
        Ok((log, report))
    }
}

/// Returns the highest number among the names of temporary files.
fn temporaries_made(names: &[String]) -> u64 {
    let numbers = names
        .iter()
        .filter_map(|name| name.strip_prefix("spare-")?.strip_suffix(".tmp")?.parse::<u64>().ok());
    numbers.max().unwrap_or(0)
}

/// Creates the first segment; its header is synced before the name appears.
fn create<D: Disk>(disk: &mut D, config: &LogConfig, purpose: Purpose) -> Result<Scan, LogError> {
    const TEMPORARY: &str = "spare-0.tmp";
    let header = SegmentHeader {
        kind: purpose.kind,
        log_id: config.log_id_if_new,
        partition: config.partition,
        epoch: FIRST_EPOCH,
        first_frame: 1,
        first_position: purpose.first_if_new,
        link: first_link(config.log_id_if_new),
        synced_frame: 0,
        log_time: Nanos(0),
        opening: Opening {
            boot_id: disk.boot_id(),
            durability: Durability::Disk,
            rules: config.rules,
        },
        ended: Vec::new(),
    };
    disk.prepare(TEMPORARY, config.segment_bytes)?;
    let file = disk.open(TEMPORARY, Access::Write)?;
    let written = disk.write_all(file, 0, &header.encode()).and_then(|()| disk.sync(file));
    disk.close(file);
    written?;
    disk.rename(TEMPORARY, &header.file_name())?;
    disk.sync_dir()?;
    let found = scan(disk, purpose.kind)?.expect("the segment was just made");
    assert!(found.broken.is_none() && found.segments.len() == 1, "a new log is empty");
    assert_eq!(found.segments[0].end, SEGMENT_HEADER as u64, "a new log has no frame");
    Ok(found)
}

/// Splits the first segment with a damaged header and all after it off the names, oldest first, of
/// a log that can be regenerated.
fn split_unsound<D: Disk>(
    disk: &mut D,
    kind: SegmentKind,
    names: &mut Vec<String>,
) -> Result<Vec<String>, LogError> {
    let mut sound = 0;
    for name in names.iter() {
        match segment_header(disk, name, kind) {
            Ok(_) => sound += 1,
            Err(LogError::DamagedHeader { .. }) => break,
            Err(other) => return Err(other),
        }
    }
    Ok(names.split_off(sound))
}

/// Removes these segments, newest first. Returns the removed files; the positions in them are
/// unknown.
fn remove_unsound<D: Disk>(
    disk: &mut D,
    removed: Vec<String>,
) -> Result<Option<CutTail>, LogError> {
    for name in removed.iter().rev() {
        disk.remove(name)?;
        disk.sync_dir()?;
    }
    let Some(file) = removed.first().cloned() else { return Ok(None) };
    let (fault, first_position) = (Some(Fault::BadHeader), Position::NONE);
    Ok(Some(CutTail { file, offset: 0, bytes: 0, fault, first_position, removed }))
}
