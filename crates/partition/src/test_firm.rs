//! A definition for this crate's tests.

use weir_types::{FirmId, RequestNo, SessionId, Symbol};
use weir_wire::Definition;
use weir_wire::reference::DefineFirm;

/// Returns the definition of a firm, which causes one event.
pub(crate) fn firm(number: u32) -> Definition {
    Definition::DefineFirm(DefineFirm {
        request_no: RequestNo::NONE,
        name: Symbol::new("FIRM").expect("a short name"),
        session_id: SessionId::NONE,
        firm_id: FirmId(number),
        live_orders_max: 0,
        fields: 0,
    })
}
