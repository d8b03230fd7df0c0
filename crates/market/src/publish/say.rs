//! The messages of a publication, built from its state.

use weir_feed::itch::encode::{
    AddOrder, BrokenTrade, CrossTrade, Header, NetOrderImbalance, OrderCancel, OrderDelete,
    OrderExecuted, OrderExecutedWithPrice, OrderReplace, StockDirectory, StockTradingAction,
    SystemEvent, Trade,
};
use weir_feed::phase_reason::reason_of;
use weir_types::{MatchId, Phase, Qty, Side};

use super::fit::Fit;
use super::orders::Order;
use super::publication::{Instrument, Publication};
use super::{PublishSink, Uncross};

/// The bit added to the number of a cross, to keep it apart from those of trades.
const CROSS: u64 = 1 << 62;

/// An order's shown quantity and price in ITCH's form.
struct Sayable<'a> {
    fit: &'a Fit,
    shares: u32,
    price: u32,
}

impl Publication {
    fn header(&self, stock_locate: u16) -> Header {
        let timestamp = self.now.0.saturating_sub(self.midnight().0);
        Header { stock_locate, tracking_number: 0, timestamp }
    }

    pub(super) fn say_system(&self, event_code: u8, out: &mut impl PublishSink) {
        out.message(&SystemEvent { event_code }.to_bytes(&self.header(0)));
    }

    pub(super) fn say_directory(&self, of: &Instrument, fit: &Fit, out: &mut impl PublishSink) {
        let message = StockDirectory {
            stock: fit.stock,
            market_category: b' ',
            financial_status: b' ',
            round_lot_size: u32::try_from(of.listing.lot_size.0).unwrap_or(u32::MAX),
            round_lots_only: b'Y',
            issue_classification: b'Q',
            issue_sub_type: *b"Z ",
            authenticity: b'P',
            short_sale_threshold: b' ',
            ipo_flag: b' ',
            luld_reference_price_tier: b' ',
            etp_flag: b' ',
            etp_leverage_factor: 0,
            inverse_indicator: b'N',
        };
        out.message(&message.to_bytes(&self.header(of.locate)));
    }

    pub(super) fn say_state(&self, of: &Instrument, fit: &Fit, out: &mut impl PublishSink) {
        let trading_state = match of.phase {
            Phase::Closed | Phase::Halted => b'H',
            Phase::Continuous => b'T',
            Phase::OpeningCall | Phase::ClosingCall => b'Q',
            Phase::VolatilityCall => b'P',
        };
        let reason = reason_of(of.phase, of.cause);
        let message =
            StockTradingAction { stock: fit.stock, trading_state, reserved: b' ', reason };
        out.message(&message.to_bytes(&self.header(of.locate)));
    }

    /// Publishes that the instrument under this symbol no longer exists.
    pub(super) fn say_gone(&self, of: &Instrument, fit: &Fit, out: &mut impl PublishSink) {
        let message = StockTradingAction {
            stock: fit.stock,
            trading_state: b'H',
            reserved: b' ',
            reason: *b"GONE",
        };
        out.message(&message.to_bytes(&self.header(of.locate)));
    }

    /// Publishes an order under its new reference; returns false when ITCH cannot represent it.
    pub(super) fn say_add(&self, order: &Order, out: &mut impl PublishSink) -> bool {
        let of = &self.instruments[order.instrument];
        let Some(Sayable { fit, shares, price }) = of.sayable(order) else { return false };
        let message = AddOrder {
            order_reference: order.reference,
            side: if order.side == Side::Buy { b'B' } else { b'S' },
            shares,
            stock: fit.stock,
            price,
        };
        out.message(&message.to_bytes(&self.header(of.locate)));
        true
    }

    /// Publishes the replacement of order `original`; returns false when ITCH cannot represent it.
    pub(super) fn say_replace(
        &self,
        original: u64,
        order: &Order,
        out: &mut impl PublishSink,
    ) -> bool {
        let of = &self.instruments[order.instrument];
        let Some(Sayable { shares, price, .. }) = of.sayable(order) else { return false };
        let message = OrderReplace {
            original_order_reference: original,
            new_order_reference: order.reference,
            shares,
            price,
        };
        out.message(&message.to_bytes(&self.header(of.locate)));
        true
    }

    pub(super) fn say_delete(&self, order: &Order, out: &mut impl PublishSink) {
        let message = OrderDelete { order_reference: order.reference };
        let locate = self.instruments[order.instrument].locate;
        out.message(&message.to_bytes(&self.header(locate)));
    }

