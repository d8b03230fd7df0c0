//! The loop: lives of a process, each ended by a crash, then one without faults that must finish.
//!
//! ```text
//! recover ─► judge ─► step, step, step ... ─► crash within a step ─► recover ─► judge ...
//!                                             the step's operations on the disks are cut at a
//!                                             drawn one; no output of the step is published
//! ```

use weir_engine::SessionState;
use weir_io::disk::sim::{CrashChoice, TraceOp};
use weir_io::{DiskAction, DiskErrorKind, Rng, SeededRng, SimDisk, SimFaults};
use weir_log::{EpochCursor, SequencedLog};
use weir_partition::handoff::SUBMISSIONS_MAX;
use weir_partition::recovery::Rebuilt;
use weir_partition::shadow::ShadowError;
use weir_types::{Durability, Epochs, Nanos, Position, RequestNo, SessionId, Switch};
use weir_wire::reference::{ChangePhases, SchedulePhases};
use weir_wire::{Definition, Event, Message, PlainEvent};

use crate::clocks::Clocks;
use crate::crowd::Crowd;
use crate::day::{DayWatch, Sample, StartSample};
use crate::disk::{Gates, ProcessDisk};
use crate::fullness::FullnessWatch;
use crate::gate::node::Start;
use crate::gate::{Gate, GateTally};
use crate::oracle::{Oracle, RecoveryResult, Violation, ensure};
use crate::plan::{DiskFault, Ending, FailingDisk, LifePlan, Plan};
use crate::plant::Plant;
use crate::process::{Disks, Process, Surroundings, recover};
use crate::view::{Reader, View};
use crate::weather::{Conditions, SpellCounts, Weather};
use crate::workload::BEGINNING;

/// The number of steps within which the last life must answer everything.
const LIVENESS_STEPS: u64 = 20_000;

/// The recoveries of a day after which the follower of order state is another one.
const READER_RECOVERIES: u64 = 4;

/// The entries of the log that may wait for a disk that stalls for long: clients fill the rest.
const SHORT_QUEUE: u64 = 4;

/// The figures of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Commands in the log at the end.
    pub commands: u64,
    /// Events published by the end.
    pub events: u64,
    /// Cycles run.
    pub steps: u64,
    /// Processes that were killed or lost their machine.
    pub crashes: u64,
    /// Of these, crashes during recovery.
    pub recovery_crashes: u64,
    /// Processes that ended themselves because a disk failed.
    pub self_stops: u64,
    /// Recoveries checked.
    pub recoveries: u64,
    /// Recoveries with lost acknowledged commands, within the durability level.
    pub lost_tails: u64,
    /// Snapshots taken.
    pub snapshots: u64,
    /// Requests refused because the log was full.
    pub refused: u64,
    /// Tokens refused.
    pub resyncs: u64,
    /// Injected call failures that occurred.
    pub failed_calls: u64,
    /// Steps of the wall clock.
    pub clock_steps: u64,
    /// Truncations of the command log.
    pub truncations: u64,
    /// Changes of many instruments that changed one at least.
    pub changes_of_many: u64,
    /// Requests about filed changes of many instruments that were carried out.
    pub schedules_of_many: u64,
    /// Spells in which the machine withheld something.
    pub spells: SpellCounts,
    /// The figures of the gateway's part, in runs with one.
    pub gate: GateTally,
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its figures.
    pub tally: Tally,
    /// A hash of all events and draws.
    pub trace_hash: u64,
    /// The rule that was broken, if one was.
    pub violation: Option<Violation>,
}

/// The end of a life.
enum LifeEnd {
    /// A crash, or a process that ended itself; with the disks that the next life finds.
    Crashed(Disks),
    /// A requested stop.
    Stopped,
}

/// The beginnings of both logs at a recovery, and the last requests of the sessions then.
struct Past {
    first_command: Position,
    first_event: u64,
    last_requests: Vec<(SessionId, RequestNo)>,
}

