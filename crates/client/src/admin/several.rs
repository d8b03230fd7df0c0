//! One request to each of several partitions: all are sent before an answer is waited for, so that
//! a partition that stalls holds up its own answer alone.
//!
//! | answer of a partition | its request |
//! | --- | --- |
//! | it is done, or refused | is over |
//! | refused for a definition that is still to be imported | is sent again for a while |
//! | none in time, of a request that is done in parts | is told as late, and waited for |
//! | none in time, of any other | is over, with [`ClientError::Timeout`] |
//!
//! A gateway's refusal has the number of a request and not its partition, so the numbers differ
//! among the partitions too.

use super::{
    Admin, Answer, CONTROL, ClientError, Duration, IMPORT_RETRY, IMPORT_TIMEOUT, Incoming, Nanos,
    PartitionId, Request, RequestDone, RequestNo, Submit, Times, answer_of, is_done_in_parts,
    is_import_pending,
};

/// The outcome of a request to one of several partitions.
#[derive(Debug)]
pub enum PartitionOutcome {
    /// It was carried out.
    Done(RequestDone),
    /// Behind [`ClientError::Refused`] nothing was changed; behind [`ClientError::Timeout`] it may
    /// have been carried out.
    Failed(ClientError),
    /// The connection ended before the answer came: it may have been carried out.
    Lost,
    /// The connection ended before it was sent, or too many requests of the session were unanswered
    /// for the time of an answer.
    NotSent,
}

/// A request to one of the partitions, under way.
struct PartitionRequest {
    partition_id: PartitionId,
    request: Request,
    state: State,
    is_told: bool,
}

enum State {
    /// It is to be sent at this time.
    ToSend(Nanos),
    Sent(RequestNo),
    Over(PartitionOutcome),
}

impl PartitionRequest {
    fn is_over(&self) -> bool {
        matches!(self.state, State::Over(_))
    }

    fn is_sent_as(&self, request_no: RequestNo) -> bool {
        matches!(self.state, State::Sent(number) if number == request_no)
    }

    fn outcome(self) -> PartitionOutcome {
        match self.state {
            State::ToSend(_) => PartitionOutcome::NotSent,
            State::Sent(_) => PartitionOutcome::Lost,
            State::Over(outcome) => outcome,
        }
    }

    /// Takes an answer to it.
    fn take(&mut self, answer: Answer, now: Nanos, imports_until: Nanos) {
        let may_come = self.partition_id != CONTROL && now < imports_until;
        let (reason, subject) = match answer {
            Answer::Done(done) => {
                self.state = State::Over(PartitionOutcome::Done(done));
                return;
            }
            Answer::Rejected(reason) if may_come && is_import_pending(reason) => {
                self.state = State::ToSend(after(now, IMPORT_RETRY));
                return;
            }
            Answer::Rejected(reason) => (reason, String::new()),
            Answer::Refused(reason, subject) => (reason, subject),
        };
        let request = self.request.name();
        let refused = ClientError::Refused { request, reason, subject };
        self.state = State::Over(PartitionOutcome::Failed(refused));
    }

    /// Notes that the time of an answer is over. Returns true if it is waited for, once.
    fn is_late(&mut self, timeout: Duration) -> bool {
        if self.is_over() {
            return false;
        }
        if is_done_in_parts(&self.request) {
            return !std::mem::replace(&mut self.is_told, true);
        }
        let waiting_for = self.request.name();
        self.state = State::Over(match self.state {
            State::ToSend(_) => PartitionOutcome::NotSent,
            _ => PartitionOutcome::Failed(ClientError::Timeout { waiting_for, timeout }),
        });
        false
    }
}

fn after(now: Nanos, time: Duration) -> Nanos {
    Nanos(now.0.saturating_add(crate::clock::nanos(time).0))
}

impl Admin {
    /// Sends a request to each of these partitions, and then waits for the answers. Returns the
    /// outcomes in the order of the requests, and the error that ended the connection, if one did.
    /// `on_late` hears of each partition that has not answered within the timeout and is waited for
    /// nevertheless (see [`Admin::connect`]).
    pub fn request_each(
        &mut self,
        requests: &[(PartitionId, Request)],
        mut on_late: impl FnMut(PartitionId),
    ) -> (Vec<PartitionOutcome>, Option<ClientError>) {
        let begun = self.client.clock().now();
        let asked = requests.iter().map(|(partition_id, request)| PartitionRequest {
            partition_id: *partition_id,
            request: *request,
            state: State::ToSend(begun),
            is_told: false,
        });
        let mut asked: Vec<PartitionRequest> = asked.collect();
        let mut error = None;
        while error.is_none() && !asked.iter().all(PartitionRequest::is_over) {
            error = self.go_on(&mut asked, begun, &mut on_late).err();
        }
        (asked.into_iter().map(PartitionRequest::outcome).collect(), error)
    }

    /// Sends what is to be sent, and takes the answers that come within a time.
    fn go_on(
        &mut self,
        asked: &mut [PartitionRequest],
        begun: Nanos,
        on_late: &mut impl FnMut(PartitionId),
    ) -> Result<(), ClientError> {
        let clock = self.client.clock();
        let now = clock.now();
        for one in asked.iter_mut() {
            self.send(one, now)?;
        }
        let is_held = |one: &PartitionRequest| matches!(one.state, State::ToSend(_));
        let wait = if asked.iter().any(is_held) { IMPORT_RETRY } else { self.timeout };
        let mut answers = Vec::new();
        let polled = self.client.poll(wait, |incoming, _| {
            if let Incoming::Session(_, event) = incoming {
                answers.extend(answer_of(&event));
            }
        });
        let now = clock.now();
        for (request_no, answer) in answers {
            if let Some(one) = asked.iter_mut().find(|one| one.is_sent_as(request_no)) {
                one.take(answer, now, after(begun, IMPORT_TIMEOUT));
            }
        }
        polled?;
        if now >= after(begun, self.timeout) {
            for one in asked.iter_mut() {
                if one.is_late(self.timeout) {
                    on_late(one.partition_id);
                }
            }
        }
        Ok(())
    }

    /// Sends a request whose time has come, if the session may send one more.
    fn send(&mut self, one: &mut PartitionRequest, now: Nanos) -> Result<(), ClientError> {
        if !matches!(one.state, State::ToSend(at) if at <= now) {
            return Ok(());
        }
        let times = Times { due: now, sent: now };
        match self.client.submit(self.session_id, one.partition_id, one.request, times) {
            Submit::Sent(request_no) => one.state = State::Sent(request_no),
            Submit::Full => {}
            Submit::NotOpen => return Err(ClientError::NotOpen(self.session_id)),
        }
        Ok(())
    }
}
