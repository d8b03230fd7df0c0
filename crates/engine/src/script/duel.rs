//! The fast and the naive engine in parallel, and the checks after every command.

use std::collections::BTreeMap;

use weir_types::{
    EventNo, InstrumentId, Nanos, PartitionId, Phase, Position, Qty, Seq, SessionId, Side, Switch,
};
use weir_wire::{Command, Event, PlainEvent, Request};

use super::{COMMANDS_MAX, Script, StepLimits, Tally, readable_command, readable_event};
use crate::config::EngineConfig;
use crate::debt::Debt;
use crate::engine::{Engine, Level};
use crate::naive::NaiveEngine;

/// Both engines, at the same position.
pub struct Duel {
    fast: Engine,
    naive: NaiveEngine,
    fast_events: Vec<Event>,
    naive_events: Vec<Event>,
    /// The expected number of each session's next event.
    event_nos: BTreeMap<SessionId, EventNo>,
    seq: Seq,
    /// The debts behind the last command.
    debts: Vec<Debt>,
    levels: (Vec<Level>, Vec<Level>),
    tally: Tally,
}

/// An operation on a pair of engines.
#[derive(Clone, Debug)]
pub enum DuelOp {
    /// Both engines apply a command at a log time.
    Apply(Nanos, Command),
    /// The fast engine is replaced by one restored from its snapshot.
    Restore,
}

/// The settings of a pair of engines.
#[derive(Clone, Copy, Debug)]
pub struct DuelSetting {
    /// The partition; zero is the control partition.
    pub partition_id: PartitionId,
    /// The lengths of steps.
    pub steps: StepLimits,
}

/// Returns limits small enough for scripts to reach them, besides those of steps.
pub(super) fn small_config(partition_id: PartitionId) -> EngineConfig {
    EngineConfig {
        orders_max: 64,
        accounts_max: 8,
        sessions_max: 8,
        firms_max: 3,
        instruments_max: 4,
        positions_max: 12,
        trades_max: 8,
        trades_span: Nanos(400_000_000),
        orders_per_session_max: 20,
        orders_per_account_max: 22,
        orders_per_firm_max: 36,
        checkpoint_interval: 64,
        ..EngineConfig::new(partition_id)
    }
}

impl Duel {
    /// Creates both engines before their first command.
    #[must_use]
    pub fn new(setting: DuelSetting) -> Duel {
        let config = setting.steps.applied_to(small_config(setting.partition_id));
        Duel {
            fast: Engine::new(config.clone()),
            naive: NaiveEngine::new(config),
            fast_events: Vec::new(),
            naive_events: Vec::new(),
            event_nos: BTreeMap::new(),
            seq: Seq(0),
            debts: Vec::new(),
            levels: (Vec::new(), Vec::new()),
            tally: Tally::default(),
        }
    }

    /// Returns the fast engine.
    #[must_use]
    pub fn fast(&self) -> &Engine {
        &self.fast
    }

    /// Returns the events of the last command.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.fast_events
    }

    /// Returns the counts of commands and events so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Replaces the fast engine by one restored from its snapshot.
    ///
    /// # Panics
    /// Panics when the snapshot cannot be restored, or the restored engine's snapshot differs.
    pub fn restore(&mut self) {
        let mut bytes = Vec::new();
        self.fast.snapshot(&mut bytes);
        let mut config = self.fast.config().clone();
        // The layout of rows in memory must have no visible effect.
        config.hash_seed = config.hash_seed.wrapping_mul(31).wrapping_add(1);
        self.fast = Engine::restore(config, &bytes).expect("a snapshot reads back");
        let mut again = Vec::new();
        self.fast.snapshot(&mut again);
        assert!(again == bytes, "a restored engine's snapshot is the one it came from");
        assert!(self.debts == debts_of(&self.fast), "a restored engine has the debts");
    }

    /// Takes one step.
    ///
    /// # Errors
    /// Returns the difference, or the violated invariant.
    pub fn step(&mut self, step: &DuelOp) -> Result<(), String> {
        match step {
            DuelOp::Restore => self.restore(),
            DuelOp::Apply(time, command) => self.apply(*time, command)?,
        }
        Ok(())
    }

    /// Applies the command to both engines.
    ///
    /// # Errors
    /// Returns the difference, or the violated invariant.
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
        self.tally.reached(self.naive.reached());
        self.tally.rules(self.naive.rules());
        self.check_events()
            .and_then(|()| self.check_debts(command))
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

    /// Checks that only a forced bust makes or raises a debt.
    fn check_debts(&mut self, command: &Command) -> Result<(), String> {
        let debts = debts_of(&self.fast);
        same(&debts, &self.naive.debts(), "debts")?;
        same(self.fast.overdrawn_account(), None, "account with debts that are not recorded")?;
        let mut debtors: Vec<_> = debts.iter().map(|debt| debt.account_id).collect();
        debtors.dedup();
        same(self.fast.debtor_count(), debtors.len(), "count of accounts in debt")?;
        let makes_debts = matches!(
            command,
            Command::Request(Request::BustTrade(m)) if m.force == Switch::On
        );
        let was_there = |debt: &&Debt| {
            self.debts.iter().any(|before| {
                (before.account_id, before.instrument_id) == (debt.account_id, debt.instrument_id)
                    && before.amount >= debt.amount
            })
        };
        if !makes_debts && let Some(debt) = debts.iter().find(|debt| !was_there(debt)) {
            return Err(format!("{debt:?} is new or higher than before"));
        }
        self.debts = debts;
        Ok(())
    }

    fn check_state(&mut self) -> Result<(), String> {
        let (fast, naive) = (&self.fast, &self.naive);
        let totals = fast.totals();
        // The naive engine sums reserved cash and lots over its live orders.
        same(&totals, &naive.totals(), "totals")?;
        same(totals.is_conserved(), true, "conservation of money and lots")?;
        same(fast.retained_trades(), naive.retained_trades(), "retained trades")?;
        same(fast.miscounted(), None, "owner whose live orders are miscounted")?;
        same(fast.live_order_count(), naive.live_order_count(), "count of live orders")?;
        same(fast.open_position_count(), naive.open_position_count(), "count of positions")?;
        let (refused, should) = (fast.refused_import_count(), naive.refused_import_count());
        same(refused, should, "count of refused imports")?;
        same(fast.control_position(), naive.control_position(), "control position")?;
        let chosen = naive.cancel_on_disconnect();
        same(fast.cancel_on_disconnect(), &chosen[..], "sessions with cancel-on-disconnect")?;
        let phases = fast
            .instruments()
            .map(|of| (of.definition.instrument_id, of.phase, of.is_held, of.origin));
        same(phases.collect(), naive.phases(), "phases, holds and their causes")?;
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

/// Returns the debts in order of account and instrument.
fn debts_of(engine: &Engine) -> Vec<Debt> {
    let mut debts: Vec<Debt> = engine.debts().collect();
    debts.sort_unstable();
    debts
}

/// Formats events in short form, one per line.
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
/// Panics when the engines differ, or an invariant is violated.
pub fn fuzz_commands(data: &[u8]) {
    // One script in eight is for the control partition.
    let is_control = data.last().is_some_and(|byte| byte % 8 == 7);
    let steps = StepLimits::drawn(data.get(1).copied().unwrap_or(0).into());
    let (mut script, partition_id) = if is_control {
        (Script::for_control(data), PartitionId(0))
    } else {
        (Script::new(data), PartitionId(1))
    };
    let mut duel = Duel::new(DuelSetting { partition_id, steps });
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
