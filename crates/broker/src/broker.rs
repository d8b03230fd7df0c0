//! The broker: messages in, the state of acknowledgements, and the duty cycle.
//!
//! A state machine of one thread: time comes with each call, the disk is the only effect. Nothing
//! blocks except `open`, `close`, and reading a part for a subscriber that is behind.
//!
//! INVARIANT: all times but the stamps of messages are served time: that for which the broker was
//! open, in all runs. So neither a wall clock that is set nor a time out of service makes a message
//! or a subscription older.
//!
//! The fate of a message:
//!
//! | | at `memory` | at `os`, `disk` |
//! | --- | --- | --- |
//! | every subscriber took it | dropped | dropped, and acknowledged if it was not written |
//! | a subscriber is away | kept in memory | written at once, then acknowledged |
//! | all are attached, not taken within `hold` | kept in memory | written, then acknowledged |
//! | memory is half full | written in a large block, then only on disk | only on disk |

use std::collections::{BTreeMap, VecDeque};

use weir_io::{Completion, Disk};
use weir_types::{Durability, Nanos};

use crate::config::{Config, MESSAGE_BYTES_MAX, OnFull};
use crate::error::{BrokerError, EvictReason, PublishRefusal};
use crate::name::{MessageNo, Name, OriginMark, OriginMarks, Source, Topic};
use crate::plant::{self, Plant};
use crate::saver::{Change, Saver};
use crate::spill::Spill;
use crate::subscription::Subscription;
use crate::topic::{MESSAGE_OVERHEAD, TopicState};

/// The outcome of publishing a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum PublishOutcome {
    /// It has this number; it is acknowledged when [`Broker::acknowledged`] reaches it.
    Taken(MessageNo),
    /// Its mark was published before; that message is acknowledged when this number is reached.
    Repeated(MessageNo),
    /// The topic has no subscription: there is nothing to keep.
    Unwanted,
}

/// The times at which a message is published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishTimes {
    /// Served time, by which it grows old.
    pub now: Nanos,
    /// The time that its subscribers are told.
    pub stamp: Nanos,
}

impl From<Nanos> for PublishTimes {
    fn from(now: Nanos) -> PublishTimes {
        PublishTimes { now, stamp: now }
    }
}

/// A change of a subscription that its client did not cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It was evicted.
    Evicted {
        /// The subscription.
        name: Name,
        /// The reason.
        reason: EvictReason,
    },
    /// No client attached for too long.
    Expired {
        /// The subscription.
        name: Name,
    },
}

/// A broker's counters of this run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages taken from producers.
    pub published: u64,
    /// Messages whose mark had been published before.
    pub repeated: u64,
    /// Messages of topics without a subscription.
    pub unwanted: u64,
    /// Messages refused.
    pub refused: u64,
    /// Deliveries, repeated ones included.
    pub delivered: u64,
    /// Deliveries acknowledged.
    pub taken: u64,
    /// Acknowledgements refused, of messages that were not delivered.
    pub acks_refused: u64,
    /// Messages written to disk.
    pub written: u64,
    /// Blocks written, moved ones included.
    pub blocks: u64,
    /// Bytes of blocks written, moved ones included.
    pub block_bytes: u64,
    /// Bytes of parts that were written a second time to empty a file.
    pub moved_bytes: u64,
    /// Parts read from disk for subscribers.
    pub parts_read: u64,
    /// Files removed.
    pub files_removed: u64,
    /// Times that the table was saved.
    pub tables: u64,
    /// Times that the disk was found full.
    pub full: u64,
    /// Times that no descriptor was free for a spill file.
    pub no_descriptor: u64,
    /// Subscriptions evicted.
    pub evicted: u64,
    /// Subscriptions expired.
    pub expired: u64,
}

/// The messages and files that a broker holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Messages in memory.
    pub messages: u64,
    /// Bytes that they take in memory, overhead included.
    pub memory_bytes: u64,
    /// Bytes of spill files.
    pub disk_bytes: u64,
    /// Of these, bytes of parts that a subscription wants.
    pub wanted_bytes: u64,
    /// Spill files.
    pub files: u64,
    /// Live subscriptions that are due to expire and have their time of grace.
    pub lapsing: u64,
}

