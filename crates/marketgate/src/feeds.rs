//! The feeds that tools and gateways can name; a feed is selected at run time.

use weir_feed::cta::{Cta, Line};
use weir_feed::dbn::Dbn;
use weir_feed::iex::{Iex, Protocol};
use weir_feed::itch::Itch;
use weir_feed::moldudp64::Session;
use weir_feed::opra::Opra;
use weir_feed::weir::Weir;
use weir_feed::{Context, Feed, FeedError, Packet, Sink};
use weir_market::book::OrderIds;
use weir_types::Nanos;

/// One of the supported feeds.
#[derive(Clone, Debug)]
pub enum AnyFeed {
    /// CQS and CTS.
    Cta(Box<Cta>),
    /// Files of DBN.
    Dbn(Box<Dbn>),
    /// DEEP, DEEP+ and TOPS over IEX-TP.
    Iex(Box<Iex>),
    /// ITCH 5.0 over MoldUDP64.
    Itch(Box<Itch>),
    /// OPRA.
    Opra(Box<Opra>),
    /// Weir's own feed.
    Weir(Box<Weir>),
}

/// Dispatches a call to the feed's variant.
macro_rules! of_each {
    ($feed:expr, $inner:ident => $answer:expr) => {
        match $feed {
            AnyFeed::Cta($inner) => $answer,
            AnyFeed::Dbn($inner) => $answer,
            AnyFeed::Iex($inner) => $answer,
            AnyFeed::Itch($inner) => $answer,
            AnyFeed::Opra($inner) => $answer,
            AnyFeed::Weir($inner) => $answer,
        }
    };
}

impl AnyFeed {
    /// Returns true if the feed's packets are MoldUDP64's: sessions have names, messages are
    /// prefixed with their lengths, and day files hold them.
    #[must_use]
    pub fn is_mold(&self) -> bool {
        matches!(self, AnyFeed::Itch(_) | AnyFeed::Weir(_))
    }

    /// The scope in which the feed's order numbers are unique.
    #[must_use]
    pub fn order_ids(&self) -> OrderIds {
        match self {
            // DBN mixes many venues, each with its own numbering.
            AnyFeed::Dbn(_) => OrderIds::OfInstrument,
            _ => OrderIds::OfFeed,
        }
    }

    /// Starts the session `name`, whose first packet arrived at `ts_recv`; used by feeds whose
    /// session names contain the date.
    pub fn begin_session(&mut self, name: Session, ts_recv: Nanos) {
        if let AnyFeed::Weir(weir) = self {
            weir.begin_session(name, ts_recv);
        }
    }
}

impl Feed for AnyFeed {
    fn name(&self) -> &'static str {
        of_each!(self, feed => feed.name())
    }

    fn packet<'a>(&self, datagram: &'a [u8]) -> Result<Packet<'a>, FeedError> {
        of_each!(self, feed => Feed::packet(&**feed, datagram))
    }

    fn next_message<'a>(&self, messages: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), FeedError> {
        of_each!(self, feed => Feed::next_message(&**feed, messages))
    }

    fn look_ahead(&self, messages: &[u8]) {
        of_each!(self, feed => Feed::look_ahead(&**feed, messages))
    }

    fn decode(
        &mut self,
        context: &Context,
        message: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), FeedError> {
        of_each!(self, feed => feed.decode(context, message, sink))
    }
}

/// An entry of the table of feeds.
#[derive(Clone, Copy, Debug)]
pub struct FeedEntry {
    /// The feed's name, equal to [`Feed::name`].
    pub name: &'static str,
    /// The byte range (from, to) of the type in a message without its framing.
    pub kind_at: (usize, usize),
    /// Creates the feed in its state at the beginning of a day.
    pub feed: fn() -> AnyFeed,
}

/// The midnight from which times of day count if no day is configured.
const NO_DAY: Nanos = Nanos(0);

/// All feeds, ordered by name.
pub const FEEDS: &[FeedEntry] = &[
    entry("cqs", (0, 2), || AnyFeed::Cta(Box::new(Cta::new(Line::Quotes)))),
    entry("cts", (0, 2), || AnyFeed::Cta(Box::new(Cta::new(Line::Trades)))),
    entry("dbn", (1, 2), || AnyFeed::Dbn(Box::new(Dbn::new()))),
    entry("iex-deep", (0, 1), || iex(Protocol::Deep)),
    entry("iex-deep-plus", (0, 1), || iex(Protocol::DeepPlus)),
    entry("iex-tops", (0, 1), || iex(Protocol::Tops)),
    entry("itch", (0, 1), || AnyFeed::Itch(Box::new(Itch::new(NO_DAY)))),
    entry("opra", (1, 3), || AnyFeed::Opra(Box::new(Opra::new()))),
    entry("weir", (0, 1), || AnyFeed::Weir(Box::new(Weir::new()))),
];

const fn entry(name: &'static str, kind_at: (usize, usize), feed: fn() -> AnyFeed) -> FeedEntry {
    FeedEntry { name, kind_at, feed }
}

fn iex(protocol: Protocol) -> AnyFeed {
    AnyFeed::Iex(Box::new(Iex::new(protocol)))
}

/// Returns the feed of this name.
#[must_use]
pub fn feed_by_name(name: &str) -> Option<&'static FeedEntry> {
    FEEDS.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_is_found_by_the_name_that_it_says() {
        for entry in FEEDS {
            assert_eq!((entry.feed)().name(), entry.name);
            assert!(feed_by_name(entry.name).is_some());
        }
        assert!(feed_by_name("itch4").is_none());
    }
}
