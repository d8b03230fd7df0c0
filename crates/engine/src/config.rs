//! The engine's limits, and the sink of its events.
//!
//! Everything that can grow has a limit, enforced by a typed reject and never by a panic. Limits
//! affect answers, so all replicas of a partition must have equal ones. Those of the tables are
//! only the first: a command can set others, and a snapshot has its own.

use weir_types::{Nanos, PartitionId};
use weir_wire::Event;
use weir_wire::reference::SCHEDULE_LIST_MAX;

use crate::limits::EngineLimits;
use crate::sweep::{firm_sweeps_max, looks_per_change, tick_visits_max};
use crate::throttle::RATE_PERIOD;

/// The maximum order quantity, in lots, that an instrument's definition may allow.
pub(crate) const ORDER_QTY_LIMIT: u64 = 1 << 40;
/// The maximum number of an iceberg's slices: the number of trades that one resting order can make
/// with one incoming order.
pub(crate) const SLICES_MAX: u64 = 100;
/// The maximum amount below zero for an unlimited account's cash, and the maximum for a transfer.
pub(crate) const CASH_LIMIT: i128 = 1 << 96;
/// The maximum absolute size of a position in lots, including open orders.
pub(crate) const POSITION_LIMIT: i128 = 1 << 62;
/// The maximum number of remembered first answers per session.
pub(crate) const OUTCOMES_MAX: usize = 1024;
/// The maximum number of scheduled phase changes.
pub(crate) const SCHEDULE_MAX: usize = 1 << 16;
/// The maximum number of changes of a list that is filed at once.
pub(crate) const LIST_MAX: usize = SCHEDULE_LIST_MAX;
/// The maximum number of due changes of its instrument's phase that a command makes: those of a
/// calendar's day, so that a running node refuses no command for them. Each may look at all orders
/// of the instrument.
pub(crate) const DUE_CHANGES_MAX: usize = 4;

/// The time at which an engine takes its tables' memory from the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// As the tables fill, page by page: little memory for few orders.
    #[default]
    AsFilled,
    /// All at the start, in huge pages where the system has them: no order waits for a page fault,
    /// and fewer wait for an address translation. The start takes about 0.2 s longer per gigabyte.
    Ahead,
}

/// The number of a partition and the limits of its engine.
///
/// Tables are sized by these limits at the start, so that no order waits for a table to grow. Those
/// of [`EngineLimits`] hold until a command sets others; a restored engine has its snapshot's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// The partition; zero is the control partition.
    pub partition_id: PartitionId,
    /// The maximum number of live orders, as [`EngineLimits`] have it.
    pub orders_max: u32,
    /// The maximum number of a session's live orders where its definition has none.
    pub orders_per_session_max: u32,
    /// The maximum number of live orders for an account where its definition has none.
    pub orders_per_account_max: u32,
    /// The maximum number of live orders of a firm's sessions where its definition has none.
    pub orders_per_firm_max: u32,
    /// The changes of orders, from 1, behind which a command ends no other order for a mass cancel
    /// or a lost session: the rest ends by ticks.
    pub sweep_ends_max: u32,
    /// The most orders and sessions that a command looks at for them, from 1; a tick looks at so
    /// many in proportion.
    pub sweep_visits_max: u32,
    /// The changes of orders, from 1, behind which a tick fires no other timer, and behind which it
    /// ends no other order for mass cancels and lost sessions, for these at least 2: each kind has
    /// half. Timers before another command have the same bound, and those at the orders of its mass
    /// cancel or loss once more. The last timer may exceed it, as none is divided. A partition adds
    /// one tick after the other while something is left; others' commands come in between. Orders
    /// at which a change of phase looks count too, in the proportion of visits to ends.
    pub tick_changes_max: u32,
    /// The maximum number of mass cancels in progress, operators' not counted; a session has at
    /// most one.
    pub sweeps_max: u32,
    /// The maximum number of accounts, like those of the next five in [`EngineLimits`].
    pub accounts_max: u32,
    /// The maximum number of sessions.
    pub sessions_max: u32,
    /// The maximum number of firms.
    pub firms_max: u32,
    /// The maximum number of instruments.
    pub instruments_max: u32,
    /// The maximum number of pairs of account and instrument with a position or a live order.
    pub positions_max: u32,
    /// The maximum number of trades retained for busts.
    pub trades_max: u32,
    /// The log time for which a trade can be busted, unless `trades_max` later ones have come.
    pub trades_span: Nanos,
    /// The seed of the hash tables. It affects no event and no digest, so every node may keep its
    /// own secret one: with a known seed a client could name its orders so that they all collide,
    /// and each look-up would pass them all.
    pub hash_seed: u64,
    /// The time at which the tables' memory is taken.
    pub memory: Memory,
    /// The interval of checkpoints, 1 or more: a checkpoint event follows each position that is a
    /// multiple of it. At each the digest takes in the standing state, including all scheduled
    /// phases; a checkpoint after every command would be noticeable.
    pub checkpoint_interval: u64,
    /// True to fold events into the digest. Otherwise [`Engine::digest`](crate::Engine::digest)
    /// stays zero and replicas cannot be compared by it.
    pub is_digested: bool,
    /// The number of first answers remembered per session, from 0 to 1,024. A repeated request
    /// without a remembered answer is refused as too old; with zero, every repeat is.
    pub outcomes_max: u32,
    /// True to check orders against their account's cash and lots, which orders reserve and trades
    /// move. Otherwise accounts limit nothing, and cash and positions change only by transfers: for
    /// a partition with external risk checks.
    pub has_risk: bool,
}

