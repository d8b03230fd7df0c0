//! The way in: listeners, transports, TLS handshakes, proofs of identity, and the rights of a
//! session.
//!
//! * [`transport`], [`handshakes`]: a connection's bytes, plain or through TLS. [`entrance`]: a
//!   listening socket or the thread of handshakes, as a source of connections.
//! * [`socket`]: a connection with bounded input and output and with deadlines.
//! * [`reception`]: the decision on a logon, by [`directory`], [`keys`] and [`challenges`];
//!   [`logon`]: a logon at a door without streams to resume. [`lobby`]: limits per address on
//!   connections without a session.
//! * [`entitlement`]: the orders that a session may see. [`reader_rings`], [`reader_ports`]: the
//!   rings between doors and the agent that serves order state.
//! * [`words`]: the refusals that every door may send.
//!
//! The doors of outside cores, of subscribers and of market data are made of these. The gateway,
//! which counts an order's time from its first byte, has its own connections and shares the rest.

pub mod challenges;
pub mod connection_id;
pub mod directory;
pub mod entitlement;
pub mod entrance;
pub mod handshakes;
pub mod keys;
pub mod lobby;
pub mod logon;
pub mod reader_ports;
pub mod reader_rings;
pub mod reception;
pub mod socket;
pub mod transport;
pub mod words;

pub use connection_id::{ConnectionId, DoorNo};
pub use entrance::{Door, Entrance};
pub use logon::{LoggedOn, Welcome, take_logon};
pub use socket::{Limits, Scratch, Socket};
pub use words::{reason_of, reject};
