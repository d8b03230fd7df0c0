//! Detection of diverged replicas: by the digest after the command that they applied differently,
//! by the digest of the next checkpoint, by the hash of the whole state.

mod support;

use support::steps::*;
use support::*;
use weir_engine::{Engine, EngineConfig};
use weir_types::*;
use weir_wire::order_entry::MassCancel;
use weir_wire::reference::{
    KillSwitch, SchedulePhase, SchedulePhases, SessionChoice, SessionLost, SetPhase, Transfer,
};
use weir_wire::{Command, Request};

const NO: RequestNo = RequestNo(0);

/// The offset in a snapshot of the kill switch for all; the sum of cash moved in follows it.
const KILLED_AT: usize = 14 + 7 * 4 + 8 * 8;
const MOVED_IN_AT: usize = KILLED_AT + 1;

fn kill(switch: Switch) -> Request {
    let (scope, id) = (KillScope::Firm, 2);
    let (session_id, partition_id) = (OPERATOR, HERE);
    Request::KillSwitch(KillSwitch {
        request_no: NO,
        session_id,
        id,
        partition_id,
        scope,
        switch,
        cancel_orders: Switch::Off,
    })
}

fn schedule(phase: Phase, at: u64) -> Request {
    Request::SchedulePhase(SchedulePhase {
        request_no: NO,
        at: Nanos(at),
        session_id: OPERATOR,
        instrument_id: TULIP,
        phase,
    })
}

fn file(group: u16, step: ScheduleStep) -> Command {
    let request = Request::SchedulePhases(SchedulePhases {
        request_no: NO,
        at: Nanos(9_000),
        session_id: OPERATOR,
        instrument_id: InstrumentId::NONE,
        count: 0,
        group_id: GroupId(group),
        partition_id: HERE,
        phase: Phase::Closed,
        step,
    });
    Command::Request(numbered(request, 1_000))
}

fn set_phase(instrument_id: InstrumentId) -> Request {
    let phase = Phase::Continuous;
    Request::SetPhase(SetPhase {
        request_no: NO,
        session_id: OPERATOR,
        instrument_id,
        phase,
        override_collars: Switch::Off,
    })
}

fn mass_cancel(scope: MassCancelScope) -> Request {
    Request::MassCancel(MassCancel {
        request_no: NO,
        cl_ord_id: name("all"),
        sending_time: Nanos(0),
        session_id: ALICE,
        instrument_id: InstrumentId(0),
        account_id: RICH,
        firm_id: FirmId(0),
        partition_id: HERE,
        scope,
    })
}

fn lost(switch: Switch) -> Command {
    Command::SessionLost(SessionLost { session_id: ALICE, cancel_on_disconnect: switch })
}

fn chose(session_id: SessionId, cancel_on_disconnect: Switch) -> Command {
    Command::SessionChoice(SessionChoice { session_id, cancel_on_disconnect })
}

fn digest_after(command: &Command) -> (u64, usize) {
    let mut desk = Desk::open();
    let events = desk.apply(command);
    (desk.engine.digest(), events.len())
}

