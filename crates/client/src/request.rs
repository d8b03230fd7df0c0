//! Making requests: the number and session of any request, and short ways to the common ones.
//!
//! Nothing here sends; the values go to [`Session::submit`](crate::session::Session::submit).

use weir_types::{
    AccountId, ClOrdId, ExecInst, InstrumentId, Nanos, OrdType, OrderId, Price, Qty, RequestNo,
    SelfTradePrevention, SessionId, Side, TimeInForce,
};
use weir_wire::Request;
use weir_wire::order_entry::{CancelOrder, NewOrder, ReplaceOrder};

/// The request with its session and number set.
#[must_use]
pub fn stamp(mut request: Request, session_id: SessionId, request_no: RequestNo) -> Request {
    macro_rules! set {
        ($($variant:ident)*) => {
            match &mut request {
                $(Request::$variant(message) => {
                    message.session_id = session_id;
                    message.request_no = request_no;
                })*
            }
        };
    }
    set!(
        NewOrder ReplaceOrder CancelOrder MassCancel Transfer SetPhase KillSwitch BustTrade
        SchedulePhase DefineInstrument DefineFirm DefineAccount DefineSession
    );
    request
}

/// What most limit orders differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOrder {
    /// The client's name for it.
    pub cl_ord_id: ClOrdId,
    /// What to trade.
    pub instrument_id: InstrumentId,
    /// For whom.
    pub account_id: AccountId,
    /// Buy or sell.
    pub side: Side,
    /// The limit price.
    pub price: Price,
    /// Lots to trade.
    pub order_qty: Qty,
    /// How long it stands.
    pub time_in_force: TimeInForce,
}

impl LimitOrder {
    /// The request: no minimum, all shown, no flag, no self-trade prevention.
    #[must_use]
    pub fn request(self) -> Request {
        Request::NewOrder(self.new_order())
    }

    /// The same as a value, to change what a limit order need not say: a stop price, what is
    /// shown, when it expires.
    #[must_use]
    pub fn new_order(self) -> NewOrder {
        NewOrder {
            request_no: RequestNo::NONE,
            cl_ord_id: self.cl_ord_id,
            price: self.price,
            order_qty: self.order_qty,
            min_qty: Qty::ZERO,
            display_qty: Qty::ZERO,
            stop_px: Price(0),
            expire_time: Nanos(0),
            sending_time: Nanos(0),
            session_id: SessionId::NONE,
            instrument_id: self.instrument_id,
            account_id: self.account_id,
            side: self.side,
            ord_type: OrdType::Limit,
            time_in_force: self.time_in_force,
            exec_inst: ExecInst::NONE,
            self_trade_prevention: SelfTradePrevention::None,
        }
    }
}

/// A cancel of the order named `orig_cl_ord_id`.
#[must_use]
pub fn cancel(cl_ord_id: ClOrdId, orig_cl_ord_id: ClOrdId, instrument_id: InstrumentId) -> Request {
    Request::CancelOrder(CancelOrder {
        request_no: RequestNo::NONE,
        cl_ord_id,
        orig_cl_ord_id,
        order_id: OrderId::NONE,
        sending_time: Nanos(0),
        session_id: SessionId::NONE,
        instrument_id,
    })
}

/// What a replace changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replace {
    /// The order's name from now on.
    pub cl_ord_id: ClOrdId,
    /// The order's name so far.
    pub orig_cl_ord_id: ClOrdId,
    /// The order's instrument.
    pub instrument_id: InstrumentId,
    /// The new limit price.
    pub price: Price,
    /// The new total quantity, what is filled already included.
    pub order_qty: Qty,
}

impl Replace {
    /// The request.
    #[must_use]
    pub fn request(self) -> Request {
        Request::ReplaceOrder(ReplaceOrder {
            request_no: RequestNo::NONE,
            cl_ord_id: self.cl_ord_id,
            orig_cl_ord_id: self.orig_cl_ord_id,
            order_id: OrderId::NONE,
            price: self.price,
            order_qty: self.order_qty,
            sending_time: Nanos(0),
            session_id: SessionId::NONE,
            instrument_id: self.instrument_id,
        })
    }
}
