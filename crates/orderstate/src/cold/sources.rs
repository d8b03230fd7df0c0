//! The archives of outside sources: one each, on one thread, behind their sources' stores.
//!
//! Places of a source only grow, from epoch to epoch too, so that files stay good for as long as
//! what they tell was not disowned. What the store comes back with at a start decides:
//!
//! ```text
//! at a start                                  | the archive
//! --------------------------------------------+------------------------------------------------
//! the source survives no restart              | begins anew
//! files of an epoch that the store knows not  | begins anew
//! files beyond the end of their epoch         | loses these, and is told again
//! files beyond the store's head               | the same
//! a full resend ended since the snapshot      | loses what was told after the last valid place,
//!                                             | and is told again
//! the store has let go what it has not        | begins anew, and counts a hole
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_cold::plant::{self, Plant};
use weir_cold::{ColdConfig, ColdError};
use weir_delivery::{OrderStore, Place, TokenKeys};
use weir_io::Disk;
use weir_runtime::Wake;
use weir_types::PartitionId;

use super::agent::{ColdAgent, ColdParts, SharedPace, source_dir_of};
use super::feeder::{ColdFeeder, cold_place};
use super::figures::ColdFigures;
use crate::cold::ColdSection;
use crate::token_keys::sealer;

/// What the archives of all outside sources have in common.
#[derive(Clone)]
pub struct ColdSources {
    /// Where archives are.
    pub dir: PathBuf,
    /// What each is to be.
    pub section: ColdSection,
    /// Seals the tokens of pages.
    pub token_keys: TokenKeys,
    /// The stores' thread, and the archives'.
    pub wakes: (Wake, Wake),
    /// What of the machine the readers of all of them get.
    pub pace: SharedPace,
    /// Figures for others to read.
    pub figures: BTreeMap<PartitionId, Arc<ColdFigures>>,
}

/// A store that a start brought back.
pub struct BroughtStore<'a> {
    /// The store, which has let nothing go since its snapshot.
    pub store: &'a mut OrderStore,
    /// The identity of the log of its batches, where it survives a restart.
    pub log_id: Option<u128>,
    /// Full resends that ended since the snapshot.
    pub resends: u64,
}

impl ColdSources {
    /// The archive of a source behind its feeder, told all that the store has.
    ///
    /// # Errors
    /// When its directory cannot be read or made, or another process has it.
    pub fn open(
        &self,
        of: BroughtStore<'_>,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<ColdFeeder> {
        let source = of.store.source();
        let parts = ColdParts {
            dir: source_dir_of(&self.dir, source, of.log_id),
            config: of.config(self.section.config(source, of.store.epoch())),
            pace: self.pace.clone(),
            readers_max: self.section.readers_max,
            sealer: sealer(&self.token_keys),
            store: self.wakes.0.clone(),
            wake: self.wakes.1.clone(),
            figures: self.figures.get(&source).cloned().unwrap_or_default(),
        };
        let (port, agent) = ColdAgent::open_source(parts, of.log_id.is_some(), notes)?;
        Ok(of.feeder(ColdFeeder::new(port, agent))?)
    }
}

impl BroughtStore<'_> {
    /// The archive's configuration with the epochs that the store knows.
    pub(super) fn config(&self, config: ColdConfig) -> ColdConfig {
        let past = self.store.past_epochs().iter();
        let past_epochs = past.map(|(epoch, to)| (*epoch, cold_place(*to))).collect();
        ColdConfig { past_epochs, ..config }
    }

    /// The feeder when its archive has lost what it may not tell, and was told what the store has.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn feeder<D: Disk>(
        self,
        mut feeder: ColdFeeder<D>,
    ) -> Result<ColdFeeder<D>, ColdError> {
        feeder.rewind_at_start(self.sound_to())?;
        feeder.answer_behind(self.store);
        feeder.feed_at_start(self.store);
        Ok(feeder)
    }

    /// The place up to which an archive of before tells nothing else than the store.
    fn sound_to(&self) -> Place {
        if plant::is(Plant::StartNotRewound) {
            return self.store.head();
        }
        let resends = usize::try_from(self.resends).unwrap_or(usize::MAX);
        let ends = self.store.past_epochs().iter().rev().take(resends);
        let ends = ends.map(|(_, valid_to)| *valid_to);
        ends.chain([self.store.head()]).min().expect("one at least")
    }
}
