//! The set-up of a scenario of the isolation benchmark: two identical nodes, good sessions on the
//! first, and the party, which connects to either.

use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use weir_cli::endpoint::TIMEOUT;
use weir_client::clock::WaitStrategy;
use weir_client::load::{
    Arrivals, Generator, LoadPlan, LoadReport, Mix, MixSource, Pace, Schedule, SetupPlan, set_up,
};
use weir_client::request::session_by_key;
use weir_client::{Admin, Client, Limits, SessionConfig};
use weir_types::{
    AccountId, Durability, FirmId, Nanos, PartitionId, RequestNo, Role, SessionId, Switch, Symbol,
};
use weir_wire::reference::{DefineAccount, DefineFirm, DefineSession};
use weir_wire::session::ApiKey;

use super::disk::StallingDisk;
use super::party::{Order, PartyKind, Priority};
use crate::programs;
use crate::roundtrip::{Child, CpuTime, LISTEN, LargerPart, NodeSetting, WorkDir};

/// The partition that trades.
pub(super) const TRADING: PartitionId = PartitionId(1);
/// The instruments of the good sessions.
pub(super) const FIRST_INSTRUMENT: u32 = 900_000;
pub(super) const INSTRUMENT_COUNT: u32 = 4;
/// The middle of their prices.
pub(super) const MIDDLE: i64 = 10_000;
/// The number of good sessions, each with its own connection.
const GOOD_COUNT: u32 = 10;
/// The session whose logon is replayed; it is logged on.
pub(super) const VICTIM: SessionId = SessionId(100);
pub(super) const INSIDERS: Range<u32> = 101..121;
pub(super) const FLOODER: SessionId = SessionId(130);
pub(super) const MAKER: SessionId = SessionId(140);
/// Sessions that resume: one with few events among many of others, one with more.
pub(super) const RESUMERS: [SessionId; 2] = [SessionId(150), SessionId(151)];
pub(super) const CANCELLER: SessionId = SessionId(160);
/// Supervisors' sessions: for order state, and for copies.
pub(super) const SUPERVISORS: [SessionId; 2] = [SessionId(170), SessionId(171)];
const PARTY_FIRM: FirmId = FirmId(100);
const LIVE_COUNT_MAX: usize = 1_000;
/// The delay after its due time beyond which an order counts as late.
const LATE_AFTER: Nanos = Nanos(200_000);
/// The share of late orders beyond which a run has a late generator.
const LATE_SHARE_MAX: f64 = 0.01;
/// The node's thread on the order path.
const CORE_THREAD: &str = "core";

/// Returns the key of a party's session: the benchmark's nodes hold no secrets.
pub(super) fn key_of(id: SessionId) -> ApiKey {
    let mut key = [0x5a; 32];
    key[..4].copy_from_slice(&id.0.to_le_bytes());
    ApiKey(key)
}

/// The parameters of a scenario.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) kind: PartyKind,
    pub(super) durability: Durability,
    /// The nodes' configuration.
    pub(super) config: &'static str,
    /// Orders per second that the flooding session may send; zero: unlimited.
    pub(super) order_rate_max: u32,
    /// Orders per second of all good sessions together.
    pub(super) rate: u32,
    pub(super) run: Duration,
    /// Connections of a hostile crowd, or orders of a mass cancel.
    pub(super) count: usize,
    /// The party's share of the cores.
    pub(super) priority: Priority,
}

impl Setting {
    /// The time of a run that is not measured, at its beginning.
    fn warm_up(&self) -> Duration {
        self.run / 5
    }

    /// The time from the party's order until its mass cancel: early in the measured time.
    fn delay(&self) -> Duration {
        self.warm_up() + self.run / 6
    }
}

