//! `weir-bench broker`: a message to an attached subscriber through the broker, compared with a
//! bare hand-off, in one process and alternately; and a long run with subscribers that come and go,
//! in which every message is counted and the disk is watched.
//!
//! `--dir` must be on the disk to be measured; it is created, and removed at the end. The hand-off
//! copies a body into a queue and out of it. Neither uses a socket.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Instant;

use weir_broker::{
    Attachment, Broker, Config, Durability, MessageNo, Name, OnFull, OriginMark, PublishOutcome,
    PublishRefusal, Source, Topic, TopicKind,
};
use weir_io::{OsRng, Rng, SeededRng, ThreadDisk};
use weir_types::{Epoch, Nanos, Position};

const TOPIC: Topic = Topic { kind: TopicKind::Executions, key: 11 };
const BODY: [u8; 200] = [0x5a; 200];
/// Messages per round of the comparison.
const ROUND: u64 = 200_000;
/// Subscribers of the long run.
const SUBSCRIBERS: usize = 8;

/// Options of `weir-bench broker`.
#[derive(Debug, clap::Args)]
pub struct BrokerArgs {
    /// A new directory on the disk to be measured.
    #[arg(long, default_value = "weir-bench-broker")]
    dir: PathBuf,
    /// Messages of the long run.
    #[arg(long, default_value_t = 10_000_000)]
    messages: u64,
    /// Rounds of the comparison.
    #[arg(long, default_value_t = 15)]
    rounds: u64,
    /// The durability level: memory, os or disk.
    #[arg(long, default_value = "disk")]
    level: Durability,
}

struct Bench {
    broker: Broker<ThreadDisk>,
    began: Instant,
    record: u64,
}

impl Bench {
    fn open(dir: &std::path::Path, level: Durability) -> Bench {
        let disk = ThreadDisk::open(dir, None).expect("a directory that can be made");
        let mut config = Config::new(u128::from(OsRng.next_u64()));
        config.durability = level;
        config.memory_bytes_max = 64 << 20;
        config.on_full = OnFull::Refuse;
        let (broker, _) = Broker::open(config, disk, Nanos(1)).expect("a new directory");
        Bench { broker, began: Instant::now(), record: 0 }
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.began.elapsed().as_nanos()).expect("a run of less than 500 years"))
    }

    fn work(&mut self) {
        let now = self.now();
        self.broker.do_work(now).expect("the disk does not fail");
    }

    fn create(&mut self, name: &Name) {
        let now = self.now();
        let change = self.broker.create(name, TOPIC, None, now).expect("a new name");
        while !self.broker.is_saved(change) {
            self.work();
        }
    }

    /// Publishes the next record, and repeats while memory is full.
    fn publish(&mut self, body: &[u8]) {
        self.record += 1;
        let record = Position(self.record);
        let mark = OriginMark { source: Source(1), epoch: Epoch(1), record };
        loop {
            let now = self.now();
            match self.broker.publish(TOPIC, mark, body, now) {
                Ok(PublishOutcome::Taken(_) | PublishOutcome::Unwanted) => return,
                Ok(PublishOutcome::Repeated(_)) => panic!("{mark:?} is new"),
                Err(PublishRefusal::MemoryFull) => self.work(),
                Err(refused) => panic!("{refused}"),
            }
        }
    }

    /// Takes and acknowledges the available messages; returns their number.
    fn take(&mut self, hold: Attachment, mut see: impl FnMut(OriginMark)) -> usize {
        let mut last = MessageNo::NONE;
        let taken = self.broker.take_messages(hold, 256, |delivery| {
            last = delivery.no;
            std::hint::black_box(delivery.body);
            see(delivery.mark);
        });
        let now = self.now();
        self.broker.ack(hold, last, now).expect("it was delivered");
        taken.expect("nobody is evicted")
    }

    /// Returns the nanoseconds per message to an attached subscriber.
    fn present(&mut self, hold: Attachment) -> f64 {
        let began = Instant::now();
        for _ in 0..ROUND {
            self.publish(&BODY);
            assert_eq!(self.take(hold, |_| {}), 1, "it is there at once");
            self.work();
        }
        began.elapsed().as_nanos() as f64 / ROUND as f64
    }
}

