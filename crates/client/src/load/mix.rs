//! The synthetic mix of a load: adds, cancels, replaces and crosses in given shares, over a bounded
//! book.
//!
//! Adds rest at least one tick away from a fixed middle, so that they never trade by themselves;
//! crosses are immediate-or-cancel orders through the other side. An add at the limit of live
//! orders becomes a cancel, a cancel or replace without a live order an add. A share of the adds
//! may be of special kinds: stops, which are now and then triggered by the crosses' trades,
//! icebergs, orders that expire.

use std::collections::HashMap;
use std::str::FromStr;

use weir_types::{
    AccountId, ClOrdId, InstrumentId, Nanos, OrdType, PartitionId, Price, Qty, Side, TimeInForce,
};
use weir_wire::Request;
use weir_wire::event::OrderEvent;
use weir_wire::order_entry::NewOrder;

use super::Rng;
use super::arrivals::{Arrivals, Schedule};
use super::generator::OrderGenerator;
use crate::request::{LimitOrder, Replace, cancel};

/// The depth of each side of the book in ticks.
const DEPTH: u64 = 10;
/// The distance of a stop from the middle in ticks: crosses trade there when the best levels are
/// gone.
const STOP_DEPTH: u64 = 3;
/// The largest order in lots.
const LOTS_MAX: u64 = 10;

/// Shares of adds, cancels, replaces and crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// New orders that rest.
    pub adds: u32,
    /// Cancels.
    pub cancels: u32,
    /// Replaces.
    pub replaces: u32,
    /// Immediate orders that trade.
    pub crosses: u32,
}

impl Default for Mix {
    /// 45/40/5/10: the project's synthetic mix.
    fn default() -> Mix {
        Mix { adds: 45, cancels: 40, replaces: 5, crosses: 10 }
    }
}

impl FromStr for Mix {
    type Err = String;

    /// Parses `ADDS/CANCELS/REPLACES/CROSSES`, any weights.
    fn from_str(text: &str) -> Result<Mix, String> {
        let weights: Option<Vec<u32>> = text.split('/').map(|w| w.parse().ok()).collect();
        match weights.as_deref() {
            Some(&[adds, cancels, replaces, crosses]) if adds > 0 => {
                Ok(Mix { adds, cancels, replaces, crosses })
            }
            _ => Err(format!("mix {text:?}: want ADDS/CANCELS/REPLACES/CROSSES with some adds")),
        }
    }
}

impl std::fmt::Display for Mix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}/{}", self.adds, self.cancels, self.replaces, self.crosses)
    }
}

/// The number per hundred adds of each kind; the rest are plain limit orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Stop orders, half of them stop-limit orders.
    pub stops: u32,
    /// Orders with a display quantity.
    pub icebergs: u32,
    /// Orders that expire after [`EXPIRY`].
    pub gtd: u32,
    /// Immediate orders that are not crosses: they meet no order and end.
    pub ioc: u32,
}

/// The lifetime of an order that expires.
pub const EXPIRY: Nanos = Nanos(1_000_000_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Stop,
    StopLimit,
    Iceberg,
    Gtd,
    Ioc,
}

impl Kinds {
    /// Draws from the random stream only if a special kind is configured: without one, the sequence
    /// of orders of a seed is unchanged.
    fn draw(&self, rng: &mut Rng) -> Kind {
        if *self == Kinds::default() {
            return Kind::Plain;
        }
        let mut left = rng.below(100);
        for (kind, share) in [
            (if left.is_multiple_of(2) { Kind::Stop } else { Kind::StopLimit }, self.stops),
            (Kind::Iceberg, self.icebergs),
            (Kind::Gtd, self.gtd),
            (Kind::Ioc, self.ioc),
        ] {
            match left.checked_sub(u64::from(share)) {
                None => return kind,
                Some(rest) => left = rest,
            }
        }
        Kind::Plain
    }
}

impl FromStr for Kinds {
    type Err = String;

