//! The books of a flush thread: wanted instruments only, as of the entries taken.
//!
//! When flush is behind, the update stage's books are far ahead; these are exactly at the state of
//! the entries.

use weir_feed::Update;
use weir_feed::line::State;
use weir_market::Books;
use weir_market::book::{BooksConfig, OrderIds};
use weir_market::conflate::{Bbo, Body, BookView, DayStatistics, Entry, Kind, Stamp, Status};
use weir_types::{InstrumentId, Price, Qty, Side};

use super::flush_slot::{ChannelIndex, FlushContent, FlushSlot};

/// The state of an instrument besides its books.
#[derive(Clone, Copy, Debug, Default)]
struct MirroredInstrument {
    channel: ChannelIndex,
    best: Bbo,
    status: Option<Status>,
    statistics: DayStatistics,
    last_change: Stamp,
    /// The sequence number up to which the last full set of orders includes changes.
    floor: u64,
}

/// Books, states and statistics as of the slots taken.
pub struct Mirror {
    known: Vec<MirroredInstrument>,
    levels: Books,
    orders: Books,
    channels: Vec<State>,
}

/// The number of orders and levels for which memory is allocated at the start; it grows as needed.
const ROWS: u32 = 1 << 12;

impl Mirror {
    /// Creates an empty mirror; instrument numbers are below `instruments_max`.
    #[must_use]
    pub fn new(instruments_max: u32) -> Mirror {
        let config = BooksConfig {
            order_ids: OrderIds::OfInstrument,
            orders: ROWS,
            instruments_max,
            trades: 0,
            ..BooksConfig::default()
        };
        Mirror {
            known: Vec::new(),
            levels: Books::new(&config),
            orders: Books::new(&config),
            channels: Vec::new(),
        }
    }

    /// Applies a slot; called for an entry before subscribers receive it.
    pub fn take(&mut self, told: &FlushSlot) {
        match &told.what {
            FlushContent::Nothing | FlushContent::Define(_) | FlushContent::Wished(..) => {}
            FlushContent::Entry(entry) => self.take_entry(entry, told),
            FlushContent::Channel(_, state) => {
                let index = usize::from(told.channel);
                if self.channels.len() <= index {
                    self.channels.resize(index + 1, State::Waiting);
                }
                self.channels[index] = *state;
            }
            FlushContent::NewSession => {
                let of_channel = self.known.iter_mut().filter(|one| one.channel == told.channel);
                of_channel.for_each(|known| known.floor = 0);
            }
        }
    }

    fn take_entry(&mut self, entry: &Entry, told: &FlushSlot) {
        let index = entry.instrument_id.0 as usize;
        if self.known.len() <= index {
            self.known.resize(index + 1, MirroredInstrument::default());
        }
        let known = &mut self.known[index];
        known.channel = told.channel;
        let merged = entry.merged;
        let stamp = Stamp {
            sequence: merged.last_sequence,
            ts_event: merged.ts_event,
            ts_recv: merged.ts_recv,
        };
        match entry.body {
            Body::Bbo(best) => known.best = best,
            Body::Status(status) => known.status = Some(status),
            Body::Statistics => known.statistics = told.statistics,
            Body::Trade(_) | Body::Gap(Kind::Trades) => {}
            Body::Book => apply_all(&mut self.levels, &told.updates),
            Body::Order(update) if stamp.sequence > known.floor => {
                known.last_change = stamp;
                let _ = self.orders.apply(&update);
            }
            Body::Order(_) => {}
            Body::OrdersSnapshot | Body::Gap(Kind::Orders) => {
                apply_all(&mut self.orders, &told.updates);
                // All of them have the sequence number of the last change in the orders.
                let sequence = told.updates.first().map_or(0, |update| update.sequence);
                known.floor = sequence;
                known.last_change = Stamp { sequence, ..stamp };
            }
            Body::Gap(_) => {}
        }
    }

    /// Returns true if the channel of an instrument is stale or recovering.
    #[must_use]
    pub fn is_stale(&self, id: InstrumentId) -> bool {
        let channel = self.known(id).channel;
        let state = self.channels.get(usize::from(channel)).copied().unwrap_or_default();
        matches!(state, State::Stale | State::Recovering)
    }

    /// The orders of a side in order of execution.
    pub fn orders(
        &self,
        id: InstrumentId,
        side: Side,
    ) -> impl Iterator<Item = weir_market::book::RestingOrder> {
        self.orders.orders(id, side)
    }

    fn known(&self, id: InstrumentId) -> MirroredInstrument {
        self.known.get(id.0 as usize).copied().unwrap_or_default()
    }
}

fn apply_all(books: &mut Books, updates: &[Update]) {
    for update in updates {
        let _ = books.apply(update);
    }
}

impl BookView for Mirror {
    fn best(&self, instrument_id: InstrumentId) -> Bbo {
        self.known(instrument_id).best
    }

    fn levels(
        &self,
        instrument_id: InstrumentId,
        side: Side,
        depth: usize,
        level: &mut dyn FnMut(Price, Qty, u32),
    ) {
        for at in self.levels.levels(instrument_id, side, depth) {
            level(at.price, at.size, at.order_count);
        }
    }

    fn statistics(&self, instrument_id: InstrumentId) -> DayStatistics {
        self.known(instrument_id).statistics
    }

    fn status(&self, instrument_id: InstrumentId) -> Option<Status> {
        self.known(instrument_id).status
    }

    fn last_change(&self, instrument_id: InstrumentId) -> Stamp {
        self.known(instrument_id).last_change
    }
}
