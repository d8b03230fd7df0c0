//! Shared parts of the broker's tests: a small configuration, and a workload that records the
//! broker's promises, to be compared with the state found after a crash.

#![allow(dead_code)] // Each test binary uses its own part.
#![allow(clippy::unwrap_used)] // Test code outside #[test] functions.

use std::collections::BTreeMap;

use weir_broker::{
    Attachment, Broker, BrokerError, Config, Durability, MessageNo, Name, Notice, OpenReport,
    OriginMark, PublishOutcome, PublishRefusal, Source, SubscriptionError, Topic, TopicKind,
};
use weir_io::{Rng, SeededRng, SimDisk};
use weir_types::{Epoch, Nanos, Position};

/// A configuration so small that a test fills blocks, files and memory.
pub(crate) fn config(level: Durability) -> Config {
    let mut config = Config::new(0x1234_5678_9abc_def0);
    config.durability = level;
    config.memory_bytes_max = 16 << 10;
    config.block_bytes = 1024;
    config.file_bytes = 4096;
    config.hold = Nanos(300);
    config.save_every = Nanos(1_000);
    config.sweep_every = Nanos(0);
    config.full_pause = Nanos(500);
    config.window_max = 16;
    config.expire_grace = Nanos(0);
    config
}

pub(crate) fn topic(key: u32) -> Topic {
    Topic { kind: TopicKind::Executions, key }
}

pub(crate) fn name(number: u64) -> Name {
    Name::new(&format!("desk-{number}")).unwrap()
}

pub(crate) fn mark(source: u32, record: u64) -> OriginMark {
    OriginMark { source: Source(source), epoch: Epoch(1), record: Position(record) }
}

/// Returns the body of the message at a mark: a function of the mark, so that an invented message
/// shows.
pub(crate) fn body(topic: Topic, mark: OriginMark) -> Vec<u8> {
    let seed = mark.record.0 << 20 | u64::from(mark.source.0) << 10 | u64::from(topic.key);
    let mut rng = SeededRng::new(seed, "body");
    let mut bytes = vec![0; rng.below(180) as usize];
    rng.fill(&mut bytes);
    bytes
}

/// Works until no disk operation is in progress.
pub(crate) fn settle(broker: &mut Broker<SimDisk>, now: u64) -> Result<(), BrokerError> {
    for _ in 0..100_000 {
        let worked = broker.do_work(Nanos(now))?;
        if worked == 0 && (broker.is_idle() || broker.is_full()) {
            return Ok(());
        }
    }
    panic!("the broker does not come to rest");
}

/// The promises at one length of the recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promise {
    pub(crate) recorded: usize,
    /// The promise to the producer.
    pub(crate) acknowledged: MessageNo,
    /// The newest message published.
    pub(crate) last: MessageNo,
    /// Subscriptions certain to exist: topic, and the last message before their creation.
    pub(crate) made: BTreeMap<Name, (Topic, MessageNo)>,
    /// The acknowledgements of their clients.
    pub(crate) taken: BTreeMap<Name, MessageNo>,
}

/// Producers and subscribers drawn from a seed.
pub(crate) struct Workload {
    pub(crate) broker: Broker<SimDisk>,
    pub(crate) disk: SimDisk,
    rng: SeededRng,
    pub(crate) now: u64,
    records: u64,
    pub(crate) messages: BTreeMap<MessageNo, (Topic, OriginMark)>,
    attached: BTreeMap<Name, Attachment>,
    making: Vec<(Name, Topic, MessageNo, weir_broker::Change)>,
    names_made: u64,
    pub(crate) promise: Promise,
    pub(crate) promises: Vec<Promise>,
}

impl Workload {
    /// # Errors
    /// If the broker does not open.
    pub(crate) fn open(
        config: Config,
        disk: &SimDisk,
        seed: u64,
    ) -> Result<(Workload, OpenReport), BrokerError> {
        let (broker, report) = Broker::open(config, disk.clone(), Nanos(1))?;
        let mut workload = Workload {
            broker,
            disk: disk.clone(),
            rng: SeededRng::new(seed, "workload"),
            now: 1,
            records: 0,
            messages: BTreeMap::new(),
            attached: BTreeMap::new(),
            making: Vec::new(),
            names_made: 0,
            promise: Promise::default(),
            promises: vec![Promise::default()],
        };
        workload.note();
        Ok((workload, report))
    }

    fn note(&mut self) {
        for notice in self.broker.take_notices() {
            // Its messages could not be read.
            let (Notice::Evicted { name, .. } | Notice::Expired { name }) = notice;
            self.making.retain(|making| making.0 != name);
            self.promise.made.remove(&name);
            self.attached.remove(&name);
        }
        let saved = |making: &(Name, Topic, MessageNo, weir_broker::Change)| {
            self.broker.is_saved(making.3).then(|| (making.0.clone(), (making.1, making.2)))
        };
        self.promise.made.extend(self.making.iter().filter_map(saved));
        self.making.retain(|making| !self.broker.is_saved(making.3));
        self.promise.recorded = self.disk.recorded();
        self.promise.acknowledged = self.broker.acknowledged();
        self.promise.last = self.broker.last();
        self.promises.push(self.promise.clone());
    }

    fn work(&mut self) -> Result<(), BrokerError> {
        self.now += self.rng.below(200);
        let worked = self.broker.do_work(Nanos(self.now));
        self.note();
        worked.map(|_| ())
    }

