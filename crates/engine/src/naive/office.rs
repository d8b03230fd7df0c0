//! The naive engine's reference data, operators' requests and mass cancels.

use weir_types::{
    AccountId, Cash, FirmId, InstrumentId, KillScope, MassCancelScope, OrdType, Phase, Position,
    Reason, Rec, RequestNo, Role, Side, Switch,
};
use weir_types::{EventNo, PartitionId};
use weir_wire::event::{Defined, RequestDone};
use weir_wire::order_entry::MassCancel;
use weir_wire::reference::{
    AccountInquiry, DefineAccount, DefineFirm, DefineInstrument, DefineSession, KillSwitch, NEW,
    SessionChoice, SessionLost, SetLimits, Transfer,
};
use weir_wire::{Definition, Event, Request};

use super::entry::is_price_fine;
use super::sweep::SweepRequest;
use super::{Account, Halt, Instrument, NaiveEngine, Order, Session, TradingRule};
use crate::config::{CASH_LIMIT, EventSink, ORDER_QTY_LIMIT, POSITION_LIMIT};
use crate::digest;

impl NaiveEngine {
    pub(super) fn define<S: EventSink>(
        &mut self,
        request: &Request,
        out: &mut S,
    ) -> Result<(), Reason> {
        if self.sessions[&request.session_id()].role != Role::Operator {
            return Err(Reason::NotEntitled);
        }
        let definition = request.definition().expect("only definitions come here");
        let is_change_here = match &definition {
            Definition::DefineInstrument(d) if d.fields != 0 && d.fields < NEW => {
                match self.instruments.get(&d.instrument_id) {
                    None => return Err(Reason::UnknownInstrument),
                    Some(row) if !self.is_here(row) => return Err(Reason::WrongPartition),
                    Some(_) => true,
                }
            }
            _ if !self.is_control() => return Err(Reason::WrongPartition),
            _ => false,
        };
        let definition = self.take_in(&definition, false)?;
        let at = if is_change_here { self.control_position } else { self.position };
        self.say_defined(at, &definition, out);
        self.say_done(request, 0, out);
        Ok(())
    }

    pub(super) fn import<S: EventSink>(
        &mut self,
        at: Position,
        definition: &Definition,
        out: &mut S,
    ) {
        self.digest = digest::fold_import(self.digest, at, definition);
        if self.is_control() {
            let has_operator = self.sessions.values().any(|s| s.role == Role::Operator);
            let makes_operator = match definition {
                Definition::DefineSession(d) => d.role == Role::Operator,
                _ => false,
            };
            if makes_operator
                && !has_operator
                && let Ok(definition) = self.take_in(definition, true)
            {
                self.say_defined(self.position, &definition, out);
            }
        } else if at > self.control_position {
            self.control_position = at;
            if let Ok(definition) = self.take_in(definition, true) {
                self.say_defined(at, &definition, out);
            } else {
                self.imports_refused += 1;
            }
        }
    }

    fn say_defined<S: EventSink>(&mut self, at: Position, definition: &Definition, out: &mut S) {
        self.control_position = at;
        let defined = Defined {
            position: self.position,
            transact_time: self.time,
            control_position: at,
            partition_id: self.config.partition_id,
        };
        self.say(Event::Defined(defined, *definition), out);
    }

    /// Applies a definition. A change that the control log has completed may be of something that
    /// this partition lacks.
    fn take_in(
        &mut self,
        definition: &Definition,
        is_imported: bool,
    ) -> Result<Definition, Reason> {
        let is_complete = is_imported && !matches!(definition, Definition::DefineInstrument(_));
        let mut definition = match (definition.fields(), self.known(definition)) {
            (0, _) | (NEW.., Err(_)) => *definition,
            (_, Err(_)) if is_complete => *definition,
            (NEW.., Ok(_)) => return Err(Reason::AlreadyDefined),
            (_, known) => known?.changed_by(definition),
        };
        match &mut definition {
            Definition::DefineInstrument(d) => self.take_in_instrument(d),
            Definition::DefineFirm(d) => self.take_in_firm(d),
            Definition::DefineAccount(d) => self.take_in_account(d),
            Definition::DefineSession(d) => self.take_in_session(d),
        }?;
        Ok(definition)
    }

