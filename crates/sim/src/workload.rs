//! The clients' requests: mostly sensible, so that books cross and orders live long enough to be
//! replaced and cancelled, sometimes not.

use weir_client::{Key, SigningKey};
use weir_io::{Rng, SeededRng};
use weir_types::{
    AccountId, Cash, ClOrdId, Credential, CredentialKind, ExecInst, FirmId, GroupId, InstrumentId,
    KillScope, MassCancelScope, Nanos, OrdType, OrderId, PartitionId, Phase, Position, Price, Qty,
    RequestNo, Role, ScheduleStep, SelfTradePrevention, SessionId, Side, Switch, Symbol,
    TimeInForce,
};
use weir_wire::order_entry::{CancelOrder, MassCancel, NewOrder, ReplaceOrder};
use weir_wire::reference::{
    ChangePhases, DefineAccount, DefineFirm, DefineInstrument, DefineSession, KillSwitch,
    SchedulePhase, SchedulePhases, SetPhase, Transfer,
};
use weir_wire::session::ApiKey;
use weir_wire::{Definition, Request};

/// The partition.
pub const HERE: PartitionId = PartitionId(1);
/// The operator's session.
pub const OPERATOR: SessionId = SessionId(90);
/// The traders' sessions; the last is never defined.
pub const TRADERS: [SessionId; 5] =
    [SessionId(1), SessionId(2), SessionId(3), SessionId(4), SessionId(5)];

/// The session of the desk that receives copies of [`COPIED_FIRM`]'s reports.
pub const COPY_DESK: SessionId = SessionId(50);
/// The firm whose reports are copied.
pub const COPIED_FIRM: FirmId = FirmId(1);
/// Its sessions.
pub const COPIED: [SessionId; 2] = [SessionId(1), SessionId(2)];

/// The session with a limited rate, its requests per second, and the time for one of them.
pub const THROTTLED: SessionId = SessionId(3);
const THROTTLED_RATE: u32 = 50;
/// The time after which a session that has reached its rate may make one more request.
pub const THROTTLED_INTERVAL: Nanos = Nanos(1_000_000_000 / THROTTLED_RATE as u64);
/// The session that logs on by signature.
const SIGNING: SessionId = SessionId(2);
/// The session that may have few requests unanswered, and their number.
const BOUNDED: SessionId = SIGNING;
const BOUNDED_IN_FLIGHT: u32 = 2;

/// The start of simulated time, in nanoseconds since the Unix epoch.
pub const BEGINNING: u64 = 1_700_000_000_000_000_000;
const TIMES_IN_FORCE: [TimeInForce; 4] =
    [TimeInForce::Gtc, TimeInForce::Day, TimeInForce::Gtc, TimeInForce::Ioc];
const INSTRUMENTS: [InstrumentId; 2] = [InstrumentId(100), InstrumentId(101)];
/// The group of the first instrument; the second comes to it and leaves it by definitions.
const GROUP: GroupId = GroupId(7);
/// A group without instruments.
const EMPTY_GROUP: GroupId = GroupId(9);
/// The highest price of an instrument that its later definitions may set.
const LOW_PRICE_MAX: i64 = 101;

/// An order that a client knows to be live.
#[derive(Clone, Copy, Debug)]
pub struct KnownOrder {
    /// Its number.
    pub order_id: OrderId,
    /// Its name.
    pub cl_ord_id: ClOrdId,
    /// Its instrument.
    pub instrument_id: InstrumentId,
}

fn one_of<T: Copy>(rng: &mut SeededRng, values: &[T]) -> T {
    values[usize::try_from(rng.below(values.len() as u64)).expect("an index of a short list")]
}

fn account_of(rng: &mut SeededRng, session_id: SessionId) -> AccountId {
    let accounts = if session_id.0 <= 2 { [11, 11, 12] } else { [21, 21, 22] };
    AccountId(one_of(rng, &accounts))
}

