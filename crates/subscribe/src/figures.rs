//! What the broker counts, for the status page and Prometheus.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use weir_broker::{Broker, Counters, Holdings};
use weir_io::Disk;
use weir_runtime::Metric;

/// Figures that other threads read.
#[derive(Debug, Default)]
pub struct BrokerFigures {
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections refused because there were as many as there may be.
    pub connections_refused: AtomicU64,
    /// Logons refused.
    pub logons_refused: AtomicU64,
    /// Messages that could not be read or have no place here.
    pub malformed: AtomicU64,
    /// Connections that the node ended.
    pub ended: AtomicU64,
    /// Messages of events published.
    pub events: AtomicU64,
    /// Messages written to subscribers' connections.
    pub delivered: AtomicU64,
    /// Messages of publishers refused.
    pub messages_refused: AtomicU64,
    /// Messages of publishers behind one that found no room.
    pub passed_over: AtomicU64,
    /// Acknowledgements of what had ended.
    pub acks_late: AtomicU64,
    /// One when the broker has stopped after a failure of its disk.
    pub has_stopped: AtomicU64,
    /// As of the last twentieth of a second.
    queues: Mutex<Queues>,
}

/// What the queues hold and did.
#[derive(Clone, Copy, Debug, Default)]
struct Queues {
    /// Connections, sessions, attached subscriptions.
    now: (u64, u64, u64),
    held: Holdings,
    counters: Counters,
    subscriptions: u64,
}

/// Durable subscriptions on the status page.
#[derive(Clone, Debug, Serialize)]
pub struct BrokerReport {
    /// Where subscribers and publishers connect.
    pub address: String,
    /// Connections now.
    pub connections: u64,
    /// Sessions logged on now.
    pub sessions: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections refused because there were as many as there may be.
    pub connections_refused: u64,
    /// Logons refused.
    pub logons_refused: u64,
    /// Messages that could not be read or have no place here.
    pub malformed: u64,
    /// Connections that the node ended.
    pub ended: u64,
    /// Subscriptions.
    pub subscriptions: u64,
    /// Subscriptions that somebody is attached to.
    pub attached: u64,
    /// Messages of events published.
    pub events: u64,
    /// Messages taken from publishers and events.
    pub published: u64,
    /// Messages of publishers refused.
    pub messages_refused: u64,
    /// Messages of publishers behind one that found no room.
    pub passed_over: u64,
    /// Messages given to subscribers, repeated ones included.
    pub delivered: u64,
    /// Messages acknowledged by subscribers.
    pub taken: u64,
    /// Acknowledgements of what had ended.
    pub acks_late: u64,
    /// Messages in memory.
    pub held_messages: u64,
    /// Bytes that they take there.
    pub memory_bytes: u64,
    /// Bytes of spill files.
    pub disk_bytes: u64,
    /// Of these, bytes that somebody wants.
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
    /// How often the disk was found full.
    pub disk_full: u64,
    /// One when the broker has stopped after a failure of its disk.
    pub stopped: u64,
}

impl BrokerFigures {
    /// Shows what the queues hold.
    pub(super) fn publish<D: Disk>(&self, broker: &Broker<D>, now: (u64, u64, u64)) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        *queues = Queues {
            now,
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
        let Queues { now: (connections, sessions, attached), held, counters, subscriptions } =
            *queues;
        BrokerReport {
            address: address.to_string(),
            connections,
            sessions,
            accepted: load(&self.accepted),
            connections_refused: load(&self.connections_refused),
            logons_refused: load(&self.logons_refused),
            malformed: load(&self.malformed),
            ended: load(&self.ended),
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
    pub fn metrics(&self) -> [Metric; 27] {
        let (gauge, counter) = ("gauge", "counter");
        [
            ("weir_broker_connections", "Connections now.", gauge, self.connections),
            ("weir_broker_sessions", "Sessions logged on now.", gauge, self.sessions),
            ("weir_broker_accepted_total", "Connections accepted.", counter, self.accepted),
            (
                "weir_broker_connections_refused_total",
                "Connections refused: too many.",
                counter,
                self.connections_refused,
            ),
            ("weir_broker_logons_refused_total", "Logons refused.", counter, self.logons_refused),
            ("weir_broker_malformed_total", "Messages not read.", counter, self.malformed),
            ("weir_broker_ended_total", "Connections ended.", counter, self.ended),
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
        ]
    }
}
