//! The memory under a probe ring: two control lines and the slots, on the heap or in a file that
//! another process maps.
//!
//! File layout, little-endian words of 64 bits: a control block of 4096 bytes (word 0 magic, word 1
//! capacity in records, word 16 the producer's index, word 17 records dropped, word 32 the
//! consumer's index, else zero), then two words per record. This module does not control the access
//! to the memory; `ring` does.
//!
//! INVARIANT: the capacity is a power of two and the slots hold twice as many words.

use std::ptr::NonNull;

use crate::sync::AtomicU64;

/// The magic word, "WEIRRNG1" read as bytes.
#[cfg(not(loom))]
const MAGIC: u64 = u64::from_le_bytes(*b"WEIRRNG1");
/// The offset of the slots in a file: one page, so that they share no cache line with the control
/// block.
#[cfg(not(loom))]
const SLOTS_AT: usize = 4096;
#[cfg(not(loom))]
const RECORD_BYTES: usize = 16;

/// The words that only the producer writes. Two cache lines wide: processors fetch lines in pairs.
#[repr(C, align(128))]
pub(crate) struct ProducerLine {
    pub(crate) head: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

/// The words that only the consumer writes.
#[repr(C, align(128))]
pub(crate) struct ConsumerLine {
    pub(crate) tail: AtomicU64,
}

/// The start of the control block; all atomics, so that any mapping of zeros is a valid one.
#[repr(C, align(128))]
pub(crate) struct Control {
    magic: AtomicU64,
    capacity: AtomicU64,
    pub(crate) producer: ProducerLine,
    pub(crate) consumer: ConsumerLine,
}

enum Backing {
    Heap,
    #[cfg(not(loom))]
    File(#[allow(dead_code, reason = "kept so that the mapping lives")] memmap2::MmapRaw),
}

/// The memory of one ring.
pub(crate) struct Memory {
    control: NonNull<Control>,
    slots: NonNull<AtomicU64>,
    capacity: u64,
    backing: Backing,
}

// SAFETY: everything behind the pointers is atomic and lives until the drop.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Allocates memory private to this process and touches it.
    pub(crate) fn heap(capacity: u64) -> Memory {
        assert!(capacity.is_power_of_two(), "a ring of {capacity} records");
        let control = Box::new(Control {
            magic: AtomicU64::new(0),
            capacity: AtomicU64::new(capacity),
            producer: ProducerLine { head: AtomicU64::new(0), dropped: AtomicU64::new(0) },
            consumer: ConsumerLine { tail: AtomicU64::new(0) },
        });
        let slots: Box<[AtomicU64]> = (0..capacity * 2).map(|_| AtomicU64::new(0)).collect();
        let slots = NonNull::new(Box::into_raw(slots).cast()).expect("a box is never null");
        let control = NonNull::new(Box::into_raw(control)).expect("a box is never null");
        Memory { control, slots, capacity, backing: Backing::Heap }
    }

    pub(crate) fn control(&self) -> &Control {
        // SAFETY: points to an initialised block that lives as long as `self`.
        unsafe { self.control.as_ref() }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the first word of the slots; there are two per record.
    pub(crate) fn slots(&self) -> NonNull<AtomicU64> {
        self.slots
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match self.backing {
            Backing::Heap => {
                let words = usize::try_from(self.capacity * 2).expect("it was allocated");
                let slots = std::ptr::slice_from_raw_parts_mut(self.slots.as_ptr(), words);
                // SAFETY: both came from a box in `heap`, of this very length, and nothing else can
                // reach them any more.
                unsafe {
                    drop(Box::from_raw(slots));
                    drop(Box::from_raw(self.control.as_ptr()));
                }
            }
            #[cfg(not(loom))]
            Backing::File(_) => (), // The mapping ends with itself.
        }
    }
}

#[cfg(not(loom))]
mod file {
    use std::fs::File;
    use std::sync::atomic::Ordering;

    use memmap2::{MmapOptions, MmapRaw};

    use super::{Backing, Control, MAGIC, Memory, NonNull, RECORD_BYTES, SLOTS_AT};
    use crate::ring::RingError;
    use crate::sys;

    impl Memory {
        /// Sizes a new, empty file, reserves its pages and maps it.
        pub(crate) fn create(file: &File, capacity: u64) -> Result<Memory, RingError> {
            assert!(capacity.is_power_of_two(), "a ring of {capacity} records");
            let bytes = file_bytes(capacity).ok_or(RingError::Capacity { capacity })?;
            let length = libc::off_t::try_from(bytes).map_err(|_| RingError::TooLong { bytes })?;
            sys::reserve(file, length)?;
            let memory = Memory::over(map(file)?, capacity);
            let control = memory.control();
            control.capacity.store(capacity, Ordering::Relaxed);
            // SYNC: pairs with the acquire load in `attach`: a thread that sees the magic sees the
            // capacity.
            control.magic.store(MAGIC, Ordering::Release);
            Ok(memory)
        }

        /// Maps a file that another process created, checking that it is a ring.
        pub(crate) fn attach(file: &File) -> Result<Memory, RingError> {
            let bytes = file.metadata()?.len();
            if bytes < SLOTS_AT as u64 {
                return Err(RingError::NotARing);
            }
            let mut memory = Memory::over(map(file)?, 1);
            // SYNC: pairs with the release store of the magic in `create`.
            if memory.control().magic.load(Ordering::Acquire) != MAGIC {
                return Err(RingError::NotARing);
            }
            let capacity = memory.control().capacity.load(Ordering::Relaxed);
            if !capacity.is_power_of_two() || file_bytes(capacity) != Some(bytes) {
                return Err(RingError::NotARing);
            }
            memory.capacity = capacity;
            Ok(memory)
        }

        fn over(map: MmapRaw, capacity: u64) -> Memory {
            let start = map.as_mut_ptr();
            let control = NonNull::new(start.cast::<Control>()).expect("a mapping is not null");
            // SAFETY: every caller checked that the file is longer than SLOTS_AT.
            let slots = unsafe { start.add(SLOTS_AT) };
            let slots = NonNull::new(slots.cast()).expect("a mapping is not null");
            Memory { control, slots, capacity, backing: Backing::File(map) }
        }
    }

    fn file_bytes(capacity: u64) -> Option<u64> {
        capacity.checked_mul(RECORD_BYTES as u64)?.checked_add(SLOTS_AT as u64)
    }

    /// Maps the whole file with its pages populated, so that the order path takes no page fault.
    fn map(file: &File) -> Result<MmapRaw, RingError> {
        Ok(MmapOptions::new().populate().map_raw(file)?)
    }
}
