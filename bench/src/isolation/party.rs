//! `weir-bench party`: the misbehaving sessions of the isolation benchmark, in a separate process.
//!
//! A party reads its orders line by line from standard input and connects to the node that they
//! name. At the priority `idle` it runs only on idle cores, because a real one has its own machine;
//! at `normal` it takes its share.
//!
//! | kind | behaviour |
//! | --- | --- |
//! | `maker` | rests large orders that all trade with, and reads its reports, or never does |
//! | `flood` | one session that sends orders as fast as its socket takes them |
//! | `hostile` | a thousand connections of [`super::hostile`], in rounds |
//! | `resume` | sessions that resume from their first event again and again ([`super::resume`]) |
//! | `mass-cancel` | a session that cancels all its orders at once ([`super::mass_cancel`]) |
//! | `supervisor` | a supervisor that reads everything ([`super::supervisor`]) |
//! | `disk` | no session: the node's disk stalls ([`super::disk`]) |

use std::io::BufRead;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use weir_cli::endpoint::TIMEOUT;
use weir_client::request::{LimitOrder, cancel};
use weir_client::session::{Submit, Times};
use weir_client::{Client, Limits, SessionConfig, resolve};
use weir_probe::thread::{Share, ask_for};
use weir_types::{AccountId, ClOrdId, InstrumentId, Price, Qty, SessionId, Side, TimeInForce};
use weir_wire::Request;

use super::disk::StallingDisks;
use super::hostile::{Cast, Crowd, Kind, ROUND};
use super::mass_cancel::Canceller;
use super::resume::Resumer;
use super::rig::{
    FIRST_INSTRUMENT, FLOODER, INSIDERS, INSTRUMENT_COUNT, MAKER, MIDDLE, TRADING, VICTIM, key_of,
};
use super::supervisor::Supervisor;

/// The number of requests that a flood collects before it writes.
const BURST: usize = 256;
/// The limit of unsent bytes.
const BACKLOG_MAX: usize = 64 * 1024;
/// The number of requests of a silent maker before it stops reading, so that answers pile up at
/// once.
const QUESTIONS: usize = 20_000;
/// The receive buffer of a session that does not read, in bytes: the node must hold the rest.
const SILENT_BUFFER: usize = 4 * 1024;
pub(super) const FLOOD_UNANSWERED_MAX: usize = 1 << 20;
/// The number of rounds after which a crowd is fully connected.
const ROUNDS_TO_BEGIN: u32 = 3;

/// Options of `weir-bench party`.
#[derive(Clone, Debug, clap::Args)]
pub struct PartyArgs {
    /// maker, flood, hostile, resume, mass-cancel, supervisor or disk.
    #[arg(long)]
    kind: PartyKind,
    /// Nodes, in order of their numbers.
    #[arg(long, value_delimiter = ',')]
    nodes: Vec<String>,
    /// The party's share of the cores.
    #[arg(long, default_value_t = Priority::Idle)]
    priority: Priority,
    /// Connections of a hostile crowd, or orders of a mass cancel.
    #[arg(long, default_value_t = 1_000)]
    count: usize,
    /// Milliseconds from an order until the mass cancel.
    #[arg(long, default_value_t = 0)]
    delay_ms: u64,
    /// The words that stall the nodes' disks, in order of the nodes.
    #[arg(long, value_delimiter = ',')]
    disks: Vec<PathBuf>,
}

/// The kind of a party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartyKind {
    /// Rests orders.
    Maker,
    /// Floods with orders.
    Flood,
    /// Opens hostile connections.
    Hostile,
    /// Resumes from old events.
    Resume,
    /// Cancels many orders at once.
    MassCancel,
    /// Reads everything.
    Supervisor,
    /// Stalls the disk.
    Disk,
}

