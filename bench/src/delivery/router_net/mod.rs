//! `weir-bench router`: the cost of a router over TCP. A node holds the orders of eight sources; a
//! reader queries it for one of them, and routers over 1, 2, 4 and 8 of them, each a separate
//! process.
//!
//! - `live`: a core changes one order and waits until the reader has it: the time from passing the
//!   batch to the ingest connection to taking the rows from the reader's connection.
//! - `copy`: a first copy of all orders in pages of 1,000.
//!
//! The readers of the node and of a router alternate within each round; figures are medians of the
//! rounds, and the added time is the median of the rounds' differences.

mod core;
mod reader;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};
use weir_cli::endpoint::{TIMEOUT, hex};
use weir_client::Admin;
use weir_client::clock::{Clock, WaitStrategy};
use weir_client::load::setup::key_hash;
use weir_types::{
    CredentialKind, Durability, FirmId, Nanos, PartitionId, RequestNo, Role, SessionId,
};
use weir_wire::reference::DefineSession;
use weir_wire::session::ApiKey;

use self::core::Core;
use self::reader::Reader;
use crate::roundtrip::{Child, WorkDir, median_with_interval};

/// The numbers of the sources.
const FIRST_SOURCE: u16 = 21;
const SOURCES_MAX: u16 = 8;
/// The numbers of sources of the routers.
const COUNTS: [u16; 4] = [1, 2, 4, 8];
/// The reader's session.
const READER: SessionId = SessionId(2);
/// The first of the sessions with which routers query the node, one for each.
const ROUTERS: u32 = 90;

/// Options of `weir-bench router`.
#[derive(Debug, clap::Args)]
pub struct RouterArgs {
    /// Rounds for each number of sources.
    #[arg(long, default_value_t = 11)]
    rounds: u32,
    /// Changes in a round.
    #[arg(long, default_value_t = 400)]
    changes: u32,
    /// Orders of each source.
    #[arg(long, default_value_t = 10_000)]
    orders: u32,
}

/// Returns the key of a session: the benchmark's nodes hold no secrets.
fn key_of(id: SessionId) -> ApiKey {
    let mut key = [0x5b; 32];
    key[..4].copy_from_slice(&id.0.to_le_bytes());
    ApiKey(key)
}

/// Runs the benchmark and prints its JSON object as the last line.
///
/// # Errors
/// A process that does not start, or a connection that ends.
pub fn run(args: RouterArgs) -> anyhow::Result<()> {
    anyhow::ensure!(args.rounds > 0 && args.changes > 0, "nothing to measure");
    let work_dir = WorkDir::create(None)?;
    let mut rig = Rig::new(&work_dir, args.orders)?;
    let mut lines = Vec::new();
    for (index, count) in (0u32..).zip(COUNTS) {
        let router = rig.router(&work_dir, index, count)?;
        let line = compare(&mut rig, router.address(), count, &args)?;
        eprintln!("{line}");
        lines.push(line);
    }
    let result = json!({
        "bench": "delivery-router-net",
        "rounds": args.rounds,
        "changes": args.changes,
        "orders_per_source": args.orders,
        "durability": "memory",
        "wait": "park",
        "look_interval_us": 50,
        "sources": lines,
    });
    println!("{result}");
    Ok(())
}

/// A service to query: the node for its first source, or a router for all of its sources.
#[derive(Clone, Copy)]
struct Service {
    address: SocketAddr,
    source_id: PartitionId,
    /// The number of sources that change.
    source_count: u16,
}

/// A round's figures.
struct Figures {
    p50_ns: f64,
    p99_ns: f64,
    rows_per_s: f64,
}

/// Measures one number of sources: rounds of the node's reader and the router's, alternating.
fn compare(
    rig: &mut Rig,
    router: SocketAddr,
    count: u16,
    args: &RouterArgs,
) -> anyhow::Result<Value> {
    let all = Service { address: router, source_id: PartitionId::NONE, source_count: count };
    let (address, source_id) = (rig.node.address(), PartitionId(FIRST_SOURCE));
    let one = Service { address, source_id, source_count: 1 };
    let mut rounds: Vec<(Figures, Figures)> = Vec::new();
    for round in 0..args.rounds {
        rounds.push(if round % 2 == 0 {
            let direct = rig.measure(one, args)?;
            (direct, rig.measure(all, args)?)
        } else {
            let routed = rig.measure(all, args)?;
            (rig.measure(one, args)?, routed)
        });
    }
    let of = |figure: &dyn Fn(&(Figures, Figures)) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(figure).collect();
        median_with_interval(&mut values).json()
    };
    Ok(json!({
        "sources": count,
        "live_p50_ns_direct": of(&|(direct, _)| direct.p50_ns),
        "live_p50_ns_routed": of(&|(_, routed)| routed.p50_ns),
        "live_p50_ns_added": of(&|(direct, routed)| routed.p50_ns - direct.p50_ns),
        "live_p99_ns_direct": of(&|(direct, _)| direct.p99_ns),
        "live_p99_ns_routed": of(&|(_, routed)| routed.p99_ns),
        "copy_rows_per_s_direct": of(&|(direct, _)| direct.rows_per_s),
        "copy_rows_per_s_routed": of(&|(_, routed)| routed.rows_per_s),
    }))
}

