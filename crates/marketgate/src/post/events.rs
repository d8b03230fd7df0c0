//! The ring of events from the gateway to bars and statistics; it never blocks the sender. Events
//! without room are counted, and a gap precedes the next event that finds room.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use weir_feed::Definition;
use weir_market::bar::{BarBreak, BarTrade};
use weir_market::interval::{Activity, BookStatement, ChannelReset, QuoteChange, StateChange};
use weir_types::Nanos;

use super::audit::SendOutcome;

/// An event for bars and statistics. Channels have their numbers in the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostEvent {
    /// An instrument's name.
    Define(Definition),
    /// A trade, for bars.
    Trade(BarTrade),
    /// A trade break, for bars.
    Break(BarBreak),
    /// An order or a trade, for statistics.
    Act(Activity),
    /// A new best bid and offer, for statistics.
    Quote(QuoteChange),
    /// A new trading state, for statistics.
    Call(StateChange),
    /// A book as of a snapshot, for statistics.
    Book(BookStatement),
    /// An invalidation of a channel's books, for statistics.
    Void(u16, ChannelReset),
    /// Messages of a channel were missed.
    Gap(u16),
    /// Events before this one found no room in the ring.
    Untold,
    /// A channel's session is over.
    EndSession(u16),
}

impl PostEvent {
    /// The venue's time of the event, if it has one.
    fn time(&self) -> Option<Nanos> {
        match self {
            PostEvent::Trade(trade) => Some(trade.ts_event),
            PostEvent::Act(activity) => Some(activity.ts_event),
            PostEvent::Quote(quoted) => Some(quoted.ts_event),
            PostEvent::Call(called) => Some(called.ts_event),
            _ => None,
        }
    }
}

/// The events to send into a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventSelection {
    /// Events for bars.
    pub bars: bool,
    /// Events for statistics.
    pub statistics: bool,
}

/// The backlog and losses of the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventFigures {
    /// Events taken into the ring.
    pub taken: u64,
    /// Events dropped for lack of room.
    pub dropped: u64,
    /// Events in the ring.
    pub waiting: u64,
    /// The time from the last event read to the newest one in the ring, by the events' own times.
    pub behind: Nanos,
}

#[derive(Debug, Default)]
struct Shared {
    /// SYNC: written by the sender alone, read for figures; nothing depends on their order.
    taken: AtomicU64,
    dropped: AtomicU64,
    newest: AtomicU64,
}

/// The sending end, which never blocks.
#[derive(Debug)]
pub struct PostSender {
    ring: Producer<PostEvent>,
    wants: EventSelection,
    shared: Arc<Shared>,
    has_gap: bool,
}

/// The receiving end, which feeds bars and statistics.
#[derive(Debug)]
pub struct PostReceiver {
    ring: Consumer<PostEvent>,
    shared: Arc<Shared>,
    last: Nanos,
}

/// Creates a ring of `count` events.
#[must_use]
pub fn post_events(count: usize, wants: EventSelection) -> (PostSender, PostReceiver) {
    // One more slot, so that an event and the gap before it fit together.
    let (producer, consumer) = RingBuffer::new(count.saturating_add(1));
    let shared = Arc::new(Shared::default());
    let sender = PostSender { ring: producer, wants, shared: Arc::clone(&shared), has_gap: false };
    (sender, PostReceiver { ring: consumer, shared, last: Nanos(0) })
}

impl PostSender {
    /// The events to send.
    #[must_use]
    pub fn wants(&self) -> EventSelection {
        self.wants
    }

    /// Sends an event. Never blocks.
    pub fn send(&mut self, event: &PostEvent) -> SendOutcome {
        let needed = 1 + usize::from(self.has_gap);
        if self.ring.slots() < needed {
            self.has_gap = true;
            add_one(&self.shared.dropped);
            return SendOutcome::Dropped;
        }
        if std::mem::take(&mut self.has_gap) {
            self.push(PostEvent::Untold);
        }
        if let Some(ts) = event.time() {
            self.shared.newest.store(ts.0, Ordering::Relaxed);
        }
        add_one(&self.shared.taken);
        self.push(*event);
        SendOutcome::Taken
    }

    /// The number of events dropped for lack of room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    fn push(&mut self, event: PostEvent) {
        assert!(self.ring.push(event).is_ok(), "there was room");
    }
}

impl PostReceiver {
    /// Passes up to `most` events to `take`, in order; returns their number.
    pub fn take(&mut self, most: usize, take: &mut dyn FnMut(&PostEvent)) -> usize {
        let mut taken = 0;
        while taken < most
            && let Ok(event) = self.ring.pop()
        {
            self.last = event.time().unwrap_or(self.last);
            take(&event);
            taken += 1;
        }
        taken
    }

    /// The backlog and losses of the ring.
    #[must_use]
    pub fn figures(&self) -> EventFigures {
        let waiting = self.ring.slots() as u64;
        let newest = Nanos(self.shared.newest.load(Ordering::Relaxed));
        EventFigures {
            taken: self.shared.taken.load(Ordering::Relaxed),
            dropped: self.shared.dropped.load(Ordering::Relaxed),
            waiting,
            behind: if waiting > 0 { newest.since(self.last) } else { Nanos(0) },
        }
    }
}

fn add_one(to: &AtomicU64) {
    to.store(to.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_cache_line() {
        assert!(size_of::<PostEvent>() <= 64, "{} bytes", size_of::<PostEvent>());
    }
}
