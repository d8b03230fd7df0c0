//! The door of a node's partitions: the listener to which gateway processes connect.
//!
//! A connection belongs to one gateway's session, of the role `Gateway`, and after `OpenLink` to
//! one partition. A later connection of the same session to the same partition takes its place. The
//! listener accepts, logs on and moves bytes; the partitions' ends decide the rest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weir_door::directory::SessionChange;
use weir_door::{
    ConnectionId, Door, DoorLimits, Intake, Limits, Link, Links, Listener, ListenerParts,
    OwnMessage, Protocol, SessionMessage, Terms,
};
use weir_io::Rng;
use weir_link::codec::FRAME_LEN_MAX;
use weir_link::grants::Claimant;
use weir_link::partition_end::Revocation;
use weir_link::{Arrived, PartitionView as _, ToPartition};
use weir_partition::control_import::ImportProgress;
use weir_partition::event_reader::EventReader;
use weir_types::{Nanos, PartitionId, Reason, Role, SessionId, Switch, WallOffset};
use weir_wire::message::DecodeError;
use weir_wire::session::NodeId;
use weir_wire::{ClientMessage, Definition, Event, SCHEMA_VERSION};

use crate::control::{Control, refuse_claim};
use crate::expiries::Expiries;
use crate::figures::LinksBoard;
use crate::partition::LinkedPartition;

/// The templates of a link's messages.
const TEMPLATES: std::ops::Range<u16> = 130..160;
/// An incomplete frame and some of the next, and the output at which no more is made.
const LIMITS: Limits = Limits { input_len_max: 2 * FRAME_LEN_MAX, output_len_max: 512 * 1024 };
/// The time until commands are tried again that found no room in a ring, in nanoseconds.
const RETRY_INTERVAL: u64 = 500_000;
/// The time between looks at records that cannot be read yet, in nanoseconds.
const LOOK_INTERVAL: u64 = 5_000_000;
/// The time between looks at leases, silence and retention, in nanoseconds.
const CARE_INTERVAL: u64 = 250_000_000;

/// The parts of the door.
pub struct LinkDoorParts {
    /// The source of connections.
    pub door: Door,
    /// The control log's events from the first one: the sessions.
    pub definitions: EventReader,
    /// The progress of the control importer.
    pub imports: ImportProgress,
    /// The partitions, control first.
    pub partitions: Vec<LinkedPartition>,
    /// The grants.
    pub control: Control,
    /// The node's identity.
    pub node_id: NodeId,
    /// Draws nonces.
    pub rng: Box<dyn Rng + Send>,
    /// The limits on connections.
    pub limits: DoorLimits,
    /// Set when the node stops.
    pub draining: Arc<AtomicBool>,
    /// Figures for other threads.
    pub board: Arc<LinksBoard>,
}

/// The agent of the door.
pub type LinkDoorAgent = Listener<LinkDoor>;

/// The protocol of links.
pub struct LinkDoor {
    definitions: EventReader,
    imports: ImportProgress,
    partitions: Vec<LinkedPartition>,
    control: Control,
    /// The connection of each gateway to each partition, by the partition's index.
    connections: BTreeMap<(usize, SessionId), ConnectionId>,
    /// Connections to be ended, with the reason.
    endings: Vec<(ConnectionId, Reason)>,
    expiries: Expiries,
    next_care: Nanos,
    board: Arc<LinksBoard>,
}

/// The state of a connection.
#[derive(Debug, Default)]
pub struct LinkState {
    /// The index of the partition that it has opened.
    partition: Option<usize>,
    /// True once it has broken a rule: it is heard no more.
    has_failed: bool,
}

/// Returns an agent that knows all sessions that the control log has defined.
///
/// # Errors
/// When the operating system refuses.
pub fn link_door(parts: LinkDoorParts) -> std::io::Result<LinkDoorAgent> {
    let listener = ListenerParts {
        door: parts.door,
        node_id: parts.node_id,
        rng: parts.rng,
        limits: parts.limits,
        draining: parts.draining,
        figures: parts.board.door.clone(),
    };
    let protocol = LinkDoor {
        definitions: parts.definitions,
        imports: parts.imports,
        partitions: parts.partitions,
        control: parts.control,
        connections: BTreeMap::new(),
        endings: Vec::new(),
        expiries: Expiries::default(),
        next_care: Nanos(0),
        board: parts.board,
    };
    Listener::new(listener, protocol)
}