    pub(super) fn say_cancel(&self, order: &Order, qty: Qty, out: &mut impl PublishSink) {
        let Ok(cancelled_shares) = u32::try_from(qty.0) else { return };
        let message = OrderCancel { order_reference: order.reference, cancelled_shares };
        let locate = self.instruments[order.instrument].locate;
        out.message(&message.to_bytes(&self.header(locate)));
    }

    /// Publishes a trade of a shown order at its price.
    pub(super) fn say_executed(
        &self,
        order: &Order,
        qty: Qty,
        match_id: MatchId,
        out: &mut impl PublishSink,
    ) {
        let Ok(executed_shares) = u32::try_from(qty.0) else { return };
        let (order_reference, match_number) = (order.reference, match_id.0);
        let message = OrderExecuted { order_reference, executed_shares, match_number };
        let locate = self.instruments[order.instrument].locate;
        out.message(&message.to_bytes(&self.header(locate)));
    }

    /// Publishes a trade of an order's shown quantity in a call, whose cross reports the volume.
    pub(super) fn say_crossed(
        &self,
        order: &Order,
        qty: Qty,
        execution_price: u32,
        match_id: MatchId,
        out: &mut impl PublishSink,
    ) {
        let Ok(executed_shares) = u32::try_from(qty.0) else { return };
        let message = OrderExecutedWithPrice {
            order_reference: order.reference,
            executed_shares,
            match_number: match_id.0,
            printable: b'N',
            execution_price,
        };
        let locate = self.instruments[order.instrument].locate;
        out.message(&message.to_bytes(&self.header(locate)));
    }

    /// Publishes a trade with an order that is not shown.
    pub(super) fn say_trade(
        &self,
        of: &Instrument,
        shares: u32,
        price: u32,
        match_id: MatchId,
        out: &mut impl PublishSink,
    ) {
        let Some(fit) = of.published() else { return };
        let message = Trade {
            order_reference: 0,
            side: b'B',
            shares,
            stock: fit.stock,
            price,
            match_number: match_id.0,
        };
        out.message(&message.to_bytes(&self.header(of.locate)));
    }

    /// Publishes the result of a call: the imbalance and the cross; without trades, a cross of zero
    /// shares. `number` counts the session's crosses.
    pub(super) fn say_cross(
        &self,
        of: &Instrument,
        uncross: &Uncross,
        number: u64,
        out: &mut impl PublishSink,
    ) {
        let Some(fit) = of.published() else { return };
        let Some(cross_price) = fit.scale.price(uncross.price) else { return };
        let cross_type = match of.phase {
            Phase::OpeningCall | Phase::Closed => b'O',
            Phase::ClosingCall => b'C',
            Phase::Continuous | Phase::Halted | Phase::VolatilityCall => b'H',
        };
        if !uncross.qty.is_zero() {
            let imbalance_direction = match uncross.surplus.signum() {
                1 => b'B',
                -1 => b'S',
                _ => b'N',
            };
            let message = NetOrderImbalance {
                paired_shares: uncross.qty.0,
                imbalance_shares: uncross.surplus.unsigned_abs(),
                imbalance_direction,
                stock: fit.stock,
                far_price: 0,
                near_price: cross_price,
                current_reference_price: cross_price,
                cross_type,
                price_variation: b'L',
            };
            out.message(&message.to_bytes(&self.header(of.locate)));
        }
        let message = CrossTrade {
            shares: uncross.qty.0,
            stock: fit.stock,
            cross_price,
            match_number: CROSS | number,
            cross_type,
        };
        out.message(&message.to_bytes(&self.header(of.locate)));
    }

    pub(super) fn say_broken(
        &self,
        of: &Instrument,
        match_id: MatchId,
        out: &mut impl PublishSink,
    ) {
        if of.published().is_some() {
            let message = BrokenTrade { match_number: match_id.0 };
            out.message(&message.to_bytes(&self.header(of.locate)));
        }
    }
}

impl Instrument {
    /// Returns the form of the instrument in ITCH, if it is published in this session.
    pub(super) fn published(&self) -> Option<&Fit> {
        self.fit.as_ref().ok().filter(|_| self.locate != 0)
    }

    /// Returns true when ITCH can represent an order.
    pub(super) fn is_sayable(&self, order: &Order) -> bool {
        self.sayable(order).is_some()
    }

    /// Returns an order in ITCH's form, if ITCH can represent it.
    fn sayable(&self, order: &Order) -> Option<Sayable<'_>> {
        let fit = self.published()?;
        let shares = u32::try_from(order.shown_qty.0).ok()?;
        Some(Sayable { fit, shares, price: fit.scale.price(order.price)? })
    }
}
