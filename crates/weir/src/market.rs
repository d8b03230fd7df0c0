//! `weir market`: a market-data gateway, its figures, and a subscriber to it.

use std::io::Write as _;
use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use weir_client::SessionConfig;
use weir_client::market::{MarketClient, Wanted};
use weir_client::status::fetch_json;
use weir_feed::{FeedEntry, mold_feed_names};
use weir_market::conflate::Pattern;
use weir_marketgate::gateway::MarketGatewaySection;
use weir_types::{MarketContent, MarketPolicy, Reason};
use weir_wire::market_dialogue::MarketMessage;

use super::endpoint::Login;
use super::feed::feed_parser;
use super::market_line::{self, Line, Names};
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
    /// Run a gateway: a node with the section [market_gateway], or with the feed that options name.
    Serve(Box<GatewayArgs>),
    /// Show subscribers, the age of sent messages, merged changes and queues, until Ctrl-C.
    Top(TopArgs),
    /// Subscribe to market data and print it.
    Watch(WatchArgs),
}

/// A gateway by options alone, with defaults for the rest.
#[derive(Clone, Debug, clap::Args)]
struct GatewayArgs {
    #[command(flatten)]
    serve: ServeArgs,
    /// The feed. The feed weir without --lines and --capture is that of `weir serve --publish` on
    /// this machine, of its first partition: the channels of several need a configuration.
    #[arg(long, value_name = "NAME", value_parser = feed_parser())]
    feed: Option<&'static FeedEntry>,
    /// A pair of lines: GROUP:PORT@INTERFACE or ADDRESS:PORT, and the second behind a comma.
    #[arg(long, value_name = "A[,B]", requires = "feed", conflicts_with = "capture")]
    lines: Vec<String>,
    #[arg(long, value_name = "ADDRESS", requires = "lines", value_parser = units::address_v4,
          help = request_help())]
    request: Option<SocketAddrV4>,
    #[arg(long, value_name = "ADDRESS", requires = "lines", value_parser = units::address,
          help = glimpse_help())]
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

fn request_help() -> String {
    format!(
        "The server for requests of lost messages, HOST:PORT, of the one pair of lines; for the \
         feeds {}. With a node's own feed and no --glimpse, a late gateway requests all messages \
         of the session",
        mold_feeds()
    )
}

fn glimpse_help() -> String {
    format!(
        "The server of snapshots, HOST:PORT, of the one pair of lines, without a password; for \
         the feeds {}",
        mold_feeds()
    )
}

/// The feeds that have servers for requests and snapshots, as a list in a sentence.
fn mold_feeds() -> String {
    mold_feed_names().collect::<Vec<_>>().join(" and ")
}

impl GatewayArgs {
    /// The section that the options make; `None` when they name no feed.
    fn section(&self) -> anyhow::Result<Option<MarketGatewaySection>> {
        let Some(profile) = self.feed.map(|entry| entry.profile) else { return Ok(None) };
        if profile.is_of_a_node && self.lines.is_empty() && self.capture.is_none() {
            let (group, requests) = ports::published(0)?;
            let (lines, request) = (vec![format!("{group}@127.0.0.1")], Some(requests));
            return GatewayArgs { lines, request, ..self.clone() }.section();
        }
        let mut feed = toml::Table::new();
        feed.insert("name".to_owned(), profile.name.into());
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
        if profile.is_of_a_node && self.request.is_some() && self.glimpse.is_none() {
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
    content: Vec<SubscriptionArg>,
    /// Levels of each side, with the content depth.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    depth: u16,
    /// The least time between two messages of an instrument; a number alone is microseconds.
    /// `--interval-us` is the same.
    #[arg(long, alias = "interval-us", value_name = "TIME", default_value = "0us",
          value_parser = units::micros)]
    interval: Duration,
    /// Print this many messages and end; 0 for no limit.
    #[arg(long, value_name = "N", default_value_t = 0)]
    messages: u64,
    /// JSON objects, one a line, instead of columns: those of the WebSocket, with the symbol.
    #[arg(long)]
    json: bool,
    /// The gateway's listener for subscribers: HOST:PORT.
    #[arg(long, value_name = "ADDRESS", default_value_t = ports::local(ports::MARKET).to_string())]
    market: String,
    /// Read the ring in shared memory at this path instead: the part of the gateway's section
    /// [market_gateway.shm] that the pattern and the contents name. Needs no key.
    #[arg(long, value_name = "PATH")]
    shm: Option<PathBuf>,
    #[command(flatten)]
    login: Login,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum SubscriptionArg {
    Bbo,
    Depth,
    Levels,
    Orders,
    Trades,
    Statistics,
    Status,
}

impl SubscriptionArg {
    fn content(self) -> MarketContent {
        match self {
            SubscriptionArg::Bbo => MarketContent::Bbo,
            SubscriptionArg::Depth => MarketContent::Depth,
            SubscriptionArg::Levels => MarketContent::Levels,
            SubscriptionArg::Orders => MarketContent::Orders,
            SubscriptionArg::Trades => MarketContent::Trades,
            SubscriptionArg::Statistics => MarketContent::Statistics,
            SubscriptionArg::Status => MarketContent::Status,
        }
    }

