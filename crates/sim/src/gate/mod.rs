//! The order path with its gateway: clients on simulated sockets in the place of the crowd.
//!
//! The node's `Newcomers` and `Gateway` stand between simulated clients and the partition: real
//! frames, real rings, the real session state of the Rust client. The control log is the crowd's
//! list of definitions, which survives every crash; everything else is lost with its process.
//!
//! * [`thread`]: a node's thread, cycle by cycle. [`node`]: the agents between two crashes.
//! * [`client`]: sessions and the events that they have received. [`wire`]: their connections.
//! * [`copies`]: the firm's desk that receives copies. [`addressed_events`]: the rules for clients'
//!   messages. [`strangers`]: connections without a session. [`rival`]: a second process with a
//!   client's key. [`checkpoints`]: the gateway's own. [`checkpoint_watch`]: the rules for them.

pub mod addressed_events;
pub mod checkpoint_watch;
pub mod checkpoints;
mod client;
pub mod copies;
pub mod node;
pub mod rival;
pub mod strangers;
pub mod thread;
pub mod wire;

use weir_io::descriptors::DescriptorRoom;
use weir_io::net::sim::{NetFaults, SimDescriptors, SimNet};
use weir_io::{Rng, SeededRng};
use weir_log::SnapshotStore;
use weir_partition::checkpoint::HOLDER;
use weir_partition::handoff::SUBMISSIONS_MAX;
use weir_runtime::Wake;
use weir_types::{EventNo, FirmId, Nanos, RequestNo, SessionId, WallOffset};
use weir_wire::{Definition, Event};

use crate::crowd::Crowd;
use crate::oracle::{Violation, ensure};
use crate::plan::{Ending, Plan};
use crate::process::{Disks, LOG_ID, Process};
use crate::weather::{Conditions, Forecast};
use crate::window::Window;
use crate::workload::HERE;
use addressed_events::AddressedEvents;
use checkpoint_watch::{AgentFigures, CheckpointWatch};
use checkpoints::FailingCall;
use node::{GateNode, Start, StartContext};
use wire::Wires;

/// The connections of a crowd of strangers.
const STRANGERS: usize = 14;
/// The lengths of the ring to the partition in commands; a short one is full while a disk stands.
const RINGS: [usize; 4] = [SUBMISSIONS_MAX, SUBMISSIONS_MAX, 4, 16];
/// Its length beside a disk that stalls for long: clients fill it.
const SHORT_RING: usize = 2;
/// The longest step beside which a connection may be left unread for a fifth of a second only: its
/// bytes are up to three steps under way.
const STEP_OF_SHORT_STALLS: u64 = 20_000_000;
const PLENTY: SimDescriptors = SimDescriptors::Free(DescriptorRoom::Plenty);
/// The time and the steps behind a spell without descriptors within which the connections that
/// waited are accepted: a thread rests for at most 100 ms.
const ACCEPTED_WITHIN: Nanos = Nanos(400_000_000);
const ACCEPTED_WITHIN_STEPS: u64 = 20;
/// Steps for which the sessions with cancel-on-disconnect stay away at the end.
const AWAY_STEPS: u64 = 120;

/// The figures of the gateway's part of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateTally {
    /// Reports received, each once.
    pub reports: u64,
    /// Copies received, each once.
    pub copies: u64,
    /// Logons accepted.
    pub logons: u64,
    /// Logons refused because the session was on another connection.
    pub taken: u64,
    /// Logons refused because the client had received lost events.
    pub other_histories: u64,
    /// Streams of copies refused for the same reason.
    pub other_copies: u64,
    /// Connections lost, by a fault or by the client's choice.
    pub lost_connections: u64,
    /// Sessions ended because they read too slowly.
    pub slow: u64,
    /// Sessions ended because they were silent.
    pub silent: u64,
    /// Sessions ended because their key was replaced.
    pub keys_replaced: u64,
    /// Sessions that a logon took over from another connection.
    pub takeovers: u64,
    /// Of these, sessions whose client was told so.
    pub taken_over: u64,
    /// Of these, sessions that their client took back from a second process.
    pub taken_back: u64,
    /// Of these, sessions that their client moved from a connection that went on.
    pub moved: u64,
    /// Writes of the network that found no room.
    pub blocked_writes: u64,
    /// Orders cancelled because their session was lost.
    pub lost_orders: u64,
    /// Old records that were read for the gateway.
    pub old_records: u64,
    /// Returns in time after a start, with cancel-on-disconnect.
    pub in_time: u64,
    /// Last lives in which the sessions with cancel-on-disconnect did not return in time.
    pub not_in_time: u64,
    /// Requests refused because of the session's rate.
    pub throttled: u64,
    /// Strangers that made place for a newer connection.
    pub evicted: u64,
    /// Requests that a full log refused.
    pub refused: u64,
    /// Messages that waited for room in the ring to the partition.
    pub waited: u64,
    /// Accepts that found no descriptor.
    pub failed_accepts: u64,
    /// Logons and streams of copies refused because the next event was past the retention.
    pub past_retention: u64,
    /// Checkpoints of the gateway that were written.
    pub checkpoints: u64,
    /// Starts of the gateway with a checkpoint.
    pub checkpoint_starts: u64,
    /// Starts at which the checkpoints' disk failed.
    pub failed_checkpoint_starts: u64,
    /// Starts that found a checkpoint of lost events, in the place of which there are others.
    pub lost_checkpoints: u64,
    /// Looks at the retention at which most that was over the limits was held for the next
    /// checkpoint.
    pub held_for_checkpoints: u64,
    /// Refused logons of clients with lost events whose session had events since, none of which was
    /// retained.
    pub bare_trails: u64,
}

