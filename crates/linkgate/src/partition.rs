//! A partition of this process towards its links: the ring of its commands, its events with their
//! index, and the end of the links.
//!
//! The index is the one that a gateway of this process has: of the events of each session. It is
//! made of the recovered engine's sessions and the events that are retained, and goes on with each
//! record; the end looks at the events only as far as the index has them.
//!
//! INVARIANT: a record is noted by the index and the end at once, before any gateway gets it.

use std::collections::BTreeMap;

use weir_link::codec::{RECORD_NUMBERS_MAX, put_with_group};
use weir_link::grants::Grant;
use weir_link::message::{SessionFirm, SessionFirms};
use weir_link::partition_end::{EndFigures, OldRecordRead, RequestName, RingLoad, SessionPosition};
use weir_link::{PartitionEnd, PartitionTerms, PartitionView};
use weir_partition::checkpoint::Checkpoint;
use weir_partition::event_index::{EventIndex, Retained};
use weir_partition::event_reader::{EventReader, PastRead, ReadEvent, assert_kept};
use weir_partition::handoff::{Feedback, PartitionPort, Submission};
use weir_partition::holds::Hold;
use weir_partition::lineage::{ReaderPosition, Verdict};
use weir_types::{
    Epoch, EventNo, FirmId, InstrumentId, PartitionId, Position, Reason, RequestNo, SessionId,
    Survival,
};
use weir_wire::frame::put_frame;
use weir_wire::reference::DefineInstrument;
use weir_wire::{Definition, Event};

use crate::figures::{GatewayReport, LinkedReport};
use crate::seal::SealKey;

/// The records taken in one cycle.
const EVENTS_MAX: usize = 1_024;
/// The commands handed to the ring in one cycle.
const COMMANDS_MAX: usize = 4_096;

/// A session of the recovered engine.
#[derive(Clone, Copy, Debug)]
pub struct RecoveredSession {
    /// The session.
    pub id: SessionId,
    /// Its firm, or none.
    pub firm_id: FirmId,
    /// The number of its next event.
    pub next_event_no: EventNo,
    /// The highest request number that was accepted.
    pub last_request_no: RequestNo,
}

/// The parts of a partition towards its links.
pub struct LinkedPartitionParts {
    /// The terms of its links.
    pub terms: PartitionTerms,
    /// The ring for commands.
    pub ring: PartitionPort,
    /// Its events, from the oldest retained one.
    pub events: EventReader,
    /// The index of its events up to a record, if there is one.
    pub checkpoint: Option<Checkpoint>,
    /// The sessions of the recovered engine, in order.
    pub sessions: Vec<RecoveredSession>,
    /// Its instruments, as the recovered engine has them.
    pub instruments: Vec<DefineInstrument>,
    /// The sessions whose choice of cancel-on-disconnect its log holds.
    pub choices: Vec<SessionId>,
    /// The key of grants.
    pub key: SealKey,
}

/// A partition towards its links.
pub struct LinkedPartition {
    /// The end of the links.
    pub end: PartitionEnd,
    /// The events and their index.
    pub side: PartitionSide,
    ring: PartitionPort,
    record: Vec<u8>,
    /// Keeps the records that a gateway lacks.
    hold: Hold,
}

/// The events of a partition, as its links read them.
pub struct PartitionSide {
    partition_id: PartitionId,
    index: EventIndex,
    events: EventReader,
    instruments: BTreeMap<InstrumentId, DefineInstrument>,
    /// The sessions whose definition the listener has read: true for a trader's.
    roles: BTreeMap<SessionId, bool>,
    key: SealKey,
    /// The first record that is there: an earlier run may have removed those before it.
    retained_from: u64,
}

impl LinkedPartition {
    /// Returns the partition with the index of its events so far.
    ///
    /// # Panics
    /// When the event log contradicts itself, or the recovered engine.
    #[must_use]
    pub fn new(parts: LinkedPartitionParts) -> LinkedPartition {
        let LinkedPartitionParts { terms, ring, mut events, sessions, instruments, .. } = parts;
        let firms: Vec<_> = sessions.iter().map(|one| (one.id, one.firm_id)).collect();
        // Copies of firms' events are not served by links yet.
        let retained = Retained { of_firm: 1 };
        let retained_from = events.next_record();
        let mut index = match parts.checkpoint {
            Some(checkpoint) => {
                let index = checkpoint.index;
                events.skip_to(index.next, index.lineage.current());
                index
            }
            None => EventIndex::new(&mut events, &firms, retained),
        };
        let mut record = Vec::with_capacity(1024);
        while index.take_next(&mut events, &mut record).expect("the event log is sound") {}
        for one in &sessions {
            // The log of events may have lost its definition with those before the checkpoint.
            index.know(one.id, one.firm_id);
            let known = index.sessions.get_mut(&one.id).expect("the engine's sessions are in it");
            known.stream.agree(one.next_event_no, one.last_request_no);
        }
        let hold = events.hold("link", index.next);
        let side = PartitionSide {
            partition_id: terms.partition_id,
            index,
            events,
            instruments: instruments.into_iter().map(|one| (one.instrument_id, one)).collect(),
            roles: BTreeMap::new(),
            key: parts.key,
            retained_from,
        };
        let end = PartitionEnd::new(terms, parts.choices);
        LinkedPartition { end, side, ring, record, hold }
    }

