//! Recognition: whether datagrams are of a feed, and of which feed they are.
//!
//! A header alone shows little: MoldUDP64's has no mark, so that any twenty bytes are one. A
//! datagram is of a feed if its header is one and its messages fill it to the last byte. Nothing is
//! decoded, and no state is kept between datagrams but counts.

use crate::plant::{self, Plant};
use crate::{AnyFeed, FEEDS, Feed, FeedEntry, Transport};

/// Datagrams of which each feed is tried.
const SAMPLE_MAX: u64 = 1_000;

/// The extent to which a datagram is of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Its header is one of the feed, and its messages end where the datagram ends.
    Whole,
    /// Its header may be one of the feed; the rest is not what the header says.
    HeaderOnly,
    /// It is not of the feed.
    Stranger,
}

/// Returns how far a datagram is of `feed`.
pub fn fit_of(feed: &impl Feed, datagram: &[u8]) -> Fit {
    let Ok(packet) = feed.packet(datagram) else { return Fit::Stranger };
    if plant::is(Plant::HeaderIsEnough) {
        return Fit::Whole;
    }
    let mut rest = packet.messages;
    for _ in 0..packet.count {
        match feed.next_message(rest) {
            Ok((_, after)) => rest = after,
            Err(_) => return Fit::HeaderOnly,
        }
    }
    // A heartbeat of the aggregators holds a control message, which is not counted.
    let is_control = packet.count == 0 && feed.profile().transport == Transport::Datagrams;
    if rest.is_empty() || is_control { Fit::Whole } else { Fit::HeaderOnly }
}

/// Finds the feed that most of some datagrams are of.
#[derive(Clone, Debug)]
pub struct Recogniser {
    candidates: Vec<Candidate>,
    seen: u64,
}

#[derive(Clone, Debug)]
struct Candidate {
    feed: AnyFeed,
    whole: u64,
}

impl Default for Recogniser {
    fn default() -> Recogniser {
        Recogniser::new()
    }
}

impl Recogniser {
    /// Creates a recogniser of all feeds that come in datagrams.
    #[must_use]
    pub fn new() -> Recogniser {
        let is_of_datagrams = |entry: &&FeedEntry| entry.profile.transport != Transport::DbnFiles;
        let candidate = |entry: &FeedEntry| Candidate { feed: (entry.feed)(), whole: 0 };
        let candidates = FEEDS.iter().filter(is_of_datagrams).map(candidate).collect();
        Recogniser { candidates, seen: 0 }
    }

    /// Looks at a datagram; the first thousand are enough, and later ones are passed over.
    pub fn note(&mut self, datagram: &[u8]) {
        if self.seen == SAMPLE_MAX {
            return;
        }
        self.seen += 1;
        for candidate in &mut self.candidates {
            candidate.whole += u64::from(fit_of(&candidate.feed, datagram) == Fit::Whole);
        }
    }

    /// Returns the name of the feed that more than half of the datagrams are of; `None` if there is
    /// none. Weir's own feed is also one of ITCH, and goes by its own name.
    #[must_use]
    pub fn feed(&self) -> Option<&'static str> {
        let best = self
            .candidates
            .iter()
            .max_by_key(|candidate| (candidate.whole, candidate.feed.profile().is_of_a_node))?;
        (best.whole * 2 > self.seen).then(|| best.feed.profile().name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed_by_name;
    use crate::moldudp64::{MoldSession, PacketWriter, PushOutcome};
    use crate::session_name::{Calendar, session_name};
    use weir_types::{Epoch, Nanos, PartitionId};

    /// A datagram of DEEP with two messages of three bytes.
    fn deep() -> Vec<u8> {
        let mut bytes = vec![1, 0, 0x04, 0x80];
        bytes.extend_from_slice(&1_u32.to_le_bytes());
        bytes.extend_from_slice(&7_u32.to_le_bytes());
        bytes.extend_from_slice(&10_u16.to_le_bytes());
        bytes.extend_from_slice(&2_u16.to_le_bytes());
        for number in [0_u64, 1, 1_700_000_000_000_000_000] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for _ in 0..2 {
            bytes.extend_from_slice(&3_u16.to_le_bytes());
            bytes.extend_from_slice(b"8ab");
        }
        bytes
    }

    fn mold(session: MoldSession) -> Vec<u8> {
        let mut writer = PacketWriter::new(session, 1, 1_400);
        assert_eq!(writer.push(b"Sx"), PushOutcome::Added);
        writer.take(<[u8]>::to_vec).expect("it has a message")
    }

    fn seen(datagrams: &[Vec<u8>]) -> Option<&'static str> {
        let mut recogniser = Recogniser::new();
        datagrams.iter().for_each(|datagram| recogniser.note(datagram));
        recogniser.feed()
    }

    #[test]
    fn a_feed_is_known_by_datagrams_that_its_messages_fill() {
        let nasdaq = mold(MoldSession(*b"0000000001"));
        let own = mold(session_name(Calendar::new(PartitionId(1), 22), Nanos(1), Epoch(1)));
        let text = b"no feed has a header like this line of text".to_vec();
        for (datagrams, want) in [
            (vec![deep()], Some("iex-deep")),
            (vec![nasdaq.clone()], Some("itch")),
            (vec![own.clone()], Some("weir")),
            (vec![text.clone()], None),
            (vec![deep(), nasdaq.clone(), nasdaq.clone()], Some("itch")),
            (vec![deep(), nasdaq], None),
            (vec![], None),
        ] {
            assert_eq!(seen(&datagrams), want);
        }
    }

    #[test]
    fn a_header_of_any_bytes_is_not_enough() {
        let feed = |name: &str| (feed_by_name(name).expect("it is known").feed)();
        let mut cut = mold(MoldSession(*b"0000000001"));
        assert_eq!(fit_of(&feed("itch"), &cut), Fit::Whole);
        cut.push(0);
        for (name, datagram, want) in [
            ("itch", cut.as_slice(), Fit::HeaderOnly),
            ("itch", &deep(), Fit::HeaderOnly),
            ("itch", b"short", Fit::Stranger),
            ("iex-deep", &deep(), Fit::Whole),
            ("iex-tops", &deep(), Fit::Stranger),
        ] {
            assert_eq!(fit_of(&feed(name), datagram), want, "{name}");
        }
    }

    #[cfg(feature = "planted")]
    #[test]
    fn the_planted_bug_is_found() {
        let finds = |test: fn()| {
            plant::set(Some(Plant::HeaderIsEnough));
            let is_found = std::panic::catch_unwind(test).is_err();
            plant::set(None);
            is_found
        };
        assert!(finds(a_header_of_any_bytes_is_not_enough));
        assert!(finds(a_feed_is_known_by_datagrams_that_its_messages_fill));
    }
}