/// Returns the nanoseconds per message through a queue and nothing else.
fn hand_off() -> f64 {
    let mut queue: VecDeque<Box<[u8]>> = VecDeque::new();
    let began = Instant::now();
    for _ in 0..ROUND {
        queue.push_back(std::hint::black_box(&BODY[..]).into());
        std::hint::black_box(queue.pop_front());
        std::hint::black_box(Instant::now());
    }
    began.elapsed().as_nanos() as f64 / ROUND as f64
}

struct Follower {
    name: Name,
    hold: Option<Attachment>,
    next: u64,
}

/// Publishes `messages` messages to subscribers that come and go; returns samples of the bytes on
/// disk, and the number of attachments.
fn come_and_go(bench: &mut Bench, messages: u64) -> (Vec<u64>, u64) {
    let mut rng = SeededRng::new(1, "come and go");
    let mut followers: Vec<Follower> = Vec::new();
    for number in 0..SUBSCRIBERS {
        let name = Name::new(&format!("desk-{number}")).expect("a name");
        bench.create(&name);
        followers.push(Follower { name, hold: None, next: bench.record + 1 });
    }
    let (end, mut disk, mut comings) = (bench.record + messages, Vec::new(), 0);
    while followers.iter().any(|follower| follower.next <= end) {
        for _ in 0..32 {
            if bench.record < end {
                bench.publish(&BODY);
            }
        }
        for follower in &mut followers {
            // On average away for 16,000 messages, attached for 160,000.
            let odds = if follower.hold.is_some() { 5_000 } else { 500 };
            if follower.hold.is_none() && (bench.record == end || rng.chance(1, odds)) {
                let attached = bench.broker.attach(&follower.name, Nanos(0));
                follower.hold = Some(attached.expect("nobody is evicted").attachment);
                comings += 1;
            } else if follower.hold.is_some() && bench.record < end && rng.chance(1, odds) {
                let hold = follower.hold.take().expect("it is there");
                let now = bench.now();
                bench.broker.detach(hold, now).expect("it is held");
            }
            if let Some(hold) = follower.hold {
                let next = &mut follower.next;
                bench.take(hold, |mark| {
                    assert_eq!(mark.record.0, *next, "nothing is lost and nothing repeated");
                    *next += 1;
                });
            }
        }
        bench.work();
        if bench.record % (messages / 20).max(32) < 32 && bench.record < end {
            disk.push(bench.broker.holdings().disk_bytes);
        }
    }
    (disk, comings)
}

fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs the benchmark.
///
/// # Panics
/// If the disk fails, or a message is lost.
pub fn run(args: &BrokerArgs) -> anyhow::Result<()> {
    let BrokerArgs { ref dir, messages, rounds, level } = *args;
    let mut bench = Bench::open(dir, level);
    let name = Name::new("present").expect("a name");
    bench.create(&name);
    let hold = bench.broker.attach(&name, Nanos(0)).expect("it was created").attachment;
    let (mut broker, mut bare, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let pair = (bench.present(hold), hand_off());
        broker.push(pair.0);
        bare.push(pair.1);
        ratios.push(pair.0 / pair.1);
    }
    let written_for_present = bench.broker.counters().written;
    let now = bench.now();
    bench.broker.detach(hold, now).expect("it is held");
    let _saved_later = bench.broker.delete(&name).expect("it is there");
    let began = Instant::now();
    let (disk, comings) = come_and_go(&mut bench, messages);
    let seconds = began.elapsed().as_secs_f64();
    let counters = bench.broker.counters();
    println!(
        "{{\"name\":\"delivery-broker\",\"in_process\":true,\"level\":\"{level}\",\
         \"body_bytes\":{},\"rounds\":{rounds},\"present_ns\":{:.0},\"hand_off_ns\":{:.0},\
         \"ratio\":{:.2},\"written_for_present\":{written_for_present},\"messages\":{messages},\
         \"subscribers\":{SUBSCRIBERS},\"comings\":{comings},\"lost\":0,\"seconds\":{seconds:.1},\
         \"written\":{},\"moved_bytes\":{},\"parts_read\":{},\"disk_bytes\":{disk:?}}}",
        BODY.len(),
        middle(&mut broker),
        middle(&mut bare),
        middle(&mut ratios),
        counters.written,
        counters.moved_bytes,
        counters.parts_read,
    );
    drop(bench);
    std::fs::remove_dir_all(dir).expect("it was made by this run");
    Ok(())
}
