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
        cold.feed(self.desk.store_mut(), now)
    }

    /// The same while the store is made anew from its log: all of it, as far as it is taken.
    pub fn feed_cold_at_start(&mut self) {
        if let Some(cold) = &mut self.cold {
            cold.feed_at_start(self.desk.store_mut());
        }
    }

    /// The source began an epoch.
    pub(super) fn begin_cold_epoch(&mut self) {
        if let Some(cold) = &mut self.cold {
            cold.on_epoch(self.desk.store());
        }
    }

    /// A full resend came to its end, which began when the store was at `before`.
    pub(super) fn end_cold_resend(&mut self, before: Place) {
        if let Some(cold) = &mut self.cold {
            cold.on_resent(before, self.desk.store());
        }
    }
}

impl Feeds {
    /// Hands what is new on to what keeps it; true when there is more.
    pub fn feed_cold(&mut self, now: Nanos) -> bool {
        // Each of them, whether the ones before have more or not.
        self.feeds.iter_mut().filter_map(|feed| feed.feed_cold(now).then_some(())).count() > 0
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
