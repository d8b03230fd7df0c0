//! The gateway and the newcomers' thread between two crashes, over the process's partition.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use weir_door::Door;
use weir_door::lobby::LobbyLimits;
use weir_door::reader_rings::{GatewayPort, gateway_to_delivery};
use weir_gateway::newcomers::{Newcomers, NewcomersParts, link};
use weir_gateway::{
    Assignment, Gateway, GatewayConfig, GatewayParts, GatewayStatus, PortParts, Protocol,
};
use weir_io::SeededRng;
use weir_io::net::sim::SimNet;
use weir_io::net::{Listener, Net};
use weir_log::EpochEnd;
use weir_log::tail::{TailConfig, TailHandle, TailWriter, tail};
use weir_partition::control_import::ImportProgress;
use weir_partition::event_reader::EventReader;
use weir_partition::handoff::{SourcePort, gateway_to_partition};
use weir_partition::stage_clock::StageClock;
use weir_probe::Recorder;
use weir_runtime::{Agent, Wake};
use weir_types::{Epoch, Nanos, PartitionId, Position, SessionId, WallOffset};
use weir_wire::event::Defined;
use weir_wire::session::NodeId;
use weir_wire::{Definition, Event};

use super::checkpoints::{Checkpoints, FailingCall};
use super::thread::SimThread;
use super::{GatePlan, SessionFirm, SessionNumbers};
use crate::oracle::Violation;
use crate::process::{Disks, Process};

/// The control log's partition.
const CONTROL: PartitionId = PartitionId(0);

/// The places of a door with a crowd of strangers in front, and those of an address.
const PLACES_IN_A_CROWD: usize = 10;
const OF_AN_ADDRESS: u32 = 8;

/// The node's address.
#[must_use]
pub fn address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 7001))
}

/// Returns the control log's event of its definition with this index.
#[must_use]
pub fn control_record(index: usize, definition: &Definition, now: Nanos) -> Vec<u8> {
    let position = Position(index as u64 + 1);
    let defined =
        Defined { position, transact_time: now, control_position: position, partition_id: CONTROL };
    let mut record = Vec::new();
    Event::Defined(defined, *definition).encode(&mut record);
    record
}

/// The result of a recovery, for the gateway.
pub struct Start<'a> {
    /// The sessions' numbers in the engine.
    pub sessions: Vec<SessionNumbers>,
    /// The sessions with cancel-on-disconnect in the engine.
    pub absent: Vec<SessionId>,
    /// The sessions' firms in the engine.
    pub firms: Vec<SessionFirm>,
    /// The first record of the event log.
    pub first_record: u64,
    /// The epoch of this run.
    pub epoch: Epoch,
    /// The epochs before it.
    pub ended: &'a [EpochEnd],
    /// The time.
    pub now: Nanos,
    /// The distance of the wall clock.
    pub wall: WallOffset,
}

/// The surroundings of a start: the same for both agents.
pub struct StartContext<'a> {
    /// The plan of the life.
    pub plan: GatePlan,
    /// The network.
    pub net: &'a SimNet,
    /// The wake of the gateway's thread.
    pub wake: Wake,
    /// The seed of the agents' nonces.
    pub seed: u64,
    /// The control log so far.
    pub control: &'a [Vec<u8>],
    /// The partition's disks.
    pub disks: &'a Disks,
    /// The call to the checkpoints' disk that fails.
    pub failing_call: Option<FailingCall>,
}

impl StartContext<'_> {
    /// Returns the gateway's configuration.
    #[must_use]
    pub fn config(&self) -> GatewayConfig {
        let crowded = GatewayConfig {
            connections_max: PLACES_IN_A_CROWD,
            lobby: LobbyLimits { per_address_max: OF_AN_ADDRESS, ..LobbyLimits::default() },
            ..GatewayConfig::default()
        };
        let config = if self.plan.stranger_count > 0 { crowded } else { GatewayConfig::default() };
        GatewayConfig {
            output_len_max: self.plan.output_len_max,
            stall_max: self.plan.stall_max,
            return_within: self.plan.return_within,
            ..config
        }
    }

    /// Returns the control log's events, in memory.
    fn control_tail(&self) -> (TailWriter, TailHandle) {
        let config = TailConfig { segment_words: 8 << 10, segments: 4, first_record: 1 };
        let (mut writer, handle) = tail(config);
        for record in self.control {
            writer.append(record);
        }
        writer.publish();
        (writer, handle)
    }
}

/// Lets the gateway know the past of its partition.
fn take_in_the_past(
    gateway: &mut Gateway,
    process: &Process,
    start: &Start<'_>,
    around: &StartContext<'_>,
) -> Checkpoints {
    start.firms.iter().for_each(|(id, firm_id)| gateway.know_firm(*id, *firm_id));
    let checkpoints = Checkpoints::begin(gateway, process, start, around);
    gateway.take_in_the_past(start.now);
    start.sessions.iter().for_each(|(id, next, last)| gateway.agree(1, *id, *next, *last));
    start.absent.iter().for_each(|id| gateway.await_return(1, *id));
    checkpoints
}

/// The node's agents in front of the partition.
pub struct GateNode {
    gateway: SimThread<Gateway>,
    newcomers: SimThread<Newcomers>,
    is_fused: bool,
    control: TailWriter,
    control_handle: TailHandle,
    /// The control partition's end of its ring: no client sends it requests.
    _control_source: SourcePort,
    /// The store's end of the rings for order state: no client asks for it.
    _delivery: GatewayPort,
    events: TailHandle,
    wake: Wake,
    has_stopped_newcomers: bool,
    checkpoints: Checkpoints,
    /// The thread that reads old events from files.
    history: Box<dyn Agent>,
    /// It runs in one of this many turns, as if it waited for a disk in the others.
    history_every: u64,
    turns: u64,
    /// The ends of both logs at the gateway's last cycle.
    read_upto: (u64, u64),
    status: Arc<Mutex<GatewayStatus>>,
}

