//! What a partition publishes: its instruments, its sessions, and what calls come to.
//!
//! Changes of orders are in [`super::changes`]. INVARIANT: what was said since the session began
//! gives, by the rules of ITCH, exactly what is shown of the orders that stand in published books.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rustc_hash::FxBuildHasher;
use weir_types::{Epoch, InstrumentId, MatchId, Nanos, Phase, Rec, Side};

use super::fit::{Fit, Unfit, fit};
use super::orders::{Order, Orders, Place, Prices};
use super::session::{Calendar, session_name};
use super::{Listing, PublishSink, Uncross};
use crate::feed::moldudp64::Session;

/// What could not be said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishCounts {
    /// Orders that came to stand with a price or quantity that ITCH cannot say: orders of before
    /// their instrument's bounds were drawn closer.
    pub unsayable_orders: u64,
    /// Changes of orders or instruments that were never heard of: none where events begin with the
    /// first.
    pub strangers: u64,
}

/// An instrument and its book, as far as others' messages depend on it.
#[derive(Debug)]
pub(super) struct Instrument {
    pub(super) listing: Listing,
    pub(super) fit: Result<Fit, Unfit>,
    /// Its number in this session; zero when it has none.
    pub(super) locate: u16,
    pub(super) phase: Phase,
    pub(super) bids: Prices,
    pub(super) asks: Prices,
    /// At-the-close orders that wait, by the engine's number.
    pub(super) parked: BTreeSet<Rec>,
}

impl Instrument {
    pub(super) fn prices_mut(&mut self, side: Side) -> &mut Prices {
        if side == Side::Buy { &mut self.bids } else { &mut self.asks }
    }

    /// Whether an order with this limit meets the best price of the other side.
    pub(super) fn is_crossed_by(&self, side: Side, limit: weir_types::Price) -> bool {
        let others = if side == Side::Buy { &self.asks } else { &self.bids };
        others.is_reached_by(side, limit)
    }
}

/// The session that is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) midnight: Nanos,
    /// Start and end of market hours were said.
    pub(super) hours: (bool, bool),
}

/// What is published of one partition. See the module's documentation.
#[derive(Debug)]
pub struct Publication {
    calendar: Calendar,
    epoch: Epoch,
    pub(super) open: Option<Open>,
    pub(super) now: Nanos,
    pub(super) instruments: Vec<Instrument>,
    by_id: HashMap<InstrumentId, usize, FxBuildHasher>,
    pub(super) orders: Orders,
    /// The order that is being matched, when one is.
    pub(super) incoming: Option<Rec>,
    pub(super) next_rank: u64,
    /// Public numbers of orders, instruments and crosses of the session.
    pub(super) next_reference: u64,
    next_locate: u16,
    crosses: u64,
    /// Instruments that are not closed.
    awake: usize,
    unfit: BTreeMap<InstrumentId, Unfit>,
    pub(super) counts: PublishCounts,
}

impl Publication {
    /// Before the first event; `epoch` is that of the first one.
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

    /// Instruments that are not published, and why.
    pub fn unfit(&self) -> impl Iterator<Item = (InstrumentId, Unfit)> {
        self.unfit.iter().map(|(id, why)| (*id, *why))
    }

    /// What could not be said.
    #[must_use]
    pub fn counts(&self) -> PublishCounts {
        self.counts
    }

    /// Live orders that are known, shown or not.
    #[must_use]
    pub fn order_count(&self) -> usize {
        self.orders.len()
    }

    /// Instruments that are published in this session.
    #[must_use]
    pub fn published_count(&self) -> usize {
        self.instruments.iter().filter(|of| of.published().is_some()).count()
    }

    /// What was said may be taken back from here on: all events of the epoch before that live on
    /// were heard, and those to come are of `epoch`. A session begins; the one before is left as it
    /// is, since some of what others heard of it is lost.
    pub fn enter_epoch(&mut self, epoch: Epoch, out: &mut impl PublishSink) {
        if epoch == self.epoch {
            return;
        }
        self.epoch = epoch;
        if self.open.is_some() {
            self.begin(out);
        }
    }

    /// The name of the session of the day that begins at `midnight`.
    pub(super) fn session_of(&self, midnight: Nanos) -> Session {
        session_name(self.calendar, midnight, self.epoch)
    }

