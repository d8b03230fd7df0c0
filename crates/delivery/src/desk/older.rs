//! Readers whose place the store has let go: their pages come from whoever keeps what went, one at
//! a time, until they are at a place from which the store goes on.
//!
//! ```text
//! a reader below its floor  | is
//! --------------------------+------------------------------------------------------------------
//! just found to be          | queued; nothing is looked up for it any more
//! asked for                 | one of a bounded number; the page comes with its frames made
//! answered                  | served, and looked at again where it then is: here, or below again
//! gone while asked for      | forgotten: its answer is dropped when it comes
//! on a full connection      | asked for again when that takes: nobody's pages are kept meanwhile
//! ```
//! INVARIANT: each question that was handed out has one answer, whether its reader is there or not.

use std::collections::BTreeSet;

use weir_types::{Nanos, Reason, RequestNo};
use weir_wire::Message;
use weir_wire::delivery::FetchOrders;
use weir_wire::frame::put_frame;
use weir_wire::session::{Label, Reject};

use super::listing::Served;
use super::{Desk, PageSink, Polled, Reader, Visit};
use crate::filter::Scope;
use crate::page::{PageHead, PageLimits};
use crate::ring::Place;
use crate::token::SourcePlace;

/// Which question: a reader's seat, and a number that no other question has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    // First: tickets are in the order in which they were drawn.
    number: u64,
    slot: u32,
}

/// A question for a page of what the store has let go.
#[derive(Clone, Debug)]
pub struct OlderAsk {
    /// Its answer carries it.
    pub ticket: Ticket,
    /// What its reader asked for and may see.
    pub scope: Scope,
    /// What the reader has, in the store's epoch.
    pub at: SourcePlace,
    /// Where the reader is in other sources: handed on in the next token.
    pub elsewhere: Vec<SourcePlace>,
    /// The head of the page, but for its `served_time`.
    pub head: PageHead,
    /// How much it may hold.
    pub limits: PageLimits,
    /// The store's floor for this reader: from there on it goes on itself.
    pub floor: Place,
}

/// A page that was made elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OlderPage {
    /// Where its reader goes on, by the next token.
    pub next: SourcePlace,
    /// Rows in it.
    pub row_count: u32,
    /// Bytes of the rows.
    pub byte_count: u64,
    /// Pages that may still come, as its head says.
    pub credit_left: u32,
    /// Its frames, the next token in them.
    pub frames: Vec<u8>,
}

/// The answer to an [`OlderAsk`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OlderAnswer {
    /// A page.
    Page(OlderPage),
    /// The place is not honoured: a page that refuses it.
    Refused(Reason),
    /// Not now: the question is rejected as one too many, and its token is as good as before.
    NotNow,
}

/// Readers on their way through what the store has let go.
#[derive(Debug)]
pub(super) struct Older {
    /// Questions that may be out at once.
    out_max: u32,
    out_count: u32,
    last_number: u64,
    queue: BTreeSet<Ticket>,
    forgotten: Vec<Ticket>,
}

/// How a reader stands to what the store has let go.
#[derive(Clone, Debug, Default)]
pub(super) enum BelowFloor {
    /// It reads from the store.
    #[default]
    No,
    /// Its question waits to be handed out.
    Queued(Ticket),
    /// Its question is out.
    Asked(Ticket),
    /// Its answer is here.
    Answered(OlderAnswer),
}

impl BelowFloor {
    pub(super) fn is_away(&self) -> bool {
        matches!(self, BelowFloor::Queued(_) | BelowFloor::Asked(_))
    }
}

impl Desk {
    /// From now on readers below the store's floor are asked for elsewhere, at most `out_max` at
    /// once, instead of being refused.
    ///
    /// # Panics
    /// When `out_max` is zero.
    pub fn keep_older(&mut self, out_max: u32) {
        assert!(out_max > 0, "somebody has to be asked");
        self.older = Some(Older {
            out_max,
            out_count: 0,
            last_number: 0,
            queue: BTreeSet::new(),
            forgotten: Vec::new(),
        });
    }

    /// The next question for what the store has let go, if one may go out now.
    pub fn next_older_ask(&mut self) -> Option<OlderAsk> {
        let older = self.older.as_mut()?;
        while older.out_count < older.out_max {
            let ticket = older.queue.pop_first()?;
            let reader = self.readers[ticket.slot as usize].as_mut();
            let reader = reader.expect("who leaves takes its ticket along");
            // A reader whose rights changed is refused at its next visit.
            let Some(scope) = reader.scope else { continue };
            older.out_count += 1;
            reader.below = BelowFloor::Asked(ticket);
            let at = SourcePlace { epoch: self.store.epoch(), ..reader.at(self.store.source()) };
            let head = PageHead { credit_left: reader.head.credit_left - 1, ..reader.head };
            return Some(OlderAsk {
                ticket,
                scope,
                at,
                elsewhere: reader.elsewhere.clone(),
                head,
                limits: reader.page_limits(),
                floor: self.store.floor_of(scope.filter()),
            });
        }
        None
    }

