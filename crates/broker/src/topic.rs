//! A topic's queue: messages in memory, parts on disk, and the subscriptions that still need them.
//!
//! Messages have a dense index within the topic and the run, so that a subscriber's next one is
//! found without a search. INVARIANT: the messages in memory are a suffix of the topic; a wanted
//! message that is not in memory is in a part on disk.

use std::collections::{BTreeMap, VecDeque};

use weir_types::Nanos;

use crate::block::PartHeader;
use crate::broker::PublishTimes;
use crate::name::{MessageNo, OriginMark, OriginMarks};
use crate::plant::{self, Plant};

/// Bytes that a message takes in memory besides its body: its own record, its entries in the
/// broker's queues, and the allocator's overhead.
pub(crate) const MESSAGE_OVERHEAD: u64 = 168;

/// A message in memory.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) no: MessageNo,
    pub(crate) mark: OriginMark,
    pub(crate) times: PublishTimes,
    pub(crate) bytes_before: u64,
    pub(crate) body: Box<[u8]>,
}

impl Message {
    pub(crate) fn memory(&self) -> u64 {
        self.body.len() as u64 + MESSAGE_OVERHEAD
    }
}

/// A part on disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) first_index: u64,
    pub(crate) bytes_before: u64,
    pub(crate) head: PartHeader,
    pub(crate) file: u64,
    pub(crate) offset: u64,
}

impl Extent {
    pub(crate) fn end_index(&self) -> u64 {
        self.first_index + u64::from(self.head.count)
    }
}

/// A topic with subscriptions.
#[derive(Debug, Default)]
pub(crate) struct TopicState {
    /// The index of the next message, and the bytes of all bodies before it.
    pub(crate) total: u64,
    pub(crate) total_bytes: u64,
    resident: VecDeque<Message>,
    resident_first: u64,
    pub(crate) extents: VecDeque<Extent>,
    /// The number of live subscriptions by the first index that they want.
    wants: BTreeMap<u64, u32>,
    /// Ended subscriptions whose end is not saved yet: the change to be saved, and the first index
    /// wanted.
    ending: Vec<(u64, u64)>,
    /// Live subscriptions without an attached client.
    pub(crate) away: u32,
    pub(crate) marks: OriginMarks,
}

impl TopicState {
    /// Returns the first index that a live subscription wants.
    pub(crate) fn floor(&self) -> u64 {
        self.wants.first_key_value().map_or(self.total, |(index, _)| *index)
    }

    /// Returns the first index wanted after a crash now: ends that are not saved do not count.
    pub(crate) fn saved_floor(&self) -> u64 {
        self.ending.iter().map(|(_, index)| *index).fold(self.floor(), u64::min)
    }

    /// True when there is a subscription, or was one when the table was saved.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.wants.is_empty() || !self.ending.is_empty()
    }

    pub(crate) fn has_subscribers(&self) -> bool {
        !self.wants.is_empty()
    }

    /// Returns the change of the table after which nothing more is wanted for ended subscriptions.
    pub(crate) fn ending_change(&self) -> u64 {
        self.ending.iter().map(|(change, _)| *change).max().unwrap_or(0)
    }

    pub(crate) fn want(&mut self, index: u64) {
        *self.wants.entry(index).or_default() += 1;
    }

    fn unwant(&mut self, index: u64) {
        let count = self.wants.get_mut(&index).expect("a subscription wants what it wanted");
        *count -= 1;
        if *count == 0 {
            self.wants.remove(&index);
        }
    }

    /// Moves a subscription that took all messages before `to`.
    pub(crate) fn advance(&mut self, from: u64, to: u64) {
        self.want(to);
        self.unwant(from);
    }

    /// Ends a subscription by a change of the table that is not saved yet.
    pub(crate) fn end(&mut self, index: u64, change: u64) {
        self.unwant(index);
        self.ending.push((change, index));
    }

    /// Drops the ended subscriptions whose changes, up to this one, are saved.
    pub(crate) fn saved(&mut self, change: u64) {
        self.ending.retain(|(ended, _)| *ended > change);
    }

    /// Appends a message; returns the bytes that it takes in memory.
    pub(crate) fn push(
        &mut self,
        no: MessageNo,
        mark: OriginMark,
        times: PublishTimes,
        body: &[u8],
    ) -> u64 {
        if self.resident.is_empty() {
            self.resident_first = self.total;
        }
        let bytes_before = self.total_bytes;
        let message = Message { no, mark, times, bytes_before, body: body.into() };
        let memory = message.memory();
        self.total += 1;
        self.total_bytes += body.len() as u64;
        self.resident.push_back(message);
        memory
    }

    /// Returns the first index in memory.
    pub(crate) fn resident_first(&self) -> u64 {
        if self.resident.is_empty() { self.total } else { self.resident_first }
    }

    pub(crate) fn resident(&self, index: u64) -> Option<&Message> {
        let at = index.checked_sub(self.resident_first)?;
        self.resident.get(usize::try_from(at).ok()?)
    }

    /// Drops the messages in memory before `index`; returns their number and the bytes freed.
    pub(crate) fn drop_resident(&mut self, index: u64) -> (u64, u64) {
        let (mut count, mut freed) = (0, 0);
        while self.resident_first < index
            && let Some(message) = self.resident.pop_front()
        {
            self.resident_first += 1;
            count += 1;
            freed += message.memory();
        }
        (count, freed)
    }

    /// Removes the first part if no subscription wants it any more.
    pub(crate) fn pop_dead_extent(&mut self) -> Option<Extent> {
        let floor = match plant::is(Plant::ReclaimedTooEarly) {
            true => self.floor(),
            false => self.saved_floor(),
        };
        let is_dead = self.extents.front().is_some_and(|extent| extent.end_index() <= floor);
        if is_dead { self.extents.pop_front() } else { None }
    }

    /// Returns the part on disk with `index`, or the first one after it.
    pub(crate) fn extent_at(&self, index: u64) -> Option<&Extent> {
        let at = self.extents.partition_point(|extent| extent.end_index() <= index);
        self.extents.get(at)
    }

    pub(crate) fn extent_mut(&mut self, first_index: u64) -> Option<&mut Extent> {
        let at = self.extents.partition_point(|extent| extent.first_index < first_index);
        self.extents.get_mut(at).filter(|extent| extent.first_index == first_index)
    }

    /// Returns the bytes of all bodies before the first one in memory.
    pub(crate) fn bytes_before_memory(&self) -> u64 {
        self.resident.front().map_or(self.total_bytes, |message| message.bytes_before)
    }

    /// Returns the served time at which the message at `index` was published. For a message in a
    /// part on disk it is the time of the part's last message, which is never too early.
    pub(crate) fn published_at(&self, index: u64) -> Option<Nanos> {
        if let Some(message) = self.resident(index) {
            return Some(message.times.now);
        }
        let extent = self.extent_at(index)?;
        let is_first = index <= extent.first_index;
        Some(if is_first { extent.head.first_at } else { extent.head.last_at })
    }
}
