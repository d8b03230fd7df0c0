//! Test harness: a real node in its own directory, a small market on it, and the tests' clients.
//!
//! The node is the `weir` binary as a process. It listens on ports that the system chooses, so that
//! tests run side by side. No wait here has a deadline of its own: each ends with its condition,
//! and `HANG` only turns a hang into a failure, as a watchdog does where there is no such limit.

pub mod address;
pub mod copying;
pub mod following;
pub mod machine;
pub mod trader;
pub mod watchdog;
pub mod wire;

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit};
use serde_json::Value;
use tempfile::TempDir;
use weir_client::clock::unix_time;
use weir_client::load::setup::key_hash;
use weir_client::request::LimitOrder;
use weir_client::session::SessionConfig;
use weir_client::{Admin, ClientError, SigningKey};
use weir_runtime::civil::Date;
use weir_types::{
    AccountId, Cash, ClOrdId, CredentialKind, FirmId, GroupId, InstrumentId, Nanos, PartitionId,
    Phase, Price, Qty, Reason, RequestNo, Role, SessionId, Side, Switch, Symbol, TimeInForce,
};
use weir_wire::Request;
use weir_wire::reference::{DefineAccount, DefineFirm, DefineInstrument, DefineSession, Transfer};
use weir_wire::session::ApiKey;

use watchdog::Watchdog;

/// The limit of every wait, longer than anything takes on a machine that still runs.
pub const HANG: Duration = Duration::from_secs(60);
pub const TRADING: PartitionId = PartitionId(1);
pub const INSTRUMENT: InstrumentId = InstrumentId(1);

/// A participant of the market: a session, its firm and its account.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    pub session_id: SessionId,
    pub firm_id: FirmId,
    pub account_id: AccountId,
    pub role: Role,
}

pub const OPERATOR: Who = Who {
    session_id: SessionId(1),
    firm_id: FirmId::NONE,
    account_id: AccountId::NONE,
    role: Role::Operator,
};
pub const SUPERVISOR: Who = Who { session_id: SessionId(2), role: Role::Supervisor, ..OPERATOR };
pub const ALICE: Who = trader_of(11);
pub const BOB: Who = trader_of(12);

/// Returns a trader with its own firm and account, all with the number `id`.
pub const fn trader_of(id: u32) -> Who {
    Who {
        session_id: SessionId(id),
        firm_id: FirmId(id),
        account_id: AccountId(id),
        role: Role::Trader,
    }
}

impl Who {
    pub fn key(&self) -> ApiKey {
        ApiKey([u8::try_from(self.session_id.0).expect("test sessions have small numbers"); 32])
    }

    /// Returns the private key of the session, for tests that register its public half.
    pub fn signing_key(&self) -> SigningKey {
        SigningKey::from_seed([self.key().0[0] ^ 0x80; 32])
    }

    pub fn config(&self) -> SessionConfig {
        SessionConfig::new(self.session_id, self.key())
    }

    /// As [`Who::config`], with a heartbeat interval of one minute, for clients that pause to audit
    /// a long history.
    pub fn patient_config(&self) -> SessionConfig {
        SessionConfig { heartbeat_interval_ms: 60_000, ..self.config() }
    }

    /// Returns a day order named `number`.
    pub fn order(&self, number: u64, side: Side, price: i64, qty: u64) -> LimitOrder {
        LimitOrder {
            cl_ord_id: ClOrdId::from_number(number),
            instrument_id: INSTRUMENT,
            account_id: self.account_id,
            side,
            price: Price(price),
            order_qty: Qty(qty),
            time_in_force: TimeInForce::Day,
        }
    }

    pub fn buy(&self, number: u64, price: i64, qty: u64) -> Request {
        self.order(number, Side::Buy, price, qty).request()
    }

    pub fn sell(&self, number: u64, price: i64, qty: u64) -> Request {
        self.order(number, Side::Sell, price, qty).request()
    }
}

/// A node's directory and its start command; it outlives the node.
pub struct Home {
    dir: TempDir,
    data: PathBuf,
    durability: &'static str,
    /// The command line that precedes the node's own, if the node is not started directly.
    wrapper: Vec<OsString>,
    program: PathBuf,
    listen: SocketAddr,
    _watchdog: Watchdog,
}

impl Home {
    pub fn new(durability: &'static str) -> Home {
        Home::with_config(durability, "")
    }

