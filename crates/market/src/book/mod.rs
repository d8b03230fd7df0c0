//! Order books built from updates: resting orders, best bid and offer, trade statistics.
//!
//! [`Books`] takes [`Update`](weir_feed::Update)s one at a time or in batches and reports the
//! change that each makes. It holds every instrument of a feed. Its state depends on the updates
//! alone, so that two instances that took the same updates hold the same state.
//!
//! There are three kinds of book: by order, by price, and quotes, where the feed itself states the
//! best bid and offer. An instrument has the kind of its first update until it is cleared. An
//! impossible update is an [`Anomaly`]: it is counted by kind and reported with the change, and the
//! instrument is SUSPECT until it is cleared. Nothing allocates once there is room for everything
//! that rests at the same time.

mod ahead;
mod anomaly;
mod arena;
mod books;
mod change;
mod config;
pub(crate) mod directory;
pub(crate) mod index;
mod instrument;
mod ladder;
mod prices;
mod queue;
mod quotes;
mod snapshot;
mod statistics;
mod store;
mod trades;
mod view;

pub use anomaly::{Anomaly, AnomalyCounts, AnomalySet};
pub use books::Books;
pub use change::{BestBidOffer, BestChange, BookLevel, Change, LevelChange, TradePrint};
pub use config::{BooksConfig, OrderIds};
pub use instrument::BookKind;
pub use statistics::Statistics;
pub use view::{QueuePosition, RestingOrder, VenueQuote};
