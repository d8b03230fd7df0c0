//! The numbers of the trading partitions that a node's directory ever had, in a file that lasts
//! when a partition's directory does not: a disk that is not mounted must not look like a partition
//! that is added.
//!
//! ```text
//! configured | commands there | in the file | the start
//! -----------+----------------+-------------+--------------------------------------------------
//! yes        | yes            | any         | goes on with it
//! yes        | no             | no          | makes it: it is added
//! yes        | no             | yes         | is refused: its orders would be missing
//! no         | no             | yes         | goes on without it: it was dropped on purpose
//! no         | yes            | any         | is refused elsewhere: its orders would be hidden
//! ```
//! A number stays in the file for good: the ids of a partition's orders contain it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use weir_partition::dirs::partition_dir;
use weir_partition::places::Location;
use weir_types::PartitionId;

use super::CONTROL;
use crate::config::Config;

/// The first line of the file; the numbers follow, each on a line.
const HEAD: &str = "weir partitions 1";

fn file_of(node_dir: &Path) -> PathBuf {
    node_dir.join(partition_dir(CONTROL)).join("partitions")
}

/// Reads the numbers; none where there is no file yet.
fn read(node_dir: &Path) -> anyhow::Result<Vec<PartitionId>> {
    let file = file_of(node_dir);
    let text = match std::fs::read_to_string(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.with_context(|| file.display().to_string())?,
    };
    let mut lines = text.lines();
    let is_list = lines.next() == Some(HEAD);
    let ids: Result<Vec<u16>, _> = lines.map(str::parse).collect();
    match ids {
        Ok(ids) if is_list => Ok(ids.into_iter().map(PartitionId).collect()),
        _ => anyhow::bail!(
            "{} is no list of partitions: want {HEAD:?}, then numbers",
            file.display()
        ),
    }
}

/// Refuses a start that would make a partition anew which was there before.
pub(super) fn refuse_missing(config: &Config, configured: &[PartitionId]) -> anyhow::Result<()> {
    let known = read(&config.dir)?;
    for id in configured.iter().filter(|id| known.contains(id)) {
        let place = Location::check(&config.dir, *id, config.place_of(*id).as_deref())?;
        if place.dirs().commands().exists() {
            continue;
        }
        let (dir, root) = (config.dir.display(), place.dirs().root().display());
        anyhow::bail!(
            "{dir} had partition {id}, and {root} has no commands: mount or restore it; or go on \
             without its orders by taking its [[partition]] out of the configuration. Only if it \
             never had an order, take its line out of {}",
            file_of(&config.dir).display()
        )
    }
    Ok(())
}

/// Adds the numbers of a node whose partitions are all there.
pub(super) fn note(node_dir: &Path, configured: &[PartitionId]) -> anyhow::Result<()> {
    let before = read(node_dir)?;
    let mut known: Vec<_> = before.iter().chain(configured).copied().collect();
    known.sort_unstable();
    known.dedup();
    if known == before {
        return Ok(());
    }
    let numbers: String = known.iter().map(|id| format!("{id}\n")).collect();
    let file = file_of(node_dir);
    weir_io::durable::write_file(&file, format!("{HEAD}\n{numbers}").as_bytes(), 0o600)
        .with_context(|| file.display().to_string())
}

#[cfg(test)]
mod tests {
    use weir_partition::dirs::PartitionDirs;

    use super::*;

    #[test]
    fn a_partition_that_was_there_is_not_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { dir: dir.path().to_owned(), ..Config::default() };
        let refuse_missing = |ids: &[PartitionId]| super::refuse_missing(&config, ids);
        let (three, seven) = (PartitionId(3), PartitionId(7));
        let make =
            |id| std::fs::create_dir_all(PartitionDirs::new(dir.path(), id).commands()).unwrap();
        refuse_missing(&[three]).unwrap();
        [CONTROL, three].into_iter().for_each(make);
        note(dir.path(), &[three]).unwrap();
        refuse_missing(&[three, seven]).unwrap();
        make(seven);
        note(dir.path(), &[seven, three]).unwrap();
        assert_eq!(read(dir.path()).unwrap(), [three, seven]);

        // The mount point of a disk that is not there is an empty directory.
        std::fs::remove_dir(PartitionDirs::new(dir.path(), seven).commands()).unwrap();
        let refused = refuse_missing(&[three, seven]).unwrap_err().to_string();
        assert!(refused.contains("had partition 7"), "{refused}");
        refuse_missing(&[three]).unwrap();
        note(dir.path(), &[three]).unwrap();
        assert_eq!(read(dir.path()).unwrap(), [three, seven], "its number stays");

        std::fs::write(file_of(dir.path()), "3\n").unwrap();
        let refused = refuse_missing(&[three]).unwrap_err().to_string();
        assert!(refused.contains("is no list of partitions"), "{refused}");
    }
}
