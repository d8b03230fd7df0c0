//! Drop copy's state: the records of each topic, and the cursor of each stream of copies.
//!
//! A feed here is a topic that can be copied: the reports to one firm's sessions, or all of a
//! partition. An addressed event is added to the topic of all and to its firm's, with or without
//! streams, so that a stream can begin at any retained record. A stream has no buffer: it keeps the
//! index of its next record, and unsent records stay in the event log.
//!
//! INVARIANT: a stream that is not behind has had every record of its feed and port.

use std::collections::{BTreeMap, VecDeque};

use weir_door::ConnectionId;
use weir_door::seeded_map::{MapOrder, SeededMap};
use weir_partition::event_reader::PastEvents;
use weir_partition::record_index::{ALL_FACTOR, RecordIndex};
use weir_types::{FirmId, Nanos, PartitionId, SessionId};

/// The topic of all addressed events. The others belong to firms.
pub(super) const ALL: usize = 0;

/// The identity of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StreamKey {
    pub(super) topic: usize,
    pub(super) port: usize,
    /// The session that receives it.
    pub(super) session_id: SessionId,
    /// The firm as requested.
    pub(super) firm_id: FirmId,
}

/// A stream of copies.
pub(super) struct CopyStream {
    pub(super) key: StreamKey,
    pub(super) partition_id: PartitionId,
    pub(super) connection: ConnectionId,
    /// The index of the next record to send.
    pub(super) next_place: u64,
    /// The record before that; zero for none.
    pub(super) previous: u64,
    /// The time of the last message on it.
    pub(super) told_at: Nanos,
    pub(super) is_behind: bool,
    /// Its reader while it is behind.
    pub(super) past: Option<Box<PastEvents>>,
}

impl CopyStream {
    /// Records that the stream's next record is sent.
    #[inline]
    pub(super) fn sent(&mut self, record: u64, now: Nanos) {
        self.next_place += 1;
        self.previous = record;
        self.told_at = now;
    }
}

/// A topic's part of one port.
pub(super) struct TopicPort {
    pub(super) index: RecordIndex,
    pub(super) streams: Vec<CopyStream>,
}

struct CopyTopic {
    firm_id: FirmId,
    ports: Vec<TopicPort>,
}

/// All topics and their streams.
pub(super) struct Copies {
    topics: Vec<CopyTopic>,
    topic_of: SeededMap<FirmId, usize>,
    /// The first record of each port's event log.
    first_records: Vec<u64>,
    retained: usize,
    stream_count: usize,
    behind: VecDeque<StreamKey>,
    /// The numbers of the requests that the history has for streams.
    requests: BTreeMap<StreamKey, u64>,
}

impl Copies {
    /// Returns the topics of a gateway whose ports' event logs begin at `first_records`; a firm's
    /// topic retains `retained` records of each.
    pub(super) fn new(first_records: Vec<u64>, retained: usize, order: &MapOrder) -> Copies {
        let mut copies = Copies {
            topics: Vec::new(),
            topic_of: order.map(),
            first_records,
            retained,
            stream_count: 0,
            behind: VecDeque::new(),
            requests: BTreeMap::new(),
        };
        copies.add_topic(FirmId::NONE, retained.saturating_mul(ALL_FACTOR));
        copies
    }

    fn add_topic(&mut self, firm_id: FirmId, retained: usize) -> usize {
        let begin = |first: &u64| TopicPort {
            index: RecordIndex::new(*first, retained),
            streams: Vec::new(),
        };
        let ports = self.first_records.iter().map(begin).collect();
        self.topics.push(CopyTopic { firm_id, ports });
        self.topics.len() - 1
    }

    /// Returns the topic of a firm, or the topic of all for no firm. A firm's is created at its
    /// first use, which is before the first event of any of its sessions: an event log defines a
    /// session before it holds any of the session's events.
    pub(super) fn topic_of(&mut self, firm_id: FirmId) -> usize {
        if firm_id.is_none() {
            return ALL;
        }
        if let Some(topic) = self.topic_of.get(&firm_id) {
            return *topic;
        }
        let topic = self.add_topic(firm_id, self.retained);
        self.topic_of.insert(firm_id, topic);
        topic
    }

    /// Replaces a topic's index of a port by one of a checkpoint.
    pub(super) fn begin_with(&mut self, topic: usize, port: usize, index: RecordIndex) {
        let TopicPort { index: own, streams } = &mut self.topics[topic].ports[port];
        assert!(streams.is_empty(), "a checkpoint comes before the first stream");
        *own = index;
    }