/// A party's process.
struct PartyProcess {
    process: std::process::Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl PartyProcess {
    fn start(
        setting: &Setting,
        nodes: &[Child; 2],
        disks: &[StallingDisk],
    ) -> anyhow::Result<PartyProcess> {
        let kind = setting.kind.to_string();
        let nodes = nodes.each_ref().map(|node| node.address().to_string()).join(",");
        let mut command = programs::this()?;
        command
            .args(["party", "--kind", &kind, "--nodes", &nodes])
            .args(["--count", &setting.count.to_string()])
            .args(["--priority", &setting.priority.to_string()])
            .args(["--delay-ms", &setting.delay().as_millis().to_string()]);
        for disk in disks {
            command.arg("--disks").arg(disk.word());
        }
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a party")?;
        let orders = process.stdin.take().expect("it was asked for");
        let answers = BufReader::new(process.stdout.take().expect("it was asked for"));
        Ok(PartyProcess { process, orders, answers })
    }

    /// Sends an order and waits until it is carried out; returns the party's work so far.
    fn tell(&mut self, order: Order) -> anyhow::Result<u64> {
        writeln!(self.orders, "{order}").context("the party is gone")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let done = line.trim().strip_prefix("ready ").and_then(|done| done.parse().ok());
        done.with_context(|| format!("the party did not do {order}"))
    }
}

impl Drop for PartyProcess {
    fn drop(&mut self) {
        // A process that has already ended has reported its own error; nothing is left to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The figures of a run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) report: LoadReport,
    /// The processor time of the first node's order path, and of both nodes together.
    pub(super) core: Duration,
    pub(super) nodes: Duration,
    /// The party's work during the run.
    pub(super) party: u64,
}

/// Two nodes, the generator of the good sessions, and the party.
pub(super) struct Rig {
    setting: Setting,
    generator: Generator,
    source: MixSource,
    victims: Vec<Client>,
    party: PartyProcess,
    nodes: [Child; 2],
}

impl Rig {
    /// Starts the nodes, defines the participants and logs the good sessions on.
    pub(super) fn start(name: &str, setting: Setting, work: &WorkDir) -> anyhow::Result<Rig> {
        let config = work.path().join(format!("{name}.toml"));
        std::fs::write(&config, setting.config)?;
        let config = config.to_str().context("the directory's name is not UTF-8")?;
        let disks = match setting.kind {
            PartyKind::Disk => StallingDisk::two(work)?,
            _ => Vec::new(),
        };
        let node = |number: usize| {
            let mut program = programs::weir()?;
            disks.get(number).into_iter().for_each(|disk| disk.put_under(&mut program));
            let setting = NodeSetting {
                name: &format!("{name}-{number}"),
                listen: LISTEN,
                durability: setting.durability,
                wait: WaitStrategy::Park,
                options: &["--config", config],
            };
            Child::node_of(&setting, program, work)
        };
        let nodes = [node(0)?, node(1)?];
        let mut good = Vec::new();
        for node in &nodes {
            let mut admin = Admin::connect(node.target(), SessionId(1), node.key(), TIMEOUT)?;
            define_party(&mut admin, setting.order_rate_max)?;
            let plan = SetupPlan {
                first_id: FIRST_INSTRUMENT,
                session_count: GOOD_COUNT,
                instrument_count: INSTRUMENT_COUNT,
                unanswered_count_max: 1 << 16,
            };
            good.push(set_up(&mut admin, &plan)?);
            admin.close()?;
        }
        let (mut traders, listings) = good.swap_remove(0);
        for trader in &mut traders {
            // Between runs the party may be busy for long, and the good sessions wait.
            trader.session.heartbeat_interval_ms = 60_000;
        }
        let accounts: Vec<_> = traders.iter().map(|trader| trader.account_id).collect();
        let mix = Mix { adds: 1, cancels: 1, replaces: 0, crosses: 2 };
        let source = MixSource::new(mix, listings, &accounts, LIVE_COUNT_MAX);
        let generator = Generator::connect(nodes[0].target(), &traders, traders.len())?;
        let victims = nodes.iter().map(log_victim_on).collect::<anyhow::Result<_>>()?;
        let party = PartyProcess::start(&setting, &nodes, &disks)?;
        Ok(Rig { setting, generator, source, victims, party, nodes })
    }

