//! From a partition's events to topics: the trades of each firm's orders, the trades that
//! everybody may know, in the order of the event log's records, none merged.
//!
//! After a start the events are read from the oldest retained one: events that the subscriptions
//! took are known by their marks and not sent again.
//!
//! INVARIANT: records whose messages a crash would take from the broker are held: the broker saves
//! the place up to which it needs none, and the hold follows the saved place.

use weir_broker::{
    Broker, Change, OriginMark, PublishOutcome, PublishRefusal, PublishTimes, Source, Topic,
    TopicKind,
};
use weir_io::Disk;
use weir_partition::event_reader::{EventReader, PastRead, ReadEvent};
use weir_partition::holds::Hold;
use weir_types::{Epoch, ExecType, PartitionId, Position, Side, Survival, Switch};
use weir_wire::Message;
use weir_wire::event::{OrderEvent, TradeBusted};
use weir_wire::frame::{RawMessage, parse_message, put_message};
use weir_wire::report::{ExecutionReport, StageTimes};
use weir_wire::subscription::PublicTrade;

use crate::plant::{self, Plant};
use crate::unsettled::Unsettled;

/// The name under which the status shows the records that are held for the broker.
const HOLDER: &str = "durable subscriptions";

/// The events that a producer publishes.
pub struct EventParts {
    /// The partition.
    pub partition_id: PartitionId,
    /// Its events, from the first retained one.
    pub events: EventReader,
    /// The number of events at the start.
    pub event_count: u64,
    /// The last command of its log at the start.
    pub last: Position,
}

/// See the module's documentation.
pub(super) struct EventProducer {
    partition_id: PartitionId,
    events: EventReader,
    /// The epoch of the next record.
    epoch: Epoch,
    record: Vec<u8>,
    /// The number of the record in `record`, until it is published.
    waiting: Option<u64>,
    body: Vec<u8>,
    /// Whether a look at the events found nothing new since the start.
    has_caught_up: bool,
    /// Messages that are neither on disk nor taken by all, with their records.
    unsettled: Unsettled,
    /// The record up to which all are settled, as noted in the broker's table, and the change to be
    /// saved before the records up to there may go.
    noted: u64,
    saving: Option<Change>,
    hold: Hold,
    /// The number of events at the start, and the last command of the log.
    event_count: u64,
    last: Position,
}

/// True for topics of the events of partitions.
fn is_of_events(topic: Topic) -> bool {
    matches!(topic.kind, TopicKind::Executions | TopicKind::Trades)
}

/// Drops the places of partitions that the node has no more. Events of one that came behind its
/// place are not published: the subscriptions are told that they may have lost messages. Messages
/// that were published stay.
pub(super) fn drop_removed<D: Disk>(producers: &[EventProducer], broker: &mut Broker<D>) {
    let is_kept = |source| producers.iter().any(|producer| producer.source() == source);
    let dropped = broker.keep_places(is_kept);
    if dropped.is_empty() {
        return;
    }
    let count = broker.note_loss(is_of_events);
    for place in dropped {
        let (partition, after) = (place.source.0, place.record.0);
        tracing::warn!(
            partition,
            after,
            count,
            "the node has this partition no more: these many subscriptions may have lost messages \
             of its events after this number, and their clients are told"
        );
    }
}

/// The outcome of a look at the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Produced {
    /// Records passed.
    pub(super) records: usize,
    /// Messages published.
    pub(super) messages: u64,
}

impl EventProducer {
    pub(super) fn new(parts: EventParts) -> EventProducer {
        let EventParts { partition_id, events, event_count, last } = parts;
        let first = events.next_record();
        EventProducer {
            unsettled: Unsettled::default(),
            noted: first - 1,
            saving: None,
            hold: events.hold(HOLDER, first),
            partition_id,
            epoch: events.epoch(),
            events,
            record: Vec::with_capacity(512),
            waiting: None,
            body: Vec::with_capacity(512),
            has_caught_up: false,
            event_count,
            last,
        }
    }

    /// Tells the subscriptions that they may have lost messages, if the broker needs records that
    /// are gone: it was restored with a log that begins later. Called before any work.
    pub(super) fn tell_gap<D: Disk>(&mut self, broker: &mut Broker<D>) {
        let (first, place) = (self.events.next_record(), broker.place_of(self.source()));
        if first <= 1 || self.goes_on_from(place, first) || plant::is(Plant::GapUntold) {
            return;
        }
        let settled = place.map_or(0, |place| place.record.0);
        let count = broker.note_loss(is_of_events);
        if count > 0 {
            let after = settled;
            tracing::warn!(
                after,
                first,
                count,
                "events after one number and before the other are past the retention: these many \
                 subscriptions may have lost messages, and their clients are told"
            );
        }
    }

