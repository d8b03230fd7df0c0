//! Snapshots with changes that would do harm later: each is refused when it is read, with the name
//! of the fault.

mod support;

use support::steps::*;
use support::*;
use weir_engine::{Engine, SnapshotError};
use weir_types::*;
use weir_wire::event::TradeBusted;
use weir_wire::reference::{ChangePhases, DefineInstrument, SchedulePhases, field_bit};
use weir_wire::{Event, PlainEvent, Request};

/// Returns a desk with Alice's bid for five lots, and its snapshot.
fn desk() -> (Desk, Vec<u8>) {
    let mut desk = Desk::open();
    step(&mut desk, "buy a 100 5");
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    (desk, bytes)
}

/// Restores from bytes in which `from`, which occurs once, is replaced by `to`.
fn restored(desk: &Desk, bytes: &[u8], from: &[u8], to: &[u8]) -> Result<Engine, SnapshotError> {
    let places: Vec<usize> =
        (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert_eq!(places.len(), 1, "what is changed is there once");
    let (body, at) = (&bytes[..bytes.len() - 4], places[0]);
    let mut changed = [&body[..at], to, &body[at + from.len()..]].concat();
    changed.extend_from_slice(&crc32c::crc32c(&changed).to_le_bytes());
    Engine::restore(desk.engine.config().clone(), &changed)
}

fn words<const N: usize>(words: [u64; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn a_position_that_a_trade_would_overflow_is_refused() {
    let (desk, bytes) = desk();
    let row = words([1_000_000, 0, 5]);
    let bad = [
        [i64::MAX as u64, 0, 5],
        [i64::MIN as u64, 0, 5],
        [1_000_000, u64::MAX, 5],
        [1_000_000, 0, u64::MAX],
    ];
    for changed in bad {
        let error = restored(&desk, &bytes, &row, &words(changed)).err();
        assert_eq!(error, Some(SnapshotError::Invalid("position")), "{changed:?}");
    }
}

#[test]
fn what_is_reserved_and_no_order_stands_for_is_refused() {
    let (desk, bytes) = desk();
    let lots = restored(&desk, &bytes, &words([1_000_000, 0, 5]), &words([1_000_000, 0, 4]));
    assert_eq!(lots.err(), Some(SnapshotError::Invalid("position")));
    let account = |reserved: u64| words([1_000_000_000, 0, reserved, 0, 1]);
    let cash = restored(&desk, &bytes, &account(500), &account(499));
    assert_eq!(cash.err(), Some(SnapshotError::Invalid("reserved cash")));
}

#[test]
fn numbers_at_the_end_of_their_range_are_refused() {
    let (desk, bytes) = desk();
    // Control position, digest, rec, seq, exec_id, match_id.
    let numbers = |last: [u64; 4]| {
        let [rec, seq, exec_id, match_id] = last;
        words([desk.control_position, desk.engine.digest(), rec, seq, exec_id, match_id])
    };
    let (right, end) = (numbers([1, 1, 1, 0]), u64::MAX);
    for bad in [[end, 1, 1, 0], [1, end, 1, 0], [1, 1, end, 0], [1, 1, 1, end]] {
        let error = restored(&desk, &bytes, &right, &numbers(bad)).err();
        assert!(matches!(error, Some(SnapshotError::Invalid(_))), "{bad:?}: {error:?}");
    }
}

/// Returns an event in a snapshot's form of a remembered answer.
fn remembered(event: PlainEvent) -> Vec<u8> {
    let mut bytes = Vec::new();
    Event::Plain(event).encode(&mut bytes);
    [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
}

#[test]
fn only_answers_are_read_as_remembered_answers() {
    let mut desk = Desk::open();
    let events = desk.ask(Request::Transfer(transfer(POOR, 1, 5, 0)));
    let (position, event_no) = (Position(0), EventNo(0));
    let done = weir_wire::event::RequestDone { position, event_no, ..done_of(&events[0]) };
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    let right = remembered(PlainEvent::RequestDone(done));
    let busted = PlainEvent::TradeBusted(TradeBusted {
        position: done.position,
        event_no: done.event_no,
        order_id: OrderId(0),
        match_id: MatchId(1),
        transact_time: done.transact_time,
        last_px: Price(1),
        last_qty: Qty(1),
        session_id: done.session_id,
        firm_id: FirmId(1),
        account_id: POOR,
        instrument_id: TULIP,
        partition_id: HERE,
        side: Side::Buy,
        debt_cash: Cash(0),
        debt_qty: Qty(0),
    });
    let later = PlainEvent::RequestDone(weir_wire::event::RequestDone {
        request_no: RequestNo(done.request_no.0 + 1),
        ..done
    });
    for bad in [busted, later] {
        let error = restored(&desk, &bytes, &right, &remembered(bad)).err();
        assert_eq!(error, Some(SnapshotError::Invalid("remembered answer")), "{bad:?}");
    }
}

/// A key behind all changes hides the instrument from every later halt of all.
#[test]
fn a_change_of_many_that_is_still_to_come_is_not_the_last_of_an_instrument() {
    let mut desk = Desk::open();
    let group_id = GroupId(7);
    let fields = field_bit::<DefineInstrument>("group_id");
    desk.ask(Request::DefineInstrument(DefineInstrument {
        group_id,
        fields,
        ..instrument(TULIP, HERE)
    }));
    let halt = ChangePhases {
        request_no: RequestNo(0),
        session_id: OPERATOR,
        group_id,
        partition_id: HERE,
        phase: Phase::Halted,
        resumes: Switch::Off,
        override_collars: Switch::Off,
        through_call: Switch::Off,
    };
    desk.ask(Request::ChangePhases(halt));
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    let (at, number) = (desk.engine.time().0, (1 << 16) + desk.position);
    let foreign = words([u64::MAX; 4]);
    let cases = [
        (words([at, number]), words([u64::MAX, u64::MAX])),
        (words([at, number]), words([at, number + 1])),
        (words([at, number]), words([at + 1, 7])),
        (foreign, words([u64::MAX, u64::MAX, at, number])),
    ];
    for (right, bad) in cases {
        let error = restored(&desk, &bytes, &right, &bad).err();
        let want = SnapshotError::Invalid("last change of many instruments");
        assert_eq!(error, Some(want), "{bad:?}");
    }
}

#[test]
fn a_list_of_changes_out_of_order_is_refused() {
    let mut desk = Desk::open();
    let of_list = |step, at| {
        Request::SchedulePhases(SchedulePhases {
            request_no: RequestNo(0),
            at: Nanos(at),
            session_id: OPERATOR,
            instrument_id: InstrumentId::NONE,
            count: 0,
            group_id: GroupId::NONE,
            partition_id: HERE,
            phase: Phase::Closed,
            step,
        })
    };
    desk.ask(of_list(ScheduleStep::Begin, 0));
    for at in [0x5_0000_0001, 0x6_0000_0002] {
        desk.ask(of_list(ScheduleStep::Add, at));
    }
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    for bad in [0x5_0000_0001, 0x4_0000_0000] {
        let error = restored(&desk, &bytes, &words([0x6_0000_0002]), &words([bad])).err();
        assert_eq!(error, Some(SnapshotError::Invalid("change of many instruments")), "{bad:?}");
    }
}

#[test]
fn a_cause_that_no_change_of_phase_has_is_refused() {
    let (mut desk, _) = desk();
    step(&mut desk, "phase halted");
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    let origin = |cause: PhaseCause, session_id: SessionId, at: u64| {
        [&[1, cause.code()][..], &session_id.0.to_le_bytes(), &at.to_le_bytes()].concat()
    };
    let (now, nobody) = (desk.engine.time().0, SessionId::NONE);
    let right = origin(PhaseCause::Operator, OPERATOR, now);
    for bad in [
        origin(PhaseCause::Unknown, nobody, now),
        origin(PhaseCause::Operator, nobody, now),
        origin(PhaseCause::Schedule, OPERATOR, now),
        origin(PhaseCause::Operator, OPERATOR, now + 1),
    ] {
        let error = restored(&desk, &bytes, &right, &bad).err();
        assert_eq!(error, Some(SnapshotError::Invalid("cause of a phase")), "{bad:?}");
    }
}
