//! The operator's client: reference data, transfers, phases, busts, kill switches, one request at a
//! time.
//!
//! An [`Admin`] is a client with one operator session; it waits for each answer, or for those of
//! several partitions together ([`Admin::request_each`]). A request that the node refuses is
//! [`ClientError::Refused`], with the engine's reason. It retries in one case only: partitions
//! import a definition a moment after the control log accepted it, so requests that a partition
//! refused for an unknown definition are repeated for a while. The gateway knows the control log,
//! so its refusals are final.
//!
//! A request that is refused changed nothing. After any other error, of time or of the connection,
//! the request may be in the log and be carried out.

mod several;

use std::time::Duration;

use weir_types::{
    AccountId, Cash, GroupId, InstrumentId, MatchId, Nanos, PartitionId, Phase, Position, Price,
    Reason, RequestNo, ScheduleStep, SessionId, Switch,
};
use weir_wire::Request;
use weir_wire::event::RequestDone;
use weir_wire::reference::{
    AccountInquiry, BustTrade, ChangePhases, DefineAccount, DefineFirm, DefineInstrument,
    DefineSession, KillSwitch, NEW, ResumeTrading, SCHEDULE_LIST_MAX, SchedulePhase,
    SchedulePhases, SetPhase, SetReference, Transfer, all_fields, is_change,
};

use crate::client::{Client, Incoming};
use crate::clock::unix_time;
use crate::connection::{Limits, Target};
use crate::error::ClientError;
use crate::key::Key;
pub use crate::request::switch;
use crate::session::{Session, SessionConfig, SessionEvent, Submit, Times};

pub use several::PartitionOutcome;

/// The control partition: firms, accounts, sessions and instruments.
pub const CONTROL: PartitionId = PartitionId(0);

/// The longest time for a partition to import a definition.
const IMPORT_TIMEOUT: Duration = Duration::from_secs(5);
const IMPORT_RETRY: Duration = Duration::from_millis(5);

/// A connected operator session.
#[derive(Debug)]
pub struct Admin {
    client: Client,
    session_id: SessionId,
    timeout: Duration,
    clock_ahead_ns: i64,
}

/// The instruments of a partition whose changes of phase are filed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleOwner {
    /// The partition.
    pub partition_id: PartitionId,
    /// The group; none for all instruments, or for one.
    pub group_id: GroupId,
    /// The only instrument; none for a group or all.
    pub instrument_id: InstrumentId,
}

impl ScheduleOwner {
    /// Returns a request about its filed changes, without a change.
    fn schedule(self) -> SchedulePhases {
        SchedulePhases {
            request_no: RequestNo::NONE,
            at: Nanos(0),
            session_id: SessionId::NONE,
            instrument_id: self.instrument_id,
            count: 0,
            group_id: self.group_id,
            partition_id: self.partition_id,
            phase: Phase::Closed,
            step: ScheduleStep::File,
        }
    }
}

/// The outcome of a change of many instruments in a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhasesChanged {
    /// Instruments whose phase changed.
    pub changed: u64,
    /// Instruments for which the change would have been refused: they are as they were.
    pub skipped: u64,
    /// Orders that the changes ended.
    pub ended: u64,
    /// The position in the partition's log by which the change was made in all of them.
    pub position: Position,
}

impl From<&RequestDone> for PhasesChanged {
    fn from(done: &RequestDone) -> PhasesChanged {
        PhasesChanged {
            changed: done.changed_count.into(),
            skipped: done.skipped_count.into(),
            ended: done.affected_count,
            position: done.position,
        }
    }
}

/// An account's cash in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountCash {
    /// All of it, below zero for a debt.
    pub cash: Cash,
    /// The part that its orders reserve.
    pub reserved: Cash,
    /// Its last transfer in the partition.
    pub last_transfer: Option<LastTransfer>,
}

