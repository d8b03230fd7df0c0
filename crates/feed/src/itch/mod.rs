//! Nasdaq TotalView-ITCH 5.0 over MoldUDP64: the order-by-order feeds of Nasdaq, BX and PSX, and
//! the format in which Weir publishes its own market.
//!
//! The codec holds no state between messages: the books track the resting orders. Instrument
//! numbers are the feed's own (stock locate), valid for one day.
//!
//! * [`layout`]: each message as a view over its bytes.
//! * [`encode`]: each message as a record that serialises to bytes.
//!
//! The page `docs/protocols/itch.md` lists every field with its offset.

mod decode;
pub mod encode;
pub mod layout;

use weir_types::Nanos;

pub use self::decode::mwcb_levels;
pub use self::layout::Message;
use super::{
    Context, Feed, FeedError, InstrumentIds, Packet, Profile, Transport, UpdateSink, moldudp64,
};
use crate::profile::SILENCE_MAX;

/// The feed's profile.
pub const PROFILE: Profile = Profile {
    transport: Transport::MoldUdp64,
    is_over_soupbin: true,
    counts_from_midnight: true,
    book_kinds: b"AFECXDU",
    instrument_ids: InstrumentIds::OfChannel,
    silence_max: SILENCE_MAX,
    ..Profile::new("itch")
};

/// The codec of ITCH 5.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Itch {
    midnight: Nanos,
    channel: u32,
}

impl Itch {
    /// Creates a codec for the day that began at `midnight` by the venue's clock, since the Unix
    /// epoch. With zero, times are relative to midnight.
    #[must_use]
    pub fn new(midnight: Nanos) -> Itch {
        Itch { midnight, channel: 0 }
    }

    /// Returns the codec as one channel of several; its packets carry this channel number.
    #[must_use]
    pub fn on_channel(self, channel: u32) -> Itch {
        Itch { channel, ..self }
    }
}

impl Feed for Itch {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn begin_day(&mut self, midnight: Nanos) {
        *self = Itch { midnight, ..*self };
    }

    fn packet<'a>(&self, datagram: &'a [u8]) -> Result<Packet<'a>, FeedError> {
        moldudp64::read_packet(datagram, self.channel)
    }

    #[inline]
    fn next_message<'a>(&self, messages: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), FeedError> {
        moldudp64::next_message(messages)
    }

    #[inline]
    fn decode(
        &mut self,
        context: &Context,
        message: &[u8],
        sink: &mut impl UpdateSink,
    ) -> Result<(), FeedError> {
        decode::decode(self.midnight, context, Message::new(message)?, sink)
    }
}
