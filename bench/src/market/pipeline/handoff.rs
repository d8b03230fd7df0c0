//! The hand-off from the updating to the flush thread: the gateway's ring, or a channel instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_marketgate::gateway::flush_slot::FlushSlot;
use weir_marketgate::gateway::ring::{RingReader, RingWriter, Slots, ring};

/// The number of slots of each hand-off.
const SLOTS: usize = 256;

/// The writing end.
pub enum Writer {
    Ring(RingWriter<FlushSlot>),
    Crossbeam(crossbeam_channel::Sender<FlushSlot>),
    Std(std::sync::mpsc::Sender<FlushSlot>, Arc<AtomicUsize>),
}

/// The reading end.
pub enum Reader {
    Ring(RingReader<FlushSlot>),
    Crossbeam(crossbeam_channel::Receiver<FlushSlot>),
    Std(std::sync::mpsc::Receiver<FlushSlot>, Arc<AtomicUsize>),
}

/// Creates both ends of a hand-off by name.
pub fn handoff(name: &str) -> (Writer, Reader) {
    match name {
        "disruptor" => {
            let (writer, mut readers) = ring(SLOTS, 1);
            (Writer::Ring(writer), Reader::Ring(readers.remove(0)))
        }
        "crossbeam" => {
            let (sender, receiver) = crossbeam_channel::bounded(SLOTS);
            (Writer::Crossbeam(sender), Reader::Crossbeam(receiver))
        }
        "std" => {
            // The bounded channel cannot report that it is full before a message is built.
            let (sender, receiver) = std::sync::mpsc::channel();
            let count = Arc::new(AtomicUsize::new(0));
            (Writer::Std(sender, count.clone()), Reader::Std(receiver, count))
        }
        other => panic!("unknown hand-off {other}"),
    }
}

fn made(write: impl FnOnce(&mut FlushSlot)) -> FlushSlot {
    let mut told = FlushSlot::default();
    write(&mut told);
    told
}

impl Slots<FlushSlot> for Writer {
    fn write(&mut self, write: impl FnOnce(&mut FlushSlot)) -> bool {
        match self {
            Writer::Ring(ring) => ring.write(write),
            Writer::Crossbeam(sender) => {
                let has_room = !sender.is_full();
                if has_room {
                    sender.try_send(made(write)).expect("there is room and a reader");
                }
                has_room
            }
            Writer::Std(sender, count) => {
                // SYNC: the channel orders the messages; the count is only a limit.
                let has_room = count.load(Ordering::Relaxed) < SLOTS;
                if has_room {
                    count.fetch_add(1, Ordering::Relaxed);
                    sender.send(made(write)).expect("there is a reader");
                }
                has_room
            }
        }
    }
}

impl Reader {
    /// Passes written slots to `take`, at most `max`; returns their number.
    pub fn take(&mut self, max: u64, mut take: impl FnMut(&FlushSlot)) -> usize {
        let mut count = 0;
        match self {
            Reader::Ring(ring) => return ring.take(max, take),
            Reader::Crossbeam(receiver) => {
                while count < max as usize
                    && let Ok(told) = receiver.try_recv()
                {
                    take(&told);
                    count += 1;
                }
            }
            Reader::Std(receiver, waiting) => {
                while count < max as usize
                    && let Ok(told) = receiver.try_recv()
                {
                    waiting.fetch_sub(1, Ordering::Relaxed);
                    take(&told);
                    count += 1;
                }
            }
        }
        count
    }
}
