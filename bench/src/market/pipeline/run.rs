//! One cell: its threads, their measurements and the results.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rtrb::RingBuffer;
use weir_feed::Update;
use weir_io::{Clock as _, SystemClock};
use weir_market::BooksConfig;
use weir_market::conflate::{
    ConflatorConfig, Content, Entry, Fanout, Interest, Pattern, Policy, Poll, PollOutcome,
    Subscription, Urgency,
};
use weir_marketgate::gateway::flush_slot::{FlushContent, FlushSlot};
use weir_marketgate::gateway::mirror::Mirror;
use weir_marketgate::gateway::receive::Received;
use weir_marketgate::gateway::ring::{RingReader, RingWriter, Slots as _, ring};
use weir_marketgate::gateway::stages::{FlushProbe, Sampler, UpdateProbe};
use weir_marketgate::gateway::update::{
    BATCH_MAX, InterestReceiver, UpdateParts, UpdateStage, WhenFull,
};
use weir_marketgate::gateway::writing::{Address, Drafts, put_message};
use weir_marketgate::receiver::{ChannelKey, Origin, Output as _};
use weir_types::{InstrumentId, Nanos, SessionId};

use super::flow::{INSTRUMENTS, definition, update, update_or_trade};
use super::handoff::{Reader, Writer, handoff};
use super::hostile::{Hostile, HostileFigures, Party};

/// The length of a window, in nanoseconds.
const WINDOW: u64 = 1_000_000;
/// The sampling period of message ages: there are tens of millions of messages.
const AGE_EVERY: u64 = 16;
/// The number of subscribers between two clock readings: serving them takes less than `AWAY`.
const LOOK_EVERY: usize = 8;
/// The time between clock readings from which a thread counts as preempted, in nanoseconds.
const AWAY: u64 = 10_000;

/// The parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub handoff: &'static str,
    pub is_staged: bool,
    pub subscribers: u32,
    pub is_conflated: bool,
    pub interval_us: u64,
    pub rate: u64,
    pub seconds: u64,
    /// True for a flow with trades.
    pub has_trades: bool,
    pub party: Party,
    /// The threads of another gateway that runs meanwhile.
    pub other_threads: usize,
}

impl Default for Cell {
    fn default() -> Cell {
        Cell {
            handoff: "disruptor",
            is_staged: false,
            subscribers: 1,
            is_conflated: true,
            interval_us: 0,
            rate: 1_000_000,
            seconds: 2,
            has_trades: false,
            party: Party::None,
            other_threads: 0,
        }
    }
}

/// The results. Times in nanoseconds: p50, p99, p99.9, maximum.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub offered_per_s: f64,
    pub heard_per_s: f64,
    pub told_per_s: f64,
    pub written_per_s: f64,
    /// The time from the receipt to the flush thread.
    pub all: [f64; 4],
    pub clean: [f64; 4],
    pub clean_share: f64,
    /// The time from the receipt of the oldest change in a message to its writing.
    pub age: [f64; 4],
    /// The same in the last tenth of the run.
    pub age_last: f64,
    pub throttled_share: f64,
    pub queued_at_end: f64,
    pub resident_mib: f64,
    pub hostile: HostileFigures,
}

/// The longest time between two clock readings, by window. Windows in which the thread was
/// preempted, or still works off the resulting backlog, are marked.
struct Looks {
    longest: Vec<u64>,
    last: u64,
    works_off: bool,
}

impl Looks {
    fn new(seconds: u64) -> Looks {
        Looks { longest: vec![0; (seconds as usize + 2) * 1_000], last: 0, works_off: false }
    }

    fn look(&mut self, elapsed: u64) {
        let away = elapsed.saturating_sub(std::mem::replace(&mut self.last, elapsed));
        self.works_off |= away >= AWAY;
        if let Some(longest) = self.longest.get_mut((elapsed / WINDOW) as usize) {
            let away = if self.works_off { away.max(AWAY) } else { away };
            *longest = away.max(*longest);
        }
    }

    /// Notes that the backlog is empty.
    fn has_nothing(&mut self) {
        self.works_off = false;
    }
}

/// The state shared by all threads of a cell.
#[derive(Clone)]
struct Shared {
    cell: Cell,
    begin: Nanos,
    is_over: Arc<AtomicBool>,
    taken: Arc<AtomicU64>,
    cores: usize,
}

impl Shared {
    fn elapsed(&self) -> u64 {
        SystemClock.now().0.saturating_sub(self.begin.0)
    }

    fn span(&self) -> u64 {
        self.cell.seconds * 1_000_000_000
    }

