//! The operator check, and the operator's kill switches.

use weir_types::{ClOrdId, KillScope, PartitionId, Reason, Role, Switch};
use weir_wire::reference::KillSwitch;

use crate::config::EventSink;
use crate::emit::{NamedIds, Requester};
use crate::engine::Engine;
use crate::index::NIL;

impl Engine {
    /// Checks that the asker may send an operator's request to `partition_id`.
    pub(crate) fn check_operator(
        &self,
        asker: Requester,
        partition_id: PartitionId,
    ) -> Result<(), Reason> {
        if self.sessions[asker.session].role != Role::Operator {
            return Err(Reason::NotEntitled);
        }
        let is_here = partition_id == self.config.partition_id && !partition_id.is_none();
        if is_here { Ok(()) } else { Err(Reason::WrongPartition) }
    }

    pub(crate) fn kill_switch<S: EventSink>(
        &mut self,
        asker: Requester,
        m: &KillSwitch,
        out: &mut S,
    ) {
        match self.carry_out_kill(asker, m) {
            Ok(()) if m.cancel_orders == Switch::On => {
                let sweep = self.sweep_of_kill(asker, m);
                self.begin_sweep(sweep, out);
            }
            Ok(()) => self.say_done(asker, ClOrdId::NONE, 0, out),
            Err(reason) => self.reject(asker, NamedIds::NOTHING, reason, out),
        }
    }

    fn carry_out_kill(&mut self, asker: Requester, m: &KillSwitch) -> Result<(), Reason> {
        self.check_operator(asker, m.partition_id)?;
        let slot = match m.scope {
            KillScope::All if m.id != 0 => return Err(Reason::FieldOutOfRange),
            KillScope::All => NIL,
            KillScope::Firm => self.firms.find(m.id).ok_or(Reason::UnknownFirm)?,
            KillScope::Account => self.accounts.find(m.id).ok_or(Reason::UnknownAccount)?,
            KillScope::Session => self.sessions.find(m.id).ok_or(Reason::UnknownSession)?,
        };
        let is_on = m.switch == Switch::On;
        if m.cancel_orders == Switch::On {
            if !is_on {
                return Err(Reason::FieldOutOfRange);
            }
            self.check_sweep(asker.session)?;
        }
        match m.scope {
            KillScope::All => self.is_killed = is_on,
            KillScope::Firm => self.firms[slot].is_killed = is_on,
            KillScope::Account => self.accounts[slot].is_killed = is_on,
            KillScope::Session => self.sessions[slot].is_killed = is_on,
        }
        Ok(())
    }
}
