//! Random interleavings of producers, subscribers, quotas, expiry, full disks, kills, power losses
//! and restarts, against a simple model: the list of all published messages, and for each
//! subscriber the messages that it has seen.
//!
//! The producer repeats messages that were not acknowledged before a crash; a client drops messages
//! whose mark it has seen. Then every subscriber sees everything of each source once and in order.
//! `WEIR_BROKER_SEEDS=N`, `WEIR_BROKER_STEPS=N`: more, longer runs.

#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

mod support;

use std::collections::BTreeMap;

use support::{body, config, mark, name, settle, topic};
use weir_broker::{
    Attachment, Broker, Change, Config, Durability, EvictReason, MessageNo, Name, Notice, OnFull,
    OriginMark, OriginMarks, PublishOutcome, Quota, RowKind, Status, SubscriptionError, Terms,
    Topic,
};
use weir_io::disk::sim::CrashChoice;
use weir_io::{Rng, SeededRng, SimDisk, SimFaults};
use weir_types::Nanos;

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// A client's knowledge, in memory of its own that no crash of the broker touches.
#[derive(Clone, Default)]
struct Client {
    topic: Option<Topic>,
    /// By source: the number of the topic's messages that were certainly published when it was
    /// created.
    first_max: BTreeMap<u32, usize>,
    /// By source: the number of the topic's messages that it has seen, from the first on.
    seen_to: BTreeMap<u32, usize>,
    seen: OriginMarks,
    /// Messages and bytes not taken, as the broker counts in this run.
    behind: (u64, u64),
    hold: Option<Attachment>,
    unacked: Vec<(MessageNo, u64)>,
    quota: Option<Quota>,
    /// The change that created it, which may not be saved.
    making: Option<Change>,
    has_ended: bool,
}

