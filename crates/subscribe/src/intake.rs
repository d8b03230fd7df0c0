//! The messages of subscribers and publishers: acknowledgements, messages for others, and requests
//! about subscriptions, which [`super::manage`] carries out.

use weir_broker::{
    MessageNo, OriginMark, PublishOutcome, PublishRefusal, PublishTimes, Source, SubscriptionError,
    Topic, TopicKind,
};
use weir_door::figures::add;
use weir_door::{Intake, LoggedOn, SessionMessage};
use weir_types::{Nanos, Position, Reason, Role};
use weir_wire::ClientMessage;
use weir_wire::frame::put_frame;
use weir_wire::subscription::{AckMessages, PublishMessage, PublishReject};

use super::agent::Subscriptions;
use super::executions::is_execution;
use super::link::Link;

/// Messages of a publisher that may be without acknowledgement.
const OPEN_MAX: usize = 64 * 1024;
/// Changes of a connection that the disk may not have yet; its next one waits.
const PROMISES_MAX: u32 = 256;

impl Subscriptions {
    pub(super) fn take_message(
        &mut self,
        link: &mut Link,
        said: &SessionMessage<'_>,
        times: PublishTimes,
    ) -> Intake {
        let (session, now) = (&said.session, times.now);
        match said.message {
            ClientMessage::PublishMessage(message, body) => {
                self.publish(link, session, message, body, times);
            }
            ClientMessage::AckMessages(ack) => return self.take_ack(link, ack, now),
            ClientMessage::CreateSubscription(..) | ClientMessage::SubscriptionRequest(..)
                if link.state.promised_count >= PROMISES_MAX =>
            {
                return Intake::Wait;
            }
            ClientMessage::CreateSubscription(create, name) => {
                return self.create(link, session, create, name, now);
            }
            ClientMessage::SubscriptionRequest(request, name) => {
                self.take_request(link, session, request, name);
            }
            ClientMessage::AttachSubscription(attach, name) => {
                self.attach(link, session, attach, name, now);
            }
            ClientMessage::DetachSubscription(detach) => self.detach(link, detach, now),
            ClientMessage::NamedToken(token, bytes) => self.keep_token(link, token, bytes, now),
            _ => return Intake::Refused(Reason::NotServedHere, ""),
        }
        Intake::Done
    }

    /// Takes a message for another session. If it finds no room, nothing behind it is taken until
    /// it comes again, so that a publisher's messages keep their order.
    fn publish(
        &mut self,
        link: &mut Link,
        session: &LoggedOn,
        message: &PublishMessage,
        body: &[u8],
        times: PublishTimes,
    ) {
        let numbered = (message.epoch, message.message_no);
        if link.state.publishing.refused.is_some_and(|refused| refused != numbered) {
            add(&self.figures.counters.passed_over, 1);
            return;
        }
        let taken = may_publish(link, session.role, message).and_then(|()| {
            if is_execution(session.role, message) {
                return self.take_execution(message, body, times).map(Some);
            }
            self.take_published(message, body, times)
        });
        match taken {
            Ok(Some(no)) => {
                let publishing = &mut link.state.publishing;
                publishing.open.push_back((message.epoch, message.message_no, no));
                publishing.last = numbered;
                publishing.refused = None;
                self.publishers.insert(link.id);
                // It may be acknowledged already.
                self.acknowledged = MessageNo::NONE;
            }
            Ok(None) => self.reject_message(link, message, Reason::NobodySubscribes),
            Err(reason) => {
                if matches!(reason, Reason::BrokerMemoryFull | Reason::BrokerDiskFull) {
                    link.state.publishing.refused = Some(numbered);
                }
                self.reject_message(link, message, reason);
            }
        }
    }

    fn take_published(
        &mut self,
        message: &PublishMessage,
        body: &[u8],
        times: PublishTimes,
    ) -> Result<Option<MessageNo>, Reason> {
        let topic = Topic { kind: TopicKind::Messages, key: message.to_session_id.0 };
        let mark = OriginMark {
            source: Source(message.session_id.0),
            epoch: message.epoch,
            record: Position(message.message_no),
        };
        self.put_in(topic, mark, body, times)
    }

    /// Gives a message to a topic; `None` if it has no subscriptions.
    pub(super) fn put_in(
        &mut self,
        topic: Topic,
        mark: OriginMark,
        body: &[u8],
        times: PublishTimes,
    ) -> Result<Option<MessageNo>, Reason> {
        match self.broker.publish(topic, mark, body, times) {
            Ok(PublishOutcome::Taken(no) | PublishOutcome::Repeated(no)) => {
                self.hot.extend(self.by_topic.get(&topic).into_iter().flatten());
                Ok(Some(no))
            }
            Ok(PublishOutcome::Unwanted) => Ok(None),
            Err(PublishRefusal::MemoryFull) => Err(Reason::BrokerMemoryFull),
            Err(PublishRefusal::DiskFull) => Err(Reason::BrokerDiskFull),
            Err(PublishRefusal::EpochBack { .. }) => Err(Reason::MessageNoTaken),
            Err(PublishRefusal::Stopped) => Err(Reason::BrokerStopped),
            Err(PublishRefusal::TooLong { .. }) => Err(Reason::FrameTooLong),
        }
    }

    fn reject_message(&mut self, link: &mut Link, message: &PublishMessage, reason: Reason) {
        add(&self.figures.counters.messages_refused, 1);
        let PublishMessage { message_no, session_id, to_session_id, epoch } = *message;
        let reject = PublishReject { message_no, session_id, to_session_id, epoch, reason };
        put_frame(&reject, &mut link.socket.output);
    }

    fn take_ack(&mut self, link: &mut Link, ack: &AckMessages, now: Nanos) -> Intake {
        let held = link.state.held.get_mut(&ack.handle).and_then(|held| held.queue.as_mut());
        let Some(queue) = held else {
            // It may have ended while this was in flight; its end is sent by itself.
            add(&self.figures.counters.acks_late, 1);
            return Intake::Done;
        };
        queue.credit_messages += u64::from(ack.credit_messages);
        queue.credit_bytes += u64::from(ack.credit_bytes);
        let attachment = queue.attachment;
        self.hot.insert((link.id, ack.handle));
        if ack.message_no == 0 {
            return Intake::Done;
        }
        match self.broker.ack(attachment, MessageNo(ack.message_no), now) {
            Err(SubscriptionError::AckAhead { .. }) => {
                Intake::Refused(Reason::AckAhead, "message_no")
            }
            // The broker's notice reports an eviction.
            Ok(_) | Err(_) => Intake::Done,
        }
    }
}

/// True if a message is the next one of a session that may publish, and there is room for more.
fn may_publish(link: &Link, role: Role, message: &PublishMessage) -> Result<(), Reason> {
    if !matches!(role, Role::Supervisor | Role::Operator | Role::Source) {
        return Err(Reason::NotEntitled);
    }
    let numbered = (message.epoch, message.message_no);
    let publishing = &link.state.publishing;
    if message.message_no == 0 || message.epoch.is_none() || numbered <= publishing.last {
        return Err(Reason::MessageNoTaken);
    }
    if publishing.open.len() >= OPEN_MAX {
        return Err(Reason::BrokerMemoryFull);
    }
    Ok(())
}
