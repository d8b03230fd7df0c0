//! The identifiers in an operator's request, checked before the log takes it: a mistyped one is
//! refused with its field and leaves no entry in any log.
//!
//! The directory has a definition before its sender has the answer. A partition imports it a moment
//! later, so the engines check again.

use weir_door::directory::Directory;
use weir_types::{
    AccountId, FirmId, InstrumentId, KillScope, MassCancelScope, Reason, Role, SessionId,
};
use weir_wire::reference::{
    DefineAccount, DefineInstrument, DefineSession, NEW, field_bit, is_change,
};
use weir_wire::{Definition, Request};

/// A field and the reason for which it is refused.
pub(super) type Refused = (&'static str, Reason);

/// Checks the identifiers of a request; of others than operators none.
pub(super) fn check(directory: &Directory, role: Role, request: &Request) -> Result<(), Refused> {
    if role != Role::Operator {
        return Ok(());
    }
    let ids = Identifiers(directory);
    match request {
        Request::KillSwitch(m) => match m.scope {
            KillScope::All => Ok(()),
            KillScope::Firm => ids.firm("id", FirmId(m.id)),
            KillScope::Account => ids.account("id", AccountId(m.id)),
            KillScope::Session => ids.session("id", SessionId(m.id)),
        },
        Request::MassCancel(m) => {
            match m.scope {
                MassCancelScope::Firm => ids.firm("firm_id", m.firm_id),
                MassCancelScope::Account => ids.account("account_id", m.account_id),
                MassCancelScope::Session | MassCancelScope::Instrument => Ok(()),
            }?;
            ids.instrument_if_any(m.instrument_id)
        }
        Request::Transfer(m) => {
            ids.account("account_id", m.account_id)?;
            ids.instrument_if_any(m.instrument_id)
        }
        _ => request.definition().map_or(Ok(()), |definition| ids.definition(&definition)),
    }
}

/// Returns the request as the log takes it: a complete definition of an instrument is that of a new
/// one, because the partition that trades it alone changes it.
pub(super) fn as_sequenced(request: &Request) -> Request {
    match request {
        Request::DefineInstrument(d) if d.fields == 0 => {
            Request::DefineInstrument(DefineInstrument { fields: NEW, ..*d })
        }
        other => *other,
    }
}

struct Identifiers<'a>(&'a Directory);

impl Identifiers<'_> {
    fn firm(&self, field: &'static str, id: FirmId) -> Result<(), Refused> {
        if self.0.has_firm(id) { Ok(()) } else { Err((field, Reason::UnknownFirm)) }
    }

    fn account(&self, field: &'static str, id: AccountId) -> Result<(), Refused> {
        if self.0.has_account(id) { Ok(()) } else { Err((field, Reason::UnknownAccount)) }
    }

    fn session(&self, field: &'static str, id: SessionId) -> Result<(), Refused> {
        if self.0.has_session(id) { Ok(()) } else { Err((field, Reason::UnknownSession)) }
    }

    fn instrument_if_any(&self, id: InstrumentId) -> Result<(), Refused> {
        let is_known = id.is_none() || self.0.partition_of(id).is_some();
        if is_known { Ok(()) } else { Err(("instrument_id", Reason::UnknownInstrument)) }
    }

    fn definition(&self, definition: &Definition) -> Result<(), Refused> {
        let fields = definition.fields();
        let is_change = is_change(fields);
        if is_change && fields & !definition.all_fields() != 0 {
            return Err(("fields", Reason::FieldOutOfRange));
        }
        match definition {
            Definition::DefineInstrument(d) => self.changed_instrument(d, is_change),
            Definition::DefineFirm(d) if is_change => self.firm("firm_id", d.firm_id),
            Definition::DefineFirm(_) => Ok(()),
            Definition::DefineAccount(d) => {
                if is_change {
                    self.account("account_id", d.account_id)?;
                }
                let is_set = !is_change || fields & field_bit::<DefineAccount>("firm_id") != 0;
                if is_set { self.firm("firm_id", d.firm_id) } else { Ok(()) }
            }
            Definition::DefineSession(d) => {
                if is_change {
                    self.session("defined_session_id", d.defined_session_id)?;
                }
                let is_set = !is_change || fields & field_bit::<DefineSession>("firm_id") != 0;
                let has_firm = is_set && !d.firm_id.is_none();
                if has_firm { self.firm("firm_id", d.firm_id) } else { Ok(()) }
            }
        }
    }

    fn changed_instrument(&self, d: &DefineInstrument, is_change: bool) -> Result<(), Refused> {
        if is_change && self.0.partition_of(d.instrument_id).is_none() {
            return Err(("instrument_id", Reason::UnknownInstrument));
        }
        // No engine knows the present symbols of other partitions' instruments.
        let is_set = !is_change || d.fields & field_bit::<DefineInstrument>("symbol") != 0;
        if is_set && self.0.is_symbol_taken(d.symbol, d.instrument_id) {
            return Err(("symbol", Reason::InvalidDefinition));
        }
        Ok(())
    }
}