    /// Returns the definition with this one's identifier, with this one's values in the fields that
    /// engines do not keep.
    fn known(&self, definition: &Definition) -> Result<Definition, Reason> {
        match definition {
            Definition::DefineInstrument(d) => {
                let row = self.instruments.get(&d.instrument_id);
                row.map(|row| Definition::DefineInstrument(row.definition))
                    .ok_or(Reason::UnknownInstrument)
            }
            Definition::DefineFirm(d) => {
                let live_orders_max = *self.firms.get(&d.firm_id).ok_or(Reason::UnknownFirm)?;
                Ok(Definition::DefineFirm(DefineFirm { live_orders_max, ..*d }))
            }
            Definition::DefineAccount(d) => {
                let row = self.accounts.get(&d.account_id).ok_or(Reason::UnknownAccount)?;
                let mut known = *d;
                known.firm_id = row.firm_id;
                known.unlimited = if row.is_unlimited { Switch::On } else { Switch::Off };
                known.live_orders_max = row.live_orders_max;
                Ok(Definition::DefineAccount(known))
            }
            Definition::DefineSession(d) => {
                let row = self.sessions.get(&d.defined_session_id).ok_or(Reason::UnknownSession)?;
                let mut known = *d;
                (known.firm_id, known.role) = (row.firm_id, row.role);
                known.order_rate_max = row.order_rate_max;
                known.live_orders_max = row.live_orders_max;
                Ok(Definition::DefineSession(known))
            }
        }
    }

    /// Returns the reason for which live orders forbid a change of their instrument: the first
    /// field in this order that one of them does not fit.
    fn misfit(&self, d: &DefineInstrument) -> Option<Reason> {
        let old = &self.instruments[&d.instrument_id].definition;
        let id = d.instrument_id;
        let orders = || self.orders.values().filter(move |o| o.now.instrument_id == id);
        let prices = |o: &Order| match o.now.ord_type {
            OrdType::Limit => vec![o.now.price.0],
            OrdType::Stop => vec![o.now.stop_px.0],
            OrdType::StopLimit => vec![o.now.price.0, o.now.stop_px.0],
            OrdType::Market => vec![],
        };
        let lots = |o: &Order| [o.now.order_qty.0, o.leaves_qty(), o.now.display_qty.0];
        let all_prices = || orders().flat_map(prices);
        let (tick, lot) = (d.tick_size.0, d.lot_size.0);
        let (min, max) = (d.price_min.0, d.price_max.0);
        let found = [
            (old.symbol != d.symbol && orders().count() > 0, Reason::LiveOrdersNamed),
            (
                old.tick_size.0 != tick && all_prices().any(|price| price % tick != 0),
                Reason::LiveOrdersOffTick,
            ),
            (
                old.lot_size.0 != lot && orders().flat_map(lots).any(|qty| qty % lot != 0),
                Reason::LiveOrdersOffLot,
            ),
            (
                (old.price_min.0, old.price_max.0) != (min, max)
                    && all_prices().any(|price| price < min || price > max),
                Reason::LiveOrdersOutOfRange,
            ),
            (
                old.order_qty_max != d.order_qty_max
                    && orders().any(|o| o.now.order_qty > d.order_qty_max),
                Reason::LiveOrdersTooLarge,
            ),
        ];
        found.iter().find_map(|(is_misfit, reason)| is_misfit.then_some(*reason))
    }

