//! Takes a backup of a node, running or not.
//!
//! The command log determines a node's state. A backup holds all of it that is retained, because
//! the events are rebuilt from it, and a sound snapshot: the newest, or of a truncated log the
//! newest one from which all events come again that the copied order store and broker lack. Trading
//! partitions are copied before the control partition, so that the control log has every definition
//! that they import from it.
//!
//! A running node adds frames, opens segments, deletes old ones and recycles their files. So a
//! segment is identified by its header and name: one that is no longer listed under its name is
//! dropped and the log is listed again. A half-written frame reads as the end.

use std::time::Duration;

use weir_io::{Access, Disk, DiskErrorKind};
use weir_log::segment::SEGMENT_HEADER;
use weir_log::{
    Juncture, LogError, SegmentCheck, SegmentHeader, SegmentKind, SnapshotFault, check_header,
    check_segment, decode_snapshot,
};
use weir_partition::dirs::PAST_ENDS;
use weir_partition::shadow::state_in;
use weir_types::{Nanos, PartitionId, Position};

use super::broker::copy_broker;
use super::manifest::{
    FORMAT, LogPointRecord, Manifest, NAME, PartitionCopy, SegmentCopy, SnapshotCopy, StoredFile,
};
use super::{BROKER_DIR, BackupError, LogKind, PART, read_file, write_file};

/// The maximum number of times that a log is listed.
const TRIES_MAX: u32 = 20;
/// The number of reads that must show the same fault for it to count as damage: a writer may have
/// been active.
const READS_OF_DAMAGE: u32 = 3;
/// The pause before a log is listed or read again: the writer needs its turn to finish.
const TRY_INTERVAL: Duration = Duration::from_millis(20);
/// The number of digits of its hash in a file's name in the backup.
const HASH_DIGITS: usize = 16;
/// The first part of the names of keys in the backup.
const NODE_DIR: &str = "node";

/// The directories of a partition or a source.
pub struct LogSource<D> {
    /// The kind of its log.
    pub kind: LogKind,
    /// The partition or source.
    pub partition_id: PartitionId,
    /// The log: of commands, or of batches.
    pub commands: D,
    /// Snapshots, if there is such a directory.
    pub snapshots: Option<D>,
    /// Snapshots of a partition's order store, if there is such a directory.
    pub store: Option<D>,
    /// The file with the ends of a partition's past epochs, if there is one.
    pub past_ends: Option<Vec<u8>>,
}

/// A small file of the node's directory.
pub struct Key {
    /// Its name.
    pub name: String,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// The result of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupOutcome {
    /// The target's new manifest.
    pub manifest: Manifest,
    /// Files that were copied.
    pub files_copied: u64,
    /// Their bytes.
    pub bytes_copied: u64,
    /// Files that were there from an earlier backup.
    pub files_kept: u64,
    /// Notes for operators.
    pub notes: Vec<String>,
}

/// The reason why reading a log stopped.
enum Stop {
    /// The node moved this file meanwhile: read the log again.
    Again(String),
    Failed(BackupError),
}

impl From<BackupError> for Stop {
    fn from(error: BackupError) -> Stop {
        Stop::Failed(error)
    }
}

/// The files that a backup is taken of.
pub struct NodeFiles<D> {
    /// The logs, each with its snapshots.
    pub logs: Vec<LogSource<D>>,
    /// The broker's directory, if it is to be copied.
    pub broker: Option<D>,
    /// Small files of the node's directory.
    pub keys: Vec<Key>,
}