impl AccountCash {
    /// Returns the cash that no order reserves; below zero for a debt.
    #[must_use]
    pub fn free(&self) -> Cash {
        Cash(self.cash.0.saturating_sub(self.reserved.0))
    }
}

/// The last transfer of an account in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastTransfer {
    /// Its number, above zero.
    pub transfer_id: u64,
    /// The cash that came in; below zero for cash that went out.
    pub cash: Cash,
    /// The partition at its other end; none for outside.
    pub peer: PartitionId,
}

impl From<&RequestDone> for AccountCash {
    fn from(done: &RequestDone) -> AccountCash {
        let last = LastTransfer {
            transfer_id: done.last_transfer_id,
            cash: done.last_transfer_cash,
            peer: done.last_transfer_peer,
        };
        AccountCash {
            cash: done.cash,
            reserved: done.reserved,
            last_transfer: (last.transfer_id > 0).then_some(last),
        }
    }
}

enum Answer {
    Done(RequestDone),
    /// By an engine, which may not have a definition yet.
    Rejected(Reason),
    /// By the gateway, before any log took the request; with the field.
    Refused(Reason, String),
}

impl Admin {
    /// Connects and opens the operator's session; `timeout` applies to each answer. Requests that
    /// the node carries out in parts (a change of many instruments, a mass cancel, a kill switch
    /// that cancels) are waited for as long as the connection lives.
    ///
    /// # Errors
    /// As [`Client::log_on`].
    pub fn connect(
        target: impl Into<Target>,
        session_id: SessionId,
        key: impl Into<Key>,
        timeout: Duration,
    ) -> Result<Admin, ClientError> {
        Admin::connect_as(target, SessionConfig::new(session_id, key), timeout)
    }

    /// As [`Admin::connect`], with all options of a session: [`SessionConfig::takeover`] for one
    /// that a connection keeps.
    ///
    /// # Errors
    /// As [`Client::log_on`].
    pub fn connect_as(
        target: impl Into<Target>,
        config: SessionConfig,
        timeout: Duration,
    ) -> Result<Admin, ClientError> {
        let mut client = Client::connect(target, Limits::default())?;
        let session_id = config.session_id;
        let mut clock_ahead_ns = 0;
        client.open_session(Session::new(config), timeout, &mut |incoming, _| {
            if let Incoming::Session(_, SessionEvent::Opened { ack, .. }) = incoming {
                let [node, own] = [ack.server_time, unix_time()].map(|time| time.0.cast_signed());
                clock_ahead_ns = node.saturating_sub(own);
            }
        })?;
        Ok(Admin { client, session_id, timeout, clock_ahead_ns })
    }

    /// The nanoseconds by which the node's wall clock was ahead of this machine's at the logon, the
    /// way of its answer included; negative if it was behind.
    #[must_use]
    pub fn clock_ahead_ns(&self) -> i64 {
        self.clock_ahead_ns
    }

    /// The partitions other than the control log, ascending.
    #[must_use]
    pub fn partitions(&self) -> Vec<PartitionId> {
        let session = self.client.session(self.session_id);
        session
            .into_iter()
            .flat_map(Session::partitions)
            .filter(|partition_id| *partition_id != CONTROL)
            .collect()
    }

    /// Defines an instrument, or changes the fields that the definition sets. A complete definition
    /// of an instrument that exists changes all its fields. A definition that names no partition is
    /// one for that in which the instrument stands; of a new one the node's configuration chooses.
    ///
    /// # Errors
    /// [`ClientError::Refused`], [`ClientError::Timeout`], or those of the connection.
    pub fn define_instrument(&mut self, definition: DefineInstrument) -> Result<(), ClientError> {
        let change = DefineInstrument { fields: all_fields::<DefineInstrument>(), ..definition };
        let (partition_id, request) = (change.partition_id, Request::DefineInstrument);
        if is_change(definition.fields) {
            return self.request(partition_id, request(definition)).map(drop);
        }
        match self.request(CONTROL, request(definition)) {
            Err(ClientError::Refused { reason: Reason::AlreadyDefined, .. })
                if definition.fields == 0 =>
            {
                self.request(partition_id, request(change)).map(drop)
            }
            answer => answer.map(drop),
        }
    }

