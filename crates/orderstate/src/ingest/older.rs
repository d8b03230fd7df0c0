//! A source's link to the archive of its store's discarded orders: it sends new changes and
//! rewinds, and queries for readers that are behind the store.

use weir_types::{ChangeId, Nanos};

use super::source_store::SourceStore;
use super::source_stores::SourceStores;
use crate::cold::ColdAgent;

impl SourceStore {
    /// Sends a bounded number of new changes; returns true when there are more.
    pub(super) fn feed_cold(&mut self, now: Nanos) -> bool {
        let Some(cold) = &mut self.cold else { return false };
        cold.send(self.desk.store_mut(), now)
    }

    /// Sends all new changes at a start, while the store is rebuilt from its log, as far as the
    /// archive accepts them.
    pub fn feed_cold_at_start(&mut self) {
        if let Some(cold) = &mut self.cold {
            cold.send_at_start(self.desk.store_mut());
        }
    }

    /// Reports that the source began an epoch.
    pub(super) fn begin_cold_epoch(&mut self) {
        if let Some(cold) = &mut self.cold {
            cold.on_epoch(self.desk.store());
        }
    }

    /// Reports the end of a full resend that began when the store was at `before`.
    pub(super) fn end_cold_resend(&mut self, before: ChangeId) {
        if let Some(cold) = &mut self.cold {
            cold.on_resent(before, self.desk.store());
        }
    }
}

impl SourceStores {
    /// Sends new changes to the archives; returns true when there are more.
    pub fn feed_cold(&mut self, now: Nanos) -> bool {
        // Every source is served, whether or not earlier ones have more.
        self.source_stores
            .iter_mut()
            .filter_map(|source_store| source_store.feed_cold(now).then_some(()))
            .count()
            > 0
    }

    /// Passes the archives' pages to readers; returns their number.
    pub fn take_older_pages(&mut self) -> usize {
        let kept = self.source_stores.iter_mut();
        kept.filter_map(|source_store| {
            Some(source_store.cold.as_mut()?.take_answers(&mut source_store.desk))
        })
        .sum()
    }

    /// Sends the queries of readers that wait for older pages; returns their number.
    pub fn ask_for_older(&mut self) -> usize {
        let kept = self.source_stores.iter_mut();
        kept.filter_map(|source_store| {
            Some(source_store.cold.as_mut()?.ask(&mut source_store.desk))
        })
        .sum()
    }

    /// Takes the archives' agents, for their thread.
    pub fn take_cold(&mut self) -> Vec<ColdAgent> {
        let kept = self.source_stores.iter_mut();
        kept.filter_map(|source_store| Some(source_store.cold.as_mut()?.take_agent())).collect()
    }
}