/// Draws the next request of a trader; `name` must be unused.
pub fn trade(
    rng: &mut SeededRng,
    session_id: SessionId,
    request_no: RequestNo,
    name: ClOrdId,
    known: Option<KnownOrder>,
) -> Request {
    let sending_time = Nanos(0);
    match (rng.below(100), known) {
        (0..=14, Some(order)) => Request::ReplaceOrder(ReplaceOrder {
            request_no,
            cl_ord_id: name,
            orig_cl_ord_id: order.cl_ord_id,
            order_id: order.order_id,
            price: price(rng),
            order_qty: qty(rng),
            sending_time,
            session_id,
            instrument_id: order.instrument_id,
        }),
        (15..=34, Some(order)) => Request::CancelOrder(CancelOrder {
            request_no,
            cl_ord_id: name,
            orig_cl_ord_id: order.cl_ord_id,
            order_id: one_of(rng, &[order.order_id, OrderId(0)]),
            sending_time,
            session_id,
            instrument_id: order.instrument_id,
        }),
        (35..=36, _) => Request::MassCancel(MassCancel {
            request_no,
            cl_ord_id: name,
            sending_time,
            session_id,
            instrument_id: one_of(rng, &[InstrumentId(0), INSTRUMENTS[0]]),
            account_id: account_of(rng, session_id),
            firm_id: FirmId(0),
            partition_id: HERE,
            scope: one_of(rng, MassCancelScope::ALL),
        }),
        _ => Request::NewOrder(new_order(rng, session_id, request_no, name)),
    }
}

fn new_order(
    rng: &mut SeededRng,
    session_id: SessionId,
    request_no: RequestNo,
    name: ClOrdId,
) -> NewOrder {
    let is_market = rng.chance(1, 12);
    let is_dated = !is_market && rng.chance(1, 8);
    NewOrder {
        request_no,
        cl_ord_id: name,
        price: if is_market { Price(0) } else { price(rng) },
        order_qty: qty(rng),
        min_qty: Qty(0),
        display_qty: Qty(0),
        stop_px: Price(0),
        expire_time: if is_dated { expiry(rng) } else { Nanos(0) },
        sending_time: Nanos(0),
        session_id,
        instrument_id: one_of(rng, &INSTRUMENTS),
        account_id: account_of(rng, session_id),
        side: one_of(rng, &[Side::Buy, Side::Sell]),
        ord_type: if is_market { OrdType::Market } else { OrdType::Limit },
        time_in_force: if is_dated { TimeInForce::Gtd } else { one_of(rng, &TIMES_IN_FORCE) },
        exec_inst: if rng.chance(1, 10) { ExecInst::POST_ONLY } else { ExecInst::NONE },
        self_trade_prevention: one_of(rng, SelfTradePrevention::ALL),
    }
}

/// Draws an expiry within the milliseconds or seconds of simulated time that a run takes; one in
/// the past gets the order refused.
fn expiry(rng: &mut SeededRng) -> Nanos {
    Nanos(BEGINNING + (1 << (17 + rng.below(17))) + rng.below(1 << 20))
}

fn price(rng: &mut SeededRng) -> Price {
    Price(94 + i64::try_from(rng.below(12)).expect("a small number"))
}

fn qty(rng: &mut SeededRng) -> Qty {
    Qty(10 * (1 + rng.below(20)))
}

