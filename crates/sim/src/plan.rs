//! What a seed draws: durability, sizes, how busy the clients are, which faults and how often.
//!
//! Each purpose has its own stream of chance, so that one draw more in one place leaves the others
//! as they were.

use weir_io::{DiskErrorKind, Rng, SeededRng};
use weir_types::Durability;

/// How a life of the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Killed: the system and its page cache live on.
    Kill,
    /// The machine loses power.
    PowerLoss,
    /// It is asked to stop and does.
    CleanStop,
}

/// A fault of the disk during one life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// None.
    None,
    /// The command log's n-th sync fails.
    SyncFails(u64),
    /// The command log's n-th write fails.
    WriteFails(u64),
    /// The command log's disk is full from its n-th write on, for so many steps.
    Full(u64, u64),
    /// The event log's disk is full from its n-th write on, for so many steps.
    EventsFull(u64, u64),
    /// One call of whatever kind to one of the disks fails so.
    CallFails(FailingDisk, u64, DiskErrorKind),
}

/// Which of a partition's disks fails a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailingDisk {
    /// The command log's.
    Commands,
    /// The event log's.
    Events,
    /// The snapshots'.
    Snapshots,
}

/// One life of the process.
#[derive(Clone, Copy, Debug)]
pub struct LifePlan {
    /// Steps until it ends.
    pub steps: u64,
    /// How it ends.
    pub ending: Ending,
    /// What the disk does to it.
    pub fault: DiskFault,
    /// In how many of 1,000 steps the disk stands still for some steps.
    pub stall_per_mille: u64,
    /// In how many of 1,000 writes only a part is taken.
    pub short_writes_per_mille: u64,
    /// In how many of 1,000 steps a snapshot is taken.
    pub snapshot_per_mille: u64,
    /// Whether the recovery before it is cut short by another crash first.
    pub recovery_crashes: bool,
}

/// What a seed draws for a whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What a commit promises.
    pub durability: Durability,
    /// The size of segment files in bytes.
    pub segment_bytes: u64,
    /// In how many of 1,000 steps each client sends.
    pub send_per_mille: u64,
    /// Unanswered requests that a client has at most.
    pub window: usize,
    /// In how many of 1,000 steps a client sends an old request again.
    pub again_per_mille: u64,
    /// The longest step in nanoseconds of simulated time.
    pub step_ns_max: u64,
    /// In how many of 1,000 steps the clock steps back.
    pub clock_back_per_mille: u64,
    /// The lives before the last, which has no faults.
    pub lives: Vec<LifePlan>,
}

impl Plan {
    /// The plan of `seed`.
    #[must_use]
    pub fn draw(seed: u64) -> Plan {
        let mut rng = SeededRng::new(seed, "plan");
        let durability = [Durability::Disk, Durability::Disk, Durability::Os, Durability::Memory]
            [rng.below(4) as usize];
        let segment_bytes = [16, 24, 32, 64][rng.below(4) as usize] << 10;
        let lives = 2 + rng.below(4);
        Plan {
            durability,
            segment_bytes,
            send_per_mille: 50 + rng.below(600),
            window: 1 + rng.below(12) as usize,
            again_per_mille: rng.below(60),
            step_ns_max: [2_000, 50_000, 2_000_000, 20_000_000][rng.below(4) as usize],
            clock_back_per_mille: if rng.chance(1, 4) { rng.below(30) } else { 0 },
            lives: (0..lives).map(|_| LifePlan::draw(&mut rng)).collect(),
        }
    }
}

impl LifePlan {
    fn draw(rng: &mut SeededRng) -> LifePlan {
        let steps_max = [60, 400, 900][rng.below(3) as usize];
        let steps = 20 + rng.below(steps_max);
        let ending = match rng.below(10) {
            0..=4 => Ending::PowerLoss,
            5..=8 => Ending::Kill,
            _ => Ending::CleanStop,
        };
        let at = rng.below(steps);
        let fault = match rng.below(12) {
            0 | 1 => DiskFault::SyncFails(at),
            2 => DiskFault::WriteFails(at),
            3 | 4 => DiskFault::Full(at, 10 + rng.below(200)),
            5 => DiskFault::EventsFull(at, 10 + rng.below(200)),
            _ => DiskFault::None,
        };
        LifePlan {
            steps,
            ending,
            fault,
            stall_per_mille: if rng.chance(1, 3) { rng.below(80) } else { 0 },
            short_writes_per_mille: if rng.chance(1, 3) { rng.below(200) } else { 0 },
            snapshot_per_mille: if rng.chance(2, 3) { rng.below(40) } else { 0 },
            recovery_crashes: rng.chance(1, 4),
        }
    }

    /// A life without faults.
    #[must_use]
    pub fn calm() -> LifePlan {
        LifePlan {
            steps: u64::MAX,
            ending: Ending::CleanStop,
            fault: DiskFault::None,
            stall_per_mille: 0,
            short_writes_per_mille: 0,
            snapshot_per_mille: 5,
            recovery_crashes: false,
        }
    }
}
