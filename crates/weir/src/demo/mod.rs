//! `weir demo`: a whole exchange in one command. A node with real durability in a temporary
//! directory, recorded order flow played into it over TCP, followers that read order state, and at
//! the end a table that says where the time went.
//!
//! Everything goes the way it goes in production: definitions through the control log, orders
//! over sockets, pages by token. Only the process is shared.

mod day;
mod followers;
pub(super) mod recordings;
mod table;

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use followers::Followers;
use recordings::Recordings;
use weir_client::clock::WaitStrategy;
use weir_client::load::{Generator, LoadPlan, LoadReport, OrderGenerator, Pace, Trader};
use weir_client::status::phase_name;
use weir_client::{Admin, SessionConfig, Target};
use weir_node::config::{Config, TlsSection};
use weir_node::health::Stage;
use weir_node::http::Side;
use weir_node::node::{FIRST_OPERATOR, Node};
use weir_node::status::{InstrumentReport, NodeStatus};
use weir_tls::authority::Usage;
use weir_tls::client::Trust;
use weir_tls::{ClientTls, read_secret_text};
use weir_types::hex::parse_key;
use weir_types::{AccountId, Durability, Nanos, Phase};
use weir_wire::session::ApiKey;

use super::endpoint::TIMEOUT;
use super::load::{progress_bar, show};
use super::output::announce;
use super::{certificate, ports, units};

/// The default of `--calls`: the demo's day has calls.
const HAS_CALLS: bool = true;

/// Options of `weir demo`.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// End after the table instead of staying up.
    #[arg(long)]
    once: bool,
    /// The table as one JSON object.
    #[arg(long)]
    json: bool,
    /// Times faster than the market was.
    #[arg(long, default_value = "1000")]
    speed: NonZeroU64,
    /// On how many instruments each recording is played.
    #[arg(long, default_value_t = 2)]
    copies: u32,
    /// Begin the day with an opening call and end it with a closing call.
    #[arg(long, value_name = "BOOL", default_value_t = HAS_CALLS, action = clap::ArgAction::Set)]
    calls: bool,
    /// Durability of an acknowledgement: memory, os or disk.
    #[arg(long, default_value = "disk")]
    durability: Durability,
    /// Play for at most this time; a number alone is seconds.
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = units::seconds)]
    at_most: Duration,
    /// Speak TLS, with a certificate made for this run.
    #[arg(long)]
    tls: bool,
    /// The node's directory; a temporary one that is removed at the end when not given.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Listener of order entry and delivery: HOST:PORT; any free port when this one is taken.
    #[arg(long, value_name = "ADDRESS", value_parser = units::address,
          default_value_t = ports::local(ports::NODE))]
    listen: SocketAddr,
    /// Listener of metrics and status: HOST:PORT; any free port when this one is taken.
    #[arg(long, value_name = "ADDRESS", value_parser = units::address,
          default_value_t = ports::local(ports::HTTP))]
    http: SocketAddr,
}

/// A node in this process, its HTTP side, and where they are.
struct DemoNode {
    node: Node,
    http: SocketAddr,
    tls: Option<Tls>,
    http_runtime: tokio::runtime::Runtime,
    dir: PathBuf,
    dir_is_ours: bool,
}

/// The name in the demo's certificate.
const SERVER_NAME: &str = "weir.demo";

/// The demo's certificate, and its clients' end.
struct Tls {
    files: certificate::Files,
    client: ClientTls,
}

/// Runs the demo.
///
/// # Errors
/// When the node cannot start or a client fails.
pub fn run(args: DemoArgs) -> anyhow::Result<()> {
    anyhow::ensure!(args.copies > 0, "--copies must be at least 1");
    let recordings = Recordings::find(args.copies)?;
    let mut demo = DemoNode::start(&args)?;
    let outcome = play_and_tell(&args, &demo, &recordings);
    if outcome.is_ok() && !args.once {
        tell_how_to_explore(&demo);
        demo.http_runtime.block_on(super::serve::told_to_stop());
        eprintln!("weir: stopping");
    }
    demo.end();
    outcome
}

