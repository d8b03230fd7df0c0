//! Spells in which the machine withholds something from the process: descriptors, room on its
//! disks, or the progress of writes and syncs.
//!
//! A spell begins at a step of a life and lasts for a time; both are the seed's. While one lasts,
//! and for a while after it, steps are longer where the run's own are short, so that seconds pass
//! within a few hundred of them. The process of the last life has spells too, and no other trouble:
//! its promises for them are judged there most strictly.

use weir_io::descriptors::DescriptorRoom;
use weir_io::disk::sim::{Room, Shortage};
use weir_io::net::sim::SimDescriptors;
use weir_io::{Rng, SeededRng};
use weir_types::Nanos;

const MS: u64 = 1_000_000;
/// Middle durations of spells.
const DURATIONS: [u64; 5] = [3 * MS, 30 * MS, 300 * MS, 3_000 * MS, 15_000 * MS];
/// A stall within which a silent session is lost.
const LONG_STALL: Nanos = Nanos(1_500 * MS);
/// The number of the longest steps that make up a spell.
const STEPS_OF_A_SPELL: u64 = 64;
/// The longest step: no thread rests longer.
const STEP_MAX: u64 = 100 * MS;
/// The longest step after a spell.
const STEP_AFTER: u64 = 10 * MS;
/// The time after the last spell at which everything must go on as if there had been none.
const SETTLED_AFTER: Nanos = Nanos(1_000 * MS);
/// The steps after it for the same.
const SETTLED_STEPS: u64 = 150;
/// The steps of a life for which it has as many spells again.
const STEPS_OF_MORE_SPELLS: u64 = 20_000;
/// The steps of the last life within which its spells begin.
const LAST_LIFE_STEPS: u64 = 200;

/// The matter of a spell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The process has these descriptors.
    Descriptors(SimDescriptors),
    /// Writes and syncs make no progress.
    Stall(Extent),
    /// The disks have this room.
    Full(Room, Extent),
}

/// The disks of a spell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// That of the command log.
    Commands,
    /// Those of the event log and the snapshots.
    Events,
    /// All.
    All,
}

impl Extent {
    fn has_commands(self) -> bool {
        self != Extent::Events
    }

    fn has_events(self) -> bool {
        self != Extent::Commands
    }
}

/// A spell.
#[derive(Clone, Copy, Debug)]
pub struct Spell {
    /// Its matter.
    pub trouble: Trouble,
    /// The step of the life at which it begins.
    pub begins_at: u64,
    /// Its duration.
    pub lasts: Nanos,
}

impl Spell {
    fn draw(rng: &mut SeededRng, steps: u64) -> Spell {
        let index = |rng: &mut SeededRng, len: u64| usize::try_from(rng.below(len)).expect("few");
        let extent = [Extent::Commands, Extent::Events, Extent::All, Extent::All][index(rng, 4)];
        let room = [Room::ForOldBytes, Room::None][index(rng, 2)];
        let short = [DescriptorRoom::Short, DescriptorRoom::None][index(rng, 2)];
        let trouble = match rng.below(9) {
            0..=2 => Trouble::Descriptors(SimDescriptors::Exhausted),
            3 => Trouble::Descriptors(SimDescriptors::Free(short)),
            4..=6 => Trouble::Stall(extent),
            _ => Trouble::Full(room, extent),
        };
        let middle = DURATIONS[index(rng, DURATIONS.len() as u64)];
        let lasts = Nanos(middle / 2 + rng.below(middle / 2 * 3));
        Spell { trouble, begins_at: rng.below(steps), lasts }
    }

    fn step_max(&self) -> u64 {
        (self.lasts.0 / STEPS_OF_A_SPELL).min(STEP_MAX)
    }

    /// Returns true if requests wait for as long as a session may be silent.
    fn holds_requests_up(&self) -> bool {
        let stalls = matches!(self.trouble, Trouble::Stall(extent) if extent.has_commands());
        stalls && self.lasts >= LONG_STALL
    }

    /// Returns true if the command log finds no room, or no descriptor, for its next file.
    fn keeps_from_next_file(&self) -> bool {
        match self.trouble {
            Trouble::Descriptors(descriptors) => descriptors == SimDescriptors::Exhausted,
            Trouble::Full(_, extent) => extent.has_commands(),
            Trouble::Stall(_) => false,
        }
    }
}

/// The conditions of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// The descriptors of the process.
    pub descriptors: SimDescriptors,
    /// True while the command log's disk makes no progress.
    pub stalls_commands: bool,
    /// True while the other disks make none.
    pub stalls_events: bool,
    /// The room of the command log's disk.
    pub room_for_commands: Room,
    /// The room of the others.
    pub room_for_events: Room,
}

