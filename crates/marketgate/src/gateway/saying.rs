//! What updates changed, said to conflation: everything of the update stage but its books.
//!
//! Apart from the books, so that these can take a batch in while of each update is said what it
//! changed.

use weir_feed::line::State;
use weir_feed::{Action, TradeFlags, Update};
use weir_market::Books;
use weir_market::book::{BestBidOffer, Change, TradePrint};
use weir_market::conflate::{Bbo, Body, Conflator, Entry, Stamp, Status, Trade};
use weir_types::{InstrumentId, Nanos};

use crate::post::PostSender;
use crate::receiver::{ChannelKey, Origin};
use super::levels::PendingLevels;
use super::post::tell_update;
use super::stages::{Begun, UpdateProbe};
use super::told::ChannelIndex;

/// What is known of an instrument beside its book.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    pub is_known: bool,
    pub channel: ChannelIndex,
    pub last_change: Stamp,
    pub status: Option<Status>,
}

/// Where an update of a batch came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub channel: ChannelIndex,
    pub ts_recv: Nanos,
    pub ts_poll: Nanos,
    pub is_snapshot: bool,
}

/// See the file's head.
pub(super) struct Saying {
    /// By instrument.
    pub known: Vec<Known>,
    /// In the order in which they were first heard of.
    pub channels: Vec<(ChannelKey, State)>,
    /// The first stage.
    pub conflator: Conflator,
    /// What changed of books whose levels somebody wants.
    pub levels: PendingLevels,
    /// Where what bars and statistics are made of goes, where there are any.
    pub post: Option<PostSender>,
    /// Times messages.
    pub probe: UpdateProbe,
    /// One more than the highest instrument there may be.
    pub instruments_max: u32,
}

impl Saying {
    pub fn channel_index(&mut self, key: ChannelKey) -> ChannelIndex {
        let place = self.channels.iter().position(|(known, _)| *known == key);
        let index = place.unwrap_or_else(|| {
            self.channels.push((key, State::Waiting));
            self.channels.len() - 1
        });
        // A feed has at most a few hundred.
        ChannelIndex::try_from(index).unwrap_or(ChannelIndex::MAX)
    }

    /// What is to be remembered of where an update came from.
    pub fn source(&mut self, origin: &Origin) -> Source {
        let channel = self.channel_index(origin.channel);
        let Origin { ts_recv, ts_poll, is_snapshot, .. } = *origin;
        Source { channel, ts_recv, ts_poll, is_snapshot }
    }

    /// Asks for what will be looked at once the books have taken an instrument's update in.
    #[inline]
    pub fn prefetch(&self, id: InstrumentId) {
        if let Some(known) = self.known.get(id.0 as usize) {
            weir_memory::prefetch(known);
        }
        self.conflator.prefetch(id);
    }

    /// An instrument is of this channel; nothing when it is beyond what there may be.
    pub fn know(&mut self, id: InstrumentId, channel: ChannelIndex) -> Option<&mut Known> {
        if id == InstrumentId(0) || id.0 >= self.instruments_max {
            return None;
        }
        let index = id.0 as usize;
        if self.known.len() <= index {
            self.known.resize(index + 1, Known::default());
        }
        let known = &mut self.known[index];
        known.is_known = true;
        known.channel = channel;
        Some(known)
    }

    /// The instruments of a channel.
    pub fn of_channel(&self, channel: ChannelIndex) -> Vec<InstrumentId> {
        let known = (0..).map(InstrumentId).zip(&self.known);
        let of = known.filter(|(_, known)| known.is_known && known.channel == channel);
        of.map(|(id, _)| id).collect()
    }

    /// The books took an update in, which was timed from `begun` if it was.
    pub fn updated(
        &mut self,
        source: &Source,
        begun: Option<Begun>,
        (update, change): (&Update, &Change),
    ) {
        begun.into_iter().for_each(|begun| self.probe.begin(begun));
        self.probe.updated();
        if let Some(post) = &mut self.post {
            tell_update(post, (source, &self.known), update, change);
        }
        let stamp = Stamp::of(update, source.ts_recv);
        if let Some(known) = self.know(change.instrument_id, source.channel) {
            known.last_change = stamp;
            if let (Some(state), Action::Status { reason, .. }) = (change.status, update.action) {
                known.status = Some(Status { state, reason });
            }
            if !source.is_snapshot {
                self.say(source.ts_poll, stamp, (update, change));
            }
        }
        self.probe.end_of_update();
    }

    /// Says what an update changed, in the order in which it is to be told: a trade first, then how
    /// the book is after it.
    fn say(&mut self, now: Nanos, stamp: Stamp, (update, change): (&Update, &Change)) {
        let id = change.instrument_id;
        let Saying { conflator, levels, probe, .. } = self;
        let mut say = |body| {
            let entry = Entry::change(id, stamp, body);
            probe.offered(&entry, conflator.apply(now, &entry));
        };
        if let Some(trade) = trade_of(update, change) {
            say(Body::Trade(trade));
        }
        if let (Some(state), Action::Status { reason, .. }) = (change.status, update.action) {
            say(Body::Status(Status { state, reason }));
        }
        if is_of_order(&update.action) {
            say(Body::Order(Update { instrument_id: id, ..*update }));
        }
        if let Some(best) = &change.best {
            say(Body::Bbo(bbo_of(&best.new)));
        }
        if !change.levels().is_empty() {
            levels.note(id, change.levels());
            say(Body::Book);
        }
        if change.has_statistics {
            say(Body::Statistics);
        }
    }

    /// Says an instrument's book as it is now, as a change of its own.
    pub fn say_anew(&mut self, now: Nanos, books: &Books, id: InstrumentId, stamp: Stamp) {
        self.levels.mark_whole(id);
        let best = bbo_of(&books.best(id));
        for body in [Body::Bbo(best), Body::Book, Body::Statistics, Body::OrdersSnapshot] {
            let _ = self.conflator.apply(now, &Entry::change(id, stamp, body));
        }
    }
}

pub(super) fn bbo_of(best: &BestBidOffer) -> Bbo {
    let BestBidOffer { bid_px, bid_sz, ask_px, ask_sz, .. } = *best;
    Bbo { bid_px, bid_sz, ask_px, ask_sz }
}

/// The trade, or the break of one, that an update is.
fn trade_of(update: &Update, change: &Change) -> Option<Trade> {
    if let Some(print) = change.trade {
        let TradePrint { price, size, match_id, aggressor, venue, flags } = print;
        return Some(Trade { price, size, match_id, venue, aggressor, flags, is_break: false });
    }
    match update.action {
        Action::TradeBreak { match_id, size, price } => Some(Trade {
            price,
            size,
            match_id,
            venue: weir_feed::Venue(0),
            aggressor: None,
            flags: TradeFlags::default(),
            is_break: true,
        }),
        _ => None,
    }
}

fn is_of_order(action: &Action) -> bool {
    matches!(
        action,
        Action::Add { .. }
            | Action::Execute { .. }
            | Action::Reduce { .. }
            | Action::Delete { .. }
            | Action::Replace { .. }
            | Action::Modify { .. }
    )
}
