//! The way in: listeners, transports, TLS handshakes, proofs of identity, and the rights of a
//! session.
//!
//! * [`transport`], [`handshakes`]: a connection's bytes, plain or through TLS. [`entrance`]: a
//!   listening socket or the thread of handshakes, as a source of connections.
//! * [`socket`]: a connection with bounded input and output and with deadlines. [`table`]: a door's
//!   connections by slot.
//! * [`listener`]: the agent of a door, generic over its [`protocol`]; [`links`]: its connections;
//!   [`figures`]: its counters.
//! * [`reception`]: the decision on a logon, by [`directory`], [`keys`] and [`challenges`];
//!   [`logon`]: a logon at a door without streams to resume. [`lobby`]: limits per address on
//!   connections without a session. [`takeover`]: the terms on which a logon ends its session on
//!   another connection.
//! * [`entitlement`]: the orders that a session may see. [`reader_rings`], [`reader_ports`]: the
//!   rings between doors and the agent that serves order state.
//! * [`words`]: the heartbeats and refusals that every door sends. [`seeded_map`]: the hash map of
//!   doors, in an order that a seed decides.
//!
//! The doors of outside cores, of subscribers and of market data are listeners. The gateway, which
//! counts an order's time from its first byte, has its own connections and shares the rest.

pub mod challenges;
pub mod connection_id;
pub mod directory;
pub mod entitlement;
pub mod entrance;
pub mod figures;
pub mod handshakes;
pub mod keys;
mod lines;
pub mod links;
pub mod listener;
pub mod lobby;
pub mod logon;
pub mod plant;
pub mod protocol;
pub mod reader_ports;
pub mod reader_rings;
pub mod reception;
pub mod seeded_map;
pub mod socket;
pub mod strangers;
pub mod table;
pub mod takeover;
pub mod transport;
pub mod words;

pub use connection_id::{ConnectionId, DoorNo};
pub use entrance::{Door, Entrance};
pub use figures::{DoorFigures, DoorReport};
pub use links::{Link, Links};
pub use listener::{DoorLimits, Listener, ListenerParts};
pub use logon::{LoggedOn, LogonOutcome, ProvedLogon, take_logon};
pub use protocol::{Intake, OwnMessage, Protocol, SessionMessage, Terms};
pub use socket::{Limits, Scratch, Socket};
pub use words::{reason_of, reject};
