//! The acknowledgement of a logon, and further ones while the session is open.

use weir_types::{EventNo, Nanos};
use weir_wire::Request;
use weir_wire::dialogue::put_request;
use weir_wire::session::{LogonAck, PartitionState};

use super::{Phase, Session};

impl Session {
    /// Opens the session by an acknowledgement, or takes a further one; returns the number of
    /// requests that are sent again.
    pub(super) fn open(
        &mut self,
        ack: &LogonAck,
        states: &[PartitionState],
        out: &mut Vec<u8>,
    ) -> usize {
        // A further one says that partitions are back, or begin an epoch. Nothing is sent again to
        // the others.
        let is_further = self.phase == Phase::Open;
        if !is_further {
            self.partitions.iter_mut().for_each(|progress| progress.is_open = false);
        }
        self.phase = Phase::Open;
        self.firm_id = ack.firm_id;
        self.role = ack.role;
        self.order_rate_max = ack.order_rate_max;
        self.in_flight_max = ack.in_flight_max;
        self.heartbeat_interval = Nanos(u64::from(ack.heartbeat_interval_ms.max(1)) * 1_000_000);
        let mut again = Vec::new();
        for state in states {
            if state.is_away() {
                // Known, so that a request to all partitions goes to it too, and is refused.
                self.progress(state.partition_id).is_open = false;
                continue;
            }
            let was_open = std::mem::replace(&mut self.progress(state.partition_id).is_open, true);
            if was_open && is_further {
                // Requests to it may be under way. The events so far are of its history.
                self.progress(state.partition_id).epoch = state.epoch;
                continue;
            }
            let next_request_no = state.last_request_no.next();
            self.next_request_no = self.next_request_no.max(next_request_no);
            let progress = self.progress(state.partition_id);
            // Without a resume point the session receives new events only.
            progress.last_event_no.get_or_insert(EventNo(state.next_event_no.0.saturating_sub(1)));
            // The node has confirmed that the received events are its own history, in this epoch
            // too.
            progress.epoch = state.epoch;
            progress.settles = state.last_request_no;
            progress.received_up_to = state.last_request_no;
            progress.settles_at = EventNo(state.next_event_no.0.saturating_sub(1));
            progress.take_refused(&mut again);
            let unanswered = progress.unanswered.iter();
            let lacking = unanswered.filter(|waiting| waiting.request_no >= next_request_no);
            again.extend(lacking.map(|waiting| waiting.request));
        }
        // Those to a partition that is away wait until it is back: it may have them already, and a
        // refusal would say nothing of that.
        let is_named = |id| states.iter().any(|state| state.partition_id == id);
        let others =
            self.partitions.iter().filter(|one| !is_further && !is_named(one.partition_id));
        again.extend(others.flat_map(|one| &one.unanswered).map(|waiting| waiting.request));
        // Of one partition, also of requests recorded under another: behind a later number an
        // earlier one would be too old.
        again.sort_unstable_by_key(Request::request_no);
        again.iter().for_each(|request| put_request(request, out));
        again.len()
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{Epoch, PartitionId, RequestNo};

    use super::*;
    use crate::session::fixtures::{SECOND, ack, open_session, points_of, state};
    use crate::session::{Submit, Times};

    #[test]
    fn a_resume_point_has_the_epoch_that_the_last_acknowledgement_told() {
        let mut session = open_session();
        session.resume_after(PartitionId(2), EventNo(41), Epoch(3));
        assert_eq!(points_of(&session), [(2, 42, 3)]);
        session.open(&ack(), &[state(1, 8, 1), state(2, 45, 4)], &mut Vec::new());
        assert_eq!(points_of(&session), [(1, 8, 1), (2, 42, 4)]);
        assert_eq!(session.epoch(PartitionId(2)), Epoch(4));
    }

    /// All that was under way at the other partitions was sent again, and a log that refused the
    /// first copy could take the second.
    #[test]
    fn a_further_acknowledgement_concerns_the_partitions_that_were_away_alone() {
        let mut session = open_session();
        session.put_logon(Nanos(SECOND), &mut Vec::new());
        let away = PartitionState::away(PartitionId(1));
        session.open(&ack(), &[away, state(2, 45, 4)], &mut Vec::new());
        assert_eq!(points_of(&session), [(2, 45, 4)]);
        let nothing = weir_types::ClOrdId::from_number(1);
        let cancel = crate::request::cancel(nothing, nothing, weir_types::InstrumentId(1));
        let sent = session.submit(PartitionId(2), cancel, Times::default(), &mut Vec::new());
        assert_eq!(sent, Submit::Sent(RequestNo(1)));
        let mut out = Vec::new();
        let under_way = PartitionState { last_request_no: RequestNo(1), ..state(2, 45, 4) };
        assert_eq!(session.open(&ack(), &[state(1, 8, 1), under_way], &mut out), 0);
        assert!(out.is_empty(), "nothing is sent again");
        assert_eq!(points_of(&session), [(1, 8, 1), (2, 45, 4)]);
        assert_eq!(session.unanswered_count(), 1);
    }

    /// The next logon was refused: its events were of the new epoch, and it stated the one before.
    #[test]
    fn a_further_acknowledgement_tells_the_epoch_that_has_begun() {
        let mut session = open_session();
        session.put_logon(Nanos(SECOND), &mut Vec::new());
        session.open(&ack(), &[state(1, 8, 3), state(2, 45, 4)], &mut Vec::new());
        // More events are on their way than the client has.
        let mut out = Vec::new();
        let away = PartitionState::away(PartitionId(2));
        assert_eq!(session.open(&ack(), &[state(1, 12, 5), away], &mut out), 0);
        assert_eq!(points_of(&session), [(1, 8, 5), (2, 45, 4)]);
        assert!(out.is_empty());
    }

    /// They were sent again, refused, and told as in no log, while the partition had them.
    #[test]
    fn requests_to_a_partition_that_is_away_wait_until_it_is_back() {
        let mut session = open_session();
        session.open(&ack(), &[state(1, 8, 3), state(2, 45, 4)], &mut Vec::new());
        let nothing = weir_types::ClOrdId::from_number(1);
        let cancel = crate::request::cancel(nothing, nothing, weir_types::InstrumentId(1));
        let mut sent = Vec::new();
        let submitted = session.submit(PartitionId(1), cancel, Times::default(), &mut sent);
        assert_eq!(submitted, Submit::Sent(RequestNo(1)));
        session.connection_lost();
        session.put_logon(Nanos(SECOND), &mut Vec::new());
        let (away, other) = (PartitionState::away(PartitionId(1)), state(2, 45, 4));
        let mut out = Vec::new();
        assert_eq!(session.open(&ack(), &[away, other], &mut out), 0);
        assert!(out.is_empty());
        assert_eq!(session.unanswered_count(), 1);
        assert_eq!(session.open(&ack(), &[state(1, 8, 3), other], &mut out), 1);
        assert_eq!(out, sent);
    }
}
