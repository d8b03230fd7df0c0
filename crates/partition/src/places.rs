//! Partitions whose directory is not below the node's, so that each can have a disk of its own.
//!
//! The node's directory then has a place file, `partition-N.at`, with the absolute path, and the
//! directory elsewhere a file `partition` with the number. Tools find the directory by the first,
//! and the second tells it from the bare mount point of a disk that is not mounted: nothing is
//! created there anew. Both are written before the first log, the owner's file first.
//!
//! | place file | configured | below the node's directory | elsewhere | a start |
//! | --- | --- | --- | --- | --- |
//! | none | none | any | | goes on below |
//! | none | D | has files | | is refused: two places |
//! | none | D | nothing | no log | begins in D |
//! | none | D | nothing | a log, and the node has run | goes on in D: it was moved there |
//! | none | D | nothing | a log, and the node is new | is refused: the log is another node's |
//! | D | D | nothing | has its owner's file | goes on in D |
//! | D | D | nothing | has none | is refused: not mounted |
//! | D | another, or none | any | any | is refused: two places |
//! | D | D | has files | any | is refused: two places |

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use thiserror::Error;
use weir_types::PartitionId;

use crate::dirs::{PartitionDirs, partition_dir};

/// The end of a place file's name, behind that of the directory.
pub const SUFFIX: &str = ".at";
/// The file in a directory elsewhere with the number of its partition.
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
    /// A place file has no absolute path.
    #[error("{file} has no absolute path: {text:?}")]
    Malformed {
        /// The place file.
        file: PathBuf,
        /// Its contents.
        text: String,
    },
    /// The directory that a place file names is not a partition's.
    #[error("partition {partition_id} is in {dir} by {file}, and is not there: mount its disk")]
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
    /// The directory in which a partition is to begin has a log already.
    #[error(
        "partition.dir of {partition_id}: {dir} has a log, and {node_dir} is the directory of a \
         new node"
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
         move the directory while the node is stopped, remove the place file if there is one, and \
         set partition.dir to the directory's place"
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
    let Some(dir) = noted(node_dir, partition_id)? else { return Ok(None) };
    if !is_owned(&dir, partition_id)? {
        let file = file_of(node_dir, partition_id);
        return Err(PlaceError::NotMounted { partition_id, dir, file });
    }
    Ok(Some(dir))
}

/// Returns the directory that a partition's place file names.
fn noted(node_dir: &Path, partition_id: PartitionId) -> Result<Option<PathBuf>, PlaceError> {
    let file = file_of(node_dir, partition_id);
    let Some(text) = read(&file)? else { return Ok(None) };
    let dir = PathBuf::from(text.trim_end_matches('\n'));
    if dir.is_absolute() { Ok(Some(dir)) } else { Err(PlaceError::Malformed { file, text }) }
}

/// Returns true if a directory has the owner's file of a partition.
fn is_owned(dir: &Path, partition_id: PartitionId) -> Result<bool, PlaceError> {
    let Some(text) = read(&dir.join(OWNER))? else { return Ok(false) };
    let found = text.trim_end();
    if found == partition_id.to_string() {
        return Ok(true);
    }
    let (dir, found) = (dir.to_owned(), found.to_owned());
    Err(PlaceError::OtherPartition { partition_id, dir, found })
}

fn read(path: &Path) -> Result<Option<String>, PlaceError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PlaceError::File { path: path.to_owned(), error }),
    }
}

/// A partition's place for a start, checked and not changed yet.
#[derive(Clone, Debug)]
pub struct Place {
    partition_id: PartitionId,
    dirs: PartitionDirs,
    /// The place file, where the partition is elsewhere.
    file: Option<PathBuf>,
}

