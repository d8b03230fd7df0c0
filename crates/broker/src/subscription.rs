//! A subscription in the broker's memory, and its listing.
//!
//! A queue has a cursor for the next delivery and a window of deliveries not acknowledged. When the
//! attachment ends, both go back to the last message taken, so that the others are delivered again.

use std::collections::VecDeque;

use weir_types::Nanos;

use crate::block::{PartHeader, StoredMessage, message_at};
use crate::config::Quota;
use crate::name::{MessageNo, Name, OriginMark, OriginMarks, Topic};
use crate::plant::{self, Plant};
use crate::table::{ATTACHED, Row, RowKind, Status};

/// A message that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeliveredMessage {
    no: MessageNo,
    mark: OriginMark,
    bytes_end: u64,
}

/// A part that was read from disk for one subscriber.
#[derive(Debug)]
pub(crate) struct LoadedPart {
    first_index: u64,
    bytes_before: u64,
    head: PartHeader,
    bytes: Vec<u8>,
    starts: Vec<u32>,
    /// A cached position: an index, and the bytes of all bodies before it.
    passed: (u64, u64),
}

impl LoadedPart {
    pub(crate) fn new(
        first_index: u64,
        bytes_before: u64,
        head: PartHeader,
        bytes: Vec<u8>,
        starts: Vec<u32>,
    ) -> LoadedPart {
        let passed = (first_index, bytes_before);
        LoadedPart { first_index, bytes_before, head, bytes, starts, passed }
    }

    pub(crate) fn holds(&self, index: u64) -> bool {
        (self.first_index..self.first_index + u64::from(self.head.count)).contains(&index)
    }

    /// Returns the message at an index, and the bytes of all bodies before it in the topic.
    pub(crate) fn message(&mut self, index: u64) -> (StoredMessage<'_>, u64) {
        let known = |at: u32| {
            message_at(&self.bytes, at as usize).expect("the part was sound in all its messages")
        };
        if self.passed.0 > index {
            self.passed = (self.first_index, self.bytes_before);
        }
        while self.passed.0 < index {
            let at = self.starts[(self.passed.0 - self.first_index) as usize];
            self.passed = (self.passed.0 + 1, self.passed.1 + known(at).body.len() as u64);
        }
        (known(self.starts[(index - self.first_index) as usize]), self.passed.1)
    }
}

/// A subscription to messages.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) topic: Topic,
    pub(crate) acked: MessageNo,
    pub(crate) taken: OriginMarks,
    /// The first index that is not taken, and the bytes of all bodies before it.
    pub(crate) acked_index: u64,
    pub(crate) acked_bytes: u64,
    /// The index to deliver next.
    pub(crate) cursor: u64,
    /// The end of the first deliveries: messages before it were delivered in this run already.
    pub(crate) delivered_end: u64,
    pub(crate) window: VecDeque<DeliveredMessage>,
    pub(crate) loaded: Option<LoadedPart>,
}

impl Queue {
    pub(crate) fn new(topic: Topic, acked: MessageNo, taken: OriginMarks) -> Queue {
        Queue {
            topic,
            acked,
            taken,
            acked_index: 0,
            acked_bytes: 0,
            cursor: 0,
            delivered_end: 0,
            window: VecDeque::new(),
            loaded: None,
        }
    }

    /// Sets the queue's position to an index of its topic.
    pub(crate) fn put_at(&mut self, index: u64, bytes: u64) {
        (self.acked_index, self.acked_bytes, self.cursor) = (index, bytes, index);
    }

    /// Records a delivery; returns true if the message was delivered before in this run.
    pub(crate) fn deliver(&mut self, no: MessageNo, mark: OriginMark, bytes_end: u64) -> bool {
        self.window.push_back(DeliveredMessage { no, mark, bytes_end });
        self.cursor += 1;
        let is_again = self.cursor <= self.delivered_end;
        self.delivered_end = self.delivered_end.max(self.cursor);
        is_again
    }

    /// Returns the last message delivered in this attachment, or the last one taken.
    pub(crate) fn last_delivered(&self) -> MessageNo {
        self.window.back().map_or(self.acked, |delivered| delivered.no)
    }

