//! Cancel on disconnect: the choices and losses of sessions, sequenced in each trading partition.
//!
//! A partition's log holds a session's choice before the session's first request, until the loss
//! of the session. The loss itself may be queued, or not yet noticed, when the process ends. So at
//! a start the choices in the partitions' logs name the sessions whose orders must go, unless they
//! return in time.
//!
//! INVARIANT: each partition gets the choices and losses of a session in order, behind its
//! definition, and its requests behind them: while one waits for room, no request enters the
//! partition's ring.

use std::collections::VecDeque;

use weir_partition::handoff::Submission;
use weir_types::{Nanos, Role, SessionId, Switch};
use weir_wire::Command;
use weir_wire::reference::{SessionChoice, SessionLost};

use super::plant::{self, Plant};
use super::{Gateway, Port};

/// Absent sessions that are lost in one cycle: their losses wait in front of orders.
const ABSENT_MAX: usize = 64;

/// A choice or loss that waits for room in a partition's ring.
#[derive(Clone, Copy, Debug)]
pub(super) enum SessionNotice {
    Choice(SessionChoice),
    Loss(SessionLost),
}

impl SessionNotice {
    fn session_id(&self) -> SessionId {
        match self {
            SessionNotice::Choice(choice) => choice.session_id,
            SessionNotice::Loss(lost) => lost.session_id,
        }
    }
}

impl From<SessionNotice> for Command {
    fn from(notice: SessionNotice) -> Command {
        match notice {
            SessionNotice::Choice(choice) => Command::SessionChoice(choice),
            SessionNotice::Loss(lost) => Command::SessionLost(lost),
        }
    }
}

/// Sessions with cancel-on-disconnect that were logged on when an earlier run ended.
#[derive(Debug)]
pub(super) struct AbsentSessions {
    ids: VecDeque<SessionId>,
    /// The time that they have, from the first cycle on.
    return_within: Nanos,
    return_by: Option<Nanos>,
}

impl AbsentSessions {
    pub(super) fn new(return_within: Nanos) -> AbsentSessions {
        AbsentSessions { ids: VecDeque::new(), return_within, return_by: None }
    }

    /// Returns the end of the time that they have; `None` when none is left.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.return_by.filter(|_| !self.ids.is_empty())
    }

    fn is_over(&mut self, now: Nanos) -> bool {
        let return_by = *self.return_by.get_or_insert(Nanos(now.0 + self.return_within.0));
        now >= return_by && !plant::is(Plant::AbsentNeverLost)
    }
}

impl Gateway {
    /// Records that a partition's log holds a session's choice of cancel-on-disconnect and no loss
    /// of the session since. Called after the past events are processed.
    pub fn await_return(&mut self, port: usize, id: SessionId) {
        let session = self.sessions.entry(id);
        let is_known = session.choices.contains(&Switch::On);
        session.choices[port] = Switch::On;
        if !is_known {
            self.absent.ids.push_back(id);
        }
    }

    /// Submits a session's choice to the trading partitions whose logs hold another one.
    pub(super) fn submit_choice(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let choice = match session.role {
            Role::Trader => session.cancel_on_disconnect,
            _ => Switch::Off,
        };
        let ports = session.choices.iter_mut().zip(&mut self.ports);
        // Of a session at a linked port its binding has the choice.
        let is_here = |port: &Port| port.ring.partition_id.0 != 0 && port.link.is_none();
        for (held, port) in ports.filter(|(_, port)| is_here(port)) {
            if *held != choice {
                *held = choice;
                if choice == Switch::Off && plant::is(Plant::ChoiceNotRevoked) {
                    continue;
                }
                let choice = SessionChoice { session_id: id, cancel_on_disconnect: choice };
                if !plant::is(Plant::ChoiceForgotten) {
                    port.notify(SessionNotice::Choice(choice));
                }
            }
        }
        self.submit_notices();
    }

    /// Submits the loss of a session to the partitions whose logs hold its choice of
    /// cancel-on-disconnect.
    pub(super) fn submit_loss(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        for (held, port) in session.choices.iter_mut().zip(&mut self.ports) {
            if std::mem::replace(held, Switch::Off) == Switch::On
                && !plant::is(Plant::SessionLossForgotten)
            {
                let lost = SessionLost { session_id: id, cancel_on_disconnect: Switch::On };
                port.notify(SessionNotice::Loss(lost));
            }
        }
        self.unbind(id, Switch::On);
    }

    /// Submits choices and losses to the partitions while there is room; the rest waits.
    pub(super) fn submit_notices(&mut self) {
        for port in 0..self.ports.len() {
            if !self.ports[port].notices.is_empty() && self.has_definitions(port) {
                self.ports[port].submit_notices();
            }
        }
    }

    /// Submits the losses of sessions that have not returned in time after the start, a limited
    /// number; returns the number.
    pub(super) fn lose_absent(&mut self, now: Nanos) -> usize {
        if self.absent.ids.is_empty() || !self.absent.is_over(now) {
            return 0;
        }
        let count = self.absent.ids.len().min(ABSENT_MAX);
        for id in self.absent.ids.drain(..count).collect::<Vec<_>>() {
            let has_returned =
                self.sessions.get(id).is_some_and(|session| session.connection.is_some());
            if !has_returned || plant::is(Plant::ReturnedLostAnyway) {
                self.submit_loss(id);
            }
        }
        count
    }
}

impl Port {
    /// Adds a notice to those that wait. It takes the place of an earlier choice of the session,
    /// and a loss that of an earlier loss too: so at most two of each session wait.
    fn notify(&mut self, notice: SessionNotice) {
        let id = notice.session_id();
        let is_loss = matches!(notice, SessionNotice::Loss(_));
        self.notices.retain(|earlier| {
            let is_replaced = is_loss || matches!(earlier, SessionNotice::Choice(_));
            earlier.session_id() != id || !is_replaced
        });
        self.notices.push_back(notice);
    }

    fn submit_notices(&mut self) {
        while let Some(notice) = self.notices.front().copied() {
            let submission = Submission::internal(notice.into());
            if self.ring.submissions.push(submission).is_err() {
                break;
            }
            self.handed_over = true;
            self.notices.pop_front();
        }
    }
}