impl GateTally {
    /// Formats the figures as further members of a line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        format!(
            ",\"reports\":{},\"copies\":{},\"logons\":{},\"taken\":{},\"other_histories\":{},\
             \"other_copies\":{},\"lost_connections\":{},\"slow\":{},\"silent\":{},\
             \"keys_replaced\":{},\"takeovers\":{},\"taken_over\":{},\"taken_back\":{},\
             \"moved\":{},\"blocked_writes\":{},\"lost_orders\":{},\"old_records\":{},\
             \"in_time\":{},\"not_in_time\":{},\"throttled\":{},\"evicted\":{},\
             \"refused_by_a_full_log\":{},\"waited\":{},\"failed_accepts\":{},\
             \"past_retention\":{},\"checkpoints\":{},\"checkpoint_starts\":{},\
             \"failed_checkpoint_starts\":{},\"lost_checkpoints\":{},\
             \"held_for_checkpoints\":{},\"bare_trails\":{}",
            self.reports,
            self.copies,
            self.logons,
            self.taken,
            self.other_histories,
            self.other_copies,
            self.lost_connections,
            self.slow,
            self.silent,
            self.keys_replaced,
            self.takeovers,
            self.taken_over,
            self.taken_back,
            self.moved,
            self.blocked_writes,
            self.lost_orders,
            self.old_records,
            self.in_time,
            self.not_in_time,
            self.throttled,
            self.evicted,
            self.refused,
            self.waited,
            self.failed_accepts,
            self.past_retention,
            self.checkpoints,
            self.checkpoint_starts,
            self.failed_checkpoint_starts,
            self.lost_checkpoints,
            self.held_for_checkpoints,
            self.bare_trails
        )
    }

    /// Adds the figures of another run.
    pub fn add(&mut self, other: &GateTally) {
        self.reports += other.reports;
        self.copies += other.copies;
        self.logons += other.logons;
        self.taken += other.taken;
        self.other_histories += other.other_histories;
        self.other_copies += other.other_copies;
        self.lost_connections += other.lost_connections;
        self.slow += other.slow;
        self.silent += other.silent;
        self.keys_replaced += other.keys_replaced;
        self.takeovers += other.takeovers;
        self.taken_over += other.taken_over;
        self.taken_back += other.taken_back;
        self.moved += other.moved;
        self.blocked_writes += other.blocked_writes;
        self.lost_orders += other.lost_orders;
        self.old_records += other.old_records;
        self.in_time += other.in_time;
        self.not_in_time += other.not_in_time;
        self.throttled += other.throttled;
        self.evicted += other.evicted;
        self.refused += other.refused;
        self.waited += other.waited;
        self.failed_accepts += other.failed_accepts;
        self.past_retention += other.past_retention;
        self.checkpoints += other.checkpoints;
        self.checkpoint_starts += other.checkpoint_starts;
        self.failed_checkpoint_starts += other.failed_checkpoint_starts;
        self.lost_checkpoints += other.lost_checkpoints;
        self.held_for_checkpoints += other.held_for_checkpoints;
        self.bare_trails += other.bare_trails;
    }
}

