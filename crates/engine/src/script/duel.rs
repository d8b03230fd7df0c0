//! The fast and the naive engine side by side, and what must hold after every command.

use std::collections::BTreeMap;

use weir_types::{
    EventNo, InstrumentId, Nanos, PartitionId, Position, Reason, Seq, SessionId, Side,
};
use weir_wire::{Command, Event, PlainEvent};

use super::{COMMANDS_MAX, Script};
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
    event_count: u64,
    trade_count: u64,
    rejected_count: u64,
    reasons: BTreeMap<Reason, u64>,
}

/// Small limits, so that scripts meet them.
fn small_config(partition_id: PartitionId) -> EngineConfig {
    EngineConfig {
        orders_max: 48,
        accounts_max: 8,
        sessions_max: 8,
        firms_max: 3,
        instruments_max: 4,
        positions_max: 10,
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
            event_count: 0,
            trade_count: 0,
            rejected_count: 0,
            reasons: BTreeMap::new(),
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

    /// Events, trades (counted once) and refusals so far.
    #[must_use]
    pub fn counts(&self) -> (u64, u64, u64) {
        (self.event_count, self.trade_count, self.rejected_count)
    }

    /// How often each reason was given, for a refusal or an end.
    pub fn reasons(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        self.reasons.iter().map(|(reason, count)| (*reason, *count))
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

    /// Applies the command to both.
    ///
    /// # Panics
    /// When they differ, or an invariant does not hold.
    pub fn apply(&mut self, command: &Command) {
        let position = Position(self.fast.position().0 + 1);
        let time = Nanos(1_000_000 + position.0 / 3);
        self.fast_events.clear();
        self.naive_events.clear();
        self.fast.apply(position, time, command, &mut self.fast_events);
        self.naive.apply(position, time, command, &mut self.naive_events);
        assert_eq!(self.fast_events, self.naive_events, "events differ at {position}: {command:?}");
        assert_eq!(self.fast.digest(), self.naive.digest(), "digests differ at {position}");
        self.check_events();
        self.check_state();
    }

    fn check_events(&mut self) {
        for event in &self.fast_events {
            self.event_count += 1;
            if let Some((session_id, event_no)) = event.address()
                && event_no != EventNo::NONE
            {
                let expected = self.event_nos.entry(session_id).or_insert(EventNo(1));
                assert_eq!(event_no, *expected, "event numbers of session {session_id} are dense");
                *expected = expected.next();
            }
            match event {
                Event::Plain(PlainEvent::OrderEvent(e)) => {
                    *self.reasons.entry(e.reason).or_default() += 1;
                    self.trade_count += u64::from(e.liquidity == weir_types::Liquidity::Maker);
                    if e.rec.is_none() {
                        self.rejected_count += 1;
                        assert!(e.seq.is_none());
                        continue;
                    }
                    assert_eq!(e.seq, self.seq.next(), "no gap in seq");
                    self.seq = e.seq;
                    if e.ord_status.is_live() {
                        assert_eq!(e.order_qty, e.cum_qty + e.leaves_qty);
                        assert!(!e.leaves_qty.is_zero());
                    } else {
                        assert!(e.leaves_qty.is_zero() && e.cum_qty <= e.order_qty);
                    }
                }
                Event::Plain(PlainEvent::RequestRejected(e)) => {
                    *self.reasons.entry(e.reason).or_default() += 1;
                    self.rejected_count += 1;
                }
                _ => {}
            }
        }
    }

    fn check_state(&mut self) {
        let (fast, naive) = (&self.fast, &self.naive);
        let totals = fast.totals();
        // The naive engine adds up reserved cash and lots from its live orders.
        assert_eq!(totals, naive.totals(), "reservations are the sums over live orders");
        assert!(totals.is_conserved(), "money and lots are conserved: {totals:?}");
        assert_eq!(fast.live_order_count(), naive.live_order_count());
        assert_eq!(fast.open_position_count(), naive.open_position_count());
        assert_eq!(fast.control_position(), naive.control_position());
        for (session_id, state) in fast.sessions() {
            assert_eq!(state, naive.session_state(session_id));
        }
        let mut order_count = 0;
        for instrument_id in [100, 101, 102, 103].map(InstrumentId) {
            let mut best = [None; 2];
            for (side, best) in [Side::Buy, Side::Sell].into_iter().zip(&mut best) {
                fast.book_levels(instrument_id, side, usize::MAX, &mut self.levels.0);
                naive.book_levels(instrument_id, side, usize::MAX, &mut self.levels.1);
                assert_eq!(self.levels.0, self.levels.1, "levels are the sums of their orders");
                order_count += self.levels.0.iter().map(|level| level.order_count).sum::<u32>();
                *best = self.levels.0.first().map(|level| level.price);
            }
            if let [Some(bid), Some(ask)] = best {
                assert!(bid < ask, "the book of {instrument_id} is crossed: {bid} {ask}");
            }
        }
        assert_eq!(order_count, fast.live_order_count(), "every live order is in a book");
    }
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
        duel.apply(&script.command());
        script.hear(duel.events());
        if number % restore_every == restore_every - 1 {
            duel.restore();
        }
    }
}
