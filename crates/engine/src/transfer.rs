//! Transfers: cash and lots moved into or out of an account of this partition.
//!
//! | `transfer_id` | amounts, and the partition at the other end | answer |
//! | --- | --- | --- |
//! | above the account's last | any | carried out: done, 1 |
//! | the account's last | its own | carried out before: done, 0 |
//! | the account's last | others | refused, `TRANSFER_ID_USED` |
//! | below the account's last | any | refused, `TRANSFER_ID_USED` |
//!
//! A sender that does not know the outcome of a transfer sends it again. No answer ever claims that
//! a transfer was carried out when it was not. The other end counts, because a partition that was
//! asked again says only that the amounts have left it: without it a move repeated with another
//! target would enter both.
//!
//! INVARIANT: `cash_moved_in` minus `cash_moved_out` is the sum of all accounts' cash. Cash in
//! transit to another partition has been moved out here and not yet in there.

use weir_types::{Cash, ClOrdId, InstrumentId, PartitionId, Reason};
use weir_wire::PlainEvent;
use weir_wire::event::RequestDone;
use weir_wire::reference::{AccountInquiry, Transfer};

use crate::config::{CASH_LIMIT, EventSink, POSITION_LIMIT};
use crate::emit::{NamedIds, Requester};
use crate::engine::Engine;
use crate::index::{NIL, Slot};
use crate::plant::{self, Plant};

/// The last transfer of an account. Kept apart from the accounts, whose rows are a cache line each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastTransfer {
    /// Zero before the first.
    pub(crate) transfer_id: u64,
    pub(crate) cash: Cash,
    pub(crate) position_qty: i64,
    pub(crate) instrument_id: InstrumentId,
    /// The partition at the other end; none for outside.
    pub(crate) peer_partition_id: PartitionId,
}

impl LastTransfer {
    fn of(m: &Transfer) -> LastTransfer {
        LastTransfer {
            transfer_id: m.transfer_id,
            cash: m.cash,
            position_qty: m.position_qty,
            instrument_id: m.instrument_id,
            peer_partition_id: m.peer_partition_id,
        }
    }

    /// Returns true if this is the transfer.
    fn is(&self, m: &Transfer) -> bool {
        let mut asked = LastTransfer::of(m);
        if plant::is(Plant::TransferPeerIgnored) {
            asked.peer_partition_id = self.peer_partition_id;
        }
        *self == asked
    }
}

/// A request on an account that was carried out.
#[derive(Clone, Copy, Debug)]
struct CarriedOut {
    account: Slot,
    /// 1 if it moved something now.
    affected_count: u64,
}

impl Engine {
    pub(crate) fn transfer<S: EventSink>(&mut self, asker: Requester, m: &Transfer, out: &mut S) {
        match self.carry_out_transfer(asker, m) {
            Ok(carried_out) => self.say_cash(asker, carried_out, out),
            Err(reason) => {
                let named = NamedIds { instrument_id: m.instrument_id, ..NamedIds::NOTHING };
                self.reject(asker, named, reason, out);
            }
        }
    }

    pub(crate) fn tell_account<S: EventSink>(
        &mut self,
        asker: Requester,
        m: &AccountInquiry,
        out: &mut S,
    ) {
        let known = self.accounts.find(m.account_id.0).ok_or(Reason::UnknownAccount);
        match self.check_operator(asker, m.partition_id).and(known) {
            Ok(account) => self.say_cash(asker, CarriedOut { account, affected_count: 0 }, out),
            Err(reason) => self.reject(asker, NamedIds::NOTHING, reason, out),
        }
    }

    /// Reports that a request was carried out and changed so much, with the account's cash and last
    /// transfer.
    fn say_cash<S: EventSink>(
        &mut self,
        asker: Requester,
        CarriedOut { account, affected_count }: CarriedOut,
        out: &mut S,
    ) {
        let PlainEvent::RequestDone(done) = self.done(asker, ClOrdId::NONE, affected_count) else {
            unreachable!("it reports that a request is done")
        };
        let row = &self.accounts[account];
        let last = &self.last_transfers[account as usize];
        let event = PlainEvent::RequestDone(RequestDone {
            cash: row.cash,
            reserved: row.reserved,
            last_transfer_id: last.transfer_id,
            last_transfer_cash: last.cash,
            last_transfer_peer: last.peer_partition_id,
            ..done
        });
        self.say_answer(asker.session, event, out);
    }

    fn carry_out_transfer(&mut self, asker: Requester, m: &Transfer) -> Result<CarriedOut, Reason> {
        self.check_operator(asker, m.partition_id)?;
        let account = self.accounts.find(m.account_id.0).ok_or(Reason::UnknownAccount)?;
        let instrument = self.transfer_instrument(m)?;
        if m.transfer_id == 0 {
            return Err(Reason::FieldOutOfRange);
        }
        if m.peer_partition_id == self.config.partition_id {
            return Err(Reason::WrongPartition);
        }
        let last = &self.last_transfers[account as usize];
        if last.is(m) {
            return Ok(CarriedOut { account, affected_count: 0 });
        }
        if m.transfer_id <= last.transfer_id {
            return Err(Reason::TransferIdUsed);
        }
        self.check_transfer_cash(account, m.cash)?;
        if let Some(instrument) = instrument {
            self.check_transfer_position(account, instrument, m.position_qty)?;
            self.positions.update(account, instrument, |p| p.total += m.position_qty);
            self.instruments[instrument].transferred_in += i128::from(m.position_qty);
        }
        self.last_transfers[account as usize] = LastTransfer::of(m);
        self.accounts[account].cash += m.cash;
        let moved = if m.cash.0 < 0 { &mut self.cash_moved_out } else { &mut self.cash_moved_in };
        *moved = moved_on(*moved, m.cash);
        if self.accounts[account].is_in_debt {
            self.forget_paid(account, instrument.unwrap_or(NIL));
        }
        Ok(CarriedOut { account, affected_count: 1 })
    }

    /// Returns the instrument of the transferred lots; `None` for a transfer of cash only.
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
}

/// Adds the amount of a move, in either direction, to a sum of moves. Wrapping around is harmless,
/// since the difference to the other sum stays correct: 2^31 of the largest moves fit.
pub(crate) fn moved_on(sum: Cash, cash: Cash) -> Cash {
    Cash(sum.0.wrapping_add(cash.0.wrapping_abs()))
}