/// Takes a backup of `node` into `target`. On return, the backup survives a power loss; on failure,
/// the target is the backup that it was before.
///
/// # Errors
/// [`BackupError`].
pub fn back_up<S: Disk, T: Disk>(
    node: NodeFiles<S>,
    target: &mut T,
    now: Nanos,
) -> Result<BackupOutcome, BackupError> {
    target.lock().map_err(BackupError::disk("the target"))?;
    let before = Manifest::read(target, "the target")?;
    let mut store = Store::new(target, before)?;
    let NodeFiles { mut logs, broker, keys } = node;
    // Copied first, so that the logs copied later contain all messages that it has delivered.
    let broker = broker.map(|mut disk| copy_broker(&mut disk, &mut store)).transpose()?;
    let broker = broker.unwrap_or_default();
    logs.sort_by_key(|log| log.partition_id);
    let (mut partitions, mut sources) = (Vec::new(), Vec::new());
    for log in logs.iter_mut().rev() {
        let trades = log.kind == LogKind::Partition && !log.partition_id.is_none();
        let settled = broker.settled_of(log.partition_id).filter(|_| trades);
        let copies = match log.kind {
            LogKind::Partition => &mut partitions,
            LogKind::Source => &mut sources,
        };
        copies.push(copy_log(log, settled, &mut store)?);
    }
    partitions.reverse();
    sources.reverse();
    let keys: Result<Vec<_>, _> =
        keys.iter().map(|key| store.put(NODE_DIR, &key.name, &key.bytes)).collect();
    let manifest = Manifest {
        format: FORMAT,
        taken_at: now.0,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        partitions,
        sources,
        broker: broker.files,
        keys: keys?,
    };
    store.finish(manifest.with_format())
}

/// The target, and the changes made to it.
pub(super) struct Store<'a, T> {
    disk: &'a mut T,
    before: Option<Manifest>,
    files_copied: u64,
    bytes_copied: u64,
    files_kept: u64,
    notes: Vec<String>,
}

impl<'a, T: Disk> Store<'a, T> {
    pub(super) fn new(
        disk: &'a mut T,
        before: Option<Manifest>,
    ) -> Result<Store<'a, T>, BackupError> {
        let (files_copied, bytes_copied, files_kept) = (0, 0, 0);
        let notes = Vec::new();
        let mut store = Store { disk, before, files_copied, bytes_copied, files_kept, notes };
        if store.before.is_none() {
            store.refuse_foreign_files()?;
        }
        // Files left by an interrupted backup are not trusted.
        let known = store.before.clone();
        store.remove_all_but(known.as_ref()).map_err(BackupError::disk("the target"))?;
        Ok(store)
    }

    /// Refuses a directory without a backup that holds a file of somebody else.
    fn refuse_foreign_files(&mut self) -> Result<(), BackupError> {
        let names = self.disk.list().map_err(BackupError::disk("the target"))?;
        match names.into_iter().find(|name| name != NAME && !is_stored_name(name)) {
            Some(found) => Err(BackupError::Foreign { found }),
            None => Ok(()),
        }
    }

    /// Removes the files of backups that the manifest does not name; other files stay.
    fn remove_all_but(&mut self, known: Option<&Manifest>) -> Result<(), weir_io::DiskError> {
        let is_known = |name: &str| {
            name == NAME || known.is_some_and(|m| m.files().any(|file| file.stored == name))
        };
        let mut names = self.disk.list()?;
        names.retain(|name| !is_known(name) && is_stored_name(name));
        for name in &names {
            self.disk.remove(name)?;
        }
        if names.is_empty() { Ok(()) } else { self.disk.sync_dir() }
    }

    /// Returns the earlier backup's copy of a log.
    fn known(&self, kind: LogKind, partition_id: PartitionId) -> Option<&PartitionCopy> {
        let before = self.before.as_ref()?;
        before.logs(kind).iter().find(|copy| copy.partition == partition_id.0)
    }

    /// Copies a file, unless the earlier backup has it.
    pub(super) fn put(
        &mut self,
        dir: &str,
        name: &str,
        bytes: &[u8],
    ) -> Result<StoredFile, BackupError> {
        let blake3 = blake3::hash(bytes).to_hex().to_string();
        let stored = stored_name(dir, name, &blake3[..HASH_DIGITS]);
        let file = StoredFile { name: name.to_owned(), stored, bytes: bytes.len() as u64, blake3 };
        if self.before.as_ref().is_some_and(|before| before.files().any(|known| *known == file)) {
            self.files_kept += 1;
            return Ok(file);
        }
        write_file(self.disk, &file.stored, bytes, file.bytes)
            .map_err(BackupError::disk("the target"))?;
        self.files_copied += 1;
        self.bytes_copied += file.bytes;
        Ok(file)
    }

    /// Syncs the names first, then writes the manifest, then removes files that only the earlier
    /// one needs.
    fn finish(mut self, manifest: Manifest) -> Result<BackupOutcome, BackupError> {
        let finished = self
            .disk
            .sync_dir()
            .and_then(|()| manifest.write(self.disk))
            .and_then(|()| self.remove_all_but(Some(&manifest)));
        finished.map_err(BackupError::disk("the target"))?;
        let Store { files_copied, bytes_copied, files_kept, notes, .. } = self;
        Ok(BackupOutcome { manifest, files_copied, bytes_copied, files_kept, notes })
    }
}

