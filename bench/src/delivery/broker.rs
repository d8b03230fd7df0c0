//! `weir-bench broker`: messages over sockets to a connected subscriber, compared with a relay that
//! only forwards the same frames; then messages to a subscriber that disconnects and reconnects,
//! each of them counted.
//!
//! The sides alternate. In both, publisher and subscriber share the driving thread, with one
//! connection each, and follow the protocol; the relay's side acknowledges nothing. The driving
//! thread has one core, relay and node share another: under a free scheduler, the relay's hand-off
//! takes 5 us on the driver's own core and 40 us on the other, varying from run to run.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use weir_cli::endpoint::TIMEOUT;
use weir_client::clock::WaitStrategy;
use weir_client::load::setup::key_hash;
use weir_client::subscription::{
    BrokerClient, Credit, NewSubscription, Publisher, Seen, Subscription, WaitOutcome,
};
use weir_client::{Admin, Connection, Limits, SessionConfig};
use weir_types::{
    CredentialKind, Durability, Epoch, FirmId, Nanos, RequestNo, Role, SessionId, SubscriptionKind,
};
use weir_wire::dialogue::put_with_data;
use weir_wire::reference::DefineSession;
use weir_wire::session::ApiKey;
use weir_wire::subscription::PublishMessage;

use crate::roundtrip::{Child, WorkDir};

const OPERATOR: SessionId = SessionId(1);
const READER: SessionId = SessionId(2);
const READER_KEY: ApiKey = ApiKey([0x5b; 32]);
const NAME: &str = "bench";
/// The maximum backlog for the reconnecting subscriber; a part of its quota.
const BACKLOG_MAX: u64 = 2_000_000;
/// The time after which the run counts as hung.
const HANG: Duration = Duration::from_secs(120);

/// Options of `weir-bench broker`.
#[derive(Debug, clap::Args)]
pub struct BrokerArgs {
    /// Messages with one in flight, in each round.
    #[arg(long, default_value_t = 5_000)]
    pings: u32,
    /// Messages in a stream, in each round.
    #[arg(long, default_value_t = 100_000)]
    stream: u32,
    /// Rounds.
    #[arg(long, default_value_t = 15)]
    rounds: u32,
    /// Messages to a subscriber that reconnects.
    #[arg(long, default_value_t = 10_000_000)]
    churn: u64,
    /// Messages in flight in a stream.
    #[arg(long, default_value_t = 512)]
    window: u32,
    /// Bytes of a body.
    #[arg(long, default_value_t = 200)]
    body: usize,
    /// The node's level: memory, os or disk.
    #[arg(long, default_value = "disk")]
    durability: Durability,
    /// The node's wait strategy.
    #[arg(long, default_value = "park")]
    wait: WaitStrategy,
}

/// The figures of a round: sorted ping times in ns; ns per message in a stream.
struct Round {
    pings: Vec<u64>,
    stream: f64,
}

/// A path for messages.
trait Path {
    /// Sends a message.
    fn send(&mut self, body: &[u8]);
    /// Takes the messages that have arrived, waiting a moment at most; returns their number.
    fn take(&mut self) -> anyhow::Result<u32>;
}

/// Two connections with a relay between them.
struct Relayed {
    from: Connection,
    to: Connection,
    number: u64,
}

impl Relayed {
    fn start() -> anyhow::Result<Relayed> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let relay = std::thread::Builder::new().name("relay".to_owned());
        relay.spawn(move || relay_between(&listener))?;
        let from = Connection::of(TcpStream::connect(address)?, Limits::default())?;
        let to = Connection::of(TcpStream::connect(address)?, Limits::default())?;
        Ok(Relayed { from, to, number: 0 })
    }
}

/// Forwards bytes from the first connection to the second until it ends.
fn relay_between(listener: &TcpListener) {
    let mut buffer = vec![0; 128 * 1024];
    let (Ok((mut from, _)), Ok((mut to, _))) = (listener.accept(), listener.accept()) else {
        return;
    };
    // Otherwise the system would delay small frames.
    if to.set_nodelay(true).is_err() {
        return;
    }
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..len]).is_err() {
            return;
        }
    }
}

impl Path for Relayed {
    fn send(&mut self, body: &[u8]) {
        self.number += 1;
        let message = PublishMessage {
            message_no: self.number,
            session_id: OPERATOR,
            to_session_id: READER,
            epoch: Epoch(1),
        };
        put_with_data(&message, body, self.from.outbox());
    }