struct World {
    plan: Plan,
    plant: Option<Plant>,
    rng: SeededRng,
    clocks: Clocks,
    disks: Disks,
    crowd: Crowd,
    oracle: Oracle,
    reader: Reader,
    view: Option<View>,
    tally: Tally,
    hash: u64,
    may_lose: bool,
    weather: Weather,
    weather_rng: SeededRng,
    fullness: FullnessWatch,
    /// The retained parts of the recovery before, and the samples, in a run that lasts for hours.
    past: Option<Past>,
    day: Option<Box<DayWatch>>,
    /// The gateway and its clients, in runs with them.
    gate: Option<Box<Gate>>,
}

/// Runs `seed`, with a planted bug if there is one.
#[must_use]
pub fn run(seed: u64, plant: Option<Plant>) -> Outcome {
    run_plan(Plan::draw(seed), seed, plant)
}

/// Runs `seed` with a gateway between the clients and the partition.
#[must_use]
pub fn run_gate(seed: u64, plant: Option<Plant>) -> Outcome {
    let mut plan = Plan::draw(seed);
    let mut rng = SeededRng::new(seed, "steps of the wall clock in front of a gateway");
    plan.clock_steps_per_mille = [0, 2, 10, 30][rng.below(4) as usize];
    // Shorter steps than these would let no heartbeat pass within a run.
    plan.step_ns_max = plan.step_ns_max.max(1_000_000);
    plan.shorten_events(seed);
    plan.lose_often(seed);
    run_gate_plan(plan, seed, plant)
}

/// Runs a plan with a gateway between the clients and the partition; everything else is drawn from
/// `seed`.
#[must_use]
pub fn run_gate_plan(plan: Plan, seed: u64, plant: Option<Plant>) -> Outcome {
    let world = World::new(plan, seed, plant);
    World { gate: Some(Box::new(Gate::new(seed))), crowd: Crowd::beside(seed), ..world }.outcome()
}

/// Runs the day of a plan with a gateway; returns the samples too.
#[must_use]
pub fn run_day_plan(plan: Plan, seed: u64, plant: Option<Plant>) -> (Outcome, DayWatch) {
    let mut world = World::new(plan, seed, plant);
    world.gate = Some(Box::new(Gate::of_a_day(seed)));
    world.crowd = Crowd::beside(seed);
    world.day = world.plan.day.map(|day| Box::new(DayWatch::new(day, Nanos(BEGINNING))));
    let violation = world.live().err();
    let watch = world.day.take().expect("it is the plan of a day");
    (world.told(violation), *watch)
}

/// Runs a plan; everything else is drawn from `seed`.
#[must_use]
pub fn run_plan(plan: Plan, seed: u64, plant: Option<Plant>) -> Outcome {
    World::new(plan, seed, plant).outcome()
}

impl World {
    fn new(plan: Plan, seed: u64, plant: Option<Plant>) -> World {
        World {
            plan,
            plant,
            rng: SeededRng::new(seed, "faults"),
            clocks: Clocks::new(seed, Nanos(BEGINNING)),
            disks: Disks::new(seed),
            crowd: Crowd::new(seed, plant),
            oracle: Oracle::default(),
            reader: Reader::default(),
            view: None,
            tally: Tally::default(),
            hash: 0xcbf2_9ce4_8422_2325,
            may_lose: false,
            weather: Weather::default(),
            weather_rng: SeededRng::new(seed, "weather"),
            fullness: FullnessWatch::default(),
            past: None,
            day: None,
            gate: None,
        }
    }

    fn outcome(mut self) -> Outcome {
        let violation = self.live().err();
        self.told(violation)
    }

    fn told(mut self, violation: Option<Violation>) -> Outcome {
        self.tally.commands = self.oracle.command_count();
        self.tally.events = self.oracle.seen().len() as u64;
        self.tally.refused = self.crowd.refused;
        self.tally.resyncs = self.reader.resyncs;
        self.tally.clock_steps = self.clocks.step_count;
        if let Some(gate) = &self.gate {
            self.tally.gate = gate.tally();
        }
        Outcome { tally: self.tally, trace_hash: self.hash, violation }
    }

