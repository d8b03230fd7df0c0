//! Request numbers, operators' requests, kill switches, phases, lost sessions, the control
//! partition, snapshots.

mod support;

use support::*;
use weir_engine::{Engine, EngineConfig, SessionState, SnapshotError};
use weir_types::*;
use weir_wire::order_entry::{CancelOrder, MassCancel, NewOrder};
use weir_wire::reference::{
    DefineAccount, DefineFirm, DefineInstrument, SessionChoice, SessionLost, field_bit,
};
use weir_wire::{Command, Definition, Event, PlainEvent, Request};

fn asked(order: NewOrder, number: u64) -> Command {
    Command::Request(numbered(Request::NewOrder(order), number))
}

#[test]
fn a_repeated_request_gets_its_first_answer_and_executes_nothing() {
    let mut desk = Desk::open();
    let first = orders(&desk.apply(&asked(buy(99, 5, "a"), 10)))[0];
    desk.apply(&asked(buy(98, 5, "b"), 11));
    let live = desk.engine.live_order_count();
    let again = orders(&desk.apply(&asked(buy(99, 5, "a"), 10)));
    assert_eq!(again.len(), 1);
    let again = again[0];
    assert_eq!(desk.engine.live_order_count(), live);
    assert_eq!((again.rec, again.seq), (Rec::NONE, Seq::NONE), "it changes no record");
    assert_eq!(again.event_no, EventNo(first.event_no.0 + 2));
    let expected = weir_wire::event::OrderEvent {
        position: again.position,
        event_no: again.event_no,
        rec: Rec::NONE,
        seq: Seq::NONE,
        ..first
    };
    assert_eq!(again, expected);
}

#[test]
fn a_number_that_is_forgotten_or_was_skipped_is_too_old() {
    let mut desk = Desk::open();
    for number in (10..10 + 1_100).filter(|number| *number != 1_000) {
        let order = NewOrder { cl_ord_id: ClOrdId::from_number(number), ..buy(1, 1, "") };
        desk.apply(&asked(order, number));
    }
    for (number, is_known) in [(5, false), (10, false), (84, false), (85, true), (1_000, false)] {
        let events = desk.apply(&asked(buy(1, 1, "z"), number));
        match &events[..] {
            [Event::Plain(PlainEvent::RequestRejected(e))] => {
                assert!(!is_known && e.reason == Reason::TooOld, "{number}");
            }
            [Event::Plain(PlainEvent::OrderEvent(e))] => {
                assert!(is_known && e.exec_type == ExecType::New, "{number}");
            }
            other => panic!("{other:?}"),
        }
    }
    let state = desk.engine.session_state(ALICE);
    assert_eq!(state.last_request_no, RequestNo(1_109));
    assert_eq!(state.next_event_no, EventNo(1_099 + 5 + 1));
}

#[test]
fn a_request_of_an_unknown_session_is_answered_without_a_number() {
    let mut desk = Desk::open();
    let stranger = NewOrder { session_id: SessionId(77), ..buy(99, 5, "a") };
    let refused = rejected_of(&desk.ask(Request::NewOrder(stranger))[0]);
    assert_eq!((refused.reason, refused.event_no), (Reason::UnknownSession, EventNo::NONE));
    let fresh = SessionState { last_request_no: RequestNo(0), next_event_no: EventNo(1) };
    assert_eq!(desk.engine.session_state(SessionId(77)), fresh);
}