    fn take_in_instrument(&mut self, d: &DefineInstrument) -> Result<(), Reason> {
        let contradictions = [
            d.instrument_id.0 == 0,
            d.symbol.0[0] == 0,
            d.partition_id == PartitionId(0),
            d.tick_size.0 <= 0,
            d.lot_size.0 == 0,
            d.order_qty_max < d.lot_size,
            d.order_qty_max.0 > ORDER_QTY_LIMIT,
            d.price_max < d.price_min,
            d.reference_price.0 != 0 && !is_price_fine(d, d.reference_price.0),
            self.instruments
                .iter()
                .any(|(id, i)| *id != d.instrument_id && i.definition.symbol == d.symbol),
        ];
        if contradictions.contains(&true) {
            return Err(Reason::InvalidDefinition);
        }
        let count = self.instruments.len();
        if let Some(row) = self.instruments.get(&d.instrument_id) {
            let for_good =
                |d: &DefineInstrument| (d.partition_id, d.price_exponent, d.qty_exponent);
            if for_good(&row.definition) != for_good(d) {
                return Err(Reason::InvalidDefinition);
            }
            if d.fields != 0
                && d.fields < NEW
                && let Some(reason) = self.misfit(d)
            {
                return Err(reason);
            }
        }
        let key = self.key_now();
        match self.instruments.get_mut(&d.instrument_id) {
            Some(row) => {
                if row.definition.group_id != d.group_id {
                    row.joined_at = key;
                }
                row.definition = *d;
            }
            None if count >= self.config.instruments_max as usize => {
                return Err(Reason::LimitReached);
            }
            None => {
                let row = Instrument {
                    definition: *d,
                    phase: d.phase,
                    halt: (d.phase == Phase::Halted)
                        .then_some(Halt { before: Phase::Closed, is_operators: true }),
                    is_told_held: d.phase == Phase::Halted,
                    origin: None,
                    transferred_in: 0,
                    changed_by: key,
                    joined_at: key,
                    prints: Vec::new(),
                    set_last: (None, 0),
                    set_static: (None, 0),
                    session_after: 0,
                    is_day_over: false,
                    call_end: None,
                    traded: Vec::new(),
                };
                self.instruments.insert(d.instrument_id, row);
            }
        }
        Ok(())
    }

    fn take_in_firm(&mut self, d: &DefineFirm) -> Result<(), Reason> {
        let keeps_name = d.fields != 0 && d.fields < NEW && d.fields & 2 == 0;
        if d.firm_id.0 == 0 || d.name.0[0] == 0 && !keeps_name {
            return Err(Reason::InvalidDefinition);
        }
        let is_new = !self.firms.contains_key(&d.firm_id);
        if is_new && self.firms.len() >= self.config.firms_max as usize {
            return Err(Reason::LimitReached);
        }
        self.firms.insert(d.firm_id, d.live_orders_max);
        Ok(())
    }

    fn take_in_account(&mut self, d: &mut DefineAccount) -> Result<(), Reason> {
        if d.account_id.0 == 0 {
            return Err(Reason::InvalidDefinition);
        }
        if !self.firms.contains_key(&d.firm_id) {
            return Err(Reason::UnknownFirm);
        }
        if let Some(row) = self.accounts.get(&d.account_id) {
            if row.firm_id != d.firm_id {
                return Err(Reason::InvalidDefinition);
            }
            let is_bound_now = row.is_unlimited && d.unlimited == Switch::Off;
            let is_all = row.live_orders_max == d.live_orders_max;
            if is_bound_now && let Err(reason) = self.check_owes_nothing(d.account_id) {
                if is_all {
                    return Err(reason);
                }
                d.unlimited = Switch::On;
                self.imports_refused += 1;
            }
            let row = self.accounts.get_mut(&d.account_id).expect("found above");
            row.is_unlimited = d.unlimited == Switch::On;
            row.live_orders_max = d.live_orders_max;
            return Ok(());
        }
        if self.accounts.len() >= self.config.accounts_max as usize {
            return Err(Reason::LimitReached);
        }
        let last_transfer = (0, 0, 0, InstrumentId(0), PartitionId(0));
        let (firm_id, live_orders_max) = (d.firm_id, d.live_orders_max);
        let is_unlimited = d.unlimited == Switch::On;
        let row = Account { firm_id, is_unlimited, live_orders_max, cash: 0, last_transfer };
        self.accounts.insert(d.account_id, row);
        Ok(())
    }