    fn live(&mut self) -> Result<(), Violation> {
        for life in self.plan.lives.clone() {
            let Some(life) = self.day.as_ref().map_or(Some(life), |day| {
                day.trim(life, self.clocks.time(), self.plan.step_ns_max)
            }) else {
                break;
            };
            let mut process = self.begin(&life)?;
            match self.run_life(&mut process, &life)? {
                LifeEnd::Crashed(disks) => self.disks = disks,
                LifeEnd::Stopped => {
                    drop(process);
                    self.may_lose = false;
                    self.disks = self.disks.map(SimDisk::after_process_crash);
                    self.note_end(Ending::CleanStop, false);
                }
            }
        }
        let calm = LifePlan::calm();
        let mut process = self.begin(&calm)?;
        self.finish(&mut process, &calm)?;
        drop(process);
        self.may_lose = false;
        self.disks = self.disks.map(|disk| disk.after_power_loss(CrashChoice::LoseAll));
        self.begin(&calm).map(|_| ())
    }

    /// Recovers, checks the recovery, and starts a process.
    fn begin(&mut self, life: &LifePlan) -> Result<Process, Violation> {
        if life.recovery_crashes {
            self.crash_a_recovery()?;
        }
        let gates = Gates::default();
        let rebuilt = recover(&self.disks, &self.plan, &gates, self.plant)
            .map_err(|error| Violation::new("recovery fails", format!("{error:#}")))?;
        self.tally.recoveries += 1;
        self.fold(rebuilt.engine.digest());
        let first = rebuilt.events.first_record();
        let found = RecoveryResult {
            engine: &rebuilt.engine,
            event_count: rebuilt.event_count,
            log: self.disks.read_log(Position::NONE).map_err(unreadable)?,
            events: (first.0, self.disks.read_events(first).map_err(unreadable)?),
            epoch: rebuilt.log.epoch(),
            ended: rebuilt.log.ended_epochs(),
            may_lose: self.may_lose,
            is_truncated: !self.plan.limits.is_unlimited(),
        };
        let has_lost = self.oracle.judge(&found, &self.crowd)?;
        self.tally.lost_tails += u64::from(has_lost);
        self.crowd.disconnect();
        if has_lost {
            self.crowd.forget(self.oracle.seen());
            if let Some(gate) = &mut self.gate {
                gate.forget(self.oracle.seen());
            }
        }
        self.crowd.resume_feed(rebuilt.engine.control_position());
        self.catch_up(&found)?;
        self.forget_past(&found);
        self.note_start(&rebuilt);
        if self.plant == Some(Plant::RequestRepeatedByRecovery)
            && let Some(request) = self.oracle.last_request()
        {
            self.crowd.repeat(request.session_id(), request.request_no());
        }
        self.start(rebuilt, gates, life)
    }

    fn start(
        &mut self,
        rebuilt: Rebuilt<ProcessDisk>,
        gates: Gates,
        life: &LifePlan,
    ) -> Result<Process, Violation> {
        self.begin_weather(life);
        let numbers =
            |(id, state): (_, SessionState)| (id, state.next_event_no, state.last_request_no);
        let sessions = rebuilt.engine.sessions().map(numbers).collect();
        let firms = rebuilt.engine.session_firms().collect();
        let absent = rebuilt.engine.cancel_on_disconnect().to_vec();
        let first_record = rebuilt.events.first_record().0;
        let (epoch, ended) = (rebuilt.log.epoch(), rebuilt.log.ended_epochs().to_vec());
        let (now, wall) = (self.clocks.time(), self.clocks.wall());
        let is_calm = life.steps == u64::MAX;
        let forecast = self.weather.forecast();
        let (mut views, mut ring_len) = (Vec::new(), SUBMISSIONS_MAX);
        if let Some(gate) = &mut self.gate {
            views = gate.begin_life(is_calm, self.plan.step_ns_max, forecast);
            ring_len = gate.ring_len();
        }
        if self.plant == Some(Plant::GatewayNotWoken) {
            views.clear();
        }
        let plant = self.plant;
        let log_queue_len_max = match forecast.holds_requests_up {
            true => SHORT_QUEUE,
            false => self.plan.log_queue_len_max,
        };
        let surroundings = Surroundings { gates, plant, views, ring_len, log_queue_len_max };
        let started = Process::start(rebuilt, &self.disks, &self.plan, surroundings);
        let mut process = started
            .map_err(|error| Violation::new("the process does not start", format!("{error:#}")))?;
        if let Some(gate) = &mut self.gate {
            let ended = &ended;
            let start = Start { sessions, absent, firms, first_record, epoch, ended, now, wall };
            let events = gate.start(&mut process, &self.disks, start)?;
            if let Some(day) = &mut self.day {
                day.note_start_of_gateway(events);
            }
        }
        Ok(process)
    }

