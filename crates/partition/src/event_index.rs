//! An index of a partition's events: those of each session, for resume, and those of each firm's
//! sessions, for drop copy.
//!
//! It is a function of the partition's events. The gateway builds it in its own tables as it reads
//! them; this is the same index apart from the tables, from which a checkpoint is written and a
//! start goes on ([`checkpoint`](crate::checkpoint)).
//!
//! INVARIANT: an index of the events up to a record equals the gateway's tables at that record.
//!
//! An index that was read from a file may contradict the events: that is an [`IndexFault`] of the
//! file, and never stops the process.

use std::collections::BTreeMap;

use thiserror::Error;
use weir_log::EpochChange;
use weir_types::state_bytes::{StateBytes, put_number};
use weir_types::{
    ClOrdId, Epoch, EventNo, FirmId, Nanos, PartitionId, Position, RequestNo, SessionId,
};
use weir_wire::event::RequestDone;
use weir_wire::{Definition, Event, PlainEvent};

use crate::event_reader::{EventReader, PastRead, ReadEvent};
use crate::event_record::EventRecord;
use crate::lineage::{Lineage, PassedEnds};
use crate::record_index::{ALL_FACTOR, RecordIndex};
use crate::stream::{Noted, Stream};

/// The format of an index's state.
const VERSION: u64 = 1;
/// The number that those of records are below: more than there can be.
const NUMBER_MAX: u64 = 1 << 62;

/// The number of records that an index retains.
#[derive(Clone, Copy, Debug)]
pub struct Retained {
    /// Those of a firm's topic; of the topic of all there are more.
    pub of_firm: usize,
}

impl Retained {
    /// Returns the number for a topic.
    #[must_use]
    pub fn of(self, firm_id: FirmId) -> usize {
        let factor = if firm_id.is_none() { ALL_FACTOR } else { 1 };
        self.of_firm.saturating_mul(factor)
    }
}

/// A contradiction between an index and the events that it was read with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum IndexFault {
    /// A record is not the next one.
    #[error("event {found} comes where {wanted} is next")]
    NotNext {
        /// The record that is next.
        wanted: u64,
        /// The record that came.
        found: u64,
    },
    /// A record is addressed to a session that was not defined.
    #[error("event {record} is for session {session_id}, which it does not know")]
    UnknownSession {
        /// The record.
        record: u64,
        /// The session.
        session_id: SessionId,
    },
    /// A record is not the next event of its session.
    #[error("event {record} is number {found} of session {session_id}, and {wanted} is next")]
    NotNextOfSession {
        /// The record.
        record: u64,
        /// The session.
        session_id: SessionId,
        /// The event that is next.
        wanted: EventNo,
        /// The record's event.
        found: EventNo,
    },
    /// An epoch ended that is not the current one, or with events of the index.
    #[error("epoch {0} ended, and it is not the current one, or events that it has were lost")]
    OtherEpoch(Epoch),
}

/// A session's events in the partition.
#[derive(Debug)]
pub struct IndexedSession {
    /// Its firm, as the partition defined it last; none for a session without one.
    pub firm_id: FirmId,
    /// Its events.
    pub stream: Stream,
}

/// The index of a partition's events up to a record.
#[derive(Debug)]
pub struct EventIndex {
    /// The next record.
    pub next: u64,
    /// The command that caused the newest record.
    pub position: Position,
    /// The epochs that its records belong to.
    pub lineage: Lineage,
    /// The points at which its records pass the ends of epochs.
    pub trail: PassedEnds,
    /// The sessions, and their events.
    pub sessions: BTreeMap<SessionId, IndexedSession>,
    /// The topics by firm; that of no firm has the records of all.
    pub topics: BTreeMap<FirmId, RecordIndex>,
    first: u64,
    retained: Retained,
}

impl EventIndex {
    /// Returns the index of no events: a reader of them stands at the first retained one. The
    /// sessions and their firms are those of the recovered engine, because the event log may have
    /// lost their definitions.
    #[must_use]
    pub fn new(
        events: &mut EventReader,
        firms: &[(SessionId, FirmId)],
        retained: Retained,
    ) -> EventIndex {
        let first = events.next_record();
        let mut lineage = Lineage::new(events.epoch());
        if let Some(position) = beginning(events) {
            lineage.begins_at(position);
        }
        let mut index = EventIndex {
            next: first,
            position: Position::NONE,
            trail: PassedEnds::starting_at(first),
            lineage,
            sessions: BTreeMap::new(),
            topics: BTreeMap::new(),
            first,
            retained,
        };
        index.topic(FirmId::NONE);
        firms.iter().for_each(|(id, firm_id)| index.define(*id, *firm_id));
        index
    }