    /// Returns a home with this text as the node's configuration file.
    pub fn with_config(durability: &'static str, config: &str) -> Home {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let program = env!("CARGO_BIN_EXE_weir").into();
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let _watchdog = Watchdog::start(dir.path().join("stderr"));
        let wrapper = Vec::new();
        let home = Home { dir, data, durability, wrapper, program, listen, _watchdog };
        std::fs::write(home.path("weir.toml"), config).unwrap();
        home
    }

    /// Moves the node's data to `data` and starts the node through `wrapper`.
    pub fn elsewhere(self, data: PathBuf, wrapper: Vec<OsString>) -> Home {
        Home { data, wrapper, ..self }
    }

    /// Replaces the node's binary for later starts.
    pub fn with_program(self, program: PathBuf) -> Home {
        Home { program, ..self }
    }

    /// Fixes the node's listening address for later starts.
    pub fn listening_on(self, listen: SocketAddr) -> Home {
        Home { listen, ..self }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the node's data directory.
    pub fn data(&self) -> PathBuf {
        self.data.clone()
    }

    fn serve(&self) -> Command {
        self.command(&["serve"])
    }

    /// Builds the command that runs `weir` with these arguments.
    fn command(&self, serve: &[&str]) -> Command {
        let key: String = OPERATOR.key().0.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut words = self.wrapper.iter().cloned().chain([self.program.clone().into()]);
        let mut command = Command::new(words.next().expect("at least the node's own"));
        command
            .args(words)
            .args(serve)
            .args(["--durability", self.durability])
            .args(["--listen", &self.listen.to_string(), "--http", "127.0.0.1:0"])
            .args(["--config".into(), self.path("weir.toml")])
            .args(["--dir".into(), self.data()])
            .env("WEIR_BOOTSTRAP_KEY", key)
            .stdin(Stdio::null());
        command
    }

    /// Starts a node and waits until it reports that it is ready.
    pub fn start(&self) -> Node {
        self.run(self.serve())
    }

    /// As [`Home::start`], with more options or environment variables.
    pub fn start_with(&self, add: impl FnOnce(&mut Command)) -> Node {
        let mut serve = self.serve();
        add(&mut serve);
        self.run(serve)
    }

    /// As [`Home::start`], for a market-data gateway with these options.
    pub fn start_gateway(&self, options: &[&str]) -> Node {
        let mut serve = self.command(&["market", "serve", "--market-listen", "127.0.0.1:0"]);
        serve.args(options);
        self.run(serve)
    }

    /// As [`Home::start`], without the bootstrap key of the first operator.
    pub fn start_without_key(&self) -> Node {
        let mut serve = self.serve();
        serve.env_remove("WEIR_BOOTSTRAP_KEY");
        self.run(serve)
    }

    /// Starts a node without waiting for it.
    pub fn spawn(&self) -> Starting {
        self.spawn_as(self.serve())
    }

    /// As [`Home::spawn`], with more options or environment variables.
    pub fn spawn_with(&self, add: impl FnOnce(&mut Command)) -> Starting {
        let mut serve = self.serve();
        add(&mut serve);
        self.spawn_as(serve)
    }

    fn spawn_as(&self, mut serve: Command) -> Starting {
        let errors = std::fs::File::create(self.path("stderr")).unwrap();
        let child = serve.stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        Starting { child }
    }

    fn run(&self, serve: Command) -> Node {
        match self.spawn_as(serve).wait() {
            Ok(node) => node,
            Err(said) => panic!("the node said {said:?} and {:?}", self.said()),
        }
    }

    /// Runs a node that must fail to start, and returns its output.
    pub fn fail_to_start(&self) -> Output {
        let output = self.serve().output().unwrap();
        assert!(!output.status.success(), "the node started: {output:?}");
        output
    }

    /// Returns the newest node's standard error so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.path("stderr")).unwrap()
    }

    /// Returns the newest node's standard error once it contains the ready line.
    pub fn said_at_start(&self) -> String {
        until("the line that the node is ready", || {
            let said = self.said();
            said.contains(" ready order_entry=").then_some(said)
        })
    }

    /// Returns the output of `weir log verify` for a partition's log.
    pub fn verify(&self, partition_id: PartitionId) -> Value {
        let output = self.try_verify(partition_id);
        assert!(output.status.success(), "weir log verify: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// As [`Home::verify`], without requiring success.
    pub fn try_verify(&self, partition_id: PartitionId) -> Output {
        Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["log", "verify", "--json", "--partition", &partition_id.to_string()])
            .args(["--dir".into(), self.data()])
            .output()
            .unwrap()
    }
}

/// A node that has not reported ready yet.
pub struct Starting {
    child: Child,
}

impl Starting {
    /// Returns the process id.
    pub fn pid(&self) -> Pid {
        pid_of(&self.child)
    }

