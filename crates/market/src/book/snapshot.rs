//! Snapshots: a book as the updates that rebuild it. A late joiner applies them like any others.

use weir_feed::update::{Action, Update};
use weir_types::{InstrumentId, Nanos, PhaseCause, Qty, Side};

use super::books::Books;
use super::instrument::{BookKind, SIDES};

impl Books {
    /// Exports an instrument's book as updates: `Clear`, then its orders in priority, or its
    /// levels, or its quotes, then its trading state. All bear the number and the time of the
    /// message up to which the book is current. Applying them yields the same book, with the same
    /// [`digest`](Books::digest), not SUSPECT; statistics are not included.
    pub fn export(
        &self,
        id: InstrumentId,
        sequence: u64,
        ts_event: Nanos,
        mut out: impl FnMut(Update),
    ) {
        let mut say = |action| out(Update { instrument_id: id, sequence, ts_event, action });
        say(Action::Clear);
        match self.kind(id) {
            BookKind::Empty => {}
            BookKind::ByOrder => self.export_orders(id, &mut say),
            BookKind::ByPrice => self.export_levels(id, &mut say),
            BookKind::Quotes => self.export_quotes(id, &mut say),
        }
        if let Some(state) = self.state(id) {
            say(Action::Status { state, reason: [b' '; 4], cause: PhaseCause::Unknown });
        }
    }

    /// Exports the books of all instruments, one after the other.
    pub fn export_all(&self, sequence: u64, ts_event: Nanos, mut out: impl FnMut(Update)) {
        for id in self.instruments() {
            self.export(id, sequence, ts_event, &mut out);
        }
    }

    fn export_orders(&self, id: InstrumentId, say: &mut impl FnMut(Action)) {
        for side in SIDES {
            for order in self.orders(id, side) {
                let (order_id, price, size) = (order.order_id, order.price, order.size);
                say(Action::Add { order_id, side, price, size });
            }
        }
    }

    fn export_levels(&self, id: InstrumentId, say: &mut impl FnMut(Action)) {
        let levels_of = |side: Side| self.levels(id, side, usize::MAX).map(move |at| (side, at));
        let mut levels = SIDES.into_iter().flat_map(levels_of).peekable();
        while let Some((side, level)) = levels.next() {
            say(Action::Level {
                side,
                price: level.price,
                size: level.size,
                order_count: level.order_count,
                is_last: levels.peek().is_none(),
            });
        }
    }

    fn export_quotes(&self, id: InstrumentId, say: &mut impl FnMut(Action)) {
        let best = self.best(id);
        say(Action::Consolidated {
            bid_venue: best.bid_venue,
            ask_venue: best.ask_venue,
            bid_px: best.bid_px,
            bid_sz: best.bid_sz,
            ask_px: best.ask_px,
            ask_sz: best.ask_sz,
        });
        for venue_quote in self.quotes(id) {
            let (venue, quote) = (venue_quote.venue, venue_quote.quote);
            let (bid_px, ask_px) = (quote.bid_px, quote.ask_px);
            let (bid_sz, ask_sz): (Qty, Qty) = (quote.bid_sz, quote.ask_sz);
            say(Action::Quote { venue, bid_px, bid_sz, ask_px, ask_sz });
        }
    }
}