#[test]
fn orders_are_refused_for_the_first_reason_that_holds() {
    let a = buy(99, 5, "a");
    let rows: Vec<(NewOrder, Reason)> = vec![
        (NewOrder { session_id: SUPERVISOR, ..a }, Reason::NotEntitled),
        (NewOrder { session_id: OPERATOR, ..a }, Reason::NotEntitled),
        (NewOrder { session_id: DESK, ..a }, Reason::NotEntitled),
        (NewOrder { instrument_id: InstrumentId(999), ..a }, Reason::UnknownInstrument),
        (NewOrder { instrument_id: FAR, ..a }, Reason::WrongPartition),
        (NewOrder { account_id: AccountId(999), ..a }, Reason::UnknownAccount),
        (NewOrder { account_id: OTHER, ..a }, Reason::NotYourAccount),
        (NewOrder { display_qty: Qty(6), ..a }, Reason::InvalidQty),
        (NewOrder { time_in_force: TimeInForce::Gtd, ..a }, Reason::FieldOutOfRange),
        (NewOrder { time_in_force: TimeInForce::AtTheOpen, ..a }, Reason::WrongPhase),
        (NewOrder { ord_type: OrdType::Stop, ..a }, Reason::InvalidPrice),
        (NewOrder { stop_px: Price(1), ..a }, Reason::InvalidPrice),
        (NewOrder { expire_time: Nanos(1), ..a }, Reason::FieldOutOfRange),
        (NewOrder { price: Price(0), ..a }, Reason::InvalidPrice),
        (NewOrder { price: Price(1_000_001), ..a }, Reason::InvalidPrice),
        (NewOrder { ord_type: OrdType::Market, ..a }, Reason::InvalidPrice),
        (NewOrder { order_qty: Qty(0), ..a }, Reason::InvalidQty),
        (NewOrder { order_qty: Qty(1_000_001), ..a }, Reason::InvalidQty),
        (NewOrder { cl_ord_id: ClOrdId::NONE, ..a }, Reason::FieldOutOfRange),
        (NewOrder { account_id: POOR, ..a }, Reason::InsufficientCash),
        (NewOrder { account_id: POOR, side: Side::Sell, ..a }, Reason::InsufficientPosition),
    ];
    let mut desk = Desk::open();
    for (order, reason) in rows {
        let events = desk.order(order);
        assert_eq!((events.len(), events[0].exec_type), (1, ExecType::Rejected));
        assert_eq!(events[0].reason, reason, "{order:?}");
    }
}

#[test]
fn a_drop_copy_session_changes_no_order_of_its_firm_and_keeps_its_firm_in_a_snapshot() {
    let mut desk = Desk::open();
    let order = desk.order(buy(99, 5, "a"))[0];
    let cancel = CancelOrder {
        request_no: RequestNo(0),
        cl_ord_id: ClOrdId::NONE,
        orig_cl_ord_id: ClOrdId::NONE,
        order_id: order.order_id,
        sending_time: Nanos(0),
        session_id: DESK,
        instrument_id: TULIP,
    };
    let mass_cancel = MassCancel {
        request_no: RequestNo(0),
        cl_ord_id: ClOrdId::NONE,
        sending_time: Nanos(0),
        session_id: DESK,
        account_id: AccountId::NONE,
        firm_id: FirmId(1),
        instrument_id: InstrumentId::NONE,
        partition_id: HERE,
        scope: MassCancelScope::Firm,
    };
    for request in [Request::CancelOrder(cancel), Request::MassCancel(mass_cancel)] {
        let events = desk.ask(request);
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(rejected_of(&events[0]).reason, Reason::NotEntitled);
    }
    assert_eq!(desk.engine.live_order_count(), 1);
    let firms = desk.engine.session_firms().collect::<Vec<_>>();
    for (session_id, firm_id) in [(DESK, 1), (ALICE, 1), (BOB, 2), (OPERATOR, 0), (SUPERVISOR, 0)] {
        assert!(firms.contains(&(session_id, FirmId(firm_id))), "{session_id} in {firms:?}");
    }
    let mut state = Vec::new();
    desk.engine.snapshot(&mut state);
    let restored = Engine::restore(desk.engine.config().clone(), &state).unwrap();
    assert_eq!(restored.session_firms().collect::<Vec<_>>(), firms);
}

#[test]
fn a_transfer_is_carried_out_once() {
    let mut desk = Desk::open();
    let rows: &[(u64, i128, i64, Result<u64, Reason>)] = &[
        (1, 100, 0, Ok(1)),
        (1, 100, 0, Ok(0)),
        (5, -60, 7, Ok(1)),
        (5, -60, 7, Ok(0)),
        (5, 60, 7, Err(Reason::TransferIdUsed)),
        (5, -60, 8, Err(Reason::TransferIdUsed)),
        (4, 100, 0, Err(Reason::TransferIdUsed)),
        (1, 100, 0, Err(Reason::TransferIdUsed)),
        (6, -50, 0, Err(Reason::InsufficientCash)),
        (6, 0, -8, Err(Reason::InsufficientPosition)),
        (6, -40, -7, Ok(1)),
        (7, i128::MAX, 0, Err(Reason::LimitReached)),
        (7, i128::MIN, 0, Err(Reason::LimitReached)),
        (7, 0, i64::MAX, Err(Reason::LimitReached)),
        (0, 1, 0, Err(Reason::FieldOutOfRange)),
    ];
    for (id, cash, lots, want) in rows {
        let event = desk.ask(Request::Transfer(transfer(POOR, *id, *cash, *lots)))[0];
        match want {
            Ok(count) => assert_eq!(done_of(&event).affected_count, *count, "{id} {cash} {lots}"),
            Err(reason) => assert_eq!(rejected_of(&event).reason, *reason, "{id} {cash} {lots}"),
        }
    }
}

