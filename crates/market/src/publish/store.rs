//! The stored messages of a session for retransmission: the latest ones, by sequence number.
//!
//! Each message has a slot of the length of ITCH's longest message, so that lookups take constant
//! time and memory is known in advance. INVARIANT: message n, if stored, is in slot n − f modulo
//! the number of slots, where f is the first that can have been stored.

/// Length of the longest message that can be stored, in bytes.
pub const MESSAGE_LEN_MAX: usize = SLOT_LEN - 1;

/// Length of a message's slot, in bytes.
pub const SLOT_LEN: usize = 52;

/// The latest messages of a session. Allocates while it fills, up to its limit, and never after.
#[derive(Clone, Debug)]
pub struct Store {
    /// Each slot holds the length, then the message.
    slots: Vec<[u8; SLOT_LEN]>,
    slots_max: usize,
    /// Messages so far, stored or not.
    count: u64,
    /// Those of before the store, which were never stored.
    before: u64,
}

impl Store {
    /// Creates an empty store of at most `messages_max` messages, at least one.
    #[must_use]
    pub fn new(messages_max: usize) -> Store {
        Store { slots: Vec::new(), slots_max: messages_max.max(1), count: 0, before: 0 }
    }

    /// Returns the sequence number of the next message, from 1.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.count + 1
    }

    /// Returns the number of the oldest stored message, or of the next one when none is stored.
    #[must_use]
    pub fn oldest(&self) -> u64 {
        self.next_sequence() - self.slots.len() as u64
    }

    /// Stores the next message.
    ///
    /// # Panics
    /// Panics when it is longer than [`MESSAGE_LEN_MAX`], which no message of ITCH is.
    pub fn push(&mut self, message: &[u8]) {
        let mut slot = [0; SLOT_LEN];
        slot[0] = u8::try_from(message.len()).expect("messages of ITCH are short");
        slot[1..=message.len()].copy_from_slice(message);
        if self.slots.len() < self.slots_max {
            self.slots.push(slot);
        } else {
            let at = self.slot_of(self.count + 1);
            self.slots[at] = slot;
        }
        self.count += 1;
    }

    /// Returns message `sequence`; `None` when it does not exist yet or is no longer stored.
    #[must_use]
    pub fn get(&self, sequence: u64) -> Option<&[u8]> {
        if sequence < self.oldest() || sequence >= self.next_sequence() {
            return None;
        }
        let slot = &self.slots[self.slot_of(sequence)];
        Some(&slot[1..=usize::from(slot[0])])
    }

    /// Removes all messages; numbers restart, the memory stays allocated.
    pub fn clear(&mut self) {
        self.clear_before(1);
    }

    /// Removes all messages; the next is `next_sequence`, from 1.
    pub fn clear_before(&mut self, next_sequence: u64) {
        self.slots.clear();
        self.count = next_sequence.saturating_sub(1);
        self.before = self.count;
    }

    fn slot_of(&self, sequence: u64) -> usize {
        // The remainder is below the number of slots.
        ((sequence - 1 - self.before) % self.slots_max as u64) as usize
    }
}
