//! A session's messages on their way out: numbered, kept, packed.
//!
//! Nothing is sent here: packets are handed to whoever has the socket. While the channel is not
//! live, messages are numbered and kept only: they were sent before, or can be asked for.

use super::PublishSink;
use super::store::Store;
use crate::feed::moldudp64::{PacketWriter, Pushed, Session};

/// How often the end of a session is said.
const END_REPEATS: usize = 3;

/// A session that can be asked for, and how packets of it are written.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) session: Session,
    pub(super) store: Store,
    pub(super) answers: PacketWriter,
}

/// See the module's documentation. Holds at most two sessions: the one that is open and the one
/// before it.
#[derive(Clone, Debug)]
pub struct Channel {
    messages_max: usize,
    len_max: usize,
    pub(super) open: Option<Kept>,
    pub(super) before: Option<Kept>,
    packets: PacketWriter,
    is_live: bool,
}

impl Channel {
    /// A channel that fills packets up to `len_max` bytes and keeps `messages_max` messages of each
    /// of two sessions. A `len_max` without room for the longest message counts as one that has.
    #[must_use]
    pub fn new(messages_max: usize, len_max: usize) -> Channel {
        let len_max = len_max.max(crate::feed::moldudp64::HEADER_LEN + 2 + super::MESSAGE_LEN_MAX);
        let packets = PacketWriter::new(Session([b' '; 10]), 1, len_max);
        Channel { messages_max, len_max, open: None, before: None, packets, is_live: false }
    }

    /// Sends from now on, beginning with the next message.
    pub fn go_live(&mut self) {
        self.is_live = true;
        self.packets.restart_at(self.next_sequence());
    }

    /// Whether it sends.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// The session that is open.
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        self.open.as_ref().map(|kept| kept.session)
    }

    /// The number that the next message gets, from 1.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.open.as_ref().map_or(1, |kept| kept.store.next_sequence())
    }

    /// The oldest message of the open session that is kept.
    #[must_use]
    pub fn oldest(&self) -> u64 {
        self.open.as_ref().map_or(1, |kept| kept.store.oldest())
    }

    /// Takes messages, and gives `send` each packet that is full.
    pub fn sink<F: FnMut(&[u8])>(&mut self, send: F) -> ChannelSink<'_, F> {
        ChannelSink { channel: self, send }
    }

    /// Gives the packet that is being filled to `send`, if it has messages.
    pub fn flush(&mut self, send: impl FnOnce(&[u8])) {
        self.packets.take(send);
    }

    /// A packet that says which number is next; `None` where nothing is said yet. What is being
    /// filled goes before it, by [`Channel::flush`].
    pub fn heartbeat(&mut self) -> Option<&[u8]> {
        let is_due = self.is_live && self.open.is_some() && self.packets.count() == 0;
        is_due.then(|| self.packets.heartbeat())
    }

    fn begin(&mut self, session: Session) {
        let mut next = match self.before.take() {
            Some(kept) if self.open.is_some() => kept,
            _ => Kept {
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

/// A channel with what sends its packets.
#[derive(Debug)]
pub struct ChannelSink<'a, F> {
    channel: &'a mut Channel,
    send: F,
}

impl<F: FnMut(&[u8])> PublishSink for ChannelSink<'_, F> {
    fn session(&mut self, session: Session) {
        // Of a session that breaks off all that was said goes out: others may hear it as well.
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
        if packets.push(message) == Pushed::Full {
            packets.take(&mut self.send);
            let again = packets.push(message);
            debug_assert_eq!(again, Pushed::Added, "an empty packet has room for any message");
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
