//! Requests about many instruments: changes of their phases, and filed changes, alone and as lists.

use weir_types::{GroupId, InstrumentId, PartitionId, Phase, ScheduleStep, SessionId, Switch};
use weir_wire::reference::{ChangePhases, SchedulePhases};
use weir_wire::{Command, Request};

use super::{HERE, OPERATOR, Script};

impl Script<'_> {
    /// Returns a change of the phase of many instruments, one of which is in this phase, or the end
    /// of their halts.
    pub(super) fn change_phases(&mut self, before: Phase) -> Command {
        let session_id = self.rarely(OPERATOR, &[SessionId(1)]);
        let (how, stray) = (self.byte(), self.byte());
        let is_stopped = matches!(before, Phase::Halted | Phase::Closed);
        let resumes = is_stopped && how < 128 || how < 16;
        let usual = self.phase_after(before);
        let phase = if resumes { Phase::Closed } else { usual };
        let is_override = phase == Phase::Continuous && how % 4 == 3 || stray == 255;
        let switch = |is_on: bool| if is_on { Switch::On } else { Switch::Off };
        Command::Request(Request::ChangePhases(ChangePhases {
            request_no: self.request_no(session_id),
            session_id,
            group_id: self.group(),
            partition_id: self.rarely(HERE, &[PartitionId(2)]),
            phase: if stray == 254 { usual } else { phase },
            resumes: switch(resumes),
            override_collars: switch(is_override),
            through_call: switch(resumes && how % 2 == 1 || stray == 253),
        }))
    }

    fn group(&mut self) -> GroupId {
        self.one_of(&[0, 0, 7, 7, 8].map(GroupId))
    }

    /// Returns a filed change of many instruments or of one, or the first command of a list.
    pub(super) fn schedule_phases(&mut self, phase: Phase) -> Command {
        use ScheduleStep::{Add, Append, Begin, Clear, File, Replace};
        let step = self.one_of(&[File, File, File, File, Begin, Begin, Begin, Clear]);
        let step = self.rarely(step, &[Add, Append, Replace]);
        if step == Begin {
            self.list_left = 2 + self.byte() % 5;
        }
        self.schedule_step(step, phase)
    }

    /// Returns the next command of a list: one more change, or its end.
    pub(super) fn next_of_list(&mut self) -> Command {
        self.list_left -= 1;
        let phase = self.phase_after(Phase::Continuous);
        let step = match self.list_left {
            0 => self.one_of(&[ScheduleStep::Append, ScheduleStep::Replace]),
            _ => ScheduleStep::Add,
        };
        self.schedule_step(step, phase)
    }

    fn schedule_step(&mut self, step: ScheduleStep, phase: Phase) -> Command {
        let session_id = self.rarely(OPERATOR, &[SessionId(1)]);
        let (byte, stray) = (u64::from(self.byte()), self.byte());
        let at = if stray == 255 { self.now } else { self.moment(byte) };
        let is_of_one = stray < 48;
        let group_id = self.group();
        let count = self.listed.len() as u32 + u32::from(stray == 254);
        match step {
            _ if session_id != OPERATOR => {}
            ScheduleStep::Begin => self.listed.clear(),
            ScheduleStep::Add if at > self.now && !self.listed.contains(&at) => {
                self.listed.push(at);
            }
            _ => {}
        }
        let of_one = self.one_of(&[100, 101, 100, 102].map(InstrumentId));
        Command::Request(Request::SchedulePhases(SchedulePhases {
            request_no: self.request_no(session_id),
            at,
            session_id,
            instrument_id: if is_of_one { of_one } else { InstrumentId(0) },
            count,
            group_id: if is_of_one && stray < 46 { GroupId(0) } else { group_id },
            partition_id: self.rarely(HERE, &[PartitionId(2)]),
            phase,
            step,
        }))
    }
}
