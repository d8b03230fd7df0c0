//! The disk with its power switch, shared by the threads that serve it and by the test.
//!
//! INVARIANT: once the disk is frozen no operation takes effect before the power is on again, and
//! no operation that began in one life takes effect in another.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::medium::{Ino, Losses, Medium, MediumError, PowerLoss};

/// The kind of an operation, as distinguished by triggers and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Reads, and changes nothing.
    Look,
    /// Writes bytes or sets a length.
    Write,
    /// Syncs a file.
    Sync,
    /// Creates, renames or removes a name.
    Name,
    /// Syncs a directory.
    SyncNames,
}

/// The side of the operation on which the disk freezes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Before it takes effect.
    Before,
    /// After it took effect, before it is acknowledged.
    After,
}

/// The condition on which the disk freezes by itself.
#[derive(Clone, Debug)]
pub struct Trigger {
    /// The kinds of operations that count; empty for all that change something.
    pub acts: Vec<Act>,
    /// A part of the file's name, or of the directory's for changes of names; empty matches all.
    pub name_has: String,
    /// The number of matching operations that pass first.
    pub skip: u64,
    /// The side of the next one on which it freezes.
    pub side: Side,
}

/// Lies of the disk, to test whether they are detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Syncs of files succeed and do nothing.
    pub ignores_syncs: bool,
    /// Syncs of directories succeed and do nothing.
    pub ignores_name_syncs: bool,
}

/// The number of operations done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writes and changed lengths.
    pub writes: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Changed names.
    pub names: u64,
    /// Syncs of directories.
    pub name_syncs: u64,
}

/// The reason why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The power was lost before or during the operation.
    NoPower,
    /// The file system's own answer.
    Medium(MediumError),
}

