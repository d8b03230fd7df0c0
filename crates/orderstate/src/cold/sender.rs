//! The store's end of the archive: sends new changes before the store may discard them, then
//! queries, and receives pages.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rtrb::{Consumer, Producer};
use weir_cold::plant::{self, Plant};
use weir_cold::{Batch, Change, ColdError, EntryKind, Keys};
use weir_delivery::stream::SourceStream;
use weir_delivery::{
    Desk, ExportedEntry, ExportedKind, HeldOrders, OlderAnswer, OlderAsk, OrderStore, Ticket,
};
use weir_io::{Disk, ThreadDisk};
use weir_runtime::Wake;
use weir_types::{ChangeId, Epoch, Nanos};

use super::agent::ColdAgent;
use super::figures::ColdFigures;

/// The maximum number of batches waiting for the archive.
pub const BATCHES_MAX: usize = 64;
/// The number of new changes at which they are sent immediately; fewer wait for
/// [`FEED_INTERVAL`]. Far below the number of ended orders that the store keeps, so that it
/// discards none of them before.
const FEED_CHANGES: u64 = 512;
/// The maximum number of changes in a batch.
const BATCH_CHANGES: u32 = 1_024;
/// The number of batches built in one cycle: some hundred microseconds.
const BATCHES_A_CYCLE: usize = 2;
/// The time that a change waits to be sent, in nanoseconds.
const FEED_INTERVAL: u64 = 50_000_000;
/// The number of waiting batches beyond which only full ones are sent: a thread that is preempted
/// for some seconds must not find its ring full of tiny batches.
const SMALL_BATCHES_MAX: usize = BATCHES_MAX / 2;
/// The number of ended orders that the store keeps beyond its own limit until the archive has
/// received them: some 60 MiB. More than that become a hole.
const HELD_MAX: u32 = 65_536;

/// A message from the store to the archive, in order.
#[derive(Debug)]
pub enum ColdNews {
    /// Changes.
    Batch(Batch),
    /// A rewind: in this epoch, which may be the current one, changes after this change id are
    /// void. The archive answers with the change id from which it needs changes again.
    Rewind(Epoch, ChangeId),
}

/// A request from the store to the archive's thread.
#[derive(Debug)]
pub enum ColdRequest {
    /// Syncs all changes sent before, and reports the last of them.
    Keep,
    /// Builds a page once the archive has all changes up to this change id.
    Page(Box<OlderAsk>, ChangeId),
    /// Cancels this query: its reader has gone.
    Forget(Ticket),
}

/// The store's end of the rings.
pub struct ColdPort {
    /// Changes and rewinds, in order.
    pub news: Producer<ColdNews>,
    /// Empty batches for reuse.
    pub empties: Consumer<Batch>,
    /// Requests. Changes pushed to `news` before a request are taken before it is answered.
    pub requests: Producer<ColdRequest>,
    /// One answer for each query.
    pub answers: Consumer<(Ticket, OlderAnswer)>,
    /// The answer to a rewind: the change id to continue from.
    pub rewound: Consumer<ChangeId>,
    /// The answer to [`ColdRequest::Keep`]: the last change id that survives a power loss.
    pub kept: Consumer<ChangeId>,
    /// The maximum number of outstanding queries.
    pub out_max: u32,
    /// The last change id that the archive has.
    pub fed: ChangeId,
    /// The archive's thread.
    pub wake: Wake,
    /// Figures of both ends.
    pub figures: Arc<ColdFigures>,
}

/// Returns true if the changes of a store may be sent to its archive: none may be while the store
/// has ends of orders that are void, since no later change would void them there.
#[must_use]
pub fn may_be_sent(stream: &SourceStream) -> bool {
    !stream.is_voiding() || plant::is(Plant::FedWhileVoiding)
}

/// Sends changes to the archive, and carries queries and pages.
pub struct ArchiveSender<D = ThreadDisk> {
    port: ColdPort,
    /// The archive's agent until its thread starts: at a start it runs on the store's thread.
    agent: Option<Box<ColdAgent<D>>>,
    fed_at: Nanos,
    /// The number of new changes at which they are sent immediately.
    changes_max: u64,
    /// A rewind to be sent to the archive.
    rewind: Option<(Epoch, ChangeId)>,
    /// True while a rewind's answer is pending.
    is_rewinding: bool,
    /// True while an answer to [`ColdRequest::Keep`] is pending.
    is_keeping: bool,
    /// The number of ended orders that the store keeps for this beyond its own limit.
    pub(super) held_max: u32,
    /// The store's head at the start or when the last full resend ended. Until the archive has all
    /// changes up to it, its files may still hold disowned changes.
    told_to: ChangeId,
}