struct World {
    disk: SimDisk,
    config: Config,
    broker: Broker<SimDisk>,
    rng: SeededRng,
    now: u64,
    /// Each source's messages of a topic, in order, and the numbers that they got last.
    history: BTreeMap<(Topic, u32), Vec<OriginMark>>,
    numbers: BTreeMap<(Topic, OriginMark), MessageNo>,
    records: u64,
    clients: BTreeMap<Name, Client>,
    names_made: u64,
    evictions: u64,
    crashes: u64,
    seen: u64,
    parts_read: u64,
    /// A subscription was just evicted, and the table may not have it yet.
    crashes_soon: bool,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = SeededRng::new(seed, "world");
        let level = [Durability::Disk, Durability::Disk, Durability::Os, Durability::Memory]
            [rng.below(4) as usize];
        let mut config = config(level);
        config.on_full = [OnFull::Evict, OnFull::Refuse][rng.below(2) as usize];
        config.expire_after = Nanos(200_000);
        let disk = SimDisk::new(seed);
        let (broker, _) = Broker::open(config.clone(), disk.clone(), Nanos(1)).unwrap();
        World {
            disk,
            config,
            broker,
            rng,
            now: 1,
            history: BTreeMap::new(),
            numbers: BTreeMap::new(),
            records: 0,
            clients: BTreeMap::new(),
            names_made: 0,
            evictions: 0,
            crashes: 0,
            seen: 0,
            parts_read: 0,
            crashes_soon: false,
        }
    }

    fn publish_new(&mut self) {
        let (topic, source) = (topic(1 + self.rng.below(3) as u32), 1 + self.rng.below(2) as u32);
        self.records += 1;
        let mark = mark(source, self.records);
        if self.publish(topic, mark) {
            self.history.entry((topic, source)).or_default().push(mark);
        }
    }

    /// Publishes; false if the message was refused.
    fn publish(&mut self, topic: Topic, mark: OriginMark) -> bool {
        let bytes = body(topic, mark);
        match self.broker.publish(topic, mark, &bytes, Nanos(self.now)) {
            Ok(PublishOutcome::Taken(no)) => {
                self.numbers.insert((topic, mark), no);
                let live = self.clients.values_mut();
                for client in live.filter(|c| c.topic == Some(topic) && !c.has_ended) {
                    client.behind.0 += 1;
                    client.behind.1 += bytes.len() as u64;
                }
                self.hear();
                true
            }
            Ok(PublishOutcome::Repeated(no)) => {
                self.numbers.insert((topic, mark), no);
                true
            }
            // Without a subscription it counts as acknowledged.
            Ok(PublishOutcome::Unwanted) => {
                self.numbers.insert((topic, mark), MessageNo::NONE);
                self.hear();
                true
            }
            Err(_) => {
                self.hear();
                false
            }
        }
    }

    /// Takes notices and checks that an evicted subscription was over its quota, or there was no
    /// room.
    fn hear(&mut self) {
        for notice in self.broker.take_notices() {
            let (name, reason) = match notice {
                Notice::Evicted { name, reason } => (name, Some(reason)),
                Notice::Expired { name } => (name, None),
            };
            self.evictions += u64::from(reason.is_some());
            self.crashes_soon |= self.rng.chance(1, 10);
            let client = self.clients.get_mut(&name).unwrap();
            let quota = client.quota.unwrap_or_default();
            match reason {
                Some(EvictReason::Messages) => assert!(client.behind.0 > quota.messages_max),
                Some(EvictReason::Bytes) => assert!(client.behind.1 > quota.bytes_max),
                Some(EvictReason::MemoryFull | EvictReason::DiskFull) => {
                    assert_eq!(self.config.on_full, OnFull::Evict);
                }
                Some(reason) => panic!("{name} was evicted: {reason:?}"),
                None => assert!(client.hold.is_none(), "{name} expired while attached"),
            }
            client.hold = None;
            client.unacked.clear();
            client.has_ended = true;
        }
    }

    fn make(&mut self) {
        self.names_made += 1;
        let name = name(self.names_made);
        let topic = topic(1 + self.rng.below(3) as u32);
        let mut quota = Quota::default();
        if self.rng.chance(1, 3) {
            quota.messages_max = 20 + self.rng.below(200);
        }
        if self.rng.chance(1, 3) {
            quota.bytes_max = 2_000 + self.rng.below(20_000);
        }
        let mut after = OriginMarks::default();
        if self.rng.chance(1, 2) {
            let said = (1..=2).filter_map(|source| self.history.get(&(topic, source))?.last());
            said.for_each(|mark| assert!(after.advance(*mark)));
        }
        let terms = Terms { quota: Some(quota), after: after.clone(), ..Terms::default() };
        let change = self.broker.create_on(&name, topic, terms, Nanos(self.now)).unwrap();
        let mut client = Client { topic: Some(topic), quota: Some(quota), ..Client::default() };
        client.seen = after;
        client.making = Some(change);
        for source in 1..=2 {
            let known = self.history.get(&(topic, source)).map_or(0, Vec::len);
            client.first_max.insert(source, known);
        }
        self.clients.insert(name, client);
    }

    fn any_client(&mut self) -> Option<Name> {
        let count = self.clients.len() as u64;
        let nth = if count == 0 { return None } else { self.rng.below(count) };
        self.clients.keys().nth(nth as usize).cloned()
    }

    fn attach_or_leave(&mut self) {
        let Some(name) = self.any_client() else { return };
        let client = self.clients.get_mut(&name).unwrap();
        if let Some(hold) = client.hold.take() {
            self.broker.detach(hold, Nanos(self.now)).unwrap();
            client.unacked.clear();
            return;
        }
        match self.broker.attach(&name, Nanos(self.now)) {
            Ok(attached) => {
                assert!(!client.has_ended, "{name} ended");
                assert!(!attached.may_have_lost || self.config.durability != Durability::Disk);
                client.hold = Some(attached.attachment);
            }
            Err(SubscriptionError::Evicted { .. } | SubscriptionError::Expired { .. }) => {
                assert!(client.has_ended, "{name} had not ended");
                if self.rng.chance(1, 2) {
                    self.broker.delete(&name).unwrap();
                    self.clients.remove(&name);
                }
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn take(&mut self, name: &Name, max: usize, acks: bool) -> usize {
        let client = self.clients.get_mut(name).unwrap();
        let Some(hold) = client.hold else { return 0 };
        let topic = client.topic.unwrap();
        let mut got = 0;
        let history = &self.history;
        let bytes_max = if self.rng.chance(1, 2) { u64::MAX } else { self.rng.below(2_000) + 1 };
        let mut bytes = 0;
        let taken = self.broker.take_messages_within(hold, max, bytes_max, |delivery| {
            assert!(bytes < bytes_max, "a message after {bytes} bytes, and {bytes_max} were asked");
            bytes += delivery.body.len() as u64;
            got += 1;
            client.unacked.push((delivery.no, delivery.body.len() as u64));
            assert_eq!(delivery.body, body(topic, delivery.mark), "{name}");
            if !client.seen.advance(delivery.mark) {
                return;
            }
            let source = delivery.mark.source.0;
            let said = &history[&(topic, source)];
            let at = said.iter().position(|mark| *mark == delivery.mark).unwrap();
            // Messages before the subscription's creation are not owed to it, and may come again in
            // part.
            let owed = client.first_max[&source];
            let expected = client.seen_to.get(&source).copied().unwrap_or(0).max(owed);
            if at >= owed {
                assert_eq!(at, expected, "{name} skips {:?}", said[expected]);
            }
            client.seen_to.insert(source, expected.max(at + 1));
        });
        assert_eq!(taken, Ok(got));
        self.seen += got as u64;
        if acks && !client.unacked.is_empty() {
            let nth = self.rng.below(client.unacked.len() as u64) as usize;
            let upto = client.unacked[nth].0;
            let count = self.broker.ack(hold, upto, Nanos(self.now)).unwrap();
            assert_eq!(count, nth as u64 + 1);
            for (_, bytes) in client.unacked.drain(..=nth) {
                client.behind.0 -= 1;
                client.behind.1 -= bytes;
            }
        }
        got
    }

    fn work(&mut self) {
        self.now += self.rng.below(400);
        self.broker.do_work(Nanos(self.now)).unwrap();
        self.hear();
        for listed in self.broker.list() {
            let Some(client) = self.clients.get(&listed.row.name) else { continue };
            assert_eq!(listed.row.status == Status::Live, !client.has_ended);
            if !client.has_ended {
                let lag = (listed.lag.messages, listed.lag.bytes);
                assert_eq!(lag, client.behind, "{}", listed.row.name);
                let quota = client.quota.unwrap();
                assert!(lag.0 <= quota.messages_max && lag.1 <= quota.bytes_max);
            }
        }
        let gone = |name: &Name| self.broker.look(name).is_err();
        let removed: Vec<Name> = self.clients.keys().filter(|name| gone(name)).cloned().collect();
        for name in removed {
            let client = self.clients.remove(&name).unwrap();
            assert!(client.has_ended, "{name} is gone and had not ended");
        }
        let held = self.broker.holdings();
        assert!(held.memory_bytes <= self.config.memory_bytes_max, "{held:?}");
    }

    fn fill_disk(&mut self) {
        let full = self.rng.chance(1, 2);
        let full_from = full.then_some(0);
        let short_writes_per_mille = self.rng.below(200);
        let faults = SimFaults { full_from, short_writes_per_mille, ..SimFaults::default() };
        self.disk.set_faults(faults);
    }

    /// Ends the broker in one of several ways and opens it again.
    fn restart(&mut self) {
        self.crashes += 1;
        self.parts_read += self.broker.counters().parts_read;
        self.disk.set_faults(SimFaults::default());
        let acknowledged = self.broker.acknowledged();
        let making = |client: &Client| client.making.is_none_or(|c| self.broker.is_saved(c));
        let unsaved: Vec<Name> = self
            .clients
            .iter()
            .filter(|(_, client)| !making(client))
            .map(|(name, _)| name.clone())
            .collect();
        let ways = if self.config.durability == Durability::Disk { 3 } else { 2 };
        let way = match self.config.durability {
            Durability::Memory => 0,
            _ => self.rng.below(ways),
        };
        let disk = match way {
            0 => {
                self.broker.close().unwrap();
                self.hear();
                self.disk.after_power_loss(CrashChoice::LoseAll)
            }
            1 => self.disk.after_process_crash(),
            _ => self.disk.after_power_loss(CrashChoice::Random(self.rng.next_u64())),
        };
        self.now += 1;
        let opened = Broker::open(self.config.clone(), disk.clone(), Nanos(self.now));
        let (broker, report) = opened.unwrap();
        assert!(!report.may_have_lost, "{report:?}");
        (self.broker, self.disk) = (broker, disk);
        let listed = self.broker.list();
        for name in unsaved {
            if way != 0 && !listed.iter().any(|listed| listed.row.name == name) {
                self.clients.remove(&name);
            }
        }
        self.find_clients(way);
        if way != 0 {
            // Some producers know the acknowledged number, some repeat all their messages.
            let is_all = self.rng.chance(1, 4);
            self.publish_again(if is_all { MessageNo::NONE } else { acknowledged });
        }
    }

    /// Compares each client with the broker's state.
    fn find_clients(&mut self, way: u64) {
        let names: Vec<Name> = self.clients.keys().cloned().collect();
        for name in names {
            let client = self.clients.get_mut(&name).unwrap();
            let Ok(found) = self.broker.look(&name) else {
                assert!(client.has_ended, "{name} is lost");
                self.clients.remove(&name);
                continue;
            };
            client.hold = None;
            client.making = None;
            client.unacked.clear();
            let is_live = found.row.status == Status::Live;
            assert!(!is_live || !client.has_ended || way != 0, "{name} was ended and lives");
            assert!(is_live || client.has_ended, "{name} ended by a restart");
            client.has_ended = !is_live;
            let behind = (found.lag.messages, found.lag.bytes);
            if way == 0 && is_live {
                assert_eq!(behind, client.behind, "{name}: closing forgets nothing");
            }
            client.behind = behind;
            let RowKind::Queue { taken, .. } = &found.row.kind else { panic!("a queue") };
            for mark in taken.as_slice() {
                assert!(!client.seen.clone().advance(*mark), "{name} took {mark:?} unseen");
            }
        }
        // A deletion was not saved: no client waits for the messages.
        for listed in self.broker.list() {
            if !self.clients.contains_key(&listed.row.name) {
                self.broker.delete(&listed.row.name).unwrap();
            }
        }
    }

    /// Lets the producers go on from the acknowledged number.
    fn publish_again(&mut self, acknowledged: MessageNo) {
        for ((topic, _), said) in self.history.clone() {
            for mark in said {
                let no = self.numbers[&(topic, mark)];
                if no <= acknowledged && acknowledged > MessageNo::NONE {
                    continue;
                }
                let mut tries = 0;
                while !self.publish(topic, mark) {
                    self.work();
                    tries += 1;
                    assert!(tries < 100_000, "memory stays full");
                }
            }
        }
    }

    fn step(&mut self) {
        if std::mem::take(&mut self.crashes_soon) {
            if self.rng.chance(1, 2) && self.clients.len() < 8 {
                self.make();
            }
            (0..3).for_each(|_| self.publish_new());
            if self.rng.chance(1, 2) {
                self.work();
                (0..3).for_each(|_| self.publish_new());
                self.work();
            }
            self.restart();
        }
        match self.rng.below(1000) {
            0..450 => (0..3).for_each(|_| self.publish_new()),
            450..750 => {
                let names: Vec<Name> = self.clients.keys().cloned().collect();
                for name in names {
                    let (max, acks) = (self.rng.below(12) as usize, self.rng.chance(3, 4));
                    self.take(&name, max, acks);
                }
            }
            750..900 => self.attach_or_leave(),
            900..960 if self.clients.len() < 6 => self.make(),
            960..975 => self.fill_disk(),
            975..985 => self.disk.set_faults(SimFaults::default()),
            985..990 => self.broker.compact(),
            990..995 => self.now += self.rng.below(60_000),
            995..1000 => self.restart(),
            _ => {}
        }
        self.work();
    }

    /// Attaches every client and takes everything.
    fn drain(&mut self) {
        self.disk.set_faults(SimFaults::default());
        self.now += 10_000;
        settle(&mut self.broker, self.now).unwrap();
        self.hear();
        let names: Vec<Name> = self.clients.keys().cloned().collect();
        for name in &names {
            if self.clients[name].has_ended {
                continue;
            }
            if self.clients[name].hold.is_none() {
                let attached = self.broker.attach(name, Nanos(self.now)).unwrap();
                self.clients.get_mut(name).unwrap().hold = Some(attached.attachment);
            }
            while self.clients[name].behind.0 > 0 {
                self.take(name, 100, true);
            }
            let client = &self.clients[name];
            for source in 1..=2 {
                let said = self.history.get(&(client.topic.unwrap(), source)).map_or(0, Vec::len);
                let seen_to = client.seen_to.get(&source).copied().unwrap_or(0);
                let reached = seen_to.max(client.first_max[&source]);
                assert_eq!(reached, said, "{name} has not seen the last of {source}");
            }
        }
        self.now += 10_000;
        settle(&mut self.broker, self.now).unwrap();
        let held = self.broker.holdings();
        assert_eq!((held.messages, held.wanted_bytes), (0, 0), "all is taken");
        assert_eq!(self.broker.acknowledged(), self.broker.last());
    }
}

/// Runs the steps of a seed and compares the results with the model.
#[cfg(feature = "planted")]
pub(crate) fn live(seed: u64, steps: u64) {
    let mut world = World::new(seed);
    for _ in 0..steps {
        world.step();
    }
    world.drain();
}

#[test]
fn every_subscriber_sees_everything_once_and_in_order_whatever_happens() {
    let seeds = from_environment("WEIR_BROKER_SEEDS", 24);
    let steps = from_environment("WEIR_BROKER_STEPS", 1_500);
    let (mut evictions, mut crashes, mut seen, mut spilled) = (0, 0, 0, 0);
    for seed in 1..=seeds {
        let mut world = World::new(seed);
        println!("seed {seed}, {}", world.config.durability);
        for _ in 0..steps {
            world.step();
        }
        world.drain();
        evictions += world.evictions;
        crashes += world.crashes;
        seen += world.seen;
        spilled += world.parts_read + world.broker.counters().parts_read;
    }
    println!("{seen} deliveries, {crashes} restarts, {evictions} evictions, {spilled} parts read");
    assert!(evictions > seeds && crashes > seeds && seen > seeds * steps && spilled > seeds);
}