/// A message that is neither written nor taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) no: MessageNo,
    pub(crate) topic: Topic,
    pub(crate) index: u64,
    pub(crate) at: Nanos,
}

/// The remaining need of a message in the queue of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// None: every subscription took it.
    Taken,
    /// This change must be saved: the end of the last subscription that wanted it.
    Ended(u64),
    /// It must be written or taken.
    Wanted,
}

/// The broker: messages in, acknowledgements, and the duty cycle.
pub struct Broker<D> {
    pub(crate) disk: D,
    pub(crate) config: Config,
    pub(crate) run: u32,
    pub(crate) last: MessageNo,
    pub(crate) acknowledged: MessageNo,
    pub(crate) topics: BTreeMap<Topic, TopicState>,
    pub(crate) subscriptions: Vec<Option<Subscription>>,
    pub(crate) names: BTreeMap<Name, u32>,
    pub(crate) attachments: u64,
    // INVARIANT: in order of number; a message that is in neither `arrivals`, `ended` nor the block
    // being sent is written or not wanted.
    pub(crate) arrivals: VecDeque<Arrival>,
    /// The first message given up with a subscription, by the change that ends the subscription.
    pub(crate) ended: BTreeMap<u64, MessageNo>,
    /// Messages on disk that may still be in memory: those of the topic before the index. The
    /// number is that of the last of them.
    pub(crate) written: VecDeque<(Topic, u64, MessageNo)>,
    pub(crate) written_look: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) memory_messages: u64,
    pub(crate) spill: Spill,
    pub(crate) saver: Saver,
    /// The place of each source that keeps its messages until they are settled.
    pub(crate) places: OriginMarks,
    pub(crate) now: Nanos,
    pub(crate) opened_at: Nanos,
    pub(crate) sweep_at: Nanos,
    /// The last time at which served time alone had the table saved.
    pub(crate) noted_at: Nanos,
    pub(crate) lapsing_count: u64,
    /// The time at which a full disk is tried again.
    pub(crate) full_until: Option<Nanos>,
    /// The time at which a spill file that found no descriptor is begun again.
    pub(crate) no_file_until: Option<Nanos>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) counters: Counters,
    pub(crate) failed: Option<BrokerError>,
    /// True while everything wanted is written in order to close.
    pub(crate) is_settling: bool,
    pub(crate) is_closed: bool,
    pub(crate) reaped: Vec<Completion>,
}

impl<D: Disk> Broker<D> {
    /// Takes a message from a producer. Never waits.
    ///
    /// # Errors
    /// If the message or its mark is invalid, or there is no room: nothing was changed then.
    pub fn publish(
        &mut self,
        topic: Topic,
        mark: OriginMark,
        body: &[u8],
        times: impl Into<PublishTimes>,
    ) -> Result<PublishOutcome, PublishRefusal> {
        let published = self.take(topic, mark, body, times.into());
        match published {
            Ok(PublishOutcome::Taken(_)) => self.counters.published += 1,
            Ok(PublishOutcome::Repeated(_)) => self.counters.repeated += 1,
            Ok(PublishOutcome::Unwanted) => self.counters.unwanted += 1,
            Err(_) => self.counters.refused += 1,
        }
        published
    }

