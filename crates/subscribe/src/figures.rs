//! The broker's figures, for the status page and Prometheus.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use weir_broker::{Broker, Counters, Holdings};
use weir_door::{DoorFigures, DoorReport};
use weir_io::Disk;
use weir_runtime::Metric;

/// Figures that other threads read.
#[derive(Debug, Default)]
pub struct BrokerFigures {
    /// The counters of the listener.
    pub door: Arc<DoorFigures>,
    /// Messages of events published.
    pub events: AtomicU64,
    /// Messages written to subscribers' connections.
    pub delivered: AtomicU64,
    /// Messages of publishers refused.
    pub messages_refused: AtomicU64,
    /// Messages of publishers behind one that found no room.
    pub passed_over: AtomicU64,
    /// Acknowledgements of attachments that had ended.
    pub acks_late: AtomicU64,
    /// One when the broker has stopped after a failure of its disk.
    pub has_stopped: AtomicU64,
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
#[derive(Clone, Debug, Serialize)]
pub struct BrokerReport {
    /// The address of the listener.
    pub address: String,
    /// The counters of the listener.
    #[serde(flatten)]
    pub door: DoorReport,
    /// Subscriptions.
    pub subscriptions: u64,
    /// Subscriptions that a connection is attached to.
    pub attached: u64,
    /// Messages of events published.
    pub events: u64,
    /// Messages taken from publishers and events.
    pub published: u64,
    /// Messages of publishers refused.
    pub messages_refused: u64,
    /// Messages of publishers behind one that found no room.
    pub passed_over: u64,
    /// Messages sent to subscribers, repeated ones included.
    pub delivered: u64,
    /// Messages acknowledged by subscribers.
    pub taken: u64,
    /// Acknowledgements of attachments that had ended.
    pub acks_late: u64,
    /// Messages in memory.
    pub held_messages: u64,
    /// Bytes that they occupy there.
    pub memory_bytes: u64,
    /// Bytes of spill files.
    pub disk_bytes: u64,
    /// Of these, bytes that some subscription still needs.
    pub wanted_bytes: u64,
    /// Spill files.
    pub files: u64,
    /// Messages written to disk.
    pub written: u64,
    /// Bytes of blocks written, moved ones included.
    pub block_bytes: u64,
    /// Subscriptions evicted.
    pub evicted: u64,
    /// Subscriptions expired.
    pub expired: u64,
    /// Times that the disk was full.
    pub disk_full: u64,
    /// One when the broker has stopped after a failure of its disk.
    pub stopped: u64,
}

impl BrokerFigures {
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
    pub fn report(&self, address: SocketAddr) -> BrokerReport {
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let Queues { attached, held, counters, subscriptions } = *queues;
        BrokerReport {
            address: address.to_string(),
            door: self.door.report(),
            subscriptions,
            attached,
            events: load(&self.events),
            published: counters.published,
            messages_refused: load(&self.messages_refused),
            passed_over: load(&self.passed_over),
            delivered: load(&self.delivered),
            taken: counters.taken,
            acks_late: load(&self.acks_late),
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
            stopped: load(&self.has_stopped),
        }
    }
}

impl BrokerReport {
    /// Its metrics.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let (gauge, counter) = ("gauge", "counter");
        let own = [
            ("weir_broker_subscriptions", "Subscriptions.", gauge, self.subscriptions),
            ("weir_broker_attached", "Subscriptions attached to.", gauge, self.attached),
            ("weir_broker_events_total", "Messages of events.", counter, self.events),
            ("weir_broker_published_total", "Messages taken.", counter, self.published),
            ("weir_broker_refused_total", "Messages refused.", counter, self.messages_refused),
            ("weir_broker_passed_over_total", "Behind a refused one.", counter, self.passed_over),
            ("weir_broker_delivered_total", "Messages given.", counter, self.delivered),
            ("weir_broker_taken_total", "Messages acknowledged.", counter, self.taken),
            ("weir_broker_acks_late_total", "Of what had ended.", counter, self.acks_late),
            ("weir_broker_held_messages", "Messages in memory.", gauge, self.held_messages),
            ("weir_broker_memory_bytes", "Bytes in memory.", gauge, self.memory_bytes),
            ("weir_broker_disk_bytes", "Bytes of spill files.", gauge, self.disk_bytes),
            ("weir_broker_wanted_bytes", "Of these, wanted.", gauge, self.wanted_bytes),
            ("weir_broker_files", "Spill files.", gauge, self.files),
            ("weir_broker_written_total", "Messages written to disk.", counter, self.written),
            ("weir_broker_block_bytes_total", "Bytes written.", counter, self.block_bytes),
            ("weir_broker_evicted_total", "Subscriptions evicted.", counter, self.evicted),
            ("weir_broker_expired_total", "Subscriptions expired.", counter, self.expired),
            ("weir_broker_disk_full_total", "Disk found full.", counter, self.disk_full),
            ("weir_broker_stopped", "Whether it has stopped.", gauge, self.stopped),
        ];
        weir_door::door_metrics!("weir_broker", self.door).into_iter().chain(own).collect()
    }
}