#[test]
fn a_kill_switch_stops_entry_and_replaces_and_serves_cancels() {
    for (scope, id) in [
        (KillScope::All, 0),
        (KillScope::Firm, 1),
        (KillScope::Account, RICH.0),
        (KillScope::Session, ALICE.0),
    ] {
        let mut desk = Desk::open();
        desk.order(buy(99, 5, "a"));
        desk.order(buy(99, 5, "b"));
        desk.kill(scope, id, Switch::On);
        assert_eq!(desk.order(buy(99, 5, "c"))[0].reason, Reason::Killed, "{scope:?}");
        let refused = desk.ask(Request::ReplaceOrder(replace("a", "d", 98, 5)));
        assert_eq!(rejected_of(&refused[0]).reason, Reason::Killed);
        assert_eq!(orders(&desk.cancel("a"))[0].exec_type, ExecType::Canceled);
        let other = desk.order(bob(buy(98, 5, "x")))[0].exec_type;
        assert_eq!(other == ExecType::New, scope != KillScope::All, "{scope:?}");
        desk.kill(scope, id, Switch::Off);
        assert_eq!(desk.order(buy(99, 5, "c"))[0].exec_type, ExecType::New);
    }
}

#[test]
fn a_halt_serves_cancels_and_a_close_expires_day_orders_and_leaves_cancels_to_the_operator() {
    let mut desk = Desk::open();
    let day = NewOrder { time_in_force: TimeInForce::Day, ..buy(99, 5, "day") };
    desk.order(day);
    let standing = desk.order(buy(98, 5, "gtc"))[0];
    desk.order(buy(97, 5, "c"));
    desk.phase(Phase::Halted);
    assert_eq!(desk.order(buy(99, 5, "b"))[0].reason, Reason::WrongPhase);
    let refused = desk.ask(Request::ReplaceOrder(replace("c", "d", 98, 5)));
    assert_eq!(rejected_of(&refused[0]).reason, Reason::WrongPhase);
    assert_eq!(orders(&desk.cancel("c"))[0].exec_type, ExecType::Canceled);
    let events = desk.phase(Phase::Closed);
    assert_eq!(told(&orders(&events)), ["day Expired None"]);
    assert_eq!(done_of(&events[2]).affected_count, 1);
    assert_eq!(rejected_of(&desk.cancel("gtc")[0]).reason, Reason::WrongPhase);
    let by_operator = CancelOrder {
        session_id: OPERATOR,
        order_id: standing.order_id,
        orig_cl_ord_id: ClOrdId::NONE,
        ..cancel("")
    };
    let events = desk.ask(Request::CancelOrder(by_operator));
    assert_eq!(told(&orders(&events)), ["gtc Canceled None"]);
    assert_eq!(done_of(&events[1]).affected_count, 1);
}