    /// Feeds the recovered log's events to the clients and to a new order store.
    fn catch_up(&mut self, found: &RecoveryResult<'_>) -> Result<(), Violation> {
        for (record, bytes) in self.oracle.unseen() {
            let event = self.oracle.see(record, &bytes)?;
            self.hear(record, &event, &bytes);
        }
        let nonce = self.tally.recoveries;
        let ended = found.ended.iter().map(|end| (end.epoch, end.last_valid));
        let epochs = Epochs::with_ended(found.epoch, ended);
        let epochs = EpochCursor::new(epochs, found.event_count + 1);
        let first = self.oracle.seen().begin() as u64 + 1;
        let mut view = View::new(epochs, first, nonce, self.plant);
        for bytes in self.oracle.seen().kept() {
            let event = Event::decode(bytes).expect("it was decoded when it was seen");
            view.ingest(&event)?;
        }
        view.caught_up()?;
        self.reader.connect();
        self.reader.follow(&mut view, self.clocks.time())?;
        self.reader.check(&view.check()?, self.oracle.last_forgotten())?;
        if self.day.is_some() && nonce.is_multiple_of(READER_RECOVERIES) {
            // It remembers every order that it ever heard of.
            self.reader.begin_anew();
            self.reader.connect();
        }
        self.view = Some(view);
        Ok(())
    }

    /// Forgets all that was past the retention at the recovery before this one, in a run that
    /// lasts for hours.
    fn forget_past(&mut self, found: &RecoveryResult<'_>) {
        if self.day.is_none() {
            return;
        }
        let last_request = |(id, state): (_, SessionState)| (id, state.last_request_no);
        let past = self.past.replace(Past {
            first_command: found.log.0,
            first_event: found.events.0,
            last_requests: found.engine.sessions().map(last_request).collect(),
        });
        let Some(past) = past else { return };
        let record =
            self.gate.as_ref().map_or(past.first_event, |g| g.needs_from(past.first_event));
        let events = self.oracle.forget_before(past.first_command, record);
        if let Some(gate) = &mut self.gate {
            gate.forget_before(record, &events);
        }
        for (session_id, request_no) in past.last_requests {
            self.crowd.forget_upto(session_id, request_no);
        }
    }

    /// Notes the work of a start.
    fn note_start(&mut self, rebuilt: &Rebuilt<ProcessDisk>) {
        let Some(day) = &mut self.day else { return };
        let mut state = Vec::new();
        rebuilt.engine.snapshot(&mut state);
        day.note_start(StartSample {
            at: self.clocks.time(),
            commands: rebuilt.engine.position().0 - rebuilt.snapshot.0,
            events: 0,
            state_bytes: state.len() as u64,
        });
    }

    /// Notes the end of a process.
    fn note_end(&mut self, ending: Ending, is_own: bool) {
        if let Some(day) = &mut self.day {
            day.note_end(ending, is_own);
        }
    }

    /// Takes a sample of all that must not grow, when one is due.
    fn sample(&mut self) {
        let (Some(day), Some(gate)) = (&mut self.day, &self.gate) else { return };
        let at = self.clocks.time();
        if day.is_due(at) {
            let disks = self.disks.usage();
            day.note(Sample { at, disks, stream_count: gate.stream_count() });
            self.disks.forget_removed();
        }
    }

    /// Starts a recovery and crashes it at a drawn operation.
    fn crash_a_recovery(&mut self) -> Result<(), Violation> {
        let before = self.disks.begin_recording();
        let recovered = recover(&self.disks, &self.plan, &Gates::default(), self.plant);
        let rebuilt =
            recovered.map_err(|error| Violation::new("recovery fails", format!("{error:#}")))?;
        drop(rebuilt);
        let done = self.disks.take_recording(true);
        let ending = if self.rng.chance(1, 2) { Ending::PowerLoss } else { Ending::Kill };
        self.tally.recovery_crashes += 1;
        self.disks = self.crash(&before, &done, ending);
        Ok(())
    }

