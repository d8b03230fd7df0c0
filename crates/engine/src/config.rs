//! The engine's limits and where its events go.
//!
//! Everything that can grow has a limit, met by a typed reject and never by a panic. The limits
//! decide answers, so all replicas of a partition must have equal ones.

use weir_types::PartitionId;
use weir_wire::Event;

/// The most lots one order may have by its instrument's definition.
pub(crate) const ORDER_QTY_LIMIT: u64 = 1 << 40;
/// The most slices that an iceberg may be shown in: how many trades one resting order can make of
/// one that comes in.
pub(crate) const SLICES_MAX: u64 = 100;
/// The most an account's cash may be below zero (unlimited accounts) or be moved to.
pub(crate) const CASH_LIMIT: i128 = 1 << 96;
/// The most lots a position may be away from zero, open orders included.
pub(crate) const POSITION_LIMIT: i128 = 1 << 62;
/// How many first answers are remembered per session.
pub(crate) const OUTCOMES_MAX: usize = 1024;
/// How many changes of phase may stand in the schedule.
pub(crate) const SCHEDULE_MAX: usize = 1 << 16;

/// When an engine takes its tables' memory from the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// As the tables fill, a page at a time: little memory for few orders.
    #[default]
    AsFilled,
    /// All at the start, in huge pages where the system has them: no order waits for a page, and
    /// fewer wait for the processor to find one. The start takes longer by some 0.2 s a gigabyte.
    Ahead,
}

/// A partition's number and the limits of its engine.
///
/// Tables are sized by these limits at the start, so that no order ever waits for a table to grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// The partition; zero is the control partition.
    pub partition_id: PartitionId,
    /// Live orders at one time, from 1 to 2^24 - 1.
    pub orders_max: u32,
    /// Accounts, from 1 to 2^24.
    pub accounts_max: u32,
    /// Sessions, from 1 to 2^20.
    pub sessions_max: u32,
    /// Firms, from 1 to 2^20.
    pub firms_max: u32,
    /// Instruments, from 1 to 2^20.
    pub instruments_max: u32,
    /// Pairs of account and instrument with a position or a live order, from 1 to 2^30.
    pub positions_max: u32,
    /// How many of the last trades can be busted, from 1 to 2^24. It may be raised over a restart;
    /// a lower one than a snapshot holds is refused.
    pub trades_max: u32,
    /// Spreads the hash tables; shows in no event and no digest, so that every node may have one of
    /// its own that nobody else knows: who knew it could name orders so that they all lie in one
    /// place, and each look-up would pass them all.
    pub hash_seed: u64,
    /// When the tables' memory is taken.
    pub memory: Memory,
    /// A checkpoint event follows each position that is a multiple of this, which is 1 or more. At
    /// each the digest takes in what stands, all scheduled phases included: with one after every
    /// command that would be felt.
    pub checkpoint_interval: u64,
    /// Events are folded into the digest. Without it [`Engine::digest`](crate::Engine::digest)
    /// stays zero and replicas cannot be compared by it.
    pub is_digested: bool,
    /// How many first answers are remembered per session, from 0 to 1,024. A repeated request whose
    /// answer is not remembered is refused as too old; with zero, all are.
    pub outcomes_max: u32,
    /// Orders are checked against their account's cash and lots, which they reserve and trades
    /// move. Without it no account's means limit anything, and cash and positions stay as
    /// transfers leave them: for a partition whose risk is looked after elsewhere.
    pub has_risk: bool,
}

impl EngineConfig {
    /// The default limits for `partition_id`.
    #[must_use]
    pub fn new(partition_id: PartitionId) -> EngineConfig {
        EngineConfig {
            partition_id,
            orders_max: 1 << 20,
            accounts_max: 1 << 20,
            sessions_max: 1 << 14,
            firms_max: 1 << 14,
            instruments_max: 1 << 14,
            positions_max: 1 << 21,
            trades_max: 1 << 16,
            hash_seed: 0x57e1_2bad_5eed_0001,
            memory: Memory::AsFilled,
            checkpoint_interval: 1 << 16,
            is_digested: true,
            outcomes_max: OUTCOMES_MAX as u32,
            has_risk: true,
        }
    }

    /// # Panics
    /// When a limit is out of the range in its documentation: the engine's arithmetic relies on it.
    pub(crate) fn assert_valid(&self) {
        assert!((1..1 << 24).contains(&self.orders_max), "orders_max is out of range");
        assert!((1..=1 << 24).contains(&self.accounts_max), "accounts_max is out of range");
        assert!((1..=1 << 20).contains(&self.sessions_max), "sessions_max is out of range");
        assert!((1..=1 << 20).contains(&self.firms_max), "firms_max is out of range");
        assert!((1..=1 << 20).contains(&self.instruments_max), "instruments_max is out of range");
        assert!((1..=1 << 30).contains(&self.positions_max), "positions_max is out of range");
        assert!((1..=1 << 24).contains(&self.trades_max), "trades_max is out of range");
        assert!(self.checkpoint_interval > 0, "checkpoint_interval is zero");
        assert!(self.outcomes_max as usize <= OUTCOMES_MAX, "outcomes_max is out of range");
    }
}

impl Default for EngineConfig {
    fn default() -> EngineConfig {
        EngineConfig::new(PartitionId(1))
    }
}

/// Takes the engine's events, in the order in which they happened.
pub trait EventSink {
    /// Nobody but the sink sees an event: it is neither digested nor remembered. Known when the
    /// engine is compiled for the sink, so that an event of which the sink reads three fields is
    /// never made in memory. Not for implementors: the engine sets it by its configuration.
    #[doc(hidden)]
    const IS_ONLY_HEARER: bool = false;

    /// Takes one event.
    fn event(&mut self, event: &Event);
}

impl EventSink for Vec<Event> {
    fn event(&mut self, event: &Event) {
        self.push(*event);
    }
}

/// The sink of an engine that neither digests nor remembers.
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