#[test]
fn a_mass_cancel_covers_its_scope_by_session_and_in_order_of_rec() {
    let all = MassCancel {
        request_no: RequestNo(0),
        cl_ord_id: name("all"),
        sending_time: Nanos(0),
        session_id: ALICE,
        instrument_id: InstrumentId(0),
        account_id: RICH,
        firm_id: FirmId(0),
        partition_id: HERE,
        scope: MassCancelScope::Session,
    };
    let firm = MassCancelScope::Firm;
    let (account, instrument) = (MassCancelScope::Account, MassCancelScope::Instrument);
    let by_operator = MassCancel { session_id: OPERATOR, ..all };
    let rows: &[(MassCancel, Result<&[&str], Reason>)] = &[
        (all, Ok(&["a", "r", "m"])),
        (MassCancel { instrument_id: ROSE, ..all }, Ok(&["r"])),
        (MassCancel { scope: account, ..all }, Ok(&["a", "r", "n"])),
        (MassCancel { scope: account, account_id: OTHER, ..all }, Err(Reason::NotYourAccount)),
        (MassCancel { scope: firm, ..all }, Ok(&["a", "r", "m", "n"])),
        (MassCancel { scope: firm, firm_id: FirmId(2), ..all }, Err(Reason::NotEntitled)),
        (MassCancel { scope: firm, firm_id: FirmId(2), ..by_operator }, Ok(&["x"])),
        (MassCancel { scope: firm, ..by_operator }, Err(Reason::UnknownFirm)),
        (MassCancel { scope: instrument, instrument_id: TULIP, ..all }, Err(Reason::NotEntitled)),
        (
            MassCancel { scope: instrument, instrument_id: TULIP, ..by_operator },
            Ok(&["a", "m", "n", "x"]),
        ),
        (MassCancel { scope: instrument, instrument_id: ROSE, ..by_operator }, Ok(&["r"])),
        (MassCancel { scope: instrument, ..by_operator }, Err(Reason::UnknownInstrument)),
        (MassCancel { partition_id: PartitionId(2), ..all }, Err(Reason::WrongPartition)),
    ];
    for (request, want) in rows {
        let mut desk = Desk::open();
        desk.order(buy(99, 5, "a"));
        desk.order(bob(buy(99, 5, "x")));
        desk.order(NewOrder { session_id: ANNA, ..buy(98, 5, "n") });
        desk.order(NewOrder { instrument_id: ROSE, ..buy(97, 5, "r") });
        desk.order(NewOrder { account_id: MAKER, ..sell(120, 5, "m") });
        let events = desk.ask(Request::MassCancel(*request));
        match want {
            Ok(names) => {
                let ended: Vec<String> =
                    orders(&events).iter().map(|e| e.cl_ord_id.to_string()).collect();
                assert_eq!(ended, *names, "{request:?}");
                let done = done_of(events.last().unwrap());
                assert_eq!(done.affected_count as usize, names.len());
            }
            Err(reason) => assert_eq!(rejected_of(&events[0]).reason, *reason, "{request:?}"),
        }
    }
}

#[test]
fn a_lost_session_keeps_or_loses_its_orders_by_its_own_choice() {
    for (switch, want) in [(Switch::Off, 0), (Switch::On, 2)] {
        let mut desk = Desk::open();
        desk.order(buy(99, 5, "a"));
        desk.order(NewOrder { session_id: ANNA, ..buy(98, 5, "n") });
        desk.order(sell(120, 5, "b"));
        let lost = SessionLost { session_id: ALICE, cancel_on_disconnect: switch };
        let events = orders(&desk.apply(&Command::SessionLost(lost)));
        assert_eq!(events.len(), want);
        assert!(events.iter().all(|e| e.reason == Reason::SessionLost));
    }
}

fn choice(session_id: SessionId, cancel_on_disconnect: Switch) -> Command {
    Command::SessionChoice(SessionChoice { session_id, cancel_on_disconnect })
}

#[test]
fn a_session_s_choice_holds_until_another_one_or_its_loss_and_over_a_snapshot() {
    let mut desk = Desk::open();
    let newcomer = SessionId(33);
    // The choice may come before the definition: the two come from different sources.
    for (command, want) in [
        (choice(ALICE, Switch::Off), vec![]),
        (choice(newcomer, Switch::On), vec![newcomer]),
        (choice(ALICE, Switch::On), vec![ALICE, newcomer]),
        (choice(ALICE, Switch::On), vec![ALICE, newcomer]),
        (choice(ANNA, Switch::On), vec![ALICE, ANNA, newcomer]),
        (choice(ALICE, Switch::Off), vec![ANNA, newcomer]),
        (Command::Import(Position(60), session(newcomer, 1, Role::Trader)), vec![ANNA, newcomer]),
        (
            Command::SessionLost(SessionLost {
                session_id: ANNA,
                cancel_on_disconnect: Switch::On,
            }),
            vec![newcomer],
        ),
    ] {
        let before = desk.engine.state_hash();
        desk.apply(&command);
        let mut want = want;
        want.sort_unstable();
        assert_eq!(desk.engine.cancel_on_disconnect(), want, "{command:?}");
        let mut bytes = Vec::new();
        desk.engine.snapshot(&mut bytes);
        desk.engine = Engine::restore(desk.engine.config().clone(), &bytes).unwrap();
        assert_eq!(desk.engine.cancel_on_disconnect(), want, "{command:?}, restored");
        assert_ne!(desk.engine.state_hash(), before);
    }
}

