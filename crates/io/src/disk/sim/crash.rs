//! Power loss: the durable image plus a chosen part of the unsynced changes.

use std::sync::Arc;

use super::SimDisk;
use super::image::{Image, Inode, PendingChange, PendingWrite, SECTOR, change_names, write_bytes};
use crate::rng::{Rng, SeededRng};

/// The unsynced changes that survive a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashChoice {
    /// None.
    LoseAll,
    /// All.
    KeepAll,
    /// All except the one with this index.
    LoseOne(usize),
    /// All before the write with this index, and the first `sectors` sectors of that write.
    TearAt {
        /// The torn write's index among the unsynced changes.
        index: usize,
        /// The number of its sectors that are kept.
        sectors: usize,
    },
    /// A subset of the changes, and of the sectors of each write, drawn from this seed.
    Random(u64),
}

impl SimDisk {
    /// Returns all choices except the random ones: lose all, keep all, lose each single change,
    /// tear each write at each sector boundary.
    #[must_use]
    pub fn crash_choices(&self) -> Vec<CrashChoice> {
        let state = self.state();
        let pending = &state.image.pending;
        let mut choices = vec![CrashChoice::LoseAll];
        if pending.is_empty() {
            return choices;
        }
        choices.push(CrashChoice::KeepAll);
        for (index, change) in pending.iter().enumerate() {
            if pending.len() > 1 {
                choices.push(CrashChoice::LoseOne(index));
            }
            if let PendingChange::Write(write) = change {
                let tears = (1..sector_count(write)).map(|sectors| (index, sectors));
                choices
                    .extend(tears.map(|(index, sectors)| CrashChoice::TearAt { index, sectors }));
            }
        }
        choices
    }

    /// Returns the disk as found after a power loss now: a new boot, nothing unsynced.
    #[must_use]
    pub fn after_power_loss(&self, choice: CrashChoice) -> SimDisk {
        let state = self.state();
        SimDisk::from_image(state.image.survive(choice), 0, state.boot + 1)
    }
}

/// Returns the number of disk sectors that a write touches.
fn sector_count(write: &PendingWrite) -> usize {
    let start = usize::try_from(write.offset).expect("a simulated file fits in memory");
    (start + write.bytes.len()).div_ceil(SECTOR) - start / SECTOR
}

/// Applies the sectors of `write` for which `keep` returns true.
fn write_sectors(file: &mut Arc<Vec<u8>>, write: &PendingWrite, mut keep: impl FnMut() -> bool) {
    let start = usize::try_from(write.offset).expect("a simulated file fits in memory");
    let mut at = 0;
    while at < write.bytes.len() {
        let border = ((start + at) / SECTOR + 1) * SECTOR - start;
        let end = border.min(write.bytes.len());
        if keep() {
            write_bytes(file, (start + at) as u64, &write.bytes[at..end]);
        }
        at = end;
    }
}

impl Image {
    fn survive(&self, choice: CrashChoice) -> Image {
        let mut image = Image {
            inodes: self.inodes.clone(),
            live: self.durable.clone(),
            durable: self.durable.clone(),
            pending: Vec::new(),
        };
        let mut rng = match choice {
            CrashChoice::Random(seed) => Some(SeededRng::new(seed, "crash")),
            _ => None,
        };
        for (index, change) in self.pending.iter().enumerate() {
            let keep_sectors = match choice {
                CrashChoice::LoseAll => 0,
                CrashChoice::KeepAll => usize::MAX,
                CrashChoice::LoseOne(lost) => {
                    if lost == index {
                        0
                    } else {
                        usize::MAX
                    }
                }
                CrashChoice::TearAt { index: torn, sectors } => match index.cmp(&torn) {
                    std::cmp::Ordering::Less => usize::MAX,
                    std::cmp::Ordering::Equal => sectors,
                    std::cmp::Ordering::Greater => 0,
                },
                CrashChoice::Random(_) => usize::MAX,
            };
            image.keep(change, keep_sectors, rng.as_mut());
        }
        for inode in &mut image.inodes {
            inode.live = inode.durable.clone();
        }
        image
    }

    fn keep(&mut self, change: &PendingChange, sectors: usize, rng: Option<&mut SeededRng>) {
        match (change, rng) {
            (PendingChange::Write(write), None) => {
                let mut left = sectors;
                let file = &mut self.inodes[write.ino].durable;
                write_sectors(file, write, || {
                    let keep = left > 0;
                    left = left.saturating_sub(1);
                    keep
                });
            }
            (PendingChange::Write(write), Some(rng)) => {
                // Draws that keep all or none of a write are more frequent than a fair coin per
                // sector would give.
                let parts = [0, 1, 2, 4, 4][rng.below(5) as usize];
                let Inode { durable, .. } = &mut self.inodes[write.ino];
                write_sectors(durable, write, || rng.chance(parts, 4));
            }
            (PendingChange::Dir(change), None) if sectors > 0 => {
                change_names(&mut self.live, change);
                change_names(&mut self.durable, change);
            }
            (PendingChange::Dir(_), None) => {}
            (PendingChange::Dir(change), Some(rng)) => {
                if rng.chance(1, 2) {
                    change_names(&mut self.live, change);
                    change_names(&mut self.durable, change);
                }
            }
        }
    }
}