impl<D: Disk> ArchiveSender<D> {
    /// Returns a sender with the agent, which has no thread yet.
    #[must_use]
    pub fn new(port: ColdPort, agent: ColdAgent<D>) -> ArchiveSender<D> {
        let (agent, fed_at) = (Some(Box::new(agent)), Nanos(0));
        ArchiveSender {
            port,
            agent,
            fed_at,
            changes_max: FEED_CHANGES,
            rewind: None,
            is_rewinding: false,
            is_keeping: false,
            held_max: HELD_MAX,
            told_to: ChangeId::START,
        }
    }

    /// Returns a sender for a store that keeps fewer ended orders than a node's may.
    #[cfg(test)]
    pub(super) fn before_a_small_store(self) -> ArchiveSender<D> {
        ArchiveSender { changes_max: 1, ..self }
    }

    /// Returns the last change id that the archive has.
    #[must_use]
    pub fn fed(&self) -> ChangeId {
        self.port.fed
    }

    /// Returns the maximum number of outstanding queries.
    #[must_use]
    pub fn out_max(&self) -> u32 {
        self.port.out_max
    }

    /// Takes the agent, for its thread.
    ///
    /// # Panics
    /// When it was already taken.
    pub fn take_agent(&mut self) -> ColdAgent<D> {
        *self.agent.take().expect("the agent has one thread")
    }