    /// Parses `stops=5,icebergs=10,gtd=5,ioc=0`: any of them, together at most 100.
    fn from_str(text: &str) -> Result<Kinds, String> {
        let mut kinds = Kinds::default();
        for part in text.split(',') {
            let wrong = || format!("kinds {part:?}: want stops=N, icebergs=N, gtd=N or ioc=N");
            let (name, share) = part.split_once('=').ok_or_else(wrong)?;
            let share: u32 = share.parse().map_err(|_| wrong())?;
            let place = match name {
                "stops" => &mut kinds.stops,
                "icebergs" => &mut kinds.icebergs,
                "gtd" => &mut kinds.gtd,
                "ioc" => &mut kinds.ioc,
                _ => return Err(wrong()),
            };
            *place = share;
        }
        let shares = [kinds.stops, kinds.icebergs, kinds.gtd, kinds.ioc];
        match shares.iter().try_fold(0u32, |sum, share| sum.checked_add(*share)) {
            Some(0..=100) => Ok(kinds),
            _ => Err(format!("kinds {text:?}: the shares are more than 100 of a hundred")),
        }
    }
}

impl std::fmt::Display for Kinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Kinds { stops, icebergs, gtd, ioc } = self;
        write!(f, "stops={stops},icebergs={icebergs},gtd={gtd},ioc={ioc}")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Add,
    Cancel,
    Replace,
    Cross,
}

impl Mix {
    fn draw(&self, rng: &mut Rng) -> Action {
        let weights = [
            (Action::Add, self.adds),
            (Action::Cancel, self.cancels),
            (Action::Replace, self.replaces),
            (Action::Cross, self.crosses),
        ];
        let total: u64 = weights.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let mut left = rng.below(total);
        for (action, weight) in weights {
            match left.checked_sub(u64::from(weight)) {
                None => return action,
                Some(rest) => left = rest,
            }
        }
        unreachable!("the draw is below the sum of the weights")
    }
}

/// An instrument that a load trades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The partition that trades it.
    pub partition_id: PartitionId,
    /// Prices are multiples of this.
    pub tick_size: Price,
    /// Quantities are multiples of this.
    pub lot_size: Qty,
    /// The price that no resting order of the load has: bids below, asks above.
    pub middle: Price,
}

#[derive(Clone, Copy, Debug)]
struct Resting {
    name: u64,
    listing: u32,
    side: Side,
    /// True for a stop order, whose price a replace may not change.
    keeps_price: bool,
}

/// A mix as a source of orders: the traders take turns, at the schedule's due times.
#[derive(Debug)]
pub struct MixSource {
    mix: Mix,
    kinds: Kinds,
    listings: Vec<Listing>,
    schedule: Schedule,
    orders: Vec<Orders>,
    rng: Rng,
    turn: usize,
}

impl MixSource {
    /// Creates a source for traders of these accounts, each with at most `live_count_max` live
    /// orders.
    ///
    /// # Panics
    /// Without accounts, listings or live orders.
    #[must_use]
    pub fn new(
        mix: Mix,
        listings: Vec<Listing>,
        accounts: &[AccountId],
        live_count_max: usize,
    ) -> MixSource {
        assert!(!accounts.is_empty() && !listings.is_empty(), "a load has traders and instruments");
        // Names count up from the time of day, so that they differ from an earlier run's.
        let first_name = crate::clock::unix_time().0;
        let orders = |account_id: &AccountId| Orders::new(*account_id, live_count_max, first_name);
        let orders = accounts.iter().map(orders).collect();
        let schedule = Schedule::new(Arrivals::Uniform, 1.0, 0);
        let (kinds, rng) = (Kinds::default(), Rng::new(0));
        MixSource { mix, kinds, listings, schedule, orders, rng, turn: 0 }
    }

    /// Sets the kinds of adds other than plain ones.
    #[must_use]
    pub fn with_kinds(mut self, kinds: Kinds) -> MixSource {
        self.kinds = kinds;
        for orders in &mut self.orders {
            orders.kinds = kinds;
        }
        self
    }

