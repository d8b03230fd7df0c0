//! The limits of a partition's engine at a start: the configured ones against those of its log.
//!
//! | the log's engine has | it holds more than configured | the start |
//! | --- | --- | --- |
//! | the configured limits, or none is configured | - | changes nothing |
//! | others | no | sequences `SetLimits` before any other command |
//! | others | yes | is refused ([`LimitError`]), and nothing is sequenced |
//!
//! A limit that is not configured stays as the log has it: a start without the file, or by a tool,
//! changes none. A partition that joins a node begins with the control log's limits of definitions.
//! A start that is killed before the command is in the log leaves the old limits, and
//! the next one finds them and sequences it; one that is killed behind it finds the new ones. The
//! engine is at the log's end when its state is compared, and no timer fires before the command, so
//! it is taken.

use std::sync::atomic::Ordering;

use serde::Deserialize;
use thiserror::Error;
use weir_engine::{Engine, EngineConfig, EngineLimits, LimitError, Memory};
use weir_types::{PartitionId, Position};

use crate::PartitionFigures;
use crate::plant::{self, Plant};
use crate::recovery::{FoundDirectory, RecoverySettings};

/// The limits of the engines' tables, in rows, as far as they are chosen. One that is not chosen
/// stays as a partition's log has it. A start whose limits differ from the log's sequences a
/// command that sets them; it is refused if the partition holds more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChosenLimits {
    /// The maximum number of accounts of the node, from 1 to 16,777,216.
    pub accounts: Option<u32>,
    /// The maximum number of sessions of the node, from 1 to 1,048,576.
    pub sessions: Option<u32>,
    /// The maximum number of firms of the node, from 1 to 1,048,576.
    pub firms: Option<u32>,
    /// The maximum number of instruments of the node, from 1 to 1,048,576. A session of published
    /// market data has the first 65,535 of a partition.
    pub instruments: Option<u32>,
    /// The maximum number of a partition's live orders, from 1 to 16,777,215.
    pub orders: Option<u32>,
    /// The maximum number of a partition's pairs of account and instrument with a position or a
    /// live order, from 1 to 1,073,741,824.
    pub positions: Option<u32>,
    /// The maximum number of a partition's trades retained for busts, from 1 to 16,777,216.
    pub trades: Option<u32>,
}

impl ChosenLimits {
    /// Returns `present` with the chosen limits in their places.
    #[must_use]
    pub fn over(&self, present: &EngineLimits) -> EngineLimits {
        EngineLimits {
            accounts_max: self.accounts.unwrap_or(present.accounts_max),
            sessions_max: self.sessions.unwrap_or(present.sessions_max),
            firms_max: self.firms.unwrap_or(present.firms_max),
            instruments_max: self.instruments.unwrap_or(present.instruments_max),
            orders_max: self.orders.unwrap_or(present.orders_max),
            positions_max: self.positions.unwrap_or(present.positions_max),
            trades_max: self.trades.unwrap_or(present.trades_max),
        }
    }

    /// Returns the limits of a partition's engine; `present` are those that it has. The control
    /// partition has no orders, and its limits of orders, positions and trades stay.
    #[must_use]
    pub fn of(&self, partition_id: PartitionId, present: &EngineLimits) -> EngineLimits {
        if !partition_id.is_none() {
            return self.over(present);
        }
        let definitions = ChosenLimits { orders: None, positions: None, trades: None, ..*self };
        definitions.over(present)
    }
}

impl From<EngineLimits> for ChosenLimits {
    /// Chooses all of them.
    fn from(limits: EngineLimits) -> ChosenLimits {
        ChosenLimits {
            accounts: Some(limits.accounts_max),
            sessions: Some(limits.sessions_max),
            firms: Some(limits.firms_max),
            instruments: Some(limits.instruments_max),
            orders: Some(limits.orders_max),
            positions: Some(limits.positions_max),
            trades: Some(limits.trades_max),
        }
    }
}

/// The refusal to make an engine with the limits of a log on a machine that has less memory than
/// one engine's full tables take. The system could refuse that memory, which ends the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "an engine with the limits of the log has tables of {} MiB, and there are {} MiB: lower \
     [engine.limits] at a start on a machine with more, and come back once the log has them",
    needed.div_ceil(1 << 20),
    available.div_ceil(1 << 20)
)]
pub struct TooLittleMemory {
    /// The bytes of one engine's tables.
    pub needed: u64,
    /// The bytes that the process can have.
    pub available: u64,
}

