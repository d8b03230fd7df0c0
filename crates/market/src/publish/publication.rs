//! The publication of a partition: its instruments, sessions and auction results.
//!
//! [`super::changes`] handles changes of orders. INVARIANT: the messages since the session began
//! yield, by the rules of ITCH, exactly the shown quantities of the orders in published books.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rustc_hash::FxBuildHasher;
use weir_feed::moldudp64::MoldSession;
use weir_feed::session_name::{Calendar, session_name};
use weir_types::{Epoch, InstrumentId, MatchId, Nanos, Phase, PhaseCause, Rec, Side};

use super::fit::{Fit, UnfitReason, fit};
use super::orders::{Order, OrderLocation, Orders, Prices, rank_of};
use super::{Listing, PhaseNow, PublishSink, Uncross};
use crate::plant::{self, Plant};

/// Counters of events that could not be published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishCounts {
    /// Orders in the book with a price or quantity that ITCH cannot represent; such orders are
    /// older than the current limits of their instrument.
    pub unsayable_orders: u64,
    /// Changes of unknown orders or instruments; zero when the events are complete from the first.
    pub strangers: u64,
}

/// An instrument and the part of its book that messages depend on.
#[derive(Clone, Debug)]
pub(super) struct Instrument {
    pub(super) listing: Listing,
    pub(super) fit: Result<Fit, UnfitReason>,
    /// The instrument's number in this session; zero without one.
    pub(super) locate: u16,
    pub(super) phase: Phase,
    /// The cause of the phase; unknown for the definition's.
    pub(super) cause: PhaseCause,
    pub(super) bids: Prices,
    pub(super) asks: Prices,
    /// Parked at-the-close orders, by the engine's number.
    pub(super) parked: BTreeSet<Rec>,
}

impl Instrument {
    /// Returns an instrument without orders.
    pub(super) fn new(listing: Listing, locate: u16, at: PhaseNow) -> Instrument {
        Instrument {
            listing,
            fit: fit(&listing),
            locate,
            phase: at.phase,
            cause: at.cause,
            bids: Prices::default(),
            asks: Prices::default(),
            parked: BTreeSet::new(),
        }
    }

    pub(super) fn prices_mut(&mut self, side: Side) -> &mut Prices {
        if side == Side::Buy { &mut self.bids } else { &mut self.asks }
    }

    /// Returns true when an order with this limit meets the best price of the other side.
    pub(super) fn is_crossed_by(&self, side: Side, limit: weir_types::Price) -> bool {
        let others = if side == Side::Buy { &self.asks } else { &self.bids };
        others.is_reached_by(side, limit)
    }
}

/// The open session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) midnight: Nanos,
    /// True once the start and the end of market hours were published.
    pub(super) hours: (bool, bool),
}

/// The publisher of one partition's market.
#[derive(Clone, Debug)]
pub struct Publication {
    pub(super) calendar: Calendar,
    pub(super) epoch: Epoch,
    pub(super) open: Option<Open>,
    pub(super) now: Nanos,
    pub(super) instruments: Vec<Instrument>,
    pub(super) by_id: HashMap<InstrumentId, usize, FxBuildHasher>,
    pub(super) orders: Orders,
    /// The order that is being matched, if any.
    pub(super) incoming: Option<Rec>,
    pub(super) next_rank: u64,
    /// The next public numbers of orders, instruments and crosses in the session.
    pub(super) next_reference: u64,
    pub(super) next_locate: u16,
    pub(super) crosses: u64,
    /// Instruments that are not closed.
    pub(super) awake: usize,
    pub(super) unfit: BTreeMap<InstrumentId, UnfitReason>,
    pub(super) counts: PublishCounts,
}

impl Publication {
    /// Creates a publication before the first event, whose epoch is `epoch`.
    #[must_use]
    pub fn new(calendar: Calendar, epoch: Epoch) -> Publication {
        Publication {
            calendar,
            epoch,
            open: None,
            now: Nanos(0),
            instruments: Vec::new(),
            by_id: HashMap::default(),
            orders: Orders::default(),
            incoming: None,
            next_rank: 0,
            next_reference: 1,
            next_locate: 1,
            crosses: 0,
            awake: 0,
            unfit: BTreeMap::new(),
            counts: PublishCounts::default(),
        }
    }

    /// Iterates over the instruments that are not published, with the reasons.
    pub fn unfit(&self) -> impl Iterator<Item = (InstrumentId, UnfitReason)> {
        self.unfit.iter().map(|(id, why)| (*id, *why))
    }

    /// Returns the counters.
    #[must_use]
    pub fn counts(&self) -> PublishCounts {
        self.counts
    }

