//! Converts the partition's events to the input of a publication. The owners and client ids of
//! orders are dropped here, and the operators of changes of phase.

use weir_feed::session_name::Calendar;
use weir_market::publish::{
    Listing, OrderChange, PhaseNow, Publication, PublishSink, StandingOrder, StandingPlace, Uncross,
};
use weir_types::{Epoch, Nanos, PartitionId, Side};
use weir_wire::event::OrderEvent;
use weir_wire::reference::DefineInstrument;
use weir_wire::{Definition, Event, PlainEvent};

/// A market at a moment, from which a publication begins when its events of before are not known.
pub struct StandingMarket<I, O> {
    /// The time of the newest event with public content ([`published_time`]).
    pub time: Nanos,
    /// The epoch of the newest event.
    pub epoch: Epoch,
    /// The instruments of the partition, with their phases and the causes of these.
    pub instruments: I,
    /// The live orders with their places, in time priority where they are at one price.
    pub orders: O,
}

impl<I, O> StandingMarket<I, O>
where
    I: IntoIterator<Item = (DefineInstrument, PhaseNow)>,
    O: IntoIterator<Item = (OrderEvent, StandingPlace)>,
{
    /// Returns its publication, which publishes nothing before the next epoch.
    #[must_use]
    pub fn publication(self, calendar: Calendar) -> Publication {
        let StandingMarket { time, epoch, instruments, orders } = self;
        let listings = instruments.into_iter().map(|(of, at)| (listing_of(&of), at));
        let orders = orders.into_iter();
        let orders = orders.map(|(event, place)| StandingOrder { state: change_of(&event), place });
        Publication::new(calendar, epoch).with_market(time, listings, orders)
    }
}

/// Publishes the public content of an event of `partition`; most events have none.
pub fn publish_event(
    publication: &mut Publication,
    partition: PartitionId,
    event: &Event,
    out: &mut impl PublishSink,
) {
    match event {
        Event::Plain(PlainEvent::OrderEvent(event)) => publication.order(&change_of(event), out),
        Event::Plain(PlainEvent::PhaseChanged(event)) => {
            // The operator's session is dropped here.
            let at = PhaseNow { phase: event.phase, cause: event.cause };
            publication.phase(event.transact_time, event.instrument_id, at, out);
        }
        Event::Plain(PlainEvent::Uncrossed(event)) => {
            let uncross = Uncross {
                time: event.transact_time,
                instrument_id: event.instrument_id,
                price: event.price,
                qty: event.qty,
                surplus: event.surplus,
            };
            publication.uncrossed(&uncross, out);
        }
        // A bust is reported once to each side; the buyer's report is published.
        Event::Plain(PlainEvent::TradeBusted(event)) if event.side == Side::Buy => {
            publication.bust(event.transact_time, event.instrument_id, event.match_id, out);
        }
        Event::Defined(defined, Definition::DefineInstrument(definition))
            if definition.partition_id == partition =>
        {
            publication.define(defined.transact_time, &listing_of(definition), out);
        }
        Event::Plain(_) | Event::Defined(..) => {}
    }
}

/// Returns the log time to which an event of `partition` takes a publication; `None` for one that
/// has no public content.
#[must_use]
pub fn published_time(partition: PartitionId, event: &Event) -> Option<Nanos> {
    match event {
        Event::Plain(PlainEvent::OrderEvent(event)) => {
            (!event.rec.is_none()).then_some(event.transact_time)
        }
        Event::Plain(PlainEvent::PhaseChanged(event)) => Some(event.transact_time),
        Event::Plain(PlainEvent::Uncrossed(event)) => Some(event.transact_time),
        Event::Plain(PlainEvent::TradeBusted(event)) => {
            (event.side == Side::Buy).then_some(event.transact_time)
        }
        Event::Defined(defined, Definition::DefineInstrument(definition)) => {
            (definition.partition_id == partition).then_some(defined.transact_time)
        }
        Event::Plain(_) | Event::Defined(..) => None,
    }
}

fn change_of(event: &OrderEvent) -> OrderChange {
    OrderChange {
        time: event.transact_time,
        rec: event.rec,
        instrument_id: event.instrument_id,
        side: event.side,
        ord_type: event.ord_type,
        time_in_force: event.time_in_force,
        self_trade_prevention: event.self_trade_prevention,
        exec_type: event.exec_type,
        price: event.price,
        order_qty: event.order_qty,
        leaves_qty: event.leaves_qty,
        display_qty: event.display_qty,
        last_px: event.last_px,
        last_qty: event.last_qty,
        match_id: event.match_id,
        liquidity: event.liquidity,
    }
}

fn listing_of(definition: &DefineInstrument) -> Listing {
    Listing {
        instrument_id: definition.instrument_id,
        symbol: definition.symbol,
        tick_size: definition.tick_size,
        lot_size: definition.lot_size,
        order_qty_max: definition.order_qty_max,
        price_min: definition.price_min,
        price_max: definition.price_max,
        price_exponent: definition.price_exponent,
        phase: definition.phase,
    }
}