    /// Defines a firm, or changes the fields that the definition sets. A complete definition of a
    /// firm that exists changes all its fields; so the next two.
    ///
    /// # Errors
    /// As [`Admin::define_instrument`].
    pub fn define_firm(&mut self, definition: DefineFirm) -> Result<(), ClientError> {
        let request = |fields| Request::DefineFirm(DefineFirm { fields, ..definition });
        match definition.fields {
            0 => self.define_all(request(NEW), request(all_fields::<DefineFirm>())),
            fields => self.request(CONTROL, request(fields)).map(drop),
        }
    }

    /// Defines an account.
    ///
    /// # Errors
    /// As [`Admin::define_instrument`].
    pub fn define_account(&mut self, definition: DefineAccount) -> Result<(), ClientError> {
        let request = |fields| Request::DefineAccount(DefineAccount { fields, ..definition });
        match definition.fields {
            0 => self.define_all(request(NEW), request(all_fields::<DefineAccount>())),
            fields => self.request(CONTROL, request(fields)).map(drop),
        }
    }

    /// Defines a session and its key.
    ///
    /// # Errors
    /// As [`Admin::define_instrument`].
    pub fn define_session(&mut self, definition: DefineSession) -> Result<(), ClientError> {
        let request = |fields| Request::DefineSession(DefineSession { fields, ..definition });
        match definition.fields {
            0 => self.define_all(request(NEW), request(all_fields::<DefineSession>())),
            fields => self.request(CONTROL, request(fields)).map(drop),
        }
    }

    /// Sends a definition as that of something new, and if it exists as a change.
    fn define_all(&mut self, new: Request, change: Request) -> Result<(), ClientError> {
        match self.request(CONTROL, new) {
            Err(ClientError::Refused { reason: Reason::AlreadyDefined, .. }) => {
                self.request(CONTROL, change).map(drop)
            }
            answer => answer.map(drop),
        }
    }

    /// Moves cash or a position into or out of an account of a partition.
    ///
    /// # Errors
    /// As [`Admin::define_instrument`].
    pub fn transfer(&mut self, transfer: Transfer) -> Result<(), ClientError> {
        self.request(transfer.partition_id, Request::Transfer(transfer)).map(drop)
    }

    /// Asks for an account's cash in a partition.
    ///
    /// # Errors
    /// As [`Admin::define_instrument`].
    pub fn account_cash(
        &mut self,
        partition_id: PartitionId,
        account_id: AccountId,
    ) -> Result<AccountCash, ClientError> {
        let (request_no, session_id) = (RequestNo::NONE, SessionId::NONE);
        let inquiry = AccountInquiry { request_no, session_id, account_id, partition_id };
        self.ask(partition_id, Request::AccountInquiry(inquiry)).map(|done| (&done).into())
    }

    /// Changes the phase of an instrument of a partition, within its collars; returns the phase
    /// reached: a collar may begin a volatility call instead of continuous trading.
    ///
    /// # Errors
    /// As [`Admin::define_instrument`].
    pub fn set_phase(
        &mut self,
        partition_id: PartitionId,
        instrument_id: InstrumentId,
        phase: Phase,
    ) -> Result<Phase, ClientError> {
        self.change_phase(
            partition_id,
            Request::SetPhase(SetPhase {
                request_no: RequestNo::NONE,
                session_id: SessionId::NONE,
                instrument_id,
                phase,
                override_collars: Switch::Off,
            }),
        )
    }