    /// Waits until the node is ready. If it ends first, returns its first line of output.
    pub fn wait(mut self) -> Result<Node, String> {
        let mut said = String::new();
        let stdout = self.child.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut said).unwrap();
        let place = |name: &str| {
            let words = said.split_whitespace();
            words.filter_map(|word| word.strip_prefix(name)).find_map(|word| word.strip_prefix('='))
        };
        let (Some(address), Some(http)) = (place("order-entry"), place("http")) else {
            self.child.wait().unwrap();
            return Err(said);
        };
        let web = place("web").map(str::to_owned);
        let (address, http) = (address.parse().unwrap(), http.to_owned());
        Ok(Node { address, http, web, child: self.child })
    }
}

fn pid_of(child: &Child) -> Pid {
    let pid = i32::try_from(child.id()).unwrap();
    Pid::from_raw(pid).expect("a child has an id")
}

/// A running node.
pub struct Node {
    child: Child,
    address: SocketAddr,
    http: String,
    web: Option<String>,
}

impl Node {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the process id.
    pub fn pid(&self) -> Pid {
        pid_of(&self.child)
    }

    /// Returns the node's HTTP address.
    pub fn http(&self) -> &str {
        &self.http
    }

    /// Returns the address that serves order state over HTTP.
    pub fn web(&self) -> &str {
        self.web.as_deref().expect("the configuration has a [web]")
    }

    /// Sends a GET and returns the status code and the body.
    pub fn get(&self, path: &str) -> (u16, String) {
        try_get(&self.http, path).expect("the node serves HTTP")
    }

    pub fn status(&self) -> Value {
        weir_client::status::StatusPage::fetch(&self.http).unwrap().json
    }

    /// Waits until a partition's figures satisfy `is_there` and returns them: they lag the answers
    /// a little.
    pub fn partition_when(
        &self,
        partition_id: PartitionId,
        is_there: impl Fn(&Value) -> bool,
    ) -> Value {
        until("a partition's figures", || {
            let status = self.status();
            let mut all = status["partitions"].as_array().expect("a list").iter();
            let ours = all.find(|row| row["id"] == partition_id.0).expect("the partition is there");
            is_there(ours).then(|| ours.clone())
        })
    }

    /// Returns the operator's client.
    pub fn admin(&self) -> Admin {
        let Who { session_id, .. } = OPERATOR;
        until_free(|| Admin::connect(self.address, session_id, OPERATOR.key(), HANG)).unwrap()
    }

    /// Sends SIGTERM and waits for the node's end.
    pub fn terminate(self) -> ExitStatus {
        rustix::process::kill_process(self.pid(), rustix::process::Signal::TERM).unwrap();
        self.wait_for_end()
    }

    /// Waits until the node has ended, for any reason.
    pub fn wait_for_end(mut self) -> ExitStatus {
        until("the node's end", || self.child.try_wait().unwrap())
    }

    /// Sends SIGHUP: the node reloads its certificates.
    pub fn hang_up(&self) {
        self.signal(rustix::process::Signal::HUP);
    }

    /// Stops the node's process (SIGSTOP) or continues it (SIGCONT).
    pub fn pause(&self, paused: bool) {
        use rustix::process::Signal;
        self.signal(if paused { Signal::STOP } else { Signal::CONT });
    }

    /// Leaves the node no free descriptor while `work` runs; it keeps those that it has.
    pub fn without_descriptors<T>(&self, work: impl FnOnce() -> T) -> T {
        let set = |limit| rustix::process::prlimit(Some(self.pid()), Resource::Nofile, limit);
        let ours = rustix::process::getrlimit(Resource::Nofile);
        // Standard input, output and error have the numbers below, so none of them is free.
        let before = set(Rlimit { current: Some(3), maximum: ours.maximum }).unwrap();
        let done = work();
        set(before).unwrap();
        done
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).expect("a child has an id");
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Ends the node as `kill -9` does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Both calls fail if the node has already ended, which is the state wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a GET and returns the status code and the body, or `None` if no server answers.
pub fn try_get(address: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(HANG)).ok()?;
    let ask = format!("GET {path} HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head, then a body");
    let code = head.split(' ').nth(1).expect("HTTP/1.1 CODE").parse().unwrap();
    Some((code, body.to_owned()))
}

