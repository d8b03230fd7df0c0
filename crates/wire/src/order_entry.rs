//! Order entry: new orders, replaces, cancels.
//!
//! Each request carries its session, since one connection serves many, and the session's next
//! request number for the partition that the request goes to.

use weir_types::{
    AccountId, ClOrdId, ExecInst, FirmId, InstrumentId, MassCancelScope, Nanos, OrdType, OrderId,
    PartitionId, Price, Qty, RequestNo, SelfTradePrevention, SessionId, Side, TimeInForce,
};

use crate::message::messages;

messages! {
    /// Enters an order.
    NewOrder = 10 {
        /// The session's request number.
        request_no: RequestNo,
        /// The client's name for the order.
        cl_ord_id: ClOrdId,
        /// The limit price; zero for a market order.
        price: Price,
        /// Lots to trade.
        order_qty: Qty,
        /// Lots that must trade at once; zero for no minimum.
        min_qty: Qty,
        /// Lots to show; zero shows all.
        display_qty: Qty,
        /// The stop price; zero when there is none.
        stop_px: Price,
        /// The expiry time; zero unless good till date.
        expire_time: Nanos,
        /// The client's sending time, by its own clock; for the client's own use.
        sending_time: Nanos,
        /// The trading session.
        session_id: SessionId,
        /// The instrument.
        instrument_id: InstrumentId,
        /// The account.
        account_id: AccountId,
        /// Buy or sell.
        side: Side,
        /// Limit, market, ...
        ord_type: OrdType,
        /// The order's lifetime: day, GTC, IOC, FOK, ...
        time_in_force: TimeInForce,
        /// Post-only.
        exec_inst: ExecInst,
        /// The action on a match with an order of the same account.
        self_trade_prevention: SelfTradePrevention,
    }

    /// Changes an order's price or total quantity.
    ReplaceOrder = 11 {
        /// The session's request number.
        request_no: RequestNo,
        /// The order's name from now on; may equal the old one.
        cl_ord_id: ClOrdId,
        /// The order's current name; empty when `order_id` names the order.
        orig_cl_ord_id: ClOrdId,
        /// The order; zero when `orig_cl_ord_id` names it.
        order_id: OrderId,
        /// The new limit price.
        price: Price,
        /// The new total quantity, including the quantity already filled.
        order_qty: Qty,
        /// The client's sending time, by its own clock.
        sending_time: Nanos,
        /// The trading session.
        session_id: SessionId,
        /// The order's instrument.
        instrument_id: InstrumentId,
    }

    /// Cancels the remainder of an order.
    CancelOrder = 12 {
        /// The session's request number.
        request_no: RequestNo,
        /// The client's name for this request.
        cl_ord_id: ClOrdId,
        /// The order's name; empty when `order_id` names the order.
        orig_cl_ord_id: ClOrdId,
        /// The order; zero when `orig_cl_ord_id` names it.
        order_id: OrderId,
        /// The client's sending time, by its own clock.
        sending_time: Nanos,
        /// The trading session.
        session_id: SessionId,
        /// The order's instrument.
        instrument_id: InstrumentId,
    }

    /// Cancels many orders of one partition.
    MassCancel = 13 {
        /// The session's request number.
        request_no: RequestNo,
        /// The client's name for this request.
        cl_ord_id: ClOrdId,
        /// The client's sending time, by its own clock.
        sending_time: Nanos,
        /// The trading session.
        session_id: SessionId,
        /// Only this instrument; zero for all.
        instrument_id: InstrumentId,
        /// The account, if the scope is one.
        account_id: AccountId,
        /// The firm, if the scope is one: the session's own, except for an operator.
        firm_id: FirmId,
        /// The partition.
        partition_id: PartitionId,
        /// Session, account, firm or instrument.
        scope: MassCancelScope,
    }
}
