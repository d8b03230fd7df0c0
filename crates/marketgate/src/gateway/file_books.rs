//! The books at the end of a file, by the gateway's own pipeline without subscribers: the receiver
//! and the update stage on one thread.
//!
//! The update stage's notices are the only output that is kept: they name the instruments and tell
//! the state of each channel. Nothing is conflated, because nobody is interested.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weir_feed::line::{ChannelCounts, State};
use weir_feed::{Definition, FeedEntry, FeedError, SymbolText};
use weir_market::conflate::ConflatorConfig;
use weir_market::{Books, BooksConfig};
use weir_runtime::figures::total;
use weir_types::{InstrumentId, Nanos};

use super::figures::lost_by_all;
use super::flush_slot::{ChannelIndex, FlushContent, FlushSlot};
use super::ring::Slots;
use super::stages::UpdateProbe;
use super::update::{BATCH_MAX, UpdateParts, UpdateStage, WhenFull};
use crate::capture::{CaptureFile, FileProblem};
use crate::receiver::{CaptureCounts, Receiver};

/// Counters of a file's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileBooksCounts {
    /// Messages decoded.
    pub messages: u64,
    /// Updates decoded from them.
    pub updates: u64,
    /// Datagrams that are not of the feed.
    pub strangers: u64,
    /// Messages, and rests of packets, that were not decoded.
    pub refused: u64,
    /// Messages that were given up.
    pub lost: u64,
    /// Messages that came again.
    pub repeated: u64,
    /// Times that numbers began anew within a session.
    pub restarts: u64,
    /// Packets of a session that is over, or sent before a restart.
    pub old_packets: u64,
    /// Packets that contradict those before them.
    pub contradictions: u64,
}

/// The instruments and channels of a feed, from the update stage's notices.
#[derive(Debug, Default)]
struct Notices {
    definitions: BTreeMap<SymbolText, Definition>,
    channel_of: BTreeMap<InstrumentId, ChannelIndex>,
    states: BTreeMap<ChannelIndex, State>,
    slot: FlushSlot,
}

impl Slots<FlushSlot> for Notices {
    fn write(&mut self, write: impl FnOnce(&mut FlushSlot)) -> bool {
        write(&mut self.slot);
        let channel = self.slot.channel;
        match &self.slot.what {
            FlushContent::Define(definition) => {
                self.definitions.insert(definition.symbol, *definition);
                self.channel_of.insert(definition.instrument_id, channel);
            }
            FlushContent::Channel(_, state) => {
                self.states.insert(channel, *state);
            }
            FlushContent::Nothing
            | FlushContent::Entry(_)
            | FlushContent::NewSession
            | FlushContent::Wished(..) => {}
        }
        true
    }
}

/// A feed's books from a file.
pub struct FileBooks {
    receiver: Receiver,
    stage: UpdateStage<Notices>,
}

impl FileBooks {
    /// Opens the books of a file before its first message; each of `pairs` is a group and its line
    /// B, and every other group has a line of its own.
    ///
    /// # Errors
    /// [`FileProblem::Kind`]: the feed has no such files.
    pub fn open(
        entry: &'static FeedEntry,
        file: CaptureFile,
        pairs: &[(SocketAddr, SocketAddr)],
    ) -> Result<FileBooks, FileProblem> {
        let receiver = Receiver::of_file(entry, file, pairs)?;
        let order_ids = entry.profile.order_ids_over(receiver.has_several_channels());
        let stage = UpdateStage::new(UpdateParts {
            books: BooksConfig { order_ids, ..BooksConfig::default() },
            batch_max: BATCH_MAX,
            conflator: ConflatorConfig::default(),
            door: Notices::default(),
            wakes: Vec::new(),
            wishes: Vec::new(),
            when_full: WhenFull::Merge,
            post: None,
            probe: UpdateProbe::default(),
        });
        Ok(FileBooks { receiver, stage })
    }

    /// Reads the file to its end, or to the damage that ends the reading early; returns the reason
    /// the books are not those of the whole file, or of no file of the feed.
    pub fn read(&mut self) -> Option<&FileProblem> {
        while !self.receiver.is_over() {
            self.receiver.poll(Nanos(0), &mut self.stage);
            self.stage.turn(Nanos(0));
        }
        self.receiver.file_problem()
    }

    /// The books.
    #[must_use]
    pub fn books(&self) -> &Books {
        self.stage.books()
    }

    /// Returns true if messages of the instrument's channel are lost.
    #[must_use]
    pub fn is_stale(&self, id: InstrumentId) -> bool {
        let notices = self.stage.door();
        let state = notices.channel_of.get(&id).and_then(|channel| notices.states.get(channel));
        matches!(state, Some(State::Stale | State::Recovering))
    }

    /// The instrument of a symbol that the feed has defined.
    #[must_use]
    pub fn instrument(&self, symbol: &str) -> Option<InstrumentId> {
        let symbol = SymbolText::new(symbol.as_bytes())?;
        self.stage.door().definitions.get(&symbol).map(|definition| definition.instrument_id)
    }

    /// All instruments that the feed has defined, by symbol.
    pub fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.stage.door().definitions.values()
    }

    /// The counters.
    #[must_use]
    pub fn counts(&self) -> FileBooksCounts {
        let decoded = self.receiver.decode_counts();
        let sum = |of: fn(&ChannelCounts) -> u64| {
            total(self.receiver.channels().map(|channel| of(&channel.counts)))
        };
        FileBooksCounts {
            messages: decoded.messages,
            updates: decoded.updates,
            strangers: decoded.header + self.file_counts().elsewhere,
            refused: decoded.refused() - decoded.header,
            lost: lost_by_all(self.receiver.channels().map(|channel| channel.counts.lost)),
            repeated: sum(ChannelCounts::repeated),
            restarts: sum(|counts| counts.restarts),
            old_packets: sum(|counts| counts.old_session_packets),
            contradictions: sum(|counts| counts.contradictions),
        }
    }

    /// The items read from the file.
    #[must_use]
    pub fn file_counts(&self) -> CaptureCounts {
        self.receiver.capture_counts().unwrap_or_default()
    }

    /// The last decoding error.
    #[must_use]
    pub fn last_error(&self) -> Option<FeedError> {
        self.receiver.last_error()
    }
}

#[cfg(test)]
mod framings;
#[cfg(test)]
mod restarts;
#[cfg(test)]
mod tests;
