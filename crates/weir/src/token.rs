//! `weir token decode`: the content of a delivery token, for owners of the node's token key.

use std::path::PathBuf;

use anyhow::Context;
use weir_orderstate::token_keys::TokenKeyFile;
use weir_types::hex::parse_hex;

/// Options of `weir token`.
#[derive(Debug, clap::Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TokenCommand {
    /// Print a token's sources and places.
    Decode {
        /// The token in hexadecimal.
        token: String,
        /// The node's directory, where the token key is.
        #[arg(long, value_name = "DIR", env = "WEIR_DIR", default_value = "weir-data")]
        dir: PathBuf,
        /// The token key that nodes and routers share, where it is not the node's own.
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// Runs `weir token`.
///
/// # Errors
/// When the token or the key cannot be read.
pub fn run(args: TokenArgs) -> anyhow::Result<()> {
    let TokenCommand::Decode { token, dir, key, json } = args.command;
    let bytes = parse_hex(token.trim()).context("the token is not hexadecimal")?;
    let key = key.map_or_else(|| TokenKeyFile::own(&dir), |path| TokenKeyFile::shared(&path));
    let text = key.describe(&bytes, json)?;
    println!("{text}");
    Ok(())
}
