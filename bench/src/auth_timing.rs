//! `weir-bench auth-timing`: checks that the time of a refused logon does not reveal the reason for
//! the refusal.
//!
//! Runs a node in this process and makes logon attempts over real sockets:
//! each kind of refusal once per round, in random order, each on its own connection. For each kind
//! it prints the difference of its median time from that of a session that does not exist, with the
//! interval that holds 95 % of 2,000 bootstrapped differences. A kind whose whole interval lies
//! beyond a microsecond fails the run.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use weir_client::key::key_hash;
use weir_client::{Admin, SigningKey};
use weir_io::{Rng, SeededRng};
use weir_node::config::Config;
use weir_node::node::Node;
use weir_runtime::WaitStrategy;
use weir_types::{
    Credential, CredentialKind, Durability, FirmId, Nanos, Reason, RequestNo, Role, SessionId,
    Switch,
};
use weir_wire::NodeMessage;
use weir_wire::challenge::put_answer;
use weir_wire::dialogue::put_logon;
use weir_wire::frame::{Framing, next_frame, put_frame};
use weir_wire::reference::DefineSession;
use weir_wire::session::{
    ApiKey, Challenge, ChallengeRequest, Logon, NodeId, Nonce, Signature, SignedLogon,
};

const TIMEOUT: Duration = Duration::from_secs(10);
const KEYED: SessionId = SessionId(2);
const OLD_KEYED: SessionId = SessionId(3);
const SIGNING: SessionId = SessionId(4);
const OLD_SIGNING: SessionId = SessionId(5);
const NOBODY: SessionId = SessionId(99);
/// The least time between attempts. A node verifies one signature per millisecond on average;
/// faster attempts would measure that wait.
const PACE: Duration = Duration::from_micros(1_300);
const RESAMPLES: usize = 2_000;
/// The largest difference, in nanoseconds, that counts as hidden by a network's noise.
const DIFFERENCE_MAX_NS: i64 = 1_000;

/// The method of a logon attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The API key of a session.
    Key,
    /// The signature of a session.
    Signature,
    /// The signature of a session, without a challenge.
    Unasked,
}

/// A kind of refusal: the session claimed, the session whose secret is used, and the expected
/// reason.
struct Kind {
    name: &'static str,
    way: Way,
    session_id: SessionId,
    secret_of: SessionId,
    reason: Reason,
}

const fn kind(
    name: &'static str,
    way: Way,
    session_id: SessionId,
    secret_of: SessionId,
    reason: Reason,
) -> Kind {
    Kind { name, way, session_id, secret_of, reason }
}

/// The first kind of each method is the base of its comparisons.
const KINDS: [Kind; 13] = [
    kind("no such session", Way::Key, NOBODY, NOBODY, Reason::UnknownKey),
    kind("wrong key", Way::Key, KEYED, NOBODY, Reason::UnknownKey),
    kind("key of another session", Way::Key, KEYED, OLD_KEYED, Reason::UnknownKey),
    kind("session that signs", Way::Key, SIGNING, NOBODY, Reason::UnknownKey),
    kind("expired, wrong key", Way::Key, OLD_KEYED, NOBODY, Reason::UnknownKey),
    kind("expired, own key", Way::Key, OLD_KEYED, OLD_KEYED, Reason::KeyExpired),
    kind("no such session", Way::Signature, NOBODY, NOBODY, Reason::UnknownKey),
    kind("bad signature", Way::Signature, SIGNING, NOBODY, Reason::UnknownKey),
    kind("key of another session", Way::Signature, SIGNING, OLD_SIGNING, Reason::UnknownKey),
    kind("session with API key", Way::Signature, KEYED, NOBODY, Reason::UnknownKey),
    kind("expired, bad signature", Way::Signature, OLD_SIGNING, NOBODY, Reason::UnknownKey),
    kind("expired, own key", Way::Signature, OLD_SIGNING, OLD_SIGNING, Reason::KeyExpired),
    kind("no challenge", Way::Unasked, SIGNING, SIGNING, Reason::UnknownChallenge),
];

/// Options of `weir-bench auth-timing`.
#[derive(Debug, clap::Args)]
pub struct AuthTimingArgs {
    /// Rounds, each with every kind of refusal.
    #[arg(default_value_t = 1_000)]
    rounds: usize,
}

