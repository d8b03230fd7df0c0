//! A node that follows sources of another one: a thread of its own asks the master for what comes
//! next ([`agent`]) and hands it to the delivery agent over a bounded ring, where each source has a
//! store and a stream as an outside core's has, fed by what the master took in.

pub mod agent;
pub mod figures;

pub use self::agent::{ReplicaAgent, ReplicaParts};
pub use self::figures::{FollowFigures, ReplicaFigures, ReplicaReport};

use rtrb::{Consumer, Producer, RingBuffer};
use weir_delivery::OrderStore;
use weir_delivery::stream::SourceStream;
use weir_runtime::Wake;
use weir_types::PartitionId;
use weir_wire::replica::FollowState;

/// Updates that may wait in front of the store: some 2 MiB.
const UPDATES_MAX: usize = 16;

/// What the master gave of a source.
pub struct Update {
    /// What it is, and where the master stands.
    pub state: FollowState,
    /// It.
    pub what: Given,
}

/// What came.
pub enum Given {
    /// Entries, one frame after the other.
    Entries(Vec<u8>),
    /// A whole store.
    Store(Box<(OrderStore, SourceStream)>),
}

/// The store's end.
pub struct UpdatePort {
    /// What came.
    pub updates: Consumer<Update>,
    /// Sources of which a snapshot is wanted: what came cannot follow what is there.
    pub broken: Producer<PartitionId>,
    /// Stores whose place another one took: to let one go may take long.
    pub retired: Producer<OrderStore>,
    /// The follower's thread.
    pub wake: Wake,
}

/// The follower's end.
pub struct FollowPort {
    /// To the store.
    pub updates: Producer<Update>,
    /// Sources of which a snapshot is wanted.
    pub broken: Consumer<PartitionId>,
    /// Stores that are to go.
    pub retired: Consumer<OrderStore>,
    /// The store's thread.
    pub wake: Wake,
}

/// Both ends; `follow` is of the follower's thread, `store` of the store's.
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
