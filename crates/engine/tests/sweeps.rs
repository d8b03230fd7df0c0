//! Mass cancels and lost sessions that end more orders than one command may.

mod support;

use support::steps::*;
use support::*;
use weir_engine::{Engine, EngineConfig};
use weir_types::*;
use weir_wire::order_entry::{MassCancel, NewOrder};
use weir_wire::reference::{SchedulePhase, SessionLost};
use weir_wire::{Command, Definition, Event, PlainEvent, Request};

/// The time at which a sweep in progress wants its next tick.
const AT_ONCE: Option<Nanos> = Some(Nanos(0));

fn small() -> EngineConfig {
    EngineConfig {
        sweep_ends_max: 3,
        sweep_visits_max: 9,
        tick_changes_max: 3,
        sweeps_max: 2,
        ..EngineConfig::new(HERE)
    }
}

/// Returns a desk with small steps, and bids of Alice: `a1` to `a8`.
fn desk() -> Desk {
    let mut desk = Desk::with_twin(small());
    desk.furnish();
    for number in 1..=8 {
        desk.order(buy(90 + number, 5, &format!("a{number}")));
    }
    desk
}

fn mass_cancel(session_id: SessionId, scope: MassCancelScope) -> MassCancel {
    MassCancel {
        request_no: RequestNo(0),
        cl_ord_id: name("all"),
        sending_time: Nanos(0),
        session_id,
        instrument_id: InstrumentId(0),
        account_id: RICH,
        firm_id: FirmId(0),
        partition_id: HERE,
        scope,
    }
}

fn ask(desk: &mut Desk, m: MassCancel) -> Vec<String> {
    desk.ask(Request::MassCancel(m)).iter().map(tell).collect()
}

fn cancel_all(desk: &mut Desk) -> Vec<String> {
    ask(desk, mass_cancel(ALICE, MassCancelScope::Session))
}

fn tick(desk: &mut Desk) -> Vec<String> {
    step(desk, "tick")
}

fn lose(desk: &mut Desk, session_id: SessionId) -> Vec<String> {
    let lost = SessionLost { session_id, cancel_on_disconnect: Switch::On };
    desk.apply(&Command::SessionLost(lost)).iter().map(tell).collect()
}

#[test]
fn the_few_orders_of_a_lost_session_do_not_wait_for_the_many_of_another() {
    let mut desk = desk();
    desk.order(bob(buy(81, 1, "b1")));
    let losses = |names: &[&str]| ends(names, Reason::SessionLost);
    assert_eq!(lose(&mut desk, ALICE), losses(&["a1", "a2", "a3"]));
    assert_eq!(lose(&mut desk, BOB), losses(&["b1"]), "no more than a tick's");
    assert_eq!(tick(&mut desk), losses(&["a4", "a5", "a6"]));
}

/// Returns the names of orders that end, for `reason`.
fn ends(names: &[&str], reason: Reason) -> Vec<String> {
    names.iter().map(|name| format!("{name} Canceled {reason:?}")).collect()
}

fn masses(names: &[&str]) -> Vec<String> {
    ends(names, Reason::MassCancel)
}

#[test]
fn a_mass_cancel_ends_a_bounded_number_of_orders_and_ticks_end_the_rest() {
    let mut desk = desk();
    assert_eq!(desk.engine.next_deadline(), None);
    assert_eq!(cancel_all(&mut desk), masses(&["a1", "a2", "a3"]));
    assert_eq!(desk.engine.next_deadline(), AT_ONCE);
    // Others' commands come in between.
    assert_eq!(
        step(&mut desk, "bob sell x 95 5"),
        ["x New 5", "a8 Trade 5@98 0", "x Trade 5@98 0"]
    );
    assert_eq!(tick(&mut desk), masses(&["a4", "a5", "a6"]));
    assert_eq!(tick(&mut desk), [masses(&["a7"]), vec!["done 7".to_owned()]].concat());
    assert_eq!(desk.engine.next_deadline(), None);
    assert_eq!(desk.engine.live_order_count(), 0);
}