    /// Returns the firm of a topic; none for the topic of all.
    pub(super) fn firm_of(&self, topic: usize) -> FirmId {
        self.topics[topic].firm_id
    }

    /// Adds a record to the topic of all, and to `topic` if it is a firm's; true when either has a
    /// stream.
    #[inline]
    pub(super) fn note(&mut self, topic: usize, port: usize, record: u64) -> bool {
        let all = &mut self.topics[ALL].ports[port];
        all.index.push(record);
        let mut is_heard = !all.streams.is_empty();
        if topic != ALL {
            let firms = &mut self.topics[topic].ports[port];
            firms.index.push(record);
            is_heard |= !firms.streams.is_empty();
        }
        is_heard
    }

    /// Returns a topic's part of a port.
    pub(super) fn topic_port(&mut self, topic: usize, port: usize) -> &mut TopicPort {
        &mut self.topics[topic].ports[port]
    }

    /// Adds a stream that has to catch up, replacing one with the same key.
    pub(super) fn add(&mut self, stream: CopyStream) {
        assert!(stream.is_behind, "a stream begins behind");
        let key = stream.key;
        self.remove(key);
        self.topics[key.topic].ports[key.port].streams.push(stream);
        self.stream_count += 1;
        self.behind.push_back(key);
    }

    /// Removes a stream; false when it does not exist.
    pub(super) fn remove(&mut self, key: StreamKey) -> bool {
        let streams = &mut self.topics[key.topic].ports[key.port].streams;
        let Some(at) = streams.iter().position(|stream| stream.key == key) else { return false };
        self.requests.remove(&key);
        if streams.swap_remove(at).is_behind {
            self.behind.retain(|behind| *behind != key);
        }
        self.stream_count -= 1;
        true
    }

    /// Returns a stream and its index.
    pub(super) fn stream(&mut self, key: StreamKey) -> Option<(&RecordIndex, &mut CopyStream)> {
        let TopicPort { index, streams } = &mut self.topics[key.topic].ports[key.port];
        let stream = streams.iter_mut().find(|stream| stream.key == key)?;
        Some((index, stream))
    }

    /// Returns the time of the last message on a stream.
    pub(super) fn told_at(&self, key: StreamKey) -> Option<Nanos> {
        let streams = &self.topics[key.topic].ports[key.port].streams;
        streams.iter().find(|stream| stream.key == key).map(|stream| stream.told_at)
    }

    /// Offers the record just added to the streams of a topic and port that are not behind. Streams
    /// that `send` could not serve are behind from then on.
    pub(super) fn tell_listeners(
        &mut self,
        topic: usize,
        port: usize,
        now: Nanos,
        mut send: impl FnMut(&CopyStream) -> bool,
    ) {
        let TopicPort { index, streams } = &mut self.topics[topic].ports[port];
        let (place, record) = (index.next_place() - 1, index.newest());
        for stream in streams.iter_mut().filter(|stream| !stream.is_behind) {
            assert_eq!(stream.next_place, place, "a stream that is not behind has had all");
            if send(stream) {
                stream.sent(record, now);
            } else {
                stream.is_behind = true;
                self.behind.push_back(stream.key);
            }
        }
    }

    /// Takes the next stream that is behind; the caller puts it back while it stays behind.
    pub(super) fn next_behind(&mut self) -> Option<StreamKey> {
        self.behind.pop_front()
    }

    /// Puts back a stream that stays behind.
    pub(super) fn still_behind(&mut self, key: StreamKey) {
        self.behind.push_back(key);
    }

    /// Returns the number of streams that are behind and can be served.
    pub(super) fn behind_count(&self) -> usize {
        self.behind.len()
    }

    /// Returns the number of streams for which the history has a request.
    pub(super) fn asking_count(&self) -> usize {
        self.requests.len()
    }

    /// Returns the number of the request that the history has for a stream.
    pub(super) fn request_of(&self, key: StreamKey) -> Option<u64> {
        self.requests.get(&key).copied()
    }

    /// Records the request that the history has for a stream, or `None` once it is answered.
    pub(super) fn set_request(&mut self, key: StreamKey, number: Option<u64>) {
        match number {
            Some(number) => self.requests.insert(key, number),
            None => self.requests.remove(&key),
        };
    }

    /// Returns the number of streams.
    pub(super) fn stream_count(&self) -> usize {
        self.stream_count
    }
}
