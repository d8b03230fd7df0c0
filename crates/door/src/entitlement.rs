//! Entitlement: the order state that each session may see, the same at the gateway and over the
//! web.

use weir_delivery::Entitlement;
use weir_types::{FirmId, Role};

/// Returns the entitlement of a session with this role and firm; `None` for a source, which feeds
/// the store, and for a gateway: neither reads anything.
#[must_use]
pub fn entitlement_of(role: Role, firm_id: FirmId) -> Option<Entitlement> {
    match role {
        Role::Trader | Role::DropCopy => Some(Entitlement::firm(firm_id)),
        Role::Supervisor | Role::Operator => Some(Entitlement::all()),
        Role::Source | Role::Gateway => None,
    }
}
