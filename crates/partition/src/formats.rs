//! A look at the headers of all logs of a node before the first of them is opened.
//!
//! To open a log is to write into it. A program that meets a newer format in the second log would
//! have changed the first by then; so it looks at all headers first and leaves all as it is.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use anyhow::Context;
use weir_log::{LogError, SegmentKind, check_header};
use weir_types::PartitionId;

use crate::dirs::PartitionDirs;

/// More than any segment's header takes, in bytes.
const HEADER_BYTES_MAX: u64 = 4096;

/// Refuses a node's directory that holds a segment of a newer format than this program knows.
/// Whatever else is wrong with a header is for the recovery to judge.
///
/// # Errors
/// When there is one, by its file and version; when a file cannot be read.
pub fn refuse_newer(node_dir: &Path, partitions: &[PartitionId]) -> anyhow::Result<()> {
    for partition_id in partitions {
        let dirs = PartitionDirs::new(node_dir, *partition_id);
        refuse_newer_in(&dirs.commands(), SegmentKind::Command)?;
        refuse_newer_in(&dirs.events(), SegmentKind::Event)?;
    }
    Ok(())
}

fn refuse_newer_in(dir: &Path, kind: SegmentKind) -> anyhow::Result<()> {
    let place = || dir.display().to_string();
    let entries = match std::fs::read_dir(dir) {
        // A new node's; it is made later.
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
        if let Err(error @ LogError::NewerFormat { .. }) = check_header(&name, &bytes, kind) {
            return Err(error).with_context(place);
        }
    }
    Ok(())
}
