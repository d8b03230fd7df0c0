//! A batch of updates that the books apply together.
//!
//! A poll takes everything that waits in the sockets: one update of a slow feed, hundreds of a fast
//! one. Books apply a batch faster than single updates, because the data of later updates is
//! prefetched meanwhile.

use weir_feed::Update;
use weir_types::Nanos;

use super::flush_slot::ChannelIndex;
use super::stages::TimedMessage;

/// The source of an update in a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct UpdateOrigin {
    pub channel: ChannelIndex,
    pub ts_recv: Nanos,
    pub ts_poll: Nanos,
    pub is_snapshot: bool,
}

/// Updates, their sources, and their traces.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The updates, in order.
    pub updates: Vec<Update>,
    /// The source of each update.
    pub sources: Vec<UpdateOrigin>,
    /// The timed updates: index and start, in order.
    traces: Vec<(usize, TimedMessage)>,
    next_trace: Option<TimedMessage>,
}

impl Batch {
    pub fn with_capacity(count: usize) -> Batch {
        let (updates, sources) = (Vec::with_capacity(count), Vec::with_capacity(count));
        Batch { updates, sources, traces: Vec::with_capacity(count), next_trace: None }
    }

    /// Marks the next update as timed.
    pub fn begin_trace(&mut self, begun: TimedMessage) {
        self.next_trace = Some(begun);
    }

    #[inline]
    pub fn push(&mut self, source: UpdateOrigin, update: Update) {
        if let Some(begun) = self.next_trace.take() {
            self.traces.push((self.updates.len(), begun));
        }
        self.updates.push(update);
        self.sources.push(source);
    }

    /// Returns a lookup of the start of timing by update index, to be called with increasing
    /// indices.
    pub fn traces(&self) -> impl FnMut(usize) -> Option<TimedMessage> + use<'_> {
        let mut traces = self.traces.iter().peekable();
        move |at| traces.next_if(|(place, _)| *place == at).map(|(_, begun)| *begun)
    }

    pub fn clear(&mut self) {
        self.updates.clear();
        self.sources.clear();
        self.traces.clear();
    }
}