    /// Checks that neither free cash nor the free lots of any instrument are negative.
    fn check_owes_nothing(&self, account_id: AccountId) -> Result<(), Reason> {
        let reserved: i128 = self.orders_of_account(account_id).map(Order::reserved_cash).sum();
        if self.accounts[&account_id].cash - reserved < 0 {
            return Err(Reason::InsufficientCash);
        }
        let is_short = self
            .instruments
            .keys()
            .any(|id| self.held(account_id, *id) - self.open_lots(account_id, *id, Side::Sell) < 0);
        if is_short { Err(Reason::InsufficientPosition) } else { Ok(()) }
    }

    fn take_in_session(&mut self, d: &DefineSession) -> Result<(), Reason> {
        let is_firms = [Role::Trader, Role::DropCopy].contains(&d.role);
        if d.defined_session_id.0 == 0 || (!is_firms && d.firm_id != FirmId(0)) {
            return Err(Reason::InvalidDefinition);
        }
        if is_firms && !self.firms.contains_key(&d.firm_id) {
            return Err(Reason::UnknownFirm);
        }
        if let Some(row) = self.sessions.get_mut(&d.defined_session_id) {
            if row.role != d.role || row.firm_id != d.firm_id {
                return Err(Reason::InvalidDefinition);
            }
            row.order_rate_max = d.order_rate_max;
            row.live_orders_max = d.live_orders_max;
            return Ok(());
        }
        if self.sessions.len() >= self.config.sessions_max as usize {
            return Err(Reason::LimitReached);
        }
        let row = Session {
            number: self.sessions.len(),
            firm_id: d.firm_id,
            role: d.role,
            last_request_no: RequestNo(0),
            next_event_no: EventNo(1),
            order_rate_max: d.order_rate_max,
            live_orders_max: d.live_orders_max,
            tat: 0,
        };
        self.sessions.insert(d.defined_session_id, row);
        Ok(())
    }

    pub(super) fn check_operator(&self, request: &Request, to: PartitionId) -> Result<(), Reason> {
        if self.sessions[&request.session_id()].role != Role::Operator {
            return Err(Reason::NotEntitled);
        }
        if self.is_control() || to != self.config.partition_id {
            return Err(Reason::WrongPartition);
        }
        Ok(())
    }

    pub(super) fn transfer<S: EventSink>(
        &mut self,
        request: &Request,
        m: &Transfer,
        out: &mut S,
    ) -> Result<(), Reason> {
        self.check_operator(request, m.partition_id)?;
        let Some(account) = self.accounts.get(&m.account_id).cloned() else {
            return Err(Reason::UnknownAccount);
        };
        if m.instrument_id.0 != 0 || m.position_qty != 0 {
            let instrument =
                self.instruments.get(&m.instrument_id).ok_or(Reason::UnknownInstrument)?;
            if !self.is_here(instrument) {
                return Err(Reason::WrongPartition);
            }
        }
        if m.transfer_id == 0 {
            return Err(Reason::FieldOutOfRange);
        }
        if m.peer_partition_id == self.config.partition_id {
            return Err(Reason::WrongPartition);
        }
        let end = m.peer_partition_id;
        let this = (m.transfer_id, m.cash.0, m.position_qty, m.instrument_id, end);
        if this == account.last_transfer {
            self.say_this_done(self.cash_told(request, m.account_id, 0), out);
            return Ok(());
        }
        if m.transfer_id <= account.last_transfer.0 {
            return Err(Reason::TransferIdUsed);
        }
        let cash = m.cash.0;
        if !(-CASH_LIMIT..=CASH_LIMIT).contains(&cash) {
            return Err(Reason::LimitReached);
        }
        self.check_cash(m.account_id, -cash)?;
        if cash >= 0 && account.cash + cash > CASH_LIMIT {
            return Err(Reason::LimitReached);
        }
        if m.position_qty != 0 {
            self.check_transfer_lots(m, &account)?;
            self.move_lots(m.account_id, m.instrument_id, i128::from(m.position_qty));
            let instrument = self.instruments.get_mut(&m.instrument_id).expect("checked above");
            instrument.transferred_in += i128::from(m.position_qty);
        }
        let row = self.accounts.get_mut(&m.account_id).expect("checked above");
        row.cash += cash;
        row.last_transfer = this;
        self.cash_moved_in += cash.max(0);
        self.cash_moved_out += (-cash).max(0);
        self.say_this_done(self.cash_told(request, m.account_id, 1), out);
        Ok(())
    }

