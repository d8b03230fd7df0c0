//! The node's own partition as a source: the records of its event log feed its store and its
//! replicas.
//!
//! A record's number is its position. Records about orders become rows of batches, each numbered as
//! the last record that it stands for; other events are not sent to replicas. Published events are
//! committed, and lost events' numbers are reused only in another epoch: so numbers are comparable
//! as long as the log and its epoch are the same.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use weir_delivery::stream::SourceStream;
use weir_delivery::{IngestError, OrderStore, row_of};
use weir_io::Disk;
use weir_partition::agent::PartitionFigures;
use weir_partition::event_reader::{EventReader, PastEvents, PastRead, ReadEvent, assert_kept};
use weir_types::{BatchNo, Epoch, Nanos, PartitionId, Position, SessionId, SourceLog};
use weir_wire::delivery::OrderRow;
use weir_wire::dialogue::put_source_batch;
use weir_wire::event::OrderEvent;
use weir_wire::frame::parse_message;
use weir_wire::ingest::{BatchFlags, SourceBatch};
use weir_wire::{Event, Message};

use super::followers::History;
use super::source_store::SourceStore;
use crate::markets::Markets;
use crate::stores::own::{OwnStart, SnapshotsHold, put_head};
use crate::stores::own_figures::OwnStoreFigures;

/// The maximum number of rows in a batch for a replica.
const ROWS_MAX: usize = 512;
/// The maximum number of records read for one batch.
const RECORDS_MAX: u64 = 4_096;
/// The lag in records up to which a replica gets records from the files: beyond it, a snapshot is
/// faster.
const FILE_RECORDS_MAX: u64 = 65_536;

/// The bytes since a snapshot after which one is due at once, whatever the settings.
const AT_ONCE: u64 = u64::MAX / 2;

/// The events that feed the partition's store.
pub struct OwnEvents {
    source: PartitionId,
    log: Arc<PartitionFigures>,
    figures: Arc<OwnStoreFigures>,
    events: EventReader,
    record: Vec<u8>,
    /// The number of the record in `record` for which the store had no room.
    held: Option<u64>,
    /// The state of each instrument from the events.
    pub markets: Markets,
    /// The log's epoch: record numbers are those of its history.
    epoch: Epoch,
    log_id: u128,
    /// The event after which the store began with live orders alone; zero for none.
    begun_after: u64,
    /// The command that caused the newest event about an order.
    pub(super) command: Position,
    /// The command that caused the newest event of any kind.
    newest: Position,
    /// True from a start at which the store began with the engine's live orders until the epoch
    /// that begins for it is told: their places are that epoch's, and no archive gets them before.
    pub(super) waits_for_epoch: bool,
    /// Bytes of records since a snapshot was begun.
    pub(super) bytes_since: u64,
    /// The replicas' cursors, by connection.
    places: BTreeMap<u64, PastEvents>,
    /// The records that the next start needs.
    needed: SnapshotsHold,
}

impl OwnEvents {
    /// Returns the events from a starting point.
    #[must_use]
    pub fn new(start: OwnStart) -> OwnEvents {
        OwnEvents {
            source: start.source,
            log: start.log,
            figures: start.figures,
            epoch: start.events.epochs().current(),
            events: start.events,
            record: Vec::with_capacity(512),
            held: None,
            markets: start.markets,
            log_id: start.log_id,
            begun_after: start.begun_after,
            command: start.command,
            newest: start.command,
            waits_for_epoch: start.waits_for_epoch,
            bytes_since: if start.is_rebuilt { AT_ONCE } else { 0 },
            places: BTreeMap::new(),
            needed: start.needed,
        }
    }

    /// Returns the history that the record numbers belong to. A store that began in the middle has
    /// orders at other places than one that did not: its replicas need its snapshot, or a reader
    /// that moves on to one in the midst of a first copy would miss orders.
    pub(super) fn history(&self) -> History {
        History::of_log(self.log_id ^ u128::from(self.begun_after), self.epoch)
    }

    /// Returns the log of the source's changes, as tokens name it: one for all epochs.
    pub(super) fn source_log(&self) -> SourceLog {
        SourceLog((self.log_id >> 64) as u64 ^ self.log_id as u64)
    }

    /// Returns the number of the next record to ingest and reads it into `record`. Ends the store's
    /// epoch where the log's ended: tokens beyond are refused.
    fn next_record(&mut self, stream: &mut SourceStream, store: &mut OrderStore) -> Option<u64> {
        if let Some(number) = self.held.take() {
            return Some(number);
        }
        loop {
            match self.events.next(&mut self.record) {
                ReadEvent::Record(number) => return Some(number),
                ReadEvent::EpochEnded(change) => {
                    assert_kept(&change);
                    stream.begin_epoch(change.next, store).expect("epochs only grow");
                    self.epoch = self.epoch.max(change.next);
                    self.waits_for_epoch = false;
                }
                ReadEvent::UpToDate | ReadEvent::Missing => return None,
            }
        }
    }

