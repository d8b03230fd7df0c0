//! Snapshots: the state at a position as opaque bytes, in separate files next to the log.
//!
//! A snapshot is written atomically: under a temporary name, synced, renamed, the directory synced.
//! Each block has a checksum that also covers its index. Loading takes the newest sound snapshot
//! and reports the skipped ones. A snapshot of a position beyond the log's end belongs to discarded
//! history and is removed, once the log is known to go on without it. All calls block; they are
//! made where waiting does no harm.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ops::Range;

use thiserror::Error;
use weir_io::{Access, Disk, DiskError, DiskErrorKind, FileId};
use weir_types::{PartitionId, Position};

use crate::frame::{u32_at, u64_at};
use crate::plant::{self, Plant};

const MAGIC: [u8; 8] = *b"WEIRSNAP";
const VERSION: u32 = 1;
const HEADER: usize = 64;
const HEADER_CRC_AT: usize = HEADER - 4;
/// The number of state bytes in a block.
const BLOCK: usize = 64 * 1024;
/// The number of bytes after each block's state: checksum and padding.
const BLOCK_END: usize = 8;
/// The suffix of a snapshot's file name.
pub const SUFFIX: &str = ".wsnap";
const TEMPORARY: &str = "snapshot.part";

/// The reason that a snapshot file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SnapshotFault {
    /// The header or the length is wrong.
    #[error("not a sound snapshot: header or length are wrong")]
    Header,
    /// Written by a newer program.
    #[error("format version {0} is newer than this program")]
    Newer(u32),
    /// The snapshot belongs to another log or partition.
    #[error("of another log")]
    Foreign,
    /// A block's checksum is wrong.
    #[error("damaged at offset {0}")]
    Block(u64),
    /// The disk does not read the file: it is of no more use than a damaged one.
    #[error("the disk does not read it: {0}")]
    Unreadable(DiskError),
}

/// A snapshot file that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedSnapshot {
    /// The file.
    pub file: String,
    /// The reason.
    pub fault: SnapshotFault,
}

/// A loaded snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The position of the last entry applied to the state.
    pub position: Position,
    /// The state.
    pub bytes: Vec<u8>,
}

/// A snapshot being written.
#[derive(Debug)]
pub struct SnapshotPart {
    file: FileId,
    position: Position,
    /// The offset and the index of the next block.
    offset: u64,
    index: usize,
    /// The bytes of the next block so far.
    block: Vec<u8>,
    /// The number of state bytes so far.
    len: u64,
}

/// The snapshots of one log in one directory, which may be the log's own.
pub struct SnapshotStore<D> {
    disk: D,
    log_id: u128,
    partition: PartitionId,
    /// The snapshots that were read, each with the result.
    read: BTreeMap<Position, bool>,
    /// The snapshot that is being read in parts, and its next block.
    reading: Option<(Position, usize)>,
}

/// The snapshots that count.
enum OfUse {
    Known(BTreeSet<Position>),
    /// This one must be read first.
    Unread(Position),
}

impl<D: Disk> SnapshotStore<D> {
    /// Creates the store for the log `log_id` of `partition`.
    pub fn new(disk: D, log_id: u128, partition: PartitionId) -> SnapshotStore<D> {
        SnapshotStore { disk, log_id, partition, read: BTreeMap::new(), reading: None }
    }

    /// Writes the state at `position`. When it returns, the snapshot survives a power loss.
    ///
    /// # Errors
    /// Fails when the disk is full or fails; no new snapshot appears then and the older ones stay.
    pub fn write(&mut self, position: Position, state: &[u8]) -> Result<(), DiskError> {
        let mut part = self.begin(position)?;
        if let Err(error) = self.put(&mut part, state) {
            self.give_up(part);
            return Err(error);
        }
        self.finish(part)
    }

    /// Begins a snapshot at `position` whose state is written in pieces. Only one can be in
    /// progress: beginning another one overwrites it.
    ///
    /// # Errors
    /// Fails when the disk is full or fails.
    pub fn begin(&mut self, position: Position) -> Result<SnapshotPart, DiskError> {
        let file = self.disk.create(TEMPORARY)?;
        let block = Vec::with_capacity(BLOCK + BLOCK_END);
        Ok(SnapshotPart { file, position, offset: HEADER as u64, block, index: 0, len: 0 })
    }