    /// Drops the archive's changes after `change_id`, which differ from the store's, at a start;
    /// they are sent again.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn rewind_at_start(&mut self, change_id: ChangeId) -> Result<(), ColdError> {
        let agent = self.agent.as_mut().expect("its thread has not begun");
        self.port.fed = agent.rewind_at_start(change_id)?;
        Ok(())
    }

    /// Defers reads of existing files until the archive has all changes that the store has now.
    pub fn answer_behind(&mut self, store: &OrderStore) {
        self.told_to = store.head();
    }

    /// Handles a new epoch of the source: changes after the end of the previous one are void.
    pub fn on_epoch(&mut self, store: &OrderStore) {
        if plant::is(Plant::EpochNotTold) {
            return;
        }
        if let Some((_, valid_to)) = store.past_epochs().last() {
            self.rewind(store.epoch(), *valid_to);
        }
    }

    /// Handles the end of a full resend. Each disowned change of a live order is by now replaced or
    /// deleted by a later one, and those of ends were tombstones before they were sent here.
    pub fn on_resent(&mut self, store: &OrderStore) {
        if !plant::is(Plant::AnsweredBeforeResent) {
            self.told_to = store.head();
        }
    }

    /// Records that changes after `valid_to` are void. The archive is told when there is room;
    /// several rewinds merge into the last epoch and the lowest change id.
    fn rewind(&mut self, epoch: Epoch, valid_to: ChangeId) {
        let before = self.rewind.map_or(valid_to, |(_, before)| before);
        self.rewind = Some((epoch, valid_to.min(before)));
    }

    /// Sends a pending rewind, and receives the answer to the last one; returns false until the
    /// change id to continue from is known.
    fn go_on(&mut self) -> bool {
        if self.is_rewinding
            && let Ok(change_id) = self.port.rewound.pop()
        {
            (self.is_rewinding, self.port.fed) = (false, change_id);
        }
        if !self.is_rewinding
            && !self.port.news.is_full()
            && let Some((epoch, valid_to)) = self.rewind.take()
        {
            let pushed = self.port.news.push(ColdNews::Rewind(epoch, valid_to));
            assert!(pushed.is_ok(), "room was found before");
            self.is_rewinding = true;
            self.port.wake.wake();
        }
        !self.is_rewinding && self.rewind.is_none()
    }

    /// Returns true when all changes discarded up to `floor` are on the archive's disk, so that a
    /// snapshot with this floor leaves no hole; requests a sync if unknown. Does not wait for an
    /// archive whose disk fails.
    pub fn has_kept(&mut self, floor: ChangeId) -> bool {
        if plant::is(Plant::SnapshotNotHeld) {
            return true;
        }
        let kept = self.port.kept.pop().ok();
        self.is_keeping &= kept.is_none();
        if kept.is_some_and(|end| end >= floor) || self.port.figures.is_failing() {
            return true;
        }
        let is_told = !self.is_rewinding && self.rewind.is_none() && self.port.fed >= floor;
        if is_told && !self.is_keeping {
            self.is_keeping = self.port.requests.push(ColdRequest::Keep).is_ok();
            self.port.wake.wake();
        }
        false
    }

    /// Sends all new changes while the store is rebuilt from its log, as far as the archive accepts
    /// them. The store discards nothing else.
    pub fn send_at_start(&mut self, store: &mut OrderStore) {
        if plant::is(Plant::StartFedFromHead) {
            self.port.fed = store.head();
        }
        while self.is_behind(store) {
            if self.port.news.is_full() {
                let agent = self.agent.as_mut().expect("its thread has not begun");
                agent.take_batches();
                if self.port.news.is_full() {
                    // It accepts no more, and has reported the reason.
                    break;
                }
            }
            self.hand_over(store);
        }
        self.hold(store);
    }

    /// Makes the store keep the changes that were not sent to the archive.
    pub fn hold(&self, store: &mut OrderStore) {
        store.set_held(self.held());
    }

    /// Returns the changes that the store must keep: those not sent to the archive, and all while
    /// the change id to continue from is unknown.
    fn held(&self) -> Option<HeldOrders> {
        let is_known = !self.is_rewinding && self.rewind.is_none();
        let after = if is_known { self.port.fed } else { ChangeId::START };
        (!plant::is(Plant::FloorNotHeld)).then_some(HeldOrders { after, count_max: self.held_max })
    }

    fn is_behind(&self, store: &OrderStore) -> bool {
        store.head().seq.0.saturating_sub(self.port.fed.seq.0) >= self.changes_max
    }

    /// Sends a bounded number of new changes when due, and makes the store keep the rest; returns
    /// true when more are due.
    pub fn send(&mut self, store: &mut OrderStore, now: Nanos) -> bool {
        let has_more = self.go_on() && self.hand_on(store, now);
        self.hold(store);
        has_more
    }

    fn hand_on(&mut self, store: &OrderStore, now: Nanos) -> bool {
        let is_due = self.fed_at.0.saturating_add(FEED_INTERVAL) <= now.0
            && self.port.news.slots() > BATCHES_MAX - SMALL_BATCHES_MAX;
        if store.head() <= self.port.fed || !(is_due || self.is_behind(store)) {
            return false;
        }
        for _ in 0..BATCHES_A_CYCLE {
            if self.port.news.is_full() {
                self.port.figures.counters.full_waits.fetch_add(1, Ordering::Relaxed);
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
        // Changes discarded before they were sent are lost: the batch begins behind them.
        let from = self.port.fed.max(store.floor());
        let hides_hole = plant::is(Plant::HoleNotTold);
        let mut batch = self.port.empties.pop().unwrap_or_default();
        batch.clear();
        batch.from = if hides_hole { self.port.fed } else { from };
        let to = store.export(from, BATCH_CHANGES, |entry| {
            batch.push(&change_of(entry)).expect("a store's entries are changes");
        });
        batch.to = to;
        self.port.fed = to;
        assert!(self.port.news.push(ColdNews::Batch(batch)).is_ok(), "room was found before");
    }

    /// Passes the archive's pages to the desk; returns their number.
    pub fn take_answers(&mut self, desk: &mut Desk) -> usize {
        let mut taken = 0;
        while let Ok((ticket, answer)) = self.port.answers.pop() {
            desk.take_older(ticket, answer);
            taken += 1;
        }
        taken
    }

    /// Sends the desk's queries and cancellations; returns their number.
    pub fn ask(&mut self, desk: &mut Desk) -> usize {
        let mut asked = 0;
        while !self.port.requests.is_full() {
            let request = match desk.next_forgotten() {
                Some(ticket) => ColdRequest::Forget(ticket),
                None => match desk.next_older_ask() {
                    Some(ask) => ColdRequest::Page(Box::new(ask), self.told_to),
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

fn change_of<'a>(entry: &ExportedEntry<'a>) -> Change<'a> {
    let keys = |keys: weir_delivery::filter::Keys| Keys {
        firm_id: keys.firm_id,
        account_id: keys.account_id,
        instrument_id: keys.instrument_id,
    };
    Change {
        standing: match entry.exported_as {
            ExportedKind::Live => EntryKind::Live,
            ExportedKind::Ended => EntryKind::Ended,
            ExportedKind::Tombstone => EntryKind::Tombstone,
            ExportedKind::Leave => EntryKind::Leave,
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