#[test]
fn orders_entered_after_the_command_stay() {
    let mut desk = desk();
    cancel_all(&mut desk);
    desk.order(buy(99, 5, "new"));
    let mut told = Vec::new();
    while desk.engine.next_deadline() == AT_ONCE {
        told.extend(tick(&mut desk));
    }
    assert_eq!(told.last().unwrap(), "done 8");
    assert_eq!(desk.engine.live_order_count(), 1);
    assert_eq!(desk.levels(Side::Buy), [(99, 5, 1)]);
}

#[test]
fn a_repeat_of_a_mass_cancel_in_progress_is_refused_and_later_gets_the_whole_count() {
    let mut desk = desk();
    cancel_all(&mut desk);
    let number = desk.request_no;
    let mass_cancel = Request::MassCancel(mass_cancel(ALICE, MassCancelScope::Session));
    let again = Command::Request(numbered(mass_cancel, number));
    let refused = desk.apply(&again);
    assert_eq!(rejected_of(&refused[0]).reason, Reason::InProgress);
    assert_eq!((refused.len(), desk.engine.live_order_count()), (1, 5));
    // An answer to a later request comes first; both are remembered.
    step(&mut desk, "buy b 80 1");
    while desk.engine.next_deadline() == AT_ONCE {
        tick(&mut desk);
    }
    let done = desk.apply(&again);
    assert_eq!((done.len(), done_of(&done[0]).affected_count), (1, 8));
    let Some(Request::NewOrder(order)) = asked_in("buy b 80 1") else { unreachable!("an order") };
    let order = numbered(Request::NewOrder(order), number + 1);
    assert_eq!(told(&orders(&desk.apply(&Command::Request(order)))), ["b New 1"]);
}

