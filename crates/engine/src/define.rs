//! Reference data: operators define it in the control partition, the other partitions import it.
//!
//! A complete definition replaces the previous one with the same identifier; a change sets the
//! fields that it names. Neither changes the owner or meaning of live orders or money: an
//! instrument's partition and exponents, an account's firm, and a session's firm and role never
//! change. A change of an instrument is sequenced in the partition that trades it, where it is
//! refused if live orders do not fit it. Complete definitions are not compared with orders: logs
//! from before changes existed hold such.

use weir_types::{
    Cash, ClOrdId, FirmId, GroupId, InstrumentId, OrdType, Position, Price, Qty, Reason, Role,
    Switch,
};
use weir_wire::event::Defined;
use weir_wire::reference::{
    DefineAccount, DefineFirm, DefineInstrument, DefineSession, field_bit, is_change,
};
use weir_wire::{Definition, Event};

use crate::account::Account;
use crate::config::{EventSink, ORDER_QTY_LIMIT};
use crate::digest;
use crate::emit::{NamedIds, Requester};
use crate::engine::Engine;
use crate::index::{NIL, Slot};
use crate::instrument::{Firm, Instrument};
use crate::order::Order;
use crate::session::Session;
use crate::stops::is_stop;
use crate::transfer::LastTransfer;

/// The log that a definition comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// This engine's: a request.
    Request,
    /// The control log's, whose engine has accepted and completed it.
    ControlLog,
}

impl Engine {
    /// Carries out an operator's definition in the control partition, or the change of an
    /// instrument that this partition trades.
    pub(crate) fn define<S: EventSink>(
        &mut self,
        asker: Requester,
        definition: &Definition,
        out: &mut S,
    ) {
        let accepted = self.check_definer(asker, definition).and_then(|control_position| {
            Ok((control_position, self.accept_definition(definition, Origin::Request)?))
        });
        match accepted {
            Ok((control_position, definition)) => {
                self.say_defined(control_position, &definition, out);
                self.say_done(asker, ClOrdId::NONE, 0, out);
            }
            Err(reason) => {
                let instrument_id = match definition {
                    Definition::DefineInstrument(d) => d.instrument_id,
                    _ => NamedIds::NOTHING.instrument_id,
                };
                let named = NamedIds { instrument_id, ..NamedIds::NOTHING };
                self.reject(asker, named, reason, out);
            }
        }
    }

    /// Checks that the asker may define this here; returns the definition's place in the control
    /// log, which a change of an instrument does not enter.
    fn check_definer(&self, asker: Requester, definition: &Definition) -> Result<Position, Reason> {
        if self.sessions[asker.session].role != Role::Operator {
            return Err(Reason::NotEntitled);
        }
        let is_control = self.config.partition_id.is_none();
        match changed_instrument(definition) {
            None if is_control => Ok(self.position),
            None => Err(Reason::WrongPartition),
            Some(instrument_id) => {
                let slot = self.instruments.find(instrument_id.0);
                let slot = slot.ok_or(Reason::UnknownInstrument)?;
                let is_here =
                    self.instruments[slot].definition.partition_id == self.config.partition_id;
                if is_here { Ok(self.control_position) } else { Err(Reason::WrongPartition) }
            }
        }
    }

    /// Imports a definition of the control log into this partition. In the control log itself an
    /// import has one use: it creates the first operator, without whom nothing could be defined. An
    /// import that this partition's limits or rules refuse is counted and skipped, because it has
    /// no sender to answer.
    pub(crate) fn import<S: EventSink>(
        &mut self,
        control_position: Position,
        definition: &Definition,
        out: &mut S,
    ) {
        if self.config.is_digested {
            self.digest = digest::fold_import(self.digest, control_position, definition);
        }
        if self.config.partition_id.is_none() {
            let is_operator =
                matches!(definition, Definition::DefineSession(d) if d.role == Role::Operator);
            let has_operator =
                self.sessions.rows().iter().any(|session| session.role == Role::Operator);
            if is_operator
                && !has_operator
                && let Ok(definition) = self.accept_definition(definition, Origin::ControlLog)
            {
                self.say_defined(self.position, &definition, out);
            }
            return;
        }
        if control_position <= self.control_position {
            return;
        }
        self.control_position = control_position;
        match self.accept_definition(definition, Origin::ControlLog) {
            Ok(definition) => self.say_defined(control_position, &definition, out),
            Err(_) => self.imports_refused += 1,
        }
    }

