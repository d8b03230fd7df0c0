//! The identifiers in an operator's request, checked before the log takes it: a mistyped one is
//! refused with its field and leaves no entry in any log.
//!
//! The directory has a definition before its sender has the answer; symbols of requests without an
//! answer are [`super::symbols`]. A partition imports a definition a moment later, so the engines
//! check again.

use weir_door::directory::Directory;
use weir_types::{
    AccountId, FirmId, InstrumentId, KillScope, MassCancelScope, Nanos, Reason, Role, SessionId,
};
use weir_wire::reference::{
    DefineAccount, DefineFirm, DefineInstrument, DefineSession, NEW, all_fields, field_bit,
    is_change,
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
        Request::SchedulePhases(m) => ids.instrument_if_any(m.instrument_id),
        _ => request.definition().map_or(Ok(()), |definition| ids.definition(&definition)),
    }
}

/// Returns the request as the log takes it. A definition that does not say which fields it sets is
///
/// | of | for the log |
/// | --- | --- |
/// | an instrument | that of a new one: the partition that trades an instrument alone changes it |
/// | something that is not defined | as it is |
/// | something that is defined | a change of all fields, except limits and expiries that are zero |
///
/// So a client that does not know a limit, or does not think of it, does not take it away.
///
/// `is_defined_before` is true when a definition of the same identifier is on its way to the log,
/// which the directory does not have yet. If it is refused, the change is one of something unknown.
pub(super) fn as_sequenced(
    directory: &Directory,
    request: &Request,
    is_defined_before: bool,
) -> Request {
    let has = |is_known: bool| is_known || is_defined_before;
    match request {
        Request::DefineInstrument(d) if d.fields == 0 => {
            Request::DefineInstrument(DefineInstrument { fields: NEW, ..*d })
        }
        Request::DefineFirm(d) if d.fields == 0 && has(directory.has_firm(d.firm_id)) => {
            let bit = field_bit::<DefineFirm>;
            let limits = [(bit("live_orders_max"), d.live_orders_max)];
            let fields = fields_set(all_fields::<DefineFirm>(), &limits);
            Request::DefineFirm(DefineFirm { fields, ..*d })
        }
        Request::DefineAccount(d) if d.fields == 0 && has(directory.has_account(d.account_id)) => {
            let bit = field_bit::<DefineAccount>;
            let limits = [(bit("live_orders_max"), d.live_orders_max)];
            let fields = fields_set(all_fields::<DefineAccount>(), &limits);
            Request::DefineAccount(DefineAccount { fields, ..*d })
        }
        Request::DefineSession(d)
            if d.fields == 0 && has(directory.has_session(d.defined_session_id)) =>
        {
            let bit = field_bit::<DefineSession>;
            let limits = [
                (bit("valid_until"), u32::from(d.valid_until != Nanos(0))),
                (bit("order_rate_max"), d.order_rate_max),
                (bit("in_flight_max"), d.in_flight_max),
                (bit("live_orders_max"), d.live_orders_max),
            ];
            let fields = fields_set(all_fields::<DefineSession>(), &limits);
            Request::DefineSession(DefineSession { fields, ..*d })
        }
        other => *other,
    }
}

/// Returns the bits of all fields, except those of limits that are zero.
fn fields_set(all: u32, limits: &[(u32, u32)]) -> u32 {
    let unset = limits.iter().filter(|(_, value)| *value == 0);
    all & !unset.map(|(bit, _)| bit).sum::<u32>()
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

#[cfg(test)]
mod tests {
    use weir_io::SeededRng;
    use weir_types::{Credential, CredentialKind, RequestNo, Switch, Symbol};

    use super::*;

    const FIRM: FirmId = FirmId(3);

    fn firm(live_orders_max: u32) -> DefineFirm {
        let (request_no, session_id) = (RequestNo(1), SessionId(1));
        let name = Symbol::new("FIRM").unwrap();
        DefineFirm { request_no, name, session_id, firm_id: FIRM, live_orders_max, fields: 0 }
    }

    fn account(live_orders_max: u32) -> DefineAccount {
        DefineAccount {
            request_no: RequestNo(1),
            session_id: SessionId(1),
            account_id: AccountId(4),
            firm_id: FIRM,
            unlimited: Switch::Off,
            live_orders_max,
            fields: 0,
        }
    }

    fn session(valid_until: Nanos, order_rate_max: u32) -> DefineSession {
        DefineSession {
            request_no: RequestNo(1),
            valid_until,
            credential: Credential([7; 32]),
            session_id: SessionId(1),
            defined_session_id: SessionId(5),
            firm_id: FIRM,
            order_rate_max,
            in_flight_max: 0,
            role: Role::Trader,
            credential_kind: CredentialKind::ApiKey,
            live_orders_max: 0,
            fields: 0,
        }
    }

    /// Returns the bits of the fields that the log's definition does not set.
    fn unset(directory: &Directory, request: Request) -> u32 {
        let definition = as_sequenced(directory, &request, false).definition().unwrap();
        assert!(is_change(definition.fields()), "{definition:?}");
        definition.all_fields() & !definition.fields()
    }

    #[test]
    fn a_definition_that_names_no_fields_takes_no_limit_away() {
        let mut directory = Directory::new(&mut SeededRng::new(1, "keys"));
        let requests = [
            Request::DefineFirm(firm(0)),
            Request::DefineAccount(account(0)),
            Request::DefineSession(session(Nanos(0), 0)),
        ];
        for request in requests {
            assert_eq!(
                as_sequenced(&directory, &request, false),
                request,
                "what is new is complete"
            );
            let behind = as_sequenced(&directory, &request, true).definition().unwrap();
            assert_ne!(behind.fields(), 0, "behind another definition it is a change");
            directory.define(&request.definition().unwrap());
        }
        let limit = "live_orders_max";
        let firms = [0, 9].map(|max| unset(&directory, Request::DefineFirm(firm(max))));
        assert_eq!(firms, [field_bit::<DefineFirm>(limit), 0]);
        let accounts = [0, 9].map(|max| unset(&directory, Request::DefineAccount(account(max))));
        assert_eq!(accounts, [field_bit::<DefineAccount>(limit), 0]);
        let some = ["in_flight_max", limit].map(field_bit::<DefineSession>);
        let all = ["valid_until", "order_rate_max"].map(field_bit::<DefineSession>);
        let some = some[0] | some[1];
        let sessions = [(Nanos(0), 0), (Nanos(1), 2)].map(|(valid_until, rate)| {
            unset(&directory, Request::DefineSession(session(valid_until, rate)))
        });
        assert_eq!(sessions, [some | all[0] | all[1], some]);
        // One that names fields is handed on as it is.
        let named = Request::DefineFirm(DefineFirm { fields: 1 << 4, ..firm(0) });
        assert_eq!(as_sequenced(&directory, &named, false), named);
    }
}
