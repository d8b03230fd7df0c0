//! A source's link to the archive of its store's discarded orders: it sends new changes and
//! rewinds, and queries for readers that are behind the store.

use weir_io::Disk;
use weir_types::Nanos;

use super::source_store::SourceStore;
use super::source_stores::SourceStores;
use crate::cold::{ColdAgent, may_be_sent};

impl<D: Disk> SourceStore<D> {
    /// Sends a bounded number of new changes; returns true when there are more.
    pub(super) fn feed_cold(&mut self, now: Nanos) -> bool {
        #[cfg(test)]
        {
            let breaks = self.feed_breaks_at.take_if(|at| *at == self.stream.next_batch_no());
            assert!(breaks.is_none(), "feeding the archive breaks an invariant");
        }
        let waits = self.waits_for_epoch();
        let Some(cold) = &mut self.cold else { return false };
        if waits {
            cold.hold(self.desk.store_mut());
            return false;
        }
        cold.send(self.desk.store_mut(), now)
    }

    /// Sends all new changes at a start, while the store is rebuilt from its log, as far as the
    /// archive accepts them.
    pub fn feed_cold_at_start(&mut self) {
        let waits = self.waits_for_epoch();
        match &mut self.cold {
            Some(cold) if waits => cold.hold(self.desk.store_mut()),
            Some(cold) => cold.send_at_start(self.desk.store_mut()),
            None => {}
        }
    }

    /// True while the store is the engine's live orders of an epoch that has not begun: a start
    /// that fails before leaves nothing of it in the files of the epoch so far. And true while the
    /// store has void ends of orders.
    fn waits_for_epoch(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.waits_for_epoch) || !may_be_sent(&self.stream)
    }

    /// Reports that the source began an epoch.
    pub(super) fn begin_cold_epoch(&mut self) {
        if let Some(cold) = &mut self.cold {
            cold.on_epoch(self.desk.store());
        }
    }

    /// Reports the end of a full resend.
    pub(super) fn end_cold_resend(&mut self) {
        if let Some(cold) = &mut self.cold {
            cold.on_resent(self.desk.store());
        }
    }
}

impl<D: Disk> SourceStores<D> {
    /// Sends new changes to the archives; returns true when there are more.
    pub fn feed_cold(&mut self, now: Nanos) -> bool {
        // Every source is served, whether or not earlier ones have more.
        self.source_stores
            .iter_mut()
            .map(|source_store| source_store.guard(|source| source.feed_cold(now)).unwrap_or(true))
            .fold(false, |has_more, more| has_more | more)
    }

    /// Passes the archives' pages to readers; returns their number.
    pub fn take_older_pages(&mut self) -> usize {
        let kept = self.source_stores.iter_mut();
        kept.filter_map(|source_store| {
            let take = |source: &mut SourceStore<D>| {
                Some(source.cold.as_mut()?.take_answers(&mut source.desk))
            };
            source_store.guard(take).unwrap_or(Some(1))
        })
        .sum()
    }

    /// Sends the queries of readers that wait for older pages; returns their number.
    pub fn ask_for_older(&mut self) -> usize {
        let kept = self.source_stores.iter_mut();
        kept.filter_map(|source_store| {
            let ask =
                |source: &mut SourceStore<D>| Some(source.cold.as_mut()?.ask(&mut source.desk));
            source_store.guard(ask).unwrap_or(Some(1))
        })
        .sum()
    }

    /// Takes the archives' agents, for their thread.
    pub fn take_cold(&mut self) -> Vec<ColdAgent> {
        let kept = self.source_stores.iter_mut();
        kept.filter_map(|source_store| Some(source_store.cold.as_mut()?.take_agent())).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_cold::ColdConfig;
    use weir_delivery::{Desk, DeskConfig, NonceCounter, TokenKey, TokenSealer};
    use weir_runtime::{Agent, Wake};
    use weir_types::{ChangeId, Epoch, PartitionId, Position, Rec, Seq};

    use super::*;
    use crate::agent::tests::{accepted, epochs, log_of, settings};
    use crate::cold::agent::pace_of;
    use crate::cold::{ArchiveSender, ColdParts};
    use crate::ingest::SourceStoreParts;
    use crate::ingest::own::OwnEvents;
    use crate::stores::own::{EngineState, OwnSource, recover};
    use crate::stores::own_figures::OwnStoreFigures;

    fn sealer() -> TokenSealer {
        TokenSealer::new(TokenKey::new(1, &[7; 32]), NonceCounter::new(1, Nanos(1)))
    }

    /// A start may fail before its epoch begins, and the archive's files of the epoch so far stay.
    #[test]
    fn the_live_orders_of_a_rebuilt_store_reach_no_archive_before_their_epoch() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, mut events) = log_of(dir.path(), 20, epochs(1, &[]));
        events.skip_to(8, Epoch(1));
        let state = EngineState {
            position: Position(20),
            last_seq: Seq(20),
            last_rec: Rec(20),
            orders: vec![accepted(3), accepted(12)],
            markets: Vec::new(),
            begins_epoch: true,
        };
        let source = OwnSource {
            log: Arc::default(),
            figures: Arc::new(OwnStoreFigures::of(PartitionId(1))),
            settings: settings(u64::MAX),
            events,
            event_count: 20,
            log_id: 7,
            snapshot_every: u64::MAX,
            older_upto: Some(ChangeId::START),
            engine: Box::new(move || Ok(state.clone())),
        };
        let own = recover(source, &dir.path().join("store")).unwrap();
        let parts = ColdParts {
            dir: dir.path().join("cold"),
            config: ColdConfig::new(PartitionId(1), Epoch(1)),
            pace: pace_of(u64::MAX),
            readers_max: 2,
            sealer: sealer(),
            store: Wake::new(),
            wake: Wake::new(),
            figures: Arc::default(),
        };
        let (port, agent) = ColdAgent::open(parts, &mut Vec::new()).unwrap();
        let desk = Desk::new(DeskConfig::default(), own.store, sealer());
        let events = OwnEvents::new(own.events);
        let parts = SourceStoreParts::own(desk, own.stream, events, u64::MAX);
        let parts = SourceStoreParts { cold: Some(ArchiveSender::new(port, agent)), ..parts };
        let mut stores = SourceStores::new(vec![parts], None, None, None, Arc::default());
        let fed = |stores: &SourceStores| stores.source_stores[0].cold.as_ref().unwrap().fed();
        stores.source_stores[0].feed_cold_at_start();
        assert!(!stores.feed_cold(Nanos(1 << 40)));
        assert_eq!(fed(&stores), ChangeId::START);
        writer.end_epoch(Position(20), Epoch(2), 21);
        let mut archive = stores.take_cold().remove(0);
        for cycle in 1..10 {
            let now = Nanos((1 << 40) + cycle * 60_000_000);
            stores.source_stores[0].take_events(100);
            stores.feed_cold(now);
            archive.do_work(now);
        }
        assert_eq!(fed(&stores), ChangeId::new(Seq(20), Rec(20)));
    }
}
