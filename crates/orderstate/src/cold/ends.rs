//! The ends of the partition's past epochs as change ids: the log records them as positions, and
//! segments are named by change ids.

use weir_cold::Place;
use weir_log::EpochEnd;
use weir_partition::event_reader::{EventReader, ReadEvent};
use weir_types::Epoch;
use weir_wire::{Event, PlainEvent};

/// Returns the last valid change id of each ended epoch, oldest first. Reads the events from the
/// first one up to the last end; reads none if no epoch ended.
#[must_use]
pub fn places_of(mut events: EventReader, ended: &[EpochEnd]) -> Vec<(Epoch, Place)> {
    let mut places = Vec::with_capacity(ended.len());
    let mut left = ended.iter().peekable();
    let (mut record, mut head) = (Vec::new(), Place::START);
    while left.peek().is_some() {
        let ReadEvent::Record(_) = events.next(&mut record) else { break };
        let event = Event::decode(&record).expect("the event log holds our own messages");
        while let Some(end) = left.next_if(|end| end.last_valid < event.position()) {
            places.push((end.epoch, head));
        }
        if let Event::Plain(PlainEvent::OrderEvent(order)) = &event
            && !order.rec.is_none()
        {
            head = head.max(Place::new(order.seq, order.rec));
        }
    }
    places.extend(left.map(|end| (end.epoch, head)));
    places
}
