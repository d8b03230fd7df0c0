//! `weir-bench delivery-net`: order changes per second of the server's processor time, in batches
//! of 50 over the network, compared with Tarantool and Redis.
//!
//! Each side has a server process and a client that sends as fast as it is answered, with the same
//! number of batches in flight; the sides alternate. The comparison is by the server's processor
//! time: the clients are written in different languages, and on few cores the slowest would decide.
//!
//! The node keeps the latest state of 200,000 orders in a ring with three secondary ones, checks
//! each row and acknowledges each batch; Tarantool does the same in a stored procedure, with five
//! trees and one transaction per batch. Redis appends to a stream that it trims, without an index.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child as Process, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::rig::Rig;
use crate::roundtrip::{WorkDir, median_with_interval, process_time};

const ORDERS: u32 = 200_000;
const BATCH: usize = 50;
/// The batches in flight of a peer's client. Weir's core may have 256, which the node grants.
const WINDOW: usize = 16;
/// The bytes of an order besides the fields that a peer reads, so that all orders have 600.
const PAD: usize = 550;
/// The time after a client's start before measuring.
const SETTLE: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(60);

/// Options of `weir-bench delivery-net`.
#[derive(Clone, Debug, clap::Args)]
pub struct NetArgs {
    /// Rounds; each side has one turn in each.
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// Seconds of each turn.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Tarantool's script, both server and client.
    #[arg(long, value_name = "SCRIPT")]
    tarantool: Option<PathBuf>,
    /// The Redis server.
    #[arg(long, value_name = "PROGRAM")]
    redis: Option<PathBuf>,
}

/// The figures of a turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    orders: f64,
    /// The processor time of all the server's threads, in seconds.
    cpu: f64,
    wall: f64,
}

impl Turn {
    fn per_cpu_second(self) -> f64 {
        self.orders / self.cpu
    }
}

/// A server with its client.
trait Side {
    fn name(&self) -> &'static str;
    fn turn(&mut self, span: Duration) -> anyhow::Result<Turn>;
}

/// Runs the benchmark and prints its JSON object as the last line.
///
/// # Errors
/// A process that does not start or ends early.
pub fn run(args: NetArgs) -> anyhow::Result<()> {
    let in_range = args.seconds >= 1.0 && args.seconds <= 60.0 && args.rounds > 0;
    ensure!(in_range, "--seconds from 1 to 60, --rounds at least 1");
    let work = WorkDir::create(None)?;
    let mut sides: Vec<Box<dyn Side>> = vec![Box::new(Weir { rig: Rig::start(1, 100)? })];
    if let Some(script) = &args.tarantool {
        sides.push(Box::new(Tarantool::start(script, &work)?));
    }
    if let Some(program) = &args.redis {
        sides.push(Box::new(Redis::start(program, &work)?));
    }
    let span = Duration::from_secs_f64(args.seconds);
    let mut turns: Vec<Vec<Turn>> = vec![Vec::new(); sides.len()];
    for round in 0..args.rounds as usize {
        for offset in 0..sides.len() {
            let which = (round + offset) % sides.len();
            let turn = sides[which].turn(span)?;
            eprintln!(
                "{:<10} {:>9.0} orders/s, {:>10.0} by the server's processor second",
                sides[which].name(),
                turn.orders / turn.wall,
                turn.per_cpu_second()
            );
            turns[which].push(turn);
        }
    }
    let mut result = json!({
        "bench": "delivery-net",
        "orders": ORDERS,
        "row_bytes": 600,
        "batch_rows": BATCH,
        "rounds": args.rounds,
        "turn_seconds": args.seconds,
        "goal": { "tarantool": 5.0, "redis": 1.0 },
        "durability": "none: memory on all sides",
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
    });
    for (side, turns_of) in sides.iter().zip(&turns) {
        let mut cpu: Vec<f64> = turns_of.iter().map(|turn| turn.per_cpu_second()).collect();
        let mut wall: Vec<f64> = turns_of.iter().map(|turn| turn.orders / turn.wall).collect();
        let mut ratio: Vec<f64> = turns[0]
            .iter()
            .zip(turns_of)
            .map(|(ours, theirs)| ours.per_cpu_second() / theirs.per_cpu_second())
            .collect();
        let ratio = median_with_interval(&mut ratio);
        if side.name() != "weir" {
            eprintln!("weir to {:<10} {ratio}", side.name());
        }
        result[side.name()] = json!({
            "orders_per_cpu_s": median_with_interval(&mut cpu).json(),
            "orders_per_s": median_with_interval(&mut wall).json(),
            "weir_to_it": ratio.json(),
        });
    }
    for (name, missing) in
        [("tarantool", args.tarantool.is_none()), ("redis", args.redis.is_none())]
    {
        if missing {
            result[name] = Value::from("left out: not installed");
        }
    }
    println!("{result}");
    Ok(())
}

struct Weir {
    rig: Rig,
}

impl Side for Weir {
    fn name(&self) -> &'static str {
        "weir"
    }

    fn turn(&mut self, span: Duration) -> anyhow::Result<Turn> {
        let whole = span + 2 * SETTLE + Duration::from_secs(1);
        let mut core = self.rig.core(&[
            // More than any node takes: the window is the limit.
            "--rate",
            "20000000",
            "--profile",
            "0/1/0",
            "--orders",
            &ORDERS.to_string(),
            "--batch-max",
            &BATCH.to_string(),
            "--warm-up",
            "0",
            "--duration",
            &whole.as_secs_f64().to_string(),
        ])?;
        core.begin()?;
        std::thread::sleep(SETTLE);
        let time = || -> anyhow::Result<f64> {
            let times = self.rig.node.thread_times()?;
            Ok(times.values().sum::<Duration>().as_secs_f64())
        };
        let (rows, cpu, begun) = (self.rig.rows()?, time()?, Instant::now());
        std::thread::sleep(span);
        let (orders, cpu) = ((self.rig.rows()? - rows) as f64, time()? - cpu);
        Ok(Turn { orders, cpu, wall: begun.elapsed().as_secs_f64() })
    }
}

