//! The plan of a seed: durability, sizes, the clients' load, the kinds and rates of faults.
//!
//! Each purpose has a random stream of its own, so that an additional draw in one place leaves the
//! others unchanged.

use weir_io::{DiskErrorKind, Rng, SeededRng};
use weir_partition::retention::RetentionLimits;
use weir_types::{Durability, Nanos};

/// The size of the event log's segment files in bytes, without a gateway.
pub const EVENT_SEGMENT_BYTES: u64 = 128 << 10;

/// The lives of a day, about.
const DAY_LIVES: u64 = 24;
/// The samples of a day.
const DAY_SAMPLES: u64 = 288;
/// The longest step of a day: half a heartbeat interval of a client has several.
const DAY_STEP_MAX: u64 = 50_000_000;

/// The end of a life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Killed: the system and its page cache survive.
    Kill,
    /// The machine loses power.
    PowerLoss,
    /// The process is asked to stop and does.
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
    /// The command log's disk is full from its n-th write on, for a number of steps.
    Full(u64, u64),
    /// The event log's disk is full from its n-th write on, for a number of steps.
    EventsFull(u64, u64),
    /// The n-th call of any kind to one of the disks fails with this error.
    CallFails(FailingDisk, u64, DiskErrorKind),
}

/// The disk whose call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailingDisk {
    /// The command log's disk.
    Commands,
    /// The event log's disk.
    Events,
    /// The snapshots' disk.
    Snapshots,
}

/// One life of the process.
#[derive(Clone, Copy, Debug)]
pub struct LifePlan {
    /// The number of steps until it ends.
    pub steps: u64,
    /// Its end.
    pub ending: Ending,
    /// Its disk fault.
    pub fault: DiskFault,
    /// The number of steps in 1,000 at which the disk stalls for some steps.
    pub stall_per_mille: u64,
    /// The number of writes in 1,000 that are short.
    pub short_writes_per_mille: u64,
    /// The number of steps in 1,000 at which a snapshot is taken.
    pub snapshot_per_mille: u64,
    /// True: the recovery before this life is first interrupted by another crash.
    pub recovery_crashes: bool,
}

/// The properties of a run that lasts for hours.
#[derive(Clone, Copy, Debug)]
pub struct DayPlan {
    /// The simulated time until the last life begins.
    pub time: Nanos,
    /// The time between two samples of all that must not grow.
    pub sample_every: Nanos,
    /// The factor by which chances in a step are smaller than in a short run.
    pub rarity: u64,
}

/// The plan of a whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The durability level of commits.
    pub durability: Durability,
    /// The size of segment files in bytes.
    pub segment_bytes: u64,
    /// The number of steps in 1,000 at which each client sends.
    pub send_per_mille: u64,
    /// The most unanswered requests of a client.
    pub window: usize,
    /// The number of steps in 1,000 at which a client sends an old request again.
    pub again_per_mille: u64,
    /// The longest step in nanoseconds of simulated time.
    pub step_ns_max: u64,
    /// The number of steps in 1,000 at which the wall clock is set.
    pub clock_steps_per_mille: u64,
    /// The words of a segment of the event tail. In a small tail readers fall behind what it holds.
    pub tail_segment_words: usize,
    /// The most entries of the command log that may wait for their commit.
    pub log_queue_len_max: u64,
    /// The size of the event log's segment files in bytes.
    pub event_segment_bytes: u64,
    /// The limits of both logs.
    pub limits: RetentionLimits,
    /// True if each life sets other limits of the engine than the one before.
    pub sets_limits: bool,
    /// True if lives have spells in which the machine withholds something.
    pub has_weather: bool,
    /// `None` for a short run.
    pub day: Option<DayPlan>,
    /// The lives before the last, which has no faults.
    pub lives: Vec<LifePlan>,
}

impl Plan {
    /// Draws the plan of `seed`.
    #[must_use]
    pub fn draw(seed: u64) -> Plan {
        let mut rng = SeededRng::new(seed, "plan");
        let durability = [Durability::Disk, Durability::Disk, Durability::Os, Durability::Memory]
            [rng.below(4) as usize];
        let segment_bytes = [16, 24, 32, 64][rng.below(4) as usize] << 10;
        let lives = 2 + rng.below(4);
        let mut tail_rng = SeededRng::new(seed, "plan of the tail");
        let mut weather_rng = SeededRng::new(seed, "plan of the weather");
        Plan {
            durability,
            segment_bytes,
            send_per_mille: 50 + rng.below(600),
            window: 1 + rng.below(12) as usize,
            again_per_mille: rng.below(60),
            step_ns_max: [2_000, 50_000, 2_000_000, 20_000_000][rng.below(4) as usize],
            clock_steps_per_mille: if rng.chance(1, 4) { rng.below(30) } else { 0 },
            log_queue_len_max: [u64::MAX, u64::MAX, 8, 40][weather_rng.below(4) as usize],
            has_weather: weather_rng.chance(3, 4),
            day: None,
            event_segment_bytes: EVENT_SEGMENT_BYTES,
            limits: draw_limits(seed, segment_bytes),
            sets_limits: SeededRng::new(seed, "plan of the engine's limits").chance(1, 3),
            tail_segment_words: [16 << 10, 32 << 10, 128 << 10][tail_rng.below(3) as usize],
            lives: (0..lives).map(|_| LifePlan::draw(&mut rng)).collect(),
        }
    }