    /// Returns true when no record after the broker's place is gone.
    ///
    /// ```text
    /// the place is of       | the first retained record | no record is gone when
    /// ----------------------+---------------------------+---------------------------------------
    /// the log's epoch       | any                       | it is at most the next one
    /// an epoch that ended   | of a command up to P      | the same
    /// at command P          | of a later one            | never: those gone may be of the next
    ///                       |                           | epoch, with numbers up to the place's
    ///                       | none                      | P is the log's last command, and it is
    ///                       |                           | at most the next one
    /// an epoch that the log | any                       | never
    /// does not have         |                           |
    /// ```
    fn goes_on_from(&mut self, place: Option<OriginMark>, first: u64) -> bool {
        let Some(place) = place else { return false };
        let is_shared = match self.events.epochs().survival(place.epoch) {
            Survival::Whole => true,
            Survival::UpTo(to) if first > self.event_count => self.last <= to,
            Survival::UpTo(to) => self.command_of(first).is_some_and(|command| command <= to),
            Survival::Unknown => false,
        };
        is_shared && first <= place.record.0 + 1
    }

    /// Returns the command that caused a record; `None` when it cannot be read.
    fn command_of(&mut self, record: u64) -> Option<Position> {
        let mut bytes = Vec::new();
        let is_found = self.events.read_at(record, &mut bytes) == PastRead::Found;
        let raw = is_found.then(|| parse_message(&bytes))?;
        let raw = raw.expect("the event log holds our own messages");
        let position = raw.block().first_chunk().expect("every event begins with it");
        Some(Position(u64::from_le_bytes(*position)))
    }

    /// Whether all that was there at the start is published: before, a new subscription would get
    /// what was said long ago.
    pub(super) fn has_caught_up(&self) -> bool {
        self.has_caught_up
    }

    /// Holds no record any more: the broker has stopped. Those over the limits of the retention go,
    /// and the next start tells clients that they may have lost messages of them.
    pub(super) fn let_go(&self) {
        self.hold.set(u64::MAX);
        self.events.let_go();
    }

    /// The mark of the last record that was published or passed.
    pub(super) fn mark(&self) -> OriginMark {
        let next = self.waiting.unwrap_or(self.events.next_record());
        self.mark_of(next.saturating_sub(1))
    }

    fn source(&self) -> Source {
        Source(u32::from(self.partition_id.0))
    }

    fn mark_of(&self, record: u64) -> OriginMark {
        OriginMark { source: self.source(), epoch: self.epoch, record: Position(record) }
    }

    /// Publishes at most `max` records; `told` hears of each topic that got something. Stops where
    /// the broker has no room, and goes on there.
    pub(super) fn work<D: Disk>(
        &mut self,
        broker: &mut Broker<D>,
        max: usize,
        times: impl Into<PublishTimes>,
        mut told: impl FnMut(Topic),
    ) -> Produced {
        let times = times.into();
        let mut produced = Produced::default();
        while produced.records < max {
            if self.waiting.is_none() {
                match self.events.next(&mut self.record) {
                    ReadEvent::Record(number) => self.waiting = Some(number),
                    // Later records are new to every subscriber, even if their numbers are not.
                    ReadEvent::EpochEnded(change) => {
                        self.epoch = change.next;
                        self.go_back_to(change.first_again);
                        continue;
                    }
                    ReadEvent::UpToDate => {
                        self.has_caught_up = true;
                        break;
                    }
                    ReadEvent::Missing => break,
                }
            }
            let number = self.waiting.expect("it was read a line above");
            match self.publish(broker, number, times, &mut told) {
                Ok(count) => produced.messages += count,
                Err(_) => break,
            }
            self.waiting = None;
            produced.records += 1;
        }
        self.keep_unsettled(broker);
        produced
    }

    /// Counts the records from `first_again` on as new: their numbers are assigned again.
    fn go_back_to(&mut self, first_again: u64) {
        self.unsettled.go_back_to(first_again);
        if self.noted >= first_again {
            (self.noted, self.saving) = (first_again - 1, None);
            self.hold.set(first_again);
        }
    }