/// The settings of a life that the seed draws.
#[derive(Clone, Copy, Debug)]
pub struct GatePlan {
    /// True: gateway and partition share a thread.
    pub is_fused: bool,
    /// True: no client and no network misbehaves.
    pub is_calm: bool,
    /// The network's faults.
    pub faults: NetFaults,
    /// Bytes that may wait for a connection at the gateway.
    pub output_len_max: usize,
    /// The time for which a connection may leave its output unread.
    pub stall_max: Nanos,
    /// The number of steps in 10,000 at which a connection is disturbed.
    pub disturbed_per_myriad: u64,
    /// The time after a start within which a session must return to keep its orders.
    pub return_within: Nanos,
    /// Connections that say nothing, from one address, and more than the door has places.
    pub stranger_count: usize,
    /// The length of the ring to the partition.
    pub ring_len: usize,
    /// True if the door turns connections without a session away for want of descriptors.
    pub turns_away: bool,
}

impl GatePlan {
    fn draw(rng: &mut SeededRng, is_calm: bool) -> GatePlan {
        let buffer_len_max = [700, 3_000, 20_000, 64_000][rng.below(4) as usize];
        let harsh = |rng: &mut SeededRng, most: u64| {
            if is_calm || rng.chance(1, 2) { 0 } else { rng.below(most) }
        };
        GatePlan {
            is_fused: rng.chance(1, 2),
            is_calm,
            faults: NetFaults {
                buffer_len_max,
                delay_ticks_max: rng.below(4),
                short_reads_per_mille: rng.below(200),
                short_writes_per_mille: rng.below(200),
                resets_per_myriad: harsh(rng, 30),
                refusals_per_mille: harsh(rng, 300),
                spurious_per_mille: harsh(rng, 300),
            },
            output_len_max: [1_000, 4_000, 40_000][rng.below(3) as usize],
            stall_max: Nanos([200, 2_000][rng.below(2) as usize] * 1_000_000),
            disturbed_per_myriad: harsh(rng, 120),
            return_within: Nanos(0),
            stranger_count: 0,
            ring_len: SUBMISSIONS_MAX,
            turns_away: false,
        }
    }
}

/// The time and the step by which the connections before this number must be accepted.
#[derive(Clone, Copy, Debug)]
struct AcceptsDue {
    at: Nanos,
    tick: u64,
    connection_count: u64,
}

/// The gateway's part of a world.
pub struct Gate {
    net: SimNet,
    rng: SeededRng,
    wires: Wires,
    /// The rules of what clients are told.
    pub told: AddressedEvents,
    /// The least first record of the lives that could not tell what a client of an ended epoch has
    /// received that is lost: their checkpoints are of later ones.
    past_unknown_from: u64,
    watch: CheckpointWatch,
    /// The agent's figures when the last cycle of the process was whole.
    agent: AgentFigures,
    /// The control log: the definitions so far, as events.
    control: Vec<Vec<u8>>,
    node: Option<GateNode>,
    /// The wake of the gateway's thread in this life.
    wake: Wake,
    plan: GatePlan,
    life: u64,
    tick: u64,
    /// The step since which the sessions with cancel-on-disconnect stay away and may be lost.
    away: Option<u64>,
    was_away: bool,
    /// True while they stay away because they do not return in time after a start.
    is_absence: bool,
    /// The random stream of returns.
    returns: SeededRng,
    /// The random stream of crowds of strangers.
    crowds: SeededRng,
    /// The random stream of rings.
    rings: SeededRng,
    /// The random stream of starts at which the checkpoints' disk fails.
    failing_starts: SeededRng,
    conditions: Conditions,
    /// The last time at which the command log's disk stood, or descriptors were short.
    withheld_at: Nanos,
    accepts_due: Option<AcceptsDue>,
    time: Nanos,
    return_by: Nanos,
    not_in_time: u64,
    since_beginning: Nanos,
}

