//! Power cuts: a randomly drawn plan, and the thread that carries it out.

use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use weir_client::load::Rng;
use weir_powercut::{Act, Losses, PowerDisk, PowerLoss, Side, Trigger};

/// The longest life under load, in milliseconds: then the power fails in any case.
const LIFE_MAX_MS: u64 = 400;
/// The longest time that a node runs on without its disk, in microseconds: it gives the node time
/// for acknowledgements that it must not send.
const AGONY_MAX_US: u64 = 4000;

/// The operation at which the power fails.
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
    /// The disk operations of a start.
    Recovery,
    /// No power cut: the process alone is killed.
    KillOnly,
}

impl Aim {
    pub const ALL: [Aim; 6] =
        [Aim::Load, Aim::Sync, Aim::Roll, Aim::Snapshot, Aim::Recovery, Aim::KillOnly];

    /// Draws an aim for a life under load.
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

/// The outcome of a cut.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    pub aim: Aim,
    /// True if the cut hit its aim rather than an arbitrary moment.
    pub has_hit: bool,
    pub losses: Losses,
}

/// Arms a cut of a process on the disk. When the thread ends, the process has been killed, and the
/// disk is off unless the process alone was killed.
pub fn aim_at(pid: Pid, disk: &PowerDisk, aim: Aim, rng: &mut Rng) -> JoinHandle<Cut> {
    let disk = disk.clone();
    let trigger = aim.trigger(rng);
    let loss = match rng.below(8) {
        0 => PowerLoss::LoseAll,
        1 => PowerLoss::KeepAll,
        _ => PowerLoss::Random(rng.below(u64::MAX)),
    };
    let limit = Duration::from_micros(rng.below(LIFE_MAX_MS * 1000));
    // A rare operation gets more time to occur.
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
        // Requests that wait in the kernel for the disk release the process only now.
        let losses = disk.lose_power(loss);
        Cut { aim, has_hit, losses }
    })
}

fn kill(pid: Pid) {
    // The process is a child that has not been reaped, so its id cannot belong to another process.
    kill_process(pid, Signal::KILL).expect("the node is there to be killed");
}