    /// Lets records go whose messages a crash does not take from the broker any more.
    fn keep_unsettled<D: Disk>(&mut self, broker: &mut Broker<D>) {
        self.unsettled.settle(broker.settled());
        if let Some(change) = self.saving {
            if !broker.is_saved(change) {
                return;
            }
            self.hold.set(self.noted + 1);
            self.saving = None;
        }
        let read = self.mark().record.0;
        let upto = match self.unsettled.first_record() {
            Some(record) if !plant::is(Plant::HoldAtReadPlace) => record - 1,
            _ => read,
        };
        if upto > self.noted {
            self.noted = upto;
            self.saving = Some(broker.note_place(self.mark_of(upto)));
        }
    }

    fn publish<D: Disk>(
        &mut self,
        broker: &mut Broker<D>,
        number: u64,
        times: PublishTimes,
        told: &mut impl FnMut(Topic),
    ) -> Result<u64, PublishRefusal> {
        let record = std::mem::take(&mut self.record);
        let raw = parse_message(&record).expect("the event log holds our own messages");
        let mut count = 0;
        let published =
            EventProducer::topics_of(&raw).into_iter().try_for_each(|(topic, content)| {
                if !broker.knows(topic) {
                    return Ok(());
                }
                self.body.clear();
                content.put(&mut self.body);
                match broker.publish(topic, self.mark_of(number), &self.body, times) {
                    Ok(PublishOutcome::Taken(no)) => {
                        count += 1;
                        self.unsettled.push(no, number);
                        told(topic);
                        Ok(())
                    }
                    // The topic has messages of a later epoch, and they came after this record's.
                    Ok(PublishOutcome::Repeated(_) | PublishOutcome::Unwanted)
                    | Err(PublishRefusal::EpochBack { .. }) => Ok(()),
                    Err(refused) => Err(refused),
                }
            });
        self.record = record;
        published.map(|()| count)
    }

    /// What a record says to whom.
    fn topics_of(raw: &RawMessage<'_>) -> Vec<(Topic, Content)> {
        let own = "the event log holds our own messages";
        match raw.template_id {
            OrderEvent::TEMPLATE_ID => {
                let event: OrderEvent = raw.decode().expect(own);
                if event.exec_type == ExecType::Trade { of_trade(event) } else { Vec::new() }
            }
            TradeBusted::TEMPLATE_ID => {
                let bust: TradeBusted = raw.decode().expect(own);
                of_bust(bust)
            }
            _ => Vec::new(),
        }
    }
}

/// A body to be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    Report(OrderEvent),
    Bust(TradeBusted),
    Trade(PublicTrade),
}

impl Content {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        match self {
            // Stage times are of the answer to the sender alone.
            Content::Report(event) => {
                let stage_times = StageTimes::default();
                put_message(&ExecutionReport { event: *event, stage_times }, out);
            }
            Content::Bust(bust) => put_message(bust, out),
            Content::Trade(trade) => put_message(trade, out),
        }
    }
}

/// A topic of one key, and the same of all keys.
fn both(kind: TopicKind, key: u32, content: Content) -> [(Topic, Content); 2] {
    [(Topic { kind, key }, content), (Topic { kind, key: 0 }, content)]
}

/// A trade is told of twice, once for each order; everybody hears of it with the buyer's.
pub(super) fn of_trade(event: OrderEvent) -> Vec<(Topic, Content)> {
    let mut topics = both(TopicKind::Executions, event.firm_id.0, Content::Report(event)).to_vec();
    if event.side == Side::Buy {
        let trade = PublicTrade {
            match_id: event.match_id,
            transact_time: event.transact_time,
            last_px: event.last_px,
            last_qty: event.last_qty,
            instrument_id: event.instrument_id,
            partition_id: event.partition_id,
            busted: Switch::Off,
        };
        topics.extend(both(TopicKind::Trades, event.instrument_id.0, Content::Trade(trade)));
    }
    topics
}

pub(super) fn of_bust(bust: TradeBusted) -> Vec<(Topic, Content)> {
    let mut topics = both(TopicKind::Executions, bust.firm_id.0, Content::Bust(bust)).to_vec();
    if bust.side == Side::Buy {
        let trade = PublicTrade {
            match_id: bust.match_id,
            transact_time: bust.transact_time,
            last_px: bust.last_px,
            last_qty: bust.last_qty,
            instrument_id: bust.instrument_id,
            partition_id: bust.partition_id,
            busted: Switch::On,
        };
        topics.extend(both(TopicKind::Trades, bust.instrument_id.0, Content::Trade(trade)));
    }
    topics
}

#[cfg(test)]
mod tests;
