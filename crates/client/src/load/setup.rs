//! The setup of a load on a node, by an operator: a firm, accounts, sessions with fresh keys and,
//! optionally, instruments.
//!
//! The accounts are unlimited: a load measures the path of an order, not the consumption of cash.
//! Definitions replace earlier ones with the same identifiers, so that loads can follow each other
//! on one node with the same range of identifiers.

use weir_types::{
    AccountId, Cash, FirmId, GroupId, InstrumentId, PartitionId, Phase, Price, Qty, RequestNo,
    Role, SessionId, Switch, Symbol,
};
use weir_wire::reference::{DefineAccount, DefineFirm, DefineInstrument, DefineSession, Transfer};

use super::generator::Trader;
use super::mix::Listing;
use crate::admin::Admin;
use crate::error::ClientError;
pub use crate::key::{fresh_key, key_hash};
use crate::request::session_by_key;
use crate::session::SessionConfig;

/// The middle of the load's instruments, in their price units.
const MIDDLE: Price = Price(10_000);

/// The limit of a load's live orders per session, account and firm: that of the partition.
const LIVE_ORDERS_MAX: u32 = u32::MAX;

/// The identifiers that a load uses.
#[derive(Clone, Copy, Debug)]
pub struct SetupPlan {
    /// The first identifier of sessions, accounts and instruments, and the firm's.
    pub first_id: u32,
    /// The number of sessions, each with an account of its own.
    pub session_count: u32,
    /// The number of instruments to define, assigned round-robin to the node's partitions.
    pub instrument_count: u32,
    /// The most unanswered requests of a session.
    pub unanswered_count_max: usize,
}

/// Defines everything in the plan; returns the traders and the instruments.
///
/// # Errors
/// As [`Admin::define_instrument`].
pub fn set_up(
    admin: &mut Admin,
    plan: &SetupPlan,
) -> Result<(Vec<Trader>, Vec<Listing>), ClientError> {
    let partitions = admin.partitions();
    let mut listings = Vec::new();
    for index in 0..plan.instrument_count {
        let partition_id = partitions[index as usize % partitions.len().max(1)];
        listings.push(list(admin, plan.first_id + index, partition_id)?);
    }
    let traders = hire_all(admin, plan)?;
    Ok((traders, listings))
}

/// Defines the plan's sessions and waits until every partition has imported all definitions so far.
///
/// # Errors
/// As [`set_up`].
pub fn hire_all(admin: &mut Admin, plan: &SetupPlan) -> Result<Vec<Trader>, ClientError> {
    let firm_id = FirmId(plan.first_id);
    let (request_no, session_id) = (RequestNo::NONE, SessionId::NONE);
    let name = symbol(plan.first_id);
    let live_orders_max = LIVE_ORDERS_MAX;
    admin.define_firm(DefineFirm {
        request_no,
        name,
        session_id,
        firm_id,
        live_orders_max,
        fields: 0,
    })?;
    let mut traders = Vec::new();
    for index in 0..plan.session_count {
        traders.push(hire(admin, plan, plan.first_id + index)?);
    }
    let last = traders.last().map(|trader| trader.account_id);
    last.map_or(Ok(()), |account_id| wait_for_imports(admin, account_id))?;
    Ok(traders)
}

/// Waits for imports: a partition that books a transfer to the account defined last has imported
/// all definitions before it.
fn wait_for_imports(admin: &mut Admin, account_id: AccountId) -> Result<(), ClientError> {
    for partition_id in admin.partitions() {
        admin.transfer(Transfer {
            request_no: RequestNo::NONE,
            // Increasing per account, across runs too.
            transfer_id: crate::clock::unix_time().0,
            cash: Cash(1),
            position_qty: 0,
            session_id: SessionId::NONE,
            account_id,
            instrument_id: InstrumentId::NONE,
            partition_id,
            peer_partition_id: PartitionId::NONE,
        })?;
    }
    Ok(())
}

/// Defines one session of the plan with a fresh key, and its account.
///
/// # Errors
/// As [`set_up`].
pub fn hire(admin: &mut Admin, plan: &SetupPlan, id: u32) -> Result<Trader, ClientError> {
    let (request_no, session_id) = (RequestNo::NONE, SessionId::NONE);
    let (firm_id, account_id) = (FirmId(plan.first_id), AccountId(id));
    let key = fresh_key()?;
    let definition = session_by_key(SessionId(id), firm_id, Role::Trader, &key);
    let live_orders_max = LIVE_ORDERS_MAX;
    admin.define_session(DefineSession { live_orders_max, ..definition })?;
    let unlimited = Switch::On;
    admin.define_account(DefineAccount {
        request_no,
        session_id,
        account_id,
        firm_id,
        unlimited,
        live_orders_max,
        fields: 0,
    })?;
    let session = SessionConfig {
        unanswered_count_max: plan.unanswered_count_max,
        ..SessionConfig::new(SessionId(id), key)
    };
    Ok(Trader { session, account_id })
}

/// Returns the definition of the load's instrument `id`.
#[must_use]
pub fn instrument(id: u32, partition_id: PartitionId) -> DefineInstrument {
    DefineInstrument {
        request_no: RequestNo::NONE,
        symbol: symbol(id),
        tick_size: Price(1),
        lot_size: Qty(1),
        order_qty_max: Qty(1_000_000),
        price_min: Price(1),
        price_max: Price(2 * MIDDLE.0),
        reference_price: Price(0),
        volatility_call: weir_types::Nanos(0),
        static_collar: 0,
        dynamic_collar: 0,
        session_id: SessionId::NONE,
        instrument_id: InstrumentId(id),
        partition_id,
        price_exponent: -2,
        qty_exponent: 0,
        phase: Phase::Continuous,
        fields: 0,
        group_id: GroupId::NONE,
    }
}

fn list(admin: &mut Admin, id: u32, partition_id: PartitionId) -> Result<Listing, ClientError> {
    let definition = instrument(id, partition_id);
    admin.define_instrument(definition)?;
    Ok(Listing {
        instrument_id: InstrumentId(id),
        partition_id,
        tick_size: definition.tick_size,
        lot_size: definition.lot_size,
        middle: MIDDLE,
    })
}

/// The longest symbol of the node's published market.
const SYMBOL_LEN_MAX: usize = 8;

/// Returns the name of the load's instrument or firm `number`: LOAD and the number, or as much of
/// LOAD as the published market's symbols have room for.
fn symbol(number: u32) -> Symbol {
    let digits = number.to_string();
    let room = SYMBOL_LEN_MAX.saturating_sub(digits.len());
    let prefix = &"LOAD"[..room.min(4)];
    Symbol::new(&format!("{prefix}{digits}")).expect("a prefix and ten digits are 16 characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_have_eight_letters_at_most_as_long_as_their_number_does() {
        for (number, want) in [
            (1, "LOAD1"),
            (9_000, "LOAD9000"),
            (900_000, "LO900000"),
            (12_345_678, "12345678"),
            (u32::MAX, "4294967295"),
        ] {
            assert_eq!(symbol(number).to_string(), want);
        }
    }
}