    fn publish(&mut self) {
        self.records += 1;
        let topic = topic(1 + self.rng.below(2) as u32);
        let mark = mark(1 + self.rng.below(2) as u32, self.records);
        // The message is recorded before the next call of `do_work`, which may write it.
        match self.broker.publish(topic, mark, &body(topic, mark), Nanos(self.now)) {
            Ok(PublishOutcome::Taken(no)) => {
                self.messages.insert(no, (topic, mark));
            }
            Ok(PublishOutcome::Unwanted) => {}
            Ok(PublishOutcome::Repeated(_)) => panic!("{mark:?} was never published"),
            // A small memory and a slow disk: the producer repeats the message later.
            Err(PublishRefusal::MemoryFull | PublishRefusal::DiskFull) => {}
            Err(refused) => panic!("{refused}"),
        }
        self.note();
    }

    fn make(&mut self) {
        self.names_made += 1;
        let (name, topic) = (name(self.names_made), topic(1 + self.rng.below(2) as u32));
        let after = self.broker.last();
        let change = self.broker.create(&name, topic, None, Nanos(self.now)).unwrap();
        self.making.push((name, topic, after, change));
        self.note();
    }

    fn any_made(&mut self) -> Option<Name> {
        let count = self.promise.made.len() as u64;
        let nth = if count == 0 { return None } else { self.rng.below(count) };
        self.promise.made.keys().nth(nth as usize).cloned()
    }

    fn attach_or_leave(&mut self) {
        let Some(name) = self.any_made() else { return };
        let now = Nanos(self.now);
        if let Some(hold) = self.attached.remove(&name) {
            self.broker.detach(hold, now).unwrap();
        } else {
            let attached = self.broker.attach(&name, now).unwrap();
            self.attached.insert(name, attached.attachment);
        }
        self.note();
    }

    fn take(&mut self) {
        for (name, hold) in self.attached.clone() {
            let (max, acks) = (1 + self.rng.below(8) as usize, self.rng.chance(4, 5));
            let mut got = Vec::new();
            let messages = &self.messages;
            let check = |delivery: weir_broker::Delivery<'_>| {
                let (topic, mark) = messages[&delivery.no];
                assert_eq!((mark, &body(topic, mark)[..]), (delivery.mark, delivery.body));
                got.push(delivery.no);
            };
            let taken = self.broker.take_messages(hold, max, check);
            assert!(matches!(taken, Ok(_) | Err(SubscriptionError::NotAttached)), "{taken:?}");
            self.note();
            let acks = acks && self.attached.contains_key(&name);
            if acks && let Some(last) = got.last() {
                self.promise.taken.insert(name, *last);
                self.note();
                self.broker.ack(hold, *last, Nanos(self.now)).unwrap();
            }
        }
    }

    fn delete(&mut self) {
        let Some(name) = self.any_made() else { return };
        self.promise.made.remove(&name);
        self.note();
        if let Some(hold) = self.attached.remove(&name) {
            self.broker.detach(hold, Nanos(self.now)).unwrap();
        }
        let _saved_later = self.broker.delete(&name).unwrap();
    }

    /// # Errors
    /// If the broker stopped.
    pub(crate) fn step(&mut self) -> Result<(), BrokerError> {
        match self.rng.below(100) {
            0..50 => (0..4).for_each(|_| self.publish()),
            50..75 => self.take(),
            75..90 => self.attach_or_leave(),
            90..92 if self.names_made > 3 => self.delete(),
            _ if self.promise.made.len() + self.making.len() < 4 => self.make(),
            _ => {}
        }
        self.work()
    }

    /// # Errors
    /// If the broker stopped or had no room.
    pub(crate) fn close(&mut self) -> Result<(), BrokerError> {
        let closed = self.broker.close();
        self.note();
        closed
    }
}

/// Opens a crashed disk and compares its state with the promises: `next` is the state that was
/// being reached. Returns the faults found.
pub(crate) fn check_found(
    disk: &SimDisk,
    config: &Config,
    promise: &Promise,
    next: &Promise,
    messages: &BTreeMap<MessageNo, (Topic, OriginMark)>,
) -> Vec<String> {
    let mut config = config.clone();
    // Room for all messages taken without an acknowledgement.
    config.window_max = 1 << 20;
    let (mut broker, _) = match Broker::open(config, disk.clone(), Nanos(1)) {
        Ok(opened) => opened,
        Err(error) => return vec![format!("does not open: {error}")],
    };
    let mut faults = Vec::new();
    for (name, (topic, after)) in &promise.made {
        if !next.made.contains_key(name) {
            continue;
        }
        let hold = match broker.attach(name, Nanos(2)) {
            Ok(attached) => attached.attachment,
            Err(error) => {
                faults.push(error.to_string());
                continue;
            }
        };
        let mut got = Vec::new();
        let mut keep = |delivery: weir_broker::Delivery<'_>| {
            let is_known = messages.get(&delivery.no).is_some_and(|(topic, mark)| {
                *mark == delivery.mark && body(*topic, *mark) == delivery.body
            });
            got.push((delivery.no, is_known));
        };
        while broker.take_messages(hold, usize::MAX, &mut keep).unwrap() > 0 {}
        if got.iter().any(|(no, is_known)| !is_known || *no > next.last) {
            faults.push(format!("{name} got what was not published: {got:?}"));
        }
        if !got.is_sorted_by(|(one, _), (other, _)| one < other) {
            faults.push(format!("{name} got messages out of order: {got:?}"));
        }
        let taken = next.taken.get(name).copied().unwrap_or_default();
        let owed = messages.iter().filter(|(no, (of, _))| {
            of == topic && **no > *after && **no > taken && **no <= promise.acknowledged
        });
        for (no, _) in owed {
            if !got.iter().any(|(known, _)| known == no) {
                faults.push(format!("{name} is owed {no:?}, which was acknowledged"));
            }
        }
    }
    faults
}
