//! Partitions whose directory is not below the node's, so that each can have a disk of its own.
//!
//! The node's directory then has a place file, `partition-N.at`, with the absolute path, and the
//! directory elsewhere an owner's file, `partition`, with the number. Both have the same mark,
//! which is drawn when they are made. Tools find the directory by the first; the second tells it
//! from the bare mount point of a disk that is not mounted, where nothing is created anew, and from
//! that of another node. Both are written before the first log, the owner's file first.
//!
//! | place file | configured | below the node's directory | elsewhere | a start |
//! | --- | --- | --- | --- | --- |
//! | none | none | any | | goes on below |
//! | none | D | has a log | | is refused: two places |
//! | none | D | nothing | no log | begins in D |
//! | none | D | nothing | a log, and the node has run | goes on in D: it was moved there |
//! | none | D | nothing | a log, and the node is new | is refused: the log is another node's |
//! | none | D | nothing | a log and an owner's file | is refused: the log is another node's |
//! | D | D | nothing | has its owner's file | goes on in D |
//! | D | D | nothing | has none | is refused: not mounted |
//! | D | D | has a log | any | is refused: two places |
//! | D | E | nothing | its owner's file is in E alone | goes on in E: it was moved |
//! | D | none | a log and its owner's file | nothing in D | goes on below: it was moved back |
//! | D | another, or none | any | any other | is refused: two places, or not mounted |

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use thiserror::Error;
use weir_io::{OsRng, Rng as _};
use weir_types::PartitionId;

use crate::dirs::{PartitionDirs, partition_dir};
use crate::plant::{self, Plant};

/// The end of a place file's name, behind that of the directory.
pub const SUFFIX: &str = ".at";
/// The file in a directory elsewhere with the number of its partition, and the mark.
const OWNER: &str = "partition";

/// The reason why a partition's directory is not found, or not used.
#[derive(Debug, Error)]
pub enum PlaceError {
    /// The system refused a file.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// A place file has no absolute path, or no mark.
    #[error("{file} has no absolute path and a mark behind it: {text:?}")]
    Malformed {
        /// The place file.
        file: PathBuf,
        /// Its contents.
        text: String,
    },
    /// The directory that a place file names is not a partition's.
    #[error(
        "partition {partition_id} is in {dir} by {file}, and {dir}/partition is missing: mount its \
         disk"
    )]
    NotMounted {
        /// The partition.
        partition_id: PartitionId,
        /// The directory.
        dir: PathBuf,
        /// The place file.
        file: PathBuf,
    },
    /// The directory is another partition's.
    #[error("{dir} is the directory of partition {found}, not of {partition_id}")]
    OtherPartition {
        /// The partition.
        partition_id: PartitionId,
        /// The directory.
        dir: PathBuf,
        /// The number in its owner's file.
        found: String,
    },
    /// The directory has the log of another node's partition.
    #[error(
        "partition.dir of {partition_id}: {dir} has a log, and {node_dir} is not the node that it \
         belongs to. If it was moved there by hand from below this node, remove {dir}/partition"
    )]
    OtherNode {
        /// The partition.
        partition_id: PartitionId,
        /// The directory.
        dir: PathBuf,
        /// The node's directory.
        node_dir: PathBuf,
    },
    /// The directory that would hold a new one is missing.
    #[error(
        "partition.dir of {partition_id}: {dir} cannot be made, {above} is not there: mount its \
         disk"
    )]
    NoParent {
        /// The partition.
        partition_id: PartitionId,
        /// The directory.
        dir: PathBuf,
        /// The missing one.
        above: PathBuf,
    },
    /// The directory is below the node's, or has it.
    #[error(
        "partition.dir of {partition_id}: {dir} is in the directory of the node, {node_dir}, or \
         has it: without partition.dir the partition is below the node's"
    )]
    Nested {
        /// The partition.
        partition_id: PartitionId,
        /// The directory.
        dir: PathBuf,
        /// The node's directory.
        node_dir: PathBuf,
    },
    /// The configuration has another place than the node's directory.
    #[error(
        "partition {partition_id} is in {noted} (by {by}), and the configuration has {configured}: \
         move the directory while the node is stopped, with its file `partition` if it has one, \
         and set partition.dir to the directory's place"
    )]
    Differs {
        /// The partition.
        partition_id: PartitionId,
        /// Its directory.
        noted: PathBuf,
        /// The file or directory that says so.
        by: PathBuf,
        /// The directory of the configuration.
        configured: PathBuf,
    },
}

