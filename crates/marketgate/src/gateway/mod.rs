//! The market-data gateway: a feed in, subscribers served.
//!
//! ```text
//!  receive ──ring──► update ──ring──► flush 0 ─► subscribers
//!  sockets, lines,   books, first  ├─► flush 1 ─► subscribers
//!  codec             conflation    └─► …
//!     │└─ one thread where fused ──┘│     ▲ wishes: what subscribers want
//!     └─ datagrams, updates ────────┴─► post: audit, bars, statistics
//! ```
//! A client never gates a ring: a flush thread takes all that it is told and conflates for each of
//! its subscribers. Where flush itself is behind, states merge in the priority queue.
//!
//! * [`config`]: what can be set. [`assembly`]: how the threads are put together.
//! * [`receive`]: the receiving and the updating thread. [`update`]: books and the first stage;
//!   `batch`: what it takes together; `saying`: what it says of it.
//! * [`ring`], [`told`]: what crosses, and how.
//! * [`shm`]: the same messages in shared memory, for strategies on the same machine.
//! * [`flush`]: a flush thread. [`mirror`]: its books; `intake`: what subscribers say; [`writing`]:
//!   what they are told; `link`: one of them; [`local`]: those over HTTP.
//! * [`post`]: what is kept, on a thread of its own. [`figures`]: what is counted; [`stages`]:
//!   where the time of a message goes.

pub mod assembly;
mod batch;
pub mod config;
pub mod figures;
pub mod flush;
mod intake;
mod levels;
mod link;
pub mod local;
pub mod mirror;
pub mod post;
pub mod receive;
pub mod ring;
mod saying;
pub mod shm;
pub mod stages;
pub mod told;
pub mod update;
pub mod writing;

pub use config::MarketSection;
pub use figures::{MarketFigures, MarketReport};
