//! The gateway: order entry and delivery over TCP, many sessions on each connection.
//!
//! One agent owns the sockets of all sessions; connections that have not logged on are
//! [`newcomers`], on another thread. Its duty cycle reads and submits requests ([`intake`]), turns
//! the partitions' events into reports ([`reports`]), passes pages of order state through, keeps
//! sessions alive ([`logon`], [`timers`]) and writes output. It decides nothing about orders and
//! keeps no state that a restart could not rebuild from the event logs. All of this is the session
//! core, which is the same for each [`protocol`]: only that folder knows the clients' bytes.
//!
//! INVARIANT: every buffer is bounded. Input by its size; output because nothing is produced for a
//! connection without room; requests because a full ring stops the reading of those who send there,
//! and one that stays full refuses them where they have other partitions to go on with.

pub mod assignment;
mod connection;
mod connections;
mod copies;
mod counters;
#[cfg(test)]
mod disconnect_tests;
mod disconnects;
mod drop_copy;
#[cfg(test)]
mod ended_sessions;
mod fairness;
mod identifiers;
#[cfg(test)]
mod import_tests;
mod intake;
mod lines;
pub mod linked;
mod linked_logon;
mod linked_return;
#[cfg(test)]
mod linked_tests;
mod logon;
pub mod newcomers;
mod old_records;
mod opening;
pub mod plant;
mod protocol;
mod reason_counts;
mod refusals;
mod reports;
mod reserved;
#[cfg(test)]
mod second_protocol;
mod sessions;
mod standstill;
#[cfg(test)]
mod takeover_tests;
mod timer_wheel;
mod timers;
mod traced_answers;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use weir_io::Rng;
use weir_io::net::{Events, Net, Poll, Token, Waker};
use weir_probe::{Recorder, TraceIds};
use weir_types::{EventNo, FirmId, Nanos, RequestNo, SessionId, WallOffset};
use weir_wire::reference::DefineInstrument;
use weir_wire::session::NodeId;
use weir_wire::{Definition, Event};

pub use assignment::{Assignment, InstrumentPattern};
pub use counters::GatewayCounters;
pub use old_records::{OldRecordsAsk, OldRecordsEnd};
pub use protocol::Protocol;

use crate::reason_counts::ReasonCounts;
use connection::{Connection, ReadBuffers, ReadOutcome};
use connections::{Connections, FlushList, ReadList};
use copies::Copies;
use disconnects::{AbsentSessions, SessionNotice};
use fairness::{ARRIVALS_MAX, Fairness};
use lines::Lines;
use linked::LinkPort;
use linked_logon::PendingLogons;
use linked_return::LateSession;
use newcomers::{Arrival, NewcomersPort};
use old_records::OldReader;
use plant::Plant;
use protocol::EventRecord;
use reserved::ReservedNames;
use sessions::{BehindList, Sessions};
use standstill::Standstill;
use timer_wheel::TimerWheel;
use weir_door::directory::Directory;
use weir_door::lobby::{Lobby, LobbyLimits};
use weir_door::reader_rings::DeliveryPort;
use weir_door::reception::Reception;
use weir_partition::control_import::ImportProgress;
use weir_partition::event_reader::EventReader;
use weir_partition::handoff::{PartitionPort, StageStamps};
use weir_partition::history::HistoryPort;
use weir_partition::lineage::{Lineage, PassedEnds};
use weir_partition::stage_clock::StageClock;
use weir_runtime::Agent;
use weir_runtime::Poller;

/// The bytes of pages that are passed through in one cycle.
const PAGE_BYTES_MAX: usize = 32 * 1024;
const WAKER: Token = Token(usize::MAX - 1);
const DISK: Token = Token(usize::MAX - 2);

/// The gateway's settings.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// The number of bytes that may wait for a connection before nothing more is produced for it.
    pub output_len_max: usize,
    /// The maximum number of connections, including those that have not logged on.
    pub connections_max: usize,
    /// The time for which a connection may leave its output unread before it is closed.
    pub stall_max: Nanos,
    /// The limits of connections that have not logged on.
    pub lobby: LobbyLimits,
    /// The number of a firm's reports per partition from which copies can be requested.
    pub copies_retained_max: usize,
    /// The time after a start within which a session with cancel-on-disconnect must return to keep
    /// its orders.
    pub return_within: Nanos,
    /// True if traders log on elsewhere: at gateway processes.
    pub traders_elsewhere: bool,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        GatewayConfig {
            output_len_max: 1 << 20,
            connections_max: 16 * 1024,
            stall_max: Nanos(10_000_000_000),
            lobby: LobbyLimits::default(),
            copies_retained_max: 1 << 20,
            return_within: Nanos(10_000_000_000),
            traders_elsewhere: false,
        }
    }
}

