//! The client of a Weir node: order entry, order state by token, an operator's requests, load.
//!
//! Everything runs in the caller's thread over non-blocking sockets; nothing is spawned. State
//! machines ([`session`], [`follower`]) do no I/O, so that they can be tested without it;
//! [`client`] puts them on a connection, and [`state`], [`source`] and [`subscription`] reconnect
//! after its loss.
//!
//! * [`connection`]: frames over TCP or TLS, with bounded buffers.
//! * [`session`]: request numbers, gaps, resume, retransmission of requests.
//! * [`key`]: the key of a session's logon.
//! * [`client`]: a connection and its sessions.
//! * [`follower`]: order state by token; [`open_orders`]: a one-time list of live orders.
//! * [`state`]: followers and a session's orders across losses of the connection.
//! * [`drop_copy`]: copies of a firm's reports, in order and without gaps.
//! * [`source`]: feeding an outside core's orders into a delivery store.
//! * [`subscription`]: durable subscriptions, and messages to other sessions.
//! * [`market`]: market data from a gateway; [`market_ring`]: the same on its machine, from memory.
//! * [`admin`]: reference data, transfers, phases, kill switches.
//! * [`status`]: the node's status page.
//! * [`flow`]: recorded order flow as orders. [`plant`]: bugs for its tests to find.
//! * [`load`]: open-loop load and its measurement; [`echo`], [`echo_many`]: the baseline of a round
//!   trip. [`emulate`]: emulated cores and followers of a venue.

pub mod admin;
pub mod client;
pub mod clock;
pub mod connection;
mod copied_report;
pub mod drop_copy;
pub mod echo;
pub mod echo_many;
pub mod emulate;
pub mod error;
pub mod flow;
pub mod follower;
pub mod key;
pub mod load;
pub mod market;
pub mod market_ring;
pub mod open_orders;
pub mod plant;
pub mod readiness;
pub mod request;
pub mod session;
pub mod source;
pub mod source_message;
pub mod state;
pub mod status;
pub mod subscription;
mod wait;

pub use admin::Admin;
pub use client::{Client, Incoming};
pub use connection::{Connection, Limits, Target, resolve};
pub use drop_copy::{DropCopy, DropCopyReader};
pub use error::{AddressFailure, ClientError};
pub use follower::{Follower, FollowerConfig};
pub use key::{Key, SigningKey};
pub use market::{MarketClient, Wanted};
pub use market_ring::{MarketRing, RingEvent};
pub use open_orders::OpenOrders;
pub use session::{Session, SessionConfig, SessionEvent, Submit, Times};
pub use source::{SourceConfig, SourceEvent, SourceWriter};
pub use state::{StateClient, StateEvent};
pub use subscription::{BrokerClient, BrokerEvent, Publisher, Subscription};