fn play_and_tell(args: &DemoArgs, demo: &DemoNode, recordings: &Recordings) -> anyhow::Result<()> {
    let say = |text: String| {
        if !args.json {
            eprintln!("{text}");
        }
    };
    say(format!(
        "node up: durability {}, logs in {}, order entry {}, http://{}/metrics",
        args.durability,
        demo.dir.display(),
        demo.node.address(),
        demo.http
    ));
    let mut admin = demo.admin()?;
    let cast = recordings.define(&mut admin, args.calls)?;
    say(format!("{} recorded instruments, {} sessions", cast.stages.len(), cast.traders.len()));
    for line in recordings.describe() {
        say(format!("  {line}"));
    }
    let followers = Followers::start(&demo.target(), &mut admin, cast.first_instrument())?;
    admin.close()?;
    let mut traders = cast.traders.clone();
    if args.calls {
        traders.push(demo.operator()?);
    }
    let mut generator = Generator::connect(demo.target(), &traders, 1)?;
    let at_most = args.at_most;
    let mut flow = recordings.play(&cast, args.speed);
    let span = flow.span(args.speed).min(at_most);
    let mut day = args.calls.then(|| recordings.play_day(&cast, args.speed, at_most));
    let source: &mut dyn OrderGenerator = match &mut day {
        Some(day) => day,
        None => &mut flow,
    };
    let started = Instant::now();
    let report = play(span, &mut generator, source)?;
    let seconds = started.elapsed().as_secs_f64();
    let status = demo.node.status();
    wait_for_followers(&status, &followers);
    if args.calls {
        wait_for_the_close(&status);
    }
    let told = table::TableInput {
        report,
        seconds,
        status: status.report(),
        followers: followers.stop()?,
    };
    // Its directory is removed at the end, whether anybody reads the table or not.
    match args.json {
        true => announce(format_args!("{}", table::json(&told))),
        false => announce(format_args!("{}", table::text(&told).trim_end_matches('\n'))),
    }
    // The book stays as the day left it, for `weir book`: the sessions go, their orders do not.
    Ok(())
}

fn play(
    span: Duration,
    generator: &mut Generator,
    source: &mut dyn OrderGenerator,
) -> anyhow::Result<LoadReport> {
    let plan = LoadPlan {
        pace: Pace::Open,
        warm_up: Duration::ZERO,
        duration: span + Duration::from_secs(1),
        wait: WaitStrategy::Park,
        late_after: Nanos(1_000_000),
        late_share_max: 0.01,
    };
    let bar = progress_bar(plan.duration);
    let report = generator.run(&plan, source, &mut |progress| show(&bar, &progress))?;
    bar.finish_and_clear();
    Ok(report)
}

