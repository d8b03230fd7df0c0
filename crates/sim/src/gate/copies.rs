//! The firm's desk: its stream of copies, resumed by the client's own state over every loss.

use weir_client::ClientError;
use weir_client::drop_copy::{Beginning, CopyOutcome, CopyPoint, DropCopy};
use weir_types::{CopyNo, Epoch, Reason, SessionId, Switch};
use weir_wire::drop_copy::{DropCopyState, ReportCopy};

use super::addressed_events::{AddressedEvents, ReceivedReport, Report};
use crate::oracle::{Violation, ensure};
use crate::window::Window;
use crate::workload::{COPIED_FIRM, HERE};

/// A reader of copies.
pub struct CopyReader {
    session_id: SessionId,
    copies: DropCopy,
    /// Every copy received, in order, with its owner.
    received: Window<(SessionId, Report)>,
    /// The number of losses for which the copies that it keeps were compared.
    loss_count: u64,
    /// The head whose report is the next message.
    due: Option<ReportCopy>,
    /// True if it has dropped its point, and takes the oldest copy that there is.
    begins_anew: bool,
    /// Requests refused because of lost copies.
    pub other_histories: u64,
    /// Streams that began behind copies past the retention.
    pub past_retention: u64,
}

impl CopyReader {
    /// Creates a reader of all copies of the firm.
    #[must_use]
    pub fn new(session_id: SessionId) -> CopyReader {
        let copies = DropCopy::new(session_id, COPIED_FIRM, Beginning::Oldest, &[]);
        CopyReader {
            session_id,
            copies,
            received: Window::default(),
            loss_count: 0,
            due: None,
            begins_anew: false,
            other_histories: 0,
            past_retention: 0,
        }
    }

    /// The number of copies received.
    #[must_use]
    pub fn count(&self) -> usize {
        self.received.len()
    }

    /// The first record that it may still be told of, if that is known.
    #[must_use]
    pub fn needs_from(&self, told: &AddressedEvents) -> Option<u64> {
        told.copy(self.received.len()).map(|(_, report)| report.record)
    }

    /// Forgets what it received of records before this one.
    pub fn forget_before(&mut self, record: u64) {
        let count = self.received.kept().partition_point(|(_, report)| report.record < record);
        self.received.forget_before(self.received.begin() + count);
    }

    /// Asks for the copies, after a logon.
    pub fn ask(&mut self, out: &mut Vec<u8>) {
        self.due = None;
        self.copies.ask(HERE, out);
    }

    /// The connection is lost.
    pub fn connection_lost(&mut self) {
        self.due = None;
        self.copies.connection_lost();
    }

    /// True if the next message is a copied report.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.due.is_some()
    }

    /// Handles the state of the stream.
    ///
    /// # Errors
    /// A violation of a rule.
    pub fn on_state(
        &mut self,
        state: &DropCopyState,
        told: &AddressedEvents,
        out: &mut Vec<u8>,
    ) -> Result<(), Violation> {
        let point = self.copies.points().into_iter().find(|point| point.partition_id == HERE);
        let named = point.map_or(Epoch::NONE, |point| point.epoch);
        match self.copies.on_state(state) {
            Ok(CopyOutcome::AskAgain(_)) => self.ask(out),
            Ok(CopyOutcome::NotOurs) => {}
            Ok(CopyOutcome::Taken) if state.wanted == Switch::On => {
                // A stream that resumes names the copy received last, if it is known.
                let after = CopyNo(state.previous_copy_no.0 + 1);
                let first = after.max(state.oldest_copy_no);
                if std::mem::take(&mut self.begins_anew) {
                    // A loss of power may have brought copies back that were past the retention.
                    self.keep_before(first);
                }
                let gone = told.copies_past_retention(self.received.len(), first)?;
                self.past_retention += u64::from(!gone.is_empty());
                self.received.extend(gone);
                self.check(told)?;
            }
            Ok(CopyOutcome::Taken) => {}
            Err(ClientError::CopiesRefused {
                reason: Reason::ResumeOtherHistory,
                next_copy_no,
                ..
            }) => {
                self.other_histories += 1;
                // Where the copies that would tell are gone, none is confirmed.
                let is_unknown = told.may_be_unknown(named) && next_copy_no == state.oldest_copy_no;
                self.keep_before(if is_unknown { CopyNo(1) } else { next_copy_no });
                let point = CopyPoint {
                    partition_id: HERE,
                    epoch: Epoch::NONE,
                    copy_no: CopyNo(next_copy_no.0.saturating_sub(1)),
                };
                self.copies =
                    DropCopy::new(self.session_id, COPIED_FIRM, Beginning::Oldest, &[point]);
                self.ask(out);
            }
            Err(ClientError::CopiesRefused { reason: Reason::ResumeOutOfRange, .. }) => {
                self.begins_anew = true;
                self.copies = DropCopy::new(self.session_id, COPIED_FIRM, Beginning::Oldest, &[]);
                self.ask(out);
            }
            Err(error) => return Err(Violation::new("copies are refused", error)),
        }
        Ok(())
    }

    /// Drops the copies from a number on, which are sent again.
    fn keep_before(&mut self, first: CopyNo) {
        let kept = self.received.kept();
        let left = kept.partition_point(|(_, report)| report.record < first.0);
        self.received.truncate(self.received.begin() + left);
    }

    /// Checks that all copies received are true. Each was as it was received, and changes by a loss
    /// only.
    fn check(&mut self, told: &AddressedEvents) -> Result<(), Violation> {
        if std::mem::replace(&mut self.loss_count, told.loss_count) == told.loss_count {
            return Ok(());
        }
        for (index, (owner, report)) in (self.received.begin()..).zip(self.received.kept()) {
            let is_true = told.copy(index) == Some((*owner, report));
            ensure(is_true, "a reader of copies keeps what is lost", || {
                format!("copy {} of {}", report.record, told.copy_count())
            })?;
        }
        Ok(())
    }

    /// Handles a copy's head: the copy is received with the report that follows.
    pub fn on_head(&mut self, head: &ReportCopy) {
        self.due = Some(*head);
    }

    /// Checks the report that follows a head.
    ///
    /// # Errors
    /// A gap, or a report that is not the firm's next one.
    pub fn on_report(
        &mut self,
        heard: &ReceivedReport<'_>,
        told: &AddressedEvents,
    ) -> Result<(), Violation> {
        let Some(head) = self.due.take() else { return Ok(()) };
        match self.copies.on_copy(&head) {
            Ok(CopyOutcome::Taken) => {}
            Ok(_) => return Err(Violation::new("a copy of no stream", format!("{head:?}"))),
            Err(error) => return Err(Violation::new("copies have a gap", error)),
        }
        let next = told.copy(self.received.len());
        let is_next = next.is_some_and(|(owner, report)| {
            owner == head.owner_session_id
                && head.owner_firm_id == COPIED_FIRM
                && report.record == head.copy_no.0
                && report.is(heard)
        });
        ensure(is_next, "a copy is not the firm's next report", || {
            let wanted = next.map(|(owner, report)| (owner, report.record));
            format!("{head:?} after {} copies, next is {wanted:?}", self.received.len())
        })?;
        let (owner, report) = next.expect("it was compared");
        self.received.push((owner, report.clone()));
        Ok(())
    }
}