/// Returns the place file of a partition.
#[must_use]
pub fn file_of(node_dir: &Path, partition_id: PartitionId) -> PathBuf {
    node_dir.join(partition_dir(partition_id) + SUFFIX)
}

/// Returns the directory elsewhere that a partition has.
///
/// # Errors
/// When the place file cannot be read, or the directory that it names is not there.
pub fn of(node_dir: &Path, partition_id: PartitionId) -> Result<Option<PathBuf>, PlaceError> {
    let Some(noted) = PlaceFile::read(node_dir, partition_id)? else { return Ok(None) };
    noted.check_there(node_dir, partition_id)?;
    Ok(Some(noted.dir))
}

/// The contents of a place file.
struct PlaceFile {
    dir: PathBuf,
    mark: String,
}

impl PlaceFile {
    fn read(node_dir: &Path, partition_id: PartitionId) -> Result<Option<PlaceFile>, PlaceError> {
        let file = file_of(node_dir, partition_id);
        let Some(text) = read(&file)? else { return Ok(None) };
        match text.trim_end_matches('\n').rsplit_once('\n') {
            Some((dir, mark)) if Path::new(dir).is_absolute() && !mark.is_empty() => {
                Ok(Some(PlaceFile { dir: dir.into(), mark: mark.to_owned() }))
            }
            _ => Err(PlaceError::Malformed { file, text }),
        }
    }

    /// Refuses a directory that is not the partition's, or not there.
    fn check_there(&self, node_dir: &Path, partition_id: PartitionId) -> Result<(), PlaceError> {
        let dir = self.dir.clone();
        match owner_of(&dir, partition_id)? {
            Some(mark) if mark == self.mark || plant::is(Plant::MarkUnread) => Ok(()),
            Some(_) => {
                let node_dir = node_dir.to_owned();
                Err(PlaceError::OtherNode { partition_id, dir, node_dir })
            }
            None => {
                let file = file_of(node_dir, partition_id);
                Err(PlaceError::NotMounted { partition_id, dir, file })
            }
        }
    }

    /// Returns true if the partition is not in the directory that is noted, and is in this one.
    fn has_moved_to(&self, dir: &Path, partition_id: PartitionId) -> Result<bool, PlaceError> {
        let is_here = |found: Option<String>| found.as_deref() == Some(&self.mark);
        let noted = match owner_of(&self.dir, partition_id) {
            // Another partition has been moved there.
            Err(PlaceError::OtherPartition { .. }) => None,
            noted => noted?,
        };
        Ok(!is_here(noted) && is_here(owner_of(dir, partition_id)?))
    }
}

/// Returns the mark in the owner's file of a directory, if it has one.
///
/// # Errors
/// When the directory is another partition's.
fn owner_of(dir: &Path, partition_id: PartitionId) -> Result<Option<String>, PlaceError> {
    let Some(text) = read(&dir.join(OWNER))? else { return Ok(None) };
    let (found, mark) = text.trim_end().split_once(' ').unwrap_or((text.trim_end(), ""));
    if found == partition_id.to_string() {
        return Ok(Some(mark.to_owned()));
    }
    let (dir, found) = (dir.to_owned(), found.to_owned());
    Err(PlaceError::OtherPartition { partition_id, dir, found })
}

/// Returns a path without links and `..` in it, as far as it is there.
fn real(path: &Path) -> PathBuf {
    let whole = std::fs::canonicalize(path);
    let above = || {
        let above = std::fs::canonicalize(path.parent()?).ok()?;
        Some(above.join(path.file_name()?))
    };
    whole.ok().or_else(above).unwrap_or_else(|| path.to_owned())
}

fn read(path: &Path) -> Result<Option<String>, PlaceError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, error)),
    }
}

