//! The limits of an engine's tables: state, which a command of its log changes.
//!
//! A limit changes answers, so a replay needs the limits that stood when a command was executed.
//! An engine begins with [`EngineLimits::DEFAULT`]; `SetLimits` gives it others, and snapshots
//! carry them. `docs/adr/0019-limits-in-the-log.md` has the reasons.
//!
//! INVARIANT: no table holds more than its limit, and limits are within [`EngineLimits::MAX`].

use thiserror::Error;
use weir_types::Nanos;
use weir_wire::reference::SetLimits;

use crate::bust::Trades;
use crate::config::{EngineConfig, Memory};
use crate::digest;
use crate::engine::Engine;
use crate::index::Table;
use crate::instrument::{Firm, Instrument};
use crate::order::Orders;
use crate::outcomes::Outcomes;
use crate::plant::{self, Plant};
use crate::position::Positions;
use crate::session::Session;
use crate::symbols::Symbols;

/// The limits of an engine's tables, in rows. Those of accounts, sessions, firms and instruments
/// are to be equal in all partitions of a node, which all import every definition; the other three
/// are the partition's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineLimits {
    /// The maximum number of accounts, from 1 to 2^24.
    pub accounts_max: u32,
    /// The maximum number of sessions, from 1 to 2^20.
    pub sessions_max: u32,
    /// The maximum number of firms, from 1 to 2^20.
    pub firms_max: u32,
    /// The maximum number of instruments, from 1 to 2^20.
    pub instruments_max: u32,
    /// The maximum number of live orders, from 1 to 2^24 - 1.
    pub orders_max: u32,
    /// The maximum number of pairs of account and instrument with a position or a live order, from
    /// 1 to 2^30.
    pub positions_max: u32,
    /// The maximum number of trades retained for busts, from 1 to 2^24.
    pub trades_max: u32,
}

/// The bytes of a snapshot while it is made, per row of each table at most, in the order of the
/// limits. A position's are twice its own: they are sorted first.
const SNAPSHOT_ROW_BYTES: [u64; 7] = [84, 46, 9, 384, 106, 64, 62];

/// The refusal of limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LimitError {
    /// A limit is zero or too high.
    #[error("the limit of {limit} is {configured}, and can be from 1 to {max}")]
    OutOfRange {
        /// The limit.
        limit: &'static str,
        /// Its configured value.
        configured: u32,
        /// The highest value.
        max: u32,
    },
    /// The table has more rows.
    #[error("the limit of {limit} is {configured}, and {held} are held")]
    BelowHeld {
        /// The limit.
        limit: &'static str,
        /// The number of rows.
        held: u32,
        /// Its configured value.
        configured: u32,
    },
}

impl EngineLimits {
    /// The limits of an engine before its first command.
    pub const DEFAULT: EngineLimits = EngineLimits {
        accounts_max: 1 << 20,
        sessions_max: 1 << 14,
        firms_max: 1 << 14,
        instruments_max: 1 << 14,
        orders_max: 1 << 20,
        positions_max: 1 << 21,
        trades_max: 1 << 20,
    };

    /// The highest limits, on which the engine's arithmetic relies.
    pub const MAX: EngineLimits = EngineLimits {
        accounts_max: 1 << 24,
        sessions_max: 1 << 20,
        firms_max: 1 << 20,
        instruments_max: 1 << 20,
        orders_max: (1 << 24) - 1,
        positions_max: 1 << 30,
        trades_max: 1 << 24,
    };

    /// The lowest limits.
    const MIN: EngineLimits = EngineLimits {
        accounts_max: 1,
        sessions_max: 1,
        firms_max: 1,
        instruments_max: 1,
        orders_max: 1,
        positions_max: 1,
        trades_max: 1,
    };

