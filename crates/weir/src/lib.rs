//! The command line: `weir <command>`.

// First: its macros take the place of std's in the modules below.
#[macro_use]
mod output;

pub mod admin;
pub mod backup;
pub mod book;
pub mod calendar;
pub mod certificate;
mod choices;
pub mod demo;
pub mod drop_copy;
pub mod emulate;
pub mod endpoint;
pub mod explain;
pub mod feed;
mod feed_audit;
mod feed_book;
pub mod flow;
mod ids;
pub mod indicative;
mod instruments;
pub mod keygen;
mod listing;
pub mod load;
pub mod log;
mod log_dump;
pub mod market;
mod market_line;
mod market_ring;
mod market_top;
pub mod named_token;
pub mod orders;
pub mod plant;
pub mod ports;
mod published;
mod renamed;
pub mod replay;
pub mod serve;
mod standing;
pub mod status;
pub mod subscriptions;
pub mod token;
pub mod tools;
pub mod top;
pub mod trading;
pub mod units;

use clap::{Parser, Subcommand};

/// An exchange that takes its own latency apart.
///
/// Commands find a node of this machine by its default ports and its key in the directory weir-data
/// (--dir, WEIR_DIR). WEIR_PORT_BASE moves all default ports, 7000 by default.
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
    /// Send orders at a rate and measure the latency of each.
    Load(load::LoadArgs),
    /// Emulate trading cores that send orders to a node, or clients that follow it.
    Emulate(emulate::EmulateArgs),
    /// Play recorded order flow into a running node.
    Replay(replay::ReplayArgs),
    /// Read, check and export the logs of a node.
    Log(log::LogArgs),
    /// Draw a key pair for a session.
    Keygen(keygen::KeygenArgs),
    /// Copy a node's files; the node may be running.
    Backup(backup::BackupArgs),
    /// Make a node's directory from a backup.
    Restore(backup::RestoreArgs),
    /// Define reference data, change phases, move cash, stop participants.
    Admin(admin::AdminArgs),
    /// Enter an order: `weir order buy 100 WEIR 10.05 --session 11`.
    Order(trading::entry::OrderArgs),
    /// Cancel an order.
    Cancel(trading::entry::CancelArgs),
    /// Cancel all orders of a session, an account or a firm.
    MassCancel(trading::entry::MassCancelArgs),
    /// Print trades, from the copies of execution reports that the node retains.
    Trades(trading::history::TradesArgs),
    /// Print positions, added up from trades.
    Positions(trading::history::PositionsArgs),
    /// Show an instrument's book, live.
    Book(book::BookArgs),
    /// Follow the state of orders by token.
    Orders(orders::OrdersArgs),
    /// Durable subscriptions: list, make, read, drain, evict, delete.
    Subscriptions(subscriptions::SubscriptionsArgs),
    /// Show subscribers and readers of order state with their backlogs, refreshed until Ctrl-C.
    Top(top::TopArgs),
    #[command(hide = true, disable_help_flag = true)]
    Delivery(renamed::DeliveryArgs),
    /// Print copies of the reports to a firm's sessions.
    DropCopy(drop_copy::DropCopyArgs),
    /// Show a node's figures.
    Status(status::StatusArgs),
    /// Decode a delivery token.
    Token(token::TokenArgs),
    /// Make a certificate for TLS, signed by an authority made for it alone.
    Certificate(certificate::CertificateArgs),
    /// Inspect, measure, replay and record market data.
    Feed(feed::FeedArgs),
    /// Run a market-data gateway, show its figures, subscribe to one.
    Market(market::MarketArgs),
    /// Convert recorded order flow to the compact format and inspect it.
    Flow(flow::FlowArgs),
}

impl Cli {
    /// Runs the command.
    ///
    /// # Errors
    /// Returns the command's error, for people.
    pub fn run(self) -> anyhow::Result<()> {
        ports::check()?;
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
            Command::Order(args) => trading::entry::run_order(&args),
            Command::Cancel(args) => trading::entry::run_cancel(&args),
            Command::MassCancel(args) => trading::entry::run_mass_cancel(&args),
            Command::Trades(args) => trading::history::run_trades(&args),
            Command::Positions(args) => trading::history::run_positions(&args),
            Command::Book(args) => book::run(args),
            Command::Orders(args) => orders::run(args),
            Command::Subscriptions(args) => subscriptions::run(args),
            Command::Top(args) => top::run(&args),
            Command::Delivery(args) => renamed::refuse_delivery(&args),
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
