//! The common parts of the aggregators OPRA and CTA: blocks with a checksum, and quotes that state
//! their effect on the best bid and offer over all venues.
//!
//! Such a quote rarely repeats the whole best bid and offer, so [`BestQuotes`] remembers it, within
//! a run of numbers: after a restart nothing of before it is known.

use weir_types::{InstrumentId, Price, Qty};

use super::FeedError;
use crate::plant::{self, Plant};
use crate::update::{Action, Venue};

/// Returns the sum of a block's bytes modulo 2^16, except those of the checksum itself at `place`.
fn checksum(block: &[u8], place: usize) -> u16 {
    let sum =
        |bytes: &[u8]| bytes.iter().fold(0_u16, |sum, byte| sum.wrapping_add(u16::from(*byte)));
    sum(&block[..place]).wrapping_add(sum(&block[place + 2..]))
}

/// Returns the bytes after the header of a block, after checking its size and checksum.
pub(super) fn block_of(
    datagram: &[u8],
    header_len: usize,
    block_size: u16,
    block_checksum: u16,
) -> Result<&[u8], FeedError> {
    let size = usize::from(block_size);
    if size < header_len || size > datagram.len() {
        return Err(FeedError::Header { field: "block size", value: u64::from(block_size) });
    }
    if size < datagram.len() {
        return Err(FeedError::Trailing { len: datagram.len() - size });
    }
    if checksum(datagram, header_len - 2) != block_checksum {
        return Err(FeedError::Header {
            field: "block checksum",
            value: u64::from(block_checksum),
        });
    }
    Ok(&datagram[header_len..])
}

/// Returns seconds and nanoseconds since the Unix epoch as one number.
pub(super) fn nanos(seconds: u32, nanoseconds: u32) -> u64 {
    // Less than 2^32 * 10^9 + 2^32: it fits.
    u64::from(seconds) * 1_000_000_000 + u64::from(nanoseconds)
}

/// Drops the pad byte: a block is padded to an even length, so a single byte left is padding.
pub(super) fn without_pad(rest: &[u8]) -> &[u8] {
    if rest.len() == 1 { &[] } else { rest }
}

/// One side of a quote; size zero when it is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Best {
    pub(super) venue: Venue,
    pub(super) price: Price,
    pub(super) size: Qty,
}

/// The effect of a quote on one side of the best bid and offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The side does not change.
    Same,
    /// The quote is the new best.
    Quote,
    /// Another venue's quote is the best; an appendage states it.
    Appended(Best),
    /// The side has no best.
    Gone,
}

/// The best bids and offers stated by a feed, by instrument number.
#[derive(Clone, Debug, Default)]
pub(super) struct BestQuotes {
    stated: Vec<Stated>,
    /// The run of numbers of the messages that come next.
    run: u64,
}

/// The best bid and offer of an instrument, and the run that stated them.
#[derive(Clone, Copy, Debug, Default)]
struct Stated {
    run: u64,
    sides: [Best; 2],
}

impl BestQuotes {
    /// Notes the run of the quotes that come next.
    pub(super) fn of_run(&mut self, run: u64) {
        self.run = run;
    }

    /// Applies a quote's changes of bid and offer; returns the new best if there is a change.
    pub(super) fn apply(
        &mut self,
        instrument_id: InstrumentId,
        quote: [Best; 2],
        changes: [Change; 2],
    ) -> Option<Action> {
        if changes == [Change::Same; 2] {
            return None;
        }
        let index = instrument_id.0 as usize;
        if index >= self.stated.len() {
            self.stated.resize(index + 1, Stated::default());
        }
        let stated = &mut self.stated[index];
        if stated.run != self.run && !plant::is(Plant::BestOutlivesRun) {
            *stated = Stated { run: self.run, ..Stated::default() };
        }
        for (side, (change, quoted)) in stated.sides.iter_mut().zip(changes.into_iter().zip(quote))
        {
            match change {
                Change::Same => {}
                Change::Quote => *side = quoted,
                Change::Appended(best) => *side = best,
                Change::Gone => *side = Best::default(),
            }
        }
        let [bid, ask] = stated.sides;
        Some(Action::Consolidated {
            bid_venue: bid.venue,
            ask_venue: ask.venue,
            bid_px: bid.price,
            bid_sz: bid.size,
            ask_px: ask.price,
            ask_sz: ask.size,
        })
    }
}

/// Returns the update of a venue's two-sided quote.
pub(super) fn quote_of(venue: Venue, bid: Best, ask: Best) -> Action {
    Action::Quote {
        venue,
        bid_px: bid.price,
        bid_sz: bid.size,
        ask_px: ask.price,
        ask_sz: ask.size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: InstrumentId = InstrumentId(3);

    fn best(price: i64) -> Best {
        Best { venue: Venue(b'N'), price: Price(price), size: Qty(5) }
    }

    fn consolidated(bid: Best, ask: Best) -> Option<Action> {
        Some(Action::Consolidated {
            bid_venue: bid.venue,
            ask_venue: ask.venue,
            bid_px: bid.price,
            bid_sz: bid.size,
            ask_px: ask.price,
            ask_sz: ask.size,
        })
    }

    #[test]
    fn the_best_of_before_a_restart_is_not_known_behind_it() {
        let mut bests = BestQuotes::default();
        let none = Best::default();
        let both = [Change::Quote; 2];
        let ask_alone = [Change::Same, Change::Quote];
        bests.of_run(1);
        let (bid, ask) = (best(10), best(12));
        assert_eq!(bests.apply(HERE, [bid, ask], both), consolidated(bid, ask));
        let lower = best(11);
        assert_eq!(bests.apply(HERE, [none, lower], ask_alone), consolidated(bid, lower));
        bests.of_run(2);
        assert_eq!(bests.apply(HERE, [none, ask], ask_alone), consolidated(none, ask));
        assert_eq!(bests.apply(HERE, [bid, ask], both), consolidated(bid, ask));
    }

    #[cfg(feature = "planted")]
    #[test]
    fn the_planted_bug_of_a_best_that_outlives_its_run_is_found() {
        plant::set(Some(Plant::BestOutlivesRun));
        let test = the_best_of_before_a_restart_is_not_known_behind_it;
        let is_found = std::panic::catch_unwind(test).is_err();
        plant::set(None);
        assert!(is_found);
    }
}