    fn take(
        &mut self,
        topic: Topic,
        mark: OriginMark,
        body: &[u8],
        times: PublishTimes,
    ) -> Result<PublishOutcome, PublishRefusal> {
        if self.has_stopped() {
            return Err(PublishRefusal::Stopped);
        }
        if body.len() > MESSAGE_BYTES_MAX {
            return Err(PublishRefusal::TooLong { bytes: body.len(), max: MESSAGE_BYTES_MAX });
        }
        self.now = self.now.max(times.now);
        let Some(state) = self.topics.get(&topic) else { return Ok(PublishOutcome::Unwanted) };
        if !state.has_subscribers() {
            let change = state.ending_change();
            return Ok(self.take_for_nobody(change));
        }
        if let Some(last) = state.marks.of(mark.source) {
            if mark.epoch < last.epoch {
                return Err(PublishRefusal::EpochBack { last });
            }
            if !mark.follows(&last) {
                return Ok(PublishOutcome::Repeated(self.last));
            }
        }
        self.make_room(body.len() as u64 + MESSAGE_OVERHEAD)?;
        // Making room may have ended the last subscription that wanted it.
        let state = self.topics.get_mut(&topic).expect("a topic stays until a table is saved");
        if !state.has_subscribers() {
            let change = state.ending_change();
            return Ok(self.take_for_nobody(change));
        }
        self.last = MessageNo(self.last.0 + 1);
        let (no, at, index) = (self.last, self.now, state.total);
        state.marks.advance(mark);
        let times = match plant::is(Plant::AgedByStamp) {
            true => PublishTimes::from(times.stamp),
            false => PublishTimes { now: at, ..times },
        };
        self.memory_bytes += state.push(no, mark, times, body);
        self.memory_messages += 1;
        self.arrivals.push_back(Arrival { no, topic, index, at });
        if self.config.durability == Durability::Memory {
            self.acknowledged = no;
        }
        Ok(PublishOutcome::Taken(no))
    }

    /// Takes a message that no live subscription wants. Until the end of the last one is saved, a
    /// crash may bring that subscription back: the message is not acknowledged before.
    fn take_for_nobody(&mut self, change: u64) -> PublishOutcome {
        if change == 0 {
            return PublishOutcome::Unwanted;
        }
        self.last = MessageNo(self.last.0 + 1);
        self.note_ended(self.last, change);
        PublishOutcome::Taken(self.last)
    }

    /// Delays the acknowledgement of a message until a change of the table is saved. Messages do
    /// not come here in the order of their numbers: one without a live subscription is never
    /// queued.
    fn note_ended(&mut self, no: MessageNo, change: u64) {
        let first = self.ended.entry(change).or_insert(no);
        if !plant::is(Plant::EndsTakenInOrder) {
            *first = no.min(*first);
        }
    }

    /// Makes room in memory, by ending subscriptions if the configuration allows it.
    fn make_room(&mut self, bytes: u64) -> Result<(), PublishRefusal> {
        while self.memory_bytes + bytes > self.config.memory_bytes_max {
            self.drop_written(self.config.memory_bytes_max - bytes);
            if self.memory_bytes + bytes <= self.config.memory_bytes_max {
                break;
            }
            let is_full = self.full_until.is_some();
            let refused =
                if is_full { PublishRefusal::DiskFull } else { PublishRefusal::MemoryFull };
            if self.config.on_full == OnFull::Refuse {
                return Err(refused);
            }
            let reason = if is_full { EvictReason::DiskFull } else { EvictReason::MemoryFull };
            let victim = self.furthest_behind(|state, bytes| {
                state.total_bytes - bytes.max(state.bytes_before_memory())
            });
            self.evict_at(victim.ok_or(refused)?, reason);
        }
        Ok(())
    }

    /// Drops messages in memory that are on disk, oldest first, until at most `bytes` are in use.
    pub(crate) fn drop_written(&mut self, bytes: u64) {
        while let Some((topic, end, no)) = self.written.front().copied() {
            let is_there = self.is_in_memory(topic, end, no);
            if is_there && self.memory_bytes <= bytes {
                break;
            }
            if is_there {
                self.forget(topic, end);
            }
            self.written.pop_front();
        }
        if self.written.len() > self.written_look {
            let mut written = std::mem::take(&mut self.written);
            written.retain(|(topic, end, no)| self.is_in_memory(*topic, *end, *no));
            self.written_look = (2 * written.len()).max(1024);
            self.written = written;
        }
    }

