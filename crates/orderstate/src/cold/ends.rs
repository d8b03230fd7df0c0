//! The ends of the partition's past epochs as change ids: the events tell them as positions, and
//! segments are named by change ids.

use anyhow::bail;
use weir_partition::event_reader::{EventReader, ReadEvent, assert_kept};
use weir_types::{ChangeId, Epoch};
use weir_wire::{Event, PlainEvent};

/// Returns the last valid change id of each ended epoch, oldest first. Reads the events from the
/// first one up to the last end; reads none if no epoch ended.
///
/// # Errors
/// When the event log cannot be read up to the last end. An archive that misses an end would keep
/// lost changes, and honour tokens for them.
pub fn places_of(mut events: EventReader) -> anyhow::Result<Vec<(Epoch, ChangeId)>> {
    let mut places = Vec::new();
    let (mut record, mut head) = (Vec::new(), ChangeId::START);
    while !events.has_told_ends() {
        match events.next(&mut record) {
            ReadEvent::EpochEnded(change) => {
                assert_kept(&change);
                places.push((change.ended.epoch, head));
            }
            ReadEvent::Record(_) => {
                let event = Event::decode(&record).expect("the event log holds our own messages");
                if let Event::Plain(PlainEvent::OrderEvent(order)) = &event
                    && !order.rec.is_none()
                {
                    head = head.max(ChangeId::new(order.seq, order.rec));
                }
            }
            // All ends lie before the log's end.
            ReadEvent::UpToDate | ReadEvent::Missing => {
                bail!("the event log cannot be read up to the end of epoch {}", events.epoch())
            }
        }
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use weir_types::{Rec, Seq};

    use super::*;
    use crate::agent::tests::{epochs, log_of};

    #[test]
    fn an_epoch_ends_at_the_last_change_that_no_later_loss_took() {
        let dir = tempfile::tempdir().unwrap();
        let epochs = epochs(6, &[(1, 10), (2, 8), (4, 15), (5, 20)]);
        let (_writer, events) = log_of(dir.path(), 20, epochs);
        let at = |number| ChangeId::new(Seq(number), Rec(number));
        let ends = [(1, 8), (2, 8), (4, 15), (5, 20)].map(|(epoch, to)| (Epoch(epoch), at(to)));
        assert_eq!(places_of(events).unwrap(), ends);
    }

    #[test]
    fn an_end_behind_events_that_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let (_writer, events) = log_of(dir.path(), 20, epochs(2, &[(1, 10)]));
        for file in std::fs::read_dir(dir.path().join("events")).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
        let error = places_of(events).unwrap_err();
        assert_eq!(error.to_string(), "the event log cannot be read up to the end of epoch 1");
    }
}