    /// Takes the answer to a question; it is dropped where its reader has gone.
    ///
    /// # Panics
    /// When nothing was asked.
    pub fn take_older(&mut self, ticket: Ticket, answer: OlderAnswer) {
        let older = self.older.as_mut().expect("somebody was asked");
        older.out_count = older.out_count.checked_sub(1).expect("an answer for each question");
        let Some(reader) = &mut self.readers[ticket.slot as usize] else { return };
        if matches!(reader.below, BelowFloor::Asked(asked) if asked == ticket) {
            reader.below = BelowFloor::Answered(answer);
            self.make_ready(ticket.slot);
        }
    }

    /// A question that is out and whose reader has gone: it need not be worked on, but answered.
    pub fn next_forgotten(&mut self) -> Option<Ticket> {
        self.older.as_mut()?.forgotten.pop()
    }

    /// Readers that are asked for elsewhere, or wait to be.
    #[must_use]
    pub fn below_floor_count(&self) -> usize {
        self.older.as_ref().map_or(0, |older| older.queue.len() + older.out_count as usize)
    }

    /// A reader is below the floor: its question waits from now on, if it does not yet.
    pub(super) fn queue_older(&mut self, slot: u32) {
        let reader = self.readers[slot as usize].as_mut().expect("the reader is seated");
        if reader.below.is_away() {
            return;
        }
        let older = self.older.as_mut().expect("only then readers are below the floor");
        older.last_number += 1;
        let ticket = Ticket { number: older.last_number, slot };
        older.queue.insert(ticket);
        reader.below = BelowFloor::Queued(ticket);
    }

    /// A reader leaves.
    pub(super) fn forget_older(&mut self, reader: &Reader) {
        let Some(older) = &mut self.older else { return };
        match reader.below {
            BelowFloor::Asked(ticket) => older.forgotten.push(ticket),
            BelowFloor::Queued(ticket) => _ = older.queue.remove(&ticket),
            BelowFloor::No | BelowFloor::Answered(_) => {}
        }
    }

    /// Gives a reader what came for it.
    pub(super) fn serve_older(
        &mut self,
        reader: &mut Reader,
        answer: OlderAnswer,
        now: Nanos,
        (sink, polled): (&mut impl PageSink, &mut Polled),
    ) -> Visit {
        let page = match answer {
            OlderAnswer::Page(page) => page,
            OlderAnswer::Refused(reason) => {
                reader.refusal = Some(reason);
                return self.refuse(reader, reason, now, (sink, polled));
            }
            OlderAnswer::NotNow => {
                let Some(out) = sink.buffer(reader.connection) else { return Visit::Pause };
                put_frame(&not_now(&reader.head), out);
                return Visit::Done;
            }
        };
        // What was looked at and did not match need not be told before there is something.
        if page.row_count == 0 && now < reader.idle_deadline(self.config.idle_wait) {
            (reader.after, reader.seen) = (page.next.place, page.next.seen);
            return Visit::Again;
        }
        let Some(out) = sink.buffer(reader.connection) else { return Visit::Pause };
        if out.is_empty() {
            *out = page.frames;
        } else {
            out.extend_from_slice(&page.frames);
        }
        polled.page_count += 1;
        polled.row_count += page.row_count;
        reader.served.add(Served { pages: 1, rows: page.row_count.into(), merged: 0 });
        (reader.after, reader.seen) = (page.next.place, page.next.seen);
        reader.head.credit_left -= 1;
        reader.credit.spend(page.row_count, page.byte_count);
        reader.head.served_time = now;
        reader.is_fresh = false;
        reader.waiting_since = now;
        reader.rows_min = reader.rows_min.max(1);
        // Pages that were added since it was asked for came too late for its head: it said that it
        // is the last one.
        if page.credit_left == 0 {
            Visit::Done
        } else if reader.credit.is_spent() {
            Visit::Pause
        } else {
            Visit::Again
        }
    }
}

fn not_now(head: &PageHead) -> Reject {
    Reject {
        request_no: RequestNo(head.correlation_id),
        field: Label::new(""),
        session_id: head.session_id,
        ref_template_id: FetchOrders::TEMPLATE_ID,
        reason: Reason::Overloaded,
    }
}
