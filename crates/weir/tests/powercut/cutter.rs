//! Where a node's power is cut: a plan drawn by chance, and the thread that carries it out.

use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use weir_client::load::Rng;
use weir_powercut::{Act, Losses, PowerDisk, PowerLoss, Side, Trigger};

/// The longest life under load, in milliseconds: then the power goes whatever is done.
const LIFE_MAX_MS: u64 = 400;
/// How long a machine whose disk is gone may go on, in microseconds: what it should not
/// acknowledge, it has time to.
const AGONY_MAX_US: u64 = 4000;

/// What the cut is aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aim {
    /// Any change of the disk, under load.
    Load,
    /// The sync of a command log's or an event log's file.
    Sync,
    /// The change to a log's next segment: spare file, rename, directory.
    Roll,
    /// A snapshot: its file, its name, the removal of an older one.
    Snapshot,
    /// What a start does to the disk.
    Recovery,
    /// No power cut: the process alone is killed.
    KillOnly,
}

impl Aim {
    pub const ALL: [Aim; 6] =
        [Aim::Load, Aim::Sync, Aim::Roll, Aim::Snapshot, Aim::Recovery, Aim::KillOnly];

    /// An aim of a life under load.
    pub fn draw(rng: &mut Rng) -> Aim {
        let drawn = [
            Aim::Load,
            Aim::Load,
            Aim::Sync,
            Aim::Sync,
            Aim::Roll,
            Aim::Roll,
            Aim::Snapshot,
            Aim::Snapshot,
            Aim::KillOnly,
            Aim::KillOnly,
        ];
        drawn[rng.below(drawn.len() as u64) as usize]
    }

    fn trigger(self, rng: &mut Rng) -> Option<Trigger> {
        let names = vec![Act::Name, Act::SyncNames];
        let of =
            |acts: Vec<Act>, name_has: &str, skip_max: u64| (acts, name_has.to_owned(), skip_max);
        let (acts, name_has, skip_max) = match (self, rng.below(3)) {
            (Aim::KillOnly, _) => return None,
            (Aim::Load, _) => of(Vec::new(), "", 800),
            (Aim::Sync, _) => of(vec![Act::Sync], ".w", 200),
            (Aim::Roll, 0) => of(Vec::new(), "spare", 300),
            (Aim::Roll, 1) => of(names, "commands", 6),
            (Aim::Roll, _) => of(names, "events", 6),
            (Aim::Snapshot, 0) => of(Vec::new(), "snapshot.part", 8),
            (Aim::Snapshot, _) => of(names, "snapshots", 6),
            (Aim::Recovery, _) => of(Vec::new(), "", 24),
        };
        let side = if rng.below(2) == 0 { Side::Before } else { Side::After };
        Some(Trigger { acts, name_has, skip: rng.below(skip_max), side })
    }
}

/// What a cut came to.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    pub aim: Aim,
    /// Whether it hit what it was aimed at, and not just some moment.
    pub has_hit: bool,
    pub losses: Losses,
}

/// Starts to aim at a process on the disk. When the thread ends, the process is as good as dead,
/// and the disk is off unless the process alone was killed.
pub fn aim_at(pid: Pid, disk: &PowerDisk, aim: Aim, rng: &mut Rng) -> JoinHandle<Cut> {
    let disk = disk.clone();
    let trigger = aim.trigger(rng);
    let loss = match rng.below(8) {
        0 => PowerLoss::LoseAll,
        1 => PowerLoss::KeepAll,
        _ => PowerLoss::Random(rng.below(u64::MAX)),
    };
    let limit = Duration::from_micros(rng.below(LIFE_MAX_MS * 1000));
    // Rare moments are worth waiting for.
    let limit = if aim == Aim::Load { limit } else { limit * 4 };
    let agony = Duration::from_micros(rng.below(AGONY_MAX_US));
    if let Some(trigger) = trigger {
        disk.arm(Some(trigger));
    }
    std::thread::spawn(move || {
        if aim == Aim::KillOnly {
            std::thread::sleep(limit / 4);
            kill(pid);
            return Cut { aim, has_hit: true, losses: Losses::default() };
        }
        let has_hit = disk.wait_frozen(limit);
        disk.freeze();
        std::thread::sleep(agony);
        kill(pid);
        // What waits in the kernel for the disk lets the process go only now.
        let losses = disk.lose_power(loss);
        Cut { aim, has_hit, losses }
    })
}

fn kill(pid: Pid) {
    // The process is a child that nobody has waited for: its number is its own.
    kill_process(pid, Signal::KILL).expect("the node is there to be killed");
}
