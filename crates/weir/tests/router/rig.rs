//! Nodes with sources, the cores that feed them, and routers in front of them: all but the cores
//! are processes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use weir_client::follower::{Follower, FollowerConfig};
use weir_client::load::Rng;
use weir_types::{OrderId, PartitionId, RequestNo, Role, SessionId, Symbol};
use weir_wire::delivery::OrderRow;
use weir_wire::reference::DefineFirm;

use crate::support::address::free_address;
use crate::support::following::Following;
use crate::support::{
    ALICE, BOB, HANG, Home, Node, OPERATOR, SUPERVISOR, Who, definition_of, open_market, until,
};
use crate::test_core::{TestCore, core_of};

/// The session that routers use at nodes.
pub const ROUTER: Who = Who { session_id: SessionId(90), role: Role::Supervisor, ..OPERATOR };
/// The second router's session: a session can be logged on only once.
pub const ROUTER_2: Who = Who { session_id: SessionId(91), ..ROUTER };

/// A node with fixed addresses, which may be dead.
pub struct Backend {
    pub home: Home,
    pub node: Option<Node>,
    pub address: SocketAddr,
    pub ingest: SocketAddr,
    pub sources: Vec<u16>,
}

impl Backend {
    pub fn start(&mut self) {
        self.node = Some(self.home.start());
    }

    pub fn node(&self) -> &Node {
        self.node.as_ref().expect("it runs")
    }

    pub fn kill(&mut self) {
        self.node.take().expect("it runs").kill();
    }
}

