//! Readers below the floor: their pages come from an archive, one at a time, until they reach a
//! place from which the store goes on.
//!
//! ```text
//! a reader below its floor   | state
//! ---------------------------+-----------------------------------------------------------------
//! just found to be           | queued; the store is no longer searched for it
//! asked for                  | one of a bounded number; the page arrives as finished frames
//! answered                   | served, and visited again at its new place: in the store or below
//! gone while asked for       | forgotten: its answer is dropped when it arrives
//! on a full connection       | asked for again when that takes data: no page is kept meanwhile
//! ```
//! INVARIANT: each ask that was handed out gets one answer, even if its reader has gone.

use std::collections::BTreeSet;

use weir_types::{ChangeId, Reason};
use weir_wire::frame::put_frame;

use super::away::reject_of;
use super::listing::PageCounts;
use super::{Desk, PageSink, Reader, Round, Visit};
use crate::filter::Scope;
use crate::page::{PageHead, PageLimits};
use crate::token::SourceCursor;

/// The identity of an ask: a reader's seat, and a number that no other ask has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    // The first field: tickets sort in the order in which they were drawn.
    number: u64,
    slot: u32,
}

/// A request for a page of changes below the store's floor.
#[derive(Clone, Debug)]
pub struct OlderAsk {
    /// The ticket that its answer carries.
    pub ticket: Ticket,
    /// The reader's filter and entitlement.
    pub scope: Scope,
    /// The reader's place, in the store's epoch.
    pub at: SourceCursor,
    /// The reader's places in other sources: handed on in the next token.
    pub elsewhere: Vec<SourceCursor>,
    /// The head of the page, except its `served_time`.
    pub head: PageHead,
    /// The limits of the page.
    pub limits: PageLimits,
    /// The store's floor for this reader: the store serves it from there on.
    pub floor: ChangeId,
}

/// A page that the archive made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OlderPage {
    /// The place from which its reader goes on, as in the next token.
    pub next: SourceCursor,
    /// Rows in it.
    pub row_count: u32,
    /// Bytes of the rows.
    pub byte_count: u64,
    /// Pages that may still come, as in its head.
    pub credit_left: u32,
    /// Its frames, including the next token.
    pub frames: Vec<u8>,
}

/// The answer to an [`OlderAsk`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OlderAnswer {
    /// A page.
    Page(OlderPage),
    /// The place is not honoured: a page refuses the fetch.
    Refused(Reason),
    /// The archive is busy: the fetch is rejected as one too many, and its token stays valid.
    NotNow,
}

/// Readers below the floor.
#[derive(Debug)]
pub(super) struct OlderReaders {
    /// Asks that may be out at once.
    out_max: u32,
    out_count: u32,
    last_number: u64,
    queue: BTreeSet<Ticket>,
    forgotten: Vec<Ticket>,
}

/// A reader's state below the floor.
#[derive(Clone, Debug, Default)]
pub(super) enum BelowFloorState {
    /// It reads from the store.
    #[default]
    No,
    /// Its ask waits to be handed out.
    Queued(Ticket),
    /// Its ask is out.
    Asked(Ticket),
    /// Its answer has arrived.
    Answered(OlderAnswer),
}

impl BelowFloorState {
    pub(super) fn is_away(&self) -> bool {
        matches!(self, BelowFloorState::Queued(_) | BelowFloorState::Asked(_))
    }
}

impl Desk {
    /// Asks an archive for readers below the store's floor from now on, at most `out_max` at once,
    /// instead of refusing them.
    ///
    /// # Panics
    /// If `out_max` is zero.
    pub fn keep_older(&mut self, out_max: u32) {
        assert!(out_max > 0, "somebody has to be asked");
        self.older = Some(OlderReaders {
            out_max,
            out_count: 0,
            last_number: 0,
            queue: BTreeSet::new(),
            forgotten: Vec::new(),
        });
    }

    /// Returns the next ask for the archive, if one may go out now.
    pub fn next_older_ask(&mut self) -> Option<OlderAsk> {
        let older = self.older.as_mut()?;
        if older.out_count >= older.out_max {
            return None;
        }
        let ticket = older.queue.pop_first()?;
        let reader = self.readers[ticket.slot as usize].as_mut();
        let reader = reader.expect("who leaves takes its ticket along");
        let scope = reader.scope.expect("only who has a scope is found to be below the floor");
        older.out_count += 1;
        reader.below = BelowFloorState::Asked(ticket);
        let at = SourceCursor { epoch: self.store.epoch(), ..reader.at(self.store.source()) };
        let head = PageHead { credit_left: reader.head.credit_left - 1, ..reader.head };
        Some(OlderAsk {
            ticket,
            scope,
            at,
            elsewhere: reader.elsewhere.clone(),
            head,
            limits: reader.page_limits(),
            floor: self.store.floor_of(scope.filter()),
        })
    }

