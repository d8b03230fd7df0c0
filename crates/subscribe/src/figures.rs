//! The broker's figures, for the status page and Prometheus.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use weir_broker::{Broker, Counters, Holdings};
use weir_door::{DoorFigures, DoorReport};
use weir_io::Disk;

weir_runtime::figures! {
    /// The counters of messages on their way through the broker.
    pub struct BrokerCounts in BrokerCounters {
        /// Messages of events published.
        counter events,
        /// Messages of publishers refused.
        counter messages_refused as "refused_total",
        /// Messages of publishers behind one that found no room.
        counter passed_over,
        /// Messages sent to subscribers, repeated ones included.
        counter delivered,
        /// Acknowledgements of attachments that had ended.
        counter acks_late,
        /// Creations refused because the firm has as many subscriptions as it may.
        counter firm_bounded as "creations_refused_total{for=\"firm\"}",
        /// Creations and attachments refused because the session has as many as it may.
        counter session_bounded as "creations_refused_total{for=\"session\"}",
        /// One when the broker has stopped after a failure of its disk.
        gauge stopped,
    }
}

weir_runtime::figures! {
    /// The queues and what they hold.
    pub struct QueuesReport {
        /// Subscriptions.
        gauge subscriptions as "weir_subscriptions",
        /// Subscriptions that a connection is attached to.
        gauge attached,
        /// Subscriptions that are due to expire and have their time of grace.
        gauge lapsing,
        /// Messages taken from publishers and events.
        counter published,
        /// Messages acknowledged by subscribers.
        counter taken,
        /// Messages in memory.
        gauge held_messages,
        /// The memory of these messages.
        gauge memory_bytes in bytes,
        /// The size of the spill files.
        gauge disk_bytes in bytes,
        /// The part of the spill files that some subscription still needs.
        gauge wanted_bytes in bytes,
        /// Spill files.
        gauge files,
        /// Messages written to disk.
        counter written,
        /// The size of the blocks written, moved ones included.
        counter block_bytes in bytes,
        /// Subscriptions evicted.
        counter evicted,
        /// Subscriptions expired.
        counter expired,
        /// Times that the disk was full.
        counter disk_full,
        /// Times that no descriptor was free for a spill file.
        counter no_descriptor,
    }
}

/// Figures that other threads read.
#[derive(Debug, Default)]
pub struct SubscriptionsFigures {
    /// The counters of the listener.
    pub door: Arc<DoorFigures>,
    /// The counters of messages.
    pub counters: BrokerCounters,
    /// As of the last twentieth of a second.
    queues: Mutex<Queues>,
}

/// The queues' holdings and counters.
#[derive(Clone, Copy, Debug, Default)]
struct Queues {
    attached: u64,
    held: Holdings,
    counters: Counters,
    subscriptions: u64,
}

/// Durable subscriptions on the status page.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SubscriptionsReport {
    /// The address of the listener.
    pub address: String,
    /// The counters of the listener.
    #[serde(flatten)]
    pub door: DoorReport,
    /// The queues.
    #[serde(flatten)]
    pub queues: QueuesReport,
    /// The counters of messages.
    #[serde(flatten)]
    pub counts: BrokerCounts,
}

impl SubscriptionsFigures {
    /// Publishes the queues' figures.
    pub(super) fn publish<D: Disk>(&self, broker: &Broker<D>, attached: u64) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        *queues = Queues {
            attached,
            held: broker.holdings(),
            counters: broker.counters(),
            subscriptions: broker.subscription_count(),
        };
    }

    /// For the status page.
    #[must_use]
    pub fn report(&self, address: SocketAddr) -> SubscriptionsReport {
        let queues = *self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        SubscriptionsReport {
            address: address.to_string(),
            door: self.door.report(),
            queues: queues.report(),
            counts: self.counters.report(),
        }
    }
}

impl Queues {
    fn report(self) -> QueuesReport {
        let Queues { attached, held, counters, subscriptions } = self;
        QueuesReport {
            subscriptions,
            attached,
            lapsing: held.lapsing,
            published: counters.published,
            taken: counters.taken,
            held_messages: held.messages,
            memory_bytes: held.memory_bytes,
            disk_bytes: held.disk_bytes,
            wanted_bytes: held.wanted_bytes,
            files: held.files,
            written: counters.written,
            block_bytes: counters.block_bytes,
            evicted: counters.evicted,
            expired: counters.expired,
            disk_full: counters.full,
            no_descriptor: counters.no_descriptor,
        }
    }
}
