//! The reference data and the money with which every script begins.

use weir_types::{
    AccountId, Cash, ClOrdId, Credential, CredentialKind, FirmId, GroupId, InstrumentId, Nanos,
    PartitionId, Phase, Position, Price, Qty, RequestNo, Role, SessionId, Switch, Symbol,
};
use weir_wire::reference::{DefineAccount, DefineFirm, DefineInstrument, DefineSession, Transfer};
use weir_wire::{Command, Definition, Request};

use super::{HERE, OPERATOR};

/// Returns the definition as an operator's request.
pub(super) fn asked(
    definition: Definition,
    session_id: SessionId,
    request_no: RequestNo,
) -> Request {
    match definition {
        Definition::DefineInstrument(d) => {
            Request::DefineInstrument(DefineInstrument { session_id, request_no, ..d })
        }
        Definition::DefineFirm(d) => {
            Request::DefineFirm(DefineFirm { session_id, request_no, ..d })
        }
        Definition::DefineAccount(d) => {
            Request::DefineAccount(DefineAccount { session_id, request_no, ..d })
        }
        Definition::DefineSession(d) => {
            Request::DefineSession(DefineSession { session_id, request_no, ..d })
        }
    }
}

/// Returns the definition as one that sets these fields.
pub(super) fn with_fields(definition: Definition, fields: u32) -> Definition {
    match definition {
        Definition::DefineInstrument(d) => {
            Definition::DefineInstrument(DefineInstrument { fields, ..d })
        }
        Definition::DefineFirm(d) => Definition::DefineFirm(DefineFirm { fields, ..d }),
        Definition::DefineAccount(d) => Definition::DefineAccount(DefineAccount { fields, ..d }),
        Definition::DefineSession(d) => Definition::DefineSession(DefineSession { fields, ..d }),
    }
}

pub(super) fn instrument(id: u32, partition_id: PartitionId, tick_size: i64) -> Definition {
    let (price_min, price_max) = if id == 101 { (-1_000, 1_000) } else { (1, 10_000) };
    Definition::DefineInstrument(DefineInstrument {
        request_no: RequestNo(0),
        symbol: Symbol(ClOrdId::from_number(u64::from(id)).0),
        tick_size: Price(tick_size),
        lot_size: Qty(10),
        order_qty_max: Qty(100_000),
        price_min: Price(price_min),
        price_max: Price(price_max),
        reference_price: Price(0),
        volatility_call: Nanos(0),
        static_collar: 0,
        dynamic_collar: 0,
        session_id: OPERATOR,
        instrument_id: InstrumentId(id),
        partition_id,
        price_exponent: -2,
        qty_exponent: 0,
        phase: Phase::Continuous,
        fields: 0,
        group_id: GroupId(7),
    })
}

pub(super) fn firm(id: u32) -> Definition {
    Definition::DefineFirm(DefineFirm {
        request_no: RequestNo(0),
        name: Symbol(ClOrdId::from_number(u64::from(id)).0),
        session_id: OPERATOR,
        firm_id: FirmId(id),
        live_orders_max: 0,
        fields: 0,
    })
}

pub(super) fn account(id: u32, firm: u32, unlimited: Switch) -> Definition {
    Definition::DefineAccount(DefineAccount {
        request_no: RequestNo(0),
        session_id: OPERATOR,
        account_id: AccountId(id),
        firm_id: FirmId(firm),
        unlimited,
        live_orders_max: 0,
        fields: 0,
    })
}

pub(super) fn session(id: u32, firm: u32, role: Role) -> Definition {
    Definition::DefineSession(DefineSession {
        request_no: RequestNo(0),
        valid_until: Nanos(0),
        credential: Credential([id as u8; 32]),
        session_id: OPERATOR,
        defined_session_id: SessionId(id),
        firm_id: FirmId(firm),
        order_rate_max: 0,
        in_flight_max: 0,
        role,
        credential_kind: CredentialKind::ApiKey,
        live_orders_max: 0,
        fields: 0,
    })
}

/// Returns the first operator, and its requests for the same reference data.
pub(super) fn control_opening() -> Vec<Command> {
    let first = Command::Import(Position(1), session(OPERATOR.0, 0, Role::Operator));
    let asked = (1..)
        .zip(reference_data())
        .map(|(number, definition)| asked(definition, OPERATOR, RequestNo(number)));
    std::iter::once(first).chain(asked.map(Command::Request)).collect()
}

/// Returns two firms with two sessions each, some accounts and three instruments.
fn reference_data() -> [Definition; 18] {
    [
        firm(1),
        firm(2),
        account(11, 1, Switch::Off),
        account(12, 1, Switch::Off),
        account(13, 1, Switch::On),
        account(21, 2, Switch::Off),
        account(22, 2, Switch::On),
        session(OPERATOR.0, 0, Role::Operator),
        session(91, 0, Role::Supervisor),
        session(92, 1, Role::DropCopy),
        session(93, 0, Role::Source),
        session(1, 1, Role::Trader),
        session(2, 1, Role::Trader),
        session(3, 2, Role::Trader),
        session(4, 2, Role::Trader),
        instrument(100, HERE, 1),
        instrument(101, HERE, 1),
        instrument(102, PartitionId(2), 1),
    ]
}

/// Returns the reference data with narrow bounds (so that accounts can pay for market orders of a
/// call), collars and a session with a rate limit, and some money.
pub(super) fn opening() -> Vec<Command> {
    let mut commands = Vec::new();
    for (at, mut definition) in (1..).zip(reference_data()) {
        match &mut definition {
            Definition::DefineInstrument(d) => {
                *d = with_rules(*d, [400, 300], Nanos(40_000_000), Price(0));
            }
            Definition::DefineSession(d) if d.defined_session_id.0 == 4 => d.order_rate_max = 25,
            _ => {}
        }
        commands.push(Command::Import(Position(at), definition));
    }
    let mut number = 0;
    for account in [11, 12, 21] {
        for instrument in [100, 101] {
            number += 1;
            commands.push(Command::Request(Request::Transfer(Transfer {
                request_no: RequestNo(number),
                transfer_id: number,
                cash: Cash(60_000),
                position_qty: 1_500,
                session_id: OPERATOR,
                account_id: AccountId(account),
                instrument_id: InstrumentId(instrument),
                partition_id: HERE,
                peer_partition_id: PartitionId(0),
            })));
        }
    }
    commands
}

/// Returns a definition with the fields that only the full mode uses. The instrument around zero
/// has wide collars, because each step there is a large part of its price. Instrument 103 has no
/// bounds.
pub(super) fn with_rules(
    d: DefineInstrument,
    [static_collar, dynamic_collar]: [u32; 2],
    volatility_call: Nanos,
    reference_price: Price,
) -> DefineInstrument {
    let is_around_zero = d.instrument_id == InstrumentId(101);
    let scale = if is_around_zero { 60 } else { 1 };
    let reference_price = match reference_price {
        Price(0) => Price(0),
        Price(price) if is_around_zero => Price(price - 100),
        price => price,
    };
    let (price_min, price_max) = match d.instrument_id {
        InstrumentId(101) => (-60, 60),
        InstrumentId(103) => (i64::MIN, i64::MAX),
        _ => (1, 200),
    };
    DefineInstrument {
        price_min: Price(price_min),
        price_max: Price(price_max),
        static_collar: static_collar * scale,
        dynamic_collar: dynamic_collar * scale,
        volatility_call,
        reference_price,
        ..d
    }
}