impl Place {
    /// Decides on the place of a partition with this directory in the configuration, if any, by the
    /// table above.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn check(
        node_dir: &Path,
        partition_id: PartitionId,
        configured: Option<&Path>,
    ) -> Result<Place, PlaceError> {
        let file = file_of(node_dir, partition_id);
        let below = PartitionDirs::new(node_dir, partition_id);
        let noted = of(node_dir, partition_id)?;
        let differs = |noted: &Path, by: &Path, configured: &Path| PlaceError::Differs {
            partition_id,
            noted: noted.to_owned(),
            by: by.to_owned(),
            configured: configured.to_owned(),
        };
        if let Some(noted) = &noted
            && configured != Some(noted)
        {
            return Err(differs(noted, &file, configured.unwrap_or(below.root())));
        }
        let Some(dir) = configured else {
            return Ok(Place { partition_id, dirs: below, file: None });
        };
        if below.commands().exists() {
            return Err(differs(below.root(), below.root(), dir));
        }
        let place =
            Place { partition_id, dirs: PartitionDirs::at(dir.to_owned()), file: Some(file) };
        if noted.is_none() {
            place.check_new(node_dir, dir)?;
        }
        Ok(place)
    }

    /// Checks that a partition without a place file can have this directory.
    fn check_new(&self, node_dir: &Path, dir: &Path) -> Result<(), PlaceError> {
        let partition_id = self.partition_id;
        let node_place = std::path::absolute(node_dir).unwrap_or_else(|_| node_dir.to_owned());
        if dir.starts_with(&node_place) || node_place.starts_with(dir) {
            let dir = dir.to_owned();
            return Err(PlaceError::Nested { partition_id, dir, node_dir: node_place });
        }
        is_owned(dir, partition_id)?;
        let is_new_node = !PartitionDirs::new(node_dir, PartitionId(0)).commands().exists();
        if is_new_node && self.dirs.commands().exists() {
            let (dir, node_dir) = (dir.to_owned(), node_dir.to_owned());
            return Err(PlaceError::OtherNode { partition_id, dir, node_dir });
        }
        match dir.parent() {
            Some(above) if !above.is_dir() => {
                let (dir, above) = (dir.to_owned(), above.to_owned());
                Err(PlaceError::NoParent { partition_id, dir, above })
            }
            _ => Ok(()),
        }
    }

    /// Returns the paths of the partition.
    #[must_use]
    pub fn dirs(&self) -> &PartitionDirs {
        &self.dirs
    }

    /// Creates the directory if needed, and notes its place.
    ///
    /// # Errors
    /// When the system refuses a file.
    pub fn make(&self) -> Result<(), PlaceError> {
        let root = self.dirs.root();
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| PlaceError::File { path, error }
        };
        weir_io::durable::create_dir(root).map_err(failed(root))?;
        let Some(file) = &self.file else { return Ok(()) };
        let owner = root.join(OWNER);
        let write = |path: &Path, text: String| {
            if read(path)?.as_ref() == Some(&text) {
                return Ok(());
            }
            weir_io::durable::write_file(path, text.as_bytes(), 0o600).map_err(failed(path))
        };
        // The owner's file first: a place file says that it is there.
        write(&owner, format!("{}\n", self.partition_id))?;
        write(file, format!("{}\n", root.display()))
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

        fn check(&self, configured: Option<&Path>) -> Result<Place, PlaceError> {
            Place::check(&self.node(), IT, configured)
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
        let error = Place::check(&rig.node(), PartitionId(8), Some(&far)).unwrap_err();
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
        assert_eq!(PartitionDirs::find(&rig.node(), IT).unwrap().root(), rig.elsewhere());
        // And back.
        std::fs::rename(rig.elsewhere(), below.root()).unwrap();
        std::fs::remove_file(file_of(&rig.node(), IT)).unwrap();
        assert_eq!(rig.check(None).unwrap().dirs().root(), below.root());
        // Another node's log is not taken for a moved one.
        std::fs::rename(below.root(), rig.elsewhere()).unwrap();
        std::fs::remove_dir(&control).unwrap();
        let error = rig.check(Some(&rig.elsewhere())).unwrap_err();
        assert!(matches!(error, PlaceError::OtherNode { .. }), "{error}");
        let error = Place::check(&rig.node(), PartitionId(8), Some(&rig.elsewhere())).unwrap_err();
        assert!(matches!(error, PlaceError::OtherPartition { .. }), "{error}");
    }

    #[test]
    fn a_place_file_without_a_path_is_an_error() {
        let rig = Rig::new();
        std::fs::write(file_of(&rig.node(), IT), "fast\n").unwrap();
        let error = PartitionDirs::find(&rig.node(), IT).unwrap_err();
        assert!(matches!(error, PlaceError::Malformed { .. }), "{error}");
    }
}
