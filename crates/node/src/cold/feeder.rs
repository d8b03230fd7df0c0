//! The store's end: what is new goes to the archive before the store may let it go, questions go
//! after it, pages come back.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rtrb::{Consumer, Producer};
use weir_cold::plant::{self, Plant};
use weir_cold::{Batch, Change, Keys, Standing};
use weir_delivery::{Desk, Exported, ExportedAs, OlderAnswer, OlderAsk, OrderStore, Place, Ticket};
use weir_io::{Disk, ThreadDisk};
use weir_types::Nanos;

use super::agent::ColdAgent;
use super::figures::ColdFigures;
use crate::runner::Wake;

/// Batches that may wait in front of the archive.
pub const BATCHES_MAX: usize = 64;
/// Changes after which they are handed over at once; fewer wait for [`FEED_INTERVAL`]. Far fewer
/// than the store keeps ended orders, so that it lets go none of them before.
const FEED_CHANGES: u64 = 512;
/// Changes of one batch.
const BATCH_CHANGES: u32 = 1_024;
/// Batches made in one cycle: some hundred microseconds.
const BATCHES_A_CYCLE: usize = 2;
/// How long a change waits to be handed over, in nanoseconds.
const FEED_INTERVAL: u64 = 50_000_000;

/// What the store asks of the archive's thread.
#[derive(Debug)]
pub enum ColdRequest {
    /// A page.
    Page(Box<OlderAsk>),
    /// This question's reader has gone.
    Forget(Ticket),
}

/// The store's end of the rings.
pub struct ColdPort {
    /// Changes, in order.
    pub batches: Producer<Batch>,
    /// Batches to be used again.
    pub empties: Consumer<Batch>,
    /// Questions. What was pushed to `batches` before one is taken before it is answered.
    pub requests: Producer<ColdRequest>,
    /// One for each question.
    pub answers: Consumer<(Ticket, OlderAnswer)>,
    /// Questions that may be out at once.
    pub out_max: u32,
    /// The last place that the archive has.
    pub fed: Place,
    /// The archive's thread.
    pub wake: Wake,
    /// Figures of both ends.
    pub figures: Arc<ColdFigures>,
}

/// Feeds the archive, and carries questions and pages.
pub struct ColdFeeder<D = ThreadDisk> {
    port: ColdPort,
    /// The archive's agent until its thread begins: a start feeds it on its own thread.
    agent: Option<Box<ColdAgent<D>>>,
    fed_at: Nanos,
    /// Changes after which they are handed over at once.
    changes_max: u64,
}

impl<D: Disk> ColdFeeder<D> {
    /// With the agent, which has no thread yet.
    #[must_use]
    pub fn new(port: ColdPort, agent: ColdAgent<D>) -> ColdFeeder<D> {
        let (agent, fed_at) = (Some(Box::new(agent)), Nanos(0));
        ColdFeeder { port, agent, fed_at, changes_max: FEED_CHANGES }
    }

    /// The same before a store that keeps fewer ended orders than a node's may.
    #[cfg(test)]
    pub(super) fn before_a_small_store(self) -> ColdFeeder<D> {
        ColdFeeder { changes_max: 1, ..self }
    }

    /// The last place that the archive has.
    #[must_use]
    pub fn fed(&self) -> Place {
        self.port.fed
    }

    /// Questions that may be out at once.
    #[must_use]
    pub fn out_max(&self) -> u32 {
        self.port.out_max
    }

    /// The agent, for its thread.
    ///
    /// # Panics
    /// When it was taken already.
    pub fn take_agent(&mut self) -> ColdAgent<D> {
        *self.agent.take().expect("the agent has one thread")
    }