    /// Returns the limits with their names, in the order of the command.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u32); 7] {
        [
            ("accounts", self.accounts_max),
            ("sessions", self.sessions_max),
            ("firms", self.firms_max),
            ("instruments", self.instruments_max),
            ("orders", self.orders_max),
            ("positions", self.positions_max),
            ("trades", self.trades_max),
        ]
    }

    /// Checks that each limit is within its range.
    ///
    /// # Errors
    /// [`LimitError::OutOfRange`] with the first that is not.
    pub fn check_ranges(&self) -> Result<(), LimitError> {
        for ((limit, configured), (_, max)) in self.named().into_iter().zip(Self::MAX.named()) {
            if !(1..=max).contains(&configured) {
                return Err(LimitError::OutOfRange { limit, configured, max });
            }
        }
        Ok(())
    }

    /// Returns the command that sets these limits.
    #[must_use]
    pub fn to_command(&self) -> SetLimits {
        let EngineLimits {
            accounts_max,
            sessions_max,
            firms_max,
            instruments_max,
            orders_max,
            positions_max,
            trades_max,
        } = *self;
        SetLimits {
            accounts_max,
            sessions_max,
            firms_max,
            instruments_max,
            orders_max,
            positions_max,
            trades_max,
        }
    }

    /// Returns the bytes of an engine's tables when all are full, without those that begin small:
    /// levels, timers, and remembered answers of sessions ([`EngineLimits::answer_bytes`]).
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        self.reference_bytes()
            + Orders::bytes_for(self.orders_max)
            + Positions::bytes_for(self.positions_max)
            + Trades::bytes_for(self.trades_max)
    }

    /// Returns the bytes of the tables of accounts, sessions, firms and instruments alone: the
    /// control partition's.
    #[must_use]
    pub fn reference_bytes(&self) -> u64 {
        Table::<crate::account::Account>::bytes_for(self.accounts_max)
            + u64::from(self.accounts_max) * size_of::<crate::transfer::LastTransfer>() as u64
            + Table::<Session>::bytes_for(self.sessions_max)
            + Table::<Firm>::bytes_for(self.firms_max)
            + Table::<Instrument>::bytes_for(self.instruments_max)
            + Symbols::bytes_for(self.instruments_max)
    }

    /// Returns the bytes that remembered answers take when all sessions have sent as many requests
    /// as are remembered: most never do.
    #[must_use]
    pub fn answer_bytes(&self) -> u64 {
        u64::from(self.sessions_max) * Outcomes::BYTES_MAX
    }

    /// Returns the bytes that a snapshot of full tables takes while it is made: its own, and a
    /// sorted copy of the positions. Remembered answers come on top.
    #[must_use]
    pub fn snapshot_bytes(&self) -> u64 {
        let rows = self.named().into_iter().zip(SNAPSHOT_ROW_BYTES);
        rows.map(|((_, limit), bytes)| u64::from(limit) * bytes).sum()
    }
}

impl Default for EngineLimits {
    fn default() -> EngineLimits {
        EngineLimits::DEFAULT
    }
}

impl From<&SetLimits> for EngineLimits {
    fn from(m: &SetLimits) -> EngineLimits {
        EngineLimits {
            accounts_max: m.accounts_max,
            sessions_max: m.sessions_max,
            firms_max: m.firms_max,
            instruments_max: m.instruments_max,
            orders_max: m.orders_max,
            positions_max: m.positions_max,
            trades_max: m.trades_max,
        }
    }
}

impl EngineConfig {
    /// Returns the limits of the tables.
    #[must_use]
    pub fn limits(&self) -> EngineLimits {
        EngineLimits {
            accounts_max: self.accounts_max,
            sessions_max: self.sessions_max,
            firms_max: self.firms_max,
            instruments_max: self.instruments_max,
            orders_max: self.orders_max,
            positions_max: self.positions_max,
            trades_max: self.trades_max,
        }
    }