    /// Lifts the halt of an instrument of a partition, `through_call` from continuous trading
    /// through a volatility call; returns the phase reached.
    ///
    /// # Errors
    /// As [`Admin::define_instrument`].
    pub fn resume_trading(
        &mut self,
        partition_id: PartitionId,
        instrument_id: InstrumentId,
        through_call: bool,
    ) -> Result<Phase, ClientError> {
        self.change_phase(
            partition_id,
            Request::ResumeTrading(ResumeTrading {
                request_no: RequestNo::NONE,
                session_id: SessionId::NONE,
                instrument_id,
                through_call: switch(through_call),
            }),
        )
    }

    /// Sends a request that changes an instrument's phase; returns the phase reached.
    ///
    /// # Errors
    /// As [`Admin::define_instrument`]; [`ClientError::PhaseNotTold`] if the node is of before the
    /// answer told it.
    pub fn change_phase(
        &mut self,
        partition_id: PartitionId,
        request: Request,
    ) -> Result<Phase, ClientError> {
        let done = self.ask(partition_id, request)?;
        done.phase_reached.phase().ok_or(ClientError::PhaseNotTold { request: request.name() })
    }

    /// Changes the phase of all instruments of a group or of a partition, or lifts their halts, by
    /// one request; returns when the change is made in all of them. No order sees some of them
    /// changed and others not.
    ///
    /// # Errors
    /// [`ClientError::Refused`]: nothing is changed then. Those of the connection, behind which the
    /// change may have been made.
    pub fn change_phases(&mut self, change: ChangePhases) -> Result<PhasesChanged, ClientError> {
        let done = self.ask(change.partition_id, Request::ChangePhases(change))?;
        Ok(PhasesChanged::from(&done))
    }

    /// Schedules a change of phase at log time `at`; replaces one scheduled for the same time.
    ///
    /// # Errors
    /// As [`Admin::define_instrument`].
    pub fn schedule_phase(
        &mut self,
        partition_id: PartitionId,
        instrument_id: InstrumentId,
        at: Nanos,
        phase: Phase,
    ) -> Result<(), ClientError> {
        let (request_no, session_id) = (RequestNo::NONE, SessionId::NONE);
        let schedule = SchedulePhase { request_no, at, session_id, instrument_id, phase };
        self.request(partition_id, Request::SchedulePhase(schedule)).map(drop)
    }

    /// Clears an instrument's schedule of phase changes; returns the number of changes removed.
    ///
    /// # Errors
    /// As [`Admin::define_instrument`].
    pub fn clear_schedule(
        &mut self,
        partition_id: PartitionId,
        instrument_id: InstrumentId,
    ) -> Result<u64, ClientError> {
        let schedule = SchedulePhase {
            request_no: RequestNo::NONE,
            at: Nanos(0),
            session_id: SessionId::NONE,
            instrument_id,
            phase: Phase::Closed,
        };
        self.request(partition_id, Request::SchedulePhase(schedule))
    }

    /// Files at most [`SCHEDULE_LIST_MAX`] changes of the phase of a group, of all instruments of a
    /// partition or of one instrument, all or none. They take the place of those that are filed
    /// for later than `replaces_behind`, if that is given, and than log time: a caller that leaves
    /// changes out because they are past names its own time. Nodes with rules of before version 8
    /// clear all behind log time. No two may have one time. Returns the number of changes added,
    /// or else cleared.
    ///
    /// # Errors
    /// As [`Admin::define_instrument`]. Nothing is filed or cleared behind
    /// [`ClientError::Refused`]; behind the others the changes may have been filed.
    /// More changes than a list holds are [`Reason::LimitReached`] before anything is sent.
    pub fn schedule_phases(
        &mut self,
        owner: ScheduleOwner,
        changes: &[(Nanos, Phase)],
        replaces_behind: Option<Nanos>,
    ) -> Result<u64, ClientError> {
        let (step, at) = match replaces_behind {
            Some(behind) => (ScheduleStep::Replace, behind),
            None => (ScheduleStep::Append, Nanos(0)),
        };
        let count = u32::try_from(changes.len()).unwrap_or(u32::MAX);
        if changes.len() > SCHEDULE_LIST_MAX {
            let (request, reason) = ("SchedulePhases", Reason::LimitReached);
            let subject = format!("{count} changes, at most {SCHEDULE_LIST_MAX} are filed at once");
            return Err(ClientError::Refused { request, reason, subject });
        }
        self.schedule(SchedulePhases { step: ScheduleStep::Begin, ..owner.schedule() })?;
        for (at, phase) in changes {
            let (at, phase, step) = (*at, *phase, ScheduleStep::Add);
            self.schedule(SchedulePhases { at, phase, step, ..owner.schedule() })?;
        }
        self.schedule(SchedulePhases { at, step, count, ..owner.schedule() })
    }