/// Checks that an engine with these limits can be made; `available` are the bytes that the process
/// can have, as far as they are known. The default limits are not refused: engines have begun with
/// them on small machines, and few nodes reach them.
///
/// # Errors
/// [`TooLittleMemory`].
pub fn check_memory(limits: &EngineLimits, available: Option<u64>) -> Result<(), TooLittleMemory> {
    let needed = limits.table_bytes();
    match available {
        Some(available) if needed > available && needed > EngineLimits::DEFAULT.table_bytes() => {
            Err(TooLittleMemory { needed, available })
        }
        _ => Ok(()),
    }
}

/// The settings of a rebuild that concern the engine's limits.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitsAtStart {
    /// The limits that the engine is to have behind the rebuild.
    pub chosen: ChosenLimits,
    /// The time at which its tables then take their memory.
    pub memory: Memory,
    /// The memory that the process can have, in bytes; `None` where it is not known.
    pub memory_bytes: Option<u64>,
}

impl LimitsAtStart {
    /// Returns the configuration of an engine with these limits. Memory is taken ahead for tables
    /// that stay alone: those of the log's limits may be larger than the machine.
    ///
    /// # Errors
    /// [`TooLittleMemory`].
    pub(crate) fn config_with(
        &self,
        config: &EngineConfig,
        limits: EngineLimits,
    ) -> Result<EngineConfig, TooLittleMemory> {
        check_memory(&limits, self.memory_bytes)?;
        let stays = self.chosen.of(config.partition_id, &limits) == limits;
        let memory = if stays { self.memory } else { Memory::AsFilled };
        Ok(EngineConfig { memory, ..config.clone() }.with_limits(limits))
    }
}

impl FoundDirectory {
    /// Lets a partition without a command begin with the control partition's limits of definitions,
    /// as far as none are chosen: it imports all of them.
    pub fn begin_like(&mut self, control: &EngineLimits) {
        if self.last_position() != Position::NONE {
            return;
        }
        let all = ChosenLimits::from(*control);
        let chosen = &mut self.settings.limits;
        chosen.accounts = chosen.accounts.or(all.accounts);
        chosen.sessions = chosen.sessions.or(all.sessions);
        chosen.firms = chosen.firms.or(all.firms);
        chosen.instruments = chosen.instruments.or(all.instruments);
    }
}

impl RecoverySettings {
    /// Returns the limits of a partition's engine; `present` are those that it has.
    #[must_use]
    pub fn limits_of(&self, partition_id: PartitionId, present: &EngineLimits) -> EngineLimits {
        self.limits.of(partition_id, present)
    }

    /// Checks that an engine at its log's end can have its configured limits by a command of this
    /// start.
    ///
    /// # Errors
    /// [`LimitError`] with the limit that it cannot have.
    pub(crate) fn check_limits(&self, engine: &Engine) -> Result<(), LimitError> {
        let limits = self.limits_of(engine.config().partition_id, &engine.limits());
        if limits == engine.limits() || plant::is(Plant::LimitsUnchecked) {
            return Ok(());
        }
        // Log time begins with the wall clock, or with the last command's if that is later.
        engine.check_limits_at(&limits, self.started.max(engine.time()))
    }
}

/// Prepares a recovered engine for its limits: they stand already, or the partition's first command
/// sets them. Returns the note for operators of limits that change.
pub(crate) fn settle(engine: &mut Engine, limits: &EngineLimits, memory: Memory) -> Option<String> {
    let present = engine.limits();
    if *limits != present {
        engine.set_memory(memory);
        let changes = present.named().into_iter().zip(limits.named());
        let changes = changes.filter(|((_, before), (_, limit))| before != limit);
        let changes: Vec<_> = changes
            .map(|((name, before), (_, limit))| format!("{name} {before} to {limit}"))
            .collect();
        let partition_id = engine.config().partition_id;
        return Some(format!(
            "partition {partition_id}: the limits of its engine change: {}",
            changes.join(", ")
        ));
    }
    if memory == Memory::Ahead && engine.config().memory != memory {
        engine.take_memory();
    }
    None
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

    /// Returns true if the engine's published limits are these.
    #[must_use]
    pub fn has_limits(&self, limits: &EngineLimits) -> bool {
        let of = self.counters.report();
        let published = [
            of.accounts_max,
            of.sessions_max,
            of.firms_max,
            of.instruments_max,
            of.live_orders_max,
            of.positions_max,
            of.retained_trades_max,
        ];
        published == limits.named().map(|(_, limit)| u64::from(limit))
    }
}
