//! The archives of orders that the stores discard, where configured: one for each partition and one
//! for each outside source, all on one thread.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_io::ThreadDisk;
use weir_orderstate::cold::agent::{dir_of, pace_of};
use weir_orderstate::cold::{
    ArchiveSender, COLD_SHARE, ColdAgent, ColdFigures, ColdParts, ColdSection, ColdSources,
    SharedPace, ends,
};
use weir_orderstate::token_keys::sealer;
use weir_partition::recovery::RecoveredPartition;
use weir_runtime::{Agent, Runner, WaitStrategy};
use weir_types::{ChangeId, Epoch, PartitionId};

use super::assembly::Assembly;
use crate::config::Config;

/// Returns the end of the log that the recovered engine has applied.
pub(super) fn log_end(trading: &RecoveredPartition) -> ends::LogEnd {
    let (position, last_seq) = (trading.engine.position(), trading.engine.last_seq());
    ends::LogEnd { position, last_seq }
}

impl Assembly<'_> {
    fn cold_dir(&self, section: &ColdSection) -> PathBuf {
        section.dir.clone().unwrap_or_else(|| self.config.dir.join("cold"))
    }

    /// Returns the read rate that the readers of all archives share.
    pub(super) fn cold_pace(&self) -> SharedPace {
        pace_of(self.config.delivery.cold.as_ref().map_or(1, |section| section.rows_per_second))
    }

    /// Opens the archive of a partition's orders, without a thread; returns the store's end of it.
    pub(super) fn cold(
        &self,
        trading: &RecoveredPartition,
        pace: SharedPace,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Option<ArchiveSender>> {
        let Some(section) = &self.config.delivery.cold else { return Ok(None) };
        let past_epochs = self.past_ends(section, trading, notes)?;
        let config = section.config(trading.partition_id, trading.epoch);
        let parts = ColdParts {
            dir: self.own_cold_dir(section, trading),
            config: weir_cold::ColdConfig { past_epochs, ..config },
            pace,
            readers_max: section.readers_max,
            sealer: sealer(&self.token_keys),
            store: self.wakes.delivery.clone(),
            wake: self.wakes.cold.clone(),
            figures: self.cold_figures.get(&trading.partition_id).cloned().unwrap_or_default(),
        };
        let (port, agent) = ColdAgent::open(parts, notes)?;
        Ok(Some(ArchiveSender::new(port, agent)))
    }

    fn own_cold_dir(&self, section: &ColdSection, trading: &RecoveredPartition) -> PathBuf {
        dir_of(&self.cold_dir(section), trading.log.log_id())
    }

    /// Returns the ends of the partition's past epochs. Refuses an archive with files of an epoch
    /// whose end nobody knows any more.
    fn past_ends(
        &self,
        section: &ColdSection,
        trading: &RecoveredPartition,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Vec<(Epoch, ChangeId)>> {
        let file = trading.dirs().past_ends();
        let ends = ends::places_of(trading.reader("archive"), log_end(trading), &file)?;
        let Some(epoch) = ends.unknown else { return Ok(ends.known) };
        let (dir, file) = (self.own_cold_dir(section, trading), file.display());
        let mut disk = ThreadDisk::open(&dir, None)?;
        anyhow::ensure!(
            !weir_cold::has_segments_upto(&mut disk, trading.partition_id, epoch)?,
            "cold order state in {} may hold changes that epoch {epoch} lost: its end is not in \
             {file}, and its events are past the retention; bring {file} back from a backup, or \
             move the directory away, and cold order state begins anew",
            dir.display()
        );
        notes.push(format!(
            "cold order state: tokens of epoch {epoch} and before get ResyncEpoch: its events are \
             past the retention"
        ));
        Ok(ends.known)
    }

    /// Returns the archives' settings for the stores of outside sources.
    pub(super) fn cold_sources(&self, pace: SharedPace) -> Option<ColdSources> {
        let section = self.config.delivery.cold.as_ref()?;
        Some(ColdSources {
            dir: self.cold_dir(section),
            section: section.clone(),
            token_keys: self.token_keys.clone(),
            wakes: (self.wakes.delivery.clone(), self.wakes.cold.clone()),
            pace,
            figures: self.cold_figures.clone(),
        })
    }

    /// Builds the archives' thread, if there is any archive. A stop may leave it: the next start
    /// replays the changes that it has not written.
    pub(super) fn cold_thread(&self, agents: Vec<ColdAgent>) -> Option<Runner> {
        if agents.is_empty() {
            return None;
        }
        let agents = agents.into_iter().map(|agent| Box::new(agent) as Box<dyn Agent>).collect();
        let runner = Runner::new("cold", self.wakes.cold.clone(), WaitStrategy::Park)
            .sharing(COLD_SHARE)
            .giving_way()
            .may_be_left()
            .with_agents(agents);
        Some(runner)
    }
}

/// Returns the figures of each archive of a node with this configuration, by source.
pub(super) fn figures_of(config: &Config) -> BTreeMap<PartitionId, Arc<ColdFigures>> {
    if config.delivery.cold.is_none() {
        return BTreeMap::new();
    }
    let own = if config.follows_own() { Vec::new() } else { config.own_ids() };
    let sources = config.ingest.iter().flat_map(|section| &section.sources);
    let sources = sources.map(|source| PartitionId(source.id));
    own.into_iter().chain(sources).map(|source| (source, Arc::default())).collect()
}
