//! The commands of a gateway that have no answer yet, in their order.
//!
//! INVARIANT: a session's request is in here once, and at most `max` are.

use std::collections::{BTreeMap, VecDeque};

use weir_types::{Nanos, Reason, RequestNo, SessionId};
use weir_wire::event::{OrderEvent, RequestDone, RequestRejected};
use weir_wire::{Event, PlainEvent, Request};

/// A command on its way over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkCommand {
    /// The request.
    pub request: Request,
    /// The number of its probe points; zero for none.
    pub trace_id: u64,
    /// The time at which the gateway handed it over, by the gateway's clock.
    pub t0: Nanos,
}

/// A kept command.
#[derive(Clone, Copy, Debug)]
struct KeptCommand {
    command: LinkCommand,
    /// False once it is answered; its room is freed with those before it.
    is_due: bool,
    /// True once it was sent by the present connection.
    is_sent: bool,
}

/// The commands without an answer.
#[derive(Debug, Default)]
pub struct Kept {
    commands: VecDeque<KeptCommand>,
    /// The number of the first command.
    first: u64,
    numbers: BTreeMap<(SessionId, RequestNo), u64>,
}

impl Kept {
    /// Keeps a command; returns its number, or `None` if the request is here already.
    pub fn add(&mut self, command: LinkCommand) -> Option<u64> {
        let key = (command.request.session_id(), command.request.request_no());
        if self.numbers.contains_key(&key) {
            return None;
        }
        let number = self.first + self.commands.len() as u64;
        self.numbers.insert(key, number);
        self.commands.push_back(KeptCommand { command, is_due: true, is_sent: false });
        Some(number)
    }

    /// Returns the number of commands, with answered ones behind one that is not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Returns true without commands.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Returns the number of the first command, and that after the last.
    #[must_use]
    pub fn range(&self) -> (u64, u64) {
        (self.first, self.first + self.commands.len() as u64)
    }

    /// Returns a command by its number, if it has no answer and was not sent by the present
    /// connection.
    #[must_use]
    pub fn unsent(&self, number: u64) -> Option<&LinkCommand> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let kept = self.commands.get(index).filter(|kept| kept.is_due && !kept.is_sent);
        kept.map(|kept| &kept.command)
    }

    /// Records that a command is sent.
    pub fn sent(&mut self, number: u64) {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(kept) = index.and_then(|index| self.commands.get_mut(index)) {
            kept.is_sent = true;
        }
    }

    /// Records that nothing is sent by the present connection.
    pub fn begin_again(&mut self) {
        self.commands.iter_mut().for_each(|kept| kept.is_sent = false);
    }

    /// Removes a command that is answered; true if it was here.
    pub fn settle(&mut self, session_id: SessionId, request_no: RequestNo) -> bool {
        let Some(number) = self.numbers.remove(&(session_id, request_no)) else { return false };
        let index = usize::try_from(number - self.first).expect("an index");
        self.commands[index].is_due = false;
        while self.commands.front().is_some_and(|kept| !kept.is_due) {
            self.commands.pop_front();
            self.first += 1;
        }
        true
    }

    /// Removes the commands of a session.
    pub fn forget(&mut self, session_id: SessionId) {
        let range = (session_id, RequestNo(0))..=(session_id, RequestNo(u64::MAX));
        let keys: Vec<_> = self.numbers.range(range).map(|(key, _)| *key).collect();
        for (session_id, request_no) in keys {
            self.settle(session_id, request_no);
        }
    }

    /// Removes all commands.
    pub fn clear(&mut self) {
        self.first += self.commands.len() as u64;
        self.commands.clear();
        self.numbers.clear();
    }
}

/// The addressee of a record, and the request that the record answers; zero for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addressed {
    /// The session.
    pub session_id: SessionId,
    /// The request of which this can be the first answer.
    pub answers: RequestNo,
}

/// Returns the addressee of a record; `None` for a record without one. The reports of a mass
/// cancel's orders are no answers to it.
#[must_use]
pub fn addressed(record: &[u8]) -> Option<Addressed> {
    let Ok(Event::Plain(event)) = Event::decode(record) else { return None };
    let (session_id, answers) = match event {
        PlainEvent::OrderEvent(OrderEvent { session_id, request_no, reason, .. }) => {
            let is_answer = reason != Reason::MassCancel;
            (session_id, if is_answer { request_no } else { RequestNo::NONE })
        }
        PlainEvent::RequestRejected(RequestRejected { session_id, request_no, .. })
        | PlainEvent::RequestDone(RequestDone { session_id, request_no, .. }) => {
            (session_id, request_no)
        }
        PlainEvent::TradeBusted(busted) => (busted.session_id, RequestNo::NONE),
        _ => return None,
    };
    Some(Addressed { session_id, answers })
}
