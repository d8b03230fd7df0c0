//! The state of one subscriber's connection: its subscriptions, and the instruments that were
//! described to it.

use std::collections::BTreeMap;

use weir_door::Limits;
use weir_market::conflate::{SubscriberId, SubscriptionId};
use weir_types::InstrumentId;
use weir_wire::frame::CLIENT_FRAME_LEN_MAX;

/// An incomplete frame and some of the next, and output.
pub(super) const LIMITS: Limits =
    Limits { input_len_max: 4 * CLIENT_FRAME_LEN_MAX, output_len_max: 256 * 1024 };

/// The limits of a connection from inside the node. Its output is smaller because the reader's own
/// socket has a buffer too, in which nothing is conflated.
pub(super) const LOCAL_LIMITS: Limits = Limits { output_len_max: 64 * 1024, ..LIMITS };

/// A connection.
pub(super) type Link = weir_door::Link<Subscriber>;
/// All connections.
pub(super) type Links = weir_door::Links<Subscriber>;

/// The state of a connection.
#[derive(Debug, Default)]
pub struct Subscriber {
    /// Its number in the second stage of conflation, once it is logged on.
    pub(super) id: Option<SubscriberId>,
    /// Its subscriptions by handle.
    pub(super) by_handle: BTreeMap<u32, SubscriptionId>,
    /// The handles of its subscriptions, by their numbers.
    handles: Vec<u32>,
    /// A bit for each instrument that was described to it.
    told: Vec<u64>,
    pub(super) counts: LinkCounts,
}

/// The counts of a connection's messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkCounts {
    /// Messages.
    pub messages: u64,
    /// The age of the last one, from its receipt to its writing, in nanoseconds.
    pub last_age: u64,
}

impl Subscriber {
    /// Notes a subscription.
    pub(super) fn subscribed(&mut self, handle: u32, subscription: SubscriptionId) {
        self.by_handle.insert(handle, subscription);
        let index = subscription.0 as usize;
        if self.handles.len() <= index {
            self.handles.resize(index + 1, 0);
        }
        self.handles[index] = handle;
    }

    /// The handle of a subscription.
    pub(super) fn handle_of(&self, subscription: SubscriptionId) -> u32 {
        self.handles.get(subscription.0 as usize).copied().unwrap_or(0)
    }

    /// True at the first call for an instrument.
    pub(super) fn is_new(&mut self, id: InstrumentId) -> bool {
        let (word, bit) = (id.0 as usize / 64, 1_u64 << (id.0 % 64));
        if self.told.len() <= word {
            self.told.resize(word + 1, 0);
        }
        let is_new = self.told[word] & bit == 0;
        self.told[word] |= bit;
        is_new
    }

    /// An instrument has a new description, which precedes the next message that names it.
    pub(super) fn forget(&mut self, id: InstrumentId) {
        if let Some(word) = self.told.get_mut(id.0 as usize / 64) {
            *word &= !(1 << (id.0 % 64));
        }
    }
}
