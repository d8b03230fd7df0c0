//! The market-data gateway of a node, where configured.

use anyhow::Context;
use weir_io::OsRng;
use weir_marketgate::gateway::assembly::{Host, assemble};
use weir_partition::recovery::RecoveredPartition;
use weir_wire::session::NodeId;

use super::assembly::Assembly;

impl Assembly<'_> {
    /// Assembles the gateway; its threads start with the others.
    pub(super) fn open_market(&mut self, control: &RecoveredPartition) -> anyhow::Result<()> {
        let Some(section) = &self.config.market_gateway else { return Ok(()) };
        let gateway = assemble(
            section,
            &Host {
                wait: self.config.wait,
                lobby: self.gateway_config().lobby,
                node_id: NodeId(control.log.log_id().to_be_bytes()),
                definitions: &|| control.reader("market gateway"),
                door: &|listener, thread, wake| self.door(listener, thread, wake),
                rng: &|| Box::new(OsRng),
                draining: self.draining.clone(),
            },
        )
        .context("market data")?;
        self.market_figures = Some(gateway.figures);
        self.market_runners = gateway.runners;
        self.market_doors = Some(gateway.local);
        Ok(())
    }
}