impl Conditions {
    /// Nothing is withheld.
    pub const FAIR: Conditions = Conditions {
        descriptors: SimDescriptors::Free(DescriptorRoom::Plenty),
        stalls_commands: false,
        stalls_events: false,
        room_for_commands: Room::Plenty,
        room_for_events: Room::Plenty,
    };

    fn and(mut self, trouble: Trouble) -> Conditions {
        match trouble {
            Trouble::Descriptors(descriptors) => {
                if self.descriptors != SimDescriptors::Exhausted {
                    self.descriptors = descriptors;
                }
            }
            Trouble::Stall(extent) => {
                self.stalls_commands |= extent.has_commands();
                self.stalls_events |= extent.has_events();
            }
            Trouble::Full(room, extent) => {
                if extent.has_commands() {
                    self.room_for_commands = room;
                }
                if extent.has_events() {
                    self.room_for_events = room;
                }
            }
        }
        self
    }

    fn shortage_of(&self, room: Room) -> Shortage {
        let lacks_descriptors = self.descriptors == SimDescriptors::Exhausted;
        Shortage { room, lacks_descriptors }
    }

    /// The shortage of the command log's disk.
    #[must_use]
    pub fn of_commands(&self) -> Shortage {
        self.shortage_of(self.room_for_commands)
    }

    /// The shortage of the others.
    #[must_use]
    pub fn of_events(&self) -> Shortage {
        self.shortage_of(self.room_for_events)
    }
}

/// The properties of a life's spells that its settings depend on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forecast {
    /// The longest step.
    pub step_ns_max: u64,
    /// True if the door turns connections without a session away for want of descriptors.
    pub turns_away: bool,
    /// True if requests wait for a stalled disk for as long as a session may be silent.
    pub holds_requests_up: bool,
}

/// The number of spells of each kind that began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpellCounts {
    /// Those without, or with few, descriptors.
    pub descriptors: u64,
    /// Those of stalled disks.
    pub stalls: u64,
    /// Those of full disks.
    pub full: u64,
}

impl SpellCounts {
    /// Adds other counts.
    pub fn add(&mut self, other: &SpellCounts) {
        self.descriptors += other.descriptors;
        self.stalls += other.stalls;
        self.full += other.full;
    }
}

/// The spells of a life.
#[derive(Clone, Debug, Default)]
pub struct Weather {
    /// Those that have not begun.
    coming: Vec<Spell>,
    /// Those that last, with their numbers and ends.
    lasting: Vec<(u64, Spell, Nanos)>,
    begun_count: u64,
    /// The time and the step at which the last one ended; `None` before the first.
    ended: Option<(Nanos, u64)>,
    now: Nanos,
    step: u64,
}

impl Weather {
    /// Draws the spells of a life of so many steps; in two lives of five there are none. A long
    /// life has more of them.
    #[must_use]
    pub fn draw(rng: &mut SeededRng, steps: u64) -> Weather {
        let count = [0, 0, 1, 2, 3][usize::try_from(rng.below(5)).expect("few")];
        let within = if steps == u64::MAX { LAST_LIFE_STEPS } else { steps };
        let count = count * (1 + within / STEPS_OF_MORE_SPELLS);
        let coming = (0..count).map(|_| Spell::draw(rng, within)).collect();
        Weather { coming, ..Weather::default() }
    }

    /// Returns a life's only spell, for tests.
    #[must_use]
    pub fn of(spell: Spell) -> Weather {
        Weather { coming: vec![spell], ..Weather::default() }
    }

    /// The properties of the spells to come.
    #[must_use]
    pub fn forecast(&self) -> Forecast {
        let turns_away = |spell: &Spell| matches!(spell.trouble, Trouble::Descriptors(_));
        Forecast {
            step_ns_max: self.coming.iter().map(Spell::step_max).max().unwrap_or(0),
            turns_away: self.coming.iter().any(turns_away),
            holds_requests_up: self.coming.iter().any(Spell::holds_requests_up),
        }
    }

    /// Begins and ends spells at a step; counts those that begin.
    pub fn step(&mut self, now: Nanos, counts: &mut SpellCounts) {
        (self.now, self.step) = (now, self.step + 1);
        let before = self.lasting.len();
        self.lasting.retain(|(_, _, until)| now < *until);
        if self.lasting.len() < before {
            self.ended = Some((now, self.step));
        }
        let begun: Vec<Spell> =
            self.coming.extract_if(.., |spell| spell.begins_at < self.step).collect();
        for spell in begun {
            self.begun_count += 1;
            self.lasting.push((self.begun_count, spell, Nanos(now.0 + spell.lasts.0)));
            match spell.trouble {
                Trouble::Descriptors(_) => counts.descriptors += 1,
                Trouble::Stall(_) => counts.stalls += 1,
                Trouble::Full(..) => counts.full += 1,
            }
        }
    }

