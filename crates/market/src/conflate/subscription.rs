//! The terms of a subscription: instruments, content, maximum frequency, and the policy for a
//! subscriber that does not keep up.

use weir_feed::instrument::SymbolText;
use weir_types::Nanos;

use super::entry::Kind;
use super::outbox::Full;
use super::urgency::Urgency;

/// A subscriber of one `Fanout`. Numbers are reused after removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriberId(pub u32);

/// A subscription of one subscriber. Numbers are reused after it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(pub u32);

/// The instruments of a subscription, including those defined later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// The instrument with this symbol.
    Symbol(SymbolText),
    /// Instruments whose symbol begins with this text.
    Prefix(SymbolText),
    /// All instruments.
    All,
}

impl Pattern {
    /// Parses `AAPL`, `AAPL*` or `*`; a star anywhere else is a character of the symbol. Returns
    /// `None` where a symbol would be empty, too long or not printable.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Pattern> {
        match text {
            b"*" => Some(Pattern::All),
            [prefix @ .., b'*'] => SymbolText::new(prefix).map(Pattern::Prefix),
            symbol => SymbolText::new(symbol).map(Pattern::Symbol),
        }
    }

    /// Returns true when the pattern includes the instrument of this symbol.
    #[must_use]
    pub fn matches(&self, symbol: &SymbolText) -> bool {
        match self {
            Pattern::Symbol(wanted) => wanted == symbol,
            Pattern::Prefix(prefix) => symbol.as_str().starts_with(prefix.as_str()),
            Pattern::All => true,
        }
    }
}

/// The content of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The best bid and offer.
    Bbo,
    /// The best levels of each side, this many.
    Depth(u16),
    /// All levels.
    Levels,
    /// The book order by order. After a gap all orders are sent again.
    Orders,
    /// Trades.
    Trades,
    /// The day's statistics.
    Statistics,
    /// The trading state.
    Status,
}

impl Content {
    /// Returns the kind of entries that provide the content.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Content::Bbo => Kind::Bbo,
            Content::Depth(_) | Content::Levels => Kind::Book,
            Content::Orders => Kind::Orders,
            Content::Trades => Kind::Trades,
            Content::Statistics => Kind::Statistics,
            Content::Status => Kind::Status,
        }
    }
}

/// The treatment of a subscription that does not keep up.
///
/// | policy          | while it keeps up     | its queue is full: states          | others      |
/// |-----------------|-----------------------|------------------------------------|-------------|
/// | `None`          | everything            | the newest merged, behind the rest | newest: gap |
/// | `Conflate`      | the latest, throttled | (never: one per instrument)        | (refused)   |
/// | `SkipAndNotify` | everything            | the queued: gap; then the latest   | queued: gap |
/// | `Disconnect`    | everything            | the subscriber is disconnected     | as states   |
///
/// Changes of status are queued under `Conflate` too, and merged when their queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Keeps all queued messages; later ones that find no room are lost after them.
    None,
    /// Sends one message with the latest state for each instrument, at most once per interval.
    Conflate,
    /// Drops queued messages in favour of new ones.
    SkipAndNotify,
    /// Disconnects the subscriber rather than lose a message.
    Disconnect,
}

impl Policy {
    pub(super) const fn on_full(self) -> Full {
        match self {
            Policy::None | Policy::Conflate => Full::Collapse,
            Policy::SkipAndNotify => Full::Skip,
            Policy::Disconnect => Full::Close,
        }
    }
}

/// The terms of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The instruments.
    pub pattern: Pattern,
    /// The content.
    pub content: Content,
    /// The minimum time between two messages of an instrument, unless one is urgent. With zero,
    /// messages go as soon as there is room.
    pub interval: Nanos,
    /// The policy when the subscriber does not keep up.
    pub policy: Policy,
    /// The rule for quotes that do not wait for the interval, compared with the last one sent to
    /// this subscription.
    pub urgency: Urgency,
    /// The most queued messages, in addition to one per instrument; at least 1.
    pub queue_len_max: u32,
}

impl Subscription {
    /// Creates a subscription without an interval: states are conflated, others are skipped with
    /// notice when 1,024 are queued.
    #[must_use]
    pub fn new(pattern: Pattern, content: Content) -> Subscription {
        let policy =
            if content.kind().is_state() { Policy::Conflate } else { Policy::SkipAndNotify };
        Subscription {
            pattern,
            content,
            interval: Nanos(0),
            policy,
            urgency: Urgency::default(),
            queue_len_max: 1_024,
        }
    }