    /// True when the last message before an index is in memory and has this number.
    fn is_in_memory(&self, topic: Topic, end: u64, no: MessageNo) -> bool {
        let message = self.topics.get(&topic).and_then(|state| state.resident(end - 1));
        message.is_some_and(|message| message.no == no)
    }

    /// Drops a topic's messages in memory before an index.
    pub(crate) fn forget(&mut self, topic: Topic, index: u64) {
        if let Some(state) = self.topics.get_mut(&topic) {
            let (count, freed) = state.drop_resident(index);
            self.memory_messages -= count;
            self.memory_bytes -= freed;
        }
    }

    /// Drops the messages of a topic that no subscription wants, in memory and on disk.
    pub(crate) fn forget_taken(&mut self, topic: Topic) {
        let Some(state) = self.topics.get_mut(&topic) else { return };
        let floor = state.floor();
        while let Some(extent) = state.pop_dead_extent() {
            self.spill.unwant(extent.file, u64::from(extent.head.length));
        }
        self.forget(topic, floor);
    }

    pub(crate) fn fate(&self, arrival: &Arrival) -> Fate {
        let Some(state) = self.topics.get(&arrival.topic) else { return Fate::Taken };
        match state.resident(arrival.index) {
            Some(message) if message.no == arrival.no => Fate::Wanted,
            // No live subscription wants it; a topic dropped meanwhile has no ends to save.
            _ if state.ending_change() > 0 => Fate::Ended(state.ending_change()),
            _ => Fate::Taken,
        }
    }

    /// Removes arrivals that need no writing from the front.
    pub(crate) fn pass_taken(&mut self) {
        while let Some(arrival) = self.arrivals.front().copied() {
            match self.fate(&arrival) {
                Fate::Wanted => break,
                Fate::Taken => {}
                Fate::Ended(change) => self.note_ended(arrival.no, change),
            }
            self.arrivals.pop_front();
        }
        // A message that stays in front must not hold the taken ones behind it.
        let wanted_max = usize::try_from(self.memory_messages).expect("they are in memory");
        if self.arrivals.len() > 2 * wanted_max + 1024 {
            let mut arrivals = std::mem::take(&mut self.arrivals);
            arrivals.retain(|arrival| self.fate(arrival) != Fate::Taken);
            self.arrivals = arrivals;
        }
    }

    /// Returns the number up to which all messages are acknowledged: each has been taken by every
    /// subscription that wants it, or has the configured durability. Advances in
    /// [`Broker::do_work`].
    #[must_use]
    pub fn acknowledged(&self) -> MessageNo {
        self.acknowledged
    }

    pub(crate) fn acknowledge(&mut self) {
        if self.config.durability == Durability::Memory {
            self.acknowledged = self.last;
            return;
        }
        let saved = self.saver.saved();
        self.ended.retain(|change, _| *change > saved);
        self.acknowledged = self.acknowledged.max(self.settled());
    }

    /// Returns the number up to which each message is on disk, or was taken by every subscription
    /// that wants it, whatever level is configured: a crash of the process takes none of them.
    #[must_use]
    pub fn settled(&self) -> MessageNo {
        let saved = self.saver.saved();
        let arrived = self.arrivals.front().map(|arrival| arrival.no);
        let ended = self.ended.range(saved + 1..).map(|(_, no)| *no).min();
        let ended = ended.filter(|_| !plant::is(Plant::AckBeforeEndSaved));
        let sent = self.spill.sent.as_ref().filter(|sent| !sent.is_moved);
        let sent = sent.and_then(|sent| sent.parts.iter().map(|part| part.head.first).min());
        let sent = sent.filter(|_| !plant::is(Plant::AckBeforeWrite));
        let open = [arrived, ended, sent].into_iter().flatten().min();
        open.map_or(self.last, |no| MessageNo(no.0 - 1))
    }