    /// Begins a run: due times start over, live orders stay.
    pub fn begin(&mut self, schedule: Schedule, seed: u64) {
        self.schedule = schedule;
        self.rng = Rng::new(seed);
    }
}

impl OrderGenerator for MixSource {
    #[inline]
    fn peek(&self) -> Option<Nanos> {
        Some(self.schedule.peek())
    }

    #[inline]
    fn next(&mut self) -> (usize, PartitionId, Request) {
        self.schedule.advance();
        let trader = self.turn % self.orders.len();
        self.turn = self.turn.wrapping_add(1);
        let orders = &mut self.orders[trader];
        let (partition_id, request) = orders.next(&self.mix, &self.listings, &mut self.rng);
        (trader, partition_id, request)
    }

    fn on_report(&mut self, trader: usize, event: &OrderEvent) {
        self.orders[trader].on_report(event);
    }
}

/// One session's orders.
#[derive(Debug)]
pub struct Orders {
    account_id: AccountId,
    kinds: Kinds,
    live_count_max: usize,
    next_name: u64,
    live: Vec<Resting>,
    places: HashMap<u64, usize>,
}

impl Orders {
    /// Creates an empty set of orders; names count up from `first_name`, so that a run can follow
    /// another.
    ///
    /// # Panics
    /// When no order may be live.
    #[must_use]
    pub fn new(account_id: AccountId, live_count_max: usize, first_name: u64) -> Orders {
        assert!(live_count_max > 0, "a book needs orders");
        let (live, places) = (Vec::new(), HashMap::new());
        let kinds = Kinds::default();
        Orders { account_id, kinds, live_count_max, next_name: first_name, live, places }
    }

    /// The number of resting orders, by the reports received.
    #[must_use]
    pub fn live_count(&self) -> usize {
        self.live.len()
    }

    /// Returns the next request and its partition.
    ///
    /// # Panics
    /// When there are no listings.
    #[inline]
    pub fn next(
        &mut self,
        mix: &Mix,
        listings: &[Listing],
        rng: &mut Rng,
    ) -> (PartitionId, Request) {
        let action = match mix.draw(rng) {
            Action::Add if self.live.len() >= self.live_count_max => Action::Cancel,
            Action::Cancel | Action::Replace if self.live.is_empty() => Action::Add,
            action => action,
        };
        match action {
            Action::Add => self.add(listings, rng),
            Action::Cross => self.cross(listings, rng),
            Action::Cancel => {
                let resting = self.live[rng.below(self.live.len() as u64) as usize];
                self.forget(resting.name);
                let listing = &listings[resting.listing as usize];
                let name = self.name();
                let orig = ClOrdId::from_number(resting.name);
                let request = cancel(ClOrdId::from_number(name), orig, listing.instrument_id);
                (listing.partition_id, request)
            }
            Action::Replace => {
                let resting = self.live[rng.below(self.live.len() as u64) as usize];
                let listing = &listings[resting.listing as usize];
                let name = ClOrdId::from_number(resting.name);
                let replace = Replace {
                    cl_ord_id: name,
                    orig_cl_ord_id: name,
                    instrument_id: listing.instrument_id,
                    price: match resting.keeps_price {
                        true => Price(0),
                        false => passive_price(listing, resting.side, rng),
                    },
                    order_qty: quantity(listing, rng),
                };
                (listing.partition_id, replace.request())
            }
        }
    }

    fn name(&mut self) -> u64 {
        let name = self.next_name;
        self.next_name += 1;
        name
    }

    fn add(&mut self, listings: &[Listing], rng: &mut Rng) -> (PartitionId, Request) {
        let index = rng.below(listings.len() as u64);
        let listing = &listings[index as usize];
        let side = draw_side(rng);
        let name = self.name();
        let kind = self.kinds.draw(rng);
        let listing_no = u32::try_from(index).expect("fewer listings than 2^32");
        if kind != Kind::Ioc {
            let keeps_price = kind == Kind::Stop;
            self.places.insert(name, self.live.len());
            self.live.push(Resting { name, listing: listing_no, side, keeps_price });
        }
        let order = LimitOrder {
            cl_ord_id: ClOrdId::from_number(name),
            instrument_id: listing.instrument_id,
            account_id: self.account_id,
            side,
            price: passive_price(listing, side, rng),
            order_qty: quantity(listing, rng),
            time_in_force: TimeInForce::Gtc,
        };
        (listing.partition_id, of_kind(order.new_order(), kind, listing))
    }