/// A partition's place for a start, checked and not changed yet.
#[derive(Clone, Debug)]
pub struct Location {
    partition_id: PartitionId,
    dirs: PartitionDirs,
    /// The place file.
    file: PathBuf,
    /// The mark of the directory elsewhere; none below the node's.
    mark: Option<String>,
}

impl Location {
    /// Decides on the place of a partition with this directory in the configuration, if any, by the
    /// table above.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn check(
        node_dir: &Path,
        partition_id: PartitionId,
        configured: Option<&Path>,
    ) -> Result<Location, PlaceError> {
        let file = file_of(node_dir, partition_id);
        let below = PartitionDirs::new(node_dir, partition_id);
        let noted = PlaceFile::read(node_dir, partition_id)?;
        let differs = |noted: &Path, by: &Path| {
            let (noted, by) = (noted.to_owned(), by.to_owned());
            let configured = configured.unwrap_or(below.root()).to_owned();
            Err(PlaceError::Differs { partition_id, noted, by, configured })
        };
        if let Some(noted) = &noted {
            let has_moved = configured != Some(&noted.dir)
                && noted.has_moved_to(configured.unwrap_or(below.root()), partition_id)?;
            if !has_moved {
                noted.check_there(node_dir, partition_id)?;
                if configured != Some(&noted.dir) {
                    return differs(&noted.dir, &file);
                }
            }
        }
        let Some(dir) = configured else {
            return Ok(Location { partition_id, dirs: below, file, mark: None });
        };
        if below.commands().exists() {
            return differs(below.root(), below.root());
        }
        let dirs = PartitionDirs::at(dir.to_owned());
        let mark = match noted {
            Some(noted) => noted.mark,
            None => new_mark(node_dir, partition_id, &dirs)?,
        };
        Ok(Location { partition_id, dirs, file, mark: Some(mark) })
    }

    /// Returns the partition.
    #[must_use]
    pub fn partition_id(&self) -> PartitionId {
        self.partition_id
    }

    /// Returns the paths of the partition.
    #[must_use]
    pub fn dirs(&self) -> &PartitionDirs {
        &self.dirs
    }

    /// Creates the directory if needed, and notes its place.
    ///
    /// # Errors
    /// When the system refuses a file, or another partition has begun in the directory.
    pub fn make(&self) -> Result<(), PlaceError> {
        let root = self.dirs.root();
        let owner = root.join(OWNER);
        weir_io::durable::create_dir(root).map_err(|error| failed(root, error))?;
        let Some(mark) = &self.mark else {
            // It was moved back: the files of its place elsewhere would stand against later ones.
            // The owner's file goes last, since a place file without one tells of a missing disk.
            return [&self.file, &owner].into_iter().try_for_each(|file| remove(file));
        };
        let write = |path: &Path, text: String| {
            if read(path)?.as_ref() == Some(&text) {
                return Ok(());
            }
            let written = weir_io::durable::write_file(path, text.as_bytes(), 0o600);
            written.map_err(|error| failed(path, error))
        };
        // The same directory by another name has passed the check of two new partitions.
        owner_of(root, self.partition_id)?;
        // The owner's file first: a place file says that it is there.
        write(&owner, format!("{} {mark}\n", self.partition_id))?;
        write(&self.file, format!("{}\n{mark}\n", root.display()))
    }
}

/// Checks that a partition without a place file can have this directory; returns its mark.
fn new_mark(
    node_dir: &Path,
    partition_id: PartitionId,
    dirs: &PartitionDirs,
) -> Result<String, PlaceError> {
    let dir = dirs.root().to_owned();
    let [place, node_place] = [dirs.root(), node_dir].map(real);
    if place.starts_with(&node_place) || node_place.starts_with(&place) {
        return Err(PlaceError::Nested { partition_id, dir, node_dir: node_place });
    }
    let owner = owner_of(&dir, partition_id)?;
    let is_new_node = !PartitionDirs::new(node_dir, PartitionId(0)).commands().exists();
    if dirs.commands().exists() && (is_new_node || owner.is_some()) {
        let node_dir = node_dir.to_owned();
        return Err(PlaceError::OtherNode { partition_id, dir, node_dir });
    }
    match dir.parent() {
        Some(above) if !above.is_dir() => {
            let above = above.to_owned();
            Err(PlaceError::NoParent { partition_id, dir, above })
        }
        // One that is there already is of a start that went no further.
        _ => Ok(owner.unwrap_or_else(|| format!("{:016x}", OsRng.next_u64()))),
    }
}