    fn say_defined<S: EventSink>(
        &mut self,
        control_position: Position,
        definition: &Definition,
        out: &mut S,
    ) {
        self.control_position = control_position;
        let defined = Defined {
            position: self.position,
            transact_time: self.time,
            control_position,
            partition_id: self.config.partition_id,
        };
        self.say(&Event::Defined(defined, *definition), out);
    }

    /// Applies a definition; returns it with the standing values of the fields that it does not
    /// set, as far as the engine has them, and of those that contradict the state.
    fn accept_definition(
        &mut self,
        definition: &Definition,
        origin: Origin,
    ) -> Result<Definition, Reason> {
        let mut resolved = self.resolve(definition, origin)?;
        match &mut resolved {
            Definition::DefineInstrument(d) => {
                check_reference(d)?;
                self.define_instrument(d)?;
            }
            Definition::DefineFirm(d) => self.define_firm(d)?,
            Definition::DefineAccount(d) => self.define_account(d)?,
            Definition::DefineSession(d) => self.define_session(d)?,
        }
        Ok(resolved)
    }

    /// Completes a change from the standing definition.
    ///
    /// | `fields` | no such definition | one stands |
    /// | --- | --- | --- |
    /// | zero | as it is | as it is |
    /// | [`NEW`](weir_wire::reference::NEW) | as it is | `AlreadyDefined` |
    /// | other | `UnknownInstrument`, ... | the standing one with the fields set |
    /// | other, of the control log | as it is, an instrument's as above | as above |
    ///
    /// The control log completes its changes. So what a partition lacks, because a program with
    /// smaller tables refused it, comes in with a later change.
    fn resolve(&self, definition: &Definition, origin: Origin) -> Result<Definition, Reason> {
        let fields = definition.fields();
        if fields == 0 {
            return Ok(*definition);
        }
        let is_instrument = matches!(definition, Definition::DefineInstrument(_));
        match (self.standing_definition(definition), is_change(fields)) {
            (Some(standing), true) => Ok(standing.changed_by(definition)),
            (None, false) => Ok(*definition),
            (Some(_), false) => Err(Reason::AlreadyDefined),
            (None, true) if origin == Origin::ControlLog && !is_instrument => Ok(*definition),
            (None, true) => Err(match definition {
                Definition::DefineInstrument(_) => Reason::UnknownInstrument,
                Definition::DefineFirm(_) => Reason::UnknownFirm,
                Definition::DefineAccount(_) => Reason::UnknownAccount,
                Definition::DefineSession(_) => Reason::UnknownSession,
            }),
        }
    }

    /// Returns the standing definition with the identifier of this one. Fields that no engine keeps
    /// (a firm's name, a session's credential) are those of `of`.
    fn standing_definition(&self, of: &Definition) -> Option<Definition> {
        Some(match of {
            Definition::DefineInstrument(d) => {
                let slot = self.instruments.find(d.instrument_id.0)?;
                Definition::DefineInstrument(self.instruments[slot].definition)
            }
            Definition::DefineFirm(d) => {
                let row = &self.firms[self.firms.find(d.firm_id.0)?];
                let live_orders_max = row.live.defined_max();
                Definition::DefineFirm(DefineFirm { live_orders_max, ..*d })
            }
            Definition::DefineAccount(d) => {
                let row = &self.accounts[self.accounts.find(d.account_id.0)?];
                Definition::DefineAccount(DefineAccount {
                    firm_id: self.firms[row.firm].firm_id,
                    unlimited: if row.is_unlimited { Switch::On } else { Switch::Off },
                    live_orders_max: row.live.defined_max(),
                    ..*d
                })
            }
            Definition::DefineSession(d) => {
                let row = &self.sessions[self.sessions.find(d.defined_session_id.0)?];
                let has_firm = row.firm != NIL;
                Definition::DefineSession(DefineSession {
                    firm_id: if has_firm { self.firms[row.firm].firm_id } else { FirmId::NONE },
                    role: row.role,
                    order_rate_max: row.order_rate_max,
                    live_orders_max: row.live.defined_max(),
                    ..*d
                })
            }
        })
    }

