//! Output: messages to subscriptions, within their credit, their window and the room in their
//! connection's output; and acknowledgements to publishers.

use weir_broker::{Delivery, Notice};
use weir_door::figures::add;
use weir_types::{AckLevel, Nanos, SessionId};
use weir_wire::dialogue::{put_with_data, put_with_taken};
use weir_wire::frame::put_frame;
use weir_wire::subscription::{MessageFlags, PublishAck, SubscribedMessage, SubscriptionEnded};

use super::agent::Subscriptions;
use super::link::{HandleAt, HandleTarget, HeldQueue, Link, Links, Peer};
use super::manage::{level_of, reason_of_end, taken_marks};

/// Messages that one subscription may get in one cycle.
const TURN_MAX: usize = 256;

impl Subscriptions {
    /// Sends messages to subscriptions that have some; returns their number.
    pub(super) fn serve(&mut self, links: &mut Links) -> usize {
        let mut count = 0;
        let mut again = std::mem::take(&mut self.again);
        while let Some((id, handle)) = self.hot.pop_first() {
            let Some(link) = links.get_mut(id) else { continue };
            let given = self.serve_one(link, handle);
            if given == TURN_MAX {
                again.push((id, handle));
            }
            if given > 0 {
                links.touch(id);
            }
            count += given;
        }
        self.hot.extend(again.drain(..));
        self.again = again;
        count
    }

    fn serve_one(&mut self, link: &mut Link, handle: u32) -> usize {
        if !link.socket.has_room() {
            link.state.is_choked = true;
            return 0;
        }
        let session_id = link.session_id();
        let (Peer { held, is_choked, .. }, output) = (&mut link.state, &mut link.socket.output);
        let Some(queue) = held.get_mut(&handle).and_then(|held| held.queue.as_mut()) else {
            return 0;
        };
        let HeldQueue { attachment, credit_messages, credit_bytes, .. } = queue;
        let max = usize::try_from(*credit_messages).map_or(TURN_MAX, |max| max.min(TURN_MAX));
        let bytes_max = (*credit_bytes).min(OUTPUT_TURN);
        let (mut count, mut bytes) = (0, 0);
        // One call reads one part of a file at most.
        while count < max && bytes < bytes_max {
            let (room, bytes_left) = (max - count, bytes_max - bytes);
            let hold = *attachment;
            let taken = self.broker.take_messages_within(hold, room, bytes_left, |delivery| {
                bytes += delivery.body.len() as u64;
                put_message_of(session_id, handle, &delivery, output);
            });
            // The broker's notice gives the reason for an end.
            match taken {
                Ok(taken @ 1..) => count += taken,
                Ok(0) | Err(_) => break,
            }
        }
        *credit_messages -= count as u64;
        *credit_bytes = credit_bytes.saturating_sub(bytes);
        *is_choked |= bytes >= OUTPUT_TURN;
        add(&self.figures.counters.delivered, count as u64);
        count
    }

    /// Sends publishers the acknowledgements of their messages.
    pub(super) fn acknowledge(&mut self, links: &mut Links) {
        let upto = self.broker.acknowledged();
        if upto == self.acknowledged {
            return;
        }
        self.acknowledged = upto;
        let level = level_of(self.durability);
        self.publishers.retain(|id| {
            let Some(link) = links.get_mut(*id) else { return false };
            let session_id = link.session_id();
            let (open, output) = (&mut link.state.publishing.open, &mut link.socket.output);
            let mut acked = None;
            while let Some((epoch, message_no, no)) = open.front().copied()
                && no <= upto
            {
                open.pop_front();
                if acked.is_some_and(|(before, _)| before != epoch) {
                    put_ack(session_id, acked, level, output);
                }
                acked = Some((epoch, message_no));
            }
            put_ack(session_id, acked, level, output);
            let has_more = !open.is_empty();
            links.touch(*id);
            has_more
        });
    }

    /// Notifies attached connections that their subscription has ended.
    pub(super) fn tell_ends(&mut self, links: &mut Links) {
        for notice in self.broker.take_notices() {
            let (Notice::Evicted { name, .. } | Notice::Expired { name }) = notice;
            let Some((id, handle)) = self.holders.remove(&name) else { continue };
            let Some(link) = links.get_mut(id) else { continue };
            let held = link.state.held.remove(&handle);
            self.unlist((id, handle), held.and_then(|held| held.queue).as_ref());
            let Some((reason, taken)) = reason_of_end(&self.broker, &name) else { continue };
            let session_id = link.session_id();
            let ended = SubscriptionEnded { correlation_id: 0, session_id, handle, reason };
            put_with_taken(&ended, &taken_marks(&taken), &mut link.socket.output);
            links.touch(id);
        }
    }

    /// Removes a handle from those that get the messages of a queue's topic.
    fn unlist(&mut self, at: HandleAt, queue: Option<&HeldQueue>) {
        self.hot.remove(&at);
        let Some(queue) = queue else { return };
        if let Some(held) = self.by_topic.get_mut(&queue.topic) {
            held.retain(|known| *known != at);
            if held.is_empty() {
                self.by_topic.remove(&queue.topic);
            }
        }
    }

    /// Ends the attachment of a handle.
    pub(super) fn let_go(&mut self, at: HandleAt, held: &HandleTarget, now: Nanos) {
        if let Some(queue) = &held.queue {
            self.holders.remove(&held.name);
            self.unlist(at, Some(queue));
            // A subscription that has ended meanwhile is detached already.
            let _ = self.broker.detach(queue.attachment, now);
        }
    }
}

/// Bytes of bodies that one subscription may get in one cycle.
const OUTPUT_TURN: u64 = 128 * 1024;

fn put_message_of(
    session_id: SessionId,
    handle: u32,
    delivery: &Delivery<'_>,
    output: &mut Vec<u8>,
) {
    let message = SubscribedMessage {
        message_no: delivery.no.0,
        record: delivery.mark.record,
        published_time: delivery.at,
        session_id,
        handle,
        source: delivery.mark.source.0,
        epoch: delivery.mark.epoch,
        flags: if delivery.is_again { MessageFlags::AGAIN } else { MessageFlags::default() },
    };
    put_with_data(&message, delivery.body, output);
}

fn put_ack(
    session_id: SessionId,
    acked: Option<(weir_types::Epoch, u64)>,
    level: AckLevel,
    output: &mut Vec<u8>,
) {
    if let Some((epoch, message_no)) = acked {
        put_frame(&PublishAck { message_no, session_id, epoch, level }, output);
    }
}