/// Returns the name of a copied file in a backup.
fn stored_name(dir: &str, name: &str, digits: &str) -> String {
    format!("{dir}.{name}.{digits}")
}

/// Returns true for the name of a file that only a backup writes: a copied file, or its part.
fn is_stored_name(name: &str) -> bool {
    let (Some((dir, rest)), true) = (name.split_once('.'), name != PART) else {
        return name == PART;
    };
    let is_number = |text: &str| text.parse::<u16>().is_ok();
    let is_log = dir == LogKind::Partition.dir(PartitionId(0))
        || ["partition-", "source-"].iter().any(|k| dir.strip_prefix(k).is_some_and(is_number));
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_hash = |digits: &str| digits.len() == HASH_DIGITS && digits.bytes().all(is_digit);
    (is_log || [NODE_DIR, BROKER_DIR].contains(&dir))
        && rest.rsplit_once('.').is_some_and(|(_, digits)| is_hash(digits))
}

fn copy_log<S: Disk, T: Disk>(
    source: &mut LogSource<S>,
    settled: Option<u64>,
    store: &mut Store<'_, T>,
) -> Result<PartitionCopy, BackupError> {
    let (mut missed, mut upto) = (String::new(), None);
    let note_count = store.notes.len();
    for _ in 0..TRIES_MAX {
        store.notes.truncate(note_count);
        match try_copy(source, settled, &mut upto, store) {
            Ok(copy) => return Ok(copy),
            Err(Stop::Again(file)) => {
                missed = file;
                std::thread::sleep(TRY_INTERVAL);
            }
            Err(Stop::Failed(error)) => return Err(error),
        }
    }
    Err(BackupError::Unsteady { file: missed, tries: TRIES_MAX })
}

/// Copies snapshots and log once. `upto` bounds the engine's snapshots, where the last try found
/// that the log ends before the one that it took.
fn try_copy<S: Disk, T: Disk>(
    source: &mut LogSource<S>,
    settled: Option<u64>,
    upto: &mut Option<Position>,
    store: &mut Store<'_, T>,
) -> Result<PartitionCopy, Stop> {
    let (kind, partition_id) = (source.kind, source.partition_id);
    let dir = kind.dir(partition_id);
    let mut log = SourceLog { disk: &mut source.commands, kind, dir: dir.clone() };
    let listed = log.headers()?;
    let Some((_, header)) = listed.first() else {
        return Err(BackupError::NoLog { place: log.dir }.into());
    };
    let (log_id, first) = (header.log_id, header.first_position);
    log.check_identity(&listed, partition_id)?;
    check_same_node(store.known(kind, partition_id), &dir, log_id)?;
    let last = upto.take().unwrap_or(Position(u64::MAX));
    let wanted = Wanted { dir: &dir, log_id, partition_id, last };
    let snapshots = source.snapshots.as_mut();
    // Before the log: its copying may take so long that the node prunes them meanwhile.
    let found = Snapshots { engine: snapshots, own: source.store.as_mut(), settled }
        .copy(&wanted, first, store)?;
    let listed = log.headers()?;
    let (name, header) = listed.first().ok_or_else(|| Stop::Again(dir.clone()))?;
    let first_position = header.first_position;
    let reached = found.engine.as_ref().map_or(0, |snapshot| snapshot.position);
    // Snapshots that suit a whole log need not suit one that has lost its beginning meanwhile.
    if first_position != first && (first.0 <= 1 || reached + 1 < first_position.0) {
        return Err(Stop::Again(name.clone()));
    }
    let copied = log.copy_segments(&listed, store)?;
    let last = Position(copied.next.position.0 - 1);
    if reached > last.0 {
        *upto = Some(last);
        return Err(Stop::Again(format!("{dir}, the snapshot of {reached},")));
    }
    let past_ends = source.past_ends.as_ref();
    let past_ends = past_ends.map(|bytes| store.put(&dir, PAST_ENDS, bytes)).transpose()?;
    Ok(PartitionCopy {
        partition: partition_id.0,
        log_id: format!("{log_id:032x}"),
        epoch: copied.next.epoch.0,
        first_position: first_position.0,
        last_position: last.0,
        last_log_time: copied.log_time.0,
        segments: copied.segments,
        snapshot: found.engine,
        store: found.own,
        past_ends,
    })
}

