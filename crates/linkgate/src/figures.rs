//! The figures of links on status pages: of a node's listener, and of a gateway process.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use weir_door::figures::{DoorFigures, DoorReport};

/// The links of a node.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LinksReport {
    /// The address of the listener.
    pub address: String,
    /// The connections.
    pub door: DoorReport,
    /// The links to each partition.
    pub partitions: Vec<LinkedReport>,
    /// Each gateway's link to each partition, those that are away within the lease too.
    pub gateways: Vec<GatewayReport>,
}

weir_runtime::figures! {
    /// The links to a partition.
    #[derive(Copy, PartialEq, Eq)]
    pub struct LinkedReport {
        /// Sessions that are bound to a gateway, absent ones included.
        gauge bindings,
        /// Commands of gateways that wait for the partition's ring.
        gauge queued,
        /// Sessions that were lost because their gateway was away for the lease.
        counter lapsed,
        /// Bindings that were refused.
        counter refused,
    } and {
        /// The partition.
        pub partition: u16,
    }
}

weir_runtime::figures! {
    /// A gateway's link to a partition.
    #[derive(Copy, PartialEq, Eq)]
    pub struct GatewayReport {
        /// True while the link is open.
        flag open,
        /// The gateway's sessions that are bound there.
        gauge bindings,
        /// Events that the link is behind the partition.
        gauge behind,
        /// The gateway's commands that wait for the partition's ring.
        gauge queued,
    } and {
        /// The gateway's session.
        pub gateway: u32,
        /// The partition.
        pub partition: u16,
    }
}

weir_runtime::figures! {
    /// A link of a gateway process to a partition.
    pub struct UplinkReport {
        /// True while the link is open.
        flag open,
        /// Commands without an answer.
        gauge unanswered,
        /// The partition's load, in thousandths.
        gauge load_permille,
        /// The number of times that the link was opened.
        counter opened,
        /// The number of times that a connection ended or failed to come up.
        counter losses,
    } and {
        /// The partition.
        pub partition: u16,
        /// The address of its process.
        pub address: String,
        /// The reason for the last loss.
        pub last_loss: Option<String>,
    }
}

/// The figures of a node's links, written by their thread.
#[derive(Debug, Default)]
pub struct LinksBoard {
    /// The counters of the connections.
    pub door: Arc<DoorFigures>,
    links: Mutex<(Vec<LinkedReport>, Vec<GatewayReport>)>,
}

impl LinksBoard {
    /// Returns the figures; at most a quarter of a second old.
    #[must_use]
    pub fn report(&self, address: SocketAddr) -> LinksReport {
        let (partitions, gateways) =
            self.links.lock().unwrap_or_else(PoisonError::into_inner).clone();
        LinksReport { address: address.to_string(), door: self.door.report(), partitions, gateways }
    }

    /// Publishes new figures.
    pub(crate) fn show(&self, partitions: Vec<LinkedReport>, gateways: Vec<GatewayReport>) {
        *self.links.lock().unwrap_or_else(PoisonError::into_inner) = (partitions, gateways);
    }
}

/// The figures of a gateway process's links, written by their thread.
#[derive(Debug, Default)]
pub struct UplinksBoard(Mutex<Vec<UplinkReport>>);

impl UplinksBoard {
    /// Returns the figures of each link; at most a second old.
    #[must_use]
    pub fn report(&self) -> Vec<UplinkReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Publishes new figures.
    pub(crate) fn show(&self, links: Vec<UplinkReport>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = links;
    }
}
