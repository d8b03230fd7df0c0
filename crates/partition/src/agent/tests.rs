//! A partition over a log whose leadership the test decides.

use std::sync::{Mutex, MutexGuard};

use weir_engine::EngineConfig;
use weir_io::SimDisk;
use weir_log::tail::{TailConfig, TailHandle, tail};
use weir_log::{EmbeddedLog, EpochEnd, LogConfig, LogError};
use weir_types::*;
use weir_wire::order_entry::{MassCancel, NewOrder};
use weir_wire::reference::{
    BustTrade, DefineAccount, DefineFirm, DefineInstrument, DefineSession, SchedulePhase, Transfer,
};
use weir_wire::{Definition, Event, PlainEvent, Request};

use super::*;
use crate::event_reader::{EventReader, ReadEvent};
use crate::handoff::{
    FEEDBACK_MAX, PartitionPort, SUBMISSIONS_MAX, SourcePort, gateway_to_partition,
};
use crate::test_firm::firm;

mod limits;

/// The state of a log without entries.
struct State {
    epoch: Epoch,
    /// An epoch that is not reported yet.
    untold: Option<Epoch>,
    next: u64,
    committed: Position,
    log_time: Nanos,
    is_full: bool,
    /// The positions before which it may remove entries, as it was told.
    truncated: Vec<u64>,
    /// The figures of its partition, for the limits at each flush.
    watched: Option<Arc<PartitionFigures>>,
    /// The next position at each flush, and the published limit of orders.
    flushed: Vec<(u64, u64)>,
}

impl State {
    /// Returns the state of a log in epoch 1 that commits what it takes.
    fn new() -> State {
        State {
            epoch: Epoch(1),
            untold: None,
            next: 1,
            committed: Position(u64::MAX),
            log_time: Nanos(0),
            is_full: false,
            truncated: Vec::new(),
            watched: None,
            flushed: Vec::new(),
        }
    }
}

/// Returns the parts of a partition that takes the commands of `source`.
fn parts_over(
    log: ScriptedLog,
    tail: TailWriter,
    source: SourcePort,
) -> PartitionParts<ScriptedLog> {
    PartitionParts {
        engine: Engine::new(EngineConfig::new(HERE)),
        log,
        tail,
        sources: vec![source],
        views: Vec::new(),
        recorder: Recorder::disabled(),
        figures: Arc::default(),
        durability: Durability::Disk,
    }
}

#[derive(Clone)]
struct ScriptedLog(Arc<Mutex<State>>);

impl ScriptedLog {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn lead(&self, epoch: Epoch) {
        let mut state = self.state();
        (state.epoch, state.untold) = (epoch, Some(epoch));
    }
}

impl SequencedLog for ScriptedLog {
    fn new_batch(&self) -> Batch {
        Batch::new()
    }

    fn append(&mut self, epoch: Epoch, log_time: Nanos, batch: &Batch) -> Append {
        let mut state = self.state();
        if epoch != state.epoch {
            return Append::NotLeader;
        }
        if state.is_full {
            return Append::Full;
        }
        let first = Position(state.next);
        (state.next, state.log_time) = (state.next + u64::from(batch.count()), log_time);
        Append::At { first }
    }

    fn poll(&mut self) -> Poll {
        let mut state = self.state();
        let committed = Poll::Committed(state.committed);
        state.untold.take().map_or(committed, Poll::Leading)
    }