/// The directories of a log's snapshots, and the event up to which subscriptions need none.
struct Snapshots<'a, D> {
    engine: Option<&'a mut D>,
    own: Option<&'a mut D>,
    settled: Option<u64>,
}

/// The copied snapshots of a log.
struct CopiedSnapshots {
    engine: Option<SnapshotCopy>,
    own: Option<SnapshotCopy>,
}

impl<D: Disk> Snapshots<'_, D> {
    /// Copies the newest snapshot of the order store, and the engine's that suits it best.
    fn copy<T: Disk>(
        mut self,
        wanted: &Wanted<'_>,
        first: Position,
        store: &mut Store<'_, T>,
    ) -> Result<CopiedSnapshots, Stop> {
        let dir = wanted.dir;
        let of_own = Wanted { last: Position(u64::MAX), ..*wanted };
        let own = self.own.as_deref_mut();
        let own = sound_snapshots(own, &of_own, |_| true, &mut store.notes)?;
        let own = own.into_iter().next();
        // A whole log emits all events again; any other those after the snapshot.
        let is_whole = first.0 <= 1;
        let upto = own.as_ref().map(|own| own.position);
        let limits = if is_whole { [u64::MAX; 4] } else { limits_of(upto, self.settled) };
        let suits = |snapshot: &FoundSnapshot| snapshot.event_count <= limits[0];
        let engine = self.engine.as_deref_mut();
        let found = sound_snapshots(engine, wanted, suits, &mut store.notes)?;
        let engine = choose(found, first, limits);
        if engine.as_ref().map_or(0, |snapshot| snapshot.position) + 1 < first.0 {
            return Err(BackupError::Unreachable { place: dir.to_owned(), first }.into());
        }
        let first_event = engine.as_ref().filter(|_| !is_whole).map_or(0, |one| one.event_count);
        if let Some(left_out) = own.as_ref().filter(|own| own.position < first_event) {
            let at = left_out.position;
            store.notes.push(format!(
                "{dir}: the order store's snapshot of event {at} is left out: the engine's begins \
                 with event {}, and the commands before are past the retention; readers' tokens \
                 end",
                first_event + 1
            ));
        }
        if self.settled.is_some_and(|settled| settled < first_event) {
            let note = "subscribers are told that they may have lost events";
            store
                .notes
                .push(format!("{dir}: the engine's snapshot is newer than subscriptions: {note}"));
        }
        let own = own.filter(|own| own.position >= first_event);
        let engine = engine.map(|found| found.copy(self.engine, dir, store)).transpose()?;
        let own = own.map(|found| found.copy(self.own, dir, store)).transpose()?;
        Ok(CopiedSnapshots { engine, own })
    }
}