#[test]
fn sessions_go_in_order_of_definition_and_one_after_the_other() {
    let mut desk = desk();
    desk.order(NewOrder { session_id: ANNA, ..buy(80, 5, "n1") });
    desk.order(buy(99, 5, "a9"));
    desk.order(NewOrder { session_id: ANNA, ..buy(80, 5, "n2") });
    let mut told = ask(&mut desk, mass_cancel(ALICE, MassCancelScope::Firm));
    while desk.engine.next_deadline() == AT_ONCE {
        told.extend(tick(&mut desk));
    }
    let names = ["a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "n1", "n2"];
    assert_eq!(told, [masses(&names), vec!["done 11".to_owned()]].concat());
}

#[test]
fn a_step_looks_at_a_bounded_number_of_orders() {
    let mut desk = desk();
    for number in 1..=3 {
        let rose = format!("r{number}");
        desk.order(NewOrder { instrument_id: ROSE, ..buy(90, 5, &rose) });
    }
    let roses = MassCancel { instrument_id: ROSE, ..mass_cancel(ALICE, MassCancelScope::Session) };
    // The session and eight tulips are nine visits.
    assert_eq!(ask(&mut desk, roses), Vec::<String>::new());
    assert_eq!(tick(&mut desk), [masses(&["r1", "r2", "r3"]), vec!["done 3".to_owned()]].concat());
    assert_eq!(desk.engine.live_order_count(), 8);
}

#[test]
fn a_session_has_one_mass_cancel_in_progress_and_the_partition_a_few() {
    let mut desk = desk();
    for (session_id, account_id, letter) in [(ANNA, RICH, 'n'), (BOB, OTHER, 'b')] {
        for number in 1..=4 {
            let text = format!("{letter}{number}");
            desk.order(NewOrder { session_id, account_id, ..buy(80, 1, &text) });
        }
    }
    cancel_all(&mut desk);
    let refused = ["refused TooManyMassCancels"];
    assert_eq!(cancel_all(&mut desk), refused);
    let of_anna = ask(&mut desk, mass_cancel(ANNA, MassCancelScope::Session));
    assert_eq!(of_anna, refused, "a firm has one of few");
    assert_eq!(ask(&mut desk, mass_cancel(BOB, MassCancelScope::Session)).len(), 3);
    let tulips =
        MassCancel { instrument_id: TULIP, ..mass_cancel(OPERATOR, MassCancelScope::Instrument) };
    assert_eq!(ask(&mut desk, tulips), masses(&["a4", "a5", "a6"]), "operators are not refused");
    let told: Vec<Vec<String>> = (0..3).map(|_| tick(&mut desk)).collect();
    let done = |count: u64| vec![format!("done {count}")];
    // In turn, and the two with few orders left share a tick.
    assert_eq!(told[0], [masses(&["a7", "a8"]), done(5), masses(&["b4"]), done(4)].concat());
    assert_eq!(told[1], masses(&["n1", "n2", "n3"]));
    assert_eq!(told[2], [masses(&["n4"]), done(7)].concat());
}

#[test]
fn a_session_lost_twice_loses_the_orders_of_both_times() {
    let mut desk = desk();
    let lost = |names: &[&str]| ends(names, Reason::SessionLost);
    assert_eq!(lose(&mut desk, ALICE), lost(&["a1", "a2", "a3"]));
    desk.order(buy(99, 5, "b1"));
    assert_eq!(lose(&mut desk, ALICE), Vec::<String>::new());
    desk.order(buy(99, 5, "b2"));
    assert_eq!(tick(&mut desk), lost(&["a4", "a5", "a6"]));
    assert_eq!(tick(&mut desk), lost(&["a7", "a8", "b1"]));
    assert_eq!(desk.engine.next_deadline(), None);
    assert_eq!(desk.levels(Side::Buy), [(99, 5, 1)]);
}

#[test]
fn a_loss_is_never_refused() {
    let mut desk = desk();
    for number in 1..=4 {
        desk.order(bob(buy(80, 1, &format!("b{number}"))));
        desk.order(NewOrder { session_id: ANNA, ..buy(80, 1, &format!("n{number}")) });
    }
    for session_id in [ALICE, ANNA] {
        ask(&mut desk, mass_cancel(session_id, MassCancelScope::Session));
    }
    for session_id in [ALICE, ANNA, BOB] {
        lose(&mut desk, session_id);
    }
    while desk.engine.next_deadline() == AT_ONCE {
        tick(&mut desk);
    }
    assert_eq!(desk.engine.live_order_count(), 0);
}

#[test]
fn an_instrument_that_closes_in_between_keeps_the_orders_not_reached_yet() {
    let mut desk = desk();
    cancel_all(&mut desk);
    desk.phase(Phase::Closed);
    assert_eq!(tick(&mut desk), ["done 3"]);
    assert_eq!(desk.engine.live_order_count(), 5);
    // An operator's reaches them.
    let tulips =
        MassCancel { instrument_id: TULIP, ..mass_cancel(OPERATOR, MassCancelScope::Instrument) };
    let mut told = ask(&mut desk, tulips);
    while desk.engine.next_deadline() == AT_ONCE {
        told.extend(tick(&mut desk));
    }
    assert_eq!(told, [masses(&["a4", "a5", "a6", "a7", "a8"]), vec!["done 5".to_owned()]].concat());
}

#[test]
fn a_snapshot_within_a_sweep_restores_it() {
    let mut desk = desk();
    desk.order(bob(buy(80, 1, "b")));
    cancel_all(&mut desk);
    lose(&mut desk, ALICE);
    let mut bytes = Vec::new();
    desk.engine.snapshot(&mut bytes);
    let config = EngineConfig { hash_seed: 77, ..small() };
    let mut restored = Engine::restore(config, &bytes).unwrap();
    let mut again = Vec::new();
    restored.snapshot(&mut again);
    assert!(again == bytes, "a restored engine's snapshot is the one it came from");
    let mut told = Vec::new();
    while desk.engine.next_deadline() == AT_ONCE {
        assert_eq!(restored.next_deadline(), AT_ONCE);
        let events = desk.apply(&Command::Tick);
        let mut same: Vec<Event> = Vec::new();
        restored.apply(Position(desk.position), desk.engine.time(), &Command::Tick, &mut same);
        assert_eq!(events, same);
        told.extend(events);
    }
    let dones = told.iter().filter(|e| matches!(e, Event::Plain(PlainEvent::RequestDone(_))));
    // Of the mass cancel's orders five were ended as a lost session's.
    assert_eq!(dones.map(|e| done_of(e).affected_count).collect::<Vec<_>>(), [3]);
    assert_eq!(desk.engine.digest(), restored.digest());
    assert_eq!(desk.engine.state_hash(), restored.state_hash());
}

#[test]
fn any_step_length_ends_the_same_orders_in_the_same_order() {
    let run = |ends_max: u32, visits_max: u32| {
        let config = EngineConfig {
            sweep_ends_max: ends_max,
            sweep_visits_max: visits_max,
            tick_changes_max: ends_max.min(32),
            ..small()
        };
        let mut desk = Desk::with_twin(config);
        desk.furnish();
        for number in 1..=20 {
            let session_id = if number % 3 == 0 { ANNA } else { ALICE };
            desk.order(NewOrder { session_id, ..buy(90, 5, &format!("a{number}")) });
        }
        let mut told = ask(&mut desk, mass_cancel(ALICE, MassCancelScope::Account));
        while desk.engine.next_deadline() == AT_ONCE {
            told.extend(tick(&mut desk));
        }
        told
    };
    let whole = run(512, 4_096);
    assert_eq!(whole.len(), 21);
    for (ends_max, visits_max) in [(1, 9), (3, 2), (7, 7), (512, 1), (19, 512), (20, 512)] {
        assert_eq!(run(ends_max, visits_max), whole, "{ends_max} {visits_max}");
    }
}

#[test]
fn the_losses_of_many_sessions_end_no_more_by_their_commands_than_one_does() {
    let mut desk = desk();
    for number in 1..=4 {
        desk.order(bob(buy(80 + number, 1, &format!("b{number}"))));
    }
    let losses = |names: &[&str]| ends(names, Reason::SessionLost);
    assert_eq!(lose(&mut desk, ALICE), losses(&["a1", "a2", "a3"]));
    assert_eq!(lose(&mut desk, BOB), losses(&[]), "it waits for its turn");
    assert_eq!(lose(&mut desk, ANNA), losses(&[]), "it has no orders, and is over");
    // A request is carried out at once, and so is a mass cancel's first step.
    assert_eq!(step(&mut desk, "bob cancel b1"), ["b1 Canceled None"]);
    let by_bob = mass_cancel(BOB, MassCancelScope::Session);
    assert_eq!(ask(&mut desk, by_bob)[..3], masses(&["b2", "b3", "b4"]));
    assert_eq!(tick(&mut desk), losses(&["a4", "a5", "a6"]));
    assert_eq!(tick(&mut desk), losses(&["a7", "a8"]), "Bob's loss finds nothing left");
    assert_eq!((desk.engine.next_deadline(), desk.engine.live_order_count()), (None, 0));
}

/// The number of each session's orders on a [`full_desk`].
const EACH: usize = 40;

/// Returns a desk with steps of four orders and [`EACH`] bids of each session: `a1`, `n1`, `b1` and
/// so on.
fn full_desk(tick_changes_max: u32) -> Desk {
    desk_of_bids(tick_changes_max, [EACH; 3])
}

/// Returns the same with other numbers of bids of Alice, Anna and Bob.
fn desk_of_bids(tick_changes_max: u32, counts: [usize; 3]) -> Desk {
    let mut desk = Desk::with_twin(EngineConfig {
        sweep_ends_max: 4,
        sweep_visits_max: 32,
        tick_changes_max,
        ..EngineConfig::new(HERE)
    });
    desk.furnish();
    let sessions = [(ALICE, RICH, 'a'), (ANNA, RICH, 'n'), (BOB, OTHER, 'b')];
    for ((session_id, account_id, letter), count) in sessions.into_iter().zip(counts) {
        for number in 1..=count {
            let text = format!("{letter}{number}");
            desk.order(NewOrder { session_id, account_id, ..buy(80, 1, &text) });
        }
    }
    desk
}

/// Begins to cancel all orders of Bob, and returns the number of ticks until they have ended;
/// `others` act before each.
fn ticks_until_ended(
    desk: &mut Desk,
    begin: impl Fn(&mut Desk) -> Vec<String>,
    others: impl Fn(&mut Desk),
) -> usize {
    let count = |told: &[String]| told.iter().filter(|line| line.starts_with('b')).count();
    let (mut ended, mut ticks) = (count(&begin(desk)), 0);
    while ended < EACH {
        others(desk);
        assert_eq!(desk.engine.next_deadline(), AT_ONCE, "{ended} have ended");
        ended += count(&tick(desk));
        ticks += 1;
    }
    ticks
}

#[test]
fn a_loss_lasts_twice_as_long_beside_mass_cancels_that_find_nothing_and_no_longer() {
    let lose_bob = |desk: &mut Desk| lose(desk, BOB);
    assert_eq!(ticks_until_ended(&mut full_desk(4), lose_bob, |_| ()), 9);
    let look_for_roses = |desk: &mut Desk| {
        for (session_id, scope) in [
            (ALICE, MassCancelScope::Firm),
            (ANNA, MassCancelScope::Firm),
            (OPERATOR, MassCancelScope::Instrument),
        ] {
            // Again as soon as it is over; before it is refused.
            ask(desk, MassCancel { instrument_id: ROSE, ..mass_cancel(session_id, scope) });
        }
    };
    let mut desk = full_desk(4);
    look_for_roses(&mut desk);
    assert_eq!(desk.engine.next_deadline(), AT_ONCE);
    assert_eq!(ticks_until_ended(&mut desk, lose_bob, look_for_roses), 18);
    // With one change in a tick each kind has one.
    assert_eq!(ticks_until_ended(&mut full_desk(1), lose_bob, look_for_roses), 36);
}

#[test]
fn a_mass_cancel_lasts_twice_as_long_beside_losses_and_no_longer() {
    let by_bob = |desk: &mut Desk| ask(desk, mass_cancel(BOB, MassCancelScope::Session));
    assert_eq!(ticks_until_ended(&mut full_desk(4), by_bob, |_| ()), 9);
    let mut desk = full_desk(4);
    for session_id in [ALICE, ANNA] {
        lose(&mut desk, session_id);
    }
    assert_eq!(ticks_until_ended(&mut desk, by_bob, |_| ()), 18);
}

/// The most ticks of a mass cancel that lasts nine alone, beside two others.
const IN_TURN: usize = 3 * 9;

#[test]
fn a_mass_cancel_behind_those_that_leave_few_visits_has_its_turns() {
    // Alice's and Anna's find nothing, and leave two visits of a tick: a look and one order.
    let mut desk = desk_of_bids(4, [60, 60, EACH]);
    let look_for_roses = |desk: &mut Desk, session_id: SessionId| {
        let of_session = mass_cancel(session_id, MassCancelScope::Session);
        ask(desk, MassCancel { instrument_id: ROSE, ..of_session });
    };
    look_for_roses(&mut desk, ALICE);
    let by_bob = |desk: &mut Desk| ask(desk, mass_cancel(BOB, MassCancelScope::Session));
    let ticks = ticks_until_ended(&mut desk, by_bob, |desk| {
        look_for_roses(desk, ALICE);
        look_for_roses(desk, ANNA);
    });
    assert!(ticks <= IN_TURN, "{ticks}");
}

#[test]
fn a_mass_cancel_behind_those_that_leave_few_changes_has_its_turns() {
    // Of seven orders the command ends four, a tick three: one change is left.
    let mut desk = desk_of_bids(4, [0, 0, EACH]);
    let cancel_seven = |desk: &mut Desk, session_id: SessionId, price: i64| {
        if desk.levels(Side::Buy).iter().any(|level| level.0 == price) {
            return;
        }
        for number in 1..=7 {
            let text = format!("a{price}-{number}");
            desk.order(NewOrder { session_id, ..buy(price, 1, &text) });
        }
        assert_eq!(ask(desk, mass_cancel(session_id, MassCancelScope::Session)).len(), 4);
    };
    cancel_seven(&mut desk, ALICE, 61);
    let by_bob = |desk: &mut Desk| ask(desk, mass_cancel(BOB, MassCancelScope::Session));
    let ticks = ticks_until_ended(&mut desk, by_bob, |desk| {
        cancel_seven(desk, ALICE, 61);
        cancel_seven(desk, ANNA, 62);
    });
    assert!(ticks <= IN_TURN, "{ticks}");
}

#[test]
fn two_losses_that_get_the_rest_of_mass_cancels_end_alike() {
    // Anna's mass cancel leaves two visits, behind the half of a loss.
    let mut desk = desk_of_bids(4, [EACH, 57, EACH]);
    assert_eq!(lose(&mut desk, ALICE).len(), 4);
    assert_eq!(lose(&mut desk, BOB).len(), 0);
    let (mut of_alice, mut of_bob) = (4, 0);
    for _ in 0..14 {
        let by_anna = mass_cancel(ANNA, MassCancelScope::Session);
        ask(&mut desk, MassCancel { instrument_id: ROSE, ..by_anna });
        for line in tick(&mut desk) {
            of_alice += u32::from(line.starts_with('a'));
            of_bob += u32::from(line.starts_with('b'));
        }
    }
    assert_eq!((of_alice, of_bob), (4 + 21, 20), "a visit entered Bob's session");
}

/// Schedules the close of an instrument, defined before or now, at 5,000.
fn close_later(desk: &mut Desk, instrument_id: InstrumentId) {
    desk.import(Definition::DefineInstrument(instrument(instrument_id, HERE)));
    let done = desk.ask(Request::SchedulePhase(SchedulePhase {
        request_no: RequestNo(0),
        at: Nanos(5_000),
        session_id: OPERATOR,
        instrument_id,
        phase: Phase::Closed,
    }));
    assert_eq!(done_of(&done[0]).affected_count, 1);
}

#[test]
fn a_mass_cancel_or_loss_fires_no_more_timers_at_its_orders_than_come_before_a_command() {
    for is_loss in [false, true] {
        let mut desk =
            Desk::with_twin(EngineConfig { tick_changes_max: 3, ..EngineConfig::new(HERE) });
        desk.furnish();
        let instrument_ids = (11..=20).map(InstrumentId);
        for instrument_id in instrument_ids.clone() {
            close_later(&mut desk, instrument_id);
            let text = format!("a{instrument_id}");
            desk.order(NewOrder { instrument_id, ..buy(90, 1, &text) });
        }
        desk.clock = 6_000;
        let closes = |count| vec!["phase Closed".to_owned(); count];
        let lost = |at: u32| ends(&[&format!("a{at}")], Reason::SessionLost);
        let ended = |ats: std::ops::RangeInclusive<u32>| {
            if is_loss { ats.flat_map(lost).collect() } else { Vec::new() }
        };
        let told = if is_loss { lose(&mut desk, ALICE) } else { cancel_all(&mut desk) };
        // Three come before it; the step then ends orders up to the fourth close of its own.
        let steps = (14..=16).flat_map(|at| [closes(1), ended(at..=at)].concat());
        assert_eq!(told, [closes(3), ended(11..=13), steps.collect()].concat());
        assert_eq!(desk.engine.next_deadline(), AT_ONCE);
        let mut told = Vec::new();
        while desk.engine.next_deadline() == AT_ONCE {
            told.extend(tick(&mut desk));
        }
        assert_eq!(told.iter().filter(|line| **line == "phase Closed").count(), 4);
        assert_eq!(desk.engine.live_order_count(), if is_loss { 0 } else { 10 });
    }
}

/// Returns a desk with day orders of Bob in instruments that close together, ten orders of Alice
/// and ten of Anna elsewhere, and ticks of two changes.
fn desk_before_closes(instrument_ids: &[InstrumentId]) -> Desk {
    let mut desk = Desk::with_twin(EngineConfig {
        sweep_ends_max: 4,
        sweep_visits_max: 40,
        tick_changes_max: 2,
        ..EngineConfig::new(HERE)
    });
    desk.furnish();
    for instrument_id in instrument_ids {
        close_later(&mut desk, *instrument_id);
        for number in 1..=5 {
            let text = format!("b{instrument_id}-{number}");
            let order = NewOrder { instrument_id: *instrument_id, ..bob(buy(80, 1, &text)) };
            desk.order(NewOrder { time_in_force: TimeInForce::Day, ..order });
        }
    }
    for number in 1..=10 {
        desk.order(buy(90, 1, &format!("a{number}")));
        desk.order(NewOrder { session_id: ANNA, ..buy(90, 1, &format!("n{number}")) });
    }
    desk
}

#[test]
fn a_tick_whose_timers_end_more_orders_than_it_should_takes_no_other_step() {
    let mut desk = desk_before_closes(&[11, 12, 13].map(InstrumentId));
    lose(&mut desk, ALICE);
    ask(&mut desk, mass_cancel(ANNA, MassCancelScope::Session));
    desk.clock = 6_000;
    for instrument_id in 11..=13 {
        let names: Vec<String> = (1..=5).map(|n| format!("b{instrument_id}-{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let closed = [vec!["phase Closed".to_owned()], expired(&names)].concat();
        assert_eq!(tick(&mut desk), closed, "one close, and no step");
        assert_eq!(desk.engine.next_deadline(), AT_ONCE);
    }
    let both = [ends(&["a5"], Reason::SessionLost), masses(&["n5"])].concat();
    assert_eq!(tick(&mut desk), both, "each close was one tick's");
}

#[test]
fn a_timer_of_a_loss_that_ends_more_orders_than_it_should_takes_the_part_of_mass_cancels() {
    let mut desk = desk_before_closes(&[]);
    let closing = InstrumentId(11);
    close_later(&mut desk, closing);
    for number in 1..=4 {
        desk.order(bob(buy(80, 1, &format!("b{number}"))));
    }
    for number in 1..=5 {
        let order = NewOrder { instrument_id: closing, ..bob(buy(80, 1, &format!("d{number}"))) };
        desk.order(NewOrder { time_in_force: TimeInForce::Day, ..order });
    }
    // They come before the close, and are no more than a tick's timers.
    for number in 1..=4 {
        let order = NewOrder { session_id: ANNA, ..buy(70, 1, &format!("e{number}")) };
        desk.order(until(4_000 + number, order));
    }
    let lost = ends(&["b1", "b2", "b3", "b4"], Reason::SessionLost);
    assert_eq!(lose(&mut desk, BOB), lost);
    assert_eq!(cancel_all(&mut desk), masses(&["a1", "a2", "a3", "a4"]));
    desk.clock = 6_000;
    let told = tick(&mut desk);
    let closed = vec!["phase Closed".to_owned()];
    let of_loss = [closed, expired(&["d1", "d2", "d3", "d4", "d5"])].concat();
    assert_eq!(told, [expired(&["e1", "e2"]), of_loss].concat());
    assert_eq!(tick(&mut desk), [expired(&["e3", "e4"]), masses(&["a5", "a6"])].concat());
}

fn expired(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("{name} Expired None")).collect()
}

/// Returns [`desk`] with two bids of Anna, and 20 of Bob in an instrument whose time to expire has
/// come: `b1` to `b20`.
fn crowded_desk(instrument_id: InstrumentId) -> Desk {
    let mut desk = desk();
    for number in 1..=2 {
        desk.order(NewOrder { session_id: ANNA, ..buy(80, 1, &format!("n{number}")) });
    }
    add_crowd(&mut desk, instrument_id);
    desk
}

fn add_crowd(desk: &mut Desk, instrument_id: InstrumentId) {
    for number in 1..=20 {
        let order = NewOrder { instrument_id, ..bob(buy(70, 1, &format!("b{number}"))) };
        desk.order(until(5_000, order));
    }
    desk.clock = 6_000;
}

fn until(end: u64, order: NewOrder) -> NewOrder {
    NewOrder { time_in_force: TimeInForce::Gtd, expire_time: Nanos(end), ..order }
}

/// Returns the expiries of Bob's orders, of which a tick or command fires three.
fn crowd(numbers: [u32; 3]) -> Vec<String> {
    numbers.map(|number| format!("b{number} Expired None")).to_vec()
}

#[test]
fn a_crowd_of_due_timers_stops_no_sweep() {
    let losses = |names: &[&str]| ends(names, Reason::SessionLost);
    for instrument_id in [TULIP, ROSE] {
        let mut desk = crowded_desk(instrument_id);
        assert_eq!(cancel_all(&mut desk), [crowd([1, 2, 3]), masses(&["a1", "a2", "a3"])].concat());
        assert_eq!(tick(&mut desk), [crowd([4, 5, 6]), masses(&["a4", "a5", "a6"])].concat());
        let rest = [masses(&["a7", "a8"]), vec!["done 8".to_owned()]].concat();
        assert_eq!(tick(&mut desk), [crowd([7, 8, 9]), rest].concat());
        let mut desk = crowded_desk(instrument_id);
        assert_eq!(
            lose(&mut desk, ALICE),
            [crowd([1, 2, 3]), losses(&["a1", "a2", "a3"])].concat()
        );
        assert_eq!(tick(&mut desk), [crowd([4, 5, 6]), losses(&["a4", "a5", "a6"])].concat());
    }
}

#[test]
fn a_mass_cancel_of_few_orders_is_over_at_once_behind_a_crowd_of_due_timers() {
    for instrument_id in [TULIP, ROSE] {
        let mut desk = crowded_desk(instrument_id);
        let by_anna = mass_cancel(ANNA, MassCancelScope::Session);
        let done = |count: u64| vec![format!("done {count}")];
        let told = ask(&mut desk, by_anna);
        assert_eq!(told, [crowd([1, 2, 3]), masses(&["n1", "n2"]), done(2)].concat());
        let told = ask(&mut desk, by_anna);
        assert_eq!(told, [crowd([4, 5, 6]), done(0)].concat(), "none is in progress");
    }
}

#[test]
fn timers_that_a_step_fires_count_as_its_own_changes() {
    let mut desk = Desk::with_twin(small());
    desk.furnish();
    for number in 1..=5 {
        desk.order(until(5_500, buy(90, 1, &format!("a{number}"))));
    }
    desk.order(buy(90, 1, "a6"));
    add_crowd(&mut desk, ROSE);
    assert_eq!(lose(&mut desk, ALICE), [crowd([1, 2, 3]), expired(&["a1", "a2", "a3"])].concat());
    let rest = [expired(&["a4", "a5"]), ends(&["a6"], Reason::SessionLost)].concat();
    assert_eq!(tick(&mut desk), [crowd([4, 5, 6]), rest].concat());
}

#[test]
fn a_due_change_of_the_phase_comes_before_the_end_of_an_order() {
    for is_loss in [false, true] {
        let mut desk = Desk::with_twin(small());
        desk.furnish();
        desk.order(buy(90, 1, "a"));
        desk.order(NewOrder { time_in_force: TimeInForce::Day, ..buy(90, 1, "d") });
        step(&mut desk, "schedule 5500 closed");
        // These come first, and are more than the timers before a command.
        add_crowd(&mut desk, ROSE);
        let (told, end) = if is_loss {
            (lose(&mut desk, ALICE), ends(&["a"], Reason::SessionLost))
        } else {
            (cancel_all(&mut desk), vec!["done 0".to_owned()])
        };
        let closed = ["phase Closed", "d Expired None"].map(str::to_owned).to_vec();
        assert_eq!(told, [crowd([1, 2, 3]), closed, end].concat());
    }
}