/// A peer's process, killed when its handle is dropped.
struct Peer(Process);

impl Drop for Peer {
    fn drop(&mut self) {
        // A process that has already ended has reported its own error; nothing is left to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(command: &mut Command) -> anyhow::Result<Peer> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let program = command.get_program().to_string_lossy().into_owned();
    command.spawn().map(Peer).with_context(|| format!("cannot start {program}"))
}

fn line_of(reader: &mut impl BufRead) -> anyhow::Result<String> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    ensure!(!line.is_empty(), "a peer ended without a word");
    Ok(line.trim().to_owned())
}

struct Tarantool {
    server: Peer,
    client: Peer,
    answers: BufReader<std::process::ChildStdout>,
}

impl Tarantool {
    fn start(script: &PathBuf, work: &WorkDir) -> anyhow::Result<Tarantool> {
        let dir = work.path().join("tarantool");
        std::fs::create_dir_all(&dir)?;
        let tarantool = |words: &[&str]| {
            let mut command = Command::new("tarantool");
            command.arg(script).args(words);
            start(&mut command)
        };
        let dir = dir.to_str().context("the directory's name is not UTF-8")?;
        let (orders, pad) = (ORDERS.to_string(), PAD.to_string());
        let mut server = tarantool(&["server", dir, "3221225472", &orders, &pad])?;
        let address = line_of(&mut BufReader::new(server.0.stdout.take().context("its output")?))?;
        let port = address.rsplit(':').next().context("an address has a port")?;
        let mut client = tarantool(&["client", port, &orders, &pad, &WINDOW.to_string()])?;
        let answers = BufReader::new(client.0.stdout.take().context("its output")?);
        Ok(Tarantool { server, client, answers })
    }
}

impl Side for Tarantool {
    fn name(&self) -> &'static str {
        "tarantool"
    }

    fn turn(&mut self, span: Duration) -> anyhow::Result<Turn> {
        let (cpu, begun) = (process_time(self.server.0.id())?, Instant::now());
        let stdin = self.client.0.stdin.as_mut().context("its input")?;
        writeln!(stdin, "{}", span.as_secs_f64())?;
        let orders = line_of(&mut self.answers)?.parse::<f64>()?;
        let cpu = process_time(self.server.0.id())?.saturating_sub(cpu).as_secs_f64();
        Ok(Turn { orders, cpu, wall: begun.elapsed().as_secs_f64() })
    }
}

struct Redis {
    server: Peer,
    stream: TcpStream,
    /// One batch of commands, the same in each round.
    batch: Vec<u8>,
}

impl Redis {
    fn start(program: &PathBuf, work: &WorkDir) -> anyhow::Result<Redis> {
        // A port that was free a moment ago: the server does not accept port 0.
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new(program);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--appendonly", "no", "--dir"]).arg(work.path());
        let server = start(&mut command)?;
        let begun = Instant::now();
        let stream = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => break stream,
                Err(error) => {
                    ensure!(begun.elapsed() < TIMEOUT, "Redis does not listen: {error}");
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        };
        stream.set_nodelay(true)?;
        let mut batch = Vec::new();
        let order = "x".repeat(600);
        let limit = ORDERS.to_string();
        for _ in 0..BATCH {
            command_of(&["XADD", "orders", "MAXLEN", "~", &limit, "*", "o", &order], &mut batch);
        }
        Ok(Redis { server, stream, batch })
    }

    /// Reads the answers to one batch; each is a stream's identifier.
    fn answers(&mut self, left: &mut Vec<u8>) -> anyhow::Result<()> {
        let mut found = 0;
        let mut buffer = [0; 64 << 10];
        loop {
            // `$len\r\nid\r\n`: two line ends per answer.
            let mut at = 0;
            while found < BATCH {
                let rest = &left[at..];
                let mut ends = rest.windows(2).enumerate().filter(|(_, two)| *two == b"\r\n");
                let Some((end, _)) = ends.nth(1) else { break };
                ensure!(rest[0] == b'$', "Redis: {}", String::from_utf8_lossy(&rest[..end]));
                at += end + 2;
                found += 1;
            }
            left.drain(..at);
            if found == BATCH {
                return Ok(());
            }
            let len = self.stream.read(&mut buffer)?;
            ensure!(len > 0, "Redis closed the connection");
            left.extend_from_slice(&buffer[..len]);
        }
    }
}

/// Appends a command in Redis' protocol: an array of strings.
fn command_of(words: &[&str], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

impl Side for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn turn(&mut self, span: Duration) -> anyhow::Result<Turn> {
        let (cpu, begun) = (process_time(self.server.0.id())?, Instant::now());
        let mut left = Vec::new();
        let (mut sent, mut answered) = (0, 0);
        loop {
            let is_over = begun.elapsed() >= span;
            if is_over && sent == answered {
                break;
            }
            while !is_over && sent - answered < WINDOW {
                self.stream.write_all(&self.batch)?;
                sent += 1;
            }
            self.answers(&mut left)?;
            answered += 1;
        }
        let cpu = process_time(self.server.0.id())?.saturating_sub(cpu).as_secs_f64();
        let orders = (answered * BATCH) as f64;
        Ok(Turn { orders, cpu, wall: begun.elapsed().as_secs_f64() })
    }
}