    /// Returns the disks after a crash at a drawn one of the operations in `done`.
    fn crash(&mut self, before: &Disks, done: &[(usize, TraceOp)], ending: Ending) -> Disks {
        let kept = self.rng.below(done.len() as u64 + 1);
        for (disk, op) in &done[..usize::try_from(kept).expect("an index")] {
            before.apply(*disk, op);
        }
        self.tally.crashes += 1;
        self.fold(kept);
        let powerless = ending == Ending::PowerLoss;
        self.may_lose |= match self.plan.durability {
            Durability::Disk => false,
            Durability::Os => powerless,
            Durability::Memory => true,
        };
        if !powerless {
            return before.map(SimDisk::after_process_crash);
        }
        let whole = self.rng.below(6);
        before.map(|disk| {
            let choices = disk.crash_choices();
            let choice = match whole {
                0 => CrashChoice::LoseAll,
                1 => CrashChoice::KeepAll,
                2 | 3 => {
                    choices
                        [usize::try_from(self.rng.below(choices.len() as u64)).expect("an index")]
                }
                _ => CrashChoice::Random(self.rng.next_u64()),
            };
            disk.after_power_loss(choice)
        })
    }

    fn run_life(&mut self, process: &mut Process, life: &LifePlan) -> Result<LifeEnd, Violation> {
        self.may_lose = false;
        self.set_faults(life, true);
        let mut full_for = 0;
        for step in 0..life.steps {
            let is_last = step + 1 == life.steps && life.ending != Ending::CleanStop;
            let before = is_last.then(|| self.disks.begin_recording());
            self.act(process, true)?;
            self.cycle(process, life)?;
            if let Some(before) = before {
                self.note_failed_call(life);
                let done = self.disks.take_recording(false);
                if let Some(gate) = &mut self.gate {
                    gate.crash(life.ending);
                }
                self.note_end(life.ending, false);
                return Ok(LifeEnd::Crashed(self.crash(&before, &done, life.ending)));
            }
            if let Some(end) = self.look_at_disks(process, life)? {
                self.note_failed_call(life);
                return Ok(end);
            }
            self.observe(process)?;
            full_for += u64::from(self.is_full_now(life));
            let (DiskFault::Full(_, span) | DiskFault::EventsFull(_, span)) = life.fault else {
                continue;
            };
            if full_for == span {
                self.set_faults(life, false);
            }
        }
        self.note_failed_call(life);
        self.set_faults(&LifePlan::calm(), false);
        self.set_conditions(process, Conditions::FAIR);
        self.stop(process)
    }

    /// Draws the spells of a life that begins.
    fn begin_weather(&mut self, life: &LifePlan) {
        self.weather = match self.plan.has_weather {
            true => Weather::draw(&mut self.weather_rng, life.steps),
            false => Weather::default(),
        };
        let fills = matches!(life.fault, DiskFault::Full(..) | DiskFault::CallFails(..));
        self.fullness = FullnessWatch::new(fills);
    }

    /// Begins and ends spells.
    fn change_weather(&mut self, process: &mut Process) {
        let before = self.weather.conditions();
        self.weather.step(self.clocks.time(), &mut self.tally.spells);
        let conditions = self.weather.conditions();
        if conditions != before {
            self.set_conditions(process, conditions);
        }
    }

    fn set_conditions(&mut self, process: &mut Process, conditions: Conditions) {
        self.disks.set_conditions(conditions);
        process.set_conditions(conditions);
        if let Some(gate) = &mut self.gate {
            gate.set_conditions(&conditions);
        }
    }

    fn note_failed_call(&mut self, life: &LifePlan) {
        if let DiskFault::CallFails(which, ..) = life.fault {
            self.tally.failed_calls += u64::from(self.disks.of(which).failed_call().is_some());
        }
    }

