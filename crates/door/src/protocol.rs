//! The part of a listener that depends on its messages: a protocol's terms, its messages' outcomes,
//! and the trait that a door implements.
//!
//! A protocol owns no socket and no deadline of a connection; it appends output to connections and
//! never sends it. Its calls are bounded and do not block.

use weir_io::net::{Registry, Stream, Token};
use weir_types::{Nanos, Reason, Role, WallOffset};
use weir_wire::ClientMessage;
use weir_wire::frame::RawMessage;

use crate::directory::SessionChange;
use crate::links::{Link, Links};
use crate::{Limits, LoggedOn};

/// The terms of a protocol.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The name of the listener's agent.
    pub name: &'static str,
    /// The door's name in diagnostic lines: the section of the configuration that opens it.
    pub section: &'static str,
    /// Bytes of the longest frame.
    pub frame_len_max: usize,
    /// The limits of a connection's buffers.
    pub limits: Limits,
    /// The limits of the buffers of a connection from inside the node.
    pub inside_limits: Limits,
    /// Bytes read at once.
    pub read_len: usize,
    /// The time for which a connection's output may be full before the connection is ended with
    /// `SlowConsumer`.
    pub full_time_max: Nanos,
    /// True if a session can be on one connection at a time only.
    pub is_exclusive: bool,
}

/// The outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Intake {
    /// The message has been handled.
    Done,
    /// It found no room: it is taken again later, and before those that follow it.
    Wait,
    /// It has no place: the peer gets a `Reject` with the reason and the field, and 16 such
    /// messages end the connection.
    Refused(Reason, &'static str),
}

/// A message of a session that is logged on.
#[derive(Clone, Copy, Debug)]
pub struct SessionMessage<'a> {
    /// The message.
    pub message: &'a ClientMessage<'a>,
    /// Its header and body.
    pub raw: &'a RawMessage<'a>,
    /// Its whole frame.
    pub frame: &'a [u8],
    /// The session that the connection carries, which the message names.
    pub session: LoggedOn,
}

/// A message of a session that is logged on, of a template that the listener may not know.
#[derive(Clone, Copy, Debug)]
pub struct OwnMessage<'a> {
    /// Its header and body.
    pub raw: &'a RawMessage<'a>,
    /// The length of its frame.
    pub len: usize,
    /// The session that the connection carries.
    pub session: LoggedOn,
}

/// The part of a door that depends on its messages.
///
/// In each cycle the listener calls [`hear`](Protocol::hear), then [`take`](Protocol::take) for
/// each message, then [`produce`](Protocol::produce), then [`flushed`](Protocol::flushed) for each
/// connection that was written to. Each connection that has ended is told by
/// [`gone`](Protocol::gone) before the next of these calls.
pub trait Protocol: Send {
    /// The state of one connection.
    type State: Default + Send;

    /// The protocol's terms.
    const TERMS: Terms;

    /// Copies the control log's next event into `record`; false when there is none.
    fn next_control_event(&mut self, record: &mut Vec<u8>) -> bool;

    /// A session that had been defined was defined anew, behind the start of the listener, which
    /// ends the session's own connections where it has to. Told before any later message.
    fn redefined(&mut self, change: &SessionChange) {
        let _ = change;
    }

    /// Returns the most connections that may carry one session.
    fn session_connections_max(&self) -> u32 {
        u32::MAX
    }

    /// Returns true if sessions of this role may log on.
    fn may_enter(&self, role: Role) -> bool;

    /// Returns true if the message belongs to this protocol; others are refused with
    /// `NotServedHere`.
    fn serves(message: &ClientMessage<'_>) -> bool;

    /// Takes a message of the protocol's own, which no [`ClientMessage`] is; `None` for others.
    fn take_own(
        &mut self,
        link: &mut Link<Self::State>,
        said: OwnMessage<'_>,
        now: Nanos,
    ) -> Option<Intake> {
        let _ = (link, said, now);
        None
    }

    /// Takes a message that the protocol serves.
    fn take(
        &mut self,
        link: &mut Link<Self::State>,
        said: SessionMessage<'_>,
        now: Nanos,
    ) -> Intake;

    /// Produces output, within a bound, for connections that have room; returns how much it did.
    fn produce(&mut self, links: &mut Links<Self::State>, now: Nanos) -> usize;

    /// Takes in news from other threads before connections are read; returns how much it did.
    fn hear(&mut self, links: &mut Links<Self::State>, now: Nanos) -> usize {
        let _ = (links, now);
        0
    }

    /// The wall clock has this distance from now on, for stamps.
    fn wall_clock_moved(&mut self, wall: WallOffset) {
        let _ = wall;
    }

    /// A session has logged on: its acknowledgement is in the output.
    fn logged_on(&mut self, link: &mut Link<Self::State>, session: LoggedOn, now: Nanos) {
        let _ = (link, session, now);
    }

    /// A connection's output was handed to its socket. `had_room` is true if it had room before.
    fn flushed(&mut self, link: &mut Link<Self::State>, had_room: bool) {
        let _ = (link, had_room);
    }

    /// A connection has ended: the peer is gone, or this end has closed it, and its farewell may
    /// not be sent yet. Its session may log on again, and [`Links`] no longer has it.
    fn gone(&mut self, link: &mut Link<Self::State>, now: Nanos) {
        let _ = (link, now);
    }

    /// Publishes figures, twenty times a second.
    fn show(&mut self, links: &Links<Self::State>, now: Nanos) {
        let _ = (links, now);
    }

    /// The time of the next cycle that the protocol needs although no event comes.
    fn next_deadline(&self, links: &Links<Self::State>, now: Nanos) -> Option<Nanos> {
        let _ = (links, now);
        None
    }

    /// Returns true if connections are accepted; refused ones are counted.
    fn is_serving(&self) -> bool {
        true
    }

    /// The next connection from inside the node.
    fn next_inside(&mut self) -> Option<Stream> {
        None
    }

    /// Registers a socket of the protocol's own under `token`.
    ///
    /// # Errors
    /// When the operating system refuses.
    fn begin(&mut self, registry: Registry<'_>, token: Token) -> std::io::Result<()> {
        let _ = (registry, token);
        Ok(())
    }

    /// The socket of the protocol's own has an event.
    fn own_is_ready(&mut self) {}

    /// The node stops: connections have got their farewell.
    fn stop(&mut self) {}
}
