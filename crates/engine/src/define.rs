//! Reference data: operators define it in the control partition, the other partitions import it.
//!
//! A definition replaces the previous one with the same identifier, except where live orders or
//! money would change their owner or meaning: an instrument's partition and exponents, an account's
//! firm, and a session's firm and role never change.

use weir_types::{Cash, ClOrdId, FirmId, Position, Price, Reason, Role, Switch};
use weir_wire::event::Defined;
use weir_wire::reference::{DefineAccount, DefineFirm, DefineInstrument, DefineSession};
use weir_wire::{Definition, Event};

use crate::account::Account;
use crate::config::{EventSink, ORDER_QTY_LIMIT};
use crate::digest;
use crate::emit::{NamedIds, Requester};
use crate::engine::Engine;
use crate::index::NIL;
use crate::instrument::{Firm, Instrument};
use crate::session::Session;
use crate::transfer::LastTransfer;

impl Engine {
    /// Carries out an operator's definition in the control partition.
    pub(crate) fn define<S: EventSink>(
        &mut self,
        asker: Requester,
        definition: &Definition,
        out: &mut S,
    ) {
        match self.check_definer(asker).and_then(|()| self.accept_definition(definition)) {
            Ok(()) => {
                self.say_defined(self.position, definition, out);
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

    fn check_definer(&self, asker: Requester) -> Result<(), Reason> {
        if self.sessions[asker.session].role != Role::Operator {
            return Err(Reason::NotEntitled);
        }
        let is_control = self.config.partition_id.is_none();
        if is_control { Ok(()) } else { Err(Reason::WrongPartition) }
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
            if is_operator && !has_operator && self.accept_definition(definition).is_ok() {
                self.say_defined(self.position, definition, out);
            }
            return;
        }
        if control_position <= self.control_position {
            return;
        }
        self.control_position = control_position;
        match self.accept_definition(definition) {
            Ok(()) => self.say_defined(control_position, definition, out),
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

    fn accept_definition(&mut self, definition: &Definition) -> Result<(), Reason> {
        match definition {
            Definition::DefineInstrument(d) => {
                check_reference(d)?;
                self.define_instrument(d)
            }
            Definition::DefineFirm(d) => self.define_firm(d),
            Definition::DefineAccount(d) => self.define_account(d),
            Definition::DefineSession(d) => self.define_session(d),
        }
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
        let is_symbol_taken = (self.instruments.rows().iter()).any(|other| {
            let other = &other.definition;
            other.symbol == d.symbol && other.instrument_id != d.instrument_id
        });
        if !is_fine || is_symbol_taken {
            return Err(Reason::InvalidDefinition);
        }
        let Some(slot) = self.instruments.find(d.instrument_id.0) else {
            if self.instruments.is_full() {
                return Err(Reason::LimitReached);
            }
            self.instruments.insert(d.instrument_id.0, Instrument::new(*d));
            return Ok(());
        };
        let row = &mut self.instruments[slot];
        let before = &row.definition;
        if before.partition_id != d.partition_id
            || before.price_exponent != d.price_exponent
            || before.qty_exponent != d.qty_exponent
        {
            return Err(Reason::InvalidDefinition);
        }
        row.definition = *d;
        Ok(())
    }

    fn define_firm(&mut self, d: &DefineFirm) -> Result<(), Reason> {
        if d.firm_id.is_none() || d.name.is_none() {
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

    fn define_account(&mut self, d: &DefineAccount) -> Result<(), Reason> {
        if d.account_id.is_none() {
            return Err(Reason::InvalidDefinition);
        }
        let firm = self.firms.find(d.firm_id.0).ok_or(Reason::UnknownFirm)?;
        let is_unlimited = d.unlimited == Switch::On;
        if let Some(slot) = self.accounts.find(d.account_id.0) {
            let row = &self.accounts[slot];
            if row.firm != firm {
                return Err(Reason::InvalidDefinition);
            }
            if row.is_unlimited && !is_unlimited {
                self.check_no_debt(slot)?;
            }
            let row = &mut self.accounts[slot];
            row.is_unlimited = is_unlimited;
            row.live.bound(d.live_orders_max, self.config.orders_per_account_max);
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
            is_unlimited,
            is_killed: false,
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
            Role::Supervisor | Role::Operator | Role::Source => NIL,
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