    /// Records the place of a source up to which all messages are [settled](Broker::settled). A
    /// crash brings back the place that was saved last, so the source must keep everything behind
    /// the place before until this change [is saved](Broker::is_saved).
    pub fn note_place(&mut self, place: OriginMark) -> Change {
        self.places.set(place);
        // Whatever subscription comes first is saved with the place of then.
        if self.names.is_empty() { Change::default() } else { self.saver.changed() }
    }

    /// Returns the place of a source that was recorded last, in this run or the one before.
    #[must_use]
    pub fn place_of(&self, source: Source) -> Option<OriginMark> {
        self.places.of(source)
    }

    /// Drops the places of all other sources than these; returns the dropped ones. A table with one
    /// place at most is one that programs from before several places read, once both slots are
    /// written again: at the latest after a clean close.
    pub fn keep_places(&mut self, is_kept: impl Fn(Source) -> bool) -> Vec<OriginMark> {
        let dropped = self.places.take_if(|source| !is_kept(source));
        if !dropped.is_empty() {
            self.saver.changed_now();
        }
        dropped
    }

    /// Records that subscriptions of these topics may have lost messages: their next clients are
    /// told. Returns the number of subscriptions.
    pub fn note_loss(&mut self, is_of: impl Fn(Topic) -> bool) -> usize {
        let mut count = 0;
        for subscription in self.subscriptions.iter_mut().flatten() {
            if subscription.live_queue().is_some_and(|queue| is_of(queue.topic)) {
                subscription.may_have_lost = true;
                count += 1;
            }
        }
        if count > 0 {
            self.saver.changed_now();
        }
        count
    }

    /// Runs one cycle: writes, syncs, quotas, expiry, the table. Returns the amount of work done;
    /// never waits.
    ///
    /// # Errors
    /// [`BrokerError`] if the disk failed. The broker has stopped then: it takes and acknowledges
    /// nothing more.
    pub fn do_work(&mut self, now: Nanos) -> Result<usize, BrokerError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.now = self.now.max(now);
        let worked = self.cycle();
        match &worked {
            Ok(_) => self.acknowledge(),
            Err(error) => self.failed = Some(error.clone()),
        }
        worked
    }

    /// True when the broker takes nothing more.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.failed.is_some() || self.is_closed
    }

    /// True when the disk was found full and the broker waits for room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full_until.is_some()
    }

    /// True when a spill file found no descriptor and the broker waits for one.
    #[must_use]
    pub fn lacks_descriptor(&self) -> bool {
        self.no_file_until.is_some()
    }

    /// True when no disk operation is in progress.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.disk.in_flight() == 0 && self.spill.sent.is_none() && self.spill.removals.is_empty()
    }

    /// Waits until a disk operation has finished; returns at once if none is in progress.
    pub fn wait(&mut self) {
        self.disk.wait();
    }

    /// Returns the newest mark of a source in a topic: its producer goes on from there after a
    /// restart.
    #[must_use]
    pub fn last_mark(&self, topic: Topic, source: Source) -> Option<OriginMark> {
        self.topics.get(&topic)?.marks.of(source)
    }

    /// True when a subscription may want a topic's messages: a live one, or one whose end is not
    /// saved.
    #[must_use]
    pub fn knows(&self, topic: Topic) -> bool {
        self.topics.contains_key(&topic)
    }

    /// Returns the number of subscriptions, ended ones included.
    #[must_use]
    pub fn subscription_count(&self) -> u64 {
        self.names.len() as u64
    }

    /// Returns the notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Returns the counters of this run.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the messages and files held now.
    #[must_use]
    pub fn holdings(&self) -> Holdings {
        Holdings {
            messages: self.memory_messages,
            memory_bytes: self.memory_bytes,
            disk_bytes: self.spill.bytes(),
            wanted_bytes: self.spill.files.values().map(|file| file.wanted).sum(),
            files: self.spill.files.len() as u64,
            lapsing: self.lapsing_count,
        }
    }

    /// Returns served time as of the last call: at an opening that which the runs before reached,
    /// as far as the disk tells.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Returns the run's number, from 1.
    #[must_use]
    pub fn run(&self) -> u32 {
        self.run
    }
}
