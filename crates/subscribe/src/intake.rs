//! What subscribers and publishers say: logons, acknowledgements, messages for others; and the
//! answer to what has no place.

use weir_broker::{
    MessageNo, Place, Published, Refused, Source, SubscriptionError, Topic, TopicKind,
};
use weir_door::reception::Via;
use weir_door::{ConnectionId, Welcome, reason_of, reject, take_logon};
use weir_types::{Nanos, Position, Reason, Role, SessionId};
use weir_wire::dialogue::peek_session_and_request;
use weir_wire::frame::{Framing, RawMessage, next_frame, put_frame};
use weir_wire::subscription::{
    AckMessages, PublishMessage, PublishReject, SUBSCRIBER_FRAME_LEN_MAX,
};
use weir_wire::{ClientMessage, DecodeError};

use super::agent::{BrokerAgent, add};
use super::executions::is_execution;
use super::link::Link;

/// Messages of a publisher that may be without acknowledgement.
const OPEN_MAX: usize = 64 * 1024;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intake {
    Done,
    /// It has to wait, and what is behind it.
    Wait,
}

impl BrokerAgent {
    /// Takes whole frames until one has to wait; how many.
    pub(super) fn take_frames(&mut self, id: u64, link: &mut Link, now: Nanos) -> usize {
        let input = link.socket.take_input();
        let (mut consumed, mut frames) = (0, 0);
        link.must_wait = false;
        while !link.socket.is_closing() && link.socket.has_room() {
            match next_frame(&input[consumed..], SUBSCRIBER_FRAME_LEN_MAX) {
                Framing::Incomplete => break,
                Framing::Broken(broken) => {
                    add(&self.figures.malformed, 1);
                    add(&self.figures.ended, 1);
                    link.close(reason_of(broken, SUBSCRIBER_FRAME_LEN_MAX), now);
                }
                Framing::Frame { len, message } => {
                    if self.take_frame(id, link, message, now) == Intake::Wait {
                        link.must_wait = true;
                        break;
                    }
                    consumed += len;
                    frames += 1;
                }
            }
        }
        link.socket.return_input(input, consumed);
        frames
    }

    fn take_frame(
        &mut self,
        id: u64,
        link: &mut Link,
        message: Result<RawMessage<'_>, DecodeError>,
        now: Nanos,
    ) -> Intake {
        let raw = match message {
            Ok(raw) => raw,
            Err(error) => return self.refuse(link, None, (error.reason(), error.field()), now),
        };
        match ClientMessage::decode(&raw) {
            Ok(ClientMessage::Heartbeat(_)) => Intake::Done,
            Ok(ClientMessage::Logout(_)) => {
                link.close(Reason::LogoutRequested, now);
                Intake::Done
            }
            Ok(
                message @ (ClientMessage::Logon(..)
                | ClientMessage::ChallengeRequest(_)
                | ClientMessage::SignedLogon(..)),
            ) => self.take_logon(id, link, (&raw, &message), now),
            Ok(_) if link.session.is_none_or(|s| !is_of(&raw, s.session_id)) => {
                self.refuse(link, Some(&raw), (Reason::NotLoggedOn, "session_id"), now)
            }
            Ok(ClientMessage::PublishMessage(message, body)) => {
                self.publish(id, link, &message, body, now);
                Intake::Done
            }
            Ok(ClientMessage::AckMessages(ack)) => self.take_ack(id, link, (&ack, &raw), now),
            Ok(ClientMessage::CreateSubscription(create, name)) => {
                self.create(id, link, &create, name, now)
            }
            Ok(ClientMessage::SubscriptionRequest(request, name)) => {
                self.take_request(id, link, &request, name);
                Intake::Done
            }
            Ok(ClientMessage::AttachSubscription(attach, name)) => {
                self.attach(id, link, &attach, name, now);
                Intake::Done
            }
            Ok(ClientMessage::DetachSubscription(detach)) => {
                self.detach(id, link, &detach, now);
                Intake::Done
            }
            Ok(ClientMessage::NamedToken(token, bytes)) => {
                self.keep_token(id, link, &token, bytes, now);
                Intake::Done
            }
            Ok(_) => self.refuse(link, Some(&raw), (Reason::NotServedHere, ""), now),
            Err(error) => self.refuse(link, Some(&raw), (error.reason(), error.field()), now),
        }
    }

    fn take_logon(
        &mut self,
        id: u64,
        link: &mut Link,
        message: (&RawMessage<'_>, &ClientMessage<'_>),
        now: Nanos,
    ) -> Intake {
        let via = Via { connection: ConnectionId(id), now };
        let is_taken = link.session.is_some();
        let by_session = &self.by_session;
        let may = |session_id, _| match is_taken || by_session.contains_key(&session_id) {
            true => Err(Reason::AlreadyLoggedOn),
            false => Ok(()),
        };
        match take_logon(&mut self.reception, message, via, may, &mut link.socket.output) {
            Welcome::Open(session) => {
                link.session = Some(session);
                self.by_session.insert(session.session_id, id);
            }
            Welcome::Refused => add(&self.figures.logons_refused, 1),
            Welcome::Challenged | Welcome::Other => {}
            Welcome::Wait => return Intake::Wait,
        }
        Intake::Done
    }