/// Runs the check.
///
/// # Errors
/// A kind of refusal can be told by its time, or the node fails.
pub fn run(args: &AuthTimingArgs) -> anyhow::Result<()> {
    let rounds = args.rounds;
    let dir = std::env::temp_dir().join(format!("weir-auth-timing-{}", std::process::id()));
    let measured = measure(&dir, rounds);
    std::fs::remove_dir_all(&dir).with_context(|| format!("{} stays", dir.display()))?;
    tell(&measured?)
}

/// Returns the times of each kind, in nanoseconds, round by round.
fn measure(dir: &Path, rounds: usize) -> anyhow::Result<Vec<Vec<i64>>> {
    let operator = ApiKey([1; 32]);
    let mut config = Config {
        dir: dir.to_path_buf(),
        listen: "127.0.0.1:0".parse()?,
        durability: Durability::Memory,
        wait: WaitStrategy::Yield,
        bootstrap_key: Some("01".repeat(32)),
        ..Config::default()
    };
    config.probes.hiccups = false;
    let mut node = Node::start(&config, std::sync::Arc::default())?;
    let address = node.address();
    define(&mut Admin::connect(address, SessionId(1), operator, TIMEOUT)?)?;
    let mut times = vec![Vec::with_capacity(rounds); KINDS.len()];
    let mut order: Vec<usize> = (0..KINDS.len()).collect();
    let mut rng = SeededRng::new(1, "order of kinds");
    let warm_up = rounds / 10;
    for round in 0..rounds + warm_up {
        for last in (1..order.len()).rev() {
            order.swap(last, rng.below(last as u64 + 1) as usize);
        }
        for index in &order {
            let begun = Instant::now();
            let time = attempt(address, &KINDS[*index])?;
            if round >= warm_up {
                times[*index].push(time);
            }
            std::thread::sleep(PACE.saturating_sub(begun.elapsed()));
        }
    }
    node.stop();
    Ok(times)
}

fn secret(of: SessionId) -> [u8; 32] {
    [of.0 as u8; 32]
}

fn define(admin: &mut Admin) -> anyhow::Result<()> {
    let signs = |id| matches!(id, SIGNING | OLD_SIGNING);
    for id in [KEYED, OLD_KEYED, SIGNING, OLD_SIGNING] {
        let (credential, credential_kind) = if signs(id) {
            let public = SigningKey::from_seed(secret(id)).public();
            (Credential(public), CredentialKind::Ed25519)
        } else {
            (key_hash(&ApiKey(secret(id))), CredentialKind::ApiKey)
        };
        admin.define_session(DefineSession {
            request_no: RequestNo::NONE,
            valid_until: Nanos(u64::from(matches!(id, OLD_KEYED | OLD_SIGNING))),
            credential,
            session_id: SessionId::NONE,
            defined_session_id: id,
            firm_id: FirmId::NONE,
            order_rate_max: 0,
            in_flight_max: 0,
            role: Role::Supervisor,
            credential_kind,
            live_orders_max: 0,
            fields: 0,
        })?;
    }
    Ok(())
}

/// Measures the time to the answer of one attempt, in nanoseconds.
fn attempt(address: SocketAddr, kind: &Kind) -> anyhow::Result<i64> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let session_id = kind.session_id;
    let mut frame = Vec::new();
    if kind.way == Way::Key {
        let api_key = ApiKey(secret(kind.secret_of));
        let logon = Logon {
            api_key,
            session_id,
            heartbeat_interval_ms: 5_000,
            cancel_on_disconnect: Switch::Off,
            takeover: Switch::Off,
        };
        put_logon(&logon, &[], &mut frame);
    } else {
        let challenge = challenge(&mut stream, kind)?;
        let key = SigningKey::from_seed(secret(kind.secret_of));
        let signature = Signature([0; 64]);
        let logon = SignedLogon {
            signature,
            session_id,
            heartbeat_interval_ms: 5_000,
            cancel_on_disconnect: Switch::Off,
            takeover: Switch::Off,
        };
        put_answer(&challenge, logon, &[], |text| key.sign(text), &mut frame);
    }
    let begun = Instant::now();
    stream.write_all(&frame)?;
    let answer = read_frame(&mut stream)?;
    let time = begun.elapsed().as_nanos();
    let reason = match message_in(&answer)? {
        NodeMessage::LogonReject(reject) => reject.reason,
        other => bail!("{}: the node said {other:?}", kind.name),
    };
    anyhow::ensure!(reason == kind.reason, "{}: {reason}", kind.name);
    Ok(i64::try_from(time)?)
}

