//! `weir admin source`: an operator's orders about an outside source.

use std::net::SocketAddr;

use anyhow::Context;
use weir_client::SessionConfig;
use weir_client::source::reset_source;
use weir_types::PartitionId;

use super::{AdminArgs, Outcome};
use crate::endpoint::{Login, TIMEOUT, once_free_or_taken};
use crate::units;

/// Options of `weir admin source`.
#[derive(Debug, clap::Args)]
pub(super) struct SourceArgs {
    /// The node's listener for outside cores, HOST:PORT; by default as its status page says.
    #[arg(long, value_name = "ADDRESS", value_parser = units::address)]
    ingest: Option<SocketAddr>,
    #[command(subcommand)]
    command: SourceCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SourceCommand {
    /// Forget a source's orders, places and record numbers, and ask its core for all orders in a
    /// later epoch. Until they are there its readers are turned away.
    Reset {
        /// The source's number.
        source: u16,
    },
}

impl SourceArgs {
    /// Returns the effect of the command, which needs consent.
    pub(super) fn effect(&self) -> String {
        let SourceCommand::Reset { source } = &self.command;
        format!(
            "this forgets all orders of source {source}: its readers are turned away until its \
             core has sent all of them again"
        )
    }
}

/// Carries the command out, over a connection of its own.
pub(super) fn carry_out(args: &AdminArgs, of: &SourceArgs) -> anyhow::Result<Outcome> {
    let SourceCommand::Reset { source } = of.command;
    let login = &args.login;
    let address = match of.ingest {
        Some(address) => address,
        None => address_of(login)?,
    };
    let target = login.endpoint.target_at(&address.to_string(), "--ingest")?;
    let session = SessionConfig::new(login.session_id(), login.key()?);
    let reset = once_free_or_taken(args.patience(), |takeover| {
        let session = SessionConfig { takeover, ..session };
        reset_source(target.clone(), session, PartitionId(source), TIMEOUT)
    })?;
    let epoch = reset.epoch.0;
    let text = format!(
        "source {source} is reset: its core has to send all orders in an epoch above {epoch}"
    );
    let json = serde_json::json!({ "reset": source, "epoch": epoch });
    Ok(Outcome::of(text, json))
}

/// The node's listener for outside cores, from its status page.
fn address_of(login: &Login) -> anyhow::Result<SocketAddr> {
    let page = login.endpoint.status()?;
    let address = page.json["ingest"]["address"].as_str();
    let address = address.context("the node takes no outside cores: no [ingest]")?;
    address.parse().with_context(|| format!("the status page's {address:?}"))
}
