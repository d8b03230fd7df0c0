//! The codec of Weir's own market: the messages of ITCH 5.0 over MoldUDP64, plus the information in
//! the names of Weir's sessions.
//!
//! A session's name holds the version of the rules that made its messages, the day and hour at
//! which it began, the epoch of the log and the partition. Hence times are absolute although no
//! message states the day, and a session with unknown rules is refused, never guessed. The page
//! `docs/protocols/market-itch.md` lists the messages of each exchange event.
//!
//! The codec holds no state between messages except the day.

use weir_types::Nanos;

use super::itch::Itch;
use super::moldudp64::{MoldSession, SESSION_LEN};
use super::{Context, Feed, FeedError, Packet, Profile, Transport, UpdateSink, itch, moldudp64};
use crate::instrument::Definition;
use crate::phase_reason::cause_of;
use crate::session_name::{MAPPING, SessionName};
use crate::update::{Action, Update};

/// The feed's profile: that of ITCH, with sessions that state their day.
pub const PROFILE: Profile = Profile {
    transport: Transport::MoldUdp64,
    is_of_a_node: true,
    book_kinds: itch::PROFILE.book_kinds,
    instrument_ids: itch::PROFILE.instrument_ids,
    silence_max: itch::PROFILE.silence_max,
    ..Profile::new("weir")
};

/// The codec of Weir's own feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weir {
    itch: Itch,
}

impl Default for Weir {
    fn default() -> Weir {
        Weir::new()
    }
}

impl Weir {
    /// Creates a codec before any session: times are relative to the session's beginning.
    #[must_use]
    pub fn new() -> Weir {
        Weir { itch: Itch::new(Nanos(0)) }
    }
}

impl Feed for Weir {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    /// Times become absolute, counted from the beginning of the session's day. With a name that is
    /// not Weir's they stay relative to the session's beginning.
    fn begin_session(&mut self, session: MoldSession, ts_recv: Nanos) {
        let name = SessionName::read(session);
        self.itch = Itch::new(name.map_or(Nanos(0), |name| name.midnight(ts_recv)));
    }

    fn packet<'a>(&self, datagram: &'a [u8]) -> Result<Packet<'a>, FeedError> {
        let packet = moldudp64::read_packet(datagram, 0)?;
        let name = datagram.first_chunk::<SESSION_LEN>().copied().map(MoldSession);
        match name.and_then(SessionName::read) {
            // Those of version 1 have the orders at the beginning of a session in another order;
            // before version 3 no reason tells a cause, before version 4 no name the partition.
            Some(name) if (1..=MAPPING).contains(&name.mapping) => Ok(packet),
            name => {
                let value = name.map_or(u64::MAX, |name| u64::from(name.mapping));
                Err(FeedError::Header { field: "the session's version of the rules", value })
            }
        }
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
        self.itch.decode(context, message, &mut WithCauses(sink))
    }
}

/// A sink that adds to changes of the trading state the causes that their reasons tell.
struct WithCauses<'a, S>(&'a mut S);

impl<S: UpdateSink> UpdateSink for WithCauses<'_, S> {
    fn define(&mut self, definition: &Definition) {
        self.0.define(definition);
    }

    #[inline]
    fn update(&mut self, mut update: Update) {
        if let Action::Status { reason, cause, .. } = &mut update.action {
            *cause = cause_of(*reason);
        }
        self.0.update(update);
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{Epoch, PartitionId, Phase, PhaseCause, TradingState};

    use super::*;
    use crate::CollectedUpdates;
    use crate::itch::encode::{Header, OrderDelete, StockTradingAction};
    use crate::moldudp64::PacketWriter;
    use crate::phase_reason::reason_of;
    use crate::session_name::{Calendar, session_name};

    const DAY: u64 = 86_400_000_000_000;

    fn packet_of(session: MoldSession) -> Vec<u8> {
        let mut writer = PacketWriter::new(session, 1, 1_400);
        writer.heartbeat().to_vec()
    }

    #[test]
    fn a_session_is_read_by_the_rules_that_its_name_says_or_not_at_all() {
        let ours = session_name(Calendar::new(PartitionId(1), 22), Nanos(20_000 * DAY), Epoch(3));
        let feed = Weir::new();
        assert_eq!(feed.packet(&packet_of(ours)).map(|packet| packet.sequence), Ok(1));
        for version in 1..=MAPPING {
            let mut older = ours;
            older.0[0] = b'0' + version;
            assert!(feed.packet(&packet_of(older)).is_ok(), "{version}");
        }
        let mut other = ours;
        other.0[0] += 1;
        for (session, value) in [
            (other, u64::from(MAPPING) + 1),
            (MoldSession(*b"NASDAQ    "), u64::MAX),
            (MoldSession(*b"1Z00000000"), u64::MAX),
        ] {
            let field = "the session's version of the rules";
            let refused = feed.packet(&packet_of(session)).map(|packet| packet.sequence);
            assert_eq!(refused, Err(FeedError::Header { field, value }), "{session:?}");
        }
    }

    #[test]
    fn times_are_moments_of_the_day_that_the_session_names() {
        let calendar = Calendar::new(PartitionId(1), 22);
        let midnight = calendar.midnight(Nanos(20_000 * DAY));
        let mut feed = Weir::new();
        let header = Header { timestamp: 7, ..Header::default() };
        let message = OrderDelete { order_reference: 1 }.to_bytes(&header);
        let context = Context { sequence: 1, channel: 0, ts_send: Nanos(0) };
        let mut at = |session, ts_recv| {
            feed.begin_session(session, Nanos(ts_recv));
            let mut told = CollectedUpdates::default();
            feed.decode(&context, &message, &mut told).expect("it is understood");
            told.updates[0].ts_event.0
        };
        let session = session_name(calendar, midnight, Epoch(3));
        // Received on the day itself, just before it by a slow clock, and days later.
        for ts_recv in [midnight.0 + 5, midnight.0 - 5, midnight.0 + 3 * DAY] {
            assert_eq!(at(session, ts_recv), midnight.0 + 7, "{ts_recv}");
        }
        assert_eq!(at(MoldSession(*b"NASDAQ    "), midnight.0), 7);
    }

    #[test]
    fn a_trading_action_of_a_node_tells_its_cause_and_one_of_nasdaq_none() {
        fn told(feed: &mut impl Feed, reason: [u8; 4]) -> Action {
            let (stock, trading_state) = (*b"WEIR    ", b'H');
            let action = StockTradingAction { stock, trading_state, reserved: b' ', reason };
            let context = Context { sequence: 1, channel: 0, ts_send: Nanos(0) };
            let mut told = CollectedUpdates::default();
            let message = action.to_bytes(&Header::default());
            feed.decode(&context, &message, &mut told).expect("it is understood");
            told.updates[0].action
        }
        let state = TradingState::Halted;
        for cause in [PhaseCause::Operator, PhaseCause::Schedule, PhaseCause::Unknown] {
            let reason = reason_of(Phase::Halted, cause);
            let of_node = told(&mut Weir::new(), reason);
            assert_eq!(of_node, Action::Status { state, reason, cause });
            let of_nasdaq = told(&mut Itch::new(Nanos(0)), reason);
            let cause = PhaseCause::Unknown;
            assert_eq!(of_nasdaq, Action::Status { state, reason, cause });
        }
    }
}