#[test]
fn the_control_partition_takes_definitions_from_operators_and_makes_the_first_one() {
    let mut desk = Desk::empty(0);
    let operator = session(OPERATOR, 0, Role::Operator);
    let not_first = desk.apply(&Command::Import(Position(1), firm(1)));
    assert_eq!(not_first, []);
    let made = desk.apply(&Command::Import(Position(1), operator));
    let Event::Defined(defined, _) = made[0] else { panic!("{made:?}") };
    assert_eq!(defined.control_position, Position(2));
    let second = session(SessionId(10), 0, Role::Operator);
    assert_eq!(desk.apply(&Command::Import(Position(1), second)), []);
    for definition in definitions() {
        let events = desk.ask(request_of(definition));
        assert!(matches!(events[0], Event::Defined(..)), "{definition:?}: {events:?}");
        assert_eq!(done_of(&events[1]).session_id, OPERATOR);
        assert_eq!(desk.engine.control_position(), Position(desk.position));
    }
    let bad: Vec<(Definition, Reason)> = vec![
        (firm(0), Reason::InvalidDefinition),
        (account(AccountId(99), 7, Switch::Off), Reason::UnknownFirm),
        (account(RICH, 2, Switch::Off), Reason::InvalidDefinition),
        (session(ALICE, 2, Role::Trader), Reason::InvalidDefinition),
        (session(SessionId(50), 7, Role::Trader), Reason::UnknownFirm),
        (session(SessionId(50), 1, Role::Operator), Reason::InvalidDefinition),
        (session(SessionId(50), 7, Role::DropCopy), Reason::UnknownFirm),
        (session(SessionId(50), 0, Role::DropCopy), Reason::UnknownFirm),
        (session(DESK, 2, Role::DropCopy), Reason::InvalidDefinition),
        (session(SessionId(50), 1, Role::Gateway), Reason::InvalidDefinition),
        (session(ALICE, 1, Role::DropCopy), Reason::InvalidDefinition),
        (
            Definition::DefineInstrument(instrument(TULIP, PartitionId(3))),
            Reason::InvalidDefinition,
        ),
    ];
    for (definition, reason) in bad {
        let events = desk.ask(request_of(definition));
        assert_eq!(rejected_of(&events[0]).reason, reason, "{definition:?}");
    }
    let order = desk.order(buy(99, 5, "a"));
    assert_eq!(order[0].reason, Reason::WrongPartition);
}

fn request_of(definition: Definition) -> Request {
    match definition {
        Definition::DefineInstrument(d) => Request::DefineInstrument(d),
        Definition::DefineFirm(d) => Request::DefineFirm(d),
        Definition::DefineAccount(d) => Request::DefineAccount(d),
        Definition::DefineSession(d) => Request::DefineSession(d),
    }
}

#[test]
fn a_partition_imports_a_definition_once_and_takes_none_from_requests() {
    let mut desk = Desk::open();
    assert_eq!(desk.apply(&Command::Import(Position(3), firm(3))), []);
    assert_eq!(desk.import(firm(3)).len(), 1);
    let events = desk.ask(request_of(firm(4)));
    assert_eq!(rejected_of(&events[0]).reason, Reason::WrongPartition);
}

#[test]
fn imports_that_a_partition_refuses_are_counted_and_said_nothing_of() {
    let mut desk = Desk::open();
    assert_eq!(desk.import(firm(0)), []);
    assert_eq!(desk.import(account(RICH, 2, Switch::Off)), []);
    assert_eq!(desk.import(firm(3)).len(), 1);
    assert_eq!(desk.engine.refused_import_count(), 2);
}

