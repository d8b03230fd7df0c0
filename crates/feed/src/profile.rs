//! A feed's profile: the properties that its bytes do not show.
//!
//! Receivers, configurations and tools ask the profile and never the name, so that a new feed is
//! one file and one line of the [registry](crate::registry).

use weir_types::Nanos;

/// The properties of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The feed's name in configurations and tools: `itch`, `iex-deep`, `opra`.
    pub name: &'static str,
    /// The protocol around the messages.
    pub transport: Transport,
    /// True if a server also sends the feed over SoupBinTCP.
    pub is_over_soupbin: bool,
    /// True if times count from midnight by the venue's clock, so that a configuration names the
    /// day and the venue's offset from UTC.
    pub counts_from_midnight: bool,
    /// True for the market of a node: late receivers can request a session from its first message.
    pub is_of_a_node: bool,
    /// The byte range (from, to) of the type in a message without its framing.
    pub kind_at: (usize, usize),
    /// The first bytes of the types of messages without which a book is wrong; empty where each
    /// quote replaces the previous one.
    pub book_kinds: &'static [u8],
    /// The scope in which order numbers are unique.
    pub order_ids: OrderIds,
    /// The scope in which instrument numbers are unique, and a codec's state is of.
    pub instrument_ids: InstrumentIds,
    /// The time for which lines may be silent unless a configuration sets it; `None` for feeds
    /// without frequent heartbeats.
    pub silence_max: Option<Nanos>,
}

impl Profile {
    /// The profile of a feed with datagrams of its own and without special rules.
    #[must_use]
    pub const fn new(name: &'static str) -> Profile {
        Profile {
            name,
            transport: Transport::Datagrams,
            is_over_soupbin: false,
            counts_from_midnight: false,
            is_of_a_node: false,
            kind_at: (0, 1),
            book_kinds: b"",
            order_ids: OrderIds::OfFeed,
            instrument_ids: InstrumentIds::OfFeed,
            silence_max: None,
        }
    }

    /// Returns the scope in which order numbers are unique over one channel, or several.
    #[must_use]
    pub fn order_ids_over(&self, has_several_channels: bool) -> OrderIds {
        match self.instrument_ids {
            InstrumentIds::OfChannel if has_several_channels => OrderIds::OfInstrument,
            InstrumentIds::OfChannel | InstrumentIds::OfFeed => self.order_ids,
        }
    }

    /// Returns true if the feed's packets are MoldUDP64's.
    #[must_use]
    pub const fn is_mold(&self) -> bool {
        matches!(self.transport, Transport::MoldUdp64)
    }
}

/// The silence after which the lines of a feed with a heartbeat each second count as outdated.
pub(crate) const SILENCE_MAX: Option<Nanos> = Some(Nanos(5_000_000_000));

/// The protocol around a feed's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Datagrams of the feed's own form.
    Datagrams,
    /// MoldUDP64: sessions have names, messages stand behind their lengths, day files hold them,
    /// and servers answer requests for messages and for snapshots.
    MoldUdp64,
    /// Files of DBN; nothing comes over a network.
    DbnFiles,
}

/// The scope in which order numbers are unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrderIds {
    /// The whole feed, as in ITCH: later messages need not name the order's instrument.
    #[default]
    OfFeed,
    /// One instrument.
    OfInstrument,
}

/// The scope in which instrument numbers are unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InstrumentIds {
    /// The whole feed: one codec decodes all channels.
    #[default]
    OfFeed,
    /// One channel, as in ITCH, whose order numbers are a channel's own too. Each channel has a
    /// codec.
    OfChannel,
}