/// Returns the most events that an engine's snapshot may count, the best limit first: those after
/// the order store's snapshot are needed again, and those after the broker's place. The broker's
/// come first: it would tell of a loss, and the store begins with the live orders.
fn limits_of(store: Option<u64>, settled: Option<u64>) -> [u64; 4] {
    let [store, settled] = [store, settled].map(|limit| limit.unwrap_or(u64::MAX));
    [store.min(settled), settled, store, u64::MAX]
}

/// Returns the newest snapshot of these that a start from `first` can use, within the best limit.
fn choose(found: Vec<FoundSnapshot>, first: Position, limits: [u64; 4]) -> Option<FoundSnapshot> {
    let reaches = |snapshot: &FoundSnapshot| snapshot.position + 1 >= first.0;
    let at = limits
        .into_iter()
        .find_map(|limit| found.iter().position(|one| reaches(one) && one.event_count <= limit));
    at.and_then(|at| found.into_iter().nth(at))
}

fn check_same_node(
    known: Option<&PartitionCopy>,
    place: &str,
    log_id: u128,
) -> Result<(), BackupError> {
    let ours = format!("{log_id:032x}");
    match known {
        Some(known) if known.log_id != ours => {
            let (place, theirs) = (place.to_owned(), known.log_id.clone());
            Err(BackupError::OtherNode { place, theirs, ours })
        }
        _ => Ok(()),
    }
}

/// The copied segments of a log.
struct Copied {
    segments: Vec<SegmentCopy>,
    next: Juncture,
    log_time: Nanos,
}

type Listed = [(String, SegmentHeader)];

/// A command log that a node may be writing.
struct SourceLog<'a, D> {
    disk: &'a mut D,
    kind: LogKind,
    dir: String,
}

