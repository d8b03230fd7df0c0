//! Limits that stay crossed behind the first price of a call's end: a market order is cut to the
//! edge of the collar, where it takes all that is offered, and better limits cross beyond. Few
//! other calls are compared with the collars more than once.

use weir_types::{
    AccountId, Cash, ExecInst, InstrumentId, Nanos, OrdType, PartitionId, Phase, Position, Price,
    Qty, SelfTradePrevention, SessionId, Side, Switch, TimeInForce,
};
use weir_wire::order_entry::NewOrder;
use weir_wire::reference::{SetPhase, SetReference, Transfer};
use weir_wire::{Command, Request};

use super::reference::account;
use super::{HERE, OPERATOR, Script};

const INSTRUMENT: InstrumentId = InstrumentId(100);
/// The account of the market order; no other order names it.
const CUT: AccountId = AccountId(14);
/// The account of the limits, which is unlimited.
const RICH: AccountId = AccountId(22);
/// The lots of the market order, and of the sell that it takes.
const LOTS: u64 = 10_000;
/// The cash for these lots at the edge of the widest collar about 100.
const CASH: i128 = 1_040_000;
/// Amounts that are withdrawn at last, where the order has not spent them.
const REST: [i128; 4] = [CASH, 500_000, 100_000, 10_000];

impl Script<'_> {
    /// Returns the first command of a call with lots that are cut.
    pub(super) fn begin_cut(&mut self) -> Command {
        self.next_of_cut(0)
    }

    /// Returns the definitions, the call with its orders, its end, and the way back to usual prices
    /// and an account without assets.
    pub(super) fn next_of_cut(&mut self, step: usize) -> Command {
        self.cut = Some(step + 1);
        match step {
            0 => self.account_of_cut(CUT, 1, Switch::Off),
            1 => self.account_of_cut(RICH, 2, Switch::On),
            2 => self.transfer_of_cut(CASH, 0),
            3 => self.phase_of_cut(Phase::Closed, Switch::Off),
            4 => self.phase_of_cut(Phase::OpeningCall, Switch::Off),
            // The edges of the static collar are within the dynamic one.
            5 => self.references_of_cut(102, 100),
            6 => self.order_of_cut(Side::Buy, 0, LOTS),
            7 => self.order_of_cut(Side::Sell, 100, LOTS),
            8 => self.order_of_cut(Side::Buy, 200, LOTS / 5),
            9 => self.order_of_cut(Side::Sell, 200, LOTS * 2),
            10 => self.phase_of_cut(Phase::Continuous, Switch::Off),
            11 => self.phase_of_cut(Phase::Continuous, Switch::On),
            12 => self.references_of_cut(100, 100),
            13 => self.transfer_of_cut(0, -(LOTS as i64)),
            _ => {
                let at = step - 14;
                self.cut = (at + 1 < REST.len()).then_some(step + 1);
                self.transfer_of_cut(-REST[at], 0)
            }
        }
    }

    fn account_of_cut(&mut self, account_id: AccountId, firm: u32, unlimited: Switch) -> Command {
        self.control_position += 1;
        let position = Position(self.control_position);
        Command::Import(position, account(account_id.0, firm, unlimited))
    }

    fn transfer_of_cut(&mut self, cash: i128, position_qty: i64) -> Command {
        self.transfer_id += 1;
        Command::Request(Request::Transfer(Transfer {
            request_no: self.request_no(OPERATOR),
            transfer_id: self.transfer_id,
            cash: Cash(cash),
            position_qty,
            session_id: OPERATOR,
            account_id: CUT,
            instrument_id: if position_qty == 0 { InstrumentId(0) } else { INSTRUMENT },
            partition_id: HERE,
            peer_partition_id: PartitionId(0),
        }))
    }

    fn phase_of_cut(&mut self, phase: Phase, override_collars: Switch) -> Command {
        Command::Request(Request::SetPhase(SetPhase {
            request_no: self.request_no(OPERATOR),
            session_id: OPERATOR,
            instrument_id: INSTRUMENT,
            phase,
            override_collars,
        }))
    }

    fn references_of_cut(&mut self, last: i64, fixed: i64) -> Command {
        Command::Request(Request::SetReference(SetReference {
            request_no: self.request_no(OPERATOR),
            last_px: Price(last),
            static_px: Price(fixed),
            session_id: OPERATOR,
            instrument_id: INSTRUMENT,
            sets_last: Switch::On,
            sets_static: Switch::On,
        }))
    }

    /// Returns a limit order, or, with the price zero, the market order that is cut.
    fn order_of_cut(&mut self, side: Side, price: i64, lots: u64) -> Command {
        let (session, account_id, ord_type) = match price {
            0 => (1, CUT, OrdType::Market),
            _ => (3, RICH, OrdType::Limit),
        };
        let session_id = SessionId(session);
        Command::Request(Request::NewOrder(NewOrder {
            request_no: self.request_no(session_id),
            cl_ord_id: self.fresh_name(),
            price: Price(price),
            order_qty: Qty(lots),
            min_qty: Qty(0),
            display_qty: Qty(0),
            stop_px: Price(0),
            expire_time: Nanos(0),
            sending_time: Nanos(0),
            session_id,
            instrument_id: INSTRUMENT,
            account_id,
            side,
            ord_type,
            time_in_force: TimeInForce::Day,
            exec_inst: ExecInst::NONE,
            self_trade_prevention: SelfTradePrevention::None,
        }))
    }
}