    /// Where the session's times begin.
    pub(super) fn midnight(&self) -> Nanos {
        self.open.map_or(Nanos(0), |open| open.midnight)
    }

    /// Goes on to an event's time; ends the session of the day before.
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

    /// Begins the session of the time that it is: the instruments, then what is shown of orders.
    fn begin(&mut self, out: &mut impl PublishSink) {
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

    /// Ends the session: all of it was said.
    fn finish(&mut self, out: &mut impl PublishSink) {
        self.end_hours(out);
        self.say_system(b'E', out);
        self.say_system(b'C', out);
        out.end();
    }

    /// All instruments' places, by the numbers that the exchange gave them.
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

    /// Says what an instrument is, if it can be said; gives it a number if it has none.
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
            self.unfit.insert(id, Unfit::TooMany);
            return;
        }
        if of.locate == 0 {
            of.locate = self.next_locate;
            // Zero behind the last number: there are no more.
            self.next_locate = self.next_locate.wrapping_add(1);
        }
        self.unfit.remove(&id);
        let of = &self.instruments[index];
        self.say_directory(of, &fit, out);
        self.say_state(of, &fit, out);
    }

    /// An instrument is defined, or defined anew.
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
        // Under another symbol, or no longer, or only now: what was shown of it is taken back.
        self.take_back(index, out);
        if let (Ok(old), true) = (old, self.instruments[index].locate != 0) {
            self.say_gone(&self.instruments[index], &old, out);
        }
        self.list(index, out);
        self.show_again(|order| order.instrument == index, out);
    }

    fn define_new(&mut self, listing: &Listing, out: &mut impl PublishSink) {
        let index = self.instruments.len();
        self.instruments.push(Instrument {
            listing: *listing,
            fit: fit(listing),
            locate: 0,
            phase: listing.phase,
            bids: Prices::default(),
            asks: Prices::default(),
            parked: BTreeSet::new(),
        });
        self.by_id.insert(listing.instrument_id, index);
        self.awake += usize::from(listing.phase != Phase::Closed);
        self.list(index, out);
        if listing.phase == Phase::Continuous {
            self.begin_hours(out);
        }
    }

    /// Deletes all that is shown of an instrument.
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

    /// Orders of the book for which `is_meant` holds, in the order in which they came to stand.
    pub(super) fn in_order(&self, is_meant: impl Fn(&Order) -> bool) -> Vec<Rec> {
        let is_there = |order: &Order| order.place == Place::Book && is_meant(order);
        let mut found: Vec<(usize, u64, Rec)> = (self.orders.iter())
            .filter(|(_, order)| is_there(order))
            .map(|(rec, order)| (order.instrument, order.rank, *rec))
            .collect();
        found.sort_unstable_by_key(|(index, rank, _)| {
            (self.instruments[*index].listing.instrument_id, *rank)
        });
        found.into_iter().map(|(_, _, rec)| rec).collect()
    }

    fn show_again(&mut self, is_meant: impl Fn(&Order) -> bool, out: &mut impl PublishSink) {
        for rec in self.in_order(is_meant) {
            self.publish(rec, out);
        }
    }

    /// Where an instrument is in the list; counts those that are nowhere.
    pub(super) fn find(&mut self, instrument_id: InstrumentId) -> Option<usize> {
        let found = self.by_id.get(&instrument_id).copied();
        self.counts.strangers += u64::from(found.is_none());
        found
    }

    /// An instrument is in another phase.
    pub fn phase(
        &mut self,
        time: Nanos,
        instrument_id: InstrumentId,
        phase: Phase,
        out: &mut impl PublishSink,
    ) {
        self.advance(time, out);
        let Some(index) = self.find(instrument_id) else { return };
        let of = &mut self.instruments[index];
        let was_awake = of.phase != Phase::Closed;
        of.phase = phase;
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

    /// A call has traded, or found nothing to trade. Its trades come before.
    pub fn uncrossed(&mut self, uncross: &Uncross, out: &mut impl PublishSink) {
        self.advance(uncross.time, out);
        let Some(index) = self.find(uncross.instrument_id) else { return };
        self.crosses += 1;
        self.say_cross(&self.instruments[index], uncross, self.crosses, out);
    }

    /// A trade was taken back.
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