pub struct Rig {
    dir: TempDir,
    pub backends: Vec<Backend>,
    pub cores: Vec<TestCore>,
    pub rng: Rng,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Rig {
    /// Starts nodes with these sources, each source fed by a core.
    pub fn new(nodes: &[&[u16]]) -> Rig {
        let dir = tempfile::tempdir().unwrap();
        weir_io::durable::write_file(&dir.path().join("token.key"), &[7; 32], 0o600).unwrap();
        for who in [ROUTER, ROUTER_2, ALICE] {
            let path = dir.path().join(format!("session-{}.key", who.session_id));
            weir_io::durable::write_file(&path, hex(&who.key().0).as_bytes(), 0o600).unwrap();
        }
        let (backends, cores) = (Vec::new(), Vec::new());
        let mut rig = Rig { dir, backends, cores, rng: Rng::new(1) };
        nodes.iter().for_each(|sources| rig.add_backend(sources));
        for (index, sources) in nodes.iter().enumerate() {
            for source in *sources {
                rig.cores.push(TestCore::new(rig.backends[index].ingest, *source));
            }
        }
        rig
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn token_key(&self) -> String {
        format!("[delivery]\ntoken_key = {:?}\n", self.path("token.key"))
    }

    /// Adds a node.
    pub fn add_backend(&mut self, sources: &[u16]) {
        self.add_backend_with(sources, "");
    }

    /// Adds a node with these delivery settings.
    pub fn add_backend_with(&mut self, sources: &[u16], delivery: &str) {
        let (address, ingest) = (free_address(), free_address());
        let mut config =
            self.token_key() + delivery + &format!("[ingest]\nlisten = \"{ingest}\"\n");
        for source in sources {
            let session = core_of(*source).session_id;
            config += &format!("[[ingest.source]]\nid = {source}\nsession = {session}\n");
        }
        let home = Home::with_config("os", &config).listening_on(address);
        let sources = sources.to_vec();
        let mut backend = Backend { home, node: None, address, ingest, sources };
        backend.start();
        define(backend.node(), &backend.sources);
        self.backends.push(backend);
    }

    /// Adds a node that trades as the exchange of this number, with a market.
    pub fn add_exchange(&mut self, id: u16) {
        let (address, ingest) = (free_address(), free_address());
        let config = format!(
            "[[partition]]\nid = {id}\n{}[ingest]\nlisten = \"{ingest}\"\n",
            self.token_key()
        );
        let home = Home::with_config("os", &config).listening_on(address);
        let node = None;
        let mut backend = Backend { home, node, address, ingest, sources: vec![id] };
        backend.start();
        open_market(backend.node(), &[ALICE, BOB]);
        let mut admin = backend.node().admin();
        for who in [ROUTER, ROUTER_2] {
            admin.define_session(definition_of(&who)).unwrap();
        }
        admin.close().unwrap();
        self.backends.push(backend);
    }

    /// Returns the configuration of a router that logs on as `who` and uses these nodes for these
    /// sources.
    pub fn router_config(&self, who: Who, behind: &[(usize, &[u16])]) -> String {
        let mut config = "role = \"router\"\n".to_owned() + &self.token_key();
        config += "[web]\nlisten = \"127.0.0.1:0\"\n[router]\nheartbeat_ms = 200\nprobe_ms = 50\n";
        let key = self.path(&format!("session-{}.key", who.session_id));
        for (index, sources) in behind {
            let address = self.backends[*index].address;
            let session = who.session_id;
            config += &format!(
                "[[router.backend]]\naddress = \"{address}\"\nsources = {sources:?}\n\
                 session = {session}\nkey_file = {key:?}\n"
            );
        }
        config
    }

    /// As [`Rig::config_of_all`], with the last node as a replica.
    pub fn config_with_replica(&self, who: Who) -> String {
        self.config_of_all(who) + "role = \"replica\"\n"
    }

    /// As [`Rig::router_config`], for all nodes and their sources.
    pub fn config_of_all(&self, who: Who) -> String {
        let all: Vec<(usize, &[u16])> =
            self.backends.iter().enumerate().map(|(i, b)| (i, &b.sources[..])).collect();
        self.router_config(who, &all)
    }

    /// Lets the cores trade and waits until the nodes have everything.
    pub fn trade(&mut self, count: usize) {
        for core in &mut self.cores {
            (0..count).for_each(|_| core.trade(&mut self.rng));
        }
        self.until_fed();
    }

    pub fn until_fed(&mut self) {
        let begun = Instant::now();
        while !self.cores.iter().all(TestCore::is_fed) {
            assert!(begun.elapsed() < HANG, "the nodes do not take all");
            for core in &mut self.cores {
                core.pump(Duration::from_millis(2));
            }
        }
    }

    /// Returns the cores' latest rows, of those that `who` may see.
    pub fn wanted(&self, who: Who) -> BTreeMap<OrderId, OrderRow> {
        let rows = self.cores.iter().flat_map(|core| core.rows.values());
        let is_seen = |row: &&OrderRow| who.role != Role::Trader || row.firm_id == who.firm_id;
        rows.filter(is_seen).map(|row| (row.order_id, *row)).collect()
    }

    /// Polls a reader until its orders equal the cores'.
    pub fn until_same(&self, reader: &mut Following) {
        let (wanted, begun) = (self.wanted(reader.who), Instant::now());
        while mirror(reader) != wanted {
            if begun.elapsed() > HANG {
                let (has, sources) = (mirror(reader), reader.follower.sources());
                let missing = wanted.iter().find(|(id, row)| has.get(id) != Some(row));
                panic!(
                    "{} of {}, {missing:?}, {sources:?}, {:?}",
                    has.len(),
                    wanted.len(),
                    reader.resyncs
                );
            }
            reader.poll(Duration::from_millis(5)).unwrap();
        }
    }
}

/// Returns a reader's orders.
pub fn mirror(reader: &Following) -> BTreeMap<OrderId, OrderRow> {
    let orders = reader.follower.orders().iter();
    orders.map(|(id, row)| (*id, OrderRow { merged_count: 0, ..*row })).collect()
}

/// Defines the sessions at a node or a router: readers, routers, and the cores of these sources.
pub fn define(node: &Node, sources: &[u16]) {
    let mut admin = node.admin();
    let (request_no, session_id) = (RequestNo::NONE, SessionId::NONE);
    for who in [ALICE, BOB] {
        let name = Symbol::new(&format!("FIRM{}", who.firm_id)).expect("a short name");
        let firm = DefineFirm {
            request_no,
            name,
            session_id,
            firm_id: who.firm_id,
            live_orders_max: 0,
            fields: 0,
        };
        admin.define_firm(firm).unwrap();
    }
    let cores: Vec<Who> = sources.iter().map(|source| core_of(*source)).collect();
    for who in [ALICE, BOB, SUPERVISOR, ROUTER, ROUTER_2].iter().chain(&cores) {
        admin.define_session(definition_of(who)).unwrap();
    }
    admin.close().unwrap();
}

/// A running router, with the sessions of its readers.
pub struct Router {
    pub home: Home,
    pub node: Node,
}

impl Router {
    pub fn start(config: &str) -> Router {
        let home = Home::with_config("os", config);
        let node = home.start();
        define(&node, &[]);
        Router { home, node }
    }

    /// Waits until the router can query this number of stores.
    pub fn until_serving(&self, count: u64) {
        until("the stores", || (self.serving() == count).then_some(()));
    }

    pub fn serving(&self) -> u64 {
        let status = self.node.status();
        let sources = status["router"]["sources"].as_array().expect("it is a router").clone();
        sources.iter().map(|source| source["serving"].as_u64().expect("a number")).sum()
    }

    /// Follows everything that `who` may see, in small pages.
    pub fn follow(&self, who: Who, token: Vec<u8>) -> Following {
        Following::start_as(&self.node, who, Follower::new(config_of(who), token))
    }

    /// As [`Router::follow`], from the beginning and without sending a query.
    pub fn follow_unasked(&self, who: Who) -> Following {
        let follower = Follower::new(config_of(who), Vec::new());
        Following::start_unasked(&self.node, who, follower)
    }
}

pub fn config_of(who: Who) -> FollowerConfig {
    FollowerConfig { keep_orders: true, rows_max: 20, ..FollowerConfig::new(who.session_id) }
}

/// Returns a follower's configuration for one source.
pub fn of_source(config: FollowerConfig, source: u16) -> FollowerConfig {
    FollowerConfig { source_id: PartitionId(source), ..config }
}
