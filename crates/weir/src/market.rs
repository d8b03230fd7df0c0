//! `weir market`: a market-data gateway, what it does, and a subscriber to it.

use std::io::Write as _;
use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use weir_client::SessionConfig;
use weir_client::market::{MarketClient, Wanted};
use weir_market::conflate::Pattern;
use weir_marketgate::gateway::MarketSection;
use weir_types::{InstrumentId, MarketContent, MarketPolicy, Price, Side};
use weir_wire::market::MarketFlags;
use weir_wire::market_dialogue::MarketMessage;

use super::endpoint::Login;
use super::market_ring::{self, Shown};
use super::market_top::{TopArgs, run as run_top};
use super::serve::{self, ServeArgs};
use super::{ports, units};

/// Options of `weir market`.
#[derive(Debug, clap::Args)]
pub struct MarketArgs {
    #[command(subcommand)]
    command: MarketCommand,
}

#[derive(Debug, clap::Subcommand)]
enum MarketCommand {
    /// Run a gateway: a node with the section [market], or with the feed that options name.
    Serve(Box<GatewayArgs>),
    /// Show subscribers, the age of sent messages, merged changes and queues, refreshed until Ctrl-C.
    Top(TopArgs),
    /// Subscribe to market data and print it.
    Watch(WatchArgs),
}

/// A gateway by options alone, with defaults for the rest.
#[derive(Clone, Debug, clap::Args)]
struct GatewayArgs {
    #[command(flatten)]
    serve: ServeArgs,
    /// The feed: itch, iex-tops, iex-deep, iex-deep-plus, opra, cqs, cts, dbn or weir. The feed
    /// weir without --lines and --capture is that of `weir serve --publish` on this machine.
    #[arg(long, value_name = "NAME")]
    feed: Option<String>,
    /// A pair of lines: GROUP:PORT@INTERFACE or ADDRESS:PORT, and the second behind a comma.
    #[arg(long, value_name = "A[,B]", requires = "feed", conflicts_with = "capture")]
    lines: Vec<String>,
    /// The server for requests of lost messages, HOST:PORT, of the one pair of lines: itch and weir.
    /// With the feed weir and no --glimpse, a late gateway requests all messages of the session.
    #[arg(long, value_name = "ADDRESS", requires = "lines", value_parser = units::address_v4)]
    request: Option<SocketAddrV4>,
    /// The server of snapshots, HOST:PORT, of the one pair of lines, without a password: itch and
    /// weir.
    #[arg(long, value_name = "ADDRESS", requires = "lines", value_parser = units::address)]
    glimpse: Option<SocketAddr>,
    /// A capture or day file instead of lines.
    #[arg(long, value_name = "FILE", requires = "feed")]
    capture: Option<PathBuf>,
    /// Speed of a capture: a multiple of its own, or max.
    #[arg(long, value_name = "SPEED", requires = "capture", default_value = "1")]
    speed: String,
    /// Listener for subscribers: HOST:PORT.
    #[arg(long, value_name = "ADDRESS", value_parser = units::address,
          default_value_t = ports::local(ports::MARKET))]
    market_listen: SocketAddr,
}

impl GatewayArgs {
    /// The section that the options make; `None` when they name no feed.
    fn section(&self) -> anyhow::Result<Option<MarketSection>> {
        let Some(name) = &self.feed else { return Ok(None) };
        if name == "weir" && self.lines.is_empty() && self.capture.is_none() {
            let lines = vec![format!("{}@127.0.0.1", ports::publish_group())];
            let request = Some(ports::publish_requests());
            return GatewayArgs { lines, request, ..self.clone() }.section();
        }
        let mut feed = toml::Table::new();
        feed.insert("name".to_owned(), name.as_str().into());
        if let Some(file) = &self.capture {
            let mut capture = toml::Table::new();
            let file = file.to_str().context("the capture's name is not UTF-8")?;
            capture.insert("file".to_owned(), file.into());
            capture.insert("speed".to_owned(), self.speed.as_str().into());
            feed.insert("capture".to_owned(), capture.into());
        }
        let pairs = self.lines.iter().map(|pair| {
            let mut lines = toml::Table::new();
            let (a, b) = pair.split_once(',').map_or((pair.as_str(), None), |(a, b)| (a, Some(b)));
            lines.insert("a".to_owned(), a.into());
            if let Some(b) = b {
                lines.insert("b".to_owned(), b.into());
            }
            toml::Value::Table(lines)
        });
        if !self.lines.is_empty() {
            let mut lines: Vec<toml::Value> = pairs.collect();
            self.add_servers(&mut lines)?;
            feed.insert("lines".to_owned(), lines.into());
        }
        if name == "weir" && self.request.is_some() && self.glimpse.is_none() {
            let timing = toml::Table::from_iter([("from_start".to_owned(), true.into())]);
            feed.insert("timing".to_owned(), timing.into());
        }
        let mut section = toml::Table::new();
        section.insert("listen".to_owned(), self.market_listen.to_string().into());
        section.insert("feed".to_owned(), feed.into());
        Ok(Some(section.try_into().context("options of the feed")?))
    }

