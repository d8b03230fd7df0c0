//! What a session may see of order state: one answer for every way in.

use weir_delivery::Entitlement;
use weir_types::{FirmId, Role};

/// What a session of this role and firm may see; nothing for one that feeds the store.
#[must_use]
pub fn entitlement_of(role: Role, firm_id: FirmId) -> Option<Entitlement> {
    match role {
        Role::Trader | Role::DropCopy => Some(Entitlement::firm(firm_id)),
        Role::Supervisor | Role::Operator => Some(Entitlement::all()),
        Role::Source => None,
    }
}