/// The control log completes its changes.
#[test]
fn a_change_of_the_control_log_brings_in_what_a_partition_lacks() {
    let mut desk = Desk::open();
    let Definition::DefineFirm(firm) = firm(30) else { panic!("a firm") };
    let fields = field_bit::<DefineFirm>("live_orders_max");
    let change = DefineFirm { live_orders_max: 7, fields, ..firm };
    assert_eq!(desk.import(Definition::DefineFirm(change)).len(), 1);
    let Definition::DefineAccount(d) = account(AccountId(300), 30, Switch::Off) else { panic!() };
    let fields = field_bit::<DefineAccount>("live_orders_max");
    let d = DefineAccount { live_orders_max: 7, fields, ..d };
    assert_eq!(desk.import(Definition::DefineAccount(d)).len(), 1);
    assert_eq!(desk.engine.refused_import_count(), 0);
    // A partition alone changes its instruments.
    let fields = field_bit::<DefineInstrument>("lot_size");
    let change = DefineInstrument { fields, ..instrument(InstrumentId(77), HERE) };
    assert_eq!(desk.import(Definition::DefineInstrument(change)), []);
    assert_eq!(desk.engine.refused_import_count(), 1);
}

#[test]
fn a_checkpoint_tells_the_digest_at_its_interval() {
    let config = EngineConfig { checkpoint_interval: 8, ..EngineConfig::new(HERE) };
    let mut desk = Desk::with_config(config);
    for _ in 0..24 {
        let events = desk.apply(&Command::Tick);
        let is_due = desk.position.is_multiple_of(8);
        assert_eq!(events.len(), usize::from(is_due));
        if let [Event::Plain(PlainEvent::Checkpoint(checkpoint))] = &events[..] {
            assert_eq!(checkpoint.digest, desk.engine.digest());
        }
    }
}

#[test]
fn limits_are_met_by_a_typed_refusal() {
    let config = EngineConfig { orders_max: 2, positions_max: 3, ..EngineConfig::new(HERE) };
    let mut desk = Desk::with_config(config);
    desk.furnish();
    assert_eq!(desk.order(buy(99, 5, "a"))[0].exec_type, ExecType::New);
    let elsewhere = NewOrder { instrument_id: ROSE, ..buy(99, 5, "b") };
    assert_eq!(desk.order(elsewhere)[0].exec_type, ExecType::New);
    assert_eq!(desk.order(buy(99, 5, "c"))[0].reason, Reason::LimitReached, "orders");
    desk.cancel("a");
    let third = NewOrder { account_id: MAKER, ..buy(99, 5, "d") };
    assert_eq!(desk.order(third)[0].reason, Reason::LimitReached, "positions");
}

#[test]
fn a_damaged_snapshot_is_refused_and_says_why() {
    let mut desk = Desk::open();
    desk.order(buy(99, 5, "a"));
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    let config = || desk.engine.config().clone();
    assert!(Engine::restore(config(), &bytes).is_ok());
    let elsewhere = EngineConfig { partition_id: PartitionId(2), ..config() };
    assert_eq!(Engine::restore(elsewhere, &bytes).err(), Some(SnapshotError::WrongPartition(HERE)));
    let wrong_limits = |limit: u32| {
        let mut body = bytes[..bytes.len() - 4].to_vec();
        body[14..18].copy_from_slice(&limit.to_le_bytes());
        let crc = crc32c::crc32c(&body);
        body.extend_from_slice(&crc.to_le_bytes());
        Engine::restore(config(), &body).err()
    };
    assert_eq!(wrong_limits(0), Some(SnapshotError::Invalid("limit")));
    let refused = wrong_limits(2).unwrap();
    assert_eq!(refused, SnapshotError::LimitReached { what: "accounts", held: 4, allowed: 2 });
    assert_eq!(refused.to_string(), "the snapshot holds 4 accounts, 2 are allowed");
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(Engine::restore(config(), &damaged).is_err(), "byte {at}");
    }
    for len in 0..bytes.len() {
        assert!(Engine::restore(config(), &bytes[..len]).is_err(), "first {len} bytes");
    }
}

#[test]
#[should_panic(expected = "does not follow")]
fn a_skipped_position_stops_the_engine() {
    let mut events: Vec<Event> = Vec::new();
    Engine::new(EngineConfig::new(HERE)).apply(Position(2), Nanos(1), &Command::Tick, &mut events);
}
