//! The topics of a `Fanout`: the listeners and the latest entry of each instrument and kind.

use weir_types::InstrumentId;

use super::entry::{Entry, Kind};
use super::slot::NONE;

/// A subscriber's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listener {
    pub(super) subscriber: u32,
    pub(super) slot: u32,
}

/// The listeners of a topic behind the departure of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// There is none any more.
    Nobody,
    /// They have their places.
    Others,
    /// This one has the place of the one that left.
    Moved(Listener),
}

/// A kind of an instrument with at least one listener.
#[derive(Clone, Debug)]
pub(super) struct Topic {
    pub(super) listeners: Vec<Listener>,
    /// The wish that began it: entries from before the first stage had taken that are not its own.
    pub(super) begun_by: u64,
    /// The latest entry since the first listener joined: the snapshot for a new one.
    pub(super) latest: Option<Entry>,
}

/// All topics.
#[derive(Clone, Debug, Default)]
pub(super) struct Topics {
    by_instrument: Vec<[u32; Kind::COUNT]>,
    topics: Vec<Topic>,
    free: Vec<u32>,
}

impl Topics {
    pub(super) fn get_mut(&mut self, id: InstrumentId, kind: Kind) -> Option<&mut Topic> {
        let index = self.by_instrument.get(id.0 as usize)?[kind as usize];
        self.topics.get_mut(index as usize)
    }

    /// Adds a listener. Returns its place, zero for the first, and the topic's latest entry.
    pub(super) fn join(
        &mut self,
        id: InstrumentId,
        kind: Kind,
        listener: Listener,
    ) -> (u32, Option<Entry>) {
        let instrument = id.0 as usize;
        if self.by_instrument.len() <= instrument {
            self.by_instrument.resize(instrument + 1, [NONE; Kind::COUNT]);
        }
        let index = &mut self.by_instrument[instrument][kind as usize];
        if *index == NONE {
            *index = self.free.pop().unwrap_or(self.topics.len() as u32);
            if *index as usize == self.topics.len() {
                self.topics.push(Topic { listeners: Vec::new(), begun_by: 0, latest: None });
            }
        }
        let topic = &mut self.topics[*index as usize];
        topic.listeners.push(listener);
        (topic.listeners.len() as u32 - 1, topic.latest)
    }

    /// Removes the listener at a place.
    pub(super) fn leave(&mut self, id: InstrumentId, kind: Kind, place: u32) -> Left {
        let index = &mut self.by_instrument[id.0 as usize][kind as usize];
        let topic = &mut self.topics[*index as usize];
        topic.listeners.swap_remove(place as usize);
        if topic.listeners.is_empty() {
            topic.latest = None;
            self.free.push(std::mem::replace(index, NONE));
            return Left::Nobody;
        }
        topic.listeners.get(place as usize).map_or(Left::Others, |moved| Left::Moved(*moved))
    }

    /// Returns all listeners of an instrument, with their kinds.
    pub(super) fn of_instrument(&self, id: InstrumentId) -> Vec<(Kind, Listener)> {
        let Some(indices) = self.by_instrument.get(id.0 as usize) else { return Vec::new() };
        let topics = Kind::ALL.into_iter().zip(indices);
        topics
            .filter_map(|(kind, index)| Some((kind, self.topics.get(*index as usize)?)))
            .flat_map(|(kind, topic)| topic.listeners.iter().map(move |listener| (kind, *listener)))
            .collect()
    }
}