    /// Returns the figures of its links.
    #[must_use]
    pub fn report(&self) -> LinkedReport {
        let EndFigures { bindings, queued, lapsed, refused } = self.end.figures();
        LinkedReport { bindings, queued, lapsed, refused, partition: self.id().0 }
    }

    /// Returns the figures of each gateway's link.
    pub fn gateway_reports(&self) -> impl Iterator<Item = GatewayReport> {
        let (end, partition) = (self.side.end_record(), self.id().0);
        self.end.link_figures().into_iter().map(move |link| GatewayReport {
            open: link.is_open,
            bindings: link.bindings,
            behind: end.saturating_sub(link.next_record),
            queued: link.queued,
            gateway: link.gateway.0,
            partition,
        })
    }

    /// Returns the partition's number.
    #[must_use]
    pub fn id(&self) -> PartitionId {
        self.side.partition_id
    }

    /// Takes refusals, and new records up to `last`; returns the amount of work.
    pub fn take_in(&mut self, last: u64) -> usize {
        self.take_feedback() + self.take_events(last)
    }

    /// Returns true if commands wait for room in the ring.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        self.end.next_command().is_some()
    }

    fn take_events(&mut self, last: u64) -> usize {
        let LinkedPartition { end, side, record, .. } = self;
        for count in 0..EVENTS_MAX {
            if side.events.next_record() > last {
                return count;
            }
            match side.events.next(record) {
                ReadEvent::Record(number) => {
                    side.note(number, record);
                    end.note_record(record);
                }
                ReadEvent::EpochEnded(change) => {
                    assert_kept(&change);
                    side.index.pass(&change).expect("the event log is sound");
                }
                ReadEvent::UpToDate | ReadEvent::Missing => return count,
            }
        }
        EVENTS_MAX
    }

    fn take_feedback(&mut self) -> usize {
        let mut count = 0;
        while let Ok(feedback) = self.ring.feedback.pop() {
            count += 1;
            // Stage times stay here until the link carries them.
            if let Feedback::Refused { session_id, request_no, template_id, reason } = feedback {
                self.end.refused(RequestName { session_id, request_no, template_id }, reason);
            }
        }
        count
    }

    /// Hands commands to the ring while that has room; returns their number.
    pub fn hand_on(&mut self) -> usize {
        let mut count = 0;
        while count < COMMANDS_MAX
            && let Some(next) = self.end.next_command()
            && self.ring.submissions.push(Submission::internal(next.command)).is_ok()
        {
            self.end.command_taken();
            count += 1;
        }
        if count > 0 {
            self.ring.wake.wake();
        }
        count
    }

    /// Notes the fill level of the ring for the pulses.
    pub fn note_load(&mut self) {
        let ring = &self.ring.submissions;
        let capacity = ring.buffer().capacity();
        let waiting = capacity - ring.slots();
        self.end.note_ring(RingLoad {
            waiting: u32::try_from(waiting).unwrap_or(u32::MAX),
            permille: (waiting * 1_000 / capacity) as u16,
        });
    }

    /// Keeps the records from the least one on that a gateway lacks, and drops those that the log
    /// has removed from the index.
    pub fn keep_for(&mut self, gateways: impl Iterator<Item = SessionId>) {
        let lacking = gateways.filter_map(|gateway| self.end.next_record_of(gateway)).min();
        self.hold.set(lacking.unwrap_or(self.side.index.next));
        let first = self.side.events.retained_from();
        if first > self.side.retained_from {
            self.side.retained_from = first;
            self.side.index.forget_before(first);
        }
    }

    /// Returns true if records that a gateway lacks are removed.
    #[must_use]
    pub fn has_lost(&self, gateway: SessionId) -> bool {
        let next = self.end.next_record_of(gateway);
        next.is_some_and(|next| next < self.side.retained_from) || self.end.has_lost(gateway)
    }
}

impl PartitionSide {
    fn note(&mut self, number: u64, record: &[u8]) {
        self.index.take(number, record).expect("the event log is sound");
        if let Ok(Event::Defined(_, Definition::DefineInstrument(d))) = Event::decode(record)
            && d.partition_id == self.partition_id
        {
            self.instruments.insert(d.instrument_id, d);
        }
    }

