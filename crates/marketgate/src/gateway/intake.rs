//! A subscriber's requests: to begin and end subscriptions and to set their intervals.

use weir_door::figures::add;
use weir_door::reject;
use weir_market::conflate::{
    Content, Pattern, Policy, SubscribeError, Subscription, SubscriptionId, Urgency,
};
use weir_types::{MarketContent, MarketPolicy, Nanos, Reason};
use weir_wire::frame::put_frame;
use weir_wire::market::{
    MarketEnded, MarketSubscribed, SetMarketInterval, SubscribeMarket, UnsubscribeMarket,
};
use weir_wire::market_dialogue::MarketRequest;

use super::flush::Subscribers;
use super::link::Link;

impl Subscribers {
    pub(super) fn take_request(
        &mut self,
        link: &mut Link,
        request: &MarketRequest<'_>,
        now: Nanos,
    ) {
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
        add(&self.figures.counters.refused, u64::from(reason != Reason::None));
        let session_id = link.session_id();
        put_frame(&MarketEnded { session_id, handle, reason }, &mut link.socket.output);
    }

    fn subscribe(
        &mut self,
        link: &mut Link,
        message: &SubscribeMarket,
        pattern: &[u8],
        now: Nanos,
    ) -> Result<(), Reason> {
        if link.state.by_handle.contains_key(&message.handle) {
            return Err(Reason::HandleTaken);
        }
        let subscriber = link.state.id.ok_or(Reason::NotLoggedOn)?;
        let terms = terms_of(message, pattern, self.queue_len_max)?;
        let subscribed = self.fanout.subscribe(now, subscriber, &terms);
        let subscription = subscribed.map_err(|error| reason_for(&error))?;
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
    fn unsubscribe(&mut self, link: &mut Link, message: &UnsubscribeMarket) -> Result<(), Reason> {
        let subscription =
            link.state.by_handle.remove(&message.handle).ok_or(Reason::NotAttached)?;
        let subscriber = link.state.id.ok_or(Reason::NotLoggedOn)?;
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