impl From<MediumError> for Refused {
    fn from(error: MediumError) -> Refused {
        Refused::Medium(error)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    On,
    Frozen,
    Off,
}

struct State {
    medium: Medium,
    power: Power,
    /// The number of power cuts: an operation belongs to the life in which it began.
    life: u64,
    trigger: Option<Trigger>,
    faults: Faults,
    counts: Counts,
    sync_time: Duration,
}

/// A disk that can lose power. Clones are handles on the same one.
#[derive(Clone)]
pub struct PowerDisk {
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl Default for PowerDisk {
    fn default() -> Self {
        PowerDisk::new(Duration::ZERO)
    }
}

impl PowerDisk {
    /// Creates an empty disk, switched on, on which a sync takes at least `sync_time`.
    #[must_use]
    pub fn new(sync_time: Duration) -> PowerDisk {
        let state = State {
            medium: Medium::default(),
            power: Power::On,
            life: 0,
            trigger: None,
            faults: Faults::default(),
            counts: Counts::default(),
            sync_time,
        };
        PowerDisk { shared: Arc::new((Mutex::new(state), Condvar::new())) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the lies that the disk tells from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// The number of operations done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Freezes the disk at a later operation; `None` clears the trigger.
    pub fn arm(&self, trigger: Option<Trigger>) {
        self.state().trigger = trigger;
    }

    /// Freezes the disk now. Operations wait until the power is lost.
    pub fn freeze(&self) {
        self.state().freeze();
        self.shared.1.notify_all();
    }

    /// Waits until a trigger has frozen the disk; false when `timeout` passed first.
    #[must_use]
    pub fn wait_frozen(&self, timeout: Duration) -> bool {
        let waited = self
            .shared
            .1
            .wait_timeout_while(self.state(), timeout, |state| state.power == Power::On);
        waited.unwrap_or_else(PoisonError::into_inner).0.power != Power::On
    }

    /// Loses power: chooses the unsynced changes that survive, and fails every operation, including
    /// the waiting ones, until [`PowerDisk::power_on`].
    pub fn lose_power(&self, loss: PowerLoss) -> Losses {
        let mut state = self.state();
        let (medium, losses) = state.medium.after_power_loss(loss);
        state.medium = medium;
        state.trigger = None;
        state.life += 1;
        state.power = Power::Off;
        drop(state);
        self.shared.1.notify_all();
        losses
    }

    /// Switches the disk on. Its earlier users must be gone.
    pub fn power_on(&self) {
        self.state().power = Power::On;
        self.shared.1.notify_all();
    }

    /// Switches the disk off as it is: every later operation fails.
    pub(crate) fn switch_off(&self) {
        let mut state = self.state();
        state.life += 1;
        state.power = Power::Off;
        drop(state);
        self.shared.1.notify_all();
    }

    /// Counts a close of a file, which is possible in every state.
    pub(crate) fn close(&self, ino: Ino) {
        self.state().medium.close(ino);
    }

    /// Reads the medium.
    pub(crate) fn look<T>(
        &self,
        what: impl FnOnce(&mut Medium) -> Result<T, MediumError>,
    ) -> Result<T, Refused> {
        let life = self.state().life;
        let mut state = self.enter(life)?;
        Ok(what(&mut state.medium)?)
    }

    /// Changes the medium; `about` is the file, or the directory whose names change.
    pub(crate) fn change<T>(
        &self,
        act: Act,
        about: Ino,
        effect: impl FnOnce(&mut Medium) -> Result<T, MediumError>,
    ) -> Result<T, Refused> {
        let life = self.state().life;
        self.change_in(life, act, about, effect)
    }

    fn change_in<T>(
        &self,
        life: u64,
        act: Act,
        about: Ino,
        effect: impl FnOnce(&mut Medium) -> Result<T, MediumError>,
    ) -> Result<T, Refused> {
        let mut state = self.enter(life)?;
        let fires = state.fires(act, about);
        if fires == Some(Side::Before) {
            state.freeze();
            self.shared.1.notify_all();
            drop(state);
            state = self.enter(life)?;
        }
        let done = effect(&mut state.medium)?;
        state.counts.note(act);
        if fires == Some(Side::After) {
            state.freeze();
            self.shared.1.notify_all();
            drop(state);
            // The power returns only in another life: the operation is never acknowledged.
            drop(self.enter(life)?);
        }
        Ok(done)
    }

    /// Syncs a file or a directory's names: changes from before its start are durable at its end.
    pub(crate) fn sync(&self, act: Act, ino: Ino) -> Result<(), Refused> {
        let (life, until, sync_time) = {
            let state = self.state();
            (state.life, state.medium.moment(), state.sync_time)
        };
        // A sync takes time, in which other operations proceed.
        if !sync_time.is_zero() {
            std::thread::sleep(sync_time);
        }
        let faults = self.state().faults;
        let is_ignored = match act {
            Act::SyncNames => faults.ignores_name_syncs,
            _ => faults.ignores_syncs,
        };
        self.change_in(
            life,
            act,
            ino,
            |medium| {
                if is_ignored { Ok(()) } else { medium.sync(ino, until) }
            },
        )
    }

    /// Waits while the disk is frozen, and admits operations of this life only.
    fn enter(&self, life: u64) -> Result<MutexGuard<'_, State>, Refused> {
        let frozen = |state: &mut State| state.power == Power::Frozen && state.life == life;
        let state = self.shared.1.wait_while(self.state(), frozen);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        if state.power == Power::On && state.life == life {
            Ok(state)
        } else {
            Err(Refused::NoPower)
        }
    }
}

impl State {
    fn freeze(&mut self) {
        self.trigger = None;
        if self.power == Power::On {
            self.power = Power::Frozen;
        }
    }

    /// Returns the side on which the disk freezes at this operation, if it does.
    fn fires(&mut self, act: Act, about: Ino) -> Option<Side> {
        let trigger = self.trigger.as_mut()?;
        let fits =
            if trigger.acts.is_empty() { act != Act::Look } else { trigger.acts.contains(&act) };
        if !fits || !self.medium.name_of(about).contains(&trigger.name_has) {
            return None;
        }
        if trigger.skip > 0 {
            trigger.skip -= 1;
            return None;
        }
        Some(trigger.side)
    }
}

impl Counts {
    fn note(&mut self, act: Act) {
        match act {
            Act::Look => {}
            Act::Write => self.writes += 1,
            Act::Sync => self.syncs += 1,
            Act::Name => self.names += 1,
            Act::SyncNames => self.name_syncs += 1,
        }
    }
}