    /// Files a change of phase at log time `at`; replaces one of the same owner and time. That of
    /// an instrument goes by the request that older nodes know too.
    ///
    /// # Errors
    /// As [`Admin::define_instrument`].
    pub fn file_phase(
        &mut self,
        owner: ScheduleOwner,
        at: Nanos,
        phase: Phase,
    ) -> Result<(), ClientError> {
        // Of that request time zero clears the schedule.
        if !owner.instrument_id.is_none() && at != Nanos(0) {
            return self.schedule_phase(owner.partition_id, owner.instrument_id, at, phase);
        }
        let step = ScheduleStep::File;
        self.schedule(SchedulePhases { at, phase, step, ..owner.schedule() }).map(drop)
    }

    /// Clears the filed changes of a group, of an instrument, or of all instruments of a partition
    /// and all its groups; returns their number. Those of an instrument are its own: those of its
    /// group and of all instruments stay.
    ///
    /// # Errors
    /// As [`Admin::define_instrument`].
    pub fn clear_schedules(&mut self, owner: ScheduleOwner) -> Result<u64, ClientError> {
        if !owner.instrument_id.is_none() {
            return self.clear_schedule(owner.partition_id, owner.instrument_id);
        }
        self.schedule(SchedulePhases { step: ScheduleStep::Clear, ..owner.schedule() })
    }

    fn schedule(&mut self, schedule: SchedulePhases) -> Result<u64, ClientError> {
        self.request(schedule.partition_id, Request::SchedulePhases(schedule))
    }

    /// Busts a trade of a partition; with `force` also if an account has spent what returns.
    ///
    /// # Errors
    /// As [`Admin::define_instrument`].
    pub fn bust_trade(
        &mut self,
        partition_id: PartitionId,
        match_id: MatchId,
        force: Switch,
    ) -> Result<(), ClientError> {
        let (request_no, session_id) = (RequestNo::NONE, SessionId::NONE);
        let bust = BustTrade { request_no, match_id, session_id, partition_id, force };
        self.request(partition_id, Request::BustTrade(bust)).map(drop)
    }

    /// Sets the last price, the static reference, or both, of an instrument of a partition: `None`
    /// leaves one as it is, zero takes it away.
    ///
    /// # Errors
    /// As [`Admin::define_instrument`].
    pub fn set_reference(
        &mut self,
        partition_id: PartitionId,
        instrument_id: InstrumentId,
        last_px: Option<Price>,
        static_px: Option<Price>,
    ) -> Result<(), ClientError> {
        let set = SetReference {
            request_no: RequestNo::NONE,
            last_px: last_px.unwrap_or(Price(0)),
            static_px: static_px.unwrap_or(Price(0)),
            session_id: SessionId::NONE,
            instrument_id,
            sets_last: switch(last_px.is_some()),
            sets_static: switch(static_px.is_some()),
        };
        self.request(partition_id, Request::SetReference(set)).map(drop)
    }

    /// Stops entry in a partition for a session, an account, a firm or all, or allows it again;
    /// returns the number of orders cancelled.
    ///
    /// # Errors
    /// As [`Admin::define_instrument`].
    pub fn kill_switch(&mut self, kill: KillSwitch) -> Result<u64, ClientError> {
        self.request(kill.partition_id, Request::KillSwitch(kill))
    }

