//! Directories and small files that a power loss cannot take back once they were made.
//!
//! A file's name lies in its directory, and a directory's in the one above: each is on the medium
//! only when the one that holds it was synced. Blocking; for starts, not for the data path.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Result, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Makes a directory and what is missing above it, and syncs the names of all of them.
///
/// Every directory is durable before anything is made in it. So whatever crash came in between, a
/// directory that is there and has one below it is durable; of the one at `path` itself that
/// is not known, and its name is synced again.
///
/// # Errors
/// When the system refuses to make, open or sync a directory. A directory above one that was there
/// before and that this process may not open is passed over: it was not made by it.
pub fn create_dir(path: &Path) -> Result<()> {
    let Some(above) = above(path) else { return Ok(()) };
    match DirBuilder::new().create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            create_dir(above)?;
            return create_dir(path);
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {
            return match sync_dir(above) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
                synced => synced,
            };
        }
        Err(error) => return Err(error),
    }
    // The one above may be of a start that was ended before it had synced that one's name.
    create_dir(above)?;
    sync_dir(above)
}

/// Makes or replaces a small file, whole or not at all, and syncs its bytes and its name. What is
/// written lies beside it meanwhile, as `NAME.part`. `mode` is the permission bits.
///
/// # Errors
/// When the system refuses; the file is as it was then.
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

/// The directory that holds a path; nothing above the top one.
fn above(path: &Path) -> Option<&Path> {
    let above = path.parent()?;
    Some(if above.as_os_str().is_empty() { Path::new(".") } else { above })
}

fn sync_dir(path: &Path) -> Result<()> {
    File::open(path)?.sync_all()
}
