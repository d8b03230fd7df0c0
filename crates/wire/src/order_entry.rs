//! What trading sessions send: new orders, replaces, cancels.
//!
//! Each request carries the session it belongs to, since one connection serves many, and the
//! session's next request number for the partition it goes to.

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
        /// When the order expires; zero unless good till date.
        expire_time: Nanos,
        /// When the client sent it, by its own clock; for its own use.
        sending_time: Nanos,
        /// The trading session.
        session_id: SessionId,
        /// What to trade.
        instrument_id: InstrumentId,
        /// For whom.
        account_id: AccountId,
        /// Buy or sell.
        side: Side,
        /// Limit, market, ...
        ord_type: OrdType,
        /// How long it stands.
        time_in_force: TimeInForce,
        /// Post-only.
        exec_inst: ExecInst,
        /// What to do about the account's own orders.
        self_trade_prevention: SelfTradePrevention,
    }

    /// Changes an order's price or total quantity.
    ReplaceOrder = 11 {
        /// The session's request number.
        request_no: RequestNo,
        /// The order's name from now on; may equal the old one.
        cl_ord_id: ClOrdId,
        /// The order's name so far; empty when `order_id` says which.
        orig_cl_ord_id: ClOrdId,
        /// The order; zero when `orig_cl_ord_id` says which.
        order_id: OrderId,
        /// The new limit price.
        price: Price,
        /// The new total quantity, what is filled already included.
        order_qty: Qty,
        /// When the client sent it, by its own clock.
        sending_time: Nanos,
        /// The trading session.
        session_id: SessionId,
        /// The order's instrument.
        instrument_id: InstrumentId,
    }

    /// Cancels what is left of an order.
    CancelOrder = 12 {
        /// The session's request number.
        request_no: RequestNo,
        /// The client's name for this request.
        cl_ord_id: ClOrdId,
        /// The order's name; empty when `order_id` says which.
        orig_cl_ord_id: ClOrdId,
        /// The order; zero when `orig_cl_ord_id` says which.
        order_id: OrderId,
        /// When the client sent it, by its own clock.
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
        /// When the client sent it, by its own clock.
        sending_time: Nanos,
        /// The trading session.
        session_id: SessionId,
        /// Only this instrument; zero for all.
        instrument_id: InstrumentId,
        /// The account, where the scope is one.
        account_id: AccountId,
        /// The firm, where the scope is one: the session's own unless it is an operator's.
        firm_id: FirmId,
        /// Which partition.
        partition_id: PartitionId,
        /// Session, account, firm or instrument.
        scope: MassCancelScope,
    }
}