    /// Returns the number of live orders, shown or not.
    #[must_use]
    pub fn order_count(&self) -> usize {
        self.orders.len()
    }

    /// Returns the number of instruments published in this session.
    #[must_use]
    pub fn published_count(&self) -> usize {
        self.instruments.iter().filter(|of| of.published().is_some()).count()
    }

    /// Enters a new epoch: all surviving events of the previous one were taken, and later events
    /// belong to `epoch`. Begins a new session and leaves the previous one without an end, because
    /// some of its published messages may be of events that did not survive.
    pub fn enter_epoch(&mut self, epoch: Epoch, out: &mut impl PublishSink) {
        if epoch == self.epoch {
            return;
        }
        self.epoch = epoch;
        if self.open.is_some() {
            self.begin(out);
        }
    }

    /// Returns the name of the session of the day that begins at `midnight`.
    pub(super) fn session_of(&self, midnight: Nanos) -> MoldSession {
        session_name(self.calendar, midnight, self.epoch)
    }

    /// Returns the time from which the session's times count.
    pub(super) fn midnight(&self) -> Nanos {
        self.open.map_or(Nanos(0), |open| open.midnight)
    }

    /// Advances to an event's time; ends the session of the previous day.
    pub(super) fn advance(&mut self, time: Nanos, out: &mut impl PublishSink) {
        let time = time.max(self.now);
        let midnight = self.calendar.midnight(time);
        match self.open {
            None => {
                self.now = time;
                self.begin(out);
            }
            Some(open) if open.midnight != midnight => {
                self.finish(out);
                self.now = midnight;
                self.begin(out);
            }
            Some(_) => {}
        }
        self.now = time;
    }

    /// Begins the session of the current time: publishes the instruments, then the shown orders.
    /// Anybody but a publication itself calls it for a market without its past, in an epoch in
    /// which nothing else was published.
    pub fn begin(&mut self, out: &mut impl PublishSink) {
        let midnight = self.calendar.midnight(self.now);
        self.open = Some(Open { midnight, hours: (false, false) });
        (self.next_reference, self.next_locate, self.crosses) = (1, 1, 0);
        out.session(self.session_of(midnight));
        self.say_system(b'O', out);
        for index in self.by_number() {
            self.instruments[index].locate = 0;
            self.list(index, out);
        }
        self.say_system(b'S', out);
        if self.instruments.iter().any(|of| of.phase == Phase::Continuous) {
            self.begin_hours(out);
        }
        for order in self.orders.values_mut() {
            order.reference = 0;
        }
        self.show_again(|_| true, out);
    }

    /// Ends the session after its last message.
    fn finish(&mut self, out: &mut impl PublishSink) {
        self.end_hours(out);
        self.say_system(b'E', out);
        self.say_system(b'C', out);
        out.end();
    }