/// The gateway's state as published to other threads.
#[derive(Clone, Debug, Default)]
pub struct GatewayStatus {
    /// The gateway's counters; at most a tenth of a second old.
    pub counters: GatewayCounters,
    /// The counters of connections that have not logged on.
    pub newcomers: GatewayCounters,
    /// The instruments.
    pub instruments: Vec<DefineInstrument>,
    /// The number of definitions of instruments that the gateway has received.
    pub instruments_version: u64,
    /// The number of the control log's definitions that the gateway has received.
    pub definitions: u64,
}

/// The gateway's side of one partition.
struct Port {
    ring: PartitionPort,
    events: EventReader,
    /// The partition's epochs, as its events told them.
    lineage: Lineage,
    /// The points at which its records pass the ends of epochs.
    trail: PassedEnds,
    /// The newest stage times taken off the ring.
    stamps: Option<StageStamps>,
    /// The last command whose answer was stamped.
    answered: u64,
    /// True when this cycle submitted something to the partition.
    handed_over: bool,
    /// The bytes of a link's records that were read since its agent was last woken for them.
    read_len: usize,
    /// Sessions' choices and losses that wait for room in the ring.
    notices: VecDeque<SessionNotice>,
    /// The time since which it has taken nothing of what waits for it.
    standstill: Standstill,
    /// True while the history has a request for its events.
    asks_history: bool,
    /// True when the events before those that are read come from a checkpoint.
    begins_with_checkpoint: bool,
    /// The link to its partition, if that is in another process.
    link: Option<LinkPort>,
}

/// A gateway's parts for one partition.
pub struct PortParts {
    /// The ring for its requests.
    pub ring: PartitionPort,
    /// Its events, from the oldest retained one.
    pub events: EventReader,
    /// The link to the partition, if that is in another process: then all are.
    pub link: Option<LinkPort>,
}

impl PortParts {
    /// Returns the parts for a partition of this process.
    #[must_use]
    pub fn here(ring: PartitionPort, events: EventReader) -> PortParts {
        PortParts { ring, events, link: None }
    }
}

/// The parts of a gateway.
pub struct GatewayParts {
    /// The network of its connections.
    pub net: Net,
    /// Its partitions; the control partition first.
    pub ports: Vec<PortParts>,
    /// The delivery store.
    pub delivery: DeliveryPort,
    /// Records the probe points ingress, t0, t7 and egress.
    pub recorder: Recorder,
    /// Converts stamps to times.
    pub clock: StageClock,
    /// The node's identity, for challenges.
    pub node_id: NodeId,
    /// Draws nonces; must be the system's own generator, since nonces must not be guessable.
    pub rng: Box<dyn Rng + Send>,
    /// The settings.
    pub config: GatewayConfig,
    /// The partitions of new instruments whose definitions name none.
    pub assignment: Assignment,
    /// The importer's progress for the ports behind the control partition's, in their order.
    pub imports: ImportProgress,
    /// Set when the node stops: the gateway then takes no more input.
    pub draining: Arc<AtomicBool>,
    /// The state published to other threads.
    pub status: Arc<Mutex<GatewayStatus>>,
}

/// The gateway's admission logic without its sockets, and the reader of its checkpoints, for fuzz
/// targets.
pub mod fuzzing {
    pub use super::sessions::{Session, Sessions};
    pub use crate::opening::open;
    pub use weir_door::directory::KnownSession;
    pub use weir_door::lobby::Lobby;
    pub use weir_door::reception::{LogonRequest, MessageOrigin, Reception};
    pub use weir_partition::stream::{Noted, Stream};
}

