//! Checkpoints of the published market: its state behind an event, so that a start reads only the
//! events since, and those before need not be kept.
//!
//! ```text
//! checkpoints    |-- C1 --|-- C2 --|       the two newest are kept, and the events since C1
//! events                  ..............   a start begins with C1, so that the messages since
//!                         '- since C1 -'   then can be requested again
//! ```
//!
//! An agent writes them ([`super::checkpoint_agent`]). Without a checkpoint of use, a market of
//! which the first events are gone begins anew with the engine's book, in an epoch of its own:
//! under the name of the session before, other messages may have been sent
//! ([`super::StandingMarket`]).

use thiserror::Error;
use weir_feed::session_name::Calendar;
use weir_io::{Disk, DiskError};
use weir_log::SnapshotStore;
use weir_log::snapshot::SnapshotFault;
use weir_market::publish::{Publication, StateFault};
use weir_partition::event_reader::{EventReader, PastRead, position_of};
use weir_types::state_bytes::{StateBytes, put_number};
use weir_types::{Epoch, Position};

use super::numbers::Numbers;
use crate::plant::{self, Plant};

/// The version of the format.
const VERSION: u64 = 1;
/// The number of checkpoints kept.
pub(super) const KEEP: usize = 2;

/// The state of the published market behind an event.
#[derive(Clone, Debug)]
pub struct PublishCheckpoint {
    /// The number of the next event.
    pub(super) next: u64,
    /// The position of the command that caused the event before it.
    pub(super) position: Position,
    /// The open session and the number of its next message.
    pub(super) numbers: Numbers,
    /// The state.
    pub(super) publication: Publication,
}

/// The reason why a checkpoint is passed over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PublishCheckpointFault {
    /// The file is not sound.
    #[error("{0}")]
    File(SnapshotFault),
    /// The disk does not read it.
    #[error("{0}")]
    Unreadable(DiskError),
    /// The bytes are no state of a publication that can go on here.
    #[error("{0}")]
    State(StateFault),
    /// Events between it and the first retained one are gone.
    #[error("events {from} to {to} are past the retention")]
    PastRetention {
        /// The first event that it lacks.
        from: u64,
        /// The last one that is gone.
        to: u64,
    },
    /// It has events of an epoch that lost them.
    #[error("its epoch {0} has lost its last events")]
    LostEvents(Epoch),
    /// Its last event is another one in the log.
    #[error("event {0} cannot be read, or is another one")]
    OtherEvent(u64),
}

impl PublishCheckpoint {
    /// Returns the state of a market that begins behind event `event_count`, without a session.
    #[must_use]
    pub fn of_market(event_count: u64, position: Position, publication: Publication) -> Self {
        PublishCheckpoint { next: event_count + 1, position, numbers: Numbers::new(), publication }
    }

    /// Returns the newest event that it has.
    #[must_use]
    pub fn event(&self) -> u64 {
        self.next - 1
    }

    fn from_state(bytes: &[u8], calendar: Calendar) -> Result<Self, StateFault> {
        let state = &mut StateBytes::new(bytes);
        let mut number = || state.number().ok_or(StateFault::Format);
        if number()? != VERSION {
            return Err(StateFault::Format);
        }
        let (next, position, next_sequence) = (number()?, Position(number()?), number()?);
        let publication = Publication::from_state(state, calendar)?;
        let is_numbered =
            next > 1 && next < u64::MAX / 2 && (1..u64::MAX / 2).contains(&next_sequence);
        let numbers = Numbers { session: publication.session(), next: next_sequence };
        let read = PublishCheckpoint { next, position, numbers, publication };
        if is_numbered { Ok(read) } else { Err(StateFault::Format) }
    }

    /// Returns the fault of a checkpoint of event `at` of a log.
    fn fault(&self, at: Position, events: &mut EventReader) -> Option<PublishCheckpointFault> {
        use PublishCheckpointFault::{LostEvents, OtherEvent, PastRetention};
        let first = events.next_record();
        if self.event() != at.0 {
            return Some(PublishCheckpointFault::State(StateFault::Format));
        }
        if self.next < first {
            return Some(PastRetention { from: self.next, to: first - 1 });
        }
        let epoch = self.publication.epoch();
        let is_taken = plant::is(Plant::MarketOfLostEvents);
        if !events.epochs().has(epoch, self.position) && !is_taken {
            return Some(LostEvents(epoch));
        }
        if self.next == first {
            // Its event is past the retention.
            return None;
        }
        let mut record = Vec::new();
        let is_same = events.read_at(at.0, &mut record) == PastRead::Found
            && position_of(&record) == self.position;
        (!is_same).then_some(OtherEvent(at.0))
    }
}

/// The place of a publication: behind an event and a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    /// The number of the next event.
    pub(super) next: u64,
    /// The position of the command that caused the event before it.
    pub(super) position: Position,
    /// The number of the session's next message.
    pub(super) next_sequence: u64,
}

/// Appends the state of a market.
pub(super) fn put_state(behind: Behind, publication: &Publication, out: &mut Vec<u8>) {
    for number in [VERSION, behind.next, behind.position.0, behind.next_sequence] {
        put_number(out, number);
    }
    publication.put_state(out);
}

/// The log that a checkpoint has to fit.
pub struct PublishedLog {
    /// Its events, at the first retained one.
    pub events: EventReader,
    /// Their number.
    pub event_count: u64,
    /// The beginnings of trading days.
    pub calendar: Calendar,
}

/// Loads the oldest checkpoint that fits a log. `None` when there is none, and when there is only
/// one and the log has all events: those before it can be requested again, too. Says in `notes`
/// which are passed over.
///
/// # Errors
/// When the disk fails.
pub fn load<D: Disk>(
    store: &mut SnapshotStore<D>,
    log: PublishedLog,
    notes: &mut Vec<String>,
) -> Result<Option<PublishCheckpoint>, DiskError> {
    let PublishedLog { mut events, event_count, calendar } = log;
    store.remove_after(Position(event_count))?;
    let mut found = store.list()?;
    if plant::is(Plant::NewestMarketFirst) {
        found.reverse();
    }
    if found.len() < KEEP && events.next_record() == 1 {
        return Ok(None);
    }
    for at in found {
        let read = match store.load(at) {
            Ok(Ok(bytes)) => PublishCheckpoint::from_state(&bytes, calendar)
                .map_err(PublishCheckpointFault::State),
            Ok(Err(fault)) => Err(PublishCheckpointFault::File(fault)),
            Err(error) => Err(PublishCheckpointFault::Unreadable(error)),
        };
        let fault = match read {
            Ok(read) => match read.fault(at, &mut events) {
                None => return Ok(Some(read)),
                Some(fault) => fault,
            },
            Err(fault) => fault,
        };
        notes.push(format!(
            "market publisher: the checkpoint of event {at} is passed over: {fault}"
        ));
    }
    Ok(None)
}