    /// Returns the reason for which no gateway gets a session: it is not defined, or no trader's.
    /// Others log on at the node itself, which could not see them at a gateway.
    #[must_use]
    pub fn refused_to_gateways(&self, id: SessionId) -> Option<Reason> {
        match self.roles.get(&id).filter(|_| self.index.sessions.contains_key(&id)) {
            None => Some(Reason::UnknownSession),
            Some(false) => Some(Reason::NotServedHere),
            Some(true) => None,
        }
    }

    /// Notes if a session is a trader's.
    pub fn note_role(&mut self, id: SessionId, is_trader: bool) {
        self.roles.insert(id, is_trader);
    }
}

impl PartitionView for PartitionSide {
    fn end_record(&self) -> u64 {
        self.index.next
    }

    fn epoch(&self) -> Epoch {
        self.index.lineage.current()
    }

    fn epoch_at(&self, record: u64) -> Epoch {
        let EventIndex { lineage, trail, .. } = &self.index;
        let ended = lineage.epochs().ended().iter().map(|(epoch, _)| *epoch).enumerate();
        let mut behind = ended
            .skip_while(|(end, _)| trail.first_behind(*end).is_some_and(|behind| behind <= record));
        behind.next().map_or(lineage.current(), |(_, epoch)| epoch)
    }

    fn epoch_end(&self, epoch: Epoch, record: u64) -> Option<(Position, Epoch)> {
        let EventIndex { lineage, trail, .. } = &self.index;
        let epochs = lineage.epochs();
        let Survival::UpTo(last_valid) = epochs.survival(epoch) else { return None };
        let end = epochs.index_of(epoch).expect("it has a surviving part");
        let behind = trail.first_behind(end).unwrap_or(self.index.next);
        let next = epochs.ended().get(end + 1).map_or(epochs.current(), |(epoch, _)| *epoch);
        (record >= behind).then_some((last_valid, next))
    }

    fn continues(&self, next_record: u64, epoch: Epoch) -> bool {
        let EventIndex { lineage, trail, next, .. } = &self.index;
        let first = self.retained_from.max(self.events.retained_from());
        let is_there = (first..=*next).contains(&next_record);
        let at = ReaderPosition { epoch, next: next_record };
        is_there && !epoch.is_none() && trail.judge(at, *next, lineage) == Verdict::Same
    }

    fn record(&mut self, number: u64, into: &mut Vec<u8>) -> bool {
        self.old_record(number, into) == OldRecordRead::Found
    }

    fn session(&self, id: SessionId, wanted: EventNo, epoch: Epoch) -> Option<SessionPosition> {
        // Without its role its choice could not be told from none.
        self.roles.get(&id)?;
        let stream = &self.index.sessions.get(&id)?.stream;
        let last_request_no = stream.last_request_no();
        Some(match stream.check_resume(wanted, epoch, &self.index.lineage) {
            Ok(()) => SessionPosition {
                last_request_no,
                next_event_no: stream.next_event_no(),
                oldest_event_no: stream.oldest(),
                refusal: None,
            },
            Err(cannot) => SessionPosition {
                last_request_no,
                next_event_no: cannot.next,
                oldest_event_no: cannot.oldest,
                refusal: Some(cannot.reason),
            },
        })
    }

    fn record_of(&self, id: SessionId, wanted: EventNo) -> u64 {
        let session = self.index.sessions.get(&id);
        let record = session.and_then(|session| session.stream.record_of(wanted));
        record.unwrap_or(self.index.next)
    }

    fn past_records(&self, id: SessionId, wanted: EventNo, before: u64) -> Vec<u64> {
        let Some(session) = self.index.sessions.get(&id) else { return Vec::new() };
        session.stream.records_from(wanted).take_while(|record| *record < before).collect()
    }

    fn old_record(&mut self, number: u64, into: &mut Vec<u8>) -> OldRecordRead {
        match self.events.read_at(number, into) {
            PastRead::Found => OldRecordRead::Found,
            PastRead::Missing => OldRecordRead::NotYet,
            PastRead::Deleted => OldRecordRead::Deleted,
        }
    }

    fn put_definitions(&self, gateway: SessionId, out: &mut Vec<u8>) {
        for definition in self.instruments.values() {
            put_frame(definition, out);
        }
        let partition_id = self.partition_id;
        let firms = self.index.firms().into_iter();
        let firms: Vec<_> = firms
            .map(|(bound_session_id, firm_id)| SessionFirm { bound_session_id, firm_id })
            .collect();
        for part in firms.chunks(RECORD_NUMBERS_MAX) {
            put_with_group(&SessionFirms { session_id: gateway, partition_id }, part, out);
        }
    }

    fn is_granted(&self, grant: &Grant) -> bool {
        self.key.is_good(grant)
    }

    fn is_trader(&self, id: SessionId) -> bool {
        !self.partition_id.is_none() && self.roles.get(&id) == Some(&true)
    }
}