    /// Returns this configuration with other limits of the tables.
    #[must_use]
    pub fn with_limits(self, limits: EngineLimits) -> EngineConfig {
        EngineConfig {
            accounts_max: limits.accounts_max,
            sessions_max: limits.sessions_max,
            firms_max: limits.firms_max,
            instruments_max: limits.instruments_max,
            orders_max: limits.orders_max,
            positions_max: limits.positions_max,
            trades_max: limits.trades_max,
            ..self
        }
    }
}

/// The numbers of definitions that an engine has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefinitionCounts {
    /// Accounts.
    pub accounts: u64,
    /// Sessions.
    pub sessions: u64,
    /// Firms.
    pub firms: u64,
    /// Instruments.
    pub instruments: u64,
}

impl Engine {
    /// Returns the numbers of definitions.
    #[must_use]
    pub fn definition_counts(&self) -> DefinitionCounts {
        DefinitionCounts {
            accounts: self.accounts.rows().len() as u64,
            sessions: self.sessions.rows().len() as u64,
            firms: self.firms.rows().len() as u64,
            instruments: self.instruments.rows().len() as u64,
        }
    }

    /// Returns the limits of the tables.
    #[must_use]
    pub fn limits(&self) -> EngineLimits {
        self.config.limits()
    }

    /// Returns the numbers of rows that are held: the lowest limits that the engine would accept,
    /// if none were zero.
    #[must_use]
    pub fn held(&self) -> EngineLimits {
        self.held_at(self.time)
    }

    /// Returns the numbers of rows that are held at a log time, which is not before the last
    /// command's: trades become too old to be held as time passes.
    fn held_at(&self, time: Nanos) -> EngineLimits {
        let count = |rows: usize| u32::try_from(rows).expect("limits are below 2^32");
        let chosen = self.cancel_on_disconnect().len();
        EngineLimits {
            accounts_max: count(self.accounts.rows().len()),
            // The log may know the choice of a session before its definition.
            sessions_max: count(self.sessions.rows().len().max(chosen)),
            firms_max: count(self.firms.rows().len()),
            instruments_max: count(self.instruments.rows().len()),
            orders_max: self.orders.live_count(),
            positions_max: count(self.positions.count()),
            trades_max: count(self.retained_trades_at(time).count as usize),
        }
    }

    /// Checks that the engine can have these limits at the last command's log time.
    ///
    /// # Errors
    /// A [`LimitError`] with the first limit that is out of range, or else below what is held.
    pub fn check_limits(&self, limits: &EngineLimits) -> Result<(), LimitError> {
        self.check_limits_at(limits, self.time)
    }

    /// Checks that the engine can have these limits by a command of a log time, which is not before
    /// the last command's.
    ///
    /// # Errors
    /// As [`Engine::check_limits`].
    pub fn check_limits_at(&self, limits: &EngineLimits, time: Nanos) -> Result<(), LimitError> {
        limits.check_ranges()?;
        if plant::is(Plant::LimitsBelowHeld) {
            return Ok(());
        }
        let held = self.held_at(time).named();
        for ((limit, configured), (_, held)) in limits.named().into_iter().zip(held) {
            if held > configured {
                return Err(LimitError::BelowHeld { limit, held, configured });
            }
        }
        Ok(())
    }

    /// Carries out a change of limits; ignores one that [`check_limits`](Engine::check_limits)
    /// refuses. No timer fires before it, so that the state is that for which a start checked it.
    #[cold]
    pub(crate) fn set_limits(&mut self, m: &SetLimits) {
        if self.config.is_digested {
            self.digest = digest::fold_limits(self.digest, m);
        }
        let limits = EngineLimits::from(m);
        if limits == self.limits() || self.check_limits(&limits).is_err() {
            return;
        }
        self.drop_trades_beyond(limits.trades_max as usize);
        self.remake(limits);
    }

    /// Sets the time at which tables that a change of limits makes anew take their memory. Those
    /// that there are stay as they are.
    pub fn set_memory(&mut self, memory: Memory) {
        self.config.memory = memory;
    }