    /// Runs the good sessions once while the party carries out `order`.
    pub(super) fn run(&mut self, order: Order, seed: u64) -> anyhow::Result<Run> {
        let before = self.party.tell(order)?;
        let cpu = self.cpu()?;
        let schedule = Schedule::new(Arrivals::Poisson, f64::from(self.setting.rate), seed);
        self.source.begin(schedule, seed);
        let plan = LoadPlan {
            pace: Pace::Open,
            warm_up: self.setting.warm_up(),
            duration: self.setting.run,
            wait: WaitStrategy::Park,
            late_after: LATE_AFTER,
            late_share_max: LATE_SHARE_MAX,
        };
        let part = LargerPart::take();
        let report = self.generator.run(&plan, &mut self.source, &mut |_| {})?;
        drop(part);
        let after = self.cpu()?;
        self.generator.settle(TIMEOUT)?;
        let done = self.party.tell(Order::Off)?;
        for victim in &mut self.victims {
            victim.poll(Duration::ZERO, |_, _| {})?;
        }
        ensure!(report.counts.answered > 0, "no order was answered");
        Ok(Run {
            report,
            core: after.0.named.saturating_sub(cpu.0.named),
            nodes: (after.0.all + after.1.all).saturating_sub(cpu.0.all + cpu.1.all),
            party: done - before,
        })
    }

    fn cpu(&self) -> anyhow::Result<(CpuTime, CpuTime)> {
        Ok((self.nodes[0].cpu_time(CORE_THREAD)?, self.nodes[1].cpu_time(CORE_THREAD)?))
    }
}

fn log_victim_on(node: &Child) -> anyhow::Result<Client> {
    let mut client = Client::connect(node.target(), Limits::default())?;
    let config = SessionConfig {
        heartbeat_interval_ms: 60_000,
        ..SessionConfig::new(VICTIM, key_of(VICTIM))
    };
    client.log_on(config, TIMEOUT)?;
    Ok(client)
}

/// Defines the sessions of all parties: supervisors, and traders, each with an account.
fn define_party(admin: &mut Admin, order_rate_max: u32) -> anyhow::Result<()> {
    let (request_no, session_id) = (RequestNo::NONE, SessionId::NONE);
    let name = Symbol::new("PARTY").expect("a short name");
    admin.define_firm(DefineFirm {
        request_no,
        name,
        session_id,
        firm_id: PARTY_FIRM,
        live_orders_max: u32::MAX,
        fields: 0,
    })?;
    for id in SUPERVISORS {
        let (role, firm_id) = (Role::Supervisor, FirmId::NONE);
        admin.define_session(DefineSession { role, firm_id, ..session(id) })?;
    }
    let traders = INSIDERS.map(SessionId).chain(RESUMERS);
    for id in traders.chain([VICTIM, FLOODER, MAKER, CANCELLER]) {
        let order_rate_max = if id == FLOODER { order_rate_max } else { 0 };
        let live_orders_max = if id == CANCELLER { u32::MAX } else { 0 };
        let definition = session(id);
        admin.define_session(DefineSession { order_rate_max, live_orders_max, ..definition })?;
        let (account_id, firm_id) = (AccountId(id.0), PARTY_FIRM);
        let unlimited = Switch::On;
        admin.define_account(DefineAccount {
            request_no,
            session_id,
            account_id,
            firm_id,
            unlimited,
            live_orders_max,
            fields: 0,
        })?;
    }
    Ok(())
}

/// The definition of a trader's session without limits of its own.
fn session(id: SessionId) -> DefineSession {
    session_by_key(id, PARTY_FIRM, Role::Trader, &key_of(id))
}
