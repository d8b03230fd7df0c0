//! Entitlement (the rows that a session may see) and filter (the rows that it asked for), combined
//! as a scope.
//!
//! A scope is part of a token's seal, so that a token taken with one filter or entitlement is never
//! honoured with another: rows that became visible would be skipped silently.

use weir_types::{AccountId, FirmId, InstrumentId, Switch};
use weir_wire::delivery::FetchOrders;

/// The values of an order that filters and indexes use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// The firm.
    pub firm_id: FirmId,
    /// The account.
    pub account_id: AccountId,
    /// The instrument.
    pub instrument_id: InstrumentId,
}

/// A reader's filter; "none" in a field means any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only this firm's orders.
    pub firm_id: FirmId,
    /// Only this account's orders.
    pub account_id: AccountId,
    /// Only this instrument's orders.
    pub instrument_id: InstrumentId,
    /// Only live orders, and the ends of those that were live at the reader's place.
    pub live_only: bool,
}

impl Keys {
    /// No keys.
    pub const NONE: Keys = Keys {
        firm_id: FirmId::NONE,
        account_id: AccountId::NONE,
        instrument_id: InstrumentId::NONE,
    };
}

impl Filter {
    /// The filter that lets all orders through.
    pub const ALL: Filter = Filter {
        firm_id: FirmId::NONE,
        account_id: AccountId::NONE,
        instrument_id: InstrumentId::NONE,
        live_only: false,
    };

    /// Returns the filter of a fetch.
    #[must_use]
    pub fn of(fetch: &FetchOrders) -> Filter {
        Filter {
            firm_id: fetch.firm_id,
            account_id: fetch.account_id,
            instrument_id: fetch.instrument_id,
            live_only: fetch.live_only == Switch::On,
        }
    }

    /// True when the filter names an order with these keys; `live_only` is not checked.
    #[must_use]
    #[inline]
    pub fn matches(&self, keys: &Keys) -> bool {
        (self.firm_id.is_none() || self.firm_id == keys.firm_id)
            && (self.account_id.is_none() || self.account_id == keys.account_id)
            && (self.instrument_id.is_none() || self.instrument_id == keys.instrument_id)
    }
}

/// The orders that a session may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// One firm's orders.
    Firm(FirmId),
    /// All orders.
    All,
}

/// The orders that a session may see, and the version of that decision: tokens taken under another
/// version are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entitlement {
    /// The visible orders.
    pub visibility: Visibility,
    /// A version number that changes whenever the session's rights do.
    pub version: u64,
}

impl Entitlement {
    /// The right to see the orders of `firm_id` only, at version 0.
    #[must_use]
    pub const fn firm(firm_id: FirmId) -> Entitlement {
        Entitlement { visibility: Visibility::Firm(firm_id), version: 0 }
    }

    /// The right to see all orders, at version 0.
    #[must_use]
    pub const fn all() -> Entitlement {
        Entitlement { visibility: Visibility::All, version: 0 }
    }

    /// Returns the same rights at another version.
    #[must_use]
    pub const fn at_version(self, version: u64) -> Entitlement {
        Entitlement { visibility: self.visibility, version }
    }
}

/// The refusal of a fetch that names a firm outside the session's entitlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session may not see the orders of firm {0}")]
pub struct NotEntitled(pub FirmId);

/// The effective filter: the requested filter, restricted to the entitlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    filter: Filter,
    entitlement: Entitlement,
}

impl Scope {
    /// Restricts a filter to an entitlement.
    ///
    /// # Errors
    /// [`NotEntitled`] if the filter names a firm that the session may not see. Another firm's
    /// account cannot be recognised here and matches nothing.
    pub fn new(filter: Filter, entitlement: Entitlement) -> Result<Scope, NotEntitled> {
        let mut filter = filter;
        if let Visibility::Firm(firm_id) = entitlement.visibility {
            // Without this check a session without a firm would match any firm.
            if firm_id.is_none() || (!filter.firm_id.is_none() && filter.firm_id != firm_id) {
                return Err(NotEntitled(filter.firm_id));
            }
            filter.firm_id = firm_id;
        }
        Ok(Scope { filter, entitlement })
    }

    /// The effective filter.
    #[must_use]
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Returns the scope's bytes, which are part of a token's seal.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; SCOPE_LEN] {
        let mut bytes = [0; SCOPE_LEN];
        bytes[0..4].copy_from_slice(&self.filter.firm_id.0.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.filter.account_id.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.filter.instrument_id.0.to_le_bytes());
        bytes[12] = u8::from(self.filter.live_only);
        bytes[13] = u8::from(self.entitlement.visibility == Visibility::All);
        bytes[14..22].copy_from_slice(&self.entitlement.version.to_le_bytes());
        bytes
    }
}

/// Bytes of [`Scope::to_bytes`].
pub const SCOPE_LEN: usize = 22;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_firm_sees_its_own_orders_whatever_it_asks_for() {
        let own = Entitlement::firm(FirmId(3));
        let scope = Scope::new(Filter::ALL, own).unwrap();
        assert_eq!(scope.filter().firm_id, FirmId(3));
        let other = Filter { firm_id: FirmId(4), ..Filter::ALL };
        assert_eq!(Scope::new(other, own), Err(NotEntitled(FirmId(4))));
        assert!(Scope::new(Filter::ALL, Entitlement::firm(FirmId::NONE)).is_err());
        assert_eq!(Scope::new(other, Entitlement::all()).unwrap().filter(), &other);
    }

    #[test]
    fn every_part_of_a_scope_is_in_its_bytes() {
        let firm = FirmId(1);
        let filter = Filter { firm_id: firm, ..Filter::ALL };
        let scopes = [
            Scope::new(filter, Entitlement::firm(firm)),
            Scope::new(filter, Entitlement::all()),
            Scope::new(Filter { live_only: true, ..filter }, Entitlement::all()),
            Scope::new(Filter { account_id: AccountId(1), ..filter }, Entitlement::all()),
            Scope::new(Filter { instrument_id: InstrumentId(1), ..filter }, Entitlement::all()),
            Scope::new(filter, Entitlement::all().at_version(1)),
        ]
        .map(|scope| scope.unwrap().to_bytes());
        for (i, one) in scopes.iter().enumerate() {
            assert!(scopes[..i].iter().all(|other| other != one), "scope {i}");
        }
    }
}