/// The gateway.
pub struct Gateway {
    poll: Poll,
    poll_events: Events,
    newcomers: Option<NewcomersPort>,
    /// Reads records that are no longer in memory.
    history: Option<HistoryPort<OldReader>>,
    connections: Connections,
    buffers: ReadBuffers,
    /// Connections with sessions that have input, and those without sessions.
    read_list: ReadList,
    strangers: ReadList,
    fairness: Fairness,
    flush_list: FlushList,
    lobby: Lobby,
    sessions: Sessions,
    behind: BehindList,
    lost_sessions: Vec<SessionId>,
    /// Sessions that a partition, back again, did not know yet.
    late_sessions: Vec<LateSession>,
    /// The number of questions that bind sessions.
    bind_count: u64,
    /// True in a process without partitions: its ports have links.
    is_linked: bool,
    /// Logons that wait for answers of links.
    pending: PendingLogons,
    /// Set once the definitions before the first opening of control's link have come.
    is_complete: Option<Arc<AtomicBool>>,
    /// The time at which they had come.
    complete_since: Option<Nanos>,
    absent: AbsentSessions,
    reception: Reception,
    reserved: ReservedNames,
    copies: Copies,
    ports: Vec<Port>,
    delivery: DeliveryPort,
    recorder: Recorder,
    trace_ids: TraceIds,
    clock: StageClock,
    config: GatewayConfig,
    assignment: Assignment,
    imports: ImportProgress,
    counters: GatewayCounters,
    lines: Lines,
    status: Arc<Mutex<GatewayStatus>>,
    record: Vec<u8>,
    old_record: Vec<u8>,
    /// Each connection's earliest deadline, by its slot.
    timers: TimerWheel,
    status_at: Nanos,
    /// The time at which a stop no longer waits for connections.
    stop_by: Nanos,
    draining: Arc<AtomicBool>,
    stopping: bool,
}

impl Gateway {
    /// Returns a listening gateway.
    ///
    /// # Errors
    /// When the operating system refuses a poll.
    pub fn new(parts: GatewayParts) -> std::io::Result<Gateway> {
        let poll = parts.net.poll()?;
        let ports: Vec<_> = parts
            .ports
            .into_iter()
            .map(|PortParts { ring, events, link }| Port {
                ring,
                trail: PassedEnds::starting_at(events.next_record()),
                lineage: Lineage::new(events.epoch()),
                events,
                stamps: None,
                answered: 0,
                handed_over: false,
                read_len: 0,
                notices: VecDeque::new(),
                standstill: Standstill::default(),
                asks_history: false,
                begins_with_checkpoint: false,
                link,
            })
            .collect();
        let is_linked = ports.iter().any(|port: &Port| port.link.is_some());
        let first_records = ports.iter().map(|port| port.events.next_record()).collect();
        let reception = Reception::new(parts.node_id, parts.rng);
        let order = reception.map_order();
        Ok(Gateway {
            poll,
            poll_events: Events::with_capacity(1024),
            newcomers: None,
            history: None,
            connections: Connections::default(),
            buffers: ReadBuffers::default(),
            read_list: ReadList::default(),
            strangers: ReadList::default(),
            fairness: Fairness::default(),
            flush_list: FlushList::default(),
            lobby: Lobby::new(parts.config.lobby, order),
            sessions: Sessions::new(ports.len(), order),
            behind: BehindList::default(),
            lost_sessions: Vec::new(),
            late_sessions: Vec::new(),
            bind_count: 0,
            is_linked,
            pending: PendingLogons::default(),
            is_complete: None,
            complete_since: None,
            absent: AbsentSessions::new(parts.config.return_within),
            copies: Copies::new(first_records, parts.config.copies_retained_max, order),
            reception,
            reserved: ReservedNames::default(),
            ports,
            delivery: parts.delivery,
            recorder: parts.recorder,
            trace_ids: TraceIds::new(1),
            clock: parts.clock,
            config: parts.config,
            assignment: parts.assignment,
            imports: parts.imports,
            counters: GatewayCounters::default(),
            lines: Lines::default(),
            status: parts.status,
            record: Vec::with_capacity(1024),
            old_record: Vec::with_capacity(1024),
            timers: TimerWheel::new(Nanos(0)),
            status_at: Nanos(0),
            stop_by: Nanos(0),
            draining: parts.draining,
            stopping: false,
        })
    }

    /// Returns the number of definitions received.
    #[must_use]
    pub fn definition_count(&self) -> u64 {
        self.reception.directory.version()
    }

