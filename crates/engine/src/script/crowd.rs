//! Crowds: bursts of commands that bring together many standing orders, timers that are due at one
//! moment, and mass cancels and losses of several sessions. So they go on over ticks, take turns,
//! and find due timers on their way.

use weir_types::{
    ExecInst, FirmId, InstrumentId, MassCancelScope, Nanos, OrdType, Phase, Price, Qty,
    SelfTradePrevention, SessionId, Side, Switch, TimeInForce,
};
use weir_wire::order_entry::{MassCancel, NewOrder};
use weir_wire::reference::{SchedulePhase, SessionLost};
use weir_wire::{Command, Request};

use super::{HERE, OPERATOR, Script};

/// The commands of a crowd that are still to come: first orders, then mass cancels and losses, then
/// mostly ticks.
#[derive(Clone, Copy)]
pub(super) struct Crowd {
    orders_left: u8,
    ends_left: u8,
    ticks_left: u8,
    /// The time at which the first of its timers are due; others are later, amid the ticks.
    moment: Nanos,
    /// The session of all its orders, if it is one.
    session_id: Option<SessionId>,
    /// True if the moment comes before the first mass cancel or loss, otherwise before the first
    /// tick.
    is_due_first: bool,
}

impl Script<'_> {
    pub(super) fn begin_crowd(&mut self) -> Command {
        let byte = u64::from(self.byte());
        let mut crowd = Crowd {
            orders_left: 8 + self.byte() % 24,
            ends_left: 2 + self.byte() % 4,
            ticks_left: 4 + self.byte() % 16,
            moment: self.moment(byte % 2),
            session_id: self.one_of(&[None, None, None, None, Some(1), Some(3)]).map(SessionId),
            is_due_first: byte < 128,
        };
        self.crowd_command(&mut crowd)
    }

    /// Returns the next command of a crowd.
    pub(super) fn crowd_command(&mut self, crowd: &mut Crowd) -> Command {
        let command = if crowd.orders_left > 0 {
            crowd.orders_left -= 1;
            self.order_of_crowd(crowd)
        } else if crowd.ends_left > 0 {
            crowd.ends_left -= 1;
            if crowd.is_due_first {
                self.now = self.now.max(crowd.moment);
            }
            self.end_of_crowd()
        } else {
            crowd.ticks_left = crowd.ticks_left.saturating_sub(1);
            self.now = self.now.max(crowd.moment);
            self.now.0 += u64::from(self.byte() % 4) * 1_000_000;
            match self.byte() {
                0..=159 => Command::Tick,
                160..=175 => self.end_of_crowd(),
                176..=199 => self.order_of_crowd(crowd),
                _ => self.usual_command(),
            }
        };
        self.crowd = (crowd.ticks_left > 0).then_some(*crowd);
        command
    }

    /// Returns an order that stands, mostly until a moment of the crowd, or a change of a phase
    /// then.
    fn order_of_crowd(&mut self, crowd: &Crowd) -> Command {
        let later = self.one_of(&[0, 0, 10_000_000]);
        let moment = Nanos(crowd.moment.0 + later);
        let instrument_id = self.one_of(&[100, 100, 101].map(InstrumentId));
        let phase = self.phase_of(instrument_id);
        if matches!(phase, Phase::Closed | Phase::Halted) {
            return self.next_phase(instrument_id);
        }
        let what = self.byte();
        if what < 24 && moment > self.now {
            // A close ends many orders at once.
            let usual = self.phase_after(phase);
            return Command::Request(Request::SchedulePhase(SchedulePhase {
                request_no: self.request_no(OPERATOR),
                at: moment,
                session_id: OPERATOR,
                instrument_id,
                phase: self.one_of(&[Phase::Closed, usual]),
            }));
        }
        let any = self.one_of(&[1, 2, 3, 4].map(SessionId));
        let session_id = crowd.session_id.unwrap_or(any);
        let (side, away) = (self.one_of(&[Side::Buy, Side::Sell]), i64::from(self.byte() % 16));
        let middle = if instrument_id == InstrumentId(101) { 0 } else { 100 };
        let price = match side {
            Side::Buy => middle - 8 - away,
            Side::Sell => middle + 8 + away,
        };
        let expires = what >= 112 && moment > self.now;
        Command::Request(Request::NewOrder(NewOrder {
            request_no: self.request_no(session_id),
            cl_ord_id: self.fresh_name(),
            price: Price(price),
            order_qty: Qty(10),
            min_qty: Qty(0),
            display_qty: Qty(0),
            stop_px: Price(0),
            expire_time: if expires { moment } else { Nanos(0) },
            sending_time: Nanos(0),
            session_id,
            instrument_id,
            account_id: self.account(session_id),
            side,
            ord_type: OrdType::Limit,
            time_in_force: match what {
                _ if expires => TimeInForce::Gtd,
                0..=71 => TimeInForce::Day,
                _ => TimeInForce::Gtc,
            },
            exec_inst: ExecInst::NONE,
            self_trade_prevention: SelfTradePrevention::CancelNewest,
        }))
    }

    /// Returns the loss of a session, or a mass cancel of a session.
    fn end_of_crowd(&mut self) -> Command {
        if self.byte().is_multiple_of(2) {
            let session_id = self.one_of(&[1, 2, 3, 4].map(SessionId));
            let cancel_on_disconnect = Switch::On;
            return Command::SessionLost(SessionLost { session_id, cancel_on_disconnect });
        }
        let session_id = self.one_of(&[1, 2, 3, 4, OPERATOR.0].map(SessionId));
        let is_operator = session_id == OPERATOR;
        let usual = [MassCancelScope::Session, MassCancelScope::Account, MassCancelScope::Firm];
        let scope = self.one_of(if is_operator { MassCancelScope::ALL } else { &usual });
        let (of_one, of_any) = ([100, 101, 100, 101], [0, 0, 100, 101]);
        let is_of_one = scope == MassCancelScope::Instrument;
        let instrument_id = InstrumentId(self.one_of(if is_of_one { &of_one } else { &of_any }));
        Command::Request(Request::MassCancel(MassCancel {
            request_no: self.request_no(session_id),
            cl_ord_id: self.name(),
            sending_time: Nanos(0),
            session_id,
            instrument_id,
            account_id: self.account(session_id),
            firm_id: FirmId(if is_operator { self.one_of(&[1, 2]) } else { 0 }),
            partition_id: HERE,
            scope,
        }))
    }
}