    pub(super) fn check(&self) -> Result<(), SubscribeError> {
        if self.policy == Policy::Conflate && !self.content.kind().is_state() {
            return Err(SubscribeError::NeverConflated(self.content.kind()));
        }
        self.check_interval(self.interval)?;
        if self.content == Content::Depth(0) {
            return Err(SubscribeError::NoDepth);
        }
        if self.queue_len_max == 0 {
            return Err(SubscribeError::NoQueue);
        }
        Ok(())
    }

    pub(super) fn check_interval(&self, interval: Nanos) -> Result<(), SubscribeError> {
        let is_throttled = self.policy == Policy::Conflate && self.content.kind().may_wait();
        if interval != Nanos(0) && !is_throttled {
            return Err(SubscribeError::IntervalWithoutConflation);
        }
        Ok(())
    }

    /// Returns the levels of each side in its messages; zero for content without levels.
    pub(super) const fn depth(&self) -> usize {
        match self.content {
            Content::Depth(depth) => depth as usize,
            Content::Levels => usize::MAX,
            _ => 0,
        }
    }
}

/// The reason a request of a subscriber was refused. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// The subscriber does not exist.
    #[error("there is no {0:?}")]
    NoSubscriber(SubscriberId),
    /// The subscription does not exist.
    #[error("there is no {0:?}")]
    NoSubscription(SubscriptionId),
    /// The subscriber is disconnected and can only be removed.
    #[error("the subscriber is disconnected")]
    Disconnected,
    /// The subscriber has the maximum of subscriptions.
    #[error("there are {0} subscriptions already")]
    TooMany(u32),
    /// Trades and orders are never conflated.
    #[error("{0:?} are never conflated")]
    NeverConflated(Kind),
    /// An interval is valid only for conflated quotes, levels and statistics.
    #[error("an interval without conflation")]
    IntervalWithoutConflation,
    /// The depth is zero levels.
    #[error("a depth of 0 levels")]
    NoDepth,
    /// The queue has no room for a message.
    #[error("a queue of 0 messages")]
    NoQueue,
    /// The subscriptions of the account would have more slots than they may.
    #[error("the session's subscriptions would have {needed} slots and may have {max}")]
    SessionSlots {
        /// The slots that they would have.
        needed: u64,
        /// The most that they may have.
        max: u64,
    },
    /// The subscriptions of all accounts would have more slots than they may.
    #[error("all subscriptions would have {needed} slots and may have {max}")]
    AllSlots {
        /// The slots that they would have.
        needed: u64,
        /// The most that they may have.
        max: u64,
    },
    /// As many subscriptions of the subscriber as may be include one instrument.
    #[error("{0} subscriptions include an instrument already")]
    TooManyOfInstrument(u32),
    /// Earlier requests leave no room until they have been carried out: to be tried again.
    #[error("earlier requests are being carried out")]
    Pending,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(text: &str) -> SymbolText {
        SymbolText::new(text.as_bytes()).expect("a symbol")
    }

    #[test]
    fn a_pattern_is_a_symbol_a_prefix_or_all() {
        let cases: [(&[u8], Option<Pattern>, &str, bool); 8] = [
            (b"AAPL", Some(Pattern::Symbol(symbol("AAPL"))), "AAPL", true),
            (b"AAPL", Some(Pattern::Symbol(symbol("AAPL"))), "AAPLW", false),
            (b"AAPL*", Some(Pattern::Prefix(symbol("AAPL"))), "AAPLW", true),
            (b"AAPL*", Some(Pattern::Prefix(symbol("AAPL"))), "AAP", false),
            (b"*", Some(Pattern::All), "Z", true),
            (b"*A", Some(Pattern::Symbol(symbol("*A"))), "AA", false),
            (b"", None, "A", false),
            (b" *", None, "A", false),
        ];
        for (text, want, against, is_match) in cases {
            let pattern = Pattern::parse(text);
            assert_eq!(pattern, want, "{text:?}");
            let matches = pattern.is_some_and(|pattern| pattern.matches(&symbol(against)));
            assert_eq!(matches, is_match, "{text:?} {against}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let of = |content| Subscription::new(Pattern::All, content);
        let conflated = Subscription { policy: Policy::Conflate, ..of(Content::Trades) };
        assert_eq!(conflated.check(), Err(SubscribeError::NeverConflated(Kind::Trades)));
        let timed = Subscription { interval: Nanos(1), ..of(Content::Status) };
        assert_eq!(timed.check(), Err(SubscribeError::IntervalWithoutConflation));
        assert_eq!(of(Content::Depth(0)).check(), Err(SubscribeError::NoDepth));
        let narrow = Subscription { queue_len_max: 0, ..of(Content::Bbo) };
        assert_eq!(narrow.check(), Err(SubscribeError::NoQueue));
        assert_eq!(Subscription { interval: Nanos(1), ..of(Content::Bbo) }.check(), Ok(()));
    }
}