    /// Processes all existing events before any client is admitted, so that every session's streams
    /// and the directory are complete.
    pub fn take_in_the_past(&mut self, now: Nanos) {
        (0..self.ports.len()).for_each(|port| self.note_beginning(port));
        while self.pump_events(now) > 0 {}
        // Events from before this start were counted by an earlier run.
        self.counters.engine_refusals = ReasonCounts::default();
    }

    /// Records a session's firm, or none. Called for all sessions of a recovered engine before the
    /// past events are processed: its event log may have lost their definitions.
    pub fn know_firm(&mut self, id: SessionId, firm_id: FirmId) {
        let topic = self.copies.topic_of(firm_id);
        self.sessions.entry(id).topic = Some(topic);
    }

    /// Records an instrument's definition, with all changes, as a recovered engine has it. Called
    /// after the past events are processed: those before a checkpoint, and those that are gone, are
    /// not among them. Another partition's instrument is not recorded: its own engine knows it.
    pub fn know_instrument(&mut self, port: usize, definition: &DefineInstrument) {
        if port != 0 && definition.partition_id == self.ports[port].ring.partition_id {
            self.reception.directory.define_traded(definition);
        }
    }

    /// Aligns a session's stream with a recovered engine.
    pub fn agree(&mut self, port: usize, id: SessionId, next: EventNo, last: RequestNo) {
        self.sessions.agree(id, port, next, last);
    }

    /// Sets a flag once the sessions of the control log are known, those that its link had at its
    /// first opening, and the other links are open or have had some seconds.
    pub fn tell_when_complete(&mut self, is_complete: Arc<AtomicBool>) {
        self.is_complete = Some(is_complete);
    }

    /// Wakes the gateway's thread when this descriptor is readable: a disk's completions.
    ///
    /// # Errors
    /// When the poll refuses the descriptor.
    pub fn watch(&self, fd: std::os::fd::RawFd) -> std::io::Result<()> {
        self.poll.registry().register_fd(fd, DISK)
    }

    /// Connects the newcomers' thread: stores the gateway's ends of its rings, and returns a
    /// reception of its own that knows the same sessions. Must be called after the past events are
    /// processed.
    pub fn meet(&mut self, newcomers: NewcomersPort, rng: Box<dyn Rng + Send>) -> Reception {
        self.newcomers = Some(newcomers);
        self.reception.beside(rng)
    }

    /// Returns the directory of sessions for readers on other transports. Must be called after the
    /// past events are processed.
    #[must_use]
    pub fn directory_beside(&self, rng: &mut dyn Rng) -> Directory {
        self.reception.directory_beside(rng)
    }

    /// Admits connections whose first session is proved; returns their number.
    fn take_arrivals(&mut self, now: Nanos) -> usize {
        let mut count = 0;
        while count < ARRIVALS_MAX {
            let arrival = self.newcomers.as_mut().and_then(|from| from.arrivals.pop().ok());
            let Some(arrival) = arrival else { break };
            count += 1;
            self.admit(arrival, now);
        }
        count
    }

    fn admit(&mut self, arrival: Arrival, now: Nanos) {
        let Arrival { mut connection, lock, challenges } = arrival;
        let id = self.connections.reserve();
        connection.moves_to(id);
        let stream = connection.transport.stream();
        if self.poll.registry().register(stream, Token(id.slot())).is_err() {
            self.drop_connection(connection, now);
            return;
        }
        self.reception.take_over(id, challenges);
        self.lobby.enter(id, connection.peer.map(|peer| peer.ip()), now);
        self.log_on_arrival(&mut connection, &lock, now);
        self.set_timer(&mut connection, now);
        self.want_read(&mut connection);
        self.flush_list.add(&mut connection);
        self.connections.put_back(connection.id, connection);
    }

    /// Puts a connection back after reading; it stays in the list while it has more input.
    fn put_back(&mut self, mut connection: Box<Connection>) {
        if connection.must_wait || connection.readable {
            self.want_read(&mut connection);
        }
        self.connections.put_back(connection.id, connection);
    }

    /// Adds a connection to its read list, unless it is closing or must first read its answers.
    fn want_read(&mut self, connection: &mut Connection) {
        if connection.closing_by.is_some() || connection.waits_for_room || connection.logs_on {
            return;
        }
        match connection.sessions.is_empty() {
            true => self.strangers.add(connection),
            false => self.read_list.add(connection),
        }
    }

