//! The limits and waits of a router, and what it counts.

use weir_types::Nanos;

/// The limits of a router. Counts are at least one; spans are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterConfig {
    /// Questions that may wait.
    pub readers_max: u32,
    /// Questions that may wait on one connection.
    pub readers_per_connection_max: u32,
    /// Rows of a page over all sources, whatever is asked for.
    pub page_rows_max: u32,
    /// Bytes of a page's rows over all sources, whatever is asked for.
    pub page_bytes_max: u32,
    /// Pages that one question may ask for.
    pub credit_max: u32,
    /// Readers that one call of [`Router::poll`](super::Router::poll) looks at.
    pub poll_visit_max: u32,
    /// How long a page waits to fill when the question does not say.
    pub wait_default: Nanos,
    /// The longest that a page may wait to fill, or a question for its `min_token`.
    pub wait_max: Nanos,
    /// How long a question waits for its `min_token` when it does not say.
    pub min_wait_default: Nanos,
    /// How long a question without any row waits before it gets an empty page; its own wait if that
    /// is longer.
    pub idle_wait: Nanos,
    /// How long a reader's place is kept, with what is asked for it, after its last page: its next
    /// question then finds its sources waiting already. Zero for not at all.
    pub linger: Nanos,
    /// How long a question without patience waits for the first word of each source.
    pub settle_wait: Nanos,
    /// How long a question may wait at a backend that has nothing for it.
    pub park_wait: Nanos,
    /// How long beyond what it may take an answer of a backend can take before the backend counts
    /// as silent.
    pub answer_grace: Nanos,
    /// How long a backend that has not reached a reader's place is given before another is looked
    /// for.
    pub lag_wait: Nanos,
    /// How long a reader whose epoch no backend knows waits before the master's word counts.
    pub epoch_wait: Nanos,
    /// A replica that is more changes (`seq`) behind its source is only asked when no other is
    /// there.
    pub lag_max: u64,
    /// How long a backend is left alone after its first fault; each further one doubles it.
    pub aside_min: Nanos,
    /// The longest that a backend is left alone.
    pub aside_max: Nanos,
    /// What the jitter of these spans begins with: different for each router.
    pub jitter_seed: u64,
}

impl Default for RouterConfig {
    fn default() -> RouterConfig {
        RouterConfig {
            readers_max: 65_536,
            readers_per_connection_max: 64,
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
        }
    }
}

/// What a router has done since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouterFigures {
    /// Pages served, refusals included.
    pub page_count: u64,
    /// Rows in them.
    pub row_count: u64,
    /// Questions to backends.
    pub asked_count: u64,
    /// Pages of backends that were used.
    pub answer_count: u64,
    /// Pages of backends that came after their question was given up.
    pub late_count: u64,
    /// Questions that found their sources waiting already.
    pub adopted_count: u64,
    /// Faults of backends.
    pub fault_count: u64,
    /// Questions that went on at another backend.
    pub switch_count: u64,
    /// Readers sent back to the start.
    pub resync_count: u64,
    /// Rows dropped because their epoch ended before they were served.
    pub disowned_row_count: u64,
}
