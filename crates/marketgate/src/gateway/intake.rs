//! What a subscriber says: its logon, its subscriptions; and the answer to what has no place.

use weir_door::reception::Via;
use weir_door::{ConnectionId, Welcome, reason_of, reject, take_logon};
use weir_market::conflate::{
    Content, Pattern, Policy, SubscribeError, Subscription, SubscriptionId, Urgency,
};
use weir_types::{MarketContent, MarketPolicy, Nanos, Reason, Role, SessionId};
use weir_wire::dialogue::peek_session_and_request;
use weir_wire::frame::{CLIENT_FRAME_LEN_MAX, Framing, RawMessage, next_frame, put_frame};
use weir_wire::market::{
    MarketEnded, MarketSubscribed, SetMarketInterval, SubscribeMarket, UnsubscribeMarket,
};
use weir_wire::market_dialogue::MarketRequest;
use weir_wire::{ClientMessage, DecodeError};

use super::flush::{FlushAgent, add};
use super::link::Link;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intake {
    Done,
    /// It has to wait, and what is behind it.
    Wait,
}

impl FlushAgent {
    /// Takes whole frames until one has to wait; how many.
    pub(super) fn take_frames(&mut self, id: u64, link: &mut Link, now: Nanos) -> usize {
        let input = link.socket.take_input();
        let (mut consumed, mut frames) = (0, 0);
        link.must_wait = false;
        while !link.socket.is_closing() && link.socket.has_room() {
            match next_frame(&input[consumed..], CLIENT_FRAME_LEN_MAX) {
                Framing::Incomplete => break,
                Framing::Broken(broken) => {
                    add(&self.figures.malformed, 1);
                    add(&self.figures.ended, 1);
                    link.close(reason_of(broken, CLIENT_FRAME_LEN_MAX), now);
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
            Ok(ClientMessage::Market(request)) => {
                if link.session.is_none_or(|session| !is_of(&raw, session.session_id)) {
                    let wrong = (Reason::NotLoggedOn, "session_id");
                    return self.refuse(link, Some(&raw), wrong, now);
                }
                self.take_request(link, &request, now);
                // An interval that got shorter may be over.
                self.look_at(id);
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
        let may = |_: SessionId, role| match role {
            _ if is_taken => Err(Reason::AlreadyLoggedOn),
            Role::Source => Err(Reason::NotEntitled),
            _ => Ok(()),
        };
        match take_logon(&mut self.reception, message, via, may, &mut link.socket.output) {
            Welcome::Open(session) => {
                link.session = Some(session);
                let subscriber = self.fanout.add_subscriber();
                link.subscriber = Some(subscriber);
                self.welcome_subscriber(id, subscriber);
                self.put_channels(link, session.session_id, now);
            }
            Welcome::Refused => add(&self.figures.logons_refused, 1),
            Welcome::Challenged | Welcome::Other => {}
            Welcome::Wait => return Intake::Wait,
        }
        Intake::Done
    }

    fn take_request(&mut self, link: &mut Link, request: &MarketRequest<'_>, now: Nanos) {
        let (handle, done) = match request {
            MarketRequest::Subscribe(message, pattern) => {
                (message.handle, self.subscribe(link, message, pattern, now))
            }
            MarketRequest::Unsubscribe(message) => {
                (message.handle, self.unsubscribe(link, message))
            }
            MarketRequest::SetInterval(message) => {
                (message.handle, self.set_interval(link, message, now))
            }
        };
        let Err(reason) = done else { return };
        add(&self.figures.refused, u64::from(reason != Reason::None));
        let session_id = link.session.map_or(SessionId::NONE, |session| session.session_id);
        put_frame(&MarketEnded { session_id, handle, reason }, &mut link.socket.output);
    }

    fn subscribe(
        &mut self,
        link: &mut Link,
        message: &SubscribeMarket,
        pattern: &[u8],
        now: Nanos,
    ) -> Result<(), Reason> {
        if link.by_handle.contains_key(&message.handle) {
            return Err(Reason::HandleTaken);
        }
        let subscriber = link.subscriber.ok_or(Reason::NotLoggedOn)?;
        let terms = terms_of(message, pattern, self.queue_len_max)?;
        let subscribed = self.fanout.subscribe(now, subscriber, &terms);
        let subscription = subscribed.map_err(|error| reason_for(&error))?;
        link.subscribed(message.handle, subscription);
        add(&self.figures.subscribed, 1);
        let answer = MarketSubscribed {
            interval: terms.interval,
            session_id: message.session_id,
            handle: message.handle,
            queue_len_max: terms.queue_len_max,
        };
        put_frame(&answer, &mut link.socket.output);
        Ok(())
    }

    /// Ends a subscription; always an error, since its end is what there is to say.
    fn unsubscribe(&mut self, link: &mut Link, message: &UnsubscribeMarket) -> Result<(), Reason> {
        let subscription = link.by_handle.remove(&message.handle).ok_or(Reason::NotAttached)?;
        let subscriber = link.subscriber.ok_or(Reason::NotLoggedOn)?;
        let ended = self.fanout.unsubscribe(subscriber, subscription);
        ended.map_err(|error| reason_for(&error))?;
        Err(Reason::None)
    }

    fn set_interval(
        &mut self,
        link: &mut Link,
        message: &SetMarketInterval,
        now: Nanos,
    ) -> Result<(), Reason> {
        let SetMarketInterval { interval, session_id, handle } = *message;
        let subscription: SubscriptionId =
            link.by_handle.get(&handle).copied().ok_or(Reason::NotAttached)?;
        let subscriber = link.subscriber.ok_or(Reason::NotLoggedOn)?;
        let set = self.fanout.set_interval(now, (subscriber, subscription), interval);
        if let Err(error) = set {
            // What was asked makes no sense; the subscription goes on as it was.
            let answer = reject(None, reason_for(&error), "interval");
            put_frame(&answer, &mut link.socket.output);
            return Ok(());
        }
        let queue_len_max = self.queue_len_max;
        let answer = MarketSubscribed { interval, session_id, handle, queue_len_max };
        put_frame(&answer, &mut link.socket.output);
        Ok(())
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

fn terms_of(
    message: &SubscribeMarket,
    pattern: &[u8],
    queue_len_max: u32,
) -> Result<Subscription, Reason> {
    let content = match message.content {
        MarketContent::Bbo => Content::Bbo,
        MarketContent::Depth => Content::Depth(message.depth),
        MarketContent::Levels => Content::Levels,
        MarketContent::Orders => Content::Orders,
        MarketContent::Trades => Content::Trades,
        MarketContent::Statistics => Content::Statistics,
        MarketContent::Status => Content::Status,
    };
    let asked = message.queue_len_max;
    Ok(Subscription {
        pattern: Pattern::parse(pattern).ok_or(Reason::PatternMalformed)?,
        content,
        interval: message.interval,
        policy: match message.policy {
            MarketPolicy::Keep => Policy::None,
            MarketPolicy::Conflate => Policy::Conflate,
            MarketPolicy::SkipAndNotify => Policy::SkipAndNotify,
            MarketPolicy::Disconnect => Policy::Disconnect,
        },
        urgency: Urgency {
            move_ppm: (message.urgent_move_ppm > 0).then_some(message.urgent_move_ppm),
            move_abs: (message.urgent_move > 0).then_some(message.urgent_move),
        },
        // Nobody makes the gateway keep more for it than the gateway says.
        queue_len_max: if asked == 0 { queue_len_max } else { asked.min(queue_len_max) },
    })
}

fn reason_for(error: &SubscribeError) -> Reason {
    match error {
        SubscribeError::NoSubscriber(_) => Reason::NotLoggedOn,
        SubscribeError::NoSubscription(_) => Reason::NotAttached,
        SubscribeError::Disconnected => Reason::SlowConsumer,
        SubscribeError::TooMany(_) => Reason::TooManySubscriptions,
        SubscribeError::NeverConflated(_) => Reason::NeverConflated,
        SubscribeError::IntervalWithoutConflation => Reason::IntervalWithoutConflation,
        SubscribeError::NoDepth | SubscribeError::NoQueue => Reason::FieldOutOfRange,
    }
}