    fn wanted(self, args: &WatchArgs) -> Wanted {
        let mut wanted = Wanted::new(&args.pattern, self.content());
        if self == SubscriptionArg::Depth {
            wanted.depth = args.depth;
        }
        if self.may_wait() && wanted.policy == MarketPolicy::Conflate {
            wanted.interval = args.interval;
        }
        wanted
    }

    fn may_wait(self) -> bool {
        !matches!(self, SubscriptionArg::Orders | SubscriptionArg::Trades | SubscriptionArg::Status)
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
                serve.config()?.market_gateway.is_some(),
                "no feed: give --feed with --lines or --capture, or a configuration with \
                 [market_gateway]"
            );
            serve::run(serve)
        }
        MarketCommand::Top(args) => run_top(&args),
        MarketCommand::Watch(args) => watch(&args),
    }
}

fn watch(args: &WatchArgs) -> anyhow::Result<()> {
    let mut printer = Printer::new(args);
    let pattern = Pattern::parse(args.pattern.as_bytes()).with_context(|| {
        format!("pattern {:?}: want a symbol, its beginning and a star, or a star", args.pattern)
    })?;
    if let Some(path) = &args.shm {
        return market_ring::watch(path, &Shown { pattern, content: &args.content }, printer);
    }
    let target = args.login.endpoint.target_at(&args.market, "--market")?;
    let key = args.login.market_key(&args.market)?;
    let mut client = MarketClient::new(target, SessionConfig::new(args.login.session_id(), key));
    for content in &args.content {
        client.subscribe(content.wanted(args));
    }
    let mut live = Live { count: args.content.len(), last_reason: Reason::None };
    let begun = Instant::now();
    let mut idle = Idle { is_told: false, next_look: begun + SILENCE, is_over: false };
    loop {
        client.poll(Duration::from_millis(100), |message| {
            live.note(message);
            printer.take(message);
        });
        if printer.flush()? {
            return Ok(());
        }
        live.check()?;
        if let Some(failure) = client.take_failure() {
            return Err(args.login.explain_market(&args.market, failure));
        }
        idle.look(args, &printer);
    }
}

/// The subscriptions that have not ended. The client makes none of the ended ones again.
struct Live {
    count: usize,
    last_reason: Reason,
}

impl Live {
    fn note(&mut self, message: &MarketMessage<'_>) {
        if let MarketMessage::Ended(ended) = message {
            self.count = self.count.saturating_sub(1);
            self.last_reason = ended.reason;
        }
    }

    /// Refuses to wait when every subscription has ended.
    fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.count > 0,
            "all subscriptions have ended, the last one with {:?}: {}",
            self.last_reason,
            self.last_reason
        );
        Ok(())
    }
}

/// The time without data after which the reasons for it are looked for.
const SILENCE: Duration = Duration::from_secs(2);

/// Notes about a subscription without data.
struct Idle {
    is_told: bool,
    next_look: Instant,
    is_over: bool,
}

