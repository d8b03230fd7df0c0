//! Transports of market data to a strategy on the same machine, compared: TCP and Unix sockets,
//! iceoryx2, and Weir's own ring.
//!
//! ```text
//! cargo run --release --manifest-path bench/shm/Cargo.toml -- ways [--seconds N]
//! cargo run --release --manifest-path bench/shm/Cargo.toml -- kills [--count N]
//! ```
//! `ways`: two processes, each pinned to a core and spinning, with messages of 256 bytes. First
//! round trips, one message at a time; then one way at full rate, counted at the receiver, with the
//! messages lost because the sender does not wait for it. Sockets send 32 messages per call, as a
//! flush thread does. The transports alternate over the rounds; the median is printed.
//!
//! `kills`: a publisher and a subscriber of iceoryx2, each in a process of its own, are killed
//! while they exchange messages and started anew, many times. It counts the failures to reopen the
//! service, and the files left in `/dev/shm` and iceoryx2's folder.

mod ends;
mod kills;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ends::{End, LEN, Message, open};
use serde_json::{Value, json};
use weir_probe::{Histogram, thread::pin_to_core};

/// The messages per call of a socket.
const BATCH: u64 = 32;
/// The number of the message that ends a phase.
const LAST: u64 = u64::MAX;
const ROUNDS: usize = 5;
const WAYS: [&str; 4] = ["tcp", "unix", "iceoryx2", "ring"];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["ways"] => println!("{}", ways(2)),
        ["ways", "--seconds", seconds] => println!("{}", ways(seconds.parse().expect("a number"))),
        ["kills"] => println!("{}", kills::kills(50)),
        ["kills", "--count", count] => {
            println!("{}", kills::kills(count.parse().expect("a number")));
        }
        ["echo", way, dir] => echo(way, Path::new(dir)),
        ["victim", role, name] => kills::victim(role, name),
        other => panic!("unknown words {other:?}"),
    }
}

fn message(number: u64) -> Message {
    let mut message = [7; LEN];
    message[..8].copy_from_slice(&number.to_le_bytes());
    message
}

fn number_of(message: &Message) -> u64 {
    u64::from_le_bytes(*message.first_chunk().expect("it is longer"))
}

/// The result of one transport in one round.
struct Outcome {
    p50_ns: f64,
    p99_ns: f64,
    sent_per_s: f64,
    received_per_s: f64,
    lost_share: f64,
}

fn ways(seconds: u64) -> Value {
    let mut outcomes: Vec<Vec<Outcome>> = WAYS.iter().map(|_| Vec::new()).collect();
    for round in 0..ROUNDS {
        for (way, runs) in WAYS.iter().zip(&mut outcomes) {
            runs.push(measure(way, Duration::from_secs(seconds)));
            let Outcome { p50_ns, p99_ns, sent_per_s, received_per_s, lost_share } =
                runs.last().expect("one");
            eprintln!(
                "round {round}: {way}: round trip p50 {p50_ns} p99 {p99_ns} ns, \
                 {sent_per_s:.0}/s sent, {received_per_s:.0}/s received, {lost_share:.3} lost"
            );
        }
    }
    let rows = WAYS.iter().zip(&outcomes).map(|(way, runs)| {
        let median = |figure: fn(&Outcome) -> f64| {
            let mut all: Vec<f64> = runs.iter().map(figure).collect();
            all.sort_by(f64::total_cmp);
            json!({"median": all[all.len() / 2], "low": all.first(), "high": all.last()})
        };
        json!({
            "way": way, "round_trip_p50_ns": median(|run| run.p50_ns),
            "round_trip_p99_ns": median(|run| run.p99_ns),
            "sent_per_s": median(|run| run.sent_per_s),
            "received_per_s": median(|run| run.received_per_s),
            "lost_share": median(|run| run.lost_share),
        })
    });
    json!({
        "bench": "market-shm", "seconds": seconds, "rounds": ROUNDS, "bytes": LEN,
        "ways": rows.collect::<Vec<_>>(),
    })
}

/// A folder that is removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(way: &str) -> Folder {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let nanos = now.expect("after 1970").as_nanos();
        let dir = std::env::temp_dir().join(format!("weir-ways-{way}-{nanos}"));
        std::fs::create_dir(&dir).expect("a folder");
        Folder(dir)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn measure(way: &str, span: Duration) -> Outcome {
    let dir = Folder::new(way);
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["echo", way]).arg(&dir.0).stdin(Stdio::null());
    let mut other = command.spawn().expect("it starts");
    let _ = pin_to_core(0);
    let mut end = open(way, &dir.0, true);
    greet(&mut *end);
    let trips = round_trips(&mut *end, span);
    let (sent, took, received) = one_way(&mut *end, span);
    assert!(other.wait().expect("it ends").success());
    drop(end);
    ends::clear(&dir.0);
    let seconds = took.as_secs_f64();
    let snapshot = trips.snapshot();
    Outcome {
        p50_ns: snapshot.quantile_ns(0.5) as f64,
        p99_ns: snapshot.quantile_ns(0.99) as f64,
        sent_per_s: sent as f64 / seconds,
        received_per_s: received as f64 / seconds,
        lost_share: 1.0 - received as f64 / sent as f64,
    }
}

/// Sends until the other end answers, which may miss messages sent before it was open.
fn greet(end: &mut dyn End) {
    loop {
        end.send(&message(0));
        end.flush();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(20) {
            if end.receive().is_some() {
                std::thread::sleep(Duration::from_millis(100));
                while end.receive().is_some() {}
                return;
            }
        }
    }
}

fn round_trips(end: &mut dyn End, span: Duration) -> Histogram {
    let mut trips = Histogram::new();
    let begun = Instant::now();
    let mut number = 1;
    while begun.elapsed() < span {
        let sent = Instant::now();
        end.send(&message(number));
        end.flush();
        while end.receive().map(|message| number_of(&message)) != Some(number) {
            std::hint::spin_loop();
        }
        trips.record(u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX));
        number += 1;
    }
    end.send(&message(LAST));
    end.flush();
    trips
}

/// Sends at full rate; returns the number sent, the time taken, and the number that the other end
/// received.
fn one_way(end: &mut dyn End, span: Duration) -> (u64, Duration, u64) {
    let begun = Instant::now();
    let mut number = 0;
    while begun.elapsed() < span {
        for _ in 0..BATCH {
            end.send(&message(number));
            number += 1;
        }
        end.flush();
    }
    let took = begun.elapsed();
    // Any message may be lost, the final one too: it is repeated until it is answered.
    loop {
        end.send(&message(LAST));
        end.flush();
        std::thread::sleep(Duration::from_millis(10));
        if let Some(answer) = end.receive() {
            return (number, took, number_of(&answer));
        }
    }
}

/// The other end: first echoes messages, then counts them.
fn echo(way: &str, dir: &Path) {
    let _ = pin_to_core(1);
    let mut end = open(way, dir, false);
    loop {
        let Some(message) = end.receive() else { continue };
        if number_of(&message) == LAST {
            break;
        }
        end.send(&message);
        end.flush();
    }
    let mut count = 0;
    loop {
        match end.receive() {
            Some(message) if number_of(&message) == LAST => break,
            Some(_) => count += 1,
            None => std::hint::spin_loop(),
        }
    }
    for _ in 0..3 {
        end.send(&message(count));
        end.flush();
    }
    // The answer must be read before this end closes.
    std::thread::sleep(Duration::from_millis(200));
}