    /// Writes pending output; returns the number of connections.
    fn flush(&mut self, now: Nanos) -> usize {
        let ids = self.flush_list.take();
        let count = ids.len();
        for id in ids {
            let Some(mut connection) = self.connections.take(id) else { continue };
            connection.in_flush_list = false;
            let mut gone = connection.flush(now) == ReadOutcome::Gone;
            Gateway::stamp_egress(&mut connection, &mut self.recorder);
            gone |= connection.closing_by.is_some()
                && connection.output_len() == 0
                && connection.say_farewell(now);
            if gone {
                self.drop_connection(connection, now);
            } else {
                if connection.output_len() > 0 && connection.can_write() {
                    self.flush_list.add(&mut connection);
                }
                self.on_room(&mut connection);
                self.set_output_timer(&connection);
                self.connections.put_back(connection.id, connection);
            }
        }
        count
    }

    /// Resumes everything that waited for room in a connection's output.
    fn on_room(&mut self, connection: &mut Connection) {
        self.resume_pages(connection);
        self.resume_catching_up(connection);
        if connection.waits_for_room && connection.has_room(self.config.output_len_max) {
            connection.waits_for_room = false;
            self.want_read(connection);
        }
    }

    /// Serves work that orders do not wait for: deadlines, newcomers, strangers. Returns the amount
    /// of work done.
    fn serve_others(&mut self, is_open: bool, now: Nanos) -> usize {
        let mut done = self.run_timers(now);
        if is_open {
            // Closed connections make room for new ones.
            done += self.read_strangers(now);
            done += self.take_arrivals(now);
            done += self.lose_absent(now);
            self.submit_notices();
            self.wake_partitions();
        }
        self.flush(now);
        done
    }

    /// Passes pages through to their connections, up to [`PAGE_BYTES_MAX`] of them and the page
    /// that reaches it; returns their number.
    fn pump_pages(&mut self) -> usize {
        let (mut count, mut bytes) = (0, 0);
        while bytes < PAGE_BYTES_MAX
            && let Some(pages) = self.delivery.next_pages()
        {
            count += 1;
            bytes += pages.bytes.len();
            if let Some(connection) = self.connections.get_mut(pages.connection) {
                connection.put_pages(&pages.bytes);
                if !connection.pages_paused && !connection.has_room(self.config.output_len_max) {
                    connection.pages_paused = true;
                    self.delivery.set_writable(connection.id, false);
                }
                self.flush_list.add(connection);
            }
            self.delivery.recycle(pages.bytes);
        }
        count
    }

    /// Wakes the partitions to which this cycle submitted something.
    fn wake_partitions(&mut self) {
        for port in &mut self.ports {
            if std::mem::take(&mut port.handed_over) {
                port.ring.wake.wake();
            }
        }
        self.delivery.wake_if_asked();
    }

    /// Processes an event that is addressed to no session.
    fn on_unaddressed(&mut self, port: usize, event: &EventRecord<'_>, now: Nanos) {
        let Some(Event::Defined(_, definition)) = event.event() else { return };
        if let Definition::DefineSession(d) = &definition {
            // Each partition defines a session before it sends the session any event.
            self.know_firm(d.defined_session_id, d.firm_id);
        }
        if port != 0 {
            // Changes of an instrument are in the events of the partition that trades it.
            if let Definition::DefineInstrument(d) = &definition
                && d.partition_id == self.ports[port].ring.partition_id
            {
                self.reception.directory.define_traded(d);
            }
        } else {
            if let (Some(newcomers), Definition::DefineSession(d)) =
                (&mut self.newcomers, &definition)
                && !plant::is(Plant::DefinitionNotHandedOn)
            {
                newcomers.tell(*d);
            }
            let redefined = self.reception.directory.define(&definition);
            redefined.iter().for_each(|redefined| self.redefine(redefined, now));
        }
    }

    /// Publishes the counters and the instruments to other threads. Called before the first cycle
    /// too: others may read the instruments as soon as they serve.
    pub fn publish_status(&mut self) {
        self.counters.connections = self.connections.count() as u64;
        let checks = self.reception.directory.checks();
        self.counters.api_keys_checked = checks.api_keys;
        self.counters.signatures_checked = checks.signatures;
        self.counters.copy_streams = self.copies.stream_count() as u64;
        self.counters.copy_streams_behind =
            (self.copies.behind_count() + self.copies.asking_count()) as u64;
        self.counters.sessions = self.sessions.logged_on_count() as u64;
        let Some(mut status) = free(&self.status) else { return };
        status.counters.clone_from(&self.counters);
        let directory = &self.reception.directory;
        status.definitions = directory.version();
        if status.instruments_version != directory.instruments_version() {
            status.instruments_version = directory.instruments_version();
            status.instruments = directory.instruments();
        }
    }
}

