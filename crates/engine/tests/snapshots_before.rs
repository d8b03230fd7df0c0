//! A snapshot of the versions before is read: an upgrade begins with the one at the end of its log.
//!
//! `data/snapshot-4.bin` was written by the last engine of rules 4, after 7,638 commands of a
//! script: instrument 100 in a volatility call, 101 halted, with orders, remembered answers and
//! trades. `data/snapshot-5.bin` is of the last engine of rules 6, after 19,991 commands: 100 in a
//! volatility call, 101 halted by an operator, 9 live orders and 2 filed changes.
//! `data/snapshot-6.bin` is of the last engine of rules 7, after 6,333 commands: 100, of group 8,
//! halted by an operator, 101 in a volatility call, 6 live orders and 1 filed change.
//! `data/snapshot-7.bin` is of the last engine of rules 8, after 171,567 commands: 100 in a
//! volatility call, 103 closed and held, 8 live orders, 1 filed change, 64 trades and a debt.
//! `data/snapshot-8.bin` is of the last engine of rules 9, after 31,997 commands, five behind a
//! transfer: 100 and 101 in a closing call, 8 live orders, 1 filed change, limits set by a command.

mod support;

use support::*;
use weir_engine::{Engine, EngineConfig, EngineLimits, SnapshotError};
use weir_types::*;
use weir_wire::reference::{BustTrade, ChangePhases, ResumeTrading, Transfer};
use weir_wire::{Command, Event, PlainEvent, Request};

const SNAPSHOT: &[u8] = include_bytes!("data/snapshot-4.bin");
const BEFORE_GROUPS: &[u8] = include_bytes!("data/snapshot-5.bin");
const BEFORE_TIMES: &[u8] = include_bytes!("data/snapshot-6.bin");
const BEFORE_LIMITS: &[u8] = include_bytes!("data/snapshot-7.bin");
const BEFORE_PEERS: &[u8] = include_bytes!("data/snapshot-8.bin");

fn config() -> EngineConfig {
    EngineConfig {
        orders_max: 64,
        accounts_max: 8,
        sessions_max: 8,
        firms_max: 3,
        instruments_max: 4,
        positions_max: 12,
        trades_max: 64,
        checkpoint_interval: 64,
        outcomes_max: 4,
        ..EngineConfig::new(HERE)
    }
}

/// Applies a request of the script's operator, whose last one had a number below this.
fn ask(engine: &mut Engine, number: u64, request: Request) -> Vec<Event> {
    let mut request = numbered(request, 1_000_000 + number);
    match &mut request {
        Request::ResumeTrading(m) => m.session_id = SessionId(90),
        Request::BustTrade(m) => m.session_id = SessionId(90),
        Request::ChangePhases(m) => m.session_id = SessionId(90),
        Request::Transfer(m) => m.session_id = SessionId(90),
        other => panic!("not asked here: {other:?}"),
    }
    let mut events = Vec::new();
    let (position, time) = (engine.position().next(), engine.time());
    engine.apply(position, time, &Command::Request(request), &mut events);
    assert!(engine.totals().is_conserved());
    events
}

fn phase(engine: &Engine, id: u32) -> (Phase, bool) {
    let row = engine.instruments().find(|row| row.definition.instrument_id.0 == id);
    let row = row.expect("it is defined");
    (row.phase, row.is_held)
}

#[test]
fn a_snapshot_of_the_version_before_goes_on_with_its_phases_and_prices() {
    let mut engine = Engine::restore(config(), SNAPSHOT).expect("it is read");
    assert_eq!(phase(&engine, 100), (Phase::VolatilityCall, false));
    assert_eq!(phase(&engine, 101), (Phase::Halted, true), "who halted it is not known");
    let row = engine.instruments().next().expect("the desk has instruments");
    assert_eq!((row.last_price, row.uncrossed_price), (Some(Price(103)), Some(Price(103))));
    let mut bytes = Vec::new();
    engine.snapshot(&mut bytes);
    let again = Engine::restore(config(), &bytes).expect("it reads back");
    assert_eq!(again.state_hash(), engine.state_hash());

    // A resume goes back to continuous trading, as it did then.
    let resume = ResumeTrading {
        request_no: RequestNo(0),
        session_id: OPERATOR,
        instrument_id: InstrumentId(101),
        through_call: Switch::Off,
    };
    let events = ask(&mut engine, 1, Request::ResumeTrading(resume));
    let done = done_of(events.last().expect("an answer"));
    assert_eq!(done.phase_reached, PhaseReached::Continuous);
}

#[test]
fn a_bust_of_a_trade_of_the_version_before_leaves_its_prices() {
    let mut engine = Engine::restore(config(), SNAPSHOT).expect("it is read");
    let before: Vec<_> = engine.instruments().map(|row| (row.last_price, row.is_held)).collect();
    // Their times are not known: the span begins with the snapshot.
    let retained = engine.retained_trades();
    assert!(retained.count > 0);
    assert_eq!(retained.oldest_time, engine.time());
    let mut busted_count = 0;
    for match_id in 1..1_000 {
        let bust = BustTrade {
            request_no: RequestNo(0),
            match_id: MatchId(match_id),
            session_id: OPERATOR,
            partition_id: HERE,
            force: Switch::Off,
        };
        let events = ask(&mut engine, match_id, Request::BustTrade(bust));
        let is_busted = |event: &&Event| matches!(event, Event::Plain(PlainEvent::TradeBusted(_)));
        busted_count += events.iter().filter(is_busted).count();
    }
    assert!(busted_count > 0, "some of the retained trades can be busted");
    let after: Vec<_> = engine.instruments().map(|row| (row.last_price, row.is_held)).collect();
    assert_eq!(before, after);
}

