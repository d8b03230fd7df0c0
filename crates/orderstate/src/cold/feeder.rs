//! The store's end: what is new goes to the archive before the store may let it go, questions go
//! after it, pages come back.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rtrb::{Consumer, Producer};
use weir_cold::plant::{self, Plant};
use weir_cold::{Batch, Change, ColdError, Keys, Standing};
use weir_delivery::{
    Desk, Exported, ExportedAs, Held, OlderAnswer, OlderAsk, OrderStore, Place, Ticket,
};
use weir_io::{Disk, ThreadDisk};
use weir_runtime::Wake;
use weir_types::{Epoch, Nanos};

use super::agent::ColdAgent;
use super::figures::ColdFigures;

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
/// Batches beside which no more go before they are full: a thread that has no time for some seconds
/// is not to find its ring full of batches of a few changes.
const SMALL_BATCHES_MAX: usize = BATCHES_MAX / 2;
/// Ended orders that the store keeps beyond its own limit until the archive has been told of them:
/// some 60 MiB. More than that are a hole.
const HELD_MAX: u32 = 65_536;

/// What the store tells the archive, in order.
#[derive(Debug)]
pub enum ColdNews {
    /// Changes.
    Batch(Batch),
    /// In this epoch, which may be the one that there is, what was told after this place never was:
    /// the archive says from where on it is to be told again.
    Rewind(Epoch, Place),
}

/// What the store asks of the archive's thread.
#[derive(Debug)]
pub enum ColdRequest {
    /// To put on its disk what was told before, and to say how far that goes.
    Keep,
    /// A page, to be answered when the archive has all up to this place.
    Page(Box<OlderAsk>, Place),
    /// This question's reader has gone.
    Forget(Ticket),
}

/// The store's end of the rings.
pub struct ColdPort {
    /// News, in order.
    pub news: Producer<ColdNews>,
    /// Batches to be used again.
    pub empties: Consumer<Batch>,
    /// Questions. What was pushed to `news` before one is taken before it is answered.
    pub requests: Producer<ColdRequest>,
    /// One for each question.
    pub answers: Consumer<(Ticket, OlderAnswer)>,
    /// The answer to a rewind: the place to go on from.
    pub rewound: Consumer<Place>,
    /// The answer to [`ColdRequest::Keep`]: the last place that survives a loss of power.
    pub kept: Consumer<Place>,
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
    /// A rewind that the archive is to be told.
    rewind: Option<(Epoch, Place)>,
    /// Whether it was told one and has not said yet from where on to go on.
    is_rewinding: bool,
    /// Whether it was asked to keep what it has, and has not answered yet.
    is_keeping: bool,
    /// Ended orders that the store keeps for this beyond its own limit.
    pub(super) held_max: u32,
    /// Where the store was when the last full resend came to its end. Before the archive has heard
    /// all of that, its files may tell what was disowned and not of its end.
    told_to: Place,
}

impl<D: Disk> ColdFeeder<D> {
    /// With the agent, which has no thread yet.
    #[must_use]
    pub fn new(port: ColdPort, agent: ColdAgent<D>) -> ColdFeeder<D> {
        let (agent, fed_at) = (Some(Box::new(agent)), Nanos(0));
        ColdFeeder {
            port,
            agent,
            fed_at,
            changes_max: FEED_CHANGES,
            rewind: None,
            is_rewinding: false,
            is_keeping: false,
            held_max: HELD_MAX,
            told_to: Place::START,
        }
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

    /// What the archive has after `place` is not what the store has, at a start: it is told again.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn rewind_at_start(&mut self, place: Place) -> Result<(), ColdError> {
        let agent = self.agent.as_mut().expect("its thread has not begun");
        self.port.fed = agent.rewind_at_start(place)?;
        Ok(())
    }

    /// Files of before are read when the archive has all that the store has by now, not earlier.
    pub fn answer_behind(&mut self, store: &OrderStore) {
        self.told_to = store.head();
    }

    /// The source began an epoch: what it said after the end of the one before never was.
    pub fn on_epoch(&mut self, store: &OrderStore) {
        if plant::is(Plant::EpochNotTold) {
            return;
        }
        if let Some((_, valid_to)) = store.past_epochs().last() {
            self.rewind(store.epoch(), *valid_to);
        }
    }

    /// A full resend came to its end, which began when the store was at `before`. What the source
    /// disowned is told anew or gone by now, unless the store had let it go meanwhile: nobody says
    /// of that any more that it never was.
    pub fn on_resent(&mut self, before: Place, store: &OrderStore) {
        if !plant::is(Plant::AnsweredBeforeResent) {
            self.told_to = store.head();
        }
        if let Some((_, valid_to)) = store.past_epochs().last()
            && *valid_to < before
            && *valid_to < store.floor()
            && !plant::is(Plant::LostHistoryKept)
        {
            self.rewind(store.epoch(), *valid_to);
        }
    }

    /// What was told after `valid_to` never was. The archive is told when there is room, the last
    /// of several by itself.
    fn rewind(&mut self, epoch: Epoch, valid_to: Place) {
        let before = self.rewind.map_or(valid_to, |(_, before)| before);
        self.rewind = Some((epoch, valid_to.min(before)));
    }

    /// Tells the archive of a rewind, and hears of the last one; false while it has not said from
    /// where on to go on.
    fn go_on(&mut self) -> bool {
        if self.is_rewinding
            && let Ok(place) = self.port.rewound.pop()
        {
            (self.is_rewinding, self.port.fed) = (false, place);
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

    /// Whether what the store let go up to `floor` is on the archive's disk, so that a snapshot
    /// with this floor leaves no hole; asks for it where it is not known. An archive whose disk
    /// fails is not waited for.
    pub fn has_kept(&mut self, floor: Place) -> bool {
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

    /// Hands over what is new while the store is made anew from its log: all of it, as far as the
    /// archive takes it. The store lets go nothing else.
    pub fn feed_at_start(&mut self, store: &mut OrderStore) {
        if plant::is(Plant::StartFedFromHead) {
            self.port.fed = store.head();
        }
        while self.is_behind(store) {
            if self.port.news.is_full() {
                let agent = self.agent.as_mut().expect("its thread has not begun");
                agent.take_batches();
                if self.port.news.is_full() {
                    // It takes no more, and has said why.
                    break;
                }
            }
            self.hand_over(store);
        }
        store.set_held(self.held());
    }

    /// What the store is to keep: whatever the archive was not told, and all that there is while it
    /// has not said from where on it is to be told again.
    fn held(&self) -> Option<Held> {
        let is_known = !self.is_rewinding && self.rewind.is_none();
        let after = if is_known { self.port.fed } else { Place::START };
        (!plant::is(Plant::FloorNotHeld)).then_some(Held { after, count_max: self.held_max })
    }

    fn is_behind(&self, store: &OrderStore) -> bool {
        store.head().seq.0.saturating_sub(self.port.fed.seq.0) >= self.changes_max
    }

    /// Hands over what is new when it is time, a bounded part of it, and has the store keep the
    /// rest; true when there is more now.
    pub fn feed(&mut self, store: &mut OrderStore, now: Nanos) -> bool {
        let has_more = self.go_on() && self.hand_on(store, now);
        store.set_held(self.held());
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
        assert!(self.port.news.push(ColdNews::Batch(batch)).is_ok(), "room was found before");
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
