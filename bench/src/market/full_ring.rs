//! `weir-bench market-full-ring`: the cost of a full ring between receiving and updating: an
//! updating thread that stalls now and then, a feed over UDP with a retransmission server, and both
//! policies.
//!
//! A venue sends packets of ten messages at a fixed rate over loopback and answers requests. One
//! thread receives into a ring; another reads it and stalls for 100 ms in each half second. The age
//! of an update is the time from its sending to its processing, including any loss and
//! retransmission.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_feed::itch::encode::{AddOrder, Header};
use weir_feed::line::Line;
use weir_feed::moldudp64::{MoldSession, PacketWriter, PushOutcome, Request};
use weir_io::{Clock as _, SystemClock};
use weir_marketgate::gateway::next_stage::Stage as _;
use weir_marketgate::gateway::receive::{ReceiveWhenFull, Received, Staged};
use weir_marketgate::gateway::ring::{RingReader, ring};
use weir_marketgate::gateway::stages::Sampler;
use weir_marketgate::receiver::{FeedSection, Receiver};
use weir_probe::Histogram;
use weir_runtime::Wake;

/// The number of messages in a packet.
const PACKET: u64 = 10;
/// The length of a stall of the updating thread.
const STALL: Duration = Duration::from_millis(100);
/// The period of the stalls.
const PERIOD: Duration = Duration::from_millis(500);
/// The number of packets retained for requests.
const KEPT: usize = 100_000;

/// The state that the threads share.
struct Shared {
    begun: Instant,
    is_over: AtomicBool,
    /// The send time of each message, by its sequence number.
    sent_at: Vec<AtomicU64>,
}

