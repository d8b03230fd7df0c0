//! What keeps the node's own orders when the store lets them go, where it is configured.

use super::*;
use crate::cold::{ColdFeeder, ColdParts, ends};
use crate::config::ColdSection;

/// Who reads what is old waits for who reads what is new; but what is new has to be taken, too.
pub(crate) const COLD_SHARE: Share = Share::Fair { niceness: 10 };

impl Assembly<'_> {
    /// The archive, opened and without a thread, behind the store's end of it.
    pub(super) fn cold(
        &self,
        trading: &Recovered,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Option<ColdFeeder>> {
        let Some(section) = &self.config.delivery.cold else { return Ok(None) };
        let ColdSection { rows_per_second, readers_max, .. } = *section;
        let past_epochs = ends::places_of(trading.reader(), &trading.ended);
        let config = section.config(TRADING, trading.epoch);
        let parts = ColdParts {
            dir: section.dir.clone().unwrap_or_else(|| self.config.dir.join("cold")),
            log_id: trading.log.log_id(),
            config: weir_cold::ColdConfig { past_epochs, ..config },
            rows_per_second,
            readers_max,
            sealer: sealer(&self.token_keys),
            store: self.wakes.delivery.clone(),
            wake: self.wakes.cold.clone(),
            figures: self.cold_figures.clone(),
        };
        let (port, agent) = ColdAgent::open(parts, notes)?;
        Ok(Some(ColdFeeder::new(port, agent)))
    }

    /// The archive's thread.
    pub(super) fn cold_thread(&self, agent: ColdAgent) -> Runner {
        Runner::new("cold", self.wakes.cold.clone(), WaitStrategy::Park)
            .sharing(COLD_SHARE)
            .giving_way()
            .with_agent(agent)
    }
}
