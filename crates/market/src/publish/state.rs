//! The state of a publication as bytes, so that a start reads only the events since, and a
//! publication that begins with a market instead of with its first event.
//!
//! The bytes are a function of the events: the orders are in the order of their records.
//! They lack the parts that follow from others (the prices of the books, the parked orders, the
//! forms of instruments), so that these cannot contradict each other.

use thiserror::Error;
use weir_feed::session_name::{Calendar, MAPPING};
use weir_types::state_bytes::{StateBytes, put_number};
use weir_types::{
    Epoch, InstrumentId, Nanos, OrdType, Phase, PhaseCause, Price, Qty, Rec, SelfTradePrevention,
    Side, Symbol, TimeInForce,
};

use super::fit::UnfitReason;
use super::orders::{Order, OrderLocation};
use super::publication::{Instrument, Open, Publication};
use super::{Listing, OrderChange, PhaseNow};

/// The version of the format.
const VERSION: u64 = 2;
/// Above all numbers that a publication assigns, with room for as many again.
const NUMBER_MAX: u64 = 1 << 62;

/// The reason why bytes are no state of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StateFault {
    /// They are of another format, or not what was written.
    #[error("it is of another format")]
    Format,
    /// They are of other rules from events to messages, whose sessions have other names.
    #[error("it is of another version of the messages")]
    OtherRules,
    /// They are of days that begin at another hour, whose sessions have other names.
    #[error("its days begin at another hour")]
    OtherCalendar,
}

/// The queue of a live order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandingPlace {
    /// In the book, of which `shown` is told.
    Book {
        /// The quantity that the book shows.
        shown: Qty,
    },
    /// In a call's book, without a limit.
    Market,
    /// Among the stops that wait for their price.
    Stop,
    /// Among the orders that wait for the closing call.
    Parked,
}

/// A live order of a market with which a publication begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandingOrder {
    /// Its state; the kind of change and a trade are ignored.
    pub state: OrderChange,
    /// Its place.
    pub place: StandingPlace,
}

impl Publication {
    /// Returns the epoch of the events.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the publication of a market whose events of before are not known: these instruments
    /// with their phases and the causes of these, and these orders, in time priority where they are
    /// at one price. Called before any event. Nothing is published before
    /// [`Publication::enter_epoch`] or [`Publication::begin`], in an epoch in which nothing else
    /// was: the session of the epoch so far may have had other messages.
    #[must_use]
    pub fn with_market(
        self,
        time: Nanos,
        instruments: impl IntoIterator<Item = (Listing, PhaseNow)>,
        orders: impl IntoIterator<Item = StandingOrder>,
    ) -> Publication {
        let mut publication = self;
        publication.now = time;
        let midnight = publication.calendar.midnight(time);
        publication.open = Some(Open { midnight, hours: (false, false) });
        for (listing, at) in instruments {
            publication.add_instrument(listing, 0, at);
        }
        for StandingOrder { state, place } in orders {
            let Some(instrument) = publication.find(state.instrument_id) else { continue };
            publication.next_rank += 1;
            let (place, shown_qty) = match place {
                StandingPlace::Book { shown } => (OrderLocation::Book, shown),
                StandingPlace::Market => (OrderLocation::Market, Qty::ZERO),
                StandingPlace::Stop => (OrderLocation::Stop, Qty::ZERO),
                StandingPlace::Parked => (OrderLocation::Parked, Qty::ZERO),
            };
            let order = Order {
                instrument,
                side: state.side,
                ord_type: state.ord_type,
                time_in_force: state.time_in_force,
                self_trade_prevention: state.self_trade_prevention,
                place,
                price: state.price,
                order_qty: state.order_qty,
                leaves_qty: state.leaves_qty,
                display_qty: state.display_qty,
                shown_qty,
                rank: publication.next_rank,
                reference: 0,
            };
            publication.add_order(state.rec, order);
        }
        publication
    }

    /// Appends the state.
    pub fn put_state(&self, out: &mut Vec<u8>) {
        for number in [VERSION, MAPPING.into(), self.calendar.begins_hour().into()] {
            put_number(out, number);
        }
        put_number(out, self.epoch.0.into());
        let open = self
            .open
            .map_or([0; 4], |open| [1, open.midnight.0, open.hours.0.into(), open.hours.1.into()]);
        open.into_iter().for_each(|number| put_number(out, number));
        for number in [
            self.now.0,
            self.incoming.map_or(0, |rec| rec.0),
            self.next_rank,
            self.next_reference,
            self.next_locate.into(),
            self.crosses,
            self.counts.unsayable_orders,
            self.counts.strangers,
        ] {
            put_number(out, number);
        }
        put_number(out, self.instruments.len() as u64);
        self.instruments.iter().for_each(|of| put_instrument(of, out));
        let mut orders: Vec<_> = self.orders.iter().collect();
        orders.sort_unstable_by_key(|(rec, _)| **rec);
        put_number(out, orders.len() as u64);
        let mut before = 0;
        for (rec, order) in orders {
            put_number(out, rec.0 - before);
            before = rec.0;
            put_order(order, out);
        }
    }

