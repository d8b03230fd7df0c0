//! The books of a feed: datagrams through lines and codec into [`Books`], fused in one thread.
//!
//! Where a datagram went says whose it is: each group or address has channels of its own, unless it
//! was named as line B of another one. A hole that is given up makes every book STALE: nobody knows
//! whose messages are missing. What the codec does not understand is counted and passed over.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weir_feed::capture::Datagram;
use weir_feed::line::{Event, Handler, Line, LineConfig, Lines, Run};
use weir_feed::moldudp64::{SESSION_LEN, Session};
use weir_feed::{Context, Definition, Feed, FeedError, Sink, SymbolText, Update};
use weir_market::{Books, BooksConfig};
use weir_marketgate::capture::{CaptureFile, FileError, Item};
use weir_marketgate::feeds::AnyFeed;
use weir_types::{InstrumentId, Nanos};

/// Channels of one group.
const CHANNELS_MAX: usize = 1_024;

/// Counts of processed and refused messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuilderCounts {
    /// Messages decoded.
    pub messages: u64,
    /// Updates that they came to.
    pub updates: u64,
    /// Datagrams that are not of the feed.
    pub strangers: u64,
    /// Messages that were not understood.
    pub refused: u64,
    /// Messages that were given up.
    pub lost: u64,
}

/// The feed's instruments and their books.
pub struct Market {
    books: Books,
    definitions: BTreeMap<SymbolText, Definition>,
    counts: BuilderCounts,
    last_error: Option<FeedError>,
}

impl Sink for Market {
    fn define(&mut self, definition: &Definition) {
        // Books beyond their limit count that themselves.
        let _is_known = self.books.define(definition.instrument_id);
        self.definitions.insert(definition.symbol, *definition);
    }

    fn update(&mut self, update: Update) {
        self.counts.updates += 1;
        let _change = self.books.apply(&update);
    }
}

impl Market {
    fn decode(&mut self, feed: &mut AnyFeed, context: &Context, message: &[u8]) {
        self.counts.messages += 1;
        if let Err(error) = feed.decode(context, message, self) {
            self.counts.refused += 1;
            self.last_error = Some(error);
        }
    }
}

/// The feed with its market, as channels hand messages on to them.
struct Taking<'a> {
    feed: &'a mut AnyFeed,
    market: &'a mut Market,
    /// The name of the packet's session, where the feed has names, and when it came.
    coming: (Option<Session>, Nanos),
}

impl Handler for Taking<'_> {
    fn deliver(&mut self, run: &Run<'_>) {
        let mut rest = run.messages;
        let end = u64::from(run.skip) + u64::from(run.count);
        for index in 0..end {
            let message = match self.feed.next_message(rest) {
                Ok((message, after)) => {
                    rest = after;
                    message
                }
                Err(error) => {
                    // The packet's other messages cannot be found any more.
                    self.market.counts.refused += end - index;
                    self.market.last_error = Some(error);
                    self.market.books.mark_stale();
                    return;
                }
            };
            let Some(nth) = index.checked_sub(u64::from(run.skip)) else { continue };
            let sequence = run.sequence + nth;
            let context = Context { sequence, channel: run.channel, ts_send: run.ts_send };
            self.market.decode(self.feed, &context, message);
        }
    }

    fn event(&mut self, _channel: u32, event: &Event) {
        match event {
            Event::Stale { from, to, .. } => {
                self.market.counts.lost += to - from;
                self.market.books.mark_stale();
            }
            Event::Session { .. } => {
                if let (Some(name), ts_recv) = self.coming {
                    self.feed.begin_session(name, ts_recv);
                }
            }
            _ => {}
        }
    }
}

/// Datagrams in, books out.
pub struct Builder {
    feed: AnyFeed,
    market: Market,
    lines: BTreeMap<SocketAddr, Lines>,
    /// The group of each line B.
    other_lines: BTreeMap<SocketAddr, SocketAddr>,
    config: LineConfig,
    /// Messages of a day file, which have no numbers of their own.
    file_messages: u64,
}

impl Builder {
    /// Empty books of a feed; each of `pairs` is a group and its line B.
    #[must_use]
    pub fn new(feed: AnyFeed, pairs: &[(SocketAddr, SocketAddr)]) -> Builder {
        let market = Market {
            books: Books::new(&BooksConfig {
                order_ids: feed.order_ids(),
                ..BooksConfig::default()
            }),
            definitions: BTreeMap::new(),
            counts: BuilderCounts::default(),
            last_error: None,
        };
        Builder {
            feed,
            market,
            lines: BTreeMap::new(),
            other_lines: pairs.iter().map(|(a, b)| (*b, *a)).collect(),
            config: LineConfig::default(),
            file_messages: 0,
        }
    }

    /// Takes a datagram, at its own time.
    pub fn datagram(&mut self, datagram: &Datagram<'_>) {
        let (group, line) = match self.other_lines.get(&datagram.dst) {
            Some(first) => (*first, Line::B),
            None => (datagram.dst, Line::A),
        };
        let Ok(packet) = self.feed.packet(datagram.payload) else {
            self.market.counts.strangers += 1;
            return;
        };
        let lines =
            self.lines.entry(group).or_insert_with(|| Lines::new(self.config, CHANNELS_MAX));
        let is_mold = self.feed.is_mold();
        let name = datagram.payload.first_chunk::<SESSION_LEN>().filter(|_| is_mold);
        let coming = (name.copied().map(Session), datagram.ts_recv);
        let mut taking = Taking { feed: &mut self.feed, market: &mut self.market, coming };
        if lines.packet(line, &packet, datagram.ts_recv, &mut taking).is_err() {
            self.market.counts.strangers += 1;
        }
    }

    /// Takes a message of a day file.
    pub fn message(&mut self, message: &[u8]) {
        self.file_messages += 1;
        let context = Context { sequence: self.file_messages, channel: 0, ts_send: Nanos(0) };
        self.market.decode(&mut self.feed, &context, message);
    }

    /// Reads a file to its end, or to where it cannot be read: why there is no more.
    pub fn read(&mut self, file: &mut CaptureFile) -> Option<FileError> {
        loop {
            let more = file.next(&mut |item| match item {
                Item::Datagram(datagram) => self.datagram(datagram),
                Item::Message { message, .. } | Item::Name { message, .. } => {
                    self.message(message);
                }
                Item::Other(_) => {}
            });
            match more {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(error),
            }
        }
    }

    /// The books.
    #[must_use]
    pub fn books(&self) -> &Books {
        &self.market.books
    }

    /// The instrument of a symbol that the feed has named.
    #[must_use]
    pub fn instrument(&self, symbol: &str) -> Option<InstrumentId> {
        let symbol = SymbolText::new(symbol.as_bytes())?;
        self.market.definitions.get(&symbol).map(|definition| definition.instrument_id)
    }

    /// All instruments that the feed has named, by symbol.
    pub fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.market.definitions.values()
    }

    /// Counts of processed and refused messages.
    #[must_use]
    pub fn counts(&self) -> &BuilderCounts {
        &self.market.counts
    }

    /// The last thing that was not understood.
    #[must_use]
    pub fn last_error(&self) -> Option<FeedError> {
        self.market.last_error
    }
}

#[cfg(test)]
mod tests;
