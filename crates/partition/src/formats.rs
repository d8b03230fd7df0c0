//! A check of the headers of all logs of a node before the first log is opened.
//!
//! Opening a log writes to it, and so does noting its place. If the second log had a newer format,
//! or were another partition's, the first would already be changed; so all headers are checked
//! first, and on refusal all files stay as they are.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use anyhow::Context;
use weir_log::{LogError, SegmentKind, check_header};
use weir_types::PartitionId;

use crate::places::Location;

/// An upper limit of a segment header's size, in bytes.
const HEADER_BYTES_MAX: u64 = 4096;

/// Refuses partitions that hold a segment in a newer format than this program supports, or one of
/// another partition. Recovery reports any other fault of a header.
///
/// # Errors
/// When there is such a segment, with its file, and version or partition; when a file cannot be
/// read.
pub fn refuse_unfit(partitions: &[Location]) -> anyhow::Result<()> {
    for place in partitions {
        let (id, dirs) = (place.partition_id(), place.dirs());
        refuse_unfit_in(&dirs.commands(), SegmentKind::Command, id)?;
        refuse_unfit_in(&dirs.events(), SegmentKind::Event, id)?;
    }
    Ok(())
}

fn refuse_unfit_in(dir: &Path, kind: SegmentKind, id: PartitionId) -> anyhow::Result<()> {
    let place = || dir.display().to_string();
    let entries = match std::fs::read_dir(dir) {
        // A new node: the directory is created later.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(place)?,
    };
    for entry in entries {
        let entry = entry.with_context(place)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !name.ends_with(kind.suffix()) {
            continue;
        }
        let mut bytes = Vec::new();
        let file = File::open(entry.path()).with_context(place)?;
        file.take(HEADER_BYTES_MAX).read_to_end(&mut bytes).with_context(place)?;
        match check_header(&name, &bytes, kind) {
            Err(error @ LogError::NewerFormat { .. }) => return Err(error).with_context(place),
            Ok(header) if header.partition != id => {
                anyhow::bail!("{}: {name} is of partition {}, not {id}", place(), header.partition)
            }
            _ => {}
        }
    }
    Ok(())
}
