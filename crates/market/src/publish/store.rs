//! The messages of a session, kept for who asks again: the last so many, by number.
//!
//! A slot a message, as long as the longest of ITCH: what is found is found at once, and what it
//! takes is known before. INVARIANT: message n lies in slot n − 1 modulo the slots, if it is kept.

/// Bytes of the longest message that is kept.
pub const MESSAGE_LEN_MAX: usize = SLOT_LEN - 1;

/// Bytes that a message takes in a store.
pub const SLOT_LEN: usize = 52;

/// See the module's documentation. Takes memory as it fills, up to its slots; then none.
#[derive(Clone, Debug)]
pub struct Store {
    /// The length, then the message.
    slots: Vec<[u8; SLOT_LEN]>,
    slots_max: usize,
    /// Messages so far, kept or not.
    count: u64,
}

impl Store {
    /// An empty store of at most `messages_max` messages, at least one.
    #[must_use]
    pub fn new(messages_max: usize) -> Store {
        Store { slots: Vec::new(), slots_max: messages_max.max(1), count: 0 }
    }

    /// The number that the next message gets, from 1.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.count + 1
    }

    /// The number of the oldest message that is kept; that of the next one when none is.
    #[must_use]
    pub fn oldest(&self) -> u64 {
        self.next_sequence() - self.slots.len() as u64
    }

    /// Keeps the next message.
    ///
    /// # Panics
    /// When it is longer than [`MESSAGE_LEN_MAX`]: messages of ITCH are not.
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

    /// Message `sequence`; `None` when it was not said yet or is not kept any more.
    #[must_use]
    pub fn get(&self, sequence: u64) -> Option<&[u8]> {
        if sequence < self.oldest() || sequence >= self.next_sequence() {
            return None;
        }
        let slot = &self.slots[self.slot_of(sequence)];
        Some(&slot[1..=usize::from(slot[0])])
    }

    /// Forgets all; numbers begin anew, the memory stays.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.count = 0;
    }

    fn slot_of(&self, sequence: u64) -> usize {
        // The remainder is below the number of slots.
        ((sequence - 1) % self.slots_max as u64) as usize
    }
}