#[test]
fn replicas_that_took_an_operators_command_differently_have_different_digests_at_once() {
    let moved = transfer(POOR, 1, 100, 5);
    let request = |request: Request| Command::Request(numbered(request, 1_000));
    let to = |transfer: Transfer| request(Request::Transfer(transfer));
    let pairs = [
        (to(moved), to(Transfer { cash: Cash(1_000), ..moved })),
        (to(moved), to(Transfer { cash: Cash(100 + (1 << 64)), ..moved })),
        (to(moved), to(Transfer { position_qty: 6, ..moved })),
        (to(moved), to(Transfer { account_id: MAKER, ..moved })),
        (to(moved), to(Transfer { instrument_id: ROSE, ..moved })),
        (to(moved), to(Transfer { transfer_id: 2, ..moved })),
        (to(moved), to(Transfer { peer_partition_id: PartitionId(2), ..moved })),
        (request(kill(Switch::On)), request(kill(Switch::Off))),
        (request(schedule(Phase::Closed, 9_000)), request(schedule(Phase::Halted, 9_000))),
        (request(schedule(Phase::Closed, 9_000)), request(schedule(Phase::Closed, 9_001))),
        (request(set_phase(TULIP)), request(set_phase(ROSE))),
        (file(7, ScheduleStep::File), file(8, ScheduleStep::File)),
        (file(7, ScheduleStep::Begin), file(7, ScheduleStep::Clear)),
        (
            request(mass_cancel(MassCancelScope::Session)),
            request(mass_cancel(MassCancelScope::Account)),
        ),
        (lost(Switch::On), lost(Switch::Off)),
        (chose(ALICE, Switch::On), chose(ALICE, Switch::Off)),
        (chose(ALICE, Switch::On), chose(BOB, Switch::On)),
        (
            Command::Import(Position(50), account(RICH, 2, Switch::Off)),
            Command::Import(Position(51), account(RICH, 2, Switch::Off)),
        ),
    ];
    for (one, other) in &pairs {
        let (one_digest, one_count) = digest_after(one);
        let (other_digest, other_count) = digest_after(other);
        assert_eq!(one_count, other_count, "{one:?}");
        assert_ne!(one_digest, other_digest, "{one:?} and {other:?}");
    }
}

/// Returns the desk's engine, restored from its snapshot with a change made to it.
fn restored_with(desk: &Desk, change: impl FnOnce(&mut [u8])) -> Option<Engine> {
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    let body_len = bytes.len() - 4;
    change(&mut bytes[..body_len]);
    let crc = crc32c::crc32c(&bytes[..body_len]);
    bytes[body_len..].copy_from_slice(&crc.to_le_bytes());
    Engine::restore(desk.engine.config().clone(), &bytes).ok()
}

#[test]
fn a_replica_that_lost_count_is_found_at_the_next_checkpoint() {
    let config = EngineConfig { checkpoint_interval: 64, ..EngineConfig::new(HERE) };
    let checkpoint_of = |change: fn(&mut [u8])| {
        let mut desk = Desk::with_config(config.clone());
        desk.furnish();
        desk.engine = restored_with(&desk, change).unwrap();
        while desk.position < 64 {
            desk.position += 1;
            let mut events = Vec::new();
            let (position, time) = (Position(desk.position), Nanos(2_000 + desk.position));
            desk.engine.apply(position, time, &Command::Tick, &mut events);
        }
        desk.engine.digest()
    };
    let right = checkpoint_of(|_| {});
    assert_eq!(checkpoint_of(|_| {}), right);
    assert_ne!(checkpoint_of(|bytes| bytes[KILLED_AT] ^= 1), right, "the kill switch");
    assert_ne!(checkpoint_of(|bytes| bytes[MOVED_IN_AT] ^= 1), right, "cash moved in");
}

#[test]
fn any_bit_of_the_state_that_differs_shows_in_its_hash() {
    let mut desk = Desk::open();
    for text in ["sell a 100 9 show=2", "bob buy x 100 3", "buy s 0 2 stop=120", "sell n 105 1"] {
        step(&mut desk, text);
    }
    desk.ask(schedule(Phase::Closed, 9_000));
    desk.apply(&chose(ALICE, Switch::On));
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    let want = desk.engine.state_hash();
    assert_eq!(Engine::state_hash_of(&bytes), want);
    assert_eq!(restored_with(&desk, |_| {}).unwrap().state_hash(), want);
    let (mut found_count, mut idle_count) = (0, 0);
    for bit in 0..(bytes.len() - 4) * 8 {
        let Some(engine) = restored_with(&desk, |bytes| bytes[bit / 8] ^= 1 << (bit % 8)) else {
            continue;
        };
        if engine.state_hash() != want {
            found_count += 1;
            continue;
        }
        // The bit belongs to a remembered answer's frame, which is written again unchanged.
        let mut again = Vec::new();
        engine.snapshot(&mut again);
        assert!(again == bytes, "bit {bit}");
        idle_count += 1;
    }
    assert!(found_count > 2 * idle_count, "{found_count} found, {idle_count} idle");
}