    /// Handles the shadow's failure to read the command log: the shadow tries again, and the node
    /// trades on.
    fn bear(&self, process: &mut Process, error: ShadowError) -> Result<(), Violation> {
        let is_asked_for = self.disks.commands.failed_call().is_some()
            || self.weather.conditions() != Conditions::FAIR;
        match error {
            ShadowError::Retention(_) if is_asked_for => Ok(()),
            ShadowError::Commands(_) | ShadowError::Directory(_) if is_asked_for => {
                process.reopen_shadow();
                Ok(())
            }
            error => Err(shadow_fails(error)),
        }
    }

    /// Handles a process that ended itself.
    fn stopped_itself(&mut self, ending: Ending) -> LifeEnd {
        self.tally.self_stops += 1;
        self.note_end(ending, true);
        if let Some(gate) = &mut self.gate {
            gate.crash(ending);
        }
        let disks = self.disks.clone();
        let ending = if ending == Ending::PowerLoss { ending } else { Ending::Kill };
        LifeEnd::Crashed(self.crash(&disks, &[], ending))
    }

    /// Lets the clients and the control importer act; with new requests if `asks`.
    fn act(&mut self, process: &mut Process, asks: bool) -> Result<(), Violation> {
        let now = self.clocks.time();
        if let (Some(gate), true) = (&mut self.gate, self.day.is_some()) {
            gate.set_since_beginning(process.log_time().since(Nanos(BEGINNING)));
        }
        match &mut self.gate {
            Some(gate) => gate.act(&mut self.crowd, &self.plan, now, asks)?,
            None if asks => self.crowd.act(&mut process.port, &self.plan),
            None => self.crowd.send_due(&mut process.port),
        }
        if let Some(index) = self.crowd.next_to_feed() {
            if let Some(gate) = &mut self.gate {
                let wall = self.clocks.wall().wall_at(now);
                gate.define(index, &self.crowd.definitions()[index].1, wall);
            }
            self.crowd.feed(&mut process.feed);
        }
        Ok(())
    }

    /// Returns true when nothing is outstanding.
    fn is_quiet(&mut self) -> Result<bool, Violation> {
        let is_answered = match &mut self.gate {
            Some(gate) => self.crowd.has_fed() && gate.is_done()?,
            None => self.crowd.unanswered() == 0,
        };
        Ok(is_answered && self.crowd.has_fed())
    }

    /// Counts an answer about many instruments.
    fn count(&mut self, event: &Event) {
        let Event::Plain(PlainEvent::RequestDone(done)) = event else { return };
        let is_of = |template_id: u16| done.ref_template_id == template_id;
        let is_change = is_of(ChangePhases::TEMPLATE_ID) && done.changed_count > 0;
        self.tally.changes_of_many += u64::from(is_change);
        self.tally.schedules_of_many += u64::from(is_of(SchedulePhases::TEMPLATE_ID));
    }

    /// Delivers an event to the clients.
    fn hear(&mut self, record: u64, event: &Event, bytes: &[u8]) {
        match &mut self.gate {
            Some(gate) => gate.note(record, event, bytes),
            None => self.crowd.hear(event),
        }
    }

    /// Advances the clock and runs one cycle of everything in the process.
    fn cycle(&mut self, process: &mut Process, life: &LifePlan) -> Result<(), Violation> {
        self.tally.steps += 1;
        let step_ns_max = self.weather.step_ns_max(self.plan.step_ns_max);
        self.clocks.advance(Nanos(1 + self.rng.below(step_ns_max)));
        self.clocks.step(self.plan.clock_steps_per_mille, self.plan.rarity());
        let (now, wall) = (self.clocks.time(), self.clocks.wall());
        self.change_weather(process);
        if let Some(gate) = &mut self.gate {
            gate.wall_clock_moved(wall);
        }
        process.stall(&mut self.rng, life.stall_per_mille);
        process.work(now, wall);
        if let Some(fault) = process.log_time_fault() {
            return Err(Violation::new("log time breaks its rules", fault));
        }
        self.fullness.judge(process.fullness(), &self.weather, now)?;
        if self.rng.chance(1, 2) {
            process.keep_events(now).or_else(|error| self.bear(process, error))?;
        }
        if self.rng.chance(life.snapshot_per_mille, 1000) {
            let taken = match process.snapshot(now) {
                Ok(taken) => taken,
                Err(error) => self.bear(process, error).map(|()| false)?,
            };
            self.tally.snapshots += u64::from(taken);
        }
        if !self.plan.limits.is_unlimited() && self.rng.chance(1, 40 * self.plan.rarity()) {
            self.retain(process)?;
        }
        Ok(())
    }

