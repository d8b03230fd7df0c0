//! Sessions that log on and send only heartbeats, each on its own connection, in separate processes
//! because of the limit of open files.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use weir_cli::endpoint::{TIMEOUT, hex, parse_key};
use weir_client::load::SetupPlan;
use weir_client::load::setup::hire_all;
use weir_client::{Admin, Client, Key, Limits, SessionConfig, Target, resolve};
use weir_tls::ClientTls;
use weir_tls::client::Trust;
use weir_types::SessionId;

use super::children::{Certificates, Child, SERVER_NAME};
use crate::programs;

/// The maximum number of connections of one process, all to one address.
const CONNECTIONS_MAX: usize = 5_000;
/// An idle session receives little.
const LIMITS: Limits = Limits {
    frame_len_max: 16 << 10,
    outbox_len_max: 16 << 10,
    connect_timeout: Duration::from_secs(10),
};
const HEARTBEAT_MS: u32 = 60_000;
/// The number of sessions polled together, and the interval: each of 10,000 every 20 s.
const SLICE: usize = 100;
const SLICE_INTERVAL: Duration = Duration::from_millis(200);

/// Options of `weir-bench idle`; the sessions and their keys come from standard input.
#[derive(Clone, Debug, clap::Args)]
pub struct IdleArgs {
    /// The node.
    #[arg(long)]
    node: String,
    /// Authorities that may sign the node's certificate (PEM); no TLS if absent.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
}

/// Holds idle sessions until its standard input ends.
///
/// # Errors
/// A node that cannot be reached or refuses a logon.
pub fn run_idle(args: IdleArgs) -> anyhow::Result<()> {
    let trust = args.tls_ca.as_deref().map(Trust::Authority);
    let tls = trust.map(|trust| ClientTls::new(trust, SERVER_NAME)).transpose()?;
    let target = Target::of(resolve(&args.node)?, tls);
    let mut clients = Vec::new();
    for line in std::io::stdin().lines() {
        let line = line?;
        if line.is_empty() {
            break;
        }
        let (id, key) = line.split_once(' ').context("want SESSION KEY")?;
        let config = SessionConfig {
            heartbeat_interval_ms: HEARTBEAT_MS,
            ..SessionConfig::new(SessionId(id.parse()?), parse_key(key)?)
        };
        let mut client = Client::connect(target.clone(), LIMITS)?;
        client.log_on(config, TIMEOUT)?;
        clients.push(client);
    }
    println!("weir ready idle={}", clients.len());
    std::thread::spawn(|| {
        // The parent process has ended, or no longer needs the sessions.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    for start in (0..clients.len()).step_by(SLICE).cycle() {
        let end = (start + SLICE).min(clients.len());
        for client in &mut clients[start..end] {
            client.poll(Duration::ZERO, |_, _| {})?;
        }
        std::thread::sleep(SLICE_INTERVAL);
    }
    Ok(())
}

/// Idle sessions on a node, and the growth of its memory.
#[derive(Debug)]
pub(super) struct IdleSessions {
    holders: Vec<std::process::Child>,
    /// The node's memory per connection with its session, in bytes.
    pub(super) bytes_each: f64,
}

impl IdleSessions {
    /// Defines `count` sessions on the node and logs them on.
    pub(super) fn start(
        node: &Child,
        certificates: Option<&Certificates>,
        first_id: u32,
        count: u32,
    ) -> anyhow::Result<IdleSessions> {
        node.pause(false)?;
        let mut admin = Admin::connect(node.target(), SessionId(1), node.key(), TIMEOUT)?;
        let plan = SetupPlan {
            first_id,
            session_count: count,
            instrument_count: 0,
            unanswered_count_max: 1,
        };
        let traders = hire_all(&mut admin, &plan)?;
        admin.close()?;
        let before = node.resident_bytes()?;
        let mut holders = Vec::new();
        for (index, traders) in traders.chunks(CONNECTIONS_MAX).enumerate() {
            let keys = traders.iter().map(|trader| {
                let session = &trader.session;
                let Key::Api(key) = &session.key else { panic!("traders are hired with API keys") };
                format!("{} {}\n", session.session_id, hex(&key.0))
            });
            holders.push(hold(node.address_at(index), certificates, &keys.collect::<String>())?);
        }
        let grown = node.resident_bytes()?.saturating_sub(before);
        node.pause(true)?;
        Ok(IdleSessions { holders, bytes_each: grown as f64 / f64::from(count.max(1)) })
    }
}

fn hold(
    node: SocketAddr,
    certificates: Option<&Certificates>,
    keys: &str,
) -> anyhow::Result<std::process::Child> {
    let mut command = programs::this()?;
    command.args(["idle", "--node", &node.to_string()]);
    if let Some(certificates) = certificates {
        command.arg("--tls-ca").arg(&certificates.ca);
    }
    let mut process = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start a holder of idle sessions")?;
    let stdin = process.stdin.as_mut().expect("it was asked for");
    let stdout = process.stdout.take().expect("it was asked for");
    let told = stdin.write_all(keys.as_bytes()).and_then(|()| stdin.write_all(b"\n"));
    let mut line = String::new();
    let ready = told.and_then(|()| stdin.flush()).is_ok()
        && BufReader::new(stdout).read_line(&mut line).is_ok()
        && line.starts_with("weir ready idle=");
    if !ready {
        let _ = process.kill();
        let _ = process.wait();
        anyhow::bail!("the idle sessions did not log on");
    }
    Ok(process)
}

impl Drop for IdleSessions {
    fn drop(&mut self) {
        for holder in &mut self.holders {
            // A process that has already ended has reported its own error; nothing is left to kill.
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}