impl PartyKind {
    const NAMES: [(&'static str, PartyKind); 7] = [
        ("maker", PartyKind::Maker),
        ("flood", PartyKind::Flood),
        ("hostile", PartyKind::Hostile),
        ("resume", PartyKind::Resume),
        ("mass-cancel", PartyKind::MassCancel),
        ("supervisor", PartyKind::Supervisor),
        ("disk", PartyKind::Disk),
    ];
}

impl FromStr for PartyKind {
    type Err = String;

    fn from_str(text: &str) -> Result<PartyKind, String> {
        let found = PartyKind::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, kind)| *kind).ok_or_else(|| format!("{text:?} is no kind of party"))
    }
}

impl std::fmt::Display for PartyKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let found = PartyKind::NAMES.iter().find(|(_, kind)| kind == self);
        f.write_str(found.expect("each kind has a name").0)
    }
}

/// A party's share of the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Only what others leave (`SCHED_IDLE`).
    Idle,
    /// As any other process.
    Normal,
}

impl FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Priority, String> {
        match text {
            "idle" => Ok(Priority::Idle),
            "normal" => Ok(Priority::Normal),
            other => Err(format!("{other:?} is neither idle nor normal")),
        }
    }
}

impl std::fmt::Display for Priority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Priority::Idle => "idle",
            Priority::Normal => "normal",
        })
    }
}

/// An order to a party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Disconnect.
    Off,
    /// Connect to this node; a maker reads its reports.
    To(usize),
    /// As [`Order::To`], but a maker reads nothing.
    SilentTo(usize),
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Order, String> {
        let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is no node"));
        match text.split_once(' ') {
            None if text == "off" => Ok(Order::Off),
            None => number(text).map(Order::To),
            Some((node, "silent")) => number(node).map(Order::SilentTo),
            Some(_) => Err(format!("{text:?} is no order")),
        }
    }
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Order::Off => f.write_str("off"),
            Order::To(node) => write!(f, "{node}"),
            Order::SilentTo(node) => write!(f, "{node} silent"),
        }
    }
}

pub(super) trait Party {
    /// Carries out an order; returns once the party is fully in place.
    fn turn(&mut self, node: Option<SocketAddr>, is_silent: bool) -> anyhow::Result<()>;
    /// Continues for a moment.
    fn step(&mut self) -> anyhow::Result<()>;
    /// The amount of work so far: requests or rounds.
    fn done(&self) -> u64;
}

/// Carries out orders until standard input ends.
///
/// # Errors
/// A node that cannot be reached, or that disconnects a session which did nothing wrong.
pub fn run_party(args: PartyArgs) -> anyhow::Result<()> {
    if args.priority == Priority::Idle {
        ask_for(Share::Leftover).context("cannot stand back behind others")?;
    }
    let nodes: Result<Vec<_>, _> = args.nodes.iter().map(|node| resolve(node)).collect();
    let nodes = nodes?;
    let mut party: Box<dyn Party> = match args.kind {
        PartyKind::Maker => Box::new(Maker { client: None, is_silent: false, done: 0 }),
        PartyKind::Flood => Box::new(Flood { client: None, done: 0 }),
        PartyKind::Hostile => Box::new(Hostiles::new(args.count)),
        PartyKind::Resume => Box::new(Resumer::default()),
        PartyKind::MassCancel => {
            Box::new(Canceller::new(args.count, Duration::from_millis(args.delay_ms)))
        }
        PartyKind::Supervisor => Box::new(Supervisor::default()),
        PartyKind::Disk => Box::new(StallingDisks::new(&nodes, &args.disks)?),
    };
    let orders = orders();
    loop {
        let order = match orders.try_recv() {
            Ok(order) => order,
            Err(TryRecvError::Empty) => {
                party.step()?;
                continue;
            }
            Err(TryRecvError::Disconnected) => return Ok(()),
        };
        match order.map_err(anyhow::Error::msg)? {
            Order::Off => party.turn(None, false)?,
            Order::To(node) => party.turn(nodes.get(node).copied(), false)?,
            Order::SilentTo(node) => party.turn(nodes.get(node).copied(), true)?,
        }
        println!("ready {}", party.done());
    }
}

