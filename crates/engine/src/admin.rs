//! The operator's requests to a partition: transfers and kill switches.
//!
//! A transfer is carried out once by its `transfer_id`, which only grows per account: a repeated
//! one is answered as done, with nothing changed.

use weir_types::{Cash, ClOrdId, KillScope, PartitionId, Reason, Role, Switch};
use weir_wire::reference::{KillSwitch, Transfer};

use crate::config::{CASH_LIMIT, EventSink, POSITION_LIMIT};
use crate::emit::{Asker, Named};
use crate::engine::Engine;
use crate::index::Slot;

impl Engine {
    /// Whether the asker may send an operator's request to `partition_id`.
    pub(crate) fn check_operator(
        &self,
        asker: Asker,
        partition_id: PartitionId,
    ) -> Result<(), Reason> {
        if self.sessions[asker.session].role != Role::Operator {
            return Err(Reason::NotEntitled);
        }
        let is_here = partition_id == self.config.partition_id && !partition_id.is_none();
        if is_here { Ok(()) } else { Err(Reason::WrongPartition) }
    }

    pub(crate) fn transfer<S: EventSink>(&mut self, asker: Asker, m: &Transfer, out: &mut S) {
        match self.carry_out_transfer(asker, m) {
            Ok(affected_count) => self.say_done(asker, ClOrdId::NONE, affected_count, out),
            Err(reason) => {
                let named = Named { instrument_id: m.instrument_id, ..Named::NOTHING };
                self.reject(asker, named, reason, out);
            }
        }
    }

    fn carry_out_transfer(&mut self, asker: Asker, m: &Transfer) -> Result<u64, Reason> {
        self.check_operator(asker, m.partition_id)?;
        let account = self.accounts.find(m.account_id.0).ok_or(Reason::UnknownAccount)?;
        let instrument = self.transfer_instrument(m)?;
        if m.transfer_id == 0 {
            return Err(Reason::FieldOutOfRange);
        }
        if m.transfer_id <= self.accounts[account].transfer_id_last {
            return Ok(0);
        }
        self.check_transfer_cash(account, m.cash)?;
        if let Some(instrument) = instrument {
            self.check_transfer_position(account, instrument, m.position_qty)?;
            self.positions.update(account, instrument, |p| p.total += m.position_qty);
            self.instruments[instrument].transferred_in += i128::from(m.position_qty);
        }
        let row = &mut self.accounts[account];
        row.transfer_id_last = m.transfer_id;
        row.cash += m.cash;
        self.cash_transferred_in += m.cash;
        Ok(1)
    }

    /// The instrument whose lots move; `None` when only cash does.
    fn transfer_instrument(&self, m: &Transfer) -> Result<Option<Slot>, Reason> {
        if m.instrument_id.is_none() {
            return if m.position_qty == 0 { Ok(None) } else { Err(Reason::UnknownInstrument) };
        }
        let slot = self.instruments.find(m.instrument_id.0).ok_or(Reason::UnknownInstrument)?;
        if self.instruments[slot].definition.partition_id != self.config.partition_id {
            return Err(Reason::WrongPartition);
        }
        Ok((m.position_qty != 0).then_some(slot))
    }

    fn check_transfer_cash(&self, account: Slot, cash: Cash) -> Result<(), Reason> {
        let row = &self.accounts[account];
        if cash.0.unsigned_abs() > CASH_LIMIT.unsigned_abs() {
            return Err(Reason::LimitReached);
        }
        if cash.0 < 0 {
            return row.check_cash(Cash(-cash.0));
        }
        if (row.cash + cash).0 > CASH_LIMIT { Err(Reason::LimitReached) } else { Ok(()) }
    }

    fn check_transfer_position(
        &self,
        account: Slot,
        instrument: Slot,
        qty: i64,
    ) -> Result<(), Reason> {
        if self.positions.is_full_for(account, instrument) {
            return Err(Reason::LimitReached);
        }
        let position = self.positions.get(account, instrument);
        let total = i128::from(position.total) + i128::from(qty);
        let least = total - i128::from(position.reserved);
        if qty < 0 && least < 0 && !self.accounts[account].is_unlimited {
            return Err(Reason::InsufficientPosition);
        }
        let most = total + i128::from(position.open_buy);
        let is_fine = least >= -POSITION_LIMIT && most <= POSITION_LIMIT;
        if is_fine { Ok(()) } else { Err(Reason::LimitReached) }
    }

    pub(crate) fn kill_switch<S: EventSink>(&mut self, asker: Asker, m: &KillSwitch, out: &mut S) {
        match self.carry_out_kill(asker, m) {
            Ok(()) => self.say_done(asker, ClOrdId::NONE, 0, out),
            Err(reason) => self.reject(asker, Named::NOTHING, reason, out),
        }
    }

    fn carry_out_kill(&mut self, asker: Asker, m: &KillSwitch) -> Result<(), Reason> {
        self.check_operator(asker, m.partition_id)?;
        let is_on = m.switch == Switch::On;
        match m.scope {
            KillScope::All if m.id != 0 => return Err(Reason::FieldOutOfRange),
            KillScope::All => self.is_killed = is_on,
            KillScope::Firm => {
                let slot = self.firms.find(m.id).ok_or(Reason::UnknownFirm)?;
                self.firms[slot].is_killed = is_on;
            }
            KillScope::Account => {
                let slot = self.accounts.find(m.id).ok_or(Reason::UnknownAccount)?;
                self.accounts[slot].is_killed = is_on;
            }
            KillScope::Session => {
                let slot = self.sessions.find(m.id).ok_or(Reason::UnknownSession)?;
                self.sessions[slot].is_killed = is_on;
            }
        }
        Ok(())
    }
}