    /// Takes a message for another session. For want of room nothing behind it is taken until it
    /// comes again, so that what a publisher says stays in its order.
    fn publish(
        &mut self,
        id: u64,
        link: &mut Link,
        message: &PublishMessage,
        body: &[u8],
        now: Nanos,
    ) {
        let numbered = (message.epoch, message.message_no);
        if link.publishing.refused.is_some_and(|refused| refused != numbered) {
            add(&self.figures.passed_over, 1);
            return;
        }
        let taken = self.may_publish(link, message).and_then(|()| {
            if is_execution(link, message) {
                return self.take_execution(message, body, now).map(Some);
            }
            self.take_message(message, body, now)
        });
        match taken {
            Ok(Some(no)) => {
                link.publishing.open.push_back((message.epoch, message.message_no, no));
                link.publishing.last = numbered;
                link.publishing.refused = None;
                self.publishers.insert(id);
                // It may be acknowledged already.
                self.acknowledged = MessageNo::NONE;
            }
            Ok(None) => self.reject_message(link, message, Reason::NobodySubscribes),
            Err(reason) => {
                if matches!(reason, Reason::BrokerMemoryFull | Reason::BrokerDiskFull) {
                    link.publishing.refused = Some(numbered);
                }
                self.reject_message(link, message, reason);
            }
        }
    }

    /// Whether a message is the next one of somebody who may publish, and there is room for more.
    fn may_publish(&self, link: &Link, message: &PublishMessage) -> Result<(), Reason> {
        let role = link.session.map(|session| session.role);
        if !matches!(role, Some(Role::Supervisor | Role::Operator | Role::Source)) {
            return Err(Reason::NotEntitled);
        }
        let numbered = (message.epoch, message.message_no);
        if message.message_no == 0 || message.epoch.is_none() || numbered <= link.publishing.last {
            return Err(Reason::MessageNoTaken);
        }
        if link.publishing.open.len() >= OPEN_MAX {
            return Err(Reason::BrokerMemoryFull);
        }
        Ok(())
    }

    fn take_message(
        &mut self,
        message: &PublishMessage,
        body: &[u8],
        now: Nanos,
    ) -> Result<Option<MessageNo>, Reason> {
        let topic = Topic { kind: TopicKind::Messages, key: message.to_session_id.0 };
        let place = Place {
            source: Source(message.session_id.0),
            epoch: message.epoch,
            record: Position(message.message_no),
        };
        self.put_in(topic, place, body, now)
    }

    /// Gives a message to a topic; `None` when nobody subscribes to it.
    pub(super) fn put_in(
        &mut self,
        topic: Topic,
        place: Place,
        body: &[u8],
        now: Nanos,
    ) -> Result<Option<MessageNo>, Reason> {
        match self.broker.publish(topic, place, body, now) {
            Ok(Published::Taken(no) | Published::Repeated(no)) => {
                self.hot.extend(self.by_topic.get(&topic).into_iter().flatten());
                Ok(Some(no))
            }
            Ok(Published::Unwanted) => Ok(None),
            Err(Refused::MemoryFull) => Err(Reason::BrokerMemoryFull),
            Err(Refused::DiskFull) => Err(Reason::BrokerDiskFull),
            Err(Refused::EpochBack { .. }) => Err(Reason::MessageNoTaken),
            Err(Refused::Stopped) => Err(Reason::BrokerStopped),
            Err(Refused::TooLong { .. }) => Err(Reason::FrameTooLong),
        }
    }

    fn reject_message(&mut self, link: &mut Link, message: &PublishMessage, reason: Reason) {
        add(&self.figures.messages_refused, 1);
        let PublishMessage { message_no, session_id, to_session_id, epoch } = *message;
        let reject = PublishReject { message_no, session_id, to_session_id, epoch, reason };
        put_frame(&reject, &mut link.socket.output);
    }

    fn take_ack(
        &mut self,
        id: u64,
        link: &mut Link,
        (ack, raw): (&AckMessages, &RawMessage<'_>),
        now: Nanos,
    ) -> Intake {
        let held = link.held.get_mut(&ack.handle).and_then(|held| held.queue.as_mut());
        let Some(queue) = held else {
            // It may have ended while this was on its way: that is told by itself.
            add(&self.figures.acks_late, 1);
            return Intake::Done;
        };
        queue.credit_messages += u64::from(ack.credit_messages);
        queue.credit_bytes += u64::from(ack.credit_bytes);
        let attachment = queue.attachment;
        self.hot.insert((id, ack.handle));
        if ack.message_no == 0 {
            return Intake::Done;
        }
        match self.broker.ack(attachment, MessageNo(ack.message_no), now) {
            Err(SubscriptionError::AckAhead { .. }) => {
                self.refuse(link, Some(raw), (Reason::AckAhead, "message_no"), now)
            }
            // One that was evicted is told by the broker's notice.
            Ok(_) | Err(_) => Intake::Done,
        }
    }

    /// Answers what cannot be read or has no place, and ends who says too much of it.
    fn refuse(
        &mut self,
        link: &mut Link,
        raw: Option<&RawMessage<'_>>,
        (reason, field): (Reason, &str),
        now: Nanos,
    ) -> Intake {
        put_frame(&reject(raw, reason, field), &mut link.socket.output);
        add(&self.figures.malformed, 1);
        if link.socket.count_error() {
            add(&self.figures.ended, 1);
            link.close(Reason::TooManyErrors, now);
        }
        Intake::Done
    }
}

/// Whether a message names the session that the connection carries.
fn is_of(raw: &RawMessage<'_>, session_id: SessionId) -> bool {
    peek_session_and_request(raw).0 == session_id
}
