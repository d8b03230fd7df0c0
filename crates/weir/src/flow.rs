//! `weir flow`: converts recorded order flow to the compact form, and shows a recording's content.

use std::path::PathBuf;

use anyhow::Context;
use weir_client::flow::{self, FlowItem};

/// Options of `weir flow`.
#[derive(Debug, clap::Args)]
pub struct FlowArgs {
    #[command(subcommand)]
    command: FlowCommand,
}

#[derive(Debug, clap::Subcommand)]
enum FlowCommand {
    /// Pack a recording: LOBSTER (.zip) or Bitstamp (.log.xz, .csv.xz) into .wflow.
    Pack {
        /// The recording.
        file: PathBuf,
        /// The packed file.
        out: PathBuf,
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show a recording's content.
    Info {
        /// The recording, packed or not.
        file: PathBuf,
        /// One JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// Runs `weir flow`.
///
/// # Errors
/// When a file cannot be read or written; the text names file, line and field.
pub fn run(args: FlowArgs) -> anyhow::Result<()> {
    match args.command {
        FlowCommand::Pack { file, out, json } => {
            let recording = flow::load(&file)?;
            let bytes = flow::encode(&recording.header, &recording.items)?;
            std::fs::write(&out, &bytes)
                .with_context(|| format!("cannot write {}", out.display()))?;
            if json {
                let file = out.display().to_string();
                println!("{}", serde_json::json!({ "file": file, "bytes": bytes.len() }));
            } else {
                println!("{}: {} bytes", out.display(), bytes.len());
            }
            Ok(())
        }
        FlowCommand::Info { file, json } => info(&file, json),
    }
}

fn info(file: &std::path::Path, json: bool) -> anyhow::Result<()> {
    let recording = flow::load(file)?;
    let header = &recording.header;
    let events = recording.items.iter().filter(|item| matches!(item, FlowItem::Event(_))).count();
    let rows = recording.items.len() - events;
    if json {
        let object = serde_json::json!({
            "source": header.source, "instrument": header.instrument,
            "price_exponent": header.price_exponent, "qty_exponent": header.qty_exponent,
            "events": events, "rows": rows,
        });
        println!("{object}");
    } else {
        println!("{}\ninstrument {}", header.source, header.instrument);
        println!("{events} events, {rows} rows of the book");
        println!("prices x 10^{}, lots x 10^{}", header.price_exponent, header.qty_exponent);
    }
    Ok(())
}