    fn take(&mut self) -> anyhow::Result<u32> {
        self.from.flush()?;
        weir_client::clock::wait([&self.to], Duration::from_millis(1))?;
        self.to.receive()?;
        let mut count = 0;
        while self.to.next_raw()?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}

/// A path through a node's broker.
struct Brokered {
    publisher: Publisher,
    subscription: Option<Subscription>,
    address: SocketAddr,
    /// The highest number in the bodies received, in order from 1.
    came: u64,
}

impl Brokered {
    fn subscribe(&mut self) {
        let client = BrokerClient::new(self.address, SessionConfig::new(READER, READER_KEY));
        // This process detects repeats itself, by counting.
        self.subscription = Some(Subscription::on(client, NAME, Credit::default(), Seen::new()));
    }
}

impl Path for Brokered {
    fn send(&mut self, body: &[u8]) {
        self.publisher.publish(READER, body);
    }

    fn take(&mut self) -> anyhow::Result<u32> {
        self.publisher.poll(Duration::ZERO);
        let Some(from) = &mut self.subscription else { return Ok(0) };
        let mut count = 0;
        let mut patience = Duration::from_millis(1);
        loop {
            let message = match from.next(patience) {
                WaitOutcome::Message(message) => message,
                WaitOutcome::Nothing => break,
                WaitOutcome::Ended(reason, _) => {
                    anyhow::bail!("the subscription has ended: {reason}")
                }
            };
            patience = Duration::ZERO;
            from.ack(&message);
            let number = u64::from_le_bytes(*message.body.first_chunk().context("a number")?);
            if number > self.came {
                ensure!(number == self.came + 1, "{} came after {}", number, self.came);
                self.came = number;
                count += 1;
            }
        }
        Ok(count)
    }
}

fn round(path: &mut dyn Path, args: &BrokerArgs, number: &mut u64) -> anyhow::Result<Round> {
    let mut body = vec![0; args.body.max(8)];
    let mut next = |path: &mut dyn Path| {
        *number += 1;
        body[..8].copy_from_slice(&number.to_le_bytes());
        path.send(&body);
    };
    let mut pings = Vec::with_capacity(args.pings as usize);
    for _ in 0..args.pings {
        let begun = Instant::now();
        next(path);
        while path.take()? == 0 {
            ensure!(begun.elapsed() < HANG, "a message does not come");
        }
        pings.push(u64::try_from(begun.elapsed().as_nanos())?);
    }
    pings.sort_unstable();
    let (begun, mut sent, mut came) = (Instant::now(), 0, 0);
    while came < args.stream {
        while sent < args.stream && sent - came < args.window {
            sent += 1;
            next(path);
        }
        came += path.take()?;
        ensure!(begun.elapsed() < HANG, "{came} of {sent} came");
    }
    let stream = begun.elapsed().as_secs_f64() * 1e9 / f64::from(args.stream);
    Ok(Round { pings, stream })
}

/// Sends messages to a subscriber that disconnects for every second twentieth of them.
fn churn(path: &mut Brokered, args: &BrokerArgs, number: &mut u64) -> anyhow::Result<Duration> {
    let mut body = vec![0; args.body.max(8)];
    let (first, begun) = (*number, Instant::now());
    let turn = (args.churn / 20).max(1);
    while path.came < first + args.churn {
        let said = *number - first;
        // A reconnecting subscriber may be slower than the publisher.
        let is_behind = *number - path.came >= BACKLOG_MAX;
        if said < args.churn && !is_behind && path.publisher.unacknowledged() < 16 * 1024 {
            for _ in 0..args.window {
                *number += 1;
                body[..8].copy_from_slice(&number.to_le_bytes());
                path.send(&body);
            }
        }
        let is_away = said < args.churn && said / turn % 2 == 1 && !is_behind;
        match (is_away, path.subscription.is_some()) {
            (true, true) => path.subscription = None,
            (false, false) => path.subscribe(),
            _ => {}
        }
        path.take()?;
        if begun.elapsed() > HANG && path.came == first {
            anyhow::bail!("nothing comes");
        }
    }
    Ok(begun.elapsed())
}

fn start(args: &BrokerArgs, work_dir: &WorkDir) -> anyhow::Result<(Child, Brokered)> {
    let address = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
    let config = work_dir.path().join("weir.toml");
    std::fs::write(
        &config,
        format!("[subscriptions]\nlisten = \"{address}\"\nquota_messages = 100000000\n"),
    )?;
    let options = ["--config", config.to_str().context("a path that is text")?];
    let node = Child::node_with("broker", args.durability, args.wait, &options, work_dir)?;
    let mut admin = Admin::connect(node.target(), OPERATOR, node.key(), TIMEOUT)?;
    admin.define_session(DefineSession {
        request_no: RequestNo::NONE,
        valid_until: Nanos(0),
        credential: key_hash(&READER_KEY),
        session_id: OPERATOR,
        defined_session_id: READER,
        firm_id: FirmId::NONE,
        order_rate_max: 0,
        in_flight_max: 0,
        role: Role::Supervisor,
        credential_kind: CredentialKind::ApiKey,
        live_orders_max: 0,
        fields: 0,
    })?;
    admin.close()?;
    let session = SessionConfig::new(OPERATOR, node.key());
    let mut reader = BrokerClient::new(address, SessionConfig::new(READER, READER_KEY));
    let begun = Instant::now();
    // The broker learns of the session shortly after its definition is acknowledged.
    while let Err(error) = reader.create(&NewSubscription::new(NAME, SubscriptionKind::Messages)) {
        ensure!(begun.elapsed() < TIMEOUT, "{error}");
    }
    drop(reader);
    let publisher = Publisher::new(address, session, Epoch(1), 0);
    let mut path = Brokered { publisher, subscription: None, address, came: 0 };
    path.subscribe();
    Ok((node, path))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn percentile(sorted: &[u64], per_mille: usize) -> f64 {
    sorted[(sorted.len() - 1) * per_mille / 1000] as f64
}

/// Runs `weir-bench broker`.
///
/// # Errors
/// A lost or reordered message, or the failure of a side.
pub fn run(args: BrokerArgs) -> anyhow::Result<()> {
    let work_dir = WorkDir::create(None)?;
    let cores = weir_probe::thread::usable_cores();
    let apart = cores.first().zip(cores.last()).filter(|(driver, other)| driver != other);
    // Processes started from here inherit the core.
    if let Some((_, other)) = apart {
        weir_probe::thread::pin_to_core(*other)?;
    }
    let (node, mut brokered) = start(&args, &work_dir)?;
    let mut relayed = Relayed::start()?;
    if let Some((driver, _)) = apart {
        weir_probe::thread::pin_to_core(*driver)?;
    }
    let (mut number, mut other) = (0, 0);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        theirs.push(round(&mut relayed, &args, &mut other)?);
        ours.push(round(&mut brokered, &args, &mut number)?);
    }
    let ratio = |of: &dyn Fn(&Round) -> f64| {
        median(ours.iter().zip(&theirs).map(|(our, their)| of(our) / of(their)).collect())
    };
    let all =
        |rounds: &[Round], of: &dyn Fn(&Round) -> f64| median(rounds.iter().map(of).collect());
    let p50 = |round: &Round| percentile(&round.pings, 500);
    let p99 = |round: &Round| percentile(&round.pings, 990);
    let stream = |round: &Round| round.stream;
    let before = brokered.came;
    let churned = churn(&mut brokered, &args, &mut number)?;
    let came = brokered.came - before;
    drop(node);
    let report = serde_json::json!({
        "durability": args.durability.to_string(), "wait": args.wait.to_string(),
        "body_bytes": args.body, "driver_has_its_own_core": apart.is_some(),
        "rounds": args.rounds, "pings": args.pings, "stream": args.stream, "window": args.window,
        "broker_p50_ns": all(&ours, &p50), "relay_p50_ns": all(&theirs, &p50),
        "p50_ratio": ratio(&p50),
        "broker_p99_ns": all(&ours, &p99), "relay_p99_ns": all(&theirs, &p99),
        "p99_ratio": ratio(&p99),
        "broker_ns_a_message": all(&ours, &stream), "relay_ns_a_message": all(&theirs, &stream),
        "stream_ratio": ratio(&stream),
        "churn_messages": args.churn, "churn_came": came, "churn_s": churned.as_secs_f64(),
    });
    println!("{report}");
    Ok(())
}
