//! The feeds that tools can name, as far as their framing goes.

use weir_market::{Feed, FeedError, Packet};

/// How a feed's datagrams are taken apart: [`Feed`] without its codec, so that tools can choose a
/// feed when they run.
pub trait Framing {
    /// Reads a datagram's header.
    ///
    /// # Errors
    /// As [`Feed::packet`].
    fn packet<'a>(&self, datagram: &'a [u8]) -> Result<Packet<'a>, FeedError>;

    /// Takes the first message off `messages`.
    ///
    /// # Errors
    /// As [`Feed::next_message`].
    fn next_message<'a>(&self, messages: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), FeedError>;
}

impl<F: Feed> Framing for F {
    fn packet<'a>(&self, datagram: &'a [u8]) -> Result<Packet<'a>, FeedError> {
        Feed::packet(self, datagram)
    }

    fn next_message<'a>(&self, messages: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), FeedError> {
        Feed::next_message(self, messages)
    }
}

/// A feed that tools can name.
#[derive(Clone, Copy)]
pub struct FeedEntry {
    /// Its name, as [`Feed::name`] says it.
    pub name: &'static str,
    /// Bytes at the beginning of a message that say of which type it is.
    pub kind_len: usize,
    /// Its framing.
    pub framing: fn() -> Box<dyn Framing>,
}

/// All of them, by name.
pub const FEEDS: &[FeedEntry] = &[];

/// The feed of this name.
#[must_use]
pub fn feed_by_name(name: &str) -> Option<&'static FeedEntry> {
    FEEDS.iter().find(|entry| entry.name == name)
}
