//! A disk that takes nothing now and then: `disk.c`, preloaded into a node, holds its writes to
//! files and its syncs while a word in a shared file says so. The party sets the word.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::party::Party;
use crate::roundtrip::WorkDir;

/// The time for which the disk stalls, and then works.
const PHASE: Duration = Duration::from_millis(250);

/// A node's disk.
pub(super) struct StallingDisk {
    library: PathBuf,
    word: PathBuf,
}

impl StallingDisk {
    /// Builds two disks that work.
    pub(super) fn two(work: &WorkDir) -> anyhow::Result<Vec<StallingDisk>> {
        let library = work.path().join("disk.so");
        let source = work.path().join("disk.c");
        std::fs::write(&source, include_str!("disk.c"))?;
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
        ensure!(compiler.status().context("Rust's linker is a C compiler")?.success(), "disk.c");
        (0..2)
            .map(|number| {
                let word = work.path().join(format!("disk-{number}"));
                std::fs::write(&word, [0; 8])?;
                Ok(StallingDisk { library: library.clone(), word })
            })
            .collect()
    }

    /// The file with the word.
    pub(super) fn word(&self) -> &Path {
        &self.word
    }

    /// Lets a node have this disk.
    pub(super) fn put_under(&self, node: &mut Command) {
        node.env("LD_PRELOAD", &self.library).env("WEIR_BENCH_DISK", &self.word);
    }
}

/// The stalls of two nodes' disks.
pub(super) struct StallingDisks {
    nodes: Vec<SocketAddr>,
    words: Vec<File>,
    /// The place of the disk that stalls now and then.
    place: Option<usize>,
    is_stalled: bool,
    next_at: Instant,
    stalls: u64,
}

impl StallingDisks {
    /// Opens the words of the nodes' disks.
    pub(super) fn new(nodes: &[SocketAddr], words: &[PathBuf]) -> anyhow::Result<StallingDisks> {
        ensure!(nodes.len() == words.len(), "a disk for each node");
        let open = |word: &PathBuf| File::options().write(true).open(word);
        Ok(StallingDisks {
            nodes: nodes.to_vec(),
            words: words.iter().map(open).collect::<Result<_, _>>()?,
            place: None,
            is_stalled: false,
            next_at: Instant::now(),
            stalls: 0,
        })
    }

    fn stall(&mut self, place: usize, is_stalled: bool) -> anyhow::Result<()> {
        self.is_stalled = is_stalled;
        self.words[place].write_all_at(&i64::from(is_stalled).to_le_bytes(), 0)?;
        Ok(())
    }
}

impl Party for StallingDisks {
    fn turn(&mut self, node: Option<SocketAddr>, _: bool) -> anyhow::Result<()> {
        if let Some(place) = self.place.take() {
            self.stall(place, false)?;
        }
        self.place = node.and_then(|node| self.nodes.iter().position(|known| *known == node));
        self.next_at = Instant::now();
        Ok(())
    }

    fn step(&mut self) -> anyhow::Result<()> {
        std::thread::sleep(Duration::from_millis(2));
        let Some(place) = self.place.filter(|_| Instant::now() >= self.next_at) else {
            return Ok(());
        };
        self.next_at += PHASE;
        let is_stalled = !self.is_stalled;
        self.stalls += u64::from(is_stalled);
        self.stall(place, is_stalled)
    }

    fn done(&self) -> u64 {
        self.stalls
    }
}
