//! What a subscriber asks for: which instruments, what of them, how often at most, and what is to
//! happen when it does not keep up.

use weir_types::Nanos;

use super::entry::Kind;
use super::outbox::Full;
use super::urgency::Urgency;
use crate::instrument::SymbolText;

/// A subscriber of one `Fanout`. Used again after it was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriberId(pub u32);

/// A subscription of one subscriber. Used again after it was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(pub u32);

/// Which instruments. Those that are defined later are among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// The one with this symbol.
    Symbol(SymbolText),
    /// Those whose symbol begins so.
    Prefix(SymbolText),
    /// All.
    All,
}

impl Pattern {
    /// Reads `AAPL`, `AAPL*` or `*`; a star anywhere else is a character of the symbol. `None`
    /// where a symbol would be empty, too long or not printable.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Pattern> {
        match text {
            b"*" => Some(Pattern::All),
            [prefix @ .., b'*'] => SymbolText::new(prefix).map(Pattern::Prefix),
            symbol => SymbolText::new(symbol).map(Pattern::Symbol),
        }
    }

    /// True when the instrument of this symbol is among them.
    #[must_use]
    pub fn matches(&self, symbol: &SymbolText) -> bool {
        match self {
            Pattern::Symbol(wanted) => wanted == symbol,
            Pattern::Prefix(prefix) => symbol.as_str().starts_with(prefix.as_str()),
            Pattern::All => true,
        }
    }
}

/// What of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The best bid and offer.
    Bbo,
    /// The best levels of each side, so many.
    Depth(u16),
    /// All levels.
    Levels,
    /// The book order by order. After a gap all orders are told anew.
    Orders,
    /// Trades.
    Trades,
    /// The day's statistics.
    Statistics,
    /// The trading state.
    Status,
}

impl Content {
    /// The kind of entries that it is made of.
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

/// What happens to a subscription that does not keep up.
///
/// | policy          | while it keeps up     | its queue is full: states          | others      |
/// |-----------------|-----------------------|------------------------------------|-------------|
/// | `None`          | everything            | the newest merged, behind the rest | newest: gap |
/// | `Conflate`      | the latest, throttled | (nothing but one per instrument)   | (refused)   |
/// | `SkipAndNotify` | everything            | the queued: gap; then the latest   | queued: gap |
/// | `Disconnect`    | everything            | the subscriber is disconnected     | as states   |
///
/// Changes of status are queued under `Conflate` too, and merged when their queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// What was queued comes first, complete; what came when there was no room is missing after it.
    None,
    /// One message for each instrument with the latest state, within the interval at most once.
    Conflate,
    /// What was queued is given up for what is new.
    SkipAndNotify,
    /// All or nothing.
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

/// A subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Which instruments.
    pub pattern: Pattern,
    /// What of them.
    pub content: Content,
    /// The least time between two messages of an instrument, where nothing is urgent. Zero: as
    /// often as there is room.
    pub interval: Nanos,
    /// What happens when it does not keep up.
    pub policy: Policy,
    /// When a quote does not wait for the interval, against what this subscription was sent.
    pub urgency: Urgency,
    /// Messages that are queued at most, beside one per instrument; from 1.
    pub queue_len_max: u32,
}

impl Subscription {
    /// A subscription without an interval: states conflated, others skipped with notice when 1,024
    /// are queued.
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

    /// Levels of each side that its messages have, if they have any.
    pub(super) const fn depth(&self) -> usize {
        match self.content {
            Content::Depth(depth) => depth as usize,
            Content::Levels => usize::MAX,
            _ => 0,
        }
    }
}

/// Why something was not done for a subscriber. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// There is no such subscriber.
    #[error("there is no {0:?}")]
    NoSubscriber(SubscriberId),
    /// The subscriber has no such subscription.
    #[error("there is no {0:?}")]
    NoSubscription(SubscriptionId),
    /// The subscriber is disconnected; all that is left is to remove it.
    #[error("the subscriber is disconnected")]
    Disconnected,
    /// It has as many as it may.
    #[error("there are {0} subscriptions already")]
    TooMany(u32),
    /// Trades and orders are never conflated.
    #[error("{0:?} are never conflated")]
    NeverConflated(Kind),
    /// An interval makes sense for quotes, levels and statistics that are conflated.
    #[error("an interval without conflation")]
    IntervalWithoutConflation,
    /// A depth of no levels.
    #[error("a depth of 0 levels")]
    NoDepth,
    /// A queue without room.
    #[error("a queue of 0 messages")]
    NoQueue,
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
