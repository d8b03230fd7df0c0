//! A ring from one thread to one or more readers, each of which reads every slot.
//!
//! Slots are written and read in place. A writer never overwrites a slot that a reader has not
//! read: writing fails while there is no room. All ends are polled; the runner decides the
//! behaviour of idle threads.

use disruptor::{
    BusySpin, EventPoller, MultiConsumerBarrier, Polling, Producer as _, SingleProducer,
    SingleProducerBarrier, build_single_producer,
};

/// A destination of slots: a ring, or a benchmark's substitute.
pub trait Slots<T> {
    /// Writes the next slot, which still holds its previous content. Returns false without calling
    /// `write` when there is no room.
    fn write(&mut self, write: impl FnOnce(&mut T)) -> bool;
}

/// The writing end.
pub struct RingWriter<T> {
    producer: SingleProducer<T, MultiConsumerBarrier>,
}

/// A reading end.
pub struct RingReader<T> {
    poller: EventPoller<T, SingleProducerBarrier>,
}

/// Creates a ring of `slots` slots, rounded up to a power of two, with `count` reading ends.
///
/// # Panics
/// If `count` is zero.
#[must_use]
pub fn ring<T: Default + Send + Sync + 'static>(
    slots: usize,
    count: usize,
) -> (RingWriter<T>, Vec<RingReader<T>>) {
    assert!(count > 0, "somebody reads");
    let builder = build_single_producer(slots.next_power_of_two(), T::default, BusySpin);
    let mut builder = builder.with_multi_consumer();
    let mut readers = Vec::with_capacity(count);
    for _ in 0..count {
        let (poller, next) = builder.new_event_poller();
        readers.push(RingReader { poller });
        builder = next;
    }
    (RingWriter { producer: builder.build() }, readers)
}

impl<T: Send + Sync + 'static> Slots<T> for RingWriter<T> {
    /// There is no room until the slowest reader has read the slot's previous content.
    #[inline]
    fn write(&mut self, write: impl FnOnce(&mut T)) -> bool {
        self.producer.try_publish(write).is_ok()
    }
}

impl<T: Send + Sync + 'static> RingReader<T> {
    /// Passes written slots to `take`, at most `max`; returns their number.
    #[inline]
    pub fn take(&mut self, max: u64, mut take: impl FnMut(&T)) -> usize {
        let mut slots = match self.poller.take(max) {
            Ok(slots) => slots,
            Err(Polling::NoEvents | Polling::Shutdown) => return 0,
        };
        let mut count = 0;
        for slot in &mut slots {
            take(slot);
            count += 1;
        }
        count
    }

    /// Returns true if there are slots to take.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.poller.has_available()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reader_reads_all_in_order_and_a_full_ring_says_so() {
        let (mut writer, mut readers) = ring::<u64>(4, 2);
        let write = |writer: &mut RingWriter<u64>, value| writer.write(|slot| *slot = value);
        assert!((0..4).all(|value| write(&mut writer, value)));
        assert!(!write(&mut writer, 9), "nobody has read");
        let mut read = vec![];
        assert_eq!(readers[0].take(100, |value| read.push(*value)), 4);
        assert!(!write(&mut writer, 9), "one has not read");
        assert_eq!(readers[1].take(1, |_| {}), 1);
        assert!(write(&mut writer, 4));
        assert!(readers[1].has_more());
        assert_eq!(readers[1].take(100, |_| {}), 4);
        assert_eq!(readers[0].take(100, |value| read.push(*value)), 1);
        assert_eq!(read, [0, 1, 2, 3, 4]);
        assert_eq!(readers[0].take(100, |_| {}), 0);
        assert!(!readers[0].has_more());
    }

    #[test]
    fn a_million_values_cross_threads_in_order() {
        let (mut writer, mut readers) = ring::<u64>(64, 2);
        let reading = |mut reader: RingReader<u64>| {
            std::thread::spawn(move || {
                let mut next = 0;
                while next < 1_000_000 {
                    let read = reader.take(32, |value| {
                        assert_eq!(*value, next);
                        next += 1;
                    });
                    if read == 0 {
                        std::thread::yield_now();
                    }
                }
            })
        };
        let threads: Vec<_> = readers.drain(..).map(reading).collect();
        for value in 0..1_000_000 {
            while !writer.write(|slot| *slot = value) {
                std::thread::yield_now();
            }
        }
        threads.into_iter().for_each(|thread| thread.join().expect("it saw all in order"));
    }
}
