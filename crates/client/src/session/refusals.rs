//! The requests of a session that a gateway refused before any log took them.

use weir_types::Reason;
use weir_wire::session::Reject;

use super::{Progress, Session, UnansweredRequest};

impl Session {
    /// Finds the request that a gateway refused. A reject does not name the partition: among
    /// several partitions' requests with the number and the kind it is the one sent first, since
    /// gateways refuse in the order of arrival.
    pub(super) fn take_refused(&mut self, reject: &Reject) -> Option<UnansweredRequest> {
        if self.is_refused_unnamed(reject) {
            return self.partitions.iter_mut().find_map(|progress| progress.unanswered.pop_front());
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

    /// Returns true if the session's only unanswered request is of a kind that the node does not
    /// know. An older node cannot read such a request: its reject names neither session nor number.
    pub(crate) fn is_refused_unnamed(&self, reject: &Reject) -> bool {
        let is_unnamed = reject.reason == Reason::UnknownTemplate && reject.request_no.is_none();
        let mut unanswered = self.partitions.iter().flat_map(|progress| &progress.unanswered);
        let (first, second) = (unanswered.next(), unanswered.next());
        let only = first.filter(|_| second.is_none());
        is_unnamed && only.is_some_and(|one| one.request.template_id() == reject.ref_template_id)
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{
        ClOrdId, EventNo, InstrumentId, Nanos, PartitionId, RequestNo, Role, SessionId,
    };
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

    fn submit(session: &mut Session, partition_id: u16) -> u16 {
        let name = ClOrdId::from_number(1);
        let request = crate::request::cancel(name, name, InstrumentId(1));
        let partition_id = PartitionId(partition_id);
        let sent = session.submit(partition_id, request, Times::default(), &mut Vec::new());
        assert!(matches!(sent, Submit::Sent(_)));
        request.template_id()
    }

    #[test]
    fn a_reject_of_an_unknown_kind_is_of_the_only_request_of_that_kind() {
        let unknown = |ref_template_id: u16| Reject {
            request_no: RequestNo::NONE,
            field: Label::new(""),
            session_id: SessionId::NONE,
            ref_template_id,
            reason: Reason::UnknownTemplate,
        };
        let mut session = open_session();
        let kind = submit(&mut session, 2);
        let others = [unknown(kind + 1), Reject { reason: Reason::UnknownSchema, ..unknown(kind) }];
        for other in others {
            assert!(!session.is_refused_unnamed(&other), "{other:?}");
            assert_eq!(session.take_refused(&other), None);
        }
        submit(&mut session, 1);
        assert_eq!(session.take_refused(&unknown(kind)), None, "of which of both?");
        let named = Reject { request_no: RequestNo(1), session_id: SessionId(5), ..unknown(kind) };
        assert!(session.take_refused(&named).is_some(), "a number is enough");
        let taken = session.take_refused(&unknown(kind)).expect("it is the only one");
        assert_eq!(taken.request_no, RequestNo(1));
        assert_eq!(session.unanswered_count(), 0);
    }
}