    /// Appends to the state of a snapshot in progress.
    ///
    /// # Errors
    /// Fails when the disk is full or fails; the caller must then [abandon](SnapshotStore::give_up)
    /// the snapshot.
    pub fn put(&mut self, part: &mut SnapshotPart, mut state: &[u8]) -> Result<(), DiskError> {
        part.len += state.len() as u64;
        while !state.is_empty() {
            let room = BLOCK - part.block.len();
            let (head, rest) = state.split_at(room.min(state.len()));
            part.block.extend_from_slice(head);
            state = rest;
            if part.block.len() == BLOCK {
                self.put_block(part)?;
            }
        }
        Ok(())
    }

    fn put_block(&mut self, part: &mut SnapshotPart) -> Result<(), DiskError> {
        let crc = block_crc(part.index, &part.block);
        part.block.extend_from_slice(&u64::from(crc).to_le_bytes());
        self.disk.write_all(part.file, part.offset, &part.block)?;
        part.offset += part.block.len() as u64;
        part.index += 1;
        part.block.clear();
        Ok(())
    }

    /// Completes the snapshot. When it returns, the snapshot survives a power loss.
    ///
    /// # Errors
    /// Fails when the disk is full or fails; no new snapshot appears then and the older ones stay.
    pub fn finish(&mut self, mut part: SnapshotPart) -> Result<(), DiskError> {
        let position = part.position;
        if let Err(error) = self.finish_file(&mut part) {
            self.give_up(part);
            return Err(error);
        }
        self.disk.close(part.file);
        self.read.remove(&position);
        self.reading = self.reading.filter(|(other, _)| *other != position);
        self.disk.rename(TEMPORARY, &file_name(position))?;
        self.disk.sync_dir()
    }

    fn finish_file(&mut self, part: &mut SnapshotPart) -> Result<(), DiskError> {
        if !part.block.is_empty() {
            self.put_block(part)?;
        }
        self.disk.write_all(part.file, 0, &self.header(part.position, part.len))?;
        if plant::is(Plant::SnapshotNotSynced) { Ok(()) } else { self.disk.sync(part.file) }
    }

    /// Abandons a snapshot in progress.
    pub fn give_up(&mut self, part: SnapshotPart) {
        self.disk.close(part.file);
        // Nothing refers to the temporary file, so failing to remove it is harmless.
        let _ = self.disk.remove(TEMPORARY);
    }

