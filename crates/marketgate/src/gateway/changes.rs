//! The update stage without its books: passes the changes of updates to conflation.
//!
//! Separate from the books, so that it can process each change while the books apply a batch.

use weir_feed::line::State;
use weir_feed::{Action, TradeFlags, Update};
use weir_market::Books;
use weir_market::book::{BestBidOffer, Change, TradePrint};
use weir_market::conflate::{Bbo, Body, Conflator, Entry, Stamp, Status, Trade};
use weir_types::{InstrumentId, Nanos};

use super::batch::UpdateOrigin;
use super::flush_slot::ChannelIndex;
use super::instrument_state::InstrumentState;
use super::levels::PendingLevels;
use super::post::tell_update;
use super::stages::{TimedMessage, UpdateProbe};
use crate::post::PostSender;
use crate::receiver::{ChannelKey, Origin};

/// Passes changes of books to conflation, and events to post-processing.
pub(super) struct ChangeReporter {
    /// The state by instrument.
    pub known: Vec<InstrumentState>,
    /// The channels, in order of first appearance.
    pub channels: Vec<(ChannelKey, State)>,
    /// The first stage of conflation.
    pub conflator: Conflator,
    /// The changed levels of books with interest in levels.
    pub levels: PendingLevels,
    /// The ring of events for bars and statistics, if configured.
    pub post: Option<PostSender>,
    /// The probe that times messages.
    pub probe: UpdateProbe,
    /// One more than the highest instrument number allowed.
    pub instruments_max: u32,
    /// The time of the newest update's poll: the time of changes that no update brings.
    pub polled: Nanos,
}

impl ChangeReporter {
    pub fn channel_index(&mut self, key: ChannelKey) -> ChannelIndex {
        let place = self.channels.iter().position(|(known, _)| *known == key);
        let index = place.unwrap_or_else(|| {
            self.channels.push((key, State::Waiting));
            self.channels.len() - 1
        });
        // A feed has at most a few hundred channels.
        ChannelIndex::try_from(index).unwrap_or(ChannelIndex::MAX)
    }

    /// Returns the source to store with an update.
    pub fn source(&mut self, origin: &Origin) -> UpdateOrigin {
        let channel = self.channel_index(origin.channel);
        let Origin { ts_recv, ts_poll, is_snapshot, .. } = *origin;
        UpdateOrigin { channel, ts_recv, ts_poll, is_snapshot }
    }

    /// Prefetches the data that is needed once the books have applied an instrument's update.
    #[inline]
    pub fn prefetch(&self, id: InstrumentId) {
        if let Some(known) = self.known.get(id.0 as usize) {
            weir_memory::prefetch(known);
        }
        self.conflator.prefetch(id);
    }

    /// Assigns an instrument to a channel; `None` if its number is out of range.
    pub fn know(
        &mut self,
        id: InstrumentId,
        channel: ChannelIndex,
    ) -> Option<&mut InstrumentState> {
        if id == InstrumentId(0) || id.0 >= self.instruments_max {
            return None;
        }
        let index = id.0 as usize;
        if self.known.len() <= index {
            self.known.resize(index + 1, InstrumentState::default());
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

    /// Processes an update that the books have applied; `begun` is the start of its timing, if it
    /// is timed.
    pub fn updated(
        &mut self,
        source: &UpdateOrigin,
        begun: Option<TimedMessage>,
        update: &Update,
        change: &Change,
    ) {
        self.polled = self.polled.max(source.ts_poll);
        begun.into_iter().for_each(|begun| self.probe.begin(begun));
        self.probe.updated();
        if let Some(post) = &mut self.post {
            tell_update(post, source, &self.known, update, change);
        }
        let stamp = Stamp::of(update, source.ts_recv);
        if let Some(known) = self.know(change.instrument_id, source.channel) {
            known.last_change = stamp;
            if let Some(status) = status_of(update, change) {
                known.status = Some(status);
            }
            if !source.is_snapshot {
                self.say(source.ts_poll, stamp, update, change);
            }
        }
        self.probe.end_of_update();
    }

    /// Passes an update's changes to conflation in publication order: a trade first, then the book
    /// after it.
    fn say(&mut self, now: Nanos, stamp: Stamp, update: &Update, change: &Change) {
        let id = change.instrument_id;
        let ChangeReporter { conflator, levels, probe, .. } = self;
        let mut say = |body| {
            let entry = Entry::change(id, stamp, body);
            probe.offered(&entry, conflator.apply(now, &entry));
        };
        if let Some(trade) = trade_of(update, change) {
            say(Body::Trade(trade));
        }
        if let Some(status) = status_of(update, change) {
            say(Body::Status(status));
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

    /// Publishes an instrument's whole book as a change of its own.
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

/// Returns the trade or trade break of an update.
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

/// Returns the trading state of an update that changed it.
fn status_of(update: &Update, change: &Change) -> Option<Status> {
    match (change.status, update.action) {
        (Some(state), Action::Status { reason, cause, .. }) => {
            Some(Status { state, reason, cause })
        }
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