    /// Truncates both logs; the oracle reads before what may go.
    fn retain(&mut self, process: &mut Process) -> Result<(), Violation> {
        let unread = self.disks.read_log(self.oracle.next_unread()).map_err(unreadable)?;
        self.oracle.keep(unread.1);
        let truncates = match process.retain(&self.plan.limits, self.clocks.time()) {
            Ok(truncates) => truncates,
            Err(error) => self.bear(process, error).map(|()| false)?,
        };
        if let Some(gate) = &mut self.gate {
            gate.told.retained_from = gate.told.retained_from.max(process.retained_from());
            gate.note_held(process.held_by());
        }
        self.tally.truncations += u64::from(truncates);
        Ok(())
    }

    /// Delivers published events to the clients, the oracle and the store.
    fn observe(&mut self, process: &mut Process) -> Result<(), Violation> {
        self.crowd.take_feedback(&mut process.port);
        let mut bytes = Vec::new();
        while let Some(record) = process.next_event(&mut bytes) {
            if self.plant == Some(Plant::EventUnpublished) && self.rng.chance(1, 200) {
                continue;
            }
            let event = self.oracle.see(record, &bytes)?;
            self.fold_bytes(&bytes);
            self.count(&event);
            self.hear(record, &event, &bytes);
            if let Some(view) = &mut self.view {
                view.ingest(&event)?;
            }
        }
        let now = self.clocks.time();
        if let Some(gate) = &mut self.gate {
            gate.tell(now)?;
        }
        if self.rng.chance(1, 8)
            && let Some(view) = &mut self.view
        {
            self.reader.follow(view, now)?;
        }
        self.sample();
        Ok(())
    }

    /// Checks that a process whose log failed ended itself; if it did, returns the end of this
    /// life.
    fn look_at_disks(
        &mut self,
        process: &Process,
        life: &LifePlan,
    ) -> Result<Option<LifeEnd>, Violation> {
        if let Some(why) = process.why_stopped() {
            let may_stop = match life.fault {
                DiskFault::SyncFails(_) | DiskFault::WriteFails(_) => true,
                DiskFault::CallFails(..) => true,
                DiskFault::None | DiskFault::Full(..) | DiskFault::EventsFull(..) => false,
            };
            ensure(may_stop, "the process ends because of a spell", || why)?;
            return Ok(Some(self.stopped_itself(life.ending)));
        }
        let counts = self.disks.commands.counts();
        let has_failed = match life.fault {
            DiskFault::SyncFails(at) => counts.syncs > at,
            DiskFault::WriteFails(at) => counts.writes > at,
            DiskFault::CallFails(FailingDisk::Commands, _, DiskErrorKind::Io) => {
                let failed = self.disks.commands.failed_call();
                matches!(failed, Some((DiskAction::Write | DiskAction::Sync, _)))
            }
            _ => false,
        };
        if has_failed {
            return Err(Violation::new(
                "the node goes on after its disk failed",
                format!("{life:?}"),
            ));
        }
        Ok(None)
    }

    fn set_faults(&mut self, life: &LifePlan, with_fault: bool) {
        let common = SimFaults {
            short_writes_per_mille: life.short_writes_per_mille,
            ..SimFaults::default()
        };
        let (mut commands, mut events) = (common.clone(), common);
        if with_fault {
            match life.fault {
                DiskFault::None => {}
                DiskFault::SyncFails(at) => commands.sync_fails_at = Some(at),
                DiskFault::WriteFails(at) => commands.write_fails_at = Some(at),
                DiskFault::Full(at, _) => commands.full_from = Some(at),
                DiskFault::EventsFull(at, _) => events.full_from = Some(at),
                DiskFault::CallFails(which, at, kind) => {
                    let fails = Some((at, kind));
                    match which {
                        FailingDisk::Commands => commands.call_fails_at = fails,
                        FailingDisk::Events => events.call_fails_at = fails,
                        FailingDisk::Snapshots => {
                            let faults = SimFaults { call_fails_at: fails, ..SimFaults::default() };
                            self.disks.snapshots.set_faults(faults);
                        }
                    }
                }
            }
        }
        self.disks.commands.set_faults(commands);
        self.disks.events.set_faults(events);
    }