    fn header(&self, position: Position, length: u64) -> [u8; HEADER] {
        let mut bytes = [0u8; HEADER];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&u32::from(self.partition.0).to_le_bytes());
        bytes[16..32].copy_from_slice(&self.log_id.to_le_bytes());
        bytes[32..40].copy_from_slice(&position.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&length.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..HEADER_CRC_AT]);
        bytes[HEADER_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Returns the positions of all snapshots, sound or not, oldest first.
    ///
    /// # Errors
    /// Fails when the directory cannot be listed.
    pub fn list(&mut self) -> Result<Vec<Position>, DiskError> {
        Ok(self.disk.list()?.iter().filter_map(|name| position_of(name)).collect())
    }

    /// Returns the newest sound snapshot and the files skipped on the way to it. First removes the
    /// snapshots of positions after `log_end`, the log's last position: their history was discarded
    /// and its positions will be reused.
    ///
    /// # Errors
    /// Fails when the disk fails.
    pub fn load_newest(
        &mut self,
        log_end: Position,
    ) -> Result<(Option<Snapshot>, Vec<SkippedSnapshot>), DiskError> {
        self.remove_after(log_end)?;
        self.newest_sound(log_end)
    }

    /// Removes the snapshots of positions after `log_end`, the log's last position. A caller that
    /// may refuse the log first decides to go on with it.
    ///
    /// # Errors
    /// Fails when the disk fails.
    pub fn remove_after(&mut self, log_end: Position) -> Result<(), DiskError> {
        let is_lost = |at: &Position| *at > log_end && !plant::is(Plant::LostSnapshotKept);
        for lost in self.list()?.iter().filter(|at| is_lost(at)) {
            self.disk.remove(&file_name(*lost))?;
        }
        // Done even without a removal: an earlier start may have been killed between its removal
        // and the sync, and a later power loss would bring the file back.
        self.disk.sync_dir()
    }

    /// Returns the newest sound snapshot up to position `last`, and the files skipped on the way to
    /// it. Changes nothing.
    ///
    /// # Errors
    /// Fails when the disk fails.
    pub fn newest_sound(
        &mut self,
        last: Position,
    ) -> Result<(Option<Snapshot>, Vec<SkippedSnapshot>), DiskError> {
        let mut skipped = Vec::new();
        for position in self.list()?.into_iter().rev().filter(|at| *at <= last) {
            let file = file_name(position);
            match self.load(position)? {
                Ok(bytes) => return Ok((Some(Snapshot { position, bytes }), skipped)),
                Err(fault) => skipped.push(SkippedSnapshot { file, fault }),
            }
        }
        Ok((None, skipped))
    }

    /// Removes all but the newest `keep` snapshots; returns the oldest position kept. A log that is
    /// synced up to each snapshot before it is written may be truncated up to there.
    ///
    /// # Errors
    /// Fails when the disk fails.
    pub fn prune(&mut self, keep: usize) -> Result<Option<Position>, DiskError> {
        self.prune_of(keep, Position(u64::MAX))
    }

    /// Removes all but the newest `keep` snapshots, and but the newest `keep` of those up to
    /// `synced`, the position up to which the log is synced: a power loss can take the entries of
    /// the others, and with them their use. Returns the oldest position kept.
    ///
    /// One that was found damaged ([`SnapshotStore::newest_of_use`]) does not count, and stays
    /// until it is older than those that do.
    ///
    /// # Errors
    /// Fails when the disk fails.
    pub fn prune_of(
        &mut self,
        keep: usize,
        synced: Position,
    ) -> Result<Option<Position>, DiskError> {
        let positions = self.list()?;
        let mut kept = self.newest_of_use(&positions, keep)?;
        let lasting_end = positions.partition_point(|position| *position <= synced);
        kept.append(&mut self.newest_of_use(&positions[..lasting_end], keep)?);
        let oldest = kept.first().copied();
        self.read.retain(|position, _| positions.contains(position));
        let mut has_removed = false;
        for position in positions {
            let is_damaged = self.read.get(&position) == Some(&false);
            let is_evidence = is_damaged && oldest.is_none_or(|oldest| position > oldest);
            if !kept.contains(&position) && !is_evidence {
                self.disk.remove(&file_name(position))?;
                has_removed = true;
            }
        }
        if has_removed {
            self.disk.sync_dir()?;
        }
        Ok(oldest)
    }

    /// Returns the newest `keep` of the snapshots at these [listed](SnapshotStore::list) positions,
    /// oldest first, without damaged ones on the way to one that was read and is sound. That one is
    /// the second: the newest was just written, and if it turns out to be damaged, the second is
    /// there. A snapshot is read once.
    ///
    /// # Errors
    /// As [`SnapshotStore::load`].
    pub fn newest_of_use(
        &mut self,
        positions: &[Position],
        keep: usize,
    ) -> Result<BTreeSet<Position>, DiskError> {
        loop {
            match self.of_use(positions, keep) {
                OfUse::Known(kept) => return Ok(kept),
                OfUse::Unread(position) => self.read_on(position, usize::MAX)?,
            }
        }
    }

    /// Reads up to `bytes_max` bytes, a block at least, of a snapshot that
    /// [`SnapshotStore::prune_of`] or [`SnapshotStore::newest_of_use`] would read as a whole;
    /// returns true when they would read none. For a thread that others wait for.
    ///
    /// # Errors
    /// As [`SnapshotStore::load`].
    pub fn prove_part(
        &mut self,
        keep: usize,
        synced: Position,
        bytes_max: usize,
    ) -> Result<bool, DiskError> {
        let positions = self.list()?;
        let lasting_end = positions.partition_point(|position| *position <= synced);
        for listed in [&positions[..], &positions[..lasting_end]] {
            if let OfUse::Unread(position) = self.of_use(listed, keep) {
                self.read_on(position, (bytes_max / BLOCK).max(1))?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Looks for the snapshots of [`SnapshotStore::newest_of_use`] and reads none.
    fn of_use(&self, positions: &[Position], keep: usize) -> OfUse {
        let mut kept = BTreeSet::new();
        for position in positions.iter().rev() {
            if kept.len() == keep {
                break;
            }
            let is_read = kept.len() + 1 == keep.min(2);
            match self.read.get(position) {
                None if is_read => return OfUse::Unread(*position),
                Some(false) if is_read => {}
                _ => {
                    kept.insert(*position);
                }
            }
        }
        if let (Some(only), 2..) = (kept.first().copied(), positions.len().min(keep))
            && kept.len() == 1
        {
            match self.read.get(&only) {
                None => return OfUse::Unread(only),
                Some(is_sound) if !is_sound => kept.clear(),
                Some(_) => {}
            }
        }
        OfUse::Known(kept)
    }

    /// Reads up to `blocks_max` blocks of a snapshot, from where the last call for it ended, and
    /// notes the result at its end or first fault.
    fn read_on(&mut self, position: Position, blocks_max: usize) -> Result<(), DiskError> {
        let from = self.reading.filter(|(at, _)| *at == position).map_or(0, |(_, block)| block);
        let is_sound = match self.check_blocks(position, from, blocks_max) {
            // A medium that fails here fails a start as well.
            Err(error) if error.kind == DiskErrorKind::Io => false,
            Err(error) => return Err(error),
            Ok(Ok(Some(next))) => {
                self.reading = Some((position, next));
                return Ok(());
            }
            Ok(checked) => checked.is_ok(),
        };
        self.reading = None;
        self.read.insert(position, is_sound);
        Ok(())
    }

    /// Checks a snapshot's header and some of its blocks; returns the next block, if there is one.
    fn check_blocks(
        &mut self,
        position: Position,
        from: usize,
        blocks_max: usize,
    ) -> Result<Result<Option<usize>, SnapshotFault>, DiskError> {
        let file = self.disk.open(&file_name(position), Access::Read)?;
        let checked = self.disk.len(file).and_then(|len| {
            let blocks = from..from.saturating_add(blocks_max);
            check_from(len, blocks, |offset, bytes| self.disk.read(file, offset, bytes))
        });
        self.disk.close(file);
        Ok(checked?.and_then(|(header, next)| {
            if self.owns(&header, position) { Ok(next) } else { Err(SnapshotFault::Foreign) }
        }))
    }

    /// Returns the first `wanted` bytes of the state at one of the [listed](SnapshotStore::list)
    /// positions, fewer when the state is shorter, or the fault of the file's beginning. `wanted`
    /// is at most 64 KiB. The rest of the file is not checked.
    ///
    /// # Errors
    /// As [`SnapshotStore::load`].
    pub fn load_beginning(
        &mut self,
        position: Position,
        wanted: usize,
    ) -> Result<Result<Vec<u8>, SnapshotFault>, DiskError> {
        assert!(wanted <= BLOCK, "one block is read");
        let file = self.disk.open(&file_name(position), Access::Read)?;
        let read = self.disk.len(file).and_then(|len| {
            let mut bytes = vec![0; HEADER + BLOCK + BLOCK_END];
            let read = self.disk.read(file, 0, &mut bytes)?;
            bytes.truncate(read);
            Ok((bytes, len))
        });
        self.disk.close(file);
        let (bytes, len) = read?;
        let Some((first, framed)) = bytes.split_first_chunk::<HEADER>() else {
            return Ok(Err(SnapshotFault::Header));
        };
        let (header, length) = match decode_header(first, len) {
            Ok(known) => known,
            Err(fault) => return Ok(Err(fault)),
        };
        if !self.owns(&header, position) {
            return Ok(Err(SnapshotFault::Foreign));
        }
        if length == 0 {
            return Ok(Ok(Vec::new()));
        }
        let damaged = Ok(Err(SnapshotFault::Block(HEADER as u64)));
        let Some((block, end)) = framed.split_at_checked(length.min(BLOCK)) else { return damaged };
        let is_sound = end.len() >= BLOCK_END && u64_at(end, 0) == u64::from(block_crc(0, block));
        if is_sound { Ok(Ok(block[..wanted.min(length)].to_vec())) } else { damaged }
    }

    fn owns(&self, header: &SnapshotHeader, position: Position) -> bool {
        let own = (self.log_id, self.partition, position);
        (header.log_id, PartitionId(header.partition), header.position) == own
    }

    /// Returns the state at one of the [listed](SnapshotStore::list) positions, or the fault of its
    /// file. Changes nothing.
    ///
    /// # Errors
    /// Fails when the disk fails, with
    /// [`DiskErrorKind::NotFound`](weir_io::DiskErrorKind::NotFound) when the snapshot was pruned
    /// in the meantime.
    pub fn load(
        &mut self,
        position: Position,
    ) -> Result<Result<Vec<u8>, SnapshotFault>, DiskError> {
        let decoded = match self.decode(position) {
            Err(error) if error.kind == DiskErrorKind::Io => Err(SnapshotFault::Unreadable(error)),
            decoded => decoded?,
        };
        Ok(decoded.and_then(|(header, state)| {
            if self.owns(&header, position) { Ok(state) } else { Err(SnapshotFault::Foreign) }
        }))
    }

    fn decode(&mut self, position: Position) -> Result<Decoded, DiskError> {
        let file = self.disk.open(&file_name(position), Access::Read)?;
        let decoded = self
            .disk
            .len(file)
            .and_then(|len| decode_from(len, |offset, bytes| self.disk.read(file, offset, bytes)));
        self.disk.close(file);
        decoded
    }
}

/// The result of decoding a file: its header and the state.
type Decoded = Result<(SnapshotHeader, Vec<u8>), SnapshotFault>;

/// The header of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The log's identity.
    pub log_id: u128,
    /// The partition's number.
    pub partition: u16,
    /// The position.
    pub position: Position,
}

/// Decodes a snapshot file: its header and the state. Allocates no more than the file's length.
///
/// # Errors
/// Fails when the file is not sound.
pub fn decode_snapshot(bytes: &[u8]) -> Result<(SnapshotHeader, Vec<u8>), SnapshotFault> {
    let read = |offset: u64, into: &mut [u8]| {
        let rest = &bytes[usize::try_from(offset).expect("within the bytes")..];
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        Ok::<_, Infallible>(length)
    };
    let Ok(decoded) = decode_from(bytes.len() as u64, read);
    decoded
}

/// Decodes a file of `len` bytes, read through `read` from an offset. Each block is read into its
/// place in the state and checked while it is still in the processor's cache: a state may be
/// gigabytes, and a start waits for it.
fn decode_from<E>(
    len: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
) -> Result<Decoded, E> {
    let (header, length) = match read_header(len, &mut read)? {
        Ok(known) => known,
        Err(fault) => return Ok(Err(fault)),
    };
    // Room for the last block's end too: each end is overwritten by the next block.
    let mut state = vec![0; length + BLOCK_END];
    for (index, at) in (0..length).step_by(BLOCK).enumerate() {
        let framed = &mut state[at..at + BLOCK.min(length - at) + BLOCK_END];
        if let Err(fault) = read_block(index, framed, &mut read)? {
            return Ok(Err(fault));
        }
    }
    state.truncate(length);
    Ok(Ok((header, state)))
}

/// The result of checking a file: its header, and the first block that was not looked at.
type Checked = Result<(SnapshotHeader, Option<usize>), SnapshotFault>;

/// Checks the header of a file of `len` bytes and these of its blocks.
fn check_from<E>(
    len: u64,
    blocks: Range<usize>,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
) -> Result<Checked, E> {
    let (header, length) = match read_header(len, &mut read)? {
        Ok(known) => known,
        Err(fault) => return Ok(Err(fault)),
    };
    let end = blocks.end.min(length.div_ceil(BLOCK));
    let mut framed = vec![0; length.min(BLOCK) + BLOCK_END];
    for index in blocks.start..end {
        let framed = &mut framed[..BLOCK.min(length - index * BLOCK) + BLOCK_END];
        if let Err(fault) = read_block(index, framed, &mut read)? {
            return Ok(Err(fault));
        }
    }
    Ok(Ok((header, (end * BLOCK < length).then_some(end))))
}

/// Reads and decodes the header of a file of `len` bytes.
fn read_header<E>(
    len: u64,
    read: &mut impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
) -> Result<Result<(SnapshotHeader, usize), SnapshotFault>, E> {
    let mut first = [0; HEADER];
    if read(0, &mut first)? < HEADER {
        return Ok(Err(SnapshotFault::Header));
    }
    Ok(decode_header(&first, len))
}

/// Reads a block with its end, and checks it.
fn read_block<E>(
    index: usize,
    framed: &mut [u8],
    read: &mut impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
) -> Result<Result<(), SnapshotFault>, E> {
    let offset = (HEADER + index * (BLOCK + BLOCK_END)) as u64;
    let is_whole = read(offset, framed)? == framed.len();
    let (block, end) = framed.split_at(framed.len() - BLOCK_END);
    let is_sound = is_whole && u64_at(end, 0) == u64::from(block_crc(index, block));
    Ok(if is_sound { Ok(()) } else { Err(SnapshotFault::Block(offset)) })
}

/// Decodes the header of a file of `len` bytes; returns it with the number of state bytes.
fn decode_header(bytes: &[u8; HEADER], len: u64) -> Result<(SnapshotHeader, usize), SnapshotFault> {
    let sound = crc32c::crc32c(&bytes[..HEADER_CRC_AT]) == u32_at(bytes, HEADER_CRC_AT);
    if !sound || bytes[0..8] != MAGIC {
        return Err(SnapshotFault::Header);
    }
    if u32_at(bytes, 8) > VERSION {
        return Err(SnapshotFault::Newer(u32_at(bytes, 8)));
    }
    let partition = u16::try_from(u32_at(bytes, 12)).map_err(|_| SnapshotFault::Header)?;
    let length = u64_at(bytes, 40);
    // Checked in 128 bits: a length near the maximum must not wrap around to fit.
    let blocks = u128::from(length.div_ceil(BLOCK as u64));
    let framed = HEADER as u128 + u128::from(length) + blocks * BLOCK_END as u128;
    if framed != u128::from(len) {
        return Err(SnapshotFault::Header);
    }
    let length = usize::try_from(length).map_err(|_| SnapshotFault::Header)?;
    let log_id = u128::from_le_bytes(bytes[16..32].try_into().expect("sixteen bytes"));
    Ok((SnapshotHeader { log_id, partition, position: Position(u64_at(bytes, 32)) }, length))
}

/// Returns the checksum of a block and its index, so that a displaced block counts as damage.
fn block_crc(index: usize, block: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&(index as u64).to_le_bytes()), block)
}