    fn cross(&mut self, listings: &[Listing], rng: &mut Rng) -> (PartitionId, Request) {
        let listing = &listings[rng.below(listings.len() as u64) as usize];
        let side = draw_side(rng);
        let order = LimitOrder {
            cl_ord_id: ClOrdId::from_number(self.name()),
            instrument_id: listing.instrument_id,
            account_id: self.account_id,
            side,
            price: price_at(listing, side.opposite(), DEPTH),
            order_qty: quantity(listing, rng),
            time_in_force: TimeInForce::Ioc,
        };
        (listing.partition_id, order.request())
    }

    /// Removes an order that has ended by this report.
    #[inline]
    pub fn on_report(&mut self, event: &OrderEvent) {
        if !event.ord_status.is_live()
            && let Some(name) = event.cl_ord_id.to_number()
        {
            self.forget(name);
        }
    }

    fn forget(&mut self, name: u64) {
        let Some(place) = self.places.remove(&name) else { return };
        self.live.swap_remove(place);
        if let Some(moved) = self.live.get(place) {
            self.places.insert(moved.name, place);
        }
    }
}

/// Converts a plain resting order to another kind. A stop's trigger price is on the far side of the
/// middle, where the trades of crosses reach it.
fn of_kind(mut order: NewOrder, kind: Kind, listing: &Listing) -> Request {
    let stop_px = price_at(listing, order.side.opposite(), STOP_DEPTH);
    match kind {
        Kind::Plain => {}
        Kind::Stop => {
            (order.ord_type, order.price, order.stop_px) = (OrdType::Stop, Price(0), stop_px);
        }
        Kind::StopLimit => (order.ord_type, order.stop_px) = (OrdType::StopLimit, stop_px),
        Kind::Iceberg => order.display_qty = listing.lot_size,
        Kind::Gtd => {
            order.time_in_force = TimeInForce::Gtd;
            order.expire_time = Nanos(crate::clock::unix_time().0.saturating_add(EXPIRY.0));
        }
        Kind::Ioc => order.time_in_force = TimeInForce::Ioc,
    }
    Request::NewOrder(order)
}

fn draw_side(rng: &mut Rng) -> Side {
    if rng.below(2) == 0 { Side::Buy } else { Side::Sell }
}

fn quantity(listing: &Listing, rng: &mut Rng) -> Qty {
    Qty(listing.lot_size.0 * (1 + rng.below(LOTS_MAX)))
}

fn passive_price(listing: &Listing, side: Side, rng: &mut Rng) -> Price {
    price_at(listing, side, 1 + rng.below(DEPTH))
}