impl<D: Disk> SourceLog<'_, D> {
    fn names(&mut self) -> Result<Vec<String>, BackupError> {
        let mut names = self.disk.list().map_err(BackupError::disk(&self.dir))?;
        names.retain(|name| name.ends_with(SegmentKind::Command.suffix()));
        Ok(names)
    }

    /// Judges a fault: if the file is no longer listed, the node has deleted it meanwhile and the
    /// fault is ignored.
    fn judge(&mut self, name: &str, error: LogError) -> Stop {
        match self.names() {
            Ok(names) if names.iter().any(|listed| listed == name) => {
                Stop::Failed(BackupError::log(&self.dir)(error))
            }
            Ok(_) => Stop::Again(name.to_owned()),
            Err(error) => Stop::Failed(error),
        }
    }

    fn read(&mut self, name: &str, bytes_max: usize) -> Result<(Vec<u8>, u64), Stop> {
        let place = self.dir.clone();
        let failed = |error: weir_io::DiskError| match error.kind {
            DiskErrorKind::NotFound => Stop::Again(name.to_owned()),
            _ => Stop::Failed(BackupError::disk(&place)(error)),
        };
        let file = self.disk.open(name, Access::Read).map_err(failed)?;
        let read = self.disk.len(file).and_then(|len| {
            let wanted = usize::try_from(len).unwrap_or(usize::MAX).min(bytes_max);
            let mut bytes = vec![0; wanted];
            let taken = self.disk.read(file, 0, &mut bytes)?;
            bytes.truncate(taken);
            Ok((bytes, len))
        });
        self.disk.close(file);
        read.map_err(failed)
    }

    /// Returns all segments in order, with their headers.
    fn headers(&mut self) -> Result<Vec<(String, SegmentHeader)>, Stop> {
        let mut listed = Vec::new();
        for name in self.names()? {
            let (bytes, _) = self.read(&name, SEGMENT_HEADER)?;
            match check_header(&name, &bytes, SegmentKind::Command) {
                Ok(header) => listed.push((name, header)),
                Err(error) => return Err(self.judge(&name, error)),
            }
        }
        Ok(listed)
    }

    fn check_identity(&self, listed: &Listed, partition_id: PartitionId) -> Result<(), Stop> {
        let first = &listed[0].1;
        let own = (first.log_id, partition_id);
        let foreign = listed.iter().find(|(_, h)| (h.log_id, h.partition) != own);
        let Some((name, _)) = foreign else { return Ok(()) };
        let what = "another log's identity or partition".to_owned();
        let error = LogError::Foreign { file: name.clone(), what };
        Err(Stop::Failed(BackupError::log(&self.dir)(error)))
    }

    /// Reads a segment up to its last sound frame; returns the bytes, the file's length and the
    /// check's result. A fault counts as damage only when several reads show it.
    fn read_segment(
        &mut self,
        name: &str,
        synced_frame: u64,
    ) -> Result<(Vec<u8>, u64, SegmentCheck), Stop> {
        let mut last: Option<LogError> = None;
        let mut seen = 0;
        loop {
            let (mut bytes, len) = self.read(name, usize::MAX)?;
            let check = match check_segment(name, &bytes, SegmentKind::Command) {
                Ok(check) => check,
                Err(error) => return Err(self.judge(name, error)),
            };
            let Some(damage) = check.damage(name, synced_frame) else {
                bytes.truncate(usize::try_from(check.end).expect("within the bytes"));
                return Ok((bytes, len, check));
            };
            seen = if last.as_ref() == Some(&damage) { seen + 1 } else { 1 };
            if seen == READS_OF_DAMAGE {
                return Err(self.judge(name, damage));
            }
            last = Some(damage);
            std::thread::sleep(TRY_INTERVAL);
        }
    }

    fn copy_segments<T: Disk>(
        &mut self,
        listed: &Listed,
        store: &mut Store<'_, T>,
    ) -> Result<Copied, Stop> {
        let synced_frame = listed.iter().map(|(_, h)| h.synced_frame).max().unwrap_or(0);
        let mut segments: Vec<SegmentCopy> = Vec::new();
        let mut next = Juncture::of_header(&listed[0].1);
        let mut log_time = listed[0].1.log_time;
        for (index, (name, header)) in listed.iter().enumerate() {
            if Juncture::of_header(header) != next {
                if next.frame <= synced_frame {
                    let (file, frame) = (name.clone(), next.frame);
                    return Err(self.judge(name, LogError::MissingSegment { file, frame }));
                }
                store.notes.push(format!("{}: {name} and later ones are a torn tail", self.dir));
                break;
            }
            let sealed_by = listed.get(index + 1).map(|(_, header)| Juncture::of_header(header));
            if let Some(known) = self.known_segment(header, sealed_by, name, store) {
                store.files_kept += 1;
                next = sealed_by.expect("only a sealed one is known");
                log_time = listed[index + 1].1.log_time;
                segments.push(known);
                continue;
            }
            let (bytes, segment_bytes, check) = self.read_segment(name, synced_frame)?;
            let file = store.put(&self.dir, name, &bytes)?;
            (next, log_time) = (check.next, check.log_time);
            let begins = LogPointRecord::from(Juncture::of_header(header));
            let ends = LogPointRecord::from(check.next);
            segments.push(SegmentCopy { file, segment_bytes, begins, ends });
        }
        Ok(Copied { segments, next, log_time })
    }

    /// Returns the earlier backup's copy of a segment that is complete. The next segment's header
    /// carries the hash of all frames before it: if the copy ends with that hash, it belongs to
    /// this history.
    fn known_segment<T: Disk>(
        &mut self,
        header: &SegmentHeader,
        sealed_by: Option<Juncture>,
        name: &str,
        store: &Store<'_, T>,
    ) -> Option<SegmentCopy> {
        let known = store.known(self.kind, header.partition)?;
        let copy = known.segments.iter().find(|copy| copy.file.name == name)?;
        let begins = LogPointRecord::from(Juncture::of_header(header));
        let is_same = copy.begins == begins && copy.ends == LogPointRecord::from(sealed_by?);
        is_same.then(|| copy.clone())
    }
}

