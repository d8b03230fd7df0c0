//! The commands of a gateway that have no answer yet, in their order.
//!
//! INVARIANT: a session's request is in here once, and at most `max` are.

use std::collections::BTreeMap;

use weir_types::{Nanos, RequestNo, SessionId};
use weir_wire::Request;

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
    /// The generation by which its session was held when it came.
    generation: u64,
    /// True once it was sent by the present connection.
    is_sent: bool,
    /// True once it was sent by an earlier connection, or before the end of an epoch.
    was_sent: bool,
}

/// The commands without an answer.
#[derive(Debug, Default)]
pub struct Kept {
    /// By their numbers. An answered one leaves at once, also from the middle: it takes no room in
    /// the window of those behind it.
    commands: BTreeMap<u64, KeptCommand>,
    next: u64,
    numbers: BTreeMap<(SessionId, RequestNo), u64>,
}

impl Kept {
    /// Keeps a command of a session that is held by this generation; returns its number, or `None`
    /// if the request is here already.
    pub fn add(&mut self, command: LinkCommand, generation: u64) -> Option<u64> {
        let key = (command.request.session_id(), command.request.request_no());
        if self.numbers.contains_key(&key) {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.numbers.insert(key, number);
        self.commands
            .insert(number, KeptCommand { command, generation, is_sent: false, was_sent: false });
        Some(number)
    }

    /// Returns the number of commands.
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
        let first = self.commands.first_key_value().map_or(self.next, |(number, _)| *number);
        (first, self.next)
    }

    /// Returns the first command from a number on that was not sent by the present connection, with
    /// its number.
    #[must_use]
    pub fn unsent(&self, from: u64) -> Option<(u64, &LinkCommand)> {
        let mut unsent = self.commands.range(from..).filter(|(_, kept)| !kept.is_sent);
        unsent.next().map(|(number, kept)| (*number, &kept.command))
    }

    /// Returns the highest request number of a session's commands; none without one.
    #[must_use]
    pub fn highest_of(&self, session_id: SessionId) -> RequestNo {
        let range = (session_id, RequestNo(0))..=(session_id, RequestNo(u64::MAX));
        let last = self.numbers.range(range).next_back();
        last.map_or(RequestNo::NONE, |((_, request_no), _)| *request_no)
    }

    /// Records that a command is sent.
    pub fn sent(&mut self, number: u64) {
        if let Some(kept) = self.commands.get_mut(&number) {
            kept.is_sent = true;
        }
    }

    /// Records that nothing is sent by the present connection.
    pub fn begin_again(&mut self) {
        for kept in self.commands.values_mut() {
            kept.was_sent |= std::mem::take(&mut kept.is_sent);
        }
    }

    /// Returns true if the partition may have had a command before the present connection.
    #[must_use]
    pub fn was_sent(&self, number: u64) -> bool {
        self.commands.get(&number).is_some_and(|kept| kept.was_sent)
    }

    /// Removes a command that is refused; true if it was here. A refusal of a copy from before the
    /// command was kept is none of it: the session has left and come back, and sent it again.
    pub fn refuse(
        &mut self,
        session_id: SessionId,
        request_no: RequestNo,
        generation: u64,
    ) -> bool {
        let number = self.numbers.get(&(session_id, request_no));
        let kept = number.and_then(|number| self.commands.get(number));
        let is_its = kept.is_some_and(|kept| kept.generation <= generation);
        is_its && self.settle(session_id, request_no)
    }

    /// Removes a command that is answered; true if it was here.
    pub fn settle(&mut self, session_id: SessionId, request_no: RequestNo) -> bool {
        let Some(number) = self.numbers.remove(&(session_id, request_no)) else { return false };
        self.commands.remove(&number).is_some()
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
        self.commands.clear();
        self.numbers.clear();
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{ClOrdId, InstrumentId, OrderId};
    use weir_wire::order_entry::CancelOrder;

    use super::*;

    fn command(session_id: u32, request_no: u64) -> LinkCommand {
        let request = Request::CancelOrder(CancelOrder {
            request_no: RequestNo(request_no),
            order_id: OrderId(0),
            cl_ord_id: ClOrdId::NONE,
            orig_cl_ord_id: ClOrdId::NONE,
            sending_time: Nanos(0),
            session_id: SessionId(session_id),
            instrument_id: InstrumentId(1),
        });
        LinkCommand { request, trace_id: 0, t0: Nanos(0) }
    }

    /// One command without an answer held the window of all that were answered behind it.
    #[test]
    fn answered_commands_behind_one_without_an_answer_take_no_room() {
        let mut kept = Kept::default();
        assert_eq!(kept.add(command(1, 1), 5), Some(0));
        for number in 1..=1_000 {
            assert_eq!(kept.add(command(2, number), 5), Some(number));
            assert!(kept.settle(SessionId(2), RequestNo(number)));
        }
        assert_eq!((kept.len(), kept.range()), (1, (0, 1_001)));
        assert_eq!(kept.add(command(1, 1), 5), None, "it is under way");
        kept.add(command(1, 9), 5);
        assert_eq!(kept.unsent(1).map(|(number, _)| number), Some(1_001));
        assert_eq!(kept.highest_of(SessionId(1)), RequestNo(9));
        kept.forget(SessionId(1));
        assert_eq!((kept.is_empty(), kept.range()), (true, (1_002, 1_002)));
    }

    /// The model's seed 1443: the client was told so, and the partition executed the second copy.
    #[test]
    fn a_refusal_of_a_copy_from_before_the_sessions_logon_is_none_of_the_next_one() {
        let mut kept = Kept::default();
        let (id, request_no) = (SessionId(1), RequestNo(1));
        kept.add(command(1, 1), 5);
        kept.forget(SessionId(1));
        kept.add(command(1, 1), 6);
        assert!(!kept.refuse(id, request_no, 5));
        assert!(kept.refuse(id, request_no, 6) && kept.is_empty());
        kept.add(command(1, 1), 5);
        assert!(kept.refuse(id, request_no, 6), "a takeover keeps it");
    }
}
