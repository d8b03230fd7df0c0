//! The file with an archive's time: that for which it was at work, in all its runs. Segments have
//! the time of their closing; between two closings this file alone tells how it went on.
//!
//! It is written under a temporary name, synced and renamed, so that it is complete or absent. A
//! damaged one counts as none.

use weir_io::{Access, Disk, DiskError, DiskErrorKind};
use weir_types::Nanos;

use crate::filter::{u32_at, u64_at};

const NAME: &str = "served-time";
/// A start removes it, as every name with this suffix.
const PART_NAME: &str = "served-time.part";
const MAGIC: [u8; 8] = *b"WEIRSERV";
const VERSION: u32 = 1;
const LEN: usize = 24;
const CRC_AT: usize = LEN - 4;

/// Returns the time in the file; zero if it is damaged or there is none.
pub(crate) fn read<D: Disk>(disk: &mut D) -> Result<Nanos, DiskError> {
    let file = match disk.open(NAME, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind == DiskErrorKind::NotFound => return Ok(Nanos(0)),
        Err(error) => return Err(error),
    };
    let mut bytes = [0; LEN];
    let read = disk.read(file, 0, &mut bytes);
    disk.close(file);
    let is_sound = read? == LEN
        && bytes[..8] == MAGIC
        && u32_at(&bytes, 8) == VERSION
        && u32_at(&bytes, CRC_AT) == crc32c::crc32c(&bytes[..CRC_AT]);
    Ok(if is_sound { Nanos(u64_at(&bytes, 12)) } else { Nanos(0) })
}

/// Writes the file. When it returns, the time survives a power loss.
pub(crate) fn write<D: Disk>(disk: &mut D, time: Nanos) -> Result<(), DiskError> {
    let mut bytes = Vec::with_capacity(LEN);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&time.0.to_le_bytes());
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    let file = disk.create(PART_NAME)?;
    let written = disk.write_all(file, 0, &bytes).and_then(|()| disk.sync(file));
    disk.close(file);
    written?;
    disk.rename(PART_NAME, NAME)?;
    disk.sync_dir()
}
