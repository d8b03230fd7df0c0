//! The client's side of one subscription: messages received, places processed, acknowledgements
//! due.

use std::collections::VecDeque;

use weir_types::{Epoch, Nanos, Position, SessionId};
use weir_wire::dialogue::put_with_data;
use weir_wire::frame::put_frame;
use weir_wire::subscription::{AckMessages, AttachSubscription, SubscribedMessage};

use super::{Credit, Seen};

/// The pause before it retries a subscription that is in use, in nanoseconds.
const ATTACH_REST: u64 = 50_000_000;

/// A received message without acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Open {
    message_no: u64,
    source: u32,
    place: (Epoch, Position),
    body_len: u32,
    is_done: bool,
}

/// The state of one subscription at its client.
#[derive(Debug)]
pub(super) struct Reading {
    name: String,
    credit: Credit,
    seen: Seen,
    open: VecDeque<Open>,
    /// The acknowledgement to send: the last message, and the credit to return.
    acked: u64,
    free: Credit,
    /// The number of the request to attach.
    pub(super) asked: u64,
    /// The time of the next try, when the subscription is in use.
    attach_at: Option<Nanos>,
}

impl Reading {
    pub(super) fn new(name: &str, credit: Credit, seen: Seen) -> Reading {
        let (open, free) = (VecDeque::new(), Credit { messages: 0, bytes: 0 });
        Reading {
            name: name.to_owned(),
            credit,
            seen,
            open,
            acked: 0,
            free,
            asked: 0,
            attach_at: None,
        }
    }

    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Sends the request to attach. Messages without acknowledgement will come again.
    pub(super) fn put_attach(
        &mut self,
        correlation_id: u64,
        session_id: SessionId,
        handle: u32,
        out: &mut Vec<u8>,
    ) {
        self.open.clear();
        (self.acked, self.free) = (0, Credit { messages: 0, bytes: 0 });
        self.asked = correlation_id;
        self.attach_at = None;
        let Credit { messages: credit_messages, bytes: credit_bytes } = self.credit;
        let attach = AttachSubscription {
            correlation_id,
            session_id,
            handle,
            credit_messages,
            credit_bytes,
        };
        put_with_data(&attach, self.name.as_bytes(), out);
    }

    /// Schedules another try, since another session is attached.
    pub(super) fn attach_later(&mut self, now: Nanos) {
        self.attach_at = Some(Nanos(now.0 + ATTACH_REST));
    }

    pub(super) fn is_to_attach(&self, now: Nanos) -> bool {
        self.attach_at.is_some_and(|at| now >= at)
    }

    /// Records a message; returns false when it was processed before, judged by its place.
    pub(super) fn take(&mut self, message: &SubscribedMessage, body_len: usize) -> bool {
        let place = (message.epoch, message.record);
        let is_done = self.seen.get(&message.source).is_some_and(|seen| place <= *seen);
        let body_len = u32::try_from(body_len).expect("a frame is shorter");
        let SubscribedMessage { message_no, source, .. } = *message;
        self.open.push_back(Open { message_no, source, place, body_len, is_done });
        self.settle();
        !is_done
    }

    /// Marks all messages up to a number as processed.
    pub(super) fn ack(&mut self, message_no: u64) {
        for open in self.open.iter_mut().take_while(|open| open.message_no <= message_no) {
            open.is_done = true;
        }
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(open) = self.open.front().filter(|open| open.is_done).copied() {
            self.open.pop_front();
            let seen = self.seen.entry(open.source).or_insert(open.place);
            *seen = open.place.max(*seen);
            self.acked = open.message_no;
            self.free.messages += 1;
            self.free.bytes = self.free.bytes.saturating_add(open.body_len);
        }
    }

    /// Sends the acknowledgements since the last call.
    pub(super) fn put_acks(&mut self, session_id: SessionId, handle: u32, out: &mut Vec<u8>) {
        if self.free.messages == 0 {
            return;
        }
        let ack = AckMessages {
            message_no: self.acked,
            session_id,
            handle,
            credit_messages: self.free.messages,
            credit_bytes: self.free.bytes,
        };
        put_frame(&ack, out);
        self.free = Credit { messages: 0, bytes: 0 };
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::subscription::MessageFlags;

    use super::*;

    fn message(message_no: u64, record: u64) -> SubscribedMessage {
        SubscribedMessage {
            message_no,
            record: Position(record),
            published_time: Nanos(1),
            session_id: SessionId(7),
            handle: 1,
            source: 1,
            epoch: Epoch(1),
            flags: MessageFlags::default(),
        }
    }

    #[test]
    fn what_was_acknowledged_is_dropped_when_it_comes_again_and_what_was_not_is_not() {
        let mut reading = Reading::new("fills", Credit::default(), Seen::new());
        assert!(reading.take(&message(10, 1), 5) && reading.take(&message(12, 2), 5));
        reading.ack(10);
        let mut out = Vec::new();
        // The node was killed: everything comes again, under other numbers.
        reading.put_attach(2, SessionId(7), 1, &mut out);
        assert!(!reading.take(&message(110, 1), 5), "it was dealt with");
        assert!(reading.take(&message(111, 2), 5), "it was not");
        out.clear();
        reading.put_acks(SessionId(7), 1, &mut out);
        assert!(!out.is_empty(), "what is dropped is acknowledged, or its credit would be lost");
        assert_eq!(reading.seen()[&1], (Epoch(1), Position(1)));
    }
}