    /// Takes the next event, or end of an epoch, of a reader that stands where the index ends;
    /// false when there is none now.
    ///
    /// # Errors
    /// [`IndexFault`]; the index is then of no use.
    pub fn take_next(
        &mut self,
        events: &mut EventReader,
        record: &mut Vec<u8>,
    ) -> Result<bool, IndexFault> {
        match events.next(record) {
            ReadEvent::Record(number) => self.take(number, record)?,
            ReadEvent::EpochEnded(change) => self.pass(&change)?,
            ReadEvent::UpToDate | ReadEvent::Missing => return Ok(false),
        }
        Ok(true)
    }

    /// Takes the end of an epoch before the next event.
    ///
    /// # Errors
    /// As [`EventIndex::take_next`].
    pub fn pass(&mut self, change: &EpochChange) -> Result<(), IndexFault> {
        let ended = change.ended.epoch;
        if change.taken_back > 0 || ended != self.lineage.current() || change.next <= ended {
            return Err(IndexFault::OtherEpoch(ended));
        }
        self.lineage.pass(change);
        Ok(())
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// As [`EventIndex::take_next`].
    pub fn take(&mut self, record_no: u64, record: &[u8]) -> Result<(), IndexFault> {
        if record_no != self.next {
            return Err(IndexFault::NotNext { wanted: self.next, found: record_no });
        }
        let event = EventRecord::new(record);
        self.next = record_no + 1;
        self.position = Position(event.position());
        self.trail.note(record_no, &self.lineage);
        let Some(address) = event.address() else {
            if let Some(Event::Defined(_, Definition::DefineSession(d))) = event.event() {
                self.define(d.defined_session_id, d.firm_id);
            }
            return Ok(());
        };
        if address.event_no.is_none() {
            return Ok(());
        }
        let (session_id, found) = (address.session_id, address.event_no);
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return Err(IndexFault::UnknownSession { record: record_no, session_id });
        };
        if !session.stream.can_follow(found) {
            let wanted = session.stream.next_event_no();
            let record = record_no;
            return Err(IndexFault::NotNextOfSession { record, session_id, wanted, found });
        }
        session.stream.note(Noted::of(&address, record_no), &self.lineage);
        let firm_id = session.firm_id;
        self.topic(FirmId::NONE).push(record_no);
        if !firm_id.is_none() {
            self.topic(firm_id).push(record_no);
        }
        Ok(())
    }

    /// Returns true when events before its first were past the retention.
    #[must_use]
    pub fn begins_late(&self) -> bool {
        self.first > 1
    }

    /// Returns the sessions and their firms.
    #[must_use]
    pub fn firms(&self) -> Vec<(SessionId, FirmId)> {
        self.sessions.iter().map(|(id, session)| (*id, session.firm_id)).collect()
    }

    /// Adds a session that no event has defined.
    pub fn know(&mut self, id: SessionId, firm_id: FirmId) {
        if !self.sessions.contains_key(&id) {
            self.define(id, firm_id);
        }
    }

    /// Records a session's firm. A firm's topic begins with the firm's first session.
    fn define(&mut self, id: SessionId, firm_id: FirmId) {
        self.topic(firm_id);
        let unknown = || IndexedSession { firm_id, stream: Stream::unknown() };
        self.sessions.entry(id).or_insert_with(unknown).firm_id = firm_id;
    }

    fn topic(&mut self, firm_id: FirmId) -> &mut RecordIndex {
        let (first, retained) = (self.first, self.retained.of(firm_id));
        self.topics.entry(firm_id).or_insert_with(|| RecordIndex::new(first, retained))
    }

    /// Drops what the log has removed: the records before `first`.
    pub fn forget_before(&mut self, first: u64) {
        self.sessions.values_mut().for_each(|session| session.stream.forget_before(first));
        self.topics.values_mut().for_each(|topic| topic.forget_before(first));
    }

    /// Appends the index's state.
    pub fn put_state(&self, out: &mut Vec<u8>) {
        for number in [VERSION, self.next, self.position.0, self.first] {
            put_number(out, number);
        }
        self.lineage.put_state(out);
        self.trail.put_state(out);
        put_number(out, self.sessions.len() as u64);
        for (id, session) in &self.sessions {
            put_number(out, u64::from(id.0));
            put_number(out, u64::from(session.firm_id.0));
            session.stream.put_state(out);
        }
        put_number(out, self.topics.len() as u64);
        for (firm_id, topic) in &self.topics {
            put_number(out, u64::from(firm_id.0));
            topic.put_state(out);
        }
    }

