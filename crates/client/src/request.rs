//! Construction of requests: session and number of any request, and short forms of the common ones.
//!
//! Nothing here sends; the values go to [`Session::submit`](crate::session::Session::submit).

use weir_types::{
    AccountId, ClOrdId, CredentialKind, ExecInst, FirmId, InstrumentId, MassCancelScope, Nanos,
    OrdType, OrderId, PartitionId, Price, Qty, RequestNo, Role, SelfTradePrevention, SessionId,
    Side, Switch, TimeInForce,
};
use weir_wire::Request;
use weir_wire::order_entry::{CancelOrder, MassCancel, NewOrder, ReplaceOrder};
use weir_wire::reference::DefineSession;
use weir_wire::session::ApiKey;

use crate::key::key_hash;

/// Sets the session and number of a request.
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
        SchedulePhase ResumeTrading SetReference ChangePhases SchedulePhases AccountInquiry
        DefineInstrument DefineFirm DefineAccount DefineSession
    );
    request
}

/// Returns the switch for `on`.
#[must_use]
pub fn switch(on: bool) -> Switch {
    if on { Switch::On } else { Switch::Off }
}

/// The parameters in which most limit orders differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOrder {
    /// The client's name for it.
    pub cl_ord_id: ClOrdId,
    /// The instrument.
    pub instrument_id: InstrumentId,
    /// The account.
    pub account_id: AccountId,
    /// Buy or sell.
    pub side: Side,
    /// The limit price.
    pub price: Price,
    /// Lots to trade.
    pub order_qty: Qty,
    /// The order's lifetime.
    pub time_in_force: TimeInForce,
}

impl LimitOrder {
    /// Makes the request: no minimum, fully displayed, no flag, no self-trade prevention.
    #[must_use]
    pub fn request(self) -> Request {
        Request::NewOrder(self.new_order())
    }

    /// Makes the message, for changes to its optional fields: stop price, display quantity, expiry.
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

/// Makes a cancel of all orders that the session has in a partition.
#[must_use]
pub fn cancel_all(partition_id: PartitionId) -> Request {
    Request::MassCancel(MassCancel {
        request_no: RequestNo::NONE,
        cl_ord_id: ClOrdId::NONE,
        sending_time: Nanos(0),
        session_id: SessionId::NONE,
        instrument_id: InstrumentId::NONE,
        account_id: AccountId::NONE,
        firm_id: FirmId::NONE,
        partition_id,
        scope: MassCancelScope::Session,
    })
}

/// Makes the definition of a session that logs on with an API key and has no limits of its own.
#[must_use]
pub fn session_by_key(id: SessionId, firm_id: FirmId, role: Role, key: &ApiKey) -> DefineSession {
    DefineSession {
        request_no: RequestNo::NONE,
        valid_until: Nanos(0),
        credential: key_hash(key),
        session_id: SessionId::NONE,
        defined_session_id: id,
        firm_id,
        order_rate_max: 0,
        in_flight_max: 0,
        role,
        credential_kind: CredentialKind::ApiKey,
        live_orders_max: 0,
        fields: 0,
    }
}

/// Makes a cancel of the order named `orig_cl_ord_id`.
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

/// The parameters of a replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replace {
    /// The order's new name.
    pub cl_ord_id: ClOrdId,
    /// The order's current name.
    pub orig_cl_ord_id: ClOrdId,
    /// The order's instrument.
    pub instrument_id: InstrumentId,
    /// The new limit price.
    pub price: Price,
    /// The new total quantity, including the quantity already filled.
    pub order_qty: Qty,
}

impl Replace {
    /// Makes the request.
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