    /// Ingests the next record; `None` when there is none or no room for it, else true when it was
    /// about an order.
    fn take(&mut self, stream: &mut SourceStream, store: &mut OrderStore) -> Option<bool> {
        let number = self.next_record(stream, store)?;
        let raw = parse_message(&self.record).expect("the event log holds our own messages");
        let is_order = raw.template_id == OrderEvent::TEMPLATE_ID;
        if is_order {
            let event: OrderEvent = raw.decode().expect("the event log holds our own messages");
            // The store is full: the record is ingested when ended orders have been dropped, and
            // until then readers see the present state.
            match stream.take_record(BatchNo(number), Some(&event), store) {
                Ok(_) => {}
                Err(IngestError::StoreFull { .. }) => {
                    self.held = Some(number);
                    self.figures.counters.full_waits.fetch_add(1, Ordering::Relaxed);
                    return None;
                }
                Err(error) => panic!("a partition's events are in order: {error}"),
            }
            self.command = event.position;
            self.newest = event.position;
            self.markets.on_order(&event);
        } else {
            let event = Event::decode(&self.record).expect("the event log holds our own messages");
            self.newest = event.position();
            self.markets.on_event(&event);
            let taken = stream.take_record(BatchNo(number), None, store);
            taken.map(drop).expect("what is not about an order needs no room");
        }
        self.bytes_since += self.record.len() as u64;
        Some(is_order)
    }

    /// Appends a batch of the records about orders after a position, none after `head`; returns the
    /// position of the last. `None` when the position is too far back.
    pub(super) fn put_batch(
        &mut self,
        connection: u64,
        after: Position,
        head: Position,
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
            if place.read_at(at.0 + 1, &mut record) != PastRead::Found {
                break;
            }
            let raw = parse_message(&record).expect("the event log holds our own messages");
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
            source_id: self.source,
            flags: BatchFlags::default(),
        };
        let no_attributes: &[u8] = &[];
        put_source_batch(&batch, rows.into_iter().map(|row| (row, no_attributes)), out);
        Some(at)
    }

    /// True when the command log is synced up to `command`: no power loss takes it back.
    pub(super) fn is_synced(&self, command: Position) -> bool {
        command.0 <= self.log.counters.synced.load(Ordering::Relaxed)
    }

    /// Appends a snapshot's head, before stream and store.
    pub(super) fn put_state(&self, out: &mut Vec<u8>) {
        put_head(self.command, self.begun_after, &self.markets, out);
    }

    /// Takes over the oldest kept snapshot after another one was written.
    pub(super) fn snapshot_written(&mut self, oldest_kept: Position) {
        self.needed.written(oldest_kept);
    }

    /// Removes a replica's cursor.
    pub(super) fn forget(&mut self, connection: u64) {
        self.places.remove(&connection);
    }
}

impl<D: Disk> SourceStore<D> {
    /// Ingests events of the node's own partition, `count_max` of them at most; returns their
    /// number.
    pub fn take_events(&mut self, count_max: usize) -> usize {
        let Some(own) = &mut self.own else { return 0 };
        let history = own.history();
        let (mut taken, mut changes) = (0, 0);
        while taken < count_max
            && let Some(is_order) = own.take(&mut self.stream, self.desk.store_mut())
        {
            taken += 1;
            changes += u64::from(is_order);
        }
        own.figures.counters.ingested.fetch_add(changes, Ordering::Relaxed);
        let now = own.history();
        if now != history {
            // The log's epoch ended since the start, at which the archive was opened.
            self.followers.begin_history(now, self.desk.store_mut());
            self.begin_cold_epoch();
        }
        taken
    }

    /// Returns the next record of the node's own partition to ingest, and that to be written next:
    /// a query that comes now is answered from the records between. A full store has no next one,
    /// since it waits for ended orders to go.
    #[must_use]
    pub fn place_in_events(&self) -> Option<(u64, u64)> {
        let own = self.own.as_ref().filter(|own| own.held.is_none())?;
        Some((own.events.next_record(), own.events.end()))
    }

    /// Returns the number of the partition's events that the store has still to take.
    #[must_use]
    pub fn events_behind(&self) -> u64 {
        let Some(own) = &self.own else { return 0 };
        let next = own.held.unwrap_or_else(|| own.events.next_record());
        own.events.end().saturating_sub(next)
    }

    /// Tells other threads how far the store is behind its events.
    pub fn tell_lag(&self) {
        if let Some(own) = &self.own {
            let behind = self.events_behind();
            own.figures.counters.events_behind.store(behind, Ordering::Relaxed);
        }
    }

    /// Tells other threads the state of the instruments.
    pub fn tell_markets(&mut self) {
        let Some(own) = &mut self.own else { return };
        if own.markets.has_changes() {
            let mut table = own.figures.markets.lock().unwrap_or_else(PoisonError::into_inner);
            own.markets.publish(&mut table);
        }
        // Behind the table: a page that is read once this position is there has its instruments.
        own.figures.counters.position.store(own.newest.0, Ordering::Relaxed);
    }
}