    /// Takes the memory of all tables now, as a new engine with [`Memory::Ahead`] does.
    pub fn take_memory(&mut self) {
        self.config.memory = Memory::Ahead;
        self.accounts.take_memory();
        self.positions.take_memory();
        self.orders.take_memory();
        self.trades.take_memory();
    }

    /// Makes all tables anew, by a snapshot: no order of rows in memory has a visible effect, as
    /// tests of restored engines show. Takes as long as a snapshot and its restoration.
    fn remake(&mut self, limits: EngineLimits) {
        let config = self.config.clone().with_limits(limits);
        self.config = config.clone();
        let mut state = Vec::new();
        self.snapshot(&mut state);
        let checkpoint_at = self.checkpoint_at;
        // The old tables go first: there may be no memory for both.
        let least = EngineConfig { memory: Memory::AsFilled, ..config.clone() };
        *self = Engine::new(least.with_limits(EngineLimits::MIN));
        *self = Engine::restore(config, &state).expect("an engine reads back its own snapshot");
        // This position may have a checkpoint, which a restored engine has behind it.
        if !plant::is(Plant::LimitsForgetCheckpoint) {
            self.checkpoint_at = checkpoint_at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_types::PartitionId;

    #[test]
    fn the_configurations_defaults_are_the_limits_before_the_first_command() {
        let config = EngineConfig::new(PartitionId(1));
        assert_eq!(config.limits(), EngineLimits::DEFAULT);
        assert_eq!(config.clone().with_limits(EngineLimits::DEFAULT), config);
        let limits = EngineLimits { trades_max: 5, positions_max: 3, ..EngineLimits::MAX };
        assert_eq!(config.with_limits(limits).limits(), limits);
        assert_eq!(EngineLimits::from(&limits.to_command()), limits);
    }

    #[test]
    fn each_limit_has_a_range_and_is_named() {
        let set: [fn(&mut EngineLimits) -> &mut u32; 7] = [
            |of| &mut of.accounts_max,
            |of| &mut of.sessions_max,
            |of| &mut of.firms_max,
            |of| &mut of.instruments_max,
            |of| &mut of.orders_max,
            |of| &mut of.positions_max,
            |of| &mut of.trades_max,
        ];
        for ((limit, max), set) in EngineLimits::MAX.named().into_iter().zip(set) {
            for configured in [0, max + 1] {
                let mut limits = EngineLimits::DEFAULT;
                *set(&mut limits) = configured;
                let refused = LimitError::OutOfRange { limit, configured, max };
                assert_eq!(limits.check_ranges(), Err(refused));
            }
        }
        for limits in [EngineLimits::MIN, EngineLimits::DEFAULT, EngineLimits::MAX] {
            assert_eq!(limits.check_ranges(), Ok(()));
        }
    }

    /// The table of `docs/operations.md` has this figure.
    #[test]
    fn the_answers_of_a_session_take_160_kib() {
        let one = EngineLimits { sessions_max: 1, ..EngineLimits::DEFAULT };
        assert_eq!(one.answer_bytes(), 160 << 10);
    }

    /// The table of `docs/operations.md` has these figures.
    #[test]
    fn bytes_of_a_unit_are_those_of_the_page() {
        let of = |change: fn(&mut EngineLimits)| {
            let mut more = EngineLimits::DEFAULT;
            change(&mut more);
            more.table_bytes() - EngineLimits::DEFAULT.table_bytes()
        };
        // Twice the limit, so that tables with sizes of powers of two double too.
        let told = [
            of(|l| l.accounts_max *= 2) / (1 << 20),
            of(|l| l.sessions_max *= 2) / (1 << 14),
            of(|l| l.firms_max *= 2) / (1 << 14),
            of(|l| l.instruments_max *= 2) / (1 << 14),
            of(|l| l.orders_max *= 2) / (1 << 20),
            of(|l| l.positions_max *= 2) / (1 << 21),
            of(|l| l.trades_max *= 2) / (1 << 20),
        ];
        assert_eq!(told, [136, 144, 72, 672, 152, 40, 64]);
    }
}