/// Waits until the view of markets has the end of the day.
fn wait_for_the_close(status: &Arc<NodeStatus>) {
    let deadline = Instant::now() + TIMEOUT;
    let is_open = |i: &InstrumentReport| i.phase != Some(phase_name(Phase::Closed));
    while status.report().instruments.iter().any(is_open) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the delivery store and the followers have what the partition said.
fn wait_for_followers(status: &Arc<NodeStatus>, followers: &Followers) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let report = status.report();
        let ingested: u64 = report.delivery.sources.iter().map(|own| own.counts.ingested).sum();
        let behind = ingested < followers.wanted(&report);
        if !behind && followers.are_online() || Instant::now() > deadline {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Tls {
    /// A certificate in the node's directory, and a client's end that believes it.
    fn make(dir: &Path) -> anyhow::Result<Tls> {
        let files = certificate::make(dir, &[SERVER_NAME], Usage::Server)?;
        let client = ClientTls::new(Trust::Authority(&files.ca), SERVER_NAME)?;
        Ok(Tls { files, client })
    }

    fn section(&self) -> TlsSection {
        TlsSection::new(self.files.certificate.clone(), self.files.key.clone())
    }
}

impl DemoNode {
    fn start(args: &DemoArgs) -> anyhow::Result<DemoNode> {
        let (dir, dir_is_ours) = match &args.dir {
            Some(dir) => (dir.clone(), false),
            None => (temporary_dir()?, true),
        };
        let tls = if args.tls { Some(Tls::make(&dir)?) } else { None };
        let config = Config {
            dir: dir.clone(),
            tls: tls.as_ref().map(Tls::section),
            listen: free_or_any(args.listen),
            durability: args.durability,
            ..Config::default()
        };
        let side = Arc::new(Side::default());
        let node = Node::start(&config, side.health.clone())?;
        let http_runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = http_runtime
            .block_on(tokio::net::TcpListener::bind(free_or_any(args.http)))
            .context("cannot serve HTTP")?;
        let http = listener.local_addr()?;
        assert!(side.status.set(node.status()).is_ok(), "a node starts once");
        side.health.enter(Stage::Running);
        http_runtime.spawn(weir_node::http::serve(listener, side, std::future::pending()));
        Ok(DemoNode { node, http, tls, http_runtime, dir, dir_is_ours })
    }

    /// The node's address and TLS.
    fn target(&self) -> Target {
        let tls = self.tls.as_ref().map(|tls| tls.client.clone());
        Target::of(self.node.address(), tls)
    }

    /// The operator of this node, connected.
    fn admin(&self) -> anyhow::Result<Admin> {
        Ok(Admin::connect(self.target(), FIRST_OPERATOR, self.operator_key()?, TIMEOUT)?)
    }

    /// The operator as one who sends in the stream of orders.
    fn operator(&self) -> anyhow::Result<Trader> {
        let session = SessionConfig::new(FIRST_OPERATOR, self.operator_key()?);
        Ok(Trader { session, account_id: AccountId::NONE })
    }

    fn operator_key(&self) -> anyhow::Result<ApiKey> {
        let path = self.dir.join("operator.key");
        let text = read_secret_text(&path).context("the operator's key")?;
        let key = parse_key(&text).with_context(|| format!("{} holds no key", path.display()))?;
        Ok(ApiKey(key))
    }

    fn end(&mut self) {
        self.node.stop();
        if self.dir_is_ours
            && let Err(error) = std::fs::remove_dir_all(&self.dir)
        {
            eprintln!("weir: {} stays: {error}", self.dir.display());
        }
    }
}

/// A new directory in the system's place for temporary files, for its owner only: it holds keys,
/// and is removed at the end.
fn temporary_dir() -> anyhow::Result<PathBuf> {
    let (place, process) = (std::env::temp_dir(), std::process::id());
    for number in 0..100 {
        let dir = place.join(format!("weir-demo-{process}-{number}"));
        match DirBuilder::new().mode(0o700).create(&dir) {
            // Left by a process of the same number, or made by somebody else.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|()| dir.clone()).with_context(|| dir.display().to_string()),
        }
    }
    anyhow::bail!("{} has directories weir-demo-{process}-*: remove them", place.display())
}

/// The address, or any free port of its host when somebody has it.
fn free_or_any(address: SocketAddr) -> SocketAddr {
    match std::net::TcpListener::bind(address) {
        Ok(_) => address,
        Err(_) => SocketAddr::new(address.ip(), 0),
    }
}

fn tell_how_to_explore(demo: &DemoNode) {
    let (node, http) = (demo.node.address(), demo.http);
    let key = demo.dir.join("operator.key");
    let login = format!("--node {node} --http {http} --key-file {}", key.display());
    let login = match &demo.tls {
        Some(tls) => {
            format!("{login} --tls-ca {} --tls-name {SERVER_NAME}", tls.files.ca.display())
        }
        None => login,
    };
    announce(format_args!(
        "\nstill up; look around (the operator's key is in {}):
  weir book BTCUSD {login}
  weir orders --live {login}
  weir load --rate 5000 {login}
  weir status --http {http}
  http://{http}/metrics   http://{http}/status
Ctrl-C ends it.",
        key.display()
    ));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_temporary_directory_is_new_and_its_owners_alone() {
        let dirs = [temporary_dir().unwrap(), temporary_dir().unwrap()];
        let modes = dirs.each_ref().map(|dir| dir.metadata().unwrap().permissions().mode() & 0o777);
        dirs.iter().for_each(|dir| std::fs::remove_dir(dir).unwrap());
        assert_ne!(dirs[0], dirs[1]);
        assert_eq!(modes, [0o700, 0o700]);
    }
}