/// Calls `look` until it returns a value.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < HANG, "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the dates around today, as holidays of a calendar: so no day of it is open now.
pub fn days_around_today() -> String {
    let today = Date::at(unix_time(), "Z".parse().expect("it is an offset"));
    [today.minus(1), today, today.plus(1)].map(|day| format!("'{day}'")).join(", ")
}

/// Logs on with `log_on`, and again while the session still counts as logged on: the node may not
/// yet have read the end of a connection that was dropped a moment ago.
pub fn until_free<T>(mut log_on: impl FnMut() -> Result<T, ClientError>) -> Result<T, ClientError> {
    until("the session's place", || match log_on() {
        Err(ClientError::LogonRejected { reason: Reason::AlreadyLoggedOn, .. }) => None,
        logged_on_or_not => Some(logged_on_or_not),
    })
}

/// Defines the market: an instrument in each partition, numbered from [`INSTRUMENT`] on in the
/// order of the partitions, a supervisor and `traders`. On return every partition has imported all
/// definitions.
pub fn open_market(node: &Node, traders: &[Who]) {
    define_market(node.admin(), traders);
}

/// As [`open_market`], through this operator's client.
pub fn define_market(mut admin: Admin, traders: &[Who]) {
    let (request_no, session_id) = (RequestNo::NONE, SessionId::NONE);
    let partitions = admin.partitions().to_vec();
    for (id, partition_id) in (INSTRUMENT.0..).zip(&partitions) {
        let partition_id = *partition_id;
        let listed = DefineInstrument { partition_id, ..instrument(InstrumentId(id)) };
        admin.define_instrument(listed).unwrap();
    }
    for who in traders.iter().chain([&SUPERVISOR]) {
        if who.role == Role::Trader {
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
        admin.define_session(definition_of(who)).unwrap();
    }
    for who in traders {
        let (account_id, firm_id) = (who.account_id, who.firm_id);
        let unlimited = Switch::On;
        let account = DefineAccount {
            request_no,
            session_id,
            account_id,
            firm_id,
            unlimited,
            live_orders_max: 0,
            fields: 0,
        };
        admin.define_account(account).unwrap();
        // A partition that books to the account has imported every earlier definition.
        for partition_id in &partitions {
            let partition_id = *partition_id;
            admin.transfer(Transfer { partition_id, ..deposit(account_id) }).unwrap();
        }
    }
    admin.close().unwrap();
}

/// Returns the definition of a session with an API key, without expiry or limits.
pub fn definition_of(who: &Who) -> DefineSession {
    DefineSession {
        request_no: RequestNo::NONE,
        valid_until: Nanos(0),
        credential: key_hash(&who.key()),
        session_id: SessionId::NONE,
        defined_session_id: who.session_id,
        firm_id: who.firm_id,
        order_rate_max: 0,
        in_flight_max: 0,
        role: who.role,
        credential_kind: CredentialKind::ApiKey,
        live_orders_max: 0,
        fields: 0,
    }
}

fn deposit(account_id: AccountId) -> Transfer {
    Transfer {
        request_no: RequestNo::NONE,
        transfer_id: 1,
        cash: Cash(1),
        position_qty: 0,
        session_id: SessionId::NONE,
        account_id,
        instrument_id: InstrumentId::NONE,
        partition_id: TRADING,
        peer_partition_id: PartitionId::NONE,
    }
}

/// Returns an instrument in continuous trading.
pub fn instrument(instrument_id: InstrumentId) -> DefineInstrument {
    DefineInstrument {
        request_no: RequestNo::NONE,
        symbol: Symbol::new(&format!("WEIR{instrument_id}")).expect("a short name"),
        tick_size: Price(1),
        lot_size: Qty(1),
        order_qty_max: Qty(1_000_000),
        price_min: Price(1),
        price_max: Price(20_000),
        reference_price: Price(0),
        volatility_call: weir_types::Nanos(0),
        static_collar: 0,
        dynamic_collar: 0,
        session_id: SessionId::NONE,
        instrument_id,
        partition_id: TRADING,
        price_exponent: -2,
        qty_exponent: 0,
        phase: Phase::Continuous,
        fields: 0,
        group_id: GroupId::NONE,
    }
}