    /// The longest step now, where the run's own is `usual`.
    #[must_use]
    pub fn step_ns_max(&self, usual: u64) -> u64 {
        let of_spells = self.lasting.iter().map(|(_, spell, _)| spell.step_max()).max();
        let has_spells = !self.lasting.is_empty();
        let is_after = self.ended.is_some() && !self.has_settled();
        let least = if is_after && !has_spells { STEP_AFTER } else { 0 };
        usual.max(of_spells.unwrap_or(0)).max(least)
    }

    /// The conditions now.
    #[must_use]
    pub fn conditions(&self) -> Conditions {
        let troubles = self.lasting.iter().map(|(_, spell, _)| spell.trouble);
        troubles.fold(Conditions::FAIR, Conditions::and)
    }

    /// The number of the spell that keeps the command log from its next file, if a single one does.
    #[must_use]
    pub fn shortage(&self) -> Option<u64> {
        let mut short = self.lasting.iter().filter(|(_, spell, _)| spell.keeps_from_next_file());
        let first = short.next()?;
        short.next().is_none().then_some(first.0)
    }

    /// True while no spell lasts and the last one is long over: everything must go on as if there
    /// had been none.
    #[must_use]
    pub fn has_settled(&self) -> bool {
        self.lasting.is_empty()
            && self.ended.is_none_or(|(at, step)| {
                self.now.since(at) >= SETTLED_AFTER && self.step >= step + SETTLED_STEPS
            })
    }

    /// True when all spells of the life are long over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.coming.is_empty() && self.has_settled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spell(trouble: Trouble, begins_at: u64, ms: u64) -> Spell {
        Spell { trouble, begins_at, lasts: Nanos(ms * MS) }
    }

    #[test]
    fn spells_begin_at_their_step_last_for_their_time_and_add_up() {
        let exhausted = Trouble::Descriptors(SimDescriptors::Exhausted);
        let mut weather = Weather {
            coming: vec![
                spell(exhausted, 0, 5),
                spell(Trouble::Full(Room::None, Extent::Commands), 1, 50),
                spell(Trouble::Stall(Extent::Events), 2, 1),
            ],
            ..Weather::default()
        };
        let forecast = weather.forecast();
        assert!(forecast.turns_away);
        assert_eq!(forecast.step_ns_max, 50 * MS / STEPS_OF_A_SPELL);
        assert!(weather.has_settled() && !weather.is_over());
        let mut counts = SpellCounts::default();
        let mut told = Vec::new();
        for ms in 1..=60 {
            weather.step(Nanos(ms * MS), &mut counts);
            let now = weather.conditions();
            told.push((
                now.of_commands().lacks_descriptors,
                now.of_commands().room == Room::None,
                now.stalls_events,
                weather.shortage(),
            ));
            assert_eq!((now.stalls_commands, now.of_events().room), (false, Room::Plenty));
        }
        assert_eq!(told[0], (true, false, false, Some(1)));
        assert_eq!(told[1], (true, true, false, None), "two spells keep the log from its file");
        assert_eq!(told[2], (true, true, true, None));
        assert_eq!(told[3], (true, true, false, None));
        assert_eq!(told[5..51], [(false, true, false, Some(2)); 46]);
        assert_eq!(told[51..], [(false, false, false, None); 9]);
        assert_eq!(counts, SpellCounts { descriptors: 1, stalls: 1, full: 1 });
        assert!(!weather.has_settled());
        for ms in 61..=1_200 {
            weather.step(Nanos(ms * MS), &mut counts);
        }
        assert!(weather.is_over());
    }

    #[test]
    fn steps_are_as_long_as_the_spell_needs_and_the_runs_own_at_least() {
        let mut weather =
            Weather::of(spell(Trouble::Stall(Extent::All), 0, STEPS_OF_A_SPELL * 1_000));
        assert_eq!(weather.step_ns_max(7), 7);
        let mut counts = SpellCounts::default();
        weather.step(Nanos(1), &mut counts);
        assert_eq!(weather.step_ns_max(7), STEP_MAX);
        assert_eq!(weather.step_ns_max(STEP_MAX + 1), STEP_MAX + 1);
        weather.step(Nanos(STEPS_OF_A_SPELL * 1_000 * MS + 1), &mut counts);
        assert_eq!(weather.conditions(), Conditions::FAIR);
        assert_eq!(weather.step_ns_max(7), STEP_AFTER);
    }
}
