//! The client of a Weir node: order entry, order state by token, an operator's requests, load.
//!
//! Everything runs in the caller's thread over non-blocking sockets; nothing spawns. State machines
//! ([`session`], [`follower`]) do no I/O, so that they are tested without any; [`client`] puts them
//! on a connection, and [`state`], [`source`] and [`subscription`] come back after its loss.
//!
//! * [`connection`]: frames over TCP or TLS, bounded both ways.
//! * [`session`]: request numbers, gaps, resume, what to send again.
//! * [`key`]: what a session proves itself by.
//! * [`client`]: a connection and its sessions.
//! * [`follower`]: order state by token; [`open_orders`]: what is live now, once.
//! * [`state`]: followers and a session's orders over losses of the connection.
//! * [`drop_copy`]: copies of a firm's reports, in order and without a gap.
//! * [`source`]: an outside core's orders on their way into a delivery store.
//! * [`subscription`]: durable subscriptions, and messages for others.
//! * [`market`]: market data from a gateway; [`market_ring`]: the same on its machine, from memory.
//! * [`admin`]: reference data, money, phases, kill switches.
//! * [`status`]: the node's status page.
//! * [`flow`]: recorded order flow as orders.
//! * [`load`]: open-loop load and what it measures; [`echo`], [`echo_many`]: a round trip's
//!   yardstick. [`emulate`]: cores and followers of a venue that is not there.

pub mod admin;
pub mod client;
pub mod clock;
pub mod connection;
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
pub mod readiness;
pub mod request;
pub mod session;
pub mod source;
pub mod state;
pub mod status;
pub mod subscription;

pub use admin::Admin;
pub use client::{Client, Incoming};
pub use connection::{Connection, Limits, Target, resolve};
pub use drop_copy::{DropCopy, DropCopyReader};
pub use error::ClientError;
pub use follower::{Follower, FollowerConfig};
pub use key::{Key, SigningKey};
pub use market::{MarketClient, Wanted};
pub use market_ring::{MarketRing, RingEvent};
pub use open_orders::OpenOrders;
pub use session::{Session, SessionConfig, SessionEvent, Submit, Times};
pub use source::{SourceConfig, SourceEvent, SourceWriter};
pub use state::{StateClient, StateEvent};
pub use subscription::{BrokerClient, BrokerEvent, Publisher, Subscription};