fn failed(path: &Path, error: std::io::Error) -> PlaceError {
    PlaceError::File { path: path.to_owned(), error }
}

fn remove(path: &Path) -> Result<(), PlaceError> {
    match weir_io::durable::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IT: PartitionId = PartitionId(7);

    /// A node's directory and one elsewhere.
    struct Rig {
        dir: tempfile::TempDir,
    }

    impl Rig {
        fn new() -> Rig {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir(dir.path().join("node")).unwrap();
            Rig { dir }
        }

        fn node(&self) -> PathBuf {
            self.dir.path().join("node")
        }

        fn elsewhere(&self) -> PathBuf {
            self.dir.path().join("fast")
        }

        fn check(&self, configured: Option<&Path>) -> Result<Location, PlaceError> {
            Location::check(&self.node(), IT, configured)
        }

        /// Begins elsewhere, with a log of both partitions.
        fn begun(&self) {
            let place = self.check(Some(&self.elsewhere())).unwrap();
            place.make().unwrap();
            std::fs::create_dir(place.dirs().commands()).unwrap();
            std::fs::create_dir_all(PartitionDirs::new(&self.node(), PartitionId(0)).commands())
                .unwrap();
        }
    }

    #[test]
    fn a_partition_is_found_where_it_began() {
        let rig = Rig::new();
        let root = |rig: &Rig| PartitionDirs::find(&rig.node(), IT).unwrap().root().to_owned();
        assert_eq!(root(&rig), rig.node().join("partition-7"));
        rig.begun();
        assert_eq!(root(&rig), rig.elsewhere());
        let places = crate::dirs::partitions_in(&rig.node()).unwrap();
        assert_eq!(places, [IT]);
        // A second start finds all as it is.
        rig.check(Some(&rig.elsewhere())).unwrap().make().unwrap();
        assert_eq!(root(&rig), rig.elsewhere());
    }

    #[test]
    fn a_start_that_differs_from_the_place_file_is_refused_with_both_named() {
        let rig = Rig::new();
        rig.begun();
        let other = rig.dir.path().join("other");
        for configured in [None, Some(other.as_path())] {
            let error = rig.check(configured).unwrap_err();
            assert!(matches!(error, PlaceError::Differs { .. }), "{error}");
            let below = rig.node().join("partition-7");
            let named = [rig.elsewhere(), configured.map_or(below, Path::to_owned)];
            for path in named {
                assert!(error.to_string().contains(&path.display().to_string()), "{error}");
            }
        }
    }

    #[test]
    fn a_directory_that_is_not_mounted_is_refused_and_not_made() {
        let rig = Rig::new();
        rig.begun();
        let moved = rig.dir.path().join("unmounted");
        std::fs::rename(rig.elsewhere(), &moved).unwrap();
        for is_mount_point in [false, true] {
            if is_mount_point {
                std::fs::create_dir(rig.elsewhere()).unwrap();
            }
            let refused = [
                rig.check(Some(&rig.elsewhere())).map(drop).unwrap_err(),
                PartitionDirs::find(&rig.node(), IT).map(drop).unwrap_err(),
            ];
            for error in refused {
                assert!(matches!(error, PlaceError::NotMounted { .. }), "{error}");
            }
        }
        assert_eq!(std::fs::read_dir(rig.elsewhere()).unwrap().count(), 0);
        // Nor is a new one made where its disk's directory is missing.
        let far = rig.dir.path().join("missing/fast");
        let error = Location::check(&rig.node(), PartitionId(8), Some(&far)).unwrap_err();
        assert!(matches!(error, PlaceError::NoParent { .. }), "{error}");
    }

    #[test]
    fn a_directory_is_moved_while_the_node_is_stopped() {
        let rig = Rig::new();
        let below = PartitionDirs::new(&rig.node(), IT);
        std::fs::create_dir_all(below.commands()).unwrap();
        let control = PartitionDirs::new(&rig.node(), PartitionId(0)).commands();
        std::fs::create_dir_all(&control).unwrap();
        let error = rig.check(Some(&rig.elsewhere())).unwrap_err();
        assert!(matches!(error, PlaceError::Differs { .. }), "it is not moved yet: {error}");
        std::fs::rename(below.root(), rig.elsewhere()).unwrap();
        rig.check(Some(&rig.elsewhere())).unwrap().make().unwrap();
        let find = || PartitionDirs::find(&rig.node(), IT).unwrap().root().to_owned();
        assert_eq!(find(), rig.elsewhere());
        // Another partition may take its former place.
        let former = rig.elsewhere();
        // To another disk, and back.
        let other = rig.dir.path().join("other");
        std::fs::rename(rig.elsewhere(), &other).unwrap();
        std::fs::create_dir(&former).unwrap();
        std::fs::write(former.join(OWNER), "8 0123456789abcdef\n").unwrap();
        rig.check(Some(&other)).unwrap().make().unwrap();
        assert_eq!(find(), other);
        std::fs::remove_dir_all(&former).unwrap();
        std::fs::rename(&other, below.root()).unwrap();
        rig.check(None).unwrap().make().unwrap();
        assert_eq!(find(), below.root());
        assert!(!below.root().join(OWNER).exists() && !file_of(&rig.node(), IT).exists());
        // Another node's log is not taken for a moved one.
        std::fs::rename(below.root(), rig.elsewhere()).unwrap();
        std::fs::remove_dir(&control).unwrap();
        let error = rig.check(Some(&rig.elsewhere())).unwrap_err();
        assert!(matches!(error, PlaceError::OtherNode { .. }), "{error}");
    }

    #[test]
    fn no_other_node_or_partition_gets_a_directory() {
        let rig = Rig::new();
        rig.begun();
        let other_node = rig.dir.path().join("other");
        let control = PartitionDirs::new(&other_node, PartitionId(0)).commands();
        std::fs::create_dir_all(control).unwrap();
        let error = Location::check(&other_node, IT, Some(&rig.elsewhere())).unwrap_err();
        assert!(matches!(error, PlaceError::OtherNode { .. }), "{error}");
        let error =
            Location::check(&rig.node(), PartitionId(8), Some(&rig.elsewhere())).unwrap_err();
        assert!(matches!(error, PlaceError::OtherPartition { .. }), "{error}");
        // Nor one that has its place file and whose directory was replaced.
        std::fs::write(rig.elsewhere().join(OWNER), "7 0123456789abcdef\n").unwrap();
        let error = rig.check(Some(&rig.elsewhere())).unwrap_err();
        assert!(matches!(error, PlaceError::OtherNode { .. }), "{error}");
    }

    #[cfg(feature = "planted")]
    #[test]
    fn the_planted_bug_of_an_unread_mark_is_found() {
        assert!(plant::is_found(Plant::MarkUnread, no_other_node_or_partition_gets_a_directory));
    }

    #[test]
    fn a_directory_by_two_names_is_one() {
        let rig = Rig::new();
        let names = ["fast", "node/../fast"].map(|name| rig.dir.path().join(name));
        let place =
            |id: u16, name: &Path| Location::check(&rig.node(), PartitionId(id), Some(name));
        let both = [place(7, &names[0]).unwrap(), place(8, &names[1]).unwrap()];
        both[0].make().unwrap();
        let error = both[1].make().unwrap_err();
        assert!(matches!(error, PlaceError::OtherPartition { .. }), "{error}");
        let link = rig.dir.path().join("link");
        std::os::unix::fs::symlink(rig.node(), &link).unwrap();
        let error = place(9, &link.join("fast")).unwrap_err();
        assert!(matches!(error, PlaceError::Nested { .. }), "{error}");
    }

    #[test]
    fn a_place_file_without_a_path_or_mark_is_an_error() {
        let rig = Rig::new();
        for text in ["fast\nmark\n", "/fast\n", ""] {
            std::fs::write(file_of(&rig.node(), IT), text).unwrap();
            let error = PartitionDirs::find(&rig.node(), IT).unwrap_err();
            assert!(matches!(error, PlaceError::Malformed { .. }), "{error}");
        }
    }
}
