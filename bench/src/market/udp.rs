//! `weir-bench market-udp`: multicast datagrams over the loopback interface, received one at a time
//! and batched: throughput, losses and cost.
//!
//! Each round runs both receivers, at a fixed rate (open loop) and at the full speed of one sender.
//! Sender and receiver share the machine: at full speed, losses occur because the sender is faster.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use weir_marketgate::Datagrams;
use weir_marketgate::udp::{BatchReceiver, Listen, PlainReceiver, sender};

/// Options of `weir-bench market-udp`.
#[derive(Debug, clap::Args)]
pub struct MarketUdpArgs {
    /// Rounds, each with every cell.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Duration of each cell, in milliseconds.
    #[arg(long, default_value_t = 2_000)]
    cell_ms: u64,
    /// Datagrams per second at the fixed rate.
    #[arg(long, default_value_t = 100_000)]
    rate: u64,
    /// Size of a datagram in bytes.
    #[arg(long, default_value_t = 256)]
    payload: usize,
    /// Multicast group.
    #[arg(long, default_value = "239.77.19.6")]
    group: Ipv4Addr,
}

/// One cell of one round.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    sent: u64,
    received: u64,
    calls: u64,
    seconds: f64,
    /// Processor time of the receiving thread, in nanoseconds.
    cpu_ns: u64,
    kernel_drops: Option<u64>,
}

/// Runs the benchmark.
///
/// # Errors
/// An I/O error of the operating system.
pub fn run(args: &MarketUdpArgs) -> anyhow::Result<()> {
    anyhow::ensure!(args.rounds > 0 && args.rate > 0, "--rounds and --rate are at least 1");
    anyhow::ensure!((1..=8_000).contains(&args.payload), "--payload is 1 to 8000");
    let names = ["recv_paced", "recvmmsg_paced", "recv_flood", "recvmmsg_flood"];
    let mut cells: [Vec<Cell>; 4] = Default::default();
    for round in 0..args.rounds {
        for (index, runs) in cells.iter_mut().enumerate() {
            let rate = (index < 2).then_some(args.rate);
            let cell = measure(args, index % 2 == 1, rate)?;
            eprintln!("round {round}: {}: {cell:?}", names[index]);
            runs.push(cell);
        }
    }
    let mut object = json!({
        "bench": "market-udp", "rounds": args.rounds, "cell_ms": args.cell_ms,
        "payload": args.payload, "rate": args.rate, "wait": "recv blocks, recvmmsg blocks for one",
    });
    for (name, runs) in names.iter().zip(&cells) {
        object[*name] = summary(runs);
    }
    println!("{object}");
    Ok(())
}

/// Measures the receiving thread's processor time per datagram of `payload` bytes, in nanoseconds,
/// batched and at the full speed of one sender.
///
/// # Errors
/// An I/O error of the operating system.
pub fn receive_cost(payload: usize, milliseconds: u64) -> anyhow::Result<f64> {
    let args = MarketUdpArgs {
        rounds: 1,
        cell_ms: milliseconds,
        rate: 1,
        payload,
        group: Ipv4Addr::new(239, 77, 19, 6),
    };
    let cell = measure(&args, true, None)?;
    Ok(cell.cpu_ns as f64 / cell.received.max(1) as f64)
}

/// The median of each figure over the rounds.
fn summary(runs: &[Cell]) -> Value {
    let median = |figure: &dyn Fn(&Cell) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let lost = |cell: &Cell| 100.0 - cell.received as f64 * 100.0 / cell.sent.max(1) as f64;
    let received = |cell: &Cell| cell.received.max(1) as f64;
    json!({
        "received_per_second": median(&|cell| cell.received as f64 / cell.seconds),
        "sent_per_second": median(&|cell| cell.sent as f64 / cell.seconds),
        "lost_percent": median(&lost),
        "cpu_ns_per_datagram": median(&|cell| cell.cpu_ns as f64 / received(cell)),
        "datagrams_per_call": median(&|cell| received(cell) / cell.calls.max(1) as f64),
        "kernel_drops": runs.iter().map(|cell| cell.kernel_drops).collect::<Option<Vec<u64>>>(),
    })
}

fn measure(args: &MarketUdpArgs, is_batch: bool, rate: Option<u64>) -> anyhow::Result<Cell> {
    let listen = Listen {
        address: SocketAddrV4::new(args.group, 0),
        interface: Ipv4Addr::LOCALHOST,
        receive_buffer: 4 << 20,
        wait: Some(Duration::from_millis(100)),
    };
    // Each receiver is opened and used in one thread only.
    let is_sent = AtomicBool::new(false);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let is_sent = &is_sent;
        let receiving = scope.spawn(move || -> anyhow::Result<Cell> {
            if is_batch {
                let source = BatchReceiver::open(&listen)?;
                tell.send(source.address())?;
                receive(source, is_sent)
            } else {
                let source = PlainReceiver::open(&listen)?;
                tell.send(source.address())?;
                receive(source, is_sent)
            }
        });
        let sent = told.recv().context("the receiver did not begin").and_then(|to| {
            let socket = sender(Ipv4Addr::LOCALHOST, 0)?;
            socket.connect(to)?;
            Ok(send(&socket, args, rate))
        });
        // Relaxed: the flag publishes nothing but itself.
        is_sent.store(true, Ordering::Relaxed);
        let cell = receiving.join().map_err(|_| anyhow::anyhow!("the receiver ended"))??;
        let (sent, seconds) = sent?;
        Ok(Cell { sent, seconds, ..cell })
    })
}

/// Sends for the duration of a cell; returns the number of datagrams and the seconds elapsed.
fn send(socket: &std::net::UdpSocket, args: &MarketUdpArgs, rate: Option<u64>) -> (u64, f64) {
    let payload = vec![0x5a; args.payload];
    let (start, limit) = (Instant::now(), Duration::from_millis(args.cell_ms));
    let mut sent = 0;
    loop {
        let elapsed = start.elapsed();
        if elapsed >= limit {
            return (sent, elapsed.as_secs_f64());
        }
        let due = rate.map_or(sent + 16, |rate| (elapsed.as_secs_f64() * rate as f64) as u64);
        if sent >= due {
            std::thread::yield_now();
        }
        while sent < due {
            // A datagram that the system refuses counts as sent: it is lost like any other.
            let _is_taken = socket.send(&payload).is_ok();
            sent += 1;
        }
    }
}

/// Receives until the sender is done and nothing more arrives.
fn receive(mut source: impl Datagrams, is_sent: &AtomicBool) -> anyhow::Result<Cell> {
    let cpu_before = cpu_ns()?;
    let mut sum = 0_u64;
    loop {
        let received = source.receive(&mut |datagram| {
            sum += u64::from(datagram.payload.first().copied().unwrap_or(0));
        })?;
        if received == 0 && is_sent.load(Ordering::Relaxed) {
            break;
        }
    }
    let counts = source.counts();
    anyhow::ensure!(sum == counts.datagrams * 0x5a, "something else than what was sent");
    Ok(Cell {
        received: counts.datagrams,
        calls: counts.calls,
        cpu_ns: cpu_ns()? - cpu_before,
        kernel_drops: counts.kernel_drops,
        ..Cell::default()
    })
}

/// The processor time of this thread.
fn cpu_ns() -> anyhow::Result<u64> {
    let path = "/proc/thread-self/schedstat";
    let text = std::fs::read_to_string(path).context(path)?;
    text.split_whitespace().next().and_then(|word| word.parse().ok()).context("no figure")
}
