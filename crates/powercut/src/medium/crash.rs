//! Power loss: the durable image and a chosen subset of the unsynced changes.

use std::collections::BTreeMap;

use weir_io::{Rng, SeededRng};

use super::{
    Body, Change, Dir, File, Ino, Inode, Medium, Names, apply, apply_name, index, write_bytes,
};

/// The unit that a power loss keeps or loses as a whole, in bytes.
pub const SECTOR: usize = 512;

/// The unsynced changes that survive a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerLoss {
    /// None.
    LoseAll,
    /// All.
    KeepAll,
    /// A subset of changes, and of the sectors of each write, drawn from this seed.
    Random(u64),
}

/// The effects of a power loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Unsynced writes.
    pub writes: u64,
    /// Of these, writes lost as a whole.
    pub writes_lost: u64,
    /// Of these, writes with some sectors kept and some lost.
    pub writes_torn: u64,
    /// Unsynced changes of a length.
    pub lengths: u64,
    /// Of these, the lost ones.
    pub lengths_lost: u64,
    /// Unsynced changes of names.
    pub names: u64,
    /// Of these, the lost ones.
    pub names_lost: u64,
}

impl Losses {
    /// Adds the effects of another power loss.
    pub fn add(&mut self, other: Losses) {
        self.writes += other.writes;
        self.writes_lost += other.writes_lost;
        self.writes_torn += other.writes_torn;
        self.lengths += other.lengths;
        self.lengths_lost += other.lengths_lost;
        self.names += other.names;
        self.names_lost += other.names_lost;
    }
}

/// Decides on each change.
struct Chooser {
    loss: PowerLoss,
    rng: SeededRng,
    losses: Losses,
}

impl Medium {
    /// Returns the medium after a power loss now: without pending changes, with new file numbers.
    #[must_use]
    pub fn after_power_loss(&self, loss: PowerLoss) -> (Medium, Losses) {
        let seed = if let PowerLoss::Random(seed) = loss { seed } else { 0 };
        let rng = SeededRng::new(seed, "power loss");
        let mut chooser = Chooser { loss, rng, losses: Losses::default() };
        // Every change is decided on, even in files that lose their names by it.
        let bodies: BTreeMap<Ino, Body> =
            self.inodes.iter().map(|(ino, inode)| (*ino, chooser.survive(&inode.body))).collect();
        let mut after = Medium { inodes: BTreeMap::new(), next_ino: self.next_ino, now: self.now };
        after.adopt(self, &bodies, Ino::ROOT, Ino::ROOT);
        (after, chooser.losses)
    }

    /// Copies `old` and everything below it as `new`, with new numbers.
    fn adopt(&mut self, before: &Medium, bodies: &BTreeMap<Ino, Body>, old: Ino, new: Ino) {
        let body = match &bodies[&old] {
            Body::File(file) => Body::File(file.clone()),
            Body::Dir(dir) => {
                let mut names = Names::new();
                for (name, ino) in &dir.durable {
                    let fresh = Ino(self.next_ino);
                    self.next_ino += 1;
                    names.insert(name.clone(), fresh);
                    self.adopt(before, bodies, *ino, fresh);
                    self.inode_mut(fresh).expect("just adopted").name.clone_from(name);
                }
                Body::Dir(Dir { live: names.clone(), durable: names, pending: Vec::new() })
            }
        };
        let Inode { name, mode, .. } = &before.inodes[&old];
        self.inodes.insert(new, Inode { name: name.clone(), mode: *mode, opened: 0, body });
    }
}

impl Chooser {
    fn survive(&mut self, body: &Body) -> Body {
        match body {
            Body::File(file) => {
                let mut bytes = file.durable.clone();
                for pending in &file.pending {
                    self.keep_bytes(&mut bytes, &pending.change);
                }
                Body::File(File { live: bytes.clone(), durable: bytes, pending: Vec::new() })
            }
            Body::Dir(dir) => {
                let mut names = dir.durable.clone();
                for pending in &dir.pending {
                    self.losses.names += 1;
                    if self.keeps_one() {
                        apply_name(&mut names, &pending.change);
                    } else {
                        self.losses.names_lost += 1;
                    }
                }
                Body::Dir(Dir { live: names.clone(), durable: names, pending: Vec::new() })
            }
        }
    }

    fn keeps_one(&mut self) -> bool {
        match self.loss {
            PowerLoss::LoseAll => false,
            PowerLoss::KeepAll => true,
            PowerLoss::Random(_) => self.rng.chance(1, 2),
        }
    }

    fn keep_bytes(&mut self, file: &mut Vec<u8>, change: &Change) {
        let Change::Write { offset, bytes } = change else {
            self.losses.lengths += 1;
            if self.keeps_one() {
                apply(file, change);
            } else {
                self.losses.lengths_lost += 1;
            }
            return;
        };
        // Whole writes survive or are lost more often than a fair coin per sector would give.
        let quarters = match self.loss {
            PowerLoss::LoseAll => 0,
            PowerLoss::KeepAll => 4,
            PowerLoss::Random(_) => [0, 1, 2, 3, 4][index(self.rng.below(5))],
        };
        let (mut kept, mut lost) = (0_u64, 0_u64);
        let mut at = 0;
        while at < bytes.len() {
            let start = index(*offset) + at;
            let end = bytes.len().min((start / SECTOR + 1) * SECTOR - index(*offset));
            if self.rng.chance(quarters, 4) {
                write_bytes(file, start as u64, &bytes[at..end]);
                kept += 1;
            } else {
                lost += 1;
            }
            at = end;
        }
        self.losses.writes += 1;
        self.losses.writes_lost += u64::from(kept == 0);
        self.losses.writes_torn += u64::from(kept > 0 && lost > 0);
    }
}