    /// Hands over what is new while the store is made anew from its log: all of it, as far as the
    /// archive takes it.
    pub fn feed_at_start(&mut self, store: &OrderStore) {
        if plant::is(Plant::StartFedFromHead) {
            self.port.fed = store.head();
        }
        while self.is_behind(store) {
            if self.port.batches.is_full() {
                let agent = self.agent.as_mut().expect("its thread has not begun");
                agent.take_batches();
                if self.port.batches.is_full() {
                    // It takes no more, and has said why.
                    return;
                }
            }
            self.hand_over(store);
        }
    }

    fn is_behind(&self, store: &OrderStore) -> bool {
        store.head().seq.0.saturating_sub(self.port.fed.seq.0) >= self.changes_max
    }

    /// Hands over what is new when it is time, a bounded part of it; true when there is more now.
    pub fn feed(&mut self, store: &OrderStore, now: Nanos) -> bool {
        let is_due = self.fed_at.0.saturating_add(FEED_INTERVAL) <= now.0;
        if store.head() <= self.port.fed || !(is_due || self.is_behind(store)) {
            return false;
        }
        for _ in 0..BATCHES_A_CYCLE {
            if self.port.batches.is_full() {
                self.port.figures.full_waits.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            self.hand_over(store);
            if !self.is_behind(store) {
                break;
            }
        }
        self.fed_at = now;
        self.port.wake.wake();
        self.is_behind(store)
    }

    fn hand_over(&mut self, store: &OrderStore) {
        // What went before it was handed over is not to be had any more: the batch begins behind.
        let from = self.port.fed.max(store.floor());
        let hides_hole = plant::is(Plant::HoleNotTold);
        let mut batch = self.port.empties.pop().unwrap_or_default();
        batch.clear();
        batch.from = cold_place(if hides_hole { self.port.fed } else { from });
        let to = store.export(from, BATCH_CHANGES, |entry| {
            batch.push(&change_of(entry)).expect("a store's entries are changes");
        });
        batch.to = cold_place(to);
        self.port.fed = to;
        assert!(self.port.batches.push(batch).is_ok(), "room was found before");
    }

    /// Gives the desk the pages that came; how many.
    pub fn take_answers(&mut self, desk: &mut Desk) -> usize {
        let mut taken = 0;
        while let Ok((ticket, answer)) = self.port.answers.pop() {
            desk.take_older(ticket, answer);
            taken += 1;
        }
        taken
    }

    /// Hands on the desk's questions, and what it forgets; how many.
    pub fn ask(&mut self, desk: &mut Desk) -> usize {
        let mut asked = 0;
        while !self.port.requests.is_full() {
            let request = match desk.next_forgotten() {
                Some(ticket) => ColdRequest::Forget(ticket),
                None => match desk.next_older_ask() {
                    Some(ask) => ColdRequest::Page(Box::new(ask)),
                    None => break,
                },
            };
            assert!(self.port.requests.push(request).is_ok(), "room was found before");
            asked += 1;
        }
        if asked > 0 {
            self.port.wake.wake();
        }
        asked
    }
}

/// A place of the archive.
#[must_use]
pub fn cold_place(place: Place) -> weir_cold::Place {
    weir_cold::Place::new(place.seq, place.rec)
}

/// A place of the store.
#[must_use]
pub fn hot_place(place: weir_cold::Place) -> Place {
    Place::new(place.seq, place.rec)
}

fn change_of<'a>(entry: &Exported<'a>) -> Change<'a> {
    let keys = |keys: weir_delivery::filter::Keys| Keys {
        firm_id: keys.firm_id,
        account_id: keys.account_id,
        instrument_id: keys.instrument_id,
    };
    Change {
        standing: match entry.exported_as {
            ExportedAs::Live => Standing::Live,
            ExportedAs::Ended => Standing::Ended,
            ExportedAs::Tombstone => Standing::Tombstone,
            ExportedAs::Leave => Standing::Leave,
        },
        first: entry.first,
        change_count: entry.change_count,
        history: entry.history,
        keys: keys(entry.keys),
        next_keys: keys(entry.next_keys),
        row: entry.block,
        attributes: entry.attributes,
    }
}
