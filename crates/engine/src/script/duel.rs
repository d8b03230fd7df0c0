//! The fast and the naive engine side by side, and what must hold after every command.

use std::collections::BTreeMap;

use weir_types::{
    EventNo, InstrumentId, Nanos, PartitionId, Phase, Position, Qty, Seq, SessionId, Side,
};
use weir_wire::{Command, Event, PlainEvent};

use super::{COMMANDS_MAX, Script, Tally, readable_command, readable_event};
use crate::config::EngineConfig;
use crate::engine::{Engine, Level};
use crate::naive::NaiveEngine;

/// Both engines at the same position.
pub struct Duel {
    fast: Engine,
    naive: NaiveEngine,
    fast_events: Vec<Event>,
    naive_events: Vec<Event>,
    /// The number that each session's next event must have.
    event_nos: BTreeMap<SessionId, EventNo>,
    seq: Seq,
    levels: (Vec<Level>, Vec<Level>),
    tally: Tally,
}

/// What is done to a pair of engines.
#[derive(Clone, Debug)]
pub enum Step {
    /// Both apply a command at a log time.
    Apply(Nanos, Command),
    /// The fast one is replaced by what its snapshot makes.
    Restore,
}

/// Small limits, so that scripts meet them.
pub(super) fn small_config(partition_id: PartitionId) -> EngineConfig {
    EngineConfig {
        orders_max: 64,
        accounts_max: 8,
        sessions_max: 8,
        firms_max: 3,
        instruments_max: 4,
        positions_max: 12,
        trades_max: 64,
        checkpoint_interval: 64,
        ..EngineConfig::new(partition_id)
    }
}

impl Duel {
    /// Both before their first command.
    #[must_use]
    pub fn new(partition_id: PartitionId) -> Duel {
        Duel {
            fast: Engine::new(small_config(partition_id)),
            naive: NaiveEngine::new(small_config(partition_id)),
            fast_events: Vec::new(),
            naive_events: Vec::new(),
            event_nos: BTreeMap::new(),
            seq: Seq(0),
            levels: (Vec::new(), Vec::new()),
            tally: Tally::default(),
        }
    }

    /// The fast engine.
    #[must_use]
    pub fn fast(&self) -> &Engine {
        &self.fast
    }

