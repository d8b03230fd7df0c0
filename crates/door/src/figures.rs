//! The counters of a door: the same for every listener, on the status page and for Prometheus.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// A door's counters, written by its thread and read by others.
#[derive(Debug, Default)]
pub struct DoorFigures {
    /// Open connections.
    pub connections: AtomicU64,
    /// Sessions logged on.
    pub sessions: AtomicU64,
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections refused at the limit of the door. They are not accepted ones.
    pub connections_refused: AtomicU64,
    /// Accepted connections closed at once: too many of their address had not logged on.
    pub address_refused: AtomicU64,
    /// Logons refused.
    pub logons_refused: AtomicU64,
    /// Connections closed because they did not log on in time.
    pub logon_timeouts: AtomicU64,
    /// Messages that could not be decoded or have no place at the door.
    pub malformed: AtomicU64,
    /// Connections that the node ended.
    pub ended: AtomicU64,
    /// Of those, sessions whose key expired or was replaced, or whose rights changed.
    pub keys_ended: AtomicU64,
    /// Of those, connections that did not read their data.
    pub slow_consumers: AtomicU64,
    /// Times that a frame had to wait for room where it goes.
    pub back_pressure: AtomicU64,
    /// Connections with TLS that ended without its close notification.
    pub tls_truncated: AtomicU64,
    /// Connections with TLS whose bytes were altered in transit.
    pub tls_broken: AtomicU64,
}

/// A door's counters at a time; the fields are those of [`DoorFigures`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "they are those of `DoorFigures`")]
pub struct DoorReport {
    pub connections: u64,
    pub sessions: u64,
    pub accepted: u64,
    pub connections_refused: u64,
    pub address_refused: u64,
    pub logons_refused: u64,
    pub logon_timeouts: u64,
    pub malformed: u64,
    pub ended: u64,
    pub keys_ended: u64,
    pub slow_consumers: u64,
    pub back_pressure: u64,
    pub tls_truncated: u64,
    pub tls_broken: u64,
}

/// Adds to a counter that one thread writes.
pub fn add(figure: &AtomicU64, count: u64) {
    figure.fetch_add(count, Ordering::Relaxed);
}

impl DoorFigures {
    /// The counters now.
    #[must_use]
    pub fn report(&self) -> DoorReport {
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        DoorReport {
            connections: load(&self.connections),
            sessions: load(&self.sessions),
            accepted: load(&self.accepted),
            connections_refused: load(&self.connections_refused),
            address_refused: load(&self.address_refused),
            logons_refused: load(&self.logons_refused),
            logon_timeouts: load(&self.logon_timeouts),
            malformed: load(&self.malformed),
            ended: load(&self.ended),
            keys_ended: load(&self.keys_ended),
            slow_consumers: load(&self.slow_consumers),
            back_pressure: load(&self.back_pressure),
            tls_truncated: load(&self.tls_truncated),
            tls_broken: load(&self.tls_broken),
        }
    }
}

impl DoorReport {
    /// The sum of this report and another door's.
    #[must_use]
    pub fn plus(&self, other: &DoorReport) -> DoorReport {
        let both = |field: fn(&DoorReport) -> u64| field(self) + field(other);
        DoorReport {
            connections: both(|r| r.connections),
            sessions: both(|r| r.sessions),
            accepted: both(|r| r.accepted),
            connections_refused: both(|r| r.connections_refused),
            address_refused: both(|r| r.address_refused),
            logons_refused: both(|r| r.logons_refused),
            logon_timeouts: both(|r| r.logon_timeouts),
            malformed: both(|r| r.malformed),
            ended: both(|r| r.ended),
            keys_ended: both(|r| r.keys_ended),
            slow_consumers: both(|r| r.slow_consumers),
            back_pressure: both(|r| r.back_pressure),
            tls_truncated: both(|r| r.tls_truncated),
            tls_broken: both(|r| r.tls_broken),
        }
    }
}

/// The metrics of a [`DoorReport`] under the names that begin with a prefix such as `weir_ingest`.
#[macro_export]
macro_rules! door_metrics {
    ($prefix:literal, $report:expr) => {{
        let report: $crate::DoorReport = $report;
        [
            (concat!($prefix, "_connections"), "Open connections.", "gauge", report.connections),
            (concat!($prefix, "_sessions"), "Sessions logged on.", "gauge", report.sessions),
            (concat!($prefix, "_accepted_total"), "Accepted.", "counter", report.accepted),
            (
                concat!($prefix, "_connections_refused_total"),
                "Connections beyond the limit.",
                "counter",
                report.connections_refused,
            ),
            (
                concat!($prefix, "_address_refused_total"),
                "Too many of the address had not logged on.",
                "counter",
                report.address_refused,
            ),
            (
                concat!($prefix, "_logons_refused_total"),
                "Logons refused.",
                "counter",
                report.logons_refused,
            ),
            (
                concat!($prefix, "_logon_timeouts_total"),
                "No logon in time.",
                "counter",
                report.logon_timeouts,
            ),
            (concat!($prefix, "_malformed_total"), "Not read.", "counter", report.malformed),
            (concat!($prefix, "_ended_total"), "Connections ended.", "counter", report.ended),
            (concat!($prefix, "_keys_ended_total"), "By keys.", "counter", report.keys_ended),
            (
                concat!($prefix, "_slow_consumers_total"),
                "Ended: not reading.",
                "counter",
                report.slow_consumers,
            ),
            (
                concat!($prefix, "_back_pressure_total"),
                "Frames that waited.",
                "counter",
                report.back_pressure,
            ),
            (
                concat!($prefix, "_tls_truncated_total"),
                "TLS without its end.",
                "counter",
                report.tls_truncated,
            ),
            (concat!($prefix, "_tls_broken_total"), "TLS altered.", "counter", report.tls_broken),
        ]
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_has_each_counter_of_both() {
        let figures = DoorFigures::default();
        add(&figures.accepted, 3);
        add(&figures.tls_broken, 1);
        let report = figures.report();
        let sum = report.plus(&report).plus(&DoorReport::default());
        assert_eq!(sum, DoorReport { accepted: 6, tls_broken: 2, ..DoorReport::default() });
        let metrics = crate::door_metrics!("weir_x", sum);
        assert!(metrics.contains(&("weir_x_accepted_total", "Accepted.", "counter", 6)));
        assert_eq!(metrics.len(), size_of::<DoorReport>() / size_of::<u64>());
    }
}
