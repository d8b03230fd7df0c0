//! The gateway's table of sessions: who is logged on where, and what each has been sent.

use std::collections::HashMap;

use weir_types::{EventNo, FirmId, Nanos, RequestNo, Role, SessionId, Switch};

use super::connection::ConnectionId;
use super::stream::Stream;

/// A session that has events or is logged on.
#[derive(Debug)]
pub struct Session {
    /// Its firm.
    pub firm_id: FirmId,
    /// What it may do.
    pub role: Role,
    /// The connection it is logged on through.
    pub connection: Option<ConnectionId>,
    /// Whether the loss of the connection cancels its orders.
    pub cancel_on_disconnect: Switch,
    /// How often something must be heard and said.
    pub heartbeat_interval: Nanos,
    /// When something was last said to it or heard from it.
    pub said_at: Nanos,
    /// When something was last heard from it.
    pub heard_at: Nanos,
    /// Its events, by the place of the partition in the gateway's list of ports.
    pub streams: Vec<Stream>,
}

/// All sessions.
#[derive(Debug, Default)]
pub struct Sessions {
    by_id: HashMap<SessionId, Session>,
    port_count: usize,
}

impl Sessions {
    /// An empty table for a gateway with so many ports.
    #[must_use]
    pub fn new(port_count: usize) -> Sessions {
        Sessions { by_id: HashMap::new(), port_count }
    }

    /// Agrees with a recovered engine on where a session stands.
    pub fn agree(&mut self, id: SessionId, port: usize, next: EventNo, last: RequestNo) {
        self.entry(id).streams[port].agree(next, last);
    }

    /// The session, made when it is not there yet.
    pub fn entry(&mut self, id: SessionId) -> &mut Session {
        let port_count = self.port_count;
        self.by_id.entry(id).or_insert_with(|| Session {
            firm_id: FirmId::NONE,
            role: Role::Trader,
            connection: None,
            cancel_on_disconnect: Switch::Off,
            heartbeat_interval: Nanos(0),
            said_at: Nanos(0),
            heard_at: Nanos(0),
            streams: (0..port_count).map(|_| Stream::unknown()).collect(),
        })
    }

    /// The session, if it is there.
    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.by_id.get_mut(&id)
    }

    /// The session, if it is there.
    #[must_use]
    pub fn get(&self, id: SessionId) -> Option<&Session> {
        self.by_id.get(&id)
    }

    /// The session, if it is logged on through this connection.
    pub fn logged_on(&mut self, id: SessionId, via: ConnectionId) -> Option<&mut Session> {
        self.by_id.get_mut(&id).filter(|session| session.connection == Some(via))
    }

    /// How many are logged on.
    #[must_use]
    pub fn logged_on_count(&self) -> usize {
        self.by_id.values().filter(|session| session.connection.is_some()).count()
    }
}

/// A stream that is behind: which session's, of which port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The session.
    pub session_id: SessionId,
    /// The port.
    pub port: usize,
}

/// The streams that are behind, each once.
#[derive(Debug, Default)]
pub struct BehindList {
    streams: Vec<Behind>,
}

impl BehindList {
    /// Adds a stream unless it is in the list.
    pub fn add(&mut self, behind: Behind) {
        if !self.streams.contains(&behind) {
            self.streams.push(behind);
        }
    }

    /// Takes the list; streams that stay behind are added again.
    pub fn take(&mut self) -> Vec<Behind> {
        std::mem::take(&mut self.streams)
    }

    /// True when nobody is behind.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }
}