impl LinkDoor {
    /// Ends a connection soon, and hears it no more.
    fn fail(&mut self, link: &mut Link<LinkState>, reason: Reason) {
        link.state.has_failed = true;
        self.endings.push((link.id, reason));
        self.leave(link);
    }

    /// A connection is the gateway's link no more.
    fn leave(&mut self, link: &mut Link<LinkState>) {
        let Some(partition) = link.state.partition.take() else { return };
        let key = (partition, link.session_id());
        if self.connections.get(&key) == Some(&link.id) {
            self.connections.remove(&key);
            self.partitions[partition].end.disconnected(key.1);
            let partition = self.partitions[partition].id().0;
            tracing::info!(gateway = key.1.0, partition, "a gateway's link is away");
        }
    }

    /// A connection opens a link: it takes the place of an earlier one.
    fn enter(&mut self, link: &mut Link<LinkState>, partition_id: PartitionId) -> Option<usize> {
        let partition = self.partitions.iter().position(|one| one.id() == partition_id)?;
        self.leave(link);
        let key = (partition, link.session_id());
        if let Some(before) = self.connections.insert(key, link.id) {
            self.endings.push((before, Reason::TakenOver));
            self.partitions[partition].end.disconnected(key.1);
        }
        if partition == 0 {
            self.control.begins_to_name(key.1);
        }
        tracing::info!(gateway = key.1.0, partition = partition_id.0, "a gateway opens its link");
        link.state.partition = Some(partition);
        Some(partition)
    }

    fn take_message(
        &mut self,
        link: &mut Link<LinkState>,
        message: &ToPartition<'_>,
        arrived: Arrived<'_>,
    ) {
        let gateway = link.session_id();
        if let ToPartition::OpenLink(open) = message
            && self.enter(link, open.partition_id).is_none()
        {
            return self.fail(link, Reason::WrongPartition);
        }
        let Some(partition) = link.state.partition else {
            return self.fail(link, Reason::TooManyErrors);
        };
        if self.connections.get(&(partition, gateway)) != Some(&link.id) {
            // Another connection has taken its place, and its end is on the way.
            return;
        }
        if partition == 0 && self.take_for_control(link, message, arrived.at) {
            return;
        }
        let LinkedPartition { end, side, .. } = &mut self.partitions[partition];
        if let Err(fault) = end.take(gateway, arrived, side) {
            tracing::warn!(gateway = gateway.0, %fault, "a link is closed");
            self.fail(link, fault.reason());
        }
    }

    /// Takes a message for the grants; false if it is none.
    fn take_for_control(
        &mut self,
        link: &mut Link<LinkState>,
        message: &ToPartition<'_>,
        now: Nanos,
    ) -> bool {
        let gateway = link.session_id();
        let Some(incarnation) = self.partitions[0].end.connected_as(gateway) else { return false };
        let by = Claimant { gateway, incarnation };
        match message {
            ToPartition::ClaimSession(claim) => {
                let LinkedPartition { end, side, .. } = &mut self.partitions[0];
                let refused = side.refused_to_gateways(claim.bound_session_id);
                if let Some(reason) = refused.or(self.expiries.refused(claim.bound_session_id, now))
                {
                    refuse_claim(end, gateway, claim.bound_session_id, reason);
                } else if !self.control.claim(gateway, *claim) {
                    self.fail(link, Reason::WindowOverrun);
                }
            }
            ToPartition::ReleaseSession(release) => {
                self.control.release(by, release.bound_session_id, release.generation);
            }
            ToPartition::KeepClaims(keep, grants) => {
                let grants = grants.clone().flatten();
                let passed_over = grants.filter(|held| !self.control.restore(by, held, now));
                let count = passed_over.count();
                if count > 0 {
                    // Those of before a change of the key: their sessions are claimed anew.
                    tracing::warn!(gateway = gateway.0, count, "grants without a good seal");
                }
                if keep.is_last == Switch::On {
                    self.control.all_named(by);
                }
            }
            _ => return false,
        }
        true
    }

