//! Commands that reach every rule: all kinds of orders, calls, collars, timers, busts.
//!
//! Most fit the instrument's current phase, and about one in thirty does not: refused commands test
//! less than accepted ones.

use weir_types::{
    AccountId, ExecInst, GroupId, InstrumentId, KillScope, MatchId, Nanos, OrdType, PartitionId,
    Phase, Price, Qty, SelfTradePrevention, Side, Switch, TimeInForce,
};
use weir_wire::order_entry::{NewOrder, ReplaceOrder};
use weir_wire::reference::{
    BustTrade, DefineAccount, DefineFirm, DefineInstrument, DefineSession, ResumeTrading,
    SchedulePhase, SetPhase, SetReference,
};
use weir_wire::{Command, Definition, Request};

use super::reference::{asked, with_rules};
use super::{HERE, OPERATOR, Script, phase_index};
use crate::instrument::is_call;
use weir_types::{ClOrdId, SessionId};

pub(super) const MILLISECOND: u64 = 1_000_000;

/// Returns true for a market order that waits for a call: some reserve most of an account's cash.
fn waits_for_call(phase: Phase, ord_type: OrdType, time_in_force: TimeInForce) -> bool {
    ord_type == OrdType::Market && (is_call(phase) || time_in_force == TimeInForce::AtTheClose)
}

