//! The node's own partition as a source: the records of its event log are what its store is fed by,
//! and what its replicas are given.
//!
//! A record's number is its position. Records about orders become rows of batches, each numbered as
//! the last record that it stands for; what else a partition says is not a replica's to know. What
//! is published is committed, and what an epoch lost is numbered anew in another epoch: so numbers
//! mean the same as long as the log and its epoch are the same.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;

use weir_delivery::stream::SourceStream;
use weir_delivery::{IngestError, OrderStore, row_of};
use weir_log::EpochEnd;
use weir_partition::event_reader::{EventReader, PastEvents, ReadEvent};
use weir_types::{BatchNo, Epoch, Nanos, PartitionId, Position, SessionId};
use weir_wire::delivery::OrderRow;
use weir_wire::dialogue::put_source_batch;
use weir_wire::event::OrderEvent;
use weir_wire::frame::parse_message;
use weir_wire::ingest::{BatchFlags, SourceBatch};
use weir_wire::{Event, Message};

use super::feed::Feed;
use super::followers::History;
use crate::agent::DeliveryFigures;
use crate::markets::Markets;
use crate::stores::own::put_head;

/// The partition whose events they are.
pub const OWN: PartitionId = PartitionId(1);
/// Rows of a batch for a replica.
const ROWS_MAX: usize = 512;
/// Records looked at for one.
const RECORDS_MAX: u64 = 4_096;
/// How far behind a replica may be that is given records from the files: beyond, a snapshot is the
/// shorter way.
const FILE_RECORDS_MAX: u64 = 65_536;

/// The events that the partition's store is fed by.
pub struct OwnEvents {
    events: EventReader,
    record: Vec<u8>,
    /// The number of the record that is in `record` and that the store had no room for.
    held: Option<u64>,
    /// What the events say of each instrument.
    pub markets: Markets,
    /// Epochs that end at a position still ahead in the events.
    ends: VecDeque<EpochEnd>,
    epoch: Epoch,
    log_id: u128,
    /// The command that the newest event about an order came of.
    pub(super) command: Position,
    /// Bytes of records since a snapshot was begun.
    pub(super) bytes_since: u64,
    /// Where replicas are, by connection.
    places: BTreeMap<u64, PastEvents>,
}

/// Where the events begin.
pub struct OwnStart {
    /// The events, from the next one on.
    pub events: EventReader,
    /// The partition's epoch.
    pub epoch: Epoch,
    /// Its epochs before that the store has not ended yet.
    pub ends: Vec<EpochEnd>,
    /// The identity of the partition's command log.
    pub log_id: u128,
    /// What the events so far say of each instrument.
    pub markets: Markets,
    /// The command that the newest event about an order came of.
    pub command: Position,
}

impl OwnEvents {
    /// The events from there on.
    #[must_use]
    pub fn new(start: OwnStart) -> OwnEvents {
        OwnEvents {
            events: start.events,
            record: Vec::with_capacity(512),
            held: None,
            markets: start.markets,
            ends: start.ends.into(),
            epoch: start.epoch,
            log_id: start.log_id,
            command: start.command,
            bytes_since: 0,
            places: BTreeMap::new(),
        }
    }

    /// Of which history the numbers of records are.
    pub(super) fn history(&self) -> History {
        History::of_log(self.log_id, self.epoch)
    }

    /// The number of the record that is to be taken in next, which is in `record` then.
    fn next_record(&mut self) -> Option<u64> {
        if let Some(number) = self.held.take() {
            return Some(number);
        }
        match self.events.next(&mut self.record) {
            ReadEvent::Record(number) => Some(number),
            ReadEvent::UpToDate => None,
        }
    }