    /// Hands the output of a partition's end to its connections; returns the number of records.
    fn pump(&mut self, partition: usize, links: &mut Links<LinkState>, now: Nanos) -> u64 {
        let LinkedPartition { end, side, .. } = &mut self.partitions[partition];
        let range = (partition, SessionId(0))..=(partition, SessionId(u32::MAX));
        let mut count = 0;
        for ((_, gateway), id) in self.connections.range(range) {
            let Some(link) = links.get_mut(*id) else { continue };
            if !link.socket.has_room() {
                // The listener reads no input of such a connection either.
                end.held_back(*gateway, now);
                continue;
            }
            count += end.pump(*gateway, side, now);
            let output = end.take_output(*gateway);
            if !output.is_empty() {
                link.socket.output.extend_from_slice(&output);
                links.touch(*id);
            }
        }
        count
    }

    fn end_connections(&mut self, links: &mut Links<LinkState>, now: Nanos) {
        for (id, reason) in std::mem::take(&mut self.endings) {
            links.end(id, reason, now);
        }
    }

    /// Lets the partitions work. A gateway hears of no definition that the control importer has not
    /// followed, and a partition gets commands once it has all that gateways may have heard of.
    fn work(&mut self) -> usize {
        let followed = self.imports.followed();
        let Some((control, trading)) = self.partitions.split_first_mut() else { return 0 };
        let mut done = control.take_in(followed) + control.hand_on();
        let told = control.side.end_record() - 1;
        for (index, partition) in trading.iter_mut().enumerate() {
            done += partition.take_in(u64::MAX);
            if self.imports.has_handed(index, told) {
                done += partition.hand_on();
            }
        }
        done
    }

    /// Takes a session's rights away at all partitions: its gateway may not hear of it. A binding
    /// by a later grant stands.
    fn revoke(&mut self, session_id: SessionId, reason: Reason) {
        let is_defined = reason != Reason::KeyExpired;
        let next_record = is_defined.then(|| self.definitions.next_record());
        let good_from = self.control.revoke(session_id, next_record);
        let revocation = Revocation { session_id, good_from, reason };
        self.partitions.iter_mut().for_each(|partition| partition.end.revoke(&revocation));
    }

    /// Ends the links of gateways that are silent, or that lack records which are gone, and the
    /// bindings of sessions whose key has expired.
    fn care(&mut self, now: Nanos) {
        if now < self.next_care {
            return;
        }
        self.next_care = Nanos(now.0 + CARE_INTERVAL);
        for session_id in self.expiries.take_due(now) {
            self.revoke(session_id, Reason::KeyExpired);
        }
        for (index, partition) in self.partitions.iter_mut().enumerate() {
            let range = (index, SessionId(0))..=(index, SessionId(u32::MAX));
            let gateways = self.connections.range(range).map(|((_, gateway), _)| *gateway);
            partition.keep_for(gateways);
            partition.note_load();
            let lapsed = partition.end.figures().lapsed;
            for gateway in partition.end.tick(now) {
                let id = self.connections.get(&(index, gateway)).copied();
                self.endings.extend(id.map(|id| (id, Reason::HeartbeatLost)));
            }
            let count = partition.end.figures().lapsed - lapsed;
            if count > 0 {
                let partition = partition.id().0;
                tracing::warn!(partition, count, "sessions are lost: their gateway was away");
            }
            let range = (index, SessionId(0))..=(index, SessionId(u32::MAX));
            for ((_, gateway), id) in self.connections.range(range) {
                if partition.has_lost(*gateway) {
                    self.endings.push((*id, Reason::SlowConsumer));
                }
            }
        }
        self.show_figures();
    }

    fn show_figures(&self) {
        let partitions = self.partitions.iter().map(LinkedPartition::report);
        let gateways = self.partitions.iter().flat_map(LinkedPartition::gateway_reports);
        self.board.show(partitions.collect(), gateways.collect());
    }
}