    /// Takes the answer to an ask; the answer is dropped if its reader has gone.
    ///
    /// # Panics
    /// If nothing was asked.
    pub fn take_older(&mut self, ticket: Ticket, answer: OlderAnswer) {
        let older = self.older.as_mut().expect("somebody was asked");
        older.out_count = older.out_count.checked_sub(1).expect("an answer for each question");
        let Some(reader) = &mut self.readers[ticket.slot as usize] else { return };
        if matches!(reader.below, BelowFloorState::Asked(asked) if asked == ticket) {
            reader.below = BelowFloorState::Answered(answer);
            self.make_ready(ticket.slot);
        }
    }

    /// Returns an ask that is out and whose reader has gone: it needs no work, but still an answer.
    pub fn next_forgotten(&mut self) -> Option<Ticket> {
        self.older.as_mut()?.forgotten.pop()
    }

    /// Returns the number of readers that are asked for, or wait to be.
    #[must_use]
    pub fn below_floor_count(&self) -> usize {
        self.older.as_ref().map_or(0, |older| older.queue.len() + older.out_count as usize)
    }

    /// Queues the ask of a reader below the floor, unless it is queued or out already.
    pub(super) fn queue_older(&mut self, slot: u32) {
        let reader = self.readers[slot as usize].as_mut().expect("the reader is seated");
        if reader.below.is_away() {
            return;
        }
        let older = self.older.as_mut().expect("only then readers are below the floor");
        older.last_number += 1;
        let ticket = Ticket { number: older.last_number, slot };
        older.queue.insert(ticket);
        reader.below = BelowFloorState::Queued(ticket);
    }

    /// Drops the ask of a reader that leaves.
    pub(super) fn forget_older(&mut self, reader: &Reader) {
        let Some(older) = &mut self.older else { return };
        match reader.below {
            BelowFloorState::Asked(ticket) => older.forgotten.push(ticket),
            BelowFloorState::Queued(ticket) => _ = older.queue.remove(&ticket),
            BelowFloorState::No | BelowFloorState::Answered(_) => {}
        }
    }

    /// Serves a reader the answer that arrived for it.
    pub(super) fn serve_older(
        &mut self,
        reader: &mut Reader,
        answer: OlderAnswer,
        round: &mut Round<'_, impl PageSink>,
    ) -> Visit {
        let now = round.now;
        let page = match answer {
            OlderAnswer::Page(page) => page,
            OlderAnswer::Refused(reason) => {
                reader.refusal = Some(reason);
                return self.refuse(reader, reason, round);
            }
            OlderAnswer::NotNow => {
                let Some(out) = round.buffer(reader) else {
                    return Visit::Pause;
                };
                put_frame(&reject_of(&reader.head, Reason::Overloaded), out);
                round.polled.page_count += 1;
                return Visit::Done;
            }
        };
        // A page without rows only moves the place on; it is not sent before the idle wait is over.
        if page.row_count == 0 && now < reader.idle_deadline(self.config.idle_wait) {
            (reader.after, reader.seen) = (page.next.change_id, page.next.seen);
            return Visit::Again;
        }
        let Some(out) = round.buffer(reader) else {
            return Visit::Pause;
        };
        if out.is_empty() {
            *out = page.frames;
        } else {
            out.extend_from_slice(&page.frames);
        }
        round.polled.page_count += 1;
        round.polled.row_count += page.row_count;
        reader.served.add(PageCounts { pages: 1, rows: page.row_count.into(), merged: 0 });
        (reader.after, reader.seen) = (page.next.change_id, page.next.seen);
        reader.head.credit_left -= 1;
        reader.credit.spend(page.row_count, page.byte_count);
        reader.head.served_time = self.wall.wall_at(now);
        reader.is_fresh = false;
        reader.waiting_since = now;
        reader.rows_min = reader.rows_min.max(1);
        // Credit for pages that was added after the ask is too late for the page's head, which
        // announced it as the last one.
        if page.credit_left == 0 {
            Visit::Done
        } else if reader.credit.is_spent() {
            Visit::Pause
        } else {
            Visit::Again
        }
    }
}