/// Reads the lines of standard input until it ends.
fn orders() -> Receiver<Result<Order, String>> {
    let (sender, orders) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.send(line.parse()).is_err() {
                return;
            }
        }
    });
    orders
}

/// Logs on a session, when the end of its previous connection has been noticed.
pub(super) fn log_on(
    node: SocketAddr,
    id: SessionId,
    unanswered_count_max: usize,
) -> anyhow::Result<Client> {
    let limits = Limits { outbox_len_max: 64 << 20, ..Limits::default() };
    let mut client = Client::connect(node, limits)?;
    let config = SessionConfig { unanswered_count_max, ..patient_config(id) };
    // The node may not have noticed the end of the previous connection yet.
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match client.log_on(config, TIMEOUT) {
            Ok(()) => return Ok(client),
            Err(error) if Instant::now() > deadline => return Err(error.into()),
            Err(_) => client = Client::connect(node, limits)?,
        }
    }
}

/// A configuration with rare heartbeats, for sessions whose party does other things meanwhile.
pub(super) fn patient_config(id: SessionId) -> SessionConfig {
    SessionConfig { heartbeat_interval_ms: 60_000, ..SessionConfig::new(id, key_of(id)) }
}

/// Queues a request.
pub(super) fn submit(client: &mut Client, id: SessionId, request: Request) -> anyhow::Result<()> {
    match client.submit(id, TRADING, request, Times::default()) {
        Submit::Sent(_) => Ok(()),
        other => bail!("a request was not sent: {other:?}"),
    }
}

/// Builds an order with a new identifier.
pub(super) fn order(
    account: SessionId,
    instrument: u32,
    side: Side,
    price: i64,
    qty: u64,
) -> LimitOrder {
    LimitOrder {
        cl_ord_id: ClOrdId::from_number(weir_client::clock::unix_time().0),
        instrument_id: InstrumentId(instrument),
        account_id: AccountId(account.0),
        side,
        price: Price(price),
        order_qty: Qty(qty),
        time_in_force: TimeInForce::Gtc,
    }
}

/// Rests orders at the middle price, ahead of all others.
struct Maker {
    client: Option<Client>,
    is_silent: bool,
    done: u64,
}

