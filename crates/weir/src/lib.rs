//! The command line: `weir <command>`.

pub mod admin;
pub mod backup;
pub mod book;
pub mod calendar;
pub mod certificate;
pub mod delivery;
pub mod delivery_top;
pub mod demo;
pub mod drop_copy;
pub mod emulate;
pub mod endpoint;
pub mod feed;
mod feed_audit;
mod feed_book;
pub mod flow;
pub mod indicative;
pub mod keygen;
pub mod load;
pub mod log;
pub mod market;
mod market_ring;
mod market_top;
pub mod named_token;
pub mod orders;
pub mod replay;
pub mod serve;
pub mod status;
pub mod token;
pub mod tools;

use clap::{Parser, Subcommand};

/// An exchange that takes its own latency apart.
#[derive(Debug, Parser)]
#[command(name = "weir", version, about, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a node.
    Serve(serve::ServeArgs),
    /// Start a node in a temporary directory and play real order flow through it.
    Demo(demo::DemoArgs),
    /// Send orders at a rate and measure what becomes of them.
    Load(load::LoadArgs),
    /// Emulate trading cores that feed a node, or clients that follow it.
    Emulate(emulate::EmulateArgs),
    /// Play recorded order flow into a running node.
    Replay(replay::ReplayArgs),
    /// Look into the logs of a stopped node.
    Log(log::LogArgs),
    /// Draw a key pair for a session.
    Keygen(keygen::KeygenArgs),
    /// Copy what a node needs to be made again; the node may be running.
    Backup(backup::BackupArgs),
    /// Make a node's directory of a backup.
    Restore(backup::RestoreArgs),
    /// Define reference data, change phases, move money, stop somebody.
    Admin(admin::AdminArgs),
    /// Show an instrument's book, live.
    Book(book::BookArgs),
    /// Follow the state of orders by token.
    Orders(orders::OrdersArgs),
    /// Durable subscriptions: list, make, read, drain, evict, delete.
    Delivery(delivery::DeliveryArgs),
    /// Print copies of the reports to a firm's sessions.
    DropCopy(drop_copy::DropCopyArgs),
    /// Show a node's figures.
    Status(status::StatusArgs),
    /// Look into a delivery token.
    Token(token::TokenArgs),
    /// Make a certificate for TLS, of an authority made for it alone.
    Certificate(certificate::CertificateArgs),
    /// Look into market data, measure it, send it again, record it.
    Feed(feed::FeedArgs),
    /// Run a market-data gateway, see what it does, subscribe to one.
    Market(market::MarketArgs),
    /// Turn recorded order flow into the compact format and look into it.
    Flow(flow::FlowArgs),
}

impl Cli {
    /// Runs the command.
    ///
    /// # Errors
    /// What went wrong, for people.
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Serve(args) => serve::run(args),
            Command::Demo(args) => demo::run(args),
            Command::Load(args) => load::run(args),
            Command::Emulate(args) => emulate::run(args),
            Command::Replay(args) => replay::run(args),
            Command::Log(args) => log::run(args),
            Command::Keygen(args) => keygen::run(args),
            Command::Backup(args) => backup::run_backup(&args),
            Command::Restore(args) => backup::run_restore(&args),
            Command::Admin(args) => admin::run(args),
            Command::Book(args) => book::run(args),
            Command::Orders(args) => orders::run(args),
            Command::Delivery(args) => delivery::run(args),
            Command::DropCopy(args) => drop_copy::run(args),
            Command::Status(args) => status::run(args),
            Command::Token(args) => token::run(args),
            Command::Certificate(args) => certificate::run(args),
            Command::Feed(args) => feed::run(args),
            Command::Market(args) => market::run(args),
            Command::Flow(args) => flow::run(args),
        }
    }
}