/// Requests a challenge; if the kind uses none, makes the same round trip for another session.
fn challenge(stream: &mut TcpStream, kind: &Kind) -> anyhow::Result<Challenge> {
    let is_asked = kind.way == Way::Signature;
    let session_id = if is_asked { kind.session_id } else { SessionId(98) };
    let mut frame = Vec::new();
    put_frame(&ChallengeRequest { session_id }, &mut frame);
    stream.write_all(&frame)?;
    let answer = read_frame(stream)?;
    match message_in(&answer)? {
        NodeMessage::Challenge(challenge) if is_asked => Ok(challenge),
        NodeMessage::Challenge(_) => Ok(Challenge {
            nonce: Nonce([0; 32]),
            node_id: NodeId([0; 16]),
            session_id: kind.session_id,
        }),
        other => bail!("a challenge was due, not {other:?}"),
    }
}

/// Reads bytes that begin with a whole frame.
fn read_frame(stream: &mut TcpStream) -> anyhow::Result<Vec<u8>> {
    let mut bytes = vec![0; 4096];
    let mut len = 0;
    loop {
        let read = stream.read(&mut bytes[len..])?;
        anyhow::ensure!(read > 0, "the node closed the connection without an answer");
        len += read;
        if let Framing::Frame { .. } = next_frame(&bytes[..len], bytes.len()) {
            bytes.truncate(len);
            return Ok(bytes);
        }
    }
}

fn message_in(bytes: &[u8]) -> anyhow::Result<NodeMessage<'_>> {
    match next_frame(bytes, bytes.len()) {
        Framing::Frame { message, .. } => Ok(NodeMessage::decode(&message?)?),
        other => bail!("no frame: {other:?}"),
    }
}

fn median(times: &mut [i64]) -> i64 {
    let middle = times.len() / 2;
    *times.select_nth_unstable(middle).1
}

/// Returns the difference of two medians and the 95 % interval of its bootstrapped values: rounds
/// are drawn with replacement, so that effects on a whole round stay within it.
fn difference(base: &[i64], other: &[i64], rng: &mut SeededRng) -> (i64, i64, i64) {
    let told = median(&mut other.to_vec()) - median(&mut base.to_vec());
    let mut drawn = Vec::with_capacity(RESAMPLES);
    let (mut of_base, mut of_other) = (base.to_vec(), other.to_vec());
    for _ in 0..RESAMPLES {
        for place in 0..base.len() {
            let round = rng.below(base.len() as u64) as usize;
            (of_base[place], of_other[place]) = (base[round], other[round]);
        }
        drawn.push(median(&mut of_other) - median(&mut of_base));
    }
    drawn.sort_unstable();
    (told, drawn[RESAMPLES / 40], drawn[RESAMPLES - 1 - RESAMPLES / 40])
}

fn tell(times: &[Vec<i64>]) -> anyhow::Result<()> {
    let mut rng = SeededRng::new(1, "bootstrap");
    let mut telling = Vec::new();
    let mut base = &times[0];
    println!("{:<10} {:<24} {:>10}  {:>9}  95 %", "way", "kind", "median ns", "diff. ns");
    for (index, (kind, ours)) in KINDS.iter().zip(times).enumerate() {
        let is_base = index == 0 || kind.way == Way::Signature && KINDS[index - 1].way == Way::Key;
        let way = if kind.way == Way::Key { "API key" } else { "signature" };
        let middle = median(&mut ours.clone());
        if is_base {
            base = ours;
            println!("{way:<10} {:<24} {middle:>10}", kind.name);
            continue;
        }
        let (told, low, high) = difference(base, ours, &mut rng);
        println!("{way:<10} {:<24} {middle:>10}  {told:>9}  {low} to {high}", kind.name);
        if low > DIFFERENCE_MAX_NS || high < -DIFFERENCE_MAX_NS {
            telling.push(format!("{way}, {}", kind.name));
        }
    }
    println!("{} rounds", times[0].len());
    anyhow::ensure!(telling.is_empty(), "the time tells the kind: {}", telling.join("; "));
    Ok(())
}
