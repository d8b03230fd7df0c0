//! The figures of a router and of the nodes behind it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_delivery::BackendRole;
use weir_delivery::router::{BackendState, Health, RouterFigures};

/// Figures that other threads read.
#[derive(Debug, Default)]
pub struct RouterBoard {
    report: Mutex<RouterReport>,
    /// True when no source has a store that can be queried: readers should use another router.
    pub is_cut_off: Arc<AtomicBool>,
}

weir_runtime::figures! {
    /// A router on the status page.
    pub struct RouterReport {
        /// Pages served, refusals included.
        counter pages,
        /// Rows in them.
        counter rows,
        /// Queries to stores.
        counter asked,
        /// Stores' pages that were used.
        counter answers,
        /// Stores' pages that arrived after their query was given up.
        counter late,
        /// Queries that found their sources already waiting.
        counter adopted,
        /// Faults of stores.
        counter faults,
        /// Queries that continued at another store.
        counter switches,
        /// Readers told to start again.
        counter resyncs,
        /// Waiting readers.
        gauge readers,
    } and {
        /// The sources.
        pub sources: Vec<SourceReport>,
        /// The stores, by source.
        pub backends: Vec<BackendReport>,
    }
}

weir_runtime::figures! {
    /// A source behind a router.
    pub struct SourceReport {
        /// Stores that can be queried.
        gauge serving,
        /// Known stores.
        gauge stores,
    } and {
        /// The source's number.
        pub source: u16,
    }
}

weir_runtime::figures! {
    /// A store behind a router.
    pub struct BackendReport {
        /// The last reported change.
        gauge head_seq,
        /// Changes that it is behind the newest reported one of its source.
        gauge lag,
        /// Queries without an answer.
        gauge asked,
        /// Consecutive faults.
        gauge faults,
        /// The number of times that the connection to its node came up.
        counter connects,
        /// The number of times that the connection ended or failed to come up.
        counter losses,
    } and {
        /// The source of its orders.
        pub source: u16,
        /// The node's address.
        pub address: String,
        /// `master` or `replica`.
        pub role: &'static str,
        /// True when it has secondary keys.
        pub indexed: bool,
        /// The connection to its node: `resting`, `connecting`, `logging-on` or `up`.
        pub link: &'static str,
        /// Its use by the router: `down`, `up`, `aside` or `probing`.
        pub health: &'static str,
        /// The last reported epoch; 0 before the first report.
        pub epoch: u32,
        /// The latest fault of the store.
        pub last_fault: Option<String>,
        /// The reason for the last loss.
        pub last_loss: Option<String>,
    }
}

impl RouterBoard {
    /// Returns the figures; at most a tenth of a second old.
    #[must_use]
    pub fn report(&self) -> RouterReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Publishes new figures.
    pub(super) fn show(&self, report: RouterReport) {
        let is_cut_off = report.sources.iter().all(|source| source.serving == 0);
        self.is_cut_off.store(is_cut_off, Ordering::Relaxed);
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = report;
    }
}

impl RouterReport {
    pub(super) fn of(figures: &RouterFigures, readers: usize) -> RouterReport {
        RouterReport {
            pages: figures.page_count,
            rows: figures.row_count,
            asked: figures.asked_count,
            answers: figures.answer_count,
            late: figures.late_count,
            adopted: figures.adopted_count,
            faults: figures.fault_count,
            switches: figures.switch_count,
            resyncs: figures.resync_count,
            readers: readers as u64,
            sources: Vec::new(),
            backends: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, backend: BackendReport) {
        let serves = backend.health == "up";
        let known = self.sources.iter_mut().find(|source| source.source == backend.source);
        match known {
            Some(source) => {
                source.stores += 1;
                source.serving += u64::from(serves);
            }
            None => self.sources.push(SourceReport {
                source: backend.source,
                serving: u64::from(serves),
                stores: 1,
            }),
        }
        self.backends.push(backend);
    }

    pub(super) fn sort(&mut self) {
        self.sources.sort_by_key(|source| source.source);
        self.backends.sort_by(|a, b| (a.source, &a.address).cmp(&(b.source, &b.address)));
    }
}

/// Returns the names of a store's role and health.
pub(super) fn names_of(state: &BackendState) -> (&'static str, &'static str) {
    let role = match state.info.role {
        BackendRole::Master => "master",
        BackendRole::Replica => "replica",
    };
    let health = match state.health {
        Health::Down => "down",
        Health::Up => "up",
        Health::Aside => "aside",
        Health::Probing => "probing",
    };
    (role, health)
}