    fn idle(&self, threads: usize) {
        if threads + self.cell.other_threads > self.cores {
            std::thread::yield_now()
        } else {
            std::hint::spin_loop()
        }
    }

    /// The due time of an update, from the beginning.
    fn due(&self, number: u64) -> u64 {
        (u128::from(number) * 1_000_000_000 / u128::from(self.cell.rate)) as u64
    }

    fn update(&self, number: u64) -> Update {
        if self.cell.has_trades { update_or_trade(number) } else { update(number) }
    }

    fn origin(&self, number: u64, now: u64) -> Origin {
        Origin {
            channel: ChannelKey::default(),
            ts_recv: Nanos(self.begin.0 + self.due(number)),
            ts_poll: Nanos(self.begin.0 + now),
            is_snapshot: false,
        }
    }
}

/// Measures a cell.
pub fn measure(cell: &Cell) -> Outcome {
    let (writer, reader) = handoff(cell.handoff);
    let (mut wishes, taken) = RingBuffer::new(1 << 20);
    let mut fanout = fanout_of(cell, &mut wishes);
    let hostile = Hostile::new(cell.party, &mut fanout, wishes);
    let shared = Shared {
        cell: *cell,
        begin: Nanos(SystemClock.now().0 + 100_000_000),
        is_over: Arc::default(),
        taken: Arc::default(),
        // Read once: it costs system calls.
        cores: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let flushing = {
        let shared = shared.clone();
        std::thread::spawn(move || flush(&shared, reader, fanout, hostile))
    };
    let (looks, throttled_share) = if cell.is_staged {
        let (ring_writer, mut readers) = ring(16_384, 1);
        let updating = {
            let (shared, reader) = (shared.clone(), readers.remove(0));
            std::thread::spawn(move || update_staged(&shared, writer, taken, reader))
        };
        let looks = receive_staged(&shared, ring_writer);
        (looks, updating.join().expect("it updates"))
    } else {
        update_fused(&shared, writer, taken)
    };
    let offered = shared.taken.load(Ordering::Relaxed);
    // SYNC: pairs with the load in `flush`.
    shared.is_over.store(true, Ordering::Release);
    let flushed = flushing.join().expect("it flushes");
    outcome_of(cell, offered, &looks, throttled_share, flushed)
}

/// Creates subscribers to the quotes of all instruments, which are defined already.
fn fanout_of(cell: &Cell, wishes: &mut rtrb::Producer<Interest>) -> Fanout {
    let mut fanout = Fanout::new(InstrumentId(INSTRUMENTS), 1_024).with_answers();
    for id in 1..=INSTRUMENTS {
        fanout.define(&definition(id));
    }
    let policy = if cell.is_conflated { Policy::Conflate } else { Policy::None };
    let terms = Subscription {
        policy,
        urgency: Urgency::NEVER,
        queue_len_max: 1 << 20,
        ..Subscription::new(Pattern::All, Content::Bbo)
    };
    for _ in 0..cell.subscribers {
        let subscriber = fanout.add_subscriber();
        fanout.subscribe(Nanos(0), subscriber, &terms).expect("it makes sense");
    }
    fanout.settle(Nanos(0));
    for interest in fanout.take_interest() {
        wishes.push(interest).expect("there is room");
    }
    fanout
}

fn stage_of(cell: &Cell, door: Writer, wishes: InterestReceiver) -> UpdateStage<Writer> {
    let interval = Nanos(cell.interval_us * 1_000);
    let interval = if cell.is_conflated { interval } else { Nanos(0) };
    UpdateStage::new(UpdateParts {
        books: BooksConfig { instruments_max: INSTRUMENTS + 1, ..BooksConfig::default() },
        batch_max: BATCH_MAX,
        conflator: ConflatorConfig {
            bbo_interval: interval,
            urgency: Urgency::NEVER,
            instrument_id_max: InstrumentId(INSTRUMENTS),
            ..ConflatorConfig::default()
        },
        door,
        wakes: Vec::new(),
        wishes: vec![wishes],
        post: None,
        probe: UpdateProbe::default(),
        when_full: if cell.is_conflated { WhenFull::Merge } else { WhenFull::Wait },
    })
}

fn throttled(stage: &UpdateStage<Writer>) -> f64 {
    let counts = stage.conflated();
    let wanted = counts.queued + counts.waiting + counts.merged;
    counts.waiting as f64 / wanted.max(1) as f64
}

fn update_fused(shared: &Shared, door: Writer, wishes: InterestReceiver) -> (Looks, f64) {
    let mut stage = stage_of(&shared.cell, door, wishes);
    let mut looks = Looks::new(shared.cell.seconds);
    for id in 1..=INSTRUMENTS {
        stage.define(&shared.origin(0, 0), &definition(id));
    }
    stage.turn(shared.begin);
    let mut sampler = Sampler::new(false);
    let mut number = 0;
    loop {
        let now = shared.elapsed();
        looks.look(now);
        if now >= shared.span() {
            break;
        }
        if shared.due(number) <= now && now > 0 {
            let origin = shared.origin(number, now);
            sampler.update(origin.ts_poll).into_iter().for_each(|begun| stage.begin_trace(begun));
            stage.update(&origin, shared.update(number));
            number += 1;
        } else {
            looks.has_nothing();
            shared.idle(2);
        }
        stage.turn(Nanos(shared.begin.0 + now));
    }
    shared.taken.store(number, Ordering::Relaxed);
    (looks, throttled(&stage))
}

fn receive_staged(shared: &Shared, mut ring: RingWriter<Received>) -> Looks {
    let mut sampler = Sampler::new(false);
    let mut looks = Looks::new(shared.cell.seconds);
    let mut number = 0;
    loop {
        let now = shared.elapsed();
        looks.look(now);
        if now >= shared.span() {
            break;
        }
        let is_due = shared.due(number) <= now && now > 0;
        let origin = shared.origin(number, now);
        if is_due && let Some(begun) = sampler.update(origin.ts_poll) {
            // If the ring is full, it has no room for the update either.
            let _ = ring.write(|slot| *slot = Received::Trace(begun));
        }
        let received = Received::Update(origin, shared.update(number));
        if is_due && ring.write(|slot| *slot = received) {
            number += 1;
        } else {
            if !is_due {
                looks.has_nothing();
            }
            shared.idle(3);
        }
    }
    shared.taken.store(number, Ordering::Relaxed);
    looks
}

fn update_staged(
    shared: &Shared,
    door: Writer,
    wishes: InterestReceiver,
    mut ring: RingReader<Received>,
) -> f64 {
    let mut stage = stage_of(&shared.cell, door, wishes);
    for id in 1..=INSTRUMENTS {
        stage.define(&shared.origin(0, 0), &definition(id));
    }
    while shared.elapsed() < shared.span() {
        let taken = ring.take(64, |received| match received {
            Received::Trace(begun) => stage.begin_trace(*begun),
            Received::Update(origin, update) => stage.update(origin, *update),
            _ => {}
        });
        stage.turn(SystemClock.now());
        if taken == 0 {
            shared.idle(3);
        }
    }
    throttled(&stage)
}

/// The flush thread's measurements.
struct Flushed {
    looks: Looks,
    /// The window, and the nanoseconds from the receipt.
    ways: Vec<(u32, u32)>,
    ages: Vec<(u32, u32)>,
    heard: u64,
    written: u64,
    queued: u64,
    resident_mib: f64,
    hostile: HostileFigures,
}

fn flush(shared: &Shared, mut reader: Reader, mut fanout: Fanout, mut hostile: Hostile) -> Flushed {
    let mut mirror = Mirror::new(INSTRUMENTS + 1);
    let mut probe = FlushProbe::default();
    let mut looks = Looks::new(shared.cell.seconds);
    let room = (shared.cell.rate * shared.cell.seconds).min(40_000_000) as usize;
    let (mut ways, mut ages) =
        (Vec::with_capacity(room), Vec::with_capacity(room.clamp(1 << 20, 4 << 20)));
    let (mut heard, mut written) = (0_u64, 0_u64);
    let (mut out, mut drafts, mut ready) = (Vec::new(), Drafts::default(), Vec::new());
    let begin = shared.begin.0;
    // SYNC: pairs with the store in `measure`.
    while !shared.is_over.load(Ordering::Acquire) {
        let now = shared.elapsed();
        looks.look(now);
        let taken = reader.take(256, |told| {
            mirror.take(told);
            let Some(entry) = entry_of(told, &mut fanout) else { return };
            told.trace.iter().for_each(|trace| probe.heard(entry, trace));
            if entry.merged.change_count > 0 {
                heard += u64::from(entry.merged.change_count);
                let at = SystemClock.now().0;
                looks.look(at.saturating_sub(begin));
                push(
                    &mut ways,
                    at.saturating_sub(begin),
                    at.saturating_sub(entry.merged.ts_recv.0),
                );
            }
            fanout.apply(Nanos(begin + now), entry);
        });
        let at = SystemClock.now();
        hostile.cycle(at, &mut fanout);
        hostile.read(at, &mut fanout, &mirror);
        let is_good = |subscriber| !hostile.is(subscriber);
        fanout.take_ready(|one| ready.extend(is_good(one).then_some(one)));
        for (index, subscriber) in ready.drain(..).enumerate() {
            if index % LOOK_EVERY == LOOK_EVERY - 1 {
                looks.look(shared.elapsed());
            }
            let mut room = 4_096;
            let mut poll = |room| {
                fanout.poll(Poll { subscriber, now: at, room }, &mirror, &mut |message, mirror| {
                    let to = Address { session_id: SessionId(1), handle: 1, sent_at: at };
                    put_message(to, message, mirror, &mut drafts, &mut out);
                    probe.written(u64::from(subscriber.0), &message.entry);
                    written += 1;
                    if message.entry.merged.change_count > 0 && written.is_multiple_of(AGE_EVERY) {
                        let age = at.0.saturating_sub(message.entry.merged.ts_recv.0);
                        push(&mut ages, at.0.saturating_sub(begin), age);
                    }
                })
            };
            while let PollOutcome::Sent { left: 1.., .. } = poll(room) {
                room = 4_096;
            }
            out.clear();
            probe.flushed(u64::from(subscriber.0), true);
        }
        probe.end_of_telling(false);
        if taken == 0 {
            looks.has_nothing();
            shared.idle(2);
        }
    }
    let offered = (shared.span() as f64 / 1e9 * shared.cell.rate as f64) as u64;
    let queued = offered.saturating_sub(heard);
    let (hostile, resident_mib) = (hostile.figures(&fanout), resident_mib());
    Flushed { looks, ways, ages, heard, written, queued, resident_mib, hostile }
}

/// Returns the entry of a slot; takes an answer to wishes.
fn entry_of<'a>(told: &'a FlushSlot, fanout: &mut Fanout) -> Option<&'a Entry> {
    match &told.what {
        FlushContent::Entry(entry) => return Some(entry),
        FlushContent::Wished(_, count) => fanout.note_answered(*count),
        _ => {}
    }
    None
}