    /// Takes all messages delivered up to one; returns their number.
    pub(crate) fn take(&mut self, upto: MessageNo) -> u64 {
        let mut count = 0;
        while let Some(delivered) = self.window.front()
            && delivered.no <= upto
        {
            self.acked = delivered.no;
            self.acked_bytes = delivered.bytes_end;
            self.taken.advance(delivered.mark);
            self.window.pop_front();
            count += 1;
        }
        self.acked_index = self.cursor - self.window.len() as u64;
        count
    }

    /// Returns the last message taken, for the saved table.
    fn saved_acked(&self) -> MessageNo {
        if plant::is(Plant::CursorSavedAhead) {
            self.last_delivered()
        } else if plant::is(Plant::CursorNotSaved) {
            MessageNo(self.acked.0.saturating_sub(3))
        } else {
            self.acked
        }
    }

    /// Drops deliveries that were not taken: their messages will be delivered again.
    pub(crate) fn rewind(&mut self) {
        if plant::is(Plant::DeliveredCountsAsTaken) {
            self.take(self.last_delivered());
        }
        self.window = VecDeque::new();
        self.loaded = None;
        self.cursor = self.acked_index;
    }
}

/// The kind of a subscription.
#[derive(Debug)]
pub(crate) enum Kind {
    Queue(Box<Queue>),
    Token(Vec<u8>),
}

/// A subscription.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) name: Name,
    pub(crate) kind: Kind,
    pub(crate) status: Status,
    pub(crate) quota: Quota,
    pub(crate) expire_after: Nanos,
    /// The number of the present attachment; zero if no client is attached.
    pub(crate) attachment: u64,
    pub(crate) detached_at: Nanos,
    pub(crate) created_by: u32,
    pub(crate) may_have_lost: bool,
}

impl Subscription {
    pub(crate) fn from_row(row: Row) -> Subscription {
        let kind = match row.kind {
            RowKind::Token(token) => Kind::Token(token),
            RowKind::Queue { topic, acked, taken } => {
                Kind::Queue(Box::new(Queue::new(topic, acked, taken)))
            }
        };
        Subscription {
            name: row.name,
            kind,
            status: row.status,
            quota: row.quota,
            expire_after: row.expire_after,
            attachment: 0,
            detached_at: row.detached_at,
            created_by: row.created_by,
            may_have_lost: row.may_have_lost,
        }
    }

    /// Returns the subscription's row in the table.
    pub(crate) fn row(&self) -> Row {
        let kind = match &self.kind {
            Kind::Token(token) => RowKind::Token(token.clone()),
            Kind::Queue(queue) => RowKind::Queue {
                topic: queue.topic,
                acked: queue.saved_acked(),
                taken: queue.taken.clone(),
            },
        };
        Row {
            name: self.name.clone(),
            kind,
            status: match self.status {
                Status::Evicted(_) if plant::is(Plant::EvictionNotSaved) => Status::Live,
                status => status,
            },
            quota: self.quota,
            expire_after: self.expire_after,
            detached_at: if self.is_attached() { ATTACHED } else { self.detached_at },
            created_by: self.created_by,
            may_have_lost: self.may_have_lost,
        }
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.attachment > 0
    }

    pub(crate) fn queue(&self) -> Option<&Queue> {
        match &self.kind {
            Kind::Queue(queue) => Some(queue),
            Kind::Token(_) => None,
        }
    }

    /// Returns the queue of a subscription that still gets messages.
    pub(crate) fn live_queue(&self) -> Option<&Queue> {
        if self.status == Status::Live { self.queue() } else { None }
    }

    pub(crate) fn queue_mut(&mut self) -> Option<&mut Queue> {
        match &mut self.kind {
            Kind::Queue(queue) => Some(queue),
            Kind::Token(_) => None,
        }
    }
}

/// The lag of a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Messages not taken.
    pub messages: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Of these, the bytes that are on disk and no longer in memory.
    pub spilled_bytes: u64,
    /// The age of the oldest one; for one on disk, at most a block's span too low.
    pub age: Nanos,
}

/// A subscription in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSubscription {
    /// Its row in the table.
    pub row: Row,
    /// True when a client is attached.
    pub is_attached: bool,
    /// Its lag.
    pub lag: Lag,
}