impl Shared {
    fn elapsed(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn is_over(&self) -> bool {
        // SYNC: pairs with the store at the end of `send`.
        self.is_over.load(Ordering::Acquire)
    }
}

/// Options of `weir-bench market-full-ring`.
#[derive(Debug, clap::Args)]
pub struct FullRingArgs {
    /// Packets a second.
    #[arg(long, default_value_t = 200_000)]
    rate: u64,
    /// Seconds of a run.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

/// Runs the benchmark.
pub fn run(args: &FullRingArgs) -> anyhow::Result<()> {
    let FullRingArgs { rate, seconds } = *args;
    let mut rows = Vec::new();
    for slots in [16_384, 256] {
        for (name, policy) in [("wait", ReceiveWhenFull::Wait), ("drop", ReceiveWhenFull::Drop)] {
            for buffer in [16 << 20, 1 << 18] {
                let mut row = measure(policy, slots, buffer, rate, seconds);
                row["when_full"] = name.into();
                eprintln!("{row}");
                rows.push(row);
            }
        }
    }
    let stall_ms = u64::try_from(STALL.as_millis()).unwrap_or(0);
    println!(
        "{}",
        json!({
            "bench": "market-full-ring", "rate": rate, "seconds": seconds, "stall_ms": stall_ms,
            "rows": rows,
        })
    );
    Ok(())
}

fn measure(policy: ReceiveWhenFull, slots: usize, buffer: usize, rate: u64, seconds: u64) -> Value {
    let requests = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    requests.set_nonblocking(true).expect("it is set");
    let text = format!(
        "name = \"itch\"\nreceive_buffer_bytes = {buffer}\n[[lines]]\na = \"127.0.0.1:0\"\n\
         request = \"{}\"\n",
        requests.local_addr().expect("it has one")
    );
    let section = FeedSection::parse(&text).expect("a feed");
    let receiver = Receiver::open(&section).expect("it opens");
    let address =
        receiver.sockets().find(|(_, one)| one.line == Line::A).expect("line A").1.address;
    let count = usize::try_from(rate * seconds).expect("it fits") + 1;
    let shared = Arc::new(Shared {
        begun: Instant::now(),
        is_over: AtomicBool::new(false),
        sent_at: (0..=count).map(|_| AtomicU64::new(0)).collect(),
    });
    let (writer, mut readers) = ring::<Received>(slots, 1);
    let staged = Staged::new(writer, policy, Sampler::new(false), Wake::new());
    let reader = readers.remove(0);
    let receiving = spawn(&shared, move |shared| receive(shared, receiver, staged));
    let updating = spawn(&shared, move |shared| update(shared, reader));
    let sent = send(&shared, &requests, address, rate, seconds);
    let receiver = receiving.join().expect("it receives");
    let (ages, taken) = updating.join().expect("it takes");
    let ages = ages.snapshot();
    let kernel_drops: u64 =
        receiver.sockets().filter_map(|(_, one)| one.counts.received.kernel_drops).sum();
    json!({
        "slots": slots, "buffer_bytes": buffer, "sent": sent, "taken": taken,
        "age_p50_us": ages.quantile_ns(0.5) / 1_000, "age_p90_us": ages.quantile_ns(0.9) / 1_000,
        "age_p99_us": ages.quantile_ns(0.99) / 1_000, "age_max_us": ages.max_ns() / 1_000,
        "kernel_drops": kernel_drops, "ring_drops": receiver.dropped(),
        "requests": receiver.request_counts().sent,
        "lost": receiver.channels().map(|one| one.counts.lost).sum::<u64>(),
    })
}

fn spawn<T: Send + 'static>(
    shared: &Arc<Shared>,
    run: impl FnOnce(&Shared) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let shared = Arc::clone(shared);
    thread::spawn(move || run(&shared))
}

/// Receives until the run is over.
fn receive(shared: &Shared, mut receiver: Receiver, mut staged: Staged) -> Receiver {
    while !shared.is_over() {
        let now = SystemClock.now();
        let mut done = 0;
        if staged.has_room() {
            done += receiver.poll(now, &mut staged);
        }
        done += staged.turn(now);
        if done == 0 {
            thread::yield_now();
        }
    }
    receiver
}

/// Reads updates and stalls periodically; returns their ages and their number.
fn update(shared: &Shared, mut reader: RingReader<Received>) -> (Histogram, u64) {
    let (mut ages, mut taken) = (Histogram::new(), 0);
    let mut stall_at = PERIOD;
    while !shared.is_over() {
        if shared.begun.elapsed() >= stall_at {
            stall_at += PERIOD;
            thread::sleep(STALL);
        }
        let count = reader.take(1_024, |received| {
            if let Received::Update(_, update) = received {
                let sequence = usize::try_from(update.sequence).unwrap_or(0);
                let sent = shared.sent_at.get(sequence).map_or(0, |at| at.load(Ordering::Relaxed));
                ages.record(shared.elapsed().saturating_sub(sent));
                taken += 1;
            }
        });
        if count == 0 {
            thread::yield_now();
        }
    }
    (ages, taken)
}

/// Sends at the given rate and answers requests; returns the number of messages sent.
fn send(shared: &Shared, requests: &UdpSocket, to: SocketAddr, rate: u64, seconds: u64) -> u64 {
    let session = MoldSession::new("STALLS").expect("a name");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut writer = PacketWriter::new(session, 1, 1_472);
    let mut kept: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
    let (mut sent, span) = (0, seconds * 1_000_000_000);
    let mut quiet_from = None;
    loop {
        let now = shared.elapsed();
        if sent < rate * seconds && sent * 1_000_000_000 / rate <= now {
            let first = sent + 1;
            for number in first..first + PACKET {
                let at = shared.sent_at.get(usize::try_from(number).expect("it fits"));
                at.iter().for_each(|at| at.store(shared.elapsed(), Ordering::Relaxed));
                assert_eq!(writer.push(&order(number)), PushOutcome::Added);
            }
            sent += PACKET;
            let packet = writer.take(<[u8]>::to_vec).expect("it has messages");
            socket.send_to(&packet, to).expect("it sends");
            kept.push_back((first, packet));
            kept.drain(..kept.len().saturating_sub(KEPT));
        } else if now >= span {
            // The last loss is detected only by the next sequence number, in a heartbeat; then it
            // is requested.
            let end = *quiet_from.get_or_insert(now) + 500_000_000;
            socket.send_to(writer.heartbeat(), to).expect("it sends");
            thread::sleep(Duration::from_millis(1));
            if now >= end {
                break;
            }
        }
        answer(requests, &kept);
    }
    // SYNC: pairs with the load in `Shared::is_over`.
    shared.is_over.store(true, Ordering::Release);
    sent
}

fn order(number: u64) -> [u8; 36] {
    let header = Header { stock_locate: 1, tracking_number: 0, timestamp: 0 };
    let add = AddOrder {
        order_reference: number,
        side: b'B',
        shares: 100,
        stock: *b"BENCH   ",
        price: 1_000_000,
    };
    add.to_bytes(&header)
}

/// Answers each request with one packet, like a venue's server.
fn answer(requests: &UdpSocket, kept: &VecDeque<(u64, Vec<u8>)>) {
    let mut buffer = [0; 64];
    while let Ok((len, from)) = requests.recv_from(&mut buffer) {
        let Ok(request) = Request::read(&buffer[..len]) else { continue };
        let place = kept.partition_point(|(first, _)| *first <= request.sequence);
        if let Some((_, packet)) = place.checked_sub(1).and_then(|place| kept.get(place)) {
            requests.send_to(packet, from).expect("it sends");
        }
    }
}
