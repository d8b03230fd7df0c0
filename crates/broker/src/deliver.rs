//! Messages out: attach, take messages, acknowledge, detach.
//!
//! A subscriber that keeps up is served from memory. One that is behind reads its parts from disk
//! in order, one part per call. Neither delays other subscribers, except for the time of that one
//! read.

use weir_io::Disk;
use weir_types::Nanos;

use crate::block::open_part;
use crate::broker::Broker;
use crate::error::SubscriptionError;
use crate::name::{MessageNo, Name, OriginMark, OriginMarks, Topic};
use crate::subscription::{LoadedPart, Queue};
use crate::topic::{Extent, TopicState};

/// A client's hold on a subscription; invalid once it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachment {
    id: u32,
    number: u64,
}

/// The result of attaching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachOutcome {
    /// The hold.
    pub attachment: Attachment,
    /// The last message taken: all up to this one are taken.
    pub acked: MessageNo,
    /// The last mark of each source that was taken: the client knows messages up to there already.
    pub taken: OriginMarks,
    /// True when messages may be missing, because an earlier run at a lower level did not end by
    /// closing.
    pub may_have_lost: bool,
}

/// A message on its way to a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// Its number.
    pub no: MessageNo,
    /// Its mark, by which a client recognises a message that it has seen, also across a crash of
    /// the broker.
    pub mark: OriginMark,
    /// The time at which it was published.
    pub at: Nanos,
    /// True when it was delivered before in this run.
    pub is_again: bool,
    /// Its bytes.
    pub body: &'a [u8],
}

/// The location of a subscriber's next message.
enum Next {
    /// In memory.
    Memory,
    /// In the part that was read.
    Loaded,
    /// In a part on disk, not read yet.
    Disk(Extent),
    /// There is none.
    None,
}

impl<D: Disk> Broker<D> {
    /// Attaches to a subscription: its messages come from the first one not taken on.
    ///
    /// # Errors
    /// If there is none, a client is attached, it ended, or it is a token.
    pub fn attach(&mut self, name: &Name, now: Nanos) -> Result<AttachOutcome, SubscriptionError> {
        if self.has_stopped() {
            return Err(SubscriptionError::Stopped);
        }
        self.now = self.now.max(now);
        let id = self.find(name)?;
        self.check_live(id)?;
        let subscription = self.subscriptions[id].as_mut().expect("a name is of a subscription");
        if subscription.is_attached() {
            return Err(SubscriptionError::Attached(name.clone()));
        }
        let Some(queue) = subscription.queue() else {
            return Err(SubscriptionError::OtherKind(name.clone()));
        };
        let (acked, taken) = (queue.acked, queue.taken.clone());
        self.topics.get_mut(&queue.topic).expect("its topic is there").away -= 1;
        self.attachments += 1;
        subscription.attachment = self.attachments;
        let may_have_lost = std::mem::take(&mut subscription.may_have_lost);
        self.saver.changed();
        let id = u32::try_from(id).expect("fewer than 2^32 subscriptions");
        let attachment = Attachment { id, number: self.attachments };
        Ok(AttachOutcome { attachment, acked, taken, may_have_lost })
    }

    /// Ends an attachment. Messages delivered and not acknowledged will be delivered again.
    ///
    /// # Errors
    /// If it has ended already.
    pub fn detach(&mut self, hold: Attachment, now: Nanos) -> Result<(), SubscriptionError> {
        let id = self.held(hold)?;
        self.now = self.now.max(now);
        let now = self.now;
        let subscription = self.at_mut(id);
        subscription.attachment = 0;
        subscription.detached_at = now;
        let queue = subscription.queue_mut().expect("only queues are attached to");
        queue.rewind();
        let topic = queue.topic;
        self.topics.get_mut(&topic).expect("its topic is there").away += 1;
        self.saver.changed();
        Ok(())
    }

    /// Returns the subscription that an attachment holds.
    fn held(&self, hold: Attachment) -> Result<usize, SubscriptionError> {
        let id = hold.id as usize;
        let subscription = self.subscriptions.get(id).and_then(Option::as_ref);
        match subscription {
            Some(subscription) if subscription.attachment == hold.number => Ok(id),
            _ => Err(SubscriptionError::NotAttached),
        }
    }