    /// Returns the indices of all instruments, by the exchange's numbers.
    fn by_number(&self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.instruments.len()).collect();
        all.sort_unstable_by_key(|index| self.instruments[*index].listing.instrument_id);
        all
    }

    fn begin_hours(&mut self, out: &mut impl PublishSink) {
        let Some(open) = &mut self.open else { return };
        if !open.hours.0 {
            open.hours.0 = true;
            self.say_system(b'Q', out);
        }
    }

    fn end_hours(&mut self, out: &mut impl PublishSink) {
        let Some(open) = &mut self.open else { return };
        if open.hours == (true, false) {
            open.hours.1 = true;
            self.say_system(b'M', out);
        }
    }

    /// Publishes an instrument's definition if ITCH can represent it; assigns a number if it has
    /// none.
    fn list(&mut self, index: usize, out: &mut impl PublishSink) {
        let of = &mut self.instruments[index];
        let id = of.listing.instrument_id;
        let fit = match of.fit {
            Ok(fit) => fit,
            Err(why) => {
                self.unfit.insert(id, why);
                return;
            }
        };
        if of.locate == 0 && self.next_locate == 0 {
            self.unfit.insert(id, UnfitReason::TooMany);
            return;
        }
        if of.locate == 0 {
            of.locate = self.next_locate;
            // Wraps to zero after the last number: there are no more.
            self.next_locate = self.next_locate.wrapping_add(1);
        }
        self.unfit.remove(&id);
        let of = &self.instruments[index];
        self.say_directory(of, &fit, out);
        self.say_state(of, &fit, out);
    }

    /// Defines or redefines an instrument.
    pub fn define(&mut self, time: Nanos, listing: &Listing, out: &mut impl PublishSink) {
        self.advance(time, out);
        let Some(index) = self.by_id.get(&listing.instrument_id).copied() else {
            return self.define_new(listing, out);
        };
        let new = fit(listing);
        let of = &mut self.instruments[index];
        let old = core::mem::replace(&mut of.fit, new);
        let is_lot_same = of.listing.lot_size == listing.lot_size;
        of.listing = *listing;
        if old == new {
            if !is_lot_same && of.published().is_some() {
                self.list(index, out);
            }
            return;
        }
        // The symbol changed, or the instrument stopped or started to fit: withdraw what was shown
        // of it.
        self.take_back(index, out);
        if let (Ok(old), true) = (old, self.instruments[index].locate != 0) {
            self.say_gone(&self.instruments[index], &old, out);
        }
        self.list(index, out);
        self.show_again(|order| order.instrument == index, out);
    }

    fn define_new(&mut self, listing: &Listing, out: &mut impl PublishSink) {
        let index = self.add_instrument(*listing, 0, PhaseNow::defined(listing));
        self.list(index, out);
        if listing.phase == Phase::Continuous {
            self.begin_hours(out);
        }
    }

    /// Withdraws all shown orders of an instrument.
    fn take_back(&mut self, index: usize, out: &mut impl PublishSink) {
        let is_shown = |order: &Order| order.instrument == index && order.reference != 0;
        for rec in self.in_order(is_shown) {
            if let Some(mut order) = self.orders.get(&rec).copied() {
                self.say_delete(&order, out);
                order.reference = 0;
                self.orders.insert(rec, order);
            }
        }
    }

    /// Returns the orders in the book that satisfy `is_meant`, by instrument, side and priority: by
    /// the book alone, whatever the ranks at different prices are.
    pub(super) fn in_order(&self, is_meant: impl Fn(&Order) -> bool) -> Vec<Rec> {
        let is_there = |order: &Order| order.place == OrderLocation::Book && is_meant(order);
        let mut found: Vec<_> = (self.orders.iter())
            .filter(|(_, order)| is_there(order))
            .map(|(rec, order)| {
                let instrument_id = self.instruments[order.instrument].listing.instrument_id;
                let worse = !rank_of(order.side, order.price);
                ((instrument_id, order.side, worse, order.rank), *rec)
            })
            .collect();
        found.sort_unstable_by_key(|(place, _)| *place);
        found.into_iter().map(|(_, rec)| rec).collect()
    }

    fn show_again(&mut self, is_meant: impl Fn(&Order) -> bool, out: &mut impl PublishSink) {
        for rec in self.in_order(is_meant) {
            self.publish(rec, out);
        }
    }

    /// Returns the index of an instrument; counts unknown ones.
    pub(super) fn find(&mut self, instrument_id: InstrumentId) -> Option<usize> {
        let found = self.by_id.get(&instrument_id).copied();
        self.counts.strangers += u64::from(found.is_none());
        found
    }

    /// Changes the phase of an instrument, or takes a new cause of the same phase.
    pub fn phase(
        &mut self,
        time: Nanos,
        instrument_id: InstrumentId,
        PhaseNow { phase, cause }: PhaseNow,
        out: &mut impl PublishSink,
    ) {
        self.advance(time, out);
        let Some(index) = self.find(instrument_id) else { return };
        let of = &mut self.instruments[index];
        let was_awake = of.phase != Phase::Closed;
        of.phase = phase;
        if of.cause == PhaseCause::Unknown || !plant::is(Plant::CauseOfTheChangeBefore) {
            of.cause = cause;
        }
        self.awake += usize::from(phase != Phase::Closed);
        self.awake -= usize::from(was_awake);
        let of = &self.instruments[index];
        if let Some(fit) = of.published() {
            self.say_state(of, fit, out);
        }
        match phase {
            Phase::Continuous => self.begin_hours(out),
            Phase::Closed if self.awake == 0 => self.end_hours(out),
            Phase::ClosingCall => self.release_parked(index, out),
            _ => {}
        }
        self.stand_interrupted(index, out);
    }

    /// Takes the result of a call, after its trades; the call may have had none.
    pub fn uncrossed(&mut self, uncross: &Uncross, out: &mut impl PublishSink) {
        self.advance(uncross.time, out);
        let Some(index) = self.find(uncross.instrument_id) else { return };
        self.crosses += 1;
        self.say_cross(&self.instruments[index], uncross, self.crosses, out);
    }

    /// Busts a trade.
    pub fn bust(
        &mut self,
        time: Nanos,
        instrument_id: InstrumentId,
        match_id: MatchId,
        out: &mut impl PublishSink,
    ) {
        self.advance(time, out);
        let Some(index) = self.find(instrument_id) else { return };
        self.say_broken(&self.instruments[index], match_id, out);
    }
}