impl Script<'_> {
    pub(super) fn full_command(&mut self) -> Command {
        if let Some(mut backlog) = self.backlog.take() {
            return self.backlog_command(&mut backlog);
        }
        match self.crowd.take() {
            Some(mut crowd) => self.crowd_command(&mut crowd),
            None => self.usual_command(),
        }
    }

    /// Returns a command that belongs to no crowd, or the first one of a crowd.
    pub(super) fn usual_command(&mut self) -> Command {
        if let Some(ruin) = self.ruin
            && (!ruin.is_over() || self.byte() < 8)
        {
            return self.next_of_ruin(ruin);
        }
        if let Some(step) = self.cut {
            return self.next_of_cut(step);
        }
        self.pass_time();
        if self.killed.is_some() && self.byte() < 8 {
            return self.kill_switch();
        }
        if self.list_left > 0 && self.byte() < 192 {
            return self.next_of_list();
        }
        match self.byte() {
            148 if self.byte() < 64 => self.begin_cut(),
            149 if self.byte() < 128 => self.begin_backlog(),
            0..=149 => self.full_order(),
            150 => self.mass_cancel(),
            151 if self.byte() < 128 => self.set_limits(),
            151 => self.session_lost(),
            // Sweeps go on by ticks.
            152..=153 => Command::Tick,
            154..=155 => self.begin_crowd(),
            156..=186 => self.full_replace(),
            187..=215 => self.cancel_order(),
            216..=217 => self.mass_cancel(),
            218..=222 => self.full_transfer(),
            223..=228 => {
                let instrument_id = self.instrument();
                self.next_phase(instrument_id)
            }
            229..=232 => self.schedule_phase(),
            233 if self.byte() < 56 => self.begin_ruin(),
            233..=238 => self.bust_trade(),
            239 => self.kill_switch(),
            240 => self.kill_or_reference(),
            241 => self.session_lost(),
            242..=245 => Command::Tick,
            246..=247 => self.kill_switch(),
            _ => self.full_definition(),
        }
    }

    /// Advances the time: most commands come close together, some after deadlines have passed.
    fn pass_time(&mut self) {
        let byte = u64::from(self.byte());
        self.now.0 += match byte {
            0..=63 => 0,
            64..=219 => byte % 5 * MILLISECOND,
            220..=251 => byte % 16 * MILLISECOND + 1,
            _ => (byte - 250) * 60 * MILLISECOND,
        };
    }

    pub(super) fn phase_of(&self, instrument_id: InstrumentId) -> Phase {
        phase_index(instrument_id).map_or(Phase::Continuous, |at| self.phases[at])
    }

    pub(super) fn fresh_name(&mut self) -> ClOrdId {
        let used = self.name();
        self.name_no += 1;
        self.rarely(ClOrdId::from_number(self.name_no), &[used])
    }

    /// Returns a plausible price. Instrument 101 trades around zero, with negative prices; 103
    /// occasionally at the ends of the price range.
    fn fair_price(&mut self, instrument_id: InstrumentId) -> Price {
        let (byte, rare) = (i64::from(self.byte()), self.byte());
        let middle = if instrument_id == InstrumentId(101) { 0 } else { 100 };
        match rare {
            192..=223 if instrument_id == InstrumentId(103) => Price(i64::MIN),
            224..=239 if instrument_id == InstrumentId(103) => Price(i64::MAX),
            255 => Price(1_000_000),
            248..=254 => Price(middle + byte % 24 - 12),
            _ => Price(middle + byte % 8 - byte / 8 % 8 / 2 - 2),
        }
    }

    fn fair_qty(&mut self) -> Qty {
        let byte = u64::from(self.byte());
        if byte == 255 { Qty(5) } else { Qty(byte % 16 * 10 + 10) }
    }

    fn time_in_force(&mut self, phase: Phase, ord_type: OrdType) -> TimeInForce {
        use TimeInForce::{AtTheClose, AtTheOpen, Day, Fok, Gtc, Gtd, Ioc};
        let is_stop = matches!(ord_type, OrdType::Stop | OrdType::StopLimit);
        let is_market = ord_type == OrdType::Market;
        let usual: &[TimeInForce] = match phase {
            _ if is_stop => &[Day, Gtc, Gtd],
            Phase::OpeningCall if is_market => &[Day, Gtc, AtTheOpen, AtTheClose],
            Phase::OpeningCall => &[Day, Gtc, Gtd, AtTheOpen, AtTheClose],
            Phase::Continuous if is_market => &[Day, Gtc, Ioc, Fok, AtTheClose, Ioc],
            Phase::Continuous => &[Day, Gtc, Gtd, Day, Gtc, Ioc, Fok, AtTheClose],
            _ if is_market => &[Day, Gtc, AtTheClose],
            _ => &[Day, Gtc, Gtd, AtTheClose],
        };
        let usual = self.one_of(usual);
        self.rarely(usual, TimeInForce::ALL)
    }

    /// Returns a session, mostly of those whose entry no kill switch stops.
    fn entering_session(&mut self) -> SessionId {
        let others: &[u32] = match self.killed {
            Some((KillScope::Firm | KillScope::Session, _)) => &[3, 4],
            Some((KillScope::Account, _)) => &[1, 2],
            _ => return self.session(),
        };
        let (usual, any) = (self.one_of(others), self.session());
        self.rarely(SessionId(usual), &[any])
    }

    /// Returns a command for an instrument that takes no orders, mostly. Changes become due while a
    /// halt holds.
    fn instead_of_order(&mut self, instrument_id: InstrumentId) -> Option<Command> {
        match self.byte() % 8 {
            0..=4 => Some(self.next_phase(instrument_id)),
            5 => Some(self.schedule_phase()),
            6 => Some(Command::Tick),
            _ => None,
        }
    }

    fn order_type(&mut self) -> OrdType {
        match self.byte() {
            0..=175 => OrdType::Limit,
            176..=199 => OrdType::Market,
            200..=227 => OrdType::Stop,
            _ => OrdType::StopLimit,
        }
    }

    pub(super) fn full_order(&mut self) -> Command {
        let session_id = self.entering_session();
        let instrument_id = self.instrument();
        let phase = self.phase_of(instrument_id);
        if matches!(phase, Phase::Closed | Phase::Halted)
            && let Some(command) = self.instead_of_order(instrument_id)
        {
            return command;
        }
        let ord_type = self.order_type();
        let is_stop = matches!(ord_type, OrdType::Stop | OrdType::StopLimit);
        let time_in_force = self.time_in_force(phase, ord_type);
        let is_standing =
            matches!(time_in_force, TimeInForce::Day | TimeInForce::Gtc | TimeInForce::Gtd);
        let (price, stop_px) = (self.fair_price(instrument_id), self.fair_price(instrument_id));
        let (order_qty, slice) = (self.fair_qty(), self.fair_qty());
        let (expiry, stray) = (u64::from(self.byte()), self.byte());
        let condition = self.byte();
        let is_iceberg = ord_type == OrdType::Limit && is_standing && condition < 64;
        let is_post_only = ord_type == OrdType::Limit
            && is_standing
            && phase == Phase::Continuous
            && (64..80).contains(&condition);
        let has_minimum = !is_stop
            && phase == Phase::Continuous
            && time_in_force != TimeInForce::AtTheClose
            && (80..104).contains(&condition);
        let zero_or = |is_given: bool, value: Qty| if is_given { value } else { Qty(0) };
        // Quantities that must fill at once are small, or they would hardly ever be accepted.
        let order_qty = match time_in_force {
            TimeInForce::Fok => Qty(order_qty.0.min(30 + order_qty.0 / 40 * 10)),
            _ if condition >= 200 && waits_for_call(phase, ord_type, time_in_force) => {
                Qty(500 + u64::from(condition - 200) / 2 * 10)
            }
            _ => order_qty,
        };
        let small = Qty(slice.0.min(order_qty.0) / 20 * 10 + 10);
        let mut order = NewOrder {
            request_no: self.request_no(session_id),
            cl_ord_id: self.fresh_name(),
            price: if matches!(ord_type, OrdType::Limit | OrdType::StopLimit) {
                price
            } else {
                Price(0)
            },
            order_qty,
            min_qty: zero_or(has_minimum, small),
            display_qty: zero_or(is_iceberg, small),
            stop_px: if is_stop { stop_px } else { Price(0) },
            expire_time: match time_in_force {
                // Some expire exactly when changes of phase are scheduled.
                TimeInForce::Gtd if expiry >= 160 => self.moment(expiry),
                TimeInForce::Gtd => Nanos(self.now.0 + 1 + expiry * MILLISECOND),
                _ => Nanos(0),
            },
            sending_time: Nanos(0),
            session_id,
            instrument_id,
            account_id: self.account(session_id),
            side: self.one_of(&[Side::Buy, Side::Sell]),
            ord_type,
            time_in_force,
            exec_inst: if is_post_only { ExecInst::POST_ONLY } else { ExecInst::NONE },
            self_trade_prevention: self.one_of(SelfTradePrevention::ALL),
        };
        if stray < 14 {
            bend(&mut order, stray, price, slice, self.now);
        }
        Command::Request(Request::NewOrder(order))
    }

    pub(super) fn full_replace(&mut self) -> Command {
        let named = self.named_order();
        let heard = self.heard.iter().find(|e| {
            (e.order_id == named.order_id)
                || (e.cl_ord_id == named.name && e.session_id == named.session_id)
        });
        let (has_price, before) = match heard {
            Some(e) => (
                matches!(e.ord_type, OrdType::Limit | OrdType::StopLimit),
                Some((e.price, e.order_qty)),
            ),
            None => (true, None),
        };
        let (price, qty, name) =
            (self.fair_price(named.instrument_id), self.fair_qty(), self.fresh_name());
        let what = self.byte();
        let (price, order_qty) = match (before, what % 4) {
            (Some((same, _)), 0) => (same, qty),
            (Some((_, same)), 1) => (price, same),
            (Some((same, much)), 2) => (same, Qty(much.0.saturating_sub(10).max(10))),
            _ => (price, qty),
        };
        // More than an iceberg of the smallest slice may have.
        let order_qty = if what > 251 { Qty(1_010) } else { order_qty };
        Command::Request(Request::ReplaceOrder(ReplaceOrder {
            request_no: self.request_no(named.session_id),
            cl_ord_id: name,
            orig_cl_ord_id: named.name,
            order_id: named.order_id,
            price: if has_price || what == 255 { price } else { Price(0) },
            order_qty,
            sending_time: Nanos(0),
            session_id: named.session_id,
            instrument_id: named.instrument_id,
        }))
    }

    /// Returns a following phase, mostly the usual one of a trading day.
    pub(super) fn phase_after(&mut self, phase: Phase) -> Phase {
        use Phase::{Closed, ClosingCall, Continuous, Halted, OpeningCall, VolatilityCall};
        let usual: &[Phase] = match phase {
            Closed => &[OpeningCall, OpeningCall, OpeningCall, Continuous],
            OpeningCall => &[Continuous, Continuous, Continuous, Continuous, Halted, Closed],
            Continuous => &[VolatilityCall, ClosingCall, ClosingCall, Halted, Closed, Continuous],
            VolatilityCall => &[Continuous, Continuous, Continuous, ClosingCall, Halted, Closed],
            ClosingCall => &[Closed, Closed, Closed, Halted],
            Halted => {
                &[Continuous, Continuous, OpeningCall, VolatilityCall, ClosingCall, Halted, Closed]
            }
        };
        let usual = self.one_of(usual);
        self.rarely(usual, Phase::ALL)
    }

    pub(super) fn next_phase(&mut self, instrument_id: InstrumentId) -> Command {
        let session_id = self.rarely(OPERATOR, &[SessionId(1)]);
        let before = self.phase_of(instrument_id);
        let how = self.byte();
        if (224..248).contains(&how) {
            return self.change_phases(before);
        }
        // Some closes keep a halt, which is lifted later.
        let is_stopped = matches!(before, Phase::Halted | Phase::Closed);
        if is_stopped && how < 100 || how < 8 {
            return Command::Request(Request::ResumeTrading(ResumeTrading {
                request_no: self.request_no(session_id),
                session_id,
                instrument_id,
                through_call: if how % 2 == 1 { Switch::On } else { Switch::Off },
            }));
        }
        let phase = self.phase_after(before);
        let is_override = phase == Phase::Continuous && how % 4 == 3 || how > 250;
        Command::Request(Request::SetPhase(SetPhase {
            request_no: self.request_no(session_id),
            session_id,
            instrument_id,
            phase,
            override_collars: if is_override { Switch::On } else { Switch::Off },
        }))
    }

    /// Returns one of a few future moments, so that scheduled changes replace each other.
    pub(super) fn moment(&self, byte: u64) -> Nanos {
        Nanos((self.now.0 / (10 * MILLISECOND) + 1 + byte % 8) * 10 * MILLISECOND)
    }

    pub(super) fn schedule_phase(&mut self) -> Command {
        let session_id = self.rarely(OPERATOR, &[SessionId(1)]);
        let instrument_id = self.instrument();
        let phase = self.phase_after(self.phase_of(instrument_id));
        let byte = u64::from(self.byte());
        if byte >= 144 {
            return self.schedule_phases(phase);
        }
        let at = match byte {
            0..=15 => Nanos(0),
            16..=19 => self.now,
            _ => self.moment(byte),
        };
        Command::Request(Request::SchedulePhase(SchedulePhase {
            request_no: self.request_no(session_id),
            at,
            session_id,
            instrument_id,
            phase,
        }))
    }

    /// Returns a kill switch, or references, of which some are bad.
    pub(super) fn kill_or_reference(&mut self) -> Command {
        if self.byte() < 64 {
            return self.kill_switch();
        }
        let session_id = self.rarely(OPERATOR, &[SessionId(1)]);
        let instrument_id = self.instrument();
        let which = self.byte() % 16;
        let (last_px, static_px) = (self.fair_price(instrument_id), self.fair_price(instrument_id));
        let (sets_last, sets_static) =
            (which % 4 < 3 && which < 15, !which.is_multiple_of(3) && which < 15);
        let given = |is_set: bool, price: Price| if is_set { price } else { Price(0) };
        let switch = |is_on: bool| if is_on { Switch::On } else { Switch::Off };
        Command::Request(Request::SetReference(SetReference {
            request_no: self.request_no(session_id),
            last_px: given(sets_last && which != 1 || which == 14, last_px),
            static_px: given(sets_static && which != 2, static_px),
            session_id,
            instrument_id,
            sets_last: switch(sets_last && which != 14),
            sets_static: switch(sets_static),
        }))
    }

    pub(super) fn bust_trade(&mut self) -> Command {
        let session_id = self.rarely(OPERATOR, &[SessionId(1)]);
        let byte = usize::from(self.byte());
        let recent = match self.trades.len() {
            0 => MatchId(1),
            // More often one of the last.
            count => self.trades[count - 1 - (byte % count).min(byte / 16 % count)],
        };
        Command::Request(Request::BustTrade(BustTrade {
            request_no: self.request_no(session_id),
            match_id: self.rarely(recent, &[MatchId(0), MatchId(1), MatchId(u64::MAX)]),
            session_id,
            partition_id: self.rarely(HERE, &[PartitionId(2)]),
            force: self.one_of(Switch::ALL),
        }))
    }

    /// Returns a transfer, mostly one that keeps trading going.
    pub(super) fn full_transfer(&mut self) -> Command {
        let account = self.one_of(&[11, 12, 21].map(AccountId));
        let sum = self.one_of(&[30_000, -30_000, 60_000, -60_000]);
        let lots = self.one_of(&[0, 300, -300, 0]);
        let is_odd = self.byte() % 8 == 7;
        let mut m = self.transfer();
        if !is_odd {
            m.account_id = account;
            m.cash.0 = sum;
            m.position_qty = lots;
            m.instrument_id = InstrumentId(if lots == 0 { 0 } else { 100 });
        } else if m.cash.0 > 1_000_000 || m.position_qty > 100_000 {
            // An account with such a fortune would never lack money again.
            m.account_id = AccountId(13);
        }
        self.once_or_again(m)
    }

    /// Returns a definition, mostly with new collars, references, call lengths and rates.
    pub(super) fn full_definition(&mut self) -> Command {
        let number = self.byte();
        let collars = [self.one_of(&[0, 100, 400, 400]), self.one_of(&[0, 200, 300, 300])];
        let span = self.one_of(&[0, 5, 40, 40]) * MILLISECOND;
        let reference = self.one_of(&[0, 0, 98, 98, 100, 100, 103, 999]);
        let group_id = GroupId(self.one_of(&[7, 7, 8, 0]));
        let rate = self.one_of(&[0, 25, 25, 7, 2_000_000_000]);
        let (live_orders_max, of_firm) = (self.one_of(&[0, 0, 9, 3]), self.one_of(&[0, 30, 20]));
        let definition = match self.definition() {
            Command::Import(at, definition) => (Some(at), definition),
            Command::Request(request) => match request.definition() {
                Some(definition) => (None, definition),
                None => return Command::Request(request),
            },
            other => return other,
        };
        let (at, definition) = definition;
        let definition = match definition {
            Definition::DefineInstrument(d) => {
                let narrowed = d.price_max == Price(102);
                let bounds = (d.price_min, d.price_max);
                let mut d = with_rules(d, collars, Nanos(span), Price(reference));
                if narrowed && number < 64 {
                    (d.price_min, d.price_max) = bounds;
                }
                // A tick of two or zero would prevent most later orders.
                d.tick_size = if number < 250 { Price(1) } else { d.tick_size };
                Definition::DefineInstrument(DefineInstrument { group_id, ..d })
            }
            Definition::DefineSession(d) => {
                let order_rate_max = rate;
                Definition::DefineSession(DefineSession { order_rate_max, live_orders_max, ..d })
            }
            Definition::DefineAccount(d) => {
                Definition::DefineAccount(DefineAccount { live_orders_max, ..d })
            }
            Definition::DefineFirm(d) => {
                Definition::DefineFirm(DefineFirm { live_orders_max: of_firm, ..d })
            }
        };
        match at {
            Some(at) => Command::Import(at, definition),
            None => {
                let request_no = self.request_no(OPERATOR);
                Command::Request(asked(definition, OPERATOR, request_no))
            }
        }
    }
}

/// Makes one field of an order wrong, or unusual.
fn bend(order: &mut NewOrder, how: u8, price: Price, qty: Qty, now: Nanos) {
    match how {
        0 => order.ord_type = OrdType::Stop,
        1 => order.stop_px = price,
        2 => order.display_qty = qty,
        3 => order.min_qty = qty,
        4 => order.exec_inst = ExecInst::POST_ONLY,
        5 => order.expire_time = now,
        6 => order.price = Price(0),
        7 => order.price = price,
        8 => order.order_qty = Qty(0),
        9 => order.time_in_force = TimeInForce::AtTheClose,
        10 => order.time_in_force = TimeInForce::Gtd,
        // The maximum number of slices of an iceberg, and one more.
        11 => (order.order_qty, order.display_qty) = (Qty(1_000), Qty(10)),
        12 => (order.order_qty, order.display_qty) = (Qty(990 + qty.0 % 30), Qty(10)),
        _ => order.cl_ord_id = ClOrdId::NONE,
    }
}
