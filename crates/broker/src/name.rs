//! Names and numbers of topics, messages and subscriptions.
//!
//! A mark identifies a message at its source, a number identifies it in the broker. Numbers are
//! never reused, also across runs; the marks of a source in a topic only rise.

use core::fmt;

use weir_types::{Epoch, Position};

/// The kind of a topic's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TopicKind {
    /// Executions; the key is a firm.
    Executions = 1,
    /// Trades; the key is an instrument, zero for all of them.
    Trades = 2,
    /// Messages that are addressed to a participant; the key is its session.
    Messages = 3,
}

impl TopicKind {
    /// Every kind, in the order of the codes.
    pub const ALL: [TopicKind; 3] = [TopicKind::Executions, TopicKind::Trades, TopicKind::Messages];

    /// Returns the kind of a code; `None` for an unknown code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<TopicKind> {
        TopicKind::ALL.into_iter().find(|kind| *kind as u8 == code)
    }
}

/// A stream of messages; each of its subscriptions gets all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic {
    /// The kind of its messages.
    pub kind: TopicKind,
    /// Its key: by the kind, a firm, an instrument or a session.
    pub key: u32,
}

/// The number of a message, from 1: rising over all topics and all runs of a broker, not dense.
///
/// The run's number is in the upper 24 bits, so that no run reuses a number of another one, however
/// that one ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageNo(pub u64);

impl MessageNo {
    /// The number before all messages.
    pub const NONE: MessageNo = MessageNo(0);
    /// The bits that number the messages of one run.
    const BITS: u32 = 40;

    /// Returns the number before the first one of a run.
    ///
    /// # Panics
    /// If there were more than 16 million runs.
    #[must_use]
    pub(crate) fn before_run(run: u32) -> MessageNo {
        assert!(run < 1 << (64 - MessageNo::BITS), "a broker starts at most 16 million times");
        MessageNo(u64::from(run) << MessageNo::BITS)
    }
}

/// The origin of messages: a number that a topic's producers assign among themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(pub u32);

/// The mark that a message has from its origin: it distinguishes repeated messages from new ones at
/// both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OriginMark {
    /// The source.
    pub source: Source,
    /// The source's epoch.
    pub epoch: Epoch,
    /// The record of the source's history, rising within an epoch and a topic.
    pub record: Position,
}

impl OriginMark {
    /// True when a message of this mark comes after one of the other, of the same source.
    #[must_use]
    pub fn follows(&self, other: &OriginMark) -> bool {
        (self.epoch, self.record) > (other.epoch, other.record)
    }
}

/// The newest mark of each source, sorted by source: the messages that a client has seen or taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginMarks(Vec<OriginMark>);

impl OriginMarks {
    /// Records a mark; false if it or a later one of its source was recorded before.
    pub fn advance(&mut self, mark: OriginMark) -> bool {
        match self.0.binary_search_by_key(&mark.source, |known| known.source) {
            Ok(at) if mark.follows(&self.0[at]) => {
                self.0[at] = mark;
                true
            }
            Ok(_) => false,
            Err(at) => {
                self.0.insert(at, mark);
                true
            }
        }
    }

    /// Records a mark in the place of that of its source, which may be a later one.
    pub fn set(&mut self, mark: OriginMark) {
        match self.0.binary_search_by_key(&mark.source, |known| known.source) {
            Ok(at) => self.0[at] = mark,
            Err(at) => self.0.insert(at, mark),
        }
    }

    /// Returns the newest mark of a source.
    #[must_use]
    pub fn of(&self, source: Source) -> Option<OriginMark> {
        let at = self.0.binary_search_by_key(&source, |known| known.source).ok()?;
        Some(self.0[at])
    }

    /// Removes and returns the marks of these sources.
    pub(crate) fn take_if(&mut self, is_taken: impl Fn(Source) -> bool) -> Vec<OriginMark> {
        let (taken, kept) = self.0.iter().copied().partition(|mark| is_taken(mark.source));
        self.0 = kept;
        taken
    }

    /// Keeps the older mark of each source, and none of a source that one of the two lacks.
    pub(crate) fn keep_common(&mut self, other: &OriginMarks) {
        self.0.retain_mut(|mark| {
            let Some(theirs) = other.of(mark.source) else { return false };
            if mark.follows(&theirs) {
                *mark = theirs;
            }
            true
        });
    }

    /// Returns all marks, sorted by source.
    #[must_use]
    pub fn as_slice(&self) -> &[OriginMark] {
        &self.0
    }
}

/// The longest name of a subscription in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// A subscription's name: 1 to 64 printable ASCII characters without a space.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

impl Name {
    /// Returns the name written as `text`; `None` if it is not a valid name.
    #[must_use]
    pub fn new(text: &str) -> Option<Name> {
        let is_name = (1..=NAME_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
        is_name.then(|| Name(text.into()))
    }

    /// Returns the name's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(source: u32, epoch: u32, record: u64) -> OriginMark {
        OriginMark { source: Source(source), epoch: Epoch(epoch), record: Position(record) }
    }

    #[test]
    fn a_mark_is_new_once_by_source_epoch_and_record() {
        let mut seen = OriginMarks::default();
        assert!(seen.advance(mark(2, 1, 5)));
        assert!(seen.advance(mark(1, 1, 9)));
        assert!(!seen.advance(mark(2, 1, 5)));
        assert!(!seen.advance(mark(2, 1, 4)));
        assert!(seen.advance(mark(2, 2, 1)), "a later epoch begins its records anew");
        assert!(!seen.advance(mark(2, 1, 6)), "an epoch that is over says nothing new");
        assert_eq!(seen.as_slice(), [mark(1, 1, 9), mark(2, 2, 1)]);
    }

    #[test]
    fn names_are_short_printable_text() {
        let long = "x".repeat(NAME_BYTES_MAX);
        for (text, is_name) in
            [("desk-11/fills", true), ("", false), ("a b", false), ("é", false), (&*long, true)]
        {
            assert_eq!(Name::new(text).is_some(), is_name, "{text:?}");
        }
        assert_eq!(Name::new(&(long + "x")), None);
    }
}