    pub(super) fn tell_account<S: EventSink>(
        &mut self,
        request: &Request,
        m: &AccountInquiry,
        out: &mut S,
    ) -> Result<(), Reason> {
        self.check_operator(request, m.partition_id)?;
        if !self.accounts.contains_key(&m.account_id) {
            return Err(Reason::UnknownAccount);
        }
        self.say_this_done(self.cash_told(request, m.account_id, 0), out);
        Ok(())
    }

    /// Returns the report that a request was carried out and changed so much, with the account's
    /// cash and last transfer.
    fn cash_told(&self, request: &Request, account_id: AccountId, count: u64) -> RequestDone {
        let account = &self.accounts[&account_id];
        let (id, cash, _, _, peer) = account.last_transfer;
        RequestDone {
            cash: Cash(account.cash),
            reserved: Cash(account.cash - self.spare_cash(account_id)),
            last_transfer_id: id,
            last_transfer_cash: Cash(cash),
            last_transfer_peer: peer,
            ..self.done_without_number(request, count)
        }
    }

    fn check_transfer_lots(&self, m: &Transfer, account: &Account) -> Result<(), Reason> {
        if self.is_pair_refused(m.account_id, m.instrument_id) {
            return Err(Reason::LimitReached);
        }
        let lots = i128::from(m.position_qty);
        let total = self.held(m.account_id, m.instrument_id) + lots;
        let low = total - self.open_lots(m.account_id, m.instrument_id, Side::Sell);
        let high = total + self.open_lots(m.account_id, m.instrument_id, Side::Buy);
        if lots < 0 && low < 0 && !account.is_unlimited {
            return Err(Reason::InsufficientPosition);
        }
        if low < -POSITION_LIMIT || high > POSITION_LIMIT {
            return Err(Reason::LimitReached);
        }
        Ok(())
    }

    /// Returns the live orders for which `is_meant` holds, in order of `rec`.
    pub(super) fn recs_of(&self, is_meant: impl Fn(&Order) -> bool) -> Vec<Rec> {
        self.orders.values().filter(|order| is_meant(order)).map(|order| order.rec).collect()
    }

    pub(super) fn kill_switch<S: EventSink>(
        &mut self,
        request: &Request,
        m: &KillSwitch,
        out: &mut S,
    ) -> Result<(), Reason> {
        use weir_types::SessionId;
        self.check_operator(request, m.partition_id)?;
        let (is_known, otherwise) = match m.scope {
            KillScope::All => (m.id == 0, Reason::FieldOutOfRange),
            KillScope::Firm => (self.firms.contains_key(&FirmId(m.id)), Reason::UnknownFirm),
            KillScope::Account => {
                (self.accounts.contains_key(&AccountId(m.id)), Reason::UnknownAccount)
            }
            KillScope::Session => {
                (self.sessions.contains_key(&SessionId(m.id)), Reason::UnknownSession)
            }
        };
        if !is_known {
            return Err(otherwise);
        }
        let cancels = m.cancel_orders == Switch::On;
        if cancels && m.switch == Switch::Off {
            return Err(Reason::FieldOutOfRange);
        }
        if cancels {
            self.check_sweep(m.session_id)?;
        }
        match m.switch {
            Switch::On => self.kills.insert((m.scope.code(), m.id)),
            Switch::Off => self.kills.remove(&(m.scope.code(), m.id)),
        };
        if cancels {
            self.rules.push(TradingRule::KillCancels);
            self.begin_sweep_request(SweepRequest::Kill(*m), out);
        } else {
            self.say_done(request, 0, out);
        }
        Ok(())
    }

