//! Messages for others on their way: numbered, kept until they are acknowledged, sent again from
//! the first one that the node has not taken.

use std::collections::VecDeque;

use weir_types::{Epoch, Nanos, Reason, SessionId};
use weir_wire::dialogue::put_with_data;
use weir_wire::subscription::{BODY_LEN_MAX, PublishAck, PublishMessage, PublishReject};

/// Bytes that wait in the connection before no more messages are handed to it.
const OUTBOX_LEN: usize = 1 << 20;
/// How long a message waits that found no room.
const REST: u64 = 20_000_000;

#[derive(Debug)]
struct Unacknowledged {
    message_no: u64,
    to: SessionId,
    body: Box<[u8]>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Publishing {
    epoch: Epoch,
    last: u64,
    unacknowledged: VecDeque<Unacknowledged>,
    /// How many of them were sent on this connection.
    sent: usize,
    rest_until: Option<Nanos>,
}

impl Publishing {
    pub(super) fn new(epoch: Epoch, last: u64) -> Publishing {
        Publishing { epoch, last, ..Publishing::default() }
    }

    pub(super) fn push(&mut self, to: SessionId, body: &[u8]) -> u64 {
        assert!(!self.epoch.is_none(), "a publisher begins an epoch before it says anything");
        assert!(body.len() <= BODY_LEN_MAX, "a body of {} bytes", body.len());
        self.last += 1;
        let message_no = self.last;
        self.unacknowledged.push_back(Unacknowledged { message_no, to, body: body.into() });
        message_no
    }

    pub(super) fn len(&self) -> usize {
        self.unacknowledged.len()
    }

    /// A new connection: all that is not acknowledged is sent again.
    pub(super) fn rewind(&mut self) {
        self.sent = 0;
        self.rest_until = None;
    }

    /// Puts messages into the outbox as far as it has room.
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
            put_with_data(&message, &next.body, out);
            self.sent += 1;
        }
    }

    /// The node has all up to a number; how far that is, if it is news.
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

    /// A message was not taken; true when it is given up.
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