impl Party for Maker {
    fn turn(&mut self, node: Option<SocketAddr>, is_silent: bool) -> anyhow::Result<()> {
        self.client = None;
        self.is_silent = is_silent;
        let Some(node) = node else { return Ok(()) };
        let mut client = log_on(node, MAKER, FLOOD_UNANSWERED_MAX)?;
        for instrument in FIRST_INSTRUMENT..FIRST_INSTRUMENT + INSTRUMENT_COUNT {
            for (side, price) in [(Side::Buy, MIDDLE), (Side::Sell, MIDDLE + 1)] {
                let order = order(MAKER, instrument, side, price, 100_000);
                submit(&mut client, MAKER, order.request())?;
                while client.sessions()[0].unanswered_count() > 0 {
                    client.poll(TIMEOUT, |_, _| {})?;
                }
            }
        }
        if is_silent {
            rustix::net::sockopt::set_socket_recv_buffer_size(client.connection(), SILENT_BUFFER)?;
            let nothing = ClOrdId::new("no-such-order").expect("a short name");
            for _ in 0..QUESTIONS {
                let request = cancel(nothing, nothing, InstrumentId(FIRST_INSTRUMENT));
                submit(&mut client, MAKER, request)?;
            }
            // Waits until the node takes no more requests from a session that does not read its
            // answers.
            let mut left = usize::MAX;
            while client.connection().backlog_len() < left {
                left = client.connection().backlog_len();
                client.flush()?;
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        self.client = Some(client);
        Ok(())
    }

    fn step(&mut self) -> anyhow::Result<()> {
        match &mut self.client {
            Some(client) if !self.is_silent => {
                self.done += client.poll(Duration::from_millis(20), |_, _| {})? as u64;
            }
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
        Ok(())
    }

    fn done(&self) -> u64 {
        self.done
    }
}

/// Sends orders that never trade, as fast as the socket takes them.
struct Flood {
    client: Option<Client>,
    done: u64,
}

impl Party for Flood {
    fn turn(&mut self, node: Option<SocketAddr>, _: bool) -> anyhow::Result<()> {
        self.client = None;
        if let Some(node) = node {
            self.client = Some(log_on(node, FLOODER, FLOOD_UNANSWERED_MAX)?);
            for _ in 0..100 {
                self.step()?;
            }
        }
        Ok(())
    }

    fn step(&mut self) -> anyhow::Result<()> {
        let Some(client) = &mut self.client else {
            std::thread::sleep(Duration::from_millis(5));
            return Ok(());
        };
        if client.connection().backlog_len() < BACKLOG_MAX {
            let order = order(FLOODER, FIRST_INSTRUMENT, Side::Buy, 1, 1);
            let order = LimitOrder { time_in_force: TimeInForce::Ioc, ..order };
            for _ in 0..BURST {
                submit(client, FLOODER, order.request())?;
            }
        }
        let before = client.connection().backlog_len();
        let got = client.poll(Duration::ZERO, |_, _| {})?;
        self.done += got as u64;
        if got == 0 && client.connection().backlog_len() == before {
            // Neither end makes progress: waiting yields the core.
            self.done += client.poll(Duration::from_millis(1), |_, _| {})? as u64;
        }
        Ok(())
    }

    fn done(&self) -> u64 {
        self.done
    }
}

struct Hostiles {
    crowd: Crowd,
    node: Option<SocketAddr>,
    /// The time at which the next round may begin.
    next_at: Instant,
}

impl Hostiles {
    fn new(count: usize) -> Hostiles {
        let insiders = INSIDERS.map(credentials).collect();
        let victim = credentials(VICTIM.0);
        let instrument_id = InstrumentId(FIRST_INSTRUMENT);
        let crowd = Crowd::gather(&Cast { count, victim, insiders, instrument_id });
        Hostiles { crowd, node: None, next_at: Instant::now() }
    }
}

fn credentials(id: u32) -> super::hostile::Credentials {
    let session_id = SessionId(id);
    super::hostile::Credentials { session_id, key: key_of(session_id) }
}

impl Party for Hostiles {
    fn turn(&mut self, node: Option<SocketAddr>, _: bool) -> anyhow::Result<()> {
        self.crowd.round(None);
        self.node = node;
        for _ in 0..ROUNDS_TO_BEGIN {
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> anyhow::Result<()> {
        std::thread::sleep(self.next_at.saturating_duration_since(Instant::now()));
        self.next_at = Instant::now() + ROUND;
        self.crowd.round(self.node);
        Ok(())
    }

    fn done(&self) -> u64 {
        let opened = |kind: &Kind| self.crowd.tallies().get(kind).map_or(0, |tally| tally.opened);
        Kind::ALL.iter().map(opened).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_priorities_read_back() {
        for (name, kind) in PartyKind::NAMES {
            assert_eq!((name.parse(), kind.to_string()), (Ok(kind), name.to_owned()));
        }
        for priority in [Priority::Idle, Priority::Normal] {
            assert_eq!(priority.to_string().parse(), Ok(priority));
        }
        assert!("crowd".parse::<PartyKind>().is_err() && "high".parse::<Priority>().is_err());
    }

    #[test]
    fn orders_read_back_and_nonsense_is_refused() {
        for order in [Order::Off, Order::To(1), Order::SilentTo(0)] {
            assert_eq!(order.to_string().parse(), Ok(order));
        }
        for text in ["", "on", "1 loud", "x silent", "-1"] {
            assert!(text.parse::<Order>().is_err(), "{text:?}");
        }
    }
}
