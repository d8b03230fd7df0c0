//! The limits of a partition's engine at a start: the configured ones against those of its log.
//!
//! | the log's engine has | it holds more than configured | the start |
//! | --- | --- | --- |
//! | the configured limits | - | changes nothing |
//! | others | no | sequences `SetLimits` before any other command |
//! | others | yes | is refused ([`LimitError`]), and nothing is sequenced |
//!
//! A start that is killed before that command is in the log leaves the old limits, and the next one
//! finds them and sequences it; one that is killed behind it finds the new ones. The engine is at
//! the log's end when its state is compared, and no timer fires before the command, so it is taken.

use std::sync::atomic::Ordering;

use weir_engine::{Engine, EngineLimits, LimitError};
use weir_types::PartitionId;

use crate::PartitionFigures;
use crate::plant::{self, Plant};
use crate::recovery::RecoverySettings;

impl RecoverySettings {
    /// Returns the limits of a partition's engine; `present` are those that it has. The control
    /// partition has no orders, and its limits of orders, positions and trades stay.
    #[must_use]
    pub fn limits_of(&self, partition_id: PartitionId, present: &EngineLimits) -> EngineLimits {
        if !partition_id.is_none() {
            return self.limits;
        }
        let EngineLimits { orders_max, positions_max, trades_max, .. } = *present;
        EngineLimits { orders_max, positions_max, trades_max, ..self.limits }
    }

    /// Checks that an engine at its log's end can have its configured limits.
    ///
    /// # Errors
    /// [`LimitError`] with the limit that it cannot have.
    pub(crate) fn check_limits(&self, engine: &Engine) -> Result<(), LimitError> {
        let limits = self.limits_of(engine.config().partition_id, &engine.limits());
        if limits == engine.limits() || plant::is(Plant::LimitsUnchecked) {
            return Ok(());
        }
        engine.check_limits(&limits)
    }
}

impl PartitionFigures {
    /// Publishes the use of the engine's tables that is published nowhere else.
    pub(crate) fn tell_tables(&self, engine: &Engine) {
        let (counters, of) = (&self.counters, engine.definition_counts());
        counters.positions.store(engine.open_position_count() as u64, Ordering::Relaxed);
        counters.accounts.store(of.accounts, Ordering::Relaxed);
        counters.sessions.store(of.sessions, Ordering::Relaxed);
        counters.firms.store(of.firms, Ordering::Relaxed);
        counters.instruments.store(of.instruments, Ordering::Relaxed);
    }

    /// Publishes the limits of the engine's tables.
    pub(crate) fn tell_limits(&self, engine: &Engine) {
        let (counters, limits) = (&self.counters, engine.limits());
        counters.accounts_max.store(limits.accounts_max.into(), Ordering::Relaxed);
        counters.sessions_max.store(limits.sessions_max.into(), Ordering::Relaxed);
        counters.firms_max.store(limits.firms_max.into(), Ordering::Relaxed);
        counters.instruments_max.store(limits.instruments_max.into(), Ordering::Relaxed);
        counters.live_orders_max.store(limits.orders_max.into(), Ordering::Relaxed);
        counters.positions_max.store(limits.positions_max.into(), Ordering::Relaxed);
        counters.retained_trades_max.store(limits.trades_max.into(), Ordering::Relaxed);
    }
}