    fn do_work(&mut self, _now: Nanos) -> Result<usize, LogError> {
        Ok(0)
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn is_full(&self) -> bool {
        self.state().is_full
    }

    fn flush_blocking(&mut self) -> Result<(), LogError> {
        let mut state = self.state();
        let told = state.watched.as_ref().map(|of| of.counters.report().live_orders_max);
        let at = (state.next, told.unwrap_or(0));
        state.flushed.push(at);
        Ok(())
    }

    fn truncate(&mut self, before: Position) {
        self.state().truncated.push(before.0);
    }

    fn synced(&self) -> Position {
        self.state().committed
    }

    fn epoch(&self) -> Epoch {
        self.state().epoch
    }

    fn next_position(&self) -> Position {
        Position(self.state().next)
    }

    fn last_log_time(&self) -> Nanos {
        self.state().log_time
    }
}

/// Returns the import of a firm's definition, which causes one event.
fn import(number: u32) -> Submission {
    Submission::internal(Command::Import(Position(u64::from(number)), firm(number)))
}

#[test]
fn commands_that_no_segment_of_the_log_holds_together_are_sequenced_in_several_batches() {
    let config = LogConfig { segment_bytes: 8_192, ..LogConfig::new(HERE, 7) };
    let (log, _) = EmbeddedLog::open(config, SimDisk::new(1)).unwrap();
    let (mut port, source) = gateway_to_partition(HERE, Wake::new());
    let (tail, _handle) = tail(TailConfig::new(1 << 20, 1));
    let figures = Arc::new(PartitionFigures::default());
    let mut partition = Partition::new(PartitionParts {
        engine: Engine::new(EngineConfig::new(HERE)),
        log,
        tail,
        sources: vec![source],
        views: Vec::new(),
        recorder: Recorder::disabled(),
        figures: figures.clone(),
        durability: Durability::Disk,
    });
    for number in 1..=200 {
        port.submissions.push(import(number)).unwrap();
    }
    for cycle in 1..=1_000 {
        partition.do_work(Nanos(cycle));
    }
    assert_eq!(figures.counters.position.load(Ordering::Relaxed), 200);
}

#[test]
fn an_epoch_that_ends_under_a_partition_ends_behind_the_events_of_its_last_command() {
    let state = State { committed: Position::NONE, ..State::new() };
    let log = ScriptedLog(Arc::new(Mutex::new(state)));
    let partition_id = PartitionId(1);
    let (mut port, source) = gateway_to_partition(partition_id, Wake::new());
    let (writer, handle) = tail(TailConfig::new(1 << 20, 1));
    let mut partition = Partition::new(parts_over(log.clone(), writer, source));
    let mut work = |now| partition.do_work(Nanos(now));
    port.submissions.push(import(1)).unwrap();
    work(1);
    // The first command is not committed yet when the log leads in another epoch.
    log.lead(Epoch(2));
    work(2);
    port.submissions.push(import(2)).unwrap();
    work(3);
    log.state().committed = Position(2);
    work(4);
    log.lead(Epoch(4));
    work(5);
    let mut events = EventReader::new(&handle, "no-files".into(), 1);
    let mut record = Vec::new();
    let told: Vec<String> = std::iter::from_fn(|| match events.next(&mut record) {
        ReadEvent::Record(number) => Some(format!("{number}")),
        ReadEvent::EpochEnded(change) => {
            let EpochEnd { epoch, last_valid } = change.ended;
            Some(format!("{epoch} to {last_valid}, {} from {}", change.next, change.first_again))
        }
        ReadEvent::UpToDate | ReadEvent::Missing => None,
    })
    .collect();
    assert_eq!(told, ["1", "1 to 1, 2 from 2", "2", "2 to 2, 4 from 3"]);
}

const HERE: PartitionId = PartitionId(1);
const IT: InstrumentId = InstrumentId(1);

/// Returns a firm with sessions 1 and 2, an unlimited account 1, and an instrument.
fn reference_data() -> Vec<Definition> {
    let (request_no, session_id, firm_id) = (RequestNo::NONE, SessionId::NONE, FirmId(1));
    let name = Symbol::new("FIRM").unwrap();
    let trader = |id| {
        Definition::DefineSession(DefineSession {
            request_no,
            valid_until: Nanos(0),
            credential: Credential::default(),
            session_id,
            defined_session_id: SessionId(id),
            firm_id,
            order_rate_max: 0,
            in_flight_max: 0,
            role: Role::Trader,
            credential_kind: CredentialKind::ApiKey,
            live_orders_max: 0,
            fields: 0,
        })
    };
    vec![
        Definition::DefineFirm(DefineFirm {
            request_no,
            name,
            session_id,
            firm_id,
            live_orders_max: 0,
            fields: 0,
        }),
        Definition::DefineAccount(DefineAccount {
            request_no,
            session_id,
            account_id: AccountId(1),
            firm_id,
            unlimited: Switch::On,
            live_orders_max: 0,
            fields: 0,
        }),
        trader(1),
        trader(2),
        Definition::DefineInstrument(DefineInstrument {
            request_no,
            symbol: name,
            tick_size: Price(1),
            lot_size: Qty(1),
            order_qty_max: Qty(100),
            price_min: Price(1),
            price_max: Price(100),
            reference_price: Price(0),
            volatility_call: Nanos(0),
            static_collar: 0,
            dynamic_collar: 0,
            session_id,
            instrument_id: IT,
            partition_id: HERE,
            price_exponent: 0,
            qty_exponent: 0,
            phase: Phase::Continuous,
            fields: 0,
            group_id: GroupId::NONE,
        }),
    ]
}

fn bid(session_id: u32, number: u64) -> Submission {
    order(session_id, number, Side::Buy, AccountId(1))
}

fn order(session_id: u32, number: u64, side: Side, account_id: AccountId) -> Submission {
    Submission::internal(Command::Request(Request::NewOrder(NewOrder {
        request_no: RequestNo(number),
        cl_ord_id: ClOrdId::from_number(number),
        price: Price(10),
        order_qty: Qty(1),
        min_qty: Qty(0),
        display_qty: Qty(0),
        stop_px: Price(0),
        expire_time: Nanos(0),
        sending_time: Nanos(0),
        session_id: SessionId(session_id),
        instrument_id: IT,
        account_id,
        side,
        ord_type: OrdType::Limit,
        time_in_force: TimeInForce::Gtc,
        exec_inst: ExecInst::NONE,
        self_trade_prevention: SelfTradePrevention::None,
    })))
}

/// 256 commands of each source were taken in a cycle, so that an order passed the last of a
/// thousand definitions, and was refused for want of its instrument.
#[test]
fn an_order_comes_behind_all_definitions_that_were_there_before_it() {
    let (mut definitions, importer) = gateway_to_partition(HERE, Wake::new());
    let (mut orders, gateway) = gateway_to_partition(HERE, Wake::new());
    let (writer, _handle) = tail(TailConfig::new(1 << 20, 1));
    let log = ScriptedLog(Arc::new(Mutex::new(State::new())));
    let mut parts = parts_over(log, writer, SourcePort { feedback: None, ..importer });
    parts.sources.push(gateway);
    let mut partition = Partition::new(parts);
    for number in 2..=996 {
        definitions.submissions.push(import(number)).unwrap();
    }
    for (at, definition) in (997..).zip(reference_data()) {
        let import = Command::Import(Position(at), definition);
        definitions.submissions.push(Submission::internal(import)).unwrap();
    }
    orders.submissions.push(bid(1, 1)).unwrap();
    let live = (1..=4).map(|cycle| {
        partition.do_work(Nanos(cycle));
        partition.engine.live_order_count()
    });
    assert_eq!(live.collect::<Vec<_>>(), [0, 0, 0, 1]);
}

fn mass_cancel(number: u64) -> Submission {
    Submission::internal(Command::Request(Request::MassCancel(MassCancel {
        request_no: RequestNo(number),
        cl_ord_id: ClOrdId::NONE,
        sending_time: Nanos(0),
        session_id: SessionId(1),
        instrument_id: InstrumentId::NONE,
        account_id: AccountId::NONE,
        firm_id: FirmId::NONE,
        partition_id: HERE,
        scope: MassCancelScope::Session,
    })))
}

/// Returns a partition with small steps, its port and its events, after a mass cancel of session 1
/// that has ended three of its orders.
fn in_a_mass_cancel(orders: u64) -> (Partition<ScriptedLog>, PartitionPort, TailHandle) {
    let state = State::new();
    let (mut port, source) = gateway_to_partition(HERE, Wake::new());
    let (writer, handle) = tail(TailConfig::new(1 << 20, 1));
    let config = EngineConfig { sweep_ends_max: 3, tick_changes_max: 3, ..EngineConfig::new(HERE) };
    let mut partition = Partition::new(PartitionParts {
        engine: Engine::new(config),
        ..parts_over(ScriptedLog(Arc::new(Mutex::new(state))), writer, source)
    });
    for (at, definition) in (1..).zip(reference_data()) {
        let import = Command::Import(Position(at), definition);
        port.submissions.push(Submission::internal(import)).unwrap();
    }
    for number in 1..=orders {
        port.submissions.push(bid(1, number)).unwrap();
    }
    port.submissions.push(mass_cancel(orders + 1)).unwrap();
    partition.do_work(Nanos(1));
    assert_eq!(u64::from(partition.engine.live_order_count()), orders - 3);
    (partition, port, handle)
}

#[test]
fn while_others_trade_a_mass_cancel_takes_a_step_in_an_interval() {
    let (mut partition, mut port, _handle) = in_a_mass_cancel(203);
    let (mut now, mut left) = (Nanos(1), 200);
    for number in 1..=20 {
        port.submissions.push(bid(2, number)).unwrap();
        partition.do_work(now);
        left = if number == 1 { left - 3 + 1 } else { left + 1 };
        let next = partition.next_deadline(now).expect("a sweep is in progress");
        assert_eq!(next, Nanos(1 + TickPace::INTERVAL), "as the first tick was at once");
        partition.do_work(Nanos(now.0 + 1));
        assert_eq!(partition.engine.live_order_count(), left, "no tick before its time");
        now = Nanos(now.0 + 2);
    }
    now = Nanos(1 + TickPace::INTERVAL);
    partition.do_work(now);
    assert_eq!(partition.engine.live_order_count(), left - 3);
    // Nobody trades any more: the sweep has the whole thread.
    now = Nanos(now.0 + TickPace::QUIET_AFTER);
    partition.do_work(now);
    assert_eq!(partition.engine.live_order_count(), left - 3 - 3 * TickPace::TICKS_MAX);
    assert_eq!(partition.next_deadline(now), Some(now));
}

#[test]
fn other_commands_are_applied_between_the_steps_of_a_mass_cancel() {
    let (mut partition, mut port, handle) = in_a_mass_cancel(10);
    let (mut number, mut now) = (0, Nanos(1));
    while let Some(at) = partition.next_deadline(now) {
        now = at;
        number += 1;
        port.submissions.push(bid(2, number)).unwrap();
        partition.do_work(now);
    }
    let mut events = EventReader::new(&handle, "no-files".into(), 1);
    let mut record = Vec::new();
    let mut told = String::new();
    while let ReadEvent::Record(_) = events.next(&mut record) {
        match Event::decode(&record) {
            Ok(Event::Plain(PlainEvent::OrderEvent(e))) => {
                let what = if e.exec_type == ExecType::New { "new" } else { "end" };
                told += &format!("{what}{} ", e.session_id);
            }
            Ok(Event::Plain(PlainEvent::RequestDone(e))) => {
                told += &format!("done {}", e.affected_count);
            }
            _ => {}
        }
    }
    let (steps, entered) = ("end1 end1 end1 ", "new1 ".repeat(10));
    assert_eq!(told, format!("{entered}{steps}new2 {steps}new2 {steps}new2 end1 done 10"));
}

/// Returns the numbers of the refused requests that the gateway has been told of.
fn refused(port: &mut PartitionPort) -> Vec<u64> {
    let told = std::iter::from_fn(|| port.feedback.pop().ok());
    let numbers = told.filter_map(|one| match one {
        Feedback::Refused { request_no, .. } => Some(request_no.0),
        Feedback::Stamps(_) => None,
    });
    numbers.collect()
}

#[test]
fn every_request_that_a_full_log_does_not_take_is_refused_however_slow_the_gateway_is() {
    let state = State { is_full: true, ..State::new() };
    let (mut port, source) = gateway_to_partition(HERE, Wake::new());
    let (writer, _handle) = tail(TailConfig::new(1 << 20, 1));
    let mut partition =
        Partition::new(parts_over(ScriptedLog(Arc::new(Mutex::new(state))), writer, source));
    // More than the ring of refusals holds, and the gateway reads none of them.
    let mut sent = 0;
    for now in 0..3 * (FEEDBACK_MAX / TAKE_MAX) as u64 {
        while port.submissions.push(bid(1, sent + 1)).is_ok() {
            sent += 1;
        }
        partition.do_work(Nanos(now));
    }
    assert!(sent > FEEDBACK_MAX as u64, "the rings are full: {sent}");
    let mut told = Vec::new();
    while told.len() < sent as usize {
        let before = told.len();
        told.append(&mut refused(&mut port));
        assert!(told.len() > before, "{before} of {sent} were refused, and no more come");
        for _ in 0..FEEDBACK_MAX / TAKE_MAX {
            partition.do_work(Nanos(1 << 40));
        }
    }
    assert!(told.iter().copied().eq(1..=sent), "each is refused once and in order");
}

/// Returns the notices about requests that were received before: their numbers and reasons.
fn notices(events: &mut EventReader) -> Vec<(u64, Reason)> {
    let (mut record, mut told) = (Vec::new(), Vec::new());
    while let ReadEvent::Record(_) = events.next(&mut record) {
        if let Ok(Event::Plain(PlainEvent::RequestRejected(e))) = Event::decode(&record) {
            told.push((e.request_no.0, e.reason));
        }
    }
    told
}

/// A full log refuses requests, and a mass cancel that is in progress comes again between them.
fn repeat_of_a_mass_cancel_at_a_full_log() {
    let (mut partition, mut port, handle) = in_a_mass_cancel(10);
    partition.log.state().is_full = true;
    port.submissions.push(mass_cancel(11)).unwrap();
    port.submissions.push(bid(1, 12)).unwrap();
    partition.do_work(Nanos(1));
    assert_eq!(refused(&mut port), [12], "a refusal says that no log has the request");
    port.submissions.push(mass_cancel(11)).unwrap();
    port.submissions.push(bid(1, 13)).unwrap();
    partition.do_work(Nanos(2));
    assert_eq!(refused(&mut port), [13], "nor before the next try");
    partition.log.state().is_full = false;
    partition.do_work(Nanos(2 + KEPT_RETRY));
    assert_eq!(partition.engine.session_state(SessionId(1)).last_request_no, RequestNo(11));
    let mut events = EventReader::new(&handle, "no-files".into(), 1);
    assert_eq!(notices(&mut events), [(11, Reason::InProgress); 2]);
}

#[test]
fn a_request_that_was_received_before_waits_for_room_in_a_full_log_and_others_are_refused() {
    repeat_of_a_mass_cancel_at_a_full_log();
}

#[test]
fn at_a_stop_a_request_that_was_received_before_is_not_refused_either() {
    let (mut partition, mut port, _handle) = in_a_mass_cancel(10);
    partition.log.state().is_full = true;
    port.submissions.push(mass_cancel(11)).unwrap();
    partition.do_work(Nanos(1));
    port.submissions.push(mass_cancel(11)).unwrap();
    port.submissions.push(bid(1, 12)).unwrap();
    for now in [2, 2 + KEPT_RETRY, 2 + 2 * KEPT_RETRY] {
        let _ = partition.stop(Nanos(now));
    }
    assert_eq!(refused(&mut port), [12]);
}

#[test]
fn a_full_log_refuses_a_new_request_however_many_others_are_kept() {
    let (mut partition, mut port, _handle) = in_a_mass_cancel(10);
    partition.log.state().is_full = true;
    let mut now = 1;
    for number in 0..2 * KEPT_MAX as u32 {
        port.submissions.push(import(1_000 + number)).unwrap();
        now += KEPT_RETRY / 2;
        partition.do_work(Nanos(now));
    }
    port.submissions.push(bid(1, 12)).unwrap();
    partition.do_work(Nanos(now + 1));
    partition.do_work(Nanos(now + KEPT_RETRY));
    assert_eq!(refused(&mut port), [12]);
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_of_a_refused_repeat_is_found() {
    assert!(plant::is_found(Plant::RepeatRefused, repeat_of_a_mass_cancel_at_a_full_log));
}

#[test]
fn repeats_beyond_a_limit_wait_in_their_ring_and_each_is_answered_in_the_end() {
    let (mut partition, mut port, handle) = in_a_mass_cancel(10);
    let last = 2 * KEPT_MAX as u64;
    port.submissions.push(bid(2, last)).unwrap();
    partition.do_work(Nanos(1));
    partition.log.state().is_full = true;
    let (mut sent, mut now) = (0, 1);
    while sent < last - 1 && port.submissions.push(bid(2, sent + 1)).is_ok() {
        // Now they come between two tries, now with one.
        (sent, now) = (sent + 1, now + KEPT_RETRY / 2);
        partition.do_work(Nanos(now));
    }
    assert_eq!(partition.kept.len(), KEPT_MAX);
    assert_eq!(refused(&mut port), []);
    partition.log.state().is_full = false;
    let mut events = EventReader::new(&handle, "no-files".into(), 1);
    let mut answered = Vec::new();
    while !partition.kept.is_empty() || port.submissions.slots() < SUBMISSIONS_MAX {
        now += KEPT_RETRY;
        partition.do_work(Nanos(now));
        answered.extend(notices(&mut events).into_iter().map(|(number, _)| number));
    }
    assert!(answered.into_iter().eq(1..=sent), "each is answered once and in order");
}

#[test]
fn a_partition_that_stops_waits_for_no_gateway() {
    let state = State { is_full: true, ..State::new() };
    let (mut port, mut source) = gateway_to_partition(HERE, Wake::new());
    let (to_gateway, _from_partition) = rtrb::RingBuffer::new(2);
    source.feedback = Some(to_gateway);
    let (writer, _handle) = tail(TailConfig::new(1 << 20, 1));
    let mut partition =
        Partition::new(parts_over(ScriptedLog(Arc::new(Mutex::new(state))), writer, source));
    (1..=10).for_each(|number| port.submissions.push(bid(1, number)).unwrap());
    for now in 0..10 {
        partition.do_work(Nanos(now));
    }
    assert_eq!(port.submissions.slots(), SUBMISSIONS_MAX - 8, "two are refused and eight wait");
    assert!(partition.next_deadline(Nanos(10)).is_some(), "they are looked at again");
    assert!(partition.stop(Nanos(10)));
    assert_eq!(port.submissions.slots(), SUBMISSIONS_MAX);
}

#[test]
fn a_tick_that_is_due_finds_room_behind_as_many_commands_as_may_wait_for_the_disk() {
    let state = State::new();
    let log = ScriptedLog(Arc::new(Mutex::new(state)));
    let (mut port, source) = gateway_to_partition(HERE, Wake::new());
    let (writer, _handle) = tail(TailConfig::new(1 << 20, 1));
    let mut partition = Partition::new(parts_over(log.clone(), writer, source));
    for (at, definition) in (1..).zip(reference_data()) {
        let import = Command::Import(Position(at), definition);
        port.submissions.push(Submission::internal(import)).unwrap();
    }
    let mut dated = bid(1, 1);
    if let Command::Request(Request::NewOrder(order)) = &mut dated.command {
        (order.time_in_force, order.expire_time) = (TimeInForce::Gtd, Nanos(1_000_000));
    }
    port.submissions.push(dated).unwrap();
    partition.do_work(Nanos(1));
    assert!(partition.engine.next_deadline().is_some(), "the order has an end");
    // The disk stalls.
    let last = log.state().next - 1;
    log.state().committed = Position(last);
    let mut number = 1;
    while partition.pending.len() < UNCOMMITTED_MAX {
        number += 1;
        port.submissions.push(bid(1, number)).unwrap();
        partition.do_work(Nanos(2));
    }
    partition.do_work(Nanos(2_000_000));
    partition.do_work(Nanos(2_000_000));
    assert_eq!(partition.pending.len(), UNCOMMITTED_MAX + 1, "with the tick");
}

/// Commands that depend on the phase are refused until these ticks have come.
#[test]
fn ticks_make_the_filed_changes_of_an_instrument_without_any_other_command() {
    let (mut port, source) = gateway_to_partition(HERE, Wake::new());
    let (writer, _handle) = tail(TailConfig::new(1 << 20, 1));
    let log = ScriptedLog(Arc::new(Mutex::new(State::new())));
    let config = EngineConfig { tick_changes_max: 1, ..EngineConfig::new(HERE) };
    let parts = PartitionParts { engine: Engine::new(config), ..parts_over(log, writer, source) };
    let mut partition = Partition::new(parts);
    let mut definitions = reference_data();
    let Definition::DefineSession(trader) = definitions[2] else { panic!("a session") };
    let (firm_id, role, defined_session_id) = (FirmId::NONE, Role::Operator, SessionId(9));
    let operator = DefineSession { firm_id, role, defined_session_id, ..trader };
    definitions.push(Definition::DefineSession(operator));
    for (at, definition) in (1..).zip(definitions) {
        let import = Command::Import(Position(at), definition);
        port.submissions.push(Submission::internal(import)).unwrap();
    }
    for number in 1..=41 {
        let phase = if number % 2 == 1 { Phase::Halted } else { Phase::Continuous };
        let change = SchedulePhase {
            request_no: RequestNo(number),
            at: Nanos(1_000_000 + number),
            session_id: defined_session_id,
            instrument_id: IT,
            phase,
        };
        let command = Command::Request(Request::SchedulePhase(change));
        port.submissions.push(Submission::internal(command)).unwrap();
    }
    partition.do_work(Nanos(1));
    let (mut now, mut cycles) = (Nanos(2_000_000), 0);
    port.submissions.push(bid(1, 1)).unwrap();
    while let Some(at) = partition.next_deadline(now) {
        now = now.max(at);
        partition.do_work(now);
        cycles += 1;
        assert!(cycles < 60, "ticks make them all");
    }
    assert!(now.0 < 2_000_000 + 41 * TickPace::INTERVAL, "at the pace of ticks: {now}");
    let phase = partition.engine.instruments().next().map(|of| of.phase);
    assert_eq!((phase, partition.engine.live_order_count()), (Some(Phase::Halted), 0));
}

/// A tick leaves orders whose time has come, and a command of their instrument finds them gone.
#[test]
fn a_timer_behind_work_that_a_command_has_finished_takes_one_tick() {
    let log = ScriptedLog(Arc::new(Mutex::new(State::new())));
    let (mut port, source) = gateway_to_partition(HERE, Wake::new());
    let (writer, _handle) = tail(TailConfig::new(1 << 20, 1));
    let config = EngineConfig { tick_changes_max: 3, ..EngineConfig::new(HERE) };
    let engine = Engine::new(config);
    let parts = PartitionParts { engine, ..parts_over(log, writer, source) };
    let mut partition = Partition::new(parts);
    for (at, definition) in (1..).zip(reference_data()) {
        let import = Command::Import(Position(at), definition);
        port.submissions.push(Submission::internal(import)).unwrap();
    }
    for (number, end) in (1..).zip([1_000_000; 5].into_iter().chain([90_000_000])) {
        let mut dated = bid(1, number);
        if let Command::Request(Request::NewOrder(order)) = &mut dated.command {
            (order.time_in_force, order.expire_time) = (TimeInForce::Gtd, Nanos(end));
        }
        port.submissions.push(dated).unwrap();
    }
    partition.do_work(Nanos(1));
    assert_eq!(partition.engine.live_order_count(), 6);
    partition.do_work(Nanos(2_000_000));
    assert_eq!(partition.engine.live_order_count(), 3, "a tick ends three");
    port.submissions.push(bid(2, 1)).unwrap();
    partition.do_work(Nanos(2_000_001));
    assert_eq!(partition.engine.live_order_count(), 2, "the new order, and the one of later");
    let position = partition.engine.position();
    partition.do_work(Nanos(100_000_000));
    assert_eq!(partition.engine.live_order_count(), 1);
    assert_eq!(partition.engine.position(), position.next(), "no ticks without anything due");
}

#[test]
fn commands_that_the_shadow_gave_up_are_given_up_by_the_log_once() {
    let state = State { committed: Position::NONE, ..State::new() };
    let log = ScriptedLog(Arc::new(Mutex::new(state)));
    let (_port, source) = gateway_to_partition(HERE, Wake::new());
    let (writer, _handle) = tail(TailConfig::new(1 << 20, 1));
    let figures: Arc<PartitionFigures> = Arc::default();
    let mut partition = Partition::new(PartitionParts {
        figures: figures.clone(),
        ..parts_over(log.clone(), writer, source)
    });
    for (now, before) in [(1, 0), (2, 1), (3, 40), (4, 40), (5, 30), (6, 41)] {
        figures.counters.commands_from.store(before, Ordering::Relaxed);
        partition.do_work(Nanos(now));
    }
    assert_eq!(log.state().truncated, [1, 40, 41]);
}

#[test]
fn a_cycle_applies_a_bounded_number_of_events_and_the_next_goes_on() {
    let state = State { committed: Position::NONE, ..State::new() };
    let log = ScriptedLog(Arc::new(Mutex::new(state)));
    let (mut port, source) = gateway_to_partition(HERE, Wake::new());
    let (writer, _handle) = tail(TailConfig::new(64 << 20, 1));
    let mut partition = Partition::new(parts_over(log.clone(), writer, source));
    // The disk stalls, and more commands wait than a cycle may apply; each has one event.
    let count = EVENTS_MAX as u32 + 1_000;
    let mut sent = 0;
    while partition.pending.len() < count as usize {
        while sent < count && port.submissions.push(import(sent + 1)).is_ok() {
            sent += 1;
        }
        partition.do_work(Nanos(1));
    }
    assert_eq!(partition.engine.position(), Position::NONE);
    log.state().committed = Position(u64::MAX);
    for applied in [EVENTS_MAX, u64::from(count), u64::from(count)] {
        partition.do_work(Nanos(2));
        assert_eq!(partition.engine.position(), Position(applied));
    }
}

/// Returns an operator's request that moves 10 into account 2.
fn deposit(number: u64) -> Submission {
    Submission::internal(Command::Request(Request::Transfer(Transfer {
        request_no: RequestNo(number),
        transfer_id: number,
        cash: Cash(10),
        position_qty: 0,
        session_id: SessionId(9),
        account_id: AccountId(2),
        instrument_id: InstrumentId::NONE,
        partition_id: HERE,
        peer_partition_id: PartitionId::NONE,
    })))
}

fn forced_bust(number: u64, match_id: u64) -> Submission {
    Submission::internal(Command::Request(Request::BustTrade(BustTrade {
        request_no: RequestNo(number),
        match_id: MatchId(match_id),
        session_id: SessionId(9),
        partition_id: HERE,
        force: Switch::On,
    })))
}

/// Returns the reference data with a limited account 2 and an operator's session 9.
fn with_operator() -> Vec<Definition> {
    let mut data = reference_data();
    for definition in reference_data() {
        match definition {
            Definition::DefineAccount(d) => {
                let (account_id, unlimited) = (AccountId(2), Switch::Off);
                data.push(Definition::DefineAccount(DefineAccount { account_id, unlimited, ..d }));
            }
            Definition::DefineSession(d) if d.defined_session_id == SessionId(1) => {
                let (defined_session_id, firm_id) = (SessionId(9), FirmId::NONE);
                let role = Role::Operator;
                let d = DefineSession { defined_session_id, firm_id, role, ..d };
                data.push(Definition::DefineSession(d));
            }
            _ => {}
        }
    }
    data
}

/// The figures of trades and debts were computed ahead of each publication: a search of all trades,
/// a lock and up to 32 debts, for which every answer waited.
#[test]
fn figures_of_trades_follow_in_an_interval_and_a_debt_at_once() {
    let (mut port, source) = gateway_to_partition(HERE, Wake::new());
    let (writer, _handle) = tail(TailConfig::new(1 << 20, 1));
    let log = ScriptedLog(Arc::new(Mutex::new(State::new())));
    let mut partition = Partition::new(parts_over(log, writer, source));
    let figures = partition.figures.clone();
    let told = || {
        let counters = &figures.counters;
        let of = |gauge: &AtomicU64| gauge.load(Ordering::Relaxed);
        (of(&counters.retained_trades), of(&counters.accounts_in_debt), figures.debts().len())
    };
    for (at, definition) in (1..).zip(with_operator()) {
        let import = Command::Import(Position(at), definition);
        port.submissions.push(Submission::internal(import)).unwrap();
    }
    port.submissions.push(deposit(1)).unwrap();
    partition.do_work(Nanos(1));
    // Account 2 buys a lot and sells it.
    let (one, two) = (AccountId(1), AccountId(2));
    for submission in [
        order(1, 1, Side::Buy, two),
        order(2, 1, Side::Sell, one),
        order(1, 2, Side::Sell, two),
        order(2, 2, Side::Buy, one),
    ] {
        port.submissions.push(submission).unwrap();
    }
    partition.do_work(Nanos(2));
    assert_eq!((partition.engine.retained_trades().count, told()), (2, (0, 0, 0)));
    let due = Nanos(1 + TRADES_INTERVAL);
    assert_eq!(partition.next_deadline(Nanos(2)), Some(due));
    partition.do_work(due);
    assert_eq!(told(), (2, 0, 0));
    assert_eq!(partition.next_deadline(due), None);

    port.submissions.push(forced_bust(2, 1)).unwrap();
    partition.do_work(Nanos(due.0 + 1));
    assert_eq!(told(), (2, 1, 1), "it owes the lot");
    assert_eq!(partition.next_deadline(Nanos(due.0 + 1)), None, "all is told");
}