/// The price `ticks` away from the middle, on the side where `side` rests.
fn price_at(listing: &Listing, side: Side, ticks: u64) -> Price {
    let away = listing.tick_size.0 * i64::try_from(ticks).expect("a few ticks");
    match side {
        Side::Buy => Price(listing.middle.0 - away),
        Side::Sell => Price(listing.middle.0 + away),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing() -> Listing {
        Listing {
            instrument_id: InstrumentId(1),
            partition_id: PartitionId(1),
            tick_size: Price(5),
            lot_size: Qty(100),
            middle: Price(10_000),
        }
    }

    #[test]
    fn shares_are_as_asked_and_the_book_stays_bounded() {
        let mut orders = Orders::new(AccountId(1), 50, 1);
        let (mix, mut rng) = (Mix::default(), Rng::new(7));
        let mut counts = [0u32; 4];
        for _ in 0..100_000 {
            let (_, request) = orders.next(&mix, &[listing()], &mut rng);
            let kind = match request {
                Request::NewOrder(order) if order.time_in_force == TimeInForce::Ioc => 3,
                Request::NewOrder(_) => 0,
                Request::CancelOrder(_) => 1,
                Request::ReplaceOrder(_) => 2,
                other => panic!("{other:?}"),
            };
            counts[kind] += 1;
            assert!(orders.live_count() <= 50);
        }
        // Adds over the limit become cancels: both shares end up halfway between the two.
        assert!(counts[0].abs_diff(42_500) < 1_500 && counts[1].abs_diff(42_500) < 1_500);
        assert!(counts[2].abs_diff(5_000) < 500 && counts[3].abs_diff(10_000) < 500, "{counts:?}");
    }

    #[test]
    fn resting_orders_keep_to_their_side_on_tick_and_lot() {
        let mut orders = Orders::new(AccountId(1), 1_000, 1);
        let (mix, mut rng) = ("1/0/1/0".parse().unwrap(), Rng::new(3));
        for _ in 0..10_000 {
            let (side, price, qty) = match orders.next(&mix, &[listing()], &mut rng).1 {
                Request::NewOrder(order) => (order.side, order.price.0, order.order_qty.0),
                Request::ReplaceOrder(replace) => {
                    let name = replace.cl_ord_id.to_number().unwrap();
                    let side = orders.live[orders.places[&name]].side;
                    (side, replace.price.0, replace.order_qty.0)
                }
                // The book is full: an add became a cancel.
                Request::CancelOrder(_) => continue,
                other => panic!("{other:?}"),
            };
            assert_eq!((price % 5, qty % 100), (0, 0));
            assert_eq!(price < 10_000, side == Side::Buy);
        }
    }

    #[test]
    fn kinds_come_in_their_shares_and_each_is_an_order_that_is_served() {
        let mut orders = Orders::new(AccountId(1), 100_000, 1);
        orders.kinds = "stops=10,icebergs=20,gtd=5,ioc=15".parse().unwrap();
        let (mix, mut rng) = ("1/0/0/0".parse().unwrap(), Rng::new(5));
        let mut counts = [0i32; 6];
        for _ in 0..10_000 {
            let Request::NewOrder(order) = orders.next(&mix, &[listing()], &mut rng).1 else {
                panic!("only adds were asked for");
            };
            let is_stop = matches!(order.ord_type, OrdType::Stop | OrdType::StopLimit);
            assert_eq!(order.stop_px != Price(0), is_stop);
            assert_eq!(order.price == Price(0), order.ord_type == OrdType::Stop);
            assert_eq!(order.expire_time != Nanos(0), order.time_in_force == TimeInForce::Gtd);
            assert!(order.display_qty <= order.order_qty);
            let kind = match (order.ord_type, order.time_in_force) {
                (OrdType::Stop, _) => 0,
                (OrdType::StopLimit, _) => 1,
                (_, TimeInForce::Gtd) => 2,
                (_, TimeInForce::Ioc) => 3,
                _ if order.display_qty > Qty::ZERO => 4,
                _ => 5,
            };
            counts[kind] += 1;
        }
        for (count, want) in counts.into_iter().zip([500, 500, 500, 1_500, 2_000, 5_000]) {
            assert!((count - want).abs() < 200, "{counts:?}");
        }
    }

    #[test]
    fn kinds_read_back_and_nonsense_is_refused() {
        let kinds: Kinds = "icebergs=30,stops=5".parse().unwrap();
        assert_eq!(kinds.to_string().parse(), Ok(kinds));
        for text in ["", "stops", "stops=x", "stop=1", "stops=60,ioc=41", "gtd=4294967295,ioc=2"] {
            assert!(text.parse::<Kinds>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn mixes_read_back_and_nonsense_is_refused() {
        assert_eq!("45/40/5/10".parse::<Mix>().unwrap(), Mix::default());
        assert_eq!(Mix::default().to_string(), "45/40/5/10");
        for text in ["", "1/2/3", "0/1/1/1", "a/b/c/d"] {
            assert!(text.parse::<Mix>().is_err(), "{text:?}");
        }
    }
}
