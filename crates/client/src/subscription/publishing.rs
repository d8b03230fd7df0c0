//! Published messages under way: numbered, kept until acknowledged, sent again from the first one
//! that the node has not accepted.

use std::collections::VecDeque;

use weir_types::{Epoch, Nanos, Reason, SessionId};
use weir_wire::dialogue::put_with_data;
use weir_wire::subscription::{BODY_LEN_MAX, PublishAck, PublishMessage, PublishReject};

/// The most bytes in the connection's outbox before no more messages are added.
const OUTBOX_LEN: usize = 1 << 20;
/// The pause before messages refused for lack of room are sent again, in nanoseconds.
const REST: u64 = 20_000_000;

#[derive(Debug)]
struct Unacknowledged {
    message_no: u64,
    to: SessionId,
    /// The offset of its body in the stream of all bodies, and its length.
    at: u64,
    len: usize,
}

/// Bodies stored back to back, without an allocation for each.
#[derive(Debug, Default)]
struct Bodies {
    bytes: Vec<u8>,
    /// The offset of `bytes` in the stream of all bodies.
    first: u64,
}

impl Bodies {
    /// Appends a body; `oldest` is the offset of the first one still needed, `None` when none is.
    /// Returns the body's offset.
    fn push(&mut self, body: &[u8], oldest: Option<u64>) -> u64 {
        let end = self.first + self.bytes.len() as u64;
        let unwanted = (oldest.unwrap_or(end) - self.first) as usize;
        // Frees at least half of the buffer, so that moving the rest costs no more than appending
        // it did.
        if unwanted >= self.bytes.len().div_ceil(2) {
            self.bytes.drain(..unwanted);
            self.first += unwanted as u64;
        }
        self.bytes.extend_from_slice(body);
        end
    }

    fn get(&self, at: u64, len: usize) -> &[u8] {
        &self.bytes[(at - self.first) as usize..][..len]
    }
}

/// The messages of one publisher that are not acknowledged.
#[derive(Debug, Default)]
pub(super) struct UnacknowledgedMessages {
    epoch: Epoch,
    last: u64,
    unacknowledged: VecDeque<Unacknowledged>,
    bodies: Bodies,
    /// The number of messages sent on this connection.
    sent: usize,
    rest_until: Option<Nanos>,
}

impl UnacknowledgedMessages {
    pub(super) fn new(epoch: Epoch, last: u64) -> UnacknowledgedMessages {
        UnacknowledgedMessages { epoch, last, ..UnacknowledgedMessages::default() }
    }

    pub(super) fn push(&mut self, to: SessionId, body: &[u8]) -> u64 {
        assert!(!self.epoch.is_none(), "a publisher begins an epoch before it says anything");
        assert!(body.len() <= BODY_LEN_MAX, "a body of {} bytes", body.len());
        self.last += 1;
        let message_no = self.last;
        let oldest = self.unacknowledged.front().map(|oldest| oldest.at);
        let at = self.bodies.push(body, oldest);
        self.unacknowledged.push_back(Unacknowledged { message_no, to, at, len: body.len() });
        message_no
    }

    pub(super) fn len(&self) -> usize {
        self.unacknowledged.len()
    }

    /// Sends all unacknowledged messages again, on a new connection.
    pub(super) fn rewind(&mut self) {
        self.sent = 0;
        self.rest_until = None;
    }

    /// Appends messages to the outbox as far as it has room.
    pub(super) fn pump(&mut self, session_id: SessionId, now: Nanos, out: &mut Vec<u8>) {
        if self.rest_until.is_some_and(|until| now < until) {
            return;
        }
        self.rest_until = None;
        while out.len() < OUTBOX_LEN
            && let Some(next) = self.unacknowledged.get(self.sent)
        {
            let (message_no, to_session_id, epoch) = (next.message_no, next.to, self.epoch);
            let message = PublishMessage { message_no, session_id, to_session_id, epoch };
            put_with_data(&message, self.bodies.get(next.at, next.len), out);
            self.sent += 1;
        }
    }

    /// Handles an acknowledgement; returns the last message newly acknowledged, if any.
    pub(super) fn acknowledged(&mut self, ack: &PublishAck) -> Option<u64> {
        if ack.epoch != self.epoch {
            return None;
        }
        let mut upto = None;
        while let Some(first) = self.unacknowledged.front()
            && first.message_no <= ack.message_no
        {
            upto = Some(first.message_no);
            self.unacknowledged.pop_front();
            self.sent = self.sent.saturating_sub(1);
        }
        upto
    }

    /// Handles a refusal; returns true when the message is dropped.
    pub(super) fn refused(&mut self, reject: &PublishReject, now: Nanos) -> bool {
        let at = self.unacknowledged.iter().position(|m| m.message_no == reject.message_no);
        let Some(at) = at.filter(|_| reject.epoch == self.epoch) else { return false };
        if matches!(reject.reason, Reason::BrokerMemoryFull | Reason::BrokerDiskFull) {
            self.sent = at;
            self.rest_until = Some(Nanos(now.0 + REST));
            return false;
        }
        self.unacknowledged.remove(at);
        self.sent -= usize::from(at < self.sent);
        true
    }
}

#[cfg(test)]
mod tests {
    use weir_types::AckLevel;

    use super::*;

    fn body(number: u64) -> Vec<u8> {
        number.to_le_bytes().repeat(1 + number as usize % 5)
    }

    /// The frames appended by a pump.
    fn pumped(publishing: &mut UnacknowledgedMessages) -> Vec<u8> {
        let mut out = Vec::new();
        publishing.pump(SessionId(1), Nanos(1), &mut out);
        out
    }

    #[test]
    fn what_is_sent_again_is_what_was_published_however_much_was_acknowledged_before() {
        let mut publishing = UnacknowledgedMessages::new(Epoch(1), 0);
        let mut random = 7_u64;
        let (mut last, mut acked) = (0, 0);
        for _ in 0..2_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            for _ in 0..random >> 60 {
                last += 1;
                assert_eq!(publishing.push(SessionId(2), &body(last)), last);
            }
            if random >> 60 > 0 {
                let open: usize = (acked + 1..=last).map(|number| body(number).len()).sum();
                assert!(publishing.bodies.bytes.len() <= 2 * open, "what is done with goes");
            }
            if random >> 33 & 1 == 0 && acked < last {
                acked += 1 + (random >> 20) % (last - acked);
                let (session_id, level) = (SessionId(1), AckLevel::Memory);
                let ack = PublishAck { message_no: acked, session_id, epoch: Epoch(1), level };
                assert_eq!(publishing.acknowledged(&ack), Some(acked));
            }
            publishing.rewind();
            let mut want = Vec::new();
            for message_no in acked + 1..=last {
                let (to_session_id, session_id) = (SessionId(2), SessionId(1));
                let epoch = Epoch(1);
                let message = PublishMessage { message_no, session_id, to_session_id, epoch };
                put_with_data(&message, &body(message_no), &mut want);
            }
            assert_eq!(pumped(&mut publishing), want);
        }
    }
}