    /// Reads the state of a publication whose days begin as those of `calendar`.
    ///
    /// # Errors
    /// [`StateFault`] when the bytes are none, or the publication would have to go on under the
    /// names of other sessions.
    pub fn from_state(
        state: &mut StateBytes<'_>,
        calendar: Calendar,
    ) -> Result<Publication, StateFault> {
        let mut number = || state.number().ok_or(StateFault::Format);
        if number()? != VERSION {
            return Err(StateFault::Format);
        }
        if number()? != u64::from(MAPPING) {
            return Err(StateFault::OtherRules);
        }
        if number()? != u64::from(calendar.begins_hour()) {
            return Err(StateFault::OtherCalendar);
        }
        read(state, calendar).ok_or(StateFault::Format)
    }

    /// Adds an instrument that is not known yet, and returns its index.
    pub(super) fn add_instrument(&mut self, listing: Listing, locate: u16, at: PhaseNow) -> usize {
        let index = self.instruments.len();
        self.instruments.push(Instrument::new(listing, locate, at));
        self.by_id.insert(listing.instrument_id, index);
        self.awake += usize::from(at.phase != Phase::Closed);
        index
    }

    /// Adds an order in its place, with what follows from it.
    fn add_order(&mut self, rec: Rec, order: Order) {
        let of = &mut self.instruments[order.instrument];
        match order.place {
            OrderLocation::Book => of.prices_mut(order.side).add(order.side, order.price),
            OrderLocation::Parked => {
                of.parked.insert(rec);
            }
            OrderLocation::Incoming | OrderLocation::Market | OrderLocation::Stop => {}
        }
        self.orders.insert(rec, order);
    }

    /// Returns true when the numbers that are assigned next are above those that were.
    fn is_numbered(&self) -> bool {
        let below = |number: u64, next: u64| number < next && next < NUMBER_MAX;
        let locates_end = if self.next_locate == 0 { 1 << 16 } else { u64::from(self.next_locate) };
        below(self.crosses, NUMBER_MAX - 1)
            && below(0, self.next_reference)
            && self.next_rank < NUMBER_MAX
            && below(self.counts.unsayable_orders, NUMBER_MAX - 1)
            && below(self.counts.strangers, NUMBER_MAX - 1)
            && self.instruments.iter().all(|of| below(of.locate.into(), locates_end))
            && self.orders.values().all(|order| {
                below(order.reference, self.next_reference) && order.rank <= self.next_rank
            })
    }

    /// Returns true when the open session is that of the newest event.
    fn is_of_its_day(&self) -> bool {
        self.open.is_none_or(|open| open.midnight == self.calendar.midnight(self.now))
    }

    /// Returns true when all that is shown could be said.
    fn is_sayable(&self) -> bool {
        self.orders.values().filter(|order| order.reference != 0).all(|order| {
            let is_in_book = order.place == OrderLocation::Book;
            is_in_book && self.instruments[order.instrument].is_sayable(order)
        })
    }
}

/// Reads what is behind the versions.
fn read(state: &mut StateBytes<'_>, calendar: Calendar) -> Option<Publication> {
    let mut publication = Publication::new(calendar, Epoch(state.narrow()?));
    let is_open = read_flag(state)?;
    let open =
        Open { midnight: Nanos(state.number()?), hours: (read_flag(state)?, read_flag(state)?) };
    publication.open = is_open.then_some(open);
    publication.now = Nanos(state.number()?);
    let incoming = Rec(state.number()?);
    publication.next_rank = state.number()?;
    publication.next_reference = state.number()?;
    publication.next_locate = state.narrow()?;
    publication.crosses = state.number()?;
    publication.counts.unsayable_orders = state.number()?;
    publication.counts.strangers = state.number()?;
    for _ in 0..state.count()? {
        let (listing, locate, at) = read_instrument(state)?;
        if publication.by_id.contains_key(&listing.instrument_id) {
            return None;
        }
        let index = publication.add_instrument(listing, locate, at);
        let of = &publication.instruments[index];
        let unfit = of.fit.err().or((locate == 0).then_some(UnfitReason::TooMany));
        publication.unfit.extend(unfit.map(|why| (listing.instrument_id, why)));
    }
    let mut rec: u64 = 0;
    for _ in 0..state.count()? {
        let more = state.number()?;
        rec = rec.checked_add(more)?;
        let order = read_order(state)?;
        if more == 0 || order.instrument >= publication.instruments.len() {
            return None;
        }
        publication.add_order(Rec(rec), order);
    }
    if !incoming.is_none() {
        let order = publication.orders.get(&incoming)?;
        if order.place != OrderLocation::Incoming {
            return None;
        }
        publication.incoming = Some(incoming);
    }
    let is_sound =
        publication.is_numbered() && publication.is_of_its_day() && publication.is_sayable();
    (state.is_empty() && is_sound).then_some(publication)
}

