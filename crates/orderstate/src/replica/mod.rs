//! A node that follows sources of another one. A separate thread requests the next entries from the
//! master ([`agent`]) and passes them to the delivery agent over a bounded ring. There each source
//! has a store and a stream like an outside core's, fed by the master's entries.

pub mod agent;
pub mod figures;

pub use self::agent::{ReplicaAgent, ReplicaParts};
pub use self::figures::{FollowFigures, ReplicaFigures, ReplicaReport};

use std::sync::Arc;

use rtrb::{Consumer, Producer, RingBuffer};
use weir_delivery::OrderStore;
use weir_delivery::stream::SourceStream;
use weir_runtime::Wake;
use weir_types::PartitionId;
use weir_wire::replica::FollowState;

/// The maximum number of updates waiting for the store: some 2 MiB.
const UPDATES_MAX: usize = 16;

/// The maximum number of a source's updates on their way into its store. Fewer than the ring holds,
/// so that a store without room does not keep the other sources' updates from the ring.
const UPDATES_OF_SOURCE_MAX: usize = 2;

/// A master's answer for one source.
#[derive(Debug)]
pub struct Update {
    /// The kind of answer, and the master's state.
    pub state: FollowState,
    /// The data.
    pub what: UpdateData,
    /// Kept until the update is in the store.
    pub ticket: UpdateTicket,
}

/// Counts as an update under way for as long as it lives.
#[derive(Clone, Debug, Default)]
pub struct UpdateTicket(Arc<()>);

impl UpdateTicket {
    /// Returns the number of other clones that live.
    pub(crate) fn others(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

/// The data of an update.
#[derive(Debug)]
pub enum UpdateData {
    /// Entries, one frame after the other.
    Entries(Vec<u8>),
    /// A whole store.
    Store(Box<(OrderStore, SourceStream)>),
}

/// The store's end.
pub struct UpdatePort {
    /// Updates from the follower.
    pub updates: Consumer<Update>,
    /// Sources that need a snapshot: their entries do not continue the store.
    pub broken: Producer<PartitionId>,
    /// Replaced stores: freeing one may take long.
    pub retired: Producer<OrderStore>,
    /// The follower's thread.
    pub wake: Wake,
}

/// The follower's end.
pub struct FollowPort {
    /// Updates to the store.
    pub updates: Producer<Update>,
    /// Sources that need a snapshot.
    pub broken: Consumer<PartitionId>,
    /// Stores to be freed.
    pub retired: Consumer<OrderStore>,
    /// The store's thread.
    pub wake: Wake,
}

/// Creates both ends; `follow` wakes the follower's thread, `store` the store's.
#[must_use]
pub fn follow_to_store(follow: Wake, store: Wake) -> (FollowPort, UpdatePort) {
    let (updates, from_follower) = RingBuffer::new(UPDATES_MAX);
    let (broken, from_store) = RingBuffer::new(UPDATES_MAX);
    let (retired, to_go) = RingBuffer::new(UPDATES_MAX);
    (
        FollowPort { updates, broken: from_store, retired: to_go, wake: store },
        UpdatePort { updates: from_follower, broken, retired, wake: follow },
    )
}