    /// Puts the servers for requests and snapshots to the pair of lines that they serve.
    fn add_servers(&self, lines: &mut [toml::Value]) -> anyhow::Result<()> {
        if self.request.is_none() && self.glimpse.is_none() {
            return Ok(());
        }
        let [toml::Value::Table(pair)] = lines else {
            anyhow::bail!("--request and --glimpse are of one pair of lines: give --lines once");
        };
        if let Some(request) = self.request {
            pair.insert("request".to_owned(), request.to_string().into());
        }
        if let Some(glimpse) = self.glimpse {
            let address = ("address".to_owned(), glimpse.to_string().into());
            pair.insert("glimpse".to_owned(), toml::Table::from_iter([address]).into());
        }
        Ok(())
    }
}

/// Options of `weir market watch`.
#[derive(Debug, clap::Args)]
struct WatchArgs {
    /// A symbol, a prefix of symbols and a star, or a star for all.
    pattern: String,
    /// Content: bbo, depth, levels, orders, trades, statistics or status; several by commas.
    #[arg(long, value_delimiter = ',', default_value = "bbo,trades,status")]
    content: Vec<Wish>,
    /// Levels of each side, with the content depth.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    depth: u16,
    /// The least time between two messages of an instrument; a number alone is microseconds.
    /// `--interval-us` is the same.
    #[arg(long, alias = "interval-us", value_name = "TIME", default_value = "0us",
          value_parser = units::micros)]
    interval: Duration,
    /// End after so many messages; 0 for never.
    #[arg(long, value_name = "N", default_value_t = 0)]
    messages: u64,
    /// The gateway's listener for subscribers: HOST:PORT.
    #[arg(long, value_name = "ADDRESS", default_value_t = ports::local(ports::MARKET).to_string())]
    market: String,
    /// Read the ring in shared memory at this path instead: of what the gateway's section
    /// [market.shm] says, what the pattern and the contents name. Nobody logs on.
    #[arg(long, value_name = "PATH")]
    shm: Option<PathBuf>,
    #[command(flatten)]
    login: Login,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Wish {
    Bbo,
    Depth,
    Levels,
    Orders,
    Trades,
    Statistics,
    Status,
}

impl Wish {
    fn content(self) -> MarketContent {
        match self {
            Wish::Bbo => MarketContent::Bbo,
            Wish::Depth => MarketContent::Depth,
            Wish::Levels => MarketContent::Levels,
            Wish::Orders => MarketContent::Orders,
            Wish::Trades => MarketContent::Trades,
            Wish::Statistics => MarketContent::Statistics,
            Wish::Status => MarketContent::Status,
        }
    }

    fn may_wait(self) -> bool {
        !matches!(self, Wish::Orders | Wish::Trades | Wish::Status)
    }
}

/// Runs `weir market`.
///
/// # Errors
/// What went wrong, for people.
pub fn run(args: MarketArgs) -> anyhow::Result<()> {
    match args.command {
        MarketCommand::Serve(args) => {
            let mut serve = args.serve.clone();
            serve.market = args.section()?.map(Box::new);
            serve.is_gateway = true;
            anyhow::ensure!(
                serve.config()?.market.is_some(),
                "no feed: give --feed with --lines or --capture, or a configuration with [market]"
            );
            serve::run(serve)
        }
        MarketCommand::Top(args) => run_top(&args),
        MarketCommand::Watch(args) => watch(&args),
    }
}

fn watch(args: &WatchArgs) -> anyhow::Result<()> {
    if let Some(path) = &args.shm {
        let pattern = Pattern::parse(args.pattern.as_bytes()).context("the pattern")?;
        let (content, messages) = (&args.content, args.messages);
        return market_ring::watch(path, &Shown { pattern, content, messages });
    }
    let target = args.login.endpoint.target_at(&args.market, "--market")?;
    let key = args.login.market_key(&args.market)?;
    let session = SessionConfig::new(args.login.session_id(), key);
    let mut client = MarketClient::new(target, session);
    for wish in &args.content {
        let mut wanted = Wanted::new(&args.pattern, wish.content());
        if *wish == Wish::Depth {
            wanted.depth = args.depth;
        }
        if wish.may_wait() && wanted.policy == MarketPolicy::Conflate {
            wanted.interval = args.interval;
        }
        client.subscribe(wanted);
    }
    let mut names = Names::default();
    let mut count = 0;
    let mut out = std::io::stdout().lock();
    loop {
        let mut lines = String::new();
        client.poll(Duration::from_millis(100), |message| {
            count += u64::from(names.line(message, &mut lines));
        });
        out.write_all(lines.as_bytes())?;
        out.flush()?;
        if let Some(failure) = client.take_failure() {
            anyhow::bail!("{failure}");
        }
        if args.messages > 0 && count >= args.messages {
            return Ok(());
        }
    }
}

/// Instruments' symbols and the exponents of their prices, as they were told.
#[derive(Default)]
pub(super) struct Names(std::collections::HashMap<InstrumentId, (String, i8)>);

impl Names {
    pub(super) fn symbol(&self, id: InstrumentId) -> &str {
        self.0.get(&id).map_or("?", |(symbol, _)| symbol)
    }