/// Draws the next request of the operator: usually cash, now and then a kill switch, or a phase of
/// one instrument or of many, now or later.
pub fn operate(rng: &mut SeededRng, request_no: RequestNo) -> Request {
    let session_id = OPERATOR;
    let kind = rng.below(11);
    match kind {
        10 => Request::SchedulePhase(SchedulePhase {
            request_no,
            at: expiry(rng),
            session_id,
            instrument_id: one_of(rng, &INSTRUMENTS),
            phase: one_of(rng, &[Phase::Continuous, Phase::OpeningCall, Phase::Continuous]),
        }),
        0 => Request::SetPhase(SetPhase {
            request_no,
            session_id,
            instrument_id: one_of(rng, &INSTRUMENTS),
            phase: one_of(rng, &[Phase::Continuous, Phase::Continuous, Phase::Halted]),
            override_collars: Switch::Off,
        }),
        1 => Request::KillSwitch(KillSwitch {
            request_no,
            session_id,
            id: one_of(rng, &[11, 21]),
            partition_id: HERE,
            scope: KillScope::Account,
            switch: one_of(rng, &[Switch::Off, Switch::Off, Switch::On]),
            cancel_orders: Switch::Off,
        }),
        _ => {
            let transfer = Transfer {
                request_no,
                transfer_id: request_no.0,
                cash: Cash(one_of(rng, &AMOUNTS)),
                position_qty: one_of(rng, &QUANTITIES),
                session_id,
                account_id: AccountId(one_of(rng, &ACCOUNTS)),
                instrument_id: one_of(rng, &INSTRUMENTS),
                partition_id: HERE,
                peer_partition_id: PartitionId(0),
            };
            // The draws of a transfer decide about these too: all others of a seed stay in order.
            match kind {
                8 => Request::ChangePhases(change_of_many(&transfer)),
                9 => Request::SchedulePhases(schedule_of_many(&transfer)),
                _ => Request::Transfer(transfer),
            }
        }
    }
}

/// The amounts, quantities and accounts of transfers.
const AMOUNTS: [i128; 3] = [500_000, 50_000, -1_000];
const QUANTITIES: [i64; 4] = [0, 2_000, 10_000, -100];
const ACCOUNTS: [u32; 3] = [11, 12, 21];

/// Returns the change of many instruments that a transfer's draws decide: half of them are of a
/// group and a quarter of all instruments, two thirds go back to trading, some contradict
/// themselves.
fn change_of_many(of: &Transfer) -> ChangePhases {
    let is_third = of.account_id.0 == ACCOUNTS[2];
    let resumes = if of.cash.0 == AMOUNTS[0] { Switch::On } else { Switch::Off };
    let phase = match (of.cash.0, is_third) {
        (cash, _) if cash == AMOUNTS[0] => Phase::Closed,
        (cash, _) if cash == AMOUNTS[1] => Phase::Continuous,
        (_, true) => Phase::OpeningCall,
        (_, false) => Phase::Halted,
    };
    let is_on = |is: bool| if is { Switch::On } else { Switch::Off };
    ChangePhases {
        request_no: of.request_no,
        session_id: of.session_id,
        group_id: match of.position_qty {
            0 => GroupId::NONE,
            -100 => EMPTY_GROUP,
            _ => GROUP,
        },
        partition_id: of.partition_id,
        phase,
        resumes,
        override_collars: is_on(phase == Phase::Continuous && is_third),
        through_call: is_on(is_third && of.instrument_id == INSTRUMENTS[1]),
    }
}

/// Returns the request about filed changes that a transfer's draws decide: of all instruments, of a
/// group or of one; alone, or a part of a list.
fn schedule_of_many(of: &Transfer) -> SchedulePhases {
    use ScheduleStep::{Add, Append, Begin, Clear, File, Replace};
    let step = match (of.cash.0, of.position_qty) {
        (500_000, 0 | 2_000) => File,
        (500_000, 10_000) => Clear,
        (500_000, _) | (50_000, 0) => Begin,
        (50_000, _) | (_, 0) => Add,
        (_, 2_000) => Append,
        _ => Replace,
    };
    // From a quarter of a millisecond to a second, and one for each request.
    let place = match of.account_id.0 {
        11 => 18,
        12 => 24,
        _ => 30,
    };
    let (group_id, instrument_id) = match of.account_id.0 {
        11 => (GroupId::NONE, InstrumentId::NONE),
        12 => (GroupId::NONE, of.instrument_id),
        _ => (GROUP, InstrumentId::NONE),
    };
    let is_first = of.instrument_id == INSTRUMENTS[0];
    SchedulePhases {
        request_no: of.request_no,
        at: Nanos(BEGINNING + (1 << place) + 1_000_000 * of.request_no.0),
        session_id: of.session_id,
        instrument_id,
        count: if is_first { 1 } else { 2 },
        group_id,
        partition_id: of.partition_id,
        phase: if is_first { Phase::Continuous } else { Phase::OpeningCall },
        step,
    }
}

