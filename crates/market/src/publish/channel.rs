//! The outgoing channel of a session: numbers, stores and packs messages.
//!
//! It sends nothing: packets are passed to the owner of the socket. While the channel is not live,
//! messages are only numbered and stored: they were sent earlier, or can be requested.

use weir_feed::moldudp64::{MoldSession, PacketWriter, PushOutcome};

use super::PublishSink;
use super::store::Store;

/// The number of times that the end of a session is sent.
const END_REPEATS: usize = 3;

/// A session whose messages can be requested, and the writer of the answers.
#[derive(Clone, Debug)]
pub(super) struct KeptSession {
    pub(super) session: MoldSession,
    pub(super) store: Store,
    pub(super) answers: PacketWriter,
}

/// A channel with at most two sessions: the open one and the previous one.
#[derive(Clone, Debug)]
pub struct Channel {
    messages_max: usize,
    len_max: usize,
    pub(super) open: Option<KeptSession>,
    pub(super) before: Option<KeptSession>,
    packets: PacketWriter,
    is_live: bool,
}

impl Channel {
    /// Creates a channel that fills packets up to `len_max` bytes and stores `messages_max`
    /// messages of each of two sessions. `len_max` is raised to fit the longest message.
    #[must_use]
    pub fn new(messages_max: usize, len_max: usize) -> Channel {
        let len_max = len_max.max(weir_feed::moldudp64::HEADER_LEN + 2 + super::MESSAGE_LEN_MAX);
        let packets = PacketWriter::new(MoldSession([b' '; 10]), 1, len_max);
        Channel { messages_max, len_max, open: None, before: None, packets, is_live: false }
    }

    /// Goes on with a session whose messages before `next_sequence` were sent earlier; they are not
    /// stored, and a request for them is refused as one for messages that are gone.
    pub fn continue_at(&mut self, session: MoldSession, next_sequence: u64) {
        self.begin(session);
        if let Some(kept) = &mut self.open {
            kept.store.clear_before(next_sequence);
        }
    }

    /// Starts sending, beginning with the next message.
    pub fn go_live(&mut self) {
        self.is_live = true;
        self.packets.restart_at(self.next_sequence());
    }

    /// Returns true when the channel sends.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Returns the open session.
    #[must_use]
    pub fn session(&self) -> Option<MoldSession> {
        self.open.as_ref().map(|kept| kept.session)
    }

    /// Returns the sequence number of the next message, from 1.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.open.as_ref().map_or(1, |kept| kept.store.next_sequence())
    }

    /// Returns the number of the oldest stored message of the open session.
    #[must_use]
    pub fn oldest(&self) -> u64 {
        self.open.as_ref().map_or(1, |kept| kept.store.oldest())
    }

    /// Returns a sink for messages, which passes each full packet to `send`.
    pub fn sink<F: FnMut(&[u8])>(&mut self, send: F) -> ChannelSink<'_, F> {
        ChannelSink { channel: self, send }
    }

    /// Passes the partly filled packet to `send`, if it has messages.
    pub fn flush(&mut self, send: impl FnOnce(&[u8])) {
        self.packets.take(send);
    }

    /// Returns a heartbeat, which gives the next sequence number; `None` before the channel is
    /// live, without an open session, and while a packet is partly filled: [`Channel::flush`] sends
    /// that first.
    pub fn heartbeat(&mut self) -> Option<&[u8]> {
        let is_due = self.is_live && self.open.is_some() && self.packets.count() == 0;
        is_due.then(|| self.packets.heartbeat())
    }

    fn begin(&mut self, session: MoldSession) {
        let mut next = match self.before.take() {
            Some(kept) if self.open.is_some() => kept,
            _ => KeptSession {
                session,
                store: Store::new(self.messages_max),
                answers: PacketWriter::new(session, 1, self.len_max),
            },
        };
        next.store.clear();
        next.session = session;
        next.answers = PacketWriter::new(session, 1, self.len_max);
        self.before = self.open.replace(next);
        self.packets = PacketWriter::new(session, 1, self.len_max);
    }
}

/// A channel together with the sender of its packets.
#[derive(Debug)]
pub struct ChannelSink<'a, F> {
    channel: &'a mut Channel,
    send: F,
}

impl<F: FnMut(&[u8])> PublishSink for ChannelSink<'_, F> {
    fn session(&mut self, session: MoldSession) {
        // Sends all messages of a session that breaks off, because other readers may have received
        // them.
        self.channel.packets.take(&mut self.send);
        self.channel.begin(session);
    }

    fn message(&mut self, message: &[u8]) {
        let Channel { open, packets, is_live, .. } = &mut *self.channel;
        let Some(kept) = open else { return };
        kept.store.push(message);
        if !*is_live {
            return;
        }
        if packets.push(message) == PushOutcome::Full {
            packets.take(&mut self.send);
            let again = packets.push(message);
            debug_assert_eq!(again, PushOutcome::Added, "an empty packet has room for any message");
        }
    }

    fn end(&mut self) {
        let Channel { packets, is_live, .. } = &mut *self.channel;
        packets.take(&mut self.send);
        if *is_live {
            for _ in 0..END_REPEATS {
                (self.send)(packets.end_of_session());
            }
        }
    }
}