    pub(super) fn mass_cancel<S: EventSink>(
        &mut self,
        m: &MassCancel,
        out: &mut S,
    ) -> Result<(), Reason> {
        let asker = self.sessions[&m.session_id].clone();
        let is_operator = asker.role == Role::Operator;
        if [Role::Supervisor, Role::DropCopy, Role::Source, Role::Gateway].contains(&asker.role) {
            return Err(Reason::NotEntitled);
        }
        if self.is_control() || m.partition_id != self.config.partition_id {
            return Err(Reason::WrongPartition);
        }
        let firm_id = if is_operator { m.firm_id } else { asker.firm_id };
        match m.scope {
            MassCancelScope::Session => {}
            MassCancelScope::Account => match self.accounts.get(&m.account_id) {
                None => return Err(Reason::UnknownAccount),
                Some(account) if !is_operator && account.firm_id != asker.firm_id => {
                    return Err(Reason::NotYourAccount);
                }
                Some(_) => {}
            },
            MassCancelScope::Firm if is_operator && !self.firms.contains_key(&firm_id) => {
                return Err(Reason::UnknownFirm);
            }
            MassCancelScope::Firm if ![FirmId(0), firm_id].contains(&m.firm_id) => {
                return Err(Reason::NotEntitled);
            }
            MassCancelScope::Firm => {}
            MassCancelScope::Instrument if !is_operator => return Err(Reason::NotEntitled),
            MassCancelScope::Instrument if m.instrument_id.0 == 0 => {
                return Err(Reason::UnknownInstrument);
            }
            MassCancelScope::Instrument => {}
        }
        if m.instrument_id.0 != 0 && !self.instruments.contains_key(&m.instrument_id) {
            return Err(Reason::UnknownInstrument);
        }
        self.check_sweep(m.session_id)?;
        self.begin_sweep_request(SweepRequest::Cancel(*m), out);
        Ok(())
    }

    /// Takes limits of which each is in its range and not below the rows that there are.
    pub(super) fn set_limits(&mut self, m: &SetLimits) {
        self.digest = digest::fold_limits(self.digest, m);
        let chosen = self.cancel_on_disconnect.len();
        let fits = [
            (m.accounts_max, self.accounts.len(), 1 << 24),
            (m.sessions_max, self.sessions.len().max(chosen), 1 << 20),
            (m.firms_max, self.firms.len(), 1 << 20),
            (m.instruments_max, self.instruments.len(), 1 << 20),
            (m.orders_max, self.orders.len(), (1 << 24) - 1),
            (m.positions_max, self.open_position_count(), 1 << 30),
            (m.trades_max, self.trade_times.len(), 1 << 24),
        ]
        .iter()
        .all(|(limit, held, most)| *limit >= 1.max(*held as u32) && limit <= most);
        if !fits {
            return;
        }
        self.config.accounts_max = m.accounts_max;
        self.config.sessions_max = m.sessions_max;
        self.config.firms_max = m.firms_max;
        self.config.instruments_max = m.instruments_max;
        self.config.orders_max = m.orders_max;
        self.config.positions_max = m.positions_max;
        self.config.trades_max = m.trades_max;
    }

    pub(super) fn session_choice(&mut self, choice: &SessionChoice) {
        self.digest = digest::fold_choice(self.digest, choice);
        let is_full = self.cancel_on_disconnect.len() >= self.config.sessions_max as usize;
        match choice.cancel_on_disconnect {
            Switch::On if is_full => false,
            Switch::On => self.cancel_on_disconnect.insert(choice.session_id),
            Switch::Off => self.cancel_on_disconnect.remove(&choice.session_id),
        };
    }

    pub(super) fn session_lost<S: EventSink>(&mut self, lost: &SessionLost, out: &mut S) {
        self.digest = digest::fold_lost(self.digest, lost);
        self.cancel_on_disconnect.remove(&lost.session_id);
        if lost.cancel_on_disconnect == Switch::Off {
            return;
        }
        self.begin_loss(lost.session_id, out);
    }
}