    /// Delivers the next messages, at most `max` of them and as many as the window leaves; returns
    /// their number. Reads at most one part from disk.
    ///
    /// # Errors
    /// If the attachment has ended, also by an eviction, which [`Broker::attach`] reports.
    pub fn take_messages(
        &mut self,
        hold: Attachment,
        max: usize,
        deliver: impl FnMut(Delivery<'_>),
    ) -> Result<usize, SubscriptionError> {
        self.take_messages_within(hold, max, u64::MAX, deliver)
    }

    /// Delivers like [`Broker::take_messages`], and stops after the message with which the bodies
    /// reach `bytes_max` bytes.
    ///
    /// # Errors
    /// As for [`Broker::take_messages`].
    pub fn take_messages_within(
        &mut self,
        hold: Attachment,
        max: usize,
        bytes_max: u64,
        mut deliver: impl FnMut(Delivery<'_>),
    ) -> Result<usize, SubscriptionError> {
        let id = self.held(hold)?;
        if self.has_stopped() {
            return Err(SubscriptionError::Stopped);
        }
        let (mut count, mut bytes, mut reads) = (0, 0, 0);
        let window_max = self.config.window_max;
        while count < max && bytes < bytes_max {
            let subscription = self.subscriptions[id].as_mut().expect("it is held");
            let queue = subscription.queue_mut().expect("only queues are attached to");
            let room = (max - count).min(window_max.saturating_sub(queue.window.len()));
            if room == 0 {
                break;
            }
            let topic = queue.topic;
            let state = &self.topics[&topic];
            match next_of(queue, state) {
                Next::None => break,
                Next::Memory => {
                    let left = bytes_max - bytes;
                    let (handed, len) = hand_over_resident(queue, state, room, left, &mut deliver);
                    count += handed;
                    bytes += len;
                }
                Next::Loaded => {
                    bytes += hand_over_loaded(queue, &mut deliver);
                    count += 1;
                }
                Next::Disk(_) if reads > 0 => break,
                Next::Disk(extent) => {
                    reads += 1;
                    if !self.load(id, topic, &extent) {
                        break;
                    }
                }
            }
        }
        self.counters.delivered += count as u64;
        Ok(count)
    }

    /// Reads a part for a subscriber; false if it is unreadable and the subscriber was evicted.
    fn load(&mut self, id: usize, topic: Topic, extent: &Extent) -> bool {
        let length = extent.head.length;
        let read = self.spill.read_part(&mut self.disk, extent.file, extent.offset, length);
        let sound = read.ok().and_then(|bytes| {
            let (head, starts) = open_part(&bytes)?;
            (head == extent.head).then_some((bytes, starts))
        });
        let Some((bytes, starts)) = sound else {
            self.lose_part(topic, extent);
            return false;
        };
        self.counters.parts_read += 1;
        let (first_index, bytes_before) = (extent.first_index, extent.bytes_before);
        let loaded = LoadedPart::new(first_index, bytes_before, extent.head, bytes, starts);
        let queue = self.at_mut(id).queue_mut().expect("only queues are attached to");
        queue.loaded = Some(loaded);
        true
    }

    /// Acknowledges all messages up to one that was delivered; returns the number of new ones. A
    /// repeated acknowledgement changes nothing.
    ///
    /// # Errors
    /// If the attachment has ended, or the message was not delivered in it.
    pub fn ack(
        &mut self,
        hold: Attachment,
        upto: MessageNo,
        now: Nanos,
    ) -> Result<u64, SubscriptionError> {
        let id = self.held(hold)?;
        if self.has_stopped() {
            return Err(SubscriptionError::Stopped);
        }
        self.now = self.now.max(now);
        let queue = self.at_mut(id).queue_mut().expect("only queues are attached to");
        let delivered = queue.last_delivered();
        if upto > delivered {
            self.counters.acks_refused += 1;
            return Err(SubscriptionError::AckAhead { acked: upto, delivered });
        }
        let (from, topic) = (queue.acked_index, queue.topic);
        let count = queue.take(upto);
        let to = queue.acked_index;
        if to > from {
            self.topics.get_mut(&topic).expect("its topic is there").advance(from, to);
            self.forget_taken(topic);
            self.saver.changed();
        }
        self.counters.taken += count;
        Ok(count)
    }
}

/// Returns the location of a subscriber's next message.
fn next_of(queue: &mut Queue, state: &TopicState) -> Next {
    if queue.cursor >= state.total {
        queue.loaded = None;
        return Next::None;
    }
    if queue.cursor >= state.resident_first() {
        queue.loaded = None;
        return Next::Memory;
    }
    if queue.loaded.as_ref().is_some_and(|loaded| loaded.holds(queue.cursor)) {
        return Next::Loaded;
    }
    let extent = state.extent_at(queue.cursor).expect("what is wanted is in memory or on disk");
    assert!(extent.first_index <= queue.cursor, "nothing that is wanted is missing");
    Next::Disk(*extent)
}

/// Delivers messages in memory from the cursor on, at most `max` and none after the one that
/// reaches `bytes_max`; returns the messages and the bytes.
fn hand_over_resident(
    queue: &mut Queue,
    state: &TopicState,
    max: usize,
    bytes_max: u64,
    deliver: &mut impl FnMut(Delivery<'_>),
) -> (usize, u64) {
    let (mut count, mut bytes) = (0, 0);
    while count < max && bytes < bytes_max {
        let Some(message) = state.resident(queue.cursor) else { break };
        let &crate::topic::Message { no, mark, times, bytes_before, ref body } = message;
        let at = times.stamp;
        let len = body.len() as u64;
        let is_again = queue.deliver(no, mark, bytes_before + len);
        deliver(Delivery { no, mark, at, is_again, body });
        (count, bytes) = (count + 1, bytes + len);
    }
    assert!(count > 0, "a message is in memory");
    (count, bytes)
}

/// Delivers one message of a part that was read; returns its bytes.
fn hand_over_loaded(queue: &mut Queue, deliver: &mut impl FnMut(Delivery<'_>)) -> u64 {
    let mut loaded = queue.loaded.take().expect("it was read");
    let (message, bytes_before) = loaded.message(queue.cursor);
    let len = message.body.len() as u64;
    let is_again = queue.deliver(message.no, message.mark, bytes_before + len);
    let crate::block::StoredMessage { no, mark, at, body } = message;
    deliver(Delivery { no, mark, at, is_again, body });
    queue.loaded = Some(loaded);
    len
}
