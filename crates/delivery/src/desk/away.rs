//! Readers of a store that cannot be read for now: each of their fetches is rejected, and its token
//! stays as valid as it was.

use weir_types::{Reason, RequestNo};
use weir_wire::Message;
use weir_wire::delivery::FetchOrders;
use weir_wire::frame::put_frame;
use weir_wire::session::{Label, Reject};

use super::{Desk, PageSink, Reader, Round, Visit};
use crate::page::PageHead;

impl Desk {
    /// Rejects all fetches that wait, with this reason, from the next [`Desk::poll`] on.
    pub fn turn_away(&mut self, reason: Reason) {
        for slot in 0..u32::try_from(self.readers.len()).expect("readers_max is a u32") {
            if let Some(reader) = &mut self.readers[slot as usize] {
                reader.turned_away = Some(reason);
                reader.is_paused = false;
            }
            self.make_ready(slot);
        }
    }

    /// Rejects the fetch of a reader that was turned away.
    pub(super) fn send_away(
        &self,
        reader: &Reader,
        reason: Reason,
        round: &mut Round<'_, impl PageSink>,
    ) -> Visit {
        let Some(out) = round.buffer(reader) else { return Visit::Pause };
        put_frame(&reject_of(&reader.head, reason), out);
        round.polled.page_count += 1;
        Visit::Done
    }
}

/// Returns the reject of a fetch whose token stays valid.
pub(crate) fn reject_of(head: &PageHead, reason: Reason) -> Reject {
    Reject {
        request_no: RequestNo(head.correlation_id),
        field: Label::new(""),
        session_id: head.session_id,
        ref_template_id: FetchOrders::TEMPLATE_ID,
        reason,
    }
}
