//! Directories and small files that survive a power loss once they were created.
//!
//! A file's name lies in its directory, and a directory's name in its parent: a name is on the
//! medium only after its parent was synced. All calls block; they serve start-up, not the data
//! path.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Result, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Creates a directory and its missing parents, and syncs the names of all of them.
///
/// Every directory is durable before anything is created in it. So after a crash at any point, a
/// directory that has a subdirectory is durable. The directory at `path` itself may not be, so its
/// name is synced again.
///
/// # Errors
/// Returns the system's error when it refuses to create, open or sync a directory. An existing
/// parent that this process may not open is skipped: this process did not create it.
pub fn create_dir(path: &Path) -> Result<()> {
    let Some(above) = above(path) else { return Ok(()) };
    match DirBuilder::new().create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            create_dir(above)?;
            // /proc, for one, has no room for a directory in a parent that exists.
            match DirBuilder::new().create(path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
                created => created?,
            }
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {
            return match sync_dir(above) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
                synced => synced,
            };
        }
        Err(error) => return Err(error),
    }
    // An earlier start may have created the parent and ended before it synced the parent's name.
    create_dir(above)?;
    sync_dir(above)
}

/// Creates or replaces a small file atomically, and syncs its bytes and its name. The new bytes are
/// written to `NAME.part` first. `mode` is the permission bits.
///
/// # Errors
/// Returns the system's error; the file is then unchanged.
pub fn write_file(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(mode).open(part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(part, path)?;
    sync_dir(above(path).unwrap_or(path))
}

/// Returns the directory that holds `path`; the root has none.
fn above(path: &Path) -> Option<&Path> {
    let above = path.parent()?;
    Some(if above.as_os_str().is_empty() { Path::new(".") } else { above })
}

/// Removes a file for good: it is not back after a power cut.
///
/// # Errors
/// When the system refuses, or there is none.
pub fn remove_file(path: &Path) -> Result<()> {
    std::fs::remove_file(path)?;
    sync_dir(above(path).unwrap_or(path))
}

fn sync_dir(path: &Path) -> Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_no_parent_takes_is_an_error() {
        let error = create_dir(Path::new("/proc/weir/data")).unwrap_err();
        assert!(!Path::new("/proc/weir").exists(), "{error}");
    }
}