/// Returns a request with its times, which are near the beginning of a run, so much later.
#[must_use]
pub fn later(request: Request, by: Nanos) -> Request {
    let later = |at: Nanos| if at == Nanos(0) { at } else { Nanos(at.0 + by.0) };
    match request {
        Request::NewOrder(order) => {
            Request::NewOrder(NewOrder { expire_time: later(order.expire_time), ..order })
        }
        Request::SchedulePhase(phase) => {
            Request::SchedulePhase(SchedulePhase { at: later(phase.at), ..phase })
        }
        Request::SchedulePhases(phases) => {
            Request::SchedulePhases(SchedulePhases { at: later(phases.at), ..phases })
        }
        request => request,
    }
}

/// Returns the control log's definitions, in order: those that traders need, then changes of them.
#[must_use]
pub fn definitions(rng: &mut SeededRng) -> Vec<(Position, Definition)> {
    let mut definitions = vec![
        session(OPERATOR, 0, Role::Operator),
        firm(1),
        firm(2),
        account(11, 1, Switch::Off),
        account(12, 1, Switch::On),
        account(21, 2, Switch::Off),
        account(22, 2, Switch::On),
        instrument(INSTRUMENTS[0], 10_000),
        instrument(INSTRUMENTS[1], 10_000),
    ];
    definitions.extend(TRADERS[..4].iter().map(|id| session(*id, 1 + id.0 / 3, Role::Trader)));
    for _ in 0..rng.below(8) {
        definitions.push(match rng.below(3) {
            0 => instrument(one_of(rng, &INSTRUMENTS), one_of(rng, &[LOW_PRICE_MAX, 10_000])),
            1 => account(12, 1, one_of(rng, Switch::ALL)),
            _ => firm(3),
        });
    }
    (1..).map(Position).zip(definitions).collect()
}

/// Returns the definitions for clients that log on: each session has the key of its definition, the
/// desk is defined, and some sessions get another key.
#[must_use]
pub fn definitions_with_keys(rng: &mut SeededRng) -> Vec<(Position, Definition)> {
    let mut definitions: Vec<Definition> =
        definitions(rng).into_iter().map(|(_, definition)| definition).collect();
    definitions.insert(BEFORE_TRADERS, session(COPY_DESK, COPIED_FIRM.0, Role::DropCopy));
    for _ in 0..rng.below(4) {
        let id = one_of(rng, &[TRADERS[0], TRADERS[1], TRADERS[2], TRADERS[3]]);
        definitions.push(session(id, 1 + id.0 / 3, Role::Trader));
    }
    let mut counts = std::collections::BTreeMap::new();
    for definition in &mut definitions {
        if let Definition::DefineSession(d) = definition {
            let count = counts.entry(d.defined_session_id).or_insert(0_u8);
            let key = key_of(d.defined_session_id, *count);
            (d.credential, d.credential_kind) = key.credential();
            if d.defined_session_id == THROTTLED {
                d.order_rate_max = THROTTLED_RATE;
            }
            if d.defined_session_id == BOUNDED {
                d.in_flight_max = BOUNDED_IN_FLIGHT;
            }
            *count += 1;
        }
    }
    (1..).map(Position).zip(definitions).collect()
}

/// The number of definitions before the first trader's.
const BEFORE_TRADERS: usize = 9;

/// Returns the key of a session after its definition with this number.
#[must_use]
pub fn key_of(session_id: SessionId, definition: u8) -> Key {
    let mut bytes = [u8::try_from(session_id.0).expect("small session numbers"); 32];
    bytes[0] = definition;
    match session_id {
        SIGNING => Key::Signing(SigningKey::from_seed(bytes)),
        _ => Key::Api(ApiKey(bytes)),
    }
}