impl EngineConfig {
    /// Returns the default limits for `partition_id`.
    #[must_use]
    pub fn new(partition_id: PartitionId) -> EngineConfig {
        let EngineLimits {
            accounts_max,
            sessions_max,
            firms_max,
            instruments_max,
            orders_max,
            positions_max,
            trades_max,
        } = EngineLimits::DEFAULT;
        EngineConfig {
            partition_id,
            orders_max,
            orders_per_session_max: 100_000,
            orders_per_account_max: 100_000,
            orders_per_firm_max: EngineLimits::DEFAULT.orders_max / 4,
            sweep_ends_max: 512,
            sweep_visits_max: 4_096,
            tick_changes_max: 32,
            sweeps_max: 64,
            accounts_max,
            sessions_max,
            firms_max,
            instruments_max,
            positions_max,
            trades_max,
            trades_span: Nanos(24 * 3_600 * 1_000_000_000),
            hash_seed: 0x57e1_2bad_5eed_0001,
            memory: Memory::AsFilled,
            checkpoint_interval: 1 << 16,
            is_digested: true,
            outcomes_max: OUTCOMES_MAX as u32,
            has_risk: true,
        }
    }

    /// Returns the limits that change events and are no fields: those that follow from fields, and
    /// constants. For the test of the rules' versions.
    #[doc(hidden)]
    #[must_use]
    pub fn limits_beside_fields(&self) -> [i128; 12] {
        [
            firm_sweeps_max(self.sweeps_max as usize) as i128,
            tick_visits_max(self).into(),
            looks_per_change(self).into(),
            ORDER_QTY_LIMIT.into(),
            SLICES_MAX.into(),
            CASH_LIMIT,
            POSITION_LIMIT,
            OUTCOMES_MAX as i128,
            SCHEDULE_MAX as i128,
            LIST_MAX as i128,
            DUE_CHANGES_MAX as i128,
            RATE_PERIOD.into(),
        ]
    }

    /// # Panics
    /// Panics when a limit is outside its documented range, which the engine's arithmetic relies
    /// on.
    pub(crate) fn assert_valid(&self) {
        if let Err(error) = self.limits().check_ranges() {
            panic!("{error}");
        }
        assert!(self.sweep_ends_max > 0, "sweep_ends_max is zero");
        assert!(self.sweep_visits_max > 0, "sweep_visits_max is zero");
        assert!(self.tick_changes_max > 0, "tick_changes_max is zero");
        assert!(self.checkpoint_interval > 0, "checkpoint_interval is zero");
        assert!(self.outcomes_max as usize <= OUTCOMES_MAX, "outcomes_max is out of range");
    }
}

impl Default for EngineConfig {
    fn default() -> EngineConfig {
        EngineConfig::new(PartitionId(1))
    }
}

/// A receiver of the engine's events, in the order in which they happened.
pub trait EventSink {
    /// True if only the sink uses the events: they are neither digested nor remembered. Known when
    /// the engine is compiled for the sink, so that an event of which the sink reads three fields
    /// is never built in memory. Not for implementors: the engine sets it by its configuration.
    #[doc(hidden)]
    const IS_ONLY_HEARER: bool = false;

    /// Receives one event.
    fn event(&mut self, event: &Event);
}

impl EventSink for Vec<Event> {
    fn event(&mut self, event: &Event) {
        self.push(*event);
    }
}

/// Wraps the sink of an engine that neither digests nor remembers.
pub(crate) struct OnlyHearer<'a, S>(pub(crate) &'a mut S);

impl<S: EventSink> EventSink for OnlyHearer<'_, S> {
    const IS_ONLY_HEARER: bool = true;

    #[inline(always)]
    fn event(&mut self, event: &Event) {
        self.0.event(event);
    }
}

impl<F: FnMut(&Event)> EventSink for F {
    #[inline]
    fn event(&mut self, event: &Event) {
        self(event);
    }
}