    /// Draws the plan of a run of `seed` that lasts for `time`, with two dozen ends of processes.
    /// Its stores are small, so that they fill up to their limits within the first lives.
    #[must_use]
    pub fn day(time: Nanos, seed: u64) -> Plan {
        let mut rng = SeededRng::new(seed, "plan of a day");
        let life_steps = time.0 / DAY_LIVES / (DAY_STEP_MAX / 2);
        let event_segment_bytes = [8, 16, 32][rng.below(3) as usize] << 10;
        let segment_bytes = [16, 24, 32][rng.below(3) as usize] << 10;
        let limits = RetentionLimits {
            command_bytes: Some(segment_bytes * (2 + rng.below(4))),
            event_bytes: Some(event_segment_bytes * (2 + rng.below(4))),
            age: None,
        };
        // Lives that a fault of the disk ends are short: there are more than the time takes.
        let lives = (0..4 * DAY_LIVES).map(|_| LifePlan::draw_long(&mut rng, life_steps));
        let lives = lives.collect();
        let rarity = 10;
        let day = DayPlan { time, sample_every: Nanos(time.0 / DAY_SAMPLES), rarity };
        Plan {
            segment_bytes,
            event_segment_bytes,
            limits,
            send_per_mille: 80 + rng.below(80),
            window: 1 + rng.below(6) as usize,
            step_ns_max: DAY_STEP_MAX,
            clock_steps_per_mille: 1,
            has_weather: true,
            day: Some(day),
            lives,
            ..Plan::draw(seed)
        }
    }

    /// The factor by which chances in a step are smaller than in a short run.
    #[must_use]
    pub fn rarity(&self) -> u64 {
        self.day.map_or(1, |day| day.rarity)
    }

    /// Shortens the event log of a run with the gateway, if it has limits, so that clients that are
    /// away for a while find it truncated.
    pub fn shorten_events(&mut self, seed: u64) {
        if self.limits.is_unlimited() {
            return;
        }
        let mut rng = SeededRng::new(seed, "plan of the retention in front of a gateway");
        self.event_segment_bytes = [8, 8, 16, 32][rng.below(4) as usize] << 10;
        self.limits.event_bytes = Some(self.event_segment_bytes * (1 + rng.below(3)));
    }
}

impl Plan {
    /// Lets one run with the gateway in three lose much and often: behind an epoch that ended,
    /// whole sessions and the events of checkpoints are past the retention, or lost, only where
    /// short logs, many snapshots and many losses of power come together.
    pub fn lose_often(&mut self, seed: u64) {
        let mut rng = SeededRng::new(seed, "plan of frequent losses");
        if !rng.chance(1, 3) {
            return;
        }
        self.durability = [Durability::Os, Durability::Memory][rng.below(2) as usize];
        (self.segment_bytes, self.event_segment_bytes) = (16 << 10, 8 << 10);
        self.limits = RetentionLimits {
            command_bytes: Some(self.segment_bytes),
            event_bytes: Some(self.event_segment_bytes * (1 + rng.below(2))),
            age: None,
        };
        self.lives = (0..4 + rng.below(5)).map(|_| LifePlan::draw_losing(&mut rng)).collect();
    }
}

/// Draws the limits of both logs: in one half of the runs some segments each.
fn draw_limits(seed: u64, segment_bytes: u64) -> RetentionLimits {
    let mut rng = SeededRng::new(seed, "plan of the retention");
    if rng.chance(1, 2) {
        return RetentionLimits::default();
    }
    RetentionLimits {
        command_bytes: Some(segment_bytes * (1 + rng.below(4))),
        event_bytes: Some(EVENT_SEGMENT_BYTES * (1 + rng.below(2))),
        age: None,
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

    /// Draws a life with many snapshots and mostly a loss of power at its end.
    fn draw_losing(rng: &mut SeededRng) -> LifePlan {
        let life = LifePlan::draw(rng);
        LifePlan {
            steps: 60 + rng.below(400),
            ending: if rng.chance(3, 4) { Ending::PowerLoss } else { life.ending },
            fault: DiskFault::None,
            snapshot_per_mille: 20 + rng.below(60),
            ..life
        }
    }

    /// Draws a life of a day, of about so many steps.
    fn draw_long(rng: &mut SeededRng, steps: u64) -> LifePlan {
        let steps = steps / 2 + rng.below(steps) + 1;
        let ending = match rng.below(10) {
            0..=3 => Ending::PowerLoss,
            4..=7 => Ending::Kill,
            _ => Ending::CleanStop,
        };
        // A call to a disk in most of the steps: the faults fall anywhere in the life.
        let at = rng.below(steps);
        let fault = match rng.below(16) {
            0 => DiskFault::SyncFails(at / 2),
            1 => DiskFault::WriteFails(at / 2),
            2 => DiskFault::Full(at / 2, 10 + rng.below(400)),
            3 => DiskFault::EventsFull(at / 2, 10 + rng.below(400)),
            _ => DiskFault::None,
        };
        LifePlan {
            steps,
            ending,
            fault,
            stall_per_mille: if rng.chance(1, 3) { 1 } else { 0 },
            short_writes_per_mille: if rng.chance(1, 3) { rng.below(200) } else { 0 },
            snapshot_per_mille: 2,
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