    fn price(&self, id: InstrumentId, price: Price) -> String {
        let exponent = self.0.get(&id).map_or(0, |(_, exponent)| *exponent);
        short(&super::endpoint::decimal(i128::from(price.0), exponent))
    }

    /// Appends a line for a message; false when it is none of the market.
    pub(super) fn line(&mut self, message: &MarketMessage<'_>, out: &mut String) -> bool {
        use std::fmt::Write;
        let mark = |flags: MarketFlags| match flags {
            flags if flags.contains(MarketFlags::STALE) => " STALE",
            flags if flags.contains(MarketFlags::SNAPSHOT) => " snapshot",
            _ => "",
        };
        let written = match message {
            MarketMessage::Instrument(one, symbol) => {
                let symbol = String::from_utf8_lossy(symbol).into_owned();
                self.0.insert(one.instrument_id, (symbol, one.price_exponent));
                return false;
            }
            MarketMessage::Quote(q) => writeln!(
                out,
                "{:<8} quote  {} x {} / {} x {}  ({} changes){}",
                self.symbol(q.instrument_id),
                self.price(q.instrument_id, q.bid_px),
                q.bid_size,
                self.price(q.instrument_id, q.ask_px),
                q.ask_size,
                q.change_count,
                mark(q.flags)
            ),
            MarketMessage::Trade(t) => writeln!(
                out,
                "{:<8} trade  {} x {}{}",
                self.symbol(t.instrument_id),
                self.price(t.instrument_id, t.last_px),
                t.last_qty,
                mark(t.flags)
            ),
            MarketMessage::Levels(head, levels) => {
                let head_line = writeln!(
                    out,
                    "{:<8} levels ({} changes){}",
                    self.symbol(head.instrument_id),
                    head.change_count,
                    mark(head.flags)
                );
                let lines = levels.clone().filter_map(Result::ok).try_for_each(|level| {
                    let side = if level.side == Side::Buy { "bid" } else { "ask" };
                    let price = self.price(head.instrument_id, level.price);
                    writeln!(out, "    {side} {price} x {} ({})", level.size, level.order_count)
                });
                head_line.and(lines)
            }
            other => writeln!(out, "{other:?}"),
        };
        written.expect("a string takes all that is written to it");
        true
    }
}

/// Without zeros at the end, but for two places.
fn short(decimal: &str) -> String {
    let Some((whole, fraction)) = decimal.split_once('.') else { return decimal.to_owned() };
    let kept = fraction.trim_end_matches('0').len().max(2).min(fraction.len());
    format!("{whole}.{}", &fraction[..kept])
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: GatewayArgs,
    }

    fn section(line: &[&str]) -> anyhow::Result<Option<MarketSection>> {
        Line::try_parse_from([&["gateway"], line].concat())?.args.section()
    }

    #[test]
    fn options_make_the_section_that_a_file_would() {
        let none = section(&[]).unwrap();
        assert!(none.is_none());
        let made = section(&["--feed", "itch", "--lines", "127.0.0.1:9,127.0.0.1:10"]).unwrap();
        let made = made.expect("a feed is named");
        made.check().unwrap();
        assert_eq!(made.feed.lines.len(), 1);
        assert_eq!(made.feed.lines[0].b.expect("line B").address.port(), 10);
        let lines = ["--lines", "127.0.0.1:9", "--request", "127.0.0.1:7"];
        let late = section(&[&["--feed", "weir"], &lines[..]].concat()).unwrap().expect("named");
        late.check().unwrap();
        assert!(late.feed.timing.from_start && late.feed.lines[0].request.is_some());
        let lines = [&lines[..], &["--glimpse", "127.0.0.1:8"]].concat();
        let whole = section(&[&["--feed", "weir"], &lines[..]].concat()).unwrap().expect("named");
        whole.check().unwrap();
        assert!(!whole.feed.timing.from_start && whole.feed.lines[0].glimpse.is_some());
        let capture = section(&["--feed", "iex-tops", "--capture", "a.pcap.gz", "--speed", "max"]);
        capture.unwrap().expect("a feed is named").check().unwrap();
    }

    #[test]
    fn prices_are_as_short_as_they_can_be() {
        for (decimal, want) in [
            ("1.230000000", "1.23"),
            ("1.200000000", "1.20"),
            ("1.000100000", "1.0001"),
            ("7", "7"),
        ] {
            assert_eq!(short(decimal), want);
        }
    }

    #[test]
    fn options_that_do_not_fit_are_refused() {
        assert!(section(&["--lines", "127.0.0.1:9"]).is_err(), "of which feed");
        assert!(section(&["--feed", "itch", "--lines", "nowhere"]).is_err());
        let two = ["--lines", "127.0.0.1:1", "--lines", "127.0.0.1:2", "--request", "127.0.0.1:3"];
        assert!(section(&[&["--feed", "itch"], &two[..]].concat()).is_err(), "of which pair");
        let none = section(&["--feed", "itch4", "--capture", "a"]).unwrap().expect("it is named");
        assert!(none.check().is_err(), "there is no such feed");
    }
}