    /// Takes in the next record; `None` when there is none or no room for it, else whether it was
    /// about an order.
    fn take(
        &mut self,
        stream: &mut SourceStream,
        store: &mut OrderStore,
        figures: &DeliveryFigures,
    ) -> Option<bool> {
        let number = self.next_record()?;
        let raw = parse_message(&self.record).expect("the event log holds our own messages");
        let is_order = raw.template_id == OrderEvent::TEMPLATE_ID;
        if is_order {
            let event: OrderEvent = raw.decode().expect("the event log holds our own messages");
            while self.ends.front().is_some_and(|end| end.last_valid < event.position) {
                self.end_epoch(stream, store);
            }
            // A full store: it is taken in when ended orders have gone, and readers see until then
            // what is there.
            match stream.take_record(BatchNo(number), Some(&event), store) {
                Ok(_) => {}
                Err(IngestError::StoreFull { .. }) => {
                    self.held = Some(number);
                    figures.full_waits.fetch_add(1, Ordering::Relaxed);
                    return None;
                }
                Err(error) => panic!("a partition's events are in order: {error}"),
            }
            self.command = event.position;
            self.markets.on_order(&event);
        } else {
            let event = Event::decode(&self.record);
            self.markets.on_event(&event.expect("the event log holds our own messages"));
            let taken = stream.take_record(BatchNo(number), None, store);
            taken.map(drop).expect("what is not about an order needs no room");
        }
        self.bytes_since += self.record.len() as u64;
        Some(is_order)
    }

    /// Ends the store's epoch where its log's ended: tokens beyond are refused.
    fn end_epoch(&mut self, stream: &mut SourceStream, store: &mut OrderStore) {
        self.ends.pop_front();
        let next = self.ends.front().map_or(self.epoch, |end| end.epoch);
        stream.begin_epoch(next, store).expect("epochs only grow");
    }

    /// Appends a batch of what the records after a position say of orders, none after `head`; the
    /// position of the last. `None` when they are too far back.
    pub(super) fn put_batch(
        &mut self,
        connection: u64,
        (after, head): (Position, Position),
        out: &mut Vec<u8>,
    ) -> Option<Position> {
        let events = &self.events;
        let place = self.places.entry(connection).or_insert_with(|| events.past());
        let is_near = head.0 - after.0 <= FILE_RECORDS_MAX || place.has_in_memory(after.0 + 1);
        if !is_near {
            return None;
        }
        let mut rows: Vec<OrderRow> = Vec::new();
        let (mut at, mut record) = (after, Vec::with_capacity(512));
        let last = Position(head.0.min(after.0 + RECORDS_MAX));
        let mut sending_time = Nanos(0);
        while at < last && rows.len() < ROWS_MAX {
            let Some(bytes) = place.read_at(at.0 + 1, &mut record) else { break };
            let raw = parse_message(bytes).expect("the event log holds our own messages");
            if raw.template_id == OrderEvent::TEMPLATE_ID {
                let event: OrderEvent = raw.decode().expect("the event log holds our own messages");
                sending_time = event.transact_time;
                if !event.rec.is_none() {
                    rows.push(row_of(&event));
                }
            }
            at = at.next();
        }
        if at == after && at < head {
            return None;
        }
        let batch = SourceBatch {
            batch_no: BatchNo(at.0),
            sending_time,
            session_id: SessionId::NONE,
            epoch: self.epoch,
            source_id: OWN,
            flags: BatchFlags::default(),
        };
        let no_attributes: &[u8] = &[];
        put_source_batch(&batch, rows.into_iter().map(|row| (row, no_attributes)), out);
        Some(at)
    }

    /// Appends what a snapshot has beside stream and store.
    pub(super) fn put_state(&self, out: &mut Vec<u8>) {
        put_head(self.command, &self.markets, out);
    }

    /// A replica is gone.
    pub(super) fn forget(&mut self, connection: u64) {
        self.places.remove(&connection);
    }
}

impl Feed {
    /// Takes in events of the node's own partition; how many, and how many of them were about
    /// orders.
    pub fn take_events(&mut self, count_max: usize, figures: &DeliveryFigures) -> (usize, u64) {
        let Some(own) = &mut self.own else { return (0, 0) };
        let (mut taken, mut changes) = (0, 0);
        while taken < count_max
            && let Some(is_order) = own.take(&mut self.stream, self.desk.store_mut(), figures)
        {
            taken += 1;
            changes += u64::from(is_order);
        }
        (taken, changes)
    }

    /// All events of before are taken in: the epochs that ended are over.
    pub fn end_past_epochs(&mut self) {
        let Some(own) = &mut self.own else { return };
        while !own.ends.is_empty() {
            own.end_epoch(&mut self.stream, self.desk.store_mut());
        }
    }

    /// What its events say of instruments, where it is the node's own partition.
    pub fn markets(&mut self) -> Option<&mut Markets> {
        self.own.as_mut().map(|own| &mut own.markets)
    }
}
