//! One connection of a subscriber.

use std::collections::BTreeMap;

use weir_door::{Limits, LoggedOn, Socket};
use weir_market::conflate::{SubscriberId, SubscriptionId};
use weir_types::{InstrumentId, Nanos, Reason, SessionId};
use weir_wire::frame::CLIENT_FRAME_LEN_MAX;

/// What a connection may hold: a frame that is not whole and some of the next, and output.
pub(super) const LIMITS: Limits =
    Limits { input_len_max: 4 * CLIENT_FRAME_LEN_MAX, output_len_max: 256 * 1024 };

/// The same of a connection from inside the node: less lies unmerged behind it, where the reader's
/// own socket has a buffer too.
pub(super) const LOCAL_LIMITS: Limits = Limits { output_len_max: 64 * 1024, ..LIMITS };

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    pub socket: Socket,
    /// Whether it is of a reader over HTTP.
    pub is_web: bool,
    pub session: Option<LoggedOn>,
    /// What it is to the second stage, once it is logged on.
    pub subscriber: Option<SubscriberId>,
    /// Its subscriptions by what it calls them.
    pub by_handle: BTreeMap<u32, SubscriptionId>,
    /// What it calls its subscriptions, by their numbers.
    pub handles: Vec<u32>,
    /// Instruments that it was told of.
    told: Vec<u64>,
    /// Whether its next frame has to wait.
    pub must_wait: bool,
    pub counts: LinkCounts,
}

/// What a connection was told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkCounts {
    /// Messages.
    pub messages: u64,
    /// The age of the last one, from its receipt to its writing, in nanoseconds.
    pub last_age: u64,
}

impl Link {
    pub fn new(socket: Socket, is_web: bool) -> Link {
        Link {
            socket,
            is_web,
            session: None,
            subscriber: None,
            by_handle: BTreeMap::new(),
            handles: Vec::new(),
            told: Vec::new(),
            must_wait: false,
            counts: LinkCounts::default(),
        }
    }

    /// Notes a subscription.
    pub fn subscribed(&mut self, handle: u32, subscription: SubscriptionId) {
        self.by_handle.insert(handle, subscription);
        let index = subscription.0 as usize;
        if self.handles.len() <= index {
            self.handles.resize(index + 1, 0);
        }
        self.handles[index] = handle;
    }

    /// What it calls a subscription.
    pub fn handle_of(&self, subscription: SubscriptionId) -> u32 {
        self.handles.get(subscription.0 as usize).copied().unwrap_or(0)
    }

    /// True the first time that it is asked of an instrument.
    pub fn is_new(&mut self, id: InstrumentId) -> bool {
        let (word, bit) = (id.0 as usize / 64, 1_u64 << (id.0 % 64));
        if self.told.len() <= word {
            self.told.resize(word + 1, 0);
        }
        let is_new = self.told[word] & bit == 0;
        self.told[word] |= bit;
        is_new
    }

    /// An instrument is described anew: it is said before the next message that names it.
    pub fn forget(&mut self, id: InstrumentId) {
        if let Some(word) = self.told.get_mut(id.0 as usize / 64) {
            *word &= !(1 << (id.0 % 64));
        }
    }

    /// Says why and reads nothing more.
    pub fn close(&mut self, reason: Reason, now: Nanos) {
        let session_id = self.session.map_or(SessionId::NONE, |session| session.session_id);
        self.socket.close(session_id, reason, now);
    }
}