    /// Reads an index's state; `None` when it is none, or of another format.
    #[must_use]
    pub fn from_state(bytes: &[u8], retained: Retained) -> Option<EventIndex> {
        let state = &mut StateBytes::new(bytes);
        if state.number()? != VERSION {
            return None;
        }
        let [next, position, first] = [state.number()?, state.number()?, state.number()?];
        let lineage = Lineage::from_state(state)?;
        let trail = PassedEnds::from_state(state, &lineage)?;
        let mut sessions = BTreeMap::new();
        for _ in 0..state.count()? {
            let (id, firm_id) = (SessionId(state.narrow()?), FirmId(state.narrow()?));
            let stream = Stream::from_state(state, &lineage, next)?;
            sessions.insert(id, IndexedSession { firm_id, stream });
        }
        let mut topics = BTreeMap::new();
        for _ in 0..state.count()? {
            let firm_id = FirmId(state.narrow()?);
            topics.insert(firm_id, RecordIndex::from_state(state, retained.of(firm_id), next)?);
        }
        let mut firms = sessions.values().map(|session| session.firm_id).chain([FirmId::NONE]);
        let has_topics = firms.all(|firm_id| topics.contains_key(&firm_id));
        let is_numbered = (1..=next).contains(&first) && next < NUMBER_MAX && trail.is_before(next);
        let index = EventIndex {
            next,
            position: Position(position),
            lineage,
            trail,
            sessions,
            topics,
            first,
            retained,
        };
        (state.is_empty() && has_topics && is_numbered).then_some(index)
    }
}

/// Reads bytes as an index's state, for fuzz targets. An index that is read is written as the state
/// that it was read from, takes the next event of each of its sessions, and forgets events.
///
/// # Panics
/// When one of these does not hold.
pub fn fuzz_state(bytes: &[u8]) {
    let retained = Retained { of_firm: 1 };
    let Some(mut index) = EventIndex::from_state(bytes, retained) else { return };
    let check = |index: &EventIndex| {
        let (mut state, mut again) = (Vec::new(), Vec::new());
        index.put_state(&mut state);
        let read = EventIndex::from_state(&state, retained).expect("it was just written");
        read.put_state(&mut again);
        assert_eq!(state, again, "a state is read as it was written");
    };
    let numbers = index.sessions.values().map(|session| session.stream.next_event_no().0);
    if numbers.chain([index.next]).any(|number| number > NUMBER_MAX / 2) {
        // There are not so many events that the next ones would reach the limit.
        return;
    }
    check(&index);
    let sessions: Vec<_> = index.sessions.keys().copied().collect();
    for session_id in sessions {
        let event_no = index.sessions[&session_id].stream.next_event_no();
        let done = RequestDone {
            position: Position(index.position.0.saturating_add(1)),
            event_no,
            request_no: RequestNo::NONE,
            transact_time: Nanos(0),
            cl_ord_id: ClOrdId::NONE,
            affected_count: 0,
            session_id,
            partition_id: PartitionId(1),
            ref_template_id: 0,
            ..RequestDone::NOTHING_TOLD
        };
        let mut record = Vec::new();
        Event::Plain(PlainEvent::RequestDone(done)).encode(&mut record);
        let next = index.next;
        index.take(next, &record).expect("the next event of a session that it knows");
        let newest = index.sessions[&session_id].stream.newest();
        assert_eq!(newest, Some((event_no, next)), "the event is there");
    }
    check(&index);
    for first in [index.first, index.next / 2, index.next] {
        index.forget_before(first);
        check(&index);
    }
}

/// True if [`beginning`] can tell the position now: no descriptor may be left to read it.
#[must_use]
pub fn is_beginning_known(events: &mut EventReader) -> bool {
    let first = events.next_record();
    first == 1 || first >= events.end() || {
        events.read_at(first, &mut Vec::new()) == PastRead::Found
    }
}

/// Returns the position of the command that caused the first retained event, when earlier ones are
/// deleted.
#[must_use]
pub fn beginning(events: &mut EventReader) -> Option<Position> {
    let first = events.next_record();
    if first == 1 {
        return None;
    }
    let mut record = Vec::new();
    Some(match events.read_at(first, &mut record) {
        PastRead::Found => Position(EventRecord::new(&record).position()),
        // Without any record the positions of the deleted ones are unknown.
        PastRead::Missing | PastRead::Deleted => Position(u64::MAX),
    })
}

#[cfg(test)]
pub(crate) mod tests;