    /// What the last command brought.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.fast_events
    }

    /// What was done and said so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Goes on with the fast engine that its own snapshot makes.
    ///
    /// # Panics
    /// When the snapshot does not read back, or not to the same bytes.
    pub fn restore(&mut self) {
        let mut bytes = Vec::new();
        self.fast.snapshot(&mut bytes);
        let mut config = self.fast.config().clone();
        // Where rows lie in memory must show nowhere.
        config.hash_seed = config.hash_seed.wrapping_mul(31).wrapping_add(1);
        self.fast = Engine::restore(config, &bytes).expect("a snapshot reads back");
        let mut again = Vec::new();
        self.fast.snapshot(&mut again);
        assert!(again == bytes, "a restored engine's snapshot is the one it came from");
    }

    /// Takes one step.
    ///
    /// # Errors
    /// What is different, or which invariant does not hold.
    pub fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Restore => self.restore(),
            Step::Apply(time, command) => self.apply(*time, command)?,
        }
        Ok(())
    }

    /// Applies the command to both.
    ///
    /// # Errors
    /// What is different, or which invariant does not hold.
    pub fn apply(&mut self, time: Nanos, command: &Command) -> Result<(), String> {
        let position = Position(self.fast.position().0 + 1);
        self.fast_events.clear();
        self.naive_events.clear();
        self.naive.apply(position, time, command, &mut self.naive_events);
        self.fast.apply(position, time, command, &mut self.fast_events);
        if self.fast_events != self.naive_events {
            return Err(format!(
                "events differ\n  fast:\n{}  naive:\n{}",
                tell(&self.fast_events),
                tell(&self.naive_events)
            ));
        }
        same(self.fast.digest(), self.naive.digest(), "digest")?;
        same(self.fast.next_deadline(), self.naive.next_deadline(), "next deadline")?;
        self.tally.command(command, &self.fast_events);
        self.check_events()
            .and_then(|()| self.check_state())
            .map_err(|what| format!("{what}\n  after:\n{}", tell(&self.fast_events)))
    }

    fn check_events(&mut self) -> Result<(), String> {
        for event in &self.fast_events {
            if let Some((session_id, event_no)) = event.address()
                && event_no != EventNo::NONE
            {
                let expected = self.event_nos.entry(session_id).or_insert(EventNo(1));
                same(event_no, *expected, "event number of a session")?;
                *expected = expected.next();
            }
            let Event::Plain(PlainEvent::OrderEvent(e)) = event else { continue };
            if e.rec.is_none() {
                continue;
            }
            same(e.seq, self.seq.next(), "seq")?;
            self.seq = e.seq;
            if e.ord_status.is_live() {
                same(e.order_qty, e.cum_qty + e.leaves_qty, "quantity of a live order")?;
            } else {
                same(e.leaves_qty, Qty(0), "leaves of an ended order")?;
            }
        }
        Ok(())
    }

    fn check_state(&mut self) -> Result<(), String> {
        let (fast, naive) = (&self.fast, &self.naive);
        let totals = fast.totals();
        // The naive engine adds up reserved cash and lots from its live orders.
        same(&totals, &naive.totals(), "totals")?;
        same(totals.is_conserved(), true, "conservation of money and lots")?;
        same(fast.overdrawn_account(), None, "limited account with less than nothing free")?;
        same(fast.live_order_count(), naive.live_order_count(), "count of live orders")?;
        same(fast.open_position_count(), naive.open_position_count(), "count of positions")?;
        let (refused, should) = (fast.refused_import_count(), naive.refused_import_count());
        same(refused, should, "count of refused imports")?;
        same(fast.control_position(), naive.control_position(), "control position")?;
        for (session_id, state) in fast.sessions() {
            same(state, naive.session_state(session_id), "state of a session")?;
        }
        for instrument_id in [100, 101, 102, 103].map(InstrumentId) {
            let mut best = [None; 2];
            for (side, best) in [Side::Buy, Side::Sell].into_iter().zip(&mut best) {
                fast.book_levels(instrument_id, side, usize::MAX, &mut self.levels.0);
                naive.book_levels(instrument_id, side, usize::MAX, &mut self.levels.1);
                same(&self.levels.0, &self.levels.1, "levels of a book")?;
                *best = self.levels.0.first().map(|level| level.price);
            }
            if let [Some(bid), Some(ask)] = best
                && naive.phase(instrument_id) == Some(Phase::Continuous)
                && bid >= ask
            {
                return Err(format!("the book of {instrument_id} is crossed: {bid} {ask}"));
            }
        }
        Ok(())
    }
}

/// Events in short words, a line each.
fn tell(events: &[Event]) -> String {
    events.iter().map(|event| format!("    {}\n", readable_event(event))).collect()
}

fn same<T: PartialEq + std::fmt::Debug>(fast: T, naive: T, what: &str) -> Result<(), String> {
    if fast == naive { Ok(()) } else { Err(format!("{what}: {fast:?}, should be {naive:?}")) }
}

/// Runs the script `data` through both engines, with a snapshot and its restoration on the way.
/// Bounded by [`COMMANDS_MAX`].
///
/// # Panics
/// When they differ, or an invariant does not hold.
pub fn fuzz_commands(data: &[u8]) {
    // One script in eight is for the control partition.
    let is_control = data.last().is_some_and(|byte| byte % 8 == 7);
    let (mut script, mut duel) = if is_control {
        (Script::for_control(data), Duel::new(PartitionId(0)))
    } else {
        (Script::new(data), Duel::new(PartitionId(1)))
    };
    let restore_every = usize::from(data.first().copied().unwrap_or(0)) + 16;
    for number in 0..COMMANDS_MAX {
        if script.is_over() {
            break;
        }
        let command = script.command();
        if let Err(difference) = duel.apply(script.now(), &command) {
            panic!("{}\n{difference}", readable_command(&command));
        }
        script.hear(duel.events());
        if number % restore_every == restore_every - 1 {
            duel.restore();
        }
    }
}