    fn is_full_now(&self, life: &LifePlan) -> bool {
        match life.fault {
            DiskFault::Full(at, _) => self.disks.commands.counts().writes > at,
            DiskFault::EventsFull(at, _) => self.disks.events.counts().writes > at,
            _ => false,
        }
    }

    fn stop(&mut self, process: &mut Process) -> Result<LifeEnd, Violation> {
        for _ in 0..LIVENESS_STEPS {
            self.clocks.advance(Nanos(1_000_000));
            let (now, wall) = (self.clocks.time(), self.clocks.wall());
            let has_stopped = process.stop(now, wall).map_err(shadow_fails)?;
            if process.why_stopped().is_some() {
                // The disk was full a moment ago, and the event log does not retry at once.
                return Ok(self.stopped_itself(Ending::Kill));
            }
            self.observe(process)?;
            let has_said = match &mut self.gate {
                Some(gate) if has_stopped => gate.stop(&mut self.crowd, &self.plan, now)?,
                Some(_) => false,
                None => has_stopped,
            };
            if has_said {
                return Ok(LifeEnd::Stopped);
            }
        }
        Err(Violation::new("a stop does not end", format!("{LIVENESS_STEPS} steps")))
    }

    /// Runs the last life: no faults, no new requests; everything outstanding must be answered.
    fn finish(&mut self, process: &mut Process, calm: &LifePlan) -> Result<(), Violation> {
        self.may_lose = false;
        self.set_faults(calm, false);
        for _ in 0..LIVENESS_STEPS {
            self.act(process, !self.weather.is_over())?;
            self.cycle(process, calm)?;
            if let Some(why) = process.why_stopped() {
                return Err(Violation::new("the node stops on sound disks", why));
            }
            self.observe(process)?;
            if self.weather.is_over() && self.is_quiet()? {
                if matches!(self.stop(process)?, LifeEnd::Crashed(_)) {
                    return Err(Violation::new("a stop on sound disks fails", "at the end"));
                }
                let lag = process.shadow_lag();
                ensure(lag == 0, "the shadow stays behind", || format!("{lag} commands"))?;
                return self.check_feed();
            }
        }
        let left = match &self.gate {
            Some(gate) => gate.left(),
            None => format!("{} requests", self.crowd.unanswered()),
        };
        Err(Violation::new("requests stay without an answer", left))
    }

    /// Checks that the partition has every definition of the control log, in order and once, except
    /// for those that its rules may skip, which the naive engine checks.
    fn check_feed(&self) -> Result<(), Violation> {
        let mut told = self.oracle.defined();
        let mut next = told.next();
        for (at, definition) in self.crowd.definitions() {
            if next == Some(*at) {
                next = told.next();
            } else if !may_be_passed_over(definition) {
                return Err(Violation::new("a definition never arrived", at));
            }
        }
        match next {
            Some(at) => Err(Violation::new("a definition was told twice or out of order", at)),
            None => Ok(()),
        }
    }

    fn fold(&mut self, word: u64) {
        self.fold_bytes(&word.to_le_bytes());
    }

    fn fold_bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Returns true for a definition that may be skipped: an account with debts stays unlimited in its
/// partition until they are settled.
fn may_be_passed_over(definition: &Definition) -> bool {
    matches!(definition, Definition::DefineAccount(d) if d.unlimited == Switch::Off)
}

fn unreadable(error: anyhow::Error) -> Violation {
    Violation::new("a recovered log cannot be read", format!("{error:#}"))
}

fn shadow_fails(error: ShadowError) -> Violation {
    Violation::new("the shadow fails", error)
}