impl Protocol for LinkDoor {
    type State = LinkState;

    const TERMS: Terms = Terms {
        name: "links",
        section: "link",
        frame_len_max: FRAME_LEN_MAX,
        limits: LIMITS,
        inside_limits: LIMITS,
        read_len: 128 * 1024,
        full_time_max: Nanos(10_000_000_000),
        // A gateway has a connection to each partition.
        is_exclusive: false,
    };

    fn next_control_event(&mut self, record: &mut Vec<u8>) -> bool {
        if self.definitions.next_of_any_epoch(record).is_none() {
            return false;
        }
        if let Ok(Event::Defined(_, Definition::DefineSession(d))) = Event::decode(record) {
            self.expiries.define(&d);
            let is_trader = d.role == Role::Trader;
            for partition in &mut self.partitions {
                partition.side.note_role(d.defined_session_id, is_trader);
            }
        }
        true
    }

    fn redefined(&mut self, change: &SessionChange) {
        let reason = change.reason_to_end(change.before.firm_id, change.before.role);
        if let Some(reason) = reason {
            tracing::info!(session = change.session_id.0, ?reason, "a session's bindings end");
            self.revoke(change.session_id, reason);
        }
    }

    fn wall_clock_moved(&mut self, wall: WallOffset) {
        self.expiries.wall_clock_moved(wall);
    }

    fn session_connections_max(&self) -> u32 {
        // Those that are made again may come before the end of the ones before.
        2 * self.partitions.len() as u32
    }

    fn may_enter(&self, role: Role) -> bool {
        role == Role::Gateway
    }

    fn serves(_message: &ClientMessage<'_>) -> bool {
        false
    }

    fn take_own(
        &mut self,
        link: &mut Link<LinkState>,
        said: OwnMessage<'_>,
        now: Nanos,
    ) -> Option<Intake> {
        if !TEMPLATES.contains(&said.raw.template_id) {
            return None;
        }
        if link.state.has_failed {
            return Some(Intake::Done);
        }
        if let Some(partition) = link.state.partition {
            let end = &mut self.partitions[partition].end;
            if end.is_full(said.session.session_id) {
                end.held_back(said.session.session_id, now);
                return Some(Intake::Wait);
            }
        }
        match ToPartition::decode(said.raw) {
            Ok(message) => {
                let arrived = Arrived { raw: *said.raw, len: said.len, at: now };
                self.take_message(link, &message, arrived);
                Some(Intake::Done)
            }
            // Of a later version, which this one does not know.
            Err(DecodeError::UnknownTemplate(_)) if said.raw.version > SCHEMA_VERSION => {
                Some(Intake::Done)
            }
            Err(error) => Some(Intake::Refused(error.reason(), error.field())),
        }
    }

    fn take(
        &mut self,
        _link: &mut Link<LinkState>,
        _said: SessionMessage<'_>,
        _now: Nanos,
    ) -> Intake {
        Intake::Refused(Reason::NotServedHere, "")
    }

    fn produce(&mut self, links: &mut Links<LinkState>, now: Nanos) -> usize {
        let mut done = 0;
        done += self.work();
        if let Some(control) = self.partitions.first_mut() {
            done += self.control.answer(&mut control.end, now);
        }
        self.care(now);
        for index in 0..self.partitions.len() {
            done += usize::try_from(self.pump(index, links, now)).unwrap_or(usize::MAX);
        }
        self.end_connections(links, now);
        done
    }

    fn gone(&mut self, link: &mut Link<LinkState>, _now: Nanos) {
        self.leave(link);
    }

    fn next_deadline(&self, _links: &Links<LinkState>, now: Nanos) -> Option<Nanos> {
        if self.partitions.iter().any(LinkedPartition::has_waiting) {
            return Some(Nanos(now.0 + RETRY_INTERVAL));
        }
        let look = (!self.connections.is_empty()).then_some(Nanos(now.0 + LOOK_INTERVAL));
        look.into_iter().chain(self.control.next_deadline(now)).min()
    }
}
