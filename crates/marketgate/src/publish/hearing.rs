//! Reads a partition's events and publishes them, epoch by epoch.
//!
//! The messages are a function of the events, so every reader derives the same messages under the
//! same sequence numbers: the multicast agent and the snapshot server each read at their own pace.
//! After a restart all earlier events are replayed, so that sequence numbers continue.

use std::collections::VecDeque;

use weir_feed::session_name::Calendar;
use weir_log::EpochEnd;
use weir_market::publish::{Publication, PublishSink};
use weir_partition::event_reader::{EventReader, ReadEvent};
use weir_types::{Epoch, PartitionId};
use weir_wire::{Definition, Event};

use super::publish_event;

/// The events to publish, with their partition, epochs and calendar.
pub struct HearingParts {
    /// The partition.
    pub partition_id: PartitionId,
    /// The partition's events, from the first.
    pub events: EventReader,
    /// The number of events at the start.
    pub event_count: u64,
    /// The partition's current epoch.
    pub epoch: Epoch,
    /// Its ended epochs, each with its last valid position.
    pub ended: Vec<EpochEnd>,
    /// The beginnings of trading days.
    pub calendar: Calendar,
}

/// The result of reading once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// An event, which may have defined an instrument.
    Event { is_definition: bool },
    /// No new event.
    UpToDate,
}

/// Publishes a partition's events into a sink.
pub(super) struct Hearing {
    parts: HearingParts,
    publication: Publication,
    /// Ended epochs not passed yet, each with the last position at which it is valid.
    ends: VecDeque<EpochEnd>,
    record: Vec<u8>,
    is_live: bool,
}

impl Hearing {
    /// Creates a reader that has read no events yet.
    pub fn new(mut parts: HearingParts) -> Hearing {
        let ends = lived_on(std::mem::take(&mut parts.ended));
        let first = ends.front().map_or(parts.epoch, |end| end.epoch);
        let publication = Publication::new(parts.calendar, first);
        Hearing { publication, ends, record: Vec::with_capacity(512), is_live: false, parts }
    }

    /// Reads the next event and publishes it to `out`.
    pub fn hear(&mut self, out: &mut impl PublishSink) -> Heard {
        match self.parts.events.next(&mut self.record) {
            ReadEvent::UpToDate => return Heard::UpToDate,
            ReadEvent::Record(_) => {}
        }
        let event = Event::decode(&self.record).expect("the event log holds our own messages");
        while self.ends.front().is_some_and(|end| end.last_valid < event.position()) {
            self.ends.pop_front();
            let epoch = self.ends.front().map_or(self.parts.epoch, |end| end.epoch);
            self.publication.enter_epoch(epoch, out);
        }
        publish_event(&mut self.publication, self.parts.partition_id, &event, out);
        let is_definition = matches!(event, Event::Defined(_, Definition::DefineInstrument(_)));
        Heard::Event { is_definition }
    }

    /// Called when no event is pending; returns true once all events from before the start are
    /// replayed. Until then the files are temporarily unreadable, and continuing without them would
    /// publish wrong messages.
    pub fn is_live(&mut self, out: &mut impl PublishSink) -> bool {
        if !self.is_live && self.parts.events.next_record() > self.parts.event_count {
            self.ends.clear();
            self.publication.enter_epoch(self.parts.epoch, out);
            self.is_live = true;
        }
        self.is_live
    }

    /// The state of the publication.
    pub fn publication(&self) -> &Publication {
        &self.publication
    }
}

/// Lowers each epoch's last valid position to that of the later ones: a later loss may reach back
/// into an earlier epoch.
fn lived_on(mut ended: Vec<EpochEnd>) -> VecDeque<EpochEnd> {
    for at in (1..ended.len()).rev() {
        ended[at - 1].last_valid = ended[at - 1].last_valid.min(ended[at].last_valid);
    }
    ended.into()
}

#[cfg(test)]
mod tests {
    //! Tests of the positions of ended epochs; the messages sent are tested on real nodes.

    use weir_types::Position;

    use super::*;

    #[test]
    fn an_epoch_lives_on_as_far_as_no_later_loss_reaches_back() {
        let end =
            |epoch, last_valid| EpochEnd { epoch: Epoch(epoch), last_valid: Position(last_valid) };
        let ended = vec![end(1, 10), end(2, 30), end(3, 20), end(5, 40)];
        let lived: Vec<_> = lived_on(ended).into_iter().collect();
        assert_eq!(lived, [end(1, 10), end(2, 20), end(3, 20), end(5, 40)]);
        assert!(lived_on(Vec::new()).is_empty());
    }
}