    /// Sends any request, waits for its outcome and returns the number of orders that it changed.
    ///
    /// # Errors
    /// As [`Admin::define_instrument`].
    pub fn request(
        &mut self,
        partition_id: PartitionId,
        request: Request,
    ) -> Result<u64, ClientError> {
        self.ask(partition_id, request).map(|done| done.affected_count)
    }

    fn ask(
        &mut self,
        partition_id: PartitionId,
        request: Request,
    ) -> Result<RequestDone, ClientError> {
        let clock = self.client.clock();
        let deadline = Nanos(clock.now().0 + crate::clock::nanos(IMPORT_TIMEOUT).0);
        loop {
            let (reason, subject) = match self.ask_once(partition_id, request)? {
                Answer::Done(done) => return Ok(done),
                Answer::Rejected(reason)
                    if partition_id != CONTROL
                        && is_import_pending(reason)
                        && clock.now() < deadline =>
                {
                    self.client.poll(IMPORT_RETRY, |_, _| {})?;
                    continue;
                }
                Answer::Rejected(reason) => (reason, String::new()),
                Answer::Refused(reason, subject) => (reason, subject),
            };
            return Err(ClientError::Refused { request: request.name(), reason, subject });
        }
    }

    fn ask_once(
        &mut self,
        partition_id: PartitionId,
        request: Request,
    ) -> Result<Answer, ClientError> {
        let clock = self.client.clock();
        let now = clock.now();
        let times = Times { due: now, sent: now };
        let Submit::Sent(request_no) =
            self.client.submit(self.session_id, partition_id, request, times)
        else {
            return Err(ClientError::NotOpen(self.session_id));
        };
        let is_limited = !is_done_in_parts(&request);
        let mut answer = None;
        while answer.is_none() {
            let waited = if is_limited { clock.now().since(now) } else { Nanos(0) };
            let left = self.timeout.saturating_sub(Duration::from_nanos(waited.0));
            if left.is_zero() {
                let waiting_for = request.name();
                return Err(ClientError::Timeout { waiting_for, timeout: self.timeout });
            }
            self.client.poll(left, |incoming, _| {
                if let Incoming::Session(_, event) = incoming {
                    let its = answer_of(&event).filter(|(number, _)| *number == request_no);
                    answer = answer.take().or(its.map(|(_, answer)| answer));
                }
            })?;
        }
        Ok(answer.expect("the loop ends with an answer"))
    }

    /// Closes the session.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn close(self) -> Result<(), ClientError> {
        self.client.log_out(self.timeout)
    }
}

/// Returns true for a request that is answered when the last of its parts is done: their number,
/// and so the time that they take, has no limit. The loss of a node that went silent is told by
/// heartbeats.
fn is_done_in_parts(request: &Request) -> bool {
    match request {
        Request::ChangePhases(_) | Request::MassCancel(_) => true,
        Request::KillSwitch(kill) => kill.cancel_orders == Switch::On,
        _ => false,
    }
}

/// Returns true for a refusal that a definition still to be imported would explain.
fn is_import_pending(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::UnknownInstrument
            | Reason::UnknownAccount
            | Reason::UnknownFirm
            | Reason::UnknownSession
    )
}

/// Returns the answer in an event, with the number of its request.
fn answer_of(event: &SessionEvent) -> Option<(RequestNo, Answer)> {
    let (answered, answer) = match event {
        SessionEvent::Done { done, answered } => (answered, Answer::Done(*done)),
        SessionEvent::Rejected { rejected, answered } => {
            (answered, Answer::Rejected(rejected.reason))
        }
        SessionEvent::Refused { reject, answered } => {
            (answered, Answer::Refused(reject.reason, reject.field.to_string()))
        }
        _ => return None,
    };
    Some((answered.as_ref()?.request_no, answer))
}

#[cfg(test)]
mod tests;