fn file_name(position: Position) -> String {
    format!("{:020}{SUFFIX}", position.0)
}

fn position_of(name: &str) -> Option<Position> {
    name.strip_suffix(SUFFIX)?.parse().ok().map(Position)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_io::disk::sim::CrashChoice;
    use weir_io::{DiskAction, SimDisk, SimFaults};

    const LOG_END: Position = Position(u64::MAX);

    fn store(disk: &SimDisk) -> SnapshotStore<SimDisk> {
        SnapshotStore::new(disk.clone(), 77, PartitionId(2))
    }

    fn state(size: usize) -> Vec<u8> {
        (0..size).map(|n| (n % 251) as u8).collect()
    }

    #[test]
    fn states_of_all_block_counts_read_back() {
        for size in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5] {
            let disk = SimDisk::new(1);
            store(&disk).write(Position(9), &state(size)).unwrap();
            let (loaded, skipped) = store(&disk).load_newest(LOG_END).unwrap();
            assert_eq!(loaded.unwrap(), Snapshot { position: Position(9), bytes: state(size) });
            assert!(skipped.is_empty());
        }
    }

    #[test]
    fn a_lost_snapshot_stays_lost_though_a_start_was_killed_before_its_removal_was_synced() {
        let disk = SimDisk::new(1);
        store(&disk).write(Position(9), b"of a lost future").unwrap();
        disk.clone().remove(&file_name(Position(9))).unwrap();
        let killed = disk.after_process_crash();
        assert_eq!(store(&killed).load_newest(Position(5)).unwrap().0, None);
        let restarted = killed.after_power_loss(CrashChoice::LoseAll);
        assert_eq!(store(&restarted).list().unwrap(), []);
    }

    #[test]
    fn a_flipped_bit_anywhere_falls_back_to_the_older_one_and_says_so() {
        let clean = SimDisk::new(1);
        store(&clean).write(Position(5), b"older").unwrap();
        store(&clean).write(Position(9), &state(BLOCK + 100)).unwrap();
        let name = file_name(Position(9));
        let bits = clean.contents(&name).unwrap().len() as u64 * 8;
        for bit in (0..HEADER as u64 * 8).chain((HEADER as u64 * 8..bits).step_by(509)) {
            let disk = clean.after_process_crash();
            disk.flip_bit(&name, bit);
            let (loaded, skipped) = store(&disk).load_newest(LOG_END).unwrap();
            assert_eq!(loaded.unwrap().bytes, b"older", "bit {bit}");
            assert_eq!(skipped.len(), 1);
        }
    }

    #[test]
    fn a_snapshot_of_a_lost_future_is_removed() {
        let disk = SimDisk::new(1);
        store(&disk).write(Position(5), b"five").unwrap();
        store(&disk).write(Position(9), b"nine").unwrap();
        let (loaded, _) = store(&disk).load_newest(Position(8)).unwrap();
        assert_eq!(loaded.unwrap().position, Position(5));
        assert_eq!(store(&disk).list().unwrap(), [Position(5)]);
    }

    #[test]
    fn a_state_that_comes_in_pieces_of_any_length_is_the_same_file() {
        let whole = SimDisk::new(1);
        let bytes = state(3 * BLOCK + 5);
        store(&whole).write(Position(9), &bytes).unwrap();
        let wanted = whole.contents(&file_name(Position(9))).unwrap();
        for length in [1, 1_000, BLOCK - 1, BLOCK, BLOCK + 1, 4 * BLOCK] {
            let disk = SimDisk::new(1);
            let mut store = store(&disk);
            let mut part = store.begin(Position(9)).unwrap();
            bytes.chunks(length).for_each(|piece| store.put(&mut part, piece).unwrap());
            assert_eq!(store.list().unwrap(), [], "none before its end");
            store.finish(part).unwrap();
            assert_eq!(disk.contents(&file_name(Position(9))).unwrap(), wanted, "by {length}");
        }
    }

    #[test]
    fn the_beginning_of_a_state_is_read_alone_and_its_damage_is_found() {
        for size in [0, 1, 8, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK] {
            let clean = SimDisk::new(1);
            store(&clean).write(Position(9), &state(size)).unwrap();
            for wanted in [0, 8, BLOCK] {
                let begun = store(&clean).load_beginning(Position(9), wanted).unwrap().unwrap();
                assert_eq!(begun, state(size)[..wanted.min(size)]);
            }
            let first_block = (HEADER + size.min(BLOCK)) as u64 * 8;
            for bit in (0..HEADER as u64 * 8).chain((HEADER as u64 * 8..first_block).step_by(997)) {
                let disk = clean.after_process_crash();
                disk.flip_bit(&file_name(Position(9)), bit);
                store(&disk).load_beginning(Position(9), 8).unwrap().unwrap_err();
            }
        }
        let disk = SimDisk::new(1);
        store(&disk).write(Position(9), b"nine").unwrap();
        let mut other = SnapshotStore::new(disk, 78, PartitionId(2));
        assert_eq!(other.load_beginning(Position(9), 8).unwrap(), Err(SnapshotFault::Foreign));
    }

    #[test]
    fn pruning_keeps_the_newest() {
        let disk = SimDisk::new(1);
        for position in 1..=4 {
            store(&disk).write(Position(position), b"s").unwrap();
        }
        assert_eq!(store(&disk).prune(2).unwrap(), Some(Position(3)));
        assert_eq!(store(&disk).list().unwrap(), [Position(3), Position(4)]);
        assert_eq!(store(&disk).prune(0).unwrap(), None);
    }

    #[test]
    fn pruning_keeps_the_newest_that_a_power_loss_leaves_of_use_as_well() {
        for (keep, synced, want) in [
            (2, 9, &[4, 5][..]),
            (2, 5, &[4, 5]),
            (2, 3, &[2, 3, 4, 5]),
            (2, 1, &[1, 4, 5]),
            (2, 0, &[4, 5]),
            (1, 4, &[4, 5]),
            (1, 2, &[2, 5]),
        ] {
            let disk = SimDisk::new(1);
            (1..=5).for_each(|at| store(&disk).write(Position(at), b"state").unwrap());
            let oldest = store(&disk).prune_of(keep, Position(synced)).unwrap();
            let left: Vec<u64> = store(&disk).list().unwrap().iter().map(|at| at.0).collect();
            assert_eq!((&left[..], oldest.map(|at| at.0)), (want, want.first().copied()));
        }
    }

    #[test]
    fn pruning_does_not_count_damaged_snapshots() {
        for (damaged, keep, synced, want) in [
            (&[][..], 2, 9, &[4, 5][..]),
            // The newest was just written, and is not read.
            (&[5], 2, 9, &[4, 5]),
            (&[4, 5], 2, 9, &[3, 4, 5]),
            (&[1, 2, 3, 4], 2, 9, &[5]),
            (&[4], 2, 9, &[3, 4, 5]),
            (&[3], 2, 9, &[4, 5]),
            (&[3, 4], 2, 9, &[2, 3, 4, 5]),
            (&[5], 1, 9, &[4, 5]),
            (&[2], 2, 3, &[1, 2, 3, 4, 5]),
            // Nor are those beyond the second.
            (&[2], 4, 9, &[2, 3, 4, 5]),
            (&[1, 2, 3, 4, 5], 2, 9, &[1, 2, 3, 4, 5]),
        ] {
            let disk = SimDisk::new(1);
            (1..=5).for_each(|at| store(&disk).write(Position(at), &state(90_000)).unwrap());
            damaged.iter().for_each(|at| disk.flip_bit(&file_name(Position(*at)), 8 * 80_000));
            let oldest = store(&disk).prune_of(keep, Position(synced)).unwrap();
            let left: Vec<u64> = store(&disk).list().unwrap().iter().map(|at| at.0).collect();
            assert_eq!(left, want, "{damaged:?} {keep}");
            let is_kept = |at: &&u64| !damaged.contains(at) || keep > 2;
            let first = want.iter().find(is_kept).copied();
            assert_eq!(oldest.map(|at| at.0), first, "{damaged:?} {keep}");
        }
    }

    #[test]
    fn pruning_goes_on_where_a_snapshot_cannot_be_read() {
        let mut unreadable = 0;
        for call in 0..40 {
            let disk = SimDisk::new(1);
            (1..=5).for_each(|at| store(&disk).write(Position(at), &state(90_000)).unwrap());
            let call_fails_at = Some((call, DiskErrorKind::Io));
            disk.set_faults(SimFaults { call_fails_at, ..SimFaults::default() });
            let pruned = store(&disk).prune_of(2, Position(9));
            if disk.failed_call().is_none_or(|(action, _)| action != DiskAction::Read) {
                continue;
            }
            unreadable += 1;
            assert_eq!(pruned.unwrap(), Some(Position(3)), "call {call}");
            assert_eq!(store(&disk).list().unwrap(), [Position(3), Position(4), Position(5)]);
        }
        assert!(unreadable > 1);
    }

    #[test]
    fn a_snapshot_is_read_in_parts_before_a_pruning_that_then_reads_none() {
        // Two parts and a short one; a fault in the second part, and three of the one before.
        for (damaged, oldest, parts_wanted) in [(None, 4, 3), (Some(4), 3, 5)] {
            let disk = SimDisk::new(1);
            let mut store = store(&disk);
            (1..=5).for_each(|at| store.write(Position(at), &state(5 * BLOCK + 9)).unwrap());
            if let Some(at) = damaged {
                disk.flip_bit(&file_name(Position(at)), 8 * (3 * BLOCK as u64 + 500));
            }
            let mut parts = 0;
            while !store.prove_part(2, Position(9), 2 * BLOCK).unwrap() {
                parts += 1;
            }
            assert_eq!(parts, parts_wanted, "{damaged:?}");
            // Nothing is read any more: that would count as damage.
            for at in 1..=5 {
                disk.plant(&file_name(Position(at)), b"not a snapshot");
            }
            assert_eq!(store.prune_of(2, Position(9)).unwrap(), Some(Position(oldest)));
            // The next one is proven, too: each is read once.
            store.write(Position(6), &state(9)).unwrap();
            assert!(!store.prove_part(2, Position(9), BLOCK).unwrap());
        }
    }

    #[test]
    fn a_snapshot_that_the_disk_does_not_read_is_skipped_as_a_damaged_one() {
        let disk = SimDisk::new(1);
        let mut store = store(&disk);
        (1..=2).for_each(|at| store.write(Position(at), &state(9)).unwrap());
        let mut skipped_count = 0;
        for call in 0..20 {
            for kind in [DiskErrorKind::Io, DiskErrorKind::NoDescriptors] {
                let fault = Some((call, kind));
                disk.set_faults(SimFaults { call_fails_at: fault, ..SimFaults::default() });
                let found = store.newest_sound(LOG_END);
                disk.set_faults(SimFaults::default());
                let Ok((newest, skipped)) = found else { continue };
                let is_skipped = !skipped.is_empty();
                let newest = newest.map(|newest| newest.position);
                assert_eq!(newest, Some(Position(if is_skipped { 1 } else { 2 })), "{call}");
                for SkippedSnapshot { fault, .. } in skipped {
                    assert!(matches!(fault, SnapshotFault::Unreadable(_)), "{fault}");
                    assert_eq!(kind, DiskErrorKind::Io, "a descriptor comes back");
                    skipped_count += 1;
                }
            }
        }
        assert!(skipped_count > 1);
    }

    #[test]
    fn a_snapshot_that_is_written_again_is_read_again() {
        let disk = SimDisk::new(1);
        let mut store = store(&disk);
        (1..=2).for_each(|at| store.write(Position(at), &state(2 * BLOCK)).unwrap());
        disk.flip_bit(&file_name(Position(1)), 8 * 100);
        assert!(!store.prove_part(2, LOG_END, 9 * BLOCK).unwrap());
        store.write(Position(1), &state(2 * BLOCK)).unwrap();
        assert_eq!(store.prune(2).unwrap(), Some(Position(1)));
    }

    #[test]
    fn a_look_for_the_newest_removes_nothing_that_is_ahead() {
        let disk = SimDisk::new(1);
        [3, 7].iter().for_each(|at| store(&disk).write(Position(*at), b"state").unwrap());
        let (found, _) = store(&disk).newest_sound(Position(5)).unwrap();
        assert_eq!(found.map(|found| found.position), Some(Position(3)));
        assert_eq!(store(&disk).list().unwrap(), [Position(3), Position(7)]);
        store(&disk).remove_after(Position(5)).unwrap();
        assert_eq!(store(&disk).list().unwrap(), [Position(3)]);
    }

    #[test]
    fn another_logs_snapshot_is_passed_over() {
        let disk = SimDisk::new(1);
        store(&disk).write(Position(5), b"five").unwrap();
        let mut other = SnapshotStore::new(disk, 78, PartitionId(2));
        let (loaded, skipped) = other.load_newest(LOG_END).unwrap();
        assert_eq!(loaded, None);
        assert_eq!(skipped[0].fault, SnapshotFault::Foreign);
    }
}