fn put_instrument(of: &Instrument, out: &mut Vec<u8>) {
    let listing = &of.listing;
    put_number(out, listing.instrument_id.0.into());
    out.extend_from_slice(&listing.symbol.0);
    for price in [listing.tick_size, listing.price_min, listing.price_max] {
        put_signed(out, price.0);
    }
    put_number(out, listing.lot_size.0);
    put_number(out, listing.order_qty_max.0);
    put_signed(out, listing.price_exponent.into());
    out.extend_from_slice(&[listing.phase.code(), of.phase.code(), of.cause.code()]);
    put_number(out, of.locate.into());
}

fn read_instrument(state: &mut StateBytes<'_>) -> Option<(Listing, u16, PhaseNow)> {
    let instrument_id = InstrumentId(state.narrow()?);
    let symbol = Symbol(state.array()?);
    let mut price = || read_signed(state).map(Price);
    let (tick_size, price_min, price_max) = (price()?, price()?, price()?);
    let (lot_size, order_qty_max) = (Qty(state.number()?), Qty(state.number()?));
    let price_exponent = i8::try_from(read_signed(state)?).ok()?;
    let [first_phase, phase, cause] = state.array()?;
    let cause = PhaseCause::from_code(cause)?;
    let [first_phase, phase] = [first_phase, phase].map(Phase::from_code);
    let listing = Listing {
        instrument_id,
        symbol,
        tick_size,
        lot_size,
        order_qty_max,
        price_min,
        price_max,
        price_exponent,
        phase: first_phase?,
    };
    Some((listing, state.narrow()?, PhaseNow { phase: phase?, cause }))
}

fn put_order(order: &Order, out: &mut Vec<u8>) {
    put_number(out, order.instrument as u64);
    out.extend_from_slice(&[
        order.side.code(),
        order.ord_type.code(),
        order.time_in_force.code(),
        order.self_trade_prevention.code(),
        order.place as u8,
    ]);
    put_signed(out, order.price.0);
    for qty in [order.order_qty, order.leaves_qty, order.display_qty, order.shown_qty] {
        put_number(out, qty.0);
    }
    put_number(out, order.rank);
    put_number(out, order.reference);
}

fn read_order(state: &mut StateBytes<'_>) -> Option<Order> {
    let instrument = state.narrow()?;
    let [side, ord_type, time_in_force, self_trade_prevention, place] = state.array()?;
    let price = Price(read_signed(state)?);
    let mut qty = || state.number().map(Qty);
    Some(Order {
        instrument,
        side: Side::from_code(side)?,
        ord_type: OrdType::from_code(ord_type)?,
        time_in_force: TimeInForce::from_code(time_in_force)?,
        self_trade_prevention: SelfTradePrevention::from_code(self_trade_prevention)?,
        place: OrderLocation::from_code(place)?,
        price,
        order_qty: qty()?,
        leaves_qty: qty()?,
        display_qty: qty()?,
        shown_qty: qty()?,
        rank: state.number()?,
        reference: state.number()?,
    })
}

/// Appends a number whose sign is in its lowest bit.
fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, ((number << 1) ^ (number >> 63)) as u64);
}

fn read_signed(state: &mut StateBytes<'_>) -> Option<i64> {
    let number = state.number()?;
    Some((number >> 1) as i64 ^ -((number & 1) as i64))
}

fn read_flag(state: &mut StateBytes<'_>) -> Option<bool> {
    match state.number()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// Reads bytes as a publication's state, for fuzz targets: one that is read is written as the state
/// that it was read from, and can be told as a snapshot.
///
/// # Panics
/// When one of these does not hold.
pub fn fuzz_state(bytes: &[u8]) {
    struct Nowhere;
    impl super::PublishSink for Nowhere {
        fn session(&mut self, _session: weir_feed::moldudp64::MoldSession) {}
        fn message(&mut self, _message: &[u8]) {}
        fn end(&mut self) {}
    }
    let calendar = Calendar::new(weir_types::PartitionId(1), 0);
    let Ok(mut publication) = Publication::from_state(&mut StateBytes::new(bytes), calendar) else {
        return;
    };
    let (mut state, mut again) = (Vec::new(), Vec::new());
    publication.put_state(&mut state);
    let read = Publication::from_state(&mut StateBytes::new(&state), calendar);
    read.expect("it was just written").put_state(&mut again);
    assert_eq!(state, again, "a state is read as it was written");
    publication.snapshot(&mut Nowhere);
    publication.enter_epoch(Epoch(publication.epoch.0.wrapping_add(1)), &mut Nowhere);
    publication.snapshot(&mut Nowhere);
}
