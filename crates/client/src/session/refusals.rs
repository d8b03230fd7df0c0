//! The requests of a session that a gateway refused before any log took them.

use weir_types::Reason;
use weir_wire::session::Reject;

use super::{Session, UnansweredRequest};

impl Session {
    /// Finds the request that a gateway refused. A reject does not name the partition, but no two
    /// requests of the session have the same number.
    ///
    /// A request that came behind the end of its session stays: an earlier copy of it may be in a
    /// log, and the next logon tells whether it has to be sent again. So does one that its
    /// partition had received before the logon, if that is away now: the refusal says nothing of
    /// the earlier copy.
    pub(super) fn take_refused(&mut self, reject: &Reject) -> Option<UnansweredRequest> {
        if reject.reason == Reason::NotLoggedOn && !self.is_open() {
            return None;
        }
        if self.is_refused_unnamed(reject) {
            let waiting = self.partitions.iter_mut().filter(|one| !one.unanswered.is_empty());
            let first = waiting.min_by_key(|one| one.unanswered[0].times.sent);
            return first.and_then(|progress| progress.unanswered.pop_front());
        }
        let number = reject.request_no;
        let mut partitions = self.partitions.iter_mut();
        let (index, progress) =
            partitions.find_map(|one| one.position(number).map(|index| (index, one)))?;
        if progress.unanswered[index].request.template_id() != reject.ref_template_id {
            return None;
        }
        if reject.reason == Reason::PartitionAway && number <= progress.received_up_to {
            // Sent again behind the partition's next event, or the next logon.
            progress.settles = progress.settles.max(number);
            return None;
        }
        progress.unanswered.remove(index)
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
    use weir_types::{ClOrdId, EventNo, InstrumentId, Nanos, PartitionId, RequestNo, SessionId};
    use weir_wire::Request;
    use weir_wire::session::{Label, PartitionState};

    use super::*;
    use crate::session::fixtures::{ack, session, state};
    use crate::session::{Submit, Times};

    /// Returns a session with two partitions.
    fn open_session() -> Session {
        let mut session = session();
        session.open(&ack(), &[1, 2].map(|id| state(id, 1, 1)), &mut Vec::new());
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

    /// A gateway's refusal of a request to one partition was taken for that of another's.
    #[test]
    fn a_refusal_is_of_the_one_request_with_its_number_among_those_to_all_partitions() {
        let mut session = open_session();
        let kinds = [1, 2, 2, 1].map(|id| submit(&mut session, id, u64::from(id)));
        let reject = |number: u64, ref_template_id: u16| Reject {
            request_no: RequestNo(number),
            field: Label::new(""),
            session_id: SessionId(5),
            ref_template_id,
            reason: Reason::LogFull,
        };
        assert_eq!(session.take_refused(&reject(2, kinds[1] + 1)), None, "of another kind");
        assert_eq!(session.take_refused(&reject(5, kinds[0])), None, "there are four");
        let sent = [2, 1, 4, 3].map(|number| {
            let taken = session.take_refused(&reject(number, kinds[0])).expect("it is under way");
            assert_eq!(taken.request_no, RequestNo(number));
            taken.times.sent
        });
        assert_eq!(sent, [2, 1, 1, 2].map(Nanos));
    }

    #[test]
    fn a_refusal_of_the_second_copy_of_an_answered_request_is_of_no_later_one() {
        let mut session = open_session();
        let kind = submit(&mut session, 1, 7);
        let answer = session.take(PartitionId(1), EventNo(1), RequestNo(1), &mut Vec::new());
        assert!(answer.is_ok_and(|answer| answer.flatten().is_some()));
        submit(&mut session, 2, 8);
        let second_copy = Reject {
            request_no: RequestNo(1),
            field: Label::new(""),
            session_id: SessionId(5),
            ref_template_id: kind,
            reason: Reason::LogFull,
        };
        assert_eq!(session.take_refused(&second_copy), None);
        assert_eq!(session.unanswered_count(), 1);
    }

    /// It was told as in no log, and had been carried out.
    #[test]
    fn a_refusal_of_an_away_partition_says_nothing_of_a_copy_that_it_had_received() {
        let mut session = open_session();
        let kind = submit(&mut session, 1, 7);
        let later = submit(&mut session, 1, 8);
        session.connection_lost();
        let received = PartitionState { last_request_no: RequestNo(1), ..state(1, 1, 1) };
        assert_eq!(session.open(&ack(), &[received], &mut Vec::new()), 2);
        let away = |number, ref_template_id| Reject {
            request_no: RequestNo(number),
            field: Label::new(""),
            session_id: SessionId(5),
            ref_template_id,
            reason: Reason::PartitionAway,
        };
        assert_eq!(session.take_refused(&away(1, kind)), None);
        assert!(session.take_refused(&away(2, later)).is_some(), "it was not received");
        assert_eq!(session.unanswered_count(), 1);
        // The partition is back: its next event is of another request.
        let mut again = Vec::new();
        let taken = session.take(PartitionId(1), EventNo(1), RequestNo::NONE, &mut again);
        assert!(taken.is_ok() && !again.is_empty());
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
        let named = Reject { request_no: RequestNo(3), session_id: SessionId(5), ..unknown(other) };
        assert!(session.take_refused(&named).is_some(), "a number is enough");
        for (number, sent) in [(1, 7), (2, 9)] {
            let taken = session.take_refused(&unknown(kind)).expect("all are of that kind");
            assert_eq!((taken.request_no, taken.times.sent), (RequestNo(number), Nanos(sent)));
        }
        assert_eq!(session.unanswered_count(), 0);
    }
}