/// Returns the status, unless a reader has it: no order waits for that one, which gets the next
/// figures.
fn free(status: &Mutex<GatewayStatus>) -> Option<MutexGuard<'_, GatewayStatus>> {
    match status.try_lock() {
        Ok(status) => Some(status),
        Err(TryLockError::Poisoned(status)) => Some(status.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl Poller for Gateway {
    fn poll(&mut self, timeout: Option<Duration>) {
        if let Err(error) = self.poll.poll(&mut self.poll_events, timeout) {
            assert!(
                error.kind() == std::io::ErrorKind::Interrupted,
                "the gateway's poll failed: {error}"
            );
            return;
        }
        for event in self.poll_events.iter() {
            match event.token {
                WAKER | DISK => {}
                Token(slot) => {
                    if let Some(connection) = self.connections.in_slot(slot) {
                        connection.on_ready(event);
                        let is_heard = connection.closing_by.is_none()
                            && !connection.waits_for_room
                            && !connection.logs_on;
                        match connection.sessions.is_empty() {
                            _ if !is_heard => {}
                            true => self.strangers.add(connection),
                            false => self.read_list.add(connection),
                        }
                        let is_writable = event.is_writable && !plant::is(Plant::FlushForgotten);
                        if is_writable && connection.output_len() > 0 {
                            self.flush_list.add(connection);
                        }
                    }
                }
            }
        }
    }

    fn waker(&self) -> std::io::Result<Waker> {
        self.poll.waker(WAKER)
    }
}

impl Agent for Gateway {
    fn name(&self) -> &'static str {
        "gateway"
    }

    fn do_work(&mut self, now: Nanos) -> usize {
        let is_open = !self.stopping && !self.draining.load(Ordering::Relaxed);
        let mut done = 0;
        self.look_for_room();
        // Where partitions share the thread, the agent runs twice per cycle, the second time for
        // their events: that run reads no input.
        if self.fairness.is_new_cycle(now) && is_open {
            done += self.read_sessions(now);
        }
        let has_orders = done > 0;
        done += self.serve_links(now);
        self.submit_notices();
        self.wake_partitions();
        done += self.take_history(now);
        // A session whose key was replaced ends there, and gets no page with later changes.
        done += self.pump_events(now);
        done += self.pump_pages();
        if !self.behind.is_empty() {
            done += self.catch_up(now);
        }
        if self.copies.behind_count() > 0 {
            done += self.catch_up_copies(now);
        }
        self.end_lost_sessions(now);
        done += self.flush(now);
        if self.fairness.is_turn_of_others(has_orders) {
            done += self.serve_others(is_open, now);
        }
        done
    }

    fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.follow_wall_clock(wall);
    }

    fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        let is_behind = !self.behind.is_empty() || self.copies.behind_count() > 0;
        let waits = !self.read_list.is_empty() || !self.strangers.is_empty();
        let has_notices = self.ports.iter().any(|port| !port.notices.is_empty());
        if waits || is_behind || has_notices {
            return Some(Nanos(now.0 + 500_000));
        }
        if !self.pending.is_empty() {
            return Some(Nanos(now.0 + 10_000_000));
        }
        let own = self.status_at.min(self.timers.look_again_at());
        // A gateway that stops takes no more time from those that have not returned.
        let is_open = !self.stopping && !self.draining.load(Ordering::Relaxed);
        let return_by = self.absent.deadline().filter(|_| is_open);
        Some(return_by.map_or(own, |return_by| own.min(return_by)))
    }

    fn stop(&mut self, now: Nanos) -> bool {
        if !self.stopping {
            self.stopping = true;
            // Connections admitted at the last moment get the farewell too.
            while self.take_arrivals(now) > 0 {}
            // The partitions' last events are sent before the farewell while there is room; clients
            // get the rest by resuming.
            while self.pump_events(now) > 0 {}
            while self.pump_pages() > 0 {}
            self.say_goodbye(now);
        }
        self.flush(now);
        self.connections.count() == 0 || now >= self.stop_by
    }
}