impl GateNode {
    /// Starts the agents as a node does: the past first, then the listener.
    ///
    /// # Errors
    /// Those of the polls.
    pub fn start(
        process: &mut Process,
        start: &Start<'_>,
        around: &StartContext<'_>,
    ) -> std::io::Result<GateNode> {
        let StartContext { plan, net, wake, seed, disks, .. } = around;
        let (control, control_handle) = around.control_tail();
        let (control_ring, control_source) = gateway_to_partition(CONTROL, Wake::new());
        let (delivery, delivery_end) = gateway_to_delivery(wake.clone(), Wake::new());
        let status = Arc::new(Mutex::new(GatewayStatus::default()));
        let draining = Arc::new(AtomicBool::new(false));
        let ports = vec![
            PortParts::here(control_ring, EventReader::new(&control_handle, PathBuf::new(), 1)),
            PortParts::here(
                process.take_port(),
                process.reader(disks.events.clone(), start.first_record, "gateway"),
            ),
        ];
        let mut gateway = Gateway::new(GatewayParts {
            net: Net::Simulated((*net).clone()),
            ports,
            delivery,
            recorder: Recorder::disabled(),
            clock: StageClock::new(None),
            node_id: NodeId([7; 16]),
            rng: Box::new(SeededRng::new(*seed, "gateway's nonces")),
            config: around.config(),
            assignment: Assignment::default(),
            imports: ImportProgress::unbounded(),
            draining: draining.clone(),
            status: status.clone(),
        })?;
        let checkpoints = take_in_the_past(&mut gateway, process, start, around);
        let history = Box::new(gateway.leave_files(Wake::new(), wake.clone()));
        let newcomers_wake = Wake::new();
        let (port, to_gateway) = link(wake.clone(), newcomers_wake.clone());
        let newcomers = Newcomers::new(NewcomersParts {
            net: Net::Simulated((*net).clone()),
            door: Door::Plain(Listener::Simulated(net.listen(address()))),
            protocol: Protocol::Sbe,
            gateway: to_gateway,
            reception: gateway.meet(port, Box::new(SeededRng::new(*seed, "newcomers' nonces"))),
            config: around.config(),
            draining,
            status: status.clone(),
        })?;
        let mut node = GateNode {
            gateway: SimThread::new(gateway, wake.clone())?,
            newcomers: SimThread::new(newcomers, newcomers_wake)?,
            is_fused: plan.is_fused,
            control,
            control_handle,
            _control_source: control_source,
            _delivery: delivery_end,
            events: process.tail_handle().clone(),
            wake: wake.clone(),
            has_stopped_newcomers: false,
            checkpoints,
            history,
            history_every: [1, 7, 40][(*seed % 3) as usize],
            turns: 0,
            read_upto: (0, 0),
            status,
        };
        node.wall_clock_moved(start.wall);
        Ok(node)
    }

    /// Tells the agents the distance of the wall clock, as their runners do.
    pub fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.gateway.agent.wall_clock_moved(wall);
        self.newcomers.agent.wall_clock_moved(wall);
    }

    /// The messages that have waited for room in a ring, as last published.
    #[must_use]
    pub fn waited(&self) -> u64 {
        self.status.lock().map_or(0, |status| status.counters.back_pressure)
    }

    /// The takeovers of sessions, as last published.
    #[must_use]
    pub fn takeovers(&self) -> u64 {
        self.status.lock().map_or(0, |status| status.counters.sessions_taken_over)
    }

    /// Publishes an event of the control log.
    pub fn tell_control(&mut self, record: &[u8]) {
        self.control.append(record);
        self.control.publish();
        self.wake.wake();
    }

    /// Runs the agents' cycles before the partition's; returns the number of old records that were
    /// read for the gateway.
    pub fn turn(&mut self, now: Nanos) -> usize {
        self.newcomers.turn(now);
        self.turns += 1;
        let is_due = self.turns.is_multiple_of(self.history_every);
        let old_records = if is_due { self.history.do_work(now) } else { 0 };
        let ends = self.ends();
        if self.is_fused {
            self.gateway.poll();
            self.gateway.agent.do_work(now);
        } else if !self.gateway.turn(now) {
            return old_records;
        }
        self.read_upto = ends;
        old_records
    }

    /// The gateway's checkpoints.
    pub fn checkpoints(&mut self) -> &mut Checkpoints {
        &mut self.checkpoints
    }

    fn ends(&self) -> (u64, u64) {
        (self.control_handle.next_record(), self.events.next_record())
    }

    /// Runs the gateway's second cycle where it shares the partition's thread; else checks that the
    /// partition has woken it.
    ///
    /// # Errors
    /// A wake-up that was lost.
    pub fn tell(&mut self, now: Nanos) -> Result<(), Violation> {
        if self.is_fused {
            self.gateway.agent.do_work(now);
            return Ok(());
        }
        let ends = self.ends();
        if ends != self.read_upto && self.gateway.sleeps_on() {
            let detail = format!("read up to {:?} of {ends:?}", self.read_upto);
            return Err(Violation::new("a wake-up is lost", detail));
        }
        Ok(())
    }

    /// Stops the agents in the order of a node's stop; true once both have stopped.
    pub fn stop(&mut self, now: Nanos) -> bool {
        self.newcomers.poll();
        self.has_stopped_newcomers |= self.newcomers.agent.stop(now);
        self.gateway.poll();
        self.gateway.agent.do_work(now);
        self.gateway.agent.stop(now) && self.has_stopped_newcomers
    }
}