    /// Checks that the instrument's live orders fit the fields that a definition changes. Visits
    /// all of them, for each of four fields.
    fn check_live_orders(&self, slot: Slot, d: &DefineInstrument) -> Result<(), Reason> {
        let before = self.instruments[slot].definition;
        let (min, max) = (d.price_min, d.price_max);
        let refuse = |is_changed: bool, reason: Reason, is_misfit: &dyn Fn(&Order) -> bool| {
            let is_refused = is_changed && self.has_order(slot, is_misfit);
            if is_refused { Err(reason) } else { Ok(()) }
        };
        refuse(d.symbol != before.symbol, Reason::LiveOrdersNamed, &|_| true)?;
        refuse(d.tick_size != before.tick_size, Reason::LiveOrdersOffTick, &|order| {
            has_price(order, |price| price.0 % d.tick_size.0 != 0)
        })?;
        refuse(d.lot_size != before.lot_size, Reason::LiveOrdersOffLot, &|order| {
            let is_off = |qty: Qty| !qty.0.is_multiple_of(d.lot_size.0);
            is_off(order.order_qty) || is_off(order.leaves_qty) || is_off(order.display_qty)
        })?;
        let is_other_range = (min, max) != (before.price_min, before.price_max);
        refuse(is_other_range, Reason::LiveOrdersOutOfRange, &|order| {
            has_price(order, |price| price < min || price > max)
        })?;
        refuse(d.order_qty_max != before.order_qty_max, Reason::LiveOrdersTooLarge, &|order| {
            order.order_qty > d.order_qty_max
        })
    }

    /// Returns true if a live order of the instrument is of this kind.
    fn has_order(&self, slot: Slot, is_meant: impl Fn(&Order) -> bool) -> bool {
        self.instruments[slot].queues().iter().flat_map(|queue| queue.best_first()).any(|level| {
            let mut at = self.levels[level].head;
            while at != NIL && !is_meant(&self.orders[at]) {
                at = self.orders[at].level_next;
            }
            at != NIL
        })
    }

    pub(crate) fn define_instrument(&mut self, d: &DefineInstrument) -> Result<(), Reason> {
        let is_fine = !d.instrument_id.is_none()
            && !d.symbol.is_none()
            && !d.partition_id.is_none()
            && d.tick_size.0 > 0
            && d.lot_size.0 > 0
            && d.order_qty_max >= d.lot_size
            && d.order_qty_max.0 <= ORDER_QTY_LIMIT
            && d.price_min <= d.price_max;
        // No scan of all instruments: a restoration comes here with each of them.
        if !is_fine || self.symbols.is_taken(d.symbol, d.instrument_id, &self.instruments) {
            return Err(Reason::InvalidDefinition);
        }
        let Some(slot) = self.instruments.find(d.instrument_id.0) else {
            if self.instruments.is_full() {
                return Err(Reason::LimitReached);
            }
            let definition = DefineInstrument { fields: 0, ..*d };
            let slot = self.instruments.insert(d.instrument_id.0, Instrument::new(definition));
            self.symbols.add(d.symbol, slot);
            self.join_group(slot, GroupId::NONE);
            return Ok(());
        };
        let before = self.instruments[slot].definition;
        if before.partition_id != d.partition_id
            || before.price_exponent != d.price_exponent
            || before.qty_exponent != d.qty_exponent
        {
            return Err(Reason::InvalidDefinition);
        }
        if is_change(d.fields) {
            self.check_live_orders(slot, d)?;
        }
        self.instruments[slot].definition = DefineInstrument { fields: 0, ..*d };
        self.symbols.rename(slot, before.symbol, d.symbol);
        if before.group_id != d.group_id {
            self.join_group(slot, before.group_id);
        }
        Ok(())
    }

    fn define_firm(&mut self, d: &DefineFirm) -> Result<(), Reason> {
        let sets_name = !is_change(d.fields) || d.fields & field_bit::<DefineFirm>("name") != 0;
        if d.firm_id.is_none() || sets_name && d.name.is_none() {
            return Err(Reason::InvalidDefinition);
        }
        if let Some(slot) = self.firms.find(d.firm_id.0) {
            let live = &mut self.firms[slot].live;
            live.bound(d.live_orders_max, self.config.orders_per_firm_max);
            return Ok(());
        }
        if self.firms.is_full() {
            return Err(Reason::LimitReached);
        }
        let live = self.config.live_of_firm(d.live_orders_max);
        let row = Firm { firm_id: d.firm_id, is_killed: false, live, sessions: Vec::new() };
        self.firms.insert(d.firm_id.0, row);
        Ok(())
    }

