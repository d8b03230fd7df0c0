//! A feed's end of what keeps the orders that its store lets go: it is told what is new, what of it
//! never was, and asked for readers who are behind the store.

use weir_delivery::Place;
use weir_types::Nanos;

use super::feed::Feed;
use super::feeds::Feeds;
use crate::cold::ColdAgent;

impl Feed {
    /// Hands over what is new, a bounded part of it; true when there is more.
    pub(super) fn feed_cold(&mut self, now: Nanos) -> bool {
        let Some(cold) = &mut self.cold else { return false };
        cold.feed(self.desk.store(), now)
    }

    /// The same while the store is made anew from its log: all of it, as far as it is taken.
    pub fn feed_cold_at_start(&mut self) {
        if let Some(cold) = &mut self.cold {
            cold.feed_at_start(self.desk.store());
        }
    }

    /// The source began an epoch: what it said after the end of the one before never was.
    pub(super) fn rewind_cold(&mut self) {
        let store = self.desk.store();
        if let (Some(cold), Some((_, valid_to))) = (&mut self.cold, store.past_epochs().last()) {
            cold.rewind(store.epoch(), *valid_to);
        }
    }

    /// A full resend came to its end, which began when the store was at `before`. What the source
    /// disowned is told anew or gone by now, unless the store had let it go meanwhile: nobody says
    /// of that any more that it never was.
    pub(super) fn on_resent(&mut self, before: Place) {
        let store = self.desk.store();
        if let (Some(cold), Some((_, valid_to))) = (&mut self.cold, store.past_epochs().last())
            && *valid_to < before
            && *valid_to < store.floor()
        {
            cold.rewind(store.epoch(), *valid_to);
        }
    }
}

impl Feeds {
    /// Hands what is new on to what keeps it; true when there is more.
    pub fn feed_cold(&mut self, now: Nanos) -> bool {
        self.feeds.iter_mut().fold(false, |more, feed| feed.feed_cold(now) || more)
    }

    /// Gives readers the older pages that came; how many.
    pub fn take_older_pages(&mut self) -> usize {
        let kept = self.feeds.iter_mut();
        kept.filter_map(|feed| Some(feed.cold.as_mut()?.take_answers(&mut feed.desk))).sum()
    }

    /// Asks for the older pages that readers wait for; how many.
    pub fn ask_for_older(&mut self) -> usize {
        let kept = self.feeds.iter_mut();
        kept.filter_map(|feed| Some(feed.cold.as_mut()?.ask(&mut feed.desk))).sum()
    }

    /// The agents of what keeps older orders, for their thread.
    pub fn take_cold(&mut self) -> Vec<ColdAgent> {
        let kept = self.feeds.iter_mut();
        kept.filter_map(|feed| Some(feed.cold.as_mut()?.take_agent())).collect()
    }
}