fn instrument(instrument_id: InstrumentId, price_max: i64) -> Definition {
    let is_of_group = instrument_id == INSTRUMENTS[0] || price_max == LOW_PRICE_MAX;
    Definition::DefineInstrument(DefineInstrument {
        request_no: RequestNo(0),
        symbol: Symbol(ClOrdId::from_number(u64::from(instrument_id.0)).0),
        tick_size: Price(1),
        lot_size: Qty(10),
        order_qty_max: Qty(100_000),
        price_min: Price(1),
        price_max: Price(price_max),
        reference_price: Price(0),
        volatility_call: Nanos(0),
        static_collar: 0,
        dynamic_collar: 0,
        session_id: OPERATOR,
        instrument_id,
        partition_id: HERE,
        price_exponent: -2,
        qty_exponent: 0,
        phase: Phase::Continuous,
        fields: 0,
        group_id: if is_of_group { GROUP } else { GroupId::NONE },
    })
}

fn firm(id: u32) -> Definition {
    Definition::DefineFirm(DefineFirm {
        request_no: RequestNo(0),
        name: Symbol(ClOrdId::from_number(u64::from(id)).0),
        session_id: OPERATOR,
        firm_id: FirmId(id),
        live_orders_max: 0,
        fields: 0,
    })
}

fn account(id: u32, firm: u32, unlimited: Switch) -> Definition {
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

fn session(id: SessionId, firm: u32, role: Role) -> Definition {
    let hash = u8::try_from(id.0).expect("small session numbers");
    Definition::DefineSession(DefineSession {
        request_no: RequestNo(0),
        valid_until: Nanos(0),
        credential: Credential([hash; 32]),
        session_id: OPERATOR,
        defined_session_id: id,
        firm_id: FirmId(firm),
        order_rate_max: 0,
        in_flight_max: 0,
        role,
        credential_kind: CredentialKind::ApiKey,
        live_orders_max: 0,
        fields: 0,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The simulation sent no request about many instruments.
    #[test]
    fn the_operator_asks_for_each_kind_of_change_of_many_instruments() {
        let mut rng = SeededRng::new(1, "workload");
        let (mut changes, mut schedules) = (BTreeSet::new(), BTreeSet::new());
        for number in 1..20_000 {
            match operate(&mut rng, RequestNo(number)) {
                Request::ChangePhases(m) => {
                    let action = if m.resumes == Switch::On { None } else { Some(m.phase.code()) };
                    changes.insert((m.group_id, action));
                }
                Request::SchedulePhases(m) => {
                    assert!(m.group_id.is_none() || m.instrument_id.is_none());
                    let owner = (m.group_id, m.instrument_id.is_none());
                    schedules.insert((owner, m.step.code()));
                }
                _ => {}
            }
        }
        let phases = [Phase::Continuous, Phase::OpeningCall, Phase::Halted];
        let actions = phases.map(|phase| Some(phase.code())).into_iter().chain([None]);
        for action in actions {
            for group_id in [GroupId::NONE, GROUP, EMPTY_GROUP] {
                assert!(changes.contains(&(group_id, action)), "{action:?} of {group_id}");
            }
        }
        for step in ScheduleStep::ALL {
            for owner in [(GroupId::NONE, true), (GroupId::NONE, false), (GROUP, true)] {
                assert!(schedules.contains(&(owner, step.code())), "{step:?} of {owner:?}");
            }
        }
    }

    #[test]
    fn a_request_about_many_instruments_takes_the_draws_of_a_transfer() {
        for seed in 0..200 {
            let (mut rng, mut other) = (SeededRng::new(seed, "a"), SeededRng::new(seed, "a"));
            let request = operate(&mut rng, RequestNo(3));
            let is_one = matches!(
                request,
                Request::Transfer(_) | Request::ChangePhases(_) | Request::SchedulePhases(_)
            );
            if is_one {
                for _ in 0..5 {
                    let _ = other.next_u64();
                }
                assert_eq!(rng.next_u64(), other.next_u64(), "{request:?}");
            }
        }
    }
}
