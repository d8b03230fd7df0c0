//! Requests that a session sends again behind a logon, beside those that the node has not received.

use weir_wire::Request;

use super::Progress;

impl Progress {
    /// Adds the requests to be sent again that the node's state at the logon passed over: with all
    /// events up to then received, an unanswered one at or below its last request is under way, or
    /// was refused before a log, and the refusal was lost with the connection.
    pub(super) fn take_refused(&mut self, again: &mut Vec<Request>) {
        let is_due = self.last_event_no.is_some_and(|last| last >= self.settles_at);
        if self.settles.is_none() || !is_due {
            return;
        }
        let upto = std::mem::take(&mut self.settles);
        let passed = self.unanswered.iter().take_while(|waiting| waiting.request_no <= upto);
        again.extend(passed.map(|waiting| waiting.request));
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{ClOrdId, EventNo, InstrumentId, PartitionId, RequestNo, SessionId};
    use weir_wire::dialogue::put_request;
    use weir_wire::session::PartitionState;

    use crate::session::fixtures::{ack, session, state};
    use crate::session::{Session, Submit, Times, stamp};

    #[test]
    fn a_request_whose_refusal_was_lost_is_sent_again_once_the_missed_events_have_come() {
        let nothing = ClOrdId::from_number(1);
        let cancel = crate::request::cancel(nothing, nothing, InstrumentId(1));
        for missed in [0, 1] {
            let mut session = session();
            session.open(&ack(), &[state(1, 8, 1)], &mut Vec::new());
            for _ in 0..2 {
                let none = &mut Vec::new();
                let sent = session.submit(PartitionId(1), cancel, Times::default(), none);
                assert!(matches!(sent, Submit::Sent(_)));
            }
            let answer = |session: &mut Session, out: &mut Vec<u8>| {
                let taken = session.take(PartitionId(1), EventNo(8), RequestNo(2), out).unwrap();
                assert_eq!(taken.flatten().map(|u| u.request_no), Some(RequestNo(2)));
            };
            // The log was full at the first request, and had room at the second.
            if missed == 0 {
                answer(&mut session, &mut Vec::new());
            }
            session.connection_lost();
            let named = PartitionState { last_request_no: RequestNo(2), ..state(1, 9, 1) };
            let mut out = Vec::new();
            assert_eq!(session.open(&ack(), &[named], &mut out), 1 - missed);
            assert_eq!(out.is_empty(), missed == 1, "its answer may be among the missed events");
            if missed == 1 {
                answer(&mut session, &mut out);
            }
            let mut first = Vec::new();
            let stamped = stamp(cancel, SessionId(5), RequestNo(1));
            put_request(&stamped, &mut first);
            assert_eq!(out, first);
        }
    }

    /// A request that a full log had refused was sent again behind a later one: too old.
    #[test]
    fn requests_are_sent_again_in_the_order_of_their_numbers() {
        let mut session = session();
        session.open(&ack(), &[state(1, 8, 1)], &mut Vec::new());
        let nothing = ClOrdId::from_number(1);
        let cancel = crate::request::cancel(nothing, nothing, InstrumentId(1));
        let mut sent = Vec::new();
        for number in 1..=3 {
            let submitted = session.submit(PartitionId(1), cancel, Times::default(), &mut sent);
            assert_eq!(submitted, Submit::Sent(RequestNo(number)));
        }
        session.connection_lost();
        // The third one was lost with the connection.
        let named = PartitionState { last_request_no: RequestNo(2), ..state(1, 8, 1) };
        let mut out = Vec::new();
        assert_eq!(session.open(&ack(), &[named], &mut out), 3);
        assert_eq!(out, sent);
    }
}
