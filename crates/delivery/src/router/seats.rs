//! The seats of waiting readers, their deadlines, and the queue of readers to visit.
//!
//! It has nothing to do with pages. A reader is in the queue at most once; a paused reader is not
//! queued until it is resumed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_types::Nanos;

#[derive(Debug)]
struct Seat<T> {
    connection: u64,
    timer: Option<Nanos>,
    is_ready: bool,
    is_paused: bool,
    /// `None` while the reader is being visited.
    reader: Option<T>,
}

/// Readers by slot, by connection and by deadline.
#[derive(Debug)]
pub(super) struct Seats<T> {
    seats: Vec<Option<Seat<T>>>,
    free: Vec<u32>,
    by_connection: BTreeMap<u64, Vec<u32>>,
    timers: BTreeSet<(Nanos, u32)>,
    ready: VecDeque<u32>,
}

impl<T> Seats<T> {
    pub(super) fn new() -> Seats<T> {
        Seats {
            seats: Vec::new(),
            free: Vec::new(),
            by_connection: BTreeMap::new(),
            timers: BTreeSet::new(),
            ready: VecDeque::new(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.seats.len() - self.free.len()
    }

    /// Seats a reader and queues it.
    pub(super) fn seat(&mut self, connection: u64, reader: T) -> u32 {
        let reader = Some(reader);
        let seat = Seat { connection, timer: None, is_ready: false, is_paused: false, reader };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.seats[slot as usize] = Some(seat);
                slot
            }
            None => {
                self.seats.push(Some(seat));
                u32::try_from(self.seats.len() - 1).expect("the caller bounds readers to a u32")
            }
        };
        self.by_connection.entry(connection).or_default().push(slot);
        self.make_ready(slot);
        slot
    }

    pub(super) fn unseat(&mut self, slot: u32) {
        let seat = self.seats[slot as usize].take().expect("the reader is seated");
        if let Some(timer) = seat.timer {
            self.timers.remove(&(timer, slot));
        }
        if let Some(slots) = self.by_connection.get_mut(&seat.connection) {
            slots.retain(|each| *each != slot);
            if slots.is_empty() {
                self.by_connection.remove(&seat.connection);
            }
        }
        self.free.push(slot);
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.seats.get_mut(slot as usize)?.as_mut()?.reader.as_mut()
    }

    pub(super) fn get(&self, slot: u32) -> Option<&T> {
        self.seats.get(slot as usize)?.as_ref()?.reader.as_ref()
    }

    /// Takes a reader off its seat for a visit; [`Seats::give_back`] returns it.
    pub(super) fn lend(&mut self, slot: u32) -> Option<T> {
        self.seats.get_mut(slot as usize)?.as_mut()?.reader.take()
    }

    pub(super) fn give_back(&mut self, slot: u32, reader: T) {
        self.seat_mut(slot).reader = Some(reader);
    }

    fn seat_mut(&mut self, slot: u32) -> &mut Seat<T> {
        self.seats[slot as usize].as_mut().expect("the reader is seated")
    }

    pub(super) fn make_ready(&mut self, slot: u32) {
        let Some(Some(seat)) = self.seats.get_mut(slot as usize) else { return };
        if !seat.is_ready && !seat.is_paused {
            seat.is_ready = true;
            self.ready.push_back(slot);
        }
    }

    /// Takes the next reader off the queue.
    pub(super) fn next_ready(&mut self) -> Option<u32> {
        while let Some(slot) = self.ready.pop_front() {
            if let Some(seat) = &mut self.seats[slot as usize]
                && seat.is_ready
            {
                seat.is_ready = false;
                return Some(slot);
            }
        }
        None
    }

    pub(super) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn set_timer(&mut self, slot: u32, timer: Option<Nanos>) {
        let seat = self.seat_mut(slot);
        let old = core::mem::replace(&mut seat.timer, timer);
        if old == timer {
            return;
        }
        if let Some(old) = old {
            self.timers.remove(&(old, slot));
        }
        if let Some(new) = timer {
            self.timers.insert((new, slot));
        }
    }

    pub(super) fn first_timer(&self) -> Option<Nanos> {
        self.timers.first().map(|(time, _)| *time)
    }

    /// Queues all readers whose deadline has come.
    pub(super) fn ready_the_due(&mut self, now: Nanos) {
        while let Some((time, slot)) = self.timers.first().copied() {
            if time > now {
                return;
            }
            self.timers.pop_first();
            self.seat_mut(slot).timer = None;
            self.make_ready(slot);
        }
    }

    /// Pauses a reader until its connection can take data.
    pub(super) fn pause(&mut self, slot: u32) {
        self.set_timer(slot, None);
        self.seat_mut(slot).is_paused = true;
    }

    pub(super) fn resume(&mut self, connection: u64) {
        self.of_connection(connection).into_iter().for_each(|slot| self.unpause(slot));
    }

    /// Queues a paused reader again.
    pub(super) fn unpause(&mut self, slot: u32) {
        self.seat_mut(slot).is_paused = false;
        self.make_ready(slot);
    }

    /// Returns the paused readers on `count` seats from `from` on, and the seat to go on at.
    pub(super) fn paused(
        &self,
        from: usize,
        count: usize,
    ) -> (impl Iterator<Item = (usize, &T)>, Option<usize>) {
        let end = from.saturating_add(count).min(self.seats.len());
        let seats = self.seats[from.min(end)..end].iter().zip(from..);
        let paused = seats.filter_map(|(seat, at)| {
            let seat = seat.as_ref().filter(|seat| seat.is_paused)?;
            Some((at, seat.reader.as_ref()?))
        });
        (paused, (end < self.seats.len()).then_some(end))
    }

    pub(super) fn of_connection(&self, connection: u64) -> Vec<u32> {
        self.by_connection.get(&connection).cloned().unwrap_or_default()
    }

    /// Returns the slots of all readers that `is_wanted` accepts.
    pub(super) fn slots(&self, is_wanted: impl Fn(&T) -> bool) -> Vec<u32> {
        let seats = self.seats.iter().enumerate();
        let wanted = seats.filter_map(|(slot, seat)| {
            let is_wanted = is_wanted(seat.as_ref()?.reader.as_ref()?);
            is_wanted.then(|| u32::try_from(slot).expect("the caller bounds readers to a u32"))
        });
        wanted.collect()
    }
}