impl Idle {
    /// Says once that no instrument matches, and once that the gateway's capture has ended.
    fn look(&mut self, args: &WatchArgs, printer: &Printer) {
        if Instant::now() < self.next_look {
            return;
        }
        self.next_look = Instant::now() + SILENCE;
        if printer.names.is_empty() && !self.is_told {
            self.is_told = true;
            let pattern = &args.pattern;
            eprintln!(
                "weir: no instrument of the feed matches {pattern:?} so far; waiting for one"
            );
        }
        if !self.is_over {
            // The page is another listener: without it there is no such note.
            let page = fetch_json(&args.login.endpoint.gateway_http(), "/status").ok();
            let receive = page.map(|page| page["market"]["receive"].clone()).unwrap_or_default();
            self.is_over = receive["is_over"] == true;
            match (receive["file_problem"].as_str(), self.is_over) {
                (Some(problem), _) => {
                    eprintln!("weir: the capture was not read to its end: {problem}");
                }
                (None, true) => eprintln!("weir: the capture has ended: no more changes come"),
                (None, false) => {}
            }
        }
    }
}

/// Prints messages as lines, up to a number.
pub(super) struct Printer {
    names: Names,
    is_json: bool,
    lines: String,
    has_heading: bool,
    /// Messages that may still be printed; `None` without a limit.
    left: Option<u64>,
}

impl Printer {
    fn new(args: &WatchArgs) -> Printer {
        let left = (args.messages > 0).then_some(args.messages);
        let (names, lines) = (Names::default(), String::new());
        Printer { names, is_json: args.json, lines, has_heading: false, left }
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Adds a message's line, unless the limit is reached.
    pub(super) fn take(&mut self, message: &MarketMessage<'_>) {
        match self.names.line(message, self.is_json) {
            Line::None => {}
            Line::Note(text) => eprintln!("weir: {text}"),
            Line::Data(line) => {
                if self.left == Some(0) {
                    return;
                }
                self.left = self.left.map(|left| left - 1);
                if !self.is_json && !self.has_heading {
                    self.has_heading = true;
                    self.lines.push_str(&market_line::heading());
                }
                self.lines.push_str(&line);
            }
        }
    }

    /// Writes the lines; true when the limit is reached.
    ///
    /// # Errors
    /// When the terminal or pipe does not take them.
    pub(super) fn flush(&mut self) -> anyhow::Result<bool> {
        let mut out = crate::output::stdout();
        out.write_all(self.lines.as_bytes())?;
        out.flush()?;
        self.lines.clear();
        Ok(self.left == Some(0))
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};
    use weir_wire::market::MarketEnded;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: GatewayArgs,
    }

    fn section(line: &[&str]) -> anyhow::Result<Option<MarketGatewaySection>> {
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
        let here = section(&["--feed", "weir"]).unwrap().expect("named");
        here.check().unwrap();
        assert!(here.feed.timing.from_start && here.feed.lines[0].request.is_some());
        let capture = section(&["--feed", "iex-tops", "--capture", "a.pcap.gz", "--speed", "max"]);
        capture.unwrap().expect("a feed is named").check().unwrap();
    }

    #[test]
    fn options_that_do_not_fit_are_refused() {
        assert!(section(&["--lines", "127.0.0.1:9"]).is_err(), "of which feed");
        assert!(section(&["--feed", "itch", "--lines", "nowhere"]).is_err());
        let two = ["--lines", "127.0.0.1:1", "--lines", "127.0.0.1:2", "--request", "127.0.0.1:3"];
        assert!(section(&[&["--feed", "itch"], &two[..]].concat()).is_err(), "of which pair");
        let none = section(&["--feed", "itch4", "--capture", "a"]).unwrap_err().to_string();
        assert!(none.contains("itch4") && none.contains("iex-tops"), "{none}");
    }

    #[test]
    fn a_watch_whose_subscriptions_have_all_ended_is_an_error_with_the_last_reason() {
        let session_id = weir_types::SessionId(1);
        let ended = |handle, reason| {
            let (slots_needed, slots_max) = (0, 0);
            let ended = MarketEnded { session_id, handle, slots_needed, slots_max, reason };
            MarketMessage::Ended(ended)
        };
        let mut live = Live { count: 2, last_reason: Reason::None };
        live.note(&ended(1, Reason::PatternMalformed));
        live.check().expect("the second one is live");
        live.note(&ended(2, Reason::TooManySubscriptions));
        let said = live.check().unwrap_err().to_string();
        assert!(said.contains("ended") && said.contains("TooManySubscriptions: "), "{said}");
    }

    #[test]
    fn help_names_the_feeds_that_have_servers() {
        let help = Line::command().render_long_help().to_string();
        let feeds = "for the feeds itch and weir";
        assert_eq!(help.matches(feeds).count(), 2, "{help}");
    }
}
