//! Updates that came together and are taken into the books together.
//!
//! A poll brings what waits in the sockets: one update while the feed is slow, hundreds while it is
//! not. Books take many at once sooner than one by one, since what the later ones touch is fetched
//! meanwhile.

use weir_feed::Update;

use super::saying::Source;
use super::stages::Begun;

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// In their order.
    pub updates: Vec<Update>,
    /// Where each came from.
    pub sources: Vec<Source>,
    /// Those that are timed, by their place, in their order.
    traces: Vec<(usize, Begun)>,
    next_trace: Option<Begun>,
}

impl Batch {
    pub fn with_capacity(count: usize) -> Batch {
        let (updates, sources) = (Vec::with_capacity(count), Vec::with_capacity(count));
        Batch { updates, sources, traces: Vec::with_capacity(count), next_trace: None }
    }

    /// The update that comes next is timed.
    pub fn begin_trace(&mut self, begun: Begun) {
        self.next_trace = Some(begun);
    }

    #[inline]
    pub fn push(&mut self, source: Source, update: Update) {
        if let Some(begun) = self.next_trace.take() {
            self.traces.push((self.updates.len(), begun));
        }
        self.updates.push(update);
        self.sources.push(source);
    }

    /// What each update is timed from, if it is; asked in their order.
    pub fn traces(&self) -> impl FnMut(usize) -> Option<Begun> + use<'_> {
        let mut traces = self.traces.iter().peekable();
        move |at| traces.next_if(|(place, _)| *place == at).map(|(_, begun)| *begun)
    }

    pub fn clear(&mut self) {
        self.updates.clear();
        self.sources.clear();
        self.traces.clear();
    }
}