#[test]
fn a_snapshot_from_before_groups_goes_on_with_its_schedule_and_a_change_of_all() {
    let mut engine = Engine::restore(config(), BEFORE_GROUPS).expect("it is read");
    assert_eq!((engine.filed_change_count(), engine.live_order_count()), (2, 9));
    assert!(engine.instruments().all(|row| row.definition.group_id.is_none()));
    assert!(engine.instruments().all(|row| row.origin.is_none()), "causes are not known");
    let mut bytes = Vec::new();
    engine.snapshot(&mut bytes);
    let again = Engine::restore(config(), &bytes).expect("it reads back");
    assert_eq!(again.state_hash(), engine.state_hash());

    let halt = ChangePhases {
        request_no: RequestNo(0),
        session_id: OPERATOR,
        group_id: GroupId::NONE,
        partition_id: HERE,
        phase: Phase::Halted,
        resumes: Switch::Off,
        override_collars: Switch::Off,
        through_call: Switch::Off,
    };
    let events = ask(&mut engine, 1, Request::ChangePhases(halt));
    let done = done_of(events.last().expect("an answer"));
    assert_eq!((done.changed_count, done.skipped_count), (1, 0), "{events:?}");
    assert_eq!(phase(&engine, 100), (Phase::Halted, true));
    assert_eq!(phase(&engine, 101), (Phase::Halted, true));
    let causes: Vec<_> = engine.instruments().take(2).map(|row| row.cause()).collect();
    assert_eq!(causes, [PhaseCause::Operator, PhaseCause::Unknown], "101 was halted before");
}

#[test]
fn a_snapshot_from_before_times_of_trades_goes_on_with_its_trades_and_causes() {
    let mut engine = Engine::restore(config(), BEFORE_TIMES).expect("it is read");
    assert_eq!((engine.filed_change_count(), engine.live_order_count()), (1, 6));
    let causes: Vec<_> = engine.instruments().map(|row| row.cause()).collect();
    assert_eq!(causes[..2], [PhaseCause::Operator, PhaseCause::Collar]);
    let retained = engine.retained_trades();
    assert!(retained.count > 0);
    assert_eq!(retained.oldest_time, engine.time(), "the span begins with the snapshot");
    let mut bytes = Vec::new();
    engine.snapshot(&mut bytes);
    let again = Engine::restore(config(), &bytes).expect("it reads back");
    assert_eq!(again.state_hash(), engine.state_hash());

    let oldest = retained.oldest.0;
    let mut answers = (oldest..oldest + retained.count).zip(1..).flat_map(|(match_id, number)| {
        let bust = BustTrade {
            request_no: RequestNo(0),
            match_id: MatchId(match_id),
            session_id: OPERATOR,
            partition_id: HERE,
            force: Switch::On,
        };
        ask(&mut engine, number, Request::BustTrade(bust))
    });
    let is_busted = |event: Event| matches!(event, Event::Plain(PlainEvent::TradeBusted(_)));
    assert!(answers.any(is_busted), "some of them can be busted");
}

#[test]
fn a_snapshot_from_before_limits_has_the_configured_ones_and_takes_others() {
    let mut engine = Engine::restore(config(), BEFORE_LIMITS).expect("it is read");
    assert_eq!((engine.filed_change_count(), engine.live_order_count()), (1, 8));
    assert_eq!((engine.retained_trades().count, engine.debtor_count()), (64, 1));
    assert_eq!(Engine::limits_in(BEFORE_LIMITS), None);
    assert_eq!(engine.limits(), config().limits());
    let fewer = EngineConfig { accounts_max: 2, ..config() };
    let refused = SnapshotError::LimitReached { what: "accounts", held: 7, allowed: 2 };
    assert_eq!(Engine::restore(fewer, BEFORE_LIMITS).err(), Some(refused));

    let limits = EngineLimits { orders_max: 8, accounts_max: 100, ..config().limits() };
    let (position, time) = (engine.position().next(), engine.time());
    let command = Command::SetLimits(limits.to_command());
    engine.apply(position, time, &command, &mut Vec::new());
    let mut bytes = Vec::new();
    engine.snapshot(&mut bytes);
    assert_eq!(Engine::limits_in(&bytes), Some(limits));
    let again = Engine::restore(EngineConfig::new(HERE), &bytes).expect("it reads back");
    assert_eq!((again.limits(), again.state_hash()), (limits, engine.state_hash()));
    assert!(again.totals().is_conserved());
}

#[test]
fn a_snapshot_from_before_other_ends_of_transfers_goes_on_with_the_last_ones() {
    let mut engine = Engine::restore(config(), BEFORE_PEERS).expect("it is read");
    assert_eq!((engine.filed_change_count(), engine.live_order_count()), (1, 8));
    assert_eq!(engine.limits().sessions_max, 10, "the snapshot's limits");
    let mut bytes = Vec::new();
    engine.snapshot(&mut bytes);
    let again = Engine::restore(config(), &bytes).expect("it reads back");
    assert_eq!(again.state_hash(), engine.state_hash());

    let last = Transfer {
        position_qty: 300,
        instrument_id: InstrumentId(100),
        ..transfer(AccountId(21), 1_875, 30_000, 0)
    };
    let elsewhere = Transfer { peer_partition_id: PartitionId(2), ..last };
    let events = ask(&mut engine, 1, Request::Transfer(elsewhere));
    assert_eq!(rejected_of(&events[0]).reason, Reason::TransferIdUsed);
    let done = done_of(&ask(&mut engine, 2, Request::Transfer(last))[0]);
    assert_eq!((done.affected_count, done.last_transfer_id), (0, 1_875), "carried out before");
    assert_eq!((done.last_transfer_cash, done.last_transfer_peer), (Cash(30_000), PartitionId(0)));
}