/// Records a time if there is room: only the end of a run that is too long is omitted.
fn push(times: &mut Vec<(u32, u32)>, at: u64, span: u64) {
    if times.len() < times.capacity() {
        times.push(((at / WINDOW) as u32, u32::try_from(span).unwrap_or(u32::MAX)));
    }
}

fn resident_mib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
    pages.unwrap_or(0.0) * 4_096.0 / f64::from(1 << 20)
}

fn quantiles(mut times: Vec<u32>) -> [f64; 4] {
    if times.is_empty() {
        return [0.0; 4];
    }
    times.sort_unstable();
    let at = |quantile: f64| times[((times.len() - 1) as f64 * quantile) as usize];
    [at(0.5), at(0.99), at(0.999), at(1.0)].map(f64::from)
}

fn outcome_of(
    cell: &Cell,
    offered: u64,
    receiving: &Looks,
    throttled_share: f64,
    flushed: Flushed,
) -> Outcome {
    let is_clean = |window: usize| {
        let longest = |looks: &Looks| looks.longest.get(window).copied().unwrap_or(u64::MAX);
        longest(receiving) < AWAY && longest(&flushed.looks) < AWAY
    };
    let windows = cell.seconds as usize * 1_000;
    let clean: Vec<bool> = (0..windows).map(is_clean).collect();
    let clean_ways = flushed.ways.iter();
    let clean_ways =
        clean_ways.filter(|(window, _)| clean.get(*window as usize).copied().unwrap_or(false));
    let last = windows as u32 * 9 / 10;
    let late = flushed.ages.iter().filter(|(window, _)| *window >= last).map(|(_, age)| *age);
    let seconds = cell.seconds as f64;
    Outcome {
        offered_per_s: offered as f64 / seconds,
        heard_per_s: flushed.heard as f64 / seconds,
        told_per_s: flushed.ways.len() as f64 / seconds,
        written_per_s: flushed.written as f64 / seconds,
        clean: quantiles(clean_ways.map(|(_, way)| *way).collect()),
        clean_share: clean.iter().filter(|is_clean| **is_clean).count() as f64 / windows as f64,
        age_last: quantiles(late.collect())[0],
        all: quantiles(flushed.ways.iter().map(|(_, way)| *way).collect()),
        age: quantiles(flushed.ages.iter().map(|(_, age)| *age).collect()),
        throttled_share,
        queued_at_end: flushed.queued as f64,
        resident_mib: flushed.resident_mib,
        hostile: flushed.hostile,
    }
}
