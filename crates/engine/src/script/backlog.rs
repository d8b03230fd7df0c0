//! Backlogs: many filed changes of one instrument's phase that are due together, as behind a pause
//! of the node, and commands that come ahead of the ticks which make them.

use weir_types::{InstrumentId, Nanos, Phase, Switch};
use weir_wire::order_entry::MassCancel;
use weir_wire::reference::{SchedulePhase, SetPhase};
use weir_wire::{Command, Request};

use super::full::MILLISECOND;
use super::{HERE, OPERATOR, Script};

/// The commands of a backlog that are still to come: first the changes that are filed, then the
/// commands behind the last one's time.
#[derive(Clone, Copy)]
pub(super) struct Backlog {
    instrument_id: InstrumentId,
    changes_left: u8,
    commands_left: u8,
    /// The time of the next change, and the phase before it.
    at: Nanos,
    phase: Phase,
}

impl Script<'_> {
    pub(super) fn begin_backlog(&mut self) -> Command {
        let instrument_id = self.one_of(&[100, 100, 101].map(InstrumentId));
        let mut backlog = Backlog {
            instrument_id,
            changes_left: 6 + self.byte() % 12,
            commands_left: 3 + self.byte() % 6,
            at: Nanos(self.now.0 + 10 * MILLISECOND),
            phase: self.phase_of(instrument_id),
        };
        self.backlog_command(&mut backlog)
    }

    /// Returns the next command of a backlog.
    pub(super) fn backlog_command(&mut self, backlog: &mut Backlog) -> Command {
        let command = if backlog.changes_left > 0 {
            backlog.changes_left -= 1;
            self.change_of_backlog(backlog)
        } else {
            backlog.commands_left = backlog.commands_left.saturating_sub(1);
            self.now = self.now.max(backlog.at);
            self.command_on_backlog(backlog.instrument_id)
        };
        self.backlog = (backlog.commands_left > 0).then_some(*backlog);
        command
    }

    /// Returns the next change to file; the last one opens the instrument again.
    fn change_of_backlog(&mut self, backlog: &mut Backlog) -> Command {
        let usual = self.phase_after(backlog.phase);
        backlog.phase = if backlog.changes_left > 0 { usual } else { Phase::Continuous };
        backlog.at.0 += 1;
        Command::Request(Request::SchedulePhase(SchedulePhase {
            request_no: self.request_no(OPERATOR),
            at: backlog.at,
            session_id: OPERATOR,
            instrument_id: backlog.instrument_id,
            phase: backlog.phase,
        }))
    }

    /// Returns a command that comes ahead of the changes, or behind them.
    fn command_on_backlog(&mut self, instrument_id: InstrumentId) -> Command {
        match self.byte() {
            0..=63 => self.full_order(),
            64..=87 => self.cancel_order(),
            88..=103 => self.full_replace(),
            104..=119 => Command::Request(Request::SetPhase(SetPhase {
                request_no: self.request_no(OPERATOR),
                session_id: OPERATOR,
                instrument_id,
                phase: Phase::Halted,
                override_collars: Switch::Off,
            })),
            120..=139 => {
                let mass_cancel = self.new_mass_cancel();
                let partition_id = HERE;
                let mass_cancel = MassCancel { instrument_id, partition_id, ..mass_cancel };
                Command::Request(Request::MassCancel(mass_cancel))
            }
            140..=151 => self.schedule_phase(),
            152..=159 => Command::Request(Request::SchedulePhase(SchedulePhase {
                request_no: self.request_no(OPERATOR),
                at: Nanos(0),
                session_id: OPERATOR,
                instrument_id,
                phase: Phase::Closed,
            })),
            160..=175 => self.bust_trade(),
            176..=183 => self.kill_or_reference(),
            184..=199 => self.full_transfer(),
            200..=215 => self.full_definition(),
            216..=227 => self.next_phase(instrument_id),
            _ => self.usual_command(),
        }
    }
}
