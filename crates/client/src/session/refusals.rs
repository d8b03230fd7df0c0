//! The requests of a session that a gateway refused before any log took them.

use weir_types::Reason;
use weir_wire::session::Reject;

use super::{Progress, Session, UnansweredRequest};

impl Session {
    /// Finds the request that a gateway refused. A reject does not name the partition: among
    /// several partitions' requests with the number and the kind it is the one sent first, since
    /// gateways refuse in the order of arrival.
    ///
    /// A request that came behind the end of its session stays: an earlier copy of it may be in a
    /// log, and the next logon tells whether it has to be sent again.
    pub(super) fn take_refused(&mut self, reject: &Reject) -> Option<UnansweredRequest> {
        if reject.reason == Reason::NotLoggedOn && !self.is_open() {
            return None;
        }
        if self.is_refused_unnamed(reject) {
            let waiting = self.partitions.iter_mut().filter(|one| !one.unanswered.is_empty());
            let first = waiting.min_by_key(|one| one.unanswered[0].times.sent);
            return first.and_then(|progress| progress.unanswered.pop_front());
        }
        let matching = |progress: &&mut Progress| {
            progress.position(reject.request_no).is_some_and(|index| {
                progress.unanswered[index].request.template_id() == reject.ref_template_id
            })
        };
        let sent = |progress: &&mut Progress| {
            progress.position(reject.request_no).map(|index| progress.unanswered[index].times.sent)
        };
        self.partitions
            .iter_mut()
            .filter(matching)
            .min_by_key(sent)
            .and_then(|progress| progress.answer(reject.request_no))
    }

    /// Returns true if all unanswered requests of the session are of a kind that the node does not
    /// know. An older node cannot read such a request: its reject names neither session nor number,
    /// and is of the one that was sent first.
    pub(crate) fn is_refused_unnamed(&self, reject: &Reject) -> bool {
        let is_unnamed = reject.reason == Reason::UnknownTemplate && reject.request_no.is_none();
        let unanswered = self.partitions.iter().flat_map(|progress| &progress.unanswered);
        let mut kinds = unanswered.map(|one| one.request.template_id()).peekable();
        let is_one = kinds.peek().is_some();
        is_unnamed && is_one && kinds.all(|kind| kind == reject.ref_template_id)
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{
        ClOrdId, EventNo, InstrumentId, Nanos, PartitionId, RequestNo, Role, SessionId,
    };
    use weir_wire::Request;
    use weir_wire::session::{ApiKey, Label, LogonAck, PartitionState};

    use super::*;
    use crate::session::{SessionConfig, Submit, Times};

    fn open_session() -> Session {
        let mut session = Session::new(SessionConfig::new(SessionId(5), ApiKey([1; 32])));
        let ack = LogonAck {
            server_time: Nanos(0),
            session_id: SessionId(5),
            firm_id: weir_types::FirmId(1),
            heartbeat_interval_ms: 2_000,
            order_rate_max: 0,
            in_flight_max: 0,
            role: Role::Operator,
        };
        let states = [1, 2].map(|id| PartitionState {
            last_request_no: RequestNo(0),
            next_event_no: EventNo(1),
            oldest_event_no: EventNo(1),
            epoch: weir_types::Epoch(1),
            partition_id: PartitionId(id),
        });
        session.open(&ack, &states, &mut Vec::new());
        session
    }

    /// Submits a cancel at a time; returns its kind.
    fn submit(session: &mut Session, partition_id: u16, at: u64) -> u16 {
        let name = ClOrdId::from_number(1);
        let request = crate::request::cancel(name, name, InstrumentId(1));
        submit_request(session, partition_id, at, request)
    }

    fn submit_request(session: &mut Session, partition_id: u16, at: u64, request: Request) -> u16 {
        let times = Times { due: Nanos(at), sent: Nanos(at) };
        let sent = session.submit(PartitionId(partition_id), request, times, &mut Vec::new());
        assert!(matches!(sent, Submit::Sent(_)));
        request.template_id()
    }

    #[test]
    fn numbers_above_all_differ_among_partitions() {
        let mut session = open_session();
        for number in 1..=4 {
            let partition_id = 1 + number % 2;
            session.number_above_all(PartitionId(partition_id));
            submit(&mut session, partition_id, u64::from(number));
            let last = session.partitions.iter().map(|one| one.next_request_no.0).max();
            assert_eq!(last, Some(u64::from(number) + 1));
        }
        // A refusal by number alone is of the one request with it.
        let kind = submit(&mut session, 1, 5);
        let reject = |number: u64| Reject {
            request_no: RequestNo(number),
            field: Label::new(""),
            session_id: SessionId(5),
            ref_template_id: kind,
            reason: Reason::FieldOutOfRange,
        };
        for number in 1..=4 {
            let taken = session.take_refused(&reject(number)).expect("it is under way");
            assert_eq!(taken.times.sent, Nanos(number));
        }
    }

    #[test]
    fn a_request_that_came_behind_the_end_of_its_session_stays_unanswered() {
        for (ends, left) in [(false, 0), (true, 1)] {
            let mut session = open_session();
            let ref_template_id = submit(&mut session, 1, 7);
            if ends {
                session.connection_lost();
            }
            let reject = Reject {
                request_no: RequestNo(1),
                field: Label::new(""),
                session_id: SessionId(5),
                ref_template_id,
                reason: Reason::NotLoggedOn,
            };
            assert_eq!(session.take_refused(&reject).is_none(), ends);
            assert_eq!(session.unanswered_count(), left);
        }
    }

    #[test]
    fn a_reject_of_an_unknown_kind_is_of_the_first_request_if_all_are_of_that_kind() {
        let unknown = |ref_template_id: u16| Reject {
            request_no: RequestNo::NONE,
            field: Label::new(""),
            session_id: SessionId::NONE,
            ref_template_id,
            reason: Reason::UnknownTemplate,
        };
        let mut session = open_session();
        let kind = submit(&mut session, 2, 7);
        let others = [unknown(kind + 1), Reject { reason: Reason::UnknownSchema, ..unknown(kind) }];
        for other in others {
            assert!(!session.is_refused_unnamed(&other), "{other:?}");
            assert_eq!(session.take_refused(&other), None);
        }
        submit(&mut session, 1, 9);
        let all = crate::request::cancel_all(PartitionId(1));
        let other = submit_request(&mut session, 1, 8, all);
        assert_eq!(session.take_refused(&unknown(kind)), None, "of which of three?");
        let named = Reject { request_no: RequestNo(2), session_id: SessionId(5), ..unknown(other) };
        assert!(session.take_refused(&named).is_some(), "a number is enough");
        for sent in [7, 9] {
            let taken = session.take_refused(&unknown(kind)).expect("all are of that kind");
            assert_eq!((taken.request_no, taken.times.sent), (RequestNo(1), Nanos(sent)));
        }
        assert_eq!(session.unanswered_count(), 0);
    }
}
