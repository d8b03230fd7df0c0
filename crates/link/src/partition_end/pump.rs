//! The events of a gateway: each batch has the records that the link passes, and counts the others.

use weir_types::{Epoch, Nanos, Position, SessionId};
use weir_wire::Message as _;
use weir_wire::event::Defined;
use weir_wire::frame::{parse_message, put_frame};

use super::{GatewayLink, OUTPUT_LEN_MAX, OldRecordRead, PartitionEnd, PartitionView, Phase};
use crate::codec::{BatchEntries, EVENTS_MAX, SKIPPED_MAX};
use crate::message::{EpochEnded, EventBatch, LinkedEvent};
use crate::plant::{self, Plant};
use crate::records::addressed;

/// The records of a gateway's link at which one call looks: others have their turn between.
const PUMP_RECORDS_MAX: u64 = 4_096;
/// The time within which skipped records are reported.
const SKIPS_TOLD_WITHIN: Nanos = Nanos(100_000_000);

/// The records of a batch: the first one, and the number of those skipped behind the last.
#[derive(Clone, Copy)]
struct Skipped {
    first: u64,
    after: u64,
}

impl PartitionEnd {
    /// Sends a gateway some of the records that exist, as far as it has credit and room; returns
    /// their number, skipped ones and an answered request included. There may be more if it is not
    /// zero.
    pub fn pump(&mut self, gateway: SessionId, view: &mut impl PartitionView, now: Nanos) -> u64 {
        let mut count = u64::from(self.answer_ask(gateway, view));
        while count < PUMP_RECORDS_MAX
            && let Some(sent) = self.pump_batch(gateway, view, now)
        {
            count += sent;
        }
        count
    }

    fn pump_batch(
        &mut self,
        gateway: SessionId,
        view: &mut impl PartitionView,
        now: Nanos,
    ) -> Option<u64> {
        let is_control = self.is_control();
        let link = self.links.get_mut(&gateway)?;
        let is_due = link.phase == Phase::Open
            || link.phase == Phase::Naming && plant::is(Plant::EventsBeforeNames);
        let has_credit = link.sent - link.used < link.window || plant::is(Plant::CreditIgnored);
        if !is_due || !has_credit || link.output.len() >= OUTPUT_LEN_MAX {
            return None;
        }
        if let Some((last_valid, next)) = view.epoch_end(link.epoch, link.cursor) {
            link.put_end(last_valid, next, now);
            return Some(0);
        }
        let (first, mut batch) = (link.cursor, BatchEntries::default());
        let mut skipped = link.untold;
        while link.cursor < view.end_record()
            && !batch.is_full(EVENTS_MAX)
            && link.cursor - first < PUMP_RECORDS_MAX
            && link.cursor - first + link.untold < SKIPPED_MAX
            && view.epoch_end(link.epoch, link.cursor).is_none()
            && view.record(link.cursor, &mut self.record)
        {
            let passes = is_control
                || match addressed(&self.record) {
                    Some(to) => self
                        .bindings
                        .get(&to.session_id)
                        .is_some_and(|one| link.carries(one) && link.cursor >= one.from_record),
                    None => is_definition(&self.record),
                };
            if passes {
                let skipped_before = u32::try_from(std::mem::take(&mut skipped)).ok()?;
                batch.push(&LinkedEvent { skipped_before }, &self.record);
            } else {
                skipped += 1;
            }
            link.cursor += 1;
        }
        let count = link.cursor - first;
        if count == 0 && link.cursor < view.end_record() {
            let read = view.old_record(link.cursor, &mut self.record);
            link.has_lost = read == OldRecordRead::Deleted;
        }
        let is_late = now.since(link.told_at) >= SKIPS_TOLD_WITHIN || skipped >= SKIPPED_MAX;
        if batch.is_empty() && !(skipped > 0 && is_late) {
            link.untold = skipped;
            return (count > 0).then_some(count);
        }
        link.put_batch(batch, Skipped { first: first - link.untold, after: skipped }, now);
        Some(count)
    }
}

impl GatewayLink {
    /// Sends the end of an epoch before the next record.
    fn put_end(&mut self, last_valid: Position, next: Epoch, now: Nanos) {
        // It stands behind all records before it, skipped ones too.
        if self.untold > 0 {
            let skipped = Skipped { first: self.cursor - self.untold, after: self.untold };
            self.put_batch(BatchEntries::default(), skipped, now);
        }
        let ended = EpochEnded {
            last_valid,
            next_record: self.cursor,
            session_id: self.gateway,
            ended: self.epoch,
            next,
            partition_id: self.partition_id,
        };
        put_frame(&ended, &mut self.output);
        self.epoch = next;
    }

    /// Sends the records up to the cursor.
    fn put_batch(&mut self, mut batch: BatchEntries, skipped: Skipped, now: Nanos) {
        let head = EventBatch {
            first_record: skipped.first,
            skipped_after: u32::try_from(skipped.after).expect("a batch skips few records"),
            session_id: self.gateway,
            partition_id: self.partition_id,
        };
        let len = self.output.len();
        batch.put::<_, LinkedEvent>(&head, &mut self.output);
        self.sent += (self.output.len() - len) as u64;
        (self.untold, self.told_at) = (0, now);
        if plant::is(Plant::PulsesDeferred) {
            self.pulsed_at = now;
        }
    }
}

pub(super) fn is_definition(record: &[u8]) -> bool {
    let raw = parse_message(record);
    raw.is_ok_and(|raw| raw.template_id == Defined::TEMPLATE_ID)
}
