//! The ingest agent: the door of outside cores and of replicas, which hands their batches to the
//! store.
//!
//! A connection carries one session of the role `Source`, or `Supervisor` for a replica, or
//! `Operator` for one who resets a source. A full
//! ring, or a window of batches in front of the store, stops the reading of the connection that
//! they belong to, and of no other. The agent never looks into a batch.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weir_door::figures::add;
use weir_door::{
    ConnectionId, Door, DoorLimits, Intake, Limits, Link, Links, Listener, ListenerParts, Protocol,
    SessionMessage, Terms,
};
use weir_io::Rng;
use weir_partition::event_reader::EventReader;
use weir_types::{Nanos, PartitionId, Role, SessionId};
use weir_wire::ClientMessage;
use weir_wire::ingest::SOURCE_FRAME_LEN_MAX;
use weir_wire::session::NodeId;

use super::figures::IngestFigures;
use super::handoff::{IngestRequest, StorePort, StoreRequest};

/// An incomplete frame and some of the next, and output that a core may leave unread.
const LIMITS: Limits =
    Limits { input_len_max: 2 * SOURCE_FRAME_LEN_MAX, output_len_max: 256 * 1024 };

/// The time until the end of a connection is told again that found no room, in nanoseconds.
const RETRY_INTERVAL: u64 = 500_000;

/// The parts of the agent.
pub struct IngestParts {
    /// The source of connections.
    pub door: Door,
    /// The session that feeds each source.
    pub sources: Vec<(PartitionId, SessionId)>,
    /// Sources that this node follows on another node; replicas of the replica may follow them.
    pub followed: Vec<PartitionId>,
    /// The control log's events from the first retained one: the sessions.
    pub definitions: EventReader,
    /// The store.
    pub port: StorePort,
    /// The node's identity.
    pub node_id: NodeId,
    /// Draws nonces.
    pub rng: Box<dyn Rng + Send>,
    /// The limits on connections.
    pub limits: DoorLimits,
    /// Set when the node stops.
    pub draining: Arc<AtomicBool>,
    /// Figures for other threads.
    pub figures: Arc<IngestFigures>,
}

/// The agent.
pub type IngestAgent = Listener<Ingest>;

/// The protocol of outside cores and replicas.
pub struct Ingest {
    definitions: EventReader,
    pub(super) sources: Vec<(PartitionId, SessionId)>,
    pub(super) followed: Vec<PartitionId>,
    port: StorePort,
    /// Connections whose end the store does not know of yet.
    gone: Vec<ConnectionId>,
    has_asked: bool,
    pub(super) figures: Arc<IngestFigures>,
}

/// The state of a connection.
#[derive(Debug, Default)]
pub struct CoreState {
    /// The sources that it asked to open.
    pub(super) sources: Vec<PartitionId>,
    /// Bytes of the window that the store has not dealt with: of batches, and [`OPENING_COST`] for
    /// each opening.
    pub(super) under_way: usize,
}

/// Returns an agent that knows all sessions that the control log has defined.
///
/// # Errors
/// When the operating system refuses.
pub fn ingest_agent(parts: IngestParts) -> std::io::Result<IngestAgent> {
    let listener = ListenerParts {
        door: parts.door,
        node_id: parts.node_id,
        rng: parts.rng,
        limits: parts.limits,
        draining: parts.draining,
        figures: parts.figures.door.clone(),
    };
    let protocol = Ingest {
        definitions: parts.definitions,
        sources: parts.sources,
        followed: parts.followed,
        port: parts.port,
        gone: Vec::new(),
        has_asked: false,
        figures: parts.figures,
    };
    Listener::new(listener, protocol)
}

impl Ingest {
    /// Hands something to the store; false when there is no room.
    pub(super) fn ask(&mut self, connection: ConnectionId, what: StoreRequest) -> bool {
        let request = IngestRequest { connection: connection.0, what };
        let is_asked = self.port.requests.push(request).is_ok();
        self.has_asked |= is_asked;
        is_asked
    }

    /// Returns true if the store has been notified of all connections that have ended. It has to
    /// be, before it receives requests of their successors.
    pub(super) fn has_told_gone(&self) -> bool {
        self.gone.is_empty()
    }

    fn tell_gone(&mut self) {
        while let Some(id) = self.gone.first().copied() {
            if !self.ask(id, StoreRequest::Gone) {
                return;
            }
            self.gone.remove(0);
        }
    }

    /// Passes the store's answers on.
    fn take_answers(&mut self, links: &mut Links<CoreState>) -> usize {
        let mut count = 0;
        while let Ok(answer) = self.port.answers.pop() {
            count += 1;
            add(&self.figures.batches.refused, u64::from(answer.is_refusal));
            let id = ConnectionId(answer.connection);
            let Some(link) = links.get_mut(id) else { continue };
            link.state.under_way -= answer.taken_len;
            link.socket.output.extend_from_slice(&answer.bytes);
            links.touch(id);
        }
        count
    }
}

impl Protocol for Ingest {
    type State = CoreState;

    const TERMS: Terms = Terms {
        name: "ingest",
        section: "ingest",
        frame_len_max: SOURCE_FRAME_LEN_MAX,
        limits: LIMITS,
        inside_limits: LIMITS,
        read_len: 64 * 1024,
        // Answers are short and bounded in number: a core that leaves so many does not read.
        full_time_max: Nanos(0),
        is_exclusive: true,
    };

    fn next_control_event(&mut self, record: &mut Vec<u8>) -> bool {
        self.definitions.next_of_any_epoch(record).is_some()
    }

    fn may_enter(&self, role: Role) -> bool {
        matches!(role, Role::Source | Role::Supervisor | Role::Operator)
    }

    fn serves(message: &ClientMessage<'_>) -> bool {
        matches!(
            message,
            ClientMessage::OpenSource(_)
                | ClientMessage::SourceBatch(..)
                | ClientMessage::FollowSource(_)
                | ClientMessage::ResetSource(_)
        )
    }

    fn take(
        &mut self,
        link: &mut Link<CoreState>,
        said: SessionMessage<'_>,
        _now: Nanos,
    ) -> Intake {
        self.take_message(link, &said)
    }

    fn hear(&mut self, links: &mut Links<CoreState>, _now: Nanos) -> usize {
        let count = self.take_answers(links);
        self.tell_gone();
        count
    }

    fn produce(&mut self, _links: &mut Links<CoreState>, _now: Nanos) -> usize {
        if std::mem::take(&mut self.has_asked) {
            self.port.wake.wake();
        }
        0
    }

    fn gone(&mut self, link: &mut Link<CoreState>, _now: Nanos) {
        self.gone.push(link.id);
    }

    fn next_deadline(&self, _links: &Links<CoreState>, now: Nanos) -> Option<Nanos> {
        (!self.has_told_gone()).then_some(Nanos(now.0 + RETRY_INTERVAL))
    }
}