/// The requested snapshots: those of this log up to a position.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    dir: &'a str,
    log_id: u128,
    partition_id: PartitionId,
    last: Position,
}

/// A snapshot in the node's directory.
struct FoundSnapshot {
    name: String,
    position: u64,
    /// The number of events that an engine's counts; without a meaning for others.
    event_count: u64,
}

impl FoundSnapshot {
    /// Copies it, unless the node has removed it meanwhile.
    fn copy<S: Disk, T: Disk>(
        self,
        disk: Option<&mut S>,
        dir: &str,
        store: &mut Store<'_, T>,
    ) -> Result<SnapshotCopy, Stop> {
        let disk = disk.expect("it was found there");
        let bytes = read_snapshot(disk, dir, &self.name)?;
        let file = store.put(dir, &self.name, &bytes)?;
        Ok(SnapshotCopy { file, position: self.position })
    }
}

/// Reads a snapshot; the node removes old ones when there is a newer one.
fn read_snapshot<S: Disk>(disk: &mut S, dir: &str, name: &str) -> Result<Vec<u8>, Stop> {
    read_file(disk, name).map_err(|error| match error.kind {
        DiskErrorKind::NotFound => Stop::Again(name.to_owned()),
        _ => Stop::Failed(BackupError::disk(dir)(error)),
    })
}

/// Returns the sound snapshots, newest first, up to one that suits.
fn sound_snapshots<S: Disk>(
    disk: Option<&mut S>,
    wanted: &Wanted<'_>,
    suits: impl Fn(&FoundSnapshot) -> bool,
    notes: &mut Vec<String>,
) -> Result<Vec<FoundSnapshot>, Stop> {
    let Some(disk) = disk else { return Ok(Vec::new()) };
    let dir = wanted.dir;
    let mut names = disk.list().map_err(BackupError::disk(dir))?;
    names.retain(|name| name.ends_with(weir_log::snapshot::SUFFIX));
    let mut found = Vec::new();
    for name in names.into_iter().rev() {
        let decoded = match read_snapshot(disk, dir, &name) {
            // Of no more use than a damaged one.
            Err(Stop::Failed(BackupError::Disk { source, .. }))
                if source.kind == DiskErrorKind::Io =>
            {
                Err(SnapshotFault::Unreadable(source))
            }
            bytes => decode_snapshot(&bytes?),
        };
        let (header, state) = match decoded {
            Ok(decoded) => decoded,
            Err(fault) => {
                notes.push(format!("{dir}: {name} is passed over: {fault}"));
                continue;
            }
        };
        let own = (wanted.log_id, wanted.partition_id.0);
        if (header.log_id, header.partition) != own || header.position > wanted.last {
            continue;
        }
        let event_count = state_in(&state).map_or(0, |(count, _)| count);
        found.push(FoundSnapshot { name, position: header.position.0, event_count });
        if found.last().is_some_and(&suits) {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_snapshot_is_taken_from_which_no_event_is_missing() {
        let found = || {
            [(30, 300), (20, 200), (10, 100)].map(|(position, event_count)| FoundSnapshot {
                name: String::new(),
                position,
                event_count,
            })
        };
        for (first, store, settled, want) in [
            (5, None, None, Some(30)),
            (5, Some(300), None, Some(30)),
            (5, Some(299), Some(400), Some(20)),
            (5, Some(250), Some(150), Some(10)),
            // None suits both: the broker counts more.
            (5, Some(50), Some(250), Some(20)),
            (5, Some(150), Some(50), Some(10)),
            (5, Some(50), Some(50), Some(30)),
            // The log does not go on from those that suit the store: it is built anew anyway.
            (21, Some(150), None, Some(30)),
            (21, Some(250), None, Some(20)),
            (22, Some(250), None, Some(30)),
            (40, None, None, None),
        ] {
            let chosen = choose(found().into(), Position(first), limits_of(store, settled));
            let got = chosen.map(|chosen| chosen.position);
            assert_eq!(got, want, "{first} {store:?} {settled:?}");
        }
    }
}
