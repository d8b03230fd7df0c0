//! What updates mean for bars and statistics, on its way to post-processing: a ring that never
//! makes the sender wait. What finds no room is counted, and a gap goes before the next event that
//! does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use weir_feed::Definition;
use weir_market::bar::{BarBreak, BarTrade};
use weir_market::interval::{Activity, BookStated, Called, Quoted, Voided};
use weir_types::Nanos;

use super::audit::Handed;

/// What bars and statistics are made of. Channels by their numbers in the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostEvent {
    /// An instrument's name.
    Define(Definition),
    /// A trade, for bars.
    Trade(BarTrade),
    /// A trade is undone, for bars.
    Break(BarBreak),
    /// An order or a trade, for statistics.
    Act(Activity),
    /// Another best bid and offer, for statistics.
    Quote(Quoted),
    /// Another trading state, for statistics.
    Call(Called),
    /// A book as a snapshot has it, for statistics.
    Book(BookStated),
    /// What became of a channel's books, for statistics.
    Void(u16, Voided),
    /// Messages of a channel were missed.
    Gap(u16),
    /// Events before this one found no room in the ring.
    Untold,
    /// A channel's session is over.
    EndSession(u16),
}

impl PostEvent {
    /// When it happened by the venue's clock, where it says.
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

/// What a ring is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// What bars are made of.
    pub bars: bool,
    /// What statistics are made of.
    pub statistics: bool,
}

/// How far events are behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventFigures {
    /// Events handed over.
    pub taken: u64,
    /// Events that found no room.
    pub dropped: u64,
    /// Events in the ring.
    pub waiting: u64,
    /// From the last event taken out to the newest one in the ring, by their own times.
    pub behind: Nanos,
}

#[derive(Debug, Default)]
struct Shared {
    /// SYNC: written by the sender alone, read for figures; nothing rests on their order.
    taken: AtomicU64,
    dropped: AtomicU64,
    newest: AtomicU64,
}

/// The end that never waits.
#[derive(Debug)]
pub struct PostSender {
    ring: Producer<PostEvent>,
    wants: Wants,
    shared: Arc<Shared>,
    has_gap: bool,
}

/// The end of whoever makes bars and statistics.
#[derive(Debug)]
pub struct PostReceiver {
    ring: Consumer<PostEvent>,
    shared: Arc<Shared>,
    last: Nanos,
}

/// Both ends of a ring of so many events.
#[must_use]
pub fn post_events(count: usize, wants: Wants) -> (PostSender, PostReceiver) {
    // One place more, so that an event and the gap before it find room together.
    let (producer, consumer) = RingBuffer::new(count.saturating_add(1));
    let shared = Arc::new(Shared::default());
    let sender = PostSender { ring: producer, wants, shared: Arc::clone(&shared), has_gap: false };
    (sender, PostReceiver { ring: consumer, shared, last: Nanos(0) })
}

impl PostSender {
    /// What is to be sent.
    #[must_use]
    pub fn wants(&self) -> Wants {
        self.wants
    }

    /// Hands an event over. Never waits.
    pub fn send(&mut self, event: &PostEvent) -> Handed {
        let needed = 1 + usize::from(self.has_gap);
        if self.ring.slots() < needed {
            self.has_gap = true;
            add_one(&self.shared.dropped);
            return Handed::Dropped;
        }
        if std::mem::take(&mut self.has_gap) {
            self.push(PostEvent::Untold);
        }
        if let Some(ts) = event.time() {
            self.shared.newest.store(ts.0, Ordering::Relaxed);
        }
        add_one(&self.shared.taken);
        self.push(*event);
        Handed::Taken
    }

    /// Events that found no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    fn push(&mut self, event: PostEvent) {
        assert!(self.ring.push(event).is_ok(), "there was room");
    }
}

impl PostReceiver {
    /// Hands up to `most` events to `take`, in their order; says how many.
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

    /// How far it is behind.
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