/// The node, and the cores that feed it.
struct Rig {
    node: Child,
    cores: Vec<Core>,
    clock: Clock,
}

impl Rig {
    fn new(work_dir: &WorkDir, orders: u32) -> anyhow::Result<Rig> {
        weir_io::durable::write_file(&work_dir.path().join("token.key"), &[7; 32], 0o600)?;
        // Ports are assigned in rotation, so this one stays free until the node binds it.
        let ingest = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut text = delivery_section(work_dir.path())
            + "look_interval_us = 50\n"
            + &format!("[ingest]\nlisten = \"{ingest}\"\n");
        for source in FIRST_SOURCE..FIRST_SOURCE + SOURCES_MAX {
            let session = core::session_of(source);
            text += &format!("[[ingest.source]]\nid = {source}\nsession = {session}\n");
        }
        let node = start("node", &text, work_dir)?;
        let mut sessions: Vec<_> = (FIRST_SOURCE..FIRST_SOURCE + SOURCES_MAX)
            .map(|source| (core::session_of(source), Role::Source))
            .collect();
        sessions.push((READER, Role::Supervisor));
        sessions.extend((0..4).map(|index| (SessionId(ROUTERS + index), Role::Supervisor)));
        define(&node, &sessions)?;
        let mut cores = Vec::new();
        for source in FIRST_SOURCE..FIRST_SOURCE + SOURCES_MAX {
            let mut core = Core::new(ingest, source)?;
            core.enter(orders)?;
            cores.push(core);
        }
        Ok(Rig { node, cores, clock: Clock::default() })
    }

    /// Starts a router over the first `count` sources.
    fn router(&self, work_dir: &WorkDir, index: u32, count: u16) -> anyhow::Result<Child> {
        let session = SessionId(ROUTERS + index);
        let key = work_dir.path().join(format!("router-{index}.key"));
        weir_io::durable::write_file(&key, hex(&key_of(session).0).as_bytes(), 0o600)?;
        let sources: Vec<u16> = (FIRST_SOURCE..FIRST_SOURCE + count).collect();
        let text = format!(
            "role = \"router\"\n{}[[router.backend]]\naddress = \"{}\"\n\
             sources = {sources:?}\nsession = {session}\nkey_file = {key:?}\n",
            delivery_section(work_dir.path()),
            self.node.address(),
        );
        let router = start(&format!("router-{count}"), &text, work_dir)?;
        define(&router, &[(READER, Role::Supervisor)])?;
        Ok(router)
    }

    /// Runs one round: a first copy, then changes one at a time.
    fn measure(&mut self, service: Service, args: &RouterArgs) -> anyhow::Result<Figures> {
        let mut reader = Reader::log_on(service.address, service.source_id)?;
        let wanted = u64::from(service.source_count) * u64::from(args.orders);
        let begun = self.clock.now();
        reader.take_rows(wanted)?;
        let rows_per_s = wanted as f64 * 1e9 / self.clock.now().since(begun).0 as f64;
        reader.until_online()?;
        let mut times: Vec<Nanos> = Vec::new();
        for change in 0..args.changes {
            let index = change as usize % usize::from(service.source_count);
            let core = &mut self.cores[index];
            let begun = self.clock.now();
            core.change()?;
            reader.take_rows(1)?;
            times.push(self.clock.now().since(begun));
        }
        reader.log_out()?;
        times.sort_unstable();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].0 as f64;
        Ok(Figures { p50_ns: at(0.5), p99_ns: at(0.99), rows_per_s })
    }
}

fn delivery_section(dir: &Path) -> String {
    format!("[delivery]\ntoken_key = {:?}\n", dir.join("token.key"))
}

/// Starts a process with this configuration.
fn start(name: &str, text: &str, work_dir: &WorkDir) -> anyhow::Result<Child> {
    let path = work_dir.path().join(format!("{name}.toml"));
    std::fs::write(&path, text)?;
    let path = path.to_str().context("the directory's name is not UTF-8")?;
    let (level, wait) = (Durability::Memory, WaitStrategy::Park);
    Child::node_with(name, level, wait, &["--config", path, "--no-probes"], work_dir)
}

fn define(at: &Child, sessions: &[(SessionId, Role)]) -> anyhow::Result<()> {
    let mut admin = Admin::connect(at.target(), SessionId(1), at.key(), TIMEOUT)?;
    for (session, role) in sessions {
        admin.define_session(DefineSession {
            request_no: RequestNo::NONE,
            valid_until: Nanos(0),
            credential: key_hash(&key_of(*session)),
            session_id: SessionId::NONE,
            defined_session_id: *session,
            firm_id: FirmId::NONE,
            order_rate_max: 0,
            in_flight_max: 0,
            role: *role,
            credential_kind: CredentialKind::ApiKey,
            live_orders_max: 0,
            fields: 0,
        })?;
    }
    admin.close()?;
    Ok(())
}
