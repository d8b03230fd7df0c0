//! A partition's events as what is published of them, epoch by epoch.
//!
//! What is said is a function of the events, so whoever hears them says the same under the same
//! numbers: the one that sends and the one that serves snapshots hear them each at its own pace.
//! After a start all events of before are heard again, so that numbers go on where they were.

use std::collections::VecDeque;

use weir_feed::session_name::Calendar;
use weir_log::EpochEnd;
use weir_market::publish::{Publication, PublishSink};
use weir_partition::event_reader::{EventReader, ReadEvent};
use weir_types::{Epoch, PartitionId};
use weir_wire::{Definition, Event};

use super::publish_event;

/// What is heard.
pub struct HearingParts {
    /// The partition.
    pub partition_id: PartitionId,
    /// Its events, from its first.
    pub events: EventReader,
    /// How many there are at the start.
    pub event_count: u64,
    /// Its epoch.
    pub epoch: Epoch,
    /// Its epochs before, each with its last valid position.
    pub ended: Vec<EpochEnd>,
    /// When days begin.
    pub calendar: Calendar,
}

/// What hearing once came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// An event, which may have defined an instrument.
    Event { is_definition: bool },
    /// There is none that was not heard.
    UpToDate,
}

/// See the module's documentation.
pub(super) struct Hearing {
    parts: HearingParts,
    publication: Publication,
    /// Ended epochs that are not passed, each with where it ends to live on.
    ends: VecDeque<EpochEnd>,
    record: Vec<u8>,
    is_live: bool,
}

impl Hearing {
    /// Has heard nothing yet.
    pub fn new(mut parts: HearingParts) -> Hearing {
        let ends = lived_on(std::mem::take(&mut parts.ended));
        let first = ends.front().map_or(parts.epoch, |end| end.epoch);
        let publication = Publication::new(parts.calendar, first);
        Hearing { publication, ends, record: Vec::with_capacity(512), is_live: false, parts }
    }

    /// Hears the next event, and says to `out` what it comes to.
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

    /// Nothing new is there: true once all of before the start was heard. Until then the files
    /// cannot be read just now, and to go on without them would say wrong things.
    pub fn is_live(&mut self, out: &mut impl PublishSink) -> bool {
        if !self.is_live && self.parts.events.next_record() > self.parts.event_count {
            self.ends.clear();
            self.publication.enter_epoch(self.parts.epoch, out);
            self.is_live = true;
        }
        self.is_live
    }

    /// What was published.
    pub fn publication(&self) -> &Publication {
        &self.publication
    }
}

/// Ended epochs, each with the position up to which it lives on: a later loss may reach back into
/// an earlier epoch.
fn lived_on(mut ended: Vec<EpochEnd>) -> VecDeque<EpochEnd> {
    for at in (1..ended.len()).rev() {
        ended[at - 1].last_valid = ended[at - 1].last_valid.min(ended[at].last_valid);
    }
    ended.into()
}

#[cfg(test)]
mod tests {
    //! What becomes of ended epochs; what is sent is tested on real nodes.

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
