//! A router: a control partition of its own, in which its clients' sessions are defined, and the
//! agent that queries the nodes behind it. It trades nothing.
//!
//! Clients log on as at a node: same gateway, same newcomers' thread, same keys.

use std::sync::Arc;

use anyhow::Context;
use weir_orderstate::router::{Reload, RouterAgent, RouterBoard, RouterParts};
use weir_orderstate::token_keys::sealer;
use weir_partition::dirs::partitions_in;

use super::builder::{Builder, Views};
use super::{CONTROL, Node};
use crate::config::Config;
use crate::health::Health;

/// The reason why a router is not ready while none of its sources can be queried.
const CUT_OFF: &str = "no store of any source can be asked";

/// Starts a router.
pub(super) fn start(config: &Config, health: Arc<Health>) -> anyhow::Result<Node> {
    let section = config.router.clone().context("a router has a section [router]")?;
    if let Some(id) = partitions_in(&config.dir)?.first() {
        let dir = config.dir.display();
        anyhow::bail!(
            "{dir} has partition {id}, whose orders a router would hide: choose another dir"
        );
    }
    let mut builder = Builder::open(config, health.clone(), &[CONTROL])?;
    let ports = builder.take_reader_ports();
    let parts = &mut builder.parts;
    let board = Arc::<RouterBoard>::default();
    let reload = Reload::new(parts.wakes.delivery.clone());
    health.watch_trouble(CUT_OFF, board.is_cut_off.clone());
    let router = RouterAgent::new(RouterParts {
        section,
        sealer: sealer(&parts.token_keys),
        ports,
        reload: reload.clone(),
        figures: parts.delivery_figures.clone(),
        board: board.clone(),
    })?;
    parts.router = Some(board);
    let delivery = parts.delivery_thread().with_sockets(router);
    builder.start(Views { reload: Some(reload), ..Views::new(delivery) })
}