    /// Defines an account. One in debt stays unlimited, whatever else the definition changes.
    fn define_account(&mut self, d: &mut DefineAccount) -> Result<(), Reason> {
        if d.account_id.is_none() {
            return Err(Reason::InvalidDefinition);
        }
        let firm = self.firms.find(d.firm_id.0).ok_or(Reason::UnknownFirm)?;
        if let Some(slot) = self.accounts.find(d.account_id.0) {
            let row = &self.accounts[slot];
            if row.firm != firm {
                return Err(Reason::InvalidDefinition);
            }
            if row.is_unlimited
                && d.unlimited == Switch::Off
                && let Err(reason) = self.check_no_debt(slot)
            {
                if d.live_orders_max == row.live.defined_max() {
                    return Err(reason);
                }
                d.unlimited = Switch::On;
                self.imports_refused += 1;
            }
            let row = &mut self.accounts[slot];
            row.is_unlimited = d.unlimited == Switch::On;
            row.live.bound(d.live_orders_max, self.config.orders_per_account_max);
            if row.is_unlimited && row.is_in_debt {
                self.forget_debts(slot);
            }
            return Ok(());
        }
        if self.accounts.is_full() {
            return Err(Reason::LimitReached);
        }
        let row = Account {
            cash: Cash::ZERO,
            reserved: Cash::ZERO,
            account_id: d.account_id,
            firm,
            live: self.config.live_of_account(d.live_orders_max),
            is_unlimited: d.unlimited == Switch::On,
            is_killed: false,
            is_in_debt: false,
        };
        self.accounts.insert(d.account_id.0, row);
        self.last_transfers.push(LastTransfer::default());
        Ok(())
    }

    fn define_session(&mut self, d: &DefineSession) -> Result<(), Reason> {
        let is_firmless = d.firm_id == FirmId::NONE;
        if d.defined_session_id.is_none() || (!d.role.has_firm() && !is_firmless) {
            return Err(Reason::InvalidDefinition);
        }
        let firm = match d.role {
            Role::Trader | Role::DropCopy => {
                self.firms.find(d.firm_id.0).ok_or(Reason::UnknownFirm)?
            }
            Role::Supervisor | Role::Operator | Role::Source | Role::Gateway => NIL,
        };
        if let Some(slot) = self.sessions.find(d.defined_session_id.0) {
            let row = &mut self.sessions[slot];
            if row.firm != firm || row.role != d.role {
                return Err(Reason::InvalidDefinition);
            }
            // The key may change too, but only the gateways use keys.
            row.order_rate_max = d.order_rate_max;
            row.live.bound(d.live_orders_max, self.config.orders_per_session_max);
            return Ok(());
        }
        if self.sessions.is_full() {
            return Err(Reason::LimitReached);
        }
        let live = self.config.live_of_session(d.live_orders_max);
        let mut row = Session::new(d.defined_session_id, firm, d.role, live);
        row.order_rate_max = d.order_rate_max;
        let slot = self.sessions.insert(d.defined_session_id.0, row);
        if firm != NIL {
            self.firms[firm].sessions.push(slot);
        }
        Ok(())
    }
}

/// Returns the instrument that a definition changes.
fn changed_instrument(definition: &Definition) -> Option<InstrumentId> {
    match definition {
        Definition::DefineInstrument(d) if is_change(d.fields) => Some(d.instrument_id),
        _ => None,
    }
}

/// Returns true if the limit or the stop price of an order is of this kind.
fn has_price(order: &Order, is_meant: impl Fn(Price) -> bool) -> bool {
    let has_limit = matches!(order.ord_type, OrdType::Limit | OrdType::StopLimit);
    has_limit && is_meant(order.price) || is_stop(order.ord_type) && is_meant(order.stop_px)
}

/// Checks that a limit order could have the reference price, because market orders alone may trade
/// at it. Definitions in a snapshot are exempt: those from before this rule remain valid.
fn check_reference(d: &DefineInstrument) -> Result<(), Reason> {
    let price = d.reference_price;
    let is_fine = price == Price(0)
        || price >= d.price_min
            && price <= d.price_max
            && d.tick_size.0 > 0
            && price.0 % d.tick_size.0 == 0;
    if is_fine { Ok(()) } else { Err(Reason::InvalidDefinition) }
}