impl Gate {
    /// Creates the clients and the network of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Gate {
        let mut rng = SeededRng::new(seed, "gate");
        let plan = GatePlan::draw(&mut rng, false);
        Gate {
            net: SimNet::new(seed),
            wires: Wires::new(
                &mut rng,
                SeededRng::new(seed, "rivals"),
                SeededRng::new(seed, "moves"),
                SeededRng::new(seed, "absences"),
            ),
            rng,
            told: AddressedEvents::default(),
            past_unknown_from: u64::MAX,
            watch: CheckpointWatch::default(),
            agent: AgentFigures::default(),
            control: Vec::new(),
            node: None,
            wake: Wake::new(),
            plan,
            life: 0,
            tick: 0,
            away: None,
            was_away: false,
            is_absence: false,
            returns: SeededRng::new(seed, "returns"),
            crowds: SeededRng::new(seed, "crowds of strangers"),
            rings: SeededRng::new(seed, "rings"),
            failing_starts: SeededRng::new(seed, "failing starts"),
            conditions: Conditions::FAIR,
            withheld_at: Nanos(0),
            accepts_due: None,
            time: Nanos(0),
            return_by: Nanos(0),
            not_in_time: 0,
            since_beginning: Nanos(0),
        }
    }

    /// The same, with clients that are never away for a whole life: a day forgets what all clients
    /// have had.
    #[must_use]
    pub fn of_a_day(seed: u64) -> Gate {
        let mut gate = Gate::new(seed);
        gate.wires.are_never_absent();
        gate
    }

    /// Returns the figures so far.
    #[must_use]
    pub fn tally(&self) -> GateTally {
        GateTally {
            blocked_writes: self.net.counts().blocked_writes,
            lost_orders: self.told.lost_orders,
            not_in_time: self.not_in_time,
            failed_accepts: self.net.counts().failed_accepts,
            ..self.wires.tally
        }
    }

    /// Draws the settings of the next life; the process's views are woken by what it returns.
    #[must_use]
    pub fn begin_life(&mut self, is_calm: bool, step_ns_max: u64, forecast: Forecast) -> Vec<Wake> {
        self.plan = GatePlan::draw(&mut self.rng, is_calm);
        self.plan.ring_len = RINGS[self.rings.below(4) as usize];
        if forecast.holds_requests_up {
            self.plan.ring_len = SHORT_RING;
        }
        self.plan.turns_away = forecast.turns_away;
        if forecast.step_ns_max.max(step_ns_max) > STEP_OF_SHORT_STALLS {
            self.plan.stall_max = Nanos(2_000_000_000);
        }
        let steps = [5, 60, 300][self.returns.below(3) as usize];
        self.plan.return_within = Nanos(steps * step_ns_max / 2);
        self.plan.stranger_count = [0, STRANGERS][self.crowds.below(2) as usize];
        self.is_absence = is_calm && !self.was_away && self.returns.chance(1, 2);
        self.away = self.is_absence.then_some(self.tick);
        if self.is_absence {
            self.not_in_time += 1;
            self.wires.leave();
        }
        self.net.set_faults(self.plan.faults);
        let wake = Wake::new();
        self.end_node();
        self.life += 1;
        self.wires.begin_life(self.plan, &self.told);
        self.wake = wake.clone();
        vec![wake]
    }

    /// The length of the ring to the partition in this life.
    #[must_use]
    pub fn ring_len(&self) -> usize {
        self.plan.ring_len
    }

    fn end_node(&mut self) {
        if let Some(mut node) = self.node.take() {
            self.wires.tally.waited += node.waited();
            self.wires.tally.takeovers += node.takeovers();
            let checkpoints = node.checkpoints();
            self.wires.tally.checkpoints += checkpoints.written();
            self.wires.tally.checkpoint_starts += u64::from(checkpoints.is_beginning());
        }
        (self.conditions, self.accepts_due) = (Conditions::FAIR, None);
    }

    /// Sets the conditions from now on.
    pub fn set_conditions(&mut self, conditions: &Conditions) {
        self.net.set_descriptors(node::address(), conditions.descriptors);
        let before = std::mem::replace(&mut self.conditions, *conditions);
        if conditions.descriptors == SimDescriptors::Exhausted {
            self.accepts_due = None;
        } else if before.descriptors == SimDescriptors::Exhausted {
            self.accepts_due = Some(AcceptsDue {
                at: Nanos(self.time.0 + ACCEPTED_WITHIN.0),
                tick: self.tick + ACCEPTED_WITHIN_STEPS,
                connection_count: self.net.connection_count(),
            });
        }
    }

    /// Checks that the connections that waited for a descriptor are accepted in time.
    fn check_accepts(&mut self) -> Result<(), Violation> {
        let is_due = |due: &mut AcceptsDue| self.time > due.at && self.tick > due.tick;
        let Some(due) = self.accepts_due.take_if(is_due) else { return Ok(()) };
        let first = self.net.first_waiting(node::address());
        let waits_on = first.is_some_and(|first| first < due.connection_count);
        ensure(!waits_on, "a connection that waited for a descriptor is not accepted", || {
            format!("{first:?} of {}", due.connection_count)
        })
    }

    /// Starts the node's agents; returns the number of events that the gateway took in.
    ///
    /// # Errors
    /// A violation of a rule.
    pub fn start(
        &mut self,
        process: &mut Process,
        disks: &Disks,
        start: Start<'_>,
    ) -> Result<u64, Violation> {
        let event_count = process.tail_handle().next_record() - 1;
        (self.told.current, self.told.ended) = (start.epoch, start.ended.to_vec());
        self.told.retained_from = self.told.retained_from.max(start.first_record);
        self.return_by = Nanos(start.now.0 + self.plan.return_within.0);
        self.wires.process_has_started(&start.absent);
        let lost = self.lost_checkpoints(disks);
        let removes = lost.iter().any(|at| *at > event_count);
        let finds_lost = lost.iter().any(|at| *at <= event_count);
        self.wires.tally.lost_checkpoints += u64::from(finds_lost);
        let around = StartContext {
            plan: self.plan,
            net: &self.net,
            wake: self.wake.clone(),
            seed: self.rng.next_u64(),
            control: &self.control,
            disks,
            failing_call: FailingCall::draw(&mut self.failing_starts, removes),
        };
        let node = GateNode::start(process, &start, &around);
        let failed = |error| Violation::new("the gateway does not start", error);
        let mut node = node.map_err(failed)?;
        let checkpoints = node.checkpoints();
        self.agent = checkpoints.figures();
        self.wires.tally.failed_checkpoint_starts += u64::from(checkpoints.has_failed());
        self.watch.judge(checkpoints.began_with(), checkpoints.has_failed())?;
        // A checkpoint of a life that could not tell cannot either.
        let has_known_beginning =
            checkpoints.is_beginning() && checkpoints.began_with() + 1 < self.past_unknown_from;
        self.told.is_past_known = start.first_record == 1 || has_known_beginning;
        if !self.told.is_past_known {
            self.past_unknown_from = self.past_unknown_from.min(start.first_record);
            self.told.begins_unknown(start.first_record);
        }
        let taken_in = checkpoints.events_from(start.first_record);
        self.node = Some(node);
        Ok(process.tail_handle().next_record().saturating_sub(taken_in))
    }

    /// The checkpoints of lost events that the disk has.
    fn lost_checkpoints(&self, disks: &Disks) -> Vec<u64> {
        let disk = disks.checkpoints.after_process_crash();
        let listed = SnapshotStore::new(disk, LOG_ID, HERE).list().unwrap_or_default();
        let listed = listed.into_iter().map(|at| at.0);
        listed.filter(|at| self.watch.is_lost(*at)).collect()
    }

    /// Ends the node's agents as the process ends.
    pub fn crash(&mut self, ending: Ending) {
        if ending == Ending::PowerLoss {
            self.net.lose_machine(node::address());
        }
        self.end_node();
    }

    /// Tells the node's agents the distance of the wall clock.
    pub fn wall_clock_moved(&mut self, wall: WallOffset) {
        if let Some(node) = &mut self.node {
            node.wall_clock_moved(wall);
        }
    }

    /// Enters a definition in the control log, unless it is there already.
    pub fn define(&mut self, index: usize, definition: &Definition, wall: Nanos) {
        if index < self.control.len() {
            return;
        }
        let record = node::control_record(index, definition, wall);
        if let Some(node) = &mut self.node {
            node.tell_control(&record);
        }
        self.control.push(record);
        if let Definition::DefineSession(d) = definition {
            self.wires.session_defined(d.defined_session_id);
        }
    }

    /// Lets the clients, the network and the node's agents act, before the partition's cycle.
    ///
    /// # Errors
    /// A violation of a rule.
    pub fn act(
        &mut self,
        crowd: &mut Crowd,
        plan: &Plan,
        now: Nanos,
        asks: bool,
    ) -> Result<(), Violation> {
        (self.tick, self.time) = (self.tick + 1, now);
        if self.away.is_some() && now < self.return_by {
            self.away = Some(self.tick);
        }
        if self.conditions.stalls_commands || self.conditions.descriptors != PLENTY {
            self.withheld_at = now;
        }
        let mut context = wire::Context {
            net: &self.net,
            rng: &mut self.rng,
            told: &self.told,
            crowd,
            plan,
            gate: self.plan,
            life: self.life,
            now,
            tick: self.tick,
            asks,
            is_away: self.away.is_some(),
            return_by: self.return_by,
            withheld_at: self.withheld_at,
            kept_at: Nanos(0),
            since_beginning: self.since_beginning,
        };
        self.wires.step(&mut context)?;
        self.net.advance();
        if let Some(node) = &mut self.node {
            self.wires.tally.old_records += node.turn(now) as u64;
            if !self.conditions.stalls_events {
                node.checkpoints().work(now);
            }
        }
        self.note_checkpoints();
        self.check_accepts()
    }

    fn note_checkpoints(&mut self) {
        let Some(node) = &mut self.node else { return };
        let after = node.checkpoints().figures();
        self.watch.note(std::mem::replace(&mut self.agent, after), after);
    }

    /// Lets the gateway tell what the partition has just published.
    ///
    /// # Errors
    /// A wake-up that was lost.
    pub fn tell(&mut self, now: Nanos) -> Result<(), Violation> {
        // The cycle is over: no crash takes its operations.
        self.watch.keep();
        self.node.as_mut().map_or(Ok(()), |node| node.tell(now))
    }

    /// Stops the gateway; true once it has stopped. To be called after the partition has stopped.
    ///
    /// # Errors
    /// A violation of a rule.
    pub fn stop(&mut self, crowd: &mut Crowd, plan: &Plan, now: Nanos) -> Result<bool, Violation> {
        self.accepts_due = None;
        self.act(crowd, plan, now, false)?;
        let has_stopped = self.node.as_mut().is_none_or(|node| node.stop(now));
        if has_stopped {
            self.end_node();
        }
        Ok(has_stopped)
    }

    /// Records an event that the partition published.
    pub fn note(&mut self, record: u64, event: &Event, bytes: &[u8]) {
        self.told.note(record, event, bytes);
    }

    /// Discards the events after a loss.
    pub fn forget(&mut self, events: &Window<Vec<u8>>) {
        self.told.rebuild(events);
        self.watch.lose(events.len() as u64);
    }

    /// Notes the holder of most of the bytes that are over the retention.
    pub fn note_held(&mut self, held_by: Option<&'static str>) {
        self.wires.tally.held_for_checkpoints += u64::from(held_by == Some(HOLDER));
    }

    /// The first record, not after `record`, that a client may still be told of.
    #[must_use]
    pub fn needs_from(&self, record: u64) -> u64 {
        self.wires
            .clients()
            .filter_map(|client| client.needs_from(&self.told))
            .fold(record, u64::min)
    }

    /// Forgets the events before a record, which all clients have received.
    pub fn forget_before(&mut self, record: u64, events: &[Vec<u8>]) {
        self.told.forget_before(record, events);
        self.wires.forget_before(record);
    }

    /// The open streams of the node.
    #[must_use]
    pub fn stream_count(&self) -> u64 {
        self.net.listener_stream_count()
    }

    /// Sets the time by which the times in requests are later than those of a run's beginning.
    pub fn set_since_beginning(&mut self, by: Nanos) {
        self.since_beginning = by;
    }

    /// True when every client has had everything and every request is answered; then, once, the
    /// sessions with cancel-on-disconnect leave and their orders must go. Before, they may not have
    /// returned after the start, and their orders must have gone.
    ///
    /// # Errors
    /// A violation of a rule.
    pub fn is_done(&mut self) -> Result<bool, Violation> {
        if let Some(since) = self.away {
            if self.tick >= since + AWAY_STEPS && self.wires.is_quiet(&self.told, true) {
                let leaving = match self.is_absence {
                    true => self.wires.always_cancelling(),
                    false => self.wires.leaving(),
                };
                self.told.check_left(&leaving)?;
                (self.away, self.is_absence) = (None, false);
            }
            return Ok(false);
        }
        if !self.wires.is_quiet(&self.told, false) {
            return Ok(false);
        }
        if !std::mem::replace(&mut self.was_away, true) {
            self.away = Some(self.tick);
            self.wires.leave();
            return Ok(false);
        }
        Ok(true)
    }

    /// Names the work that is left.
    #[must_use]
    pub fn left(&self) -> String {
        self.wires.left(&self.told)
    }
}

/// A session's numbers in a recovered engine.
pub type SessionNumbers = (SessionId, EventNo, RequestNo);
/// A session and its firm in a recovered engine.
pub type SessionFirm = (SessionId, FirmId);
