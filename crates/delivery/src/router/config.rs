//! The limits and waits of a router, and its counters.
//!
//! Limits of rows and bytes hold over all sources together. A reader's waits begin when its fetch
//! comes or its last page was served, a request's when it is sent.

use weir_types::Nanos;

/// The limits of a router. Counts are at least one; spans are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterConfig {
    /// Fetches that may wait.
    pub readers_max: u32,
    /// Fetches that may wait on one connection.
    pub readers_per_connection_max: u32,
    /// The same for sessions that see the orders of all firms.
    pub readers_of_all_max: u32,
    /// The most rows of a page over all sources, whatever the fetch asks for.
    pub page_rows_max: u32,
    /// The most bytes of a page's rows over all sources, whatever the fetch asks for.
    pub page_bytes_max: u32,
    /// The most pages that one fetch may ask for.
    pub credit_max: u32,
    /// The most readers that one call of [`Router::poll`](super::Router::poll) visits.
    pub poll_visit_max: u32,
    /// The time that a page waits to fill if the fetch names none.
    pub wait_default: Nanos,
    /// The longest that a page may wait to fill, or a fetch for its `min_token`.
    pub wait_max: Nanos,
    /// The time that a fetch waits for its `min_token` if it names none.
    pub min_wait_default: Nanos,
    /// The time that a fetch without any row waits before it gets an empty page; its own wait if
    /// that is longer.
    pub idle_wait: Nanos,
    /// The time that a reader's place and its requests are kept after its last page: its next fetch
    /// then finds its sources waiting already. Zero to keep nothing.
    pub linger: Nanos,
    /// The time that a fetch with `rows_min` zero waits for the first answer of each source.
    pub settle_wait: Nanos,
    /// The time that a request may wait at a backend that has no rows for it.
    pub park_wait: Nanos,
    /// The time beyond a request's own wait after which a backend without an answer counts as
    /// silent.
    pub answer_grace: Nanos,
    /// The interval at which another backend is looked for while the current one has not reached a
    /// reader's place.
    pub lag_wait: Nanos,
    /// The time that a reader whose epoch no backend knows waits before the master's answer is
    /// decisive.
    pub epoch_wait: Nanos,
    /// The lag in changes (`seq`) above which a replica is asked only if there is no other backend.
    pub lag_max: u64,
    /// The time that a backend is set aside after its first fault; each further one doubles it.
    pub aside_min: Nanos,
    /// The longest that a backend is set aside.
    pub aside_max: Nanos,
    /// The seed of these times' jitter: different for each router.
    pub jitter_seed: u64,
    /// The backends are desks of this process, one of each source: they answer in the end, so a
    /// refusal is of the one fetch, as the desk would refuse it, and no fault. Sources of a token
    /// that none of them has are other services', and nothing is told of them.
    pub is_in_process: bool,
}

impl Default for RouterConfig {
    fn default() -> RouterConfig {
        RouterConfig {
            readers_max: 65_536,
            readers_per_connection_max: 64,
            readers_of_all_max: 16_384,
            page_rows_max: 1_000,
            page_bytes_max: 256 * 1024,
            credit_max: 1_024,
            poll_visit_max: 4_096,
            wait_default: Nanos(500_000),
            wait_max: Nanos(30_000_000_000),
            min_wait_default: Nanos(1_000_000_000),
            idle_wait: Nanos(1_000_000_000),
            linger: Nanos(200_000_000),
            settle_wait: Nanos(50_000_000),
            park_wait: Nanos(10_000_000_000),
            answer_grace: Nanos(1_000_000_000),
            lag_wait: Nanos(20_000_000),
            epoch_wait: Nanos(500_000_000),
            lag_max: 100_000,
            aside_min: Nanos(50_000_000),
            aside_max: Nanos(10_000_000_000),
            jitter_seed: 0,
            is_in_process: false,
        }
    }
}

/// A router's counters since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouterFigures {
    /// Pages served, refusals included.
    pub page_count: u64,
    /// Rows in them.
    pub row_count: u64,
    /// Requests to backends.
    pub asked_count: u64,
    /// Pages of backends that were used.
    pub answer_count: u64,
    /// Rows in them.
    pub answer_row_count: u64,
    /// Pages of backends that came after their request was given up.
    pub late_count: u64,
    /// Fetches that found their sources waiting already.
    pub adopted_count: u64,
    /// Faults of backends.
    pub fault_count: u64,
    /// Requests that moved to another backend.
    pub switch_count: u64,
    /// Readers sent back to the start.
    pub resync_count: u64,
    /// Rows dropped because their epoch ended before they were served.
    pub disowned_row_count: u64,
}
