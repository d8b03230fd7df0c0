//! The figures of a partition's links, for status pages.

use std::collections::BTreeMap;

use weir_types::SessionId;

use super::{PartitionEnd, Phase};

/// The figures of all links to the partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndFigures {
    /// Sessions that are bound to a gateway, absent ones included.
    pub bindings: u64,
    /// Commands that wait for the ring.
    pub queued: u64,
    /// Sessions that were lost because their gateway was away for the lease.
    pub lapsed: u64,
    /// Bindings that were refused.
    pub refused: u64,
}

/// The figures of a gateway's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFigures {
    /// The gateway.
    pub gateway: SessionId,
    /// True while the link is open; an absent one is known for the lease.
    pub is_open: bool,
    /// The gateway's sessions that are bound here.
    pub bindings: u64,
    /// The link's next record.
    pub next_record: u64,
    /// The gateway's commands that wait for the ring.
    pub queued: u64,
}

impl PartitionEnd {
    /// Returns the figures of all links.
    #[must_use]
    pub fn figures(&self) -> EndFigures {
        EndFigures {
            bindings: self.bindings.len() as u64,
            queued: self.queue.len() as u64,
            lapsed: self.lapsed,
            refused: self.refused,
        }
    }

    /// Returns the figures of each gateway's link.
    #[must_use]
    pub fn link_figures(&self) -> Vec<LinkFigures> {
        let mut bindings = BTreeMap::<SessionId, u64>::new();
        self.bindings.values().for_each(|one| *bindings.entry(one.gateway).or_default() += 1);
        let links = self.links.iter().map(|(gateway, link)| LinkFigures {
            gateway: *gateway,
            is_open: link.phase == Phase::Open,
            bindings: bindings.get(gateway).copied().unwrap_or(0),
            next_record: link.cursor,
            queued: u64::from(link.queued),
        });
        links.collect()
    }
}
