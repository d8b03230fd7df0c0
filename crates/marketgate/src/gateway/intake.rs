//! A subscriber's requests: to begin and end subscriptions and to set their intervals.

use weir_door::figures::add;
use weir_door::{Intake, reject};
use weir_market::conflate::{
    Content, Pattern, Policy, SubscribeError, Subscription, SubscriptionId, Urgency,
};
use weir_types::{MarketContent, MarketPolicy, Nanos, Reason, SessionId};
use weir_wire::frame::put_frame;
use weir_wire::market::{
    MarketEnded, MarketSubscribed, SetMarketInterval, SubscribeMarket, UnsubscribeMarket,
};
use weir_wire::market_dialogue::MarketRequest;

use super::flush::Subscribers;
use super::link::Link;

impl Subscribers {
    /// Carries a request out; it waits while earlier ones leave no room for it.
    pub(super) fn take_request(
        &mut self,
        link: &mut Link,
        request: &MarketRequest<'_>,
        now: Nanos,
    ) -> Intake {
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
        let refusal = match done {
            Ok(()) => return Intake::Done,
            Err(Unserved::Later) => return Intake::Wait,
            Err(Unserved::Ended(refusal)) => refusal,
        };
        self.count_refusal(&refusal);
        put_frame(&refusal.answer(link.session_id(), handle), &mut link.socket.output);
        Intake::Done
    }

    fn subscribe(
        &mut self,
        link: &mut Link,
        message: &SubscribeMarket,
        pattern: &[u8],
        now: Nanos,
    ) -> Result<(), Unserved> {
        if link.state.by_handle.contains_key(&message.handle) {
            return Err(Reason::HandleTaken.into());
        }
        let subscriber = link.state.id.ok_or(Reason::NotLoggedOn)?;
        let terms = terms_of(message, pattern, self.queue_len_max)?;
        let subscription = self.fanout.subscribe(now, subscriber, &terms)?;
        link.state.subscribed(message.handle, subscription);
        add(&self.figures.counters.subscribed, 1);
        let answer = MarketSubscribed {
            interval: terms.interval,
            session_id: message.session_id,
            handle: message.handle,
            queue_len_max: terms.queue_len_max,
        };
        put_frame(&answer, &mut link.socket.output);
        Ok(())
    }

    /// Ends a subscription. The result is always an error, because the answer is a `MarketEnded`.
    fn unsubscribe(
        &mut self,
        link: &mut Link,
        message: &UnsubscribeMarket,
    ) -> Result<(), Unserved> {
        let subscription =
            link.state.by_handle.remove(&message.handle).ok_or(Reason::NotAttached)?;
        let subscriber = link.state.id.ok_or(Reason::NotLoggedOn)?;
        self.fanout.unsubscribe(subscriber, subscription)?;
        Err(Reason::None.into())
    }

    fn set_interval(
        &mut self,
        link: &mut Link,
        message: &SetMarketInterval,
        now: Nanos,
    ) -> Result<(), Unserved> {
        let SetMarketInterval { interval, session_id, handle } = *message;
        let subscription: SubscriptionId =
            link.state.by_handle.get(&handle).copied().ok_or(Reason::NotAttached)?;
        let subscriber = link.state.id.ok_or(Reason::NotLoggedOn)?;
        let set = self.fanout.set_interval(now, subscriber, subscription, interval);
        if let Err(error) = set {
            // The request is refused; the subscription goes on as it was.
            let answer = reject(None, reason_for(&error), "interval");
            put_frame(&answer, &mut link.socket.output);
            return Ok(());
        }
        let queue_len_max = self.queue_len_max;
        let answer = MarketSubscribed { interval, session_id, handle, queue_len_max };
        put_frame(&answer, &mut link.socket.output);
        Ok(())
    }
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
        // A subscriber cannot make the gateway keep more than its own limit.
        queue_len_max: if asked == 0 { queue_len_max } else { asked.min(queue_len_max) },
    })
}

/// A request that was not carried out.
enum Unserved {
    /// It is tried again later.
    Later,
    /// It is refused, or its subscription has ended.
    Ended(Refusal),
}

/// The end of a subscription, or its refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The reason.
    pub reason: Reason,
    /// For want of slots, the slots needed; else zero.
    slots_needed: u32,
    /// For want of slots, the most that there may be; else zero.
    pub slots_max: u32,
}

impl Refusal {
    /// The refusal of a request, or the end of a subscription, for this error.
    pub(super) fn of(error: &SubscribeError) -> Refusal {
        let (slots_needed, slots_max) = match *error {
            SubscribeError::SessionSlots { needed, max }
            | SubscribeError::AllSlots { needed, max } => (needed, max),
            _ => (0, 0),
        };
        let shown = |slots: u64| u32::try_from(slots).unwrap_or(u32::MAX);
        let (slots_needed, slots_max) = (shown(slots_needed), shown(slots_max));
        Refusal { reason: reason_for(error), slots_needed, slots_max }
    }

    /// The message to the subscriber.
    pub(super) fn answer(self, session_id: SessionId, handle: u32) -> MarketEnded {
        let Refusal { reason, slots_needed, slots_max } = self;
        MarketEnded { session_id, handle, slots_needed, slots_max, reason }
    }
}

impl From<Reason> for Unserved {
    fn from(reason: Reason) -> Unserved {
        Unserved::Ended(Refusal { reason, slots_needed: 0, slots_max: 0 })
    }
}

impl From<SubscribeError> for Unserved {
    fn from(error: SubscribeError) -> Unserved {
        match error {
            SubscribeError::Pending => Unserved::Later,
            error => Unserved::Ended(Refusal::of(&error)),
        }
    }
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
        SubscribeError::SessionSlots { .. } => Reason::TooManySessionSlots,
        SubscribeError::AllSlots { .. } => Reason::TooManySlots,
        SubscribeError::TooManyOfInstrument(_) => Reason::TooManyOfInstrument,
        SubscribeError::Pending => Reason::Overloaded,
    }
}
