//! The archives of outside sources: one each, on one thread, behind their sources' stores.
//!
//! A source's change ids only increase, across epochs too, so files stay valid as long as their
//! changes are not disowned. The recovered store decides at a start:
//!
//! ```text
//! at a start                                  | the archive
//! --------------------------------------------+------------------------------------------------
//! the source survives no restart              | begins anew
//! files of an epoch unknown to the store      | begins anew
//! files beyond the end of their epoch         | drops these, and is sent them again
//! files beyond the store's head               | the same
//! the store has discarded changes it lacks    | begins anew, and counts a hole
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_cold::{ColdConfig, ColdError};
use weir_delivery::{OrderStore, TokenKeys};
use weir_io::Disk;
use weir_runtime::Wake;
use weir_types::PartitionId;

use super::agent::{ColdAgent, ColdParts, SharedPace, source_dir_of};
use super::figures::ColdFigures;
use super::sender::ArchiveSender;
use crate::cold::ColdSection;
use crate::token_keys::sealer;

/// The common parts of all outside sources' archives.
#[derive(Clone)]
pub struct ColdSources {
    /// The archives' directory.
    pub dir: PathBuf,
    /// The settings of each archive.
    pub section: ColdSection,
    /// The keys that seal the tokens of pages.
    pub token_keys: TokenKeys,
    /// The stores' thread, and the archives'.
    pub wakes: (Wake, Wake),
    /// The read rate that the readers of all archives share.
    pub pace: SharedPace,
    /// Figures for other threads to read.
    pub figures: BTreeMap<PartitionId, Arc<ColdFigures>>,
}

/// A recovered store.
pub struct BroughtStore<'a> {
    /// The store, which has discarded nothing since its snapshot.
    pub store: &'a mut OrderStore,
    /// The identity of the log of its batches, if it survives a restart.
    pub log_id: Option<u128>,
}

impl ColdSources {
    /// Opens the archive of a source behind its sender and sends it all changes of the store.
    ///
    /// # Errors
    /// When its directory cannot be read or created, or another process has locked it.
    pub fn open(
        &self,
        of: BroughtStore<'_>,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<ArchiveSender> {
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
        Ok(of.sender(ArchiveSender::new(port, agent))?)
    }
}

impl BroughtStore<'_> {
    /// Returns the archive's configuration with the epochs that the store knows.
    pub(super) fn config(&self, config: ColdConfig) -> ColdConfig {
        let past = self.store.past_epochs().iter();
        let past_epochs = past.map(|(epoch, to)| (*epoch, *to)).collect();
        ColdConfig { past_epochs, ..config }
    }

    /// Returns the sender after its archive has dropped changes beyond the store's head and been
    /// sent the store's.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn sender<D: Disk>(
        self,
        mut sender: ArchiveSender<D>,
    ) -> Result<ArchiveSender<D>, ColdError> {
        sender.rewind_at_start(self.store.head())?;
        sender.answer_behind(self.store);
        sender.send_at_start(self.store);
        Ok(sender)
    }
}
